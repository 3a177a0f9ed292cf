//! One WebTransport session on a QUIC connection: from the first stream to goodbye.
//!
//! ```text
//! client                                 server
//! control stream: SETTINGS  ───────►
//!                           ◄───────  control stream: SETTINGS
//! CONNECT /play             ───────►  origin, path and room are judged
//!                           ◄───────  200, or why not
//! stream of messages, datagrams ◄──►
//! capsule: goodbye          ◄──────►  on the stream of the CONNECT, from either side
//! ```

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::{Connection, Dir, ReadError, StreamId, VarInt};

use super::{MAX_FRAME, Parts, qpack, read_number, write_number, write_part};
use crate::event::{CloseCode, Reason};

/// A browser must have requested a session within this time after its handshake.
const TOO_SLOW: Duration = Duration::from_secs(5);

// Frames on control streams and on the stream of a request.
const DATA: u64 = 0x00;
const HEADERS: u64 = 0x01;
const SETTINGS: u64 = 0x04;
/// Starts a stream of a session, in place of a frame.
const SESSION_STREAM: u64 = 0x41;
/// The capsule that closes a session, and the longest reason in it.
const CLOSE_SESSION: u64 = 0x2843;
const MAX_REASON: usize = 1024;
// Types of one-way streams.
const CONTROL: u64 = 0x00;
const PUSH: u64 = 0x01;
const TABLES: [u64; 2] = [0x02, 0x03];
/// Our settings. WebTransport has had several names.
const OURS: [(u64, u64); 8] = [
    (0x01, 0),                // QPACK_MAX_TABLE_CAPACITY
    (0x06, MAX_FRAME as u64), // MAX_FIELD_SECTION_SIZE
    (0x07, 0),                // QPACK_BLOCKED_STREAMS
    (0x08, 1),                // ENABLE_CONNECT_PROTOCOL
    (0x33, 1),                // H3_DATAGRAM
    (0x2b60_3742, 1),         // ENABLE_WEBTRANSPORT of draft 2
    (0xc671_706a, 1),         // WEBTRANSPORT_MAX_SESSIONS of draft 7
    (0x14e9_cd29, 1),         // WT_MAX_SESSIONS of later drafts
];
// Why streams are ended.
const NOT_WANTED: VarInt = VarInt::from_u32(0x0103);
const REJECTED: VarInt = VarInt::from_u32(0x010b);

/// A violation of the protocol, with its description.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fault(pub(crate) &'static str);

/// What happened on a session.
#[derive(Debug)]
pub(crate) enum Step {
    /// A browser requests a session: call [`Session::accept`] or [`Session::refuse`].
    Asks { path: String, authority: String, origin: Option<String> },
    /// The stream of messages, with what has arrived on it.
    Messages(StreamId, BytesMut),
    /// The other side closed the session.
    Closed(Reason),
}

/// The stage of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Waiting,
    /// Requested and not answered yet.
    Asked,
    Open,
    /// Closed.
    Over,
}

pub(crate) struct Session {
    stage: Stage,
    /// If the session is not open, or not closed, by then, its connection is closed.
    pub(crate) until: Option<Instant>,
    /// The stream of the request, whose number is the session's.
    request: Option<StreamId>,
    frames: Parts,
    capsules: Parts,
    /// The bytes before each datagram.
    prefix: Vec<u8>,
    /// Two-way streams whose type is not known yet.
    unknown: Vec<(StreamId, BytesMut)>,
    /// One-way streams.
    oneway: Vec<(StreamId, OneWay)>,
    /// Whether there is a stream of messages.
    has_messages: bool,
}

enum OneWay {
    /// Its type is not known yet.
    Unknown(BytesMut),
    /// The other side's settings, followed by frames that are ignored.
    Control { parts: Parts, settled: bool },
    /// Instructions for dynamic tables, which are not used.
    Tables,
}

impl Session {
    /// Starts a session and sends our settings.
    pub(crate) fn new(conn: &mut Connection, now: Instant) -> Result<Session, Fault> {
        let mut settings = Vec::new();
        for (name, value) in OURS {
            write_number(name, &mut settings);
            write_number(value, &mut settings);
        }
        let mut bytes = Vec::new();
        write_number(CONTROL, &mut bytes);
        write_part(SETTINGS, &settings, &mut bytes);
        let control = conn.streams().open(Dir::Uni).ok_or(Fault("no room for a control stream"))?;
        write_stream(conn, control, &bytes)?;
        Ok(Session {
            stage: Stage::Waiting,
            until: Some(now + TOO_SLOW),
            request: None,
            frames: Parts::default(),
            capsules: Parts::default(),
            prefix: Vec::new(),
            unknown: Vec::new(),
            oneway: Vec::new(),
            has_messages: false,
        })
    }

