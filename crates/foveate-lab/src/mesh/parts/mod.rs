//! Parts of `foveate lab mesh` beside its runs under faults: what more servers are good for, and what they cost.

pub mod capacity;
pub mod change;
pub mod clients;
pub mod crowd;
pub mod growth;
pub mod hearsay;
pub mod hit;
pub mod places;

use super::faults::FaultSpec;
use super::game::{Drift, DriftSpec};
use super::run::{MeshError, ROUND};
use super::world::{MeshWorld, WorldStart};
use crate::output::{Table, Verdict};
use crate::report::Plot;
use foveate_node::game::Game;
use foveate_node::region::RegionSettings;
use foveate_node::region::layout::{Layout, LayoutError, Rect, RegionId, ServerId, SplitLine};
use foveate_wire::{Metres, Micros};
use std::sync::Arc;

/// How far players see, in all parts.
pub const VIEW: f32 = 16.0;

/// What came of a part.
#[derive(Default)]
pub struct PartResult {
    /// For `--json`.
    pub rows: Vec<serde_json::Value>,
    /// To be printed.
    pub tables: Vec<Table>,
    /// What was aimed at.
    pub verdicts: Vec<Verdict>,
    /// For `--report`.
    pub plots: Vec<Plot>,
}

/// How a part is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PartSpec {
    /// Shorter and smaller.
    pub quick: bool,
    /// RNG seed.
    pub seed: u64,
}

/// A square world cut in halves, and those again, until there are so many regions of equal area. `server` names the
/// server of each.
pub fn even_layout(
    schema: u64,
    half: f32,
    regions: usize,
    server: impl Fn(usize) -> ServerId,
) -> Result<Layout, LayoutError> {
    let mut layout = Layout::new(schema, ROUND, server(0));
    let all = Rect { min: [-half; 2], max: [half; 2] };
    let mut parts = vec![(RegionId(0), all)];
    let mut count = 1;
    while count < regions {
        // The largest is halved across its longer side.
        let area = |rect: &Rect| (rect.max[0] - rect.min[0]) * (rect.max[1] - rect.min[1]);
        parts.sort_by(|a, b| area(&b.1).total_cmp(&area(&a.1)).then(a.0.cmp(&b.0)));
        let (id, rect) = parts.remove(0);
        let axis = usize::from(rect.max[1] - rect.min[1] > rect.max[0] - rect.min[0]);
        let at = f32::midpoint(rect.min[axis], rect.max[axis]);
        let new = layout.split(id, SplitLine { axis: axis as u8, at }, server(count), true)?;
        let (mut low, mut high) = (rect, rect);
        (low.max[axis], high.min[axis]) = (at, at);
        parts.extend([(id, low), (new, high)]);
        count += 1;
    }
    Ok(layout)
}

/// A world with this layout in which nothing goes wrong.
pub fn calm_world(
    drift: DriftSpec,
    faults: FaultSpec,
    (regions, servers): (usize, u32),
    server: impl Fn(usize) -> ServerId,
    seed: u64,
) -> Result<MeshWorld, MeshError> {
    let game = Arc::new(Drift::new(drift)?);
    let half = drift.half + 4.0;
    let extent = Rect { min: [-half; 2], max: [half; 2] };
    let settings = RegionSettings {
        hysteresis: Metres(1.0),
        ..RegionSettings::new(ROUND, Metres(VIEW), extent)
    };
    let layout = even_layout(game.schema().hash(), drift.half, regions, server)?;
    let start = WorldStart { layout, servers, players: 0, seed };
    Ok(MeshWorld::new(game, settings, faults, start))
}

/// One server after the other.
pub fn in_turn(at: usize) -> ServerId {
    ServerId(at as u32 + 1)
}

/// So many seconds.
pub fn seconds(count: u64) -> Micros {
    Micros(count * 1_000_000)
}

/// The exponent of a power law through two points.
pub fn exponent(few: (f64, f64), many: (f64, f64)) -> f64 {
    (many.1 / few.1).ln() / (many.0 / few.0).ln()
}

/// The value that this share of them does not exceed.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = ((values.len() as f64 * share) as usize).min(values.len().saturating_sub(1));
    values.get(at).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests;
