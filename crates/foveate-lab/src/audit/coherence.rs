//! Coherence Δ, inconsistency and injustice, sampled during a session.
//!
//! The players are the observers, and the objects are their avatars. A player believes that its own avatar is at its
//! true place, and another's where its replica is predicted to be. A player without a replica that it should have is
//! counted separately, as in the source.

use super::WatchedPair;
use foveate_sync::metrics::{
    Area, Inconsistency, KnownReplica, SeenObject, Spread, delta_object, delta_player, inc, inj,
};
use foveate_wire::{Metres, Micros, Tick};

/// How coherence is sampled.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CoherenceSpec {
    /// Rounds between two samples.
    pub every: u32,
    /// The area in which a player sees and affects objects.
    pub area: Area,
    /// An avatar's width in world units: the unit of distance of Inc and Inj.
    pub width: f64,
    /// The latency of the link, which does not count as inconsistency.
    pub latency: Micros,
}

/// The results.
#[derive(Clone, Debug, Default)]
pub struct SessionCoherence {
    /// Δ_s over players and samples, in view radii.
    pub delta: Spread,
    /// Objects in view, over players and samples.
    pub in_view: u64,
    /// Those of them that the player lacked.
    pub lacking: u64,
    /// Sums over players and samples. A replica counts if it lacks the newest state published before now less the
    /// link's latency.
    pub inc: Inconsistency,
    /// The same, if the replica, predicted to now, is off by more than its floor.
    pub noticeable: Inconsistency,
    /// The sum of inj.
    pub inj: f64,
    /// (player, moment) samples.
    pub moments: u64,
}

impl SessionCoherence {
    /// Inc: the mean over players and time.
    pub fn mean_inc(&self) -> f64 {
        self.inc.inc / self.moments.max(1) as f64
    }

    /// Inj: the mean over players and time, in seconds.
    pub fn mean_inj(&self) -> f64 {
        self.inj / self.moments.max(1) as f64
    }

    pub(super) fn merge(&mut self, other: &SessionCoherence) {
        self.delta.merge(&other.delta);
        self.in_view += other.in_view;
        self.lacking += other.lacking;
        self.inc.add(other.inc);
        self.noticeable.add(other.noticeable);
        self.inj += other.inj;
        self.moments += other.moments;
    }
}

/// What one player knows of another's avatar.
#[derive(Clone, Copy)]
struct Belief {
    /// Where the player believes the avatar to be; `None` without a replica.
    at: Option<[f32; 3]>,
    known: KnownReplica,
    noticeable: bool,
}

/// All beliefs in one sample.
pub(super) struct Moment {
    spec: CoherenceSpec,
    count: usize,
    /// Indexed by player, then by object.
    beliefs: Vec<Option<Belief>>,
}

impl Moment {
    pub fn new(spec: CoherenceSpec, count: usize) -> Moment {
        Moment { spec, count, beliefs: vec![None; count * count] }
    }

    fn believe(&mut self, pair: WatchedPair, belief: Belief) {
        self.beliefs[pair.watcher * self.count + pair.object] = Some(belief);
    }

    /// What is known of an object at a distance, by a replica with a first missing change of this age.
    pub fn known(&self, distance: Metres, behind: Option<Micros>) -> KnownReplica {
        let late = behind.filter(|behind| *behind >= self.spec.latency);
        KnownReplica {
            distance: f64::from(distance.0) / self.spec.width,
            differs: late.is_some(),
            delay: late.map_or(0.0, |behind| (behind - self.spec.latency).as_secs()),
        }
    }

    /// Records that a player has no replica, although it has wanted one for `wanted`.
    pub fn lacks(&mut self, pair: WatchedPair, distance: Metres, wanted: Micros) {
        let known = self.known(distance, Some(wanted.max(self.spec.latency)));
        self.believe(pair, Belief { at: None, known, noticeable: true });
    }

    /// Records a player's replica, which is shown at a place.
    pub fn holds(
        &mut self,
        pair: WatchedPair,
        at: [f32; 3],
        known: KnownReplica,
        noticeable: bool,
    ) {
        self.believe(pair, Belief { at: Some(at), known, noticeable });
    }

    /// Ends a sample; `places` has each avatar's place.
    pub fn close(&mut self, tick: Tick, places: &[Option<[f32; 3]>], found: &mut SessionCoherence) {
        if tick.0.is_multiple_of(self.spec.every.max(1)) {
            let deltas: Vec<Option<f64>> =
                (0..self.count).map(|object| self.delta(object, places)).collect();
            for player in (0..self.count).filter(|player| places[*player].is_some()) {
                self.judge_player(player, &deltas, found);
            }
        }
        self.beliefs.fill(None);
    }

    /// Δ_b: how much the players that see an avatar, its owner included, disagree about its place.
    fn delta(&self, object: usize, places: &[Option<[f32; 3]>]) -> Option<f64> {
        let own = places[object]?;
        let others = (0..self.count).filter_map(|player| self.seen(player, object)?.at);
        let beliefs: Vec<[f32; 3]> = std::iter::once(own).chain(others).collect();
        delta_object(&beliefs, |a, b| {
            (0..3).map(|i| f64::from(a[i] - b[i]).powi(2)).sum::<f64>().sqrt()
        })
    }

    /// What a player believes of an avatar in its view.
    fn seen(&self, player: usize, object: usize) -> Option<&Belief> {
        let belief = self.beliefs[player * self.count + object].as_ref()?;
        self.spec.area.sees(belief.known.distance * self.spec.width).then_some(belief)
    }

    fn judge_player(&self, player: usize, deltas: &[Option<f64>], found: &mut SessionCoherence) {
        let row = &self.beliefs[player * self.count..(player + 1) * self.count];
        let mut objects = Vec::new();
        for (object, delta) in deltas.iter().enumerate() {
            let Some(belief) = self.seen(player, object) else { continue };
            found.in_view += 1;
            found.lacking += u64::from(belief.at.is_none());
            let distance = belief.known.distance * self.spec.width;
            objects.extend(delta.map(|delta| SeenObject { distance, delta }));
        }
        if let Some(delta) = delta_player(self.spec.area, &objects) {
            found.delta.add(delta / self.spec.area.view);
        }
        found.inc.add(inc(row.iter().flatten().map(|belief| &belief.known)));
        let noticed: Vec<KnownReplica> = row
            .iter()
            .flatten()
            .map(|belief| KnownReplica { differs: belief.noticeable, ..belief.known })
            .collect();
        found.noticeable.add(inc(&noticed));
        let mutual = row.iter().enumerate().filter_map(|(other, mine)| {
            let theirs = self.beliefs[other * self.count + player].as_ref()?;
            Some((&mine.as_ref()?.known, &theirs.known))
        });
        found.inj += inj(mutual);
        found.moments += 1;
    }
}
