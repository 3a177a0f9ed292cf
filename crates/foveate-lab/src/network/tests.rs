//! The simulator: which faults it injects, and that a seed replays them.

use super::sessions::SessionNetwork;
use super::{NetworkSpec, Participant, Placement};
use crate::net::{Latency, Loss};
use crate::peers::{Meadow, MeadowSpec, SHIP, Ship, Steer};
use foveate_node::client::ClientPhase;
use foveate_node::node::ClientCommand;
use foveate_node::server::{ServerEvent, ServerSettings};
use foveate_node::session::ResumeKey;
use foveate_node::{Client, Server};
use foveate_wire::{Micros, ObjectId};
use std::sync::Arc;

const SECOND: Micros = Micros(1_000_000);

fn meadow() -> Arc<Meadow> {
    let spec = MeadowSpec {
        side: 200.0,
        bases: 8,
        view: 100.0,
        interaction: 20.0,
        speeds: [40.0, 4.0],
        rate: 20.0,
        seed: 1,
    };
    Arc::new(Meadow::new(spec).unwrap())
}

fn bad_network(seed: u64) -> NetworkSpec {
    NetworkSpec {
        latency: Latency::Uniform(Micros::from_millis(20), Micros::from_millis(80)),
        jitter: 50,
        loss: Loss::Bursty { share: 0.1, burst: 3.0 },
        reorder: 0.1,
        duplicate: 0.1,
        relayed: 0.2,
        queue: 1 << 20,
        idle_timeout: None,
        seed,
    }
}

fn game_of(players: usize, spec: NetworkSpec) -> SessionNetwork<Meadow> {
    let mut game = SessionNetwork::new(meadow(), ServerSettings::default(), spec);
    game.server().unwrap().simulation.populate().unwrap();
    for player in 0..players {
        game.join(&format!("player {player}"), &[]);
    }
    game
}

/// Flies each ship on its own circle.
fn fly(now: Micros, at: usize, client: &mut Client<Meadow>) {
    let turn = now.as_secs() + at as f64;
    let at = [turn.cos(), turn.sin()].map(|part| (part * 160.0) as i32 + 800);
    client.set_input(Steer { at, yaw: 0, deed: 0 });
}

fn where_is(server: &Server<Meadow>, player: u32) -> [f32; 2] {
    server.simulation.world().get::<Ship>(ObjectId::new(SHIP, player, 0)).unwrap().pos
}

