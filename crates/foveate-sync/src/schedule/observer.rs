//! An observer, to which the world is replicated: a player, a spectator, a strategist, a neighbouring server.

use super::sent::Settled;
use super::{
    Budget, DueReason, Mode, NextCheck, Notice, Pair, PairState, Patience, SentKind, SentPackets,
    SentRecord, Tallies,
};
use crate::interest::{Grade, Pivot, Policy};
use crate::metrics::Counters;
use crate::store::{Slot, Store};
use foveate_wire::packet::Ack;
use foveate_wire::{Alias, Bytes, Metres, Micros, ObjectId, Radians, Tick, steps_to_angle};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// An observer's place in its publisher.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ObserverId(pub u32);

/// Where an observer looks from.
#[derive(Clone, PartialEq, Debug)]
pub enum Pivots {
    /// An object's eyes: its place and facing. A spectator names the avatar it follows.
    Object(Slot),
    /// Several objects; the nearest counts.
    Objects(Vec<Slot>),
    /// Points that the caller moves.
    Free(Vec<Pivot>),
}

/// Interactions that an observer's interest path remembers.
pub const MAX_INTERACTIONS: usize = 32;
/// Acknowledgements between two rounds that are kept.
const MAX_ACKS: usize = 16;
/// Objects that one observer can be told of: aliases have 16 bits.
pub const MAX_PAIRS: usize = 65_000;

/// A deed that makes an object interesting for a while.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Interaction {
    pub slot: Slot,
    at: Micros,
    /// After this time half of it is left.
    half_life: Micros,
}

/// One due pair of the round at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DuePair {
    pub pair: u32,
    pub urgency: f32,
    pub fired: DueReason,
    /// The grade's multiplier of facing floors.
    pub facing: f32,
    /// Rounds for which it may be left alone once it is sent.
    pub rest: u8,
    /// Whether the bounds are still kept if it is not sent now.
    pub kept: bool,
    /// How much it presses for a packet under strain: near by, how many times its error exceeds its floor,
    /// between one and a limit; nothing for what can wait.
    pub press: f32,
}

/// One pair that was graded in the round at hand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Graded {
    pub pair: u32,
    pub grade: Grade,
    /// Rounds for which it may be left alone while it is right.
    pub rest: u8,
    /// The patience that its own grade allows, should it differ and not be due.
    pub patience: Option<Patience>,
    /// When a difference that is seen now could have arisen at the earliest.
    pub since: Tick,
    /// How many times looser the grade is than its policy asks for.
    pub factor: f32,
}

/// An observer: its view, what it knows, and its link. What every round needs lies together, and what it seldom needs
/// at the end.
#[derive(Clone)]
#[repr(C, align(64))]
pub struct Observer {
    pub(crate) link: SentPackets,
    /// Acknowledgements since the last round. They are taken in when the observer's turn comes, when
    /// its pairs are at hand anyway.
    acks: SmallVec<[(Ack, Micros); 1]>,
    /// Aliases whose pairs the observer has let go of since the last round.
    pub(crate) closed: Vec<Alias>,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) sources: Pivots,
    /// The pivots in this round.
    pub(crate) pivots: SmallVec<[Pivot; 1]>,
    /// The objects in the slots of `sources` when it first looked from them: another object may take a slot later.
    looked_from: SmallVec<[ObjectId; 1]>,
    /// The part of each pair that every round needs. The two other parts have the same order.
    pub(crate) next_checks: Vec<NextCheck>,
    /// The part that a look at the pair needs.
    pub(crate) pair_states: Vec<PairState>,
    /// The rest.
    pub(crate) pairs: Vec<Pair>,
    /// How many of the pairs are samples.
    pub(crate) tallies: Tallies,
    /// Added to a tick: when its pairs that rest are looked at.
    pub(crate) phase: u32,
    /// When the objects near by have to be looked for again.
    pub(crate) refresh_at: Tick,
    /// They have to be looked for now: view, eyes or interactions changed.
    pub(crate) stale: bool,
    /// Whether the objects that it looks from are replicated to it too.
    pub(crate) own_objects: bool,
    /// It runs rules: it is told everything that team mates are.
    pub(crate) runs_rules: bool,
    /// It is told what only an object's own player is.
    pub(crate) knows_secrets: bool,
    pub(crate) team: u8,
    /// The round of the last packet to it, or that it was added in.
    pub(crate) told: Tick,
    /// Bytes per record, smoothed.
    record_bytes: f32,
    pub(crate) budget: Budget,
    pub(crate) interactions: Vec<Interaction>,
    pub(crate) counters: Counters,
    /// The pair of an alias, or `u32::MAX`.
    pub(crate) by_alias: Vec<u32>,
    free_aliases: BinaryHeap<Reverse<u16>>,
}

