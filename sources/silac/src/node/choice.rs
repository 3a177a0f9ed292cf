//! The choice of recipients: they are drawn by weight.
//!
//! v(j,k) = α₁·d + α₂·a + α₃·b, less α₄ for a node that was already sent the message. Each of d, a and b lies in \[0,
//! 1\]; a weight below zero counts as zero.

use super::NodeId;
use fastrand::Rng;

/// Weights of the criteria by which recipients are chosen.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Alphas {
    /// α₁: for being near.
    pub near: f32,
    /// α₂: for being ahead.
    pub ahead: f32,
    /// α₃: for having free uplink.
    pub uplink: f32,
    /// α₄: subtracted if the node is in the message's list of recipients.
    pub listed: f32,
}

impl Default for Alphas {
    /// The source's result, 1 : 1 : ½ : 1.
    fn default() -> Alphas {
        Alphas { near: 1.0, ahead: 1.0, uplink: 0.5, listed: 1.0 }
    }
}

/// The pose from which a node weighs the others.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Viewpoint {
    /// Where its avatar is.
    pub position: [f32; 3],
    /// The direction it looks in.
    pub facing: [f32; 3],
    /// The largest distance in the world.
    pub reach: f32,
}

fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

impl Viewpoint {
    /// v(j,k) of a node at `at` that announced this share of the largest announced uplink.
    pub fn weight(&self, alphas: &Alphas, at: [f32; 3], uplink_share: f32) -> f32 {
        let way = [0, 1, 2].map(|i| at[i] - self.position[i]);
        let distance = dot(way, way).sqrt();
        let near = (1.0 - distance / self.reach).clamp(0.0, 1.0);
        let lengths = distance * dot(self.facing, self.facing).sqrt();
        // On the same spot, or without a facing, all nodes are ahead.
        let cosine = if lengths > 0.0 { dot(way, self.facing) / lengths } else { 1.0 };
        let angle = cosine.clamp(-1.0, 1.0).acos();
        let ahead = (-angle * angle / 2.0).exp();
        alphas.near * near + alphas.ahead * ahead + alphas.uplink * uplink_share.clamp(0.0, 1.0)
    }
}

/// After this many failed draws, the recipient is drawn from a list of the rest.
const DRAWS: usize = 32;

/// Nodes that can be chosen, with their weights.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    ids: Vec<NodeId>,
    weights: Vec<f32>,
    /// Sums of the weights up to and including each node.
    sums: Vec<f64>,
}

impl Candidates {
    pub fn clear(&mut self) {
        self.ids.clear();
        self.weights.clear();
        self.sums.clear();
    }

    /// Adds a node; ids must rise. A weight below zero counts as zero.
    pub fn push(&mut self, id: NodeId, weight: f32) {
        let weight = weight.max(0.0);
        self.ids.push(id);
        self.weights.push(weight);
        self.sums.push(self.total() + f64::from(weight));
    }

    /// Whether a node is among them; a binary search.
    pub fn contains(&self, id: NodeId) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    fn total(&self) -> f64 {
        self.sums.last().copied().unwrap_or(0.0)
    }

    /// Draws up to `count` different nodes, one after the other, each by its weight among those left. `less` returns
    /// how much to subtract from a node's weight, or `None` if it must not be chosen.
    pub fn choose(
        &self,
        rng: &mut Rng,
        count: usize,
        less: impl Fn(NodeId) -> Option<f32>,
    ) -> Vec<NodeId> {
        let weight = |at: usize| less(self.ids[at]).map_or(0.0, |less| self.weights[at] - less);
        let mut chosen: Vec<usize> = Vec::with_capacity(count);
        while chosen.len() < count {
            let drawn = self.draw(rng, &chosen, weight);
            let Some(at) = drawn.or_else(|| self.draw_from_rest(rng, &chosen, weight)) else {
                break;
            };
            chosen.push(at);
        }
        chosen.into_iter().map(|at| self.ids[at]).collect()
    }

    /// Draws by full weight and rejects the draw by the share that is subtracted: fast, and with the same odds.
    fn draw(
        &self,
        rng: &mut Rng,
        chosen: &[usize],
        weight: impl Fn(usize) -> f32,
    ) -> Option<usize> {
        (0..DRAWS).find_map(|_| {
            let mark = rng.f64() * self.total();
            let at = self.sums.partition_point(|sum| *sum <= mark);
            let full = *self.weights.get(at)?;
            let kept = !chosen.contains(&at) && rng.f32() * full < weight(at);
            kept.then_some(at)
        })
    }

