//! The page: building and testing it with npm, and the browser for the last tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use crate::error::TaskError;
use crate::process;
use crate::steps::{Outcome, program, say_and_check};

/// Names of the Chromium program on various systems.
const BROWSERS: &[&str] = &["chromium", "chromium-browser", "google-chrome"];
/// The command that installs it on Debian.
const INSTALL: &str =
    "DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends chromium";

/// Installs the page's packages from the lock file, unless they are installed already.
pub fn install(root: &Path) -> Result<(), TaskError> {
    let written = |path: &str| std::fs::metadata(root.join(path)).and_then(|it| it.modified()).ok();
    // npm writes this file last.
    let installed = written("web/node_modules/.package-lock.json");
    if installed.is_some() && installed >= written("web/package-lock.json") {
        return Ok(());
    }
    say_and_check(&mut npm(root, &["ci", "--no-audit", "--no-fund"]))
}

/// Builds the page, which the program then embeds.
pub fn build(root: &Path) -> Result<(), TaskError> {
    install(root)?;
    say_and_check(&mut npm(root, &["run", "build"]))
}

/// Builds the page unless it is newer than all its sources: a new page causes the program to be rebuilt, too.
pub fn build_if_stale(root: &Path) -> Result<(), TaskError> {
    let built =
        std::fs::metadata(root.join("web/app/dist/index.html")).and_then(|it| it.modified());
    let parts = ["web/package-lock.json", "web/app", "web/client"];
    let newest = parts.iter().filter_map(|part| last_change(&root.join(part))).max();
    match (built.ok(), newest) {
        (Some(built), Some(newest)) if built >= newest => install(root),
        _ => build(root),
    }
}

/// When a file, or the newest file in a folder, was written, without build output.
fn last_change(path: &Path) -> Option<SystemTime> {
    let made = ["dist", "node_modules", "test"];
    if path.file_name().is_some_and(|name| made.iter().any(|made| name == *made)) {
        return None;
    }
    if path.is_dir() {
        let inside = std::fs::read_dir(path).ok()?;
        return inside.flatten().filter_map(|it| last_change(&it.path())).max();
    }
    std::fs::metadata(path).and_then(|it| it.modified()).ok()
}

/// Checks types and runs tests of everything under `web/`.
pub fn check(root: &Path) -> Result<Outcome, TaskError> {
    build_if_stale(root)?;
    say_and_check(&mut npm(root, &["run", "check"]))?;
    // A hundred thousand packets of a real session, which the tests then read.
    let mut record = Command::new(program(root, "examples/packets")?);
    say_and_check(record.args(["target/mirror", "100000"]).current_dir(root))?;
    say_and_check(&mut npm(root, &["test"]))?;
    Ok(Outcome::Passed)
}

/// Tests the page in a real browser with the real program; skipped, with the reason, if no browser is available.
pub fn browse(root: &Path) -> Result<Outcome, TaskError> {
    let Some(browser) = browser().or_else(|| fetch_browser(root)) else {
        return Ok(Outcome::Skipped(
            "there is no Chromium, and it cannot be installed here".into(),
        ));
    };
    install(root)?;
    let program = program(root, "foveate")?;
    let mut tests = npm(root, &["run", "e2e"]);
    say_and_check(tests.env("CHROMIUM", browser).env("FOVEATE_BIN", program))?;
    Ok(Outcome::Passed)
}

fn npm(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("npm");
    command.args(arguments).current_dir(root.join("web"));
    command
}

fn browser() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from).filter(|path| path.is_file());
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&paths).collect();
    let everywhere = BROWSERS.iter().flat_map(|name| folders.iter().map(move |it| it.join(name)));
    named.or_else(|| everywhere.into_iter().find(|path| path.is_file()))
}

fn fetch_browser(root: &Path) -> Option<PathBuf> {
    println!("Chromium is missing; installing it once");
    let update = process::parse(root, "apt-get update --quiet");
    for mut command in [update, process::parse(root, INSTALL)] {
        if let Err(error) = say_and_check(&mut command) {
            println!("{error}");
        }
    }
    browser()
}
