//! The messages between client and server besides states: joining, inputs, actions, events.
//!
//! They use two channels of the transport. **Messages** are reliable and ordered: joining,
//! refusals, views, actions, leaving. **Datagrams** may be lost. A client sends one per tick, with
//! an acknowledgement and its last inputs. A server sends one per tick, with the state packet, the
//! inputs it has used, an echo for the clock, and events. `docs/WIRE.md` describes the bytes.

use crate::bytes::Bytes;
use crate::game::PlayerId;
use foveate_wire::ObjectId;
use foveate_wire::packet::{Ack, MAX_PACKET, VERSION};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest message, in bytes.
pub const MAX_MESSAGE: usize = 16 * 1024;
/// The longest name of a player, in bytes.
pub const MAX_NAME: usize = 32;
/// Inputs in a datagram: the newest, and earlier ones in case their datagrams were lost. Losses
/// come in bursts.
pub const REPEATED: usize = 6;
/// Bytes that a frame may add to a state packet.
pub const SERVER_DATAGRAM_ROOM: usize = 32;

const INPUT: u8 = VERSION << 4 | 3;
const FRAME: u8 = VERSION << 4 | 4;

/// From this version on, a server sends reliable events as messages. Packets and frames are those
/// of the version before, and begin with its number.
pub const RELIABLE_EVENTS: u8 = 2;

/// From this version on, a session can move from one server to another.
pub const MOVING_SESSIONS: u8 = 3;

/// The versions of the wire that this end speaks, oldest first.
pub const VERSIONS: [u8; 3] = [VERSION, RELIABLE_EVENTS, MOVING_SESSIONS];

/// The most addresses of one server.
pub const MAX_ADDRESSES: usize = 4;
/// The most bytes of each address.
pub const MAX_ADDRESS: usize = 128;

/// Whether a player may have this name. Names are shown to other players unchanged, so they must
/// not contain invisible characters, characters that change the text direction, or white space that
/// makes them look like another name.
pub fn is_player_name(name: &str) -> bool {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(
                c,
                '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
                    | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
                    | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{ffff}' | '\u{e0000}'..='\u{e0fff}'
            )
    };
    let trimmed = name.trim() == name;
    !name.is_empty() && name.len() <= MAX_NAME && trimmed && !name.chars().any(is_hidden)
}

/// Why a session was refused or ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Refusal {
    /// The server speaks none of the client's versions.
    Version,
    /// The schemas differ.
    Schema,
    /// The connect token is missing, forged or not for this server.
    Token,
    /// The connect token has expired.
    TokenExpired,
    /// The connect token was used before.
    TokenReplayed,
    /// No name, or one that is too long or has control characters.
    Name,
    /// Another session has this name.
    NameTaken,
    /// The server is full.
    Full,
    /// A message that cannot be read, or is too long.
    Malformed,
    /// Nothing arrived, or nothing was acknowledged, for too long.
    Timeout,
    /// The server is shutting down.
    Closing,
    /// A peer cheated; the verdict says how.
    Dishonest,
    /// The server cannot read or write its storage.
    Storage,
    /// The connect token would live too long: its issuer's clock is ahead of the server's.
    TokenClock,
    /// The link was open for too long without a hello.
    HandshakeTimeout,
}

impl Refusal {
    /// All reasons, in the order of their codes.
    pub const ALL: [Refusal; 15] = [
        Refusal::Version,
        Refusal::Schema,
        Refusal::Token,
        Refusal::TokenExpired,
        Refusal::TokenReplayed,
        Refusal::Name,
        Refusal::NameTaken,
        Refusal::Full,
        Refusal::Malformed,
        Refusal::Timeout,
        Refusal::Closing,
        Refusal::Dishonest,
        Refusal::Storage,
        Refusal::TokenClock,
        Refusal::HandshakeTimeout,
    ];
}

/// A secret that lets a client resume its session over a new link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResumeKey(pub [u8; 16]);

/// Where a server can be reached.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
pub struct ServerContact {
    /// Best first; at most [`MAX_ADDRESSES`], of [`MAX_ADDRESS`] bytes each. `HOST:PORT` for QUIC
    /// and WebTransport, `ws://HOST:PORT` or `wss://HOST:PORT` for WebSocket.
    pub addresses: Vec<String>,
    /// The SHA-256 of the server's certificate; empty for one that the system trusts.
    pub certificate: Vec<u8>,
}

impl ServerContact {
    /// The addresses for native clients: `HOST:PORT`.
    pub fn quic_addresses(&self) -> impl Iterator<Item = &str> {
        self.addresses.iter().map(String::as_str).filter(|it| !it.contains("://"))
    }

