//! `foveate mesh`: a world on several region servers, as threads of one process.

use crate::config::Config;
use crate::crowd::CrowdGame;
use crate::monitor::log;
use crate::region::players::{PlayerEntrance, check, guard};
use crate::region::{
    MeshGame, RegionBoard, RegionMetrics, RegionObservatory, RegionRunner, ServerEnd, settings,
};
use crate::serve::{Rules, Stopper, play_along};
use crate::world_args::WorldArgs;
use foveate_arena::{Arena, Setup, TickRate};
use foveate_io::region::{LedgerFile, LocalBus, LocalLedger, RegionHost, even_layout};
use foveate_node::region::layout::{Layout, ServerId};
use foveate_node::region::{RegionCommand, RegionServer, RegionSettings};
use foveate_wire::Micros;
use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval of publishing metrics, and of checks whether to stop.
const LOOK: Duration = Duration::from_millis(100);

type ThreadError = Box<dyn Error + Send + Sync>;

/// A world on several region servers, as threads of one process
#[derive(clap::Args)]
pub struct MeshArgs {
    #[command(flatten)]
    world: WorldArgs,
    /// Region servers; each further one listens on the next port, for players and for pages
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    regions: u32,
    /// File to keep the world in; without it the world ends with the process
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Ticks per second
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=120))]
    tick_hz: Option<u32>,
    /// Let regions grow, shrink and merge with their load
    #[arg(long)]
    balance: bool,
    /// Show the reports in this folder, as `foveate lab --report` writes them
    #[arg(long)]
    reports: Option<PathBuf>,
    /// Bots to run in this process
    #[arg(long)]
    bots: Option<u32>,
    /// Address to serve metrics on
    #[arg(long)]
    metrics: Option<SocketAddr>,
}

/// Players of a world without a configuration.
const PLAYERS: u32 = 256;

impl MeshArgs {
    /// The configuration with the command line's options applied.
    fn settle(&self) -> Result<Config, Box<dyn Error>> {
        let mut config = self.world.settle()?;
        if self.world.config.is_none() && self.world.players.is_none() {
            config.limits.max_links = PLAYERS;
        }
        config.tick_hz = self.tick_hz.unwrap_or(config.tick_hz);
        config.bots = self.bots.unwrap_or(config.bots);
        // Without a file nothing says that metrics are wanted, and several worlds run on one machine.
        config.metrics = self.metrics.or(config.metrics.filter(|_| self.world.config.is_some()));
        check(&config)?;
        Ok(config)
    }
}

/// Runs until told to stop.
pub fn run(args: &MeshArgs) -> Result<(), Box<dyn Error>> {
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
            mesh(args, config, Arc::new(Arena::new(setup)?))
        }
        Rules::Crowd => mesh(args, config, Arc::new(CrowdGame::new(players)?)),
    }
}

/// What all servers of the process share.
struct Mesh<'a, G: MeshGame> {
    args: &'a MeshArgs,
    config: Config,
    game: Arc<G>,
    settings: RegionSettings,
    bus: LocalBus,
    ledger: LocalLedger,
    metrics: RegionMetrics,
    board: RegionBoard,
    /// The number of the next server that starts in the place of one that ended.
    next: AtomicU32,
    /// Where players connect to each server.
    addresses: Mutex<BTreeMap<u16, SocketAddr>>,
    stop: Stopper,
}

fn mesh<G: MeshGame>(args: &MeshArgs, config: Config, game: Arc<G>) -> Result<(), Box<dyn Error>> {
    let round = Micros(1_000_000 / u64::from(config.tick_hz));
    let settings = settings(&*game, round);
    let mut file = match &args.data {
        Some(path) => LedgerFile::open(path)?,
        None => LedgerFile::in_memory()?,
    };
    let servers = file.new_servers(args.regions);
    let founding = match check_world(&file, &*game, round)? {
        true => {
            file.assign(&servers)?;
            None
        }
        false => Some(even_layout(game.schema().hash(), round, settings.extent, &servers)?),
    };
    let next = AtomicU32::new(servers.last().map_or(0, |last| last.0) + 1);
    let metrics = RegionMetrics::start(config.metrics)?;
    let mesh = Mesh {
        args,
        config,
        game,
        settings,
        bus: LocalBus::default(),
        ledger: file.start()?,
        metrics,
        board: RegionBoard::default(),
        next,
        addresses: Mutex::default(),
        stop: Stopper::by_signals()?,
    };
    if let Some(address) = mesh.metrics.address() {
        println!("metrics on http://{address}/metrics");
    }
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (nth, server) in (0..).zip(&servers) {
            let (mesh, founding) = (&mesh, founding.clone().filter(|_| nth == 0));
            threads.push(scope.spawn(move || mesh.serve(nth, *server, founding)));
        }
        mesh.watch(&threads);
        // The first that failed says why.
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .map_err(|_| Box::<dyn Error>::from("a region server panicked"))?
                .map_err(|why| Box::<dyn Error>::from(why.to_string()))
        })
    })
}

