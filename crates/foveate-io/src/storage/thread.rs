//! The writer's thread: each turn is one transaction, which is retried until it succeeds.

use super::database::refusal;
use super::error::StorageError;
use super::writer::{FLUSH_EVERY, StorageAnswer};
use super::{Storage, player, put_next_id};
use foveate_node::UnixTime;
use foveate_node::persistence::{Batch, JoinQuestion, WriteQueue};
use rusqlite::{Connection, TransactionBehavior, params};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// After each failed turn the pause doubles, up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Turns that are tried when the writer is closed.
const CLOSING_TURNS: u32 = 5;
/// The pause between them.
const CLOSING_PAUSE: Duration = Duration::from_millis(100);

/// State shared by the game's thread and the writer's thread. It is locked only briefly: data for longer work is taken
/// out first.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Signals a request or the end. Changes do not wake the thread, since they wait for the next turn anyway.
    pub wake: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    pub queue: WriteQueue<StorageError>,
    pub closing: bool,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // No invariant spans two fields, so the state is usable even after a panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Thread {
    storage: Storage,
    shared: Arc<Shared>,
}

pub(super) fn start(
    storage: Storage,
    shared: Arc<Shared>,
) -> std::io::Result<JoinHandle<Result<(), StorageError>>> {
    let mut thread = Thread { storage, shared };
    std::thread::Builder::new().name("foveate-storage".into()).spawn(move || thread.run())
}

impl Thread {
    fn run(&mut self) -> Result<(), StorageError> {
        let mut pause = FLUSH_EVERY;
        let mut closing_turns = 0;
        loop {
            let (batch, closing) = self.wait(pause);
            let tried = batch.map_or(Ok(()), |batch| self.turn(batch));
            pause = match &tried {
                Ok(()) => FLUSH_EVERY,
                Err(_) => (pause * 2).min(LONGEST_PAUSE),
            };
            if closing {
                closing_turns += 1;
                match tried {
                    Ok(()) => return Ok(()),
                    Err(error) if closing_turns == CLOSING_TURNS => return Err(self.give_up(error)),
                    Err(_) => std::thread::sleep(CLOSING_PAUSE),
                }
            }
        }
    }

    /// Sleeps until there is work and takes it; also returns whether this is the end. While the storage fails, requests
    /// are answered with an error instead of a retry for each.
    fn wait(&self, pause: Duration) -> (Option<Batch>, bool) {
        let until = Instant::now() + pause;
        let mut state = self.shared.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let asked = state.queue.has_urgent();
            if state.closing || left.is_zero() || (asked && !state.queue.is_in_trouble()) {
                break;
            }
            if asked {
                let trouble = state.queue.report().trouble.unwrap_or_default();
                state.queue.refuse_waiting(|| StorageError::Away(trouble.clone()));
            }
            let (woken, _) =
                self.shared.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = woken;
        }
        (state.queue.take_batch(), state.closing)
    }

    fn turn(&mut self, mut batch: Batch) -> Result<(), StorageError> {
        match self.write(&batch) {
            Ok(answers) => {
                self.shared.lock().queue.on_written(&batch, answers);
                Ok(())
            }
            Err(error) => {
                let trouble = error.to_string();
                // Merging takes time, so it is done while the lock is not held.
                let mut newer = self.shared.lock().queue.take_newer();
                batch.changes.append(&mut newer);
                let away = || StorageError::Away(trouble.clone());
                self.shared.lock().queue.on_failed(batch, &trouble, away);
                Err(error)
            }
        }
    }

    /// One transaction: changes first, so that a player that is looked up is up to date.
    fn write(&mut self, batch: &Batch) -> Result<Vec<StorageAnswer>, StorageError> {
        let Storage { database, kinds } = &mut self.storage;
        database.check_place()?;
        let path = database.path.clone();
        let failed = |cause| refusal(&path, cause);
        let behaviour = TransactionBehavior::Immediate;
        let transaction =
            database.connection.transaction_with_behavior(behaviour).map_err(failed)?;
        for (id, lanes) in &batch.changes {
            kinds.put(&transaction, *id, lanes.as_deref()).map_err(failed)?;
        }
        batch.next_id.map_or(Ok(()), |next| put_next_id(&transaction, next)).map_err(failed)?;
        let mut answers = Vec::new();
        for question in &batch.questions {
            let found = player(&transaction, &path, &question.name, question.now)
                .and_then(|player| Ok((player, kinds.load(&transaction, &path, player.0)?)));
            // An error about this one player is its answer; any other is an error of the storage.
            let theirs = matches!(
                found,
                Ok(_)
                    | Err(StorageError::Name { .. }
                        | StorageError::PlayersFull { .. }
                        | StorageError::Lanes { .. })
            );
            if found.is_ok() {
                put_token(&transaction, question).map_err(failed)?;
            }
            match theirs {
                true => answers.push(StorageAnswer { question: question.clone(), player: found }),
                false => drop(found?),
            }
        }
        transaction.commit().map_err(failed)?;
        Ok(answers)
    }

    fn give_up(&self, error: StorageError) -> StorageError {
        let unsaved = self.shared.lock().queue.report().waiting;
        StorageError::Unsaved { unsaved, cause: error.to_string() }
    }
}

/// Marks a request's token as used. Expired tokens are deleted at the same time, so that the table never outgrows the
/// tokens that are still valid. The latest expiry of deleted tokens is kept, in case the clock is wrong: see
/// [`UsedTokens`](foveate_node::persistence::UsedTokens).
fn put_token(connection: &Connection, question: &JoinQuestion) -> rusqlite::Result<()> {
    let Some((id, until)) = question.token else { return Ok(()) };
    let seconds = |time: UnixTime| time.0.min(i64::MAX as u64) as i64;
    let now = seconds(question.now);
    let horizon = "INSERT INTO meta SELECT 'token_horizon', max(until) FROM tokens WHERE until <= ?1 \
                   HAVING max(until) IS NOT NULL \
                   ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)";
    connection.prepare_cached(horizon)?.execute([now])?;
    connection.prepare_cached("DELETE FROM tokens WHERE until <= ?1")?.execute([now])?;
    let mut add = connection.prepare_cached("INSERT OR REPLACE INTO tokens VALUES (?1, ?2)")?;
    add.execute(params![id, seconds(until)])?;
    Ok(())
}
