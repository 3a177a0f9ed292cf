//! The owner's objects: structure of arrays, one history ring per object.
//!
//! A value is quantised once, in [`Store::set`]; from then on there are only lanes.
//! [`Store::commit`] ends a round: it pushes the states that changed into the rings. One ring
//! serves all observers: precision is fixed per field, so a replica *is* the owner's state at a
//! certain push, and a pair stores the numbers of pushes, not copies.

use foveate_wire::schema::{LANE_EPOCH, LANE_OWNER};
use foveate_wire::{
    Epoch, Kind, KindId, Metres, ObjectId, OwnerId, PlaceLanes, Position, Replicate, Schema, Tick,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use thiserror::Error;

/// States in a ring: 6.4 s of steady movement at 20 rounds a second. A still object keeps its last
/// states for good, because only changes are pushed. With a small budget pairs wait for seconds,
/// and a pair whose baseline has left the ring is sent a whole state.
pub const HISTORY: u32 = 128;
/// The most objects in one store.
pub const MAX_OBJECTS: usize = 1 << 20;

/// An object's row in the store, valid until the object is removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Slot(pub u32);

impl Slot {
    #[inline]
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

/// Why the store refused a change. Nothing was changed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum StoreError {
    /// The type is not in the schema.
    #[error("kind '{0}' is not in the schema")]
    UnknownKind(String),
    /// The value's type is not the object's.
    #[error("object {0:?} is not of kind '{1}'")]
    WrongKind(ObjectId, String),
    /// The object exists already.
    #[error("object {0:?} exists already")]
    Exists(ObjectId),
    /// There is no such object, or no longer.
    #[error("there is no object at {0:?}")]
    Missing(Slot),
    /// The store is full.
    #[error("the store is full: it holds at most {MAX_OBJECTS} objects")]
    Full,
}

/// The part of an object that the pair loop reads: one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct ObjectState {
    pub id: ObjectId,
    pub pos: Position,
    /// Place in steps.
    pub place: [i32; 3],
    /// States pushed so far; the newest is `head − 1`.
    pub head: u32,
    /// The newest push that changed a lane which is neither place nor facing, and is public.
    pub others: u32,
    /// Yaw and pitch, in steps of their turns.
    pub facing: [i32; 2],
    /// The start of its ring.
    pub ring: u32,
    /// The farthest that it moves in a round.
    pub reach: Metres,
    pub kind: KindId,
    /// Whether objects of its kind have a place.
    pub placed: bool,
    pub team: u8,
    pub alive: bool,
    /// Whether in this round it was created, changed its team, or moved faster than its kind
    /// allows.
    pub jumped: bool,
}

/// An object that was created, changed its team, or moved faster than its kind allows in this
/// round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Jump {
    pub slot: Slot,
    /// Its place before.
    pub from: Position,
}

/// The objects that one node owns or relays.
#[derive(Clone, Debug)]
pub struct Store {
    schema: Arc<Schema>,
    rounds_per_second: f32,
    tick: Tick,
    pub(crate) hot: Vec<ObjectState>,
    /// The start of each object's working lanes in `current`.
    lanes_at: Vec<u32>,
    /// The start of each object's change ticks in `changed`.
    fields_at: Vec<u32>,
    /// The number of each object's first push: earlier ones belong to a former object in the same
    /// row.
    first_push: Vec<u32>,
    /// Counts the pairs that refer to each slot; a slot is only reused when there are none.
    pins: Pins,
    /// Whether the object was written since the last commit.
    written: Vec<bool>,
    current: Vec<i32>,
    /// The newest state of each ring, next to `current`, so that comparing the two reads no ring.
    /// Rings are far apart in memory.
    newest: Vec<i32>,
    ring: Vec<i32>,
    /// When each state of a ring was pushed, [`HISTORY`] for each row.
    pushed_at: Vec<Tick>,
    changed: Vec<Tick>,
    /// Rows to reuse, by kind, because all rows of a kind have the same size.
    free: Vec<Vec<Slot>>,
    by_id: BTreeMap<ObjectId, Slot>,
    pub(crate) jumped: Vec<Jump>,
    fastest: Metres,
}

