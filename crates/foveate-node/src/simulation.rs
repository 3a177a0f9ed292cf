//! Runs the rules of a game on the objects that a node owns.

mod steps;

use crate::game::{
    Effects, EventArea, Game, Liveness, PlayerId, Requester, Scene, Spawn, StepContext, World,
};
use crate::ids::IdAllocator;
use crate::limits::{ActionFault, Cooldowns};
use crate::random::WorldSeed;
use crate::remote_objects::RemoteObjects;
use foveate_sync::{Publisher, Rounds, Slot, StoreError};
use foveate_wire::{KindId, Metres, Micros, ObjectId, OwnerId, Position, Schema, Tick};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use steps::StepPart;

/// The most inputs of one player that a tick uses; later ones wait.
pub const MAX_INPUTS: usize = 2;
/// The most actions that wait for the next tick; others are dropped and counted.
pub const MAX_ACTIONS: usize = 65_536;
/// The most objects created in one tick; others are dropped and counted.
pub const MAX_SPAWNS: usize = 4_096;

/// Ticks in which every object's team is updated once.
const TEAMS_EVERY: u32 = 8;

/// One object acted on another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interacted {
    /// The object that acted, or the avatar of the player that did.
    pub by: ObjectId,
    /// The object acted on.
    pub with: ObjectId,
    /// The half-life of their interest in each other.
    pub half_life: Micros,
}

/// Runs a game's rules for all objects that this node owns.
pub struct Simulation<G: Game> {
    pub game: Arc<G>,
    /// The objects and their observers. After [`step`](Simulation::step) call its
    /// [`round`](Publisher::round) with the same tick.
    pub publisher: Publisher,
    /// Objects owned elsewhere, as far as this node knows them. Rules read them like their own.
    pub ghosts: RemoteObjects,
    /// Objects of the store that this node does not step: replicas of what other nodes own. Rules
    /// read them, and actions on them go to [`drain_elsewhere`](Simulation::drain_elsewhere).
    pub relayed: BTreeSet<ObjectId>,
    /// Ids for the objects that rules create. A peer, or a server with storage, sets which numbers
    /// are free.
    pub ids: IdAllocator,
    /// The seed of [`StepContext::random`]. All zeros at first; hosts on real links set a secret
    /// one.
    pub seed: WorldSeed,
    /// The owner under which the objects are published.
    owner: OwnerId,
    /// The inputs for the coming tick, by avatar.
    inputs: BTreeMap<ObjectId, Vec<G::Input>>,
    waiting: Vec<(ObjectId, G::Action, Requester)>,
    /// Actions on objects owned elsewhere, for their owners.
    elsewhere: Vec<(ObjectId, G::Action, Requester)>,
    effects: Effects<G>,
    /// The interactions of the last tick.
    interactions: Vec<Interacted>,
    /// The next serial of the fixed ids of each origin.
    serials: BTreeMap<u32, u32>,
    /// The objects that rules removed in the last tick.
    removed: Vec<ObjectId>,
    /// The objects that rules created in the last tick.
    created: Vec<ObjectId>,
    turns: Vec<(ObjectId, Slot)>,
    /// Buffers for the parts of a tick, if several threads run the steps.
    parts: Vec<StepPart<G>>,
    lanes: Vec<i32>,
    dropped: u64,
    dropped_spawns: u64,
    pub(crate) round: Micros,
    pub(crate) cooldowns: Cooldowns,
    refused: [u64; ActionFault::ALL.len()],
}

impl<G: Game> Simulation<G> {
    /// An empty world.
    pub fn new(game: Arc<G>, rounds: Rounds) -> Simulation<G> {
        Simulation {
            publisher: Publisher::new(Arc::clone(game.schema()), rounds),
            ghosts: RemoteObjects::new(Arc::clone(game.schema())),
            relayed: BTreeSet::new(),
            ids: IdAllocator::for_server(0..u64::MAX),
            seed: WorldSeed::default(),
            owner: OwnerId(0),
            game,
            inputs: BTreeMap::new(),
            waiting: Vec::new(),
            elsewhere: Vec::new(),
            effects: Effects::default(),
            interactions: Vec::new(),
            serials: BTreeMap::new(),
            removed: Vec::new(),
            created: Vec::new(),
            turns: Vec::new(),
            parts: Vec::new(),
            lanes: Vec::new(),
            dropped: 0,
            dropped_spawns: 0,
            round: rounds.length,
            cooldowns: Cooldowns::default(),
            refused: [0; ActionFault::ALL.len()],
        }
    }

