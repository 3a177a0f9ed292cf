//! A session in virtual time: one source, everybody an observer, links in between, and an auditor
//! who knows the truth.

use crate::audit::{Audit, CoherenceSpec, Findings, Refusals, Sample, SenderAudit};
use crate::avatar::{Avatar, AvatarSpec};
use crate::movement::{Movement, Pose};
use crate::net::{Link as Path, LinkSpec};
use crate::network::{Host, Network, NetworkSpec, Placed, Placement, Reaction};
use foveate_node::outbox::{Outbox, Outgoing};
use foveate_node::{Link, Node, NodeInput, Output, Source, SourceInput, Viewer, ViewerInput};
use foveate_sync::interest::Policy;
use foveate_sync::{Budget, Observer, ObserverId, Pivots, ReplicaSet, Rounds, Slot};
use foveate_wire::{Bytes, KindId, Metres, Micros, ObjectId, OwnerId, Schema, SchemaError, Tick};
use std::collections::BTreeMap;
use std::convert::Infallible;
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

/// The source and its viewers as nodes.
enum Party {
    Source(Box<Source>, BTreeMap<Link, ObserverId>),
    Viewer(Box<Viewer>),
}

impl Node for Party {
    type Command = Tick;
    type Event = Infallible;

    fn handle(&mut self, now: Micros, input: NodeInput<'_, Tick>, out: &mut impl Outbox) {
        match (self, input) {
            (Party::Source(source, observers), NodeInput::Command(tick)) => {
                source.handle(now, SourceInput::Round(tick));
                while let Some(output) = source.poll() {
                    let Output::Transmit(to, bytes) = output else { continue };
                    let link = observers.iter().find(|(_, observer)| **observer == to);
                    link.into_iter().for_each(|(link, _)| out.datagram(*link, &bytes));
                }
            }
            (Party::Source(source, observers), NodeInput::Datagram(link, bytes)) => {
                if let Some(observer) = observers.get(&link) {
                    source.handle(now, SourceInput::Datagram(*observer, bytes));
                }
            }
            (Party::Viewer(viewer), NodeInput::Datagram(link, bytes)) => {
                viewer.handle(now, ViewerInput::Datagram(bytes));
                while let Some(output) = viewer.poll() {
                    let Output::Transmit((), bytes) = output else { continue };
                    out.datagram(link, &bytes);
                }
            }
            _ => {}
        }
    }

    fn poll(&mut self) -> Option<Infallible> {
        None
    }

    fn next_wake(&self, _: Micros) -> Micros {
        Micros(u64::MAX)
    }
}

/// One participant: an avatar, an observer, and where its viewer is.
struct Seat {
    slot: Slot,
    observer: ObserverId,
    place: usize,
    link: Link,
    /// What the viewer would know had every packet arrived at once.
    told: ReplicaSet,
    /// Packets lost so far, and whether one of this round was.
    lost: u64,
    lost_now: bool,
}

/// Lets every seat's second opinion hear what is sent.
struct Tap<'a>(&'a mut [Option<Seat>]);

impl Host<Party> for Tap<'_> {
    fn on_event(
        &mut self,
        _: Micros,
        _: usize,
        _: &mut Placed<Party>,
        event: Infallible,
    ) -> Option<Reaction<Tick>> {
        match event {}
    }

    fn on_sent(&mut self, from: usize, to: usize, outgoing: &Outgoing) {
        let seat = self.0.iter_mut().flatten().find(|seat| from == 0 && seat.place == to);
        if let (Some(seat), Outgoing::Datagram(bytes)) = (seat, outgoing) {
            // What cannot be decoded is missing from what was told, and found there.
            let _ = seat.told.receive(bytes, |_| {});
        }
    }
}

/// A running session.
pub struct Session<M> {
    movement: M,
    spec: SessionSpec,
    schema: Arc<Schema>,
    network: Network<Party>,
    seats: Vec<Option<Seat>>,
    tick: Tick,
    audit: Audit,
    sender: SenderAudit,
}

impl<M: Movement> Session<M> {
    /// Nobody is there yet; each joins when the movement first has a pose for it.
    pub fn new(movement: M, spec: SessionSpec) -> Result<Session<M>, SchemaError> {
        let schema = spec.avatar.schema()?;
        let source = Source::new(Arc::clone(&schema), Rounds::every(spec.round));
        let source = Party::Source(Box::new(source), BTreeMap::new());
        let mut network = Network::new(NetworkSpec::delayed(Micros::ZERO, spec.seed));
        network.add(source, Placement::PLAIN, &mut Tap(&mut []));
        let seats = std::iter::repeat_with(|| None).take(movement.len()).collect();
        let audit = Audit::new(movement.len(), &schema, spec.round);
        let sender = SenderAudit::new(movement.len(), spec.avatar, spec.round);
        let tick = Tick(0);
        Ok(Session { movement, spec, schema, network, seats, tick, audit, sender })
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
        let totals = self.source().publisher.totals();
        self.audit.begin(totals);
        self.sender.begin();
    }

