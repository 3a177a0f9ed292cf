//! One (observer, object) pair: what the observer was sent, what it has, and what must happen next.

use crate::interest::CLASSES;
use crate::store::{HISTORY, ObjectState, Slot};
use foveate_wire::{Access, Alias, Metres, Motion, Tick};

/// A state of the object that the observer was sent or has: a push of its history, and the tick of
/// the packet that carried it. What is compared in most rounds is copied; everything else is in the
/// history, which is far away in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reference {
    pub push: u32,
    pub tick: Tick,
    /// Its place in steps.
    pub at: [i32; 3],
    /// Its facing, which may be older than its place: one that is nearly right is not sent again.
    pub facing: [i32; 2],
    /// Its motion, as the observer derives it too.
    pub motion: Motion,
    /// The pair's running number of the send.
    pub number: u8,
    /// What the observer was to the object: it decides how much of the state was told.
    pub access: Access,
}

impl Reference {
    /// Whether the state can still be put together: its place and facing are here; only if anything else has
    /// changed since, the history must hold it.
    #[inline]
    pub fn is_held(&self, hot: &ObjectState) -> bool {
        !self.others_moved_on(hot) || hot.head.wrapping_sub(self.push).wrapping_sub(1) < HISTORY
    }

    /// Whether a lane that is neither place nor facing may have been changed since.
    #[inline]
    pub fn others_moved_on(&self, hot: &ObjectState) -> bool {
        let newest = if self.access == Access::Own { hot.head.wrapping_sub(1) } else { hot.others };
        (newest.wrapping_sub(self.push) as i32) > 0
    }

    /// When a difference that is seen now arose at the earliest: not before it was sent what it differs from.
    #[inline]
    pub fn differs_since(&self, since: Tick, now: Tick) -> Tick {
        let sent = self.tick.plus(1);
        let since = if since.is_after(sent) { since } else { sent };
        if since.is_after(now) { now } else { since }
    }
}

/// What the observer has to be told of beside states. Each is repeated until acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    /// Nothing.
    None,
    /// Out of interest since a tick; the observer was not told yet, because interest may come back.
    Lingering(Tick),
    /// To be told that its replica is frozen.
    FreezeDue,
    /// Told in the packet of this tick, not acknowledged.
    FreezeSent(Tick),
    /// The observer knows that its replica is frozen, since this tick.
    Frozen(Tick),
    /// To be told that the replica is gone.
    GoneDue,
    /// Told in the packet of this tick, not acknowledged.
    GoneSent(Tick),
    /// The observer knows that it is gone: the pair goes at the next look.
    Closed,
}

/// Which bound made a pair due.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum DueReason {
    /// The observer does not have the object yet, or must be told that it is live again.
    New = 0,
    /// θ: the difference was old enough.
    Age = 1,
    /// σ: enough changes were missed.
    Missed = 2,
    /// ν: the replica was too far off.
    Error = 3,
    /// The state that the replica rests on is about to leave the history.
    Refresh = 4,
}

/// When and how a pair has to be looked at again. All of an observer's are read in every round, so
/// they lie apart from everything else, and are small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextCheck {
    /// The object.
    pub slot: Slot,
    /// The round of the next look; never as far off as sixteen bits reach.
    at: u16,
    /// The class of the last grade, and [`NextCheck::KNOWN`] where the observer knows of the object: only then
    /// it is a sample.
    pub tally: u8,
    pub mode: Mode,
}

const _: () = assert!(size_of::<NextCheck>() == 8);

impl NextCheck {
    pub const KNOWN: u8 = CLASSES as u8;

    pub fn new(slot: Slot, tick: Tick) -> NextCheck {
        NextCheck { slot, at: tick.0 as u16, tally: 0, mode: Mode::Watched }
    }

    /// The next look is in this round.
    #[inline]
    pub fn set(&mut self, tick: Tick) {
        self.at = tick.0 as u16;
    }