    /// The same for one of several nodes, such as a peer: its objects are published under `owner`,
    /// and it can create objects once [`ids`](Simulation::ids) has numbers.
    pub fn owned_by(mut self, owner: OwnerId) -> Simulation<G> {
        (self.owner, self.ids) = (owner, IdAllocator::for_node(PlayerId(owner.0)));
        self
    }

    /// Spawns the objects of a new world.
    pub fn populate(&mut self) -> Result<(), StoreError> {
        let game = Arc::clone(&self.game);
        game.populate().iter().try_for_each(|spawn| self.spawn(PlayerId(0), spawn).map(|_| ()))
    }

    /// Spawns an object that a player or the world starts with. Its id is the same at every node
    /// that spawns the same objects in the same order.
    pub fn spawn(&mut self, origin: PlayerId, spawn: &Spawn) -> Result<ObjectId, StoreError> {
        let serial = self.serials.entry(origin.0).or_default();
        let id = ObjectId::new(spawn.kind, origin.0, *serial);
        *serial += 1;
        self.restore(id, &spawn.lanes)?;
        Ok(id)
    }

    /// Creates an object of a player, or of the world if `origin` is 0, with an id that no other
    /// object has or had. `None`, and counted, if there is no room or no id: see
    /// [`IdAllocator::allocate`].
    pub fn create(&mut self, origin: PlayerId, spawn: &Spawn) -> Option<ObjectId> {
        let created = self.try_create(origin, spawn);
        self.dropped_spawns += u64::from(created.is_none());
        created
    }

    fn try_create(&mut self, origin: PlayerId, spawn: &Spawn) -> Option<ObjectId> {
        loop {
            let id = self.ids.allocate(spawn.kind, origin)?;
            // Numbers repeat after a billion: an old object may still exist.
            if self.ghosts.lanes(id).is_none() && self.publisher.store.find(id).is_none() {
                return self.restore(id, &spawn.lanes).ok().map(|_| id);
            }
        }
    }

    /// Restores an object with its former id and state.
    pub fn restore(&mut self, id: ObjectId, lanes: &[i32]) -> Result<Slot, StoreError> {
        if !id.is_minted() {
            let serial = self.serials.entry(id.origin()).or_default();
            *serial = (*serial).max(id.serial() + 1);
        }
        self.publisher.store.create_lanes(id, self.owner, lanes)
    }

    /// A player's avatar, if it is in the world.
    pub fn avatar(&self, player: PlayerId) -> Option<Slot> {
        self.publisher.store.find(self.game.avatar_of(player))
    }

    /// Adds an input for the coming tick. False beyond [`MAX_INPUTS`].
    pub fn input(&mut self, avatar: ObjectId, input: G::Input) -> bool {
        let inputs = self.inputs.entry(avatar).or_default();
        let room = inputs.len() < MAX_INPUTS;
        if room {
            inputs.push(input);
        }
        room
    }

    /// Queues an action on an object for the coming tick. False if there is no room.
    pub fn ask(&mut self, object: ObjectId, action: G::Action, by: Requester) -> bool {
        let room = self.waiting.len() < MAX_ACTIONS;
        if room {
            self.waiting.push((object, action, by));
        }
        room
    }

    /// The same for an action from elsewhere, of a player or of another peer's rules: it must keep
    /// the game's limits. `Ok(false)`: there is no room for it.
    pub fn request(
        &mut self,
        object: ObjectId,
        action: G::Action,
        by: Requester,
    ) -> Result<bool, ActionFault> {
        if self.publisher.store.find(object).is_some() {
            let checked = self.check_action(object, &action, by);
            checked.inspect_err(|fault| self.refused[*fault as usize] += 1)?;
        }
        Ok(self.ask(object, action, by))
    }

    /// How many actions broke a limit of the game, by [`ActionFault`].
    pub fn refused_actions(&self) -> &[u64; ActionFault::ALL.len()] {
        &self.refused
    }

    /// How many actions were dropped because too many waited.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How many objects were not created: more than [`MAX_SPAWNS`] in a tick, no id, or no room.
    pub fn dropped_spawns(&self) -> u64 {
        self.dropped_spawns
    }

    /// The objects that rules removed in the last tick; storage deletes them.
    pub fn removed(&self) -> &[ObjectId] {
        &self.removed
    }

    /// The objects that rules created in the last tick; storage saves them in the transaction that
    /// deletes the removed ones.
    pub fn created(&self) -> &[ObjectId] {
        &self.created
    }

