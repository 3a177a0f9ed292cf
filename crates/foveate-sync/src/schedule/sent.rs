//! Packets in flight: what each carried, which arrived, which are lost.
//!
//! A packet is **lost** when a packet sent [`REORDERED`] or more later was acknowledged and it was not,
//! or when it stayed unacknowledged for longer than the link's round trips explain. The second rule
//! is what makes replicas converge when the very last update before silence is lost.

use super::Reference;
use foveate_wire::packet::Ack;
use foveate_wire::{Alias, Micros, Tick};
use std::ops::{Deref, DerefMut};

/// Packets that may overtake one before it counts as lost.
const REORDERED: u16 = 3;
/// Unresolved packets of one observer; beyond, the oldest counts as lost. It bounds the memory
/// that an observer without acknowledgements can take.
pub const MAX_IN_FLIGHT: usize = 256;
/// Packets that are in flight on most links: a second's worth.
const USUAL_IN_FLIGHT: usize = 24;
/// Round trip assumed before the first acknowledgement.
const FIRST_RTT: Micros = Micros(200_000);
/// No link is given up on faster than this.
const LEAST_TIMEOUT: Micros = Micros(60_000);

/// What a packet said of one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SentRecord {
    pub alias: Alias,
    /// Where the pair was then: mostly it still is.
    pub pair: u16,
    pub kind: SentKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SentKind {
    /// This state.
    State(Reference),
    Freeze,
    Gone,
}

#[derive(Clone, Copy, Debug)]
struct SentPacket {
    seq: u16,
    tick: Tick,
    at: Micros,
    records: u16,
    resolved: bool,
}

/// The sending half of a link's memory.
#[derive(Clone, Debug)]
pub struct SentPackets {
    next_seq: u16,
    packets: Queue<SentPacket>,
    /// Records of the packets, in the same order.
    records: Queue<SentRecord>,
    smooth_rtt: Option<Micros>,
    variation: Micros,
    lost: u64,
    acked: u64,
}

impl Default for SentPackets {
    fn default() -> SentPackets {
        SentPackets {
            next_seq: 0,
            packets: Queue::default(),
            records: Queue::default(),
            smooth_rtt: None,
            variation: Micros(FIRST_RTT.0 / 2),
            lost: 0,
            acked: 0,
        }
    }
}

impl SentPackets {
    /// The number of the next packet.
    pub(crate) fn next_seq(&self) -> u16 {
        self.next_seq
    }

    /// Packets are counted on from here.
    pub(crate) fn count_from(&mut self, seq: u16) {
        self.next_seq = seq;
    }

    /// Smoothed round-trip time, as measured by acknowledgements.
    pub fn rtt(&self) -> Option<Micros> {
        self.smooth_rtt
    }

    /// Packets acknowledged and lost so far.
    pub fn counts(&self) -> (u64, u64) {
        (self.acked, self.lost)
    }

    /// Packets neither acknowledged nor lost.
    pub fn in_flight(&self) -> usize {
        self.packets.iter().filter(|packet| !packet.resolved).count()
    }

    /// Reads something of the packet, and of its first record, that an acknowledgement is awaited of first.
    pub(crate) fn read_oldest(&self) -> usize {
        let packet = self.packets.first().map_or(0, |packet| packet.records);
        let record = self.records.first().map_or(0, |record| record.pair);
        usize::from(packet) ^ usize::from(record)
    }

