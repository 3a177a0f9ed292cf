//! Records what a server says to its players, for another implementation to be held against.
//!
//! `cargo run --release -p foveate-arena --example packets -- DIR [count] [seed]`
//!
//! Sixty-four bots play over a bad network, in virtual time. Into DIR go
//! - `packets.bin`: so many state packets as they arrived, lost and doubled and out of order, and
//!   beside every eighth one with a flipped bit; each with what this implementation makes of it;
//! - `session.bin`: all that the first player's client heard, did and said, tick by tick;
//! - `arena.json`: the map.
//!
//! The binary files are postcard: the schema's text, then one [`Case`] or [`Step`] after the other.

use foveate_arena::game::Controls;
use foveate_arena::{Arena, ArenaDocument, Fighter, Setup, Skill};
use foveate_node::game::{Brain, Game, PlayerId};
use foveate_node::outbox::{Outgoing, RecordingOutbox};
use foveate_node::server::{ServerEvent, ServerSettings};
use foveate_node::session::{ResumeKey, ServerDatagram};
use foveate_node::{Client, Link, Server};
use foveate_sync::ReplicaSet;
use foveate_sync::replica::{Change, ReceiveError};
use foveate_wire::packet::{PacketError, PacketReader, Record, open_state};
use foveate_wire::{Micros, Models, Motion, Tick};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

type Failure = Box<dyn std::error::Error>;

const BOTS: u64 = 64;
const ROUND_MS: u64 = 50;
/// Of so many packets one is written again with a flipped bit.
const FLIPPED: u64 = 8;

/// One state packet, and what becomes of it.
#[derive(Serialize)]
struct Case {
    client: u8,
    bytes: Vec<u8>,
    /// One bit was flipped: it is read, but not taken in.
    flipped: bool,
    outcome: Outcome,
}

#[derive(Serialize)]
enum Outcome {
    Read { tick: u32, records: Vec<Row>, changes: Vec<(u8, u64)> },
    Refused(u8),
}

/// A record: its operation (update, whole, frozen, gone), and what belongs to it.
#[derive(Serialize)]
struct Row {
    operation: u8,
    alias: u16,
    id: u64,
    lanes: Vec<i32>,
    moved: [i32; 3],
    ticks: u32,
}

/// What happened to the first player's client.
#[derive(Serialize)]
enum Step {
    Message(Vec<u8>),
    Datagram {
        now_ms: u32,
        bytes: Vec<u8>,
    },
    /// A tick: what the player did, what was said, and the avatar as it is foreseen.
    Tick {
        now_ms: u32,
        controls: Controls,
        said: Option<Vec<u8>>,
        own: Vec<i32>,
        foreseen: u32,
        corrected: u32,
    },
}

/// One way of all links: jitter, losses in bursts, doubles.
struct Way {
    rng: fastrand::Rng,
    bad: Vec<bool>,
    queue: Vec<(u64, u64, Link, Outgoing)>,
    sent: u64,
}

impl Way {
    fn new(seed: u64) -> Way {
        let (rng, bad) = (fastrand::Rng::with_seed(seed), vec![false; BOTS as usize]);
        Way { rng, bad, queue: Vec::new(), sent: 0 }
    }

    fn send(&mut self, now: u64, out: RecordingOutbox) {
        for (link, packet) in out.0 {
            let bad = &mut self.bad[link.0 as usize];
            *bad = self.rng.f64() < if *bad { 2.0 / 3.0 } else { 0.05 / 3.0 / 0.95 };
            let datagram = matches!(packet, Outgoing::Datagram(_));
            if *bad && datagram {
                continue;
            }
            let copies = if datagram && self.rng.u8(..100) == 0 { 2 } else { 1 };
            for _ in 0..copies {
                // Mostly in order; now and then one is late by a few rounds.
                let late = if datagram && self.rng.u8(..50) == 0 { self.rng.u64(..400) } else { 0 };
                self.sent += 1;
                self.queue.push((
                    now + 60 + self.rng.u64(..40) + late,
                    self.sent,
                    link,
                    packet.clone(),
                ));
            }
        }
    }

