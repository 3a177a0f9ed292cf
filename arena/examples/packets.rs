//! Records what a server sends its players, to compare another implementation with.
//!
//! `cargo run --release -p foveate-arena --example packets -- DIR [count] [seed]`
//!
//! Sixty-four bots play over a bad network, in virtual time. DIR receives
//! - `packets.bin`: `count` state packets as they arrived, with losses, duplicates and reordering;
//!   every eighth one again with a flipped bit; each with the result of this implementation;
//! - `session.bin`: everything that the first player's client received, did and sent, tick by tick;
//! - `arena.json`: the map.
//!
//! The binary files are postcard: the schema's text, then one [`Case`] or [`Step`] after the other.

use foveate_arena::game::Controls;
use foveate_arena::{Arena, ArenaDocument, Fighter, Setup, Skill};
use foveate_lab::net::Loss;
use foveate_lab::network::{Host, Network, NetworkSpec, Placed, Placement, Reaction};
use foveate_node::game::{Brain, Game, PlayerId};
use foveate_node::node::{NodeInput, ServerCommand};
use foveate_node::outbox::{Outbox, Outgoing, RecordingOutbox};
use foveate_node::server::{ServerEvent, ServerSettings};
use foveate_node::session::{ResumeKey, ServerDatagram};
use foveate_node::{Client, Node, Server};
use foveate_sync::ReplicaSet;
use foveate_sync::replica::{Change, ReceiveError};
use foveate_wire::packet::{PacketError, PacketReader, Record, open_state};
use foveate_wire::{Micros, Models, Motion, Tick};
use serde::Serialize;
use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

type Failure = Box<dyn std::error::Error>;

const BOTS: usize = 64;
/// One packet in this many is written again with a flipped bit.
const FLIPPED: u64 = 8;

/// One state packet, and the result of reading it.
#[derive(Serialize)]
struct Case {
    client: u8,
    bytes: Vec<u8>,
    /// One bit was flipped: the packet is read, but not applied.
    flipped: bool,
    outcome: Outcome,
}

#[derive(Serialize)]
enum Outcome {
    Read { tick: u32, records: Vec<Row>, changes: Vec<(u8, u64)> },
    Refused(u8),
}

/// A record: its operation (update, whole, frozen, gone) and its contents.
#[derive(Serialize)]
struct Row {
    operation: u8,
    alias: u16,
    id: u64,
    lanes: Vec<i32>,
    moved: [i32; 3],
    ticks: u32,
}

/// A step of the first player's client.
#[derive(Serialize)]
enum Step {
    Message(Vec<u8>),
    Datagram {
        now_us: u32,
        bytes: Vec<u8>,
    },
    /// A tick: the player's input, what was sent, and the predicted avatar.
    Tick {
        now_us: u32,
        controls: Controls,
        said: Vec<u8>,
        own: Vec<i32>,
        foreseen: u32,
        corrected: u32,
    },
}

/// Reads packets as a client would, and writes down their contents.
struct Witness {
    mirrors: Vec<ReplicaSet>,
    models: Models,
    rng: fastrand::Rng,
    out: Vec<u8>,
    written: u64,
}

impl Witness {
    fn new(arena: &Arena, seed: u64) -> Witness {
        let mirror = |_| ReplicaSet::new(Arc::clone(arena.schema()), Tick(0));
        Witness {
            mirrors: (0..BOTS).map(mirror).collect(),
            models: Models::trained(),
            rng: fastrand::Rng::with_seed(seed),
            out: Vec::new(),
            written: 0,
        }
    }

    fn see(&mut self, client: usize, bytes: &[u8]) {
        let records = self.read(client, bytes);
        if self.rng.u64(..FLIPPED) == 0 {
            self.flip(client, bytes);
        }
        let mut changes = Vec::new();
        let received = self.mirrors[client].receive(bytes, |change| changes.push(code(change)));
        let outcome = match (received, records) {
            (Ok(tick), Ok((_, records))) => Outcome::Read { tick: tick.0, records, changes },
            (Err(error), _) => Outcome::Refused(why(error)),
            (Ok(_), Err(error)) => unreachable!("received, and not read: {error}"),
        };
        self.write(&Case { client: client as u8, bytes: bytes.into(), flipped: false, outcome });
    }

