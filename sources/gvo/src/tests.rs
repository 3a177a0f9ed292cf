//! Checks that the experiment's results hold for other seeds, too.

use super::rows::nearest_first;
use super::*;

const QUICK: RunOptions = RunOptions { seed: 1, quick: true };

fn engine(scenario: Scenario, topology: Topology, ours: Ours, seed: u64) -> (Script, RunResult) {
    let script = Script::new(scenario, seed, true);
    let ran = ours::play(&script, topology, ours, seed).expect("scripts fit their schema");
    (script, ran)
}

#[test]
fn the_same_seed_gives_the_same_rows_and_another_seed_others() {
    let rows = |seed| lab(RunOptions { seed, ..QUICK }).expect("it runs").outcome.to_json();
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
                let (script, by_orders) = engine(scenario, topology, orders, seed);
                let (_, by_positions) = engine(scenario, topology, Ours::default(), seed);
                assert_eq!(by_orders.error.last, 0.0, "{topology:?} {scenario:?} {seed}");
                let last = by_positions.error.last;
                assert!(
                    last <= f64::from(gvo::THRESHOLD),
                    "{topology:?} {scenario:?} {seed}: {last}"
                );
                let given = script.orders.as_ref().map_or(0, |orders| orders.given.len());
                assert_eq!(by_orders.order_delays.len(), given, "every order is acted on");
                let latency = usize::from(topology == Topology::Server);
                let delays = &by_orders.order_delays;
                assert!(delays.iter().all(|frames| *frames == latency), "{delays:?}");
            }
        }
    }
}

#[test]
fn positions_are_sent_only_during_a_collision() {
    for (topology, seed) in Topology::ALL.into_iter().flat_map(|t| (1..8).map(move |s| (t, s))) {
        let orders = Ours { actions: true, ..Ours::default() };
        let (script, ran) = engine(Scenario::Collision, topology, orders, seed);
        let run = script.orders.as_ref().expect("units have orders");
        let run = field::Rollout::play(run, script.frames as u32);
        for unit in run.units() {
            let collides = unit.iter().any(|moment| moment.course.colliding);
            assert!(collides, "seed {seed}: they meet whatever the obstacles");
        }
        let state = |ran: &RunResult| ran.meter.sent_of(&[meter::Stream::State]);
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
        let plain = gvo::play(&script, topology, Optimisations::default(), 1).meter;
        let orders = Ours { actions: true, ..Ours::default() };
        let (_, ran) = engine(Scenario::Targets, topology, orders, 1);
        let (ours, theirs) =
            (ran.meter.sent_of(&meter::Stream::ALL), plain.sent_of(&[meter::Stream::State]));
        assert!(ours * 100 < theirs * 3, "{topology:?}: {ours} of {theirs}");
    }
}

#[test]
fn with_dead_reckoning_or_zoning_the_servers_download_stays_and_its_upload_falls() {
    let thinned = Optimisations { dead_reckoning: true, ..Optimisations::default() };
    let zoned = Optimisations { zoning: true, ..Optimisations::default() };
    for (scenario, optimisations) in [(Scenario::Straight, thinned), (Scenario::Zones, zoned)] {
        let script = Script::new(scenario, 1, true);
        let server = |optimisations| {
            gvo::play(&script, Topology::Server, optimisations, 1).meter.nodes[0].clone()
        };
        let (off, on) = (server(Optimisations::default()), server(optimisations));
        assert_eq!(off.down.bytes(), on.down.bytes());
        assert!(off.up.bytes() > 2 * on.up.bytes());
    }
}

#[test]
fn what_is_sent_is_received() {
    let whole = |case: &&Case| case.scenario != Scenario::Newcomer && case.variant != LOSSY;
    for case in cases().iter().filter(whole) {
        let run = play(case, QUICK).expect("it runs");
        let up: u64 = run.meter.nodes.iter().map(|flow| flow.up.bytes()).sum();
        let down: u64 = run.meter.nodes.iter().map(|flow| flow.down.bytes()).sum();
        // Packets in flight at the end of the run were sent, but have not arrived.
        assert!(down <= up && up - down < 500, "{:?} {}", run.scenario, run.variant);
    }
}

#[test]
fn peers_that_know_nothing_of_each_other_meet_across_zones() {
    let ours = Ours { exact: Exact::Zoned, ..Ours::default() };
    let (_, ran) = engine(Scenario::Zones, Topology::Peers, ours, 1);
    let told = |node: usize| ran.appeared.iter().filter(|(_, to, _)| *to == node).count();
    assert!(told(0) >= 3 && told(1) >= 3, "each hears of the other's three objects");
}

/// The script with everything after a frame replaced: nothing moves, and there are no orders.
fn without_what_comes(mut script: Script, after: usize) -> Script {
    for thing in &mut script.things {
        let last = thing.poses[after.min(thing.poses.len() - 1)];
        thing.poses.iter_mut().skip(after).for_each(|pose| *pose = last);
    }
    if let Some(orders) = &mut script.orders {
        orders.given.retain(|(when, ..)| (*when as usize) < after);
    }
    script
}

