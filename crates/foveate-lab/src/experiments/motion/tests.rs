//! What the experiment shows must hold for other seeds, too.

use super::rows::nearest_first;
use super::*;

const QUICK: Options = Options { seed: 1, quick: true };

fn engine(scenario: Scenario, topology: Topology, ours: Ours, seed: u64) -> (Script, Ran) {
    let script = Script::new(scenario, seed, true);
    let ran = ours::play(&script, topology, ours, seed).expect("scripts fit their schema");
    (script, ran)
}

#[test]
fn the_same_seed_gives_the_same_rows_and_another_seed_others() {
    let rows = |seed| lab(Options { seed, ..QUICK }).expect("it runs").outcome.to_json();
    let first = rows(1);
    assert!(first == rows(1), "the same seed must give the same bytes");
    assert!(first != rows(2));
}

#[test]
fn full_state_arrives_nearest_first_and_keeps_to_its_budget() {
    for seed in 1..20 {
        let ours = Ours { budget: Some(JOIN_BUDGET), ..Ours::default() };
        let (script, ran) = engine(Scenario::JoinWorld, Topology::Server, ours, seed);
        let mine: Vec<(usize, usize)> =
            ran.appeared.iter().filter(|a| a.1 == 1).map(|a| (a.0, a.2)).collect();
        assert_eq!(mine.len(), script.things.len() - 1, "everything but one's own");
        assert_eq!(nearest_first(&script, 0, &mine), Some(1.0), "seed {seed}");
        let down = &ran.meter.nodes[1].down;
        assert!(down.peak() <= u64::from(JOIN_BUDGET.0), "seed {seed}: {}", down.peak());
        let full = |tick: &meter::Split| tick[meter::Stream::FullState as usize];
        let sent = ran.meter.nodes[0].up.ticks.iter().map(full).max().unwrap_or(0);
        assert!(sent <= u64::from(JOIN_BUDGET.0), "seed {seed}: {sent} as it leaves");
        let frames: std::collections::BTreeSet<usize> = mine.iter().map(|m| m.0).collect();
        assert!(frames.len() > 10, "in chunks, not in a burst: {}", frames.len());
    }
}

#[test]
fn without_a_budget_the_same_join_is_a_burst() {
    let (_, ran) = engine(Scenario::JoinWorld, Topology::Server, Ours::default(), 1);
    assert!(ran.meter.nodes[1].down.peak() > 2 * u64::from(JOIN_BUDGET.0));
}

#[test]
fn orders_and_positions_end_at_the_same_place() {
    for topology in Topology::ALL {
        for scenario in [Scenario::Targets, Scenario::Collision] {
            for seed in 1..6 {
                let orders = Ours { actions: true, ..Ours::default() };
                let (_, by_orders) = engine(scenario, topology, orders, seed);
                let (_, by_positions) = engine(scenario, topology, Ours::default(), seed);
                assert_eq!(by_orders.error.last, 0.0, "{topology:?} {scenario:?} {seed}");
                let last = by_positions.error.last;
                assert!(
                    last <= f64::from(gvo::THRESHOLD),
                    "{topology:?} {scenario:?} {seed}: {last}"
                );
                assert_eq!(by_orders.unheard, 0, "the server acts on what it heard");
            }
        }
    }
}

#[test]
fn a_collision_brings_positions_until_it_is_resolved_and_then_none() {
    for (topology, seed) in Topology::ALL.into_iter().flat_map(|t| (1..8).map(move |s| (t, s))) {
        let orders = Ours { actions: true, ..Ours::default() };
        let (script, ran) = engine(Scenario::Collision, topology, orders, seed);
        let run = script.orders.as_ref().expect("units have orders");
        for unit in &run.units {
            let collides = unit.iter().any(|moment| moment.course.colliding);
            assert!(collides, "seed {seed}: they meet whatever the obstacles");
        }
        let state = |ran: &Ran| ran.meter.sent_of(&[meter::Stream::State]);
        assert!(state(&ran) > 0, "positions while they collide");
        assert_eq!(ran.idle_positions, 0, "none before and none after");
        let (_, calm) = engine(Scenario::Targets, topology, orders, seed);
        assert_eq!(state(&calm), 0, "no collision, no positions");
    }
}

#[test]
fn orders_take_less_than_three_percent_of_positions_in_every_frame() {
    for topology in Topology::ALL {
        let script = Script::new(Scenario::Targets, 1, true);
        let plain = gvo::play(&script, topology, Tricks::default());
        let orders = Ours { actions: true, ..Ours::default() };
        let (_, ran) = engine(Scenario::Targets, topology, orders, 1);
        let (ours, theirs) =
            (ran.meter.sent_of(&meter::Stream::ALL), plain.sent_of(&[meter::Stream::State]));
        assert!(ours * 100 < theirs * 3, "{topology:?}: {ours} of {theirs}");
    }
}

#[test]
fn with_dead_reckoning_or_zoning_the_servers_download_stays_and_its_upload_falls() {
    let thinned = Tricks { dead_reckoning: true, ..Tricks::default() };
    let zoned = Tricks { zoning: true, ..Tricks::default() };
    for (scenario, tricks) in [(Scenario::Straight, thinned), (Scenario::Zones, zoned)] {
        let script = Script::new(scenario, 1, true);
        let server = |tricks| gvo::play(&script, Topology::Server, tricks).nodes[0].clone();
        let (off, on) = (server(Tricks::default()), server(tricks));
        assert_eq!(off.down.bytes(), on.down.bytes());
        assert!(off.up.bytes() > 2 * on.up.bytes());
    }
}

#[test]
fn what_is_sent_is_received() {
    for case in cases().iter().filter(|case| case.scenario != Scenario::Newcomer) {
        let run = play(case, QUICK).expect("it runs");
        let up: u64 = run.meter.nodes.iter().map(|flow| flow.up.bytes()).sum();
        let down: u64 = run.meter.nodes.iter().map(|flow| flow.down.bytes()).sum();
        // What is under way when the run ends was sent, but has not arrived.
        assert!(down <= up && up - down < 500, "{:?} {}", run.scenario, run.variant);
    }
}

#[test]
fn peers_who_know_nothing_of_each_other_meet_across_zones() {
    let ours = Ours { exact: Exact::Zoned, ..Ours::default() };
    let (_, ran) = engine(Scenario::Zones, Topology::Peers, ours, 1);
    let told = |node: usize| ran.appeared.iter().filter(|(_, to, _)| *to == node).count();
    assert!(told(0) >= 3 && told(1) >= 3, "each hears of the other's three objects");
}
