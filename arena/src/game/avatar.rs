//! What avatars do: walk, shoot, get hit, come back.

use super::kinds::{AVATAR, Avatar, Charm, HEALTH, ITEM, Item, Match, UNIT};
use super::kinds::{point, position, spot, ticks_ahead, ticks_left};
use super::{Action, Arena, Controls, Event};
use crate::fixed::Place;
use crate::geometry::{Point, Vector};
use crate::movement;
use crate::trig::{ONE, Yaw};
use foveate_node::game::{By, Spot, Turn, World};
use foveate_wire::{ObjectId, Tick};

/// How far a shot reaches, in units.
pub const RANGE: f64 = 40.0;
/// How near to an avatar's centre a shot must pass: the avatar's radius.
pub const TARGET_RADIUS: f64 = crate::map::AVATAR_RADIUS;
/// What a hit costs, and what it costs from the holder of a blade.
pub const DAMAGE: (u8, u8) = (16, 26);
/// Time between two shots, in milliseconds.
pub const COOLDOWN_MS: u32 = 400;
/// How long a dead avatar is away, in milliseconds.
pub const AWAY_MS: u32 = 3_000;
/// How far back a shooter's view may lie, in milliseconds: who plays over a slower link than this
/// must aim ahead, rather than hit people who have been behind a wall for long.
pub const LAG_MS: u32 = 500;
/// Points for a kill, and for a part in taking a base.
pub const POINTS: (u16, u16) = (1, 3);

/// From how far shots, deaths and the like are noticed.
pub(super) const NOTICED: f32 = 60.0;
/// No enemy is this near to where an avatar comes back, if there is such a place.
const SAFE: f64 = 25.0;
/// Places that are tried for it.
const TRIES: usize = 6;
/// Ticks between two looks at the number of the round.
const ROUND_LOOKS: u32 = 8;

pub(super) fn step(arena: &Arena, turn: &mut Turn<'_, Arena>, inputs: &[Controls]) {
    let Some(mut me) = turn.get::<Avatar>() else { return };
    let now = turn.tick();
    if now.0.is_multiple_of(ROUND_LOOKS)
        && let Some(contest) = turn.world().get::<Match>(Match::ID)
        && contest.round != me.round
    {
        (me.round, me.score) = (contest.round, 0);
        come_back(arena, turn, &mut me);
    } else if !me.is_alive() && ticks_left(me.back, now, arena.ticks(AWAY_MS)) == 0 {
        come_back(arena, turn, &mut me);
    }
    // Without an input nothing moves: it is late, and comes as the second of a later tick. So an
    // avatar makes exactly the steps that its player's client predicted.
    let inputs = if me.is_alive() { inputs } else { &[] };
    for input in inputs {
        me.set_body(movement::step(&arena.collision, me.body(), input.walk));
        if let Some(seen) = input.fire
            && ticks_left(me.ready, now, arena.ticks(COOLDOWN_MS)) == 0
        {
            me.ready = ticks_ahead(now, arena.ticks(COOLDOWN_MS));
            shoot(arena, turn, &me, (Yaw(input.walk.yaw), Tick(seen)));
        }
    }
    turn.set(&me);
}

pub(super) fn act(arena: &Arena, turn: &mut Turn<'_, Arena>, action: &Action, by: By) {
    let (Some(mut me), By::Object(by)) = (turn.get::<Avatar>(), by) else { return };
    match action {
        Action::Hit { damage } => take_hit(arena, turn, &mut me, *damage, by),
        Action::Killed if by.kind() == AVATAR => {
            me.kills = me.kills.saturating_add(1);
            me.score = me.score.saturating_add(POINTS.0);
        }
        Action::Captured if by.kind() == super::kinds::BASE => {
            me.score = me.score.saturating_add(POINTS.1);
        }
        _ => return,
    }
    turn.set(&me);
}

fn take_hit(arena: &Arena, turn: &mut Turn<'_, Arena>, me: &mut Avatar, damage: u8, by: ObjectId) {
    let killer = Avatar::of(by.origin());
    let enemy = turn.world().get::<Avatar>(killer).filter(|other| other.team != me.team);
    let Some(enemy) = enemy.filter(|_| me.is_alive() && matches!(by.kind(), AVATAR | UNIT)) else {
        return;
    };
    let shielded = holds(&turn.world(), (turn.id(), me), Charm::Shield);
    me.health = me.health.saturating_sub(if shielded { damage / 2 } else { damage });
    if me.is_alive() {
        return;
    }
    me.deaths = me.deaths.saturating_add(1);
    me.back = ticks_ahead(turn.tick(), arena.ticks(AWAY_MS));
    (me.vx, me.vy) = (0.0, 0.0);
    let died = Event::Died { player: turn.id().origin(), by: by.origin() };
    turn.event(Spot::Point { at: spot(me.point()), radius: NOTICED }, died);
    turn.ask(killer, Action::Killed);
    turn.ask(Match::ID, Action::Point { team: enemy.team });
}

