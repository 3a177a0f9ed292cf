//! Peers by the dozen or the thousand on a virtual network: the very node that ships, links that delay,
//! lose and queue, crashes, partitions.

use super::keys::Keys;
use crate::net::{Agenda, Latency};
use foveate_node::game::Game;
use foveate_node::outbox::{Letter, Letters};
use foveate_node::peer::{Key, PeerEvent, Settings, Signer};
use foveate_node::{Link, Peer};
use foveate_wire::{Micros, Tick};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What the network does.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NetSpec {
    /// The length of a round.
    pub round: Micros,
    /// How long a datagram takes, drawn once for each pair; and on top of it, each time, up to a fifth.
    pub latency: Latency,
    /// The share of datagrams lost, on every link alike.
    pub loss: f64,
    /// The share of links that go by way of a relay: twice as long.
    pub relayed: f64,
    /// Bytes that an uplink queues; more is dropped.
    pub queue: u64,
    /// What all chance is drawn from.
    pub seed: u64,
}

/// Bytes around each datagram on an uplink: UDP and IP.
const OVERHEAD: u64 = 28;
/// A call that nobody answers is given up after this.
const CALL_TIMEOUT: Micros = Micros(1_500_000);

/// Datagrams that a log keeps.
const MAX_LOG: usize = 256;

/// What one node sent, by sort.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// Datagrams,
    pub datagrams: u64,
    /// and their bytes.
    pub datagram_bytes: u64,
    /// Messages,
    pub messages: u64,
    /// and theirs.
    pub message_bytes: u64,
    /// What the uplink's queue had no room for.
    pub dropped: u64,
}

impl<G: Game> Node<G> {
    /// The last round that it had told of at a time of the laboratory's, which is not long ago.
    pub fn told_by(&self, time: Micros, round: Micros) -> Tick {
        let since = self.ticked.0.saturating_sub(time.0).div_ceil(round.0);
        Tick(self.peer.stage.publisher.store.tick().0.wrapping_sub(since as u32))
    }

    /// What it wanted to send in a second as a share of its uplink, headers of UDP and IP and dropped
    /// datagrams included; 0 where the uplink has no limit.
    pub fn uplink_load(&self, sent: &Sent) -> f64 {
        let whole = sent.bytes() + OVERHEAD * (sent.datagrams + sent.messages);
        self.uplink.map_or(0.0, |uplink| whole as f64 / uplink)
    }
}

impl Sent {
    /// All bytes, the transport's own not counted.
    pub fn bytes(&self) -> u64 {
        self.datagram_bytes + self.message_bytes
    }

    /// What was sent since an earlier count.
    pub fn since(&self, earlier: &Sent) -> Sent {
        Sent {
            datagrams: self.datagrams - earlier.datagrams,
            datagram_bytes: self.datagram_bytes - earlier.datagram_bytes,
            messages: self.messages - earlier.messages,
            message_bytes: self.message_bytes - earlier.message_bytes,
            dropped: self.dropped - earlier.dropped,
        }
    }
}

/// A participant.
pub struct Node<G: Game> {
    /// Its peer.
    pub peer: Peer<G>,
    /// What it sent so far.
    pub sent: Sent,
    /// Bytes that arrived, the transport's own not counted.
    pub received: u64,
    /// What happened to it: the verdicts that it passed.
    pub verdicts: Vec<(Micros, foveate_node::game::PlayerId, foveate_node::peer::Fault)>,
    /// When it came in.
    pub inside: Option<Micros>,
    /// Its last datagrams, if somebody asked for them to be kept.
    pub log: Option<VecDeque<(Link, Vec<u8>)>>,
    /// Its public key.
    pub key: Key,
    uplink: Option<f64>,
    busy: Micros,
    /// Its clock is ahead of the laboratory's by this.
    skew: Micros,
    /// When it had its last round.
    ticked: Micros,
    stalls: bool,
    group: u8,
}

struct Wire {
    ends: [usize; 2],
    open: [bool; 2],
    latency: Micros,
    /// When the last message of each direction arrives: the next cannot overtake it.
    ordered: [Micros; 2],
}

enum Happening {
    Tick(usize),
    Call { from: usize, to: usize },
    Letter { wire: usize, to: usize, letter: Letter },
}

