//! Rounds: the break, the restart, catching up, healing, and the effects of arbitrary inputs.

use super::*;
use crate::movement::FULL_INPUT;

fn contest(practice: &Practice) -> Match {
    get(practice, Match::ID)
}

#[test]
fn in_the_break_nothing_counts_and_then_all_starts_anew() {
    let setup = Setup { round_seconds: 30, break_seconds: 5, ..Setup::for_players(12, 4) };
    let mut practice = Practice::new(setup, 12).unwrap();
    let mut events = Vec::new();
    practice.step();
    while contest(&practice).phase == RoundPhase::Play {
        practice.think();
        events.extend(practice.step().iter().map(|(_, event)| *event));
    }
    let score = contest(&practice);
    assert_eq!(practice.tick().0, 30 * 20 + 1);
    assert!(score.first + score.second > 0);
    assert!(events.contains(&ArenaEvent::Won { team: score.winner }));
    events.clear();
    while contest(&practice).phase == RoundPhase::Break {
        assert_eq!(
            (contest(&practice).first, contest(&practice).second),
            (score.first, score.second)
        );
        practice.think();
        events.extend(practice.step().iter().map(|(_, event)| *event));
    }
    assert_eq!(practice.tick().0, 35 * 20 + 1);
    let fights = |event: &&ArenaEvent| {
        matches!(event, ArenaEvent::Died { .. } | ArenaEvent::Captured { .. })
    };
    assert_eq!(events.iter().find(fights), None);
    assert_eq!(events.last(), Some(&ArenaEvent::Began { round: 1 }));
    let fresh = contest(&practice);
    assert_eq!((fresh.first, fresh.second, fresh.winner), (0, 0, score.winner));
    wait(&mut practice, 8);
    let world = practice.simulation.world();
    for id in world.of_kind(AVATAR) {
        let avatar = world.get::<Avatar>(id).unwrap();
        assert_eq!((avatar.score, avatar.health, avatar.round), (0, HEALTH, 1));
    }
    for (_, base) in world.iter::<TeamBase>() {
        assert_eq!((base.team, base.round), (0, 1));
    }
    for (_, item) in world.iter::<Item>() {
        assert_eq!((item.holder, item.round), (0, 1));
    }
}

#[test]
fn a_round_and_a_break_end_even_if_their_last_tick_is_skipped() {
    let setup = Setup { round_seconds: 3, break_seconds: 2, ..Setup::for_players(2, 4) };
    let mut practice = Practice::new(setup, 2).unwrap();
    practice.step();
    for phase in [RoundPhase::Play, RoundPhase::Break] {
        assert_eq!(contest(&practice).phase, phase);
        let ends = contest(&practice).ends;
        while practice.tick().0 < ends - 1 {
            practice.step();
        }
        practice.step_to(Tick(ends + 2));
        assert_ne!(contest(&practice).phase, phase, "it should have ended two ticks ago");
    }
    assert_eq!(contest(&practice).round, 1);
}

#[test]
fn a_round_begins_with_the_teams_apart() {
    let practice = Practice::new(Setup::for_players(60, 4), 60).unwrap();
    let store = &practice.simulation.publisher.store;
    let kind = &practice.simulation.game.schema().kinds()[0];
    let avatar =
        |player: u32| Avatar::get(kind, store.lanes(store.find(Avatar::of(player)).unwrap()));
    let avatars: Vec<Avatar> = (1..=60).map(avatar).collect();
    let near = avatars.iter().filter(|a| {
        let enemy = |b: &&Avatar| b.team != a.team && b.point().distance(a.point()) < 20.0;
        avatars.iter().any(|b| enemy(&b))
    });
    assert!(near.count() <= 6);
}

#[test]
fn the_bases_of_a_team_that_is_behind_earn_double() {
    for (lag, earned) in [(0, 1), (40, contest::CATCH_UP)] {
        let mut practice = walled(0);
        let base = TeamBase { pos: [20.0, 20.0], team: 2, progress: 100, from: 0, to: 0, round: 0 };
        spawn(&mut practice, 0, &base);
        let limit = practice.simulation.game.setup().score_limit;
        assert!(limit / contest::BEHIND < 40);
        let slot = practice.simulation.publisher.store.find(Match::ID).unwrap();
        let state = Match { first: lag, ..contest(&practice) };
        practice.simulation.publisher.store.set(slot, &state).unwrap();
        let before = contest(&practice).second;
        wait(&mut practice, 40);
        assert_eq!(contest(&practice).second - before, earned, "{lag} behind");
    }
}

