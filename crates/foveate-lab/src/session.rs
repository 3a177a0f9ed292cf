//! A session in virtual time: one source, everybody an observer, links in between, and an auditor
//! who knows the truth.

use crate::audit::{Audit, CoherenceSpec, Findings, Refusals, Sample, SenderAudit};
use crate::avatar::{AvatarSpec, LabAvatar};
use crate::movement::{AvatarPose, Movement};
use crate::net::{Agenda, Fate, Link, LinkSpec};
use foveate_node::{Output, Source, SourceInput, Viewer, ViewerInput};
use foveate_sync::interest::Policy;
use foveate_sync::{Budget, Observer, ObserverId, Pivots, ReplicaSet, Rounds, Slot};
use foveate_wire::{Bytes, KindId, Metres, Micros, ObjectId, OwnerId, Schema, SchemaError, Tick};
use std::sync::Arc;

/// What a session is made of, but for the movement.
#[derive(Clone)]
pub struct SessionSpec {
    /// The length of a round.
    pub round: Micros,
    /// Everybody's view.
    pub policy: Arc<dyn Policy>,
    /// What the links from the source do.
    pub down: LinkSpec,
    /// What the links to the source do.
    pub up: LinkSpec,
    /// Bytes per observer and round.
    pub budget: Option<Bytes>,
    /// The avatars' precision, prediction and floors.
    pub avatar: AvatarSpec,
    /// What the links' fates are drawn from.
    pub seed: u64,
    /// Whether the auditors look at every pair in every round. Without, only the source's own
    /// counters are there.
    pub audited: bool,
}

/// One participant: an avatar, an observer, a viewer and its two links.
struct Seat {
    slot: Slot,
    observer: ObserverId,
    viewer: Viewer,
    /// What the viewer would know had every packet arrived at once.
    told: ReplicaSet,
    down: Link,
    up: Link,
    /// A packet of this round was lost.
    lost_now: bool,
    up_bytes: u64,
}

enum Arrival {
    AtViewer(usize, Vec<u8>),
    AtSource(usize, Vec<u8>),
}

/// A running session.
pub struct Session<M> {
    movement: M,
    spec: SessionSpec,
    schema: Arc<Schema>,
    source: Source,
    seats: Vec<Option<Seat>>,
    agenda: Agenda<Arrival>,
    tick: Tick,
    audit: Audit,
    sender: SenderAudit,
    digest: Digest,
}

/// FNV-1a over all packets in the order of sending: two runs that agree in it sent the same bytes.
struct Digest(u64);

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn packet(&mut self, seat: usize, bytes: &[u8]) {
        self.add(&(seat as u32).to_le_bytes());
        self.add(&(bytes.len() as u32).to_le_bytes());
        self.add(bytes);
    }
}

impl<M: Movement> Session<M> {
    /// Nobody is there yet; each joins when the movement first has a pose for it.
    pub fn new(movement: M, spec: SessionSpec) -> Result<Session<M>, SchemaError> {
        let schema = spec.avatar.schema()?;
        let source = Source::new(Arc::clone(&schema), Rounds::every(spec.round));
        let seats = std::iter::repeat_with(|| None).take(movement.len()).collect();
        let audit = Audit::new(movement.len(), &schema, spec.round);
        let sender = SenderAudit::new(movement.len(), spec.avatar, spec.round);
        let (agenda, digest) = (Agenda::default(), Digest(0xcbf2_9ce4_8422_2325));
        let tick = Tick(0);
        Ok(Session { movement, spec, schema, source, seats, agenda, tick, audit, sender, digest })
    }

    /// The same, with findings by distance in so many bins of this width.
    pub fn binned(mut self, width: Metres, count: usize) -> Session<M> {
        self.audit.set_bins(width, count);
        self
    }

    /// The same, with coherence looked at.
    pub fn with_coherence(mut self, spec: CoherenceSpec) -> Session<M> {
        self.audit.set_coherence(spec);
        self
    }

