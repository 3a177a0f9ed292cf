//! The rules of play: two teams that take bases, find items and send units.
//!
//! **The path of a shot.** A player's [`Controls`] contain *fire* and the tick that the player saw.
//! In its step the shooter's avatar traces the line through the world as of that tick ([`weapon`]),
//! and sends each avatar or unit hit a [`Action::Hit`]. The victim loses health in its own rule; if
//! it dies, it sends [`Action::Killed`] to the killer and [`Action::Point`] to the match. Each rule
//! writes only its own object.
//!
//! **Where state is stored.** The holder of an item, in the item; the team of a base, in the base;
//! the target of a unit, in the unit. The rules of each kind have their own file in this folder.
//!
//! **Invariant.** Except for respawning, an avatar's step depends only on its own state, its inputs
//! and the map: a client predicts it from replicated lanes to the last bit.

pub mod avatar;
pub mod base;
pub mod contest;
pub mod item;
pub mod kinds;
mod limits;
pub mod unit;
mod ways;
pub mod weapon;

use crate::collision::CollisionMap;
use crate::error::ArenaError;
use crate::fixed::Place;
use crate::geometry::Point;
use crate::graph::NodeIx;
use crate::map::ArenaMap;
use crate::movement::{ArenaInput, TickRate};
use crate::walls::Walls;
use fastrand::Rng;
use foveate_node::game::{Game, PlayerId, Requester, Spawn, StepContext, World};
use foveate_node::limits::{ActionLimits, StateChange};
use foveate_sync::interest::{Occlusion, SetName, SetView, View, Visibility, presets};
use foveate_wire::{KindId, Micros, ObjectId, Replicate, Schema, Tick};
use kinds::{
    AVATAR, Avatar, BASE, Charm, ITEM, Item, MATCH, Match, RoundPhase, TeamBase, UNIT, Unit,
};
use kinds::{Weapon, position, ticks_left};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use ways::Ways;

/// Outer radii of the normal view's zones: the range of most shots, the range of all shots, and the
/// distance from which nothing matters within seconds.
const ZONES: [f32; 3] = [40.0, 70.0, 100.0];
/// How many times sharper the view of an object is right after a hit on it or by it.
const HIT_BOOST: f32 = 2.0;
/// The half-life of that after a hit.
const HIT_HALF_LIFE: Micros = Micros(2_000_000);
/// The half-life after a kill.
const KILL_HALF_LIFE: Micros = Micros(6_000_000);
/// With a line of sight: within this distance walls hide nothing.
const ALWAYS_SEEN: f32 = 8.0;
/// Walls do not hide objects that a step aside of this length would show: a fifth of a second at
/// full speed, in which updates can arrive.
const STEP_ASIDE: f64 = 2.0;
/// How long after their death players may watch team mates, in milliseconds.
const WATCH_AFTER_MS: u32 = 1_000;
/// The most units of one player.
pub const MAX_UNITS: u32 = 4;

/// A player's input in one tick.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Controls {
    pub walk: ArenaInput,
    /// Fires along its yaw, at the world as of this tick, which the player saw.
    pub fire: Option<u32>,
    /// The weapon in hand, or the unit that is steered.
    pub hands: Hands,
}

/// What a player uses: a weapon, or a unit instead of the avatar.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub enum Hands {
    /// The avatar's blaster.
    #[default]
    Blaster,
    /// The avatar's scatter.
    Scatter,
    /// The avatar's lance.
    Lance,
    /// The unit with this number, from 0: `walk` and `fire` steer it, and the avatar stands.
    Unit(u8),
}

impl From<Weapon> for Hands {
    /// The hands for a weapon; the blaster for a weapon that avatars do not hold.
    fn from(weapon: Weapon) -> Hands {
        match weapon {
            Weapon::Blaster | Weapon::Dart => Hands::Blaster,
            Weapon::Scatter => Hands::Scatter,
            Weapon::Lance => Hands::Lance,
        }
    }
}

/// Actions on objects. Players may request `Take`, `Drop`, `Order`, `Follow` and `Stay`; only rules
/// request the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Action {
    /// To an avatar or a unit: it was hit.
    Hit {
        /// Health lost.
        damage: u8,
        weapon: Weapon,
    },
    /// To an avatar: it killed the requester.
    Killed,
    /// To an avatar: it helped to take the base that sends this.
    Captured,
    /// To the match: a team earned a point.
    Point { team: u8 },
    /// To an item: the player's avatar takes it.
    Take,
    /// To an item: its holder drops it.
    Drop,
    /// To a unit: go there and guard.
    Order {
        /// The node to go to.
        target: u16,
    },
    /// To a unit: follow the player's avatar.
    Follow,
    /// To a unit: guard here.
    Stay,
    /// To a unit, by its player's avatar: do this in this tick.
    Steer {
        walk: ArenaInput,
        /// Fires at the world as of this tick.
        fire: Option<u32>,
    },
    /// To an avatar, by a base of its team: heal.
    Heal {
        /// Health gained.
        health: u8,
    },
}

