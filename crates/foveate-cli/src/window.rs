//! A peer's window: pages for a browser of this machine, whose player plays and observes through the peer.
//!
//! The page is that of a server and speaks the protocol of clients. Behind it is a server without rules
//! (see [`Server::show`](foveate_node::Server::show)): it shows what the peer knows.

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

/// How long the browser is listened to before the peer's links have their turn.
const STEP: Duration = Duration::from_millis(4);
/// A page that was closed without a word may be opened again after so long.
const RESUME_FOR: Micros = Micros(2_000_000);

/// Where a peer's player sits.
pub struct PeerWindow {
    host: ServerHost<Arena, MainAuthenticator>,
    observatory: Observatory,
    address: SocketAddr,
}

impl PeerWindow {
    /// Serves pages there, for the player of this peer.
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
        let door = MainAuthenticator::of_peer(peer.player());
        let mut host = ServerHost::new(Arc::clone(&peer.simulation.game), settings, endpoint, door);
        let pages = config::WebConfig {
            enabled: true,
            listen,
            origins: Vec::new(),
            metrics: false,
            observe: Observe::Loopback,
        };
        let address = web::open(&pages, &mut host, &MetricsBoard::default(), None)?;
        let observatory = web::observatory("peer", &host);
        Ok(PeerWindow { host, observatory, address })
    }

    /// Where the pages are.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether a player is connected.
    pub fn is_taken(&self) -> bool {
        self.host.server.present_players().any(|present| present.link.is_some())
    }

    /// Listens to the browser for a moment.
    pub fn wait(&mut self) -> Result<(), Error> {
        self.host.receive_until(Instant::now() + STEP).map(|_| ())
    }

    /// The peer does what the player does.
    pub fn act(&mut self, peer: &mut Peer<Arena>) {
        // Without a player the bot looks as everybody does at first.
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

    /// The player sees the round that the peer has played.
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

    /// Tells the player that it is over.
    pub fn close(self) -> Result<(), Error> {
        self.host.close(Micros::from_millis(500)).map(|_| ())
    }
}
