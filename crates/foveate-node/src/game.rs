//! The game, written once: rules that run wherever an object's owner is.
//!
//! Every object has exactly one owner. The owner runs [`Game::step`] for the truth; a client reruns
//! it to predict its own avatar, and the effects of a rerun are dropped. Both see the world through
//! a [`World`]: a server's is its store, a client's its replicas.
//!
//! **No rule writes two objects.** A [`StepContext`] writes its own object, and asks others by actions. A
//! relation lives in one of the two (an item has a holder; an inventory is a query), so that nothing
//! doubles or gets lost when owners differ.
//!
//! **What a rule reads.** Its own object as it is by now; all others as they were at the end of the
//! last tick. So the order in which objects take their turns does not matter, and several threads may run
//! [`Game::step`] at the same time.

use crate::limits::{ActionLimits, StateChange};
use crate::random::{Dice, WorldSeed};
use crate::remote_objects::{apart, position_of};
use foveate_sync::interest::{Policy, View, ViewContext, Visibility};
use foveate_wire::{Kind, KindId, Micros, ObjectId, Replicate, Schema, Tick};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A player, for good: the same number whenever the same name joins. It is the origin of the ids of
/// the player's objects; 0 is the world itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct PlayerId(pub u32);

/// The rules of a game. Deterministic: everything they need is an argument.
pub trait Game: Sized + Send + Sync + 'static {
    /// What a player does in one tick: keys held, where they look. Small; sent in every tick.
    type Input: Copy
        + Default
        + PartialEq
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + std::fmt::Debug;
    /// A request to an object, carried out by its owner.
    type Action: Clone + Serialize + DeserializeOwned + Send + std::fmt::Debug;
    /// What is seen or heard at a place and changes nothing: a bang, a spark.
    type Event: Clone + Serialize + DeserializeOwned + Send + std::fmt::Debug;

    /// What objects are made of.
    fn schema(&self) -> &Arc<Schema>;

    /// The kind of the players' avatars; by default the first of the schema.
    fn avatar(&self) -> KindId {
        KindId(0)
    }

    /// A player's avatar: the object of the kind [`avatar`](Game::avatar) with the player's origin and
    /// serial 0. It need not be in the world.
    fn avatar_of(&self, player: PlayerId) -> ObjectId {
        ObjectId::new(self.avatar(), player.0, 0)
    }

    /// The objects that a new world begins with; by default none.
    fn populate(&self) -> Vec<Spawn> {
        Vec::new()
    }

    /// The objects of a player that joins for the first time; the first is the avatar.
    fn welcome(&self, world: &World<'_>, player: PlayerId, name: &str) -> Vec<Spawn>;

    /// One tick of one object. `inputs`: what its player did in it, oldest first; mostly one.
    fn step(&self, turn: &mut StepContext<'_, Self>, inputs: &[Self::Input]);

    /// An action is asked of the turn's object. This rule decides whether the requester may; by default
    /// nothing happens.
    fn act(&self, _: &mut StepContext<'_, Self>, _action: &Self::Action, _by: Requester) {}

    /// What an action on an object must keep to before [`act`](Game::act) is asked: where it may come from, from
    /// how far, how often, how much. The owner of the object checks it for everything that its own rules did not
    /// ask for. What breaks a limit is refused and counted, and a peer that breaks one that no honest peer can is
    /// disconnected.
    fn limits(&self, _: &Self::Action, _object: ObjectId) -> ActionLimits {
        ActionLimits::default()
    }

    /// Whether rules can have changed another player's own object as two of its states show. Among peers, neighbours
    /// ask it of the objects that a player's peer owns for good, such as its avatar; a peer whose objects
    /// change otherwise again and again is disconnected. Speed is checked by the kind's `max_speed`.
    fn is_lawful(&self, _: &StateChange<'_>) -> bool {
        true
    }

    /// Whether objects of a kind have a turn in every tick.
    fn steps(&self, _: KindId) -> bool {
        true
    }

    /// Whether objects of a kind outlive a restart: with their player, or with the world.
    fn keeps(&self, _: KindId) -> bool {
        false
    }

    /// The object that carries another, if any: a hand an item, a ship its crew. Where a world runs on many servers
    /// an object goes with what carries it.
    fn carrier(&self, _: &World<'_>, _object: ObjectId) -> Option<ObjectId> {
        None
    }

    /// Whether peers may pass the ownership of an object to each other. A player's own objects stay with
    /// the player; those of the world go to the peer that is most interested.
    fn tenure(&self, object: ObjectId) -> Tenure {
        if object.origin() == 0 { Tenure::ByInterest } else { Tenure::Fixed }
    }

    /// Whether an event must arrive. Others travel with the next state packet and are lost with it; those that must
    /// arrive come by the reliable stream, in order, and wait for a player whose link broke.
    fn reliable(&self, _: &Self::Event) -> bool {
        false
    }

    /// Whether an input is one that a player could give.
    fn allows(&self, _: &Self::Input) -> bool {
        true
    }

    /// What a player's action costs the node that carries it out, in units of [`WorkBudget`](crate::server::WorkBudget):
    /// a server charges it against the player's budget, and does not carry out what is not paid for. An action that
    /// searches, spawns or looks around widely states more than 1.
    fn cost(&self, _: &Self::Action) -> u32 {
        1
    }

    /// An input in which nothing was seen before a tick. Inputs that name the tick at which their player looked (see
    /// [`World::as_seen`]) return with that tick raised to `earliest`, the oldest that the player's round trip explains;
    /// so a player gets no more lag compensation than the link has lag.
    fn limit_seen(&self, input: Self::Input, _earliest: Tick) -> Self::Input {
        input
    }

    /// The views that a player may choose from, by number; number 0 is the first one. A view may be
    /// a policy of the game's own: [`View::custom`] with a name from [`policies`](Game::policies).
    fn view(&self, which: u8) -> Option<View>;

    /// The game's own policies, with the names by which views, configurations and operators refer to
    /// them.
    fn policies(&self) -> Vec<(&'static str, Arc<dyn Policy>)> {
        Vec::new()
    }

    /// The game's walls, for views with `line_of_sight`.
    fn visibility(&self) -> Option<Arc<dyn Visibility>> {
        None
    }

    /// The team of an object, 0 for none. Views can have other bounds for team mates. A change takes
    /// effect within eight ticks. `None`: the game has no teams, or sets them in the store itself.
    fn team(&self, _: &World<'_>, _object: ObjectId) -> Option<u8> {
        None
    }

    /// Whether an action makes its two parties interesting to each other, and for how long: the time
    /// after which half of that interest is left. Important actions have a longer one.
    fn interaction(&self, _: &Self::Action) -> Option<Micros> {
        None
    }

    /// What a player looks from; beside the avatar, perhaps units.
    fn eyes(&self, _: &World<'_>, avatar: ObjectId, eyes: &mut Vec<ObjectId>) {
        eyes.push(avatar);
    }

    /// Whether a player may look from an object that is not theirs: a spectator, a fallen player. It is
    /// asked again while they do.
    fn may_watch(&self, _: &World<'_>, _avatar: ObjectId, _object: ObjectId) -> bool {
        false
    }
}

/// What views can refer to in a game.
pub struct GameViews<'a, G: Game>(pub &'a G);

impl<G: Game> ViewContext for GameViews<'_, G> {
    fn visibility(&self) -> Option<Arc<dyn Visibility>> {
        self.0.visibility()
    }

    fn kind(&self, name: &str) -> Option<KindId> {
        self.0.schema().id_of(name)
    }

    fn policy(&self, name: &str) -> Option<Arc<dyn Policy>> {
        let named = self.0.policies().into_iter().find(|(known, _)| *known == name);
        named.map(|(_, policy)| policy)
    }
}

