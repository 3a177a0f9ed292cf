//! Claims, each with the value that decides it.

use serde::Serialize;

/// A claim about a measured value, and whether the value meets it.
///
/// The constructors derive `holds` and the text of `aim` from the same numbers, so that the two cannot disagree. NaN
/// never holds.
///
/// ```
/// use foveate_lab::output::Verdict;
/// let verdict = Verdict::at_most("busiest second", 3_340.0, 4_000.0, "B/s");
/// assert!(verdict.holds);
/// assert_eq!(verdict.aim, "≤ 4000 B/s");
/// assert!(!Verdict::at_least("bounds kept", f64::NAN, 1.0, "").holds);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verdict {
    /// The claim, unique within its experiment.
    pub name: String,
    /// The measured value; NaN becomes `null` in JSON.
    pub value: f64,
    /// The condition on the value.
    pub aim: String,
    /// Whether the value meets the aim.
    pub holds: bool,
    /// Whether `cargo xtask test` fails if the claim does not hold. Claims that a quick run cannot decide are reported
    /// only.
    pub required: bool,
    #[serde(skip)]
    unit: &'static str,
}

impl Verdict {
    /// Claims that the value is at most `limit`.
    pub fn at_most(name: impl Into<String>, value: f64, limit: f64, unit: &'static str) -> Verdict {
        Verdict::new(name, value, format!("≤ {}", figure(limit, unit)), value <= limit, unit)
    }

    /// Claims that the value is at least `limit`.
    pub fn at_least(
        name: impl Into<String>,
        value: f64,
        limit: f64,
        unit: &'static str,
    ) -> Verdict {
        Verdict::new(name, value, format!("≥ {}", figure(limit, unit)), value >= limit, unit)
    }

    /// Claims that the value differs from `target` by at most `tolerance`.
    pub fn near(
        name: impl Into<String>,
        value: f64,
        target: f64,
        tolerance: f64,
        unit: &'static str,
    ) -> Verdict {
        let aim = format!("{} ± {}", figure(target, ""), figure(tolerance, unit));
        Verdict::new(name, value, aim, (value - target).abs() <= tolerance, unit)
    }

    /// Claims a fact: the value is 1 if it is so, and otherwise 0.
    pub fn is_true(name: impl Into<String>, so: bool) -> Verdict {
        Verdict::new(name, f64::from(u8::from(so)), "true".to_owned(), so, "")
    }

    fn new(
        name: impl Into<String>,
        value: f64,
        aim: String,
        holds: bool,
        unit: &'static str,
    ) -> Verdict {
        Verdict { name: name.into(), value, aim, holds, required: true, unit }
    }

    /// If `only_here` is true, the claim is reported without making the tests depend on it, for example in a quick run
    /// with too few samples.
    #[must_use]
    pub fn reported_only(mut self, only_here: bool) -> Verdict {
        self.required &= !only_here;
        self
    }

    /// The value with its unit.
    pub fn figure(&self) -> String {
        if self.aim == "true" {
            return if self.holds { "yes" } else { "no" }.to_owned();
        }
        figure(self.value, self.unit)
    }
}

/// About four significant digits and the unit.
fn figure(value: f64, unit: &str) -> String {
    let digits = match value.abs() {
        size if size >= 1_000.0 || value.fract() == 0.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 0.1 => 3,
        _ => 5,
    };
    let space = if unit.is_empty() || unit == "×" || unit == "°" { "" } else { " " };
    format!("{value:.digits$}{space}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_comparison_can_fail() {
        assert!(Verdict::at_most("a", 2.0, 2.0, "").holds);
        assert!(!Verdict::at_most("a", 2.1, 2.0, "").holds);
        assert!(Verdict::at_least("a", 2.0, 2.0, "").holds);
        assert!(!Verdict::at_least("a", 1.9, 2.0, "").holds);
        assert!(Verdict::near("a", 2.5, 2.0, 0.5, "").holds);
        assert!(!Verdict::near("a", 1.4, 2.0, 0.5, "").holds);
        assert!(!Verdict::is_true("a", false).holds);
    }

    #[test]
    fn nan_meets_no_aim() {
        for verdict in [
            Verdict::at_most("a", f64::NAN, 1.0, ""),
            Verdict::at_least("a", f64::NAN, 1.0, ""),
            Verdict::near("a", f64::NAN, 1.0, 9.0, ""),
        ] {
            assert!(!verdict.holds, "{verdict:?}");
            assert_eq!(serde_json::to_value(&verdict).unwrap()["value"], serde_json::Value::Null);
        }
    }

    #[test]
    fn figures_carry_their_units() {
        assert_eq!(Verdict::near("a", 81.94, 81.64, 5.0, "%").figure(), "81.94 %");
        assert_eq!(Verdict::near("a", 81.94, 81.64, 5.0, "%").aim, "81.64 ± 5 %");
        assert_eq!(Verdict::at_most("a", 0.004_56, 0.05, "").figure(), "0.00456");
        assert_eq!(Verdict::at_least("a", 2.46, 2.0, "×").figure(), "2.460×");
        assert_eq!(Verdict::is_true("a", true).figure(), "yes");
    }
}