impl Observer {
    /// An observer that knows nothing yet.
    pub fn new(policy: Arc<dyn Policy>, pivots: Pivots, tick: Tick) -> Observer {
        Observer {
            policy,
            sources: pivots,
            own_objects: true,
            runs_rules: false,
            knows_secrets: false,
            team: 0,
            pivots: SmallVec::new(),
            looked_from: SmallVec::new(),
            phase: 0,
            pairs: Vec::new(),
            pair_states: Vec::new(),
            next_checks: Vec::new(),
            tallies: Tallies::default(),
            by_alias: Vec::new(),
            free_aliases: BinaryHeap::new(),
            interactions: Vec::new(),
            budget: Budget::UNLIMITED,
            link: SentPackets::default(),
            acks: SmallVec::new(),
            closed: Vec::new(),
            refresh_at: tick,
            stale: true,
            told: tick,
            record_bytes: 8.0,
            counters: Counters::default(),
        }
    }

    /// The same with a budget.
    pub fn with_budget(mut self, budget: Budget) -> Observer {
        self.budget = budget;
        self
    }

    /// The same, but not told about the objects that it looks from.
    pub fn without_own_objects(mut self) -> Observer {
        self.own_objects = false;
        self
    }

    /// The same for a node that runs the rules of what it is told, or checks others' objects by them: of every object
    /// it is told what a team mate is.
    pub fn with_rules(mut self) -> Observer {
        self.runs_rules = true;
        self
    }

    /// The same for a trusted server that may have to run an object: of every object it is told what its own player is.
    pub fn with_secrets(mut self) -> Observer {
        self.knows_secrets = true;
        self
    }

    /// The same as a member of a team.
    pub fn in_team(mut self, team: u8) -> Observer {
        self.team = team;
        self
    }

    /// What it is told to look from.
    pub fn sources(&self) -> &Pivots {
        &self.sources
    }

    /// Its team; zero: none.
    pub fn team(&self) -> u8 {
        self.team
    }

    /// On another side from now on: mates and others are told apart anew, at once.
    pub fn set_team(&mut self, team: u8) {
        self.team = team;
        self.look_anew();
        // It may be told more now, or less.
        for wake in self.next_checks.iter_mut().filter(|wake| wake.mode != Mode::Watched) {
            wake.mode = Mode::Special;
        }
    }

    /// Another view from now on: zoom, or an operator's edit. It counts at once.
    pub fn set_policy(&mut self, policy: Arc<dyn Policy>) {
        self.policy = policy;
        self.look_anew();
    }

    /// The neighbourhood has to be looked for now, and nothing counts of the grades so far: rests rest on
    /// the view and on how fast its pivots are.
    fn look_anew(&mut self) {
        self.pair_states.iter_mut().for_each(PairState::grade_anew);
        self.stale = true;
    }

    /// Other pivots from now on: a spectator follows another avatar.
    pub fn set_pivots(&mut self, pivots: Pivots) {
        self.sources = pivots;
        self.looked_from.clear();
        self.look_anew();
        let slots = match &self.sources {
            Pivots::Object(slot) => std::slice::from_ref(slot),
            Pivots::Objects(slots) => slots,
            Pivots::Free(_) => &[],
        };
        for (gate, wake) in self.pair_states.iter().zip(&mut self.next_checks) {
            // It may be told more now, or less.
            if wake.mode != Mode::Watched && gate.own() != slots.contains(&wake.slot) {
                wake.mode = Mode::Special;
            }
        }
    }

