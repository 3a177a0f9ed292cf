//! `foveate lab mesh` without the `foveate` program, whose build takes several times as long.
//!
//! ```sh
//! cargo run --release -p foveate-lab --example mesh -- --part faults --handoffs 1000000 --json rows.json
//! ```

use clap::{Arg, ArgAction, Command, value_parser};
use foveate_lab::experiments::mesh::{MeshExperiment, run_mesh};
use foveate_lab::experiments::{Experiment, RunOptions};
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let command = MeshExperiment.options(Command::new("mesh"));
    let seed = Arg::new("seed").long("seed").value_parser(value_parser!(u64)).default_value("1");
    let quick = Arg::new("quick").long("quick").action(ArgAction::SetTrue);
    let json = Arg::new("json").long("json").value_parser(value_parser!(PathBuf));
    let matches = command.args([seed, quick, json]).get_matches();
    let seed = matches.get_one("seed").copied().unwrap_or(1);
    let options = RunOptions { seed, quick: matches.get_flag("quick") };
    let done = run_mesh(&matches, options)?;
    for table in done.tables.iter().chain(&done.outcome.verdict_table()) {
        println!("{table}");
    }
    done.notes.iter().for_each(|note| println!("{note}"));
    if let Some(path) = matches.get_one::<PathBuf>("json") {
        done.outcome.write_json(path)?;
    }
    Ok(())
}
