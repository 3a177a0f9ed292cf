//! One player's session.

use super::moving::CarriedSession;
use super::work::{Credit, WorkBudget};
use super::{ACK_TIMEOUT, BURST, ServerSettings};
use crate::game::{Game, PlayerId};
use crate::outbox::Link;
use crate::session::{RELIABLE_EVENTS, ResumeKey};
use crate::simulation::MAX_INPUTS;
use foveate_sync::interest::View;
use foveate_sync::{Observer, ObserverId};
use foveate_wire::packet::Ack;
use foveate_wire::{Bytes, Micros, ObjectId};
use std::collections::VecDeque;

/// After so many packets nothing arrives any more that a client sent before it was welcomed anew.
const FORMER_FOR: u16 = 512;
/// The most inputs that wait for their tick: 400 ms at 20 Hz. A player further ahead is too fast.
const MAX_WAITING: usize = 8;
/// Inputs that must wait before the first is used, as a buffer for jitter.
const HEAD_START: usize = 2;
/// Above this many waiting inputs a tick uses two, because the link was interrupted and has
/// recovered. It makes up for no more than were missing, so that a player who sends more is not
/// faster.
const CATCH_UP: usize = 4;
/// The most bytes of events that wait for a frame; others are dropped and counted.
const MAX_EVENTS: usize = 900;
/// The most bytes of reliable events that wait for the next round or for the player to resume;
/// others are dropped and counted.
pub(super) const MAX_RELIABLE: usize = 8 * 1024;
/// Rounds for which unused budget is kept if the link's capacity is below the budget.
const NARROW_BURST: u32 = 2;

/// Why a player is to be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Away {
    /// The link broke, and the player did not resume.
    Gone,
    /// The link is there, but nothing arrives.
    Silent,
    /// Datagrams arrive, but no acknowledgements.
    NoAcks,
}

pub(super) struct PlayerSession<G: Game> {
    pub player: PlayerId,
    pub avatar: ObjectId,
    pub name: String,
    pub link: Option<Link>,
    pub observer: ObserverId,
    pub resume: ResumeKey,
    pub eyes: Vec<ObjectId>,
    /// The object that the player watches.
    pub watched: Option<ObjectId>,
    /// The number of the view that the player chose.
    pub view: u8,
    /// The view that an operator set instead.
    pub view_override: Option<View>,
    /// The budget in bytes per round.
    pub budget: Option<Bytes>,
    /// The capacity of the link in bytes per round, if the host knows it.
    pub capacity: Option<Bytes>,
    /// When the last message or datagram arrived.
    pub heard: Micros,
    /// When the last acknowledgement arrived.
    pub acked: Micros,
    /// The player's clock, and when it arrived.
    pub echo: Option<(u16, Micros)>,
    /// When a clock was last echoed.
    echoed: Option<Micros>,
    spoke: Micros,
    broken: Option<Micros>,
    /// Waiting inputs, with their numbers.
    waiting: VecDeque<(u16, G::Input)>,
    /// The number of the newest input used.
    done: Option<u16>,
    /// The number of the first input that has not arrived.
    next: Option<u16>,
    /// Inputs used in this tick.
    used: usize,
    /// Ticks without an input that may be made up for.
    missed: usize,
    started: bool,
    events: Vec<u8>,
    /// Waiting events for the reliable stream.
    reliable: Vec<u8>,
    /// The version of the wire that the player speaks.
    pub version: u8,
    /// What is left of the player's budget of work.
    pub credit: Credit,
    /// What is left of the budget for watching other objects.
    pub watches: Credit,
    /// What is left of the link's budget for joining.
    pub joins: Credit,
    /// The player is leaving, which takes a while in a world on many servers.
    pub leaving: bool,
    /// No client was told of this session yet: what a client knows is of another one.
    pub untold: bool,
    /// Packets since the client was welcomed anew, as long as what it sent before that may arrive.
    pub anew: Option<u16>,
}

/// What never changes about a session.
pub struct SessionIdentity {
    pub player: PlayerId,
    pub avatar: ObjectId,
    pub name: String,
    pub resume: ResumeKey,
}

