//! Sixty-four bots over a bad network, in virtual time: 150 ± 40 ms of round trip, 5 % of datagrams
//! lost in bursts. Nobody gets stuck, hardly anybody is corrected, and afterwards all agree.

use foveate_arena::game::kinds::Avatar;
use foveate_arena::{Arena, Fighter, Setup, Skill};
use foveate_node::game::{Brain, Game, PlayerId};
use foveate_node::outbox::{Letter, Letters};
use foveate_node::server::{ServerEvent, Settings};
use foveate_node::session::ResumeKey;
use foveate_node::{Client, Link, Server};
use foveate_sync::replica::Life;
use foveate_wire::{Micros, ObjectId, Replicate, Tick};
use std::sync::Arc;

const BOTS: u64 = 64;
const ROUND: u64 = 50_000;
/// An avatar is a unit wide.
const WIDTH: f32 = 1.0;

/// One way of all links: jitter, and losses that come in bursts of three.
struct Way {
    rng: fastrand::Rng,
    bad: Vec<bool>,
    queue: Vec<(u64, u64, Link, Letter)>,
    sent: u64,
    lossy: bool,
}

impl Way {
    fn new(seed: u64) -> Way {
        let (rng, bad) = (fastrand::Rng::with_seed(seed), vec![false; BOTS as usize]);
        Way { rng, bad, queue: Vec::new(), sent: 0, lossy: true }
    }

    fn send(&mut self, now: u64, out: Letters) {
        for (link, packet) in out.0 {
            let bad = &mut self.bad[link.0 as usize];
            *bad = self.rng.f64() < if *bad { 2.0 / 3.0 } else { 0.05 / 3.0 / 0.95 };
            if self.lossy && *bad && matches!(packet, Letter::Datagram(_)) {
                continue;
            }
            let delay = 75_000.0 + (self.rng.f64() * 2.0 - 1.0) * 20_000.0;
            self.sent += 1;
            self.queue.push((now + delay as u64, self.sent, link, packet));
        }
    }

    fn arrived(&mut self, now: u64) -> Vec<(Link, Letter)> {
        let due = std::mem::take(&mut self.queue);
        let (mut due, later): (Vec<_>, Vec<_>) = due.into_iter().partition(|one| one.0 <= now);
        self.queue = later;
        due.sort_by_key(|(at, sent, _, _)| (*at, *sent));
        due.into_iter().map(|(_, _, link, packet)| (link, packet)).collect()
    }
}

struct Match {
    server: Server<Arena>,
    clients: Vec<Client<Arena>>,
    brains: Vec<Fighter>,
    up: Way,
    down: Way,
    round: u64,
    /// Of each state of an own avatar that was not as foreseen: how far it moved.
    corrections: Vec<f32>,
    /// Of each replica, now and then: how far off, by distance below 40, 70 and beyond.
    errors: [Vec<f32>; 3],
}

impl Match {
    fn new(seed: u64) -> Match {
        let arena = Arc::new(Arena::new(Setup::for_players(BOTS as usize, seed)).unwrap());
        let mut server =
            Server::new(Arc::clone(&arena), Settings::default(), Box::new(|| ResumeKey([7; 16])));
        server.stage.populate().unwrap();
        let mut up = Way::new(seed);
        let mut clients = Vec::new();
        for bot in 0..BOTS {
            let mut out = Letters::default();
            let mut client = Client::new(Arc::clone(&arena), &format!("bot-{bot}"), &[]);
            client.connected(Link(bot), &mut out);
            server.connected(Link(bot), &mut out);
            up.send(0, out);
            clients.push(client);
        }
        let bot = |bot| Fighter::new(Arc::clone(&arena), Skill::Regular, seed, bot);
        let brains = (0..BOTS).map(bot).collect();
        let (corrections, errors) = (Vec::new(), Default::default());
        let down = Way::new(!seed);
        Match { server, clients, brains, up, down, round: 0, corrections, errors }
    }

    fn run(&mut self, rounds: u64, playing: bool) {
        for _ in 0..rounds {
            self.round += 1;
            let now = self.round * ROUND;
            self.serve(now);
            for (link, packet) in self.down.arrived(now) {
                let client = &mut self.clients[link.0 as usize];
                match packet {
                    Letter::Datagram(bytes) => client.datagram(&bytes, Micros(now)),
                    Letter::Message(bytes) => client.message(&bytes),
                    Letter::Close(why) => panic!("{why:?}"),
                }
                self.corrections.extend(client.take_correction());
            }
            let mut out = Letters::default();
            for (client, brain) in self.clients.iter_mut().zip(&mut self.brains) {
                client.tick(Micros(now), &mut out, |world, me| match playing {
                    true => brain.think(world, me, &mut Vec::new()),
                    false => Default::default(),
                });
                while client.poll().is_some() {}
            }
            self.up.send(now, out);
            if playing && self.round.is_multiple_of(20) {
                self.look();
            }
        }
    }

