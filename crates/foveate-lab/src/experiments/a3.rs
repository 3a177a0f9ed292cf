//! `foveate lab a3`: the graded area of interest of A³, reproduced with its source's figures beside ours.
//!
//! Avatars walk between random points and pause at each. A [`Publisher`] sends their states to a few of them under five
//! policies, in rounds of 10 ms. Every update counts as the source's 100 B. Prediction and floors are off. The source
//! sends whether or not anything has changed, while the engine sends only differences; so the whole world rises a
//! little in every round, which changes every state and no distance.

use super::{Done, Experiment, ExperimentError, LabRequest, RunOptions, in_parallel};
use crate::avatar::{AvatarSpec, LabAvatar};
use crate::movement::{Movement, Waypoint, WaypointSpec};
use crate::output::{Align, ExperimentResult, Progress, Table, Verdict};
use crate::report::{Axis, Plot, Report, Series};
use foveate_sync::interest::{
    A3, AttenuatedCircle, Broadcast, Circle, FieldOfView, Grade, Pace, Policy, Sight,
};
use foveate_sync::{Observer, ObserverId, Pivots, Publisher, Rounds, Slot};
use foveate_wire::packet::Ack;
use foveate_wire::{Metres, Micros, ObjectId, OwnerId, Radians, Tick};
use serde::Serialize;
use std::sync::Arc;

const INTERVAL: Micros = Micros(250_000);
const CHECK: Micros = Micros(10_000);
const UPDATE_BYTES: u64 = 100;
const VIEW: Metres = Metres(120.0);
const CRITICAL: Metres = Metres(40.0);
const SPEED: f32 = 5.0;
/// Pauses at a waypoint in seconds, drawn evenly.
const PAUSE: [f32; 2] = [0.0, 10.0];
const OBSERVERS: usize = 8;
const SECONDS: u32 = 20 * 60;
const QUICK_OBSERVERS: usize = 4;
const QUICK_SECONDS: u32 = 60;
/// Seconds before measuring, in which all avatars join.
const WARM_UP: u32 = 2;
const COUNTS: [usize; 8] = [25, 50, 75, 100, 125, 150, 175, 200];
const WORLDS: [f32; 2] = [300.0, 750.0];
/// The side of the world in which the source's figures are reproduced.
const FITTING: u32 = 300;
const POLICIES: [&str; 5] = ["none", "circle", "attenuated", "fov", "a3"];
const PRECISION: f32 = 1.0 / 64.0;
/// Steps that the world rises in a round: one step is within precision, and would be no difference.
const RISE: f32 = 2.0;

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
/// What A³ saves of the bytes of none, circle, attenuated and field of view, in percent; means over the counts.
const PAPER_SAVING: [f64; 4] = [81.64, 63.51, 37.48, 33.58];
/// The same for their maxima.
const PAPER_MAX_SAVING: [f64; 4] = [60.10, 52.03, 24.81, 33.10];
/// What C&A saves of the mean of C, and of its maximum.
const PAPER_ATTENUATION: [f64; 2] = [41.59, 36.19];

/// One row of the result, in bytes per second to one client. With `strict` an update is due when its age exceeds θ,
/// otherwise when it reaches θ.
#[derive(Clone, Debug, Serialize)]
pub struct A3Row {
    world: u32,
    avatars: usize,
    policy: &'static str,
    mean_bps: f64,
    max_bps: f64,
    strict_mean_bps: f64,
    strict_max_bps: f64,
    paper_mean_bps: f64,
    paper_max_bps: f64,
    observers: usize,
    seconds: u32,
}

/// A policy as in the source: nothing outside the view is sent, and with `strict` an update is due when its age exceeds
/// θ, not when it reaches it. On a clock of 10 ms, 250 ms become 260.
struct AsInSource<P> {
    policy: P,
    strict: bool,
}

