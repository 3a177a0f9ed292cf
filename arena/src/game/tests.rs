//! One behaviour of the rules each: in small hand-made worlds, and in matches of bots.

use super::kinds::{HEALTH, TAKEN, ticks_left};
use super::*;
use crate::geometry::ConvexPolygon;
use crate::practice::Practice;
use foveate_node::game::{EventArea, GameViews};

mod cheats;
mod prediction;
mod rounds;
mod units;
mod weapons;

const EAST: u16 = 0;
const NORTH: u16 = 16_384;

/// A map of 100 × 100 with one wall across its middle, from (48, 30) to (52, 70).
fn walled(units: u32) -> Practice {
    let corners = [(48.0, 30.0), (52.0, 30.0), (52.0, 70.0), (48.0, 70.0)];
    let wall = ConvexPolygon::new(corners.map(|(x, y)| Point::new(x, y)).to_vec()).unwrap();
    let map = Arc::new(ArenaMap::with_obstacles(100.0, vec![wall]));
    let setup = Setup { bases: 0, items: 0, units, ..Setup::for_players(8, 1) };
    Practice::on(Arc::new(Arena::on(map, setup).unwrap())).unwrap()
}

fn wait(practice: &mut Practice, ticks: u32) {
    for _ in 0..ticks {
        practice.step();
    }
}

fn put(practice: &mut Practice, player: u32, at: [i32; 2], team: u8) -> ObjectId {
    let place = Place { x: at[0] * 256, y: at[1] * 256 };
    spawn(practice, player, &Avatar::at(place, team))
}

fn spawn<T: Replicate>(practice: &mut Practice, player: u32, value: &T) -> ObjectId {
    let spawn = Spawn::new(practice.simulation.game.schema(), value).unwrap();
    let id = practice.simulation.spawn(PlayerId(player), &spawn).unwrap();
    practice.step();
    id
}

fn get<T: Replicate>(practice: &Practice, id: ObjectId) -> T {
    practice.simulation.world().get(id).unwrap()
}

fn edit(practice: &mut Practice, id: ObjectId, change: impl FnOnce(&mut Avatar)) {
    let mut avatar: Avatar = get(practice, id);
    change(&mut avatar);
    let slot = practice.simulation.publisher.store.find(id).unwrap();
    practice.simulation.publisher.store.set(slot, &avatar).unwrap();
}

/// The damage of a blaster's hit at a distance.
fn blaster(distance: f64) -> u8 {
    Weapon::Blaster.make().damage_at(distance)
}

fn hit(damage: u8) -> Action {
    Action::Hit { damage, weapon: Weapon::Dart }
}

/// Fires one shot, and plays the tick in which the victim receives it. Returns the victim's health.
fn fire(practice: &mut Practice, by: ObjectId, yaw: u16, seen: Tick, victim: ObjectId) -> u8 {
    let walk = ArenaInput { yaw, ..ArenaInput::default() };
    assert!(
        practice.simulation.input(by, Controls { walk, fire: Some(seen.0), ..Controls::default() })
    );
    practice.step();
    practice.step();
    get::<Avatar>(practice, victim).health
}

#[test]
fn a_shot_hits_the_first_enemy_in_range_and_passes_mates() {
    let mut practice = walled(0);
    let shooter = put(&mut practice, 1, [10, 20], 1);
    let mate = put(&mut practice, 2, [15, 20], 1);
    let near = put(&mut practice, 3, [20, 20], 2);
    let behind = put(&mut practice, 4, [25, 20], 2);
    let now = practice.tick();
    assert_eq!(fire(&mut practice, shooter, EAST, now, near), HEALTH - blaster(9.0));
    assert_eq!(get::<Avatar>(&practice, mate).health, HEALTH);
    assert_eq!(get::<Avatar>(&practice, behind).health, HEALTH);
    let too_far = put(&mut practice, 5, [10, 20 + Weapon::Blaster.make().reach as i32 + 2], 2);
    wait(&mut practice, 20);
    let now = practice.tick();
    assert_eq!(fire(&mut practice, shooter, NORTH, now, too_far), HEALTH);
}

