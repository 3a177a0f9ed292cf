//! `foveate lab scale`: the cost of a round, from a thousand to sixteen thousand players.
//!
//! Every player is an observer with a view radius of 120 units at 20 Hz. The same run measures the naive way for
//! comparison: test every pair, and write the whole state of all avatars in view.

mod threads;

use super::{Done, Experiment, ExperimentError, LabHost, LabRequest, RunOptions};
use crate::avatar::{AvatarSpec, LabAvatar};
use crate::movement::{Crowd, Movement, Recorded, Tiled};
use crate::output::{ExperimentResult, Progress, Table, Verdict};
use crate::report::{Axis, Plot, Report, Series};
use crate::trace::Trace;
use clap::{Args, Command};
use foveate_sync::interest::{Bound, View, presets};
use foveate_sync::metrics::{PipelineStage, Probe};
use foveate_sync::{MAX_THREADS, Observer, ObserverId, Pivots, Publisher, Rounds, Slot, Threads};
use foveate_wire::packet::Ack;
use foveate_wire::{Micros, ObjectId, OwnerId, Tick};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use threads::ThreadsRow;

const RATE: f32 = 20.0;
const ROUND: Micros = Micros(50_000);
const RADIUS: f32 = 120.0;
const COUNTS: [usize; 3] = [1_000, 4_000, 16_000];
const QUICK_COUNTS: [usize; 3] = [250, 500, 1_000];
/// Rounds before measuring: all players know the players near them, and histories are full.
const WARM_UP: u32 = 80;
const MEASURED: u32 = 40;
/// Acknowledgements arrive this many rounds after their packets: a round trip of 100 ms.
const ACK_DELAY: u32 = 2;

/// One row of the result.
#[derive(Clone, Debug, Serialize)]
pub struct ScaleRow {
    workload: &'static str,
    n: usize,
    pairs: f64,
    in_view: f64,
    tick_ms: f64,
    write_ms: f64,
    collect_ms: f64,
    index_ms: f64,
    grade_ms: f64,
    due_ms: f64,
    encode_ms: f64,
    ack_ms: f64,
    naive_ms: f64,
    naive_pair_ns: f64,
    factor: f64,
    due_updates: f64,
    due_share: f64,
    looked_share: f64,
    bytes_per_client_s: f64,
    bits_per_update: f64,
    bounds_scheduled: f64,
    allocs: f64,
}

/// The experiment's view: VFC's normal one without anything beyond the radius, and the outermost zone at no more than
/// three updates a second, as in large games.
fn view() -> View {
    let mut view = presets::normal(0.2 * RADIUS, 0.4 * RADIUS);
    view.zones[2] = RADIUS;
    view.floor_degrees = 0.4;
    view.kappa[2] = vec![Bound::new(300, 0.10), Bound::new(400, 0.20), Bound::new(600, 0.30)];
    view
}

/// Times the stages. The publisher takes many observers through a stage at once, so reading the clock costs little.
struct StageTimes<'a> {
    meter: &'a dyn LabHost,
    at: Option<(PipelineStage, u64)>,
    ns: [u64; 8],
}

impl Probe for StageTimes<'_> {
    fn enter(&mut self, stage: PipelineStage) {
        self.leave();
        self.at = Some((stage, self.meter.now_ns()));
    }

    fn leave(&mut self) {
        if let Some((stage, since)) = self.at.take() {
            self.ns[stage as usize] += self.meter.now_ns() - since;
        }
    }
}

/// A world in which every player is an observer.
struct Bench<M> {
    movement: M,
    publisher: Publisher,
    slots: Vec<Slot>,
    avatars: Vec<Option<LabAvatar>>,
    tick: u32,
    /// (observer, newest packet) of the last rounds.
    unacked: Vec<Vec<(ObserverId, u16)>>,
    next_seq: Vec<u16>,
}

