//! Inconsistency and injustice (Silac).

/// What a node knows of another participant at a moment.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct KnownReplica {
    /// The distance of the two avatars in the world, in avatar widths.
    pub distance: f64,
    /// Whether the replica differs from its original. With any latency every moving replica does,
    /// so only this counts: the node lacks the newest state published by now minus the link's
    /// latency.
    pub differs: bool,
    /// The age of the knowledge without the network's own latency, in seconds.
    pub delay: f64,
}

/// The least distance of two avatars, their width, or two that touch would dominate the sum.
const NEAREST: f64 = 1.0;

fn closeness(distance: f64) -> f64 {
    distance.max(NEAREST).powi(-2)
}

/// inc_n(t), and its value if every replica were wrong.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Inconsistency {
    /// Σ diff / d².
    pub inc: f64,
    /// Σ 1 / d².
    pub all_wrong: f64,
}

impl Inconsistency {
    /// inc as a share of its greatest value: comparable between worlds and units.
    pub fn share(&self) -> f64 {
        if self.all_wrong > 0.0 { self.inc / self.all_wrong } else { 0.0 }
    }

    /// Adds another node, or another moment.
    pub fn add(&mut self, other: Inconsistency) {
        self.inc += other.inc;
        self.all_wrong += other.all_wrong;
    }
}

/// inc_n(t) over a node's replicas, itself excluded.
pub fn inc<'a>(replicas: impl IntoIterator<Item = &'a KnownReplica>) -> Inconsistency {
    replicas.into_iter().fold(Inconsistency::default(), |sum, known| {
        let weight = closeness(known.distance);
        let wrong = if known.differs { weight } else { 0.0 };
        Inconsistency { inc: sum.inc + wrong, all_wrong: sum.all_wrong + weight }
    })
}

/// inj_n(t): over all other nodes k, how unequal the delays between n and k are, weighted by
/// closeness. Each item is (what n knows of k, what k knows of n).
pub fn inj<'a>(mutual: impl IntoIterator<Item = (&'a KnownReplica, &'a KnownReplica)>) -> f64 {
    let unequal =
        |(a, b): (&KnownReplica, &KnownReplica)| (a.delay - b.delay).abs() * closeness(a.distance);
    mutual.into_iter().map(unequal).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(distance: f64, differs: bool, delay: f64) -> KnownReplica {
        KnownReplica { distance, differs, delay }
    }

    #[test]
    fn wrong_replicas_count_by_the_square_of_their_closeness() {
        let replicas = [known(2.0, true, 0.0), known(4.0, false, 0.0), known(0.1, true, 0.0)];
        let sum = inc(&replicas);
        assert_eq!(sum.inc, 0.25 + 1.0);
        assert_eq!(sum.all_wrong, 0.25 + 0.0625 + 1.0);
        assert_eq!(inc(&[]).share(), 0.0);
    }

    #[test]
    fn only_unequal_delays_are_unjust() {
        let (a, b) = (known(2.0, true, 0.3), known(2.0, true, 0.1));
        assert!((inj([(&a, &b)]) - 0.05).abs() < 1e-12);
        assert_eq!(inj([(&a, &a)]), 0.0);
    }
}
