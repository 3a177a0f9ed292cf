//! The state that the caller's thread and the background thread share: links, limits, events.
//!
//! One lock guards all of it. Both sides hold it briefly and never wait while they hold it; the only system calls under
//! it are those of QUIC's queues.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use foveate_node::node::Remote;
use foveate_node::peer::Key;
use foveate_wire::{Bytes, Micros};
use iroh::endpoint::{Connection, VarInt};
use tokio::sync::{Notify, mpsc};

use super::held::{Arrival, Held};
use super::options::PeerOptions;
use crate::admission::{Admission, AdmissionRules, Load, Origin, Standing, Verdict};
use crate::error::Error;
use crate::event::{CloseCode, LinkEvent, Purpose, Reason};
use crate::link::{Flow, Passage, Stage};
use crate::meter::{EndpointCounters, LinkMeter, LinkTraffic};
use crate::options::{LinkConditions, duration};
use crate::slots::{LinkId, Slots};

/// Bytes of one link's datagrams that wait for the caller; more are dropped.
pub const MAX_UNREAD: usize = 64 * 1024;

/// Most links with one peer: both may dial at the same time, and either may reconnect before the other notices its
/// loss. The node decides which of them stays.
pub const MAX_LINKS_PER_PEER: usize = 4;

/// The shared state, and a condition variable for the caller.
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) ready: Condvar,
}

impl Shared {
    pub(super) fn new(key: Key, options: PeerOptions) -> Shared {
        Shared { state: Mutex::new(State::new(key, options)), ready: Condvar::new() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and wakes the caller.
    pub(super) fn tell<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let done = change(&mut self.lock());
        self.ready.notify_one();
        done
    }
}

pub(super) struct State {
    pub(super) options: PeerOptions,
    pub(super) counters: EndpointCounters,
    pub(super) closing: bool,
    key: Key,
    origin: Instant,
    links: Slots<PeerLink>,
    admission: Admission,
    handshakes: u32,
    /// Number of links with conditions.
    conditioned: u32,
    events: VecDeque<LinkEvent>,
    /// Traffic of closed links.
    total: LinkMeter,
}

struct PeerLink {
    id: LinkId,
    stage: Stage,
    /// The address that it counts for; `None` if this side started it.
    origin: Option<Origin>,
    standing: Standing,
    peer: Option<Key>,
    conn: Option<Connection>,
    /// Messages on their way to the stream.
    outbox: Option<mpsc::UnboundedSender<bytes::Bytes>>,
    /// Bytes of those messages.
    backlog: usize,
    /// The stream is being ended, and the end is not acknowledged.
    finishing: bool,
    flow: Flow,
    /// Bytes of datagrams that wait for the caller.
    unread_datagrams: usize,
    /// Bytes of messages that wait for the caller.
    unread_messages: usize,
    /// Notified when the caller has read messages.
    room: Arc<Notify>,
    received: LinkTraffic,
    sent: LinkTraffic,
    shortest: Micros,
    held: Option<Box<Held>>,
}

/// What a task needs to serve an open link.
pub(super) struct Opened {
    pub(super) dialled: bool,
    pub(super) outbox: mpsc::UnboundedReceiver<bytes::Bytes>,
    pub(super) room: Arc<Notify>,
}

impl State {
    fn new(key: Key, options: PeerOptions) -> State {
        State {
            options,
            counters: EndpointCounters::default(),
            closing: false,
            key,
            origin: Instant::now(),
            links: Slots::default(),
            admission: Admission::default(),
            handshakes: 0,
            conditioned: 0,
            events: VecDeque::new(),
            total: LinkMeter::default(),
        }
    }

    fn micros(&self, now: Instant) -> Micros {
        Micros(now.saturating_duration_since(self.origin).as_micros() as u64)
    }

    pub(super) fn len(&self) -> usize {
        self.links.len()
    }

    fn add(&mut self, now: Instant, origin: Option<Origin>) -> LinkId {
        let flow = Flow::new(&self.options.limits, self.micros(now));
        self.handshakes += 1;
        let id = self.links.insert(|id| PeerLink {
            id,
            stage: Stage::Handshake,
            origin,
            standing: Standing::Proved,
            peer: None,
            conn: None,
            outbox: None,
            backlog: 0,
            finishing: false,
            flow,
            unread_datagrams: 0,
            unread_messages: 0,
            room: Arc::default(),
            received: LinkTraffic::default(),
            sent: LinkTraffic::default(),
            shortest: Micros::UNBOUNDED,
            held: None,
        });
        if self.options.conditions.is_some() {
            self.set_conditions(id, self.options.conditions);
        }
        id
    }

