use super::*;
use crate::fixed::SUBUNITS;
use crate::movement::{MAX_SPEED, longest_step};

const HZ: usize = 20;

fn arena(seed: u64) -> Arc<ArenaMap> {
    Arc::new(ArenaMap::generate(seed, 200.0, 80))
}

/// FNV-1a over all bodies.
fn fingerprint(bots: &RoamingBots) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for i in 0..bots.len() {
        let Body { place, velocity, yaw } = bots.body(i);
        let yaw = i32::from(yaw.0);
        for value in [place.x, place.y, velocity.x, velocity.y, yaw] {
            for byte in value.to_le_bytes() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    hash
}

fn after(mut bots: RoamingBots, ticks: usize) -> RoamingBots {
    for _ in 0..ticks {
        bots.step();
    }
    bots
}

#[test]
fn one_seed_gives_one_walk_and_another_seed_another() {
    let walk = |seed| fingerprint(&after(RoamingBots::new(arena(1), 50, seed), 1_000));
    assert_eq!(walk(7), walk(7));
    assert_ne!(walk(7), walk(8));
}

#[test]
fn a_bots_walk_does_not_depend_on_how_many_others_there_are() {
    let few = after(RoamingBots::new(arena(1), 3, 7), 500);
    let many = after(RoamingBots::new(arena(1), 60, 7), 500);
    assert_eq!(few.body(2), many.body(2));
}

#[test]
fn bots_are_never_inside_an_obstacle() {
    for seed in 0..4 {
        let map = arena(seed);
        let mut bots = RoamingBots::new(map.clone(), 60, seed);
        for _ in 0..1_500 {
            bots.step();
            for i in 0..bots.len() {
                assert!(map.is_free(bots.position(i), AVATAR_RADIUS - 1e-9));
            }
        }
    }
}

#[test]
fn bots_come_to_nearly_every_part_of_the_map() {
    const CELL: f64 = 10.0;
    const CELLS: usize = 20;
    for seed in 0..4 {
        let mut bots = RoamingBots::new(arena(seed), 100, seed);
        let mut visited = vec![false; CELLS * CELLS];
        for _ in 0..5 * 60 * HZ {
            bots.step();
            for i in 0..bots.len() {
                let p = bots.position(i);
                visited[(p.y / CELL) as usize * CELLS + (p.x / CELL) as usize] = true;
            }
        }
        let share = visited.iter().filter(|v| **v).count() as f64 / visited.len() as f64;
        assert!(share > 0.97, "seed {seed}: {share}");
    }
}

#[test]
fn no_bot_stays_in_one_spot_for_more_than_five_seconds() {
    for (seed, count) in [(0, 80), (1, 80), (2, 300)] {
        let map = Arc::new(ArenaMap::generate(seed, 200.0, count));
        let mut bots = RoamingBots::new(map, 100, seed);
        let mut since: Vec<(Point, usize)> = (0..100).map(|i| (bots.position(i), 0)).collect();
        for tick in 0..5 * 60 * HZ {
            bots.step();
            for (i, (spot, start)) in since.iter_mut().enumerate() {
                if bots.position(i).distance(*spot) > 1.0 {
                    (*spot, *start) = (bots.position(i), tick);
                }
                assert!(tick - *start <= 5 * HZ, "bot {i} of seed {seed} at {spot:?}");
            }
        }
    }
}

#[test]
fn speeds_stay_within_the_limit_and_bots_mostly_run() {
    for hz in [10, 20, 64] {
        let rate = TickRate::new(hz).expect("in range");
        let mut bots = RoamingBots::with_rate(arena(3), 50, 3, rate);
        let longest = longest_step(bots.world.collision.pace()) as f64 / f64::from(SUBUNITS);
        let (mut sum, mut samples) = (0.0, 0);
        for _ in 0..60 * hz {
            let before: Vec<Point> = (0..50).map(|i| bots.position(i)).collect();
            bots.step();
            for (i, from) in before.iter().enumerate() {
                let speed = bots.velocity(i).length();
                assert!(speed <= MAX_SPEED as f64);
                assert!(from.distance(bots.position(i)) <= longest);
                (sum, samples) = (sum + speed, samples + 1);
            }
        }
        let mean = sum / f64::from(samples);
        assert!((6.0..9.0).contains(&mean), "mean speed {mean} at {hz} Hz");
    }
}

#[test]
fn gazes_turn_no_faster_than_the_limit_and_follow_the_walk() {
    let mut bots = RoamingBots::new(arena(4), 50, 4);
    let (mut forward, mut walking) = (0, 0);
    for _ in 0..2_000 {
        let before: Vec<Yaw> = (0..50).map(|i| bots.body(i).yaw).collect();
        bots.step();
        for (i, yaw) in before.iter().enumerate() {
            assert!(yaw.turn_to(bots.body(i).yaw).abs() <= MAX_TURN_PER_SECOND / HZ as i32);
            let (facing, velocity) = (bots.facing(i), bots.velocity(i));
            assert!((facing.length() - 1.0).abs() < 1e-3);
            if velocity.length() > 5.0 {
                walking += 1;
                // Within 30°.
                forward += usize::from(facing.dot(velocity) > 0.866 * velocity.length());
            }
        }
    }
    let share = f64::from(forward as u32) / f64::from(walking);
    assert!((0.8..1.0).contains(&share), "{share} look where they walk");
}

#[test]
fn waits_last_from_nothing_to_three_seconds_and_bots_look_around() {
    let mut bots = RoamingBots::new(arena(5), 100, 5);
    let mut waited = [0usize; 100];
    let mut turned = [0i32; 100];
    let (mut waits, mut turns) = (Vec::new(), Vec::new());
    for _ in 0..3_000 {
        let before: Vec<Yaw> = (0..100).map(|i| bots.body(i).yaw).collect();
        bots.step();
        for i in 0..100 {
            if bots.is_waiting(i) {
                waited[i] += 1;
                turned[i] += before[i].turn_to(bots.body(i).yaw).abs();
            } else if waited[i] > 0 {
                waits.push(std::mem::take(&mut waited[i]));
                turns.push(std::mem::take(&mut turned[i]));
            }
        }
    }
    assert!(waits.len() > 500);
    assert!(waits.iter().all(|&ticks| ticks <= 3 * HZ + 1));
    let mean = waits.iter().sum::<usize>() as f64 / waits.len() as f64 / HZ as f64;
    assert!((1.3..1.7).contains(&mean), "mean wait {mean} s");
    // A quarter turn, on average.
    assert!(turns.iter().sum::<i32>() / turns.len() as i32 > 16_384);
}

#[test]
fn bots_wait_only_at_nodes() {
    let map = arena(6);
    let graph = map.graph();
    let goals: Vec<Point> = graph.node_indices().map(|node| graph.node(node).place).collect();
    let mut bots = RoamingBots::new(map.clone(), 30, 6);
    let mut waited = 0;
    for _ in 0..3_000 {
        bots.step();
        for i in (0..30).filter(|&i| bots.is_waiting(i)) {
            let off = goals.iter().map(|g| g.distance(bots.position(i))).fold(f64::MAX, f64::min);
            assert!(off < STRAY + PASS + 1.5, "{off} from any goal");
            waited += 1;
        }
    }
    assert!(waited > 1_000, "{waited}");
}

#[test]
fn a_bot_that_cannot_get_on_plans_anew_after_a_second() {
    let map = arena(7);
    let wall = map.obstacles()[0].outline().vertices();
    let inside = wall[0] + (wall[2] - wall[0]) * 0.5;
    let mut bots = after(RoamingBots::new(map.clone(), 1, 7), 4 * HZ);
    assert!(!bots.is_waiting(0));
    // It stands at a wall, and its aim behind the wall cannot be reached.
    let graph = map.graph();
    let near = nearest_node(&bots.world, inside);
    bots.bots[0].body = Body::at(Place::near(graph.node(near).place));
    bots.bots[0].aim = inside;
    bots.bots[0].cut = 0.0;
    let ticks = (1..).take(5 * HZ).find(|_| {
        bots.step();
        bots.bots[0].aim != inside
    });
    assert!(ticks.is_some_and(|t| (HZ..=3 * HZ).contains(&t)), "{ticks:?}");
}

#[test]
fn stepping_allocates_nothing_once_the_buffers_have_grown() {
    let capacities =
        |bots: &RoamingBots| bots.bots.iter().map(|b| b.path.capacity()).collect::<Vec<_>>();
    let warm = after(RoamingBots::new(arena(8), 100, 8), 2_000);
    let before = capacities(&warm);
    assert_eq!(before, capacities(&after(warm, 8_000)));
}

#[test]
fn the_smallest_map_and_the_emptiest_have_bots_too() {
    for map in [ArenaMap::generate(1, 16.0, 50), ArenaMap::generate(1, 64.0, 0)] {
        let map = Arc::new(map);
        let bots = after(RoamingBots::new(map.clone(), 5, 1), 2_000);
        assert!((0..5).all(|i| map.is_free(bots.position(i), AVATAR_RADIUS - 1e-9)));
        assert!(after(RoamingBots::new(map, 0, 1), 3).is_empty());
    }
}
