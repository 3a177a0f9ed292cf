//! Limits that a game declares for its actions and states.
//!
//! The owner of an object checks them before it accepts anything from another participant: which
//! requesters may request an action, from how far, how often and how much, and which changes of
//! state the rules can make. An action requested by this node's own rules is not checked, because
//! they ran here. All others are: on a server those of players, among peers also those of other
//! peers' rules.

use crate::game::{Game, Requester};
use crate::remote_objects::place_of;
use crate::simulation::Simulation;
use foveate_sync::interest::Line;
use foveate_wire::{Kind, KindId, Metres, Micros, ObjectId, Position, Replicate, Schema, Tick};
use std::collections::BTreeMap;

/// Pairs of requester and object whose cooldowns are stored. At the limit, expired ones are
/// dropped; if none has expired, actions with a cooldown are refused.
pub const MAX_COOLDOWNS: usize = 4_096;
/// An action may rely on a distance or line of sight that held this long ago: a requester sees
/// others as they were one latency ago, and others know it as it was one latency ago.
const LAG: Micros = Micros(1_000_000);
/// The same for cooldowns, because actions can arrive in bursts.
const BUNCH: Micros = Micros(1_000_000);
/// How many positions of the object during [`LAG`] are checked for line of sight.
const SIGHT_LOOKS: u32 = 5;

/// What may request an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ActionSource {
    /// Players, and rules in the step of any object.
    Any,
    /// Only players.
    Players,
    /// Rules in the step of an object of one of these kinds.
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
    pub source: ActionSource,
    /// The greatest distance between the requester (for a player, the avatar) and the object, in
    /// world units; `None` for any. The distance that both can move within a second is added.
    pub reach: Option<f32>,
    /// Whether walls ([`Game::visibility`]) between the two forbid the action. A line of sight at
    /// some moment of the last second is enough.
    pub line_of_sight: bool,
    /// The least mean time between such actions of one requester on one object. A second's worth
    /// may arrive at once.
    pub cooldown: Micros,
    /// The amount requested, and the most allowed.
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
    /// The requester is not allowed to request it.
    Source,
    /// It requests more than the most allowed.
    Amount,
    /// The requester is too far away, or not known here.
    Reach,
    /// A wall is between the requester and the object.
    Sight,
    /// It comes too soon after the last.
    Cooldown,
}

impl ActionFault {
    pub const ALL: [ActionFault; 5] = [
        ActionFault::Source,
        ActionFault::Amount,
        ActionFault::Reach,
        ActionFault::Sight,
        ActionFault::Cooldown,
    ];

    /// Whether no honest participant's action can have this fault. The other faults can come from a
    /// slow link.
    pub fn is_cheating(self) -> bool {
        matches!(self, ActionFault::Source | ActionFault::Amount)
    }
}

/// A change of another peer's own object between two of its states.
#[derive(Clone, Copy)]
pub struct StateChange<'a> {
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

/// An object that acts on another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ActingPair {
    requester: ObjectId,
    object: ObjectId,
}

/// The tick from which each requester may act on an object again.
#[derive(Debug, Default)]
pub(crate) struct Cooldowns {
    ready: BTreeMap<ActingPair, Tick>,
}

impl Cooldowns {
    /// Whether an action may be carried out at this tick; if so, it is counted.
    fn admit(&mut self, pair: ActingPair, now: Tick, cooldown: u32, bunch: u32) -> bool {
        if self.ready.len() >= MAX_COOLDOWNS && !self.ready.contains_key(&pair) {
            self.ready.retain(|_, ready| ready.is_after(now));
            if self.ready.len() >= MAX_COOLDOWNS {
                return false;
            }
        }
        let ready = self.ready.entry(pair).or_insert(now);
        let from = if ready.is_after(now) { *ready } else { now };
        // A tick far ahead is from long ago: ticks wrap, and a server may have started anew.
        if from.is_after(now.plus(bunch)) {
            return false;
        }
        *ready = from.plus(cooldown);
        true
    }
}

impl<G: Game> Simulation<G> {
    /// Whether an action keeps the game's limits, as far as this node can tell. An accepted action
    /// starts its cooldown, so call this once per action.
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
        let pair = ActingPair { requester, object };
        self.check_place(pair, &limits)?;
        if limits.cooldown > Micros::ZERO {
            let rounds = |span: Micros| (span.0 / self.round.0.max(1)) as u32;
            let (cooldown, bunch) = (rounds(limits.cooldown).max(1), rounds(BUNCH));
            let now = self.publisher.store.tick();
            if !self.cooldowns.admit(pair, now, cooldown, bunch) {
                return Err(ActionFault::Cooldown);
            }
        }
        Ok(())
    }

    fn check_place(&self, pair: ActingPair, limits: &ActionLimits) -> Result<(), ActionFault> {
        let ActingPair { requester, object } = pair;
        let Some(reach) = limits.reach.or(limits.line_of_sight.then_some(f32::INFINITY)) else {
            return Ok(());
        };
        let (Some(from), Some(to)) = (self.place(requester), self.place(object)) else {
            return Err(ActionFault::Reach);
        };
        let schema = self.publisher.store.schema();
        let speed = |id: ObjectId| schema.kind(id.kind()).map_or(0.0, |kind| kind.spec.max_speed);
        let moved = (speed(requester) + speed(object)) * LAG.as_secs() as f32;
        if from.distance(to) > Metres(reach + moved) {
            return Err(ActionFault::Reach);
        }
        let walls = limits.line_of_sight.then(|| self.game.visibility()).flatten();
        let Some(walls) = walls else { return Ok(()) };
        let tick = self.publisher.store.tick();
        let sees =
            |to: Position| walls.visible(&Line { pivot: Some(requester), object, from, to, tick });
        let back = (LAG.0 / self.round.0.max(1)) as u32;
        let mut places = (0..SIGHT_LOOKS)
            .filter_map(|look| self.place_at(object, tick.minus(back * look / (SIGHT_LOOKS - 1))));
        match sees(to) || places.any(sees) {
            true => Ok(()),
            false => Err(ActionFault::Sight),
        }
    }

    /// An object's current place, as far as this node knows.
    fn place(&self, id: ObjectId) -> Option<Position> {
        let store = &self.publisher.store;
        let own = store.find(id).map(|slot| store.position(slot));
        own.or_else(|| self.ghosts.place(id))
    }

    /// The place of an object that this node owns, at a tick.
    fn place_at(&self, id: ObjectId, tick: Tick) -> Option<Position> {
        let store = &self.publisher.store;
        let lanes = store.committed_at(store.find(id)?, tick)?;
        place_of(store.schema(), id.kind(), lanes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(requester: u64) -> ActingPair {
        ActingPair { requester: ObjectId(requester), object: ObjectId(0) }
    }

    #[test]
    fn a_second_of_actions_may_come_at_once_and_then_each_waits_its_time() {
        let mut cooldowns = Cooldowns::default();
        let mut admitted = |tick: u32| cooldowns.admit(pair(1), Tick(tick), 8, 20);
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
        let admitted = (0..5_000).filter(|at| cooldowns.admit(pair(*at), Tick(1), 8, 20)).count();
        assert_eq!(admitted, MAX_COOLDOWNS);
        assert!(cooldowns.admit(pair(4_999), Tick(9), 8, 20), "those that are over make room");
    }
}
