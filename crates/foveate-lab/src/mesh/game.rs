//! The game of the mesh's experiments: everything wanders, nothing stands still at a border for long.
//!
//! *Walkers* go from place to place; their rule reads no other object. *Crates* are kept; each pings its partner, which
//! travels near it, and both count: a ping that is lost or doubled shows. *Items* are kept, and carried by walkers.
//! *Seeds* are kept; crates spawn them, and they are removed after a while. A player has an *avatar* and a *bag*, which
//! is kept and carried; its count only rises, so that a bag that was lost and replaced shows.

use foveate_node::game::{Game, PlayerId, Requester, Spawn, StepContext, World};
use foveate_sync::interest::{View, presets};
use foveate_wire::{KindId, ObjectId, Replicate, Schema, SchemaError};
use std::sync::Arc;

/// The kind of walkers.
pub const WALKER: KindId = KindId(0);
/// The kind of crates.
pub const CRATE: KindId = KindId(1);
/// The kind of items.
pub const ITEM: KindId = KindId(2);
/// The kind of seeds.
pub const SEED: KindId = KindId(3);

/// The kind of players' avatars.
pub const AVATAR: KindId = KindId(4);
/// The kind of what players have with them.
pub const BAG: KindId = KindId(5);

/// Ticks between two pings of a crate.
const PING_EVERY: u32 = 9;
/// Ticks between two seeds of a crate.
const SEED_EVERY: u32 = 157;
/// Ticks for which a seed lives.
const SEED_LIFE: u32 = 230;
/// Ticks after which the count of a bag rises.
const COUNT_EVERY: u32 = 40;
/// Half the side of the square that a crowd stays in.
const CROWD: f32 = 10.0;
/// Ticks after which an item changes hands.
const PASS_EVERY: u32 = 83;

/// Goes about.
#[derive(Clone, PartialEq, Debug, Replicate)]
#[replicate(max_speed = 60.0)]
pub struct Drifter {
    /// Where it is.
    #[replicate(place, motion, precision = 0.0625, extent = 1024.0)]
    pub pos: [f32; 2],
    /// Ways that it has gone.
    pub leg: u16,
}

/// Pings its partner.
#[derive(Clone, PartialEq, Debug, Replicate)]
#[replicate(max_speed = 60.0)]
pub struct Crate {
    /// Where it is.
    #[replicate(place, motion, precision = 0.0625, extent = 1024.0)]
    pub pos: [f32; 2],
    /// Ways that it has gone.
    pub leg: u16,
    /// Pings that it sent.
    pub sent: u16,
    /// Pings that it got.
    pub got: u16,
}

/// Is carried.
#[derive(Clone, PartialEq, Debug, Replicate)]
#[replicate(max_speed = 120.0)]
pub struct CarriedItem {
    /// Where it is.
    #[replicate(place, motion, precision = 0.0625, extent = 1024.0)]
    pub pos: [f32; 2],
    /// The serial of the walker that has it, and one.
    pub holder: u16,
}

/// Lives for a while.
#[derive(Clone, PartialEq, Debug, Replicate)]
#[replicate(max_speed = 60.0)]
pub struct Seed {
    /// Where it is.
    #[replicate(place, motion, precision = 0.0625, extent = 1024.0)]
    pub pos: [f32; 2],
    /// Ways that it has gone.
    pub leg: u16,
    /// The tick of its first turn.
    pub born: u32,
}

/// A player's.
#[derive(Clone, PartialEq, Debug, Replicate)]
#[replicate(max_speed = 60.0)]
pub struct DriftAvatar {
    /// Where it is.
    #[replicate(place, motion, precision = 0.0625, extent = 1024.0)]
    pub pos: [f32; 2],
    /// Ways that it has gone.
    pub leg: u16,
    /// The number of the last input that it used.
    pub last: u32,
    /// Inputs that it did not get.
    pub missed: u32,
    /// Inputs that it got again.
    pub again: u32,
}

/// What a player has with them.
#[derive(Clone, PartialEq, Debug, Replicate)]
#[replicate(max_speed = 120.0)]
pub struct DriftBag {
    /// Where it is.
    #[replicate(place, motion, precision = 0.0625, extent = 1024.0)]
    pub pos: [f32; 2],
    /// Rises, and never falls by more than a crash may take.
    pub count: u32,
}

