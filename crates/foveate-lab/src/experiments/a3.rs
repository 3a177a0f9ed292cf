//! `foveate lab a3`: the graded area of interest of A³, reproduced with its source's figures beside ours.
//!
//! Avatars walk from one random point to the next; every 10 ms each pair's grade is asked of the
//! policy, and an update of 100 B counts when its age has reached θ = I / relevance.

use super::{Done, ExperimentError, Options, in_parallel};
use crate::movement::{Movement, Waypoint, WaypointSpec};
use crate::output::{Align, Outcome, Progress, Table};
use crate::report::{Axis, Mark, Plot, Report, Series};
use foveate_sync::interest::{
    A3, AttenuatedCircle, Broadcast, Circle, FieldOfView, Pace, Pivot, Policy, Sight,
};
use foveate_wire::{KindId, Metres, Micros, ObjectId, Radians, Tick};
use serde::Serialize;

const INTERVAL: Micros = Micros(250_000);
const CHECK: Micros = Micros(10_000);
const UPDATE_BYTES: u64 = 100;
const VIEW: Metres = Metres(120.0);
const CRITICAL: Metres = Metres(40.0);
const SPEED: f32 = 5.0;
const OBSERVERS: usize = 16;
const SECONDS: u64 = 20 * 60;
const QUICK_SECONDS: u64 = 60;
const COUNTS: [usize; 8] = [25, 50, 75, 100, 125, 150, 175, 200];
const WORLDS: [f32; 2] = [300.0, 750.0];
const POLICIES: [&str; 5] = ["none", "circle", "attenuated", "fov", "a3"];

/// The source's means, by count and policy, in bytes per second.
const PAPER_MEAN: [[f64; 5]; 8] = [
    [9_221.0, 4_715.0, 2_759.0, 2_534.0, 1_700.0],
    [18_826.0, 9_350.0, 5_442.0, 4_949.0, 3_303.0],
    [28_432.0, 13_963.0, 8_315.0, 7_619.0, 5_137.0],
    [38_037.0, 19_324.0, 11_029.0, 9_928.0, 6_739.0],
    [47_642.0, 23_138.0, 13_871.0, 12_434.0, 8_290.0],
    [57_247.0, 29_031.0, 16_432.0, 15_085.0, 10_062.0],
    [66_853.0, 34_697.0, 19_661.0, 23_060.0, 14_250.0],
    [76_458.0, 38_600.0, 23_450.0, 21_491.0, 14_413.0],
];
/// The source's maxima.
const PAPER_MAX: [[f64; 5]; 8] = [
    [9_400.0, 8_500.0, 5_700.0, 7_100.0, 4_700.0],
    [19_300.0, 17_000.0, 10_300.0, 12_300.0, 8_100.0],
    [29_100.0, 23_600.0, 16_600.0, 17_800.0, 11_300.0],
    [38_800.0, 32_500.0, 20_500.0, 23_000.0, 15_500.0],
    [48_600.0, 37_400.0, 24_300.0, 29_500.0, 19_700.0],
    [58_300.0, 47_400.0, 29_900.0, 32_900.0, 22_700.0],
    [67_700.0, 56_100.0, 34_300.0, 32_400.0, 21_500.0],
    [77_600.0, 62_300.0, 37_500.0, 41_200.0, 28_900.0],
];
/// What A³ saves against none, circle, attenuated and field of view, on average over the rows.
const PAPER_SAVING: [f64; 4] = [81.64, 63.51, 37.48, 33.58];

/// One row of the result; bytes per second to one client.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    world: u32,
    avatars: usize,
    policy: &'static str,
    mean_bps: f64,
    max_bps: f64,
    paper_mean_bps: f64,
    paper_max_bps: f64,
    observers: usize,
    seconds: u64,
}

fn policies() -> [Box<dyn Policy>; 5] {
    let (view, critical, pace) = (VIEW, CRITICAL, Pace::every(INTERVAL));
    let field = Radians::from_degrees(180.0);
    [
        Box::new(Broadcast(pace)),
        Box::new(Circle { view, pace }),
        Box::new(AttenuatedCircle { view, critical, pace }),
        Box::new(FieldOfView { view, field, pace }),
        Box::new(A3 { view, critical, field, pace }),
    ]
}

/// Bytes to the observers under one policy.
#[derive(Clone)]
struct Tally {
    /// When each (observer, avatar) pair was sent last, in checks.
    last: Vec<u32>,
    /// Updates in the second at hand, by observer.
    second: Vec<u64>,
    most: u64,
    total: u64,
}

