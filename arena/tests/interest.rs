//! How teams, hits and walls change what players are sent, through the shipping server.

use foveate_arena::game::kinds::{AVATAR, Avatar, Weapon};
use foveate_arena::game::{Action, Controls};
use foveate_arena::{Arena, ArenaInput, Fighter, Point, Setup, Skill};
use foveate_lab::network::{NetworkSpec, Participant, SessionNetwork};
use foveate_node::Server;
use foveate_node::game::{Brain, Game, PlayerId, Requester};
use foveate_node::outbox::Outgoing;
use foveate_node::server::{Resources, ServerSettings};
use foveate_node::session::ServerDatagram;
use foveate_sync::interest::Line;
use foveate_sync::replica::Life;
use foveate_wire::{Bytes, Micros, ObjectId};
use std::sync::Arc;

const BOTS: u64 = 48;
const ROUNDS: u64 = 600;
const ROUND: Micros = Micros(50_000);
/// The time after the server's round at which its datagrams have arrived.
const AFTER: Micros = Micros(1);

/// Counts of what clients received about enemies, over all rounds.
#[derive(Default, Debug)]
struct Told {
    /// States that arrived of enemies that were visible, or nearly so.
    seen: u64,
    /// States that arrived of hidden enemies.
    hidden: u64,
    /// States that arrived of team mates behind walls.
    hidden_mates: u64,
    /// Living enemies in plain sight that the client shows.
    shown: u64,
    /// Living enemies in plain sight that the client does not show.
    missing: u64,
    /// Bytes of datagrams to clients, including the network's headers.
    bytes: u64,
    /// Datagrams with states, and without.
    datagrams: [u64; 2],
    /// Bytes of state packets, of the frames around them, and of events.
    parts: [u64; 3],
    /// Errors of replicas of avatars, near and far.
    errors: [Vec<f32>; 2],
}

impl Told {
    /// Traffic to a client per round, over 300 rounds.
    fn traffic(&self) -> String {
        let each = |sum: u64| sum as f64 / (300.0 * BOTS as f64);
        let ([states, frames, events], sent) = (self.parts.map(each), self.datagrams.map(each));
        format!(
            "{:.1} B in {:.2} datagrams with states and {:.2} without; {states:.1} B of states, {frames:.1} of \
             frames, {events:.1} of events",
            each(self.bytes),
            sent[0],
            sent[1],
        )
    }
}

struct Match {
    sessions: SessionNetwork<Arena>,
    brains: Vec<Fighter>,
    told: Told,
    round: u64,
    /// Whether players walk independently of what they see, so that two matches go the same way.
    blind: bool,
}

/// Walks on, and turns about every second.
fn stroll(bot: usize, round: u64) -> Controls {
    let mut rng = fastrand::Rng::with_seed(bot as u64 * 1_000 + (round + bot as u64 * 7) / 17);
    let walk = ArenaInput { forward: 127, strafe: rng.i8(-40..40), yaw: rng.u16(0..1_024) };
    Controls { walk, ..Controls::default() }
}

impl Match {
    fn new(line_of_sight: bool) -> Match {
        let setup = Setup { line_of_sight, units: 0, ..Setup::for_players(BOTS as usize, 5) };
        let arena = Arc::new(Arena::new(setup).unwrap());
        let spec = NetworkSpec::delayed(Micros::ZERO, 5);
        let mut sessions = SessionNetwork::new(Arc::clone(&arena), ServerSettings::default(), spec);
        sessions.server().unwrap().simulation.populate().unwrap();
        sessions.sent = Some(Vec::new());
        sessions.run(AFTER, |_, _, _, _| {});
        (0..BOTS).for_each(|bot| _ = sessions.join(&format!("bot-{bot}"), &[]));
        sessions.run(Micros::ZERO, |_, _, _, _| {});
        let bot = |bot| Fighter::new(Arc::clone(&arena), Skill::Regular, 5, bot);
        let brains = (0..BOTS).map(bot).collect();
        Match { sessions, brains, told: Told::default(), round: 0, blind: false }
    }

    fn server(&mut self) -> &mut Server<Arena> {
        self.sessions.server().unwrap()
    }

