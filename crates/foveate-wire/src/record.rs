//! One object's state as bits: against a state that the receiver has, or whole.
//!
//! One body of code writes and reads ([`Coder`]): a forgotten field cannot exist on one side only.

use crate::coder::Coder;
use crate::place::{self, Known};
use crate::schema::{HIDDEN_LANES, Kind, LaneClass, PlaceLanes};
use crate::{contexts, predict};

/// Codes the lanes of an object. Writing, `lanes` holds the state; reading, it is filled in.
/// `base`: a state that the receiver has, and how many rounds it is old; none: the state is whole.
pub(crate) fn code_state<C: Coder>(
    c: &mut C,
    kind: &Kind,
    base: Option<(&[i32], u32)>,
    lanes: &mut [i32],
) {
    if let Some(place) = &kind.place {
        match base {
            Some((then, age)) => code_moved(c, place, (then, age), lanes),
            None => code_absolute(c, place, lanes),
        }
    }
    code_facing(c, kind, base, lanes);
    code_others(c, kind, base.map(|(then, _)| then), lanes);
}

fn axes(place: &PlaceLanes, lanes: &[i32], at: usize) -> [i32; 3] {
    let mut out = [0; 3];
    out[..place.dims].copy_from_slice(&lanes[at..at + place.dims]);
    out
}

/// The place against its prediction, then the velocity against what the move suggests.
fn code_moved<C: Coder>(
    c: &mut C,
    place: &PlaceLanes,
    (then, age): (&[i32], u32),
    lanes: &mut [i32],
) {
    let (from, to) = (axes(place, then, place.at), axes(place, lanes, place.at));
    let velocity_at = place.at + place.dims;
    let unit = place.motion;
    let lane = |lanes: &[i32]| if unit > 0 { axes(place, lanes, velocity_at) } else { [0; 3] };
    let (old, new) = (lane(then), lane(lanes));
    let velocity = old.map(|v| v.wrapping_mul(unit));
    let ahead = [0, 1, 2].map(|axis| predict::along(from[axis], velocity[axis], age));
    let residual = [0, 1, 2].map(|axis| to[axis].wrapping_sub(ahead[axis]));
    if c.bit(contexts::JUMP + place::age_class(age), is_jump(place, residual)) {
        return code_absolute(c, place, lanes);
    }
    let known = Known { velocity, age: age.clamp(1, predict::HORIZON), fall: 0 };
    let residual = place::code_residual(c, &known, residual);
    let mut moved = [0; 3];
    for axis in 0..place.dims {
        let to = ahead[axis].wrapping_add(residual[axis]);
        moved[axis] = to.wrapping_sub(from[axis]);
        lanes[place.at + axis] = to.clamp(-place.extent_steps, place.extent_steps);
    }
    if unit > 0 {
        let new = place::code_velocity(c, old, moved, age.max(1), unit, 2, new);
        lanes[velocity_at..velocity_at + place.dims].copy_from_slice(&new[..place.dims]);
    }
}

/// Whether whole coordinates are cheaper than the way there: a respawn, a teleport.
fn is_jump(place: &PlaceLanes, residual: [i32; 3]) -> bool {
    let way: u32 = residual.iter().map(|r| 2 * place::length(*r) as u32).sum();
    way > place.bits * place.dims as u32
}

/// Whole coordinates in as many bits as the schema's extent needs, and the velocity, mostly zero.
fn code_absolute<C: Coder>(c: &mut C, place: &PlaceLanes, lanes: &mut [i32]) {
    let extent = place.extent_steps;
    for lane in &mut lanes[place.at..place.at + place.dims] {
        let shifted = lane.wrapping_add(extent) as u32;
        let shifted = c.raw(place.bits, shifted);
        *lane = (shifted as i32).wrapping_sub(extent).clamp(-extent, extent);
    }
    if place.motion == 0 {
        return;
    }
    let velocity = &mut lanes[place.at + place.dims..place.at + 2 * place.dims];
    let moving = c.bit(contexts::MOVING, velocity.iter().any(|v| *v != 0));
    for lane in velocity {
        *lane = if moving { number(c, contexts::SPEED, *lane) } else { 0 };
    }
}

