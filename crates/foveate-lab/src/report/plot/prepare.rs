//! From series to marks: what can be drawn, and a note for what cannot.

use super::number::figure;
use super::scale::{Scale, fits, round_up, steps};
use super::{Kind, Plot, Series};

/// Most marks of one series: more than the pixels across would only make the file heavy.
const MAX_MARKS: usize = 1_200;
/// Bins that a histogram aims at.
const BINS: f64 = 50.0;
/// Most bins that a histogram may have.
const MAX_BINS: usize = 60;

/// One thing to draw: a point, a bar, a bin or a slice of an area.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mark {
    /// Extent to the right; both ends are equal for a point.
    pub x: [f64; 2],
    /// From where it stands to where it reaches.
    pub y: [f64; 2],
    /// The band at this mark.
    pub band: Option<[f64; 2]>,
    /// What the mark is worth, which in a stack is not where it reaches.
    pub value: f64,
}

impl Mark {
    fn point(x: f64, y: f64) -> Self {
        Self { x: [x, x], y: [0.0, y], band: None, value: y }
    }
}

/// A series ready to draw.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub name: String,
    /// None where a line breaks.
    pub marks: Vec<Option<Mark>>,
    /// Position among its kind: of ours it gives the colour, of references the dashes.
    pub slot: usize,
    pub reference: bool,
    /// 5th and 95th percentile, if they are to be shown.
    pub percentiles: Option<[f64; 2]>,
    /// Rises in steps rather than straight from mark to mark.
    pub stepped: bool,
}

impl Layer {
    pub(super) fn drawn(&self) -> impl Iterator<Item = &Mark> {
        self.marks.iter().flatten()
    }
}

/// All series, the axes that hold them, and what is to be said.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    pub layers: Vec<Layer>,
    pub x: Scale,
    pub y: Scale,
    pub notes: Vec<String>,
}

pub(super) fn prepare(plot: &Plot) -> Prepared {
    let mut notes = Vec::new();
    let mut layers: Vec<Layer> = match plot.kind {
        Kind::Histogram => histograms(plot, &mut notes),
        Kind::Distribution => {
            plot.series.iter().map(|s| distribution(plot, s, &mut notes)).collect()
        }
        _ => plot.series.iter().map(|s| points(plot, s, &mut notes)).collect(),
    };
    match plot.kind {
        Kind::StackedBars | Kind::StackedAreas => stack(plot, &mut layers, &mut notes),
        Kind::Lines | Kind::Scatter | Kind::Distribution => {
            for layer in &mut layers {
                thin(plot.kind, layer, &mut notes);
            }
        }
        Kind::Bars | Kind::Histogram => {}
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
    Layer { name, marks, slot: 0, reference, percentiles: None, stepped: false }
}

/// Values that cannot be drawn, counted by reason.
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
    let marks = series.points.iter().enumerate().map(|(index, &(x, y))| {
        // One point is one value not drawn, however many of its coordinates are to blame.
        let mut admitted = skipped.admits(x, x_log);
        admitted = admitted && skipped.admits(y, plot.y.log);
        let band = series
            .band
            .get(index)
            .filter(|(low, high)| low <= high && fits(*low, plot.y.log) && fits(*high, plot.y.log));
        let band = band.map(|&(low, high)| [low, high]);
        admitted.then(|| Mark { band, ..Mark::point(x, y) })
    });
    let marks = marks.collect();
    skipped.tell(&series.name, notes);
    layer(series, marks)
}

fn sorted_samples(plot: &Plot, series: &Series, notes: &mut Vec<String>) -> Vec<f64> {
    let mut skipped = Skipped::default();
    let samples = series.points.iter().map(|&(_, sample)| sample);
    let mut samples: Vec<f64> =
        samples.filter(|&sample| skipped.admits(sample, plot.x.log)).collect();
    samples.sort_by(f64::total_cmp);
    skipped.tell(&series.name, notes);
    samples
}

/// The nearest-rank percentile of sorted samples.
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

