//! The tables, plots and verdicts of `foveate lab ownership`.

use super::run::{Crash, SETTLED_WITHIN, Second};
use super::{Done, ExperimentError, OwnershipRow, RunOptions, RunResult, Size, row, sweep};
use crate::output::{ExperimentResult, Table, Verdict};
use crate::report::{Axis, Plot, Report, Series};
use foveate_sync::metrics::Spread;

/// The source's limit on bytes per second of any one player once the game is stable, averaged over
/// [`WINDOW`](super::load::WINDOW) seconds.
const STABLE: f64 = 2_000.0;
/// The source's limit on any one second while conflicts are settled.
const CONFLICT: f64 = 4_000.0;
/// The most players with which `STABLE` is kept; larger games are only reported.
const LARGEST_KEPT: usize = 32;
/// Coherence after the crash of half the players may be worse by this factor.
const WORSE: f64 = 1.2;

pub(super) fn done(
    ran: &[RunResult],
    wrong: Size,
    options: RunOptions,
) -> Result<Done, ExperimentError> {
    let mut outcome = ExperimentResult::new("ownership", options.seed);
    let mut rows = Vec::new();
    for it in ran {
        match it {
            RunResult::Steady(size, looks) => {
                rows.push(row("steady", *size, options.seed, &looks.1))
            }
            RunResult::Crash(seed, crash) => rows.extend(crash_rows(wrong, *seed, crash)),
            RunResult::Change(part, seed, change) => {
                rows.push(row(part, wrong, *seed, &change.during));
                let after = if *part == "churn" { "after_churn" } else { "healed" };
                rows.push(OwnershipRow {
                    lost: wrong.objects.saturating_sub(change.kept),
                    one_owner: change.clean,
                    settled_s: Some(change.settled_s),
                    ..row(after, wrong, *seed, &change.after)
                });
            }
            RunResult::Sweep(part, spec, looks) => rows.push(row(part, *spec, options.seed, looks)),
        }
    }
    rows.iter().try_for_each(|row| outcome.push(row))?;
    let mut report = Report::new("ownership", "Objects owned by the player with the greatest interest").summary(
        "Ships fly about and take bases that wander; every base is owned by the player with the \
         greatest interest in it. Bytes are payload, headers of UDP and IP not counted. Δ is the source's coherence in \
         view radii: larger is worse. Limits on bytes are judged by the player with the most.",
    );
    verdicts(&rows, ran, options.quick).into_iter().for_each(|verdict| outcome.judge(verdict));
    let tables = vec![table(&rows), sweep::table(&rows)];
    for table in &tables {
        report = report.section(table.caption_text().unwrap_or_default(), "").table(table);
    }
    for plot in plots(ran).into_iter().chain(sweep::plots(&rows)) {
        report = report.plot(plot);
    }
    Ok(Done { outcome, tables, notes: Vec::new(), report })
}

fn crash_rows(size: Size, seed: u64, crash: &Crash) -> [OwnershipRow; 2] {
    let before = row("before_crash", size, seed, &crash.before);
    let after = OwnershipRow {
        lost: crash.lost,
        one_owner: crash.settled_s <= SETTLED_WITHIN.as_secs(),
        settled_s: Some(crash.settled_s),
        ..row("after_crash", size, seed, &crash.after)
    };
    [before, after]
}

fn table(rows: &[OwnershipRow]) -> Table {
    Table::of(rows.iter().filter(|row| !sweep::PARTS.contains(&row.part)))
        .left("part", |row| row.part.to_owned())
        .right("players", |row| row.players.to_string())
        .right("objects", |row| row.objects.to_string())
        .right("seed", |row| row.seed.to_string())
        .right("owned", |row| format!("{:.2}", row.owned_mean))
        .right("max", |row| row.owned_max.to_string())
        .right("B/s", |row| format!("{:.0}", row.bytes_s))
        .right("sent mean", |row| format!("{:.0}", row.sent.mean))
        .right("10 s", |row| format!("{:.0}", row.sent.window))
        .right("1 s", |row| format!("{:.0}", row.sent.second))
        .right("received mean", |row| format!("{:.0}", row.received.mean))
        .right("10 s", |row| format!("{:.0}", row.received.window))
        .right("1 s", |row| format!("{:.0}", row.received.second))
        .right("messages/s", |row| format!("{:.2}", row.protocol_s))
        .right("Δ", |row| format!("{:.5}", row.delta))
        .right("Δ p95", |row| format!("{:.5}", row.delta_p95))
        .right("agree", |row| format!("{:.3}", row.agreeing))
        .right("lack", |row| format!("{:.4}", row.lacking))
        .right("lost", |row| row.lost.to_string())
        .right("settled s", |row| row.settled_s.map(|s| format!("{s:.2}")).unwrap_or_default()).caption(
        "Per player and second: B/s sent on average, then the largest of one player; Δ in view radii",
    )
}

