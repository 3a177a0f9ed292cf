//! Any mix of nodes in virtual time: the very types that ship, on links that delay, lose, reorder, double and
//! queue, with partitions, crashes, pauses and clocks that differ.
//!
//! One event queue drives everything: wake-ups, dials, packets, answers. One RNG decides everything, so a
//! seed replays a run to the byte, and [`Network::digest`] proves it. What nodes ask of their host is answered
//! by a [`Host`], which may delay an answer, or not give it.

pub mod sessions;
#[cfg(test)]
mod tests;

pub use sessions::{Participant, Sessions};

use crate::net::{Agenda, Latency, LinkSpec, Loss};
use foveate_node::Link;
use foveate_node::node::{Node, NodeInput, Remote};
use foveate_node::outbox::{Outgoing, RecordingOutbox};
use foveate_wire::Micros;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};

/// What the network does to what is sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NetworkSpec {
    /// One way, drawn once for each pair of nodes.
    pub latency: Latency,
    /// Added to each packet: up to this share of the pair's latency, in percent.
    pub jitter: u32,
    /// Which datagrams are lost. Messages are sent again after a round trip and a half, and never overtake
    /// each other.
    pub loss: Loss,
    /// Share of datagrams that take one more latency, and so are overtaken.
    pub reorder: f64,
    /// Share of datagrams that arrive twice.
    pub duplicate: f64,
    /// Share of pairs whose link goes by way of a relay, and takes twice as long.
    pub relayed: f64,
    /// Bytes that a node's uplink queues; datagrams beyond are dropped.
    pub queue: u64,
    /// RNG seed.
    pub seed: u64,
}

impl NetworkSpec {
    /// A constant delay, nothing else.
    pub fn delayed(latency: Micros, seed: u64) -> NetworkSpec {
        NetworkSpec {
            latency: Latency::Constant(latency),
            jitter: 0,
            loss: Loss::None,
            reorder: 0.0,
            duplicate: 0.0,
            relayed: 0.0,
            queue: u64::MAX,
            seed,
        }
    }
}

/// Bytes around each packet on an uplink: UDP and IP.
pub const OVERHEAD: u64 = 28;
/// A dial that is not answered is given up after this.
pub const DIAL_TIMEOUT: Micros = Micros(1_500_000);

/// Datagrams that a log keeps.
const MAX_LOG: usize = 256;

/// What one node sent, by sort.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    /// Datagrams.
    pub datagrams: u64,
    /// Their bytes.
    pub datagram_bytes: u64,
    /// Messages, ends of links included.
    pub messages: u64,
    /// Their bytes.
    pub message_bytes: u64,
    /// Datagrams that found the uplink's queue full.
    pub dropped: u64,
}

impl Sent {
    /// All bytes, without those of the transport.
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

/// When a node is woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeUps {
    /// When it asks for it.
    Asked,
    /// Once a round, from a random moment of the first one on: a host whose timer knows nothing of the node.
    Every(Micros),
}

/// How a node takes part.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Placement {
    /// When it is woken.
    pub wake_ups: WakeUps,
    /// Bytes per second that its uplink carries.
    pub uplink: Option<f64>,
    /// Its clock is ahead of the laboratory's by this.
    pub skew: Micros,
    /// Its clock gains so many microseconds a second, or loses them.
    pub drift: i32,
}

impl Placement {
    /// Woken when it asks, a wide uplink, the laboratory's own clock.
    pub const PLAIN: Placement =
        Placement { wake_ups: WakeUps::Asked, uplink: None, skew: Micros::ZERO, drift: 0 };
}

/// A node on the network.
pub struct Placed<N> {
    /// The node.
    pub node: N,
    /// What it sent so far.
    pub sent: Sent,
    /// Bytes that arrived, without those of the transport.
    pub received: u64,
    /// When it was last woken.
    pub woken: Micros,
    /// Its last datagrams, newest first, if they are to be kept.
    pub log: Option<VecDeque<(Link, Vec<u8>)>>,
    placement: Placement,
    /// Until when its uplink is busy.
    busy: Micros,
    paused: bool,
    group: u8,
    /// Wake-ups planned for an earlier holder of this place are not for this one.
    life: u32,
}

impl<N> Deref for Placed<N> {
    type Target = N;

