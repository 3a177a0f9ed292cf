//! How long a hit across a border takes: from the tick in which a rule asks it to the tick in which its target's rule
//! has carried it out.

use super::{PartResult, PartSpec, calm_world, in_turn, quantile, seconds};
use crate::mesh::faults::FaultSpec;
use crate::mesh::game::{CRATE, Crate, Drift, DriftSpec};
use crate::mesh::run::{MeshError, ROUND};
use crate::output::{Align, Table, Verdict};
use foveate_node::game::Game;
use foveate_node::region::layout::RegionId;
use foveate_wire::{Micros, ObjectId, Replicate};
use std::collections::BTreeMap;

/// The part.
pub fn run(spec: PartSpec) -> Result<PartResult, MeshError> {
    let drift = DriftSpec {
        half: 60.0,
        walkers: 2,
        crates: if spec.quick { 40 } else { 120 },
        items: 0,
        pace: 0.6,
        crowd: 0,
        seed: spec.seed,
    };
    let mut world = calm_world(drift, FaultSpec::NONE, (4, 4), in_turn, spec.seed)?;
    let mut part = PartResult::default();
    // By target and number: when it was asked, and whether across a border.
    let mut asked: BTreeMap<(ObjectId, u16), (u32, bool)> = BTreeMap::new();
    let mut last: BTreeMap<ObjectId, (u16, u16)> = BTreeMap::new();
    let mut ticks: [Vec<f64>; 2] = Default::default();
    world.run_until(seconds(5));
    let rounds = if spec.quick { 400 } else { 2_400 };
    for _ in 0..rounds {
        world.run_until(world.now() + ROUND);
        let mut crates: BTreeMap<ObjectId, (RegionId, u32, Crate)> = BTreeMap::new();
        for region in world.servers().flat_map(|it| it.regions()) {
            for (id, row) in region.owned().filter(|(id, _)| id.kind() == CRATE) {
                let kind = world.game.schema().kind(CRATE);
                if let Some((kind, state)) = kind.zip(region.state(id)) {
                    crates.insert(id, (region.id, row.stepped, Crate::get(kind, &state.lanes)));
                }
            }
        }
        for (id, (region, tick, it)) in &crates {
            let before = last.insert(*id, (it.sent, it.got));
            let Some((sent, got)) = before else { continue };
            let partner = Drift::partner(*id);
            let across = crates.get(&partner).is_some_and(|it| it.0 != *region);
            for number in sent..it.sent {
                asked.insert((partner, number), (*tick, across));
            }
            for number in got..it.got {
                if let Some((since, across)) = asked.remove(&(*id, number)) {
                    ticks[usize::from(across)].push(f64::from(tick.saturating_sub(since)));
                }
            }
        }
    }
    let mut table = Table::new([
        ("target", Align::Left),
        ("hits", Align::Right),
        ("median ms", Align::Right),
        ("p95 ms", Align::Right),
    ])
    .caption("From a hit to its effect; 2 to 25 ms each way, also to the ledger");
    let mut p95 = f64::NAN;
    for (name, ticks) in ["in the same region", "across a border"].iter().zip(&mut ticks) {
        let ms = |ticks: f64| ticks * Micros(ROUND.0).as_secs() * 1e3;
        let (median, late) = (ms(quantile(ticks, 0.5)), ms(quantile(ticks, 0.95)));
        p95 = late;
        table.row([
            (*name).to_owned(),
            ticks.len().to_string(),
            format!("{median:.0}"),
            format!("{late:.0}"),
        ]);
        part.rows.push(serde_json::json!({
            "part": "hit", "target": name, "hits": ticks.len(), "median_ms": median, "p95_ms": late,
        }));
    }
    part.tables.push(table);
    part.verdicts.push(Verdict::at_most("a hit across a border, p95", p95, 250.0, "ms"));
    Ok(part)
}
