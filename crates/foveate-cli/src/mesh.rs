//! `foveate mesh`: a world on several region servers, as threads of one process.

use crate::config::{CliOverrides, Config};
use crate::crowd::CrowdGame;
use crate::monitor::log;
use crate::region::{MeshGame, RegionMetrics, RegionRunner, ServerEnd, endpoint, settings};
use crate::serve::{Rules, Stopper};
use foveate_arena::{Arena, Setup, TickRate};
use foveate_io::Certificate;
use foveate_io::region::{LedgerFile, LocalBus, LocalLedger, RegionHost, even_layout};
use foveate_node::region::layout::{Layout, ServerId};
use foveate_node::region::{RegionCommand, RegionServer, RegionSettings};
use foveate_wire::Micros;
use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How often metrics are published, and the end is looked for.
const LOOK: Duration = Duration::from_millis(100);

type ThreadError = Box<dyn Error + Send + Sync>;

/// A world on several region servers, as threads of one process
#[derive(clap::Args)]
pub struct MeshArgs {
    /// Region servers
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    regions: u32,
    /// Address to listen on; each further server listens on the next port
    #[arg(long, default_value = "127.0.0.1:4433")]
    listen: SocketAddr,
    /// File to keep the world in; without one it ends with the process
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Rules of the game
    #[arg(long, value_enum, default_value = "arena")]
    game: Rules,
    /// Players at once, for whom the world is made
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    players: u32,
    /// Seed of the world
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Ticks in a second
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=120))]
    tick_hz: u32,
    /// Let regions grow, shrink and merge as load asks for it
    #[arg(long)]
    balance: bool,
    /// Address to serve metrics on
    #[arg(long)]
    metrics: Option<SocketAddr>,
}

/// Runs until told to stop.
pub fn run(args: &MeshArgs) -> Result<(), Box<dyn Error>> {
    log::begin(&Config::parse(Path::new("defaults"), "", CliOverrides::default())?);
    match args.game {
        Rules::Arena => {
            let setup = Setup {
                rate: TickRate::new(args.tick_hz)?,
                ..Setup::for_players(args.players as usize, args.seed)
            };
            mesh(args, Arc::new(Arena::new(setup)?))
        }
        Rules::Crowd => mesh(args, Arc::new(CrowdGame::new(args.players as usize)?)),
    }
}

/// What all servers of the process share.
struct Mesh<'a, G: MeshGame> {
    args: &'a MeshArgs,
    game: Arc<G>,
    settings: RegionSettings,
    bus: LocalBus,
    ledger: LocalLedger,
    metrics: RegionMetrics,
    /// The number of the next server that starts in the place of one that ended.
    next: AtomicU32,
    stop: Stopper,
}

fn mesh<G: MeshGame>(args: &MeshArgs, game: Arc<G>) -> Result<(), Box<dyn Error>> {
    let round = Micros(1_000_000 / u64::from(args.tick_hz));
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
    let mesh = Mesh {
        args,
        game,
        settings,
        bus: LocalBus::default(),
        ledger: file.start()?,
        metrics: RegionMetrics::start(args.metrics)?,
        next,
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

/// Whether the file has a world, which must be this game's.
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

impl<G: MeshGame> Mesh<'_, G> {
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

    /// One server, and another in its place when it was declared dead.
    fn serve(
        &self,
        nth: u16,
        mut id: ServerId,
        mut founding: Option<Layout>,
    ) -> Result<(), ThreadError> {
        let mut listen = self.args.listen;
        if listen.port() != 0 {
            let port = listen.port().checked_add(nth);
            listen.set_port(port.ok_or("--listen: too few ports are left above this one")?);
        }
        loop {
            let endpoint = endpoint(listen, Certificate::development(), self.args.seed)?;
            listen = endpoint.address()?;
            println!("server {} listening on {listen}", id.0);
            let node = RegionServer::new(Arc::clone(&self.game), self.settings.clone(), id);
            let (bus, ledger) = (self.bus.join(id), self.ledger.join(id));
            let mut host = RegionHost::new(node, endpoint, Box::new(bus), Box::new(ledger));
            host.balances = self.args.balance;
            if let Some(layout) = founding.take() {
                host.command(RegionCommand::Found(Box::new(layout)));
            }
            let mut runner = RegionRunner::new(host, &self.metrics);
            let ended = runner.run(&self.stop.end, Duration::ZERO)?;
            self.metrics.forget(&runner.host);
            match ended {
                ServerEnd::Stopped => return Ok(runner.host.close(Micros::from_millis(500))?),
                ServerEnd::DeclaredDead => {
                    id = ServerId(self.next.fetch_add(1, Ordering::Relaxed));
                }
            }
        }
    }
}
