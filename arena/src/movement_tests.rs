use super::*;
use crate::fixed::SUBUNITS;
use crate::geometry::{ConvexPolygon, Point};
use crate::map::{AVATAR_RADIUS, ArenaMap};
use proptest::prelude::*;

const EAST: ArenaInput = ArenaInput { forward: FULL_INPUT, strafe: 0, yaw: 0 };

fn empty(rate: TickRate) -> CollisionMap {
    CollisionMap::new(&ArenaMap::generate(0, 400.0, 0), rate)
}

/// A square block from 20 to 30 in both directions on a map of 60.
fn block() -> CollisionMap {
    let corners = [(20.0, 20.0), (30.0, 20.0), (30.0, 30.0), (20.0, 30.0)];
    let outline = ConvexPolygon::new(corners.map(|(x, y)| Point::new(x, y)).to_vec());
    CollisionMap::new(
        &ArenaMap::with_obstacles(60.0, outline.into_iter().collect()),
        TickRate::DEFAULT,
    )
}

fn at(x: i32, y: i32) -> Body {
    Body::at(Place { x: x * SUBUNITS, y: y * SUBUNITS })
}

fn run(map: &CollisionMap, body: Body, input: ArenaInput, ticks: u32) -> Body {
    (0..ticks).fold(body, |body, _| step(map, body, input))
}

fn squared(v: Velocity) -> i64 {
    i64::from(v.x).pow(2) + i64::from(v.y).pow(2)
}

fn step_squared(a: Place, b: Place) -> i64 {
    i64::from(b.x - a.x).pow(2) + i64::from(b.y - a.y).pow(2)
}

#[test]
fn full_speed_is_reached_within_a_quarter_second_at_every_rate() {
    for hz in [10, 20, 60, 128] {
        let map = empty(TickRate::new(hz).expect("in range"));
        let body = run(&map, at(10, 10), EAST, hz / 4 + 1);
        let second = run(&map, body, EAST, hz);
        let units = f64::from(second.place.x - body.place.x) / f64::from(SUBUNITS);
        assert!((units - MAX_SPEED as f64).abs() < 0.2, "{units} units in a second at {hz} Hz");
    }
}

#[test]
fn an_avatar_without_input_stops_within_half_a_second() {
    let map = empty(TickRate::DEFAULT);
    let running = run(&map, at(10, 10), EAST, 20);
    let stopped = run(&map, running, ArenaInput::default(), 10);
    assert_eq!(stopped.velocity, Velocity::default());
    assert_eq!(run(&map, stopped, ArenaInput::default(), 10), stopped);
}

#[test]
fn both_keys_together_are_no_faster_than_one() {
    let map = empty(TickRate::DEFAULT);
    let fastest = map.pace().max_speed();
    for yaw in (0..=u16::MAX).step_by(997) {
        let diagonal = ArenaInput { forward: 127, strafe: -128, yaw };
        let velocity = run(&map, at(200, 200), diagonal, 20).velocity;
        assert!(squared(velocity) <= fastest * fastest);
        assert!(squared(velocity) > fastest * fastest * 49 / 50, "too slow at yaw {yaw}");
    }
}

#[test]
fn half_the_stick_is_half_the_speed() {
    let map = empty(TickRate::DEFAULT);
    let velocity = run(&map, at(10, 10), ArenaInput { forward: 64, ..EAST }, 20).velocity;
    assert_eq!(i64::from(velocity.x), map.pace().max_speed() * 64 / 127);
}

#[test]
fn a_wall_stops_an_avatar_that_runs_straight_into_it_at_its_radius() {
    let body = run(&block(), at(10, 25), EAST, 60);
    assert_eq!(body.place, Place { x: 19 * SUBUNITS, y: 25 * SUBUNITS });
    assert_eq!(body.velocity.x, 0);
}

#[test]
fn an_avatar_that_runs_into_a_wall_aslant_slides_along_it_and_around_its_corner() {
    let map = block();
    let aslant = ArenaInput { yaw: 8_192, ..EAST };
    let sliding = run(&map, at(15, 21), aslant, 20);
    assert_eq!(sliding.place.x, 19 * SUBUNITS);
    assert!(sliding.place.y > 24 * SUBUNITS && sliding.velocity.y > 0);
    let past = run(&map, sliding, aslant, 60);
    assert!(past.place.x > 30 * SUBUNITS && past.place.y > 31 * SUBUNITS, "{past:?}");
}