#[test]
fn a_shot_through_a_wall_does_not_hit() {
    let mut practice = walled(0);
    let shooter = put(&mut practice, 1, [40, 50], 1);
    let victim = put(&mut practice, 2, [60, 50], 2);
    let now = practice.tick();
    assert_eq!(fire(&mut practice, shooter, EAST, now, victim), HEALTH);
    let mut practice = walled(0);
    let shooter = put(&mut practice, 1, [40, 75], 1);
    let victim = put(&mut practice, 2, [60, 75], 2);
    let now = practice.tick();
    assert!(fire(&mut practice, shooter, EAST, now, victim) < HEALTH, "past the wall's end");
}

#[test]
fn a_weapon_fires_no_faster_than_its_cooldown() {
    let mut practice = walled(0);
    let shooter = put(&mut practice, 1, [10, 20], 1);
    let victim = put(&mut practice, 2, [20, 20], 2);
    let mut shots = 0;
    for _ in 0..20 {
        let seen = practice.tick().0;
        for _ in 0..2 {
            practice
                .simulation
                .input(shooter, Controls { fire: Some(seen), ..Controls::default() });
        }
        let shot = |(_, event): &&(EventArea, ArenaEvent)| matches!(event, ArenaEvent::Shot { .. });
        shots += practice.step().iter().filter(shot).count();
    }
    assert_eq!(shots, 3, "one second holds shots at 0, 400 and 800 ms");
    practice.step();
    assert_eq!(get::<Avatar>(&practice, victim).health, HEALTH - 3 * blaster(9.0));
}

#[test]
fn a_victim_that_moved_since_the_shooter_looked_is_hit_within_the_limit() {
    let limit = 10;
    for (late, is_hit) in [(1, true), (limit - 1, true), (limit + 3, false)] {
        let mut practice = walled(0);
        let shooter = put(&mut practice, 1, [10, 20], 1);
        let victim = put(&mut practice, 2, [20, 20], 2);
        assert_eq!(practice.simulation.game.ticks(weapon::LAG_MS), limit);
        let seen = practice.tick();
        edit(&mut practice, victim, |avatar| avatar.pos[1] += 4.0);
        wait(&mut practice, late);
        let health = fire(&mut practice, shooter, EAST, seen, victim);
        assert_eq!(health < HEALTH, is_hit, "{late} ticks later");
        assert_eq!(get::<Avatar>(&practice, victim).pos[1], 24.0, "it did move");
    }
}

#[test]
fn a_death_scores_once_and_the_dead_come_back_elsewhere() {
    let mut practice = walled(0);
    let killer = put(&mut practice, 1, [10, 20], 1);
    let victim = put(&mut practice, 2, [20, 20], 2);
    edit(&mut practice, victim, |avatar| avatar.health = 1);
    practice.step();
    // A second hit in the same tick finds the victim dead.
    let unit = Unit::at(Place { x: 2_560, y: 5_120 }, 1);
    let by = Requester::Object(spawn(&mut practice, 1, &unit));
    practice.simulation.ask(victim, hit(1), by);
    practice.simulation.ask(victim, hit(9), by);
    wait(&mut practice, 3);
    let (k, v) = (get::<Avatar>(&practice, killer), get::<Avatar>(&practice, victim));
    assert_eq!((k.kills, k.score, v.deaths, v.health), (1, avatar::POINTS.0, 1, 0));
    assert_eq!(get::<Match>(&practice, Match::ID).first, 1);
    let away = practice.simulation.game.ticks(avatar::AWAY_MS);
    wait(&mut practice, away);
    let back = get::<Avatar>(&practice, victim);
    assert_eq!(back.health, HEALTH);
    assert!(back.point().distance(k.point()) > 20.0, "away from enemies");
}

