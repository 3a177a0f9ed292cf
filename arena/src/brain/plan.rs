//! A bot's goal and its way there.

use super::{DrawnTime, Situation};
use crate::game::kinds::{Item, TAKEN, TeamBase, point};
use crate::game::{Action, Arena, base, item};
use crate::geometry::Point;
use fastrand::Rng;
use foveate_wire::ObjectId;

/// How long a plan is kept.
const KEPT: DrawnTime = DrawnTime { least_ms: 5_000, more_ms: 6_000 };
/// How long a bot moves in one direction at a base.
const MILL: DrawnTime = DrawnTime { least_ms: 300, more_ms: 900 };
/// A corner is passed at the first distance; from the second it may be cut.
const PASS: f64 = 1.5;
const CUT: f64 = 7.0;
/// Ticks between two checks of the goal and of corners that can be cut.
const LOOK_TICKS: u32 = 4;
/// How much less attractive a base is that is ours already, in units of way.
const OURS: f64 = 120.0;
/// The most that is added at random, in units of way, so that not all bots go to the same base.
const WHIM: f64 = 40.0;
/// How long a bot stays out of a fight.
const RETREAT: DrawnTime = DrawnTime { least_ms: 2_500, more_ms: 3_000 };
/// A base farther away than this is no shelter.
const HEAL_DETOUR: f64 = 45.0;
/// Items farther away than this are ignored.
const ITEM_DETOUR: f64 = 35.0;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Goal {
    Base(ObjectId),
    /// A base that is ours already, to defend it.
    Guard(ObjectId),
    Item(ObjectId),
    /// A base of ours, to heal.
    Heal(ObjectId),
    /// A place out of sight.
    Hide,
    Anywhere,
}

#[derive(Default, Debug)]
pub(super) struct Plan {
    goal: Option<(Goal, Point)>,
    corners: Vec<Point>,
    /// The next corner; after the last one, the bot has arrived.
    leg: usize,
    until: u32,
    /// At the goal: where to move next, and until when.
    mill: Option<(Point, u32)>,
}

impl Plan {
    /// Drops the plan; the next tick makes a new one.
    pub fn give_up(&mut self) {
        (self.goal, self.mill) = (None, None);
    }

    /// Whether the plan leads out of a fight.
    pub fn is_retreat(&self) -> bool {
        matches!(self.goal, Some((Goal::Heal(_) | Goal::Hide, _)))
    }

    /// The final goal.
    pub fn goal(&self) -> Option<Point> {
        self.goal.map(|(_, at)| at)
    }

    /// Where to walk now; `None` if so near that the bot would only tremble.
    pub fn next(&self, here: Point) -> Option<Point> {
        let next = match self.corners.get(self.leg) {
            Some(corner) => *corner,
            None => self.mill?.0,
        };
        (here.distance(next) > 0.5).then_some(next)
    }

    pub fn follow(
        &mut self,
        now: &Situation<'_>,
        rng: &mut Rng,
        actions: &mut Vec<(ObjectId, Action)>,
    ) {
        let Situation { arena, age, .. } = *now;
        let looks = age.is_multiple_of(LOOK_TICKS);
        if looks && self.is_done(now) {
            self.give_up();
        }
        if self.goal.is_none() || age >= self.until {
            self.choose(now, rng);
            self.until = age + KEPT.ticks(arena, rng);
        }
        let here = now.me.point();
        self.pass_corners(arena, here, looks);
        if self.leg >= self.corners.len() {
            self.stay(now, rng);
        }
        if let Some((Goal::Item(item), at)) = self.goal
            && looks
            && here.distance(at) < item::REACH
        {
            actions.push((item, Action::Take));
        }
    }

    /// Whether nothing is left to do here: the base is ours, or the item is taken.
    fn is_done(&mut self, now: &Situation<'_>) -> bool {
        let Some((goal, at)) = &mut self.goal else { return true };
        let me = now.me;
        // Bases and items stay where they were last seen.
        let world = now.world.with_frozen();
        match *goal {
            Goal::Base(id) => match world.get::<TeamBase>(id) {
                Some(base) => {
                    *at = point(base.pos);
                    base.team == me.team && base.progress.abs() == TAKEN
                }
                None => true,
            },
            Goal::Guard(id) | Goal::Heal(id) => match world.get::<TeamBase>(id) {
                Some(base) => {
                    *at = point(base.pos);
                    let well = matches!(goal, Goal::Heal(_)) && me.health >= super::WELL;
                    base.team != me.team || well
                }
                None => true,
            },
            Goal::Hide => false,
            Goal::Item(id) => world.get::<Item>(id).is_none_or(|item| item.holder != 0),
            Goal::Anywhere => self.leg >= self.corners.len(),
        }
    }

