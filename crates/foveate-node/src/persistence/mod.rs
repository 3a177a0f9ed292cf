//! What a server stores: player numbers, kept objects, used tokens.
//!
//! Without IO: a [`PlayerRegistry`] answers a server's requests and decides what is saved; a
//! [`WriteQueue`] decides what one transaction of a storage contains and how a failed transaction
//! is handled. A host runs them on a file; the laboratory runs them on a disk that crashes, fills
//! up and tears writes.
//!
//! **One question, one transaction.** A joining player brings a token. Player and token are in one
//! [`JoinQuestion`]: the transaction that looks the player up also marks the token as used, and
//! writes every change handed in before. So a player is only accepted once the token is on the
//! disk, and a failed transaction uses no token.
//!
//! ```text
//! Asked ─▶ PlayerRegistry ─ JoinQuestion ─▶ WriteQueue ─ Batch ─▶ storage
//! Admit ◀─ PlayerRegistry ◀─ JoinAnswer ─── WriteQueue ◀─ written, failed
//! ```

mod memory;
mod queue;
mod registry;
mod tokens;

pub use memory::{MAX_NAMES, MemoryStorage};
pub use queue::{
    Batch, Changed, Changes, MAX_KNOWN, MAX_QUESTIONS, MAX_WAITING, SavedStates, WriteQueue,
    WriterReport,
};
pub use registry::PlayerRegistry;
pub use tokens::{MAX_REMEMBERED, UsedTokens};

use crate::game::PlayerId;
use crate::session::Refusal;
use foveate_wire::ObjectId;
use std::time::Duration;

/// Seconds since the first of January 1970, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct UnixTime(pub u64);

impl UnixTime {
    /// This time plus a span; the latest possible time if that is out of range.
    pub fn plus(self, span: Duration) -> UnixTime {
        UnixTime(self.0.saturating_add(span.as_secs()))
    }
}

/// Identifies a connect token.
pub type TokenId = [u8; 16];

/// Objects by id, with their lanes.
pub type KeptObjects = Vec<(ObjectId, Vec<i32>)>;

/// How many numbers for new ids are reserved at a time.
pub const RESERVED: u64 = 1 << 20;

/// An object as it was saved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Saved {
    pub id: ObjectId,
    /// The state, in the lanes of the schema with which the storage was opened.
    pub lanes: Vec<i32>,
}

/// A player's number and objects.
pub type StoredPlayer = (PlayerId, Vec<Saved>);

/// A change to store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StorageChange<'a> {
    /// The object's current state; perhaps the same as before.
    Saved(ObjectId, &'a [i32]),
    /// The object was removed.
    Removed(ObjectId),
}

/// How many changes of a batch were accepted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Taken {
    /// Will be written.
    pub taken: usize,
    /// Were not written, because the same state is saved already.
    pub unchanged: usize,
    /// Found no room, because the storage has been unavailable for long; hand them in again.
    pub refused: usize,
    /// Have a kind or lanes that do not fit the storage's schema; never written.
    pub unfit: usize,
}

/// Looks up a player; a new name gets a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinQuestion {
    /// Returned with the answer.
    pub ticket: u64,
    /// The player's name.
    pub name: String,
    /// The token that the answer uses up, with its expiry.
    pub token: Option<(TokenId, UnixTime)>,
    /// The host's time.
    pub now: UnixTime,
}

/// The answer to a [`JoinQuestion`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinAnswer<E> {
    /// The question. If `player` is an error, its token is not used up.
    pub question: JoinQuestion,
    /// The player's number and objects.
    pub player: Result<StoredPlayer, E>,
}

/// What a [`PlayerRegistry`] needs of a storage. Calls do not wait: answers come by `poll`.
pub trait PlayerStorage {
    /// Takes the states of objects: those that changed, perhaps others too. One transaction writes
    /// all changes of a call.
    fn save<'a>(&mut self, batch: impl IntoIterator<Item = StorageChange<'a>>) -> Taken;

    /// The object left the world with its player, but stays stored.
    fn forget(&mut self, id: ObjectId);

    /// Takes a question; false if too many are open.
    fn ask(&mut self, question: JoinQuestion) -> bool;

    /// The next answer: the question, and the player or why the storage cannot look it up.
    fn poll(&mut self) -> Option<(JoinQuestion, Result<StoredPlayer, Refusal>)>;

    /// Asks to reserve the numbers for new ids below `end`, and returns the end of those reserved
    /// so far.
    fn reserve_ids(&mut self, end: u64) -> u64;
}
