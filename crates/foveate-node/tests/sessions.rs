//! Joining, playing, breaking off and being turned away, in virtual time.

#[path = "sessions/events.rs"]
mod events;
#[path = "sessions/hostile.rs"]
mod hostile;

use foveate_node::client::{ClientPhase, News};
use foveate_node::game::{
    EventArea, Game, Liveness, PlayerId, Requester, Spawn, StepContext, World,
};
use foveate_node::outbox::{Outgoing, RecordingOutbox};
use foveate_node::server::{Keys, ServerEvent, ServerSettings};
use foveate_node::session::{ClientMessage, Refusal, ResumeKey, write_message};
use foveate_node::{Client, Link, Server};
use foveate_sync::interest::{View, presets};
use foveate_wire::{Bytes, KindId, Micros, ObjectId, Replicate, Schema, Tick};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

#[derive(Replicate, Clone, PartialEq, Debug)]
#[replicate(max_speed = 20.0)]
struct Walker {
    #[replicate(place, motion, precision = 0.015625, extent = 1000.0)]
    pos: [f32; 2],
    steps: u16,
}

/// Whether walkers are kept, beside the schema.
struct Walk(Arc<Schema>, bool);

/// Events that must arrive.
const RELIABLE: std::ops::Range<u8> = 100..150;
/// So many steps make a scout.
const SCOUT: u16 = 60_000;
/// An action that pushes its object aside.
const PUSH: u8 = 200;

impl Game for Walk {
    type Input = i8;
    type Action = u8;
    type Event = u8;

    fn schema(&self) -> &Arc<Schema> {
        &self.0
    }

    fn avatar(&self) -> KindId {
        KindId(0)
    }

    fn populate(&self) -> Vec<Spawn> {
        Vec::new()
    }

    fn welcome(&self, _: &World<'_>, player: PlayerId, _: &str) -> Vec<Spawn> {
        let pos = [0.0, player.0 as f32];
        Spawn::new(&self.0, &Walker { pos, steps: 0 }).into_iter().collect()
    }

    fn step(&self, turn: &mut StepContext<'_, Self>, inputs: &[i8]) {
        let Some(mut walker) = turn.get::<Walker>() else { return };
        for input in inputs {
            walker.pos[0] += f32::from(*input) / 8.0;
            walker.steps += u16::from(*input != 0);
        }
        turn.set(&walker);
    }

    fn act(&self, turn: &mut StepContext<'_, Self>, action: &u8, _: Requester) {
        let Some(mut walker) = turn.get::<Walker>() else { return };
        walker.pos[1] += f32::from(u8::from(*action == PUSH));
        turn.set(&walker);
        let at = [walker.pos[0], walker.pos[1], 0.0];
        turn.event(EventArea::Point { at, radius: 5.0 }, *action);
    }

    fn reliable(&self, event: &u8) -> bool {
        RELIABLE.contains(event)
    }

    /// Scouts look from the second player's avatar, too.
    fn eyes(&self, world: &World<'_>, avatar: ObjectId, eyes: &mut Vec<ObjectId>) {
        eyes.push(avatar);
        let scout = world.get::<Walker>(avatar).is_some_and(|walker| walker.steps == SCOUT);
        eyes.extend(scout.then_some(ObjectId::new(KindId(0), 2, 0)));
    }

    fn keeps(&self, _: KindId) -> bool {
        self.1
    }

    fn allows(&self, input: &i8) -> bool {
        (-8..=8).contains(input)
    }

    fn view(&self, which: u8) -> Option<View> {
        let zoom = presets::zoom(50.0, 100.0);
        [presets::circle(50.0), presets::circle(5.0), zoom].get(usize::from(which)).cloned()
    }

    /// Nobody may watch the first one.
    fn may_watch(&self, _: &World<'_>, _: ObjectId, object: ObjectId) -> bool {
        object.origin() != 1
    }
}

