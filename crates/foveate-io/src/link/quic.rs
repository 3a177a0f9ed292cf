//! A link's QUIC connection with what this crate adds: messages on a stream, conditions.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use foveate_wire::{Bytes, Micros};
#[cfg(feature = "web")]
use quinn_proto::StreamEvent;
use quinn_proto::crypto::rustls::HandshakeData;
use quinn_proto::{
    Connection, ConnectionHandle, Dir, EcnCodepoint, FinishError, FrameStats, ReadError, StreamId,
    VarInt,
};

use super::{Carrier, Conditioning};
use crate::direct::DirectPath;
use crate::endpoint::{CarrierSteps, QUIC_STEPS};
use crate::event::{CloseCode, Transport};
use crate::messages::{Inbox, Outbox};
use crate::meter::{LinkMeter, LinkTraffic};
use crate::options::{DatagramPath, LinkConditions, duration};
#[cfg(feature = "web")]
use crate::web::{H3, Session};

/// A link that had a message or connected within this time is not calm: its timers are punctual.
const RESTLESS: Duration = Duration::from_secs(1);

/// After its goodbye a browser has this long to close the connection.
#[cfg(feature = "web")]
pub(crate) const GOODBYE: Duration = Duration::from_millis(500);
// HTTP/3's code for a normal end.
#[cfg(feature = "web")]
const NO_ERROR: VarInt = VarInt::from_u32(0x0100);
#[cfg(feature = "web")]
const PROTOCOL_ERROR: VarInt = VarInt::from_u32(0x0101);

pub(crate) struct Quic {
    pub(crate) handle: ConnectionHandle,
    pub(crate) conn: Connection,
    /// The stream of messages.
    stream: Option<StreamId>,
    outbox: Outbox,
    inbox: Inbox,
    /// This side has ended the stream, and the end is not acknowledged.
    pub(crate) finishing: bool,
    restless_until: Instant,
    /// Times in a row that the network reported that no server listens; reset by any packet that arrives.
    pub(crate) refusals: u8,
    /// Frames received at the last check.
    frames: u64,
    pub(crate) conditioning: Option<Box<Conditioning<Incoming, Outgoing>>>,
    /// The direct path if both ends offered one, from the handshake's end to the link's.
    pub(crate) direct: Option<Box<DirectLink>>,
    /// A browser's session.
    #[cfg(feature = "web")]
    pub(crate) session: Option<Box<Session>>,
}

/// A direct path with the endpoint's state for it.
pub(crate) struct DirectLink {
    pub(crate) path: DirectPath,
    /// The start of the path's time.
    origin: Instant,
    /// Numbers of paths whose ids the endpoint has registered.
    pub(crate) numbers: Option<RangeInclusive<u32>>,
    pub(crate) received: LinkTraffic,
    pub(crate) sent: LinkTraffic,
}

impl DirectLink {
    pub(crate) fn new(path: DirectPath, origin: Instant) -> DirectLink {
        let (received, sent) = Default::default();
        DirectLink { path, origin, numbers: None, received, sent }
    }

    fn due(&self) -> Option<Instant> {
        self.origin.checked_add(duration(self.path.next_due()?))
    }

    /// Adds to QUIC's measurements: while datagrams use this path, its round trips are the ones that count.
    fn measure(&self, meter: &mut LinkMeter) {
        meter.received.packets += self.received.packets;
        meter.received.bytes += self.received.bytes;
        meter.sent.packets += self.sent.packets;
        meter.sent.bytes += self.sent.bytes;
        meter.lost_packets += self.path.lost();
        if let Some((smooth, shortest, window)) = self.path.measured() {
            (meter.round_trip, meter.shortest_round_trip, meter.window) =
                (smooth, shortest, window);
        }
    }
}

/// A packet held on its way in.
#[derive(Clone)]
pub(crate) struct Incoming {
    pub(crate) from: SocketAddr,
    pub(crate) to: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) bytes: bytes::BytesMut,
}

/// A packet held on its way out.
#[derive(Clone)]
pub(crate) struct Outgoing {
    pub(crate) to: SocketAddr,
    pub(crate) source: Option<IpAddr>,
    pub(crate) bytes: Vec<u8>,
}

