//! What a server tells about itself: numbers for Prometheus, and whether it is alive.
//!
//! The game's thread owns a [`Registry`] and writes it without locks. About once a second it
//! publishes a rendered text on a [`Board`]; a [`MetricsServer`] reads nothing else, so that no
//! request, however many or malformed, touches the game.
//!
//! ```
//! use foveate_io::metrics::Registry;
//! let mut registry = Registry::default();
//! let ticks = registry.counter("foveate_ticks_total", "Ticks that were run.", &[]);
//! registry.add(ticks, 3);
//! assert!(registry.render().ends_with("foveate_ticks_total 3\n"));
//! ```

mod http;

pub use http::{MAX_CONNECTIONS, MAX_HEAD, MetricsServer};

use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Series of a registry at most; what is beyond is not told.
pub const MAX_SERIES: usize = 4_096;
/// A server that published nothing for so long does not answer to be healthy.
pub const STALE_AFTER: Duration = Duration::from_secs(5);

/// A number that only grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter(Option<usize>);
/// A number that goes up and down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gauge(Option<usize>);
/// How often a number fell into which range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Histogram(Option<usize>);

enum Value {
    Counter(u64),
    Gauge(f64),
    Histogram {
        /// Upper ends, rising.
        bounds: Vec<f64>,
        /// One more than bounds: the last has no upper end.
        counts: Vec<u64>,
        sum: f64,
    },
}

impl Value {
    fn type_name(&self) -> &'static str {
        match self {
            Value::Counter(_) => "counter",
            Value::Gauge(_) => "gauge",
            Value::Histogram { .. } => "histogram",
        }
    }
}

struct Family {
    name: String,
    help: String,
    /// Indices of its series.
    series: Vec<usize>,
}

struct Series {
    /// `a="x",b="y"`, or nothing.
    labels: String,
    value: Value,
}

/// All numbers, in the order in which they were first asked for. A name has one type: a handle that
/// was asked for with another one, or beyond [`MAX_SERIES`], writes nowhere.
#[derive(Default)]
pub struct Registry {
    families: Vec<Family>,
    series: Vec<Series>,
}

impl Registry {
    /// A counter, new or the one that has this name and these labels already. Characters that a name
    /// may not have become underscores.
    pub fn counter(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) -> Counter {
        Counter(self.series(name, help, labels, Value::Counter(0)))
    }

    /// A gauge, likewise.
    pub fn gauge(&mut self, name: &str, help: &str, labels: &[(&str, &str)]) -> Gauge {
        Gauge(self.series(name, help, labels, Value::Gauge(0.0)))
    }

    /// A histogram with ranges up to each of `bounds`, which rise, and one without an end.
    pub fn histogram(
        &mut self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        bounds: &[f64],
    ) -> Histogram {
        let mut bounds: Vec<f64> = bounds.iter().copied().filter(|x| x.is_finite()).collect();
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        let counts = vec![0; bounds.len() + 1];
        Histogram(self.series(name, help, labels, Value::Histogram { bounds, counts, sum: 0.0 }))
    }

    /// Adds to a counter.
    pub fn add(&mut self, counter: Counter, more: u64) {
        if let Some(Value::Counter(value)) = self.value(counter.0) {
            *value = value.saturating_add(more);
        }
    }

    /// Brings a counter to a total that is counted elsewhere; it never falls.
    pub fn raise(&mut self, counter: Counter, total: u64) {
        if let Some(Value::Counter(value)) = self.value(counter.0) {
            *value = total.max(*value);
        }
    }

    /// Sets a gauge.
    pub fn set(&mut self, gauge: Gauge, to: f64) {
        if let Some(Value::Gauge(value)) = self.value(gauge.0) {
            *value = to;
        }
    }

    /// Counts a number; what is none is left out.
    pub fn observe(&mut self, histogram: Histogram, number: f64) {
        if let Some(Value::Histogram { bounds, counts, sum }) = self.value(histogram.0)
            && !number.is_nan()
        {
            counts[bounds.partition_point(|bound| *bound < number)] += 1;
            *sum += number;
        }
    }

