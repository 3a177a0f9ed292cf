//! `foveate load`: the cost of a server with many real clients, on this machine.
//!
//! Starts a server as a separate process on one processor, and runs all clients on another, over QUIC on loopback.
//! Clients' replicas are compared with the true places.

use crate::bots::{self, BotsArgs, Witness};
use crate::hostile::{Attack, AttackTarget, HOSTILE, HostileKind};
use crate::serve::{Rules, ServeFigures};
use crate::{crowd, truth, usage};
use foveate_arena::{Arena, Setup};
use foveate_lab::output::Verdict;
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
    /// Numbers of clients, measured one after the other
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
    /// Bytes per second to each player; 0 for no limit
    #[arg(long, default_value_t = 64_000)]
    budget: u32,
    /// Measure how a flood from one address affects other clients: five runs without and five with it, alternating
    #[arg(long)]
    flood: bool,
    /// Measure how 31 hostile clients of each of these kinds affect other clients, compared with as
    /// many more honest ones: five runs of each, alternating
    #[arg(long, value_enum, value_delimiter = ',', conflicts_with_all = ["flood", "bad_network", "game"])]
    hostile: Vec<HostileKind>,
    /// Simulate a bad network: round trips of 150 ± 40 ms, 5 % of packets lost in bursts of three, in each direction.
    /// Errors are then measured in the server's current round, including delay and losses
    #[arg(long, conflicts_with = "flood")]
    bad_network: bool,
    /// Send datagrams in QUIC instead of beside it
    #[arg(long)]
    quic_datagrams: bool,
    /// Bytes per second to all players together; beyond it views become looser
    #[arg(long, value_name = "BYTES")]
    uplink: Option<u64>,
    /// Let another program use half of the server's processor
    #[arg(long)]
    compete: bool,
    /// Write rows to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs of each kind, with and without attack.
const TURNS: usize = 5;
/// Under attack, the 99th percentile of rounds may take longer by this factor.
const SLOWER: f64 = 1.1;

/// `--bad-network`, as the server's configuration.
const BAD_NETWORK: &str = "[network]\ndelay_ms = 55\njitter_ms = 40\nloss = 0.05\nburst = 3\n";
/// Up to where errors count as near, and up to where as not yet far, in world units.
const NEAR: [f64; 2] = [40.0, 70.0];

/// Measures, and prints a row for each count.
pub fn run(args: &Load) -> Result<(), Box<dyn Error>> {
    let mut rows = Vec::new();
    let mut verdicts = Vec::new();
    for clients in &args.clients {
        let clients = *clients;
        if args.hostile.is_empty() {
            let run = LoadRun { clients, players: clients, attack: None };
            let row = if args.flood { flooded(args, run)? } else { measure(args, run)? };
            println!("{}", serde_json::to_string_pretty(&row)?);
            rows.push(row);
        } else {
            let (compared, judged) = under_attack(args, clients)?;
            rows.extend(compared);
            verdicts.extend(judged);
        }
    }
    if let Some(path) = &args.json {
        let seed = args.seed;
        let outcome =
            json!({ "experiment": "load", "seed": seed, "rows": rows, "verdicts": verdicts });
        std::fs::write(path, outcome.to_string())?;
    }
    match verdicts.iter().filter(|verdict| !verdict.holds).count() {
        0 => Ok(()),
        broken => Err(format!("{broken} of {} verdicts do not hold", verdicts.len()).into()),
    }
}

/// One run: the number of clients, the number that the world is made for, and the attack.
#[derive(Clone, Copy)]
struct LoadRun {
    clients: usize,
    players: usize,
    attack: Option<HostileKind>,
}

/// A server process, which ends when its standard input is closed.
struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: std::io::Lines<BufReader<std::process::ChildStdout>>,
    address: SocketAddr,
    /// The address of its pages, if any.
    web: Option<SocketAddr>,
}