#[test]
fn the_maps_edge_stops_and_the_rest_of_the_velocity_stays() {
    let body = run(&block(), at(50, 50), ArenaInput { yaw: 1_000, ..EAST }, 40);
    assert_eq!(body.place.x, 59 * SUBUNITS);
    assert_eq!(body.velocity.x, 0);
    assert!(body.velocity.y > 0);
}

#[test]
fn an_avatar_inside_an_obstacle_is_pushed_out_by_the_nearest_wall() {
    let body = step(&block(), at(22, 25), ArenaInput::default());
    assert_eq!(body.place, Place { x: 19 * SUBUNITS, y: 25 * SUBUNITS });
}

#[test]
fn tick_rates_out_of_range_are_refused_by_name() {
    assert_eq!(TickRate::new(20), Ok(TickRate::DEFAULT));
    for got in [0, 9, 129, u32::MAX] {
        assert_eq!(TickRate::new(got), Err(ArenaError::TickRate { got, min: 10, max: 128 }));
    }
}

/// Any other implementation of the step must reach the same figure; it changes only with the rules
/// of movement or of the map.
#[test]
fn a_scripted_walk_ends_where_every_implementation_must_end() {
    let map = CollisionMap::new(&ArenaMap::generate(3, 60.0, 12), TickRate::DEFAULT);
    let mut body = Body::at(Place { x: RADIUS, y: RADIUS });
    let mut checksum = 0u64;
    for tick in 0..2_000u32 {
        let yaw = (tick * 37 + (tick / 50) * 9_001) as u16;
        let forward = if tick % 90 < 80 { 127 } else { -60 };
        let strafe = ((tick / 20 % 5) as i8 - 2) * 50;
        body = step(&map, body, ArenaInput { forward, strafe, yaw });
        for value in [body.place.x, body.place.y, body.velocity.x, body.velocity.y] {
            checksum = (checksum * 31 + u64::from(value as u32)) % 0xffff_fffb;
        }
    }
    assert_eq!((body.place, checksum), (Place { x: 11_724, y: 9_099 }, 4_114_665_006));
}

fn any_input() -> impl Strategy<Value = ArenaInput> {
    (any::<i8>(), any::<i8>(), any::<u16>()).prop_map(|(forward, strafe, yaw)| ArenaInput {
        forward,
        strafe,
        yaw,
    })
}

fn any_rate() -> impl Strategy<Value = TickRate> {
    prop_oneof![Just(TickRate::MIN), Just(TickRate::DEFAULT), Just(TickRate::MAX)]
}

proptest! {
    #[test]
    fn no_walk_ends_inside_an_obstacle_or_is_too_fast(
        seed in 0u64..1_000,
        rate in any_rate(),
        inputs in prop::collection::vec((any_input(), 1u32..60), 1..40),
    ) {
        let arena = ArenaMap::generate(seed, 40.0, 20);
        let map = CollisionMap::new(&arena, rate);
        let fastest = map.pace().max_speed();
        let mut body = Body::at(Place { x: RADIUS, y: RADIUS });
        for (input, ticks) in inputs {
            for _ in 0..ticks {
                let before = body.place;
                body = step(&map, body, input);
                prop_assert!(map.is_free(body.place));
                prop_assert!(arena.is_free(body.place.point(), AVATAR_RADIUS - 1e-9));
                prop_assert!(squared(body.velocity) <= fastest * fastest);
                prop_assert!(step_squared(before, body.place) <= longest_step(map.pace()).pow(2));
            }
        }
    }

    #[test]
    fn any_body_whatever_is_accepted_and_soon_stands_free(
        seed in 0u64..100,
        (x, y, vx, vy) in any::<(i32, i32, i32, i32)>(),
        (near_x, near_y) in (0i32..40 * SUBUNITS, 0i32..40 * SUBUNITS),
        input in any_input(),
    ) {
        let map = CollisionMap::new(&ArenaMap::generate(seed, 40.0, 20), TickRate::DEFAULT);
        for place in [Place { x, y }, Place { x: near_x, y: near_y }] {
            let velocity = Velocity { x: vx, y: vy };
            let body = Body { place, velocity, yaw: Yaw(0) };
            prop_assert!(map.is_free(run(&map, body, input, 3).place));
        }
    }
}
