//! A dedicated server: who is in, what they do, what they are told.
//!
//! Without IO: links, messages and datagrams come in by calls, and leave through an [`Outbox`].
//! One call of [`Server::tick`] a round does everything else, in order: inputs, rules, events,
//! states. Whoever hosts it asks [`Server::poll`] what it has to do beside: look a player up,
//! keep what a leaving one had.
//!
//! ```text
//! connected ─ Hello ─▶ Asked ─ admit ─▶ seated ◀─ resume ─ away ─ too long ─▶ left
//!                 └─ refused            └────── link lost ──────┘
//! ```

mod compare;
mod events;
mod oversee;
mod quality;
mod seat;
mod window;

pub use compare::BroadcastComparison;
pub use events::EventCounts;
pub use oversee::Present;
pub use quality::Resources;
pub use seat::Away;

use crate::game::{By, Game, PlayerId, Spot};
use crate::node::Pace;
use crate::outbox::{Link, Outbox};
use crate::session::{
    ClientMessage, FRAME_ROOM, Frame, MAX_NAME, Refusal, ResumeKey, ServerMessage, Upward,
    VERSIONS, read_message, write_message,
};
use crate::stage::{Interacted, Stage};
use foveate_sync::interest::{Policy, View};
use foveate_sync::{Budget, Observer, Pivots, Rounds, StoreError};
use foveate_wire::packet::MAX_PACKET;
use foveate_wire::{Bytes, Micros, ObjectId, Tick};
use quality::Quality;
use seat::Seat;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What a server may be told.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// Rounds, and how long replicas linger.
    pub rounds: Rounds,
    /// Players at once.
    pub max_players: usize,
    /// Bytes to each player in a round; what is not used is kept for [`BURST`] rounds.
    pub budget: Option<Bytes>,
    /// How long a player whose link broke stays in the world and may come back.
    pub resume_for: Micros,
    /// How long somebody who sends nothing is believed to be there.
    pub timeout: Micros,
    /// What all players together may use; grades give way when it is short.
    pub resources: Resources,
}

/// Rounds for which unused budget is kept.
pub const BURST: u32 = 8;
/// A player who acknowledges nothing for so long is deaf.
pub const DEAF_AFTER: Micros = Micros(10_000_000);
/// A player hears something at least this often.
pub const KEEP_ALIVE: Micros = Micros(1_000_000);
/// Under strain clocks are echoed this often at most: clients average their round trips over more than that.
const STRAINED_ECHO: Micros = Micros(200_000);
/// Links that have not said who they are.
pub const MAX_STRANGERS: usize = 4_096;
/// Rounds between two looks at what a player looks from.
const LOOK_ABOUT: u32 = 8;

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            rounds: Rounds::every(Micros::from_millis(50)),
            max_players: 1_024,
            budget: Some(Bytes(3_200)),
            resume_for: Micros(10_000_000),
            timeout: Micros(10_000_000),
            resources: Resources::default(),
        }
    }
}

/// A link without a seat.
#[derive(Default)]
struct Stranger {
    /// Who has said hello, and is asked about at the door.
    name: Option<String>,
    /// The newest version that both speak.
    version: u8,
    /// For how many rounds nobody has.
    rounds: u32,
}

/// What the host has to do, or may want to know.
#[derive(Clone, PartialEq, Debug)]
pub enum ServerEvent {
    /// Somebody wants in, whose version, schema and name are in order. Answer by
    /// [`Server::admit`] or [`Server::refuse`].
    Asked {
        /// Where they are.
        link: Link,
        /// Who they say they are.
        name: String,
        /// What they brought to prove it.
        token: Vec<u8>,
    },
    /// A player is in, anew or again.
    Joined(PlayerId, String),
    /// A player's link broke; they may be back.
    Broken(PlayerId),
    /// A player is gone; these were theirs and are to be kept.
    Left(PlayerId, Vec<(ObjectId, Vec<i32>)>),
    /// Somebody was turned away.
    Refused(Refusal),
}

