//! What is said to a lobby and by it, as bytes: `docs/LOBBY.md` describes them.

use std::net::SocketAddr;

use foveate_wire::Micros;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::peer::identity::{Key, Sealable, Sealed};

/// The longest request or reply: one UDP packet on any path.
pub const MAX_TALK: usize = 1_200;
/// A request for a cookie has at least this many bytes, so that no reply is longer than what it answers.
pub const MIN_HELLO: usize = 48;
/// The longest name of a game, in bytes.
pub const MAX_GAME: usize = 32;
/// The most bytes about a game that the lobby passes on without looking.
pub const MAX_ABOUT: usize = 64;
/// The most addresses of one peer.
pub const MAX_CONTACTS: usize = 6;

/// The version of this protocol.
pub const VERSION: u8 = 1;

/// The first bytes of every request and every reply.
const HEAD: [u8; 5] = [b'F', b'v', b'L', b'b', VERSION];

/// Proof that its holder receives what is sent to its address.
pub type Cookie = [u8; 16];

/// A request with a number that its reply repeats.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Asked {
    /// The number: random, so that only a host that sees the request can answer it.
    pub nonce: u64,
    /// The request.
    pub request: Request,
}

/// What a lobby may be asked.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// For a cookie.
    Hello,
    /// To list a peer, or not to any more: a [`Saying`].
    Say(Sealed),
    /// For peers.
    List {
        /// The cookie.
        cookie: Cookie,
        /// Of this game only; empty: of all.
        game: String,
        /// Those after this one.
        after: Option<Key>,
    },
}

/// What a peer signs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Saying {
    /// Whose word it is.
    pub key: Key,
    /// The cookie, so that what is overheard is worth nothing elsewhere or later.
    pub cookie: Cookie,
    /// Rises from one saying of this peer to the next.
    pub stamp: u64,
    /// The announcement; none: the peer has left.
    pub here: Option<Announcement>,
}

/// A contact node of a game.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Announcement {
    /// The game's name.
    pub game: String,
    /// Players that this peer knows of, itself included.
    pub players: u16,
    /// Players that the game has room for.
    pub room: u16,
    /// Whatever a joiner must know, such as the seed of the world. Only the game reads it.
    pub about: Vec<u8>,
    /// Where the peer can be reached. An unspecified address stands for the one that the lobby sees.
    pub contacts: Vec<SocketAddr>,
}

/// A peer in a list.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// The peer's key.
    pub key: Key,
    /// What it said.
    pub said: Announcement,
    /// How long ago it said so.
    pub silent: u32,
    /// For how long it has been there, in seconds.
    pub present: u32,
}

impl Entry {
    /// How long ago the peer gave a sign of life.
    pub fn silence(&self) -> Micros {
        Micros::from_millis(u64::from(self.silent))
    }
}

/// A reply with the number of its request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Answered {
    /// The number.
    pub nonce: u64,
    /// The reply.
    pub reply: Reply,
}

/// What a lobby replies.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// Here is a cookie.
    Cookie(Cookie),
    /// Understood. Say it again within so many milliseconds, or be forgotten.
    Heard {
        /// Milliseconds.
        lasts: u32,
    },
    /// Peers, and whether there are more after the last.
    Listed {
        /// By rising key.
        entries: Vec<Entry>,
        /// Ask again, after the last one's key.
        more: bool,
    },
    /// No.
    Refused(No),
}

/// Why a lobby refuses. Nothing was changed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum No {
    /// The cookie is missing, old, or another address's: ask for a new one.
    Cookie,
    /// Too much from this address: ask less often.
    Rate,
    /// The lobby is busy, or its list is full: ask later.
    Full,
    /// The signature is not of this key.
    Forged,
    /// A later word of this peer is known already.
    Stale,
    /// The game's name is empty, too long, or has characters that cannot be shown.
    Name,
    /// Too many addresses, an unusable one, or one that the peer does not speak from.
    Contacts,
    /// What is said about the game is too long.
    About,
}

impl std::fmt::Display for No {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            No::Cookie => "the cookie is missing, old, or another address's",
            No::Rate => "too many requests from this address",
            No::Full => "the lobby is full or busy; ask again later",
            No::Forged => "the signature is not this key's",
            No::Stale => "a later word of this peer is known already",
            No::Name => "a game's name has 1 to 32 bytes that can be shown",
            No::Contacts => "a peer has 1 to 6 addresses, which must be its own",
            No::About => "what is said about a game has at most 64 bytes",
        })
    }
}

/// A value as bytes, with the protocol's head.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    // Serializing these types into memory cannot fail.
    let body = postcard::to_stdvec(value).unwrap_or_default();
    [&HEAD[..], &body].concat()
}

/// The value of these bytes; what follows it is padding. None for anything else.
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
