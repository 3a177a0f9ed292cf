//! Joining, playing, reconnecting and being rejected, in virtual time.

mod early;
mod events;
mod hostile;

use foveate_lab::net::{LinkSpec, Loss};
use foveate_lab::network::{NetworkSpec, Placement, SessionNetwork};
use foveate_node::client::{ClientPhase, News};
use foveate_node::game::{
    EventArea, Game, Liveness, PlayerId, Requester, Spawn, StepContext, World,
};
use foveate_node::node::ClientCommand;
use foveate_node::outbox::RecordingOutbox;
use foveate_node::server::{Keys, ServerEvent, ServerSettings};
use foveate_node::session::{ClientMessage, Refusal, ResumeKey, write_message};
use foveate_node::{Client, Link, Server};
use foveate_sync::interest::{View, presets};
use foveate_wire::{Bytes, KindId, Micros, ObjectId, Replicate, Schema, Tick};
use std::sync::Arc;

#[derive(Replicate, Clone, PartialEq, Debug)]
#[replicate(max_speed = 20.0)]
struct Walker {
    #[replicate(place, motion, precision = 0.015625, extent = 1000.0)]
    pos: [f32; 2],
    steps: u16,
}

/// The game's schema, and whether it keeps the avatars of players that left.
struct Walk(Arc<Schema>, bool);

/// Events that are sent reliably.
const RELIABLE: std::ops::Range<u8> = 100..150;
/// An avatar with this many steps is a scout.
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

    /// Scouts also see from the second player's avatar.
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

    /// No player may watch the first one.
    fn may_watch(&self, _: &World<'_>, _: ObjectId, object: ObjectId) -> bool {
        object.origin() != 1
    }
}

fn game() -> Arc<Walk> {
    Arc::new(Walk(Arc::new(Schema::new(vec![Walker::spec()]).unwrap()), true))
}

/// Keys that differ, and need not be secret here.
fn keys() -> Keys {
    let mut next = 0u8;
    Box::new(move || {
        next = next.wrapping_add(1);
        ResumeKey([next; 16])
    })
}

const ROUND: Micros = Micros(50_000);
/// Links that the network does not know: clients that have not joined.
const STRANGER: u64 = 1_000;

/// A server and its clients, about a round away each way. Clients are identified by their places.
struct Town {
    sessions: SessionNetwork<Walk>,
    round: u64,
    delay: u32,
}

impl Town {
    fn new(settings: ServerSettings) -> Town {
        Town::seeded(settings, 1, 1)
    }

    fn seeded(settings: ServerSettings, delay: u32, seed: u64) -> Town {
        let spec = NetworkSpec::delayed(ROUND * delay - Micros(10_000), seed);
        Town { sessions: SessionNetwork::new(game(), settings, spec), round: 0, delay }
    }

    fn now(&self) -> Micros {
        self.sessions.network.now()
    }

    fn join(&mut self, name: &str) -> usize {
        self.sessions.join(name, &[])
    }

    fn server(&mut self) -> &mut Server<Walk> {
        self.sessions.server().unwrap()
    }

    fn client(&mut self, at: usize) -> &mut Client<Walk> {
        self.sessions.client(at).unwrap()
    }

    fn avatar(&mut self, at: usize) -> ObjectId {
        self.client(at).joined().unwrap().avatar
    }

    /// Sets the share of datagrams that are lost from now on.
    fn set_loss(&mut self, share: f64) {
        let spec = NetworkSpec::delayed(ROUND * self.delay - Micros(10_000), 1);
        let loss = Loss::Bernoulli(share);
        self.sessions.network.set_spec(NetworkSpec { loss, ..spec });
    }

    fn run(&mut self, rounds: u64, input: impl Fn(u64) -> i8) {
        for _ in 0..rounds {
            self.round += 1;
            let input = input(self.round);
            self.sessions.run(ROUND, |_, _, client, _| client.set_input(input));
        }
    }

    /// The clients' news since the last call.
    fn news(&mut self, at: usize) -> Vec<News<u8>> {
        let all = &mut self.sessions.news;
        all.extract_if(.., |(of, _)| *of == at).map(|(_, news)| news).collect()
    }