/// What was turned down, by reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Refused {
    /// Whole sessions.
    pub sessions: BTreeMap<Refusal, u64>,
    /// Datagrams that could not be read.
    pub malformed: u64,
    /// Inputs that no player could give.
    pub impossible: u64,
    /// Inputs beyond what a player can do in the time.
    pub hasty: u64,
    /// Actions, views and questions beyond what a player may ask for in a tick, or of a view that does not exist.
    pub excess: u64,
}

/// Draws the keys by which players come back: each of 128 bits that tell nothing of the others. Chance is
/// the host's matter.
pub type Keys = Box<dyn FnMut() -> ResumeKey + Send + Sync>;

/// A server of one world.
pub struct Server<G: Game> {
    /// The world.
    pub stage: Stage<G>,
    settings: Settings,
    quality: Quality,
    /// Who has not said who they are, or waits for an answer.
    strangers: BTreeMap<Link, Stranger>,
    by_link: BTreeMap<Link, u32>,
    by_player: BTreeMap<PlayerId, u32>,
    by_name: BTreeMap<String, u32>,
    seats: Vec<Option<Seat<G>>>,
    /// The seat of each observer.
    seat_of: Vec<u32>,
    events: VecDeque<ServerEvent>,
    refused: Refused,
    /// A view in force for everybody who has no other imposed on them.
    imposed: Option<View>,
    /// What a configuration puts in the place of the game's view 0.
    first_view: Option<View>,
    /// What views in force were made into: everybody with the same view shares one, which is then in
    /// the cache when the next observer's turn comes.
    policies: VecDeque<(View, Arc<dyn Policy>)>,
    /// Measures what broadcasting would take, while somebody asks for it.
    shadow: Option<Box<compare::Shadow>>,
    keys: Keys,
    pace: Pace,
    upward: Upward<G::Input>,
    happened: Vec<(Spot, G::Event)>,
    event_counts: EventCounts,
    frame: Vec<u8>,
}

impl<G: Game> Server<G> {
    /// An empty world; call [`Stage::populate`] or restore what was kept.
    pub fn new(game: Arc<G>, settings: Settings, keys: Keys) -> Server<G> {
        Server {
            stage: Stage::new(game, settings.rounds),
            settings,
            quality: Quality::new(settings.resources),
            strangers: BTreeMap::new(),
            by_link: BTreeMap::new(),
            by_player: BTreeMap::new(),
            by_name: BTreeMap::new(),
            seats: Vec::new(),
            seat_of: Vec::new(),
            events: VecDeque::new(),
            refused: Refused::default(),
            imposed: None,
            first_view: None,
            policies: VecDeque::new(),
            shadow: None,
            keys,
            pace: Pace::from(settings.rounds.length),
            upward: Upward::default(),
            happened: Vec::new(),
            event_counts: EventCounts::default(),
            frame: Vec::new(),
        }
    }

