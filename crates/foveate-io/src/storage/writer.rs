//! The game's end of write-behind: takes changes and questions, waits for nothing.

use super::error::StorageError;
use super::kinds::Kinds;
use super::thread::{self, Shared};
use super::{Saved, Storage, TokenId};
use crate::time::UnixTime;
use foveate_node::game::PlayerId;
use foveate_wire::ObjectId;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::Duration;

/// Changes are brought to the disk at least this often. Together with a slow flush of the disk it
/// stays below the promised second.
pub const FLUSH_EVERY: Duration = Duration::from_millis(400);
/// Objects whose changes wait at most. While the store is away, up to three times as many may be in
/// memory: those that wait, those that were refused, and those that came meanwhile.
pub const MAX_WAITING: usize = 1 << 17;
/// Tokens that wait at most.
pub const MAX_TOKENS_WAITING: usize = 1 << 16;
/// Questions that are open at most, answers that nobody took included.
pub const MAX_QUESTIONS: usize = 4_096;
/// Objects whose last saved state is remembered, to tell what changed; others are always written.
pub const MAX_KNOWN: usize = 1 << 20;

/// What happened to an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StorageChange<'a> {
    /// This is its state now; perhaps the same as before.
    Saved(ObjectId, &'a [i32]),
    /// It is no more.
    Removed(ObjectId),
}

/// What became of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Taken {
    /// Will be written.
    pub taken: usize,
    /// Were saved like this already.
    pub unchanged: usize,
    /// Found no room, because the store is away for long; hand them in again.
    pub refused: usize,
    /// Have a kind or lanes that the store's schema does not have; never written.
    pub unfit: usize,
}

/// The answer to [`Writer::join`].
#[derive(Debug)]
pub struct JoinAnswer {
    /// Who was asked for.
    pub name: String,
    /// Their number and objects. With an error that is retryable, ask again later.
    pub player: Result<(PlayerId, Vec<Saved>), StorageError>,
}

/// How the writer is doing. Counters only ever grow.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct WriterReport {
    /// Transactions that reached the disk.
    pub turns: u64,
    /// Objects written by them.
    pub written: u64,
    /// Objects removed by them.
    pub removed: u64,
    /// Transactions that failed and were put off.
    pub errors: u64,
    /// Changes that found no room.
    pub refused: u64,
    /// Objects whose changes wait now.
    pub waiting: usize,
    /// Why the last turn failed; `None` if it did not.
    pub trouble: Option<String>,
}

/// A store that is written by a thread of its own. Dropped, it writes what waits, like
/// [`close`](Writer::close), but cannot say whether that worked.
pub struct Writer {
    shared: Arc<Shared>,
    kinds: Arc<Kinds>,
    answers: Receiver<JoinAnswer>,
    thread: Option<JoinHandle<Result<(), StorageError>>>,
    /// The last state handed in of each object.
    known: BTreeMap<ObjectId, Arc<[i32]>>,
    open_questions: usize,
}

impl Writer {
    pub(super) fn start(storage: Storage) -> Result<Writer, StorageError> {
        let shared = Arc::new(Shared::default());
        let (sender, answers) = mpsc::channel();
        let kinds = Arc::clone(&storage.kinds);
        let file = storage.database.path.clone();
        let thread = thread::start(storage, Arc::clone(&shared), sender)
            .map_err(|cause| StorageError::File { file, cause })?;
        let known = BTreeMap::new();
        Ok(Writer { shared, kinds, answers, thread: Some(thread), known, open_questions: 0 })
    }