/// Whether the file contains a world. It must be a world of this game.
fn check_world<G: MeshGame>(
    file: &LedgerFile,
    game: &G,
    round: Micros,
) -> Result<bool, Box<dyn Error>> {
    use foveate_node::region::layout::LayoutError;
    let Some(layout) = file.layout()? else { return Ok(false) };
    let (world, server) = (layout.schema, game.schema().hash());
    if world != server {
        return Err(LayoutError::Schema { world, server }.into());
    }
    if layout.round != round {
        return Err(LayoutError::Round { world: layout.round, server: round }.into());
    }
    Ok(true)
}

/// The address of a further server: the same with a higher port.
fn nth_port(mut address: SocketAddr, nth: u16, option: &str) -> Result<SocketAddr, String> {
    if address.port() != 0 {
        let port = address.port().checked_add(nth);
        let few = || format!("{option}: too few ports are left above {}", address.port());
        address.set_port(port.ok_or_else(few)?);
    }
    Ok(address)
}

impl<G: MeshGame> Mesh<'_, G> {
    /// Once all servers listen, bots join them.
    fn play_along(&self, nth: u16, address: SocketAddr) {
        let mut addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let complete = addresses.len() == self.args.regions as usize;
        addresses.insert(nth, address);
        if !complete && addresses.len() == self.args.regions as usize && self.config.bots > 0 {
            let all: Vec<SocketAddr> = addresses.values().copied().collect();
            play_along(self.args.world.game, &self.config, &all);
        }
    }

    /// Publishes metrics until the end; one server that fails ends all.
    fn watch<T>(&self, threads: &[std::thread::ScopedJoinHandle<'_, T>]) {
        while !self.stop.end.load(Ordering::Relaxed) {
            self.metrics.publish();
            if threads.iter().any(|thread| thread.is_finished()) {
                self.stop.end.store(true, Ordering::Relaxed);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Runs one server, and replaces it when it was declared dead.
    fn serve(
        &self,
        nth: u16,
        mut id: ServerId,
        mut founding: Option<Layout>,
    ) -> Result<(), ThreadError> {
        let mut config = self.config.clone();
        config.listen = nth_port(config.listen, nth, "--listen")?;
        config.web.listen = nth_port(config.web.listen, nth, "--web")?;
        // A page of one of them connects to all.
        let siblings = (0..self.args.regions as u16).map(|nth| {
            nth_port(self.config.web.listen, nth, "--web").map(|at| format!(":{}", at.port()))
        });
        config.web.origins.extend(siblings.collect::<Result<Vec<String>, _>>()?);
        loop {
            let (board, reports) = (self.metrics.board(), self.args.reports.clone());
            let entrance = PlayerEntrance::open(&config, &*self.game, &[], board, reports)?;
            config.listen = entrance.endpoint.address()?;
            println!("server {} listening on {}", id.0, config.listen);
            if let Some(web) = entrance.web {
                config.web.listen = web;
                println!("{} on http://{web}/", if nth == 0 { "pages" } else { "also" });
            }
            let node = RegionServer::new(Arc::clone(&self.game), self.settings.clone(), id);
            let node = entrance.admit(&config, node);
            let (bus, ledger) = (self.bus.join(id), self.ledger.join(id));
            let host = RegionHost::new(node, entrance.endpoint, Box::new(bus), Box::new(ledger));
            let mut host = guard(&config, host)?;
            self.play_along(nth, config.listen);
            host.balances = self.args.balance;
            if let Some(layout) = founding.take() {
                host.command(RegionCommand::Found(Box::new(layout)));
            }
            let (game, round) = (&*self.game, self.settings.rounds.length);
            let observatory = RegionObservatory::new(&self.board, &config.name, game, round);
            let mut runner = RegionRunner::new(host, &self.metrics, observatory);
            let ended = runner.run(&self.stop.end, Duration::ZERO)?;
            self.metrics.forget(&runner.host);
            self.board.forget(runner.host.server.id());
            match ended {
                ServerEnd::Stopped => return Ok(runner.host.close(Micros::from_millis(500))?),
                ServerEnd::DeclaredDead => {
                    id = ServerId(self.next.fetch_add(1, Ordering::Relaxed));
                }
            }
        }
    }
}