    fn walker(&mut self, at: usize) -> Walker {
        let id = self.avatar(at);
        self.server().simulation.world().get::<Walker>(id).unwrap()
    }

    fn put(&mut self, id: ObjectId, walker: &Walker) {
        let store = &mut self.server().simulation.publisher.store;
        store.set(store.find(id).unwrap(), walker).unwrap();
    }

    fn refused(&mut self, at: usize) -> Refusal {
        match self.client(at).phase() {
            ClientPhase::Refused(why, _) => *why,
            phase => panic!("{phase:?}"),
        }
    }
}

#[test]
fn a_player_joins_walks_at_once_and_is_seen_by_others() {
    let mut town = Town::new(ServerSettings::default());
    let (ada, bob) = (town.join("ada"), town.join("bob"));
    town.run(60, |_| 4);
    let counts = town.client(ada).counts();
    assert!(counts.foreseen > 20, "{counts:?}");
    assert_eq!(counts.corrected, 0, "{counts:?}");
    let (truth, id) = (town.walker(bob), town.avatar(bob));
    let tick = Tick(town.round as u32);
    let there = town.client(ada).replicas.get(id).unwrap().predicted(tick).unwrap();
    assert!((there[0] - truth.pos[0]).abs() < 1.5, "{there:?} {truth:?}");
    let own = town.client(bob).own()[2] as f32 * 0.015625;
    assert!(own > truth.pos[0], "the own avatar is ahead of the server: {own} {truth:?}");
}

#[test]
fn prediction_ends_where_the_server_ends_whatever_is_lost() {
    for seed in 0..20 {
        let mut town = Town::seeded(ServerSettings::default(), 2, seed);
        let ada = town.join("ada");
        town.run(20, |_| 0);
        town.set_loss(0.3);
        town.run(200, |round| (round / 7 % 9) as i8 - 4);
        town.set_loss(0.0);
        town.run(60, |_| 0);
        let truth = town.walker(ada);
        let client = town.client(ada);
        let own = client.own()[2] as f32 * 0.015625;
        assert_eq!(own, truth.pos[0], "seed {seed}: {:?}", client.counts());
    }
}

#[test]
fn a_client_that_reconnects_resumes_its_session() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join("ada");
    town.run(40, |_| 4);
    let before = town.walker(ada);
    town.sessions.cut(ada);
    town.run(40, |_| 0);
    town.sessions.connect(ada);
    town.run(20, |_| 0);
    assert!(matches!(town.client(ada).phase(), ClientPhase::Playing(_)));
    assert!(town.walker(ada).pos[0] >= before.pos[0], "still where it was left");
    assert!(
        !town.sessions.server_events.iter().any(|event| matches!(event, ServerEvent::Left(..)))
    );
    assert!(town.client(ada).replicas.len() == 1);
}

#[test]
fn a_client_that_stays_away_leaves_and_gets_its_objects_back() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join("ada");
    town.run(40, |_| 4);
    let before = town.walker(ada);
    town.sessions.cut(ada);
    town.run(220, |_| 0);
    assert_eq!(town.server().players(), 0);
    assert_eq!(town.server().simulation.publisher.store.len(), 0, "nothing is left behind");
    let again = town.join("ada");
    town.run(10, |_| 0);
    assert!(town.walker(again).steps >= before.steps);
}

#[test]
fn invalid_clients_are_rejected_with_the_reason() {
    let mut town = Town::new(ServerSettings { max_players: 2, ..ServerSettings::default() });
    town.join("ada");
    town.run(5, |_| 0);
    town.join("ada");
    town.join(&"x".repeat(33));
    town.sessions.join("eve", b"forged");
    town.run(5, |_| 0);
    assert_eq!(town.refused(2), Refusal::NameTaken);
    assert_eq!(town.refused(3), Refusal::Name);
    assert_eq!(town.refused(4), Refusal::Token);
    town.join("bob");
    town.run(5, |_| 0);
    town.join("cid");
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
        let (link, now, mut out) = (Link(STRANGER + link), town.now(), RecordingOutbox::default());
        town.server().connected(link, &mut out);
        town.server().message(link, &write_message(&message), now, &mut out);
    }
    let (link, now, mut out) = (Link(STRANGER), town.now(), RecordingOutbox::default());
    town.server().connected(link, &mut out);
    town.server().message(link, &[0xFF; 40], now, &mut out);
    let sessions = town.server().refusals().sessions.clone();
    for why in [Refusal::Version, Refusal::Schema, Refusal::Malformed, Refusal::NameTaken] {
        assert_eq!(sessions.get(&why), Some(&1), "{why:?}");
    }
    assert_eq!(town.server().players(), 2, "the others were not disturbed");
}

