//! The machines of one run: the network, the server's host with its player registry and disk, and the programs that
//! run the clients.

use super::actors::{Actor, ActorCommand, ActorEvent, Hostile, Mischief, PlayerApp, WatchedServer};
use super::check::Checker;
use super::disk::{CrashKind, Disk, DiskStorage};
use super::faults::{Coverage, SessionState};
use super::market::{Deal, ITEM, Market, TraderInput};
use super::{ChaosReport, ChaosSpec, Flaw};
use crate::net::{Latency, Loss};
use crate::network::{Host, Network, NetworkSpec, Placed, Placement, Reaction};
use fastrand::Rng;
use foveate_node::client::ClientPhase;
use foveate_node::node::{ClientCommand, ServerCommand};
use foveate_node::outbox::RecordingOutbox;
use foveate_node::persistence::{PlayerRegistry, TokenId, UnixTime};
use foveate_node::server::{Keys, ServerEvent, ServerSettings};
use foveate_node::session::{Refusal, ResumeKey};
use foveate_node::{IdAllocator, Link, Server};
use foveate_sync::Rounds;
use foveate_wire::{Micros, SchemaError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The server's index among the nodes.
pub(super) const SERVER: usize = 0;
/// Time between two steps of the programs that run the nodes.
const SLICE: Micros = Micros(10_000);
const ROUND: Micros = Micros::from_millis(50);
/// Time between two checks of the whole world.
const INSPECT_EVERY: Micros = Micros(200_000);
/// A client abandons its link if nothing arrives on it, or if its hello is not answered, for longer than this.
const PATIENCE: Micros = Micros(3_000_000);
/// Validity of a token in seconds.
const TOKEN_LIFE: u64 = 60;
/// The longest validity that a server accepts, in seconds.
const MAX_LIFE: u64 = 86_400;
/// Unix time at which a run begins.
const MORNING: u64 = 1_800_000_000;

/// Counters of a run.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// New sessions.
    pub joins: u64,
    /// Sessions that ended for good.
    pub leaves: u64,
    /// Honest clients that were refused, by reason.
    pub refused: BTreeMap<Refusal, u64>,
    /// Hostile clients and links that were refused, by reason.
    pub hostile_refused: BTreeMap<Refusal, u64>,
    /// Starts of the server.
    pub starts: u64,
    /// Transactions that were acknowledged, that failed, and that a crash interrupted.
    pub transactions: [u64; 3],
    /// Clients in the game, summed over seconds.
    pub client_seconds: u64,
    /// Comparisons of all clients at rest.
    pub rests: u64,
}

/// The program that runs a client.
pub(super) struct Driver {
    pub name: String,
    /// Whether it wants to be in the game.
    pub wants_in: bool,
    /// The earliest time of its next attempt to join.
    pub next_join: Micros,
    pub next_leave: Micros,
    /// When it sent its leave.
    pub leaving: Option<Micros>,
    /// Since when its link or its hello has had no answer; `received` is the packet count at that time.
    waiting: Option<Micros>,
    received: u64,
    /// When a client that crashed starts again.
    pub restart: Option<Micros>,
    /// Microseconds that its machine's clock gains per second.
    pub drift: i32,
    /// Its last token, which hostile clients may have overheard.
    token: Vec<u8>,
}

/// Everything outside the nodes.
pub(super) struct Surroundings {
    pub checker: Checker,
    pub disk: Disk,
    pub registry: Option<PlayerRegistry<DiskStorage>>,
    /// The token shown on each link.
    tokens: BTreeMap<Link, TokenId>,
    /// Seconds by which the server's wall clock is ahead.
    pub clock_error: i64,
    pub now: Micros,
    saved: u32,
    counts: Counts,
    flaw: Option<Flaw>,
}

impl Surroundings {
    fn unix(&self) -> UnixTime {
        UnixTime((MORNING + self.now.0 / 1_000_000).saturating_add_signed(self.clock_error))
    }

    /// Verifies a token, then asks the registry.
    fn on_asked(&mut self, link: Link, name: &str, token: &[u8]) -> Option<ServerCommand> {
        let reject = |why| Some(ServerCommand::Reject(link, why));
        let Some((id, until, named)) = read_token(token) else { return reject(Refusal::Token) };
        let now = self.unix();
        if until <= now {
            return reject(Refusal::TokenExpired);
        }
        if until.0 - now.0 > MAX_LIFE || named != name {
            return reject(Refusal::Token);
        }
        self.tokens.insert(link, id);
        self.registry.as_mut()?.enter(link, name, Some((id, until)), now)
    }
}

