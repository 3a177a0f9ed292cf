//! A storage in memory, for servers without a file: it lasts as long as the process.

use super::KeptObjects;
use crate::game::PlayerId;
use std::collections::{BTreeMap, BTreeSet};

/// Players that are remembered. Beyond this, the player that left first is forgotten, with the kept
/// objects.
pub const MAX_NAMES: usize = 4_096;

/// Keeps the numbers and objects of all connected players, and of [`MAX_NAMES`] players that left.
#[derive(Debug, Default)]
pub struct MemoryStorage {
    numbers: BTreeMap<String, u32>,
    players: BTreeMap<u32, Visitor>,
    /// Players that left, in the order of leaving.
    gone: BTreeSet<(u64, u32)>,
    /// Numbers of forgotten players.
    free: Vec<u32>,
    left: u64,
}

#[derive(Debug, Default)]
struct Visitor {
    name: String,
    kept: KeptObjects,
    /// When the player left, as a counter; `None` while connected.
    left: Option<u64>,
}

impl MemoryStorage {
    /// The number of a joining player, and the kept objects. They stay kept until the player has
    /// joined, because the link can break before that.
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
        // Until the player joins, treat it as the one that left last.
        self.mark_gone(number);
        (PlayerId(number), KeptObjects::new())
    }

    /// Notes that a player has joined, and cannot be forgotten until it leaves.
    pub fn on_joined(&mut self, player: PlayerId) {
        if let Some(left) = self.players.get_mut(&player.0).and_then(|visitor| visitor.left.take())
        {
            self.gone.remove(&(left, player.0));
        }
    }

    /// Notes that a player has left, and keeps its objects.
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

    /// The number of remembered players.
    pub fn len(&self) -> usize {
        self.players.len()
    }

    pub fn is_empty(&self) -> bool {
        self.players.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use foveate_wire::ObjectId;

    #[test]
    fn names_that_come_and_go_are_forgotten_and_connected_players_are_not() {
        let mut memory = MemoryStorage::default();
        let (ada, _) = memory.enter("ada");
        memory.on_joined(ada);
        let mut largest = 0;
        for name in 0..3 * MAX_NAMES {
            let (player, _) = memory.enter(&format!("guest {name}"));
            assert_ne!(player, ada, "ada's number is in use");
            largest = largest.max(player.0);
            match name % 3 {
                // Joined and left with an object; joined and left without one; never joined.
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
    fn a_player_whose_link_broke_while_joining_gets_everything_the_next_time() {
        let (mut memory, kept) = (MemoryStorage::default(), vec![(ObjectId(7), vec![1, 2])]);
        let (ada, _) = memory.enter("ada");
        memory.leave(ada, kept.clone());
        (0..2).for_each(|_| assert_eq!(memory.enter("ada"), (ada, kept.clone())));
    }
}