#[test]
fn impossible_and_hasty_inputs_are_counted_and_change_nothing() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join("ada");
    town.run(20, |_| 0);
    town.run(20, |_| 100);
    assert!(town.server().refusals().impossible >= 20);
    assert_eq!(town.walker(ada).pos[0], 0.0);
    let before = town.walker(ada).steps;
    for _ in 0..40 {
        // A client whose clock runs ten times as fast.
        town.sessions.act(ada, |client, now, out| {
            (0..9).for_each(|_| client.tick(now, out, |_, _| 8));
        });
        town.run(1, |_| 8);
    }
    let steps = town.walker(ada).steps - before;
    assert!(steps <= 2 * 40 + 8, "at most two inputs a tick: {steps}");
    assert!(town.server().refusals().hasty > 100);
}

#[test]
fn players_that_acknowledge_nothing_or_send_nothing_are_evicted() {
    let mut town = Town::new(ServerSettings::default());
    let (ada, bob) = (town.join("ada"), town.join("bob"));
    town.run(20, |_| 1);
    // Bob's link is up, but nothing arrives any more. Ada goes on sending, but receives nothing.
    let link = town.sessions.network.link_between(ada, 0).unwrap();
    [ada, bob].into_iter().for_each(|at| drop(town.sessions.network.crash(at)));
    for seq in 1_000u16..1_230 {
        let mut bytes = vec![0x13, 0b10, 0, 0];
        bytes.extend(seq.to_le_bytes());
        bytes.push(0);
        let now = town.now();
        town.server().datagram(link, &bytes, now);
        town.run(1, |_| 0);
    }
    assert_eq!(town.server().players(), 0);
    assert_eq!(town.server().refusals().sessions.get(&Refusal::Timeout), Some(&1));
}

#[test]
fn objects_out_of_view_are_frozen_and_not_in_the_world_unless_requested() {
    let mut town = Town::new(ServerSettings::default());
    let (ada, bob) = (town.join("ada"), town.join("bob"));
    town.run(20, |_| 0);
    let id = town.avatar(bob);
    let seen = |town: &mut Town, later: Micros| {
        let now = town.now() + later;
        town.client(ada).see(now, |world| {
            let all = world.with_frozen();
            let live = (world.get::<Walker>(id).is_some(), world.of_kind(KindId(0)).len());
            let near = world.near([60.0, 2.0, 0.0], 10.0).len();
            (world.liveness(id), live, near, all.get::<Walker>(id), all.of_kind(KindId(0)).len())
        })
    };
    let (life, live, _, _, all) = seen(&mut town, Micros::ZERO);
    assert_eq!((life, live, all), (Some(Liveness::Live), (true, 2), 2));
    // Bob is moved beyond Ada's reach of 50.
    let gone = Walker { pos: [60.0, 2.0], steps: 0 };
    town.put(id, &gone);
    town.run(30, |_| 0);
    let (life, live, near, memory, all) = seen(&mut town, Micros::ZERO);
    assert_eq!((life, live, near), (Some(Liveness::Frozen), (false, 1), 0));
    assert_eq!((memory, all), (Some(gone), 2), "as it was when it left");
    // A client whose server is silent does not know what became of the others.
    let back = Walker { pos: [1.0, 2.0], steps: 0 };
    town.put(id, &back);
    town.run(5, |_| 0);
    assert_eq!(seen(&mut town, Micros::ZERO).0, Some(Liveness::Live), "it is back");
    let (life, live, ..) = seen(&mut town, ROUND * 41);
    assert_eq!((life, live), (Some(Liveness::Lingering), (true, 2)));
    let unknown = ObjectId::new(KindId(0), 99, 0);
    let (now, own) = (town.now() + ROUND * 41, town.avatar(ada));
    let of = |id| town.client(ada).see(now, |world| world.liveness(id));
    assert_eq!([unknown, own].map(of), [None, Some(Liveness::Live)]);
}

