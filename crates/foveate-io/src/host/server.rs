//! A server's loop.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use foveate_node::game::{Game, PlayerId};
use foveate_node::persistence::MemoryStorage;
use foveate_node::server::{ServerEvent, ServerSettings};
use foveate_node::session::{Refusal, ResumeKey};
use foveate_node::{Link, Server, Simulation};
use foveate_sync::StoreError;
use foveate_wire::{Micros, ObjectId, Tick};
use ring::rand::SecureRandom;

use super::{Closing, EndpointOutbox, MAX_HAPPENED, MEASURE_EVERY, name};
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::event::{Event, Purpose};
use crate::slots::LinkId;

/// What operators did and the program has not looked at, at most.
pub const MAX_OBSERVER_EVENTS: usize = 1_024;

/// Decides which players may join, and keeps what they leave. Called between two rounds; it should answer at once.
pub trait Authenticator {
    /// A player asks to join under a name.
    fn enter(&mut self, link: Link, name: &str, token: &[u8]) -> LoginReply;

    /// A player whom it let in has joined, or has come back.
    fn joined(&mut self, _: PlayerId) {}

    /// The next answer to a request that was [`LoginReply::Pending`].
    fn answered(&mut self) -> Option<(Link, LoginReply)> {
        None
    }

    /// A player has left; these are to be kept.
    fn leave(&mut self, player: PlayerId, kept: Kept);
}

/// The answer to a player that wants to join.
#[derive(Clone, PartialEq, Debug)]
pub enum LoginReply {
    /// Accepted: the number of the player, and the objects kept for them.
    Accepted(PlayerId, Kept),
    /// Not known yet: [`Authenticator::answered`] will tell.
    Pending,
    /// Rejected, and why.
    Rejected(Refusal),
}

/// Objects by name, with their lanes.
pub type Kept = Vec<(ObjectId, Vec<i32>)>;

/// Accepts every player, and keeps what they leave in memory: of [`MAX_NAMES`](foveate_node::persistence::MAX_NAMES)
/// players who are gone.
#[derive(Debug, Default)]
pub struct AllowAll(MemoryStorage);

impl Authenticator for AllowAll {
    fn enter(&mut self, _: Link, name: &str, _: &[u8]) -> LoginReply {
        let (player, kept) = self.0.enter(name);
        LoginReply::Accepted(player, kept)
    }

    fn joined(&mut self, player: PlayerId) {
        self.0.on_joined(player);
    }

    fn leave(&mut self, player: PlayerId, kept: Kept) {
        self.0.leave(player, kept);
    }
}

/// How long the parts of a step took.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct StepTimings {
    /// Taking datagrams and messages in.
    pub receive: Duration,
    /// Inputs, rules, interest, encoding, handing over to QUIC.
    pub tick: Duration,
    /// QUIC and system calls after the tick.
    pub flush: Duration,
    /// By how much the tick began late.
    pub late: Duration,
}

/// A server on real links.
pub struct ServerHost<G: Game, D: Authenticator> {
    /// The server: world, players, refusals.
    pub server: Server<G>,
    /// The links: meters, conditions, limits.
    pub endpoint: Endpoint,
    /// Decides which players may join.
    pub door: D,
    /// Whether states keep within what each link's congestion controller lets through, so that a narrow
    /// link gets less instead of later. True at first.
    pub follow_congestion: bool,
    began: Instant,
    round: Duration,
    tick: Tick,
    next: Instant,
    events: Vec<Event>,
    closing: Closing,
    happened: Vec<ServerEvent>,
    observers: Observers,
}

/// Operators' links, which the server knows nothing of, and what happened to them.
#[derive(Default)]
struct Observers {
    links: BTreeSet<LinkId>,
    events: VecDeque<Event>,
}

