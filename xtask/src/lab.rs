//! The smoke step: every lab command runs to its end and writes a valid result.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::error::TaskError;
use crate::process;
use crate::steps::{Outcome, program, say_and_check};

/// The folder for results, below the root; it is not tracked, and is kept for inspection after a failure.
const RESULTS: &str = "reports/smoke";

/// Runs every lab command with `--quick`, and checks its JSON.
pub fn run(root: &Path) -> Result<Outcome, TaskError> {
    let folder = root.join(RESULTS);
    // An old result must not be taken for a new one.
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .map_err(|source| TaskError::Read { path: folder.clone(), source })?;
    }
    fs::create_dir_all(&folder).map_err(|source| TaskError::Read { path: folder, source })?;
    let program = program(root, "foveate")?;
    for command in commands(&program, root)? {
        let file = format!("{RESULTS}/{}.json", experiment(&command));
        let mut run = Command::new(&program);
        run.args(command.split_whitespace()).args(["--quick", "--json", &file]).current_dir(root);
        say_and_check(&mut run)?;
        let path = root.join(&file);
        let text = fs::read_to_string(&path)
            .map_err(|source| TaskError::Read { path: path.clone(), source })?;
        inspect(&text)
            .map_err(|what| TaskError::Result { command: format!("foveate {command}"), what })?;
    }
    Ok(Outcome::Passed)
}

/// The lab commands as typed after `foveate`, from the program's own list. The first two words name the result file.
fn commands(program: &Path, root: &Path) -> Result<Vec<String>, TaskError> {
    let list = ["lab", "list", "--commands"];
    let printed = process::capture(Command::new(program).args(list).current_dir(root))?;
    let commands: Vec<String> =
        String::from_utf8_lossy(&printed).lines().map(str::to_owned).collect();
    match commands.is_empty() {
        true => {
            let what = "the list of experiments is empty".to_owned();
            Err(TaskError::Result { command: format!("foveate {}", list.join(" ")), what })
        }
        false => Ok(commands),
    }
}

/// The experiment of a command: its second word.
fn experiment(command: &str) -> &str {
    command.split_whitespace().nth(1).unwrap_or(command)
}

/// Checks that `text` is a lab result: a named experiment, its seed, at least one row, and no required verdict that
/// does not hold.
fn inspect(text: &str) -> Result<(), String> {
    let result: Value =
        serde_json::from_str(text).map_err(|error| format!("the result is not JSON: {error}"))?;
    let named =
        result.get("experiment").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    if !named {
        return Err("the result does not name its `experiment`".to_owned());
    }
    if !result.get("seed").is_some_and(|seed| seed.is_u64() || seed.is_string()) {
        return Err("the result lacks the `seed` that would repeat it".to_owned());
    }
    match result.get("rows").and_then(Value::as_array) {
        Some(rows) if !rows.is_empty() => {}
        Some(_) => {
            return Err("the result has no `rows`: the experiment measured nothing".to_owned());
        }
        None => return Err("the result lacks the list `rows`".to_owned()),
    }
    let verdicts = result.get("verdicts").and_then(Value::as_array);
    judge(verdicts.ok_or("the result lacks the list `verdicts`")?)
}

/// Fails with the names of required verdicts that do not hold. A verdict without its fields counts as not holding;
/// otherwise a misspelt key would pass.
fn judge(verdicts: &[Value]) -> Result<(), String> {
    if verdicts.is_empty() {
        return Err("the result has no `verdicts`: nothing could fail".to_owned());
    }
    let mut broken = Vec::new();
    for verdict in verdicts {
        let name =
            verdict.get("name").and_then(Value::as_str).unwrap_or("a verdict without a name");
        let flag = |key: &str| verdict.get(key).and_then(Value::as_bool);
        match (flag("required"), flag("holds")) {
            (Some(_), Some(true)) | (Some(false), Some(false)) => {}
            (Some(true), Some(false)) => {
                let value = verdict.get("value").unwrap_or(&Value::Null);
                let aim = verdict.get("aim").and_then(Value::as_str).unwrap_or("?");
                broken.push(format!("{name}: {value}, aim {aim}"));
            }
            _ => broken.push(format!("{name}: lacks `holds` or `required`")),
        }
    }
    if broken.is_empty() {
        return Ok(());
    }
    Err(format!("required verdicts do not hold: {}", broken.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &str = r#"{"experiment": "a3", "seed": 7, "rows": [{"n": 1}],
        "verdicts": [{"name": "a", "value": 1, "aim": "≥ 1", "holds": true, "required": true}]}"#;

    #[test]
    fn a_whole_result_passes() {
        assert_eq!(inspect(WHOLE), Ok(()));
    }

    #[test]
    fn a_result_that_lacks_something_is_refused_by_name() {
        for (text, missing) in [
            ("table for people", "not JSON"),
            (r#"{"experiment": "", "seed": 7, "rows": [1]}"#, "`experiment`"),
            (r#"{"experiment": "a3", "rows": [1]}"#, "`seed`"),
            (r#"{"experiment": "a3", "seed": 7}"#, "lacks the list `rows`"),
            (r#"{"experiment": "a3", "seed": 7, "rows": []}"#, "measured nothing"),
            (r#"{"experiment": "a3", "seed": 7, "rows": [1]}"#, "lacks the list `verdicts`"),
            (r#"{"experiment": "a3", "seed": 7, "rows": [1], "verdicts": []}"#, "could fail"),
        ] {
            let what = inspect(text).expect_err(text);
            assert!(what.contains(missing), "{text}: {what}");
        }
    }

    #[test]
    fn a_required_verdict_that_does_not_hold_fails_the_step() {
        let verdict = |required: bool, holds: bool| serde_json::json!({"name": "saving", "value": 3.5, "aim": "≥ 4", "holds": holds, "required": required});
        assert_eq!(judge(&[verdict(true, true), verdict(false, false)]), Ok(()));
        let what = judge(&[verdict(true, true), verdict(true, false)]).unwrap_err();
        assert_eq!(what, "required verdicts do not hold: saving: 3.5, aim ≥ 4");
        let misspelt = serde_json::json!({"name": "saving", "hold": false, "required": true});
        assert!(judge(&[misspelt]).unwrap_err().contains("lacks `holds`"));
    }

    #[test]
    fn a_command_names_its_result_file() {
        assert_eq!(experiment("lab vfc --trace some.csv.gz"), "vfc");
    }
}
