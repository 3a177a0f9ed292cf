//! Connections that speak HTTP, until they are answered, turned away or become links.

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

/// Connections that speak HTTP at once; further ones are told to come back.
pub const MAX_VISITS: usize = 256;
/// Of them, from one address.
pub const MAX_VISITS_PER_ADDRESS: usize = 64;
/// A request must be complete, and its answer be taken, within this time each.
const PATIENCE: Duration = Duration::from_secs(5);
/// An answer that is large may take this long.
const TAKING: Duration = Duration::from_secs(30);
/// A rejected client has this long to read the reason: closing on unread bytes would make the system throw
/// the answer away.
const LEAVING: Duration = Duration::from_secs(1);
/// Bytes of answers that one connection is given before others have their turn.
const MAX_WRITE: usize = 64 * 1024;
/// What a turn of the endpoint's loop spends on HTTP at most, in bytes of answers; and of it on one address.
pub const MAX_HTTP_PER_TURN: usize = 256 * 1024;
const MAX_HTTP_PER_ADDRESS: usize = MAX_HTTP_PER_TURN / 2;
/// A request costs as much as so many bytes of an answer.
const REQUEST_COST: usize = 4 * 1024;
/// Guesses of an operator's token by one address: in a row, and one more each second.
const GUESSES: RateLimit = RateLimit { per_second: 1, burst: 8 };
/// Addresses whose guesses are remembered. With more of them, all are forgotten.
const MAX_GUESSERS: usize = 4_096;
/// After a failed `accept` (too many open files) the next is tried so much later.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The listener with its visits.
pub(crate) struct Front {
    pub(crate) listener: TcpListener,
    pub(crate) address: SocketAddr,
    pub(crate) web: WebOptions,
    pub(crate) origins: Origins,
    pub(crate) visits: Vec<HttpConnection>,
    /// Links that WebSocket carries, by index.
    pub(crate) sockets: Vec<u32>,
    accept_after: Option<Instant>,
    /// What this turn of the loop has spent, by address; and how many turns there were.
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

    /// Whether newcomers are looked for.
    pub(crate) fn is_open(&self) -> bool {
        self.accept_after.is_none()
    }

    /// A turn of the loop begins.
    pub(crate) fn begin_turn(&mut self) {
        self.spent.clear();
        self.turns = self.turns.wrapping_add(1);
    }

    /// Whether a visit may go on in this turn.
    pub(crate) fn may_go_on(&self, place: usize) -> bool {
        let Some(visit) = self.visits.get(place) else { return false };
        let spent = |origin: Option<Origin>| {
            let ours = self.spent.iter().filter(|(it, _)| origin.is_none_or(|one| one == *it));
            ours.map(|(_, bytes)| bytes).sum::<usize>()
        };
        spent(None) < MAX_HTTP_PER_TURN && spent(Some(visit.origin())) < MAX_HTTP_PER_ADDRESS
    }

    /// Goes on with a visit, and notes what that takes.
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

    /// Whether this address may offer an operator's token now; a wrong one is to be reported by
    /// [`Front::guessed`].
    pub(crate) fn may_guess(&mut self, address: SocketAddr, now: Micros) -> bool {
        let guesses = self.guesses.get_mut(&Origin::from(address.ip()));
        guesses.is_none_or(|bucket| bucket.tokens(GUESSES, now) > 0)
    }

    /// This address offered a wrong token.
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

    /// Whose request it is; none if the proxy does not say.
    pub(crate) fn client_of(&self, place: usize, request: &Request) -> Option<SocketAddr> {
        let visit = self.visits.get(place)?;
        if !visit.is_proxy {
            return Some(visit.address);
        }
        let named = proxy::forwarded(request.forwarded.as_deref()?, &self.web.trusted_proxies)?;
        Some(SocketAddr::new(named, visit.address.port()))
    }

    /// Whether the address of a visit has too many of them, which shows when a proxy has named it.
    pub(crate) fn has_too_many(&self, place: usize) -> bool {
        let Some(visit) = self.visits.get(place).filter(|visit| !visit.is_proxy) else {
            return false;
        };
        self.neighbours(visit.origin()) > MAX_VISITS_PER_ADDRESS
    }

    /// Gives up the oldest visit that has not asked anything, of the address that has most of them, unless
    /// that is the newcomer's own. False if there is none.
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

