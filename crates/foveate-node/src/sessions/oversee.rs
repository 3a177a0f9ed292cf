//! What an operator sees of a server, and may change while it runs.

use super::PlayerSessions;
use crate::game::{Game, GameViews, PlayerId};
use crate::outbox::Link;
use crate::simulation::Simulation;
use foveate_sync::ObserverId;
use foveate_sync::interest::{Policy, View, ViewContext, ViewError, Visibility};
use foveate_wire::{Bytes, KindId, ObjectId};
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
    /// What their link carries, bytes a round, if the host knows.
    pub capacity: Option<Bytes>,
    /// The view that they chose.
    pub view: u8,
    /// What they look from in the place of their avatar.
    pub watched: Option<ObjectId>,
}

impl<G: Game> PlayerSessions<G> {
    /// Everybody who is in.
    pub fn present_players(&self) -> impl Iterator<Item = Present<'_>> {
        self.sessions.iter().flatten().map(|session| Present {
            player: session.player,
            avatar: session.avatar,
            name: &session.name,
            observer: session.observer,
            link: session.link,
            budget: session.budget,
            capacity: session.capacity,
            view: session.view,
            watched: session.watched,
        })
    }

    /// A player's observer, to change their view or eyes from outside the rules. A game that does so
    /// leaves [`Game::eyes`] as it is.
    pub fn observer_of(&self, player: PlayerId) -> Option<ObserverId> {
        let at = *self.by_player.get(&player)?;
        self.sessions.get(at as usize)?.as_ref().map(|session| session.observer)
    }

    /// The view in force for a player: imposed on them, imposed on all, or their own choice.
    pub fn view_of(&self, player: PlayerId) -> Option<View> {
        let at = *self.by_player.get(&player)?;
        self.view_at(at as usize)
    }

    pub(super) fn view_at(&self, at: usize) -> Option<View> {
        let session = self.sessions[at].as_ref()?;
        let view_override = session.view_override.as_ref().or(self.view_override.as_ref());
        view_override.cloned().or_else(|| self.chosen_view(session.view))
    }

    /// The view that a player's choice means.
    pub(super) fn chosen_view(&self, which: u8) -> Option<View> {
        match &self.first_view {
            Some(view) if which == 0 => Some(view.clone()),
            _ => self.game.view(which),
        }
    }

    /// Puts another view in the place of the game's view 0, for everybody. Call it before players
    /// join. A view that cannot be used changes nothing.
    pub fn set_first_view(
        &mut self,
        simulation: &mut Simulation<G>,
        view: View,
    ) -> Result<(), ViewError> {
        self.policy(&view)?;
        self.first_view = Some(view);
        (0..self.sessions.len()).for_each(|at| self.apply_view(simulation, at));
        Ok(())
    }

    /// Adds a policy beside the game's own; [`View::custom`] refers to it by this name, which counts for
    /// more than the same name in [`Game::policies`].
    pub fn add_policy(&mut self, name: impl Into<String>, policy: Arc<dyn Policy>) {
        let name = name.into();
        self.own_policies.retain(|(known, _)| *known != name);
        self.policies.retain(|(view, _)| *view != View::custom(name.as_str()));
        self.own_policies.push((name, policy));
    }

    /// The policy that a view means.
    pub(super) fn policy(&mut self, view: &View) -> Result<Arc<dyn Policy>, ViewError> {
        if let Some((_, policy)) = self.policies.iter().find(|(known, _)| known == view) {
            return Ok(Arc::clone(policy));
        }
        let game = GameViews(&*self.game);
        let policy = view.build_in(&ServerViews { game, own: &self.own_policies })?;
        if self.policies.len() == MAX_POLICIES {
            self.policies.pop_front();
        }
        self.policies.push_back((view.clone(), Arc::clone(&policy)));
        Ok(policy)
    }

    pub(super) fn apply_view(&mut self, simulation: &mut Simulation<G>, at: usize) {
        let policy = self.view_at(at).and_then(|view| self.policy(&view).ok());
        let observer = self.sessions[at].as_ref().map(|session| session.observer);
        let observer = observer.and_then(|id| simulation.publisher.observer_mut(id));
        if let (Some(policy), Some(observer)) = (policy, observer) {
            observer.set_policy(policy);
        }
    }

    /// Puts a view in force from outside the rules, for one player or for all, those who come later
    /// included; or takes it back. A view that cannot be used changes nothing.
    pub fn override_view(
        &mut self,
        simulation: &mut Simulation<G>,
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
                self.sessions.iter_mut().flatten().for_each(|session| session.view_override = None);
                self.view_override = view;
                (0..self.sessions.len()).for_each(|at| self.apply_view(simulation, at));
            }
            Some(player) => {
                let Some(at) = self.by_player.get(&player).map(|at| *at as usize) else {
                    return Ok(());
                };
                self.sessions[at]
                    .iter_mut()
                    .for_each(|session| session.view_override.clone_from(&view));
                self.apply_view(simulation, at);
            }
        }
        Ok(())
    }

    /// Another budget in bytes a round, for one player or for all, those who come later included.
    pub fn set_budget(
        &mut self,
        simulation: &mut Simulation<G>,
        player: Option<PlayerId>,
        budget: Option<Bytes>,
    ) {
        self.shadow.iter_mut().for_each(|shadow| shadow.restart());
        if player.is_none() {
            self.settings.budget = budget;
        }
        for session in self.sessions.iter_mut().flatten() {
            if player.is_none_or(|player| player == session.player)
                && let Some(observer) = simulation.publisher.observer_mut(session.observer)
            {
                session.budget = budget;
                session.keep_within(observer);
            }
        }
    }

    /// Bytes a round that a player's link carries, as the host measures: states keep within, whatever the
    /// budget is. `None`: not known.
    pub fn set_capacity(
        &mut self,
        simulation: &mut Simulation<G>,
        link: Link,
        capacity: Option<Bytes>,
    ) {
        let at = self.by_link.get(&link).map(|at| *at as usize);
        let Some(Some(session)) = at.map(|at| &mut self.sessions[at]) else { return };
        session.capacity = capacity;
        if let Some(observer) = simulation.publisher.observer_mut(session.observer) {
            session.keep_within(observer);
        }
    }
}

/// What views can refer to at a server.
struct ServerViews<'a, G: Game> {
    game: GameViews<'a, G>,
    own: &'a [(String, Arc<dyn Policy>)],
}

impl<G: Game> ViewContext for ServerViews<'_, G> {
    fn visibility(&self) -> Option<Arc<dyn Visibility>> {
        self.game.visibility()
    }

    fn kind(&self, name: &str) -> Option<KindId> {
        self.game.kind(name)
    }

    fn policy(&self, name: &str) -> Option<Arc<dyn Policy>> {
        let own = self.own.iter().find(|(known, _)| known == name);
        own.map(|(_, policy)| Arc::clone(policy)).or_else(|| self.game.policy(name))
    }
}
