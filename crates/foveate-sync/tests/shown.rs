//! Where replicas are shown between packets.

#[allow(dead_code, reason = "not all of it is needed here")]
mod common;

use common::{Avatar, ROUND, World};
use foveate_sync::interest::{Policy, presets};
use foveate_sync::replica::{Show, Smoother};
use foveate_wire::Micros;
use std::sync::Arc;

/// Where interpolation shows the other avatar, five times a round, as `path` moves it.
fn interpolated(policy: Arc<dyn Policy>, path: impl Fn(u32) -> [f32; 2]) -> Vec<(u32, f32)> {
    let mut world = World::new();
    let eyes = world.create(&Avatar::at(0.0, 0.0));
    let other = world.create(&Avatar::at(10.0, 0.0));
    let seat = world.observe(eyes, policy);
    world.settle(5);
    let mut smoother = Smoother::new(Show::Interpolate, ROUND);
    let mut shown = Vec::new();
    for round in 0..200 {
        let [x, y] = path(round);
        world.publisher.store.set(other, &Avatar::at(x, y)).unwrap();
        world.settle(1);
        let view = world.seats[seat].1.get(world.publisher.store.id(other)).unwrap();
        for part in 0..5 {
            let now = world.now() + Micros(part * ROUND.0 / 5);
            shown.push((round, smoother.show(&view, now, ROUND).unwrap().at[0]));
        }
    }
    shown
}

#[test]
fn interpolation_goes_on_while_there_is_nothing_to_be_told() {
    // Who walks straight is told of once in two seconds: it must not stand meanwhile.
    let x = |round: u32| 10.0 + 0.25 * round as f32;
    let shown = interpolated(presets::normal(60.0, 120.0).build().unwrap(), |at| [x(at), 20.0]);
    for pair in shown[200..].windows(2) {
        let ((round, from), (_, to)) = (pair[0], pair[1]);
        assert!((to - from).abs() < 0.3, "round {round}: from {from} to {to}");
        // Half a second is the longest delay there is.
        assert!((-0.5..=3.0).contains(&(x(round) - from)), "round {round}: {from} of {}", x(round));
    }
}

#[test]
fn interpolation_draws_no_line_across_a_jump() {
    let path = |at: u32| [if at < 100 { 10.0 } else { 900.0 } + 0.5 * at as f32, (at % 2) as f32];
    let shown = interpolated(presets::broadcast().build().unwrap(), path);
    let between = shown.iter().find(|(_, x)| (100.0..900.0).contains(x));
    assert_eq!(between, None, "on the way from one end to the other");
    assert!(shown[999].1 > 990.0);
}
