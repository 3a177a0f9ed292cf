//! `cargo xtask play`: builds what is missing and starts the arena with bots.

use std::path::Path;
use std::process::Command;

use crate::error::Error;
use crate::steps::say_and_check;
use crate::{process, web};

/// Bots that play along.
const BOTS: &str = "60";
/// Where the page is.
const PAGE: &str = "127.0.0.1:8080";
/// Players that the world is made for: the bots, and room for a few people.
const PLAYERS: &str = "80";

/// Builds page and program, and plays until interrupted. What is given goes to `foveate serve`.
pub fn run(root: &Path, arguments: &[&str]) -> Result<(), Error> {
    web::build(root)?;
    let build = ["build", "--release", "--package", "foveate-cli", "--bin", "foveate"];
    say_and_check(&mut process::cargo(root, &build))?;
    let mut serve = Command::new(root.join("target/release/foveate"));
    serve.args(["serve", "--bots", BOTS, "--players", PLAYERS, "--web", PAGE, "--observe"]);
    serve.args(["--reports", "reports"]).args(arguments);
    process::check(serve.current_dir(root))
}
