//! Ids of objects, kinds and owners, and the aliases of objects in a session.

/// The kind of an object: an index into the [`Schema`](crate::Schema).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct KindId(pub u8);

/// The owner of an object: a server, a region, a player or a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct OwnerId(pub u32);

/// How often an object has changed owners.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Epoch(pub u32);

/// The number of an object in one observer's session: small and dense, so that it costs few bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Alias(pub u16);

/// The id of an object everywhere and for its whole life: kind (8 bits), creator (24 bits), serial
/// (32 bits).
///
/// There are two sorts of ids, distinguished by the serial's highest bit:
///
/// | serial | id |
/// | --- | --- |
/// | `0` + 31 bits | *fixed* by the game: the world's first objects (creator 0) and those that a player starts with (creator: the player). All nodes compute the same ids. |
/// | `10` + 30 bits | *minted* while the game runs, for the player that is the creator |
/// | `11` + 30 bits | *minted* while the game runs, for the world; the creator is the node that minted it |
///
/// Minting nodes have different creator numbers, so that they create ids without asking any other
/// node: a peer has its player's number, a single server extends its counter into these bits, and
/// each region has its own number.
///
/// ```
/// use foveate_wire::{KindId, ObjectId};
/// let id = ObjectId::new(KindId(3), 7, 42);
/// assert_eq!((id.kind(), id.origin(), id.serial()), (KindId(3), 7, 42));
/// let apple = ObjectId::minted_for_world(KindId(3), 7, 42);
/// assert_eq!((apple.origin(), apple.creator(), apple.number()), (0, 7, Some(42)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ObjectId(pub u64);

/// Bit of a serial: minted while the game ran.
const MINTED: u32 = 1 << 31;
/// Bit of a minted serial: for the world.
const FOR_WORLD: u32 = 1 << 30;

impl ObjectId {
    /// The highest creator number.
    pub const MAX_CREATOR: u32 = 0xff_ffff;
    /// Bits of the number of a minted id.
    pub const NUMBER_BITS: u32 = 30;

    /// An id from its parts; only the low 24 bits of `creator` count.
    pub const fn new(kind: KindId, creator: u32, serial: u32) -> ObjectId {
        ObjectId((kind.0 as u64) << 56 | (creator as u64 & 0xff_ffff) << 32 | serial as u64)
    }

    /// The id of a player's object that was created while the game ran; only the low 30 bits of
    /// `number` count.
    pub const fn minted_for_player(kind: KindId, player: u32, number: u32) -> ObjectId {
        ObjectId::new(kind, player, MINTED | number & (FOR_WORLD - 1))
    }

    /// The same for an object of the world, created by the node with this number.
    pub const fn minted_for_world(kind: KindId, creator: u32, number: u32) -> ObjectId {
        ObjectId::new(kind, creator, MINTED | FOR_WORLD | number & (FOR_WORLD - 1))
    }

    /// The kind of the object.
    pub const fn kind(self) -> KindId {
        KindId((self.0 >> 56) as u8)
    }

    /// The player that the object belongs to, independent of creator and owner; 0 for the world.
    pub const fn origin(self) -> u32 {
        if self.is_minted() && self.serial() & FOR_WORLD != 0 { 0 } else { self.creator() }
    }

    /// The 24 bits between kind and serial: the player that the object belongs to, or the node that
    /// minted an object of the world.
    pub const fn creator(self) -> u32 {
        (self.0 >> 32) as u32 & ObjectId::MAX_CREATOR
    }

    /// The low 32 bits; a running number in fixed ids.
    pub const fn serial(self) -> u32 {
        self.0 as u32
    }

    /// Whether the object was created while the game ran.
    pub const fn is_minted(self) -> bool {
        self.serial() & MINTED != 0
    }

    /// The creator's running number in a minted id, 30 bits; `None` for a fixed id.
    pub const fn number(self) -> Option<u32> {
        if self.is_minted() { Some(self.serial() & (FOR_WORLD - 1)) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_every_sort_differ_and_name_their_owner() {
        let kind = KindId(200);
        let last = (1 << ObjectId::NUMBER_BITS) - 1;
        for number in [0, 1, 77, last] {
            let fixed = ObjectId::new(kind, 5, number);
            let own = ObjectId::minted_for_player(kind, 5, number);
            let world = ObjectId::minted_for_world(kind, 5, number);
            assert!(fixed != own && own != world && fixed != world);
            assert_eq!((fixed.number(), fixed.origin(), fixed.creator()), (None, 5, 5));
            assert_eq!((own.number(), own.origin(), own.creator()), (Some(number), 5, 5));
            assert_eq!((world.number(), world.origin(), world.creator()), (Some(number), 0, 5));
            assert!([fixed, own, world].iter().all(|id| id.kind() == kind));
        }
        assert_eq!(ObjectId::minted_for_world(kind, 5, last + 1).number(), Some(0), "it wraps");
    }
}
