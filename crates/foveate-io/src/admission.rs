//! Admission control: limits on links in all, and on links and handshakes per address.
//!
//! An address counts only once it is proved, by a Retry token, a completed handshake, or TCP. Until then it may be
//! forged, and such packets must not lock out the real address. Handshakes from unproved addresses are limited in all
//! (`Limits::retry_above`); others are asked to come again with a token (QUIC's Retry), which costs the server no
//! memory.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use foveate_wire::Micros;

use crate::bucket::Bucket;
use crate::meter::EndpointCounters;
use crate::options::Limits;

/// Most addresses that are remembered. When the table is full, only known addresses are accepted.
pub const MAX_ADDRESSES: usize = 65_536;

/// Bits of an IPv6 address that limits ignore, since a customer is given a network of 56 bits.
const CUSTOMER_BITS: u32 = 128 - 56;

/// An address as limits count it: for IPv6, the customer's network.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Origin(IpAddr);

impl From<IpAddr> for Origin {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(v6) => {
                IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> CUSTOMER_BITS << CUSTOMER_BITS))
            }
            v4 => v4,
        })
    }
}

/// What to do with a first packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    Accept,
    /// Ask the sender to prove its address.
    Retry,
    Refuse,
}

/// How an incoming link is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// As a handshake of an unproved address.
    Unproved,
    /// For its address.
    Proved,
    /// Not at all, since it is being closed.
    Uncounted,
}

/// The server's load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) links: u32,
    pub(crate) handshakes: u32,
    /// Whether a newcomer takes another link's place. Only a proved address does.
    pub(crate) is_crowded: bool,
}

/// The limits that links keep, and where refusals are counted.
pub(crate) struct AdmissionRules<'a> {
    pub(crate) limits: &'a Limits,
    pub(crate) counters: &'a mut EndpointCounters,
}

/// Counts by address.
#[derive(Default)]
pub(crate) struct Admission {
    known: BTreeMap<Origin, Known>,
    /// Handshakes of unproved addresses: at most `Limits::retry_above` in all.
    unproved: BTreeMap<Origin, u32>,
}

/// Counts of a proved address.
struct Known {
    links: u32,
    handshakes: Bucket,
}

impl Admission {
    /// Decides about a first packet, and counts a refusal. After `Accept` the link is counted until
    /// [`Admission::release`]: for its address if that is proved, otherwise as a handshake until [`Admission::prove`].
    pub(crate) fn judge(
        &mut self,
        origin: Origin,
        proved: bool,
        load: Load,
        now: Micros,
        rules: AdmissionRules<'_>,
    ) -> Verdict {
        let AdmissionRules { limits, counters } = rules;
        if load.links >= limits.max_links {
            counters.refused_full += 1;
            return Verdict::Refuse;
        }
        if proved {
            let counted = self.count(origin, now, AdmissionRules { limits, counters });
            return if counted { Verdict::Accept } else { Verdict::Refuse };
        }
        let is_busy = load.is_crowded || load.handshakes >= limits.retry_above;
        if is_busy || !self.has_room(origin, limits, now) {
            counters.retried += 1;
            return Verdict::Retry;
        }
        *self.unproved.entry(origin).or_default() += 1;
        Verdict::Accept
    }

    /// Handles the completion of a handshake that was accepted without proof, which proves its address. Returns whether
    /// the link may stay; it is then counted for its address.
    pub(crate) fn prove(&mut self, origin: Origin, now: Micros, rules: AdmissionRules<'_>) -> bool {
        self.forget_unproved(origin);
        self.count(origin, now, rules)
    }

    /// Stops counting an accepted link that is gone.
    pub(crate) fn release(&mut self, origin: Origin, standing: Standing) {
        match standing {
            Standing::Unproved => self.forget_unproved(origin),
            Standing::Proved => {
                if let Some(known) = self.known.get_mut(&origin) {
                    known.links = known.links.saturating_sub(1);
                }
            }
            Standing::Uncounted => {}
        }
    }

    /// Whether handshakes of this unproved address are under way.
    pub(crate) fn has_unproved(&self, origin: Origin) -> bool {
        self.unproved.contains_key(&origin)
    }