    fn serve(&mut self, now: u64) {
        let (time, mut out) = (Micros(now), Letters::default());
        for (link, packet) in self.up.arrived(now) {
            match packet {
                Letter::Datagram(bytes) => self.server.datagram(link, &bytes, time),
                Letter::Message(bytes) => self.server.message(link, &bytes, time, &mut out),
                Letter::Close(why) => panic!("{why:?}"),
            }
        }
        while let Some(event) = self.server.poll() {
            if let ServerEvent::Asked { link, .. } = event {
                let player = PlayerId(link.0 as u32 + 1);
                self.server.admit(link, player, &[], time, &mut out).unwrap();
            }
        }
        self.server.tick(Tick(self.round as u32), time, &mut out);
        self.down.send(now, out);
    }

    /// How far off replicas are from what the server has by now.
    fn look(&mut self) {
        let world = self.server.stage.world();
        for client in &self.clients {
            let Some(me) = client.seated() else { continue };
            let Some(here) = world.get::<Avatar>(me.avatar) else { continue };
            for view in client.replicas.iter().filter(|view| view.kind() == me.avatar.kind()) {
                let Some(truth) = world.get::<Avatar>(view.id()) else { continue };
                let seen = view.predicted(Tick(self.round as u32));
                let Some(seen) = seen.filter(|_| view.life() == Life::Live) else { continue };
                let off = (seen[0] - truth.pos[0]).hypot(seen[1] - truth.pos[1]);
                let away = (here.pos[0] - truth.pos[0]).hypot(here.pos[1] - truth.pos[1]);
                self.errors[usize::from(away > 40.0) + usize::from(away > 70.0)].push(off);
            }
        }
    }

    fn lanes(&self, id: ObjectId) -> &[i32] {
        let store = &self.server.stage.publisher.store;
        store.lanes(store.find(id).unwrap())
    }
}

fn p95(values: &mut [f32]) -> f32 {
    values.sort_by(f32::total_cmp);
    values.get(values.len() * 95 / 100).copied().unwrap_or(0.0)
}

#[test]
fn nobody_gets_stuck_hardly_anybody_is_corrected_and_all_agree_in_the_end() {
    let mut game = Match::new(3);
    game.run(40, false);
    assert!(game.clients.iter().all(|client| client.seated().is_some()), "all are in");
    game.run(800, true);
    let counts = game.clients.iter().map(Client::counts);
    let (right, wrong) = counts
        .fold((0, 0), |(right, wrong), counts| (right + counts.foreseen, wrong + counts.corrected));
    // What was foreseen is a correction of nothing.
    let mut corrections = std::mem::take(&mut game.corrections);
    corrections.resize(corrections.len() + right as usize, 0.0);
    let [near, middle, far] = game.errors.each_mut().map(|errors| p95(errors));
    let corrected = p95(&mut corrections);
    println!("{right} states as foreseen, {wrong} not; p95 of corrections {corrected}");
    println!("p95 of replicas' errors, in units: {near} {middle} {far}");
    assert!(corrected < 0.5 * WIDTH);
    assert!(near < 6.0 && far < 20.0, "{near} {middle} {far}");

    (game.up.lossy, game.down.lossy) = (false, false);
    game.run(200, false);
    let kind = game.server.stage.game.schema().kinds()[0].clone();
    for client in &game.clients {
        let me = client.seated().unwrap().avatar;
        let (own, truth) = (Avatar::get(&kind, client.own()), Avatar::get(&kind, game.lanes(me)));
        // Wounds heal: there the client is ahead by what is under way.
        assert_eq!((own.pos, own.deaths), (truth.pos, truth.deaths), "{me:?}");
        let avatars = client.replicas.iter().filter(|view| view.kind() == me.kind());
        for view in avatars.filter(|view| view.life() == Life::Live) {
            let truth = Avatar::get(&kind, game.lanes(view.id()));
            let seen = Avatar::get(&kind, view.lanes());
            let off = (truth.pos[0] - seen.pos[0]).hypot(truth.pos[1] - seen.pos[1]);
            assert!(off < 1.0 && truth.deaths == seen.deaths, "{truth:?} {seen:?}");
        }
    }
}
