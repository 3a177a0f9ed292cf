//! Sessions in a world on many servers: they arrive with the state of another server, and leave
//! with it.
//!
//! A session that ends here leaves the player's objects alone: the ledger decides about them, and
//! the region that owns them carries that out.

use super::admission::NewLink;
use super::player_session::{PlayerSession, SessionIdentity};
use super::work::Credit;
use super::{PlayerSessions, RoundTime, ServerEvent, allowance, set_pivots};
use crate::game::{EventArea, Game, PlayerId};
use crate::outbox::{Link, Outbox};
use crate::session::{ResumeKey, ServerMessage, write_message};
use crate::simulation::Simulation;
use foveate_sync::pipeline::{CarriedCounts, CarriedObserver};
use foveate_sync::{Observer, ObserverId, Pivots};
use foveate_wire::{Bytes, Micros, ObjectId, Tick};
use serde::{Deserialize, Serialize};

/// The state of a session that moves between servers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CarriedSession<I> {
    pub player: u32,
    /// The player's name.
    pub name: String,
    /// The key to resume.
    pub resume: ResumeKey,
    /// The version of the wire that the client speaks.
    pub version: u8,
    /// The number of the view that the player chose.
    pub view: u8,
    /// Bytes per round.
    pub budget: Option<u32>,
    /// The object that the player watches instead of the avatar.
    pub watched: Option<u64>,
    /// Inputs that wait, with their numbers.
    pub waiting: Vec<(u16, I)>,
    /// The number of the newest input used.
    pub done: Option<u16>,
    /// The number of the first input that has not arrived.
    pub next: Option<u16>,
    /// Ticks without an input that may still be made up for.
    pub missed: u8,
    /// Reliable events that wait.
    pub reliable: Vec<u8>,
    /// The last tick sent to the client; the next host sends later ones.
    pub tick: u32,
    /// The player is leaving.
    pub leaving: bool,
    /// No client was told of this session: the client that takes it up is told anew.
    pub untold: bool,
    /// Packets since the client was welcomed anew, as long as what it sent before that may arrive.
    pub anew: Option<u16>,
    /// What the client knows.
    pub observer: CarriedObserver,
}

/// A player for whom a session is to begin.
pub(crate) struct Entrant {
    pub player: PlayerId,
    pub name: String,
    pub version: u8,
    pub resume: ResumeKey,
    pub view: u8,
}

/// A link to a client, and the version of the wire that the client speaks.
#[derive(Clone, Copy)]
pub(crate) struct ClientLink {
    pub link: Link,
    pub version: u8,
}

impl<G: Game> PlayerSessions<G> {
    /// Turns these into the sessions of one region: the end of a session leaves objects alone, and
    /// clients are sent something at least every `keep_alive`.
    pub(crate) fn of_region(mut self, keep_alive: Micros) -> PlayerSessions<G> {
        (self.of_region, self.keep_alive) = (true, keep_alive);
        self
    }

    pub(crate) fn draw_key(&mut self) -> ResumeKey {
        (self.keys)()
    }

    /// Whether the player's session has a link; `None` if there is no session.
    pub(crate) fn has(&self, player: PlayerId) -> Option<bool> {
        self.session(player).map(|session| session.link.is_some())
    }

    /// Whether a player's session has this key, and its client was never told of it.
    pub(crate) fn is_untold(&self, player: PlayerId, key: ResumeKey) -> bool {
        self.session(player).is_some_and(|it| it.untold && it.resume == key)
    }

    fn session(&self, player: PlayerId) -> Option<&PlayerSession<G>> {
        self.sessions.get(*self.by_player.get(&player)? as usize)?.as_ref()
    }

    fn session_mut(&mut self, player: PlayerId) -> Option<&mut PlayerSession<G>> {
        self.sessions.get_mut(*self.by_player.get(&player)? as usize)?.as_mut()
    }

    /// Begins a session without a link. Its avatar may not be known here yet.
    pub(crate) fn begin(
        &mut self,
        simulation: &mut Simulation<G>,
        entrant: Entrant,
        now: Micros,
    ) -> bool {
        let Entrant { player, name, version, resume, view } = entrant;
        if self.by_player.contains_key(&player) || self.by_name.contains_key(&name) {
            return false;
        }
        let Some(observer) = self.fresh_observer(simulation, player, view) else { return false };
        let observer =
            simulation.publisher.add(observer.with_budget(allowance(self.settings.budget)));
        let avatar = self.game.avatar_of(player);
        let identity = SessionIdentity { player, avatar, name, resume };
        let mut session = PlayerSession::new(identity, observer, now);
        (session.budget, session.version, session.view) = (self.settings.budget, version, view);
        session.untold = true;
        session.credit = Credit::new(self.settings.work, now);
        session.leave_link(now);
        self.place(session);
        true
    }

