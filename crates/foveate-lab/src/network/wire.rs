//! One link on the virtual network: what it does to packets, and what becomes of those that cannot get
//! through.

use super::NetworkSpec;
use crate::net::{Fate, Latency, Link as Path, LinkSpec};
use foveate_node::outbox::Outgoing;
use foveate_wire::Micros;
use std::collections::BTreeMap;

/// Times a message is sent again before it waits for the network to change.
const MAX_RESENDS: u32 = 16;
/// A lost message is sent again after this at least.
const MIN_RESEND: Micros = Micros(1_000);

/// A message's place in its stream.
pub(super) type Numbered = (u64, Outgoing);

/// A link between two nodes. What is kept by end is kept by the end that sends.
pub(super) struct Wire {
    pub ends: [usize; 2],
    pub open: [bool; 2],
    pub latency: Micros,
    /// When the last message of each direction arrives: the next cannot overtake it.
    ordered: [Micros; 2],
    /// Whether each direction is in a burst of losses.
    in_burst: [bool; 2],
    /// Conditions of its own instead of the network's.
    paths: [Option<Path>; 2],
    /// Messages sent, and messages delivered.
    numbered: [u64; 2],
    delivered: [u64; 2],
    /// Messages that cannot get through at the moment,
    pub held: [Vec<Numbered>; 2],
    /// and those that arrived before an earlier one.
    early: [BTreeMap<u64, Outgoing>; 2],
    /// Datagrams that did not arrive.
    pub lost: [u64; 2],
    /// Nothing passes any more.
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

    /// Gives the link conditions of its own.
    pub fn set_paths(&mut self, paths: [Path; 2]) {
        self.latency = nominal(paths[0].spec()).max(nominal(paths[1].spec()));
        self.paths = paths.map(Some);
    }

    /// Replaces what is done to what one end sends.
    pub fn set_spec(&mut self, end: usize, spec: LinkSpec, seed: u64) {
        self.paths[end].get_or_insert_with(|| Path::new(spec, seed)).set(spec);
    }

    /// Which end of the link a node is.
    pub fn end_of(&self, at: usize) -> usize {
        usize::from(self.ends[1] == at)
    }

    /// The number of the next message that an end sends.
    pub fn number(&mut self, end: usize) -> u64 {
        self.numbered[end] += 1;
        self.numbered[end]
    }

    /// Messages that an arriving one makes ready to be handed over, in order.
    pub fn in_order(&mut self, end: usize, (number, outgoing): Numbered) -> Vec<Outgoing> {
        self.early[end].insert(number, outgoing);
        let mut ready = Vec::new();
        while let Some(next) = self.early[end].remove(&(self.delivered[end] + 1)) {
            self.delivered[end] += 1;
            ready.push(next);
        }
        ready
    }

    /// When a message arrives that has left the uplink; none if it does not get through as things are.
    pub fn carry_message(
        &mut self,
        end: usize,
        (left, size): (Micros, usize),
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

    /// When the copies of a datagram arrive that has left the uplink.
    pub fn carry_datagram(
        &mut self,
        end: usize,
        (left, size): (Micros, usize),
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

/// The latency that a specification is about.
fn nominal(spec: &LinkSpec) -> Micros {
    match spec.latency {
        Latency::Constant(latency) | Latency::Normal(latency, _) => latency,
        Latency::LogNormal(median, _) => median,
        Latency::Uniform(low, high) => Micros((low.0 + high.0) / 2),
    }
}
