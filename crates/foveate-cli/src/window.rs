//! A peer's window: pages for a browser on this machine, whose player plays and observes through the peer.
//!
//! The page is a server's and uses the protocol of clients. Behind it is a server without rules (see
//! [`Server::show`](foveate_node::Server::show)), which shows what the peer knows.

use crate::authenticator::MainAuthenticator;
use crate::config;
use crate::observatory::Observatory;
use crate::web;
use foveate_arena::Arena;
use foveate_io::host::ServerHost;
use foveate_io::metrics::MetricsBoard;
use foveate_io::web::Observe;
use foveate_io::{Certificate, Endpoint, EndpointOptions, Error};
use foveate_node::server::ServerSettings;
use foveate_node::{Game, Peer};
use foveate_sync::{Rounds, StoreError};
use foveate_wire::Micros;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long to receive from the browser before it is the turn of the peer's links.
const STEP: Duration = Duration::from_millis(4);
/// How long the session of a page that closed without a message is kept; then another page can join.
const RESUME_FOR: Micros = Micros(2_000_000);

/// The server behind a peer's page.
pub struct PeerWindow {
    host: ServerHost<Arena, MainAuthenticator>,
    observatory: Observatory,
    address: SocketAddr,
}

impl PeerWindow {
    /// Serves pages for the player of this peer.
    pub fn open(
        listen: SocketAddr,
        peer: &Peer<Arena>,
        round: Micros,
    ) -> Result<PeerWindow, Error> {
        let settings = ServerSettings {
            rounds: Rounds::every(round),
            max_players: 1,
            budget: None,
            resume_for: RESUME_FOR,
            ..ServerSettings::default()
        };
        let links = SocketAddr::new(listen.ip(), 0);
        let endpoint =
            Endpoint::server(links, Certificate::development(), EndpointOptions::server())?;
        let door = MainAuthenticator::Peer(peer.player());
        let mut host = ServerHost::new(Arc::clone(&peer.simulation.game), settings, endpoint, door);
        let pages = config::WebConfig {
            enabled: true,
            listen,
            origins: Vec::new(),
            trusted_proxies: Vec::new(),
            metrics: false,
            observe: Observe::Loopback,
        };
        let address = web::open(&pages, &mut host, &MetricsBoard::default(), None)?;
        let observatory = web::observatory("peer", &host);
        Ok(PeerWindow { host, observatory, address })
    }

    /// The address of the pages.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether a player is connected.
    pub fn is_taken(&self) -> bool {
        self.host.server.present_players().any(|present| present.link.is_some())
    }

    /// Receives from the browser for a moment.
    pub fn wait(&mut self) -> Result<(), Error> {
        self.host.receive_until(Instant::now() + STEP).map(|_| ())
    }

    /// Passes the player's inputs and requests to the peer.
    pub fn act(&mut self, peer: &mut Peer<Arena>) {
        // Without a player the bot has the view that every player has at first.
        let chosen = self.host.server.present_players().next().map(|it| (it.view, it.watched));
        let (view, watched) = chosen.unwrap_or_default();
        peer.set_view(view);
        peer.spectate(watched);
        self.host.server.take_inputs(|_, input| {
            peer.input(input);
        });
        for (object, action, by) in self.host.server.take_asks() {
            peer.simulation.ask(object, action, by);
        }
    }

    /// Shows the player the round that the peer has played.
    pub fn show(
        &mut self,
        peer: &Peer<Arena>,
        happened: &[<Arena as Game>::Event],
    ) -> Result<(), StoreError> {
        let spent = self.host.show(&peer.simulation, happened)?;
        self.host.drain_events().for_each(drop);
        web::show(&mut self.observatory, &mut self.host, spent);
        Ok(())
    }

    /// Tells the player that the game is over.
    pub fn close(self) -> Result<(), Error> {
        self.host.close(Micros::from_millis(500)).map(|_| ())
    }
}
