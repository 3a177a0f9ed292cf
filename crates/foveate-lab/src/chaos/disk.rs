//! A disk in virtual time behind the shipped [`WriteQueue`]: transactions take time, fail, find no room, are torn by
//! a crash, and what was not synced is lost by a power cut.

use super::Flaw;
use fastrand::Rng;
use foveate_node::game::PlayerId;
use foveate_node::persistence::{
    Batch, JoinAnswer, JoinQuestion, PlayerStorage, RESERVED, Saved, SavedStates, StorageChange,
    StoredPlayer, Taken, TokenId, UnixTime, UsedTokens, WriteQueue,
};
use foveate_node::session::Refusal;
use foveate_wire::{Micros, ObjectId};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// As often as the shipped writer.
const FLUSH_EVERY: Micros = Micros(400_000);
/// And the longest pause between two tries of a storage that is away, shorter than the shipped one so that more
/// happens.
const LONGEST_PAUSE: Micros = Micros(2_000_000);

/// What a database holds.
#[derive(Clone, Default, Debug)]
pub struct Image {
    /// Players' numbers.
    pub players: BTreeMap<String, u32>,
    /// Objects that are kept.
    pub objects: BTreeMap<ObjectId, Arc<[i32]>>,
    tokens: BTreeMap<TokenId, UnixTime>,
    horizon: UnixTime,
    next_id: u64,
}

impl Image {
    /// One transaction, as the shipped one does it: changes, numbers, then players with their tokens.
    fn apply(
        &mut self,
        batch: &Batch,
        tokens: &mut Vec<(TokenId, UnixTime)>,
    ) -> Vec<JoinAnswer<()>> {
        for (id, lanes) in &batch.changes {
            match lanes {
                Some(lanes) => drop(self.objects.insert(*id, Arc::clone(lanes))),
                None => drop(self.objects.remove(id)),
            }
        }
        self.next_id = self.next_id.max(batch.next_id.unwrap_or(0));
        let mut answers = Vec::new();
        for question in &batch.questions {
            let next = self.players.len() as u32 + 1;
            let player = *self.players.entry(question.name.clone()).or_insert(next);
            if let Some((id, until)) = question.token {
                let horizon = self.tokens.values().filter(|until| **until <= question.now).max();
                self.horizon = self.horizon.max(horizon.copied().unwrap_or_default());
                self.tokens.retain(|_, until| *until > question.now);
                tokens.push((id, until));
            }
            let theirs = self.objects.iter().filter(|(id, _)| id.origin() == player);
            let saved = theirs.map(|(id, lanes)| Saved { id: *id, lanes: lanes.to_vec() });
            let player = Ok((PlayerId(player), saved.collect()));
            answers.push(JoinAnswer { question: question.clone(), player });
        }
        answers
    }
}

/// What the disk does to transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mood {
    /// They take a few milliseconds.
    Works,
    /// They fail.
    Fails,
    /// Those that would add anything fail.
    Full,
    /// They take up to a few seconds.
    Slow,
}

/// How a crash hits a transaction that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrashKind {
    /// The process is killed: what was written stays written. The transaction may have landed or not.
    Kill,
    /// The power fails: what was not synced is lost.
    PowerCut,
    /// The power fails while the transaction is being written: half of it is on the disk, and undone at the start.
    Torn,
}

/// The machine's disk: outlives the server's process.
#[derive(Debug)]
pub struct Disk {
    /// What has been synced.
    durable: Image,
    /// What has been written; after a power cut the synced part of it.
    written: Image,
    mood: Mood,
    rng: Rng,
    flaw: Option<Flaw>,
    /// Tokens of answers that were given before the token was written: only with the flaw.
    late_tokens: Vec<(TokenId, UnixTime)>,
    /// Transactions that were acknowledged.
    pub transactions: u64,
    /// Transactions that failed.
    pub failures: u64,
    /// Transactions that were under way in a crash.
    pub interrupted: u64,
}

impl Disk {
    /// An empty disk.
    pub fn new(seed: u64, flaw: Option<Flaw>) -> Disk {
        Disk {
            durable: Image::default(),
            written: Image::default(),
            mood: Mood::Works,
            rng: Rng::with_seed(seed),
            flaw,
            late_tokens: Vec::new(),
            transactions: 0,
            failures: 0,
            interrupted: 0,
        }
    }

    /// From now on.
    pub fn set_mood(&mut self, mood: Mood) {
        self.mood = mood;
    }

    /// What a server that starts now finds.
    pub fn image(&self) -> &Image {
        &self.written
    }

    fn duration(&mut self) -> Micros {
        match self.mood {
            Mood::Slow => Micros(self.rng.u64(200_000..3_000_000)),
            _ => Micros(self.rng.u64(5_000..40_000)),
        }
    }

    fn refuses(&self, batch: &Batch) -> bool {
        match self.mood {
            Mood::Works | Mood::Slow => false,
            Mood::Fails => true,
            Mood::Full => !batch.changes.is_empty() || !batch.questions.is_empty(),
        }
    }

    fn commit(&mut self, batch: &Batch) -> Vec<JoinAnswer<()>> {
        for (id, until) in self.late_tokens.drain(..) {
            self.written.tokens.insert(id, until);
        }
        let mut tokens = Vec::new();
        let mut answers = self.written.apply(batch, &mut tokens);
        match self.flaw {
            Some(Flaw::TokenAfterReply) => self.late_tokens = tokens,
            _ => self.written.tokens.extend(tokens),
        }
        if self.flaw == Some(Flaw::AdmittedTwice) {
            admit_twice(&mut self.written, &mut answers);
        }
        let skips = self.flaw == Some(Flaw::SkippedSync) && self.rng.u8(..4) == 0;
        if !skips {
            self.durable = self.written.clone();
        }
        self.transactions += 1;
        answers
    }

