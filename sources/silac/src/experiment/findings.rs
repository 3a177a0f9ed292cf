//! What is measured in a game.

use foveate_sync::metrics::{Inconsistency, Spread};
use serde::Serialize;

/// Bins of distance, each a tenth of the side; the last holds the map's corners.
pub const BINS: usize = 15;
/// Nodes within this share of the side are near.
pub const NEAR: f64 = 0.2;
/// Nodes a side or more apart are far: across the map.
pub const FAR: f64 = 1.0;
/// Most links that are counted for a message; longer paths count as this.
pub const MAX_HOPS: usize = 4;

/// The bin of a distance, given as a share of the side.
pub fn bin(share: f64) -> usize {
    ((share * 10.0) as usize).min(BINS - 1)
}

/// What nodes know of others at one distance.
#[derive(Clone, Debug, Default)]
pub struct DistanceBin {
    /// Age of what is known of another node, in milliseconds, without the link's latency.
    pub delay: Spread,
    /// From the making of a state to its first arrival, with all links, in milliseconds.
    pub arrival: Spread,
    /// Interactions that nodes at this distance should learn of.
    pub deeds: u64,
    /// Those that were not learnt of within [`LOST_AFTER`](foveate_lab::experiments::peers::LOST_AFTER).
    pub lost: u64,
    /// From an interaction until a node learns of it, in milliseconds.
    pub learnt: Spread,
}

impl DistanceBin {
    fn add(&mut self, other: &DistanceBin) {
        self.delay.merge(&other.delay);
        self.arrival.merge(&other.arrival);
        self.learnt.merge(&other.learnt);
        self.deeds += other.deeds;
        self.lost += other.lost;
    }

    /// Share of interactions that were not learnt of in time.
    pub fn lost_share(&self) -> f64 {
        share(self.lost, self.deeds)
    }
}

/// One count as a share of another; zero if that is zero.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// How one newcomer became known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Arrived {
    /// Contacts that it had.
    pub contacts: usize,
    /// Seconds until all other nodes knew it.
    pub known_by_all_s: Option<f64>,
    /// Seconds until it knew all other nodes.
    pub knows_all_s: Option<f64>,
    /// Share of the other nodes that knew it, every 50 ms.
    #[serde(skip)]
    pub curve: Vec<f64>,
}

impl Arrived {
    /// Seconds until both hold: all nodes know it, and it knows all nodes.
    pub fn all_s(&self) -> Option<f64> {
        Some(self.known_by_all_s?.max(self.knows_all_s?))
    }
}

/// Measurements of one game.
#[derive(Clone, Debug, Default)]
pub struct SilacFindings {
    /// Bytes per second sent, by node.
    pub bytes: Vec<f64>,
    /// Datagrams per second sent, by node.
    pub packets: Vec<f64>,
    /// Datagrams between near nodes, per second and direction: the number of pairs, and their sum.
    pub near_packets: (u64, f64),
    /// First copies of states, by the number of links on their path.
    pub first_hops: [u64; MAX_HOPS],
    /// All datagrams, by the number of links on their path.
    pub all_hops: [u64; MAX_HOPS],
    pub bins: Vec<DistanceBin>,
    /// Σ diff / d², over nodes and samples.
    pub inc: Inconsistency,
    /// The same, counting only differences that can be noticed.
    pub noticed: Inconsistency,
    /// Age of what is known of near nodes where it is noticeably wrong, in milliseconds.
    pub noticed_near: Spread,
    /// Σ |delay there − delay back| / d², over nodes and samples.
    pub inj: f64,
    /// Samples in both sums.
    pub looks: u64,
    /// Inc of each node, which shows whether any is favoured.
    pub inc_by_node: Vec<f64>,
    pub arrived: Vec<Arrived>,
    /// Interactions that were withdrawn.
    pub withdrawn: u64,
    /// Withdrawals that reached another node, and those that should have.
    pub undone: (u64, u64),
    /// All interactions.
    pub deeds: u64,
}

impl SilacFindings {
    /// Without any measurement.
    pub fn new() -> SilacFindings {
        SilacFindings { bins: vec![DistanceBin::default(); BINS], ..SilacFindings::default() }
    }

    /// The sum of all bins between two shares of the side.
    pub fn between(&self, from: f64, to: f64) -> DistanceBin {
        let mut sum = DistanceBin::default();
        let (from, to) = ((from * 10.0).round() as usize, (to * 10.0).round() as usize);
        self.bins[from.min(BINS)..to.min(BINS)].iter().for_each(|bin| sum.add(bin));
        sum
    }

    /// All near nodes.
    pub fn near(&self) -> DistanceBin {
        self.between(0.0, NEAR)
    }

    /// All far nodes.
    pub fn far(&self) -> DistanceBin {
        self.between(FAR, BINS as f64 / 10.0)
    }

    /// Inc, the mean over nodes and time.
    pub fn mean_inc(&self) -> f64 {
        self.inc.inc / self.looks.max(1) as f64
    }

    /// Inj, the mean over nodes and time.
    pub fn mean_inj(&self) -> f64 {
        self.inj / self.looks.max(1) as f64
    }

    /// Mean seconds until a newcomer with one contact and all other nodes know each other. `None` if there was no such
    /// newcomer, or one never became known.
    pub fn join_all_s(&self) -> Option<f64> {
        let single = self.arrived.iter().filter(|arrived| arrived.contacts == 1);
        let times: Option<Vec<f64>> = single.map(Arrived::all_s).collect();
        times.filter(|times| !times.is_empty()).map(|times| mean(&times))
    }
}

/// The mean; zero of an empty slice.
pub fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The standard deviation as a share of the mean.
pub fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
    if mean == 0.0 { 0.0 } else { (variance / values.len() as f64).sqrt() / mean }
}

/// A straight line through points by least squares: slope, value at zero, and R².
pub fn line(points: &[(f64, f64)]) -> (f64, f64, f64) {
    let xs: Vec<f64> = points.iter().map(|point| point.0).collect();
    let ys: Vec<f64> = points.iter().map(|point| point.1).collect();
    let (x, y) = (mean(&xs), mean(&ys));
    let sum = |f: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(f).sum::<f64>();
    let (xx, xy) = (sum(&|p| (p.0 - x).powi(2)), sum(&|p| (p.0 - x) * (p.1 - y)));
    let slope = if xx > 0.0 { xy / xx } else { 0.0 };
    let at_zero = y - slope * x;
    let (off, all) = (sum(&|p| (p.1 - at_zero - slope * p.0).powi(2)), sum(&|p| (p.1 - y).powi(2)));
    (slope, at_zero, if all > 0.0 { 1.0 - off / all } else { 1.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_and_a_curve_is_told_from_it() {
        let (slope, at_zero, r2) = line(&[(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]);
        assert!((slope - 2.0).abs() < 1e-12 && (at_zero - 1.0).abs() < 1e-12 && r2 == 1.0);
        let curve: Vec<_> = (1..9).map(|x| (f64::from(x), f64::from(x).sqrt())).collect();
        let (_, _, r2) = line(&curve);
        assert!((0.9..0.99).contains(&r2), "{r2}");
    }

    #[test]
    fn distances_fall_into_tenths_of_the_side() {
        assert_eq!([0.0, 0.099, 0.1, 0.199, 1.0, 1.41].map(bin), [0, 0, 1, 1, 10, 14]);
    }
}