    fn count(&mut self, bytes: &[u8]) {
        self.told.bytes += bytes.len() as u64 + 55;
        let frame = ServerDatagram::read(bytes).unwrap();
        self.told.datagrams[usize::from(frame.state.is_empty())] += 1;
        let (state, events) = (frame.state.len(), frame.events.len());
        let frame = bytes.len() - state - events;
        for (sum, bytes) in self.told.parts.iter_mut().zip([state, frame, events]) {
            *sum += bytes as u64;
        }
    }

    /// Plays this many rounds; returns the counts.
    fn run(&mut self, rounds: u64) -> Told {
        for _ in 0..rounds {
            self.round += 1;
            let Match { sessions, brains, round, blind, .. } = self;
            let until = Micros(ROUND.0 * *round) + AFTER;
            sessions.run(until - sessions.network.now(), |now, at, client, _| {
                let me = client.joined().map(|joined| joined.avatar);
                let input = me.map(|me| match blind {
                    true => stroll(at - 1, *round),
                    false => client.see(now, |it| brains[at - 1].think(it, me, &mut Vec::new())),
                });
                client.set_input(input.unwrap_or_default());
            });
            sessions.news.clear();
            self.server().end_round(Micros::ZERO);
            for (from, _, outgoing) in self.sessions.sent.replace(Vec::new()).unwrap() {
                if let (0, Outgoing::Datagram(bytes)) = (from, outgoing) {
                    self.count(&bytes);
                }
            }
            if self.round > 20 {
                self.look();
            }
        }
        std::mem::take(&mut self.told)
    }

    fn look(&mut self) {
        let nodes = &self.sessions.network.nodes;
        let Some(Participant::Server(server)) = nodes[0].as_deref() else { return };
        let (world, arena) = (server.simulation.world(), &server.simulation.game);
        let tick = world.tick();
        let walls = arena.visibility().expect("the arena has walls");
        let avatars: Vec<(ObjectId, Avatar)> = world.iter::<Avatar>().collect();
        for node in nodes.iter().flatten() {
            let Participant::Client(client) = &node.node else { continue };
            let Some(me) = client.joined() else { continue };
            let Some(here) = world.get::<Avatar>(me.avatar) else { continue };
            for (object, truth) in avatars.iter().filter(|(object, _)| *object != me.avatar) {
                let line = Line {
                    pivot: Some(me.avatar),
                    object: *object,
                    from: here.pos.into(),
                    to: truth.pos.into(),
                    tick,
                };
                let away = (here.pos[0] - truth.pos[0]).hypot(here.pos[1] - truth.pos[1]);
                let view = client.replicas.get(*object);
                let live = view.as_ref().filter(|view| view.life() == Life::Live);
                if let Some(seen) = live.and_then(|view| view.predicted(tick))
                    && !(40.0..=60.0).contains(&away)
                {
                    let off = (seen[0] - truth.pos[0]).hypot(seen[1] - truth.pos[1]);
                    self.told.errors[usize::from(away > 60.0)].push(off);
                }
                if view.as_ref().is_some_and(|view| view.tick() == tick) {
                    match (truth.team == here.team, away <= 8.0 || walls.visible(&line)) {
                        (false, true) => self.told.seen += 1,
                        (false, false) => self.told.hidden += 1,
                        (true, false) => self.told.hidden_mates += 1,
                        (true, true) => {}
                    }
                }
                if truth.team == here.team {
                    continue;
                }
                let point = |at: [f32; 2]| Point::new(f64::from(at[0]), f64::from(at[1]));
                let plain = arena.map().line_of_sight(point(here.pos), point(truth.pos));
                if plain && away < 60.0 && truth.is_alive() && here.is_alive() {
                    match view.is_some_and(|view| view.life() == Life::Live) {
                        true => self.told.shown += 1,
                        false => self.told.missing += 1,
                    }
                }
            }
        }
    }
}