    /// A hash of all packets so far, in both directions.
    pub fn digest(&self) -> u64 {
        self.network.digest()
    }

    fn source(&mut self) -> &mut Source {
        match self.network.nodes[0].as_mut().map(|placed| &mut placed.node) {
            Some(Party::Source(source, _)) => source,
            _ => unreachable!("the source is at place 0 for good"),
        }
    }

    /// One round; false when the movement has ended.
    pub fn round(&mut self) -> Result<bool, SchemaError> {
        if !self.movement.step() {
            return Ok(false);
        }
        self.tick = self.tick.plus(1);
        let now = self.spec.round * self.tick.0;
        self.move_all();
        let Session { network, seats, tick, .. } = self;
        network.run_until(now, &mut Tap(seats));
        network.command(0, *tick, &mut Tap(seats));
        network.run_until(now, &mut Tap(seats));
        for seat in seats.iter_mut().flatten() {
            let lost = network.lost(seat.link, 0);
            seat.lost_now = lost > std::mem::replace(&mut seat.lost, lost);
        }
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
                    let slot = seat.slot;
                    // The slot is this seat's own and alive, and of the only kind there is.
                    let moved = self.source().publisher.store.set(slot, &Avatar::from(pose));
                    debug_assert!(moved.is_ok());
                }
                (Some(pose), None) => self.seats[at] = self.join(at, pose),
                (None, Some(_)) => self.leave(at),
                (None, None) => {}
            }
        }
    }

    fn join(&mut self, at: usize, pose: Pose) -> Option<Seat> {
        let (id, tick, policy) = (self.audit.name(at), self.tick, Arc::clone(&self.spec.policy));
        let budget = self.spec.budget;
        let publisher = &mut self.source().publisher;
        let slot = publisher.store.create(id, OwnerId(at as u32), &Avatar::from(pose)).ok()?;
        let mut observer = Observer::new(policy, Pivots::Object(slot), tick);
        if let Some(bytes) = budget {
            observer = observer.with_budget(Budget::per_round(bytes, 8));
        }
        let observer = publisher.add(observer.without_own_objects());
        let seed = self.spec.seed.wrapping_mul(0x9e37_79b9).wrapping_add(at as u64 * 2);
        let paths = [Path::new(self.spec.down, seed), Path::new(self.spec.up, seed + 1)];
        let viewer = Viewer::new(Arc::clone(&self.schema), tick);
        let (host, viewer) = (&mut Tap(&mut []), Party::Viewer(Box::new(viewer)));
        let place = self.network.add(viewer, Placement::PLAIN, host);
        let link = self.network.connect_over(0, place, paths, host)?;
        if let Some(Party::Source(_, observers)) = self.network.nodes[0].as_deref_mut() {
            observers.insert(link, observer);
        }
        let told = ReplicaSet::new(Arc::clone(&self.schema), tick);
        Some(Seat { slot, observer, place, link, told, lost: 0, lost_now: false })
    }

    fn leave(&mut self, at: usize) {
        let Some(seat) = self.seats[at].take() else { return };
        let viewer = self.network.crash(seat.place);
        if let Some(Party::Source(_, observers)) = self.network.nodes[0].as_deref_mut() {
            observers.remove(&seat.link);
        }
        if let Some(observer) = self.source().publisher.remove(seat.observer)
            && let Some(Placed { node: Party::Viewer(viewer), sent, .. }) = viewer
        {
            let refused = viewer.refused();
            let refused = Refusals {
                malformed: refused.malformed,
                duplicate: refused.duplicate,
                too_old: refused.too_old,
            };
            self.audit.left(observer.counters(), sent.bytes(), refused);
        }
        let removed = self.source().publisher.store.remove(seat.slot);
        debug_assert!(removed.is_ok());
        self.audit.forget(at);
        self.sender.forget(at);
    }

    /// The auditors compare what every observer was told, and what it has, with the truth.
    fn look(&mut self) {
        let Session { audit, sender, seats, network, movement, tick, spec, .. } = self;
        let Some(Party::Source(source, _)) = network.nodes[0].as_deref() else { return };
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
            let Some(Party::Viewer(viewer)) = network.nodes[seat.place].as_deref() else {
                continue;
            };
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
                    replica: viewer.replicas.get(publisher.store.id(other.slot)),
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