impl Store {
    /// An empty store; `rounds_per_second` converts the kinds' speed limits to steps per round.
    pub fn new(schema: Arc<Schema>, rounds_per_second: f32) -> Store {
        let reaches = schema.kinds().iter().map(|kind| reach(kind, rounds_per_second));
        let fastest = reaches.fold(Metres::ZERO, Metres::max);
        Store {
            free: vec![Vec::new(); schema.kinds().len()],
            schema,
            rounds_per_second,
            tick: Tick(0),
            hot: Vec::new(),
            lanes_at: Vec::new(),
            fields_at: Vec::new(),
            first_push: Vec::new(),
            pins: Pins::default(),
            written: Vec::new(),
            current: Vec::new(),
            newest: Vec::new(),
            ring: Vec::new(),
            pushed_at: Vec::new(),
            changed: Vec::new(),
            by_id: BTreeMap::new(),
            jumped: Vec::new(),
            fastest,
        }
    }

    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The round of the last commit.
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// The most world units that an object of the fastest kind moves in a round.
    pub(crate) fn fastest(&self) -> Metres {
        self.fastest
    }

    /// The number of live objects.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The number of rows, live or not: the length of arrays indexed by slot.
    pub fn rows(&self) -> usize {
        self.hot.len()
    }

    /// Adds an object; observers receive it from the next round on.
    pub fn create<T: Replicate>(
        &mut self,
        id: ObjectId,
        owner: OwnerId,
        value: &T,
    ) -> Result<Slot, StoreError> {
        let kind = self.schema.kind(id.kind()).filter(|kind| kind.spec.name == T::NAME);
        let kind = kind.ok_or_else(|| StoreError::UnknownKind(T::NAME.into()))?;
        let mut lanes = vec![0; kind.lane_count()];
        value.put(kind, &mut lanes);
        self.create_lanes(id, owner, &lanes)
    }

    /// Adds an object with known lanes: one that was stored, or came from elsewhere.
    pub fn create_lanes(
        &mut self,
        id: ObjectId,
        owner: OwnerId,
        lanes: &[i32],
    ) -> Result<Slot, StoreError> {
        let (schema, kind_id) = (Arc::clone(&self.schema), id.kind());
        let kind = schema.kind(kind_id).filter(|kind| kind.lane_count() == lanes.len());
        let kind = kind.ok_or_else(|| StoreError::UnknownKind(format!("{kind_id:?}")))?;
        if self.by_id.contains_key(&id) {
            return Err(StoreError::Exists(id));
        }
        let slot = self.row(kind_id, kind)?;
        self.by_id.insert(id, slot);
        let current = self.lanes_mut(slot, kind);
        current.copy_from_slice(lanes);
        current[LANE_OWNER] = owner.0 as i32;
        self.written[slot.at()] = true;
        let reach = reach(kind, self.rounds_per_second);
        let hot = &mut self.hot[slot.at()];
        // `head` continues from the row's former object, so that no pair confuses their pushes.
        *hot = ObjectState { id, reach, kind: kind_id, alive: true, jumped: true, team: 0, ..*hot };
        hot.others = hot.head;
        self.first_push[slot.at()] = hot.head;
        self.jumped.push(Jump { slot, from: self.hot[slot.at()].pos });
        Ok(slot)
    }

