//! Turns series into marks, with a note on what cannot be drawn.

use super::number::figure;
use super::scale::{Scale, fits};
use super::{Kind, Plot, Series};

/// Most marks of one series: more than pixels across would only make the file larger.
const MAX_MARKS: usize = 1_200;
/// A point or a bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mark {
    pub x: f64,
    /// Its lower and upper end.
    pub y: [f64; 2],
    /// The mark's own value, which in a stack is not its upper end.
    pub value: f64,
}

impl Mark {
    fn point(x: f64, y: f64) -> Self {
        Self { x, y: [0.0, y], value: y }
    }
}

/// A series ready to draw.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub name: String,
    /// `None` where a line breaks.
    pub marks: Vec<Option<Mark>>,
    /// Index among our series, which gives the colour, or among references, which gives the dashes.
    pub slot: usize,
    pub reference: bool,
}

impl Layer {
    pub(super) fn drawn(&self) -> impl Iterator<Item = &Mark> {
        self.marks.iter().flatten()
    }
}

/// All series, their axes, and the notes.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub layers: Vec<Layer>,
    pub x: Scale,
    pub y: Scale,
    pub notes: Vec<String>,
}

pub(super) fn prepare(plot: &Plot) -> Prepared {
    let mut notes = Vec::new();
    let mut layers: Vec<Layer> =
        plot.series.iter().map(|series| points(plot, series, &mut notes)).collect();
    match plot.kind {
        Kind::StackedBars => stack(&mut layers, &mut notes),
        Kind::Lines | Kind::Distribution => {
            for layer in &mut layers {
                thin(plot.kind, layer, &mut notes);
            }
        }
        Kind::Bars => {}
    }
    number_slots(&mut layers);
    let (x, y) = scales(plot, &layers);
    Prepared { layers, x, y, notes }
}

fn number_slots(layers: &mut [Layer]) {
    let mut next = [0, 0];
    for layer in layers {
        let next = &mut next[usize::from(layer.reference)];
        layer.slot = *next;
        *next += 1;
    }
}

fn layer(series: &Series, marks: Vec<Option<Mark>>) -> Layer {
    let (name, reference) = (series.name.clone(), series.reference);
    Layer { name, marks, slot: 0, reference }
}

/// Numbers of values that cannot be drawn, by reason.
#[derive(Default)]
struct Skipped {
    not_finite: usize,
    not_positive: usize,
}

impl Skipped {
    fn admits(&mut self, value: f64, log: bool) -> bool {
        let admitted = fits(value, log);
        if !admitted && fits(value, false) {
            self.not_positive += 1;
        } else if !admitted {
            self.not_finite += 1;
        }
        admitted
    }

    fn tell(&self, name: &str, notes: &mut Vec<String>) {
        let reasons = [
            (self.not_finite, "not finite"),
            (self.not_positive, "not positive, which a logarithmic axis cannot show"),
        ];
        for (count, reason) in reasons.into_iter().filter(|(count, _)| *count > 0) {
            let (values, verb) = if count == 1 { ("value", "is") } else { ("values", "are") };
            notes.push(format!("{name}: left out {count} {values} that {verb} {reason}."));
        }
    }
}

fn points(plot: &Plot, series: &Series, notes: &mut Vec<String>) -> Layer {
    let mut skipped = Skipped::default();
    let x_log = plot.x.log && !plot.kind.has_categories();
    let marks = series.points.iter().map(|&(x, y)| {
        // A point counts once, however many of its coordinates cannot be drawn.
        let mut admitted = skipped.admits(x, x_log);
        admitted = admitted && skipped.admits(y, plot.y.log);
        admitted.then(|| Mark::point(x, y))
    });
    let marks = marks.collect();
    skipped.tell(&series.name, notes);
    layer(series, marks)
}

/// Stacks each layer on those before it.
fn stack(layers: &mut [Layer], notes: &mut Vec<String>) {
    let mut places: Vec<f64> =
        layers.iter().flat_map(|layer| layer.drawn().map(|mark| mark.x)).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let mut reached = vec![0.0; places.len()];
    for layer in layers {
        let negative = layer.drawn().filter(|mark| mark.value < 0.0).count();
        if negative > 0 {
            let name = &layer.name;
            notes.push(format!("{name}: {negative} negative values count as 0 in the stack."));
        }
        let own: Vec<Mark> = layer.drawn().copied().collect();
        let marks = places.iter().zip(&mut reached).map(|(&x, reached)| {
            let value = own.iter().find(|mark| mark.x == x).map_or(0.0, |mark| mark.value).max(0.0);
            let base = *reached;
            *reached += value;
            Some(Mark { x, y: [base, *reached], value })
        });
        layer.marks = marks.collect();
    }
}

/// Reduces a line with too many marks to what can be seen: its extremes.
fn thin(kind: Kind, layer: &mut Layer, notes: &mut Vec<String>) {
    let count = layer.marks.len();
    if count <= MAX_MARKS {
        return;
    }
    let name = &layer.name;
    // Two marks of each bucket, its lowest and its highest, keep every peak.
    let bucket = count.div_ceil(MAX_MARKS / 2);
    let (first, last) = (layer.marks[0], layer.marks[count - 1]);
    let mut kept = vec![first];
    for marks in layer.marks.chunks(bucket) {
        let of = |index: usize| marks[index].map(|mark| mark.value);
        let drawn = || (0..marks.len()).filter(|&index| marks[index].is_some());
        let by =
            |a: &usize, b: &usize| of(*a).partial_cmp(&of(*b)).unwrap_or(std::cmp::Ordering::Equal);
        let (Some(low), Some(high)) = (drawn().min_by(by), drawn().max_by(by)) else {
            kept.push(None);
            continue;
        };
        kept.push(marks[low.min(high)]);
        if low != high {
            kept.push(marks[low.max(high)]);
        }
    }
    kept.push(last);
    layer.marks = kept;
    if kind == Kind::Distribution {
        // A rising curve loses nothing visible.
        return;
    }
    notes.push(format!(
        "{name}: {} points, thinned to the highest and lowest of every {bucket}.",
        figure(count as f64)
    ));
}

fn scales(plot: &Plot, layers: &[Layer]) -> (Scale, Scale) {
    let marks = || layers.iter().flat_map(Layer::drawn);
    let stands = plot.kind.has_categories();
    let y_range =
        range(marks().flat_map(|mark| {
            [if stands && !plot.y.log { mark.y[0] } else { mark.y[1] }, mark.y[1]]
        }));
    let y = axis(y_range, plot.y.log, plot.y.from_zero || stands);
    if plot.kind.has_categories() {
        // A value without a category still gets a place, though no name.
        let values = plot.series.iter().map(|series| series.points.len()).max().unwrap_or(0);
        return (Scale::places(plot.categories.len().max(values)), y);
    }
    (axis(range(marks().map(|mark| mark.x)), plot.x.log, plot.x.from_zero), y)
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((low, high)) => Some((value.min(low), value.max(high))),
    })
}

fn axis(range: Option<(f64, f64)>, log: bool, from_zero: bool) -> Scale {
    match range {
        None if log => Scale::covering(1.0, 100.0, true),
        None => Scale::covering(0.0, 1.0, false),
        // On a logarithmic axis a stacked zero is at the bottom.
        Some((low, high)) if log => {
            let high = if fits(high, true) { high } else { 1.0 };
            let low = if fits(low, true) { low } else { high };
            Scale::covering(low, high, true)
        }
        Some((low, high)) if from_zero => Scale::covering(low.min(0.0), high.max(0.0), false),
        Some((low, high)) => Scale::covering(low, high, false),
    }
}
