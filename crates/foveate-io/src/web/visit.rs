//! HTTP connections, until they are closed or become links.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use foveate_wire::Micros;

use super::http::{self, Answer, MAX_HEAD, Method, Request};
use super::options::{Origins, WebOptions};
use super::proxy::{self, Preamble};
use crate::admission::Origin;
use crate::bucket::{Bucket, RateLimit};
use crate::meter::EndpointCounters;

/// Most HTTP connections at a time; further ones are told to retry.
pub const MAX_VISITS: usize = 256;
/// Most of them from one address.
pub const MAX_VISITS_PER_ADDRESS: usize = 64;
/// Time for a request to be complete, and for its answer to be read.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time for a large answer to be read.
const TAKING: Duration = Duration::from_secs(30);
/// Time for a rejected client to read the reason: if the connection were closed with unread bytes, the system would
/// discard the answer.
const LEAVING: Duration = Duration::from_secs(1);
/// Bytes of answers to write to one connection before others have their turn.
const MAX_WRITE: usize = 64 * 1024;
/// Most bytes of HTTP answers in a turn of the endpoint's loop, and most of them for one address.
pub const MAX_HTTP_PER_TURN: usize = 256 * 1024;
const MAX_HTTP_PER_ADDRESS: usize = MAX_HTTP_PER_TURN / 2;
/// A request costs as much as this many bytes of an answer.
const REQUEST_COST: usize = 4 * 1024;
/// Tries of an operator's token by one address.
const GUESSES: RateLimit = RateLimit { per_second: 1, burst: 8 };
/// Addresses whose tries are remembered. If there are more, all are forgotten.
const MAX_GUESSERS: usize = 4_096;
/// Pause after a failed `accept` (too many open files).
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The listener with its HTTP connections.
pub(crate) struct Front {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
    pub(crate) web: WebOptions,
    pub(crate) origins: Origins,
    pub(crate) visits: Vec<HttpConnection>,
    /// Indices of links that WebSocket carries.
    pub(crate) sockets: Vec<u32>,
    accept_after: Option<Instant>,
    /// Cost spent in this turn of the loop by address, and the number of turns.
    spent: Vec<(Origin, usize)>,
    pub(crate) turns: usize,
    guesses: BTreeMap<Origin, Bucket>,
}

