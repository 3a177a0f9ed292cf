//! The rules of avatars: walk, shoot or steer a unit, get hit, respawn.

use super::kinds::{AVATAR, Avatar, BASE, Charm, HEALTH, Match, RoundPhase, UNIT, Weapon};
use super::kinds::{position, spot, ticks_ahead, ticks_left};
use super::weapon::{self, CHANGE_MS, Hit, LONGEST_MS, Shooter};
use super::{Action, Arena, ArenaEvent, Controls, Hands};
use crate::fixed::Place;
use crate::geometry::Point;
use crate::movement::{self, ArenaInput};
use crate::trig::Yaw;
use foveate_node::game::{EventArea, Requester, StepContext, World};
use foveate_wire::{ObjectId, Tick};

/// How long a dead avatar is away, in milliseconds.
pub const AWAY_MS: u32 = 3_000;
/// Points for a kill, and for helping to take a base.
pub const POINTS: (u16, u16) = (1, 3);

/// The distance from which shots, deaths and similar events are noticed.
pub(super) const NOTICED: f32 = 60.0;
/// An avatar respawns with no enemy this near, if there is such a place.
const SAFE: f64 = 25.0;
/// How many places are tried for that.
const TRIES: usize = 12;
/// The largest width of the stripes in which teams start a round, in units.
const STRIPE: f64 = 80.0;
/// Ticks between two checks of the round's number.
const ROUND_LOOKS: u32 = 8;

pub(super) fn step(arena: &Arena, turn: &mut StepContext<'_, Arena>, inputs: &[Controls]) {
    let Some(mut me) = turn.get::<Avatar>() else { return };
    let now = turn.tick();
    if now.0.is_multiple_of(ROUND_LOOKS)
        && let Some(contest) = turn.world().get::<Match>(Match::ID)
        && contest.round != me.round
    {
        (me.round, me.score) = (contest.round, 0);
        come_back(arena, turn, &mut me, true);
    } else if !me.is_alive() && ticks_left(me.ready, now, arena.ticks(AWAY_MS)) == 0 {
        come_back(arena, turn, &mut me, false);
    }
    // Without an input nothing moves: the input is late, and is used together with a later tick's.
    // So an avatar makes exactly the steps that its player's client predicted.
    let inputs = if me.is_alive() { inputs } else { &[] };
    for input in inputs {
        use_hands(arena, turn, &mut me, input);
    }
    turn.set(&me);
}

/// Applies a player's input: to the avatar, or to a unit while the avatar stands still.
fn use_hands(arena: &Arena, turn: &mut StepContext<'_, Arena>, me: &mut Avatar, input: &Controls) {
    let (now, body) = (turn.tick(), me.body());
    let weapon = match input.hands {
        Hands::Blaster => Weapon::Blaster,
        Hands::Scatter => Weapon::Scatter,
        Hands::Lance => Weapon::Lance,
        Hands::Unit(which) => {
            let stand = ArenaInput { yaw: body.yaw.0, ..ArenaInput::default() };
            me.set_body(movement::step(&arena.collision, body, stand));
            let steer = Action::Steer { walk: input.walk, fire: input.fire };
            return turn.ask(Arena::unit(turn.id().origin(), u32::from(which)), steer);
        }
    };
    me.set_body(movement::step(&arena.collision, body, input.walk));
    let left = ticks_left(me.ready, now, arena.ticks(LONGEST_MS));
    if weapon != me.weapon {
        // Another weapon does not avoid the cooldown of the first.
        me.weapon = weapon;
        me.ready = ticks_ahead(now, left.max(arena.ticks(CHANGE_MS)));
    } else if let Some(seen) = input.fire
        && left == 0
    {
        me.ready = ticks_ahead(now, arena.ticks(weapon.make().cooldown_ms));
        let shooter = Shooter { from: me.point(), team: me.team, weapon };
        weapon::shoot(arena, turn, &shooter, Yaw(input.walk.yaw), Tick(seen));
    }
}

pub(super) fn act(
    arena: &Arena,
    turn: &mut StepContext<'_, Arena>,
    action: &Action,
    by: Requester,
) {
    let (Some(mut me), Requester::Object(by)) = (turn.get::<Avatar>(), by) else { return };
    match action {
        Action::Hit { damage, weapon } => {
            let hit = Hit { damage: *damage, weapon: *weapon, by };
            take_hit(arena, turn, &mut me, hit);
        }
        Action::Killed if by.kind() == AVATAR => {
            me.kills = me.kills.saturating_add(1);
            me.score = me.score.saturating_add(POINTS.0);
        }
        Action::Captured if by.kind() == BASE => me.score = me.score.saturating_add(POINTS.1),
        Action::Heal { health } if by.kind() == BASE && me.is_alive() => {
            me.health = me.health.saturating_add(*health).min(HEALTH);
        }
        _ => return,
    }
    turn.set(&me);
}