    /// Free pivots went on, no faster than their reach allows: the neighbourhood need not be looked at
    /// anew.
    pub fn follow(&mut self, pivots: &[Pivot]) {
        match &mut self.sources {
            Pivots::Free(known) if known.len() == pivots.len() => known.copy_from_slice(pivots),
            sources => {
                *sources = Pivots::Free(pivots.to_vec());
                self.look_anew();
            }
        }
    }

    /// What it looked from in the last round.
    pub fn looks_from(&self) -> &[Pivot] {
        &self.pivots
    }

    /// Another budget from now on.
    pub fn set_budget(&mut self, budget: Budget) {
        self.budget = budget;
    }

    /// Another rate of the budget, in bytes a round, unused ones being kept for so many rounds; `None`: no
    /// limit. Unlike with [`set_budget`](Observer::set_budget), what was saved or overspent stays.
    pub fn set_rate(&mut self, rate: Option<Bytes>, rounds: u32) {
        self.budget.set_rate(rate, rounds);
    }

    /// The observer did something with an object, or the object did something to it. Important deeds
    /// get a longer half-life. The weakest is forgotten when there are too many.
    pub fn interacted(&mut self, slot: Slot, now: Micros, half_life: Micros) {
        let entry = Interaction { slot, at: now, half_life: half_life.max(Micros(1)) };
        if let Some(known) = self.interactions.iter_mut().find(|known| known.slot == slot) {
            *known = entry;
        } else {
            if self.interactions.len() == MAX_INTERACTIONS {
                let strength = |entry: &Interaction| fading(entry, now);
                let weakest = (0..MAX_INTERACTIONS)
                    .min_by(|a, b| {
                        strength(&self.interactions[*a])
                            .total_cmp(&strength(&self.interactions[*b]))
                    })
                    .unwrap_or(0);
                self.interactions.swap_remove(weakest);
            }
            self.interactions.push(entry);
        }
        // Only this pair's grade changes; how long it may rest was worked out without the
        // interaction.
        if let Some(pair) = self.next_checks.iter().position(|wake| wake.slot == slot) {
            self.pair_states[pair].grade_anew();
        }
        self.stale = true;
    }

    /// How strong the memory of an interaction with the object still is: 1 now, fading to 0.
    #[inline]
    pub(crate) fn interaction(&self, slot: Slot, now: Micros) -> f32 {
        let known = self.interactions.iter().find(|known| known.slot == slot);
        known.map_or(0.0, |known| fading(known, now))
    }

    /// The object behind the first pivot, if there is one.
    pub(crate) fn first_object(&self) -> Option<Slot> {
        match &self.sources {
            Pivots::Object(slot) => Some(*slot),
            Pivots::Objects(slots) => slots.first().copied(),
            Pivots::Free(pivots) => pivots.first().and_then(|pivot| pivot.object),
        }
    }

    /// World units that its fastest pivot moves in a round.
    pub(crate) fn pivot_reach(&self) -> Metres {
        self.pivots.iter().map(|pivot| pivot.reach).fold(Metres::ZERO, Metres::max)
    }

    /// Bytes that the next record will take, judged by the last ones.
    pub(crate) fn expected_record(&self) -> f32 {
        self.record_bytes
    }

    /// A packet of so many bytes and records was sent.
    pub(crate) fn learn_record(&mut self, bytes: usize, records: u16) {
        let bytes = bytes as f32 / f32::from(records.max(1));
        self.record_bytes += (bytes - self.record_bytes) / 8.0;
    }

    /// Drops memories that have faded and objects that are no more.
    pub(crate) fn tidy_path(&mut self, store: &Store, now: Micros) {
        self.interactions.retain(|known| {
            fading(known, now) > 0.02 && store.hot.get(known.slot.at()).is_some_and(|hot| hot.alive)
        });
    }

    /// What was sent, kept and violated so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Round trips, losses and packets in flight.
    pub fn link(&self) -> &SentPackets {
        &self.link
    }

    /// The object of each pair, and what a look at it needs.
    pub(crate) fn looks(&self) -> impl Iterator<Item = (Slot, &PairState)> {
        self.next_checks.iter().zip(&self.pair_states).map(|(wake, gate)| (wake.slot, gate))
    }

