//! Grade: which objects are near, and what the policy says of each.
//!
//! The objects near an observer are looked up rarely: everything within the view's reach **and a
//! margin** becomes a pair, and until an object from beyond the margin could have come into reach
//! nothing has to be looked up again. Objects that jump are looked at apart.

use super::jumps::meet_jumped;
use super::precheck::{self, SeenError, larger, smaller};
use super::{MAX_RESERVED, Publisher, RoundInputs, Rounds, Scratch, Turn};
use crate::deviation;
use crate::interest::{Grade, Pivot, Sight, Strain};
use crate::schedule::{
    Graded, Mode, NextCheck, Notice, Observer, ObserverId, Pair, PairState, Patience, push_tight,
};
use crate::store::{ObjectState, Slot, Store};
use foveate_wire::{Access, Metres, Micros, Position, Tick};

/// The margin, as a share of the reach.
pub(super) const MARGIN: f32 = 0.15;
/// Rounds between two looks at a replica that is right, at most.
const MAX_REST: u64 = 16;
/// Rounds between two looks at the neighbourhood, at most.
const MAX_LOOKS: f32 = 32.0;
/// What objects that stand still are taken to move in a round, so that no way is divided by zero.
pub(super) const LEAST_WAY: Metres = Metres(1e-6);

impl RoundInputs<'_> {
    /// Finds the pairs of this round, and whose time has come.
    pub(super) fn find_candidates(
        &self,
        turn: &mut Turn,
        observer: &mut Observer,
        scratch: &mut Scratch,
    ) {
        let store = self.store;
        let tick = store.tick();
        observer.stale |= observer.place_pivots(store);
        if observer.stale || !observer.refresh_at.is_after(tick) {
            refresh(observer, self, scratch);
        }
        meet_jumped(observer, self, scratch);
        drop_closed(observer, store);
        precheck::find_awake(&observer.next_checks, tick, &mut turn.awake);
    }

    /// Fills `turn.graded` with the pairs that could be due in this round.
    pub(super) fn grade(&self, turn: &mut Turn, observer: &mut Observer, scratch: &mut Scratch) {
        let RoundInputs { store, rounds, now, strain, index, .. } = *self;
        let Turn { awake, .. } = turn;
        precheck::pass(observer, store, awake, &mut scratch.attention);
        let (slack, reach) = (observer.pivot_reach(), observer.policy.reach());
        let give_way = GiveWay { strain, span: reach.min(index.span()) };
        let tick = store.tick();
        let look = Look { tick, now, rounds, slack, reach, give_way };
        turn.graded.clear();
        turn.leaving.clear();
        turn.notices.clear();
        if observer.pivots.is_empty() {
            // Without a pivot an object that has a place is left as it is until it is removed.
            scratch.attention.retain(|at| {
                let hot = &store.hot[observer.next_checks[*at as usize].slot.at()];
                !hot.placed || !hot.alive
            });
        }
        let attention = scratch.attention.iter();
        attention.for_each(|at| look.at_pair(observer, store, *at, turn));
        if look.give_way.strain != Strain::NONE {
            turn.graded.iter().for_each(|graded| scratch.strained.note(graded.factor));
        }
    }
}

/// Drops the pairs that the observer has let go of, or watches them again.
fn drop_closed(observer: &mut Observer, store: &Store) {
    let tick = store.tick();
    while let Some(alias) = observer.closed.pop() {
        let at = observer.by_alias[usize::from(alias.0)] as usize;
        if observer.pairs.get(at).is_none_or(|pair| pair.notice != Notice::Closed) {
            continue;
        }
        if store.hot[observer.next_checks[at].slot.at()].alive {
            // It may be of interest again in this very round.
            observer.watch_again(at, tick);
        } else {
            observer.drop_pair(at, store);
        }
    }
}

impl Publisher {
    /// What the policy says of a pair in the round that was last; for looking on from outside.
    pub fn grade_of(&self, id: ObserverId, slot: Slot) -> Option<(Grade, Metres)> {
        let observer = self.observer(id)?;
        self.store.hot.get(slot.at()).filter(|hot| hot.alive)?;
        let (slack, reach) = (observer.pivot_reach(), observer.policy.reach());
        let (tick, now, rounds) = (self.store.tick(), self.now, self.rounds);
        let give_way = GiveWay { strain: self.strain, span: reach.min(self.index.span()) };
        let look = Look { tick, now, rounds, slack, reach, give_way };
        let own = observer.pivots.iter().any(|pivot| pivot.object == Some(slot));
        let opinion = look.judge(observer, &self.store, slot, own);
        opinion.grade.map(|grade| (grade, opinion.distance))
    }