    /// A row for an object of this kind: a free one, or a new one.
    fn row(&mut self, id: KindId, kind: &Kind) -> Result<Slot, StoreError> {
        let free = &mut self.free[usize::from(id.0)];
        if let Some(at) = free.iter().rposition(|slot| self.pins.are_none(*slot)) {
            return Ok(free.swap_remove(at));
        }
        if self.hot.len() >= MAX_OBJECTS {
            return Err(StoreError::Full);
        }
        let slot = Slot(self.hot.len() as u32);
        let (lanes, fields) = (kind.lane_count(), kind.spec.fields.len());
        self.hot.push(ObjectState {
            id: ObjectId::default(),
            pos: Position::default(),
            place: [0; 3],
            head: 0,
            others: 0,
            facing: [0; 2],
            ring: self.ring.len() as u32,
            reach: Metres::ZERO,
            kind: id,
            placed: kind.place.is_some(),
            team: 0,
            alive: false,
            jumped: false,
        });
        self.lanes_at.push(self.current.len() as u32);
        self.fields_at.push(self.changed.len() as u32);
        self.first_push.push(0);
        self.pins.0.push(AtomicU32::new(0));
        self.written.push(false);
        self.current.resize(self.current.len() + lanes, 0);
        self.newest.resize(self.current.len(), 0);
        self.ring.resize(self.ring.len() + lanes * HISTORY as usize, 0);
        self.pushed_at.resize(self.pushed_at.len() + HISTORY as usize, Tick(0));
        self.changed.resize(self.changed.len() + fields, Tick(0));
        Ok(slot)
    }

    /// Sets an object's value; it takes effect with the next [`commit`](Store::commit).
    pub fn set<T: Replicate>(&mut self, slot: Slot, value: &T) -> Result<(), StoreError> {
        self.alive(slot)?;
        let schema = Arc::clone(&self.schema);
        let kind = self.kind_in(&schema, slot);
        if kind.spec.name != T::NAME {
            return Err(StoreError::WrongKind(self.hot[slot.at()].id, T::NAME.into()));
        }
        value.put(kind, self.lanes_mut(slot, kind));
        self.written[slot.at()] = true;
        Ok(())
    }

    /// Sets an object's lanes, like [`set`](Store::set).
    pub fn set_lanes(&mut self, slot: Slot, lanes: &[i32]) -> Result<(), StoreError> {
        self.alive(slot)?;
        let schema = Arc::clone(&self.schema);
        let kind = self.kind_in(&schema, slot);
        if kind.lane_count() != lanes.len() {
            return Err(StoreError::WrongKind(self.hot[slot.at()].id, kind.spec.name.clone()));
        }
        self.lanes_mut(slot, kind).copy_from_slice(lanes);
        self.written[slot.at()] = true;
        Ok(())
    }

    /// Reads an object's value, as quantised.
    pub fn get<T: Replicate>(&self, slot: Slot) -> Result<T, StoreError> {
        self.alive(slot)?;
        let kind = self.kind(slot);
        if kind.spec.name != T::NAME {
            return Err(StoreError::WrongKind(self.hot[slot.at()].id, T::NAME.into()));
        }
        Ok(T::get(kind, self.lanes(slot)))
    }

    /// Gives an object to another owner; its epoch rises by one.
    pub fn give(&mut self, slot: Slot, owner: OwnerId) -> Result<Epoch, StoreError> {
        self.alive(slot)?;
        let at = self.lanes_at[slot.at()] as usize;
        self.current[at + LANE_OWNER] = owner.0 as i32;
        let epoch = self.current[at + LANE_EPOCH].wrapping_add(1);
        self.current[at + LANE_EPOCH] = epoch;
        self.written[slot.at()] = true;
        Ok(Epoch(epoch as u32))
    }

    /// Removes an object; observers that know it are notified.
    pub fn remove(&mut self, slot: Slot) -> Result<(), StoreError> {
        self.alive(slot)?;
        let hot = &mut self.hot[slot.at()];
        hot.alive = false;
        self.by_id.remove(&self.hot[slot.at()].id);
        self.written[slot.at()] = false;
        self.jumped.retain(|jump| jump.slot != slot);
        self.free[usize::from(self.hot[slot.at()].kind.0)].push(slot);
        Ok(())
    }

    /// The team of an object; zero for none.
    pub fn team(&self, slot: Slot) -> u8 {
        self.hot[slot.at()].team
    }

    /// Sets an object's team; policies may distinguish team mates. Zero for none.
    pub fn set_team(&mut self, slot: Slot, team: u8) -> Result<(), StoreError> {
        self.alive(slot)?;
        let hot = &mut self.hot[slot.at()];
        if hot.team != team && !hot.jumped {
            // Pairs of this object must be graded again.
            hot.jumped = true;
            self.jumped.push(Jump { slot, from: hot.pos });
        }
        hot.team = team;
        Ok(())
    }

