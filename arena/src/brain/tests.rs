use super::*;
use crate::game::kinds::{TeamBase, point};
use crate::game::{ArenaEvent, Setup};
use crate::practice::Practice;
use foveate_node::game::{Game, Scene};
use foveate_wire::{KindId, Metres, Position, Schema, Tick};

const MINUTES: u32 = 2;
const BOTS: usize = 60;

#[test]
fn a_match_is_lively_and_no_bot_camps() {
    let mut practice = Practice::new(Setup::for_players(BOTS, 1), BOTS).unwrap();
    let (mut kills, mut captures, mut taken) = (0, 0, 0);
    let (mut alive, mut moving, mut teams_hold) = (0, 0, [0; 3]);
    let mut stands = vec![(Point::new(0.0, 0.0), 0); BOTS];
    for tick in 0..MINUTES * 60 * 20 {
        practice.think();
        for (_, event) in practice.step() {
            kills += u32::from(matches!(event, ArenaEvent::Died { .. }));
            captures += u32::from(matches!(event, ArenaEvent::Captured { .. }));
            taken += u32::from(matches!(event, ArenaEvent::Taken { .. }));
        }
        let world = practice.simulation.world();
        for (_, base) in world.iter::<TeamBase>() {
            teams_hold[usize::from(base.team)] += 1;
        }
        for (id, avatar) in world.iter::<Avatar>() {
            let (spot, since) = &mut stands[id.origin() as usize - 1];
            if !avatar.is_alive() || spot.distance(avatar.point()) > 2.0 {
                (*spot, *since) = (avatar.point(), tick);
            }
            assert!(tick - *since < 10 * 20, "player {} stands at {spot:?}", id.origin());
            alive += u32::from(avatar.is_alive());
            moving += u32::from(avatar.is_alive() && avatar.vx.hypot(avatar.vy) > 0.1);
        }
    }
    println!("{kills} kills, {captures} captures, {taken} taken, {moving} of {alive} moving");
    println!("bases held by no team, team 1, team 2: {teams_hold:?}");
    assert!((30 * MINUTES..=240 * MINUTES).contains(&kills), "{kills} kills");
    assert!((5 * MINUTES..=60 * MINUTES).contains(&captures), "{captures} captures");
    assert!(taken >= 5 * MINUTES, "{taken} items taken");
    assert!(moving * 10 >= alive * 8, "{moving} of {alive}");
    assert!(teams_hold[1].min(teams_hold[2]) * 5 > teams_hold[0] + teams_hold[1] + teams_hold[2]);
}

#[test]
fn experts_kill_more_than_novices() {
    let mut practice = Practice::new(Setup::for_players(48, 9), 48).unwrap();
    for _ in 0..3 * 60 * 20 {
        practice.think();
        practice.step();
    }
    let world = practice.simulation.world();
    let kills = |skill: Skill| {
        let of = (0..48).filter(|index| Skill::mixed(*index) == skill);
        let kills =
            of.map(|index| world.get::<Avatar>(Avatar::of(index as u32 + 1)).unwrap().kills);
        kills.map(u32::from).sum::<u32>()
    };
    let (expert, novice) = (kills(Skill::Expert), kills(Skill::Novice));
    assert!(expert * 2 > novice * 3, "{expert} by experts, {novice} by novices");
}

/// A client that only knows its own avatar.
struct Own<'a>(&'a Schema, ObjectId, Vec<i32>);

impl Scene for Own<'_> {
    fn schema(&self) -> &Schema {
        self.0
    }
    fn read(&self, id: ObjectId, _: Option<Tick>, lanes: &mut [i32]) -> bool {
        let mine = id == self.1;
        if mine {
            lanes.copy_from_slice(&self.2);
        }
        mine
    }
    fn near(&self, _: Position, _: Metres, _: &mut Vec<ObjectId>) {}
    fn of_kind(&self, _: KindId, _: &mut Vec<ObjectId>) {}
}

#[test]
fn a_bot_that_knows_nothing_but_itself_walks_about_and_does_not_fire() {
    let mut practice = Practice::new(Setup::for_players(20, 3), 20).unwrap();
    let arena = Arc::clone(&practice.simulation.game);
    let me = Avatar::of(1);
    let mut fighter = Fighter::new(Arc::clone(&arena), Skill::Expert, 1, 1);
    practice.step();
    let start = practice.simulation.world().get::<Avatar>(me).unwrap().point();
    let mut farthest = 0.0f64;
    for _ in 0..600 {
        let slot = practice.simulation.publisher.store.find(me).unwrap();
        let lanes = practice.simulation.publisher.store.lanes(slot).to_vec();
        let own = Own(arena.schema(), me, lanes);
        let world = World::new(&own, practice.tick());
        let controls = fighter.think(&world, me, &mut Vec::new());
        assert!(controls.fire.is_none() && arena.allows(&controls));
        practice.simulation.input(me, controls);
        practice.step();
        let at = practice.simulation.world().get::<Avatar>(me).unwrap().pos;
        farthest = farthest.max(start.distance(point(at)));
    }
    assert!(farthest > 30.0, "{farthest}");
}
