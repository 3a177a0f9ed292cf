//! How a game counts its angles, and the comment line by which a recording states it.

use std::fmt;
use std::str::FromStr;

/// Directions of yaw zero, in quarter turns counter-clockwise from +x.
const ZEROS: [&str; 4] = ["+x", "+y", "-x", "-y"];

/// How a recording counts yaw and pitch.
///
/// A file states it in a comment line before its header:
///
/// ```
/// use foveate_lab::trace::AngleConvention;
/// let stated: AngleConvention = "yaw: counter-clockwise from +y; pitch: up".parse().unwrap();
/// assert_eq!(stated.yaw(-90.0), 0.0);
/// assert_eq!(stated.statement(), "# yaw: counter-clockwise from +y; pitch: up");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AngleConvention {
    /// The direction of yaw zero: quarter turns counter-clockwise from +x, 0 to 3.
    zero: u8,
    clockwise: bool,
    /// Whether positive pitch looks down.
    down: bool,
}

impl AngleConvention {
    /// All conventions that can be stated: four directions of zero, two senses of yaw, two of pitch.
    pub fn all() -> impl Iterator<Item = AngleConvention> {
        (0..16).map(|n: u8| AngleConvention {
            zero: n % 4,
            clockwise: n & 4 != 0,
            down: n & 8 != 0,
        })
    }

    /// The same with pitch counted upwards or downwards.
    pub fn with_pitch_down(self, down: bool) -> AngleConvention {
        AngleConvention { down, ..self }
    }

    pub fn is_pitch_down(self) -> bool {
        self.down
    }

    /// A recorded yaw in radians, counter-clockwise from +x.
    pub fn yaw(self, degrees: f32) -> f32 {
        let sense = if self.clockwise { -1.0 } else { 1.0 };
        (sense * degrees + 90.0 * f32::from(self.zero)).to_radians()
    }

    /// A recorded pitch in radians, up.
    pub fn pitch(self, degrees: f32) -> f32 {
        if self.down { -degrees } else { degrees }.to_radians()
    }

    /// The comment line that states it.
    pub fn statement(self) -> String {
        format!("# {self}")
    }
}

impl fmt::Display for AngleConvention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sense = if self.clockwise { "clockwise" } else { "counter-clockwise" };
        let pitch = if self.down { "down" } else { "up" };
        write!(f, "yaw: {sense} from {}; pitch: {pitch}", ZEROS[usize::from(self.zero % 4)])
    }
}

/// A statement that matches none of [`AngleConvention::all`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownConvention;

impl FromStr for AngleConvention {
    type Err = UnknownConvention;

    fn from_str(text: &str) -> Result<AngleConvention, UnknownConvention> {
        let words =
            |text: &str| text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ");
        let text = words(text);
        AngleConvention::all().find(|it| it.to_string() == text).ok_or(UnknownConvention)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_convention_is_stated_and_read_back() {
        let all: Vec<_> = AngleConvention::all().collect();
        assert_eq!(all.len(), 16);
        for convention in all {
            assert_eq!(convention.to_string().parse(), Ok(convention));
            let spaced = convention.to_string().to_uppercase().replace(' ', "  ");
            assert_eq!(spaced.parse(), Ok(convention), "{spaced}");
        }
        for wrong in ["yaw: clockwise from +z; pitch: up", "yaw: clockwise from +x", ""] {
            assert_eq!(wrong.parse::<AngleConvention>(), Err(UnknownConvention), "{wrong}");
        }
    }

    #[test]
    fn a_compass_heading_turns_clockwise_from_north() {
        let compass: AngleConvention = "yaw: clockwise from +y; pitch: down".parse().unwrap();
        let [north, east] = [compass.yaw(0.0), compass.yaw(90.0)];
        assert!((north.sin() - 1.0).abs() < 1e-6 && (east.cos() - 1.0).abs() < 1e-6);
        assert_eq!(compass.pitch(10.0), -(10.0_f32.to_radians()));
    }
}
