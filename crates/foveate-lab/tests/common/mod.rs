//! A publisher and its viewers on perfect links, with the lab's auditor, which checks every pair in every round.

use foveate_lab::audit::{SenderAudit, SenderFindings};
use foveate_lab::avatar::{AvatarSpec, LabAvatar};
use foveate_lab::movement::{AvatarPose, Movement};
use foveate_sync::interest::Policy;
use foveate_sync::{Observer, ObserverId, Pivots, Publisher, ReplicaSet, Rounds, Slot};
use foveate_wire::{KindId, Micros, ObjectId, OwnerId, Schema, Tick};
use std::sync::Arc;

/// An avatar that is both observer and object.
struct Seat {
    slot: Slot,
    observer: ObserverId,
    replicas: ReplicaSet,
}

/// The auditor's findings and the engine's own counters.
#[derive(Debug)]
pub struct AuditSummary {
    pub audited: SenderFindings,
    pub scheduled: f64,
}

/// A world whose bounds are checked.
pub struct World<M> {
    movement: M,
    policy: Arc<dyn Policy>,
    /// The policy that the auditor applies, usually the engine's.
    judged_by: Arc<dyn Policy>,
    round: Micros,
    publisher: Publisher,
    schema: Arc<Schema>,
    seats: Vec<Option<Seat>>,
    audit: SenderAudit,
    joined: u32,
    tick: Tick,
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
        let seats = std::iter::repeat_with(|| None).take(movement.len()).collect();
        let audit = SenderAudit::new(movement.len(), avatar, round);
        let (joined, tick) = (0, Tick(0));
        let judged_by = Arc::clone(&policy);
        World { movement, policy, judged_by, round, publisher, schema, seats, audit, joined, tick }
    }

    /// Makes the auditor apply another policy than the engine.
    pub fn judged_by(self, policy: Arc<dyn Policy>) -> World<M> {
        World { judged_by: policy, ..self }
    }

    /// Plays `rounds` rounds, or to the end of the movement.
    pub fn judge(mut self, rounds: u32) -> AuditSummary {
        for _ in 0..rounds {
            if !self.movement.step() {
                break;
            }
            self.tick = self.tick.plus(1);
            (0..self.seats.len()).for_each(|at| self.place(at));
            self.publish();
            let World { seats, audit, judged_by, tick, .. } = &mut self;
            for (at, seat) in seats.iter().enumerate() {
                let Some(seat) = seat else { continue };
                audit.look(at, &**judged_by, &seat.replicas, *tick);
            }
        }
        let scheduled = self.publisher.totals().bounds_scheduled();
        AuditSummary { audited: self.audit.found().clone(), scheduled }
    }

    fn place(&mut self, at: usize) {
        match (self.movement.pose(at), &self.seats[at]) {
            (Some(pose), Some(seat)) => {
                self.publisher.store.set(seat.slot, &LabAvatar::from(pose)).unwrap();
            }
            (Some(pose), None) => self.join(at, pose),
            (None, Some(_)) => return self.leave(at),
            (None, None) => return,
        }
        let Some(seat) = &self.seats[at] else { return };
        let store = &self.publisher.store;
        self.audit.publish(at, store.id(seat.slot), store.get(seat.slot).unwrap(), self.tick);
    }

    fn join(&mut self, at: usize, pose: AvatarPose) {
        self.joined += 1;
        let id = ObjectId::new(KindId(0), 0, self.joined);
        let slot =
            self.publisher.store.create(id, OwnerId(at as u32), &LabAvatar::from(pose)).unwrap();
        let observer = Observer::new(Arc::clone(&self.policy), Pivots::Object(slot), self.tick);
        self.seats[at] = Some(Seat {
            slot,
            observer: self.publisher.add(observer.without_own_objects()),
            replicas: ReplicaSet::new(Arc::clone(&self.schema), self.tick),
        });
    }

    fn leave(&mut self, at: usize) {
        let Some(seat) = self.seats[at].take() else { return };
        self.publisher.remove(seat.observer);
        self.publisher.store.remove(seat.slot).unwrap();
        self.audit.forget(at);
    }

    /// A round over links without latency and loss, in both directions.
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
}
