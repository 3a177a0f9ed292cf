//! The game of the peer experiments: ships that fly as commanded, and bases that wander and are captured by the ships
//! near them. It follows the source's space shooter, whose managed objects are bases.

use crate::movement::AvatarPose;
use foveate_node::game::{Game, PlayerId, Requester, Spawn, StepContext, World};
use foveate_sync::interest::{View, presets};
use foveate_wire::{FieldType, KindId, ObjectId, Replicate, Role, Schema, SchemaError};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

pub const SHIP: KindId = KindId(0);
pub const BASE: KindId = KindId(1);
/// Steps in a unit.
const STEPS: f32 = 16.0;
/// Rounds between two counts of the ships near a base.
const COUNT_EVERY: u32 = 20;

/// A player's ship.
#[derive(Clone, PartialEq, Debug, Replicate)]
pub struct Ship {
    #[replicate(place, motion, precision = 0.0625, extent = 8192.0)]
    pub pos: [f32; 2],
    /// Its facing.
    #[replicate(yaw, steps = 240)]
    pub yaw: f32,
    /// 1 or 2.
    #[replicate(max = 2)]
    pub team: u8,
    /// A counter of its player's actions.
    pub deed: u8,
}

/// A base. All players should agree on its place and its team.
#[derive(Clone, PartialEq, Debug, Replicate)]
#[replicate(name = "base")]
pub struct MeadowBase {
    #[replicate(place, motion, precision = 0.0625, extent = 8192.0)]
    pub pos: [f32; 2],
    /// The number of the leg of its route.
    pub leg: u16,
    /// The team that holds it; 0 for none.
    #[replicate(max = 2)]
    pub team: u8,
}

/// An input: a ship's place and facing.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct Steer {
    /// In sixteenths of a unit.
    pub at: [i32; 2],
    /// In 240ths of a turn.
    pub yaw: u8,
    /// A counter of the player's actions.
    pub deed: u8,
}

impl Steer {
    /// Converts a pose to an input.
    pub fn to(pose: &AvatarPose) -> Steer {
        let AvatarPose { pos, yaw, state: deed, .. } = *pose;
        let at = [0, 1].map(|axis| (pos[axis] * STEPS).round() as i32);
        let turn = (yaw / std::f32::consts::TAU).rem_euclid(1.0);
        Steer { at, yaw: ((turn * 240.0).round() as u32 % 240) as u8, deed }
    }
}

/// Settings of the world.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MeadowSpec {
    /// The side of the square world.
    pub side: f32,
    /// Number of bases, spread over square regions of eight.
    pub bases: usize,
    /// How far ships see.
    pub view: f32,
    /// How far ships reach.
    pub interaction: f32,
    /// The largest speeds of ships and bases, in units per second.
    pub speeds: [f32; 2],
    /// Rounds per second.
    pub rate: f32,
    /// RNG seed for places.
    pub seed: u64,
}

pub struct Meadow {
    spec: MeadowSpec,
    schema: Arc<Schema>,
}

impl Meadow {
    /// Makes the game for a world.
    pub fn new(spec: MeadowSpec) -> Result<Meadow, SchemaError> {
        let (mut ship, mut base) = (Ship::spec(), MeadowBase::spec());
        // Slightly above the real speeds, so that rounding does not count as cheating.
        (ship.max_speed, base.max_speed) = (spec.speeds[0] * 1.1, spec.speeds[1] * 1.1);
        for field in ship.fields.iter_mut().chain(&mut base.fields) {
            if field.role == Role::Place {
                let (precision, motion) = (1.0 / STEPS, true);
                field.ty = FieldType::Place { dims: 2, precision, extent: 8_192.0, motion };
            }
        }
        Ok(Meadow { spec, schema: Arc::new(Schema::new(vec![ship, base])?) })
    }

    pub fn spec(&self) -> &MeadowSpec {
        &self.spec
    }

