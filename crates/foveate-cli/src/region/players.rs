//! How players reach a region server: its links, its pages, and the contact that clients of other servers receive.

use crate::config::region::check_contact;
use crate::config::{Config, Tokens};
use crate::serve;
use crate::web::{self, ShownGame};
use foveate_io::metrics::MetricsBoard;
use foveate_io::region::{RegionHost, session_keys};
use foveate_io::token::{Secret, Verifier};
use foveate_io::{Certificate, Endpoint};
use foveate_node::region::RegionServer;
use foveate_node::session::ServerContact;
use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A server's endpoint for players.
pub struct PlayerEntrance {
    /// Their links.
    pub endpoint: Endpoint,
    /// The contact that clients receive.
    pub contact: ServerContact,
    /// The address of its pages.
    pub web: Option<SocketAddr>,
}

impl PlayerEntrance {
    /// Opens the configured listeners. `contact` replaces the listening addresses in the contact that clients receive.
    pub fn open<G: ShownGame>(
        config: &Config,
        game: &G,
        contact: &[String],
        board: &MetricsBoard,
        reports: Option<PathBuf>,
    ) -> Result<PlayerEntrance, Box<dyn Error + Send + Sync>> {
        let mut endpoint = serve::endpoint(config)?;
        let address = endpoint.address()?;
        let web = match config.web.enabled {
            true => {
                let options = web::options(&config.web, game, board, reports);
                Some(endpoint.listen_web(config.web.listen, options)?)
            }
            false => None,
        };
        let addresses = match contact {
            [] => listened_on(address, web)?,
            given => given.to_vec(),
        };
        check_contact(&addresses)?;
        let certificate = match (&config.certificate, endpoint.certificate_hash()) {
            (Certificate::Development { .. }, Some(hash)) => hash.0.to_vec(),
            _ => Vec::new(),
        };
        let contact = ServerContact { addresses, certificate };
        Ok(PlayerEntrance { endpoint, contact, web })
    }

    /// Lets players into a server.
    pub fn admit<G: ShownGame>(&self, config: &Config, server: RegionServer<G>) -> RegionServer<G> {
        server.with_players(self.contact.clone(), session_keys(), serve::settings(config))
    }
}

/// The contact of a server that clients reach at its listening addresses.
fn listened_on(address: SocketAddr, web: Option<SocketAddr>) -> Result<Vec<String>, String> {
    let all = std::iter::once(address).chain(web);
    if let Some(open) = all.into_iter().find(|it| it.ip().is_unspecified()) {
        return Err(format!(
            "clients cannot be told to connect to {open}: listen on one address, or pass --contact \
             (region.contact) with the address by which players reach this server"
        ));
    }
    let quic = address.to_string();
    Ok([Some(quic), web.map(|web| format!("ws://{web}"))].into_iter().flatten().collect())
}

/// Requires tokens, if the configuration does.
pub fn guard<G: ShownGame>(
    config: &Config,
    host: RegionHost<G>,
) -> Result<RegionHost<G>, Box<dyn Error + Send + Sync>> {
    Ok(match &config.tokens {
        Tokens::Open => host,
        Tokens::Secret(file) => host.with_tokens(Verifier::new(Secret::read(file)?, &config.name)),
    })
}

/// Rejects settings that region servers do not support.
pub fn check(config: &Config) -> Result<(), Box<dyn Error>> {
    if config.view.is_some() {
        return Err("[view]: region servers have the game's own views".into());
    }
    if config.storage.is_some() {
        let instead = "region servers keep the world in their ledger";
        return Err(format!("storage.path: {instead}").into());
    }
    Ok(())
}
