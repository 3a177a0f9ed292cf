//! Who may come in: links in all, links and handshakes per address.
//!
//! An address that has not proved itself may be forged. It never counts against the address it
//! claims beyond a bucket of its own; when that is empty, or the server is busy with handshakes, it
//! is asked to come again with a token (QUIC's Retry), which costs the server no memory.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use foveate_wire::Micros;

use crate::bucket::Bucket;
use crate::meter::EndpointCounters;
use crate::options::Limits;

/// Addresses that are remembered at most. Beyond it only addresses that are known come in.
pub const MAX_ADDRESSES: usize = 65_536;

/// An address as far as limits are concerned: in IPv6 one customer has a network of 2⁶⁴.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Origin(IpAddr);

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
            v4 => v4,
        })
    }
}

/// What to do with a first packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Accept,
    /// Ask it to prove its address.
    Retry,
    Refuse,
}

/// What the server is busy with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) links: u32,
    pub(crate) handshakes: u32,
}

/// What is known about addresses.
#[derive(Default)]
pub(crate) struct Admission {
    known: BTreeMap<Origin, Known>,
}

struct Known {
    links: u32,
    /// Handshakes begun from this address, proven or not, and those that proved it.
    claimed: Bucket,
    proved: Bucket,
}

impl Admission {
    /// Decides, counts the refusal, and on `Accept` counts the link until [`Admission::release`].
    pub(crate) fn judge(
        &mut self,
        origin: Origin,
        proved: bool,
        load: Load,
        now: Micros,
        rules: (&Limits, &mut EndpointCounters),
    ) -> Verdict {
        let (limits, counters) = rules;
        if load.links >= limits.max_links {
            counters.refused_full += 1;
            return Verdict::Refuse;
        }
        if !proved && load.handshakes >= limits.retry_above {
            counters.retried += 1;
            return Verdict::Retry;
        }
        let Some(known) = self.known(origin, limits, now) else {
            counters.refused_addresses += 1;
            return Verdict::Refuse;
        };
        if limits.trusted.map(Origin::from) == Some(origin) {
            known.links += 1;
            return Verdict::Accept;
        }
        if known.links >= limits.max_links_per_address {
            counters.refused_per_address += 1;
            return Verdict::Refuse;
        }
        let bucket = if proved { &mut known.proved } else { &mut known.claimed };
        match (bucket.take(limits.handshakes_per_address, now, 1), proved) {
            (true, _) => {
                known.links += 1;
                Verdict::Accept
            }
            (false, true) => {
                counters.refused_rate += 1;
                Verdict::Refuse
            }
            (false, false) => {
                counters.retried += 1;
                Verdict::Retry
            }
        }
    }

    /// A link that was accepted is gone.
    pub(crate) fn release(&mut self, origin: Origin) {
        if let Some(known) = self.known.get_mut(&origin) {
            known.links = known.links.saturating_sub(1);
        }
    }