fn write_token(id: u128, until: UnixTime, name: &str) -> Vec<u8> {
    [&id.to_le_bytes()[..], &until.0.to_le_bytes(), name.as_bytes()].concat()
}

fn read_token(token: &[u8]) -> Option<(TokenId, UnixTime, &str)> {
    let (id, rest) = token.split_first_chunk()?;
    let (until, name) = rest.split_first_chunk()?;
    Some((*id, UnixTime(u64::from_le_bytes(*until)), std::str::from_utf8(name).ok()?))
}

impl Host<Actor> for Surroundings {
    fn before_wake(
        &mut self,
        now: Micros,
        at: usize,
        node: &mut Placed<Actor>,
        _: &mut RecordingOutbox,
    ) {
        self.now = now;
        if let (SERVER, Actor::Server(watched)) = (at, &mut node.node) {
            let simulation = &mut watched.server.simulation;
            let tick = simulation.publisher.store.tick().0;
            if let Some(registry) = self.registry.as_mut().filter(|_| tick != self.saved) {
                registry.save(simulation, tick);
                self.saved = tick;
            }
        }
    }

    fn on_event(
        &mut self,
        now: Micros,
        _: usize,
        _: &mut Placed<Actor>,
        event: ActorEvent,
    ) -> Option<Reaction<ActorCommand>> {
        self.now = now;
        let ActorEvent::Server(event) = event else { return None };
        match event {
            ServerEvent::Asked { link, name, token } => {
                let command = self.on_asked(link, &name, &token)?;
                Some(Reaction::Answer(Micros::ZERO, ActorCommand::Server(command)))
            }
            ServerEvent::Left(player, kept) => {
                self.counts.leaves += 1;
                self.checker.set_now(now);
                self.checker.on_left(player.0, &kept);
                let keeps = self.flaw != Some(Flaw::LostLeave);
                if let Some(registry) = self.registry.as_mut().filter(|_| keeps) {
                    registry.leave(player, &kept);
                }
                None
            }
            ServerEvent::Joined(..) => {
                self.counts.joins += 1;
                None
            }
            ServerEvent::Refused(why) => {
                *self.counts.hostile_refused.entry(why).or_default() += 1;
                None
            }
            ServerEvent::Broken(_) => None,
        }
    }
}

/// One run.
pub struct ChaosWorld {
    pub(super) network: Network<Actor>,
    pub(super) around: Surroundings,
    pub(super) drivers: Vec<Driver>,
    pub(super) rng: Rng,
    /// When a server that ended starts again.
    pub(super) server_restart: Option<Micros>,
    /// Whether the server is paused.
    pub(super) server_paused: bool,
    /// Whether hostile clients are gone.
    pub(super) is_calm: bool,
    /// Whether no player moves or leaves.
    pub(super) at_rest: bool,
    spec: ChaosSpec,
    game: Arc<Market>,
    tokens: u128,
    inspected: Micros,
}

fn settings() -> ServerSettings {
    ServerSettings {
        rounds: Rounds::every(ROUND),
        max_players: 24,
        resume_for: Micros(4_000_000),
        timeout: Micros(4_000_000),
        ..ServerSettings::default()
    }
}

pub(super) fn weather(seed: u64, loss: f64) -> NetworkSpec {
    NetworkSpec {
        latency: Latency::Uniform(Micros::from_millis(10), Micros::from_millis(60)),
        jitter: 30,
        loss: Loss::Bursty { share: loss, burst: 3.0 },
        reorder: 0.02,
        duplicate: 0.02,
        ..NetworkSpec::delayed(Micros::from_millis(20), seed)
    }
}

fn different_keys(life: u64) -> Keys {
    let mut next = u128::from(life) << 32;
    Box::new(move || {
        next += 1;
        ResumeKey(next.to_le_bytes())
    })
}

