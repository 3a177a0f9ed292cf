//! A ledger in virtual time: late, away, forgetful of answers, but never wrong.

use foveate_node::region::layout::ServerId;
use foveate_node::region::ledger::{LedgerAnswer, Subject};
use foveate_wire::Micros;
use std::collections::BTreeMap;

/// Entries of one subject.
#[derive(Clone, Debug, Default)]
struct Entries {
    /// All there ever were; entry 1 is the first.
    all: Vec<Vec<u8>>,
    /// Followers are not shown what is before this one.
    kept_from: u64,
}

/// A follower's place.
#[derive(Clone, Copy, Debug)]
struct Follower {
    next: u64,
    /// Nothing arrives before this: entries come in order.
    ready: Micros,
}

/// The ledger.
#[derive(Clone, Debug, Default)]
pub struct SimLedger {
    subjects: BTreeMap<Subject, Entries>,
    followers: BTreeMap<(ServerId, Subject), Follower>,
}

impl SimLedger {
    /// Applies an append. `checked`: only if `last` is the last entry, as a sound ledger does.
    pub fn append(
        &mut self,
        subject: Subject,
        last: u64,
        bytes: Vec<u8>,
        checked: bool,
    ) -> LedgerAnswer {
        let entries = self.subjects.entry(subject).or_default();
        let at = entries.all.len() as u64;
        if checked && at != last {
            return LedgerAnswer::Conflict(at);
        }
        entries.all.push(bytes);
        LedgerAnswer::Appended(at + 1)
    }

    /// Entries before this one are not shown any more.
    pub fn truncate(&mut self, subject: Subject, from: u64) {
        if let Some(entries) = self.subjects.get_mut(&subject) {
            let last = entries.all.len() as u64;
            entries.kept_from = entries.kept_from.max(from.min(last));
        }
    }

    /// A server follows a subject from now on.
    pub fn follow(&mut self, server: ServerId, subject: Subject, now: Micros) {
        self.followers.entry((server, subject)).or_insert(Follower { next: 1, ready: now });
    }

    /// A server does not follow a subject any more.
    pub fn unfollow(&mut self, server: ServerId, subject: Subject) {
        self.followers.remove(&(server, subject));
    }

    /// All subjects that were appended to.
    pub fn subjects(&self) -> impl Iterator<Item = Subject> + '_ {
        self.subjects.keys().copied()
    }

    /// A server is gone.
    pub fn forget(&mut self, server: ServerId) {
        self.followers.retain(|(follower, _), _| *follower != server);
    }

    /// Those who follow a subject.
    pub fn followers(&self, subject: Subject) -> Vec<ServerId> {
        let all = self.followers.keys().filter(|(_, followed)| *followed == subject);
        all.map(|(server, _)| *server).collect()
    }

    /// When what is sent now, and takes so long, arrives at a follower: nothing overtakes.
    pub fn arrives(&mut self, server: ServerId, subject: Subject, at: Micros) -> Micros {
        let Some(follower) = self.followers.get_mut(&(server, subject)) else { return at };
        follower.ready = follower.ready.max(at);
        follower.ready
    }

    /// The entries that a follower has not been handed.
    pub fn take(&mut self, server: ServerId, subject: Subject) -> Vec<(u64, Vec<u8>)> {
        let Some(entries) = self.subjects.get(&subject) else { return Vec::new() };
        let Some(follower) = self.followers.get_mut(&(server, subject)) else { return Vec::new() };
        let first = follower.next.max(entries.kept_from);
        let fresh = entries.all.iter().enumerate().skip(first.saturating_sub(1) as usize);
        let fresh: Vec<_> = fresh.map(|(at, bytes)| (at as u64 + 1, bytes.clone())).collect();
        follower.next = entries.all.len() as u64 + 1;
        fresh
    }

    /// All entries there ever were.
    pub fn history(&self, subject: Subject) -> impl Iterator<Item = (u64, &[u8])> {
        let entries = self.subjects.get(&subject).into_iter().flat_map(|it| it.all.iter());
        entries.enumerate().map(|(at, bytes)| (at as u64 + 1, bytes.as_slice()))
    }

    /// How many entries there are.
    pub fn len(&self, subject: Subject) -> u64 {
        self.subjects.get(&subject).map_or(0, |it| it.all.len() as u64)
    }
}
