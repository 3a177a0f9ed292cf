//! Context models for places: the residual of a place against its prediction, and jumps.
//!
//! All numbers are integers: place in steps, velocity in steps per tick. One body of code writes,
//! reads and trains (see [`Coder`]). Any `i32` can be coded, and any bytes decode to something.
//!
//! # Order of an update's place
//! 1. `JUMP`: did the object jump (respawn, teleport) since the baseline? If so, the way from the
//!    baseline, axis by axis.
//! 2. Vertical residual: `Z_SAME` (zero), else `Z_STAY` (height as at the baseline), else `Z_FALL`
//!    (free fall), else a value. The case becomes the class `lift`, a context for the rest.
//! 3. Horizontal residual: `H_SAME` (zero), else `H_STOP` (still where it was at the baseline),
//!    else two values, *along* and *across* the baseline velocity (see [`Frame`]); across is
//!    conditioned on along.
//!
//! # Why contexts are relative
//! A game's scale and tick rate are not known when the table is trained. So bit lengths are
//! modelled relative to an expected length: along relative to the way that the prediction assumes
//! (speed · age), across relative to along. Absolute contexts for along were 0.2–0.6 % better on
//! another map of the training game, but 1.5 % worse on another game (7–11 % with absolute contexts
//! throughout and no scaled copies of the traces in training).

use crate::coder::Coder;
use crate::number::{SIGNS, STEPS, Slots, TREES, length, ulength, value};
use crate::predict::Motion;

/// Age classes of a baseline, in ticks: 1, 2, 3, 4, 5–8, 9 and more.
pub(crate) const AGES: usize = 6;
/// Coarse ages: 1, 2–4, 5 and more.
const SPANS: usize = 3;
/// Bit length classes of 1.5 · speed · age.
const SCALES: usize = 14;
/// Vertical classes of the baseline velocity: still, level, rising slow/mid/fast, falling slow/mid/fast.
const RISES: usize = 8;
/// What the vertical axis did: stayed level, stayed although it was moving, free fall, as
/// predicted, other.
const LIFTS: usize = 5;
/// Coarse lifts: stayed level; in the air (free fall or as predicted); other.
const AIRS: usize = 3;
/// Size of along relative to the scale: zero, then octaves.
const GAPS: usize = 8;
/// Speeds: zero, or the quarter of an octave.
const PACES: usize = 5;

// Layout of the context table: each constant is the start of a family, whose size follows from the
// next.
const JUMP: usize = 0;
const J_LEN: usize = JUMP + AGES;
const J_SIGN: usize = J_LEN + 2 * STEPS;
const J_TREE: usize = J_SIGN + 2 * SIGNS;
const WIDE: usize = J_TREE + TREES;
const Z_SAME: usize = WIDE + 1;
const Z_STAY: usize = Z_SAME + RISES * AGES;
const Z_FALL: usize = Z_STAY + RISES * AGES;
const Z_LEN: usize = Z_FALL + RISES * AGES;
const Z_SIGN: usize = Z_LEN + RISES * STEPS;
const Z_TREE: usize = Z_SIGN + RISES * SIGNS;
const H_SAME: usize = Z_TREE + 3 * TREES;
const H_STOP: usize = H_SAME + SCALES * LIFTS;
const A_LEN: usize = H_STOP + SCALES * LIFTS;
const A_SIGN: usize = A_LEN + PACES * SPANS * AIRS * STEPS;
const A_TREE: usize = A_SIGN + SPANS * LIFTS * SIGNS;
const B_LEN: usize = A_TREE + 2 * TREES;
const B_SIGN: usize = B_LEN + GAPS * AIRS * STEPS;
const B_TREE: usize = B_SIGN + 3 * SIGNS;
/// Number of contexts for places.
pub(crate) const PLACE_CONTEXTS: usize = B_TREE + 2 * TREES;

/// What all objects of a kind share, known to both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terrain {
    /// Free fall in steps per tick²; 0 if there is none or it is not known: see [`Fall`].
    pub fall: i32,
    /// Lowest absolute coordinates.
    pub low: [i32; 3],
    /// Raw bits of an absolute coordinate, per axis, 0 ..= 32.
    pub width: [u32; 3],
}

