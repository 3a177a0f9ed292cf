//! The `foveate` program.
//!
//! `foveate serve` runs a server, `foveate mesh` a world on several of them, and `foveate bots` players for them.
//! `foveate load` measures both, and `foveate soak` plays for hours. `foveate lab …` runs the laboratory's experiments.
//! Every command prints tables for people; with `--json FILE` it writes rows for programs, with `--report DIR` a page
//! with plots. `foveate config …` shows and checks a server's configuration; `foveate token` issues a connect token.

mod arena;
mod authenticator;
mod bots;
mod config;
mod crowd;
mod hostile;
mod lab;
mod load;
#[cfg(feature = "peer")]
mod lobbies;
mod lobby;
mod mesh;
mod monitor;
mod observatory;
#[cfg(feature = "peer")]
mod peer;
#[cfg(feature = "peer")]
mod peer_monitor;
mod region;
mod serve;
#[cfg(feature = "peer")]
mod silac;
mod site;
mod soak;
mod threads;
mod token;
mod truth;
mod usage;
mod web;
#[cfg(feature = "peer")]
mod window;
mod world_args;

use clap::{Parser, Subcommand};
use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;

/// Foveated networking for multiplayer games.
#[derive(Parser)]
#[command(name = "foveate", version, about)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Experiments in virtual time
    Lab(lab::Lab),
    /// A dedicated server
    Serve(serve::Serve),
    /// A world on several region servers, as threads of one process
    Mesh(mesh::MeshArgs),
    /// A region server of a world that runs on several machines
    #[cfg(feature = "nats")]
    Region(region::process::RegionArgs),
    /// Clients controlled by programs
    Bots(bots::BotsArgs),
    /// Measure a server with many clients on this machine
    Load(load::Load),
    /// Run a server for hours, with bots that join and leave
    Soak(soak::Soak),
    /// A list of games without a server
    Lobby(lobby::LobbyArgs),
    /// A game without a server
    #[cfg(feature = "peer")]
    Peer(peer::PeerArgs),
    /// The server's configuration
    #[command(subcommand)]
    Config(Config),
    /// Issue a connect token
    Token(token::TokenArgs),
}

#[derive(Subcommand)]
enum Config {
    /// Check a file and show what it means
    Check {
        /// The file
        file: PathBuf,
    },
    /// Print a file with all defaults, explained
    Default,
}

fn configuration(command: &Config) -> Result<(), Box<dyn Error>> {
    match command {
        Config::Check { file } => {
            println!("{}", config::Config::load(file, config::CliOverrides::default())?)
        }
        Config::Default => print!("{}", config::DEFAULT),
    }
    Ok(())
}

fn main() -> ExitCode {
    let done = match &Cli::parse().command {
        Command::Lab(command) => lab::run(command),
        Command::Serve(args) => serve::run(args),
        Command::Mesh(args) => mesh::run(args),
        #[cfg(feature = "nats")]
        Command::Region(args) => region::process::run(args),
        Command::Bots(args) => bots::run(args),
        Command::Load(args) => load::run(args),
        Command::Soak(args) => soak::run(args),
        Command::Lobby(args) => lobby::run(args),
        #[cfg(feature = "peer")]
        Command::Peer(args) => peer::run(args),
        Command::Config(command) => configuration(command),
        Command::Token(command) => token::run(command),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("foveate: {error}");
            ExitCode::FAILURE
        }
    }
}
