//! The right to act: an owner has it while its standby says that it heard of it lately.
//!
//! The owner numbers its beacons and remembers when it sent them. It may act for [`LEASE`] after it *sent* the
//! newest beacon that was acknowledged. The standby takes over [`SILENCE`] after it last *received* a beacon, and
//! acknowledges none from the moment on that it asks the ledger for the region. A beacon is received after it was
//! sent; so, by clocks that differ by no more than 5 %, the owner stops first: 1.0 s / 0.95 < 1.25 s / 1.05.
//!
//! A second right comes from the ledger: an owner stops [`CONFIRMED_LEASE`] after it sent its last confirmed sign
//! of life. So that a region whose owner and standby are both gone can be taken by any server, which first
//! appends to their `server` subjects: that fails if there was a sign of life it has not read.

use foveate_wire::Micros;
use std::collections::VecDeque;

/// Between two beacons.
pub const BEACON_EVERY: Micros = Micros(100_000);
/// How long an acknowledged beacon counts, from when it was sent.
pub const LEASE: Micros = Micros(1_000_000);
/// How long a standby waits, from when it last received a beacon.
pub const SILENCE: Micros = Micros(1_250_000);
/// An owner looks for another standby when the newest acknowledged beacon is this old.
pub const REPLACE_AFTER: Micros = Micros(600_000);
/// Between two signs of life in the ledger.
pub const HEARTBEAT_EVERY: Micros = Micros(1_000_000);
/// How long a confirmed sign of life counts, from when it was sent.
pub const CONFIRMED_LEASE: Micros = Micros(12_000_000);
/// After so long without a sign of life of its owner and its standby any server may take a region over.
pub const ABANDONED: Micros = Micros(15_000_000);

/// Beacons whose times are remembered.
const MAX_BEACONS: usize = 32;

/// An owner's right to act, as given by its standby.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OwnerLease {
    /// Beacons sent, and when.
    sent: VecDeque<(u64, Micros)>,
    number: u64,
    /// When the newest acknowledged one was sent.
    acknowledged: Option<Micros>,
    /// Acknowledgements count only for beacons from this one on: earlier ones went to another standby.
    counts_from: u64,
    /// A change of standby is on its way: acknowledgements do not count until its outcome is known.
    changing: bool,
    /// There is no standby, and none is needed.
    alone: bool,
}

impl OwnerLease {
    /// An owner with a standby, or without one.
    pub fn new(alone: bool) -> OwnerLease {
        OwnerLease { alone, ..OwnerLease::default() }
    }

    /// The number of a beacon that is sent now.
    pub fn beacon(&mut self, now: Micros) -> u64 {
        self.number += 1;
        self.sent.push_back((self.number, now));
        if self.sent.len() > MAX_BEACONS {
            self.sent.pop_front();
        }
        self.number
    }

    /// When the last beacon was sent.
    pub fn last_beacon(&self) -> Option<Micros> {
        self.sent.back().map(|it| it.1)
    }

    /// The standby acknowledged a beacon.
    pub fn on_ack(&mut self, number: u64) {
        if self.changing || self.alone || number < self.counts_from {
            return;
        }
        let sent = self.sent.iter().find(|it| it.0 == number).map(|it| it.1);
        self.acknowledged = self.acknowledged.max(sent);
    }

    /// Another standby was asked for; until the outcome is known nothing extends the lease. An owner that had none
    /// may act for as long as a standby that is told now would wait at least.
    pub fn change_standby(&mut self, now: Micros) {
        if self.alone && !self.changing {
            self.acknowledged = Some(now);
        }
        self.changing = true;
    }

    /// The outcome is known: `alone` as the layout says. `changed`: there is another standby, and
    /// acknowledgements of earlier beacons are not its own.
    pub fn standby_known(&mut self, alone: bool, changed: bool) {
        (self.changing, self.alone) = (false, alone);
        if changed {
            self.counts_from = self.number + 1;
        }
    }

    /// Whether a change of standby is on its way.
    pub fn is_changing(&self) -> bool {
        self.changing
    }

    /// Until when the owner may act.
    pub fn until(&self) -> Micros {
        match (self.alone && !self.changing, self.acknowledged) {
            (true, _) => Micros::UNBOUNDED,
            (_, Some(sent)) => sent + LEASE,
            (_, None) => Micros::ZERO,
        }
    }

    /// Whether the standby has been silent for so long that another one is looked for. `since`: when this lease began.
    pub fn misses_standby(&self, since: Micros, now: Micros) -> bool {
        let heard = self.acknowledged.unwrap_or(since).max(since);
        !self.alone && !self.changing && now - heard >= REPLACE_AFTER
    }
}

