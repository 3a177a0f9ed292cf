//! Actions across borders: asked until answered, carried out once.
//!
//! A region numbers what it asks of each object, one after the other, in its epoch. The object's owner carries them out in that
//! order, and the number of the last one, the object's [`AskMark`] for that region, travels and is logged with the
//! object's state. So whatever is repeated, forwarded or asked of a new owner is recognised. What is given up is
//! skipped: each question names the oldest number that is still wanted.

use super::layout::Layout;
use super::log::AskMark;
use foveate_wire::{Micros, ObjectId};
use std::collections::{BTreeMap, VecDeque};

/// Actions that wait for an answer, for each object at most; what is beyond is reported lost.
pub const MAX_WAITING_ASKS: usize = 64;
/// Regions whose actions an object remembers.
pub const MAX_MARKS: usize = 32;
/// An action that was not answered is asked again after this.
pub const ASK_AGAIN: Micros = Micros(200_000);
/// An action that was not answered is given up after this.
pub const GIVE_UP: Micros = Micros(10_000_000);
/// After this nothing is remembered of an object that is asked nothing any more.
const FORGET_AFTER: Micros = Micros(60_000_000);
/// Numbers that a tick has room for; no more than [`MAX_WAITING_ASKS`] are used.
const NUMBERS_A_TICK: u64 = 256;
/// For so many ticks a region forwards actions for an object that it gave away: ten seconds of twenty ticks.
pub const FORWARD_FOR: u32 = 200;

/// One action on its way.
#[derive(Clone, PartialEq, Debug)]
pub struct PendingAsk {
    /// Its number.
    pub number: u64,
    /// The action and who asks, as the game writes them.
    pub action: Vec<u8>,
    /// It may leave once the log has everything up to this tick.
    pub after: u32,
    since: Micros,
    sent: Option<Micros>,
}

/// An action for another region's object that has no number yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewAsk {
    /// The action and who asks, as the game writes them.
    pub action: Vec<u8>,
    /// It may leave once the log has everything up to this tick.
    pub after: u32,
}

/// What one region asked of one object.
#[derive(Clone, PartialEq, Debug, Default)]
struct Questions {
    last: u64,
    asked: Micros,
    waiting: VecDeque<PendingAsk>,
}

/// What a region asked of others' objects.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct RemoteAsks {
    by_object: BTreeMap<ObjectId, Questions>,
}

impl RemoteAsks {
    /// An action is asked in a tick; false: too many wait, and it is lost.
    pub fn ask(&mut self, object: ObjectId, ask: NewAsk, tick: u32, now: Micros) -> bool {
        // What was asked before and is forgotten had lower numbers: fewer than this are answered in a tick.
        let first = u64::from(tick) * NUMBERS_A_TICK;
        let fresh = || Questions { last: first, ..Questions::default() };
        let questions = self.by_object.entry(object).or_insert_with(fresh);
        if questions.waiting.len() >= MAX_WAITING_ASKS {
            return false;
        }
        (questions.last, questions.asked) = (questions.last + 1, now);
        let NewAsk { action, after } = ask;
        let asked = PendingAsk { number: questions.last, action, after, since: now, sent: None };
        questions.waiting.push_back(asked);
        true
    }

    /// An answer came; whether it was waited for.
    pub fn on_answer(&mut self, object: ObjectId, number: u64) -> bool {
        let Some(questions) = self.by_object.get_mut(&object) else { return false };
        let before = questions.waiting.len();
        questions.waiting.retain(|it| it.number != number);
        questions.waiting.len() < before
    }

    /// Gives up what was not answered for long; how many.
    pub fn give_up(&mut self, now: Micros) -> u64 {
        let mut lost = 0;
        for questions in self.by_object.values_mut() {
            let before = questions.waiting.len();
            questions.waiting.retain(|it| now - it.since < GIVE_UP);
            lost += (before - questions.waiting.len()) as u64;
        }
        self.by_object.retain(|_, it| !it.waiting.is_empty() || now - it.asked < FORGET_AFTER);
        lost
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.by_object.values().map(|it| it.waiting.len()).sum()
    }

    /// Calls `send` with what is due: object, the oldest number that is wanted, and the action. `confirmed`: the log has
    /// everything up to this tick.
    pub fn send_due(
        &mut self,
        confirmed: u32,
        now: Micros,
        mut send: impl FnMut(ObjectId, u64, &PendingAsk),
    ) {
        for (object, questions) in &mut self.by_object {
            let oldest = questions.waiting.front().map_or(questions.last + 1, |it| it.number);
            for asked in &mut questions.waiting {
                let rests = asked.sent.is_some_and(|sent| now - sent < ASK_AGAIN);
                if asked.after > confirmed || rests {
                    continue;
                }
                asked.sent = Some(now);
                send(*object, oldest, asked);
            }
        }
    }
}

