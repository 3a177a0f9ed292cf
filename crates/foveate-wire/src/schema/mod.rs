//! Kinds of objects and their fields: one table that drives writing, reading, floors and
//! comparison.
//!
//! Every field of every kind becomes a fixed number of integer **lanes**, so that a state is a flat
//! `[i32]`: history rings, deltas and change detection need no types. Lanes 0 and 1 of every object
//! are its owner and epoch, so a change of owner is an ordinary change of state: delivered,
//! acknowledged and repeated after loss like any other.

mod check;
mod compare;
mod disclosure;
mod list;

pub use check::SchemaError;
pub use compare::SchemaMismatch;
pub use disclosure::{Access, Disclosure, LimitedLane};
pub use list::KindList;

use crate::{KindId, Replicate};
use std::ops::Range;
use std::sync::Arc;

/// The lane that holds the owner.
pub const LANE_OWNER: usize = 0;
/// The lane that holds the epoch.
pub const LANE_EPOCH: usize = 1;
/// Lanes of every kind that precede its fields.
pub const HIDDEN_LANES: usize = 2;

/// How a value is stored in lanes.
#[derive(Clone, PartialEq, Debug)]
pub enum FieldType {
    /// A point of two or three dimensions, in steps of `precision`, within ±`extent`.
    Place {
        /// 2 or 3.
        dims: u8,
        /// The length of one step.
        precision: f32,
        /// The largest coordinate; values beyond it are clamped.
        extent: f32,
        /// Whether replicas continue their motion between updates.
        motion: bool,
    },
    /// An angle in radians, as one of `steps` parts of a turn.
    Angle {
        /// Parts of a whole turn.
        steps: u32,
    },
    /// A real number in steps of `precision` within `min..=max`.
    Number {
        /// The size of one step.
        precision: f32,
        /// The least value; values below it are clamped.
        min: f32,
        /// The largest value; values above it are clamped.
        max: f32,
    },
    /// A whole number within `min..=max`.
    Integer { min: i32, max: i32 },
    /// One of `count` values without an order: booleans, enums.
    Symbol { count: u32 },
    /// A unit quaternion: the index of its largest part, and the three others in `bits` each.
    Quaternion {
        /// Bits of each of the three smaller parts, 4 to 15.
        bits: u8,
    },
    /// At most `max` bytes.
    Bytes {
        /// The longest value, in bytes.
        max: u16,
    },
    /// UTF-8 of at most `max` bytes.
    Text {
        /// The longest value, in bytes.
        max: u16,
    },
    /// A value that may be missing.
    Optional(Box<FieldType>),
    /// At most `max` values.
    List { item: Box<FieldType>, max: u16 },
}

impl FieldType {
    /// How many lanes a value has.
    pub fn lanes(&self) -> usize {
        match self {
            FieldType::Place { dims, .. } => usize::from(*dims),
            FieldType::Angle { .. }
            | FieldType::Number { .. }
            | FieldType::Integer { .. }
            | FieldType::Symbol { .. } => 1,
            FieldType::Quaternion { .. } => 4,
            FieldType::Bytes { max } | FieldType::Text { max } => 1 + usize::from(*max).div_ceil(4),
            FieldType::Optional(inner) => 1 + inner.lanes(),
            FieldType::List { item, max } => 1 + usize::from(*max) * item.lanes(),
        }
    }

    fn push_lanes(&self, out: &mut Vec<LaneClass>) {
        match self {
            FieldType::Place { .. } | FieldType::Number { .. } | FieldType::Integer { .. } => {
                out.extend(std::iter::repeat_n(LaneClass::Step, self.lanes()));
            }
            FieldType::Angle { steps } => out.push(LaneClass::Turn { steps: *steps }),
            FieldType::Symbol { count } => out.push(LaneClass::Symbol { count: *count }),
            FieldType::Quaternion { .. } => {
                out.push(LaneClass::Symbol { count: 4 });
                out.extend([LaneClass::Step; 3]);
            }
            FieldType::Bytes { max } | FieldType::Text { max } => {
                out.push(LaneClass::Step);
                out.extend(std::iter::repeat_n(LaneClass::Word, usize::from(*max).div_ceil(4)));
            }
            FieldType::Optional(inner) => {
                out.push(LaneClass::Symbol { count: 2 });
                inner.push_lanes(out);
            }
            FieldType::List { item, max } => {
                out.push(LaneClass::Step);
                (0..*max).for_each(|_| item.push_lanes(out));
            }
        }
    }
}

