//! Answers what a server asks its host: which player a name is, what was kept, whether a token was used; and hands
//! what is to be kept to a storage.

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

/// Objects are saved in parts, one a tick: in so many at most,
const MAX_PARTS: u32 = 8;

/// Looks players up in a storage and keeps what they leave.
///
/// Every [`enter`](PlayerRegistry::enter) gets one command, at once or by [`poll`](PlayerRegistry::poll).
#[derive(Debug)]
pub struct PlayerRegistry<S> {
    /// The storage.
    pub storage: S,
    /// Tokens that were used, in this run and earlier ones.
    pub used: UsedTokens,
    /// The links that wait for an answer, by ticket.
    asked: BTreeMap<u64, Link>,
    tickets: u64,
    parts: u32,
}

impl<S: PlayerStorage> PlayerRegistry<S> {
    /// For a server with so many ticks a second.
    pub fn new(storage: S, tick_hz: u32) -> PlayerRegistry<S> {
        // At slow rates in fewer parts, so that each object is saved within half a second.
        let parts = (tick_hz * 2 / 5).clamp(1, MAX_PARTS);
        let (used, asked) = (UsedTokens::default(), BTreeMap::new());
        PlayerRegistry { storage, used, asked, tickets: 0, parts }
    }

    /// A player asks to join under a name, with a token that is valid but for having been used. `None`: the storage
    /// is asked, [`poll`](PlayerRegistry::poll) has the answer.
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

    /// A token whose player was not let in may be used again.
    fn release(&mut self, token: Option<(TokenId, UnixTime)>) {
        token.into_iter().for_each(|(id, until)| self.used.remove(id, until));
    }

    /// The next answer of the storage, for the server.
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

    /// A player has left; these are to be kept.
    pub fn leave(&mut self, _: PlayerId, kept: &KeptObjects) {
        self.storage.save(kept.iter().map(|(id, lanes)| StorageChange::Saved(*id, lanes)));
        kept.iter().for_each(|(id, _)| self.storage.forget(*id));
    }

    /// After each tick: saves the part of the kept objects whose turn it is, of which unchanged ones cost a
    /// comparison, and those that rules created; forgets those that rules removed; and sees to it that numbers for
    /// new ids are left. What one tick created and removed is written by one transaction: a rule that turns an object
    /// into another one loses neither.
    pub fn save<G: Game>(&mut self, simulation: &mut Simulation<G>, tick: u32) {
        if simulation.ids.left() < RESERVED / 2 {
            let end = simulation.ids.next() + RESERVED;
            simulation.ids.extend_to(self.storage.reserve_ids(end));
        }
        let parts = self.parts;
        self.save_some(simulation, |row| row % parts == tick % parts);
    }

    /// Saves all of them: at the beginning and at the end.
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
