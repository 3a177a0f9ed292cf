//! A node's copies of objects that others own.

use crate::game::Liveness;
use foveate_wire::{Kind, KindId, Metres, ObjectId, Position, Schema};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Replicas as rules read them: lanes by id. Servers, peers and region servers each update them in
/// their own way.
#[derive(Debug)]
pub struct RemoteObjects {
    schema: Arc<Schema>,
    by_id: BTreeMap<ObjectId, Vec<i32>>,
    /// Objects that are not live.
    stale: BTreeMap<ObjectId, Liveness>,
}

impl RemoteObjects {
    pub fn new(schema: Arc<Schema>) -> RemoteObjects {
        RemoteObjects { schema, by_id: BTreeMap::new(), stale: BTreeMap::new() }
    }

    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// An object's lanes.
    pub fn lanes(&self, id: ObjectId) -> Option<&[i32]> {
        self.by_id.get(&id).map(Vec::as_slice)
    }

    /// All objects, by id.
    pub fn iter(&self) -> impl Iterator<Item = (ObjectId, &[i32])> {
        self.by_id.iter().map(|(id, lanes)| (*id, lanes.as_slice()))
    }

    /// How up to date an object is.
    pub fn liveness(&self, id: ObjectId) -> Liveness {
        self.stale.get(&id).copied().unwrap_or(Liveness::Live)
    }

    /// Sets how up to date an object is; does nothing if there is none with this id.
    pub fn set_liveness(&mut self, id: ObjectId, liveness: Liveness) {
        match liveness {
            Liveness::Live => drop(self.stale.remove(&id)),
            stale if self.by_id.contains_key(&id) => drop(self.stale.insert(id, stale)),
            _ => {}
        }
    }

    /// Adds or replaces an object and makes it live. Returns false, and changes nothing, if the
    /// lane count is not that of its kind.
    pub fn put(&mut self, id: ObjectId, lanes: &[i32]) -> bool {
        let fits = self.schema.kind(id.kind()).is_some_and(|kind| kind.lane_count() == lanes.len());
        if fits {
            self.stale.remove(&id);
            let held = self.by_id.entry(id).or_default();
            held.clear();
            held.extend_from_slice(lanes);
        }
        fits
    }

    /// Moves an object by steps of its place.
    pub fn shift(&mut self, id: ObjectId, steps: [i32; 3]) {
        let place = self.schema.kind(id.kind()).and_then(|kind| kind.place);
        if let (Some(place), Some(lanes)) = (place, self.by_id.get_mut(&id)) {
            lanes[place.at..place.at + place.dims].copy_from_slice(&steps[..place.dims]);
        }
    }

    /// Removes an object that is gone, or that this node owns from now on.
    pub fn remove(&mut self, id: ObjectId) -> Option<Vec<i32>> {
        self.stale.remove(&id);
        self.by_id.remove(&id)
    }

    /// Where an object is; `None` for kinds without a place.
    pub fn place(&self, id: ObjectId) -> Option<Position> {
        place_of(&self.schema, id.kind(), self.lanes(id)?)
    }

    /// Calls `found` with the objects within a radius.
    pub fn around(&self, at: Position, radius: Metres, mut found: impl FnMut(ObjectId)) {
        for (id, lanes) in &self.by_id {
            let place = place_of(&self.schema, id.kind(), lanes);
            if place.is_some_and(|there| there.distance(at) <= radius) {
                found(*id);
            }
        }
    }

    /// All objects of a kind, by id.
    pub fn of_kind(&self, kind: KindId) -> impl Iterator<Item = ObjectId> + '_ {
        let (first, last) = (ObjectId::new(kind, 0, 0), ObjectId::new(kind, u32::MAX, u32::MAX));
        self.by_id.range(first..=last).map(|(id, _)| *id)
    }
}

/// Where lanes place an object; `None` for kinds without a place.
pub(crate) fn place_of(schema: &Schema, kind: KindId, lanes: &[i32]) -> Option<Position> {
    position_of(schema.kind(kind)?, lanes)
}

/// The same for lanes of a known kind.
pub(crate) fn position_of(kind: &Kind, lanes: &[i32]) -> Option<Position> {
    let place = kind.place?;
    let mut at = [0.0; 3];
    for axis in 0..place.dims {
        at[axis] = lanes[place.at + axis] as f32 * place.precision;
    }
    Some(Position(at))
}
