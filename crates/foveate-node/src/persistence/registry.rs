//! Answers a server's requests to its host (which player has a name, which objects are kept,
//! whether a token was used), and hands changes to a storage.

use super::{
    JoinQuestion, KeptObjects, PlayerStorage, RESERVED, StorageChange, TokenId, UnixTime,
    UsedTokens,
};
use crate::game::{Game, PlayerId};
use crate::node::ServerCommand;
use crate::outbox::Link;
use crate::session::Refusal;
use crate::simulation::Simulation;
use std::collections::BTreeMap;

/// Kept objects are saved in at most this many parts, one per tick.
const MAX_PARTS: u32 = 8;

/// Looks players up in a storage, and stores their objects.
///
/// Each [`enter`](PlayerRegistry::enter) produces one command, at once or by
/// [`poll`](PlayerRegistry::poll).
#[derive(Debug)]
pub struct PlayerRegistry<S> {
    pub storage: S,
    /// Tokens used in this run and earlier ones.
    pub used: UsedTokens,
    /// The links that wait for an answer, by ticket.
    asked: BTreeMap<u64, Link>,
    tickets: u64,
    parts: u32,
}

impl<S: PlayerStorage> PlayerRegistry<S> {
    /// For a server with this many ticks per second.
    pub fn new(storage: S, tick_hz: u32) -> PlayerRegistry<S> {
        // Fewer parts at low tick rates, so that each object is saved within half a second.
        let parts = (tick_hz * 2 / 5).clamp(1, MAX_PARTS);
        let (used, asked) = (UsedTokens::default(), BTreeMap::new());
        PlayerRegistry { storage, used, asked, tickets: 0, parts }
    }

    /// A player asks to join under a name, with a token that is valid unless it was used before.
    /// `None`: the storage is asked, and [`poll`](PlayerRegistry::poll) returns the answer.
    pub fn enter(
        &mut self,
        link: Link,
        name: &str,
        token: Option<(TokenId, UnixTime)>,
        now: UnixTime,
    ) -> Option<ServerCommand> {
        if let Some((id, until)) = token {
            self.used.forget_expired(now);
            if until <= self.used.horizon() {
                return Some(ServerCommand::Reject(link, Refusal::TokenExpired));
            }
            if self.used.contains(&id) {
                return Some(ServerCommand::Reject(link, Refusal::TokenReplayed));
            }
            if !self.used.insert(id, until) {
                return Some(ServerCommand::Reject(link, Refusal::Full));
            }
        }
        let ticket = self.tickets;
        let question = JoinQuestion { ticket, name: name.into(), token, now };
        if !self.storage.ask(question) {
            self.release(token);
            return Some(ServerCommand::Reject(link, Refusal::Storage));
        }
        self.tickets += 1;
        self.asked.insert(ticket, link);
        None
    }

    /// Makes a token usable again, because its player was not accepted.
    fn release(&mut self, token: Option<(TokenId, UnixTime)>) {
        token.into_iter().for_each(|(id, until)| self.used.remove(id, until));
    }

    /// The next command for the server, from an answer of the storage.
    pub fn poll(&mut self) -> Option<ServerCommand> {
        loop {
            let (question, player) = self.storage.poll()?;
            let link = self.asked.remove(&question.ticket);
            let command = match (player, link) {
                (Ok((player, saved)), Some(link)) => {
                    let kept = saved.into_iter().map(|saved| (saved.id, saved.lanes)).collect();
                    ServerCommand::Admit(link, player, kept)
                }
                (Err(why), link) => {
                    self.release(question.token);
                    let Some(link) = link else { continue };
                    ServerCommand::Reject(link, why)
                }
                (Ok(_), None) => continue,
            };
            return Some(command);
        }
    }

    /// Stores the objects of a player who left.
    pub fn leave(&mut self, _: PlayerId, kept: &KeptObjects) {
        self.storage.save(kept.iter().map(|(id, lanes)| StorageChange::Saved(*id, lanes)));
        kept.iter().for_each(|(id, _)| self.storage.forget(*id));
    }

    /// Call after each tick. Saves the next part of the kept objects (unchanged ones cost a
    /// comparison) and those that rules created, deletes those that rules removed, and reserves
    /// more numbers for ids in time. One transaction writes all that a tick created and removed, so
    /// that a rule which turns one object into another loses neither.
    pub fn save<G: Game>(&mut self, simulation: &mut Simulation<G>, tick: u32) {
        if simulation.ids.left() < RESERVED / 2 {
            let end = simulation.ids.next() + RESERVED;
            simulation.ids.extend_to(self.storage.reserve_ids(end));
        }
        let parts = self.parts;
        self.save_some(simulation, |row| row % parts == tick % parts);
    }

    /// Saves all kept objects: at the start and at the end.
    pub fn save_all<G: Game>(&mut self, simulation: &Simulation<G>) {
        self.save_some(simulation, |_| true);
    }

    fn save_some<G: Game>(&mut self, simulation: &Simulation<G>, is_one: impl Fn(u32) -> bool) {
        let (store, game) = (&simulation.publisher.store, &simulation.game);
        let removed = simulation.removed().iter().filter(|id| game.keeps(id.kind()));
        let removed = removed.map(|id| StorageChange::Removed(*id));
        let created = simulation.created().iter().filter(|id| game.keeps(id.kind()));
        let created = created.filter_map(|id| Some((*id, store.find(*id)?)));
        let some = store.iter().filter(|(id, slot)| game.keeps(id.kind()) && is_one(slot.0));
        let saved =
            created.chain(some).map(|(id, slot)| StorageChange::Saved(id, store.lanes(slot)));
        self.storage.save(removed.chain(saved));
    }
}

#[cfg(test)]
mod tests;