    /// Reserves a link that this side starts.
    pub(super) fn begin(&mut self, now: Instant, peer: Key) -> Result<LinkId, Error> {
        if peer == self.key {
            return Err(Error::Peer { peer, what: "this is the peer's own key".into() });
        }
        let limit = self.options.limits.max_links;
        if self.closing || self.links.len() >= limit as usize {
            return Err(Error::Full { limit });
        }
        Ok(self.add(now, None))
    }

    /// Decides about an incoming handshake. All that come through a relay count as one address.
    pub(super) fn judge(
        &mut self,
        now: Instant,
        address: Option<SocketAddr>,
        proved: bool,
    ) -> (Verdict, Option<LinkId>) {
        if self.closing {
            self.counters.refused_full += 1;
            return (Verdict::Refuse, None);
        }
        let ip = address.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |address| address.ip());
        let origin = Origin::from(ip);
        let load =
            Load { links: self.links.len() as u32, handshakes: self.handshakes, is_crowded: false };
        let at = self.micros(now);
        let rules = AdmissionRules { limits: &self.options.limits, counters: &mut self.counters };
        let verdict = self.admission.judge(origin, proved, load, at, rules);
        let accepted = (verdict == Verdict::Accept).then(|| {
            self.counters.accepted += 1;
            let id = self.add(now, Some(origin));
            if let Some(link) = self.links.get_mut(id).filter(|_| !proved) {
                link.standing = Standing::Unproved;
            }
            id
        });
        (verdict, accepted)
    }

    /// Handles the end of a handshake. `None` if the link is no longer wanted or the peer has enough links; the
    /// connection is then closed.
    pub(super) fn open(
        &mut self,
        id: LinkId,
        conn: Connection,
        address: Option<SocketAddr>,
    ) -> Option<Opened> {
        let at = self.micros(Instant::now());
        let peer = Key(*conn.remote_id().as_bytes());
        let same = |link: &&PeerLink| link.stage == Stage::Open && link.peer == Some(peer);
        let others = self.links.iter().filter(same).count();
        let link = self.links.get_mut(id).filter(|link| link.stage == Stage::Handshake);
        let Some(link) = link else {
            conn.close(VarInt::from_u32(CloseCode::DONE.0), b"no longer wanted");
            return None;
        };
        (link.conn, link.peer) = (Some(conn), Some(peer));
        if let Some(origin) = link.origin.filter(|_| link.standing == Standing::Unproved) {
            let rules =
                AdmissionRules { limits: &self.options.limits, counters: &mut self.counters };
            if !self.admission.prove(origin, at, rules) {
                link.standing = Standing::Uncounted;
                self.close(id, CloseCode::ENOUGH, "too many links from this address");
                return None;
            }
            link.standing = Standing::Proved;
        }
        if others >= MAX_LINKS_PER_PEER {
            self.close(id, CloseCode::ENOUGH, "there are enough links already");
            return None;
        }
        let (sender, outbox) = mpsc::unbounded_channel();
        (link.stage, link.outbox) = (Stage::Open, Some(sender));
        let (dialled, room) = (link.origin.is_none(), Arc::clone(&link.room));
        self.handshakes -= 1;
        self.events.push_back(LinkEvent::Connected {
            link: id,
            address,
            remote: Remote::Keyed { key: peer, dialled },
            purpose: Purpose::Play,
        });
        Some(Opened { dialled, outbox, room })
    }

    /// Ends a link for any reason.
    pub(super) fn ended(&mut self, now: Instant, id: LinkId, reason: Reason) {
        let now = self.micros(now);
        let Some(link) = self.links.get_mut(id) else { return };
        match (&mut link.held, link.stage) {
            (_, Stage::Closed) => {}
            (Some(held), Stage::Open) => held.arrive(now, Arrival::Closed(reason)),
            _ => self.finish(id, reason),
        }
    }

    /// Closes a link from this side; true if it existed.
    pub(super) fn close(&mut self, id: LinkId, code: CloseCode, reason: &str) -> bool {
        let Some(link) = self.links.get_mut(id) else { return false };
        if link.stage == Stage::Closed {
            return false;
        }
        if let Some(conn) = &link.conn {
            conn.close(VarInt::from_u32(code.0), reason.as_bytes());
        }
        self.finish(id, Reason::Here { code, reason: reason.to_owned() });
        true
    }

