//! What waits for a storage: which changes and questions one transaction contains, and what becomes of them if it
//! fails.

use super::{JoinAnswer, JoinQuestion, StorageChange, Taken};
use foveate_wire::ObjectId;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Objects whose changes wait at most. While the storage is away, up to three times as many may be in
/// memory: those that wait, those that were refused, and those that came meanwhile.
pub const MAX_WAITING: usize = 1 << 17;
/// Questions that are open at most, answers that were not polled included.
pub const MAX_QUESTIONS: usize = 4_096;
/// Objects whose last saved state is remembered, to tell what changed; others are always written.
pub const MAX_KNOWN: usize = 1 << 20;

/// Objects by id; `None` is a removal.
pub type Changes = BTreeMap<ObjectId, Option<Arc<[i32]>>>;

/// One of them.
pub type Changed = (ObjectId, Option<Arc<[i32]>>);

/// The last state handed in of each object: what has not changed since is not written again.
#[derive(Debug, Default)]
pub struct SavedStates(BTreeMap<ObjectId, Arc<[i32]>>);

impl SavedStates {
    /// Those changes that are new, beside the count of the others; `fits` tells whether the storage's schema has
    /// such an object.
    pub fn sort_out<'a>(
        &self,
        batch: impl IntoIterator<Item = StorageChange<'a>>,
        fits: impl Fn(ObjectId, usize) -> bool,
    ) -> (Taken, Vec<Changed>) {
        let (mut taken, mut fresh) = (Taken::default(), Vec::new());
        for change in batch {
            match change {
                StorageChange::Saved(id, lanes) if !fits(id, lanes.len()) => taken.unfit += 1,
                StorageChange::Saved(id, lanes)
                    if self.0.get(&id).is_some_and(|known| **known == *lanes) =>
                {
                    taken.unchanged += 1;
                }
                StorageChange::Saved(id, lanes) => fresh.push((id, Some(lanes.into()))),
                StorageChange::Removed(id) => fresh.push((id, None)),
            }
        }
        (taken, fresh)
    }

    /// This is what was handed in of an object.
    pub fn remember(&mut self, id: ObjectId, lanes: Option<Arc<[i32]>>) {
        match lanes {
            Some(lanes) if self.0.len() < MAX_KNOWN || self.0.contains_key(&id) => {
                self.0.insert(id, lanes);
            }
            Some(_) => {}
            None => drop(self.0.remove(&id)),
        }
    }

    /// The object is not in the world any more.
    pub fn forget(&mut self, id: ObjectId) {
        self.0.remove(&id);
    }
}

/// How a queue's storage is doing. Counters only ever grow.
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
    /// Why the last transaction failed; `None` if it did not.
    pub trouble: Option<String>,
}

/// What one transaction writes.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    /// States of objects; written first, so that a player that is looked up is up to date.
    pub changes: Changes,
    /// Players to look up, with the tokens that they use up.
    pub questions: Vec<JoinQuestion>,
    /// Numbers of ids are to be reserved up to here.
    pub next_id: Option<u64>,
}

/// What waits for a storage, and how that is doing.
#[derive(Debug)]
pub struct WriteQueue<E> {
    changes: Changes,
    questions: Vec<JoinQuestion>,
    answers: VecDeque<JoinAnswer<E>>,
    /// Questions that were taken and whose answers were not polled.
    open: usize,
    /// Numbers of ids are to be reserved up to here,
    next_id: u64,
    /// and are up to there.
    reserved_ids: u64,
    report: WriterReport,
}

impl<E> Default for WriteQueue<E> {
    fn default() -> WriteQueue<E> {
        WriteQueue {
            changes: Changes::new(),
            questions: Vec::new(),
            answers: VecDeque::new(),
            open: 0,
            next_id: 0,
            reserved_ids: 0,
            report: WriterReport::default(),
        }
    }
}

impl<E> WriteQueue<E> {
    /// Takes a change; false if it finds no room. Of an object whose change still waits, only the newest is kept.
    pub fn enter(&mut self, id: ObjectId, lanes: Option<Arc<[i32]>>) -> bool {
        let full = self.changes.len() >= MAX_WAITING;
        match self.changes.entry(id) {
            Entry::Vacant(_) if full => {
                self.report.refused += 1;
                return false;
            }
            Entry::Vacant(place) => drop(place.insert(lanes)),
            Entry::Occupied(mut place) => drop(place.insert(lanes)),
        }
        true
    }

    /// Takes a question; false if too many are open.
    pub fn ask(&mut self, question: JoinQuestion) -> bool {
        let room = self.open < MAX_QUESTIONS;
        if room {
            self.open += 1;
            self.questions.push(question);
        }
        room
    }

