//! Tables, plots and findings of the bounds experiment.

use super::{
    BinRow, Broken, Done, ENOUGH, ExperimentResult, FIELDS, HIDDEN, JOINING, LONGEST_WAIT,
    Measured, Part, RISES, ROUND, RunOptions, Sees, ZONES, bin_rows,
};
use crate::audit::{Causes, Findings, SessionCoherence};
use crate::output::{Align, Table, Verdict};
use crate::report::{Axis, Plot, Report, Series};

/// Makes the tables and the report of a number of seeds, each played for a number of seconds.
pub(super) fn done(
    outcome: ExperimentResult,
    measured: &[Measured],
    seeds: u64,
    seconds: u64,
) -> Done {
    let tables = [parts_table(measured), causes_table(measured), coherence_table(measured)];
    let mut bins = Vec::new();
    for (view, part, rows) in short_parts(measured) {
        bins.push((view, bins_table(part, view.sees, &rows), rows));
    }
    let mut report = Report::new("bounds", "Are the stated bounds kept?").summary(format!(
        "64 bots among walls, each an observer of all others, {seeds} worlds of {seconds} s each. \
         With a link that loses nothing and budget to spare no bound may be broken; on a bad link \
         every violation must have a cause; on a quarter of the budget distant objects must give way first, \
         and no pair may wait for ever."
    ));
    report = report
        .section("Links and budgets", situations())
        .table(&tables[0])
        .plot(causes_plot(measured))
        .section("Violations by zone, field and bound", CAUSES)
        .table(&tables[1])
        .section("A quarter of the budget", quarter());
    for (_, table, _) in &bins {
        report = report.table(table);
    }
    for view in measured {
        let of_view: Vec<_> = short_parts(std::slice::from_ref(view)).collect();
        report = report.plot(error_plot(view, &of_view)).plot(staleness_plot(view, &of_view));
    }
    report = report
        .section("How long a pair waits", WAITS)
        .plot(waits_plot(measured))
        .section("Coherence", COHERENCE)
        .table(&tables[2]);
    let notes = vec![format!(
        "Violations are (pair, round) samples in which an observer's replica was out of its bounds: \
         the update was under way (latency), or it or one before it was lost (loss), or nothing had \
         been sent (unsent). Waits are multiples of θ′, at the sender and as observed."
    )];
    let tables = tables.into_iter().chain(bins.into_iter().map(|(_, table, _)| table)).collect();
    Done { outcome, tables, notes, report }
}

fn situations() -> String {
    format!(
        "`scheduled` is the scheduler's own account. `audited` is what an independent auditor finds in the packets \
         as they leave, for every pair in every round. `observed` is what receivers have.\n\n\
         `lossless`: no delay, no loss, no budget; an observer's replica is then the sender's reference \
         replica.\n\n\
         `lossy`: 5 % of packets lost in bursts of three on average, 80 ± 20 ms, each way.\n\n\
         `narrow`: the same with a rate limit of four times the demand and a queue of two packets, 5 % \
         overtaken and 5 % duplicated. There is no congestion control yet: a link of twice the demand \
         fills its queue once and never gets free.\n\n\
         `quarter` and `quarter_lossy`: a quarter of the bytes that the lossless run took, over a \
         perfect and over the lossy link; measured after {JOINING} s in which every object becomes known \
         to every observer.\n\n\
         The view is VFC's normal one with zones at {near} and {middle} of the map's side; in the \
         view `visible` what is behind a wall is {HIDDEN} times looser.",
        near = ZONES[0],
        middle = ZONES[1],
    )
}

fn quarter() -> String {
    format!(
        "Bins of equal width; those with fewer than {ENOUGH} samples are left out. Error is that of \
         the observer's replica, predicted to now. Staleness is the age of its newest state while it \
         differs, waiting the time since the present difference arose; both are zero while there is \
         no difference. A bin holds the claim if its error and its staleness are at least {RISES} \
         times the nearer one's."
    )
}

const CAUSES: &str = "One row for each zone, field (1 is ahead) and bound that was broken. `unknown`: there was no replica \
    yet; `age` is θ, `error` is ν. Where several bounds are broken the first counts. With an \
    unlimited budget nothing may stand under `unsent`.";