    /// The alias of a pair whose object the observer knows of.
    pub(crate) fn alias(&self, pair: usize) -> Option<Alias> {
        (self.next_checks[pair].mode != Mode::Watched).then(|| self.pairs[pair].alias)
    }

    /// Moves bound pivots to their objects; true where one moved faster than it can (a respawn, a
    /// change of eyes), so that the neighbourhood has to be looked at anew.
    pub(crate) fn place_pivots(&mut self, store: &Store) -> bool {
        let before = self.pivots.len();
        let slots: &[Slot] = match &self.sources {
            Pivots::Free(pivots) => {
                let moved =
                    self.pivots[..] != pivots[..] && pivots.iter().all(|p| p.reach == Metres::ZERO);
                self.pivots.clear();
                self.pivots.extend_from_slice(pivots);
                return moved;
            }
            Pivots::Object(slot) => std::slice::from_ref(slot),
            Pivots::Objects(slots) => slots,
        };
        if self.looked_from.len() != slots.len() {
            self.looked_from = slots.iter().map(|slot| store.hot[slot.at()].id).collect();
        }
        self.pivots.clear();
        let mut jumped = false;
        for (slot, id) in slots.iter().zip(&self.looked_from) {
            let hot = &store.hot[slot.at()];
            if hot.alive && hot.id == *id {
                jumped |= hot.jumped;
                self.pivots.push(eyes(store, *slot));
            }
        }
        jumped || self.pivots.len() != before
    }

    /// A small number for an object that the observer is about to hear of.
    pub(crate) fn open(&mut self, pair: u32, tick: Tick) -> Option<Alias> {
        let alias = match self.free_aliases.pop() {
            Some(Reverse(alias)) => alias,
            None if self.by_alias.len() < MAX_PAIRS => {
                self.by_alias.push(u32::MAX);
                (self.by_alias.len() - 1) as u16
            }
            None => return None,
        };
        self.by_alias[usize::from(alias)] = pair;
        let wake = &mut self.next_checks[pair as usize];
        wake.mode = Mode::Special;
        self.tallies.set(wake, wake.tally | NextCheck::KNOWN);
        let pair = &mut self.pairs[pair as usize];
        pair.alias = Alias(alias);
        pair.opened = tick;
        Some(pair.alias)
    }

    /// All aliases that no pair has are free.
    pub(crate) fn free_other_aliases(&mut self) {
        let free = self.by_alias.iter().enumerate().filter(|(_, pair)| **pair == u32::MAX);
        self.free_aliases = free.map(|(alias, _)| Reverse(alias as u16)).collect();
    }

    /// The observer has let go of a pair's object: its alias is free, and the pair only watched.
    pub(crate) fn watch_again(&mut self, pair: usize, tick: Tick) {
        let closed = self.alias(pair);
        self.pairs[pair] = Pair::watch(tick);
        self.pair_states[pair] = PairState::new(tick);
        self.tallies.forget(&self.next_checks[pair]);
        self.next_checks[pair] = NextCheck::new(self.next_checks[pair].slot, tick);
        if let Some(alias) = closed {
            self.by_alias[usize::from(alias.0)] = u32::MAX;
            self.free_aliases.push(Reverse(alias.0));
        }
    }

    /// Makes room for so many pairs at once, so that meeting a few more allocates nothing.
    pub(crate) fn reserve(&mut self, pairs: usize) {
        if self.pairs.capacity() >= pairs {
            return;
        }
        let more = pairs - self.pairs.len();
        self.pairs.reserve_exact(more);
        self.pair_states.reserve_exact(more);
        self.next_checks.reserve_exact(more);
        self.by_alias.reserve_exact(pairs.saturating_sub(self.by_alias.len()));
        self.free_aliases.reserve_exact(pairs.saturating_sub(self.free_aliases.len()));
        self.closed.reserve_exact(pairs / 4);
        self.link.reserve(pairs * 3 / 4);
    }

