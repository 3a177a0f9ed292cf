//! Entry points for fuzzers, and for the tests that stand in for them: any bytes, through every
//! reader.
//!
//! They are in this crate so that the target in `fuzz/` is a single call, and so that an ordinary
//! test can repeat an input that a fuzzer found.

use crate::packet::{Ack, MAX_PACKET, PacketReader, StateHeader, States, open_state, packet_type};
use crate::{Alias, FieldSpec, FieldType, KindId, KindSpec, Models, Motion, Role, Schema, Tick};
use std::cell::RefCell;
use std::sync::LazyLock;

/// Bytes taken off the front: one chooses the schema, eight seed the states of the receiver.
pub const CHOICE: usize = 9;

/// The work of reading some bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Records read before the end or the first error.
    pub records: usize,
    /// Lanes filled in for them.
    pub lanes: usize,
}

/// Reads any bytes as a packet of every type; must never panic, hang or allocate without a bound.
///
/// The first [`CHOICE`] bytes choose a schema and seed the states that updates refer to; the rest
/// is the packet. A refused packet is not an error, so only the amount of work is returned.
///
/// ```
/// let work = foveate_wire::fuzz::decode_packet(b"any bytes at all, however long or short");
/// assert!(work.records <= foveate_wire::packet::MAX_RECORDS);
/// ```
pub fn decode_packet(data: &[u8]) -> Work {
    let Some((&[choice, seed @ ..], packet)) = data.split_first_chunk::<CHOICE>() else {
        return Work::default();
    };
    // A link delivers one datagram; longer input is only "too long", at any length.
    let packet = &packet[..packet.len().min(MAX_PACKET + 1)];
    let _ = (packet_type(packet), Ack::read(packet));
    let seed = u64::from_le_bytes(seed);
    let Ok((header, body)) = open_state(packet, Tick(seed as u32)) else { return Work::default() };
    match SCHEMAS.get(usize::from(choice) % SCHEMAS.len().max(1)) {
        Some(schema) => drain(schema, &Fabricated::new(schema, seed), header, body),
        None => Work::default(),
    }
}

/// Reads a state packet to its end or its first error.
fn drain(schema: &Schema, states: &Fabricated, header: StateHeader, body: &[u8]) -> Work {
    thread_local! {
        /// Reused for the next input, as links do: each packet must restart them.
        static MODELS: RefCell<Models> = RefCell::new(Models::trained());
    }
    MODELS.with_borrow_mut(|models| {
        let mut reader = PacketReader::new(header, body, models);
        let (mut lanes, mut records) = (Vec::new(), 0);
        while let Ok(Some(_)) = reader.next(schema, states, &mut lanes) {
            records += 1;
        }
        Work { records, lanes: lanes.len() }
    })
}

/// Compares any text with a schema's description, as a client does with the text of a server that
/// rejects it. The first byte chooses the schema.
///
/// ```
/// foveate_wire::fuzz::compare_schema(b"\x01avatar: max_speed=40 fall=16\n");
/// ```
pub fn compare_schema(data: &[u8]) {
    let Some((choice, text)) = data.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    let Some(schema) = SCHEMAS.get(usize::from(*choice) % SCHEMAS.len().max(1)) else { return };
    match schema.check_description(&text) {
        Ok(()) => assert!(text.lines().eq(schema.describe().lines())),
        Err(differs) => assert!(differs.to_string().len() <= 2 * text.len() + 1_024),
    }
}

/// The schemas to try: every field type, with and without place, motion and facing.
pub fn schemas() -> &'static [Schema] {
    &SCHEMAS
}

static SCHEMAS: LazyLock<Vec<Schema>> = LazyLock::new(|| {
    let odd = vec![laden(), bare(), turret(), stone()];
    let kinds = [vec![avatar()], vec![flat(), avatar()], odd];
    kinds.into_iter().filter_map(|kinds| Schema::new(kinds).ok()).collect()
});

fn kind(name: &str, fall: i32, fields: Vec<FieldSpec>) -> KindSpec {
    KindSpec { name: name.into(), fields, max_speed: 40.0, fall }
}

fn place(dims: u8, extent: f32, motion: bool) -> FieldSpec {
    let ty = FieldType::Place { dims, precision: 0.125, extent, motion };
    FieldSpec::new("at", ty).role(Role::Place)
}

