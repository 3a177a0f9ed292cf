//! What players may request of each other's objects, and how those can change: checks by owners
//! that did not run the rule themselves.

use super::avatar::AWAY_MS;
use super::base::{COUNT_MS, HEALS, RADIUS};
use super::kinds::{AVATAR, Avatar, BASE, UNIT, Weapon};
use super::{Action, Arena, unit};
use foveate_node::limits::{ActionLimits, ActionSource, StateChange};
use foveate_wire::{Micros, ObjectId};

/// The shortest time in which a base changes teams, by the largest crowd that counts.
const CAPTURE_MS: u64 = 3_000;
/// The most bases that heal one avatar at once.
const HEALERS: u32 = 2;
/// The most kills and captures of one avatar per second, and at once after a pause.
const CREDITS: u32 = 4;

/// The limits of an action on an object.
pub(super) fn of(action: &Action, object: ObjectId) -> ActionLimits {
    let by = |kinds: &'static [foveate_wire::KindId]| ActionLimits {
        source: ActionSource::Kinds(kinds),
        ..ActionLimits::default()
    };
    let away = Micros::from_millis(u64::from(AWAY_MS));
    match action {
        Action::Hit { damage, weapon } => {
            let make = weapon.make();
            // A unit on its way is elsewhere than its stored place, and behind other walls.
            let is_unit = object.kind() == UNIT;
            let strays = if is_unit { unit::STRAYS } else { 0.0 };
            ActionLimits {
                reach: Some((make.reach + strays) as f32),
                line_of_sight: !is_unit,
                cooldown: Micros::from_millis(u64::from(make.cooldown_ms)),
                amount: Some((u32::from(*damage), make.most_damage())),
                ..by(if *weapon == Weapon::Dart { &[UNIT] } else { &[AVATAR] })
            }
        }
        Action::Heal { health } => ActionLimits {
            reach: Some(RADIUS as f32),
            cooldown: Micros::from_millis(u64::from(COUNT_MS * HEALS.1)),
            amount: Some((u32::from(*health), u32::from(HEALS.0))),
            ..by(&[BASE])
        },
        Action::Captured => ActionLimits {
            reach: Some(RADIUS as f32),
            cooldown: Micros::from_millis(CAPTURE_MS),
            ..by(&[BASE])
        },
        // Both are requested by an avatar that died, and is then away.
        Action::Killed | Action::Point { .. } => ActionLimits { cooldown: away, ..by(&[AVATAR]) },
        Action::Steer { .. } => by(&[AVATAR]),
        Action::Take | Action::Drop | Action::Order { .. } | Action::Follow | Action::Stay => {
            ActionLimits { source: ActionSource::Players, ..ActionLimits::default() }
        }
    }
}

/// Whether the rules can have changed another player's avatar like this. Between two states seconds
/// apart there may be others that were not sent, so much is allowed; changes that add up faster
/// than any rule allows are still caught.
pub(super) fn is_lawful(arena: &Arena, change: &StateChange<'_>) -> bool {
    let Some((before, after)) = change.get::<Avatar>() else { return true };
    let seconds = change.ticks / arena.setup.rate.hz() + 1;
    let rounds = u32::from(after.round.wrapping_sub(before.round));
    let is_new_round = rounds > 0;
    let rise = |before: u16, after: u16| u32::from(after.saturating_sub(before));
    let points = rise(if is_new_round { 0 } else { before.score }, after.score);
    let healed = u32::from(after.health.saturating_sub(before.health));
    let is_healed = healed <= HEALERS * u32::from(HEALS.0) * (seconds + 1);
    let is_back = is_new_round || !before.is_alive() || after.deaths > before.deaths;
    before.team == after.team
        && rounds <= 1 + seconds / arena.setup.break_seconds.max(1)
        && (is_healed || is_back)
        && points <= 3 * CREDITS * (seconds + 1)
        && after.kills >= before.kills
        && rise(before.kills, after.kills) <= CREDITS * (seconds + 1)
        && after.deaths >= before.deaths
}
