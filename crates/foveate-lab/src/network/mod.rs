//! Any mix of nodes in virtual time: the types that ship, on links that delay, lose, reorder, duplicate, queue and
//! fail, with partitions, crashes, restarts, pauses and clocks that differ.
//!
//! One event queue drives everything: wake-ups, dials, packets, answers. One RNG makes all random choices, so a seed
//! replays a run to the byte, which [`Network::digest`] proves. A [`Host`] answers what nodes ask of their host; it may
//! delay an answer or never give it.
//!
//! Datagrams may be lost. Messages are not, and keep their order, as long as their link lives: those that cannot get
//! through wait until the network changes.

#[cfg(test)]
mod faults;
pub mod sessions;
#[cfg(test)]
mod tests;
mod wire;

pub use sessions::{Participant, SessionNetwork};

use crate::net::{Agenda, Latency, Link as Path, LinkSpec, Loss};
use foveate_node::Link;
use foveate_node::node::{Node, NodeInput, Remote};
use foveate_node::outbox::{Outgoing, RecordingOutbox};
use foveate_wire::Micros;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use wire::{Numbered, Wire};

/// Conditions of the network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NetworkSpec {
    /// One-way latency, drawn once for each pair of nodes.
    pub latency: Latency,
    /// Added to each packet's latency, at most this share of it, in percent.
    pub jitter: u32,
    /// Which datagrams are lost. Messages are sent again after one and a half round trips, and never overtake each
    /// other.
    pub loss: Loss,
    /// Share of datagrams that take twice the latency, and so are overtaken.
    pub reorder: f64,
    /// Share of datagrams that arrive twice.
    pub duplicate: f64,
    /// Share of pairs whose link is relayed, which doubles its latency.
    pub relayed: f64,
    /// Bytes that a node's uplink queues; further datagrams are dropped.
    pub queue: u64,
    /// A link ends if its ends cannot reach each other for this long, and each end is told. With `None`, nodes notice
    /// by themselves, or never.
    pub idle_timeout: Option<Micros>,
    /// RNG seed.
    pub seed: u64,
}

impl NetworkSpec {
    /// A constant latency without any fault.
    pub fn delayed(latency: Micros, seed: u64) -> NetworkSpec {
        NetworkSpec {
            latency: Latency::Constant(latency),
            jitter: 0,
            loss: Loss::None,
            reorder: 0.0,
            duplicate: 0.0,
            relayed: 0.0,
            queue: u64::MAX,
            idle_timeout: None,
            seed,
        }
    }
}

/// Bytes of UDP and IP headers around each packet on an uplink.
pub const OVERHEAD: u64 = 28;
/// An unanswered dial fails after this time.
pub const DIAL_TIMEOUT: Micros = Micros(1_500_000);

/// Datagrams that a log keeps.
const MAX_LOG: usize = 256;
/// Datagrams that wait for a paused node, as in a socket's buffer; more are lost.
pub const MAX_WAITING: usize = 1_024;

/// What one node sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sent {
    pub datagrams: u64,
    /// Their bytes.
    pub datagram_bytes: u64,
    /// Messages, ends of links included.
    pub messages: u64,
    /// Their bytes.
    pub message_bytes: u64,
    /// Datagrams that were dropped because the uplink's queue was full.
    pub dropped: u64,
}

impl Sent {
    /// All bytes, without headers of the transport.
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
    /// When it asks to be.
    Asked,
    /// Once a round, starting at a random time in the first: a host whose timer is independent of the node.
    Every(Micros),
}

/// How a node takes part.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Placement {
    pub wake_ups: WakeUps,
    /// Rate of its uplink in bytes per second.
    pub uplink: Option<f64>,
    /// How far its clock is ahead of the laboratory's.
    pub skew: Micros,
    /// Microseconds that its clock gains in a second; negative if it loses them.
    pub drift: i32,
}

impl Placement {
    /// Woken when it asks, with an unlimited uplink and the laboratory's clock.
    pub const PLAIN: Placement =
        Placement { wake_ups: WakeUps::Asked, uplink: None, skew: Micros::ZERO, drift: 0 };
}

