//! `foveate load`: what a server costs with so many real clients, on this machine.
//!
//! Starts a server as a process of its own on one processor and plays all clients on another, over
//! QUIC on loopback. What others believed is compared with where everybody was.

use crate::bots::{self, Bots};
use crate::flood::Flood;
use crate::serve::{Figures, Rules};
use crate::{truth, usage};
use serde_json::{Value, json};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

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
    /// Write rows there
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Pairs of runs, calm and flooded.
const TURNS: usize = 5;

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
    fn start(
        args: &Load,
        clients: usize,
        truth: &std::path::Path,
    ) -> Result<Server, Box<dyn Error>> {
        let game = if args.game == Rules::Arena { "arena" } else { "crowd" };
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", "--measured", "--no-metrics", "--pin", "0", "--listen", "127.0.0.1:0"])
            .args(["--game", game, "--players", &clients.to_string()])
            .args(["--seed", &args.seed.to_string(), "--budget", &args.budget.to_string()])
            .arg("--truth")
            .arg(truth)
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

    fn end(mut self) -> Result<Figures, Box<dyn Error>> {
        drop(self.input.take());
        let mut figures = None;
        for line in self.output.by_ref() {
            figures = serde_json::from_str(&line?).ok().or(figures);
        }
        self.child.wait()?;
        figures.ok_or_else(|| "the server printed no figures".into())
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
    let mut server = Server::start(args, clients, &was)?;
    let bots = Bots {
        connect: server.address,
        count: clients,
        game: args.game,
        seconds: args.seconds,
        seed: args.seed,
        players: clients,
        json: None,
        pin: Some(1),
    };
    let flood = flood.then(|| Flood::begin(server.address));
    let seen = bots::play(&bots, Some(&believed), || server.mark())?;
    let sent = flood.map(Flood::end);
    let served = server.end()?;
    let mut errors = truth::errors(&was, &believed)?;
    std::fs::remove_dir_all(&folder)?;
    let count = errors.len();
    let mut row = json!({
        "workload": if args.game == Rules::Arena { "arena" } else { "crowd" },
        "clients": clients,
        "flooded": sent.is_some(),
        "flood_packets_s": sent,
        "err_deg_p50": usage::quantile(&mut errors, 0.5),
        "err_deg_p95": usage::quantile(&mut errors, 0.95),
        "err_samples": count,
        "rss_kib_per_client": (served.rss_kib - served.idle_rss_kib) / clients as f64,
        "bots": seen,
    });
    if let (Value::Object(row), Value::Object(served)) = (&mut row, serde_json::to_value(&served)?)
    {
        row.extend(served);
    }
    Ok(row)
}
