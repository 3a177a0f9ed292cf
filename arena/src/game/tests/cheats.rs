//! Cheats, each tried against the shipping server: refused and counted, or without effect.

use super::*;
use crate::game::kinds::point;
use foveate_node::outbox::{Link, Outgoing, RecordingOutbox};
use foveate_node::server::{ServerEvent, ServerSettings, WorkBudget};
use foveate_node::session::{ClientDatagram, ClientMessage, ResumeKey, write_message};
use foveate_node::{Client, Server};

const ROUND: u64 = 50_000;

/// Players on the map with one wall across its middle, on links without latency.
struct Table {
    server: Server<Arena>,
    clients: Vec<Client<Arena>>,
    round: u64,
}

impl Table {
    fn new(players: usize, units: u32) -> Table {
        let arena = Arc::clone(&walled(units).simulation.game);
        let settings = ServerSettings::default();
        let keys = Box::new(|| ResumeKey([7; 16]));
        let mut server = Server::new(Arc::clone(&arena), settings, keys);
        server.simulation.populate().unwrap();
        let mut table = Table { server, clients: Vec::new(), round: 0 };
        for player in 0..players {
            let mut out = RecordingOutbox::default();
            let mut client = Client::new(Arc::clone(&arena), &format!("p{player}"), &[]);
            table.server.connected(Link(player as u64), &mut out);
            client.connected(Link(player as u64), &mut out);
            table.clients.push(client);
            table.deliver(out);
        }
        table
    }

    fn now(&self) -> Micros {
        Micros(self.round * ROUND)
    }

    /// Delivers what both ends sent, until there is nothing left.
    fn deliver(&mut self, mut out: RecordingOutbox) {
        let now = self.now();
        while !out.0.is_empty() {
            let mut down = RecordingOutbox::default();
            for (link, outgoing) in out.0.drain(..) {
                match outgoing {
                    Outgoing::Datagram(bytes) => self.server.datagram(link, &bytes, now),
                    Outgoing::Message(bytes) => self.server.message(link, &bytes, now, &mut down),
                    Outgoing::Close(_) => {}
                }
            }
            while let Some(event) = self.server.poll() {
                if let ServerEvent::Asked { link, .. } = event {
                    let player = PlayerId(link.0 as u32 + 1);
                    self.server.admit(link, player, &[], now, &mut down).unwrap();
                }
            }
            self.deliver_down(down);
        }
    }

    fn deliver_down(&mut self, out: RecordingOutbox) {
        let now = self.now();
        for (link, outgoing) in out.0 {
            let client = &mut self.clients[link.0 as usize];
            match outgoing {
                Outgoing::Datagram(bytes) => client.datagram(&bytes, now),
                Outgoing::Message(bytes) => client.message(&bytes),
                Outgoing::Close(why) => panic!("{why:?}"),
            }
        }
    }

    /// One round; `input` returns each player's input.
    fn round(&mut self, mut input: impl FnMut(usize) -> Controls) {
        self.round += 1;
        let mut down = RecordingOutbox::default();
        self.server.tick(Tick(self.round as u32), self.now(), &mut down);
        self.deliver_down(down);
        let (now, mut up) = (self.now(), RecordingOutbox::default());
        for (at, client) in self.clients.iter_mut().enumerate() {
            client.tick(now, &mut up, |_, _| input(at));
        }
        self.deliver(up);
    }

    fn rounds(&mut self, count: u64) {
        (0..count).for_each(|_| self.round(|_| Controls::default()));
    }

    fn say(&mut self, player: usize, message: &ClientMessage<Action>) {
        let mut out = RecordingOutbox::default();
        out.0.push((Link(player as u64), Outgoing::Message(write_message(message))));
        self.deliver(out);
    }

    fn ask(&mut self, player: usize, object: ObjectId, action: Action) {
        let seen = self.server.simulation.publisher.store.tick().0;
        self.say(player, &ClientMessage::Ask { object: object.0, action, seen });
    }

    fn avatar(&self, player: usize) -> Avatar {
        self.server.simulation.world().get(Avatar::of(player as u32 + 1)).unwrap()
    }

    fn put(&mut self, player: usize, at: [f32; 2], change: impl FnOnce(&mut Avatar)) {
        let store = &mut self.server.simulation.publisher.store;
        let slot = store.find(Avatar::of(player as u32 + 1)).unwrap();
        let mut avatar: Avatar = store.get(slot).unwrap();
        (avatar.pos, avatar.vx, avatar.vy) = (at, 0.0, 0.0);
        change(&mut avatar);
        store.set(slot, &avatar).unwrap();
    }

