//! Invalid bytes are refused or read as something, without a panic and within bounds.

use crate::made::{Entry, Held, read, schema};
use fastrand::Rng;
use foveate_wire::fuzz::{self, CHOICE, Work, decode_packet};
use foveate_wire::packet::{
    Ack, MAX_PACKET, MAX_RECORDS, PacketError, PacketWriter, StateHeader, VERSION, open_state,
};
use foveate_wire::{Models, Schema, Tick};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::panic::{AssertUnwindSafe, catch_unwind};

const STATE: u8 = VERSION << 4 | 1;

/// Runs one input; a panic reports the seed that repeats it.
fn survive<T>(seed: u64, what: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(what)).unwrap_or_else(|_| panic!("seed {seed} made it panic"))
}

fn check(work: Work) {
    let widest = fuzz::schemas().iter().flat_map(Schema::kinds).map(|kind| kind.lane_count()).max();
    assert!(work.records <= MAX_RECORDS);
    // One more: a record is filled in before the bytes after it are found invalid.
    assert!(work.lanes <= (work.records + 1) * widest.unwrap_or(0), "{work:?}");
}

/// A packet from a writer, and its receiver's states.
struct Written {
    schema: Schema,
    entries: Vec<Entry>,
    tick: Tick,
    bytes: Vec<u8>,
}

impl Written {
    fn any(schema: &Schema, rng: &mut Rng) -> Written {
        let (mut models, mut bytes, mut entries) =
            (Models::trained(), Vec::new(), Vec::<Entry>::new());
        let header = StateHeader { seq: rng.u16(..), tick: Tick(rng.u32(..)) };
        let mut writer = PacketWriter::new(&mut bytes, &mut models, header);
        for _ in 0..rng.usize(..40) {
            let after = entries.last().map_or(0, |entry| u32::from(entry.alias.0) + 1);
            let Some(entry) = Entry::any(schema, after, rng) else { break };
            entry.write(&mut writer, schema);
            entries.push(entry);
        }
        writer.finish();
        Written { schema: schema.clone(), entries, tick: header.tick, bytes }
    }

    /// The packet's bytes, damaged.
    fn mutated(&self, other: &Written, rng: &mut Rng) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        for _ in 0..rng.u32(1..4) {
            let at = rng.usize(..bytes.len().max(1));
            match rng.u32(..4) {
                0 | 1 if at < bytes.len() => bytes[at] ^= 1 << rng.u32(..8),
                2 => bytes.truncate(at),
                _ => {
                    bytes.truncate(at);
                    bytes.extend(&other.bytes[rng.usize(..other.bytes.len())..]);
                }
            }
        }
        bytes
    }
}

fn some_schemas(count: usize) -> Vec<Schema> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| schema().new_tree(&mut runner).unwrap().current()).collect()
}

#[test]
fn random_and_mutated_bytes_never_panic() {
    for seed in 0..20_000 {
        let mut rng = Rng::with_seed(seed);
        let mut bytes: Vec<u8> = (0..rng.usize(..1_300)).map(|_| rng.u8(..)).collect();
        if let Some(first) = bytes.get_mut(CHOICE).filter(|_| seed % 8 > 0) {
            *first = STATE;
        }
        check(survive(seed, || decode_packet(&bytes)));
    }
    let schemas = some_schemas(20);
    let mut models = Models::trained();
    for seed in 0..1_000 {
        let mut rng = Rng::with_seed(seed);
        let pick = |rng: &mut Rng| Written::any(&schemas[rng.usize(..schemas.len())], rng);
        let (written, other) = (pick(&mut rng), pick(&mut rng));
        let held = Held { tick: written.tick, entries: &written.entries };
        let widest = written.schema.kinds().iter().map(|kind| kind.lane_count()).max().unwrap_or(0);
        for _ in 0..20 {
            let bytes = written.mutated(&other, &mut rng);
            let back =
                survive(seed, || read(&bytes, written.tick, &written.schema, &held, &mut models));
            if let Ok((_, records, lanes)) = back {
                assert!(records.len() <= MAX_RECORDS && lanes.len() <= MAX_RECORDS * widest);
            }
            let named: Vec<u8> = (0..CHOICE).map(|_| rng.u8(..)).chain(bytes).collect();
            check(survive(seed, || decode_packet(&named)));
        }
        // Whatever was read in between, valid bytes read as before.
        let back = read(&written.bytes, written.tick, &written.schema, &held, &mut models);
        if written.bytes.len() <= MAX_PACKET {
            assert_eq!(back.map(|(_, records, _)| records.len()), Ok(written.entries.len()));
        }
    }
}