    fn arrived(&mut self, now: u64) -> Vec<(Link, Outgoing)> {
        let due = std::mem::take(&mut self.queue);
        let (mut due, later): (Vec<_>, Vec<_>) = due.into_iter().partition(|one| one.0 <= now);
        self.queue = later;
        due.sort_by_key(|(at, sent, _, _)| (*at, *sent));
        due.into_iter().map(|(_, _, link, packet)| (link, packet)).collect()
    }
}

/// Reads packets as a client would, and writes down what is in them.
struct Witness {
    mirrors: Vec<ReplicaSet>,
    models: Models,
    rng: fastrand::Rng,
    out: BufWriter<File>,
    written: u64,
}

impl Witness {
    fn see(&mut self, client: usize, bytes: &[u8]) -> Result<(), Failure> {
        let records = self.read(client, bytes);
        if self.rng.u64(..FLIPPED) == 0 {
            self.flip(client, bytes)?;
        }
        let mut changes = Vec::new();
        let received = self.mirrors[client].receive(bytes, |change| changes.push(code(change)));
        let outcome = match (received, records) {
            (Ok(tick), Ok((_, records))) => Outcome::Read { tick: tick.0, records, changes },
            (Err(error), _) => Outcome::Refused(why(error)),
            (Ok(_), Err(error)) => return Err(error.into()),
        };
        self.write(Case { client: client as u8, bytes: bytes.into(), flipped: false, outcome })
    }

