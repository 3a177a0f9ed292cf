//! Player sessions: joining, resuming and leaving, players' inputs, and what each player is sent.
//!
//! Without IO and without a world: links, messages and datagrams are passed in with the simulation
//! that they concern, and answers leave through an [`Outbox`]. A [`Server`](crate::Server) is a
//! simulation with sessions; a [region](crate::region) has sessions, too.
//!
//! ```text
//! connected ─ Hello ─▶ Asked ─ admit ─▶ joined ◀─ resume ─ away ─ too long ─▶ left
//!                 └─ refused            └────── link lost ──────┘
//! ```

mod admission;
mod compare;
mod events;
mod moving;
mod oversee;
mod player_session;
mod quality;
mod work;

pub(crate) use admission::{Admitted, ResumeRequest};
pub use compare::BroadcastComparison;
pub use events::EventCounts;
pub use moving::CarriedSession;
pub(crate) use moving::{ClientLink, Entrant};
pub use oversee::Present;
pub use player_session::Away;
pub use quality::Resources;
pub use work::{JOIN_COST, NAME_COST, VIEW_COST, WATCH_COST, WorkBudget, WorkCounts};

use crate::game::{EventArea, Game, PlayerId, Requester};
use crate::outbox::{Link, Outbox};
use crate::session::{
    ClientDatagram, ClientMessage, Refusal, ResumeKey, SERVER_DATAGRAM_ROOM, ServerDatagram,
    ServerMessage, VERSIONS, read_message, write_message,
};
use crate::simulation::{Interacted, Simulation};
use foveate_sync::interest::{Policy, View};
use foveate_sync::{Budget, ObserverId, Pivots, Rounds};
use foveate_wire::packet::MAX_PACKET;
use foveate_wire::{Bytes, Micros, ObjectId, Tick};
use player_session::PlayerSession;
use quality::Quality;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use work::Credit;

/// The round that is being sent.
#[derive(Clone, Copy)]
pub(crate) struct RoundTime {
    pub tick: Tick,
    /// The node's clock at the start of the round.
    pub now: Micros,
}

/// An action that a player asks an object for.
struct AskedAction<A> {
    object: ObjectId,
    action: A,
    /// The tick that the player saw when it acted.
    seen: Tick,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ServerSettings {
    /// Rounds, and how long replicas linger.
    pub rounds: Rounds,
    /// The most players at once.
    pub max_players: usize,
    /// The most bytes to each player in a round; what is not used is kept for [`BURST`] rounds.
    pub budget: Option<Bytes>,
    /// How long a player whose link broke stays in the world, and may resume.
    pub resume_for: Micros,
    /// After this time without a message or datagram a player has timed out.
    pub timeout: Micros,
    /// What all players together may use; grades give way when it is short.
    pub resources: Resources,
    /// How much work each player may request.
    pub work: WorkBudget,
}

/// Rounds for which unused budget is kept.
pub const BURST: u32 = 8;
/// A player that acknowledges nothing for this long is evicted.
pub const ACK_TIMEOUT: Micros = Micros(10_000_000);
/// A player is sent something at least this often.
pub const KEEP_ALIVE: Micros = Micros(1_000_000);
/// Under strain, clocks are echoed at most this often: clients average their round trips over
/// longer.
const STRAINED_ECHO: Micros = Micros(200_000);
/// The most links without a session.
pub const MAX_PENDING_LINKS: usize = 4_096;
/// A player may see a tick that is older than the round trip explains by this much: jitter, and a
/// frame of the screen.
const SEEN_SLACK: Micros = Micros(50_000);
/// And by this many rounds: what is sent at the end of one is seen in the next.
const SEEN_ROUNDS: u64 = 1;
/// Rounds between two updates of each player's pivots.
const PIVOTS_EVERY: u32 = 8;

impl Default for ServerSettings {
    fn default() -> ServerSettings {
        ServerSettings {
            rounds: Rounds::every(Micros::from_millis(50)),
            max_players: 1_024,
            budget: Some(Bytes(3_200)),
            resume_for: Micros(10_000_000),
            timeout: Micros(10_000_000),
            resources: Resources::default(),
            work: WorkBudget::PLAYER,
        }
    }
}

/// A link without a session.
#[derive(Default)]
struct PendingLink {
    /// The name from its hello, while the host checks it.
    name: Option<String>,
    /// The newest version that both ends speak.
    version: u8,
    /// Rounds without a hello since the link was made.
    rounds: u32,
    /// What is left of the link's budget for joining; `None` before the first join.
    joins: Option<Credit>,
}

/// Requests and reports to the host.
#[derive(Clone, PartialEq, Debug)]
pub enum ServerEvent {
    /// A player asks to join, and its version, schema and name are valid. Answer with
    /// [`ServerCommand::Admit`](crate::node::ServerCommand::Admit) or
    /// [`ServerCommand::Reject`](crate::node::ServerCommand::Reject).
    Asked {
        /// The player's link.
        link: Link,
        /// The name that the player claims.
        name: String,
        /// The player's connect token.
        token: Vec<u8>,
    },
    /// A player joined or resumed.
    Joined(PlayerId, String),
    /// A player's link broke; the player may resume.
    Broken(PlayerId),
    /// A player left; these objects are to be kept.
    Left(PlayerId, Vec<(ObjectId, Vec<i32>)>),
    /// A join was refused or a session ended, for this reason.
    Refused(Refusal),
}

/// How much was refused, by reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RefusalCounts {
    /// Sessions.
    pub sessions: BTreeMap<Refusal, u64>,
    /// Datagrams that could not be read.
    pub malformed: u64,
    /// Inputs that no player can give.
    pub impossible: u64,
    /// Inputs that came faster than a player can give them.
    pub hasty: u64,
    /// Actions, views and questions beyond a player's budget of work, or that the game does not
    /// allow.
    pub excess: u64,
    /// Actions and inputs that claim to have seen a tick older than the link explains; they are
    /// judged by the oldest tick that it does explain.
    pub late: u64,
}

