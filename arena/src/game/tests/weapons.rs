//! Weapons: reach, damage, cones, walls, and changing from one to another.

use super::*;

/// A shot of a weapon that is ready. Returns the damage to the victim, and the event.
fn shot(weapon: Weapon, from: [i32; 2], at: [i32; 2], yaw: u16) -> (u8, ArenaEvent) {
    let mut practice = walled(0);
    let by = put(&mut practice, 1, from, 1);
    let victim = put(&mut practice, 2, at, 2);
    edit(&mut practice, by, |avatar| avatar.weapon = weapon);
    practice.step();
    let walk = ArenaInput { yaw, ..ArenaInput::default() };
    let fire = Some(practice.tick().0);
    practice.simulation.input(by, Controls { walk, fire, hands: weapon.into() });
    let event = practice.step().iter().find(|(_, event)| matches!(event, ArenaEvent::Shot { .. }));
    let event = event.unwrap().1;
    practice.step();
    (HEALTH - get::<Avatar>(&practice, victim).health, event)
}

#[test]
fn weapons_reach_as_far_as_they_say_and_cost_less_far_away() {
    for weapon in [Weapon::Blaster, Weapon::Scatter, Weapon::Lance] {
        let (make, name) = (weapon.make(), format!("{weapon:?}"));
        let cost = |far: i32| shot(weapon, [10, 20], [10 + far, 20], EAST).0;
        let reach = make.reach as i32;
        assert_eq!(cost(2), make.damage_at(1.0), "{name}");
        assert_eq!(cost(reach), make.damage_at(make.reach - 1.0), "{name}");
        assert_eq!(cost(reach + 2), 0, "{name}");
        assert!(cost(2) > cost(reach) && cost(reach) > 0, "{name}");
        assert!(make.cooldown_ms <= weapon::LONGEST_MS && make.reach <= weapon::FARTHEST);
    }
    let dps = |weapon: Weapon, far: f64| {
        let make = weapon.make();
        f64::from(make.damage_at(far)) / f64::from(make.cooldown_ms)
    };
    assert!(dps(Weapon::Scatter, 2.0) > dps(Weapon::Blaster, 2.0));
    assert!(dps(Weapon::Blaster, 13.0) > dps(Weapon::Scatter, 13.0));
    assert!(dps(Weapon::Blaster, 30.0) > dps(Weapon::Lance, 30.0), "a lance is for the first shot");
}

#[test]
fn walls_stop_every_weapon_and_events_tell_how_far_shots_went() {
    for weapon in [Weapon::Blaster, Weapon::Scatter, Weapon::Lance] {
        let (cost, event) = shot(weapon, [45, 50], [55, 50], EAST);
        assert_eq!(cost, 0, "{weapon:?}");
        // The wall is three units away.
        let expected = ArenaEvent::Shot { player: 1, unit: 0, weapon, yaw: 0, length: 12, hits: 0 };
        assert_eq!(event, expected);
    }
    let (_, event) = shot(Weapon::Lance, [10, 10], [10, 31], NORTH);
    let weapon = Weapon::Lance;
    assert_eq!(
        event,
        ArenaEvent::Shot { player: 1, unit: 0, weapon, yaw: 256, length: 80, hits: 1 }
    );
}

#[test]
fn a_scatter_hits_all_in_its_cone_and_a_blaster_only_the_first() {
    for (weapon, expected) in
        [(Weapon::Scatter, [true, true, false]), (Weapon::Blaster, [true, false, false])]
    {
        let mut practice = walled(0);
        let by = put(&mut practice, 1, [10, 20], 1);
        let victims = [[15, 20], [20, 22], [15, 25]];
        let victims =
            [2, 3, 4].map(|player| put(&mut practice, player, victims[player as usize - 2], 2));
        let mate = put(&mut practice, 5, [13, 20], 1);
        edit(&mut practice, by, |avatar| avatar.weapon = weapon);
        practice.step();
        let fire = Some(practice.tick().0);
        practice
            .simulation
            .input(by, Controls { fire, hands: weapon.into(), ..Controls::default() });
        wait(&mut practice, 2);
        let hurt = victims.map(|id| get::<Avatar>(&practice, id).health < HEALTH);
        assert_eq!(hurt, expected, "{weapon:?}");
        assert_eq!(get::<Avatar>(&practice, mate).health, HEALTH);
    }
}

#[test]
fn changing_the_weapon_takes_time_and_is_no_way_around_a_cooldown() {
    let mut practice = walled(0);
    let me = put(&mut practice, 1, [10, 20], 1);
    let mut fired = Vec::new();
    let start = practice.tick();
    for tick in 0..50u32 {
        // A lance, then at once a blaster.
        let hands = if tick < 10 { Hands::Lance } else { Hands::Blaster };
        let fire = Some(practice.tick().0);
        practice.simulation.input(me, Controls { fire, hands, ..Controls::default() });
        let shots = practice.step().iter().filter_map(|(_, event)| match event {
            ArenaEvent::Shot { weapon, .. } => Some(*weapon),
            _ => None,
        });
        fired.extend(shots.map(|weapon| (tick, weapon)));
    }
    assert_eq!(start.plus(50), practice.tick());
    let (change, lance) = (6, 32);
    assert_eq!(practice.simulation.game.ticks(weapon::CHANGE_MS), change);
    assert_eq!(fired[0], (change, Weapon::Lance), "{fired:?}");
    assert_eq!(fired[1], (change + lance, Weapon::Blaster), "{fired:?}");
    assert_eq!(fired[2], (change + lance + 8, Weapon::Blaster), "{fired:?}");
}
