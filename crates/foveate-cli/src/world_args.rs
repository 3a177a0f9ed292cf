//! Options that all commands with a world share.

use crate::config::{CliOverrides, Config};
use crate::serve::Rules;
use foveate_io::web::Observe;
use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub struct WorldArgs {
    /// Configuration file; `foveate config default` prints one. Options given here override it
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// Address to listen on for players
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Rules of the game
    #[arg(long, value_enum, default_value = "arena")]
    pub game: Rules,
    /// Most players; the world is made for this many
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub players: Option<u32>,
    /// Seed of the world
    #[arg(long)]
    seed: Option<u64>,
    /// Serve pages by HTTP at this address
    #[arg(long)]
    web: Option<SocketAddr>,
    /// Let operators on this machine observe everything, on a page of --web
    #[arg(long)]
    observe: bool,
}

impl WorldArgs {
    /// The configuration with these options applied. Without a file nothing is configured, not even which players may
    /// join.
    pub fn settle(&self) -> Result<Config, Box<dyn Error>> {
        let told = CliOverrides { listen: self.listen, web: self.web };
        let mut config = match &self.config {
            Some(file) => Config::load(file, told)?,
            None => Config::parse(Path::new("defaults"), "", told)?,
        };
        config.seed = self.seed.unwrap_or(config.seed);
        config.limits.max_links = self.players.unwrap_or(config.limits.max_links);
        if self.observe {
            if !config.web.listen.ip().is_loopback() {
                return Err(
                    "--observe is for loopback; elsewhere see [web] in the configuration".into()
                );
            }
            config.web.observe = Observe::Loopback;
        }
        Ok(config)
    }
}
