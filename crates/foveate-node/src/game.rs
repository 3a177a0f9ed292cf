//! The rules of a game, as a trait. Rules run on whichever node owns an object.
//!
//! Every object has exactly one owner. The owner runs [`Game::step`] and its result is the truth; a
//! client reruns it to predict its own avatar, and drops the effects of the rerun. Both see the
//! world through a [`World`], which reads the store on a server and the replicas on a client.
//!
//! **No rule writes two objects.** A [`StepContext`] writes its own object; it changes others by
//! sending them actions. Store a relation in one of its two objects (an item has a holder; an
//! inventory is a query), so that it cannot be duplicated or lost when the owners differ.
//!
//! **What a rule reads.** Its own object as it is now; all others as they were at the end of the
//! last tick. So the order in which objects step does not matter, and several threads may run
//! [`Game::step`] at the same time.

use crate::limits::{ActionLimits, StateChange};
use crate::random::{Dice, WorldSeed};
use crate::remote_objects::position_of;
use foveate_sync::interest::{Policy, View, ViewContext, Visibility};
use foveate_wire::{Kind, KindId, Metres, Micros, ObjectId, Position, Replicate, Schema, Tick};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A player's permanent number: the same whenever the same name joins. It is the origin in the ids
/// of the player's objects; 0 is the world itself.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct PlayerId(pub u32);

/// The rules of a game. Deterministic: everything they need is an argument.
pub trait Game: Sized + Send + Sync + 'static {
    /// What a player does in one tick: keys held, direction of view. Sent every tick, so keep it
    /// small.
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
    /// Something seen or heard at a place that changes no state: a bang, a spark.
    type Event: Clone + Serialize + DeserializeOwned + Send + std::fmt::Debug;

    /// All kinds of objects in the game.
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

    /// The objects of a player that joins for the first time. The first is the avatar.
    fn welcome(&self, world: &World<'_>, player: PlayerId, name: &str) -> Vec<Spawn>;

    /// One tick of one object. `inputs` are its player's, oldest first; usually one.
    fn step(&self, turn: &mut StepContext<'_, Self>, inputs: &[Self::Input]);

    /// Carries out an action on the object of `StepContext`. This rule decides whether the
    /// requester is allowed to; by default nothing happens.
    fn act(&self, _: &mut StepContext<'_, Self>, _action: &Self::Action, _by: Requester) {}

    /// The limits that an action on an object must keep before [`act`](Game::act) is called: its
    /// source, distance, rate and amount. The object's owner checks every action that its own rules
    /// did not request. An action beyond a limit is refused and counted; a peer that breaks a limit
    /// which no honest peer can break is disconnected.
    fn limits(&self, _: &Self::Action, _object: ObjectId) -> ActionLimits {
        ActionLimits::default()
    }

    /// Whether the rules can have changed another player's own object as `StateChange` says. Among
    /// peers, neighbours check the objects that a peer always owns, such as its player's avatar; a
    /// peer whose objects repeatedly change in other ways is disconnected. Speed is checked by the
    /// kind's `max_speed`.
    fn is_lawful(&self, _: &StateChange<'_>) -> bool {
        true
    }

    /// Whether objects of a kind step every tick.
    fn steps(&self, _: KindId) -> bool {
        true
    }

    /// Whether objects of a kind are saved over a restart, with their player or with the world.
    fn keeps(&self, _: KindId) -> bool {
        false
    }

    /// The object that carries this one, if any: an avatar carries an item, a ship its crew. In a
    /// world on many servers, an object moves to the server of its carrier.
    fn carrier(&self, _: &World<'_>, _object: ObjectId) -> Option<ObjectId> {
        None
    }

    /// Whether peers may transfer the ownership of an object. By default a player's own objects
    /// stay with the player, and those of the world go to the most interested peer.
    fn tenure(&self, object: ObjectId) -> Tenure {
        if object.origin() == 0 { Tenure::ByInterest } else { Tenure::Fixed }
    }

    /// Whether an event must arrive. A reliable event is sent on the ordered stream and kept for a
    /// player whose link broke; others travel with the next state packet and are lost with it.
    fn reliable(&self, _: &Self::Event) -> bool {
        false
    }

    /// Whether a player can give this input.
    fn allows(&self, _: &Self::Input) -> bool {
        true
    }

    /// What an action costs the node that carries it out, in units of
    /// [`WorkBudget`](crate::server::WorkBudget). A server charges it to the player's budget, and
    /// does not carry it out if the budget is used up. State more than 1 for an action that
    /// searches, spawns or looks far around.
    fn cost(&self, _: &Self::Action) -> u32 {
        1
    }

    /// Limits the lag compensation of an input. An input that names the tick its player saw (see
    /// [`World::as_seen`]) is returned with that tick raised to `earliest`, the oldest that the
    /// player's round trip explains, so that a player gets no more lag compensation than the link
    /// has lag.
    fn limit_seen(&self, input: Self::Input, _earliest: Tick) -> Self::Input {
        input
    }

    /// The views that a player may choose from, by number; a player starts with number 0. A view
    /// may be a custom policy: [`View::custom`] with a name from [`policies`](Game::policies).
    fn view(&self, which: u8) -> Option<View>;

    /// Custom policies, with the names by which views, configurations and operators refer to them.
    fn policies(&self) -> Vec<(&'static str, Arc<dyn Policy>)> {
        Vec::new()
    }

    /// The game's walls, for views with `line_of_sight`.
    fn visibility(&self) -> Option<Arc<dyn Visibility>> {
        None
    }

    /// The team of an object, 0 for none. Views can have other bounds for team mates. A change
    /// takes effect within eight ticks. `None`: the game has no teams, or sets them in the store
    /// itself.
    fn team(&self, _: &World<'_>, _object: ObjectId) -> Option<u8> {
        None
    }

    /// The half-life of the interest that an action creates between its two objects; `None` for no
    /// interest. Give important actions a longer one.
    fn interaction(&self, _: &Self::Action) -> Option<Micros> {
        None
    }

    /// The objects that a player looks from: the avatar, perhaps also units.
    fn eyes(&self, _: &World<'_>, avatar: ObjectId, eyes: &mut Vec<ObjectId>) {
        eyes.push(avatar);
    }

    /// Whether a player may look from an object that belongs to another: a spectator, a fallen
    /// player. Checked again while the player does.
    fn may_watch(&self, _: &World<'_>, _avatar: ObjectId, _object: ObjectId) -> bool {
        false
    }
}

/// Resolves the names that views use in a game.
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

/// Plays in place of a human: sees replicas, gives inputs and actions.
pub trait Brain<G: Game>: Send {
    /// Decides the input of this tick, and the actions to send, for the avatar `me`.
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
    /// It goes to the peer that is clearly the most interested.
    ByInterest,
    /// It does not: it stays with its player.
    Fixed,
}

/// What requested an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requester {
    /// A rule, in the step of this object.
    Object(ObjectId),
    /// A player, to whom this tick was shown.
    Player(PlayerId, Tick),
}

/// An object to create.
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

    /// One object for each value, in order. A kind that is missing in the schema is a mistake in
    /// the game: a debug build panics, a release build spawns nothing.
    pub fn each<T: Replicate>(schema: &Schema, values: impl IntoIterator<Item = T>) -> Vec<Spawn> {
        debug_assert!(schema.id_of(T::NAME).is_some(), "kind `{}` is not in the schema", T::NAME);
        values.into_iter().filter_map(|value| Spawn::new(schema, &value)).collect()
    }
}