/// A running game of peers.
pub struct PeerNet<G: Game> {
    /// Those who are there; crashed ones are gone.
    pub nodes: Vec<Option<Node<G>>>,
    spec: NetSpec,
    game: Arc<G>,
    wires: Vec<Wire>,
    agenda: Agenda<Happening>,
    now: Micros,
    rng: fastrand::Rng,
    keys: BTreeMap<Key, usize>,
    /// What everybody's keys are drawn from.
    seeds: Vec<u64>,
    /// The world's time less the laboratory's: the founder's clock counts.
    epoch: Micros,
    /// FNV-1a over all that was sent: two runs that agree in it sent the same bytes.
    digest: u64,
}

impl<G: Game> PeerNet<G> {
    /// Nobody is there.
    pub fn new(game: Arc<G>, spec: NetSpec) -> PeerNet<G> {
        PeerNet {
            nodes: Vec::new(),
            spec,
            game,
            wires: Vec::new(),
            agenda: Agenda::default(),
            now: Micros::ZERO,
            rng: fastrand::Rng::with_seed(spec.seed),
            keys: BTreeMap::new(),
            seeds: Vec::new(),
            epoch: Micros::ZERO,
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// The time.
    pub fn now(&self) -> Micros {
        self.now
    }

    /// The world's round at a time of the laboratory's.
    pub fn tick_at(&self, time: Micros) -> Tick {
        Tick(((time + self.epoch).0 / self.spec.round.0) as u32)
    }

    /// A hash of all that was sent.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Somebody comes: the first founds the world, the others join by way of `contact`. The uplink is in
    /// bytes per second.
    pub fn enter(
        &mut self,
        contact: Option<usize>,
        uplink: Option<f64>,
        settings: impl FnOnce(Vec<u8>) -> Settings,
    ) -> Option<usize> {
        let at = self.nodes.len();
        let seeds = std::iter::repeat_with(|| self.rng.u64(..)).take(64);
        let seed = seeds.into_iter().find(|seed| Keys::new(*seed).is_some())?;
        self.seeds.push(seed);
        self.nodes.push(None);
        self.begin(at, contact, uplink, settings)
    }

    /// Somebody who crashed or left at least a round ago begins anew, with the same keys and nothing else.
    pub fn come_back(
        &mut self,
        at: usize,
        contact: usize,
        settings: impl FnOnce(Vec<u8>) -> Settings,
    ) -> Option<usize> {
        self.begin(at, Some(contact), None, settings)
    }

    fn begin(
        &mut self,
        at: usize,
        contact: Option<usize>,
        uplink: Option<f64>,
        settings: impl FnOnce(Vec<u8>) -> Settings,
    ) -> Option<usize> {
        let keys = Keys::new(*self.seeds.get(at)?)?;
        let key = keys.key();
        let settings = settings((at as u32).to_le_bytes().to_vec());
        let name = format!("player {at}");
        let mut peer = Peer::new(Arc::clone(&self.game), settings, Box::new(keys), &name);
        let skew = Micros(self.rng.u64(..600_000_000));
        match contact {
            Some(contact) => {
                let other = self.nodes.get(contact)?.as_ref()?;
                peer.join(other.key, (contact as u32).to_le_bytes().to_vec(), self.now + skew);
            }
            None => {
                self.epoch = skew;
                peer.found(self.now + skew).ok()?;
            }
        }
        self.keys.insert(key, at);
        let (sent, verdicts) = (Sent::default(), Vec::new());
        let node = Node {
            peer,
            sent,
            received: 0,
            verdicts,
            inside: None,
            log: None,
            key,
            uplink,
            busy: self.now,
            skew,
            ticked: self.now,
            stalls: false,
            group: 0,
        };
        self.nodes[at] = Some(node);
        let phase = Micros(self.rng.u64(..self.spec.round.0));
        self.agenda.plan(self.now + phase, Happening::Tick(at));
        self.settle(at, Letters::default());
        Some(at)
    }

    /// Somebody vanishes without a word.
    pub fn crash(&mut self, at: usize) -> Option<Node<G>> {
        self.nodes.get_mut(at)?.take()
    }

    /// Somebody leaves in order.
    pub fn leave(&mut self, at: usize) {
        let mut out = Letters::default();
        if let Some(node) = self.nodes.get_mut(at).and_then(Option::as_mut) {
            node.peer.leave(self.now + node.skew, &mut out);
        }
        self.settle(at, out);
        self.crash(at);
    }

    /// Somebody stalls, or goes on: meanwhile it does nothing and hears nothing.
    pub fn stall(&mut self, at: usize, stalls: bool) {
        if let Some(node) = self.nodes.get_mut(at).and_then(Option::as_mut) {
            node.stalls = stalls;
        }
    }

    /// Puts somebody on one side of a partition; those on different sides do not hear each other.
    pub fn partition(&mut self, at: usize, group: u8) {
        if let Some(node) = self.nodes.get_mut(at).and_then(Option::as_mut) {
            node.group = group;
        }
    }

    /// Everybody who is there.
    pub fn present(&self) -> impl Iterator<Item = (usize, &Node<G>)> {
        self.nodes.iter().enumerate().filter_map(|(at, node)| Some((at, node.as_ref()?)))
    }

    /// Runs until a time. `drive` is called before each tick of a node's: to steer it, or to make it
    /// misbehave.
    pub fn run_until(
        &mut self,
        until: Micros,
        mut drive: impl FnMut(Micros, usize, &mut Node<G>, &mut Letters),
    ) {
        while let Some((now, happening)) = self.agenda.next(until) {
            self.now = now;
            match happening {
                Happening::Tick(at) => {
                    let Some(node) = self.nodes[at].as_mut() else { continue };
                    self.agenda.plan(now + self.spec.round, Happening::Tick(at));
                    if node.stalls {
                        continue;
                    }
                    let mut out = Letters::default();
                    drive(now, at, node, &mut out);
                    node.peer.tick(now + node.skew, &mut out);
                    node.ticked = now;
                    self.settle(at, out);
                }
                Happening::Call { from, to } => self.answer(from, to),
                Happening::Letter { wire, to, letter } => self.arrive(wire, to, &letter),
            }
        }
        self.now = self.now.max(until);
    }

    /// Carries out what a node said and wants.
    fn settle(&mut self, at: usize, out: Letters) {
        for (link, letter) in out.0 {
            self.post(at, link.0 as usize, letter);
        }
        loop {
            let Some(node) = self.nodes[at].as_mut() else { return };
            let Some(event) = node.peer.poll() else { return };
            match event {
                PeerEvent::Connect(key, contact) => {
                    let index = contact.try_into().map(u32::from_le_bytes);
                    let to = index.map_or(usize::MAX, |index| index as usize);
                    let there = self.reaches(at, to) && self.keys.get(&key) == Some(&to);
                    let wait = if there { self.latency(at, to) * 3 } else { CALL_TIMEOUT };
                    self.agenda.plan(self.now + wait, Happening::Call { from: at, to });
                }
                PeerEvent::Inside => node.inside = Some(self.now),
                PeerEvent::Verdict(player, fault) => node.verdicts.push((self.now, player, fault)),
                PeerEvent::Met(_) | PeerEvent::Parted(..) | PeerEvent::Happened(_) => {}
            }
        }
    }

    fn group(&self, at: usize) -> Option<u8> {
        self.nodes.get(at)?.as_ref().map(|node| node.group)
    }

    fn stalls(&self, at: usize) -> bool {
        self.nodes.get(at).and_then(Option::as_ref).is_some_and(|node| node.stalls)
    }

    fn reaches(&self, a: usize, b: usize) -> bool {
        let awake = !self.stalls(a) && !self.stalls(b);
        let (a, b) = (self.group(a), self.group(b));
        awake && a.is_some() && a == b
    }

    /// How long a datagram takes between two at least: the same whenever it is asked for.
    pub fn latency(&self, a: usize, b: usize) -> Micros {
        let pair = (a.min(b) as u64) << 32 | a.max(b) as u64;
        let mut rng =
            fastrand::Rng::with_seed(self.spec.seed ^ pair.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let relayed = rng.f64() < self.spec.relayed;
        let spec =
            crate::net::LinkSpec { latency: self.spec.latency, ..crate::net::LinkSpec::PERFECT };
        let mut latency = Micros::ZERO;
        crate::net::Link::new(spec, rng.u64(..)).carry(Micros::ZERO, 0, |at| latency = at);
        if relayed { latency * 2 } else { latency }
    }

    fn answer(&mut self, from: usize, to: usize) {
        let there = self.reaches(from, to);
        let Some(key) = self.nodes.get(to).and_then(Option::as_ref).map(|node| node.key) else {
            return;
        };
        let Some(caller) = self.nodes[from].as_mut() else { return };
        let skewed = self.now + caller.skew;
        if !there {
            return caller.peer.unreachable(key, skewed);
        }
        let own = caller.key;
        let (link, latency) = (Link(self.wires.len() as u64), self.latency(from, to));
        let ordered = [self.now; 2];
        self.wires.push(Wire { ends: [from, to], open: [true; 2], latency, ordered });
        for (at, key, called) in [(from, key, true), (to, own, false)] {
            let mut out = Letters::default();
            if let Some(node) = self.nodes[at].as_mut() {
                node.peer.connected(link, (key, called), self.now + node.skew, &mut out);
            }
            self.settle(at, out);
        }
    }

    fn post(&mut self, at: usize, wire: usize, letter: Letter) {
        let Some(node) = self.nodes[at].as_mut() else { return };
        let Some(it) = self.wires.get_mut(wire) else { return };
        let end = usize::from(it.ends[1] == at);
        if !it.open[end] {
            return;
        }
        let (bytes, reliable): (&[u8], bool) = match &letter {
            Letter::Datagram(bytes) => (bytes, false),
            Letter::Message(bytes) => (bytes, true),
            Letter::Close(_) => {
                it.open[end] = false;
                (&[], true)
            }
        };
        let size = bytes.len() as u64;
        for byte in bytes.iter().chain(&(wire as u32).to_le_bytes()) {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if reliable {
            node.sent.messages += 1;
            node.sent.message_bytes += size;
        } else {
            node.sent.datagrams += 1;
            node.sent.datagram_bytes += size;
            if let Some(log) = &mut node.log {
                log.truncate(MAX_LOG - 1);
                log.push_front((Link(wire as u64), bytes.to_vec()));
            }
        }
        let mut left = self.now;
        if let Some(rate) = node.uplink {
            let start = node.busy.max(self.now);
            let waiting = (start - self.now).as_secs() * rate;
            if !reliable && waiting + (size + OVERHEAD) as f64 > self.spec.queue as f64 {
                node.sent.dropped += 1;
                return;
            }
            node.busy = start + Micros::from_secs((size + OVERHEAD) as f64 / rate);
            left = node.busy;
        }
        let jitter = Micros(self.rng.u64(..=it.latency.0 / 5));
        let mut arrives = left + it.latency + jitter;
        let loses = |rng: &mut fastrand::Rng| rng.f64() < self.spec.loss;
        if reliable {
            // What is lost is sent again after a round trip and a half; nothing overtakes it.
            while loses(&mut self.rng) {
                arrives = arrives + it.latency * 3;
            }
            arrives = arrives.max(it.ordered[end]);
            it.ordered[end] = arrives;
        } else if loses(&mut self.rng) {
            return;
        }
        let to = it.ends[1 - end];
        self.agenda.plan(arrives, Happening::Letter { wire, to, letter });
    }

    fn arrive(&mut self, wire: usize, to: usize, letter: &Letter) {
        if self.stalls(to) {
            return;
        }
        let it = &mut self.wires[wire];
        let end = usize::from(it.ends[1] == to);
        let from = it.ends[1 - end];
        if !it.open[end] || self.group(from).is_some_and(|group| Some(group) != self.group(to)) {
            return;
        }
        let (link, now) = (Link(wire as u64), self.now);
        let Some(node) = self.nodes[to].as_mut() else { return };
        let (skewed, mut out) = (now + node.skew, Letters::default());
        if let Letter::Datagram(bytes) | Letter::Message(bytes) = letter {
            node.received += bytes.len() as u64;
        }
        match letter {
            Letter::Datagram(bytes) => node.peer.datagram(link, bytes, skewed),
            Letter::Message(bytes) => node.peer.message(link, bytes, skewed, &mut out),
            Letter::Close(_) => {
                self.wires[wire].open[end] = false;
                node.peer.closed(link, skewed);
            }
        }
        self.settle(to, out);
    }
}
