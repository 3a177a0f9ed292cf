//! What an observer is sent, when, and when it learns that nothing more will come.

mod common;

use common::{Avatar, ROUND, World};
use foveate_sync::interest::{BySet, Grade, Interacting, ObjectSet, Pivot, Policy, Sight, presets};
use foveate_sync::pipeline::Held;
use foveate_sync::replica::{Change, Life, Show, Smoother};
use foveate_sync::{Budget, Observer, Pivots, Publisher, ReplicaSet, Rounds, Slot};
use foveate_wire::{
    Bytes, Epoch, KindId, Metres, Micros, ObjectId, OwnerId, Radians, Replicate, Schema, Tick,
};
use std::sync::Arc;

fn circle(view: f32) -> Arc<dyn Policy> {
    presets::circle(view).build().unwrap()
}

/// An observer at the origin, and another avatar at a distance.
fn pair(policy: Arc<dyn Policy>, distance: f32) -> (World, usize, Slot) {
    let mut world = World::new();
    let eyes = world.create(&Avatar::at(0.0, 0.0));
    let other = world.create(&Avatar::at(distance, 0.0));
    let seat = world.observe(eyes, policy);
    world.settle(5);
    (world, seat, other)
}

fn life(world: &World, seat: usize, slot: Slot) -> Option<Life> {
    world.seats[seat].1.get(world.publisher.store.id(slot)).map(|view| view.life())
}

/// A round over a perfect link; `heard` receives the changes of a seat.
fn round_heard(world: &mut World, seat: usize, heard: &mut Vec<Change>) {
    world.tick += 1;
    let now = world.now();
    let World { publisher, seats, tick, .. } = world;
    let (id, replicas) = &mut seats[seat];
    publisher.round(Tick(*tick), now, |to, bytes| {
        if to == *id {
            replicas.receive(bytes, |change| heard.push(change)).unwrap();
        }
    });
    replicas.ack().iter().for_each(|ack| publisher.on_ack(*id, ack, now));
}

fn move_to(world: &mut World, slot: Slot, x: f32, y: f32) {
    world.publisher.store.set(slot, &Avatar::at(x, y)).unwrap();
}

#[test]
fn a_replica_that_leaves_interest_lingers_then_freezes_then_goes() {
    let (mut world, seat, other) = pair(circle(50.0), 40.0);
    assert_eq!(life(&world, seat, other), Some(Life::Live));
    move_to(&mut world, other, 60.0, 0.0);
    world.settle(15);
    assert_eq!(life(&world, seat, other), Some(Life::Live), "it may come back at any moment");
    world.settle(10);
    assert_eq!(life(&world, seat, other), Some(Life::Frozen));
    world.settle(210);
    assert_eq!(life(&world, seat, other), None, "gone after ten more seconds");
    move_to(&mut world, other, 40.0, 1.0);
    world.settle(5);
    assert_eq!(world.believed(seat, other), Some(Avatar::at(40.0, 1.0)));
}

/// Hides everything with a negative x, however near.
struct Hiding(Arc<dyn Policy>);

impl Policy for Hiding {
    fn grade(&self, sight: &Sight) -> Option<Grade> {
        self.0.grade(sight).filter(|_| sight.to[0] >= 0.0)
    }

    fn reach(&self) -> Metres {
        self.0.reach()
    }
}

#[test]
fn the_change_by_which_an_object_leaves_the_reach_is_sent_and_nothing_after_it() {
    let (mut world, seat, other) = pair(circle(50.0), 49.0);
    let before = world.publisher.totals().updates;
    move_to(&mut world, other, 51.0, 0.0);
    world.settle(1);
    assert_eq!(world.believed(seat, other), Some(Avatar::at(51.0, 0.0)), "it is seen to leave");
    for step in 1..40 {
        move_to(&mut world, other, 51.0 + step as f32, 5.0);
        world.settle(1);
    }
    assert_eq!(world.believed(seat, other), Some(Avatar::at(51.0, 0.0)));
    assert_eq!(world.publisher.totals().updates - before, 1, "once");
    assert_eq!(life(&world, seat, other), Some(Life::Frozen));
}

