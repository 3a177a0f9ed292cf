//! A second opinion on bounds: a publisher, its viewers on perfect links, and arithmetic of its own.
//!
//! The engine leaves pairs alone for as long as they cannot become due, and counts them as kept.
//! Here every pair is looked at in every round, from values alone: what was published, what the
//! viewer holds, and what the policy says. A perfect link makes the viewer's replica the sender's
//! reference replica. Nothing of the engine's own bookkeeping is asked.

use foveate_lab::avatar::{Avatar, AvatarSpec};
use foveate_lab::movement::{Movement, Pose};
use foveate_sync::interest::{Grade, Pivot, Policy, Sight};
use foveate_sync::replica::Life;
use foveate_sync::{Observer, ObserverId, Pivots, Publisher, ReplicaSet, Rounds, Slot};
use foveate_wire::{KindId, Metres, Micros, ObjectId, OwnerId, Radians, Schema, Tick};
use std::sync::Arc;

/// Floats are compared with this much room; positions are whole steps, so that a real violation is
/// larger by orders of magnitude.
const ROOM: f64 = 1e-5;

/// Somebody who moves, is watched and watches.
struct Seat {
    slot: Slot,
    observer: ObserverId,
    replicas: ReplicaSet,
    /// The state published last, and the rounds in which it changed.
    shown: Avatar,
    changes: Vec<Tick>,
}

/// What the second opinion says.
#[derive(Debug, Default)]
pub struct Opinion {
    /// (pair, round) samples in interest.
    pub samples: u64,
    /// Those in which the viewer's replica was not exact, though within bounds.
    pub differing: u64,
    /// What was out of bounds, in words; the first few.
    pub violations: Vec<String>,
    /// How many in all.
    pub count: u64,
    /// What the engine says of itself.
    pub scheduled: f64,
}

/// A world that is judged.
pub struct World<M> {
    movement: M,
    policy: Arc<dyn Policy>,
    avatar: AvatarSpec,
    round: Micros,
    publisher: Publisher,
    schema: Arc<Schema>,
    seats: Vec<Option<Seat>>,
    /// When each pair's present difference arose.
    since: Vec<Option<Tick>>,
    joined: u32,
    tick: Tick,
    opinion: Opinion,
}

impl<M: Movement> World<M> {
    pub fn new(
        movement: M,
        policy: Arc<dyn Policy>,
        avatar: AvatarSpec,
        round: Micros,
    ) -> World<M> {
        let schema = avatar.schema().unwrap();
        let publisher = Publisher::new(Arc::clone(&schema), Rounds::every(round));
        let count = movement.len();
        World {
            movement,
            policy,
            avatar,
            round,
            publisher,
            schema,
            seats: std::iter::repeat_with(|| None).take(count).collect(),
            since: vec![None; count * count],
            joined: 0,
            tick: Tick(0),
            opinion: Opinion::default(),
        }
    }

    /// Runs so many rounds, or to the end of the movement.
    pub fn judge(mut self, rounds: u32) -> Opinion {
        for _ in 0..rounds {
            if !self.movement.step() {
                break;
            }
            self.tick = self.tick.plus(1);
            (0..self.seats.len()).for_each(|at| self.place(at));
            self.publish();
            for watcher in 0..self.seats.len() {
                for object in (0..self.seats.len()).filter(|object| *object != watcher) {
                    self.look(watcher, object);
                }
            }
        }
        self.opinion.scheduled = self.publisher.totals().bounds_scheduled();
        self.opinion
    }

    fn place(&mut self, at: usize) {
        match (self.movement.pose(at), self.seats[at].is_some()) {
            (Some(pose), true) => self.walk(at, pose),
            (Some(pose), false) => self.join(at, pose),
            (None, true) => self.leave(at),
            (None, false) => {}
        }
    }

    fn walk(&mut self, at: usize, pose: Pose) {
        let Some(seat) = &mut self.seats[at] else { return };
        let store = &mut self.publisher.store;
        store.set(seat.slot, &Avatar::from(pose)).unwrap();
        let shown: Avatar = store.get(seat.slot).unwrap();
        if shown != seat.shown {
            seat.changes.push(self.tick);
            seat.shown = shown;
        }
    }