#[test]
fn nothing_that_is_sent_depends_on_later_frames() {
    // In the scripts with orders, the second order is given in frame 400, which begins a tick of the meter; everything
    // else moves all the time.
    for case in cases() {
        let whole = Script::new(case.scenario, 1, true);
        let after = if whole.orders.is_some() { 400 } else { whole.frames / 10 * 5 };
        assert_eq!(after as u64 * script::FRAME.0 % meter::TICK.0, 0, "a tick begins");
        let cut = without_what_comes(Script::new(case.scenario, 1, true), after);
        let sent = |script: &Script| match case.protocol {
            Protocol::Source(optimisations) => {
                gvo::play(script, case.topology, optimisations, 1).meter
            }
            Protocol::Ours(ours) => {
                ours::play(script, case.topology, ours, 1).expect("it plays").meter
            }
        };
        let (whole, cut) = (sent(&whole), sent(&cut));
        let ticks = after * script::FRAME.0 as usize / meter::TICK.0 as usize;
        for (node, (whole, cut)) in whole.nodes.iter().zip(&cut.nodes).enumerate() {
            let until = |side: &meter::Side| -> Vec<meter::Split> {
                let mut all = side.ticks.clone();
                all.resize(all.len().max(ticks), meter::Split::default());
                all.truncate(ticks);
                all
            };
            let of = format!("{:?}, {:?}, {}", case.scenario, case.topology, case.variant);
            assert!(until(&whole.up) == until(&cut.up), "{of}: node {node}");
        }
    }
}

#[test]
fn three_objects_of_two_players_start_one_after_another_and_the_fourth_player_has_none() {
    for seed in 1..10 {
        let script = Script::new(Scenario::Moving3, seed, true);
        assert_eq!(script.players.len(), 4);
        let owners: Vec<_> = script.things.iter().map(|thing| thing.owner).collect();
        assert_eq!(owners, [Some(0), Some(1), Some(0), Some(2)]);
        for (thing, seconds) in [(1, 2.0), (2, 4.0)] {
            let held = script::frames(seconds);
            assert!((1..held).all(|frame| !script.moved(thing, frame)), "seed {seed}: {thing}");
        }
        let moves = |thing| (0..script.frames).any(|frame| script.moved(thing, frame));
        assert!((0..3).all(moves) && !moves(3), "seed {seed}");
    }
}

#[test]
fn full_positions_of_increments_are_reliable_and_increments_are_not() {
    let script = Script::new(Scenario::Straight, 1, true);
    let run = |increments, loss| {
        let optimisations = Optimisations { increments, loss, ..Optimisations::default() };
        gvo::play(&script, Topology::Peers, optimisations, 1).meter.nodes[0].clone()
    };
    let (plain, calm, lossy) = (run(None, 0), run(Some(4), 0), run(Some(4), 5));
    // Without the join, which costs the same in all.
    let position = messages::POSITION as u64;
    let joining = plain.up.reliable;
    let full = (calm.up.reliable - joining) / position;
    assert!(full > 1 && (calm.up.reliable - joining).is_multiple_of(position));
    let increments = (calm.up.bytes() - calm.up.reliable) / 27;
    let moved = (0..script.frames).filter(|frame| script.moved(0, *frame)).count() as u64;
    assert_eq!(full + increments, moved, "every frame is told, by one or the other");
    assert!(calm.down.packets > plain.down.packets, "TCP acknowledges");
    assert!(calm.up.resent == 0 && lossy.up.resent >= position, "{}", lossy.up.resent);
    assert_eq!(lossy.up.reliable - lossy.up.resent, calm.up.reliable, "each arrives once");
}

#[test]
fn a_newcomer_among_peers_learns_of_all_objects_or_of_those_near_its_spawn_point() {
    for (variant, near) in
        [(PLAIN, false), (NEAR_SOURCE, true), (FOVEATE, false), (NEAR_OURS, true)]
    {
        for seed in 1..6 {
            let options = RunOptions { seed, quick: true };
            let case = cases().into_iter().find(|case| {
                (case.scenario, case.topology) == (Scenario::Join16, Topology::Peers)
                    && case.variant == variant
            });
            let run = play(&case.expect("it is played"), options).expect("it runs");
            let script = Script::new(Scenario::Join16, seed, true);
            let start = script.players[15].start;
            let told: std::collections::BTreeSet<usize> =
                run.learned.iter().filter(|(_, to, _)| *to == 15).map(|l| l.2).collect();
            for other in 0..15 {
                let expected = !near || script.near(15, other, start);
                assert_eq!(told.contains(&other), expected, "{variant}, seed {seed}: {other}");
            }
        }
    }
}

#[test]
fn a_newcomer_takes_two_round_trips_to_know_all_peers_but_the_entry() {
    let case = |variant| {
        let is = |case: &Case| {
            (case.scenario, case.topology, case.variant)
                == (Scenario::Join4, Topology::Peers, variant)
        };
        let case = cases().into_iter().find(is).expect("it is played");
        let run = play(&case, QUICK).expect("it runs");
        let start = script::FRAME * Script::new(Scenario::Join4, 1, true).players[3].start as u32;
        let mine = run.learned.iter().filter(|(_, to, _)| *to == 3);
        let times: std::collections::BTreeSet<u64> = mine.map(|l| l.0.0 - start.0).collect();
        times.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(case(PLAIN), [40_000, 80_000], "the entry's objects, then the others'");
    assert_eq!(case(FOVEATE), [40_000, 80_000]);
}

#[test]
fn peers_that_join_in_the_same_frame_connect_to_each_other_once() {
    for seed in 1..4 {
        let script = Script::new(Scenario::Moving3, seed, true);
        let thinned = Optimisations { dead_reckoning: true, ..Optimisations::default() };
        let theirs = gvo::play(&script, Topology::Peers, thinned, seed).meter;
        let (_, ours) = engine(Scenario::Moving3, Topology::Peers, Ours::default(), seed);
        // A second connection of a pair is never acknowledged, so that everything would be sent again.
        let (ours, theirs) =
            (ours.meter.sent_of(&meter::Stream::ALL), theirs.sent_of(&meter::Stream::ALL));
        assert!(ours < theirs, "seed {seed}: {ours} of {theirs}");
    }
}