#[test]
fn events_are_sent_to_near_players() {
    let mut town = Town::new(ServerSettings::default());
    let (ada, bob) = (town.join("ada"), town.join("bob"));
    for link in 3..20 {
        town.join(&format!("p{link}"));
    }
    town.run(20, |_| 0);
    let id = town.avatar(ada);
    town.sessions.tell(bob, ClientCommand::Ask(id, 42));
    town.run(6, |_| 0);
    let heard = (1..20).filter(|at| town.news(*at).contains(&News::Event(42)));
    let heard: Vec<usize> = heard.collect();
    assert_eq!(heard, [1, 2, 3, 4, 5, 6], "players stand one unit apart, and it carries five");
}

#[test]
fn a_view_takes_effect_at_once() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join("ada");
    for link in 2..30 {
        town.join(&format!("p{link}"));
    }
    town.run(20, |_| 0);
    assert_eq!(town.client(ada).replicas.len(), 29);
    town.sessions.tell(ada, ClientCommand::SetView(1));
    town.sessions.tell(ada, ClientCommand::SetView(200));
    town.run(300, |_| 0);
    assert_eq!(town.client(ada).replicas.len(), 6, "five units in the smaller view");
    assert_eq!(town.server().refusals().excess, 1, "there is no such view");
}

#[test]
fn states_keep_within_what_a_link_carries_and_others_are_not_affected() {
    let mut town = Town::new(ServerSettings { budget: None, ..ServerSettings::default() });
    (1..=20).for_each(|link| _ = town.join(&format!("p{link}")));
    let link = town.sessions.network.link_between(1, 0).unwrap();
    let restless = |round: u64| [8, -4, 2, -8, 3][round as usize % 5];
    town.run(40, restless);
    let told = |town: &mut Town, which: usize| {
        let observer = town.server().present_players().nth(which).unwrap().observer;
        let bytes = |town: &mut Town| {
            town.server().simulation.publisher.observer(observer).unwrap().counters().bytes
        };
        let before = bytes(town);
        town.run(60, restless);
        (bytes(town) - before) / 60
    };
    let usual = told(&mut town, 0);
    assert!(usual > 40, "{usual} bytes a round");
    town.server().set_capacity(link, Some(Bytes(15)));
    town.run(10, restless);
    let narrow = told(&mut town, 0);
    assert!((7..=16).contains(&narrow), "{narrow} of 15 bytes a round");
    let other = told(&mut town, 1);
    assert!(other * 10 >= usual * 9, "{other} of {usual}");
    assert_eq!(town.server().present_players().next().unwrap().capacity, Some(Bytes(15)));
    town.server().set_capacity(link, None);
    town.run(10, restless);
    let again = told(&mut town, 0);
    assert!(again * 10 >= usual * 9, "{again} of {usual}");
}

#[test]
fn a_spectator_gets_states_and_events_near_the_watched_player() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join("ada");
    for link in 2..80 {
        town.join(&format!("p{link}"));
    }
    town.run(20, |_| 0);
    let far = town.avatar(79);
    let first = town.avatar(ada);
    assert!(town.client(ada).replicas.get(far).is_none(), "78 units away, and one sees 50");
    town.sessions.tell(ada, ClientCommand::Watch(Some(far)));
    town.sessions.tell(79, ClientCommand::Watch(Some(first)));
    town.sessions.tell(ada, ClientCommand::Who(PlayerId(79)));
    town.sessions.tell(ada, ClientCommand::Who(PlayerId(1_000)));
    town.run(20, |_| 0);
    assert!(town.client(ada).replicas.get(far).is_some());
    assert!(town.client(ada).replicas.get(first).is_some(), "one's own is not lost sight of");
    assert!(town.client(79).replicas.get(first).is_none(), "that was not allowed");
    assert_eq!(town.server().refusals().excess, 1);

    town.sessions.tell(79, ClientCommand::Ask(far, 42));
    town.run(6, |_| 0);
    let news = town.news(ada);
    let named = |player: u32, name: &str| News::Named(PlayerId(player), name.into());
    assert!(news.contains(&named(79, "p79")) && news.contains(&named(1_000, "")));
    assert_eq!(news.iter().filter(|news| **news == News::Event(42)).count(), 1);

    town.sessions.tell(ada, ClientCommand::Watch(None));
    town.run(300, |_| 0);
    assert!(town.client(ada).replicas.get(far).is_none(), "out of sight again");
}

