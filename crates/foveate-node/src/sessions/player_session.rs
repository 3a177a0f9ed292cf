//! One player's place at a server.

use super::moving::CarriedSession;
use super::work::{Credit, WorkBudget};
use super::{ACK_TIMEOUT, BURST, ServerSettings};
use crate::game::{Game, PlayerId};
use crate::outbox::Link;
use crate::session::{RELIABLE_EVENTS, ResumeKey};
use crate::simulation::MAX_INPUTS;
use foveate_sync::interest::View;
use foveate_sync::{Observer, ObserverId};
use foveate_wire::{Bytes, Micros, ObjectId};
use std::collections::VecDeque;

/// Inputs that wait for their tick at most: 400 ms at 20 Hz. Whoever is further ahead is too fast.
const MAX_WAITING: usize = 8;
/// Inputs that wait before the first is used: what jitter may hold up.
const HEAD_START: usize = 2;
/// Above this many waiting inputs two are used in a tick: the link was held up and has recovered. No more
/// are made up for than were missing, so that who sends more is not faster.
const CATCH_UP: usize = 4;
/// Bytes of events that wait for a frame at most; what is beyond is dropped and counted.
const MAX_EVENTS: usize = 900;
/// Bytes of reliable events that wait for the next round, or for the player to come back; likewise.
pub(super) const MAX_RELIABLE: usize = 8 * 1024;
/// Rounds for which unused budget is kept where the link is narrower than the budget.
const NARROW_BURST: u32 = 2;

/// Why somebody is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Away {
    /// The link broke, and nobody came back.
    Gone,
    /// The link is there, but nothing comes.
    Silent,
    /// Something comes, but no acknowledgement.
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
    /// Whom they look over the shoulder.
    pub watched: Option<ObjectId>,
    /// The view they chose,
    pub view: u8,
    /// and what an operator put in its place.
    pub view_override: Option<View>,
    /// Bytes a round at most,
    pub budget: Option<Bytes>,
    /// and what the link carries, if the host knows.
    pub capacity: Option<Bytes>,
    /// When something came from them,
    pub heard: Micros,
    /// and an acknowledgement.
    pub acked: Micros,
    /// Their clock, and when it was heard.
    pub echo: Option<(u16, Micros)>,
    /// When a clock was echoed last.
    echoed: Option<Micros>,
    spoke: Micros,
    broken: Option<Micros>,
    /// Inputs and their numbers.
    waiting: VecDeque<(u16, G::Input)>,
    /// The number of the newest input used.
    done: Option<u16>,
    /// The number of the first input that has not come.
    next: Option<u16>,
    /// Inputs taken out of `waiting` in this tick.
    used: usize,
    /// Ticks without an input that may be made up for.
    missed: usize,
    started: bool,
    events: Vec<u8>,
    /// Events that must arrive, for the reliable stream.
    reliable: Vec<u8>,
    /// The version of the wire that the player speaks.
    pub version: u8,
    /// What is left of their budget of work,
    pub credit: Credit,
    /// of the one for looking from other objects,
    pub watches: Credit,
    /// and of their link's, for joining.
    pub joins: Credit,
    /// They leave, and have not left: in a world on many servers that takes a moment.
    pub leaving: bool,
}

