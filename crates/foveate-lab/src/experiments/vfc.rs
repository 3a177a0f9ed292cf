//! `foveate lab vfc`: graded views on recorded movement: how much is saved, how wrong replicas are.

use super::{Done, ExperimentError, Options, in_parallel};
use crate::audit::Findings;
use crate::movement::{Movement, Recorded};
use crate::net::LinkSpec;
use crate::output::{Align, Outcome, Progress, Table};
use crate::report::{Axis, Mark, Plot, Report, Series};
use crate::session::{Session, SessionSpec};
use crate::sighted::{Rule, Sighted};
use crate::trace::Trace;
use crate::training::avatar_of;
use foveate_sync::interest::{Policy, View, Visible, presets};
use foveate_wire::{Metres, Micros};
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Bytes of one update in Cube 2's own protocol; it carries a few fields more than ours.
pub const ORIGINAL_BYTES: f64 = 17.4;
/// One way; the round trip is twice that.
const LATENCY: Micros = Micros(50_000);
/// Rounds of a quick run.
const QUICK_ROUNDS: u64 = 600;

/// The names of the views, in the order of the table.
const VIEWS: [&str; 5] = ["normal", "zoom", "vfc", "a3", "circle"];

/// The normal view, looser for whom the recording says that they were out of sight.
const SIGHTED: &str = "normal, sighted";

/// One row of the result.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    trace: String,
    view: &'static str,
    round_ms: f64,
    players: usize,
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
    bounds_scheduled: f64,
    bounds_observed: f64,
    violations_latency: u64,
    violations_loss: u64,
    violations_budget: u64,
}

/// What is out of sight is this many times looser in the view that knows who sees whom.
const HIDDEN: f32 = 4.0;

/// The views of a recording: one more where it says who saw whom.
fn views(trace: &Trace) -> Vec<&'static str> {
    let sighted = trace.visibility().map(|_| SIGHTED);
    VIEWS.into_iter().chain(sighted).collect()
}

/// The policy of a view; floors as stated for this experiment: 15° for facing, everywhere.
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

/// The view of a name on a world of this size.
fn view(name: &str, side: f32) -> Result<View, ExperimentError> {
    let (near, middle) = (0.2 * side, 0.4 * side);
    Ok(match name {
        "normal" | SIGHTED => presets::normal(near, middle),
        "zoom" => presets::zoom(near, middle),
        "vfc" => presets::vfc(near, middle),
        "a3" => presets::a3(middle, 0),
        "circle" => presets::circle(middle),
        other => return Err(ExperimentError::Usage(format!("there is no view '{other}'"))),
    })
}

/// Which of the two runs of a view.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Part {
    /// Scheduling alone: no prediction, no floor, a perfect link.
    Schedule,
    /// Everything, over a round trip of 100 ms.
    Total,
}

