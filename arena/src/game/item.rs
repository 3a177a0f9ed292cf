//! The rules of items: have one holder, or none.

use super::avatar::NOTICED;
use super::kinds::{Avatar, ITEM, Item, Match, point, position, spot, ticks_ahead, ticks_left};
use super::weapon::LAG_MS;
use super::{Action, Arena, ArenaEvent};
use crate::fixed::Place;
use foveate_node::game::{EventArea, Requester, StepContext};
use foveate_wire::Tick;

/// From how far an item can be taken, in units.
pub const REACH: f64 = 3.0;
/// How long an item stays with its holder, in milliseconds.
pub const HELD_MS: u32 = 30_000;
/// Ticks between two checks of the holder. Shorter than any death.
const LOOKS: u32 = 4;
/// One check in this many moves the item's place to its holder, which only matters to interest.
const FOLLOWS: u32 = 5;
/// The farthest that an item is from its holder, in units: the longest run between two such checks
/// at the lowest tick rate, and the reach.
pub(super) const STRAYS: f64 = (LOOKS * FOLLOWS) as f64 * 1.1 + REACH;

pub(super) fn step(arena: &Arena, turn: &mut StepContext<'_, Arena>) {
    let at = turn.tick().plus(turn.id().serial()).0;
    let Some(mut item) = turn.get::<Item>().filter(|_| at.is_multiple_of(LOOKS)) else { return };
    let contest = turn.world().get::<Match>(Match::ID);
    if let Some(contest) = contest.filter(|contest| contest.round != item.round) {
        if item.holder != 0 {
            let_go(&mut item, None, turn);
        }
        (item.round, item.pos) = (contest.round, somewhere(arena, turn.id().serial(), turn.tick()));
        return turn.set(&item);
    }
    if item.holder == 0 {
        return;
    }
    // The holder may be out of this node's view, and still holds the item.
    let holder = turn.world().with_frozen().get::<Avatar>(Avatar::of(item.holder));
    match holder {
        Some(holder) if holder.is_alive() => {
            if ticks_left(item.until, turn.tick(), arena.ticks(HELD_MS)) == 0 {
                let_go(&mut item, Some(&holder), turn);
                item.pos = somewhere(arena, turn.id().serial(), turn.tick());
            } else if (at / LOOKS).is_multiple_of(FOLLOWS) {
                item.pos = holder.pos;
            }
        }
        Some(holder) => let_go(&mut item, Some(&holder), turn),
        None => let_go(&mut item, None, turn),
    }
    turn.set(&item);
}

pub(super) fn act(
    arena: &Arena,
    turn: &mut StepContext<'_, Arena>,
    action: &Action,
    by: Requester,
) {
    let Some(mut item) = turn.get::<Item>() else { return };
    let (player, seen) = match by {
        Requester::Player(player, seen) => (player.0, seen),
        Requester::Object(object) => (object.origin(), turn.tick()),
    };
    let world = turn.world();
    let now = world.get::<Avatar>(Avatar::of(player));
    match action {
        Action::Take if item.holder == 0 && player != 0 => {
            let seen = world.as_seen(seen, arena.ticks(LAG_MS)).get::<Avatar>(Avatar::of(player));
            let near = |avatar: &Avatar| avatar.point().distance(point(item.pos)) <= REACH;
            // Within reach when the player asked, or now; and alive to take it.
            if now.filter(Avatar::is_alive).is_none() || ![seen, now].iter().flatten().any(near) {
                return;
            }
            item.holder = player;
            item.until = ticks_ahead(turn.tick(), arena.ticks(HELD_MS));
            let taken = ArenaEvent::Taken { player, charm: item.charm };
            turn.event(EventArea::Point { at: spot(point(item.pos)), radius: NOTICED }, taken);
        }
        Action::Drop if item.holder == player && player != 0 => {
            let_go(&mut item, now.as_ref(), turn)
        }
        _ => return,
    }
    turn.set(&item);
}

fn let_go(item: &mut Item, holder: Option<&Avatar>, turn: &mut StepContext<'_, Arena>) {
    item.pos = holder.map_or(item.pos, |holder| holder.pos);
    let dropped = ArenaEvent::Dropped { player: item.holder };
    item.holder = 0;
    turn.event(EventArea::Point { at: spot(point(item.pos)), radius: NOTICED }, dropped);
}

/// A place for an item to lie.
pub(super) fn somewhere(arena: &Arena, serial: u32, tick: Tick) -> [f32; 2] {
    let mut rng = arena.chance(foveate_wire::ObjectId::new(ITEM, 0, serial), tick);
    let graph = arena.map.graph();
    position(Place::near(graph.node(graph.node_at_share(rng.f64())).place))
}
