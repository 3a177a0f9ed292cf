//! Sessions: a server with players, datagram by datagram and tick by tick.

use crate::Measure;
use crate::mailbox::Mailbox;
use crate::walker::{BenchStride, BenchWalker, ROUND_MS, Strides, schema, view};
use foveate_node::game::{Game, PlayerId, Requester, Spawn, StepContext, World};
use foveate_node::server::{ServerEvent, ServerSettings};
use foveate_node::session::ResumeKey;
use foveate_node::{Client, Link, Server};
use foveate_sync::interest::View;
use foveate_wire::{KindId, Micros, Schema, Tick};
use std::sync::Arc;

const PLAYERS: usize = 64;
const WARM_UP: u32 = 200;
const MEASURED: usize = 16;

/// Rules of one line: avatars walk by their players' inputs.
struct Walks(Arc<Schema>);

impl Game for Walks {
    type Input = BenchStride;
    type Action = ();
    type Event = ();

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
        let walker = BenchWalker::new(player.0 as usize - 1, PLAYERS);
        Spawn::new(&self.0, &walker).into_iter().collect()
    }

    fn step(&self, turn: &mut StepContext<'_, Self>, inputs: &[BenchStride]) {
        let Some(mut walker) = turn.get::<BenchWalker>() else { return };
        inputs.iter().for_each(|stride| walker.walk(*stride));
        turn.set(&walker);
    }

    fn act(&self, _: &mut StepContext<'_, Self>, (): &(), _: Requester) {}

    fn view(&self, which: u8) -> Option<View> {
        (which == 0).then(view)
    }
}

/// A server and its clients; what they send arrives in the next round.
struct Town {
    server: Server<Walks>,
    clients: Vec<Client<Walks>>,
    strides: Strides,
    up: Mailbox,
    down: Mailbox,
    round: u32,
}

impl Town {
    fn new() -> Town {
        let game = Arc::new(Walks(schema()));
        let mut next = 0u8;
        let keys = move || {
            next = next.wrapping_add(1);
            ResumeKey([next; 16])
        };
        let mut server = Server::new(Arc::clone(&game), ServerSettings::default(), Box::new(keys));
        let (mut clients, mut up) = (Vec::new(), Mailbox::new());
        for nth in 0..PLAYERS {
            let mut client = Client::new(Arc::clone(&game), &format!("walker-{nth}"), &[]);
            server.connected(Link(nth as u64), &mut up);
            client.connected(Link(nth as u64), &mut up);
            clients.push(client);
        }
        let (strides, down) = (Strides::new(PLAYERS, 3), Mailbox::new());
        Town { server, clients, strides, up, down, round: 0 }
    }

    fn now(&self) -> Micros {
        Micros::from_millis(ROUND_MS) * self.round
    }

    /// Handles the clients' messages; the host accepts every player.
    fn join(&mut self) {
        let now = self.now();
        for (link, bytes) in self.up.messages() {
            self.server.message(Link(link), bytes, now, &mut self.down);
        }
        while let Some(event) = self.server.poll() {
            let ServerEvent::Asked { link, .. } = event else { continue };
            let player = PlayerId(link.0 as u32 + 1);
            self.server.admit(link, player, &[], now, &mut self.down).expect("there is room");
        }
    }

    fn server_datagrams(&mut self) {
        let now = self.now();
        for (link, bytes) in self.up.datagrams() {
            self.server.datagram(Link(link), bytes, now);
        }
    }

    fn server_tick(&mut self) {
        let now = self.now();
        self.server.tick(Tick(self.round), now, &mut self.down);
    }

    fn client_datagrams(&mut self) {
        let now = self.now();
        for (link, bytes) in self.down.datagrams() {
            self.clients[link as usize].datagram(bytes, now);
        }
    }

    /// Clients read their messages and datagrams, and play a round.
    fn client_ticks(&mut self) {
        let now = self.now();
        for (link, bytes) in self.down.messages() {
            self.clients[link as usize].message(bytes);
        }
        self.up.clear();
        for (client, stride) in self.clients.iter_mut().zip(self.strides.step()) {
            while client.poll().is_some() {}
            client.tick(now, &mut self.up, |_, _| *stride);
        }
    }

    /// Plays a round, one part of which is measured.
    fn run(&mut self, part: Part, measure: &mut Measure) {
        self.round += 1;
        self.down.clear();
        self.join();
        let mut step = |which: Part, times: usize, work: &mut dyn FnMut()| {
            if which == part { measure.add(times, work) } else { work() }
        };
        step(Part::ServerDatagram, self.up.datagrams().count(), &mut || self.server_datagrams());
        step(Part::ServerTick, 1, &mut || self.server_tick());
        step(Part::ClientDatagram, self.down.datagrams().count(), &mut || self.client_datagrams());
        self.client_ticks();
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    None,
    ServerDatagram,
    ServerTick,
    ClientDatagram,
}

/// Measures datagrams received by the server and by clients, and whole ticks of the server.
pub fn sessions() {
    let mut town = Town::new();
    (0..WARM_UP).for_each(|_| town.run(Part::None, &mut Measure::default()));
    assert_eq!(town.server.players(), PLAYERS);
    let parts = [
        ("server-datagram", Part::ServerDatagram),
        ("client-datagram", Part::ClientDatagram),
        ("server-tick", Part::ServerTick),
    ];
    for (name, part) in parts {
        let mut measure = Measure::default();
        (0..MEASURED).for_each(|_| town.run(part, &mut measure));
        measure.finish(name);
    }
    let corrected: u64 = town.clients.iter().map(|client| client.counts().corrected).sum();
    let foreseen: u64 = town.clients.iter().map(|client| client.counts().foreseen).sum();
    assert!(foreseen > 10 * corrected, "{foreseen} states as foreseen, {corrected} not");
}
