//! One client on its own socket.

use std::sync::Arc;
use std::time::{Duration, Instant};

use foveate_node::Client;
use foveate_node::client::News;
use foveate_node::game::{Game, PlayerId, World};
use foveate_node::session::JoinedPlayer;
use foveate_wire::{Micros, ObjectId};

use super::{ClientsHost, EndCause, SessionEnd};
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::identity::Trust;
use crate::options::EndpointOptions;
use crate::server_address::{ServerAddress, ServerAddressError};

/// Time after which connecting to a server that does not answer fails, whatever its link does.
const CONNECT_FOR: Duration = Duration::from_secs(15);
/// How long one step takes while connecting.
const CONNECT_STEP: Duration = Duration::from_millis(5);
/// How long leaving may take.
const LEAVE_FOR: Micros = Micros(1_000_000);

/// Why a client could not connect, or no longer is connected.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The text is not a server address. Nothing was sent.
    #[error(transparent)]
    Address(#[from] ServerAddressError),
    /// The session did not start, or ended.
    #[error(transparent)]
    Ended(#[from] Box<SessionEnd>),
    /// The socket failed, or could not be opened.
    #[error(transparent)]
    Io(#[from] Error),
}

/// Makes a [`ClientHost`]. By default there is no token, and the system's certificates are trusted.
#[must_use = "a client begins with `connect` or `start`"]
pub struct ClientBuilder<G: Game> {
    game: Arc<G>,
    name: String,
    token: Vec<u8>,
    trust: Trust,
    options: EndpointOptions,
}

impl<G: Game> ClientBuilder<G> {
    /// Sets which servers to trust.
    pub fn trust(mut self, trust: Trust) -> ClientBuilder<G> {
        self.trust = trust;
        self
    }

    /// Sets the connect token, as the server's operator issues it.
    pub fn token(mut self, token: impl Into<Vec<u8>>) -> ClientBuilder<G> {
        self.token = token.into();
        self
    }

    /// Sets limits, timeouts and conditions of the link.
    pub fn options(mut self, options: EndpointOptions) -> ClientBuilder<G> {
        self.options = options;
        self
    }

    /// Joins, and blocks until the server has admitted or rejected the player.
    pub fn connect(self, server: &str) -> Result<ClientHost<G>, ClientError> {
        let (mut client, deadline) = (self.start(server)?, Instant::now() + CONNECT_FOR);
        while client.joined().is_none() {
            let timed_out = Instant::now() >= deadline;
            if timed_out {
                let cause = EndCause::TimedOut;
                let server = server.parse()?;
                return Err(Box::new(SessionEnd { server, address: None, cause }).into());
            }
            client.run(Instant::now() + CONNECT_STEP, |_, _| G::Input::default())?;
        }
        Ok(client)
    }

    /// Joins without waiting: [`ClientHost::joined`] returns the player once admitted, and a step fails if the server
    /// rejects it. A host name is still resolved, which blocks.
    pub fn start(self, server: &str) -> Result<ClientHost<G>, ClientError> {
        let server: ServerAddress = server.parse()?;
        let anywhere = std::net::SocketAddr::from(([0, 0, 0, 0], 0));
        let endpoint = Endpoint::client(anywhere, &self.trust, self.options)?;
        let mut clients = ClientsHost::new(endpoint);
        clients.join(self.game, server, &self.name, &self.token)?;
        Ok(ClientHost { clients })
    }
}

/// A single client, for one player.
pub struct ClientHost<G: Game> {
    clients: ClientsHost<G>,
}

impl<G: Game> ClientHost<G> {
    /// Joins a server as `name`, and blocks until the server has admitted or rejected the player.
    ///
    /// `server` is `HOST:PORT`. Its certificate must be for that host, unless its hash is pinned.
    pub fn connect(
        game: Arc<G>,
        server: &str,
        name: &str,
        trust: Trust,
    ) -> Result<ClientHost<G>, ClientError> {
        ClientHost::builder(game, name).trust(trust).connect(server)
    }

    /// Configures a client before it connects.
    pub fn builder(game: Arc<G>, name: &str) -> ClientBuilder<G> {
        let options = EndpointOptions::client();
        let (name, token, trust) = (name.into(), Vec::new(), Trust::System);
        ClientBuilder { game, name, token, trust, options }
    }

    /// The client: replicas, prediction, figures.
    pub fn client(&self) -> &Client<G> {
        &self.clients.players()[0].client
    }

    /// The player and its avatar, once the server has admitted it.
    pub fn joined(&self) -> Option<JoinedPlayer> {
        self.client().joined()
    }

    /// Receives until the next round is due, and plays it: `decide` is given the world and the avatar, and returns the
    /// player's input. Fails once the session has ended.
    pub fn step(
        &mut self,
        decide: impl FnMut(&World<'_>, ObjectId) -> G::Input,
    ) -> Result<(), ClientError> {
        let (_, round) = self.client().time_now(self.clients.now());
        self.run(Instant::now() + Duration::from_micros(round.0), decide)
    }

    /// The same without waiting, for programs with their own loop. Call it more often than rounds occur.
    pub fn poll_step(
        &mut self,
        decide: impl FnMut(&World<'_>, ObjectId) -> G::Input,
    ) -> Result<(), ClientError> {
        self.run(Instant::now(), decide)
    }

    fn run(
        &mut self,
        until: Instant,
        mut decide: impl FnMut(&World<'_>, ObjectId) -> G::Input,
    ) -> Result<(), ClientError> {
        self.clients.step(until, |_, world, me, _| decide(world, me))?;
        match &self.clients.players()[0].ended {
            Some(end) => Err(Box::new(end.clone()).into()),
            None => Ok(()),
        }
    }

    /// Calls `look` with the world as the player sees it: replicas predicted to now, and the avatar as predicted from
    /// the player's inputs.
    pub fn see<R>(&self, look: impl FnOnce(&World<'_>) -> R) -> R {
        self.client().see(self.clients.now(), look)
    }

    /// The next event since the last call, oldest first.
    pub fn poll(&mut self) -> Option<News<G::Event>> {
        self.clients.player(0).client.poll()
    }

    /// Requests an action of an object. It is sent with the next step.
    pub fn ask(&mut self, object: ObjectId, action: G::Action) {
        self.clients.ask(0, object, action);
    }

    /// Requests another of the game's views.
    pub fn set_view(&mut self, which: u8) {
        self.clients.set_view(0, which);
    }

    /// Also looks from another object, if the game allows it; with `None`, only from the avatar.
    pub fn watch(&mut self, object: Option<ObjectId>) {
        self.clients.watch(0, object);
    }

    /// Asks for a player's name; [`News::Named`] answers.
    pub fn who(&mut self, player: PlayerId) {
        self.clients.who(0, player);
    }

    /// Leaves the session for good.
    pub fn leave(mut self) -> Result<(), Error> {
        self.clients.leave(LEAVE_FOR)
    }
}