    /// The bytes before each datagram: a quarter of the session's number.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The datagram without its prefix; `None` if it is not this session's.
    pub(crate) fn unwrap(&self, mut bytes: Bytes) -> Option<Bytes> {
        let (number, length) = read_number(&bytes)?;
        let (own, _) = read_number(&self.prefix)?;
        let _ = bytes.split_to(length);
        (self.stage == Stage::Open && number == own).then_some(bytes)
    }

    /// Handles opened streams and streams with data. Call it until it returns `None`.
    pub(crate) fn turn(&mut self, conn: &mut Connection) -> Result<Option<Step>, Fault> {
        while let Some(stream) = conn.streams().accept(Dir::Uni) {
            self.oneway.push((stream, OneWay::Unknown(BytesMut::new())));
        }
        while let Some(stream) = conn.streams().accept(Dir::Bi) {
            self.unknown.push((stream, BytesMut::new()));
        }
        self.read_oneway(conn)?;
        if let Some(step) = self.read_unknown(conn)? {
            return Ok(Some(step));
        }
        self.read_request(conn)
    }

    fn read_oneway(&mut self, conn: &mut Connection) -> Result<(), Fault> {
        let mut place = 0;
        while let Some((stream, oneway)) = self.oneway.get_mut(place) {
            let mut bytes = BytesMut::new();
            let ended = read_stream(conn, *stream, usize::MAX, &mut bytes);
            let keep = oneway.take(bytes, ended)?;
            match keep {
                true => place += 1,
                false => {
                    // The stream may have ended by itself.
                    let _ = conn.recv_stream(*stream).stop(NOT_WANTED);
                    self.oneway.swap_remove(place);
                }
            }
        }
        let controls = |(_, oneway): &&(StreamId, OneWay)| matches!(oneway, OneWay::Control { .. });
        match self.oneway.iter().filter(controls).count() {
            0 | 1 => Ok(()),
            _ => Err(Fault("two control streams")),
        }
    }

    fn read_unknown(&mut self, conn: &mut Connection) -> Result<Option<Step>, Fault> {
        let mut place = 0;
        while let Some((stream, head)) = self.unknown.get_mut(place) {
            let stream = *stream;
            // Reads at most two numbers: the rest waits until the stream's type is known.
            let ended = read_stream(conn, stream, 16usize.saturating_sub(head.len()), head);
            let Some((kind, length)) = read_number(head) else {
                match ended {
                    true => drop(self.unknown.swap_remove(place)),
                    false => place += 1,
                }
                continue;
            };
            if kind != SESSION_STREAM {
                let (_, head) = self.unknown.swap_remove(place);
                match self.request {
                    None => {
                        self.request = Some(stream);
                        self.frames.feed(&head);
                    }
                    // A connection has only one session.
                    Some(_) => reject_stream(conn, stream, REJECTED),
                }
                continue;
            }
            let Some((session, more)) = read_number(&head[length..]) else {
                place += 1;
                continue;
            };
            // The stream may overtake the request.
            if self.stage == Stage::Waiting || self.stage == Stage::Asked {
                place += 1;
                continue;
            }
            let (_, mut head) = self.unknown.swap_remove(place);
            let ours = self.request.is_some_and(|own| u64::from(VarInt::from(own)) == session);
            if !ours || std::mem::replace(&mut self.has_messages, true) {
                reject_stream(conn, stream, NOT_WANTED);
                continue;
            }
            let rest = head.split_off(length + more);
            return Ok(Some(Step::Messages(stream, rest)));
        }
        Ok(None)
    }

    fn read_request(&mut self, conn: &mut Connection) -> Result<Option<Step>, Fault> {
        let Some(stream) = self.request else { return Ok(None) };
        let mut bytes = BytesMut::new();
        let ended = read_stream(conn, stream, MAX_FRAME, &mut bytes);
        self.frames.feed(&bytes);
        while let Some((kind, content)) = self.frames.next(&[DATA, HEADERS])? {
            match (kind, self.stage) {
                (HEADERS, Stage::Waiting) => return self.asked(&content).map(Some),
                (DATA, Stage::Open) => self.capsules.feed(&content),
                // After an answer there may be trailers, or a close that crosses ours.
                (_, Stage::Open | Stage::Over) => {}
                _ => return Err(Fault("a frame out of order")),
            }
            if let Some((_, content)) = self.capsules.next(&[CLOSE_SESSION])? {
                self.stage = Stage::Over;
                return goodbye(&content).map(|reason| Some(Step::Closed(reason)));
            }
        }
        if ended && self.stage != Stage::Over {
            self.stage = Stage::Over;
            let reason = Reason::Peer { code: CloseCode::DONE, reason: String::new() };
            return Ok(Some(Step::Closed(reason)));
        }
        Ok(None)
    }

