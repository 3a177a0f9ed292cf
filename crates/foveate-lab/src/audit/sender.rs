//! An auditor of the sender: was enough sent to keep every bound?
//!
//! The engine skips pairs for as long as they cannot become due, and counts them as kept, so its own counters cannot
//! reveal its mistakes. This auditor checks every pair in every round from values alone: what was published, what the
//! sent packets decode to, and what the policy says. It uses none of the engine's bookkeeping.

use crate::avatar::{AvatarSpec, LabAvatar};
use foveate_sync::ReplicaSet;
use foveate_sync::interest::{Grade, Pivot, Policy, Sight};
use foveate_sync::replica::Life;
use foveate_wire::{Metres, Micros, ObjectId, Radians, Tick};
use std::collections::VecDeque;

/// Tolerance when floats are compared. Positions are whole steps, so that a real violation is larger by orders of
/// magnitude.
const ROOM: f64 = 1e-5;
/// Violations that are kept as text.
const DESCRIBED: usize = 8;
/// Changes of one avatar that are kept; more than any σ in use.
const CHANGES: usize = 256;

/// The results of the sender's audit.
#[derive(Clone, Debug, Default)]
pub struct SenderFindings {
    /// (pair, round) samples in interest.
    pub samples: u64,
    /// Those in which the replica was not exact, though possibly within its bounds.
    pub differing: u64,
    /// Those in which a bound was broken.
    pub broken: u64,
    /// The first few violations, as text.
    pub described: Vec<String>,
}

impl SenderFindings {
    /// `bounds_audited`: the share of samples in which every bound was kept; NaN without samples.
    pub fn kept(&self) -> f64 {
        (self.samples - self.broken) as f64 / self.samples as f64
    }

    /// Adds the results of another run.
    pub fn merge(&mut self, other: &SenderFindings) {
        self.samples += other.samples;
        self.differing += other.differing;
        self.broken += other.broken;
        self.described.extend(other.described.iter().cloned());
        self.described.truncate(DESCRIBED);
    }
}

/// A player, which is both an observer and an object.
#[derive(Clone)]
struct Published {
    id: ObjectId,
    /// The last published state, quantised.
    shown: LabAvatar,
    /// The last rounds in which it changed.
    changes: VecDeque<Tick>,
}

/// Checks every pair in every round.
pub struct SenderAudit {
    avatar: AvatarSpec,
    round: Micros,
    published: Vec<Option<Published>>,
    /// When each pair's present difference arose.
    since: Vec<Option<Tick>>,
    found: SenderFindings,
}

impl SenderAudit {
    /// Makes an auditor for `count` avatars.
    pub fn new(count: usize, avatar: AvatarSpec, round: Micros) -> SenderAudit {
        SenderAudit {
            avatar,
            round,
            published: vec![None; count],
            since: vec![None; count * count],
            found: SenderFindings::default(),
        }
    }

    pub fn found(&self) -> &SenderFindings {
        &self.found
    }

    /// Starts counting now. The state of pairs is kept.
    pub fn begin(&mut self) {
        self.found = SenderFindings::default();
    }

    /// Records an avatar's state in this round, as the store has it.
    pub fn publish(&mut self, at: usize, id: ObjectId, shown: LabAvatar, tick: Tick) {
        match &mut self.published[at] {
            Some(before) if before.id == id => {
                if before.shown != shown {
                    before.shown = shown;
                    if before.changes.len() == CHANGES {
                        before.changes.pop_front();
                    }
                    before.changes.push_back(tick);
                }
            }
            other => *other = Some(Published { id, shown, changes: VecDeque::from([tick]) }),
        }
    }

    /// Forgets an avatar that has left.
    pub fn forget(&mut self, at: usize) {
        self.published[at] = None;
        let count = self.published.len();
        for other in 0..count {
            (self.since[at * count + other], self.since[other * count + at]) = (None, None);
        }
    }

    /// Checks all that one watcher should know. `told` is what it would know if every packet had arrived at once.
    pub fn look(&mut self, watcher: usize, policy: &dyn Policy, told: &ReplicaSet, tick: Tick) {
        for object in (0..self.published.len()).filter(|object| *object != watcher) {
            self.look_at(watcher, object, policy, told, tick);
        }
    }

