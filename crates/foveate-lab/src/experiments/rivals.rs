//! Other projects' codecs, for comparison only.

mod bitmap;

use crate::movement::{Movement, Recorded};
use crate::training::lanes_of;
use bitmap::{AvatarRecord, RECORD, Recorder};
use foveate_wire::packet::STATE_HEADER;
use foveate_wire::{Kind, PlaceLanes};

/// A codec whose size does not depend on the other records of its packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rival {
    /// Five floats and a 16-bit id.
    Raw,
    /// GVO: 8-bit offsets from the last full position, with a new full one when an offset does not fit.
    Increments,
}

impl Rival {
    pub const ALL: [Rival; 2] = [Rival::Raw, Rival::Increments];

    /// The codec's name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Rival::Raw => "raw",
            Rival::Increments => "increments",
        }
    }
}

const NAME_BITS: u64 = 16;
const FLOAT_BITS: u64 = 32;

/// Bits that a codec used for a recording.
#[derive(Clone, Copy, Default)]
struct Sum {
    bits: u64,
    position: u64,
    updates: u64,
    packets: u64,
}

impl Sum {
    /// Bits per update and bits of its position. Packet headers are shared among updates, as for our codec.
    fn each(&self) -> (f64, f64) {
        let each = self.updates.max(1) as f64;
        let header = STATE_HEADER as u64 * 8 * self.packets;
        ((self.bits + header) as f64 / each, self.position as f64 / each)
    }
}

/// Players that are present in a round and the one before: all codecs send these.
fn there(recording: &Recorded, round: usize) -> impl Iterator<Item = usize> + '_ {
    let known = move |player: &usize| {
        let at = |round| recording.pose_in(round, *player).is_some();
        at(round) && at(round - 1)
    };
    (0..recording.len()).filter(known)
}

/// Bits per update and bits of its position. None of these codecs uses a baseline's age.
pub fn bits(rival: Rival, recording: &Recorded, kind: &Kind) -> (f64, f64) {
    let Some(place) = &kind.place else { return (0.0, 0.0) };
    let mut sum = Sum::default();
    let mut full: Vec<Option<[i32; 3]>> = vec![None; recording.len()];
    for round in 1..recording.rounds() {
        let before = sum.updates;
        for player in there(recording, round) {
            let Some(pose) = recording.pose_in(round, player) else { continue };
            let (whole, part) = match rival {
                Rival::Increments => increment(place, &lanes_of(kind, pose), &mut full[player]),
                Rival::Raw => (NAME_BITS + 5 * FLOAT_BITS, 3 * FLOAT_BITS),
            };
            sum.bits += whole;
            sum.position += part;
            sum.updates += 1;
        }
        sum.packets += u64::from(sum.updates > before);
    }
    sum.each()
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

/// Sizes of a recording with VFC4FPS's bitmap compression, with all records of a round in one packet.
#[derive(Clone, Copy)]
pub struct BitmapSize {
    sum: Sum,
    /// Packets that the decoder did not reproduce.
    pub broken: u64,
}

impl BitmapSize {
    /// Encodes and decodes every round: all avatars, or only those that changed since the round before, which the
    /// source's clients send.
    pub fn of(recording: &Recorded, changed_only: bool) -> BitmapSize {
        let recorder = Recorder::new(recording);
        let mut size = BitmapSize { sum: Sum::default(), broken: 0 };
        for round in 1..recording.rounds() {
            let due = |player: &usize| {
                let pose = |round| recording.pose_in(round, *player);
                !changed_only || pose(round) != pose(round - 1)
            };
            let records: Vec<AvatarRecord> = there(recording, round)
                .filter(due)
                .filter_map(|player| recorder.record(round, player))
                .collect();
            if records.is_empty() {
                continue;
            }
            let packet = bitmap::encode(&records);
            size.broken += u64::from(bitmap::decode(&packet).as_ref() != Some(&records));
            size.sum.bits += packet.len() as u64 * 8;
            size.sum.position += records.iter().map(position_bits).sum::<u64>();
            size.sum.updates += records.len() as u64;
            size.sum.packets += 1;
        }
        size
    }

    pub fn records(&self) -> u64 {
        self.sum.updates
    }

    /// Bytes per avatar, without a packet's header.
    pub fn bytes_per_avatar(&self) -> f64 {
        self.sum.bits as f64 / 8.0 / self.sum.updates.max(1) as f64
    }

    /// The compressed size as a share of the records' size.
    pub fn share(&self) -> f64 {
        self.bytes_per_avatar() / RECORD as f64
    }

    /// Bits per update and bits of its position, with headers shared among updates.
    pub fn bits(&self) -> (f64, f64) {
        self.sum.each()
    }
}

/// Bits of the place: its part of the bitmap, and its non-zero bytes.
fn position_bits(record: &AvatarRecord) -> u64 {
    let bytes = &record.to_bytes()[AvatarRecord::PLACE];
    bytes.len() as u64 + 8 * bytes.iter().filter(|byte| **byte != 0).count() as u64
}
