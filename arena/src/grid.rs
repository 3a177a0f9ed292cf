//! A uniform grid of cells over the map, each with a list of the things that overlap it.
//!
//! Obstacles do not move, so the lists are built once, in one array. The grid only narrows the
//! choice; the caller makes the exact test. It supports places in `f64` ([`Grid`]) and, in
//! [`crate::collision`], integer ones.

use crate::geometry::{Bounds, Point, Segment};

/// A rectangle of cells, including all four borders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CellRange {
    pub columns: (usize, usize),
    pub rows: (usize, usize),
}

/// The lists of all cells, one after the other: cell `c` owns `items[starts[c]..starts[c + 1]]`.
#[derive(Debug, Clone)]
pub(crate) struct CellLists {
    width: usize,
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl CellLists {
    /// Lists for `width` × `width` cells; thing `i` overlaps the cells of `reach[i]`.
    pub fn build(width: usize, reach: &[CellRange]) -> Self {
        let cells_of = |range: &CellRange| {
            let (columns, rows) = (range.columns, range.rows);
            (rows.0..=rows.1)
                .flat_map(move |row| (columns.0..=columns.1).map(move |c| row * width + c))
        };
        let mut starts = vec![0u32; width * width + 1];
        for cell in reach.iter().flat_map(cells_of) {
            starts[cell + 1] += 1;
        }
        for cell in 0..width * width {
            starts[cell + 1] += starts[cell];
        }
        let mut next = starts.clone();
        let mut items = vec![0; starts[width * width] as usize];
        for (thing, range) in reach.iter().enumerate() {
            for cell in cells_of(range) {
                items[next[cell] as usize] = thing as u32;
                next[cell] += 1;
            }
        }
        Self { width, starts, items }
    }

    /// The things that overlap a cell, in ascending order.
    pub fn at(&self, column: usize, row: usize) -> &[u32] {
        let cell = row * self.width + column;
        &self.items[self.starts[cell] as usize..self.starts[cell + 1] as usize]
    }

    /// Cells along one side.
    pub fn width(&self) -> usize {
        self.width
    }
}

/// [`CellLists`] over the square `0..side` in world units.
#[derive(Debug, Clone)]
pub(crate) struct Grid {
    side: f64,
    cell: f64,
    lists: CellLists,
}

impl Grid {
    /// A grid of cells about `cell` wide for things with these bounds.
    pub fn build(side: f64, cell: f64, things: &[Bounds]) -> Self {
        let width = ((side / cell).ceil() as usize).max(1);
        let cell = side / width as f64;
        let reach: Vec<CellRange> = things.iter().map(|b| range(width, cell, b)).collect();
        Self { side, cell, lists: CellLists::build(width, &reach) }
    }

    /// Whether any thing whose bounds may meet `area` satisfies `test`, which may be called twice
    /// for a thing.
    pub fn any_in(&self, area: &Bounds, mut test: impl FnMut(usize) -> bool) -> bool {
        let range = range(self.lists.width(), self.cell, area);
        (range.rows.0..=range.rows.1).any(|row| {
            (range.columns.0..=range.columns.1)
                .any(|column| self.lists.at(column, row).iter().any(|&i| test(i as usize)))
        })
    }

    /// Whether any thing in the cells that `segment` crosses satisfies `test`, which may be called
    /// twice for a thing. Cells are visited from `a` to `b`, so that a near wall ends the walk
    /// early.
    pub fn any_along(&self, segment: &Segment, mut test: impl FnMut(usize) -> bool) -> bool {
        let map =
            Bounds { min: Point::new(0.0, 0.0), max: Point::new(self.side, self.side) }.planes();
        let Some(span) = segment.span_inside(&map) else {
            return false;
        };
        let (from, to) = (segment.at(span.enter), segment.at(span.exit));
        let mut x = Axis::new(from.x, to.x, self.cell, self.lists.width());
        let mut y = Axis::new(from.y, to.y, self.cell, self.lists.width());
        loop {
            if self.lists.at(x.cell, y.cell).iter().any(|&i| test(i as usize)) {
                return true;
            }
            // Each axis knows how many borders it has to cross: rounding can exchange two crossings
            // near a cell's corner, but can neither pass nor miss the end.
            match (x.left, y.left) {
                (0, 0) => return false,
                (0, _) => y.advance(),
                (_, 0) => x.advance(),
                _ if x.next <= y.next => x.advance(),
                _ => y.advance(),
            }
        }
    }
}

fn range(width: usize, cell: f64, bounds: &Bounds) -> CellRange {
    // A float-to-integer cast saturates, so that places outside the map are put into a border cell.
    let index = |v: f64| ((v / cell) as usize).min(width - 1);
    CellRange {
        columns: (index(bounds.min.x), index(bounds.max.x)),
        rows: (index(bounds.min.y), index(bounds.max.y)),
    }
}

/// One axis of a walk through the cells (after Amanatides and Woo).
struct Axis {
    cell: usize,
    /// Cell borders still to cross.
    left: usize,
    forward: bool,
    /// The share of the segment at which the next border is crossed.
    next: f64,
    /// The share of the segment between two borders.
    step: f64,
}

impl Axis {
    fn new(from: f64, to: f64, cell: f64, width: usize) -> Self {
        let index = |v: f64| ((v / cell) as usize).min(width - 1);
        let (start, end) = (index(from), index(to));
        let length = (to - from).abs();
        let border = if to > from { (start + 1) as f64 * cell } else { start as f64 * cell };
        Self {
            cell: start,
            left: start.abs_diff(end),
            forward: end > start,
            next: (border - from).abs() / length,
            step: cell / length,
        }
    }

    fn advance(&mut self) {
        self.cell = if self.forward { self.cell + 1 } else { self.cell - 1 };
        self.left -= 1;
        self.next += self.step;
    }
}
