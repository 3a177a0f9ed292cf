//! An audited session in virtual time: the server and clients that ship, with every player as an observer, and auditors
//! that know the true state.
//!
//! A [`Movement`] replaces the game's rules: in every round each avatar is put at its pose.

use crate::audit::{Audit, CoherenceSpec, Findings, Sample, SenderAudit, WatchedPair};
use crate::avatar::{AvatarSpec, LabAvatar};
use crate::movement::{AvatarPose, Movement};
use crate::net::{Link as Path, LinkSpec};
use crate::network::{NetworkSpec, Participant, Placement, SessionNetwork, WakeUps};
use foveate_node::game::{Game, PlayerId, Requester, Spawn, StepContext, World};
use foveate_node::node::ClientCommand;
use foveate_node::outbox::Outgoing;
use foveate_node::server::ServerSettings;
use foveate_node::session::ServerDatagram;
use foveate_node::{Link, Server};
use foveate_sync::interest::{Policy, View};
use foveate_sync::{ObserverId, ReplicaSet, Rounds, Slot};
use foveate_wire::{Bytes, KindId, Metres, Micros, ObjectId, Schema, SchemaError, Tick};
use std::sync::{Arc, PoisonError, RwLock};

/// All of a session but the movement.
#[derive(Clone)]
pub struct SessionSpec {
    /// The length of a round.
    pub round: Micros,
    /// The view of every player.
    pub policy: Arc<dyn Policy>,
    /// Conditions of what the server sends.
    pub down: LinkSpec,
    /// Conditions of what clients send.
    pub up: LinkSpec,
    /// Bytes per observer and round.
    pub budget: Option<Bytes>,
    /// The avatars' precision, prediction and floors.
    pub avatar: AvatarSpec,
    /// RNG seed of the links.
    pub seed: u64,
    /// Whether the auditors check every pair in every round. Otherwise only the server's own counters are available.
    pub audited: bool,
}

/// A game in which each avatar follows a movement.
struct MovementGame {
    schema: Arc<Schema>,
    policy: Arc<dyn Policy>,
    poses: RwLock<Vec<Option<AvatarPose>>>,
}

/// The policy's name in the only view.
const POLICY: &str = "session";

impl MovementGame {
    fn pose(&self, mover: usize) -> Option<AvatarPose> {
        let poses = self.poses.read().unwrap_or_else(PoisonError::into_inner);
        poses.get(mover).copied().flatten()
    }
}

impl Game for MovementGame {
    type Input = u8;
    type Action = u8;
    type Event = u8;

    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn avatar(&self) -> KindId {
        KIND
    }

    fn populate(&self) -> Vec<Spawn> {
        Vec::new()
    }

    fn welcome(&self, _: &World<'_>, player: PlayerId, _: &str) -> Vec<Spawn> {
        let pose = self.pose(mover_of_player(player.0)).unwrap_or_default();
        Spawn::new(&self.schema, &LabAvatar::from(pose)).into_iter().collect()
    }

    fn step(&self, turn: &mut StepContext<'_, MovementGame>, _: &[u8]) {
        if let Some(pose) = self.pose(mover_of(turn.id())) {
            turn.set(&LabAvatar::from(pose));
        }
    }

    fn act(&self, _: &mut StepContext<'_, MovementGame>, _: &u8, _: Requester) {}

    fn view(&self, which: u8) -> Option<View> {
        (which == 0).then(|| View::custom(POLICY))
    }

    fn policies(&self) -> Vec<(&'static str, Arc<dyn Policy>)> {
        vec![(POLICY, Arc::clone(&self.policy))]
    }
}

/// One participant: a client on the network, and what the auditors record of it.
struct Seat {
    place: usize,
    link: Link,
    player: PlayerId,
    /// Whether the server had admitted it before this round.
    known: bool,
    /// What the client would know if every packet had arrived at once.
    told: ReplicaSet,
    /// Datagrams lost so far.
    lost: u64,
    /// Whether a datagram of this round was lost.
    lost_now: bool,
}

/// A seat whose player the server has admitted.
#[derive(Clone, Copy)]
struct Admitted {
    id: ObjectId,
    slot: Slot,
    observer: ObserverId,
}

impl Seat {
    fn admitted(&self, server: &Server<MovementGame>) -> Option<Admitted> {
        let id = ObjectId::new(KIND, self.player.0, 0);
        let slot = server.simulation.publisher.store.find(id)?;
        Some(Admitted { id, slot, observer: server.observer_of(self.player)? })
    }
}

/// The auditors sample this long after the server's round, so that what arrives without delay has arrived.
const AFTER: Micros = Micros(1);

/// A running session.
pub struct Session<M> {
    movement: M,
    spec: SessionSpec,
    game: Arc<MovementGame>,
    sessions: SessionNetwork<MovementGame>,
    seats: Vec<Option<Seat>>,
    /// Times that each avatar has joined.
    joined: Vec<u32>,
    tick: Tick,
    audit: Audit,
    sender: SenderAudit,
}

impl<M: Movement> Session<M> {
    /// A session without players yet; each joins when the movement first has a pose for it.
    pub fn new(movement: M, spec: SessionSpec) -> Result<Session<M>, SchemaError> {
        let (schema, count) = (spec.avatar.schema()?, movement.len());
        let (policy, poses) = (Arc::clone(&spec.policy), RwLock::default());
        let game = Arc::new(MovementGame { schema: Arc::clone(&schema), policy, poses });
        let settings = ServerSettings {
            rounds: Rounds::every(spec.round),
            max_players: count.max(1),
            budget: spec.budget,
            ..ServerSettings::default()
        };
        let network = NetworkSpec::delayed(Micros::ZERO, spec.seed);
        let mut sessions = SessionNetwork::new(Arc::clone(&game), settings, network);
        sessions.sent = Some(Vec::new());
        sessions.run(AFTER, |_, _, _, _| {});
        let seats = std::iter::repeat_with(|| None).take(count).collect();
        let audit = Audit::new(count, &schema, spec.round);
        let sender = SenderAudit::new(count, spec.avatar, spec.round);
        let (joined, tick) = (vec![0; count], Tick(0));
        Ok(Session { movement, spec, game, sessions, seats, joined, tick, audit, sender })
    }

