//! An observer that moves: what it knows, taken out of one publisher, for another one to go on with.
//!
//! The two publishers have the same objects, but not the same histories. So a state that the observer has is named by
//! what does not depend on a history: its tick, place, facing and motion, and a hash of all other lanes. The other
//! publisher looks for a state with that hash in its own history. If it has none the object is told whole.

use super::Publisher;
use crate::schedule::{Mode, NextCheck, Notice, Observer, ObserverId, Pair, PairState, Reference};
use crate::store::{HISTORY, Slot, Store};
use foveate_wire::{Access, Alias, Kind, Motion, ObjectId, OwnerId, Tick};
use serde::{Deserialize, Serialize};

/// A state that an observer has, by what it is to any publisher.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CarriedState {
    /// The tick of the packet that brought it.
    pub tick: u32,
    /// Its place in steps.
    pub at: [i32; 3],
    /// Its facing in steps.
    pub facing: [i32; 2],
    /// The way on which its motion rests, in steps.
    pub moved: [i32; 3],
    /// The ticks that this way took.
    pub ticks: u32,
    /// The number of the send.
    pub number: u8,
    /// Whether it has the lanes that only the object's own player is told.
    pub own: bool,
    /// Whether it has the lanes that only the object's team is told.
    pub mate: bool,
    /// A hash of all other lanes.
    pub others: u64,
}

impl CarriedState {
    fn access(&self) -> Access {
        match (self.own, self.mate) {
            (true, _) => Access::Own,
            (false, true) => Access::Mate,
            (false, false) => Access::Rival,
        }
    }
}

/// What an observer has to be told of an object beside states.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CarriedNotice {
    /// Nothing.
    None,
    /// It is out of interest since a tick, and the observer was not told.
    Lingering(u32),
    /// To be told that its replica is frozen.
    Freeze,
    /// Its replica is frozen, since a tick.
    Frozen(u32),
    /// To be told that its replica is gone.
    Gone,
}

/// What an observer knows of one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CarriedPair {
    /// What the observer calls the object.
    pub alias: u16,
    /// The object.
    pub object: u64,
    /// The newest state that it acknowledged.
    pub state: Option<CarriedState>,
    /// Something newer was sent, and is not acknowledged.
    pub unsettled: bool,
    /// How often it was sent a state, modulo 256.
    pub sends: u8,
    /// What it has to be told beside.
    pub notice: CarriedNotice,
}

/// What an observer knows.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CarriedObserver {
    /// The number of the next packet.
    pub next_packet: u16,
    /// Its team.
    pub team: u8,
    /// What it knows of each object. Aliases that none of them has are free.
    pub pairs: Vec<CarriedPair>,
}

/// What became of live replicas when their observer moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CarriedCounts {
    /// They go on.
    pub kept: usize,
    /// Their objects have to be told whole.
    pub whole: usize,
    /// Their objects are not known here.
    pub unknown: usize,
}

impl Publisher {
    /// What an observer knows, to be taken to another publisher.
    pub fn carry_out(&mut self, id: ObserverId) -> Option<CarriedObserver> {
        let tick = self.store.tick();
        self.observer_mut(id)?.settle_acks(tick);
        let observer = self.observer(id)?;
        let mut carried = CarriedObserver {
            next_packet: observer.link.next_seq(),
            team: observer.team,
            pairs: Vec::new(),
        };
        for at in 0..observer.pairs.len() {
            let (Some(alias), pair) = (observer.alias(at), &observer.pairs[at]) else { continue };
            let slot = observer.next_checks[at].slot;
            let notice = match pair.notice {
                Notice::None => CarriedNotice::None,
                Notice::Lingering(since) => CarriedNotice::Lingering(since.0),
                Notice::FreezeDue | Notice::FreezeSent(_) => CarriedNotice::Freeze,
                Notice::Frozen(since) => CarriedNotice::Frozen(since.0),
                Notice::GoneDue | Notice::GoneSent(_) => CarriedNotice::Gone,
                // It knows, and the alias is free.
                Notice::Closed => continue,
            };
            carried.pairs.push(CarriedPair {
                alias: alias.0,
                object: self.store.id(slot).0,
                state: pair.base.and_then(|base| carried_state(&self.store, slot, &base)),
                unsettled: observer.pair_states[at].reference != pair.base || pair.forced,
                sends: pair.sends,
                notice,
            });
        }
        Some(carried)
    }

