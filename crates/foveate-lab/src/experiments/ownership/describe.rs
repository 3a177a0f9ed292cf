//! What `foveate lab ownership` found, for people and for programs.

use super::run::{Crash, Looks, SETTLED_WITHIN, Second};
use super::{Done, ExperimentError, Options, Ran, Row, Size, row};
use crate::output::{Align, Outcome, Table};
use crate::report::{Axis, Mark, Plot, Report, Series};
use foveate_sync::metrics::Spread;

/// The source's bounds on bytes per second and player.
const STABLE: f64 = 2_000.0;
const CONFLICT: f64 = 4_000.0;
/// Coherence after the crash of half may be this much worse.
const WORSE: f64 = 1.2;

pub(super) fn done(ran: &[Ran], wrong: Size, options: Options) -> Result<Done, ExperimentError> {
    let mut outcome = Outcome::new("ownership", options.seed);
    let mut rows = Vec::new();
    for it in ran {
        match it {
            Ran::Steady(size, looks) => rows.push(row("steady", *size, options.seed, &looks.1)),
            Ran::Crash(seed, crash) => rows.extend(crash_rows(wrong, *seed, crash)),
            Ran::Change(part, seed, change) => {
                rows.push(row(part, wrong, *seed, &change.during));
                let after = if *part == "churn" { "after_churn" } else { "healed" };
                rows.push(Row {
                    lost: wrong.objects.saturating_sub(change.kept),
                    one_owner: change.clean,
                    settled_s: Some(change.settled_s),
                    ..row(after, wrong, *seed, &change.after)
                });
            }
        }
    }
    rows.iter().try_for_each(|row| outcome.push(row))?;
    let mut report = Report::new("ownership", "Objects owned by whoever cares most").summary(
        "Ships fly about and take bases that wander; every base is owned by the player who cares most \
         for it. Bytes are payload, headers of UDP and IP not counted. Δ is the source's coherence in \
         view radii: larger is worse.",
    );
    for (verdict, text, figure) in findings(&rows, ran) {
        report = report.finding(verdict, text, figure);
    }
    let table = table(&rows);
    report = report.section("All games", "").table(&table);
    for plot in plots(ran) {
        report = report.plot(plot);
    }
    Ok(Done { outcome, tables: vec![table], notes: notes(&rows, ran), report })
}

fn crash_rows(size: Size, seed: u64, crash: &Crash) -> [Row; 2] {
    let before = row("before_crash", size, seed, &crash.before);
    let after = Row {
        lost: crash.lost,
        one_owner: crash.settled_s <= SETTLED_WITHIN.as_secs(),
        settled_s: Some(crash.settled_s),
        ..row("after_crash", size, seed, &crash.after)
    };
    [before, after]
}

fn table(rows: &[Row]) -> Table {
    let columns = [
        "part",
        "players",
        "objects",
        "seed",
        "owned",
        "max",
        "B/s",
        "p95",
        "messages/s",
        "Δ",
        "Δ p95",
        "agree",
        "lack",
        "lost",
        "settled s",
    ];
    let columns =
        columns.map(|name| (name, if name == "part" { Align::Left } else { Align::Right }));
    let mut table = Table::new(columns).caption("Per player and second; Δ in view radii");
    for row in rows {
        table.row([
            row.part.to_owned(),
            row.players.to_string(),
            row.objects.to_string(),
            row.seed.to_string(),
            format!("{:.2}", row.owned_mean),
            row.owned_max.to_string(),
            format!("{:.0}", row.bytes_s),
            format!("{:.0}", row.bytes_s_p95),
            format!("{:.2}", row.protocol_s),
            format!("{:.5}", row.delta),
            format!("{:.5}", row.delta_p95),
            format!("{:.3}", row.agreeing),
            format!("{:.4}", row.lacking),
            row.lost.to_string(),
            row.settled_s.map(|s| format!("{s:.2}")).unwrap_or_default(),
        ]);
    }
    table
}