    /// The next thing for the host, if any.
    pub fn poll(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    /// Players who are in, with or without a link.
    pub fn players(&self) -> usize {
        self.by_player.len()
    }

    /// What was turned down.
    pub fn refusals(&self) -> &Refused {
        &self.refused
    }

    /// A link was made.
    pub fn connected(&mut self, link: Link, out: &mut impl Outbox) {
        if self.strangers.len() >= MAX_STRANGERS {
            return self.turn_away(link, Refusal::Full, "too many are at the door", out);
        }
        self.strangers.insert(link, Stranger::default());
    }

    /// A link ended.
    pub fn closed(&mut self, link: Link, now: Micros) {
        self.strangers.remove(&link);
        if let Some(at) = self.by_link.remove(&link)
            && let Some(seat) = &mut self.seats[at as usize]
        {
            seat.leave_link(now);
            self.events.push_back(ServerEvent::Broken(seat.player));
        }
    }

    /// A message arrived.
    pub fn message(&mut self, link: Link, bytes: &[u8], now: Micros, out: &mut impl Outbox) {
        let Some(message) = read_message::<ClientMessage<G::Action>>(bytes) else {
            self.closed(link, now);
            return self.turn_away(link, Refusal::Malformed, "a message cannot be read", out);
        };
        match (message, self.by_link.get(&link).copied()) {
            // Once a link: the door is asked about one name, and lets that one in.
            (ClientMessage::Hello { versions, schema, name, token, resume }, None)
                if self.strangers.get(&link).is_some_and(|it| it.name.is_none()) =>
            {
                let spoken = VERSIONS.iter().rev().find(|it| versions.contains(it));
                let version = spoken.copied().unwrap_or_default();
                if let Some(resume) = resume
                    && self.resume(link, &name, (resume, version), now, out)
                {
                    return;
                }
                match self.check(&versions, schema, &name) {
                    Ok(()) => {
                        self.strangers.insert(
                            link,
                            Stranger { name: Some(name.clone()), version, rounds: 0 },
                        );
                        self.events.push_back(ServerEvent::Asked { link, name, token });
                    }
                    Err((why, text)) => self.turn_away(link, why, &text, out),
                }
            }
            (ClientMessage::View(which), Some(at)) => self.set_view(at, which),
            (ClientMessage::Ask { object, action, seen }, Some(at)) => {
                let Some(seat) = &mut self.seats[at as usize] else { return };
                let by = By::Player(seat.player, Tick(seen));
                let taken = seat.may_ask() && self.stage.ask(ObjectId(object), action, by);
                self.refused.excess += u64::from(!taken);
            }
            (ClientMessage::Leave, Some(at)) => {
                self.leave(at);
                self.strangers.insert(link, Stranger::default());
            }
            (ClientMessage::Watch(object), Some(at)) => self.watch(at, object.map(ObjectId)),
            (ClientMessage::Who(player), Some(at)) => self.tell_name(at, PlayerId(player), out),
            _ => {
                self.closed(link, now);
                self.turn_away(link, Refusal::Malformed, "a message out of turn", out);
            }
        }
    }

    /// A datagram arrived.
    pub fn datagram(&mut self, link: Link, bytes: &[u8], now: Micros) {
        let Some(at) = self.by_link.get(&link) else { return };
        let Some(seat) = &mut self.seats[*at as usize] else { return };
        if !self.upward.read(bytes) {
            self.refused.malformed += 1;
            return;
        }
        seat.heard = now;
        seat.echo = Some((self.upward.clock, now));
        if let Some(ack) = self.upward.ack {
            seat.acked = now;
            self.stage.publisher.on_ack(seat.observer, &ack, now);
            if let Some(shadow) = &mut self.shadow {
                let observer = self.stage.publisher.observer(seat.observer);
                let round_trip = observer.and_then(|observer| observer.link().rtt());
                shadow.on_ack(seat.observer, &ack, now, round_trip);
            }
        }
        for (nth, input) in self.upward.inputs.iter().enumerate() {
            if !self.stage.game.allows(input) {
                self.refused.impossible += 1;
                continue;
            }
            let seq = self.upward.first.wrapping_add(nth as u16);
            self.refused.hasty += u64::from(!seat.take_input(seq, *input));
        }
    }

    fn check(&self, versions: &[u8], schema: u64, name: &str) -> Result<(), (Refusal, String)> {
        if !VERSIONS.iter().any(|version| versions.contains(version)) {
            let text = format!("you speak wire versions {versions:?}, this server {VERSIONS:?}");
            return Err((Refusal::Version, text));
        }
        self.stage
            .game
            .schema()
            .check_hash(schema)
            .map_err(|error| (Refusal::Schema, error.to_string()))?;
        if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
            return Err((Refusal::Name, format!("a name has 1 to {MAX_NAME} printable bytes")));
        }
        let mut waiting = self.strangers.values().filter_map(|it| it.name.as_deref());
        if self.by_name.contains_key(name) || waiting.any(|other| other == name) {
            return Err((Refusal::NameTaken, format!("somebody called {name} is here")));
        }
        let max = self.settings.max_players;
        let waiting = self.strangers.values().filter(|it| it.name.is_some()).count();
        if self.by_player.len() + waiting >= max {
            return Err((Refusal::Full, format!("{max} players are as many as fit")));
        }
        Ok(())
    }

