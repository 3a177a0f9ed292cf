//! `foveate lab bounds`: whether the stated bounds are kept, why they are not where they are not, and which pairs wait
//! when the budget is short.
//!
//! Bots move among walls, and all of them observe each other, in four situations: a lossless link and ample budget, a
//! bad link, a narrow link, and a quarter of the bytes that the view demands. The caller provides the world
//! ([`WalledWorld`]), since the lab depends on no game.

mod describe;

use super::{
    Done, Experiment, ExperimentError, LabHost, LabRequest, RunOptions, WalledWorld, in_parallel,
};
use crate::audit::{Bin, Broken, CoherenceSpec, Findings};
use crate::avatar::AvatarSpec;
use crate::movement::{AvatarPose, Movement};
use crate::net::{Latency, LinkSpec, Loss, Rate};
use crate::output::{ExperimentResult, Progress};
use crate::session::{Session, SessionSpec};
use foveate_sync::interest::{Policy, Visibility, Visible, presets};
use foveate_sync::metrics::Area;
use foveate_wire::{Bytes, Metres, Micros};
use serde::Serialize;
use std::sync::Arc;

const ROUND: Micros = Micros(50_000);
const PRECISION: f32 = 1.0 / 64.0;
/// Zones end at these shares of the world's side.
const ZONES: [f32; 2] = [0.2, 0.4];
/// Fields of view in the normal view.
const FIELDS: usize = 3;
/// In the second view, bounds of hidden objects are this many times looser.
const HIDDEN: f32 = 4.0;
const SEEDS: u64 = 10;
const SECONDS: u64 = 60;
/// With a short budget all avatars have to become known first: measuring begins after this many seconds.
const JOINING: u64 = 20;
const QUICK_SEEDS: u64 = 2;
const QUICK_SECONDS: u64 = 15;
/// Bins of distance; zones end at bin boundaries.
const BINS: usize = 11;
/// The width of a bin as a share of the world's side.
const BIN_SHARE: f32 = 2.0 / 15.0;
/// Samples that a bin needs to be judged.
const ENOUGH: u64 = 1_000;
/// A farther bin has at least this share of the nearer one's error and staleness.
const RISES: f64 = 0.95;
/// The short budget, as a share of what the view demands.
const SHARE: f64 = 0.25;
/// Under that budget, no pair that its observer knows waits longer than this many times its θ′.
pub const LONGEST_WAIT: f64 = 400.0;
/// Rounds between two samples of coherence.
const COHERENCE_EVERY: u32 = 10;

/// Width of the bots' avatars, as in the arena: the unit of Inc and Inj.
const AVATAR_WIDTH: f64 = 2.0;
const LATENCY: Micros = Micros(80_000);
const JITTER: Micros = Micros(20_000);
/// Bytes that the narrow link's queue holds: two of the largest packets.
const QUEUE: u64 = 2_400;

/// Movement provided by the caller.
struct ProvidedMovement(Box<dyn Movement>);

impl Movement for ProvidedMovement {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn step(&mut self) -> bool {
        self.0.step()
    }

    fn pose(&self, at: usize) -> Option<AvatarPose> {
        self.0.pose(at)
    }

    fn side(&self) -> f32 {
        self.0.side()
    }

    fn extent(&self) -> f32 {
        self.0.extent()
    }

    fn max_speed(&self) -> f32 {
        self.0.max_speed()
    }
}

/// The situations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// No delay, no loss, no limit.
    Lossless,
    /// 5 % loss in bursts, 80 ± 20 ms each way.
    Lossy,
    /// A rate limit with a short queue, and also reordering and duplicates.
    Narrow,
    /// A quarter of the demanded bytes over a perfect link, which shows the scheduler alone.
    Quarter,
    /// The same over the bad link.
    QuarterLossy,
}

impl Part {
    const ALL: [Part; 5] =
        [Part::Lossless, Part::Lossy, Part::Narrow, Part::Quarter, Part::QuarterLossy];