    fn flip(&mut self, client: usize, bytes: &[u8]) -> Result<(), Failure> {
        let mut bytes = bytes.to_vec();
        let bit = self.rng.usize(..bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let outcome = match self.read(client, &bytes) {
            Ok((tick, records)) => Outcome::Read { tick: tick.0, records, changes: Vec::new() },
            Err(error) => Outcome::Refused(why(error.into())),
        };
        self.write(Case { client: client as u8, bytes, flipped: true, outcome })
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

    fn write(&mut self, case: Case) -> Result<(), Failure> {
        self.written += 1;
        Ok(self.out.write_all(&postcard::to_allocvec(&case)?)?)
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

/// Server and clients.
struct Play {
    server: Server<Arena>,
    clients: Vec<Client<Arena>>,
    brains: Vec<Fighter>,
    up: Way,
    down: Way,
    witness: Witness,
    session: BufWriter<File>,
}

impl Play {
    fn new(arena: &Arc<Arena>, seed: u64, dir: &Path) -> Result<Play, Failure> {
        let keys = Box::new(|| ResumeKey([7; 16]));
        let mut server = Server::new(Arc::clone(arena), ServerSettings::default(), keys);
        server.simulation.populate()?;
        let mut play = Play {
            server,
            clients: Vec::new(),
            brains: Vec::new(),
            up: Way::new(seed),
            down: Way::new(!seed),
            witness: Witness {
                mirrors: (0..BOTS)
                    .map(|_| ReplicaSet::new(Arc::clone(arena.schema()), Tick(0)))
                    .collect(),
                models: Models::trained(),
                rng: fastrand::Rng::with_seed(seed),
                out: file(dir, "packets.bin", arena)?,
                written: 0,
            },
            session: file(dir, "session.bin", arena)?,
        };
        for bot in 0..BOTS {
            let mut out = RecordingOutbox::default();
            let mut client = Client::new(Arc::clone(arena), &format!("bot-{bot}"), &[]);
            client.connected(Link(bot), &mut out);
            play.server.connected(Link(bot), &mut out);
            play.up.send(0, out);
            play.clients.push(client);
            play.brains.push(Fighter::new(
                Arc::clone(arena),
                Skill::mixed(bot as usize),
                seed,
                bot,
            ));
        }
        Ok(play)
    }

    fn round(&mut self, round: u64) -> Result<(), Failure> {
        let now = round * ROUND_MS;
        let time = Micros::from_millis(now);
        self.serve(round)?;
        for (link, outgoing) in self.down.arrived(now) {
            let at = link.0 as usize;
            let step = match outgoing {
                Outgoing::Datagram(bytes) => {
                    let state = ServerDatagram::read(&bytes).map_or(&[][..], |frame| frame.state);
                    if !state.is_empty() {
                        self.witness.see(at, state)?;
                    }
                    self.clients[at].datagram(&bytes, time);
                    Step::Datagram { now_ms: now as u32, bytes }
                }
                Outgoing::Message(bytes) => {
                    self.clients[at].message(&bytes);
                    Step::Message(bytes)
                }
                Outgoing::Close(why) => return Err(format!("closed: {why:?}").into()),
            };
            if at == 0 {
                self.session.write_all(&postcard::to_allocvec(&step)?)?;
            }
        }
        self.think(now)
    }

    fn serve(&mut self, round: u64) -> Result<(), Failure> {
        let now = round * ROUND_MS;
        let (time, mut out) = (Micros::from_millis(now), RecordingOutbox::default());
        for (link, outgoing) in self.up.arrived(now) {
            match outgoing {
                Outgoing::Datagram(bytes) => self.server.datagram(link, &bytes, time),
                Outgoing::Message(bytes) => self.server.message(link, &bytes, time, &mut out),
                Outgoing::Close(why) => return Err(format!("closed: {why:?}").into()),
            }
        }
        while let Some(event) = self.server.poll() {
            if let ServerEvent::Asked { link, .. } = event {
                let player = PlayerId(link.0 as u32 + 1);
                self.server.admit(link, player, &[], time, &mut out)?;
            }
        }
        self.server.tick(Tick(round as u32), time, &mut out);
        self.down.send(now, out);
        Ok(())
    }

    fn think(&mut self, now: u64) -> Result<(), Failure> {
        let mut all = RecordingOutbox::default();
        for (at, (client, brain)) in self.clients.iter_mut().zip(&mut self.brains).enumerate() {
            let (mut out, mut controls) = (RecordingOutbox::default(), Controls::default());
            client.tick(Micros::from_millis(now), &mut out, |world, me| {
                controls = brain.think(world, me, &mut Vec::new());
                controls
            });
            while client.poll().is_some() {}
            if at == 0 && client.joined().is_some() {
                let said = out.0.iter().find_map(|(_, outgoing)| match outgoing {
                    Outgoing::Datagram(bytes) => Some(bytes.clone()),
                    _ => None,
                });
                let (own, counts) = (client.own().to_vec(), client.counts());
                let (foreseen, corrected) = (counts.foreseen as u32, counts.corrected as u32);
                let step =
                    Step::Tick { now_ms: now as u32, controls, said, own, foreseen, corrected };
                self.session.write_all(&postcard::to_allocvec(&step)?)?;
            }
            all.0.append(&mut out.0);
        }
        self.up.send(now, all);
        Ok(())
    }
}

fn file(dir: &Path, name: &str, arena: &Arena) -> Result<BufWriter<File>, Failure> {
    let mut out = BufWriter::new(File::create(dir.join(name))?);
    out.write_all(&postcard::to_allocvec(&arena.schema().describe())?)?;
    Ok(out)
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let dir = Path::new(words.first().ok_or("usage: packets DIR [count] [seed]")?);
    let count = words.get(1).map_or(Ok(100_000), |word| word.parse())?;
    let seed = words.get(2).map_or(Ok(1), |word| word.parse())?;
    fs::create_dir_all(dir)?;
    let arena = Arc::new(Arena::new(Setup::for_players(BOTS as usize, seed))?);
    fs::write(dir.join("arena.json"), serde_json::to_string(&ArenaDocument::of(&arena))?)?;
    let mut play = Play::new(&arena, seed, dir)?;
    let mut round = 0;
    while play.witness.written < count {
        round += 1;
        play.round(round)?;
    }
    println!("{} packets of {round} rounds with {BOTS} bots, seed {seed}", play.witness.written);
    Ok(())
}