/// How one lane is coded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaneClass {
    /// A number: the difference from the baseline is probably small.
    Step,
    /// An angle modulo `steps`: the shorter way round is probably short.
    Turn {
        /// Parts of a whole turn.
        steps: u32,
    },
    /// One of `count` symbols: differences mean nothing.
    Symbol { count: u32 },
    /// Four bytes of text or data.
    Word,
}

/// The meaning of a field for interest management.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    /// None.
    #[default]
    Plain,
    /// The object's place. At most one.
    Place,
    /// The object's direction about the vertical axis, counter-clockwise from +x. At most one.
    Yaw,
    /// The object's direction above the horizon. At most one.
    Pitch,
}

/// One field of a kind.
#[derive(Clone, PartialEq, Debug)]
pub struct FieldSpec {
    /// For errors and tools.
    pub name: String,
    /// How it is stored in lanes.
    pub ty: FieldType,
    pub role: Role,
    /// Deviations up to this are not sent: radians for angles, the field's unit for numbers. Zero:
    /// every change is sent. The floor of a place comes from the view.
    pub floor: f32,
    /// Sent only to observers with the object as a pivot; for others all its lanes are zero.
    pub own: bool,
    /// What observers other than the object's own player and its team are sent.
    pub to_rivals: Disclosure,
}

impl FieldSpec {
    /// A field without a role or floor.
    pub fn new(name: &str, ty: FieldType) -> FieldSpec {
        let (role, to_rivals) = (Role::Plain, Disclosure::Exact);
        FieldSpec { name: name.into(), ty, role, floor: 0.0, own: false, to_rivals }
    }

    /// The field with a role.
    pub fn role(mut self, role: Role) -> FieldSpec {
        self.role = role;
        self
    }

    /// The field, sent only to observers with the object as a pivot if `own`.
    pub fn own(mut self, own: bool) -> FieldSpec {
        self.own = own;
        self
    }

    /// The field, of which observers of other teams are sent less.
    pub fn to_rivals(mut self, to_rivals: Disclosure) -> FieldSpec {
        self.to_rivals = to_rivals;
        self
    }

    /// The field with a floor.
    pub fn floor(mut self, floor: f32) -> FieldSpec {
        self.floor = floor;
        self
    }
}

/// A kind of object, as its author specifies it.
#[derive(Clone, PartialEq, Debug)]
pub struct KindSpec {
    /// For errors and tools.
    pub name: String,
    /// The fields, in the order of the struct.
    pub fields: Vec<FieldSpec>,
    /// The highest speed of an object, in units per second. A faster move is a jump.
    pub max_speed: f32,
    /// How objects fall, in steps of their place per tick²: a hint to the coder. Zero: not at all,
    /// or not known.
    pub fall: i32,
}

/// A lane whose deviation is measured against a floor.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FlooredLane {
    pub lane: usize,
    /// Parts of a turn, or zero for a plain number.
    pub modulus: u32,
    /// The largest deviation in steps that is not a difference.
    pub floor_steps: u32,
    /// Whether it is a facing, whose floor is smaller inside the innermost zone.
    pub facing: bool,
}

/// The place lanes of a kind.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PlaceLanes {
    /// First lane.
    pub at: usize,
    /// 2 or 3.
    pub dims: usize,
    /// Whether replicas continue their motion between updates.
    pub motion: bool,
    /// The length of one step.
    pub precision: f32,
    /// Coordinates are within ± this many steps.
    pub extent_steps: i32,
    /// Bits for a coordinate.
    pub bits: u32,
    /// Free fall in steps per tick²; zero for none.
    pub fall: i32,
}

impl PlaceLanes {
    /// The coordinates; a missing third is zero.
    #[inline]
    pub fn coordinates(&self, lanes: &[i32]) -> [i32; 3] {
        let at = &lanes[self.at..self.at + self.dims];
        [at[0], at[1], if self.dims == 3 { at[2] } else { 0 }]
    }
}