    /// For each object that an observer was told of: the round of the last state sent that is not
    /// known to be lost; for looking on from outside.
    pub fn references(&self, id: ObserverId) -> impl Iterator<Item = (Slot, Tick)> + '_ {
        let pairs = self.observer(id).into_iter().flat_map(Observer::looks);
        pairs.filter_map(|(slot, gate)| gate.reference.map(|state| (slot, state.tick)))
    }

    /// Each object whose reference replica differs after the last round's sends, and since when;
    /// for looking on from outside.
    pub fn waiting(&self, id: ObserverId) -> impl Iterator<Item = (Slot, Tick)> + '_ {
        let pairs = self.observer(id).into_iter().flat_map(Observer::looks);
        pairs.filter_map(|(slot, gate)| gate.since().map(|since| (slot, since)))
    }
}

/// What stays the same for all pairs of an observer in a round.
struct Look {
    tick: Tick,
    now: Micros,
    rounds: Rounds,
    /// How far the fastest pivot moves in a round.
    slack: Metres,
    /// How far the policy looks.
    reach: Metres,
    give_way: GiveWay,
}

/// Whether an observer of this team and an object are in one team.
#[inline]
fn is_mate(team: u8, hot: &ObjectState) -> bool {
    team != 0 && team == hot.team
}

/// How grades give way under strain.
struct GiveWay {
    strain: Strain,
    /// The distance at which they give way the most.
    span: Metres,
}

/// What the policy says of a pair.
struct Opinion {
    /// `None`: the object is out of interest.
    grade: Option<Grade>,
    /// From the nearest pivot to the object; zero where places do not matter.
    distance: Metres,
    /// How many times looser the grade is than the policy asks for.
    factor: f32,
}

impl Opinion {
    /// Says so whatever the distance.
    fn anywhere(grade: Option<Grade>) -> Opinion {
        Opinion { grade, distance: Metres::ZERO, factor: 1.0 }
    }
}

impl GiveWay {
    #[inline]
    fn factor(&self, distance: Metres) -> f32 {
        if self.strain == Strain::NONE { 1.0 } else { self.strain.factor(distance / self.span) }
    }
}

impl Look {
    #[inline]
    fn at_pair(&self, observer: &mut Observer, store: &Store, pair: u32, turn: &mut Turn) {
        let at = pair as usize;
        let NextCheck { slot, mode, .. } = observer.next_checks[at];
        let hot = &store.hot[slot.at()];
        let far = match mode {
            Mode::Watched | Mode::Special => self.far_off(observer, hot),
            Mode::Right | Mode::Wrong => None,
        };
        if mode == Mode::Watched
            && let Some(distance) = far
        {
            return observer.next_checks[at].set(self.out_of_reach(hot, distance - self.reach));
        }
        let own = observer.pivots.iter().any(|pivot| pivot.object == Some(slot));
        let Opinion { grade, distance, factor } = match (hot.alive, far) {
            (true, None) => self.judge(observer, store, slot, own),
            (_, far) => Opinion { distance: far.unwrap_or_default(), ..Opinion::anywhere(None) },
        };
        let (gate, wake) = (&mut observer.pair_states[at], &mut observer.next_checks[at]);
        let tallies = &mut observer.tallies;
        let Some(grade) = grade else {
            // The observer's own object, if it is not sent to it, stays so until the observer looks from elsewhere.
            let beyond = if own && hot.alive { Metres::UNBOUNDED } else { distance - self.reach };
            let mut next = self.out_of_reach(hot, beyond);
            tallies.set(wake, wake.tally % NextCheck::KNOWN);
            if wake.mode != Mode::Watched {
                wake.mode = Mode::Special;
                gate.clear_difference();
                let Pair { notice, forced, .. } = &mut observer.pairs[at];
                let (was, away) = (*notice, hot.placed && distance > self.reach);
                *notice = self.out_of_interest(was, hot);
                next = self.no_later_than_notice(next, *notice);
                let due = matches!(notice, Notice::FreezeDue | Notice::GoneDue);
                turn.notices.extend(due.then_some(pair));
                let leaves = was == Notice::None || *forced;
                let leaves = leaves && away && matches!(notice, Notice::Lingering(_));
                if leaves && self.tells_leaving(observer, store, slot) {
                    turn.leaving.push(self.leaving(observer, pair, distance));
                }
            }
            observer.next_checks[at].set(next);
            return;
        };
        let known = if wake.mode == Mode::Watched { 0 } else { NextCheck::KNOWN };
        tallies.set(wake, (grade.class % NextCheck::KNOWN) | known);
        gate.set_access(match own || observer.knows_secrets {
            true => Access::Own,
            false if observer.runs_rules || is_mate(observer.team, hot) => Access::Mate,
            false => Access::Rival,
        });
        if wake.mode != Mode::Special || observer.pairs[at].revive() {
            // A difference that is found now may have arisen right after the last look.
            let since = wake.unseen_since(self.tick, gate.rest);
            // A right replica is off by its floor at most.
            let error = deviation::floor(store.kind(slot), &grade);
            let patience = self.set_pace(gate, &grade, hot, SeenError { error, distance });
            let rest = gate.rest_at(distance);
            turn.graded.push(Graded { pair, grade, rest, patience, since, factor });
        }
    }

