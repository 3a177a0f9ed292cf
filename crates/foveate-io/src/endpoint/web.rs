//! The TCP side: HTTP connections, their answers, and upgrades to links.

use std::net::SocketAddr;
use std::time::Instant;

use foveate_wire::Micros;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Core, Endpoint, Role};
use crate::admission::{AdmissionRules, Origin, Standing, Verdict};
use crate::error::Error;
use crate::event::Purpose;
use crate::identity::Certificate;
use crate::link::Link;
use crate::metrics;
use crate::web::{
    Answer, Front, MAX_OBSERVERS, Method, Observe, Page, Request, Turn, Upgraded, WebOptions,
    WebSocket, switching,
};

/// HTTP connections to accept, and requests of one to answer, before others have their turn.
const MAX_ACCEPTS: usize = 64;
const MAX_REQUESTS: usize = 16;

/// A source of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Source {
    /// The TCP listener.
    Listener,
    /// An HTTP connection, by its index.
    Request(usize),
    /// A WebSocket, by its link's index.
    Socket(u32),
}

/// What to do with a request.
enum Outcome {
    Answer(Answer),
    /// Upgrade to WebSocket, for a client at this address.
    Upgrade(Purpose, SocketAddr),
}

impl Endpoint {
    /// Serves pages by HTTP at this TCP address, and accepts links of browsers: by WebSocket there, and by WebTransport
    /// at the endpoint's own address. Returns the address, since port 0 means any free port.
    pub fn listen_web(
        &mut self,
        address: SocketAddr,
        web: WebOptions,
    ) -> Result<SocketAddr, Error> {
        if let Role::Client { .. } = self.core.role {
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
    /// The file descriptors to watch beside the UDP socket.
    pub(super) fn watched(&self) -> Vec<PollFd<'_>> {
        self.sources().into_iter().map(|(_, fd)| fd).collect()
    }

    fn sources(&self) -> Vec<(Source, PollFd<'_>)> {
        let Some(front) = &self.front else { return Vec::new() };
        let mut sources = Vec::with_capacity(1 + front.visits.len() + front.sockets.len());
        if front.is_open() {
            sources.push((Source::Listener, PollFd::new(&front.listener, PollFlags::IN)));
        }
        for (place, visit) in front.visits.iter().enumerate() {
            let flags = flags(visit.listens(), visit.is_blocked());
            sources.push((Source::Request(place), PollFd::new(visit.stream(), flags)));
        }
        for index in &front.sockets {
            if let Some(socket) = self.links.peek(*index).and_then(Link::carried::<WebSocket>) {
                let fd = PollFd::new(socket.stream(), flags(true, socket.is_blocked()));
                sources.push((Source::Socket(*index), fd));
            }
        }
        sources
    }

    /// Handles new HTTP connections, requests, and data from WebSockets.
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
        // Starts at a different connection in each turn, so that all have their turn; downwards, since a connection
        // that ends leaves its index to the last one.
        let mut stirred: Vec<Source> = stirred.into_iter().rev().collect();
        if let Some(front) = &mut self.front {
            front.begin_turn();
            let first = front.turns.checked_rem(stirred.len()).unwrap_or(0);
            stirred.rotate_left(first);
        }
        for source in stirred {
            match source {
                Source::Listener => self.welcome(now),
                Source::Request(place) => self.visit(now, place),
                Source::Socket(index) => {
                    self.touch(index);
                    self.make_ready(index);
                }
            }
        }
        Ok(())
    }

