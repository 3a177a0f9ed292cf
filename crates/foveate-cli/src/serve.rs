//! `foveate serve`: a server of the arena, or of the crowd.

use crate::authenticator::MainAuthenticator;
use crate::bots::{self, BotsArgs};
use crate::config::{Config, Tokens};
use crate::crowd::CrowdGame;
use crate::monitor::{Monitor, log};
use crate::truth::{TraceRecorder, Truth};
use crate::usage;
use crate::web::{self, ShownGame};
use crate::world_args::WorldArgs;
use foveate_arena::{Arena, Setup, TickRate};
use foveate_io::host::{ServerHost, StepTimings};
use foveate_io::{Endpoint, EndpointOptions, LinkConditions, Trust};
use foveate_node::server::{ServerEvent, ServerSettings};
use foveate_node::{Game, Simulation};
use foveate_sync::Rounds;
use foveate_wire::{Bytes, Micros};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::io::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Longer than any server runs, in seconds.
const YEARS: u64 = 10 * 365 * 24 * 3_600;

/// The rules of the game.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Rules {
    /// Two teams, shots, bases, items, units.
    Arena,
    /// Players that only walk, for measuring
    Crowd,
}

/// A dedicated server
#[derive(clap::Args)]
pub struct Serve {
    #[command(flatten)]
    world: WorldArgs,
    /// Bytes per second to each player; 0 for no limit
    #[arg(long)]
    budget: Option<u32>,
    /// Send clients enemies behind walls, too
    #[arg(long)]
    no_line_of_sight: bool,
    /// File in which to keep players and objects
    #[arg(long)]
    storage: Option<PathBuf>,
    /// Write all players' movement to this file, as a recording for the laboratory
    #[arg(long)]
    record: Option<PathBuf>,
    /// Serve no metrics
    #[arg(long)]
    no_metrics: bool,
    /// Show the reports in this folder, as `foveate lab --report` writes them
    #[arg(long)]
    reports: Option<PathBuf>,
    /// Bots to run in this process
    #[arg(long)]
    bots: Option<u32>,
    /// Threads for rules and views; 0 for one for each core
    #[arg(long)]
    threads: Option<usize>,
    /// Run on this processor only
    #[arg(long)]
    pin: Option<usize>,
    /// Stop when standard input ends; its first two lines mark the start and the end of measuring
    #[arg(long, hide = true)]
    measured: bool,
    /// Write the true places of objects to this file, now and then
    #[arg(long, hide = true)]
    truth: Option<PathBuf>,
}

impl Serve {
    /// The configuration with the command line's options applied.
    fn settle(&self) -> Result<Config, Box<dyn Error>> {
        let mut config = self.world.settle()?;
        config.threads = self.threads.unwrap_or(config.threads);
        config.line_of_sight &= !self.no_line_of_sight;
        config.storage = self.storage.clone().or(config.storage);
        config.metrics = config.metrics.filter(|_| !self.no_metrics);
        config.bots = self.bots.unwrap_or(config.bots);
        if let Some(budget) = self.budget {
            config.budget = (budget > 0).then_some(Bytes(budget));
        }
        Ok(config)
    }
}

/// The server's figures.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ServeFigures {
    pub ticks: u64,
    pub players: usize,
    pub seconds: f64,
    pub tick_ms_p50: f64,
    pub tick_ms_p99: f64,
    /// Processor time of the server's thread per round, including receiving: other programs do not affect it.
    pub round_cpu_ms_p50: f64,
    pub round_cpu_ms_p99: f64,
    pub late_ms_p99: f64,
    pub cpu_s: f64,
    pub cpu_us_per_client_tick: f64,
    pub game_us_per_client_tick: f64,
    pub receive_us_per_client_tick: f64,
    pub flush_us_per_client_tick: f64,
    pub rss_kib: f64,
    pub idle_rss_kib: f64,
    pub bounds_scheduled: f64,
    /// How much grades were reduced at the end: 0 to 16.
    pub strain: f64,
    /// The mean share of the grades' rates that was left; 1 without strain.
    pub quality: f64,
    pub updates_per_client_tick: f64,
    pub down_bytes_s: f64,
    /// UDP packets to each client, and datagrams in them: the difference is QUIC's own packets.
    pub down_packets_s: f64,
    pub down_datagrams_s: f64,
    pub up_bytes_s: f64,
    pub up_packets_s: f64,
    pub state_bytes_s: f64,
    pub malformed: u64,
    pub impossible: u64,
    pub hasty: u64,
    pub left: u64,
    pub links_refused: u64,
}