#[test]
fn players_cannot_request_actions_of_rules() {
    let mut practice = walled(1);
    let me = put(&mut practice, 1, [10, 20], 1);
    let other = put(&mut practice, 2, [20, 20], 2);
    let by = Requester::Player(PlayerId(1), practice.tick());
    for action in [hit(99), Action::Killed, Action::Captured] {
        practice.simulation.ask(other, action, by);
        practice.simulation.ask(me, action, by);
    }
    practice.simulation.ask(Match::ID, Action::Point { team: 1 }, by);
    wait(&mut practice, 2);
    let (a, b) = (get::<Avatar>(&practice, me), get::<Avatar>(&practice, other));
    assert_eq!((a.health, a.kills, a.score, b.health), (HEALTH, 0, 0, HEALTH));
    assert_eq!(get::<Match>(&practice, Match::ID).first, 0);
}

#[test]
fn a_base_is_taken_by_the_majority_and_earns_points() {
    let mut practice = walled(0);
    let base = TeamBase { pos: [20.0, 20.0], team: 0, progress: 0, from: 0, to: 0, round: 0 };
    let base = spawn(&mut practice, 0, &base);
    for (player, team) in [(1, 1), (2, 1), (3, 2)] {
        put(&mut practice, player, [20 + player as i32, 20], team);
    }
    let captured = |practice: &mut Practice, ticks: u32| {
        let events = (0..ticks).flat_map(|_| {
            // The base wanders on, and the avatars with it.
            let at = get::<TeamBase>(practice, base).pos;
            (1..=3).for_each(|player| {
                let id = Avatar::of(player);
                if practice.simulation.publisher.store.find(id).is_some() {
                    edit(practice, id, |avatar| avatar.pos = at);
                }
            });
            practice.step().iter().map(|(_, event)| *event).collect::<Vec<_>>()
        });
        events.filter(|event| matches!(event, ArenaEvent::Captured { .. })).collect::<Vec<_>>()
    };
    assert_eq!(captured(&mut practice, 300), [ArenaEvent::Captured { team: 1 }]);
    assert_eq!(get::<TeamBase>(&practice, base).team, 1);
    assert!(get::<Match>(&practice, Match::ID).first > 0);
    assert_eq!(get::<Avatar>(&practice, Avatar::of(1)).score, avatar::POINTS.1);
    assert_eq!(get::<Avatar>(&practice, Avatar::of(3)).score, 0);
    for player in [1, 2] {
        let slot = practice.simulation.publisher.store.find(Avatar::of(player)).unwrap();
        practice.simulation.publisher.store.remove(slot).unwrap();
    }
    assert_eq!(captured(&mut practice, 500), [ArenaEvent::Captured { team: 2 }]);
    assert_eq!(get::<TeamBase>(&practice, base).progress, TAKEN);
}

#[test]
fn an_item_has_one_holder_who_loses_it_by_dying() {
    let mut practice = walled(0);
    let item = Item { pos: [20.0, 20.0], charm: Charm::Shield, holder: 0, until: 0, round: 0 };
    let item = spawn(&mut practice, 0, &item);
    let far = put(&mut practice, 1, [30, 20], 1);
    let near = put(&mut practice, 2, [21, 20], 2);
    put(&mut practice, 3, [19, 20], 1);
    let now = practice.tick();
    for player in [1, 2, 3] {
        practice.simulation.ask(item, Action::Take, Requester::Player(PlayerId(player), now));
    }
    practice.step();
    assert_eq!(get::<Item>(&practice, item).holder, 2, "the first within reach");
    let hit = fire(&mut practice, far, 32_768, now, near);
    assert_eq!(hit, HEALTH - blaster(8.0) / 2, "a shield halves the damage");
    practice.simulation.ask(item, Action::Drop, Requester::Player(PlayerId(1), now));
    practice.step();
    assert_eq!(get::<Item>(&practice, item).holder, 2, "only the holder may drop it");
    let back = kinds::ticks_ahead(practice.tick(), 50);
    edit(&mut practice, near, |avatar| {
        (avatar.health, avatar.pos[0], avatar.ready) = (0, 25.0, back)
    });
    wait(&mut practice, 5);
    let lies = get::<Item>(&practice, item);
    assert_eq!((lies.holder, lies.pos), (0, [25.0, 20.0]));
}