/// The round that fits a recording: its own rate where it is regular, VFC4FPS's 33 ms otherwise.
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
    round_ms: f64,
    (name, part): (&'static str, Part),
    (options, progress): (Options, &Progress),
) -> Result<Findings, ExperimentError> {
    let movement = Recorded::new(trace, round_ms)?;
    let mut view = view(name, movement.side())?;
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

fn row(
    trace: &str,
    players: usize,
    view: &'static str,
    round_ms: f64,
    runs: [&Findings; 2],
) -> Row {
    let [schedule, total] = runs;
    let round = Micros::from_secs(round_ms / 1e3);
    let seconds = total.observer_rounds as f64 * round.as_secs();
    let counters = &total.counters;
    let classes = total.degrees_by_class.iter().filter(|spread| spread.count() > 0);
    Row {
        trace: trace.into(),
        view,
        round_ms,
        players,
        ratio_schedule: schedule.fewer_updates(),
        ratio_total: total.fewer_bytes(ORIGINAL_BYTES),
        bytes_per_client_s: total.bytes_per_second(round),
        packets_per_client_s: counters.packets as f64 / seconds,
        updates_per_client_s: counters.updates as f64 / seconds,
        bits_per_update: counters.bits.state / counters.updates.max(1) as f64,
        up_bytes_per_client_s: total.up_bytes as f64 / seconds,
        err_deg_p50: total.degrees.quantile(0.5),
        err_deg_p95: total.degrees.quantile(0.95),
        err_deg_p95_by_zone: classes.map(|spread| spread.quantile(0.95)).collect(),
        bounds_scheduled: counters.bounds_scheduled(),
        bounds_observed: total.bounds_observed(),
        violations_latency: total.causes.latency,
        violations_loss: total.causes.loss,
        violations_budget: total.causes.budget,
    }
}

/// Runs all views on the traces.
pub fn lab(traces: &[&Path], options: Options) -> Result<Done, ExperimentError> {
    let mut outcome = Outcome::new("vfc", options.seed);
    let mut report = Report::new("vfc", "Graded views on recorded movement");
    let mut tables = Vec::new();
    for path in traces {
        let trace = Arc::new(Trace::read(path)?);
        check(path, &trace)?;
        let name = super::trace_name(path);
        let rows = measure(&trace, &name, options)?;
        tables.push(table(&name, &rows));
        report = describe(report, &name, &rows);
        for row in &rows {
            outcome.push(row)?;
        }
    }
    let notes = vec![format!(
        "Compared with everyone to everyone each round at {ORIGINAL_BYTES} B an update: Cube 2's own, \
         which carries a few fields more than ours (velocity, falling, weapon). All headers of ours \
         are counted, those of UDP and IP on neither side. Error: what observers see at a round trip \
         of 100 ms, predicted to now."
    )];
    Ok(Done { outcome, tables, notes, report })
}

/// Whether there is anything to be seen.
fn check(path: &Path, trace: &Trace) -> Result<(), ExperimentError> {
    let unusable = |found: &str, expected: &str| {
        let file = path.display();
        Err(ExperimentError::Usage(format!("{file}: found {found}, expected {expected}")))
    };
    if trace.players() < 2 {
        return unusable("one player", "at least two, who observe each other");
    }
    if trace.longer_side() <= 0.0 {
        return unusable(
            "all places in one spot",
            "a world of some size, since zones are shares of it",
        );
    }
    Ok(())
}

fn measure(trace: &Arc<Trace>, name: &str, options: Options) -> Result<Vec<Row>, ExperimentError> {
    let round_ms = natural_round(trace);
    let rounds = (f64::from(trace.duration_ms()) / round_ms) as u64 + 1;
    let rounds = if options.quick { rounds.min(QUICK_ROUNDS) } else { rounds };
    let views = views(trace);
    let jobs: Vec<(&'static str, Part)> =
        views.iter().flat_map(|view| [(*view, Part::Schedule), (*view, Part::Total)]).collect();
    let progress = Progress::new(name, rounds * jobs.len() as u64);
    let runs = in_parallel(&jobs, |job| run(trace, round_ms, *job, (options, &progress)));
    progress.finish();
    let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let rows = views.into_iter().zip(runs.chunks(2));
    Ok(rows
        .map(|(view, runs)| row(name, trace.players(), view, round_ms, [&runs[0], &runs[1]]))
        .collect())
}

fn table(name: &str, rows: &[Row]) -> Table {
    let columns = [
        ("view", Align::Left),
        ("fewer updates", Align::Right),
        ("fewer bytes", Align::Right),
        ("B/s per client", Align::Right),
        ("updates/s", Align::Right),
        ("bits/update", Align::Right),
        ("error p50", Align::Right),
        ("error p95", Align::Right),
        ("p95 by zone", Align::Right),
        ("bounds scheduled", Align::Right),
        ("observed", Align::Right),
    ];
    let round = rows.first().map_or(0.0, |row| row.round_ms);
    let mut table = Table::new(columns).caption(format!("{name}, rounds of {round} ms"));
    for row in rows {
        let zones: Vec<String> =
            row.err_deg_p95_by_zone.iter().map(|degrees| format!("{degrees:.2}°")).collect();
        table.row([
            row.view.to_owned(),
            format!("{:.2}×", row.ratio_schedule),
            format!("{:.1}×", row.ratio_total),
            format!("{:.0}", row.bytes_per_client_s),
            format!("{:.0}", row.updates_per_client_s),
            format!("{:.1}", row.bits_per_update),
            format!("{:.2}°", row.err_deg_p50),
            format!("{:.2}°", row.err_deg_p95),
            zones.join(" "),
            format!("{:.2} %", 100.0 * row.bounds_scheduled),
            format!("{:.1} %", 100.0 * row.bounds_observed),
        ]);
    }
    table
}

fn describe(report: Report, name: &str, rows: &[Row]) -> Report {
    let names = rows.iter().map(|row| row.view);
    let saved = Plot::bars(format!("{name}: how many times less"), names.clone())
        .y(Axis::linear("everyone to everyone ÷ ours", "×").from_zero())
        .series(Series::values("updates (scheduling alone)", rows.iter().map(|r| r.ratio_schedule)))
        .series(Series::values(
            "bytes (codec, prediction, floor)",
            rows.iter().map(|r| r.ratio_total),
        ));
    let errors = Plot::bars(format!("{name}: how wrong replicas are"), names)
        .y(Axis::linear("error as seen from the observer", "°").from_zero())
        .series(Series::values("median", rows.iter().map(|r| r.err_deg_p50)))
        .series(Series::values("95th percentile", rows.iter().map(|r| r.err_deg_p95)));
    let mut report = report
        .section(name, "Every player observes every other.")
        .table(&table(name, rows))
        .plot(saved)
        .plot(errors);
    if let Some(normal) = rows.iter().find(|row| row.view == "normal") {
        let holds = normal.bounds_scheduled >= 1.0;
        let verdict = if holds { Mark::Holds } else { Mark::FallsShort };
        let figure = format!("{:.3} %", 100.0 * normal.bounds_scheduled);
        report = report.finding(verdict, format!("{name}: bounds kept as scheduled"), figure);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_with_nothing_to_see_is_refused_by_name() {
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