    /// The next look is in `rounds` at the latest. Pairs of one observer that rest equally long are looked
    /// at in the same round: what is due of them then shares a packet.
    #[inline]
    pub fn set_within(&mut self, tick: Tick, rounds: u8, phase: u32) {
        let (rounds, last) = (u32::from(rounds), tick.plus(u32::from(rounds)));
        let late = if rounds > 1 { last.0.wrapping_add(phase) % rounds } else { 0 };
        self.set(last.minus(late));
    }

    /// Since when something that is seen now may have been so, if it rests for so many rounds.
    #[inline]
    pub fn unseen_since(&self, tick: Tick, rest: u8) -> Tick {
        let unseen = u32::from(rest.saturating_sub(1));
        tick.minus(if self.mode == Mode::Right { unseen } else { 0 })
    }

    /// Whether the round of the next look is still to come.
    #[inline]
    pub fn is_after(&self, tick: Tick) -> bool {
        (self.at.wrapping_sub(tick.0 as u16) as i16) > 0
    }

    /// The class of the last grade.
    pub fn class(&self) -> usize {
        usize::from(self.tally) % CLASSES
    }
}

/// How many of an observer's pairs are samples, by class. Kept up to date where a tally changes, so that
/// a round need not count them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tallies {
    counts: [u16; CLASSES],
    /// No class from here on was ever counted.
    classes: u8,
}

impl Tallies {
    /// Gives a pair another tally.
    #[inline]
    pub fn set(&mut self, wake: &mut NextCheck, tally: u8) {
        if wake.tally != tally {
            self.forget(wake);
            wake.tally = tally;
            self.count(wake);
        }
    }

    /// A pair goes, or begins anew.
    #[inline]
    pub fn forget(&mut self, wake: &NextCheck) {
        self.counts[wake.class()] -= u16::from(wake.tally & NextCheck::KNOWN != 0);
    }

    #[inline]
    fn count(&mut self, wake: &NextCheck) {
        self.counts[wake.class()] += u16::from(wake.tally & NextCheck::KNOWN != 0);
        self.classes = self.classes.max(wake.class() as u8 + 1);
    }

    /// Those of pairs that were not counted on the way.
    pub fn of(next_checks: &[NextCheck]) -> Tallies {
        let mut tallies = Tallies::default();
        next_checks.iter().for_each(|wake| tallies.count(wake));
        tallies
    }

    /// How many classes there are to be told, from the first on.
    pub fn classes(&self) -> usize {
        usize::from(self.classes)
    }

    /// The samples of each class.
    pub fn counts(&self) -> [u16; CLASSES] {
        self.counts
    }
}

/// Adds to one of the lists of pairs. A list that is full grows by an eighth, not to twice its size: pairs are most of
/// what an observer takes, and their number hardly changes once it has looked about.
#[inline]
pub(crate) fn push_tight<T>(list: &mut Vec<T>, item: T) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 8).max(16));
    }
    list.push(item);
}

/// How a pair is looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// The observer knows nothing of the object: only whether it comes into reach matters.
    Watched,
    /// There is a reference replica, and it was right when it was last looked at.
    Right,
    /// There is a reference replica, and it differed.
    Wrong,
    /// Something else is up: no reference, a notice, a thaw. Only then [`Pair`] tells more.
    Special,
}

/// What a look at a pair needs: one line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(crate) struct PairState {
    flags: u8,
    /// As long as it is right and beyond `edge`, it is looked at once in so many rounds. Within `edge` it has
    /// to be graded anew, unless it is looked at in every round.
    pub rest: u8,
    /// As long as it differs.
    pub patience: Patience,
    pub edge: Metres,
    /// The last state sent and not known to be lost. Due and bounds refer to it.
    pub reference: Option<Reference>,
    /// When the present difference arose.
    arose: Tick,
}

const _: () = assert!(size_of::<PairState>() == 64);

impl PairState {
    pub fn new(tick: Tick) -> PairState {
        let (flags, rest, patience, edge) = (0, 1, Patience::default(), Metres::ZERO);
        PairState { flags, rest, patience, edge, reference: None, arose: tick }
    }