impl<M: Movement> Bench<M> {
    fn new(mut movement: M, avatar: AvatarSpec) -> Result<Bench<M>, ExperimentError> {
        let schema = avatar.schema()?;
        let mut publisher = Publisher::new(schema, Rounds::every(ROUND));
        let policy = view().build()?;
        movement.step();
        let mut slots = Vec::new();
        for at in 0..movement.len() {
            let pose = movement.pose(at).unwrap_or_default();
            let id = ObjectId::new(crate::session::KIND, 0, at as u32);
            let created = publisher.store.create(id, OwnerId(0), &LabAvatar::from(pose));
            let slot = created.map_err(|error| ExperimentError::Usage(error.to_string()))?;
            let observer = Observer::new(Arc::clone(&policy), Pivots::Object(slot), Tick(0));
            publisher.add(observer.without_own_objects());
            slots.push(slot);
        }
        let (avatars, next_seq) = (vec![None; slots.len()], vec![0; slots.len()]);
        let unacked = vec![Vec::new(); ACK_DELAY as usize];
        Ok(Bench { movement, publisher, slots, avatars, tick: 0, unacked, next_seq })
    }

    /// Moves the avatars, which is the game's part and not measured.
    fn simulate(&mut self) {
        self.movement.step();
        for (at, avatar) in self.avatars.iter_mut().enumerate() {
            *avatar = self.movement.pose(at).map(LabAvatar::from);
        }
    }

    fn write(&mut self) {
        for (slot, avatar) in self.slots.iter().zip(&self.avatars) {
            if let Some(avatar) = avatar {
                let written = self.publisher.store.set(*slot, avatar);
                debug_assert!(written.is_ok());
            }
        }
    }

    fn round(&mut self, probe: &mut impl Probe) {
        self.tick += 1;
        let row = (self.tick % ACK_DELAY) as usize;
        let Bench { publisher, unacked, next_seq, .. } = self;
        let sent = &mut unacked[row];
        publisher.round_watched(Tick(self.tick), ROUND * self.tick, probe, |id, _| {
            let seq = &mut next_seq[id.0 as usize];
            sent.push((id, *seq));
            *seq = seq.wrapping_add(1);
        });
    }

    fn acknowledge(&mut self) {
        let row = ((self.tick + 1) % ACK_DELAY) as usize;
        let now = ROUND * (self.tick + 1);
        for (id, seq) in self.unacked[row].drain(..) {
            self.publisher.on_ack(id, &Ack { newest: seq, before: u32::MAX }, now);
        }
    }

    fn full_round(&mut self, probe: &mut impl Probe) {
        self.acknowledge();
        self.write();
        self.round(probe);
    }
}

/// The naive way: every pair is tested each round, and every avatar in view is written in full, id and all fields.
/// Returns how many were in view.
fn naive(avatars: &[Option<LabAvatar>], xs: &mut [Vec<f32>; 3], out: &mut Vec<u8>) -> u64 {
    for (axis, xs) in xs.iter_mut().enumerate() {
        xs.clear();
        xs.extend(avatars.iter().flatten().map(|avatar| avatar.pos[axis]));
    }
    let (mut seen, n) = (0, xs[0].len());
    let [x, y, z] = xs;
    let (x, y, z) = (&x[..n], &y[..n], &z[..n]);
    for observer in 0..n {
        out.clear();
        let from = [x[observer], y[observer], z[observer]];
        for object in 0..n {
            let d = [x[object] - from[0], y[object] - from[1], z[object] - from[2]];
            if d[0] * d[0] + d[1] * d[1] + d[2] * d[2] <= RADIUS * RADIUS
                && object != observer
                && let Some(avatar) = &avatars[object]
            {
                out.extend((object as u32).to_le_bytes());
                let [x, y, z] = avatar.pos;
                for part in [x, y, z, avatar.yaw, avatar.pitch] {
                    out.extend(part.to_le_bytes());
                }
                out.push(avatar.state);
                seen += 1;
            }
        }
        std::hint::black_box(&out);
    }
    seen
}

