//! A region's log: who owns what, as a function of what was appended.
//!
//! Only the region's owner appends, and a takeover begins with a [`LogEntry::Fence`]: what the former owner had
//! appended before counts, what it tries afterwards conflicts. A [`LogView`] replays a log; its owner, its standby
//! and its neighbours all hold one, and all come to the same result.
//!
//! A transfer takes three entries in two logs: `Out` in the giver's, `In` in the receiver's once it has the state,
//! `Done` in the giver's once it has read the `In`. Between `Out` and `Done` the giver repeats the state, and the
//! receiver remembers that it took the object in: neither forgets before the other cannot ask any more.

use super::layout::RegionId;
use super::ledger::{AppendId, RecordError, read_record};
use foveate_wire::ObjectId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Ticks for which a log remembers what left the region. Replicas of it are told to be gone long before.
const REMEMBERED: u32 = 2_000;

/// How far the actions of one asking region were carried out, for one object: all up to `number`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct AskMark {
    /// The asking region.
    pub region: RegionId,
    /// The asking region's epoch.
    pub epoch: u32,
    /// The number.
    pub number: u64,
}

/// An object as it travels.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ObjectState {
    /// The last tick that it was stepped in.
    pub tick: u32,
    /// Its lanes.
    pub lanes: Vec<i32>,
    /// What was carried out for other regions.
    pub marks: Vec<AskMark>,
}

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum LogEntry {
    /// A new owner begins; nothing of an earlier epoch follows.
    Fence {
        /// The region's epoch.
        epoch: u32,
    },
    /// The object goes to another region.
    Out {
        /// The object.
        object: u64,
        /// Its epoch after the handoff.
        epoch: u32,
        /// The region.
        to: RegionId,
        /// How it was when this was written; later entries amend it.
        state: Option<ObjectState>,
        /// In a snapshot: the entry that first said so.
        sequence: Option<u64>,
    },
    /// The object came from another region.
    In {
        /// The object.
        object: u64,
        /// Its epoch.
        epoch: u32,
        /// The region.
        from: RegionId,
        /// The entry of that region's log which gave it away.
        sequence: u64,
        /// How it came; none: it was removed on its way.
        state: Option<ObjectState>,
    },
    /// The receiver of an object has logged its `In`.
    Done {
        /// The object.
        object: u64,
        /// Its epoch.
        epoch: u32,
    },
    /// How an object is that goes to another region; none: it was removed on its way. Not a checkpoint: a follower
    /// that has not read the `Out` must not take it for an object that is here.
    Amend {
        /// The object.
        object: u64,
        /// Its epoch after the handoff.
        epoch: u32,
        /// Its state.
        state: Option<ObjectState>,
    },
    /// How an object is; none: it is no more.
    Checkpoint {
        /// The object.
        object: u64,
        /// Its epoch.
        epoch: u32,
        /// Its state.
        state: Option<ObjectState>,
    },
    /// In a snapshot: an object that was taken in, perhaps given away since, and whose giver has not logged `Done`.
    Accepted {
        /// The object.
        object: u64,
        /// Its epoch.
        epoch: u32,
        /// The region.
        from: RegionId,
        /// The entry of that region's log which gave it away.
        sequence: u64,
    },
    /// A snapshot begins: what follows describes the whole region.
    Begin,
    /// The snapshot that began at this entry is complete: earlier entries are not needed any more.
    End {
        /// The entry.
        begun: u64,
    },
    /// The region is empty and takes nothing in any more: nothing follows.
    Close,
}

/// All entries of one append.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogBatch {
    /// The writer's epoch.
    pub epoch: u32,
    /// The writer's tick.
    pub tick: u32,
    /// What happened, in order.
    pub entries: Vec<LogEntry>,
}

/// An object as the log knows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Logged {
    /// How often it changed regions.
    pub epoch: u32,
    /// How it was when it was last logged.
    pub state: ObjectState,
}

/// An object that was given away and may not have arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PendingOut {
    /// Its epoch after the handoff.
    pub epoch: u32,
    /// The region.
    pub to: RegionId,
    /// The entry that says so.
    pub sequence: u64,
    /// How it was when it was last logged; none: it was removed.
    pub state: Option<ObjectState>,
}

/// An object that was taken in and whose giver has not logged `Done`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AcceptedIn {
    /// Its epoch.
    pub epoch: u32,
    /// The entry of the giver's log.
    pub sequence: u64,
}