/// A standby's watch over its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StandbyWatch {
    /// The epoch that is watched.
    pub epoch: u32,
    heard: Micros,
    /// The region was asked for, and the outcome is not known: no beacon of this epoch is acknowledged.
    taking: bool,
}

impl StandbyWatch {
    /// Begins when the standby reads in the layout that it is one.
    pub fn new(epoch: u32, now: Micros) -> StandbyWatch {
        StandbyWatch { epoch, heard: now, taking: false }
    }

    /// A beacon arrived; whether to acknowledge it.
    pub fn on_beacon(&mut self, epoch: u32, now: Micros) -> bool {
        if epoch != self.epoch {
            return false;
        }
        self.heard = self.heard.max(now);
        !self.taking
    }

    /// Whether the owner has been silent for so long that the region is to be taken over.
    pub fn is_silent(&self, now: Micros) -> bool {
        !self.taking && now - self.heard >= SILENCE
    }

    /// The region is asked for.
    pub fn take(&mut self) {
        self.taking = true;
    }

    /// The append is known to have failed: decide anew.
    pub fn give_up(&mut self) {
        self.taking = false;
    }

    /// Whether the region is being asked for.
    pub fn is_taking(&self) -> bool {
        self.taking
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    #[test]
    fn a_lease_counts_from_when_the_beacon_was_sent() {
        let mut lease = OwnerLease::new(false);
        assert_eq!(lease.until(), Micros::ZERO, "nothing was acknowledged");
        let (first, second) = (lease.beacon(Micros(5)), lease.beacon(Micros(9)));
        lease.on_ack(second);
        lease.on_ack(first);
        assert_eq!(lease.until(), Micros(9) + LEASE);
        lease.on_ack(second + 1);
        assert_eq!(lease.until(), Micros(9) + LEASE, "never sent");
    }

    #[test]
    fn while_the_standby_changes_nothing_extends_the_lease() {
        let mut lease = OwnerLease::new(false);
        let old = lease.beacon(Micros(0));
        lease.on_ack(old);
        let late = lease.beacon(Micros(100));
        lease.change_standby(Micros(150));
        lease.on_ack(late);
        assert_eq!(lease.until(), LEASE);
        lease.standby_known(false, true);
        lease.on_ack(late);
        assert_eq!(lease.until(), LEASE, "the new standby was not sent this one");
        let new = lease.beacon(Micros(200));
        lease.on_ack(new);
        assert_eq!(lease.until(), Micros(200) + LEASE);
        lease.change_standby(Micros(300));
        lease.standby_known(true, true);
        assert_eq!(lease.until(), Micros::UNBOUNDED);
        lease.change_standby(Micros(400));
        assert_eq!(lease.until(), Micros(400) + LEASE);
    }

    /// Whatever is lost or late, and however clocks differ within 5 %, an owner stops before its standby may ask
    /// for its region.
    #[test]
    fn an_owner_stops_before_its_standby_takes_over() {
        for seed in 0..2_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let rates = [(); 2].map(|()| 0.95 + 0.1 * rng.f64());
            let clock = |real: u64, at: usize| Micros((real as f64 * rates[at]) as u64);
            let (mut lease, mut watch) =
                (OwnerLease::new(false), StandbyWatch::new(1, Micros::ZERO));
            let mut post: Vec<(u64, bool, u64)> = Vec::new();
            let (mut real, mut taken, loss) = (0, None, rng.f64());
            while real < 6 * SECOND && taken.is_none() {
                real += rng.u64(1..40_000);
                if rng.u8(..50) == 0 {
                    real += rng.u64(..2 * SECOND);
                }
                let mut due: Vec<_> = post.extract_if(.., |it| it.0 <= real).collect();
                due.sort_unstable();
                for (_, ack, number) in due {
                    if ack {
                        lease.on_ack(number);
                    } else if watch.on_beacon(1, clock(real, 1)) && rng.f64() >= loss {
                        post.push((real + rng.u64(..SECOND), true, number));
                    }
                }
                if watch.is_silent(clock(real, 1)) {
                    watch.take();
                    taken = Some(real);
                }
                let number = lease.beacon(clock(real, 0));
                if rng.f64() >= loss {
                    post.push((real + rng.u64(..SECOND), false, number));
                }
            }
            if let Some(taken) = taken {
                post.iter().filter(|it| it.1).for_each(|it| lease.on_ack(it.2));
                assert!(lease.until() <= clock(taken, 0), "seed {seed}");
                assert!(!watch.on_beacon(1, clock(taken, 1)), "no acknowledgement any more");
            }
        }
    }
}