impl ChaosWorld {
    /// A server with its disk, and clients that are about to join.
    pub fn new(spec: ChaosSpec) -> Result<ChaosWorld, SchemaError> {
        let game = Arc::new(Market::new()?);
        let mut rng = Rng::with_seed(spec.seed);
        let around = Surroundings {
            checker: Checker::new(Arc::clone(&game)),
            disk: Disk::new(rng.u64(..), spec.flaw),
            registry: None,
            tokens: BTreeMap::new(),
            clock_error: 0,
            now: Micros::ZERO,
            saved: 0,
            counts: Counts::default(),
            flaw: spec.flaw,
        };
        let mut world = ChaosWorld {
            network: Network::new(weather(spec.seed, 0.01)),
            around,
            drivers: Vec::new(),
            rng,
            server_restart: None,
            server_paused: false,
            is_calm: false,
            at_rest: false,
            spec,
            game,
            tokens: 0,
            inspected: Micros::ZERO,
        };
        world.network.reserve();
        world.start_server();
        for client in 0..spec.clients {
            let next_leave = Micros(world.rng.u64(20_000_000..90_000_000));
            world.drivers.push(Driver {
                name: format!("player {client}"),
                wants_in: true,
                next_join: Micros(world.rng.u64(..1_000_000)),
                next_leave,
                leaving: None,
                waiting: None,
                received: 0,
                restart: None,
                drift: 0,
                token: Vec::new(),
            });
            world.network.reserve();
            world.start_client(client);
        }
        for hostile in 0..spec.hostile {
            let at = world.network.reserve();
            world.start_hostile(at, hostile);
        }
        Ok(world)
    }

    /// The virtual time.
    pub fn now(&self) -> Micros {
        self.network.now()
    }

    pub(super) fn server(&self) -> Option<&Server<Market>> {
        match &self.network.nodes[SERVER].as_ref()?.node {
            Actor::Server(watched) => Some(&watched.server),
            _ => None,
        }
    }

    pub(super) fn app(&self, client: usize) -> Option<&PlayerApp> {
        match &self.network.nodes[1 + client].as_ref()?.node {
            Actor::Client(app) => Some(app),
            _ => None,
        }
    }

    fn app_mut(&mut self, client: usize) -> Option<&mut PlayerApp> {
        match &mut self.network.nodes[1 + client].as_mut()?.node {
            Actor::Client(app) => Some(app),
            _ => None,
        }
    }

    fn issue(&mut self, name: &str) -> Vec<u8> {
        self.tokens += 1;
        // The issuer's clock is right.
        let until = UnixTime(MORNING + self.now().0 / 1_000_000 + TOKEN_LIFE);
        write_token(self.tokens, until, name)
    }

    /// Starts the server's process with the world that it loads from the disk.
    pub(super) fn start_server(&mut self) {
        let (world, used, ids) = self.around.disk.open();
        self.around.counts.starts += 1;
        let keys = different_keys(self.around.counts.starts);
        let mut server = Server::new(Arc::clone(&self.game), settings(), keys);
        server.simulation.ids = IdAllocator::for_server(ids);
        let restored =
            world.iter().all(|saved| server.simulation.restore(saved.id, &saved.lanes).is_ok());
        debug_assert!(restored, "what was kept fits");
        if world.is_empty() {
            let populated = server.simulation.populate();
            debug_assert!(populated.is_ok(), "the world is empty");
        }
        let hz = (1_000_000 / ROUND.0) as u32;
        let mut registry = PlayerRegistry::new(DiskStorage::default(), hz);
        registry.used = used;
        registry.save_all(&server.simulation);
        (self.around.registry, self.around.saved) = (Some(registry), 0);
        let actor = Actor::Server(Box::new(WatchedServer::new(server, self.spec.flaw)));
        self.network.place(SERVER, actor, Placement::PLAIN, &mut self.around);
        (self.server_restart, self.server_paused) = (None, false);
    }

    /// Ends the server's process at once.
    pub(super) fn crash_server(&mut self, kind: CrashKind) {
        self.observe();
        if self.network.crash(SERVER).is_none() {
            return;
        }
        let Surroundings { registry, disk, checker, now, .. } = &mut self.around;
        if let Some(registry) = registry.take() {
            registry.storage.crash(disk, kind);
        }
        checker.set_now(*now);
        checker.on_server_gone(disk, true);
    }