/// Where an event happens, and from how far it is noticed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum EventArea {
    /// At a point.
    Point {
        at: [f32; 3],
        /// In world units.
        radius: f32,
    },
    /// All along a line: a shot.
    Segment {
        from: [f32; 3],
        to: [f32; 3],
        /// Distance from the line, in world units.
        radius: f32,
    },
}

impl EventArea {
    /// An event noticed within `radius` of a point of two or three coordinates.
    pub fn around(at: impl Into<Position>, radius: f32) -> EventArea {
        EventArea::Point { at: at.into().0, radius }
    }

    /// Both ends, and the radius.
    pub fn ends(&self) -> ([[f32; 3]; 2], f32) {
        match *self {
            EventArea::Point { at, radius } => ([at, at], radius),
            EventArea::Segment { from, to, radius } => ([from, to], radius),
        }
    }

    /// A circle around all places from which it is noticed: centre and radius.
    pub fn circle(&self) -> (Position, Metres) {
        let ([from, to], radius) = self.ends();
        let middle = [0, 1, 2].map(|axis| (from[axis] + to[axis]) / 2.0);
        let length = Position(to).distance(Position(from));
        (Position(middle), Metres(radius) + length / 2.0)
    }

    /// Whether an observer at `eye` notices it.
    pub fn reaches(&self, eye: impl Into<Position>) -> bool {
        let eye = eye.into();
        let ([from, to], radius) = self.ends();
        let along = [0, 1, 2].map(|axis| to[axis] - from[axis]);
        let off = [0, 1, 2].map(|axis| eye[axis] - from[axis]);
        let dot = |a: [f32; 3], b: [f32; 3]| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
        let share = (dot(off, along) / dot(along, along).max(1e-9)).clamp(0.0, 1.0);
        let gap = [0, 1, 2].map(|axis| off[axis] - share * along[axis]);
        dot(gap, gap) <= radius * radius
    }
}

