//! `foveate lab chaos`: sessions and storage while machines, disks, clocks and links fail; see [`crate::chaos`].

use super::{Done, Experiment, ExperimentError, LabRequest, RunOptions, in_parallel};
use crate::chaos::{
    self, ChaosReport, ChaosSpec, Coverage, Flaw, InjectedFault, PeerFault, PeerState,
    SessionState, Violation,
};
use crate::output::{Align, ExperimentResult, Progress, Table, Verdict};
use crate::report::Report;
use clap::{Args, Command};
use foveate_wire::Micros;
use serde::Serialize;
use std::collections::BTreeMap;

/// The longest run of one seed, in minutes. A longer run is split into parts with successive seeds.
const PART: u64 = 10;
const MINUTE: Micros = Micros(60_000_000);
/// Default minutes, in a full and in a quick run.
const MINUTES: [u64; 2] = [600, 60];
/// Seeds to try when looking for a planted bug, each for [`PART`] minutes.
const HUNTS: u64 = 4;
/// Minutes in which every pair of a fault and a state occurs at least once.
const ROUND_OF_ALL: u64 = 30;

/// The options of `foveate lab chaos`.
#[derive(Args)]
struct ChaosArguments {
    /// Simulated minutes, in parts of ten with a seed each
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// Only with a server and its storage, or only among peers; both by default
    #[arg(long, value_enum)]
    topology: Option<ChaosTopology>,
}

/// The kind of game.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum ChaosTopology {
    /// A server with storage, and clients.
    Server,
    /// Peers.
    Peer,
}

pub struct ChaosExperiment;

impl Experiment for ChaosExperiment {
    fn name(&self) -> &'static str {
        "chaos"
    }

    fn about(&self) -> &'static str {
        "Sessions and storage while machines, disks, clocks and links fail and clients attack"
    }

    fn options(&self, command: Command) -> Command {
        ChaosArguments::augment_args(command)
    }

    fn run(&self, request: &LabRequest<'_>) -> Result<Done, ExperimentError> {
        let ChaosArguments { minutes, topology } = request.arguments()?;
        let minutes = minutes.unwrap_or(MINUTES[usize::from(request.options.quick)]).max(1);
        lab(minutes, topology, request.options)
    }
}

/// A row of the result: one part.
#[derive(Serialize)]
struct PartRow {
    part: &'static str,
    seed: u64,
    minutes: u64,
    client_seconds: u64,
    faults: u64,
    joins: u64,
    leaves: u64,
    refused: u64,
    hostile_refused: u64,
    starts: u64,
    transactions: u64,
    failed_transactions: u64,
    interrupted_transactions: u64,
    rests: u64,
    digest: String,
    violation: Option<String>,
}

impl PartRow {
    fn new(job: &Job, report: &ChaosReport) -> PartRow {
        let counts = &report.counts;
        let violation = report.violations.first();
        PartRow {
            part: if job.spec.flaw.is_some() { "planted" } else { "part" },
            seed: job.spec.seed,
            minutes: job.minutes(),
            client_seconds: counts.client_seconds,
            faults: report.coverage.total(),
            joins: counts.joins,
            leaves: counts.leaves,
            refused: counts.refused.values().sum(),
            hostile_refused: counts.hostile_refused.values().sum(),
            starts: counts.starts,
            transactions: counts.transactions[0],
            failed_transactions: counts.transactions[1],
            interrupted_transactions: counts.transactions[2],
            rests: counts.rests,
            digest: format!("{:016x}", report.digest),
            violation: violation.map(|it| format!("{:.3} s: {}", it.at.as_secs(), it.what)),
        }
    }
}

/// A row of the result: how often a fault hit a state.
#[derive(Serialize)]
struct PairRow {
    part: &'static str,
    fault: String,
    state: String,
    count: u64,
}

/// A row of the result: one part among peers.
#[derive(Serialize)]
struct PeerPartRow {
    part: &'static str,
    seed: u64,
    minutes: u64,
    peer_seconds: u64,
    faults: u64,
    rests: u64,
    digest: String,
    violation: Option<String>,
}

struct Job {
    spec: ChaosSpec,
}

impl Job {
    fn minutes(&self) -> u64 {
        self.spec.time.0 / MINUTE.0
    }
}