impl<G: Game> PlayerSession<G> {
    pub fn new(
        (player, avatar): (PlayerId, ObjectId),
        name: String,
        observer: ObserverId,
        resume: ResumeKey,
        now: Micros,
    ) -> PlayerSession<G> {
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
        }
    }

    pub fn come_back(&mut self, link: Link, now: Micros) {
        (self.link, self.broken) = (Some(link), None);
        (self.heard, self.acked, self.spoke) = (now, now, now);
        // Whatever they did while away is not made up for.
        self.waiting.clear();
        (self.next, self.done, self.started) = (None, None, false);
        // A link that is over tells nothing of this one's round trip or width.
        (self.missed, self.echo, self.echoed, self.capacity) = (0, None, None, None);
    }

    /// States keep within the budget and what the link carries. Of the latter little is kept for later: a
    /// burst would queue.
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

    /// Whether an input has come before.
    pub fn is_known(&self, seq: u16) -> bool {
        self.next.is_some_and(|next| (seq.wrapping_sub(next) as i16) < 0)
    }

    /// Takes an input in; false if it is ahead of what a player can do. Known ones do no harm.
    pub fn take_input(&mut self, seq: u16, input: G::Input) -> bool {
        let next = *self.next.get_or_insert(seq);
        let ahead = seq.wrapping_sub(next) as i16;
        if ahead < 0 {
            return true;
        }
        if self.waiting.len() >= MAX_WAITING {
            return false;
        }
        // Those in between are lost for good: each datagram repeats the last ones.
        self.next = Some(seq.wrapping_add(1));
        self.waiting.push_back((seq, input));
        true
    }

    /// An input for this tick: mostly one, two to catch up, none until a few have come.
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
                // Run dry: let a few gather again.
                self.started &= self.used > 0 || !self.waiting.is_empty();
                self.missed = (self.missed + usize::from(self.used == 0)).min(MAX_WAITING);
                self.used = 0;
            }
        }
        input.map(|(_, input)| input)
    }

    /// Inputs that wait, with their numbers.
    pub fn waiting_inputs(&self) -> Vec<(u16, G::Input)> {
        self.waiting.iter().copied().collect()
    }

    /// The numbers of the newest input used and of the first that has not come, and how many ticks may be made up for.
    pub fn input_numbers(&self) -> ([Option<u16>; 2], u8) {
        ([self.done, self.next], self.missed as u8)
    }

    /// Inputs go on as they were elsewhere.
    pub fn set_inputs(&mut self, state: &CarriedSession<G::Input>) {
        self.waiting = state.waiting.iter().take(MAX_WAITING).copied().collect();
        (self.done, self.next) = (state.done, state.next);
        // What was held up while the session moved may be made up for.
        self.missed = (usize::from(state.missed) + HEAD_START * 2).min(MAX_WAITING);
        self.started = self.done.is_some();
        self.reliable = state.reliable.iter().take(MAX_RELIABLE).copied().collect();
    }

    /// Reliable events that wait.
    pub fn waiting_reliable(&self) -> &[u8] {
        &self.reliable
    }

    /// The newest input used, and how many wait.
    pub fn input_news(&self) -> Option<(u16, u8)> {
        self.done.map(|done| (done, self.waiting.len() as u8))
    }

    /// The newest clock heard and how long ago, unless `pause` has not passed since the last echo.
    pub fn echo_news(&mut self, now: Micros, pause: Micros) -> Option<(u16, u8)> {
        if self.echoed.is_some_and(|echoed| now - echoed < pause) {
            return None;
        }
        let (clock, at) = self.echo.take()?;
        self.echoed = Some(now);
        Some((clock, (now - at).as_millis().min(255.0) as u8))
    }

    /// Something happened near by. False if there is no room for it; none if the player is away and will not miss
    /// it. Reliable events wait for a player who is away; players of an older version get them like the others.
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

    /// The reliable events that wait, if there is a link for them.
    pub fn take_reliable(&mut self) -> Option<(Link, Vec<u8>)> {
        let link = self.link.filter(|_| !self.reliable.is_empty())?;
        Some((link, std::mem::take(&mut self.reliable)))
    }

    /// The events, if there is room for them; otherwise they wait for a frame of their own.
    pub fn events_for(&mut self, room: usize) -> Vec<u8> {
        if self.events.len() > room { Vec::new() } else { std::mem::take(&mut self.events) }
    }

    /// A frame left; its events' memory comes back.
    pub fn told(&mut self, now: Micros, mut events: Vec<u8>) {
        self.spoke = now;
        if self.events.is_empty() {
            events.clear();
            self.events = events;
        }
    }

    pub fn has_something_to_say(&self, now: Micros, keep_alive: Micros) -> bool {
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
