//! Child processes: how they are named, started and checked.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::error::TaskError;

/// A `cargo` child in `root`, by the cargo that started us, so that the toolchain stays the same.
pub fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root);
    // Cargo sets variables for the program's own package. Build scripts watch these variables, so passing them on would
    // rebuild whole dependencies between a run by hand and a run from here.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    // A build that happens once gains nothing from incremental files, which take up half of the disk that it needs.
    if std::env::var_os("CI").is_some() && std::env::var_os("CARGO_INCREMENTAL").is_none() {
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// The child in `root` for a line such as `NAME=value program argument`.
pub fn parse(root: &Path, line: &str) -> Command {
    let mut words = line.split_whitespace().peekable();
    let mut variables = Vec::new();
    while let Some(variable) = words.next_if(|word| word.contains('=')) {
        variables.extend(variable.split_once('='));
    }
    let program = words.next().unwrap_or_default();
    let arguments: Vec<&str> = words.collect();
    let mut command = if program == "cargo" {
        cargo(root, &arguments)
    } else {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(root);
        command
    };
    command.envs(variables);
    command
}

/// Runs `command`, showing its output, and fails if it fails.
pub fn check(command: &mut Command) -> Result<(), TaskError> {
    let shown = show(command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(TaskError::Failed { command: shown, status }),
        Err(source) => Err(TaskError::Start { command: shown, source }),
    }
}

/// Runs `command`, showing its error output, and returns its standard output.
pub fn capture(command: &mut Command) -> Result<Vec<u8>, TaskError> {
    let shown = show(command);
    match command.stderr(Stdio::inherit()).output() {
        Ok(output) if output.status.success() => Ok(output.stdout),
        Ok(output) => Err(TaskError::Failed { command: shown, status: output.status }),
        Err(source) => Err(TaskError::Start { command: shown, source }),
    }
}

/// Whether `command` exists and succeeds. Its output is dropped.
pub fn succeeds(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command as a person would type it: program name without its folder, then the arguments.
pub fn show(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program()).to_string_lossy();
    let mut shown = name.into_owned();
    for argument in command.get_args() {
        shown.push(' ');
        shown.push_str(&argument.to_string_lossy());
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_without_the_folder_of_its_program() {
        let mut command = Command::new("some/where/cargo");
        command.args(["fmt", "--all"]);
        assert_eq!(show(&command), "cargo fmt --all");
    }

    #[test]
    fn a_line_gives_variables_program_and_arguments() {
        let command =
            parse(Path::new("."), "LEVEL=-Dwarnings DEPTH=2 npm --prefix web run check=all");
        assert_eq!(show(&command), "npm --prefix web run check=all");
        let variables: Vec<_> = command.get_envs().collect();
        let wanted = [("DEPTH", "2"), ("LEVEL", "-Dwarnings")];
        assert_eq!(variables, wanted.map(|(name, value)| (name.as_ref(), Some(value.as_ref()))));
    }

    #[test]
    fn failure_of_a_child_names_the_command() {
        let error = check(&mut cargo(Path::new("."), &["no-such-subcommand-of-cargo"]));
        let text = error.expect_err("cargo knows no such subcommand").to_string();
        assert!(text.contains("cargo no-such-subcommand-of-cargo"), "{text}");
    }

    #[test]
    fn a_program_that_does_not_exist_is_not_a_success() {
        assert!(!succeeds(&mut Command::new("no-such-program-anywhere")));
        assert!(succeeds(&mut cargo(Path::new("."), &["--version"])));
    }
}
