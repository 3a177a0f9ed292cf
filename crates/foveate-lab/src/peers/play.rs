//! A game of peers with moving ships: movement and network, round by round.

use super::meadow::{Meadow, MeadowSpec, Steer};
use super::net::{NetSpec, PeerNet, PlacedPeer};
use crate::movement::{AvatarPose, Movement};
use foveate_node::outbox::RecordingOutbox;
use foveate_node::peer::PeerSettings;
use foveate_wire::{Bytes, Metres, Micros, SchemaError};
use std::sync::Arc;

/// One newcomer at a time for each this many peers that have joined.
const MANY: usize = 50;
/// The most newcomers at a time.
const MAX_AT_ONCE: usize = 4;

/// Makes a node misbehave before its tick.
pub type Mischief =
    Box<dyn FnMut(Micros, &mut PlacedPeer<Meadow>, &mut RecordingOutbox) -> Option<AvatarPose>>;

/// A running game. Participant `n` moves as avatar `n` of the movement.
pub struct Play<M> {
    /// The network with all peers.
    pub net: PeerNet<Meadow>,
    movement: M,
    round: Micros,
    view: f32,
    liars: Vec<(usize, Mischief)>,
}

impl<M: Movement> Play<M> {
    /// A game without players yet.
    pub fn new(world: MeadowSpec, net: NetSpec, movement: M) -> Result<Play<M>, SchemaError> {
        let net_round = net.round;
        let net = PeerNet::new(Arc::new(Meadow::new(world)?), net);
        Ok(Play { net, movement, round: net_round, view: world.view, liars: Vec::new() })
    }

    pub fn movement(&self) -> &M {
        &self.movement
    }

    /// Adds the next participant, which joins through a contact.
    pub fn enter(&mut self, contact: Option<usize>, uplink: Option<u32>) -> Option<usize> {
        let (round, view) = (self.round, Metres(self.view));
        self.net.enter(contact, uplink.map(f64::from), |address| PeerSettings {
            uplink: uplink.map(Bytes),
            ..PeerSettings::new(round, view, address)
        })
    }

    /// Makes a participant cheat from now on.
    pub fn corrupt(&mut self, at: usize, how: Mischief) {
        self.liars.push((at, how));
    }

    /// Plays one round.
    pub fn round(&mut self) {
        self.movement.step();
        let Play { net, movement, round, liars, .. } = self;
        let until = net.now() + *round;
        net.run_until(until, |now, at, node, out| {
            let liar = liars.iter_mut().find(|liar| liar.0 == at);
            let bent = liar.and_then(|(_, how)| how(now, node, out));
            if let Some(pose) = bent.or_else(|| movement.pose(at)) {
                node.peer.input(Steer::to(&pose));
            }
        });
    }

    /// Plays for a time.
    pub fn run(&mut self, time: Micros) {
        (0..time.0 / self.round.0).for_each(|_| self.round());
    }

    /// Adds `count` participants, each through a random peer: one in every `every`, or several at once when there are
    /// many peers to join through.
    pub fn fill(&mut self, count: usize, every: Micros, uplink: impl Fn(usize) -> Option<u32>) {
        let mut rng = fastrand::Rng::with_seed(count as u64);
        let rounds = (every.0 / self.round.0).max(1);
        while self.net.nodes.len() < count {
            let inside = self.net.present().filter(|(_, node)| node.inside.is_some());
            let inside: Vec<usize> = inside.map(|it| it.0).collect();
            let room = (inside.len() / MANY).clamp(1, MAX_AT_ONCE);
            for _ in 0..room.min(count - self.net.nodes.len()) {
                let contact = (!inside.is_empty()).then(|| inside[rng.usize(..inside.len())]);
                let at = self.net.nodes.len();
                self.enter(contact, uplink(at));
            }
            (0..rounds).for_each(|_| self.round());
        }
    }
}
