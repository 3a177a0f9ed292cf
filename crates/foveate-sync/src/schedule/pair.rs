//! One (observer, object) pair: what the observer was sent, what it has, and what must happen next.

use crate::store::{HISTORY, Hot, Slot};
use foveate_wire::{Alias, Motion, Tick};

/// A state of the object that the observer was sent or has: a push of its history, and the tick of
/// the packet that carried it. Ticks, not copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reference {
    pub push: u32,
    pub tick: Tick,
    /// The push that its facing is of: a facing that is nearly right is not sent again.
    pub facing: u32,
    /// How it got there, as the observer derives it too.
    pub motion: Motion,
    /// The pair's running number of the send.
    pub number: u8,
}

impl Reference {
    /// Whether the history still holds the state.
    #[inline]
    pub fn is_held(&self, hot: &Hot) -> bool {
        let held = |push: u32| hot.head.wrapping_sub(push).wrapping_sub(1) < HISTORY;
        held(self.push) && held(self.facing)
    }
}

/// What the observer has to be told of beside states. Each is repeated until acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    /// Nothing.
    None,
    /// Out of interest since a tick; nobody was told yet, because it may come back.
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
pub enum Fired {
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

/// What decides whether a pair has to be looked at; apart from the pair, because it is read in
/// every round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    pub slot: Slot,
    /// Earliest round in which the pair can become due, if its object keeps its course.
    pub check_at: Tick,
    /// When it was looked at last.
    pub checked: Tick,
    /// The class of the last grade, and whether the observer knows the object.
    pub class: u8,
    pub known: bool,
}

impl Gate {
    pub fn new(slot: Slot, tick: Tick) -> Gate {
        Gate { slot, check_at: tick, checked: tick.minus(1), class: 0, known: false }
    }

    /// Whether nothing can have happened that matters.
    #[inline]
    pub fn is_shut(&self, tick: Tick, stirred: Tick) -> bool {
        self.check_at.is_after(tick) && !stirred.is_after(self.checked)
    }
}

/// A pair. While `alias` is none the observer knows nothing of the object: it is only watched.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub slot: Slot,
    pub alias: Option<Alias>,
    pub notice: Notice,
    /// The last state sent and not known to be lost. Due and bounds refer to it.
    pub reference: Option<Reference>,
    /// The newest state acknowledged. Updates are coded against it.
    pub base: Option<Reference>,
    /// Counts the pair's sends; the observer keeps only so many states after `base`.
    pub sends: u8,
    /// When the present difference arose.
    pub since: Option<Tick>,
    /// When its alias was allotted: packets before that speak of another pair.
    pub opened: Tick,
    /// Send in any case: the observer must learn that the replica lives again.
    pub forced: bool,
}

impl Pair {
    pub fn watch(slot: Slot, tick: Tick) -> Pair {
        Pair {
            slot,
            alias: None,
            notice: Notice::None,
            reference: None,
            base: None,
            sends: 0,
            since: None,
            opened: tick,
            forced: false,
        }
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
    pub fn acknowledged(&mut self, state: Reference) {
        if self.base.is_none_or(|base| state.tick.is_after(base.tick)) {
            self.base = Some(state);
        }
    }

    /// The packet that carried this state is lost: if nothing newer is under way, the replica is
    /// what was acknowledged last.
    pub fn lost(&mut self, state: Reference) {
        if self.reference == Some(state) {
            self.reference = self.base;
            self.since = None;
        }
    }
}
