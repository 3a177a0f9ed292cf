//! Servers that come, go and die while load is balanced, without faults and under all of them.

use super::{PartResult, PartSpec, calm_world, in_turn, seconds};
use crate::experiments::in_parallel;
use crate::mesh::check::layout;
use crate::mesh::cost::CostModel;
use crate::mesh::faults::FaultSpec;
use crate::mesh::game::DriftSpec;
use crate::mesh::run::{MeshError, MeshSpec, finish};
use crate::mesh::world::MeshWorld;
use crate::output::{Align, Table, Verdict};
use crate::report::{Axis, Plot, Series};
use foveate_node::region::RegionCommand;
use foveate_wire::Micros;

/// What one world went through.
struct Course {
    /// Time, and the load of the busiest server, in per cent.
    busiest: Vec<(f64, f64)>,
    /// Seconds until the busiest server is below full load after three joined.
    relieved: Option<f64>,
    /// Seconds until a server that was drained had left.
    drained: Option<f64>,
    /// Cuts moved, newcomers, regions merged, servers that changed places.
    balanced: [u64; 4],
    /// Cuts that were moved in the last minute, when nothing changes any more.
    restless: u64,
    handoffs: u64,
    late: usize,
    findings: u64,
}

fn busiest(world: &MeshWorld) -> f64 {
    let loads = world.servers().map(|it| f64::from(it.load().unwrap_or(0.0)));
    100.0 * loads.fold(0.0, f64::max)
}

fn moved(world: &MeshWorld) -> u64 {
    world.servers().map(|it| it.counts().moved).sum()
}

/// One server has all; three more come after 20 s; one is drained after 140 s.
fn live(spec: PartSpec) -> Result<Course, MeshError> {
    let drift = DriftSpec {
        half: 60.0,
        walkers: 80,
        crates: 8,
        items: 4,
        pace: 0.2,
        crowd: 24,
        seed: spec.seed,
    };
    let faults = FaultSpec::NONE;
    let mut world = calm_world(drift, faults, (1, 1), in_turn, spec.seed)?;
    world.cost = Some(CostModel { step: 1_300.0, relayed: 20.0, pair: 2.0, byte: 0.1 });
    let mut course = Vec::new();
    let mut watch = |world: &mut MeshWorld, until: u64, done: &dyn Fn(&MeshWorld) -> bool| {
        let since = world.now();
        let mut found = None;
        while world.now() < seconds(until) {
            world.run_until(world.now() + Micros(500_000));
            course.push((world.now().as_secs(), busiest(world)));
            if found.is_none() && done(world) {
                found = Some((world.now() - since).as_secs());
            }
        }
        found
    };
    watch(&mut world, 20, &|_| false);
    (0..3).for_each(|_| world.join());
    let relieved = watch(&mut world, 80, &|world| {
        layout(world.ledger()).is_some_and(|it| it.leaves().count() == 4) && busiest(world) < 100.0
    });
    let before = moved(&world);
    watch(&mut world, 140, &|_| false);
    let restless = moved(&world) - before;
    let leaver = foveate_node::region::layout::ServerId(2);
    world.command(leaver, RegionCommand::Drain);
    let drained = watch(&mut world, 180, &|world| world.counts.drained > 0);
    let result = finish(world);
    Ok(Course {
        busiest: course,
        relieved,
        drained,
        balanced: result.counts.balanced,
        restless,
        handoffs: result.counts.handoffs,
        late: result.counts.late.iter().rposition(|it| *it > 0).unwrap_or(0),
        findings: result.findings.len() as u64,
    })
}

/// The part.
pub fn run(spec: PartSpec) -> Result<PartResult, MeshError> {
    let course = live(spec)?;
    let worlds: Vec<u64> =
        (0..if spec.quick { 2 } else { 16 }).map(|at| spec.seed * 131 + at).collect();
    let time = seconds(if spec.quick { 40 } else { 120 });
    let faults = FaultSpec { layout_every: Micros(3_000_000), ..FaultSpec::ALL };
    let found =
        in_parallel(&worlds, |seed| crate::mesh::run::run(&MeshSpec::small(faults, time, *seed)));
    let found: Vec<_> = found.into_iter().collect::<Result<_, _>>()?;
    let (mut balanced, mut drained, mut findings, mut handoffs) = ([0; 4], 0, 0, 0);
    for result in &found {
        balanced.iter_mut().zip(result.counts.balanced).for_each(|(sum, it)| *sum += it);
        drained += result.counts.drained;
        findings += result.findings.len() as u64;
        handoffs += result.counts.handoffs;
    }
    let mut part = PartResult::default();
    let mut table = Table::new([
        ("world", Align::Left),
        ("handoffs", Align::Right),
        ("cuts moved", Align::Right),
        ("joined", Align::Right),
        ("merged", Align::Right),
        ("swapped", Align::Right),
        ("left", Align::Right),
        ("findings", Align::Right),
    ])
    .caption("Regions that follow load");
    let mut row = |name: &str, handoffs: u64, it: [u64; 4], left: u64, findings: u64| {
        let [moved, joined, merged, swapped] = it.map(|it| it.to_string());
        let counts = [handoffs, left, findings].map(|it| it.to_string());
        let [handed, gone, found] = counts;
        table.row([name.to_owned(), handed, moved, joined, merged, swapped, gone, found]);
        part.rows.push(serde_json::json!({
            "part": "change", "world": name, "handoffs": handoffs, "moved": it[0], "joined": it[1],
            "merged": it[2], "swapped": it[3], "left": left, "findings": findings,
        }));
    };
    row(
        "calm",
        course.handoffs,
        course.balanced,
        u64::from(course.drained.is_some()),
        course.findings,
    );
    row("under faults", handoffs, balanced, drained, findings);
    part.tables.push(table);
    part.plots.push(
        Plot::lines(
            "Load of the busiest server: three join after 20 s, one is drained after 140 s",
        )
        .x(Axis::linear("time", "s"))
        .y(Axis::linear("load", "%").from_zero())
        .series(Series::points("busiest", course.busiest.iter().copied())),
    );
    let seconds_or = |it: Option<f64>| it.unwrap_or(f64::INFINITY);
    part.verdicts.extend([
        Verdict::at_most(
            "findings while servers join, leave, merge and move",
            (course.findings + findings) as f64,
            0.0,
            "",
        ),
        Verdict::at_most(
            "until three newcomers relieve an overloaded server",
            seconds_or(course.relieved),
            40.0,
            "s",
        ),
        Verdict::at_most("until a drained server has left", seconds_or(course.drained), 20.0, "s"),
        Verdict::at_most("cuts moved in a minute without need", course.restless as f64, 6.0, ""),
        Verdict::at_most("gap while regions change, longest", course.late as f64, 2.0, "ticks"),
    ]);
    Ok(part)
}
