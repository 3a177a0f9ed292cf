//! Context models for place, velocity and facing: one body of code for write, read and training (see [`Coder`]).
//!
//! All numbers are integers: place in steps, velocity in steps per tick (a multiple of the schema's quantum),
//! angles in steps of a full turn. Everything is total: any `i32` can be coded, any bytes decode to something.
//!
//! # Values
//! A value is written as its bit length `n` (0 for the value 0, else ⌊log2 |v|⌋ + 1) in unary, each step in its own
//! context; then the sign; then up to three modelled bits below the leading one; the rest raw. See [`value`].
//!
//! # Frame
//! The horizontal residual is turned into the direction of the baseline velocity: first mirrored and swapped into
//! the first octant, then rotated by three integer shears. Both steps are exactly invertible on wrapping `i32`, so
//! "along" and "across" get contexts of their own at no loss. See [`Frame`].

use crate::coder::Coder;

/// Age classes of a baseline, in ticks: 1, 2, 3, 4, 5–8, 9 and more.
pub const AGES: usize = 6;
/// Classes of bit lengths that have contexts of their own; longer ones share the last.
const LENS: usize = 16;
/// Unary steps per set.
const UNARY: usize = LENS;
/// Modelled bits below the leading one.
const MANTISSA: u32 = 3;
/// Contexts of a mantissa tree.
const TREE: usize = (1 << MANTISSA) - 1;
/// Mantissa sets per family: by bit length.
const MLENS: usize = 13;

/// Scales of horizontal movement since the baseline: bit length of 1.5 · speed · dt.
const SCALES: usize = 14;
/// Vertical classes: still, level, rising slow/mid/fast, falling slow/mid/fast.
const RISES: usize = 8;
/// What the vertical axis did: level, started, fell freely, went on, other.
const LIFTS: usize = 5;
/// Relation of the first horizontal component to the scale.
const RELS: usize = 8;
/// Coarse ages: 1, 2–4, 5 and more.
const AGES3: usize = 3;

const ACTX: usize = 12;
const BCTX: usize = RELS * 5;
// Layout of the context table: each constant is where a family starts.
pub const JUMP: usize = 0;
pub const Z_SAME: usize = JUMP + AGES;
pub const Z_STAY: usize = Z_SAME + RISES * AGES;
pub const Z_FALL: usize = Z_STAY + RISES * AGES;
pub const Z_LEN: usize = Z_FALL + RISES * AGES;
pub const Z_SIGN: usize = Z_LEN + RISES * AGES3 * UNARY;
pub const Z_TREE: usize = Z_SIGN + 10 * RISES * AGES;
pub const H_SAME: usize = Z_TREE + 3 * MLENS * TREE;
pub const H_STOP: usize = H_SAME + SCALES * LIFTS * AGES3;
pub const A_LEN: usize = H_STOP + SCALES * LIFTS;
pub const A_SIGN: usize = A_LEN + ACTX * 30;
pub const A_TREE: usize = A_SIGN + 30 * LIFTS;
pub const B_LEN: usize = A_TREE + 2 * MLENS * TREE;
pub const B_SIGN: usize = B_LEN + BCTX * 30;
pub const B_TREE: usize = B_SIGN + 3 * 10;
/// Number of contexts for places.
pub const PLACE_END: usize = B_TREE + 2 * MLENS * TREE;

/// What both sides know before a place is coded.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Velocity at the baseline, steps per tick.
    pub velocity: [i32; 3],
    /// Ticks since the baseline, at least 1.
    pub age: u32,
    /// Free fall, steps per tick², 0 if unknown: a residual of −fall · age · (age + 1) / 2 is then one symbol.
    pub fall: i32,
}

fn bits(v: u32) -> usize {
    (32 - v.leading_zeros()) as usize
}

/// Bit length of |v|.
pub fn length(v: i32) -> usize {
    bits(v.unsigned_abs())
}

pub fn age_class(age: u32) -> usize {
    match age {
        0..=4 => age.max(1) as usize - 1,
        5..=8 => 4,
        _ => 5,
    }
}

fn age3(age: u32) -> usize {
    match age {
        0..=1 => 0,
        2..=4 => 1,
        _ => 2,
    }
}

/// Where the contexts of one value lie.
pub struct Slots {
    pub len: usize,
    pub sign: usize,
    pub tree: usize,
    /// Smallest bit length possible: what is already ruled out costs nothing.
    pub rel: usize,
}

fn step(rel: usize, n: usize) -> usize {
    if rel == 0 { return n.min(UNARY - 1); }
    let d = (n + 7 - rel.min(n + 7)).min(9);
    d * 3 + n.min(2)
}