/// A kind as the engine uses it: the specification, and where each part is in the lanes.
#[derive(Clone, PartialEq, Debug)]
pub struct Kind {
    pub spec: KindSpec,
    /// The class of every lane, including owner and epoch.
    pub lanes: Vec<LaneClass>,
    /// The lanes of each field of the specification.
    pub ranges: Vec<Range<usize>>,
    /// The lanes of the place, if there is one.
    pub place: Option<PlaceLanes>,
    /// The lane of the yaw and the parts of its turn.
    pub yaw: Option<(usize, u32)>,
    /// The lane of the pitch and the parts of its turn.
    pub pitch: Option<(usize, u32)>,
    /// Lanes with a floor, including the facing.
    pub floored: Vec<FlooredLane>,
    /// Whether any change of a lane is a difference, for each lane.
    pub strict: Vec<bool>,
    /// Lanes that are neither place nor facing.
    pub others: Vec<usize>,
    /// Those of the others that only the object's own player is sent.
    pub own: Vec<usize>,
    /// Those of the others that all observers are sent, some only in part.
    pub shared: Vec<usize>,
    /// Those of the shared that observers of other teams are sent only in part.
    pub limited: Vec<LimitedLane>,
    /// The turns of yaw and pitch.
    pub turns: [TurnSteps; 2],
}

/// The turn of a facing; zero if there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TurnSteps {
    /// Parts of the whole turn.
    pub whole: u32,
    /// The most parts of a deviation that is not a difference.
    pub floor: u32,
}

impl Kind {
    /// Yaw and pitch in a state; zero if missing.
    #[inline]
    pub fn facing(&self, lanes: &[i32]) -> [i32; 2] {
        [self.yaw, self.pitch].map(|facing| facing.map_or(0, |(lane, _)| lanes[lane]))
    }

    fn compile(spec: KindSpec) -> Kind {
        let mut kind = Kind {
            lanes: vec![LaneClass::Step; HIDDEN_LANES],
            ranges: Vec::new(),
            place: None,
            yaw: None,
            pitch: None,
            floored: Vec::new(),
            strict: vec![true; HIDDEN_LANES],
            others: (0..HIDDEN_LANES).collect(),
            own: Vec::new(),
            shared: (0..HIDDEN_LANES).collect(),
            limited: Vec::new(),
            turns: Default::default(),
            spec: KindSpec { fields: Vec::new(), ..spec },
        };
        spec.fields.into_iter().for_each(|field| kind.add(field));
        kind.turns = [kind.yaw, kind.pitch].map(|facing| {
            let Some((lane, whole)) = facing else { return TurnSteps::default() };
            let floored = kind.floored.iter().find(|floored| floored.lane == lane);
            TurnSteps { whole, floor: floored.map_or(0, |floored| floored.floor_steps) }
        });
        kind
    }

    fn add(&mut self, field: FieldSpec) {
        let at = self.lanes.len();
        field.ty.push_lanes(&mut self.lanes);
        self.ranges.push(at..self.lanes.len());
        self.strict.resize(self.lanes.len(), true);
        if field.role == Role::Plain {
            self.others.extend(at..self.lanes.len());
            let told = if field.own { &mut self.own } else { &mut self.shared };
            told.extend(at..self.lanes.len());
            self.limited.extend(LimitedLane::of(&field, at..self.lanes.len()));
        }
        match (field.role, &field.ty) {
            (Role::Place, FieldType::Place { dims, precision, extent, motion }) => {
                let place = place_lanes(at, *dims, *precision, *extent, *motion);
                self.place = Some(PlaceLanes { fall: self.spec.fall, ..place });
                self.strict[at..].fill(false);
            }
            (role, FieldType::Angle { steps }) => {
                match role {
                    Role::Yaw => self.yaw = Some((at, *steps)),
                    Role::Pitch => self.pitch = Some((at, *steps)),
                    Role::Plain | Role::Place => {}
                }
                let step = std::f32::consts::TAU / *steps as f32;
                self.add_floor(at, *steps, field.floor / step, role != Role::Plain);
            }
            (_, FieldType::Number { precision, .. }) => {
                self.add_floor(at, 0, field.floor / precision, false);
            }
            (_, FieldType::Integer { .. }) => self.add_floor(at, 0, field.floor, false),
            _ => {}
        }
        self.spec.fields.push(field);
    }