fn take_hit(arena: &Arena, turn: &mut StepContext<'_, Arena>, me: &mut Avatar, hit: Hit) {
    let Hit { damage, weapon, by } = hit;
    let Some(team) = enemy(&turn.world(), me.team, by).filter(|_| me.is_alive()) else { return };
    let shielded = weapon::holds(&turn.world(), turn.id(), me.point(), Charm::Shield);
    me.health = me.health.saturating_sub(if shielded { damage / 2 } else { damage });
    if me.is_alive() {
        return;
    }
    me.deaths = me.deaths.saturating_add(1);
    me.ready = ticks_ahead(turn.tick(), arena.ticks(AWAY_MS));
    (me.vx, me.vy) = (0.0, 0.0);
    let died = ArenaEvent::Died { player: turn.id().origin(), by: by.origin(), weapon };
    turn.event(EventArea::Point { at: spot(me.point()), radius: NOTICED }, died);
    turn.ask(Avatar::of(by.origin()), Action::Killed);
    turn.ask(Match::ID, Action::Point { team });
}

/// The team of the attacker, if the hit counts: an enemy, while a round is played.
pub(super) fn enemy(world: &World<'_>, team: u8, by: ObjectId) -> Option<u8> {
    let other = world.with_frozen().get::<Avatar>(Avatar::of(by.origin()))?.team;
    let contest = world.get::<Match>(Match::ID);
    let plays = contest.is_none_or(|contest| contest.phase == RoundPhase::Play);
    (plays && other != team && matches!(by.kind(), AVATAR | UNIT)).then_some(other)
}

/// Respawns an avatar: at the start of a round in its team's stripe, else away from enemies.
fn come_back(arena: &Arena, turn: &mut StepContext<'_, Arena>, me: &mut Avatar, begins: bool) {
    let world = turn.world();
    let place = match begins {
        true => first_place(arena, &world, me.team, me.round, turn.id()),
        false => free_place(arena, &world, me.team, turn.id()),
    };
    (me.pos, me.vx, me.vy, me.health) = (position(place), 0.0, 0.0, HEALTH);
    turn.event(
        EventArea::Point { at: spot(place.point()), radius: NOTICED },
        ArenaEvent::Back { player: turn.id().origin() },
    );
}

/// A node away from enemies, if one is found soon.
fn free_place(arena: &Arena, world: &World<'_>, team: u8, id: ObjectId) -> Place {
    drawn_place(arena, world, id, |at| {
        let near = world.near(spot(at), SAFE as f32);
        let enemy = |id: &ObjectId| {
            let other = (id.kind() == AVATAR).then(|| world.get::<Avatar>(*id)).flatten();
            other.is_some_and(|other| other.is_alive() && other.team != team)
        };
        !near.iter().any(enemy)
    })
}

/// A node where a team starts a round: the map is cut into stripes that alternate between the
/// teams, so that a round neither begins with a fight nor far from one.
pub(super) fn first_place(
    arena: &Arena,
    world: &World<'_>,
    team: u8,
    round: u16,
    id: ObjectId,
) -> Place {
    let pairs = (arena.map.side() / (2.0 * STRIPE)).ceil().max(1.0);
    let width = arena.map.side() / (2.0 * pairs);
    let ours = (u16::from(team) + round) % 2;
    drawn_place(arena, world, id, |at| {
        let stripe = at.x / width;
        stripe as u16 % 2 == ours && (0.2..0.8).contains(&stripe.fract())
    })
}

/// A random node that satisfies `is_good`, within a limited number of draws.
fn drawn_place(
    arena: &Arena,
    world: &World<'_>,
    id: ObjectId,
    is_good: impl Fn(Point) -> bool,
) -> Place {
    let mut rng = arena.chance(id, world.tick());
    let graph = arena.map.graph();
    let mut draw = || graph.node(graph.node_at_share(rng.f64())).place;
    let mut at = draw();
    for _ in 0..TRIES {
        if is_good(at) {
            break;
        }
        at = draw();
    }
    Place::near(at)
}