/// Δ over all seeds, before and after half the players crashed.
fn pooled(ran: &[RunResult]) -> Option<(f64, f64)> {
    let (mut before, mut after) = (Spread::default(), Spread::default());
    for it in ran {
        if let RunResult::Crash(_, crash) = it {
            before.merge(&crash.before.delta);
            after.merge(&crash.after.delta);
        }
    }
    (before.count() > 0).then(|| (before.quantile(0.95), after.quantile(0.95)))
}

fn verdicts(rows: &[OwnershipRow], ran: &[RunResult], quick: bool) -> Vec<Verdict> {
    let of = |part: &'static str| rows.iter().filter(move |row| row.part == part);
    let mut verdicts = Vec::new();
    for row in of("steady") {
        let falls_short = row.players > LARGEST_KEPT;
        for (what, rates) in [("sent", row.sent), ("received", row.received)] {
            let OwnershipRow { players, objects, .. } = row;
            let name = format!(
                "{players} players, {objects} objects, stable: {what} by any player, 10 s windows"
            );
            let verdict = Verdict::at_most(name, rates.window, STABLE, "B/s");
            verdicts.push(verdict.reported_only(falls_short));
        }
    }
    let conflicts = [
        ("crash or partition", &["after_crash", "healed"]),
        ("churn, newcomers included", &["churn", "after_churn"]),
    ];
    for (when, parts) in conflicts {
        let rows = || rows.iter().filter(|row| parts.contains(&row.part));
        let sent = rows().map(|row| row.sent.second).fold(0.0, f64::max);
        let received = rows().map(|row| row.received.second).fold(0.0, f64::max);
        for (what, busiest) in [("sent", sent), ("received", received)] {
            let name = format!("{when}: {what} by any player in any second");
            // This falls short: all objects that are owned and linked are sent to every neighbour at once.
            verdicts.push(Verdict::at_most(name, busiest, CONFLICT, "B/s").reported_only(true));
        }
    }
    let settled = |part| of(part).filter_map(|row| row.settled_s).fold(0.0, f64::max);
    verdicts.push(Verdict::at_most(
        "half crash: one owner for each object, after detection, slowest game",
        settled("after_crash"),
        SETTLED_WITHIN.as_secs(),
        "s",
    ));
    if let Some((before, after)) = pooled(ran) {
        let name = "half crash: Δ p95 over all seeds, after against before";
        let ratio = after / before.max(1e-9);
        verdicts.push(Verdict::at_most(name, ratio, WORSE, "×").reported_only(quick));
    }
    for (part, what) in [("after_churn", "churn"), ("healed", "partition")] {
        let wrong = of(part).filter(|row| !row.one_owner || row.lost > 0).count();
        let name =
            format!("{what}: games that end with an object lost, doubled or without an owner");
        verdicts.push(Verdict::at_most(name, wrong as f64, 0.0, ""));
    }
    verdicts.extend(sweep::verdicts(rows));
    verdicts
}

fn plots(ran: &[RunResult]) -> Vec<Plot> {
    let lines = ran.iter().filter_map(|it| match it {
        RunResult::Steady(size, looks) => {
            let line: Vec<Second> = looks.0.line.iter().chain(&looks.1.line).copied().collect();
            Some((format!("{} players, {} objects", size.players, size.objects), line))
        }
        RunResult::Crash(seed, crash) if *seed == 1 => {
            let line = crash.before.line.iter().chain(&crash.after.line).copied().collect();
            Some(("half of 32 crash".to_owned(), line))
        }
        _ => None,
    });
    let lines: Vec<(String, Vec<Second>)> = lines.collect();
    let plot = |title: &str, axis: &str, unit: &str, value: fn(&Second) -> f64| {
        let mut plot =
            Plot::lines(title).x(Axis::linear("time", "s")).y(Axis::linear(axis, unit).from_zero());
        for (name, line) in &lines {
            let points = line.iter().map(|second| (second.t, value(second)));
            plot = plot.series(Series::points(name.clone(), points));
        }
        plot
    };
    vec![
        plot("Objects per owner, mean", "objects", "", |second| second.owned_mean),
        plot("Objects per owner, most", "objects", "", |second| second.owned_max as f64),
        plot("Bytes sent per player", "sent", "B/s", |second| second.bytes_s),
        plot("Most bytes sent by one player", "sent", "B/s", |second| second.bytes_max),
        plot("Most bytes received by one player", "received", "B/s", |second| second.received_max),
        plot("Protocol messages per player", "messages", "1/s", |second| second.protocol_s),
        plot("Coherence Δ", "Δ", "view radii", |second| second.delta),
    ]
}
