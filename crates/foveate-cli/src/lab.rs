//! `foveate lab`: which experiments there are, and how they are asked for.

use crate::arena;
use crate::meter::RealMeter;
use clap::{Args, Command, Subcommand};
use foveate_lab::experiments::{
    Done, Options, a3, bounds, codec, events, motion, ownership, peers, scale, silac, vfc,
};
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The experiments
#[derive(Args)]
pub struct Lab {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// List the experiments
    List,
    /// A³'s graded area of interest, its source's figures beside ours
    A3 {
        #[command(flatten)]
        common: Common,
    },
    /// Bounds kept on good, bad and narrow links, and what gives way on a quarter of the budget
    Bounds {
        #[command(flatten)]
        common: Common,
    },
    /// What an update costs, beside other codecs and the ideal order-0 coder
    Codec {
        #[command(flatten)]
        traces: Traces,
        /// Recordings to train on, each when it is not the one at hand
        #[arg(long = "train-on", value_name = "FILE", default_values = [
            "traces/openarena_oa_dm3_16bots.csv.gz",
            "traces/openarena_oa_thor_ctf_60bots.csv.gz",
            "traces/cube2_two_towers_32bots.csv.gz",
        ])]
        train_on: Vec<PathBuf>,
        /// Train on all of --train-on and write the table that ships
        #[arg(long, value_name = "FILE")]
        write_table: Option<PathBuf>,
        #[command(flatten)]
        common: Common,
    },
    /// What filtering events by place saves, and whether the right players are told
    Events {
        #[command(flatten)]
        common: Common,
    },
    /// GVO's scenarios by its protocol and by ours: traffic per node, actions against positions
    Motion {
        #[command(flatten)]
        common: Common,
    },
    /// Objects owned by whoever cares most: crashes, churn, a partition
    Ownership {
        #[command(flatten)]
        common: Common,
    },
    /// Graded gossip among up to 900 peers, liars; with --nodes one game of your choice
    Peers {
        /// Play one game of so many instead
        #[arg(long, value_name = "N")]
        nodes: Option<usize>,
        /// In it: the share of datagrams that is lost
        #[arg(long, value_name = "SHARE", default_value_t = 0.01, requires = "nodes")]
        loss: f64,
        /// In it: the share of links that are relayed
        #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "nodes")]
        relayed: f64,
        /// In it: the narrowest uplink in Mbit/s; the widest is twenty times that
        #[arg(long, value_name = "MBIT", default_value_t = 1.0, requires = "nodes")]
        uplink: f64,
        #[command(flatten)]
        common: Common,
    },
    /// What a round costs, from a thousand to sixteen thousand players
    Scale {
        /// The recording that is tiled for the second workload
        #[arg(
            long,
            value_name = "FILE",
            default_value = "traces/openarena_oa_thor_ctf_60bots.csv.gz"
        )]
        trace: PathBuf,
        /// Only the first workload, a crowd
        #[arg(long)]
        crowd_only: bool,
        /// So many players instead; several counts are tried one after the other
        #[arg(long, value_name = "N", value_delimiter = ',')]
        players: Vec<usize>,
        #[command(flatten)]
        common: Common,
    },
    /// Silac's gossip among peers: its source's six experiments beside ours, over sizes and fan-outs
    Silac {
        #[command(flatten)]
        common: Common,
    },
    /// Graded views on recorded movement: bytes saved, error, bounds kept
    Vfc {
        #[command(flatten)]
        traces: Traces,
        #[command(flatten)]
        common: Common,
    },
}

impl Experiment {
    fn common(&self) -> Option<&Common> {
        match self {
            Experiment::List => None,
            Experiment::A3 { common }
            | Experiment::Bounds { common }
            | Experiment::Codec { common, .. }
            | Experiment::Events { common }
            | Experiment::Motion { common }
            | Experiment::Ownership { common }
            | Experiment::Peers { common, .. }
            | Experiment::Scale { common, .. }
            | Experiment::Silac { common }
            | Experiment::Vfc { common, .. } => Some(common),
        }
    }
}

#[derive(Args)]
struct Traces {
    /// A recording: CSV or CSV.gz with the header t_ms,id,x,y,z,yaw,pitch; may be given more than once
    #[arg(long = "trace", value_name = "FILE", required = true)]
    traces: Vec<PathBuf>,
}

