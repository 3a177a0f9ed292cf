//! The smoke step: every lab command runs to its end and writes a result that a program can read.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::error::Error;
use crate::steps::{Outcome, program, say_and_check};

/// The lab commands, as typed after `foveate`. The first two words name the result file.
const COMMANDS: &[&str] = &[
    "lab a3",
    "lab vfc --trace traces/openarena_oa_dm3_16bots.csv.gz",
    "lab codec --trace traces/openarena_oa_dm3_16bots.csv.gz",
    "lab bounds",
    "lab motion",
    "lab ownership",
    "lab peers",
    "lab scale",
    "lab silac",
];

/// Where the results go, below the root; the folder is not tracked and stays for a look after a
/// failure.
const RESULTS: &str = "reports/smoke";

/// Runs every lab command with `--quick` and checks the JSON that it leaves.
pub fn run(root: &Path) -> Result<Outcome, Error> {
    let folder = root.join(RESULTS);
    // An old result must not pass for a new one.
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .map_err(|source| Error::Read { path: folder.clone(), source })?;
    }
    fs::create_dir_all(&folder).map_err(|source| Error::Read { path: folder, source })?;
    let program = program(root)?;
    for command in COMMANDS {
        let file = format!("{RESULTS}/{}.json", experiment(command));
        let mut run = Command::new(&program);
        run.args(command.split_whitespace()).args(["--quick", "--json", &file]).current_dir(root);
        say_and_check(&mut run)?;
        let path = root.join(&file);
        let text = fs::read_to_string(&path)
            .map_err(|source| Error::Read { path: path.clone(), source })?;
        inspect(&text)
            .map_err(|what| Error::Result { command: format!("foveate {command}"), what })?;
    }
    Ok(Outcome::Passed)
}

/// The experiment that a command runs: its second word.
fn experiment(command: &str) -> &str {
    command.split_whitespace().nth(1).unwrap_or(command)
}

/// Is `text` a lab result: a named experiment, the seed that repeats it, and at least one row?
fn inspect(text: &str) -> Result<(), String> {
    let result: Value =
        serde_json::from_str(text).map_err(|error| format!("the result is no JSON: {error}"))?;
    let named =
        result.get("experiment").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    if !named {
        return Err("the result does not name its `experiment`".to_owned());
    }
    if !result.get("seed").is_some_and(|seed| seed.is_u64() || seed.is_string()) {
        return Err("the result lacks the `seed` that would repeat it".to_owned());
    }
    match result.get("rows").and_then(Value::as_array) {
        Some(rows) if !rows.is_empty() => Ok(()),
        Some(_) => Err("the result has no `rows`: the experiment measured nothing".to_owned()),
        None => Err("the result lacks the list `rows`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_result_passes() {
        assert_eq!(inspect(r#"{"experiment": "a3", "seed": 7, "rows": [{"n": 1}]}"#), Ok(()));
    }

    #[test]
    fn a_result_that_lacks_something_is_refused_by_name() {
        for (text, missing) in [
            ("table for people", "no JSON"),
            (r#"{"experiment": "", "seed": 7, "rows": [1]}"#, "`experiment`"),
            (r#"{"experiment": "a3", "rows": [1]}"#, "`seed`"),
            (r#"{"experiment": "a3", "seed": 7}"#, "lacks the list `rows`"),
            (r#"{"experiment": "a3", "seed": 7, "rows": []}"#, "measured nothing"),
        ] {
            let what = inspect(text).expect_err(text);
            assert!(what.contains(missing), "{text}: {what}");
        }
    }

    #[test]
    fn every_command_has_a_result_file_of_its_own() {
        for (index, command) in COMMANDS.iter().enumerate() {
            let name = experiment(command);
            assert!(COMMANDS[..index].iter().all(|other| experiment(other) != name), "{name}");
        }
        assert_eq!(experiment("lab vfc --trace some.csv.gz"), "vfc");
    }
}