/// One world of one size: mean and maximum for each policy.
fn simulate(world: f32, count: usize, seconds: u64, seed: u64) -> [(f64, f64); 5] {
    let spec = WaypointSpec {
        count,
        side: world,
        speed: [SPEED, SPEED],
        pause: [0.0, 0.0],
        leg: f32::INFINITY,
        rate: 1e6 / CHECK.0 as f32,
    };
    let mut walk = Waypoint::new(spec, seed);
    let policies = policies();
    let observers = OBSERVERS.min(count);
    let mut rng = fastrand::Rng::with_seed(seed ^ 0xa3);
    let warm = (INTERVAL.0 / CHECK.0) as u32;
    // Pairs begin at different moments of their interval, as those of a running server do.
    let last = (0..observers * count).map(|_| rng.u32(0..warm)).collect();
    let blank = Tally { last, second: vec![0; observers], most: 0, total: 0 };
    let mut tallies: [Tally; 5] = std::array::from_fn(|_| blank.clone());
    let per_second = (1_000_000 / CHECK.0) as u32;
    for check in 0..seconds as u32 * per_second {
        walk.step();
        for observer in 0..observers {
            watch(&walk, observer, check + warm, (&policies, &mut tallies));
        }
        if (check + 1) % per_second == 0 {
            tallies.iter_mut().for_each(Tally::close_second);
        }
    }
    let clients = observers as f64 * seconds as f64;
    tallies.map(|tally| {
        let bytes = |updates: u64| (updates * UPDATE_BYTES) as f64;
        (bytes(tally.total) / clients, bytes(tally.most))
    })
}

impl Tally {
    fn close_second(&mut self) {
        for updates in &mut self.second {
            self.most = self.most.max(*updates);
            self.total += *updates;
            *updates = 0;
        }
    }
}

/// Asks every policy about everything that one observer could be told of.
fn watch(
    walk: &Waypoint,
    observer: usize,
    check: u32,
    (policies, tallies): (&[Box<dyn Policy>; 5], &mut [Tally; 5]),
) {
    let Some(eyes) = walk.pose(observer) else { return };
    let pivot = Pivot::looking(eyes.pos, Radians(eyes.yaw), Radians(0.0));
    for avatar in (0..walk.len()).filter(|avatar| *avatar != observer) {
        let Some(pose) = walk.pose(avatar) else { continue };
        let sight = sight(&pivot, pose.pos, avatar, check);
        for (policy, tally) in policies.iter().zip(tallies.iter_mut()) {
            let Some(grade) = policy.grade(&sight) else { continue };
            let last = &mut tally.last[observer * walk.len() + avatar];
            if CHECK * (check - *last) >= grade.max_age {
                *last = check;
                tally.second[observer] += 1;
            }
        }
    }
}

fn sight(pivot: &Pivot, to: [f32; 3], avatar: usize, check: u32) -> Sight {
    let way = [0, 1, 2].map(|i| to[i] - pivot.at[i]);
    let distance = (way[0] * way[0] + way[1] * way[1] + way[2] * way[2]).sqrt();
    let ahead: f32 = (0..3).map(|i| way[i] * pivot.facing[i]).sum();
    Sight {
        distance: Metres(distance),
        cos_angle: if distance > 0.0 { ahead / distance } else { 1.0 },
        from: pivot.at,
        to,
        pivot: None,
        object: ObjectId::new(KindId(0), 0, avatar as u32),
        kind: KindId(0),
        mates: false,
        interaction: 0.0,
        tick: Tick(check),
        now: CHECK * check,
    }
}

/// Runs both worlds.
pub fn lab(options: Options) -> Result<Done, ExperimentError> {
    let seconds = if options.quick { QUICK_SECONDS } else { SECONDS };
    let jobs: Vec<(f32, usize)> =
        WORLDS.iter().flat_map(|world| COUNTS.iter().rev().map(move |n| (*world, *n))).collect();
    let progress = Progress::new("a3", jobs.len() as u64);
    let results = in_parallel(&jobs, |(world, count)| {
        let result = simulate(*world, *count, seconds, options.seed);
        progress.tick(1);
        result
    });
    progress.finish();
    let mut rows = Vec::new();
    for ((world, count), result) in jobs.iter().zip(results).rev() {
        let at = COUNTS.iter().position(|n| n == count).unwrap_or(0);
        for (policy, (mean_bps, max_bps)) in result.into_iter().enumerate() {
            rows.push(Row {
                world: *world as u32,
                avatars: *count,
                policy: POLICIES[policy],
                mean_bps,
                max_bps,
                paper_mean_bps: PAPER_MEAN[at][policy],
                paper_max_bps: PAPER_MAX[at][policy],
                observers: OBSERVERS.min(*count),
                seconds,
            });
        }
    }
    finish(&rows, options)
}