    /// Shuts the server down in order.
    pub(super) fn stop_server(&mut self) {
        self.observe();
        let close = ActorCommand::Server(ServerCommand::Close);
        self.network.command(SERVER, close, &mut self.around);
        let Some(mut node) = self.network.crash(SERVER) else { return };
        let Surroundings { registry, disk, checker, .. } = &mut self.around;
        if let (Some(mut registry), Actor::Server(watched)) = (registry.take(), &mut node.node) {
            registry.save_all(&watched.server.simulation);
            let written = registry.storage.close(disk);
            written.iter().for_each(|batch| checker.on_acknowledged(batch));
        }
        checker.on_server_gone(disk, false);
    }

    /// Starts a client's program with a new token.
    pub(super) fn start_client(&mut self, client: usize) {
        let name = self.drivers[client].name.clone();
        let token = self.issue(&name);
        let app = PlayerApp::new(&self.game, &name, &token);
        let driver = &mut self.drivers[client];
        (driver.token, driver.restart, driver.leaving) = (token, None, None);
        (driver.waiting, driver.received) = (None, 0);
        let placement = Placement { drift: driver.drift, ..Placement::PLAIN };
        let actor = Actor::Client(Box::new(app));
        self.network.place(1 + client, actor, placement, &mut self.around);
    }

    fn start_hostile(&mut self, at: usize, which: usize) {
        let mischief = Mischief::ALL[self.rng.usize(..Mischief::ALL.len())];
        let mut hostile = Hostile::new(&self.game, mischief, self.rng.u64(..));
        let name = format!("eve {which}");
        hostile.own = (name.clone(), self.issue(&name));
        let victim = &self.drivers[self.rng.usize(..self.drivers.len())];
        hostile.stolen = (victim.name.clone(), victim.token.clone());
        let actor = Actor::Hostile(Box::new(hostile));
        self.network.place(at, actor, Placement::PLAIN, &mut self.around);
    }

    /// Connects a hostile client that uses this client's token and name.
    pub(super) fn impersonate(&mut self, client: usize) {
        if self.spec.hostile == 0 {
            return;
        }
        let at = 1 + self.spec.clients;
        let stolen = (self.drivers[client].name.clone(), self.drivers[client].token.clone());
        let mischief = if self.rng.bool() { Mischief::StolenToken } else { Mischief::GuessedKey };
        let mut hostile = Hostile::new(&self.game, mischief, self.rng.u64(..));
        hostile.stolen = stolen;
        self.network.crash(at);
        let actor = Actor::Hostile(Box::new(hostile));
        self.network.place(at, actor, Placement::PLAIN, &mut self.around);
        self.network.connect(at, SERVER, &mut self.around);
    }

    /// Connects a client, unless the server is paused.
    pub(super) fn connect(&mut self, client: usize) {
        if self.server_paused {
            return;
        }
        let now = self.now();
        self.network.connect(1 + client, SERVER, &mut self.around);
        self.drivers[client].waiting = Some(now);
    }

    /// Cuts a client's link; both ends are notified.
    pub(super) fn cut(&mut self, client: usize) {
        if let Some(link) = self.app(client).and_then(|app| app.link) {
            self.network.cut(link, &mut self.around);
        }
    }

    /// Makes a client abandon its link without notifying the server.
    pub(super) fn abandon(&mut self, client: usize) {
        self.app_mut(client).into_iter().for_each(PlayerApp::abandon);
    }

    /// Sends a client's leave.
    pub(super) fn leave(&mut self, client: usize) {
        let now = self.now();
        let leave = ActorCommand::Client(ClientCommand::Leave);
        self.network.command(1 + client, leave, &mut self.around);
        let driver = &mut self.drivers[client];
        (driver.leaving, driver.wants_in) = (Some(now), false);
    }

    /// The state of a client's session, as known to server and client.
    pub(super) fn state(&self, client: usize) -> Option<SessionState> {
        let (server, driver) = (self.server()?, &self.drivers[client]);
        let session = server.present_players().find(|it| it.name == driver.name);
        let session = session.map(|it| it.link);
        let app = self.app(client);
        let link = app.and_then(|app| app.link);
        let is_in = app.is_some_and(|app| app.client.joined().is_some());
        Some(match (session, link) {
            (Some(_), _) if driver.leaving.is_some() => SessionState::Leaving,
            (Some(at), Some(link)) if at == Some(link) && is_in => SessionState::Playing,
            (Some(_), Some(_)) => SessionState::Resuming,
            (Some(_), None) => SessionState::Away,
            (None, Some(link)) if server.is_asked(link) => SessionState::Asking,
            (None, Some(_)) => SessionState::Connecting,
            (None, None) => SessionState::Out,
        })
    }

