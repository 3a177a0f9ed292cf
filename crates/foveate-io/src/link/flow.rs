//! Limits on what a link may send to us.

use foveate_wire::Micros;

use crate::bucket::{Bucket, RateLimit};
use crate::options::Limits;

/// QUIC frames, or WebSocket control frames, that a link may send per datagram that it may send: acknowledgements,
/// handshakes, probes, pieces of messages.
const FRAMES_PER_DATAGRAM: u32 = 4;

/// What a link may still send to us.
#[derive(Clone, Copy)]
pub(crate) struct Flow {
    /// Packets with the link's id from its address, which are not authenticated.
    packets: Bucket,
    /// The same from other addresses: the link may be migrating, or the packets are forged.
    foreign: Bucket,
    frames: Bucket,
    datagrams: Bucket,
    messages: Bucket,
    bytes: Bucket,
    /// Becomes empty when the link has exceeded the others by far for too long.
    patience: Bucket,
}

/// What to do with received data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Passage {
    Free,
    Dropped,
    /// Close the link: too much for too long.
    Flood,
}

impl Flow {
    pub(crate) fn new(limits: &Limits, now: Micros) -> Flow {
        Flow {
            packets: Bucket::full(packets(limits), now),
            foreign: Bucket::full(limits.datagrams, now),
            frames: Bucket::full(limits.datagrams.times(FRAMES_PER_DATAGRAM), now),
            datagrams: Bucket::full(limits.datagrams, now),
            messages: Bucket::full(limits.datagrams, now),
            bytes: Bucket::full(limits.bytes, now),
            patience: Bucket::full(limits.datagrams.times(limits.flood_factor), now),
        }
    }

    /// Whether a UDP packet may be deciphered, which takes time. Any sender can use the link's id, so excess packets
    /// are dropped without blaming the link.
    pub(crate) fn packet(&mut self, limits: &Limits, now: Micros, is_foreign: bool) -> bool {
        match is_foreign {
            true => self.foreign.take(limits.datagrams, now, 1),
            false => self.packets.take(packets(limits), now, 1),
        }
    }

    /// Counts authenticated frames that have been handled.
    pub(crate) fn frames(&mut self, limits: &Limits, now: Micros, count: u32) -> Passage {
        let passes = self.frames.take(limits.datagrams.times(FRAMES_PER_DATAGRAM), now, count);
        self.judge(passes, limits, now, count)
    }

    pub(crate) fn datagram(&mut self, limits: &Limits, now: Micros, size: usize) -> Passage {
        let passes = self.datagrams.take(limits.datagrams, now, 1)
            && self.bytes.take(limits.bytes, now, size as u32);
        self.judge(passes, limits, now, 1)
    }

    /// Counts a message. Messages are never dropped; too many of them end the link. Even a short one takes work, so
    /// their number is limited to the rate of datagrams, which no honest link comes near.
    pub(crate) fn message(&mut self, limits: &Limits, now: Micros, size: usize) -> Passage {
        if !self.messages.take(limits.datagrams, now, 1) {
            return Passage::Flood;
        }
        let passes = self.bytes.take(limits.bytes, now, size as u32);
        self.judge(passes, limits, now, 1)
    }

    fn judge(&mut self, passes: bool, limits: &Limits, now: Micros, cost: u32) -> Passage {
        if passes {
            return Passage::Free;
        }
        match self.patience.take(limits.datagrams.times(limits.flood_factor), now, cost) {
            true => Passage::Dropped,
            false => Passage::Flood,
        }
    }
}

/// Rate of packets to decipher: more than a link may send, so that forged ones displace few.
fn packets(limits: &Limits) -> RateLimit {
    limits.datagrams.times(FRAMES_PER_DATAGRAM.saturating_mul(limits.flood_factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(per_second: u64) -> [usize; 3] {
        let limits =
            Limits { datagrams: RateLimit::per_second(100), flood_factor: 4, ..Limits::server() };
        let mut flow = Flow::new(&limits, Micros::ZERO);
        let mut count = [0; 3];
        for n in 0..per_second * 10 {
            let now = Micros(n * 1_000_000 / per_second);
            count[flow.datagram(&limits, now, 20) as usize] += 1;
        }
        count
    }

    #[test]
    fn a_link_within_its_rate_is_free() {
        assert_eq!(fates(100), [1_000, 0, 0]);
    }

    #[test]
    fn many_short_messages_are_a_flood_and_a_burst_of_them_is_not() {
        let limits = Limits { datagrams: RateLimit::per_second(100), ..Limits::server() };
        let mut flow = Flow::new(&limits, Micros::ZERO);
        let mut taken = |from: u64, count: u64, every: u64| {
            let mut all = (0..count).map(|n| flow.message(&limits, Micros(from + n * every), 3));
            all.all(|passage| passage == Passage::Free)
        };
        assert!(taken(0, 100, 0), "a second's worth at once");
        assert!(taken(2_000_000, 1_000, 10_000), "and at that rate for ever");
        assert!(!taken(60_000_000, 1_000, 1_600), "620 a second are too many");
    }

    #[test]
    fn excess_is_dropped_and_far_beyond_is_a_flood() {
        let [free, dropped, flood] = fates(300);
        assert!((1_000..=1_101).contains(&free), "{free}");
        assert!(dropped >= 1_899 && flood == 0, "{dropped} {flood}");
        assert!(fates(1_000)[Passage::Flood as usize] > 0);
    }
}
