//! Finds nearby objects: a uniform grid, rebuilt each round by a counting sort.
//!
//! Rebuilding costs a few nanoseconds per object, needs no bookkeeping when objects move, and
//! stores the objects of a cell, and of a row of cells, next to each other.

use crate::store::{Slot, Store};
use foveate_wire::{Metres, Position};

/// The most cells along one side: bounds memory when one object strays far from the others.
const MAX_SIDE: usize = 1_024;

/// The objects by place, and separately those without one.
#[derive(Debug, Default)]
pub struct Index {
    origin: [f32; 2],
    cell: Metres,
    side: [usize; 2],
    /// Cell `c` holds `slots[starts[c]..starts[c + 1]]`.
    starts: Vec<u32>,
    slots: Vec<Slot>,
    /// The objects' places, so that objects in the corners of a square are skipped without reading
    /// more.
    places: Vec<[f32; 2]>,
    cell_of: Vec<u32>,
    placeless: Vec<Slot>,
}

impl Index {
    /// The longer side of the box that holds all objects.
    pub fn span(&self) -> Metres {
        (self.cell * self.side[0].max(self.side[1]) as f32).max(Metres(1.0))
    }

    /// Sorts all live objects into cells with sides of about `cell`.
    pub fn rebuild(&mut self, store: &Store, cell: Metres) {
        self.placeless.clear();
        self.slots.clear();
        self.frame(store, cell);
        let cells = self.side[0] * self.side[1];
        self.starts.clear();
        self.starts.resize(cells + 1, 0);
        self.cell_of.clear();
        for (row, hot) in store.hot.iter().enumerate() {
            let mut cell = u32::MAX;
            if hot.alive && hot.placed {
                cell = self.cell_at(hot.pos);
                self.starts[cell as usize + 1] += 1;
            } else if hot.alive {
                self.placeless.push(Slot(row as u32));
            }
            self.cell_of.push(cell);
        }
        for at in 0..cells {
            self.starts[at + 1] += self.starts[at];
        }
        self.slots.resize(self.starts[cells] as usize, Slot(0));
        self.places.resize(self.slots.len(), [0.0; 2]);
        // Filling from the back leaves `starts` correct and the slots of a cell in order.
        for row in (0..self.cell_of.len()).rev() {
            let cell = self.cell_of[row];
            if cell != u32::MAX {
                let end = &mut self.starts[cell as usize + 1];
                *end -= 1;
                self.slots[*end as usize] = Slot(row as u32);
                let Position([x, y, _]) = store.hot[row].pos;
                self.places[*end as usize] = [x, y];
            }
        }
        // Each entry now holds the start of its own cell, one index too far to the right.
        self.starts.copy_within(1.., 0);
        self.starts[cells] = self.slots.len() as u32;
    }

    fn frame(&mut self, store: &Store, cell: Metres) {
        let (mut low, mut high) = ([f32::INFINITY; 2], [f32::NEG_INFINITY; 2]);
        for hot in store.hot.iter().filter(|hot| hot.alive) {
            for axis in 0..2 {
                low[axis] = low[axis].min(hot.pos[axis]);
                high[axis] = high[axis].max(hot.pos[axis]);
            }
        }
        self.origin = low.map(|low| if low.is_finite() { low } else { 0.0 });
        let spread = |axis: usize| (high[axis] - low[axis]).max(0.0);
        let widest = spread(0).max(spread(1));
        self.cell = cell.max(Metres(widest / (MAX_SIDE - 1) as f32)).max(Metres(1e-3));
        self.side = [0, 1].map(|axis| (spread(axis) / self.cell.0) as usize + 1);
    }

    fn cell_at(&self, pos: Position) -> u32 {
        let along = |axis: usize| {
            let at = (pos[axis] - self.origin[axis]) / self.cell.0;
            (at.max(0.0) as usize).min(self.side[axis] - 1)
        };
        (along(1) * self.side[0] + along(0)) as u32
    }

    /// Calls `found` with a superset of the objects within `radius` of `centre`, ignoring height.
    /// Objects without a place are always included.
    pub fn around(&self, centre: Position, radius: Metres, mut found: impl FnMut(Slot)) {
        self.placeless.iter().for_each(|slot| found(*slot));
        if self.slots.is_empty() {
            return;
        }
        let [left, right] = self.columns(0, centre[0], radius);
        let [bottom, top] = self.columns(1, centre[1], radius);
        for row in bottom..=top {
            let (first, last) = (row * self.side[0] + left, row * self.side[0] + right);
            let run = self.starts[first] as usize..self.starts[last + 1] as usize;
            for ([x, y], slot) in self.places[run.clone()].iter().zip(&self.slots[run]) {
                let off = [x - centre[0], y - centre[1]];
                if off[0] * off[0] + off[1] * off[1] <= radius.0 * radius.0 {
                    found(*slot);
                }
            }
        }
    }

    /// Objects without a place.
    pub(crate) fn placeless(&self) -> &[Slot] {
        &self.placeless
    }

    fn columns(&self, axis: usize, centre: f32, radius: Metres) -> [usize; 2] {
        let last = self.side[axis] - 1;
        [centre - radius.0, centre + radius.0].map(|edge| {
            let at = (edge - self.origin[axis]) / self.cell.0;
            (at.max(0.0) as usize).min(last)
        })
    }
}