/// What a log says.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogView {
    /// The last entry that was read.
    pub last: u64,
    /// The highest epoch that was fenced.
    pub epoch: u32,
    /// The latest tick that was mentioned.
    pub tick: u32,
    /// What the region owns. Objects of kinds that are not kept may be missing.
    pub objects: BTreeMap<ObjectId, Logged>,
    /// What it gave away.
    pub pending: BTreeMap<ObjectId, PendingOut>,
    /// What it took in.
    /// Keyed by the giver as well: an object may have come from several before the first of them is done.
    pub accepted: BTreeMap<(ObjectId, RegionId), AcceptedIn>,
    /// Whether a whole snapshot was read.
    pub complete: bool,
    /// The region was closed: what it has not taken in it never will.
    pub closed: bool,
    /// What left the region or was removed, and at what tick: a replica of it is a memory.
    pub gone: BTreeMap<ObjectId, u32>,
    /// The first entry that was read without a gap.
    first: u64,
    /// The entry at which the snapshot that was completed last began.
    begun: u64,
    /// The entry at which the snapshot before that one began: earlier entries are not needed any more.
    pub needed_from: u64,
    /// What was dropped of it by this server.
    pub truncated: u64,
}

impl LogView {
    /// Reads one append. False: its epoch was fenced off, or its sequence number is not new; nothing is changed.
    pub fn apply(&mut self, sequence: u64, batch: &LogBatch) -> bool {
        if sequence <= self.last {
            return false;
        }
        if sequence > self.last + 1 || self.last == 0 {
            // What is in between was truncated; what is kept begins with a snapshot, in whatever epoch.
            let first = sequence;
            *self = LogView { epoch: batch.epoch, tick: self.tick, first, ..LogView::default() };
        }
        self.last = sequence;
        let fences = batch
            .entries
            .first()
            .is_some_and(|first| matches!(first, LogEntry::Fence { epoch } if *epoch > self.epoch));
        if batch.epoch < self.epoch || (batch.epoch > self.epoch && !fences) {
            return false;
        }
        self.tick = self.tick.max(batch.tick);
        batch.entries.iter().for_each(|entry| self.apply_entry(sequence, entry));
        true
    }

    fn apply_entry(&mut self, sequence: u64, entry: &LogEntry) {
        match entry {
            LogEntry::Fence { epoch } => self.epoch = self.epoch.max(*epoch),
            LogEntry::Out { object, epoch, to, state, sequence: first } => {
                let id = ObjectId(*object);
                // In a snapshot it may have come back already.
                if self.objects.get(&id).is_none_or(|it| it.epoch < *epoch) {
                    self.leave(id);
                }
                let (sequence, state) = (first.unwrap_or(sequence), state.clone());
                self.pending.insert(id, PendingOut { epoch: *epoch, to: *to, sequence, state });
            }
            LogEntry::In { object, epoch, from, sequence, state } => {
                let id = ObjectId(*object);
                if let Some(state) = state {
                    self.come(id, *epoch, state);
                }
                self.accept((id, *from), *epoch, *sequence);
            }
            LogEntry::Done { object, epoch } => {
                let id = ObjectId(*object);
                if self.pending.get(&id).is_some_and(|it| it.epoch <= *epoch) {
                    self.pending.remove(&id);
                }
            }
            LogEntry::Amend { object, epoch, state } => {
                let pending = self.pending.get_mut(&ObjectId(*object));
                if let Some(pending) = pending.filter(|it| it.epoch == *epoch) {
                    pending.state = state.clone();
                }
            }
            LogEntry::Checkpoint { object, epoch, state } => match state {
                Some(state) => self.come(ObjectId(*object), *epoch, state),
                None => self.leave(ObjectId(*object)),
            },
            LogEntry::Accepted { object, epoch, from, sequence } => {
                self.accept((ObjectId(*object), *from), *epoch, *sequence);
            }
            LogEntry::Begin => {}
            LogEntry::Close => self.closed = true,
            LogEntry::End { begun } => {
                let begun = if *begun == 0 { sequence } else { *begun };
                self.complete |= begun >= self.first;
                // The snapshot before this one stays, for followers that are late.
                (self.needed_from, self.begun) = (self.begun, begun);
                let tick = self.tick;
                self.gone.retain(|_, gone| tick.saturating_sub(*gone) < REMEMBERED);
            }
        }
    }

    fn come(&mut self, id: ObjectId, epoch: u32, state: &ObjectState) {
        self.gone.remove(&id);
        self.objects.insert(id, Logged { epoch, state: state.clone() });
    }

    fn leave(&mut self, id: ObjectId) {
        self.objects.remove(&id);
        self.gone.insert(id, self.tick);
    }

    fn accept(&mut self, key: (ObjectId, RegionId), epoch: u32, sequence: u64) {
        if self.accepted.get(&key).is_none_or(|it| it.epoch < epoch) {
            self.accepted.insert(key, AcceptedIn { epoch, sequence });
        }
    }

