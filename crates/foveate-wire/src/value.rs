//! Values ⇄ lanes: values are quantised once, at the edge. The engine only has lanes.

use crate::schema::{FieldType, HIDDEN_LANES, Kind, KindSpec};
use std::f32::consts::TAU;

/// A struct that can be replicated; use `#[derive(Replicate)]` to implement it.
pub trait Replicate: Sized {
    /// The name of the kind in the schema.
    const NAME: &'static str;

    /// The specification of the kind.
    fn spec() -> KindSpec;

    /// Writes the value into an object's lanes, except owner and epoch.
    fn put(&self, kind: &Kind, lanes: &mut [i32]);

    /// Reads a value from an object's lanes.
    fn get(kind: &Kind, lanes: &[i32]) -> Self;
}

/// A type that a field of a replicated struct can have.
///
/// `get` must accept any lanes: values from the network are put into range, never trusted.
pub trait Field: Sized {
    /// The default field type, if the struct's attributes do not change it.
    fn field_type() -> FieldType;
    /// Writes the value as `ty` specifies.
    fn put(&self, ty: &FieldType, lanes: &mut [i32]);
    /// Reads a value written as `ty` specifies.
    fn get(ty: &FieldType, lanes: &[i32]) -> Self;
}

/// The lanes of a field. For generated code.
pub fn field_lanes<'a>(kind: &Kind, field: usize, lanes: &'a [i32]) -> &'a [i32] {
    &lanes[kind.ranges[field].clone()]
}

/// The lanes of a field, to write. For generated code.
pub fn field_lanes_mut<'a>(kind: &Kind, field: usize, lanes: &'a mut [i32]) -> &'a mut [i32] {
    debug_assert!(kind.ranges[field].start >= HIDDEN_LANES);
    &mut lanes[kind.ranges[field].clone()]
}

fn to_step(value: f32, precision: f32, min: f32, max: f32) -> i32 {
    // NaN becomes the least value: a game's bug must not spread as an invalid state.
    let value = if value.is_nan() { min } else { value.clamp(min, max) };
    to_round(f64::from(value) / f64::from(precision)) as i32
}

/// Prepares a number so that truncation rounds it, halves away from zero. Slightly less than a half
/// is added, so that the number just below a half stays below one. Many times faster than `round`
/// on processors without an instruction for it.
#[inline]
fn to_round(number: f64) -> f64 {
    number + (0.5 - f64::EPSILON / 4.0).copysign(number)
}

fn from_step(step: i32, precision: f32) -> f32 {
    (f64::from(step) * f64::from(precision)) as f32
}

/// An angle in radians, as a part of a turn.
pub fn angle_to_steps(radians: f32, steps: u32) -> i32 {
    let turn = f64::from(radians / TAU);
    let turn = if turn.is_finite() { turn - turn.floor() } else { 0.0 };
    (to_round(turn * f64::from(steps)) as u32 % steps) as i32
}

/// A part of a turn, as radians in (−π, π].
pub fn steps_to_angle(step: i32, steps: u32) -> f32 {
    let turn = f64::from(step.rem_euclid(steps as i32)) / f64::from(steps);
    let turn = if turn > 0.5 { turn - 1.0 } else { turn };
    (turn * f64::from(TAU)) as f32
}

impl Field for f32 {
    fn field_type() -> FieldType {
        FieldType::Number { precision: 1.0 / 64.0, min: -65_536.0, max: 65_536.0 }
    }

    fn put(&self, ty: &FieldType, lanes: &mut [i32]) {
        lanes[0] = match ty {
            FieldType::Angle { steps } => angle_to_steps(*self, *steps),
            FieldType::Number { precision, min, max } => to_step(*self, *precision, *min, *max),
            other => unreachable!("the derive gives no {other:?} to an f32"),
        };
    }

    fn get(ty: &FieldType, lanes: &[i32]) -> f32 {
        match ty {
            FieldType::Angle { steps } => steps_to_angle(lanes[0], *steps),
            FieldType::Number { precision, min, max } => {
                from_step(lanes[0], *precision).clamp(*min, *max)
            }
            other => unreachable!("the derive gives no {other:?} to an f32"),
        }
    }
}