    fn deref(&self) -> &N {
        &self.node
    }
}

impl<N> DerefMut for Placed<N> {
    fn deref_mut(&mut self) -> &mut N {
        &mut self.node
    }
}

impl<N> Placed<N> {
    /// The node's own clock at a time of the laboratory's.
    pub fn clock(&self, now: Micros) -> Micros {
        let gained = now.0 as i128 * i128::from(self.placement.drift) / 1_000_000;
        Micros((now + self.placement.skew).0.saturating_add_signed(gained as i64))
    }

    /// How long the laboratory's clock runs until this one shows a time; 0 if it is past.
    fn until(&self, now: Micros, time: Micros) -> Micros {
        let ahead = time - self.clock(now);
        let pace = 1_000_000 + i64::from(self.placement.drift);
        // Rounded up: a node that is woken early would ask again at once.
        Micros((ahead.0 as u128 * 1_000_000).div_ceil(pace.max(1) as u128) as u64)
    }

    /// What it wanted to send in a second as a share of its uplink, packet overhead and dropped datagrams
    /// included; 0 where the uplink has no limit.
    pub fn uplink_load(&self, sent: &Sent) -> f64 {
        let whole = sent.bytes() + OVERHEAD * (sent.datagrams + sent.messages);
        self.placement.uplink.map_or(0.0, |uplink| whole as f64 / uplink)
    }
}

/// What a node's surroundings do for it.
pub enum Reaction<C> {
    /// Make a link with the node at this place; with a node that is not there it fails after
    /// [`DIAL_TIMEOUT`].
    Dial(usize),
    /// Hand over this command after a while.
    Answer(Micros, C),
}

/// Steers nodes and answers what they ask.
pub trait Host<N: Node> {
    /// Before a node is woken: give it an input, or make it misbehave.
    fn before_wake(
        &mut self,
        _now: Micros,
        _at: usize,
        _node: &mut Placed<N>,
        _out: &mut RecordingOutbox,
    ) {
    }

    /// Something that a node asks or says.
    fn on_event(
        &mut self,
        now: Micros,
        at: usize,
        node: &mut Placed<N>,
        event: N::Event,
    ) -> Option<Reaction<N::Command>>;

    /// What the transport proves about the node at a place.
    fn remote(&self, _at: usize, _dialled: bool) -> Remote {
        Remote::Anonymous
    }

    /// The command that tells a node that the one at `to` could not be reached.
    fn unreachable(&self, _to: usize) -> Option<N::Command> {
        None
    }
}

struct Wire {
    ends: [usize; 2],
    open: [bool; 2],
    latency: Micros,
    /// When the last message of each direction arrives: the next cannot overtake it.
    ordered: [Micros; 2],
    /// Whether each direction is in a burst of losses.
    in_burst: [bool; 2],
}

enum Happening<C> {
    Wake { at: usize, life: u32 },
    Dial { from: usize, to: usize },
    Answer { at: usize, life: u32, command: C },
    Arrival { wire: usize, to: usize, outgoing: Outgoing },
}

/// Nodes in virtual time.
pub struct Network<N: Node> {
    /// The nodes by place; `None`: crashed, or gone.
    pub nodes: Vec<Option<Placed<N>>>,
    spec: NetworkSpec,
    wires: Vec<Wire>,
    agenda: Agenda<Happening<N::Command>>,
    now: Micros,
    /// Decides everything; a host may draw from it while nodes are placed.
    pub rng: fastrand::Rng,
    lives: u32,
    /// FNV-1a over all that was sent: two runs that agree in it sent the same bytes.
    digest: u64,
}