fn facing(role: Role, steps: u32) -> FieldSpec {
    let name = if role == Role::Yaw { "yaw" } else { "pitch" };
    FieldSpec::new(name, FieldType::Angle { steps }).role(role).floor(0.25)
}

fn avatar() -> KindSpec {
    let health = FieldSpec::new("health", FieldType::Integer { min: 0, max: 255 });
    let fields =
        vec![place(3, 2_048.0, true), facing(Role::Yaw, 240), facing(Role::Pitch, 240), health];
    kind("avatar", 16, fields)
}

fn flat() -> KindSpec {
    let alive = FieldSpec::new("alive", FieldType::Symbol { count: 2 });
    kind("flat", 0, vec![place(2, 30_000_000.0, true), facing(Role::Yaw, 65_536), alive])
}

/// A kind with nothing but an owner.
fn bare() -> KindSpec {
    kind("bare", 0, Vec::new())
}

/// A kind that falls without saying how, so that a packet has to learn it.
fn stone() -> KindSpec {
    kind("stone", 0, vec![place(3, 4_096.0, true)])
}

fn turret() -> KindSpec {
    kind("turret", 3, vec![facing(Role::Pitch, 2), place(3, 100.0, false)])
}

/// A kind with a field of every type that is neither place nor facing.
fn laden() -> KindSpec {
    let name = FieldType::Text { max: 21 };
    let types = [
        FieldType::Number { precision: 0.01, min: -10.0, max: 1e6 },
        FieldType::Integer { min: i32::MIN, max: i32::MAX },
        FieldType::Symbol { count: 5 },
        FieldType::Symbol { count: 65_536 },
        FieldType::Angle { steps: 65_536 },
        FieldType::Quaternion { bits: 11 },
        FieldType::Place { dims: 3, precision: 0.5, extent: 64.0, motion: true },
        FieldType::Bytes { max: 17 },
        name.clone(),
        FieldType::Optional(Box::new(FieldType::Angle { steps: 7 })),
        FieldType::List { item: Box::new(FieldType::Optional(Box::new(name))), max: 3 },
    ];
    let fields = types.into_iter().enumerate();
    kind("laden", 0, fields.map(|(at, ty)| FieldSpec::new(&format!("f{at}"), ty)).collect())
}

/// A state of every kind, with numbers that no writer would send.
struct Fabricated {
    states: Vec<(Vec<i32>, Motion)>,
}

impl Fabricated {
    fn new(schema: &Schema, seed: u64) -> Fabricated {
        let mut chance = Chance(seed);
        let mut state = |lanes: usize| {
            let lanes = (0..lanes).map(|_| chance.any()).collect();
            let moved = [chance.any(), chance.any(), chance.any()];
            (lanes, Motion { moved, ticks: chance.any() as u32 })
        };
        Fabricated { states: schema.kinds().iter().map(|kind| state(kind.lane_count())).collect() }
    }
}

impl States for Fabricated {
    fn state_at(&self, alias: Alias, tick: Tick) -> Option<(KindId, &[i32], Motion)> {
        // Now and then a state is missing.
        if tick.0 % 64 == 63 {
            return None;
        }
        let at = usize::from(alias.0) % self.states.len().max(1);
        let (lanes, motion) = self.states.get(at)?;
        Some((KindId(at as u8), lanes, *motion))
    }
}

/// Numbers from a seed (splitmix64).
pub(crate) struct Chance(pub u64);

impl Chance {
    /// Any `i32`, all magnitudes equally likely.
    pub(crate) fn any(&mut self) -> i32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed >> 32) as i32 >> (mixed % 32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tried_schema_is_valid() {
        assert_eq!(schemas().len(), 3);
    }

    #[test]
    fn committed_seeds_are_read_or_refused() {
        let packet = |data: &[u8]| {
            decode_packet(data);
        };
        for (target, run) in [("packet", packet as fn(&[u8])), ("schema", compare_schema)] {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds");
            let folder = std::path::Path::new(folder).join(target);
            let files: Vec<_> = std::fs::read_dir(folder).unwrap().map(Result::unwrap).collect();
            assert!(files.len() > 3, "the seeds of {target} are missing");
            for file in files {
                println!("{target}: {}", file.path().display());
                run(&std::fs::read(file.path()).unwrap());
            }
        }
    }
}
