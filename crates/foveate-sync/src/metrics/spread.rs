//! Distributions in fixed memory: percentiles without keeping the samples.

/// Buckets per doubling: adjacent buckets differ by 4.4 %.
const PER_OCTAVE: f64 = 16.0;
/// The smallest value distinguished from zero.
const LEAST: f64 = 1e-6;
const BUCKETS: usize = 720;

/// A histogram with logarithmic buckets for values ≥ 0.
#[derive(Clone, PartialEq, Debug)]
pub struct Spread {
    buckets: Vec<u64>,
    count: u64,
    sum: f64,
    max: f64,
}

impl Default for Spread {
    fn default() -> Spread {
        Spread { buckets: vec![0; BUCKETS], count: 0, sum: 0.0, max: 0.0 }
    }
}

impl Spread {
    /// Adds a value; negative ones and NaN count as zero.
    pub fn add(&mut self, value: f64) {
        let value = value.max(0.0);
        let bucket = if value < LEAST { 0.0 } else { (value / LEAST).log2() * PER_OCTAVE + 1.0 };
        self.buckets[(bucket as usize).min(BUCKETS - 1)] += 1;
        self.count += 1;
        self.sum += value;
        self.max = self.max.max(value);
    }

    /// Adds all of another spread.
    pub fn merge(&mut self, other: &Spread) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, theirs)| *mine += theirs);
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean; zero without values.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }

    /// The largest value.
    pub fn max(&self) -> f64 {
        self.max
    }

    /// The value below which `share` of the values lie, to about 2 %.
    pub fn quantile(&self, share: f64) -> f64 {
        let rank = (share.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (at, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                let middle = LEAST * ((at as f64 - 0.5) / PER_OCTAVE).exp2();
                return if at == 0 { 0.0 } else { middle.min(self.max) };
            }
        }
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_a_few_percent() {
        let mut spread = Spread::default();
        (1..=10_000).for_each(|n| spread.add(f64::from(n) / 100.0));
        for (share, expected) in [(0.5, 50.0), (0.95, 95.0), (0.01, 1.0)] {
            let found = spread.quantile(share);
            assert!((found / expected - 1.0f64).abs() < 0.04, "{share}: {found}");
        }
        assert_eq!((spread.count(), spread.max()), (10_000, 100.0));
        assert!((spread.mean() - 50.005).abs() < 1e-9);
        assert_eq!(Spread::default().quantile(0.5), 0.0);
    }
}
