//! A link over WebSocket: datagrams and messages as binary frames on one TCP connection.
//!
//! The first byte of a frame is its type: 0 for a datagram, 1 for a message. An operator's link carries only messages,
//! without that byte.
//!
//! TCP queues what it cannot deliver, and game state that is seconds old is worthless. So pings are sent along, and
//! while one is overdue, datagrams are dropped instead of queued. This detects a queue anywhere: in this process, the
//! kernel or the network.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use foveate_wire::Micros;
use tungstenite::protocol::frame::coding::CloseCode as SocketCode;
use tungstenite::protocol::{CloseFrame, Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Message, Utf8Bytes, error::CapacityError};

use crate::bucket::Bucket;
use crate::endpoint::{CarrierSteps, WEB_SOCKET_STEPS};
use crate::event::{CloseCode, Purpose, Reason, Transport};
use crate::link::{Carrier, Conditioning};
use crate::meter::{LinkMeter, LinkTraffic};
use crate::options::{DATAGRAM_BUFFER, EndpointOptions, Limits, LinkConditions, duration};

/// Datagrams are dropped while a ping is unanswered for this long beyond the shortest round trip.
pub const MAX_LAG: Duration = Duration::from_millis(300);
/// The largest message from an operator's page.
pub const MAX_ASKED: usize = 64 * 1024;
/// Pings are sent with other data, but at most this often.
const PING_EVERY: Duration = Duration::from_millis(200);
/// Bytes to read from one socket before others have their turn.
const MAX_READ: usize = 64 * 1024;
/// Time for the peer to answer a close frame.
const GOODBYE: Duration = Duration::from_millis(500);
/// Most bytes of a close frame's reason (RFC 6455, 5.5).
const MAX_REASON: usize = 123;
/// First of the close codes for private use (RFC 6455, 7.4.2).
const PRIVATE_CODES: u32 = 4_000;
/// Initial read buffer of a connection.
const READ_BUFFER: usize = 4 * 1024;
/// The most memory that an empty buffer keeps.
const KEPT: usize = 64 * 1024;

/// The contents of a frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    Datagram(Bytes),
    Message(Bytes),
}

/// Received data.
#[derive(Debug)]
pub(crate) enum Arrived {
    Unit(Unit),
    /// A ping or a pong.
    Control,
    /// The other side closed the connection.
    Closed(Reason),
    /// A message's size and the largest size allowed.
    Oversized(foveate_wire::Bytes, foveate_wire::Bytes),
    /// A violation of the protocol, with its description.
    Malformed(String),
}

pub(crate) struct WebSocket {
    stream: TcpStream,
    codec: WebSocketContext,
    pipe: Pipe,
    purpose: Purpose,
    /// Limit on received bytes of any meaning.
    raw: Bucket,
    pub(crate) conditioning: Option<Box<Conditioning<Unit, Unit>>>,
    /// Bytes of outgoing messages that the conditioner holds.
    held: usize,
    received: LinkTraffic,
    sent: LinkTraffic,
    last_received: Instant,
    idle: Duration,
    pinged: Instant,
    unanswered: bool,
    round_trip: Duration,
    shortest: Duration,
    /// Deadline after a close frame; no more frames are read.
    leaving: Option<Instant>,
    hung_up: bool,
    max_datagram: u32,
}

/// Buffers between the socket and the codec, so that the codec never blocks.
#[derive(Default)]
struct Pipe {
    incoming: BytesMut,
    outgoing: BytesMut,
}

