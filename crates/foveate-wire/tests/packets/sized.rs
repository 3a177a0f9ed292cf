//! No record is longer than its kind allows, even if chosen by an attacker.

use fastrand::Rng;
use foveate_wire::packet::{MAX_PACKET, MAX_RECORDS, PacketWriter, StateHeader};
use foveate_wire::schema::LaneClass;
use foveate_wire::{
    Alias, Baseline, Encoder, FieldSpec, FieldType, Kind, KindId, KindSpec, Models, Motion,
    ObjectId, Role, Schema, Tick, predict,
};

/// Kinds whose records are hard to keep short: few lanes, wide lanes, many lanes.
fn kinds() -> Schema {
    let field = |name: &str, ty| FieldSpec::new(name, ty);
    let place = |dims, extent| {
        let ty = FieldType::Place { dims, precision: 0.125, extent, motion: true };
        field("at", ty).role(Role::Place)
    };
    let yaw = |steps| field("yaw", FieldType::Angle { steps }).role(Role::Yaw);
    let pitch = |steps| field("pitch", FieldType::Angle { steps }).role(Role::Pitch);
    let whole = || FieldType::Integer { min: i32::MIN, max: i32::MAX };
    let list = FieldType::List { item: Box::new(whole()), max: 120 };
    let kinds = [
        ("nothing", 0, vec![]),
        ("door", 0, vec![field("open", FieldType::Symbol { count: 2 })]),
        ("point", 0, vec![place(2, 2_048.0)]),
        ("far", 16, vec![place(3, 3e7), yaw(65_536)]),
        ("facing", 0, vec![yaw(65_536), pitch(65_536)]),
        ("avatar", 16, vec![place(3, 2_048.0), yaw(240), pitch(240), field("health", whole())]),
        ("wide", 0, (0..60).map(|n| field(&format!("f{n}"), whole())).collect()),
        ("list", 0, vec![field("all", list)]),
        ("text", 0, vec![field("words", FieldType::Text { max: 500 })]),
    ];
    let spec = |(name, fall, fields): (&str, i32, Vec<FieldSpec>)| KindSpec {
        name: name.into(),
        fields,
        max_speed: 0.0,
        fall,
    };
    Schema::new(kinds.into_iter().map(spec).collect()).unwrap()
}

/// A number of any magnitude.
fn any(rng: &mut Rng) -> i32 {
    rng.i32(..) >> rng.u32(..32)
}

/// A record's head, and the state that it is a difference to.
struct Written<'a> {
    alias: u32,
    age: u32,
    whole: bool,
    then: &'a [i32],
}

/// A run of similar records that settles the models, then one that surprises them.
#[derive(Clone, Debug)]
struct Attempt {
    /// The records before: their number, whether they are whole, and the gaps of their aliases.
    calm: usize,
    whole: bool,
    gap: u32,
    age: u32,
    motion: Motion,
    /// The surprise: the gap of its alias, its age or id, and its lanes or residuals.
    wild_whole: bool,
    wild_gap: u32,
    wild_age: u32,
    name: [u32; 2],
    lanes: Vec<i32>,
}

impl Attempt {
    fn new(kind: &Kind, rng: &mut Rng) -> Attempt {
        let mut attempt = Attempt {
            calm: 0,
            whole: false,
            gap: 0,
            age: 2,
            motion: Motion::default(),
            wild_whole: rng.bool(),
            wild_gap: 0,
            wild_age: 1,
            name: [0; 2],
            lanes: vec![0; kind.lane_count()],
        };
        (0..40).for_each(|_| attempt.vary(kind, rng));
        attempt
    }

    /// Changes one thing.
    fn vary(&mut self, kind: &Kind, rng: &mut Rng) {
        match rng.u32(..14) {
            0 => self.calm = rng.usize(..MAX_RECORDS - 1) >> rng.u32(..9),
            1 => self.whole = rng.bool(),
            2 => self.gap = rng.u32(..16),
            3 => self.age = 1 + rng.u32(..40),
            4 if kind.place.is_some() => {
                let dims = kind.place.map_or(0, |place| place.dims);
                self.motion.moved[..dims].fill_with(|| any(rng) >> 16);
                self.motion.ticks = rng.u32(1..9);
            }
            5 => self.wild_whole = rng.bool(),
            6 => self.wild_gap = any(rng).unsigned_abs() >> 16,
            7 => self.wild_age = any(rng).unsigned_abs().max(1),
            8 => self.name = [any(rng) as u32 & 0xFF_FFFF, any(rng) as u32],
            _ => {
                let at = rng.usize(..self.lanes.len());
                self.lanes[at] = any(rng);
            }
        }
    }