#[test]
fn an_object_that_jumps_away_stands_where_it_went_and_does_not_fly_on() {
    let (mut world, seat, other) = pair(circle(50.0), 40.0);
    let id = world.publisher.store.id(other);
    move_to(&mut world, other, 400.0, 0.0);
    for round in 1..60 {
        world.settle(1);
        let view = world.seats[seat].1.get(id).expect("known");
        let place = view.predicted(Tick(world.tick)).expect("placed");
        assert_eq!(place.0, [400.0, 0.0, 0.0], "{round} rounds after");
    }
    assert_eq!(life(&world, seat, other), Some(Life::Frozen));
}

#[test]
fn the_change_by_which_an_object_leaves_survives_loss_and_a_short_budget() {
    let (mut world, seat, other) = pair(circle(50.0), 49.0);
    move_to(&mut world, other, 51.0, 0.0);
    world.round(&mut |_| vec![]);
    assert_eq!(world.believed(seat, other), Some(Avatar::at(49.0, 0.0)), "lost");
    // Something else is sent in the meantime, so that acknowledgements show the loss.
    let near = world.create(&Avatar::at(5.0, 0.0));
    for step in 0..15 {
        move_to(&mut world, near, 5.0 + (step % 2) as f32 * 3.0, 0.0);
        world.settle(1);
    }
    assert_eq!(world.believed(seat, other), Some(Avatar::at(51.0, 0.0)));

    let (mut world, seat, other) = pair(circle(50.0), 49.0);
    let id = world.seats[seat].0;
    let observer = world.publisher.observer_mut(id).unwrap();
    observer.set_budget(Budget::per_round(Bytes(0), 1));
    move_to(&mut world, other, 51.0, 0.0);
    world.settle(5);
    assert_eq!(world.believed(seat, other), Some(Avatar::at(49.0, 0.0)), "it cannot be sent yet");
    world.publisher.observer_mut(id).unwrap().set_budget(Budget::UNLIMITED);
    world.settle(2);
    assert_eq!(world.believed(seat, other), Some(Avatar::at(51.0, 0.0)));
}

#[test]
fn the_place_of_a_hidden_object_is_not_sent() {
    let (mut world, seat, other) = pair(Arc::new(Hiding(circle(50.0))), 2.0);
    move_to(&mut world, other, -2.0, 0.0);
    world.settle(40);
    assert_eq!(world.believed(seat, other), Some(Avatar::at(2.0, 0.0)));
    // Not even when it then leaves the reach as well.
    move_to(&mut world, other, -80.0, 0.0);
    world.settle(40);
    assert_eq!(world.believed(seat, other), Some(Avatar::at(2.0, 0.0)));
}

#[test]
fn an_object_that_leaves_and_is_back_in_the_next_round_lives_on() {
    let (mut world, seat, other) = pair(circle(50.0), 49.0);
    for _ in 0..5 {
        move_to(&mut world, other, 51.0, 0.0);
        world.settle(1);
        move_to(&mut world, other, 48.0, 0.0);
        world.settle(30);
        assert_eq!(life(&world, seat, other), Some(Life::Live));
    }
    move_to(&mut world, other, 51.0, 0.0);
    world.settle(15);
    assert_eq!(life(&world, seat, other), Some(Life::Live), "its second has just begun");
    assert_eq!(world.publisher.totals().notices, 0);
}

#[test]
fn an_object_at_the_edge_causes_no_flapping() {
    let (mut world, seat, other) = pair(circle(50.0), 49.0);
    let before = world.publisher.totals().notices;
    for round in 0..200 {
        move_to(&mut world, other, if round % 10 < 5 { 49.5 } else { 50.5 }, 0.0);
        world.settle(1);
        assert_eq!(life(&world, seat, other), Some(Life::Live));
    }
    assert_eq!(world.publisher.totals().notices, before);
}

#[test]
fn counts_of_all_time_stay_when_an_observer_has_left() {
    let (mut world, seat, _) = pair(circle(50.0), 40.0);
    let told = world.publisher.ever().full;
    assert!(told > 0);
    world.publisher.remove(world.seats[seat].0);
    assert_eq!((world.publisher.totals().full, world.publisher.ever().full), (0, told));
}