    /// Runs until `until`, or to the first violation.
    pub(super) fn run_until(&mut self, until: Micros) {
        while self.now() < until && self.around.checker.violations.is_empty() {
            let next = (self.now() + SLICE).min(until);
            self.network.run_until(next, &mut self.around);
            self.around.now = next;
            self.around.checker.set_now(next);
            if !self.server_paused {
                self.run_host(next);
            }
            if self.server_restart.is_some_and(|at| at <= next) {
                self.start_server();
            }
            (0..self.drivers.len()).for_each(|client| self.drive(client));
            self.drive_hostile();
            self.observe();
        }
    }

    /// Runs the storage's thread and delivers its answers.
    fn run_host(&mut self, now: Micros) {
        let Surroundings { registry, disk, checker, .. } = &mut self.around;
        let Some(registry) = registry else { return };
        if let Some(batch) = registry.storage.run(disk, now) {
            checker.on_acknowledged(&batch);
        }
        while let Some(command) = self.around.registry.as_mut().and_then(PlayerRegistry::poll) {
            self.network.command(SERVER, ActorCommand::Server(command), &mut self.around);
        }
    }

    /// Reports what happened to the checker.
    fn observe(&mut self) {
        let now = self.now();
        let Some(node) = self.network.nodes[SERVER].as_mut() else { return };
        let Actor::Server(watched) = &mut node.node else { return };
        let Surroundings { checker, tokens, counts, .. } = &mut self.around;
        checker.set_now(now);
        checker.on_observed(&watched.observed, tokens, &watched.server);
        watched.observed.clear();
        // Before the first round the world cannot be read.
        let began = watched.server.simulation.publisher.store.tick().0 > 0;
        if began && now.0 >= self.inspected.0 + INSPECT_EVERY.0 {
            self.inspected = now;
            checker.inspect(&watched.server, settings().max_players);
            counts.client_seconds += watched.server.players() as u64;
        }
    }

    /// One step of a client's program.
    fn drive(&mut self, client: usize) {
        let now = self.now();
        if self.network.nodes[1 + client].is_none() {
            if self.drivers[client].restart.is_none_or(|at| at <= now) {
                self.start_client(client);
            }
            return;
        }
        // What a transport's idle timeout does. A client in the game sends in every round, and the transport at the
        // other end acknowledges that, although the server may have nothing to say.
        let received = self.network.nodes[1 + client].as_ref().map_or(0, |node| node.received);
        let playing = self.app(client).filter(|app| app.client.joined().is_some());
        let link = playing.and_then(|app| app.link);
        let is_alive = link.is_some_and(|link| self.network.is_alive(link));
        let driver = &mut self.drivers[client];
        if driver.received != received || is_alive {
            (driver.received, driver.waiting) = (received, Some(now));
        }
        let is_silent = driver.waiting.is_none_or(|since| now.0 > since.0 + PATIENCE.0);
        let Some(app) = self.app(client) else { return };
        let (link, phase) = (app.link, app.client.phase().clone());
        match phase {
            ClientPhase::Refused(why, _) => {
                *self.around.counts.refused.entry(why).or_default() += 1;
                let name = self.drivers[client].name.clone();
                self.around.checker.on_refused(&name, why);
                self.abandon(client);
                self.start_client(client);
                self.drivers[client].next_join = now + Micros(self.rng.u64(300_000..1_500_000));
            }
            ClientPhase::Joining => self.drive_joining(client, link, is_silent),
            ClientPhase::Playing(_) if is_silent => {
                self.abandon(client);
                self.drivers[client].next_join = now + Micros(self.rng.u64(..500_000));
            }
            ClientPhase::Playing(_) => self.drive_playing(client),
        }
        let driver = &mut self.drivers[client];
        if driver.leaving.is_some_and(|at| now.0 > at.0 + 500_000) {
            // Whether or not the leave arrived, the program ends, and starts again later.
            self.cut(client);
            self.abandon(client);
            self.start_client(client);
        }
        let driver = &mut self.drivers[client];
        if !driver.wants_in && now >= driver.next_join {
            driver.wants_in = true;
            driver.next_leave = now + Micros(self.rng.u64(20_000_000..90_000_000));
        }
    }

