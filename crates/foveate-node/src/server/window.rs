//! A server that plays nothing itself: a window through which a session looks at another node's simulation.
//!
//! A peer's player may sit at a browser, which speaks the protocol of clients. The peer runs the rules;
//! this server tells the browser what the peer knows, and takes from it what the player does. A round:
//! [`take_inputs`](Server::take_inputs) and [`take_asks`](Server::take_asks), the peer's tick,
//! [`show`](Server::show). In this order, what is shown takes the same inputs into account that it says
//! it does, as in a server's own tick.

use super::Server;
use crate::game::{Game, PlayerId, Requester};
use crate::outbox::Outbox;
use crate::simulation::Simulation;
use foveate_sync::{Slot, StoreError};
use foveate_wire::schema::LANE_OWNER;
use foveate_wire::{Micros, ObjectId, OwnerId};
use std::collections::BTreeSet;

impl<G: Game> Server<G> {
    /// What players do in the coming tick, for those who run the rules.
    pub fn take_inputs(&mut self, given: impl FnMut(PlayerId, G::Input)) {
        self.sessions.take_inputs(given);
    }

    /// What players asked since the last call.
    pub fn take_asks(&mut self) -> std::vec::Drain<'_, (ObjectId, G::Action, Requester)> {
        self.simulation.drain_waiting()
    }

    /// Instead of a tick: shows a round that was played by another simulation, and what happened there within
    /// the notice of the players here.
    pub fn show(
        &mut self,
        played: &Simulation<G>,
        happened: &[G::Event],
        now: Micros,
        out: &mut impl Outbox,
    ) -> Result<(), StoreError> {
        let tick = played.publisher.store.tick();
        if !tick.is_after(self.simulation.publisher.store.tick()) {
            return Ok(());
        }
        self.copy(played)?;
        let Server { simulation, sessions, .. } = self;
        happened.iter().for_each(|event| sessions.queue_for_all(event));
        sessions.look_about(simulation, tick);
        sessions.send_states(simulation, tick, now, out);
        sessions.compare(simulation, tick, now);
        sessions.evict_timed_out(simulation, now, out);
        Ok(())
    }

    /// The objects become those of another simulation, own ones and ghosts alike.
    fn copy(&mut self, played: &Simulation<G>) -> Result<(), StoreError> {
        let store = &mut self.simulation.publisher.store;
        let (mut there, mut refused) = (BTreeSet::new(), Ok(()));
        played.each(|id, lanes| {
            there.insert(id);
            let written = match store.find(id) {
                Some(slot) => store.set_lanes(slot, lanes),
                None => {
                    store.create_lanes(id, OwnerId(lanes[LANE_OWNER] as u32), lanes).map(|_| ())
                }
            };
            if let Err(error) = written {
                refused = Err(error);
            }
        });
        let gone: Vec<Slot> =
            store.iter().filter(|(id, _)| !there.contains(id)).map(|(_, slot)| slot).collect();
        gone.into_iter().try_for_each(|slot| store.remove(slot))?;
        refused
    }
}
