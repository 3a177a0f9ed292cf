//! Records of a shared ledger: tagged with the world's key, numbered by subject.
//!
//! A broker numbers the entries of all subjects in one sequence, and any client with write access can add entries. So
//! each record carries its number within its subject and a tag over both. A [`RecordBook`] ignores entries without a
//! valid tag, and entries whose number is not higher than all before; all servers ignore the same ones. An append then
//! names the broker's sequence number, the *place*, of the subject's last entry.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foveate_node::region::ledger::Subject;
use foveate_wire::packet::VERSION as WIRE;
use ring::hmac;

use super::seal::SEAL_VERSION;
use super::{LedgerReply, WorldKey, subject_text};

/// The most records of a log whose places are known. Beyond, the oldest are forgotten, and the log cannot be truncated
/// before them.
pub const MAX_PLACES: usize = 65_536;
/// Subjects other than logs, of which only the last entry counts, hold this many of the newest for followers.
const KEPT: usize = 64;
/// Bytes of version, wire version and number.
const HEADER: usize = 2 + 8;
const TAG: usize = 32;

/// Why an entry is ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecordTrouble {
    /// It was not made with the world's key, or was altered.
    #[error("it was not made with this world's key")]
    Forged,
    /// Its number was read before.
    #[error("it repeats entry {0}")]
    Repeated(u64),
    /// Another version of the program made it.
    #[error(
        "it has version {found}.{wire}, this server reads {SEAL_VERSION}.{WIRE}; run the same version"
    )]
    Version {
        /// The version of records.
        found: u8,
        /// The version of the wire.
        wire: u8,
    },
}

/// How far a subject has been read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Chain {
    /// The number of the last record.
    number: u64,
    /// The place of the last entry, ignored ones included.
    end: u64,
    /// The last record that this server appended: number and place.
    appended: Option<(u64, u64)>,
    /// Numbers and places of the records of a log, oldest first.
    places: VecDeque<(u64, u64)>,
}

/// What is known of a world's records.
pub struct RecordBook {
    key: hmac::Key,
    chains: BTreeMap<Subject, Chain>,
    followed: BTreeSet<Subject>,
    held: BTreeMap<Subject, VecDeque<(u64, Vec<u8>)>>,
    /// Logs that are read again up to a place, and the entries that came since.
    catching: BTreeMap<Subject, (u64, Vec<LedgerReply>)>,
    ready: VecDeque<LedgerReply>,
}

impl RecordBook {
    /// Nothing was read yet.
    pub fn new(key: &WorldKey) -> RecordBook {
        RecordBook {
            key: key.records(),
            chains: BTreeMap::new(),
            followed: BTreeSet::new(),
            held: BTreeMap::new(),
            catching: BTreeMap::new(),
            ready: VecDeque::new(),
        }
    }

    /// The bytes that a record's tag covers.
    fn tagged(subject: Subject, bytes: &[u8]) -> Vec<u8> {
        [subject_text(subject).as_bytes(), &[0], bytes].concat()
    }