/// Plays without a player: sees replicas, gives inputs and actions.
pub trait Brain<G: Game>: Send {
    /// What to do in this tick as `me`.
    fn think(
        &mut self,
        world: &World<'_>,
        me: ObjectId,
        actions: &mut Vec<(ObjectId, G::Action)>,
    ) -> G::Input;
}

/// How an object changes hands among peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tenure {
    /// To the peer that is clearly the most interested.
    ByInterest,
    /// Not at all: it is its player's, and goes with them.
    Fixed,
}

/// The origin of an action, and the tick that its player saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requester {
    /// A rule, in the turn of this object.
    Object(ObjectId),
    /// A player, shown the world as it was at this tick.
    Player(PlayerId, Tick),
}

/// An object that is to come into being.
#[derive(Clone, PartialEq, Debug)]
pub struct Spawn {
    pub kind: KindId,
    pub lanes: Vec<i32>,
}

impl Spawn {
    /// An object with this value; `None` if the schema does not have its kind.
    pub fn new<T: Replicate>(schema: &Schema, value: &T) -> Option<Spawn> {
        let id = schema.id_of(T::NAME)?;
        let kind = schema.kind(id)?;
        let mut lanes = vec![0; kind.lane_count()];
        value.put(kind, &mut lanes);
        Some(Spawn { kind: id, lanes })
    }