#[test]
fn a_frozen_replica_that_comes_back_is_live_again_even_if_nothing_changed() {
    let (mut world, seat, other) = pair(circle(50.0), 40.0);
    let id = world.seats[seat].0;
    world.publisher.observer_mut(id).unwrap().set_policy(circle(10.0));
    world.settle(40);
    assert_eq!(life(&world, seat, other), Some(Life::Frozen));
    world.publisher.observer_mut(id).unwrap().set_policy(circle(50.0));
    world.settle(2);
    assert_eq!(life(&world, seat, other), Some(Life::Live), "and at once");
}

#[test]
fn a_stricter_view_counts_at_once_for_replicas_that_rest() {
    let mut slow = presets::circle(500.0);
    slow.interval_ms = 800;
    for rounds in 0..16 {
        let (mut world, seat, other) = pair(slow.build().unwrap(), 400.0);
        let id = world.seats[seat].0;
        world.settle(rounds);
        world.publisher.observer_mut(id).unwrap().set_policy(circle(500.0));
        world.settle(1);
        let hurt = Avatar { health: 50, ..Avatar::at(400.0, 0.0) };
        world.publisher.store.set(other, &hurt).unwrap();
        world.settle(1);
        assert_eq!(world.believed(seat, other), Some(hurt), "after {rounds} rounds of rest");
    }
}

#[test]
fn faster_pivots_count_at_once_for_replicas_that_rest() {
    let mut view = presets::vfc(50.0, 100.0);
    view.zones[2] = 500.0;
    for zone in &mut view.kappa[1..] {
        (zone[0].age_ms, zone[0].share) = (Some(800), Some(0.5));
    }
    let eyes = |x: f32, reach: f32| {
        let pivot = Pivot::looking([x, 0.0, 0.0], Radians(0.0), Radians(0.0));
        Pivot { reach: Metres(reach), ..pivot }
    };
    for rounds in 0..16 {
        let (mut world, seat, other) = pair(view.build().unwrap(), 300.0);
        let id = world.seats[seat].0;
        let look = |world: &mut World, pivot| {
            world.publisher.observer_mut(id).unwrap().set_pivots(Pivots::Free(vec![pivot]));
        };
        look(&mut world, eyes(0.0, 1.0));
        world.settle(20 + rounds);
        look(&mut world, eyes(0.0, 150.0));
        world.settle(1);
        for x in [140.0, 280.0] {
            world.publisher.observer_mut(id).unwrap().follow(&[eyes(x, 150.0)]);
            world.settle(1);
        }
        let hurt = Avatar { health: 50, ..Avatar::at(300.0, 0.0) };
        world.publisher.store.set(other, &hurt).unwrap();
        world.settle(1);
        assert_eq!(world.believed(seat, other), Some(hurt), "after {rounds} rounds of rest");
    }
}

#[test]
fn an_object_that_changes_teams_is_graded_again_at_once() {
    let mut slow = presets::circle(500.0);
    slow.interval_ms = 800;
    let by_set =
        [(ObjectSet::Mates, circle(500.0)), (ObjectSet::All, slow.build().unwrap())].to_vec();
    for rounds in 0..16 {
        let mut world = World::new();
        let eyes = world.create(&Avatar::at(0.0, 0.0));
        let other = world.create(&Avatar::at(400.0, 0.0));
        let policy: Arc<dyn Policy> = Arc::new(BySet(by_set.clone()));
        let observer = Observer::new(policy, Pivots::Object(eyes), Tick(0)).in_team(1);
        let id = world.publisher.add(observer.without_own_objects());
        world.seats.push((id, ReplicaSet::new(common::schema(), Tick(0))));
        world.settle(5 + rounds);
        world.publisher.store.set_team(other, 1).unwrap();
        world.settle(1);
        let hurt = Avatar { health: 50, ..Avatar::at(400.0, 0.0) };
        world.publisher.store.set(other, &hurt).unwrap();
        world.settle(1);
        assert_eq!(world.believed(0, other), Some(hurt), "after {rounds} rounds of rest");
    }
}

