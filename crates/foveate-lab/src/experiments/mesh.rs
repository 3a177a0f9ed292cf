//! `foveate lab mesh`: a world on many servers, under faults at every step.
//!
//! Everything wanders and much crosses borders. Parts: *steady* (nothing goes wrong; how late objects arrive, and
//! whether they are what they would be on one server), *faults* (everything goes wrong, at every step of every role),
//! *crash* (single crashes: how long a region is without an owner); and those of `crate::mesh::parts`: what more servers
//! are good for, and what they cost.

use super::{Done, Experiment, ExperimentError, LabRequest, RunOptions, in_parallel};
use crate::mesh::check::{FindingKind, MeshFinding};
use crate::mesh::faults::{FaultKind, FaultSpec, MAX_FAVOURED, StepFault};
use crate::mesh::game::DriftSpec;
use crate::mesh::parts::{
    PartResult, PartSpec, capacity, change, crowd, growth, hearsay, hit, places,
};
use crate::mesh::run::{MeshError, MeshResult, MeshSpec, run};
use crate::output::{Align, ExperimentResult, Progress, Table, Verdict};
use crate::report::{Axis, Plot, Report, Series};
use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use foveate_node::region::MeshStep;
use foveate_wire::Micros;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Handoffs under faults, unless `--handoffs` says otherwise.
const HANDOFFS: u64 = 100_000;
/// Handoffs under faults in a short run.
const QUICK_HANDOFFS: u64 = 4_000;
/// Worlds at a time: after each batch the handoffs are counted.
const BATCH: u64 = 8;
/// Worlds at most.
const MAX_WORLDS: u64 = 10_000;
/// Findings that are printed of each part.
const MAX_NOTES: usize = 10;
/// Players with sessions in each world.
const SESSIONS: u32 = 8;

/// Whether anything goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Faults {
    On,
    Off,
}

/// A part of the experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum MeshPart {
    /// Nothing goes wrong
    Steady,
    /// Everything goes wrong
    Faults,
    /// Single crashes
    Crash,
    /// Players that servers hold together
    Capacity,
    /// Bytes as servers become more
    Growth,
    /// Servers at two sites
    Places,
    /// News by gossip
    Gossip,
    /// A crowd that no cut divides
    Crowd,
    /// Servers that come and go
    Change,
    /// Hits across borders
    Hit,
}

impl MeshPart {
    /// Runs one of those beside steady, faults and crash.
    fn run(self, spec: PartSpec) -> Option<Result<PartResult, MeshError>> {
        match self {
            MeshPart::Steady | MeshPart::Faults | MeshPart::Crash => None,
            MeshPart::Capacity => Some(capacity::run(spec)),
            MeshPart::Growth => Some(growth::run(spec)),
            MeshPart::Places => Some(places::run(spec)),
            MeshPart::Gossip => Some(hearsay::run(spec)),
            MeshPart::Crowd => Some(crowd::run(spec)),
            MeshPart::Change => Some(change::run(spec)),
            MeshPart::Hit => Some(hit::run(spec)),
        }
    }
}

#[derive(Args)]
struct MeshArguments {
    /// Servers of each world; there is a region for each but one
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(2..=64))]
    servers: u32,
    /// Walkers of each world, which stand for players
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(2..=4096))]
    players: u32,
    /// Go on until so many objects have changed regions under faults
    #[arg(long, value_name = "N")]
    handoffs: Option<u64>,
    /// Whether anything goes wrong
    #[arg(long, value_enum, default_value_t = Faults::On)]
    faults: Faults,
    /// Run one world under faults again, by the name that a finding gives it
    #[arg(long, value_name = "SEED:FAULTS")]
    world: Option<WorldName>,
    /// Run this part only; may be given several times
    #[arg(long, value_enum, value_name = "PART")]
    part: Vec<MeshPart>,
}

impl MeshArguments {
    fn runs(&self, part: MeshPart) -> bool {
        self.part.is_empty() || self.part.contains(&part)
    }
}

