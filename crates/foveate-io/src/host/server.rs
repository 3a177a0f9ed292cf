//! Runs a server on real links, and authenticates its players.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foveate_node::game::{Game, PlayerId};
use foveate_node::node::{NodeInput, ServerCommand};
use foveate_node::persistence::MemoryStorage;
use foveate_node::server::{ServerEvent, ServerSettings};
use foveate_node::session::{Refusal, ResumeKey};
use foveate_node::{Link, Server, Simulation};
use foveate_sync::StoreError;
use foveate_wire::{Micros, ObjectId, Tick};

use super::driver::{Driver, EndpointOutbox, NodeHost, StepTimings};
use super::observers::Observers;
use super::{Accounts, MAX_HAPPENED, remember, secret, secret_seed};
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::event::LinkEvent;
use crate::link_endpoint::LinkEndpoint;
use crate::meter::LinkMeter;

/// Decides which players may join, and stores the objects of players that left. It is called between two rounds and
/// should return at once.
pub trait Authenticator {
    /// A player asks to join under a name.
    fn enter(&mut self, link: Link, name: &str, token: &[u8]) -> LoginReply;

    /// Called when an admitted player has joined or resumed.
    fn joined(&mut self, _: PlayerId) {}

    /// The next answer to a request for which [`LoginReply::Pending`] was returned.
    fn answered(&mut self) -> Option<(Link, LoginReply)> {
        None
    }

    /// Called when a player has left, with the objects to keep for it.
    fn leave(&mut self, player: PlayerId, kept: Kept);

    /// Called after each round, to save what must survive a restart.
    fn on_round<G: Game>(&mut self, _: &mut Simulation<G>, _: Tick)
    where
        Self: Sized,
    {
    }

    /// Called when the server is about to end; players leave after this.
    fn on_close<G: Game>(&mut self, _: &Simulation<G>)
    where
        Self: Sized,
    {
    }
}

/// The answer to a request to join.
#[derive(Clone, PartialEq, Debug)]
pub enum LoginReply {
    /// Accepted, with the player's number and the objects kept for it.
    Accepted(PlayerId, Kept),
    /// Not decided yet; [`Authenticator::answered`] returns the answer later.
    Pending,
    /// Rejected, with the reason.
    Rejected(Refusal),
}

/// Objects by id, with their lanes.
pub type Kept = Vec<(ObjectId, Vec<i32>)>;

/// Accepts every player, and keeps the objects of up to [`MAX_NAMES`](foveate_node::persistence::MAX_NAMES) players
/// that left in memory.
#[derive(Debug, Default)]
pub struct AllowAll(MemoryStorage);

impl Authenticator for AllowAll {
    fn enter(&mut self, _: Link, name: &str, _: &[u8]) -> LoginReply {
        let (player, kept) = self.0.enter(name);
        LoginReply::Accepted(player, kept)
    }

    fn joined(&mut self, player: PlayerId) {
        self.0.on_joined(player);
    }

    fn leave(&mut self, player: PlayerId, kept: Kept) {
        self.0.leave(player, kept);
    }
}

/// A server on real links.
pub struct ServerHost<G: Game, A: Authenticator = Accounts, E: LinkEndpoint = Endpoint> {
    /// The server: world, players, refusals.
    pub server: Server<G>,
    /// The endpoint: meters, conditions, limits.
    pub endpoint: E,
    /// Decides which players may join.
    pub authenticator: A,
    /// Whether states stay within what each link's congestion controller allows, so that a narrow link gets less
    /// instead of later. True by default.
    pub follow_congestion: bool,
    round: Micros,
    driver: Driver,
    happened: VecDeque<ServerEvent>,
    observers: Observers,
}

/// The host's side of the server in one step.
struct Surroundings<'a, A> {
    authenticator: &'a mut A,
    happened: &'a mut VecDeque<ServerEvent>,
    observers: &'a mut Observers,
    /// The length of a round, if budgets follow the links.
    measured: Option<Micros>,
}

impl<G: Game, A: Authenticator, E: LinkEndpoint> NodeHost<Server<G>, E> for Surroundings<'_, A> {
    const MEASURES: bool = true;

    fn on_link<'a>(
        &mut self,
        event: &'a LinkEvent,
        _: &mut Server<G>,
        _: &mut EndpointOutbox<'_, E>,
    ) -> Option<NodeInput<'a, ServerCommand>> {
        (!self.observers.take(event)).then(|| event.input())
    }

    fn on_meter(&mut self, link: Link, meter: Option<LinkMeter>) -> Option<ServerCommand> {
        let capacity = self.measured.and_then(|round| meter?.capacity(round));
        Some(ServerCommand::SetCapacity(link, capacity))
    }

    fn on_event(
        &mut self,
        event: ServerEvent,
        _: &mut Server<G>,
        _: &mut EndpointOutbox<'_, E>,
    ) -> Option<ServerCommand> {
        let noted = match event {
            ServerEvent::Asked { link, name, token } => {
                return command(link, self.authenticator.enter(link, &name, &token));
            }
            ServerEvent::Left(player, kept) => {
                self.authenticator.leave(player, kept);
                ServerEvent::Left(player, Vec::new())
            }
            ServerEvent::Joined(player, name) => {
                self.authenticator.joined(player);
                ServerEvent::Joined(player, name)
            }
            other => other,
        };
        remember(self.happened, noted, MAX_HAPPENED);
        None
    }

    fn next_answer(&mut self) -> Option<ServerCommand> {
        loop {
            let (link, reply) = self.authenticator.answered()?;
            if let Some(command) = command(link, reply) {
                return Some(command);
            }
        }
    }
}