    /// The size of the surprise in bytes, and of the packet that the pipeline would send.
    fn cost(&self, kind: &Kind, id: KindId, models: &mut Models) -> (f64, usize) {
        let mut out = Vec::new();
        let header = StateHeader { seq: 0, tick: Tick(0) };
        let mut writer = PacketWriter::new(&mut out, models, header);
        let (then, mut alias) = (vec![0; kind.lane_count()], 0);
        for _ in 0..self.calm {
            if writer.len() + 2 * kind.max_record_bytes() > MAX_PACKET {
                break;
            }
            alias += self.gap;
            let mut now = ahead(kind, &then, &self.motion, self.age);
            let record = Written { alias, age: self.age, whole: self.whole, then: &then };
            self.write(&mut writer, kind, id, record, &mut now);
            alias += 1;
        }
        alias = (alias + self.wild_gap).min(65_535);
        let mut now = self.surprise(kind, &then);
        let before = writer.bits();
        let record = Written { alias, age: self.wild_age, whole: self.wild_whole, then: &then };
        self.write(&mut writer, kind, id, record, &mut now);
        let bytes = f64::from(writer.bits() + 1 - before) / 8.0;
        writer.finish();
        (bytes, out.len())
    }

    fn write(
        &self,
        writer: &mut PacketWriter<Encoder<'_>>,
        kind: &Kind,
        id: KindId,
        record: Written<'_>,
        now: &mut [i32],
    ) {
        let Written { alias, age, whole, then } = record;
        let alias = Alias(alias as u16);
        if whole {
            let [origin, serial] = self.name;
            writer.full(alias, ObjectId::new(id, origin, serial), kind, now);
        } else {
            writer.update(alias, kind, &Baseline { lanes: then, motion: self.motion, age }, now);
        }
    }

    fn surprise(&self, kind: &Kind, then: &[i32]) -> Vec<i32> {
        let mut now = ahead(kind, then, &self.motion, self.wild_age);
        for (lane, class) in kind.lanes.iter().enumerate() {
            let wild = self.lanes[lane];
            now[lane] = match *class {
                LaneClass::Symbol { count } => wild.rem_euclid(count as i32),
                LaneClass::Turn { steps } => wild.rem_euclid(steps as i32),
                LaneClass::Step | LaneClass::Word => now[lane].wrapping_add(wild),
            };
        }
        clamp(kind, &mut now);
        now
    }
}

/// The predicted state after a motion.
fn ahead(kind: &Kind, then: &[i32], motion: &Motion, age: u32) -> Vec<i32> {
    let mut now = then.to_vec();
    if let Some(place) = &kind.place {
        let at = predict::place(place, then, motion, age);
        now[place.at..place.at + place.dims].copy_from_slice(&at[..place.dims]);
    }
    clamp(kind, &mut now);
    now
}

fn clamp(kind: &Kind, lanes: &mut [i32]) {
    if let Some(place) = &kind.place {
        let extent = place.extent_steps;
        let at = lanes[place.at..place.at + place.dims].iter_mut();
        at.for_each(|lane| *lane = (*lane).clamp(-extent, extent));
    }
}

#[test]
fn no_record_is_longer_than_its_kind_allows() {
    let (schema, mut models) = (kinds(), Models::trained());
    for (at, kind) in schema.kinds().iter().enumerate() {
        let (id, name) = (KindId(at as u8), &kind.spec.name);
        let allowed = kind.max_record_bytes();
        for seed in 0..2 {
            let mut rng = Rng::with_seed(seed);
            let mut best = Attempt::new(kind, &mut rng);
            let mut most = 0.0;
            for _ in 0..2_000 {
                let mut attempt = best.clone();
                (0..rng.u32(1..4)).for_each(|_| attempt.vary(kind, &mut rng));
                let (bytes, packet) = attempt.cost(kind, id, &mut models);
                assert!(packet <= MAX_PACKET, "{name}: {packet} bytes by {attempt:?}");
                if bytes >= most {
                    (best, most) = (attempt, bytes);
                }
            }
            assert!(most <= allowed as f64, "{name}: {most:.1} of {allowed} bytes by {best:?}");
        }
    }
}