fn measure<M: Movement>(
    workload: &'static str,
    bench: &mut Bench<M>,
    meter: &dyn LabHost,
    progress: &Progress,
) -> ScaleRow {
    for _ in 0..WARM_UP {
        bench.simulate();
        bench.full_round(&mut ());
        progress.tick(1);
    }
    let n = bench.slots.len();
    let before = bench.publisher.totals();
    let mut stages = StageTimes { meter, at: None, ns: [0; 8] };
    let (mut write, mut tick, mut ack, mut naive_ns) = (0, 0, 0, Vec::new());
    let (mut allocs, mut seen, mut columns, mut out) = (0, 0, Default::default(), Vec::new());
    for round in 0..MEASURED {
        bench.simulate();
        let start = meter.now_ns();
        bench.acknowledge();
        let acked = meter.now_ns();
        bench.write();
        let written = meter.now_ns();
        // Half of the rounds time the stages, half count allocations.
        if round % 2 == 0 {
            bench.round(&mut stages);
        } else {
            allocs += meter.allocations(&mut || bench.round(&mut ()));
        }
        let end = meter.now_ns();
        (ack, write, tick) = (ack + acked - start, write + written - acked, tick + end - start);
        if round % 8 == 0 {
            let start = meter.now_ns();
            seen = naive(&bench.avatars, &mut columns, &mut out);
            naive_ns.push((meter.now_ns() - start) as f64);
        }
        progress.tick(1);
    }
    let totals = bench.publisher.totals();
    let rounds = f64::from(MEASURED);
    let samples = totals.samples.iter().sum::<u64>() - before.samples.iter().sum::<u64>();
    let updates = (totals.updates + totals.full - before.updates - before.full) as f64;
    let ms = |ns: f64| ns / 1e6;
    let stage = |stage: PipelineStage| ms(stages.ns[stage as usize] as f64) / (rounds / 2.0);
    let naive_ms = ms(naive_ns.iter().sum::<f64>() / naive_ns.len() as f64);
    let tick_ms = ms(tick as f64) / rounds;
    let bits = totals.bits.state - before.bits.state;
    ScaleRow {
        workload,
        n,
        pairs: samples as f64 / rounds,
        in_view: seen as f64 / n as f64,
        tick_ms,
        write_ms: ms(write as f64) / rounds,
        collect_ms: stage(PipelineStage::Collect),
        index_ms: stage(PipelineStage::Index),
        grade_ms: stage(PipelineStage::Grade),
        due_ms: stage(PipelineStage::Due),
        encode_ms: stage(PipelineStage::Encode),
        ack_ms: ms(ack as f64) / rounds + stage(PipelineStage::Ack),
        naive_ms,
        naive_pair_ns: naive_ms * 1e6 / (n * n) as f64,
        factor: naive_ms / tick_ms,
        due_updates: updates / rounds,
        due_share: updates / samples.max(1) as f64,
        looked_share: (totals.looked - before.looked) as f64 / samples.max(1) as f64,
        bytes_per_client_s: (totals.bytes - before.bytes) as f64
            / (n as f64 * rounds * ROUND.as_secs()),
        bits_per_update: bits / (totals.updates - before.updates).max(1) as f64,
        bounds_scheduled: totals.bounds_scheduled(),
        allocs: allocs as f64 / (rounds / 2.0),
    }
}

fn crowd(n: usize, seed: u64) -> Result<Bench<Crowd>, ExperimentError> {
    let movement = Crowd::new(n, RATE, seed);
    let avatar = AvatarSpec::of(&movement, 1.0 / 64.0);
    Bench::new(movement, avatar)
}

fn tiled(trace: &Trace, n: usize) -> Result<Bench<Tiled>, ExperimentError> {
    let recorded = Recorded::new(trace, ROUND.as_millis())?;
    let movement = Tiled::new(recorded, &trace.bounds(), n);
    // An eighth of a unit of the trace, as in the other experiments.
    let avatar = AvatarSpec::of(&movement, movement.scale() / 8.0);
    Bench::new(movement, avatar)
}

#[derive(Args)]
struct ScaleArguments {
    /// The recording that is tiled for the second workload
    #[arg(long, value_name = "FILE", default_value = "traces/openarena_oa_thor_ctf_60bots.csv.gz")]
    trace: PathBuf,
    /// Only the first workload, the crowd
    #[arg(long)]
    crowd_only: bool,
    /// Numbers of players to run instead
    #[arg(long, value_name = "N", value_delimiter = ',')]
    players: Vec<usize>,
    /// Compare rounds on one thread with rounds on this many
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
}