    const OWN: u8 = 1;
    const PLAIN: u8 = 2;
    const DIFFERS: u8 = 4;
    const MATE: u8 = 8;

    #[inline]
    fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    #[inline]
    fn set(&mut self, flag: u8, on: bool) {
        self.flags = if on { self.flags | flag } else { self.flags & !flag };
    }

    /// Whether the observer looks from the object.
    #[inline]
    pub fn own(&self) -> bool {
        self.is(PairState::OWN)
    }

    /// What the observer is to the object.
    #[inline]
    pub fn access(&self) -> Access {
        match (self.own(), self.is(PairState::MATE)) {
            (true, _) => Access::Own,
            (false, true) => Access::Mate,
            (false, false) => Access::Rival,
        }
    }

    #[inline]
    pub fn set_access(&mut self, access: Access) {
        self.set(PairState::OWN, access == Access::Own);
        self.set(PairState::MATE, access == Access::Mate);
    }

    /// Whether beyond `edge` its floors of facing are the schema's own.
    #[inline]
    pub fn plain(&self) -> bool {
        self.is(PairState::PLAIN)
    }

    #[inline]
    pub fn set_plain(&mut self, plain: bool) {
        self.set(PairState::PLAIN, plain);
    }

    /// Nothing of its last grade counts any more.
    pub fn grade_anew(&mut self) {
        (self.rest, self.edge) = (0, Metres::UNBOUNDED);
    }

    /// For how many rounds it may be left alone while it is right, at this distance.
    #[inline]
    pub fn rest_at(&self, distance: Metres) -> u8 {
        if distance > self.edge { self.rest } else { 1 }
    }

    /// When the present difference arose.
    #[inline]
    pub fn since(&self) -> Option<Tick> {
        self.is(PairState::DIFFERS).then_some(self.arose)
    }

    /// There is a difference, since that round unless it was known before.
    #[inline]
    pub fn note_difference(&mut self, since: Tick) {
        self.arose = self.since().unwrap_or(since);
        self.set(PairState::DIFFERS, true);
    }

    /// There is none.
    #[inline]
    pub fn clear_difference(&mut self) {
        self.set(PairState::DIFFERS, false);
    }
}

/// For how long what differs is not due. All of it is rounded so that it ends too early rather than too late.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub(crate) struct Patience {
    /// So many rounds after a send it is not due, as long as it is beyond the edge, within [`Patience::leeway`] and
    /// below [`Patience::off_axis`].
    pub calm: u8,
    leeway: u8,
    off_axis: u8,
}

impl Patience {
    /// Steps of a leeway; the last of a byte stands for any.
    const LEEWAYS: f32 = 512.0;
    /// Steps of a cosine, counted from −1.
    const COSINES: f32 = 127.0;

    /// Patience for so many rounds, within this share of the distance, at any angle.
    #[inline]
    pub fn new(calm: u64, share: f32) -> Patience {
        let most = u8::MAX - u8::from(share.is_finite());
        let leeway = ((share * Patience::LEEWAYS) as u8).min(most);
        Patience { calm: calm.min(u64::from(u8::MAX)) as u8, leeway, off_axis: 0 }
    }

    /// The same below this cosine only; none, if nothing is that far aside.
    #[inline]
    pub fn below(self, cosine: f32) -> Option<Patience> {
        let off_axis = ((cosine + 1.0) * Patience::COSINES - 0.01) as u8;
        (off_axis > 0).then_some(Patience { off_axis, ..self })
    }

    /// The share of the distance that it may be off by.
    #[inline]
    pub fn leeway(&self) -> f32 {
        let steps = f32::from(self.leeway);
        if self.leeway == u8::MAX { f32::INFINITY } else { steps / Patience::LEEWAYS }
    }

    /// The cosine that its angle has to stay below; none: any angle will do.
    #[inline]
    pub fn off_axis(&self) -> Option<f32> {
        (self.off_axis > 0).then(|| f32::from(self.off_axis) / Patience::COSINES - 1.0)
    }
}

