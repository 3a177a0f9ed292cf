//! The `foveate` program.
//!
//! `foveate lab …` runs the laboratory's experiments. Every command prints tables for people; with
//! `--json FILE` it leaves rows for programs, with `--report DIR` a page with plots.

mod arena;
mod lab;
mod meter;

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
}

fn main() -> ExitCode {
    let Command::Lab(command) = Cli::parse().command;
    match lab::run(&command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("foveate: {error}");
            ExitCode::FAILURE
        }
    }
}