    /// One object for each value, in order. A kind that the schema does not have is a mistake in the game:
    /// it stops a debug build, and nothing is spawned in a release build.
    pub fn each<T: Replicate>(schema: &Schema, values: impl IntoIterator<Item = T>) -> Vec<Spawn> {
        debug_assert!(schema.id_of(T::NAME).is_some(), "kind `{}` is not in the schema", T::NAME);
        values.into_iter().filter_map(|value| Spawn::new(schema, &value)).collect()
    }
}

/// A point in the world. Rules of flat games hand over `[x, y]`, others `[x, y, z]`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Position(pub [f32; 3]);

impl From<[f32; 2]> for Position {
    fn from([x, y]: [f32; 2]) -> Position {
        Position([x, y, 0.0])
    }
}

impl From<[f32; 3]> for Position {
    fn from(at: [f32; 3]) -> Position {
        Position(at)
    }
}

/// Where an event happens, and from how far it is noticed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum EventArea {
    /// At a point.
    Point {
        at: [f32; 3],
        /// How far it is noticed.
        radius: f32,
    },
    /// All along a line: a shot.
    Segment {
        from: [f32; 3],
        to: [f32; 3],
        /// How far from the line it is noticed.
        radius: f32,
    },
}

impl EventArea {
    /// Noticed within a radius of a point of two or three coordinates.
    pub fn around(at: impl Into<Position>, radius: f32) -> EventArea {
        EventArea::Point { at: at.into().0, radius }
    }

    /// Its ends, and from how far it is noticed.
    pub fn ends(&self) -> ([[f32; 3]; 2], f32) {
        match *self {
            EventArea::Point { at, radius } => ([at, at], radius),
            EventArea::Segment { from, to, radius } => ([from, to], radius),
        }
    }

    /// A circle that holds all places from which it is noticed: its centre and radius.
    pub fn circle(&self) -> ([f32; 3], f32) {
        let ([from, to], radius) = self.ends();
        let middle = [0, 1, 2].map(|axis| (from[axis] + to[axis]) / 2.0);
        let length = (0..3).map(|axis| (to[axis] - from[axis]).powi(2)).sum::<f32>().sqrt();
        (middle, radius + length / 2.0)
    }

    /// Whether an observer at `eye` notices it.
    pub fn reaches(&self, eye: [f32; 3]) -> bool {
        let ([from, to], radius) = self.ends();
        let along = [0, 1, 2].map(|axis| to[axis] - from[axis]);
        let off = [0, 1, 2].map(|axis| eye[axis] - from[axis]);
        let dot = |a: [f32; 3], b: [f32; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
        let share = (dot(off, along) / dot(along, along).max(1e-9)).clamp(0.0, 1.0);
        let gap = [0, 1, 2].map(|axis| off[axis] - share * along[axis]);
        dot(gap, gap) <= radius * radius
    }
}

/// How far what a node knows of an object may be relied on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Liveness {
    /// Owned here, or told of whenever its grade asks for it.
    Live,
    /// Its owner or server has been silent for longer than two keep-alives: as it was heard of last, moved on by the
    /// predictor. It may be heard of again at any moment, or be gone.
    Lingering,
    /// Out of this node's view: as it was when it left. Nothing more is known until it comes back.
    Frozen,
}

/// What a node knows of the objects, as of the end of the last tick.
pub trait Scene {
    fn schema(&self) -> &Schema;
    /// Copies an object's state into `lanes`, which has room for just that; with a tick, as it was
    /// at the end of that tick. False if it is not known, or not any more.
    fn read(&self, id: ObjectId, tick: Option<Tick>, lanes: &mut [i32]) -> bool;
    /// Objects within a radius, in the order of their ids; perhaps a few more.
    fn near(&self, at: [f32; 3], radius: f32, found: &mut Vec<ObjectId>);
    /// All objects of a kind, in the order of their ids.
    fn of_kind(&self, kind: KindId, found: &mut Vec<ObjectId>);
    /// How far what is known of an object may be relied on; asked only of objects that [`Scene::read`] knows. Where
    /// everything is owned, everything is live.
    fn liveness(&self, _: ObjectId) -> Liveness {
        Liveness::Live
    }
}

/// Lanes that are read without asking for memory.
const FEW_LANES: usize = 32;

/// The world as a rule sees it.
///
/// Frozen objects are left out, so that nothing is done to, hit by or predicted from what is only a memory;
/// [`World::with_frozen`] brings them back for what does not go stale: where a base stands, which player holds an item.
#[derive(Clone, Copy)]
pub struct World<'a> {
    scene: &'a dyn Scene,
    tick: Tick,
    seen: Option<Tick>,
    frozen: bool,
}