/// What a player does: nothing but counting.
#[derive(Clone, Copy, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Counted(pub u32);

/// How much there is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DriftSpec {
    /// Half the side of the world.
    pub half: f32,
    /// Number of walkers.
    pub walkers: u32,
    /// Number of crates, which is even.
    pub crates: u32,
    /// Number of items.
    pub items: u32,
    /// Units that they go in a tick.
    pub pace: f32,
    /// How many of the walkers stay near the world's middle.
    pub crowd: u32,
    /// RNG seed.
    pub seed: u64,
}

/// The game.
pub struct Drift {
    spec: DriftSpec,
    schema: Arc<Schema>,
}

impl Drift {
    /// The game of a world.
    pub fn new(spec: DriftSpec) -> Result<Drift, SchemaError> {
        let kinds = vec![
            Drifter::spec(),
            Crate::spec(),
            CarriedItem::spec(),
            Seed::spec(),
            DriftAvatar::spec(),
            DriftBag::spec(),
        ];
        Ok(Drift { spec, schema: Arc::new(Schema::new(kinds)?) })
    }

    /// Its parts.
    pub fn spec(&self) -> &DriftSpec {
        &self.spec
    }

    /// The crate that another one pings.
    pub fn partner(id: ObjectId) -> ObjectId {
        // Crates follow the walkers, and there are as many walkers as makes their serials even.
        ObjectId::new(CRATE, 0, id.serial() ^ 1)
    }

    fn target(&self, id: ObjectId, leg: u16) -> [f32; 2] {
        // Partners go about together, a little apart.
        let (pair, aside) = match id.kind() {
            CRATE => (id.0 | 1, if id.serial().is_multiple_of(2) { 1.5 } else { -1.5 }),
            _ => (id.0, 0.0),
        };
        let mut rng = fastrand::Rng::with_seed(
            self.spec.seed ^ pair.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(leg) << 40,
        );
        let crowded = id.kind() == WALKER && id.serial() < self.spec.crowd;
        let half = if crowded { CROWD.min(self.spec.half) } else { self.spec.half };
        [0, 1].map(|_| (rng.f32() * 2.0 - 1.0) * half + aside)
    }

    fn wander(&self, id: ObjectId, pos: &mut [f32; 2], leg: &mut u16) {
        let goal = self.target(id, *leg);
        let way = [goal[0] - pos[0], goal[1] - pos[1]];
        let left = way[0].hypot(way[1]);
        if left > self.spec.pace {
            *pos = [0, 1].map(|axis| pos[axis] + way[axis] / left * self.spec.pace);
        } else {
            (*pos, *leg) = (goal, leg.wrapping_add(1));
        }
    }

    fn step_crate(&self, turn: &mut StepContext<'_, Self>, mut it: Crate) {
        let (id, tick) = (turn.id(), turn.tick().0);
        self.wander(id, &mut it.pos, &mut it.leg);
        let partner = Drift::partner(id);
        let due = (tick + id.serial()).is_multiple_of(PING_EVERY);
        if due && turn.world().get::<Crate>(partner).is_some() {
            it.sent = it.sent.wrapping_add(1);
            turn.ask(partner, ());
        }
        if (tick + 7 * id.serial()).is_multiple_of(SEED_EVERY) {
            turn.spawn_world(&Seed { pos: it.pos, leg: 0, born: tick });
        }
        turn.set(&it);
    }

    fn step_item(&self, turn: &mut StepContext<'_, Self>, mut it: CarriedItem) {
        let (id, tick, world) = (turn.id(), turn.tick().0, turn.world());
        let holder = holder(&it).and_then(|holder| world.get::<Drifter>(holder));
        if let Some(holder) = &holder {
            it.pos = holder.pos;
        }
        if (tick + 3 * id.serial()).is_multiple_of(PASS_EVERY) || holder.is_none() {
            let near = world.near([it.pos[0], it.pos[1], 0.0], 12.0);
            let mut walkers = near.iter().filter(|near| near.kind() == WALKER);
            if let Some(next) = walkers.next_back() {
                it.holder = next.serial() as u16 + 1;
            }
        }
        turn.set(&it);
    }
}