    /// An object has gone out of reach: the change by which it left is told, or its replica would stand at the
    /// border as if nothing had happened. What is hidden within reach is not told of: that would betray where it hides.
    #[cold]
    fn leaving(&self, observer: &Observer, pair: u32, distance: Metres) -> Graded {
        let floors = observer.policy.floors();
        let floor = floors.map_or(Metres::ZERO, |floors| distance * floors.place.0);
        let grade = Grade { floor, facing: 1.0, ..Grade::EXACT };
        Graded { pair, grade, rest: 1, patience: None, since: self.tick, factor: 1.0 }
    }

    /// How far off an object is that is out of reach, so that the policy need not be asked.
    fn far_off(&self, observer: &Observer, hot: &ObjectState) -> Option<Metres> {
        if !observer.interactions.is_empty() {
            return None; // an object that the observer interacted with is of interest from afar
        }
        let nearest = nearest(&observer.pivots, hot.pos).filter(|_| hot.alive && hot.placed)?;
        (!nearest.is_within(self.reach)).then(|| nearest.distance())
    }

    /// How often the pair has to be looked at while its replica is right. A difference may arise in the round
    /// after a look: it must be told well within θ, must not outgrow ν unseen, and no grade may become stricter
    /// unseen. In the round of the next look all of that is seen and told. Returns the patience that it may have instead
    /// of the strictest, once it is found to differ and not to be due.
    #[inline]
    fn set_pace(
        &self,
        gate: &mut PairState,
        grade: &Grade,
        hot: &ObjectState,
        mut seen: SeenError,
    ) -> Option<Patience> {
        (gate.rest, gate.patience) = (1, Patience::default());
        gate.set_plain(grade.outlook.is_some_and(|outlook| outlook.facing >= 1.0));
        let outlook = grade.outlook.as_ref()?;
        let (edge, share) = (outlook.beyond, outlook.max_share);
        gate.edge = edge;
        if outlook.max_missed != u32::MAX {
            return None;
        }
        let by_age = outlook.max_age.0 / self.rounds.length.0;
        let mut off_axis = None;
        if outlook.max_error.0.is_infinite() {
            let calm = |max_age: Micros| max_age.0.div_ceil(self.rounds.length.0);
            gate.patience = Patience::new(calm(outlook.max_age), share);
            let own = Patience::new(calm(grade.max_age), grade.max_error / seen.distance);
            off_axis = own.below(outlook.off_axis);
        }
        // Object and replica may part at full speed each.
        let (parting, closing) = (hot.reach * 2.0, hot.reach + self.slack);
        // The floor grows with the distance, an absolute ν does not.
        if outlook.max_error.0.is_finite() {
            seen.error = seen.error * (self.reach / seen.distance).max(1.0);
        }
        let SeenError { error, distance } = seen;
        let by_length = (outlook.max_error - error) / parting.max(LEAST_WAY);
        let by_share = seen.rounds_within(share, hot, self.slack);
        let by_edge = match edge > Metres::ZERO {
            true => (distance - edge) / closing.max(LEAST_WAY),
            false => f32::INFINITY,
        };
        // What is told a round or two before it must be may still be in time when it arrives.
        let by_age = by_age.saturating_sub(2).min(MAX_REST - 1) as f32;
        let rounds = smaller(smaller(by_length, by_share), smaller(by_edge, by_age));
        let unseen = larger(rounds, 0.0) as i32;
        gate.rest = 1 + unseen as u8;
        // The nearest that it may be to rest as long.
        let unseen = unseen as f32;
        if edge > Metres::ZERO {
            gate.edge += closing * unseen;
        }
        if share.is_finite() {
            let needed = (error + (parting + closing * share) * unseen) / larger(share, 1e-6);
            gate.edge = gate.edge.max(needed);
        }
        off_axis
    }