/// A node on the network.
pub struct Placed<N: Node> {
    pub node: N,
    /// What it has sent so far.
    pub sent: Sent,
    /// Bytes that arrived, without headers of the transport.
    pub received: u64,
    /// When it was last woken.
    pub woken: Micros,
    /// Its last datagrams, newest first, if they are logged.
    pub log: Option<VecDeque<(Link, Vec<u8>)>>,
    placement: Placement,
    /// Until when its uplink is busy.
    busy: Micros,
    /// What waits for it while it is paused.
    waiting: Option<Vec<Happening<N::Command>>>,
    group: u8,
    /// Tells answers to an earlier node at this place from answers to this one.
    life: u32,
    /// The number of the valid wake-up; earlier ones are ignored.
    wake_up: u64,
}

impl<N: Node> Deref for Placed<N> {
    type Target = N;

    fn deref(&self) -> &N {
        &self.node
    }
}

impl<N: Node> DerefMut for Placed<N> {
    fn deref_mut(&mut self) -> &mut N {
        &mut self.node
    }
}

impl<N: Node> Placed<N> {
    /// The node's own clock at a time of the laboratory.
    pub fn clock(&self, now: Micros) -> Micros {
        let gained = now.0 as i128 * i128::from(self.placement.drift) / 1_000_000;
        Micros((now + self.placement.skew).0.saturating_add_signed(gained as i64))
    }

    /// The laboratory time until this node's clock shows `time`; 0 if that is past.
    fn until(&self, now: Micros, time: Micros) -> Micros {
        let ahead = time - self.clock(now);
        let pace = 1_000_000 + i64::from(self.placement.drift);
        // Rounded up: a node that is woken too early would ask again at once.
        Micros((ahead.0 as u128 * 1_000_000).div_ceil(pace.max(1) as u128) as u64)
    }

    /// What it wanted to send in a second as a share of its uplink, including headers and dropped datagrams; 0 for an
    /// unlimited uplink.
    pub fn uplink_load(&self, sent: &Sent) -> f64 {
        let whole = sent.bytes() + OVERHEAD * (sent.datagrams + sent.messages);
        self.placement.uplink.map_or(0.0, |uplink| whole as f64 / uplink)
    }
}

/// An action of the host for a node.
pub enum Reaction<C> {
    /// Make a link with the node at this place. If that node is crashed, paused or out of reach, the dial fails after
    /// [`DIAL_TIMEOUT`].
    Dial(usize),
    /// Give the node this command after a while.
    Answer(Micros, C),
}

/// Controls nodes and answers what they ask.
pub trait Host<N: Node> {
    /// Called before a node is woken, to give it an input or make it misbehave.
    fn before_wake(
        &mut self,
        _now: Micros,
        _at: usize,
        _node: &mut Placed<N>,
        _out: &mut RecordingOutbox,
    ) {
    }

    /// Called with an event of a node.
    fn on_event(
        &mut self,
        now: Micros,
        at: usize,
        node: &mut Placed<N>,
        event: N::Event,
    ) -> Option<Reaction<N::Command>>;

    /// Called with everything that a node sends, before any condition of the network applies.
    fn on_sent(&mut self, _from: usize, _to: usize, _outgoing: &Outgoing) {}

    /// What the transport proves about the node at a place.
    fn remote(&self, _at: usize, _dialled: bool) -> Remote {
        Remote::Anonymous
    }

    /// The command that tells a node that the one at `to` could not be reached.
    fn unreachable(&self, _to: usize) -> Option<N::Command> {
        None
    }

    /// Called when a node's link to `to` ended or a dial failed. Returns when to dial again, if at all.
    fn redial(&mut self, _at: usize, _node: &Placed<N>, _to: usize) -> Option<Micros> {
        None
    }
}

enum Happening<C> {
    Wake { at: usize, wake_up: u64 },
    Dial { from: usize, to: usize },
    Answer { at: usize, life: u32, command: C },
    Datagram { wire: usize, to: usize, bytes: Vec<u8> },
    Message { wire: usize, to: usize, message: Numbered },
    Closed { wire: usize, to: usize },
    IdleCheck { wire: usize },
}

/// Nodes in virtual time.
pub struct Network<N: Node> {
    /// The nodes by place; `None` if crashed or gone.
    pub nodes: Vec<Option<Placed<N>>>,
    spec: NetworkSpec,
    wires: Vec<Wire>,
    agenda: Agenda<Happening<N::Command>>,
    now: Micros,
    /// Makes all random choices; a host may draw from it while it places nodes.
    pub rng: fastrand::Rng,
    lives: u32,
    wake_ups: u64,
    /// FNV-1a over all bytes sent: runs with the same digest sent the same bytes.
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
            wake_ups: 0,
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    /// The laboratory's time.
    pub fn now(&self) -> Micros {
        self.now
    }