impl Front {
    pub(crate) fn listen(address: SocketAddr, web: WebOptions) -> io::Result<Front> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let origins = Origins { listed: web.origins.clone(), loopback: address.ip().is_loopback() };
        Ok(Front {
            listener,
            address,
            web,
            origins,
            visits: Vec::new(),
            sockets: Vec::new(),
            accept_after: None,
            spent: Vec::new(),
            turns: 0,
            guesses: BTreeMap::new(),
        })
    }

    /// Whether new connections are accepted now.
    pub(crate) fn is_open(&self) -> bool {
        self.accept_after.is_none()
    }

    /// Starts a turn of the loop.
    pub(crate) fn begin_turn(&mut self) {
        self.spent.clear();
        self.turns = self.turns.wrapping_add(1);
    }

    /// Whether a connection may proceed in this turn.
    pub(crate) fn may_go_on(&self, place: usize) -> bool {
        let Some(visit) = self.visits.get(place) else { return false };
        let spent = |origin: Option<Origin>| {
            let ours = self.spent.iter().filter(|(it, _)| origin.is_none_or(|one| one == *it));
            ours.map(|(_, bytes)| bytes).sum::<usize>()
        };
        spent(None) < MAX_HTTP_PER_TURN && spent(Some(visit.origin())) < MAX_HTTP_PER_ADDRESS
    }

    /// Proceeds with a connection, and counts the cost.
    pub(crate) fn turn(&mut self, now: Instant, place: usize) -> Turn {
        let Some(visit) = self.visits.get_mut(place) else { return Turn::Waits };
        let (turn, origin) = (visit.turn(now), visit.origin());
        let asked = usize::from(matches!(turn, Turn::Asks(_) | Turn::Refused)) * REQUEST_COST;
        let cost = visit.written + asked;
        match self.spent.iter_mut().find(|(it, _)| *it == origin) {
            Some((_, spent)) => *spent += cost,
            None => self.spent.push((origin, cost)),
        }
        turn
    }

    /// Whether this address may try an operator's token now; report a wrong one with [`Front::guessed`].
    pub(crate) fn may_guess(&mut self, address: SocketAddr, now: Micros) -> bool {
        let guesses = self.guesses.get_mut(&Origin::from(address.ip()));
        guesses.is_none_or(|bucket| bucket.tokens(GUESSES, now) > 0)
    }

    /// Records that this address tried a wrong token.
    pub(crate) fn guessed(&mut self, address: SocketAddr, now: Micros) {
        if self.guesses.len() >= MAX_GUESSERS {
            self.guesses.clear();
        }
        let bucket = self.guesses.entry(Origin::from(address.ip()));
        bucket.or_insert_with(|| Bucket::full(GUESSES, now)).take(GUESSES, now, 1);
    }

    fn neighbours(&self, origin: Origin) -> usize {
        let ours = |visit: &&HttpConnection| !visit.is_proxy && visit.origin() == origin;
        self.visits.iter().filter(ours).count()
    }

    /// The client's address of a request; `None` if the proxy does not state it.
    pub(crate) fn client_of(&self, place: usize, request: &Request) -> Option<SocketAddr> {
        let visit = self.visits.get(place)?;
        if !visit.is_proxy {
            return Some(visit.address);
        }
        let named = proxy::forwarded(request.forwarded.as_deref()?, &self.web.trusted_proxies)?;
        Some(SocketAddr::new(named, visit.address.port()))
    }

    /// Whether the address of a connection has too many of them, known once a proxy has stated it.
    pub(crate) fn has_too_many(&self, place: usize) -> bool {
        let Some(visit) = self.visits.get(place).filter(|visit| !visit.is_proxy) else {
            return false;
        };
        self.neighbours(visit.origin()) > MAX_VISITS_PER_ADDRESS
    }

    /// Closes the oldest connection without a request, of the address with most of them, unless that is the newcomer's
    /// own. False if there is none.
    fn make_room(&mut self, newcomer: Origin) -> bool {
        let mut idle: BTreeMap<Origin, usize> = BTreeMap::new();
        let waits = |visit: &&HttpConnection| visit.stage == Stage::Asking && !visit.is_proxy;
        for visit in self.visits.iter().filter(waits) {
            *idle.entry(visit.origin()).or_default() += 1;
        }
        let most = idle.into_iter().max_by_key(|(_, count)| *count);
        let Some((origin, _)) = most.filter(|(origin, _)| *origin != newcomer) else {
            return false;
        };
        let ours = |visit: &HttpConnection| waits(&visit) && visit.origin() == origin;
        let places = (0..self.visits.len()).filter(|place| ours(&self.visits[*place]));
        let Some(oldest) = places.min_by_key(|place| self.visits[*place].deadline) else {
            return false;
        };
        self.visits.swap_remove(oldest);
        true
    }

    /// Accepts one connection; true if one waited. Beyond the limits it is answered with 503 and closed, or replaces
    /// one without a request.
    pub(crate) fn accept(&mut self, now: Instant, counters: &mut EndpointCounters) -> bool {
        let (stream, address) = match self.listener.accept() {
            Ok(accepted) => accepted,
            Err(cause) if cause.kind() == ErrorKind::WouldBlock => return false,
            // The other side closed at once.
            Err(cause) if cause.kind() == ErrorKind::ConnectionAborted => return true,
            Err(_) => {
                self.accept_after = Some(now + ACCEPT_PAUSE);
                return false;
            }
        };
        if stream.set_nonblocking(true).is_err() || stream.set_nodelay(true).is_err() {
            return true;
        }
        let origin = Origin::from(address.ip());
        let mut visit = HttpConnection::new(stream, address, now);
        let is_proxy = self.web.trusted_proxies.iter().any(|range| range.contains(address.ip()));
        (visit.is_proxy, visit.may_name) = (is_proxy, is_proxy);
        // A proxy has connections for many clients.
        let neighbours = if is_proxy { 0 } else { self.neighbours(origin) };
        let is_full = self.visits.len() >= MAX_VISITS && neighbours < MAX_VISITS_PER_ADDRESS;
        if is_full && self.make_room(origin) {
            counters.http_idle += 1;
        }
        if self.visits.len() >= MAX_VISITS || neighbours >= MAX_VISITS_PER_ADDRESS {
            counters.http_full += 1;
            visit.answer(&Answer::text(503, "too many connections"), None, now);
            // The client is not waited for.
            let _ = visit.write();
            return true;
        }
        self.visits.push(visit);
        true
    }

    /// When the next connection times out.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let visits = self.visits.iter().map(|visit| visit.deadline);
        visits.chain(self.accept_after).min()
    }

    /// Closes connections that were too slow, and returns their number.
    pub(crate) fn expire(&mut self, now: Instant) -> u64 {
        self.accept_after = self.accept_after.filter(|after| *after > now);
        let before = self.visits.iter().filter(|visit| visit.is_slow(now)).count();
        self.visits.retain(|visit| visit.deadline > now);
        before as u64
    }
}

