//! What the program serves to browsers: pages, the game's documents, and the observatory.

use crate::authenticator::MainAuthenticator;
use crate::config;
use crate::crowd::CrowdGame;
use crate::observatory::Observatory;
use crate::site::Site;
use foveate_arena::{Arena, ArenaDocument};
use foveate_io::LinkEvent;
use foveate_io::host::ServerHost;
use foveate_io::metrics::MetricsBoard;
use foveate_io::web::WebOptions;
use foveate_node::Game;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// A game with a name and a description for pages.
pub trait ShownGame: Game {
    const NAME: &'static str;

    /// The path and contents of the world's description.
    fn document(&self) -> Option<(&'static str, Value)>;
}

impl ShownGame for Arena {
    const NAME: &'static str = "arena";

    fn document(&self) -> Option<(&'static str, Value)> {
        let document = serde_json::to_value(ArenaDocument::of(self));
        document.ok().map(|document| ("/arena.json", document))
    }
}

impl ShownGame for CrowdGame {
    const NAME: &'static str = "crowd";

    fn document(&self) -> Option<(&'static str, Value)> {
        None
    }
}

/// Opens the configured web listener, and returns its address.
pub fn open<G: ShownGame>(
    config: &config::WebConfig,
    host: &mut ServerHost<G, MainAuthenticator>,
    board: &MetricsBoard,
    reports: Option<PathBuf>,
) -> Result<SocketAddr, foveate_io::Error> {
    let web = options(config, &*host.server.simulation.game, board, reports);
    host.listen_web(config.listen, web)
}

/// What browsers get, as the configuration has it.
pub fn options<G: ShownGame>(
    config: &config::WebConfig,
    game: &G,
    board: &MetricsBoard,
    reports: Option<PathBuf>,
) -> WebOptions {
    let schema = game.schema().describe();
    let mut site = Site::new(reports).with("/schema.txt", "text/plain; charset=utf-8", schema);
    if let Some((path, document)) = game.document() {
        site = site.with(path, "application/json", document.to_string());
    }
    WebOptions {
        origins: config.origins.clone(),
        trusted_proxies: config.trusted_proxies.clone(),
        observe: config.observe.clone(),
        metrics: config.metrics.then(|| board.clone()),
        ..WebOptions::new(site)
    }
}

/// An observatory of a server; the configuration decides which operators may connect.
pub fn observatory<G: ShownGame>(
    name: &str,
    host: &ServerHost<G, MainAuthenticator>,
) -> Observatory {
    let document = host.server.simulation.game.document().map(|(_, document)| Arc::new(document));
    Observatory::new(name, G::NAME, document)
}

/// Handles operators' events and commands, and sends them the round.
pub fn show<G: ShownGame>(
    observatory: &mut Observatory,
    host: &mut ServerHost<G, MainAuthenticator>,
    spent: foveate_io::host::StepTimings,
) {
    let events: Vec<LinkEvent> = host.observers().collect();
    for event in events {
        match event {
            LinkEvent::Connected { link, .. } => observatory.connected(link, host),
            LinkEvent::Message { link, bytes } => observatory.message(link, &bytes, host),
            LinkEvent::Closed { link, .. } => observatory.closed(link, host),
            LinkEvent::Datagram { .. } => {}
        }
    }
    observatory.round(host, spent);
}
