//! A client: joins a server, receives state, and predicts its own avatar.
//!
//! Without IO, like the server: messages and datagrams are passed in, and leave through an
//! [`Outbox`]. Call [`Client::tick`] once a round with the player's input.
//!
//! **Prediction.** The avatar moves at once: the client runs the game's rule on its own copy for
//! each input, and remembers the result. Each frame from the server says which input its state
//! includes. If that state equals the prediction, nothing happens; otherwise the copy is corrected
//! and the later inputs run again. The distance that this moves the avatar is the *correction*.

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
use foveate_wire::{KindId, Metres, Micros, ObjectId, Position, Schema, Tick};
use std::collections::VecDeque;
use std::sync::Arc;

/// Inputs that are remembered until the server has used them: two seconds at 20 Hz.
pub const MAX_FORESEEN: usize = 40;
/// If more inputs than this wait at the server, the client skips one, so that they are used sooner.
const MAX_WAITING: u8 = 3;
/// Rounds between two skipped inputs: the effect of the first must show before the second.
const SKIP_PAUSE: u32 = 20;
/// An avatar that rests away from its prediction for this long is corrected, although no new state
/// says so.
const MISPLACED_FOR: Micros = Micros(1_000_000);
/// After this many frames the fastest of them sets the clock, if it is a round or more behind the
/// known one: the server stood still, or cannot keep up.
const CLOCK_FRAMES: u32 = 40;
/// Changes and events kept for the game; beyond this, the oldest are dropped.
const MAX_NEWS: usize = 4_096;
/// Datagrams kept until the welcome arrives, which may have to be sent again: two seconds' worth at
/// 20 Hz, and the packets of a full state. Beyond this, the newest are dropped.
pub const MAX_EARLY: usize = 64;

/// How far joining has got.
#[derive(Clone, PartialEq, Debug)]
pub enum ClientPhase {
    /// No answer yet.
    Joining,
    /// The server accepted the client.
    Playing(JoinedPlayer),
    /// The server rejected the client: the reason, and its text.
    Refused(Refusal, String),
}

/// What [`Client::poll`] reports to the game.
#[derive(Clone, PartialEq, Debug)]
pub enum News<E> {
    /// A replica changed.
    Change(Change),
    /// An event of the game.
    Event(E),
    /// A player's name, as [`Client::who`] asked for it; empty if the player is not connected.
    Named(PlayerId, String),
}

/// An input, and the avatar's state after the rule ran with it.
struct PredictedInput<I> {
    seq: u16,
    input: I,
    lanes: Vec<i32>,
}

/// Counters of a client; they only grow.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ClientCounts {
    /// States of the client's own avatar that equalled the prediction.
    pub foreseen: u64,
    /// States of the client's own avatar that differed from the prediction.
    pub corrected: u64,
    /// Datagrams that could not be read.
    pub malformed: u64,
    /// Ticks skipped to stay in step with the server.
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
    /// Datagrams that arrived on this link before its welcome, with their arrival times.
    early: Vec<(Micros, Vec<u8>)>,
    servers: links::Servers,
    round: Micros,
    pace: Pace,
    /// The player's input in rounds that [`Client::wake`] plays.
    input: G::Input,
    /// The objects that the server sends, as this client knows them.
    pub replicas: ReplicaSet,
    /// The server's tick minus our clock, in microseconds, by the fastest frames.
    lead: Option<i64>,
    /// The same by the newest frames alone, and their number.
    recent: (i64, u32),
    rtt: Option<Micros>,
    /// When the last frame arrived.
    heard: Option<Micros>,
    /// Whether that was long ago in the last round; only hosts that are one of many are given up for it.
    unheard: bool,
    next_input: u16,
    predicted: VecDeque<PredictedInput<G::Input>>,
    /// The avatar's lanes after the rule ran with the newest input.
    own: Vec<i32>,
    /// How far the last correction moved the avatar, in world units.
    correction: Option<f32>,
    /// Since when the avatar has rested away from its prediction.
    misplaced_since: Option<Micros>,
    /// How many inputs waited at the server, by the newest frame.
    waiting: u8,
    /// The round in which an input was last skipped.
    adjusted_at: u32,
    ticks: u32,
    /// The avatar's lanes before the current input.
    before: Vec<i32>,
    effects: Effects<G>,
    news: VecDeque<News<G::Event>>,
    counts: ClientCounts,
    bytes: Vec<u8>,
}