impl<G: Game> PlayerSession<G> {
    pub fn new(identity: SessionIdentity, observer: ObserverId, now: Micros) -> PlayerSession<G> {
        let SessionIdentity { player, avatar, name, resume } = identity;
        PlayerSession {
            player,
            avatar,
            name,
            link: None,
            observer,
            resume,
            eyes: vec![avatar],
            watched: None,
            view: 0,
            view_override: None,
            budget: None,
            capacity: None,
            heard: now,
            acked: now,
            echo: None,
            echoed: None,
            spoke: now,
            broken: None,
            waiting: VecDeque::with_capacity(MAX_WAITING),
            done: None,
            next: None,
            used: 0,
            missed: 0,
            started: false,
            events: Vec::new(),
            reliable: Vec::new(),
            version: 0,
            credit: Credit::new(WorkBudget::PLAYER, now),
            watches: Credit::new(WorkBudget::WATCHES, now),
            joins: Credit::new(WorkBudget::JOINS, now),
            leaving: false,
            untold: false,
            anew: None,
        }
    }

    pub fn come_back(&mut self, link: Link, now: Micros) {
        (self.link, self.broken) = (Some(link), None);
        (self.heard, self.acked, self.spoke) = (now, now, now);
        // Inputs missed while away are not made up for.
        self.waiting.clear();
        (self.next, self.done, self.started) = (None, None, false);
        self.anew = None;
        // The old link's round trip and capacity say nothing about the new one.
        (self.missed, self.echo, self.echoed, self.capacity) = (0, None, None, None);
    }

    /// Sets the observer's budget to what the player's budget and the link allow. Little of a
    /// link's capacity is saved up: a burst would queue.
    pub fn keep_within(&self, observer: &mut Observer) {
        let narrow = self.capacity.filter(|it| self.budget.is_none_or(|budget| *it < budget));
        match narrow {
            Some(rate) => observer.set_rate(Some(rate), NARROW_BURST),
            None => observer.set_rate(self.budget, BURST),
        }
    }

    pub fn leave_link(&mut self, now: Micros) {
        (self.link, self.broken) = (None, Some(now));
    }

    /// Whether an input has arrived before.
    pub fn is_known(&self, seq: u16) -> bool {
        self.next.is_some_and(|next| (seq.wrapping_sub(next) as i16) < 0)
    }

    /// A packet is sent.
    pub fn note_packet(&mut self) {
        self.anew = self.anew.map(|sent| sent.saturating_add(1)).filter(|sent| *sent < FORMER_FOR);
    }

    /// Whether a client that was welcomed anew had not read that when it sent this: it acknowledges a packet of its
    /// former session, and its inputs have that session's numbers.
    pub fn is_of_former(&self, ack: Option<Ack>) -> bool {
        self.anew.zip(ack).is_some_and(|(sent, ack)| ack.newest >= sent)
    }

    /// Queues an input; false if it is further ahead than a player can be. Known inputs are
    /// ignored.
    pub fn take_input(&mut self, seq: u16, input: G::Input) -> bool {
        let next = *self.next.get_or_insert(seq);
        let ahead = seq.wrapping_sub(next) as i16;
        if ahead < 0 {
            return true;
        }
        if self.waiting.len() >= MAX_WAITING {
            return false;
        }
        // The skipped ones are lost for good, because each datagram repeats the last ones.
        self.next = Some(seq.wrapping_add(1));
        self.waiting.push_back((seq, input));
        true
    }

    /// The next input for this tick: usually one per tick, two to catch up, none until a few have
    /// arrived.
    pub fn next_input(&mut self) -> Option<G::Input> {
        self.started |= self.waiting.len() >= HEAD_START;
        let behind = self.missed > 0 && self.waiting.len() + self.used > CATCH_UP;
        let most = if behind { MAX_INPUTS } else { 1 };
        let input = if self.started && self.used < most { self.waiting.pop_front() } else { None };
        match input {
            Some((seq, _)) => {
                self.missed -= usize::from(self.used > 0);
                self.used += 1;
                self.done = Some(seq);
            }
            None => {
                // The queue is empty: wait until a few inputs have arrived again.
                self.started &= self.used > 0 || !self.waiting.is_empty();
                self.missed = (self.missed + usize::from(self.used == 0)).min(MAX_WAITING);
                self.used = 0;
            }
        }
        input.map(|(_, input)| input)
    }