impl<P: Policy> Policy for AsInSource<P> {
    fn grade(&self, sight: &Sight) -> Option<Grade> {
        let grade = self.policy.grade(sight)?;
        // Times are whole microseconds: more than θ means at least one more.
        let more = Micros(u64::from(self.strict));
        Some(Grade { max_age: grade.max_age + more, ..grade })
    }

    fn reach(&self) -> Metres {
        self.policy.reach()
    }

    fn tells_leaving(&self, _: &Sight) -> bool {
        false
    }
}

/// The policies, each with both comparisons.
fn policies() -> Vec<Arc<dyn Policy>> {
    fn both<P: Policy + Copy + 'static>(policy: P) -> [Arc<dyn Policy>; 2] {
        [false, true].map(|strict| Arc::new(AsInSource { policy, strict }) as Arc<dyn Policy>)
    }
    let (view, critical, pace) = (VIEW, CRITICAL, Pace::every(INTERVAL));
    let field = Radians::from_degrees(180.0);
    [
        both(Broadcast(pace)),
        both(Circle { view, pace }),
        both(AttenuatedCircle { view, critical, pace }),
        both(FieldOfView { view, field, pace }),
        both(A3 { view, critical, field, pace }),
    ]
    .concat()
}

/// How long to measure, and for how many observers under each policy.
#[derive(Clone, Copy)]
struct Plan {
    observers: usize,
    seconds: u32,
    seed: u64,
}

/// Bytes sent to one observer: in all, and in its busiest second.
#[derive(Clone, Copy, Default)]
struct Tally {
    before: u64,
    total: u64,
    most: u64,
}

/// One world and all its observers.
struct Walkers {
    walk: Waypoint,
    publisher: Publisher,
    slots: Vec<Option<Slot>>,
    /// The round in which each avatar joins: phases of updates differ, as on a running server.
    joins: Vec<u32>,
    tick: u32,
    /// For each observer the number of its next packet, and whether it got one in this round.
    sent: Vec<(u16, bool)>,
    tallies: Vec<Tally>,
}

impl Walkers {
    fn new(side: f32, count: usize, plan: Plan) -> Result<Walkers, ExperimentError> {
        let rate = 1e6 / CHECK.0 as f32;
        let (speed, leg) = ([SPEED, SPEED], f32::INFINITY);
        let spec = WaypointSpec { count, side, speed, pause: PAUSE, leg, rate };
        let rise = RISE * PRECISION * rate;
        let avatar = AvatarSpec {
            precision: PRECISION,
            extent: side.max(rise * (plan.seconds + WARM_UP) as f32) + 1.0,
            max_speed: SPEED.hypot(rise) + 1.0,
            motion: false,
            fall: 0,
            facing_floor: 0.0,
        };
        // The source neither freezes nor forgets objects.
        let never = Micros(u64::from(u32::MAX));
        let rounds = Rounds { length: CHECK, freeze_after: never, forget_after: never };
        let mut rng = fastrand::Rng::with_seed(plan.seed ^ 0xa3);
        let interval = (INTERVAL.0 / CHECK.0) as u32;
        let join = |at: usize| if at < plan.observers { 1 } else { rng.u32(1..=interval) };
        let mut walkers = Walkers {
            walk: Waypoint::new(spec, plan.seed),
            publisher: Publisher::new(avatar.schema()?, rounds),
            slots: vec![None; count],
            joins: (0..count).map(join).collect(),
            tick: 0,
            sent: Vec::new(),
            tallies: Vec::new(),
        };
        walkers.tick = 1;
        walkers.place()?;
        for policy in policies() {
            for slot in walkers.slots[..plan.observers].iter().copied().flatten() {
                let policy = Arc::clone(&policy);
                let observer = Observer::new(policy, Pivots::Object(slot), Tick(1));
                walkers.publisher.add(observer.without_own_objects());
                walkers.sent.push((0, false));
                walkers.tallies.push(Tally::default());
            }
        }
        walkers.tick = 0;
        Ok(walkers)
    }