    /// The world at the end of the last tick.
    pub fn world(&self) -> World<'_> {
        World::new(self, self.publisher.store.tick())
    }

    /// Takes the actions on objects owned elsewhere since the last call.
    pub fn drain_elsewhere(&mut self) -> std::vec::Drain<'_, (ObjectId, G::Action, Requester)> {
        self.elsewhere.drain(..)
    }

    /// Takes the actions that still wait, for another node to carry out.
    pub fn drain_waiting(&mut self) -> std::vec::Drain<'_, (ObjectId, G::Action, Requester)> {
        self.waiting.drain(..)
    }

    /// Calls `found` with every known object, owned here or elsewhere.
    pub fn each(&self, mut found: impl FnMut(ObjectId, &[i32])) {
        let store = &self.publisher.store;
        store.iter().for_each(|(id, slot)| found(id, store.lanes(slot)));
        // An object that has just become this node's may still have a replica.
        let others = self.ghosts.iter().filter(|(id, _)| store.find(*id).is_none());
        others.for_each(|(id, lanes)| found(id, lanes));
    }

    /// Runs one tick: first the waiting actions in order, then the step of each object. `happened`
    /// receives the events.
    pub fn step(&mut self, tick: Tick, mut happened: impl FnMut(EventArea, G::Event)) {
        self.removed.clear();
        let asked = std::mem::take(&mut self.waiting);
        self.interactions.clear();
        for (nth, (id, action, by)) in (1..).zip(&asked) {
            let here = self.publisher.store.find(*id).filter(|_| !self.relayed.contains(id));
            if let Some(slot) = here {
                if let Some(half_life) = self.game.interaction(action) {
                    let by = match *by {
                        Requester::Object(object) => object,
                        Requester::Player(player, _) => self.game.avatar_of(player),
                    };
                    self.interactions.push(Interacted { by, with: *id, half_life });
                }
                if self.turn(tick, *id, slot, nth, |game, turn| game.act(turn, action, *by)) {
                    self.removed.push(*id);
                    self.remove_stepped(*id);
                }
            } else if self.relayed.contains(id) || self.ghosts.lanes(*id).is_some() {
                self.elsewhere.push((*id, action.clone(), *by));
            }
        }
        self.waiting = asked;
        self.waiting.clear();
        let mut turns = std::mem::take(&mut self.turns);
        turns.clear();
        let own = self.publisher.store.iter().filter(|(id, _)| !self.relayed.contains(id));
        turns.extend(own.filter(|(id, _)| self.game.steps(id.kind())));
        let mut inputs = std::mem::take(&mut self.inputs);
        self.step_each(tick, &mut turns, &inputs);
        inputs.values_mut().for_each(Vec::clear);
        (self.turns, self.inputs) = (turns, inputs);
        self.settle(&mut happened);
    }

    /// Runs one tick of one object without inputs, for an object that arrived late and has to catch
    /// up.
    pub fn step_one(&mut self, tick: Tick, id: ObjectId) {
        let slot = self.publisher.store.find(id).filter(|_| self.game.steps(id.kind()));
        if let Some(slot) = slot
            && self.turn(tick, id, slot, 0, |game, turn| game.step(turn, &[]))
        {
            self.removed.push(id);
            self.remove_stepped(id);
        }
    }

    /// Updates the teams of an eighth of this node's objects, and calls `sorted` with those that
    /// changed.
    pub fn sort_teams(&mut self, tick: Tick, mut sorted: impl FnMut(&mut Publisher, ObjectId, u8)) {
        let mut turns = std::mem::take(&mut self.turns);
        turns.clear();
        let all = self.publisher.store.iter();
        turns.extend(all.filter(|(_, slot)| (slot.0 ^ tick.0).is_multiple_of(TEAMS_EVERY)));
        for (id, slot) in &turns {
            let Some(team) = self.game.team(&self.world(), *id) else { continue };
            if self.publisher.store.team(*slot) != team {
                let set = self.publisher.store.set_team(*slot, team);
                debug_assert!(set.is_ok(), "the object was found alive");
                sorted(&mut self.publisher, *id, team);
            }
        }
        self.turns = turns;
    }

    /// The interactions of the last tick.
    pub fn interactions(&self) -> &[Interacted] {
        &self.interactions
    }

    /// The number of origins (players, and the world) whose next fixed id is stored.
    pub fn remembered_origins(&self) -> usize {
        self.serials.len()
    }

    /// Forgets a player who is gone and has no objects in the world: waiting inputs, and the next
    /// fixed id.
    pub fn forget_player(&mut self, player: PlayerId) {
        self.inputs.remove(&ObjectId::new(self.game.avatar(), player.0, 0));
        self.serials.remove(&player.0);
    }

    /// Runs one object's step or action; returns whether the rule removed it, and the caller then
    /// removes it. `nth` is 0 for the step; actions count from 1 over all objects, so that two
    /// actions on one object draw different random numbers.
    fn turn(
        &mut self,
        tick: Tick,
        id: ObjectId,
        slot: Slot,
        nth: u32,
        rule: impl FnOnce(&G, &mut StepContext<'_, G>),
    ) -> bool {
        let Simulation { game, publisher, ghosts, effects, lanes, seed, .. } = self;
        let kind = publisher.store.kind(slot);
        lanes.clear();
        lanes.extend_from_slice(publisher.store.lanes(slot));
        let whole = Whole { publisher, ghosts };
        let turn = StepContext::new(id, kind, lanes, World::new(&whole, tick), effects);
        let mut turn = turn.with_seed(*seed, nth);
        rule(game, &mut turn);
        let removed = turn.is_removed();
        // The object exists and the lanes are its own, so they cannot be refused.
        let written = publisher.store.set_lanes(slot, lanes);
        debug_assert!(written.is_ok());
        removed
    }

    fn settle(&mut self, happened: &mut impl FnMut(EventArea, G::Event)) {
        let mut effects = std::mem::take(&mut self.effects);
        effects.events.drain(..).for_each(|(spot, event)| happened(spot, event));
        self.dropped_spawns += effects.spawned.len().saturating_sub(MAX_SPAWNS) as u64;
        self.created.clear();
        for (origin, spawn) in effects.spawned.drain(..).take(MAX_SPAWNS) {
            let created = self.create(origin, &spawn);
            self.created.extend(created);
        }
        for (object, action, by) in effects.actions.drain(..) {
            self.dropped += u64::from(!self.ask(object, action, by));
        }
        self.effects = effects;
    }
}

