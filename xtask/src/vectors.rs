//! `cargo xtask vectors`: rewrites the golden vectors.
//!
//! The test that compares the code with them also writes them, so that both have one source; this only lets it write.
//! New vectors for old states are a change of the wire: check the difference before it is committed.

use std::path::Path;

use crate::error::TaskError;
use crate::process;
use crate::steps::say_and_check;

/// The comparing tests, told to write instead: the wire's, the direct path's, and the arena's for mirrors of its rules.
const WRITE: [&str; 3] = [
    "FOVEATE_BLESS=1 cargo test --quiet --package foveate-wire --lib golden_vectors_still_hold",
    "FOVEATE_BLESS=1 cargo test --quiet --package foveate-io --lib direct_vectors_still_hold",
    "FOVEATE_BLESS=1 cargo test --quiet --package foveate-arena --test mirror arena_vectors_still_hold",
];

/// Writes the vectors, then lets the second reader check them if Python is available.
pub fn run(root: &Path) -> Result<(), TaskError> {
    for command in WRITE {
        say_and_check(&mut process::parse(root, command))?;
    }
    if !process::succeeds(&mut process::parse(root, "python3 --version")) {
        println!("there is no python3 here: the second reader did not check them");
        return Ok(());
    }
    say_and_check(&mut process::parse(root, "python3 vectors/check.py"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_runs_the_test_that_compares() {
        for line in WRITE {
            let command = process::parse(Path::new("."), line);
            assert!(process::show(&command).ends_with("_vectors_still_hold"));
            let variables: Vec<_> = command.get_envs().filter(|(_, set)| set.is_some()).collect();
            assert_eq!(variables, [("FOVEATE_BLESS".as_ref(), Some("1".as_ref()))]);
        }
    }
}