    fn draw_from_rest(
        &self,
        rng: &mut Rng,
        chosen: &[usize],
        weight: impl Fn(usize) -> f32,
    ) -> Option<usize> {
        let left =
            |at: usize| if chosen.contains(&at) { 0.0 } else { f64::from(weight(at).max(0.0)) };
        let total: f64 = (0..self.ids.len()).map(left).sum();
        let mut mark = rng.f64() * total;
        (0..self.ids.len()).filter(|at| left(*at) > 0.0).find(|at| {
            mark -= left(*at);
            mark < 0.0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EYES: Viewpoint = Viewpoint { position: [0.0; 3], facing: [1.0, 0.0, 0.0], reach: 100.0 };

    #[test]
    fn weights_are_the_source_s() {
        let alphas = Alphas::default();
        let weight = |at, uplink| EYES.weight(&alphas, at, uplink);
        assert_eq!(weight([0.0; 3], 1.0), 2.5);
        assert_eq!(weight([50.0, 0.0, 0.0], 0.0), 1.5);
        let off_axis = (-(std::f32::consts::FRAC_PI_2.powi(2)) / 2.0).exp();
        assert!((weight([0.0, 100.0, 0.0], 0.5) - (off_axis + 0.25)).abs() < 1e-6);
        let behind = (-(std::f32::consts::PI.powi(2)) / 2.0).exp();
        assert!((weight([-20.0, 0.0, 0.0], 0.0) - (0.8 + behind)).abs() < 1e-5);
        assert_eq!(weight([500.0, 0.0, 0.0], 0.0), 1.0, "nothing is farther than the world allows");
        let blind = Viewpoint { facing: [0.0; 3], ..EYES };
        assert_eq!(blind.weight(&alphas, [50.0, 0.0, 0.0], 0.0), 1.5);
    }

    fn four() -> Candidates {
        let mut candidates = Candidates::default();
        for (id, weight) in [(1, 1.0), (2, 2.0), (3, 0.5), (4, -1.0)] {
            candidates.push(NodeId(id), weight);
        }
        candidates
    }

    /// How often each is chosen when one node is.
    fn odds(candidates: &Candidates, less: impl Fn(NodeId) -> Option<f32>) -> [f64; 5] {
        let (mut rng, mut counts) = (Rng::with_seed(5), [0.0; 5]);
        for _ in 0..40_000 {
            for id in candidates.choose(&mut rng, 1, &less) {
                counts[id.0 as usize] += 1.0 / 40_000.0;
            }
        }
        counts
    }

    #[test]
    fn odds_are_weights_less_what_counts_against() {
        let near = |found: [f64; 5], expected: [f64; 5]| {
            found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 0.01)
        };
        let plain = odds(&four(), |_| Some(0.0));
        assert!(near(plain, [0.0, 1.0 / 3.5, 2.0 / 3.5, 0.5 / 3.5, 0.0]), "{plain:?}");
        let listed = odds(&four(), |id| Some(if id.0 == 2 { 1.0 } else { 0.0 }));
        assert!(near(listed, [0.0, 0.4, 0.4, 0.2, 0.0]), "{listed:?}");
        let all_listed = odds(&four(), |_| Some(1.0));
        assert!(near(all_listed, [0.0, 0.0, 1.0, 0.0, 0.0]), "below zero is zero: {all_listed:?}");
        let barred = odds(&four(), |id| (id.0 != 2).then_some(0.0));
        assert!(near(barred, [0.0, 2.0 / 3.0, 0.0, 1.0 / 3.0, 0.0]), "{barred:?}");
    }

    #[test]
    fn no_node_is_chosen_twice_and_there_may_be_too_few() {
        let mut rng = Rng::with_seed(1);
        for _ in 0..1_000 {
            let mut chosen = four().choose(&mut rng, 10, |_| Some(0.0));
            chosen.sort();
            assert_eq!(chosen, [1, 2, 3].map(NodeId));
        }
        assert!(Candidates::default().choose(&mut rng, 3, |_| Some(0.0)).is_empty());
    }
}