/// The objects that a node owns and those that it knows, as one world.
struct Whole<'a> {
    publisher: &'a Publisher,
    ghosts: &'a RemoteObjects,
}

impl Scene for Whole<'_> {
    fn schema(&self) -> &Schema {
        self.publisher.store.schema()
    }

    fn read(&self, id: ObjectId, tick: Option<Tick>, lanes: &mut [i32]) -> bool {
        let store = &self.publisher.store;
        let held = match (store.find(id), tick) {
            (Some(slot), Some(tick)) => store.committed_at(slot, tick),
            (Some(slot), None) => store.committed(slot),
            // Replicas are not rewound: their current state is what was shown here.
            (None, _) => self.ghosts.lanes(id),
        };
        held.map(|held| lanes.copy_from_slice(held)).is_some()
    }

    fn near(&self, at: Position, radius: Metres, found: &mut Vec<ObjectId>) {
        self.publisher.around(at, radius, |id| found.push(id));
        self.ghosts.around(at, radius, |id| found.push(id));
        found.sort_unstable();
        found.dedup();
    }

    fn of_kind(&self, kind: KindId, found: &mut Vec<ObjectId>) {
        found.extend(self.publisher.store.of_kind(kind));
        if !self.ghosts.is_empty() {
            found.extend(self.ghosts.of_kind(kind));
            found.sort_unstable();
            found.dedup();
        }
    }

    fn liveness(&self, id: ObjectId) -> Liveness {
        match self.ghosts.is_empty() || self.publisher.store.find(id).is_some() {
            true => Liveness::Live,
            false => self.ghosts.liveness(id),
        }
    }
}

impl<G: Game> Scene for Simulation<G> {
    fn schema(&self) -> &Schema {
        self.publisher.store.schema()
    }

    fn read(&self, id: ObjectId, tick: Option<Tick>, lanes: &mut [i32]) -> bool {
        self.whole().read(id, tick, lanes)
    }

    fn near(&self, at: Position, radius: Metres, found: &mut Vec<ObjectId>) {
        self.whole().near(at, radius, found);
    }

    fn of_kind(&self, kind: KindId, found: &mut Vec<ObjectId>) {
        self.whole().of_kind(kind, found);
    }

    fn liveness(&self, id: ObjectId) -> Liveness {
        self.whole().liveness(id)
    }
}

impl<G: Game> Simulation<G> {
    fn whole(&self) -> Whole<'_> {
        Whole { publisher: &self.publisher, ghosts: &self.ghosts }
    }
}

#[cfg(test)]
mod tests;