    fn forget_unproved(&mut self, origin: Origin) {
        if let Some(count) = self.unproved.get_mut(&origin) {
            *count -= 1;
            if *count == 0 {
                self.unproved.remove(&origin);
            }
        }
    }

    /// Counts a link of a proved address, if it is below the address's limit.
    fn count(&mut self, origin: Origin, now: Micros, rules: AdmissionRules<'_>) -> bool {
        let AdmissionRules { limits, counters } = rules;
        let Some(known) = self.known(origin, limits, now) else {
            counters.refused_addresses += 1;
            return false;
        };
        if !is_trusted(origin, limits) {
            if known.links >= limits.max_links_per_address {
                counters.refused_per_address += 1;
                return false;
            }
            if !known.handshakes.take(limits.handshakes_per_address, now, 1) {
                counters.refused_rate += 1;
                return false;
            }
        }
        known.links += 1;
        true
    }

    /// Whether the address could have one more link if all its handshakes were completed.
    fn has_room(&mut self, origin: Origin, limits: &Limits, now: Micros) -> bool {
        let rate = limits.handshakes_per_address;
        let unproved = self.unproved.get(&origin).copied().unwrap_or(0);
        let (links, handshakes) = match self.known.get_mut(&origin) {
            Some(known) => (known.links, known.handshakes.tokens(rate, now)),
            None => (0, rate.burst),
        };
        let room = limits.max_links_per_address.saturating_sub(links).min(handshakes);
        unproved < room || is_trusted(origin, limits)
    }

    fn known(&mut self, origin: Origin, limits: &Limits, now: Micros) -> Option<&mut Known> {
        if self.known.len() >= MAX_ADDRESSES && !self.known.contains_key(&origin) {
            let rate = limits.handshakes_per_address;
            self.known.retain(|_, known| known.links > 0 || !known.handshakes.is_full(rate, now));
            if self.known.len() >= MAX_ADDRESSES {
                return None;
            }
        }
        Some(self.known.entry(origin).or_insert_with(|| {
            let handshakes = Bucket::full(limits.handshakes_per_address, now);
            Known { links: 0, handshakes }
        }))
    }
}

