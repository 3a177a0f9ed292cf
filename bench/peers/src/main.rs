//! The crowd workload on other ways to build a multiplayer server, for comparison with ours.
//!
//! `foveate-bench-peers run LIB --clients N` starts the server of a library as a process of its own on one
//! processor, plays all clients on another, and prints one JSON object. `cargo xtask bench-peers` runs it beside
//! `foveate load`, which is the same for ours.
//!
//! The path of a run: [`crowd`] moves players, a library's file ([`handwritten`], [`replicon`], [`lightyear`],
//! [`naia`], [`raw`]) carries inputs and states, [`truth`] lays what clients were shown beside what was, [`usage`]
//! counts processor time and bytes.

mod clients;
mod crowd;
mod handwritten;
mod lightyear;
mod naia;
mod raw;
mod replicon;
mod truth;
mod usage;

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Ticks in a second.
pub const HZ: u32 = 20;
pub const TICK: Duration = Duration::from_millis(1_000 / HZ as u64);

/// What a server and its clients are told.
#[derive(Clone, Debug)]
pub struct Task {
    pub clients: usize,
    pub seconds: u64,
    /// Bytes of UDP payload that the floor sends down and up.
    pub sizes: [usize; 2],
    /// Where what was and what was shown are written.
    pub folder: PathBuf,
}

/// What a server counted between the two marks.
#[derive(Clone, Copy, Default, Debug)]
pub struct Served {
    pub ticks: u64,
    pub seconds: f64,
    pub cpu: Duration,
    pub rss_kib: f64,
    pub sent: usage::Traffic,
    pub received: usage::Traffic,
}

const USAGE: &str = "usage: foveate-bench-peers run LIB --clients N [--seconds N] [--down-size BYTES] \
                     [--up-size BYTES]; LIB: handwritten, replicon, lightyear, naia or raw";

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(role), Some(library)) = (words.first(), words.get(1)) else {
        return Err(USAGE.into());
    };
    let option = |name: &str, default: &str| -> String {
        let at = words.iter().position(|word| word == name);
        at.and_then(|at| words.get(at + 1)).map_or(default.into(), String::clone)
    };
    let scratch = std::env::temp_dir().join(format!("foveate-peers-{}", std::process::id()));
    let task = Task {
        clients: option("--clients", "100").parse()?,
        seconds: option("--seconds", "10").parse()?,
        sizes: [option("--down-size", "100").parse()?, option("--up-size", "50").parse()?],
        folder: option("--folder", &scratch.to_string_lossy()).into(),
    };
    match role.as_str() {
        "run" => {
            println!("{}", run(library, &task)?);
            Ok(())
        }
        "server" => {
            usage::pin(0);
            let marks = usage::Marks::listen();
            let served = match library.as_str() {
                "handwritten" => handwritten::serve(&task, &marks)?,
                "replicon" => replicon::serve(&task, &marks)?,
                "lightyear" => lightyear::serve(&task, &marks)?,
                "naia" => naia::serve(&task, &marks)?,
                "raw" => raw::serve(&task, &marks)?,
                _ => return Err(USAGE.into()),
            };
            println!("{}", figures(library, &task, served));
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

fn figures(library: &str, task: &Task, served: Served) -> Value {
    let per_client = |count: u64| count as f64 / served.seconds / task.clients as f64;
    // Not every library counts them.
    let packets = |count: u64| (count > 0).then(|| per_client(count));
    json!({
        "lib": library,
        "clients": task.clients,
        "cpu_ms_per_tick": served.cpu.as_secs_f64() * 1e3 / served.ticks.max(1) as f64,
        "hz": served.ticks as f64 / served.seconds,
        "down_bytes_s": per_client(served.sent.bytes),
        "up_bytes_s": per_client(served.received.bytes),
        "down_packets_s": packets(served.sent.packets),
        "up_packets_s": packets(served.received.packets),
        "rss_mb": served.rss_kib / 1024.0,
    })
}

/// A server in a process of its own, the clients in this one.
fn run(library: &str, task: &Task) -> Result<Value, Box<dyn Error>> {
    std::fs::create_dir_all(&task.folder)?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["server", library, "--clients", &task.clients.to_string()])
        .args(["--down-size", &task.sizes[0].to_string()])
        .args(["--up-size", &task.sizes[1].to_string(), "--folder"])
        .arg(&task.folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().ok_or("no input")?;
    let mut output = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let first = output.next().ok_or("the server ended")??;
    let server: SocketAddr = first.parse()?;
    usage::pin(1);
    let mut mark = || -> Result<(), Box<dyn Error>> {
        input.write_all(b"\n")?;
        Ok(input.flush()?)
    };
    let connected = match library {
        "handwritten" => clients::play::<handwritten::Player>(task, server, &mut mark),
        "replicon" => clients::play::<replicon::Player>(task, server, &mut mark),
        "lightyear" => clients::play::<lightyear::Player>(task, server, &mut mark),
        "naia" => clients::play::<naia::Player>(task, server, &mut mark),
        _ => raw::play(task, server, &mut mark),
    };
    drop(input);
    let connected = match connected {
        Ok(connected) => connected,
        // A server whose time was not measured does not end by itself.
        Err(error) => {
            child.kill()?;
            child.wait()?;
            return Err(error);
        }
    };
    let mut row = None;
    for line in output {
        row = serde_json::from_str(&line?).ok().or(row);
    }
    child.wait()?;
    let mut row: Value = row.ok_or("the server printed no figures")?;
    row["connected"] = json!(connected);
    if library != "raw" {
        let shown = truth::compare(&task.folder)?;
        row["error_p95"] = json!(shown.error_p95);
        row["missing"] = json!(shown.missing);
    }
    std::fs::remove_dir_all(&task.folder)?;
    Ok(row)
}

/// Sleeps until a tick begins; ticks that were missed are dropped.
pub fn next_tick(due: &mut Instant) {
    *due += TICK;
    let now = Instant::now();
    if *due < now {
        *due = now;
    }
    std::thread::sleep(*due - now);
}