impl<const N: usize> Field for [f32; N] {
    /// Two or three numbers are a place, four a quaternion (x, y, z, w).
    fn field_type() -> FieldType {
        const { assert!(N >= 2 && N <= 4, "arrays of 2, 3 (place) or 4 (quaternion) numbers") };
        match N {
            4 => FieldType::Quaternion { bits: 11 },
            _ => {
                let (precision, extent) = (1.0 / 8.0, 8_192.0);
                FieldType::Place { dims: N as u8, precision, extent, motion: false }
            }
        }
    }

    fn put(&self, ty: &FieldType, lanes: &mut [i32]) {
        match ty {
            FieldType::Place { precision, extent, .. } => {
                for (lane, value) in lanes.iter_mut().zip(self) {
                    *lane = to_step(*value, *precision, -*extent, *extent);
                }
            }
            FieldType::Quaternion { bits } => put_quaternion(self, *bits, lanes),
            other => unreachable!("the derive gives no {other:?} to an array"),
        }
    }

    fn get(ty: &FieldType, lanes: &[i32]) -> [f32; N] {
        let mut out = [0.0; N];
        match ty {
            FieldType::Place { precision, extent, .. } => {
                for (value, lane) in out.iter_mut().zip(lanes) {
                    *value = from_step(*lane, *precision).clamp(-*extent, *extent);
                }
            }
            FieldType::Quaternion { bits } => get_quaternion(&mut out, *bits, lanes),
            other => unreachable!("the derive gives no {other:?} to an array"),
        }
        out
    }
}

/// The step size of the three smaller parts of a unit quaternion, which are within ±1/√2.
fn quaternion_step(bits: u8) -> f32 {
    std::f32::consts::FRAC_1_SQRT_2 / ((1 << (bits - 1)) - 1) as f32
}

fn put_quaternion(q: &[f32], bits: u8, lanes: &mut [i32]) {
    let norm = q.iter().map(|part| part * part).sum::<f32>().sqrt();
    let usable = norm.is_finite() && norm > 1e-6;
    let unit = |at: usize| if usable { q[at] / norm } else { f32::from(u8::from(at == 3)) };
    let largest = (0..4).max_by(|&a, &b| unit(a).abs().total_cmp(&unit(b).abs())).unwrap_or(3);
    // q and −q are the same rotation: make the largest part positive, and leave it out.
    let sign = if unit(largest) < 0.0 { -1.0 } else { 1.0 };
    lanes[0] = largest as i32;
    let rest = (0..4).filter(|&at| at != largest);
    for (lane, at) in lanes[1..].iter_mut().zip(rest) {
        *lane = (sign * unit(at) / quaternion_step(bits)).round() as i32;
    }
}

fn get_quaternion(q: &mut [f32], bits: u8, lanes: &[i32]) {
    let (largest, most) = (lanes[0].rem_euclid(4) as usize, (1 << (bits - 1)) - 1);
    let mut square = 0.0;
    let rest = (0..4).filter(|&at| at != largest);
    for (lane, at) in lanes[1..].iter().zip(rest) {
        q[at] = (*lane).clamp(-most, most) as f32 * quaternion_step(bits);
        square += q[at] * q[at];
    }
    // Three parts at their limit have a square sum of 1.5: scale them back onto the sphere.
    let scale = if square > 1.0 { square.sqrt().recip() } else { 1.0 };
    q.iter_mut().enumerate().filter(|(at, _)| *at != largest).for_each(|(_, part)| *part *= scale);
    q[largest] = (1.0 - (square * scale * scale)).max(0.0).sqrt();
}

macro_rules! whole_number {
    ($($ty:ty),*) => {$(
        impl Field for $ty {
            fn field_type() -> FieldType {
                let (min, max) = (i32::try_from(<$ty>::MIN), i32::try_from(<$ty>::MAX));
                FieldType::Integer { min: min.unwrap_or(i32::MIN), max: max.unwrap_or(i32::MAX) }
            }

            fn put(&self, ty: &FieldType, lanes: &mut [i32]) {
                let FieldType::Integer { min, max } = ty else {
                    unreachable!("the derive gives no {ty:?} to a whole number")
                };
                let above = if i64::try_from(*self).is_ok_and(|value| value < 0) { *min } else { *max };
                lanes[0] = i32::try_from(*self).unwrap_or(above).clamp(*min, *max);
            }

            fn get(ty: &FieldType, lanes: &[i32]) -> $ty {
                let FieldType::Integer { min, max } = ty else {
                    unreachable!("the derive gives no {ty:?} to a whole number")
                };
                <$ty>::try_from(lanes[0].clamp(*min, *max)).unwrap_or_default()
            }
        }
    )*};
}