    /// Says no to somebody at the door.
    pub fn refuse(&mut self, link: Link, why: Refusal, out: &mut impl Outbox) {
        let text = match why {
            Refusal::Token => "a token is needed that is good for this name, here",
            Refusal::TokenExpired => "the token's time is over",
            Refusal::TokenReplayed => "the token was used before",
            Refusal::Full => "there is no room at the moment",
            _ => return self.turn_away(link, why, &format!("{why:?}"), out),
        };
        self.turn_away(link, why, text, out);
    }

    fn turn_away(&mut self, link: Link, why: Refusal, text: &str, out: &mut impl Outbox) {
        self.strangers.remove(&link);
        let schema = match why {
            Refusal::Schema => self.stage.game.schema().describe(),
            _ => String::new(),
        };
        let refused = ServerMessage::Refused { why, text: text.into(), schema };
        out.message(link, &write_message(&refused));
        out.close(link, why);
        *self.refused.sessions.entry(why).or_default() += 1;
        self.events.push_back(ServerEvent::Refused(why));
    }

    /// Lets a player in whom [`ServerEvent::Asked`] named, with what they had when they left.
    pub fn admit(
        &mut self,
        link: Link,
        player: PlayerId,
        kept: &[(ObjectId, Vec<i32>)],
        now: Micros,
        out: &mut impl Outbox,
    ) -> Result<(), StoreError> {
        let Some(Stranger { name: Some(name), version, .. }) = self.strangers.remove(&link) else {
            return Ok(());
        };
        for (id, lanes) in kept.iter().filter(|(id, _)| id.origin() == player.0) {
            self.stage.restore(*id, lanes)?;
        }
        if self.stage.avatar(player).is_none() {
            let game = Arc::clone(&self.stage.game);
            let mut spawns = game.welcome(&self.stage.world(), player, &name).into_iter();
            // The avatar's serial is 0, although others were given out if the player was here before.
            if let Some(avatar) = spawns.next() {
                self.stage.restore(ObjectId::new(avatar.kind, player.0, 0), &avatar.lanes)?;
            }
            for spawn in spawns {
                self.stage.spawn(player, &spawn)?;
            }
        }
        let avatar = ObjectId::new(self.stage.game.avatar(), player.0, 0);
        let Some(slot) = self.stage.publisher.store.find(avatar) else {
            return Err(StoreError::UnknownKind("avatar".into()));
        };
        let view = self.imposed.clone().or_else(|| self.chosen_view(0));
        let Some(view) = view.and_then(|view| self.policy(&view).ok()) else {
            return Err(StoreError::UnknownKind("view".into()));
        };
        let budget = self.settings.budget;
        let tick = self.stage.publisher.store.tick();
        let observer =
            Observer::new(view, Pivots::Object(slot), tick).with_budget(allowance(budget));
        let observer = self.stage.publisher.add(observer);
        let key = (self.keys)();
        let mut seat = Seat::new((player, avatar), name, observer, key, now);
        (seat.budget, seat.version) = (budget, version);
        let at = self.seats.iter().position(Option::is_none).unwrap_or_else(|| {
            self.seats.push(None);
            self.seats.len() - 1
        });
        let of = observer.0 as usize;
        self.seat_of.resize(self.seat_of.len().max(of + 1), u32::MAX);
        self.seat_of[of] = at as u32;
        self.by_player.insert(player, at as u32);
        self.by_name.insert(seat.name.clone(), at as u32);
        self.events.push_back(ServerEvent::Joined(player, seat.name.clone()));
        self.seats[at] = Some(seat);
        self.seat_link(at as u32, link, false, now, out);
        Ok(())
    }

