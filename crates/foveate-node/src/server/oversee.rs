//! What an operator sees of a server, and may change while it runs.

use super::{Server, allowance};
use crate::game::{Game, PlayerId};
use crate::outbox::Link;
use foveate_sync::ObserverId;
use foveate_sync::interest::{Policy, View, ViewError};
use foveate_wire::{Bytes, ObjectId};
use std::sync::Arc;

/// Views that are remembered; others are made anew for each who asks.
const MAX_POLICIES: usize = 16;

/// Somebody who is in.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Present<'a> {
    /// The player.
    pub player: PlayerId,
    /// Their avatar.
    pub avatar: ObjectId,
    /// Their name.
    pub name: &'a str,
    /// What they are told.
    pub observer: ObserverId,
    /// Where they are, unless their link is broken.
    pub link: Option<Link>,
    /// Bytes a round at most.
    pub budget: Option<Bytes>,
}

impl<G: Game> Server<G> {
    /// Everybody who is in.
    pub fn roster(&self) -> impl Iterator<Item = Present<'_>> {
        self.seats.iter().flatten().map(|seat| Present {
            player: seat.player,
            avatar: seat.avatar,
            name: &seat.name,
            observer: seat.observer,
            link: seat.link,
            budget: seat.budget,
        })
    }

    /// A player's observer, to change their view or eyes from outside the rules. A game that does so
    /// leaves [`Game::eyes`] as it is.
    pub fn observer_of(&self, player: PlayerId) -> Option<ObserverId> {
        let at = *self.by_player.get(&player)?;
        self.seats.get(at as usize)?.as_ref().map(|seat| seat.observer)
    }

    /// An observer's player, for looking on from outside.
    pub fn player_of(&self, observer: ObserverId) -> Option<PlayerId> {
        let at = *self.seat_of.get(observer.0 as usize)?;
        self.seats.get(at as usize)?.as_ref().map(|seat| seat.player)
    }

    /// The view in force for a player: imposed on them, imposed on all, or their own choice.
    pub fn view_of(&self, player: PlayerId) -> Option<View> {
        let at = *self.by_player.get(&player)?;
        self.view_at(at as usize)
    }

    fn view_at(&self, at: usize) -> Option<View> {
        let seat = self.seats[at].as_ref()?;
        let imposed = seat.imposed.as_ref().or(self.imposed.as_ref());
        imposed.cloned().or_else(|| self.stage.game.view(seat.view))
    }

    /// The policy that a view means.
    pub(super) fn policy(&mut self, view: &View) -> Result<Arc<dyn Policy>, ViewError> {
        if let Some((_, policy)) = self.policies.iter().find(|(known, _)| known == view) {
            return Ok(Arc::clone(policy));
        }
        let policy = view.build()?;
        if self.policies.len() == MAX_POLICIES {
            self.policies.pop_front();
        }
        self.policies.push_back((view.clone(), Arc::clone(&policy)));
        Ok(policy)
    }

    pub(super) fn apply_view(&mut self, at: usize) {
        let policy = self.view_at(at).and_then(|view| self.policy(&view).ok());
        let observer = self.seats[at].as_ref().map(|seat| seat.observer);
        let observer = observer.and_then(|id| self.stage.publisher.observer_mut(id));
        if let (Some(policy), Some(observer)) = (policy, observer) {
            observer.set_policy(policy);
        }
    }

    /// Puts a view in force from outside the rules, for one player or for all, those who come later
    /// included; or takes it back. A view that cannot be used changes nothing.
    pub fn impose(
        &mut self,
        player: Option<PlayerId>,
        view: Option<View>,
    ) -> Result<(), ViewError> {
        if let Some(view) = &view {
            self.policy(view)?;
        }
        self.shadow.iter_mut().for_each(|shadow| shadow.restart());
        match player {
            None => {
                // What counts for all counts for those who had something else.
                self.seats.iter_mut().flatten().for_each(|seat| seat.imposed = None);
                self.imposed = view;
                (0..self.seats.len()).for_each(|at| self.apply_view(at));
            }
            Some(player) => {
                let Some(at) = self.by_player.get(&player).map(|at| *at as usize) else {
                    return Ok(());
                };
                self.seats[at].iter_mut().for_each(|seat| seat.imposed.clone_from(&view));
                self.apply_view(at);
            }
        }
        Ok(())
    }

    /// Another budget in bytes a round, for one player or for all, those who come later included.
    pub fn ration(&mut self, player: Option<PlayerId>, budget: Option<Bytes>) {
        self.shadow.iter_mut().for_each(|shadow| shadow.restart());
        if player.is_none() {
            self.settings.budget = budget;
        }
        for seat in self.seats.iter_mut().flatten() {
            if player.is_none_or(|player| player == seat.player)
                && let Some(observer) = self.stage.publisher.observer_mut(seat.observer)
            {
                seat.budget = budget;
                observer.set_budget(allowance(budget));
            }
        }
    }
}