    fn crash(&mut self, kind: CrashKind, in_flight: Option<Batch>) {
        self.late_tokens.clear();
        self.interrupted += u64::from(in_flight.is_some());
        match (kind, in_flight) {
            // The transaction is on the disk although its answer never came.
            (CrashKind::Kill, Some(batch)) if !self.refuses(&batch) && self.rng.bool() => {
                self.commit(&batch);
                self.late_tokens.clear();
            }
            (CrashKind::Kill, _) => {}
            (CrashKind::PowerCut | CrashKind::Torn, _) => self.written = self.durable.clone(),
        }
    }

    /// Opens the database as a server does at its start: the world's objects, used tokens, numbers for new ids.
    pub fn open(&mut self) -> (Vec<Saved>, UsedTokens, Range<u64>) {
        let image = &mut self.written;
        let world = image.objects.iter().filter(|(id, _)| id.origin() == 0);
        let world = world.map(|(id, lanes)| Saved { id: *id, lanes: lanes.to_vec() }).collect();
        let mut used = UsedTokens::default();
        used.raise_horizon(image.horizon);
        for (id, until) in &image.tokens {
            used.insert(*id, *until);
        }
        let ids = image.next_id..image.next_id + RESERVED;
        image.next_id = ids.end;
        self.durable = self.written.clone();
        (world, used, ids)
    }
}

/// A name that is known gets a second number: the same player, twice.
fn admit_twice(image: &mut Image, answers: &mut [JoinAnswer<()>]) {
    for answer in answers {
        if let Ok((player, saved)) = &mut answer.player
            && !saved.is_empty()
        {
            let next = image.players.values().max().map_or(1, |last| last + 1);
            image.players.insert(answer.question.name.clone(), next);
            (*player, *saved) = (PlayerId(next), Vec::new());
        }
    }
}

/// The storage of one run of the server: lost with the process.
#[derive(Debug, Default)]
pub struct DiskStorage {
    queue: WriteQueue<()>,
    known: SavedStates,
    in_flight: Option<(Micros, Batch)>,
    next_flush: Micros,
    pause: Micros,
}

impl DiskStorage {
    /// What the writer's thread does until now; returns what has been acknowledged.
    pub fn run(&mut self, disk: &mut Disk, now: Micros) -> Option<Batch> {
        let mut acknowledged = None;
        if let Some((_, batch)) = self.in_flight.take_if(|(done, _)| *done <= now) {
            if disk.refuses(&batch) {
                disk.failures += 1;
                self.queue.on_failed(batch, "the disk does not work", || ());
                self.pause = (self.pause * 2).min(LONGEST_PAUSE).max(FLUSH_EVERY);
            } else {
                let answers = disk.commit(&batch);
                self.queue.on_written(&batch, answers);
                self.pause = FLUSH_EVERY;
                acknowledged = Some(batch);
            }
            self.next_flush = now + self.pause;
        }
        let urgent = self.queue.has_urgent();
        if self.in_flight.is_some() {
            return acknowledged;
        }
        if now >= self.next_flush || (urgent && !self.queue.is_in_trouble()) {
            self.next_flush = now + FLUSH_EVERY;
            self.in_flight = self.queue.take_batch().map(|batch| (now + disk.duration(), batch));
        } else if urgent {
            self.queue.refuse_waiting(|| ());
        }
        acknowledged
    }

    /// Whether a transaction is under way.
    pub fn is_writing(&self) -> bool {
        self.in_flight.is_some()
    }

    /// The process ends in a crash.
    pub fn crash(self, disk: &mut Disk, kind: CrashKind) {
        disk.crash(kind, self.in_flight.map(|(_, batch)| batch));
    }

    /// The process ends in order: what waits is written, if the disk lets it. What was acknowledged by that.
    pub fn close(mut self, disk: &mut Disk) -> Vec<Batch> {
        let waiting = self.in_flight.take().map(|(_, batch)| batch);
        let batches = waiting.into_iter().chain(self.queue.take_batch());
        let written = batches.filter(|batch| {
            let fits = !disk.refuses(batch);
            if fits {
                disk.commit(batch);
            }
            fits
        });
        written.collect()
    }
}

impl PlayerStorage for DiskStorage {
    fn save<'a>(&mut self, batch: impl IntoIterator<Item = StorageChange<'a>>) -> Taken {
        let (mut taken, fresh) = self.known.sort_out(batch, |_, _| true);
        for (id, lanes) in fresh {
            if self.queue.enter(id, lanes.clone()) {
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
        self.queue.ask(question)
    }

    fn poll(&mut self) -> Option<(JoinQuestion, Result<StoredPlayer, Refusal>)> {
        let answer = self.queue.poll()?;
        for saved in answer.player.iter().flat_map(|(_, saved)| saved) {
            self.known.remember(saved.id, Some(saved.lanes.as_slice().into()));
        }
        Some((answer.question, answer.player.map_err(|_| Refusal::Storage)))
    }

    fn reserve_ids(&mut self, end: u64) -> u64 {
        self.queue.reserve_ids(end);
        self.queue.reserved_ids()
    }
}
