//! `foveate lab vfc`: graded views on recorded movement: how much they save, and how wrong replicas are.

use super::{Done, Experiment, ExperimentError, LabRequest, RunOptions, in_parallel};
use crate::audit::Findings;
use crate::movement::{Movement, Recorded};
use crate::net::LinkSpec;
use crate::output::{ExperimentResult, Progress, Table, Verdict};
use crate::report::{Axis, Plot, Report, Series};
use crate::session::{Session, SessionSpec};
use crate::sighted::{Rule, Sighted};
use crate::trace::Trace;
use crate::training::avatar_of;
use clap::{Args, Command};
use foveate_sync::interest::{Policy, View, Visible, presets};
use foveate_sync::metrics::Spread;
use foveate_wire::{Metres, Micros};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of one update in Cube 2's own protocol, which carries a few more fields than ours.
pub const ORIGINAL_BYTES: f64 = 17.4;
/// One-way latency; the round trip is twice this.
const LATENCY: Micros = Micros(50_000);
/// Rounds of a quick run.
const QUICK_ROUNDS: u64 = 600;

/// The names of the views, in the order of the table.
const VIEWS: [&str; 5] = ["normal", "zoom", "vfc", "a3", "circle"];

/// Where the inner zones end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Zones {
    /// At 0.2 and 0.4 of the world's longer side.
    Share,
    /// At 300 and 600 units, as in the source.
    Source,
}

impl Zones {
    /// The ends of the inner two zones.
    fn ends(self, side: f32) -> [f32; 2] {
        match self {
            Zones::Share => [0.2 * side, 0.4 * side],
            Zones::Source => [300.0, 600.0],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Zones::Share => "0.2/0.4 side",
            Zones::Source => "300/600 units",
        }
    }
}

/// The views that the source has.
const OF_SOURCE: [&str; 3] = ["normal", "zoom", "vfc"];

/// A view with its zones.
#[derive(Clone, Copy)]
struct Variant {
    view: &'static str,
    zones: Zones,
}

/// The normal view, with looser bounds for players that the recording says were out of sight.
const SIGHTED: &str = "normal, sighted";

/// One row of the result.
#[derive(Clone, Debug, Serialize)]
pub struct VfcRow {
    trace: String,
    view: &'static str,
    zones: Zones,
    zone_ends: [f32; 2],
    round_ms: f64,
    players: usize,
    relayed_per_player_round: f64,
    ratio_schedule: f64,
    ratio_total: f64,
    bytes_per_client_s: f64,
    packets_per_client_s: f64,
    updates_per_client_s: f64,
    bits_per_update: f64,
    up_bytes_per_client_s: f64,
    err_deg_p50: f64,
    err_deg_p95: f64,
    err_deg_p95_by_zone: Vec<f64>,
    err_deg_p95_by_class: Vec<Vec<f64>>,
    bounds_scheduled: f64,
    bounds_audited: f64,
    bounds_observed: f64,
    violations_latency: u64,
    violations_loss: u64,
    violations_budget: u64,
}

/// In the view that uses recorded sight, bounds of hidden players are this many times looser.
const HIDDEN: f32 = 4.0;

/// The views of a recording: one more if it has recorded sight.
fn views(trace: &Trace) -> Vec<Variant> {
    let sighted = trace.visibility().map(|_| SIGHTED);
    let shares = VIEWS.into_iter().chain(sighted).map(|view| Variant { view, zones: Zones::Share });
    shares.chain(OF_SOURCE.map(|view| Variant { view, zones: Zones::Source })).collect()
}

/// The policy of a view, with the floors of this experiment: 15° for facing, in all zones.
fn policy(
    trace: &Arc<Trace>,
    round_ms: f64,
    name: &str,
    mut view: View,
) -> Result<Arc<dyn Policy>, ExperimentError> {
    view.inner_facing = 1.0;
    let inner = view.build()?;
    let provider = Sighted::new(Arc::clone(trace), round_ms, Rule::LineOfSight);
    Ok(match provider.filter(|_| name == SIGHTED) {
        Some(provider) => {
            let always = Metres(view.zones[0] / 2.0);
            Arc::new(Visible { inner, provider: Arc::new(provider), hidden: HIDDEN, always })
        }
        None => inner,
    })
}

