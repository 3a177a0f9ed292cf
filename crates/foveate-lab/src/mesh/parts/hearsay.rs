//! Gossip: how far news of servers and players reach, and how old they are, by the servers that they came over.

use super::{PartResult, PartSpec, calm_world, in_turn, seconds};
use crate::mesh::faults::FaultSpec;
use crate::mesh::game::{DriftSpec, WALKER};
use crate::mesh::run::MeshError;
use crate::output::{Align, Table, Verdict};
use crate::report::{Axis, Plot, Series};
use std::collections::BTreeMap;

/// News that came over so many servers or more are counted together.
const MAX_HOPS: u8 = 6;

/// The part.
pub fn run(spec: PartSpec) -> Result<PartResult, MeshError> {
    let servers = if spec.quick { 16 } else { 64 };
    let players = 8 * servers;
    let drift = DriftSpec {
        half: 20.0 * (servers as f32).sqrt(),
        walkers: players,
        crates: 0,
        items: 0,
        pace: 0.3,
        crowd: 0,
        seed: spec.seed,
    };
    let mut world =
        calm_world(drift, FaultSpec::NONE, (servers as usize, servers), in_turn, spec.seed)?;
    world.tally = Some(BTreeMap::new());
    world.run_until(seconds(45));
    // By hops: how many news of servers and of players, and the sum of their ages in seconds.
    let mut by_hop: BTreeMap<u8, [(u64, f64); 2]> = BTreeMap::new();
    let mut right = (0u64, 0u64);
    let mut owners = BTreeMap::new();
    for region in world.servers().flat_map(|it| it.regions()) {
        owners.extend(region.owned().map(|(id, _)| (id, region.id)));
    }
    for (server, clock) in world.clocks() {
        let Some(time) = server.world_time(clock) else { continue };
        let age = |stamp: u64| time.saturating_sub(stamp) as f64 / 1e6;
        let mut note = |hops: u8, what: usize, stamp| {
            let it = &mut by_hop.entry(hops.min(MAX_HOPS)).or_default()[what];
            *it = (it.0 + 1, it.1 + age(stamp));
        };
        for (_, status, hops) in server.server_hints(clock) {
            note(hops + 1, 0, status.stamp);
        }
        for hint in server.player_hints().filter(|it| it.hops > 0) {
            note(hint.hops, 1, hint.stamp);
            let id = foveate_wire::ObjectId(hint.avatar);
            right.0 += u64::from(owners.get(&id) == Some(&hint.region));
            right.1 += 1;
        }
    }
    let mut part = PartResult::default();
    let mut table = Table::new([
        ("servers on the way", Align::Right),
        ("news of servers", Align::Right),
        ("age s", Align::Right),
        ("of players", Align::Right),
        ("age s", Align::Right),
    ])
    .caption("News by gossip, after 45 s");
    let mean = |it: (u64, f64)| it.1 / it.0.max(1) as f64;
    for (hops, [of_servers, of_players]) in &by_hop {
        table.row([
            hops.to_string(),
            of_servers.0.to_string(),
            format!("{:.1}", mean(*of_servers)),
            of_players.0.to_string(),
            format!("{:.1}", mean(*of_players)),
        ]);
        part.rows.push(serde_json::json!({
            "part": "gossip", "servers": servers, "hops": hops,
            "server_news": of_servers.0, "server_age_s": mean(*of_servers),
            "player_news": of_players.0, "player_age_s": mean(*of_players),
        }));
    }
    part.tables.push(table);
    let line =
        |what: usize| by_hop.iter().map(move |(hops, it)| (f64::from(*hops), mean(it[what])));
    part.plots.push(
        Plot::lines("Age of news by the servers that they came over")
            .x(Axis::linear("servers on the way", ""))
            .y(Axis::linear("age", "s").from_zero())
            .series(Series::points("of servers", line(0)))
            .series(Series::points("of players", line(1))),
    );
    let ages: Vec<f64> = by_hop.values().filter(|it| it[1].0 > 20).map(|it| mean(it[1])).collect();
    let known: u64 = by_hop.values().map(|it| it[0].0).sum();
    let reach = known as f64 / f64::from(servers * (servers - 1));
    let gossip = world.tally.iter().flatten().find(|it| *it.0 == "gossip").map_or(0, |it| *it.1);
    let each = gossip as f64 / 45.0 / f64::from(servers);
    part.verdicts.extend([
        Verdict::is_true(
            "news of players are older the more servers they came over",
            ages.is_sorted(),
        ),
        Verdict::at_least("servers that a server has news of", 100.0 * reach, 25.0, "%"),
        Verdict::at_most("gossip of a server", each / 1e3, 4.0, "kB/s"),
        Verdict::at_least(
            "news of players that name the right region",
            100.0 * right.0 as f64 / right.1.max(1) as f64,
            50.0,
            "%",
        )
        .reported_only(true),
    ]);
    debug_assert!(owners.keys().any(|id| id.kind() == WALKER));
    Ok(part)
}
