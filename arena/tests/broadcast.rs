//! What the server says broadcasting would take, against what broadcasting does take, with forty bots in
//! virtual time. Bots decide by the truth and not by what they are told: so two matches of the same seed are the
//! same match whatever the views, and one can be switched to broadcasting while the other is not.

use foveate_arena::{Arena, Fighter, Setup, Skill};
use foveate_node::game::{Brain, PlayerId};
use foveate_node::outbox::{Outgoing, RecordingOutbox};
use foveate_node::server::{ServerEvent, ServerSettings};
use foveate_node::session::ResumeKey;
use foveate_node::{Client, Link, Server};
use foveate_sync::interest::{View, presets};
use foveate_wire::{Bytes, Micros, Tick};
use std::sync::Arc;

const BOTS: u64 = 40;
/// The world is made for more: the bots do not all see each other.
const ROOM: usize = 400;
const ROUND: u64 = 50_000;
const SAMPLES: usize = 3;
/// Rounds until all are in, and again until a new view has settled.
const WARM_UP: u64 = 100;
/// Rounds that are measured.
const MEASURED: u64 = 400;

/// One way of all links: 30 to 50 ms, and each datagram lost by a chance.
struct Way {
    rng: fastrand::Rng,
    loss: f64,
    queue: Vec<(u64, u64, Link, Outgoing)>,
    sent: u64,
}

impl Way {
    fn new(seed: u64, loss: f64) -> Way {
        Way { rng: fastrand::Rng::with_seed(seed), loss, queue: Vec::new(), sent: 0 }
    }

    fn send(&mut self, now: u64, out: RecordingOutbox) {
        for (link, packet) in out.0 {
            let lost = self.rng.f64() < self.loss;
            if lost && matches!(packet, Outgoing::Datagram(_)) {
                continue;
            }
            let delay = 30_000.0 + self.rng.f64() * 20_000.0;
            self.sent += 1;
            self.queue.push((now + delay as u64, self.sent, link, packet));
        }
    }

    fn arrived(&mut self, now: u64) -> Vec<(Link, Outgoing)> {
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
    /// Everything that the server sent, while it is kept.
    said: Option<Vec<(Link, Outgoing)>>,
}

impl Match {
    fn new(loss: f64, budget: Option<Bytes>) -> Match {
        let arena = Arc::new(Arena::new(Setup::for_players(ROOM, 1)).unwrap());
        let settings = ServerSettings { budget, ..ServerSettings::default() };
        let keys = Box::new(|| ResumeKey([7; 16]));
        let mut server = Server::new(Arc::clone(&arena), settings, keys);
        server.simulation.populate().unwrap();
        let (mut up, mut clients) = (Way::new(1, loss), Vec::new());
        for bot in 0..BOTS {
            let mut out = RecordingOutbox::default();
            let mut client = Client::new(Arc::clone(&arena), &format!("bot-{bot}"), &[]);
            client.connected(Link(bot), &mut out);
            server.connected(Link(bot), &mut out);
            up.send(0, out);
            clients.push(client);
        }
        let bot = |bot| Fighter::new(Arc::clone(&arena), Skill::Regular, 1, bot);
        let (brains, down) = ((0..BOTS).map(bot).collect(), Way::new(2, loss));
        Match { server, clients, brains, up, down, round: 0, said: None }
    }

    /// All are in, and see the world by this view.
    fn under(view: Option<View>, loss: f64, budget: Option<Bytes>) -> Match {
        let mut game = Match::new(loss, budget);
        game.run(WARM_UP);
        game.server.override_view(None, view).unwrap();
        game.run(WARM_UP);
        game
    }

    fn run(&mut self, rounds: u64) {
        for _ in 0..rounds {
            self.round += 1;
            let now = self.round * ROUND;
            self.serve(now);
            for (link, packet) in self.down.arrived(now) {
                let client = &mut self.clients[link.0 as usize];
                match packet {
                    Outgoing::Datagram(bytes) => client.datagram(&bytes, Micros(now)),
                    Outgoing::Message(bytes) => client.message(&bytes),
                    Outgoing::Close(why) => panic!("{why:?}"),
                }
            }
            let mut out = RecordingOutbox::default();
            for (client, brain) in self.clients.iter_mut().zip(&mut self.brains) {
                let truth = self.server.simulation.world();
                client
                    .tick(Micros(now), &mut out, |_, me| brain.think(&truth, me, &mut Vec::new()));
                while client.poll().is_some() {}
            }
            self.up.send(now, out);
        }
    }

