//! Teams and recent interactions, which views may depend on, of this peer's objects and its
//! neighbours.

use super::Peer;
use crate::game::Game;
use crate::simulation::Interacted;
use foveate_wire::{Micros, ObjectId, Tick};

impl<G: Game> Peer<G> {
    /// Updates the teams of own objects and neighbours, and raises neighbours' interest in the
    /// objects here that they acted on or that acted on theirs.
    pub(super) fn update_relations(&mut self, tick: Tick, now: Micros) {
        self.simulation.sort_teams(tick, |_, _, _| {});
        let avatar = self.avatar.kind();
        for neighbour in self.links.values() {
            let Some(id) = neighbour.observer else { continue };
            let of = ObjectId::new(avatar, neighbour.player.0, 0);
            let team = self.simulation.game.team(&self.simulation.world(), of);
            let Some(observer) = self.simulation.publisher.observer_mut(id) else { continue };
            if let Some(team) = team.filter(|team| *team != observer.team()) {
                observer.set_team(team);
            }
        }
        for at in 0..self.simulation.interactions().len() {
            let Interacted { by, with, half_life } = self.simulation.interactions()[at];
            for (own, other) in [(by, with), (with, by)] {
                let mut links = self.links.values();
                let observer =
                    links.find(|it| it.player.0 == own.origin()).and_then(|it| it.observer);
                let publisher = &mut self.simulation.publisher;
                if let Some(slot) = publisher.store.find(other)
                    && let Some(observer) = observer.and_then(|id| publisher.observer_mut(id))
                {
                    observer.interacted(slot, now, half_life);
                }
            }
        }
    }
}
