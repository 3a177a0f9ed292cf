//! The endpoint: one socket, many links, one loop.
//!
//! `wait` is the loop: `receive → timers → drive → transmit → sleep`. Each step is a file or function of that name;
//! nothing else makes system calls.

mod direct;
mod drive;
#[cfg(feature = "web")]
mod h3;
mod pressure;
mod quic;
mod receive;
mod transmit;
#[cfg(feature = "web")]
mod web;
#[cfg(feature = "web")]
mod websocket;

pub(crate) use quic::QUIC_STEPS;
#[cfg(feature = "web")]
pub(crate) use websocket::WEB_SOCKET_STEPS;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::BytesMut;
use foveate_wire::{Bytes, Micros};
use quinn_proto::{
    EndpointConfig, HashedConnectionIdGenerator, NoneTokenStore, RandomConnectionIdGenerator,
    TransportConfig,
};

use crate::admission::Admission;
use crate::direct::{PathTable, Suspects};
use crate::error::Error;
use crate::event::{CloseCode, LinkEvent, Reason, Transport};
use crate::identity::{self, Certificate, CertificateHash, Identity, PROTOCOL, Trust};
use crate::link::{Carrier, Flow, Link, Quic, Stage};
use crate::meter::{EndpointCounters, LinkMeter, LinkTraffic};
use crate::options::{DatagramPath, EndpointOptions, LinkConditions, duration};
use crate::slots::{LinkId, Slots};
use crate::socket::{Batch, Sockets};
use crate::stagger::Stagger;
use crate::timers::{DelayedAcks, Timers};
use crate::transport::{self, Streams};

/// Bytes that are allocated at a time for packets, in each direction. Small, because a single byte of a stream that
/// waits for an earlier one keeps all of it alive.
const ARENA: usize = 16 * 1024;

/// Interval between checks whether a certificate must be renewed.
const RENEWAL_CHECK: Duration = Duration::from_secs(60);

/// Interval at which a shutdown checks whether it is done, since the removal of a link is not an event.
const SHUTDOWN_STEP: Duration = Duration::from_millis(5);

/// Certificates named by servers whose configurations are kept; beyond, all are made anew.
const MAX_PINNED: usize = 256;

/// Length of clients' connection ids, which every packet from a server contains.
const CLIENT_ID: usize = 4;

/// A UDP socket with its links, for a server or for any number of clients.
///
/// It has no thread: call [`Endpoint::wait`] in a loop, hand over what is to be sent, and call [`Endpoint::flush`]
/// after each round.
pub struct Endpoint {
    sockets: Sockets,
    core: Core,
}

/// Everything but the socket, so that packets can be handled while the socket is read.
pub(crate) struct Core {
    quic: quinn_proto::Endpoint,
    role: Role,
    options: EndpointOptions,
    origin: Instant,
    links: Slots<Link>,
    /// Index of the link, by connection handle.
    handles: Vec<u32>,
    /// Direct paths by the id in their packets: the link's index and the path's number.
    paths: PathTable,
    /// Key for the challenges of direct paths.
    challenges: ring::hmac::Key,
    suspects: Suspects,
    admission: Admission,
    handshakes: u32,
    timers: Timers,
    asks: DelayedAcks,
    /// Links that changed.
    touched: Vec<u32>,
    /// Links that may have something to send.
    ready: Vec<u32>,
    /// Links whose data waits for `flush`.
    dirty: Vec<u32>,
    stagger: Stagger,
    batch: Batch,
    /// Buffer for a packet that QUIC writes.
    scratch: Vec<u8>,
    arena_in: BytesMut,
    arena_out: BytesMut,
    /// Number of links with conditions.
    conditioned: u32,
    events: Vec<LinkEvent>,
    counters: EndpointCounters,
    /// Packets of the endpoint, and datagrams, messages and losses of links that are gone.
    total: LinkMeter,
    last_received: Option<Instant>,
    closing: bool,
    /// The TCP side, if any, and the address of the UDP socket.
    #[cfg(feature = "web")]
    front: Option<Box<crate::web::Front>>,
    #[cfg(feature = "web")]
    udp: Option<SocketAddr>,
}