impl<N: Node> Network<N> {
    /// An empty network at time 0.
    pub fn new(spec: NetworkSpec) -> Network<N> {
        Network {
            nodes: Vec::new(),
            spec,
            wires: Vec::new(),
            agenda: Agenda::default(),
            now: Micros::ZERO,
            rng: fastrand::Rng::with_seed(spec.seed),
            lives: 0,
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// The laboratory's time.
    pub fn now(&self) -> Micros {
        self.now
    }

    /// A hash of all that was sent.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// What the network does from now on; latencies of links that exist stay.
    pub fn set_spec(&mut self, spec: NetworkSpec) {
        self.spec = spec;
    }

    /// A place for a node to come.
    pub fn reserve(&mut self) -> usize {
        self.nodes.push(None);
        self.nodes.len() - 1
    }

    /// Adds a node at a new place.
    pub fn add(&mut self, node: N, placement: Placement, host: &mut impl Host<N>) -> usize {
        let at = self.reserve();
        self.place(at, node, placement, host);
        at
    }

    /// Puts a node at a place that is free: a newcomer, or one that crashed and starts again.
    pub fn place(&mut self, at: usize, node: N, placement: Placement, host: &mut impl Host<N>) {
        self.lives += 1;
        let life = self.lives;
        let first = match placement.wake_ups {
            WakeUps::Every(round) => Some(self.now + Micros(self.rng.u64(..round.0))),
            WakeUps::Asked => None,
        };
        self.nodes[at] = Some(Placed {
            node,
            sent: Sent::default(),
            received: 0,
            woken: self.now,
            log: None,
            placement,
            busy: self.now,
            paused: false,
            group: 0,
            life,
        });
        match first {
            Some(first) => self.agenda.plan(first, Happening::Wake { at, life }),
            None => self.plan_wake(at),
        }
        self.settle(at, RecordingOutbox::default(), host);
    }

    /// A node vanishes without a word; its links stay open at their other ends, as after a power cut.
    pub fn crash(&mut self, at: usize) -> Option<Placed<N>> {
        self.nodes.get_mut(at)?.take()
    }

    /// A node stops, or goes on: meanwhile it does nothing, and what arrives is lost.
    pub fn pause(&mut self, at: usize, paused: bool) {
        let Some(node) = self.nodes.get_mut(at).and_then(Option::as_mut) else { return };
        let wakes = node.paused && !paused && node.placement.wake_ups == WakeUps::Asked;
        node.paused = paused;
        if wakes {
            self.plan_wake(at);
        }
    }

    /// Puts a node on one side of a partition; nothing passes between sides.
    pub fn partition(&mut self, at: usize, group: u8) {
        if let Some(node) = self.nodes.get_mut(at).and_then(Option::as_mut) {
            node.group = group;
        }
    }

    /// The nodes that are there.
    pub fn present(&self) -> impl Iterator<Item = (usize, &Placed<N>)> {
        self.nodes.iter().enumerate().filter_map(|(at, node)| Some((at, node.as_ref()?)))
    }

    /// Makes a link between two nodes at once; none if one of them is not there.
    pub fn connect(&mut self, from: usize, to: usize, host: &mut impl Host<N>) -> Option<Link> {
        let there = |at: usize| self.nodes.get(at).is_some_and(Option::is_some);
        if !there(from) || !there(to) {
            return None;
        }
        let (link, latency) = (Link(self.wires.len() as u64), self.latency(from, to));
        let (ordered, in_burst) = ([self.now; 2], [false; 2]);
        self.wires.push(Wire { ends: [from, to], open: [true; 2], latency, ordered, in_burst });
        for (at, other, dialled) in [(from, to, true), (to, from, false)] {
            let input = NodeInput::Connected(link, host.remote(other, dialled));
            self.handle(at, input, host);
        }
        Some(link)
    }

    /// Cuts a link: both ends are told, now.
    pub fn cut(&mut self, link: Link, host: &mut impl Host<N>) {
        let Some(wire) = self.wires.get_mut(link.0 as usize) else { return };
        let (ends, open) = (wire.ends, std::mem::take(&mut wire.open));
        for (at, open) in ends.into_iter().zip(open) {
            if open {
                self.handle(at, NodeInput::Closed(link), host);
            }
        }
    }

    /// Hands a command to a node, now.
    pub fn command(&mut self, at: usize, command: N::Command, host: &mut impl Host<N>) {
        self.handle(at, NodeInput::Command(command), host);
    }

    /// Runs until a time.
    pub fn run_until(&mut self, until: Micros, host: &mut impl Host<N>) {
        while let Some((now, happening)) = self.agenda.next(until) {
            self.now = now;
            match happening {
                Happening::Wake { at, life } => self.wake(at, life, host),
                Happening::Dial { from, to } => self.answer_dial(from, to, host),
                Happening::Answer { at, life, command } => {
                    let same = self.nodes[at].as_ref().is_some_and(|node| node.life == life);
                    if same {
                        self.handle(at, NodeInput::Command(command), host);
                    }
                }
                Happening::Arrival { wire, to, outgoing } => self.arrive(wire, to, &outgoing, host),
            }
        }
        self.now = self.now.max(until);
    }

    fn plan_wake(&mut self, at: usize) {
        let Some(node) = &self.nodes[at] else { return };
        let wake = node.node.next_wake(node.clock(self.now));
        let wait = node.until(self.now, wake);
        let life = node.life;
        self.agenda.plan(self.now + wait, Happening::Wake { at, life });
    }

    fn wake(&mut self, at: usize, life: u32, host: &mut impl Host<N>) {
        let Some(node) = self.nodes[at].as_mut().filter(|node| node.life == life) else { return };
        let every = node.placement.wake_ups;
        if let WakeUps::Every(round) = every {
            self.agenda.plan(self.now + round, Happening::Wake { at, life });
        }
        if node.paused {
            return;
        }
        let mut out = RecordingOutbox::default();
        host.before_wake(self.now, at, node, &mut out);
        node.node.handle(node.clock(self.now), NodeInput::Wake, &mut out);
        node.woken = self.now;
        self.settle(at, out, host);
        if every == WakeUps::Asked {
            self.plan_wake(at);
        }
    }

    /// Hands an input over, and carries out what it leads to.
    fn handle(&mut self, at: usize, input: NodeInput<'_, N::Command>, host: &mut impl Host<N>) {
        let Some(node) = self.nodes.get_mut(at).and_then(Option::as_mut) else { return };
        let mut out = RecordingOutbox::default();
        node.node.handle(node.clock(self.now), input, &mut out);
        self.settle(at, out, host);
    }

    /// Carries out what a node sent and asked for. Public for hosts that call the node itself.
    pub fn settle(&mut self, at: usize, out: RecordingOutbox, host: &mut impl Host<N>) {
        for (link, outgoing) in out.0 {
            self.post(at, link.0 as usize, outgoing);
        }
        while let Some(node) = self.nodes[at].as_mut() {
            let (Some(event), life) = (node.node.poll(), node.life) else { return };
            match host.on_event(self.now, at, node, event) {
                None => {}
                Some(Reaction::Dial(to)) => {
                    let wait = match self.reaches(at, to) {
                        true => self.latency(at, to) * 3,
                        false => DIAL_TIMEOUT,
                    };
                    self.agenda.plan(self.now + wait, Happening::Dial { from: at, to });
                }
                Some(Reaction::Answer(wait, command)) => {
                    self.agenda.plan(self.now + wait, Happening::Answer { at, life, command });
                }
            }
        }
    }

    fn group(&self, at: usize) -> Option<u8> {
        self.nodes.get(at)?.as_ref().map(|node| node.group)
    }

    fn is_paused(&self, at: usize) -> bool {
        self.nodes.get(at).and_then(Option::as_ref).is_some_and(|node| node.paused)
    }

    fn reaches(&self, a: usize, b: usize) -> bool {
        let awake = !self.is_paused(a) && !self.is_paused(b);
        let (a, b) = (self.group(a), self.group(b));
        awake && a.is_some() && a == b
    }

    /// How long a packet takes between two nodes at least: the same whenever it is asked for.
    pub fn latency(&self, a: usize, b: usize) -> Micros {
        let pair = (a.min(b) as u64) << 32 | a.max(b) as u64;
        let mut rng =
            fastrand::Rng::with_seed(self.spec.seed ^ pair.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let relayed = rng.f64() < self.spec.relayed;
        let spec = LinkSpec { latency: self.spec.latency, ..LinkSpec::PERFECT };
        let mut latency = Micros::ZERO;
        crate::net::Link::new(spec, rng.u64(..)).carry(Micros::ZERO, 0, |at| latency = at);
        if relayed { latency * 2 } else { latency }
    }

    fn answer_dial(&mut self, from: usize, to: usize, host: &mut impl Host<N>) {
        if self.reaches(from, to) {
            self.connect(from, to, host);
        } else if self.nodes.get(to).is_none_or(Option::is_none) {
            // A machine that is off refuses nothing: the caller gives up by itself.
        } else if let Some(command) = host.unreachable(to) {
            self.handle(from, NodeInput::Command(command), host);
        }
    }

    fn post(&mut self, at: usize, wire: usize, outgoing: Outgoing) {
        let Some(node) = self.nodes[at].as_mut() else { return };
        let Some(it) = self.wires.get_mut(wire) else { return };
        let end = usize::from(it.ends[1] == at);
        if !it.open[end] {
            return;
        }
        let (bytes, reliable): (&[u8], bool) = match &outgoing {
            Outgoing::Datagram(bytes) => (bytes, false),
            Outgoing::Message(bytes) => (bytes, true),
            Outgoing::Close(_) => {
                it.open[end] = false;
                (&[], true)
            }
        };
        let size = bytes.len() as u64;
        for byte in bytes.iter().chain(&(wire as u32).to_le_bytes()) {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        if let Some(log) = node.log.as_mut().filter(|_| !reliable) {
            log.truncate(MAX_LOG - 1);
            log.push_front((Link(wire as u64), bytes.to_vec()));
        }
        let Some(left) = node.leave(self.now, (size, reliable), self.spec.queue) else { return };
        let (spec, rng) = (&self.spec, &mut self.rng);
        let spread = (u128::from(it.latency.0) * u128::from(spec.jitter) / 100) as u64;
        let jitter = if spec.jitter > 0 { Micros(rng.u64(..=spread)) } else { Micros::ZERO };
        let mut arrives = left + it.latency + jitter;
        let to = it.ends[1 - end];
        if reliable {
            while spec.loss.loses(rng, &mut it.in_burst[end]) {
                arrives = arrives + it.latency * 3;
            }
            arrives = arrives.max(it.ordered[end]);
            it.ordered[end] = arrives;
        } else if spec.loss.loses(rng, &mut it.in_burst[end]) {
            return;
        } else {
            if spec.reorder > 0.0 && rng.f64() < spec.reorder {
                arrives = arrives + it.latency;
            }
            if spec.duplicate > 0.0 && rng.f64() < spec.duplicate {
                let (at, outgoing) = (arrives + it.latency, outgoing.clone());
                self.agenda.plan(at, Happening::Arrival { wire, to, outgoing });
            }
        }
        self.agenda.plan(arrives, Happening::Arrival { wire, to, outgoing });
    }

    fn arrive(&mut self, wire: usize, to: usize, outgoing: &Outgoing, host: &mut impl Host<N>) {
        if self.is_paused(to) {
            return;
        }
        let it = &mut self.wires[wire];
        let end = usize::from(it.ends[1] == to);
        let from = it.ends[1 - end];
        if !it.open[end] || self.group(from).is_some_and(|group| Some(group) != self.group(to)) {
            return;
        }
        let link = Link(wire as u64);
        if let Some(node) = self.nodes[to].as_mut()
            && let Outgoing::Datagram(bytes) | Outgoing::Message(bytes) = outgoing
        {
            node.received += bytes.len() as u64;
        }
        let input = match outgoing {
            Outgoing::Datagram(bytes) => NodeInput::Datagram(link, bytes),
            Outgoing::Message(bytes) => NodeInput::Message(link, bytes),
            Outgoing::Close(_) => {
                self.wires[wire].open[end] = false;
                NodeInput::Closed(link)
            }
        };
        self.handle(to, input, host);
    }
}

impl<N> Placed<N> {
    /// When the last byte of a packet has left the uplink; none if its queue is full.
    fn leave(&mut self, now: Micros, (size, reliable): (u64, bool), queue: u64) -> Option<Micros> {
        if reliable {
            self.sent.messages += 1;
            self.sent.message_bytes += size;
        } else {
            self.sent.datagrams += 1;
            self.sent.datagram_bytes += size;
        }
        let Some(rate) = self.placement.uplink else { return Some(now) };
        let start = self.busy.max(now);
        let waiting = (start - now).as_secs() * rate;
        if !reliable && waiting + (size + OVERHEAD) as f64 > queue as f64 {
            self.sent.dropped += 1;
            return None;
        }
        self.busy = start + Micros::from_secs((size + OVERHEAD) as f64 / rate);
        Some(self.busy)
    }
}
