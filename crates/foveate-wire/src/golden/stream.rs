//! Vectors of whole packets: a few objects over a stream of updates.

use super::hex;
use crate::fuzz::{self, Chance};
use crate::packet::{PacketReader, PacketWriter, Record, StateHeader, States, open_state};
use crate::schema::LaneClass;
use crate::{Alias, Baseline, Kind, KindId, Models, Motion, ObjectId, Schema, Tick, predict};
use serde_json::{Value, json};

/// Packets of each stream.
const PACKETS: usize = 9;
/// Objects of each stream.
const OBJECTS: usize = 9;
/// The fall of the stones in these streams, in steps per tick².
const FALL: i32 = 16;

pub(super) fn packets() -> Vec<Value> {
    let streams = fuzz::schemas().iter().enumerate();
    streams.flat_map(|(at, schema)| Stream::new(schema, at as u64).run()).collect()
}

/// A state that the receiver has.
#[derive(Clone)]
struct Held {
    tick: Tick,
    lanes: Vec<i32>,
    motion: Motion,
}

struct Object {
    alias: Alias,
    id: ObjectId,
    held: Vec<Held>,
}

struct Stream<'a> {
    schema: &'a Schema,
    chance: Chance,
    objects: Vec<Object>,
    header: StateHeader,
}

impl States for &[Object] {
    fn state_at(&self, alias: Alias, tick: Tick) -> Option<(KindId, &[i32], Motion)> {
        let object = self.iter().find(|object| object.alias == alias)?;
        let held = object.held.iter().find(|held| held.tick == tick)?;
        Some((object.id.kind(), &held.lanes, held.motion))
    }
}

