//! Servers, bus and ledger in virtual time, and everything that goes wrong with them.
//!
//! What a server wants done is carried out event by event, in its order. A fault that is armed for a step strikes
//! when that step comes up: what is before it has been done, what is behind it is lost with the process, or waits until
//! the process goes on. A process that was paused finds what arrived meanwhile before it is woken.

use super::check::MeshChecker;
use super::cost::{CostModel, WorkMeter};
use super::faults::{Armed, EarlierStates, FaultSpec, MAX_FAVOURED, StepFault};
use super::game::{AVATAR, Drift};
use super::ledger::SimLedger;

use crate::net::Agenda;
use foveate_node::node::{Node, NodeInput};
use foveate_node::outbox::RecordingOutbox;
use foveate_node::region::bus::{BusMessage, Envelope, Publication, Recipient};
use foveate_node::region::layout::{Layout, ServerId};
use foveate_node::region::ledger::{LedgerAnswer, LedgerRequest, Subject};
use foveate_node::region::{MeshStep, RegionCommand, RegionEvent, RegionServer, RegionSettings};
use foveate_node::server::ServerSettings;
use foveate_wire::{Micros, ObjectId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

pub mod clients;
pub mod ghosts;
mod players;
mod trouble;

/// What happens at a time.
enum Happening {
    Wake { server: ServerId, life: u32 },
    Deliver { server: ServerId, bytes: Vec<u8> },
    Request { from: ServerId, request: LedgerRequest },
    Answer { to: ServerId, request: u64, answer: LedgerAnswer },
    Entries { to: ServerId, subject: Subject },
    Resume { server: ServerId },
    Restart,
    OutageEnds,
    Reconnect { server: ServerId },
    Trouble,
    Layout,
    Client(clients::ClientHappening),
}

/// One process.
struct Process {
    node: RegionServer<Drift>,
    /// Its clock gains so many microseconds a second, or loses them.
    drift: i64,
    skew: u64,
    paused: bool,
    /// It is cut off from all others and from the ledger.
    cut_off: bool,
    /// Until then whatever it sends and is sent takes longer.
    slow_until: Micros,
    /// What it wanted done when it was paused.
    held: VecDeque<RegionEvent>,
    /// What arrived since it was paused.
    inbox: Vec<RegionCommand>,
    /// What clients sent to it since then.
    held_links: Vec<clients::LinkDelivery>,
    wake: u32,
    meter: WorkMeter,
}

impl Process {
    fn clock(&self, now: Micros) -> Micros {
        let gained = now.0 as i128 * i128::from(self.drift) / 1_000_000;
        Micros((now.0 + self.skew).saturating_add_signed(gained as i64))
    }

    /// How long until its clock shows a time.
    fn until(&self, now: Micros, time: Micros) -> Micros {
        let ahead = time.saturating_sub(self.clock(now)).0 as u128 * 1_000_000;
        Micros(ahead.div_ceil((1_000_000 + self.drift) as u128) as u64)
    }
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct MeshCounts {
    /// Objects that changed regions.
    pub handoffs: u64,
    /// How often an object came so many ticks late; the last: later.
    pub late: [u64; 16],
    /// Bytes between servers.
    pub bytes: u64,
    /// Bytes to the ledger, and from it to all that follow.
    pub ledger_bytes: u64,
    /// Appends that the ledger took.
    pub appends: u64,
    /// Actions that were given up.
    pub asks_lost: u64,
    /// Regions that changed servers.
    pub takeovers: u64,
    /// How often each step was reached.
    pub reached: BTreeMap<MeshStep, u64>,
    /// Faults that struck, by step and sort.
    pub faults: BTreeMap<(MeshStep, &'static str), u64>,
    /// Players that joined or came back, and that left.
    pub joins: u64,
    /// Players that left.
    pub leaves: u64,
    /// Avatars among the objects that changed regions.
    pub avatars: u64,
    /// Sessions that changed regions.
    pub moves: u64,
    /// Replicas of the clients of these sessions at that time.
    pub replicas_moved: u64,
    /// Those of them that went on.
    pub replicas_kept: u64,
    /// Those of them that were sent whole.
    pub replicas_whole: u64,
    /// Bytes to clients.
    pub client_bytes: u64,
    /// Inputs that avatars did not get.
    pub inputs_missed: u64,
    /// Layouts that could not be used, servers that were declared dead.
    pub unusable: u64,
    /// Servers that ended because they were declared dead.
    pub ended: u64,
    /// Servers that gave all their regions away and left.
    pub drained: u64,
    /// Changes of the layout by load: cuts moved, newcomers, regions merged, servers that changed places.
    pub balanced: [u64; 4],
}

impl MeshCounts {
    /// What a server did that is there no more, or in the end.
    pub fn note(&mut self, server: &RegionServer<Drift>) {
        let it = server.counts();
        let balanced = [it.moved, it.joined, it.merged, it.swapped];
        self.balanced.iter_mut().zip(balanced).for_each(|(sum, it)| *sum += it);
    }
}

/// What a message is for.
fn kind_of(bytes: &[u8]) -> &'static str {
    match Envelope::read(bytes).map(|it| it.body) {
        Ok(BusMessage::States(..)) => "states",
        Ok(BusMessage::Handoff(..)) => "handoffs",
        Ok(BusMessage::Gossip(_)) => "gossip",
        Ok(BusMessage::Echo(_) | BusMessage::EchoReply(_)) => "echoes",
        Ok(BusMessage::Subscribe(..)) => "subscriptions",
        _ => "others",
    }
}

/// What a world begins with.
#[derive(Clone, PartialEq, Debug)]
pub struct WorldStart {
    /// The regions, and the servers that run them.
    pub layout: Layout,
    /// Number of servers.
    pub servers: u32,
    /// Number of players with sessions.
    pub players: u32,
    /// RNG seed.
    pub seed: u64,
}

/// A world and its servers.
pub struct MeshWorld {
    /// The game.
    pub game: Arc<Drift>,
    settings: RegionSettings,
    spec: FaultSpec,
    processes: BTreeMap<ServerId, Process>,
    ledger: SimLedger,
    agenda: Agenda<Happening>,
    now: Micros,
    rng: fastrand::Rng,
    next_server: u32,
    armed: Vec<Armed>,
    outage: bool,
    /// Faults that come first.
    pub favoured: [Option<StepFault>; MAX_FAVOURED],
    /// When a fault struck last.
    struck: Micros,
    /// Processes that are to start again.
    restarting: usize,
    /// No fault strikes any more.
    calm: bool,
    /// For servers that are wrong on purpose.
    earlier: EarlierStates,
    /// FNV-1a over all that was said and appended.
    digest: u64,
    /// One way between two sites, in addition; servers with odd numbers are at one, the others at the other.
    pub apart: Micros,
    /// Bytes between servers by kind of message, if they are to be counted.
    pub tally: Option<BTreeMap<&'static str, u64>>,
    /// What rounds cost; none: servers are not told.
    pub cost: Option<CostModel>,
    /// What was counted.
    pub counts: MeshCounts,
    /// Who looks on.
    pub checker: MeshChecker,
    /// The players.
    pub clients: clients::SimClients,
}

impl MeshWorld {
    /// A world in which the first server founds the layout.
    pub fn new(
        game: Arc<Drift>,
        settings: RegionSettings,
        spec: FaultSpec,
        start: WorldStart,
    ) -> MeshWorld {
        let WorldStart { layout, servers, players, seed } = start;
        let mut world = MeshWorld {
            checker: MeshChecker::new(Arc::clone(&game)),
            game,
            settings,
            spec,
            processes: BTreeMap::new(),
            ledger: SimLedger::default(),
            agenda: Agenda::default(),
            now: Micros::ZERO,
            rng: fastrand::Rng::with_seed(seed),
            next_server: 1,
            armed: Vec::new(),
            outage: false,
            favoured: [None; MAX_FAVOURED],
            struck: Micros::ZERO,
            restarting: 0,
            calm: false,
            earlier: EarlierStates::new(),
            digest: 0xcbf2_9ce4_8422_2325,
            apart: Micros::ZERO,
            tally: None,
            cost: None,
            counts: MeshCounts::default(),
            clients: clients::SimClients::new(players, seed),
        };
        (0..servers).for_each(|_| world.start());
        let found = RegionCommand::Found(Box::new(layout));
        world.hand(ServerId(1), found);
        world.agenda.plan(Micros(4_000_000), Happening::Trouble);
        world.agenda.plan(Micros(5_000_000), Happening::Layout);
        world.start_clients();
        world
    }

    /// The laboratory's time.
    pub fn now(&self) -> Micros {
        self.now
    }

    /// A hash of all that was said and appended.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// The ledger.
    pub fn ledger(&self) -> &SimLedger {
        &self.ledger
    }

    /// The servers that are there.
    pub fn servers(&self) -> impl Iterator<Item = &RegionServer<Drift>> {
        self.processes.values().map(|it| &it.node)
    }

    /// The servers that are there, each with the time by its clock.
    pub fn clocks(&self) -> impl Iterator<Item = (&RegionServer<Drift>, Micros)> {
        self.processes.values().map(|it| (&it.node, it.clock(self.now)))
    }

    /// Another server starts.
    pub fn join(&mut self) {
        self.start();
    }

    /// A server is told something by its operator.
    pub fn command(&mut self, server: ServerId, command: RegionCommand) {
        self.hand(server, command);
    }

    /// How long a message and its answer take between two servers, on average.
    pub fn round_trip(&self, a: ServerId, b: ServerId) -> Micros {
        let (least, most) = self.spec.delay;
        if a == b { Micros::ZERO } else { least + most + self.between(a, b) * 2 }
    }

    /// What the way between two servers takes in addition.
    fn between(&self, a: ServerId, b: ServerId) -> Micros {
        if a.0 % 2 == b.0 % 2 { Micros::ZERO } else { self.apart }
    }

    /// Objects that should have an owner and have none at this moment.
    pub fn settle(&mut self) -> BTreeSet<ObjectId> {
        let servers = self.processes.values().map(|it| &it.node);
        self.checker.settle(servers, &self.ledger, self.now)
    }

    /// From now on nothing goes wrong any more.
    pub fn calm(&mut self) {
        (self.calm, self.outage) = (true, false);
        self.armed.clear();
        self.heal();
    }

    /// Runs until a time.
    pub fn run_until(&mut self, until: Micros) {
        while let Some((now, happening)) = self.agenda.next(until) {
            self.now = now;
            self.happen(happening);
        }
        self.now = self.now.max(until);
    }

    fn start(&mut self) {
        let id = ServerId(self.next_server);
        self.next_server += 1;
        let node = RegionServer::new(Arc::clone(&self.game), self.settings.clone(), id);
        let node = match self.clients.wanted() {
            0 => node,
            _ => {
                let keys = self.clients.keys(id, self.spec.sabotage);
                let settings = ServerSettings { budget: None, ..ServerSettings::default() };
                node.with_players(clients::contact(id), keys, settings)
            }
        };
        let drift = self.rng.i64(-self.spec.drift..=self.spec.drift);
        let process = Process {
            node,
            drift,
            skew: self.rng.u64(..1 << 40),
            paused: false,
            cut_off: false,
            slow_until: Micros::ZERO,
            held: VecDeque::new(),
            inbox: Vec::new(),
            held_links: Vec::new(),
            wake: 0,
            meter: WorkMeter::default(),
        };
        self.processes.insert(id, process);
        self.carry_out(id);
        self.agenda.plan(
            self.now + Micros(1 + self.rng.u64(..50_000)),
            Happening::Wake { server: id, life: 0 },
        );
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Wake { server, life } => self.wake(server, life),
            Happening::Deliver { server, mut bytes } => {
                if let Some(sabotage) = self.spec.sabotage {
                    bytes = sabotage.bend(bytes, &self.checker, &mut self.earlier);
                }
                self.hand(server, RegionCommand::Deliver(bytes));
            }
            Happening::Request { from, request } => self.on_request(from, request),
            Happening::Answer { to, request, answer } => {
                self.hand(to, RegionCommand::Answer(request, answer));
            }
            Happening::Entries { to, subject } => {
                for (sequence, bytes) in self.ledger.take(to, subject) {
                    self.hand(to, RegionCommand::Entry(subject, sequence, bytes));
                }
            }
            Happening::Resume { server } => self.resume(server),
            Happening::Restart => {
                self.restarting -= 1;
                self.start();
            }
            Happening::OutageEnds => self.outage = false,
            Happening::Reconnect { server } => self.reconnect(server),
            Happening::Trouble => self.trouble(),
            Happening::Layout => self.change_layout(),
            Happening::Client(it) => self.on_client(it),
        }
    }

    fn wake(&mut self, id: ServerId, life: u32) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        if process.wake != life || process.paused {
            return;
        }
        process.wake += 1;
        let clock = process.clock(self.now);
        let mut out = RecordingOutbox::default();
        process.node.handle(clock, NodeInput::Wake, &mut out);
        self.checker.look(&process.node, clock, self.now);
        self.checker.look_at_hosts(&process.node, clock, self.now);
        let took = self.cost.map(|cost| process.meter.round(&process.node, &cost));
        self.ship(id, out);
        self.carry_out(id);
        if let Some(took) = took {
            self.hand(id, RegionCommand::EndRound(took));
        }
        self.plan_wake(id);
    }

    fn plan_wake(&mut self, id: ServerId) {
        let Some(process) = self.processes.get(&id) else { return };
        let next = process.node.next_wake(process.clock(self.now));
        let wait = process.until(self.now, next).max(Micros(1));
        let life = process.wake;
        self.agenda.plan(self.now + wait, Happening::Wake { server: id, life });
    }

    /// Hands a command over, or keeps it for a process that is paused.
    fn hand(&mut self, id: ServerId, command: RegionCommand) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        if process.paused {
            return process.inbox.push(command);
        }
        let clock = process.clock(self.now);
        let mut out = RecordingOutbox::default();
        process.node.handle(clock, NodeInput::Command(command), &mut out);
        self.ship(id, out);
        self.carry_out(id);
    }

    /// Does what a server wants done, until it is done or a fault strikes.
    fn carry_out(&mut self, id: ServerId) {
        loop {
            let Some(process) = self.processes.get_mut(&id) else { return };
            if process.paused {
                // It was struck by what it did: the rest waits.
                while let Some(event) = process.node.poll() {
                    process.held.push_back(event);
                }
                return;
            }
            let Some(event) = process.held.pop_front().or_else(|| process.node.poll()) else {
                return;
            };
            self.on_event(id, event);
        }
    }

    fn on_event(&mut self, id: ServerId, event: RegionEvent) {
        match event {
            RegionEvent::Ledger(request) => self.send_request(id, request),
            RegionEvent::Publish(publication) => self.publish(id, &publication),
            RegionEvent::Reached(step) => self.strike(id, step),
            RegionEvent::Arrived { object, late, .. } => {
                self.counts.avatars += u64::from(object.kind() == AVATAR);
                self.counts.handoffs += 1;
                self.counts.late[(late as usize).min(15)] += 1;
            }
            RegionEvent::AskLost => self.counts.asks_lost += 1,
            RegionEvent::Asked { link, .. } => self.hand(id, RegionCommand::Admit(link)),
            RegionEvent::Joined(..) => self.counts.joins += 1,
            RegionEvent::Left(_) => self.counts.leaves += 1,
            RegionEvent::SessionMoved { kept, whole, all, .. } => {
                self.counts.replicas_whole += whole as u64;
                self.counts.moves += 1;
                self.counts.replicas_kept += kept as u64;
                self.counts.replicas_moved += all as u64;
            }
            RegionEvent::Unusable(_) => self.counts.unusable += 1,
            RegionEvent::Ended => {
                self.counts.ended += 1;
                self.crash(id);
            }
            RegionEvent::Drained => {
                self.counts.drained += 1;
                self.crash(id);
            }
        }
    }

    fn hash(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// One way, to a server or to the ledger.
    fn delay(&mut self) -> Micros {
        let spread = self.spec.delay.1.0 - self.spec.delay.0.0;
        let spike = !self.calm && self.rng.f64() < self.spec.spikes;
        let stall = !self.calm && self.rng.f64() < self.spec.stalls;
        let extra = if spike { self.rng.u64(..300_000) } else { 0 };
        let extra = if stall { self.rng.u64(1_000_000..5_000_000) } else { extra };
        Micros(self.spec.delay.0.0 + self.rng.u64(..=spread) + extra)
    }

    fn loses(&mut self) -> bool {
        !self.calm && self.rng.f64() < self.spec.loss
    }

    fn publish(&mut self, id: ServerId, publication: &Publication) {
        let Some(process) = self.processes.get(&id) else { return };
        let (clock, cut_off) = (process.clock(self.now), process.cut_off);
        if clock >= publication.expires {
            return;
        }
        self.hash(&publication.bytes);
        let to: Vec<ServerId> = match publication.to {
            Recipient::Server(to) => vec![to],
            Recipient::All => self.processes.keys().copied().filter(|to| *to != id).collect(),
        };
        for server in to {
            self.counts.bytes += publication.bytes.len() as u64;
            if let Some(tally) = &mut self.tally {
                *tally.entry(kind_of(&publication.bytes)).or_default() +=
                    publication.bytes.len() as u64;
            }
            let apart = cut_off && server != id;
            let apart = apart || self.processes.get(&server).is_none_or(|it| it.cut_off);
            let lost = apart || self.loses();
            if let Some(sabotage) = self.spec.sabotage
                && let Some(bytes) = sabotage.forge_ack((id, server), &publication.bytes, !lost)
            {
                let at = self.now + self.delay() + self.delay();
                self.agenda.plan(at, Happening::Deliver { server: id, bytes });
            }
            if lost {
                continue;
            }
            let copies = 1 + usize::from(!self.calm && self.rng.f64() < self.spec.double);
            for _ in 0..copies {
                let lag = self.lag(id) + self.lag(server);
                let at = self.now + self.delay() + self.between(id, server) + lag;
                let bytes = publication.bytes.clone();
                self.agenda.plan(at, Happening::Deliver { server, bytes });
            }
        }
    }

    fn send_request(&mut self, id: ServerId, request: LedgerRequest) {
        let at = self.now + self.delay() + self.lag(id);
        match request {
            LedgerRequest::Append { .. } => {
                if self.loses() {
                    return;
                }
                if !self.calm && self.rng.f64() < self.spec.double {
                    let again = at + self.delay();
                    self.agenda
                        .plan(again, Happening::Request { from: id, request: request.clone() });
                }
                self.agenda.plan(at, Happening::Request { from: id, request });
            }
            LedgerRequest::Follow(subject) => {
                self.ledger.follow(id, subject, self.now);
                self.agenda.plan(at, Happening::Entries { to: id, subject });
            }
            LedgerRequest::Unfollow(subject) => self.ledger.unfollow(id, subject),
            LedgerRequest::Truncate(subject, from) => self.ledger.truncate(subject, from),
        }
    }

    fn on_request(&mut self, from: ServerId, request: LedgerRequest) {
        let LedgerRequest::Append { request, subject, last, mut bytes } = request else { return };
        let cut_off = self.processes.get(&from).is_some_and(|it| it.cut_off);
        if self.outage || cut_off {
            return;
        }
        if let Some(sabotage) = self.spec.sabotage {
            bytes = sabotage.bend_append(subject, bytes);
        }
        let checked = self.spec.sabotage.is_none_or(|it| it.checks(subject));
        self.hash(&bytes);
        let answer = self.ledger.append(subject, last, bytes.clone(), checked);
        if let LedgerAnswer::Appended(at) = answer {
            self.counts.appends += 1;
            self.checker.appended(subject, at, &bytes, self.now);
            let followers = self.ledger.followers(subject);
            self.counts.ledger_bytes += (bytes.len() * (1 + followers.len())) as u64;
            for follower in followers {
                let late = !self.calm && self.rng.f64() < self.spec.late_followers;
                let extra = if late { self.rng.u64(..2_000_000) } else { 0 };
                let at = self.now + self.delay() + self.lag(follower) + Micros(extra);
                let at = self.ledger.arrives(follower, subject, at);
                self.agenda.plan(at, Happening::Entries { to: follower, subject });
            }
        }
        if !self.loses() {
            let at = self.now + self.delay() + self.lag(from);
            self.agenda.plan(at, Happening::Answer { to: from, request, answer });
        }
    }
}

#[cfg(test)]
mod tests;
