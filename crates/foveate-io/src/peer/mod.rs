//! Links between peers, dialled by key: iroh behind the same synchronous face as [`Endpoint`](crate::Endpoint).
//!
//! A [`PeerEndpoint`] connects to a [`Key`] at known addresses, and accepts connections;
//! both sides prove their keys in the handshake (TLS 1.3 with raw public keys). A link carries
//! datagrams and messages as between client and server. If two peers dial each other at once there
//! are two links; which one stays is the node's to decide.
//!
//! iroh needs an async runtime. It runs in one thread of the endpoint's own, which does nothing but
//! wait for QUIC; what is allowed, kept and reported is decided in `state`, under one lock. Nothing
//! of it shows outside.
//!
//! What it refuses to do: look for peers (that is what the lobby and the peers themselves are for);
//! publish or resolve anything; use a relay unless one is named.
//!
//! ```
//! use foveate_io::keys::KeyPair;
//! use foveate_io::LinkEvent;
//! use foveate_io::peer::{PeerEndpoint, PeerOptions};
//! use foveate_node::node::Remote;
//! use foveate_node::peer::Signer;
//! use std::time::{Duration, Instant};
//!
//! let here = ["127.0.0.1:0".parse()?];
//! let (ada, bob) = (KeyPair::generate()?, KeyPair::generate()?);
//! let mut one = PeerEndpoint::bind(&here, &ada, PeerOptions::default())?;
//! let mut two = PeerEndpoint::bind(&here, &bob, PeerOptions::default())?;
//! let link = one.connect(bob.key(), &two.addresses())?;
//!
//! let (mut events, mut heard) = (Vec::new(), false);
//! let deadline = Instant::now() + Duration::from_secs(20);
//! while !heard && Instant::now() < deadline {
//!     one.wait(Instant::now() + Duration::from_millis(5), &mut events)?;
//!     for event in events.drain(..) {
//!         if let LinkEvent::Connected { remote, .. } = event {
//!             assert_eq!(remote, Remote::Keyed { key: bob.key(), dialled: true });
//!             one.send_datagram(link, b"hello")?;
//!         }
//!     }
//!     two.wait(Instant::now() + Duration::from_millis(5), &mut events)?;
//!     heard |= events.drain(..).any(|event| matches!(event, LinkEvent::Datagram { .. }));
//! }
//! assert!(heard);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod contact;
mod event;
mod held;
mod options;
mod state;
mod tasks;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use foveate_node::peer::{Key, Signer};
use foveate_wire::{Bytes, Micros};
use iroh::endpoint::{ConnectOptions, QuicTransportConfig, presets};
use iroh::{EndpointAddr, RelayMode, RelayUrl, SecretKey};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

pub use options::PeerOptions;
pub use state::{MAX_LINKS_PER_PEER, MAX_UNREAD};

use crate::error::Error;
use crate::event::{CloseCode, LinkEvent};
use crate::keys::KeyPair;
use crate::meter::{EndpointCounters, LinkMeter};
use crate::options::{LinkConditions, duration};
use crate::slots::LinkId;
use state::Shared;

/// Most addresses of one peer that are tried.
pub const MAX_TRIED: usize = 16;

/// Interval at which a shutdown checks whether it is done.
const SHUTDOWN_STEP: Duration = Duration::from_millis(5);

/// Sockets with links to other peers.
///
/// Call [`PeerEndpoint::wait`] in a loop, and hand over what is to be sent, which leaves at once.
pub struct PeerEndpoint {
    key: Key,
    shared: Arc<Shared>,
    quic: iroh::Endpoint,
    dialling: QuicTransportConfig,
    relay: Option<RelayUrl>,
    background: Background,
    gather: Duration,
    last: Option<Instant>,
}

/// The thread that runs iroh.
struct Background {
    handle: Handle,
    stop: Option<oneshot::Sender<Duration>>,
    thread: Option<JoinHandle<()>>,
}