    /// Where a base goes on one of its legs: a point in its region.
    fn target(&self, id: ObjectId, leg: u16) -> [f32; 2] {
        let regions = (self.spec.bases as f32 / 8.0).sqrt().ceil().max(1.0);
        let mut rng = fastrand::Rng::with_seed(
            self.spec.seed ^ id.0.wrapping_mul(0x9e37_79b9) ^ u64::from(leg) << 40,
        );
        let (size, region) = (self.spec.side / regions, id.serial() / 8);
        let corner = [region % regions as u32, region / regions as u32];
        corner.map(|corner| (corner as f32 + rng.f32()) * size)
    }
}

impl Game for Meadow {
    type Input = Steer;
    type Action = u8;
    type Event = u8;

    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn avatar(&self) -> KindId {
        SHIP
    }

    fn populate(&self) -> Vec<Spawn> {
        let bases = (0..self.spec.bases as u32).filter_map(|serial| {
            let pos = self.target(ObjectId::new(BASE, 0, serial), u16::MAX);
            Spawn::new(&self.schema, &MeadowBase { pos, leg: 0, team: 0 })
        });
        bases.collect()
    }

    fn welcome(&self, _: &World<'_>, player: PlayerId, _: &str) -> Vec<Spawn> {
        let (pos, team) = ([0.0; 2], 1 + (player.0 % 2) as u8);
        Spawn::new(&self.schema, &Ship { pos, yaw: 0.0, team, deed: 0 }).into_iter().collect()
    }

    fn step(&self, turn: &mut StepContext<'_, Self>, inputs: &[Steer]) {
        if let (Some(mut ship), Some(input)) = (turn.get::<Ship>(), inputs.last()) {
            ship.pos = input.at.map(|at| at as f32 / STEPS);
            ship.yaw = f32::from(input.yaw) / 240.0 * std::f32::consts::TAU;
            ship.deed = input.deed;
            turn.set(&ship);
        } else if let Some(mut base) = turn.get::<MeadowBase>() {
            self.wander(turn.id(), &mut base);
            if turn.tick().plus(turn.id().serial()).0.is_multiple_of(COUNT_EVERY) {
                self.count(turn, &mut base);
            }
            turn.set(&base);
        }
    }

    /// Sets a base's team.
    fn act(&self, turn: &mut StepContext<'_, Self>, team: &u8, _: Requester) {
        if let Some(mut base) = turn.get::<MeadowBase>() {
            base.team = *team;
            turn.set(&base);
        }
    }

    fn view(&self, which: u8) -> Option<View> {
        let (near, middle) = (self.spec.interaction, self.spec.view / 2.0);
        let (mut view, far) = match which {
            0 => (presets::normal(near, middle), self.spec.view),
            1 => (presets::zoom(near, middle), 2.0 * self.spec.view),
            _ => return None,
        };
        view.zones[2] = far;
        Some(view)
    }

    /// Every player may watch every other.
    fn may_watch(&self, _: &World<'_>, _avatar: ObjectId, object: ObjectId) -> bool {
        object.kind() == SHIP
    }
}

impl Meadow {
    fn wander(&self, id: ObjectId, base: &mut MeadowBase) {
        let goal = self.target(id, base.leg);
        let way = [goal[0] - base.pos[0], goal[1] - base.pos[1]];
        let (left, step) = (way[0].hypot(way[1]), self.spec.speeds[1] / self.spec.rate);
        if left > step {
            base.pos = [0, 1].map(|axis| base.pos[axis] + way[axis] / left * step);
        } else {
            (base.pos, base.leg) = (goal, base.leg.wrapping_add(1));
        }
    }

    /// The team with more ships within reach captures the base.
    fn count(&self, turn: &StepContext<'_, Self>, base: &mut MeadowBase) {
        let at = [base.pos[0], base.pos[1], 0.0];
        let near = turn.world().near(at, self.spec.interaction);
        let ships = near.iter().filter_map(|id| turn.world().get::<Ship>(*id));
        let more: i32 = ships.map(|ship| if ship.team == 2 { 1 } else { -1 }).sum();
        match more {
            0 => {}
            more => base.team = if more > 0 { 2 } else { 1 },
        }
    }
}