    fn name(self) -> &'static str {
        match self {
            Part::Lossless => "lossless",
            Part::Lossy => "lossy",
            Part::Narrow => "narrow",
            Part::Quarter => "quarter",
            Part::QuarterLossy => "quarter_lossy",
        }
    }

    fn is_short(self) -> bool {
        matches!(self, Part::Quarter | Part::QuarterLossy)
    }

    /// Links in both directions; `demand` is the view's demand in bytes per second.
    fn link(self, demand: f64) -> LinkSpec {
        let bad = LinkSpec {
            latency: Latency::Normal(LATENCY, JITTER),
            loss: Loss::Bursty { share: 0.05, burst: 3.0 },
            ..LinkSpec::PERFECT
        };
        match self {
            Part::Lossless | Part::Quarter => LinkSpec::PERFECT,
            Part::Lossy | Part::QuarterLossy => bad,
            Part::Narrow => LinkSpec {
                rate: Some(Rate { bytes_per_second: 4.0 * demand, queue: QUEUE }),
                reorder: 0.05,
                duplicate: 0.05,
                ..bad
            },
        }
    }
}

/// The two views.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sees {
    /// VFC's normal view.
    Normal,
    /// The same, looser for objects behind walls.
    Visible,
}

impl Sees {
    const ALL: [Sees; 2] = [Sees::Normal, Sees::Visible];

    fn name(self) -> &'static str {
        match self {
            Sees::Normal => "normal",
            Sees::Visible => "visible",
        }
    }

    fn policy(
        self,
        side: f32,
        sight: Arc<dyn Visibility>,
    ) -> Result<Arc<dyn Policy>, ExperimentError> {
        let inner = presets::normal(ZONES[0] * side, ZONES[1] * side).build()?;
        Ok(match self {
            Sees::Normal => inner,
            Sees::Visible => {
                let always = Metres(0.0);
                Arc::new(Visible { inner, provider: sight, hidden: HIDDEN, always })
            }
        })
    }
}

/// Results of one view over all seeds, by part.
struct Measured {
    sees: Sees,
    side: f32,
    parts: Vec<(Part, Findings)>,
}

impl Measured {
    fn part(&self, part: Part) -> Option<&Findings> {
        self.parts.iter().find(|(found, _)| *found == part).map(|(_, findings)| findings)
    }
}

/// One row of the result: one part of the experiment.
#[derive(Clone, Debug, Serialize)]
struct Row {
    part: &'static str,
    view: &'static str,
    bounds_scheduled: f64,
    bounds_audited: f64,
    bounds_observed: f64,
    violations_latency: u64,
    violations_loss: u64,
    violations_budget: u64,
    samples: u64,
    bytes_per_client_s: f64,
    updates_per_client_s: f64,
    full_per_client_s: f64,
    longest_wait_theta: f64,
    longest_wait_theta_accrued: f64,
    longest_wait_theta_observed: f64,
    wait_theta_p50: f64,
    wait_theta_p99: f64,
    longest_first_wait_s: f64,
    refused_malformed: u64,
    err_deg_p50: f64,
    err_deg_p95: f64,
    coherence_delta: f64,
    coherence_delta_p95: f64,
    lacking_share: f64,
    inc: f64,
    inc_share: f64,
    inc_noticeable_share: f64,
    inj: f64,
}

/// Violations of one bound in one zone and field.
#[derive(Clone, Debug, Serialize)]
struct ViolationRow {
    part: &'static str,
    view: &'static str,
    zone: usize,
    field: usize,
    bound: &'static str,
    violations_latency: u64,
    violations_loss: u64,
    violations_budget: u64,
}

/// One bin of distance.
#[derive(Clone, Debug, Serialize)]
struct BinRow {
    part: &'static str,
    view: &'static str,
    distance_from: f32,
    distance_to: f32,
    samples: u64,
    mean_error: f64,
    mean_error_deg: f64,
    mean_staleness_s: f64,
    mean_wait_s: f64,
    mean_theta_s: f64,
    differing_share: f64,
    missing: u64,
    ratio_to_nearer: Option<f64>,
    staleness_ratio_to_nearer: Option<f64>,
}