    /// What the policy says of a pair; `own`: the observer looks from the object.
    #[inline]
    fn judge(&self, observer: &Observer, store: &Store, slot: Slot, own: bool) -> Opinion {
        let hot = &store.hot[slot.at()];
        if !hot.placed {
            return Opinion::anywhere(Some(Grade::EXACT));
        }
        let Some(nearest) = nearest(&observer.pivots, hot.pos) else {
            return Opinion::anywhere(None);
        };
        if own {
            return Opinion::anywhere(observer.own_objects.then_some(Grade::EXACT));
        }
        let sight = self.sight(observer, store, slot, nearest);
        let (distance, factor) = (sight.distance, self.give_way.factor(sight.distance));
        let grade = observer.policy.grade(&sight);
        let grade = if factor > 1.0 { grade.map(|grade| grade.loosened(factor)) } else { grade };
        Opinion { grade, distance, factor }
    }

    /// Whether the policy lets the observer know by which change an object went out of reach.
    #[cold]
    fn tells_leaving(&self, observer: &Observer, store: &Store, slot: Slot) -> bool {
        nearest(&observer.pivots, store.hot[slot.at()].pos).is_some_and(|nearest| {
            observer.policy.tells_leaving(&self.sight(observer, store, slot, nearest))
        })
    }

    /// What a policy sees of a pair.
    #[inline]
    fn sight(&self, observer: &Observer, store: &Store, slot: Slot, nearest: Nearest<'_>) -> Sight {
        let (pivot, distance) = (nearest.pivot, nearest.distance());
        let hot = &store.hot[slot.at()];
        let ahead = |axis: usize| (hot.pos[axis] - pivot.at[axis]) * pivot.facing[axis];
        let ahead = ahead(0) + ahead(1) + ahead(2);
        Sight {
            distance,
            // An object in the same spot is straight ahead.
            cos_angle: if distance > Metres::ZERO { ahead / distance.0 } else { 1.0 },
            from: pivot.at,
            to: hot.pos,
            pivot: pivot.object.map(|slot| store.id(slot)),
            object: hot.id,
            kind: hot.kind,
            same_team: is_mate(observer.team, hot),
            interaction: observer.interaction(slot, self.now),
            tick: self.tick,
            now: self.now,
        }
    }

    /// A pair out of reach need not be looked at before it could have come into reach.
    fn out_of_reach(&self, hot: &ObjectState, beyond: Metres) -> Tick {
        let wait = (beyond / (hot.reach + self.slack).max(LEAST_WAY)).clamp(0.0, MAX_LOOKS);
        let whole = wait as u32;
        self.tick.plus((whole + u32::from((whole as f32) < wait)).max(1))
    }

    /// The life of a pair that is out of interest: linger, freeze, forget.
    fn out_of_interest(&self, notice: Notice, hot: &ObjectState) -> Notice {
        match notice {
            Notice::GoneDue | Notice::GoneSent(_) | Notice::Closed => notice,
            _ if !hot.alive => Notice::GoneDue,
            Notice::None => Notice::Lingering(self.tick),
            Notice::Lingering(since) if self.passed(since, self.rounds.freeze_after) => {
                Notice::FreezeDue
            }
            Notice::Frozen(since) if self.passed(since, self.rounds.forget_after) => {
                Notice::GoneDue
            }
            notice => notice,
        }
    }

    /// A pair has to be looked at again when its notice's time has come, or before.
    fn no_later_than_notice(&self, next: Tick, notice: Notice) -> Tick {
        let due = match notice {
            Notice::Lingering(since) => since.plus(self.rounds.count(self.rounds.freeze_after)),
            Notice::Frozen(since) => since.plus(self.rounds.count(self.rounds.forget_after)),
            Notice::FreezeSent(_) | Notice::GoneSent(_) => return next, // an acknowledgement wakes it
            _ => self.tick.plus(1),
        };
        if next.is_after(due) { due } else { next }
    }

