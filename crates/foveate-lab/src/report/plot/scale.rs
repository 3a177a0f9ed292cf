//! Maps values to positions on an axis, with ticks at round numbers.

use super::number::{figure, power_of_ten, tick_labels};

/// Larger values are not drawn: no measurement of ours has such a size, and below it the arithmetic on an axis stays
/// exact enough.
pub(crate) const MAX_MAGNITUDE: f64 = 1e100;
/// Values closer to zero than this cannot be shown on a logarithmic axis.
pub(crate) const MIN_LOG: f64 = 1e-100;

/// A range narrower than this share of its values is rounding noise: all values count as equal.
const NARROWEST: f64 = 1e-9;
/// Sizes below this count as zero on a linear axis.
const ZERO: f64 = 1e-90;
/// Tolerance for whether a tick is at the end of the range, in steps.
const SLACK: f64 = 1e-6;
const TARGET_INTERVALS: f64 = 7.0;
const MAX_TICKS: usize = 10;
const MIN_TICKS: usize = 3;
/// Decades that are written out on a logarithmic axis.
const PLAIN_DECADES: std::ops::RangeInclusive<i32> = -3..=5;

/// One axis.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    log: bool,
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
}

impl Scale {
    /// An axis whose ticks cover a range. On a logarithmic axis the range must be positive.
    pub(crate) fn covering(low: f64, high: f64, log: bool) -> Self {
        let ticks = if log { log_ticks(low, high) } else { linear_ticks(low, high) };
        let (low, high) = (ticks[0].0, ticks[ticks.len() - 1].0);
        Self { log, low, high, ticks }
    }

    /// An axis of `count` named places at 0, 1, 2 … without ticks.
    pub(crate) fn places(count: usize) -> Self {
        Self { log: false, low: -0.5, high: count.max(1) as f64 - 0.5, ticks: Vec::new() }
    }

    pub(crate) fn ticks(&self) -> &[(f64, String)] {
        &self.ticks
    }

    pub(crate) fn is_log(&self) -> bool {
        self.log
    }

    /// The value at the start of the axis.
    pub(crate) fn low(&self) -> f64 {
        self.low
    }

    /// Position of a value: 0 at the start of the axis, 1 at its end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let at = |value: f64| if self.log { value.max(MIN_LOG).log10() } else { value };
        (at(value) - at(self.low)) / (at(self.high) - at(self.low))
    }
}

/// Whether a value can be shown on an axis.
pub(crate) fn fits(value: f64, log: bool) -> bool {
    value.is_finite() && value.abs() <= MAX_MAGNITUDE && (!log || value >= MIN_LOG)
}

/// mantissa × 10^exponent.
#[derive(Clone, Copy)]
struct Decimal {
    mantissa: f64,
    exponent: i32,
}

impl Decimal {
    /// `count` of it with a single rounding: 3 × 0.1 is 0.3.
    fn times(self, count: f64) -> f64 {
        match self.exponent {
            negative @ ..0 => count * self.mantissa / 10_f64.powi(-negative),
            exponent => count * self.mantissa * 10_f64.powi(exponent),
        }
    }
}

/// The least of 1, 2, 5 × 10ⁿ that is no less than `size`.
fn round_up(size: f64) -> Decimal {
    let exponent = size.log10().floor() as i32;
    let mantissa = size / 10_f64.powi(exponent);
    let fits = [1.0, 2.0, 5.0].into_iter().find(|round| mantissa <= round + SLACK);
    match fits {
        Some(mantissa) => Decimal { mantissa, exponent },
        None => Decimal { mantissa: 1.0, exponent: exponent + 1 },
    }
}

fn linear_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let (low, high) = widened(low, high);
    let step = round_up((high - low) / TARGET_INTERVALS);
    let size = step.times(1.0);
    let first = (low / size + SLACK).floor();
    let last = (high / size - SLACK).ceil().max(first + MIN_TICKS as f64 - 1.0);
    let count = (last - first) as usize;
    let values: Vec<f64> = (0..=count).map(|tick| step.times(first + tick as f64)).collect();
    let labels = tick_labels(&values, step.exponent);
    values.into_iter().zip(labels).collect()
}

/// Equal values get some space on both sides; zero gets the space up to one.
fn widened(low: f64, high: f64) -> (f64, f64) {
    let size = low.abs().max(high.abs());
    if size < ZERO {
        (0.0, 1.0)
    } else if high - low < size * NARROWEST {
        (low - size / 2.0, high + size / 2.0)
    } else {
        (low, high)
    }
}