    fn join(&mut self, at: usize, pose: Pose) {
        self.joined += 1;
        let id = ObjectId::new(KindId(0), 0, self.joined);
        let slot =
            self.publisher.store.create(id, OwnerId(at as u32), &Avatar::from(pose)).unwrap();
        let observer = Observer::new(Arc::clone(&self.policy), Pivots::Object(slot), self.tick);
        self.seats[at] = Some(Seat {
            slot,
            observer: self.publisher.add(observer.without_own_objects()),
            replicas: ReplicaSet::new(Arc::clone(&self.schema), self.tick),
            shown: self.publisher.store.get(slot).unwrap(),
            changes: vec![self.tick],
        });
    }

    fn leave(&mut self, at: usize) {
        let Some(seat) = self.seats[at].take() else { return };
        self.publisher.remove(seat.observer);
        self.publisher.store.remove(seat.slot).unwrap();
        let count = self.seats.len();
        for other in 0..count {
            (self.since[at * count + other], self.since[other * count + at]) = (None, None);
        }
    }

    /// A round over links without delay and loss, in both directions.
    fn publish(&mut self) {
        let World { publisher, seats, tick, round, .. } = self;
        let (now, mut packets) = (*round * tick.0, Vec::new());
        publisher.round(*tick, now, |to, bytes| packets.push((to, bytes.to_vec())));
        for (to, bytes) in packets {
            let seat = seats.iter_mut().flatten().find(|seat| seat.observer == to).unwrap();
            seat.replicas.receive(&bytes, |_| {}).unwrap();
            publisher.on_ack(to, &seat.replicas.ack().unwrap(), now);
        }
    }

    fn look(&mut self, watcher: usize, object: usize) {
        let (Some(from), Some(to)) = (&self.seats[watcher], &self.seats[object]) else { return };
        let since = &mut self.since[watcher * self.seats.len() + object];
        let id = self.publisher.store.id(to.slot);
        let sight = sight(&from.shown, &to.shown, id, (self.tick, self.round));
        let Some(grade) = self.policy.grade(&sight) else {
            *since = None;
            return;
        };
        self.opinion.samples += 1;
        let told = match from.replicas.get(id).filter(|replica| replica.life() == Life::Live) {
            None => Some("no live replica".into()),
            Some(replica) => {
                let at = replica.predicted(self.tick).unwrap();
                let held: Avatar = replica.value().unwrap();
                let error = length(at, to.shown.pos);
                let off = Off { error, floor: f64::from(grade.floor.0.max(self.avatar.precision)) };
                let differs = off.differs() || differs(&held, &to.shown, &grade, &self.avatar);
                *since = if differs { since.or(Some(self.tick)) } else { None };
                self.opinion.differing += u64::from(differs);
                let missed = to.changes.iter().rev().take_while(|t| t.is_after(replica.tick()));
                let age = since.map_or(Micros::ZERO, |since| self.round * self.tick.since(since));
                let age = (age, self.round);
                differs.then(|| off.complaint(&grade, age, missed.count())).flatten()
            }
        };
        if let Some(told) = told {
            self.opinion.count += 1;
            if self.opinion.violations.len() < 8 {
                let pair = format!("round {}, {watcher} of {object}", self.tick.0);
                self.opinion.violations.push(format!("{pair}: {told} ({grade:?})"));
            }
        }
    }
}

/// How far off a place is, and what is no difference.
struct Off {
    error: f64,
    floor: f64,
}

impl Off {
    fn differs(&self) -> bool {
        self.error > self.floor * (1.0 + ROOM)
    }

    /// Which bound is broken, if one is.
    fn complaint(
        &self,
        grade: &Grade,
        (age, round): (Micros, Micros),
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
fn differs(held: &Avatar, shown: &Avatar, grade: &Grade, avatar: &AvatarSpec) -> bool {
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

fn sight(from: &Avatar, to: &Avatar, object: ObjectId, (tick, round): (Tick, Micros)) -> Sight {
    let pivot = Pivot::looking(from.pos, Radians(from.yaw), Radians(from.pitch));
    let way = [0, 1, 2].map(|i| to.pos[i] - from.pos[i]);
    let distance = way.iter().map(|part| part * part).sum::<f32>().sqrt();
    let ahead: f32 = (0..3).map(|i| way[i] * pivot.facing[i]).sum();
    Sight {
        distance: Metres(distance),
        cos_angle: if distance > 0.0 { ahead / distance } else { 1.0 },
        from: from.pos,
        to: to.pos,
        pivot: None,
        object,
        kind: KindId(0),
        mates: false,
        interaction: 0.0,
        tick,
        now: round * tick.0,
    }
}