    fn fresh_observer(
        &mut self,
        simulation: &Simulation<G>,
        player: PlayerId,
        view: u8,
    ) -> Option<Observer> {
        let view = self.view_override.clone().or_else(|| self.chosen_view(view));
        let policy = view.and_then(|view| self.policy(&view).ok())?;
        let slots = simulation.avatar(player).into_iter().collect();
        let tick = simulation.publisher.store.tick();
        Some(Observer::new(policy, Pivots::Objects(slots), tick))
    }

    /// Gives a session a place in the table, and returns it.
    pub(super) fn place(&mut self, session: PlayerSession<G>) -> u32 {
        let at = self.sessions.iter().position(Option::is_none).unwrap_or_else(|| {
            self.sessions.push(None);
            self.sessions.len() - 1
        });
        let of = session.observer.0 as usize;
        self.session_of.resize(self.session_of.len().max(of + 1), u32::MAX);
        self.session_of[of] = at as u32;
        self.by_player.insert(session.player, at as u32);
        self.by_name.insert(session.name.clone(), at as u32);
        self.sessions[at] = Some(session);
        at as u32
    }

    /// Gives an authenticated player's session this link, without the state that the client had.
    pub(crate) fn attach(
        &mut self,
        simulation: &mut Simulation<G>,
        player: PlayerId,
        client: ClientLink,
        now: Micros,
        out: &mut impl Outbox,
    ) -> bool {
        let ClientLink { link, version } = client;
        let Some(at) = self.by_player.get(&player).copied() else { return false };
        let Some(session) = &self.sessions[at as usize] else { return false };
        let (view, budget, old) = (session.view, session.budget, session.observer);
        let Some(observer) = self.fresh_observer(simulation, player, view) else { return false };
        simulation.publisher.remove(old);
        let observer = simulation.publisher.add(observer.with_budget(allowance(budget)));
        self.observe(at, observer);
        let Some(session) = &mut self.sessions[at as usize] else { return false };
        (session.version, session.leaving, session.untold) = (version, false, false);
        if let Some(old) = session.link.take() {
            self.by_link.remove(&old);
        }
        let (player, name) = (session.player, session.name.clone());
        self.events.push_back(ServerEvent::Joined(player, name));
        let round = RoundTime { tick: simulation.publisher.store.tick(), now };
        self.attach_link(at, NewLink { link, resumed: false }, round, out);
        if let Some(session) = &mut self.sessions[at as usize] {
            session.anew = Some(0);
        }
        true
    }

    fn observe(&mut self, at: u32, observer: ObserverId) {
        let of = observer.0 as usize;
        self.session_of.resize(self.session_of.len().max(of + 1), u32::MAX);
        self.session_of[of] = at;
        if let Some(session) = &mut self.sessions[at as usize] {
            session.observer = observer;
            session.eyes = vec![session.avatar];
        }
    }

    /// Ends a session here that continues elsewhere; returns its state and its link.
    pub(crate) fn carry_out(
        &mut self,
        simulation: &mut Simulation<G>,
        player: PlayerId,
    ) -> Option<(CarriedSession<G::Input>, Option<Link>)> {
        let observer = simulation.publisher.carry_out(self.session(player)?.observer)?;
        let session = self.drop_session(simulation, player)?;
        let (waiting, ([done, next], missed)) = (session.waiting_inputs(), session.input_numbers());
        let state = CarriedSession {
            player: player.0,
            name: session.name.clone(),
            resume: session.resume,
            version: session.version,
            view: session.view,
            budget: session.budget.map(|it| it.0),
            watched: session.watched.map(|it| it.0),
            waiting,
            done,
            next,
            missed,
            reliable: session.waiting_reliable().to_vec(),
            tick: simulation.publisher.store.tick().0,
            leaving: session.leaving,
            untold: session.untold,
            anew: session.anew,
            observer,
        };
        Some((state, session.link))
    }

    /// Ends a session without other changes; returns its link, if there was one.
    pub(crate) fn end(&mut self, simulation: &mut Simulation<G>, player: PlayerId) -> Option<Link> {
        self.drop_session(simulation, player)?.link
    }

    fn drop_session(
        &mut self,
        simulation: &mut Simulation<G>,
        player: PlayerId,
    ) -> Option<PlayerSession<G>> {
        let at = self.by_player.remove(&player)?;
        let session = self.sessions[at as usize].take()?;
        session.link.and_then(|link| self.by_link.remove(&link));
        self.by_name.remove(&session.name);
        simulation.publisher.remove(session.observer);
        Some(session)
    }