fn log_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    if let Some(values) = ladder(low, high) {
        return values.into_iter().map(|value| (value, figure(value))).collect();
    }
    let exponents = decades(low, high);
    // Powers if not all ticks can be written as digits: one axis uses one style.
    let plain = exponents.iter().all(|exponent| PLAIN_DECADES.contains(exponent));
    let tick = |exponent: i32| {
        let value = Decimal { mantissa: 1.0, exponent }.times(1.0);
        (value, if plain { figure(value) } else { power_of_ten(exponent) })
    };
    exponents.into_iter().map(tick).collect()
}

/// 1, 2, 5, 10, 20 … if those are not too many ticks.
fn ladder(low: f64, high: f64) -> Option<Vec<f64>> {
    let rung = |index: i32| {
        let mantissa = [1.0, 2.0, 5.0][index.rem_euclid(3) as usize];
        Decimal { mantissa, exponent: index.div_euclid(3) }.times(1.0)
    };
    let near = |value: f64| 3 * value.log10().floor() as i32;
    let mut first = near(low) + 3;
    while rung(first) > low * (1.0 + SLACK) {
        first -= 1;
    }
    let mut last = near(high);
    while rung(last) < high * (1.0 - SLACK) {
        last += 1;
    }
    let mut extend_below = true;
    while last - first < MIN_TICKS as i32 - 1 {
        if extend_below {
            first -= 1;
        } else {
            last += 1;
        }
        extend_below = !extend_below;
    }
    let fits = last - first < MAX_TICKS as i32;
    fits.then(|| (first..=last).map(rung).collect())
}

/// Every decade, or every second, fifth … one.
fn decades(low: f64, high: f64) -> Vec<i32> {
    let first = (low.log10() + SLACK).floor() as i32;
    let last = (high.log10() - SLACK).ceil() as i32;
    let ticks_at = |step: i32| {
        let (from, to) = (first.div_euclid(step), -(-last).div_euclid(step));
        (from..=to).map(|index| index * step).collect::<Vec<i32>>()
    };
    // A logarithmic axis spans at most 200 decades, so steps of fifty always give few enough ticks.
    [1, 2, 5, 10, 20]
        .map(ticks_at)
        .into_iter()
        .find(|t| t.len() <= MAX_TICKS)
        .unwrap_or_else(|| ticks_at(50))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(low: f64, high: f64, log: bool) -> Vec<f64> {
        Scale::covering(low, high, log).ticks().iter().map(|(value, _)| *value).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(values(0.0, 97.0, false), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(values(0.0, 0.3, false), [0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3]);
        assert_eq!(values(-5.0, 10.0, false), [-5.0, 0.0, 5.0, 10.0]);
        assert_eq!(values(3.0, 40.0, true), [2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(values(1.0, 1e6, true), [1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6]);
    }

    #[test]
    fn equal_values_get_an_axis_around_them() {
        assert_eq!(values(0.0, 0.0, false), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(values(50.0, 50.0, false), [20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0]);
        assert_eq!(values(10.0, 10.0, true), [5.0, 10.0, 20.0]);
    }

    fn check(low: f64, high: f64, log: bool) -> Result<(), TestCaseError> {
        let ticks = values(low, high, log);
        let slack = if log { low * 1e-5 } else { ZERO.max((high - low) * 1e-5) };
        prop_assert!((MIN_TICKS..=MAX_TICKS).contains(&ticks.len()), "{:?}", ticks);
        prop_assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", ticks);
        prop_assert!(ticks[0] <= low + slack, "{} below {:?}", low, ticks);
        let slack = if log { high * 1e-5 } else { slack };
        prop_assert!(ticks[ticks.len() - 1] >= high - slack, "{} above {:?}", high, ticks);
        Ok(())
    }

    proptest! {
        #[test]
        fn few_ascending_ticks_cover_any_range(
            a in -1.0_f64..1.0, b in -1.0_f64..1.0, e in -100..=100_i32, f in -100..=100_i32,
        ) {
            let (a, b) = (a * 10_f64.powi(e), b * 10_f64.powi(f));
            check(a.min(b), a.max(b), false)?;
            check(a, a, false)?;
            check(a.min(a * 1.1), a.max(a * 1.1), false)?;
        }

        #[test]
        fn few_ascending_ticks_cover_any_positive_range_logarithmically(
            a in 1.0_f64..10.0, b in 1.0_f64..10.0, e in -100..=99_i32, f in -100..=99_i32,
        ) {
            let (a, b) = (a * 10_f64.powi(e), b * 10_f64.powi(f));
            check(a.min(b), a.max(b), true)?;
            check(a, a * 1.1, true)?;
        }
    }
}
