//! `cargo xtask bench core`: the core's cost in instructions, compared with the committed figures.
//!
//! Callgrind runs the program `crates/foveate-node/benches/instructions` and counts. The counts of one build are the
//! same on a busy machine; they change with the compiler, the C library and the processor's features, so `cargo xtask
//! test` does not check them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use toml::{Table, Value};

use crate::error::TaskError;
use crate::process;

/// The committed figures.
const FIGURES: &str = "crates/foveate-node/benches/instructions/figures.toml";
/// A measure may exceed its committed figure by this factor.
const TOLERANCE: f64 = 1.03;
const BUILD: &[&str] =
    &["build", "--release", "--package", "foveate-node", "--bench", "instructions"];

/// The cost of one operation.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Cost {
    instructions: f64,
    allocations: f64,
}

/// Costs by the name of their measure.
type Costs = BTreeMap<String, Cost>;

/// Measures, prints old and new, and fails if a measure costs clearly more. With `write` the new figures replace the
/// committed ones.
pub fn core(root: &Path, write: bool) -> Result<(), TaskError> {
    if !process::succeeds(Command::new("valgrind").arg("--version")) {
        return Err(TaskError::Missing {
            program: "valgrind",
            install: "apt-get install valgrind",
        });
    }
    let rustc = rustc_version(root)?;
    let new = measure(root)?;
    let path = root.join(FIGURES);
    let (old_rustc, old) = match fs::read_to_string(&path) {
        Ok(text) => {
            parse_figures(&text).ok_or_else(|| unusable(FIGURES, "is not a file of figures"))?
        }
        Err(_) if write => Default::default(),
        Err(source) => return Err(TaskError::Read { path, source }),
    };
    if !write && old_rustc != rustc {
        println!(
            "the committed figures are of {old_rustc}, this is {rustc}: differences may be the compiler's"
        );
    }
    let worse = compare(&old, &new);
    if write {
        fs::write(&path, show_figures(&rustc, &new))
            .map_err(|source| TaskError::Read { path, source })?;
        println!("wrote {FIGURES}");
        return Ok(());
    }
    if worse.is_empty() { Ok(()) } else { Err(TaskError::Costlier { measures: worse }) }
}

fn unusable(command: &str, what: &str) -> TaskError {
    TaskError::Result { command: command.to_owned(), what: what.to_owned() }
}

fn rustc_version(root: &Path) -> Result<String, TaskError> {
    let shown = process::capture(Command::new("rustc").arg("--version").current_dir(root))?;
    Ok(String::from_utf8_lossy(&shown).trim().to_owned())
}

/// Builds the program and runs it under callgrind.
fn measure(root: &Path) -> Result<Costs, TaskError> {
    let program = build(root)?;
    let folder = root.join("target/bench-core");
    // Files of an earlier run would be taken for this run's.
    let _ = fs::remove_dir_all(&folder);
    let to_error = |source| TaskError::Read { path: folder.clone(), source };
    fs::create_dir_all(&folder).map_err(to_error)?;
    let mut run = Command::new("valgrind");
    run.args(["--tool=callgrind", "--quiet", "--toggle-collect=instructions::measured"])
        .args(["--dump-after=instructions::dump_counts", "--callgrind-out-file=counts"])
        .arg(program)
        .current_dir(&folder);
    // Environment variables are on the stack and would move what is below them.
    run.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    let lines = process::capture(&mut run)?;
    let mut costs = Costs::new();
    for (at, line) in String::from_utf8_lossy(&lines).lines().enumerate() {
        let path = folder.join(format!("counts.{}", at + 1));
        let counts = fs::read_to_string(&path)
            .map_err(|source| TaskError::Read { path: path.clone(), source })?;
        let (name, cost) = cost_of(line, &counts)
            .ok_or_else(|| unusable(&process::show(&run), &format!("no cost in `{line}`")))?;
        costs.insert(name, cost);
    }
    if costs.is_empty() {
        return Err(unusable(&process::show(&run), "nothing was measured"));
    }
    Ok(costs)
}

/// Builds the program, and returns its path.
fn build(root: &Path) -> Result<PathBuf, TaskError> {
    let mut command = process::cargo(root, BUILD);
    command.arg("--message-format=json-render-diagnostics");
    let messages = process::capture(&mut command)?;
    String::from_utf8_lossy(&messages)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|message| message.get("executable")?.as_str().map(PathBuf::from))
        .next_back()
        .ok_or_else(|| unusable(&process::show(&command), "cargo named no program"))
}

