//! The owner's side of a game: turns, in order, on the objects of a publisher.

mod steps;

use crate::game::{
    Effects, EventArea, Game, Liveness, PlayerId, Requester, Scene, Spawn, StepContext, World,
};
use crate::ids::IdAllocator;
use crate::limits::{ActionFault, Cooldowns};
use crate::random::WorldSeed;
use crate::remote_objects::RemoteObjects;
use foveate_sync::{Publisher, Rounds, Slot, StoreError};
use foveate_wire::{KindId, Micros, ObjectId, OwnerId, Schema, Tick};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use steps::StepPart;

/// Inputs of one player that one tick takes at most; later ones wait.
pub const MAX_INPUTS: usize = 2;
/// Actions that wait for the next tick at most; what is beyond is dropped and counted.
pub const MAX_ACTIONS: usize = 65_536;
/// New objects of one tick at most; what is beyond is dropped and counted.
pub const MAX_SPAWNS: usize = 4_096;

/// Ticks in which all objects are sorted into teams.
const TEAMS_EVERY: u32 = 8;

/// One object acted on another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Interacted {
    /// The object that acted, or the avatar of the player that did.
    pub by: ObjectId,
    /// The object acted on.
    pub with: ObjectId,
    /// The time after which half of their interest in each other is left.
    pub half_life: Micros,
}

/// Runs a game's rules for all objects that this node owns.
pub struct Simulation<G: Game> {
    pub game: Arc<G>,
    /// The objects, and who is told of them. After [`step`](Simulation::step) call its
    /// [`round`](Publisher::round) with the same tick.
    pub publisher: Publisher,
    /// Objects that others own, as far as this node knows them: rules read them like their own.
    pub ghosts: RemoteObjects,
    /// Objects of the store that this node does not step: replicas of what other nodes own. Rules read them, and
    /// actions asked of them go [elsewhere](Simulation::drain_elsewhere).
    pub relayed: BTreeSet<ObjectId>,
    /// Names what rules create. A server that has storage, and a peer, tell it which numbers are free.
    pub ids: IdAllocator,
    /// What [`StepContext::random`] draws from. All zeros at first; the hosts on real links put a secret
    /// one in.
    pub seed: WorldSeed,
    /// As whose the objects are published.
    owner: OwnerId,
    /// What players do in the coming tick, by avatar.
    inputs: BTreeMap<ObjectId, Vec<G::Input>>,
    waiting: Vec<(ObjectId, G::Action, Requester)>,
    /// What is asked of ghosts: for their owners to carry out.
    elsewhere: Vec<(ObjectId, G::Action, Requester)>,
    effects: Effects<G>,
    /// The interactions of the last tick.
    interactions: Vec<Interacted>,
    /// The next serial of the fixed ids of each origin.
    serials: BTreeMap<u32, u32>,
    /// What rules removed in the last tick,
    removed: Vec<ObjectId>,
    /// and what they created.
    created: Vec<ObjectId>,
    turns: Vec<(ObjectId, Slot)>,
    /// What the parts of a tick's turns need, where several threads take them.
    parts: Vec<StepPart<G>>,
    lanes: Vec<i32>,
    dropped: u64,
    dropped_spawns: u64,
    /// One round's length.
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

    /// The same for one of several nodes, such as a peer: its objects are published as the node's, and it
    /// can create objects once [`ids`](Simulation::ids) has numbers.
    pub fn owned_by(mut self, owner: OwnerId) -> Simulation<G> {
        (self.owner, self.ids) = (owner, IdAllocator::for_node(PlayerId(owner.0)));
        self
    }

    /// Puts the objects of a new world into it.
    pub fn populate(&mut self) -> Result<(), StoreError> {
        let game = Arc::clone(&self.game);
        game.populate().iter().try_for_each(|spawn| self.spawn(PlayerId(0), spawn).map(|_| ()))
    }

    /// An object that a player or the world begins with. Its id is the same at every node that spawns
    /// the same objects in the same order.
    pub fn spawn(&mut self, origin: PlayerId, spawn: &Spawn) -> Result<ObjectId, StoreError> {
        let serial = self.serials.entry(origin.0).or_default();
        let id = ObjectId::new(spawn.kind, origin.0, *serial);
        *serial += 1;
        self.restore(id, &spawn.lanes)?;
        Ok(id)
    }

    /// A new object of a player's, or with 0 of the world's, with an id that no other object has or had.
    /// None, and counted, if there is no room for it, or no id: see [`IdAllocator::allocate`].
    pub fn create(&mut self, origin: PlayerId, spawn: &Spawn) -> Option<ObjectId> {
        let created = self.try_create(origin, spawn);
        self.dropped_spawns += u64::from(created.is_none());
        created
    }

    fn try_create(&mut self, origin: PlayerId, spawn: &Spawn) -> Option<ObjectId> {
        loop {
            let id = self.ids.allocate(spawn.kind, origin)?;
            // Numbers repeat after a billion: an old object may still be there.
            if self.ghosts.lanes(id).is_none() && self.publisher.store.find(id).is_none() {
                return self.restore(id, &spawn.lanes).ok().map(|_| id);
            }
        }
    }