fn jobs(minutes: u64, options: RunOptions) -> Vec<Job> {
    let part = |at: u64| {
        let length = (minutes - at * PART).min(PART);
        Job { spec: ChaosSpec::new(options.seed + at, Micros(MINUTE.0 * length)) }
    };
    let hunt = |flaw: Flaw| {
        (0..HUNTS).map(move |at| {
            let spec = ChaosSpec::new(options.seed + at, Micros(MINUTE.0 * PART));
            Job { spec: ChaosSpec { flaw: Some(flaw), ..spec } }
        })
    };
    let parts = (0..minutes.div_ceil(PART)).map(part);
    parts.chain(Flaw::ALL.into_iter().flat_map(hunt)).collect()
}

fn lab(
    minutes: u64,
    topology: Option<ChaosTopology>,
    options: RunOptions,
) -> Result<Done, ExperimentError> {
    let mut done = Done {
        outcome: ExperimentResult::new("chaos", options.seed),
        tables: Vec::new(),
        notes: vec![SETTING.to_owned()],
        report: Report::new("chaos", "Sessions and storage while everything fails")
            .summary(SETTING),
    };
    if topology != Some(ChaosTopology::Peer) {
        with_server(&mut done, minutes, options)?;
    }
    if topology != Some(ChaosTopology::Server) {
        among_peers(&mut done, minutes, options)?;
    }
    done.report = done.tables.iter().fold(done.report, Report::table);
    Ok(done)
}

/// Describes a violation, with the command that replays it.
fn replay(job: &Job, violation: &Violation, topology: &str) -> String {
    let (seed, minutes, what) = (job.spec.seed, job.minutes(), &violation.what);
    format!(
        "seed {seed}, {:.3} s: {what}; replay: foveate lab chaos --topology {topology} --seed {seed} --minutes {minutes}",
        violation.at.as_secs(),
    )
}

fn with_server(done: &mut Done, minutes: u64, options: RunOptions) -> Result<(), ExperimentError> {
    let jobs = jobs(minutes, options);
    let progress = Progress::new("chaos", jobs.len() as u64);
    let reports = in_parallel(&jobs, |job| {
        let report = chaos::run(job.spec);
        progress.tick(1);
        report
    });
    progress.finish();
    let reports = reports.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut coverage = Coverage::default();
    for (job, report) in jobs.iter().zip(&reports) {
        done.outcome.push(PartRow::new(job, report))?;
        if job.spec.flaw.is_some() {
            continue;
        }
        coverage.add(&report.coverage);
        done.notes.extend(report.violations.first().map(|it| replay(job, it, "server")));
    }
    for (fault, state) in pairs() {
        let (count, part) = (coverage.of(fault, state), "pair");
        let (fault, state) = (format!("{fault:?}"), format!("{state:?}"));
        done.outcome.push(PairRow { part, fault, state, count })?;
    }
    judge(&mut done.outcome, minutes, &jobs, &reports, &coverage);
    done.tables.push(table(&coverage));
    Ok(())
}