impl<G: Game> Client<G> {
    /// A client that will join under `name`, with a connect token.
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
            predicted: VecDeque::with_capacity(MAX_FORESEEN + 1),
            own: Vec::new(),
            correction: None,
            misplaced_since: None,
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

    /// Sets the connect token for the next link: a server accepts each token only once.
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

    /// The link ended. The session continues on a new link if that comes before the server's
    /// timeout.
    pub fn closed(&mut self) {
        self.link = None;
        self.early.clear();
        if matches!(self.phase, ClientPhase::Playing(_)) {
            self.phase = ClientPhase::Joining;
        }
    }

    pub fn phase(&self) -> &ClientPhase {
        &self.phase
    }

    /// The player and its avatar; `None` unless the server has accepted the client.
    pub fn joined(&self) -> Option<JoinedPlayer> {
        match self.phase {
            ClientPhase::Playing(joined) => Some(joined),
            _ => None,
        }
    }

    pub fn message(&mut self, bytes: &[u8]) {
        match read_message::<ServerMessage>(bytes) {
            Some(ServerMessage::Welcome {
                player, avatar, tick, round, resume, resumed, ..
            }) => {
                if !resumed {
                    let schema = Arc::clone(self.game.schema());
                    self.replicas = ReplicaSet::new(schema, Tick(tick));
                }
                // The predictions for inputs that never arrived will not come true.
                self.own.clear();
                (self.next_input, self.lead, self.recent) = (0, None, (i64::MIN, 0));
                self.predicted.clear();
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
                // The server no longer keeps this session.
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

    /// A datagram arrived. One that arrives before the welcome is kept until then: the server would
    /// assume its loss only after a timeout, and send the first states again.
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
                if own || self.is_misplaced(joined.avatar, seq, now) {
                    self.misplaced_since = None;
                    self.reconcile(joined.avatar, seq);
                }
            }
            // A state from before any of our inputs was used: all of them are still to come.
            None if own && !self.own.is_empty() => {
                let first = self.predicted.front().map_or(self.next_input, |known| known.seq);
                self.reconcile(joined.avatar, first.wrapping_sub(1));
            }
            None => {}
        }
    }

