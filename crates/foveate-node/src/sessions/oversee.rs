//! What an operator sees of a server, and may change while it runs.

use super::PlayerSessions;
use crate::game::{Game, GameViews, PlayerId};
use crate::outbox::Link;
use crate::simulation::Simulation;
use foveate_sync::ObserverId;
use foveate_sync::interest::{Policy, View, ViewContext, ViewError, Visibility};
use foveate_wire::{Bytes, KindId, ObjectId};
use std::sync::Arc;

/// The most policies that are shared between views; others are built anew for each player.
const MAX_POLICIES: usize = 16;

/// A player with a session.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Present<'a> {
    pub player: PlayerId,
    /// The player's avatar.
    pub avatar: ObjectId,
    /// The player's name.
    pub name: &'a str,
    /// The player's observer.
    pub observer: ObserverId,
    /// The player's link; `None` while it is broken.
    pub link: Option<Link>,
    /// The budget in bytes per round; `None` for no limit.
    pub budget: Option<Bytes>,
    /// The capacity of the link in bytes per round, if the host knows it.
    pub capacity: Option<Bytes>,
    /// The number of the view that the player chose.
    pub view: u8,
    /// The object that the player watches instead of the avatar.
    pub watched: Option<ObjectId>,
}

impl<G: Game> PlayerSessions<G> {
    /// All players with a session.
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

    /// A player's observer, to change its view or pivots from outside the rules. A game that does
    /// so must not implement [`Game::eyes`].
    pub fn observer_of(&self, player: PlayerId) -> Option<ObserverId> {
        let at = *self.by_player.get(&player)?;
        self.sessions.get(at as usize)?.as_ref().map(|session| session.observer)
    }

    /// The view in force for a player: set by an operator for the player or for all, or the
    /// player's choice.
    pub fn view_of(&self, player: PlayerId) -> Option<View> {
        let at = *self.by_player.get(&player)?;
        self.view_at(at as usize)
    }

    pub(super) fn view_at(&self, at: usize) -> Option<View> {
        let session = self.sessions[at].as_ref()?;
        let view_override = session.view_override.as_ref().or(self.view_override.as_ref());
        view_override.cloned().or_else(|| self.chosen_view(session.view))
    }

    /// The view with this number, or what replaces it.
    pub(super) fn chosen_view(&self, which: u8) -> Option<View> {
        match &self.first_view {
            Some(view) if which == 0 => Some(view.clone()),
            _ => self.game.view(which),
        }
    }

    /// Replaces the game's view 0 for all players. Call it before players join. A view that cannot
    /// be used changes nothing.
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

    /// Adds a policy for [`View::custom`] to refer to by name. It takes precedence over one of the
    /// same name in [`Game::policies`].
    pub fn add_policy(&mut self, name: impl Into<String>, policy: Arc<dyn Policy>) {
        let name = name.into();
        self.own_policies.retain(|(known, _)| *known != name);
        self.policies.retain(|(view, _)| *view != View::custom(name.as_str()));
        self.own_policies.push((name, policy));
    }

    /// The policy of a view.
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

    /// Overrides the view of one player, or of all players including those that join later; `None`
    /// ends the override. A view that cannot be used changes nothing.
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
                // An override for all replaces those of single players.
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

    /// Sets the budget in bytes per round of one player, or of all including those that join later.
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

    /// Sets the measured capacity of a player's link in bytes per round: states stay within it,
    /// whatever the budget is. `None`: not known.
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

/// Resolves the names that views use at a server.
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
