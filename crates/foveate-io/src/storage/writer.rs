//! The game's side of the writer: accepts changes and requests without waiting.

use super::error::StorageError;
use super::kinds::Kinds;
use super::thread::{self, Shared};
use super::{Storage, StorageChange};
use foveate_node::persistence::{
    self, JoinQuestion, PlayerStorage, SavedStates, StoredPlayer, Taken, WriterReport,
};
use foveate_node::session::Refusal;
use foveate_wire::ObjectId;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval after which changes are written to the disk at the latest. With a slow flush of the disk it stays below the
/// guaranteed second.
pub const FLUSH_EVERY: Duration = Duration::from_millis(400);

/// The answer to a request.
pub type StorageAnswer = persistence::JoinAnswer<StorageError>;

/// A storage that a thread writes. Dropping it writes pending changes, like [`close`](Writer::close), but does not
/// report failure.
pub struct Writer {
    shared: Arc<Shared>,
    kinds: Arc<Kinds>,
    thread: Option<JoinHandle<Result<(), StorageError>>>,
    known: SavedStates,
}

impl Writer {
    pub(super) fn start(storage: Storage) -> Result<Writer, StorageError> {
        let shared = Arc::new(Shared::default());
        let kinds = Arc::clone(&storage.kinds);
        let file = storage.database.path.clone();
        let thread = thread::start(storage, Arc::clone(&shared))
            .map_err(|cause| StorageError::File { file, cause })?;
        Ok(Writer { shared, kinds, thread: Some(thread), known: SavedStates::default() })
    }

    /// The first number that is not reserved; 0 before the first reservation.
    pub fn reserved_ids(&self) -> u64 {
        self.shared.lock().queue.reserved_ids()
    }

    /// The next answer, if any. After a retryable error, ask again later.
    pub fn next_answer(&mut self) -> Option<StorageAnswer> {
        let answer = self.shared.lock().queue.poll()?;
        for saved in answer.player.iter().flat_map(|(_, saved)| saved) {
            self.known.remember(saved.id, Some(saved.lanes.as_slice().into()));
        }
        Some(answer)
    }

    /// The writer's state and counters.
    pub fn report(&self) -> WriterReport {
        self.shared.lock().queue.report()
    }

    /// Writes pending changes and closes the file. On error, what could not be written is lost.
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

impl PlayerStorage for Writer {
    fn save<'a>(&mut self, batch: impl IntoIterator<Item = StorageChange<'a>>) -> Taken {
        // Checked without the lock, then added at once.
        let fits = |id: ObjectId, lanes: usize| self.kinds.check(id, lanes).is_ok();
        let (mut taken, fresh) = self.known.sort_out(batch, fits);
        let mut state = self.shared.lock();
        for (id, lanes) in fresh {
            if state.queue.enter(id, lanes.clone()) {
                taken.taken += 1;
                self.known.remember(id, lanes);
            } else {
                taken.refused += 1;
            }
        }
        taken
    }

    fn forget(&mut self, id: ObjectId) {
        self.known.forget(id);
    }

    fn ask(&mut self, question: JoinQuestion) -> bool {
        let asked = self.shared.lock().queue.ask(question);
        self.shared.wake.notify_one();
        asked
    }

    fn poll(&mut self) -> Option<(JoinQuestion, Result<StoredPlayer, Refusal>)> {
        let StorageAnswer { question, player } = self.next_answer()?;
        Some((question, player.map_err(|error| refusal(&error))))
    }

    fn reserve_ids(&mut self, end: u64) -> u64 {
        let mut state = self.shared.lock();
        state.queue.reserve_ids(end);
        state.queue.reserved_ids()
    }
}

/// The refusal for a player that the storage could not look up or store.
fn refusal(error: &StorageError) -> Refusal {
    match error {
        StorageError::PlayersFull { .. } => Refusal::Full,
        StorageError::Name { .. } => Refusal::Name,
        _ => Refusal::Storage,
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A caller that needs the result calls `close`.
        let _ = self.finish();
    }
}