/// Free fall as a packet knows it: from the schema or, if that does not state it, learnt from two
/// equal falls in a row, so that a stair does not count. One per packet, like the models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fall {
    /// Steps per tick², 0 while unknown.
    now: i32,
    /// The fall that would explain the last unexpected residual.
    next: i32,
    /// Whether the schema states it: then there is nothing to learn.
    given: bool,
}

impl Fall {
    /// At the start of a packet.
    pub(crate) fn new(fall: i32) -> Self {
        Self { now: fall, next: 0, given: fall != 0 }
    }

    /// The residual of free fall, if it is known.
    fn residual(&self, k: &Known) -> Option<i32> {
        (self.now != 0).then(|| -((i64::from(self.now) * k.falling()) >> 1) as i32)
    }

    /// Learns from a residual that was coded as a value.
    fn learn(&mut self, k: &Known, r: i32) {
        let (twice, unit) = (-2 * i64::from(r), k.falling());
        if self.given || twice <= 0 || unit == 0 || twice % unit != 0 {
            return;
        }
        let fall = (twice / unit).min(i64::from(i32::MAX)) as i32;
        if fall == self.next {
            self.now = fall;
        }
        self.next = fall;
    }
}

/// What both sides know before a place is coded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    /// Place at the baseline.
    pub place: [i32; 3],
    /// The way that its motion predicts.
    pub way: [i32; 3],
    /// The rounds over which its motion is averaged.
    pub span: u32,
    /// Ticks since the baseline, at least 1.
    pub age: u32,
}

impl Known {
    /// What follows from a baseline.
    pub(crate) fn new(place: [i32; 3], motion: &Motion, age: u32) -> Known {
        Known { place, way: motion.way(age), span: motion.span(), age }
    }

    /// The predicted place: place + way.
    pub(crate) fn predicted(&self) -> [i32; 3] {
        [0, 1, 2].map(|k| self.place[k].wrapping_add(self.way[k]))
    }

    /// Twice the residual of free fall by one step per tick²: with the velocity averaged over `ticks`, a fall by
    /// `g` leaves a residual of −g · age · (age + ticks) / 2.
    fn falling(&self) -> i64 {
        let age = i64::from(self.age.min(1 << 10));
        age * (age + i64::from(self.span.min(1 << 10)))
    }
}

/// Class of a baseline's age.
pub(crate) fn age_class(age: u32) -> usize {
    match age {
        0..=4 => age.max(1) as usize - 1,
        5..=8 => 4,
        _ => 5,
    }
}

/// Coarse class of a baseline's age.
fn span(age: u32) -> usize {
    match age {
        0..=1 => 0,
        2..=4 => 1,
        _ => 2,
    }
}

/// Codes a place and whether the object jumped since the baseline; returns both. The caller sets
/// the jump flag ("do not interpolate across this"), which is also cheaper than a large residual.
pub(crate) fn code_place<C: Coder>(
    c: &mut C,
    s: &Terrain,
    fall: &mut Fall,
    k: &Known,
    place: [i32; 3],
    jump: bool,
) -> ([i32; 3], bool) {
    if c.bit(JUMP + age_class(k.age), jump) {
        return (code_jump(c, s, k.place, place), true);
    }
    let at = k.predicted();
    let r = code_residual(c, fall, k, [0, 1, 2].map(|a| place[a].wrapping_sub(at[a])));
    ([0, 1, 2].map(|a| at[a].wrapping_add(r[a])), false)
}

/// Codes the target of a jump as the way from the baseline. Lengths are relative to the width of
/// the world, which heights do not use up.
fn code_jump<C: Coder>(c: &mut C, s: &Terrain, from: [i32; 3], to: [i32; 3]) -> [i32; 3] {
    [0, 1, 2].map(|a| {
        let (vertical, width) = (usize::from(a == 2), s.width[a] as usize);
        let slots = Slots {
            len: J_LEN + vertical * STEPS,
            sign: J_SIGN + vertical * SIGNS,
            tree: J_TREE,
            expect: width.saturating_sub(4),
            pivot: width.saturating_sub(5),
        };
        from[a].wrapping_add(value(c, &slots, to[a].wrapping_sub(from[a])))
    })
}