impl PeerEndpoint {
    /// Listens at `addresses`, at most one of each family, with this key.
    pub fn bind(
        addresses: &[SocketAddr],
        keys: &KeyPair,
        options: PeerOptions,
    ) -> Result<PeerEndpoint, Error> {
        let (key, gather) = (keys.key(), duration(options.gather));
        let dialling = options::transport(&options, 0)?;
        let relay = options.relay.as_deref().map(relay_url).transpose()?;
        let builder = builder(addresses, keys, &options, relay.clone())?;
        let shared = Arc::new(Shared::new(key, options));
        let first = addresses.first().copied();
        let (background, quic) = Background::start(builder, Arc::clone(&shared), first)?;
        Ok(PeerEndpoint { key, shared, quic, dialling, relay, background, gather, last: None })
    }

    /// This peer's public key.
    pub fn key(&self) -> Key {
        self.key
    }

    /// The addresses at which others may reach this peer: those of its sockets, or, for a socket on the unspecified
    /// address, those of the machine.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses: Vec<SocketAddr> = self.quic.bound_sockets();
        let everywhere = addresses.iter().any(|address| address.ip().is_unspecified());
        addresses.retain(|address| !address.ip().is_unspecified());
        if everywhere {
            addresses.extend(self.quic.addr().ip_addrs());
        }
        addresses.sort();
        addresses.dedup();
        addresses
    }

    /// The addresses as bound, with their ports.
    pub fn bound(&self) -> Vec<SocketAddr> {
        self.quic.bound_sockets()
    }

    /// Starts to connect to a peer; `LinkEvent::Connected` or `LinkEvent::Closed` follows. At most [`MAX_TRIED`]
    /// addresses are tried, and the relay, if there is one.
    pub fn connect(&mut self, peer: Key, addresses: &[SocketAddr]) -> Result<LinkId, Error> {
        let refused = |what: &str| Error::Peer { peer, what: what.into() };
        let id = iroh::EndpointId::from_bytes(&peer.0).map_err(|_| refused("not a valid key"))?;
        let mut to = EndpointAddr::new(id);
        for address in addresses.iter().take(MAX_TRIED) {
            to = to.with_ip_addr(*address);
        }
        if let Some(relay) = &self.relay {
            to = to.with_relay_url(relay.clone());
        }
        if to.is_empty() {
            return Err(refused("no address is known"));
        }
        let link = self.shared.lock().begin(Instant::now(), peer)?;
        let options = ConnectOptions::new().with_transport_config(self.dialling.clone());
        let (shared, quic) = (Arc::clone(&self.shared), self.quic.clone());
        self.background.handle.spawn(tasks::dial(shared, quic, link, to, options));
        Ok(link)
    }

    /// Sends a datagram once, unordered. On a congested path newer datagrams replace older ones.
    pub fn send_datagram(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error> {
        self.shared.lock().send_datagram(Instant::now(), link, bytes)
    }

    /// Sends a message reliably and in order. Empty messages are not delivered.
    pub fn send_message(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error> {
        self.shared.lock().send_message(Instant::now(), link, bytes)
    }

    /// The largest datagram that the link accepts at the moment; `None` before it is connected.
    pub fn max_datagram(&self, link: LinkId) -> Option<Bytes> {
        self.shared.lock().max_datagram(link)
    }

    /// Closes a link. Unsent data is lost; `LinkEvent::Closed` follows. An expired id does nothing.
    pub fn close(&mut self, link: LinkId, code: CloseCode, reason: &str) {
        self.shared.lock().close(link, code, reason);
    }

    /// Sets or removes a link's conditions. False for an expired id. Conditions act on datagrams; messages are delayed,
    /// but never lost.
    pub fn set_conditions(&mut self, link: LinkId, ways: Option<LinkConditions>) -> bool {
        self.shared.lock().set_conditions(link, ways)
    }

    /// Traffic of a link so far.
    pub fn meter(&self, link: LinkId) -> Option<LinkMeter> {
        self.shared.lock().meter(link)
    }

    /// Traffic of all links so far, including closed ones.
    pub fn total(&self) -> LinkMeter {
        self.shared.lock().total()
    }

    /// Counters of what was refused or dropped so far.
    pub fn counters(&self) -> EndpointCounters {
        self.shared.lock().counters
    }

    /// Number of links, including those in a handshake and those whose end has not been reported.
    pub fn links(&self) -> usize {
        self.shared.lock().len()
    }

    /// Waits until there are events or `until` has passed, and appends the events.
    pub fn wait(&mut self, until: Instant, events: &mut Vec<LinkEvent>) -> Result<(), Error> {
        loop {
            let now = Instant::now();
            let gathered = self.last.map_or(now, |last| last + self.gather).min(until);
            if gathered > now {
                std::thread::sleep(gathered - now);
                continue;
            }
            let mut state = self.shared.lock();
            state.release(now);
            if state.has_events() {
                self.last = Some(now);
            }
            if state.has_events() || now >= until {
                state.take(events);
                return Ok(());
            }
            self.background.check()?;
            let wake = state.next_due().map_or(until, |due| due.min(until));
            let waited = self.shared.ready.wait_timeout(state, wake.saturating_duration_since(now));
            drop(waited);
        }
    }

    /// Delivers messages and closes all links. Takes at most `limit`; returns how many links had messages that may not
    /// have arrived by then.
    pub fn shutdown(&mut self, limit: Micros, events: &mut Vec<LinkEvent>) -> Result<usize, Error> {
        let begun = Instant::now();
        self.shared.lock().closing = true;
        self.shared.lock().finish_messages();
        let messages_until = begun + duration(Micros(limit.0 / 2));
        while self.shared.lock().finishing() > 0 && Instant::now() < messages_until {
            self.wait(messages_until.min(Instant::now() + SHUTDOWN_STEP), events)?;
        }
        let undelivered = {
            let mut state = self.shared.lock();
            let undelivered = state.finishing();
            for link in state.ids() {
                state.close(link, CloseCode::SHUTDOWN, "shutting down");
            }
            state.take(events);
            undelivered
        };
        let left = (begun + duration(limit)).saturating_duration_since(Instant::now());
        self.background.stop(left);
        Ok(undelivered)
    }
}

impl Background {
    fn start(
        builder: iroh::endpoint::Builder,
        shared: Arc<Shared>,
        first: Option<SocketAddr>,
    ) -> Result<(Background, iroh::Endpoint), Error> {
        let address = first.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
        let failed = move |cause: std::io::Error| Error::Bind { address, cause };
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let bound = runtime.block_on(builder.bind());
        let quic = bound.map_err(|error| failed(std::io::Error::other(error.to_string())))?;
        let (stop, stopped) = oneshot::channel();
        let handle = runtime.handle().clone();
        let accepting = tasks::accept(shared, quic.clone(), stopped);
        let thread = std::thread::Builder::new()
            .name("peer links".into())
            .spawn(move || runtime.block_on(accepting))
            .map_err(failed)?;
        Ok((Background { handle, stop: Some(stop), thread: Some(thread) }, quic))
    }

    /// Fails if the thread has ended, which only a bug can cause.
    fn check(&self) -> Result<(), Error> {
        match &self.thread {
            Some(thread) if !thread.is_finished() => Ok(()),
            _ => Err(Error::Socket(std::io::Error::other("the thread of the links has ended"))),
        }
    }

    fn stop(&mut self, limit: Duration) {
        if let Some(stop) = self.stop.take() {
            // This fails if the thread has ended.
            stop.send(limit).unwrap_or(());
        }
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap_or(());
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

fn relay_url(text: &str) -> Result<RelayUrl, Error> {
    let what = |error| format!("expected an address like https://relay.example: {error}");
    text.parse().map_err(|error| Error::Option { name: "relay", what: what(error) })
}

fn builder(
    addresses: &[SocketAddr],
    keys: &KeyPair,
    options: &PeerOptions,
    relay: Option<RelayUrl>,
) -> Result<iroh::endpoint::Builder, Error> {
    let relaying = relay.map_or(RelayMode::Disabled, |relay| RelayMode::custom([relay]));
    let mut builder = iroh::Endpoint::builder(presets::Minimal)
        .secret_key(SecretKey::from_bytes(keys.secret()))
        .alpns(vec![tasks::PROTOCOL.to_vec()])
        .transport_config(options::transport(options, 1)?)
        .relay_mode(relaying)
        .clear_address_lookup()
        .clear_ip_transports();
    for address in addresses {
        builder = builder.bind_addr(*address).map_err(|error| Error::Bind {
            address: *address,
            cause: std::io::Error::other(error.to_string()),
        })?;
    }
    Ok(builder)
}
