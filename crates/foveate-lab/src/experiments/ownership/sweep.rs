//! The source's sweeps: the view as a share of the world, and density until uplinks are full.

use super::run::{GameSpec, Size};
use super::{OwnershipRow, WRONG};
use crate::output::{Table, Verdict};
use crate::report::{Axis, Plot, Series};

/// Names of the parts in rows.
const VIEWS: &str = "view_sweep";
const DENSITY: &str = "density_sweep";
pub(super) const PARTS: [&str; 2] = [VIEWS, DENSITY];

/// How far players see, as shares of the world's side.
const SHARES: [f32; 5] = [0.0625, 0.125, 0.25, 0.5, 1.0];
/// Players in the square of [`SIDE`], with as many bases per player as in the source's games.
const PLAYERS: [usize; 6] = [8, 16, 32, 48, 64, 96];
const SIDE: f32 = 600.0;
/// Uplinks in bytes per second: one that is never full, and one that is full in the densest games.
const WIDE: u32 = 125_000;
const NARROW: u32 = 6_000;
/// With full uplinks coherence is worse by at least this factor than with wide ones.
const BROKEN: f64 = 2.0;

fn views(size: Size, shares: &[f32]) -> Vec<(&'static str, GameSpec)> {
    let usual = GameSpec::from(size);
    let spec = |share: &f32| (VIEWS, GameSpec { view: share * usual.side, ..usual });
    shares.iter().rev().map(spec).collect()
}

fn density(players: &[usize]) -> Vec<(&'static str, GameSpec)> {
    let specs = players.iter().rev().flat_map(|players| {
        let size = Size { players: *players, objects: players * WRONG.objects / WRONG.players };
        let spec = GameSpec { side: SIDE, ..GameSpec::from(size) };
        [WIDE, NARROW].map(|uplink| (DENSITY, GameSpec { uplink, ..spec }))
    });
    specs.collect()
}

/// The games of both sweeps, the longest first.
pub(super) fn full() -> Vec<(&'static str, GameSpec)> {
    [density(&PLAYERS), views(WRONG, &SHARES)].concat()
}

/// A few small games of both sweeps.
pub(super) fn quick() -> Vec<(&'static str, GameSpec)> {
    let size = Size { players: 8, objects: 18 };
    [density(&[8, 40]), views(size, &[0.125, 1.0])].concat()
}

pub(super) fn table(rows: &[OwnershipRow]) -> Table {
    Table::of(rows.iter().filter(|row| PARTS.contains(&row.part)))
        .left("sweep", |row| row.part.to_owned())
        .right("view/side", |row| format!("{:.3}", row.view / row.side))
        .right("players", |row| row.players.to_string())
        .right("in view", |row| format!("{:.1}", in_view(row)))
        .right("uplink", |row| row.uplink.to_string())
        .right("used", |row| format!("{:.1} %", 100.0 * row.uplink_share))
        .right("busiest", |row| format!("{:.1} %", 100.0 * row.uplink_peak))
        .right("dropped", |row| row.dropped.to_string())
        .right("B/s", |row| format!("{:.0}", row.bytes_s))
        .right("sent 10 s", |row| format!("{:.0}", row.sent.window))
        .right("received 10 s", |row| format!("{:.0}", row.received.window))
        .right("Δ", |row| format!("{:.5}", row.delta))
        .right("Δ p95", |row| format!("{:.5}", row.delta_p95))
        .right("agree", |row| format!("{:.3}", row.agreeing))
        .right("lack", |row| format!("{:.4}", row.lacking))
        .caption("Sweeps, per player and second; Δ in view radii")
}

/// Number of other players in view, if they were spread evenly over a world without borders.
fn in_view(row: &OwnershipRow) -> f64 {
    let share = f64::from(row.view / row.side);
    let area = (std::f64::consts::PI * share * share).min(1.0);
    (row.players - 1) as f64 * area
}

fn by_players(rows: &[OwnershipRow], uplink: u32) -> Vec<&OwnershipRow> {
    let mut rows: Vec<&OwnershipRow> =
        rows.iter().filter(|row| row.part == DENSITY && row.uplink == uplink).collect();
    rows.sort_by_key(|row| row.players);
    rows
}

fn by_view(rows: &[OwnershipRow]) -> Vec<&OwnershipRow> {
    let mut rows: Vec<&OwnershipRow> = rows.iter().filter(|row| row.part == VIEWS).collect();
    rows.sort_by(|a, b| a.view.total_cmp(&b.view));
    rows
}

/// The smallest growth of the mean bytes from one row to the next.
fn least_growth(rows: &[&OwnershipRow]) -> f64 {
    let growth = rows.windows(2).map(|pair| pair[1].bytes_s / pair[0].bytes_s.max(1e-9));
    growth.reduce(f64::min).unwrap_or(f64::NAN)
}

pub(super) fn verdicts(rows: &[OwnershipRow]) -> Vec<Verdict> {
    let (wide, narrow) = (by_players(rows, WIDE), by_players(rows, NARROW));
    let worse = |at: usize| narrow[at].delta / wide[at].delta.max(1e-9);
    let fullest = narrow.len().checked_sub(1);
    let of_fullest = |value: &dyn Fn(usize) -> f64| fullest.map_or(f64::NAN, value);
    let name = |what: &str| format!("density sweep, uplinks of {NARROW} B/s: {what}");
    vec![
        Verdict::at_least(
            "view sweep: bytes per player, least growth from one view to the next",
            least_growth(&by_view(rows)),
            1.0,
            "×",
        ),
        Verdict::at_least(
            "density sweep: bytes per player, least growth from one density to the next",
            least_growth(&wide),
            1.0,
            "×",
        ),
        Verdict::at_least(
            name("wanted at the highest density"),
            of_fullest(&|at| 100.0 * narrow[at].uplink_share),
            100.0,
            "%",
        ),
        Verdict::at_least(
            name("Δ against wide ones at the highest density: it breaks down"),
            of_fullest(&worse),
            BROKEN,
            "×",
        ),
    ]
}

pub(super) fn plots(rows: &[OwnershipRow]) -> Vec<Plot> {
    let density = |title: &str, axis: Axis, value: fn(&OwnershipRow) -> f64| {
        let points = |uplink| {
            let rows = by_players(rows, uplink);
            rows.into_iter().map(|row| (row.players as f64, value(row))).collect::<Vec<_>>()
        };
        Plot::lines(title)
            .x(Axis::linear(format!("players on {SIDE} × {SIDE}"), "").from_zero())
            .y(axis.from_zero())
            .series(Series::points(format!("uplinks of {WIDE} B/s"), points(WIDE)))
            .series(Series::points(format!("uplinks of {NARROW} B/s"), points(NARROW)))
    };
    let views = |title: &str, axis: Axis, value: fn(&OwnershipRow) -> f64| {
        let rows = by_view(rows).into_iter();
        let points = rows.map(|row| (f64::from(row.view / row.side), value(row)));
        Plot::lines(title)
            .x(Axis::linear("view / side of the world", "").from_zero())
            .y(axis.from_zero())
            .series(Series::points("steady", points))
    };
    vec![
        views("Bytes over the view", Axis::linear("sent", "B/s"), |row| row.bytes_s),
        views("Δ over the view", Axis::linear("Δ", "view radii"), |row| row.delta),
        density("Bytes over density", Axis::linear("sent", "B/s"), |row| row.bytes_s),
        density("Δ over density", Axis::linear("Δ", "view radii"), |row| row.delta),
        density("Bases in view that are lacking", Axis::linear("share", "%"), |row| {
            100.0 * row.lacking
        }),
    ]
}
