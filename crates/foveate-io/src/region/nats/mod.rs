//! Bus and ledger by NATS: one connection, one follower, one thread.
//!
//! A world is one JetStream stream with the subjects `foveate.WORLD.ledger.…`; messages travel by `foveate.WORLD.bus.…`
//! without being kept. The thread runs the client library's runtime; the server's loop never waits for it.
//!
//! What can go wrong, and what is done:
//! - An append that is not answered may have been applied: the server repeats it, and nothing is concluded from silence.
//! - Reads may be stale: nothing is decided by reading.
//! - A follower may stop after the broker restarts: it is started anew with each connection, and when it falls behind
//!   the last append.
//! - While there is no connection, messages and appends are dropped: messages would arrive after they expired, and
//!   appends are repeated by the server.
//! - Messages that do not fit a queue are dropped and counted.

mod thread;

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use foveate_node::region::bus::Recipient;
use foveate_node::region::layout::ServerId;
use foveate_node::region::ledger::{LedgerAnswer, LedgerRequest, Subject};
use foveate_wire::{Bytes, Micros};
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::watch;

use super::{
    Bus, BusCounts, Ledger, LedgerReply, LedgerStatus, RecordBook, RecordTrouble, WorldKey,
    WorldName, subject_text,
};
use crate::host::secret;

/// The most requests that wait for the connection's thread; more are dropped.
const MAX_NATS_REQUESTS: usize = 8_192;
/// The most entries that wait for the server's loop; beyond, the follower begins anew where it was.
const MAX_NATS_ENTRIES: usize = 65_536;
/// How many of the newest entries are kept of subjects of which only the last one counts.
const KEPT: usize = 64;

/// Where a world's ledger is, and how it is kept.
#[derive(Clone, Debug)]
pub struct NatsOptions {
    /// The broker, `nats://HOST:PORT`, with user and password or a token where it asks for them; for a cluster several,
    /// separated by commas.
    pub url: String,
    /// A file of credentials, as issued by the broker's operator.
    pub credentials: Option<PathBuf>,
    /// Copies of the ledger in a cluster: 1, 3 or 5.
    pub replicas: usize,
    /// Bytes that the ledger may take. Appends beyond are refused; nothing is discarded.
    pub max_bytes: Option<Bytes>,
    /// How long to try to reach the broker.
    pub patience: Duration,
}

/// Why there is no connection. Nothing was left open.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// The broker cannot be reached, or refuses.
    #[error("cannot connect to NATS at {url}: {cause}; is nats-server running there?")]
    Connect {
        /// The URL, without user and password.
        url: String,
        /// What the client said.
        cause: String,
    },
    /// The file of credentials cannot be used.
    #[error("{file}: {cause}", file = file.display())]
    Credentials {
        /// The file's path.
        file: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// There is no ledger, and none could be created.
    #[error(
        "cannot use the ledger of world {world}: {cause}; start nats-server with JetStream (-js)"
    )]
    Stream {
        /// The world.
        world: String,
        /// What the broker said.
        cause: String,
    },
    /// The thread, or its runtime, could not be started.
    #[error("cannot start the NATS thread: {0}")]
    Thread(std::io::Error),
}

/// A world at a broker. The connection closes when this, its buses and its ledgers are dropped.
pub struct NatsWorld {
    world: WorldName,
    key: WorldKey,
    connection: Arc<Connection>,
}

/// The thread, and the state that is shared with it.
struct Connection {
    requests: Sender<Request>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.requests.blocking_send(Request::End).unwrap_or(());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap_or(());
        }
    }
}

/// A request to the thread.
enum Request {
    /// Receive this server's messages.
    Join(ServerId),
    Publish(String, Vec<u8>),
    Append(AppendRequest),
    /// Drop a subject's entries before this place.
    Purge(Subject, u64),
    /// Read a subject's entries up to this place.
    Read(Subject, u64),
    End,
}

struct AppendRequest {
    request: u64,
    subject: Subject,
    /// The record's number.
    number: u64,
    /// The place that the subject's last entry must have.
    place: u64,
    bytes: Vec<u8>,
}

/// An append that was applied.
struct Applied {
    request: u64,
    subject: Subject,
    number: u64,
    place: u64,
}