    fn asked(&mut self, content: &[u8]) -> Result<Step, Fault> {
        let fields = qpack::read(content)?;
        let asks = (fields.method.as_str(), fields.scheme.as_str(), fields.protocol.as_str());
        if asks != ("CONNECT", "https", "webtransport") {
            return Err(Fault("a request that is not for a session"));
        }
        self.stage = Stage::Asked;
        let (path, authority, origin) = (fields.path, fields.authority, fields.origin);
        Ok(Step::Asks { path, authority, origin })
    }

    /// Opens the session.
    pub(crate) fn accept(&mut self, conn: &mut Connection) -> Result<(), Fault> {
        let stream = self.request.ok_or(Fault("no session was requested"))?;
        let mut bytes = Vec::new();
        write_part(HEADERS, &qpack::answer(200), &mut bytes);
        write_stream(conn, stream, &bytes)?;
        write_number(u64::from(VarInt::from(stream)) / 4, &mut self.prefix);
        (self.stage, self.until) = (Stage::Open, None);
        Ok(())
    }

    /// Rejects the request with a status.
    pub(crate) fn refuse(&mut self, conn: &mut Connection, status: u16) {
        let Some(stream) = self.request else { return };
        let mut bytes = Vec::new();
        write_part(HEADERS, &qpack::answer(status), &mut bytes);
        self.stage = Stage::Over;
        // A peer that accepts no answer gets none.
        if write_stream(conn, stream, &bytes).is_ok() {
            let _ = conn.send_stream(stream).finish();
        }
    }

    /// Closes the session, if there is one; the connection ends later, at `until` or by the peer.
    pub(crate) fn close(&mut self, conn: &mut Connection, code: CloseCode, reason: &str) -> bool {
        let (Some(stream), Stage::Open) = (self.request, self.stage) else { return false };
        self.stage = Stage::Over;
        let mut end = reason.len().min(MAX_REASON);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        let content = [&code.0.to_be_bytes()[..], &reason.as_bytes()[..end]].concat();
        let (mut capsule, mut bytes) = (Vec::new(), Vec::new());
        write_part(CLOSE_SESSION, &content, &mut capsule);
        write_part(DATA, &capsule, &mut bytes);
        write_stream(conn, stream, &bytes).is_ok() && conn.send_stream(stream).finish().is_ok()
    }
}

impl OneWay {
    /// Handles bytes of a one-way stream; false if its type is ignored.
    fn take(&mut self, bytes: BytesMut, ended: bool) -> Result<bool, Fault> {
        if let OneWay::Unknown(head) = self {
            head.extend_from_slice(&bytes);
            let Some((kind, length)) = read_number(head) else { return Ok(!ended) };
            let rest = head.split_off(length);
            *self = match kind {
                CONTROL => OneWay::Control { parts: Parts::default(), settled: false },
                PUSH => return Err(Fault("a push from a client")),
                kind if TABLES.contains(&kind) => OneWay::Tables,
                // Other types mean nothing to us.
                _ => return Ok(false),
            };
            return self.take(rest, ended);
        }
        if let OneWay::Control { parts, settled } = self {
            parts.feed(&bytes);
            if !*settled && read_number(&parts.buffer).is_some_and(|(kind, _)| kind != SETTINGS) {
                return Err(Fault("a control stream that does not begin with settings"));
            }
            // Their contents do not matter: QUIC knows whether datagrams are supported.
            while parts.next(&[SETTINGS])?.is_some() {
                if std::mem::replace(settled, true) {
                    return Err(Fault("repeated settings"));
                }
            }
        }
        match ended {
            true => Err(Fault("a required stream ended")),
            false => Ok(true),
        }
    }
}

/// Parses any bytes as a stream in pieces, as headers and as a close: see [`fuzz`](crate::fuzz). The first byte is the
/// length of the pieces.
pub(crate) fn read_anything(data: &[u8]) {
    let Some((length, data)) = data.split_first() else { return };
    let mut stream = OneWay::Unknown(BytesMut::new());
    for piece in data.chunks(usize::from(*length).max(1)) {
        if stream.take(piece.into(), false) != Ok(true) {
            break;
        }
        if let OneWay::Control { parts, .. } = &stream {
            assert!(parts.buffer.len() <= MAX_FRAME + piece.len());
        }
    }
    let _ = (qpack::read(data), goodbye(data));
}