impl Read for Pipe {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.incoming.is_empty() {
            return Err(ErrorKind::WouldBlock.into());
        }
        let count = into.len().min(self.incoming.len());
        self.incoming.copy_to_slice(&mut into[..count]);
        Ok(count)
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outgoing.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The result of one turn of reading.
pub(crate) struct ReadTurn {
    pub(crate) bytes: usize,
    /// The connection ended.
    pub(crate) ended: bool,
    /// The limits were exceeded by far.
    pub(crate) flood: bool,
}

/// A connection that was HTTP's.
pub(crate) struct Upgraded {
    pub(crate) stream: TcpStream,
    /// The answer to the request, which is sent first.
    pub(crate) answer: Bytes,
    /// What has arrived after the request.
    pub(crate) rest: BytesMut,
}

impl WebSocket {
    /// Takes over a connection from HTTP. `now` is the endpoint's `time`.
    pub(crate) fn new(
        upgraded: Upgraded,
        purpose: Purpose,
        options: &EndpointOptions,
        now: Instant,
        time: Micros,
    ) -> WebSocket {
        let Upgraded { stream, answer, rest } = upgraded;
        let limit = match purpose {
            Purpose::Play => options.limits.max_message.0 as usize + 1,
            Purpose::Observe => MAX_ASKED,
        };
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .write_buffer_size(0)
            .max_message_size(Some(limit))
            .max_frame_size(Some(limit));
        WebSocket {
            stream,
            codec: WebSocketContext::new(Role::Server, Some(config)),
            pipe: Pipe { incoming: rest, outgoing: BytesMut::from(answer) },
            purpose,
            raw: Bucket::full(raw_rate(&options.limits), time),
            conditioning: None,
            held: 0,
            received: LinkTraffic::default(),
            sent: LinkTraffic::default(),
            last_received: now,
            idle: duration(options.idle_timeout),
            pinged: now,
            unanswered: false,
            round_trip: Duration::ZERO,
            shortest: Duration::MAX,
            leaving: None,
            hung_up: false,
            max_datagram: options.packet.0,
        }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether to watch the socket until it is writable.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.pipe.outgoing.is_empty()
    }

    /// Reads as much as a turn allows.
    pub(crate) fn receive(&mut self, limits: &Limits, now: Instant, time: Micros) -> ReadTurn {
        let mut read = ReadTurn { bytes: 0, ended: false, flood: false };
        let mut piece = [0; 4 * 1024];
        while read.bytes < MAX_READ && !read.flood {
            match self.stream.read(&mut piece) {
                Ok(0) => read.ended = true,
                Ok(count) => {
                    read.bytes += count;
                    read.flood = !self.raw.take(raw_rate(limits), time, count as u32);
                    if self.leaving.is_none() {
                        self.pipe.incoming.extend_from_slice(&piece[..count]);
                    }
                    continue;
                }
                Err(cause) if cause.kind() == ErrorKind::Interrupted => continue,
                Err(cause) => read.ended = cause.kind() != ErrorKind::WouldBlock,
            }
            break;
        }
        if read.bytes > 0 {
            self.last_received = now;
            self.received.packet(read.bytes);
        }
        read
    }

    /// The next complete item.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Arrived> {
        if self.leaving.is_some() {
            return None;
        }
        Some(match self.codec.read(&mut self.pipe) {
            Ok(Message::Binary(bytes)) => self.unit(bytes),
            Ok(Message::Text(text)) if self.purpose == Purpose::Observe => {
                Arrived::Unit(Unit::Message(text.into()))
            }
            Ok(Message::Text(_)) => Arrived::Malformed("a frame of text".into()),
            Ok(Message::Pong(_)) => {
                self.answered(now);
                Arrived::Control
            }
            Ok(Message::Ping(_) | Message::Frame(_)) => Arrived::Control,
            Ok(Message::Close(frame)) => {
                // Reading once more writes the answer.
                let _ = self.codec.read(&mut self.pipe);
                self.leave(now);
                Arrived::Closed(said(frame))
            }
            Err(tungstenite::Error::Io(_)) => return None,
            Err(cause) => {
                // The codec has lost its position in the stream.
                self.leave(now);
                self.fault(&cause)
            }
        })
    }

    fn fault(&self, cause: &tungstenite::Error) -> Arrived {
        match cause {
            tungstenite::Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => {
                Arrived::Oversized(self.content(*size), self.content(*max_size))
            }
            cause => Arrived::Malformed(cause.to_string()),
        }
    }

    /// A frame's length without the type byte.
    fn content(&self, frame: usize) -> foveate_wire::Bytes {
        let kind = usize::from(self.purpose == Purpose::Play);
        foveate_wire::Bytes(u32::try_from(frame.saturating_sub(kind)).unwrap_or(u32::MAX))
    }

    fn unit(&mut self, mut bytes: Bytes) -> Arrived {
        if self.purpose == Purpose::Observe {
            return Arrived::Unit(Unit::Message(bytes));
        }
        match (!bytes.is_empty()).then(|| bytes.get_u8()) {
            Some(0) => Arrived::Unit(Unit::Datagram(bytes)),
            Some(1) => Arrived::Unit(Unit::Message(bytes)),
            Some(kind) => Arrived::Malformed(format!("a frame of kind {kind}")),
            None => Arrived::Malformed("an empty frame".into()),
        }
    }