/// The view of a name, with zones that end at these distances.
fn view(name: &str, [near, middle]: [f32; 2]) -> Result<View, ExperimentError> {
    Ok(match name {
        "normal" | SIGHTED => presets::normal(near, middle),
        "zoom" => presets::zoom(near, middle),
        "vfc" => presets::vfc(near, middle),
        "a3" => presets::a3(middle, 0),
        "circle" => presets::circle(middle),
        other => return Err(ExperimentError::Usage(format!("there is no view '{other}'"))),
    })
}

/// The two runs of a view.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Part {
    /// Scheduling alone: no prediction, no floors, a perfect link.
    Schedule,
    /// Everything, with a round trip of 100 ms.
    Total,
}

/// The length of a round that fits a recording, in milliseconds: its own interval if that is regular, otherwise
/// VFC4FPS's 33 ms.
pub fn natural_round(trace: &Trace) -> f64 {
    let mut gaps: Vec<u32> = Vec::new();
    for player in 0..trace.players() {
        let samples = trace.samples(player);
        gaps.extend(samples.windows(2).map(|w| w[1].t_ms - w[0].t_ms).take(2_000));
    }
    gaps.sort_unstable();
    let Some(&median) = gaps.get(gaps.len() / 2) else { return 50.0 };
    let same = gaps.iter().filter(|gap| **gap == median).count();
    if same * 10 >= gaps.len() * 9 { f64::from(median) } else { 33.0 }
}

fn run(
    trace: &Arc<Trace>,
    variant: Variant,
    part: Part,
    options: RunOptions,
    progress: &Progress,
) -> Result<Findings, ExperimentError> {
    let (round_ms, Variant { view: name, zones }) = (natural_round(trace), variant);
    let movement = Recorded::new(trace, round_ms)?;
    let mut view = view(name, zones.ends(movement.side()))?;
    let mut avatar = avatar_of(&movement, 1.0);
    let mut link = LinkSpec::delayed(LATENCY);
    if part == Part::Schedule {
        (view.floor_degrees, view.inner_facing) = (0.0, 0.0);
        (avatar.motion, avatar.facing_floor) = (false, 0.0);
        link = LinkSpec::PERFECT;
    }
    let round = Micros::from_secs(round_ms / 1e3);
    let spec = SessionSpec {
        round,
        policy: policy(trace, round_ms, name, view)?,
        down: link,
        up: link,
        budget: None,
        avatar,
        seed: options.seed,
        audited: part == Part::Total,
    };
    let mut session = Session::new(movement, spec)?;
    let mut rounds = 0;
    while (!options.quick || rounds < QUICK_ROUNDS) && session.round()? {
        rounds += 1;
        progress.tick(1);
    }
    Ok(session.findings())
}

/// The spread of errors by zone and field of view: one list of fields for each zone. A view without zones has one.
fn by_class(view: &View, found: &Findings) -> Vec<Vec<Spread>> {
    let (zones, fields) = (view.zones.len().max(1), view.fields.len().max(1));
    let classes = found.degrees_by_class.chunks(fields).take(zones);
    classes.map(<[Spread]>::to_vec).collect()
}