fn game() -> Arc<Walk> {
    Arc::new(Walk(Arc::new(Schema::new(vec![Walker::spec()]).unwrap()), true))
}

/// Keys that differ, and that nobody here tries to guess.
fn keys() -> Keys {
    let mut next = 0u8;
    Box::new(move || {
        next = next.wrapping_add(1);
        ResumeKey([next; 16])
    })
}

type InFlight = VecDeque<(u64, Link, Outgoing)>;

/// A server and its clients, a round trip of `delay` rounds each way apart.
struct Town {
    server: Server<Walk>,
    clients: BTreeMap<Link, Client<Walk>>,
    round: u64,
    delay: u64,
    loss: f64,
    rng: fastrand::Rng,
    down: InFlight,
    up: InFlight,
    events: Vec<ServerEvent>,
    kept: BTreeMap<u32, Vec<(ObjectId, Vec<i32>)>>,
    players: BTreeMap<String, u32>,
    /// Rounds that the server has dropped.
    dropped: u64,
}

impl Town {
    fn new(settings: ServerSettings) -> Town {
        Town {
            server: Server::new(game(), settings, keys()),
            dropped: 0,
            clients: BTreeMap::new(),
            round: 0,
            delay: 1,
            loss: 0.0,
            rng: fastrand::Rng::with_seed(1),
            down: VecDeque::new(),
            up: VecDeque::new(),
            events: Vec::new(),
            kept: BTreeMap::new(),
            players: BTreeMap::new(),
        }
    }

    fn now(&self) -> Micros {
        Micros(50_000 * self.round)
    }

    fn join(&mut self, link: u64, name: &str) -> Link {
        let client = Client::new(game(), name, &[]);
        self.connect(Link(link), client)
    }

    fn connect(&mut self, link: Link, mut client: Client<Walk>) -> Link {
        let mut out = RecordingOutbox::default();
        client.connected(link, &mut out);
        self.clients.insert(link, client);
        self.server.connected(link, &mut out);
        self.route(out, true);
        link
    }

    fn route(&mut self, out: RecordingOutbox, upwards: bool) {
        for (link, packet) in out.0 {
            let lossy = matches!(packet, Outgoing::Datagram(_)) && self.rng.f64() < self.loss;
            let way = if upwards { &mut self.up } else { &mut self.down };
            if !lossy {
                way.push_back((self.round + self.delay, link, packet));
            }
        }
    }

    fn arrived(way: &mut InFlight, round: u64) -> Vec<(Link, Outgoing)> {
        let mut arrived = Vec::new();
        while way.front().is_some_and(|(at, _, _)| *at <= round) {
            arrived.extend(way.pop_front().map(|(_, link, packet)| (link, packet)));
        }
        arrived
    }

    fn run(&mut self, rounds: u64, input: impl Fn(u64) -> i8) {
        for _ in 0..rounds {
            self.round += 1;
            let (now, mut out) = (self.now(), RecordingOutbox::default());
            for (link, packet) in Town::arrived(&mut self.up, self.round) {
                match packet {
                    Outgoing::Datagram(bytes) => self.server.datagram(link, &bytes, now),
                    Outgoing::Message(bytes) => self.server.message(link, &bytes, now, &mut out),
                    Outgoing::Close(_) => self.server.closed(link, now),
                }
            }
            self.host(&mut out);
            self.server.tick(Tick((self.round - self.dropped) as u32), now, &mut out);
            self.host(&mut out);
            self.route(out, false);
            for (link, packet) in Town::arrived(&mut self.down, self.round) {
                let Some(client) = self.clients.get_mut(&link) else { continue };
                match packet {
                    Outgoing::Datagram(bytes) => client.datagram(&bytes, now),
                    Outgoing::Message(bytes) => client.message(&bytes),
                    Outgoing::Close(_) => client.closed(),
                }
            }
            let mut out = RecordingOutbox::default();
            for client in self.clients.values_mut() {
                client.tick(now, &mut out, |_, _| input(self.round));
            }
            self.route(out, true);
        }
    }