#[test]
fn an_operators_view_overrides_players_choices_until_it_is_withdrawn() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join("ada");
    for link in 2..30 {
        town.join(&format!("p{link}"));
    }
    town.run(20, |_| 0);
    town.server().override_view(None, Some(presets::circle(3.0))).unwrap();
    let broken = View { view: Some(-1.0), ..presets::circle(1.0) };
    assert!(town.server().override_view(None, Some(broken)).is_err(), "the old one stays");
    town.sessions.tell(ada, ClientCommand::SetView(1));
    let late = town.join("late");
    town.run(300, |_| 0);
    assert_eq!(town.client(ada).replicas.len(), 4);
    assert_eq!(town.server().view_of(PlayerId(1)).unwrap().view, Some(3.0));
    let player = town.client(late).joined().unwrap().player;
    assert_eq!(town.server().view_of(player).unwrap().view, Some(3.0), "a player that joins later");
    town.server().override_view(Some(PlayerId(1)), Some(presets::circle(8.0))).unwrap();
    town.run(20, |_| 0);
    assert_eq!(town.client(ada).replicas.len(), 9, "for her alone");
    town.server().override_view(None, None).unwrap();
    town.run(300, |_| 0);
    assert_eq!(town.client(ada).replicas.len(), 6, "her own choice again");
    town.server().set_budget(Some(PlayerId(1)), Some(foveate_wire::Bytes(5)));
    let budgets: Vec<_> =
        town.server().present_players().take(2).map(|present| present.budget).collect();
    assert_eq!(budgets, [Some(foveate_wire::Bytes(5)), ServerSettings::default().budget]);
}

#[test]
fn a_clients_clock_follows_a_server_that_was_paused() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join("ada");
    town.run(100, |_| 4);
    // The server is paused for three seconds, and drops those rounds.
    [0, ada].into_iter().for_each(|at| town.sessions.network.pause(at, true));
    town.run(60, |_| 4);
    [0, ada].into_iter().for_each(|at| town.sessions.network.pause(at, false));
    town.run(100, |_| 4);
    let (now, played) = (town.now(), town.server().simulation.publisher.store.tick().0);
    let shown = town.client(ada).tick_now(now);
    assert!(shown.0 <= played, "{shown:?} is shown while the server is at {played}");
}

#[test]
fn a_player_whose_avatar_is_not_kept_comes_back_with_a_new_one() {
    let mut town = Town::new(ServerSettings::default());
    let forgetful = Arc::new(Walk(Arc::clone(&game().0), false));
    let server = Server::new(forgetful, ServerSettings::default(), keys());
    town.sessions.place_server(server, Placement::PLAIN);
    for link in 1..4 {
        let ada = town.join("ada");
        town.run(20, |_| 4);
        assert!(matches!(town.client(ada).phase(), ClientPhase::Playing(_)), "time {link}");
        town.sessions.tell(ada, ClientCommand::Leave);
        drop(town.sessions.network.crash(ada));
        town.run(5, |_| 0);
        assert_eq!(town.server().simulation.publisher.store.len(), 0, "nothing is left behind");
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
    let (link, now, mut out) = (Link(STRANGER), town.now(), RecordingOutbox::default());
    town.server().connected(link, &mut out);
    // The authenticator accepts only the first of the two names.
    town.server().message(link, &write_message(&hello("eve", b"")), now, &mut out);
    town.server().message(link, &write_message(&hello("ada", b"forged")), now, &mut out);
    town.run(1, |_| 0);
    let names: Vec<_> =
        town.server().present_players().map(|present| present.name.to_owned()).collect();
    assert!(!names.contains(&"ada".to_owned()), "{names:?}");
}

#[test]
fn a_client_that_runs_twice_as_fast_is_not_faster() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join("ada");
    town.run(20, |_| 1);
    let before = town.walker(ada).steps;
    for _ in 0..200 {
        town.sessions.act(ada, |client, now, out| client.tick(now, out, |_, _| 1));
        town.run(1, |_| 1);
    }
    let steps = town.walker(ada).steps - before;
    assert!(steps <= 200 + 16, "{steps} steps in 200 ticks");
}

