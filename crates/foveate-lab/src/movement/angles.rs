//! Guesses how a recording counts its angles, for files that do not state it.

use crate::trace::{AngleConvention, Resampled, Sample};
use std::fmt;

/// The ratio of players aimed at under the best convention to those under the next best must be at least this. The
/// recordings in `traces/` have 1.3 to 1.5. (Directions of movement do not help: bots strafe, Cube 2's most of the
/// time.)
const SURE_YAW: f64 = 1.2;
/// With fewer players aimed at, the result may be chance.
const ENOUGH: u32 = 100;
/// A player within this angle of another's facing, in degrees, is aimed at.
const AIM: f32 = 3.0;
/// The elevation of players straight ahead and the pitch must correlate at least this much, with either sign.
const SURE_PITCH: f64 = 0.1;
/// Pitches below this many degrees (root mean square) do not tilt a field of view.
const LEVEL: f64 = 0.5;
/// A player within this cosine of another's facing is straight ahead: 11°.
const STRAIGHT: f32 = 0.98;

/// The convention that movement suggests, and how clearly.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AngleGuess {
    /// The most plausible convention.
    pub convention: AngleConvention,
    /// Players aimed at under it, divided by those under the next best convention.
    pub yaw_ratio: f64,
    /// Players aimed at in the sampled rounds.
    pub aimed_at: u32,
    /// The absolute correlation of elevation and pitch; `None` if all players look level.
    pub pitch_correlation: Option<f64>,
}

impl AngleGuess {
    /// Whether it is clear enough to be used.
    pub fn is_sure(&self) -> bool {
        let yaw = self.yaw_ratio >= SURE_YAW && self.aimed_at >= ENOUGH;
        yaw && self.pitch_correlation.is_none_or(|r| r >= SURE_PITCH)
    }

    /// The most plausible convention of a recording: players look at the ones they aim at, and up at those above them.
    pub(super) fn of(samples: &Resampled) -> AngleGuess {
        let mut scores: Vec<(u32, AngleConvention)> = AngleConvention::all()
            .filter(|convention| !convention.is_pitch_down())
            .map(|convention| (aimed_at(convention, samples), convention))
            .collect();
        scores.sort_by_key(|(score, _)| std::cmp::Reverse(*score));
        let [(aimed_at, convention), (next, _), ..] = scores[..] else { unreachable!() };
        let pitch = aims_up(convention, samples);
        AngleGuess {
            convention: convention.with_pitch_down(pitch.is_some_and(|r| r < 0.0)),
            yaw_ratio: f64::from(aimed_at) / f64::from(next.max(1)),
            aimed_at,
            pitch_correlation: pitch.map(f64::abs),
        }
    }
}

impl fmt::Display for AngleGuess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AngleGuess { convention, yaw_ratio, aimed_at, pitch_correlation } = self;
        write!(f, "\"{convention}\" ({aimed_at} aimed at, {ENOUGH} needed; ")?;
        write!(f, "{yaw_ratio:.2} times the next best, {SURE_YAW} needed")?;
        match pitch_correlation {
            Some(r) => write!(f, "; pitch correlation {r:.2}, {SURE_PITCH} needed)"),
            None => write!(f, "; no pitch)"),
        }
    }
}

/// Players in a sample of the rounds, each paired with every other.
fn looks(samples: &Resampled) -> impl Iterator<Item = (&Sample, &Sample)> {
    let step = (samples.rounds() / 200).max(1);
    (0..samples.rounds()).step_by(step).flat_map(move |round| {
        let all = move || (0..samples.players()).filter_map(move |at| samples.sample(round, at));
        all().flat_map(move |eye| all().map(move |other| (eye, other)))
    })
}

/// The direction to another player: horizontal distance, its part along the yaw, and height.
fn way(convention: AngleConvention, eye: &Sample, other: &Sample) -> [f32; 3] {
    let d = [0, 1, 2].map(|i| other.pos[i] - eye.pos[i]);
    let yaw = convention.yaw(eye.yaw);
    [d[0].hypot(d[1]), d[0] * yaw.cos() + d[1] * yaw.sin(), d[2]]
}

/// Number of players aimed at, ignoring height.
fn aimed_at(convention: AngleConvention, samples: &Resampled) -> u32 {
    let straight = AIM.to_radians().cos();
    let ways = looks(samples).map(|(eye, other)| way(convention, eye, other));
    ways.filter(|[level, ahead, _]| *level > 1e-3 && *ahead > straight * level).count() as u32
}