    fn host(&mut self, out: &mut RecordingOutbox) {
        let now = self.now();
        while let Some(event) = self.server.poll() {
            match &event {
                ServerEvent::Asked { link, name, token } if token.is_empty() => {
                    let next = self.players.len() as u32 + 1;
                    let player = *self.players.entry(name.clone()).or_insert(next);
                    let kept = self.kept.remove(&player).unwrap_or_default();
                    self.server.admit(*link, PlayerId(player), &kept, now, out).unwrap();
                }
                ServerEvent::Asked { link, .. } => self.server.refuse(*link, Refusal::Token, out),
                ServerEvent::Left(player, kept) => {
                    self.kept.insert(player.0, kept.clone());
                }
                _ => {}
            }
            self.events.push(event);
        }
    }

    fn walker(&self, link: Link) -> Walker {
        let id = self.clients[&link].joined().unwrap().avatar;
        self.server.simulation.world().get::<Walker>(id).unwrap()
    }

    fn refused(&self, link: u64) -> Refusal {
        match self.clients[&Link(link)].phase() {
            ClientPhase::Refused(why, _) => *why,
            phase => panic!("{phase:?}"),
        }
    }
}

#[test]
fn a_player_joins_walks_at_once_and_is_seen_by_others() {
    let mut town = Town::new(ServerSettings::default());
    let (ada, bob) = (town.join(1, "ada"), town.join(2, "bob"));
    town.run(60, |_| 4);
    let counts = town.clients[&ada].counts();
    assert!(counts.foreseen > 20, "{counts:?}");
    assert_eq!(counts.corrected, 0, "{counts:?}");
    let (truth, id) = (town.walker(bob), town.clients[&bob].joined().unwrap().avatar);
    let seen = town.clients[&ada].replicas.get(id).unwrap();
    let there = seen.predicted(Tick(town.round as u32)).unwrap();
    assert!((there[0] - truth.pos[0]).abs() < 1.5, "{there:?} {truth:?}");
    let own = town.clients[&bob].own()[2] as f32 * 0.015625;
    assert!(own > truth.pos[0], "the own avatar is ahead of the server: {own} {truth:?}");
}

#[test]
fn prediction_ends_where_the_server_ends_whatever_is_lost() {
    for seed in 0..20 {
        let mut town = Town::new(ServerSettings::default());
        (town.delay, town.rng) = (2, fastrand::Rng::with_seed(seed));
        let ada = town.join(1, "ada");
        town.run(20, |_| 0);
        town.loss = 0.3;
        town.run(200, |round| (round / 7 % 9) as i8 - 4);
        town.loss = 0.0;
        town.run(60, |_| 0);
        let (client, truth) = (&town.clients[&ada], town.walker(ada));
        let own = client.own()[2] as f32 * 0.015625;
        assert_eq!(own, truth.pos[0], "seed {seed}: {:?}", client.counts());
    }
}

#[test]
fn who_breaks_off_comes_back_to_the_same_session() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join(1, "ada");
    town.run(40, |_| 4);
    let before = town.walker(ada);
    let mut client = town.clients.remove(&ada).unwrap();
    client.closed();
    town.server.closed(ada, town.now());
    town.run(40, |_| 0);
    let again = town.connect(Link(9), client);
    town.run(20, |_| 0);
    assert!(matches!(town.clients[&again].phase(), ClientPhase::Playing(_)));
    assert!(town.walker(again).pos[0] >= before.pos[0], "still where it was left");
    assert!(!town.events.iter().any(|event| matches!(event, ServerEvent::Left(..))));
    assert!(town.clients[&again].replicas.len() == 1);
}