    /// Moves every player that has joined to its place in this round.
    fn place(&mut self) -> Result<(), ExperimentError> {
        let height = self.tick as f32 * RISE * PRECISION;
        let store = &mut self.publisher.store;
        let refused = |error: foveate_sync::StoreError| ExperimentError::Usage(error.to_string());
        for (at, slot) in self.slots.iter_mut().enumerate() {
            let Some(mut pose) = self.walk.pose(at).filter(|_| self.joins[at] <= self.tick) else {
                continue;
            };
            pose.pos[2] = height;
            match slot {
                Some(slot) => store.set(*slot, &LabAvatar::from(pose)).map_err(refused)?,
                None => {
                    let id = ObjectId::new(crate::session::KIND, 0, at as u32);
                    let made = store.create(id, OwnerId(0), &LabAvatar::from(pose));
                    *slot = Some(made.map_err(refused)?);
                }
            }
        }
        Ok(())
    }

    /// Runs one round; what is sent arrives and is acknowledged at once.
    fn round(&mut self) -> Result<(), ExperimentError> {
        self.tick += 1;
        self.walk.step();
        self.place()?;
        let (now, sent) = (CHECK * self.tick, &mut self.sent);
        self.publisher.round(Tick(self.tick), now, |id, _| {
            let (seq, fresh) = &mut sent[id.0 as usize];
            (*seq, *fresh) = (seq.wrapping_add(1), true);
        });
        for (at, (seq, fresh)) in self.sent.iter_mut().enumerate() {
            if std::mem::take(fresh) {
                let ack = Ack { newest: seq.wrapping_sub(1), before: u32::MAX };
                self.publisher.on_ack(ObserverId(at as u32), &ack, now);
            }
        }
        Ok(())
    }

    /// Ends a second.
    fn close_second(&mut self, measured: bool) {
        for (at, tally) in self.tallies.iter_mut().enumerate() {
            let observer = self.publisher.observer(ObserverId(at as u32));
            let counted = observer.map_or(0, |it| it.counters().updates + it.counters().full);
            let updates = counted - std::mem::replace(&mut tally.before, counted);
            if measured {
                tally.total += updates;
                tally.most = tally.most.max(updates);
            }
        }
    }
}

/// Bytes per second to one client: the mean, and the busiest second, each as the mean over observers.
type Rate = (f64, f64);

/// Plays one world of one size. Returns the rates of both comparisons for each policy.
fn simulate(side: f32, count: usize, plan: Plan) -> Result<Vec<[Rate; 2]>, ExperimentError> {
    let mut walkers = Walkers::new(side, count, plan)?;
    for second in 0..WARM_UP + plan.seconds {
        for _ in 0..1_000_000 / CHECK.0 {
            walkers.round()?;
        }
        walkers.close_second(second >= WARM_UP);
    }
    let rate = |tallies: &[Tally]| {
        let bytes = |of: fn(&Tally) -> u64| {
            (tallies.iter().map(of).sum::<u64>() * UPDATE_BYTES) as f64 / tallies.len() as f64
        };
        (bytes(|tally| tally.total) / f64::from(plan.seconds), bytes(|tally| tally.most))
    };
    let rates: Vec<Rate> = walkers.tallies.chunks(plan.observers).map(rate).collect();
    Ok(rates.chunks(2).map(|both| [both[0], both[1]]).collect())
}

pub struct A3Experiment;

impl Experiment for A3Experiment {
    fn name(&self) -> &'static str {
        "a3"
    }

    fn about(&self) -> &'static str {
        "A³'s graded area of interest, its source's figures beside ours"
    }

    fn run(&self, request: &LabRequest<'_>) -> Result<Done, ExperimentError> {
        lab(request.options)
    }
}

