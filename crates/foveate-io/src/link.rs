//! One connection with what this crate adds to it: messages, rates, conditions.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use foveate_wire::{Bytes, Micros};
use quinn_proto::{
    Connection, ConnectionHandle, Dir, EcnCodepoint, FinishError, ReadError, StreamId,
};

use crate::admission::Origin;
use crate::bucket::Bucket;
use crate::conditioner::Conditioner;
use crate::messages::{Inbox, Outbox};
use crate::meter::{Meter, Traffic};
use crate::options::{Limits, Ways};
use crate::slots::LinkId;

/// Packets that a link may send for each datagram it may send: acknowledgements, handshakes, probes.
const PACKETS_PER_DATAGRAM: u32 = 2;

/// A link that had to do with messages or connected within this time is not calm: it is punctual.
const RESTLESS: Duration = Duration::from_secs(1);

/// How far a link is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Handshake,
    Open,
    /// Reported as closed; QUIC still answers stragglers.
    Closed,
}

pub(crate) struct Link {
    pub(crate) id: LinkId,
    pub(crate) handle: ConnectionHandle,
    pub(crate) conn: Connection,
    pub(crate) stage: Stage,
    /// Whom it counts for; none if this side began it.
    pub(crate) origin: Option<Origin>,
    stream: Option<StreamId>,
    outbox: Outbox,
    inbox: Inbox,
    /// The stream was ended by this side, and the end is not acknowledged.
    pub(crate) finishing: bool,
    pub(crate) flow: Flow,
    pub(crate) received: Traffic,
    pub(crate) sent: Traffic,
    /// Whether it is in the endpoint's list of the same name.
    pub(crate) touched: bool,
    pub(crate) ready: bool,
    pub(crate) dirty: bool,
    restless_until: Instant,
    pub(crate) conditioning: Option<Box<Conditioning>>,
}

/// Conditioners of both ways.
pub(crate) struct Conditioning {
    pub(crate) received: Conditioner<Incoming>,
    pub(crate) sent: Conditioner<Outgoing>,
    /// No conditions any more; this stays until nothing is held.
    pub(crate) ending: bool,
}

/// A packet held on its way in.
pub(crate) struct Incoming {
    pub(crate) from: SocketAddr,
    pub(crate) to: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) bytes: bytes::BytesMut,
}

/// A packet held on its way out.
pub(crate) struct Outgoing {
    pub(crate) to: SocketAddr,
    pub(crate) source: Option<IpAddr>,
    pub(crate) bytes: Vec<u8>,
}

impl Conditioning {
    pub(crate) fn new(ways: Ways, seed: u64) -> Conditioning {
        Conditioning {
            received: Conditioner::new(ways.received, seed),
            sent: Conditioner::new(ways.sent, !seed),
            ending: false,
        }
    }

    pub(crate) fn next_due(&self) -> Option<Micros> {
        let both = [self.received.next_due(), self.sent.next_due()];
        both.into_iter().flatten().min()
    }
}

impl Link {
    pub(crate) fn new(
        id: LinkId,
        (handle, conn): (ConnectionHandle, Connection),
        origin: Option<Origin>,
        flow: Flow,
        now: Instant,
    ) -> Link {
        Link {
            id,
            handle,
            conn,
            stage: Stage::Handshake,
            origin,
            stream: None,
            outbox: Outbox::default(),
            inbox: Inbox::default(),
            finishing: false,
            flow,
            received: Traffic::default(),
            sent: Traffic::default(),
            touched: false,
            ready: false,
            dirty: false,
            restless_until: now + RESTLESS,
            conditioning: None,
        }
    }

    /// The handshake is over. Who connected opens the stream for messages, and lets the other side
    /// know of it.
    pub(crate) fn open(&mut self, now: Instant) {
        self.stage = Stage::Open;
        self.restless_until = now + RESTLESS;
        if self.origin.is_none() {
            self.stream = self.conn.streams().open(Dir::Bi);
            self.outbox.push(b"");
        }
    }

