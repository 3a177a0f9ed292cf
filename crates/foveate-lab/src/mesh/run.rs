//! One run: a world that begins, is troubled, and settles.

use super::check::{Checker, FindingKind, MeshFinding};
use super::faults::FaultSpec;
use super::game::{Drift, DriftSpec};
use super::world::{MeshCounts, MeshWorld};
use foveate_node::game::Game;
use foveate_node::region::RegionSettings;
use foveate_node::region::layout::{Layout, LayoutError, Rect, RegionId, ServerId};
use foveate_wire::{Metres, Micros, SchemaError};
use std::sync::Arc;
use thiserror::Error;

/// A round.
pub const ROUND: Micros = Micros(50_000);
/// How long a world is left alone in the end. A region that lost owner and standby is taken after 15 s.
const SETTLE: Micros = Micros(30_000_000);

/// What is run.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeshSpec {
    /// Servers.
    pub servers: u32,
    /// Regions.
    pub regions: u32,
    /// Objects.
    pub drift: DriftSpec,
    /// What goes wrong.
    pub faults: FaultSpec,
    /// For how long.
    pub time: Micros,
    /// RNG seed.
    pub seed: u64,
}

impl MeshSpec {
    /// A small world in which much crosses borders.
    pub fn small(faults: FaultSpec, time: Micros, seed: u64) -> MeshSpec {
        let drift = DriftSpec { half: 40.0, walkers: 24, crates: 12, items: 6, pace: 1.2, seed };
        MeshSpec { servers: 5, regions: 4, drift, faults, time, seed }
    }
}

/// A run that could not be made.
#[derive(Debug, Error)]
pub enum MeshError {
    /// The game does not fit a schema.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The world cannot be cut like this.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct MeshResult {
    /// What was counted.
    pub counts: MeshCounts,
    /// What must not have happened.
    pub findings: Vec<MeshFinding>,
    /// How many of those.
    pub found: u64,
    /// Turns that were looked at.
    pub looked: u64,
    /// Kept objects in the end.
    pub kept: usize,
    /// Pings that were sent and not got.
    pub pings_lost: u64,
    /// How long regions had no owner after a crash.
    pub takeovers: Vec<Micros>,
    /// Virtual time.
    pub time: Micros,
    /// A hash of all that was said and appended.
    pub digest: u64,
}

impl MeshResult {
    /// Findings of a kind that were kept.
    pub fn found(&self, kind: FindingKind) -> u64 {
        self.findings.iter().filter(|it| it.kind == kind).count() as u64
    }
}

/// A layout of so many regions, cut at random, run by the servers in turn.
pub fn random_layout(spec: &MeshSpec, schema: u64) -> Result<Layout, LayoutError> {
    let mut rng = fastrand::Rng::with_seed(spec.seed ^ 0x1a70);
    let mut layout = Layout::new(schema, ROUND, ServerId(1));
    let half = spec.drift.half;
    while layout.regions().count() < spec.regions as usize {
        let at = [0, 1].map(|_| (rng.f32() * 1.4 - 0.7) * half);
        let region: RegionId = layout.region_at(at);
        let axis = rng.u8(..2);
        let server = 1 + layout.regions().count() as u32 % spec.servers;
        layout.split(region, (axis, at[usize::from(axis)]), ServerId(server), true)?;
    }
    Ok(layout)
}

/// Begins a world.
pub fn begin(spec: &MeshSpec) -> Result<MeshWorld, MeshError> {
    let game = Arc::new(Drift::new(spec.drift)?);
    let half = spec.drift.half + 4.0;
    let extent = Rect { min: [-half; 2], max: [half; 2] };
    let settings = RegionSettings {
        hysteresis: Metres(1.0),
        ..RegionSettings::new(ROUND, Metres(16.0), extent)
    };
    let layout = random_layout(spec, game.schema().hash())?;
    Ok(MeshWorld::new(game, settings, spec.faults, (layout, spec.servers), spec.seed))
}

/// Runs it.
pub fn run(spec: &MeshSpec) -> Result<MeshResult, MeshError> {
    let mut world = begin(spec)?;
    world.run_until(spec.time);
    world.calm();
    world.run_until(spec.time + SETTLE);
    Ok(finish(world))
}

/// Looks at everything in the end, for two seconds.
pub fn finish(mut world: MeshWorld) -> MeshResult {
    let empty = Checker::new(Arc::clone(&world.game));
    let mut lost = world.settle();
    for _ in 0..20 {
        world.run_until(world.now() + ROUND * 2);
        let unowned = world.settle();
        lost.retain(|id| unowned.contains(id));
    }
    let mut checker = std::mem::replace(&mut world.checker, empty);
    checker.lose(&lost, world.now());
    MeshResult {
        digest: world.digest(),
        found: checker.count,
        looked: checker.looked,
        kept: checker.kept(),
        pings_lost: checker.pings_lost(),
        takeovers: checker.takeovers,
        findings: checker.findings,
        time: world.now(),
        counts: world.counts,
    }
}

#[cfg(test)]
mod tests;