/// The loop's functions for links of one carrier, which take the link's index or id.
pub(crate) struct CarrierSteps {
    /// Sends a datagram that fits. True if it waits in the carrier for `transmit`.
    send_datagram: fn(&mut Core, LinkId, &[u8]) -> Result<bool, Error>,
    /// Sends a message that is within its limits.
    send_message: fn(&mut Core, LinkId, &[u8]),
    /// Handles a timer of the carrier.
    timeout: fn(&mut Core, Instant, u32),
    /// Releases what a conditioner has held long enough.
    release: fn(&mut Core, Instant, u32),
    /// Turns what happened in the carrier into events.
    drive: fn(&mut Core, Instant, u32),
    /// Passes data from the carrier to the socket.
    transmit: fn(&mut Core, Instant, u32),
    /// Called when the link is removed.
    removed: fn(&mut Core, &mut Link),
}

enum Role {
    Server {
        certificate: Certificate,
        identity: Identity,
        transport: Arc<TransportConfig>,
        /// Protocols that may be negotiated.
        protocols: Vec<&'static [u8]>,
        checked: Instant,
    },
    Client {
        config: quinn_proto::ClientConfig,
        transport: Arc<TransportConfig>,
        protocols: Vec<&'static [u8]>,
        /// For servers whose certificates others named.
        pinned: BTreeMap<CertificateHash, quinn_proto::ClientConfig>,
    },
}

impl Endpoint {
    /// Listens at `address`.
    pub fn server(
        address: SocketAddr,
        certificate: Certificate,
        options: EndpointOptions,
    ) -> Result<Endpoint, Error> {
        let identity = Identity::obtain(&certificate, SystemTime::now())?;
        let transport = Arc::new(transport::config(&options, Streams::MESSAGES)?);
        let protocols = offered(&options);
        let config = server_config(&identity, &transport, &protocols)?;
        let mut ids = quic_config();
        ids.cid_generator(|| Box::<HashedConnectionIdGenerator>::default());
        let quic = quinn_proto::Endpoint::new(Arc::new(ids), Some(config), false, None);
        let checked = Instant::now();
        let role = Role::Server { certificate, identity, transport, protocols, checked };
        Ok(Endpoint { sockets: Sockets::listen(address)?, core: Core::new(quic, role, options)? })
    }