/// The stage of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Asking,
    /// Sending an answer; whether another request may follow.
    Answering(bool),
    /// The answer is sent; further input is discarded.
    Leaving,
}

/// One connection.
pub(crate) struct HttpConnection {
    stream: TcpStream,
    pub(crate) address: SocketAddr,
    /// Whether the address is a trusted proxy's, which has connections for clients.
    pub(crate) is_proxy: bool,
    /// Whether a header of the PROXY protocol may come.
    may_name: bool,
    incoming: BytesMut,
    outgoing: VecDeque<Bytes>,
    stage: Stage,
    /// Whether part of a request arrived, so that waiting for the rest counts as slow.
    begun: bool,
    deadline: Instant,
    /// Bytes that the last turn wrote.
    written: usize,
}

/// The result of a turn.
pub(crate) enum Turn {
    /// The connection waits.
    Waits,
    /// A request arrived.
    Asks(Request),
    /// An invalid request was rejected.
    Refused,
    /// The connection is over.
    Over,
}

impl HttpConnection {
    fn new(stream: TcpStream, address: SocketAddr, now: Instant) -> HttpConnection {
        HttpConnection {
            stream,
            address,
            is_proxy: false,
            may_name: false,
            incoming: BytesMut::new(),
            outgoing: VecDeque::new(),
            stage: Stage::Asking,
            begun: false,
            deadline: now + PATIENCE,
            written: 0,
        }
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn origin(&self) -> Origin {
        Origin::from(self.address.ip())
    }

    /// Whether something waits to be written.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether to watch the socket for input.
    pub(crate) fn listens(&self) -> bool {
        !matches!(self.stage, Stage::Answering(_))
    }

    fn is_slow(&self, now: Instant) -> bool {
        let waits = matches!(self.stage, Stage::Answering(_)) || self.begun;
        self.deadline <= now && waits && self.stage != Stage::Leaving
    }

    /// Proceeds as far as the socket allows.
    pub(crate) fn turn(&mut self, now: Instant) -> Turn {
        self.written = 0;
        let open = match self.read() {
            Ok(open) => open,
            Err(_) => return Turn::Over,
        };
        // A half-closed connection may still receive its answer.
        let asks = self.stage == Stage::Asking && !self.incoming.is_empty();
        if !open && !asks && !self.is_blocked() {
            return Turn::Over;
        }
        if self.write().is_err() {
            return Turn::Over;
        }
        match self.stage {
            Stage::Asking => {}
            Stage::Answering(true) if self.outgoing.is_empty() => {
                self.stage = Stage::Asking;
                self.deadline = now + PATIENCE;
            }
            Stage::Answering(false) if self.outgoing.is_empty() => {
                self.stage = Stage::Leaving;
                self.deadline = now + LEAVING;
                // The peer may be gone already.
                let _ = self.stream.shutdown(Shutdown::Write);
                return Turn::Waits;
            }
            Stage::Answering(_) | Stage::Leaving => return Turn::Waits,
        }
        match self.read_preamble() {
            Preamble::Partial if open => {
                self.begun = !self.incoming.is_empty();
                return Turn::Waits;
            }
            Preamble::Partial | Preamble::Malformed => return Turn::Over,
            Preamble::None | Preamble::Header(..) => {}
        }
        match http::parse(&self.incoming) {
            Ok(None) if !open => Turn::Over,
            Ok(None) => {
                self.begun = !self.incoming.is_empty();
                Turn::Waits
            }
            Ok(Some((request, used))) => {
                self.incoming.advance(used);
                self.begun = false;
                Turn::Asks(request)
            }
            Err(answer) => {
                self.answer(&answer, None, now);
                Turn::Refused
            }
        }
    }

    /// Reads the header of the PROXY protocol, if there may be one and it arrives.
    fn read_preamble(&mut self) -> Preamble {
        if !self.may_name {
            return Preamble::None;
        }
        let preamble = proxy::read_preamble(&self.incoming);
        self.may_name = preamble == Preamble::Partial;
        if let Preamble::Header(client, used) = preamble {
            self.incoming.advance(used);
            if let Some(client) = client {
                (self.address, self.is_proxy) = (client, false);
            }
        }
        preamble
    }

    /// Queues an answer. Without a request, because it was invalid, it is the last one.
    pub(crate) fn answer(&mut self, answer: &Answer, to: Option<&Request>, now: Instant) {
        let stays = to.is_some_and(|request| request.stays && request.method != Method::Other);
        self.outgoing.push_back(answer.head(stays));
        if !answer.body.is_empty() && to.is_none_or(|request| request.method != Method::Head) {
            self.outgoing.push_back(answer.body.clone());
        }
        self.stage = Stage::Answering(stays);
        self.deadline = now + if answer.body.len() > MAX_HEAD { TAKING } else { PATIENCE };
    }

    /// The connection, and bytes that arrived after the request.
    pub(crate) fn into_parts(self) -> (TcpStream, BytesMut) {
        (self.stream, self.incoming)
    }

    /// Reads at most as much as a head may have; false at the end of the stream.
    fn read(&mut self) -> io::Result<bool> {
        let mut piece = [0; 2 * 1024];
        // Nothing is read while an answer is being written: a client must read its answers first.
        while self.stage == Stage::Leaving
            || (self.stage == Stage::Asking && self.incoming.len() < MAX_HEAD)
        {
            match self.stream.read(&mut piece) {
                Ok(0) => return Ok(false),
                Ok(_) if self.stage == Stage::Leaving => return Ok(true),
                Ok(count) => self.incoming.extend_from_slice(&piece[..count]),
                Err(cause) if cause.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
        }
        Ok(true)
    }

    /// Writes as much as the socket accepts and one turn allows.
    fn write(&mut self) -> io::Result<()> {
        self.written = 0;
        while let Some(first) = self.outgoing.front_mut() {
            let left = MAX_WRITE - self.written;
            if left == 0 {
                return Ok(());
            }
            match self.stream.write(&first[..first.len().min(left)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.written += count;
                    first.advance(count);
                }
                Err(cause) if cause.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(cause) if cause.kind() == ErrorKind::Interrupted => {}
                Err(cause) => return Err(cause),
            }
            if first.is_empty() {
                self.outgoing.pop_front();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front() -> Front {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        Front::listen(here, WebOptions::new(|_: &str| None)).expect("a free port")
    }

    /// A client that has sent these bytes.
    fn visitor(front: &mut Front, now: Instant, said: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(front.address).expect("it listens");
        stream.write_all(said).expect("room");
        let (before, deadline) = (front.visits.len(), Instant::now() + Duration::from_secs(120));
        while front.visits.len() == before {
            assert!(Instant::now() < deadline, "no connection arrived");
            front.accept(now, &mut EndpointCounters::default());
        }
        stream
    }

    #[test]
    fn sending_single_bytes_does_not_keep_a_connection_open() {
        let (mut front, now) = (front(), Instant::now());
        let mut slow = visitor(&mut front, now, b"GET / HT");
        let _silent = visitor(&mut front, now, b"");
        let place = |front: &mut Front| front.visits[0].turn(now + PATIENCE / 2);
        let deadline = Instant::now() + Duration::from_secs(120);
        while !front.visits[0].begun {
            assert!(Instant::now() < deadline, "what was said arrives");
            assert!(matches!(place(&mut front), Turn::Waits));
        }
        slow.write_all(b"T").expect("room");
        assert!(matches!(place(&mut front), Turn::Waits));
        assert_eq!((front.expire(now + PATIENCE / 2), front.visits.len()), (0, 2));
        assert_eq!(front.next_due(), Some(now + PATIENCE));
        // A silent client was not slow, but both are closed.
        assert_eq!((front.expire(now + PATIENCE), front.visits.len()), (1, 0));
    }

    #[test]
    fn a_client_that_half_closes_after_its_request_is_answered() {
        let (mut front, now) = (front(), Instant::now());
        let brief = visitor(&mut front, now, b"GET / HTTP/1.1\r\n\r\n");
        brief.shutdown(Shutdown::Write).expect("connected");
        let deadline = Instant::now() + Duration::from_secs(120);
        let turn = loop {
            assert!(Instant::now() < deadline, "what was said arrives");
            match front.visits[0].turn(now) {
                Turn::Waits => {}
                turn => break turn,
            }
        };
        assert!(matches!(turn, Turn::Asks(_)));
        front.visits[0].answer(&Answer::text(200, "ok"), None, now);
        assert!(matches!(front.visits[0].turn(now), Turn::Waits), "the answer leaves");
        assert!(matches!(front.visits[0].turn(now), Turn::Over));
    }

    #[test]
    fn a_connection_whose_answer_is_not_read_is_closed() {
        let (mut front, now) = (front(), Instant::now());
        let _deaf = visitor(&mut front, now, b"");
        let visit = &mut front.visits[0];
        let large = Answer { body: vec![0; 32 << 20].into(), ..Answer::text(200, "") };
        visit.answer(&large, None, now);
        assert!(matches!(visit.turn(now), Turn::Waits));
        assert!(visit.is_blocked(), "more than the kernel takes");
        assert_eq!(front.expire(now + TAKING), 1);
    }
}
