//! The supply step: `cargo deny` over the dependencies, with the rules of `deny.toml`.

use std::path::Path;

use crate::error::TaskError;
use crate::process;
use crate::steps::{Outcome, say_and_check};

/// Checks without a network.
const CHECKS: &str = "cargo deny --workspace check bans licenses sources";
/// Needs a database that is downloaded, so it runs only on request.
const ADVISORIES: &str = "cargo deny --workspace check advisories";
/// The variable that requests [`ADVISORIES`] when set to `1`.
const REQUEST: &str = "FOVEATE_ADVISORIES";

/// Building the tool with optimisation takes far longer than it saves on a graph of our size.
const INSTALL: &str = "CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off \
     CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 cargo install cargo-deny --locked";

/// Checks the dependencies. Skipped, with the reason, if the tool is missing and cannot be installed.
pub fn run(root: &Path) -> Result<Outcome, TaskError> {
    if !installed(root) {
        println!("cargo deny is missing; installing it once");
        if let Err(error) = say_and_check(&mut process::parse(root, INSTALL)) {
            return Ok(Outcome::Skipped(format!("cargo deny cannot be installed here ({error})")));
        }
        if !installed(root) {
            let why = "cargo deny is installed, but not where cargo looks for it; see PATH";
            return Ok(Outcome::Skipped(why.to_owned()));
        }
    }
    say_and_check(&mut process::parse(root, CHECKS))?;
    if std::env::var_os(REQUEST).is_some_and(|value| value == "1") {
        say_and_check(&mut process::parse(root, ADVISORIES))?;
    } else {
        println!("advisories: not asked for; {REQUEST}=1 fetches the database and checks them");
    }
    Ok(Outcome::Passed)
}

fn installed(root: &Path) -> bool {
    process::succeeds(&mut process::cargo(root, &["deny", "--version"]))
}