/// Answers every "does another record follow?" with yes.
#[test]
fn a_packet_of_endless_records_is_refused_after_the_last_allowed() {
    let schema = &fuzz::schemas()[0];
    let (mut models, mut bytes) = (Models::trained(), Vec::new());
    let header = StateHeader { seq: 1, tick: Tick(1) };
    let mut writer = PacketWriter::new(&mut bytes, &mut models, header);
    for alias in 0..MAX_RECORDS as u16 {
        writer.freeze(foveate_wire::Alias(alias));
    }
    writer.finish();
    let held = Held { tick: Tick(1), entries: &[] };
    let back = read(&bytes, Tick(1), schema, &held, &mut models).unwrap();
    assert_eq!(back.1.len(), MAX_RECORDS);
    // Noise in place of the end: sooner or later it says "one more".
    let mut refused = 0;
    for (cut, noise) in (0..=3).flat_map(|cut| (0..=255).map(move |noise| (cut, noise))) {
        let mut longer = bytes.clone();
        longer.truncate(bytes.len() - cut);
        longer.extend([noise; 40]);
        let back = read(&longer, Tick(1), schema, &held, &mut models);
        refused += usize::from(back == Err(PacketError::TooMany));
    }
    assert!(refused > 0);
}

#[test]
fn each_header_that_is_wrong_is_refused_by_name() {
    let near = Tick(9);
    let long = vec![STATE; MAX_PACKET + 1];
    assert_eq!(open_state(&long, near), Err(PacketError::TooLong(MAX_PACKET + 1)));
    assert_eq!(open_state(&[], near), Err(PacketError::TooShort(0)));
    assert_eq!(open_state(&[STATE, 1, 2, 3], near), Err(PacketError::TooShort(4)));
    assert_eq!(open_state(&[0xF1, 0, 0, 0, 0], near), Err(PacketError::Version(15)));
    assert_eq!(open_state(&[VERSION << 4 | 7, 0, 0, 0, 0], near), Err(PacketError::Type(7)));
    let ack = VERSION << 4 | 2;
    assert_eq!(open_state(&[ack, 0, 0, 0, 0, 0, 0], near), Err(PacketError::Type(2)));
    assert_eq!(Ack::read(&[STATE, 0, 0, 0, 0]), Err(PacketError::Type(1)));
    assert_eq!(Ack::read(&[ack, 0, 0]), Err(PacketError::TooShort(3)));
}

#[test]
fn records_that_refer_to_nothing_are_refused() {
    let (schema, mut models) = (&fuzz::schemas()[0], Models::trained());
    let mut rng = Rng::with_seed(3);
    let mut written = Written::any(schema, &mut rng);
    while !written.entries.iter().any(|entry| entry.what == crate::made::What::Update) {
        written = Written::any(schema, &mut rng);
    }
    let held = Held { tick: written.tick, entries: &[] };
    let back = read(&written.bytes, written.tick, schema, &held, &mut models);
    assert!(matches!(back, Err(PacketError::Baseline(_))), "{back:?}");
    // A schema without the kind of a whole state.
    let none = Schema::new(Vec::new()).unwrap();
    let whole = |entry: &&Entry| matches!(entry.what, crate::made::What::Full(_));
    let entry = written.entries.iter().find(whole).unwrap();
    let mut bytes = Vec::new();
    let header = StateHeader { seq: 0, tick: Tick(0) };
    let mut writer = PacketWriter::new(&mut bytes, &mut models, header);
    entry.write(&mut writer, schema);
    writer.finish();
    let back = read(&bytes, Tick(0), &none, &held, &mut models);
    assert_eq!(back, Err(PacketError::Kind(entry.kind)));
}