whole_number!(u8, i8, u16, i16, u32, i32);

impl Field for bool {
    fn field_type() -> FieldType {
        FieldType::Symbol { count: 2 }
    }

    fn put(&self, _: &FieldType, lanes: &mut [i32]) {
        lanes[0] = i32::from(*self);
    }

    fn get(_: &FieldType, lanes: &[i32]) -> bool {
        lanes[0] & 1 == 1
    }
}

fn put_bytes(bytes: &[u8], lanes: &mut [i32]) {
    lanes.fill(0);
    let room = (lanes.len() - 1) * 4;
    let bytes = &bytes[..bytes.len().min(room)];
    lanes[0] = bytes.len() as i32;
    for (lane, chunk) in lanes[1..].iter_mut().zip(bytes.chunks(4)) {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        *lane = i32::from_le_bytes(word);
    }
}

fn get_bytes(max: u16, lanes: &[i32]) -> Vec<u8> {
    let length = lanes[0].clamp(0, i32::from(max)) as usize;
    lanes[1..].iter().flat_map(|lane| lane.to_le_bytes()).take(length).collect()
}

fn longest(ty: &FieldType) -> u16 {
    match ty {
        FieldType::Text { max } | FieldType::Bytes { max } => *max,
        other => unreachable!("the derive gives no {other:?} to text or bytes"),
    }
}

impl Field for String {
    fn field_type() -> FieldType {
        FieldType::Text { max: 32 }
    }

    /// Longer text is cut at the last whole character that fits.
    fn put(&self, ty: &FieldType, lanes: &mut [i32]) {
        let mut end = self.len().min(usize::from(longest(ty)));
        while !self.is_char_boundary(end) {
            end -= 1;
        }
        put_bytes(&self.as_bytes()[..end], lanes);
    }

    fn get(ty: &FieldType, lanes: &[i32]) -> String {
        String::from_utf8_lossy(&get_bytes(longest(ty), lanes)).into_owned()
    }
}

impl Field for Vec<u8> {
    fn field_type() -> FieldType {
        FieldType::Bytes { max: 64 }
    }

    fn put(&self, ty: &FieldType, lanes: &mut [i32]) {
        put_bytes(&self[..self.len().min(usize::from(longest(ty)))], lanes);
    }

    fn get(ty: &FieldType, lanes: &[i32]) -> Vec<u8> {
        get_bytes(longest(ty), lanes)
    }
}

impl<T: Field> Field for Option<T> {
    fn field_type() -> FieldType {
        FieldType::Optional(Box::new(T::field_type()))
    }

    fn put(&self, ty: &FieldType, lanes: &mut [i32]) {
        let FieldType::Optional(inner) = ty else {
            unreachable!("the derive gives no {ty:?} to an option")
        };
        lanes.fill(0);
        if let Some(value) = self {
            lanes[0] = 1;
            value.put(inner, &mut lanes[1..]);
        }
    }

    fn get(ty: &FieldType, lanes: &[i32]) -> Option<T> {
        let FieldType::Optional(inner) = ty else {
            unreachable!("the derive gives no {ty:?} to an option")
        };
        (lanes[0] & 1 == 1).then(|| T::get(inner, &lanes[1..]))
    }
}

/// A list of at most `N` values; others are dropped.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct List<T, const N: u16>(pub Vec<T>);

impl<T: Field, const N: u16> Field for List<T, N> {
    fn field_type() -> FieldType {
        FieldType::List { item: Box::new(T::field_type()), max: N }
    }

    fn put(&self, ty: &FieldType, lanes: &mut [i32]) {
        let FieldType::List { item, max } = ty else {
            unreachable!("the derive gives no {ty:?} to a list")
        };
        lanes.fill(0);
        let count = self.0.len().min(usize::from(*max));
        lanes[0] = count as i32;
        for (value, lanes) in self.0[..count].iter().zip(lanes[1..].chunks_mut(item.lanes())) {
            value.put(item, lanes);
        }
    }

