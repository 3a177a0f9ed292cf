//! A client: joins, is told, and predicts its own avatar.
//!
//! Without IO, like the server: messages and datagrams come in by calls and leave through an
//! [`Outbox`]. Call [`Client::tick`] once a round with what the player does.
//!
//! **Prediction.** The avatar moves at once: the client runs the game's rule on its own copy, input by
//! input, and remembers what came of each. A frame tells which input the server's state takes into
//! account. If that is what was foreseen, nothing happens; otherwise the copy is put right and the
//! later inputs run again. How far that moved it is the *correction*.

mod links;

pub use links::SILENT_AFTER;

use crate::game::{Effects, Game, Liveness, PlayerId, Scene, StepContext, World};
use crate::node::Pace;
use crate::outbox::{Link, Outbox};
use crate::server::KEEP_ALIVE;
use crate::session::{
    ClientDatagram, ClientMessage, JoinedPlayer, REPEATED, Refusal, ResumeKey, ServerDatagram,
    ServerMessage, VERSIONS, read_message, write_message,
};
use foveate_sync::ReplicaSet;
use foveate_sync::replica::{Change, Life, ReceiveError, ReplicaView};
use foveate_wire::{KindId, Micros, ObjectId, Schema, Tick};
use std::collections::VecDeque;
use std::sync::Arc;

/// Inputs that are remembered until the server has used them: two seconds at 20 Hz.
pub const MAX_FORESEEN: usize = 40;
/// Inputs that wait at the server above which one is left out, so that they are used sooner.
const TOO_EARLY: u8 = 3;
/// Rounds between two inputs left out: the effect must show first.
const PATIENCE: u32 = 20;
/// An avatar that rests elsewhere than was foreseen for so long is put right, although no state says so.
const DOUBT: Micros = Micros(1_000_000);
/// Frames after which the quickest of them counts, if it is a round or more behind what was known: the
/// server stood still, or cannot keep up.
const CLOCK_FRAMES: u32 = 40;
/// Changes and events that are kept for the game; beyond, the oldest are dropped.
const MAX_NEWS: usize = 4_096;
/// Datagrams that are kept until the welcome arrives, which may have to be sent again: two seconds' worth at 20 Hz,
/// and the several packets of a full state. Beyond, the newest are dropped.
pub const MAX_EARLY: usize = 64;

/// How far a client has come.
#[derive(Clone, PartialEq, Debug)]
pub enum ClientPhase {
    /// No answer yet.
    Joining,
    /// In.
    Playing(JoinedPlayer),
    /// Turned away: why, and in words.
    Refused(Refusal, String),
}

/// Something that the game may care for.
#[derive(Clone, PartialEq, Debug)]
pub enum News<E> {
    /// Something happened to a replica.
    Change(Change),
    /// Something is to be seen or heard.
    Event(E),
    /// What a player is called, as was asked by [`Client::who`]; empty if they are not here.
    Named(PlayerId, String),
}

/// An input, and what the rule made of the avatar with it.
struct Foreseen<I> {
    seq: u16,
    input: I,
    lanes: Vec<i32>,
}

/// What a client counts.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ClientCounts {
    /// States of the own avatar that were as foreseen.
    pub foreseen: u64,
    /// And those that were not.
    pub corrected: u64,
    /// Datagrams that could not be read.
    pub malformed: u64,
    /// Ticks left out to keep step with the server.
    pub adjusted: u64,
}

/// One player's view of a server's world.
pub struct Client<G: Game> {
    game: Arc<G>,
    name: String,
    token: Vec<u8>,
    link: Option<Link>,
    phase: ClientPhase,
    resume: Option<ResumeKey>,
    /// Datagrams of this link that overtook its welcome, and when each came.
    early: Vec<(Micros, Vec<u8>)>,
    servers: links::Servers,
    round: Micros,
    pace: Pace,
    /// What the player does in rounds that [`Client::wake`] plays.
    input: G::Input,
    /// The replicas.
    pub replicas: ReplicaSet,
    /// The server's tick by our clock, in microseconds, as the quickest frames tell it.
    lead: Option<i64>,
    /// The same of the newest frames alone, and how many they are.
    recent: (i64, u32),
    rtt: Option<Micros>,
    /// When a frame came last,
    heard: Option<Micros>,
    /// and whether that was long ago in the last round, for a host that is one of many.
    unheard: bool,
    next_input: u16,
    foreseen: VecDeque<Foreseen<G::Input>>,
    /// The avatar as the rule left it after the newest input.
    own: Vec<i32>,
    /// How far the last correction moved the avatar, in world units.
    correction: Option<f32>,
    /// Since when the avatar rests elsewhere than was foreseen.
    doubted: Option<Micros>,
    /// How many inputs waited at the server, and since when that is so.
    waiting: u8,
    adjusted_at: u32,
    ticks: u32,
    /// The avatar before the input at hand.
    before: Vec<i32>,
    effects: Effects<G>,
    news: VecDeque<News<G::Event>>,
    counts: ClientCounts,
    bytes: Vec<u8>,
}

