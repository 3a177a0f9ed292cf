//! The ledger of servers that are threads of one process: one SQLite file, and one thread that writes it.
//!
//! The thread takes what waits, applies it in one transaction, and answers once that is on the disk. A transaction that
//! fails answers nothing: servers repeat their appends. Followers are handed entries from the file as far as they keep
//! up, so that a slow one costs no memory.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use foveate_node::region::layout::{Layout, ServerId};
use foveate_node::region::ledger::{
    AppendId, LedgerAnswer, LedgerRequest, Subject, read_record, write_record,
};
use foveate_wire::Micros;
use rusqlite::{OptionalExtension, TransactionBehavior, params};

use super::{Ledger, LedgerReply, LedgerStatus, parse_subject, subject_text};
use crate::storage::StorageError;
use crate::storage::database::{Database, DatabaseFormat, refusal};

/// Answers and entries that wait for one server at most.
pub const MAX_LEDGER_REPLIES: usize = 4_096;
/// Requests that wait for the disk at most: beyond, appends are dropped, and repeated by their servers.
const MAX_LEDGER_REQUESTS: usize = 4_096;
/// Requests in one transaction at most.
const MAX_TURN: usize = 512;
/// The newest entries that are kept of subjects of which only the last counts.
const KEPT: u64 = 64;
/// How often followers that lag are looked at.
const LOOK: Duration = Duration::from_millis(20);

