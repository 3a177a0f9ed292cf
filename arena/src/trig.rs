//! Directions in integers: 65,536 steps to a turn, and a sine table that every implementation of
//! the game shares to the last bit.
//!
//! The browser client predicts its own avatar with the same step as the server, and a difference of
//! one bit in a sine would cause a correction every few ticks. So the table is part of the game's
//! definition: entry `i` is `sin(i / 4096 turn) · 65536`, rounded to the nearest integer. No entry
//! is near a tie (a test checks that), so another implementation may fill the table with its own
//! floating-point sine.

/// The value of 1.0 in [`Yaw::sin`] and [`Yaw::cos`].
pub const ONE: i32 = 1 << 16;

/// A direction in 1/65,536 turn: 0 points along +x, a quarter turn (16,384) along +y.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Yaw(pub u16);

const QUARTER: u16 = 1 << 14;
const TABLE_STEPS: usize = 1 << 10;
/// Steps of [`Yaw`] between two entries of the table, as a shift.
const STEP_BITS: u32 = 4;
static QUARTER_WAVE: [i32; TABLE_STEPS + 1] = quarter_wave();

/// The sine's Taylor series in 60-bit fixed point: the error stays far below half a unit of the
/// table, and the build machine's floating-point sine is not used.
const fn quarter_wave() -> [i32; TABLE_STEPS + 1] {
    const FRACTION: u32 = 60;
    /// π/2 · 2^60.
    const HALF_PI: i128 = 1_811_004_865_519_588_410;
    let mut table = [0; TABLE_STEPS + 1];
    let mut i = 0;
    while i <= TABLE_STEPS {
        let angle = HALF_PI * i as i128 / TABLE_STEPS as i128;
        let squared = (angle * angle) >> FRACTION;
        let (mut term, mut sum, mut n) = (angle, angle, 1);
        while n < 25 {
            term = -((term * squared) >> FRACTION) / ((n + 1) * (n + 2));
            sum += term;
            n += 2;
        }
        table[i] = ((sum + (1 << (FRACTION - 17))) >> (FRACTION - 16)) as i32;
        i += 1;
    }
    table
}

/// Sine within the first quarter turn, including both ends; linear between the entries.
fn quarter_sine(angle: u16) -> i32 {
    let index = usize::from(angle >> STEP_BITS);
    let low = QUARTER_WAVE[index];
    let rest = i32::from(angle & ((1 << STEP_BITS) - 1));
    if rest == 0 {
        return low;
    }
    low + (((QUARTER_WAVE[index + 1] - low) * rest) >> STEP_BITS)
}

impl Yaw {
    /// Sine, in 1/65,536.
    pub fn sin(self) -> i32 {
        let within = self.0 % QUARTER;
        match self.0 / QUARTER {
            0 => quarter_sine(within),
            1 => quarter_sine(QUARTER - within),
            2 => -quarter_sine(within),
            _ => -quarter_sine(QUARTER - within),
        }
    }

    /// Cosine, in 1/65,536.
    pub fn cos(self) -> i32 {
        Yaw(self.0.wrapping_add(QUARTER)).sin()
    }

    /// The direction of the vector (x, y), at most one step less than the true one; `Yaw(0)` for
    /// the null vector. Components must stay below 2^40, so that their products with a sine fit
    /// `i64`.
    pub fn of(x: i64, y: i64) -> Yaw {
        if (x, y) == (0, 0) {
            return Yaw(0);
        }
        let (ax, ay) = (x.abs(), y.abs());
        // The largest angle of the first quarter that is not beyond the vector.
        let (mut low, mut high) = (0, QUARTER);
        while low < high {
            let middle = Yaw((low + high).div_ceil(2));
            if ax * i64::from(middle.sin()) <= ay * i64::from(middle.cos()) {
                low = middle.0;
            } else {
                high = middle.0 - 1;
            }
        }
        let (left, down) = (x < 0, y < 0);
        Yaw(match (left, down) {
            (false, false) => low,
            (true, false) => 2 * QUARTER - low,
            (true, true) => 2 * QUARTER + low,
            (false, true) => low.wrapping_neg(),
        })
    }

    /// The shortest way to turn from `self` to `other`, in steps; positive is to the left.
    pub fn turn_to(self, other: Yaw) -> i32 {
        i32::from(other.0.wrapping_sub(self.0) as i16)
    }

    /// Turned to the left by this many steps.
    pub fn turned(self, steps: i32) -> Yaw {
        Yaw(self.0.wrapping_add(steps as u16))
    }

    /// The direction in radians, 0 to 2π.
    pub fn radians(self) -> f64 {
        f64::from(self.0) * (std::f64::consts::TAU / 65_536.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_table_is_the_rounded_sine_and_no_entry_is_near_a_tie() {
        for (i, &entry) in QUARTER_WAVE.iter().enumerate() {
            let exact = (i as f64 / 4096.0 * std::f64::consts::TAU).sin() * f64::from(ONE);
            assert_eq!(f64::from(entry), exact.round(), "entry {i}");
            let from_tie = ((exact - exact.floor()) - 0.5).abs();
            assert!(from_tie > 1e-6, "entry {i} is {from_tie} from a tie");
        }
    }

    #[test]
    fn every_sine_is_within_two_units_of_the_true_one() {
        for step in 0..=u16::MAX {
            let yaw = Yaw(step);
            let (sin, cos) = yaw.radians().sin_cos();
            assert!((f64::from(yaw.sin()) - sin * f64::from(ONE)).abs() < 2.0);
            assert!((f64::from(yaw.cos()) - cos * f64::from(ONE)).abs() < 2.0);
        }
    }

    #[test]
    fn directions_of_the_axes_are_exact() {
        let yaws = [(1, 0), (0, 1), (-1, 0), (0, -1)].map(|(x, y)| Yaw::of(x, y).0);
        assert_eq!(yaws, [0, 16_384, 32_768, 49_152]);
        assert_eq!(Yaw::of(0, 0), Yaw(0));
    }

    proptest! {
        #[test]
        fn the_direction_of_a_vector_is_its_arc_tangent(x in -99_999i64..99_999, y in -99_999i64..99_999) {
            prop_assume!((x, y) != (0, 0));
            let exact = (y as f64).atan2(x as f64).rem_euclid(std::f64::consts::TAU);
            let off = (Yaw::of(x, y).radians() - exact).abs();
            let off = off.min(std::f64::consts::TAU - off);
            prop_assert!(off < 3.0 * std::f64::consts::TAU / 65_536.0, "{off}");
        }
    }
}
