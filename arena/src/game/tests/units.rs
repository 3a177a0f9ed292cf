//! Units: shot, down and back, following, and steered by their player.

use super::*;
use crate::game::kinds::{Duty, UNIT_HEALTH};

fn player(practice: &Practice, player: u32) -> Requester {
    Requester::Player(PlayerId(player), practice.tick())
}

/// A unit of player 1, whose avatar stands at (10, 40).
fn with_unit(at: [i32; 2]) -> (Practice, ObjectId, ObjectId) {
    let mut practice = walled(1);
    let avatar = put(&mut practice, 1, [10, 40], 1);
    let unit = spawn(&mut practice, 1, &Unit::at(Place { x: at[0] * 256, y: at[1] * 256 }, 1));
    (practice, avatar, unit)
}

#[test]
fn a_unit_on_its_way_is_hit_where_its_enemy_saw_it() {
    let (mut practice, _, unit) = with_unit([10, 80]);
    let target = practice.simulation.game.node_near(Point::new(90.0, 80.0)).0 as u16;
    let by = player(&practice, 1);
    practice.simulation.ask(unit, Action::Order { target }, by);
    let shooter = put(&mut practice, 2, [30, 95], 2);
    wait(&mut practice, 40);
    let (seen, arena) = (practice.tick(), Arc::clone(&practice.simulation.game));
    let there = arena.unit_at(&get(&practice, unit), seen);
    assert!(there.distance(Point::new(10.0, 80.0)) > 8.0, "it is elsewhere than it set out");
    wait(&mut practice, 8);
    let off = Place::near(there);
    let yaw = crate::Yaw::of(i64::from(off.x - 30 * 256), i64::from(off.y - 95 * 256)).0;
    let walk = ArenaInput { yaw, ..ArenaInput::default() };
    practice
        .simulation
        .input(shooter, Controls { walk, fire: Some(seen.0), hands: Hands::Blaster });
    wait(&mut practice, 2);
    assert!(get::<Unit>(&practice, unit).health < UNIT_HEALTH);
    assert!(get::<Unit>(&practice, unit).walks(), "it goes on");
}

#[test]
fn a_unit_that_is_on_its_way_is_never_far_from_the_place_that_is_sent() {
    let (mut practice, _, unit) = with_unit([10, 80]);
    let target = practice.simulation.game.node_near(Point::new(90.0, 10.0)).0 as u16;
    let by = player(&practice, 1);
    practice.simulation.ask(unit, Action::Order { target }, by);
    let (mut told, mut last) = (0, get::<Unit>(&practice, unit));
    for _ in 0..600 {
        practice.step();
        let now = get::<Unit>(&practice, unit);
        told += u32::from(now != last);
        last = now;
        let here = practice.simulation.game.unit_at(&now, practice.tick());
        assert!(here.distance(kinds::point(now.pos)) <= unit::STRAYS);
    }
    assert!(!last.walks(), "it has arrived");
    assert!((3..12).contains(&told), "told {told} times");
}

#[test]
fn a_unit_that_is_shot_down_comes_back_to_its_player_and_follows() {
    let (mut practice, avatar, unit) = with_unit([10, 80]);
    let enemy = put(&mut practice, 2, [90, 90], 2);
    let mate = put(&mut practice, 3, [90, 85], 1);
    practice.simulation.ask(unit, hit(200), Requester::Object(mate));
    practice.step();
    assert_eq!(get::<Unit>(&practice, unit).health, UNIT_HEALTH, "not by its own team");
    practice.simulation.ask(unit, hit(200), Requester::Object(enemy));
    let downed = ArenaEvent::Downed { player: 1, unit: 0, by: 2 };
    assert!(practice.step().iter().any(|(_, event)| *event == downed));
    let by = player(&practice, 1);
    practice.simulation.ask(unit, Action::Follow, by);
    practice.step();
    assert_eq!(get::<Unit>(&practice, unit).duty, Duty::Down, "it hears no orders");
    let away = practice.simulation.game.ticks(unit::AWAY_MS);
    wait(&mut practice, away + 20);
    let back = get::<Unit>(&practice, unit);
    assert_eq!((back.health, back.duty), (UNIT_HEALTH, Duty::Follow));
    assert_eq!(back.pos, get::<Avatar>(&practice, avatar).pos);
    edit(&mut practice, avatar, |avatar| avatar.pos = [80.0, 80.0]);
    wait(&mut practice, 600);
    let there = get::<Unit>(&practice, unit);
    let far = kinds::point(there.pos).distance(Point::new(80.0, 80.0));
    assert!(far <= unit::FOLLOWS + 8.0, "{far} {there:?}");
    let by = player(&practice, 1);
    practice.simulation.ask(unit, Action::Stay, by);
    edit(&mut practice, avatar, |avatar| avatar.pos = [10.0, 10.0]);
    wait(&mut practice, 60);
    assert_eq!(get::<Unit>(&practice, unit).pos, there.pos);
}

#[test]
fn a_player_steers_a_unit_while_the_avatar_stands() {
    let (mut practice, avatar, unit) = with_unit([10, 80]);
    let victim = put(&mut practice, 2, [36, 80], 2);
    let before = get::<Avatar>(&practice, avatar);
    let walk = ArenaInput { forward: 127, strafe: 0, yaw: EAST };
    for tick in 0..20 {
        let fire = (tick == 19).then_some(practice.tick().0);
        practice.simulation.input(avatar, Controls { walk, fire, hands: Hands::Unit(0) });
        practice.step();
    }
    let mut darts = practice.step().to_vec();
    darts.retain(|(_, event)| {
        matches!(event, ArenaEvent::Shot { weapon: Weapon::Dart, unit: 1, .. })
    });
    practice.step();
    assert_eq!(get::<Avatar>(&practice, avatar), before, "the avatar stands");
    let moved = get::<Unit>(&practice, unit);
    assert!((19.5..=20.1).contains(&moved.pos[0]), "ten units in a second: {moved:?}");
    assert_eq!((darts.len(), moved.duty), (1, Duty::Guard));
    let cost = Weapon::Dart.make().damage_at(15.0);
    assert_eq!(get::<Avatar>(&practice, victim).health, HEALTH - cost);
}

#[test]
fn only_its_players_avatar_steers_a_unit() {
    let (mut practice, avatar, unit) = with_unit([10, 80]);
    let other = put(&mut practice, 2, [30, 30], 1);
    let steer =
        Action::Steer { walk: ArenaInput { forward: 127, ..ArenaInput::default() }, fire: None };
    let before = get::<Unit>(&practice, unit);
    for by in [player(&practice, 1), player(&practice, 2), Requester::Object(other)] {
        practice.simulation.ask(unit, steer, by);
    }
    practice.step();
    assert_eq!(get::<Unit>(&practice, unit), before);
    practice.simulation.ask(unit, steer, Requester::Object(avatar));
    practice.step();
    assert_ne!(get::<Unit>(&practice, unit).pos, before.pos);
}
