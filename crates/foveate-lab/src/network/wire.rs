//! One link on the virtual network: what it does to packets, and what happens to those that cannot get through.

use super::NetworkSpec;
use crate::net::{Fate, Latency, Link as Path, LinkSpec};
use foveate_node::outbox::Outgoing;
use foveate_wire::Micros;
use std::collections::BTreeMap;

/// Times that a message is sent again before it waits for the network to change.
const MAX_RESENDS: u32 = 16;
/// The least time after which a lost message is sent again.
const MIN_RESEND: Micros = Micros(1_000);

/// A message with its number in its stream.
pub(super) struct Numbered {
    pub number: u64,
    pub outgoing: Outgoing,
}

/// A link between two nodes. State by direction is indexed by the sending end.
pub(super) struct Wire {
    pub ends: [usize; 2],
    pub open: [bool; 2],
    pub latency: Micros,
    /// When the last message of each direction arrives, which the next cannot overtake.
    ordered: [Micros; 2],
    /// Whether each direction is in a burst of losses.
    in_burst: [bool; 2],
    /// Own conditions instead of the network's.
    paths: [Option<Path>; 2],
    /// Number of messages sent.
    numbered: [u64; 2],
    /// Number of messages delivered.
    delivered: [u64; 2],
    /// Messages that cannot get through at the moment.
    pub held: [Vec<Numbered>; 2],
    /// Messages that arrived before an earlier one.
    early: [BTreeMap<u64, Outgoing>; 2],
    /// Lost datagrams.
    pub lost: [u64; 2],
    /// Whether the link is dead.
    pub severed: bool,
    /// When its ends could last reach each other.
    pub alive: Micros,
}

impl Wire {
    pub fn new(ends: [usize; 2], latency: Micros, now: Micros) -> Wire {
        Wire {
            ends,
            open: [true; 2],
            latency,
            ordered: [now; 2],
            in_burst: [false; 2],
            paths: [None, None],
            numbered: [0; 2],
            delivered: [0; 2],
            held: Default::default(),
            early: Default::default(),
            lost: [0; 2],
            severed: false,
            alive: now,
        }
    }

    /// Gives the link its own conditions.
    pub fn set_paths(&mut self, paths: [Path; 2]) {
        self.latency = nominal(paths[0].spec()).max(nominal(paths[1].spec()));
        self.paths = paths.map(Some);
    }

    /// Replaces the conditions for what one end sends.
    pub fn set_spec(&mut self, end: usize, spec: LinkSpec, seed: u64) {
        self.paths[end].get_or_insert_with(|| Path::new(spec, seed)).set(spec);
    }

    /// The end of the link that a node has.
    pub fn end_of(&self, at: usize) -> usize {
        usize::from(self.ends[1] == at)
    }

    /// The number of the next message that an end sends.
    pub fn number(&mut self, end: usize) -> u64 {
        self.numbered[end] += 1;
        self.numbered[end]
    }

    /// The messages, in order, that can be delivered once this one has arrived.
    pub fn in_order(&mut self, end: usize, message: Numbered) -> Vec<Outgoing> {
        self.early[end].insert(message.number, message.outgoing);
        let mut ready = Vec::new();
        while let Some(next) = self.early[end].remove(&(self.delivered[end] + 1)) {
            self.delivered[end] += 1;
            ready.push(next);
        }
        ready
    }

    /// When a message that has left the uplink arrives; `None` if it cannot get through now.
    pub fn carry_message(
        &mut self,
        end: usize,
        left: Micros,
        size: usize,
        spec: &NetworkSpec,
        rng: &mut fastrand::Rng,
    ) -> Option<Micros> {
        let resend = (self.latency * 3).max(MIN_RESEND);
        let arrives = match &mut self.paths[end] {
            Some(path) => {
                let sent = (0..MAX_RESENDS).map(|nth| left + resend * nth);
                sent.into_iter().find_map(|sent| match path.carry(sent, size, |_| {}) {
                    Fate::Arrives(at) => Some(at),
                    Fate::Lost | Fate::Dropped => None,
                })?
            }
            None => {
                let mut arrives = left + self.latency + jitter(self.latency, spec, rng);
                let mut resends = 0;
                while spec.loss.loses(rng, &mut self.in_burst[end]) {
                    arrives = arrives + self.latency * 3;
                    resends += 1;
                    if resends >= MAX_RESENDS {
                        return None;
                    }
                }
                arrives
            }
        };
        self.ordered[end] = self.ordered[end].max(arrives);
        Some(self.ordered[end])
    }

    /// When the copies of a datagram that has left the uplink arrive.
    pub fn carry_datagram(
        &mut self,
        end: usize,
        left: Micros,
        size: usize,
        spec: &NetworkSpec,
        rng: &mut fastrand::Rng,
    ) -> [Option<Micros>; 2] {
        let mut copies = [None; 2];
        if let Some(path) = &mut self.paths[end] {
            path.carry(left, size, |at| {
                let first = copies[0].is_none();
                copies[usize::from(!first)] = Some(at);
            });
        } else {
            let mut arrives = left + self.latency + jitter(self.latency, spec, rng);
            if !spec.loss.loses(rng, &mut self.in_burst[end]) {
                if spec.reorder > 0.0 && rng.f64() < spec.reorder {
                    arrives = arrives + self.latency;
                }
                let twice = spec.duplicate > 0.0 && rng.f64() < spec.duplicate;
                copies = [Some(arrives), twice.then(|| arrives + self.latency)];
            }
        }
        self.lost[end] += u64::from(copies[0].is_none());
        copies
    }
}

fn jitter(latency: Micros, spec: &NetworkSpec, rng: &mut fastrand::Rng) -> Micros {
    if spec.jitter == 0 {
        return Micros::ZERO;
    }
    let spread = (u128::from(latency.0) * u128::from(spec.jitter) / 100) as u64;
    Micros(rng.u64(..=spread))
}

/// A typical latency of these conditions.
fn nominal(spec: &LinkSpec) -> Micros {
    match spec.latency {
        Latency::Constant(latency) | Latency::Normal(latency, _) => latency,
        Latency::LogNormal(median, _) => median,
        Latency::Uniform(low, high) => Micros((low.0 + high.0) / 2),
    }
}