fn code_facing<C: Coder>(c: &mut C, kind: &Kind, base: Option<(&[i32], u32)>, lanes: &mut [i32]) {
    let age = base.map_or(u32::MAX, |(_, age)| age);
    let part = |lane: Option<(usize, u32)>, lanes: &[i32]| {
        lane.map_or(0, |(lane, steps)| {
            let then = base.map_or(0, |(then, _)| then[lane]);
            shorter_way(lanes[lane].wrapping_sub(then), steps)
        })
    };
    if kind.yaw.is_none() && kind.pitch.is_none() {
        return;
    }
    let [yaw, pitch] = place::code_facing(c, age, part(kind.yaw, lanes), part(kind.pitch, lanes));
    for (lane, turned) in [(kind.yaw, yaw), (kind.pitch, pitch)] {
        if let Some((lane, steps)) = lane {
            let then = base.map_or(0, |(then, _)| then[lane]);
            lanes[lane] = then.wrapping_add(turned).rem_euclid(steps as i32);
        }
    }
}

/// The turn from one angle to another by the shorter way.
fn shorter_way(turned: i32, steps: u32) -> i32 {
    let steps = steps as i32;
    let turned = turned.rem_euclid(steps);
    if turned > steps / 2 { turned - steps } else { turned }
}

/// Everything without a special meaning: one bit that any of it changed, then one for each field.
fn code_others<C: Coder>(c: &mut C, kind: &Kind, then: Option<&[i32]>, lanes: &mut [i32]) {
    let before = |lane: usize| then.map_or(0, |then| then[lane]);
    let changed = |lanes: &[i32], lane: usize| lanes[lane] != before(lane);
    let is_other = |lane: usize| {
        let placed = kind.place.is_some_and(|place| {
            let count = place.dims * (1 + usize::from(place.motion > 0));
            (place.at..place.at + count).contains(&lane)
        });
        let is = |facing: Option<(usize, u32)>| facing.is_some_and(|(at, _)| at == lane);
        !placed && !is(kind.yaw) && !is(kind.pitch)
    };
    let hidden = 0..HIDDEN_LANES;
    let fields = std::iter::once(&hidden).chain(&kind.ranges).filter(|range| is_other(range.start));
    let any = kind.others.iter().any(|lane| changed(lanes, *lane));
    let whole = usize::from(then.is_none());
    if !c.bit(contexts::OTHERS + whole, any) {
        kind.others.iter().for_each(|lane| lanes[*lane] = before(*lane));
        return;
    }
    for (at, range) in fields.enumerate() {
        let differs = range.clone().any(|lane| changed(lanes, lane));
        let slot = whole * contexts::FIELDS + at.min(contexts::FIELDS - 1);
        if !c.bit(contexts::FIELD + slot, differs) {
            range.clone().for_each(|lane| lanes[lane] = before(lane));
            continue;
        }
        let single = range.len() == 1;
        for lane in range.clone() {
            let class = kind.lanes[lane];
            lanes[lane] = code_lane(c, class, (before(lane), lanes[lane]), single);
        }
    }
}

/// One lane of a field that changed. `single`: it is the field's only one, so it did change.
fn code_lane<C: Coder>(c: &mut C, class: LaneClass, (then, now): (i32, i32), single: bool) -> i32 {
    match class {
        LaneClass::Symbol { count: 2 } if single => i32::from(then == 0),
        LaneClass::Symbol { count } => {
            let bits = 32 - (count - 1).leading_zeros();
            (c.raw(bits, now as u32) as i32).min(count as i32 - 1)
        }
        LaneClass::Step => then.wrapping_add(number(c, contexts::STEP, now.wrapping_sub(then))),
        LaneClass::Turn { steps } => {
            let turned = shorter_way(now.wrapping_sub(then), steps);
            then.wrapping_add(number(c, contexts::STEP, turned)).rem_euclid(steps as i32)
        }
        LaneClass::Word => {
            if !c.bit(contexts::WORD, now != then) {
                return then;
            }
            c.raw(32, now as u32) as i32
        }
    }
}

/// A signed number whose size nothing is known of.
pub(crate) fn number<C: Coder>(c: &mut C, at: usize, value: i32) -> i32 {
    place::value(c, &contexts::number(at), value)
}

/// An unsigned number, likely small; at most 31 bits.
pub(crate) fn count<C: Coder>(c: &mut C, at: usize, value: u32) -> u32 {
    number(c, at, value as i32).unsigned_abs()
}