/// "fovl" in the header of the file.
const FORMAT: DatabaseFormat = DatabaseFormat {
    application: 0x666f_766c,
    migrations: &["
        CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
        CREATE TABLE entries (
            subject TEXT NOT NULL,
            number INTEGER NOT NULL CHECK (number > 0),
            bytes BLOB NOT NULL,
            PRIMARY KEY (subject, number)
        ) WITHOUT ROWID;
    "],
};

/// A ledger's file, open and sound. It is this process's alone.
pub struct LedgerFile {
    database: Database,
    /// The last entry of each subject.
    heads: BTreeMap<Subject, u64>,
}

impl LedgerFile {
    /// Opens or makes a file. One that is damaged, of another program or in use is refused and left as it is.
    pub fn open(path: &Path) -> Result<LedgerFile, StorageError> {
        LedgerFile::of(Database::open(path, &FORMAT)?)
    }

    /// A ledger that ends with the process.
    pub fn in_memory() -> Result<LedgerFile, StorageError> {
        LedgerFile::of(Database::in_memory(&FORMAT)?)
    }

    fn of(database: Database) -> Result<LedgerFile, StorageError> {
        let failed = |cause| refusal(&database.path, cause);
        let mut heads = BTreeMap::new();
        {
            let sql = "SELECT subject, max(number) FROM entries GROUP BY subject";
            let mut query = database.connection.prepare(sql).map_err(failed)?;
            let rows = query.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)));
            for row in rows.map_err(failed)? {
                let (text, number): (String, i64) = row.map_err(failed)?;
                let damaged = || StorageError::Damaged {
                    file: database.path.clone(),
                    what: format!("the ledger has a subject {text:?}"),
                };
                heads.insert(parse_subject(&text).ok_or_else(damaged)?, number.max(0) as u64);
            }
        }
        Ok(LedgerFile { database, heads })
    }

    /// Numbers for so many servers that no server of this world has or had.
    pub fn new_servers(&self, count: u32) -> Vec<ServerId> {
        let known = self.heads.keys().filter_map(|subject| match subject {
            Subject::Server(server) => Some(server.0),
            _ => None,
        });
        let first = known.max().unwrap_or(0) + 1;
        (first..first + count).map(ServerId).collect()
    }

    /// The world's layout; none before it began.
    pub fn layout(&self) -> Result<Option<Layout>, StorageError> {
        let database = &self.database;
        let sql = "SELECT bytes FROM entries WHERE subject = ?1 ORDER BY number DESC LIMIT 1";
        let text = subject_text(Subject::Layout);
        let found = database.connection.query_row(sql, [text], |row| row.get::<_, Vec<u8>>(0));
        let found = found.optional().map_err(|cause| refusal(&database.path, cause))?;
        let Some(bytes) = found else { return Ok(None) };
        let damaged = |what: String| StorageError::Damaged { file: database.path.clone(), what };
        let record = read_record::<(AppendId, Vec<u8>)>(&bytes);
        let (_, record) = record.map_err(|why| damaged(format!("the layout record: {why}")))?;
        Layout::read(&record).map(Some).map_err(|why| damaged(why.to_string()))
    }

    /// Gives all regions to these servers, in turn. The servers that had them are gone for good: this process has the
    /// file, so they need not be waited for. False if there is no world yet.
    pub fn assign(&mut self, servers: &[ServerId]) -> Result<bool, StorageError> {
        let Some(mut layout) = self.layout()? else { return Ok(false) };
        let regions: Vec<_> = layout.regions().map(|(id, _)| id).collect();
        for (nth, region) in regions.into_iter().enumerate() {
            let server = |ahead: usize| servers.get((nth + ahead) % servers.len().max(1)).copied();
            if let (Some(info), Some(owner)) = (layout.get_mut(region), server(0)) {
                (info.epoch, info.server) = (info.epoch + 1, owner);
                info.standby = server(1).filter(|standby| *standby != owner);
            }
        }
        // No append of a server has this number: theirs begin with 1.
        let by = AppendId { server: servers.first().copied().unwrap_or_default(), number: 0 };
        let bytes = write_record(&(by, layout.write()));
        let mut turn = Turn::default();
        turn.append((by.server, 0), (Subject::Layout, self.head(Subject::Layout)), bytes);
        self.commit(&mut turn)?;
        Ok(true)
    }

    fn head(&self, subject: Subject) -> u64 {
        self.heads.get(&subject).copied().unwrap_or(0)
    }

    /// Carries a turn out, or nothing of it. What was appended, or why not, is in the turn then.
    fn commit(&mut self, turn: &mut Turn) -> Result<(), StorageError> {
        self.database.check_place()?;
        let path = self.database.path.clone();
        let failed = |cause| refusal(&path, cause);
        let connection = &mut self.database.connection;
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        let mut heads: BTreeMap<Subject, u64> = BTreeMap::new();
        for (from, (subject, last), bytes) in &turn.appends {
            let known = self.heads.get(subject).copied().unwrap_or(0);
            let head = heads.entry(*subject).or_insert(known);
            let answer = match *head == *last {
                true => {
                    *head += 1;
                    let sql = "INSERT INTO entries VALUES (?1, ?2, ?3)";
                    let mut insert = transaction.prepare_cached(sql).map_err(failed)?;
                    let row = params![subject_text(*subject), *head as i64, bytes];
                    insert.execute(row).map_err(failed)?;
                    if !matches!(subject, Subject::Log(_)) && head.is_multiple_of(KEPT) {
                        turn.truncates.push((*subject, head.saturating_sub(KEPT)));
                    }
                    LedgerAnswer::Appended(*head)
                }
                false => LedgerAnswer::Conflict(*head),
            };
            turn.answers.push((*from, answer));
        }
        for (subject, from) in &turn.truncates {
            let known = self.heads.get(subject).copied().unwrap_or(0);
            let head = heads.get(subject).copied().unwrap_or(known);
            let sql = "DELETE FROM entries WHERE subject = ?1 AND number < ?2";
            let mut delete = transaction.prepare_cached(sql).map_err(failed)?;
            let kept = (*from).min(head) as i64;
            delete.execute(params![subject_text(*subject), kept]).map_err(failed)?;
        }
        transaction.commit().map_err(failed)?;
        self.heads.extend(heads);
        Ok(())
    }

    /// Entries of a subject from a number on, at most so many.
    fn read(
        &self,
        subject: Subject,
        from: u64,
        most: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>, StorageError> {
        let failed = |cause| refusal(&self.database.path, cause);
        let sql = "SELECT number, bytes FROM entries WHERE subject = ?1 AND number >= ?2 \
                   ORDER BY number LIMIT ?3";
        let mut query = self.database.connection.prepare_cached(sql).map_err(failed)?;
        let range = params![subject_text(subject), from as i64, most as i64];
        let rows = query.query_map(range, |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)));
        rows.map_err(failed)?.collect::<Result<_, _>>().map_err(failed)
    }

    /// From now on servers may use it; a thread writes it.
    pub fn start(self) -> std::io::Result<LocalLedger> {
        let (asks, waiting) = sync_channel(MAX_LEDGER_REQUESTS);
        let shared = Arc::default();
        let mut thread =
            Thread { file: self, waiting, links: BTreeMap::new(), shared: Arc::clone(&shared) };
        let thread = std::thread::Builder::new()
            .name("foveate-ledger".into())
            .spawn(move || thread.run())?;
        Ok(LocalLedger { asks, shared, thread: Some(thread) })
    }
}