    /// The next answer.
    pub fn poll(&mut self) -> Option<JoinAnswer<E>> {
        let answer = self.answers.pop_front()?;
        self.open -= 1;
        Some(answer)
    }

    /// Reserves numbers for new ids up to this one; see [`reserved_ids`](WriteQueue::reserved_ids).
    pub fn reserve_ids(&mut self, end: u64) {
        self.next_id = self.next_id.max(end);
    }

    /// Numbers below this one are reserved on the disk; 0 before the first reservation.
    pub fn reserved_ids(&self) -> u64 {
        self.reserved_ids
    }

    /// How the storage is doing.
    pub fn report(&self) -> WriterReport {
        WriterReport { waiting: self.changes.len(), ..self.report.clone() }
    }

    /// Whether a question waits that a storage which works should be asked at once.
    pub fn has_urgent(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Whether the last transaction failed.
    pub fn is_in_trouble(&self) -> bool {
        self.report.trouble.is_some()
    }

    /// What the next transaction writes; `None` if there is nothing to do. While the storage is away an empty one is
    /// tried, too, or nothing would find out that it is back.
    pub fn take_batch(&mut self) -> Option<Batch> {
        let next_id = (self.next_id > self.reserved_ids).then_some(self.next_id);
        let idle = self.changes.is_empty() && self.questions.is_empty() && next_id.is_none();
        if idle && !self.is_in_trouble() {
            return None;
        }
        let changes = std::mem::take(&mut self.changes);
        Some(Batch { changes, questions: std::mem::take(&mut self.questions), next_id })
    }

    /// The transaction of a batch is on the disk; these are the answers to its questions.
    pub fn on_written(&mut self, batch: &Batch, answers: Vec<JoinAnswer<E>>) {
        let removed = batch.changes.values().filter(|lanes| lanes.is_none()).count();
        self.reserved_ids = batch.next_id.unwrap_or(self.reserved_ids);
        self.report.turns += 1;
        self.report.removed += removed as u64;
        self.report.written += (batch.changes.len() - removed) as u64;
        self.report.trouble = None;
        self.answers.extend(answers);
    }

    /// Takes the changes that came while a transaction was tried, to be merged into its batch without a lock.
    pub fn take_newer(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// The transaction of a batch failed: its changes wait again, unless something newer does, and its questions are
    /// refused.
    pub fn on_failed(&mut self, mut batch: Batch, trouble: &str, refusal: impl Fn() -> E) {
        self.report.errors += 1;
        self.report.trouble = Some(trouble.to_owned());
        std::mem::swap(&mut self.changes, &mut batch.changes);
        self.changes.append(&mut batch.changes);
        self.refuse(batch.questions, refusal);
    }

    /// Refuses the questions that wait: the storage is away.
    pub fn refuse_waiting(&mut self, refusal: impl Fn() -> E) {
        let questions = std::mem::take(&mut self.questions);
        self.refuse(questions, refusal);
    }

    fn refuse(&mut self, questions: Vec<JoinQuestion>, refusal: impl Fn() -> E) {
        let refused = questions.into_iter();
        self.answers
            .extend(refused.map(|question| JoinAnswer { question, player: Err(refusal()) }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persistence::UnixTime;
    use foveate_wire::KindId;

    fn id(serial: u32) -> ObjectId {
        ObjectId::new(KindId(0), 0, serial)
    }

    fn state(value: i32) -> Option<Arc<[i32]>> {
        Some([value].as_slice().into())
    }

    #[test]
    fn a_failed_transaction_keeps_its_changes_unless_newer_ones_wait_and_refuses_its_questions() {
        let mut queue = WriteQueue::<()>::default();
        assert!(queue.take_batch().is_none(), "nothing to do");
        let token = Some(([1; 16], UnixTime(9)));
        assert!(queue.enter(id(1), state(1)) && queue.enter(id(2), state(2)));
        let question = JoinQuestion { ticket: 7, name: "ada".into(), token, now: UnixTime(1) };
        assert!(queue.ask(question));
        let batch = queue.take_batch().unwrap();
        assert_eq!((batch.changes.len(), batch.questions.len()), (2, 1));
        queue.enter(id(2), state(3));
        queue.on_failed(batch, "full", || ());
        assert_eq!(queue.poll().map(|it| (it.question.ticket, it.player)), Some((7, Err(()))));
        assert!(queue.is_in_trouble());
        let again = queue.take_batch().unwrap();
        assert_eq!(again.changes, BTreeMap::from([(id(1), state(1)), (id(2), state(3))]));
        assert!(again.questions.is_empty(), "a token that was refused is not written later");
        queue.on_written(&again, Vec::new());
        assert_eq!((queue.report().turns, queue.report().trouble), (1, None));
        assert!(queue.take_batch().is_none());
    }
}
