//! Players and the world in a file.

use std::collections::BTreeMap;
use std::path::Path;

use foveate_node::game::Game;
use foveate_node::session::Refusal;
use foveate_node::{IdAllocator, Link, Simulation};
use foveate_wire::{Micros, Tick};

use crate::host::{Kept, LoginReply, StartError};
use crate::storage::{RESERVED, Storage, StorageChange, StorageError, Writer};
use crate::time::UnixTime;
use crate::token::{TokenId, Verifier};

/// Objects are saved in parts, one a tick: in so many at most,
const MAX_PARTS: u64 = 8;

/// and at slow rates in fewer, so that each of them is saved within half a second.
fn parts(round: Micros) -> u32 {
    (400_000 / round.0.max(1)).clamp(1, MAX_PARTS) as u32
}

pub(super) struct SavedPlayers {
    writer: Writer,
    /// Links that wait for an answer, by the name that they asked with.
    asked: BTreeMap<String, Link>,
    parts: u32,
    /// Tokens that were used before this run and are still valid.
    used: Vec<(TokenId, UnixTime)>,
}

impl SavedPlayers {
    pub fn open<G: Game>(
        path: &Path,
        simulation: &mut Simulation<G>,
    ) -> Result<SavedPlayers, StartError> {
        let mut storage = Storage::open(path, simulation.game.schema())?;
        simulation.ids = IdAllocator::for_server(storage.reserve_ids()?);
        let world = storage.world()?;
        for saved in &world {
            simulation.restore(saved.id, &saved.lanes)?;
        }
        if world.is_empty() {
            simulation.populate()?;
        }
        let used = storage.used_tokens(UnixTime::now())?;
        let parts = parts(simulation.publisher.rounds().length);
        let writer = storage.write_behind()?;
        let mut saved = SavedPlayers { writer, asked: BTreeMap::new(), parts, used };
        // A new world is saved at once: of one that is half saved the other half would never be made.
        saved.save_all(simulation);
        Ok(saved)
    }

    pub fn recall_tokens(&mut self, verifier: &mut Verifier) {
        for (id, until) in self.used.drain(..) {
            verifier.remember(id, until);
        }
    }

    pub fn use_token(&mut self, id: TokenId, until: UnixTime) {
        self.writer.use_token(id, until);
    }

    pub fn enter(&mut self, link: Link, name: &str) -> LoginReply {
        match self.writer.join(name, UnixTime::now()) {
            Ok(()) => {
                self.asked.insert(name.into(), link);
                LoginReply::Pending
            }
            Err(error) => LoginReply::Rejected(refusal(&error)),
        }
    }

    pub fn answered(&mut self) -> Option<(Link, LoginReply)> {
        let joined = self.writer.poll()?;
        let link = self.asked.remove(&joined.name)?;
        Some(match joined.player {
            Ok((player, saved)) => {
                let kept = saved.into_iter().map(|saved| (saved.id, saved.lanes)).collect();
                (link, LoginReply::Accepted(player, kept))
            }
            Err(error) => (link, LoginReply::Rejected(refusal(&error))),
        })
    }

    pub fn leave(&mut self, kept: &Kept) {
        self.writer.save(kept.iter().map(|(id, lanes)| StorageChange::Saved(*id, lanes)));
        kept.iter().for_each(|(id, _)| self.writer.forget(*id));
    }

    /// Saves the part of the kept objects whose turn it is, of which unchanged ones cost a comparison;
    /// forgets those that rules removed; and reserves numbers for new ids before they run out.
    pub fn save_part<G: Game>(&mut self, simulation: &mut Simulation<G>, tick: Tick) {
        let removed = simulation.removed().iter().filter(|id| simulation.game.keeps(id.kind()));
        self.writer.save(removed.map(|id| StorageChange::Removed(*id)));
        if simulation.ids.left() < RESERVED / 2 {
            self.writer.reserve_ids(simulation.ids.next() + RESERVED);
            simulation.ids.extend_to(self.writer.reserved_ids());
        }
        let parts = self.parts;
        self.save_some(simulation, |row| row % parts == tick.0 % parts);
    }

    pub fn save_all<G: Game>(&mut self, simulation: &Simulation<G>) {
        self.save_some(simulation, |_| true);
    }

    fn save_some<G: Game>(&mut self, simulation: &Simulation<G>, is_one: impl Fn(u32) -> bool) {
        let store = &simulation.publisher.store;
        let some =
            store.iter().filter(|(id, slot)| simulation.game.keeps(id.kind()) && is_one(slot.0));
        self.writer.save(some.map(|(id, slot)| StorageChange::Saved(id, store.lanes(slot))));
    }

    pub fn trouble(&self) -> Option<String> {
        self.writer.report().trouble
    }

    pub fn close(self) -> Result<(), StorageError> {
        self.writer.close()
    }
}

/// What a player is told whom the store did not take.
fn refusal(error: &StorageError) -> Refusal {
    match error {
        StorageError::PlayersFull { .. } => Refusal::Full,
        StorageError::Name { .. } => Refusal::Name,
        _ => Refusal::Storage,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_has_its_turn_within_half_a_second() {
        for hz in [1, 2, 10, 20, 60, 120] {
            let parts = u64::from(parts(Micros(1_000_000 / hz)));
            assert!(parts == 1 || parts * 2 <= hz, "{parts} parts at {hz} Hz");
        }
    }
}
