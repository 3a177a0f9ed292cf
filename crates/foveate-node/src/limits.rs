//! What a game declares about its actions and states, and the owner of an object checks before it believes another
//! participant: which requesters may ask for an action, from how far, how often and how much, and which changes of state a
//! rule can bring about.
//!
//! An action that this node's own rules ask for is not checked: the rules ran here. Everything else is, on a server
//! (what players ask) and among peers (also what other peers' rules ask).

use crate::game::{Game, Requester};
use crate::remote_objects::{apart, place_of};
use crate::simulation::Simulation;
use foveate_sync::interest::Line;
use foveate_wire::{Kind, KindId, Micros, ObjectId, Replicate, Schema, Tick};
use std::collections::BTreeMap;

/// Pairs of requester and object whose cooldowns are remembered; beyond, those that are over are forgotten, and
/// if none is, actions with a cooldown are refused.
pub const MAX_COOLDOWNS: usize = 4_096;
/// What was true of a distance or a line of sight so long ago may be acted on: a requester sees others as they
/// were a trip ago, and is itself known as it was a trip ago.
const LAG: Micros = Micros(1_000_000);
/// The same for cooldowns: actions may arrive in a bunch.
const BUNCH: Micros = Micros(1_000_000);
/// Looks at where the object was during [`LAG`].
const SIGHT_LOOKS: u32 = 5;

/// Which requesters an action may come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ActionSource {
    /// Players, and rules in the turn of any object.
    Any,
    /// Players alone.
    Players,
    /// Rules in the turn of an object of one of these kinds.
    Kinds(&'static [KindId]),
}

/// The limits of one action. The default has none.
///
/// ```
/// use foveate_node::limits::{ActionLimits, ActionSource};
/// use foveate_wire::{KindId, Micros};
///
/// let heal = ActionLimits {
///     source: ActionSource::Kinds(&[KindId(1)]),
///     reach: Some(6.0),
///     cooldown: Micros::from_millis(1_000),
///     amount: Some((5, 6)),
///     ..ActionLimits::default()
/// };
/// assert!(!heal.line_of_sight);
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ActionLimits {
    /// Where it may come from.
    pub source: ActionSource,
    /// The greatest distance between the requester (of a player, the avatar) and the object, in world units;
    /// `None`: from anywhere. What both can move within a second is allowed on top.
    pub reach: Option<f32>,
    /// Whether walls ([`Game::visibility`]) between the two forbid it. They must have seen each other at some
    /// moment of the last second.
    pub line_of_sight: bool,
    /// The least time between two such actions of one requester on one object, on average: a second's worth
    /// may come at once.
    pub cooldown: Micros,
    /// How much is asked for, and the most that may be.
    pub amount: Option<(u32, u32)>,
}

impl Default for ActionLimits {
    fn default() -> ActionLimits {
        ActionLimits {
            source: ActionSource::Any,
            reach: None,
            line_of_sight: false,
            cooldown: Micros::ZERO,
            amount: None,
        }
    }
}

/// Why an action was refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ActionFault {
    /// Its requester may not ask for it.
    Source,
    /// It asks for more than there can be.
    Amount,
    /// Its requester is too far away, or not known here.
    Reach,
    /// A wall is between.
    Sight,
    /// It comes too soon after the last.
    Cooldown,
}

impl ActionFault {
    /// All of them.
    pub const ALL: [ActionFault; 5] = [
        ActionFault::Source,
        ActionFault::Amount,
        ActionFault::Reach,
        ActionFault::Sight,
        ActionFault::Cooldown,
    ];

    /// Whether no honest participant's action can have it. The others may be bad luck on a slow link.
    pub fn is_cheating(self) -> bool {
        matches!(self, ActionFault::Source | ActionFault::Amount)
    }
}

/// A change of another peer's own object, as two of its states show it.
#[derive(Clone, Copy)]
pub struct StateChange<'a> {
    /// The object.
    pub object: ObjectId,
    /// Ticks between the two states.
    pub ticks: u32,
    kind: &'a Kind,
    before: &'a [i32],
    after: &'a [i32],
}

impl<'a> StateChange<'a> {
    /// A change between two states of an object; `None` if the schema does not have its kind or the states are
    /// not of that kind.
    pub fn new(
        schema: &'a Schema,
        object: ObjectId,
        [before, after]: [&'a [i32]; 2],
        ticks: u32,
    ) -> Option<StateChange<'a>> {
        let kind = schema.kind(object.kind())?;
        let fits = [before, after].iter().all(|lanes| lanes.len() == kind.lane_count());
        fits.then_some(StateChange { object, ticks, kind, before, after })
    }

    /// Both states; `None` if the object is of another kind.
    pub fn get<T: Replicate>(&self) -> Option<(T, T)> {
        let is_kind = self.kind.spec.name == T::NAME;
        is_kind.then(|| (T::get(self.kind, self.before), T::get(self.kind, self.after)))
    }
}

/// When each requester may act on an object again, as far ahead as its actions so far allow.
#[derive(Debug, Default)]
pub(crate) struct Cooldowns {
    ready: BTreeMap<(ObjectId, ObjectId), Tick>,
}

