//! Byte layouts and tables that other implementations rely on, compared with `docs/ARENA.md`.

use foveate_arena::game::kinds::{Charm, Weapon};
use foveate_arena::game::{Action, Arena, ArenaEvent, Controls, Hands, Setup};
use foveate_arena::movement::ArenaInput;
use foveate_node::game::Game;
use serde::Serialize;

const PAGE: &str = include_str!("../../docs/ARENA.md");

fn bytes(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).unwrap()
}

#[test]
fn controls_have_their_bytes() {
    let walk = ArenaInput { forward: -127, strafe: 5, yaw: 300 };
    assert_eq!(bytes(&Controls::default()), [0, 0, 0, 0, 0]);
    let fires = Controls { walk, fire: Some(200), hands: Hands::Lance };
    assert_eq!(bytes(&fires), [0x81, 5, 0xac, 0x02, 1, 0xc8, 0x01, 2]);
    let steers = Controls { walk, fire: None, hands: Hands::Unit(1) };
    assert_eq!(bytes(&steers), [0x81, 5, 0xac, 0x02, 0, 3, 1]);
}

#[test]
fn actions_have_their_bytes() {
    let walk = ArenaInput { forward: 1, strafe: 2, yaw: 3 };
    let all: [(Action, &[u8]); 11] = [
        (Action::Hit { damage: 200, weapon: Weapon::Dart }, &[0, 200, 3]),
        (Action::Killed, &[1]),
        (Action::Captured, &[2]),
        (Action::Point { team: 2 }, &[3, 2]),
        (Action::Take, &[4]),
        (Action::Drop, &[5]),
        (Action::Order { target: 300 }, &[6, 0xac, 0x02]),
        (Action::Follow, &[7]),
        (Action::Stay, &[8]),
        (Action::Steer { walk, fire: Some(9) }, &[9, 1, 2, 3, 1, 9]),
        (Action::Heal { health: 6 }, &[10, 6]),
    ];
    for (action, expected) in all {
        assert_eq!(bytes(&action), expected, "{action:?}");
    }
}

#[test]
fn events_have_their_bytes() {
    let (player, unit, by) = (300, 1, 7);
    let shot = ArenaEvent::Shot {
        player,
        unit,
        weapon: Weapon::Scatter,
        yaw: 1_023,
        length: 240,
        hits: 2,
    };
    let all: [(ArenaEvent, &[u8]); 10] = [
        (shot, &[0, 0xac, 0x02, 1, 1, 0xff, 0x07, 240, 2]),
        (ArenaEvent::Died { player, by, weapon: Weapon::Lance }, &[1, 0xac, 0x02, 7, 2]),
        (ArenaEvent::Back { player }, &[2, 0xac, 0x02]),
        (ArenaEvent::Taken { player, charm: Charm::Shield }, &[3, 0xac, 0x02, 1]),
        (ArenaEvent::Dropped { player }, &[4, 0xac, 0x02]),
        (ArenaEvent::Captured { team: 1 }, &[5, 1]),
        (ArenaEvent::Lost, &[6]),
        (ArenaEvent::Won { team: 0 }, &[7, 0]),
        (ArenaEvent::Began { round: 300 }, &[8, 0xac, 0x02]),
        (ArenaEvent::Downed { player, unit, by }, &[9, 0xac, 0x02, 1, 7]),
    ];
    for (event, expected) in all {
        assert_eq!(bytes(&event), expected, "{event:?}");
        let name = format!("{event:?}");
        let name = name.split([' ', '{']).next().unwrap();
        let row = format!("| {} `{name}` |", expected[0]);
        assert!(PAGE.contains(&row), "the page lacks {row}");
    }
}

#[test]
fn the_page_names_all_fields_of_all_kinds_in_their_order() {
    let arena = Arena::new(Setup::for_players(8, 1)).unwrap();
    for (number, kind) in arena.schema().kinds().iter().enumerate() {
        let start = format!("| {number} | `{}` | ", kind.spec.name);
        let row = PAGE.lines().find_map(|line| line.strip_prefix(&start));
        let row = row.unwrap_or_else(|| panic!("the page lacks {start}"));
        let named: Vec<&str> = row.split('`').skip(1).step_by(2).collect();
        let fields: Vec<&str> = kind.spec.fields.iter().map(|field| field.name.as_ref()).collect();
        assert_eq!(named, fields, "{}", kind.spec.name);
    }
}

#[test]
fn the_page_has_the_weapons_numbers() {
    for weapon in [Weapon::Blaster, Weapon::Scatter, Weapon::Lance, Weapon::Dart] {
        let (name, make) = (format!("{weapon:?}").to_lowercase(), weapon.make());
        let (near, far) = make.damage;
        let again = f64::from(make.cooldown_ms) / 1_000.0;
        let row = format!("| {name} | {} | {near} – {far} | {again} s |", make.reach);
        assert!(PAGE.contains(&row), "the page lacks {row}");
    }
}