impl Observers {
    /// Takes what is an operator's, and leaves the rest.
    fn take(&mut self, event: Event) -> Option<Event> {
        let ours = match &event {
            Event::Connected { link, purpose: Purpose::Observe, .. } => self.links.insert(*link),
            Event::Closed { link, .. } => self.links.remove(link),
            Event::Connected { link, .. }
            | Event::Datagram { link, .. }
            | Event::Message { link, .. } => self.links.contains(link),
        };
        if !ours {
            return Some(event);
        }
        if self.events.len() == MAX_OBSERVER_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
        None
    }
}

impl<G: Game, D: Authenticator> ServerHost<G, D> {
    /// A server that begins at tick 0; populate or restore its world before the first step.
    pub fn new(
        game: Arc<G>,
        settings: ServerSettings,
        endpoint: Endpoint,
        door: D,
    ) -> ServerHost<G, D> {
        let round = Duration::from_micros(settings.rounds.length.0);
        let now = Instant::now();
        ServerHost {
            server: Server::new(game, settings, Box::new(key)),
            endpoint,
            door,
            follow_congestion: true,
            began: now,
            round,
            tick: Tick(0),
            next: now + round,
            events: Vec::new(),
            closing: Closing::default(),
            happened: Vec::new(),
            observers: Observers::default(),
        }
    }