/// A part's figures, over all of its worlds.
#[derive(Clone, Debug, Serialize)]
pub struct MeshRow {
    part: &'static str,
    servers: u32,
    players: u32,
    worlds: u64,
    virtual_s: f64,
    handoffs: u64,
    /// Avatars of players with sessions among the handoffs.
    avatars: u64,
    /// Sessions that went from server to server.
    sessions_moved: u64,
    /// Objects without an owner in the end, and players without their avatar or belongings.
    lost: u64,
    /// Objects with two owners, or on which an action was carried out twice.
    doubled: u64,
    /// Turns taken twice, by two servers, or after the region was fenced; sessions with two hosts, inputs used twice.
    forked: u64,
    /// Players that were not in, or did not see what is near them, half a minute after the last fault.
    stuck: u64,
    gap_ticks_p99: u64,
    gap_ticks_max: u64,
    takeovers: u64,
    takeover_s_max: Option<f64>,
    /// From when a standby noticed: until a region had an owner, and until players of a server that crashed played.
    succession_s_max: Option<f64>,
    play_s_max: Option<f64>,
    /// Share of them that played within two seconds.
    play_in_time: Option<f64>,
    /// To other servers, each server.
    server_bytes_s: f64,
    /// To each client.
    client_bytes_s: f64,
    /// Replicas near players that were right, in the end.
    bounds_border: Option<f64>,
    bounds_inside: Option<f64>,
    /// Replicas of crossing clients that went on without being sent again.
    replicas_kept: Option<f64>,
    /// Pings that were sent and never arrived.
    pings_lost: u64,
    /// Faults that struck, and the least of any step and sort.
    faults: u64,
    faults_least: u64,
    /// Walkers that differ from a run on one server.
    differing: Option<u64>,
}

/// Every step with every sort of fault.
fn steps() -> impl Iterator<Item = StepFault> {
    let steps = MeshStep::ALL.into_iter().chain(MeshStep::OF_SESSIONS);
    steps.flat_map(|step| FaultKind::NAMES.map(|name| (step, name)))
}

/// What makes a world under faults the same again: its seed, and the faults that come first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct WorldName {
    seed: u64,
    favoured: [Option<StepFault>; MAX_FAVOURED],
}

impl fmt::Display for WorldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |it: StepFault| steps().position(|known| known == it);
        let favoured: Vec<String> =
            self.favoured.iter().flatten().filter_map(|it| Some(at(*it)?.to_string())).collect();
        match favoured.is_empty() {
            true => write!(f, "{}", self.seed),
            false => write!(f, "{}:{}", self.seed, favoured.join(",")),
        }
    }
}

impl FromStr for WorldName {
    type Err = String;

    fn from_str(text: &str) -> Result<WorldName, String> {
        let (seed, faults) = text.split_once(':').unwrap_or((text, ""));
        let seed = seed.parse().map_err(|_| format!("`{seed}` is not a seed"))?;
        let all: Vec<StepFault> = steps().collect();
        let mut favoured = [None; MAX_FAVOURED];
        for (nth, it) in faults.split(',').filter(|it| !it.is_empty()).enumerate() {
            let fault = it.parse().ok().and_then(|at: usize| all.get(at));
            let fault = fault.ok_or_else(|| format!("`{it}` is not the number of a fault"))?;
            *favoured.get_mut(nth).ok_or_else(|| "too many faults".to_owned())? = Some(*fault);
        }
        Ok(WorldName { seed, favoured })
    }
}

/// How often steps were reached, and faults struck at them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct FaultCounts {
    reached: BTreeMap<MeshStep, u64>,
    struck: BTreeMap<StepFault, u64>,
}

/// The sum of several worlds.
#[derive(Default)]
struct Sum {
    worlds: u64,
    results: Vec<MeshResult>,
}

