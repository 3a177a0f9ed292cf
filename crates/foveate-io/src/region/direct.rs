//! Direct links between servers: QUIC, both ends proved by the world's key.
//!
//! The server with the lower number dials. Each end challenges the other and is believed once the answer is right;
//! messages that come before are dropped. The proof only keeps strangers from using up links: messages are sealed with
//! the world's key as well. Each end sends a ping every 100 ms; a link that was silent for 300 ms is not fresh.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use foveate_node::region::layout::ServerId;
use foveate_wire::{Bytes, Micros};
use ring::hmac;

use super::{BusCounts, WorldKey};
use crate::bucket::RateLimit;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::event::{CloseCode, LinkEvent};
use crate::host::secret;
use crate::identity::{Certificate, Trust};
use crate::options::{EndpointOptions, Limits};
use crate::slots::LinkId;

/// The most servers that are linked.
pub const MAX_DIRECT_LINKS: usize = 256;
/// The most received messages that wait for [`DirectLinks::poll`].
const MAX_DIRECT_WAITING: usize = 16_384;

/// Time between two pings on a link.
const PING_EVERY: Duration = Duration::from_millis(100);
/// A link that was silent for this long is not fresh.
const FRESH: Duration = Duration::from_millis(300);
/// A link whose other end has not proved that it has the key is closed after this.
const PROVE_WITHIN: Duration = Duration::from_secs(3);
/// A server without a link is dialled again after this.
const REDIAL: Duration = Duration::from_secs(1);

// The first byte of each message on a link.
const PING: u8 = 0;
const CHALLENGE: u8 = 1;
const PROOF: u8 = 2;
const FRAME: u8 = 3;

/// Where a server is reached by other servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectOptions {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The address that other servers are told. Default: the one that is listened on.
    pub advertise: Option<SocketAddr>,
}

/// Which of the two sockets a link belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Side {
    Dialled,
    Accepted,
}

type Place = (Side, LinkId);

struct DirectLink {
    /// The challenge that was sent to the other end.
    nonce: [u8; 16],
    /// The server at the other end, once it has proved that it is one.
    server: Option<ServerId>,
    begun: Instant,
    heard: Instant,
}

/// A server whose address is known.
struct Known {
    address: SocketAddr,
    dialled: Option<Instant>,
}

/// One server's links to the others.
pub struct DirectLinks {
    listener: Endpoint,
    dialer: Endpoint,
    address: SocketAddr,
    me: ServerId,
    proofs: Option<hmac::Key>,
    known: BTreeMap<ServerId, Known>,
    links: BTreeMap<Place, DirectLink>,
    by_server: BTreeMap<ServerId, Place>,
    arrived: VecDeque<Vec<u8>>,
    events: Vec<LinkEvent>,
    looked: Option<Instant>,
    pinged: Instant,
    counts: BusCounts,
}

fn limits() -> Limits {
    Limits {
        max_links: 2 * MAX_DIRECT_LINKS as u32,
        max_links_per_address: MAX_DIRECT_LINKS as u32,
        handshakes_per_address: RateLimit { per_second: 32, burst: 128 },
        datagrams: RateLimit::per_second(65_536),
        bytes: RateLimit::per_second(256 * 1024 * 1024),
        max_message: Bytes(1024 * 1024),
        max_backlog: Bytes(8 * 1024 * 1024),
        ..Limits::server()
    }
}

impl DirectLinks {
    /// Listens for other servers.
    pub fn listen(options: DirectOptions) -> Result<DirectLinks, Error> {
        let usual = EndpointOptions {
            limits: limits(),
            idle_timeout: Micros::from_millis(3_000),
            gather: Micros::ZERO,
            timer_slack: Micros::from_millis(5),
            ..EndpointOptions::server()
        };
        let certificate = Certificate::development();
        let listener = Endpoint::server(options.listen, certificate, usual.clone())?;
        let from = SocketAddr::new(options.listen.ip(), 0);
        // No certificate authority is involved: the other end proves that it has the world's key.
        let dialer = Endpoint::client(from, &Trust::InsecureDevelopmentOnly, usual)?;
        let address = options.advertise.map_or_else(|| listener.address(), Ok)?;
        Ok(DirectLinks {
            listener,
            dialer,
            address,
            me: ServerId(0),
            proofs: None,
            known: BTreeMap::new(),
            links: BTreeMap::new(),
            by_server: BTreeMap::new(),
            arrived: VecDeque::new(),
            events: Vec::new(),
            looked: None,
            pinged: Instant::now(),
            counts: BusCounts::default(),
        })
    }