impl<G: Game> Client<G> {
    /// A client who wants to join.
    pub fn new(game: Arc<G>, name: &str, token: &[u8]) -> Client<G> {
        let schema = Arc::clone(game.schema());
        Client {
            game,
            name: name.into(),
            token: token.into(),
            link: None,
            phase: ClientPhase::Joining,
            resume: None,
            early: Vec::new(),
            servers: links::Servers::default(),
            round: Micros::from_millis(50),
            pace: Pace::from(Micros::ZERO),
            input: G::Input::default(),
            replicas: ReplicaSet::new(Arc::clone(&schema), Tick(0)),
            lead: None,
            recent: (i64::MIN, 0),
            rtt: None,
            heard: None,
            unheard: true,
            next_input: 0,
            foreseen: VecDeque::with_capacity(MAX_FORESEEN + 1),
            own: Vec::new(),
            correction: None,
            doubted: None,
            waiting: 0,
            adjusted_at: 0,
            ticks: 0,
            before: Vec::new(),
            effects: Effects::default(),
            news: VecDeque::new(),
            counts: ClientCounts::default(),
            bytes: Vec::new(),
        }
    }

    /// Another connect token, for the next link: a server takes each only once.
    pub fn set_token(&mut self, token: &[u8]) {
        self.token = token.into();
    }

    /// A link to the server was made: the first, a new one after a break, or the one that
    /// [`Client::take_dial`] asked for. One that is not needed any more is closed with the next round.
    pub fn connected(&mut self, link: Link, out: &mut impl Outbox) {
        if !self.connected_ahead(link, out) && !self.has_host(link) {
            self.link = Some(link);
            self.early.clear();
            self.say_hello(link, out);
        }
    }

    fn say_hello(&self, link: Link, out: &mut impl Outbox) {
        let hello = ClientMessage::<G::Action>::Hello {
            versions: VERSIONS.to_vec(),
            schema: self.game.schema().hash(),
            name: self.name.clone(),
            token: self.token.clone(),
            resume: self.resume,
        };
        out.message(link, &write_message(&hello));
    }

    /// The link ended. With a new one the session goes on, if that is soon.
    pub fn closed(&mut self) {
        self.link = None;
        self.early.clear();
        if matches!(self.phase, ClientPhase::Playing(_)) {
            self.phase = ClientPhase::Joining;
        }
    }

    /// How far it has come.
    pub fn phase(&self) -> &ClientPhase {
        &self.phase
    }

    /// Who one is, once in.
    pub fn joined(&self) -> Option<JoinedPlayer> {
        match self.phase {
            ClientPhase::Playing(joined) => Some(joined),
            _ => None,
        }
    }

    /// A message arrived.
    pub fn message(&mut self, bytes: &[u8]) {
        match read_message::<ServerMessage>(bytes) {
            Some(ServerMessage::Welcome {
                player, avatar, tick, round, resume, resumed, ..
            }) => {
                if !resumed {
                    let schema = Arc::clone(self.game.schema());
                    self.replicas = ReplicaSet::new(schema, Tick(tick));
                }
                // What was foreseen of inputs that never arrived will not come to pass.
                self.own.clear();
                (self.next_input, self.lead, self.recent) = (0, None, (i64::MIN, 0));
                self.foreseen.clear();
                self.round = Micros(round.max(1));
                self.resume = Some(resume);
                let (player, avatar) = (PlayerId(player), ObjectId(avatar));
                let joined = JoinedPlayer { player, avatar };
                self.phase = ClientPhase::Playing(joined);
                self.note_joined(joined, resumed);
                for (at, bytes) in std::mem::take(&mut self.early) {
                    self.datagram(&bytes, at);
                }
            }
            Some(ServerMessage::Refused { why, text, schema }) => {
                let differs = self.game.schema().check_description(&schema).err();
                let text = match (why, differs) {
                    (Refusal::Schema, Some(differs)) => differs.to_string(),
                    _ => text,
                };
                // Whatever was kept for us is not kept any more.
                self.resume = None;
                self.phase = ClientPhase::Refused(why, text);
            }
            Some(ServerMessage::Is { player, name }) => {
                remember(&mut self.news, News::Named(PlayerId(player), name));
            }
            Some(ServerMessage::Events(events)) => self.read_events(&events),
            Some(other) => self.on_servers(other),
            None => self.counts.malformed += 1,
        }
    }

