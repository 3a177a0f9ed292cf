//! Random schemas and states: every field type, with every value that it can have.

use fastrand::Rng;
use foveate_wire::packet::{
    PacketError, PacketReader, PacketWriter, Record, StateHeader, States, open_state,
};
use foveate_wire::{
    Alias, Baseline, Encoder, FieldSpec, FieldType, Kind, KindId, KindSpec, Models, Motion,
    ObjectId, Role, Schema, Tick,
};
use proptest::prelude::*;

/// A field of any type but a place; `depth`: how far optionals and lists may nest.
fn plain(depth: u32) -> BoxedStrategy<FieldType> {
    let leaf = prop_oneof![
        (2u32..=65_536).prop_map(|steps| FieldType::Angle { steps }),
        (1u32..400, 1f32..1e5).prop_map(|(parts, max)| {
            FieldType::Number { precision: 1.0 / parts as f32, min: -max / 3.0, max }
        }),
        any::<(i32, i32)>().prop_filter_map("min < max", |(a, b)| {
            (a != b).then(|| FieldType::Integer { min: a.min(b), max: a.max(b) })
        }),
        Just(FieldType::Integer { min: 0, max: 255 }),
        prop_oneof![Just(2), 2u32..=65_536].prop_map(|count| FieldType::Symbol { count }),
        (4u8..=15).prop_map(|bits| FieldType::Quaternion { bits }),
        (1u16..40).prop_map(|max| FieldType::Bytes { max }),
        (1u16..40).prop_map(|max| FieldType::Text { max }),
        place(),
    ];
    if depth == 0 {
        return leaf.boxed();
    }
    let inner = || plain(depth - 1);
    prop_oneof![
        4 => leaf,
        1 => inner().prop_map(|inner| FieldType::Optional(Box::new(inner))),
        1 => (inner(), 1u16..5).prop_map(|(item, max)| FieldType::List { item: Box::new(item), max }),
    ]
    .boxed()
}

fn place() -> impl Strategy<Value = FieldType> {
    let precision = prop_oneof![Just(0.125f32), Just(0.1), 0.001f32..2.0];
    (2u8..=3, precision, 1f32..1e5, any::<bool>()).prop_map(|(dims, precision, extent, motion)| {
        FieldType::Place { dims, precision, extent, motion }
    })
}

/// A kind with or without a place, yaw and pitch, and some plain fields.
fn kind() -> impl Strategy<Value = (Vec<FieldSpec>, i32)> {
    let angle = || prop::option::of(2u32..4_096);
    let plain = prop::collection::vec(plain(2), 0..6);
    let fall = prop_oneof![Just(0), Just(16), -100i32..2_000];
    (prop::option::weighted(0.8, place()), angle(), angle(), plain, fall).prop_map(
        |(place, yaw, pitch, plain, fall)| {
            let mut fields = Vec::new();
            let mut add = |ty: FieldType, role: Role| {
                fields.push(FieldSpec::new(&format!("f{}", fields.len()), ty).role(role));
            };
            let mut plain = plain.into_iter();
            plain.by_ref().take(1).for_each(|ty| add(ty, Role::Plain));
            place.into_iter().for_each(|ty| add(ty, Role::Place));
            yaw.into_iter().for_each(|steps| add(FieldType::Angle { steps }, Role::Yaw));
            plain.for_each(|ty| add(ty, Role::Plain));
            pitch.into_iter().for_each(|steps| add(FieldType::Angle { steps }, Role::Pitch));
            (fields, fall)
        },
    )
}

/// A schema of a few kinds.
pub fn schema() -> impl Strategy<Value = Schema> {
    prop::collection::vec(kind(), 1..4).prop_filter_map("fits a packet", |kinds| {
        let spec = |(at, (fields, fall)): (usize, (Vec<FieldSpec>, i32))| {
            let name = format!("kind{at}");
            KindSpec { name, fields, max_speed: 10.0, fall }
        };
        Schema::new(kinds.into_iter().enumerate().map(spec).collect()).ok()
    })
}