    /// Continues a session here. `None` if its view does not exist or the player has a session
    /// here.
    pub(crate) fn carry_in(
        &mut self,
        simulation: &mut Simulation<G>,
        state: CarriedSession<G::Input>,
        link: Option<Link>,
        now: Micros,
    ) -> Option<CarriedCounts> {
        let player = PlayerId(state.player);
        if self.by_player.contains_key(&player) || self.by_name.contains_key(&state.name) {
            return None;
        }
        let observer = self.fresh_observer(simulation, player, state.view)?;
        let budget = state.budget.map(Bytes);
        let observer = observer.with_budget(allowance(budget));
        let (observer, counts) = simulation.publisher.carry_in(observer, &state.observer);
        let avatar = self.game.avatar_of(player);
        let identity =
            SessionIdentity { player, avatar, name: state.name.clone(), resume: state.resume };
        let mut session = PlayerSession::new(identity, observer, now);
        session.credit = Credit::new(self.settings.work, now);
        (session.version, session.view, session.leaving) =
            (state.version, state.view, state.leaving);
        session.untold = state.untold;
        (session.budget, session.watched) = (budget, state.watched.map(ObjectId));
        match link {
            Some(link) => session.come_back(link, now),
            None => session.leave_link(now),
        }
        session.set_inputs(&state);
        let at = self.place(session);
        self.by_link.extend(link.map(|link| (link, at)));
        Some(counts)
    }

    /// Passes the inputs for the coming tick to `given`: player, avatar, number, input.
    pub(crate) fn next_inputs(&mut self, mut given: impl FnMut(PlayerId, u16, G::Input)) {
        for session in self.sessions.iter_mut().flatten() {
            while let Some(input) = session.next_input() {
                if let Some((seq, _)) = session.input_status() {
                    given(session.player, seq, input);
                }
            }
        }
    }

    /// Notes the events of the current tick.
    pub(crate) fn note_events(&mut self, happened: Vec<(EventArea, G::Event)>) {
        self.happened = happened;
    }

    /// Call after the rules and before states are sent.
    pub(crate) fn prepare(&mut self, simulation: &mut Simulation<G>, tick: Tick, now: Micros) {
        self.queue_events(simulation);
        self.note_interactions(simulation, now);
        self.update_pivots(simulation, tick);
        self.sort_teams(simulation, tick);
    }

    /// Sends a packet to an observer; false if the observer is not a player.
    pub(crate) fn send_packet(
        &mut self,
        observer: ObserverId,
        round: RoundTime,
        packet: &[u8],
        out: &mut impl Outbox,
    ) -> bool {
        let Some(at) = self.session_of.get(observer.0 as usize) else { return false };
        let Some(Some(session)) = self.sessions.get_mut(*at as usize) else { return false };
        if session.observer != observer {
            return false;
        }
        session.note_packet();
        let Some(link) = session.link else { return true };
        session.write_datagram(round, Micros::ZERO, packet, &mut self.frame);
        self.quality.note_sent(self.frame.len());
        out.datagram(link, &self.frame);
        true
    }

    /// Call after the packets: sends events and keep-alives, and ends sessions that timed out.
    pub(crate) fn conclude(
        &mut self,
        simulation: &mut Simulation<G>,
        round: RoundTime,
        out: &mut impl Outbox,
    ) {
        self.send_reliable_events(out);
        self.send_keep_alives(round, Micros::ZERO, out);
        self.evict_timed_out(simulation, round.now, out);
    }

    /// Sends a message to a player's client, if there is a link and the client understands it.
    pub(crate) fn tell(
        &self,
        player: PlayerId,
        least: u8,
        message: &ServerMessage,
        out: &mut impl Outbox,
    ) -> bool {
        let session = self.session(player).filter(|it| it.version >= least);
        let Some(link) = session.and_then(|session| session.link) else { return false };
        out.message(link, &write_message(message));
        true
    }

    /// A player's link and the version that the client speaks.
    pub(crate) fn link_of(&self, player: PlayerId) -> Option<(Option<Link>, u8)> {
        self.session(player).map(|session| (session.link, session.version))
    }

    pub(crate) fn is_leaving(&self, player: PlayerId) -> bool {
        self.session(player).is_some_and(|session| session.leaving)
    }

    /// A player's name, key, version and view: what a standby must know.
    pub(crate) fn entrant(&self, player: PlayerId) -> Option<Entrant> {
        let session = self.session(player)?;
        let (name, resume) = (session.name.clone(), session.resume);
        Some(Entrant { player, name, resume, version: session.version, view: session.view })
    }

    /// The player with this name, if it has a session here.
    pub(crate) fn player_named(&self, name: &str) -> Option<PlayerId> {
        let at = *self.by_name.get(name)?;
        self.sessions.get(at as usize)?.as_ref().map(|session| session.player)
    }

    /// The players that have a session here.
    pub(crate) fn hosted(&self) -> impl Iterator<Item = PlayerId> + '_ {
        self.by_player.keys().copied()
    }

    /// Ends a player's session, and leaves its objects for now.
    pub(super) fn part(&mut self, simulation: &mut Simulation<G>, at: u32) {
        let Some(session) = &mut self.sessions[at as usize] else { return };
        let (player, link) = (session.player, session.link);
        session.leaving = true;
        session.leave_link(Micros::ZERO);
        link.and_then(|link| self.by_link.remove(&link));
        if let Some(session) = self.session_mut(player) {
            set_pivots(simulation, session, &mut Vec::new());
        }
        self.events.push_back(ServerEvent::Left(player, Vec::new()));
    }
}