    /// The address that other servers are told.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn begin(&mut self, key: &WorldKey, me: ServerId) {
        (self.proofs, self.me) = (Some(key.proofs()), me);
    }

    pub(super) fn counts(&self) -> BusCounts {
        BusCounts { links: self.by_server.len() as u64, ..self.counts }
    }

    fn side(&mut self, side: Side) -> &mut Endpoint {
        match side {
            Side::Dialled => &mut self.dialer,
            Side::Accepted => &mut self.listener,
        }
    }

    /// Another server has told its address.
    pub(super) fn learn(&mut self, server: ServerId, address: SocketAddr) {
        if self.known.len() >= MAX_DIRECT_LINKS && !self.known.contains_key(&server) {
            // Servers come and go; those that are linked stay known.
            let by_server = &self.by_server;
            self.known.retain(|id, _| by_server.contains_key(id));
        }
        if self.known.len() < MAX_DIRECT_LINKS || self.known.contains_key(&server) {
            let known = self.known.entry(server).or_insert(Known { address, dialled: None });
            known.address = address;
        }
    }

    /// Whether something arrived over the link to a server within the last 300 ms.
    pub(super) fn is_fresh(&self, server: ServerId) -> bool {
        let link = self.by_server.get(&server).and_then(|place| self.links.get(place));
        link.is_some_and(|link| link.heard.elapsed() < FRESH)
    }

    /// Sends to a server; false if there is no link.
    pub(super) fn send(&mut self, server: ServerId, frame: &[u8]) -> bool {
        match self.by_server.get(&server).copied() {
            Some(place) => self.put(place, FRAME, frame),
            None => false,
        }
    }

    pub(super) fn send_all(&mut self, frame: &[u8]) {
        let places: Vec<Place> = self.by_server.values().copied().collect();
        for place in places {
            self.put(place, FRAME, frame);
        }
    }

    /// As a datagram if it fits, otherwise by the reliable stream.
    fn put(&mut self, (side, link): Place, first: u8, rest: &[u8]) -> bool {
        let bytes = [&[first], rest].concat();
        let endpoint = self.side(side);
        let fits = endpoint.max_datagram(link).is_some_and(|most| bytes.len() <= most.0 as usize);
        let reliable = matches!(first, CHALLENGE | PROOF);
        match fits && !reliable {
            true => endpoint.send_datagram(link, &bytes).is_ok(),
            false => endpoint.send_message(link, &bytes).is_ok(),
        }
    }

    /// The next message. Reads the sockets at most once a millisecond: the caller asks in every slice of a round.
    pub(super) fn poll(&mut self) -> Option<Vec<u8>> {
        if let Some(frame) = self.arrived.pop_front() {
            return Some(frame);
        }
        let now = Instant::now();
        if self.looked.is_some_and(|last| now - last < Duration::from_millis(1)) {
            return None;
        }
        self.looked = Some(now);
        self.dial(now);
        self.ping(now);
        for side in [Side::Dialled, Side::Accepted] {
            let mut events = std::mem::take(&mut self.events);
            // A socket that fails is tried again with the next look.
            self.side(side).wait(now, &mut events).unwrap_or(());
            events.drain(..).for_each(|event| self.on_event(side, event, now));
            self.events = events;
            self.side(side).flush();
        }
        self.arrived.pop_front()
    }

    fn dial(&mut self, now: Instant) {
        let DirectLinks { known, by_server, me, dialer, .. } = self;
        let due = |it: &Known| it.dialled.is_none_or(|at| now - at >= REDIAL);
        for (server, known) in known.iter_mut() {
            if *server > *me && !by_server.contains_key(server) && due(known) {
                known.dialled = Some(now);
                // A failure arrives as the event that closes the link.
                dialer.connect(known.address, "localhost").map(|_| ()).unwrap_or(());
            }
        }
    }

    fn ping(&mut self, now: Instant) {
        if now - self.pinged < PING_EVERY {
            return;
        }
        self.pinged = now;
        let late = |it: &DirectLink| it.server.is_none() && now - it.begun > PROVE_WITHIN;
        let late: Vec<Place> =
            self.links.iter().filter(|(_, it)| late(it)).map(|(place, _)| *place).collect();
        for (side, link) in late {
            self.counts.forged += 1;
            self.side(side).close(link, CloseCode::SHUTDOWN, "no proof of the world's key");
        }
        let places: Vec<Place> = self.by_server.values().copied().collect();
        for place in places {
            self.put(place, PING, &[]);
        }
    }

    fn on_event(&mut self, side: Side, event: LinkEvent, now: Instant) {
        let place = (side, event.link());
        match event {
            LinkEvent::Connected { .. } => {
                let link = DirectLink { nonce: secret(), server: None, begun: now, heard: now };
                let nonce = link.nonce;
                self.links.insert(place, link);
                self.put(place, CHALLENGE, &nonce);
            }
            LinkEvent::Closed { .. } => {
                let link = self.links.remove(&place);
                if let Some(server) = link.and_then(|link| link.server)
                    && self.by_server.get(&server) == Some(&place)
                {
                    self.by_server.remove(&server);
                }
            }
            LinkEvent::Datagram { bytes, .. } | LinkEvent::Message { bytes, .. } => {
                self.on_bytes(place, &bytes, now);
            }
        }
    }

    fn on_bytes(&mut self, place: Place, bytes: &[u8], now: Instant) {
        let Some((first, rest)) = bytes.split_first() else { return };
        let Some(link) = self.links.get_mut(&place) else { return };
        if link.server.is_some() {
            link.heard = now;
        }
        match (*first, link.server) {
            (CHALLENGE, _) => {
                let (said, me) = (said(place.0, self.me, rest), self.me.0.to_le_bytes());
                if let Some(proof) = self.proofs.as_ref().map(|key| hmac::sign(key, &said)) {
                    self.put(place, PROOF, &[&me, proof.as_ref()].concat());
                }
            }
            (PROOF, None) => self.on_proof(place, rest, now),
            (FRAME, Some(_)) if self.arrived.len() < MAX_DIRECT_WAITING => {
                self.arrived.push_back(rest.to_vec());
            }
            (FRAME, Some(_)) => self.counts.overflowed += 1,
            (FRAME, None) => self.counts.forged += 1,
            _ => {}
        }
    }

    fn on_proof(&mut self, place: Place, bytes: &[u8], now: Instant) {
        let Some(nonce) = self.links.get(&place).map(|link| link.nonce) else { return };
        let Some((number, proof)) = bytes.split_first_chunk::<4>() else { return };
        let server = ServerId(u32::from_le_bytes(*number));
        let other = match place.0 {
            Side::Dialled => Side::Accepted,
            Side::Accepted => Side::Dialled,
        };
        let said = said(other, server, &nonce);
        let right = self.proofs.as_ref().is_some_and(|key| hmac::verify(key, &said, proof).is_ok());
        if !right || server == self.me || self.by_server.len() >= MAX_DIRECT_LINKS {
            self.counts.forged += u64::from(!right);
            let (side, link) = place;
            return self.side(side).close(link, CloseCode::SHUTDOWN, "wrong proof");
        }
        if let Some(link) = self.links.get_mut(&place) {
            (link.server, link.heard) = (Some(server), now);
        }
        if let Some((side, link)) = self.by_server.insert(server, place) {
            // The same server has dialled anew: its earlier link is of no use.
            self.side(side).close(link, CloseCode::SHUTDOWN, "replaced by a newer link");
        }
    }
}

/// The bytes that an end signs. They name the side, so that a proof cannot be sent back to its sender.
fn said(side: Side, server: ServerId, nonce: &[u8]) -> Vec<u8> {
    [&[u8::from(side == Side::Dialled)][..], &server.0.to_le_bytes(), nonce].concat()
}