    /// The pairs that that packet is about.
    pub(crate) fn oldest_pairs(&self) -> impl Iterator<Item = u16> + '_ {
        let count = self.packets.first().map_or(0, |packet| usize::from(packet.records));
        self.records.iter().take(count).map(|record| record.pair)
    }

    /// Makes room for the records of a few rounds in which everything is said.
    pub(crate) fn reserve(&mut self, records: usize) {
        self.records.reserve(records);
        self.packets.reserve(USUAL_IN_FLIGHT);
    }

    /// Remembers a record of the packet that is being put together.
    pub(crate) fn note(&mut self, record: SentRecord) {
        self.records.push(record);
    }

    /// The packet with the last `records` notes has left.
    pub(crate) fn sent(&mut self, tick: Tick, at: Micros, records: u16) {
        self.packets.push(SentPacket { seq: self.next_seq, tick, at, records, resolved: false });
        self.next_seq = self.next_seq.wrapping_add(1);
    }

    /// Takes an acknowledgement in; calls `arrived` or `lost` for every record it settles.
    pub(crate) fn on_ack(
        &mut self,
        ack: &Ack,
        now: Micros,
        mut settle: impl FnMut(Settled, Tick, &SentRecord),
    ) {
        let mut at = 0;
        for index in 0..self.packets.len() {
            let packet = self.packets[index];
            let records = at..at + usize::from(packet.records);
            at = records.end;
            if packet.resolved {
                continue;
            }
            let behind = ack.newest.wrapping_sub(packet.seq);
            let settled = match behind {
                0..=32 if ack.has(packet.seq) => Settled::Arrived,
                REORDERED..=0x7fff => Settled::Lost,
                _ => continue,
            };
            match settled {
                Settled::Arrived if behind == 0 => self.measure(now - packet.at),
                _ => {}
            }
            self.resolve(index, settled);
            self.records[records].iter().for_each(|record| settle(settled, packet.tick, record));
        }
        self.forget();
    }

    /// Gives up on packets that stayed unacknowledged for too long.
    pub(crate) fn on_time(
        &mut self,
        now: Micros,
        round: Micros,
        mut settle: impl FnMut(Settled, Tick, &SentRecord),
    ) {
        let timeout = self.timeout(round);
        let mut at = 0;
        for index in 0..self.packets.len() {
            let packet = self.packets[index];
            let records = at..at + usize::from(packet.records);
            at = records.end;
            let crowded = self.packets.len() - index > MAX_IN_FLIGHT;
            if packet.resolved {
                continue;
            }
            if now - packet.at <= timeout && !crowded {
                // Packets are in the order of sending: the rest is younger.
                break;
            }
            self.resolve(index, Settled::Lost);
            let records = &self.records[records];
            records.iter().for_each(|record| settle(Settled::Lost, packet.tick, record));
        }
        self.forget();
    }

    fn resolve(&mut self, index: usize, settled: Settled) {
        self.packets[index].resolved = true;
        match settled {
            Settled::Arrived => self.acked += 1,
            Settled::Lost => self.lost += 1,
        }
    }

    fn forget(&mut self) {
        let settled = self.packets.iter().take_while(|packet| packet.resolved);
        let (packets, records) = settled
            .fold((0, 0), |(count, records), it| (count + 1, records + usize::from(it.records)));
        self.packets.drop_first(packets);
        self.records.drop_first(records);
    }

    /// How long to wait for an acknowledgement: the peer answers within a round of its own.
    fn timeout(&self, round: Micros) -> Micros {
        let rtt = self.smooth_rtt.unwrap_or(FIRST_RTT);
        (rtt + self.variation * 4 + round * 2).max(LEAST_TIMEOUT)
    }

    /// RFC 6298's smoothing.
    fn measure(&mut self, sample: Micros) {
        match self.smooth_rtt {
            None => {
                self.smooth_rtt = Some(sample);
                self.variation = Micros(sample.0 / 2);
            }
            Some(rtt) => {
                let off = rtt.0.abs_diff(sample.0);
                self.variation = Micros((3 * self.variation.0 + off) / 4);
                self.smooth_rtt = Some(Micros((7 * rtt.0 + sample.0) / 8));
            }
        }
    }
}

/// A queue that stays at the beginning of its memory. Mostly few things are in it, and those then always use the same
/// lines of the cache; a ring would walk through all of its memory.
#[derive(Clone, Debug)]
struct Queue<T> {
    /// Those before `first` have left.
    items: Vec<T>,
    first: usize,
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue { items: Vec::new(), first: 0 }
    }
}

