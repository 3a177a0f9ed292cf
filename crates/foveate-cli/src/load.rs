//! `foveate load`: what a server costs with so many real clients, on this machine.
//!
//! Starts a server as a process of its own on one processor and plays all clients on another, over
//! QUIC on loopback. What others believed is compared with where everybody was.

use crate::bots::{self, BotsArgs, Witness};
use crate::flood::Flood;
use crate::serve::{Rules, ServeFigures};
use crate::{truth, usage};
use serde_json::{Value, json};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A server and its clients, measured
#[derive(clap::Args)]
pub struct Load {
    /// How many clients; several counts are tried one after the other
    #[arg(long, value_delimiter = ',', default_value = "1000")]
    clients: Vec<usize>,
    /// Rules of the game
    #[arg(long, value_enum, default_value = "arena")]
    game: Rules,
    /// How long to measure, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed of world and bots
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Bytes a second to each player; 0: no limit
    #[arg(long, default_value_t = 64_000)]
    budget: u32,
    /// Measure instead what a flood from one address does to the others: five calm runs and five under it,
    /// in turn
    #[arg(long)]
    flood: bool,
    /// Over a bad network: round trips of 150 ± 40 ms, 5 % of packets lost in bursts of three, either way.
    /// Errors are then those at the very moment, with what delay and losses add
    #[arg(long, conflicts_with = "flood")]
    bad_network: bool,
    /// Bytes a second to all players together: views give way beyond it
    #[arg(long, value_name = "BYTES")]
    uplink: Option<u64>,
    /// Let another program take half of the server's processor
    #[arg(long)]
    compete: bool,
    /// Write rows there
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Pairs of runs, calm and flooded.
const TURNS: usize = 5;

/// `--bad-network`, as the server's configuration.
const BAD_NETWORK: &str = "[network]\ndelay_ms = 55\njitter_ms = 40\nloss = 0.05\nburst = 3\n";
/// Up to where errors are near, and up to where not yet far, in world units.
const NEAR: [f64; 2] = [40.0, 70.0];

/// Measures, and prints a row for each count.
pub fn run(args: &Load) -> Result<(), Box<dyn Error>> {
    let mut rows = Vec::new();
    for clients in &args.clients {
        let row =
            if args.flood { flooded(args, *clients)? } else { measure(args, *clients, false)? };
        println!("{}", serde_json::to_string_pretty(&row)?);
        rows.push(row);
    }
    if let Some(path) = &args.json {
        let outcome = json!({ "experiment": "load", "seed": args.seed, "rows": rows });
        std::fs::write(path, outcome.to_string())?;
    }
    Ok(())
}

/// A server process; it ends with its standard input.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: std::io::Lines<BufReader<std::process::ChildStdout>>,
    address: SocketAddr,
}

