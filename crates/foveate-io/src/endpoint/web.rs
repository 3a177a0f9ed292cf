//! The TCP side: who is looked at, visits that are answered, links that WebSocket carries.

use std::net::SocketAddr;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Core, Endpoint, Role, copy, open};
use crate::admission::{Load, Origin, Verdict};
use crate::error::Error;
use crate::event::{CloseCode, LinkEvent, Purpose, Reason};
use crate::identity::Certificate;
use crate::link::{Carrier, Link, Passage, Stage};
use crate::slots::LinkId;
use crate::web::{
    Answer, Arrived, Front, MAX_OBSERVERS, Method, Observe, Page, Request, Timeout, Turn, Unit,
    WebOptions, WebSocket, switching,
};

/// Visitors who come in, and requests of one of them that are answered, before others have their turn.
const MAX_ACCEPTS: usize = 64;
const MAX_REQUESTS: usize = 16;

/// What can be watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    Authenticator,
    /// By place in the list of visits.
    HttpConnection(usize),
    /// By index of the link.
    Link(u32),
}

/// What becomes of a request.
enum Outcome {
    Answer(Answer),
    /// It goes on by WebSocket.
    Upgrade(Purpose),
}

impl Endpoint {
    /// Serves pages by HTTP at this TCP address, and takes links of browsers by WebSocket there and by
    /// WebTransport at the endpoint's own. Where it listens, port 0 being any.
    pub fn listen_web(
        &mut self,
        address: SocketAddr,
        web: WebOptions,
    ) -> Result<SocketAddr, Error> {
        if let Role::Client(_) = self.core.role {
            return Err(Error::Option { name: "web", what: "expected a server".into() });
        }
        let front =
            Front::listen(address, web).map_err(|cause| Error::ListenWeb { address, cause })?;
        self.core.speak_h3()?;
        let address = front.address;
        self.core.udp = Some(self.sockets.address()?);
        self.core.front = Some(Box::new(front));
        Ok(address)
    }
}