impl Sum {
    fn of(results: Vec<MeshResult>) -> Sum {
        Sum { worlds: results.len() as u64, results }
    }

    fn total(&self, of: impl Fn(&MeshResult) -> u64) -> u64 {
        self.results.iter().map(of).sum()
    }

    fn found(&self, kinds: &[FindingKind]) -> u64 {
        self.total(|it| kinds.iter().map(|kind| it.found(*kind)).sum())
    }

    /// How late objects came, by ticks.
    fn late(&self) -> Vec<u64> {
        let mut late = vec![0; 16];
        for result in &self.results {
            late.iter_mut().zip(result.counts.late).for_each(|(sum, it)| *sum += it);
        }
        late
    }

    fn faults(&self) -> BTreeMap<StepFault, u64> {
        let mut sum: BTreeMap<StepFault, u64> = steps().map(|key| (key, 0)).collect();
        for (key, count) in self.results.iter().flat_map(|it| &it.counts.faults) {
            *sum.entry(*key).or_default() += count;
        }
        sum
    }

    fn reached(&self) -> BTreeMap<MeshStep, u64> {
        let mut sum = BTreeMap::new();
        for (step, count) in self.results.iter().flat_map(|it| &it.counts.reached) {
            *sum.entry(*step).or_default() += count;
        }
        sum
    }

    /// The first things that must not happen and did, each with its world's seed.
    fn findings(&self, part: &str) -> Vec<String> {
        let named = |it: &MeshResult| WorldName { seed: it.seed, favoured: it.favoured };
        let all = self.results.iter().flat_map(|it| it.findings.iter().map(|one| (named(it), one)));
        let text = |(name, it): (WorldName, &MeshFinding)| {
            format!("{part}, world {name}: {:?} at {:.2} s: {}", it.kind, it.at.as_secs(), it.text)
        };
        all.take(MAX_NOTES).map(text).collect()
    }

    /// What struck least: it comes first in the next worlds.
    fn least(&self) -> [Option<StepFault>; MAX_FAVOURED] {
        let mut counts: Vec<(u64, StepFault)> =
            self.faults().into_iter().map(|(key, count)| (count, key)).collect();
        counts.sort_unstable();
        std::array::from_fn(|at| counts.get(at).map(|it| it.1))
    }

    fn longest(&self, of: impl Fn(&MeshResult) -> &Vec<Micros>) -> Option<f64> {
        let all = self.results.iter().flat_map(of).map(|it| it.as_secs());
        all.fold(None, |max: Option<f64>, it| Some(max.map_or(it, |max| max.max(it))))
    }

    /// The share of replicas near players that were right: inside, or at borders.
    fn right(&self, side: usize) -> Option<f64> {
        let [all, right] = [0, 1].map(|at| self.total(|it| it.right[side][at]));
        (all > 0).then(|| right as f64 / all as f64)
    }

    fn play_in_time(&self) -> Option<f64> {
        let all: Vec<Micros> = self.results.iter().flat_map(|it| &it.silences).copied().collect();
        let soon = all.iter().filter(|it| **it <= Micros(2_000_000)).count();
        (!all.is_empty()).then(|| soon as f64 / all.len() as f64)
    }

