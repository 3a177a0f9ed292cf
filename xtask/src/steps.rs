//! `cargo xtask test`: the list of steps, and the loop that runs them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::error::TaskError;
use crate::{lab, process, supply, tidy, web};

/// Every step, in the order in which they run: cheap and informative ones first. To add a check, add one line here.
pub const STEPS: &[Step] = &[
    Step::command("fmt", "cargo fmt --all --check"),
    Step::call("tidy", "the house style", |root| tidy::run(root).map(done)),
    // Before anything is compiled, since the program embeds the page and would otherwise be built a second time.
    Step::call("page", "the build of the page, unless it is up to date", |root| {
        web::build_if_stale(root).map(done)
    }),
    Step::command(
        "clippy",
        "cargo clippy --workspace --all-targets --features foveate/storage,foveate/web -- -D warnings",
    ),
    Step::call("tests", "unit, integration and documentation tests", tests),
    // The only step that builds this feature, which takes minutes. It leaves out the peers' libraries, which would
    // otherwise be built a second time. Without nats-server the tests print a message.
    Step::command(
        "nats",
        "cargo test -p foveate-io -p foveate-cli --no-default-features --features foveate-cli/nats --test nats",
    ),
    Step::call("web", "types and tests of the page", web::check),
    Step::call("browser", "the page in Chromium against the program", web::browse),
    Step::call("lab", "every lab command, short, with its result checked", lab::run),
    Step::command("doc", "RUSTDOCFLAGS=-Dwarnings cargo doc --workspace --no-deps"),
    // The program depends on crates that are not published (`sources`), so it is not published either. Makes every
    // package that would be published, without asking a registry about our own: packages of the workspace find each
    // other in a temporary overlay of cargo, and `--no-verify` skips compiling them again. It still catches a path
    // dependency without a version, and a missing readme or licence file. A dirty tree is the usual state before a
    // commit.
    Step::command(
        "package",
        "cargo package --workspace --exclude xtask --exclude foveate-cli --exclude foveate-gvo --exclude foveate-silac --no-verify --allow-dirty --quiet",
    ),
    Step::call("deny", "licences, bans and sources of the dependencies", supply::run),
];

/// Every crate, and the features of the façade that no other crate enables.
const WHOLE: &[&str] = &["--workspace", "--features", "foveate/storage,foveate/web"];

/// How a step ended, if it did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It ran without findings.
    Passed,
    /// It could not run here, for the given reason; that is not a failure.
    Skipped(String),
}

/// One check of `cargo xtask test`.
pub struct Step {
    /// The argument that runs it alone.
    pub name: &'static str,
    /// For the heading: the command itself, if there is only one.
    about: &'static str,
    action: Action,
}

enum Action {
    Command,
    Call(fn(&Path) -> Result<Outcome, TaskError>),
}

impl Step {
    /// A step that is one command, as typed in the workspace's root: variables, program and arguments, separated by
    /// spaces. There is no shell, so there is no quoting.
    const fn command(name: &'static str, line: &'static str) -> Self {
        Self { name, about: line, action: Action::Command }
    }

    /// A step with several commands, which is given the workspace's root.
    const fn call(
        name: &'static str,
        about: &'static str,
        call: fn(&Path) -> Result<Outcome, TaskError>,
    ) -> Self {
        Self { name, about, action: Action::Call(call) }
    }

    fn run(&self, root: &Path) -> Result<Outcome, TaskError> {
        match self.action {
            Action::Command => process::check(&mut process::parse(root, self.about)).map(done),
            Action::Call(call) => call(root),
        }
    }
}

/// Prints the steps' names, one per line.
pub fn list() {
    for step in STEPS {
        println!("{:8} {}", step.name, step.about);
    }
}

/// Runs the named steps, or all of them, and stops at the first failure.
pub fn run(root: &Path, names: &[&str]) -> Result<(), TaskError> {
    walk(root, &choose(STEPS, names)?)
}

/// The named steps in the order of `steps`, or all of them without names.
fn choose<'a>(steps: &'a [Step], names: &[&str]) -> Result<Vec<&'a Step>, TaskError> {
    let stranger = names.iter().find(|name| steps.iter().all(|step| step.name != **name));
    if let Some(name) = stranger {
        let known = steps.iter().map(|step| step.name).collect();
        return Err(TaskError::UnknownStep { name: (*name).to_owned(), known });
    }
    Ok(steps.iter().filter(|step| names.is_empty() || names.contains(&step.name)).collect())
}

