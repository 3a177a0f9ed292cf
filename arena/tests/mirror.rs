//! Results that other implementations of the arena's movement must reproduce: `vectors/arena.json`.
//!
//! They are generated deterministically and compared with the file; `cargo xtask vectors` rewrites
//! it, which is a change of the game's rules and needs a reason.

use fastrand::Rng;
use foveate_arena::game::kinds::{Avatar, Duty, Unit, position};
use foveate_arena::game::{Controls, Hands};
use foveate_arena::{
    Arena, ArenaDocument, ArenaInput, ArenaMap, Body, CollisionMap, NodeIx, Place, Setup, TickRate,
    Velocity, Yaw, step,
};
use foveate_node::Simulation;
use foveate_node::game::{Game, PlayerId};
use foveate_sync::Rounds;
use foveate_wire::{Micros, Tick};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;

const SIDE: f64 = 64.0;
const OBSTACLES: usize = 14;

fn input(rng: &mut Rng) -> ArenaInput {
    let mut key = || match rng.u8(..4) {
        0 => 0,
        1 => rng.i8(-127..),
        2 => 127,
        _ => -127,
    };
    let (forward, strafe) = (key(), key());
    ArenaInput { forward, strafe, yaw: rng.u16(..) }
}

fn row(body: &Body) -> [i32; 4] {
    [body.place.x, body.place.y, body.velocity.x, body.velocity.y]
}

/// Any bodies, valid or not: `[x, y, vx, vy, forward, strafe, yaw, x, y, vx, vy]`.
fn bodies(hz: u32, count: usize) -> Value {
    let rate = TickRate::new(hz).unwrap();
    let map = ArenaMap::generate(u64::from(hz), SIDE, OBSTACLES);
    let (walls, mut rng) = (CollisionMap::new(&map, rate), Rng::with_seed(u64::from(hz)));
    let far = (SIDE as i32 + 4) * 256;
    let rows = (0..count).map(|_| {
        let place = Place { x: rng.i32(-1_024..far), y: rng.i32(-1_024..far) };
        let velocity = Velocity { x: rng.i32(-90_000..90_000), y: rng.i32(-90_000..90_000) };
        let (body, input) = (Body { place, velocity, yaw: Yaw(0) }, input(&mut rng));
        let keys = [i32::from(input.forward), i32::from(input.strafe), i32::from(input.yaw)];
        [&row(&body)[..], &keys, &row(&step(&walls, body, input))].concat()
    });
    let rows: Vec<Vec<i32>> = rows.collect();
    json!({ "bodies": rows, "map": ArenaDocument::on(&map, rate) })
}

/// One body that keeps walking, into walls and corners: keys held for some ticks each, as
/// `[forward, strafe, yaw, x, y, vx, vy]` for every tick.
fn walk(hz: u32, seed: u64, count: usize) -> Value {
    let rate = TickRate::new(hz).unwrap();
    let map = ArenaMap::generate(seed, SIDE, OBSTACLES);
    let (walls, mut rng) = (CollisionMap::new(&map, rate), Rng::with_seed(seed));
    let start = map.graph().node(NodeIx(0)).place;
    let mut body = Body::at(Place::near(start));
    let (start, mut keys) = (row(&body), ArenaInput::default());
    let rows = (0..count).map(|tick| {
        if tick % 16 == 0 {
            keys = input(&mut rng);
        }
        body = step(&walls, body, keys);
        let keys = [i32::from(keys.forward), i32::from(keys.strafe), i32::from(keys.yaw)];
        [&keys[..], &row(&body)].concat()
    });
    let rows: Vec<Vec<i32>> = rows.collect();
    json!({ "walk": rows, "start": start, "map": ArenaDocument::on(&map, rate) })
}