    fn add_floor(&mut self, lane: usize, modulus: u32, floor_steps: f32, facing: bool) {
        let floor_steps = floor_steps.round() as u32;
        if floor_steps > 0 {
            self.strict[lane] = false;
            self.floored.push(FlooredLane { lane, modulus, floor_steps, facing });
        }
    }

    /// The number of lanes of an object of this kind.
    pub fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// The most bytes of a record of this kind on the wire: five per lane, and its head. A head may
    /// have to surprise models that settled on another habit; the longest that a search for such
    /// records found leaves 20 bytes of this unused.
    pub fn max_record_bytes(&self) -> usize {
        self.lanes.len() * 5 + 48
    }
}

fn place_lanes(at: usize, dims: u8, precision: f32, extent: f32, motion: bool) -> PlaceLanes {
    // As exact as the quantisation of values: in single precision the edge of a world of more than
    // 2²⁴ steps may be too near, and values beyond it would be clamped.
    let extent_steps = (f64::from(extent) / f64::from(precision)).round() as i32;
    let bits = 33 - (extent_steps as u32).leading_zeros();
    PlaceLanes { at, dims: usize::from(dims), motion, precision, extent_steps, bits, fall: 0 }
}

/// All kinds that two ends of a link agree on.
///
/// ```
/// use foveate_wire::{FieldSpec, FieldType, KindSpec, Schema};
/// let door = KindSpec {
///     name: "door".into(),
///     fields: vec![FieldSpec::new("open", FieldType::Symbol { count: 2 })],
///     max_speed: 0.0,
///     fall: 0,
/// };
/// let schema = Schema::new(vec![door]).unwrap();
/// assert_eq!(schema.kinds().len(), 1);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Schema {
    kinds: Vec<Kind>,
    hash: u64,
}

impl Schema {
    /// The schema of one type, or of a tuple of types in their order; shared, as a game and its
    /// nodes need it.
    ///
    /// ```
    /// # mod foveate { pub use foveate_wire as wire; }
    /// use foveate_wire::{KindId, Replicate, Schema};
    ///
    /// #[derive(Replicate)]
    /// struct Walker { #[replicate(place)] pos: [f32; 2] }
    /// #[derive(Replicate)]
    /// struct Apple { #[replicate(place)] pos: [f32; 2], ripe: bool }
    ///
    /// let schema = Schema::of::<(Walker, Apple)>()?;
    /// assert_eq!(schema.id::<Apple>(), Some(KindId(1)));
    /// # Ok::<(), foveate_wire::SchemaError>(())
    /// ```
    pub fn of<T: KindList>() -> Result<Arc<Schema>, SchemaError> {
        Schema::new(T::specs()).map(Arc::new)
    }

    /// Checks the specifications and lays out the lanes. A kind's position is its [`KindId`].
    pub fn new(specs: Vec<KindSpec>) -> Result<Schema, SchemaError> {
        check::all(&specs)?;
        let kinds: Vec<Kind> = specs.into_iter().map(Kind::compile).collect();
        for kind in &kinds {
            check::size(kind)?;
        }
        let mut schema = Schema { kinds, hash: 0 };
        schema.hash = compare::hash(&schema.describe());
        Ok(schema)
    }

    /// The kind with this id.
    #[inline]
    pub fn kind(&self, id: KindId) -> Option<&Kind> {
        self.kinds.get(usize::from(id.0))
    }

    /// The id of the kind with this name.
    pub fn id_of(&self, name: &str) -> Option<KindId> {
        self.kinds.iter().position(|kind| kind.spec.name == name).map(|at| KindId(at as u8))
    }

    /// The id of a type's kind; `None` if it is not in the schema.
    pub fn id<T: Replicate>(&self) -> Option<KindId> {
        self.id_of(T::NAME)
    }

    /// All kinds, in the order of their ids.
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Equal for equal schemas, and different for others except for a chance of one in 2⁶⁴.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}
