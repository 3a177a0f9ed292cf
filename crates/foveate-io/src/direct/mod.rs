//! The direct path: datagrams as sealed packets beside QUIC, on the same socket.
//!
//! QUIC keeps the handshake, messages, and the link's life; its acknowledgements and bookkeeping for datagrams,
//! which are never repeated, cost more than the datagrams. So where both ends offer it, datagrams travel as
//! packets of their own, sealed with keys of the link's TLS session. `docs/WIRE.md` specifies the packets,
//! `docs/adr/0033-datagrams-beside-quic.md` says what an attacker may try.
//!
//! [`DirectPath`] is one end. It has neither clock nor socket: packets and times come in, packets and times go
//! out. It decides alone whether it is usable: until a challenge was echoed, and again after three timeouts
//! without feedback, [`DirectPath::send`] leaves datagrams to QUIC.
//!
//! ```text
//!            echo of a challenge
//!  Probing ────────────────────────▶ Active
//!     ▲                                │
//!     └── no feedback, three timeouts ─┘
//! ```

mod bend;
mod keys;
mod packet;
mod paths;
mod rate;
mod replay;
mod suspects;
#[cfg(test)]
mod tests;

pub(crate) use bend::bend;
pub(crate) use keys::{Cipher, EXPORTED, EXPORTER};
pub(crate) use packet::{PathId, is_direct};
pub(crate) use paths::PathTable;
pub use suspects::MAX_SUSPECTS;
pub(crate) use suspects::Suspects;

use std::net::{IpAddr, SocketAddr};
use std::ops::{Range, RangeInclusive};

use foveate_wire::Micros;
use ring::hmac;

use keys::{NotOpened, Opener, Sealer, Secret};
use packet::{CHALLENGE, FEEDBACK, Feedback, HEADER, Header, Kind, TAG};
use rate::SendRate;

/// The largest datagram that takes the direct path: it fits into 1,200 bytes of UDP. Larger ones are left to
/// QUIC, which finds out what a path carries.
pub(crate) const MAX_DATAGRAM: usize = 1_200 - HEADER - FEEDBACK - TAG;

/// Numbers of paths ahead of the newest in use whose ids are known, and thus paths that may be tried in a row.
const LOOK_AHEAD: u32 = 4;
/// Timeouts after which an unanswered path is given up, a candidate forgotten, and an old key dropped.
const PATIENCE: u32 = 3;
/// Feedback is not sent more often than this…
const FEEDBACK_EVERY: Micros = Micros::from_millis(90);
/// …and waits no longer than this for a packet to travel with.
const FEEDBACK_WITHIN: Micros = Micros::from_millis(200);
/// The wait between the first two probes, and the longest wait; it doubles with each probe.
const PROBE: [Micros; 2] = [Micros::from_millis(100), Micros::from_millis(8_000)];
/// An unproved address is sent at most this many times the bytes that it sent.
const AMPLIFICATION: u64 = 3;

/// An end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Side {
    /// The server that it connects to keeps its address.
    Client,
    /// The client may change its address.
    Server,
}

/// The parameters of a path.
pub(crate) struct DirectSetup<'a> {
    pub(crate) side: Side,
    pub(crate) cipher: Cipher,
    pub(crate) exported: &'a [u8; EXPORTED],
    /// Makes challenges that the other side cannot predict.
    pub(crate) challenges: hmac::Key,
    pub(crate) place: Place,
}

/// The address of the other side, and the local address that it sends to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) address: SocketAddr,
    pub(crate) source: Option<IpAddr>,
}

/// The result of sending a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Departed {
    /// The packet was written, for this place.
    Sent(Place),
    /// The path is not usable or the datagram is too large: QUIC must send it.
    LeftToQuic,
    /// The path is congested.
    Congested,
}

/// The contents of a received packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// A datagram, in this range of the packet's bytes.
    Datagram(Range<usize>),
    /// A control packet of the path.
    Control,
    /// A repeated, malformed or misplaced packet, for which its source is not charged.
    Ignored,
    /// A packet that the other side did not seal.
    Forged,
}

enum State {
    Probing { challenge: Option<[u8; CHALLENGE]>, sent: Micros, due: Micros, wait: Micros },
    Active,
}