    fn row(&self, part: &'static str, spec: &MeshSpec) -> MeshRow {
        let late = self.late();
        let all: u64 = late.iter().sum();
        let mut seen = 0;
        let p99 = late.iter().position(|count| {
            seen += count;
            seen as f64 >= 0.99 * all as f64
        });
        let seconds: f64 = self.results.iter().map(|it| it.time.as_secs()).sum();
        let moved = self.total(|it| it.counts.replicas_moved);
        let bytes = self.total(|it| it.counts.bytes) as f64;
        let faults = self.faults();
        MeshRow {
            part,
            servers: spec.servers,
            players: spec.players,
            worlds: self.worlds,
            virtual_s: seconds,
            handoffs: all,
            avatars: self.total(|it| it.counts.avatars),
            sessions_moved: self.total(|it| it.counts.moves),
            lost: self.found(&[FindingKind::Lost, FindingKind::PlayerLost]),
            doubled: self.found(&[FindingKind::Doubled, FindingKind::ActedTwice]),
            forked: self.found(&[
                FindingKind::SteppedTwice,
                FindingKind::SteppedFenced,
                FindingKind::TwoLeases,
                FindingKind::EpochFell,
                FindingKind::TwoHosts,
                FindingKind::RecordForked,
                FindingKind::InputTwice,
            ]),
            stuck: self.found(&[FindingKind::Stuck, FindingKind::Diverged, FindingKind::Ghost]),
            gap_ticks_p99: p99.unwrap_or(0) as u64,
            gap_ticks_max: late.iter().rposition(|count| *count > 0).unwrap_or(0) as u64,
            takeovers: self.total(|it| it.counts.takeovers),
            takeover_s_max: self.longest(|it| &it.takeovers),
            succession_s_max: self.longest(|it| &it.successions),
            play_s_max: self.longest(|it| &it.silences),
            play_in_time: self.play_in_time(),
            server_bytes_s: bytes / seconds.max(1e-9) / f64::from(spec.servers),
            client_bytes_s: self.total(|it| it.counts.client_bytes) as f64
                / seconds.max(1e-9)
                / f64::from(spec.players.max(1)),
            bounds_border: self.right(1),
            bounds_inside: self.right(0),
            replicas_kept: (moved > 0)
                .then(|| self.total(|it| it.counts.replicas_kept) as f64 / moved as f64),
            pings_lost: self.total(|it| it.pings_lost),
            faults: faults.values().sum(),
            faults_least: faults.values().copied().min().unwrap_or(0),
            differing: None,
        }
    }
}

/// `foveate lab mesh`.
pub struct MeshExperiment;

impl Experiment for MeshExperiment {
    fn name(&self) -> &'static str {
        "mesh"
    }

    fn about(&self) -> &'static str {
        "A world on many servers: handoffs, crashes and pauses at every step, nothing lost or doubled"
    }

    fn options(&self, command: Command) -> Command {
        MeshArguments::augment_args(command)
    }

    fn run(&self, request: &LabRequest<'_>) -> Result<Done, ExperimentError> {
        run_mesh(request.matches, request.options)
    }
}

/// Runs the experiment, which needs nothing of the program that it is a command of.
pub fn run_mesh(matches: &ArgMatches, options: RunOptions) -> Result<Done, ExperimentError> {
    let usage = |error: &dyn fmt::Display| ExperimentError::Usage(error.to_string());
    let arguments = MeshArguments::from_arg_matches(matches).map_err(|error| usage(&error))?;
    lab(&arguments, options).map_err(|error| usage(&error))?
}

fn spec(arguments: &MeshArguments, faults: FaultSpec, time: Micros, seed: u64) -> MeshSpec {
    let small = MeshSpec::small(faults, time, seed);
    let players = arguments.players;
    // As dense as the small world.
    let half = small.drift.half * (players as f32 / small.drift.walkers as f32).sqrt();
    let crates = (players / 2).next_multiple_of(2);
    let drift = DriftSpec { half, walkers: players, crates, items: players / 4, ..small.drift };
    let (servers, regions) = (arguments.servers, arguments.servers - 1);
    MeshSpec { servers, regions, drift, players: SESSIONS, ..small }
}

