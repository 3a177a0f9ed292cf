//! Names of things: objects, kinds, owners, and what an observer calls an object in its session.

/// The kind of an object: an index into the [`Schema`](crate::Schema).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct KindId(pub u8);

/// Who owns an object: a server, a region, a player or a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct OwnerId(pub u32);

/// How often an object has changed hands.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Epoch(pub u32);

/// What one observer's session calls an object: small numbers, handed out densely,
/// so that they cost few bits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Alias(pub u16);

/// The name of an object everywhere and for good: kind (8 bits), origin (24 bits), serial (32 bits).
///
/// The origin is whoever created the object, so that nodes can name objects without asking anyone.
///
/// ```
/// use foveate_wire::{KindId, ObjectId};
/// let id = ObjectId::new(KindId(3), 7, 42);
/// assert_eq!((id.kind(), id.origin(), id.serial()), (KindId(3), 7, 42));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ObjectId(pub u64);

impl ObjectId {
    /// Puts a name together; only the low 24 bits of `origin` count.
    pub const fn new(kind: KindId, origin: u32, serial: u32) -> ObjectId {
        ObjectId((kind.0 as u64) << 56 | (origin as u64 & 0xff_ffff) << 32 | serial as u64)
    }

    /// The kind of the object.
    pub const fn kind(self) -> KindId {
        KindId((self.0 >> 56) as u8)
    }

    /// Who created the object.
    pub const fn origin(self) -> u32 {
        (self.0 >> 32) as u32 & 0xff_ffff
    }

    /// The creator's running number.
    pub const fn serial(self) -> u32 {
        self.0 as u32
    }
}