/// Reads at most `most` bytes of a stream; true if it has ended.
fn read_stream(conn: &mut Connection, stream: StreamId, most: usize, into: &mut BytesMut) -> bool {
    let mut recv = conn.recv_stream(stream);
    let Ok(mut chunks) = recv.read(true) else { return true };
    let mut left = most;
    let ended = loop {
        if left == 0 {
            break false;
        }
        match chunks.next(left) {
            Ok(Some(chunk)) => {
                left -= chunk.bytes.len();
                into.extend_from_slice(&chunk.bytes);
            }
            Ok(None) | Err(ReadError::Reset(_)) => break true,
            Err(ReadError::Blocked) => break false,
        }
    };
    // Every touched link is asked anyway whether it must announce the larger window.
    let _ = chunks.finalize();
    ended
}

/// Writes all of `bytes` to a stream, or fails: they are short.
fn write_stream(conn: &mut Connection, stream: StreamId, bytes: &[u8]) -> Result<(), Fault> {
    match conn.send_stream(stream).write(bytes) {
        Ok(written) if written == bytes.len() => Ok(()),
        _ => Err(Fault("a stream that accepts no answer")),
    }
}

fn reject_stream(conn: &mut Connection, stream: StreamId, code: VarInt) {
    // The stream may have ended by itself.
    let _ = conn.recv_stream(stream).stop(code);
    let _ = conn.send_stream(stream).reset(code);
}

fn goodbye(content: &[u8]) -> Result<Reason, Fault> {
    let (code, reason) = content.split_first_chunk().ok_or(Fault("a close without a code"))?;
    if reason.len() > MAX_REASON {
        return Err(Fault("a close with too long a reason"));
    }
    let reason = String::from_utf8_lossy(reason).into_owned();
    Ok(Reason::Peer { code: CloseCode(u32::from_be_bytes(*code)), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn oneway() -> OneWay {
        OneWay::Unknown(BytesMut::new())
    }

    #[test]
    fn a_control_stream_begins_with_settings_and_goes_on_with_anything() {
        let mut stream = vec![0];
        write_part(SETTINGS, &[1, 0, 8, 1], &mut stream);
        write_part(0xf0700, b"priorities", &mut stream);
        write_part(0x21, &[0; 100], &mut stream);
        for cut in [1, 3, 200] {
            let mut control = oneway();
            for piece in stream.chunks(cut) {
                assert_eq!(control.take(piece.into(), false), Ok(true), "cut into {cut}");
            }
            assert!(matches!(control, OneWay::Control { settled: true, .. }));
            assert!(control.take(BytesMut::new(), true).is_err(), "it must not end");
        }
    }

    #[test]
    fn streams_out_of_order_are_rejected_and_unknown_ones_ignored() {
        let refused = |bytes: &[u8]| oneway().take(bytes.into(), false).is_err();
        assert!(refused(&[0x00, 0x01, 0x00]), "headers instead of settings");
        assert!(refused(&[0x00, 0x04, 0x00, 0x04, 0x00]), "settings twice");
        assert!(refused(&[0x01]), "a push");
        assert_eq!(oneway().take((&[0x21][..]).into(), false), Ok(false));
        assert_eq!(oneway().take((&[0x02, 1, 2, 3][..]).into(), false), Ok(true));
        assert_eq!(oneway().take(BytesMut::new(), true), Ok(false), "nothing at all");
    }

    #[test]
    fn goodbyes_are_read() {
        let reason = goodbye(b"\0\0\x01\x02bye").expect("well-formed");
        assert_eq!(reason, Reason::Peer { code: CloseCode(258), reason: "bye".into() });
        assert!(goodbye(b"\0\0\x01").is_err());
        assert!(goodbye(&[0; 5 + MAX_REASON]).is_err());
    }

    #[test]
    fn random_one_way_streams_never_panic_nor_pile_up() {
        let mut random = fastrand::Rng::with_seed(31);
        for _ in 0..5_000 {
            let mut stream = oneway();
            for _ in 0..20 {
                let mut bytes: Vec<u8> = (0..random.usize(0..64)).map(|_| random.u8(..)).collect();
                if random.bool() {
                    bytes.splice(0..0, [0, 4, 1, 0]);
                }
                if stream.take(bytes[..].into(), random.u8(..) == 0) != Ok(true) {
                    break;
                }
                if let OneWay::Control { parts, .. } = &stream {
                    assert!(parts.buffer.len() <= MAX_FRAME + 100);
                }
            }
        }
    }
}