    /// Prepares to connect from `address`, usually `0.0.0.0:0`. A second socket is opened when it first connects to a
    /// server of the other address family.
    pub fn client(
        address: SocketAddr,
        trust: &Trust,
        mut options: EndpointOptions,
    ) -> Result<Endpoint, Error> {
        let protocols = offered(&options);
        if protocols.len() > 1 {
            // QUIC is silent while datagrams go beside it, and must not take that for the link's end.
            options.keep_alive.get_or_insert(Micros(options.idle_timeout.0 / 3));
        }
        let transport = Arc::new(transport::config(&options, Streams::NONE)?);
        let config = client_config(trust, &transport, &protocols)?;
        let pinned = BTreeMap::new();
        let mut ids = quic_config();
        ids.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(CLIENT_ID)));
        let quic = quinn_proto::Endpoint::new(Arc::new(ids), None, false, None);
        let role = Role::Client { config, transport, protocols, pinned };
        let core = Core::new(quic, role, options)?;
        Ok(Endpoint { sockets: Sockets::from_anywhere(address)?, core })
    }

    /// The address of the socket.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        Ok(self.sockets.address()?)
    }

    /// Hash of the certificate that new links are shown; `None` at a client.
    pub fn certificate_hash(&self) -> Option<CertificateHash> {
        match &self.core.role {
            Role::Server { identity, .. } => Some(identity.hash()),
            Role::Client { .. } => None,
        }
    }

    /// Replaces a development certificate that is about to expire; true if it was. Existing links stay. `wait` calls
    /// this by itself.
    pub fn renew(&mut self, now: SystemTime) -> Result<bool, Error> {
        self.core.renew(now)
    }

    /// Starts to connect; `LinkEvent::Connected` or `LinkEvent::Closed` follows. `name` is the name that the server's
    /// certificate must be for, unless its hash is pinned.
    pub fn connect(&mut self, address: SocketAddr, name: &str) -> Result<LinkId, Error> {
        if matches!(self.core.role, Role::Client { .. }) {
            self.sockets.open_for(address)?;
        }
        self.core.connect(address, name, None)
    }

    /// The same for a server with this certificate, whatever else this client trusts: a server that is trusted
    /// named it.
    pub fn connect_pinned(
        &mut self,
        address: SocketAddr,
        name: &str,
        certificate: CertificateHash,
    ) -> Result<LinkId, Error> {
        self.core.pin(certificate)?;
        self.sockets.open_for(address)?;
        self.core.connect(address, name, Some(certificate))
    }

    /// Sends a datagram once, unordered. It leaves at `flush` at the latest. On a congested path newer datagrams
    /// replace older ones.
    pub fn send_datagram(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error> {
        self.core.send_datagram(link, bytes)?;
        if self.core.batch.is_full() {
            self.core.send_batch(&mut self.sockets);
        }
        Ok(())
    }

    /// Sends a message reliably and in order. It leaves at `flush`. Empty messages are not delivered.
    pub fn send_message(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error> {
        self.core.send_message(link, bytes)
    }

    /// The largest datagram that the link accepts at the moment; `None` before it is connected.
    pub fn max_datagram(&mut self, link: LinkId) -> Option<Bytes> {
        self.core.max_datagram(link)
    }

    /// Closes a link. Unsent data is lost; `LinkEvent::Closed` follows. An expired id does nothing.
    pub fn close(&mut self, link: LinkId, code: CloseCode, reason: &str) {
        self.core.close(Instant::now(), link, code, reason);
    }

    /// Transmits what was handed over, or starts to if `EndpointOptions::spread` is set.
    pub fn flush(&mut self) {
        let now = Instant::now();
        self.core.flush(now);
        self.core.transmit_ready(now, &mut self.sockets);
    }

    /// Sets or removes a link's conditions. False for an expired id.
    pub fn set_conditions(&mut self, link: LinkId, ways: Option<LinkConditions>) -> bool {
        self.core.set_conditions(link, ways)
    }

    /// Traffic of a link so far.
    pub fn meter(&self, link: LinkId) -> Option<LinkMeter> {
        self.core.links.get(link).map(Link::meter)
    }

    /// The transport of a link.
    pub fn transport(&self, link: LinkId) -> Option<Transport> {
        self.core.links.get(link).map(|link| link.carrier.transport())
    }

    /// How the link's datagrams are sent at the moment.
    pub fn datagram_path(&self, link: LinkId) -> Option<DatagramPath> {
        self.core.links.get(link).map(|link| link.carrier.datagram_path())
    }

    /// Number of links whose datagrams are sent beside QUIC at the moment.
    pub fn direct_links(&self) -> usize {
        let is_direct = |link: &&Link| link.carrier.datagram_path() == DatagramPath::Direct;
        self.core.links.iter().filter(is_direct).count()
    }

    /// Traffic of all links so far, including closed ones.
    pub fn total(&self) -> LinkMeter {
        self.core.total()
    }

    /// Counters of what was refused or dropped so far.
    pub fn counters(&self) -> &EndpointCounters {
        &self.core.counters
    }

    /// Number of links, including those in a handshake or being closed.
    pub fn links(&self) -> usize {
        self.core.links.len()
    }

    /// Runs the loop until there are events or `until` has passed, and appends the events. What was handed over is
    /// flushed first. With a time in the past, it reads what has arrived and returns.
    pub fn wait(&mut self, until: Instant, events: &mut Vec<LinkEvent>) -> Result<(), Error> {
        let mut readable = true;
        self.core.flush(Instant::now());
        loop {
            let now = Instant::now();
            if readable && (now >= until || self.core.gathered(now) <= now) {
                self.core.receive(now, &mut self.sockets)?;
            }
            self.core.fire_timers(now);
            self.core.drive_touched(now);
            self.core.transmit_ready(now, &mut self.sockets);
            if !self.core.events.is_empty() || now >= until {
                events.append(&mut self.core.events);
                return Ok(());
            }
            readable = self.sleep(now, until)?;
        }
    }

    /// Delivers messages, closes all links, and keeps answering late packets. Takes at most `limit`; returns how many
    /// links were not done by then.
    pub fn shutdown(&mut self, limit: Micros, events: &mut Vec<LinkEvent>) -> Result<usize, Error> {
        let begun = Instant::now();
        self.core.closing = true;
        self.core.finish_messages();
        let messages_until = begun + duration(Micros(limit.0 / 2));
        while self.core.links.iter().any(Link::is_finishing) && Instant::now() < messages_until {
            self.wait(messages_until.min(Instant::now() + SHUTDOWN_STEP), events)?;
        }
        let open: Vec<LinkId> = self.core.links.iter().map(|link| link.id).collect();
        for link in open {
            self.close(link, CloseCode::SHUTDOWN, "shutting down");
        }
        let until = begun + duration(limit);
        while self.core.links.len() > 0 && Instant::now() < until {
            self.wait(until.min(Instant::now() + SHUTDOWN_STEP), events)?;
        }
        events.append(&mut self.core.events);
        Ok(self.core.links.len())
    }

    /// Sleeps until something is due; true if packets may have arrived.
    fn sleep(&self, now: Instant, until: Instant) -> Result<bool, Error> {
        let wake = self.core.next_due().map_or(until, |due| due.min(until));
        let gathered = self.core.gathered(now);
        if gathered > now {
            std::thread::sleep(wake.min(gathered).saturating_duration_since(now));
            return Ok(true);
        }
        Ok(self.sockets.wait(wake.saturating_duration_since(now), self.core.watched())?)
    }
}

/// The fixed bit distinguishes QUIC's packets from those of direct paths.
fn quic_config() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.grease_quic_bit(false);
    config
}