#[test]
fn a_unit_goes_by_the_computed_way_and_stops_at_an_enemy() {
    let mut practice = walled(1);
    let unit = Unit::at(Place { x: 2_560, y: 12_800 }, 1);
    put(&mut practice, 1, [10, 40], 1);
    let unit = spawn(&mut practice, 1, &unit);
    assert_eq!(unit, Arena::unit(1, 0));
    let arena = Arc::clone(&practice.simulation.game);
    let target = arena.node_near(Point::new(90.0, 50.0)).0 as u16;
    let now = practice.tick();
    practice.simulation.ask(unit, Action::Order { target }, Requester::Player(PlayerId(2), now));
    practice.step();
    assert!(!get::<Unit>(&practice, unit).walks(), "another player's order");
    practice.simulation.ask(unit, Action::Order { target }, Requester::Player(PlayerId(1), now));
    practice.step();
    let order = get::<Unit>(&practice, unit);
    let elsewhere = Arena::on(Arc::clone(arena.map()), *arena.setup()).unwrap();
    for _ in 0..40 {
        practice.step();
        let tick = practice.tick();
        assert_eq!(get::<Unit>(&practice, unit), order, "nothing to tell on the way");
        assert_eq!(arena.unit_at(&order, tick), elsewhere.unit_at(&order, tick));
        assert!(arena.map().is_free(arena.unit_at(&order, tick), 1.0));
    }
    let ahead = Place::near(arena.unit_at(&order, practice.tick().plus(20)));
    spawn(&mut practice, 2, &Avatar::at(ahead, 2));
    wait(&mut practice, 50);
    let stopped = get::<Unit>(&practice, unit);
    assert!(!stopped.walks());
    assert!(kinds::point(stopped.pos).distance(ahead.point()) < unit::COLLISION);
    assert!(get::<Avatar>(&practice, Avatar::of(2)).health < HEALTH, "it guards where it stands");
}

#[test]
fn teams_are_balanced_and_rounds_end_with_a_winner() {
    let setup = Setup { round_seconds: 5, break_seconds: 0, ..Setup::for_players(9, 3) };
    let mut practice = Practice::new(setup, 9).unwrap();
    practice.step();
    let world = practice.simulation.world();
    let firsts =
        world.of_kind(AVATAR).into_iter().filter(|id| world.get::<Avatar>(*id).unwrap().team == 1);
    assert!((4..=5).contains(&firsts.count()));
    let mut won = 0;
    for _ in 0..220 {
        practice.think();
        let is_won =
            |(_, event): &&(EventArea, ArenaEvent)| matches!(event, ArenaEvent::Won { .. });
        won += practice.step().iter().filter(is_won).count();
    }
    assert_eq!(won, 2);
    let contest = get::<Match>(&practice, Match::ID);
    assert_eq!(contest.round, 2);
    assert!(ticks_left(contest.ends as u16, practice.tick(), 100) > 0);
    assert_eq!(get::<Avatar>(&practice, Avatar::of(1)).round, 2);
}

/// FNV-1a over all objects' lanes.
fn fingerprint(practice: &Practice) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for (id, slot) in practice.simulation.publisher.store.iter() {
        let lanes = practice.simulation.publisher.store.lanes(slot);
        let words = lanes.iter().map(|lane| *lane as u64).chain([id.0]);
        words.for_each(|word| hash = (hash ^ word).wrapping_mul(0x0100_0000_01b3));
    }
    hash
}