    fn finish(&mut self, id: LinkId, reason: Reason) {
        let Some(link) = self.links.get_mut(id) else { return };
        let was = std::mem::replace(&mut link.stage, Stage::Closed);
        // A link that was never reported ends without a report.
        let silent = was == Stage::Handshake && link.origin.is_some();
        link.finishing = false;
        link.outbox = None;
        link.room.notify_one();
        if let Some(origin) = link.origin {
            self.admission.release(origin, link.standing);
        }
        self.free(id);
        if was == Stage::Handshake {
            self.handshakes -= 1;
            self.counters.handshakes_failed += 1;
        }
        match silent {
            true => self.forget(id),
            false => self.events.push_back(LinkEvent::Closed { link: id, reason }),
        }
    }

    /// Frees a link's place. A link keeps it until its end was reported to the caller, so that what waits for the
    /// caller is bounded.
    fn forget(&mut self, id: LinkId) {
        if let Some(meter) = self.meter(id) {
            add(&mut self.total, &meter);
            self.links.remove(id.index);
        }
    }

    /// Handles a received datagram; false if the link is closed.
    pub(super) fn datagram(&mut self, now: Instant, id: LinkId, bytes: bytes::Bytes) -> bool {
        let at = self.micros(now);
        let Some(link) = self.links.get_mut(id) else { return false };
        if link.stage != Stage::Open {
            return false;
        }
        match link.flow.datagram(&self.options.limits, at, bytes.len()) {
            Passage::Free => {}
            Passage::Dropped => {
                self.counters.datagrams_over_rate += 1;
                return true;
            }
            Passage::Flood => {
                self.flood(id);
                return false;
            }
        }
        match &mut link.held {
            Some(held) => {
                if !held.receive(at, bytes) {
                    self.counters.conditioned_away += 1;
                }
            }
            None => self.deliver(id, bytes),
        }
        true
    }

    fn deliver(&mut self, id: LinkId, bytes: bytes::Bytes) {
        let Some(link) = self.links.get_mut(id) else { return };
        if link.unread_datagrams + bytes.len() > MAX_UNREAD {
            self.counters.datagrams_unread += 1;
            return;
        }
        link.unread_datagrams += bytes.len();
        link.received.datagrams += 1;
        self.events.push_back(LinkEvent::Datagram { link: id, bytes });
    }

    fn flood(&mut self, id: LinkId) {
        self.counters.closed_flood += 1;
        self.close(id, CloseCode::FLOOD, "the allowed rate was exceeded for too long");
    }

    /// Handles a received message; false if the caller must read some before more are read.
    pub(super) fn message(&mut self, now: Instant, id: LinkId, bytes: bytes::Bytes) -> bool {
        let at = self.micros(now);
        let Some(link) = self.links.get_mut(id) else { return true };
        if link.stage != Stage::Open {
            return true;
        }
        if link.flow.message(&self.options.limits, at, bytes.len()) == Passage::Flood {
            self.flood(id);
            return true;
        }
        link.unread_messages += bytes.len();
        let full = link.unread_messages > self.options.limits.max_message.0 as usize;
        match &mut link.held {
            Some(held) => held.arrive(at, Arrival::Message(bytes)),
            None => self.hand_over(id, bytes),
        }
        !full
    }

    fn hand_over(&mut self, id: LinkId, bytes: bytes::Bytes) {
        if let Some(link) = self.links.get_mut(id) {
            link.received.messages += 1;
            self.events.push_back(LinkEvent::Message { link: id, bytes });
        }
    }

    /// Whether the link is open, and the caller has read enough for more messages.
    pub(super) fn has_room(&self, id: LinkId) -> bool {
        let limit = self.options.limits.max_message.0 as usize;
        self.links.get(id).is_none_or(|link| link.unread_messages <= limit)
    }

    pub(super) fn oversized(&mut self, id: LinkId) {
        self.counters.closed_oversized += 1;
        self.close(id, CloseCode::MESSAGE_TOO_LARGE, "a message exceeds the limit");
    }

    /// Records that the stream accepted a message.
    pub(super) fn written(&mut self, id: LinkId, bytes: usize) {
        if let Some(link) = self.links.get_mut(id) {
            link.backlog -= bytes;
        }
    }

    /// Records that all messages of a link have arrived, or never will.
    pub(super) fn finished(&mut self, id: LinkId) {
        if let Some(link) = self.links.get_mut(id) {
            link.finishing = false;
        }
    }