/// Codes a value: unary bit length, sign, mantissa.
pub fn value<C: Coder>(c: &mut C, s: &Slots, v: i32) -> i32 {
    let len = length(v);
    let mut n = 0;
    while n < 32 && c.bit(s.len + step(s.rel, n), len > n) {
        n += 1;
    }
    if n == 0 {
        return 0;
    }
    let near = if s.rel == 0 { n.min(9) } else { (n + 7 - s.rel.min(n + 7)).min(9) };
    let negative = c.bit(s.sign + near, v < 0);
    let below = n as u32 - 1;
    let modelled = below.min(MANTISSA);
    let magnitude = v.unsigned_abs();
    let tree = s.tree + n.min(MLENS - 1) * TREE;
    let mut prefix = 1;
    for k in 1..=modelled {
        let bit = c.bit(tree + prefix - 1, magnitude >> (below - k) & 1 == 1);
        prefix = prefix << 1 | usize::from(bit);
    }
    let rest = below - modelled;
    let low = if rest > 0 { c.raw(rest, magnitude & ((1 << rest) - 1)) } else { 0 };
    let out = (prefix as u32) << rest | low;
    if negative { out.wrapping_neg() as i32 } else { out as i32 }
}

/// The horizontal frame of a velocity.
pub struct Frame {
    flip: [bool; 2],
    swap: bool,
    /// Shear factors in 1/4096: tan(θ/2) and sin θ of the angle within the octant.
    half: i64,
    sine: i64,
    /// |v|, steps per tick.
    pub speed: u32,
}

/// Velocities are clamped to this for contexts and frames: squares stay below 2^53.
const FASTEST: i32 = 1 << 22;

impl Frame {
    pub fn new(v: [i32; 3]) -> Self {
        let x = i64::from(v[0].clamp(-FASTEST, FASTEST));
        let y = i64::from(v[1].clamp(-FASTEST, FASTEST));
        let (a, b) = (x.abs().max(y.abs()), x.abs().min(y.abs()));
        let speed = (a * a + b * b).isqrt();
        let (half, sine) = if speed == 0 { (0, 0) } else { (b * 4096 / (speed + a), b * 4096 / speed) };
        Self { flip: [x < 0, y < 0], swap: y.abs() > x.abs(), half, sine, speed: speed as u32 }
    }