const WAITS: &str = "Urgency is the time that a pair has waited divided by its θ′, and it grows without a \
    limit; the most urgent pair is sent first. So no pair can be passed over for ever: sooner or \
    later it is the most urgent of all. And all pairs of an observer wait for about the same \
    multiple of their own θ′, divided by their weight: the multiple at which the budget suffices.\n\n\
    The tail has a cause of its own: a pair far behind its observer has a long θ′ and may have used up a \
    good part of it; if the observer then turns round, the same wait is measured by the short θ′ of \
    what is ahead. Therefore `accrued` is given too: each round of waiting counts as its length \
    divided by the θ′ that held in that round.";

const COHERENCE: &str = "Δ (Mogk): how much the players that see an avatar disagree about its place, its owner \
    among them, in view radii; the view radius is where the second zone ends, the interaction radius \
    where the first does. Lacking: objects in view of which a player had no replica. Inc (Silac): \
    replicas that lack the newest state published before now less the link's latency, each by the inverse \
    square of its distance in avatar widths; its share of the value if all were wrong is what can be \
    compared. A graded view withholds on purpose what a player would not notice, so that share is high; \
    `noticeable` counts only what is off by more than its floor, predicted to now. Inj: how unequally old \
    the knowledge of two players of each other is; knowledge ages from the first change that it lacks.";

/// The parts with a short budget, each with its bins.
fn short_parts(measured: &[Measured]) -> impl Iterator<Item = (&Measured, Part, Vec<BinRow>)> {
    measured.iter().flat_map(|view| {
        let short = view.parts.iter().filter(|(part, _)| part.is_short());
        short.map(move |(part, found)| {
            (view, *part, bin_rows(*part, view.sees, view.side, &found.by_distance))
        })
    })
}

fn percent(share: f64) -> String {
    // A violation is never rounded away.
    if share < 1.0 && share > 0.9999 {
        format!("{:.5} %", 100.0 * share)
    } else {
        format!("{:.2} %", 100.0 * share)
    }
}

fn parts_table(measured: &[Measured]) -> Table {
    Table::of(parts_of(measured))
        .left("part", |it| it.part.name().to_owned())
        .left("view", |it| it.sees.name().to_owned())
        .right("bounds scheduled", |it| percent(it.found.counters.bounds_scheduled()))
        .right("audited", |it| percent(it.found.bounds_audited()))
        .right("observed", |it| percent(it.found.bounds_observed()))
        .right("latency", |it| it.found.causes.latency.to_string())
        .right("loss", |it| it.found.causes.loss.to_string())
        .right("unsent", |it| it.found.causes.budget.to_string())
        .right("samples", |it| it.found.samples.to_string())
        .right("B/s", |it| format!("{:.0}", it.found.bytes_per_second(ROUND)))
        .right("longest wait", |it| format!("{:.1}×", it.found.longest_sender_wait))
        .right("accrued", |it| format!("{:.1}×", it.found.longest_accrued))
        .right("observed", |it| format!("{:.1}×", it.found.longest_wait))
        .right("first state", |it| format!("{:.2} s", it.found.longest_first_wait.as_secs()))
        .right("error p50", |it| format!("{:.2}°", it.found.degrees.quantile(0.5)))
        .right("p95", |it| format!("{:.2}°", it.found.degrees.quantile(0.95)))
        .caption("Bounds kept, violations by cause, waits as multiples of θ′")
}

/// One part's findings under one view.
struct PartOfView<'a> {
    part: Part,
    sees: Sees,
    found: &'a Findings,
}

fn parts_of(measured: &[Measured]) -> impl Iterator<Item = PartOfView<'_>> {
    measured.iter().flat_map(|view| {
        let parts = view.parts.iter();
        parts.map(|(part, found)| PartOfView { part: *part, sees: view.sees, found })
    })
}

fn causes_table(measured: &[Measured]) -> Table {
    let columns = [
        ("part", Align::Left),
        ("view", Align::Left),
        ("zone", Align::Right),
        ("field", Align::Right),
        ("bound", Align::Left),
        ("latency", Align::Right),
        ("loss", Align::Right),
        ("unsent", Align::Right),
        ("of samples", Align::Right),
    ];
    let mut table =
        Table::new(columns).caption("Violations by zone, field and bound, budget to spare");
    for view in measured {
        for (part, found) in view.parts.iter().filter(|(part, _)| !part.is_short()) {
            for class in 0..found.violations.len() {
                for broken in Broken::ALL {
                    let row = cause_cells(view.sees, *part, found, class, broken);
                    if let Some(cells) = row {
                        table.row(cells);
                    }
                }
            }
        }
    }
    table
}