fn lab(
    arguments: &MeshArguments,
    options: RunOptions,
) -> Result<Result<Done, ExperimentError>, MeshError> {
    let seconds = |count: u64| Micros(count * 1_000_000);
    let quick = options.quick;
    let time = seconds(if quick { 30 } else { 120 });
    let seeds = |count: u64| (0..count).map(move |at| options.seed.wrapping_mul(1_000_003) + at);
    let progress = Progress::new("mesh", 10);
    let mut parts: Vec<(MeshSpec, MeshRow, Vec<u64>)> = Vec::new();
    let mut notes = Vec::new();
    let runs = |specs: Vec<MeshSpec>| -> Result<Sum, MeshError> {
        let results = in_parallel(&specs, run);
        Ok(Sum::of(results.into_iter().collect::<Result<_, _>>()?))
    };
    let of = |faults: FaultSpec, count: u64| -> Vec<MeshSpec> {
        seeds(count).map(|seed| spec(arguments, faults, time, seed)).collect()
    };
    if arguments.runs(MeshPart::Steady) {
        let steady = of(FaultSpec::NONE, if quick { 1 } else { 4 });
        let sum = runs(steady.clone())?;
        let mut row = sum.row("steady", &steady[0]);
        row.differing = Some(sum.total(|it| it.differing));
        notes.extend(sum.findings("steady"));
        parts.push((steady[0], row, sum.late()));
        progress.tick(1);
    }
    let mut faults = FaultCounts::default();
    if arguments.faults == Faults::On && arguments.runs(MeshPart::Faults) {
        let wanted = arguments.handoffs.unwrap_or(if quick { QUICK_HANDOFFS } else { HANDOFFS });
        let mut sum = Sum::default();
        let mut seed = options.seed.wrapping_mul(1_000_033);
        while sum.total(|it| it.counts.handoffs) < wanted && sum.worlds < MAX_WORLDS {
            let favoured = sum.least();
            let named = |it: WorldName| {
                let spec = spec(arguments, FaultSpec::ALL, time, it.seed);
                MeshSpec { favoured: it.favoured, ..spec }
            };
            let batch: Vec<MeshSpec> = match arguments.world {
                Some(world) => vec![named(world)],
                None => {
                    (0..BATCH).map(|at| named(WorldName { seed: seed + at, favoured })).collect()
                }
            };
            let more = runs(batch)?;
            seed += BATCH;
            sum.worlds += more.worlds;
            sum.results.extend(more.results);
            if arguments.world.is_some() {
                break;
            }
        }
        notes.extend(sum.findings("faults"));
        let first = spec(arguments, FaultSpec::ALL, time, 0);
        parts.push((first, sum.row("faults", &first), sum.late()));
        faults = FaultCounts { reached: sum.reached(), struck: sum.faults() };
        progress.tick(1);
    }
    if arguments.faults == Faults::On && arguments.runs(MeshPart::Crash) {
        let crash = of(FaultSpec::CRASHES, if quick { 2 } else { 16 });
        let sum = runs(crash.clone())?;
        notes.extend(sum.findings("crash"));
        parts.push((crash[0], sum.row("crash", &crash[0]), sum.late()));
        progress.tick(1);
    }
    let mut others = Vec::new();
    for part in MeshPart::value_variants().iter().filter(|part| arguments.runs(**part)) {
        if let Some(result) = part.run(PartSpec { quick, seed: options.seed }) {
            others.push(result?);
            progress.tick(1);
        }
    }
    progress.finish();
    Ok(describe(&parts, &faults, others, options).map(|done| Done { notes, ..done }))
}