#[test]
fn an_observer_that_changes_teams_grades_all_objects_again_at_once() {
    let sets = vec![(ObjectSet::Mates, circle(50.0))];
    let (mut world, seat, other) = pair(Arc::new(BySet(sets)), 40.0);
    world.publisher.store.set_team(other, 1).unwrap();
    world.settle(3);
    assert_eq!(life(&world, seat, other), None);
    let id = world.seats[seat].0;
    world.publisher.observer_mut(id).unwrap().set_team(1);
    world.settle(1);
    assert_eq!(life(&world, seat, other), Some(Life::Live));
}

#[test]
fn objects_without_a_free_alias_are_not_counted_as_within_bounds() {
    let mut world = World::new();
    let eyes = world.create(&Avatar::at(0.0, 0.0));
    for n in 0..65_100 {
        world.create(&Avatar::at((n % 300) as f32, (n / 300) as f32));
    }
    let seat = world.observe(eyes, circle(1e4));
    world.settle(2);
    assert_eq!(world.seats[seat].1.len(), 65_000);
    let counters = world.publisher.totals();
    assert_eq!(counters.broken.iter().sum::<u64>(), 200, "a hundred, in two rounds");
}

#[test]
fn a_spectator_sees_from_another_pivot_at_once() {
    let mut world = World::new();
    let (eyes, far) = (world.create(&Avatar::at(0.0, 0.0)), world.create(&Avatar::at(500.0, 0.0)));
    let beside = world.create(&Avatar::at(510.0, 0.0));
    let seat = world.observe(eyes, circle(50.0));
    world.settle(3);
    assert_eq!(world.believed(seat, beside), None);
    let id = world.seats[seat].0;
    world.publisher.observer_mut(id).unwrap().set_pivots(Pivots::Object(far));
    world.settle(1);
    assert_eq!(world.believed(seat, beside), Some(Avatar::at(510.0, 0.0)));
}

#[test]
fn an_observer_does_not_follow_a_new_object_in_its_pivots_former_slot() {
    let (mut world, seat, _) = pair(circle(50.0), 40.0);
    let eyes = Slot(0);
    world.publisher.store.remove(eyes).unwrap();
    world.settle(40);
    let stranger = world.create(&Avatar::at(500.0, 0.0));
    assert_eq!(stranger, eyes, "its row is used again");
    let near = world.create(&Avatar::at(510.0, 0.0));
    world.settle(5);
    assert_eq!(world.believed(seat, near), None);
    let id = world.seats[seat].0;
    world.publisher.observer_mut(id).unwrap().set_pivots(Pivots::Object(stranger));
    world.settle(5);
    assert_eq!(world.believed(seat, near), Some(Avatar::at(510.0, 0.0)), "after its pivot is set");
}

#[test]
fn the_nearest_of_several_pivots_counts() {
    let mut world = World::new();
    let eyes = [world.create(&Avatar::at(0.0, 0.0)), world.create(&Avatar::at(300.0, 0.0))];
    let near_second = world.create(&Avatar::at(320.0, 0.0));
    let near_none = world.create(&Avatar::at(150.0, 0.0));
    let seat = world.observe(eyes[0], circle(50.0));
    let id = world.seats[seat].0;
    world.publisher.observer_mut(id).unwrap().set_pivots(Pivots::Objects(eyes.to_vec()));
    world.settle(3);
    assert!(world.believed(seat, near_second).is_some());
    assert!(world.believed(seat, near_none).is_none());
}

