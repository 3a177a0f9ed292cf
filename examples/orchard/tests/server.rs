//! The same rules on a server with clients, in virtual time.

use foveate::node::game::Brain;
use foveate::node::server::ServerSettings;
use foveate::node::{IdAllocator, Server};
use foveate::prelude::{ObjectId, Rounds};
use foveate::wire::Micros;
use foveate_lab::network::{NetworkSpec, Participant, SessionNetwork};
use foveate_orchard::{APPLE, Apple, AppleState, AppleTree, Basket};
use foveate_orchard::{Gatherer, Orchard, OrchardSpec, ROUND};
use std::collections::{BTreeMap, BTreeSet};

/// Latency in one direction.
const LATENCY: Micros = Micros(20_000);

/// A server and its clients.
struct Yard {
    sessions: SessionNetwork<Orchard>,
    brains: Vec<Gatherer>,
    created: BTreeSet<ObjectId>,
    states: BTreeMap<ObjectId, AppleState>,
    removed: BTreeSet<ObjectId>,
}

impl Yard {
    /// A server that allocates ids from `first` on.
    fn new(first: u64) -> Yard {
        let game = Orchard::new(OrchardSpec { ripens: 30, ..OrchardSpec::default() }).unwrap();
        let settings = ServerSettings { rounds: Rounds::every(ROUND), ..ServerSettings::default() };
        let mut sessions = SessionNetwork::new(game, settings, NetworkSpec::delayed(LATENCY, 1));
        let simulation = &mut sessions.server().unwrap().simulation;
        simulation.ids = IdAllocator::for_server(first..first + 100_000);
        Yard {
            sessions,
            brains: Vec::new(),
            created: BTreeSet::new(),
            states: BTreeMap::new(),
            removed: BTreeSet::new(),
        }
    }

    fn join(&mut self, players: usize) {
        for player in 1..=players {
            self.sessions.join(&format!("bot {player}"), &[]);
            self.brains.push(Gatherer::default());
        }
    }

    fn run(&mut self, rounds: u32, plays: bool) {
        for _ in 0..rounds {
            let brains = &mut self.brains;
            self.sessions.run(ROUND, |now, at, client, out| {
                let Some(me) = client.joined().filter(|_| plays) else {
                    return client.set_input(Default::default());
                };
                let mut actions = Vec::new();
                let brain = &mut brains[at - 1];
                let input = client.see(now, |world| brain.think(world, me.avatar, &mut actions));
                client.set_input(input);
                for (object, action) in actions {
                    client.ask(object, action, now, out);
                }
            });
            self.note();
        }
    }

    fn server(&self) -> &Server<Orchard> {
        match self.sessions.network.nodes[0].as_deref() {
            Some(Participant::Server(server)) => server,
            _ => panic!("the server is at place 0"),
        }
    }

    /// Notes what the round did to apples.
    fn note(&mut self) {
        let Some(Participant::Server(server)) = self.sessions.network.nodes[0].as_deref() else {
            return;
        };
        let simulation = &server.simulation;
        for (id, _) in simulation.publisher.store.iter().filter(|(id, _)| id.kind() == APPLE) {
            self.created.insert(id);
            if let Some(apple) = simulation.world().get::<Apple>(id) {
                self.states.insert(id, apple.state);
            }
        }
        for id in simulation.removed() {
            assert!(self.removed.insert(*id), "{id:?} is removed twice");
        }
    }

    fn apples(&self) -> BTreeSet<ObjectId> {
        let store = &self.server().simulation.publisher.store;
        store.iter().map(|(id, _)| id).filter(|id| id.kind() == APPLE).collect()
    }

    /// The points of all baskets, and how many apples they have counted that are still there.
    fn points(&self) -> (usize, usize) {
        let world = self.server().simulation.world();
        let baskets = world.iter::<Basket>().map(|(_, basket)| basket);
        let there = self.apples();
        baskets.fold((0, 0), |(points, left), basket| {
            let counted = basket.counted().iter().filter(|(id, _)| there.contains(id)).count();
            (points + usize::from(basket.score), left + counted)
        })
    }

    fn check(&self) {
        let there = self.apples();
        let world = self.server().simulation.world();
        let made: usize = world.iter::<AppleTree>().map(|(_, tree)| usize::from(tree.made)).sum();
        assert_eq!(made, self.created.len(), "every apple that trees made is one object");
        assert_eq!(self.created.len(), there.len() + self.removed.len());
        let vanished = |id: &&ObjectId| self.states[*id] == AppleState::InBasket;
        let (points, left) = self.points();
        assert_eq!(points, self.removed.iter().filter(vanished).count() + left);
        assert_eq!(self.server().simulation.dropped_spawns(), 0);
        for node in self.sessions.network.nodes.iter().flatten() {
            let Participant::Client(client) = &node.node else { continue };
            let seen = client.see(self.sessions.network.now(), |world| world.of_kind(APPLE));
            let seen: BTreeSet<ObjectId> = seen.into_iter().collect();
            assert_eq!(seen, there, "clients see what there is, and nothing that is gone");
        }
    }
}

#[test]
fn apples_come_and_go_on_a_server_and_none_is_lost() {
    let mut yard = Yard::new(0);
    yard.sessions.server().unwrap().simulation.populate().unwrap();
    yard.join(6);
    yard.run(1_200, true);
    yard.run(120, false);
    yard.check();
    assert!(yard.points().0 > 5 && yard.removed.len() > 10, "they play: {:?}", yard.points());
}

#[test]
fn after_a_restart_apples_are_there_and_no_id_is_created_again() {
    let mut before = Yard::new(0);
    before.sessions.server().unwrap().simulation.populate().unwrap();
    before.join(4);
    before.run(600, true);
    let mut after = Yard::new(before.server().simulation.ids.next() + 50);
    let store = &before.server().simulation.publisher.store;
    for (id, slot) in store.iter().filter(|(id, _)| id.origin() == 0) {
        after.sessions.server().unwrap().simulation.restore(id, store.lanes(slot)).unwrap();
    }
    after.join(4);
    after.run(600, true);
    let kept = before.apples();
    let again = |id: &&ObjectId| before.created.contains(id) && !kept.contains(id);
    assert_eq!(after.created.iter().find(again), None);
    assert!(after.created.len() > kept.len() + 10, "trees bear apples again");
    assert!(after.points().0 > before.points().0, "points go on");
}
