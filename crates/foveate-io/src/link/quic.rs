//! A link's QUIC connection with what this crate adds to it: messages on a stream, conditions.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use foveate_wire::{Bytes, Micros};
use quinn_proto::{
    Connection, ConnectionHandle, Dir, EcnCodepoint, FinishError, ReadError, StreamId,
};

use super::Conditioning;
use crate::messages::{Inbox, Outbox};
use crate::meter::Meter;

/// A link that had to do with messages or connected within this time is not calm: it is punctual.
const RESTLESS: Duration = Duration::from_secs(1);

pub(crate) struct Quic {
    pub(crate) handle: ConnectionHandle,
    pub(crate) conn: Connection,
    /// The one for messages.
    stream: Option<StreamId>,
    outbox: Outbox,
    inbox: Inbox,
    /// The stream was ended by this side, and the end is not acknowledged.
    pub(crate) finishing: bool,
    restless_until: Instant,
    pub(crate) conditioning: Option<Box<Conditioning<Incoming, Outgoing>>>,
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

impl Quic {
    pub(crate) fn new((handle, conn): (ConnectionHandle, Connection), now: Instant) -> Quic {
        Quic {
            handle,
            conn,
            stream: None,
            outbox: Outbox::default(),
            inbox: Inbox::default(),
            finishing: false,
            restless_until: now + RESTLESS,
            conditioning: None,
        }
    }

    /// The handshake is over. Who connected opens the stream for messages, and lets the other side
    /// know of it.
    pub(crate) fn open(&mut self, now: Instant, begun_here: bool) {
        self.restless_until = now + RESTLESS;
        if begun_here {
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
        if let Some(stream) = self.stream {
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
        now >= self.restless_until && self.backlog().0 == 0
    }

    /// Adds what QUIC knows.
    pub(crate) fn measure(&self, meter: &mut Meter) {
        let stats = self.conn.stats();
        let micros = |span: Duration| Micros(span.as_micros() as u64);
        meter.received.packets = stats.udp_rx.datagrams;
        meter.received.bytes = stats.udp_rx.bytes;
        meter.sent.packets = stats.udp_tx.datagrams;
        meter.sent.bytes = stats.udp_tx.bytes;
        meter.lost_packets = stats.path.lost_packets;
        meter.round_trip = micros(stats.path.rtt);
        meter.shortest_round_trip = micros(stats.path.min_rtt);
        meter.window = stats.path.cwnd;
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
