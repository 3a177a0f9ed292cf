//! Codecs of others, for comparison only.

use crate::movement::{Movement, Recorded};
use crate::training::lanes_of;
use foveate_wire::packet::STATE_HEADER;
use foveate_wire::{Kind, PlaceLanes};

/// A codec of others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rival {
    /// Five floats and a 16-bit name.
    Raw,
    /// GVO: 8-bit offsets to the last full position; a new full one when an offset does not fit.
    Increments,
    /// VFC4FPS: a record of 24 bytes, of which those that are not zero are sent, and a bitmap.
    Bitmap,
}

impl Rival {
    /// Its name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Rival::Raw => "raw",
            Rival::Increments => "increments",
            Rival::Bitmap => "bitmap",
        }
    }
}

const NAME_BITS: u64 = 16;
const FLOAT_BITS: u64 = 32;

/// Bits per update and of its position, headers shared out as for ours. None of these codecs looks
/// at a baseline's age.
pub fn bits(rival: Rival, recording: &Recorded, kind: &Kind) -> (f64, f64) {
    let Some(place) = &kind.place else { return (0.0, 0.0) };
    let (mut all, mut position, mut updates, mut packets) = (0, 0, 0u64, 0u64);
    let mut full: Vec<Option<[i32; 3]>> = vec![None; recording.len()];
    for round in 1..recording.rounds() {
        let before = updates;
        for (player, full) in full.iter_mut().enumerate() {
            let lanes = |round| recording.pose_in(round, player).map(|pose| lanes_of(kind, pose));
            let (Some(now), Some(then)) = (lanes(round), lanes(round - 1)) else { continue };
            let (whole, part) = match rival {
                Rival::Raw => (NAME_BITS + 5 * FLOAT_BITS, 3 * FLOAT_BITS),
                Rival::Increments => increment(place, &now, full),
                Rival::Bitmap => bitmap(kind, place, &now, &then),
            };
            (all, position, updates) = (all + whole, position + part, updates + 1);
        }
        packets += u64::from(updates > before);
    }
    let each = updates.max(1) as f64;
    let header = (STATE_HEADER as u64 * 8 * packets) as f64 / each;
    (all as f64 / each + header, position as f64 / each)
}

fn increment(place: &PlaceLanes, now: &[i32], full: &mut Option<[i32; 3]>) -> (u64, u64) {
    let at = place.coordinates(now);
    let fits = full.is_some_and(|full| (0..3).all(|i| (-128..128).contains(&(at[i] - full[i]))));
    if fits {
        return (NAME_BITS + 5 * 8, 3 * 8);
    }
    *full = Some(at);
    (NAME_BITS + 5 * FLOAT_BITS, 3 * FLOAT_BITS)
}

fn bitmap(kind: &Kind, place: &PlaceLanes, now: &[i32], then: &[i32]) -> (u64, u64) {
    let (at, was) = (place.coordinates(now), place.coordinates(then));
    let facing = |lane: Option<(usize, u32)>| lane.map_or(0, |(lane, _)| now[lane]);
    let mut position = [0; 6];
    let mut rest = [0; 18];
    for axis in 0..3 {
        position[axis * 2..][..2].copy_from_slice(&(at[axis] as u16).to_le_bytes());
        let velocity = (at[axis] - was[axis]) as i16;
        rest[5 + axis * 2..][..2].copy_from_slice(&velocity.to_le_bytes());
    }
    rest[2..4].copy_from_slice(&(facing(kind.yaw) as i16).to_le_bytes());
    rest[4] = facing(kind.pitch) as u8;
    // The name, which is not zero, and what follows the velocity: falling, state, flags, weapon.
    rest[0] = 1;
    let sent = |bytes: &[u8]| bytes.iter().filter(|byte| **byte != 0).count() as u64 * 8;
    let maps = |bytes: &[u8]| bytes.len() as u64;
    let part = sent(&position) + maps(&position);
    (part + sent(&rest) + maps(&rest), part)
}
