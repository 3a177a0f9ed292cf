//! `foveate region`: one region server of a world that runs on several machines.

use super::players::{PlayerEntrance, guard};
use super::{
    MeshGame, RegionBoard, RegionMetrics, RegionObservatory, RegionRunner, ServerEnd, settings,
};
use crate::config::{Config, RegionConfig};
use crate::crowd::CrowdGame;
use crate::monitor::log;
use crate::serve::{Rules, Stopper};
use crate::world_args::WorldArgs;
use foveate_arena::{Arena, Setup, TickRate};
use foveate_io::region::{
    DirectLinks, DirectOptions, MeshBus, NatsOptions, NatsWorld, RegionHost, WorldKey, WorldName,
};
use foveate_node::region::layout::Layout;
use foveate_node::region::{RegionCommand, RegionServer, RegionSettings};
use foveate_wire::{Bytes, Micros};
use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The environment variable of the world's key, for when no file is named.
const KEY_VARIABLE: &str = "FOVEATE_REGION_KEY";
/// How long to try to reach the broker.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a stopping server may take to hand over its regions.
const DRAIN: Duration = Duration::from_secs(20);
/// How often metrics are published.
const LOOK: Duration = Duration::from_millis(200);

type ThreadError = Box<dyn Error + Send + Sync>;

/// A region server of a world that runs on several machines
#[derive(clap::Args)]
pub struct RegionArgs {
    #[command(flatten)]
    common: WorldArgs,
    /// The broker, nats://HOST:PORT; for a cluster a list separated by commas
    #[arg(long, value_name = "URL")]
    nats: Option<String>,
    /// File of the broker's credentials
    #[arg(long, value_name = "FILE")]
    credentials: Option<PathBuf>,
    /// The world to join, or to start; all its servers need the same --game, --players and --seed
    #[arg(long)]
    world: Option<String>,
    /// File of the world's key, at least 32 random bytes; otherwise the variable FOVEATE_REGION_KEY has it
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Address to listen on for other region servers; by default a free port beside --listen
    #[arg(long)]
    link: Option<SocketAddr>,
    /// Take half of the largest region at the start, and do not move borders with the load
    #[arg(long)]
    fixed: bool,
    /// Addresses by which clients reach this server, if they differ from --listen and --web: HOST:PORT,
    /// ws://HOST:PORT, wss://HOST
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    contact: Vec<String>,
    /// Address to serve metrics, /healthz and /readyz on
    #[arg(long)]
    metrics: Option<SocketAddr>,
}

/// The checked settings of a server that has not started.
struct Plan {
    config: Config,
    region: RegionConfig,
    world: WorldName,
    key: WorldKey,
    players: u32,
    fixed: bool,
    metrics: Option<SocketAddr>,
}

impl RegionArgs {
    fn settle(&self) -> Result<Plan, Box<dyn Error>> {
        let config = self.common.settle()?;
        let mut region = config.region.clone();
        region.nats = self.nats.clone().unwrap_or(region.nats);
        region.credentials = self.credentials.clone().or(region.credentials);
        region.world = self.world.clone().unwrap_or(region.world);
        region.key_file = self.key_file.clone().or(region.key_file);
        region.link = self.link.or(region.link);
        let world: WorldName = region.world.parse()?;
        let key = match (&region.key_file, std::env::var(KEY_VARIABLE)) {
            (Some(file), _) => WorldKey::read(&world, file)?,
            (None, Ok(key)) => WorldKey::new(&world, key.trim_end().as_bytes())?,
            (None, Err(_)) => {
                let hint = "pass --key-file, set region.key_file or FOVEATE_REGION_KEY; \
                            `openssl rand -hex 32` makes one";
                return Err(format!("region servers need the world's key: {hint}").into());
            }
        };
        if !self.contact.is_empty() {
            region.contact = self.contact.clone();
        }
        let players = config.limits.max_links;
        super::players::check(&config)?;
        // Several of them run on one machine, so that metrics have no usual port.
        let metrics = self.metrics.or(config.metrics.filter(|_| self.common.config.is_some()));
        let fixed = self.fixed || region.fixed;
        Ok(Plan { config, region, world, key, players, fixed, metrics })
    }
}

