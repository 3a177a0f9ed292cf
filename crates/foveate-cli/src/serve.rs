//! `foveate serve`: a server of the arena, or of the crowd.

use crate::crowd::Crowd;
use crate::truth::Truth;
use crate::usage;
use foveate_arena::{Arena, Setup};
use foveate_io::host::{OpenDoor, ServerHost, Spent};
use foveate_io::{Certificate, Endpoint, Limits, Options, Rate};
use foveate_node::Game;
use foveate_node::server::{ServerEvent, Settings};
use foveate_wire::{Bytes, Micros};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Which rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Rules {
    /// Two teams, shots, bases, items, units.
    Arena,
    /// Players who walk about, and nothing else: for measuring.
    Crowd,
}

/// A dedicated server
#[derive(clap::Args)]
pub struct Serve {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:4433")]
    listen: SocketAddr,
    /// Rules of the game
    #[arg(long, value_enum, default_value = "arena")]
    game: Rules,
    /// Players at once
    #[arg(long, default_value_t = 1_024)]
    players: usize,
    /// Bytes a second to each player; 0: no limit
    #[arg(long, default_value_t = 64_000)]
    budget: u32,
    /// Seed of the world
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep to this processor
    #[arg(long)]
    pin: Option<usize>,
    /// Stop when standard input ends; its first two lines are the beginning and the end of what is measured
    #[arg(long, hide = true)]
    measured: bool,
    /// Write where everybody really was, now and then
    #[arg(long, hide = true)]
    truth: Option<PathBuf>,
}

/// What a server's time went to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Figures {
    pub ticks: u64,
    pub players: usize,
    pub seconds: f64,
    pub tick_ms_p50: f64,
    pub tick_ms_p99: f64,
    pub late_ms_p99: f64,
    pub cpu_s: f64,
    pub cpu_us_per_client_tick: f64,
    pub game_us_per_client_tick: f64,
    pub receive_us_per_client_tick: f64,
    pub flush_us_per_client_tick: f64,
    pub rss_kib: f64,
    pub idle_rss_kib: f64,
    pub bounds_scheduled: f64,
    pub updates_per_client_tick: f64,
    pub down_bytes_s: f64,
    pub up_bytes_s: f64,
    pub state_bytes_s: f64,
    pub malformed: u64,
    pub impossible: u64,
    pub hasty: u64,
    pub left: u64,
    pub links_refused: u64,
}

/// Runs until told to stop.
pub fn run(args: &Serve) -> Result<(), Box<dyn Error>> {
    if let Some(processor) = args.pin {
        usage::pin(processor);
    }
    match args.game {
        Rules::Arena => {
            serve(args, Arc::new(Arena::new(Setup::for_players(args.players, args.seed))?))
        }
        Rules::Crowd => serve(args, Arc::new(Crowd::new(args.players)?)),
    }
}

fn endpoint(args: &Serve) -> Result<Endpoint, foveate_io::Error> {
    let links = args.players as u32 + 64;
    let limits = Limits {
        max_links: links,
        // Behind one address may be a house, or on loopback all the bots.
        max_links_per_address: if args.listen.ip().is_loopback() { links } else { 64 },
        handshakes_per_address: match args.listen.ip().is_loopback() {
            true => Rate::per_second(4_096),
            false => Limits::server().handshakes_per_address,
        },
        retry_above: 512,
        ..Limits::server()
    };
    let options = Options { limits, ..Options::server() };
    Endpoint::server(args.listen, Certificate::development(), options)
}

fn serve<G: Game>(args: &Serve, game: Arc<G>) -> Result<(), Box<dyn Error>> {
    let settings = Settings {
        max_players: args.players,
        budget: (args.budget > 0).then(|| Bytes(args.budget / 20)),
        ..Settings::default()
    };
    let mut host = ServerHost::new(game, settings, endpoint(args)?, OpenDoor::default());
    host.server.stage.populate()?;
    let address = host.endpoint.address()?;
    println!("listening on {address}");
    if let Some(hash) = host.endpoint.certificate_hash() {
        println!("development certificate {hash}");
    }
    let stop = stopper(args.measured)?;
    let mut truth = args.truth.as_deref().map(Truth::create).transpose()?;
    let idle = usage::resident_kib();
    let (mut meter, mut marked, mut figures) = (Meter::begin(&host, idle), false, None);
    while !stop.end.load(Ordering::Relaxed) {
        let spent = host.step()?;
        meter.add(&mut host, spent);
        // The first mark begins what is measured, the second ends it: a full house all the while.
        if stop.mark.swap(false, Ordering::Relaxed) {
            match marked {
                false => meter = Meter::begin(&host, idle),
                true => figures = Some(meter.figures(&host)),
            }
            marked = true;
        }
        if let Some(truth) = &mut truth {
            truth.note(host.tick(), &host.server.stage.publisher.store)?;
        }
    }
    let figures = figures.unwrap_or_else(|| meter.figures(&host));
    println!("{}", serde_json::to_string(&figures)?);
    host.close(Micros::from_millis(1_000))?;
    Ok(())
}