    fn flip(&mut self, client: usize, bytes: &[u8]) {
        let mut bytes = bytes.to_vec();
        let bit = self.rng.usize(..bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let outcome = match self.read(client, &bytes) {
            Ok((tick, records)) => Outcome::Read { tick: tick.0, records, changes: Vec::new() },
            Err(error) => Outcome::Refused(why(error.into())),
        };
        self.write(&Case { client: client as u8, bytes, flipped: true, outcome });
    }

    fn read(&mut self, client: usize, bytes: &[u8]) -> Result<(Tick, Vec<Row>), PacketError> {
        let held = &self.mirrors[client];
        let (header, body) = open_state(bytes, held.newest())?;
        let mut reader = PacketReader::new(header, body, &mut self.models);
        let (mut rows, mut lanes) = (Vec::new(), Vec::new());
        while let Some(record) = reader.next(held.schema(), held, &mut lanes)? {
            rows.push(row(record, std::mem::take(&mut lanes)));
        }
        Ok((header.tick, rows))
    }

    fn write(&mut self, case: &Case) {
        self.written += 1;
        self.out.extend(postcard::to_allocvec(case).unwrap_or_default());
    }
}

fn row(record: Record, lanes: Vec<i32>) -> Row {
    let still = Motion::default();
    let (operation, alias, id, motion) = match record {
        Record::Update(alias, motion) => (0, alias, 0, motion),
        Record::Full(alias, id) => (1, alias, id.0, still),
        Record::Freeze(alias) => (2, alias, 0, still),
        Record::Gone(alias) => (3, alias, 0, still),
    };
    Row { operation, alias: alias.0, id, lanes, moved: motion.moved, ticks: motion.ticks }
}

fn code(change: Change) -> (u8, u64) {
    match change {
        Change::Appeared(id) => (0, id.0),
        Change::Updated(id) => (1, id.0),
        Change::Frozen(id) => (2, id.0),
        Change::Gone(id) => (3, id.0),
    }
}

fn why(error: ReceiveError) -> u8 {
    match error {
        ReceiveError::Packet(PacketError::TooLong(_)) => 0,
        ReceiveError::Packet(PacketError::TooShort(_)) => 1,
        ReceiveError::Packet(PacketError::Version(_)) => 2,
        ReceiveError::Packet(PacketError::Type(_)) => 3,
        ReceiveError::Packet(PacketError::Alias) => 4,
        ReceiveError::Packet(PacketError::Baseline(_)) => 5,
        ReceiveError::Packet(PacketError::Kind(_)) => 6,
        ReceiveError::Packet(PacketError::TooMany) => 7,
        ReceiveError::Duplicate(_) => 8,
        ReceiveError::TooOld(_) => 9,
    }
}

/// The server, or a bot; the steps of one bot's client are recorded.
enum Player {
    Server(Box<Server<Arena>>),
    Bot(Box<Bot>),
}

struct Bot {
    at: usize,
    client: Client<Arena>,
    brain: Fighter,
    witness: Rc<RefCell<Witness>>,
    /// The recorded steps of its client, if wanted.
    session: Option<Vec<u8>>,
}

impl Bot {
    fn record(&mut self, step: &Step) {
        if let Some(session) = &mut self.session
            && let Ok(bytes) = postcard::to_allocvec(step)
        {
            session.extend(bytes);
        }
    }

    fn hear(&mut self, now: Micros, input: &NodeInput<'_, ServerCommand>) {
        match input {
            NodeInput::Datagram(_, bytes) => {
                let state = ServerDatagram::read(bytes).map_or(&[][..], |frame| frame.state);
                if !state.is_empty() {
                    self.witness.borrow_mut().see(self.at, state);
                }
                self.record(&Step::Datagram { now_us: now.0 as u32, bytes: bytes.to_vec() });
            }
            NodeInput::Message(_, bytes) => self.record(&Step::Message(bytes.to_vec())),
            _ => {}
        }
    }

    fn play(&mut self, now: Micros, out: &mut impl Outbox) {
        let Bot { client, brain, .. } = self;
        let me = client.joined().map(|joined| joined.avatar);
        let think = |me| client.see(now, |world| brain.think(world, me, &mut Vec::new()));
        let controls = me.map(think).unwrap_or_default();
        client.set_input(controls);
        let mut sent = RecordingOutbox::default();
        client.handle(now, NodeInput::Wake, &mut sent);
        let (own, counts) = (client.own().to_vec(), client.counts());
        let (foreseen, corrected) = (counts.foreseen as u32, counts.corrected as u32);
        for (link, outgoing) in sent.0 {
            let Outgoing::Datagram(said) = outgoing else { continue };
            out.datagram(link, &said);
            let (now_us, own) = (now.0 as u32, own.clone());
            self.record(&Step::Tick { now_us, controls, said, own, foreseen, corrected });
        }
    }
}

impl Node for Player {
    type Command = ServerCommand;
    type Event = ServerEvent;