/// Runs both worlds.
fn lab(options: RunOptions) -> Result<Done, ExperimentError> {
    let (observers, seconds) =
        if options.quick { (QUICK_OBSERVERS, QUICK_SECONDS) } else { (OBSERVERS, SECONDS) };
    let plan = Plan { observers, seconds, seed: options.seed };
    let jobs: Vec<(f32, usize)> =
        WORLDS.iter().flat_map(|world| COUNTS.iter().rev().map(move |n| (*world, *n))).collect();
    let progress = Progress::new("a3", jobs.len() as u64);
    let results = in_parallel(&jobs, |(world, count)| {
        let result = simulate(*world, *count, plan);
        progress.tick(1);
        result
    });
    progress.finish();
    let mut rows = Vec::new();
    for ((world, count), result) in jobs.iter().zip(results).rev() {
        let at = COUNTS.iter().position(|n| n == count).unwrap_or(0);
        for (policy, [reached, exceeded]) in result?.into_iter().enumerate() {
            rows.push(A3Row {
                world: *world as u32,
                avatars: *count,
                policy: POLICIES[policy],
                mean_bps: reached.0,
                max_bps: reached.1,
                strict_mean_bps: exceeded.0,
                strict_max_bps: exceeded.1,
                paper_mean_bps: PAPER_MEAN[at][policy],
                paper_max_bps: PAPER_MAX[at][policy],
                observers,
                seconds,
            });
        }
    }
    finish(&rows, options)
}

fn of_world(rows: &[A3Row], world: u32, policy: &str) -> Vec<A3Row> {
    rows.iter().filter(|row| row.world == world && row.policy == policy).cloned().collect()
}

/// What one policy saves of another's bytes, in percent; the mean over the counts.
fn saving(rows: &[A3Row], world: u32, of: Figure, [saver, other]: [&str; 2]) -> f64 {
    let (saver, other) = (of_world(rows, world, saver), of_world(rows, world, other));
    let saved = saver.iter().zip(&other).map(|(saver, other)| 1.0 - of(saver) / of(other));
    100.0 * saved.sum::<f64>() / saver.len() as f64
}

/// A figure of a row.
type Figure = fn(&A3Row) -> f64;
const MEANS: [Figure; 2] = [|row| row.mean_bps, |row| row.strict_mean_bps];
const MAXIMA: [Figure; 2] = [|row| row.max_bps, |row| row.strict_max_bps];

/// A saving: its figure, both versions of it, the saving policy and the other one, and the source's value.
type Claim = (&'static str, [Figure; 2], [&'static str; 2], f64);

/// All savings that the source states.
fn claims() -> Vec<Claim> {
    let against = |what: &'static str, figures: [Figure; 2], paper: [f64; 4]| {
        let others = POLICIES.into_iter().zip(paper);
        others.map(move |(other, paper)| (what, figures, ["a3", other], paper))
    };
    let mut claims: Vec<Claim> = against("mean", MEANS, PAPER_SAVING)
        .chain(against("maximum", MAXIMA, PAPER_MAX_SAVING))
        .collect();
    claims.push(("mean", MEANS, ["attenuated", "circle"], PAPER_ATTENUATION[0]));
    claims.push(("maximum", MAXIMA, ["attenuated", "circle"], PAPER_ATTENUATION[1]));
    claims
}

/// Percentage points by which savings of means and of maxima may differ from the source's, which had one client and one
/// run.
const ROOM: [f64; 2] = [5.0, 10.0];
/// Percentage points by which the mean may differ from the source's.
const SHARE_ROOM: f64 = 15.0;
/// A quick run has a twentieth of the samples: its figures may differ by this many times as much. Without attenuation
/// they would differ by more.
const QUICK_ROOM: f64 = 3.0;

