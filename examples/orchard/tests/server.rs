//! The same rules on a server, in virtual time, with clients.

use foveate::node::game::Brain;
use foveate::node::outbox::{Outgoing, RecordingOutbox};
use foveate::node::server::{ServerEvent, ServerSettings};
use foveate::node::session::ResumeKey;
use foveate::node::{Client, IdAllocator, Link, Server};
use foveate::prelude::{ObjectId, PlayerId, Rounds, Tick};
use foveate_orchard::{APPLE, Apple, AppleState, AppleTree, Basket};
use foveate_orchard::{Gatherer, Orchard, OrchardSpec, ROUND};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A server and clients that are one round away from it.
struct Yard {
    game: Arc<Orchard>,
    server: Server<Orchard>,
    clients: BTreeMap<Link, (Client<Orchard>, Gatherer)>,
    down: RecordingOutbox,
    up: RecordingOutbox,
    round: u32,
    created: BTreeSet<ObjectId>,
    states: BTreeMap<ObjectId, AppleState>,
    removed: BTreeSet<ObjectId>,
}

impl Yard {
    /// A server whose ids begin at a number.
    fn new(first: u64) -> Yard {
        let game = Orchard::new(OrchardSpec { ripens: 30, ..OrchardSpec::default() }).unwrap();
        let settings = ServerSettings { rounds: Rounds::every(ROUND), ..ServerSettings::default() };
        let mut keys = 0u8;
        let draw = move || {
            keys += 1;
            ResumeKey([keys; 16])
        };
        let mut server = Server::new(Arc::clone(&game), settings, Box::new(draw));
        server.simulation.ids = IdAllocator::for_server(first..first + 100_000);
        Yard {
            game,
            server,
            clients: BTreeMap::new(),
            down: RecordingOutbox::default(),
            up: RecordingOutbox::default(),
            round: 0,
            created: BTreeSet::new(),
            states: BTreeMap::new(),
            removed: BTreeSet::new(),
        }
    }

    fn join(&mut self, link: Link) {
        let mut client = Client::new(Arc::clone(&self.game), &format!("bot {}", link.0), &[]);
        client.connected(link, &mut self.up);
        self.server.connected(link, &mut self.down);
        self.clients.insert(link, (client, Gatherer::default()));
    }

    fn run(&mut self, rounds: u32, plays: bool) {
        for _ in 0..rounds {
            self.round += 1;
            self.tick_server();
            self.tick_clients(plays);
        }
    }

    fn tick_server(&mut self) {
        let now = ROUND * self.round;
        let mut out = RecordingOutbox::default();
        for (link, outgoing) in std::mem::take(&mut self.up).0 {
            match outgoing {
                Outgoing::Datagram(bytes) => self.server.datagram(link, &bytes, now),
                Outgoing::Message(bytes) => self.server.message(link, &bytes, now, &mut out),
                Outgoing::Close(_) => self.server.closed(link, now),
            }
        }
        while let Some(event) = self.server.poll() {
            if let ServerEvent::Asked { link, .. } = event {
                let player = PlayerId(link.0 as u32);
                self.server.admit(link, player, &[], now, &mut out).unwrap();
            }
        }
        self.server.tick(Tick(self.round), now, &mut out);
        self.down.0.extend(out.0);
        let simulation = &self.server.simulation;
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

    fn tick_clients(&mut self, plays: bool) {
        let now = ROUND * self.round;
        for (link, outgoing) in std::mem::take(&mut self.down).0 {
            let Some((client, _)) = self.clients.get_mut(&link) else { continue };
            match outgoing {
                Outgoing::Datagram(bytes) => client.datagram(&bytes, now),
                Outgoing::Message(bytes) => client.message(&bytes),
                Outgoing::Close(_) => client.closed(),
            }
        }
        for (client, brain) in self.clients.values_mut() {
            let mut actions = Vec::new();
            client.tick(now, &mut self.up, |world, me| match plays {
                true => brain.think(world, me, &mut actions),
                false => Default::default(),
            });
            for (object, action) in actions {
                client.ask(object, action, now, &mut self.up);
            }
        }
    }

    fn apples(&self) -> BTreeSet<ObjectId> {
        let store = &self.server.simulation.publisher.store;
        store.iter().map(|(id, _)| id).filter(|id| id.kind() == APPLE).collect()
    }

    /// Points of all baskets, and apples that they have counted and that are still there.
    fn points(&self) -> (usize, usize) {
        let world = self.server.simulation.world();
        let baskets = world.iter::<Basket>().map(|(_, basket)| basket);
        let there = self.apples();
        baskets.fold((0, 0), |(points, left), basket| {
            let counted = basket.counted().iter().filter(|(id, _)| there.contains(id)).count();
            (points + usize::from(basket.score), left + counted)
        })
    }

    fn check(&self) {
        let there = self.apples();
        let world = self.server.simulation.world();
        let made: usize = world.iter::<AppleTree>().map(|(_, tree)| usize::from(tree.made)).sum();
        assert_eq!(made, self.created.len(), "every apple that trees made is one object");
        assert_eq!(self.created.len(), there.len() + self.removed.len());
        let vanished = |id: &&ObjectId| self.states[*id] == AppleState::InBasket;
        let (points, left) = self.points();
        assert_eq!(points, self.removed.iter().filter(vanished).count() + left);
        assert_eq!(self.server.simulation.dropped_spawns(), 0);
        for (client, _) in self.clients.values() {
            let seen = client.see(ROUND * self.round, |world| world.of_kind(APPLE));
            let seen: BTreeSet<ObjectId> = seen.into_iter().collect();
            assert_eq!(seen, there, "clients see what there is, and nothing that is gone");
        }
    }
}

#[test]
fn apples_come_and_go_on_a_server_and_none_is_lost() {
    let mut yard = Yard::new(0);
    yard.server.simulation.populate().unwrap();
    (1..=6).for_each(|link| yard.join(Link(link)));
    yard.run(1_200, true);
    yard.run(120, false);
    yard.check();
    assert!(yard.points().0 > 5 && yard.removed.len() > 10, "they play: {:?}", yard.points());
}

#[test]
fn after_a_restart_apples_are_there_and_no_id_is_created_again() {
    let mut before = Yard::new(0);
    before.server.simulation.populate().unwrap();
    (1..=4).for_each(|link| before.join(Link(link)));
    before.run(600, true);
    let mut after = Yard::new(before.server.simulation.ids.next() + 50);
    let store = &before.server.simulation.publisher.store;
    for (id, slot) in store.iter().filter(|(id, _)| id.origin() == 0) {
        after.server.simulation.restore(id, store.lanes(slot)).unwrap();
    }
    (1..=4).for_each(|link| after.join(Link(link)));
    after.run(600, true);
    let kept = before.apples();
    let again = |id: &&ObjectId| before.created.contains(id) && !kept.contains(id);
    assert_eq!(after.created.iter().find(again), None);
    assert!(after.created.len() > kept.len() + 10, "trees bear apples again");
    assert!(after.points().0 > before.points().0, "points go on");
}