impl<T> Queue<T> {
    /// Adds one. Where there is no room the others move up, if that helps, before there is more of it.
    fn push(&mut self, item: T) {
        if self.items.len() == self.items.capacity() {
            if 4 * self.first > self.items.len() {
                self.move_up();
            } else {
                self.items.reserve_exact(self.items.len() / 4 + 4);
            }
        }
        self.items.push(item);
    }

    /// Removes the first items. The others move up once they are fewer than those removed.
    fn drop_first(&mut self, count: usize) {
        self.first += count;
        if self.first > self.items.len() - self.first {
            self.move_up();
        }
    }

    fn reserve(&mut self, items: usize) {
        self.items.reserve_exact(items);
    }

    fn move_up(&mut self) {
        self.items.drain(..self.first);
        self.first = 0;
    }
}

impl<T> Deref for Queue<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items[self.first..]
    }
}

impl<T> DerefMut for Queue<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items[self.first..]
    }
}

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Settled {
    Arrived,
    Lost,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(link: &mut SentPackets, alias: u16, ms: u64) {
        link.note(SentRecord { alias: Alias(alias), pair: alias, kind: SentKind::Gone });
        link.sent(Tick(ms as u32 / 50), Micros::from_millis(ms), 1);
    }

    fn settled(link: &mut SentPackets, ack: Ack, ms: u64) -> Vec<(Settled, u16)> {
        let mut out = Vec::new();
        link.on_ack(&ack, Micros::from_millis(ms), |settled, _, record| {
            out.push((settled, record.alias.0));
        });
        out
    }

    #[test]
    fn a_packet_overtaken_three_times_is_lost() {
        let mut link = SentPackets::default();
        (0..5).for_each(|n| send(&mut link, n, 50 * u64::from(n)));
        let ack = Ack { newest: 3, before: 0b001 };
        let expected = [(Settled::Lost, 0u16), (Settled::Arrived, 2), (Settled::Arrived, 3)];
        assert_eq!(settled(&mut link, ack, 300), expected);
        assert_eq!(link.in_flight(), 2, "packet 1 was overtaken twice only, 4 is on its way");
        assert_eq!(link.counts(), (2, 1));
    }

    #[test]
    fn the_last_packet_before_silence_is_given_up_in_time() {
        let mut link = SentPackets::default();
        send(&mut link, 0, 0);
        settled(&mut link, Ack { newest: 0, before: 0 }, 80);
        send(&mut link, 1, 100);
        let mut lost = Vec::new();
        for ms in (150..2_000).step_by(50) {
            link.on_time(Micros::from_millis(ms), Micros::from_millis(50), |_, _, record| {
                lost.push((ms, record.alias.0));
            });
        }
        assert_eq!(lost.len(), 1);
        assert!(lost[0].0 <= 500, "{lost:?}");
        assert_eq!(link.in_flight(), 0);
    }

    #[test]
    fn a_queue_takes_little_more_memory_than_what_is_in_it() {
        let mut queue = Queue::default();
        for n in 0..10_000u32 {
            queue.push(n);
            queue.drop_first(queue.len().saturating_sub(40));
            assert_eq!(queue[..], Vec::from_iter((n + 1).saturating_sub(40)..=n), "in order");
            assert!(queue.items.capacity() <= 60, "{} for 40", queue.items.capacity());
        }
    }

    #[test]
    fn memory_is_bounded_without_any_acknowledgement() {
        let mut link = SentPackets::default();
        for n in 0..2_000 {
            send(&mut link, n, 0);
            link.on_time(Micros::ZERO, Micros::from_millis(50), |_, _, _| {});
        }
        assert!(link.packets.len() <= MAX_IN_FLIGHT + 1 && link.records.len() <= MAX_IN_FLIGHT + 1);
    }
}