/// The causes of one class's violations of one bound; `None` if there are none.
fn cause_cells(
    view: Sees,
    part: Part,
    found: &Findings,
    class: usize,
    broken: Broken,
) -> Option<[String; 9]> {
    let causes = found.violations[class][broken as usize];
    let share = causes.total() as f64 / found.samples.max(1) as f64;
    (causes.total() > 0).then(|| {
        [
            part.name().to_owned(),
            view.name().to_owned(),
            (class / FIELDS + 1).to_string(),
            (class % FIELDS + 1).to_string(),
            broken.name().to_owned(),
            causes.latency.to_string(),
            causes.loss.to_string(),
            causes.budget.to_string(),
            format!("{:.3} %", 100.0 * share),
        ]
    })
}

fn coherence_table(measured: &[Measured]) -> Table {
    let lacking = |it: &SessionCoherence| it.lacking as f64 / it.in_view.max(1) as f64;
    Table::of(parts_of(measured))
        .left("part", |it| it.part.name().to_owned())
        .left("view", |it| it.sees.name().to_owned())
        .right("Δ mean", |it| format!("{:.5}", it.found.coherence.delta.mean()))
        .right("Δ p95", |it| format!("{:.5}", it.found.coherence.delta.quantile(0.95)))
        .right("lacking", |it| format!("{:.3} %", 100.0 * lacking(&it.found.coherence)))
        .right("Inc", |it| format!("{:.4}", it.found.coherence.mean_inc()))
        .right("share", |it| format!("{:.1} %", 100.0 * it.found.coherence.inc.share()))
        .right("noticeable", |it| format!("{:.1} %", 100.0 * it.found.coherence.noticeable.share()))
        .right("Inj", |it| format!("{:.4}", it.found.coherence.mean_inj()))
        .caption("Coherence; Δ in view radii")
}

fn bins_table(part: Part, sees: Sees, rows: &[BinRow]) -> Table {
    let caption = format!("{}, {}: error and staleness by distance", part.name(), sees.name());
    let ratio = |ratio: Option<f64>| match ratio {
        Some(ratio) if ratio < RISES => format!("{ratio:.3} ✗"),
        Some(ratio) => format!("{ratio:.3}"),
        None => String::new(),
    };
    Table::of(rows)
        .right("distance", |row| format!("{:.0}–{:.0}", row.distance_from, row.distance_to))
        .right("samples", |row| row.samples.to_string())
        .right("error", |row| format!("{:.3}", row.mean_error))
        .right("error °", |row| format!("{:.2}°", row.mean_error_deg))
        .right("of nearer", |row| ratio(row.ratio_to_nearer))
        .right("staleness", |row| format!("{:.3} s", row.mean_staleness_s))
        .right("of nearer", |row| ratio(row.staleness_ratio_to_nearer))
        .right("waiting", |row| format!("{:.3} s", row.mean_wait_s))
        .right("mean θ′", |row| format!("{:.0} ms", 1e3 * row.mean_theta_s))
        .right("differing", |row| format!("{:.0} %", 100.0 * row.differing_share))
        .caption(caption)
}

fn middle(row: &BinRow) -> f64 {
    f64::from(row.distance_from + row.distance_to) / 2.0
}

fn error_plot(view: &Measured, parts: &[(&Measured, Part, Vec<BinRow>)]) -> Plot {
    let mut plot = Plot::lines(format!("Error by distance, view {}", view.sees.name()))
        .x(Axis::linear("distance to the observer", "units").from_zero())
        .y(Axis::linear("mean error", "units").from_zero());
    for (_, part, rows) in parts {
        let points = rows.iter().map(|row| (middle(row), row.mean_error));
        plot = plot.series(Series::points(part.name(), points));
    }
    plot
}

fn staleness_plot(view: &Measured, parts: &[(&Measured, Part, Vec<BinRow>)]) -> Plot {
    let mut plot = Plot::lines(format!("Staleness by distance, view {}", view.sees.name()))
        .x(Axis::linear("distance to the observer", "units").from_zero())
        .y(Axis::linear("mean over all samples", "s").from_zero())
        .caption(
            "Staleness: age of the state while it differs. Waiting: since the difference arose.",
        );
    for (_, part, rows) in parts {
        let staleness = rows.iter().map(|row| (middle(row), row.mean_staleness_s));
        let waiting = rows.iter().map(|row| (middle(row), row.mean_wait_s));
        plot = plot
            .series(Series::points(format!("{}, staleness", part.name()), staleness))
            .series(Series::points(format!("{}, waiting", part.name()), waiting));
    }
    plot
}

