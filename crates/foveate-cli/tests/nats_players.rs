//! Players on region servers as processes with a real NATS server, while a server is killed, another stops for ten
//! seconds, and the broker is killed; with three brokers, while their leader is killed.

#[path = "region_support/bots.rs"]
mod bots;
#[path = "../../foveate-io/tests/nats/broker.rs"]
mod broker;
#[path = "region_support/cluster.rs"]
mod cluster;
mod region_support;
#[path = "region_support/servers.rs"]
mod servers;

use bots::{Bots, kept, players};
use broker::Broker;
use cluster::Cluster;
use region_support::{Process, eventually, scratch};
use servers::{SERVERS, arguments, begin, begin_with, key, owner, protected, settled};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A player may hear nothing for so long, whatever fails.
const OUT_MS: f64 = 2_000.0;
/// The bots cross borders for so long before anything fails, in seconds; `FOVEATE_SECONDS` says otherwise.
const CALM: u32 = 10;
/// All failures take place within so many more.
const FAILURES: u32 = 65;

/// Three brokers choose another leader, and what waited is done, within so many.
const ELECTION: u32 = 25;

/// For how long bots cross borders before anything fails.
fn calm() -> u32 {
    let asked = std::env::var("FOVEATE_SECONDS").ok().and_then(|it| it.parse().ok());
    asked.unwrap_or(CALM)
}

/// Where the servers listen for players.
fn addresses(processes: &mut [Process]) -> String {
    let address = |it: &mut Process| it.wait_for(" listening on ");
    processes.iter_mut().map(address).collect::<Vec<_>>().join(",")
}

/// Waits until the bots have played to the end: none was out for long, and nothing is lost or doubled.
fn judge(processes: &[Process], bots: Bots, before: &BTreeMap<String, usize>) {
    let count = bots.count;
    let figures = bots.figures();
    println!("{figures}");
    assert_eq!(figures["connected"], count, "{figures}");
    assert_eq!(figures["rejoins"], 0, "no session was lost: {figures}");
    assert!(figures["silent_ms_max"].as_f64() < Some(OUT_MS), "{figures}");
    assert_eq!(figures["malformed"], 0, "{figures}");
    eventually(|| {
        let after = kept(&processes.iter().collect::<Vec<_>>());
        if after == *before { Ok(()) } else { Err(format!("{before:?} {after:?}")) }
    });
}

/// Each player once.
fn all_in(processes: &[Process], bots: &Bots) {
    let all: Vec<&Process> = processes.iter().collect();
    eventually(|| {
        let sessions = players(&all);
        match sessions == bots.count {
            true => Ok(()),
            false => Err(format!("{sessions} of {} sessions: {}", bots.count, bots.process.text())),
        }
    });
}

#[test]
fn players_stay_while_a_server_is_killed_another_stops_and_the_broker_is_killed() {
    let Some(mut broker) = Broker::start("players") else { return };
    let folder = scratch("region-players");
    let (url, key) = (broker.url(), key(&folder, "world.key"));
    let (mut processes, _) = begin(&url, &key);
    let before = kept(&processes.iter().collect::<Vec<_>>());
    let calm = calm();
    let bots = Bots::start(&addresses(&mut processes), calm + FAILURES);
    all_in(&processes, &bots);
    std::thread::sleep(Duration::from_secs(calm.into()));

    let mut dead = processes.remove(owner(&processes));
    dead.signal("-KILL");
    dead.ended();
    settled(&processes, SERVERS, None);
    all_in(&processes, &bots);
    protected(&processes, SERVERS);

    let paused = processes.remove(owner(&processes));
    let begun = Instant::now();
    paused.signal("-STOP");
    settled(&processes, SERVERS, None);
    std::thread::sleep(Duration::from_secs(10).saturating_sub(begun.elapsed()));
    paused.signal("-CONT");
    processes.push(paused);
    all_in(&processes, &bots);
    protected(&processes, SERVERS);

    broker.kill();
    std::thread::sleep(Duration::from_secs(4));
    broker.restart();
    all_in(&processes, &bots);

    judge(&processes, bots, &before);
    drop(processes);
    std::fs::remove_dir_all(folder).expect("it is ours");
}

#[test]
fn players_stay_while_the_leader_of_three_brokers_is_killed() {
    let Some(mut cluster) = Cluster::start("players") else { return };
    let folder = scratch("region-leader");
    let (url, key) = (cluster.url(), key(&folder, "world.key"));
    let config = folder.join("region.toml");
    std::fs::write(&config, "[metrics]\nenabled = false\n\n[region]\nreplicas = 3\n")
        .expect("a new file");
    let config = config.to_str().expect("plain letters");
    let arguments = [&arguments(&url, &key)[..], &["--config", config]].concat();
    let (mut processes, _) = begin_with(&arguments);
    let before = kept(&processes.iter().collect::<Vec<_>>());
    let calm = calm();
    let bots = Bots::start(&addresses(&mut processes), calm + ELECTION);
    all_in(&processes, &bots);
    std::thread::sleep(Duration::from_secs(calm.into()));
    cluster.kill_leader();
    judge(&processes, bots, &before);
    drop(processes);
    std::fs::remove_dir_all(folder).expect("it is ours");
}