    /// Whether the contact keeps the limits.
    pub fn is_valid(&self) -> bool {
        let short = self.addresses.iter().all(|it| !it.is_empty() && it.len() <= MAX_ADDRESS);
        let hash = matches!(self.certificate.len(), 0 | 32);
        short && hash && (1..=MAX_ADDRESSES).contains(&self.addresses.len())
    }
}

/// Lets a client enter, once, at a server that another server named.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct Ticket(pub [u8; 16]);

/// A client's messages on the reliable stream.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ClientMessage<A> {
    /// Asks to join.
    Hello {
        /// Versions of the wire that the client speaks.
        versions: Vec<u8>,
        /// The hash of its schema.
        schema: u64,
        /// The player's name.
        name: String,
        /// The connect token, as the server's operator issued it.
        token: Vec<u8>,
        /// The key of the session to resume.
        resume: Option<ResumeKey>,
    },
    /// Selects another view.
    View(u8),
    /// Sends an action to an object.
    Ask {
        /// The object.
        object: u64,
        action: A,
        /// The tick that the player saw.
        seen: u32,
    },
    /// Leaves for good.
    Leave,
    /// Looks also from this object, if the game allows it; `None`: only from the client's own.
    Watch(Option<u64>),
    /// Asks for a player's name.
    Who(u32),
    /// Enters, instead of a hello, at a server that another server named by
    /// [`ServerMessage::Redirect`] or [`ServerMessage::Next`].
    Enter {
        /// Versions of the wire that the client speaks.
        versions: Vec<u8>,
        /// The hash of its schema.
        schema: u64,
        /// The player's name.
        name: String,
        /// The ticket that came with the server's contact.
        ticket: Ticket,
    },
}

/// A server's messages on the reliable stream.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum ServerMessage {
    /// The server accepts the client.
    Welcome {
        /// The version of the wire from now on.
        version: u8,
        /// The player's number.
        player: u32,
        /// The player's avatar.
        avatar: u64,
        /// The current tick.
        tick: u32,
        /// The length of a round in microseconds.
        round: u64,
        /// Resumes the session over a new link.
        resume: ResumeKey,
        /// Whether the session continues; if not, all state that the client has is void.
        resumed: bool,
    },
    /// The server rejects the client, or ends the session.
    Refused {
        why: Refusal,
        /// An explanation, with the values of both sides.
        text: String,
        /// For [`Refusal::Schema`]: the server's schema. Otherwise empty.
        schema: String,
    },
    /// Answers [`ClientMessage::Who`].
    Is {
        /// The player.
        player: u32,
        /// The name; empty if the player is gone.
        name: String,
    },
    /// Reliable events, one after the other in postcard; only to clients of version
    /// [`RELIABLE_EVENTS`] or later.
    Events(Vec<u8>),
    /// Another server is responsible: connect there, and enter with the ticket. This message and
    /// all below are only sent to clients of version [`MOVING_SESSIONS`] or later.
    Redirect {
        /// The server.
        contact: ServerContact,
        /// For [`ClientMessage::Enter`].
        ticket: Ticket,
    },
    /// The session is about to move to this server: connect and enter there, and keep this link.
    Next {
        /// The server.
        contact: ServerContact,
        /// For [`ClientMessage::Enter`].
        ticket: Ticket,
    },
    /// The server expects the client, or may do so soon: keep the link.
    Wait,
    /// The server at this link hosts the session in this session epoch. The highest epoch wins.
    Hosted {
        /// The session epoch.
        epoch: u64,
    },
    /// The server to try if this one is silent; `None`: there is none now.
    Standby(Option<ServerContact>),
}

/// A player that has joined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JoinedPlayer {
    /// The player.
    pub player: PlayerId,
    /// The player's avatar.
    pub avatar: ObjectId,
}

/// Writes a message.
pub fn write_message<T: Serialize>(message: &T) -> Vec<u8> {
    // Fails only for types that cannot be serialized, and the types above can.
    postcard::to_allocvec(message).unwrap_or_default()
}

/// Reads a message; `None` unless it uses all of the bytes.
pub fn read_message<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    if bytes.len() > MAX_MESSAGE {
        return None;
    }
    postcard::take_from_bytes(bytes).ok().filter(|(_, rest)| rest.is_empty()).map(|(it, _)| it)
}

/// A datagram of a client.
#[derive(Clone, PartialEq, Debug)]
pub struct ClientDatagram<I> {
    /// The packets that arrived.
    pub ack: Option<Ack>,
    /// The client's clock in milliseconds; the server echoes it.
    pub clock: u16,
    /// The number of the first input.
    pub first: u16,
    /// The inputs, oldest first.
    pub inputs: Vec<I>,
}

