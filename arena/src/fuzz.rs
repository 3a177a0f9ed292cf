//! Entry points for fuzzers, and for the tests that stand in for them: nodes of a real match,
//! between which any packet may be lost, repeated, changed, cut or invented.
//!
//! Random bytes alone would hardly get past the handshake. So honest nodes play, and the fuzzer's
//! bytes decide the fate of each packet on its way to the tested node; when the bytes are used up,
//! packets arrive unchanged. Refusing a packet is correct; a node must never panic, hang or use
//! memory without a bound.

use crate::game::{Arena, Controls, Setup};
use foveate_node::client::ClientPhase;
use foveate_node::game::PlayerId;
use foveate_node::outbox::{Outgoing, RecordingOutbox};
use foveate_node::peer::{self, Key, PeerEvent, Signer};
use foveate_node::server::{self, ServerEvent};
use foveate_node::session::ResumeKey;
use foveate_node::{Client, Link, Peer, Server};
use foveate_wire::{Metres, Micros, Tick};
use std::sync::{Arc, LazyLock};

/// Rounds of a match with a server, and of one among peers, where joining takes longer.
const ROUNDS: [u32; 2] = [24, 60];
const ROUND: Micros = Micros(50_000);
const LINK: Link = Link(1);
/// The most objects that a match of two players may have, whatever packets arrive.
const MAX_OBJECTS: usize = 64;

/// The map of all runs.
static ARENA: LazyLock<Option<Arc<Arena>>> =
    LazyLock::new(|| Arena::new(Setup::for_players(2, 1)).ok().map(Arc::new));

/// Decides the fate of packets.
struct Fate<'a>(&'a [u8]);

impl Fate<'_> {
    fn byte(&mut self) -> u8 {
        self.0.split_off_first().copied().unwrap_or(0)
    }

    /// What arrives instead of a packet.
    fn of(&mut self, mut outgoing: Vec<u8>) -> Vec<Vec<u8>> {
        match self.byte() % 8 {
            3 => return Vec::new(),
            4 => return vec![outgoing.clone(), outgoing],
            5 => {
                for _ in 0..=self.byte() % 4 {
                    let at = usize::from(u16::from_le_bytes([self.byte(), self.byte()]));
                    let (at, value) = (at % outgoing.len().max(1), self.byte());
                    outgoing.get_mut(at).into_iter().for_each(|byte| *byte = value);
                }
            }
            6 => outgoing.truncate(usize::from(self.byte())),
            7 => {
                let length = usize::from(self.byte()).min(self.0.len());
                outgoing = self.0.split_off(..length).unwrap_or_default().to_vec();
            }
            _ => {}
        }
        vec![outgoing]
    }
}

/// Passes a player's packets to a server, changed by these bytes. Returns whether the player is in
/// the match at the end.
pub fn server(fate: &[u8]) -> bool {
    play(Fate(fate), Fate(&[]))
}

/// Passes a server's packets to a player, changed by these bytes. Returns whether the player is in
/// the match at the end.
pub fn client(fate: &[u8]) -> bool {
    play(Fate(&[]), Fate(fate))
}

fn play(mut up: Fate<'_>, mut down: Fate<'_>) -> bool {
    let Some(arena) = ARENA.as_ref() else { return false };
    let mut keys = 0;
    let keys = Box::new(move || {
        keys += 1;
        ResumeKey([keys; 16])
    });
    let mut server = Server::new(Arc::clone(arena), server::ServerSettings::default(), keys);
    let _ = server.simulation.populate();
    let mut client = Client::new(Arc::clone(arena), "ada", &[]);
    let (mut said, mut answers) = (RecordingOutbox::default(), RecordingOutbox::default());
    client.connected(LINK, &mut said);
    server.connected(LINK, &mut answers);
    for round in 1..=ROUNDS[0] {
        let now = ROUND * round;
        for (link, outgoing) in said.0.drain(..) {
            match outgoing {
                Outgoing::Datagram(bytes) => {
                    up.of(bytes).iter().for_each(|bytes| server.datagram(link, bytes, now));
                }
                Outgoing::Message(bytes) => {
                    let bytes = up.of(bytes);
                    bytes.iter().for_each(|bytes| server.message(link, bytes, now, &mut answers));
                }
                Outgoing::Close(_) => server.closed(link, now),
            }
        }
        host(&mut server, now, &mut answers);
        server.tick(Tick(round), now, &mut answers);
        host(&mut server, now, &mut answers);
        for (_, outgoing) in answers.0.drain(..) {
            match outgoing {
                Outgoing::Datagram(bytes) => {
                    down.of(bytes).iter().for_each(|bytes| client.datagram(bytes, now));
                }
                Outgoing::Message(bytes) => {
                    down.of(bytes).iter().for_each(|bytes| client.message(bytes));
                }
                Outgoing::Close(_) => client.closed(),
            }
        }
        client.tick(now, &mut said, |_, _| Controls::default());
        while client.poll().is_some() {}
        assert!(server.simulation.publisher.store.len() <= MAX_OBJECTS, "the world grows");
    }
    matches!(client.phase(), ClientPhase::Playing(_))
}