/// How up to date a node's knowledge of an object is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Liveness {
    /// Owned here, or updated whenever its grade asks for it.
    Live,
    /// Its owner or server has been silent for longer than two keep-alives. The state is the last
    /// one received, predicted to now. It may be updated again at any moment, or be gone.
    Lingering,
    /// Out of this node's view: the state is that when it left. Nothing more is known until it
    /// returns.
    Frozen,
}

/// What a node knows of the objects, as of the end of the last tick.
pub trait Scene {
    fn schema(&self) -> &Schema;
    /// Copies an object's state into `lanes`, whose length is the kind's lane count; with a tick,
    /// the state at the end of that tick. False if the object is not known, or no longer.
    fn read(&self, id: ObjectId, tick: Option<Tick>, lanes: &mut [i32]) -> bool;
    /// Objects within a radius, in the order of their ids. May include a few beyond it.
    fn near(&self, at: Position, radius: Metres, found: &mut Vec<ObjectId>);
    /// All objects of a kind, in the order of their ids.
    fn of_kind(&self, kind: KindId, found: &mut Vec<ObjectId>);
    /// How up to date an object is. Only called for objects that [`Scene::read`] knows. The default
    /// suits a node that owns everything.
    fn liveness(&self, _: ObjectId) -> Liveness {
        Liveness::Live
    }
}

/// Objects of up to this many lanes are read without allocating.
const FEW_LANES: usize = 32;