#[test]
fn one_seed_gives_one_match_and_another_seed_another() {
    let play = |seed| {
        let mut practice = Practice::new(Setup::for_players(32, seed), 32).unwrap();
        for _ in 0..600 {
            practice.think();
            practice.step();
        }
        fingerprint(&practice)
    };
    assert_eq!(play(5), play(5));
    assert_ne!(play(5), play(6));
}

#[test]
fn items_are_neither_doubled_nor_lost_and_scores_add_up() {
    let setup = Setup { items: 16, ..Setup::for_players(64, 2) };
    let mut practice = Practice::new(setup, 64).unwrap();
    let (mut taken, mut dropped, mut died) = (0, 0, 0);
    for tick in 0..1_200 + 40 {
        // In the end no player acts any more, so that all requests are carried out.
        if tick < 1_200 {
            practice.think();
        }
        for (_, event) in practice.step() {
            taken += usize::from(matches!(event, ArenaEvent::Taken { .. }));
            dropped += usize::from(matches!(event, ArenaEvent::Dropped { .. }));
            died += usize::from(matches!(event, ArenaEvent::Died { .. }));
        }
        let world = practice.simulation.world();
        let items: Vec<Item> = world.iter::<Item>().map(|(_, item)| item).collect();
        assert_eq!(items.len(), 16);
        let held = items.iter().filter(|item| item.holder != 0);
        assert!(held.clone().all(|item| world.get::<Avatar>(Avatar::of(item.holder)).is_some()));
        assert_eq!(taken - dropped, held.count(), "tick {tick}");
    }
    let world = practice.simulation.world();
    let avatars: Vec<Avatar> = world.iter::<Avatar>().map(|(_, avatar)| avatar).collect();
    let sum = |of: fn(&Avatar) -> u16| avatars.iter().map(|a| usize::from(of(a))).sum::<usize>();
    assert!(taken > 5 && died > 20, "{taken} taken, {died} died");
    assert_eq!((sum(|a| a.kills), sum(|a| a.deaths)), (died, died));
    assert_eq!(practice.simulation.dropped(), 0);
}

#[test]
fn no_avatar_is_ever_inside_an_obstacle() {
    for seed in 0..2 {
        let mut practice = Practice::new(Setup::for_players(40, seed), 40).unwrap();
        for _ in 0..800 {
            practice.think();
            practice.step();
            let (world, arena) = (practice.simulation.world(), &practice.simulation.game);
            for (_, avatar) in world.iter::<Avatar>() {
                assert!(arena.collision().is_free(kinds::place(avatar.pos)), "{avatar:?}");
            }
        }
    }
}

#[test]
fn inputs_out_of_range_are_refused_and_views_are_two() {
    let arena = Arena::new(Setup::for_players(8, 1)).unwrap();
    assert!(arena.allows(&Controls::default()));
    let walk = ArenaInput { strafe: i8::MIN, ..ArenaInput::default() };
    assert!(!arena.allows(&Controls { walk, ..Controls::default() }));
    let views = GameViews(&arena);
    assert!((0..2).all(|which| arena.view(which).unwrap().build_in(&views).is_ok()));
    assert!(arena.view(2).is_none());
}

#[test]
fn pivots_are_the_avatar_and_the_units_that_stand() {
    let mut practice = Practice::new(Setup { units: 2, ..Setup::for_players(4, 1) }, 1).unwrap();
    practice.step();
    let eyes = |practice: &Practice| {
        let mut eyes = Vec::new();
        practice.simulation.game.eyes(&practice.simulation.world(), Avatar::of(1), &mut eyes);
        eyes
    };
    assert_eq!(eyes(&practice), [Avatar::of(1), Arena::unit(1, 0), Arena::unit(1, 1)]);
    let by = Requester::Player(PlayerId(1), practice.tick());
    practice.simulation.ask(Arena::unit(1, 0), Action::Order { target: 3 }, by);
    practice.step();
    assert_eq!(eyes(&practice), [Avatar::of(1), Arena::unit(1, 1)]);
    assert_eq!(practice.simulation.game.team(&practice.simulation.world(), Avatar::of(1)), Some(2));
}