type Finding = (Mark, String, String);

fn verdict(holds: bool) -> Mark {
    if holds { Mark::Holds } else { Mark::FallsShort }
}

/// Δ over all seeds, before and after half of all crashed.
fn pooled(ran: &[Ran]) -> Option<(f64, f64)> {
    let (mut before, mut after) = (Spread::default(), Spread::default());
    for it in ran {
        if let Ran::Crash(_, crash) = it {
            before.merge(&crash.before.delta);
            after.merge(&crash.after.delta);
        }
    }
    (before.count() > 0).then(|| (before.quantile(0.95), after.quantile(0.95)))
}

fn findings(rows: &[Row], ran: &[Ran]) -> Vec<Finding> {
    let of = |part: &'static str| rows.iter().filter(move |row| row.part == part);
    let mut found: Vec<Finding> = Vec::new();
    for row in of("steady") {
        let text = format!(
            "{} players, {} objects: at most {STABLE} B/s per player once stable",
            row.players, row.objects
        );
        found.push((verdict(row.bytes_s <= STABLE), text, format!("{:.0} B/s", row.bytes_s)));
    }
    let busiest = ran.iter().filter_map(|it| match it {
        Ran::Crash(_, crash) => Some(busiest_second(&crash.after)),
        Ran::Change(_, _, change) => Some(busiest_second(&change.after)),
        Ran::Steady(..) => None,
    });
    let busiest = busiest.fold(0.0, f64::max);
    let text =
        format!("At most {CONFLICT} B/s per player while conflicts are settled (busiest second)");
    found.push((verdict(busiest <= CONFLICT), text, format!("{busiest:.0} B/s")));
    let crashes = || of("after_crash");
    let slowest = crashes().filter_map(|row| row.settled_s).fold(0.0, f64::max);
    let text = "Half crash: one owner each within 2 s of detection, in every game".to_owned();
    found.push((verdict(crashes().all(|row| row.one_owner)), text, format!("{slowest:.2} s")));
    if let Some((before, after)) = pooled(ran) {
        let ratio = after / before.max(1e-9);
        let text = format!("Half crash: Δ p95 over all seeds at most {WORSE}× before");
        found.push((
            verdict(ratio <= WORSE),
            text,
            format!("{before:.5} → {after:.5}: {ratio:.2}×"),
        ));
    }
    for part in ["after_churn", "healed"] {
        let clean = of(part).all(|row| row.one_owner && row.lost == 0);
        let slowest = of(part).filter_map(|row| row.settled_s).fold(0.0, f64::max);
        let text = format!("{part}: one owner each, none lost, none doubled");
        found.push((verdict(clean), text, format!("after {slowest:.1} s")));
    }
    found
}

/// The busiest second, as the mean over players.
fn busiest_second(looks: &Looks) -> f64 {
    looks.line.iter().map(|second| second.bytes_s).fold(0.0, f64::max)
}

fn notes(rows: &[Row], ran: &[Ran]) -> Vec<String> {
    let mark = |verdict| match verdict {
        Mark::Holds => "holds",
        Mark::FallsShort => "FALLS SHORT",
        Mark::Info => "",
    };
    let found = findings(rows, ran).into_iter();
    found.map(|(verdict, text, figure)| format!("{text}: {figure} ({})", mark(verdict))).collect()
}

fn plots(ran: &[Ran]) -> Vec<Plot> {
    let lines = ran.iter().filter_map(|it| match it {
        Ran::Steady(size, looks) => {
            let line: Vec<Second> = looks.0.line.iter().chain(&looks.1.line).copied().collect();
            Some((format!("{} players, {} objects", size.players, size.objects), line))
        }
        Ran::Crash(seed, crash) if *seed == 1 => {
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
        plot("Protocol messages per player", "messages", "1/s", |second| second.protocol_s),
        plot("Coherence Δ", "Δ", "view radii", |second| second.delta),
    ]
}