fn is_trusted(origin: Origin, limits: &Limits) -> bool {
    limits.trusted.map(Origin::from) == Some(origin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::RateLimit;

    const IDLE: Load = Load { links: 0, handshakes: 0, is_crowded: false };

    fn limits() -> Limits {
        Limits {
            max_links: 10,
            max_links_per_address: 3,
            handshakes_per_address: RateLimit { per_second: 1, burst: 5 },
            retry_above: 8,
            ..Limits::server()
        }
    }

    fn rules<'a>(limits: &'a Limits, counters: &'a mut EndpointCounters) -> AdmissionRules<'a> {
        AdmissionRules { limits, counters }
    }

    fn origin(last: u8) -> Origin {
        IpAddr::from([10, 0, 0, last]).into()
    }

    #[test]
    fn an_address_gets_its_links_and_no_more_until_one_is_gone() {
        let (mut admission, mut counters) = (Admission::default(), EndpointCounters::default());
        let mut ask = |admission: &mut Admission, last, seconds: u64| {
            let now = Micros::from_millis(seconds * 1_000);
            admission.judge(origin(last), true, IDLE, now, rules(&limits(), &mut counters))
        };
        let granted = (0..5).filter(|n| ask(&mut admission, 1, *n) == Verdict::Accept).count();
        assert_eq!(granted, 3);
        assert_eq!(ask(&mut admission, 2, 5), Verdict::Accept);
        admission.release(origin(1), Standing::Proved);
        assert_eq!(ask(&mut admission, 1, 6), Verdict::Accept);
        assert_eq!(counters.refused_per_address, 2);
    }

    #[test]
    fn a_trusted_address_has_no_limit_and_others_have() {
        let (mut admission, mut counters) = (Admission::default(), EndpointCounters::default());
        let limits = Limits { trusted: Some(IpAddr::from([10, 0, 0, 1])), ..limits() };
        let mut granted = |last| {
            let now = Micros::ZERO;
            let rules = rules(&limits, &mut counters);
            let verdict = admission.judge(origin(last), true, IDLE, now, rules);
            verdict == Verdict::Accept
        };
        assert_eq!((0..9).filter(|_| granted(1)).count(), 9);
        assert_eq!((0..9).filter(|_| granted(2)).count(), 3);
    }

    #[test]
    fn forged_handshakes_do_not_lock_out_the_address_they_claim() {
        let (mut admission, mut counters) = (Admission::default(), EndpointCounters::default());
        let (limits, now) = (limits(), Micros::ZERO);
        let mut ask =
            |proved| admission.judge(origin(1), proved, IDLE, now, rules(&limits, &mut counters));
        let forged: Vec<_> = (0..100).map(|_| ask(false)).collect();
        assert_eq!(forged.iter().filter(|v| **v == Verdict::Accept).count(), 3);
        assert_eq!(forged.iter().filter(|v| **v == Verdict::Retry).count(), 97);
        let proved = (0..4).filter(|_| ask(true) == Verdict::Accept).count();
        assert_eq!(proved, 3, "as many as if nothing had been forged");
        assert_eq!((counters.refused_per_address, counters.refused_rate), (1, 0));
    }

    #[test]
    fn a_completed_handshake_counts_for_its_address() {
        let (mut admission, mut counters) = (Admission::default(), EndpointCounters::default());
        let (limits, now) = (limits(), Micros::ZERO);
        for _ in 0..3 {
            let verdict =
                admission.judge(origin(1), false, IDLE, now, rules(&limits, &mut counters));
            assert_eq!(verdict, Verdict::Accept);
        }
        assert!(admission.prove(origin(1), now, rules(&limits, &mut counters)));
        assert!(admission.prove(origin(1), now, rules(&limits, &mut counters)));
        // Two links and a handshake are the limit of the address.
        let verdict = admission.judge(origin(1), false, IDLE, now, rules(&limits, &mut counters));
        assert_eq!(verdict, Verdict::Retry);
        let verdict = admission.judge(origin(1), true, IDLE, now, rules(&limits, &mut counters));
        assert_eq!(verdict, Verdict::Accept);
        assert!(!admission.prove(origin(1), now, rules(&limits, &mut counters)), "a fourth link");
        assert_eq!(counters.refused_per_address, 1);
        (0..3).for_each(|_| admission.release(origin(1), Standing::Proved));
        assert!(!admission.has_unproved(origin(1)), "nothing is left of it");
    }

    #[test]
    fn under_load_every_client_proves_its_address_first() {
        let (mut admission, mut counters) = (Admission::default(), EndpointCounters::default());
        let busy = Load { links: 9, handshakes: 8, ..IDLE };
        let crowded = Load { links: 9, is_crowded: true, ..IDLE };
        let mut ask = |proved, load| {
            admission.judge(origin(1), proved, load, Micros::ZERO, rules(&limits(), &mut counters))
        };
        assert_eq!(ask(false, busy), Verdict::Retry);
        assert_eq!(ask(true, busy), Verdict::Accept);
        assert_eq!(ask(false, crowded), Verdict::Retry);
        assert_eq!(ask(true, crowded), Verdict::Accept);
        assert_eq!(ask(true, Load { links: 10, ..IDLE }), Verdict::Refuse);
        assert_eq!((counters.retried, counters.refused_full), (2, 1));
    }

    #[test]
    fn neighbours_in_one_ipv6_network_are_one_origin() {
        let one: Origin = IpAddr::from([0x2001, 0xdb8, 0, 0x01, 1, 2, 3, 4]).into();
        let two: Origin = IpAddr::from([0x2001, 0xdb8, 0, 0xff, 9, 9, 9, 9]).into();
        let other: Origin = IpAddr::from([0x2001, 0xdb8, 0, 0x101, 1, 2, 3, 4]).into();
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
            admission.judge(origin, true, IDLE, Micros::ZERO, rules(&limits, &mut counters));
            admission.release(origin, Standing::Proved);
        }
        assert_eq!(counters.refused_addresses, 1);
        let later = Micros::from_millis(60_000);
        let fresh: Origin = IpAddr::from([99, 99, 99, 99]).into();
        let verdict = admission.judge(fresh, true, IDLE, later, rules(&limits, &mut counters));
        assert_eq!(verdict, Verdict::Accept);
        assert_eq!(admission.known.len(), 1);
    }
}
