//! One run: a world that begins, is troubled, and settles.

use super::check::{FindingKind, MeshChecker, MeshFinding};
use super::cost::CostModel;
use super::faults::{FaultSpec, MAX_FAVOURED, StepFault};
use super::game::{Drift, DriftSpec, WALKER};
use super::world::ghosts::LOOK_EVERY;
use super::world::{MeshCounts, MeshWorld, WorldStart};
use foveate_node::Simulation;
use foveate_node::game::Game;
use foveate_node::region::RegionSettings;
use foveate_node::region::layout::{Layout, LayoutError, Rect, RegionId, ServerId, SplitLine};
use foveate_node::region::ledger::Subject;
use foveate_node::region::log::{LogEntry, read_batch};
use foveate_sync::Rounds;
use foveate_wire::{Metres, Micros, ObjectId, SchemaError, Tick};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// A round.
pub const ROUND: Micros = Micros(50_000);
/// How long a world is left alone in the end. A region that lost owner and standby is taken after 15 s.
const SETTLE: Micros = Micros(30_000_000);
/// How long after the last fault players may see what is not there any more.
const CALM_AFTER: Micros = Micros(15_000_000);

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
    /// What rounds cost; none: servers are not told, and balance nothing.
    pub cost: Option<CostModel>,
    /// Players with sessions.
    pub players: u32,
    /// For how long.
    pub time: Micros,
    /// RNG seed.
    pub seed: u64,
    /// Faults that come first.
    pub favoured: [Option<StepFault>; MAX_FAVOURED],
}