    /// Accepts one connection; true if one waited. Beyond the limits it is answered 503 and closed, or takes
    /// the place of one that asks nothing.
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
        // A proxy speaks for many.
        let neighbours = if is_proxy { 0 } else { self.neighbours(origin) };
        let is_full = self.visits.len() >= MAX_VISITS && neighbours < MAX_VISITS_PER_ADDRESS;
        if is_full && self.make_room(origin) {
            counters.http_idle += 1;
        }
        if self.visits.len() >= MAX_VISITS || neighbours >= MAX_VISITS_PER_ADDRESS {
            counters.http_full += 1;
            visit.answer(&Answer::text(503, "too many connections"), None, now);
            // It is not waited for.
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

    /// Closes connections that were too slow; how many.
    pub(crate) fn expire(&mut self, now: Instant) -> u64 {
        self.accept_after = self.accept_after.filter(|after| *after > now);
        let before = self.visits.iter().filter(|visit| visit.is_slow(now)).count();
        self.visits.retain(|visit| visit.deadline > now);
        before as u64
    }
}

/// How far a visit is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Asking,
    /// And whether another request may follow.
    Answering(bool),
    /// Everything is said; what still comes in is thrown away.
    Leaving,
}

/// One connection.
pub(crate) struct HttpConnection {
    stream: TcpStream,
    pub(crate) address: SocketAddr,
    /// Whether the address is a trusted proxy's, which speaks for clients.
    pub(crate) is_proxy: bool,
    /// Whether a header of the PROXY protocol may come.
    may_name: bool,
    incoming: BytesMut,
    outgoing: VecDeque<Bytes>,
    stage: Stage,
    /// Whether anything of a request came, so that waiting for the rest is slowness.
    begun: bool,
    deadline: Instant,
    /// Bytes that the last turn wrote.
    written: usize,
}

/// What a visit came to.
pub(crate) enum Turn {
    /// It waits.
    Waits,
    /// A request arrived.
    Asks(Request),
    /// Something that cannot be read was refused.
    Refused,
    /// It is over.
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

    /// Whether the socket is to be watched for something to read.
    pub(crate) fn listens(&self) -> bool {
        !matches!(self.stage, Stage::Answering(_))
    }

    fn is_slow(&self, now: Instant) -> bool {
        let waits = matches!(self.stage, Stage::Answering(_)) || self.begun;
        self.deadline <= now && waits && self.stage != Stage::Leaving
    }

    /// Goes on as far as the socket allows.
    pub(crate) fn turn(&mut self, now: Instant) -> Turn {
        self.written = 0;
        let open = match self.read() {
            Ok(open) => open,
            Err(_) => return Turn::Over,
        };
        // A half-closed connection may still take its answer, or have one coming.
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

    /// Takes the header of the PROXY protocol, if one may come and does.
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

    /// Queues an answer. Without a request, because it could not be read, it is the last one.
    pub(crate) fn answer(&mut self, answer: &Answer, to: Option<&Request>, now: Instant) {
        let stays = to.is_some_and(|request| request.stays && request.method != Method::Other);
        self.outgoing.push_back(answer.head(stays));
        if !answer.body.is_empty() && to.is_none_or(|request| request.method != Method::Head) {
            self.outgoing.push_back(answer.body.clone());
        }
        self.stage = Stage::Answering(stays);
        self.deadline = now + if answer.body.len() > MAX_HEAD { TAKING } else { PATIENCE };
    }

    /// The connection, and what came in after the request.
    pub(crate) fn into_parts(self) -> (TcpStream, BytesMut) {
        (self.stream, self.incoming)
    }

    /// Reads as much as a head may have; false at the end of the stream.
    fn read(&mut self) -> io::Result<bool> {
        let mut piece = [0; 2 * 1024];
        // While an answer is under way nothing is read: a client that does not read its answers has to wait.
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

    /// Writes as much as the socket takes, and one turn may.
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

    /// A visitor who has said this much.
    fn visitor(front: &mut Front, now: Instant, said: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(front.address).expect("it listens");
        stream.write_all(said).expect("room");
        let (before, deadline) = (front.visits.len(), Instant::now() + Duration::from_secs(120));
        while front.visits.len() == before {
            assert!(Instant::now() < deadline, "nobody came");
            front.accept(now, &mut EndpointCounters::default());
        }
        stream
    }

    #[test]
    fn a_byte_now_and_then_keeps_nobody_here() {
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
        // Who has said nothing was not slow; both are gone.
        assert_eq!((front.expire(now + PATIENCE), front.visits.len()), (1, 0));
    }

    #[test]
    fn who_asks_and_has_no_more_to_say_is_answered() {
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
    fn an_answer_that_is_not_taken_is_given_up() {
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