    fn drive_joining(&mut self, client: usize, link: Option<Link>, is_silent: bool) {
        let (now, driver) = (self.now(), &mut self.drivers[client]);
        match link {
            None if driver.wants_in && now >= driver.next_join => {
                driver.next_join = now + Micros(500_000);
                self.connect(client);
            }
            None => {}
            Some(_) if is_silent => {
                self.abandon(client);
                self.drivers[client].next_join = now + Micros(self.rng.u64(..500_000));
            }
            Some(_) => {}
        }
    }

    fn drive_playing(&mut self, client: usize) {
        let now = self.now();
        if self.at_rest {
            let stop = ActorCommand::Client(ClientCommand::SetInput(TraderInput::default()));
            return self.network.command(1 + client, stop, &mut self.around);
        }
        if self.rng.u8(..50) == 0 {
            let walk = TraderInput { x: self.rng.i8(-8..=8), y: self.rng.i8(-8..=8) };
            let walk = ActorCommand::Client(ClientCommand::SetInput(walk));
            self.network.command(1 + client, walk, &mut self.around);
        }
        if self.rng.u8(..100) == 0 {
            self.deal(client);
        }
        if now >= self.drivers[client].next_leave && self.drivers[client].leaving.is_none() {
            self.drivers[client].next_join = now + Micros(self.rng.u64(1_000_000..3_000_000));
            self.leave(client);
        }
    }

    fn deal(&mut self, client: usize) {
        let Some(app) = self.app(client) else { return };
        let items: Vec<_> = app.client.replicas.of_kind(ITEM).collect();
        if items.is_empty() {
            return;
        }
        let item = items[self.rng.usize(..items.len())];
        let deal = [Deal::Take, Deal::Take, Deal::Drop, Deal::Recast][self.rng.usize(..4)];
        let ask = ActorCommand::Client(ClientCommand::Ask(item, deal));
        self.network.command(1 + client, ask, &mut self.around);
    }

    /// Replaces hostile clients now and then, each with a new behaviour and victim.
    fn drive_hostile(&mut self) {
        for which in 0..self.spec.hostile {
            let at = 1 + self.spec.clients + which;
            if self.is_calm {
                self.network.crash(at);
                continue;
            }
            let linked = self.network.nodes[at].as_ref().is_some_and(
                |node| matches!(&node.node, Actor::Hostile(hostile) if hostile.link.is_some()),
            );
            if !self.server_paused && self.rng.u16(..if linked { 1_000 } else { 100 }) == 0 {
                self.network.crash(at);
                self.start_hostile(at, which);
                self.network.connect(at, SERVER, &mut self.around);
            }
        }
    }

    /// Checks at rest that all clients are in the game and have the same objects as the server.
    pub(super) fn check_rest(&mut self) {
        self.around.counts.rests += 1;
        let ChaosWorld { network, around, drivers, .. } = self;
        let Some(Actor::Server(watched)) = network.nodes[SERVER].as_ref().map(|it| &it.node) else {
            return;
        };
        for (client, driver) in drivers.iter().enumerate() {
            let node = network.nodes[1 + client].as_ref().map(|it| &it.node);
            let Some(Actor::Client(app)) = node else {
                around.checker.check_is_in(&driver.name, false, "gone");
                continue;
            };
            let is_in = app.client.joined().is_some();
            let state = format!(
                "{:?} on {:?}, asked since {:?}, wants in {}",
                app.client.phase(),
                app.link,
                driver.waiting,
                driver.wants_in
            );
            around.checker.check_is_in(&driver.name, is_in, &state);
            if is_in {
                around.checker.check_converged(&driver.name, &app.client, &watched.server);
            }
        }
    }

    pub(super) fn finish(mut self, coverage: Coverage) -> ChaosReport {
        self.observe();
        let disk = &self.around.disk;
        let mut counts = self.around.counts;
        counts.transactions = [disk.transactions, disk.failures, disk.interrupted];
        // Counted five times a second.
        counts.client_seconds /= 5;
        let digest = self.network.digest();
        ChaosReport { coverage, violations: self.around.checker.violations, counts, digest }
    }
}