    fn team(&mut self, player: usize, at: [f32; 2], team: u8) {
        self.put(player, at, |avatar| avatar.team = team);
    }

    /// An avatar as a client knows it.
    fn told(&self, player: usize, other: usize) -> Avatar {
        let replica = self.clients[player].replicas.get(Avatar::of(other as u32 + 1));
        replica.and_then(|view| view.value::<Avatar>()).expect("in sight")
    }

    /// Whether a client has an up-to-date state of another player's avatar.
    fn knows(&self, player: usize, other: usize) -> bool {
        let id = Avatar::of(other as u32 + 1);
        let truth = self.avatar(other);
        let replica = self.clients[player].replicas.get(id);
        let there = replica.and_then(|view| view.value::<Avatar>());
        there.is_some_and(|it| point(it.pos).distance(point(truth.pos)) < 1.0)
    }
}

#[test]
fn an_enemy_behind_a_wall_is_not_sent_and_a_team_mate_is() {
    let mut table = Table::new(3, 0);
    table.team(0, [30.0, 50.0], 1);
    table.team(1, [70.0, 50.0], 2);
    table.team(2, [70.0, 45.0], 1);
    table.rounds(20);
    assert!(table.knows(0, 2), "a mate");
    assert!(!table.knows(0, 1), "an enemy behind the wall");
    table.team(1, [30.0, 60.0], 2);
    table.rounds(20);
    assert!(table.knows(0, 1), "in plain sight");
    // Where it goes from there is not sent.
    table.team(1, [70.0, 55.0], 2);
    table.rounds(40);
    assert!(!table.knows(0, 1));
}

#[test]
fn an_enemy_in_sight_shows_quarters_of_its_health_and_no_weapon() {
    let mut table = Table::new(3, 0);
    table.team(0, [30.0, 50.0], 1);
    table.team(1, [30.0, 60.0], 2);
    table.team(2, [30.0, 45.0], 1);
    table.rounds(20);
    let mut hurt = |health| {
        for player in 0..3 {
            let at = table.avatar(player).pos;
            table.put(player, at, |it| (it.health, it.weapon) = (health, Weapon::Lance));
        }
        // Idle hands would take the weapon of the controls.
        let lance = Controls { hands: Weapon::Lance.into(), ..Controls::default() };
        (0..10).for_each(|_| table.round(|_| lance));
        [1, 2, 0].map(|other| table.told(0, other)).map(|it| (it.health, it.weapon))
    };
    for (health, quarters) in [(100, 100), (99, 100), (51, 75), (50, 50), (1, 25)] {
        let exact = (health, Weapon::Lance);
        assert_eq!(hurt(health), [(quarters, Weapon::Blaster), exact, exact]);
    }
}

#[test]
fn no_more_is_learned_by_watching_than_the_game_allows() {
    let mut table = Table::new(4, 0);
    table.team(0, [30.0, 50.0], 1);
    table.team(1, [70.0, 50.0], 2);
    table.team(2, [72.0, 45.0], 1);
    table.team(3, [74.0, 40.0], 2);
    table.rounds(30);
    let watch = |other: usize| ClientMessage::Watch(Some(Avatar::of(other as u32 + 1).0));
    let sweep = |table: &mut Table| {
        for other in [1, 2, 3, 2, 1, 2, 3] {
            table.say(0, &watch(other));
            table.rounds(8);
        }
    };
    sweep(&mut table);
    assert!(!table.knows(0, 1) && !table.knows(0, 3), "while it lives it watches no other avatar");
    assert!(table.server.refusals().excess >= 7, "{:?}", table.server.refusals());
    assert!(table.server.present_players().all(|player| player.watched.is_none()));
    // Dead: at once it watches no avatar either, later a team mate, but no enemy.
    let ready = |table: &Table| kinds::ticks_ahead(Tick(table.round as u32), 60);
    let until = ready(&table);
    table.put(0, [30.0, 50.0], |avatar| (avatar.health, avatar.ready) = (0, until));
    table.rounds(2);
    table.say(0, &watch(2));
    let watched = |table: &Table| table.server.present_players().next().unwrap().watched;
    assert_eq!(watched(&table), None, "too early");
    table.rounds(28);
    table.say(0, &watch(1));
    assert_eq!(watched(&table), None, "an enemy");
    table.rounds(20);
    table.say(0, &watch(2));
    assert_eq!(watched(&table), Some(Avatar::of(3)), "a mate");
}