    fn known(&mut self, origin: Origin, limits: &Limits, now: Micros) -> Option<&mut Known> {
        if self.known.len() >= MAX_ADDRESSES && !self.known.contains_key(&origin) {
            let rate = limits.handshakes_per_address;
            self.known.retain(|_, known| {
                known.links > 0
                    || !known.claimed.is_full(rate, now)
                    || !known.proved.is_full(rate, now)
            });
            if self.known.len() >= MAX_ADDRESSES {
                return None;
            }
        }
        Some(self.known.entry(origin).or_insert_with(|| {
            let bucket = Bucket::full(limits.handshakes_per_address, now);
            Known { links: 0, claimed: bucket, proved: bucket }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::RateLimit;

    const IDLE: Load = Load { links: 0, handshakes: 0 };

    fn limits() -> Limits {
        Limits {
            max_links: 10,
            max_links_per_address: 3,
            handshakes_per_address: RateLimit { per_second: 1, burst: 5 },
            retry_above: 8,
            ..Limits::server()
        }
    }

    fn origin(last: u8) -> Origin {
        IpAddr::from([10, 0, 0, last]).into()
    }

    #[test]
    fn an_address_gets_its_links_and_no_more_until_one_is_gone() {
        let (mut admission, mut counters) = (Admission::default(), EndpointCounters::default());
        let mut ask = |admission: &mut Admission, last, seconds: u64| {
            let now = Micros::from_millis(seconds * 1_000);
            admission.judge(origin(last), true, IDLE, now, (&limits(), &mut counters))
        };
        let granted = (0..5).filter(|n| ask(&mut admission, 1, *n) == Verdict::Accept).count();
        assert_eq!(granted, 3);
        assert_eq!(ask(&mut admission, 2, 5), Verdict::Accept);
        admission.release(origin(1));
        assert_eq!(ask(&mut admission, 1, 6), Verdict::Accept);
        assert_eq!(counters.refused_per_address, 2);
    }

    #[test]
    fn a_trusted_address_has_what_it_wants_and_others_do_not() {
        let (mut admission, mut counters) = (Admission::default(), EndpointCounters::default());
        let limits = Limits { trusted: Some(IpAddr::from([10, 0, 0, 1])), ..limits() };
        let mut granted = |last| {
            let now = Micros::ZERO;
            let rules = (&limits, &mut counters);
            let verdict = admission.judge(origin(last), true, IDLE, now, rules);
            verdict == Verdict::Accept
        };
        assert_eq!((0..9).filter(|_| granted(1)).count(), 9);
        assert_eq!((0..9).filter(|_| granted(2)).count(), 3);
    }

    #[test]
    fn forged_handshakes_do_not_lock_out_the_address_they_claim() {
        let (mut admission, mut counters) = (Admission::default(), EndpointCounters::default());
        let mut ask = |admission: &mut Admission, proved| {
            let verdict =
                admission.judge(origin(1), proved, IDLE, Micros::ZERO, (&limits(), &mut counters));
            if verdict == Verdict::Accept {
                admission.release(origin(1));
            }
            verdict
        };
        let forged: Vec<_> = (0..100).map(|_| ask(&mut admission, false)).collect();
        assert_eq!(forged.iter().filter(|v| **v == Verdict::Accept).count(), 5);
        assert_eq!(forged.iter().filter(|v| **v == Verdict::Retry).count(), 95);
        assert_eq!(ask(&mut admission, true), Verdict::Accept);
        let rest = (0..10).filter(|_| ask(&mut admission, true) == Verdict::Accept).count();
        assert_eq!(rest, 4);
        assert_eq!(counters.refused_rate, 6);
    }

    #[test]
    fn under_load_everyone_proves_its_address_first() {
        let (mut admission, mut counters) = (Admission::default(), EndpointCounters::default());
        let busy = Load { links: 9, handshakes: 8 };
        let mut ask = |proved, load| {
            admission.judge(origin(1), proved, load, Micros::ZERO, (&limits(), &mut counters))
        };
        assert_eq!(ask(false, busy), Verdict::Retry);
        assert_eq!(ask(true, busy), Verdict::Accept);
        assert_eq!(ask(true, Load { links: 10, handshakes: 0 }), Verdict::Refuse);
        assert_eq!((counters.retried, counters.refused_full), (1, 1));
    }

    #[test]
    fn neighbours_in_one_ipv6_network_are_one_origin() {
        let one: Origin = IpAddr::from([0x2001, 0xdb8, 0, 1, 1, 2, 3, 4]).into();
        let two: Origin = IpAddr::from([0x2001, 0xdb8, 0, 1, 9, 9, 9, 9]).into();
        let other: Origin = IpAddr::from([0x2001, 0xdb8, 0, 2, 1, 2, 3, 4]).into();
        assert_eq!(one, two);
        assert_ne!(one, other);
        let mapped: Origin = IpAddr::from([0, 0, 0, 0, 0, 0xffff, 0x0a00, 1]).into();
        assert_eq!(mapped, origin(1));
    }

    #[test]
    fn memory_for_addresses_is_bounded_and_reused() {
        let (mut admission, mut counters) = (Admission::default(), EndpointCounters::default());
        let limits = limits();
        for n in 0..=MAX_ADDRESSES as u32 {
            let origin: Origin = IpAddr::from(n.to_be_bytes()).into();
            admission.judge(origin, true, IDLE, Micros::ZERO, (&limits, &mut counters));
            admission.release(origin);
        }
        assert_eq!(counters.refused_addresses, 1);
        let later = Micros::from_millis(60_000);
        let fresh: Origin = IpAddr::from([99, 99, 99, 99]).into();
        let verdict = admission.judge(fresh, true, IDLE, later, (&limits, &mut counters));
        assert_eq!(verdict, Verdict::Accept);
        assert_eq!(admission.known.len(), 1);
    }
}