#[test]
fn a_crowd_that_jumps_into_view_is_seen_in_that_very_round() {
    let mut world = World::new();
    let eyes = world.create(&Avatar::at(0.0, 0.0));
    let crowd: Vec<Slot> = (0..100).map(|n| world.create(&Avatar::at(1900.0, n as f32))).collect();
    // A view so wide that its neighbourhood is searched once in eleven rounds.
    let seat = world.observe(eyes, circle(300.0));
    world.settle(5);
    for round in 0..4 {
        // All at once, a few of them, all away, and all back.
        let jumping = if round == 1 { &crowd[..3] } else { &crowd[..] };
        let x = [20.0, -30.0, 1900.0, 20.0][round];
        let places = jumping.iter().enumerate().map(|(n, slot)| (*slot, x, n as f32 / 4.0));
        let places: Vec<(Slot, f32, f32)> = places.collect();
        places.iter().for_each(|(slot, x, y)| move_to(&mut world, *slot, *x, *y));
        world.settle(1);
        for (slot, x, y) in places.iter().filter(|_| round != 2) {
            assert_eq!(world.believed(seat, *slot), Some(Avatar::at(*x, *y)), "round {round}");
        }
        world.settle(2);
    }
}

#[test]
fn objects_stay_of_interest_for_a_while_after_an_interaction() {
    let policy = Arc::new(Interacting { inner: circle(50.0), boost: 4.0, otherwise: Grade::EXACT });
    let (mut world, seat, other) = pair(policy, 200.0);
    assert_eq!(life(&world, seat, other), None);
    let (id, now) = (world.seats[seat].0, world.now());
    let observer = world.publisher.observer_mut(id).unwrap();
    observer.interacted(other, now, Micros::from_millis(500));
    world.settle(2);
    assert_eq!(life(&world, seat, other), Some(Life::Live), "a distant shooter");
    world.settle(120);
    assert_eq!(life(&world, seat, other), Some(Life::Frozen), "forgotten");
}

#[test]
fn an_interaction_sharpens_a_pair_that_rests() {
    let mut slow = presets::circle(500.0);
    (slow.interval_ms, slow.interaction_boost) = (800, Some(16.0));
    for rounds in 0..16 {
        let mut world = World::new();
        let eyes = world.create(&Avatar::at(0.0, 0.0));
        let other = world.create(&Avatar::at(400.0, 0.0));
        let seat = world.observe(eyes, slow.build().unwrap());
        world.settle(5 + rounds);
        let (id, now) = (world.seats[seat].0, world.now());
        let observer = world.publisher.observer_mut(id).unwrap();
        observer.interacted(other, now, Micros::from_millis(2_000));
        world.settle(1);
        let hurt = Avatar { health: 50, ..Avatar::at(400.0, 0.0) };
        world.publisher.store.set(other, &hurt).unwrap();
        world.settle(1);
        assert_eq!(world.believed(seat, other), Some(hurt), "after {rounds} rounds of rest");
    }
}

#[test]
fn a_change_of_owner_is_sent_and_survives_loss() {
    let (mut world, seat, other) = pair(circle(50.0), 40.0);
    assert_eq!(world.publisher.store.give(other, OwnerId(9)), Ok(Epoch(1)));
    world.round(&mut |_| vec![]);
    world.settle(30);
    let id = world.publisher.store.id(other);
    assert_eq!(world.seats[seat].1.get(id).unwrap().owner(), (OwnerId(9), Epoch(1)));
}

#[test]
fn a_removed_object_goes_and_its_slot_is_reused_without_confusion() {
    let (mut world, seat, other) = pair(circle(50.0), 40.0);
    let old = world.publisher.store.id(other);
    world.publisher.store.remove(other).unwrap();
    let new = world.create(&Avatar { health: 3, ..Avatar::at(20.0, 20.0) });
    world.settle(5);
    assert!(world.seats[seat].1.get(old).is_none());
    assert_eq!(world.believed(seat, new).unwrap().health, 3);
    let newer = world.create(&Avatar { health: 4, ..Avatar::at(10.0, 20.0) });
    world.settle(5);
    assert_eq!(world.believed(seat, newer).unwrap().health, 4);
    assert_eq!(world.believed(seat, new).unwrap().health, 3);
}

