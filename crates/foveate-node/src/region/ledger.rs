//! What servers agree by: append-only subjects with compare-and-set, and how a server asks for them.
//!
//! A server never calls a ledger: it emits a [`LedgerRequest`], and its host brings [`LedgerAnswer`]s and the
//! entries of the subjects that it follows. Both may be late, and answers may be lost: an append that is not
//! answered is repeated with the same bytes at the same sequence number, which applies it at most once. An entry is
//! recognised as one's own by its first bytes: server and append number.
//!
//! **Nothing is decided by reading**, only by appending: what was read may be old, what was appended is a fact.

use super::layout::{RegionId, ServerId};
use foveate_wire::Micros;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// Bytes of a record at most.
pub const MAX_RECORD: usize = 256 * 1024;
/// An append that is not answered is repeated after this.
pub const RETRY_AFTER: Micros = Micros(400_000);

/// What entries are appended to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum Subject {
    /// The world's layout; the newest entry counts.
    Layout,
    /// A server's signs of life.
    Server(ServerId),
    /// A region's log.
    Log(RegionId),
    /// Where a player is, by number; the newest entry counts.
    Player(u32),
}

/// Bytes that are no record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum RecordError {
    /// Too long.
    #[error("it has {0} bytes, at most {MAX_RECORD} are allowed")]
    TooLong(usize),
    /// Not what the type says.
    #[error("it is malformed")]
    Malformed,
    /// Something follows the record.
    #[error("{0} bytes follow it")]
    Trailing(usize),
}

/// Writes a record.
pub fn write_record<T: Serialize>(record: &T) -> Vec<u8> {
    // Fails only for types that postcard cannot write at all, which ours are not.
    postcard::to_allocvec(record).unwrap_or_default()
}

/// Reads a record; all of the bytes must be used.
pub fn read_record<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, RecordError> {
    if bytes.len() > MAX_RECORD {
        return Err(RecordError::TooLong(bytes.len()));
    }
    match postcard::take_from_bytes(bytes) {
        Ok((record, [])) => Ok(record),
        Ok((_, rest)) => Err(RecordError::Trailing(rest.len())),
        Err(_) => Err(RecordError::Malformed),
    }
}

/// Who appended an entry: the server, and which of its appends it was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct AppendId {
    /// The server.
    pub server: ServerId,
    /// Its running number.
    pub number: u64,
}

/// What a server asks of the ledger.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LedgerRequest {
    /// Append these bytes if the subject's last sequence number is `last`; 0: there is no entry.
    Append {
        /// Comes back with the answer.
        request: u64,
        /// Where.
        subject: Subject,
        /// The condition.
        last: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// From now on hand over every entry of a subject, in order, without gaps, from the first one that is kept.
    Follow(Subject),
    /// Hand over no more entries of a subject. A later `Follow` begins with the first one that is kept.
    Unfollow(Subject),
    /// Entries of a subject before this one are not needed any more. The last entry is always kept.
    Truncate(Subject, u64),
}

/// What became of an append.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LedgerAnswer {
    /// Applied, as this entry.
    Appended(u64),
    /// Not applied now: the subject's last entry is this one. It may have been applied by an earlier try.
    Conflict(u64),
}

/// An append on its way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    /// Where.
    pub subject: Subject,
    /// Its own id, which its bytes begin with.
    pub id: AppendId,
    last: u64,
    bytes: Vec<u8>,
    /// When it was first asked for.
    pub since: Micros,
    tried: Micros,
    /// The ledger says that the subject has gone on to this entry.
    conflict: Option<u64>,
}

/// How an append ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    /// It is this entry.
    Appended(u64),
    /// Another entry took its place.
    Lost,
}

/// One server's appends: at most one on its way for each subject.
#[derive(Debug)]
pub struct Appends {
    server: ServerId,
    numbers: u64,
    pending: BTreeMap<Subject, Pending>,
}

impl Appends {
    /// None yet.
    pub fn new(server: ServerId) -> Appends {
        Appends { server, numbers: 0, pending: BTreeMap::new() }
    }

    /// The append on its way for a subject.
    pub fn pending(&self, subject: Subject) -> Option<&Pending> {
        self.pending.get(&subject)
    }