/// Draws keys for resuming: 128 bits each, none predictable from others. The host supplies the
/// randomness.
pub type Keys = Box<dyn FnMut() -> ResumeKey + Send + Sync>;

/// The sessions of one world's players.
pub struct PlayerSessions<G: Game> {
    game: Arc<G>,
    settings: ServerSettings,
    quality: Quality,
    /// Links without a session: no hello yet, or waiting for an answer.
    pending_links: BTreeMap<Link, PendingLink>,
    by_link: BTreeMap<Link, u32>,
    by_player: BTreeMap<PlayerId, u32>,
    by_name: BTreeMap<String, u32>,
    sessions: Vec<Option<PlayerSession<G>>>,
    /// The index of the session of each observer.
    session_of: Vec<u32>,
    events: VecDeque<ServerEvent>,
    refused: RefusalCounts,
    work: WorkCounts,
    /// The view in force for every player without an override of its own.
    view_override: Option<View>,
    /// Replaces the game's view 0, by the configuration.
    first_view: Option<View>,
    /// Policies that views refer to by name, in addition to the game's.
    own_policies: Vec<(String, Arc<dyn Policy>)>,
    /// The policies of the views in force. Players with the same view share one policy, which then
    /// stays in the cache from one observer to the next.
    policies: VecDeque<(View, Arc<dyn Policy>)>,
    /// Measures the cost of broadcasting, while an operator asks for it.
    shadow: Option<Box<compare::Shadow>>,
    keys: Keys,
    /// The sessions belong to one region: see `moving`.
    of_region: bool,
    /// A player is sent something at least this often.
    keep_alive: Micros,
    incoming: ClientDatagram<G::Input>,
    happened: Vec<(EventArea, G::Event)>,
    event_counts: EventCounts,
    frame: Vec<u8>,
}

