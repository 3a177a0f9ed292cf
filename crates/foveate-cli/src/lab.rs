//! `foveate lab`: the experiments of all crates, as commands.

use crate::arena::ArenaHost;
use crate::threads;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use foveate_lab::experiments::{self, Done, Experiment, LabRequest, RunOptions};
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The lists of experiments of all crates.
const LISTS: &[&[&dyn Experiment]] =
    &[experiments::ALL, foveate_gvo::ALL, foveate_silac::ALL, threads::ALL];

/// All experiments, by name.
fn all() -> Vec<&'static dyn Experiment> {
    let mut all: Vec<_> = LISTS.iter().copied().flatten().copied().collect();
    all.sort_by_key(|experiment| experiment.name());
    all
}

/// The parsed command line of `foveate lab`.
pub struct Lab {
    task: Task,
}

enum Task {
    List(List),
    Run(&'static dyn Experiment, Common, ArgMatches),
}

#[derive(Args)]
struct List {
    /// Print a complete command line for each instead
    #[arg(long)]
    commands: bool,
}

#[derive(Args)]
struct Common {
    /// RNG seed: the same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A short run that shows that everything works; do not quote its figures
    #[arg(long)]
    quick: bool,
    /// Write the rows to a file, for programs
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots into a folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

impl Args for Lab {
    fn augment_args(command: Command) -> Command {
        let list = List::augment_args(Command::new("list").about("List the experiments"));
        let command = command.subcommand_required(true).arg_required_else_help(true);
        all().into_iter().fold(command.subcommand(list), |command, experiment| {
            let it = Common::augment_args(experiment.options(Command::new(experiment.name())));
            // Set last: the doc comment of the options' struct would replace it otherwise.
            command.subcommand(it.about(experiment.about()))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Lab::augment_args(command)
    }
}

impl FromArgMatches for Lab {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Lab, clap::Error> {
        let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
        let (name, matches) = matches.subcommand().ok_or_else(missing)?;
        let task = match all().into_iter().find(|experiment| experiment.name() == name) {
            Some(it) => Task::Run(it, Common::from_arg_matches(matches)?, matches.clone()),
            None => Task::List(List::from_arg_matches(matches)?),
        };
        Ok(Lab { task })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Lab::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Common {
    /// Checks the output paths before hours are spent on a run.
    fn prepare(&self) -> Result<(), Box<dyn Error>> {
        if let Some(folder) = self.json.as_deref().and_then(Path::parent)
            && !folder.as_os_str().is_empty()
            && !folder.is_dir()
        {
            return Err(format!("--json: folder {} does not exist", folder.display()).into());
        }
        if let Some(folder) = &self.report {
            std::fs::create_dir_all(folder)
                .map_err(|cause| format!("--report: {}: {cause}", folder.display()))?;
        }
        Ok(())
    }

    /// Prints tables, and writes rows and report.
    fn finish(&self, done: Done) -> Result<(), Box<dyn Error>> {
        let mut out = std::io::stdout().lock();
        for table in &done.tables {
            table.print(&mut out)?;
            writeln!(out)?;
        }
        if let Some(verdicts) = done.outcome.verdict_table() {
            verdicts.print(&mut out)?;
            writeln!(out)?;
        }
        for note in &done.notes {
            writeln!(out, "{note}")?;
        }
        if let Some(path) = &self.json {
            done.outcome.write_json(path)?;
        }
        if let Some(folder) = &self.report {
            let command: Vec<String> = std::env::args().skip(1).collect();
            let command = format!("foveate {}", command.join(" "));
            let report = done.report.verdicts(&done.outcome.verdicts);
            let report = if self.quick { report.short() } else { report };
            let page = report.command(command).write(folder)?;
            writeln!(out, "report: {}", page.display())?;
        }
        Ok(())
    }
}

/// Prints each experiment's name and description, or its command line.
fn list(list: &List) -> Result<(), Box<dyn Error>> {
    let mut out = std::io::stdout().lock();
    for experiment in all() {
        let name = experiment.name();
        match list.commands {
            true => writeln!(out, "lab {name} {}", experiment.sample_arguments().join(" "))?,
            false => writeln!(out, "{name:10}{}", experiment.about())?,
        }
    }
    Ok(())
}

/// Runs the chosen experiment.
pub fn run(lab: &Lab) -> Result<(), Box<dyn Error>> {
    match &lab.task {
        Task::List(options) => list(options),
        Task::Run(experiment, common, matches) => {
            common.prepare()?;
            let options = RunOptions { seed: common.seed, quick: common.quick };
            let host = &ArenaHost::default();
            common.finish(experiment.run(&LabRequest { options, matches, host })?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwritable_output_paths_are_rejected_before_the_run() {
        let common = |json: Option<&str>, report: Option<&str>| {
            let (json, report) = (json.map(PathBuf::from), report.map(PathBuf::from));
            Common { seed: 1, quick: true, json, report }
        };
        for fine in [None, Some("rows.json"), Some("./rows.json")] {
            assert!(common(fine, None).prepare().is_ok(), "{fine:?}");
        }
        let message = common(Some("no/such/rows.json"), None).prepare().unwrap_err().to_string();
        assert!(message.contains("no/such"), "{message}");
        // A file is not a folder.
        let message = common(None, Some("Cargo.toml/reports")).prepare().unwrap_err().to_string();
        assert!(message.contains("Cargo.toml/reports"), "{message}");
    }

    #[test]
    fn every_experiment_is_a_command_with_the_common_options() {
        let lab = Lab::augment_args(Command::new("lab"));
        lab.clone().debug_assert();
        for experiment in all() {
            let name = experiment.name();
            let line = ["lab", name, "--quick", "--seed", "7"].into_iter();
            let line = line.chain(experiment.sample_arguments().iter().copied());
            let matches = lab.clone().try_get_matches_from(line).expect(name);
            let Task::Run(found, common, _) = Lab::from_arg_matches(&matches).unwrap().task else {
                panic!("{name} is not run");
            };
            assert_eq!(found.name(), name);
            assert!(common.quick && common.seed == 7);
        }
        assert!(lab.try_get_matches_from(["lab", "vfc"]).is_err(), "a recording is required");
    }

    #[test]
    fn the_documentation_lists_every_experiment_and_has_its_section() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/LAB.md");
        let text = std::fs::read_to_string(path).unwrap();
        let names = all();
        let rows: Vec<String> =
            names.iter().map(|it| format!("| `{}` | {} |\n", it.name(), it.about())).collect();
        assert!(
            text.contains(&rows.concat()),
            "docs/LAB.md must have these rows:\n{}",
            rows.concat()
        );
        for experiment in names {
            let heading = format!("\n## `foveate lab {}", experiment.name());
            assert!(text.contains(&heading), "docs/LAB.md lacks a section: {heading}");
        }
    }
}