#[test]
fn a_notice_that_overtakes_its_state_is_not_forgotten() {
    let mut world = World::new();
    let eyes = world.create(&Avatar::at(0.0, 0.0));
    let other = world.create(&Avatar::at(20.0, 0.0));
    let seat = world.observe(eyes, circle(50.0));
    // The first state takes five rounds; the object is removed in the meantime, and that arrives at
    // once.
    world.round(&mut |up| if up { vec![0] } else { vec![5] });
    let id = world.publisher.store.id(other);
    world.publisher.store.remove(other).unwrap();
    world.settle(20);
    assert!(world.seats[seat].1.get(id).is_none(), "the late state must not bring it back");
}

/// An object that is created again under its id stays, in whatever order packets arrive, and is not
/// reported as gone.
#[test]
fn an_object_that_is_created_again_by_its_name_stays() {
    // The delays, in rounds, of the packets about its creation, removal and second creation.
    for delays in [[0, 0, 0], [3, 0, 0], [3, 3, 0], [4, 4, 0], [0, 4, 0], [5, 1, 0]] {
        let (mut world, seat, _) = pair(circle(50.0), 300.0);
        let other = world.create(&Avatar::at(20.0, 0.0));
        let id = world.publisher.store.id(other);
        for (round, delay) in delays.into_iter().enumerate() {
            if round == 1 {
                world.publisher.store.remove(other).unwrap();
            }
            if round == 2 {
                world.create_as(id, &Avatar { health: 9, ..Avatar::at(21.0, 0.0) });
            }
            world.round(&mut |up| vec![if up { 0 } else { delay }]);
        }
        world.settle(40);
        let health = world.seats[seat].1.get(id).map(|view| view.value::<Avatar>().unwrap().health);
        assert_eq!(health, Some(9), "{delays:?}");
    }
}

#[test]
fn an_object_that_was_created_again_is_not_reported_as_gone() {
    // Far away and at rest, so that its removal is sent some rounds after it was created again.
    let (mut world, seat, other) = pair(presets::normal(30.0, 60.0).build().unwrap(), 90.0);
    let id = world.publisher.store.id(other);
    world.settle(60);
    for removed in 0..12u8 {
        let slot = world.publisher.store.find(id).unwrap();
        world.publisher.store.remove(slot).unwrap();
        world.create_as(id, &Avatar::at(91.0, f32::from(removed)));
        let mut heard = Vec::new();
        for _ in 0..40 {
            round_heard(&mut world, seat, &mut heard);
        }
        assert!(world.seats[seat].1.get(id).is_some());
        let last = heard.iter().rfind(|change| !matches!(change, Change::Updated(_)));
        assert_eq!(last, Some(&Change::Appeared(id)), "{heard:?}");
    }
}

#[test]
fn the_budget_holds_over_time_and_every_object_gets_a_share() {
    let mut world = World::new();
    let mut slots = Vec::new();
    for n in 0..40 {
        slots.push(world.create(&Avatar::at(n as f32 * 3.0, 0.0)));
    }
    let seat = world.observe(slots[0], presets::broadcast().build().unwrap());
    let id = world.seats[seat].0;
    world.settle(30);
    let observer = world.publisher.observer_mut(id).unwrap();
    observer.set_budget(Budget::per_round(Bytes(40), 2));
    let before = world.publisher.totals().bytes;
    let mut rng = fastrand::Rng::with_seed(1);
    for _ in 0..200 {
        for (n, slot) in slots.iter().enumerate() {
            move_to(&mut world, *slot, n as f32 * 3.0 + rng.f32(), rng.f32() * 2.0);
        }
        world.settle(1);
    }
    let bytes = world.publisher.totals().bytes - before;
    assert!(bytes <= 200 * 40 + 1_200, "{bytes}");
    assert!(world.publisher.totals().postponed > 0, "there was less than demanded");
    for slot in &slots[1..] {
        let view = world.seats[seat].1.get(world.publisher.store.id(*slot)).unwrap();
        assert!(view.staleness(Tick(world.tick), ROUND) < Micros::from_millis(2_000));
    }
}

