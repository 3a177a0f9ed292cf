//! The steps of a tick: one after the other, or in parts on several threads.
//!
//! A rule reads the end of the last tick and writes its own object, so no step depends on another
//! one of the same tick. Effects are merged in the order of the objects' ids.

use super::{Simulation, Whole};
use crate::game::{Effects, Game, StepContext, World};
use foveate_sync::Slot;
use foveate_wire::{ObjectId, Tick};
use std::collections::BTreeMap;

/// The fewest steps that are worth a thread.
const MIN_PART: usize = 64;

/// The results of the steps of one part.
pub(super) struct StepPart<G: Game> {
    effects: Effects<G>,
    /// The lanes of the part's objects, one after the other.
    lanes: Vec<i32>,
    removed: Vec<ObjectId>,
}

impl<G: Game> Default for StepPart<G> {
    fn default() -> StepPart<G> {
        StepPart { effects: Effects::default(), lanes: Vec::new(), removed: Vec::new() }
    }
}

impl<G: Game> Simulation<G> {
    /// Runs the steps of all these objects. A removed object stays visible to the others until all
    /// have stepped.
    pub(super) fn step_each(
        &mut self,
        tick: Tick,
        turns: &mut [(ObjectId, Slot)],
        inputs: &BTreeMap<ObjectId, Vec<G::Input>>,
    ) {
        let removed_before = self.removed.len();
        let threads = self.publisher.threads();
        let each = turns.len().div_ceil(threads.parts()).max(MIN_PART);
        if threads.count() == 1 || turns.len() <= each {
            for (id, slot) in turns {
                let removed = self.turn(tick, *id, *slot, 0, |game, turn| {
                    game.step(turn, given(inputs, turn.id()));
                });
                self.removed.extend(removed.then_some(*id));
            }
        } else {
            self.step_parts(tick, turns, each, inputs);
        }
        for at in removed_before..self.removed.len() {
            self.remove_stepped(self.removed[at]);
        }
    }

    /// Removes an object whose rule asked for it.
    pub(super) fn remove_stepped(&mut self, id: ObjectId) {
        let store = &mut self.publisher.store;
        let gone = store.find(id).map(|slot| store.remove(slot));
        debug_assert!(matches!(gone, Some(Ok(()))), "{id:?} stepped, so it exists");
    }

    fn step_parts(
        &mut self,
        tick: Tick,
        turns: &mut [(ObjectId, Slot)],
        each: usize,
        inputs: &BTreeMap<ObjectId, Vec<G::Input>>,
    ) {
        let mut parts = std::mem::take(&mut self.parts);
        let count = turns.len().div_ceil(each).max(parts.len());
        parts.resize_with(count, StepPart::default);
        let Simulation { game, publisher, ghosts, seed, .. } = &*self;
        let store = &publisher.store;
        publisher.threads().split(turns, each, &mut parts, &|_, turns, part| {
            let whole = Whole { publisher, ghosts };
            for (id, slot) in turns {
                let (kind, start) = (store.kind(*slot), part.lanes.len());
                part.lanes.extend_from_slice(store.lanes(*slot));
                let (lanes, world) = (&mut part.lanes[start..], World::new(&whole, tick));
                let turn = StepContext::new(*id, kind, lanes, world, &mut part.effects);
                let mut turn = turn.with_seed(*seed, 0);
                game.step(&mut turn, given(inputs, *id));
                let removed = turn.is_removed();
                part.removed.extend(removed.then_some(*id));
            }
        });
        for (part, turns) in parts.iter_mut().zip(turns.chunks(each)) {
            let mut start = 0;
            for (_, slot) in turns {
                let end = start + self.publisher.store.kind(*slot).lane_count();
                let written = self.publisher.store.set_lanes(*slot, &part.lanes[start..end]);
                debug_assert!(written.is_ok(), "the object was found alive");
                start = end;
            }
            part.lanes.clear();
            self.removed.append(&mut part.removed);
            self.effects.append(&mut part.effects);
        }
        self.parts = parts;
    }
}

fn given<G: Copy>(inputs: &BTreeMap<ObjectId, Vec<G>>, id: ObjectId) -> &[G] {
    inputs.get(&id).map_or(&[], Vec::as_slice)
}