    fn resume(
        &mut self,
        link: Link,
        name: &str,
        (key, version): (ResumeKey, u8),
        now: Micros,
        out: &mut impl Outbox,
    ) -> bool {
        let Some(at) = self.by_name.get(name).copied() else { return false };
        let Some(seat) = &mut self.seats[at as usize] else { return false };
        if seat.resume != key || version == 0 {
            return false;
        }
        seat.version = version;
        // The old link may not have been missed yet.
        if let Some(old) = seat.link.take() {
            self.by_link.remove(&old);
            out.close(old, Refusal::NameTaken);
        }
        self.strangers.remove(&link);
        self.events.push_back(ServerEvent::Joined(seat.player, seat.name.clone()));
        self.seat_link(at, link, true, now, out);
        true
    }

    fn seat_link(
        &mut self,
        at: u32,
        link: Link,
        resumed: bool,
        now: Micros,
        out: &mut impl Outbox,
    ) {
        let Some(seat) = &mut self.seats[at as usize] else { return };
        seat.come_back(link, now);
        self.by_link.insert(link, at);
        let welcome = ServerMessage::Welcome {
            version: seat.version,
            player: seat.player.0,
            avatar: seat.avatar.0,
            tick: self.stage.publisher.store.tick().0,
            round: self.settings.rounds.length.0,
            resume: seat.resume,
            resumed,
        };
        out.message(link, &write_message(&welcome));
    }

    fn set_view(&mut self, at: u32, which: u8) {
        // Every pair is looked at anew: nobody may ask for that without end.
        let may = self.seats[at as usize].as_mut().is_some_and(Seat::may_ask);
        let known = may && self.chosen_view(which).is_some_and(|it| self.policy(&it).is_ok());
        match &mut self.seats[at as usize] {
            Some(seat) if known => {
                seat.view = which;
                self.apply_view(at as usize);
            }
            _ => self.refused.excess += 1,
        }
    }

    fn watch(&mut self, at: u32, object: Option<ObjectId>) {
        let Server { stage, seats, refused, .. } = self;
        let Some(seat) = &mut seats[at as usize] else { return };
        let avatar = seat.avatar;
        let refuse = |object| !stage.game.may_watch(&stage.world(), avatar, object);
        if !seat.may_ask() || object.is_some_and(refuse) {
            refused.excess += 1;
            return;
        }
        seat.watched = object;
        look(stage, seat, &mut Vec::new());
    }

    fn tell_name(&mut self, at: u32, player: PlayerId, out: &mut impl Outbox) {
        let named = self.by_player.get(&player).and_then(|at| self.seats[*at as usize].as_ref());
        let name = named.map_or_else(String::new, |seat| seat.name.clone());
        let Some(seat) = &mut self.seats[at as usize] else { return };
        match seat.link.filter(|_| seat.may_ask()) {
            Some(link) => {
                out.message(link, &write_message(&ServerMessage::Is { player: player.0, name }));
            }
            None => self.refused.excess += 1,
        }
    }

    /// A player leaves for good: what is theirs goes with them.
    fn leave(&mut self, at: u32) {
        let Some(seat) = self.seats[at as usize].take() else { return };
        seat.link.and_then(|link| self.by_link.remove(&link));
        self.by_player.remove(&seat.player);
        self.by_name.remove(&seat.name);
        self.stage.publisher.remove(seat.observer);
        self.stage.forget(seat.avatar);
        let store = &mut self.stage.publisher.store;
        let theirs: Vec<_> = store.iter().filter(|(id, _)| id.origin() == seat.player.0).collect();
        let mut kept = Vec::new();
        for (id, slot) in theirs {
            if self.stage.game.keeps(id.kind()) {
                kept.push((id, store.lanes(slot).to_vec()));
            }
            let removed = store.remove(slot);
            debug_assert!(removed.is_ok());
        }
        self.events.push_back(ServerEvent::Left(seat.player, kept));
    }