/// Stands for no alias: there are not so many pairs.
const NO_ALIAS: Alias = Alias(u16::MAX);

/// The rest of a pair: what sends, acknowledgements and notices need. One line of the cache.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Pair {
    /// The newest state acknowledged. Updates are coded against it.
    pub base: Option<Reference>,
    pub notice: Notice,
    /// When its alias was allotted: packets before that speak of another pair.
    pub opened: Tick,
    /// Its alias, or [`NO_ALIAS`] as long as it is only watched.
    pub alias: Alias,
    /// Counts the pair's sends; the observer keeps only so many states after `base`.
    pub sends: u8,
    /// Send in any case: the observer must learn that the replica lives again.
    pub forced: bool,
}

const _: () = assert!(size_of::<Pair>() == 64);

impl Pair {
    pub fn watch(tick: Tick) -> Pair {
        let (base, notice, alias) = (None, Notice::None, NO_ALIAS);
        Pair { base, notice, opened: tick, alias, sends: 0, forced: false }
    }

    /// Interest is back. True where the pair may be sent again; a pair that is being closed must be
    /// closed first, or the observer could take the new object for the old one.
    pub fn revive(&mut self) -> bool {
        match self.notice {
            Notice::None => true,
            Notice::Lingering(_) => {
                self.notice = Notice::None;
                true
            }
            Notice::FreezeDue | Notice::FreezeSent(_) | Notice::Frozen(_) => {
                self.notice = Notice::None;
                self.forced = true;
                true
            }
            Notice::GoneDue | Notice::GoneSent(_) | Notice::Closed => false,
        }
    }

    /// The packet of `tick` that carried this state arrived.
    pub fn acknowledged(&mut self, state: &Reference) {
        if self.base.is_none_or(|base| state.tick.is_after(base.tick)) {
            self.base = Some(*state);
        }
    }

    /// The packet that carried this state is lost: if nothing newer is under way, the replica is
    /// what was acknowledged last.
    pub fn lost(&mut self, gate: &mut PairState, state: &Reference) {
        if gate.reference.as_ref() == Some(state) {
            gate.reference = self.base;
            gate.clear_difference();
            // Perhaps only its acknowledgement was lost: whether the replica is the one or the
            // other, the next state puts it right.
            self.forced = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_aside_ends_before_the_field_does() {
        for step in -1_000..=1_000 {
            let cosine = step as f32 / 1_000.0;
            let Some(patience) = Patience::new(12, 0.3).below(cosine) else {
                assert!(cosine < -0.99, "{cosine}: something is aside");
                continue;
            };
            let until = patience.off_axis().expect("not at any angle");
            assert!(until < cosine && until > cosine - 0.01, "{until} of {cosine}");
        }
        for (share, at_least) in [(0.0, 0.0), (0.03, 0.028), (0.3, 0.298), (0.9, 0.49)] {
            let patience = Patience::new(12, share);
            assert!((at_least..=share).contains(&patience.leeway()), "{share}: {patience:?}");
            assert_eq!(patience.off_axis(), None, "at any angle");
        }
        assert_eq!(Patience::new(12, f32::INFINITY).leeway(), f32::INFINITY);
    }

    #[test]
    fn pairs_that_rest_equally_long_are_looked_at_together_and_never_late() {
        for (rounds, phase) in (1..=16u8).flat_map(|rounds| [0, 1, 7, 999].map(|at| (rounds, at))) {
            for tick in (0..200).chain(u32::MAX - 50..u32::MAX).map(Tick) {
                let mut wake = NextCheck::new(Slot(0), tick);
                wake.set_within(tick, rounds, phase);
                let next = (1..=u32::from(rounds)).find(|on| !wake.is_after(tick.plus(*on)));
                let next = next.expect("in time");
                assert!(wake.is_after(tick), "not in this round again");
                let together = tick.0.wrapping_add(next).wrapping_add(phase);
                assert_eq!(together % u32::from(rounds), 0, "{tick:?} {rounds} {phase}");
            }
        }
    }
}
