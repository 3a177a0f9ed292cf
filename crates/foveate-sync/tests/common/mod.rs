//! A test harness: a publisher, its observers' replicas, and links with controlled faults.

use foveate_sync::interest::Policy;
use foveate_sync::replica::Life;
use foveate_sync::{Observer, ObserverId, Pivots, Publisher, ReplicaSet, Rounds, Slot};
use foveate_wire::packet::Ack;
use foveate_wire::{KindId, Micros, ObjectId, OwnerId, Replicate, Schema, Tick, predict};
use std::sync::Arc;

pub const ROUND: Micros = Micros(50_000);

#[derive(Clone, PartialEq, Debug, Replicate)]
#[replicate(max_speed = 40.0)]
pub struct Avatar {
    #[replicate(place, motion, precision = 0.125, extent = 2048.0)]
    pub pos: [f32; 3],
    #[replicate(yaw, steps = 240, floor_degrees = 15.0)]
    pub yaw: f32,
    #[replicate(pitch, steps = 240, floor_degrees = 15.0)]
    pub pitch: f32,
    pub health: u8,
}

impl Avatar {
    pub fn at(x: f32, y: f32) -> Avatar {
        Avatar { pos: [x, y, 0.0], yaw: 0.0, pitch: 0.0, health: 100 }
    }
}

pub fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![Avatar::spec()]).unwrap())
}

/// A packet under way.
struct Flying {
    at: u32,
    seat: usize,
    bytes: Vec<u8>,
    up: bool,
}

/// Decides the fate of a packet: the rounds until each copy arrives; none: it is lost.
pub type Fate<'a> = dyn FnMut(bool) -> Vec<u32> + 'a;

/// A world with one owner and several observers.
pub struct World {
    pub publisher: Publisher,
    pub seats: Vec<(ObserverId, ReplicaSet)>,
    pub tick: u32,
    flying: Vec<Flying>,
    next_serial: u32,
}

impl World {
    pub fn new() -> World {
        let publisher = Publisher::new(schema(), Rounds::every(ROUND));
        World { publisher, seats: Vec::new(), tick: 0, flying: Vec::new(), next_serial: 0 }
    }

    pub fn create(&mut self, avatar: &Avatar) -> Slot {
        self.next_serial += 1;
        self.create_as(ObjectId::new(KindId(0), 1, self.next_serial), avatar)
    }

    /// Creates an object under the id of a removed one.
    pub fn create_as(&mut self, id: ObjectId, avatar: &Avatar) -> Slot {
        self.publisher.store.create(id, OwnerId(1), avatar).unwrap()
    }

    pub fn observe(&mut self, from: Slot, policy: Arc<dyn Policy>) -> usize {
        let observer = Observer::new(policy, Pivots::Object(from), Tick(self.tick));
        let id = self.publisher.add(observer.without_own_objects());
        self.seats.push((id, ReplicaSet::new(schema(), Tick(self.tick))));
        self.seats.len() - 1
    }

    pub fn now(&self) -> Micros {
        ROUND * self.tick
    }

    /// One round; `fate` is called for every packet.
    pub fn round(&mut self, fate: &mut Fate<'_>) {
        self.tick += 1;
        self.deliver(fate);
        let (tick, now) = (self.tick, self.now());
        let World { publisher, seats, flying, .. } = self;
        publisher.round(Tick(tick), now, |id, bytes| {
            let seat = seats.iter().position(|(seat, _)| *seat == id).unwrap();
            for delay in fate(false) {
                flying.push(Flying { at: tick + delay, seat, bytes: bytes.to_vec(), up: false });
            }
        });
        self.deliver(fate);
    }

    fn deliver(&mut self, fate: &mut Fate<'_>) {
        let now = self.now();
        let mut at = 0;
        while at < self.flying.len() {
            if self.flying[at].at > self.tick {
                at += 1;
                continue;
            }
            let Flying { seat, bytes, up, .. } = self.flying.remove(at);
            let (id, replicas) = &mut self.seats[seat];
            if up {
                self.publisher.on_ack(*id, &Ack::read(&bytes).unwrap(), now);
                continue;
            }
            let _ = replicas.receive(&bytes, |_| {});
            check_shortcuts(replicas);
            if let Some(ack) = replicas.ack() {
                let mut bytes = Vec::new();
                ack.write(&mut bytes);
                for delay in fate(true) {
                    let at = self.tick + delay;
                    self.flying.push(Flying { at, seat, bytes: bytes.clone(), up: true });
                }
            }
        }
    }

    /// Rounds with a perfect link.
    pub fn settle(&mut self, rounds: u32) {
        (0..rounds).for_each(|_| self.round(&mut |_| vec![0]));
    }

    /// A seat's replica of an object.
    pub fn believed(&self, seat: usize, slot: Slot) -> Option<Avatar> {
        let id = self.publisher.store.id(slot);
        self.seats[seat].1.get(id)?.value()
    }
}

/// Checks that values which replicas cache equal the looked-up ones.
pub fn check_shortcuts(replicas: &ReplicaSet) {
    let by_id: Vec<ObjectId> = replicas.iter().map(|view| view.id()).collect();
    let mut quick: Vec<ObjectId> = replicas.in_any_order().map(|view| view.id()).collect();
    quick.sort_unstable();
    assert_eq!(quick, by_id);
    for view in replicas.iter().filter(|view| view.life() == Life::Live) {
        let place = replicas.schema().kind(view.kind()).unwrap().place.unwrap();
        let tick = view.tick().plus(3);
        let slow = predict::place(&place, view.lanes(), &view.motion(), 3);
        assert_eq!(view.predicted_steps(tick, &place), slow);
    }
}