#[test]
fn a_quick_link_gets_no_more_lag_compensation_than_it_has_lag() {
    // Both claim to have seen the world nine ticks ago, when the victim was in front of them.
    let mut table = Table::new(2, 0);
    table.team(0, [10.0, 20.0], 1);
    table.team(1, [20.0, 20.0], 2);
    table.rounds(30);
    let seen = table.server.simulation.publisher.store.tick().0;
    table.team(1, [20.0, 28.0], 2);
    table.rounds(8);
    let fire = Controls { fire: Some(seen), ..Controls::default() };
    for _ in 0..6 {
        table.round(|player| if player == 0 { fire } else { Controls::default() });
    }
    assert_eq!(table.avatar(1).health, HEALTH, "it had long gone");
    assert!(table.server.refusals().late > 0, "{:?}", table.server.refusals());
}

#[test]
fn a_player_who_sends_more_inputs_is_not_faster() {
    let mut table = Table::new(2, 0);
    table.team(0, [10.0, 10.0], 1);
    table.team(1, [10.0, 20.0], 2);
    table.rounds(20);
    table.team(0, [10.0, 10.0], 1);
    table.team(1, [10.0, 20.0], 2);
    let walk = ArenaInput { forward: 127, strafe: 0, yaw: EAST };
    let run = Controls { walk, ..Controls::default() };
    let mut first = 1_000u16;
    for _ in 0..40 {
        table.round(|player| if player == 1 { run } else { Controls::default() });
        // The cheater sends six new inputs in every round, in addition to those of the client.
        let incoming = ClientDatagram { ack: None, clock: 0, first, inputs: vec![run; 6] };
        let mut bytes = Vec::new();
        incoming.write(&mut bytes);
        table.server.datagram(Link(0), &bytes, table.now());
        first = first.wrapping_add(6);
    }
    let (cheater, honest) = (table.avatar(0).pos[0], table.avatar(1).pos[0]);
    assert!(honest > 15.0, "the honest one walked to {honest}");
    assert!(cheater <= honest + 2.0, "{cheater} against {honest}");
    assert!(table.server.refusals().hasty > 100, "{:?}", table.server.refusals());
}

#[test]
fn inputs_that_no_player_could_give_are_refused() {
    let mut table = Table::new(1, 0);
    table.rounds(10);
    let before = table.avatar(0).pos;
    let walk = ArenaInput { forward: i8::MIN, strafe: i8::MIN, yaw: 0 };
    let inputs = vec![Controls { walk, ..Controls::default() }; 6];
    let mut bytes = Vec::new();
    ClientDatagram { ack: None, clock: 0, first: 500, inputs }.write(&mut bytes);
    table.server.datagram(Link(0), &bytes, table.now());
    table.rounds(5);
    assert_eq!(table.server.refusals().impossible, 6);
    assert_eq!(table.avatar(0).pos, before);
}

#[test]
fn players_cannot_request_actions_of_rules_nor_command_others_objects() {
    let mut table = Table::new(2, 1);
    table.team(0, [20.0, 20.0], 1);
    table.team(1, [30.0, 20.0], 2);
    table.rounds(20);
    let unit: Unit = table.server.simulation.world().get(Arena::unit(2, 0)).unwrap();
    let victim = Avatar::of(2);
    let forbidden = [
        (victim, hit(255)),
        (victim, Action::Killed),
        (Avatar::of(1), Action::Killed),
        (Avatar::of(1), Action::Captured),
        (Avatar::of(1), Action::Heal { health: 100 }),
        (Match::ID, Action::Point { team: 1 }),
        (Arena::unit(2, 0), hit(255)),
        (Arena::unit(2, 0), Action::Order { target: 1 }),
        (Arena::unit(2, 0), Action::Steer { walk: ArenaInput::default(), fire: None }),
    ];
    let before = (table.avatar(0), table.avatar(1));
    for (object, action) in forbidden {
        table.ask(0, object, action);
        table.rounds(2);
    }
    assert_eq!((table.avatar(0).score, table.avatar(0).kills), (before.0.score, before.0.kills));
    assert_eq!(table.avatar(1).health, before.1.health);
    let after: Unit = table.server.simulation.world().get(Arena::unit(2, 0)).unwrap();
    assert_eq!((after.health, after.duty, after.target), (unit.health, unit.duty, unit.target));
    let contest: Match = table.server.simulation.world().get(Match::ID).unwrap();
    assert_eq!((contest.first, contest.second), (0, 0));
}

