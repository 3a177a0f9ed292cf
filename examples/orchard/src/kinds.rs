//! The kinds of objects in the orchard.

use foveate::prelude::*;

/// The kind of players' avatars.
pub const PICKER: KindId = KindId(0);
/// The kind of trees.
pub const APPLE_TREE: KindId = KindId(1);
/// The kind of apples.
pub const APPLE: KindId = KindId(2);
/// The kind of baskets.
pub const BASKET: KindId = KindId(3);

/// The most counted apples that a basket remembers.
pub(crate) const REMEMBERED: usize = 12;

/// A player's avatar.
#[derive(Replicate, Clone, PartialEq, Debug)]
#[replicate(max_speed = 6.0)]
pub struct Picker {
    #[replicate(place, motion, precision = 0.015625, extent = 1024.0)]
    pub pos: [f32; 2],
    /// Apples eaten.
    pub eaten: u16,
}

/// A tree that bears apples.
#[derive(Replicate, Clone, PartialEq, Debug)]
pub struct AppleTree {
    #[replicate(place, precision = 0.015625, extent = 1024.0)]
    pub pos: [f32; 2],
    /// The tick at which the next apple falls, if there is room for it.
    pub ripe: u32,
    /// How many apples it has borne.
    pub made: u16,
}

#[derive(Replicate, Clone, Copy, PartialEq, Eq, Debug)]
pub enum AppleState {
    /// It lies on the grass.
    Lying,
    /// A player carries it.
    Held,
    /// It was thrown.
    Flying,
    /// It lies in a basket, which has counted it or will do so.
    InBasket,
}

/// An apple. Its holder is stored only here.
#[derive(Replicate, Clone, PartialEq, Debug)]
#[replicate(max_speed = 14.0)]
pub struct Apple {
    #[replicate(place, motion, precision = 0.015625, extent = 1024.0)]
    pub pos: [f32; 2],
    pub state: AppleState,
    /// The player that holds it, or threw it; 0 for none.
    pub holder: u32,
    /// The x coordinate where it lands.
    #[replicate(precision = 0.015625, min = -1024.0, max = 1024.0)]
    pub to_x: f32,
    /// The y coordinate where it lands.
    #[replicate(precision = 0.015625, min = -1024.0, max = 1024.0)]
    pub to_y: f32,
    /// The tick at which it lands.
    pub lands: u32,
}

impl Apple {
    /// An apple in the grass.
    pub fn lying(pos: [f32; 2]) -> Apple {
        Apple { pos, state: AppleState::Lying, holder: 0, to_x: 0.0, to_y: 0.0, lands: 0 }
    }
}

/// A basket that counts the apples thrown into it.
#[derive(Replicate, Clone, PartialEq, Debug)]
pub struct Basket {
    #[replicate(place, precision = 0.015625, extent = 1024.0)]
    pub pos: [f32; 2],
    /// Apples scored.
    pub score: u16,
    /// The apples counted recently: creator, serial and tick of each.
    counted: List<i32, { 3 * REMEMBERED as u16 }>,
}

impl Basket {
    pub fn at(pos: [f32; 2]) -> Basket {
        Basket { pos, score: 0, counted: List(Vec::new()) }
    }

    /// The apples counted recently, and when.
    pub fn counted(&self) -> Vec<(ObjectId, Tick)> {
        let (entries, _) = self.counted.0.as_chunks::<3>();
        let entry = |[creator, serial, tick]: &[i32; 3]| {
            (ObjectId::new(APPLE, *creator as u32, *serial as u32), Tick(*tick as u32))
        };
        entries.iter().map(entry).collect()
    }

    pub(crate) fn set_counted(&mut self, counted: &[(ObjectId, Tick)]) {
        let entry = |(id, tick): &(ObjectId, Tick)| {
            [id.creator(), id.serial(), tick.0].map(|part| part as i32)
        };
        self.counted = List(counted.iter().flat_map(entry).collect());
    }
}
