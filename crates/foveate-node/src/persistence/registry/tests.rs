use super::*;
use crate::persistence::{StoredPlayer, Taken};
use foveate_wire::ObjectId;
use std::collections::VecDeque;

const NOW: UnixTime = UnixTime(1_000);
const TOKEN: (TokenId, UnixTime) = ([7; 16], UnixTime(1_060));

/// A storage whose answers the test controls.
#[derive(Default)]
struct Scripted {
    questions: VecDeque<JoinQuestion>,
    answers: VecDeque<(JoinQuestion, Result<StoredPlayer, Refusal>)>,
    full: bool,
}

impl Scripted {
    fn answer(&mut self, player: Option<u32>) {
        let question = self.questions.pop_front().expect("a question waits");
        let player = player.map(|number| (PlayerId(number), Vec::new()));
        self.answers.push_back((question, player.ok_or(Refusal::Storage)));
    }
}

impl PlayerStorage for Scripted {
    fn save<'a>(&mut self, batch: impl IntoIterator<Item = StorageChange<'a>>) -> Taken {
        Taken { taken: batch.into_iter().count(), ..Taken::default() }
    }

    fn forget(&mut self, _: ObjectId) {}

    fn ask(&mut self, question: JoinQuestion) -> bool {
        if !self.full {
            self.questions.push_back(question);
        }
        !self.full
    }

    fn poll(&mut self) -> Option<(JoinQuestion, Result<StoredPlayer, Refusal>)> {
        self.answers.pop_front()
    }

    fn reserve_ids(&mut self, end: u64) -> u64 {
        end
    }
}

fn registry() -> PlayerRegistry<Scripted> {
    PlayerRegistry::new(Scripted::default(), 20)
}

fn reject(link: u64, why: Refusal) -> Option<ServerCommand> {
    Some(ServerCommand::Reject(Link(link), why))
}

#[test]
fn a_token_is_used_from_the_question_on_and_good_again_if_the_storage_fails() {
    let mut registry = registry();
    assert_eq!(registry.enter(Link(1), "ada", Some(TOKEN), NOW), None);
    let replayed = reject(2, Refusal::TokenReplayed);
    assert_eq!(registry.enter(Link(2), "ada", Some(TOKEN), NOW), replayed);
    registry.storage.answer(None);
    assert_eq!(registry.poll(), reject(1, Refusal::Storage));
    assert_eq!(registry.enter(Link(3), "ada", Some(TOKEN), NOW), None, "it was not used");
    registry.storage.answer(Some(1));
    assert_eq!(registry.poll(), Some(ServerCommand::Admit(Link(3), PlayerId(1), Vec::new())));
    registry.storage.full = true;
    let other = Some(([8; 16], TOKEN.1));
    assert_eq!(registry.enter(Link(4), "eve", other, NOW), reject(4, Refusal::Storage));
    registry.storage.full = false;
    assert_eq!(registry.enter(Link(5), "eve", other, NOW), None);
}

#[test]
fn a_used_token_is_refused_although_the_clock_jumps_ahead_and_back() {
    let mut registry = registry();
    registry.enter(Link(1), "ada", Some(TOKEN), NOW);
    let (late, later) = (UnixTime(900_000), Some(([8; 16], UnixTime(900_060))));
    assert_eq!(registry.enter(Link(2), "eve", later, late), None);
    let expired = reject(3, Refusal::TokenExpired);
    assert_eq!(registry.enter(Link(3), "ada", Some(TOKEN), NOW), expired);
    let fresh = Some(([9; 16], UnixTime(TOKEN.1.0 + 1)));
    assert_eq!(registry.enter(Link(4), "bob", fresh, NOW), None, "other tokens still work");
}

#[test]
fn an_answer_goes_to_the_link_that_asked_and_to_no_later_one_of_the_same_name() {
    let mut registry = registry();
    for link in 1..=2 {
        assert_eq!(registry.enter(Link(link), "ada", None, NOW), None);
    }
    registry.storage.answer(Some(1));
    registry.storage.answer(Some(1));
    for link in 1..=2 {
        let admit = ServerCommand::Admit(Link(link), PlayerId(1), Vec::new());
        assert_eq!(registry.poll(), Some(admit));
    }
    assert_eq!(registry.poll(), None);
}