    /// The other side opened a stream; it may open one only.
    pub(crate) fn stream_opened(&mut self) {
        if let Some(stream) = self.conn.streams().accept(Dir::Bi) {
            self.stream.get_or_insert(stream);
        }
    }

    /// Messages that wait.
    pub(crate) fn backlog(&self) -> Bytes {
        Bytes(self.outbox.waiting().len() as u32)
    }

    pub(crate) fn push_message(&mut self, now: Instant, message: &[u8]) {
        self.outbox.push(message);
        self.sent.messages += 1;
        self.restless_until = now + RESTLESS;
    }

    /// Gives the stream what it takes.
    pub(crate) fn pump(&mut self) {
        let Some(stream) = self.stream else { return };
        // An error means that the stream is blocked, which an event will end, or over.
        while !self.outbox.waiting().is_empty() {
            match self.conn.send_stream(stream).write(self.outbox.waiting()) {
                Ok(count) => self.outbox.taken(count),
                Err(_) => return,
            }
        }
    }

    /// Ends the stream, so that its last acknowledgement tells that all messages arrived.
    pub(crate) fn finish(&mut self) {
        self.pump();
        if let (Some(stream), true) = (self.stream, self.sent.messages > 0) {
            let ended = self.conn.send_stream(stream).finish();
            self.finishing =
                !matches!(ended, Err(FinishError::Stopped(_) | FinishError::ClosedStream));
        }
    }

    /// Reads the stream and hands whole messages on. An error is the size of one that is too large.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        limit: Bytes,
        mut take: impl FnMut(bytes::Bytes),
    ) -> Result<(), Bytes> {
        let Some(stream) = self.stream else { return Ok(()) };
        let mut recv = self.conn.recv_stream(stream);
        let Ok(mut chunks) = recv.read(true) else { return Ok(()) };
        self.restless_until = now + RESTLESS;
        let verdict = loop {
            match chunks.next(limit.0 as usize) {
                Ok(Some(chunk)) => self.inbox.feed(&chunk.bytes),
                Ok(None) | Err(ReadError::Blocked | ReadError::Reset(_)) => break Ok(()),
            }
            match drain(&mut self.inbox, limit, &mut take) {
                Ok(()) => {}
                Err(size) => break Err(size),
            }
        };
        // Whether a packet must tell of the freed window is asked of every link that was touched.
        let _ = chunks.finalize();
        verdict
    }

    /// Whether nothing is urgent: datagrams come and go, and no message is under way.
    pub(crate) fn is_calm(&self, now: Instant) -> bool {
        self.stage == Stage::Open && now >= self.restless_until && self.backlog().0 == 0
    }

    /// When QUIC wants to be called; late by `slack` if nothing is urgent.
    pub(crate) fn quic_due(&mut self, now: Instant, slack: Duration) -> Option<Instant> {
        let due = self.conn.poll_timeout()?;
        Some(if self.is_calm(now) { due + slack } else { due })
    }

    pub(crate) fn meter(&self) -> Meter {
        let stats = self.conn.stats();
        let micros = |span: Duration| Micros(span.as_micros() as u64);
        Meter {
            received: Traffic {
                packets: stats.udp_rx.datagrams,
                bytes: stats.udp_rx.bytes,
                ..self.received
            },
            sent: Traffic {
                packets: stats.udp_tx.datagrams,
                bytes: stats.udp_tx.bytes,
                ..self.sent
            },
            lost_packets: stats.path.lost_packets,
            round_trip: micros(stats.path.rtt),
            shortest_round_trip: micros(stats.path.min_rtt),
            window: stats.path.cwnd,
        }
    }
}

fn drain(
    inbox: &mut Inbox,
    limit: Bytes,
    take: &mut impl FnMut(bytes::Bytes),
) -> Result<(), Bytes> {
    while let Some(message) = inbox.next(limit)? {
        take(message);
    }
    Ok(())
}

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
    use crate::bucket::Rate;

    fn fates(per_second: u64) -> [usize; 3] {
        let limits =
            Limits { datagrams: Rate::per_second(100), flood_factor: 4, ..Limits::server() };
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