/// Events that change no state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ArenaEvent {
    /// A shot along a line from the shooter.
    Shot {
        player: u32,
        /// 0: the avatar fired. Otherwise the number of the player's unit plus one.
        unit: u8,
        weapon: Weapon,
        /// The direction, in 1/1024 turn.
        yaw: u16,
        /// The length in quarters of a unit: to the object hit, to the wall, or the full range.
        length: u8,
        /// How many objects were hit.
        hits: u8,
    },
    /// An avatar died.
    Died {
        player: u32,
        /// The killer.
        by: u32,
        weapon: Weapon,
    },
    /// An avatar respawned.
    Back { player: u32 },
    /// An item was taken.
    Taken { player: u32, charm: Charm },
    /// An item was dropped.
    Dropped { player: u32 },
    /// A base was taken.
    Captured { team: u8 },
    /// A team lost a base, and no team has it yet.
    Lost,
    /// A round ended.
    Won {
        /// The winning team; 0 for a draw.
        team: u8,
    },
    /// A round began.
    Began { round: u16 },
    /// A unit was shot down.
    Downed {
        player: u32,
        /// The unit's number, from 0.
        unit: u8,
        /// The player that shot it.
        by: u32,
    },
}

/// The parameters of a match.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Setup {
    /// The seed of all randomness: the map, and the rules' draws.
    pub seed: u64,
    /// The length of the map's side, in units.
    pub side: f64,
    /// Obstacles on it.
    pub obstacles: usize,
    /// Bases.
    pub bases: usize,
    /// Items.
    pub items: usize,
    /// Units of each player, at most [`MAX_UNITS`].
    pub units: u32,
    /// The length of a round.
    pub round_seconds: u32,
    /// The length of the break after it.
    pub break_seconds: u32,
    /// Points that end a round at once.
    pub score_limit: u16,
    /// Ticks per second.
    pub rate: TickRate,
    /// Whether enemies behind walls are not sent to players, so that no client can show them.
    pub line_of_sight: bool,
}

impl Setup {
    /// A match for about this many players: one per 1,024 square units, a base for every twelve of
    /// them, an item for every eight.
    pub fn for_players(players: usize, seed: u64) -> Setup {
        let side = (32.0 * (players as f64).sqrt()).clamp(100.0, 1_500.0).floor();
        let bases = (players / 12).clamp(3, 128);
        Setup {
            seed,
            side,
            obstacles: (side * side / 400.0) as usize,
            bases,
            items: (players / 8).clamp(2, 128),
            units: 1,
            round_seconds: 300,
            break_seconds: 10,
            score_limit: u16::try_from(90 * bases + 5 * players).unwrap_or(u16::MAX),
            rate: TickRate::DEFAULT,
            line_of_sight: true,
        }
    }
}

/// The arena as a [`Game`].
///
/// ```
/// use foveate_arena::game::{Arena, Setup};
/// use foveate_node::{Simulation, game::{Game, PlayerId}};
/// use foveate_sync::Rounds;
/// use foveate_wire::{Micros, Tick};
/// use std::sync::Arc;
///
/// let arena = Arc::new(Arena::new(Setup::for_players(8, 1)).unwrap());
/// let mut simulation = Simulation::new(Arc::clone(&arena), Rounds::every(Micros::from_millis(50)));
/// simulation.populate().unwrap();
/// for spawn in arena.welcome(&simulation.world(), PlayerId(1), "ada") {
///     simulation.spawn(PlayerId(1), &spawn).unwrap();
/// }
/// simulation.step(Tick(1), |_, _| {});
/// ```
#[derive(Debug)]
pub struct Arena {
    pub(crate) map: Arc<ArenaMap>,
    pub(crate) collision: CollisionMap,
    pub(crate) setup: Setup,
    pub(crate) ways: Ways,
    schema: Arc<Schema>,
}

impl Arena {
    /// The arena for a setup. Fails only if the arena's own schema is invalid, which is a bug.
    pub fn new(setup: Setup) -> Result<Arena, ArenaError> {
        Arena::on(Arc::new(ArenaMap::generate(setup.seed, setup.side, setup.obstacles)), setup)
    }