    pub fn waiting_inputs(&self) -> Vec<(u16, G::Input)> {
        self.waiting.iter().copied().collect()
    }

    /// The numbers of the newest input used and of the first that has not arrived, and how many
    /// ticks may be made up for.
    pub fn input_numbers(&self) -> ([Option<u16>; 2], u8) {
        ([self.done, self.next], self.missed as u8)
    }

    /// Continues the inputs from another server.
    pub fn set_inputs(&mut self, state: &CarriedSession<G::Input>) {
        self.waiting = state.waiting.iter().take(MAX_WAITING).copied().collect();
        (self.done, self.next) = (state.done, state.next);
        // What was held up while the session moved may be made up for.
        self.missed = (usize::from(state.missed) + HEAD_START * 2).min(MAX_WAITING);
        self.started = self.done.is_some();
        self.anew = state.anew;
        self.reliable = state.reliable.iter().take(MAX_RELIABLE).copied().collect();
    }

    pub fn waiting_reliable(&self) -> &[u8] {
        &self.reliable
    }

    /// The number of the newest input used, and how many wait.
    pub fn input_status(&self) -> Option<(u16, u8)> {
        self.done.map(|done| (done, self.waiting.len() as u8))
    }

    /// The player's newest clock and its age in milliseconds; `None` if less than `pause` has
    /// passed since the last echo.
    pub fn take_echo(&mut self, now: Micros, pause: Micros) -> Option<(u16, u8)> {
        if self.echoed.is_some_and(|echoed| now - echoed < pause) {
            return None;
        }
        let (clock, at) = self.echo.take()?;
        self.echoed = Some(now);
        Some((clock, (now - at).as_millis().min(255.0) as u8))
    }

    /// Queues an event. False if there is no room; `None` if the player is away and need not get
    /// it. Reliable events wait for a player who is away; players of an older version get them in
    /// frames.
    pub fn notice(&mut self, event: &[u8], reliable: bool) -> Option<bool> {
        let reliable = reliable && self.version >= RELIABLE_EVENTS;
        if self.link.is_none() && !reliable {
            return None;
        }
        let (waiting, most) = match reliable {
            true => (&mut self.reliable, MAX_RELIABLE),
            false => (&mut self.events, MAX_EVENTS),
        };
        let fits = waiting.len() + event.len() <= most;
        if fits {
            waiting.extend(event);
        }
        Some(fits)
    }

    /// The waiting reliable events, if there is a link to send them on.
    pub fn take_reliable(&mut self) -> Option<(Link, Vec<u8>)> {
        let link = self.link.filter(|_| !self.reliable.is_empty())?;
        Some((link, std::mem::take(&mut self.reliable)))
    }

    /// The waiting events if they fit into `room` bytes; otherwise none, and they wait for a frame
    /// of their own.
    pub fn events_for(&mut self, room: usize) -> Vec<u8> {
        if self.events.len() > room { Vec::new() } else { std::mem::take(&mut self.events) }
    }

    /// Notes that a frame was sent, and takes back the buffer of its events.
    pub fn on_frame_sent(&mut self, now: Micros, mut events: Vec<u8>) {
        self.spoke = now;
        if self.events.is_empty() {
            events.clear();
            self.events = events;
        }
    }

    pub fn needs_frame(&self, now: Micros, keep_alive: Micros) -> bool {
        !self.events.is_empty() || now - self.spoke >= keep_alive
    }

    pub fn away(&self, now: Micros, settings: &ServerSettings) -> Option<Away> {
        match (self.link, self.broken) {
            _ if self.leaving => None,
            (None, Some(since)) if now - since > settings.resume_for => Some(Away::Gone),
            (Some(_), _) if now - self.heard > settings.timeout => Some(Away::Silent),
            (Some(_), _) if now - self.acked > ACK_TIMEOUT => Some(Away::NoAcks),
            _ => None,
        }
    }
}
