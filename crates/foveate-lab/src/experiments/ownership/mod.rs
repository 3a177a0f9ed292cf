//! `foveate lab ownership`: each object is owned by the player most interested in it, as in the source's evaluation.
//!
//! Ships fly and capture bases that wander; the managed objects are the bases. All bases of a game start with its first
//! player. There are steady games of three sizes, a crash of half the players at once, steady churn, and a partition
//! that heals; and two sweeps, of the view's share of the world, and of density until an uplink is full.

mod describe;
mod load;
mod run;
mod sweep;

pub use load::{PeakRates, PlayerBytes};
pub use run::{
    Crash, GameSpec, Looks, OwnershipChange, ROUND, Second, Size, churn, crash, game, partition,
    steady,
};

use super::{Done, Experiment, ExperimentError, LabRequest, RunOptions, in_parallel};
use crate::output::Progress;
use foveate_wire::Micros;
use serde::Serialize;

/// The source's sizes.
const SIZES: [Size; 3] = [
    Size { players: 16, objects: 72 },
    Size { players: 32, objects: 72 },
    Size { players: 128, objects: 576 },
];
/// The size of the games with failures.
const WRONG: Size = Size { players: 32, objects: 72 };
/// Share of players that leave in a minute of churn.
const CHURN: f64 = 0.1;
/// Bytes of UDP and IP headers around each datagram.
const HEADERS: f64 = 28.0;

/// Durations of the games.
struct Plan {
    sizes: &'static [Size],
    wrong: Size,
    steady: Micros,
    around_crash: Micros,
    churn: Micros,
    partition: Micros,
    seeds: u64,
    partitions: u64,
    sweeps: Vec<(&'static str, GameSpec)>,
    sweep: Micros,
}

impl Plan {
    fn new(options: RunOptions) -> Plan {
        let seconds = |n: u64| Micros(n * 1_000_000);
        if options.quick {
            return Plan {
                sizes: &SIZES[..1],
                wrong: Size { players: 12, objects: 24 },
                steady: seconds(12),
                around_crash: seconds(5),
                churn: seconds(20),
                partition: seconds(5),
                seeds: 1,
                partitions: 1,
                sweeps: sweep::quick(),
                sweep: seconds(4),
            };
        }
        Plan {
            sizes: &SIZES,
            wrong: WRONG,
            steady: seconds(120),
            around_crash: seconds(30),
            churn: seconds(300),
            partition: seconds(30),
            seeds: 10,
            partitions: 3,
            sweeps: sweep::full(),
            sweep: seconds(30),
        }
    }
}

/// One row of the result: one game.
#[derive(Clone, Debug, Serialize)]
pub struct OwnershipRow {
    part: &'static str,
    players: usize,
    objects: usize,
    seed: u64,
    seconds: f64,
    owned_mean: f64,
    owned_max: usize,
    /// The side of the world.
    side: f32,
    /// How far players see.
    view: f32,
    /// The rate of an uplink in bytes per second.
    uplink: u32,
    bytes_s: f64,
    bytes_s_p95: f64,
    /// The largest rates that any one player sent.
    sent: PeakRates,
    /// The largest rates that any one player received.
    received: PeakRates,
    /// What players wanted to send as a share of their uplinks, with headers; the mean.
    uplink_share: f64,
    /// The same in the busiest second.
    uplink_peak: f64,
    dropped: u64,
    packets_s: f64,
    protocol_s: f64,
    delta: f64,
    delta_p95: f64,
    agreeing: f64,
    lacking: f64,
    /// Objects that no player has any more.
    lost: usize,
    /// Whether every object had exactly one owner at the end.
    one_owner: bool,
    settled_s: Option<f64>,
}

/// A game to play.
enum Job {
    Steady(Size),
    Crash(u64),
    Churn,
    Partition(u64),
    Sweep(&'static str, GameSpec),
}

enum RunResult {
    Steady(Size, Box<(Looks, Looks)>),
    Crash(u64, Box<Crash>),
    Change(&'static str, u64, Box<OwnershipChange>),
    Sweep(&'static str, GameSpec, Box<Looks>),
}

fn row(part: &'static str, spec: impl Into<GameSpec>, seed: u64, looks: &Looks) -> OwnershipRow {
    let GameSpec { size, side, view, uplink } = spec.into();
    let whole = looks.bytes.mean() + HEADERS * looks.packets.mean();
    let protocol = looks.line.iter().map(|second| second.protocol_s).sum::<f64>();
    OwnershipRow {
        part,
        players: size.players,
        objects: size.objects,
        seed,
        seconds: looks.line.len() as f64,
        owned_mean: looks.owned.1,
        owned_max: looks.owned.0,
        side,
        view,
        uplink,
        bytes_s: looks.bytes.mean(),
        bytes_s_p95: looks.bytes.quantile(0.95),
        sent: looks.sent.peaks(),
        received: looks.received.peaks(),
        uplink_share: whole / f64::from(uplink),
        uplink_peak: looks.uplink_share,
        dropped: looks.dropped,
        packets_s: looks.packets.mean(),
        protocol_s: protocol / looks.line.len().max(1) as f64,
        delta: looks.delta.mean(),
        delta_p95: looks.delta.quantile(0.95),
        agreeing: looks.share(looks.agreeing),
        lacking: looks.share(looks.lacking),
        lost: 0,
        one_owner: true,
        settled_s: None,
    }
}

pub struct OwnershipExperiment;

impl Experiment for OwnershipExperiment {
    fn name(&self) -> &'static str {
        "ownership"
    }

    fn about(&self) -> &'static str {
        "Objects owned by the peer with the greatest interest: crashes, churn, a partition"
    }

    fn run(&self, request: &LabRequest<'_>) -> Result<Done, ExperimentError> {
        lab(request.options)
    }
}

/// Plays all games.
fn lab(options: RunOptions) -> Result<Done, ExperimentError> {
    let plan = Plan::new(options);
    let mut jobs: Vec<Job> = plan.sizes.iter().rev().map(|size| Job::Steady(*size)).collect();
    jobs.extend(plan.sweeps.iter().map(|(part, spec)| Job::Sweep(part, *spec)));
    jobs.push(Job::Churn);
    jobs.extend((0..plan.partitions).map(|at| Job::Partition(options.seed + at)));
    jobs.extend((0..plan.seeds).map(|at| Job::Crash(options.seed + at)));
    let progress = Progress::new("ownership", jobs.len() as u64);
    let ran = in_parallel(&jobs, |job| {
        let ran = match job {
            Job::Steady(size) => steady(*size, plan.steady, options.seed)
                .map(|looks| RunResult::Steady(*size, Box::new(looks))),
            Job::Crash(seed) => crash(plan.wrong, plan.around_crash, *seed)
                .map(|crash| RunResult::Crash(*seed, Box::new(crash))),
            Job::Churn => churn(plan.wrong, plan.churn, CHURN, options.seed)
                .map(|change| RunResult::Change("churn", options.seed, Box::new(change))),
            Job::Partition(seed) => partition(plan.wrong, plan.partition, *seed)
                .map(|change| RunResult::Change("partition", *seed, Box::new(change))),
            Job::Sweep(part, spec) => steady(*spec, plan.sweep, options.seed)
                .map(|(_, looks)| RunResult::Sweep(part, *spec, Box::new(looks))),
        };
        progress.tick(1);
        ran
    });
    progress.finish();
    let ran: Vec<RunResult> = ran.into_iter().collect::<Result<_, _>>()?;
    describe::done(&ran, plan.wrong, options)
}