/// A server and the number of its request, the subject and its last entry, the bytes.
type WaitingAppend = ((ServerId, u64), (Subject, u64), Vec<u8>);

/// What one transaction does.
#[derive(Default)]
struct Turn {
    appends: Vec<WaitingAppend>,
    truncates: Vec<(Subject, u64)>,
    answers: Vec<((ServerId, u64), LedgerAnswer)>,
}

impl Turn {
    /// `from`: the server and the number of its request; `at`: the subject and its last entry.
    fn append(&mut self, from: (ServerId, u64), at: (Subject, u64), bytes: Vec<u8>) {
        self.appends.push((from, at, bytes));
    }
}

enum Ask {
    Request(ServerId, LedgerRequest),
    Join(ServerId, Arc<Replies>),
    Leave(ServerId),
    End,
}

/// What waits for one server.
#[derive(Default)]
struct Replies(Mutex<VecDeque<LedgerReply>>);

impl Replies {
    fn lock(&self) -> MutexGuard<'_, VecDeque<LedgerReply>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Shared = Arc<Mutex<LedgerStatus>>;

/// A ledger that servers of this process use. Dropped, it ends; what was answered is on the disk.
pub struct LocalLedger {
    asks: SyncSender<Ask>,
    shared: Shared,
    thread: Option<JoinHandle<()>>,
}

impl LocalLedger {
    /// A server's access.
    pub fn join(&self, server: ServerId) -> LocalLedgerLink {
        let replies = Arc::<Replies>::default();
        self.asks.send(Ask::Join(server, Arc::clone(&replies))).unwrap_or(());
        let (asks, shared) = (self.asks.clone(), Arc::clone(&self.shared));
        LocalLedgerLink { server, asks, replies, shared }
    }
}

impl Drop for LocalLedger {
    fn drop(&mut self) {
        self.asks.send(Ask::End).unwrap_or(());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap_or(());
        }
    }
}

/// One server's access to a [`LocalLedger`].
pub struct LocalLedgerLink {
    server: ServerId,
    asks: SyncSender<Ask>,
    replies: Arc<Replies>,
    shared: Shared,
}

impl Ledger for LocalLedgerLink {
    fn request(&mut self, request: LedgerRequest) {
        let append = matches!(request, LedgerRequest::Append { .. });
        let ask = Ask::Request(self.server, request);
        match self.asks.try_send(ask) {
            // What is not an append is not repeated. There are few of them.
            Err(TrySendError::Full(ask)) if !append => self.asks.send(ask).unwrap_or(()),
            Err(TrySendError::Full(_)) => lock(&self.shared).failed += 1,
            Ok(()) | Err(TrySendError::Disconnected(_)) => {}
        }
    }

    fn poll(&mut self) -> Option<LedgerReply> {
        self.replies.lock().pop_front()
    }

    fn status(&self) -> LedgerStatus {
        lock(&self.shared).clone()
    }
}