    /// A hash of all bytes sent.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Changes the conditions; existing links keep their latency.
    pub fn set_spec(&mut self, spec: NetworkSpec) {
        self.spec = spec;
        self.release_held();
    }

    /// Replaces the conditions for what the node at `from` sends over a link.
    pub fn set_link(&mut self, link: Link, from: usize, spec: LinkSpec) {
        let seed = self.rng.u64(..);
        if let Some(wire) = self.wires.get_mut(link.0 as usize) {
            wire.set_spec(wire.end_of(from), spec, seed);
        }
        self.release_held();
    }

    /// Reserves a place for a node.
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

    /// Puts a node at a free place: a newcomer, or a node that crashed and restarts.
    pub fn place(&mut self, at: usize, node: N, placement: Placement, host: &mut impl Host<N>) {
        self.lives += 1;
        let life = self.lives;
        let first = match placement.wake_ups {
            WakeUps::Every(round) => Some(self.now + Micros(self.rng.u64(..round.0))),
            WakeUps::Asked => None,
        };
        self.forget_links(at);
        self.nodes[at] = Some(Placed {
            node,
            sent: Sent::default(),
            received: 0,
            woken: self.now,
            log: None,
            placement,
            busy: self.now,
            waiting: None,
            group: 0,
            life,
            wake_up: 0,
        });
        match first {
            Some(first) => self.plan_wake_at(at, first),
            None => self.plan_wake(at),
        }
        self.settle(at, RecordingOutbox::default(), host);
    }

    /// Removes a node without a message; its links stay open at their other ends, as after a power failure.
    pub fn crash(&mut self, at: usize) -> Option<Placed<N>> {
        let node = self.nodes.get_mut(at)?.take()?;
        self.forget_links(at);
        Some(node)
    }

    /// Forgets the links of an earlier node at a place.
    fn forget_links(&mut self, at: usize) {
        for wire in self.wires.iter_mut().filter(|wire| wire.ends.contains(&at)) {
            wire.open[wire.end_of(at)] = false;
        }
    }

    /// Pauses or resumes a node. A paused node does nothing, and what arrives waits for it.
    pub fn pause(&mut self, at: usize, paused: bool) {
        let Some(node) = self.nodes.get_mut(at).and_then(Option::as_mut) else { return };
        if paused {
            node.waiting.get_or_insert_default();
            return;
        }
        let Some(waiting) = node.waiting.take() else { return };
        let asks = node.placement.wake_ups == WakeUps::Asked;
        for happening in waiting {
            self.agenda.plan(self.now, happening);
        }
        if asks {
            self.plan_wake(at);
        }
    }

    /// Puts a node on one side of a partition; no packet passes between sides.
    pub fn partition(&mut self, at: usize, group: u8) {
        if let Some(node) = self.nodes.get_mut(at).and_then(Option::as_mut) {
            node.group = group;
            self.release_held();
        }
    }

    /// The nodes that are present.
    pub fn present(&self) -> impl Iterator<Item = (usize, &Placed<N>)> {
        self.nodes.iter().enumerate().filter_map(|(at, node)| Some((at, node.as_ref()?)))
    }

    /// Makes a link between two nodes at once; `None` if one of them is absent or paused.
    pub fn connect(&mut self, from: usize, to: usize, host: &mut impl Host<N>) -> Option<Link> {
        self.connect_wire(Wire::new([from, to], self.latency(from, to), self.now), host)
    }

    /// The same for a link with its own conditions: first for what `from` sends, then for what `to` sends.
    pub fn connect_over(
        &mut self,
        from: usize,
        to: usize,
        paths: [Path; 2],
        host: &mut impl Host<N>,
    ) -> Option<Link> {
        let mut wire = Wire::new([from, to], Micros::ZERO, self.now);
        wire.set_paths(paths);
        self.connect_wire(wire, host)
    }

    fn connect_wire(&mut self, wire: Wire, host: &mut impl Host<N>) -> Option<Link> {
        let [from, to] = wire.ends;
        let acts = |at: usize| self.group(at).is_some() && !self.is_paused(at);
        if !acts(from) || !acts(to) {
            return None;
        }
        let index = self.wires.len();
        self.wires.push(wire);
        self.plan_idle_check(index);
        let link = Link(index as u64);
        for (at, other, dialled) in [(from, to, true), (to, from, false)] {
            let input = NodeInput::Connected(link, host.remote(other, dialled));
            self.handle(at, input, host);
        }
        Some(link)
    }