    /// A datagram arrived. One that overtook the welcome waits for it: the server would take it for lost only after
    /// a timeout, and send the first states again.
    pub fn datagram(&mut self, bytes: &[u8], now: Micros) {
        let Some(joined) = self.joined() else {
            let waits = self.link.is_some() && self.phase == ClientPhase::Joining;
            if waits && self.early.len() < MAX_EARLY {
                self.early.push((now, bytes.to_vec()));
            }
            return;
        };
        let Some(frame) = ServerDatagram::read(bytes) else {
            self.counts.malformed += 1;
            return;
        };
        self.heard = Some(now);
        let mut own = false;
        if !frame.state.is_empty() {
            let Client { replicas, news, .. } = self;
            let heard = replicas.receive(frame.state, |change| {
                own |= matches!(change, Change::Updated(id) | Change::Appeared(id) if id == joined.avatar);
                remember(news, News::Change(change));
            });
            match heard {
                Ok(tick) => self.learn_clock(tick, now),
                Err(ReceiveError::Packet(_)) => self.counts.malformed += 1,
                Err(ReceiveError::Duplicate(_) | ReceiveError::TooOld(_)) => {}
            }
        }
        self.learn_rtt(frame.echo, now);
        self.read_events(frame.events);
        match frame.input {
            Some((seq, waiting)) => {
                self.waiting = waiting;
                if own || self.is_doubtful(joined.avatar, seq, now) {
                    self.doubted = None;
                    self.reconcile(joined.avatar, seq);
                }
            }
            // A state before any input of ours was used: all of them are still to come.
            None if own && !self.own.is_empty() => {
                let first = self.foreseen.front().map_or(self.next_input, |known| known.seq);
                self.reconcile(joined.avatar, first.wrapping_sub(1));
            }
            None => {}
        }
    }

    /// The server's clock runs ahead of ours by as much as its quickest frames say.
    fn learn_clock(&mut self, tick: Tick, now: Micros) {
        let lead = (u64::from(tick.0) * self.round.0) as i64 - now.0 as i64;
        // The largest is the one that was under way for the shortest time; it fades, for clocks drift.
        let mut known = self.lead.map_or(lead, |known| lead.max(known - 20));
        let (best, frames) = (self.recent.0.max(lead), self.recent.1 + 1);
        self.recent = (best, frames);
        if frames >= CLOCK_FRAMES {
            self.recent = (i64::MIN, 0);
            if known - best >= self.round.0 as i64 {
                known = best;
            }
        }
        self.lead = Some(known);
    }

    fn learn_rtt(&mut self, echo: Option<(u16, u8)>, now: Micros) {
        let Some((clock, held)) = echo else { return };
        let passed = ((now.0 / 1_000) as u16).wrapping_sub(clock);
        let sample = Micros::from_millis(u64::from(passed.saturating_sub(u16::from(held))));
        self.rtt = Some(self.rtt.map_or(sample, |rtt| Micros((7 * rtt.0 + sample.0) / 8)));
    }