    /// Asks for an append after entry `last`, unless one is on its way. `body` follows the append's id.
    pub fn append<T: Serialize>(
        &mut self,
        (subject, last): (Subject, u64),
        body: &T,
        now: Micros,
    ) -> Option<LedgerRequest> {
        if self.pending.contains_key(&subject) {
            return None;
        }
        self.numbers += 1;
        let id = AppendId { server: self.server, number: self.numbers };
        let bytes = write_record(&(id, body));
        let request =
            LedgerRequest::Append { request: id.number, subject, last, bytes: bytes.clone() };
        let pending = Pending { subject, id, last, bytes, since: now, tried: now, conflict: None };
        self.pending.insert(subject, pending);
        Some(request)
    }

    /// Forgets the append of a subject, whatever becomes of it.
    pub fn forget(&mut self, subject: Subject) {
        self.pending.remove(&subject);
    }

    /// Repeats what was not answered.
    pub fn retry(&mut self, now: Micros, mut ask: impl FnMut(LedgerRequest)) {
        for it in self.pending.values_mut() {
            if it.conflict.is_none() && now - it.tried >= RETRY_AFTER {
                it.tried = now;
                let (subject, last, bytes) = (it.subject, it.last, it.bytes.clone());
                ask(LedgerRequest::Append { request: it.id.number, subject, last, bytes });
            }
        }
    }

    /// An answer came. `read`: the last entry of the subject that this server has read.
    pub fn on_answer(&mut self, request: u64, answer: LedgerAnswer) -> Option<(Pending, Settled)> {
        let subject = self.pending.values().find(|it| it.id.number == request)?.subject;
        match answer {
            LedgerAnswer::Appended(at) => {
                let pending = self.pending.remove(&subject)?;
                Some((pending, Settled::Appended(at)))
            }
            LedgerAnswer::Conflict(last) => {
                let pending = self.pending.get_mut(&subject)?;
                pending.conflict = Some(last);
                None
            }
        }
    }

    /// An entry was read. Settles the append of its subject if the entry took the place that it asked for.
    pub fn on_entry(
        &mut self,
        subject: Subject,
        sequence: u64,
        by: AppendId,
    ) -> Option<(Pending, Settled)> {
        let pending = self.pending.get(&subject)?;
        if sequence <= pending.last {
            return None;
        }
        let settled = match by == pending.id {
            true => Settled::Appended(sequence),
            false => Settled::Lost,
        };
        self.pending.remove(&subject).map(|pending| (pending, settled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: Subject = Subject::Log(RegionId(3));

    fn appends() -> Appends {
        Appends::new(ServerId(1))
    }

    #[test]
    fn an_unanswered_append_is_repeated_with_the_same_bytes_at_the_same_place() {
        let mut appends = appends();
        let first = appends.append((LOG, 7), &42u32, Micros(0)).unwrap();
        assert_eq!(appends.append((LOG, 7), &43u32, Micros(0)), None, "one at a time");
        let mut again = Vec::new();
        appends.retry(Micros(399_999), |request| again.push(request));
        assert!(again.is_empty());
        appends.retry(Micros(400_000), |request| again.push(request));
        assert_eq!(again, [first]);
    }

    #[test]
    fn a_conflict_waits_for_what_is_read_and_ones_own_entry_is_a_success() {
        for (by, settled) in [(1, Settled::Appended(8)), (2, Settled::Lost)] {
            let mut appends = appends();
            appends.append((LOG, 7), &42u32, Micros(0)).unwrap();
            assert!(appends.on_answer(1, LedgerAnswer::Conflict(8)).is_none());
            let old = AppendId { server: ServerId(9), number: 1 };
            assert!(appends.on_entry(LOG, 7, old).is_none(), "it was there before");
            let id = AppendId { server: ServerId(by), number: 1 };
            assert_eq!(appends.on_entry(LOG, 8, id).unwrap().1, settled);
            assert!(appends.pending(LOG).is_none());
        }
    }

    #[test]
    fn records_are_bounded_and_nothing_may_follow_them() {
        let mut bytes = write_record(&(7u32, vec![1u8, 2, 3]));
        assert_eq!(read_record::<(u32, Vec<u8>)>(&bytes), Ok((7, vec![1, 2, 3])));
        bytes.push(0);
        assert_eq!(read_record::<(u32, Vec<u8>)>(&bytes), Err(RecordError::Trailing(1)));
        assert_eq!(read_record::<u32>(&[0x80]), Err(RecordError::Malformed));
        let long = vec![0; MAX_RECORD + 1];
        assert_eq!(read_record::<u32>(&long), Err(RecordError::TooLong(MAX_RECORD + 1)));
    }
}