impl Cooldowns {
    /// Whether an action may be carried out at this tick; if so it counts.
    fn admit(&mut self, pair: (ObjectId, ObjectId), now: Tick, cooldown: u32, bunch: u32) -> bool {
        if self.ready.len() >= MAX_COOLDOWNS && !self.ready.contains_key(&pair) {
            self.ready.retain(|_, ready| ready.is_after(now));
            if self.ready.len() >= MAX_COOLDOWNS {
                return false;
            }
        }
        let ready = self.ready.entry(pair).or_insert(now);
        let from = if ready.is_after(now) { *ready } else { now };
        // What is long ago says nothing: ticks wrap, and a server may have begun anew.
        if from.is_after(now.plus(bunch)) {
            return false;
        }
        *ready = from.plus(cooldown);
        true
    }
}

impl<G: Game> Simulation<G> {
    /// Whether an action keeps to the game's limits, as far as this node can tell. If it has a cooldown and is
    /// allowed, that begins anew: ask once for each action.
    pub fn check_action(
        &mut self,
        object: ObjectId,
        action: &G::Action,
        by: Requester,
    ) -> Result<(), ActionFault> {
        let limits = self.game.limits(action, object);
        let requester = match by {
            Requester::Object(id) => id,
            Requester::Player(player, _) => ObjectId::new(self.game.avatar(), player.0, 0),
        };
        let is_source = match (limits.source, by) {
            (ActionSource::Any, _) | (ActionSource::Players, Requester::Player(..)) => true,
            (ActionSource::Kinds(kinds), Requester::Object(id)) => kinds.contains(&id.kind()),
            _ => false,
        };
        if !is_source {
            return Err(ActionFault::Source);
        }
        if limits.amount.is_some_and(|(asked, most)| asked > most) {
            return Err(ActionFault::Amount);
        }
        self.check_place((requester, object), &limits)?;
        if limits.cooldown > Micros::ZERO {
            let rounds = |span: Micros| (span.0 / self.round.0.max(1)) as u32;
            let (cooldown, bunch) = (rounds(limits.cooldown).max(1), rounds(BUNCH));
            let now = self.publisher.store.tick();
            if !self.cooldowns.admit((requester, object), now, cooldown, bunch) {
                return Err(ActionFault::Cooldown);
            }
        }
        Ok(())
    }

    fn check_place(
        &self,
        (requester, object): (ObjectId, ObjectId),
        limits: &ActionLimits,
    ) -> Result<(), ActionFault> {
        let Some(reach) = limits.reach.or(limits.line_of_sight.then_some(f32::INFINITY)) else {
            return Ok(());
        };
        let (Some(from), Some(to)) = (self.place(requester), self.place(object)) else {
            return Err(ActionFault::Reach);
        };
        let schema = self.publisher.store.schema();
        let speed = |id: ObjectId| schema.kind(id.kind()).map_or(0.0, |kind| kind.spec.max_speed);
        let moved = (speed(requester) + speed(object)) * LAG.as_secs() as f32;
        if apart(from, to) > reach + moved {
            return Err(ActionFault::Reach);
        }
        let walls = limits.line_of_sight.then(|| self.game.visibility()).flatten();
        let Some(walls) = walls else { return Ok(()) };
        let tick = self.publisher.store.tick();
        let sees =
            |to: [f32; 3]| walls.visible(&Line { pivot: Some(requester), object, from, to, tick });
        let back = (LAG.0 / self.round.0.max(1)) as u32;
        let mut places = (0..SIGHT_LOOKS)
            .filter_map(|look| self.place_at(object, tick.minus(back * look / (SIGHT_LOOKS - 1))));
        match sees(to) || places.any(sees) {
            true => Ok(()),
            false => Err(ActionFault::Sight),
        }
    }

    /// Where an object is, as far as this node knows.
    fn place(&self, id: ObjectId) -> Option<[f32; 3]> {
        let store = &self.publisher.store;
        let own = store.find(id).map(|slot| store.position(slot));
        own.or_else(|| self.ghosts.place(id))
    }

    /// Where an object of this node's was.
    fn place_at(&self, id: ObjectId, tick: Tick) -> Option<[f32; 3]> {
        let store = &self.publisher.store;
        let lanes = store.committed_at(store.find(id)?, tick)?;
        place_of(store.schema(), id.kind(), lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_actions_may_come_at_once_and_then_each_waits_its_time() {
        let (mut cooldowns, pair) = (Cooldowns::default(), (ObjectId(1), ObjectId(2)));
        let mut admitted = |tick: u32| cooldowns.admit(pair, Tick(tick), 8, 20);
        assert_eq!(
            (0..10).filter(|_| admitted(100)).count(),
            3,
            "as many as begin within 20 ticks"
        );
        let later: Vec<u32> = (101..300).filter(|tick| admitted(*tick)).collect();
        assert!(later.windows(2).all(|pair| pair[1] - pair[0] == 8), "{later:?}");
        assert!(admitted(10_000) && admitted(5_000_000));
    }

    #[test]
    fn cooldowns_are_bounded() {
        let mut cooldowns = Cooldowns::default();
        let pair = |at: u64| (ObjectId(at), ObjectId(0));
        let admitted = (0..5_000).filter(|at| cooldowns.admit(pair(*at), Tick(1), 8, 20)).count();
        assert_eq!(admitted, MAX_COOLDOWNS);
        assert!(cooldowns.admit(pair(4_999), Tick(9), 8, 20), "those that are over make room");
    }
}