fn row(part: Part, sees: Sees, found: &Findings) -> Row {
    let coherence = &found.coherence;
    let seconds = found.observer_rounds.max(1) as f64 * ROUND.as_secs();
    Row {
        part: part.name(),
        view: sees.name(),
        bounds_scheduled: found.counters.bounds_scheduled(),
        bounds_audited: found.bounds_audited(),
        bounds_observed: found.bounds_observed(),
        violations_latency: found.causes.latency,
        violations_loss: found.causes.loss,
        violations_budget: found.causes.budget,
        samples: found.samples,
        bytes_per_client_s: found.bytes_per_second(ROUND),
        updates_per_client_s: found.counters.updates as f64 / seconds,
        full_per_client_s: found.counters.full as f64 / seconds,
        longest_wait_theta: found.longest_sender_wait,
        longest_wait_theta_accrued: found.longest_accrued,
        longest_wait_theta_observed: found.longest_wait,
        wait_theta_p50: found.sender_waits.quantile(0.5),
        wait_theta_p99: found.sender_waits.quantile(0.99),
        longest_first_wait_s: found.longest_first_wait.as_secs(),
        refused_malformed: found.malformed,
        err_deg_p50: found.degrees.quantile(0.5),
        err_deg_p95: found.degrees.quantile(0.95),
        coherence_delta: coherence.delta.mean(),
        coherence_delta_p95: coherence.delta.quantile(0.95),
        lacking_share: coherence.lacking as f64 / coherence.in_view.max(1) as f64,
        inc: coherence.mean_inc(),
        inc_share: coherence.inc.share(),
        inc_noticeable_share: coherence.noticeable.share(),
        inj: coherence.mean_inj(),
    }
}

fn violation_rows(part: Part, sees: Sees, found: &Findings) -> Vec<ViolationRow> {
    let mut rows = Vec::new();
    for (class, bounds) in found.violations.iter().enumerate() {
        for broken in Broken::ALL {
            let causes = bounds[broken as usize];
            if causes.total() > 0 {
                rows.push(ViolationRow {
                    part: part.name(),
                    view: sees.name(),
                    zone: class / FIELDS + 1,
                    field: class % FIELDS + 1,
                    bound: broken.name(),
                    violations_latency: causes.latency,
                    violations_loss: causes.loss,
                    violations_budget: causes.budget,
                });
            }
        }
    }
    rows
}

/// The bins with enough samples, each compared with the one before it.
fn bin_rows(part: Part, sees: Sees, side: f32, bins: &[Bin]) -> Vec<BinRow> {
    let width = BIN_SHARE * side;
    let mut rows: Vec<BinRow> = Vec::new();
    for (at, bin) in bins.iter().enumerate().filter(|(_, bin)| bin.error.count() >= ENOUGH) {
        let (error, staleness) = (bin.error.mean(), bin.staleness.mean());
        let nearer = rows.last();
        rows.push(BinRow {
            part: part.name(),
            view: sees.name(),
            distance_from: at as f32 * width,
            distance_to: (at + 1) as f32 * width,
            samples: bin.error.count(),
            mean_error: error,
            mean_error_deg: bin.degrees.mean(),
            mean_staleness_s: staleness,
            mean_wait_s: bin.waiting.mean(),
            mean_theta_s: bin.bound.mean(),
            differing_share: bin.differing as f64 / bin.error.count() as f64,
            missing: bin.missing,
            ratio_to_nearer: nearer.map(|nearer| error / nearer.mean_error),
            staleness_ratio_to_nearer: nearer.map(|nearer| staleness / nearer.mean_staleness_s),
        });
    }
    rows
}

fn rounds(seconds: u64) -> u64 {
    seconds * 1_000_000 / ROUND.0
}

/// One run.
struct Case {
    sees: Sees,
    part: Part,
    seed: u64,
    seconds: u64,
    /// Bytes per observer and round that the view demands; set for all parts but the first.
    demand: f64,
}

