//! The disk's end of write-behind: one turn is one transaction, and is tried until it succeeds.

use super::database::refusal;
use super::error::StorageError;
use super::writer::{FLUSH_EVERY, JoinAnswer, WriterReport};
use super::{Storage, TokenId, player, put_next_id};
use crate::time::UnixTime;
use foveate_wire::ObjectId;
use rusqlite::{Connection, TransactionBehavior, params};
use std::collections::BTreeMap;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// After each failed turn the pause before the next is twice as long, up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Turns that are tried when the writer is closed.
const CLOSING_TURNS: u32 = 5;
/// The pause between them.
const CLOSING_PAUSE: Duration = Duration::from_millis(100);

/// Objects by id; `None` is a removal.
pub(super) type Changes = BTreeMap<ObjectId, Option<Arc<[i32]>>>;

/// What the game's thread and the writer's share. Locked for moments only: whatever takes longer is
/// taken out first.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// A question or the end. Changes wake nobody: they wait for the next turn anyway.
    pub wake: Condvar,
}

#[derive(Default)]
pub(super) struct State {
    pub changes: Changes,
    pub tokens: Vec<(TokenId, UnixTime)>,
    pub questions: Vec<(String, UnixTime)>,
    pub closing: bool,
    /// Numbers of ids are to be reserved up to here,
    pub next_id: u64,
    /// and are up to there.
    pub reserved_ids: u64,
    pub report: WriterReport,
}