fn describe(
    parts: &[(MeshSpec, MeshRow, Vec<u64>)],
    faults: &FaultCounts,
    others: Vec<PartResult>,
    options: RunOptions,
) -> Result<Done, ExperimentError> {
    let mut outcome = ExperimentResult::new("mesh", options.seed);
    let rows: Vec<&MeshRow> = parts.iter().map(|it| &it.1).collect();
    rows.iter().try_for_each(|row| outcome.push(row))?;
    verdicts(&rows, options.quick).into_iter().for_each(|verdict| outcome.judge(verdict));
    let mut tables = Vec::new();
    if !rows.is_empty() {
        tables.push(table(&rows));
    }
    if !faults.struck.is_empty() {
        tables.push(fault_table(faults));
    }
    let mut report = Report::new("mesh", "A world on many servers").summary(
        "The shipped region servers on a simulated bus and ledger. Objects wander and are handed from region to \
         region; servers crash and pause at every step that they report. A gap is how many ticks an object misses \
         when it changes regions; they are caught up with at once. Bytes are those between servers, headers not counted.",
    );
    for table in &tables {
        report = report.section(table.caption_text().unwrap_or_default(), "").table(table);
    }
    let shares = |late: &[u64]| {
        let all = late.iter().sum::<u64>().max(1) as f64;
        late.iter().map(move |count| 100.0 * *count as f64 / all).collect::<Vec<_>>()
    };
    let late = parts.iter().map(|it| {
        let points = shares(&it.2).into_iter().enumerate().map(|(at, share)| (at as f64, share));
        Series::points(it.1.part, points)
    });
    let plot = Plot::lines("How late objects arrive")
        .x(Axis::linear("ticks, the last: or more", ""))
        .y(Axis::linear("share", "%").from_zero());
    if !parts.is_empty() {
        report = report.plot(late.fold(plot, Plot::series));
    }
    for part in others {
        part.rows.iter().try_for_each(|row| outcome.push(row))?;
        part.verdicts.into_iter().for_each(|verdict| outcome.judge(verdict));
        for table in &part.tables {
            report = report.section(table.caption_text().unwrap_or_default(), "").table(table);
        }
        report = part.plots.into_iter().fold(report, Report::plot);
        tables.extend(part.tables);
    }
    Ok(Done { outcome, tables, notes: Vec::new(), report })
}

fn verdicts(rows: &[&MeshRow], quick: bool) -> Vec<Verdict> {
    let sum = |of: fn(&MeshRow) -> u64| rows.iter().map(|row| of(row)).sum::<u64>() as f64;
    let part = |name: &str| rows.iter().find(|row| row.part == name);
    if rows.is_empty() {
        return Vec::new();
    }
    let mut verdicts = vec![
        Verdict::at_most("objects lost", sum(|row| row.lost), 0.0, ""),
        Verdict::at_most("objects or actions doubled", sum(|row| row.doubled), 0.0, ""),
        Verdict::at_most("histories forked", sum(|row| row.forked), 0.0, ""),
        Verdict::at_most("players stuck after faults", sum(|row| row.stuck), 0.0, "")
            .reported_only(true),
    ];
    let (crossings, avatars) = (sum(|row| row.handoffs), sum(|row| row.avatars));
    verdicts.push(Verdict::at_least(
        "players with sessions among what crosses",
        100.0 * avatars / crossings.max(1.0),
        10.0,
        "%",
    ));
    if let Some(row) = part("steady") {
        verdicts.push(Verdict::at_most(
            "gap without faults, p99",
            row.gap_ticks_p99 as f64,
            1.0,
            "ticks",
        ));
        verdicts.push(Verdict::at_most(
            "gap without faults, longest",
            row.gap_ticks_max as f64,
            2.0,
            "ticks",
        ));
        verdicts.push(Verdict::at_most(
            "actions lost without faults",
            row.pings_lost as f64,
            0.0,
            "",
        ));
        let differing = row.differing.map_or(f64::NAN, |count| count as f64);
        verdicts.push(Verdict::at_most("walkers unlike those of one server", differing, 0.0, ""));
        let kept = 100.0 * row.replicas_kept.unwrap_or(f64::NAN);
        verdicts.push(
            Verdict::at_least("replicas kept by players that cross", kept, 95.0, "%")
                .reported_only(true),
        );
    }
    if let Some(row) = part("crash") {
        let longest = row.takeover_s_max.unwrap_or(f64::NAN);
        verdicts.push(
            Verdict::at_most("longest time without an owner after a crash", longest, 2.0, "s")
                .reported_only(quick),
        );
        let succession = row.succession_s_max.unwrap_or(f64::NAN);
        verdicts.push(
            Verdict::at_most("an owner after a standby noticed, longest", succession, 1.5, "s")
                .reported_only(quick),
        );
        let play = row.play_s_max.unwrap_or(f64::NAN);
        verdicts.push(
            Verdict::at_most("play after a standby noticed, longest", play, 2.0, "s")
                .reported_only(true),
        );
        let in_time = 100.0 * row.play_in_time.unwrap_or(f64::NAN);
        verdicts.push(
            Verdict::at_least("players that play within 2 s", in_time, 100.0, "%")
                .reported_only(true),
        );
    }
    if let Some(row) = part("faults") {
        let least = row.faults_least as f64;
        verdicts.push(
            Verdict::at_least("faults of each step and sort", least, 1_000.0, "")
                .reported_only(true),
        );
    }
    verdicts
}

