//! VFC4FPS's bitmap compression, encoder and decoder: for records of 24 bytes, one bit per byte that tells whether it
//! is zero, and the non-zero bytes.
//!
//! A group is one byte with the length of the bitmap, the bitmap, then the non-zero bytes in order. A bitmap of 255
//! bytes covers 85 records; more records make more groups. A record holds its fields' bytes themselves, not their
//! differences: the source's 18–20 B of 24 and 76–83 % allow no other reading.

use crate::movement::{AvatarPose, Movement, Recorded};
use crate::training::PRECISION;

/// Bytes of a record.
pub const RECORD: usize = 24;
/// Bytes of the bitmap for one record.
const RECORD_MAP: usize = RECORD / 8;
/// Most records in a group: the length of their bitmap fits one byte.
const GROUP: usize = u8::MAX as usize / RECORD_MAP;

/// An avatar as the source's game sends it. Units are Cube 2's: whole degrees, whole units per second. The step of a
/// place is ours, so that all codecs of the experiment are equally exact.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AvatarRecord {
    pub id: i16,
    /// Steps from the map's lowest corner.
    pub place: [u16; 3],
    /// Degrees, 0 to 359.
    pub yaw: i16,
    pub pitch: i8,
    pub velocity: [i16; 3],
    /// The speed of falling along x and y, which only slides have, and z.
    pub falling: ([i8; 2], i16),
    pub physical_state: u8,
    /// The player's keys: two bits for strafing, two for moving ahead or back.
    pub flags: u8,
    pub weapon: u8,
}

impl AvatarRecord {
    /// The bytes of the place.
    pub const PLACE: std::ops::Range<usize> = 2..8;

    pub fn to_bytes(self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..2].copy_from_slice(&self.id.to_le_bytes());
        for (axis, steps) in self.place.iter().enumerate() {
            bytes[2 + 2 * axis..][..2].copy_from_slice(&steps.to_le_bytes());
        }
        bytes[8..10].copy_from_slice(&self.yaw.to_le_bytes());
        bytes[10] = self.pitch as u8;
        for (axis, speed) in self.velocity.iter().enumerate() {
            bytes[11 + 2 * axis..][..2].copy_from_slice(&speed.to_le_bytes());
        }
        let ([x, y], z) = self.falling;
        (bytes[17], bytes[18]) = (x as u8, y as u8);
        bytes[19..21].copy_from_slice(&z.to_le_bytes());
        bytes[21..].copy_from_slice(&[self.physical_state, self.flags, self.weapon]);
        bytes
    }

    pub fn from_bytes(bytes: &[u8; RECORD]) -> AvatarRecord {
        let two = |at: usize| [bytes[at], bytes[at + 1]];
        AvatarRecord {
            id: i16::from_le_bytes(two(0)),
            place: [2, 4, 6].map(|at| u16::from_le_bytes(two(at))),
            yaw: i16::from_le_bytes(two(8)),
            pitch: bytes[10] as i8,
            velocity: [11, 13, 15].map(|at| i16::from_le_bytes(two(at))),
            falling: ([bytes[17] as i8, bytes[18] as i8], i16::from_le_bytes(two(19))),
            physical_state: bytes[21],
            flags: bytes[22],
            weapon: bytes[23],
        }
    }
}

/// Encodes all records that are due in a round.
pub fn encode(records: &[AvatarRecord]) -> Vec<u8> {
    let mut out = Vec::new();
    for group in records.chunks(GROUP) {
        let bytes: Vec<u8> = group.iter().flat_map(|record| record.to_bytes()).collect();
        out.push((group.len() * RECORD_MAP) as u8);
        let bits = |eight: &[u8]| {
            let set = eight.iter().enumerate().filter(|(_, byte)| **byte != 0);
            set.fold(0, |map, (at, _)| map | 1 << at)
        };
        out.extend(bytes.chunks_exact(8).map(bits));
        out.extend(bytes.iter().filter(|byte| **byte != 0));
    }
    out
}

/// Decodes records; `None` unless the bytes are whole groups of whole records.
pub fn decode(mut bytes: &[u8]) -> Option<Vec<AvatarRecord>> {
    let mut records = Vec::new();
    while let Some((length, rest)) = bytes.split_first() {
        let length = usize::from(*length);
        if length == 0 || !length.is_multiple_of(RECORD_MAP) {
            return None;
        }
        let (map, rest) = rest.split_at_checked(length)?;
        let sent: usize = map.iter().map(|eight| eight.count_ones() as usize).sum();
        let (sent, rest) = rest.split_at_checked(sent)?;
        let mut sent = sent.iter();
        for record in map.chunks_exact(RECORD_MAP) {
            let mut whole = [0; RECORD];
            for (at, byte) in whole.iter_mut().enumerate() {
                if record[at / 8] >> (at % 8) & 1 == 1 {
                    // A byte that is marked as non-zero and is zero: no encoder writes that.
                    *byte = *sent.next().filter(|byte| **byte != 0)?;
                }
            }
            records.push(AvatarRecord::from_bytes(&whole));
        }
        bytes = rest;
    }
    Some(records)
}