impl Shared {
    pub fn lock(&self) -> MutexGuard<'_, State> {
        // No invariant spans two fields, so that whatever a panic left behind can be used.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What one turn writes.
#[derive(Default)]
struct Batch {
    changes: Changes,
    tokens: Vec<(TokenId, UnixTime)>,
    questions: Vec<(String, UnixTime)>,
    /// More numbers of ids, if they are wanted.
    next_id: Option<u64>,
    closing: bool,
}

struct Thread {
    storage: Storage,
    shared: Arc<Shared>,
    answers: Sender<JoinAnswer>,
}

pub(super) fn start(
    storage: Storage,
    shared: Arc<Shared>,
    answers: Sender<JoinAnswer>,
) -> std::io::Result<JoinHandle<Result<(), StorageError>>> {
    let mut thread = Thread { storage, shared, answers };
    std::thread::Builder::new().name("foveate-storage".into()).spawn(move || thread.run())
}

impl Thread {
    fn run(&mut self) -> Result<(), StorageError> {
        let mut pause = FLUSH_EVERY;
        let mut closing_turns = 0;
        loop {
            let batch = self.wait(pause);
            let closing = batch.closing;
            let tried = self.turn(batch);
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

    /// Sleeps until there is something to do, and takes it. While the store is away, questions are
    /// answered with a refusal instead of trying for each of them.
    fn wait(&self, pause: Duration) -> Batch {
        let until = Instant::now() + pause;
        let mut state = self.shared.lock();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let asked = !state.questions.is_empty();
            if state.closing || left.is_zero() || (asked && state.report.trouble.is_none()) {
                break;
            }
            if let Some(trouble) = state.report.trouble.clone().filter(|_| asked) {
                let questions = std::mem::take(&mut state.questions);
                drop(state);
                self.refuse(questions, &trouble);
                state = self.shared.lock();
                continue;
            }
            let (woken, _) =
                self.shared.wake.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
            state = woken;
        }
        Batch {
            changes: std::mem::take(&mut state.changes),
            tokens: std::mem::take(&mut state.tokens),
            questions: std::mem::take(&mut state.questions),
            next_id: (state.next_id > state.reserved_ids).then_some(state.next_id),
            closing: state.closing,
        }
    }

    fn turn(&mut self, batch: Batch) -> Result<(), StorageError> {
        let empty = batch.changes.is_empty()
            && batch.tokens.is_empty()
            && batch.questions.is_empty()
            && batch.next_id.is_none();
        // While the store is away questions are refused: even with nothing to write it is tried again, or
        // nobody would find out that it is back.
        if empty && self.shared.lock().report.trouble.is_none() {
            return Ok(());
        }
        match self.write(&batch) {
            Ok(answers) => {
                let mut state = self.shared.lock();
                let removed = batch.changes.values().filter(|lanes| lanes.is_none()).count();
                state.reserved_ids = batch.next_id.unwrap_or(state.reserved_ids);
                state.report.turns += 1;
                state.report.removed += removed as u64;
                state.report.written += (batch.changes.len() - removed) as u64;
                state.report.trouble = None;
                drop(state);
                // Nobody may be there to hear them, at the end.
                answers.into_iter().for_each(|answer| drop(self.answers.send(answer)));
                Ok(())
            }
            Err(error) => {
                let trouble = error.to_string();
                self.put_back(batch.changes, batch.tokens);
                let mut state = self.shared.lock();
                state.report.errors += 1;
                state.report.trouble = Some(trouble.clone());
                drop(state);
                self.refuse(batch.questions, &trouble);
                Err(error)
            }
        }
    }

    /// One transaction: changes first, so that a player who is asked for is up to date.
    fn write(&mut self, batch: &Batch) -> Result<Vec<JoinAnswer>, StorageError> {
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
        put_tokens(&transaction, &batch.tokens).map_err(failed)?;
        batch.next_id.map_or(Ok(()), |next| put_next_id(&transaction, next)).map_err(failed)?;
        let mut answers = Vec::new();
        for (name, now) in &batch.questions {
            let found = player(&transaction, &path, name, *now)
                .and_then(|player| Ok((player, kinds.load(&transaction, &path, player.0)?)));
            // A refusal of this one player is their answer; anything else is the store's trouble.
            let theirs = matches!(
                found,
                Ok(_)
                    | Err(StorageError::Name { .. }
                        | StorageError::PlayersFull { .. }
                        | StorageError::Lanes { .. })
            );
            match theirs {
                true => answers.push(JoinAnswer { name: name.clone(), player: found }),
                false => drop(found?),
            }
        }
        transaction.commit().map_err(failed)?;
        Ok(answers)
    }

    /// What could not be written waits again, unless something newer does. Merging takes its time,
    /// so it is done while the game's thread may go on.
    fn put_back(&self, mut older: Changes, mut tokens: Vec<(TokenId, UnixTime)>) {
        let mut newer = std::mem::take(&mut self.shared.lock().changes);
        older.append(&mut newer);
        let mut state = self.shared.lock();
        let latest = std::mem::replace(&mut state.changes, older);
        state.changes.extend(latest);
        tokens.append(&mut state.tokens);
        state.tokens = tokens;
    }

    fn refuse(&self, questions: Vec<(String, UnixTime)>, trouble: &str) {
        for (name, _) in questions {
            let player = Err(StorageError::Away(trouble.to_owned()));
            drop(self.answers.send(JoinAnswer { name, player }));
        }
    }

    fn give_up(&self, error: StorageError) -> StorageError {
        let unsaved = self.shared.lock().changes.len();
        StorageError::Unsaved { unsaved, cause: error.to_string() }
    }
}

fn put_tokens(connection: &Connection, tokens: &[(TokenId, UnixTime)]) -> rusqlite::Result<()> {
    if tokens.is_empty() {
        return Ok(());
    }
    // Room is made where room is taken: the table never outgrows what tokens in use need.
    connection.execute("DELETE FROM tokens WHERE until <= ?1", [UnixTime::now().0 as i64])?;
    let mut add = connection.prepare_cached("INSERT OR REPLACE INTO tokens VALUES (?1, ?2)")?;
    for (id, until) in tokens {
        add.execute(params![id, until.0.min(i64::MAX as u64) as i64])?;
    }
    Ok(())
}