/// Runs a server until told to stop.
pub fn run(args: &Serve) -> Result<(), Box<dyn Error>> {
    if let Some(processor) = args.pin {
        usage::pin(processor);
    }
    let config = args.settle()?;
    log::begin(&config);
    let players = config.limits.max_links as usize;
    match args.world.game {
        Rules::Arena => {
            let setup = Setup {
                rate: TickRate::new(config.tick_hz)?,
                line_of_sight: config.line_of_sight,
                ..Setup::for_players(players, config.seed)
            };
            serve(args, &config, Arc::new(Arena::new(setup)?))
        }
        Rules::Crowd => serve(args, &config, Arc::new(CrowdGame::new(players)?)),
    }
}

/// Where players connect to, as the configuration has it.
pub fn endpoint(config: &Config) -> Result<Endpoint, foveate_io::Error> {
    let mut limits = config.limits.clone().for_players(config.limits.max_links);
    if config.listen.ip().is_loopback() || config.bots > 0 {
        // All bots have the same address.
        limits.trusted = Some(from_here(config.listen).ip());
    }
    if config.listen.ip().is_loopback() {
        limits.retry_above = 512;
    }
    let conditions = config.network.map(|each| LinkConditions { received: each, sent: each });
    let (datagrams, seed) = (config.datagrams, config.seed);
    let options =
        EndpointOptions { limits, conditions, datagrams, seed, ..EndpointOptions::server() };
    Endpoint::server(config.listen, config.certificate.clone(), options)
}

/// Sessions as the configuration has them.
pub fn settings(config: &Config) -> ServerSettings {
    ServerSettings {
        rounds: Rounds::every(Micros(1_000_000 / u64::from(config.tick_hz))),
        max_players: config.limits.max_links as usize,
        budget: config.budget.map(|bytes| Bytes((bytes.0 / config.tick_hz).max(1))),
        resources: config.resources,
        ..ServerSettings::default()
    }
}

fn serve<G: ShownGame>(args: &Serve, config: &Config, game: Arc<G>) -> Result<(), Box<dyn Error>> {
    let settings = settings(config);
    let mut simulation = Simulation::new(Arc::clone(&game), settings.rounds);
    let door = MainAuthenticator::open(config, &mut simulation)?;
    let mut host = ServerHost::new(game, settings, endpoint(config)?, door);
    simulation.seed = host.server.simulation.seed;
    simulation.publisher.set_threads(foveate_io::host::threads(config.threads)?);
    host.server.simulation = simulation;
    if let Some(view) = &config.view {
        host.server.set_first_view(view.clone()).map_err(|error| format!("[view]: {error}"))?;
    }
    host.follow_congestion = config.follow_congestion;
    let address = host.endpoint.address()?;
    println!("listening on {address}");
    if let Some(hash) = host.endpoint.certificate_hash() {
        println!("development certificate {hash}");
    }
    tracing::info!(%address, name = config.name, tick_hz = config.tick_hz, "serving");
    if config.bots > 0 {
        play_along(args.world.game, config, &[address]);
    }
    play(args, config, host)
}