#[test]
fn a_delayed_client_catches_up() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join("ada");
    town.run(40, |_| 1);
    let before = town.walker(ada).steps;
    // For six rounds no packet gets through; then all of them arrive at once.
    let link = town.sessions.network.link_between(ada, 0).unwrap();
    for rounds in (1..=6).rev() {
        let slow = LinkSpec::delayed(ROUND * rounds + Micros(40_000));
        town.sessions.network.set_link(link, ada, slow);
        town.run(1, |_| 1);
    }
    town.sessions.network.set_link(link, ada, LinkSpec::delayed(Micros(40_000)));
    town.run(30, |_| 1);
    let steps = town.walker(ada).steps - before;
    assert!((32..=38).contains(&steps), "{steps} steps in 36 ticks");
}

#[test]
fn a_client_that_comes_back_is_where_the_server_has_it() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join("ada");
    town.run(40, |_| 0);
    // The last steps are lost with the link; meanwhile the avatar is pushed.
    town.set_loss(1.0);
    town.run(4, |_| 8);
    town.set_loss(0.0);
    town.sessions.cut(ada);
    let avatar = ObjectId::new(KindId(0), 1, 0);
    town.server().simulation.ask(avatar, PUSH, Requester::Object(avatar));
    town.run(20, |_| 0);
    town.sessions.connect(ada);
    town.run(40, |_| 0);
    let (truth, own) = (town.walker(ada), town.client(ada).own());
    let own = [own[2], own[3]].map(|steps| steps as f32 * 0.015625);
    assert_eq!(own, truth.pos);
    let rtt = town.client(ada).rtt().unwrap();
    assert!(rtt < Micros::from_millis(300), "{rtt:?} is the break, not the round trip");
}

#[test]
fn a_player_that_waits_for_admission_takes_a_place() {
    let mut town = Town::new(ServerSettings { max_players: 2, ..ServerSettings::default() });
    for link in 1..=4 {
        town.join(&format!("p{link}"));
    }
    town.run(10, |_| 0);
    assert_eq!(town.server().players(), 2);
    assert_eq!(town.server().refusals().sessions.get(&Refusal::Full), Some(&2));
}

#[test]
fn a_client_that_stops_after_lost_steps_is_corrected() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join("ada");
    town.run(40, |_| 0);
    // More steps than a datagram repeats, then none.
    town.set_loss(1.0);
    town.run(8, |_| 8);
    town.run(8, |_| 0);
    town.set_loss(0.0);
    town.run(60, |_| 0);
    let own = town.client(ada).own()[2] as f32 * 0.015625;
    assert_eq!(own, town.walker(ada).pos[0]);
}

#[test]
fn a_client_sends_nothing_between_the_hello_and_the_welcome() {
    let mut client = Client::new(game(), "ada", &[]);
    let (mut out, now) = (RecordingOutbox::default(), Micros::from_millis(50));
    client.connected(Link(1), &mut out);
    assert_eq!(out.0.len(), 1, "the hello");
    client.set_view(1, &mut out);
    client.watch(None, &mut out);
    client.who(PlayerId(1), &mut out);
    client.ask(ObjectId::new(KindId(0), 1, 0), PUSH, now, &mut out);
    assert_eq!(out.0.len(), 1, "the server would reject a message out of order");
}

#[test]
fn a_link_without_a_hello_times_out() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join("ada");
    let mut out = RecordingOutbox::default();
    town.server().connected(Link(STRANGER), &mut out);
    assert!(out.0.is_empty());
    town.run(190, |_| 0);
    assert_eq!(town.server().refusals().sessions.get(&Refusal::HandshakeTimeout), None);
    town.run(20, |_| 0);
    assert_eq!(town.server().refusals().sessions.get(&Refusal::HandshakeTimeout), Some(&1));
    assert!(matches!(town.client(ada).phase(), ClientPhase::Playing(_)));
}