    fn get(ty: &FieldType, lanes: &[i32]) -> List<T, N> {
        let FieldType::List { item, max } = ty else {
            unreachable!("the derive gives no {ty:?} to a list")
        };
        let count = lanes[0].clamp(0, i32::from(*max)) as usize;
        List(lanes[1..].chunks(item.lanes()).take(count).map(|lanes| T::get(item, lanes)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip<T: Field>(value: &T, ty: &FieldType) -> T {
        let mut lanes = vec![7; ty.lanes()];
        value.put(ty, &mut lanes);
        T::get(ty, &lanes)
    }

    #[test]
    fn cutting_off_rounds_like_round() {
        let edges =
            [0.0, 0.25, 0.5, 0.5 - f64::EPSILON / 4.0, 1.5, 2.5, 1e9 + 0.5, 4e9, 2e15 + 0.5];
        let near = edges.iter().flat_map(|edge| [edge.next_down(), *edge, edge.next_up()]);
        for number in near.flat_map(|number| [number, -number]).chain([f64::NAN, f64::INFINITY]) {
            assert_eq!(to_round(number) as i64, number.round() as i64, "{number}");
        }
    }

    proptest! {
        #[test]
        fn places_come_back_within_half_a_step(p in prop::array::uniform3(-9e3f32..9e3)) {
            let ty = <[f32; 3]>::field_type();
            for (before, after) in p.iter().zip(round_trip(&p, &ty)) {
                prop_assert!((before.clamp(-8192.0, 8192.0) - after).abs() <= 0.0626);
            }
        }

        #[test]
        fn angles_come_back_within_half_a_step_on_the_circle(a in -50f32..50.0, steps in 2u32..4096) {
            let back = round_trip(&a, &FieldType::Angle { steps });
            let off = (a - back).rem_euclid(TAU);
            prop_assert!(off.min(TAU - off) <= TAU / steps as f32 * 0.501);
        }

        #[test]
        fn quaternions_come_back_as_the_same_rotation(q in prop::array::uniform4(-1f32..1.0)) {
            let norm = q.iter().map(|x| x * x).sum::<f32>().sqrt();
            prop_assume!(norm > 0.05);
            let back = round_trip(&q, &FieldType::Quaternion { bits: 11 });
            let dot = q.iter().zip(back).map(|(a, b)| a / norm * b).sum::<f32>().abs();
            prop_assert!(dot > 0.9999, "{dot}");
        }

        #[test]
        fn any_lanes_give_a_value(lanes in prop::collection::vec(any::<i32>(), 12)) {
            <[f32; 3]>::get(&<[f32; 3]>::field_type(), &lanes);
            <[f32; 4]>::get(&<[f32; 4]>::field_type(), &lanes).iter().for_each(|x| assert!(x.is_finite()));
            f32::get(&FieldType::Angle { steps: 240 }, &lanes);
            String::get(&String::field_type(), &lanes);
            <Option<u8>>::get(&<Option<u8>>::field_type(), &lanes);
            <List<u16, 8>>::get(&<List<u16, 8>>::field_type(), &lanes);
        }

        #[test]
        fn text_is_cut_at_a_character(text in "\\PC{0,40}") {
            let back = round_trip(&text, &FieldType::Text { max: 16 });
            prop_assert!(back.len() <= 16 && text.starts_with(&back));
        }

        #[test]
        fn bytes_lists_and_options_come_back(bytes in prop::collection::vec(any::<u8>(), 0..64), some: Option<i16>) {
            prop_assert_eq!(&round_trip(&bytes, &Vec::<u8>::field_type()), &bytes);
            prop_assert_eq!(round_trip(&some, &<Option<i16>>::field_type()), some);
            let list: List<u8, 64> = List(bytes);
            prop_assert_eq!(&round_trip(&list, &<List<u8, 64>>::field_type()), &list);
        }
    }

    #[test]
    fn odd_numbers_are_put_into_range() {
        let ty = FieldType::Number { precision: 0.5, min: -2.0, max: 3.0 };
        for (value, expected) in [(f32::NAN, -2.0), (f32::INFINITY, 3.0), (-9.0, -2.0), (1.2, 1.0)]
        {
            assert_eq!(round_trip(&value, &ty), expected);
        }
        let ty = FieldType::Integer { min: 1, max: 9 };
        assert_eq!(round_trip(&200u8, &ty), 9);
        assert_eq!(round_trip(&-3i32, &ty), 1);
        assert_eq!(round_trip(&u32::MAX, &ty), 9);
    }
}