pub struct ScaleExperiment;

impl Experiment for ScaleExperiment {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn about(&self) -> &'static str {
        "What a round costs, from a thousand to sixteen thousand players"
    }

    fn options(&self, command: Command) -> Command {
        ScaleArguments::augment_args(command)
    }

    fn run(&self, request: &LabRequest<'_>) -> Result<Done, ExperimentError> {
        lab(&request.arguments()?, request.options, request.host)
    }
}

/// Runs the workloads.
fn lab(
    arguments: &ScaleArguments,
    options: RunOptions,
    meter: &dyn LabHost,
) -> Result<Done, ExperimentError> {
    let counts: &[usize] = match arguments.players.as_slice() {
        [] if options.quick => &QUICK_COUNTS,
        [] => &COUNTS,
        counts => counts,
    };
    if counts.contains(&0) {
        return Err(ExperimentError::Usage("--players: at least 1 is expected".into()));
    }
    let trace = (!arguments.crowd_only).then(|| Trace::read(&arguments.trace)).transpose()?;
    let pool = Threads::new(arguments.threads.min(MAX_THREADS));
    let pool = pool.map_err(|error| ExperimentError::Usage(format!("--threads: {error}")))?;
    let (mut rows, mut compared) = (Vec::new(), Vec::new());
    let kinds = 1 + u64::from(trace.is_some());
    let rounds = u64::from(WARM_UP + MEASURED) * kinds * counts.len() as u64;
    let progress = Progress::new("scale", rounds);
    for n in counts {
        let mut bench = crowd(*n, options.seed)?;
        rows.push(measure("crowd", &mut bench, meter, &progress));
        compared.extend(
            (pool.count() > 1).then(|| threads::compare("crowd", &mut bench, &pool, meter)),
        );
    }
    if let Some(trace) = &trace {
        for n in counts {
            let mut bench = tiled(trace, *n)?;
            rows.push(measure("tiled", &mut bench, meter, &progress));
            compared.extend(
                (pool.count() > 1).then(|| threads::compare("tiled", &mut bench, &pool, meter)),
            );
        }
    }
    progress.finish();
    finish(&rows, &compared, super::micro::table(options.seed, meter)?, options)
}

/// How the time grows with the number of players: the exponent of a power law from the first count to the last. `None`
/// with fewer than two counts.
fn exponent(rows: &[ScaleRow], workload: &str) -> Option<f64> {
    let mut rows = rows.iter().filter(|row| row.workload == workload);
    let (first, last) = (rows.next()?, rows.next_back()?);
    let growth = (last.n as f64 / first.n as f64).ln();
    (growth != 0.0).then(|| (last.tick_ms / first.tick_ms).ln() / growth)
}

/// The largest exponent with which time may grow with the number of players.
const EXPONENT: f64 = 1.15;
/// For a crowd, how many times faster than the naive way a round must be, by number of players.
const FACTORS: [(usize, f64); 3] = [(1_000, 1.0), (4_000, 4.0), (16_000, 15.0)];

/// Judges the claims. Times depend on the machine and its other load, so they are reported only.
fn judge(outcome: &mut ExperimentResult, rows: &[ScaleRow]) {
    let worst = |of: fn(&ScaleRow) -> f64| rows.iter().map(of).fold(0.0, f64::max);
    // In small worlds it takes longer until the most crowded observer, which memory is reserved for, is known.
    let largest = rows.iter().map(|row| row.n).max();
    let allocs = rows.iter().filter(|row| Some(row.n) == largest).map(|row| row.allocs);
    let text = "allocations in a round with the most players";
    outcome.judge(Verdict::at_most(text, allocs.fold(0.0, f64::max), 0.0, ""));
    let due = worst(|row| 100.0 * row.due_share);
    outcome.judge(Verdict::at_most("share of pairs sent in a round, most", due, 25.0, "%"));
    let looked = worst(|row| 100.0 * row.looked_share);
    outcome.judge(Verdict::at_most("share of pairs looked at in a round, most", looked, 35.0, "%"));
    for (n, factor) in FACTORS {
        let Some(row) = rows.iter().find(|row| row.workload == "crowd" && row.n == n) else {
            continue;
        };
        let text = format!("crowd of {n}: times faster than the naive way");
        outcome.judge(Verdict::at_least(text, row.factor, factor, "×").reported_only(true));
    }
    for workload in ["crowd", "tiled"] {
        if let Some(exponent) = exponent(rows, workload) {
            let text = format!("{workload}: exponent of the time by the number of players");
            outcome.judge(Verdict::at_most(text, exponent, EXPONENT, "").reported_only(true));
        }
    }
}