    fn passed(&self, since: Tick, span: Micros) -> bool {
        self.tick.since(since) >= self.rounds.count(span)
    }
}

/// The pivot of an observer that is nearest to a point.
pub(super) struct Nearest<'a> {
    pub pivot: &'a Pivot,
    /// The square of its distance to the point.
    square: f32,
}

impl Nearest<'_> {
    #[inline]
    fn distance(&self) -> Metres {
        Metres(self.square.sqrt())
    }

    #[inline]
    pub fn is_within(&self, reach: Metres) -> bool {
        self.square <= reach.0 * reach.0
    }
}

#[inline]
pub(super) fn nearest(pivots: &[Pivot], pos: Position) -> Option<Nearest<'_>> {
    let (pivot, rest) = pivots.split_first()?;
    let mut best = Nearest { pivot, square: pos.square_distance(pivot.at) };
    for pivot in rest {
        let square = pos.square_distance(pivot.at);
        if square < best.square {
            best = Nearest { pivot, square };
        }
    }
    Some(best)
}

/// Looks for the objects near by: new ones are watched, those that are far off are let go.
fn refresh(observer: &mut Observer, round: &RoundInputs<'_>, scratch: &mut Scratch) {
    let RoundInputs { store, index, now, .. } = *round;
    let stale = std::mem::take(&mut observer.stale);
    let tick = store.tick();
    observer.tidy_path(store, now);
    let (reach, closing) = (observer.policy.reach(), store.fastest() + observer.pivot_reach());
    let looks = (reach * MARGIN / closing.max(LEAST_WAY)).clamp(1.0, MAX_LOOKS).floor();
    let wide = reach + closing * looks;
    // Each observer in rounds of its own, so that no round has all of this to do.
    let late = tick.0.wrapping_add(observer.phase) % looks as u32;
    observer.refresh_at = tick.plus(looks as u32 - late);
    let search = scratch.next_search();
    let mut at = 0;
    while at < observer.pair_states.len() {
        let wake = &mut observer.next_checks[at];
        let slot = wake.slot;
        let hot = &store.hot[slot.at()];
        // All other pairs have the time of their next look already, however the neighbourhood changes.
        if stale || !hot.alive {
            wake.set(tick);
        }
        let near = nearest(&observer.pivots, hot.pos).is_some_and(|it| it.is_within(wide));
        let keep = hot.alive && (near || !hot.placed);
        if wake.mode == Mode::Watched && !keep {
            observer.drop_pair(at, store);
            continue;
        }
        scratch.met[slot.at()] = search;
        at += 1;
    }
    // In steps: an observer with a few more pairs than any before it does not make all others allocate.
    let room = (scratch.most_pairs + scratch.most_pairs / 4).next_multiple_of(16);
    observer.reserve(room.min(MAX_RESERVED));
    let before = observer.pairs.len();
    let Observer { pairs, pair_states, next_checks, pivots, interactions, .. } = observer;
    let mut find_candidates = |slot: Slot, within: Metres| {
        let (met, hot) = (&mut scratch.met[slot.at()], &store.hot[slot.at()]);
        let near = !within.0.is_finite()
            || !hot.placed
            || nearest(pivots, hot.pos).is_some_and(|it| it.is_within(within));
        if near && hot.alive && *met != search {
            *met = search;
            push_tight(pairs, Pair::watch(tick));
            push_tight(pair_states, PairState::new(tick));
            push_tight(next_checks, NextCheck::new(slot, tick));
        }
    };
    if wide.0.is_finite() {
        pivots
            .iter()
            .for_each(|pivot| index.around(pivot.at, wide, |slot| find_candidates(slot, wide)));
        if pivots.is_empty() {
            index.placeless().iter().for_each(|slot| find_candidates(*slot, wide));
        }
        interactions.iter().for_each(|known| find_candidates(known.slot, Metres::UNBOUNDED));
    } else {
        (0..store.rows()).for_each(|row| find_candidates(Slot(row as u32), wide));
    }
    observer.next_checks[before..].iter().for_each(|wake| store.pin(wake.slot));
    scratch.most_pairs = scratch.most_pairs.max(observer.pairs.len());
}
