//! A server as a window: the rules run on another stage, and a client plays there as at any server.

use foveate_node::client::{News, Phase};
use foveate_node::game::{By, Game, PlayerId, Spawn, Turn, World};
use foveate_node::outbox::{Letter, Letters};
use foveate_node::server::{ServerEvent, Settings};
use foveate_node::session::{Refusal, ResumeKey};
use foveate_node::{Client, Link, Server, Stage};
use foveate_sync::Rounds;
use foveate_sync::interest::{View, presets};
use foveate_wire::{KindId, Micros, ObjectId, OwnerId, Replicate, Schema, Tick};
use std::sync::Arc;

#[derive(Replicate, Clone, PartialEq, Debug)]
#[replicate(max_speed = 20.0)]
struct Walker {
    #[replicate(place, motion, precision = 0.015625, extent = 1000.0)]
    pos: [f32; 2],
    asked: u8,
}

struct Walk(Arc<Schema>);

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

    fn welcome(&self, _: &World<'_>, _: PlayerId, _: &str) -> Vec<Spawn> {
        Spawn::new(&self.0, &Walker { pos: [0.0; 2], asked: 0 }).into_iter().collect()
    }

    fn step(&self, turn: &mut Turn<'_, Self>, inputs: &[i8]) {
        let Some(mut walker) = turn.get::<Walker>() else { return };
        inputs.iter().for_each(|input| walker.pos[0] += f32::from(*input) / 8.0);
        turn.set(&walker);
    }

    fn act(&self, turn: &mut Turn<'_, Self>, action: &u8, by: By) {
        let Some(mut walker) = turn.get::<Walker>() else { return };
        if matches!(by, By::Player(ME, _)) {
            walker.asked = *action;
            turn.set(&walker);
        }
    }

    fn view(&self, which: u8) -> Option<View> {
        (which < 2).then(|| presets::circle(50.0))
    }
}

const ME: PlayerId = PlayerId(77);
const LINK: Link = Link(1);

/// A stage that plays, a window to it, and somebody who sits there.
struct House {
    stage: Stage<Walk>,
    window: Server<Walk>,
    client: Client<Walk>,
    round: u32,
    up: Vec<(Link, Letter)>,
    refused: Vec<Refusal>,
}

impl House {
    /// The world is old already when the window is opened.
    fn new() -> House {
        let game = Arc::new(Walk(Arc::new(Schema::new(vec![Walker::spec()]).unwrap())));
        let rounds = Rounds::every(Micros(50_000));
        let mut stage = Stage::new(Arc::clone(&game), rounds).owned_by(OwnerId(ME.0));
        for spawn in game.welcome(&stage.world(), ME, "") {
            stage.spawn(ME, &spawn).unwrap();
        }
        let settings = Settings { max_players: 1, ..Settings::default() };
        let window = Server::new(Arc::clone(&game), settings, Box::new(|| ResumeKey([1; 16])));
        let client = Client::new(game, "ada", &[]);
        let (up, refused) = (Vec::new(), Vec::new());
        House { stage, window, client, round: 70_000, up, refused }
    }

    fn now(&self) -> Micros {
        Micros(50_000 * u64::from(self.round))
    }

    fn sit_down(&mut self) {
        let mut out = Letters::default();
        self.client.connected(LINK, &mut out);
        self.window.connected(LINK, &mut Letters::default());
        self.up.extend(out.0);
    }

    fn run(&mut self, rounds: u32, input: i8, happened: &[u8]) {
        for _ in 0..rounds {
            self.round += 1;
            let (now, mut out) = (self.now(), Letters::default());
            for (link, letter) in std::mem::take(&mut self.up) {
                match letter {
                    Letter::Datagram(bytes) => self.window.datagram(link, &bytes, now),
                    Letter::Message(bytes) => self.window.message(link, &bytes, now, &mut out),
                    Letter::Close(_) => self.window.closed(link, now),
                }
            }
            while let Some(event) = self.window.poll() {
                match event {
                    ServerEvent::Asked { link, .. } => {
                        self.window.admit(link, ME, &[], now, &mut out).unwrap();
                    }
                    ServerEvent::Refused(why) => self.refused.push(why),
                    _ => {}
                }
            }
            let avatar = ObjectId::new(KindId(0), ME.0, 0);
            self.window.take_inputs(|player, input| {
                assert_eq!(player, ME);
                self.stage.input(avatar, input);
            });
            for (object, action, by) in self.window.take_asks() {
                self.stage.ask(object, action, by);
            }
            self.stage.step(Tick(self.round), |_, _| {});
            self.stage.publisher.round(Tick(self.round), now, |_, _| {});
            self.window.show(&self.stage, happened, now, &mut out).unwrap();
            for (_, letter) in out.0 {
                match letter {
                    Letter::Datagram(bytes) => self.client.datagram(&bytes, now),
                    Letter::Message(bytes) => self.client.message(&bytes),
                    Letter::Close(_) => self.client.closed(),
                }
            }
            // Nobody's steps are so even that they need not be told.
            let step = if self.round.is_multiple_of(2) { input } else { input / 2 };
            let mut out = Letters::default();
            self.client.tick(now, &mut out, |_, _| step);
            self.up.extend(out.0);
        }
    }

