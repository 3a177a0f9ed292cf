//! The processes of a soak: a server, and squads of bots that come and go.

use rustix::process::{Pid, Signal, kill_process};
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long metrics may take.
const METRICS_TIMEOUT: Duration = Duration::from_secs(2);

/// A child that does not outlive this one's interest in it.
struct Running(Child);

impl Running {
    fn signal(&self, signal: Signal) {
        // A process that has ended needs no signal.
        if let Some(id) = Pid::from_raw(self.0.id() as i32) {
            kill_process(id, signal).unwrap_or(());
        }
    }

    /// Whether it succeeded, once it has ended by itself.
    fn ended(&mut self) -> Option<bool> {
        match self.0.try_wait() {
            Ok(status) => status.map(|status| status.success()),
            Err(_) => Some(false),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap_or(());
        let _ = self.0.wait();
    }
}

/// A server with a database, its metrics and nothing else.
pub struct SoakedServer {
    child: Running,
    /// What it prints must stay open.
    _output: std::io::Lines<BufReader<std::process::ChildStdout>>,
    pub address: SocketAddr,
    metrics: SocketAddr,
}

/// What metrics say.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Health {
    pub players: u32,
    pub ticks: u64,
}

impl SoakedServer {
    /// Starts it at an address, or any; its log is added to a file in the folder.
    pub fn start(
        folder: &Path,
        listen: Option<SocketAddr>,
        players: usize,
    ) -> Result<SoakedServer, Box<dyn Error>> {
        let metrics = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let config = folder.join("soak.toml");
        std::fs::write(&config, format!("[metrics]\nlisten = \"{metrics}\"\n"))?;
        let listen = listen.map_or("127.0.0.1:0".to_owned(), |address| address.to_string());
        let log = File::options().create(true).append(true).open(folder.join("server.log"))?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", "--listen", &listen, "--players", &players.to_string()])
            .arg("--storage")
            .arg(folder.join("world.db"))
            .arg("--config")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map(Running)?;
        let output = child.0.stdout.take().ok_or("no output")?;
        let mut output = BufReader::new(output).lines();
        let first = output.next().ok_or("the server ended; see server.log")??;
        let address = first.strip_prefix("listening on ").ok_or("the server says no address")?;
        Ok(SoakedServer { address: address.parse()?, child, _output: output, metrics })
    }

    /// Resident memory, in MB; none once it has ended.
    pub fn resident_mb(&self) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.0.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kib * 1_024.0 / 1e6)
    }

    /// What it says of itself; none while it does not answer.
    pub fn health(&self) -> Option<Health> {
        let text = self.fetch_metrics().ok()?;
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.and_then(|value| value.trim().parse::<f64>().ok())
        };
        let (players, ticks) = (value("foveate_players")?, value("foveate_ticks_total")?);
        Some(Health { players: players as u32, ticks: ticks as u64 })
    }

    fn fetch_metrics(&self) -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.metrics, METRICS_TIMEOUT)?;
        stream.set_read_timeout(Some(METRICS_TIMEOUT))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: soak\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    }

    /// SIGKILL: no last words.
    pub fn kill(self) -> SocketAddr {
        self.address
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.ended().is_some()
    }
}

/// How a squad ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Ending {
    /// Its bots say goodbye.
    Leave,
    /// The process is killed: links break, and the system refuses what still arrives.
    Killed,
    /// The process stands still: links fall silent. It is killed later.
    Silent,
    /// It ends by itself with an error: the server holds the names of a squad that was killed for a while.
    Refused,
}

impl Ending {
    /// Those that are chosen.
    pub const PLANNED: [Ending; 3] = [Ending::Leave, Ending::Killed, Ending::Silent];
}

/// Bots in one process.
pub struct Squad {
    child: Running,
    ending: Ending,
    /// When it ends, unless by itself.
    due: Instant,
    stopped: bool,
}

/// How long a squad is silent before it is killed: links have timed out by then.
const SILENCE: Duration = Duration::from_secs(15);
/// Time that a squad needs beyond the one it plays: joining, settling and leaving.
const AROUND: Duration = Duration::from_secs(60);

/// What to start a squad with.
pub struct SquadPlan<'a> {
    pub server: SocketAddr,
    pub name: &'a str,
    pub count: usize,
    pub players: usize,
    pub life: Duration,
    pub ending: Ending,
}

impl Squad {
    pub fn start(plan: &SquadPlan<'_>, folder: &Path) -> Result<Squad, Box<dyn Error>> {
        let long = if plan.ending == Ending::Leave { plan.life } else { plan.life + 2 * AROUND };
        let log = File::options().create(true).append(true).open(folder.join("bots.log"))?;
        let child = Command::new(std::env::current_exe()?)
            .args(["bots", "--connect", &plan.server.to_string(), "--name", plan.name])
            .args(["--count", &plan.count.to_string(), "--players", &plan.players.to_string()])
            .args(["--seconds", &long.as_secs().to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map(Running)?;
        let grace = if plan.ending == Ending::Leave { AROUND } else { Duration::ZERO };
        let due = Instant::now() + plan.life + grace;
        Ok(Squad { child, ending: plan.ending, due, stopped: false })
    }

    /// Does what is due; how it ended, if it did.
    pub fn turn(&mut self) -> Option<Ending> {
        if let Some(well) = self.child.ended() {
            return Some(if well { self.ending } else { Ending::Refused });
        }
        if Instant::now() < self.due {
            return None;
        }
        if self.ending == Ending::Silent && !self.stopped {
            self.child.signal(Signal::STOP);
            (self.stopped, self.due) = (true, Instant::now() + SILENCE);
            return None;
        }
        Some(self.ending)
    }
}