impl Core {
    /// Everything that is watched beside the UDP socket.
    pub(super) fn watched(&self) -> Vec<PollFd<'_>> {
        self.sources().into_iter().map(|(_, fd)| fd).collect()
    }

    fn sources(&self) -> Vec<(Source, PollFd<'_>)> {
        let Some(front) = &self.front else { return Vec::new() };
        let mut sources = Vec::with_capacity(1 + front.visits.len() + front.sockets.len());
        if front.is_open() {
            sources.push((Source::Authenticator, PollFd::new(&front.listener, PollFlags::IN)));
        }
        for (place, visit) in front.visits.iter().enumerate() {
            let flags = flags(visit.listens(), visit.is_blocked());
            sources.push((Source::HttpConnection(place), PollFd::new(visit.stream(), flags)));
        }
        for index in &front.sockets {
            if let Some(Carrier::WebSocket(socket)) = self.links.peek(*index).map(|l| &l.carrier) {
                let fd = PollFd::new(socket.stream(), flags(true, socket.is_blocked()));
                sources.push((Source::Link(*index), fd));
            }
        }
        sources
    }

    /// Takes in what waits at the door, in visits and in links.
    pub(super) fn look(&mut self, now: Instant) -> Result<(), Error> {
        if self.front.is_none() {
            return Ok(());
        }
        let (names, mut fds): (Vec<Source>, Vec<PollFd<'_>>) = self.sources().into_iter().unzip();
        match poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(cause) => return Err(Error::Socket(cause.into())),
        }
        let stirred =
            |(name, fd): (Source, &PollFd<'_>)| (!fd.revents().is_empty()).then_some(name);
        let stirred: Vec<Source> = names.into_iter().zip(&fds).filter_map(stirred).collect();
        // From the last visit to the first, since one that is over leaves its place to the last.
        for source in stirred.into_iter().rev() {
            match source {
                Source::Authenticator => self.welcome(now),
                Source::HttpConnection(place) => self.visit(now, place),
                Source::Link(index) => {
                    self.touch(index);
                    self.make_ready(index);
                }
            }
        }
        Ok(())
    }

    /// Lets go who was too slow. Nothing stirs then, so that it is a matter of time alone.
    pub(super) fn expire_visits(&mut self, now: Instant) {
        if let Some(front) = &mut self.front {
            self.counters.http_slow += front.expire(now);
        }
    }

    pub(super) fn web_due(&self) -> Option<Instant> {
        self.front.as_ref()?.next_due()
    }

    fn welcome(&mut self, now: Instant) {
        let Some(front) = &mut self.front else { return };
        let accepted = (0..MAX_ACCEPTS)
            .take_while(|_| front.accept(now, &mut self.counters.http_full))
            .count();
        // Most have said what they want already.
        let first = front.visits.len().saturating_sub(accepted);
        for place in (first..front.visits.len()).rev() {
            self.visit(now, place);
        }
    }

    fn visit(&mut self, now: Instant, place: usize) {
        for _ in 0..MAX_REQUESTS {
            let Some(visit) = self.front.as_mut().and_then(|front| front.visits.get_mut(place))
            else {
                return;
            };
            match visit.turn(now) {
                Turn::Waits => return,
                Turn::Refused => self.counters.http_refused += 1,
                Turn::Over => {
                    self.leave(place);
                    return;
                }
                Turn::Asks(request) => {
                    let address = visit.address;
                    self.counters.http_requests += 1;
                    match self.judge(now, &request, address) {
                        Outcome::Upgrade(purpose) => {
                            return self.upgrade(now, place, &request, purpose);
                        }
                        Outcome::Answer(answer) => self.answer(now, place, &request, answer),
                    }
                }
            }
        }
    }

    fn leave(&mut self, place: usize) -> Option<crate::web::HttpConnection> {
        let front = self.front.as_mut()?;
        (place < front.visits.len()).then(|| front.visits.swap_remove(place))
    }

    fn answer(&mut self, now: Instant, place: usize, request: &Request, mut answer: Answer) {
        let Some(front) = &mut self.front else { return };
        let own = request.host.as_deref().unwrap_or_default();
        if let Some(origin) = &request.origin
            && front.origins.allow(Some(origin), own)
        {
            answer =
                answer.with("Access-Control-Allow-Origin", origin.clone()).with("Vary", "Origin");
        }
        if let Some(visit) = front.visits.get_mut(place) {
            visit.answer(&answer, Some(request), now);
        }
    }

    fn judge(&mut self, now: Instant, request: &Request, address: SocketAddr) -> Outcome {
        let refused = match (request.method, request.path.as_str()) {
            (Method::Other, _) => {
                Answer::text(405, "expected GET or HEAD").with("Allow", "GET, HEAD")
            }
            (_, "/play") => match self.may_connect(now, request, address, Purpose::Play) {
                Ok(()) => return Outcome::Upgrade(Purpose::Play),
                Err(answer) => answer,
            },
            (_, "/observe") => match self.may_connect(now, request, address, Purpose::Observe) {
                Ok(()) => return Outcome::Upgrade(Purpose::Observe),
                Err(answer) => answer,
            },
            (_, path) => match self.page(now, path) {
                Some(answer) => return Outcome::Answer(answer),
                None => Answer::text(404, "there is nothing here"),
            },
        };
        self.counters.http_refused += 1;
        Outcome::Answer(refused)
    }

    fn page(&self, now: Instant, path: &str) -> Option<Answer> {
        let web = &self.front.as_ref()?.web;
        let page = match (path, &web.metrics) {
            ("/connect.json", _) => Page::fresh("application/json", self.connect_json()),
            ("/metrics", Some(board)) => {
                let text = bytes::Bytes::copy_from_slice(board.text().as_bytes());
                Page::fresh("text/plain; version=0.0.4; charset=utf-8", text)
            }
            ("/healthz", Some(board)) => {
                return Some(match board.is_fresh(now) {
                    true => Answer::text(200, "ok"),
                    false => Answer::text(503, "the game has not reported lately"),
                });
            }
            _ => web.pages.page(path)?,
        };
        let keep = if page.forever { "public, max-age=31536000, immutable" } else { "no-cache" };
        Some(Answer {
            status: 200,
            content_type: page.content_type.into_owned(),
            headers: vec![("Cache-Control", keep.into())],
            body: page.bytes,
        })
    }

    /// How a page connects. A hash is for certificates that no authority vouches for.
    fn connect_json(&self) -> String {
        let (Role::Server { certificate, identity, .. }, Some(udp)) = (&self.role, self.udp) else {
            return "{}".into();
        };
        let hash = match certificate {
            Certificate::Development { .. } => format!("\"{}\"", identity.hash()),
            Certificate::Files { .. } => "null".into(),
        };
        // Of a server on loopback the address counts: the page's name may mean another one.
        let host = match udp.ip().is_loopback() {
            true => format!("\"{}\"", udp.ip()),
            false => "null".into(),
        };
        let port = udp.port();
        format!(
            "{{\"webtransport\":{{\"port\":{port},\"host\":{host},\"hash\":{hash}}},\
             \"websocket\":true}}\n"
        )
    }

    /// Whether this request may become a link; what is answered otherwise.
    fn may_connect(
        &mut self,
        now: Instant,
        request: &Request,
        address: SocketAddr,
        purpose: Purpose,
    ) -> Result<(), Answer> {
        let Some(front) = &self.front else { return Err(Answer::text(503, "not listening")) };
        // Said to an ordinary request, too: a page is not told why its WebSocket was refused.
        if purpose == Purpose::Observe
            && let Err(answer) = may_observe(&front.web.observe, request, address)
        {
            self.counters.refused_observers += 1;
            return Err(answer);
        }
        if request.method != Method::Get || request.socket_key.is_none() {
            let answer = Answer::text(426, "expected a WebSocket");
            return Err(answer.with("Upgrade", "websocket"));
        }
        let own = request.host.as_deref().unwrap_or_default();
        if !front.origins.allow(request.origin.as_deref(), own) {
            self.counters.refused_origin += 1;
            return Err(Answer::text(403, "pages of this origin may not connect"));
        }
        if purpose == Purpose::Observe {
            let observers = |index: &&u32| {
                self.links.peek(**index).is_some_and(|link| link.purpose == Purpose::Observe)
            };
            let here = front.sockets.iter().filter(observers).count();
            if here >= MAX_OBSERVERS {
                self.counters.refused_full += 1;
                return Err(Answer::text(503, "enough operators are looking on"));
            }
        }
        let load = Load { links: self.links.len() as u32, handshakes: self.handshakes };
        let (origin, time) = (Origin::from(address.ip()), self.micros(now));
        let rules = (&self.options.limits, &mut self.counters);
        // The three-way handshake of TCP proved the address.
        match self.admission.judge(origin, true, load, time, rules) {
            Verdict::Accept if !self.closing => Ok(()),
            Verdict::Accept => {
                self.admission.release(origin);
                self.counters.refused_full += 1;
                Err(Answer::text(503, "the server is shutting down"))
            }
            Verdict::Refuse | Verdict::Retry => {
                Err(Answer::text(503, "full, or enough links from this address"))
            }
        }
    }

    /// The visit becomes a link.
    fn upgrade(&mut self, now: Instant, place: usize, request: &Request, purpose: Purpose) {
        let Some(visit) = self.leave(place) else { return };
        let key = request.socket_key.as_deref().unwrap_or_default();
        let (stream, address, rest) = visit.into_parts();
        let times = (now, self.micros(now));
        let answer = (switching(key), rest);
        let socket = WebSocket::new(stream, answer, purpose, &self.options, times);
        let carrier = Carrier::WebSocket(Box::new(socket));
        let id = self.add_link(now, carrier, Some(Origin::from(address.ip())));
        self.counters.accepted += 1;
        if let Some(link) = self.links.get_mut(id) {
            link.purpose = purpose;
        }
        if let Some(front) = &mut self.front {
            front.sockets.push(id.index);
        }
        self.connected(id, address);
        self.touch(id.index);
        self.make_ready(id.index);
    }

    /// Reads what came in on a link.
    pub(super) fn drive_web(&mut self, now: Instant, index: u32) {
        let time = self.micros(now);
        let limits = &self.options.limits;
        let Some(link) = self.links.at(index) else { return };
        let (id, Carrier::WebSocket(socket)) = (link.id, &mut link.carrier) else { return };
        let heard = socket.receive(limits, now, time);
        if heard.bytes > 0 {
            self.total.received.packet(heard.bytes);
            self.last_received = Some(now);
        }
        while let Some(socket) = self.socket_at(index)
            && let Some(arrived) = socket.next(now)
        {
            self.arrived_web(now, id, arrived);
        }
        if heard.flood {
            self.close_flood(now, index);
        }
        if heard.ended {
            self.broke(index);
            return;
        }
        self.make_ready(index);
    }

    fn arrived_web(&mut self, now: Instant, id: LinkId, arrived: Arrived) {
        let time = self.micros(now);
        match arrived {
            Arrived::Unit(unit) => self.arrived_unit(now, id, unit),
            Arrived::Control => {
                let Some(link) = self.links.get_mut(id) else { return };
                if link.flow.packet(&self.options.limits, time) == Passage::Flood {
                    self.close_flood(now, id.index);
                }
            }
            Arrived::Closed(reason) => self.ended(id, reason),
            Arrived::Oversized(size, limit) => self.close_oversized(now, id, size, limit),
            Arrived::Malformed(what) => {
                self.counters.closed_malformed += 1;
                self.close(now, id, CloseCode::MALFORMED, &what);
            }
        }
    }

    fn arrived_unit(&mut self, now: Instant, id: LinkId, unit: Unit) {
        let time = self.micros(now);
        let Some(socket) = self.socket_at(id.index) else { return };
        let Some(conditioning) = &mut socket.conditioning else {
            return self.deliver(now, id, unit);
        };
        let (size, reliable) = measure(&unit);
        let held = match reliable {
            true => conditioning.received.push_in_order(time, size, unit),
            false => conditioning.received.push(time, size, unit),
        };
        self.counters.conditioned_away += u64::from(!held);
        self.arm(now, id.index);
    }

    fn deliver(&mut self, now: Instant, id: LinkId, unit: Unit) {
        let bytes = match unit {
            Unit::Datagram(bytes) => return self.take_datagram(now, id.index, bytes),
            Unit::Message(bytes) => bytes,
        };
        let time = self.micros(now);
        let Some(link) = self.links.get_mut(id) else { return };
        // Empty ones mean nothing, as on a stream of QUIC.
        if link.stage != Stage::Open || bytes.is_empty() {
            return;
        }
        let passage = link.flow.message(&self.options.limits, time, bytes.len());
        link.received.messages += 1;
        self.events.push(LinkEvent::Message { link: id, bytes });
        if passage == Passage::Flood {
            self.close_flood(now, id.index);
        }
    }

    /// A datagram for a link that WebSocket carries.
    pub(super) fn send_web_datagram(&mut self, id: LinkId, bytes: &[u8]) -> Result<(), Error> {
        let limit = self.max_datagram(id).unwrap_or_default();
        if bytes.len() > limit.0 as usize || limit.0 == 0 {
            let size = foveate_wire::Bytes(bytes.len() as u32);
            return Err(Error::DatagramTooLarge { size, limit });
        }
        let unit = Unit::Datagram(copy(&mut self.arena_out, &[], bytes).freeze());
        let link = open(&mut self.links, id)?;
        link.sent.datagrams += 1;
        if !std::mem::replace(&mut link.dirty, true) {
            self.dirty.push(id.index);
        }
        self.send_unit(id, unit);
        Ok(())
    }

    /// A message that is within its limits.
    pub(super) fn send_web_message(&mut self, id: LinkId, bytes: &[u8]) {
        self.send_unit(id, Unit::Message(bytes::Bytes::copy_from_slice(bytes)));
    }

    fn send_unit(&mut self, id: LinkId, unit: Unit) {
        let now = Instant::now();
        let time = self.micros(now);
        let Some(socket) = self.socket_at(id.index) else { return };
        let (size, reliable) = measure(&unit);
        let Some(conditioning) = &mut socket.conditioning else {
            let late = !socket.push(now, &unit);
            self.counters.datagrams_late += u64::from(late);
            return;
        };
        let held = match reliable {
            true => conditioning.sent.push_in_order(time, size, unit),
            false => conditioning.sent.push(time, size, unit),
        };
        if held && reliable {
            socket.hold(size.0 as usize, true);
        }
        self.counters.conditioned_away += u64::from(!held);
        self.arm(now, id.index);
    }

    /// Lets pass what a conditioner has held long enough.
    pub(super) fn release_units(&mut self, now: Instant, index: u32) {
        let time = self.micros(now);
        while let Some(link) = self.links.at(index)
            && let (id, Carrier::WebSocket(socket)) = (link.id, &mut link.carrier)
            && let Some(conditioning) = &mut socket.conditioning
        {
            if let Some(unit) = conditioning.received.pop(time) {
                self.deliver(now, id, unit);
            } else if let Some(unit) = conditioning.sent.pop(time) {
                let (size, reliable) = measure(&unit);
                if reliable {
                    socket.hold(size.0 as usize, false);
                }
                let late = !socket.push(now, &unit);
                self.counters.datagrams_late += u64::from(late);
                self.make_ready(index);
            } else {
                if conditioning.is_over() {
                    socket.conditioning = None;
                }
                return;
            }
        }
    }

    pub(super) fn transmit_web(&mut self, now: Instant, index: u32) {
        let Some(socket) = self.socket_at(index) else { return };
        match socket.transmit(now) {
            Ok(0) => self.arm(now, index),
            Ok(written) => {
                self.total.sent.packet(written);
                self.arm(now, index);
            }
            Err(_) => self.broke(index),
        }
    }

    pub(super) fn web_timeout(&mut self, now: Instant, index: u32) {
        let Some(link) = self.links.at(index) else { return };
        let (id, Carrier::WebSocket(socket)) = (link.id, &mut link.carrier) else { return };
        match socket.timeout(now) {
            Timeout::Goes => self.make_ready(index),
            Timeout::Over => self.hang_up(index),
            Timeout::Idle => {
                self.ended(id, Reason::Idle);
                self.hang_up(index);
            }
        }
    }

    /// The connection ended, with or without a goodbye.
    fn broke(&mut self, index: u32) {
        let Some(id) = self.links.at(index).map(|link| link.id) else { return };
        self.ended(id, Reason::Failed("the connection broke off".into()));
        self.hang_up(index);
    }

    fn hang_up(&mut self, index: u32) {
        if let Some(front) = &mut self.front {
            front.sockets.retain(|other| *other != index);
        }
        self.remove(index);
    }

    fn socket_at(&mut self, index: u32) -> Option<&mut WebSocket> {
        match self.links.at(index).map(|link: &mut Link| &mut link.carrier) {
            Some(Carrier::WebSocket(socket)) => Some(socket),
            _ => None,
        }
    }
}