/// Protocols to offer native clients and servers, the preferred one first.
fn offered(options: &EndpointOptions) -> Vec<&'static [u8]> {
    let is_direct = options.datagrams == DatagramPath::Direct && options.spread == Micros::ZERO;
    let mut offered: Vec<&[u8]> = direct::protocols().filter(|_| is_direct).collect();
    offered.push(PROTOCOL);
    offered
}

fn client_config(
    trust: &Trust,
    transport: &Arc<TransportConfig>,
    protocols: &[&[u8]],
) -> Result<quinn_proto::ClientConfig, Error> {
    let crypto = identity::client_config(trust, protocols)?;
    let mut config = quinn_proto::ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::clone(transport));
    config.token_store(Arc::new(NoneTokenStore));
    Ok(config)
}

fn server_config(
    identity: &Identity,
    transport: &Arc<TransportConfig>,
    protocols: &[&[u8]],
) -> Result<Arc<quinn_proto::ServerConfig>, Error> {
    let crypto = Arc::new(identity.server_config(protocols)?);
    let mut config = quinn_proto::ServerConfig::with_crypto(crypto);
    config.transport_config(transport.clone());
    Ok(Arc::new(config))
}

impl Core {
    fn new(
        quic: quinn_proto::Endpoint,
        role: Role,
        options: EndpointOptions,
    ) -> Result<Core, Error> {
        let random = ring::rand::SystemRandom::new();
        let challenges = ring::hmac::Key::generate(ring::hmac::HMAC_SHA256, &random)
            .map_err(|_| std::io::Error::other("the system provided no random bytes"))?;
        Ok(Core {
            quic,
            role,
            options,
            origin: Instant::now(),
            links: Slots::default(),
            handles: Vec::new(),
            paths: PathTable::default(),
            challenges,
            suspects: Suspects::default(),
            admission: Admission::default(),
            handshakes: 0,
            timers: Timers::default(),
            asks: DelayedAcks::default(),
            touched: Vec::new(),
            ready: Vec::new(),
            dirty: Vec::new(),
            stagger: Stagger::default(),
            batch: Batch::default(),
            scratch: Vec::new(),
            arena_in: BytesMut::new(),
            arena_out: BytesMut::new(),
            conditioned: 0,
            events: Vec::new(),
            counters: EndpointCounters::default(),
            total: LinkMeter::default(),
            last_received: None,
            closing: false,
            #[cfg(feature = "web")]
            front: None,
            #[cfg(feature = "web")]
            udp: None,
        })
    }