    fn handle(&mut self, now: Micros, input: NodeInput<'_, ServerCommand>, out: &mut impl Outbox) {
        match self {
            Player::Server(server) => server.handle(now, input, out),
            Player::Bot(bot) if input == NodeInput::Wake => bot.play(now, out),
            Player::Bot(bot) => {
                bot.hear(now, &input);
                let input = input.map_command(|_| None);
                input.into_iter().for_each(|input| bot.client.handle(now, input, out));
                while bot.client.poll().is_some() {}
            }
        }
    }

    fn poll(&mut self) -> Option<ServerEvent> {
        match self {
            Player::Server(server) => server.poll(),
            Player::Bot(_) => None,
        }
    }

    fn next_wake(&self, now: Micros) -> Micros {
        match self {
            Player::Server(server) => server.next_wake(now),
            Player::Bot(bot) => bot.client.next_wake(now),
        }
    }
}

/// Accepts every bot.
struct OpenHost;

impl Host<Player> for OpenHost {
    fn on_event(
        &mut self,
        _: Micros,
        _: usize,
        _: &mut Placed<Player>,
        event: ServerEvent,
    ) -> Option<Reaction<ServerCommand>> {
        let ServerEvent::Asked { link, name, .. } = event else { return None };
        let player = name.strip_prefix("bot-")?.parse::<u32>().ok()? + 1;
        let admit = ServerCommand::Admit(link, PlayerId(player), Vec::new());
        Some(Reaction::Answer(Micros::ZERO, admit))
    }
}

/// Latencies of 60 to 100 ms, mostly in order; losses in bursts, and duplicates.
fn bad_network(seed: u64) -> NetworkSpec {
    NetworkSpec {
        jitter: 66,
        loss: Loss::Bursty { share: 0.05, burst: 3.0 },
        reorder: 0.02,
        duplicate: 0.01,
        ..NetworkSpec::delayed(Micros::from_millis(60), seed)
    }
}

fn file(dir: &Path, name: &str, arena: &Arena, content: &[u8]) -> Result<(), Failure> {
    let mut bytes = postcard::to_allocvec(&arena.schema().describe())?;
    bytes.extend(content);
    Ok(fs::write(dir.join(name), bytes)?)
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let dir = Path::new(words.first().ok_or("usage: packets DIR [count] [seed]")?);
    let count = words.get(1).map_or(Ok(100_000), |word| word.parse())?;
    let seed = words.get(2).map_or(Ok(1), |word| word.parse())?;
    fs::create_dir_all(dir)?;
    let arena = Arc::new(Arena::new(Setup::for_players(BOTS, seed))?);
    fs::write(dir.join("arena.json"), serde_json::to_string(&ArenaDocument::of(&arena))?)?;
    let keys = Box::new(|| ResumeKey([7; 16]));
    let mut server = Server::new(Arc::clone(&arena), ServerSettings::default(), keys);
    server.simulation.populate()?;
    let mut network = Network::new(bad_network(seed));
    network.add(Player::Server(Box::new(server)), Placement::PLAIN, &mut OpenHost);
    let witness = Rc::new(RefCell::new(Witness::new(&arena, seed)));
    for at in 0..BOTS {
        let client = Client::new(Arc::clone(&arena), &format!("bot-{at}"), &[]);
        let brain = Fighter::new(Arc::clone(&arena), Skill::mixed(at), seed, at as u64);
        let (witness, session) = (Rc::clone(&witness), (at == 0).then(Vec::new));
        let bot = Player::Bot(Box::new(Bot { at, client, brain, witness, session }));
        let place = network.add(bot, Placement::PLAIN, &mut OpenHost);
        network.connect(place, 0, &mut OpenHost).ok_or("the server is not there")?;
    }
    while witness.borrow().written < count {
        let until = network.now() + Micros::from_millis(1_000);
        network.run_until(until, &mut OpenHost);
    }
    if let Some(Player::Bot(bot)) = network.nodes[1].as_ref().map(|placed| &placed.node) {
        file(dir, "session.bin", &arena, bot.session.as_deref().unwrap_or_default())?;
    }
    let witness = witness.borrow();
    file(dir, "packets.bin", &arena, &witness.out)?;
    let seconds = network.now().0 / 1_000_000;
    println!("{} packets of {seconds} s with {BOTS} bots, seed {seed}", witness.written);
    Ok(())
}