#[test]
fn who_stays_away_leaves_and_finds_everything_again() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join(1, "ada");
    town.run(40, |_| 4);
    let before = town.walker(ada);
    town.clients.remove(&ada);
    town.server.closed(ada, town.now());
    town.run(220, |_| 0);
    assert_eq!(town.server.players(), 0);
    assert_eq!(town.server.simulation.publisher.store.len(), 0, "nothing is left behind");
    let again = town.join(2, "ada");
    town.run(10, |_| 0);
    assert!(town.walker(again).steps >= before.steps);
}

#[test]
fn the_wrong_ones_are_turned_away_by_name() {
    let mut town = Town::new(ServerSettings { max_players: 2, ..ServerSettings::default() });
    town.join(1, "ada");
    town.run(5, |_| 0);
    town.join(2, "ada");
    town.join(3, &"x".repeat(33));
    town.connect(Link(4), Client::new(game(), "eve", b"forged"));
    town.run(5, |_| 0);
    assert_eq!(town.refused(2), Refusal::NameTaken);
    assert_eq!(town.refused(3), Refusal::Name);
    assert_eq!(town.refused(4), Refusal::Token);
    town.join(5, "bob");
    town.run(5, |_| 0);
    town.join(6, "cid");
    town.run(5, |_| 0);
    assert_eq!(town.refused(6), Refusal::Full);
    let hello = |versions, schema| ClientMessage::<u8>::Hello {
        versions,
        schema,
        name: "old".into(),
        token: vec![],
        resume: None,
    };
    for (link, message) in [(7, hello(vec![99], 0)), (8, hello(vec![1], 3))] {
        let mut out = RecordingOutbox::default();
        town.server.connected(Link(link), &mut out);
        town.server.message(Link(link), &write_message(&message), town.now(), &mut out);
    }
    let mut out = RecordingOutbox::default();
    town.server.connected(Link(9), &mut out);
    town.server.message(Link(9), &[0xFF; 40], town.now(), &mut out);
    let sessions = &town.server.refusals().sessions;
    for why in [Refusal::Version, Refusal::Schema, Refusal::Malformed, Refusal::NameTaken] {
        assert_eq!(sessions.get(&why), Some(&1), "{why:?}");
    }
    assert_eq!(town.server.players(), 2, "the others were not disturbed");
}

#[test]
fn impossible_and_hasty_inputs_are_counted_and_change_nothing() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join(1, "ada");
    town.run(20, |_| 0);
    town.run(20, |_| 100);
    assert!(town.server.refusals().impossible >= 20);
    assert_eq!(town.walker(ada).pos[0], 0.0);
    let before = town.walker(ada).steps;
    for _ in 0..40 {
        // A client that runs ten times as fast.
        let (now, mut out) = (town.now(), RecordingOutbox::default());
        let client = town.clients.get_mut(&ada).unwrap();
        (0..9).for_each(|_| client.tick(now, &mut out, |_, _| 8));
        town.route(out, true);
        town.run(1, |_| 8);
    }
    let steps = town.walker(ada).steps - before;
    assert!(steps <= 2 * 40 + 8, "at most two inputs a tick: {steps}");
    assert!(town.server.refusals().hasty > 100);
}

#[test]
fn the_deaf_and_the_silent_are_let_go_of() {
    let mut town = Town::new(ServerSettings::default());
    let (ada, bob) = (town.join(1, "ada"), town.join(2, "bob"));
    town.run(20, |_| 1);
    // Bob's link is there, but nothing comes any more; Ada goes on but hears nothing.
    town.clients.remove(&bob);
    let deaf = town.clients.remove(&ada).unwrap();
    for seq in 1_000u16..1_230 {
        let mut bytes = vec![0x13, 0b10, 0, 0];
        bytes.extend(seq.to_le_bytes());
        bytes.push(0);
        town.server.datagram(ada, &bytes, town.now());
        town.run(1, |_| 0);
    }
    drop(deaf);
    assert_eq!(town.server.players(), 0);
    assert_eq!(town.server.refusals().sessions.get(&Refusal::Deaf), Some(&1));
}

