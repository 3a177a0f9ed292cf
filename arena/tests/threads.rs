//! A match goes the same way, and the server sends the same bytes, for any number of threads.

use foveate_arena::{Arena, Fighter, Setup, Skill};
use foveate_lab::net::Loss;
use foveate_lab::network::{NetworkSpec, SessionNetwork};
use foveate_node::game::Brain;
use foveate_node::outbox::Outgoing;
use foveate_node::server::ServerSettings;
use foveate_sync::Threads;
use foveate_wire::Micros;
use std::sync::Arc;

/// Enough for two parts of observers, and several of objects.
const BOTS: u64 = 100;
const ROUNDS: u64 = 60;
const ROUND: Micros = Micros(50_000);

/// Everything that the server sent, and the final states of all objects.
fn play(threads: usize) -> (Vec<(usize, Outgoing)>, Vec<Vec<i32>>) {
    let arena = Arc::new(Arena::new(Setup::for_players(BOTS as usize, 3)).unwrap());
    let spec =
        NetworkSpec { loss: Loss::Bernoulli(0.05), ..NetworkSpec::delayed(Micros(40_000), 3) };
    let mut sessions = SessionNetwork::new(Arc::clone(&arena), ServerSettings::default(), spec);
    sessions.sent = Some(Vec::new());
    let simulation = &mut sessions.server().unwrap().simulation;
    simulation.publisher.set_threads(Threads::new(threads).unwrap());
    simulation.populate().unwrap();
    (0..BOTS).for_each(|bot| _ = sessions.join(&format!("bot-{bot}"), &[]));
    let bot = |bot| Fighter::new(Arc::clone(&arena), Skill::Regular, 3, bot);
    let mut brains: Vec<_> = (0..BOTS).map(bot).collect();
    sessions.run(Micros(ROUND.0 * ROUNDS), |now, at, client, out| {
        let Some(me) = client.joined().map(|joined| joined.avatar) else { return };
        let mut actions = Vec::new();
        let input = client.see(now, |world| brains[at - 1].think(world, me, &mut actions));
        client.set_input(input);
        actions.into_iter().for_each(|(object, action)| client.ask(object, action, now, out));
    });
    let sent = sessions.sent.take().unwrap();
    let sent = sent.into_iter().filter_map(|(from, to, it)| (from == 0).then_some((to, it)));
    let sent = sent.collect();
    let store = &sessions.server().unwrap().simulation.publisher.store;
    (sent, store.iter().map(|(_, slot)| store.lanes(slot).to_vec()).collect())
}

#[test]
fn a_match_is_the_same_with_one_thread_and_with_three() {
    let ((sent, world), (sent_by_three, world_of_three)) = (play(1), play(3));
    assert!(sent.len() as u64 > BOTS * ROUNDS / 2, "{} datagrams", sent.len());
    let first = sent.iter().zip(&sent_by_three).position(|(one, three)| one != three);
    assert_eq!(first, None, "the first datagram that differs");
    assert_eq!(sent.len(), sent_by_three.len());
    assert!(world == world_of_three, "objects end elsewhere");
}
