//! What a packet of the direct path looks like before it is sealed.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0 | `001 f pp kk`: feedback follows, the key phase's low bits, the kind |
//! | 1–8 | id of the path |
//! | 9–10 | low bits of the sequence number |
//! | 11– | sealed: feedback (5 bytes) if `f`, then by kind; 16 bytes of tag |

/// Bytes before what is sealed; all of them are authenticated.
pub(crate) const HEADER: usize = 11;
/// Bytes after it.
pub(crate) const TAG: usize = 16;
/// Bytes of feedback.
pub(crate) const FEEDBACK: usize = 5;
/// Bytes of a challenge and of its echo.
pub(crate) const CHALLENGE: usize = 8;

const MARK: u8 = 0b0010_0000;
const MARK_MASK: u8 = 0b1110_0000;
const HAS_FEEDBACK: u8 = 0b0001_0000;

/// Names a path to its receiver and nothing to others.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct PathId(pub(crate) [u8; 8]);

impl PathId {
    /// That of a packet, if it is of the direct path. QUIC's have the fixed bit, 0x40, or the long header's, 0x80.
    pub(crate) fn of(packet: &[u8]) -> Option<PathId> {
        is_direct(packet).then(|| packet.get(1..9)?.try_into().ok().map(PathId))?
    }
}

/// Whether a packet is for the direct path rather than for QUIC.
pub(crate) fn is_direct(packet: &[u8]) -> bool {
    packet.first().is_some_and(|first| first & MARK_MASK == MARK)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A datagram of the layer above.
    Datagram = 0,
    /// Eight bytes to be echoed: does this path carry, and is its other end where it says?
    Challenge = 1,
    /// The echo.
    Response = 2,
    /// Nothing but feedback.
    Feedback = 3,
}

/// What stands before the sealed part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) has_feedback: bool,
    pub(crate) id: PathId,
}

impl Header {
    pub(crate) fn encode(self, phase: u32, sequence: u64) -> [u8; HEADER] {
        let feedback = if self.has_feedback { HAS_FEEDBACK } else { 0 };
        let mut bytes = [0; HEADER];
        bytes[0] = MARK | feedback | (phase as u8 & 3) << 2 | self.kind as u8;
        bytes[1..9].copy_from_slice(&self.id.0);
        bytes[9..].copy_from_slice(&(sequence as u16).to_le_bytes());
        bytes
    }

    /// Kind and whether there is feedback, of a packet that was opened.
    pub(crate) fn first(byte: u8) -> (Kind, bool) {
        let kind = match byte & 3 {
            0 => Kind::Datagram,
            1 => Kind::Challenge,
            2 => Kind::Response,
            _ => Kind::Feedback,
        };
        (kind, byte & HAS_FEEDBACK != 0)
    }
}

/// What one side tells the other about what arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Feedback {
    /// Low bits of the newest sequence number that arrived.
    pub(crate) newest: u16,
    /// Low bits of the number of packets that arrived.
    pub(crate) count: u16,
    /// Milliseconds since the newest arrived, at most 255.
    pub(crate) age: u8,
}

impl Feedback {
    pub(crate) fn encode(self) -> [u8; FEEDBACK] {
        let ([a, b], [c, d]) = (self.newest.to_le_bytes(), self.count.to_le_bytes());
        [a, b, c, d, self.age]
    }

    pub(crate) fn decode([a, b, c, d, age]: [u8; FEEDBACK]) -> Feedback {
        let (newest, count) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        Feedback { newest, count, age }
    }
}