    /// The same on an existing map.
    pub fn on(map: Arc<ArenaMap>, setup: Setup) -> Result<Arena, ArenaError> {
        Ok(Arena {
            collision: CollisionMap::new(&map, setup.rate),
            ways: Ways::new(Arc::clone(&map)),
            schema: Schema::of::<(Avatar, TeamBase, Item, Unit, Match)>()?,
            setup: Setup { units: setup.units.min(MAX_UNITS), ..setup },
            map,
        })
    }

    pub fn map(&self) -> &Arc<ArenaMap> {
        &self.map
    }

    /// The walls, as the movement knows them.
    pub fn collision(&self) -> &CollisionMap {
        &self.collision
    }

    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Where a unit is at a tick: computed from its order, the same on every node.
    pub fn unit_at(&self, unit: &Unit, tick: Tick) -> Point {
        unit::place_at(self, unit, tick).0
    }

    /// The nearest node of the graph to which there is a free straight line.
    pub fn node_near(&self, at: Point) -> NodeIx {
        self.ways.node_near(at)
    }

    /// How many ways were searched so far, without those found in memory. Searches are the most
    /// expensive work of the rules.
    pub fn searches(&self) -> u64 {
        self.ways.searches()
    }

    /// The id of a player's unit with this number, from 0.
    pub fn unit(player: u32, which: u32) -> ObjectId {
        ObjectId::new(UNIT, player, 1 + which)
    }

    /// A span in ticks.
    pub fn ticks(&self, milliseconds: u32) -> u32 {
        milliseconds * self.setup.rate.hz() / 1_000
    }

    /// The random numbers of an object's step: the same on every node.
    pub(crate) fn chance(&self, id: ObjectId, tick: Tick) -> Rng {
        let mix = |a: u64, b: u64| (a ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let mut mixer = Rng::with_seed(mix(mix(self.setup.seed, id.0), u64::from(tick.0)));
        Rng::with_seed(mixer.u64(..))
    }

    /// Sets for a view in which walls hide enemies, but not team mates, bases and items.
    fn sets_past_walls(&self, view: &View) -> Vec<SetView> {
        let line_of_sight = Some(Occlusion { looser: None, always: ALWAYS_SEEN });
        let hidden = View { line_of_sight, ..view.clone() };
        let kind = |name: &str| SetView { of: SetName::Kind(name.into()), view: hidden.clone() };
        let team = SetView { of: SetName::Team, view: view.clone() };
        vec![team, kind(Avatar::NAME), kind(Unit::NAME)]
    }

    fn new_base(&self, serial: u32) -> TeamBase {
        let graph = self.map.graph();
        let mut rng = self.chance(ObjectId::new(BASE, 0, serial), Tick(0));
        let to = graph.node_at_share(rng.f64());
        let pos = position(Place::near(graph.node(to).place));
        let to = to.0 as u16;
        TeamBase { pos, team: 0, progress: 0, from: to, to, round: 0 }
    }
}

impl Game for Arena {
    type Input = Controls;
    type Action = Action;
    type Event = ArenaEvent;

    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn avatar(&self) -> KindId {
        AVATAR
    }

    fn populate(&self) -> Vec<Spawn> {
        // The match comes first: see `Match::ID`. Its end is set once the tick of its start is
        // known.
        let (first, second, ends) = (0, 0, u32::MAX / 2);
        let contest = Match { round: 0, first, second, winner: 0, ends, phase: RoundPhase::Play };
        let mut all = vec![Spawn::new(&self.schema, &contest)];
        for serial in 1..=self.setup.bases as u32 {
            all.push(Spawn::new(&self.schema, &self.new_base(serial)));
        }
        for serial in 0..self.setup.items as u32 {
            let charm = if serial.is_multiple_of(2) { Charm::Blade } else { Charm::Shield };
            let pos = item::somewhere(self, serial, Tick(0));
            all.push(Spawn::new(&self.schema, &Item { pos, charm, holder: 0, until: 0, round: 0 }));
        }
        all.into_iter().flatten().collect()
    }

    fn welcome(&self, world: &World<'_>, player: PlayerId, _: &str) -> Vec<Spawn> {
        let all = world.with_frozen().iter::<Avatar>();
        let teams: Vec<u8> = all.map(|(_, avatar)| avatar.team).collect();
        let of = |team: u8| teams.iter().filter(|other| **other == team).count();
        let team = match of(1).cmp(&of(2)) {
            std::cmp::Ordering::Greater => 2,
            std::cmp::Ordering::Less => 1,
            // If several players join in one tick, before any is visible, their ids decide.
            std::cmp::Ordering::Equal => 1 + (player.0 % 2) as u8,
        };
        let round = world.get::<Match>(Match::ID).map_or(0, |contest| contest.round);
        let place = avatar::first_place(self, world, team, round, Avatar::of(player.0));
        let avatar = Avatar { round, ..Avatar::at(place, team) };
        let unit = Unit::at(place, team);
        let units = (0..self.setup.units).map(|_| Spawn::new(&self.schema, &unit));
        std::iter::once(Spawn::new(&self.schema, &avatar)).chain(units).flatten().collect()
    }