#[test]
fn what_left_the_view_is_frozen_and_left_out_of_the_world_unless_asked_for() {
    let mut town = Town::new(ServerSettings::default());
    let (ada, bob) = (town.join(1, "ada"), town.join(2, "bob"));
    town.run(20, |_| 0);
    let id = town.clients[&bob].joined().unwrap().avatar;
    let seen = |town: &Town| {
        town.clients[&ada].see(town.now(), |world| {
            let all = world.with_frozen();
            let live = (world.get::<Walker>(id).is_some(), world.of_kind(KindId(0)).len());
            let near = world.near([60.0, 2.0, 0.0], 10.0).len();
            (world.liveness(id), live, near, all.get::<Walker>(id), all.of_kind(KindId(0)).len())
        })
    };
    let (life, live, _, _, all) = seen(&town);
    assert_eq!((life, live, all), (Some(Liveness::Live), (true, 2), 2));
    // Bob is carried off beyond Ada's reach of 50.
    let slot = town.server.simulation.publisher.store.find(id).unwrap();
    let gone = Walker { pos: [60.0, 2.0], steps: 0 };
    town.server.simulation.publisher.store.set(slot, &gone).unwrap();
    town.run(30, |_| 0);
    let (life, live, near, memory, all) = seen(&town);
    assert_eq!((life, live, near), (Some(Liveness::Frozen), (false, 1), 0));
    assert_eq!((memory, all), (Some(gone), 2), "as it was when it left");
    // Whose server is silent does not know what has become of the others.
    let back = Walker { pos: [1.0, 2.0], steps: 0 };
    town.server.simulation.publisher.store.set(slot, &back).unwrap();
    town.run(5, |_| 0);
    assert_eq!(seen(&town).0, Some(Liveness::Live), "it is back");
    town.round += 41;
    let (life, live, ..) = seen(&town);
    assert_eq!((life, live), (Some(Liveness::Lingering), (true, 2)));
    let unknown = ObjectId::new(KindId(0), 99, 0);
    let of = |id| town.clients[&ada].see(town.now(), |world| world.liveness(id));
    assert_eq!(
        (of(unknown), of(town.clients[&ada].joined().unwrap().avatar)),
        (None, Some(Liveness::Live))
    );
}

#[test]
fn events_are_told_to_those_who_are_near() {
    let mut town = Town::new(ServerSettings::default());
    let (ada, bob) = (town.join(1, "ada"), town.join(2, "bob"));
    for link in 3..20 {
        town.join(link, &format!("p{link}"));
    }
    town.run(20, |_| 0);
    let (now, mut out) = (town.now(), RecordingOutbox::default());
    let id = town.clients[&ada].joined().unwrap().avatar;
    town.clients[&bob].ask(id, 42, now, &mut out);
    town.route(out, true);
    town.run(6, |_| 0);
    let heard: Vec<u64> = town
        .clients
        .iter_mut()
        .filter_map(|(link, client)| {
            std::iter::from_fn(|| client.poll())
                .any(|news| matches!(news, News::Event(42)))
                .then_some(link.0)
        })
        .collect();
    assert_eq!(heard, [1, 2, 3, 4, 5, 6], "players stand one unit apart, and it carries five");
}

#[test]
fn a_view_counts_at_once() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join(1, "ada");
    for link in 2..30 {
        town.join(link, &format!("p{link}"));
    }
    town.run(20, |_| 0);
    assert_eq!(town.clients[&ada].replicas.len(), 29);
    let mut out = RecordingOutbox::default();
    town.clients[&ada].set_view(1, &mut out);
    town.clients[&ada].set_view(200, &mut out);
    town.route(out, true);
    town.run(300, |_| 0);
    assert_eq!(town.clients[&ada].replicas.len(), 6, "five units in the smaller view");
    assert_eq!(town.server.refusals().excess, 1, "there is no such view");
}