    /// The movement, to look at.
    pub fn movement(&self) -> &M {
        &self.movement
    }

    /// Findings begin now: what came before was warming up. Nobody must have left by then.
    pub fn begin_findings(&mut self) {
        self.audit.begin(self.source.publisher.totals());
        self.sender.begin();
    }

    /// A hash of all packets so far, in both directions.
    pub fn digest(&self) -> u64 {
        self.digest.0
    }

    /// One round; false when the movement has ended.
    pub fn round(&mut self) -> Result<bool, SchemaError> {
        if !self.movement.step() {
            return Ok(false);
        }
        self.tick = self.tick.plus(1);
        let now = self.spec.round * self.tick.0;
        self.move_all();
        self.deliver(now);
        self.seats.iter_mut().flatten().for_each(|seat| seat.lost_now = false);
        self.source.handle(now, SourceInput::Round(self.tick));
        self.transmit(now);
        self.deliver(now);
        let present = self.seats.iter().flatten().count() as u64;
        self.audit.count_round(present, self.movement.updates().unwrap_or(present));
        if self.spec.audited {
            self.look();
        }
        Ok(true)
    }

    fn move_all(&mut self) {
        for at in 0..self.movement.len() {
            match (self.movement.pose(at), &self.seats[at]) {
                (Some(pose), Some(seat)) => {
                    // The slot is this seat's own and alive, and of the only kind there is.
                    let moved = self.source.publisher.store.set(seat.slot, &LabAvatar::from(pose));
                    debug_assert!(moved.is_ok());
                }
                (Some(pose), None) => self.seats[at] = self.join(at, pose),
                (None, Some(_)) => self.leave(at),
                (None, None) => {}
            }
        }
    }

    fn join(&mut self, at: usize, pose: AvatarPose) -> Option<Seat> {
        let id = self.audit.name(at);
        let store = &mut self.source.publisher.store;
        let slot = store.create(id, OwnerId(at as u32), &LabAvatar::from(pose)).ok()?;
        let policy = Arc::clone(&self.spec.policy);
        let mut observer = Observer::new(policy, Pivots::Object(slot), self.tick);
        if let Some(bytes) = self.spec.budget {
            observer = observer.with_budget(Budget::per_round(bytes, 8));
        }
        let observer = self.source.publisher.add(observer.without_own_objects());
        let seed = self.spec.seed.wrapping_mul(0x9e37_79b9).wrapping_add(at as u64 * 2);
        Some(Seat {
            slot,
            observer,
            viewer: Viewer::new(Arc::clone(&self.schema), self.tick),
            told: ReplicaSet::new(Arc::clone(&self.schema), self.tick),
            down: Link::new(self.spec.down, seed),
            up: Link::new(self.spec.up, seed + 1),
            lost_now: false,
            up_bytes: 0,
        })
    }

    fn leave(&mut self, at: usize) {
        let Some(seat) = self.seats[at].take() else { return };
        if let Some(observer) = self.source.publisher.remove(seat.observer) {
            let refused = seat.viewer.refused();
            let refused = Refusals {
                malformed: refused.malformed,
                duplicate: refused.duplicate,
                too_old: refused.too_old,
            };
            self.audit.left(observer.counters(), seat.up_bytes, refused);
        }
        let removed = self.source.publisher.store.remove(seat.slot);
        debug_assert!(removed.is_ok());
        self.audit.forget(at);
        self.sender.forget(at);
    }