    fn look_at(
        &mut self,
        watcher: usize,
        object: usize,
        policy: &dyn Policy,
        told: &ReplicaSet,
        tick: Tick,
    ) {
        let (Some(from), Some(to)) = (&self.published[watcher], &self.published[object]) else {
            return;
        };
        let since = &mut self.since[watcher * self.published.len() + object];
        let Some(grade) = policy.grade(&sight(from, to, tick, self.round)) else {
            *since = None;
            return;
        };
        self.found.samples += 1;
        let complaint = match told.get(to.id).filter(|replica| replica.life() == Life::Live) {
            None => Some("no live replica".into()),
            Some(replica) => {
                let at = replica.predicted(tick).unwrap_or_default().0;
                let held: Option<LabAvatar> = replica.value();
                let error = length(at, to.shown.pos);
                let off = Off { error, floor: f64::from(grade.floor.0.max(self.avatar.precision)) };
                let differs = off.differs()
                    || held.is_none_or(|held| differs(&held, &to.shown, &grade, &self.avatar));
                *since = if differs { since.or(Some(tick)) } else { None };
                self.found.differing += u64::from(differs);
                let missed = to.changes.iter().rev().take_while(|t| t.is_after(replica.tick()));
                let age = since.map_or(Micros::ZERO, |since| self.round * tick.since(since));
                differs.then(|| off.complaint(&grade, age, self.round, missed.count())).flatten()
            }
        };
        if let Some(complaint) = complaint {
            self.found.broken += 1;
            if self.found.described.len() < DESCRIBED {
                let pair = format!("round {}, {watcher} of {object}", tick.0);
                self.found.described.push(format!("{pair}: {complaint} ({grade:?})"));
            }
        }
    }
}

/// How far a replica's place is off, and the floor for it.
struct Off {
    error: f64,
    floor: f64,
}

impl Off {
    fn differs(&self) -> bool {
        self.error > self.floor * (1.0 + ROOM)
    }

    /// Describes the broken bound, if any.
    fn complaint(
        &self,
        grade: &Grade,
        age: Micros,
        round: Micros,
        missed: usize,
    ) -> Option<String> {
        let allowed = f64::from(grade.max_error.0).max(self.floor);
        if age > grade.max_age.max(round) {
            return Some(format!("θ: the difference lasts {} ms", age.as_millis()));
        }
        if missed > grade.max_missed as usize {
            return Some(format!("σ: {missed} changes missed"));
        }
        let broken = self.error > allowed * (1.0 + ROOM);
        broken.then(|| format!("ν: {} off, {allowed} allowed", self.error))
    }
}

/// Whether facing or state differ by more than their floors.
fn differs(held: &LabAvatar, shown: &LabAvatar, grade: &Grade, avatar: &AvatarSpec) -> bool {
    let floor = f64::from(avatar.facing_floor * grade.facing);
    let turned = |a: f32, b: f32| {
        let turn = f64::from(a - b).to_degrees().rem_euclid(360.0);
        turn.min(360.0 - turn) > floor + 0.01
    };
    held.state != shown.state || turned(held.yaw, shown.yaw) || turned(held.pitch, shown.pitch)
}

fn length(a: [f32; 3], b: [f32; 3]) -> f64 {
    (0..3).map(|i| f64::from(a[i] - b[i]).powi(2)).sum::<f64>().sqrt()
}

fn sight(from: &Published, to: &Published, tick: Tick, round: Micros) -> Sight {
    let (eye, at) = (&from.shown, to.shown.pos);
    let pivot = Pivot::looking(eye.pos, Radians(eye.yaw), Radians(eye.pitch));
    let way = [0, 1, 2].map(|i| at[i] - eye.pos[i]);
    let distance = way.iter().map(|part| part * part).sum::<f32>().sqrt();
    let ahead: f32 = (0..3).map(|i| way[i] * pivot.facing[i]).sum();
    Sight {
        distance: Metres(distance),
        cos_angle: if distance > 0.0 { ahead / distance } else { 1.0 },
        from: eye.pos.into(),
        to: at.into(),
        pivot: Some(from.id),
        object: to.id,
        kind: to.id.kind(),
        same_team: false,
        interaction: 0.0,
        tick,
        now: round * tick.0,
    }
}
