//! Sixty-four bots over a bad network, in virtual time: a round trip of 150 ± 40 ms, 5 % of
//! datagrams lost in bursts. No bot gets stuck, corrections are rare, and in the end all agree.

use foveate_arena::game::kinds::Avatar;
use foveate_arena::{Arena, Fighter, Setup, Skill};
use foveate_lab::net::{Latency, Loss};
use foveate_lab::network::{NetworkSpec, SessionNetwork};
use foveate_node::Server;
use foveate_node::game::{Brain, Game};
use foveate_node::server::ServerSettings;
use foveate_sync::replica::Life;
use foveate_wire::{Micros, ObjectId, Replicate};
use std::sync::Arc;

const BOTS: usize = 64;
const ROUND: Micros = Micros(50_000);
/// An avatar is a unit wide.
const WIDTH: f32 = 1.0;

/// Latencies of 55 to 95 ms, losses in bursts of three.
fn bad_network(seed: u64) -> NetworkSpec {
    NetworkSpec {
        jitter: 73,
        loss: Loss::Bursty { share: 0.05, burst: 3.0 },
        latency: Latency::Constant(Micros::from_millis(55)),
        ..NetworkSpec::delayed(Micros::ZERO, seed)
    }
}

struct Match {
    sessions: SessionNetwork<Arena>,
    brains: Vec<Fighter>,
    /// How far each corrected state moved the own avatar.
    corrections: Vec<f32>,
    /// Sampled errors of replicas, by distance: below 40, below 70, and beyond.
    errors: [Vec<f32>; 3],
}

impl Match {
    fn new(seed: u64) -> Match {
        let arena = Arc::new(Arena::new(Setup::for_players(BOTS, seed)).unwrap());
        let mut sessions =
            SessionNetwork::new(Arc::clone(&arena), ServerSettings::default(), bad_network(seed));
        sessions.server().unwrap().simulation.populate().unwrap();
        (0..BOTS).for_each(|bot| {
            sessions.join(&format!("bot-{bot}"), &[]);
        });
        let bot = |bot| Fighter::new(Arc::clone(&arena), Skill::Regular, seed, bot as u64);
        let brains = (0..BOTS).map(bot).collect();
        Match { sessions, brains, corrections: Vec::new(), errors: Default::default() }
    }

    fn run(&mut self, rounds: u32, playing: bool) {
        for round in 0..rounds {
            let Match { sessions, brains, corrections, .. } = self;
            sessions.run(ROUND, |now, at, client, _| {
                corrections.extend(client.take_correction());
                let me = client.joined().map(|joined| joined.avatar).filter(|_| playing);
                let input = me.map(|me| {
                    client.see(now, |world| brains[at - 1].think(world, me, &mut Vec::new()))
                });
                client.set_input(input.unwrap_or_default());
            });
            if playing && round.is_multiple_of(20) {
                self.look();
            }
        }
    }

    /// Samples how far replicas are from the server's current state.
    fn look(&mut self) {
        let server = self.sessions.server().unwrap();
        let tick = server.simulation.publisher.store.tick();
        let kind = server.simulation.game.avatar();
        let truth: Vec<(ObjectId, Avatar)> = server.simulation.world().iter::<Avatar>().collect();
        let of = |id| truth.iter().find(|(other, _)| *other == id).map(|(_, avatar)| avatar);
        for at in 1..=BOTS {
            let Some(client) = self.sessions.client(at) else { continue };
            let here = client.joined().and_then(|joined| of(joined.avatar));
            let Some(here) = here else { continue };
            for view in client.replicas.iter().filter(|view| view.kind() == kind) {
                let Some(truth) = of(view.id()) else { continue };
                let seen = view.predicted(tick);
                let Some(seen) = seen.filter(|_| view.life() == Life::Live) else { continue };
                let off = (seen[0] - truth.pos[0]).hypot(seen[1] - truth.pos[1]);
                let away = (here.pos[0] - truth.pos[0]).hypot(here.pos[1] - truth.pos[1]);
                self.errors[usize::from(away > 40.0) + usize::from(away > 70.0)].push(off);
            }
        }
    }
}

fn lanes(server: &Server<Arena>, id: ObjectId) -> Vec<i32> {
    let store = &server.simulation.publisher.store;
    store.lanes(store.find(id).unwrap()).to_vec()
}

fn p95(values: &mut [f32]) -> f32 {
    values.sort_by(f32::total_cmp);
    values.get(values.len() * 95 / 100).copied().unwrap_or(0.0)
}

#[test]
fn no_bot_gets_stuck_corrections_are_rare_and_all_agree_in_the_end() {
    let mut game = Match::new(3);
    game.run(40, false);
    let mut clients = 1..=BOTS;
    assert!(clients.all(|at| game.sessions.client(at).unwrap().joined().is_some()), "all are in");
    game.run(800, true);
    let (mut right, mut wrong) = (0, 0);
    for at in 1..=BOTS {
        let counts = game.sessions.client(at).unwrap().counts();
        (right, wrong) = (right + counts.foreseen, wrong + counts.corrected);
    }
    // States that equalled the prediction are corrections of zero.
    let mut corrections = std::mem::take(&mut game.corrections);
    corrections.resize(corrections.len() + right as usize, 0.0);
    let [near, middle, far] = game.errors.each_mut().map(|errors| p95(errors));
    let corrected = p95(&mut corrections);
    println!("{right} states as foreseen, {wrong} not; p95 of corrections {corrected}");
    println!("p95 of replicas' errors, in units: {near} {middle} {far}");
    assert!(corrected < 0.5 * WIDTH);
    assert!(near < 6.0 && far < 20.0, "{near} {middle} {far}");

    game.sessions.network.set_spec(NetworkSpec { loss: Loss::None, ..bad_network(3) });
    game.run(200, false);
    let kind = game.sessions.server().unwrap().simulation.game.schema().kinds()[0].clone();
    for at in 1..=BOTS {
        let client = game.sessions.client(at).unwrap();
        let me = client.joined().unwrap().avatar;
        let own = Avatar::get(&kind, client.own());
        let avatars = client.replicas.iter().filter(|view| view.kind() == me.kind());
        let live = avatars.filter(|view| view.life() == Life::Live);
        let seen: Vec<_> = live.map(|it| (it.id(), Avatar::get(&kind, it.lanes()))).collect();
        let server = game.sessions.server().unwrap();
        let truth = Avatar::get(&kind, &lanes(server, me));
        // Health regenerates, so the client is ahead by what is under way.
        assert_eq!((own.pos, own.deaths), (truth.pos, truth.deaths), "{me:?}");
        for (id, seen) in seen {
            let truth = Avatar::get(&kind, &lanes(server, id));
            let off = (truth.pos[0] - seen.pos[0]).hypot(truth.pos[1] - seen.pos[1]);
            assert!(off < 1.0 && truth.deaths == seen.deaths, "{truth:?} {seen:?}");
        }
    }
}