#[test]
fn the_same_seed_replays_a_run_to_the_byte_and_another_does_not() {
    let run = |seed| {
        let mut game = game_of(6, bad_network(seed));
        game.run(SECOND * 10, |now, at, client, _| fly(now, at, client));
        game.network.digest()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn clients_agree_with_the_server_after_bursts_reordering_and_duplicates() {
    for seed in 1..=5 {
        let mut game = game_of(6, bad_network(seed));
        game.run(SECOND * 10, |now, at, client, _| fly(now, at, client));
        let still = Steer { at: [800, 900], yaw: 60, deed: 3 };
        game.network.set_spec(NetworkSpec { loss: Loss::None, ..bad_network(seed) });
        game.run(SECOND * 5, |_, _, client, _| client.set_input(still));
        for at in 1..=6 {
            let player = match game.client(at).unwrap().phase() {
                ClientPhase::Playing(joined) => joined.player.0,
                phase => panic!("seed {seed}: {phase:?}"),
            };
            let truth = where_is(game.server().unwrap(), player);
            assert_eq!(truth, [50.0, 56.25], "seed {seed}");
            let replicas = &game.client(at).unwrap().replicas;
            for other in 1..=6 {
                let seen = replicas.get(ObjectId::new(SHIP, other, 0)).expect("all are near");
                assert_eq!(
                    seen.value::<Ship>().unwrap().pos,
                    truth,
                    "seed {seed}: {other} at {at}"
                );
            }
        }
    }
}

#[test]
fn a_clock_that_runs_fast_gives_more_rounds_and_a_slow_one_fewer() {
    let spec = NetworkSpec::delayed(Micros::from_millis(10), 1);
    let rounds = |drift: i32| {
        let mut game = game_of(0, spec);
        let keys = Box::new(|| ResumeKey([7; 16]));
        let server = Server::new(meadow(), ServerSettings::default(), keys);
        game.place_server(server, Placement { drift, ..Placement::PLAIN });
        // Slightly longer, since wake-ups are rounded up to a microsecond.
        game.run(SECOND * 100 + Micros(1_000), |_, _, _, _| {});
        game.server().unwrap().simulation.publisher.store.tick().0
    };
    assert_eq!([rounds(0), rounds(50_000), rounds(-50_000)], [2_000, 2_100, 1_900]);
}

#[test]
fn a_paused_server_drops_rounds_and_its_players_go_on() {
    let mut game = game_of(3, NetworkSpec::delayed(Micros::from_millis(10), 1));
    let mut steer = |now, at, client: &mut Client<Meadow>, _: &mut _| fly(now, at, client);
    game.run(SECOND * 2, &mut steer);
    let before = game.server().unwrap().simulation.publisher.store.tick().0;
    game.network.pause(0, true);
    game.run(SECOND * 3, &mut steer);
    assert_eq!(game.server().unwrap().simulation.publisher.store.tick().0, before);
    game.network.pause(0, false);
    game.run(SECOND * 2, &mut steer);
    let played = game.server().unwrap().simulation.publisher.store.tick().0 - before;
    assert!((39..=42).contains(&played), "{played} rounds in two seconds");
    let left = game.server_events.iter().any(|event| matches!(event, ServerEvent::Left(..)));
    assert!(!left, "three seconds are no reason to leave");
}

#[test]
fn a_cut_link_is_resumed_and_one_that_stays_cut_ends_the_session() {
    let mut game = game_of(2, NetworkSpec::delayed(Micros::from_millis(10), 1));
    game.run(SECOND, |_, _, _, _| {});
    game.cut(1);
    game.cut(2);
    game.run(SECOND, |_, _, _, _| {});
    game.connect(1);
    game.run(SECOND * 15, |_, _, _, _| {});
    assert!(matches!(game.client(1).unwrap().phase(), ClientPhase::Playing(_)));
    assert!(matches!(game.client(2).unwrap().phase(), ClientPhase::Joining));
    assert_eq!(game.server().unwrap().players(), 1);
}

#[test]
fn late_answers_still_admit_players() {
    let mut game = SessionNetwork::new(
        meadow(),
        ServerSettings::default(),
        NetworkSpec::delayed(Micros::from_millis(10), 1),
    );
    game.lodge.answers_after = SECOND * 2;
    let (ada, eve) = (game.join("ada", &[]), game.join("eve", b"forged"));
    game.run(SECOND, |_, _, _, _| {});
    assert!(matches!(game.client(ada).unwrap().phase(), ClientPhase::Joining));
    game.run(SECOND * 2, |_, _, _, _| {});
    assert!(matches!(game.client(ada).unwrap().phase(), ClientPhase::Playing(_)));
    assert!(matches!(game.client(eve).unwrap().phase(), ClientPhase::Refused(..)));
    game.tell(ada, ClientCommand::Leave);
    game.run(SECOND, |_, _, _, _| {});
    assert_eq!(game.server().unwrap().players(), 0);
    assert!(
        game.network
            .present()
            .all(|(at, it)| { matches!(it.node, Participant::Server(_)) == (at == 0) })
    );
}

#[test]
fn answers_overtake_each_other_or_are_missing_and_no_other_player_is_affected() {
    let spec = NetworkSpec::delayed(Micros::from_millis(10), 1);
    let mut game = SessionNetwork::new(meadow(), ServerSettings::default(), spec);
    game.lodge.answers_spread = SECOND * 5;
    let places: Vec<usize> = (0..12).map(|at| game.join(&format!("player {at}"), &[])).collect();
    game.run(SECOND * 6, |_, _, _, _| {});
    let joined = |event: &ServerEvent| match event {
        ServerEvent::Joined(player, _) => Some(player.0),
        _ => None,
    };
    let order: Vec<u32> = game.server_events.iter().filter_map(joined).collect();
    assert_eq!(order.len(), 12);
    assert!(!order.is_sorted(), "asked in order, answered out of order: {order:?}");
    game.lodge.unanswered = 1.0;
    let late = game.join("late", &[]);
    game.run(SECOND * 6, |_, _, _, _| {});
    assert!(matches!(game.client(late).unwrap().phase(), ClientPhase::Joining));
    for at in places {
        assert!(matches!(game.client(at).unwrap().phase(), ClientPhase::Playing(_)));
    }
}

#[test]
fn clients_come_back_to_a_server_that_was_restarted() {
    let spec = NetworkSpec {
        idle_timeout: Some(SECOND * 3),
        ..NetworkSpec::delayed(Micros::from_millis(10), 1)
    };
    let mut game = game_of(4, spec);
    game.redial_after = Some(SECOND);
    game.run(SECOND * 2, |_, _, _, _| {});
    drop(game.network.crash(0));
    game.run(SECOND * 6, |_, _, _, _| {});
    for at in 1..=4 {
        assert!(matches!(game.client(at).unwrap().phase(), ClientPhase::Joining), "it noticed");
    }
    let mut server =
        Server::new(meadow(), ServerSettings::default(), Box::new(|| ResumeKey([9; 16])));
    server.simulation.populate().unwrap();
    game.place_server(server, Placement::PLAIN);
    game.run(SECOND * 6, |_, _, _, _| {});
    assert_eq!(game.server().unwrap().players(), 4);
    for at in 1..=4 {
        assert!(matches!(game.client(at).unwrap().phase(), ClientPhase::Playing(_)));
    }
}