    /// Queues a frame; false for a datagram that would arrive too late.
    pub(crate) fn push(&mut self, now: Instant, unit: &Unit) -> bool {
        let (kind, bytes) = match unit {
            Unit::Datagram(_) if self.lags(now) => return false,
            Unit::Datagram(bytes) => (0, bytes),
            Unit::Message(bytes) => (1, bytes),
        };
        let frame = match self.purpose {
            Purpose::Play => {
                let mut frame = BytesMut::with_capacity(1 + bytes.len());
                frame.extend_from_slice(&[kind]);
                frame.extend_from_slice(bytes);
                Message::Binary(frame.freeze())
            }
            // A page reads text without conversion; invalid UTF-8 stays bytes.
            Purpose::Observe => match Utf8Bytes::try_from(bytes.clone()) {
                Ok(text) => Message::Text(text),
                Err(_) => Message::Binary(bytes.clone()),
            },
        };
        // Writes to memory. A link that is being closed accepts nothing any more, which is known.
        let _ = self.codec.write(&mut self.pipe, frame);
        true
    }

    /// Adds or removes bytes of a message that the conditioner holds.
    pub(crate) fn hold(&mut self, bytes: usize, held: bool) {
        self.held = if held { self.held + bytes } else { self.held.saturating_sub(bytes) };
    }

    /// Whether data sent now would wait in a queue.
    fn lags(&self, now: Instant) -> bool {
        let usual = if self.shortest == Duration::MAX { Duration::ZERO } else { self.shortest };
        self.pipe.outgoing.len() > DATAGRAM_BUFFER
            || (self.unanswered && now.saturating_duration_since(self.pinged) > usual + MAX_LAG)
    }

    fn ping(&mut self, now: Instant) {
        (self.pinged, self.unanswered) = (now, true);
        let _ = self.codec.write(&mut self.pipe, Message::Ping(Bytes::new()));
    }

    fn answered(&mut self, now: Instant) {
        if std::mem::replace(&mut self.unanswered, false) {
            let trip = now.saturating_duration_since(self.pinged);
            self.shortest = self.shortest.min(trip);
            // As in RFC 6298: an eighth of the way to the newest sample.
            self.round_trip = match self.round_trip {
                Duration::ZERO => trip,
                before => (before * 7 + trip) / 8,
            };
        }
    }

    /// Writes what the socket accepts, and returns the number of bytes.
    pub(crate) fn transmit(&mut self, now: Instant) -> io::Result<usize> {
        let talks = !self.pipe.outgoing.is_empty() && self.leaving.is_none();
        if talks && !self.unanswered && now >= self.pinged + PING_EVERY {
            self.ping(now);
        }
        let mut written = 0;
        while !self.pipe.outgoing.is_empty() {
            match self.stream.write(&self.pipe.outgoing) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.pipe.outgoing.advance(count);
                    written += count;
                }
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) if cause.kind() == ErrorKind::WouldBlock => break,
                Err(cause) => return Err(cause),
            }
        }
        if written > 0 {
            self.sent.packet(written);
        }
        if self.pipe.outgoing.is_empty() {
            if self.pipe.outgoing.capacity() > KEPT {
                self.pipe.outgoing = BytesMut::new();
            }
            if self.leaving.is_some() && !std::mem::replace(&mut self.hung_up, true) {
                // The peer may be gone already.
                let _ = self.stream.shutdown(Shutdown::Write);
            }
        }
        Ok(written)
    }

    fn leave(&mut self, now: Instant) {
        self.leaving.get_or_insert(now + GOODBYE);
        self.pipe.incoming = BytesMut::new();
    }

    /// Handles a timer.
    pub(crate) fn timeout(&mut self, now: Instant) -> Timeout {
        if self.leaving.is_some_and(|until| until <= now) {
            return Timeout::Over;
        }
        if self.leaving.is_none() && self.last_received + self.idle <= now {
            return Timeout::Idle;
        }
        if self.leaving.is_none() && self.pinged + self.idle / 3 <= now {
            self.ping(now);
        }
        Timeout::Goes
    }
}

impl Carrier for WebSocket {
    fn transport(&self) -> Transport {
        Transport::WebSocket
    }