#[test]
fn enemies_behind_walls_are_not_sent_and_those_in_sight_are() {
    let (mut without, mut with) = (Match::new(false), Match::new(true));
    let (mut without, mut with) = (without.run(ROUNDS), with.run(ROUNDS));
    (without.errors, with.errors) = Default::default();
    println!("without: {without:?}\nwith: {with:?}");
    assert!(without.hidden > 1_000, "the test would notice states of hidden enemies: {without:?}");
    assert_eq!(with.hidden, 0, "{with:?}");
    assert!(with.seen > 1_000 && with.shown > 1_000, "{with:?}");
    assert_eq!(with.missing, 0, "{with:?}");
    assert!(with.hidden_mates > 1_000, "walls do not hide team mates: {with:?}");
    assert!(with.bytes < without.bytes, "{} {}", with.bytes, without.bytes);
}

#[test]
fn a_hit_raises_the_interest_of_both_players_in_each_other_for_a_while() {
    let mut game = Match::new(false);
    // All avatars stand still.
    (1..=BOTS as usize).for_each(|at| game.sessions.network.pause(at, true));
    game.run(2);
    // θ of each of the two players' view of the other.
    let avatars = [1, 2].map(|player| ObjectId::new(AVATAR, player, 0));
    let ages = |server: &Server<Arena>| {
        [(0, 1), (1, 0)].map(|(own, other)| {
            let publisher = &server.simulation.publisher;
            let observer = server.observer_of(PlayerId(avatars[own].origin())).unwrap();
            let slot = publisher.store.find(avatars[other]).unwrap();
            publisher.grade_of(observer, slot).map(|(grade, _)| grade.max_age)
        })
    };
    let before = ages(game.server());
    let hit = Action::Hit { damage: 1, weapon: Weapon::Blaster };
    game.server().simulation.ask(avatars[1], hit, Requester::Object(avatars[0]));
    game.run(1);
    let sharp = ages(game.server()).map(|age| age.expect("of interest, however far off"));
    for (before, sharp) in before.into_iter().zip(sharp) {
        assert!(before.is_none_or(|before| sharp.0 * 3 < before.0 * 2), "{before:?} {sharp:?}");
    }
    // Four half-lives, and less than the timeout of silent clients.
    game.run(160);
    for (sharp, faded) in sharp.into_iter().zip(ages(game.server())) {
        assert!(faded.is_none_or(|faded| faded.0 > sharp.0 * 3 / 2), "{sharp:?} {faded:?}");
    }
}

#[test]
fn a_narrow_uplink_loosens_far_objects_and_spares_near_ones() {
    let p95 = |errors: &mut Vec<f32>| {
        errors.sort_by(f32::total_cmp);
        errors[errors.len() * 95 / 100]
    };
    let blind = || Match { blind: true, ..Match::new(false) };
    let mut wide = blind();
    // First states take more than later updates.
    wide.run(400);
    let mut wanted = wide.run(300);
    assert_eq!(wide.server().strain(), 0.0);
    println!("wanted: {}", wanted.traffic());
    // The same match, with a share of the uplink that it uses.
    let mut compare = |share: f64| {
        let mut narrow = blind();
        let uplink = Some(Bytes((share * wanted.bytes as f64 / 300.0) as u32));
        narrow.server().set_resources(Resources { uplink, tick_time: None });
        narrow.run(400);
        let mut told = narrow.run(300);
        let sent = told.bytes as f64 / wanted.bytes as f64;
        let [near, far] = [0, 1].map(|at| p95(&mut told.errors[at]) / p95(&mut wanted.errors[at]));
        println!("{share}: {}", told.traffic());
        let strain = narrow.server().strain();
        println!("{sent:.3}, strain {strain:.1}, near {near:.2}, far {far:.1}");
        (narrow, [sent, f64::from(near), f64::from(far)])
    };
    let (_, [sent, near, far]) = compare(0.9);
    assert!(sent < 0.95 && near <= 1.1 && far > 1.5, "{sent}, near {near}, far {far}");
    // Two thirds of it are packet headers, so only fewer packets can halve it.
    let (mut game, [sent, near, far]) = compare(0.5);
    assert!(sent < 0.525 && near < 1.3 && far > 3.0, "{sent}, near {near}, far {far}");
    game.server().set_resources(Resources::default());
    game.run(600);
    assert_eq!(game.server().strain(), 0.0, "it recovers");
}
