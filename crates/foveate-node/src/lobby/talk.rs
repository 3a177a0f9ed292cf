//! The messages to and from a lobby, as bytes: `docs/LOBBY.md` describes them.

use std::net::SocketAddr;

use foveate_wire::Micros;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::peer::identity::{Key, Sealable, Sealed};

/// The longest request or reply in bytes: one UDP packet on any path.
pub const MAX_TALK: usize = 1_200;
/// The fewest bytes of a request for a cookie, so that no reply is longer than its request.
pub const MIN_HELLO: usize = 48;
/// The longest name of a game, in bytes.
pub const MAX_GAME: usize = 32;
/// The most bytes about a game that the lobby passes on unread.
pub const MAX_ABOUT: usize = 64;
/// The most addresses of one peer.
pub const MAX_CONTACTS: usize = 6;

/// The version of this protocol.
pub const VERSION: u8 = 1;

/// The first bytes of every request and every reply.
const HEAD: [u8; 5] = [b'F', b'v', b'L', b'b', VERSION];

/// Proves that its sender receives what is sent to its address.
pub type Cookie = [u8; 16];

/// A request, with a number that its reply repeats.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// Random, so that only a host that sees the request can answer it.
    pub nonce: u64,
    pub request: Request,
}

/// The requests to a lobby.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Requests a cookie.
    Hello,
    /// Lists a peer, or removes it: a [`Saying`].
    Say(Sealed),
    /// Requests a list of peers.
    List {
        cookie: Cookie,
        /// Only peers of this game; if empty, of all.
        game: String,
        /// Only peers after this one.
        after: Option<Key>,
    },
}

/// The signed statement of a peer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Saying {
    /// The peer's key.
    pub key: Key,
    /// The cookie, so that a copy is worthless from another address or later.
    pub cookie: Cookie,
    /// Higher in each statement of a peer.
    pub stamp: u64,
    /// The announcement; `None`: the peer has left.
    pub here: Option<Announcement>,
}

/// A peer of a game through which others can join.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Announcement {
    /// The game's name.
    pub game: String,
    /// Players that this peer knows of, itself included.
    pub players: u16,
    /// The most players of the game.
    pub room: u16,
    /// What a joining player must know, such as the seed of the world. Only the game reads it.
    pub about: Vec<u8>,
    /// Where the peer can be reached. An unspecified address stands for the one that the lobby sees.
    pub contacts: Vec<SocketAddr>,
}

/// A peer in a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    pub key: Key,
    /// The peer's announcement.
    pub said: Announcement,
    /// The time since that announcement, in milliseconds.
    pub silent: u32,
    /// How long the peer has been listed, in seconds.
    pub present: u32,
}

impl Entry {
    /// The time since the last announcement.
    pub fn silence(&self) -> Micros {
        Micros::from_millis(u64::from(self.silent))
    }
}

/// A reply, with the number of its request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Answered {
    pub nonce: u64,
    pub reply: Reply,
}

/// The replies of a lobby.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// A cookie.
    Cookie(Cookie),
    /// The statement was accepted. Repeat it within this time, or be removed.
    Heard {
        /// In milliseconds.
        lasts: u32,
    },
    /// Peers, and whether there are more after the last one.
    Listed {
        /// By ascending key.
        entries: Vec<Entry>,
        /// There are more: ask again, with the last entry's key.
        more: bool,
    },
    /// The request was refused.
    Refused(No),
}

/// Why a lobby refuses. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum No {
    /// The cookie is missing, old, or for another address: request a new one.
    Cookie,
    /// Too many requests from this address: send fewer.
    Rate,
    /// The lobby is busy, or its list is full: try again later.
    Full,
    /// The signature does not match the key.
    Forged,
    /// A later statement of this peer is known already.
    Stale,
    /// The game's name is empty, too long, or has characters that cannot be shown.
    Name,
    /// Too many contacts, an unusable one, or one that the peer does not send from.
    Contacts,
    /// The bytes about the game are too long.
    About,
}

impl std::fmt::Display for No {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            No::Cookie => "the cookie is missing, expired, or for another address",
            No::Rate => "too many requests from this address",
            No::Full => "the lobby is full or busy; try again later",
            No::Forged => "the signature does not match the key",
            No::Stale => "a later statement of this peer is known already",
            No::Name => "the name of a game must have 1 to 32 bytes, all printable",
            No::Contacts => "a peer must have 1 to 6 addresses, all its own",
            No::About => "the description of a game must have at most 64 bytes",
        })
    }
}

/// A value as bytes, after the protocol's head.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    // Serializing these types into memory cannot fail.
    let body = postcard::to_stdvec(value).unwrap_or_default();
    [&HEAD[..], &body].concat()
}

/// Reads a value from bytes, and ignores what follows as padding. `None` for anything else.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    if bytes.len() > MAX_TALK {
        return None;
    }
    let body = bytes.strip_prefix(&HEAD)?;
    postcard::take_from_bytes(body).ok().map(|(value, _)| value)
}

impl Sealable for Saying {
    const DOMAIN: &'static [u8] = b"foveate lobby 1";
    fn key(&self) -> Key {
        self.key
    }
}