    /// One round: inputs, rules, events, states; then those who are away too long leave.
    pub fn tick(&mut self, tick: Tick, now: Micros, out: &mut impl Outbox) {
        for seat in self.seats.iter_mut().flatten() {
            while let Some(input) = seat.next_input() {
                self.stage.input(seat.avatar, input);
            }
        }
        let happened = &mut self.happened;
        happened.clear();
        self.stage.step(tick, |spot, event| happened.push((spot, event)));
        self.tell_events();
        self.note_interactions(now);
        self.look_about(tick);
        self.sort_teams(tick);
        self.tell_states(tick, now, out);
        self.compare(tick, now);
        self.show_out(now, out);
        self.lose_patience(out);
    }

    /// Plays the round that is due by the host's clock, if one is.
    pub(crate) fn wake(&mut self, now: Micros, out: &mut impl Outbox) {
        if self.pace.is_due(now, self.settings.rounds.length) {
            self.tick(self.stage.publisher.store.tick().plus(1), now, out);
        }
    }

    pub(crate) fn next_round(&self) -> Micros {
        self.pace.next()
    }

    /// The host says how long a round took, sending and receiving included: if that is more than
    /// [`Settings::resources`] allow, or if more was sent, grades give way from the next round on.
    pub fn end_round(&mut self, took: Micros) {
        let strain = self.quality.end_round(took);
        self.stage.publisher.set_strain(strain);
    }

    /// Other resources from now on.
    pub fn set_resources(&mut self, resources: Resources) {
        self.settings.resources = resources;
        self.quality.set_resources(resources);
    }

    /// How much grades give way: 0 while they are as the views ask for, 16 at most.
    pub fn strain(&self) -> f32 {
        self.quality.strain()
    }

    /// Whoever has a link and does not say who they are would keep others from it for ever.
    fn lose_patience(&mut self, out: &mut impl Outbox) {
        let most = self.settings.rounds.count(self.settings.timeout);
        let mut late = Vec::new();
        for (link, it) in self.strangers.iter_mut().filter(|(_, it)| it.name.is_none()) {
            it.rounds += 1;
            late.extend((it.rounds > most).then_some(*link));
        }
        for link in late {
            self.turn_away(link, Refusal::Deaf, "nobody said hello", out);
        }
    }

    /// Players take an interest in what they acted on and in what acted on them.
    fn note_interactions(&mut self, now: Micros) {
        let Server { stage, seats, by_player, .. } = self;
        for at in 0..stage.interactions().len() {
            let Interacted { by, with, half_life } = stage.interactions()[at];
            for (own, other) in [(by, with), (with, by)] {
                let seat = by_player.get(&PlayerId(own.origin())).map(|at| &seats[*at as usize]);
                if own.origin() != other.origin()
                    && let Some(Some(seat)) = seat
                    && let Some(slot) = stage.publisher.store.find(other)
                    && let Some(observer) = stage.publisher.observer_mut(seat.observer)
                {
                    observer.interacted(slot, now, half_life);
                }
            }
        }
    }

    /// Objects and players take their sides.
    fn sort_teams(&mut self, tick: Tick) {
        let Server { stage, seats, by_player, .. } = self;
        let avatar = stage.game.avatar();
        stage.sort_teams(tick, |publisher, id, team| {
            let seat = by_player.get(&PlayerId(id.origin())).map(|at| &seats[*at as usize]);
            if let Some(Some(seat)) = seat.filter(|_| id.kind() == avatar)
                && let Some(observer) = publisher.observer_mut(seat.observer)
            {
                observer.set_team(team);
            }
        });
    }

    /// Now and then: what each player looks from.
    fn look_about(&mut self, tick: Tick) {
        let Server { stage, seats, .. } = self;
        let mut eyes = Vec::new();
        for (at, seat) in seats.iter_mut().enumerate() {
            let Some(seat) = seat else { continue };
            if !(tick.0.wrapping_add(at as u32)).is_multiple_of(LOOK_ABOUT) {
                continue;
            }
            look(stage, seat, &mut eyes);
        }
    }