/// States of Cube 2's physics: in the air, on a slope, on the floor. Zero would be swimming or flying.
const FALLS: u8 = 1;
const ON_SLOPE: u8 = 3;
const ON_FLOOR: u8 = 4;
/// The weapon that every player starts with; a recording does not have it.
const WEAPON: u8 = 6;
/// Share of the speed along or across the facing from which a key must be down: sin 22.5°.
const STEERS: f32 = 0.38;

/// Makes records of a recording's samples.
///
/// The recording has place and facing. Successive samples give the velocity, and whether an avatar is in the air (its
/// vertical speed fell by about the recording's gravity, or it rises or falls faster than a slope explains), from which
/// falling and the physical state follow. Velocity and facing give the keys in `flags`. Two things cannot be derived:
/// falling along x and y (taken as zero: only slides have it) and the weapon (taken as the one that avatars spawn with,
/// which is not zero).
pub struct Recorder<'a> {
    recording: &'a Recorded,
    /// The map's lowest corner.
    corner: [f32; 3],
    /// The step of a place.
    step: f32,
    /// The vertical speed that free fall takes away in a round, in units per second.
    gravity: f32,
}

impl<'a> Recorder<'a> {
    pub fn new(recording: &'a Recorded) -> Recorder<'a> {
        let (mut corner, mut top) = ([f32::MAX; 3], [f32::MIN; 3]);
        let players = 0..recording.len();
        let all =
            (0..recording.rounds()).flat_map(|round| players.clone().map(move |p| (round, p)));
        for pose in all.filter_map(|(round, player)| recording.pose_in(round, player)) {
            for axis in 0..3 {
                corner[axis] = corner[axis].min(pose.pos[axis]);
                top[axis] = top[axis].max(pose.pos[axis]);
            }
        }
        let widest = (0..3).map(|axis| top[axis] - corner[axis]).fold(0.0, f32::max);
        let mut step = PRECISION;
        while widest / step > f32::from(u16::MAX) {
            step *= 2.0;
        }
        let round = recording.round_seconds() as f32;
        let gravity = recording.fall(PRECISION) as f32 * PRECISION / round;
        Recorder { recording, corner, step, gravity }
    }

    /// The velocity between two successive samples; `None` across a jump, such as a respawn.
    fn speed(&self, round: usize, player: usize) -> Option<[f32; 3]> {
        let now = self.recording.pose_in(round, player)?.pos;
        let then = self.recording.pose_in(round.checked_sub(1)?, player)?.pos;
        let seconds = self.recording.round_seconds() as f32;
        let speed = [0, 1, 2].map(|axis| (now[axis] - then[axis]) / seconds);
        let square: f32 = speed.iter().map(|part| part * part).sum();
        (square.sqrt() <= self.recording.max_speed()).then_some(speed)
    }

    /// Whether the avatar is in the air, as far as two velocities tell.
    fn falls(&self, now: [f32; 3], then: Option<[f32; 3]>) -> bool {
        let lost = then.map_or(0.0, |then| then[2] - now[2]);
        let pulled = self.gravity > 0.0 && (0.5..1.5).contains(&(lost / self.gravity));
        // Slopes that can be walked are at most 45° steep.
        let steep = now[2].abs() > now[0].hypot(now[1]).max(1.0);
        now[2] != 0.0 && (pulled || steep)
    }

    /// The record of a player in a round; `None` if it is not in the world.
    pub fn record(&self, round: usize, player: usize) -> Option<AvatarRecord> {
        let pose = self.recording.pose_in(round, player)?;
        let speed = self.speed(round, player).unwrap_or_default();
        let before = round.checked_sub(1).and_then(|before| self.speed(before, player));
        let falls = self.falls(speed, before);
        let whole = speed.map(|part| part.round() as i16);
        let falling = if falls { whole[2].min(0) } else { 0 };
        let place = |axis: usize| ((pose.pos[axis] - self.corner[axis]) / self.step).round() as u16;
        Some(AvatarRecord {
            id: player as i16,
            place: [0, 1, 2].map(place),
            yaw: pose.yaw.to_degrees().rem_euclid(360.0) as i16,
            pitch: pose.pitch.to_degrees().round() as i8,
            velocity: [whole[0], whole[1], whole[2] - falling],
            falling: ([0; 2], falling),
            physical_state: match (falls, whole[2]) {
                (true, _) => FALLS,
                (false, 0) => ON_FLOOR,
                (false, _) => ON_SLOPE,
            },
            flags: keys(&pose, speed),
            weapon: WEAPON,
        })
    }
}

/// The keys that make an avatar move that way: strafing in the lowest two bits, then ahead or back. 1 is left or ahead,
/// 3 (minus one) right or back.
fn keys(pose: &AvatarPose, speed: [f32; 3]) -> u8 {
    let pace = speed[0].hypot(speed[1]);
    let (sin, cos) = pose.yaw.sin_cos();
    let (ahead, left) = (speed[0] * cos + speed[1] * sin, speed[1] * cos - speed[0] * sin);
    let key = |along: f32| match along {
        _ if pace < 1.0 || along.abs() < STEERS * pace => 0,
        _ if along > 0.0 => 1,
        _ => 3,
    };
    key(left) | key(ahead) << 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Trace;
    use proptest::prelude::*;
    use std::path::Path;

    fn any_record() -> impl Strategy<Value = AvatarRecord> {
        // Few as well as many non-zero bytes.
        let byte = prop_oneof![3 => Just(0u8), 2 => any::<u8>()];
        proptest::array::uniform24(byte).prop_map(|bytes| AvatarRecord::from_bytes(&bytes))
    }

    proptest! {
        #[test]
        fn decoding_gives_back_the_records(records in proptest::collection::vec(any_record(), 0..200)) {
            let bytes = encode(&records);
            let zeros: usize = records
                .iter()
                .flat_map(|record| record.to_bytes())
                .filter(|byte| *byte == 0)
                .count();
            let groups = records.len().div_ceil(85);
            prop_assert_eq!(bytes.len(), groups + records.len() * 27 - zeros);
            prop_assert_eq!(decode(&bytes), Some(records));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(records) = decode(&bytes) {
                prop_assert_eq!(encode(&records).len(), bytes.len());
            }
        }
    }

    #[test]
    fn a_record_keeps_every_field() {
        let record = AvatarRecord {
            id: -2,
            place: [1, 0x0203, 0xffff],
            yaw: 359,
            pitch: -90,
            velocity: [-320, 5, 270],
            falling: ([-1, 2], -600),
            physical_state: FALLS,
            flags: 13,
            weapon: WEAPON,
        };
        assert_eq!(AvatarRecord::from_bytes(&record.to_bytes()), record);
        assert_eq!(record.to_bytes()[AvatarRecord::PLACE], [1, 0, 3, 2, 0xff, 0xff]);
    }

    #[test]
    fn a_cut_or_inconsistent_packet_is_refused() {
        let bytes = encode(&[AvatarRecord { id: 7, ..AvatarRecord::default() }]);
        assert_eq!(bytes, [3, 1, 0, 0, 7]);
        for end in 1..bytes.len() {
            assert_eq!(decode(&bytes[..end]), None, "cut at {end}");
        }
        assert_eq!(decode(&[3, 1, 0, 0, 0]), None, "a byte marked non-zero that is zero");
        assert_eq!(decode(&[2, 1, 0, 7]), None, "a bitmap of two thirds of a record");
    }

    /// Walks along x at 100 units per second, then steps off a ledge.
    fn recorded(heights: &[f32]) -> Recorded {
        let rows: String = (heights.iter().enumerate())
            .map(|(at, z)| format!("{},1,{},0,{z},0,0\n", at * 50, at * 5))
            .collect();
        let angles = "# yaw: counter-clockwise from +x; pitch: up";
        let text = format!("{angles}\nt_ms,id,x,y,z,yaw,pitch\n{rows}");
        let trace = Trace::from_reader(text.as_bytes(), Path::new("ledge.csv")).unwrap();
        Recorded::new(&trace, 50.0).unwrap()
    }

    #[test]
    fn fields_follow_from_successive_samples() {
        let recording = recorded(&[50.0, 50.0, 50.0, 51.0, 43.0, 31.0]);
        let recorder = Recorder::new(&recording);
        let record = |round| recorder.record(round, 0).unwrap();
        let walking = record(2);
        assert_eq!((walking.velocity, walking.physical_state), ([100, 0, 0], ON_FLOOR));
        assert_eq!(walking.place, [80, 0, 152]);
        assert_eq!(record(3).physical_state, ON_SLOPE, "a little up while going far");
        let falling = record(4);
        assert_eq!((falling.physical_state, falling.falling.1), (FALLS, -160));
        assert_eq!(falling.velocity, [100, 0, 0], "what falls is not counted twice");
    }

    #[test]
    fn keys_follow_from_facing_and_velocity() {
        let facing =
            |degrees: f32| AvatarPose { yaw: degrees.to_radians(), ..AvatarPose::default() };
        assert_eq!(keys(&facing(0.0), [100.0, 0.0, 0.0]), 1 << 2, "ahead");
        assert_eq!(keys(&facing(180.0), [100.0, 0.0, 0.0]), 3 << 2, "back");
        assert_eq!(keys(&facing(0.0), [0.0, 100.0, 0.0]), 1, "left");
        assert_eq!(keys(&facing(45.0), [100.0, 0.0, 0.0]), 3 | 1 << 2, "ahead and right");
        assert_eq!(keys(&facing(0.0), [0.0; 3]), 0);
    }
}