impl MeshSpec {
    /// A small world in which much crosses borders.
    pub fn small(faults: FaultSpec, time: Micros, seed: u64) -> MeshSpec {
        let drift =
            DriftSpec { half: 40.0, walkers: 24, crates: 12, items: 6, pace: 1.2, crowd: 0, seed };
        let cost = (faults.layout_every > Micros::ZERO).then_some(CostModel::HEAVY);
        let favoured = [None; MAX_FAVOURED];
        MeshSpec { servers: 5, regions: 4, drift, faults, cost, players: 0, time, seed, favoured }
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
    /// The game's view cannot be built.
    #[error("the game's view cannot be built")]
    NoView,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct MeshResult {
    /// What was counted.
    pub counts: MeshCounts,
    /// What must not have happened.
    pub findings: Vec<MeshFinding>,
    /// How many of each kind.
    pub tally: BTreeMap<FindingKind, u64>,
    /// Turns that were looked at.
    pub looked: u64,
    /// Kept objects in the end.
    pub kept: usize,
    /// Pings that were sent and not got.
    pub pings_lost: u64,
    /// How long regions had no owner after a crash.
    pub takeovers: Vec<Micros>,
    /// How long regions had no owner after a standby had noticed the crash.
    pub successions: Vec<Micros>,
    /// How long players could not play after their host crashed, since that was noticed.
    pub silences: Vec<Micros>,
    /// Walkers that are not where they would be on one server; a crash may move some.
    pub differing: u64,
    /// Replicas near players that were looked at, and how many were right: inside, and at borders.
    pub right: [[u64; 2]; 2],
    /// Virtual time.
    pub time: Micros,
    /// The world's RNG seed.
    pub seed: u64,
    /// Faults that came first.
    pub favoured: [Option<StepFault>; MAX_FAVOURED],
    /// A hash of all that was said and appended.
    pub digest: u64,
}

impl MeshResult {
    /// How many findings of a kind there were.
    pub fn found(&self, kind: FindingKind) -> u64 {
        self.tally.get(&kind).copied().unwrap_or(0)
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
        layout.split(
            region,
            SplitLine { axis, at: at[usize::from(axis)] },
            ServerId(server),
            true,
        )?;
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
        // So that a snapshot has several parts.
        snapshot_part: 6,
        ..RegionSettings::new(ROUND, Metres(16.0), extent)
    };
    let layout = random_layout(spec, game.schema().hash())?;
    let MeshSpec { servers, players, seed, .. } = *spec;
    let start = WorldStart { layout, servers, players, seed };
    let mut world = MeshWorld::new(game, settings, spec.faults, start);
    world.cost = spec.cost;
    world.favoured = spec.favoured;
    Ok(world)
}

/// Runs it.
pub fn run(spec: &MeshSpec) -> Result<MeshResult, MeshError> {
    let mut world = begin(spec)?;
    let quiet = spec.faults.trouble_every == Micros::ZERO;
    run_and_look(&mut world, spec.time, quiet);
    world.calm();
    world.run_until(spec.time + CALM_AFTER);
    run_and_look(&mut world, spec.time + SETTLE, true);
    Ok(MeshResult { seed: spec.seed, favoured: spec.favoured, ..finish(world) })
}

/// Runs a world until a time. `looks`: nothing goes wrong meanwhile, and players must not see what is not there.
fn run_and_look(world: &mut MeshWorld, until: Micros, looks: bool) {
    while world.now() < until {
        world.run_until((world.now() + LOOK_EVERY).min(until));
        if looks {
            world.look_for_ghosts();
        }
    }
}

/// Looks at everything in the end, for two seconds.
pub fn finish(mut world: MeshWorld) -> MeshResult {
    let empty = MeshChecker::new(Arc::clone(&world.game));
    let mut lost = world.settle();
    for _ in 0..20 {
        world.run_until(world.now() + ROUND * 2);
        world.compare_clients();
        world.look_for_belongings();
        let unowned = world.settle();
        lost.retain(|id| unowned.contains(id));
    }
    world.judge_clients();
    let mut checker = std::mem::replace(&mut world.checker, empty);
    checker.lose(&lost, world.now());
    let mut counts = world.counts.clone();
    world.servers().for_each(|server| counts.note(server));
    MeshResult {
        digest: world.digest(),
        tally: checker.tally.clone(),
        differing: differing(&world),
        looked: checker.looked,
        kept: checker.kept(),
        pings_lost: checker.pings_lost(),
        takeovers: checker.takeovers,
        successions: checker.successions,
        silences: std::mem::take(&mut world.clients.silences),
        findings: checker.findings,
        right: world.clients.right,
        time: world.now(),
        seed: 0,
        favoured: [None; MAX_FAVOURED],
        counts,
    }
}

/// Walkers that are not where a run on one server would have brought them: their rule reads no other object, so
/// that the same number of turns from the same beginning leads to the same state, to the last bit.
fn differing(world: &MeshWorld) -> u64 {
    let (mut begun, ledger) = (BTreeMap::new(), world.ledger());
    let logs = ledger.subjects().filter(|it| matches!(it, Subject::Log(_)));
    for (_, bytes) in logs.filter_map(|log| ledger.history(log).next()) {
        let Ok((_, batch)) = read_batch(bytes) else { continue };
        for entry in batch.entries {
            if let LogEntry::Checkpoint { object, state: Some(state), .. } = entry {
                begun.insert(ObjectId(object), state);
            }
        }
    }
    let mut differing = 0;
    for region in world.servers().flat_map(|server| server.regions()) {
        for (id, row) in region.owned().filter(|(id, _)| id.kind() == WALKER) {
            let (Some(first), Some(now)) = (begun.get(&id), region.state(id)) else { continue };
            let mut alone = Simulation::new(Arc::clone(&world.game), Rounds::every(ROUND));
            let restored = alone.restore(id, &first.lanes);
            (first.tick + 1..=row.stepped).for_each(|tick| alone.step_one(Tick(tick), id));
            let lanes = restored.ok().map(|slot| alone.publisher.store.lanes(slot));
            differing += u64::from(lanes != Some(&now.lanes[..]));
        }
    }
    differing
}

#[cfg(test)]
mod tests;