/// What to do about a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Judgement {
    /// Carry it out; the mark is set.
    Act,
    /// It was carried out before: answer again.
    Done,
    /// An earlier one is missing, or the asker was replaced: say nothing.
    Wait,
}

/// Judges a question by the object's marks, and sets the mark if it is to be carried out.
pub fn judge(marks: &mut Vec<AskMark>, nonce: AskMark, oldest: u64) -> Judgement {
    let at = marks.iter().position(|mark| mark.region == nonce.region);
    let done = match at.map(|at| marks[at]) {
        Some(mark) if mark.epoch > nonce.epoch => return Judgement::Wait,
        Some(mark) if mark.epoch == nonce.epoch => mark.number,
        _ => 0,
    };
    if nonce.number <= done {
        return Judgement::Done;
    }
    if nonce.number != done.max(oldest.saturating_sub(1)) + 1 {
        return Judgement::Wait;
    }
    match at {
        Some(at) => marks[at] = nonce,
        None if marks.len() < MAX_MARKS => marks.push(nonce),
        None => return Judgement::Wait,
    }
    Judgement::Act
}

/// Makes room for another mark: those of regions that are no more are dropped.
pub(super) fn forget_marks(marks: &mut Vec<AskMark>, layout: &Layout) {
    if marks.len() >= MAX_MARKS {
        marks.retain(|mark| layout.get(mark.region).is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::super::layout::RegionId;
    use super::*;

    fn nonce(epoch: u32, number: u64) -> AskMark {
        AskMark { region: RegionId(1), epoch, number }
    }

    #[test]
    fn whatever_is_repeated_or_overtaken_is_carried_out_once_and_in_order() {
        let mut marks = Vec::new();
        assert_eq!(judge(&mut marks, nonce(1, 2), 1), Judgement::Wait, "the first is missing");
        assert_eq!(judge(&mut marks, nonce(1, 1), 1), Judgement::Act);
        assert_eq!(judge(&mut marks, nonce(1, 1), 1), Judgement::Done);
        assert_eq!(judge(&mut marks, nonce(1, 2), 1), Judgement::Act);
        assert_eq!(judge(&mut marks, nonce(1, 5), 5), Judgement::Act, "3 and 4 were given up");
        assert_eq!(judge(&mut marks, nonce(1, 4), 3), Judgement::Done, "too late");
        assert_eq!(judge(&mut marks, nonce(2, 1), 1), Judgement::Act, "a new owner counts anew");
        assert_eq!(judge(&mut marks, nonce(1, 6), 6), Judgement::Wait, "the former one is gone");
    }

    #[test]
    fn questions_are_repeated_until_answered_and_given_up_in_the_end() {
        let (mut asks, object) = (RemoteAsks::default(), ObjectId(3));
        let ask = |asks: &mut RemoteAsks, tick, after, now| {
            asks.ask(object, NewAsk { action: vec![1], after }, tick, now)
        };
        assert!(ask(&mut asks, 0, 5, Micros(0)) && ask(&mut asks, 0, 9, Micros(0)));
        let sent = |asks: &mut RemoteAsks, confirmed, now| {
            let mut sent = Vec::new();
            asks.send_due(confirmed, now, |_, oldest, it| sent.push((oldest, it.number)));
            sent
        };
        assert_eq!(sent(&mut asks, 4, Micros(0)), [], "the log comes first");
        assert_eq!(sent(&mut asks, 5, Micros(0)), [(1, 1)]);
        assert_eq!(sent(&mut asks, 9, Micros(1)), [(1, 2)]);
        assert_eq!(sent(&mut asks, 9, ASK_AGAIN), [(1, 1)]);
        assert!(asks.on_answer(object, 1) && !asks.on_answer(object, 1));
        assert_eq!(sent(&mut asks, 9, ASK_AGAIN * 2), [(2, 2)]);
        assert_eq!((asks.give_up(GIVE_UP), asks.waiting()), (1, 0));
        asks.give_up(FORGET_AFTER);
        assert!(ask(&mut asks, 9, 0, FORGET_AFTER));
        let first = 9 * NUMBERS_A_TICK + 1;
        assert_eq!(sent(&mut asks, 9, FORGET_AFTER), [(first, first)], "above all earlier ones");
    }
}