#[derive(Args)]
struct Common {
    /// What all chance is drawn from: the same seed gives the same bytes
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A short run that shows that everything works; its figures are not for quoting
    #[arg(long)]
    quick: bool,
    /// Write the rows to a file, for programs
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots into a folder
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
}

impl Common {
    fn options(&self) -> Options {
        Options { seed: self.seed, quick: self.quick }
    }

    /// Where results go is looked at before hours are spent on them.
    fn prepare(&self) -> Result<(), Box<dyn Error>> {
        if let Some(folder) = self.json.as_deref().and_then(Path::parent)
            && !folder.as_os_str().is_empty()
            && !folder.is_dir()
        {
            return Err(format!("--json: there is no folder {}", folder.display()).into());
        }
        if let Some(folder) = &self.report {
            std::fs::create_dir_all(folder)
                .map_err(|cause| format!("--report: {}: {cause}", folder.display()))?;
        }
        Ok(())
    }

    /// Prints, writes, reports.
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

fn paths(traces: &Traces) -> Vec<&Path> {
    traces.traces.iter().map(PathBuf::as_path).collect()
}

/// Each experiment's name, and what it is about.
fn list() -> Result<(), Box<dyn Error>> {
    let all = Experiment::augment_subcommands(Command::new("lab"));
    let mut out = std::io::stdout().lock();
    for experiment in all.get_subcommands().filter(|command| command.get_name() != "list") {
        let about = experiment.get_about().map(ToString::to_string).unwrap_or_default();
        writeln!(out, "{:10}{about}", experiment.get_name())?;
    }
    Ok(())
}

/// Runs what was asked for.
pub fn run(lab: &Lab) -> Result<(), Box<dyn Error>> {
    lab.experiment.common().map_or(Ok(()), Common::prepare)?;
    match &lab.experiment {
        Experiment::List => list(),
        Experiment::A3 { common } => common.finish(a3::lab(common.options())?),
        Experiment::Bounds { common } => {
            common.finish(bounds::lab(&arena::world, common.options())?)
        }
        Experiment::Codec { train_on, write_table: Some(path), .. } => {
            std::fs::write(path, codec::trained_table(train_on)?)?;
            Ok(())
        }
        Experiment::Codec { traces, train_on, common, .. } => {
            common.finish(codec::lab(&paths(traces), train_on, common.options())?)
        }
        Experiment::Events { common } => common.finish(events::lab(common.options())?),
        Experiment::Motion { common } => common.finish(motion::lab(common.options())?),
        Experiment::Ownership { common } => common.finish(ownership::lab(common.options())?),
        Experiment::Peers { nodes: None, common, .. } => {
            common.finish(peers::lab(&arena::walkers_on, common.options())?)
        }
        Experiment::Peers { nodes: Some(nodes), loss, relayed, uplink, common } => {
            let narrow = (uplink * 125_000.0).clamp(1_000.0, 1e8) as u32;
            let uplinks = [narrow, narrow.saturating_mul(20)];
            let mix = peers::Mix { nodes: *nodes, loss: *loss, uplinks, relayed: *relayed };
            common.finish(peers::mix(&arena::walkers_on, mix, common.options())?)
        }
        Experiment::Scale { trace, crowd_only, players, common } => {
            let trace = (!crowd_only).then_some(trace.as_path());
            let workloads = scale::Workloads { trace, players };
            common.finish(scale::lab(workloads, common.options(), &RealMeter::default())?)
        }
        Experiment::Silac { common } => {
            common.finish(silac::lab(&arena::walkers, common.options())?)
        }
        Experiment::Vfc { traces, common } => {
            common.finish(vfc::lab(&paths(traces), common.options())?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_that_could_not_be_written_are_refused_before_the_run() {
        let common = |json: Option<&str>, report: Option<&str>| {
            let (json, report) = (json.map(PathBuf::from), report.map(PathBuf::from));
            Common { seed: 1, quick: true, json, report }
        };
        for fine in [None, Some("rows.json"), Some("./rows.json")] {
            assert!(common(fine, None).prepare().is_ok(), "{fine:?}");
        }
        let message = common(Some("no/such/rows.json"), None).prepare().unwrap_err().to_string();
        assert!(message.contains("no/such"), "{message}");
        // A file is no folder.
        let message = common(None, Some("Cargo.toml/reports")).prepare().unwrap_err().to_string();
        assert!(message.contains("Cargo.toml/reports"), "{message}");
    }
}
