//! What waits for a storage: which changes and questions one transaction contains, and what happens
//! to them if it fails.

use super::{JoinAnswer, JoinQuestion, StorageChange, Taken};
use foveate_wire::ObjectId;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// The most objects whose changes wait. While the storage is unavailable, up to three times as many
/// may be in memory: waiting, failed, and newly arrived.
pub const MAX_WAITING: usize = 1 << 17;
/// The most open questions, including answers that were not polled.
pub const MAX_QUESTIONS: usize = 4_096;
/// Objects whose last saved state is remembered for comparison; others are always written.
pub const MAX_KNOWN: usize = 1 << 20;

/// Changed objects by id; `None` is a removal.
pub type Changes = BTreeMap<ObjectId, Option<Arc<[i32]>>>;

/// One changed object; `None` is a removal.
pub type Changed = (ObjectId, Option<Arc<[i32]>>);

/// The last state handed in for each object, so that unchanged objects are not written again.
#[derive(Debug, Default)]
pub struct SavedStates(BTreeMap<ObjectId, Arc<[i32]>>);

impl SavedStates {
    /// Returns the changes that differ from the saved states, and the counts of the others. `fits`
    /// tells whether the storage's schema has such an object.
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

    /// Stores the state that was handed in for an object.
    pub fn remember(&mut self, id: ObjectId, lanes: Option<Arc<[i32]>>) {
        match lanes {
            Some(lanes) if self.0.len() < MAX_KNOWN || self.0.contains_key(&id) => {
                self.0.insert(id, lanes);
            }
            Some(_) => {}
            None => drop(self.0.remove(&id)),
        }
    }

    /// Forgets an object that left the world.
    pub fn forget(&mut self, id: ObjectId) {
        self.0.remove(&id);
    }
}

/// The state of a queue and its storage. Counters only grow.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct WriterReport {
    /// Transactions that reached the disk.
    pub turns: u64,
    /// Objects written by them.
    pub written: u64,
    /// Objects removed by them.
    pub removed: u64,
    /// Transactions that failed, and will be tried again.
    pub errors: u64,
    /// Changes that found no room.
    pub refused: u64,
    /// Objects whose changes wait now.
    pub waiting: usize,
    /// Why the last transaction failed; `None` if it succeeded.
    pub trouble: Option<String>,
}

/// What one transaction writes.
#[derive(Clone, Default, Debug)]
pub struct Batch {
    /// States of objects. Write these first, so that a player that is looked up is up to date.
    pub changes: Changes,
    /// Players to look up, with the tokens that this uses up.
    pub questions: Vec<JoinQuestion>,
    /// Reserve the numbers for ids below this.
    pub next_id: Option<u64>,
}

/// The changes and questions that wait for a storage, and the state of the storage.
#[derive(Debug)]
pub struct WriteQueue<E> {
    changes: Changes,
    questions: Vec<JoinQuestion>,
    answers: VecDeque<JoinAnswer<E>>,
    /// Questions accepted whose answers were not polled.
    open: usize,
    /// Numbers for ids below this are to be reserved.
    next_id: u64,
    /// Numbers for ids below this are reserved on the disk.
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
    /// Takes a change; false if there is no room. Only the newest waiting change of an object is
    /// kept.
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

    /// Asks to reserve the numbers for ids below `end`; see
    /// [`reserved_ids`](WriteQueue::reserved_ids).
    pub fn reserve_ids(&mut self, end: u64) {
        self.next_id = self.next_id.max(end);
    }

    /// The end of the numbers that are reserved on the disk; 0 before the first reservation.
    pub fn reserved_ids(&self) -> u64 {
        self.reserved_ids
    }

    pub fn report(&self) -> WriterReport {
        WriterReport { waiting: self.changes.len(), ..self.report.clone() }
    }

    /// Whether a question waits, so that a working storage should be called at once.
    pub fn has_urgent(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Whether the last transaction failed.
    pub fn is_in_trouble(&self) -> bool {
        self.report.trouble.is_some()
    }

    /// The contents of the next transaction; `None` if there is nothing to do. While the storage is
    /// unavailable, empty transactions are tried too, to notice when it is back.
    pub fn take_batch(&mut self) -> Option<Batch> {
        let next_id = (self.next_id > self.reserved_ids).then_some(self.next_id);
        let idle = self.changes.is_empty() && self.questions.is_empty() && next_id.is_none();
        if idle && !self.is_in_trouble() {
            return None;
        }
        let changes = std::mem::take(&mut self.changes);
        Some(Batch { changes, questions: std::mem::take(&mut self.questions), next_id })
    }

    /// Reports that a batch is on the disk, with the answers to its questions.
    pub fn on_written(&mut self, batch: &Batch, answers: Vec<JoinAnswer<E>>) {
        let removed = batch.changes.values().filter(|lanes| lanes.is_none()).count();
        self.reserved_ids = batch.next_id.unwrap_or(self.reserved_ids);
        self.report.turns += 1;
        self.report.removed += removed as u64;
        self.report.written += (batch.changes.len() - removed) as u64;
        self.report.trouble = None;
        self.answers.extend(answers);
    }

    /// Takes the changes that arrived during a transaction, to merge them into its batch without a
    /// lock.
    pub fn take_newer(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Reports that a batch failed: its changes wait again unless newer ones do, and its questions
    /// are refused.
    pub fn on_failed(&mut self, mut batch: Batch, trouble: &str, refusal: impl Fn() -> E) {
        self.report.errors += 1;
        self.report.trouble = Some(trouble.to_owned());
        std::mem::swap(&mut self.changes, &mut batch.changes);
        self.changes.append(&mut batch.changes);
        self.refuse(batch.questions, refusal);
    }

    /// Refuses the waiting questions, because the storage is unavailable.
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