    /// The tick that was last.
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// What players did since the last call: joined, left, were refused. Beyond [`MAX_HAPPENED`] the oldest
    /// are forgotten.
    pub fn drain_events(&mut self) -> std::vec::Drain<'_, ServerEvent> {
        self.happened.drain(..)
    }

    /// What operators' pages did since the last call: connected, asked, closed. Answer with
    /// [`Endpoint::send_message`]. Beyond [`MAX_OBSERVER_EVENTS`] the oldest are forgotten.
    pub fn observers(&mut self) -> std::collections::vec_deque::Drain<'_, Event> {
        self.observers.events.drain(..)
    }

    fn now(&self) -> Micros {
        Micros(self.began.elapsed().as_micros() as u64)
    }

    /// Waits for the next round's beginning, taking in what arrives, and plays it.
    pub fn step(&mut self) -> Result<StepTimings, Error> {
        let mut receive = Duration::ZERO;
        loop {
            receive += self.receive_until(self.next)?;
            if Instant::now() >= self.next {
                return Ok(self.play(receive));
            }
        }
    }

    /// The same without waiting, for programs that have a loop of their own: takes in what has arrived,
    /// and plays the round that is due, if one is. Call it more often than rounds begin.
    pub fn poll_step(&mut self) -> Result<Option<StepTimings>, Error> {
        let receive = self.receive_until(Instant::now())?;
        let due = Instant::now() >= self.next;
        Ok(due.then(|| self.play(receive)))
    }

    /// For a window (see [`Server::show`]), whose rounds are played elsewhere: takes in what arrives until
    /// then; the time that took, waiting left out.
    pub fn receive_until(&mut self, until: Instant) -> Result<Duration, Error> {
        self.endpoint.wait(until, &mut self.events)?;
        let woke = Instant::now();
        self.take_in();
        Ok(woke.elapsed())
    }

    /// The same: shows a round that was played by another simulation.
    pub fn show(
        &mut self,
        played: &Simulation<G>,
        happened: &[G::Event],
    ) -> Result<StepTimings, StoreError> {
        let (begin, now) = (Instant::now(), self.now());
        self.tick = played.publisher.store.tick();
        let out = &mut EndpointOutbox(&mut self.endpoint, &mut self.closing);
        self.server.show(played, happened, now, out)?;
        Ok(self.send(StepTimings::default(), begin))
    }

    fn play(&mut self, receive: Duration) -> StepTimings {
        let begin = Instant::now();
        let late = begin - self.next;
        self.tick = self.tick.plus(1);
        let now = self.now();
        self.measure_links();
        self.server.tick(
            self.tick,
            now,
            &mut EndpointOutbox(&mut self.endpoint, &mut self.closing),
        );
        let spent = self.send(StepTimings { late, receive, ..StepTimings::default() }, begin);
        let took = spent.receive + spent.tick + spent.flush;
        self.server.end_round(Micros(took.as_micros() as u64));
        self.next += self.round;
        // Whoever cannot keep up drops rounds instead of falling behind for ever.
        if Instant::now() > self.next + self.round {
            self.next = Instant::now();
        }
        spent
    }

    /// Tells the server what links carry, each in every fourth round.
    fn measure_links(&mut self) {
        let turn =
            |link: &Link| self.tick.0.wrapping_add(link.0 as u32).is_multiple_of(MEASURE_EVERY);
        let links: Vec<Link> =
            self.server.present_players().filter_map(|it| it.link).filter(turn).collect();
        let round = Micros(self.round.as_micros() as u64);
        for link in links {
            let meter = self.endpoint.meter(LinkId::from_bits(link.0));
            let capacity = meter.filter(|_| self.follow_congestion);
            let capacity = capacity.and_then(|meter| meter.capacity(round));
            self.server.set_capacity(link, capacity);
        }
    }

    /// Sends what a round left behind; with how long both took.
    fn send(&mut self, spent: StepTimings, begin: Instant) -> StepTimings {
        self.answer();
        let told = Instant::now();
        self.closing.close_due(&mut self.endpoint, told);
        self.endpoint.flush();
        StepTimings { tick: told - begin, flush: told.elapsed(), ..spent }
    }

    fn take_in(&mut self) {
        let now = self.now();
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..).filter_map(|event| self.observers.take(event)) {
            let out = &mut EndpointOutbox(&mut self.endpoint, &mut self.closing);
            match event {
                Event::Connected { link, .. } => self.server.connected(name(link), out),
                Event::Datagram { link, bytes } => self.server.datagram(name(link), &bytes, now),
                Event::Message { link, bytes } => {
                    self.server.message(name(link), &bytes, now, out);
                }
                Event::Closed { link, .. } => self.server.closed(name(link), now),
            }
        }
        self.events = events;
        self.answer();
    }

    /// Answers what the server asks.
    fn answer(&mut self) {
        while let Some((link, entry)) = self.door.answered() {
            self.open(link, entry);
        }
        while let Some(event) = self.server.poll() {
            match event {
                ServerEvent::Asked { link, name, token } => {
                    let entry = self.door.enter(link, &name, &token);
                    self.open(link, entry);
                }
                ServerEvent::Left(player, kept) => {
                    self.note(ServerEvent::Left(player, Vec::new()));
                    self.door.leave(player, kept);
                }
                ServerEvent::Joined(player, name) => {
                    self.door.joined(player);
                    self.note(ServerEvent::Joined(player, name));
                }
                other => self.note(other),
            }
        }
    }

    fn note(&mut self, event: ServerEvent) {
        if self.happened.len() == MAX_HAPPENED {
            self.happened.remove(0);
        }
        self.happened.push(event);
    }

    fn open(&mut self, link: Link, entry: LoginReply) {
        let now = self.now();
        let out = &mut EndpointOutbox(&mut self.endpoint, &mut self.closing);
        match entry {
            LoginReply::Pending => {}
            LoginReply::Accepted(player, kept) => {
                // What was kept may not fit any more, or the world is full.
                if self.server.admit(link, player, &kept, now, out).is_err() {
                    self.server.refuse(link, Refusal::Full, out);
                }
            }
            LoginReply::Rejected(why) => self.server.refuse(link, why, out),
        }
    }

    /// Tells everybody, lets what they had be kept, and ends.
    pub fn close(mut self, limit: Micros) -> Result<D, Error> {
        self.server.close(&mut EndpointOutbox(&mut self.endpoint, &mut self.closing));
        self.answer();
        self.endpoint.shutdown(limit, &mut self.events)?;
        Ok(self.door)
    }
}

/// 128 bits from the system, which nobody can guess, whatever other keys they know.
fn key() -> ResumeKey {
    let mut bytes = [0; 16];
    // Without randomness from the system QUIC would not have started either.
    ring::rand::SystemRandom::new().fill(&mut bytes).unwrap_or(());
    ResumeKey(bytes)
}
