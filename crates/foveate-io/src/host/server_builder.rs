//! Builders for servers with the usual settings.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use foveate_node::game::{Game, World};
use foveate_node::server::ServerSettings;
use foveate_node::{Simulation, WorldSeed};
use foveate_sync::interest::{Policy, View, ViewError};
use foveate_sync::{Rounds, StoreError, Threads, ThreadsError};
use foveate_wire::{Bytes, Micros};

use super::{Accounts, Authenticator, ServerHost};
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::identity::{Certificate, CertificateHash};
use crate::options::EndpointOptions;
use crate::token::Verifier;

/// The name of a policy that [`ServerBuilder::policy`] sets.
const OWN_POLICY: &str = "server's own";

/// Why a server or a peer was not started. Nothing is left open.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address could not be resolved.
    #[error("cannot resolve the address to listen on: {0}")]
    Address(std::io::Error),
    /// A socket, certificate or listener failed.
    #[error(transparent)]
    Io(#[from] Error),
    /// The game's initial objects do not fit its schema, or there are too many.
    #[error("cannot create the world: {0}")]
    World(#[from] StoreError),
    /// A view, the game's or the given one, cannot be used.
    #[error("view 0: {0}")]
    View(#[from] ViewError),
    /// The storage file cannot be used.
    #[cfg(feature = "sqlite")]
    #[error(transparent)]
    Storage(#[from] crate::storage::StorageError),
    /// The system could not start a thread.
    #[error(transparent)]
    Threads(#[from] ThreadsError),
    /// A peer's key could not be made or read.
    #[cfg(feature = "peer")]
    #[error(transparent)]
    Key(#[from] crate::keys::KeyError),
    /// A text does not name a peer.
    #[cfg(feature = "peer")]
    #[error(transparent)]
    PeerAddress(#[from] super::PeerAddressError),
}

/// The first address of a name.
pub(super) fn resolve(address: impl ToSocketAddrs) -> Result<SocketAddr, StartError> {
    let none = || StartError::Address(std::io::Error::other("the name has no address"));
    address.to_socket_addrs().map_err(StartError::Address)?.next().ok_or_else(none)
}

/// Rounds at this rate.
pub(super) fn rounds(hz: u32) -> Rounds {
    Rounds::every(Micros(1_000_000 / u64::from(hz.max(1))))
}

/// A pool of `count` threads; 0 means one for each core available to this process.
pub fn threads(count: usize) -> Result<Threads, ThreadsError> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    Threads::new(if count == 0 { cores() } else { count })
}

/// Makes a [`ServerHost`]. By default it has 20 ticks a second, 64 kB/s to each player, up to 1,024 players, a
/// development certificate and the game's own views; any player may join, and nothing is kept on disk.
#[must_use = "a server begins with `bind`"]
pub struct ServerBuilder<G: Game> {
    game: Arc<G>,
    settings: ServerSettings,
    certificate: Certificate,
    options: Option<EndpointOptions>,
    policy: Option<Arc<dyn Policy>>,
    view: Option<View>,
    tokens: Option<Verifier>,
    seed: Option<WorldSeed>,
    threads: usize,
    #[cfg(feature = "sqlite")]
    storage: Option<std::path::PathBuf>,
    #[cfg(feature = "web")]
    web: Option<(Result<SocketAddr, StartError>, crate::web::WebOptions)>,
}

impl<G: Game> ServerBuilder<G> {
    /// Sets the ticks per second.
    pub fn tick_rate(mut self, hz: u32) -> ServerBuilder<G> {
        self.settings.rounds = rounds(hz);
        self
    }

    /// Sets the bytes per second to each player; `None` for as many as the link carries.
    pub fn budget(mut self, per_second: Option<Bytes>) -> ServerBuilder<G> {
        let round = self.settings.rounds.length.0;
        let share = |bytes: Bytes| Bytes((u64::from(bytes.0) * round / 1_000_000).max(1) as u32);
        self.settings.budget = per_second.map(share);
        self
    }

    /// Sets the largest number of players.
    pub fn max_players(mut self, count: usize) -> ServerBuilder<G> {
        self.settings.max_players = count;
        self
    }

    /// Sets all settings of the server at once: those of the methods above, timeouts and resources.
    pub fn settings(mut self, settings: ServerSettings) -> ServerBuilder<G> {
        self.settings = settings;
        self
    }

    /// Sets the policy for all players, in place of the game's view 0.
    pub fn policy(mut self, policy: impl Policy + 'static) -> ServerBuilder<G> {
        self.policy = Some(Arc::new(policy));
        self.view = Some(View::custom(OWN_POLICY));
        self
    }

    /// Sets a view in place of the game's view 0.
    pub fn view(mut self, view: View) -> ServerBuilder<G> {
        (self.policy, self.view) = (None, Some(view));
        self
    }

    /// Sets the certificate that clients check. The default is made at every start, and is valid for this machine.
    pub fn certificate(mut self, certificate: Certificate) -> ServerBuilder<G> {
        self.certificate = certificate;
        self
    }

    /// Sets limits, timeouts and conditions of links, exactly as given. By default there are links for
    /// [`max_players`](ServerBuilder::max_players) and places for newcomers, see
    /// [`Limits::for_players`](crate::Limits::for_players).
    pub fn options(mut self, options: EndpointOptions) -> ServerBuilder<G> {
        self.options = Some(options);
        self
    }

    /// Requires a connect token to join.
    pub fn tokens(mut self, verifier: Verifier) -> ServerBuilder<G> {
        self.tokens = Some(verifier);
        self
    }

    /// Sets the RNG seed of the rules, for reproducible runs. By default it comes from the system; players must not
    /// know it.
    pub fn seed(mut self, seed: WorldSeed) -> ServerBuilder<G> {
        self.seed = Some(seed);
        self
    }

    /// Sets the threads for rules and views; 0, the default, means one for each core. What is sent does not depend on
    /// it.
    pub fn threads(mut self, count: usize) -> ServerBuilder<G> {
        self.threads = count;
        self
    }

    /// Keeps players, their objects and the world's in this file, and restores what is in it.
    #[cfg(feature = "sqlite")]
    pub fn storage(mut self, file: impl Into<std::path::PathBuf>) -> ServerBuilder<G> {
        self.storage = Some(file.into());
        self
    }

    /// Serves pages by HTTP at `address` and lets them join, by WebTransport or WebSocket. `/schema.txt` describes the
    /// game's objects for clients in other languages.
    #[cfg(feature = "web")]
    pub fn web(
        mut self,
        address: impl ToSocketAddrs,
        web: crate::web::WebOptions,
    ) -> ServerBuilder<G> {
        self.web = Some((resolve(address), web));
        self
    }

    /// Creates or restores the world, and listens at `address`.
    pub fn bind(mut self, address: impl ToSocketAddrs) -> Result<ServerHost<G>, StartError> {
        let mut simulation = Simulation::new(Arc::clone(&self.game), self.settings.rounds);
        let mut accounts = self.accounts(&mut simulation)?;
        if let Some(verifier) = self.tokens.take() {
            accounts = accounts.with_tokens(verifier);
        }
        self.start(address, accounts, simulation)
    }

    /// The same with a custom authenticator, which also stores players' objects. It replaces
    /// [`tokens`](ServerBuilder::tokens) and `storage`.
    pub fn bind_with<D: Authenticator>(
        self,
        address: impl ToSocketAddrs,
        authenticator: D,
    ) -> Result<ServerHost<G, D>, StartError> {
        let mut simulation = Simulation::new(Arc::clone(&self.game), self.settings.rounds);
        simulation.populate()?;
        self.start(address, authenticator, simulation)
    }

    fn accounts(&self, simulation: &mut Simulation<G>) -> Result<Accounts, StartError> {
        #[cfg(feature = "sqlite")]
        if let Some(file) = &self.storage {
            return Accounts::in_file(file, simulation);
        }
        simulation.populate()?;
        Ok(Accounts::in_memory())
    }

    fn start<D: Authenticator>(
        self,
        address: impl ToSocketAddrs,
        authenticator: D,
        mut simulation: Simulation<G>,
    ) -> Result<ServerHost<G, D>, StartError> {
        let players = u32::try_from(self.settings.max_players).unwrap_or(u32::MAX);
        let options = self.options.unwrap_or_else(|| {
            let options = EndpointOptions::server();
            EndpointOptions { limits: options.limits.clone().for_players(players), ..options }
        });
        let endpoint = Endpoint::server(resolve(address)?, self.certificate, options)?;
        let mut host = ServerHost::new(self.game, self.settings, endpoint, authenticator);
        simulation.seed = self.seed.unwrap_or(host.server.simulation.seed);
        simulation.publisher.set_threads(threads(self.threads)?);
        host.server.simulation = simulation;
        if let Some(policy) = self.policy {
            host.server.add_policy(OWN_POLICY, policy);
        }
        if let Some(view) = self.view {
            host.server.set_first_view(view)?;
        }
        #[cfg(feature = "web")]
        if let Some((address, web)) = self.web {
            host.listen_web(address?, web)?;
        }
        Ok(host)
    }
}

impl<G: Game> ServerHost<G> {
    /// A server with a new world and the default settings. Port 0 takes any free port.
    pub fn bind(game: Arc<G>, address: impl ToSocketAddrs) -> Result<ServerHost<G>, StartError> {
        ServerHost::builder(game).bind(address)
    }

    /// Configures a server before it starts.
    pub fn builder(game: Arc<G>) -> ServerBuilder<G> {
        ServerBuilder {
            game,
            settings: ServerSettings::default(),
            certificate: Certificate::development(),
            options: None,
            policy: None,
            view: None,
            tokens: None,
            seed: None,
            threads: 0,
            #[cfg(feature = "sqlite")]
            storage: None,
            #[cfg(feature = "web")]
            web: None,
        }
    }
}

impl<G: Game, D: Authenticator> ServerHost<G, D> {
    /// The address at which it listens.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.endpoint.address()
    }

    /// The hash of a development certificate, for clients to pin.
    pub fn certificate_hash(&self) -> Option<CertificateHash> {
        self.endpoint.certificate_hash()
    }

    /// The world after the last tick.
    pub fn world(&self) -> World<'_> {
        self.server.simulation.world()
    }

    /// Serves pages by HTTP at `address` and lets them join. `/schema.txt` describes the game's objects, unless the
    /// pages define that path. Returns the address.
    #[cfg(feature = "web")]
    pub fn listen_web(
        &mut self,
        address: SocketAddr,
        web: crate::web::WebOptions,
    ) -> Result<SocketAddr, Error> {
        use crate::web::{Page, WebOptions};
        let schema = self.server.simulation.game.schema().describe();
        let schema = Page::fresh("text/plain; charset=utf-8", schema);
        let WebOptions { pages, origins, trusted_proxies, observe, metrics } = web;
        let pages = move |path: &str| {
            pages.page(path).or_else(|| (path == "/schema.txt").then(|| schema.clone()))
        };
        self.endpoint.listen_web(
            address,
            WebOptions { pages: Box::new(pages), origins, trusted_proxies, observe, metrics },
        )
    }
}