fn causes_plot(measured: &[Measured]) -> Plot {
    let all = || measured.iter().flat_map(|view| view.parts.iter().map(move |part| (view, part)));
    let names = all().map(|(view, (part, _))| format!("{} {}", part.name(), view.sees.name()));
    let share = |of: fn(&Causes) -> u64| {
        all().map(move |(_, (_, found))| {
            100.0 * of(&found.causes) as f64 / found.samples.max(1) as f64
        })
    };
    Plot::stacked_bars("Violations by cause", names)
        .y(Axis::linear("of all samples", "%"))
        .series(Series::values("latency", share(|causes| causes.latency)))
        .series(Series::values("loss", share(|causes| causes.loss)))
        .series(Series::values("unsent", share(|causes| causes.budget)))
}

fn waits_plot(measured: &[Measured]) -> Plot {
    let mut plot = Plot::distribution("Waits as multiples of θ′, at the sender")
        .x(Axis::log("longest wait of each difference", "θ′"))
        .caption("One value for each difference: the greatest multiple that its wait reached.");
    for view in measured {
        for (part, found) in view
            .parts
            .iter()
            .filter(|(part, _)| matches!(part, Part::Lossless | Part::Quarter | Part::QuarterLossy))
        {
            let points = (1..=100).map(|percent| {
                let percent = f64::from(percent);
                (found.sender_waits.quantile(percent / 100.0), percent)
            });
            let name = format!("{} {}", part.name(), view.sees.name());
            plot = plot.series(Series::points(name, points));
        }
    }
    plot
}

/// The least ratio of a bin to the nearer one.
fn least(rows: &[BinRow], of: Ratio) -> Option<f64> {
    rows.iter().filter_map(of).min_by(f64::total_cmp)
}

/// Judges the claims. In a quick run bins of distance have too few samples.
pub(super) fn judge(outcome: &mut ExperimentResult, measured: &[Measured], options: RunOptions) {
    for view in measured {
        let name = view.sees.name();
        for part in [Part::Lossless, Part::Lossy, Part::Narrow] {
            let Some(found) = view.part(part) else { continue };
            let at = format!("{name}, {}", part.name());
            let audited = found.bounds_audited();
            outcome.judge(Verdict::at_least(format!("{at}: bounds audited"), audited, 1.0, ""));
            if part == Part::Lossless {
                let (text, observed) = (format!("{at}: bounds observed"), found.bounds_observed());
                outcome.judge(Verdict::at_least(text, observed, 1.0, ""));
            }
            let text =
                format!("{at}: observed violations that are due to neither latency nor loss");
            outcome.judge(Verdict::at_most(text, found.causes.budget as f64, 0.0, ""));
        }
    }
    for (view, part, rows) in short_parts(measured) {
        judge_short(outcome, view, part, &rows, options);
    }
}

/// How a bin compares with the nearer one.
type Ratio = fn(&BinRow) -> Option<f64>;

fn judge_short(
    outcome: &mut ExperimentResult,
    view: &Measured,
    part: Part,
    rows: &[BinRow],
    options: RunOptions,
) {
    let name = format!("{}, {}", view.sees.name(), part.name());
    let ratios: [(&str, Ratio); 2] =
        [("error", |row| row.ratio_to_nearer), ("staleness", |row| row.staleness_ratio_to_nearer)];
    for (what, of) in ratios {
        let ratio = least(rows, of).unwrap_or(f64::NAN);
        let text = format!("{name}: {what} of a bin by that of the nearer one, least");
        outcome.judge(Verdict::at_least(text, ratio, RISES, "×").reported_only(options.quick));
    }
    let Some(found) = view.part(part) else { return };
    let text = format!("{name}: longest wait of a known pair");
    outcome.judge(Verdict::at_most(text, found.longest_sender_wait, LONGEST_WAIT, "θ′"));
    // The budget must have been short, or the claims above were not tested.
    let text = format!("{name}: bounds audited, less than all");
    outcome.judge(Verdict::at_most(text, found.bounds_audited(), 0.99, ""));
}