impl Server {
    fn start(args: &Load, clients: usize, folder: &Path) -> Result<Server, Box<dyn Error>> {
        let game = if args.game == Rules::Arena { "arena" } else { "crowd" };
        let config = folder.join("foveate.toml");
        let mut text = String::from(if args.bad_network { BAD_NETWORK } else { "" });
        if let Some(uplink) = args.uplink {
            text.push_str(&format!("[limits]\nuplink_bytes_per_second = {uplink}\n"));
        }
        std::fs::write(&config, text)?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", "--measured", "--no-metrics", "--pin", "0", "--listen", "127.0.0.1:0"])
            .args(["--game", game, "--players", &clients.to_string()])
            .args(["--seed", &args.seed.to_string(), "--budget", &args.budget.to_string()])
            .arg("--config")
            .arg(config)
            .arg("--truth")
            .arg(folder.join("was"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("no output")?;
        let mut output = BufReader::new(output).lines();
        let first = output.next().ok_or("the server ended")??;
        let address = first.strip_prefix("listening on ").ok_or("the server says no address")?;
        Ok(Server { address: address.parse()?, child, input, output })
    }

    /// Here the measured time begins, or ends.
    fn mark(&mut self) -> Result<(), Box<dyn Error>> {
        let input = self.input.as_mut().ok_or("the server has ended")?;
        input.write_all(b"\n")?;
        Ok(input.flush()?)
    }

    fn end(mut self) -> Result<ServeFigures, Box<dyn Error>> {
        drop(self.input.take());
        let mut figures = None;
        for line in self.output.by_ref() {
            figures = serde_json::from_str(&line?).ok().or(figures);
        }
        self.child.wait()?;
        figures.ok_or_else(|| "the server printed no figures".into())
    }
}

/// A thread that is busy on one processor as long as it is held, so that others there have half of it.
struct Competitor(Arc<AtomicBool>);

impl Competitor {
    fn begin(processor: usize) -> Competitor {
        let busy = Arc::new(AtomicBool::new(true));
        let held = Arc::clone(&busy);
        std::thread::spawn(move || {
            usage::pin(processor);
            while held.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Competitor(busy)
    }
}

impl Drop for Competitor {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// The median over the calm runs' median ticks beside that over the flooded ones', and what the flood
/// was answered with.
fn flooded(args: &Load, clients: usize) -> Result<Value, Box<dyn Error>> {
    let mut runs = Vec::new();
    for turn in 0..2 * TURNS {
        runs.push(measure(args, clients, turn % 2 == 1)?);
    }
    let median = |flooded: bool, key: &str| {
        let of = runs.iter().filter(|run| run["flooded"] == flooded);
        let mut values: Vec<f64> = of.filter_map(|run| run[key].as_f64()).collect();
        usage::quantile(&mut values, 0.5)
    };
    let pair = |key: &str| json!([median(false, key), median(true, key)]);
    Ok(json!({
        "clients": clients,
        "turns": TURNS,
        "tick_ms_p50": pair("tick_ms_p50"),
        "tick_ms_p99": pair("tick_ms_p99"),
        "late_ms_p99": pair("late_ms_p99"),
        "cpu_us_per_client_tick": pair("cpu_us_per_client_tick"),
        "moved_ms": median(true, "tick_ms_p50") - median(false, "tick_ms_p50"),
        "flood_packets_s": median(true, "flood_packets_s"),
        "connected": runs.iter().map(|run| run["bots"]["connected"].clone()).collect::<Vec<_>>(),
    }))
}

fn measure(args: &Load, clients: usize, flood: bool) -> Result<Value, Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("foveate-load-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (was, believed) = (folder.join("was"), folder.join("believed"));
    let mut server = Server::start(args, clients, &folder)?;
    let bots = BotsArgs {
        connect: server.address.into(),
        trust: foveate_io::Trust::InsecureDevelopmentOnly,
        tick_hz: 20,
        count: clients,
        game: args.game,
        seconds: args.seconds,
        seed: args.seed,
        name: "bot".into(),
        secret: None,
        players: clients,
        json: None,
        pin: Some(1),
    };
    let flood = flood.then(|| Flood::begin(server.address));
    let competitor = args.compete.then(|| Competitor::begin(0));
    let witness =
        if args.bad_network { Witness::Present(&believed) } else { Witness::Newest(&believed) };
    let seen = bots::play(&bots, Some(witness), || server.mark())?;
    let sent = flood.map(Flood::end);
    drop(competitor);
    let served = server.end()?;
    let errors = truth::errors(&was, &believed)?;
    std::fs::remove_dir_all(&folder)?;
    let mut degrees: Vec<f64> = errors.iter().map(truth::StateError::degrees).collect();
    let mut row = json!({
        "workload": if args.game == Rules::Arena { "arena" } else { "crowd" },
        "clients": clients,
        "flooded": sent.is_some(),
        "flood_packets_s": sent,
        "bad_network": args.bad_network,
        "uplink": args.uplink,
        "competing": args.compete,
        "err_deg_p50": usage::quantile(&mut degrees, 0.5),
        "err_deg_p95": usage::quantile(&mut degrees, 0.95),
        "err_samples": errors.len(),
        "err_p95_by_distance": by_distance(&errors),
        "err_p95_by_third": by_third(&errors),
        "rss_kib_per_client": (served.rss_kib - served.idle_rss_kib) / clients as f64,
        "bots": seen,
    });
    if let (Value::Object(row), Value::Object(served)) = (&mut row, serde_json::to_value(&served)?)
    {
        row.extend(served);
    }
    Ok(row)
}

/// 95 % of the errors are below, in world units: near, not yet far, far.
fn by_distance(errors: &[truth::StateError]) -> [f64; 3] {
    p95_of_parts(errors, |error| NEAR.iter().filter(|edge| error.away > **edge).count())
}

/// And in each third of the time: what diverges gets worse.
fn by_third(errors: &[truth::StateError]) -> [f64; 3] {
    let (first, last) = errors
        .iter()
        .fold((u32::MAX, 0), |(first, last), error| (first.min(error.tick), last.max(error.tick)));
    p95_of_parts(errors, |error| (3 * (error.tick - first) / (last - first + 1)).min(2) as usize)
}

fn p95_of_parts(
    errors: &[truth::StateError],
    part: impl Fn(&truth::StateError) -> usize,
) -> [f64; 3] {
    [0, 1, 2].map(|nth| {
        let of = errors.iter().filter(|error| part(error) == nth);
        usage::quantile(&mut of.map(|error| error.off).collect::<Vec<_>>(), 0.95)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_by_distance_and_by_time() {
        let error = |tick, off, away| truth::StateError { tick, off, away };
        let errors =
            [error(20, 1.0, 40.0), error(40, 2.0, 41.0), error(60, 3.0, 71.0), error(80, 9.0, 5.0)];
        assert_eq!(by_distance(&errors), [9.0, 2.0, 3.0]);
        assert_eq!(by_third(&errors), [2.0, 3.0, 9.0]);
        assert_eq!(by_third(&[]), [0.0; 3]);
        assert!((error(0, 1.0, 1.0).degrees() - 45.0).abs() < 1e-9);
    }
}
