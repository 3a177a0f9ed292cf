//! What a server keeps: player numbers, kept objects, used tokens.
//!
//! Without IO: a [`PlayerRegistry`] answers what a server asks its host and decides what is saved, a [`WriteQueue`]
//! decides what one transaction of a storage contains and what becomes of a transaction that fails. A host runs
//! them on a file; the laboratory runs the same two on a disk that crashes, fills up and tears writes.
//!
//! **One question, one transaction.** A joining player brings a token. Both travel as one [`JoinQuestion`]: the token
//! is marked as used in the transaction that looks the player up, together with every change handed in before. So
//! a player is only let in after the token is on the disk, and a transaction that fails uses nothing up.
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
    /// So much later.
    pub fn plus(self, span: Duration) -> UnixTime {
        UnixTime(self.0.saturating_add(span.as_secs()))
    }
}

/// Tells one connect token from another.
pub type TokenId = [u8; 16];

/// Objects by name, with their lanes.
pub type KeptObjects = Vec<(ObjectId, Vec<i32>)>;

/// Numbers for new ids that are reserved at a time.
pub const RESERVED: u64 = 1 << 20;

/// An object as it was saved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Saved {
    /// Its name.
    pub id: ObjectId,
    /// Its state, in the lanes of the schema that the storage was opened with.
    pub lanes: Vec<i32>,
}

/// A player's number and objects.
pub type StoredPlayer = (PlayerId, Vec<Saved>);

/// What happened to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StorageChange<'a> {
    /// This is its state now; perhaps the same as before.
    Saved(ObjectId, &'a [i32]),
    /// It is no more.
    Removed(ObjectId),
}

/// What became of a batch of changes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Taken {
    /// Will be written.
    pub taken: usize,
    /// Were saved like this already.
    pub unchanged: usize,
    /// Found no room, because the storage is away for long; hand them in again.
    pub refused: usize,
    /// Have a kind or lanes that the storage's schema does not have; never written.
    pub unfit: usize,
}

/// Asks for a player; a name that was never here gets a number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinQuestion {
    /// Comes back with the answer.
    pub ticket: u64,
    /// The player's name.
    pub name: String,
    /// The token that is used up by the answer, and when it expires.
    pub token: Option<(TokenId, UnixTime)>,
    /// The time by the host's clock.
    pub now: UnixTime,
}

/// The answer to a [`JoinQuestion`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JoinAnswer<E> {
    /// What was asked. With an error its token is not used up.
    pub question: JoinQuestion,
    /// The player's number and objects.
    pub player: Result<StoredPlayer, E>,
}

/// What a [`PlayerRegistry`] needs of a storage: takes changes and questions without waiting, answers later.
pub trait PlayerStorage {
    /// Takes the state of objects, those that changed and perhaps others. All of a call are written by one
    /// transaction.
    fn save<'a>(&mut self, batch: impl IntoIterator<Item = StorageChange<'a>>) -> Taken;

    /// The object is not in the world any more, but stays stored: its player has left.
    fn forget(&mut self, id: ObjectId);

    /// Takes a question; false if too many are open.
    fn ask(&mut self, question: JoinQuestion) -> bool;

    /// The next answer: what was asked, and the player, or why the storage does not have one.
    fn poll(&mut self) -> Option<(JoinQuestion, Result<StoredPlayer, Refusal>)>;

    /// Reserves numbers for new ids up to this one, and returns up to which one they are reserved by now.
    fn reserve_ids(&mut self, end: u64) -> u64;
}
