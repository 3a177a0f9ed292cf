//! Bytes between servers, and from the ledger, as servers become more: each region has as many players as before.

use super::{PartResult, PartSpec, calm_world, exponent, in_turn, seconds};
use crate::experiments::in_parallel;
use crate::mesh::faults::FaultSpec;
use crate::mesh::game::DriftSpec;
use crate::mesh::run::MeshError;
use crate::output::{Align, Table, Verdict};
use crate::report::{Axis, Plot, Series};
use std::collections::BTreeMap;

/// Players of each region; as dense as the world under faults.
const EACH: u32 = 12;
/// The exponent is that from so many servers on: fewer have fewer neighbours each.
const FROM: usize = 8;

/// Bytes in a second.
struct Traffic {
    servers: usize,
    bus: f64,
    ledger: f64,
    kinds: BTreeMap<&'static str, f64>,
}

fn measure(spec: PartSpec, servers: usize) -> Result<Traffic, MeshError> {
    let players = EACH * servers as u32;
    let half = 40.0 * (players as f32 / 24.0).sqrt();
    let crates = (players / 2).next_multiple_of(2);
    let drift = DriftSpec {
        half,
        walkers: players,
        crates,
        items: players / 4,
        pace: 0.6,
        crowd: 0,
        seed: spec.seed,
    };
    let mut world =
        calm_world(drift, FaultSpec::NONE, (servers, servers as u32), in_turn, spec.seed)?;
    world.run_until(seconds(6));
    let before = (world.counts.bytes, world.counts.ledger_bytes);
    world.tally = Some(BTreeMap::new());
    let time = if spec.quick { 5 } else { 15 };
    world.run_until(seconds(6 + time));
    let a_second = |bytes: u64| bytes as f64 / time as f64;
    Ok(Traffic {
        servers,
        bus: a_second(world.counts.bytes - before.0),
        ledger: a_second(world.counts.ledger_bytes - before.1),
        kinds: world
            .tally
            .iter()
            .flatten()
            .map(|(kind, bytes)| (*kind, a_second(*bytes)))
            .collect(),
    })
}

/// The part.
pub fn run(spec: PartSpec) -> Result<PartResult, MeshError> {
    let sizes: &[usize] = if spec.quick { &[2, 8, 16] } else { &[2, 4, 8, 16, 32, 64] };
    let found = in_parallel(sizes, |servers| measure(spec, *servers));
    let found: Vec<Traffic> = found.into_iter().collect::<Result<_, _>>()?;
    let mut part = PartResult::default();
    let mut table = Table::new([
        ("servers", Align::Right),
        ("bus B/s a server", Align::Right),
        ("states", Align::Right),
        ("handoffs", Align::Right),
        ("gossip", Align::Right),
        ("echoes", Align::Right),
        ("ledger B/s a server", Align::Right),
    ])
    .caption("Bytes between servers, and from the ledger, as servers become more");
    for it in &found {
        let each = |bytes: f64| format!("{:.0}", bytes / it.servers as f64);
        let kind = |name| it.kinds.get(name).copied().unwrap_or(0.0);
        table.row([
            it.servers.to_string(),
            each(it.bus),
            each(kind("states")),
            each(kind("handoffs")),
            each(kind("gossip")),
            each(kind("echoes")),
            each(it.ledger),
        ]);
        part.rows.push(serde_json::json!({
            "part": "growth", "servers": it.servers, "bus_bytes_s": it.bus, "ledger_bytes_s": it.ledger,
            "kinds": it.kinds,
        }));
    }
    let few = found.iter().find(|it| it.servers == FROM);
    if let Some((few, many)) = few.zip(found.last()) {
        let grows = |of: fn(&Traffic) -> f64| {
            exponent((few.servers as f64, of(few)), (many.servers as f64, of(many)))
        };
        let gossip = |it: &Traffic| it.kinds.get("gossip").copied().unwrap_or(0.0);
        let name =
            |what: &str| format!("exponent of {what}, {} to {} servers", few.servers, many.servers);
        part.verdicts.extend([
            Verdict::at_most(name("bytes between servers"), grows(|it| it.bus), 1.2, "")
                .reported_only(spec.quick),
            Verdict::at_most(name("bytes from the ledger"), grows(|it| it.ledger), 1.2, "")
                .reported_only(spec.quick),
            Verdict::at_most(name("gossip"), grows(gossip), 1.2, "").reported_only(spec.quick),
        ]);
    }
    part.tables.push(table);
    let line = |of: fn(&Traffic) -> f64| {
        found.iter().map(move |it| (it.servers as f64, of(it) / it.servers as f64))
    };
    part.plots.push(
        Plot::lines("Bytes of one server as servers become more")
            .x(Axis::linear("servers", ""))
            .y(Axis::linear("bytes in a second", "B").from_zero())
            .series(Series::points("bus", line(|it| it.bus)))
            .series(Series::points("ledger", line(|it| it.ledger))),
    );
    Ok(part)
}