fn percentiles(plot: &Plot, sorted: &[f64]) -> Option<[f64; 2]> {
    let band = [percentile(sorted, 0.05)?, percentile(sorted, 0.95)?];
    plot.percentiles.then_some(band)
}

fn distribution(plot: &Plot, series: &Series, notes: &mut Vec<String>) -> Layer {
    if !series.samples {
        return points(plot, series, notes);
    }
    let sorted = sorted_samples(plot, series, notes);
    let count = sorted.len();
    let mut marks: Vec<Option<Mark>> = Vec::new();
    for (index, &sample) in sorted.iter().enumerate() {
        // A run of equal samples is one rise, told by its last.
        if index + 1 == count || sorted[index + 1] > sample {
            let share = (index + 1) as f64 / count as f64;
            marks.push(Some(Mark::point(sample, 100.0 * share)));
        }
    }
    Layer { percentiles: percentiles(plot, &sorted), stepped: true, ..layer(series, marks) }
}

fn histograms(plot: &Plot, notes: &mut Vec<String>) -> Vec<Layer> {
    let all: Vec<Vec<f64>> = plot.series.iter().map(|s| sorted_samples(plot, s, notes)).collect();
    let low = all.iter().filter_map(|sorted| sorted.first()).copied().reduce(f64::min);
    let high = all.iter().filter_map(|sorted| sorted.last()).copied().reduce(f64::max);
    let edges = match (low, high) {
        (Some(low), Some(high)) => bin_edges(low, high, plot.x.log),
        _ => Vec::new(),
    };
    let bins = |(series, sorted): (&Series, &Vec<f64>)| {
        let marks = edges.windows(2).enumerate().map(|(bin, edge)| {
            // Bins are closed below; the last is closed above too.
            let is_last = bin + 2 == edges.len();
            let from = sorted.partition_point(|&sample| sample < edge[0]);
            let to = sorted.partition_point(|&s| s < edge[1] || (is_last && s == edge[1]));
            let share = 100.0 * (to - from) as f64 / sorted.len().max(1) as f64;
            Some(Mark { x: [edge[0], edge[1]], ..Mark::point(0.0, share) })
        });
        let marks = if sorted.is_empty() { Vec::new() } else { marks.collect() };
        Layer { percentiles: percentiles(plot, sorted), ..layer(series, marks) }
    };
    plot.series.iter().zip(&all).map(bins).collect()
}

/// Edges at round numbers, or at even factors on a logarithmic axis.
fn bin_edges(low: f64, high: f64, log: bool) -> Vec<f64> {
    if log {
        let (from, to) = (low.log10(), high.log10());
        if to - from < 1e-9 {
            return vec![low / 1.1, high * 1.1];
        }
        let width = (to - from) / BINS;
        return (0..=BINS as usize)
            .map(|bin| if bin == 0 { low } else { 10_f64.powf(from + bin as f64 * width) })
            .map(|edge| edge.min(high))
            .collect();
    }
    let size = low.abs().max(high.abs()).max(1e-90);
    if high - low <= size * 1e-9 {
        return vec![low - size * 0.05, high + size * 0.05];
    }
    let step = round_up((high - low) / BINS);
    let width = steps(1.0, step);
    let first = (low / width).floor();
    let count = (((high / width).ceil() - first) as usize).clamp(1, MAX_BINS);
    let mut edges: Vec<f64> = (0..=count).map(|bin| steps(first + bin as f64, step)).collect();
    // Rounding must not put the ends outside the outer bins.
    edges[0] = edges[0].min(low);
    edges[count] = edges[count].max(high);
    edges
}

