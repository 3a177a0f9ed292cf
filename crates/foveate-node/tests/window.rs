//! A server as a window: another simulation runs the rules, and a client plays there as at any
//! server.

use foveate_node::client::{ClientPhase, News};
use foveate_node::game::{Game, PlayerId, Requester, Spawn, StepContext, World};
use foveate_node::outbox::{Outgoing, RecordingOutbox};
use foveate_node::server::{ServerEvent, ServerSettings};
use foveate_node::session::{Refusal, ResumeKey};
use foveate_node::{Client, Link, Server, Simulation};
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

    fn step(&self, turn: &mut StepContext<'_, Self>, inputs: &[i8]) {
        let Some(mut walker) = turn.get::<Walker>() else { return };
        inputs.iter().for_each(|input| walker.pos[0] += f32::from(*input) / 8.0);
        turn.set(&walker);
    }

    fn act(&self, turn: &mut StepContext<'_, Self>, action: &u8, by: Requester) {
        let Some(mut walker) = turn.get::<Walker>() else { return };
        if matches!(by, Requester::Player(ME, _)) {
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

/// A simulation, a window to it, and a player at that window.
struct House {
    simulation: Simulation<Walk>,
    window: Server<Walk>,
    client: Client<Walk>,
    round: u32,
    up: Vec<(Link, Outgoing)>,
    refused: Vec<Refusal>,
}

impl House {
    /// The world has run for some time before the window is opened.
    fn new() -> House {
        let game = Arc::new(Walk(Arc::new(Schema::new(vec![Walker::spec()]).unwrap())));
        let rounds = Rounds::every(Micros(50_000));
        let mut simulation = Simulation::new(Arc::clone(&game), rounds).owned_by(OwnerId(ME.0));
        for spawn in game.welcome(&simulation.world(), ME, "") {
            simulation.spawn(ME, &spawn).unwrap();
        }
        let settings = ServerSettings { max_players: 1, ..ServerSettings::default() };
        let window = Server::new(Arc::clone(&game), settings, Box::new(|| ResumeKey([1; 16])));
        let client = Client::new(game, "ada", &[]);
        let (up, refused) = (Vec::new(), Vec::new());
        House { simulation, window, client, round: 70_000, up, refused }
    }

    fn now(&self) -> Micros {
        Micros(50_000 * u64::from(self.round))
    }

    fn sit_down(&mut self) {
        let mut out = RecordingOutbox::default();
        self.client.connected(LINK, &mut out);
        self.window.connected(LINK, &mut RecordingOutbox::default());
        self.up.extend(out.0);
    }

    fn run(&mut self, rounds: u32, input: i8, happened: &[u8]) {
        for _ in 0..rounds {
            self.round += 1;
            let (now, mut out) = (self.now(), RecordingOutbox::default());
            for (link, outgoing) in std::mem::take(&mut self.up) {
                match outgoing {
                    Outgoing::Datagram(bytes) => self.window.datagram(link, &bytes, now),
                    Outgoing::Message(bytes) => self.window.message(link, &bytes, now, &mut out),
                    Outgoing::Close(_) => self.window.closed(link, now),
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
                self.simulation.input(avatar, input);
            });
            for (object, action, by) in self.window.take_asks() {
                self.simulation.ask(object, action, by);
            }
            self.simulation.step(Tick(self.round), |_, _| {});
            self.simulation.publisher.round(Tick(self.round), now, |_, _| {});
            self.window.show(&self.simulation, happened, now, &mut out).unwrap();
            for (_, outgoing) in out.0 {
                match outgoing {
                    Outgoing::Datagram(bytes) => self.client.datagram(&bytes, now),
                    Outgoing::Message(bytes) => self.client.message(&bytes),
                    Outgoing::Close(_) => self.client.closed(),
                }
            }
            // Uneven steps: even ones would be predicted and not sent.
            let step = if self.round.is_multiple_of(2) { input } else { input / 2 };
            let mut out = RecordingOutbox::default();
            self.client.tick(now, &mut out, |_, _| step);
            self.up.extend(out.0);
        }
    }

    fn walker(&self, id: ObjectId) -> Option<Walker> {
        self.simulation.world().get(id)
    }

    fn seen(&self, id: ObjectId) -> Option<Walker> {
        self.client.replicas.get(id).and_then(|seen| seen.value())
    }
}

/// Lanes of a walker that belongs to another node.
fn ghost(simulation: &Simulation<Walk>, x: f32) -> Vec<i32> {
    Spawn::new(simulation.game.schema(), &Walker { pos: [x, 1.0], asked: 9 }).unwrap().lanes
}

#[test]
fn a_player_at_a_window_plays_in_the_simulation_behind_it_with_prediction() {
    let mut house = House::new();
    house.run(3, 0, &[]);
    house.sit_down();
    house.run(60, 4, &[]);
    let joined = house.client.joined().unwrap();
    assert_eq!((joined.player, joined.avatar.origin()), (ME, ME.0));
    assert!(house.walker(joined.avatar).unwrap().pos[0] > 10.0, "inputs arrive");
    let counts = house.client.counts();
    assert!(counts.foreseen > 20 && counts.corrected == 0, "{counts:?}");

    let (now, mut out) = (house.now(), RecordingOutbox::default());
    house.client.ask(joined.avatar, 5, now, &mut out);
    house.up.extend(out.0);
    house.run(3, 0, &[]);
    assert_eq!(house.walker(joined.avatar).unwrap().asked, 5, "actions arrive, as the player's");
}

#[test]
fn the_view_that_a_player_chooses_at_a_window_is_there_for_the_peer() {
    let mut house = House::new();
    house.sit_down();
    house.run(20, 0, &[]);
    let chosen =
        |house: &House| house.window.present_players().next().map(|it| (it.view, it.watched));
    assert_eq!(chosen(&house), Some((0, None)));
    let mut out = RecordingOutbox::default();
    house.client.set_view(1, &mut out);
    house.up.extend(out.0);
    house.run(2, 0, &[]);
    assert_eq!(chosen(&house), Some((1, None)));
}

#[test]
fn remote_objects_are_shown_as_they_come_move_and_go_and_so_are_events() {
    let mut house = House::new();
    house.run(1, 0, &[]);
    house.sit_down();
    house.run(10, 0, &[]);
    let other = ObjectId::new(KindId(0), 5, 0);
    assert!(house.seen(other).is_none());
    for step in 0..20u8 {
        let lanes = ghost(&house.simulation, f32::from(step) / 2.0);
        house.simulation.ghosts.put(other, &lanes);
        house.run(1, 0, &[step]);
    }
    assert_eq!(house.seen(other).unwrap().asked, 9);
    let heard = std::iter::from_fn(|| house.client.poll());
    let heard = heard.filter(|news| matches!(news, News::Event(_))).count();
    assert_eq!(heard, 20);

    // This simulation takes it over: it stays the same object.
    let lanes = house.simulation.ghosts.remove(other).unwrap();
    house.simulation.restore(other, &lanes).unwrap();
    house.run(5, 0, &[]);
    assert!(house.seen(other).is_some());
    assert_eq!(house.window.simulation.publisher.store.len(), 2);

    let slot = house.simulation.publisher.store.find(other).unwrap();
    house.simulation.publisher.store.remove(slot).unwrap();
    house.run(5, 0, &[]);
    assert!(house.window.simulation.publisher.store.find(other).is_none());
    assert!(house.seen(other).is_none());
}

#[test]
fn a_player_who_leaves_a_window_changes_nothing_behind_it_and_may_return() {
    let mut house = House::new();
    house.run(1, 0, &[]);
    house.sit_down();
    house.run(30, 4, &[]);
    let avatar = house.client.joined().unwrap().avatar;
    let mut out = RecordingOutbox::default();
    house.client.leave(&mut out);
    house.up.extend(out.0);
    house.run(5, 0, &[]);
    let before = house.walker(avatar).unwrap();
    assert_eq!(house.window.players(), 0);
    house.client = Client::new(Arc::clone(&house.simulation.game), "bob", &[]);
    house.sit_down();
    house.run(20, 0, &[]);
    assert!(matches!(house.client.phase(), ClientPhase::Playing(_)));
    assert_eq!(house.walker(avatar).unwrap(), before);
    assert_eq!(house.seen(avatar).unwrap().pos, before.pos);
    assert_eq!(house.refused, []);
}