#[test]
fn a_player_who_fires_in_every_input_fires_no_faster() {
    let mut table = Table::new(2, 0);
    table.team(0, [10.0, 20.0], 1);
    table.team(1, [20.0, 20.0], 2);
    table.rounds(20);
    let mut first = 1_000u16;
    for _ in 0..20 {
        let seen = table.server.simulation.publisher.store.tick().0;
        let fire = Controls { fire: Some(seen), ..Controls::default() };
        table.round(|player| if player == 0 { fire } else { Controls::default() });
        // And six more inputs that fire, in every round.
        let incoming = ClientDatagram { ack: None, clock: 0, first, inputs: vec![fire; 6] };
        let mut bytes = Vec::new();
        incoming.write(&mut bytes);
        table.server.datagram(Link(0), &bytes, table.now());
        first = first.wrapping_add(6);
    }
    table.rounds(4);
    // In slightly more than a second a blaster is ready three times, at 0, 400 and 800 ms.
    let (least, most) = (2 * blaster(11.0), 3 * blaster(9.0));
    let damage = HEALTH - table.avatar(1).health;
    assert!((least..=most).contains(&damage), "{damage}, expected {least} to {most}");
}

#[test]
fn no_avatar_is_hit_through_a_wall_by_a_player_who_knows_where_it_is() {
    let mut table = Table::new(2, 0);
    // The cheater knows from elsewhere where the other is, faces it, and fires in every round.
    let volley = |table: &mut Table| {
        for _ in 0..20 {
            let fire = Some(table.server.simulation.publisher.store.tick().0);
            let walk = ArenaInput { forward: 0, strafe: 0, yaw: EAST };
            let aimed = Controls { walk, fire, ..Controls::default() };
            table.round(|player| if player == 0 { aimed } else { Controls::default() });
        }
        table.rounds(4);
    };
    table.team(0, [44.0, 50.0], 1);
    table.team(1, [56.0, 50.0], 2);
    table.rounds(20);
    volley(&mut table);
    assert_eq!(table.avatar(1).health, HEALTH, "behind the wall");
    table.team(0, [44.0, 20.0], 1);
    table.team(1, [56.0, 20.0], 2);
    table.rounds(4);
    volley(&mut table);
    assert!(table.avatar(1).health < HEALTH, "beside it");
}

#[test]
fn no_input_moves_an_avatar_farther_than_its_speed() {
    let mut table = Table::new(1, 0);
    table.team(0, [10.0, 10.0], 1);
    table.rounds(20);
    let mut before = table.avatar(0).pos;
    let per_round = f64::from(Avatar::spec().max_speed) * ROUND as f64 / 1e6;
    for round in 0..60u16 {
        // Sequence numbers that jump ahead and back, and every value that an input can have.
        let walk = ArenaInput { forward: 127, strafe: -127, yaw: round.wrapping_mul(9_973) };
        let inputs = vec![Controls { walk, ..Controls::default() }; 6];
        let first = round.wrapping_mul(31_337);
        let mut bytes = Vec::new();
        ClientDatagram { ack: None, clock: 0, first, inputs }.write(&mut bytes);
        table.server.datagram(Link(0), &bytes, table.now());
        table.rounds(1);
        let after = table.avatar(0).pos;
        let moved = point(before).distance(point(after));
        // One more input in a round may make up for one that waited.
        assert!(moved <= 2.0 * per_round + 0.01, "round {round}: {moved}");
        before = after;
    }
    let elapsed = point([10.0, 10.0]).distance(point(before));
    assert!(elapsed <= 61.0 * per_round, "{elapsed} in three seconds");
}

/// Ways searched while this many players order their units about, 31 times a tick each, for five
/// seconds.
fn searches(hostile: usize) -> u64 {
    let mut table = Table::new(hostile + 1, 1);
    table.rounds(20);
    let before = table.server.simulation.game.searches();
    let nodes = table.server.simulation.game.map().graph().node_count() as u32;
    for round in 0..100u32 {
        for player in 0..hostile {
            for nth in 0..31 {
                let target = ((round * 31 + nth) * 7 % nodes) as u16;
                table.ask(player, Arena::unit(player as u32 + 1, 0), Action::Order { target });
            }
        }
        table.rounds(1);
    }
    table.server.simulation.game.searches() - before
}

#[test]
fn endless_orders_cost_no_more_than_their_players_budgets() {
    let budget = WorkBudget::PLAYER;
    let arena = Arc::clone(&walled(1).simulation.game);
    let cost = arena.cost(&Action::Order { target: 0 });
    // In five seconds and a burst. Each order searches the remaining way and the new one, and a
    // unit on its way updates its place now and then.
    let each = 3 * u64::from((budget.burst + 5 * budget.per_second) / cost) + 4;
    for hostile in [1, 3, 8] {
        let found = searches(hostile);
        let idle = searches(0);
        let most = idle + each * hostile as u64;
        assert!(found <= most, "{hostile} players: {found} searches, at most {most}");
    }
}
