//! The `foveate` program.
//!
//! `foveate serve` is a server, `foveate bots` are its players, `foveate load` measures both;
//! `foveate lab …` runs the laboratory's experiments. Every command prints tables for people; with
//! `--json FILE` it leaves rows for programs, with `--report DIR` a page with plots.

mod arena;
mod bots;
mod crowd;
mod lab;
mod load;
mod meter;
mod serve;
mod truth;
mod usage;

use clap::{Parser, Subcommand};
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
    /// Clients that play by themselves
    Bots(bots::Bots),
    /// What a server costs with so many clients, on this machine
    Load(load::Load),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Lab(command) => lab::run(&command).map_err(Into::into),
        Command::Serve(args) => serve::run(&args),
        Command::Bots(args) => bots::run(&args),
        Command::Load(args) => load::run(&args),
    };
    let done: Result<(), Box<dyn std::error::Error>> = done;
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("foveate: {error}");
            ExitCode::FAILURE
        }
    }
}
