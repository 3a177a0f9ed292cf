//! Packets read back as written.

use crate::made::{Entry, Held, What, any_motion, any_state, next_state, read, schema};
use fastrand::Rng;
use foveate_wire::packet::{Ack, MAX_PACKET, PacketWriter, Record, StateHeader, open_state};
use foveate_wire::predict::HORIZON;
use foveate_wire::{
    Alias, Baseline, Field, FieldSpec, FieldType, KindSpec, Models, Motion, Pose, PoseBaseline,
    Role, Schema, Tick,
};
use proptest::prelude::*;

/// Writes a packet like the pipeline: a record is added if the largest of its kind would fit.
fn fill(schema: &Schema, header: StateHeader, models: &mut Models, rng: &mut Rng) -> Filled {
    let (mut bytes, mut entries, mut meant) = (Vec::new(), Vec::<Entry>::new(), Vec::new());
    let mut writer = PacketWriter::new(&mut bytes, models, header);
    let most = rng.usize(..200);
    while entries.len() < most {
        let after = entries.last().map_or(0, |entry| u32::from(entry.alias.0) + 1);
        let Some(entry) = Entry::any(schema, after, rng) else { break };
        let largest = schema.kind(entry.kind).unwrap().max_record_bytes();
        if !entries.is_empty() && writer.len() + largest > MAX_PACKET {
            break;
        }
        let motion = entry.write(&mut writer, schema);
        meant.push(match entry.what {
            What::Update => Record::Update(entry.alias, motion),
            What::Full(id) => Record::Full(entry.alias, id),
            What::Freeze => Record::Freeze(entry.alias),
            What::Gone => Record::Gone(entry.alias),
        });
        entries.push(entry);
    }
    writer.finish();
    Filled { bytes, entries, meant }
}

struct Filled {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    meant: Vec<Record>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_pose_alone_gives_the_bytes_of_the_whole_update(schema in schema(), seed: u64) {
        let mut rng = Rng::with_seed(seed);
        let (kind, mut models) = (&schema.kinds()[0], Models::trained());
        let header = StateHeader { seq: 1, tick: Tick(9) };
        let (then, motion, age) = (any_state(kind, &mut rng), any_motion(kind, &mut rng), rng.u32(1..90));
        let base = Baseline { lanes: &then, motion, age };
        let mut now = next_state(kind, &base, &mut rng);
        kind.others.iter().for_each(|lane| now[*lane] = then[*lane]);
        let (mut whole, mut pose) = (Vec::new(), Vec::new());
        let mut writer = PacketWriter::new(&mut whole, &mut models, header);
        let by_lanes = writer.update(Alias(3), kind, &base, &mut now);
        writer.finish();
        let mut writer = PacketWriter::new(&mut pose, &mut models, header);
        let from = PoseBaseline { pose: Pose::of(kind, &then), motion, age };
        let by_pose = writer.update_pose(Alias(3), kind, &from, Pose::of(kind, &now));
        writer.finish();
        prop_assert_eq!(by_lanes, by_pose);
        prop_assert_eq!(whole, pose);
    }

    #[test]
    fn packets_return_and_models_restart(schema in schema(), seed: u64, tick: u32, seq: u16) {
        let mut rng = Rng::with_seed(seed);
        let (mut writing, mut reading) = (Models::trained(), Models::trained());
        for n in 0..4 {
            let header = StateHeader { seq: seq.wrapping_add(n), tick: Tick(tick.wrapping_add(n.into())) };
            let Filled { bytes, entries, meant } = fill(&schema, header, &mut writing, &mut rng);
            prop_assert!(bytes.len() <= MAX_PACKET, "{} bytes", bytes.len());
            let held = Held { tick: header.tick, entries: &entries };
            let near = Tick(header.tick.0.wrapping_add(rng.u32(..65_536)).wrapping_sub(32_768));
            let (back, records, lanes) = read(&bytes, near, &schema, &held, &mut reading).unwrap();
            prop_assert_eq!(back, header);
            prop_assert_eq!(records, meant);
            let stated = |entry: &&Entry| matches!(entry.what, What::Update | What::Full(_));
            let states = entries.iter().filter(stated).flat_map(|entry| &entry.now);
            prop_assert!(states.eq(&lanes));
        }
    }

    #[test]
    fn ways_are_the_nearest_steps_halves_up(moved: [i32; 3], small: bool, ticks: u32, rounds: u32) {
        let moved = moved.map(|m| if small { m >> 20 } else { m });
        let ticks = if small { ticks % 9 } else { ticks };
        let motion = Motion { moved, ticks };
        let (t, r) = (i128::from(ticks.clamp(1, 65_536)), i128::from(rounds.min(HORIZON)));
        let way = moved.map(|m| (2 * i128::from(m) * r + t).div_euclid(2 * t) as i32);
        prop_assert_eq!(motion.way(rounds), way);
    }

    #[test]
    fn acknowledgements_return(newest: u16, before: u32) {
        let (ack, mut bytes) = (Ack { newest, before }, Vec::new());
        ack.write(&mut bytes);
        prop_assert_eq!(Ack::read(&bytes), Ok(ack));
        for behind in 0..40u16 {
            let said = behind == 0 || (behind <= 32 && before >> (behind - 1) & 1 == 1);
            prop_assert_eq!(ack.has(newest.wrapping_sub(behind)), said);
        }
    }

    #[test]
    fn ticks_are_completed_within_half_their_range(tick: u32, off in -32_768i32..32_768) {
        let (mut models, mut bytes) = (Models::trained(), Vec::new());
        let header = StateHeader { seq: 7, tick: Tick(tick) };
        PacketWriter::new(&mut bytes, &mut models, header).finish();
        let near = Tick(tick.wrapping_add(off as u32));
        prop_assert_eq!(open_state(&bytes, near).unwrap().0, header);
    }
}

#[test]
fn the_edge_of_a_vast_world_returns() {
    let mut rng = Rng::with_seed(1);
    for _ in 0..10_000 {
        let (extent, precision) = (1e4 + rng.f32() * 9e4, 0.0005 + rng.f32() / 100.0);
        let place = FieldType::Place { dims: 2, precision, extent, motion: false };
        let lanes = &mut [0; 2];
        [extent, -extent].put(&place, lanes);
        let field = FieldSpec::new("at", place).role(Role::Place);
        let spec = KindSpec { name: "far".into(), fields: vec![field], max_speed: 0.0, fall: 0 };
        let schema = Schema::new(vec![spec]).unwrap();
        let held = schema.kinds()[0].place.unwrap().extent_steps;
        assert_eq!(*lanes, [held, -held], "{extent} in steps of {precision}");
    }
}