    /// The server's clock is ahead of ours by what its fastest frames say.
    fn learn_clock(&mut self, tick: Tick, now: Micros) {
        let lead = (u64::from(tick.0) * self.round.0) as i64 - now.0 as i64;
        // The largest lead belongs to the frame with the shortest latency; it fades, because clocks
        // drift.
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

    /// Estimate of the tick of the newest state on its way to us.
    pub fn tick_now(&self, now: Micros) -> Tick {
        let Some(lead) = self.lead else { return self.replicas.newest() };
        Tick(((now.0 as i64 + lead).max(0) as u64 / self.round.0) as u32)
    }

    /// The time at the server by its newest frames, for
    /// [`Smoother`](foveate_sync::replica::Smoother), and the length of a round.
    pub fn time_now(&self, now: Micros) -> (Micros, Micros) {
        let newest = u64::from(self.replicas.newest().0) * self.round.0;
        let time = self.lead.map_or(newest, |lead| (now.0 as i64 + lead).max(0) as u64);
        (Micros(time), self.round)
    }

    /// Whether nothing has arrived from the server for so long that the replicas may be out of
    /// date. A server sends at least once per [`KEEP_ALIVE`].
    pub fn is_silent(&self, now: Micros) -> bool {
        self.heard.is_some_and(|heard| now.0.saturating_sub(heard.0) > 2 * KEEP_ALIVE.0)
    }

    /// When something came from the host last, by the clock of this client's program.
    pub fn last_heard(&self) -> Option<Micros> {
        self.heard
    }

    /// The round-trip time, from the server's echoes.
    pub fn rtt(&self) -> Option<Micros> {
        self.rtt
    }

    pub fn counts(&self) -> ClientCounts {
        self.counts
    }

    /// How far the last correction moved the avatar; `None` if it was taken already.
    pub fn take_correction(&mut self) -> Option<f32> {
        self.correction.take()
    }

    /// The next piece of news, oldest first.
    pub fn poll(&mut self) -> Option<News<G::Event>> {
        self.news.pop_front()
    }

    /// The own avatar's lanes, predicted to the newest input; empty before the first.
    pub fn own(&self) -> &[i32] {
        &self.own
    }

    /// Calls `look` with the world at `now`: replicas predicted to that time, the own avatar as
    /// predicted from the player's inputs.
    pub fn see<R>(&self, now: Micros, look: impl FnOnce(&World<'_>) -> R) -> R {
        let (own, tick) =
            (self.joined().map_or(ObjectId(0), |joined| joined.avatar), self.tick_now(now));
        let silent = self.is_silent(now);
        let ghosts =
            PredictedWorld { replicas: &self.replicas, own: (own, &self.own), tick, silent };
        look(&World::new(&ghosts, tick))
    }

    /// Plays one round: predicts the replicas to now, asks `decide` for an input, moves the avatar,
    /// and sends the input and acknowledgements to the server.
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
        if self.gives_input() && !self.own.is_empty() {
            let input = self.see(now, |world| decide(world, joined.avatar));
            self.predict(joined.avatar, input, tick);
        }
        self.send(link, now, out);
    }

    /// Sets the input for every round from now on in which a driver or simulator wakes the client.
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

    /// Whether this round gives an input: one is skipped now and then to keep the server's queue
    /// short.
    fn gives_input(&mut self) -> bool {
        if self.ticks.wrapping_sub(self.adjusted_at) < SKIP_PAUSE || self.waiting <= MAX_WAITING {
            return true;
        }
        self.adjusted_at = self.ticks;
        self.counts.adjusted += 1;
        false
    }

    fn predict(&mut self, avatar: ObjectId, input: G::Input, tick: Tick) {
        self.run(avatar, input, tick);
        let seq = self.next_input;
        self.next_input = seq.wrapping_add(1);
        let spare =
            if self.predicted.len() >= MAX_FORESEEN { self.predicted.pop_front() } else { None };
        let mut lanes = spare.map_or_else(Vec::new, |old| old.lanes);
        lanes.clear();
        lanes.extend_from_slice(&self.own);
        self.predicted.push_back(PredictedInput { seq, input, lanes });
    }

    /// Runs the rule on our copy of the avatar; its other effects are the server's to apply.
    fn run(&mut self, avatar: ObjectId, input: G::Input, tick: Tick) {
        let Client { game, own, before, replicas, effects, .. } = self;
        let schema = Arc::clone(game.schema());
        let Some(kind) = schema.kind(avatar.kind()) else { return };
        if own.len() != kind.lane_count() {
            return;
        }
        before.clone_from(own);
        // Rules don't care whether the server is silent: they also see lingering objects.
        let ghosts = PredictedWorld { replicas, own: (avatar, before), tick, silent: false };
        let world = World::new(&ghosts, tick);
        game.step(&mut StepContext::new(avatar, kind, own, world, effects), &[input]);
        effects.clear();
    }

    /// Compares the server's state after input `seq` with the prediction, and corrects the avatar.
    fn reconcile(&mut self, avatar: ObjectId, seq: u16) {
        while self.predicted.front().is_some_and(|known| (known.seq.wrapping_sub(seq) as i16) < 0) {
            self.predicted.pop_front();
        }
        let Some(truth) = self.replicas.get(avatar) else { return };
        let known = self.predicted.front().filter(|known| known.seq == seq);
        if known.is_some_and(|known| known.lanes == truth.lanes()) {
            self.counts.foreseen += 1;
            return;
        }
        let (before, tick) = (self.own.clone(), self.replicas.newest());
        self.own.clear();
        self.own.extend_from_slice(truth.lanes());
        if known.is_some() {
            self.predicted.pop_front();
        }
        let mut later = std::mem::take(&mut self.predicted);
        for known in &mut later {
            self.run(avatar, known.input, tick);
            known.lanes.clear();
            known.lanes.extend_from_slice(&self.own);
        }
        self.predicted = later;
        self.counts.corrected += 1;
        if before.len() == self.own.len() {
            self.correction = distance(self.game.schema(), avatar.kind(), &before, &self.own);
        }
    }

    /// Whether the avatar has rested too long away from the prediction for input `seq`. Unchanged
    /// states are not sent: without this check an avatar that stops after inputs that never arrived
    /// would stay wrong.
    fn is_misplaced(&mut self, avatar: ObjectId, seq: u16, now: Micros) -> bool {
        let known = self.predicted.iter().find(|known| known.seq == seq);
        let place = self.game.schema().kind(avatar.kind()).and_then(|kind| kind.place);
        let differs = match (known, place, self.replicas.get(avatar)) {
            (Some(known), Some(place), Some(truth)) => {
                let there = place.coordinates(truth.lanes());
                let apart =
                    distance(self.game.schema(), avatar.kind(), &known.lanes, truth.lanes());
                // Up to two steps are not worth a correction.
                truth.predicted_steps(self.replicas.newest(), &place) == there
                    && apart.is_some_and(|apart| apart > 2.0 * place.precision)
            }
            _ => false,
        };
        self.misplaced_since = differs.then(|| self.misplaced_since.unwrap_or(now));
        self.misplaced_since.is_some_and(|since| now - since >= MISPLACED_FOR)
    }

    fn send(&mut self, link: Link, now: Micros, out: &mut impl Outbox) {
        let newest = self.predicted.iter().rev().take(REPEATED).rev();
        let mut incoming = ClientDatagram {
            ack: self.replicas.ack(),
            clock: (now.0 / 1_000) as u16,
            first: 0,
            inputs: Vec::with_capacity(REPEATED),
        };
        for known in newest {
            // Only consecutive inputs can be identified by the number of the first.
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

    /// Sends an action for an object to the server.
    pub fn ask(&self, object: ObjectId, action: G::Action, now: Micros, out: &mut impl Outbox) {
        let Some(link) = self.accepted_link() else { return };
        let ask = ClientMessage::Ask { object: object.0, action, seen: self.tick_now(now).0 };
        out.message(link, &write_message(&ask));
    }

    /// Asks the server for another view; it applies at once.
    pub fn set_view(&self, which: u8, out: &mut impl Outbox) {
        let Some(link) = self.accepted_link() else { return };
        out.message(link, &write_message(&ClientMessage::<G::Action>::View(which)));
    }

    /// Also looks from `object`, if the game allows it; `None`: from the own avatar only.
    pub fn watch(&self, object: Option<ObjectId>, out: &mut impl Outbox) {
        let Some(link) = self.accepted_link() else { return };
        let object = object.map(|object| object.0);
        out.message(link, &write_message(&ClientMessage::<G::Action>::Watch(object)));
    }

    /// Asks the server for a player's name; [`News::Named`] answers.
    pub fn who(&self, player: PlayerId, out: &mut impl Outbox) {
        let Some(link) = self.accepted_link() else { return };
        out.message(link, &write_message(&ClientMessage::<G::Action>::Who(player.0)));
    }

    /// The link, once the server has accepted the client: before that, anything but a hello is a
    /// violation.
    fn accepted_link(&self) -> Option<Link> {
        self.link.filter(|_| self.joined().is_some())
    }

    /// Leaves for good. Nothing is sent on the link afterwards: the server would take it for a
    /// violation.
    pub fn leave(&mut self, out: &mut impl Outbox) {
        if let Some(link) = self.accepted_link() {
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

/// The distance between two states of a kind, in world units.
fn distance(schema: &Schema, kind: KindId, a: &[i32], b: &[i32]) -> Option<f32> {
    let place = schema.kind(kind)?.place?;
    let (a, b) = (place.coordinates(a), place.coordinates(b));
    let square: f32 = (0..3).map(|k| (a[k].wrapping_sub(b[k]) as f32).powi(2)).sum();
    Some(square.sqrt() * place.precision)
}

/// Replicas as rules see them, predicted to a tick, and the own avatar as predicted from inputs.
/// States are computed only when they are read.
struct PredictedWorld<'a> {
    replicas: &'a ReplicaSet,
    own: (ObjectId, &'a [i32]),
    tick: Tick,
    /// The server has not been heard from for a while.
    silent: bool,
}

impl PredictedWorld<'_> {
    fn place(&self, view: &ReplicaView<'_>) -> Option<Position> {
        if view.id() != self.own.0 || self.own.1.is_empty() {
            return view.predicted(self.tick);
        }
        let place = self.schema().kind(view.kind())?.place?;
        Some(Position(place.coordinates(self.own.1).map(|steps| steps as f32 * place.precision)))
    }
}

impl Scene for PredictedWorld<'_> {
    fn schema(&self) -> &Schema {
        self.replicas.schema()
    }

    /// A client does not rewind: its replicas are what the player saw.
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

    fn near(&self, at: Position, radius: Metres, found: &mut Vec<ObjectId>) {
        let square = radius.0 * radius.0;
        let near = |view: &ReplicaView<'_>| {
            self.place(view).is_some_and(|there| there.square_distance(at) <= square)
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
