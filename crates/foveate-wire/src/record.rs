//! One object's state as bits: as a difference from a baseline, or whole.
//!
//! The same code writes and reads ([`Coder`]), so that a field cannot be forgotten on one side
//! only.

use crate::coder::Coder;
use crate::contexts;
use crate::facing::{FAR, code_facing, miss_class};
use crate::number::{count, ulength, value};
use crate::place::{Fall, Known, Terrain, code_absolute, code_place};
use crate::predict::{HORIZON, Motion};
use crate::schema::{HIDDEN_LANES, Kind, LaneClass, PlaceLanes};

/// A state that the receiver has.
#[derive(Clone, Copy, Debug)]
pub struct Baseline<'a> {
    pub lanes: &'a [i32],
    /// The motion of the state.
    pub motion: Motion,
    /// The age of the state in rounds.
    pub age: u32,
}

/// The place and facing of an object, which change most often and have their own coding.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Pose {
    /// The place in steps; missing axes are zero.
    pub at: [i32; 3],
    /// Yaw and pitch, in parts of a turn.
    pub facing: [i32; 2],
}

impl Pose {
    /// The pose in a state.
    pub fn of(kind: &Kind, lanes: &[i32]) -> Pose {
        let at = kind.place.as_ref().map_or([0; 3], |place| place.coordinates(lanes));
        Pose { at, facing: kind.facing(lanes) }
    }

    /// Writes it into a state.
    fn put(&self, kind: &Kind, lanes: &mut [i32]) {
        if let Some(place) = &kind.place {
            for (lane, at) in lanes[place.at..place.at + place.dims].iter_mut().zip(self.at) {
                *lane = at.clamp(-place.extent_steps, place.extent_steps);
            }
        }
        for (facing, value) in [kind.yaw, kind.pitch].into_iter().zip(self.facing) {
            if let Some((lane, steps)) = facing {
                lanes[lane] = wrap(value, steps);
            }
        }
    }
}

/// A pose that the receiver has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoseBaseline {
    pub pose: Pose,
    /// The motion of the pose's state.
    pub motion: Motion,
    /// The age of the pose in rounds.
    pub age: u32,
}

/// Codes the lanes of an object; returns the new state's motion. When writing, `lanes` holds the
/// state; when reading, it is filled in. Without a baseline the state is whole.
pub(crate) fn code_state<C: Coder>(
    c: &mut C,
    kind: &Kind,
    base: Option<&Baseline<'_>>,
    fall: &mut Fall,
    lanes: &mut [i32],
) -> Motion {
    let then = base.map(|base| PoseBaseline {
        pose: Pose::of(kind, base.lanes),
        motion: base.motion,
        age: base.age,
    });
    let now = if C::READS { Pose::default() } else { Pose::of(kind, lanes) };
    let (now, motion) = code_pose(c, kind, then.as_ref(), fall, now);
    if C::READS {
        now.put(kind, lanes);
    }
    code_others(c, kind, base.map(|base| base.lanes), lanes);
    motion
}

/// Codes a pose; returns it and its motion. Without a pose before it, it is whole.
pub(crate) fn code_pose<C: Coder>(
    c: &mut C,
    kind: &Kind,
    then: Option<&PoseBaseline>,
    fall: &mut Fall,
    mut now: Pose,
) -> (Pose, Motion) {
    let (mut motion, mut miss) = (Motion::default(), FAR);
    if let Some(place) = &kind.place {
        match then {
            Some(then) => (now.at, motion, miss) = code_moved(c, place, fall, then, now.at),
            None => now.at = code_absolute(c, &terrain(place), now.at),
        }
    }
    if kind.yaw.is_some() || kind.pitch.is_some() {
        let before = then.map_or([0; 2], |then| then.pose.facing);
        let turn = [0, 1].map(|which| {
            let turned = now.facing[which].wrapping_sub(before[which]);
            let steps = kind.turns[which].whole;
            if steps == 0 { 0 } else { shorter_way(turned, steps) }
        });
        let turn = code_facing(c, then.map_or(HORIZON, |then| then.age), miss, turn);
        now.facing = [0, 1].map(|which| before[which].wrapping_add(turn[which]));
    }
    (now, motion)
}

/// Codes that only the pose changed, as [`code_state`] would.
pub(crate) fn code_same_others<C: Coder>(c: &mut C) {
    c.bit(contexts::OTHERS, false);
}

fn terrain(place: &PlaceLanes) -> Terrain {
    let flat = if place.dims == 3 { place.bits } else { 0 };
    let low = if place.dims == 3 { -place.extent_steps } else { 0 };
    Terrain {
        fall: place.fall,
        low: [-place.extent_steps, -place.extent_steps, low],
        width: [place.bits, place.bits, flat],
    }
}