impl Drop for LocalLedgerLink {
    fn drop(&mut self) {
        self.asks.try_send(Ask::Leave(self.server)).unwrap_or(());
    }
}

fn lock(shared: &Shared) -> MutexGuard<'_, LedgerStatus> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Thread {
    file: LedgerFile,
    waiting: Receiver<Ask>,
    links: BTreeMap<ServerId, Follower>,
    shared: Shared,
}

/// A server, and the next entry that it is to be handed of each subject.
struct Follower {
    replies: Arc<Replies>,
    next: BTreeMap<Subject, u64>,
}

impl Thread {
    fn run(&mut self) {
        loop {
            let mut turn = Turn::default();
            let first = self.waiting.recv_timeout(LOOK);
            if matches!(first, Err(RecvTimeoutError::Disconnected)) {
                return;
            }
            let mut ending = false;
            let rest = std::iter::from_fn(|| self.waiting.try_recv().ok()).take(MAX_TURN - 1);
            let asks: Vec<Ask> = first.ok().into_iter().chain(rest).collect();
            for ask in asks {
                match ask {
                    Ask::Request(from, request) => self.take(from, request, &mut turn),
                    Ask::Join(server, replies) => {
                        self.links.insert(server, Follower { replies, next: BTreeMap::new() });
                    }
                    Ask::Leave(server) => drop(self.links.remove(&server)),
                    Ask::End => ending = true,
                }
            }
            self.write(&mut turn);
            self.deliver();
            if ending {
                return;
            }
        }
    }

    fn take(&mut self, from: ServerId, request: LedgerRequest, turn: &mut Turn) {
        match request {
            LedgerRequest::Append { request, subject, last, bytes } => {
                turn.append((from, request), (subject, last), bytes);
            }
            LedgerRequest::Truncate(subject, number) => turn.truncates.push((subject, number)),
            LedgerRequest::Follow(subject) => {
                if let Some(link) = self.links.get_mut(&from) {
                    link.next.entry(subject).or_insert(1);
                }
            }
            LedgerRequest::Unfollow(subject) => {
                if let Some(link) = self.links.get_mut(&from) {
                    link.next.remove(&subject);
                }
            }
        }
    }

    fn write(&mut self, turn: &mut Turn) {
        if turn.appends.is_empty() && turn.truncates.is_empty() {
            return;
        }
        let begun = Instant::now();
        let done = self.file.commit(turn);
        let mut status = lock(&self.shared);
        match done {
            Ok(()) => {
                status.trouble = None;
                status.latency = Micros(begun.elapsed().as_micros() as u64);
                for ((server, request), answer) in turn.answers.drain(..) {
                    match answer {
                        LedgerAnswer::Appended(_) => status.appended += 1,
                        LedgerAnswer::Conflict(_) => status.conflicts += 1,
                    }
                    if let Some(link) = self.links.get(&server) {
                        let mut replies = link.replies.lock();
                        if replies.len() < MAX_LEDGER_REPLIES {
                            replies.push_back(LedgerReply::Answer(request, answer));
                        }
                    }
                }
            }
            Err(why) => {
                status.failed += turn.appends.len() as u64;
                status.trouble = Some(why.to_string());
            }
        }
    }

    /// Hands entries to those who keep up.
    fn deliver(&mut self) {
        for link in self.links.values_mut() {
            for (subject, next) in &mut link.next {
                let head = self.file.head(*subject);
                let room = MAX_LEDGER_REPLIES.saturating_sub(link.replies.lock().len());
                if *next > head || room == 0 {
                    continue;
                }
                match self.file.read(*subject, *next, room) {
                    Ok(entries) => {
                        let mut replies = link.replies.lock();
                        for (number, bytes) in entries {
                            *next = number + 1;
                            replies.push_back(LedgerReply::Entry(*subject, number, bytes));
                        }
                    }
                    Err(why) => lock(&self.shared).trouble = Some(why.to_string()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