fn flags(reads: bool, writes: bool) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, reads);
    flags.set(PollFlags::OUT, writes);
    flags
}

/// Its size, and whether it must arrive.
fn measure(unit: &Unit) -> (foveate_wire::Bytes, bool) {
    let (bytes, reliable) = match unit {
        Unit::Datagram(bytes) => (bytes, false),
        Unit::Message(bytes) => (bytes, true),
    };
    (foveate_wire::Bytes(bytes.len() as u32), reliable)
}

/// Whether an operator may look on.
fn may_observe(observe: &Observe, request: &Request, address: SocketAddr) -> Result<(), Answer> {
    let token = match observe {
        Observe::Off => return Err(Answer::text(403, "nobody may look on")),
        Observe::Loopback if address.ip().to_canonical().is_loopback() => return Ok(()),
        Observe::Loopback => {
            return Err(Answer::text(403, "only who is on the server's machine may look on"));
        }
        Observe::Token(token) => token,
    };
    let bearer = request.authorization.as_deref().and_then(|value| value.strip_prefix("Bearer "));
    let query = request.query.split('&').find_map(|pair| pair.strip_prefix("token="));
    let Some(offered) = bearer.or(query) else {
        let answer = Answer::text(401, "expected the operator's token");
        return Err(answer.with("WWW-Authenticate", "Bearer"));
    };
    match token.is(offered) {
        true => Ok(()),
        false => Err(Answer::text(403, "this is not the operator's token")),
    }
}
