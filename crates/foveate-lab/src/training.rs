//! Trains the coder's tables on recorded movement.
//!
//! There are two streams: every player in every round against states of several ages, and the packets of a graded
//! session. Copies of the first at other scales keep the table useful for games that it has not seen.

use crate::avatar::{AvatarSpec, LabAvatar};
use crate::experiments::ExperimentError;
use crate::movement::{AvatarPose, Movement, Recorded};
use crate::net::LinkSpec;
use crate::session::{Session, SessionSpec};
use foveate_sync::interest::presets;
use foveate_wire::measure::{Seen, Trainer};
use foveate_wire::packet::{PacketReader, PacketWriter, open_state};
use foveate_wire::{Alias, Baseline, Coder, Decoder, Kind, Micros, Models, Motion, Replicate};

/// The step of a place in the game's units, as in the experiments.
pub const PRECISION: f32 = 1.0 / 8.0;
/// Ages of baselines, in rounds.
const AGES: [usize; 10] = [1, 2, 3, 4, 5, 6, 7, 8, 12, 18];
/// Scales of the copies.
const SCALES: [f32; 2] = [0.3, 3.0];
const SCALED_WEIGHT: f64 = 0.15;
/// Weight of the second stream relative to the first. Most real bytes are spent on such updates, but their places
/// differ less from the first stream than the number of bytes suggests.
const GRADED_WEIGHT: f64 = 0.3;
/// Rounds of the graded session used for training.
const SESSION_ROUNDS: usize = 1_000;
/// One-way latency in that session.
const LATENCY: Micros = Micros::from_millis(50);

/// The avatars of a recording.
pub fn avatar_of(movement: &Recorded, scale: f32) -> AvatarSpec {
    AvatarSpec {
        precision: PRECISION,
        extent: movement.extent() * scale.max(1.0),
        max_speed: movement.max_speed() * scale.max(1.0),
        motion: true,
        fall: if scale == 1.0 { movement.fall(PRECISION) } else { 0 },
        facing_floor: 15.0,
    }
}

/// The lanes of a pose.
pub fn lanes_of(kind: &Kind, pose: AvatarPose) -> Vec<i32> {
    let mut lanes = vec![0; kind.lane_count()];
    LabAvatar::from(pose).put(kind, &mut lanes);
    lanes
}

/// The round that [`write_round`] writes.
#[derive(Clone, Copy)]
pub struct WrittenRound {
    pub round: usize,
    /// The age in rounds of the states that it is a difference to.
    pub age: usize,
    /// The world is this many times as large as the recorded one.
    pub scale: f32,
}

/// Writes one round of all avatars, with the motion of their last two samples. Returns the number of updates.
pub fn write_round<C: Coder>(
    writer: &mut PacketWriter<C>,
    movement: &Recorded,
    kind: &Kind,
    written: WrittenRound,
) -> u64 {
    let WrittenRound { round, age, scale } = written;
    let mut updates = 0;
    for player in 0..movement.len() {
        let state = |back: usize| {
            let mut pose = movement.pose_in(round.checked_sub(back)?, player)?;
            pose.pos = pose.pos.map(|part| part * scale);
            Some(lanes_of(kind, pose))
        };
        let (Some(mut now), Some(then), Some(before)) = (state(0), state(age), state(age + 1))
        else {
            continue;
        };
        let Some(place) = &kind.place else { continue };
        let motion = last_motion(place.coordinates(&before), place.coordinates(&then), movement);
        let base = Baseline { lanes: &then, motion, age: age as u32 };
        writer.update(Alias(player as u16), kind, &base, &mut now);
        updates += 1;
    }
    updates
}

/// The motion of the last two samples; zero across a jump.
fn last_motion(before: [i32; 3], then: [i32; 3], movement: &Recorded) -> Motion {
    let motion = Motion::between(before, then, 1);
    let limit = f64::from(movement.max_speed() / PRECISION) * movement.round_seconds();
    let square: f64 = motion.moved.iter().map(|part| f64::from(*part).powi(2)).sum();
    if square.sqrt() > limit.max(8.0) { Motion::default() } else { motion }
}

/// Counts of the first stream.
fn every_round(movement: &Recorded, scale: f32) -> Result<Trainer, ExperimentError> {
    let schema = avatar_of(movement, scale).schema()?;
    let mut trainer = Trainer::default();
    for age in AGES {
        for round in (0..movement.rounds()).step_by(2) {
            let mut writer = PacketWriter::with(&mut trainer);
            let written = WrittenRound { round, age, scale };
            write_round(&mut writer, movement, &schema.kinds()[0], written);
            writer.end();
        }
    }
    Ok(trainer)
}

/// Counts of the second stream: the packets of players under the normal view, with a round trip of 100 ms.
fn graded(movement: Recorded) -> Result<Trainer, ExperimentError> {
    let avatar = avatar_of(&movement, 1.0);
    let schema = avatar.schema()?;
    let mut view = presets::normal(0.2 * movement.side(), 0.4 * movement.side());
    view.inner_facing = 1.0;
    let link = LinkSpec::delayed(LATENCY);
    let spec = SessionSpec {
        round: Micros::from_secs(movement.round_seconds()),
        policy: view.build()?,
        down: link,
        up: link,
        budget: None,
        avatar,
        seed: 1,
        audited: false,
    };
    let mut session = Session::new(movement, spec)?;
    let (mut trainer, mut models, mut lanes) = (Trainer::default(), Models::trained(), Vec::new());
    for _ in 0..SESSION_ROUNDS {
        let more = session.round_with(|replicas, bytes| {
            if let Ok((header, body)) = open_state(bytes, replicas.newest()) {
                let seen = Seen(Decoder::new(body, &mut models), &mut trainer);
                let mut reader = PacketReader::with(header, seen);
                lanes.clear();
                while let Ok(Some(_)) = reader.next(&schema, replicas, &mut lanes) {}
            }
        })?;
        if !more {
            break;
        }
    }
    Ok(trainer)
}

/// Trains a table on recordings with equal weights.
pub fn train(recordings: &[Recorded]) -> Result<Vec<u16>, ExperimentError> {
    let mut sum = Trainer::default();
    for recording in recordings {
        let plain = every_round(recording, 1.0)?;
        let weight = 1e6 / plain.total().max(1.0);
        sum.add(&plain, weight);
        for scale in SCALES {
            sum.add(&every_round(recording, scale)?, weight * SCALED_WEIGHT);
        }
        let graded = graded(recording.clone())?;
        sum.add(&graded, GRADED_WEIGHT * 1e6 / graded.total().max(1.0));
    }
    Ok(sum.table())
}
