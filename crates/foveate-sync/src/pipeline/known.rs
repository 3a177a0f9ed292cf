//! What observers have, for looking on from outside: an observatory, a test. Rounds do not need it.

use super::Publisher;
use crate::interest::Pivot;
use crate::schedule::{Notice, Observer, ObserverId};
use crate::store::Slot;
use foveate_wire::{Metres, ObjectId, Position, Radians, steps_to_angle};

/// What is known of a replica's fate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// The observer has it, and is told of changes.
    Live,
    /// Out of interest: the observer has it, but is not told of changes.
    Resting,
    /// It was sent, and nothing says yet that it arrived.
    Unconfirmed,
}

/// An observer's replica of an object, as far as its acknowledgements tell, predicted to the last
/// round.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Known {
    /// The object.
    pub id: ObjectId,
    /// Its place in the store.
    pub slot: Slot,
    /// Where the observer believes it to be.
    pub at: Position,
    /// Where the observer believes it to face.
    pub yaw: Radians,
    /// How far that is from its true place.
    pub error: Metres,
    /// From the observer's nearest pivot to its true place.
    pub distance: Metres,
    /// Rounds since the state that the replica rests on.
    pub age: u32,
    /// The class of its grade in the last round; out of interest, of its last grade.
    pub class: u8,
    /// What is known of its fate.
    pub held: Held,
}

impl Known {
    /// The error as an angle, seen from the nearest pivot.
    pub fn degrees(&self) -> f32 {
        self.error.0.atan2(self.distance.0.max(1e-9)).to_degrees()
    }
}

impl Publisher {
    /// What an observer has been told of, object by object.
    pub fn known(&self, id: ObserverId) -> impl Iterator<Item = Known> + '_ {
        let observer = self.observer(id).into_iter();
        let pairs =
            observer.flat_map(|observer| (0..observer.pairs.len()).map(move |at| (observer, at)));
        let known = pairs.filter_map(move |(observer, at)| self.known_of(observer, at));
        known.map(move |known| {
            // A pair that rests was graded when it was last looked at; its observer may have turned since.
            let class = self.grade_of(id, known.slot).map_or(known.class, |(grade, _)| grade.class);
            Known { class, ..known }
        })
    }

    /// Where an observer last heard an object to face, in steps of its yaw and pitch; `None` if it was not
    /// told of the object.
    pub fn told_facing(&self, id: ObserverId, slot: Slot) -> Option<[i32; 2]> {
        let mut looks = self.observer(id)?.looks();
        looks.find(|(of, _)| *of == slot)?.1.reference.map(|state| state.facing)
    }

    /// Where an observer looked from in the last round.
    pub fn pivots(&self, id: ObserverId) -> &[Pivot] {
        self.observer(id).map_or(&[], |observer| &observer.pivots)
    }

    fn known_of(&self, observer: &Observer, pair: usize) -> Option<Known> {
        observer.alias(pair)?;
        let (gate, wake) = (&observer.pair_states[pair], &observer.next_checks[pair]);
        let (slot, class) = (wake.slot, wake.class() as u8);
        let pair = &observer.pairs[pair];
        let hot = self.store.hot.get(slot.at()).filter(|hot| hot.alive)?;
        let held = match (pair.base, pair.notice) {
            (None, _) => Held::Unconfirmed,
            (_, Notice::None) => Held::Live,
            _ => Held::Resting,
        };
        let state = pair.base.or(gate.reference)?;
        let kind = self.store.kind(slot);
        let age = self.store.tick().since(state.tick);
        let (mut at, mut error) = (Position::default(), Metres::ZERO);
        if let Some(place) = &kind.place {
            let way = if place.motion { state.motion.way(age) } else { [0; 3] };
            let steps = [0, 1, 2].map(|axis| state.at[axis].wrapping_add(way[axis]));
            at = Position(steps.map(|steps| steps as f32 * place.precision));
            error = at.distance(hot.pos);
        }
        let pivots = observer.pivots.iter().map(|pivot| pivot.at.distance(hot.pos));
        Some(Known {
            id: hot.id,
            slot,
            at,
            yaw: Radians(kind.yaw.map_or(0.0, |(_, steps)| steps_to_angle(state.facing[0], steps))),
            error,
            distance: pivots.fold(Metres::UNBOUNDED, Metres::min),
            age,
            class,
            held,
        })
    }
}