    /// Adds an observer that knows what it knew at another publisher.
    pub fn carry_in(
        &mut self,
        mut observer: Observer,
        carried: &CarriedObserver,
    ) -> (ObserverId, CarriedCounts) {
        let tick = self.store.tick();
        observer.link.count_from(carried.next_packet);
        observer.team = carried.team;
        let mut counts = CarriedCounts::default();
        for it in &carried.pairs {
            let id = ObjectId(it.object);
            let known = self.store.find(id);
            let Some(slot) = known.or_else(|| dead_slot(&mut self.store, id)) else { continue };
            // What was to be gone there is here: it may be another one by the same id, and is told whole.
            let gone = it.notice == CarriedNotice::Gone;
            let state = it.state.filter(|_| !gone);
            let base = state.and_then(|state| reference(&self.store, known?, &state));
            let live = matches!(it.notice, CarriedNotice::None | CarriedNotice::Lingering(_));
            match (known, base) {
                _ if !live => {}
                (None, _) => counts.unknown += 1,
                (Some(_), Some(_)) => counts.kept += 1,
                (Some(_), None) => counts.whole += 1,
            }
            let notice = match it.notice {
                _ if known.is_none() => Notice::GoneDue,
                CarriedNotice::None | CarriedNotice::Gone => Notice::None,
                CarriedNotice::Lingering(since) => Notice::Lingering(Tick(since)),
                CarriedNotice::Freeze => Notice::FreezeDue,
                CarriedNotice::Frozen(since) => Notice::Frozen(Tick(since)),
            };
            self.store.pin(slot);
            let (alias, forced) = (Alias(it.alias), it.unsettled || base.is_none());
            let pair = Pair { base, notice, opened: tick, alias, sends: it.sends, forced };
            observer.take_pair(slot, pair, tick);
        }
        observer.free_other_aliases();
        (self.add(observer), counts)
    }
}

/// A row without an object, for a pair that is only there to be closed.
fn dead_slot(store: &mut Store, id: ObjectId) -> Option<Slot> {
    let lanes = vec![0; store.schema().kind(id.kind())?.lane_count()];
    let slot = store.create_lanes(id, OwnerId(0), &lanes).ok()?;
    store.remove(slot).ok()?;
    Some(slot)
}

fn carried_state(store: &Store, slot: Slot, base: &Reference) -> Option<CarriedState> {
    let hot = &store.hot[slot.at()];
    if !base.is_held(hot) {
        return None;
    }
    let kind = store.kind(slot);
    let lanes = match base.others_moved_on(hot) {
        true => store.pushed(hot, kind.lane_count(), base.push),
        false => store.pushed(hot, kind.lane_count(), hot.head.wrapping_sub(1)),
    };
    let Motion { moved, ticks } = base.motion;
    let (tick, at, facing, number, access) =
        (base.tick.0, base.at, base.facing, base.number, base.access);
    let others = hash_others(kind, lanes, access);
    let (own, mate) = (access == Access::Own, access == Access::Mate);
    Some(CarriedState { tick, at, facing, moved, ticks, number, own, mate, others })
}

/// The same state in this publisher's history.
fn reference(store: &Store, slot: Slot, state: &CarriedState) -> Option<Reference> {
    let (hot, kind) = (&store.hot[slot.at()], store.kind(slot));
    let held = hot.head.wrapping_sub(store.first_push(slot)).min(HISTORY - 1);
    let pushes = (1..=held).map(|back| hot.head.wrapping_sub(back));
    let same = |push: &u32| {
        let lanes = store.pushed(hot, kind.lane_count(), *push);
        hash_others(kind, lanes, state.access()) == state.others
    };
    let push = pushes.into_iter().find(same)?;
    let CarriedState { tick, at, facing, moved, ticks, number, .. } = *state;
    let (tick, motion) = (Tick(tick), Motion { moved, ticks });
    Some(Reference { push, tick, at, facing, motion, number, access: state.access() })
}

/// FNV-1a over the lanes that are neither place nor facing, as far as the observer is told them.
fn hash_others(kind: &Kind, lanes: &[i32], access: Access) -> u64 {
    let told = if access == Access::Own { &kind.others } else { &kind.shared };
    told.iter()
        .flat_map(|lane| kind.told(access, *lane, lanes[*lane]).to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

impl Observer {
    /// A pair that the observer knew elsewhere, by the alias that it had there.
    fn take_pair(&mut self, slot: Slot, pair: Pair, tick: Tick) {
        let (at, alias) = (self.pairs.len() as u32, usize::from(pair.alias.0));
        if self.by_alias.len() <= alias {
            self.by_alias.resize(alias + 1, u32::MAX);
        }
        self.by_alias[alias] = at;
        let mut wake = NextCheck::new(slot, tick);
        wake.mode = Mode::Special;
        self.tallies.set(&mut wake, NextCheck::KNOWN);
        let mut gate = PairState::new(tick);
        gate.reference = pair.base;
        gate.set_access(pair.base.map_or(Access::default(), |base| base.access));
        gate.grade_anew();
        self.next_checks.push(wake);
        self.pair_states.push(gate);
        self.pairs.push(pair);
    }
}