/// Puts each layer on top of those before it.
fn stack(plot: &Plot, layers: &mut [Layer], notes: &mut Vec<String>) {
    let mut places: Vec<f64> =
        layers.iter().flat_map(|layer| layer.drawn().map(|mark| mark.x[0])).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let mut reached = vec![0.0; places.len()];
    for layer in layers {
        let negative = layer.drawn().filter(|mark| mark.value < 0.0).count();
        if negative > 0 {
            let name = &layer.name;
            notes.push(format!("{name}: {negative} negative values count as 0 in the stack."));
        }
        let mut own: Vec<Mark> = layer.drawn().copied().collect();
        own.sort_by(|a, b| a.x[0].total_cmp(&b.x[0]));
        let marks = places.iter().zip(&mut reached).map(|(&x, reached)| {
            let value = match plot.kind {
                Kind::StackedAreas => value_at(&own, x),
                _ => own.iter().find(|mark| mark.x[0] == x).map_or(0.0, |mark| mark.value),
            };
            let value = value.max(0.0);
            let base = *reached;
            *reached += value;
            Some(Mark { x: [x, x], y: [base, *reached], band: None, value })
        });
        layer.marks = marks.collect();
    }
}

/// A layer's value at any x: straight between its points, nothing outside them.
fn value_at(marks: &[Mark], x: f64) -> f64 {
    let after = marks.partition_point(|mark| mark.x[0] < x);
    match (after.checked_sub(1).and_then(|before| marks.get(before)), marks.get(after)) {
        (_, Some(here)) if here.x[0] == x => here.value,
        (Some(before), Some(next)) => {
            let share = (x - before.x[0]) / (next.x[0] - before.x[0]);
            before.value + share * (next.value - before.value)
        }
        _ => 0.0,
    }
}

/// Keeps what the eye would see of too many marks: the extremes of a line, every n-th of a cloud.
fn thin(kind: Kind, layer: &mut Layer, notes: &mut Vec<String>) {
    let count = layer.marks.len();
    if count <= MAX_MARKS {
        return;
    }
    let name = &layer.name;
    if kind == Kind::Scatter {
        let step = count.div_ceil(MAX_MARKS);
        layer.marks = layer.marks.iter().copied().step_by(step).collect();
        let count = figure(count as f64);
        notes.push(format!("{name}: every {step}th of {count} points is drawn."));
        return;
    }
    // Two marks from each bucket, its lowest and its highest, keep every peak.
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
        // A rising curve loses nothing that could be seen.
        return;
    }
    notes.push(format!(
        "{name}: {} points, thinned to the highest and lowest of every {bucket}.",
        figure(count as f64)
    ));
}

fn scales(plot: &Plot, layers: &[Layer]) -> (Scale, Scale) {
    let marks = || layers.iter().flat_map(Layer::drawn);
    let stands = plot.kind.stands_on_zero();
    let y_range = range(marks().flat_map(|mark| {
        let band = mark.band.unwrap_or([mark.y[1]; 2]);
        [if stands && !plot.y.log { mark.y[0] } else { mark.y[1] }, mark.y[1], band[0], band[1]]
    }));
    let y = axis(y_range, plot.y.log, plot.y.from_zero || stands);
    if plot.kind.has_categories() {
        // A value without a category still gets a place, if not a name.
        let values = plot.series.iter().map(|series| series.points.len()).max().unwrap_or(0);
        return (Scale::places(plot.categories.len().max(values)), y);
    }
    let x_range = range(marks().flat_map(|mark| mark.x));
    let x = axis(x_range, plot.x.log, plot.x.from_zero);
    let ends_with_data = matches!(plot.kind, Kind::StackedAreas) && !plot.x.log;
    match x_range {
        Some((low, high)) if ends_with_data => (x.trimmed_to(low, high), y),
        _ => (x, y),
    }
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
        // On a logarithmic axis a stacked zero reaches nowhere: it sits at the bottom.
        Some((low, high)) if log => {
            let high = if fits(high, true) { high } else { 1.0 };
            let low = if fits(low, true) { low } else { high };
            Scale::covering(low, high, true)
        }
        Some((low, high)) if from_zero => Scale::covering(low.min(0.0), high.max(0.0), false),
        Some((low, high)) => Scale::covering(low, high, false),
    }
}
