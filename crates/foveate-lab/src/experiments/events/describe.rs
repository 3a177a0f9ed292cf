//! The tables, and the verdicts on the rows.

use super::{COUNTS, LOSS, Row};
use crate::experiments::{Done, ExperimentError, RunOptions};
use crate::output::{Align, ExperimentResult, Table, Verdict};
use crate::report::{Axis, Plot, Report, Series};

pub(super) fn finish(rows: &[Row], options: RunOptions) -> Result<Done, ExperimentError> {
    let mut outcome = ExperimentResult::new("events", options.seed);
    rows.iter().try_for_each(|row| outcome.push(row))?;
    judge(&mut outcome, rows);
    let tables = vec![traffic_table(rows), audit_table(rows)];
    let filtered: Vec<&Row> = rows.iter().filter(|row| row.saved.is_some()).collect();
    let everything = |row: &&Row| row.part == "perfect" && !row.filtered;
    let line = |rows: Vec<&Row>, of: fn(&Row) -> f64| -> Vec<(f64, f64)> {
        rows.iter().rev().map(|row| (row.players as f64, of(row))).collect()
    };
    let all = line(rows.iter().filter(everything).collect(), |row| row.event_bytes_s);
    let near = line(filtered, |row| row.event_bytes_s);
    let plot = Plot::lines("Event bytes to one player")
        .x(Axis::log("Players, at constant density", ""))
        .y(Axis::log("Events", "B/s"))
        .series(Series::points("filtered by place", near))
        .series(Series::points("all to all", all));
    let report = Report::new("events", "What filtering events by place saves")
        .summary(SETTING)
        .table(&tables[0])
        .plot(plot)
        .section("Are the right players told?", AUDIT)
        .table(&tables[1]);
    let notes = vec![SETTING.into(), AUDIT.into()];
    Ok(Done { outcome, tables, notes, report })
}

const SETTING: &str = "Each player makes 2 steps (noticed within 20 units), 1 shot (40 units long, noticed within 40) \
    and 0.2 falls (60, reliable) a second, in a square of side 40·√N. Factors hold for these radii and this density.";

const AUDIT: &str = "Expected by the distances in the script, at the end of the tick before the event, which is what \
    rules read. `crossing`: a player crosses the edge in the event's own tick, so that the place after it would decide \
    otherwise. Every other player has a view twice as far and 35° wide in `zoom`, and a second eye in `eyes`; links lose \
    5 % in `loss`.";

/// With the most players, filtering divides event bytes by at least this.
const SAVED: f64 = 30.0;

fn judge(outcome: &mut ExperimentResult, rows: &[Row]) {
    for row in rows {
        let found = &row.found;
        let kind = if row.filtered { "by place" } else { "all to all" };
        let name = |what: &str| format!("{}, {} players, {kind}: {what}", row.part, row.players);
        let lossy = row.part == "loss";
        // On a lossy link unreliable events may be lost: see below.
        let missing = if lossy { found.reliable_missing } else { found.missing };
        let wrong = missing + found.superfluous + found.twice + found.out_of_order;
        let what = match lossy {
            true => "reliable missing or out of order, any superfluous or told twice",
            false => "missing, superfluous, told twice or out of order",
        };
        outcome.judge(Verdict::at_most(name(what), wrong as f64, 0.0, ""));
        if lossy {
            let (due, lost) = (found.reliable_due as f64, 100.0 * row.lost_share);
            outcome.judge(Verdict::at_least(name("reliable events due"), due, 500.0, ""));
            let name = name("unreliable events lost");
            outcome.judge(Verdict::near(name, lost, 100.0 * LOSS, 1.0, "%"));
        }
    }
    let fewest = rows.iter().map(|row| row.found.due).min().unwrap_or_default();
    outcome.judge(Verdict::at_least("fewest pairs due in any part", fewest as f64, 1_000.0, ""));
    let dropped: u64 = rows.iter().map(|row| row.dropped).sum();
    outcome.judge(Verdict::at_most("dropped by the server", dropped as f64, 0.0, ""));
    let of = |players: usize| {
        let row = rows.iter().find(|row| row.players == players && row.saved.is_some());
        row.map_or((f64::NAN, f64::NAN), |row| (row.saved.unwrap_or(f64::NAN), row.event_bytes_s))
    };
    let [few, some, most] = COUNTS.map(of);
    let name = "200 players: event bytes saved by the filter";
    outcome.judge(Verdict::at_least(name, most.0, SAVED, "×"));
    let name = "64 players against 16: growth of the factor saved";
    outcome.judge(Verdict::at_least(name, some.0 / few.0, 2.0, "×"));
    let name = "200 players against 64: growth of the factor saved";
    outcome.judge(Verdict::at_least(name, most.0 / some.0, 2.0, "×"));
    let name = "200 players against 64: event bytes to one player, by place";
    outcome.judge(Verdict::at_most(name, most.1 / some.1, 1.25, "×"));
}

fn traffic_table(rows: &[Row]) -> Table {
    Table::of(rows)
        .left("part", |row| row.part.to_owned())
        .left("events", |row| if row.filtered { "by place" } else { "all to all" }.to_owned())
        .right("players", |row| row.players.to_string())
        .right("happen/s", |row| format!("{:.1}", row.happened_s))
        .right("told/s", |row| format!("{:.2}", row.delivered_s))
        .right("share", |row| format!("{:.2} %", 100.0 * row.share))
        .right("event B/s", |row| format!("{:.1}", row.event_bytes_s))
        .right("all B/s", |row| format!("{:.0}", row.bytes_s))
        .right("saved", |row| row.saved.map_or_else(String::new, |saved| format!("{saved:.1}×")))
        .right("dropped", |row| row.dropped.to_string())
        .caption("Events and bytes to one player")
}

fn audit_table(rows: &[Row]) -> Table {
    let names = [
        "players",
        "due",
        "missing",
        "superfluous",
        "twice",
        "at edge",
        "crossing",
        "reliable",
        "missing",
        "out of order",
    ];
    let columns = [("part", Align::Left), ("events", Align::Left)];
    let columns = columns.into_iter().chain(names.map(|name| (name, Align::Right)));
    let mut table = Table::new(columns).caption("Pairs of an event and a player");
    for row in rows {
        let it = &row.found;
        let counts = [
            it.due,
            it.missing,
            it.superfluous,
            it.twice,
            it.at_edge,
            it.crossing,
            it.reliable_due,
            it.reliable_missing,
            it.out_of_order,
        ];
        let kind = if row.filtered { "by place" } else { "all to all" };
        let start = [row.part.to_owned(), kind.to_owned(), row.players.to_string()];
        table.row(start.into_iter().chain(counts.map(|count| count.to_string())));
    }
    table
}
