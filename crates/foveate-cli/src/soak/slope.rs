//! How fast something grows: a straight line through samples, and how far the line can be trusted.

/// Samples are averaged in so many blocks: neighbouring ones resemble each other, and counting each as
/// news would make the line look more certain than it is.
const BLOCKS: usize = 24;
/// Fewer blocks say nothing about a line.
const MIN_BLOCKS: usize = 4;
/// Two-sided 95 % quantiles of Student's distribution by degrees of freedom, from 1; beyond, that of the last.
const STUDENT: [f64; 22] = [
    12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23, 2.20, 2.18, 2.16, 2.14, 2.13,
    2.12, 2.11, 2.10, 2.09, 2.09, 2.08, 2.07,
];

/// A slope with its 95 % confidence interval, per unit of `x`.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct Slope {
    pub per_unit: f64,
    /// The slope lies within so much of `per_unit`.
    pub within: f64,
}

impl Slope {
    /// Least squares through samples in the order of `x`; none where there are too few. Blocks that
    /// resemble the block before widen the interval.
    pub fn of(samples: &[(f64, f64)]) -> Option<Slope> {
        let size = samples.len().div_ceil(BLOCKS).max(1);
        let blocks: Vec<(f64, f64)> = samples.chunks(size).map(mean).collect();
        if blocks.len() < MIN_BLOCKS {
            return None;
        }
        let (mid_x, mid_y) = mean(&blocks);
        let spread: f64 = blocks.iter().map(|(x, _)| (x - mid_x).powi(2)).sum();
        let shared: f64 = blocks.iter().map(|(x, y)| (x - mid_x) * (y - mid_y)).sum();
        let per_unit = shared / spread;
        let left: Vec<f64> =
            blocks.iter().map(|(x, y)| y - mid_y - per_unit * (x - mid_x)).collect();
        let free = blocks.len() - 2;
        let square: f64 = left.iter().map(|rest| rest * rest).sum();
        let error = (square / free as f64 / spread).sqrt();
        let follows: f64 = left.windows(2).map(|pair| pair[0] * pair[1]).sum();
        let alike = if square > 0.0 { (follows / square).clamp(0.0, 0.9) } else { 0.0 };
        let student = STUDENT[free.min(STUDENT.len()) - 1];
        let within = student * error * ((1.0 + alike) / (1.0 - alike)).sqrt();
        Some(Slope { per_unit, within })
    }
}

fn mean(samples: &[(f64, f64)]) -> (f64, f64) {
    let count = samples.len().max(1) as f64;
    let (x, y) = samples.iter().fold((0.0, 0.0), |(x, y), sample| (x + sample.0, y + sample.1));
    (x / count, y / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An hour of samples, one in five seconds: a level, a trend, and noise that lingers as memory does.
    fn hour(trend: f64, noise: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut lingers = 0.0;
        (0..720)
            .map(|at| {
                lingers = 0.8 * lingers + noise * (rng.f64() - 0.5);
                let hours = f64::from(at) / 720.0;
                (hours, 80.0 + trend * hours + lingers)
            })
            .collect()
    }

    #[test]
    fn a_leak_is_told_from_noise() {
        for seed in 0..20 {
            let still = Slope::of(&hour(0.0, 1.0, seed)).unwrap();
            assert!(still.per_unit + still.within < 1.0, "seed {seed}: {still:?}");
            let leaking = Slope::of(&hour(3.0, 1.0, seed)).unwrap();
            assert!(leaking.per_unit - leaking.within > 1.0, "seed {seed}: {leaking:?}");
        }
    }

    #[test]
    fn the_interval_holds_the_truth_about_as_often_as_it_says() {
        let hits = (0..400).filter(|seed| {
            let slope = Slope::of(&hour(2.0, 2.0, *seed)).unwrap();
            (slope.per_unit - 2.0).abs() <= slope.within
        });
        let share = hits.count() as f64 / 400.0;
        assert!((0.91..=0.99).contains(&share), "{share}");
    }

    #[test]
    fn an_exact_line_is_found_and_too_few_samples_are_no_line() {
        let line: Vec<(f64, f64)> = (0..10).map(|x| (f64::from(x), 2.5 * f64::from(x))).collect();
        let slope = Slope::of(&line).unwrap();
        assert!((slope.per_unit - 2.5).abs() < 1e-9 && slope.within < 1e-9, "{slope:?}");
        assert_eq!(Slope::of(&line[..3]), None);
        assert_eq!(Slope::of(&[]), None);
    }
}