fn run(world: WalledWorld, case: &Case, progress: &Progress) -> Result<Findings, ExperimentError> {
    let WalledWorld { movement, sight } = world;
    let (movement, link) =
        (ProvidedMovement(movement), case.part.link(case.demand / ROUND.as_secs()));
    let side = movement.side();
    let avatar = AvatarSpec::of(&movement, PRECISION);
    let short = case.part.is_short();
    let spec = SessionSpec {
        round: ROUND,
        policy: case.sees.policy(side, sight)?,
        down: link,
        // Only the direction from the server is limited: acknowledgements always have room.
        up: LinkSpec { rate: None, ..link },
        budget: short.then(|| Bytes((SHARE * case.demand).round().max(1.0) as u32)),
        avatar,
        seed: case.seed,
        audited: true,
    };
    let latency = if link.latency == LinkSpec::PERFECT.latency { Micros::ZERO } else { LATENCY };
    let [interaction, view] = ZONES.map(|share| f64::from(share * side));
    let coherence = CoherenceSpec {
        every: COHERENCE_EVERY,
        area: Area { interaction, view },
        width: AVATAR_WIDTH,
        latency,
    };
    let mut session = Session::new(movement, spec)?
        .binned(Metres(BIN_SHARE * side), BINS)
        .with_coherence(coherence);
    let joining = if short { rounds(JOINING) } else { 0 };
    for round in 0..joining + rounds(case.seconds) {
        if round == joining && short {
            session.begin_findings();
        }
        if !session.round()? {
            break;
        }
        progress.tick(1);
    }
    Ok(session.findings())
}

/// All parts of one view in one seed's world.
fn seed_run(
    host: &dyn LabHost,
    sees: Sees,
    seed: u64,
    seconds: u64,
    progress: &Progress,
) -> Result<Vec<Findings>, ExperimentError> {
    let mut demand = 0.0;
    let mut all = Vec::new();
    for part in Part::ALL {
        let case = Case { sees, part, seed, seconds, demand };
        let found = run(host.walled_world(seed), &case, progress)?;
        if part == Part::Lossless {
            demand = found.bytes_per_round();
        }
        all.push(found);
    }
    Ok(all)
}

pub struct BoundsExperiment;

impl Experiment for BoundsExperiment {
    fn name(&self) -> &'static str {
        "bounds"
    }

    fn about(&self) -> &'static str {
        "Bounds kept on good, bad and narrow links, and what gives way on a quarter of the budget"
    }

    fn run(&self, request: &LabRequest<'_>) -> Result<Done, ExperimentError> {
        lab(request.host, request.options)
    }
}

fn lab(host: &dyn LabHost, options: RunOptions) -> Result<Done, ExperimentError> {
    let (seeds, seconds) =
        if options.quick { (QUICK_SEEDS, QUICK_SECONDS) } else { (SEEDS, SECONDS) };
    let seed = |n: u64| options.seed.wrapping_mul(1_000).wrapping_add(n);
    let jobs: Vec<(Sees, u64)> =
        Sees::ALL.iter().flat_map(|sees| (0..seeds).map(move |n| (*sees, seed(n)))).collect();
    let short = Part::ALL.iter().filter(|part| part.is_short()).count() as u64;
    let each = rounds(seconds) * Part::ALL.len() as u64 + rounds(JOINING) * short;
    let progress = Progress::new("bounds", each * jobs.len() as u64);
    let runs = in_parallel(&jobs, |(sees, seed)| seed_run(host, *sees, *seed, seconds, &progress));
    progress.finish();
    let runs = runs.into_iter().collect::<Result<Vec<_>, _>>()?;
    let side = host.walled_world(seed(0)).movement.side();
    let measured: Vec<Measured> = Sees::ALL
        .iter()
        .zip(runs.chunks(seeds as usize))
        .map(|(sees, runs)| merge(*sees, side, runs))
        .collect();
    let mut outcome = ExperimentResult::new("bounds", options.seed);
    for view in &measured {
        for (part, found) in &view.parts {
            outcome.push(row(*part, view.sees, found))?;
            for row in violation_rows(*part, view.sees, found) {
                outcome.push(row)?;
            }
            for row in part
                .is_short()
                .then(|| bin_rows(*part, view.sees, side, &found.by_distance))
                .into_iter()
                .flatten()
            {
                outcome.push(row)?;
            }
        }
    }
    describe::judge(&mut outcome, &measured, options);
    Ok(describe::done(outcome, &measured, seeds, seconds))
}

fn merge(sees: Sees, side: f32, runs: &[Vec<Findings>]) -> Measured {
    let of_part = |(at, part): (usize, &Part)| {
        let mut all = Findings::default();
        runs.iter().for_each(|run| all.merge(&run[at]));
        (*part, all)
    };
    Measured { sees, side, parts: Part::ALL.iter().enumerate().map(of_part).collect() }
}
