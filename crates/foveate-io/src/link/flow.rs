//! How much a link may still send us.

use foveate_wire::Micros;

use crate::bucket::Bucket;
use crate::options::Limits;

/// Packets that a link may send for each datagram it may send: acknowledgements, handshakes, probes.
const PACKETS_PER_DATAGRAM: u32 = 2;

/// How much a link may still send us.
#[derive(Clone, Copy)]
pub(crate) struct Flow {
    packets: Bucket,
    datagrams: Bucket,
    bytes: Bucket,
    /// Empty when the link went far beyond the others for too long.
    patience: Bucket,
}

/// What becomes of something that was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Passage {
    Free,
    Dropped,
    /// Too much for too long.
    Flood,
}

impl Flow {
    pub(crate) fn new(limits: &Limits, now: Micros) -> Flow {
        Flow {
            packets: Bucket::full(limits.datagrams.times(PACKETS_PER_DATAGRAM), now),
            datagrams: Bucket::full(limits.datagrams, now),
            bytes: Bucket::full(limits.bytes, now),
            patience: Bucket::full(limits.datagrams.times(limits.flood_factor), now),
        }
    }

    /// A UDP packet, before it is deciphered.
    pub(crate) fn packet(&mut self, limits: &Limits, now: Micros) -> Passage {
        let passes = self.packets.take(limits.datagrams.times(PACKETS_PER_DATAGRAM), now, 1);
        self.judge(passes, limits, now)
    }

    pub(crate) fn datagram(&mut self, limits: &Limits, now: Micros, size: usize) -> Passage {
        let passes = self.datagrams.take(limits.datagrams, now, 1)
            && self.bytes.take(limits.bytes, now, size as u32);
        self.judge(passes, limits, now)
    }

    /// Messages are never dropped; too many of them end the link.
    pub(crate) fn message(&mut self, limits: &Limits, now: Micros, size: usize) -> Passage {
        let passes = self.bytes.take(limits.bytes, now, size as u32);
        self.judge(passes, limits, now)
    }

    fn judge(&mut self, passes: bool, limits: &Limits, now: Micros) -> Passage {
        if passes {
            return Passage::Free;
        }
        match self.patience.take(limits.datagrams.times(limits.flood_factor), now, 1) {
            true => Passage::Dropped,
            false => Passage::Flood,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::RateLimit;

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
    fn excess_is_dropped_and_far_beyond_is_a_flood() {
        let [free, dropped, flood] = fates(300);
        assert!((1_000..=1_101).contains(&free), "{free}");
        assert!(dropped >= 1_899 && flood == 0, "{dropped} {flood}");
        assert!(fates(1_000)[Passage::Flood as usize] > 0);
    }
}