/// When measuring begins or ends, and when everything ends.
struct Stopper {
    mark: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
}

fn stopper(by_input: bool) -> Result<Stopper, std::io::Error> {
    let stopper = Stopper { mark: Arc::default(), end: Arc::default() };
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stopper.end))?;
    }
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

/// Adds up what rounds take.
struct Meter {
    began: Instant,
    cpu: Duration,
    idle: f64,
    ticks: Vec<f64>,
    late: Vec<f64>,
    game: Duration,
    receive: Duration,
    flush: Duration,
    client_ticks: u64,
    before: foveate_io::Meter,
    counted: foveate_sync::metrics::Counters,
    left: u64,
}

impl Meter {
    fn begin<G: Game>(host: &ServerHost<G, OpenDoor>, idle: f64) -> Meter {
        Meter {
            began: Instant::now(),
            cpu: usage::processor_time(),
            idle,
            ticks: Vec::new(),
            late: Vec::new(),
            game: Duration::ZERO,
            receive: Duration::ZERO,
            flush: Duration::ZERO,
            client_ticks: 0,
            before: host.endpoint.total(),
            counted: host.server.stage.publisher.totals(),
            left: 0,
        }
    }

    fn add<G: Game>(&mut self, host: &mut ServerHost<G, OpenDoor>, spent: Spent) {
        let tick = spent.tick + spent.flush;
        self.ticks.push(tick.as_secs_f64() * 1e3);
        self.late.push(spent.late.as_secs_f64() * 1e3);
        self.game += spent.tick;
        self.receive += spent.receive;
        self.flush += spent.flush;
        self.client_ticks += host.server.players() as u64;
        let left = |event: &ServerEvent| matches!(event, ServerEvent::Left(..));
        self.left += host.happened().filter(left).count() as u64;
    }

    fn figures<G: Game>(&mut self, host: &ServerHost<G, OpenDoor>) -> Figures {
        let (seconds, total) = (self.began.elapsed().as_secs_f64(), host.endpoint.total());
        let counted = host.server.stage.publisher.totals();
        let (before, players) = (&self.counted, host.server.players());
        let each = |value: Duration| value.as_secs_f64() * 1e6 / self.client_ticks.max(1) as f64;
        let rate = |bytes: u64| bytes as f64 / seconds / players.max(1) as f64;
        let sum = |counts: &[u64]| counts.iter().sum::<u64>();
        let samples = sum(&counted.samples).saturating_sub(sum(&before.samples));
        let kept = sum(&counted.kept).saturating_sub(sum(&before.kept));
        let sent = (counted.updates + counted.full).saturating_sub(before.updates + before.full);
        let cpu = usage::processor_time() - self.cpu;
        let refused = host.server.refusals();
        Figures {
            ticks: self.ticks.len() as u64,
            players,
            seconds,
            tick_ms_p50: usage::quantile(&mut self.ticks, 0.5),
            tick_ms_p99: usage::quantile(&mut self.ticks, 0.99),
            late_ms_p99: usage::quantile(&mut self.late, 0.99),
            cpu_s: cpu.as_secs_f64(),
            cpu_us_per_client_tick: each(cpu),
            game_us_per_client_tick: each(self.game),
            receive_us_per_client_tick: each(self.receive),
            flush_us_per_client_tick: each(self.flush),
            rss_kib: usage::resident_kib(),
            idle_rss_kib: self.idle,
            bounds_scheduled: if samples > 0 { kept as f64 / samples as f64 } else { 1.0 },
            updates_per_client_tick: sent as f64 / self.client_ticks.max(1) as f64,
            down_bytes_s: rate(total.sent.bytes - self.before.sent.bytes),
            up_bytes_s: rate(total.received.bytes - self.before.received.bytes),
            state_bytes_s: rate(counted.bytes.saturating_sub(before.bytes)),
            malformed: refused.malformed,
            impossible: refused.impossible,
            hasty: refused.hasty,
            left: self.left,
            links_refused: refused.sessions.values().sum(),
        }
    }
}