    /// Takes the state of objects, those that changed and perhaps others. Of an object whose change
    /// still waits, only the newest is kept.
    pub fn save<'a>(&mut self, batch: impl IntoIterator<Item = StorageChange<'a>>) -> Taken {
        let mut taken = Taken::default();
        // Compared outside the lock, entered in one go.
        let mut fresh = Vec::new();
        for change in batch {
            match change {
                StorageChange::Saved(id, lanes) if self.kinds.check(id, lanes.len()).is_err() => {
                    taken.unfit += 1;
                }
                StorageChange::Saved(id, lanes)
                    if self.known.get(&id).is_some_and(|known| **known == *lanes) =>
                {
                    taken.unchanged += 1;
                }
                StorageChange::Saved(id, lanes) => fresh.push((id, Some(lanes.into()))),
                StorageChange::Removed(id) => fresh.push((id, None)),
            }
        }
        let mut state = self.shared.lock();
        for (id, lanes) in fresh {
            let full = state.changes.len() >= MAX_WAITING;
            match state.changes.entry(id) {
                Entry::Vacant(_) if full => {
                    state.report.refused += 1;
                    taken.refused += 1;
                    continue;
                }
                Entry::Vacant(place) => drop(place.insert(lanes.clone())),
                Entry::Occupied(mut place) => drop(place.insert(lanes.clone())),
            }
            taken.taken += 1;
            remember(&mut self.known, id, lanes);
        }
        taken
    }

    /// The object is not in the world any more, but stays stored: its player has left.
    pub fn forget(&mut self, id: ObjectId) {
        self.known.remove(&id);
    }

    /// Remembers that a token was used, so that it is refused after a restart, too. False if too many
    /// wait.
    pub fn use_token(&mut self, id: TokenId, until: UnixTime) -> bool {
        let mut state = self.shared.lock();
        let room = state.tokens.len() < MAX_TOKENS_WAITING;
        if room {
            state.tokens.push((id, until));
        }
        room
    }

    /// Reserves numbers for new ids up to this one. They may be used once
    /// [`reserved_ids`](Writer::reserved_ids) says so.
    pub fn reserve_ids(&mut self, end: u64) {
        let mut state = self.shared.lock();
        state.next_id = state.next_id.max(end);
    }

    /// Numbers below this one were reserved by [`reserve_ids`](Writer::reserve_ids); 0 before that.
    pub fn reserved_ids(&self) -> u64 {
        self.shared.lock().reserved_ids
    }

    /// Asks for a player; [`poll`](Writer::poll) has the answer, after everything that was saved
    /// before was written. A name that was never here gets a number.
    pub fn join(&mut self, name: &str, now: UnixTime) -> Result<(), StorageError> {
        if self.open_questions >= MAX_QUESTIONS {
            return Err(StorageError::Busy { limit: MAX_QUESTIONS });
        }
        self.open_questions += 1;
        self.shared.lock().questions.push((name.to_owned(), now));
        self.shared.wake.notify_one();
        Ok(())
    }

    /// The next answer, if there is one.
    pub fn poll(&mut self) -> Option<JoinAnswer> {
        let joined = self.answers.try_recv().ok()?;
        self.open_questions -= 1;
        for saved in joined.player.iter().flat_map(|(_, saved)| saved) {
            remember(&mut self.known, saved.id, Some(saved.lanes.as_slice().into()));
        }
        Some(joined)
    }

    /// How it is doing.
    pub fn report(&self) -> WriterReport {
        let state = self.shared.lock();
        WriterReport { waiting: state.changes.len(), ..state.report.clone() }
    }

    /// Writes what waits and closes the file. With an error, what could not be written is lost.
    pub fn close(mut self) -> Result<(), StorageError> {
        self.finish()
    }

    fn finish(&mut self) -> Result<(), StorageError> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        self.shared.lock().closing = true;
        self.shared.wake.notify_one();
        let panicked = |_| Err(StorageError::Away("the writer's thread broke down".into()));
        thread.join().unwrap_or_else(panicked)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.finish();
    }
}

fn remember(known: &mut BTreeMap<ObjectId, Arc<[i32]>>, id: ObjectId, lanes: Option<Arc<[i32]>>) {
    match lanes {
        Some(lanes) if known.len() < MAX_KNOWN || known.contains_key(&id) => {
            known.insert(id, lanes);
        }
        Some(_) => {}
        None => drop(known.remove(&id)),
    }
}
