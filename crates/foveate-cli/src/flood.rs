//! An attacker at one address: garbage, handshakes without end, and a link that is
//! let in and sends far more than it may.

use foveate_io::{Endpoint, EndpointOptions, LinkEvent, LinkId, Trust};
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Where it comes from: not where the players are.
const FROM: &str = "127.0.0.2:0";
/// How often it sends a burst.
const EVERY: Duration = Duration::from_millis(2);
/// Packets of garbage in a burst.
const GARBAGE: usize = 20;
/// Handshakes begun in a burst.
const HANDSHAKES: usize = 1;
/// Datagrams in a burst over each link that was let in, at most two of them.
const DATAGRAMS: usize = 50;

/// A flood that lasts until it is stopped.
pub struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    began: Instant,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// Begins to flood a server on this machine.
    pub fn begin(server: SocketAddr) -> Flood {
        let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, count) = (Arc::clone(&stop), Arc::clone(&sent));
        let thread = std::thread::spawn(move || {
            if let Err(error) = flood(server, &stopped, &count) {
                tracing::error!(%error, "the flood has stopped");
            }
        });
        Flood { stop, sent, began: Instant::now(), thread: Some(thread) }
    }

    /// Ends it; how much was sent in a second: packets of garbage, handshakes and datagrams.
    pub fn end(mut self) -> f64 {
        self.stop.store(true, Ordering::Relaxed);
        // A flood that failed has said so.
        self.thread.take().into_iter().for_each(|thread| thread.join().unwrap_or(()));
        self.sent.load(Ordering::Relaxed) as f64 / self.began.elapsed().as_secs_f64()
    }
}

fn flood(server: SocketAddr, stop: &AtomicBool, sent: &AtomicU64) -> Result<(), Box<dyn Error>> {
    let garbage = UdpSocket::bind(FROM)?;
    let mut endpoint = Endpoint::client(
        FROM.parse()?,
        &Trust::InsecureDevelopmentOnly,
        EndpointOptions::client(),
    )?;
    let mut rng = fastrand::Rng::with_seed(7);
    let mut bytes = [0; 1_200];
    rng.fill(&mut bytes);
    let (mut events, mut links) = (Vec::new(), Vec::<LinkId>::new());
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..GARBAGE {
            let length = rng.usize(1..=bytes.len());
            bytes[..length.min(8)].iter_mut().for_each(|byte| *byte = rng.u8(..));
            sent.fetch_add(
                u64::from(garbage.send_to(&bytes[..length], server).is_ok()),
                Ordering::Relaxed,
            );
        }
        for _ in 0..HANDSHAKES {
            let begun = endpoint.connect(server, "localhost");
            sent.fetch_add(u64::from(begun.is_ok()), Ordering::Relaxed);
        }
        for link in links.iter().take(2) {
            for _ in 0..DATAGRAMS {
                let length = rng.usize(1..=1_000);
                let done = endpoint.send_datagram(*link, &bytes[..length]).is_ok();
                sent.fetch_add(u64::from(done), Ordering::Relaxed);
            }
        }
        endpoint.flush();
        endpoint.wait(Instant::now() + EVERY, &mut events)?;
        for event in events.drain(..) {
            match event {
                LinkEvent::Connected { link, .. } => links.push(link),
                LinkEvent::Closed { link, .. } => links.retain(|known| *known != link),
                _ => {}
            }
        }
    }
    Ok(())
}