fn judge(outcome: &mut ExperimentResult, rows: &[A3Row], options: RunOptions) {
    let times = if options.quick { QUICK_ROOM } else { 1.0 };
    for (what, figures, pair, paper) in claims() {
        let room = times * if what == "mean" { ROOM[0] } else { ROOM[1] };
        let saved = saving(rows, FITTING, figures[1], pair);
        let text = format!("{} saves of {}'s {what}", pair[0], pair[1]);
        outcome.judge(Verdict::near(text, saved, paper, room, "%"));
    }
    // The policy none leaves nothing to chance: 100 B every 260 ms.
    let none = of_world(rows, FITTING, "none");
    let off = none.iter().map(|row| (row.strict_mean_bps / row.paper_mean_bps - 1.0).abs());
    let text = "none, strict: largest deviation of a mean from the source's";
    outcome.judge(Verdict::at_most(text, 100.0 * off.fold(0.0, f64::max), 0.5, "%"));
    for policy in ["circle", "a3"] {
        let rows = of_world(rows, FITTING, policy);
        let share = rows.iter().map(|row| row.strict_mean_bps / row.paper_mean_bps);
        let share = 100.0 * share.sum::<f64>() / rows.len() as f64;
        let text = format!("{policy}, strict: mean as a share of the source's");
        outcome.judge(Verdict::near(text, share, 100.0, times * SHARE_ROOM, "%"));
    }
}

fn finish(rows: &[A3Row], options: RunOptions) -> Result<Done, ExperimentError> {
    let mut outcome = ExperimentResult::new("a3", options.seed);
    let [shortest, longest] = PAUSE;
    let mut report = Report::new("a3", "A³: a graded area of interest").summary(format!(
        "Bytes per second to one client under five policies, beside the source's figures: updates that \
         the engine sent, 100 B each. Random waypoint at {SPEED} units/s with pauses of {shortest} to \
         {longest} s, facing the way walked, V = 120, C = 40, field of view 180°, I = 250 ms, rounds \
         of 10 ms.\n\nThe source states a world of 750 × 750; its tables come out with 300 × 300 \
         instead, so both are run. `>`: an update is due once its age exceeds I / r, which on a \
         clock of 10 ms makes 260 ms of 250; `≥`: once it has reached it. The source's None fits `>`."
    ));
    for row in rows {
        outcome.push(row)?;
    }
    judge(&mut outcome, rows, options);
    let mut tables = Vec::new();
    for world in WORLDS.map(|world| world as u32) {
        let shown = [
            table(rows, world, "mean", [MEANS[0], MEANS[1], |row| row.paper_mean_bps]),
            table(rows, world, "maximum", [MAXIMA[0], MAXIMA[1], |row| row.paper_max_bps]),
            saving_table(rows, world),
        ];
        report = report.section(format!("World of {world} × {world}"), "");
        report = shown.iter().fold(report, Report::table).plot(plot(rows, world));
        tables.extend(shown);
    }
    Ok(Done { outcome, tables, notes: Vec::new(), report })
}

fn table(rows: &[A3Row], world: u32, what: &str, figures: [Figure; 3]) -> Table {
    let mut columns = vec![("avatars".to_owned(), Align::Right)];
    for policy in POLICIES {
        columns.extend([(format!("{policy} ≥"), Align::Right), (">".into(), Align::Right)]);
        columns.push(("source".into(), Align::Right));
    }
    let caption = format!("world {world} × {world}: {what} of bytes/s to one client");
    let mut table = Table::new(columns).caption(caption);
    for count in COUNTS {
        let mut cells = vec![count.to_string()];
        for row in rows.iter().filter(|row| row.world == world && row.avatars == count) {
            cells.extend(figures.map(|figure| format!("{:.0}", figure(row))));
        }
        table.row(cells);
    }
    table
}

fn saving_table(rows: &[A3Row], world: u32) -> Table {
    let columns = [
        ("saves", Align::Left),
        ("of", Align::Left),
        ("≥", Align::Right),
        (">", Align::Right),
        ("source", Align::Right),
    ];
    let mut table =
        Table::new(columns).caption(format!("world {world}: savings, mean over all counts"));
    for (what, figures, pair, paper) in claims() {
        let [reached, exceeded] = figures.map(|figure| saving(rows, world, figure, pair));
        table.row([
            pair[0].to_owned(),
            format!("{}'s {what}", pair[1]),
            format!("{reached:.2} %"),
            format!("{exceeded:.2} %"),
            format!("{paper:.2} %"),
        ]);
    }
    table
}