    /// Forgets a pair; its alias may be used again, its slot too.
    pub(crate) fn drop_pair(&mut self, pair: usize, store: &Store) {
        let closed = self.alias(pair);
        self.pairs.swap_remove(pair);
        self.pair_states.swap_remove(pair);
        let gone = self.next_checks.swap_remove(pair);
        self.tallies.forget(&gone);
        store.unpin(gone.slot);
        if let Some(alias) = closed {
            self.by_alias[usize::from(alias.0)] = u32::MAX;
            self.free_aliases.push(Reverse(alias.0));
        }
        if pair < self.pairs.len()
            && let Some(alias) = self.alias(pair)
        {
            self.by_alias[usize::from(alias.0)] = pair as u32;
        }
    }

    /// An acknowledgement arrived. Of more than a round can need, only the newest counts: each
    /// repeats what the ones before it said.
    pub(crate) fn on_ack(&mut self, ack: Ack, now: Micros) {
        if self.acks.len() == MAX_ACKS {
            self.acks.remove(0);
        }
        self.acks.push((ack, now));
    }

    /// Takes the acknowledgements in.
    pub(crate) fn settle_acks(&mut self, tick: Tick) {
        let Observer { link, pairs, pair_states, next_checks, by_alias, closed, acks, .. } = self;
        let mut known = Told { pairs, pair_states, next_checks, by_alias, closed, tick };
        for (ack, at) in acks.drain(..) {
            link.on_ack(&ack, at, |settled, sent, record| known.settle(settled, sent, record));
        }
    }

    /// Time passed: packets may be lost by now.
    pub(crate) fn on_time(&mut self, now: Micros, round: Micros, tick: Tick) {
        let Observer { link, pairs, pair_states, next_checks, by_alias, closed, .. } = self;
        let mut known = Told { pairs, pair_states, next_checks, by_alias, closed, tick };
        link.on_time(now, round, |settled, sent, record| known.settle(settled, sent, record));
    }

    /// Reads something of each part of the observer itself: see `Group` in the pipeline.
    pub(crate) fn read_own(&self) -> usize {
        let Counters { packets, looked, samples, .. } = &self.counters;
        let counts = packets ^ looked ^ samples[0];
        let lists = self.next_checks.len() ^ self.pairs.len() ^ self.acks.len() ^ self.closed.len();
        let rest = self.pivots.len() ^ self.refresh_at.0 as usize ^ self.interactions.len();
        counts as usize ^ lists ^ rest ^ usize::from(self.link.next_seq())
    }

    /// Reads something of each list that every round needs, and of the object that it looks from.
    pub(crate) fn read_lists(&self, store: &Store) -> usize {
        // As many as a line of the cache holds.
        let next_checks = self.next_checks.iter().step_by(64 / size_of::<NextCheck>());
        let next_checks: usize = next_checks.map(|wake| usize::from(wake.tally)).sum();
        let eyes = self.first_object().map_or(0, |slot| store.hot[slot.at()].head as usize);
        next_checks ^ eyes ^ self.link.read_oldest()
    }

    /// Reads something of each pair that an acknowledgement will be about.
    pub(crate) fn read_sent_pairs(&self) -> usize {
        let pairs = self.link.oldest_pairs().filter_map(|pair| self.pairs.get(usize::from(pair)));
        pairs.map(|pair| usize::from(pair.sends)).sum()
    }

    /// Reads something of each pair, and of its object, that will be looked at.
    pub(crate) fn read_looks(&self, awake: &[u32], store: &Store) -> usize {
        let read = |at: usize| {
            let NextCheck { slot, mode, .. } = self.next_checks[at];
            let rest = if mode == Mode::Special { usize::from(self.pairs[at].sends) } else { 0 };
            usize::from(self.pair_states[at].rest) ^ store.hot[slot.at()].head as usize ^ rest
        };
        awake.iter().fold(0, |all, at| all ^ read(*at as usize))
    }

    /// Reads something of each pair that something may be said of.
    pub(crate) fn read_said(&self, due: &[DuePair], notices: &[u32]) -> usize {
        let pairs = due.iter().map(|bound| bound.pair).chain(notices.iter().copied());
        pairs.fold(0, |all, pair| all ^ usize::from(self.pairs[pair as usize].sends))
    }

