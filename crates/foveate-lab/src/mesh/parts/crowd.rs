//! A crowd that no cut divides: ten times as dense as before, with helpers and without.
//!
//! Players are divided among the owner and its helpers, each of which tells its share. Without helpers views give way
//! from the outside in.

use super::capacity::truth;
use super::clients::{Exactness, ON_ITS_WAY, ServedPlayers};
use super::{PartResult, PartSpec, calm_world, in_turn, seconds};
use crate::mesh::cost::{CostModel, WorkMeter};
use crate::mesh::faults::FaultSpec;
use crate::mesh::game::{DriftSpec, WALKER};
use crate::mesh::run::{MeshError, ROUND};
use crate::output::{Align, Table, Verdict};
use crate::report::{Axis, Plot, Series};
use foveate_node::region::RegionServer;
use foveate_node::region::layout::{RegionId, ServerId};
use foveate_sync::interest::Strain;
use foveate_wire::{ObjectId, Tick};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What work takes, in microseconds, as in the part on capacity.
const MODEL: CostModel = CostModel { step: 2.0, relayed: 0.5, pair: 0.1, byte: 0.02 };
/// So much that a crowd fills the rounds of the server that runs its rules: it asks for help.
const LOAD: CostModel = CostModel { step: 500.0, relayed: 0.0, pair: 0.0, byte: 0.0 };
/// Servers without regions that are there.
const HELPERS: u32 = 4;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Nothing,
    Helpers,
    Strain,
}

struct Crowded {
    helpers: usize,
    /// Microseconds of the busiest server's round.
    busiest: f64,
    /// Microseconds of the owner's and of a helper's round without what players are told.
    idle: [f64; 2],
    /// Microseconds that one player takes.
    each: f64,
    strain: f32,
    /// Bytes that one player is told in a second.
    bytes: f64,
    exact: Exactness,
}

/// What a server has to do with the crowded region.
fn rows_of(
    host: &mut ServedPlayers,
    server: &RegionServer<crate::mesh::game::Drift>,
    (id, tick): (RegionId, u32),
) {
    if let Some(region) = server.regions().find(|it| it.id == id) {
        host.mirror_region(region);
    } else if let Some((_, replicas)) = server.helping().find(|it| it.0 == id) {
        let schema = replicas.schema();
        host.mirror(replicas.iter().map(|it| {
            let mut lanes = it.lanes().to_vec();
            // What goes on as it did is not told of again.
            if let Some(place) = schema.kind(it.kind()).and_then(|kind| kind.place.as_ref()) {
                let steps = it.predicted_steps(Tick(tick), place);
                lanes[place.at..place.at + place.dims].copy_from_slice(&steps[..place.dims]);
            }
            (it.id(), lanes)
        }));
    }
}

fn gather(spec: PartSpec, players: u32, answer: Answer) -> Result<Crowded, MeshError> {
    let drift = DriftSpec {
        // Narrower than two borders: it cannot be cut.
        half: 11.0,
        walkers: players,
        crates: 0,
        items: 0,
        pace: 0.15,
        crowd: players,
        seed: spec.seed,
    };
    let servers = if answer == Answer::Helpers { 1 + HELPERS } else { 1 };
    let mut world = calm_world(drift, FaultSpec::NONE, (1, servers), in_turn, spec.seed)?;
    world.cost = (answer == Answer::Helpers).then_some(LOAD);
    world.run_until(seconds(30));
    let mut hosts: BTreeMap<ServerId, ServedPlayers> = BTreeMap::new();
    let mut meter = WorkMeter::default();
    let rounds = if spec.quick { 100 } else { 200 };
    let (mut total, mut idle, mut exact) =
        (BTreeMap::<ServerId, f64>::new(), BTreeMap::<ServerId, f64>::new(), Exactness::default());
    let (mut strain, mut told_all, mut before, mut bytes) = (0.0f32, 0.0, None, 0.0);
    let (mut recent, mut truths) = (0.0, VecDeque::new());
    for round in 0..rounds {
        world.run_until(world.now() + ROUND);
        truths.push_front(truth(&world));
        truths.truncate(1 + ON_ITS_WAY);
        let owner = world.servers().find_map(|it| Some((it.id(), it.regions().next()?)));
        let Some((owner, region)) = owner else { continue };
        let (id, tick) = (region.id, region.ticked);
        let helping = |it: &&RegionServer<_>| it.helping().any(|it| it.0 == id);
        let sharing: Vec<_> =
            world.servers().filter(|it| it.id() == owner || helping(it)).collect();
        let avatars: Vec<ObjectId> =
            region.owned().map(|it| it.0).filter(|id| id.kind() == WALKER).collect();
        let counts = round >= rounds / 2;
        let mut told_now = 0.0;
        for (at, server) in sharing.iter().enumerate() {
            let host = match hosts.remove(&server.id()) {
                Some(host) => host,
                None => ServedPlayers::new(&world.game)?,
            };
            let host = hosts.entry(server.id()).or_insert(host);
            rows_of(host, server, (id, tick));
            let share = avatars.iter().skip(at).step_by(sharing.len()).copied();
            host.host(&share.collect::<BTreeSet<_>>(), tick);
            host.set_strain(Strain::new(strain));
            let own = match server.id() == owner {
                true => meter.round(server, &MODEL).0 as f64,
                // Rows that another server sends.
                false => MODEL.relayed * region.rows.len() as f64,
            };
            let sent = host.bytes();
            let told = host.round(tick, &MODEL);
            told_now += (host.bytes() - sent) as f64;
            if counts {
                *total.entry(server.id()).or_default() += own + told;
                *idle.entry(server.id()).or_default() += own;
                told_all += told;
                bytes += (host.bytes() - sent) as f64;
                host.compare(&truths, tick, |_| 0, std::slice::from_mut(&mut exact));
            }
        }
        // As the servers' quality of service does: until a third fewer bytes are told.
        if answer == Answer::Strain && round == 30 {
            before = Some(told_now);
        }
        recent += (told_now - recent) / 8.0;
        if before.is_some_and(|before| recent > before * 2.0 / 3.0) {
            strain = (strain + 0.1).min(Strain::MAX.value());
        }
    }
    let measured = (rounds - rounds / 2) as f64;
    let of_owner = idle.values().copied().next().unwrap_or(0.0) / measured;
    let of_helper = idle.values().copied().nth(1).unwrap_or(0.0) / measured;
    Ok(Crowded {
        helpers: total.len().saturating_sub(1),
        busiest: total.values().copied().fold(0.0, f64::max) / measured,
        idle: [of_owner, of_helper],
        each: told_all / measured / f64::from(players),
        strain,
        bytes: bytes / (measured * ROUND.as_secs()) / f64::from(players),
        exact,
    })
}