impl Server {
    fn start(args: &Load, players: usize, folder: &Path) -> Result<Server, Box<dyn Error>> {
        let game = if args.game == Rules::Arena { "arena" } else { "crowd" };
        let config = folder.join("foveate.toml");
        let mut text = String::from(if args.bad_network { BAD_NETWORK } else { "" });
        if args.quic_datagrams {
            text.push_str("[server]\ndatagrams = \"quic\"\n");
        }
        if let Some(uplink) = args.uplink {
            text.push_str(&format!("[limits]\nuplink_bytes_per_second = {uplink}\n"));
        }
        std::fs::write(&config, text)?;
        // All compared runs serve pages, whether or not they are requested.
        let web = !args.hostile.is_empty();
        let mut child = Command::new(std::env::current_exe()?)
            .args(["serve", "--measured", "--no-metrics", "--pin", "0", "--listen", "127.0.0.1:0"])
            .args(["--game", game, "--players", &players.to_string()])
            .args(["--seed", &args.seed.to_string(), "--budget", &args.budget.to_string()])
            .arg("--config")
            .arg(config)
            .arg("--truth")
            .arg(folder.join("was"))
            .args(if web { &["--web", "127.0.0.1:0"][..] } else { &[] })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or("no output")?;
        let mut output = BufReader::new(output).lines();
        let first = output.next().ok_or("the server ended")??;
        let address = first.strip_prefix("listening on ").ok_or("the server printed no address")?;
        let mut server = Server { address: address.parse()?, web: None, child, input, output };
        while web && server.web.is_none() {
            let line = server.output.next().ok_or("the server ended")??;
            let pages = line.strip_prefix("pages on http://").and_then(|at| at.strip_suffix('/'));
            server.web = pages.map(str::parse).transpose()?;
        }
        Ok(server)
    }

