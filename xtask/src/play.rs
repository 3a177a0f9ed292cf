//! `cargo xtask play`: builds what is missing and starts the arena with bots.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::error::TaskError;
use crate::steps::say_and_check;
use crate::{process, web};

/// Bots with a single server.
const BOTS: &str = "60";
/// Region servers, with several.
const REGIONS: &str = "4";
/// Peers without a server, including the one with the page.
const PEERS: usize = 12;
/// The address of the page.
const PAGE: &str = "127.0.0.1:8080";
/// Players that the world is made for: the bots, and a few people.
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
        ["--topology", "mesh", rest @ ..] | ["--topology=mesh", rest @ ..] => Play::Mesh(rest),
        ["--topology", ..] => {
            return Err(TaskError::Usage("expected --topology server, mesh or peer, first"));
        }
        rest => Play::Server(rest),
    };
    web::build_if_stale(root)?;
    let build = ["build", "--release", "--package", "foveate-cli", "--bin", "foveate"];
    say_and_check(&mut process::cargo(root, &build))?;
    match play {
        Play::Server(rest) => serve(root, rest),
        Play::Mesh(rest) => process::check(
            foveate(root).args(["mesh", "--regions", REGIONS, "--players", PLAYERS]).args(rest),
        ),
        Play::Peers(rest) => peers(root, rest),
    }
}

/// The topology to play.
enum Play<'a> {
    Server(&'a [&'a str]),
    Mesh(&'a [&'a str]),
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

/// Starts a lobby, a peer that starts the game and serves the page, and the other peers.
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