    fn walker(&self, id: ObjectId) -> Option<Walker> {
        self.stage.world().get(id)
    }

    fn seen(&self, id: ObjectId) -> Option<Walker> {
        self.client.replicas.get(id).and_then(|seen| seen.value())
    }
}

/// Lanes of a walker of somebody else's.
fn ghost(stage: &Stage<Walk>, x: f32) -> Vec<i32> {
    Spawn::new(stage.game.schema(), &Walker { pos: [x, 1.0], asked: 9 }).unwrap().lanes
}

#[test]
fn who_sits_at_a_window_plays_on_the_stage_behind_it_and_is_foreseen_as_at_a_server() {
    let mut house = House::new();
    house.run(3, 0, &[]);
    house.sit_down();
    house.run(60, 4, &[]);
    let seated = house.client.seated().unwrap();
    assert_eq!((seated.player, seated.avatar.origin()), (ME, ME.0));
    assert!(house.walker(seated.avatar).unwrap().pos[0] > 10.0, "inputs arrive");
    let counts = house.client.counts();
    assert!(counts.foreseen > 20 && counts.corrected == 0, "{counts:?}");

    let (now, mut out) = (house.now(), Letters::default());
    house.client.ask(seated.avatar, 5, now, &mut out);
    house.up.extend(out.0);
    house.run(3, 0, &[]);
    assert_eq!(house.walker(seated.avatar).unwrap().asked, 5, "actions arrive, as the player's");
}

#[test]
fn the_view_that_a_player_chooses_at_a_window_is_there_for_the_peer() {
    let mut house = House::new();
    house.sit_down();
    house.run(20, 0, &[]);
    let chosen = |house: &House| house.window.roster().next().map(|it| (it.view, it.watched));
    assert_eq!(chosen(&house), Some((0, None)));
    let mut out = Letters::default();
    house.client.set_view(1, &mut out);
    house.up.extend(out.0);
    house.run(2, 0, &[]);
    assert_eq!(chosen(&house), Some((1, None)));
}

#[test]
fn ghosts_are_shown_as_they_come_move_and_go_and_so_is_what_happened() {
    let mut house = House::new();
    house.run(1, 0, &[]);
    house.sit_down();
    house.run(10, 0, &[]);
    let other = ObjectId::new(KindId(0), 5, 0);
    assert!(house.seen(other).is_none());
    for step in 0..20u8 {
        let lanes = ghost(&house.stage, f32::from(step) / 2.0);
        house.stage.ghosts.put(other, &lanes);
        house.run(1, 0, &[step]);
    }
    assert_eq!(house.seen(other).unwrap().asked, 9);
    let heard = std::iter::from_fn(|| house.client.poll());
    let heard = heard.filter(|news| matches!(news, News::Event(_))).count();
    assert_eq!(heard, 20);

    // It becomes this stage's own: the same object, not a second one.
    let lanes = house.stage.ghosts.remove(other).unwrap();
    house.stage.restore(other, &lanes).unwrap();
    house.run(5, 0, &[]);
    assert!(house.seen(other).is_some());
    assert_eq!(house.window.stage.publisher.store.len(), 2);

    let slot = house.stage.publisher.store.find(other).unwrap();
    house.stage.publisher.store.remove(slot).unwrap();
    house.run(5, 0, &[]);
    assert!(house.window.stage.publisher.store.find(other).is_none());
    assert!(house.seen(other).is_none());
}

#[test]
fn who_leaves_the_window_leaves_the_stage_as_it_is_and_may_sit_down_again() {
    let mut house = House::new();
    house.run(1, 0, &[]);
    house.sit_down();
    house.run(30, 4, &[]);
    let avatar = house.client.seated().unwrap().avatar;
    let mut out = Letters::default();
    house.client.leave(&mut out);
    house.up.extend(out.0);
    house.run(5, 0, &[]);
    let before = house.walker(avatar).unwrap();
    assert_eq!(house.window.players(), 0);
    house.client = Client::new(Arc::clone(&house.stage.game), "bob", &[]);
    house.sit_down();
    house.run(20, 0, &[]);
    assert!(matches!(house.client.phase(), Phase::Playing(_)));
    assert_eq!(house.walker(avatar).unwrap(), before);
    assert_eq!(house.seen(avatar).unwrap().pos, before.pos);
    assert_eq!(house.refused, []);
}