    /// Also collects findings by distance, in `count` bins of this width.
    pub fn binned(mut self, width: Metres, count: usize) -> Session<M> {
        self.audit.set_bins(width, count);
        self
    }

    /// Also measures coherence.
    pub fn with_coherence(mut self, spec: CoherenceSpec) -> Session<M> {
        self.audit.set_coherence(spec);
        self
    }

    pub fn movement(&self) -> &M {
        &self.movement
    }

    /// Starts the findings now; what came before was the warm-up. No player may have left by then.
    pub fn begin_findings(&mut self) {
        if let Some(server) = self.sessions.server() {
            self.audit.begin(server.simulation.publisher.totals());
        }
        self.sender.begin();
    }

    /// A hash of all packets so far, in both directions.
    pub fn digest(&self) -> u64 {
        self.sessions.network.digest()
    }

    /// Plays one round; false at the end of the movement.
    pub fn round(&mut self) -> Result<bool, SchemaError> {
        self.round_with(|_, _| {})
    }

    /// The same; `packet` is called with each state packet as it leaves the server, and with what its receiver would
    /// know if all packets before it had arrived.
    pub fn round_with(
        &mut self,
        packet: impl FnMut(&ReplicaSet, &[u8]),
    ) -> Result<bool, SchemaError> {
        if !self.movement.step() {
            return Ok(false);
        }
        self.tick = self.tick.plus(1);
        let poses = (0..self.movement.len()).map(|at| self.movement.pose(at)).collect();
        *self.game.poses.write().unwrap_or_else(PoisonError::into_inner) = poses;
        for at in 0..self.seats.len() {
            match (self.movement.pose(at), &self.seats[at]) {
                (Some(_), None) => self.seats[at] = self.join(at),
                (None, Some(_)) => self.leave(at),
                _ => {}
            }
        }
        let until = self.spec.round * self.tick.0 + AFTER;
        self.sessions.run(until - self.sessions.network.now(), |_, _, _, _| {});
        self.note_sent(packet);
        let present = self.seats.iter().flatten().count() as u64;
        self.audit.count_round(present, self.movement.updates().unwrap_or(present));
        if self.spec.audited {
            self.look();
        }
        Ok(true)
    }

    fn join(&mut self, at: usize) -> Option<Seat> {
        self.joined[at] += 1;
        let player = self.joined[at] * GENERATION + at as u32;
        let name = player.to_string();
        self.sessions.lodge.set_number(&name, player);
        // A client's rounds start some time after the server's, each client's at a different time.
        let wake_ups = WakeUps::Every(self.spec.round);
        let placement = Placement { wake_ups, ..Placement::PLAIN };
        let place = self.sessions.add(&name, &[], placement);
        let seed = self.spec.seed.wrapping_mul(0x9e37_79b9).wrapping_add(at as u64 * 2);
        let paths = [Path::new(self.spec.up, seed + 1), Path::new(self.spec.down, seed)];
        let link = self.sessions.connect_over(place, paths)?;
        let told = ReplicaSet::new(Arc::clone(&self.game.schema), self.tick);
        let player = PlayerId(player);
        Some(Seat { place, link, player, known: false, told, lost: 0, lost_now: false })
    }