    /// Marks the start or the end of measuring.
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

/// A thread that keeps one processor busy while it exists, so that other threads there get half of it.
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

/// The median over runs of one kind.
fn median(runs: &[Value], attack: Option<HostileKind>, key: &str) -> f64 {
    let name = json!(attack.map(HostileKind::name));
    let of = runs.iter().filter(|run| run["attack"] == name);
    let mut values: Vec<f64> = of.filter_map(|run| run[key].as_f64()).collect();
    usage::quantile(&mut values, 0.5)
}

/// Compares the median tick of calm runs with that of runs under a flood; both are medians over runs. Also returns how
/// the server answered the flood.
fn flooded(args: &Load, run: LoadRun) -> Result<Value, Box<dyn Error>> {
    let mut runs = Vec::new();
    let flood = Some(HostileKind::Flood);
    for turn in 0..2 * TURNS {
        runs.push(measure(args, LoadRun { attack: flood.filter(|_| turn % 2 == 1), ..run })?);
    }
    let pair = |key: &str| json!([median(&runs, None, key), median(&runs, flood, key)]);
    Ok(json!({
        "clients": run.clients,
        "turns": TURNS,
        "tick_ms_p50": pair("tick_ms_p50"),
        "tick_ms_p99": pair("tick_ms_p99"),
        "late_ms_p99": pair("late_ms_p99"),
        "cpu_us_per_client_tick": pair("cpu_us_per_client_tick"),
        "moved_ms": median(&runs, flood, "tick_ms_p50") - median(&runs, None, "tick_ms_p50"),
        "flood_packets_s": median(&runs, flood, "attack_s"),
        "connected": runs.iter().map(|run| run["bots"]["connected"].clone()).collect::<Vec<_>>(),
    }))
}

/// Alternates runs with hostile clients of each kind and runs with as many more honest ones. The verdict uses processor
/// time, since the machine may be busy with other programs.
fn under_attack(args: &Load, clients: usize) -> Result<(Vec<Value>, Vec<Verdict>), Box<dyn Error>> {
    let players = clients + HOSTILE;
    let mut runs = Vec::new();
    for turn in 1..=TURNS {
        runs.push(measure(args, LoadRun { clients: players, players, attack: None })?);
        for kind in &args.hostile {
            runs.push(measure(args, LoadRun { clients, players, attack: Some(*kind) })?);
        }
        eprintln!("turn {turn} of {TURNS} is done");
    }
    println!(
        "| kind | sent/s | cpu p99, honest | hostile | ratio | wall p99, honest | hostile | ratio | honest players |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let (mut rows, mut verdicts) = (Vec::new(), Vec::new());
    for kind in &args.hostile {
        let of = |attack, key| median(&runs, attack, key);
        let pair = |key| [of(None, key), of(Some(*kind), key)];
        let (cpu, wall) = (pair("round_cpu_ms_p99"), pair("tick_ms_p99"));
        let (name, sent) = (kind.name(), of(Some(*kind), "attack_s"));
        let connected = runs.iter().filter(|run| run["attack"] == json!(name));
        let connected = connected.filter_map(|run| run["bots"]["connected"].as_u64()).min();
        let connected = connected.unwrap_or(0);
        println!(
            "| {name} | {sent:.0} | {:.2} ms | {:.2} ms | {:.2} | {:.2} ms | {:.2} ms | {:.2} | {connected} |",
            cpu[0],
            cpu[1],
            cpu[1] / cpu[0],
            wall[0],
            wall[1],
            wall[1] / wall[0]
        );
        let ratio = format!("{name}: p99 of a round's processor time against honest clients");
        verdicts.push(Verdict::at_most(ratio, cpu[1] / cpu[0], SLOWER, "×"));
        let stay = format!("{name}: honest players that stay");
        verdicts.push(Verdict::at_least(stay, connected as f64, clients as f64, ""));
        rows.push(json!({
            "kind": name,
            "clients": clients,
            "hostile": HOSTILE,
            "turns": TURNS,
            "sent_s": sent,
            "round_cpu_ms_p99": cpu,
            "tick_ms_p99": wall,
            "connected": connected,
        }));
    }
    for verdict in verdicts.iter().filter(|verdict| !verdict.holds) {
        println!("{}: {}, aim {}: does not hold", verdict.name, verdict.figure(), verdict.aim);
    }
    Ok((rows, verdicts))
}

fn measure(args: &Load, run: LoadRun) -> Result<Value, Box<dyn Error>> {
    let LoadRun { clients, players, attack } = run;
    let folder = std::env::temp_dir().join(format!("foveate-load-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (was, believed) = (folder.join("was"), folder.join("believed"));
    let mut server = Server::start(args, players, &folder)?;
    let bots = BotsArgs {
        connect: vec![server.address.into()],
        trust: foveate_io::Trust::InsecureDevelopmentOnly,
        tick_hz: 20,
        count: clients,
        game: args.game,
        seconds: args.seconds,
        seed: args.seed,
        name: "bot".into(),
        secret: None,
        players,
        json: None,
        pin: Some(1),
    };
    let attacked = match attack {
        Some(kind) => {
            let game = Arc::new(Arena::new(Setup::for_players(players, args.seed))?);
            let target = AttackTarget { server: server.address, web: server.web, game };
            Some(Attack::begin(kind, target))
        }
        None => None,
    };
    let competitor = args.compete.then(|| Competitor::begin(0));
    let witness =
        if args.bad_network { Witness::Present(&believed) } else { Witness::Newest(&believed) };
    let seen = bots::play(&bots, Some(witness), || server.mark())?;
    let sent = attacked.map(Attack::end);
    drop(competitor);
    let served = server.end()?;
    let errors = truth::errors(&was, &believed)?;
    let is_crowd = args.game == Rules::Crowd;
    let missing =
        is_crowd.then(|| truth::missing(&was, &believed, f64::from(crowd::RADIUS))).transpose()?;
    std::fs::remove_dir_all(&folder)?;
    let mut offs: Vec<f64> = errors.iter().map(|error| error.off).collect();
    let mut degrees: Vec<f64> = errors.iter().map(truth::StateError::degrees).collect();
    let mut row = json!({
        "workload": if args.game == Rules::Arena { "arena" } else { "crowd" },
        "clients": clients,
        "attack": attack.map(HostileKind::name),
        "attack_s": sent,
        "bad_network": args.bad_network,
        "uplink": args.uplink,
        "competing": args.compete,
        "datagrams": if args.quic_datagrams { "quic" } else { "direct" },
        "err_p95": usage::quantile(&mut offs, 0.95),
        "missing": missing,
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

/// The 95th percentile of errors in world units: near, not yet far, far.
fn by_distance(errors: &[truth::StateError]) -> [f64; 3] {
    p95_of_parts(errors, |error| NEAR.iter().filter(|edge| error.away > **edge).count())
}

/// The 95th percentile of errors in each third of the time, which shows divergence.
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
    fn errors_are_reported_by_distance_and_by_time() {
        let error = |tick, off, away| truth::StateError { tick, off, away };
        let errors =
            [error(20, 1.0, 40.0), error(40, 2.0, 41.0), error(60, 3.0, 71.0), error(80, 9.0, 5.0)];
        assert_eq!(by_distance(&errors), [9.0, 2.0, 3.0]);
        assert_eq!(by_third(&errors), [2.0, 3.0, 9.0]);
        assert_eq!(by_third(&[]), [0.0; 3]);
        assert!((error(0, 1.0, 1.0).degrees() - 45.0).abs() < 1e-9);
    }
}
