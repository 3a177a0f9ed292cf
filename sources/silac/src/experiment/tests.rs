//! Short games of peers: what must hold in any of them.

use super::*;
use foveate_lab::movement::{Waypoint, WaypointSpec};

fn walkers(seed: u64, count: usize) -> Box<dyn Movement> {
    let spec = WaypointSpec {
        count,
        side: 100.0,
        speed: [6.0, 10.0],
        pause: [0.0, 2.0],
        leg: f32::INFINITY,
        rate: 20.0,
    };
    Box::new(Waypoint::new(spec, seed))
}

fn game(fan_out: usize, seed: u64) -> SilacGame {
    let settings = SilacSettings { fan_out, ..SilacSettings::default() };
    let measured = Micros(3_000_000);
    SilacGame { nodes: 20, settings, measured, newcomers: vec![1, 4], seed }
}

fn play(fan_out: usize, seed: u64) -> (SilacFindings, u64) {
    Swarm::new(game(fan_out, seed), walkers(seed, 22)).play()
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    assert_eq!(play(3, 1).1, play(3, 1).1);
    assert_ne!(play(3, 1).1, play(3, 2).1);
}

#[test]
fn all_nodes_become_known_and_a_higher_fan_out_loses_less() {
    let (few, many) = (play(2, 1).0, play(5, 1).0);
    for arrived in few.arrived.iter().chain(&many.arrived) {
        assert!(arrived.all_s().is_some_and(|seconds| seconds < 5.5), "{arrived:?}");
    }
    let lost = |found: &SilacFindings| found.between(0.0, 1.5).lost_share();
    assert!(lost(&many) <= lost(&few) && lost(&many) < 0.01, "{} {}", lost(&few), lost(&many));
    assert!(many.deeds > 10 && many.inc.share() < few.inc.share());
    assert!(findings::mean(&many.bytes) > 2.0 * findings::mean(&few.bytes));
    assert_eq!(many.first_hops[3] + many.all_hops[3], 0, "three senders");
}

#[test]
fn no_state_arrives_sooner_than_the_link_latency() {
    let arrival = play(5, 1).0.between(0.0, 1.5).arrival;
    let least = arrival.quantile(0.0);
    assert!(least >= 0.95 * swarm::LATENCY.as_millis(), "{least} ms");
}

#[test]
fn the_quick_experiment_runs_and_gives_all_rows() {
    let done = lab(&walkers, RunOptions { seed: 1, quick: true }).unwrap();
    let rows: Vec<_> = done.outcome.rows.iter().filter(|row| row.get("gossip").is_some()).collect();
    assert!(rows.len() >= QUICK_SIZES.len() + QUICK_FAN_OUTS.len());
    let keys = [
        "gossip",
        "nodes",
        "fanout",
        "bytes_s",
        "inc",
        "inc_share",
        "inc_noticeable_share",
        "inj",
        "lost_near",
        "delay_near_ms",
        "delay_far_ms",
        "join_all_s",
    ];
    for row in rows {
        assert!(keys.iter().all(|key| row.get(key).is_some_and(|value| !value.is_null())), "{row}");
        assert_eq!(row["gossip"], "silac");
        let share = |key: &str| row[key].as_f64().unwrap_or_default();
        let noticed = share("inc_noticeable_share");
        assert!(noticed > 0.0 && noticed < share("inc_share"), "what is noticed is wrong: {row}");
    }
    assert!(done.tables.len() >= 5);
}
