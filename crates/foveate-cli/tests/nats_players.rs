//! Players on region servers as processes with a real NATS server, while a server is killed, another stops for ten
//! seconds, and the broker is killed.

#[path = "region_support/bots.rs"]
mod bots;
#[path = "../../foveate-io/tests/nats/broker.rs"]
mod broker;
mod region_support;
#[path = "region_support/servers.rs"]
mod servers;

use bots::{BOTS, Bots, players, world};
use broker::Broker;
use region_support::{Process, eventually, scratch};
use servers::{SERVERS, begin, key, owner, protected, settled};
use std::time::{Duration, Instant};

/// A player may hear nothing for so long, whatever fails.
const OUT_MS: f64 = 2_000.0;
/// All failures take place within this, of which the bots play.
const SECONDS: u32 = 75;

/// Each player once: a session at one server, and an avatar.
fn all_in(processes: &[Process], bots: &Bots) {
    let all: Vec<&Process> = processes.iter().collect();
    eventually(|| {
        let (sessions, world) = (players(&all), world(&all));
        let avatars = world.get("avatar").copied().unwrap_or(0);
        match (sessions, avatars) {
            (BOTS, BOTS) => Ok(()),
            _ => Err(format!("{sessions} sessions, {avatars} avatars: {}", bots.process.text())),
        }
    });
}

/// What does not come and go with players.
fn kept(processes: &[Process]) -> Vec<(String, usize)> {
    let all: Vec<&Process> = processes.iter().collect();
    world(&all).into_iter().filter(|(kind, _)| kind != "avatar" && kind != "unit").collect()
}

#[test]
fn players_stay_while_a_server_is_killed_another_stops_and_the_broker_is_killed() {
    let Some(mut broker) = Broker::start("players") else { return };
    let folder = scratch("region-players");
    let (url, key) = (broker.url(), key(&folder, "world.key"));
    let (mut processes, _) = begin(&url, &key);
    let addresses = |it: &mut Process| it.wait_for(" listening on ");
    let servers: Vec<String> = processes.iter_mut().map(addresses).collect();
    let before = kept(&processes);
    let bots = Bots::start(&servers.join(","), SECONDS);
    all_in(&processes, &bots);
    std::thread::sleep(Duration::from_secs(10));

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

    let figures = bots.figures();
    println!("{figures}");
    assert_eq!(figures["connected"], BOTS, "{figures}");
    assert_eq!(figures["rejoins"], 0, "no session was lost: {figures}");
    assert!(figures["silent_ms_max"].as_f64() < Some(OUT_MS), "{figures}");
    eventually(|| {
        let after = kept(&processes);
        if after == before { Ok(()) } else { Err(format!("{before:?} {after:?}")) }
    });
    drop(processes);
    std::fs::remove_dir_all(folder).expect("it is ours");
}