    /// An object that was there before, as it was.
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

    /// What a player does in the coming tick. More than [`MAX_INPUTS`] are not taken.
    pub fn input(&mut self, avatar: ObjectId, input: G::Input) -> bool {
        let inputs = self.inputs.entry(avatar).or_default();
        let room = inputs.len() < MAX_INPUTS;
        if room {
            inputs.push(input);
        }
        room
    }

    /// Somebody asks something of an object; its turn is in the coming tick.
    pub fn ask(&mut self, object: ObjectId, action: G::Action, by: Requester) -> bool {
        let room = self.waiting.len() < MAX_ACTIONS;
        if room {
            self.waiting.push((object, action, by));
        }
        room
    }

    /// The same for an action that comes from elsewhere, a player or another peer's rules: it must keep to the
    /// game's limits. `Ok(false)`: there is no room for it.
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

    /// Actions that broke a limit of the game's, by [`ActionFault`].
    pub fn refused_actions(&self) -> &[u64; ActionFault::ALL.len()] {
        &self.refused
    }

    /// Actions that were dropped because too many waited.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Objects that were not created: more than [`MAX_SPAWNS`] in a tick, no id, no room.
    pub fn dropped_spawns(&self) -> u64 {
        self.dropped_spawns
    }

    /// What rules removed in the last tick: a store that keeps objects forgets these.
    pub fn removed(&self) -> &[ObjectId] {
        &self.removed
    }

    /// What rules created in the last tick: a store that keeps objects saves these together with what was removed.
    pub fn created(&self) -> &[ObjectId] {
        &self.created
    }

    /// The world at the end of the last tick.
    pub fn world(&self) -> World<'_> {
        World::new(self, self.publisher.store.tick())
    }

    /// Takes what was asked of ghosts since the last call.
    pub fn drain_elsewhere(&mut self) -> std::vec::Drain<'_, (ObjectId, G::Action, Requester)> {
        self.elsewhere.drain(..)
    }

    /// Takes what was asked and has not had its turn: for whoever carries it out elsewhere.
    pub fn drain_waiting(&mut self) -> std::vec::Drain<'_, (ObjectId, G::Action, Requester)> {
        self.waiting.drain(..)
    }

    /// Calls `found` with everything that is known here, own objects and ghosts alike.
    pub fn each(&self, mut found: impl FnMut(ObjectId, &[i32])) {
        let store = &self.publisher.store;
        store.iter().for_each(|(id, slot)| found(id, store.lanes(slot)));
        // What has just become this node's may still have its ghost.
        let others = self.ghosts.iter().filter(|(id, _)| store.find(*id).is_none());
        others.for_each(|(id, lanes)| found(id, lanes));
    }

    /// One tick: first what was asked, in order, then everybody's turn. `happened` gets the events.
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
                if self.turn(tick, (*id, slot), nth, |game, turn| game.act(turn, action, *by)) {
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

    /// One tick of one object alone, without inputs: for one that came late and has to catch up.
    pub fn step_one(&mut self, tick: Tick, id: ObjectId) {
        let slot = self.publisher.store.find(id).filter(|_| self.game.steps(id.kind()));
        if let Some(slot) = slot
            && self.turn(tick, (id, slot), 0, |game, turn| game.step(turn, &[]))
        {
            self.removed.push(id);
            self.remove_stepped(id);
        }
    }

    /// Puts an eighth of the objects of this node into their teams, and calls `sorted` with those that
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

    /// Players, and the world, of whom it is remembered which fixed ids were given out.
    pub fn remembered_origins(&self) -> usize {
        self.serials.len()
    }

    /// A player is gone, and nothing of theirs is in the world: nothing waits for them, and nothing is remembered.
    pub fn forget_player(&mut self, player: PlayerId) {
        self.inputs.remove(&ObjectId::new(self.game.avatar(), player.0, 0));
        self.serials.remove(&player.0);
    }

    /// One object's turn, and whether the rule removed it: the caller takes it away. `nth`: 0 for the object's step;
    /// actions count from 1, all objects' together, so that two of them on one object draw different numbers.
    fn turn(
        &mut self,
        tick: Tick,
        (id, slot): (ObjectId, Slot),
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
        // The object was found alive, and its lanes are its own: they cannot be refused.
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

/// What a node owns and what it knows of the rest, as one world.
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
            // Ghosts are not rewound: as they are known here is how they were seen here.
            (None, _) => self.ghosts.lanes(id),
        };
        held.map(|held| lanes.copy_from_slice(held)).is_some()
    }

    fn near(&self, at: [f32; 3], radius: f32, found: &mut Vec<ObjectId>) {
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

    fn near(&self, at: [f32; 3], radius: f32, found: &mut Vec<ObjectId>) {
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