/// An unproved address that a newer packet came from.
struct Candidate {
    place: Place,
    number: u32,
    challenge: [u8; CHALLENGE],
    received: u64,
    sent: u64,
    /// When the address is challenged again, and when it is forgotten.
    due: Micros,
    until: Micros,
}

/// A packet before it is sealed.
struct Unsealed<'a> {
    kind: Kind,
    id: PathId,
    /// Whether to add feedback about received packets, if there is any.
    feeds_back: bool,
    contents: &'a [u8],
}

/// One end of a direct path.
///
/// After each [`DirectPath::receive`] and at each [`DirectPath::next_due`], drain [`DirectPath::poll_transmit`].
pub(crate) struct DirectPath {
    side: Side,
    sealer: Sealer,
    opener: Opener,
    /// Secrets that path ids are derived from: of sent packets, and of received ones.
    own: Secret,
    theirs: Secret,
    challenges: hmac::Key,
    challenged: u64,
    place: Place,
    /// The number of the path in use for sending, its id, and the highest number given to a candidate.
    number: u32,
    id: PathId,
    given: u32,
    /// The highest path number of a received packet.
    heard: u32,
    state: State,
    candidate: Option<Candidate>,
    rate: SendRate,
    /// Since when feedback is due, when it was last sent, and when the newest packet arrived.
    owed: Option<Micros>,
    fed_back: Micros,
    newest_at: Micros,
    /// A challenge to echo.
    echo: Option<[u8; CHALLENGE]>,
}

impl DirectPath {
    pub(crate) fn new(setup: &DirectSetup<'_>, now: Micros) -> DirectPath {
        let [client, server] = Secret::pair(setup.exported);
        let (own, theirs) = match setup.side {
            Side::Client => (client, server),
            Side::Server => (server, client),
        };
        let ids = own.ids();
        DirectPath {
            side: setup.side,
            sealer: Sealer::new(setup.cipher, own, now),
            opener: Opener::new(setup.cipher, theirs),
            own: ids,
            theirs: theirs.ids(),
            challenges: setup.challenges.clone(),
            challenged: 0,
            place: setup.place,
            number: 0,
            id: ids.path_id(0),
            given: 0,
            heard: 0,
            state: State::Probing { challenge: None, sent: now, due: now, wait: PROBE[0] },
            candidate: None,
            rate: SendRate::new(now),
            owed: None,
            fed_back: Micros::ZERO,
            newest_at: now,
            echo: None,
        }
    }