/// Codes an absolute place: `width` bits per axis, or 32 if some axis lies outside.
pub(crate) fn code_absolute<C: Coder>(c: &mut C, s: &Terrain, place: [i32; 3]) -> [i32; 3] {
    let off = [0, 1, 2].map(|a| place[a].wrapping_sub(s.low[a]) as u32);
    let wide = c.bit(WIDE, (0..3).any(|a| ulength(off[a]) > s.width[a] as usize));
    [0, 1, 2].map(|a| {
        let width = if wide { 32 } else { s.width[a].min(32) };
        s.low[a].wrapping_add(c.raw(width, off[a]) as i32)
    })
}

/// Codes the residual of a place against its prediction.
fn code_residual<C: Coder>(c: &mut C, fall: &mut Fall, k: &Known, r: [i32; 3]) -> [i32; 3] {
    let (z, lift) = code_z(c, fall, k, r[2]);
    let [x, y] = code_level(c, k, lift, [r[0], r[1]]);
    [x, y, z]
}

/// Codes the vertical residual; returns it and its class (`LIFTS`).
fn code_z<C: Coder>(c: &mut C, fall: &mut Fall, k: &Known, r: i32) -> (i32, usize) {
    let way = k.way;
    let rise = rise_class(way, k.age);
    let at = rise * AGES + age_class(k.age);
    if !c.bit(Z_SAME + at, r != 0) {
        return (0, if way[2] == 0 { 0 } else { 3 });
    }
    let stay = way[2].wrapping_neg();
    if way[2] != 0 && !c.bit(Z_STAY + at, r != stay) {
        return (stay, 1);
    }
    if let Some(fallen) = fall.residual(k)
        && !c.bit(Z_FALL + at, r != fallen)
    {
        return (fallen, 2);
    }
    // On level ground the slope of the way sets the scale, in the air the vertical way.
    let scale =
        if way[2] != 0 { way[2] } else { way[0].saturating_abs().max(way[1].saturating_abs()) };
    let slots = Slots {
        len: Z_LEN + rise * STEPS,
        sign: Z_SIGN + rise * SIGNS,
        tree: Z_TREE + sign_class(way[2]) * TREES,
        expect: length(scale),
        pivot: length(scale).saturating_sub(3),
    };
    let r = value(c, &slots, r);
    fall.learn(k, r);
    (r, 4)
}

/// Codes the horizontal residual, given the class of the vertical one.
fn code_level<C: Coder>(c: &mut C, k: &Known, lift: usize, r: [i32; 2]) -> [i32; 2] {
    let way = k.way;
    let frame = Frame::new(way);
    let span = span(k.age);
    let scale = ulength(frame.length + frame.length / 2).min(SCALES - 1);
    let at = scale * LIFTS + lift;
    if !c.bit(H_SAME + at, r != [0, 0]) {
        return [0, 0];
    }
    let stop = [way[0].wrapping_neg(), way[1].wrapping_neg()];
    let moving = usize::from(frame.length > 0);
    if moving > 0 && !c.bit(H_STOP + at, r != stop) {
        return stop;
    }
    let ([along, across], air) = (frame.enter(r), air(lift));
    let slots = Slots {
        len: A_LEN
            + ((pace(frame.length / k.age.max(1), moving) * SPANS + span) * AIRS + air) * STEPS,
        sign: A_SIGN + (span * LIFTS + lift) * SIGNS,
        tree: A_TREE + moving * TREES,
        expect: scale,
        pivot: scale.saturating_sub(5),
    };
    let along = value(c, &slots, along);
    let slots = Slots {
        len: B_LEN + (gap(scale, along) * AIRS + air) * STEPS,
        sign: B_SIGN + sign_class(along) * SIGNS,
        tree: B_TREE + moving * TREES,
        expect: length(along),
        pivot: length(along).saturating_sub(2),
    };
    let across = value(c, &slots, across);
    if C::READS { frame.leave([along, across]) } else { r }
}

fn sign_class(v: i32) -> usize {
    (v.signum() + 1) as usize
}

