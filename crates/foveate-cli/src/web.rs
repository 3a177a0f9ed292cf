//! What the program serves to browsers.

use crate::config;
use crate::door::MainDoor;
use foveate_io::host::ServerHost;
use foveate_io::metrics::Board;
use foveate_io::web::{Page, Pages, Web};
use foveate_node::Game;
use std::net::SocketAddr;

/// Opens what the configuration has; where it listens.
pub fn open<G: Game>(
    config: &config::Web,
    host: &mut ServerHost<G, MainDoor>,
    board: &Board,
) -> Result<SocketAddr, foveate_io::Error> {
    let web = Web {
        origins: config.origins.clone(),
        observe: config.observe.clone(),
        metrics: config.metrics.then(|| board.clone()),
        ..Web::new(pages(host))
    };
    host.endpoint.listen_web(config.listen, web)
}

/// What every game has for its pages: the schema that client and server must share.
fn pages<G: Game>(host: &ServerHost<G, MainDoor>) -> impl Pages + use<G> {
    let schema = host.server.stage.game.schema().describe();
    move |path: &str| match path {
        "/schema.txt" => Some(Page::fresh("text/plain; charset=utf-8", schema.clone())),
        _ => None,
    }
}