impl<'a> World<'a> {
    /// The world at a tick.
    pub fn new(scene: &'a dyn Scene, tick: Tick) -> World<'a> {
        World { scene, tick, seen: None, frozen: false }
    }

    /// The tick whose turns are being taken.
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// The world as it was shown at an earlier tick, for lag compensation. No further back
    /// than `limit` ticks, whatever they say.
    pub fn as_seen(&self, tick: Tick, limit: u32) -> World<'a> {
        let earliest = self.tick.minus(limit);
        let seen = if earliest.is_after(tick) { earliest } else { tick };
        World { seen: self.tick.is_after(seen).then_some(seen), ..*self }
    }

    /// The same world with frozen objects, as they were when they left this node's view.
    pub fn with_frozen(&self) -> World<'a> {
        World { frozen: true, ..*self }
    }

    /// How far what is known of an object may be relied on; `None` if it is not known at all. Frozen objects are told of,
    /// too.
    pub fn liveness(&self, id: ObjectId) -> Option<Liveness> {
        let kind = self.scene.schema().kind(id.kind())?;
        let known = self.scene.read(id, None, &mut vec![0; kind.lane_count()]);
        known.then(|| self.scene.liveness(id))
    }

    fn shows(&self, id: ObjectId) -> bool {
        self.frozen || self.scene.liveness(id) != Liveness::Frozen
    }

    /// An object's value; none if it is not known, or frozen.
    pub fn get<T: Replicate>(&self, id: ObjectId) -> Option<T> {
        self.read(id, |_| true)
    }

    /// An object's value, if it is a `T` whose position passes.
    fn read<T: Replicate>(
        &self,
        id: ObjectId,
        is_there: impl FnOnce(Option<[f32; 3]>) -> bool,
    ) -> Option<T> {
        let kind = self.scene.schema().kind(id.kind()).filter(|kind| kind.spec.name == T::NAME)?;
        let (mut few, mut many) = ([0; FEW_LANES], Vec::new());
        let lanes = match kind.lane_count() {
            count @ 0..=FEW_LANES => &mut few[..count],
            count => {
                many.resize(count, 0);
                &mut many[..]
            }
        };
        if !self.shows(id) || !self.scene.read(id, self.seen, lanes) {
            return None;
        }
        is_there(position_of(kind, lanes)).then(|| T::get(kind, lanes))
    }

    /// Every known `T` with its id, in the order of ids; not those that are frozen.
    pub fn iter<T: Replicate>(self) -> impl Iterator<Item = (ObjectId, T)> {
        let ids = self.scene.schema().id_of(T::NAME).map(|kind| self.of_kind(kind));
        ids.unwrap_or_default().into_iter().filter_map(move |id| Some((id, self.get(id)?)))
    }

    /// Every `T` within a radius of a point, with its id, in the order of ids; not those that are frozen.
    /// A world [as seen](World::as_seen) earlier is searched where objects are now: those that have moved
    /// away since are missing.
    pub fn iter_near<T: Replicate>(
        self,
        at: impl Into<Position>,
        radius: f32,
    ) -> impl Iterator<Item = (ObjectId, T)> {
        let at = at.into();
        let is_near =
            move |there: Option<[f32; 3]>| there.is_some_and(|there| apart(there, at.0) <= radius);
        let ids = self.near(at, radius).into_iter();
        ids.filter_map(move |id| Some((id, self.read(id, is_near)?)))
    }

    /// Objects of every kind within a radius (now, not as seen) that are not frozen, in the order of their
    /// ids. Those that moved during the tick may be a little further away; [`iter_near`](World::iter_near) is exact.
    pub fn near(&self, at: impl Into<Position>, radius: f32) -> Vec<ObjectId> {
        let mut found = Vec::new();
        self.scene.near(at.into().0, radius, &mut found);
        found.retain(|id| self.shows(*id));
        found
    }

    /// All objects of a kind that are not frozen, in the order of their ids.
    pub fn of_kind(&self, kind: KindId) -> Vec<ObjectId> {
        let mut found = Vec::new();
        self.scene.of_kind(kind, &mut found);
        found.retain(|id| self.shows(*id));
        found
    }
}

/// What rules brought about beside writing their own objects.
#[derive(Debug)]
pub struct Effects<G: Game> {
    /// New objects, and the players they belong to; 0 is the world.
    pub spawned: Vec<(PlayerId, Spawn)>,
    /// What happened where.
    pub events: Vec<(EventArea, G::Event)>,
    /// Actions: the object, the action and its requester.
    pub actions: Vec<(ObjectId, G::Action, Requester)>,
}