#[test]
fn a_base_heals_its_own_team_and_not_beyond_full_health() {
    let mut practice = walled(0);
    let base = TeamBase { pos: [20.0, 20.0], team: 1, progress: -100, from: 0, to: 0, round: 0 };
    spawn(&mut practice, 0, &base);
    let hurt = put(&mut practice, 1, [21, 20], 1);
    let nearly = put(&mut practice, 2, [19, 20], 1);
    let enemy = put(&mut practice, 3, [20, 21], 2);
    for (id, health) in [(hurt, 50), (nearly, HEALTH - 1), (enemy, 50)] {
        edit(&mut practice, id, |avatar| avatar.health = health);
    }
    wait(&mut practice, 42);
    assert_eq!(get::<Avatar>(&practice, hurt).health, 50 + 2 * base::HEALS.0);
    assert_eq!(get::<Avatar>(&practice, nearly).health, HEALTH);
    assert_eq!(get::<Avatar>(&practice, enemy).health, 50);
}

fn any_action(rng: &mut Rng) -> Action {
    let walk = ArenaInput { forward: rng.i8(..), strafe: rng.i8(..), yaw: rng.u16(..) };
    match rng.usize(0..11) {
        0 => hit(rng.u8(..)),
        1 => Action::Killed,
        2 => Action::Captured,
        3 => Action::Point { team: rng.u8(..) },
        4 => Action::Take,
        5 => Action::Drop,
        6 => Action::Order { target: rng.u16(..) },
        7 => Action::Follow,
        8 => Action::Stay,
        9 => Action::Steer { walk, fire: Some(rng.u32(..)) },
        _ => Action::Heal { health: rng.u8(..) },
    }
}

/// Players press every key and send every action to every object: the rules hold.
#[test]
fn whatever_players_do_items_are_kept_scores_add_up_and_no_avatar_is_in_a_wall() {
    let setup =
        Setup { units: 2, round_seconds: 20, break_seconds: 2, ..Setup::for_players(24, 6) };
    let mut practice = Practice::new(setup, 24).unwrap();
    let (mut rng, mut kills) = (Rng::with_seed(1), 0);
    for _ in 0..1_000 {
        let objects: Vec<ObjectId> =
            practice.simulation.publisher.store.iter().map(|(id, _)| id).collect();
        for player in 1..=24 {
            let key = |rng: &mut Rng| rng.i8(-FULL_INPUT..=FULL_INPUT);
            let walk =
                ArenaInput { forward: key(&mut rng), strafe: key(&mut rng), yaw: rng.u16(..) };
            let hands = [Hands::Blaster, Hands::Scatter, Hands::Lance, Hands::Unit(rng.u8(0..4))];
            let hands = hands[rng.usize(0..4)];
            let seen = [practice.tick().0, rng.u32(..)][rng.usize(0..2)];
            let controls = Controls { walk, fire: rng.bool().then_some(seen), hands };
            practice.simulation.input(Avatar::of(player), controls);
            let by = Requester::Player(PlayerId(player), Tick(seen));
            practice.simulation.ask(objects[rng.usize(0..objects.len())], any_action(&mut rng), by);
        }
        let died = |(_, event): &&(EventArea, ArenaEvent)| matches!(event, ArenaEvent::Died { .. });
        kills += practice.step().iter().filter(died).count();
        let (world, arena) = (practice.simulation.world(), &practice.simulation.game);
        assert_eq!(world.of_kind(ITEM).len(), setup.items);
        for (_, unit) in world.iter::<Unit>() {
            assert!(arena.collision().is_free(kinds::place(unit.pos)), "{unit:?}");
            assert_eq!(unit.health == 0, unit.duty == kinds::Duty::Down);
        }
        for (_, avatar) in world.iter::<Avatar>() {
            assert!(arena.collision().is_free(kinds::place(avatar.pos)), "{avatar:?}");
            assert!(avatar.weapon != Weapon::Dart && avatar.health <= HEALTH);
        }
    }
    practice.step();
    let world = practice.simulation.world();
    let avatars = world.of_kind(AVATAR);
    let sum = |of: fn(&Avatar) -> u16| {
        let all = avatars.iter().filter_map(|id| world.get::<Avatar>(*id));
        all.map(|avatar| usize::from(of(&avatar))).sum::<usize>()
    };
    assert_eq!((sum(|a| a.kills), sum(|a| a.deaths)), (kills, kills));
    assert_eq!(practice.simulation.dropped(), 0);
}