/// Codes the place against its prediction, or absolutely after a jump; returns the place, its
/// motion, and how far off the prediction was.
fn code_moved<C: Coder>(
    c: &mut C,
    place: &PlaceLanes,
    fall: &mut Fall,
    then: &PoseBaseline,
    now: [i32; 3],
) -> ([i32; 3], Motion, usize) {
    let (from, age) = (then.pose.at, then.age);
    let motion = if place.motion { then.motion } else { Motion::default() };
    let known = Known::new(from, &motion, age.max(1));
    let ahead = known.predicted();
    let off = |at: [i32; 3]| [0, 1, 2].map(|axis| at[axis].wrapping_sub(ahead[axis]));
    let jump = is_jump(place, off(now));
    let (at, jumped) = code_place(c, &terrain(place), fall, &known, now, jump);
    if jumped {
        return (at, Motion::default(), FAR);
    }
    let moved = Motion::between(from, at, age);
    (at, if place.motion { moved } else { Motion::default() }, miss_class(off(at)))
}

/// Whether absolute coordinates are cheaper than the residual: a respawn, a teleport. Receivers
/// should not interpolate there.
fn is_jump(place: &PlaceLanes, residual: [i32; 3]) -> bool {
    let (bits, whole) = (residual.map(i32::unsigned_abs), place.bits * place.dims as u32 + 12);
    // Usually even the longest residual, times three, is far shorter.
    let longest = ulength(bits[0] | bits[1] | bits[2]) as u32;
    6 * longest > whole && bits.iter().map(|part| 2 * ulength(*part) as u32).sum::<u32>() > whole
}

/// The turn from one angle to another in the shorter direction.
fn shorter_way(turned: i32, steps: u32) -> i32 {
    let turned = wrap(turned, steps);
    if turned > steps as i32 / 2 { turned - steps as i32 } else { turned }
}

/// An angle within its turn. Usually it is in range or one turn off; only others need the division.
#[inline]
fn wrap(angle: i32, steps: u32) -> i32 {
    let steps = steps as i32;
    let near = if angle < 0 { angle.wrapping_add(steps) } else { angle };
    if (0..steps).contains(&near) { near } else { angle.rem_euclid(steps) }
}

/// Codes all fields without a role: one bit whether any of them changed, then one for each field.
fn code_others<C: Coder>(c: &mut C, kind: &Kind, then: Option<&[i32]>, lanes: &mut [i32]) {
    let before = |lane: usize| then.map_or(0, |then| then[lane]);
    let changed = |lanes: &[i32], lane: usize| lanes[lane] != before(lane);
    let any = kind.others.iter().any(|lane| changed(lanes, *lane));
    let whole = usize::from(then.is_none());
    if !c.bit(contexts::OTHERS + whole, any) {
        if C::READS {
            kind.others.iter().for_each(|lane| lanes[*lane] = before(*lane));
        }
        return;
    }
    let hidden = 0..HIDDEN_LANES;
    let fields = std::iter::once(&hidden).chain(&kind.ranges);
    let fields = fields.filter(|range| kind.others.binary_search(&range.start).is_ok());
    for (at, range) in fields.enumerate() {
        let differs = range.clone().any(|lane| changed(lanes, lane));
        let slot = whole * contexts::FIELDS + at.min(contexts::FIELDS - 1);
        if !c.bit(contexts::FIELD + slot, differs) {
            range.clone().for_each(|lane| lanes[lane] = before(lane));
            continue;
        }
        let single = range.len() == 1;
        for lane in range.clone() {
            let change = LaneChange { then: before(lane), now: lanes[lane], single, whole };
            lanes[lane] = code_lane(c, kind.lanes[lane], change);
        }
    }
}

/// A lane of a field that changed.
struct LaneChange {
    then: i32,
    now: i32,
    /// It is the field's only lane, so it did change.
    single: bool,
    /// 1 for a whole state, 0 for a difference.
    whole: usize,
}

fn code_lane<C: Coder>(c: &mut C, class: LaneClass, change: LaneChange) -> i32 {
    let LaneChange { then, now, single, whole } = change;
    let mut step = |by: i32| value(c, &contexts::number(contexts::STEP, whole), by);
    match class {
        LaneClass::Symbol { count: 2 } if single => i32::from(then == 0),
        LaneClass::Symbol { count } => {
            let bits = 32 - (count - 1).leading_zeros();
            (c.raw(bits, now as u32) as i32).min(count as i32 - 1)
        }
        LaneClass::Step => then.wrapping_add(step(now.wrapping_sub(then))),
        LaneClass::Turn { steps } => {
            let turned = step(shorter_way(now.wrapping_sub(then), steps));
            wrap(then.wrapping_add(turned), steps)
        }
        LaneClass::Word => {
            if !c.bit(contexts::WORD, now != then) {
                return then;
            }
            c.raw(32, now as u32) as i32
        }
    }
}

/// An unsigned number of the family at `at`.
#[inline(always)]
pub(crate) fn code_count<C: Coder>(c: &mut C, at: usize, value: u32) -> u32 {
    count(c, &contexts::counted(at, 0), value)
}