fn among_peers(done: &mut Done, minutes: u64, options: RunOptions) -> Result<(), ExperimentError> {
    let mut jobs = jobs(minutes, options);
    jobs.retain(|job| job.spec.flaw.is_none());
    for job in &mut jobs {
        job.spec = ChaosSpec::among_peers(job.spec.seed, job.spec.time);
    }
    let progress = Progress::new("chaos among peers", jobs.len() as u64);
    let reports = in_parallel(&jobs, |job| {
        let report = chaos::run_peers(job.spec);
        progress.tick(1);
        report
    });
    progress.finish();
    let reports = reports.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut coverage = BTreeMap::<_, u64>::new();
    let mut violated = 0;
    for (job, report) in jobs.iter().zip(&reports) {
        let violation = report.violations.first();
        violated += u32::from(violation.is_some());
        done.notes.extend(violation.map(|it| replay(job, it, "peer")));
        report.coverage.iter().for_each(|(pair, hits)| *coverage.entry(*pair).or_default() += hits);
        done.outcome.push(PeerPartRow {
            part: "peer_part",
            seed: job.spec.seed,
            minutes: job.minutes(),
            peer_seconds: report.peer_seconds,
            faults: report.coverage.values().sum(),
            rests: report.rests,
            digest: format!("{:016x}", report.digest),
            violation: violation.map(|it| format!("{:.3} s: {}", it.at.as_secs(), it.what)),
        })?;
    }
    let states = PeerState::ALL.map(|state| (format!("{state:?}").to_lowercase(), Align::Right));
    let columns = [("fault".to_owned(), Align::Left)].into_iter().chain(states);
    let mut table = Table::new(columns).caption("How often each fault hit a peer in each state");
    for fault in PeerFault::ALL {
        let of = |state| coverage.get(&(fault, state)).copied().unwrap_or(0);
        table.row(
            [format!("{fault:?}")].into_iter().chain(PeerState::ALL.map(|it| of(it).to_string())),
        );
        for state in PeerState::ALL {
            let (count, part) = (of(state), "peer_pair");
            let (fault, state) = (format!("{fault:?}"), format!("{state:?}"));
            done.outcome.push(PairRow { part, fault, state, count })?;
        }
    }
    done.tables.push(table);
    let name = "parts among peers with a violated invariant";
    // Reported only: after a partition an honest peer may still be taken for a usurper.
    let verdict = Verdict::at_most(name, f64::from(violated), 0.0, "");
    done.outcome.judge(verdict.reported_only(true));
    let rests: u64 = reports.iter().map(|report| report.rests).sum();
    let name = "comparisons of all peers at rest";
    done.outcome.judge(Verdict::at_least(name, rests as f64, jobs.len() as f64, ""));
    Ok(())
}

const SETTING: &str = "Twelve honest and two hostile clients of the shipped server, whose storage logic runs on a \
    simulated disk. Each pair of a fault and a session's state is provoked in turn; a checker compares after every step \
    (`crates/foveate-lab/src/chaos/mod.rs` states its invariants). Five planted bugs must be found.";

fn pairs() -> impl Iterator<Item = (InjectedFault, SessionState)> {
    InjectedFault::ALL.into_iter().flat_map(|fault| SessionState::ALL.map(|state| (fault, state)))
}

fn judge(
    outcome: &mut ExperimentResult,
    minutes: u64,
    jobs: &[Job],
    reports: &[ChaosReport],
    coverage: &Coverage,
) {
    let all = || jobs.iter().zip(reports);
    let honest = || all().filter(|(job, _)| job.spec.flaw.is_none());
    let violated = honest().filter(|(_, report)| !report.violations.is_empty()).count();
    outcome.judge(Verdict::at_most("parts with a violated invariant", violated as f64, 0.0, ""));
    for flaw in Flaw::ALL {
        let of_flaw = all().filter(|(job, _)| job.spec.flaw == Some(flaw));
        let found = of_flaw.filter(|(_, report)| !report.violations.is_empty()).count();
        let name = format!("planted {flaw:?}: parts of {HUNTS} in which it is found");
        outcome.judge(Verdict::at_least(name, found as f64, 1.0, ""));
    }
    let due = (minutes / ROUND_OF_ALL) as f64;
    let least = coverage.least() as f64;
    outcome.judge(Verdict::at_least("least hits of any fault in any state", least, due, ""));
    let rests: u64 = honest().map(|(_, report)| report.counts.rests).sum();
    let parts = honest().count() as f64;
    outcome.judge(Verdict::at_least("comparisons of all clients at rest", rests as f64, parts, ""));
    let seconds: u64 = honest().map(|(_, report)| report.counts.client_seconds).sum();
    let share = seconds as f64 / (minutes * 60) as f64;
    outcome.judge(Verdict::at_least("players in, on average", share, 8.0, ""));
}

fn table(coverage: &Coverage) -> Table {
    let states = SessionState::ALL.map(|state| (format!("{state:?}").to_lowercase(), Align::Right));
    let columns = [("fault".to_owned(), Align::Left)].into_iter().chain(states);
    let mut table = Table::new(columns).caption("How often each fault hit a session in each state");
    for fault in InjectedFault::ALL {
        let counts = SessionState::ALL.map(|state| coverage.of(fault, state).to_string());
        table.row([format!("{fault:?}")].into_iter().chain(counts));
    }
    table
}