    fn read_events(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let Ok((event, rest)) = postcard::take_from_bytes::<G::Event>(bytes) else {
                self.counts.malformed += 1;
                return;
            };
            remember(&mut self.news, News::Event(event));
            bytes = rest;
        }
    }

    /// The tick that the newest state on its way to us is of, as far as we can tell.
    pub fn tick_now(&self, now: Micros) -> Tick {
        let Some(lead) = self.lead else { return self.replicas.newest() };
        Tick(((now.0 as i64 + lead).max(0) as u64 / self.round.0) as u32)
    }

    /// The time at the server as its newest frames tell it, for [`Smoother`](foveate_sync::replica::Smoother);
    /// and the length of a round.
    pub fn time_now(&self, now: Micros) -> (Micros, Micros) {
        let newest = u64::from(self.replicas.newest().0) * self.round.0;
        let time = self.lead.map_or(newest, |lead| (now.0 as i64 + lead).max(0) as u64);
        (Micros(time), self.round)
    }

    /// Whether nothing has come from the server for so long that its replicas may be out of date: a server says
    /// something once in [`KEEP_ALIVE`].
    pub fn is_silent(&self, now: Micros) -> bool {
        self.heard.is_some_and(|heard| now.0.saturating_sub(heard.0) > 2 * KEEP_ALIVE.0)
    }

    /// The round-trip time, as the server's echoes tell it.
    pub fn rtt(&self) -> Option<Micros> {
        self.rtt
    }

    /// What was counted.
    pub fn counts(&self) -> ClientCounts {
        self.counts
    }

    /// How far the last correction moved the avatar, once.
    pub fn take_correction(&mut self) -> Option<f32> {
        self.correction.take()
    }

    /// What happened, oldest first.
    pub fn poll(&mut self) -> Option<News<G::Event>> {
        self.news.pop_front()
    }

    /// The own avatar's state, predicted to the newest input; empty before the first.
    pub fn own(&self) -> &[i32] {
        &self.own
    }

    /// Lets somebody see the world as it can be seen: replicas predicted to now, the own avatar as it
    /// was steered.
    pub fn see<R>(&self, now: Micros, look: impl FnOnce(&World<'_>) -> R) -> R {
        let (own, tick) =
            (self.joined().map_or(ObjectId(0), |joined| joined.avatar), self.tick_now(now));
        let silent = self.is_silent(now);
        let ghosts =
            PredictedWorld { replicas: &self.replicas, own: (own, &self.own), tick, silent };
        look(&World::new(&ghosts, tick))
    }

    /// One round: the replicas are brought to now, the avatar does what the player does, and the
    /// server is told. `decide` sees the world and gives the input.
    pub fn tick(
        &mut self,
        now: Micros,
        out: &mut impl Outbox,
        decide: impl FnOnce(&World<'_>, ObjectId) -> G::Input,
    ) {
        self.mind_links(now, out);
        let (Some(joined), Some(link)) = (self.joined(), self.link) else { return };
        self.ticks = self.ticks.wrapping_add(1);
        let tick = self.tick_now(now);
        if self.own.is_empty()
            && let Some(own) = self.replicas.get(joined.avatar)
        {
            self.own.extend_from_slice(own.lanes());
        }
        if self.in_step() && !self.own.is_empty() {
            let input = self.see(now, |world| decide(world, joined.avatar));
            self.foresee(joined.avatar, input, tick);
        }
        self.send(link, now, out);
    }

    /// What the player does from now on, in every round that a driver or a simulator wakes the client for.
    pub fn set_input(&mut self, input: G::Input) {
        self.input = input;
    }

    /// Plays the round that is due by the host's clock, if one is.
    pub(crate) fn wake(&mut self, now: Micros, out: &mut impl Outbox) {
        if self.pace.is_due(now, self.round) {
            let input = self.input;
            self.tick(now, out, |_, _| input);
        }
    }

    pub(crate) fn next_round(&self) -> Micros {
        self.pace.next()
    }

    /// Whether this round gives an input: now and then none, to keep the server's queue short.
    fn in_step(&mut self) -> bool {
        if self.ticks.wrapping_sub(self.adjusted_at) < PATIENCE || self.waiting <= TOO_EARLY {
            return true;
        }
        self.adjusted_at = self.ticks;
        self.counts.adjusted += 1;
        false
    }

    fn foresee(&mut self, avatar: ObjectId, input: G::Input, tick: Tick) {
        self.run(avatar, input, tick);
        let seq = self.next_input;
        self.next_input = seq.wrapping_add(1);
        let spare =
            if self.foreseen.len() >= MAX_FORESEEN { self.foreseen.pop_front() } else { None };
        let mut lanes = spare.map_or_else(Vec::new, |old| old.lanes);
        lanes.clear();
        lanes.extend_from_slice(&self.own);
        self.foreseen.push_back(Foreseen { seq, input, lanes });
    }

    /// Runs the rule on our copy of the avatar; what else it brings about is the server's matter.
    fn run(&mut self, avatar: ObjectId, input: G::Input, tick: Tick) {
        let Client { game, own, before, replicas, effects, .. } = self;
        let schema = Arc::clone(game.schema());
        let Some(kind) = schema.kind(avatar.kind()) else { return };
        if own.len() != kind.lane_count() {
            return;
        }
        before.clone_from(own);
        // Whether the server is silent makes no difference to rules: they are shown what lingers.
        let ghosts = PredictedWorld { replicas, own: (avatar, before), tick, silent: false };
        let world = World::new(&ghosts, tick);
        game.step(&mut StepContext::new(avatar, kind, own, world, effects), &[input]);
        effects.clear();
    }

    /// The server's state after input `seq` has come.
    fn reconcile(&mut self, avatar: ObjectId, seq: u16) {
        while self.foreseen.front().is_some_and(|known| (known.seq.wrapping_sub(seq) as i16) < 0) {
            self.foreseen.pop_front();
        }
        let Some(truth) = self.replicas.get(avatar) else { return };
        let known = self.foreseen.front().filter(|known| known.seq == seq);
        if known.is_some_and(|known| known.lanes == truth.lanes()) {
            self.counts.foreseen += 1;
            return;
        }
        let (before, tick) = (self.own.clone(), self.replicas.newest());
        self.own.clear();
        self.own.extend_from_slice(truth.lanes());
        if known.is_some() {
            self.foreseen.pop_front();
        }
        let mut later = std::mem::take(&mut self.foreseen);
        for known in &mut later {
            self.run(avatar, known.input, tick);
            known.lanes.clear();
            known.lanes.extend_from_slice(&self.own);
        }
        self.foreseen = later;
        self.counts.corrected += 1;
        if before.len() == self.own.len() {
            self.correction = distance(self.game.schema(), avatar.kind(), &before, &self.own);
        }
    }

    /// Whether the avatar has rested elsewhere for long than was foreseen of input `seq`. States that did not
    /// change are not sent: who stops after inputs that never arrived would not be put right.
    fn is_doubtful(&mut self, avatar: ObjectId, seq: u16, now: Micros) -> bool {
        let known = self.foreseen.iter().find(|known| known.seq == seq);
        let place = self.game.schema().kind(avatar.kind()).and_then(|kind| kind.place);
        let differs = match (known, place, self.replicas.get(avatar)) {
            (Some(known), Some(place), Some(truth)) => {
                let there = place.coordinates(truth.lanes());
                let apart =
                    distance(self.game.schema(), avatar.kind(), &known.lanes, truth.lanes());
                // Up to two steps are nothing to be told of.
                truth.predicted_steps(self.replicas.newest(), &place) == there
                    && apart.is_some_and(|apart| apart > 2.0 * place.precision)
            }
            _ => false,
        };
        self.doubted = differs.then(|| self.doubted.unwrap_or(now));
        self.doubted.is_some_and(|since| now - since >= DOUBT)
    }

    fn send(&mut self, link: Link, now: Micros, out: &mut impl Outbox) {
        let newest = self.foreseen.iter().rev().take(REPEATED).rev();
        let mut incoming = ClientDatagram {
            ack: self.replicas.ack(),
            clock: (now.0 / 1_000) as u16,
            first: 0,
            inputs: Vec::with_capacity(REPEATED),
        };
        for known in newest {
            // Only those in a row can be named by the first one's number.
            if incoming.inputs.is_empty() {
                incoming.first = known.seq;
            }
            incoming.inputs.push(known.input);
        }
        self.bytes.clear();
        incoming.write(&mut self.bytes);
        out.datagram(link, &self.bytes);
        if let Some(also) = self.servers.also() {
            out.datagram(also, &self.bytes);
        }
    }

    /// Asks something of an object.
    pub fn ask(&self, object: ObjectId, action: G::Action, now: Micros, out: &mut impl Outbox) {
        let Some(link) = self.let_in() else { return };
        let ask = ClientMessage::Ask { object: object.0, action, seen: self.tick_now(now).0 };
        out.message(link, &write_message(&ask));
    }

    /// Asks for another view; it counts at once.
    pub fn set_view(&self, which: u8, out: &mut impl Outbox) {
        let Some(link) = self.let_in() else { return };
        out.message(link, &write_message(&ClientMessage::<G::Action>::View(which)));
    }

    /// Looks from another object, too, if the game allows it; with none, only from one's own again.
    pub fn watch(&self, object: Option<ObjectId>, out: &mut impl Outbox) {
        let Some(link) = self.let_in() else { return };
        let object = object.map(|object| object.0);
        out.message(link, &write_message(&ClientMessage::<G::Action>::Watch(object)));
    }

    /// Asks for a player's name; [`News::Named`] answers.
    pub fn who(&self, player: PlayerId, out: &mut impl Outbox) {
        let Some(link) = self.let_in() else { return };
        out.message(link, &write_message(&ClientMessage::<G::Action>::Who(player.0)));
    }

    /// The link, once the server has let us in: before that it takes anything but a hello for an offence.
    fn let_in(&self) -> Option<Link> {
        self.link.filter(|_| self.joined().is_some())
    }

    /// Leaves for good. Nothing more is said on the link: a server takes it for an offence.
    pub fn leave(&mut self, out: &mut impl Outbox) {
        if let Some(link) = self.let_in() {
            out.message(link, &write_message(&ClientMessage::<G::Action>::Leave));
        }
        self.closed();
        self.resume = None;
        self.forget_servers(out);
    }
}

fn remember<E>(news: &mut VecDeque<News<E>>, new: News<E>) {
    if news.len() >= MAX_NEWS {
        news.pop_front();
    }
    news.push_back(new);
}

/// How far apart two states of a kind are.
fn distance(schema: &Schema, kind: KindId, a: &[i32], b: &[i32]) -> Option<f32> {
    let place = schema.kind(kind)?.place?;
    let (a, b) = (place.coordinates(a), place.coordinates(b));
    let square: f32 = (0..3).map(|k| (a[k].wrapping_sub(b[k]) as f32).powi(2)).sum();
    Some(square.sqrt() * place.precision)
}

/// Replicas as rules see them, predicted to a tick, and the own avatar as it was steered. Nothing is
/// worked out before somebody asks for it.
struct PredictedWorld<'a> {
    replicas: &'a ReplicaSet,
    own: (ObjectId, &'a [i32]),
    tick: Tick,
    /// The server has not been heard for a while.
    silent: bool,
}

impl PredictedWorld<'_> {
    fn place(&self, view: &ReplicaView<'_>) -> Option<[f32; 3]> {
        if view.id() != self.own.0 || self.own.1.is_empty() {
            return view.predicted(self.tick);
        }
        let place = self.schema().kind(view.kind())?.place?;
        Some(place.coordinates(self.own.1).map(|steps| steps as f32 * place.precision))
    }
}