fn command(link: Link, reply: LoginReply) -> Option<ServerCommand> {
    match reply {
        LoginReply::Pending => None,
        LoginReply::Accepted(player, kept) => Some(ServerCommand::Admit(link, player, kept)),
        LoginReply::Rejected(why) => Some(ServerCommand::Reject(link, why)),
    }
}

impl<G: Game, A: Authenticator, E: LinkEndpoint> ServerHost<G, A, E> {
    /// A server at tick 0; populate or restore its world before the first step.
    pub fn new(
        game: Arc<G>,
        settings: ServerSettings,
        endpoint: E,
        authenticator: A,
    ) -> ServerHost<G, A, E> {
        let mut server = Server::new(game, settings, Box::new(|| ResumeKey(secret())));
        server.simulation.seed = secret_seed();
        ServerHost {
            server,
            endpoint,
            authenticator,
            follow_congestion: true,
            round: settings.rounds.length,
            driver: Driver::new(),
            happened: VecDeque::new(),
            observers: Observers::default(),
        }
    }

    /// The last tick.
    pub fn tick(&self) -> Tick {
        self.server.simulation.publisher.store.tick()
    }

    /// Players' events since the last call: joined, left, rejected. Only the newest [`MAX_HAPPENED`] are kept.
    pub fn drain_events(&mut self) -> std::collections::vec_deque::Drain<'_, ServerEvent> {
        self.happened.drain(..)
    }

    /// Events of operators' pages since the last call: connected, message, closed. Answer with
    /// [`Endpoint::send_message`]. Only the newest [`MAX_OBSERVER_EVENTS`](super::MAX_OBSERVER_EVENTS) are kept.
    pub fn observers(&mut self) -> std::collections::vec_deque::Drain<'_, LinkEvent> {
        self.observers.events.drain(..)
    }

    /// The driver, the node, its endpoint, and its host's side.
    fn parts(&mut self) -> (&mut Driver, &mut Server<G>, &mut E, Surroundings<'_, A>) {
        let surroundings = Surroundings {
            authenticator: &mut self.authenticator,
            happened: &mut self.happened,
            observers: &mut self.observers,
            measured: self.follow_congestion.then_some(self.round),
        };
        (&mut self.driver, &mut self.server, &mut self.endpoint, surroundings)
    }

    /// Receives until the next round is due, and plays it.
    pub fn step(&mut self) -> Result<StepTimings, Error> {
        let (driver, server, endpoint, mut around) = self.parts();
        let timings = driver.step(server, endpoint, &mut around)?;
        self.end_round(timings);
        Ok(timings)
    }

    /// The same without waiting, for programs with their own loop: receives what has arrived, and plays a round if one
    /// is due. Call it more often than rounds occur.
    pub fn poll_step(&mut self) -> Result<Option<StepTimings>, Error> {
        let (driver, server, endpoint, mut around) = self.parts();
        let played = driver.poll(server, endpoint, &mut around)?;
        if let Some(timings) = played {
            self.end_round(timings);
        }
        Ok(played)
    }

    fn end_round(&mut self, timings: StepTimings) {
        let tick = self.tick();
        self.authenticator.on_round(&mut self.server.simulation, tick);
        let took = ServerCommand::EndRound(timings.busy());
        self.driver.command(&mut self.server, &mut self.endpoint, took);
    }

    /// For a window (see [`Server::show`]), whose rounds are played elsewhere: receives until `until`. Returns the
    /// processing time, without waiting.
    pub fn receive_until(&mut self, until: Instant) -> Result<Duration, Error> {
        let (driver, server, endpoint, mut around) = self.parts();
        driver.receive(server, endpoint, &mut around, until)
    }

    /// For a window: shows a round that another simulation played.
    pub fn show(
        &mut self,
        played: &Simulation<G>,
        happened: &[G::Event],
    ) -> Result<StepTimings, StoreError> {
        let begin = Instant::now();
        let (driver, server, endpoint, mut around) = self.parts();
        driver.with_outbox(endpoint, |out| server.show(played, happened, out.now, out))?;
        Ok(driver.finish(server, endpoint, &mut around, begin))
    }

    /// Ends every session, lets the authenticator keep players' objects, and closes all links within `limit`.
    pub fn close(mut self, limit: Micros) -> Result<A, Error> {
        self.authenticator.on_close(&self.server.simulation);
        let (driver, server, endpoint, mut around) = self.parts();
        driver.command(server, endpoint, ServerCommand::Close);
        driver.finish(server, endpoint, &mut around, Instant::now());
        driver.shutdown(endpoint, limit)?;
        Ok(self.authenticator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_player_that_left_before_it_was_admitted_keeps_its_objects() {
        let (mut authenticator, kept) = (AllowAll::default(), vec![(ObjectId(7), vec![1, 2])]);
        let LoginReply::Accepted(ada, _) = authenticator.enter(Link(1), "ada", b"") else {
            panic!("it is open")
        };
        authenticator.leave(ada, kept.clone());
        for link in 2..4 {
            assert_eq!(
                authenticator.enter(Link(link), "ada", b""),
                LoginReply::Accepted(ada, kept.clone())
            );
        }
    }
}