/// Accepts every player.
fn host(server: &mut Server<Arena>, now: Micros, out: &mut RecordingOutbox) {
    while let Some(event) = server.poll() {
        if let ServerEvent::Asked { link, .. } = event {
            let _ = server.admit(link, PlayerId(1), &[], now, out);
        }
    }
}

/// Passes a new peer's packets to the founder of a world among peers, changed by these bytes. All
/// signatures are accepted, so that forgeries get as far as possible. Returns whether the new peer
/// is in the world at the end.
pub fn peer(fate: &[u8]) -> bool {
    let Some(arena) = ARENA.as_ref() else { return false };
    let mut fate = Fate(fate);
    let settings = peer::PeerSettings::new(ROUND, Metres(60.0), Vec::new());
    let new = |key: Key, name| {
        Peer::new(Arc::clone(arena), settings.clone(), Box::new(UnsignedSigner(key)), name)
    };
    let keys = [Key([1; 32]), Key([2; 32])];
    let (mut founder, mut newcomer) = (new(keys[0], "ada"), new(keys[1], "bob"));
    let _ = founder.found(ROUND);
    newcomer.join(keys[0], Vec::new(), ROUND);
    let (mut said, mut answers) = (RecordingOutbox::default(), RecordingOutbox::default());
    let mut link = LINK;
    for round in 1..=ROUNDS[1] {
        let now = ROUND * round;
        while let Some(event) = newcomer.poll() {
            if let PeerEvent::Connect(key, _) = event
                && key == keys[0]
            {
                link = Link(link.0 + 1);
                newcomer.connected(link, (keys[0], true), now, &mut said);
                founder.connected(link, (keys[1], false), now, &mut answers);
            }
        }
        while founder.poll().is_some() {}
        for (link, outgoing) in said.0.drain(..) {
            match outgoing {
                Outgoing::Datagram(bytes) => {
                    fate.of(bytes).iter().for_each(|bytes| founder.datagram(link, bytes, now));
                }
                Outgoing::Message(bytes) => {
                    let bytes = fate.of(bytes);
                    bytes.iter().for_each(|bytes| founder.message(link, bytes, now, &mut answers));
                }
                Outgoing::Close(_) => founder.closed(link, now),
            }
        }
        founder.tick(now, &mut answers);
        for (link, outgoing) in answers.0.drain(..) {
            match outgoing {
                Outgoing::Datagram(bytes) => newcomer.datagram(link, &bytes, now),
                Outgoing::Message(bytes) => newcomer.message(link, &bytes, now, &mut said),
                Outgoing::Close(_) => newcomer.closed(link, now),
            }
        }
        newcomer.tick(now, &mut said);
        assert!(founder.owned().count() <= MAX_OBJECTS, "the world grows");
    }
    newcomer.is_inside()
}

/// Signs nothing and accepts every signature: over its own link a peer needs none, since the link proves its key.
pub struct UnsignedSigner(pub Key);

impl Signer for UnsignedSigner {
    fn key(&self) -> Key {
        self.0
    }

    fn sign(&self, _: &[u8]) -> [u8; 64] {
        [0; 64]
    }

    fn verify(&self, _: &Key, _: &[u8], _: &[u8; 64]) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    type Node = fn(&[u8]) -> bool;
    const NODES: [(&str, Node); 3] = [("server", server), ("client", client), ("peer", peer)];

    #[test]
    fn packets_that_arrive_as_they_are_let_every_player_join() {
        for (name, node) in NODES {
            assert!(node(&[]), "{name}");
        }
    }

    #[test]
    fn committed_seeds_are_refused_or_lived_with() {
        for (name, node) in NODES {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds");
            let folder = std::path::Path::new(folder).join(name);
            let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
            assert!(files.len() > 3, "the seeds of {name} are missing");
            for file in files {
                println!("{name}: {}", file.path().display());
                node(&std::fs::read(file.path()).unwrap());
            }
        }
    }

    #[test]
    fn nothing_that_arrives_makes_a_node_panic() {
        for (name, node) in NODES {
            let mut inside = 0;
            for seed in 0..200 {
                println!("{name}, seed {seed}"); // shown if the test fails
                let mut rng = Rng::with_seed(seed);
                let mut fate: Vec<u8> = (0..rng.usize(0..600)).map(|_| rng.u8(..)).collect();
                // Now and then the handshake gets through.
                fate.splice(0..0, std::iter::repeat_n(0, rng.usize(0..40)));
                inside += u32::from(node(&fate));
            }
            assert!(inside > 10, "{name}: {inside} of 200 tampered players are inside");
        }
    }
}
