//! A dedicated server: one world, and the [sessions](PlayerSessions) of its players.
//!
//! Without IO: links, messages and datagrams come in by calls, and leave through an [`Outbox`].
//! One call of [`Server::tick`] a round does everything else, in order: inputs, rules, events,
//! states. Whoever hosts it asks [`Server::poll`] what it has to do beside: look a player up,
//! keep what a leaving one had.

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
    /// The world.
    pub simulation: Simulation<G>,
    /// Its players.
    sessions: PlayerSessions<G>,
    round: Micros,
    pace: Pace,
}

impl<G: Game> Server<G> {
    /// An empty world; call [`Simulation::populate`] or restore what was kept.
    pub fn new(game: Arc<G>, settings: ServerSettings, keys: Keys) -> Server<G> {
        Server {
            simulation: Simulation::new(Arc::clone(&game), settings.rounds),
            round: settings.rounds.length,
            pace: Pace::from(settings.rounds.length),
            sessions: PlayerSessions::new(game, settings, keys),
        }
    }

    /// The next thing for the host, if any.
    pub fn poll(&mut self) -> Option<ServerEvent> {
        self.sessions.poll()
    }

    /// Players who are in, with or without a link.
    pub fn players(&self) -> usize {
        self.sessions.players()
    }

    /// Whether a link waits for the host's answer to [`ServerEvent::Asked`].
    pub fn is_asked(&self, link: Link) -> bool {
        self.sessions.is_asked(link)
    }

    /// What was turned down.
    pub fn refusals(&self) -> &RefusalCounts {
        self.sessions.refusals()
    }

    /// Work that clients asked for.
    pub fn work(&self) -> WorkCounts {
        self.sessions.work()
    }

    /// What became of events so far.
    pub fn event_counts(&self) -> EventCounts {
        self.sessions.event_counts()
    }

    /// Everybody who is in.
    pub fn present_players(&self) -> impl Iterator<Item = Present<'_>> {
        self.sessions.present_players()
    }

    /// A player's observer: see [`PlayerSessions::observer_of`].
    pub fn observer_of(&self, player: PlayerId) -> Option<ObserverId> {
        self.sessions.observer_of(player)
    }

    /// The view in force for a player: imposed on them, imposed on all, or their own choice.
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

    /// Lets a player in whom [`ServerEvent::Asked`] named, with what they had when they left.
    pub fn admit(
        &mut self,
        link: Link,
        player: PlayerId,
        kept: &[(ObjectId, Vec<i32>)],
        now: Micros,
        out: &mut impl Outbox,
    ) -> Result<(), StoreError> {
        self.sessions.admit(&mut self.simulation, link, (player, kept), now, out)
    }

    /// One round: inputs, rules, events, states; then those who are away too long leave.
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

    /// The host says how long a round took: see [`PlayerSessions::end_round`].
    pub fn end_round(&mut self, took: Micros) {
        self.sessions.end_round(&mut self.simulation, took);
    }

    /// Other resources from now on.
    pub fn set_resources(&mut self, resources: Resources) {
        self.sessions.set_resources(resources);
    }

    /// How much grades give way: 0 while they are as the views ask for, 16 at most.
    pub fn strain(&self) -> f32 {
        self.sessions.strain()
    }

    /// Puts another view in the place of the game's view 0: see [`PlayerSessions::set_first_view`].
    pub fn set_first_view(&mut self, view: View) -> Result<(), ViewError> {
        self.sessions.set_first_view(&mut self.simulation, view)
    }

    /// Adds a policy beside the game's own: see [`PlayerSessions::add_policy`].
    pub fn add_policy(&mut self, name: impl Into<String>, policy: Arc<dyn Policy>) {
        self.sessions.add_policy(name, policy);
    }

    /// Puts a view in force, or takes it back: see [`PlayerSessions::override_view`].
    pub fn override_view(
        &mut self,
        player: Option<PlayerId>,
        view: Option<View>,
    ) -> Result<(), ViewError> {
        self.sessions.override_view(&mut self.simulation, player, view)
    }

    /// Another budget in bytes a round, for one player or for all, those who come later included.
    pub fn set_budget(&mut self, player: Option<PlayerId>, budget: Option<Bytes>) {
        self.sessions.set_budget(&mut self.simulation, player, budget);
    }

    /// Bytes a round that a player's link carries: see [`PlayerSessions::set_capacity`].
    pub fn set_capacity(&mut self, link: Link, capacity: Option<Bytes>) {
        self.sessions.set_capacity(&mut self.simulation, link, capacity);
    }

    /// Measures what broadcasting would take: see [`PlayerSessions::compare_with_broadcast`].
    pub fn compare_with_broadcast(&mut self, samples: usize) {
        self.sessions.compare_with_broadcast(&self.simulation, samples);
    }

    /// What was measured: see [`PlayerSessions::broadcast_comparison`].
    pub fn broadcast_comparison(&self) -> Option<BroadcastComparison> {
        self.sessions.broadcast_comparison()
    }

    /// Everybody is told that it is over; what was theirs comes as [`ServerEvent::Left`].
    pub fn close(&mut self, out: &mut impl Outbox) {
        self.sessions.close(&mut self.simulation, out);
    }
}