    /// Whose observer it is: observers are seats' own.
    fn transmit(&mut self, now: Micros) {
        while let Some(output) = self.source.poll() {
            let Output::Transmit(to, bytes) = output else { continue };
            let found = self.seats.iter_mut().enumerate().find_map(|(at, seat)| {
                let seat = seat.as_mut().filter(|seat| seat.observer == to)?;
                Some((at, seat))
            });
            let Some((at, seat)) = found else { continue };
            self.digest.packet(at, &bytes);
            if self.spec.audited {
                // What cannot be decoded is missing from what was told, and found there.
                let _ = seat.told.receive(&bytes, |_| {});
            }
            let agenda = &mut self.agenda;
            let fate = seat.down.carry(now, bytes.len(), |when| {
                agenda.plan(when, Arrival::AtViewer(at, bytes.clone()));
            });
            seat.lost_now |= !matches!(fate, Fate::Arrives(_));
        }
    }

    fn deliver(&mut self, until: Micros) {
        while let Some((now, arrival)) = self.agenda.next(until) {
            match arrival {
                Arrival::AtViewer(at, bytes) => {
                    let Some(seat) = &mut self.seats[at] else { continue };
                    seat.viewer.handle(now, ViewerInput::Datagram(&bytes));
                    while let Some(output) = seat.viewer.poll() {
                        let Output::Transmit((), bytes) = output else { continue };
                        seat.up_bytes += bytes.len() as u64;
                        self.digest.packet(at, &bytes);
                        let agenda = &mut self.agenda;
                        seat.up.carry(now, bytes.len(), |when| {
                            agenda.plan(when, Arrival::AtSource(at, bytes.clone()));
                        });
                    }
                }
                Arrival::AtSource(at, bytes) => {
                    let Some(seat) = &self.seats[at] else { continue };
                    self.source.handle(now, SourceInput::Datagram(seat.observer, &bytes));
                }
            }
        }
    }

    /// The auditors compare what every observer was told, and what it has, with the truth.
    fn look(&mut self) {
        let Session { audit, sender, seats, source, movement, tick, spec, .. } = self;
        let (publisher, now) = (&source.publisher, *tick);
        for (at, seat) in seats.iter().enumerate() {
            let Some(seat) = seat else { continue };
            audit.truth(at, now, publisher.store.lanes(seat.slot));
            if let Ok(shown) = publisher.store.get(seat.slot) {
                sender.publish(at, publisher.store.id(seat.slot), shown, now);
            }
        }
        for (at, seat) in seats.iter().enumerate() {
            let Some(seat) = seat else { continue };
            sender.look(at, &*spec.policy, &seat.told, now);
        }
        let places: Vec<_> = (0..seats.len()).map(|at| Some(movement.pose(at)?.pos)).collect();
        let mut waiting = vec![None; seats.len()];
        for (watcher, seat) in seats.iter().enumerate() {
            let Some(seat) = seat else { continue };
            for (slot, sent) in publisher.references(seat.observer) {
                let pair = (watcher, mover_of(publisher.store.id(slot)));
                audit.sent(pair, sent, now, seat.lost_now);
            }
            waiting.fill(None);
            for (slot, since) in publisher.waiting(seat.observer) {
                waiting[mover_of(publisher.store.id(slot))] = Some(since);
            }
            for (object, other) in seats.iter().enumerate() {
                let Some(other) = other.as_ref().filter(|_| object != watcher) else { continue };
                let Some((grade, distance)) = publisher.grade_of(seat.observer, other.slot) else {
                    continue;
                };
                audit.sample(&Sample {
                    pair: (watcher, object),
                    grade,
                    distance,
                    truth: places[object].unwrap_or_default(),
                    replica: seat.viewer.replicas.get(publisher.store.id(other.slot)),
                    waiting: waiting[object],
                    now,
                });
            }
        }
        audit.close_round(now, &places);
    }

    /// What was found so far.
    pub fn findings(mut self) -> Findings {
        for at in 0..self.seats.len() {
            self.leave(at);
        }
        Findings { sender: self.sender.found().clone(), ..self.audit.findings() }
    }
}

/// The lab's names carry the mover's number.
pub(crate) fn mover_of(id: ObjectId) -> usize {
    id.serial() as usize % Audit::GENERATION
}

/// The only kind there is.
pub(crate) const KIND: KindId = KindId(0);