    /// Ends the streams of messages. What conditions hold leaves at once.
    pub(super) fn finish_messages(&mut self) {
        for link in self.links.iter_mut().filter(|link| link.stage == Stage::Open) {
            if let (Some(held), Some(outbox)) = (&mut link.held, &link.outbox) {
                while let Some(message) = held.left(Micros::UNBOUNDED) {
                    // The task exists as long as the link is open.
                    outbox.send(message).unwrap_or(());
                }
            }
            link.finishing = link.sent.messages > 0;
            link.outbox = None;
        }
    }

    /// Number of links whose messages may not have arrived.
    pub(super) fn finishing(&self) -> usize {
        self.links.iter().filter(|link| link.finishing).count()
    }

    pub(super) fn ids(&self) -> Vec<LinkId> {
        self.links.iter().map(|link| link.id).collect()
    }

    pub(super) fn send_datagram(
        &mut self,
        now: Instant,
        id: LinkId,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let at = self.micros(now);
        let link = open(&mut self.links, id)?;
        let conn = link.conn.as_ref().ok_or(Error::NotConnected)?;
        let limit = conn.max_datagram_size().ok_or(Error::NotConnected)?;
        if bytes.len() > limit {
            let (size, limit) = (Bytes(bytes.len() as u32), Bytes(limit as u32));
            return Err(Error::DatagramTooLarge { size, limit });
        }
        link.sent.datagrams += 1;
        let bytes = bytes::Bytes::copy_from_slice(bytes);
        match &mut link.held {
            Some(held) => {
                if !held.send(at, bytes) {
                    self.counters.conditioned_away += 1;
                }
            }
            None => transmit(conn, bytes, &mut self.counters),
        }
        Ok(())
    }

    pub(super) fn send_message(
        &mut self,
        now: Instant,
        id: LinkId,
        bytes: &[u8],
    ) -> Result<(), Error> {
        let at = self.micros(now);
        let link = open(&mut self.links, id)?;
        let limits = &self.options.limits;
        let size = Bytes(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        if size > limits.max_message {
            return Err(Error::MessageTooLarge { size, limit: limits.max_message });
        }
        let waiting = Bytes(link.backlog as u32);
        if waiting.0.saturating_add(size.0) > limits.max_backlog.0 {
            return Err(Error::BacklogFull { waiting, limit: limits.max_backlog });
        }
        let outbox = link.outbox.as_ref().ok_or(Error::Closed)?;
        link.backlog += bytes.len();
        link.sent.messages += 1;
        let bytes = bytes::Bytes::copy_from_slice(bytes);
        match &mut link.held {
            Some(held) => held.leave(at, bytes),
            // The task has ended, and is about to report the link's end.
            None => outbox.send(bytes).unwrap_or(()),
        }
        Ok(())
    }

    pub(super) fn max_datagram(&self, id: LinkId) -> Option<Bytes> {
        let size = self.links.get(id)?.conn.as_ref()?.max_datagram_size()?;
        Some(Bytes(size as u32))
    }

    pub(super) fn set_conditions(&mut self, id: LinkId, ways: Option<LinkConditions>) -> bool {
        let seed = self.options.seed ^ (u64::from(id.generation) << 32 | u64::from(id.index)) << 1;
        let Some(link) = self.links.get_mut(id) else { return false };
        match (&mut link.held, ways) {
            (Some(held), ways) => held.set(ways),
            (none @ None, Some(ways)) if link.stage != Stage::Closed => {
                *none = Some(Box::new(Held::new(ways, seed)));
                self.conditioned += 1;
            }
            (None, _) => {}
        }
        true
    }

    /// Releases what conditioners have held long enough.
    pub(super) fn release(&mut self, now: Instant) {
        if self.conditioned == 0 {
            return;
        }
        let at = self.micros(now);
        for id in self.ids() {
            while let Some(bytes) = self.held(id).and_then(|held| held.received(at)) {
                self.deliver(id, bytes);
            }
            while let Some(bytes) = self.held(id).and_then(|held| held.sent(at)) {
                let conn = self.links.get(id).and_then(|link| link.conn.as_ref());
                if let Some(conn) = conn {
                    transmit(conn, bytes, &mut self.counters);
                }
            }
            while let Some(message) = self.held(id).and_then(|held| held.left(at)) {
                let outbox = self.links.get(id).and_then(|link| link.outbox.as_ref());
                if let Some(outbox) = outbox {
                    outbox.send(message).unwrap_or(());
                }
            }
            while let Some(arrival) = self.held(id).and_then(|held| held.arrived(at)) {
                match arrival {
                    Arrival::Message(bytes) => self.hand_over(id, bytes),
                    Arrival::Closed(reason) => self.finish(id, reason),
                }
            }
            if self.held(id).is_some_and(|held| held.is_done()) {
                self.free(id);
            }
        }
    }

    /// Ends a link's conditions.
    fn free(&mut self, id: LinkId) {
        let link = self.links.get_mut(id);
        if link.is_some_and(|link| link.held.take().is_some()) {
            self.conditioned -= 1;
        }
    }

    fn held(&mut self, id: LinkId) -> Option<&mut Held> {
        self.links.get_mut(id)?.held.as_deref_mut()
    }

    /// When the next held item is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        if self.conditioned == 0 {
            return None;
        }
        let due = self.links.iter().filter_map(|link| link.held.as_ref()?.next_due()).min()?;
        // An item that is held for ever is never due.
        (due < Micros::UNBOUNDED).then(|| self.origin + duration(due))
    }

    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// Reports pending events.
    pub(super) fn take(&mut self, events: &mut Vec<LinkEvent>) {
        while let Some(event) = self.events.pop_front() {
            match &event {
                LinkEvent::Connected { .. } => {}
                LinkEvent::Datagram { link, bytes } => {
                    if let Some(link) = self.links.get_mut(*link) {
                        link.unread_datagrams -= bytes.len();
                    }
                }
                LinkEvent::Message { link, bytes } => {
                    if let Some(link) = self.links.get_mut(*link) {
                        link.unread_messages -= bytes.len();
                        link.room.notify_one();
                    }
                }
                LinkEvent::Closed { link, .. } => self.forget(*link),
            }
            events.push(event);
        }
    }

    pub(super) fn meter(&mut self, id: LinkId) -> Option<LinkMeter> {
        self.links.get_mut(id).map(PeerLink::meter)
    }

    pub(super) fn total(&mut self) -> LinkMeter {
        self.total.with(self.links.iter_mut().map(PeerLink::meter), add)
    }
}