impl Quic {
    pub(crate) fn new(handle: ConnectionHandle, conn: Connection, now: Instant) -> Quic {
        Quic {
            handle,
            conn,
            stream: None,
            outbox: Outbox::default(),
            inbox: Inbox::default(),
            finishing: false,
            restless_until: now + RESTLESS,
            refusals: 0,
            frames: 0,
            conditioning: None,
            direct: None,
            #[cfg(feature = "web")]
            session: None,
        }
    }

    /// Opens the link after the handshake. The connecting side opens the stream of messages, and announces it to the
    /// other side.
    pub(crate) fn open(&mut self, now: Instant, begun_here: bool) {
        self.restless_until = now + RESTLESS;
        if begun_here {
            self.stream = self.conn.streams().open(Dir::Bi);
            self.outbox.push(b"");
        }
    }

    /// The negotiated protocol, once the handshake is complete.
    pub(crate) fn agreed(&self) -> Option<Vec<u8>> {
        let agreed = self.conn.crypto_session().handshake_data()?;
        agreed.downcast::<HandshakeData>().ok()?.protocol
    }

    /// Frames received since the last call, of authenticated packets only.
    pub(crate) fn new_frames(&mut self) -> u32 {
        let frames = received_frames(&self.conn.stats().frame_rx);
        let came = frames.saturating_sub(std::mem::replace(&mut self.frames, frames));
        u32::try_from(came).unwrap_or(u32::MAX)
    }

    /// Handles a stream that the other side opened; it may open only one.
    pub(crate) fn stream_opened(&mut self) {
        if let Some(stream) = self.conn.streams().accept(Dir::Bi) {
            self.stream.get_or_insert(stream);
        }
    }

    pub(crate) fn push_message(&mut self, now: Instant, message: &[u8]) {
        self.outbox.push(message);
        self.restless_until = now + RESTLESS;
    }

    /// Passes waiting messages to the stream, as far as it accepts them.
    pub(crate) fn pump(&mut self) {
        let Some(stream) = self.stream else { return };
        // An error means that the stream is blocked, which an event will end, or closed.
        while !self.outbox.waiting().is_empty() {
            match self.conn.send_stream(stream).write(self.outbox.waiting()) {
                Ok(count) => self.outbox.taken(count),
                Err(_) => return,
            }
        }
    }

    /// Reads the stream and passes on whole messages. An error is the size of a message that is too large.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        limit: Bytes,
        mut take: impl FnMut(bytes::Bytes),
    ) -> Result<(), Bytes> {
        let Some(stream) = self.stream else { return Ok(()) };
        // Messages that arrived before the stream was known to be this one.
        drain(&mut self.inbox, limit, &mut take)?;
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
        // Every touched link is asked anyway whether it must announce the larger window.
        let _ = chunks.finalize();
        verdict
    }
}

impl Carrier for Quic {
    fn transport(&self) -> Transport {
        if self.has_session() { Transport::WebTransport } else { Transport::Quic }
    }

    fn datagram_path(&self) -> DatagramPath {
        match &self.direct {
            Some(direct) if direct.path.is_active() => DatagramPath::Direct,
            _ => DatagramPath::Quic,
        }
    }

    fn steps(&self) -> &'static CarrierSteps {
        &QUIC_STEPS
    }

    fn backlog(&self) -> Bytes {
        Bytes(self.outbox.waiting().len() as u32)
    }

    fn max_datagram(&mut self) -> Option<Bytes> {
        let prefix = self.prefix().len();
        let size = self.conn.datagrams().max_size()?.saturating_sub(prefix);
        Some(Bytes(size as u32))
    }

    /// Ends the stream, so that the acknowledgement of its end shows that all messages arrived.
    fn finish(&mut self) {
        self.pump();
        if let Some(stream) = self.stream {
            let ended = self.conn.send_stream(stream).finish();
            self.finishing =
                !matches!(ended, Err(FinishError::Stopped(_) | FinishError::ClosedStream));
        }
    }

    fn is_finishing(&self) -> bool {
        self.finishing
    }

    fn is_calm(&self, now: Instant) -> bool {
        now >= self.restless_until && self.backlog().0 == 0
    }

    fn due(&mut self, slack: Duration) -> Option<Instant> {
        let due = self.conn.poll_timeout().map(|due| due + slack);
        let direct = self.direct.as_ref().and_then(|direct| direct.due());
        [due, self.until(), direct].into_iter().flatten().min()
    }

    fn held_until(&self) -> Option<Micros> {
        self.conditioning.as_ref()?.next_due()
    }

    fn set_conditions(&mut self, ways: Option<LinkConditions>, seed: u64) -> bool {
        Conditioning::set(&mut self.conditioning, ways, seed)
    }

    fn measure(&self, meter: &mut LinkMeter) {
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
        if let Some(direct) = &self.direct {
            direct.measure(meter);
        }
    }

    fn close(&mut self, now: Instant, code: CloseCode, reason: &str) {
        self.say_goodbye(now, code, reason);
    }

    fn ended(&mut self) {
        self.finishing = false;
    }
}