fn of_world(rows: &[Row], world: u32, policy: &str) -> Vec<Row> {
    rows.iter().filter(|row| row.world == world && row.policy == policy).cloned().collect()
}

/// What A³ saves against the other policies, in percent, on average over the counts.
fn savings(rows: &[Row], world: u32) -> [f64; 4] {
    let a3 = of_world(rows, world, "a3");
    [0, 1, 2, 3].map(|policy| {
        let other = of_world(rows, world, POLICIES[policy]);
        let saved = a3.iter().zip(&other).map(|(a3, other)| 1.0 - a3.mean_bps / other.mean_bps);
        100.0 * saved.sum::<f64>() / a3.len() as f64
    })
}

fn finish(rows: &[Row], options: Options) -> Result<Done, ExperimentError> {
    let mut outcome = Outcome::new("a3", options.seed);
    let mut report = Report::new("a3", "A³: a graded area of interest").summary(
        "Bytes per second to one client under five policies, beside the source's figures. \
         Random waypoint at 5 units/s without pauses, facing the way walked, V = 120, C = 40, \
         field of view 180°, I = 250 ms, 100 B an update, due tested every 10 ms.\n\n\
         The source states a world of 750 × 750; its tables come out with 300 × 300 instead, so \
         both are run.",
    );
    for row in rows {
        outcome.push(row)?;
    }
    let mut tables = Vec::new();
    for world in WORLDS.map(|world| world as u32) {
        let (means, savings) = (table(rows, world), savings(rows, world));
        let saved = saving_table(world, savings);
        report = report
            .section(format!("World of {world} × {world}"), "")
            .table(&means)
            .table(&saved)
            .plot(plot(rows, world));
        if world == 300 {
            for ((other, ours), paper) in POLICIES.iter().zip(savings).zip(PAPER_SAVING) {
                let verdict =
                    if (ours - paper).abs() <= 5.0 { Mark::Holds } else { Mark::FallsShort };
                let text = format!("A³ saves against {other}, within 5 points of {paper} %");
                report = report.finding(verdict, text, format!("{ours:.2} %"));
            }
        }
        tables.extend([means, saved]);
    }
    Ok(Done { outcome, tables, notes: Vec::new(), report })
}

fn table(rows: &[Row], world: u32) -> Table {
    let mut columns = vec![("avatars", Align::Right)];
    for policy in POLICIES {
        columns.extend([(policy, Align::Right), ("(source)", Align::Right)]);
        columns.extend([("max", Align::Right), ("(source)", Align::Right)]);
    }
    let caption = format!("world {world} × {world}: mean and maximum bytes/s to one client");
    let mut table = Table::new(columns).caption(caption);
    for count in COUNTS {
        let mut cells = vec![count.to_string()];
        for row in rows.iter().filter(|row| row.world == world && row.avatars == count) {
            let figures = [row.mean_bps, row.paper_mean_bps, row.max_bps, row.paper_max_bps];
            cells.extend(figures.iter().map(|figure| format!("{figure:.0}")));
        }
        table.row(cells);
    }
    table
}

fn saving_table(world: u32, savings: [f64; 4]) -> Table {
    let columns =
        [("A³ saves against", Align::Left), ("ours", Align::Right), ("source", Align::Right)];
    let mut table =
        Table::new(columns).caption(format!("world {world}: mean saving over all counts"));
    for ((other, ours), paper) in POLICIES.iter().zip(savings).zip(PAPER_SAVING) {
        table.row([(*other).to_owned(), format!("{ours:.2} %"), format!("{paper:.2} %")]);
    }
    table
}

fn plot(rows: &[Row], world: u32) -> Plot {
    let mut plot = Plot::lines(format!("Mean bytes/s to one client, world of {world}"))
        .x(Axis::linear("avatars", ""))
        .y(Axis::linear("to one client", "B/s").from_zero());
    for policy in POLICIES {
        let rows = of_world(rows, world, policy);
        let ours = rows.iter().map(|row| (row.avatars as f64, row.mean_bps));
        plot = plot.series(Series::points(policy, ours));
        if policy == "a3" || policy == "circle" {
            let source = rows.iter().map(|row| (row.avatars as f64, row.paper_mean_bps));
            plot = plot.series(Series::points(format!("{policy}, source"), source).reference());
        }
    }
    plot
}