    /// Into the frame: [along, across].
    pub fn enter(&self, r: [i32; 2]) -> [i32; 2] {
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

    /// Back out of the frame: the inverse of [`Frame::enter`], for every input.
    pub fn leave(&self, r: [i32; 2]) -> [i32; 2] {
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

/// factor · v / 4096, rounded; at most 4096 · 2^31 = 2^43 before the shift.
fn shear(factor: i64, v: i32) -> i32 {
    ((factor * i64::from(v) + 2048) >> 12) as i32
}

fn rise_class(v: [i32; 3]) -> usize {
    let size = match length(v[2]) {
        0 => return usize::from(v[0] != 0 || v[1] != 0),
        1..=3 => 0,
        4..=6 => 1,
        _ => 2,
    };
    2 + size + if v[2] < 0 { 3 } else { 0 }
}

/// v · age, the displacement that the prediction assumes.
fn advance(v: i32, age: u32) -> i32 {
    v.wrapping_mul(age as i32)
}

/// Codes the vertical residual; returns it and the class of what happened.
fn code_z<C: Coder>(c: &mut C, k: &Known, r: i32) -> (i32, usize) {
    let (rise, age) = (rise_class(k.velocity), age_class(k.age));
    let at = rise * AGES + age;
    let level = k.velocity[2] == 0;
    if !c.bit(Z_SAME + at, r != 0) {
        return (0, if level { 0 } else { 3 });
    }
    let stay = advance(k.velocity[2], k.age).wrapping_neg();
    if !level && !c.bit(Z_STAY + at, r != stay) {
        return (stay, 1);
    }
    let t = k.age.min(1 << 10) as i32;
    let fall = k.fall.wrapping_mul(t * (t + 1) / 2).wrapping_neg();
    if k.fall != 0 && !c.bit(Z_FALL + at, r != fall) {
        return (fall, 2);
    }
    let side = if level { 0 } else if k.velocity[2] > 0 { 1 } else { 2 };
    let slots = Slots {
        len: Z_LEN + (rise * AGES3 + age3(k.age)) * UNARY,
        sign: Z_SIGN + at * 10,
        tree: Z_TREE + side * MLENS * TREE,
        rel: 0,
    };
    (value(c, &slots, r), 4)
}

/// Codes the residual of a place: place − (baseline place + velocity · age), on each axis.
pub fn code_residual<C: Coder>(c: &mut C, k: &Known, r: [i32; 3]) -> [i32; 3] {
    let (z, lift) = code_z(c, k, r[2]);
    let frame = Frame::new(k.velocity);
    let way = (frame.speed.saturating_mul(k.age)).min(1 << 24);
    let scale = bits(way + way / 2).min(SCALES - 1);
    let at = scale * LIFTS + lift;
    if !c.bit(H_SAME + at * AGES3 + age3(k.age), r[0] != 0 || r[1] != 0) {
        return [0, 0, z];
    }
    if frame.speed > 0 {
        let stop = [0, 1].map(|a| advance(k.velocity[a], k.age).wrapping_neg());
        if !c.bit(H_STOP + at, r[0] != stop[0] || r[1] != stop[1]) {
            return [stop[0], stop[1], z];
        }
    }
    let [along, across] = frame.enter([r[0], r[1]]);
    let half = frame.speed.min(1 << 20) * 25 / 16;
    let half = if half > 1 { (half >> (bits(half) - 2) & 1) as usize } else { 0 };
    let moving = usize::from(frame.speed > 0);
    let actx = (moving * AGES3 + age3(k.age)) * 2 + half;
    let along = value(c, &Slots {
        len: A_LEN + actx * 30,
        sign: A_SIGN + (age3(k.age) * LIFTS + lift) * 10,
        tree: A_TREE + moving * MLENS * TREE,
        rel: scale + 1,
    }, along);
    let _ = half;
    let rel = relation(scale, along);
    let bctx = rel * 5 + lift;
    let across = value(c, &Slots {
        len: B_LEN + bctx * 30,
        sign: B_SIGN + sign_class(along) * 10,
        tree: B_TREE + moving * MLENS * TREE,
        rel: length(along) + 1,
    }, across);
    let [x, y] = frame.leave([along, across]);
    [x, y, z]
}

/// Size of the first component against the scale: zero, then by octaves.
fn relation(scale: usize, first: i32) -> usize {
    if first == 0 {
        return 0;
    }
    let gap = scale as i32 - length(first) as i32;
    (6 - gap).clamp(1, RELS as i32 - 1) as usize
}

fn sign_class(v: i32) -> usize {
    (v.signum() + 1) as usize
}

// ---- velocity, facing, alias, age (exploration)
pub const V_SAME: usize = PLACE_END;
pub const V_LEN: usize = V_SAME + AGES * 8;
pub const V_SIGN: usize = V_LEN + 2 * 8 * UNARY;
pub const V_TREE: usize = V_SIGN + 2 * 8 * 10;
pub const F_SAME: usize = V_TREE + 2 * MLENS * TREE;
pub const Y_LEN: usize = F_SAME + AGES * 2;
pub const Y_SIGN: usize = Y_LEN + AGES * UNARY;
pub const Y_TREE: usize = Y_SIGN + 10;
pub const P_LEN: usize = Y_TREE + MLENS * TREE;
pub const P_SIGN: usize = P_LEN + AGES * 4 * UNARY;
pub const P_TREE: usize = P_SIGN + 10;
pub const G_LEN: usize = P_TREE + MLENS * TREE;
pub const G_TREE: usize = G_LEN + UNARY;
pub const T_LEN: usize = G_TREE + MLENS * TREE;
pub const T_TREE: usize = T_LEN + UNARY;
pub const N_LEN: usize = T_TREE + MLENS * TREE;
pub const N_TREE: usize = N_LEN + UNARY;
pub const SIGN0: usize = N_TREE + MLENS * TREE;
pub const END: usize = SIGN0 + 10;

fn div_round(a: i64, b: i64) -> i32 { (2 * a + b).div_euclid(2 * b) as i32 }

/// kmode: numerator of k in quarters
pub fn code_velocity<C: Coder>(c: &mut C, base: [i32; 3], moved: [i32; 3], age: u32, vq: i32, kq: i64, v: [i32; 3]) -> [i32; 3] {
    let t = i64::from(age);
    let q = i64::from(vq);
    // mean velocity in quanta, extrapolated
    let p = [0, 1, 2].map(|k| {
        let m4 = 4 * i64::from(moved[k]);
        div_round(m4 + kq * (i64::from(moved[k]) - i64::from(base[k]) * q * t), 4 * t * q)
    });
    let d = [0, 1, 2].map(|k| (p[k] - base[k]).abs());
    if age == 1 && kq == 0 { return p; }
    let big = length(d[0].max(d[1]).max(d[2])).min(7);
    if !c.bit(V_SAME + age_class(age) * 8 + big, v != p) { return p; }
    let mut out = [0; 3];
    for k in [2, 0, 1] {
        let z = usize::from(k == 2);
        let own = if k == 2 { length(d[2]).min(7) } else { length(d[0].max(d[1])).min(7) };
        out[k] = p[k] + value(c, &Slots { len: V_LEN + (z * 8 + own) * UNARY, sign: V_SIGN + (z * 8 + own) * 10, tree: V_TREE + z * MLENS * TREE, rel: 0 }, v[k] - p[k]);
    }
    out
}
pub fn code_facing<C: Coder>(c: &mut C, age: u32, dyaw: i32, dpitch: i32) -> [i32; 2] {
    let a = age_class(age);
    if !c.bit(F_SAME + a * 2, dyaw != 0 || dpitch != 0) { return [0, 0]; }
    let y = value(c, &Slots { len: Y_LEN + a * UNARY, sign: Y_SIGN, tree: Y_TREE, rel: 0 }, dyaw);
    let yc = match length(y) { 0 => 0, 1..=2 => 1, 3..=4 => 2, _ => 3 };
    let p = value(c, &Slots { len: P_LEN + (a * 4 + yc) * UNARY, sign: P_SIGN, tree: P_TREE, rel: 0 }, dpitch);
    [y, p]
}
pub fn code_count<C: Coder>(c: &mut C, len: usize, tree: usize, v: i32) -> i32 { value(c, &Slots { len, sign: SIGN0, tree, rel: 0 }, v) }