impl<G: Game> Default for Effects<G> {
    fn default() -> Effects<G> {
        Effects { spawned: Vec::new(), events: Vec::new(), actions: Vec::new() }
    }
}

impl<G: Game> Effects<G> {
    /// Takes what another list has after what is here.
    pub(crate) fn append(&mut self, later: &mut Effects<G>) {
        self.spawned.append(&mut later.spawned);
        self.events.append(&mut later.events);
        self.actions.append(&mut later.actions);
    }

    /// As if nothing had happened.
    pub fn clear(&mut self) {
        self.spawned.clear();
        self.events.clear();
        self.actions.clear();
    }
}

/// One object's turn.
pub struct StepContext<'a, G: Game> {
    id: ObjectId,
    kind: &'a Kind,
    lanes: &'a mut [i32],
    world: World<'a>,
    effects: &'a mut Effects<G>,
    removed: bool,
    dice: Dice,
}

impl<'a, G: Game> StepContext<'a, G> {
    /// The turn of the object with this state.
    pub fn new(
        id: ObjectId,
        kind: &'a Kind,
        lanes: &'a mut [i32],
        world: World<'a>,
        effects: &'a mut Effects<G>,
    ) -> StepContext<'a, G> {
        let dice = Dice::new(WorldSeed::PREDICTION, id, world.tick, 0);
        StepContext { id, kind, lanes, world, effects, removed: false, dice }
    }

    /// The same with the world's own randomness. `turn` tells apart the turns that one object has in one
    /// tick.
    pub fn with_seed(mut self, seed: WorldSeed, turn: u32) -> StepContext<'a, G> {
        self.dice = Dice::new(seed, self.id, self.world.tick, turn);
        self
    }

    /// Whose turn it is.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    pub fn tick(&self) -> Tick {
        self.world.tick
    }

    /// Everything else.
    pub fn world(&self) -> World<'a> {
        self.world
    }

    /// A random number, at least 0 and below 1: a function of the world's seed, this object, the tick and
    /// how often this turn has asked before, so that a rule stays deterministic.
    ///
    /// The owner's seed is secret: a client that predicts this turn draws other numbers. What a rule does
    /// to an avatar by chance is therefore mispredicted and corrected a round trip later; draw for what is
    /// not predicted, such as spawns, events, actions and objects other than the player's own avatar.
    pub fn random(&mut self) -> f32 {
        // 24 bits: as many as an `f32` tells apart below 1.
        (self.dice.roll() >> 40) as f32 / (1 << 24) as f32
    }

    /// A random number below `bound`; 0 if that is 0. See [`random`](StepContext::random).
    pub fn random_below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.dice.roll()) * u128::from(bound)) >> 64) as u32
    }

    /// The object as it is by now; `None` if it is of another kind.
    pub fn get<T: Replicate>(&self) -> Option<T> {
        (self.kind.spec.name == T::NAME).then(|| T::get(self.kind, self.lanes))
    }

    /// Writes the object; nothing happens if it is of another kind.
    pub fn set<T: Replicate>(&mut self, value: &T) {
        if self.kind.spec.name == T::NAME {
            value.put(self.kind, self.lanes);
        }
    }

    /// The object is no more after this turn.
    pub fn remove(&mut self) {
        self.removed = true;
    }

    /// A new object that belongs to the same player as this one, and leaves with that player; from an
    /// object of the world's, the same as [`spawn_world`](StepContext::spawn_world). It is there from the next
    /// tick on. Among peers only a player's own peer can create objects for that player: in the turn of
    /// another player's object the spawn is dropped and counted.
    pub fn spawn<T: Replicate>(&mut self, value: &T) {
        self.spawn_for(PlayerId(self.id.origin()), value);
    }

    /// A new object of the world's, which stays when players leave: owned by the server, among peers by
    /// interest. It is there from the next tick on.
    pub fn spawn_world<T: Replicate>(&mut self, value: &T) {
        self.spawn_for(PlayerId(0), value);
    }

    fn spawn_for<T: Replicate>(&mut self, origin: PlayerId, value: &T) {
        let spawn = Spawn::new(self.world.scene.schema(), value);
        self.effects.spawned.extend(spawn.map(|spawn| (origin, spawn)));
    }

    /// Something to see or hear.
    pub fn event(&mut self, spot: EventArea, event: G::Event) {
        self.effects.events.push((spot, event));
    }

    /// Asks something of another object; it hears of it in the next tick.
    pub fn ask(&mut self, object: ObjectId, action: G::Action) {
        self.effects.actions.push((object, action, Requester::Object(self.id)));
    }

    /// Whether the object was removed in this turn.
    pub fn is_removed(&self) -> bool {
        self.removed
    }
}