    /// Forgets everything in every pair; for when the observer leaves.
    pub(crate) fn close(&mut self, store: &Store) {
        self.pairs.clear();
        self.pair_states.clear();
        self.tallies = Tallies::default();
        self.next_checks.drain(..).for_each(|wake| store.unpin(wake.slot));
    }
}

/// What the fate of a packet can change.
struct Told<'a> {
    pairs: &'a mut [Pair],
    pair_states: &'a mut [PairState],
    next_checks: &'a mut [NextCheck],
    by_alias: &'a [u32],
    closed: &'a mut Vec<Alias>,
    tick: Tick,
}

impl Told<'_> {
    /// A packet's record arrived or was lost: the only arrow back in the pipeline.
    fn settle(&mut self, settled: Settled, sent: Tick, record: &SentRecord) {
        let mut at = usize::from(record.pair);
        if self.pairs.get(at).is_none_or(|pair| pair.alias != record.alias) {
            at = self.by_alias[usize::from(record.alias.0)] as usize;
        }
        let Some(pair) = self.pairs.get_mut(at).filter(|pair| !pair.opened.is_after(sent)) else {
            return; // the pair it spoke of is closed
        };
        match (&record.kind, settled) {
            (SentKind::State(state), Settled::Arrived) => return pair.acknowledged(state),
            (SentKind::State(state), Settled::Lost) => pair.lost(&mut self.pair_states[at], state),
            (SentKind::Freeze, settled) if pair.notice == Notice::FreezeSent(sent) => {
                let arrived = settled == Settled::Arrived;
                pair.notice = if arrived { Notice::Frozen(self.tick) } else { Notice::FreezeDue };
            }
            (SentKind::Gone, settled) if pair.notice == Notice::GoneSent(sent) => {
                // Dropped in the next round: dropping it here would move other pairs.
                let arrived = settled == Settled::Arrived;
                pair.notice = if arrived { Notice::Closed } else { Notice::GoneDue };
            }
            _ => {}
        }
        // It has to be looked at because of that.
        self.next_checks[at].mode = Mode::Special;
        self.next_checks[at].set(self.tick);
        if pair.notice == Notice::Closed {
            self.closed.push(record.alias);
        }
    }
}

fn fading(interaction: &Interaction, now: Micros) -> f32 {
    let lives = (now - interaction.at).0 as f32 / interaction.half_life.0 as f32;
    (-lives).exp2()
}

/// Where an object looks from and to.
fn eyes(store: &Store, slot: Slot) -> Pivot {
    let (hot, kind) = (&store.hot[slot.at()], store.kind(slot));
    let angle = |facing: Option<(usize, u32)>, step: i32| {
        Radians(facing.map_or(0.0, |(_, steps)| steps_to_angle(step, steps)))
    };
    let [yaw, pitch] = hot.facing;
    let mut pivot = Pivot::looking(hot.pos, angle(kind.yaw, yaw), angle(kind.pitch, pitch));
    pivot.object = Some(slot);
    pivot.reach = hot.reach;
    pivot
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Reference;
    use foveate_wire::{Access, Motion};

    #[test]
    fn an_acknowledgement_finds_its_pair_wherever_it_has_moved() {
        let (tick, alias) = (Tick(5), Alias(0));
        let (at, facing, motion) = ([0; 3], [0; 2], Motion::default());
        let state =
            Reference { push: 0, tick, at, facing, motion, number: 1, access: Access::Rival };
        // The record names the pair's place, that of a pair that is only watched, or one that no longer exists.
        for pair in [0, 2, 9] {
            let mut pairs = [0; 3].map(|_| Pair::watch(tick));
            pairs[0].alias = alias;
            let mut told = Told {
                pairs: &mut pairs,
                pair_states: &mut [PairState::new(tick); 3],
                next_checks: &mut [0, 1, 2].map(|slot| NextCheck::new(Slot(slot), tick)),
                by_alias: &[0],
                closed: &mut Vec::new(),
                tick,
            };
            let record = SentRecord { alias, pair, kind: SentKind::State(state) };
            told.settle(Settled::Arrived, tick, &record);
            assert_eq!(pairs.map(|pair| pair.base), [Some(state), None, None], "sent by {pair}");
        }
    }
}