fn row(
    trace: &Trace,
    name: &str,
    variant: Variant,
    round_ms: f64,
    [schedule, total]: [&Findings; 2],
) -> Result<VfcRow, ExperimentError> {
    let Variant { view: view_name, zones } = variant;
    let round = Micros::from_secs(round_ms / 1e3);
    let seconds = total.observer_rounds as f64 * round.as_secs();
    let counters = &total.counters;
    let zone_ends = zones.ends(trace.longer_side());
    let classes = by_class(&view(view_name, zone_ends)?, total);
    let zone = |fields: &Vec<Spread>| {
        let mut all = Spread::default();
        fields.iter().for_each(|field| all.merge(field));
        all.quantile(0.95)
    };
    let fields = |fields: &Vec<Spread>| fields.iter().map(|field| field.quantile(0.95)).collect();
    Ok(VfcRow {
        trace: name.into(),
        view: view_name,
        zones,
        zone_ends,
        round_ms,
        players: trace.players(),
        relayed_per_player_round: total.updates as f64 / total.observer_rounds.max(1) as f64,
        ratio_schedule: schedule.fewer_updates(),
        ratio_total: total.fewer_bytes(ORIGINAL_BYTES),
        bytes_per_client_s: total.bytes_per_second(round),
        packets_per_client_s: counters.packets as f64 / seconds,
        updates_per_client_s: counters.updates as f64 / seconds,
        bits_per_update: counters.bits.state / counters.updates.max(1) as f64,
        up_bytes_per_client_s: total.up_bytes as f64 / seconds,
        err_deg_p50: total.degrees.quantile(0.5),
        err_deg_p95: total.degrees.quantile(0.95),
        err_deg_p95_by_zone: classes.iter().map(zone).collect(),
        err_deg_p95_by_class: classes.iter().map(fields).collect(),
        bounds_scheduled: counters.bounds_scheduled(),
        bounds_audited: total.bounds_audited(),
        bounds_observed: total.bounds_observed(),
        violations_latency: total.causes.latency,
        violations_loss: total.causes.loss,
        violations_budget: total.causes.budget,
    })
}

/// The recordings to be played.
#[derive(Args)]
pub(super) struct TraceFiles {
    /// A recording: CSV or CSV.gz with the header t_ms,id,x,y,z,yaw,pitch; may be given more than once
    #[arg(long = "trace", value_name = "FILE", required = true)]
    pub traces: Vec<PathBuf>,
}

pub struct VfcExperiment;

impl Experiment for VfcExperiment {
    fn name(&self) -> &'static str {
        "vfc"
    }

    fn about(&self) -> &'static str {
        "Graded views on recorded movement: bytes saved, error, bounds kept"
    }

    fn options(&self, command: Command) -> Command {
        TraceFiles::augment_args(command)
    }

    fn sample_arguments(&self) -> &'static [&'static str] {
        &["--trace", "traces/openarena_oa_dm3_16bots.csv.gz"]
    }

    fn run(&self, request: &LabRequest<'_>) -> Result<Done, ExperimentError> {
        lab(&request.arguments::<TraceFiles>()?.traces, request.options)
    }
}

/// Runs all views on the traces.
fn lab(traces: &[PathBuf], options: RunOptions) -> Result<Done, ExperimentError> {
    let mut outcome = ExperimentResult::new("vfc", options.seed);
    let mut report = Report::new("vfc", "Graded views on recorded movement");
    let (mut tables, mut notes) = (Vec::new(), Vec::new());
    for path in traces {
        let trace = Arc::new(Trace::read(path)?);
        check(path, &trace)?;
        let name = super::trace_name(path);
        notes.push(format!("{name}: {}", Recorded::new(&trace, natural_round(&trace))?.angles()));
        let (rows, violations) = measure(&trace, &name, options)?;
        notes.extend(violations);
        tables.push(table(&name, &rows));
        report = describe(report, &name, &rows);
        judge(&mut outcome, &name, &rows, options);
        for row in &rows {
            outcome.push(row)?;
        }
    }
    notes.push(format!(
        "Compared with what the game itself relayed: every recorded update to all others, at \
         {ORIGINAL_BYTES} B each: Cube 2's own, which carries a few fields more than ours (velocity, \
         falling, weapon). All headers of ours are counted, those of UDP and IP on neither side. Error: \
         what observers see at a round trip of 100 ms, predicted to now. Bounds: scheduled is the \
         scheduler's own account, audited what an independent auditor found in the packets as they left, \
         observed what receivers had."
    ));
    Ok(Done { outcome, tables, notes, report })
}

/// Recordings of the source's game have names with this prefix.
const SOURCE_GAME: &str = "cube2";
/// Server output of the original divided by that of the managed game, as the source measured it: least and most over
/// its maps.
const SOURCE_RANGES: [(&str, f64, f64); 2] = [("normal", 1.5, 3.0), ("vfc", 1.6, 1.8)];
/// Our map is none of the source's, so ratios may be outside its range by this much.
const SOURCE_ROOM: f64 = 0.15;
/// Zoom's ratio divided by normal's: the source has 0.96 to 1.0 on three maps.
const SOURCE_ZOOM: f64 = 0.98;
const SOURCE_ZOOM_ROOM: f64 = 0.12;
/// An object that is out of reach for ten seconds is forgotten. It cannot be announced again before the observer has
/// acknowledged that, so an object that comes back in that very round trip is missing.
const KEPT_AT_AN_EDGE: f64 = 0.9999;