/// The part.
pub fn run(spec: PartSpec) -> Result<PartResult, MeshError> {
    let crowd = if spec.quick { 120 } else { 240 };
    let jobs = [
        ("before", crowd / 10, Answer::Nothing),
        ("crowd", crowd, Answer::Nothing),
        ("with helpers", crowd, Answer::Helpers),
        ("views give way", crowd, Answer::Strain),
    ];
    let found = crate::experiments::in_parallel(&jobs, |(_, players, answer)| {
        gather(spec, *players, *answer)
    });
    let found: Vec<Crowded> = found.into_iter().collect::<Result<_, _>>()?;
    let mut part = PartResult::default();
    let mut table = Table::new([
        ("", Align::Left),
        ("players", Align::Right),
        ("helpers", Align::Right),
        ("busiest µs/round", Align::Right),
        ("µs a player", Align::Right),
        ("B/s a player", Align::Right),
        ("strain", Align::Right),
        ("near error", Align::Right),
    ])
    .caption("A crowd that no cut divides");
    for ((name, players, _), it) in jobs.iter().zip(&found) {
        table.row([
            (*name).to_owned(),
            players.to_string(),
            it.helpers.to_string(),
            format!("{:.0}", it.busiest),
            format!("{:.2}", it.each),
            format!("{:.0}", it.bytes),
            format!("{:.1}", it.strain),
            format!("{:.4}", it.exact.mean_near()),
        ]);
        part.rows.push(serde_json::json!({
            "part": "crowd", "case": name, "players": players, "helpers": it.helpers,
            "busiest_us": it.busiest, "player_us": it.each, "player_bytes_s": it.bytes, "strain": it.strain,
            "near_error": it.exact.mean_near(),
        }));
    }
    part.tables.push(table);
    part.plots.push(
        Plot::bars("The busiest server before and in a crowd", jobs.iter().map(|it| it.0))
            .y(Axis::linear("work of a round", "µs").from_zero())
            .series(Series::values("busiest server", found.iter().map(|it| it.busiest))),
    );
    let [_, alone, helped, strained] = &found[..] else { return Ok(part) };
    // A server that is full with the crowd alone holds this many players with its helpers.
    let budget = alone.busiest;
    let room = |idle: f64| (budget - idle).max(0.0) / helped.each;
    let holds = room(helped.idle[0]) + helped.helpers as f64 * room(helped.idle[1]);
    part.verdicts.extend([
        Verdict::at_least("helpers of a crowd", helped.helpers as f64, f64::from(HELPERS), ""),
        Verdict::at_least(
            "players with 4 helpers, of those without",
            holds / f64::from(crowd),
            3.0,
            "×",
        ),
        Verdict::at_most(
            "near error while views give way, of before",
            strained.exact.mean_near() / alone.exact.mean_near(),
            1.2,
            "×",
        ),
        Verdict::at_most(
            "bytes while views give way, of before",
            strained.bytes / alone.bytes,
            0.9,
            "×",
        ),
    ]);
    Ok(part)
}