/// The world as a rule sees it.
///
/// Frozen objects are left out, so that rules neither act on, hit nor predict from an old state.
/// Use [`World::with_frozen`] for what does not change while out of view: where a base stands,
/// which player holds an item.
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

    /// The current tick.
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// The world as it was at an earlier tick, for lag compensation. At most `limit` ticks back,
    /// whatever `tick` says.
    pub fn as_seen(&self, tick: Tick, limit: u32) -> World<'a> {
        let earliest = self.tick.minus(limit);
        let seen = if earliest.is_after(tick) { earliest } else { tick };
        World { seen: self.tick.is_after(seen).then_some(seen), ..*self }
    }

    /// The same world with frozen objects, as they were when they left this node's view.
    pub fn with_frozen(&self) -> World<'a> {
        World { frozen: true, ..*self }
    }

    /// How up to date an object is, frozen ones included; `None` if it is not known at all.
    pub fn liveness(&self, id: ObjectId) -> Option<Liveness> {
        let kind = self.scene.schema().kind(id.kind())?;
        let known = self.scene.read(id, None, &mut vec![0; kind.lane_count()]);
        known.then(|| self.scene.liveness(id))
    }

    fn shows(&self, id: ObjectId) -> bool {
        self.frozen || self.scene.liveness(id) != Liveness::Frozen
    }

    /// An object's value; `None` if it is not known, frozen or of another kind.
    pub fn get<T: Replicate>(&self, id: ObjectId) -> Option<T> {
        self.read(id, |_| true)
    }

    /// An object's value, if it is a `T` and `is_there` accepts its position.
    fn read<T: Replicate>(
        &self,
        id: ObjectId,
        is_there: impl FnOnce(Option<Position>) -> bool,
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

    /// Every known `T` that is not frozen, with its id, in the order of ids.
    pub fn iter<T: Replicate>(self) -> impl Iterator<Item = (ObjectId, T)> {
        let ids = self.scene.schema().id_of(T::NAME).map(|kind| self.of_kind(kind));
        ids.unwrap_or_default().into_iter().filter_map(move |id| Some((id, self.get(id)?)))
    }

    /// Every `T` within a radius of a point that is not frozen, with its id, in the order of ids. A
    /// world [as seen](World::as_seen) earlier is searched by current positions: objects that have
    /// moved away since then are missing.
    pub fn iter_near<T: Replicate>(
        self,
        at: impl Into<Position>,
        radius: f32,
    ) -> impl Iterator<Item = (ObjectId, T)> {
        let at = at.into();
        let is_near = move |there: Option<Position>| {
            there.is_some_and(|there| there.distance(at) <= Metres(radius))
        };
        let ids = self.near(at, radius).into_iter();
        ids.filter_map(move |id| Some((id, self.read(id, is_near)?)))
    }

    /// Objects of any kind within a radius that are not frozen, in the order of their ids. Searched
    /// by current positions, not as seen. Objects that moved during the tick may be slightly
    /// outside; [`iter_near`](World::iter_near) is exact.
    pub fn near(&self, at: impl Into<Position>, radius: f32) -> Vec<ObjectId> {
        let mut found = Vec::new();
        self.scene.near(at.into(), Metres(radius), &mut found);
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

/// What rules did besides writing their own objects.
#[derive(Debug)]
pub struct Effects<G: Game> {
    /// New objects with the players they belong to; 0 is the world.
    pub spawned: Vec<(PlayerId, Spawn)>,
    /// Events and their places.
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
    /// Moves the contents of `later` to the end of this list.
    pub(crate) fn append(&mut self, later: &mut Effects<G>) {
        self.spawned.append(&mut later.spawned);
        self.events.append(&mut later.events);
        self.actions.append(&mut later.actions);
    }

    pub fn clear(&mut self) {
        self.spawned.clear();
        self.events.clear();
        self.actions.clear();
    }
}

/// One step of one object: reads and writes its state, reads the world, collects effects.
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
    /// A step of the object with this state, with the randomness of predictions.
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

    /// Replaces the randomness by the world's. `turn` distinguishes several steps of one object in
    /// a tick.
    pub fn with_seed(mut self, seed: WorldSeed, turn: u32) -> StepContext<'a, G> {
        self.dice = Dice::new(seed, self.id, self.world.tick, turn);
        self
    }

    /// The object that steps.
    pub fn id(&self) -> ObjectId {
        self.id
    }

    pub fn tick(&self) -> Tick {
        self.world.tick
    }

    /// All other objects.
    pub fn world(&self) -> World<'a> {
        self.world
    }

    /// A random number in `0.0..1.0`: a function of the world's seed, this object, the tick and the
    /// number of earlier calls in this step, so that rules stay deterministic.
    ///
    /// The owner's seed is secret, and a client that predicts this step draws other numbers. So
    /// random changes to an avatar are mispredicted, and corrected a round trip later. Use random
    /// numbers for what is not predicted: spawns, events, actions, and objects other than the
    /// player's own avatar.
    pub fn random(&mut self) -> f32 {
        // 24 bits: the precision of an `f32` below 1.
        (self.dice.roll() >> 40) as f32 / (1 << 24) as f32
    }

    /// A random number below `bound`; 0 if that is 0. See [`random`](StepContext::random).
    pub fn random_below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.dice.roll()) * u128::from(bound)) >> 64) as u32
    }

    /// The object's current value; `None` if it is of another kind.
    pub fn get<T: Replicate>(&self) -> Option<T> {
        (self.kind.spec.name == T::NAME).then(|| T::get(self.kind, self.lanes))
    }

    /// Writes the object's value; does nothing if it is of another kind.
    pub fn set<T: Replicate>(&mut self, value: &T) {
        if self.kind.spec.name == T::NAME {
            value.put(self.kind, self.lanes);
        }
    }

    /// Removes the object at the end of this step.
    pub fn remove(&mut self) {
        self.removed = true;
    }

    /// Creates an object that belongs to the same player as this one, and leaves with that player;
    /// if this object belongs to the world, the same as [`spawn_world`](StepContext::spawn_world).
    /// It exists from the next tick on. Among peers, only a player's own peer can create that
    /// player's objects: in the step of another player's object the spawn is dropped and counted.
    pub fn spawn<T: Replicate>(&mut self, value: &T) {
        self.spawn_for(PlayerId(self.id.origin()), value);
    }

    /// Creates an object that belongs to the world, and stays when players leave. The server owns
    /// it; among peers, the most interested one. It exists from the next tick on.
    pub fn spawn_world<T: Replicate>(&mut self, value: &T) {
        self.spawn_for(PlayerId(0), value);
    }

    fn spawn_for<T: Replicate>(&mut self, origin: PlayerId, value: &T) {
        let spawn = Spawn::new(self.world.scene.schema(), value);
        self.effects.spawned.extend(spawn.map(|spawn| (origin, spawn)));
    }

    /// Emits an event.
    pub fn event(&mut self, spot: EventArea, event: G::Event) {
        self.effects.events.push((spot, event));
    }

    /// Sends an action to another object, which receives it in the next tick.
    pub fn ask(&mut self, object: ObjectId, action: G::Action) {
        self.effects.actions.push((object, action, Requester::Object(self.id)));
    }

    /// Whether the object was removed in this turn.
    pub fn is_removed(&self) -> bool {
        self.removed
    }
}