    /// A record with this number.
    pub fn seal(&self, subject: Subject, number: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER + body.len() + TAG);
        bytes.extend([SEAL_VERSION, WIRE]);
        bytes.extend(number.to_le_bytes());
        bytes.extend(body);
        self.tag(subject, bytes)
    }

    /// Bytes followed by their tag.
    fn tag(&self, subject: Subject, mut bytes: Vec<u8>) -> Vec<u8> {
        let tag = hmac::sign(&self.key, &RecordBook::tagged(subject, &bytes));
        bytes.extend(tag.as_ref());
        bytes
    }

    /// The number and the body of a record.
    fn open<'a>(
        &self,
        subject: Subject,
        bytes: &'a [u8],
    ) -> Result<(u64, &'a [u8]), RecordTrouble> {
        let forged = RecordTrouble::Forged;
        let at = bytes.len().checked_sub(TAG).filter(|at| *at >= HEADER).ok_or(forged)?;
        let (signed, tag) = bytes.split_at(at);
        let (found, wire) = (signed[0], signed[1]);
        // The tag comes first in every version, and says whether the record is this world's.
        let tagged = RecordBook::tagged(subject, signed);
        hmac::verify(&self.key, &tagged, tag).map_err(|_| forged)?;
        if (found, wire) != (SEAL_VERSION, WIRE) {
            return Err(RecordTrouble::Version { found, wire });
        }
        let mut number = [0; 8];
        number.copy_from_slice(&signed[2..HEADER]);
        Ok((u64::from_le_bytes(number), &signed[HEADER..]))
    }

    /// An entry was read, in the broker's order; `place` is its sequence number there.
    pub fn on_entry(
        &mut self,
        subject: Subject,
        place: u64,
        bytes: &[u8],
    ) -> Result<(), RecordTrouble> {
        let opened = self.open(subject, bytes);
        let chain = self.chains.entry(subject).or_default();
        if place <= chain.end {
            // The reader began anew.
            return Ok(());
        }
        chain.end = place;
        let (number, body) = opened?;
        if number <= chain.number {
            return Err(RecordTrouble::Repeated(number));
        }
        chain.number = number;
        if matches!(subject, Subject::Log(_)) {
            chain.places.push_back((number, place));
        }
        if chain.places.len() > MAX_PLACES {
            chain.places.pop_front();
        }
        let log = matches!(subject, Subject::Log(_));
        if !log {
            let held = self.held.entry(subject).or_default();
            held.push_back((number, body.to_vec()));
            if held.len() > KEPT {
                held.pop_front();
            }
        }
        let entry = || LedgerReply::Entry(subject, number, body.to_vec());
        if let Some((_, waiting)) = self.catching.get_mut(&subject) {
            waiting.push(entry());
        } else if self.followed.contains(&subject) {
            self.ready.push_back(entry());
        }
        Ok(())
    }

    /// From now on the server gets the entries of a subject. If part of a log was read before, returns the place up to
    /// which the caller reads it again; [`RecordBook::caught_up`] takes those entries.
    pub fn follow(&mut self, subject: Subject) -> Option<u64> {
        if !self.followed.insert(subject) {
            return None;
        }
        let held = self.held.get(&subject).into_iter().flatten();
        let held = held.map(|(at, bytes)| LedgerReply::Entry(subject, *at, bytes.clone()));
        self.ready.extend(held);
        let log = matches!(subject, Subject::Log(_));
        let passed = self.chains.get(&subject).map_or(0, |chain| chain.end);
        if !log || passed == 0 {
            return None;
        }
        self.catching.insert(subject, (passed, Vec::new()));
        Some(passed)
    }

    /// The server gets no more entries of a subject.
    pub fn unfollow(&mut self, subject: Subject) {
        self.followed.remove(&subject);
        self.catching.remove(&subject);
        self.ready.retain(|it| !matches!(it, LedgerReply::Entry(of, ..) if *of == subject));
    }

    /// The entries of a log up to the place that [`RecordBook::follow`] returned, in order.
    pub fn caught_up(&mut self, subject: Subject, place: u64, entries: &[(u64, Vec<u8>)]) {
        // It may have been followed anew meanwhile.
        if self.catching.get(&subject).is_none_or(|it| it.0 != place) {
            return;
        }
        let Some((_, waiting)) = self.catching.remove(&subject) else { return };
        let mut last = 0;
        for (_, bytes) in entries {
            // Ignored entries were counted when they were read the first time.
            if let Ok((number, body)) = self.open(subject, bytes)
                && number > last
            {
                last = number;
                self.ready.push_back(LedgerReply::Entry(subject, number, body.to_vec()));
            }
        }
        self.ready.extend(waiting);
    }

    /// The next entry for the server.
    pub fn poll(&mut self) -> Option<LedgerReply> {
        self.ready.pop_front()
    }

    /// The place of a subject's last entry, which an append after record `last` names. None: `last` is not the last
    /// record, or its place is not known yet.
    pub fn place_of(&self, subject: Subject, last: u64) -> Option<u64> {
        let Some(chain) = self.chains.get(&subject) else { return (last == 0).then_some(0) };
        match chain.appended {
            _ if chain.number == last => Some(chain.end),
            Some((number, place)) if number == last => Some(place),
            _ => None,
        }
    }

    /// The place of a record, for dropping the entries before it. Past the end it is the last record's place, so that
    /// one entry always stays. Forgets the earlier places.
    pub fn place_at(&mut self, subject: Subject, number: u64) -> Option<u64> {
        let places = &mut self.chains.get_mut(&subject)?.places;
        while places.len() > 1 && places.front().is_some_and(|(known, _)| *known < number) {
            places.pop_front();
        }
        places.front().map(|(_, place)| *place)
    }

    /// This server appended a record, which got a place.
    pub fn on_appended(&mut self, subject: Subject, number: u64, place: u64) {
        self.chains.entry(subject).or_default().appended = Some((number, place));
    }

    /// The number of the last record of a subject that was read; 0: none.
    pub fn last(&self, subject: Subject) -> u64 {
        self.chains.get(&subject).map_or(0, |chain| chain.number)
    }
}