fn plot(rows: &[A3Row], world: u32) -> Plot {
    let mut plot = Plot::lines(format!("Mean bytes/s to one client, world of {world}"))
        .x(Axis::linear("avatars", ""))
        .y(Axis::linear("to one client", "B/s").from_zero());
    for policy in POLICIES {
        let rows = of_world(rows, world, policy);
        let ours = rows.iter().map(|row| (row.avatars as f64, row.strict_mean_bps));
        plot = plot.series(Series::points(policy, ours));
        if policy == "a3" || policy == "circle" {
            let source = rows.iter().map(|row| (row.avatars as f64, row.paper_mean_bps));
            plot = plot.series(Series::points(format!("{policy}, source"), source).reference());
        }
    }
    plot
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relevance under a policy, by A³'s definitions alone, without any code of the engine.
    fn relevance(policy: &str, distance: f32, ahead: bool) -> f32 {
        let near = distance <= 40.0;
        let fades = if near { 1.0 } else { (1.0 - (distance - 40.0) / 80.0).max(0.0) };
        let within = f32::from(u8::from(distance <= 120.0));
        match policy {
            "none" => 1.0,
            "circle" => within,
            "attenuated" => fades,
            "fov" if ahead => within,
            "a3" if ahead || near => fades,
            _ => 0.0,
        }
    }

    /// Updates to the observers by the source's rule alone, for the same movement, without the warm-up.
    fn by_the_book(walkers: &Walkers, plan: Plan, policy: &str, strict: bool) -> u64 {
        let mut walk = walkers.walk.clone();
        let count = walk.len();
        let (mut last, mut updates) = (vec![None; plan.observers * count], 0);
        for tick in 1..=(WARM_UP + plan.seconds) * 100 {
            walk.step();
            for pair in 0..plan.observers * count {
                let (observer, avatar) = (pair / count, pair % count);
                let (eye, other) = (walk.pose(observer).unwrap(), walk.pose(avatar).unwrap());
                if observer == avatar || walkers.joins[avatar] > tick {
                    continue;
                }
                let way = [0, 1].map(|i| other.pos[i] - eye.pos[i]);
                let ahead = way[0] * eye.yaw.cos() + way[1] * eye.yaw.sin() >= 0.0;
                let relevance = relevance(policy, way[0].hypot(way[1]), ahead);
                let due = 250.0 / relevance;
                let age = last[pair].map_or(f32::INFINITY, |last: u32| (10 * (tick - last)) as f32);
                if relevance > 0.0 && (age > due || (age == due && !strict)) {
                    last[pair] = Some(tick);
                    updates += u64::from(tick > WARM_UP * 100);
                }
            }
        }
        updates
    }

    #[test]
    fn the_engine_sends_what_the_sources_rule_says() {
        let plan = Plan { observers: 3, seconds: 40, seed: 7 };
        let walkers = Walkers::new(300.0, 40, plan).unwrap();
        let rates = simulate(300.0, 40, plan).unwrap();
        for (policy, rates) in POLICIES.into_iter().zip(rates) {
            for (strict, (mean, _)) in [false, true].into_iter().zip(rates) {
                let book = by_the_book(&walkers, plan, policy, strict) as f64 * 100.0;
                let book = book / (plan.observers as f64 * f64::from(plan.seconds));
                let off = (mean / book - 1.0).abs();
                assert!(off < 0.01, "{policy}, strict {strict}: {mean} B/s, {book} by the book");
            }
        }
    }

    #[test]
    fn a_strict_comparison_makes_260_ms_of_250() {
        let plan = Plan { observers: 2, seconds: 13, seed: 1 };
        let rates = simulate(300.0, 11, plan).unwrap();
        let [(reached, _), (exceeded, _)] = rates[0];
        assert_eq!((reached, exceeded), (4_000.0, 100.0 * 10.0 / 0.26), "ten others, all the time");
    }
}