    fn step(&self, turn: &mut StepContext<'_, Self>, inputs: &[Controls]) {
        match turn.id().kind() {
            AVATAR => avatar::step(self, turn, inputs),
            BASE => base::step(self, turn),
            ITEM => item::step(self, turn),
            UNIT => unit::step(self, turn),
            MATCH => contest::step(self, turn),
            _ => {}
        }
    }

    fn act(&self, turn: &mut StepContext<'_, Self>, action: &Action, by: Requester) {
        match turn.id().kind() {
            AVATAR => avatar::act(self, turn, action, by),
            ITEM => item::act(self, turn, action, by),
            UNIT => unit::act(self, turn, action, by),
            MATCH => contest::act(turn, action, by),
            _ => {}
        }
    }

    fn limits(&self, action: &Action, object: ObjectId) -> ActionLimits {
        limits::of(action, object)
    }

    fn is_lawful(&self, change: &StateChange<'_>) -> bool {
        limits::is_lawful(self, change)
    }

    fn keeps(&self, kind: KindId) -> bool {
        matches!(kind, AVATAR | BASE | ITEM | UNIT | MATCH)
    }

    /// An order searches a way through the map.
    fn cost(&self, action: &Action) -> u32 {
        match action {
            Action::Order { .. } | Action::Follow => 100,
            _ => 4,
        }
    }

    fn limit_seen(&self, input: Controls, earliest: Tick) -> Controls {
        let raised = |seen: u32| if earliest.is_after(Tick(seen)) { earliest.0 } else { seen };
        Controls { fire: input.fire.map(raised), ..input }
    }

    /// Both keys have the same range in either direction.
    fn allows(&self, input: &Controls) -> bool {
        input.walk.forward > i8::MIN && input.walk.strafe > i8::MIN
    }

    fn view(&self, which: u8) -> Option<View> {
        let [near, middle, far] = ZONES;
        let (mut view, far) = match which {
            0 => (presets::normal(near, middle), far),
            1 => (presets::zoom(near, middle), 2.0 * far),
            _ => return None,
        };
        view.zones[2] = far;
        if self.setup.line_of_sight {
            view.sets = self.sets_past_walls(&view);
        }
        view.interaction_boost = Some(HIT_BOOST);
        Some(view)
    }

    fn visibility(&self) -> Option<Arc<dyn Visibility>> {
        Some(Arc::new(Walls { map: Arc::clone(&self.map), slack: STEP_ASIDE }))
    }

    fn team(&self, world: &World<'_>, object: ObjectId) -> Option<u8> {
        match object.kind() {
            AVATAR => world.get::<Avatar>(object).map(|avatar| avatar.team),
            UNIT => world.get::<Unit>(object).map(|unit| unit.team),
            BASE => world.get::<TeamBase>(object).map(|base| base.team),
            _ => None,
        }
    }

    fn interaction(&self, action: &Action) -> Option<Micros> {
        match action {
            Action::Hit { .. } => Some(HIT_HALF_LIFE),
            Action::Killed => Some(KILL_HALF_LIFE),
            _ => None,
        }
    }

    /// The avatar, and the player's units that stand: the place of a walking unit is not sent.
    fn eyes(&self, world: &World<'_>, avatar: ObjectId, eyes: &mut Vec<ObjectId>) {
        eyes.push(avatar);
        let units = (0..self.setup.units).map(|which| Arena::unit(avatar.origin(), which));
        eyes.extend(units.filter(|id| world.get::<Unit>(*id).is_some_and(|unit| !unit.walks())));
    }

    /// Dead players may watch team mates, a second after their death. A player who can act only
    /// receives what the avatar and the player's own units see.
    fn may_watch(&self, world: &World<'_>, avatar: ObjectId, object: ObjectId) -> bool {
        let (own, other) = (world.get::<Avatar>(avatar), world.get::<Avatar>(object));
        own.zip(other).is_some_and(|(own, other)| {
            let away = self.ticks(avatar::AWAY_MS);
            let fell = away.saturating_sub(ticks_left(own.ready, world.tick(), away));
            own.team == other.team && !own.is_alive() && fell >= self.ticks(WATCH_AFTER_MS)
        })
    }
}

#[cfg(test)]
mod tests;