#[test]
fn states_keep_within_what_a_link_carries_and_others_are_not_affected() {
    let mut town = Town::new(ServerSettings { budget: None, ..ServerSettings::default() });
    let links: Vec<Link> = (1..=20).map(|link| town.join(link, &format!("p{link}"))).collect();
    let restless = |round: u64| [8, -4, 2, -8, 3][round as usize % 5];
    town.run(40, restless);
    let told = |town: &mut Town, which: usize| {
        let observer = town.server.present_players().nth(which).unwrap().observer;
        let bytes = |town: &Town| {
            town.server.simulation.publisher.observer(observer).unwrap().counters().bytes
        };
        let before = bytes(town);
        town.run(60, restless);
        (bytes(town) - before) / 60
    };
    let usual = told(&mut town, 0);
    assert!(usual > 40, "{usual} bytes a round");
    town.server.set_capacity(links[0], Some(Bytes(15)));
    town.run(10, restless);
    let narrow = told(&mut town, 0);
    assert!((7..=16).contains(&narrow), "{narrow} of 15 bytes a round");
    let other = told(&mut town, 1);
    assert!(other * 10 >= usual * 9, "{other} of {usual}");
    assert_eq!(town.server.present_players().next().unwrap().capacity, Some(Bytes(15)));
    town.server.set_capacity(links[0], None);
    town.run(10, restless);
    let again = told(&mut town, 0);
    assert!(again * 10 >= usual * 9, "{again} of {usual}");
}

#[test]
fn who_watches_another_sees_and_hears_what_is_near_them() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join(1, "ada");
    for link in 2..80 {
        town.join(link, &format!("p{link}"));
    }
    town.run(20, |_| 0);
    let far = town.clients[&Link(79)].joined().unwrap().avatar;
    let first = town.clients[&ada].joined().unwrap().avatar;
    assert!(town.clients[&ada].replicas.get(far).is_none(), "78 units away, and one sees 50");
    let mut out = RecordingOutbox::default();
    town.clients[&ada].watch(Some(far), &mut out);
    town.clients[&Link(79)].watch(Some(first), &mut out);
    town.clients[&ada].who(PlayerId(79), &mut out);
    town.clients[&ada].who(PlayerId(1_000), &mut out);
    town.route(out, true);
    town.run(20, |_| 0);
    assert!(town.clients[&ada].replicas.get(far).is_some());
    assert!(town.clients[&ada].replicas.get(first).is_some(), "one's own is not lost sight of");
    assert!(town.clients[&Link(79)].replicas.get(first).is_none(), "that was not allowed");
    assert_eq!(town.server.refusals().excess, 1);

    let (now, mut out) = (town.now(), RecordingOutbox::default());
    town.clients[&Link(79)].ask(far, 42, now, &mut out);
    town.route(out, true);
    town.run(6, |_| 0);
    let client = town.clients.get_mut(&ada).unwrap();
    let news: Vec<_> = std::iter::from_fn(|| client.poll()).collect();
    let named = |player: u32, name: &str| News::Named(PlayerId(player), name.into());
    assert!(news.contains(&named(79, "p79")) && news.contains(&named(1_000, "")));
    assert_eq!(news.iter().filter(|news| **news == News::Event(42)).count(), 1);

    let mut out = RecordingOutbox::default();
    town.clients[&ada].watch(None, &mut out);
    town.route(out, true);
    town.run(300, |_| 0);
    assert!(town.clients[&ada].replicas.get(far).is_none(), "out of sight again");
}

