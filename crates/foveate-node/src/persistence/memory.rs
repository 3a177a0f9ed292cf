//! A storage in memory, for servers without a file: it lasts as long as the process.

use super::KeptObjects;
use crate::game::PlayerId;
use std::collections::{BTreeMap, BTreeSet};

/// Names that are remembered. Beyond, the player that left first is forgotten, with the kept objects.
pub const MAX_NAMES: usize = 4_096;

/// Keeps players' numbers and objects in memory, for [`MAX_NAMES`] players that left and all that are in.
#[derive(Debug, Default)]
pub struct MemoryStorage {
    numbers: BTreeMap<String, u32>,
    players: BTreeMap<u32, Visitor>,
    /// Players that left, in order.
    gone: BTreeSet<(u64, u32)>,
    /// Numbers of forgotten players.
    free: Vec<u32>,
    left: u64,
}

#[derive(Debug, Default)]
struct Visitor {
    name: String,
    kept: KeptObjects,
    /// When they left; `None` while they are in.
    left: Option<u64>,
}

impl MemoryStorage {
    /// The number of a joining player, and what was kept. It stays kept: a player whose link breaks before they are
    /// in has not had it.
    pub fn enter(&mut self, name: &str) -> (PlayerId, KeptObjects) {
        if let Some(number) = self.numbers.get(name).copied() {
            let visitor = self.players.entry(number).or_default();
            return (PlayerId(number), visitor.kept.clone());
        }
        if self.gone.len() >= MAX_NAMES
            && let Some((_, oldest)) = self.gone.pop_first()
            && let Some(visitor) = self.players.remove(&oldest)
        {
            self.numbers.remove(&visitor.name);
            self.free.push(oldest);
        }
        let number = self.free.pop().unwrap_or(self.players.len() as u32 + 1);
        self.numbers.insert(name.into(), number);
        self.players.insert(number, Visitor { name: name.into(), ..Visitor::default() });
        // Until they leave for good nothing tells whether they ever came in: the newest of those that left.
        self.mark_gone(number);
        (PlayerId(number), KeptObjects::new())
    }

    /// A player is in: they are not forgotten before they leave.
    pub fn on_joined(&mut self, player: PlayerId) {
        if let Some(left) = self.players.get_mut(&player.0).and_then(|visitor| visitor.left.take())
        {
            self.gone.remove(&(left, player.0));
        }
    }

    /// A player has left; these are to be kept.
    pub fn leave(&mut self, player: PlayerId, kept: KeptObjects) {
        let Some(visitor) = self.players.get_mut(&player.0) else { return };
        visitor.kept = kept;
        self.mark_gone(player.0);
    }

    fn mark_gone(&mut self, number: u32) {
        let Some(visitor) = self.players.get_mut(&number) else { return };
        self.left += 1;
        if let Some(before) = visitor.left.replace(self.left) {
            self.gone.remove(&(before, number));
        }
        self.gone.insert((self.left, number));
    }

    /// Remembered players.
    pub fn len(&self) -> usize {
        self.players.len()
    }

    /// Whether no player is remembered.
    pub fn is_empty(&self) -> bool {
        self.players.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foveate_wire::ObjectId;

    #[test]
    fn names_that_come_and_go_are_forgotten_and_players_who_are_in_are_not() {
        let mut memory = MemoryStorage::default();
        let (ada, _) = memory.enter("ada");
        memory.on_joined(ada);
        let mut largest = 0;
        for name in 0..3 * MAX_NAMES {
            let (player, _) = memory.enter(&format!("guest {name}"));
            assert_ne!(player, ada, "her number is taken");
            largest = largest.max(player.0);
            match name % 3 {
                // Let in and gone; let in and gone without leaving a thing; never let in.
                0 => {
                    memory.on_joined(player);
                    memory.leave(player, vec![(ObjectId(7), vec![1])]);
                }
                1 => {
                    memory.on_joined(player);
                    memory.leave(player, KeptObjects::new());
                }
                _ => {}
            }
        }
        assert!(memory.len() <= MAX_NAMES + 1, "{} names", memory.len());
        assert!(largest <= MAX_NAMES as u32 + 2, "number {largest}");
        memory.leave(ada, vec![(ObjectId(9), vec![2])]);
        assert_eq!(memory.enter("ada"), (ada, vec![(ObjectId(9), vec![2])]));
    }

    #[test]
    fn a_player_who_was_gone_before_they_were_in_finds_everything_the_next_time() {
        let (mut memory, kept) = (MemoryStorage::default(), vec![(ObjectId(7), vec![1, 2])]);
        let (ada, _) = memory.enter("ada");
        memory.leave(ada, kept.clone());
        (0..2).for_each(|_| assert_eq!(memory.enter("ada"), (ada, kept.clone())));
    }
}