    fn tell_states(&mut self, tick: Tick, now: Micros, out: &mut impl Outbox) {
        self.send_reliable_events(out);
        let Server { stage, seats, seat_of, frame, quality, shadow, .. } = self;
        let echo_pause = if quality.strain() > 0.0 { STRAINED_ECHO } else { Micros::ZERO };
        stage.publisher.round(tick, now, |observer, packet| {
            let at = seat_of[observer.0 as usize] as usize;
            let Some(Some(seat)) = seats.get_mut(at) else { return };
            let Some(link) = seat.link else { return };
            seat.write_frame((tick, now), echo_pause, packet, frame);
            quality.note_sent(frame.len());
            out.datagram(link, frame);
            if let Some(shadow) = shadow {
                shadow.on_sent(observer, tick, packet);
            }
        });
        for seat in seats.iter_mut().flatten() {
            if let Some(link) = seat.link
                && seat.has_something_to_say(now)
            {
                seat.write_frame((tick, now), echo_pause, &[], frame);
                quality.note_sent(frame.len());
                out.datagram(link, frame);
            }
        }
    }

    fn show_out(&mut self, now: Micros, out: &mut impl Outbox) {
        for at in 0..self.seats.len() {
            let Some(seat) = &self.seats[at] else { continue };
            match seat.away(now, &self.settings) {
                None => {}
                Some(Away::Gone) => self.leave(at as u32),
                Some(Away::Silent) => {
                    let link = seat.link;
                    self.leave(at as u32);
                    link.into_iter().for_each(|link| out.close(link, Refusal::Deaf));
                }
                Some(Away::Deaf) => {
                    let link = seat.link;
                    self.leave(at as u32);
                    if let Some(link) = link {
                        self.turn_away(link, Refusal::Deaf, "nothing was acknowledged", out);
                    }
                }
            }
        }
    }

    /// Everybody is told that it is over; what was theirs comes as [`ServerEvent::Left`].
    pub fn close(&mut self, out: &mut impl Outbox) {
        let links: Vec<Link> = self.by_link.keys().chain(self.strangers.keys()).copied().collect();
        (0..self.seats.len()).for_each(|at| self.leave(at as u32));
        for link in links {
            self.turn_away(link, Refusal::Closing, "the server is going down", out);
        }
    }
}

const _: () = assert!(FRAME_ROOM >= 2 + 3 + 3 + 2 && MAX_PACKET + FRAME_ROOM <= 1_240);

/// Sees to it that a player looks from where they should. `eyes` is memory to work in.
fn look<G: Game>(stage: &mut Stage<G>, seat: &mut Seat<G>, eyes: &mut Vec<ObjectId>) {
    eyes.clear();
    let world = stage.world();
    seat.watched = seat.watched.filter(|id| stage.game.may_watch(&world, seat.avatar, *id));
    eyes.extend(seat.watched);
    stage.game.eyes(&world, seat.avatar, eyes);
    if *eyes == seat.eyes {
        return;
    }
    let slots = eyes.iter().filter_map(|id| stage.publisher.store.find(*id)).collect();
    seat.eyes.clone_from(eyes);
    if let Some(observer) = stage.publisher.observer_mut(seat.observer) {
        observer.set_pivots(Pivots::Objects(slots));
    }
}

/// A budget of so many bytes a round.
fn allowance(budget: Option<Bytes>) -> Budget {
    budget.map_or(Budget::UNLIMITED, |rate| Budget::per_round(rate, BURST))
}

/// Room for events beside a packet of this length.
fn room_for_events(packet: usize) -> usize {
    (MAX_PACKET + FRAME_ROOM - packet).saturating_sub(2 + 3 + 3 + 2 + 2)
}

impl<G: Game> Seat<G> {
    fn write_frame(
        &mut self,
        (tick, now): (Tick, Micros),
        echo_pause: Micros,
        state: &[u8],
        out: &mut Vec<u8>,
    ) {
        out.clear();
        let events = self.events_for(room_for_events(state.len()));
        let frame = Frame {
            input: self.input_news(),
            echo: self.echo_news(now, echo_pause),
            tick: tick.0 as u16,
            events: &events,
            state,
        };
        frame.write(out);
        self.told(now, events);
    }
}