/// A log, the place up to which it was read, and its entries with their places.
type CaughtUp = (Subject, u64, Vec<(u64, Vec<u8>)>);

/// The state that the thread and the server's loop share.
#[derive(Default)]
struct Shared {
    inbox: Mutex<VecDeque<Vec<u8>>>,
    entries: Mutex<VecDeque<(Subject, u64, Vec<u8>)>>,
    applied: Mutex<VecDeque<Applied>>,
    /// Logs that were read from their first entries.
    caught_up: Mutex<VecDeque<CaughtUp>>,
    status: Mutex<LedgerStatus>,
    /// Numbers of servers that have a subject in the ledger.
    servers: Mutex<BTreeSet<ServerId>>,
    /// The highest place of an append that was applied.
    highest: AtomicU64,
    /// How often the connection was made.
    connections: watch::Sender<u64>,
    sent: AtomicU64,
    unsent: AtomicU64,
    overflowed: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // These are queues and counters: a panic elsewhere leaves them consistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Shared {
    fn trouble(&self, what: impl ToString) {
        lock(&self.status).trouble = Some(what.to_string());
    }
}

impl NatsWorld {
    /// Connects, and creates the world's ledger if there is none.
    pub fn connect(
        options: NatsOptions,
        world: &WorldName,
        key: &WorldKey,
    ) -> Result<NatsWorld, NatsError> {
        let (requests, waiting) = channel(MAX_NATS_REQUESTS);
        let shared = Arc::<Shared>::default();
        let thread = thread::start(options, world.to_string(), waiting, Arc::clone(&shared))?;
        let connection = Arc::new(Connection { requests, shared, thread: Some(thread) });
        Ok(NatsWorld { world: world.clone(), key: key.clone(), connection })
    }

    /// A number that no server of this world has or had.
    pub fn new_server(&self) -> ServerId {
        let taken = lock(&self.connection.shared.servers);
        loop {
            let random = secret();
            let id = ServerId(u32::from_le_bytes([random[0], random[1], random[2], random[3]]));
            if id.0 != 0 && !taken.contains(&id) {
                return id;
            }
        }
    }

    /// A server's bus and ledger. One at a time: both share what arrives.
    pub fn join(&self, me: ServerId) -> (NatsBus, NatsLedger) {
        self.connection.requests.try_send(Request::Join(me)).unwrap_or(());
        let connection = Arc::clone(&self.connection);
        let bus = NatsBus { world: self.world.clone(), connection, received: 0 };
        let ledger = NatsLedger {
            book: RecordBook::new(&self.key),
            world: self.world.clone(),
            connection: Arc::clone(&self.connection),
            places: VecDeque::new(),
            own: Subject::Server(me),
            own_places: VecDeque::new(),
            refused: 0,
            ignored: None,
            unusable: None,
        };
        (bus, ledger)
    }
}

/// Messages by a broker, sent as they are: [`MeshBus`](super::MeshBus) seals them.
pub struct NatsBus {
    world: WorldName,
    connection: Arc<Connection>,
    received: u64,
}

impl Bus for NatsBus {
    fn publish(&mut self, to: Recipient, bytes: &[u8]) {
        let subject = match to {
            Recipient::All => format!("foveate.{}.bus.all", self.world),
            Recipient::Server(server) => format!("foveate.{}.bus.{}", self.world, server.0),
        };
        if self.connection.requests.try_send(Request::Publish(subject, bytes.to_vec())).is_err() {
            count(&self.connection.shared.unsent);
        }
    }

    fn poll(&mut self) -> Option<Vec<u8>> {
        let message = lock(&self.connection.shared.inbox).pop_front()?;
        self.received += 1;
        Some(message)
    }

    fn counts(&self) -> BusCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BusCounts {
            sent: read(&self.connection.shared.sent),
            received: self.received,
            unsent: read(&self.connection.shared.unsent),
            overflowed: read(&self.connection.shared.overflowed),
            ..BusCounts::default()
        }
    }
}

/// A ledger at a broker.
pub struct NatsLedger {
    book: RecordBook,
    world: WorldName,
    connection: Arc<Connection>,
    /// Places of the newest layout records.
    places: VecDeque<u64>,
    /// Places of the newest records of this server's own subject.
    own: Subject,
    own_places: VecDeque<u64>,
    refused: u64,
    /// The last entry that was refused, and why.
    ignored: Option<String>,
    unusable: Option<String>,
}