    /// Ends the round: objects written since the last commit get their state of `tick`.
    pub fn commit(&mut self, tick: Tick) {
        self.tick = tick;
        let schema = Arc::clone(&self.schema);
        for row in 0..self.written.len() {
            if std::mem::take(&mut self.written[row]) {
                let slot = Slot(row as u32);
                self.commit_object(slot, self.kind_in(&schema, slot));
            }
        }
    }

    fn commit_object(&mut self, slot: Slot, kind: &Kind) {
        let (lanes_at, count) = (self.lanes_at[slot.at()] as usize, kind.lane_count());
        let hot = &mut self.hot[slot.at()];
        let current = &self.current[lanes_at..lanes_at + count];
        if let Some(place) = &kind.place {
            move_to(hot, place, current, &mut self.jumped, slot);
        }
        hot.facing = kind.facing(current);
        let old = &mut self.newest[lanes_at..lanes_at + count];
        let fresh = hot.others == hot.head;
        if !fresh && old == current {
            return;
        }
        let fields_at = self.fields_at[slot.at()] as usize;
        for (field, range) in kind.ranges.iter().enumerate() {
            if fresh || range.clone().any(|lane| old[lane] != current[lane]) {
                self.changed[fields_at + field] = self.tick;
            }
        }
        if kind.shared.iter().any(|lane| old[*lane] != current[*lane]) {
            hot.others = hot.head;
        }
        old.copy_from_slice(current);
        let new = hot.ring as usize + (hot.head % HISTORY) as usize * count;
        self.ring[new..new + count].copy_from_slice(current);
        let push = slot.at() * HISTORY as usize + (hot.head % HISTORY) as usize;
        self.pushed_at[push] = self.tick;
        hot.head = hot.head.wrapping_add(1);
    }

    /// Forgets the jumps of this round, which the pipeline has processed.
    pub(crate) fn settle(&mut self) {
        for jump in self.jumped.drain(..) {
            self.hot[jump.slot.at()].jumped = false;
        }
    }

    /// The row of a live object.
    pub fn find(&self, id: ObjectId) -> Option<Slot> {
        self.by_id.get(&id).copied()
    }