fn walk(root: &Path, steps: &[&Step]) -> Result<(), TaskError> {
    let begun = Instant::now();
    let (mut passed, mut skipped) = (0, 0);
    for step in steps {
        println!("\n=== {}: {}", step.name, step.about);
        let started = Instant::now();
        let outcome = step.run(root);
        let seconds = started.elapsed().as_secs_f32();
        match outcome {
            Ok(Outcome::Passed) => {
                println!("--- {}: passed in {seconds:.1} s", step.name);
                passed += 1;
            }
            Ok(Outcome::Skipped(why)) => {
                println!("--- {}: skipped: {why}", step.name);
                skipped += 1;
            }
            Err(cause) => {
                println!("--- {}: failed after {seconds:.1} s", step.name);
                let left = steps.len() - passed - skipped - 1;
                println!("\nsteps: {passed} passed, 1 failed, {skipped} skipped, {left} not run");
                return Err(TaskError::Step { name: step.name, cause: Box::new(cause) });
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f32();
    println!("\nsteps: {passed} passed, 0 failed, {skipped} skipped, in {seconds:.1} s");
    Ok(())
}

/// Uses nextest if it is installed, because it runs the tests of all crates at once; it does not run documentation
/// tests, so cargo runs those. Otherwise cargo runs both.
fn tests(root: &Path) -> Result<Outcome, TaskError> {
    if process::succeeds(&mut process::cargo(root, &["nextest", "--version"])) {
        say_and_check(&mut process::cargo(root, &[&["nextest", "run"], WHOLE].concat()))?;
        say_and_check(&mut process::cargo(root, &[&["test", "--doc"], WHOLE].concat()))?;
    } else {
        say_and_check(&mut process::cargo(root, &[&["test"], WHOLE].concat()))?;
    }
    Ok(Outcome::Passed)
}

/// Builds a program as the tests need it, and returns its path, given below `target/debug`. It is not the build that
/// ships, which takes as long as everything else; and building it alone would build half of its dependencies again,
/// with other features.
pub fn program(root: &Path, path: &str) -> Result<PathBuf, TaskError> {
    let build = [&["test", "--no-run", "--quiet"], WHOLE].concat();
    say_and_check(&mut process::cargo(root, &build))?;
    Ok(root.join("target/debug").join(path))
}

/// Shows the command, then runs it.
pub fn say_and_check(command: &mut Command) -> Result<(), TaskError> {
    println!("$ {}", process::show(command));
    process::check(command)
}

fn done((): ()) -> Outcome {
    Outcome::Passed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(_: &Path) -> Result<Outcome, TaskError> {
        Err(TaskError::Untidy { findings: 3 })
    }

    fn unreachable(_: &Path) -> Result<Outcome, TaskError> {
        panic!("a step ran after a failed one")
    }

    const SAMPLE: &[Step] = &[
        Step::call("first", "", |_| Ok(Outcome::Passed)),
        Step::call("absent", "", |_| Ok(Outcome::Skipped("no such tool".to_owned()))),
        Step::call("broken", "", broken),
        Step::call("last", "", unreachable),
    ];

    fn names(steps: &[&Step]) -> Vec<&'static str> {
        steps.iter().map(|step| step.name).collect()
    }

    #[test]
    fn step_names_are_unique_words() {
        for (index, step) in STEPS.iter().enumerate() {
            assert!(STEPS[..index].iter().all(|other| other.name != step.name), "{}", step.name);
            assert!(step.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", step.name);
        }
    }

    #[test]
    fn named_steps_run_in_the_order_of_the_list() {
        let chosen = choose(SAMPLE, &["broken", "first"]).expect("both exist");
        assert_eq!(names(&chosen), ["first", "broken"]);
        let all = choose(SAMPLE, &[]).expect("no name was given");
        assert_eq!(names(&all), ["first", "absent", "broken", "last"]);
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_known_ones() {
        let error = choose(SAMPLE, &["first", "fist"]).err().expect("there is no such step");
        assert_eq!(
            error.to_string(),
            "no step is called `fist`; the steps are: first, absent, broken, last"
        );
    }

    #[test]
    fn the_first_failure_stops_the_walk_and_says_how_to_rerun() {
        let all = choose(SAMPLE, &[]).expect("no name was given");
        let error = walk(Path::new("."), &all).expect_err("one step is broken");
        assert_eq!(
            error.to_string(),
            "step `broken` failed: 3 findings, named above; rerun it alone: cargo xtask test broken"
        );
    }

    #[test]
    fn a_skipped_step_does_not_fail_the_walk() {
        let chosen = choose(SAMPLE, &["first", "absent"]).expect("both exist");
        assert!(walk(Path::new("."), &chosen).is_ok());
    }
}