    /// The newest link between two nodes that is open at both ends.
    pub fn link_between(&self, a: usize, b: usize) -> Option<Link> {
        let is_theirs =
            |wire: &Wire| wire.open == [true; 2] && [[a, b], [b, a]].contains(&wire.ends);
        self.wires.iter().rposition(is_theirs).map(|index| Link(index as u64))
    }

    /// Whether a link is open at both ends and packets pass, so that the other end's transport acknowledges them.
    pub fn is_alive(&self, link: Link) -> bool {
        self.wires.get(link.0 as usize).is_some_and(|wire| {
            let [a, b] = wire.ends;
            wire.open == [true; 2] && !wire.severed && self.reaches(a, b)
        })
    }

    /// Datagrams of the node at `from` that a link has lost so far.
    pub fn lost(&self, link: Link, from: usize) -> u64 {
        self.wires.get(link.0 as usize).map_or(0, |wire| wire.lost[wire.end_of(from)])
    }

    /// Ends a link. Both ends are told now; a paused node is told when it resumes.
    pub fn cut(&mut self, link: Link, host: &mut impl Host<N>) {
        let Some(wire) = self.wires.get(link.0 as usize) else { return };
        wire.ends.into_iter().for_each(|at| self.close(link.0 as usize, at, host));
    }

    /// Makes a link dead: no packet passes any more, and its ends are told after [`NetworkSpec::idle_timeout`].
    pub fn sever(&mut self, link: Link) {
        if let Some(wire) = self.wires.get_mut(link.0 as usize) {
            wire.severed = true;
        }
    }

    /// Gives a node a command now, or when it resumes if it is paused.
    pub fn command(&mut self, at: usize, command: N::Command, host: &mut impl Host<N>) {
        let Some(node) = self.nodes.get(at).and_then(Option::as_ref) else { return };
        self.answer(at, node.life, command, host);
    }

    fn answer(&mut self, at: usize, life: u32, command: N::Command, host: &mut impl Host<N>) {
        let Some(node) = self.nodes[at].as_mut().filter(|node| node.life == life) else { return };
        match &mut node.waiting {
            Some(waiting) => waiting.push(Happening::Answer { at, life, command }),
            None => self.handle(at, NodeInput::Command(command), host),
        }
    }

    /// Runs until a time.
    pub fn run_until(&mut self, until: Micros, host: &mut impl Host<N>) {
        while let Some((now, happening)) = self.agenda.next(until) {
            self.now = now;
            match happening {
                Happening::Wake { at, wake_up } => self.wake(at, wake_up, host),
                Happening::Dial { from, to } => self.answer_dial(from, to, host),
                Happening::Answer { at, life, command } => self.answer(at, life, command, host),
                Happening::Datagram { wire, to, bytes } => {
                    self.on_datagram(wire, to, bytes, host);
                }
                Happening::Message { wire, to, message } => {
                    self.on_message(wire, to, message, host);
                }
                Happening::Closed { wire, to } => self.close(wire, to, host),
                Happening::IdleCheck { wire } => self.check_idle(wire, host),
            }
        }
        self.now = self.now.max(until);
    }

    fn plan_wake(&mut self, at: usize) {
        let Some(node) = &self.nodes[at] else { return };
        let wake = node.node.next_wake(node.clock(self.now));
        let wait = node.until(self.now, wake);
        self.plan_wake_at(at, self.now + wait);
    }

    fn plan_wake_at(&mut self, at: usize, when: Micros) {
        let Some(node) = &mut self.nodes[at] else { return };
        self.wake_ups += 1;
        node.wake_up = self.wake_ups;
        self.agenda.plan(when, Happening::Wake { at, wake_up: self.wake_ups });
    }

    fn wake(&mut self, at: usize, wake_up: u64, host: &mut impl Host<N>) {
        let of_now = |node: &&mut Placed<N>| node.wake_up == wake_up;
        let Some(node) = self.nodes[at].as_mut().filter(of_now) else { return };
        let every = node.placement.wake_ups;
        let paused = node.waiting.is_some();
        if let WakeUps::Every(round) = every {
            self.plan_wake_at(at, self.now + round);
        }
        let Some(node) = self.nodes[at].as_mut().filter(|_| !paused) else { return };
        let mut out = RecordingOutbox::default();
        host.before_wake(self.now, at, node, &mut out);
        node.node.handle(node.clock(self.now), NodeInput::Wake, &mut out);
        node.woken = self.now;
        self.settle(at, out, host);
        if every == WakeUps::Asked {
            self.plan_wake(at);
        }
    }