impl<I: Serialize + DeserializeOwned> ClientDatagram<I> {
    /// Appends the datagram to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(INPUT);
        out.push((self.inputs.len().min(REPEATED) as u8) << 1 | u8::from(self.ack.is_some()));
        out.extend(self.clock.to_le_bytes());
        if let Some(ack) = self.ack {
            out.extend(ack.newest.to_le_bytes());
            out.extend(ack.before.to_le_bytes());
        }
        out.extend(self.first.to_le_bytes());
        for input in self.inputs.iter().take(REPEATED) {
            if let Ok(bytes) = postcard::to_allocvec(input) {
                out.extend(bytes);
            }
        }
    }

    /// Reads a datagram into `self`, whose memory is reused. If false, the contents of `self` are
    /// meaningless.
    pub fn read(&mut self, bytes: &[u8]) -> bool {
        let mut rest = Bytes(bytes);
        let (Some(INPUT), Some(flags), Some(clock)) = (rest.u8(), rest.u8(), rest.u16()) else {
            return false;
        };
        self.ack = None;
        if flags & 1 == 1 {
            let (Some(newest), Some(before)) = (rest.u16(), rest.u32()) else { return false };
            self.ack = Some(Ack { newest, before });
        }
        let Some(first) = rest.u16() else { return false };
        (self.clock, self.first) = (clock, first);
        self.inputs.clear();
        let count = usize::from(flags >> 1);
        if count > REPEATED {
            return false;
        }
        for _ in 0..count {
            let Ok((input, left)) = postcard::take_from_bytes(rest.0) else { return false };
            self.inputs.push(input);
            rest = Bytes(left);
        }
        rest.0.is_empty()
    }
}

impl<I> Default for ClientDatagram<I> {
    fn default() -> ClientDatagram<I> {
        ClientDatagram { ack: None, clock: 0, first: 0, inputs: Vec::new() }
    }
}

/// A datagram of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServerDatagram<'a> {
    /// The number of the newest input that the state includes, and how many inputs wait.
    pub input: Option<(u16, u8)>,
    /// The client's newest clock, and its age in milliseconds.
    pub echo: Option<(u16, u8)>,
    /// The tick; meaningful only without a state packet, which has its own.
    pub tick: u16,
    /// Events, one after the other in postcard.
    pub events: &'a [u8],
    /// The state packet; empty if there is none.
    pub state: &'a [u8],
}