    fn steps(&self) -> &'static CarrierSteps {
        &WEB_SOCKET_STEPS
    }

    fn backlog(&self) -> foveate_wire::Bytes {
        foveate_wire::Bytes((self.pipe.outgoing.len() + self.held) as u32)
    }

    fn max_datagram(&mut self) -> Option<foveate_wire::Bytes> {
        Some(foveate_wire::Bytes(match self.purpose {
            Purpose::Play => self.max_datagram,
            Purpose::Observe => 0,
        }))
    }

    fn is_finishing(&self) -> bool {
        !self.pipe.outgoing.is_empty() || self.held > 0
    }

    fn due(&mut self, _: Duration) -> Option<Instant> {
        let idle = (self.last_received + self.idle).min(self.pinged + self.idle / 3);
        Some(self.leaving.unwrap_or(idle))
    }

    fn held_until(&self) -> Option<Micros> {
        self.conditioning.as_ref()?.next_due()
    }

    fn set_conditions(&mut self, ways: Option<LinkConditions>, seed: u64) -> bool {
        Conditioning::set(&mut self.conditioning, ways, seed);
        false
    }

    fn measure(&self, meter: &mut LinkMeter) {
        let micros = |span: Duration| Micros(span.as_micros() as u64);
        (meter.received.packets, meter.received.bytes) =
            (self.received.packets, self.received.bytes);
        (meter.sent.packets, meter.sent.bytes) = (self.sent.packets, self.sent.bytes);
        meter.round_trip = micros(self.round_trip);
        let known = self.shortest < Duration::MAX;
        meter.shortest_round_trip = if known { micros(self.shortest) } else { Micros::ZERO };
        // TCP does not reveal its window. Unsent bytes are added to those in flight.
        meter.window = DATAGRAM_BUFFER.saturating_sub(self.backlog().0 as usize).max(1) as u64;
    }

    /// Sends a close frame with a code and a reason.
    fn close(&mut self, now: Instant, code: CloseCode, reason: &str) {
        let number = PRIVATE_CODES + code.0.min(999);
        let mut end = reason.len().min(MAX_REASON);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let code = SocketCode::from(number as u16);
        let frame = CloseFrame { code, reason: reason[..end].into() };
        let _ = self.codec.close(&mut self.pipe, Some(frame));
        self.leave(now);
    }
}

/// Parses any bytes as frames of a player's or an operator's page, without writing to the socket: see
/// [`fuzz`](crate::fuzz).
pub(crate) fn read_anything(stream: TcpStream, purpose: Purpose, data: &[u8]) {
    let (options, now) = (EndpointOptions::server(), Instant::now());
    let upgraded = Upgraded { stream, answer: Bytes::new(), rest: BytesMut::from(data) };
    let mut socket = WebSocket::new(upgraded, purpose, &options, now, Micros::ZERO);
    let most = MAX_ASKED.max(options.limits.max_message.0 as usize + 1);
    // Each item takes at least two bytes.
    for _ in 0..=data.len() / 2 {
        match socket.next(now) {
            Some(Arrived::Unit(Unit::Datagram(bytes) | Unit::Message(bytes))) => {
                assert!(bytes.len() <= most);
            }
            Some(_) => {}
            None => {
                assert!(socket.pipe.outgoing.len() <= 2 * data.len() + MAX_REASON, "answers grow");
                return;
            }
        }
    }
    panic!("{} bytes held more frames than they can", data.len());
}

/// What a timer caused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timeout {
    Goes,
    /// Nothing was received for too long.
    Idle,
    /// The time after a close frame is over.
    Over,
}

fn raw_rate(limits: &Limits) -> crate::bucket::RateLimit {
    limits.bytes.times(limits.flood_factor)
}

fn said(frame: Option<CloseFrame>) -> Reason {
    let Some(CloseFrame { code, reason }) = frame else {
        return Reason::Peer { code: CloseCode::DONE, reason: String::new() };
    };
    let reason = reason.to_string();
    match u32::from(u16::from(code)) {
        number @ PRIVATE_CODES..=4_999 => {
            Reason::Peer { code: CloseCode(number - PRIVATE_CODES), reason }
        }
        // A normal end, or the page was left.
        1_000 | 1_001 => Reason::Peer { code: CloseCode::DONE, reason },
        number => Reason::Failed(format!("the peer closed the WebSocket: {number} {reason}")),
    }
}

#[cfg(test)]
mod tests;
