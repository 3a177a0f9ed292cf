//! A server that runs no rules itself: sessions look through it at another node's simulation.
//!
//! A peer's player can use a browser, which speaks the protocol of clients. The peer runs the
//! rules; this server sends the browser what the peer knows, and receives the player's inputs. A
//! round is [`take_inputs`](Server::take_inputs) and [`take_asks`](Server::take_asks), the peer's
//! tick, then [`show`](Server::show). In this order a state includes exactly the inputs that its
//! frame names, as in a server's own tick.

use super::Server;
use crate::game::{Game, PlayerId, Requester};
use crate::outbox::Outbox;
use crate::simulation::Simulation;
use foveate_sync::{Slot, StoreError};
use foveate_wire::schema::LANE_OWNER;
use foveate_wire::{Micros, ObjectId, OwnerId};
use std::collections::BTreeSet;

impl<G: Game> Server<G> {
    /// Passes the inputs for the coming tick to `given`.
    pub fn take_inputs(&mut self, given: impl FnMut(PlayerId, G::Input)) {
        self.sessions.take_inputs(given);
    }

    /// Takes the players' actions since the last call.
    pub fn take_asks(&mut self) -> std::vec::Drain<'_, (ObjectId, G::Action, Requester)> {
        self.simulation.drain_waiting()
    }

    /// Instead of a tick: sends a round of another simulation, and its events as far as the players
    /// here notice them.
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
        sessions.update_pivots(simulation, tick);
        sessions.send_states(simulation, tick, now, out);
        sessions.compare(simulation, tick, now);
        sessions.evict_timed_out(simulation, now, out);
        Ok(())
    }

    /// Replaces the objects by those of another simulation, its own and its replicas.
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