impl<'a> ServerDatagram<'a> {
    /// Appends the datagram to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(FRAME);
        let flags = [
            self.input.is_some(),
            self.echo.is_some(),
            !self.events.is_empty(),
            !self.state.is_empty(),
        ];
        out.push(flags.iter().enumerate().map(|(bit, set)| u8::from(*set) << bit).sum());
        if let Some((seq, waiting)) = self.input {
            out.extend(seq.to_le_bytes());
            out.push(waiting);
        }
        if let Some((clock, held)) = self.echo {
            out.extend(clock.to_le_bytes());
            out.push(held);
        }
        if !self.events.is_empty() {
            out.extend((self.events.len() as u16).to_le_bytes());
            out.extend(self.events);
        }
        if self.state.is_empty() {
            out.extend(self.tick.to_le_bytes());
        }
        out.extend(self.state);
    }

    /// Reads a datagram.
    pub fn read(bytes: &'a [u8]) -> Option<ServerDatagram<'a>> {
        let mut rest = Bytes(bytes);
        if bytes.len() > MAX_PACKET + SERVER_DATAGRAM_ROOM || rest.u8() != Some(FRAME) {
            return None;
        }
        let flags = rest.u8()?;
        let has = |bit: u8| flags >> bit & 1 == 1;
        let pair = |rest: &mut Bytes<'a>| Some((rest.u16()?, rest.u8()?));
        let input = if has(0) { Some(pair(&mut rest)?) } else { None };
        let echo = if has(1) { Some(pair(&mut rest)?) } else { None };
        let events = match has(2) {
            true => {
                let length = usize::from(rest.u16()?);
                rest.take(length)?
            }
            false => &[],
        };
        let (tick, state) = match has(3) {
            true => (0, rest.0),
            false => (rest.u16()?, &[][..]),
        };
        let whole = has(3) != state.is_empty() && (has(3) || rest.0.is_empty());
        (whole && flags < 16).then_some(ServerDatagram { input, echo, tick, events, state })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upward_datagrams_return_and_any_bytes_are_read_or_refused() {
        let ack = Some(Ack { newest: 7, before: 0b1011 });
        for (ack, inputs) in [(ack, vec![1i32, -2, 300]), (None, vec![])] {
            let sent = ClientDatagram { ack, clock: 999, first: 65_535, inputs };
            let (mut bytes, mut read) = (Vec::new(), ClientDatagram::<i32>::default());
            sent.write(&mut bytes);
            assert!(read.read(&bytes));
            assert_eq!(read, sent);
            (0..bytes.len()).for_each(|cut| assert!(!read.read(&bytes[..cut]), "cut at {cut}"));
            bytes.push(0);
            assert!(!read.read(&bytes), "nothing may follow");
        }
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = (0..rng.usize(..40)).map(|_| rng.u8(..)).collect();
            if let Some(first) = bytes.first_mut() {
                *first = if rng.bool() { INPUT } else { FRAME };
            }
            ClientDatagram::<i32>::default().read(&bytes);
            ServerDatagram::read(&bytes);
            read_message::<ClientMessage<i32>>(&bytes);
            read_message::<ServerMessage>(&bytes);
        }
    }

    #[test]
    fn names_that_deceive_are_refused() {
        for name in ["ada", "Zoë", "李 雷", "a-b_c.d", "O’Neil", "🦊 fox"] {
            assert!(is_player_name(name), "{name:?}");
        }
        let long = "n".repeat(MAX_NAME + 1);
        let deceitful = [
            "",
            " ada",
            "ada ",
            "a\nda",
            "a\u{7f}da",
            "ad\u{202e}a",
            "\u{2066}ada",
            "a\u{200b}da",
            "a\u{200d}da",
            "\u{feff}ada",
            "a\u{ad}da",
            "\u{3164}",
            "ada\u{e0041}",
            "\u{a0}ada",
            "a\u{fe0f}da",
            &long,
        ];
        for name in deceitful {
            assert!(!is_player_name(name), "{name:?}");
        }
    }

    #[test]
    fn frames_return_in_every_shape() {
        for flags in 0..16u8 {
            let set = |bit: u8| flags >> bit & 1 == 1;
            let frame = ServerDatagram {
                input: set(0).then_some((1, 2)),
                echo: set(1).then_some((3, 4)),
                events: if set(2) { &[5, 6, 7] } else { &[] },
                state: if set(3) { &[8, 9] } else { &[] },
                tick: if set(3) { 0 } else { 10 },
            };
            let mut bytes = Vec::new();
            frame.write(&mut bytes);
            assert_eq!(ServerDatagram::read(&bytes), Some(frame), "flags {flags:04b}");
        }
    }

    #[test]
    fn messages_of_moving_sessions_are_the_bytes_that_the_second_implementation_reads() {
        let hex =
            |bytes: Vec<u8>| -> String { bytes.iter().map(|it| format!("{it:02x}")).collect() };
        let ticket = Ticket([8; 16]);
        let enter = ClientMessage::<u8>::Enter {
            versions: VERSIONS.to_vec(),
            schema: 300,
            name: "ada".into(),
            ticket,
        };
        let (hash, key) = ("07".repeat(32), "08".repeat(16));
        assert_eq!(hex(write_message(&enter)), format!("0603010203ac0203616461{key}"));
        // The same bytes stand in `web/client/test/session.test.ts`.
        let contact = ServerContact {
            addresses: vec!["a:443".into(), "ws://b:80".into()],
            certificate: vec![7; 32],
        };
        assert_eq!(contact.quic_addresses().collect::<Vec<_>>(), ["a:443"]);
        let there = "0205613a3434330977733a2f2f623a3830";
        let plain = ServerContact { certificate: vec![], ..contact.clone() };
        for (message, bytes) in [
            (
                ServerMessage::Redirect { contact: contact.clone(), ticket },
                format!("04{there}20{hash}{key}"),
            ),
            (ServerMessage::Next { contact, ticket }, format!("05{there}20{hash}{key}")),
            (ServerMessage::Wait, "06".into()),
            (ServerMessage::Hosted { epoch: 300 }, "07ac02".into()),
            (ServerMessage::Standby(Some(plain)), format!("0801{there}00")),
            (ServerMessage::Standby(None), "0800".into()),
        ] {
            assert_eq!(hex(write_message(&message)), bytes, "{message:?}");
        }
    }

    #[test]
    fn messages_with_something_after_them_are_refused() {
        let hello = ClientMessage::<u8>::Hello {
            versions: vec![1],
            schema: 2,
            name: "ada".into(),
            token: vec![],
            resume: Some(ResumeKey([7; 16])),
        };
        let mut bytes = write_message(&hello);
        assert_eq!(read_message(&bytes), Some(hello));
        bytes.push(0);
        assert_eq!(read_message::<ClientMessage<u8>>(&bytes), None);
    }
}
