//! Dozens or thousands of peers on the virtual network.

use super::keys::Keys;
use crate::net::{Latency, Loss};
use crate::network::{Host, Network, NetworkSpec, Placed, Placement, Reaction, WakeUps};
use foveate_node::game::{Game, PlayerId};
use foveate_node::node::{NodeInput, PeerCommand, Remote};
use foveate_node::outbox::{Outbox, RecordingOutbox};
use foveate_node::peer::{Fault, Key, PeerEvent, PeerSettings, Signer};
use foveate_node::{Node, Peer};
use foveate_wire::{Micros, Tick};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Conditions of the network.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct NetSpec {
    /// The length of a round.
    pub round: Micros,
    /// Latency, drawn once for each pair; each datagram takes up to a fifth more.
    pub latency: Latency,
    /// Share of datagrams lost, on every link alike.
    pub loss: f64,
    /// Share of links that are relayed, which doubles their latency.
    pub relayed: f64,
    /// Bytes that an uplink queues; more are dropped.
    pub queue: u64,
    /// RNG seed.
    pub seed: u64,
}

impl NetSpec {
    fn network(&self) -> NetworkSpec {
        NetworkSpec {
            latency: self.latency,
            jitter: 20,
            loss: Loss::Bernoulli(self.loss),
            reorder: 0.0,
            duplicate: 0.0,
            relayed: self.relayed,
            queue: self.queue,
            idle_timeout: None,
            seed: self.seed,
        }
    }
}

/// A peer, and what the laboratory records of it.
pub struct PeerNode<G: Game> {
    pub peer: Peer<G>,
    /// The verdicts that it reported.
    pub verdicts: Vec<(Micros, PlayerId, Fault)>,
    /// When it joined.
    pub inside: Option<Micros>,
    /// Its public key.
    pub key: Key,
}

impl<G: Game> Node for PeerNode<G> {
    type Command = PeerCommand<G>;
    type Event = PeerEvent<G::Event>;

    fn handle(&mut self, now: Micros, input: NodeInput<'_, PeerCommand<G>>, out: &mut impl Outbox) {
        self.peer.handle(now, input, out);
    }

    fn poll(&mut self) -> Option<PeerEvent<G::Event>> {
        self.peer.poll()
    }

    fn next_wake(&self, now: Micros) -> Micros {
        self.peer.next_wake(now)
    }
}

impl<G: Game> PlacedPeer<G> {
    /// The last round that it had sent by a recent time of the laboratory.
    pub fn told_by(&self, time: Micros, round: Micros) -> Tick {
        let since = self.woken.0.saturating_sub(time.0).div_ceil(round.0);
        Tick(self.peer.simulation.publisher.store.tick().0.wrapping_sub(since as u32))
    }
}

/// A participant on the network.
pub type PlacedPeer<G> = Placed<PeerNode<G>>;

/// Finds nodes by their keys, and calls a function before each wake-up.
struct Steered<'a, F> {
    keys: &'a [Key],
    drive: F,
}

impl<G: Game, F> Host<PeerNode<G>> for Steered<'_, F>
where
    F: FnMut(Micros, usize, &mut PlacedPeer<G>, &mut RecordingOutbox),
{
    fn before_wake(
        &mut self,
        now: Micros,
        at: usize,
        node: &mut PlacedPeer<G>,
        out: &mut RecordingOutbox,
    ) {
        (self.drive)(now, at, node, out);
    }

    fn on_event(
        &mut self,
        now: Micros,
        _: usize,
        node: &mut PlacedPeer<G>,
        event: PeerEvent<G::Event>,
    ) -> Option<Reaction<PeerCommand<G>>> {
        match event {
            PeerEvent::Connect(key, contact) => {
                let to = contact.try_into().map(u32::from_le_bytes).ok()? as usize;
                let known = self.keys.get(to) == Some(&key);
                known.then_some(Reaction::Dial(to))
            }
            PeerEvent::Inside => {
                node.inside = Some(now);
                None
            }
            PeerEvent::Verdict(player, fault) => {
                node.verdicts.push((now, player, fault));
                None
            }
            PeerEvent::Met(_) | PeerEvent::Parted(..) | PeerEvent::Happened(_) => None,
        }
    }

    fn remote(&self, at: usize, dialled: bool) -> Remote {
        Remote::Keyed { key: self.keys[at], dialled }
    }

    fn unreachable(&self, to: usize) -> Option<PeerCommand<G>> {
        self.keys.get(to).map(|key| PeerCommand::Unreachable(*key))
    }
}