    fn serve(&mut self, now: u64) {
        let (time, mut out) = (Micros(now), RecordingOutbox::default());
        for (link, packet) in self.up.arrived(now) {
            match packet {
                Outgoing::Datagram(bytes) => self.server.datagram(link, &bytes, time),
                Outgoing::Message(bytes) => self.server.message(link, &bytes, time, &mut out),
                Outgoing::Close(why) => panic!("{why:?}"),
            }
        }
        while let Some(event) = self.server.poll() {
            if let ServerEvent::Asked { link, .. } = event {
                let player = PlayerId(link.0 as u32 + 1);
                self.server.admit(link, player, &[], time, &mut out).unwrap();
            }
        }
        self.server.tick(Tick(self.round as u32), time, &mut out);
        if let Some(said) = &mut self.said {
            said.extend(out.0.iter().cloned());
        }
        self.down.send(now, out);
    }

    /// Bytes of states that all players were sent in so many rounds.
    fn bytes_in(&mut self, rounds: u64) -> f64 {
        let before = self.server.simulation.publisher.totals().bytes;
        self.run(rounds);
        (self.server.simulation.publisher.totals().bytes - before) as f64
    }

    /// How many times less than broadcasting the server says that it sends, on average over so many rounds.
    fn said_in(&mut self, rounds: u64) -> f64 {
        let mut said = Vec::new();
        for _ in 0..rounds / 20 {
            self.run(20);
            let comparison = self.server.broadcast_comparison();
            said.extend(comparison.and_then(|comparison| comparison.ratio()));
        }
        said.iter().sum::<f64>() / said.len() as f64
    }
}

#[test]
fn broadcasting_is_said_to_be_no_less_than_broadcasting() {
    for loss in [0.0, 0.1] {
        let mut game = Match::under(Some(presets::broadcast()), loss, None);
        game.server.compare_with_broadcast(SAMPLES);
        let said = game.said_in(MEASURED);
        println!("loss {loss}: broadcasting, {said:.4} times less than broadcasting");
        assert!((said - 1.0).abs() < 0.03, "{said}");
    }
}

#[test]
fn what_is_said_is_what_switching_to_broadcast_shows() {
    let tight = Some(Bytes(60));
    for (name, view, loss, budget) in [
        ("the game's own view", None, 0.0, None),
        ("the game's own view", None, 0.1, None),
        ("a circle", Some(presets::circle(30.0)), 0.1, None),
        ("A3", Some(presets::a3(100.0, 0)), 0.0, None),
        ("the game's own view on 1.2 kB/s", None, 0.0, tight),
    ] {
        let mut game = Match::under(view.clone(), loss, budget);
        game.server.compare_with_broadcast(SAMPLES);
        game.run(WARM_UP);
        let sent = game.server.simulation.publisher.totals().bytes;
        let said = game.said_in(MEASURED);
        let sent = (game.server.simulation.publisher.totals().bytes - sent) as f64;

        let mut switched = Match::under(view, loss, budget);
        switched.server.override_view(None, Some(presets::broadcast())).unwrap();
        switched.run(WARM_UP);
        let shown = switched.bytes_in(MEASURED) / sent;
        println!("{name}, loss {loss}: said {said:.2}, shown by switching {shown:.2}");
        assert!((said / shown - 1.0).abs() < 0.1, "{name}, loss {loss}: {said} and {shown}");
        assert!(shown > 1.5, "the views differ");
    }
}

#[test]
fn what_players_are_sent_does_not_change_while_it_is_measured() {
    let mut with = Match::under(None, 0.05, ServerSettings::default().budget);
    let mut without = Match::under(None, 0.05, ServerSettings::default().budget);
    with.server.compare_with_broadcast(SAMPLES);
    for game in [&mut with, &mut without] {
        game.said = Some(Vec::new());
        game.run(200);
        game.server.override_view(None, Some(presets::circle(50.0))).unwrap();
        game.run(200);
    }
    assert!(with.server.broadcast_comparison().is_some());
    assert!(without.server.broadcast_comparison().is_none());
    assert!(with.said.unwrap() == without.said.unwrap(), "the same bytes");
}