/// Back to life, at a place away from enemies, if one is found soon.
fn come_back(arena: &Arena, turn: &mut Turn<'_, Arena>, me: &mut Avatar) {
    let place = free_place(arena, &turn.world(), me.team, turn.id());
    (me.pos, me.vx, me.vy, me.health) = (position(place), 0.0, 0.0, HEALTH);
    turn.event(
        Spot::Point { at: spot(place.point()), radius: NOTICED },
        Event::Back { player: turn.id().origin() },
    );
}

/// A node for an avatar to begin at.
pub(super) fn free_place(arena: &Arena, world: &World<'_>, team: u8, id: ObjectId) -> Place {
    let mut rng = arena.chance(id, world.tick());
    let graph = arena.map.graph();
    let mut node = graph.node_at_share(rng.f64());
    for _ in 0..TRIES {
        let at = graph.node(node).place;
        let near = world.near(spot(at), SAFE as f32);
        let enemy = |id: &ObjectId| {
            let other = (id.kind() == AVATAR).then(|| world.get::<Avatar>(*id)).flatten();
            other.is_some_and(|other| other.is_alive() && other.team != team)
        };
        if !near.iter().any(enemy) {
            break;
        }
        node = graph.node_at_share(rng.f64());
    }
    Place::near(graph.node(node).place)
}

/// Whether an avatar has an item of this sort. An inventory is a query; an item that somebody holds
/// was brought to them of late, so that it need only be looked for around them.
fn holds(world: &World<'_>, (id, me): (ObjectId, &Avatar), charm: Charm) -> bool {
    let has = |item: &Item| item.holder == id.origin() && item.charm == charm;
    let near = world.near(spot(me.point()), super::item::STRAYS as f32);
    let mut items = near.into_iter().filter(|id| id.kind() == ITEM);
    items.any(|id| world.get::<Item>(id).as_ref().is_some_and(has))
}

/// One shot: whom it meets first, of those that the shooter saw, asks for the hit.
fn shoot(arena: &Arena, turn: &mut Turn<'_, Arena>, me: &Avatar, (yaw, seen): (Yaw, Tick)) {
    let share = |v: i32| f64::from(v) / f64::from(ONE);
    let along = Vector::new(share(yaw.cos()), share(yaw.sin()));
    let from = me.point();
    let reach = RANGE * arena.map.free_share(from, from + along * RANGE);
    let aim = Aim { from, along, reach, team: me.team };
    let hit = aim.first(arena, &turn.world(), seen);
    let end = from + along * hit.map_or(reach, |(distance, _)| distance);
    let line = Spot::Segment { from: spot(from), to: spot(end), radius: NOTICED };
    turn.event(line, Event::Shot { player: turn.id().origin(), hit: hit.is_some() });
    if let Some((_, victim)) = hit {
        let blade = holds(&turn.world(), (turn.id(), me), Charm::Blade);
        turn.ask(victim, Action::Hit { damage: if blade { DAMAGE.1 } else { DAMAGE.0 } });
    }
}

/// A shot's line, as far as the first wall.
struct Aim {
    from: Point,
    along: Vector,
    reach: f64,
    team: u8,
}

impl Aim {
    /// The nearest enemy on the line as the shooter saw it, and how far away it was.
    fn first(&self, arena: &Arena, world: &World<'_>, seen: Tick) -> Option<(f64, ObjectId)> {
        let limit = arena.ticks(LAG_MS);
        let back_then = world.as_seen(seen, limit);
        // Neighbours are found where they are now; back then they were this much elsewhere at most.
        let strayed = f64::from(limit) * 11.0 / f64::from(arena.setup.rate.hz()) + TARGET_RADIUS;
        let middle = self.from + self.along * (self.reach / 2.0);
        let near = world.near(spot(middle), (self.reach / 2.0 + strayed) as f32);
        let mut first = None;
        for id in near.into_iter().filter(|id| id.kind() == AVATAR) {
            let Some(other) = back_then.get::<Avatar>(id).filter(|other| self.may_hit(other))
            else {
                continue;
            };
            let Some(distance) = self.meets(point(other.pos)) else { continue };
            let is_alive = world.get::<Avatar>(id).is_some_and(|other| other.is_alive());
            if is_alive && first.is_none_or(|(least, _)| distance < least) {
                first = Some((distance, id));
            }
        }
        first
    }

    fn may_hit(&self, other: &Avatar) -> bool {
        other.is_alive() && other.team != self.team
    }

    /// How far along the line it meets an avatar at `at`.
    fn meets(&self, at: Point) -> Option<f64> {
        let off = at - self.from;
        let (ahead, aside) = (off.dot(self.along), off.cross(self.along));
        let half = TARGET_RADIUS * TARGET_RADIUS - aside * aside;
        (half >= 0.0 && ahead > 0.0)
            .then(|| (ahead - half.sqrt()).max(0.0))
            .filter(|entry| *entry <= self.reach)
    }
}
