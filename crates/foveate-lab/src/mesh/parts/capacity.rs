//! How many players servers hold together, what that costs in all, and whether players near borders are told as well as
//! others.

use super::clients::{Exactness, ON_ITS_WAY, ServedPlayers};
use super::{PartResult, PartSpec, VIEW, calm_world, in_turn, seconds};
use crate::mesh::check::layout;
use crate::mesh::cost::CostModel;
use crate::mesh::faults::FaultSpec;
use crate::mesh::game::{DriftSpec, WALKER};
use crate::mesh::run::{MeshError, ROUND};
use crate::mesh::world::MeshWorld;
use crate::output::{Align, Table, Verdict};
use crate::report::{Axis, Plot, Series};
use foveate_node::region::layout::ServerId;
use foveate_wire::ObjectId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What work takes, in microseconds: an object's rule, a row that another server sends, a pair that is looked at, a
/// byte that is coded.
const MODEL: CostModel = CostModel { step: 2.0, relayed: 0.5, pair: 0.1, byte: 0.02 };
/// A region's side in view radii.
const SIDE: f32 = 8.0;
/// Units that players go in a tick: 3 in a second of 20 would cross a view in five.
const PACE: f32 = 0.15;

/// What a world of so many regions took.
struct Held {
    regions: usize,
    players: u32,
    /// Microseconds of the busiest server's round, on average.
    busiest: f64,
    /// Microseconds of a round of all servers together.
    total: f64,
    /// Bytes in a second between servers, and to players.
    between: f64,
    to_players: f64,
    exact: [Exactness; 2],
}

/// Objects at their owners, and their places in the round at hand.
pub fn truth(world: &MeshWorld) -> BTreeMap<ObjectId, [f32; 2]> {
    let mut truth = BTreeMap::new();
    for region in world.servers().flat_map(|server| server.regions()) {
        let store = &region.simulation.publisher.store;
        for (id, _) in region.owned() {
            if let Some(slot) = store.find(id) {
                let at = store.position(slot);
                truth.insert(id, [at[0], at[1]]);
            }
        }
    }
    truth
}

fn hold(spec: PartSpec, each: u32, regions: usize, servers: usize) -> Result<Held, MeshError> {
    let half = (regions as f32).sqrt() * SIDE * VIEW / 2.0;
    let players = each * regions as u32;
    let drift = DriftSpec {
        half,
        walkers: players,
        crates: 0,
        items: 0,
        pace: PACE,
        crowd: 0,
        seed: spec.seed,
    };
    let mut world =
        calm_world(drift, FaultSpec::NONE, (servers, servers as u32), in_turn, spec.seed)?;
    world.run_until(seconds(4));
    let mut hosts: BTreeMap<ServerId, ServedPlayers> = BTreeMap::new();
    let rounds: u32 = if spec.quick { 80 } else { 200 };
    let (mut work, bytes) = (BTreeMap::<ServerId, f64>::new(), world.counts.bytes);
    let mut exact = [Exactness::default(); 2];
    let borders: Vec<_> = layout(world.ledger()).iter().flat_map(|it| it.leaves()).collect();
    let near = |at: [f32; 2]| {
        let own = borders.iter().find(|(_, rect)| rect.contains(at)).map(|it| it.0);
        let mut others = borders.iter().filter(|(id, _)| Some(*id) != own);
        usize::from(others.any(|(_, rect)| rect.distance(at) <= VIEW))
    };
    let mut meters: BTreeMap<ServerId, crate::mesh::cost::WorkMeter> = BTreeMap::new();
    let mut truths = VecDeque::new();
    for round in 0..rounds {
        world.run_until(world.now() + ROUND);
        truths.push_front(truth(&world));
        truths.truncate(1 + ON_ITS_WAY);
        // The first rounds tell everything for the first time.
        let counts = round >= 40;
        for server in world.servers() {
            let cost = meters.entry(server.id()).or_default().round(server, &MODEL).0 as f64;
            let host = match hosts.remove(&server.id()) {
                Some(host) => host,
                None => ServedPlayers::new(&world.game)?,
            };
            let host = hosts.entry(server.id()).or_insert(host);
            let Some(region) = server.regions().next() else { continue };
            host.mirror_region(region);
            let avatars: BTreeSet<ObjectId> =
                region.owned().map(|it| it.0).filter(|id| id.kind() == WALKER).collect();
            host.host(&avatars, region.ticked);
            let told = host.round(region.ticked, &MODEL);
            if counts {
                *work.entry(server.id()).or_default() += cost + told;
                host.compare(&truths, region.ticked, near, &mut exact);
            }
        }
    }
    let measured = f64::from(rounds - 40);
    let time = (ROUND * rounds).as_secs();
    Ok(Held {
        regions: servers,
        players,
        busiest: work.values().copied().fold(0.0, f64::max) / measured,
        total: work.values().sum::<f64>() / measured,
        between: (world.counts.bytes - bytes) as f64 / time,
        to_players: hosts.values().map(|it| it.bytes() as f64).sum::<f64>() / time,
        exact,
    })
}