impl PeerLink {
    fn meter(&mut self) -> LinkMeter {
        let Some(conn) = &self.conn else { return LinkMeter::default() };
        let stats = conn.stats();
        let paths = conn.paths();
        let path = paths.iter().find(|path| path.is_selected()).map(|path| path.stats());
        let round_trip = path.map_or(Micros::ZERO, |path| Micros(path.rtt.as_micros() as u64));
        if round_trip > Micros::ZERO {
            self.shortest = self.shortest.min(round_trip);
        }
        let traffic = |udp: iroh::endpoint::UdpStats, ours: LinkTraffic| LinkTraffic {
            packets: udp.datagrams,
            bytes: udp.bytes,
            ..ours
        };
        LinkMeter {
            received: traffic(stats.udp_rx, self.received),
            sent: traffic(stats.udp_tx, self.sent),
            lost_packets: stats.lost_packets,
            round_trip,
            shortest_round_trip: self.shortest.min(round_trip),
            window: path.map_or(0, |path| path.cwnd),
        }
    }
}

/// The link, if data can be sent on it.
fn open(links: &mut Slots<PeerLink>, id: LinkId) -> Result<&mut PeerLink, Error> {
    match links.get_mut(id) {
        Some(link) if link.stage == Stage::Open => Ok(link),
        Some(link) if link.stage == Stage::Handshake => Err(Error::NotConnected),
        _ => Err(Error::Closed),
    }
}

/// Passes a datagram to QUIC, in whose queue newer ones replace older ones.
fn transmit(conn: &Connection, bytes: bytes::Bytes, counters: &mut EndpointCounters) {
    if conn.datagram_send_buffer_space() < bytes.len() {
        counters.datagrams_outdated += 1;
    }
    // This fails on a link that is about to be reported as closed.
    conn.send_datagram(bytes).unwrap_or(());
}

/// Adds a link's traffic to the total.
fn add(total: &mut LinkMeter, link: &LinkMeter) {
    for (sum, part) in [(&mut total.received, &link.received), (&mut total.sent, &link.sent)] {
        sum.packets += part.packets;
        sum.bytes += part.bytes;
        sum.datagrams += part.datagrams;
        sum.messages += part.messages;
    }
    total.lost_packets += link.lost_packets;
}