impl Scene for PredictedWorld<'_> {
    fn schema(&self) -> &Schema {
        self.replicas.schema()
    }

    /// A client does not rewind: what it sees is what it saw.
    fn read(&self, id: ObjectId, _: Option<Tick>, lanes: &mut [i32]) -> bool {
        if id == self.own.0 && self.own.1.len() == lanes.len() {
            lanes.copy_from_slice(self.own.1);
            return true;
        }
        let Some(view) = self.replicas.get(id) else { return false };
        lanes.copy_from_slice(view.lanes());
        let kind = self.schema().kind(view.kind());
        if let Some(place) = kind.and_then(|kind| kind.place).filter(|place| place.motion) {
            let there = view.predicted_steps(self.tick, &place);
            lanes[place.at..place.at + place.dims].copy_from_slice(&there[..place.dims]);
        }
        true
    }

    fn near(&self, at: [f32; 3], radius: f32, found: &mut Vec<ObjectId>) {
        let near = |view: &ReplicaView<'_>| {
            self.place(view).is_some_and(|there| {
                let square: f32 = (0..3).map(|k| (there[k] - at[k]).powi(2)).sum();
                square <= radius * radius
            })
        };
        let before = found.len();
        found.extend(self.replicas.in_any_order().filter(near).map(|view| view.id()));
        found[before..].sort_unstable();
    }

    fn of_kind(&self, kind: KindId, found: &mut Vec<ObjectId>) {
        found.extend(self.replicas.of_kind(kind));
    }

    fn liveness(&self, id: ObjectId) -> Liveness {
        match self.replicas.get(id).map(|view| view.life()) {
            _ if id == self.own.0 => Liveness::Live,
            Some(Life::Frozen | Life::Gone) => Liveness::Frozen,
            _ if self.silent => Liveness::Lingering,
            _ => Liveness::Live,
        }
    }
}