fn judge(outcome: &mut ExperimentResult, name: &str, rows: &[VfcRow], options: RunOptions) {
    let worst = |edged: bool| {
        let rows = rows.iter().filter(|row| OF_SOURCE.contains(&row.view) != edged);
        rows.map(|row| row.bounds_audited).fold(1.0, f64::min)
    };
    let text = format!("{name}: bounds audited, worst view that covers the world");
    outcome.judge(Verdict::at_least(text, worst(false), 1.0, ""));
    let text = format!("{name}: bounds audited, worst view that ends somewhere");
    outcome.judge(Verdict::at_least(text, worst(true), KEPT_AT_AN_EDGE, ""));
    let covering = rows.iter().filter(|row| OF_SOURCE.contains(&row.view));
    let unsent = covering.map(|row| row.violations_budget).sum::<u64>();
    let text = format!("{name}: observed violations that are due to neither latency nor loss");
    outcome.judge(Verdict::at_most(text, unsent as f64, 0.0, ""));
    for zones in [Zones::Share, Zones::Source] {
        let ratio = |view: &str| {
            let row = rows.iter().find(|row| row.view == view && row.zones == zones);
            row.map_or(f64::NAN, |row| row.ratio_schedule)
        };
        let at = format!("{name}, {}", zones.name());
        let text = format!("{at}: updates of vfc divided by those of normal");
        outcome.judge(Verdict::at_least(text, ratio("normal") / ratio("vfc"), 1.1, "×"));
        if !name.starts_with(SOURCE_GAME) {
            continue;
        }
        for (view, least, most) in SOURCE_RANGES {
            let (middle, room) = ((least + most) / 2.0, (most - least) / 2.0 + SOURCE_ROOM);
            let text = format!("{at}: fewer updates, {view}, as in the source's maps");
            let verdict = Verdict::near(text, ratio(view), middle, room, "×");
            outcome.judge(verdict.reported_only(options.quick));
        }
        let text = format!("{at}: fewer updates of zoom divided by those of normal");
        let zoom = ratio("zoom") / ratio("normal");
        let zoom = Verdict::near(text, zoom, SOURCE_ZOOM, SOURCE_ZOOM_ROOM, "");
        outcome.judge(zoom.reported_only(options.quick));
    }
}

/// Rejects a recording that has too little to observe.
fn check(path: &Path, trace: &Trace) -> Result<(), ExperimentError> {
    let unusable = |found: &str, expected: &str| {
        let file = path.display();
        Err(ExperimentError::Usage(format!("{file}: found {found}, expected {expected}")))
    };
    if trace.players() < 2 {
        return unusable("one player", "at least two, which observe each other");
    }
    if trace.longer_side() <= 0.0 {
        return unusable(
            "all places in one spot",
            "a world of some size, since zones are shares of it",
        );
    }
    Ok(())
}

/// The rows of a recording, and the text of the first violations that the sender's auditor found.
fn measure(
    trace: &Arc<Trace>,
    name: &str,
    options: RunOptions,
) -> Result<(Vec<VfcRow>, Vec<String>), ExperimentError> {
    let round_ms = natural_round(trace);
    let rounds = (f64::from(trace.duration_ms()) / round_ms) as u64 + 1;
    let rounds = if options.quick { rounds.min(QUICK_ROUNDS) } else { rounds };
    let views = views(trace);
    let jobs: Vec<(Variant, Part)> =
        views.iter().flat_map(|view| [(*view, Part::Schedule), (*view, Part::Total)]).collect();
    let progress = Progress::new(name, rounds * jobs.len() as u64);
    let runs =
        in_parallel(&jobs, |(variant, part)| run(trace, *variant, *part, options, &progress));
    progress.finish();
    let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let rows = views.into_iter().zip(runs.chunks(2));
    let violations = rows.clone().flat_map(|(Variant { view, zones }, runs)| {
        let described = runs.iter().flat_map(|found| &found.sender.described);
        described.map(move |it| format!("{name}, {view}, {}: {it}", zones.name()))
    });
    let violations = violations.collect();
    let rows = rows.map(|(view, runs)| row(trace, name, view, round_ms, [&runs[0], &runs[1]]));
    Ok((rows.collect::<Result<_, _>>()?, violations))
}

