//! Hostile clients for `foveate load`: each kind repeats one attack as fast as its links allow.
//!
//! They run in a separate thread and connect from one address that no player uses.

mod links;
mod players;

use foveate_arena::Arena;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The address that they connect from; no player uses it.
const FROM: &str = "127.0.0.2:0";
/// The number of hostile clients: one less than the limit of links of an address.
pub const HOSTILE: usize = 31;
/// Messages that each client sends in a round, which exceed every budget.
const BURST: usize = 31;
const ROUND: Duration = Duration::from_millis(50);

/// A kind of attack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum HostileKind {
    /// Garbage, endless handshakes, and links far above their rate limit, from one address.
    Flood,
    /// Players that send their units across the map, which makes the server search for paths.
    Orders,
    /// Players that join, leave and join under new names.
    Churn,
    /// Players that change their view, and the object that they watch.
    Sweep,
    /// Players that ask for names.
    Who,
    /// Handshakes that are never finished.
    Handshakes,
    /// Links that never ask to join.
    Idle,
    /// Invalid packets with the connection id of a real link.
    Garbage,
    /// Incomplete HTTP requests, and many requests at once for the largest file.
    Http,
    /// Messages that are too long, or random bytes.
    Malformed,
    /// Players that claim more lag compensation than their round trip allows.
    Lag,
}

impl HostileKind {
    /// The name on the command line.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// The server under attack.
#[derive(Clone)]
pub struct AttackTarget {
    pub server: SocketAddr,
    /// The address of its HTTP server.
    pub web: Option<SocketAddr>,
    pub game: Arc<Arena>,
}

/// Tells an attack when to stop, and counts what it sends.
#[derive(Clone, Default)]
struct Orders {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
}

impl Orders {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn count(&self, sent: usize) {
        self.sent.fetch_add(sent as u64, Ordering::Relaxed);
    }
}

/// An attack that lasts until it is stopped.
pub struct Attack {
    orders: Orders,
    began: Instant,
    thread: Option<JoinHandle<()>>,
}

impl Attack {
    /// Begins to attack a server on this machine.
    pub fn begin(kind: HostileKind, target: AttackTarget) -> Attack {
        let orders = Orders::default();
        let held = orders.clone();
        let thread = std::thread::spawn(move || {
            if let Err(error) = attack(kind, &target, &held) {
                tracing::error!(%error, "the attack has stopped");
            }
        });
        Attack { orders, began: Instant::now(), thread: Some(thread) }
    }

    /// Ends the attack. Returns the packets, requests and messages sent per second.
    pub fn end(mut self) -> f64 {
        self.orders.stop.store(true, Ordering::Relaxed);
        // A failed attack has already printed its error.
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap_or(()));
        self.orders.sent.load(Ordering::Relaxed) as f64 / self.began.elapsed().as_secs_f64()
    }
}

fn attack(kind: HostileKind, target: &AttackTarget, orders: &Orders) -> Result<(), Box<dyn Error>> {
    match kind {
        HostileKind::Flood => links::flood(target.server, orders),
        HostileKind::Handshakes => links::unfinished_handshakes(target.server, orders),
        HostileKind::Idle => links::idle(target.server, orders),
        HostileKind::Garbage => links::garbage_with_an_id(target.server, orders),
        HostileKind::Http => links::requests(target.web.ok_or("no pages")?, orders),
        _ => players::play(kind, target, orders),
    }
}