    /// Whether datagrams can be sent on this path.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.state, State::Active) && !self.opener.is_exhausted()
    }

    /// The proved address of the other side.
    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// The numbers of paths that packets are accepted on.
    pub(crate) fn numbers(&self) -> RangeInclusive<u32> {
        self.heard.saturating_sub(1)..=self.heard.saturating_add(LOOK_AHEAD)
    }

    /// The id of received packets on a path.
    pub(crate) fn received_id(&self, number: u32) -> PathId {
        self.theirs.path_id(number)
    }

    /// The smoothed and the shortest round trip, and the bytes that may be in flight, once measured.
    pub(crate) fn measured(&self) -> Option<(Micros, Micros, u64)> {
        self.rate.measured().filter(|_| self.is_active())
    }

    /// Sent packets that are known to be lost.
    pub(crate) fn lost(&self) -> u64 {
        self.rate.lost()
    }

    /// Appends the packet of a datagram to `out`, if the path takes it.
    pub(crate) fn send(&mut self, now: Micros, datagram: &[u8], out: &mut Vec<u8>) -> Departed {
        if !self.is_active() || datagram.len() > MAX_DATAGRAM {
            return Departed::LeftToQuic;
        }
        let size = HEADER + FEEDBACK + datagram.len() + TAG;
        if !self.rate.take(now, size, self.sealer.next_sequence()) {
            return Departed::Congested;
        }
        let is_due = self.owed.is_some() && now - self.fed_back >= FEEDBACK_EVERY;
        let (kind, id) = (Kind::Datagram, self.id);
        self.write(now, Unsealed { kind, id, feeds_back: is_due, contents: datagram }, out);
        Departed::Sent(self.place)
    }

    /// Handles a packet with the id of path `number`. It is decrypted in place.
    pub(crate) fn receive(
        &mut self,
        now: Micros,
        from: Place,
        number: u32,
        bytes: &mut [u8],
    ) -> Arrival {
        if self.side == Side::Client && from.address != self.place.address {
            return Arrival::Ignored;
        }
        let before = self.opener.received().1;
        let keep = self.rate.timeout() * PATIENCE;
        let (sequence, length) = match self.opener.open(now, keep, bytes) {
            Ok(opened) => opened,
            Err(NotOpened::Replayed) => return Arrival::Ignored,
            Err(NotOpened::Forged) => return Arrival::Forged,
        };
        let (kind, has_feedback) = Header::first(bytes[0]);
        let contents = HEADER..HEADER + length;
        self.follow(number);
        if before.is_none_or(|before| sequence > before) {
            self.newest_at = now;
            if from.address == self.place.address {
                self.place = from;
            } else {
                self.consider(now, from, bytes.len() as u64);
            }
        }
        let contents = match has_feedback {
            false => contents,
            true => match bytes[contents.clone()].first_chunk() {
                Some(feedback) => {
                    let feedback = Feedback::decode(*feedback);
                    self.rate.on_feedback(now, feedback, self.sealer.next_sequence());
                    contents.start + FEEDBACK..contents.end
                }
                None => return Arrival::Ignored,
            },
        };
        self.take(now, from, kind, bytes, contents)
    }

    fn take(
        &mut self,
        now: Micros,
        from: Place,
        kind: Kind,
        bytes: &[u8],
        contents: Range<usize>,
    ) -> Arrival {
        match kind {
            Kind::Datagram => {
                self.owed.get_or_insert(now);
                return Arrival::Datagram(contents);
            }
            Kind::Feedback => {}
            // An address that is not proved gets no echo: it is challenged itself.
            Kind::Challenge if from.address == self.place.address => {
                let Ok(challenge) = bytes[contents].try_into() else { return Arrival::Ignored };
                self.owed.get_or_insert(now);
                self.echo = Some(challenge);
            }
            Kind::Challenge => {}
            Kind::Response => {
                let Ok(echoed) = bytes[contents].try_into() else { return Arrival::Ignored };
                self.on_echo(now, from, echoed);
            }
        }
        Arrival::Control
    }

    /// A client answers on the path that its server has chosen.
    fn follow(&mut self, number: u32) {
        if number <= self.heard {
            return;
        }
        self.heard = number;
        if self.side == Side::Client {
            self.number = number;
            self.id = self.own.path_id(number);
        }
    }

    /// An authentic packet, newer than all before, came from an address that is not proved: it is challenged.
    fn consider(&mut self, now: Micros, from: Place, size: u64) {
        let until = now + self.rate.timeout() * PATIENCE;
        if let Some(candidate) = &mut self.candidate
            && candidate.place.address == from.address
        {
            candidate.received += size;
            (candidate.place, candidate.until) = (from, until);
            return;
        }
        // Ids that were never answered may run out; then the last one serves again.
        if self.given - self.number < LOOK_AHEAD {
            self.given += 1;
        }
        let challenge = self.make_challenge();
        self.candidate = Some(Candidate {
            place: from,
            number: self.given,
            challenge,
            received: size,
            sent: 0,
            due: now,
            until,
        });
    }

    fn on_echo(&mut self, now: Micros, from: Place, echoed: [u8; CHALLENGE]) {
        let proved = |candidate: &mut Candidate| {
            candidate.place.address == from.address && candidate.challenge == echoed
        };
        if let Some(candidate) = self.candidate.take_if(proved) {
            self.number = candidate.number;
            self.id = self.own.path_id(self.number);
            self.place = from;
            self.rate.forget_path(now);
            self.state = State::Active;
            return;
        }
        if let State::Probing { challenge, sent, .. } = &self.state
            && *challenge == Some(echoed)
            && from.address == self.place.address
        {
            self.rate.on_round_trip(now, now - *sent);
            self.rate.give_up();
            self.state = State::Active;
        }
    }

    /// Writes the next control packet into `out`, if one is due.
    pub(crate) fn poll_transmit(&mut self, now: Micros, out: &mut Vec<u8>) -> Option<Place> {
        if self.opener.is_exhausted() {
            return None;
        }
        self.expire(now);
        if let Some(echo) = self.echo.take() {
            let (kind, id) = (Kind::Response, self.id);
            self.write(now, Unsealed { kind, id, feeds_back: true, contents: &echo }, out);
            return Some(self.place);
        }
        self.challenge_candidate(now, out)
            .or_else(|| self.probe(now, out))
            .or_else(|| self.send_feedback(now, out))
    }

    /// When to call [`DirectPath::poll_transmit`] next if nothing arrives.
    pub(crate) fn next_due(&self) -> Option<Micros> {
        if self.opener.is_exhausted() {
            return None;
        }
        let state = match &self.state {
            State::Probing { due, .. } => Some(*due),
            State::Active => self.given_up_at(),
        };
        let candidate = self.candidate.as_ref().map(|it| it.due.min(it.until));
        let feedback = self.owed.map(|since| since + FEEDBACK_WITHIN);
        let echo = self.echo.map(|_| Micros::ZERO);
        [state, candidate, feedback, echo].into_iter().flatten().min()
    }

    fn given_up_at(&self) -> Option<Micros> {
        Some(self.rate.unanswered()? + self.rate.timeout() * PATIENCE)
    }

    fn expire(&mut self, now: Micros) {
        self.candidate.take_if(|candidate| candidate.until <= now);
        if matches!(self.state, State::Active) && self.given_up_at().is_some_and(|at| at <= now) {
            self.rate.give_up();
            self.state = State::Probing { challenge: None, sent: now, due: now, wait: PROBE[0] };
        }
    }

    fn challenge_candidate(&mut self, now: Micros, out: &mut Vec<u8>) -> Option<Place> {
        let timeout = self.rate.timeout();
        let size = (HEADER + CHALLENGE + TAG) as u64;
        let candidate = self.candidate.as_mut().filter(|it| it.due <= now)?;
        candidate.due = now + timeout;
        if candidate.sent + size > AMPLIFICATION * candidate.received {
            return None;
        }
        candidate.sent += size;
        let (place, number, challenge) = (candidate.place, candidate.number, candidate.challenge);
        let id = self.own.path_id(number);
        let (kind, contents) = (Kind::Challenge, &challenge);
        self.write(now, Unsealed { kind, id, feeds_back: false, contents }, out);
        Some(place)
    }

    fn probe(&mut self, now: Micros, out: &mut Vec<u8>) -> Option<Place> {
        if !matches!(self.state, State::Probing { due, .. } if due <= now) {
            return None;
        }
        let made = self.make_challenge();
        let State::Probing { challenge, sent, due, wait } = &mut self.state else { return None };
        (*challenge, *sent, *due) = (Some(made), now, now + *wait);
        *wait = (*wait * 2).min(PROBE[1]);
        let (kind, id) = (Kind::Challenge, self.id);
        self.write(now, Unsealed { kind, id, feeds_back: false, contents: &made }, out);
        Some(self.place)
    }

    fn send_feedback(&mut self, now: Micros, out: &mut Vec<u8>) -> Option<Place> {
        self.owed.filter(|since| now - *since >= FEEDBACK_WITHIN)?;
        let (kind, id) = (Kind::Feedback, self.id);
        self.write(now, Unsealed { kind, id, feeds_back: true, contents: &[] }, out);
        Some(self.place)
    }

    fn make_challenge(&mut self) -> [u8; CHALLENGE] {
        self.challenged += 1;
        let id = self.own.path_id(0);
        let made = hmac::sign(&self.challenges, &[id.0, self.challenged.to_le_bytes()].concat());
        std::array::from_fn(|at| made.as_ref()[at])
    }

    fn write(&mut self, now: Micros, packet: Unsealed<'_>, out: &mut Vec<u8>) {
        let Unsealed { kind, id, feeds_back, contents } = packet;
        let feedback = self.feedback(now).filter(|_| feeds_back);
        if feedback.is_some() {
            (self.owed, self.fed_back) = (None, now);
        }
        let start = out.len();
        let header = Header { kind, id, has_feedback: feedback.is_some() };
        let sequence = self.sealer.seal(now, header, out, |out| {
            out.extend_from_slice(feedback.map(Feedback::encode).as_ref().map_or(&[], |it| it));
            out.extend_from_slice(contents);
        });
        let asks = kind == Kind::Datagram;
        self.rate.on_sent(now, sequence, out.len() - start, asks);
    }

    fn feedback(&self, now: Micros) -> Option<Feedback> {
        let (count, newest) = self.opener.received();
        let age = (now - self.newest_at).0 / 1_000;
        Some(Feedback { newest: newest? as u16, count: count as u16, age: age.min(255) as u8 })
    }
}
