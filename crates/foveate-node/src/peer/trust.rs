//! Checks that a receiver makes without any key: rates, replays, speeds, claims. A peer that fails
//! them too often is banned and reported.
//!
//! An honest peer fails some of these now and then: a link duplicates a datagram, an avatar
//! respawns elsewhere, two peers take over the same object. So each fault has an allowance that
//! refills.

use super::identity::Key;
use crate::game::PlayerId;
use crate::outbox::Link;
use foveate_wire::Micros;
use std::collections::BTreeMap;

/// The most banned peers that are remembered.
const MAX_BANNED: usize = 256;

/// What a peer can be banned for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// Sent states of objects that are not its own.
    Forged,
    /// Sent again what had arrived already.
    Replayed,
    /// Sent more than a peer may.
    Flooded,
    /// Claimed objects that their owners, who are there, did not give.
    Usurped,
    /// Moved objects faster than their kinds can.
    TooFast,
    /// Passed on what its author did not sign.
    Tampered,
    /// Sent what cannot be read, or came out of order.
    Malformed,
    /// Requested what no rule requests, or changed its own objects as no rule does: see
    /// [`Game::limits`](crate::Game::limits) and [`Game::is_lawful`](crate::Game::is_lawful).
    Cheated,
}

impl Fault {
    pub const ALL: [Fault; 8] = [
        Fault::Forged,
        Fault::Replayed,
        Fault::Flooded,
        Fault::Usurped,
        Fault::TooFast,
        Fault::Tampered,
        Fault::Malformed,
        Fault::Cheated,
    ];

    /// How many are forgiven at once, and how many more per second.
    const fn allowance(self) -> (f32, f32) {
        match self {
            Fault::Forged => (3.0, 0.02),
            // Networks duplicate datagrams, and late ones look like old ones.
            Fault::Replayed => (60.0, 10.0),
            Fault::Flooded => (MAX_DATAGRAMS, 0.0),
            Fault::Usurped => (3.0, 0.1),
            // A peer's objects may be moved back to where it started.
            Fault::TooFast => (6.0, 0.5),
            Fault::Tampered => (2.0, 0.02),
            Fault::Malformed => (4.0, 0.1),
            // A lost state may have explained the next.
            Fault::Cheated => (3.0, 0.02),
        }
    }
}

/// The most datagrams and messages of a neighbour per second; others are ignored. About five times
/// what an honest peer sends.
pub const MAX_DATAGRAMS: f32 = 120.0;
/// The most bytes of a neighbour per second.
pub const MAX_BYTES: f32 = 256.0 * 1024.0;
/// How many seconds' worth may arrive at once.
const BURST: f32 = 2.0;

/// What is left of a neighbour's allowances.
#[derive(Clone, Debug)]
pub struct Patience {
    left: [f32; Fault::ALL.len()],
    counted: [u64; Fault::ALL.len()],
    datagrams: f32,
    bytes: f32,
    at: Micros,
}

impl Patience {
    /// Full allowances.
    pub fn new(now: Micros) -> Patience {
        Patience {
            left: Fault::ALL.map(|fault| fault.allowance().0),
            counted: [0; Fault::ALL.len()],
            datagrams: MAX_DATAGRAMS * BURST,
            bytes: MAX_BYTES * BURST,
            at: now,
        }
    }

    fn refill(&mut self, now: Micros) {
        let seconds = (now - self.at).as_secs() as f32;
        self.at = self.at.max(now);
        for (left, fault) in self.left.iter_mut().zip(Fault::ALL) {
            let (most, rate) = fault.allowance();
            *left = (*left + rate * seconds).min(most);
        }
        self.datagrams = (self.datagrams + MAX_DATAGRAMS * seconds).min(MAX_DATAGRAMS * BURST);
        self.bytes = (self.bytes + MAX_BYTES * seconds).min(MAX_BYTES * BURST);
    }

    /// Charges an arrival of this many bytes; false if it must be ignored.
    pub fn admits(&mut self, now: Micros, bytes: usize) -> bool {
        self.refill(now);
        let room = self.datagrams >= 1.0 && self.bytes >= bytes as f32;
        if room {
            self.datagrams -= 1.0;
            self.bytes -= bytes as f32;
        }
        room
    }

    /// Charges a fault; true if it was one too many.
    pub fn record_violation(&mut self, now: Micros, fault: Fault) -> bool {
        self.refill(now);
        let at = fault as usize;
        self.counted[at] += 1;
        self.left[at] -= 1.0;
        self.left[at] < 0.0
    }

    /// How often this fault occurred.
    pub fn count(&self, fault: Fault) -> u64 {
        self.counted[fault as usize]
    }
}

/// Peers that are trusted more than others, and peers that were banned.
#[derive(Default)]
pub(super) struct TrustState {
    /// Peers whose interest has a weight.
    weights: BTreeMap<Key, f32>,
    banned: BTreeMap<PlayerId, Fault>,
    /// Peers to ban after the current input.
    pending_bans: Vec<(Link, Fault)>,
}

impl TrustState {
    /// A weight that is 1 or less, or not finite, is reset to that of every peer.
    pub fn set_weight(&mut self, key: Key, weight: f32) {
        if weight.is_finite() && weight > 1.0 {
            self.weights.insert(key, weight);
        } else {
            self.weights.remove(&key);
        }
    }

    pub fn weight(&self, key: &Key) -> f32 {
        self.weights.get(key).copied().unwrap_or(1.0)
    }

    pub fn trusts_all_equally(&self) -> bool {
        self.weights.is_empty()
    }

    pub fn is_banned(&self, player: PlayerId) -> bool {
        self.banned.contains_key(&player)
    }

    pub fn banned(&self) -> impl Iterator<Item = (PlayerId, Fault)> + '_ {
        self.banned.iter().map(|(player, fault)| (*player, *fault))
    }

    pub fn ban(&mut self, player: PlayerId, fault: Fault) {
        if self.banned.len() < MAX_BANNED {
            self.banned.insert(player, fault);
        }
    }

    /// Plans to ban the peer at the end of a link.
    pub fn plan_ban(&mut self, link: Link, fault: Fault) {
        if !self.pending_bans.iter().any(|pending| pending.0 == link) {
            self.pending_bans.push((link, fault));
        }
    }

    pub fn take_pending(&mut self) -> Vec<(Link, Fault)> {
        std::mem::take(&mut self.pending_bans)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occasional_faults_are_forgiven_and_repeated_ones_are_not() {
        let mut patience = Patience::new(Micros::ZERO);
        let second = |n: u64| Micros(n * 1_000_000);
        assert!(
            (1..600).all(|n| !patience.record_violation(second(n * 3), Fault::TooFast)),
            "one respawn in 3 s"
        );
        let mut patience = Patience::new(Micros::ZERO);
        let named =
            (1..100).find(|n| patience.record_violation(Micros(n * 50_000), Fault::TooFast));
        assert!(named.is_some_and(|n| n < 10), "{named:?}");
        assert_eq!(patience.count(Fault::TooFast), 99.min(named.unwrap_or(0)));
    }

    #[test]
    fn a_flood_is_cut_to_the_stated_rate() {
        let mut patience = Patience::new(Micros::ZERO);
        let admitted = (0..100_000).filter(|n| patience.admits(Micros(n * 100), 50)).count();
        let allowed = (MAX_DATAGRAMS * (10.0 + BURST)) as usize;
        assert!((allowed - 5..=allowed + 5).contains(&admitted), "{admitted} of {allowed}");
    }
}
