//! Servers at two sites: whether neighbouring regions come to be run at one.

use super::{PartResult, PartSpec, VIEW, calm_world, seconds};
use crate::experiments::in_parallel;
use crate::mesh::check::layout;
use crate::mesh::cost::CostModel;
use crate::mesh::faults::FaultSpec;
use crate::mesh::game::DriftSpec;
use crate::mesh::run::MeshError;
use crate::mesh::world::MeshWorld;
use crate::output::{Align, Table, Verdict};
use crate::report::{Axis, Plot, Series};
use foveate_node::region::layout::{Rect, ServerId};
use foveate_wire::Micros;

/// One way between the sites.
const APART: Micros = Micros(40_000);
/// So light that load moves nothing.
const MODEL: CostModel = CostModel { step: 10.0, relayed: 0.0, pair: 0.0, byte: 0.0 };

/// The mean round trip across borders that regions share, in milliseconds.
fn border_rtt(world: &MeshWorld) -> f64 {
    let Some(layout) = layout(world.ledger()) else { return f64::NAN };
    let leaves: Vec<_> = layout.leaves().collect();
    let (mut sum, mut count) = (0.0, 0);
    for (at, (a, rect)) in leaves.iter().enumerate() {
        // Not those that meet in a corner: hardly a byte goes that way.
        let shares = |other: &Rect| {
            let overlap = |axis: usize| {
                other.max[axis].min(rect.max[axis]) - other.min[axis].max(rect.min[axis])
            };
            other.gap(rect) <= 0.0 && (overlap(0) > 0.0 || overlap(1) > 0.0)
        };
        for (b, _) in leaves[at + 1..].iter().filter(|(_, other)| shares(other)) {
            let (Some(a), Some(b)) = (layout.get(*a), layout.get(*b)) else { continue };
            count += 1;
            sum += world.round_trip(a.server, b.server).as_secs() * 1e3;
        }
    }
    sum / f64::from(count.max(1))
}

/// One world's course.
struct Settled {
    /// Time, and the mean round trip across borders.
    course: Vec<(f64, f64)>,
    swaps: u64,
    findings: u64,
}

fn settle(spec: PartSpec, seed: u64) -> Result<Settled, MeshError> {
    let servers = if spec.quick { 8 } else { 16 };
    let drift = DriftSpec {
        half: 2.0 * VIEW * (servers as f32).sqrt(),
        walkers: 16 * servers,
        crates: 0,
        items: 0,
        pace: 0.6,
        crowd: 0,
        seed,
    };
    // Regions are given to servers at random: odd and even ones are at different sites.
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut order: Vec<u32> = (1..=servers).collect();
    rng.shuffle(&mut order[1..]);
    let place = |at: usize| ServerId(order[at]);
    let faults = FaultSpec { delay: (Micros(500), Micros(2_000)), ..FaultSpec::NONE };
    let mut world = calm_world(drift, faults, (servers as usize, servers), place, seed)?;
    (world.apart, world.cost) = (APART, Some(MODEL));
    let mut course = Vec::new();
    let minutes = if spec.quick { 3 } else { 6 };
    for at in 0..=minutes * 6 {
        world.run_until(seconds(5 + 10 * at));
        course.push((10.0 * at as f64, border_rtt(&world)));
    }
    let swaps = world.servers().map(|it| it.counts().swapped).sum();
    let result = crate::mesh::run::finish(world);
    Ok(Settled { course, swaps, findings: result.findings.len() as u64 })
}

/// The part.
pub fn run(spec: PartSpec) -> Result<PartResult, MeshError> {
    let seeds: Vec<u64> =
        (0..if spec.quick { 1 } else { 4 }).map(|at| spec.seed * 97 + at).collect();
    let found = in_parallel(&seeds, |seed| settle(spec, *seed));
    let found: Vec<_> = found.into_iter().collect::<Result<_, _>>()?;
    let mut part = PartResult::default();
    let mut table = Table::new([
        ("world", Align::Right),
        ("placed at random, ms", Align::Right),
        ("in the end, ms", Align::Right),
        ("share", Align::Right),
        ("swaps", Align::Right),
    ])
    .caption("Mean round trip across borders, servers at two sites 80 ms apart");
    let (mut before, mut after, mut wrong) = (0.0, 0.0, 0);
    let mut plot = Plot::lines("Mean round trip across borders")
        .x(Axis::linear("time", "s"))
        .y(Axis::linear("round trip", "ms").from_zero());
    for (at, Settled { course, swaps, findings }) in found.iter().enumerate() {
        let (first, last) = (course[0].1, course[course.len() - 1].1);
        (before, after, wrong) = (before + first, after + last, wrong + findings);
        table.row([
            at.to_string(),
            format!("{first:.1}"),
            format!("{last:.1}"),
            format!("{:.2}", last / first),
            swaps.to_string(),
        ]);
        part.rows.push(serde_json::json!({
            "part": "places", "world": at, "random_ms": first, "settled_ms": last, "swaps": swaps,
        }));
        plot = plot.series(Series::points(format!("world {at}"), course.iter().copied()));
    }
    part.tables.push(table);
    part.plots.push(plot);
    part.verdicts.extend([
        Verdict::at_most(
            "round trip across borders, of random placement",
            after / before,
            0.5,
            "×",
        )
        .reported_only(spec.quick),
        Verdict::at_most("findings while servers change places", wrong as f64, 0.0, ""),
    ]);
    Ok(part)
}