    /// Time since the endpoint was made, for code without IO.
    fn micros(&self, now: Instant) -> Micros {
        Micros(now.saturating_duration_since(self.origin).as_micros() as u64)
    }

    /// The time until which arriving packets are gathered.
    fn gathered(&self, now: Instant) -> Instant {
        self.last_received.map_or(now, |last| last + duration(self.options.gather))
    }

    /// When something is due even if nothing arrives.
    fn next_due(&self) -> Option<Instant> {
        let slice = self.stagger.next_due().map(|due| self.origin + duration(due));
        let known = [self.timers.next_due(), self.asks.next_due(), slice, self.web_due()];
        known.into_iter().flatten().min()
    }

    #[cfg(not(feature = "web"))]
    fn web_due(&self) -> Option<Instant> {
        None
    }

    #[cfg(not(feature = "web"))]
    fn watched(&self) -> Vec<rustix::event::PollFd<'_>> {
        Vec::new()
    }

    fn renew(&mut self, now: SystemTime) -> Result<bool, Error> {
        let Role::Server { certificate, identity, transport, protocols, .. } = &mut self.role
        else {
            return Ok(false);
        };
        if !identity.is_due(now) {
            return Ok(false);
        }
        let fresh = Identity::obtain(certificate, now)?;
        self.quic.set_server_config(Some(server_config(&fresh, transport, protocols)?));
        *identity = fresh;
        self.counters.renewals += 1;
        Ok(true)
    }

    /// Prepares for a server that is trusted for its certificate's hash.
    fn pin(&mut self, certificate: CertificateHash) -> Result<(), Error> {
        let Role::Client { transport, protocols, pinned, .. } = &mut self.role else {
            return Err(Error::OnlyListens);
        };
        if !pinned.contains_key(&certificate) {
            if pinned.len() >= MAX_PINNED {
                pinned.clear();
            }
            let trust = Trust::Pinned(vec![certificate]);
            pinned.insert(certificate, client_config(&trust, transport, protocols)?);
        }
        Ok(())
    }

    fn connect(
        &mut self,
        address: SocketAddr,
        name: &str,
        certificate: Option<CertificateHash>,
    ) -> Result<LinkId, Error> {
        let Role::Client { config, pinned, .. } = &self.role else {
            return Err(Error::OnlyListens);
        };
        let config = certificate.and_then(|hash| pinned.get(&hash)).unwrap_or(config);
        let limit = self.options.limits.max_links;
        if self.closing || self.links.len() >= limit as usize {
            return Err(Error::Full { limit });
        }
        let now = Instant::now();
        let (handle, conn) = self
            .quic
            .connect(now, config.clone(), address, name)
            .map_err(|cause| Error::Connect { address, what: cause.to_string() })?;
        let link = self.add(now, handle, conn, None);
        self.touch(link.index);
        Ok(link)
    }

    fn send_datagram(&mut self, id: LinkId, bytes: &[u8]) -> Result<(), Error> {
        open(&mut self.links, id)?;
        // Before QUIC is asked for its limit, which takes about as long as sealing a small packet.
        if self.send_direct(id.index, bytes) {
            return Ok(());
        }
        let link = open(&mut self.links, id)?;
        let limit = link.carrier.max_datagram().ok_or(Error::NotConnected)?;
        let size = Bytes(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        if size > limit || limit.0 == 0 {
            return Err(Error::DatagramTooLarge { size, limit });
        }
        let send = link.carrier.steps().send_datagram;
        let waits = send(self, id, bytes)?;
        match self.links.get_mut(id) {
            Some(link) if !waits => link.sent.datagrams += 1,
            _ => self.queued(id, |sent| sent.datagrams += 1),
        }
        Ok(())
    }

    /// Adds a link to those that wait for `flush`.
    fn queued(&mut self, id: LinkId, count: impl FnOnce(&mut LinkTraffic)) {
        let Some(link) = self.links.get_mut(id) else { return };
        count(&mut link.sent);
        if !std::mem::replace(&mut link.dirty, true) {
            self.dirty.push(id.index);
        }
    }

    fn max_datagram(&mut self, link: LinkId) -> Option<Bytes> {
        self.links.get_mut(link)?.carrier.max_datagram()
    }

    fn send_message(&mut self, id: LinkId, bytes: &[u8]) -> Result<(), Error> {
        let link = open(&mut self.links, id)?;
        let (limit, backlog) = link.purpose.message_limits(&self.options.limits);
        let size = Bytes(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        if size > limit {
            return Err(Error::MessageTooLarge { size, limit });
        }
        let waiting = link.carrier.backlog();
        if waiting.0.saturating_add(size.0) > backlog.0 {
            return Err(Error::BacklogFull { waiting, limit: backlog });
        }
        let send = link.carrier.steps().send_message;
        send(self, id, bytes);
        self.queued(id, |sent| sent.messages += 1);
        Ok(())
    }

    fn close(&mut self, now: Instant, id: LinkId, code: CloseCode, reason: &str) {
        let Some(link) = self.links.get_mut(id) else { return };
        if link.stage == Stage::Closed {
            return;
        }
        link.carrier.close(now, code, reason);
        self.ended(id, Reason::Here { code, reason: reason.to_owned() });
        self.touch(id.index);
    }

    fn set_conditions(&mut self, id: LinkId, ways: Option<LinkConditions>) -> bool {
        let seed = self.seed(id);
        let Some(link) = self.links.get_mut(id) else { return false };
        self.conditioned += u32::from(link.carrier.set_conditions(ways, seed));
        true
    }

    /// A seed that differs by link, and is the same in every run.
    fn seed(&self, id: LinkId) -> u64 {
        self.options.seed ^ (u64::from(id.generation) << 32 | u64::from(id.index)) << 1
    }

    fn total(&self) -> LinkMeter {
        self.total.with(self.links.iter().map(Link::meter), absorb)
    }

    fn add(
        &mut self,
        now: Instant,
        handle: quinn_proto::ConnectionHandle,
        conn: quinn_proto::Connection,
        origin: Option<crate::admission::Origin>,
    ) -> LinkId {
        let carrier = Box::new(Quic::new(handle, conn, now));
        let id = self.add_link(now, carrier, origin);
        if self.handles.len() <= handle.0 {
            self.handles.resize(handle.0 + 1, u32::MAX);
        }
        self.handles[handle.0] = id.index;
        id
    }

    /// Adds a link in its handshake, whatever its carrier.
    fn add_link(
        &mut self,
        now: Instant,
        carrier: Box<dyn Carrier>,
        origin: Option<crate::admission::Origin>,
    ) -> LinkId {
        let flow = Flow::new(&self.options.limits, self.micros(now));
        let id = self.links.insert(|id| Link::new(id, carrier, origin, flow, now));
        self.handshakes += 1;
        if self.options.conditions.is_some() {
            self.set_conditions(id, self.options.conditions);
        }
        id
    }
}

/// The link, if data can be sent on it.
fn open(links: &mut Slots<Link>, id: LinkId) -> Result<&mut Link, Error> {
    match links.get_mut(id) {
        Some(link) if link.stage == Stage::Open => Ok(link),
        Some(link) if link.stage == Stage::Handshake => Err(Error::NotConnected),
        _ => Err(Error::Closed),
    }
}

/// Adds the parts of a link's meter that the endpoint does not count itself.
fn absorb(total: &mut LinkMeter, link: &LinkMeter) {
    total.received.datagrams += link.received.datagrams;
    total.received.messages += link.received.messages;
    total.sent.datagrams += link.sent.datagrams;
    total.sent.messages += link.sent.messages;
    total.lost_packets += link.lost_packets;
}

/// Copies into memory that many packets share, which saves an allocation for each.
fn copy(arena: &mut BytesMut, prefix: &[u8], bytes: &[u8]) -> BytesMut {
    let size = prefix.len() + bytes.len();
    if arena.capacity() < size {
        arena.reserve(ARENA.max(size));
    }
    arena.extend_from_slice(prefix);
    arena.extend_from_slice(bytes);
    arena.split()
}