impl<G: Game> PlayerSessions<G> {
    pub fn new(game: Arc<G>, settings: ServerSettings, keys: Keys) -> PlayerSessions<G> {
        PlayerSessions {
            game,
            settings,
            quality: Quality::new(settings.resources),
            pending_links: BTreeMap::new(),
            by_link: BTreeMap::new(),
            by_player: BTreeMap::new(),
            by_name: BTreeMap::new(),
            sessions: Vec::new(),
            session_of: Vec::new(),
            events: VecDeque::new(),
            refused: RefusalCounts::default(),
            work: WorkCounts::default(),
            view_override: None,
            first_view: None,
            own_policies: Vec::new(),
            policies: VecDeque::new(),
            shadow: None,
            keys,
            of_region: false,
            keep_alive: KEEP_ALIVE,
            incoming: ClientDatagram::default(),
            happened: Vec::new(),
            event_counts: EventCounts::default(),
            frame: Vec::new(),
        }
    }

    /// The next event for the host, if any.
    pub fn poll(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    /// The number of players with a session, with or without a link.
    pub fn players(&self) -> usize {
        self.by_player.len()
    }

    /// Whether a link waits for the host's answer to [`ServerEvent::Asked`].
    pub fn is_asked(&self, link: Link) -> bool {
        self.pending_links.get(&link).is_some_and(|it| it.name.is_some())
    }

    /// How much was refused, by reason.
    pub fn refusals(&self) -> &RefusalCounts {
        &self.refused
    }

    /// How much work clients requested.
    pub fn work(&self) -> WorkCounts {
        self.work
    }

    /// Charges a player for work; false if the work must not be done.
    fn charge(&mut self, at: u32, cost: u32, now: Micros) -> bool {
        let Some(session) = &mut self.sessions[at as usize] else { return false };
        let paid = session.credit.charge(cost, now);
        match paid {
            true => self.work.charged += u64::from(cost),
            false => {
                self.work.refused += u64::from(cost);
                self.refused.excess += 1;
            }
        }
        paid
    }

    /// A link was made.
    pub fn connected(&mut self, link: Link, out: &mut impl Outbox) {
        if self.pending_links.len() >= MAX_PENDING_LINKS {
            return self.reject(
                link,
                Refusal::Full,
                "too many connections are waiting to join; try again later",
                out,
            );
        }
        self.pending_links.insert(link, PendingLink::default());
    }

    /// A link ended.
    pub fn closed(&mut self, link: Link, now: Micros) {
        self.pending_links.remove(&link);
        if let Some(at) = self.by_link.remove(&link)
            && let Some(session) = &mut self.sessions[at as usize]
        {
            session.leave_link(now);
            self.events.push_back(ServerEvent::Broken(session.player));
        }
    }

    /// A message arrived.
    pub fn message(
        &mut self,
        simulation: &mut Simulation<G>,
        link: Link,
        bytes: &[u8],
        now: Micros,
        out: &mut impl Outbox,
    ) {
        let Some(message) = read_message::<ClientMessage<G::Action>>(bytes) else {
            return self.expel(simulation, link, "malformed message", out);
        };
        match (message, self.by_link.get(&link).copied()) {
            // Once per link: the host is asked about one name, and accepts that one.
            (ClientMessage::Hello { versions, schema, name, token, resume }, None)
                if self.pending_links.get(&link).is_some_and(|it| it.name.is_none()) =>
            {
                let spoken = VERSIONS.iter().rev().find(|it| versions.contains(it));
                let version = spoken.copied().unwrap_or_default();
                if let Some(key) = resume {
                    let request = ResumeRequest { link, name: &name, key, version };
                    if self.resume(simulation, request, now, out) {
                        return;
                    }
                }
                let asked = name.clone();
                let joins = match self.charge_join(link, now) {
                    Some(joins) => joins,
                    None => {
                        return self.reject(link, Refusal::Full, "too many joins on one link", out);
                    }
                };
                match self.check(&versions, schema, &name) {
                    Ok(()) => {
                        let (name, joins) = (Some(name), Some(joins));
                        let pending = PendingLink { name, version, rounds: 0, joins };
                        self.pending_links.insert(link, pending);
                        self.events.push_back(ServerEvent::Asked { link, name: asked, token });
                    }
                    Err((why, text)) => self.reject(link, why, &text, out),
                }
            }
            (ClientMessage::View(which), Some(at)) => self.set_view(simulation, at, which, now),
            (ClientMessage::Ask { object, action, seen }, Some(at)) => {
                let asked = AskedAction { object: ObjectId(object), action, seen: Tick(seen) };
                self.ask(simulation, at, asked, now);
            }
            (ClientMessage::Leave, Some(at)) => {
                let joins = self.sessions[at as usize].as_ref().map(|session| session.joins);
                self.leave(simulation, at);
                if !self.of_region {
                    let pending = PendingLink { joins, ..PendingLink::default() };
                    self.pending_links.insert(link, pending);
                }
            }
            (ClientMessage::Watch(object), Some(at)) => {
                self.watch(simulation, at, object.map(ObjectId), now)
            }
            (ClientMessage::Who(player), Some(at)) => {
                self.send_name(at, PlayerId(player), now, out);
            }
            _ => {
                let text = "unexpected message for this state of the session";
                self.expel(simulation, link, text, out);
            }
        }
    }

    /// A datagram arrived.
    pub fn datagram(
        &mut self,
        simulation: &mut Simulation<G>,
        link: Link,
        bytes: &[u8],
        now: Micros,
    ) {
        let Some(at) = self.by_link.get(&link) else { return };
        let Some(session) = &mut self.sessions[*at as usize] else { return };
        if !self.incoming.read(bytes) {
            self.refused.malformed += 1;
            return;
        }
        session.heard = now;
        session.echo = Some((self.incoming.clock, now));
        if session.is_of_former(self.incoming.ack) {
            return;
        }
        if let Some(ack) = self.incoming.ack {
            session.acked = now;
            simulation.publisher.on_ack(session.observer, &ack, now);
            if let Some(shadow) = &mut self.shadow {
                let observer = simulation.publisher.observer(session.observer);
                let round_trip = observer.and_then(|observer| observer.link().rtt());
                shadow.on_ack(session.observer, &ack, now, round_trip);
            }
        }
        let earliest = earliest_seen(simulation, &self.settings, session.observer);
        for (nth, input) in self.incoming.inputs.iter().enumerate() {
            if !simulation.game.allows(input) {
                self.refused.impossible += 1;
                continue;
            }
            let seq = self.incoming.first.wrapping_add(nth as u16);
            if session.is_known(seq) {
                continue;
            }
            let limited = simulation.game.limit_seen(*input, earliest);
            self.refused.late += u64::from(limited != *input);
            self.refused.hasty += u64::from(!session.take_input(seq, limited));
        }
    }

    /// A player sends an action to an object.
    fn ask(
        &mut self,
        simulation: &mut Simulation<G>,
        at: u32,
        asked: AskedAction<G::Action>,
        now: Micros,
    ) {
        let AskedAction { object, action, seen } = asked;
        if !self.charge(at, simulation.game.cost(&action), now) {
            return;
        }
        let Some(session) = &self.sessions[at as usize] else { return };
        let earliest = earliest_seen(simulation, &self.settings, session.observer);
        let is_late = earliest.is_after(seen);
        self.refused.late += u64::from(is_late);
        let by = Requester::Player(session.player, if is_late { earliest } else { seen });
        let taken = simulation.request(object, action, by);
        self.refused.excess += u64::from(taken == Ok(false));
    }

    fn set_view(&mut self, simulation: &mut Simulation<G>, at: u32, which: u8, now: Micros) {
        if !self.charge(at, VIEW_COST, now) {
            return;
        }
        let known = self.chosen_view(which).is_some_and(|it| self.policy(&it).is_ok());
        match &mut self.sessions[at as usize] {
            Some(session) if known => {
                session.view = which;
                self.apply_view(simulation, at as usize);
            }
            _ => self.refused.excess += 1,
        }
    }

    fn watch(
        &mut self,
        simulation: &mut Simulation<G>,
        at: u32,
        object: Option<ObjectId>,
        now: Micros,
    ) {
        if !self.charge(at, WATCH_COST, now) {
            return;
        }
        let PlayerSessions { sessions, refused, .. } = self;
        let Some(session) = &mut sessions[at as usize] else { return };
        let avatar = session.avatar;
        let refuse = |object| !simulation.game.may_watch(&simulation.world(), avatar, object);
        let sweeps = object.is_some() && !session.watches.charge(WATCH_COST, now);
        if sweeps || object.is_some_and(refuse) {
            refused.excess += 1;
            return;
        }
        session.watched = object;
        set_pivots(simulation, session, &mut Vec::new());
    }

    fn send_name(&mut self, at: u32, player: PlayerId, now: Micros, out: &mut impl Outbox) {
        if !self.charge(at, NAME_COST, now) {
            return;
        }
        let named = self.by_player.get(&player).and_then(|at| self.sessions[*at as usize].as_ref());
        let name = named.map_or_else(String::new, |session| session.name.clone());
        let session = self.sessions[at as usize].as_ref();
        if let Some(link) = session.and_then(|session| session.link) {
            out.message(link, &write_message(&ServerMessage::Is { player: player.0, name }));
        }
    }

    /// Ends the session of a client that breaks the protocol. If it were kept for a resume it would
    /// occupy a place, and a client that returns under new names could occupy all of them.
    fn expel(
        &mut self,
        simulation: &mut Simulation<G>,
        link: Link,
        text: &str,
        out: &mut impl Outbox,
    ) {
        if let Some(at) = self.by_link.get(&link).copied() {
            self.leave(simulation, at);
        }
        self.reject(link, Refusal::Malformed, text, out);
    }

    /// Ends a player's session for good, and removes the player's objects.
    fn leave(&mut self, simulation: &mut Simulation<G>, at: u32) {
        if self.of_region {
            return self.part(simulation, at);
        }
        let Some(session) = self.sessions[at as usize].take() else { return };
        session.link.and_then(|link| self.by_link.remove(&link));
        self.by_player.remove(&session.player);
        self.by_name.remove(&session.name);
        simulation.publisher.remove(session.observer);
        let kept = admission::remove_objects_of(simulation, session.player);
        self.events.push_back(ServerEvent::Left(session.player, kept));
    }

    /// Plays one round: inputs, rules, events, states; then ends the sessions that timed out.
    pub fn tick(
        &mut self,
        simulation: &mut Simulation<G>,
        tick: Tick,
        now: Micros,
        out: &mut impl Outbox,
    ) {
        for session in self.sessions.iter_mut().flatten() {
            while let Some(input) = session.next_input() {
                simulation.input(session.avatar, input);
            }
        }
        let happened = &mut self.happened;
        happened.clear();
        simulation.step(tick, |spot, event| happened.push((spot, event)));
        self.queue_events(simulation);
        self.note_interactions(simulation, now);
        self.update_pivots(simulation, tick);
        self.sort_teams(simulation, tick);
        self.send_states(simulation, tick, now, out);
        self.compare(simulation, tick, now);
        self.evict_timed_out(simulation, now, out);
        self.reject_idle_links(out);
    }

    /// Passes the inputs for the coming tick to `given`.
    pub fn take_inputs(&mut self, mut given: impl FnMut(PlayerId, G::Input)) {
        for session in self.sessions.iter_mut().flatten() {
            while let Some(input) = session.next_input() {
                given(session.player, input);
            }
        }
    }

    /// Sends an event to all players here.
    pub(crate) fn queue_for_all(&mut self, event: &G::Event) {
        let Ok(bytes) = postcard::to_allocvec(event) else { return };
        let reliable = self.game.reliable(event);
        let PlayerSessions { sessions, event_counts, .. } = self;
        let sessions = sessions.iter_mut().flatten();
        sessions.for_each(|session| event_counts.note(session, &bytes, reliable));
    }

    /// Reports how long a round took, receiving and sending included. If that or the bytes sent
    /// exceed [`ServerSettings::resources`], grades give way from the next round on.
    pub fn end_round(&mut self, simulation: &mut Simulation<G>, took: Micros) {
        let strain = self.quality.end_round(took);
        simulation.publisher.set_strain(strain);
    }

    /// Sets the resources from now on.
    pub fn set_resources(&mut self, resources: Resources) {
        self.settings.resources = resources;
        self.quality.set_resources(resources);
    }

    /// How far grades give way: from 0, as the views ask for, to 16.
    pub fn strain(&self) -> f32 {
        self.quality.strain()
    }

    /// Closes links that sent no hello, which would otherwise occupy a place for ever.
    fn reject_idle_links(&mut self, out: &mut impl Outbox) {
        let most = self.settings.rounds.count(self.settings.timeout);
        let mut late = Vec::new();
        for (link, it) in self.pending_links.iter_mut().filter(|(_, it)| it.name.is_none()) {
            it.rounds += 1;
            late.extend((it.rounds > most).then_some(*link));
        }
        for link in late {
            self.reject(link, Refusal::HandshakeTimeout, "handshake timed out", out);
        }
    }

    /// Raises players' interest in the objects that they acted on and that acted on them.
    fn note_interactions(&mut self, simulation: &mut Simulation<G>, now: Micros) {
        let PlayerSessions { sessions, by_player, .. } = self;
        for at in 0..simulation.interactions().len() {
            let Interacted { by, with, half_life } = simulation.interactions()[at];
            for (own, other) in [(by, with), (with, by)] {
                let session =
                    by_player.get(&PlayerId(own.origin())).map(|at| &sessions[*at as usize]);
                if own.origin() != other.origin()
                    && let Some(Some(session)) = session
                    && let Some(slot) = simulation.publisher.store.find(other)
                    && let Some(observer) = simulation.publisher.observer_mut(session.observer)
                {
                    observer.interacted(slot, now, half_life);
                }
            }
        }
    }

    /// Updates the teams of objects and players.
    fn sort_teams(&mut self, simulation: &mut Simulation<G>, tick: Tick) {
        let PlayerSessions { sessions, by_player, .. } = self;
        let avatar = simulation.game.avatar();
        simulation.sort_teams(tick, |publisher, id, team| {
            let session = by_player.get(&PlayerId(id.origin())).map(|at| &sessions[*at as usize]);
            if let Some(Some(session)) = session.filter(|_| id.kind() == avatar)
                && let Some(observer) = publisher.observer_mut(session.observer)
            {
                observer.set_team(team);
            }
        });
    }

    /// Updates the pivots of each player in some rounds.
    pub(crate) fn update_pivots(&mut self, simulation: &mut Simulation<G>, tick: Tick) {
        let (of_region, sessions) = (self.of_region, &mut self.sessions);
        let mut eyes = Vec::new();
        for (at, session) in sessions.iter_mut().enumerate() {
            let Some(session) = session else { continue };
            if !(tick.0.wrapping_add(at as u32)).is_multiple_of(PIVOTS_EVERY) {
                continue;
            }
            let observer = simulation.publisher.observer(session.observer);
            // A pivot may have been removed and created again in another row of the store.
            if of_region && observer.is_some_and(|observer| observer.looks_from().is_empty()) {
                session.eyes.clear();
            }
            set_pivots(simulation, session, &mut eyes);
        }
    }

    pub(crate) fn send_states(
        &mut self,
        simulation: &mut Simulation<G>,
        tick: Tick,
        now: Micros,
        out: &mut impl Outbox,
    ) {
        self.send_reliable_events(out);
        let PlayerSessions { sessions, session_of, frame, quality, shadow, .. } = self;
        let echo_pause = if quality.strain() > 0.0 { STRAINED_ECHO } else { Micros::ZERO };
        simulation.publisher.round(tick, now, |observer, packet| {
            let at = session_of[observer.0 as usize] as usize;
            let Some(Some(session)) = sessions.get_mut(at) else { return };
            let Some(link) = session.link else { return };
            session.write_datagram(RoundTime { tick, now }, echo_pause, packet, frame);
            quality.note_sent(frame.len());
            out.datagram(link, frame);
            if let Some(shadow) = shadow {
                shadow.on_sent(observer, tick, packet);
            }
        });
        self.send_keep_alives(RoundTime { tick, now }, echo_pause, out);
    }

    /// Sends a datagram without states to every player that would hear nothing for too long.
    fn send_keep_alives(&mut self, round: RoundTime, echo_pause: Micros, out: &mut impl Outbox) {
        for session in self.sessions.iter_mut().flatten() {
            if let Some(link) = session.link
                && session.needs_frame(round.now, self.keep_alive)
            {
                session.write_datagram(round, echo_pause, &[], &mut self.frame);
                self.quality.note_sent(self.frame.len());
                out.datagram(link, &self.frame);
            }
        }
    }

    pub(crate) fn evict_timed_out(
        &mut self,
        simulation: &mut Simulation<G>,
        now: Micros,
        out: &mut impl Outbox,
    ) {
        for at in 0..self.sessions.len() {
            let Some(session) = &self.sessions[at] else { continue };
            match session.away(now, &self.settings) {
                None => {}
                Some(Away::Gone) => self.leave(simulation, at as u32),
                Some(Away::Silent) => {
                    let link = session.link;
                    self.leave(simulation, at as u32);
                    link.into_iter().for_each(|link| out.close(link, Refusal::Timeout));
                }
                Some(Away::NoAcks) => {
                    let link = session.link;
                    self.leave(simulation, at as u32);
                    if let Some(link) = link {
                        self.reject(link, Refusal::Timeout, "acknowledgements timed out", out);
                    }
                }
            }
        }
    }

    /// Ends all sessions; the players' objects are returned by [`ServerEvent::Left`].
    pub fn close(&mut self, simulation: &mut Simulation<G>, out: &mut impl Outbox) {
        let links: Vec<Link> =
            self.by_link.keys().chain(self.pending_links.keys()).copied().collect();
        (0..self.sessions.len()).for_each(|at| self.leave(simulation, at as u32));
        for link in links {
            self.reject(link, Refusal::Closing, "the server is shutting down", out);
        }
    }
}

const _: () =
    assert!(SERVER_DATAGRAM_ROOM >= 2 + 3 + 3 + 2 && MAX_PACKET + SERVER_DATAGRAM_ROOM <= 1_240);

/// The oldest tick that a player can have seen by its link: a round trip and [`SEEN_SLACK`] ago.
fn earliest_seen<G: Game>(
    simulation: &Simulation<G>,
    settings: &ServerSettings,
    observer: ObserverId,
) -> Tick {
    let observer = simulation.publisher.observer(observer);
    let round_trip = observer.and_then(|observer| observer.link().rtt()).unwrap_or(Micros::ZERO);
    let length = settings.rounds.length.0.max(1);
    let ticks = (round_trip.0 + SEEN_SLACK.0).div_ceil(length) + SEEN_ROUNDS;
    simulation.publisher.store.tick().minus(ticks as u32)
}

/// Sets a player's pivots. `eyes` is a buffer.
fn set_pivots<G: Game>(
    simulation: &mut Simulation<G>,
    session: &mut PlayerSession<G>,
    eyes: &mut Vec<ObjectId>,
) {
    eyes.clear();
    let world = simulation.world();
    session.watched =
        session.watched.filter(|id| simulation.game.may_watch(&world, session.avatar, *id));
    eyes.extend(session.watched);
    simulation.game.eyes(&world, session.avatar, eyes);
    if *eyes == session.eyes {
        return;
    }
    let slots = eyes.iter().filter_map(|id| simulation.publisher.store.find(*id)).collect();
    session.eyes.clone_from(eyes);
    if let Some(observer) = simulation.publisher.observer_mut(session.observer) {
        observer.set_pivots(Pivots::Objects(slots));
    }
}

/// A budget of this many bytes per round.
fn allowance(budget: Option<Bytes>) -> Budget {
    budget.map_or(Budget::UNLIMITED, |rate| Budget::per_round(rate, BURST))
}

/// The bytes for events beside a packet of this length.
fn room_for_events(packet: usize) -> usize {
    (MAX_PACKET + SERVER_DATAGRAM_ROOM - packet).saturating_sub(2 + 3 + 3 + 2 + 2)
}

impl<G: Game> PlayerSession<G> {
    fn write_datagram(
        &mut self,
        round: RoundTime,
        echo_pause: Micros,
        state: &[u8],
        out: &mut Vec<u8>,
    ) {
        let RoundTime { tick, now } = round;
        out.clear();
        let events = self.events_for(room_for_events(state.len()));
        let frame = ServerDatagram {
            input: self.input_status(),
            echo: self.take_echo(now, echo_pause),
            tick: tick.0 as u16,
            events: &events,
            state,
        };
        frame.write(out);
        self.on_frame_sent(now, events);
    }
}