/// The walker that has an item.
fn holder(item: &CarriedItem) -> Option<ObjectId> {
    item.holder.checked_sub(1).map(|serial| ObjectId::new(WALKER, 0, u32::from(serial)))
}

impl Game for Drift {
    type Input = Counted;
    type Action = ();
    type Event = ();

    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn avatar(&self) -> KindId {
        AVATAR
    }

    fn populate(&self) -> Vec<Spawn> {
        let DriftSpec { walkers, crates, items, .. } = self.spec;
        let place = |kind, serial| self.target(ObjectId::new(kind, 0, serial), u16::MAX);
        let walkers_even = walkers.next_multiple_of(2);
        let walker =
            |serial| Spawn::new(&self.schema, &Drifter { pos: place(WALKER, serial), leg: 0 });
        let crates = (0..crates).map(|at| place(CRATE, walkers_even + at));
        let crates = crates
            .filter_map(|pos| Spawn::new(&self.schema, &Crate { pos, leg: 0, sent: 0, got: 0 }));
        let items = (0..items).filter_map(|at| {
            let holder = (at % walkers) as u16;
            let pos = place(WALKER, u32::from(holder));
            Spawn::new(&self.schema, &CarriedItem { pos, holder: holder + 1 })
        });
        (0..walkers_even).filter_map(walker).chain(crates).chain(items).collect()
    }

    fn welcome(&self, _: &World<'_>, player: PlayerId, _: &str) -> Vec<Spawn> {
        let pos = self.target(ObjectId::new(AVATAR, player.0, 0), u16::MAX);
        let avatar = DriftAvatar { pos, leg: 0, last: 0, missed: 0, again: 0 };
        let bag = Spawn::new(&self.schema, &DriftBag { pos, count: 0 });
        Spawn::new(&self.schema, &avatar).into_iter().chain(bag).collect()
    }

    fn step(&self, turn: &mut StepContext<'_, Self>, inputs: &[Counted]) {
        let id = turn.id();
        if let Some(mut it) = turn.get::<Drifter>() {
            self.wander(id, &mut it.pos, &mut it.leg);
            turn.set(&it);
        } else if let Some(mut it) = turn.get::<DriftAvatar>() {
            self.wander(id, &mut it.pos, &mut it.leg);
            for Counted(number) in inputs {
                match number.wrapping_sub(it.last) {
                    0 | 0x8000_0000.. => it.again += 1,
                    ahead if it.last > 0 => it.missed += ahead - 1,
                    _ => {}
                }
                it.last = it.last.max(*number);
            }
            turn.set(&it);
        } else if let Some(it) = turn.get::<Crate>() {
            self.step_crate(turn, it);
        } else if let Some(it) = turn.get::<CarriedItem>() {
            self.step_item(turn, it);
        } else if let Some(mut it) = turn.get::<DriftBag>() {
            let avatar = self.avatar_of(PlayerId(id.origin()));
            if let Some(avatar) = turn.world().get::<DriftAvatar>(avatar) {
                it.pos = avatar.pos;
            }
            it.count += u32::from(turn.tick().0.is_multiple_of(COUNT_EVERY));
            turn.set(&it);
        } else if let Some(mut it) = turn.get::<Seed>() {
            self.wander(id, &mut it.pos, &mut it.leg);
            turn.set(&it);
            if turn.tick().0.wrapping_sub(it.born) > SEED_LIFE {
                turn.remove();
            }
        }
    }

    fn act(&self, turn: &mut StepContext<'_, Self>, (): &(), _: Requester) {
        if let Some(mut it) = turn.get::<Crate>() {
            it.got = it.got.wrapping_add(1);
            turn.set(&it);
        }
    }

    fn keeps(&self, kind: KindId) -> bool {
        kind != WALKER && kind != AVATAR
    }

    fn carrier(&self, world: &World<'_>, object: ObjectId) -> Option<ObjectId> {
        if object.kind() == BAG {
            let avatar = self.avatar_of(PlayerId(object.origin()));
            return world.get::<DriftAvatar>(avatar).is_some().then_some(avatar);
        }
        let holder = holder(&world.get::<CarriedItem>(object)?)?;
        world.get::<Drifter>(holder).is_some().then_some(holder)
    }

    fn view(&self, which: u8) -> Option<View> {
        (which == 0).then(|| presets::normal(8.0, 16.0))
    }
}