impl<'a> Stream<'a> {
    fn new(schema: &'a Schema, seed: u64) -> Stream<'a> {
        let mut chance = Chance(seed + 100);
        let object = |n: usize| {
            // Most are of the last kind, because a packet needs several falls to learn from.
            let kind = KindId(n.min(schema.kinds().len() - 1) as u8);
            let id = ObjectId::new(kind, chance.any() as u32 & 0xFF_FFFF, n as u32);
            Object { alias: Alias((n * n * 40) as u16), id, held: Vec::new() }
        };
        let objects = (0..OBJECTS).map(object).collect();
        // The tick wraps in the middle of the stream.
        let header = StateHeader { seq: 65_533, tick: Tick(0xFFFF_FFE8) };
        Stream { schema, chance, objects, header }
    }

    fn run(mut self) -> Vec<Value> {
        let empty = self.packet("empty", |_, _| false);
        let mut cases = vec![empty];
        for n in 0..PACKETS {
            let name = if n == 0 { "whole states" } else { "updates" };
            cases.push(self.packet(name, |at, round| n != 5 || (at + round).is_multiple_of(3)));
        }
        cases
    }

    /// Writes one packet about the objects chosen by position and round.
    fn packet(&mut self, name: &str, chosen: impl Fn(usize, usize) -> bool) -> Value {
        self.header.seq = self.header.seq.wrapping_add(1);
        // Every third packet comes after a silence, usually longer than the horizon of predictions.
        let most = if self.header.seq.is_multiple_of(3) { 4 * predict::HORIZON } else { 6 };
        let ages = 1 + self.chance.any().unsigned_abs() % most;
        self.header.tick = self.header.tick.plus(ages);
        let (mut models, mut out) = (Models::trained(), Vec::new());
        let mut writer = PacketWriter::new(&mut out, &mut models, self.header);
        let (mut held, mut records, mut news) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..self.objects.len() {
            if !chosen(at, usize::from(self.header.seq)) {
                continue;
            }
            let object = &self.objects[at];
            let (alias, id) = (object.alias, object.id);
            let Some(kind) = self.schema.kind(id.kind()) else { continue };
            let notice = self.chance.any().unsigned_abs() % 16;
            if notice < 2 && !object.held.is_empty() {
                if notice == 0 {
                    writer.gone(alias)
                } else {
                    writer.freeze(alias)
                }
                let op = if notice == 0 { "gone" } else { "frozen" };
                records.push(json!({ "op": op, "alias": alias.0 }));
                continue;
            }
            // Usually the newest state, sometimes an older one.
            let back = usize::from(self.chance.any() % 5 == 0);
            let base = object.held.iter().rev().nth(back).or(object.held.last()).cloned();
            let age = base.as_ref().map_or(0, |base| self.header.tick.since(base.tick));
            let mut now = next(kind, base.as_ref(), age, &mut self.chance);
            let motion = match &base {
                Some(base) => {
                    held.push(shown(alias, id, base));
                    let base = Baseline { lanes: &base.lanes, motion: base.motion, age };
                    writer.update(alias, kind, &base, &mut now)
                }
                None => {
                    writer.full(alias, id, kind, &mut now);
                    Motion::default()
                }
            };
            let state = Held { tick: self.header.tick, lanes: now, motion };
            records.push(said(alias, id, base.is_none(), &state));
            news.push((at, state));
        }
        writer.finish();
        self.check(&out, &news, records.len());
        news.into_iter().for_each(|(at, state)| self.objects[at].held.push(state));
        json!({
            "name": name, "schema": self.schema.describe(), "bytes": hex(&out),
            "hash": format!("{:016x}", self.schema.hash()), "near": self.header.tick.plus(7).0,
            "seq": self.header.seq, "tick": self.header.tick.0, "held": held, "records": records,
        })
    }

    /// Checks that the packet reads back as written.
    fn check(&self, bytes: &[u8], news: &[(usize, Held)], records: usize) {
        let (header, body) = open_state(bytes, self.header.tick.plus(7)).unwrap();
        assert_eq!(header, self.header);
        let mut models = Models::trained();
        let mut reader = PacketReader::new(header, body, &mut models);
        let (mut lanes, mut motions, mut read) = (Vec::new(), Vec::new(), 0);
        while let Some(record) =
            reader.next(self.schema, &self.objects.as_slice(), &mut lanes).unwrap()
        {
            read += 1;
            match record {
                Record::Update(_, motion) => motions.push(motion),
                Record::Full(..) => motions.push(Motion::default()),
                Record::Freeze(_) | Record::Gone(_) => {}
            }
        }
        assert_eq!(read, records);
        assert!(news.iter().flat_map(|(_, state)| &state.lanes).eq(&lanes));
        assert!(news.iter().map(|(_, state)| &state.motion).eq(&motions));
    }
}

fn shown(alias: Alias, id: ObjectId, held: &Held) -> Value {
    json!({
        "alias": alias.0, "kind": id.kind().0, "tick": held.tick.0, "lanes": held.lanes,
        "moved": held.motion.moved, "ticks": held.motion.ticks,
    })
}

fn said(alias: Alias, id: ObjectId, whole: bool, state: &Held) -> Value {
    let Held { lanes, motion, .. } = state;
    if whole {
        return json!({
            "op": "full", "alias": alias.0, "kind": id.kind().0, "origin": id.creator(),
            "serial": id.serial(), "lanes": lanes,
        });
    }
    json!({
        "op": "update", "alias": alias.0, "lanes": lanes, "moved": motion.moved,
        "ticks": motion.ticks,
    })
}

/// The state that follows another, or a first one.
fn next(kind: &Kind, base: Option<&Held>, age: u32, chance: &mut Chance) -> Vec<i32> {
    let mut now = base.map_or_else(|| vec![0; kind.lane_count()], |base| base.lanes.clone());
    let often = if base.is_some() { 4 } else { 1 };
    for (lane, class) in kind.lanes.iter().enumerate() {
        if !chance.any().unsigned_abs().is_multiple_of(often) {
            continue;
        }
        now[lane] = match *class {
            LaneClass::Step => now[lane].wrapping_add(chance.any()),
            LaneClass::Word => chance.any(),
            LaneClass::Turn { steps } => {
                now[lane].wrapping_add(chance.any()).rem_euclid(steps as i32)
            }
            LaneClass::Symbol { count } => chance.any().rem_euclid(count as i32),
        };
    }
    if let Some(place) = &kind.place {
        let at = match base {
            Some(base) => moved(kind, base, age, chance),
            None => [0; 3].map(|_| chance.any()),
        };
        for (lane, at) in now[place.at..place.at + place.dims].iter_mut().zip(at) {
            *lane = at.clamp(-place.extent_steps, place.extent_steps);
        }
    }
    now
}

/// A place after another: as predicted, still, falling, slightly off, or anywhere.
fn moved(kind: &Kind, base: &Held, age: u32, chance: &mut Chance) -> [i32; 3] {
    let Some(place) = &kind.place else { return [0; 3] };
    let from = place.coordinates(&base.lanes);
    let mut at = predict::place(place, &base.lanes, &base.motion, age);
    match chance.any().unsigned_abs() % 10 {
        0 => return at,
        1 => return from,
        2 => at[2] = from[2],
        3..=6 => {
            let ticks = base.motion.ticks.max(1);
            at[2] = at[2].wrapping_sub(FALL * (age * (age + ticks)) as i32 / 2);
        }
        7 => return [0; 3].map(|_| chance.any()),
        _ => at[2] = at[2].wrapping_add(chance.any() >> 20),
    }
    [at[0].wrapping_add(chance.any() >> 22), at[1].wrapping_add(chance.any() >> 24), at[2]]
}