/// A running game of peers.
pub struct PeerNet<G: Game> {
    network: Network<PeerNode<G>>,
    round: Micros,
    game: Arc<G>,
    keys: Vec<Key>,
    /// The seed of each place's keys.
    seeds: Vec<u64>,
    /// The world's time less the laboratory's; the world's clock is the founder's.
    epoch: Micros,
}

impl<G: Game> Deref for PeerNet<G> {
    type Target = Network<PeerNode<G>>;

    fn deref(&self) -> &Network<PeerNode<G>> {
        &self.network
    }
}

impl<G: Game> DerefMut for PeerNet<G> {
    fn deref_mut(&mut self) -> &mut Network<PeerNode<G>> {
        &mut self.network
    }
}

impl<G: Game> PeerNet<G> {
    /// An empty network.
    pub fn new(game: Arc<G>, spec: NetSpec) -> PeerNet<G> {
        PeerNet {
            network: Network::new(spec.network()),
            round: spec.round,
            game,
            keys: Vec::new(),
            seeds: Vec::new(),
            epoch: Micros::ZERO,
        }
    }

    /// The world's round at a time of the laboratory.
    pub fn tick_at(&self, time: Micros) -> Tick {
        Tick(((time + self.epoch).0 / self.round.0) as u32)
    }

    /// Adds a newcomer. The first founds the world, the others join through `contact`. The uplink is in bytes per
    /// second.
    pub fn enter(
        &mut self,
        contact: Option<usize>,
        uplink: Option<f64>,
        settings: impl FnOnce(Vec<u8>) -> PeerSettings,
    ) -> Option<usize> {
        let rng = &mut self.network.rng;
        let drawn = std::iter::repeat_with(|| rng.u64(..)).take(64);
        let (seed, keys) =
            drawn.into_iter().find_map(|seed| Keys::new(seed).map(|keys| (seed, keys)))?;
        self.seeds.push(seed);
        self.keys.push(keys.key());
        let at = self.network.reserve();
        self.begin(at, contact, uplink, settings)
    }

    /// Restarts a peer that crashed or left at least a round ago, with the same keys and nothing else.
    pub fn come_back(
        &mut self,
        at: usize,
        contact: usize,
        settings: impl FnOnce(Vec<u8>) -> PeerSettings,
    ) -> Option<usize> {
        self.begin(at, Some(contact), None, settings)
    }

    fn begin(
        &mut self,
        at: usize,
        contact: Option<usize>,
        uplink: Option<f64>,
        settings: impl FnOnce(Vec<u8>) -> PeerSettings,
    ) -> Option<usize> {
        let keys = Keys::new(*self.seeds.get(at)?)?;
        let key = keys.key();
        let settings = settings((at as u32).to_le_bytes().to_vec());
        let name = format!("player {at}");
        let mut peer = Peer::new(Arc::clone(&self.game), settings, Box::new(keys), &name);
        let skew = Micros(self.network.rng.u64(..600_000_000));
        let now = self.network.now() + skew;
        match contact {
            Some(contact) => {
                let other = self.network.nodes.get(contact)?.as_ref()?;
                peer.join(other.key, (contact as u32).to_le_bytes().to_vec(), now);
            }
            None => {
                self.epoch = skew;
                peer.found(now).ok()?;
            }
        }
        let node = PeerNode { peer, verdicts: Vec::new(), inside: None, key };
        let wake_ups = WakeUps::Every(self.round);
        let placement = Placement { wake_ups, uplink, skew, drift: 0 };
        let host = &mut Steered { keys: &self.keys, drive: |_, _, _: &mut _, _: &mut _| {} };
        self.network.place(at, node, placement, host);
        Some(at)
    }

    /// A peer leaves properly.
    pub fn leave(&mut self, at: usize) {
        let host = &mut Steered { keys: &self.keys, drive: |_, _, _: &mut _, _: &mut _| {} };
        self.network.command(at, PeerCommand::Leave, host);
        self.network.crash(at);
    }

    /// Runs until a time. `drive` is called before each tick of a node, to control it or make it misbehave.
    pub fn run_until(
        &mut self,
        until: Micros,
        drive: impl FnMut(Micros, usize, &mut PlacedPeer<G>, &mut RecordingOutbox),
    ) {
        self.network.run_until(until, &mut Steered { keys: &self.keys, drive });
    }
}