impl NatsLedger {
    fn on_entry(&mut self, subject: Subject, place: u64, bytes: &[u8]) {
        match self.book.on_entry(subject, place, bytes) {
            Ok(()) if subject == Subject::Layout => self.prune(place),
            Ok(()) => {}
            Err(why) => {
                self.refused += 1;
                let (world, name) = (&self.world, subject_text(subject));
                let hint = match why {
                    RecordTrouble::Forged => {
                        "; another world of this name? choose another --world, or use its key"
                    }
                    _ => "",
                };
                let text = format!("world {world}: record {place} of {name}: {why}{hint}");
                // The layout says what the world is. A server that has read one stays, whatever others write: a
                // server of another version that comes by must end, not those that are there.
                if self.book.last(Subject::Layout) == 0 && subject == Subject::Layout {
                    self.unusable = Some(text);
                } else {
                    self.ignored = Some(text);
                }
            }
        }
    }

    /// Old layouts are dropped.
    fn prune(&mut self, place: u64) {
        self.unusable = None;
        self.places.push_back(place);
        if self.places.len() > 2 * KEPT {
            self.places.drain(..KEPT);
            self.purge(Subject::Layout, self.places[0]);
        }
    }

    fn on_applied(&mut self, it: &Applied) {
        self.book.on_appended(it.subject, it.number, it.place);
        if it.subject == self.own {
            self.own_places.push_back(it.place);
            if self.own_places.len() > 2 * KEPT {
                self.own_places.drain(..KEPT);
                self.purge(self.own, self.own_places[0]);
            }
        }
    }

    fn purge(&mut self, subject: Subject, place: u64) {
        // An entry that is not dropped now is dropped with the next one.
        self.connection.requests.try_send(Request::Purge(subject, place)).unwrap_or(());
    }
}

impl Ledger for NatsLedger {
    fn request(&mut self, request: LedgerRequest) {
        match request {
            LedgerRequest::Follow(subject) => {
                if let Some(place) = self.book.follow(subject) {
                    // Requests are few, and the thread takes them at once.
                    let read = Request::Read(subject, place);
                    self.connection.requests.blocking_send(read).unwrap_or(());
                }
            }
            LedgerRequest::Unfollow(subject) => self.book.unfollow(subject),
            LedgerRequest::Append { request, subject, last, bytes } => {
                // The broker would refuse an append behind an entry that is not the last; the server reads the newer
                // entry instead.
                let Some(place) = self.book.place_of(subject, last) else { return };
                let number = last + 1;
                let bytes = self.book.seal(subject, number, &bytes);
                let append = AppendRequest { request, subject, number, place, bytes };
                if self.connection.requests.try_send(Request::Append(append)).is_err() {
                    lock(&self.connection.shared.status).failed += 1;
                }
            }
            LedgerRequest::Truncate(subject, number) => {
                if let Some(place) = self.book.place_at(subject, number) {
                    self.purge(subject, place);
                }
            }
        }
    }

    fn poll(&mut self) -> Option<LedgerReply> {
        loop {
            if let Some(reply) = self.book.poll() {
                return Some(reply);
            }
            let applied = lock(&self.connection.shared.applied).pop_front();
            if let Some(it) = applied {
                self.on_applied(&it);
                return Some(LedgerReply::Answer(it.request, LedgerAnswer::Appended(it.number)));
            }
            let caught_up = lock(&self.connection.shared.caught_up).pop_front();
            if let Some((subject, place, entries)) = caught_up {
                self.book.caught_up(subject, place, &entries);
                continue;
            }
            let (subject, place, bytes) = lock(&self.connection.shared.entries).pop_front()?;
            self.on_entry(subject, place, &bytes);
        }
    }

    fn status(&self) -> LedgerStatus {
        LedgerStatus {
            refused: self.refused,
            ignored: self.ignored.clone(),
            unusable: self.unusable.clone(),
            ..lock(&self.connection.shared.status).clone()
        }
    }
}

/// A duration in microseconds.
fn micros(span: Duration) -> Micros {
    Micros(span.as_micros() as u64)
}

#[cfg(test)]
mod tests;