#[test]
fn an_operators_view_stands_above_players_choices_until_it_is_taken_back() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join(1, "ada");
    for link in 2..30 {
        town.join(link, &format!("p{link}"));
    }
    town.run(20, |_| 0);
    town.server.override_view(None, Some(presets::circle(3.0))).unwrap();
    let broken = View { view: Some(-1.0), ..presets::circle(1.0) };
    assert!(town.server.override_view(None, Some(broken)).is_err(), "the old one stays");
    let mut out = RecordingOutbox::default();
    town.clients[&ada].set_view(1, &mut out);
    town.route(out, true);
    let late = town.join(90, "late");
    town.run(300, |_| 0);
    assert_eq!(town.clients[&ada].replicas.len(), 4);
    assert_eq!(town.server.view_of(PlayerId(1)).unwrap().view, Some(3.0));
    let player = town.clients[&late].joined().unwrap().player;
    assert_eq!(town.server.view_of(player).unwrap().view, Some(3.0), "whoever comes later");
    town.server.override_view(Some(PlayerId(1)), Some(presets::circle(8.0))).unwrap();
    town.run(20, |_| 0);
    assert_eq!(town.clients[&ada].replicas.len(), 9, "for her alone");
    town.server.override_view(None, None).unwrap();
    town.run(300, |_| 0);
    assert_eq!(town.clients[&ada].replicas.len(), 6, "her own choice again");
    town.server.set_budget(Some(PlayerId(1)), Some(foveate_wire::Bytes(5)));
    let budgets: Vec<_> =
        town.server.present_players().take(2).map(|present| present.budget).collect();
    assert_eq!(budgets, [Some(foveate_wire::Bytes(5)), ServerSettings::default().budget]);
}

#[test]
fn a_clients_clock_follows_a_server_that_stood_still() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join(1, "ada");
    town.run(100, |_| 4);
    // Three seconds in which nothing happens: the server drops those rounds.
    town.round += 60;
    town.dropped += 60;
    town.run(100, |_| 4);
    let (shown, played) = (town.clients[&ada].tick_now(town.now()), town.round - town.dropped);
    assert!(u64::from(shown.0) <= played, "{shown:?} is shown while the server is at {played}");
}

#[test]
fn who_was_not_kept_comes_back_with_a_new_avatar() {
    let mut town = Town::new(ServerSettings::default());
    let forgetful = Arc::new(Walk(Arc::clone(&game().0), false));
    town.server = Server::new(forgetful, ServerSettings::default(), keys());
    for link in 1..4 {
        let ada = town.join(link, "ada");
        town.run(20, |_| 4);
        assert!(matches!(town.clients[&ada].phase(), ClientPhase::Playing(_)), "time {link}");
        let mut out = RecordingOutbox::default();
        town.clients.remove(&ada).unwrap().leave(&mut out);
        town.route(out, true);
        town.run(5, |_| 0);
        assert_eq!(town.server.simulation.publisher.store.len(), 0, "nothing is left behind");
    }
}

#[test]
fn a_link_joins_only_under_the_name_that_was_authenticated() {
    let mut town = Town::new(ServerSettings::default());
    let hello = |name: &str, token: &[u8]| ClientMessage::<u8>::Hello {
        versions: vec![1],
        schema: game().schema().hash(),
        name: name.into(),
        token: token.into(),
        resume: None,
    };
    let (link, now, mut out) = (Link(7), town.now(), RecordingOutbox::default());
    town.server.connected(link, &mut out);
    // Of the two names the authenticator accepts the first only.
    town.server.message(link, &write_message(&hello("eve", b"")), now, &mut out);
    town.server.message(link, &write_message(&hello("ada", b"forged")), now, &mut out);
    town.host(&mut out);
    let names: Vec<_> =
        town.server.present_players().map(|present| present.name.to_owned()).collect();
    assert!(!names.contains(&"ada".to_owned()), "{names:?}");
}

#[test]
fn a_client_that_runs_twice_as_fast_is_not_faster() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join(1, "ada");
    town.run(20, |_| 1);
    let before = town.walker(ada).steps;
    for _ in 0..200 {
        let (now, mut out) = (town.now(), RecordingOutbox::default());
        town.clients.get_mut(&ada).unwrap().tick(now, &mut out, |_, _| 1);
        town.route(out, true);
        town.run(1, |_| 1);
    }
    let steps = town.walker(ada).steps - before;
    assert!(steps <= 200 + 16, "{steps} steps in 200 ticks");
}

