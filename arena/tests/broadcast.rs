//! The server's estimate of broadcasting against actual broadcasting, with forty bots in virtual
//! time. Bots decide by the true world and not by what they receive. So two matches of the same
//! seed are equal whatever the views, and one can be switched to broadcasting while the other is
//! not.

use foveate_arena::{Arena, Fighter, Setup, Skill};
use foveate_lab::net::Loss;
use foveate_lab::network::{NetworkSpec, SessionNetwork};
use foveate_node::Server;
use foveate_node::game::Brain;
use foveate_node::server::ServerSettings;
use foveate_sync::interest::{View, presets};
use foveate_wire::{Bytes, Micros};
use std::sync::Arc;

const BOTS: u64 = 40;
/// The world is sized for more players, so that the bots do not all see each other.
const ROOM: usize = 400;
const ROUND: Micros = Micros(50_000);
const SAMPLES: usize = 3;
/// Rounds until all bots have joined, and again until a new view has settled.
const WARM_UP: u64 = 100;
/// Rounds that are measured.
const MEASURED: u64 = 400;

struct Match {
    sessions: SessionNetwork<Arena>,
    brains: Vec<Fighter>,
}

impl Match {
    /// Links take 30 to 50 ms, and lose each datagram with this probability.
    fn new(loss: f64, budget: Option<Bytes>) -> Match {
        let arena = Arc::new(Arena::new(Setup::for_players(ROOM, 1)).unwrap());
        let settings = ServerSettings { budget, ..ServerSettings::default() };
        let (jitter, loss) = (66, Loss::Bernoulli(loss));
        let spec = NetworkSpec { jitter, loss, ..NetworkSpec::delayed(Micros(30_000), 1) };
        let mut sessions = SessionNetwork::new(Arc::clone(&arena), settings, spec);
        sessions.server().unwrap().simulation.populate().unwrap();
        (0..BOTS).for_each(|bot| _ = sessions.join(&format!("bot-{bot}"), &[]));
        let bot = |bot| Fighter::new(Arc::clone(&arena), Skill::Regular, 1, bot);
        Match { sessions, brains: (0..BOTS).map(bot).collect() }
    }

    fn server(&mut self) -> &mut Server<Arena> {
        self.sessions.server().unwrap()
    }

    /// A match in which all bots have joined and use this view.
    fn under(view: Option<View>, loss: f64, budget: Option<Bytes>) -> Match {
        let mut game = Match::new(loss, budget);
        game.run(WARM_UP);
        game.server().override_view(None, view).unwrap();
        game.run(WARM_UP);
        game
    }

    fn run(&mut self, rounds: u64) {
        for _ in 0..rounds {
            let avatars: Vec<_> = (1..=self.brains.len())
                .map(|at| Some(self.sessions.client(at)?.joined()?.avatar))
                .collect();
            let truth = self.sessions.server().unwrap().simulation.world();
            let inputs: Vec<_> = (self.brains.iter_mut().zip(avatars))
                .map(|(brain, me)| Some(brain.think(&truth, me?, &mut Vec::new())))
                .collect();
            self.sessions.run(ROUND, |_, at, client, _| {
                client.set_input(inputs[at - 1].unwrap_or_default());
            });
        }
    }

    /// Bytes of states sent to all players in this many rounds.
    fn bytes_in(&mut self, rounds: u64) -> f64 {
        let before = self.server().simulation.publisher.totals().bytes;
        self.run(rounds);
        (self.server().simulation.publisher.totals().bytes - before) as f64
    }

    /// The server's mean ratio of broadcast bytes to sent bytes over this many rounds.
    fn estimate_in(&mut self, rounds: u64) -> f64 {
        let mut said = Vec::new();
        for _ in 0..rounds / 20 {
            self.run(20);
            let comparison = self.server().broadcast_comparison();
            said.extend(comparison.and_then(|comparison| comparison.ratio()));
        }
        said.iter().sum::<f64>() / said.len() as f64
    }
}

#[test]
fn while_broadcasting_the_estimate_equals_the_traffic() {
    for loss in [0.0, 0.1] {
        let mut game = Match::under(Some(presets::broadcast()), loss, None);
        game.server().compare_with_broadcast(SAMPLES);
        let said = game.estimate_in(MEASURED);
        println!("loss {loss}: broadcasting, {said:.4} times less than broadcasting");
        assert!((said - 1.0).abs() < 0.03, "{said}");
    }
}

#[test]
fn the_estimate_is_what_switching_to_broadcast_shows() {
    let tight = Some(Bytes(60));
    for (name, view, loss, budget) in [
        ("the game's own view", None, 0.0, None),
        ("the game's own view", None, 0.1, None),
        ("a circle", Some(presets::circle(30.0)), 0.1, None),
        ("A3", Some(presets::a3(100.0, 0)), 0.0, None),
        ("the game's own view on 1.2 kB/s", None, 0.0, tight),
    ] {
        let mut game = Match::under(view.clone(), loss, budget);
        game.server().compare_with_broadcast(SAMPLES);
        game.run(WARM_UP);
        let sent = game.server().simulation.publisher.totals().bytes;
        let said = game.estimate_in(MEASURED);
        let sent = (game.server().simulation.publisher.totals().bytes - sent) as f64;

        let mut switched = Match::under(view, loss, budget);
        switched.server().override_view(None, Some(presets::broadcast())).unwrap();
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
    with.server().compare_with_broadcast(SAMPLES);
    for game in [&mut with, &mut without] {
        game.run(200);
        game.server().override_view(None, Some(presets::circle(50.0))).unwrap();
        game.run(200);
    }
    assert!(with.server().broadcast_comparison().is_some());
    assert!(without.server().broadcast_comparison().is_none());
    let digests = [with, without].map(|game| game.sessions.network.digest());
    assert_eq!(digests[0], digests[1], "the same bytes");
}
