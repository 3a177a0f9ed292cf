//! Where a bot wants to go, and how it gets there.

use crate::game::kinds::{Avatar, Item, TAKEN, TeamBase, point};
use crate::game::{Action, Arena, base, item};
use crate::geometry::Point;
use fastrand::Rng;
use foveate_node::game::World;
use foveate_wire::ObjectId;

/// For how long a plan is kept, in milliseconds: the least, and what may be added.
const KEPT_MS: (u32, u32) = (5_000, 6_000);
/// For how long a bot goes in one direction at a base, in milliseconds.
const MILL_MS: (u32, u32) = (300, 900);
/// A corner counts as passed at this distance; from the other one it may be cut.
const PASS: f64 = 1.5;
const CUT: f64 = 7.0;
/// Ticks between two looks whether a corner can be cut, and how the goal does.
const LOOK_TICKS: u32 = 4;
/// What makes a base less attractive, in units of way: that it is ours already, and chance, so that
/// not all go to the same one.
const OURS: f64 = 120.0;
const WHIM: f64 = 40.0;
/// For how long a bot stays out of a fight, in milliseconds: the least, and what may be added.
const RETREAT_MS: (u32, u32) = (2_500, 3_000);
/// Bases farther away than this are no shelter.
const HEAL_DETOUR: f64 = 45.0;
/// Items farther away than this are left alone.
const ITEM_DETOUR: f64 = 35.0;

#[derive(Clone, Copy, PartialEq, Debug)]
enum Goal {
    Base(ObjectId),
    /// A base that is ours already, to keep it so.
    Guard(ObjectId),
    Item(ObjectId),
    /// A base of ours, to get well.
    Heal(ObjectId),
    /// Behind something.
    Hide,
    Anywhere,
}

#[derive(Default, Debug)]
pub(super) struct Plan {
    goal: Option<(Goal, Point)>,
    corners: Vec<Point>,
    /// The corner that it heads for; past the last one, it is there.
    leg: usize,
    until: u32,
    /// At the goal: where to go next, and until when.
    mill: Option<(Point, u32)>,
}

impl Plan {
    /// Drops the plan; the next tick makes another.
    pub fn give_up(&mut self) {
        (self.goal, self.mill) = (None, None);
    }

    /// Whether it leads out of a fight.
    pub fn is_retreat(&self) -> bool {
        matches!(self.goal, Some((Goal::Heal(_) | Goal::Hide, _)))
    }

    /// Where it all leads.
    pub fn goal(&self) -> Option<Point> {
        self.goal.map(|(_, at)| at)
    }

    /// Where to walk now; nowhere, when so near that it would only tremble.
    pub fn next(&self, here: Point) -> Option<Point> {
        let next = match self.corners.get(self.leg) {
            Some(corner) => *corner,
            None => self.mill?.0,
        };
        (here.distance(next) > 0.5).then_some(next)
    }

    pub fn follow(
        &mut self,
        arena: &Arena,
        world: &World<'_>,
        (id, me): (ObjectId, &Avatar),
        (rng, age): (&mut Rng, u32),
        actions: &mut Vec<(ObjectId, Action)>,
    ) {
        let looks = age.is_multiple_of(LOOK_TICKS);
        if looks && self.is_done(world, me) {
            self.give_up();
        }
        if self.goal.is_none() || age >= self.until {
            self.choose(arena, world, (id, me), rng);
            self.until = age + arena.ticks(KEPT_MS.0 + rng.u32(0..=KEPT_MS.1));
        }
        let here = me.point();
        self.pass_corners(arena, here, looks);
        if self.leg >= self.corners.len() {
            self.stay(arena, here, (rng, age));
        }
        if let Some((Goal::Item(item), at)) = self.goal
            && looks
            && here.distance(at) < item::REACH
        {
            actions.push((item, Action::Take));
        }
    }

    /// Whether there is nothing more to do here: a base is ours, an item somebody's.
    fn is_done(&mut self, world: &World<'_>, me: &Avatar) -> bool {
        let Some((goal, at)) = &mut self.goal else { return true };
        // Bases and items stay where they were seen.
        let world = world.with_frozen();
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

    /// The most attractive goal, by the way to it.
    fn choose(
        &mut self,
        arena: &Arena,
        world: &World<'_>,
        (id, me): (ObjectId, &Avatar),
        rng: &mut Rng,
    ) {
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
        self.set_out(arena, here, (goal, at));
    }

    /// Leaves a fight: to a base of ours, if one is near; or to where the enemy does not see it.
    pub fn retreat(
        &mut self,
        arena: &Arena,
        world: &World<'_>,
        me: &Avatar,
        (foe, rng, age): (Point, &mut Rng, u32),
    ) {
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
        let Some(goal) = best.1.or_else(hide) else { return };
        self.set_out(arena, here, goal);
        self.until = age + arena.ticks(RETREAT_MS.0 + rng.u32(0..=RETREAT_MS.1));
    }

    fn set_out(&mut self, arena: &Arena, here: Point, (goal, at): (Goal, Point)) {
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

    /// At the goal, on the move: who stands still is shot.
    fn stay(&mut self, arena: &Arena, here: Point, (rng, age): (&mut Rng, u32)) {
        if self.mill.is_some_and(|(_, until)| age < until) {
            return;
        }
        let Some((_, at)) = self.goal else { return };
        let offset = |rng: &mut Rng| (rng.f64() * 2.0 - 1.0) * base::RADIUS * 0.65;
        let to = Point::new(at.x + offset(rng), at.y + offset(rng));
        let to = if arena.map().is_walkable(here, to) { arena.map().clamp(to, 1.5) } else { at };
        let span = arena.ticks(MILL_MS.0 + rng.u32(0..=MILL_MS.1));
        self.mill = Some((to, age + span));
    }
}