    /// The most attractive goal, considering the way to it.
    fn choose(&mut self, now: &Situation<'_>, rng: &mut Rng) {
        let Situation { arena, world, id, me, .. } = *now;
        let here = me.point();
        let world = world.with_frozen();
        let mut best = (f64::INFINITY, Goal::Anywhere, here);
        let mut consider = |cost: f64, goal: Goal, at: Point| {
            if cost < best.0 {
                best = (cost, goal, at);
            }
        };
        for (base, state) in world.iter::<TeamBase>() {
            let at = point(state.pos);
            let is_ours = state.team == me.team && state.progress.abs() == TAKEN;
            let cost = here.distance(at) + rng.f64() * WHIM + if is_ours { OURS } else { 0.0 };
            consider(cost, if is_ours { Goal::Guard(base) } else { Goal::Base(base) }, at);
        }
        let items: Vec<(ObjectId, Item)> = world.iter::<Item>().collect();
        if items.iter().all(|(_, item)| item.holder != id.origin()) {
            for (item, state) in items.iter().filter(|(_, item)| item.holder == 0) {
                let at = point(state.pos);
                if here.distance(at) < ITEM_DETOUR {
                    consider(here.distance(at) * 0.7, Goal::Item(*item), at);
                }
            }
        }
        let (cost, goal, mut at) = best;
        if cost.is_infinite() {
            let graph = arena.map().graph();
            at = graph.node(graph.node_at_share(rng.f64())).place;
        }
        self.set_out(arena, here, goal, at);
    }

    /// Leaves a fight: to a base of ours if one is near, or to a place that the enemy does not see.
    pub fn retreat(&mut self, now: &Situation<'_>, foe: Point, rng: &mut Rng) {
        let Situation { arena, world, me, age, .. } = *now;
        let here = me.point();
        let bases = world.with_frozen().iter::<TeamBase>();
        let mut best = (HEAL_DETOUR, None);
        for (id, base) in bases.filter(|(_, base)| base.team == me.team) {
            let at = point(base.pos);
            // Not past the enemy.
            let far = here.distance(at);
            if far < best.0 && far < foe.distance(at) {
                best = (far, Some((Goal::Heal(id), at)));
            }
        }
        let hidden = |at: &Point| !arena.map().line_of_sight(foe, *at);
        let hide = || arena.ways.near(here).find(hidden).map(|at| (Goal::Hide, at));
        let Some((goal, at)) = best.1.or_else(hide) else { return };
        self.set_out(arena, here, goal, at);
        self.until = age + RETREAT.ticks(arena, rng);
    }

    fn set_out(&mut self, arena: &Arena, here: Point, goal: Goal, at: Point) {
        self.goal = Some((goal, at));
        (self.leg, self.mill) = (0, None);
        self.corners.clear();
        if !arena.map().is_walkable(here, at) {
            arena.ways.between(here, at, &mut self.corners);
        } else {
            self.corners.push(at);
        }
    }

    fn pass_corners(&mut self, arena: &Arena, here: Point, looks: bool) {
        let Some(corner) = self.corners.get(self.leg) else { return };
        let distance = here.distance(*corner);
        let next = self.corners.get(self.leg + 1);
        let cuts = looks
            && distance < CUT
            && next.is_some_and(|next| arena.map().is_walkable(here, *next));
        let is_last = next.is_none();
        let arrives = is_last
            && matches!(self.goal, Some((Goal::Base(_) | Goal::Guard(_) | Goal::Heal(_), at)) if here.distance(at) < base::RADIUS * 0.5);
        if distance < PASS || cuts || arrives {
            self.leg += 1;
        }
    }

    /// Stays at the goal but keeps moving, because a still target is shot.
    fn stay(&mut self, now: &Situation<'_>, rng: &mut Rng) {
        let Situation { arena, me, age, .. } = *now;
        let here = me.point();
        if self.mill.is_some_and(|(_, until)| age < until) {
            return;
        }
        let Some((_, at)) = self.goal else { return };
        let offset = |rng: &mut Rng| (rng.f64() * 2.0 - 1.0) * base::RADIUS * 0.65;
        let to = Point::new(at.x + offset(rng), at.y + offset(rng));
        let to = if arena.map().is_walkable(here, to) { arena.map().clamp(to, 1.5) } else { at };
        let span = MILL.ticks(arena, rng);
        self.mill = Some((to, age + span));
    }
}