/// The correlation of elevation and pitch for players straight ahead; `None` if all players look level.
fn aims_up(convention: AngleConvention, samples: &Resampled) -> Option<f64> {
    let (mut both, mut elevations, mut pitches, mut count) = (0.0, 0.0, 0.0, 0_u32);
    for (eye, other) in looks(samples) {
        let [level, ahead, up] = way(convention, eye, other);
        if level > 1e-3 && ahead > STRAIGHT * level {
            let (elevation, pitch) =
                (f64::from(up.atan2(level).to_degrees()), f64::from(eye.pitch));
            both += elevation * pitch;
            elevations += elevation * elevation;
            pitches += pitch * pitch;
            count += 1;
        }
    }
    let looked = (pitches / f64::from(count.max(1))).sqrt();
    (looked >= LEVEL).then(|| both / (elevations * pitches).sqrt().max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::movement::{PlaybackError, Recorded};
    use crate::trace::{Trace, TraceWriter};
    use std::path::{Path, PathBuf};

    /// Rows of players that run towards another and look at it, or keep it to their left.
    fn chase(convention: AngleConvention, strafing: bool) -> String {
        let (count, mut rng) = (12, fastrand::Rng::with_seed(3));
        let mut at: Vec<[f32; 3]> =
            (0..count).map(|_| [0, 0, 0].map(|_: u8| 200.0 * rng.f32())).collect();
        let mut rows = String::from("t_ms,id,x,y,z,yaw,pitch\n");
        // The yaw that the game would have written: the inverse of the convention.
        let zero = convention.yaw(0.0).to_degrees();
        let sense = (convention.yaw(1.0).to_degrees() - zero).signum();
        for round in 0..400 {
            let chased = round / 40;
            for player in 0..count {
                let target = at[(player + 1 + chased) % count];
                let d = [0, 1, 2].map(|i| target[i] - at[player][i]);
                let level = d[0].hypot(d[1]);
                let yaw = sense * (d[1].atan2(d[0]).to_degrees() - zero);
                let up = d[2].atan2(level).to_degrees();
                let pitch = if convention.is_pitch_down() { -up } else { up };
                let [x, y, z] = at[player];
                rows += &format!("{},{player},{x},{y},{z},{yaw},{pitch}\n", 50 * round);
                let way = if strafing { [d[1], -d[0]] } else { [d[0], d[1]] };
                (0..2).for_each(|i| at[player][i] += 5.0 * way[i] / level.max(5.0));
            }
        }
        rows
    }

    fn play(text: &str) -> Result<Recorded, PlaybackError> {
        Recorded::new(&Trace::from_reader(text.as_bytes(), Path::new("x.csv")).unwrap(), 50.0)
    }

    #[test]
    fn each_convention_is_guessed_from_players_that_aim_at_each_other() {
        for convention in AngleConvention::all() {
            let rows = chase(convention, false);
            let played = play(&rows).unwrap_or_else(|error| panic!("{convention}: {error}"));
            assert_eq!(played.convention(), convention);
            assert!(played.guess().is_some_and(|guess| guess.is_sure()));
        }
    }

    #[test]
    fn a_stated_convention_is_used_and_an_unclear_guess_is_rejected() {
        for convention in AngleConvention::all() {
            let rows = chase(convention, true);
            let stated = play(&format!("{}\n{rows}", convention.statement())).unwrap();
            assert_eq!((stated.convention(), stated.guess()), (convention, None));
            let eye = stated.pose_in(0, 0).unwrap();
            let target = stated.pose_in(0, 1).unwrap();
            let way = [0, 1].map(|i| target.pos[i] - eye.pos[i]);
            let off = way[1].atan2(way[0]) - eye.yaw;
            assert!(off.cos() > 0.999, "{convention}: looks aside by {off}");
        }
        // Movement neither from nor towards any player suggests nothing.
        let mut turning = chase(AngleConvention::default(), false);
        turning = turning.lines().enumerate().fold(String::new(), |text, (at, line)| {
            let cells: Vec<&str> = line.split(',').collect();
            let yaw = if at == 0 { "yaw".to_owned() } else { (at * 77 % 360).to_string() };
            text + &format!("{},{yaw},{}\n", cells[..5].join(","), cells[6])
        });
        let refused = play(&turning).err().expect("refused").to_string();
        assert!(refused.starts_with("x.csv: "), "{refused}");
        assert!(refused.contains("# yaw: counter-clockwise from +x; pitch: up"), "{refused}");
    }

    #[test]
    fn the_writer_states_the_engines_own_convention() {
        let mut writer = TraceWriter::plain(Vec::new());
        for round in 0..10 {
            writer.row(50 * round, 1, [round as f32, 0.0, 0.0], 180.0, 30.0).unwrap();
        }
        let text = String::from_utf8(writer.finish().unwrap()).unwrap();
        let played = play(&text).unwrap();
        assert_eq!(played.convention(), AngleConvention::default());
        assert!((played.pose_in(0, 0).unwrap().yaw.to_degrees() - 180.0).abs() < 1e-3);
    }

    fn recording(name: &str) -> Trace {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../traces").join(name);
        Trace::read(&path).unwrap()
    }

    #[test]
    fn under_the_stated_convention_bots_look_at_their_targets() {
        for name in ["cube2_two_towers_32bots.csv.gz", "openarena_oa_dm3_16bots.csv.gz"] {
            let trace = recording(name);
            let stated = trace.convention().expect("stated");
            let samples = trace.resample(50.0).unwrap();
            let aimed = aimed_at(stated, &samples);
            for other in AngleConvention::all() {
                // Pitch does not matter for this.
                let other = other.with_pitch_down(stated.is_pitch_down());
                if other != stated {
                    let less = aimed_at(other, &samples);
                    assert!(4 * less < 3 * aimed, "{name}: {aimed} by {stated}, {less} by {other}");
                }
            }
            let pitch = aims_up(stated.with_pitch_down(false), &samples).expect("pitch");
            assert_eq!(pitch < 0.0, stated.is_pitch_down(), "{name}: {pitch}");
        }
    }

    #[test]
    fn the_guess_agrees_with_what_the_recordings_state() {
        for (name, round) in [
            ("cube2_two_towers_32bots.csv.gz", 33.0),
            ("openarena_oa_dm3_16bots.csv.gz", 50.0),
            ("openarena_oa_thor_ctf_60bots.csv.gz", 50.0),
        ] {
            let trace = recording(name);
            let guess = AngleGuess::of(&trace.resample(round).unwrap());
            assert!(guess.is_sure(), "{name}: {guess}");
            assert_eq!(Some(guess.convention), trace.convention(), "{name}: {guess}");
        }
    }
}