/// Runs until told to stop.
pub fn run(args: &RegionArgs) -> Result<(), Box<dyn Error>> {
    let plan = args.settle()?;
    log::begin(&plan.config);
    match args.common.game {
        Rules::Arena => {
            let setup = Setup {
                rate: TickRate::new(plan.config.tick_hz)?,
                line_of_sight: plan.config.line_of_sight,
                ..Setup::for_players(plan.players as usize, plan.config.seed)
            };
            serve(&plan, Arc::new(Arena::new(setup)?))
        }
        Rules::Crowd => serve(&plan, Arc::new(CrowdGame::new(plan.players as usize)?)),
    }
}

fn serve<G: MeshGame>(plan: &Plan, game: Arc<G>) -> Result<(), Box<dyn Error>> {
    let metrics = RegionMetrics::start(plan.metrics)?;
    if let Some(address) = metrics.address() {
        println!("metrics on http://{address}/metrics");
    }
    let (stop, done) = (Stopper::by_signals()?, AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                metrics.publish();
                std::thread::sleep(LOOK);
            }
        });
        let ended = play(plan, &game, &metrics, &stop);
        done.store(true, Ordering::Relaxed);
        ended.map_err(|why| why.to_string().into())
    })
}

/// One server after another, until told to stop: one that was declared dead begins anew.
fn play<G: MeshGame>(
    plan: &Plan,
    game: &Arc<G>,
    metrics: &RegionMetrics,
    stop: &Stopper,
) -> Result<(), ThreadError> {
    let board = RegionBoard::default();
    loop {
        let host = join(plan, game, metrics)?;
        let round = host.server.settings().rounds.length;
        let observatory = RegionObservatory::new(&board, &plan.config.name, &**game, round);
        let mut runner = RegionRunner::new(host, metrics, observatory);
        runner.claims = plan.fixed;
        runner.host.balances = !plan.fixed;
        let ended = runner.run(&stop.end, DRAIN)?;
        metrics.forget(&runner.host);
        board.forget(runner.host.server.id());
        match ended {
            ServerEnd::Stopped => {
                tracing::info!("going down");
                return Ok(runner.host.close(Micros::from_millis(1_000))?);
            }
            ServerEnd::DeclaredDead => {}
        }
    }
}

/// Connects to broker and world.
fn join<G: MeshGame>(
    plan: &Plan,
    game: &Arc<G>,
    metrics: &RegionMetrics,
) -> Result<RegionHost<G>, ThreadError> {
    let Plan { config, region, world, key, .. } = plan;
    let options = NatsOptions {
        url: region.nats.clone(),
        credentials: region.credentials.clone(),
        replicas: region.replicas as usize,
        max_bytes: (region.ledger_bytes > 0).then_some(Bytes(region.ledger_bytes)),
        patience: PATIENCE,
    };
    let nats = NatsWorld::connect(options, world, key)?;
    let id = nats.new_server();
    let round = Micros(1_000_000 / u64::from(config.tick_hz));
    let settings = RegionSettings { machine: machine(), ..settings(&**game, round) };
    let entrance = PlayerEntrance::open(config, &**game, &region.contact, metrics.board(), None)?;
    let address = entrance.endpoint.address()?;
    let listen = region.link.unwrap_or(SocketAddr::new(config.listen.ip(), 0));
    let direct = DirectLinks::listen(DirectOptions { listen, advertise: region.advertise })?;
    println!("server {} listening on {address}", id.0);
    if let Some(hash) = entrance.endpoint.certificate_hash() {
        println!("development certificate {hash}");
    }
    if let Some(web) = entrance.web {
        println!("pages on http://{web}/");
    }
    tracing::info!(%address, server = id.0, %world, links = %direct.address(), "joining");
    let (broker, ledger) = nats.join(id);
    let bus = MeshBus::new(key, id, Box::new(broker), direct).ok_or("the key cannot be used")?;
    let node = entrance.admit(config, RegionServer::new(Arc::clone(game), settings, id));
    let host = RegionHost::new(node, entrance.endpoint, Box::new(bus), Box::new(ledger));
    let mut host = guard(config, host)?;
    // Whichever server is first begins the world; the others find it.
    let layout = Layout::new(game.schema().hash(), round, id);
    host.command(RegionCommand::Found(Box::new(layout)));
    Ok(host)
}

/// A number of this machine, 0 if it has no name: standbys are better on another one.
fn machine() -> u64 {
    let name = std::fs::read("/etc/machine-id").or_else(|_| std::fs::read("/etc/hostname"));
    let name = name.unwrap_or_default();
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    if name.is_empty() { 0 } else { name.iter().fold(0xcbf2_9ce4_8422_2325, hash).max(1) }
}