/// A whole number from a range, in which the ends and zero are more likely.
fn within(rng: &mut Rng, min: i32, max: i32) -> i32 {
    match rng.u32(..8) {
        0 => min,
        1 => max,
        2 => 0.clamp(min, max),
        _ => rng.i32(min..=max),
    }
}

/// Lanes of any value that a field can have.
fn push_any(ty: &FieldType, rng: &mut Rng, out: &mut Vec<i32>) {
    let steps =
        |value: f32, precision: f32| (f64::from(value) / f64::from(precision)).round() as i32;
    match ty {
        FieldType::Place { dims, precision, extent, .. } => {
            let most = steps(*extent, *precision);
            (0..*dims).for_each(|_| out.push(within(rng, -most, most)));
        }
        FieldType::Angle { steps } => out.push(rng.i32(0..*steps as i32)),
        FieldType::Number { precision, min, max } => {
            out.push(within(rng, steps(*min, *precision), steps(*max, *precision)));
        }
        FieldType::Integer { min, max } => out.push(within(rng, *min, *max)),
        FieldType::Symbol { count } => out.push(rng.i32(0..*count as i32)),
        FieldType::Quaternion { bits } => {
            let most = (1 << (bits - 1)) - 1;
            out.push(rng.i32(0..4));
            (0..3).for_each(|_| out.push(within(rng, -most, most)));
        }
        FieldType::Bytes { max } | FieldType::Text { max } => {
            let length = rng.usize(..=usize::from(*max));
            out.push(length as i32);
            let mut bytes = vec![0; usize::from(*max).div_ceil(4) * 4];
            bytes[..length].fill_with(|| rng.u8(..));
            let words = bytes.chunks_exact(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            out.extend(words);
        }
        FieldType::Optional(inner) => {
            let some = rng.bool();
            push_items(inner, usize::from(some), 1, rng, out);
        }
        FieldType::List { item, max } => {
            let count = rng.usize(..=usize::from(*max));
            push_items(item, count, usize::from(*max), rng, out);
        }
    }
}

/// A count, this many values, and zeros in place of missing ones.
fn push_items(item: &FieldType, count: usize, max: usize, rng: &mut Rng, out: &mut Vec<i32>) {
    out.push(count as i32);
    (0..count).for_each(|_| push_any(item, rng, out));
    out.extend(std::iter::repeat_n(0, (max - count) * item.lanes()));
}

/// Any state of a kind.
pub fn any_state(kind: &Kind, rng: &mut Rng) -> Vec<i32> {
    let mut lanes = vec![within(rng, i32::MIN, i32::MAX), within(rng, 0, 9)];
    kind.spec.fields.iter().for_each(|field| push_any(&field.ty, rng, &mut lanes));
    lanes
}

/// A state that could follow: some fields are new, the place is a little further on, or anywhere.
pub fn next_state(kind: &Kind, base: &Baseline<'_>, rng: &mut Rng) -> Vec<i32> {
    let (mut lanes, other) = (base.lanes.to_vec(), any_state(kind, rng));
    for range in &kind.ranges {
        if rng.u32(..3) == 0 {
            lanes[range.clone()].copy_from_slice(&other[range.clone()]);
        }
    }
    if let Some(place) = &kind.place
        && rng.u32(..4) > 0
    {
        let ahead = foveate_wire::predict::place(place, base.lanes, &base.motion, base.age);
        let slack = 1 << rng.u32(..12);
        for (lane, at) in lanes[place.at..place.at + place.dims].iter_mut().zip(ahead) {
            let at = at.saturating_add(if rng.bool() { rng.i32(-slack..=slack) } else { 0 });
            *lane = at.clamp(-place.extent_steps, place.extent_steps);
        }
    }
    lanes
}

/// A motion that a state could have.
pub fn any_motion(kind: &Kind, rng: &mut Rng) -> Motion {
    let Some(place) = kind.place.filter(|_| rng.u32(..4) > 0) else { return Motion::default() };
    let most = if rng.u32(..4) == 0 { 2 * place.extent_steps } else { 300 };
    let mut moved = [0; 3];
    moved[..place.dims].fill_with(|| within(rng, -most, most));
    Motion { moved, ticks: rng.u32(1..=40) }
}

/// One record to write, and the receiver's state.
#[derive(Clone, Debug)]
pub struct Entry {
    pub alias: Alias,
    pub kind: KindId,
    pub then: Vec<i32>,
    pub motion: Motion,
    pub age: u32,
    pub now: Vec<i32>,
    pub what: What,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum What {
    Update,
    Full(ObjectId),
    Freeze,
    Gone,
}

impl Entry {
    /// A record about an object whose alias is slightly above `after`.
    pub fn any(schema: &Schema, after: u32, rng: &mut Rng) -> Option<Entry> {
        let gap = if rng.u32(..50) == 0 { rng.u32(..3_000) } else { rng.u32(..4) };
        let alias = Alias(u16::try_from(after + gap).ok()?);
        let id = KindId(rng.usize(..schema.kinds().len()) as u8);
        let kind = schema.kind(id)?;
        let (then, motion) = (any_state(kind, rng), any_motion(kind, rng));
        let age = if rng.bool() { rng.u32(1..=6) } else { rng.u32(1..=200) };
        let now = next_state(kind, &Baseline { lanes: &then, motion, age }, rng);
        let what = match rng.u32(..20) {
            0 => What::Freeze,
            1 => What::Gone,
            2..5 => What::Full(ObjectId::new(id, rng.u32(..) & 0xFF_FFFF, rng.u32(..))),
            _ => What::Update,
        };
        Some(Entry { alias, kind: id, then, motion, age, now, what })
    }

    /// Writes it; returns the new state's motion.
    pub fn write(&self, writer: &mut PacketWriter<Encoder<'_>>, schema: &Schema) -> Motion {
        let kind = schema.kind(self.kind).unwrap();
        let (mut now, mut motion) = (self.now.clone(), Motion::default());
        match self.what {
            What::Update => {
                let base = Baseline { lanes: &self.then, motion: self.motion, age: self.age };
                motion = writer.update(self.alias, kind, &base, &mut now);
            }
            What::Full(id) => writer.full(self.alias, id, kind, &mut now),
            What::Freeze => writer.freeze(self.alias),
            What::Gone => writer.gone(self.alias),
        }
        assert_eq!(now, self.now, "writing changes nothing");
        motion
    }
}

/// A receiver's states: the baselines of some entries.
pub struct Held<'a> {
    pub tick: Tick,
    pub entries: &'a [Entry],
}

impl States for Held<'_> {
    fn state_at(&self, alias: Alias, tick: Tick) -> Option<(KindId, &[i32], Motion)> {
        let at = self.entries.binary_search_by_key(&alias, |entry| entry.alias).ok()?;
        let entry = &self.entries[at];
        let held = self.tick.since(tick) == entry.age;
        held.then_some((entry.kind, entry.then.as_slice(), entry.motion))
    }
}

/// Reads a whole packet: its records and all their lanes.
pub fn read(
    bytes: &[u8],
    near: Tick,
    schema: &Schema,
    held: &impl States,
    models: &mut Models,
) -> Result<(StateHeader, Vec<Record>, Vec<i32>), PacketError> {
    let (header, body) = open_state(bytes, near)?;
    let mut reader = PacketReader::new(header, body, models);
    let (mut records, mut lanes) = (Vec::new(), Vec::new());
    while let Some(record) = reader.next(schema, held, &mut lanes)? {
        records.push(record);
    }
    Ok((header, records, lanes))
}