    /// Everything in Prometheus' text format, version 0.0.4.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for family in &self.families {
            let Some(first) = family.series.first() else { continue };
            let type_name = self.series[*first].value.type_name();
            let name = &family.name;
            text.push_str(&format!("# HELP {name} {}\n# TYPE {name} {type_name}\n", family.help));
            family.series.iter().for_each(|at| render(&mut text, name, &self.series[*at]));
        }
        text
    }

    fn value(&mut self, at: Option<usize>) -> Option<&mut Value> {
        Some(&mut self.series.get_mut(at?)?.value)
    }

    fn series(
        &mut self,
        name: &str,
        help: &str,
        labels: &[(&str, &str)],
        value: Value,
    ) -> Option<usize> {
        let name = clean(name, true);
        let pairs = labels.iter().map(|(key, value)| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            format!("{}=\"{value}\"", clean(key, false))
        });
        let labels = pairs.collect::<Vec<_>>().join(",");
        let family = match self.families.iter().position(|family| family.name == name) {
            Some(family) => family,
            None => {
                let help = help.replace('\\', "\\\\").replace('\n', "\\n");
                self.families.push(Family { name, help, series: Vec::new() });
                self.families.len() - 1
            }
        };
        let family = &mut self.families[family];
        for at in &family.series {
            let other = &self.series[*at];
            if other.value.type_name() != value.type_name() {
                return None;
            }
            if other.labels == labels {
                return Some(*at);
            }
        }
        let at = self.series.len();
        if at == MAX_SERIES {
            return None;
        }
        family.series.push(at);
        self.series.push(Series { labels, value });
        Some(at)
    }
}

fn clean(name: &str, colons: bool) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || (colons && c == ':');
    let name: String = name.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    match name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
        true => format!("_{name}"),
        false => name,
    }
}

fn render(text: &mut String, name: &str, series: &Series) {
    let labels = &series.labels;
    let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    // Writing into memory does not fail.
    let _ = match &series.value {
        Value::Counter(value) => writeln!(text, "{name}{braced} {value}"),
        Value::Gauge(value) => writeln!(text, "{name}{braced} {}", float(*value)),
        Value::Histogram { bounds, counts, sum } => {
            let comma = if labels.is_empty() { "" } else { "," };
            let ends = bounds.iter().copied().chain([f64::INFINITY]);
            let mut total = 0;
            for (end, count) in ends.zip(counts) {
                total += count;
                let end = float(end);
                text.push_str(&format!("{name}_bucket{{{labels}{comma}le=\"{end}\"}} {total}\n"));
            }
            let sum = float(*sum);
            writeln!(text, "{name}_sum{braced} {sum}\n{name}_count{braced} {total}")
        }
    };
}

fn float(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".into(),
        f64::NEG_INFINITY => "-Inf".into(),
        value => value.to_string(),
    }
}

/// What was published last, and when.
struct Page {
    text: Arc<str>,
    at: Instant,
}

/// Where the game's thread leaves its numbers for whoever asks.
#[derive(Clone, Default)]
pub struct Board(Arc<Mutex<Option<Page>>>);

impl Board {
    /// Leaves a text; the one before is gone.
    pub fn publish(&self, text: String, now: Instant) {
        let page = Page { text: text.into(), at: now };
        *self.lock() = Some(page);
    }

    /// The newest text; empty before the first.
    pub fn text(&self) -> Arc<str> {
        self.lock().as_ref().map_or_else(|| "".into(), |page| Arc::clone(&page.text))
    }

    /// Whether something was published within [`STALE_AFTER`].
    pub fn is_fresh(&self, now: Instant) -> bool {
        let page = self.lock();
        page.as_ref().is_some_and(|page| now.saturating_duration_since(page.at) < STALE_AFTER)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Page>> {
        // A page is exchanged whole, so that a panic elsewhere cannot have left half of one.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