#[cfg(not(feature = "web"))]
impl Quic {
    fn has_session(&self) -> bool {
        false
    }

    /// The bytes before each datagram.
    pub(crate) fn prefix(&self) -> &[u8] {
        &[]
    }

    pub(crate) fn unwrap(&self, datagram: bytes::Bytes) -> Option<bytes::Bytes> {
        Some(datagram)
    }

    pub(crate) fn until(&self) -> Option<Instant> {
        None
    }

    fn say_goodbye(&mut self, now: Instant, code: CloseCode, reason: &str) {
        let said = bytes::Bytes::copy_from_slice(reason.as_bytes());
        self.conn.close(now, VarInt::from_u32(code.0), said);
    }
}

/// A browser's connection has a session on top.
#[cfg(feature = "web")]
impl Quic {
    fn has_session(&self) -> bool {
        self.session.is_some()
    }

    /// Whether the other side speaks HTTP/3.
    pub(crate) fn is_browser(&self) -> bool {
        self.agreed().as_deref() == Some(H3)
    }

    /// Whether an event is about the session's streams, rather than the stream of messages.
    pub(crate) fn is_sessions(&self, event: &StreamEvent) -> bool {
        let messages = |id: &StreamId| self.stream == Some(*id);
        self.session.is_some()
            && match event {
                StreamEvent::Opened { .. } => true,
                StreamEvent::Readable { id } => !messages(id),
                StreamEvent::Finished { id } | StreamEvent::Stopped { id, .. } => !messages(id),
                _ => false,
            }
    }

    /// Sets the stream of messages, with what has arrived on it.
    pub(crate) fn adopt(&mut self, stream: StreamId, heard: &[u8]) {
        self.stream = Some(stream);
        self.inbox.feed(heard);
    }

    /// The bytes before each datagram.
    pub(crate) fn prefix(&self) -> &[u8] {
        self.session.as_ref().map_or(&[], |session| session.prefix())
    }

    /// A datagram without its prefix; `None` if it is of no known session.
    pub(crate) fn unwrap(&self, datagram: bytes::Bytes) -> Option<bytes::Bytes> {
        match &self.session {
            Some(session) => session.unwrap(datagram),
            None => Some(datagram),
        }
    }

    /// The session's deadline for its next step.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.session.as_ref()?.until
    }

    /// Ends the session if there is one, and then the connection after a short time.
    fn say_goodbye(&mut self, now: Instant, code: CloseCode, reason: &str) {
        if let Some(session) = &mut self.session {
            match session.close(&mut self.conn, code, reason) {
                true => session.until = Some(now + GOODBYE),
                false => self.hang_up(now, code, reason),
            }
            return;
        }
        let said = bytes::Bytes::copy_from_slice(reason.as_bytes());
        self.conn.close(now, VarInt::from_u32(code.0), said);
    }

    /// Closes a browser's connection with HTTP/3's codes.
    pub(crate) fn hang_up(&mut self, now: Instant, code: CloseCode, reason: &str) {
        let number = if code == CloseCode::MALFORMED { PROTOCOL_ERROR } else { NO_ERROR };
        let said = bytes::Bytes::copy_from_slice(reason.as_bytes());
        self.conn.close(now, number, said);
    }
}

/// All frames except padding and the connection's close.
fn received_frames(frames: &FrameStats) -> u64 {
    let often = frames.acks + frames.datagram + frames.stream + frames.ping + frames.crypto;
    let flow = frames.max_data
        + frames.max_stream_data
        + frames.max_streams_bidi
        + frames.max_streams_uni
        + frames.data_blocked
        + frames.stream_data_blocked
        + frames.streams_blocked_bidi
        + frames.streams_blocked_uni;
    let streams = frames.reset_stream + frames.stop_sending;
    let path = frames.path_challenge
        + frames.path_response
        + frames.new_connection_id
        + frames.retire_connection_id
        + frames.new_token;
    often + flow + streams + path + frames.ack_frequency + frames.immediate_ack
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