    /// Closes HTTP connections that were too slow.
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
        let accepted =
            (0..MAX_ACCEPTS).take_while(|_| front.accept(now, &mut self.counters)).count();
        // Most have sent their request already.
        let first = front.visits.len().saturating_sub(accepted);
        for place in (first..front.visits.len()).rev() {
            self.visit(now, place);
        }
    }

    fn visit(&mut self, now: Instant, place: usize) {
        for _ in 0..MAX_REQUESTS {
            let Some(front) = self.front.as_mut().filter(|front| front.may_go_on(place)) else {
                return;
            };
            match front.turn(now, place) {
                Turn::Waits => return,
                Turn::Refused => self.counters.http_refused += 1,
                Turn::Over => {
                    self.leave(place);
                    return;
                }
                Turn::Asks(request) => {
                    self.counters.http_requests += 1;
                    if front.has_too_many(place) {
                        self.counters.http_full += 1;
                        let full = Answer::text(503, "too many connections from this address");
                        return self.answer(now, place, &request, full);
                    }
                    let address = front.client_of(place, &request);
                    match self.judge(now, &request, address) {
                        Outcome::Upgrade(purpose, address) => {
                            return self.upgrade(now, place, &request, purpose, address);
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

    /// Decides about a request. `address` is `None` if a proxy has not named it.
    fn judge(&mut self, now: Instant, request: &Request, address: Option<SocketAddr>) -> Outcome {
        let refused = match (request.method, request.path.as_str()) {
            (Method::Other, _) => {
                Answer::text(405, "expected GET or HEAD").with("Allow", "GET, HEAD")
            }
            (_, "/play") => match self.may_connect(now, request, address, Purpose::Play) {
                Ok(address) => return Outcome::Upgrade(Purpose::Play, address),
                Err(answer) => answer,
            },
            (_, "/observe") => match self.may_connect(now, request, address, Purpose::Observe) {
                Ok(address) => return Outcome::Upgrade(Purpose::Observe, address),
                Err(answer) => answer,
            },
            (_, path) => match self.page(now, path) {
                Some(answer) => return Outcome::Answer(answer),
                None => Answer::text(404, "not found"),
            },
        };
        self.counters.http_refused += 1;
        Outcome::Answer(refused)
    }

    fn page(&self, now: Instant, path: &str) -> Option<Answer> {
        let web = &self.front.as_ref()?.web;
        if path == "/connect.json" {
            return Some(Answer::page(Page::fresh("application/json", self.connect_json())));
        }
        let metrics = web.metrics.as_ref().and_then(|board| metrics::respond(board, path, now));
        metrics.or_else(|| web.pages.page(path).map(Answer::page))
    }

    /// How a page connects, as JSON. A hash is given for certificates without a known authority.
    fn connect_json(&self) -> String {
        let (Role::Server { certificate, identity, .. }, Some(udp)) = (&self.role, self.udp) else {
            return "{}".into();
        };
        let hash = match certificate {
            Certificate::Development { .. } => format!("\"{}\"", identity.hash()),
            Certificate::Files { .. } => "null".into(),
        };
        // For a server on loopback, the address is given: the page's host name may have another one.
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

    /// Whether this request may become a link, and for a player or an operator; otherwise the answer.
    fn may_connect(
        &mut self,
        now: Instant,
        request: &Request,
        address: Option<SocketAddr>,
        purpose: Purpose,
    ) -> Result<SocketAddr, Answer> {
        let Some(address) = address else {
            return Err(Answer::text(400, "the proxy names no client in X-Forwarded-For"));
        };
        let time = self.micros(now);
        let Some(front) = &mut self.front else {
            return Err(Answer::text(503, "not listening"));
        };
        // Checked for ordinary requests too, since a page cannot learn why its WebSocket was refused.
        if purpose == Purpose::Observe
            && let Err(answer) = may_observe(front, request, address, time)
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
                return Err(Answer::text(503, "too many operators are observing; try again later"));
            }
        }
        let load = self.load();
        let origin = Origin::from(address.ip());
        let rules = AdmissionRules { limits: &self.options.limits, counters: &mut self.counters };
        // TCP's handshake proved the address.
        match self.admission.judge(origin, true, load, time, rules) {
            Verdict::Accept if !self.closing => {
                self.make_room(now);
                Ok(address)
            }
            Verdict::Accept => {
                self.admission.release(origin, Standing::Proved);
                self.counters.refused_full += 1;
                Err(Answer::text(503, "the server is shutting down"))
            }
            Verdict::Refuse | Verdict::Retry => {
                Err(Answer::text(503, "full, or enough links from this address"))
            }
        }
    }

    /// Turns an HTTP connection into a link.
    fn upgrade(
        &mut self,
        now: Instant,
        place: usize,
        request: &Request,
        purpose: Purpose,
        address: SocketAddr,
    ) {
        let Some(visit) = self.leave(place) else { return };
        let key = request.socket_key.as_deref().unwrap_or_default();
        let (stream, rest) = visit.into_parts();
        let upgraded = Upgraded { stream, answer: switching(key), rest };
        let time = self.micros(now);
        let socket = WebSocket::new(upgraded, purpose, &self.options, now, time);
        let id = self.add_link(now, Box::new(socket), Some(Origin::from(address.ip())));
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
}

fn flags(reads: bool, writes: bool) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, reads);
    flags.set(PollFlags::OUT, writes);
    flags
}

/// Whether an operator may observe.
fn may_observe(
    front: &mut Front,
    request: &Request,
    address: SocketAddr,
    now: Micros,
) -> Result<(), Answer> {
    let may_guess = front.may_guess(address, now);
    let token = match &front.web.observe {
        Observe::Off => return Err(Answer::text(403, "observing is disabled")),
        Observe::Loopback if address.ip().to_canonical().is_loopback() => return Ok(()),
        Observe::Loopback => {
            return Err(Answer::text(403, "observing is allowed from the server's machine only"));
        }
        Observe::Token(token) => token,
    };
    let bearer = request.authorization.as_deref().and_then(|value| value.strip_prefix("Bearer "));
    let query = request.query.split('&').find_map(|pair| pair.strip_prefix("token="));
    let Some(offered) = bearer.or(query) else {
        let answer = Answer::text(401, "expected the operator's token");
        return Err(answer.with("WWW-Authenticate", "Bearer"));
    };
    if !may_guess {
        return Err(Answer::text(429, "too many wrong operator tokens; try again later"));
    }
    if token.is(offered) {
        return Ok(());
    }
    front.guessed(address, now);
    Err(Answer::text(403, "wrong operator token"))
}