    /// Whether the log shows that an object arrived in this epoch, or a later one.
    pub fn has_accepted(&self, object: ObjectId, epoch: u32) -> bool {
        let from = (object, RegionId(0))..=(object, RegionId(u32::MAX));
        self.accepted.range(from).any(|(_, it)| it.epoch >= epoch)
    }

    /// Forgets objects that were taken in and whose giver, whose log is `from`, has logged `Done`.
    pub fn forget_done(&mut self, region: RegionId, from: &LogView) {
        if self.accepted.is_empty() || !from.complete {
            return;
        }
        self.accepted.retain(|(id, from_region), it| {
            *from_region != region
                || from.last < it.sequence
                || from.pending.get(id).is_some_and(|pending| pending.epoch <= it.epoch)
        });
    }
}

/// Reads an append to a log.
pub fn read_batch(bytes: &[u8]) -> Result<(AppendId, LogBatch), RecordError> {
    read_record(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::layout::ServerId;
    use crate::region::ledger::write_record;

    const A: RegionId = RegionId(1);
    const B: RegionId = RegionId(2);
    const X: u64 = 7;

    fn state(tick: u32) -> Option<ObjectState> {
        Some(ObjectState { tick, lanes: vec![tick as i32], marks: Vec::new() })
    }

    fn batch(epoch: u32, entries: Vec<LogEntry>) -> LogBatch {
        LogBatch { epoch, tick: 0, entries }
    }

    fn out(epoch: u32) -> LogEntry {
        LogEntry::Out { object: X, epoch, to: B, state: state(1), sequence: None }
    }

    #[test]
    fn a_closed_log_keeps_what_was_taken_in_until_its_giver_is_done() {
        let mut view = LogView::default();
        let fence = LogEntry::Fence { epoch: 1 };
        let taken = LogEntry::In { object: X, epoch: 1, from: A, sequence: 1, state: state(1) };
        assert!(view.apply(1, &batch(1, vec![fence, taken])) && !view.closed);
        let gone = LogEntry::Out { object: X, epoch: 2, to: A, state: state(2), sequence: None };
        let done = LogEntry::Done { object: X, epoch: 2 };
        assert!(view.apply(2, &batch(1, vec![gone, done, LogEntry::Close])) && view.closed);
        assert!(view.has_accepted(ObjectId(X), 1), "its giver need not give it to another region");
        assert!(!view.has_accepted(ObjectId(X), 3), "what came later it never takes in");
    }

    #[test]
    fn nothing_counts_that_a_fenced_owner_appends() {
        let mut view = LogView::default();
        assert!(view.apply(1, &batch(1, vec![LogEntry::Fence { epoch: 1 }])));
        assert_eq!(view.epoch, 1);
        let checkpoint = |tick| LogEntry::Checkpoint { object: X, epoch: 0, state: state(tick) };
        assert!(view.apply(2, &batch(1, vec![checkpoint(5)])));
        assert!(!view.apply(2, &batch(1, vec![checkpoint(6)])), "read before");
        assert!(!view.apply(3, &batch(2, vec![checkpoint(6)])), "not fenced");
        assert!(view.apply(4, &batch(2, vec![LogEntry::Fence { epoch: 2 }])));
        assert!(!view.apply(5, &batch(1, vec![out(1)])), "a zombie's");
        assert_eq!(view.objects[&ObjectId(X)].state.tick, 5);
        assert_eq!((view.last, view.epoch), (5, 2));
    }

    #[test]
    fn what_happens_to_an_object_after_its_out_amends_the_transfer() {
        let mut view = LogView::default();
        view.apply(1, &batch(1, vec![LogEntry::Fence { epoch: 1 }, out(1)]));
        let later = LogEntry::Amend { object: X, epoch: 1, state: state(9) };
        view.apply(2, &batch(1, vec![later]));
        assert_eq!(view.pending[&ObjectId(X)].state, state(9));
        assert_eq!(view.pending[&ObjectId(X)].sequence, 1);
        let removed = LogEntry::Amend { object: X, epoch: 1, state: None };
        view.apply(3, &batch(1, vec![removed]));
        assert_eq!(view.pending[&ObjectId(X)].state, None, "removal travels as a removal");
        assert!(view.objects.is_empty());
        view.apply(4, &batch(1, vec![LogEntry::Done { object: X, epoch: 1 }]));
        assert!(view.pending.is_empty());
        let mut late = LogView::default();
        let later = LogEntry::Amend { object: X, epoch: 1, state: state(9) };
        late.apply(3, &batch(1, vec![LogEntry::Begin, later]));
        assert!(late.objects.is_empty(), "a follower that has not read the Out");
    }

    #[test]
    fn an_arrival_is_remembered_until_the_giver_is_done() {
        let (mut giver, mut taker) = (LogView::default(), LogView::default());
        let fence = LogEntry::Fence { epoch: 1 };
        let arrived = LogEntry::In { object: X, epoch: 1, from: A, sequence: 1, state: state(2) };
        taker.apply(1, &batch(1, vec![fence.clone(), arrived]));
        taker.forget_done(A, &giver);
        assert!(taker.has_accepted(ObjectId(X), 1), "the giver's log was not read so far yet");
        let whole = [LogEntry::Begin, LogEntry::End { begun: 0 }];
        giver.apply(1, &batch(1, [vec![fence], whole.clone().into(), vec![out(1)]].concat()));
        taker.forget_done(A, &giver);
        assert!(taker.has_accepted(ObjectId(X), 1));
        giver.apply(2, &batch(1, vec![LogEntry::Done { object: X, epoch: 1 }]));
        taker.forget_done(B, &giver);
        assert!(taker.has_accepted(ObjectId(X), 1), "another region's log");
        let again = LogEntry::In { object: X, epoch: 9, from: B, sequence: 1, state: state(2) };
        taker.apply(2, &batch(1, vec![again]));
        taker.forget_done(A, &giver);
        assert!(taker.has_accepted(ObjectId(X), 9), "another giver's");
        let mut other = LogView::default();
        other.apply(1, &batch(1, [vec![LogEntry::Fence { epoch: 1 }], whole.into()].concat()));
        taker.forget_done(B, &other);
        assert!(!taker.has_accepted(ObjectId(X), 1));
    }

    #[test]
    fn a_late_follower_begins_with_the_snapshot_that_is_kept() {
        let mut view = LogView::default();
        view.apply(1, &batch(5, vec![LogEntry::Fence { epoch: 5 }]));
        let checkpoint = LogEntry::Checkpoint { object: X, epoch: 4, state: state(2) };
        let whole = vec![LogEntry::Begin, checkpoint, LogEntry::End { begun: 0 }];
        for mut view in [view, LogView::default()] {
            assert!(
                view.apply(9, &batch(3, whole.clone())),
                "written before the epoch that it knew"
            );
            assert!(view.complete && view.objects.contains_key(&ObjectId(X)));
            assert!(view.apply(10, &batch(6, vec![LogEntry::Fence { epoch: 6 }])));
            assert_eq!((view.epoch, view.last), (6, 10));
        }
    }

    #[test]
    fn the_rest_of_a_snapshot_is_none() {
        let mut view = LogView::default();
        view.apply(7, &batch(2, vec![LogEntry::Fence { epoch: 2 }]));
        view.apply(8, &batch(2, vec![LogEntry::End { begun: 6 }]));
        assert!(!view.complete, "its beginning was not read");
        view.apply(9, &batch(2, vec![LogEntry::Begin]));
        view.apply(10, &batch(2, vec![LogEntry::End { begun: 9 }]));
        assert!(view.complete);
    }

    #[test]
    fn one_giver_that_is_done_does_not_speak_for_another() {
        let (mut slow, mut quick, mut taker) =
            (LogView::default(), LogView::default(), LogView::default());
        let begin =
            || vec![LogEntry::Fence { epoch: 1 }, LogEntry::Begin, LogEntry::End { begun: 0 }];
        slow.apply(1, &batch(1, [begin(), vec![out(1)]].concat()));
        quick.apply(1, &batch(1, begin()));
        let arrived =
            |epoch, from| LogEntry::In { object: X, epoch, from, sequence: 1, state: None };
        let third = RegionId(3);
        taker.apply(1, &batch(1, [begin(), vec![arrived(1, A), arrived(3, third)]].concat()));
        taker.forget_done(third, &quick);
        assert!(taker.has_accepted(ObjectId(X), 1), "its first giver may still repeat it");
        taker.forget_done(A, &slow);
        assert!(taker.has_accepted(ObjectId(X), 1));
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let entries = vec![LogEntry::Fence { epoch: 1 }, out(3), LogEntry::Begin];
        let id = AppendId { server: ServerId(3), number: 4 };
        let bytes = write_record(&(id, batch(1, entries.clone())));
        assert_eq!(read_batch(&bytes), Ok((id, batch(1, entries))));
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..20_000 {
            let mut bent = bytes.clone();
            let at = rng.usize(..bent.len());
            bent[at] = rng.u8(..);
            bent.truncate(rng.usize(..=bent.len()));
            if let Ok((_, batch)) = read_batch(&bent) {
                LogView::default().apply(1, &batch);
            }
        }
    }
}