    /// Gives a node an input, and carries out the node's outputs.
    fn handle(&mut self, at: usize, input: NodeInput<'_, N::Command>, host: &mut impl Host<N>) {
        let Some(node) = self.nodes.get_mut(at).and_then(Option::as_mut) else { return };
        let mut out = RecordingOutbox::default();
        node.node.handle(node.clock(self.now), input, &mut out);
        self.settle(at, out, host);
    }

    /// Carries out what a node sent and asked for. Public for hosts that call the node themselves.
    pub fn settle(&mut self, at: usize, out: RecordingOutbox, host: &mut impl Host<N>) {
        for (link, outgoing) in out.0 {
            if let Some(wire) = self.wires.get(link.0 as usize) {
                host.on_sent(at, wire.ends[1 - wire.end_of(at)], &outgoing);
            }
            self.post(at, link.0 as usize, outgoing);
        }
        while let Some(node) = self.nodes[at].as_mut() {
            let (Some(event), life) = (node.node.poll(), node.life) else { return };
            match host.on_event(self.now, at, node, event) {
                None => {}
                Some(Reaction::Dial(to)) => self.plan_dial(self.now, at, to),
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
        self.nodes.get(at).and_then(Option::as_ref).is_some_and(|node| node.waiting.is_some())
    }

    fn reaches(&self, a: usize, b: usize) -> bool {
        let awake = !self.is_paused(a) && !self.is_paused(b);
        let (a, b) = (self.group(a), self.group(b));
        awake && a.is_some() && a == b
    }

    /// The least latency between two nodes; always the same for a pair.
    pub fn latency(&self, a: usize, b: usize) -> Micros {
        let pair = (a.min(b) as u64) << 32 | a.max(b) as u64;
        let mut rng =
            fastrand::Rng::with_seed(self.spec.seed ^ pair.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let relayed = rng.f64() < self.spec.relayed;
        let spec = LinkSpec { latency: self.spec.latency, ..LinkSpec::PERFECT };
        let mut latency = Micros::ZERO;
        Path::new(spec, rng.u64(..)).carry(Micros::ZERO, 0, |at| latency = at);
        if relayed { latency * 2 } else { latency }
    }

    fn answer_dial(&mut self, from: usize, to: usize, host: &mut impl Host<N>) {
        if self.reaches(from, to) {
            self.connect(from, to, host);
        } else if let Some(command) = host.unreachable(to) {
            self.command(from, command, host);
        } else {
            self.redial(from, to, host);
        }
    }

    fn post(&mut self, at: usize, wire: usize, outgoing: Outgoing) {
        let Some(node) = self.nodes[at].as_mut() else { return };
        let Some(it) = self.wires.get_mut(wire) else { return };
        let end = it.end_of(at);
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
        let Some(left) = node.leave(self.now, size, reliable, self.spec.queue) else { return };
        let to = it.ends[1 - end];
        let Outgoing::Datagram(bytes) = outgoing else {
            let message = Numbered { number: it.number(end), outgoing };
            return self.send_message(wire, end, left, message);
        };
        let copies = it.carry_datagram(end, left, bytes.len(), &self.spec, &mut self.rng);
        for when in copies.into_iter().flatten() {
            self.agenda.plan(when, Happening::Datagram { wire, to, bytes: bytes.clone() });
        }
    }

    fn send_message(&mut self, wire: usize, end: usize, left: Micros, message: Numbered) {
        let it = &mut self.wires[wire];
        let size = match &message.outgoing {
            Outgoing::Datagram(bytes) | Outgoing::Message(bytes) => bytes.len(),
            Outgoing::Close(_) => 0,
        };
        match it.carry_message(end, left, size, &self.spec, &mut self.rng) {
            Some(when) => {
                let to = it.ends[1 - end];
                self.agenda.plan(when, Happening::Message { wire, to, message });
            }
            None => it.held[end].push(message),
        }
    }

    /// Sends the messages that were held up, after the network has changed.
    fn release_held(&mut self) {
        for wire in 0..self.wires.len() {
            for end in 0..2 {
                for message in std::mem::take(&mut self.wires[wire].held[end]) {
                    self.send_message(wire, end, self.now, message);
                }
            }
        }
    }

    /// Whether something from the other end may be given to this one.
    fn passes(&self, wire: usize, to: usize) -> bool {
        let it = &self.wires[wire];
        let from = it.ends[1 - it.end_of(to)];
        !it.severed && self.group(from).is_none_or(|group| Some(group) == self.group(to))
    }

    fn on_datagram(&mut self, wire: usize, to: usize, bytes: Vec<u8>, host: &mut impl Host<N>) {
        if !self.passes(wire, to) || !self.wires[wire].open[self.wires[wire].end_of(to)] {
            return;
        }
        let Some(node) = self.nodes[to].as_mut() else { return };
        if let Some(waiting) = &mut node.waiting {
            if waiting.len() < MAX_WAITING {
                waiting.push(Happening::Datagram { wire, to, bytes });
            }
            return;
        }
        node.received += bytes.len() as u64;
        self.handle(to, NodeInput::Datagram(Link(wire as u64), &bytes), host);
    }

    fn on_message(&mut self, wire: usize, to: usize, message: Numbered, host: &mut impl Host<N>) {
        if !self.passes(wire, to) {
            let end = 1 - self.wires[wire].end_of(to);
            return self.wires[wire].held[end].push(message);
        }
        if let Some(Some(Placed { waiting: Some(waiting), .. })) = self.nodes.get_mut(to) {
            return waiting.push(Happening::Message { wire, to, message });
        }
        let it = &mut self.wires[wire];
        let end = it.end_of(to);
        for outgoing in it.in_order(1 - end, message) {
            if !self.wires[wire].open[end] {
                return;
            }
            match outgoing {
                Outgoing::Datagram(bytes) | Outgoing::Message(bytes) => {
                    if let Some(node) = self.nodes[to].as_mut() {
                        node.received += bytes.len() as u64;
                    }
                    self.handle(to, NodeInput::Message(Link(wire as u64), &bytes), host);
                }
                Outgoing::Close(_) => self.close(wire, to, host),
            }
        }
    }

    /// Closes a node's end of a link, and tells the node.
    fn close(&mut self, wire: usize, to: usize, host: &mut impl Host<N>) {
        if let Some(Some(Placed { waiting: Some(waiting), .. })) = self.nodes.get_mut(to) {
            return waiting.push(Happening::Closed { wire, to });
        }
        let it = &mut self.wires[wire];
        let end = it.end_of(to);
        if std::mem::take(&mut it.open[end]) {
            let other = it.ends[1 - end];
            self.handle(to, NodeInput::Closed(Link(wire as u64)), host);
            self.redial(to, other, host);
        }
    }

    fn redial(&mut self, from: usize, to: usize, host: &mut impl Host<N>) {
        let Some(node) = self.nodes.get(from).and_then(Option::as_ref) else { return };
        if let Some(wait) = host.redial(from, node, to) {
            self.plan_dial(self.now + wait, from, to);
        }
    }

    fn plan_dial(&mut self, when: Micros, from: usize, to: usize) {
        let takes = match self.reaches(from, to) {
            true => self.latency(from, to) * 3,
            false => DIAL_TIMEOUT,
        };
        self.agenda.plan(when + takes, Happening::Dial { from, to });
    }

    fn plan_idle_check(&mut self, wire: usize) {
        if let Some(timeout) = self.spec.idle_timeout {
            let when = self.now + Micros(timeout.0.div_ceil(4));
            self.agenda.plan(when, Happening::IdleCheck { wire });
        }
    }

    fn check_idle(&mut self, wire: usize, host: &mut impl Host<N>) {
        let it = &self.wires[wire];
        let ([a, b], open) = (it.ends, it.open);
        if open == [false; 2] {
            return;
        }
        if self.is_alive(Link(wire as u64)) {
            self.wires[wire].alive = self.now;
        } else if let Some(timeout) = self.spec.idle_timeout
            && self.now - it.alive >= timeout
        {
            return [a, b].into_iter().for_each(|at| self.close(wire, at, host));
        }
        self.plan_idle_check(wire);
    }
}

impl<N: Node> Placed<N> {
    /// When the last byte of a packet has left the uplink; `None` if its queue is full.
    fn leave(&mut self, now: Micros, size: u64, reliable: bool, queue: u64) -> Option<Micros> {
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
