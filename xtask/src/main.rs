//! The workspace's tooling, run as `cargo xtask`.
//!
//! - `cargo xtask bench core` counts the instructions of the core and compares them with the committed figures;
//! - `cargo xtask bench-peers` measures our server beside other ways to build one;
//! - `cargo xtask fuzz` runs every parser of untrusted bytes under a fuzzer;
//! - `cargo xtask play` builds page and program and starts the arena with bots;
//! - `cargo xtask sbom` lists the components of the program;
//! - `cargo xtask test` runs every check in the order of [`steps::STEPS`] and stops at the first failure;
//! - `cargo xtask tidy` checks the tree against the house style and prints one line per finding;
//! - `cargo xtask vectors` rewrites the golden vectors of the wire.
//!
//! It stays simple: each step is a command that can be typed by hand, nothing is cached between runs and nothing is
//! repaired. The path of a run: arguments → chosen steps → child processes or [`tidy`] → one closing line.

mod bench;
mod error;
mod fuzz;
mod lab;
mod peers;
mod play;
mod process;
mod sbom;
mod steps;
mod supply;
mod tidy;
mod vectors;
mod web;

use std::path::PathBuf;
use std::process::ExitCode;

use error::TaskError;

const USAGE: &str = "\
usage: cargo xtask <command>

  bench core       count the core's instructions (needs valgrind); fails above 103 % of the committed figures
  bench core --write
                   write the new figures to their file
  bench-peers [--json FILE] [--clients 100,500,1000] [--rounds 3] [--only LIB,...] [--write]
                   measure our server beside others (foveate, handwritten, raw); --write puts the
                   table into docs/BENCHMARKS.md
  fuzz [--minutes N] [--merge] [TARGET...]
                   run every parser of untrusted bytes under a fuzzer, N minutes each
  play [OPTION...] build page and program, start the arena with bots; options go to `foveate serve`
  play --topology mesh [--nats] [OPTION...]
                   on region servers: threads of one process, or processes with a NATS server
  play --topology peer [OPTION...]
                   the same without a server: a lobby and a dozen peers; options go to `foveate peer`
  sbom [FILE]      list the program's components as a CycloneDX document
  test [NAME...]   run every step, or only the named ones, in their order
  test --list      name the steps
  tidy             check the tree against the house style
  vectors          rewrite the golden vectors of the wire";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<(), TaskError> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["bench", "core"] => bench::core(&root()?, false),
        ["bench", "core", "--write"] => bench::core(&root()?, true),
        ["bench-peers", arguments @ ..] => peers::run(&root()?, arguments, USAGE),
        ["fuzz", words @ ..] => fuzz::run(&root()?, words),
        ["play", arguments @ ..] => play::run(&root()?, arguments),
        ["sbom"] => sbom::run(&root()?, None),
        ["sbom", file] => sbom::run(&root()?, Some(file)),
        ["test", "--list"] => {
            steps::list();
            Ok(())
        }
        ["test", names @ ..] => steps::run(&root()?, names),
        ["tidy"] => tidy::run(&root()?),
        ["vectors"] => vectors::run(&root()?),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(TaskError::Usage(USAGE)),
    }
}

/// The workspace's root. Determined at run time, so that a copy of the tree that shares its target folder with another
/// one checks itself and not the other.
fn root() -> Result<PathBuf, TaskError> {
    if let Some(package) = std::env::var_os("CARGO_MANIFEST_DIR")
        && let Some(root) = PathBuf::from(package).parent()
    {
        return Ok(root.to_owned());
    }
    std::env::current_dir().map_err(|source| TaskError::Read { path: PathBuf::from("."), source })
}