    /// Makes a client leave with a message; the server learns of it when that arrives.
    fn leave(&mut self, at: usize) {
        let Some(seat) = self.seats[at].take() else { return };
        let malformed = self.sessions.client(seat.place).map_or(0, |it| it.counts().malformed);
        self.sessions.tell(seat.place, ClientCommand::Leave);
        let sent = self.sessions.network.crash(seat.place).map_or(0, |placed| placed.sent.bytes());
        if let Some(server) = self.sessions.server()
            && let Some(observer) = server.observer_of(seat.player)
            && let Some(observer) = server.simulation.publisher.observer(observer)
        {
            self.audit.left(observer.counters(), sent, malformed);
        }
        self.audit.forget(at);
        self.sender.forget(at);
    }

    /// Applies what the server sent in this round as if all of it had arrived, and records losses.
    fn note_sent(&mut self, mut packet: impl FnMut(&ReplicaSet, &[u8])) {
        let Session { sessions, seats, .. } = self;
        for (from, to, outgoing) in sessions.sent.iter_mut().flat_map(std::mem::take) {
            let seat = seats.iter_mut().flatten().find(|seat| from == 0 && seat.place == to);
            if let (Some(seat), Outgoing::Datagram(bytes)) = (seat, outgoing)
                && let Some(frame) = ServerDatagram::read(&bytes)
                && !frame.state.is_empty()
            {
                packet(&seat.told, frame.state);
                // What cannot be decoded is missing from `told`, where the auditor finds it.
                let _ = seat.told.receive(frame.state, |_| {});
            }
        }
        for seat in seats.iter_mut().flatten() {
            let lost = sessions.network.lost(seat.link, 0);
            seat.lost_now = lost > std::mem::replace(&mut seat.lost, lost);
        }
    }

    /// Compares what every observer was sent, and what it has, with the true state.
    fn look(&mut self) {
        let Session { audit, sender, seats, sessions, movement, tick, spec, .. } = self;
        let nodes = &sessions.network.nodes;
        let Some(Participant::Server(server)) = nodes[0].as_deref() else { return };
        let (publisher, now) = (&server.simulation.publisher, *tick);
        let admitted: Vec<Option<(&Seat, Admitted)>> = seats
            .iter()
            .map(|seat| Some((seat.as_ref()?, seat.as_ref()?.admitted(server)?)))
            .collect();
        let known = || present(&admitted).filter(|(_, (seat, _))| seat.known);
        for (at, (_, it)) in present(&admitted) {
            audit.truth(at, now, publisher.store.lanes(it.slot));
        }
        for (at, (_, it)) in known() {
            if let Ok(shown) = publisher.store.get(it.slot) {
                sender.publish(at, it.id, shown, now);
            }
        }
        for (at, (seat, _)) in known() {
            sender.look(at, &*spec.policy, &seat.told, now);
        }
        let places: Vec<_> = (0..seats.len()).map(|at| Some(movement.pose(at)?.pos)).collect();
        let mut waiting = vec![None; seats.len()];
        for (watcher, (seat, it)) in present(&admitted) {
            for (slot, sent) in publisher.references(it.observer) {
                let object = mover_of(publisher.store.id(slot));
                let pair = WatchedPair { watcher, object };
                audit.sent(pair, sent, now, seat.lost_now);
            }
            let Some(Participant::Client(client)) = nodes[seat.place].as_deref() else { continue };
            if !seat.known {
                continue;
            }
            waiting.fill(None);
            for (slot, since) in publisher.waiting(it.observer) {
                waiting[mover_of(publisher.store.id(slot))] = Some(since);
            }
            for (object, (_, other)) in known().filter(|(at, _)| *at != watcher) {
                let Some((grade, distance)) = publisher.grade_of(it.observer, other.slot) else {
                    continue;
                };
                audit.sample(&Sample {
                    pair: WatchedPair { watcher, object },
                    grade,
                    distance,
                    truth: places[object].unwrap_or_default(),
                    replica: client.replicas.get(other.id),
                    waiting: waiting[object],
                    now,
                });
            }
        }
        audit.close_round(now, &places);
        for seat in seats.iter_mut().flatten() {
            seat.known = seat.admitted(server).is_some();
        }
    }

    /// Ends the session and returns its findings.
    pub fn findings(mut self) -> Findings {
        for at in 0..self.seats.len() {
            self.leave(at);
        }
        Findings { sender: self.sender.found().clone(), ..self.audit.findings() }
    }
}

fn present<T: Copy>(all: &[Option<T>]) -> impl Iterator<Item = (usize, T)> {
    all.iter().enumerate().filter_map(|(at, it)| Some((at, (*it)?)))
}

/// A player's number counts its avatar's joins in steps of this.
const GENERATION: u32 = 1 << 12;

/// The index of the avatar that an id belongs to.
pub(crate) fn mover_of(id: ObjectId) -> usize {
    mover_of_player(id.origin())
}

fn mover_of_player(player: u32) -> usize {
    (player % GENERATION) as usize
}

/// The only kind.
pub(crate) const KIND: KindId = KindId(0);