#[test]
fn who_was_held_up_catches_up() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join(1, "ada");
    town.run(40, |_| 1);
    let before = town.walker(ada).steps;
    // For six rounds nothing gets through; then everything at once.
    town.up.iter_mut().for_each(|(at, ..)| *at += 6);
    town.delay = 7;
    for _ in 0..6 {
        town.run(1, |_| 1);
        town.delay -= 1;
    }
    town.run(30, |_| 1);
    let steps = town.walker(ada).steps - before;
    assert!((32..=38).contains(&steps), "{steps} steps in 36 ticks");
}

#[test]
fn who_comes_back_stands_where_the_server_has_them() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join(1, "ada");
    town.run(40, |_| 0);
    // The last steps get lost with the link; meanwhile the avatar is pushed.
    town.loss = 1.0;
    town.run(4, |_| 8);
    town.loss = 0.0;
    let mut client = town.clients.remove(&ada).unwrap();
    client.closed();
    town.server.closed(ada, town.now());
    let avatar = ObjectId::new(KindId(0), 1, 0);
    town.server.simulation.ask(avatar, PUSH, Requester::Object(avatar));
    town.run(20, |_| 0);
    let again = town.connect(Link(9), client);
    town.run(40, |_| 0);
    let (truth, own) = (town.walker(again), town.clients[&again].own());
    let own = [own[2], own[3]].map(|steps| steps as f32 * 0.015625);
    assert_eq!(own, truth.pos);
    let rtt = town.clients[&again].rtt().unwrap();
    assert!(rtt < Micros::from_millis(300), "{rtt:?} is the break, not the round trip");
}

#[test]
fn who_waits_at_the_door_takes_a_place() {
    let mut town = Town::new(ServerSettings { max_players: 2, ..ServerSettings::default() });
    for link in 1..=4 {
        town.join(link, &format!("p{link}"));
    }
    town.run(10, |_| 0);
    assert_eq!(town.server.players(), 2);
    assert_eq!(town.server.refusals().sessions.get(&Refusal::Full), Some(&2));
}

#[test]
fn who_stops_after_steps_that_were_lost_is_put_right() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join(1, "ada");
    town.run(40, |_| 0);
    // More steps than a datagram repeats, then none.
    town.loss = 1.0;
    town.run(8, |_| 8);
    town.run(8, |_| 0);
    town.loss = 0.0;
    town.run(60, |_| 0);
    let own = town.clients[&ada].own()[2] as f32 * 0.015625;
    assert_eq!(own, town.walker(ada).pos[0]);
}

#[test]
fn nothing_is_said_between_the_hello_and_the_welcome() {
    let mut client = Client::new(game(), "ada", &[]);
    let (mut out, now) = (RecordingOutbox::default(), Micros::from_millis(50));
    client.connected(Link(1), &mut out);
    assert_eq!(out.0.len(), 1, "the hello");
    client.set_view(1, &mut out);
    client.watch(None, &mut out);
    client.who(PlayerId(1), &mut out);
    client.ask(ObjectId::new(KindId(0), 1, 0), PUSH, now, &mut out);
    assert_eq!(out.0.len(), 1, "a server refuses who speaks out of turn");
}

#[test]
fn who_never_says_hello_loses_the_link() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join(1, "ada");
    let mut out = RecordingOutbox::default();
    town.server.connected(Link(7), &mut out);
    assert!(out.0.is_empty());
    town.run(190, |_| 0);
    assert_eq!(town.server.refusals().sessions.get(&Refusal::Deaf), None);
    town.run(20, |_| 0);
    assert_eq!(town.server.refusals().sessions.get(&Refusal::Deaf), Some(&1));
    assert!(matches!(town.clients[&ada].phase(), ClientPhase::Playing(_)));
}