fn table(name: &str, rows: &[VfcRow]) -> Table {
    let round = rows.first().map_or(0.0, |row| row.round_ms);
    let caption = format!(
        "{name}, rounds of {round} ms, {:.3} updates relayed per player and round",
        rows.first().map_or(0.0, |row| row.relayed_per_player_round)
    );
    let fields = |fields: &Vec<f64>| {
        let cells: Vec<String> = fields.iter().map(|degrees| format!("{degrees:.2}")).collect();
        cells.join("/") + "°"
    };
    let zones =
        |row: &VfcRow| -> Vec<String> { row.err_deg_p95_by_class.iter().map(fields).collect() };
    Table::of(rows)
        .left("view", |row| row.view.to_owned())
        .left("zones", |row| row.zones.name().to_owned())
        .right("fewer updates", |row| format!("{:.2}×", row.ratio_schedule))
        .right("fewer bytes", |row| format!("{:.1}×", row.ratio_total))
        .right("B/s per client", |row| format!("{:.0}", row.bytes_per_client_s))
        .right("updates/s", |row| format!("{:.0}", row.updates_per_client_s))
        .right("bits/update", |row| format!("{:.1}", row.bits_per_update))
        .right("error p50", |row| format!("{:.2}°", row.err_deg_p50))
        .right("error p95", |row| format!("{:.2}°", row.err_deg_p95))
        .right("p95 by zone: ahead/aside/behind", |row| zones(row).join(" "))
        .right("bounds scheduled", |row| format!("{:.2} %", 100.0 * row.bounds_scheduled))
        .right("audited", |row| format!("{:.4} %", 100.0 * row.bounds_audited))
        .right("observed", |row| format!("{:.1} %", 100.0 * row.bounds_observed))
        .caption(caption)
}

fn describe(report: Report, name: &str, rows: &[VfcRow]) -> Report {
    let names = rows.iter().map(|row| match row.zones {
        Zones::Share => row.view.to_owned(),
        Zones::Source => format!("{}, {}", row.view, row.zones.name()),
    });
    let saved = Plot::bars(format!("{name}: how many times less"), names.clone())
        .y(Axis::linear("the game's own ÷ ours", "×").from_zero())
        .series(Series::values("updates (scheduling alone)", rows.iter().map(|r| r.ratio_schedule)))
        .series(Series::values(
            "bytes (codec, prediction, floor)",
            rows.iter().map(|r| r.ratio_total),
        ));
    let errors = Plot::bars(format!("{name}: how wrong replicas are"), names)
        .y(Axis::linear("error as seen from the observer", "°").from_zero())
        .series(Series::values("median", rows.iter().map(|r| r.err_deg_p50)))
        .series(Series::values("95th percentile", rows.iter().map(|r| r.err_deg_p95)));
    report
        .section(name, "Every player observes every other.")
        .table(&table(name, rows))
        .plot(saved)
        .plot(errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_with_nothing_to_observe_is_rejected_with_its_name() {
        let refused = |rows: &str| {
            let text = format!("t_ms,id,x,y,z,yaw,pitch\n{rows}");
            let trace = Trace::from_reader(text.as_bytes(), Path::new("x.csv")).unwrap();
            check(Path::new("x.csv"), &trace).unwrap_err().to_string()
        };
        assert!(refused("0,1,0,0,0,0,0\n50,1,9,0,0,0,0\n").starts_with("x.csv: found one player"));
        let still = refused("0,1,5,5,5,0,0\n0,2,5,5,5,0,0\n");
        assert!(still.starts_with("x.csv: found all places in one spot"), "{still}");
    }
}