fn table(rows: &[&MeshRow]) -> Table {
    Table::of(rows)
        .left("part", |row| row.part.to_owned())
        .right("servers", |row| row.servers.to_string())
        .right("worlds", |row| row.worlds.to_string())
        .right("handoffs", |row| row.handoffs.to_string())
        .right("players %", |row| {
            format!("{:.1}", 100.0 * row.avatars as f64 / row.handoffs.max(1) as f64)
        })
        .right("lost", |row| row.lost.to_string())
        .right("doubled", |row| row.doubled.to_string())
        .right("forked", |row| row.forked.to_string())
        .right("stuck", |row| row.stuck.to_string())
        .right("gap p99", |row| row.gap_ticks_p99.to_string())
        .right("max", |row| row.gap_ticks_max.to_string())
        .right("takeovers", |row| row.takeovers.to_string())
        .right("longest s", |row| row.takeover_s_max.map_or(String::new(), |it| format!("{it:.2}")))
        .right("B/s a server", |row| format!("{:.0}", row.server_bytes_s))
        .right("faults", |row| row.faults.to_string())
        .caption("A world on many servers")
}

fn fault_table(faults: &FaultCounts) -> Table {
    let columns = [("step", Align::Left), ("reached", Align::Right)]
        .into_iter()
        .chain(FaultKind::NAMES.map(|name| (name, Align::Right)));
    let mut table = Table::new(columns).caption("Faults that struck, by step");
    for step in MeshStep::ALL.into_iter().chain(MeshStep::OF_SESSIONS) {
        let count = |name| faults.struck.get(&(step, name)).copied().unwrap_or(0).to_string();
        let reached = faults.reached.get(&step).copied().unwrap_or(0).to_string();
        let row = [format!("{step:?}"), reached].into_iter();
        table.row(row.chain(FaultKind::NAMES.map(count)));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_world_is_known_by_its_name() {
        for count in [0, 1, MAX_FAVOURED] {
            let mut all = steps();
            let favoured = std::array::from_fn(|at| (at < count).then(|| all.nth(12)).flatten());
            let name = WorldName { seed: 1_000_033, favoured };
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        assert_eq!(
            WorldName::from_str("7:160"),
            Err("`160` is not the number of a fault".to_owned())
        );
        assert!(WorldName::from_str("x").is_err() && WorldName::from_str("7:-").is_err());
    }

    #[test]
    fn a_short_run_keeps_its_promises() {
        let part = vec![MeshPart::Steady, MeshPart::Faults, MeshPart::Crash];
        let (handoffs, faults) = (Some(1_000), Faults::On);
        let arguments =
            MeshArguments { servers: 5, players: 24, handoffs, faults, world: None, part };
        let done = lab(&arguments, RunOptions { seed: 1, quick: true }).unwrap().unwrap();
        done.tables.iter().for_each(|table| println!("{table}"));
        done.notes.iter().for_each(|note| println!("{note}"));
        let broken: Vec<_> =
            done.outcome.verdicts.iter().filter(|it| it.required && !it.holds).collect();
        assert!(broken.is_empty(), "{broken:?}");
        assert!(done.outcome.rows.iter().any(|row| row["part"] == "faults" && row["faults"] != 0));
    }
}