/// The part.
pub fn run(spec: PartSpec) -> Result<PartResult, MeshError> {
    let each = if spec.quick { 160 } else { 320 };
    let counts: &[usize] = if spec.quick { &[1, 4] } else { &[1, 2, 4, 8] };
    let jobs: Vec<(usize, usize)> = counts
        .iter()
        .flat_map(|k| [(*k, *k), (*k, 1)])
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let held = crate::experiments::in_parallel(&jobs, |(regions, servers)| {
        hold(spec, each, *regions, *servers)
    });
    let held: Vec<((usize, usize), Held)> =
        jobs.into_iter().zip(held.into_iter().collect::<Result<Vec<_>, _>>()?).collect();
    Ok(describe(&held, spec))
}

fn describe(held: &[((usize, usize), Held)], spec: PartSpec) -> PartResult {
    let find = |key: (usize, usize)| held.iter().find(|it| it.0 == key).map(|it| &it.1);
    let mut part = PartResult::default();
    let mut table = Table::new([
        ("regions", Align::Right),
        ("players", Align::Right),
        ("µs/round a server", Align::Right),
        ("busiest", Align::Right),
        ("held, of one", Align::Right),
        ("all, of one server", Align::Right),
        ("B/s a player between", Align::Right),
        ("to it", Align::Right),
        ("kept inside %", Align::Right),
        ("at borders %", Align::Right),
        ("near error inside", Align::Right),
        ("at borders", Align::Right),
    ])
    .caption("Players that servers hold together, by counted cost");
    let one = find((1, 1)).map_or(f64::NAN, |it| it.total);
    let mut points = Vec::new();
    for ((regions, _), it) in held.iter().filter(|(key, _)| key.0 == key.1) {
        // Cuts follow load: what one server has too much of another has room for.
        let mean = it.total / *regions as f64;
        let times = *regions as f64 * one / mean;
        let central = find((*regions, 1)).map_or(f64::NAN, |one| it.total / one.total);
        points.push((*regions as f64, times));
        let players = f64::from(it.players);
        let kept = it.exact.map(|it| 100.0 * it.share());
        table.row([
            regions.to_string(),
            it.players.to_string(),
            format!("{mean:.0}"),
            format!("{:.0}", it.busiest),
            format!("{times:.2}×"),
            format!("{central:.3}×"),
            format!("{:.1}", it.between / players),
            format!("{:.0}", it.to_players / players),
            format!("{:.2}", kept[0]),
            format!("{:.2}", kept[1]),
            format!("{:.3}", it.exact[0].mean_near()),
            format!("{:.3}", it.exact[1].mean_near()),
        ]);
        part.rows.push(serde_json::json!({
            "part": "capacity", "regions": it.regions, "players": it.players, "server_us": mean, "busiest_us": it.busiest,
            "held": times, "total_of_one": central, "between_bytes_s_player": it.between / players,
            "to_player_bytes_s": it.to_players / players,
            "kept_inside": kept[0] / 100.0, "kept_border": kept[1] / 100.0,
            "near_error_inside": it.exact[0].mean_near(), "near_error_border": it.exact[1].mean_near(),
        }));
        if *regions > 1 {
            let aim = 0.9 * *regions as f64;
            let name = format!("players held by {regions} regions, of one");
            part.verdicts.push(Verdict::at_least(name, times, aim, "×").reported_only(spec.quick));
            let off = kept[0] - kept[1];
            let name = format!("bounds kept at borders, less than inside, {regions} regions");
            part.verdicts.push(Verdict::at_most(name, off, 2.0, "points"));
        }
    }
    part.tables.push(table);
    let wanted = points.iter().map(|it| (it.0, it.0)).collect::<Vec<_>>();
    part.plots.push(
        Plot::lines("Players held, as multiples of one server's")
            .x(Axis::linear("regions", ""))
            .y(Axis::linear("players", "×").from_zero())
            .series(Series::points("held", points))
            .series(Series::points("as many as regions", wanted)),
    );
    part
}
