//! Clients that mean harm, for `foveate load`: each kind does one thing as hard as its links let it.
//!
//! All come from one address, where the players are not, in a thread of their own.

mod links;
mod players;

use foveate_arena::Arena;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Where they come from: not where the players are.
const FROM: &str = "127.0.0.2:0";
/// How many there are: one less than an address may have.
pub const HOSTILE: usize = 31;
/// What each sends in a round, and how long a round is: more than any budget allows.
const BURST: usize = 31;
const ROUND: Duration = Duration::from_millis(50);

/// What hostile clients do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum HostileKind {
    /// One address with garbage, handshakes without end, and links that send far more than they may.
    Flood,
    /// Players that order their units across the map, so that paths are searched.
    Orders,
    /// Players that join, leave and join under new names.
    Churn,
    /// Players that change their view and what they look from.
    Sweep,
    /// Players that ask for names.
    Who,
    /// Handshakes that are never finished.
    Handshakes,
    /// Packets that carry a link's connection id, and nothing else that is right.
    Garbage,
    /// Half requests for pages, and many at once for the largest.
    Http,
    /// Messages that are too long, or none.
    Malformed,
    /// Players that fire at a past that their round trip does not explain.
    Lag,
}

impl HostileKind {
    /// As the command line has it.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// What is attacked.
#[derive(Clone)]
pub struct AttackTarget {
    pub server: SocketAddr,
    /// Where its pages are.
    pub web: Option<SocketAddr>,
    pub game: Arc<Arena>,
}

/// When to stop, and how much was sent.
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

    /// Ends it; how much was sent in a second: packets, requests and messages.
    pub fn end(mut self) -> f64 {
        self.orders.stop.store(true, Ordering::Relaxed);
        // An attack that failed has said so.
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap_or(()));
        self.orders.sent.load(Ordering::Relaxed) as f64 / self.began.elapsed().as_secs_f64()
    }
}

fn attack(kind: HostileKind, target: &AttackTarget, orders: &Orders) -> Result<(), Box<dyn Error>> {
    match kind {
        HostileKind::Flood => links::flood(target.server, orders),
        HostileKind::Handshakes => links::unfinished_handshakes(target.server, orders),
        HostileKind::Garbage => links::garbage_with_an_id(target.server, orders),
        HostileKind::Http => links::requests(target.web.ok_or("no pages")?, orders),
        _ => players::play(kind, target, orders),
    }
}