/// An avatar by the rules of play: the lanes before, and for every tick
/// `{ tick, controls (postcard), lanes }`.
fn avatar(seed: u64, count: u32) -> Value {
    let setup = Setup { side: SIDE, obstacles: OBSTACLES, ..Setup::for_players(2, seed) };
    let arena = Arc::new(Arena::new(setup).unwrap());
    let mut simulation =
        Simulation::new(Arc::clone(&arena), Rounds::every(Micros::from_millis(50)));
    simulation.populate().unwrap();
    for spawn in arena.welcome(&simulation.world(), PlayerId(1), "ada") {
        simulation.spawn(PlayerId(1), &spawn).unwrap();
    }
    let (me, mut rng) = (Avatar::of(1), Rng::with_seed(seed));
    let lanes = |simulation: &Simulation<Arena>| {
        let slot = simulation.publisher.store.find(me).unwrap();
        simulation.publisher.store.lanes(slot).to_vec()
    };
    // By then the first round has begun, which moves every avatar.
    let begin = 64;
    (1..=begin).for_each(|tick| simulation.step(Tick(tick), |_, _| {}));
    let before = lanes(&simulation);
    let mut controls = Controls::default();
    let rows = (begin + 1..=begin + count).map(|tick| {
        if tick % 12 == 0 {
            controls.walk = input(&mut rng);
            controls.hands =
                [Hands::Blaster, Hands::Scatter, Hands::Lance, Hands::Unit(0)][rng.usize(..4)];
        }
        controls.walk.yaw = controls.walk.yaw.wrapping_add(rng.u16(..700));
        controls.fire = rng.bool().then_some(tick - 2);
        simulation.input(me, controls);
        simulation.step(Tick(tick), |_, _| {});
        let bytes = postcard::to_allocvec(&controls).unwrap();
        json!({ "tick": tick, "controls": bytes, "lanes": lanes(&simulation) })
    });
    let rows: Vec<Value> = rows.collect();
    let schema = arena.schema().describe();
    json!({ "avatar": rows, "before": before, "schema": schema, "map": ArenaDocument::of(&arena) })
}

/// Units on their ways: `[x, y]` in 1/256 unit, target and since, then `[tick, x, y]` in world
/// units, exactly.
fn units(seed: u64, count: usize) -> Value {
    let setup = Setup { side: 150.0, obstacles: 50, ..Setup::for_players(8, seed) };
    let (arena, mut rng) = (Arena::new(setup).unwrap(), Rng::with_seed(seed));
    let graph = arena.map().graph();
    let rows = (0..count).map(|_| {
        let place = Place { x: rng.i32(256..149 * 256), y: rng.i32(256..149 * 256) };
        let (target, since) = (rng.u16(..graph.node_count() as u16), rng.u32(..5_000));
        let unit = Unit { duty: Duty::March, target, since, ..Unit::at(place, 1) };
        assert_eq!(unit.pos, position(place));
        let seen = [0, 1, 7, 40, 133, 300, 2_000].map(|later| {
            let at = arena.unit_at(&unit, Tick(since + later));
            json!([since + later, at.x, at.y])
        });
        json!({ "from": [place.x, place.y], "target": target, "since": since, "seen": seen })
    });
    let rows: Vec<Value> = rows.collect();
    json!({ "units": rows, "map": ArenaDocument::of(&arena) })
}

/// One case per line, so that a difference shows where it is.
fn made() -> String {
    let cases = [
        bodies(20, 600),
        bodies(10, 300),
        bodies(128, 300),
        walk(20, 1, 1_000),
        walk(20, 2, 1_000),
        walk(10, 3, 400),
        walk(128, 4, 1_000),
        avatar(5, 600),
        units(6, 60),
    ];
    let lines: Vec<String> = cases.iter().map(Value::to_string).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

#[test]
fn arena_vectors_still_hold() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vectors/arena.json");
    let made = made();
    if std::env::var_os("FOVEATE_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&path, &made).expect("vectors/ can be written");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = there.lines().zip(made.lines()).position(|(a, b)| a != b);
    assert_eq!(
        (differs, there.len()),
        (None, made.len()),
        "vectors/arena.json differs, from the line after the first number; if the rules are meant to change: cargo xtask vectors"
    );
}