/// Reads a line of the program (name, times, allocations) and the file that callgrind wrote for it. `None` if callgrind
/// collected nothing, because it did not find the function.
fn cost_of(line: &str, counts: &str) -> Option<(String, Cost)> {
    let mut words = line.split_whitespace();
    let name = words.next()?.to_owned();
    let times = words.next()?.parse::<u64>().ok().filter(|times| *times > 0)? as f64;
    let allocations = words.next()?.parse::<u64>().ok()? as f64 / times;
    let total = counts.lines().find_map(|line| line.strip_prefix("totals: "))?;
    let total = total.trim().parse::<u64>().ok().filter(|total| *total > 0)?;
    Some((name, Cost { instructions: total as f64 / times, allocations }))
}

/// Prints one line for each measure, and returns those that cost clearly more than before.
fn compare(old: &Costs, new: &Costs) -> Vec<String> {
    println!("{:16} {:>12} {:>12} {:>7}   allocations", "per operation", "old", "new", "ratio");
    let mut worse = Vec::new();
    for (name, cost) in new {
        let Some(before) = old.get(name) else {
            println!(
                "{name:16} {:>12} {:>12.0} {:>7}   {:.3}",
                "-", cost.instructions, "new", cost.allocations
            );
            continue;
        };
        let ratio = cost.instructions / before.instructions;
        println!(
            "{name:16} {:>12.0} {:>12.0} {ratio:>7.4}   {:.3} -> {:.3}",
            before.instructions, cost.instructions, before.allocations, cost.allocations
        );
        // Figures are committed with three decimals.
        if ratio > TOLERANCE || cost.allocations > before.allocations * TOLERANCE + 0.0005 {
            worse.push(name.clone());
        }
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        println!("{name:16} is no longer measured");
        worse.push(name.clone());
    }
    worse
}

fn show_figures(rustc: &str, costs: &Costs) -> String {
    let mut text = format!(
        "# Written by `cargo xtask bench core --write`.\nrustc = \"{rustc}\"\n\n# Instructions per operation.\n[instructions]\n"
    );
    for (name, cost) in costs {
        text += &format!("{name} = {:.0}\n", cost.instructions);
    }
    text += "\n# Allocations per operation.\n[allocations]\n";
    for (name, cost) in costs {
        text += &format!("{name} = {:.3}\n", cost.allocations);
    }
    text
}

/// Reads the compiler and the costs of a file of figures.
fn parse_figures(text: &str) -> Option<(String, Costs)> {
    let file = text.parse::<Table>().ok()?;
    let number = |value: &Value| value.as_float().or(value.as_integer().map(|value| value as f64));
    let allocations = file.get("allocations")?.as_table()?;
    let mut costs = Costs::new();
    for (name, instructions) in file.get("instructions")?.as_table()? {
        let allocations = number(allocations.get(name)?)?;
        costs.insert(name.clone(), Cost { instructions: number(instructions)?, allocations });
    }
    Some((file.get("rustc")?.as_str()?.to_owned(), costs))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(instructions: f64, allocations: f64) -> Costs {
        Costs::from([("encode".to_owned(), Cost { instructions, allocations })])
    }

    #[test]
    fn figures_that_are_written_are_read_again() {
        let written = costs(1234.0, 0.125);
        let read = parse_figures(&show_figures("rustc 1.2.3", &written));
        assert_eq!(read, Some(("rustc 1.2.3".to_owned(), written)));
    }

    #[test]
    fn more_than_three_per_cent_or_any_new_allocation_is_costlier() {
        let old = costs(1000.0, 0.0);
        assert_eq!(compare(&old, &costs(1030.0, 0.0)), [""; 0]);
        assert_eq!(compare(&old, &costs(500.0, 0.0)), [""; 0]);
        assert_eq!(compare(&old, &costs(1031.0, 0.0)), ["encode"]);
        assert_eq!(compare(&old, &costs(1000.0, 0.01)), ["encode"]);
    }

    #[test]
    fn a_measure_that_is_gone_is_named() {
        assert_eq!(compare(&costs(1.0, 0.0), &Costs::new()), ["encode"]);
    }

    #[test]
    fn costs_are_per_operation_and_none_if_nothing_was_collected() {
        let found = cost_of("encode 4 2", "events: Ir\ntotals: 1000\n");
        let cost = Cost { instructions: 250.0, allocations: 0.5 };
        assert_eq!(found, Some(("encode".to_owned(), cost)));
        assert_eq!(cost_of("encode 4 2", "totals: 0\n"), None);
        assert_eq!(cost_of("encode 0 0", "totals: 5\n"), None);
    }
}