/// Vertical class of the way, by its steps per tick.
fn rise_class(way: [i32; 3], age: u32) -> usize {
    if way[2] == 0 {
        return usize::from(way[0] != 0 || way[1] != 0);
    }
    let size = match ulength(way[2].unsigned_abs() / age.max(1)) {
        0..=3 => 0,
        4..=6 => 1,
        _ => 2,
    };
    2 + size + if way[2] < 0 { 3 } else { 0 }
}

fn air(lift: usize) -> usize {
    match lift {
        0 => 0,
        2 | 3 => 1,
        _ => 2,
    }
}

/// The class of a speed: 0 at rest, else 1 plus the quarter of its octave. Octaves are placed so
/// that a common running speed (128 steps per tick) is not at a boundary.
fn pace(speed: u32, moving: usize) -> usize {
    let s = speed.min(1 << 20) * 25 / 16;
    moving + if s > 1 { ((2 * s) >> (ulength(s) - 2) & 3) as usize } else { 0 }
}

/// Size of along relative to the scale: zero, then octaves.
fn gap(scale: usize, along: i32) -> usize {
    match length(along) {
        0 => 0,
        n => (6 + n).saturating_sub(scale).clamp(1, GAPS - 1),
    }
}

/// The horizontal frame of a way: mirrored and swapped into the first octant, then turned by three
/// integer shears. Both steps are exactly invertible on wrapping `i32`, so along and across get
/// contexts without loss.
pub(crate) struct Frame {
    flip: [bool; 2],
    swap: bool,
    /// tan(θ/2) of the angle within the octant, in 1/4096, rounded down.
    half: u32,
    /// sin θ of that angle, in 1/4096, rounded down.
    sine: u32,
    /// Length of the way, rounded down, steps.
    pub length: u32,
}

/// Ways are clamped to this for frames, so that squares stay exact in a double.
const FARTHEST: i32 = 1 << 22;

impl Frame {
    /// The frame of a way; the vertical part is ignored.
    pub(crate) fn new(way: [i32; 3]) -> Self {
        let (x, y) = (way[0].clamp(-FARTHEST, FARTHEST), way[1].clamp(-FARTHEST, FARTHEST));
        let (a, b) = (x.abs().max(y.abs()), x.abs().min(y.abs()));
        // Doubles are fast, and rounding stays far from the next integer.
        let (long, short) = (f64::from(a), f64::from(b));
        let length = (long * long + short * short).sqrt() as u32;
        let whole = f64::from(length.max(1));
        let (half, sine) = (short * 4096.0 / (whole + long), short * 4096.0 / whole);
        let (half, sine) = (half as u32, sine as u32);
        Self { flip: [x < 0, y < 0], swap: y.abs() > x.abs(), half, sine, length }
    }

    /// Into the frame: [along, across].
    pub(crate) fn enter(&self, r: [i32; 2]) -> [i32; 2] {
        let mut r = self.mirror(r);
        if self.swap {
            r.swap(0, 1);
        }
        let [x, y] = r;
        let x = x.wrapping_add(shear(self.half, y));
        let y = y.wrapping_sub(shear(self.sine, x));
        let x = x.wrapping_add(shear(self.half, y));
        [x, y]
    }

    /// Out of the frame: the inverse of [`Frame::enter`], for every input.
    pub(crate) fn leave(&self, r: [i32; 2]) -> [i32; 2] {
        let [x, y] = r;
        let x = x.wrapping_sub(shear(self.half, y));
        let y = y.wrapping_add(shear(self.sine, x));
        let x = x.wrapping_sub(shear(self.half, y));
        let mut r = [x, y];
        if self.swap {
            r.swap(0, 1);
        }
        self.mirror(r)
    }

    fn mirror(&self, r: [i32; 2]) -> [i32; 2] {
        [0, 1].map(|k| if self.flip[k] { r[k].wrapping_neg() } else { r[k] })
    }
}

/// factor · v / 4096, rounded; below 2^44 before the shift.
fn shear(factor: u32, v: i32) -> i32 {
    ((i64::from(factor) * i64::from(v) + 2048) >> 12) as i32
}

#[cfg(test)]
pub(crate) mod tests;