/// A record as the next version of the wire would write it.
#[cfg(test)]
pub(super) fn of_another_version(book: &RecordBook, subject: Subject, number: u64) -> Vec<u8> {
    let mut bytes = book.seal(subject, number, b"of another version");
    bytes.truncate(bytes.len() - TAG);
    bytes[1] = WIRE + 1;
    book.tag(subject, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foveate_node::region::layout::{RegionId, ServerId};

    const LOG: Subject = Subject::Log(RegionId(3));

    fn key(world: &str, byte: u8) -> WorldKey {
        WorldKey::new(&world.parse().unwrap(), &[byte; 32]).unwrap()
    }

    fn entries(book: &mut RecordBook) -> Vec<(u64, Vec<u8>)> {
        std::iter::from_fn(|| book.poll())
            .map(|reply| match reply {
                LedgerReply::Entry(_, number, bytes) => (number, bytes),
                LedgerReply::Answer(..) => panic!("a book answers nothing"),
            })
            .collect()
    }

    #[test]
    fn records_come_in_order_from_the_first_that_is_kept_whenever_they_are_followed() {
        let (mut early, mut late) = (RecordBook::new(&key("w", 1)), RecordBook::new(&key("w", 1)));
        assert_eq!(early.follow(LOG), None, "nothing has passed");
        let mut kept = Vec::new();
        for number in 5..9u64 {
            let bytes = early.seal(LOG, number, &[number as u8]);
            assert_eq!(early.on_entry(LOG, 10 * number, &bytes), Ok(()));
            assert_eq!(late.on_entry(LOG, 10 * number, &bytes), Ok(()));
            assert_eq!(late.on_entry(LOG, 10 * number, &bytes), Ok(()), "read anew");
            kept.push((10 * number, bytes));
        }
        let ninth = early.seal(LOG, 9, &[9]);
        early.on_entry(LOG, 90, &ninth).unwrap();
        assert_eq!(late.follow(LOG), Some(80));
        late.on_entry(LOG, 90, &ninth).unwrap();
        assert!(late.poll().is_none(), "what was before comes first");
        late.caught_up(LOG, 80, &kept);
        let expected: Vec<_> = (5..10u64).map(|number| (number, vec![number as u8])).collect();
        assert_eq!((entries(&mut early), entries(&mut late)), (expected.clone(), expected));
        assert_eq!((early.place_of(LOG, 9), early.place_of(LOG, 7)), (Some(90), None));
        assert_eq!((early.place_at(LOG, 7), early.place_at(LOG, 99)), (Some(70), Some(90)));
        late.unfollow(LOG);
        let tenth = early.seal(LOG, 10, b"");
        late.on_entry(LOG, 100, &tenth).unwrap();
        assert!(late.poll().is_none());
        assert_eq!(late.follow(LOG), Some(100), "and from the first again");
    }

    #[test]
    fn of_signs_of_life_the_newest_are_held_for_all_who_follow() {
        let mut book = RecordBook::new(&key("w", 1));
        let subject = Subject::Server(ServerId(1));
        for number in 1..=100 {
            let bytes = book.seal(subject, number, b"alive");
            book.on_entry(subject, number, &bytes).unwrap();
        }
        for _ in 0..2 {
            assert_eq!(book.follow(subject), None);
            let numbers: Vec<u64> = entries(&mut book).iter().map(|it| it.0).collect();
            assert_eq!(numbers, (37..=100).collect::<Vec<_>>());
            book.unfollow(subject);
        }
    }

    #[test]
    fn strangers_entries_count_for_nothing_and_appends_go_behind_them() {
        let mut book = RecordBook::new(&key("w", 1));
        book.follow(LOG);
        let first = book.seal(LOG, 1, b"fence");
        book.on_entry(LOG, 4, &first).unwrap();
        let others = [RecordBook::new(&key("w", 2)), RecordBook::new(&key("v", 1))];
        for (place, other) in (5..).zip(&others) {
            let forged = other.seal(LOG, 2, b"I am the owner");
            assert_eq!(book.on_entry(LOG, place, &forged), Err(RecordTrouble::Forged));
        }
        let elsewhere = book.seal(Subject::Log(RegionId(4)), 2, b"of another region");
        assert_eq!(book.on_entry(LOG, 7, &elsewhere), Err(RecordTrouble::Forged));
        assert_eq!(book.on_entry(LOG, 8, &first), Err(RecordTrouble::Repeated(1)), "replayed");
        assert_eq!(book.on_entry(LOG, 9, b""), Err(RecordTrouble::Forged));
        assert_eq!(book.place_of(LOG, 1), Some(9), "behind all of them");
        let second = book.seal(LOG, 2, b"goes on");
        book.on_entry(LOG, 10, &second).unwrap();
        assert_eq!(entries(&mut book), [(1, b"fence".to_vec()), (2, b"goes on".to_vec())]);
    }

    #[test]
    fn a_record_of_another_version_is_named_and_one_with_a_bent_bit_is_forged() {
        let mut book = RecordBook::new(&key("w", 1));
        let bytes = book.seal(LOG, 1, b"layout");
        for bit in 0..bytes.len() * 8 {
            let mut bent = bytes.clone();
            bent[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(book.open(LOG, &bent), Err(RecordTrouble::Forged), "bit {bit}");
        }
        let newer = of_another_version(&book, LOG, 1);
        let version = RecordTrouble::Version { found: SEAL_VERSION, wire: WIRE + 1 };
        assert_eq!(book.on_entry(LOG, 1, &newer), Err(version));
    }

    #[test]
    fn an_append_may_follow_ones_own_before_it_was_read() {
        let mut book = RecordBook::new(&key("w", 1));
        let subject = Subject::Server(ServerId(1));
        assert_eq!(book.place_of(subject, 0), Some(0), "a subject without entries");
        book.on_appended(subject, 1, 17);
        assert_eq!(book.place_of(subject, 1), Some(17));
        assert_eq!(book.place_of(subject, 2), None);
    }
}