#[test]
fn on_a_narrow_budget_the_farther_an_object_is_the_longer_it_waits() {
    const RINGS: usize = 6;
    let mut world = World::new();
    let eyes = world.create(&Avatar::at(0.0, 0.0));
    // Objects go in circles, which no prediction foresees, on rings around the observer.
    let place = |n: usize, round: u32| {
        let (distance, angle) = (10.0 + 20.0 * (n % RINGS) as f32, (n as f32).to_radians() * 6.0);
        let (turn, radius) = ((round as f32 / 16.0 + n as f32).sin_cos(), 6.0);
        Avatar::at(
            distance * angle.cos() + radius * turn.0,
            distance * angle.sin() + radius * turn.1,
        )
    };
    let crowd: Vec<Slot> = (0..60).map(|n| world.create(&place(n, 0))).collect();
    let seat = world.observe(eyes, presets::normal(20.0, 40.0).build().unwrap());
    let observer = world.publisher.observer_mut(world.seats[seat].0).unwrap();
    observer.set_budget(Budget::per_round(Bytes(12), 4));
    let (mut told, mut last) = ([0; RINGS], vec![None; crowd.len()]);
    for round in 0..3_000 {
        for (n, slot) in crowd.iter().enumerate() {
            world.publisher.store.set(*slot, &place(n, round)).unwrap();
        }
        world.settle(1);
        for (n, slot) in crowd.iter().enumerate() {
            let id = world.publisher.store.id(*slot);
            let tick = world.seats[seat].1.get(id).map(|view| view.tick());
            told[n % RINGS] += u32::from(round >= 1_000 && tick != last[n]);
            last[n] = tick;
        }
    }
    assert!(told.windows(2).all(|ring| 4 * ring[1] < 3 * ring[0]), "{told:?}");
    assert!(told[RINGS - 1] > 0, "no ring is starved: {told:?}");
}

#[test]
fn an_old_state_serves_as_long_as_nothing_but_the_place_has_changed() {
    for wounded in [false, true] {
        let (mut world, seat, other) = pair(circle(50.0), 40.0);
        let id = world.seats[seat].0;
        let budget = |world: &mut World, budget| {
            world.publisher.observer_mut(id).unwrap().set_budget(budget);
        };
        let told = world.publisher.totals();
        budget(&mut world, Budget::per_round(Bytes(0), 1));
        let mut avatar = Avatar::at(40.0, 0.0);
        for _ in 0..150 {
            avatar.pos[1] += 0.125;
            world.publisher.store.set(other, &avatar).unwrap();
            world.settle(1);
        }
        assert_eq!(world.believed(seat, other), Some(Avatar::at(40.0, 0.0)), "nothing was sent");
        avatar.health = if wounded { 50 } else { avatar.health };
        world.publisher.store.set(other, &avatar).unwrap();
        budget(&mut world, Budget::UNLIMITED);
        world.settle(1);
        assert_eq!(world.believed(seat, other), Some(avatar));
        let whole = world.publisher.totals().full - told.full;
        assert_eq!(whole, u64::from(wounded), "the former health is no longer known");
    }
}

#[test]
fn a_correct_replica_is_not_updated_however_restless_its_object_is() {
    let (mut world, seat, other) = pair(circle(50.0), 40.0);
    let told = world.publisher.totals();
    for round in 0..400 {
        let yaw = if round % 2 == 0 { 0.1 } else { -0.1 };
        let avatar = Avatar { yaw, ..Avatar::at(40.0, 0.0) };
        world.publisher.store.set(other, &avatar).unwrap();
        world.settle(1);
    }
    assert_eq!(world.believed(seat, other), Some(Avatar::at(40.0, 0.0)), "within its floor");
    assert_eq!(world.publisher.totals().updates, told.updates);
}

#[test]
fn observers_come_and_go_without_leaving_anything_behind() {
    let (mut world, seat, other) = pair(circle(50.0), 40.0);
    let id = world.seats[seat].0;
    assert!(world.publisher.remove(id).is_some());
    assert!(world.publisher.remove(id).is_none());
    world.publisher.store.remove(other).unwrap();
    let rows = world.publisher.store.rows();
    world.create(&Avatar::at(1.0, 1.0));
    assert_eq!(world.publisher.store.rows(), rows, "the row of the removed object is free");
}