    /// All live objects, by id.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, Slot)> + '_ {
        self.by_id.iter().map(|(id, slot)| (*id, *slot))
    }

    /// The id of the object in a row.
    pub fn id(&self, slot: Slot) -> ObjectId {
        self.hot[slot.at()].id
    }

    /// The owner of an object, and its epoch.
    pub fn owner(&self, slot: Slot) -> (OwnerId, Epoch) {
        let lanes = self.lanes(slot);
        (OwnerId(lanes[LANE_OWNER] as u32), Epoch(lanes[LANE_EPOCH] as u32))
    }

    /// The place of an object, in world units; zeros for objects without a place.
    pub fn position(&self, slot: Slot) -> Position {
        self.hot[slot.at()].pos
    }

    /// The current lanes, committed or not.
    pub fn lanes(&self, slot: Slot) -> &[i32] {
        let at = self.lanes_at[slot.at()] as usize;
        &self.current[at..at + self.kind(slot).lane_count()]
    }

    /// The lanes at the last commit; `None` for an object that was created since.
    pub fn committed(&self, slot: Slot) -> Option<&[i32]> {
        self.committed_at(slot, self.tick)
    }

    /// The lanes at the end of a round; `None` if the history does not reach back to it.
    pub fn committed_at(&self, slot: Slot, tick: Tick) -> Option<&[i32]> {
        let hot = &self.hot[slot.at()];
        let lanes = self.kind(slot).lane_count();
        let first = self.first_push[slot.at()];
        let held = hot.head.wrapping_sub(first).min(HISTORY);
        (1..=held).map(|back| hot.head.wrapping_sub(back)).find_map(|push| {
            let at = slot.at() * HISTORY as usize + (push % HISTORY) as usize;
            (!self.pushed_at[at].is_after(tick)).then(|| self.pushed(hot, lanes, push))
        })
    }

    /// All live objects of a kind, by id.
    pub fn of_kind(&self, kind: KindId) -> impl Iterator<Item = ObjectId> + '_ {
        let (first, last) = (ObjectId::new(kind, 0, 0), ObjectId::new(kind, u32::MAX, u32::MAX));
        self.by_id.range(first..=last).map(|(id, _)| *id)
    }

    /// The kind of the object in a row.
    pub fn kind(&self, slot: Slot) -> &Kind {
        self.kind_in(&self.schema, slot)
    }

    fn kind_in<'a>(&self, schema: &'a Schema, slot: Slot) -> &'a Kind {
        // A row is only created for a kind of this schema.
        &schema.kinds()[usize::from(self.hot[slot.at()].kind.0)]
    }

    fn lanes_mut(&mut self, slot: Slot, kind: &Kind) -> &mut [i32] {
        let at = self.lanes_at[slot.at()] as usize;
        &mut self.current[at..at + kind.lane_count()]
    }

    /// The lanes at push number `push`, which must be one of the last [`HISTORY`].
    #[inline]
    pub(crate) fn pushed(&self, hot: &ObjectState, lanes: usize, push: u32) -> &[i32] {
        debug_assert!(hot.head.wrapping_sub(push).wrapping_sub(1) < HISTORY);
        let at = hot.ring as usize + (push % HISTORY) as usize * lanes;
        &self.ring[at..at + lanes]
    }

    /// The number of the first push of a row's current object.
    pub(crate) fn first_push(&self, slot: Slot) -> u32 {
        self.first_push[slot.at()]
    }

    pub(crate) fn pin(&self, slot: Slot) {
        self.pins.0[slot.at()].fetch_add(1, Ordering::Relaxed);
    }

    /// Removes all pins.
    pub(crate) fn unpin_all(&mut self) {
        self.pins.0.iter_mut().for_each(|pins| *pins.get_mut() = 0);
    }

    pub(crate) fn unpin(&self, slot: Slot) {
        let before = self.pins.0[slot.at()].fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "{slot:?} was not pinned");
    }

    fn alive(&self, slot: Slot) -> Result<(), StoreError> {
        match self.hot.get(slot.at()) {
            Some(hot) if hot.alive => Ok(()),
            _ => Err(StoreError::Missing(slot)),
        }
    }
}

/// Counts the pairs of each row. Parts on several threads add and subtract; the counts are only
/// read after all parts have ended, so no memory order is needed.
#[derive(Debug, Default)]
struct Pins(Vec<AtomicU32>);

impl Pins {
    fn are_none(&self, slot: Slot) -> bool {
        self.0[slot.at()].load(Ordering::Relaxed) == 0
    }
}

impl Clone for Pins {
    fn clone(&self) -> Pins {
        let copy = |pins: &AtomicU32| AtomicU32::new(pins.load(Ordering::Relaxed));
        Pins(self.0.iter().map(copy).collect())
    }
}

/// Stores the new place, and detects jumps.
fn move_to(
    hot: &mut ObjectState,
    place: &PlaceLanes,
    lanes: &[i32],
    jumped: &mut Vec<Jump>,
    slot: Slot,
) {
    let (mut delta, from) = ([0i32; 3], hot.pos);
    for axis in 0..place.dims {
        let now = lanes[place.at + axis];
        delta[axis] = now.wrapping_sub(hot.place[axis]);
        hot.place[axis] = now;
        hot.pos.0[axis] = now as f32 * place.precision;
    }
    let square: f32 = delta.iter().map(|d| (*d as f32 * place.precision).powi(2)).sum();
    if square > hot.reach.0 * hot.reach.0 && !hot.jumped {
        hot.jumped = true;
        jumped.push(Jump { slot, from });
    }
}

/// The farthest that an object of this kind moves in a round. Quantisation may add a step
/// at each end of an honest move.
fn reach(kind: &Kind, rounds_per_second: f32) -> Metres {
    let step = kind.place.map_or(0.0, |place| place.precision);
    Metres(kind.spec.max_speed / rounds_per_second + 2.0 * step)
}