/// The address for connecting from this machine: loopback for a server that listens on all addresses.
fn from_here(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        let v4 = address.is_ipv4();
        address.set_ip(if v4 { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    address
}

/// Runs bots in a thread of this process; they join like other clients.
pub fn play_along(game: Rules, config: &Config, addresses: &[SocketAddr]) {
    let bots = BotsArgs {
        connect: addresses.iter().map(|address| from_here(*address).into()).collect(),
        trust: Trust::InsecureDevelopmentOnly,
        tick_hz: config.tick_hz,
        count: config.bots as usize,
        game,
        seconds: YEARS,
        seed: config.seed,
        name: "bot".into(),
        secret: match &config.tokens {
            Tokens::Open => None,
            Tokens::Secret(file) => Some(file.clone()),
        },
        players: config.limits.max_links as usize,
        json: None,
        pin: None,
    };
    std::thread::spawn(move || {
        if let Err(error) = bots::play(&bots, None, || Ok(())) {
            tracing::error!(%error, "the bots have stopped");
        }
    });
}

fn play<G: ShownGame>(
    args: &Serve,
    config: &Config,
    mut host: ServerHost<G, MainAuthenticator>,
) -> Result<(), Box<dyn Error>> {
    let stop = stopper(args.measured)?;
    let mut truth = args.truth.as_deref().map(Truth::create).transpose()?;
    let mut record = args.record.as_deref().map(TraceRecorder::create).transpose()?;
    let mut monitor = Monitor::start(config)?;
    if config.web.enabled {
        let (board, reports) = (monitor.board(), args.reports.clone());
        println!("pages on http://{}/", web::open(&config.web, &mut host, board, reports)?);
    }
    let mut observatory = web::observatory(&config.name, &host);
    let idle = usage::resident_kib();
    let (mut meter, mut marked, mut figures) = (Meter::begin(&host, idle), false, None);
    while !stop.end.load(Ordering::Relaxed) {
        let spent = host.step()?;
        let tick = host.tick();
        for event in host.drain_events() {
            meter.left += u64::from(matches!(event, ServerEvent::Left(..)));
            log::event(&event);
        }
        // Only this loop drains them, and they grow with every round.
        if args.measured {
            meter.add(&host, spent);
        }
        monitor.note(&host, spent);
        web::show(&mut observatory, &mut host, spent);
        // The first mark starts measuring and the second ends it; all clients are present in between.
        if stop.mark.swap(false, Ordering::Relaxed) {
            match marked {
                false => meter = Meter::begin(&host, idle),
                true => figures = Some(meter.figures(&host)),
            }
            marked = true;
        }
        let store = &host.server.simulation.publisher.store;
        if let Some(truth) = &mut truth {
            truth.note(tick, store)?;
        }
        if let Some(record) = &mut record {
            record.note(tick, 1_000.0 / f64::from(config.tick_hz), store)?;
        }
    }
    if args.measured {
        let figures = figures.unwrap_or_else(|| meter.figures(&host));
        // The reader may be gone: that is an error, and no panic.
        writeln!(std::io::stdout(), "{}", serde_json::to_string(&figures)?)?;
    }
    tracing::info!("going down");
    host.close(Micros::from_millis(1_000))?.close()
}

/// Signals that measuring starts or ends, and that the process must end.
pub struct Stopper {
    mark: Arc<AtomicBool>,
    /// Set when the process is told to end.
    pub end: Arc<AtomicBool>,
}

impl Stopper {
    /// Set by the signals to terminate and to interrupt.
    pub fn by_signals() -> Result<Stopper, std::io::Error> {
        let stopper = Stopper { mark: Arc::default(), end: Arc::default() };
        for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
            signal_hook::flag::register(signal, Arc::clone(&stopper.end))?;
        }
        Ok(stopper)
    }
}

fn stopper(by_input: bool) -> Result<Stopper, std::io::Error> {
    let stopper = Stopper::by_signals()?;
    if by_input {
        let (mark, end) = (Arc::clone(&stopper.mark), Arc::clone(&stopper.end));
        std::thread::spawn(move || {
            for _ in std::io::stdin().lines().map_while(Result::ok) {
                mark.store(true, Ordering::Relaxed);
            }
            end.store(true, Ordering::Relaxed);
        });
    }
    Ok(stopper)
}

/// Collects the durations of rounds.
struct Meter {
    began: Instant,
    cpu: Duration,
    idle: f64,
    ticks: Vec<f64>,
    /// The thread's processor time after the last round, and that of each round.
    thread: Duration,
    rounds: Vec<f64>,
    late: Vec<f64>,
    game: Duration,
    receive: Duration,
    flush: Duration,
    client_ticks: u64,
    before: foveate_io::LinkMeter,
    counted: foveate_sync::metrics::Counters,
    strained: foveate_sync::pipeline::Strained,
    left: u64,
}

impl Meter {
    fn begin<G: Game>(host: &ServerHost<G, MainAuthenticator>, idle: f64) -> Meter {
        Meter {
            began: Instant::now(),
            cpu: usage::processor_time(),
            idle,
            ticks: Vec::new(),
            thread: usage::thread_time(),
            rounds: Vec::new(),
            late: Vec::new(),
            game: Duration::ZERO,
            receive: Duration::ZERO,
            flush: Duration::ZERO,
            client_ticks: 0,
            before: host.endpoint.total(),
            counted: host.server.simulation.publisher.totals(),
            strained: host.server.simulation.publisher.strained(),
            left: 0,
        }
    }

    fn add<G: Game>(&mut self, host: &ServerHost<G, MainAuthenticator>, spent: StepTimings) {
        let tick = spent.tick + spent.flush;
        self.ticks.push(tick.as_secs_f64() * 1e3);
        self.late.push(spent.late.as_secs_f64() * 1e3);
        let thread = usage::thread_time();
        self.rounds.push((thread - self.thread).as_secs_f64() * 1e3);
        self.thread = thread;
        self.game += spent.tick;
        self.receive += spent.receive;
        self.flush += spent.flush;
        self.client_ticks += host.server.players() as u64;
    }

    fn figures<G: Game>(&mut self, host: &ServerHost<G, MainAuthenticator>) -> ServeFigures {
        let (seconds, total) = (self.began.elapsed().as_secs_f64(), host.endpoint.total());
        let counted = host.server.simulation.publisher.totals();
        let (before, players) = (&self.counted, host.server.players());
        let each = |value: Duration| value.as_secs_f64() * 1e6 / self.client_ticks.max(1) as f64;
        let rate = |count: u64| count as f64 / seconds / players.max(1) as f64;
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        let samples = sum(&counted.samples).saturating_sub(sum(&before.samples));
        let broken = sum(&counted.broken).saturating_sub(sum(&before.broken));
        let sent = (counted.updates + counted.full).saturating_sub(before.updates + before.full);
        let cpu = usage::processor_time() - self.cpu;
        let refused = host.server.refusals();
        ServeFigures {
            ticks: self.ticks.len() as u64,
            players,
            seconds,
            strain: f64::from(host.server.strain()),
            quality: host.server.simulation.publisher.strained().quality_since(&self.strained),
            tick_ms_p50: usage::quantile(&mut self.ticks, 0.5),
            tick_ms_p99: usage::quantile(&mut self.ticks, 0.99),
            round_cpu_ms_p50: usage::quantile(&mut self.rounds, 0.5),
            round_cpu_ms_p99: usage::quantile(&mut self.rounds, 0.99),
            late_ms_p99: usage::quantile(&mut self.late, 0.99),
            cpu_s: cpu.as_secs_f64(),
            cpu_us_per_client_tick: each(cpu),
            game_us_per_client_tick: each(self.game),
            receive_us_per_client_tick: each(self.receive),
            flush_us_per_client_tick: each(self.flush),
            rss_kib: usage::resident_kib(),
            idle_rss_kib: self.idle,
            bounds_scheduled: 1.0 - broken as f64 / samples.max(1) as f64,
            updates_per_client_tick: sent as f64 / self.client_ticks.max(1) as f64,
            down_bytes_s: rate(total.sent.bytes - self.before.sent.bytes),
            down_packets_s: rate(total.sent.packets - self.before.sent.packets),
            down_datagrams_s: rate(total.sent.datagrams - self.before.sent.datagrams),
            up_bytes_s: rate(total.received.bytes - self.before.received.bytes),
            up_packets_s: rate(total.received.packets - self.before.received.packets),
            state_bytes_s: rate(counted.bytes.saturating_sub(before.bytes)),
            malformed: refused.malformed,
            impossible: refused.impossible,
            hasty: refused.hasty,
            left: self.left,
            links_refused: refused.sessions.values().sum(),
        }
    }
}
