//! A dedicated server: one world, and the [sessions](PlayerSessions) of its players.
//!
//! Without IO: links, messages and datagrams are passed in, and leave through an [`Outbox`]. One
//! call of [`Server::tick`] per round does everything else, in order: inputs, rules, events,
//! states. The host also polls [`Server::poll`] for its duties: look up a player, keep the objects
//! of a player who left.

mod window;

pub use crate::sessions::*;

use crate::game::{Game, PlayerId};
use crate::node::Pace;
use crate::outbox::{Link, Outbox};
use crate::session::Refusal;
use crate::simulation::Simulation;
use foveate_sync::interest::{Policy, View, ViewError};
use foveate_sync::{ObserverId, StoreError};
use foveate_wire::{Bytes, Micros, ObjectId, Tick};
use std::sync::Arc;

/// A server of one world.
pub struct Server<G: Game> {
    pub simulation: Simulation<G>,
    sessions: PlayerSessions<G>,
    round: Micros,
    pace: Pace,
}

impl<G: Game> Server<G> {
    /// A server with an empty world; call [`Simulation::populate`], or restore the kept objects.
    pub fn new(game: Arc<G>, settings: ServerSettings, keys: Keys) -> Server<G> {
        Server {
            simulation: Simulation::new(Arc::clone(&game), settings.rounds),
            round: settings.rounds.length,
            pace: Pace::from(settings.rounds.length),
            sessions: PlayerSessions::new(game, settings, keys),
        }
    }

    /// The next event for the host, if any.
    pub fn poll(&mut self) -> Option<ServerEvent> {
        self.sessions.poll()
    }

    /// The number of players with a session, with or without a link.
    pub fn players(&self) -> usize {
        self.sessions.players()
    }

    /// Whether a link waits for the host's answer to [`ServerEvent::Asked`].
    pub fn is_asked(&self, link: Link) -> bool {
        self.sessions.is_asked(link)
    }

    /// How many joins and messages were refused, by reason.
    pub fn refusals(&self) -> &RefusalCounts {
        self.sessions.refusals()
    }

    /// How much work clients requested.
    pub fn work(&self) -> WorkCounts {
        self.sessions.work()
    }

    /// How many events were sent and dropped.
    pub fn event_counts(&self) -> EventCounts {
        self.sessions.event_counts()
    }

    /// All players with a session.
    pub fn present_players(&self) -> impl Iterator<Item = Present<'_>> {
        self.sessions.present_players()
    }

    /// A player's observer: see [`PlayerSessions::observer_of`].
    pub fn observer_of(&self, player: PlayerId) -> Option<ObserverId> {
        self.sessions.observer_of(player)
    }

    /// The view in force for a player: set by an operator for the player or for all, or the
    /// player's choice.
    pub fn view_of(&self, player: PlayerId) -> Option<View> {
        self.sessions.view_of(player)
    }

    /// A link was made.
    pub fn connected(&mut self, link: Link, out: &mut impl Outbox) {
        self.sessions.connected(link, out);
    }

    /// A link ended.
    pub fn closed(&mut self, link: Link, now: Micros) {
        self.sessions.closed(link, now);
    }

    /// A message arrived.
    pub fn message(&mut self, link: Link, bytes: &[u8], now: Micros, out: &mut impl Outbox) {
        self.sessions.message(&mut self.simulation, link, bytes, now, out);
    }

    /// A datagram arrived.
    pub fn datagram(&mut self, link: Link, bytes: &[u8], now: Micros) {
        self.sessions.datagram(&mut self.simulation, link, bytes, now);
    }

    /// Rejects a link that asked to join.
    pub fn refuse(&mut self, link: Link, why: Refusal, out: &mut impl Outbox) {
        self.sessions.refuse(link, why, out);
    }

    /// Accepts the player that [`ServerEvent::Asked`] named, with the objects kept from an earlier
    /// visit.
    pub fn admit(
        &mut self,
        link: Link,
        player: PlayerId,
        kept: &[(ObjectId, Vec<i32>)],
        now: Micros,
        out: &mut impl Outbox,
    ) -> Result<(), StoreError> {
        let player = Admitted { link, player, kept };
        self.sessions.admit(&mut self.simulation, player, now, out)
    }

    /// Plays one round: inputs, rules, events, states; then ends the sessions that timed out.
    pub fn tick(&mut self, tick: Tick, now: Micros, out: &mut impl Outbox) {
        self.sessions.tick(&mut self.simulation, tick, now, out);
    }

    /// Plays the round that is due by the host's clock, if one is.
    pub(crate) fn wake(&mut self, now: Micros, out: &mut impl Outbox) {
        if self.pace.is_due(now, self.round) {
            self.tick(self.simulation.publisher.store.tick().plus(1), now, out);
        }
    }

    pub(crate) fn next_round(&self) -> Micros {
        self.pace.next()
    }

    /// Reports how long a round took: see [`PlayerSessions::end_round`].
    pub fn end_round(&mut self, took: Micros) {
        self.sessions.end_round(&mut self.simulation, took);
    }

    /// Sets the resources from now on.
    pub fn set_resources(&mut self, resources: Resources) {
        self.sessions.set_resources(resources);
    }

    /// How far grades give way: from 0, as the views ask for, to 16.
    pub fn strain(&self) -> f32 {
        self.sessions.strain()
    }

    /// Replaces the game's view 0: see [`PlayerSessions::set_first_view`].
    pub fn set_first_view(&mut self, view: View) -> Result<(), ViewError> {
        self.sessions.set_first_view(&mut self.simulation, view)
    }

    /// Adds a policy to the game's: see [`PlayerSessions::add_policy`].
    pub fn add_policy(&mut self, name: impl Into<String>, policy: Arc<dyn Policy>) {
        self.sessions.add_policy(name, policy);
    }

    /// Overrides the view, or ends that: see [`PlayerSessions::override_view`].
    pub fn override_view(
        &mut self,
        player: Option<PlayerId>,
        view: Option<View>,
    ) -> Result<(), ViewError> {
        self.sessions.override_view(&mut self.simulation, player, view)
    }

    /// Sets the budget in bytes per round of one player or of all, including those that join later.
    pub fn set_budget(&mut self, player: Option<PlayerId>, budget: Option<Bytes>) {
        self.sessions.set_budget(&mut self.simulation, player, budget);
    }

    /// Sets the capacity of a link: see [`PlayerSessions::set_capacity`].
    pub fn set_capacity(&mut self, link: Link, capacity: Option<Bytes>) {
        self.sessions.set_capacity(&mut self.simulation, link, capacity);
    }

    /// Measures the cost of broadcasting: see [`PlayerSessions::compare_with_broadcast`].
    pub fn compare_with_broadcast(&mut self, samples: usize) {
        self.sessions.compare_with_broadcast(&self.simulation, samples);
    }

    /// The result of that: see [`PlayerSessions::broadcast_comparison`].
    pub fn broadcast_comparison(&self) -> Option<BroadcastComparison> {
        self.sessions.broadcast_comparison()
    }

    /// Ends all sessions; the players' objects are returned by [`ServerEvent::Left`].
    pub fn close(&mut self, out: &mut impl Outbox) {
        self.sessions.close(&mut self.simulation, out);
    }
}