#[test]
fn an_observer_is_known_to_have_what_it_acknowledged() {
    let (mut world, seat, other) = pair(circle(50.0), 30.0);
    let observer = world.seats[seat].0;
    let known = |world: &World, slot: Slot| {
        world.publisher.known(observer).find(|known| known.slot == slot)
    };
    let seen = known(&world, other).unwrap();
    assert_eq!((seen.at.0, seen.error.0, seen.held), ([30.0, 0.0, 0.0], 0.0, Held::Live));
    assert_eq!(seen.distance.0, 30.0);

    move_to(&mut world, other, 30.0, 4.0);
    world.settle(1);
    let seen = known(&world, other).unwrap();
    assert_eq!((seen.at[1], seen.error.0), (0.0, 4.0), "sent, but not acknowledged");
    assert!((seen.degrees() - 7.5).abs() < 0.1);
    world.settle(60);
    let seen = known(&world, other).unwrap();
    assert_eq!((seen.at[1], seen.error.0), (4.0, 0.0));

    let fresh = world.create(&Avatar::at(0.0, 9.0));
    world.settle(1);
    assert_eq!(known(&world, fresh).unwrap().held, Held::Unconfirmed);
    move_to(&mut world, other, 70.0, 0.0);
    world.settle(5);
    assert_eq!(known(&world, other).unwrap().held, Held::Resting);
}

#[derive(Clone, PartialEq, Debug, Replicate)]
struct Score {
    points: u8,
}

/// Objects without a place are always graded exact: also for a dead player, or one without pivots.
#[test]
fn objects_without_a_place_are_sent_to_observers_without_pivots() {
    let schema = Arc::new(Schema::new(vec![Avatar::spec(), Score::spec()]).unwrap());
    let mut publisher = Publisher::new(schema.clone(), Rounds::every(ROUND));
    let names = [ObjectId::new(KindId(0), 0, 1), ObjectId::new(KindId(1), 0, 1)];
    let store = &mut publisher.store;
    let eyes = store.create(names[0], OwnerId(0), &Avatar::at(0.0, 0.0)).unwrap();
    let score = store.create(names[1], OwnerId(0), &Score { points: 1 }).unwrap();
    let view = || presets::normal(30.0, 60.0).build().unwrap();
    let seats = [Pivots::Object(eyes), Pivots::Free(Vec::new())];
    let mut seats = seats.map(|pivots| {
        let id = publisher.add(Observer::new(view(), pivots, Tick(0)));
        (id, ReplicaSet::new(schema.clone(), Tick(0)))
    });
    for tick in 1..=60 {
        match tick {
            20 => publisher.store.remove(eyes).unwrap(),
            30 => publisher.store.set(score, &Score { points: 2 }).unwrap(),
            _ => {}
        }
        publisher.round(Tick(tick), ROUND * tick, |to, bytes| {
            let seat = seats.iter_mut().find(|(id, _)| *id == to);
            seat.unwrap().1.receive(bytes, |_| {}).unwrap();
        });
        for (id, replicas) in &seats {
            replicas.ack().iter().for_each(|ack| publisher.on_ack(*id, ack, ROUND * tick));
        }
        let points = if tick < 30 { 1 } else { 2 };
        for (_, replicas) in &seats {
            let seen = replicas.get(names[1]).and_then(|view| view.value::<Score>());
            assert_eq!(seen, Some(Score { points }), "round {tick}");
        }
    }
    assert!(seats[0].1.get(names[0]).is_none(), "nor does a dead player's avatar stay for ever");
}

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
fn interpolation_goes_on_while_there_is_nothing_to_send() {
    // An avatar that walks straight is updated once in two seconds: its shown replica must not stop
    // in between.
    let x = |round: u32| 10.0 + 0.25 * round as f32;
    let shown = interpolated(presets::normal(60.0, 120.0).build().unwrap(), |at| [x(at), 20.0]);
    for pair in shown[200..].windows(2) {
        let ((round, from), (_, to)) = (pair[0], pair[1]);
        assert!((to - from).abs() < 0.3, "round {round}: from {from} to {to}");
        // Half a second is the longest delay.
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