fn finish(
    rows: &[ScaleRow],
    compared: &[ThreadsRow],
    micro: Table,
    options: RunOptions,
) -> Result<Done, ExperimentError> {
    let mut outcome = ExperimentResult::new("scale", options.seed);
    rows.iter().try_for_each(|row| outcome.push(row))?;
    let ms = |value: f64| format!("{value:.2}");
    let table = Table::of(rows)
        .left("workload", |row| row.workload.to_owned())
        .right("N", |row| row.n.to_string())
        .right("pairs", |row| format!("{:.0}", row.pairs))
        .right("in view", |row| format!("{:.1}", row.in_view))
        .right("due", |row| format!("{:.1} %", 100.0 * row.due_share))
        .right("looked at", |row| format!("{:.0} %", 100.0 * row.looked_share))
        .right("tick ms", |row| ms(row.tick_ms))
        .right("ack", |row| ms(row.ack_ms))
        .right("write", |row| ms(row.write_ms))
        .right("collect", |row| ms(row.collect_ms))
        .right("index", |row| ms(row.index_ms))
        .right("grade", |row| ms(row.grade_ms))
        .right("due ms", |row| ms(row.due_ms))
        .right("encode", |row| ms(row.encode_ms))
        .right("ns/pair", |row| format!("{:.1}", row.tick_ms * 1e6 / row.pairs))
        .right("naive ms", |row| ms(row.naive_ms))
        .right("naive ns/pair", |row| ms(row.naive_pair_ns))
        .right("factor", |row| format!("{:.1}×", row.factor))
        .right("allocs", |row| format!("{}", row.allocs))
        .right("B/s", |row| format!("{:.0}", row.bytes_per_client_s))
        .right("bits", |row| format!("{:.1}", row.bits_per_update))
        .right("bounds scheduled", |row| format!("{:.2} %", 100.0 * row.bounds_scheduled))
        .caption("One thread, no IO; milliseconds per tick");
    let mut notes = Vec::new();
    let mut plot =
        Plot::lines("Time of a tick").x(Axis::log("players", "")).y(Axis::log("one thread", "ms"));
    judge(&mut outcome, rows);
    for row in compared {
        outcome.push(row)?;
    }
    if let Some(largest) = compared.iter().max_by_key(|row| row.players()) {
        outcome.judge(largest.verdict());
    }
    let report = Report::new("scale", "What a round costs");
    for workload in ["crowd", "tiled"] {
        if let Some(exponent) = exponent(rows, workload) {
            notes.push(format!("{workload}: time grows as N^{exponent:.2}"));
        }
        if rows.iter().all(|row| row.workload != workload) {
            continue;
        }
        let of = |f: fn(&ScaleRow) -> f64| {
            rows.iter().filter(|r| r.workload == workload).map(move |r| (r.n as f64, f(r)))
        };
        plot = plot.series(Series::points(workload, of(|row| row.tick_ms))).series(
            Series::points(format!("{workload}, naive"), of(|row| row.naive_ms)).reference(),
        );
    }
    let mut tables = vec![table, micro];
    if !compared.is_empty() {
        tables.push(threads::table(compared));
    }
    let report = tables.iter().fold(report, |report, table| report.table(table)).plot(plot);
    Ok(Done { outcome, tables, notes, report })
}
