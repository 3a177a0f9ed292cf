//! Source addresses of forged packets, which were not sealed with the keys of their link.
//!
//! A forged packet says nothing about the link that it names, so the link is not charged. Its source is: once it
//! has used up its failures, its packets are dropped without decryption, except where it is the proved address of the
//! link that they name, for then they may be the other side's.

use std::collections::BTreeMap;

use foveate_wire::Micros;

use crate::admission::Origin;
use crate::bucket::{Bucket, RateLimit};

/// Sources that are remembered. While all are in use, packets of further sources are not decrypted.
pub const MAX_SUSPECTS: usize = 4_096;

/// Failures that a source may have.
const FAILURES: RateLimit = RateLimit { per_second: 8, burst: 64 };

/// Failures by source.
#[derive(Default)]
pub(crate) struct Suspects {
    known: BTreeMap<Origin, Bucket>,
}

impl Suspects {
    /// Whether packets of this source, not being that of a link, may be deciphered.
    pub(crate) fn may_try(&mut self, source: Origin, now: Micros) -> bool {
        match self.known.get_mut(&source) {
            Some(bucket) => bucket.tokens(FAILURES, now) > 0,
            None => self.known.len() < MAX_SUSPECTS,
        }
    }

    /// A packet of this source could not be opened.
    pub(crate) fn charge(&mut self, source: Origin, now: Micros) {
        if self.known.len() >= MAX_SUSPECTS && !self.known.contains_key(&source) {
            self.known.retain(|_, bucket| !bucket.is_full(FAILURES, now));
            if self.known.len() >= MAX_SUSPECTS {
                return;
            }
        }
        let bucket = self.known.entry(source).or_insert_with(|| Bucket::full(FAILURES, now));
        bucket.take(FAILURES, now, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn source(number: u32) -> Origin {
        Origin::from(IpAddr::V4(Ipv4Addr::from_bits(number)))
    }

    #[test]
    fn a_source_of_forged_packets_is_ignored_for_a_while_and_others_are_not() {
        let mut suspects = Suspects::default();
        for _ in 0..FAILURES.burst {
            assert!(suspects.may_try(source(1), Micros::ZERO));
            suspects.charge(source(1), Micros::ZERO);
        }
        assert!(!suspects.may_try(source(1), Micros::ZERO));
        assert!(suspects.may_try(source(2), Micros::ZERO));
        assert!(suspects.may_try(source(1), Micros::from_millis(1_000)));
    }

    #[test]
    fn sources_are_bounded_and_forgotten() {
        let mut suspects = Suspects::default();
        for number in 0..2 * MAX_SUSPECTS as u32 {
            suspects.charge(source(number), Micros::ZERO);
        }
        assert_eq!(suspects.known.len(), MAX_SUSPECTS);
        assert!(!suspects.may_try(source(u32::MAX), Micros::ZERO));
        suspects.charge(source(u32::MAX), Micros::from_millis(60_000));
        assert_eq!(suspects.known.len(), 1, "the others have served their time");
    }
}
