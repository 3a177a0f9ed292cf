//! The messages between peers. `docs/WIRE.md` describes the bytes.
//!
//! **Datagrams** may be lost: at most one per tick to each neighbour unless states fill several,
//! with acknowledgement, events and a state packet. **Messages** are reliable and ordered:
//! everything else.

use super::identity::{Key, Sealable, Sealed};
use super::ownership::OwnerClaim;
use crate::game::{PlayerId, Requester};
use foveate_wire::packet::{Ack, MAX_PACKET, VERSION};
use foveate_wire::{Epoch, Micros, ObjectId, Radians, Tick};
use serde::{Deserialize, Serialize};
use std::f32::consts::TAU;

const FRAME: u8 = VERSION << 4 | 5;
/// Bytes that a frame may add to a state packet.
pub const FRAME_ROOM: usize = 16;
/// The longest contact, in bytes.
pub const MAX_CONTACT: usize = 96;
/// The most objects named in one digest; of more, the first by id.
pub const MAX_NAMED: usize = 64;
/// The most digests in one message.
pub const MAX_INTRODUCED: usize = 16;
/// The most objects in one message of changes: each takes up to 20 bytes of 16 KiB.
const PART: usize = 512;
/// The most sightings in one message.
pub const MAX_SIGHTED: usize = 32;

/// An object's id in messages. The kind is moved to the low bits, so that the ids of the world's
/// own objects, which have no origin, take few bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Named(u64);

impl Named {
    pub fn id(self) -> ObjectId {
        ObjectId(self.0.rotate_right(8))
    }
}

impl From<ObjectId> for Named {
    fn from(id: ObjectId) -> Named {
        Named(id.0.rotate_left(8))
    }
}

/// Where a player looks, in 256ths of a turn: yaw and pitch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gaze(pub [u8; 2]);

impl Gaze {
    pub fn along(angles: [Radians; 2]) -> Gaze {
        let turn = |angle: Radians| (angle.0 / TAU * 256.0).round() as i32;
        Gaze(angles.map(|angle| turn(angle).rem_euclid(256) as u8))
    }

    pub fn angles(self) -> [Radians; 2] {
        self.0.map(|part| Radians(f32::from(part) / 256.0 * TAU))
    }
}

/// A datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeerDatagram<'a> {
    /// The packets that arrived.
    pub ack: Option<Ack>,
    /// Whether the other end should reply with anything.
    pub asks: bool,
    /// The gaze of the sender's player, if the facing that the other end knows would mislead.
    pub gaze: Option<Gaze>,
    /// Events, one after the other.
    pub events: &'a [u8],
    /// A state packet; empty if there is none.
    pub state: &'a [u8],
}

impl<'a> PeerDatagram<'a> {
    /// Appends the datagram to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (events, state) = (!self.events.is_empty(), !self.state.is_empty());
        let flags = [self.ack.is_some(), events, state, self.asks, self.gaze.is_some()];
        out.push(FRAME);
        out.push(flags.iter().enumerate().map(|(bit, set)| u8::from(*set) << bit).sum());
        if let Some(ack) = self.ack {
            out.extend(ack.newest.to_le_bytes());
            // The packets that did not arrive: few, and rarely long ago.
            let mut missing = !ack.before;
            while missing > 0x7f {
                out.push(missing as u8 | 0x80);
                missing >>= 7;
            }
            out.push(missing as u8);
        }
        out.extend(self.gaze.iter().flat_map(|gaze| gaze.0));
        if !self.events.is_empty() {
            out.extend((self.events.len() as u16).to_le_bytes());
            out.extend(self.events);
        }
        out.extend(self.state);
    }

    /// Reads a datagram.
    pub fn read(bytes: &'a [u8]) -> Option<PeerDatagram<'a>> {
        if bytes.len() > MAX_PACKET + FRAME_ROOM {
            return None;
        }
        let [FRAME, flags @ 0..32, rest @ ..] = bytes else { return None };
        let (mut frame, mut rest) =
            (PeerDatagram { asks: flags & 8 != 0, ..PeerDatagram::default() }, rest);
        if flags & 1 != 0 {
            let (newest, after) = rest.split_first_chunk::<2>()?;
            let last = after.iter().take(5).position(|byte| *byte < 0x80)?;
            let (missing, after) = after.split_at(last + 1);
            let missing =
                missing.iter().rev().fold(0u64, |all, byte| all << 7 | u64::from(byte & 0x7f));
            let before = !u32::try_from(missing).ok()?;
            let newest = u16::from_le_bytes(*newest);
            (frame.ack, rest) = (Some(Ack { newest, before }), after);
        }
        if flags & 16 != 0 {
            let (gaze, after) = rest.split_first_chunk::<2>()?;
            (frame.gaze, rest) = (Some(Gaze(*gaze)), after);
        }
        if flags & 2 != 0 {
            let (length, after) = rest.split_at_checked(2)?;
            let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
            (frame.events, rest) = after.split_at_checked(length)?;
        }
        frame.state = rest;
        // A flag is set exactly if its content is there.
        (rest.is_empty() == (flags & 4 == 0)).then_some(frame)
    }
}

/// A signed summary of a peer, sent rarely and passed on by others.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Digest {
    /// The author's key.
    pub key: Key,
    /// Higher each time; 0 before the author is in the world.
    pub number: u32,
    /// Where the author's avatar is, in whole units.
    pub at: [i32; 3],
    /// How to reach the author; only the transport reads it.
    pub contact: Vec<u8>,
    /// The world's objects that it owns, with their epochs.
    pub owned: Vec<(Named, u32)>,
    /// Those of them without a place, which every peer must know: id, tick, lanes.
    pub boards: Vec<(Named, u32, Vec<i32>)>,
    /// The author has left.
    pub gone: bool,
}

impl Digest {
    /// The number for a time of the world: it rises even if the peer restarts, and is never used
    /// twice.
    pub fn number_at(time: Micros) -> u32 {
        (time.0 / 10_000) as u32
    }

    /// Whether the author was in the world, and so knew the time.
    pub fn is_dated(&self) -> bool {
        self.number > 0
    }

    /// When it was signed, in the world's time.
    pub fn made_at(&self) -> Micros {
        Micros(u64::from(self.number) * 10_000)
    }
}

impl Sealable for Digest {
    const DOMAIN: &'static [u8] = b"foveate digest 1";
    fn key(&self) -> Key {
        self.key
    }
}

/// An action on an object that another peer owns.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Ask {
    /// The key of the requesting peer.
    pub key: Key,
    /// The requester's running number: the action is carried out once, however often it arrives.
    pub number: u32,
    pub object: Named,
    /// The object in whose step a rule requests it; `None`: the player does.
    pub turn: Option<Named>,
    /// The tick that the requester saw.
    pub seen: u32,
    /// The game's action in postcard.
    pub action: Vec<u8>,
}

impl Sealable for Ask {
    const DOMAIN: &'static [u8] = b"foveate ask 1";
    fn key(&self) -> Key {
        self.key
    }
}

impl Ask {
    /// The requester, as rules see it.
    pub fn by(&self) -> Requester {
        match self.turn {
            Some(object) => Requester::Object(object.id()),
            None => Requester::Player(self.key.player(), Tick(self.seen)),
        }
    }
}

/// Changes of links and objects at a peer since its last such message; to a new neighbour, all of
/// them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Changes {
    /// New links.
    #[serde(with = "rising")]
    pub linked: Vec<u32>,
    /// Closed links.
    #[serde(with = "rising")]
    pub unlinked: Vec<u32>,
    /// Objects that the sender owns now, with their epochs.
    pub gained: Vec<(Named, u32)>,
    /// Objects that it handed over or yielded: the new owner and epoch.
    pub gave: Vec<(Named, u32, u32)>,
    /// Objects that were removed.
    pub removed: Vec<(Named, u32)>,
}

impl Changes {
    /// Notes a new link.
    pub fn link(&mut self, player: PlayerId) {
        self.unlinked.retain(|it| *it != player.0);
        self.linked.push(player.0);
    }

    /// Notes a closed link. If a message contains both, the receiver takes the last one as the
    /// truth.
    pub fn unlink(&mut self, player: PlayerId) {
        self.linked.retain(|it| *it != player.0);
        self.unlinked.push(player.0);
    }

    /// Notes an object that the sender owns. Of several changes of an object, the last one counts.
    pub fn gain(&mut self, id: ObjectId, epoch: Epoch) {
        self.forget_object(id.into());
        self.gained.push((id.into(), epoch.0));
    }

    /// Notes an object that another peer owns now.
    pub fn give(&mut self, id: ObjectId, to: OwnerClaim) {
        self.forget_object(id.into());
        self.gave.push((id.into(), to.epoch.0, to.owner.0));
    }

    /// Notes a removed object; no claim on it at any epoch is honest from now on.
    pub fn remove(&mut self, id: ObjectId) {
        self.forget_object(id.into());
        self.removed.push((id.into(), u32::MAX));
    }

    /// Takes the changes of objects; changes of links stay, and can wait.
    pub fn take_objects(&mut self) -> Changes {
        let (linked, unlinked) =
            (std::mem::take(&mut self.linked), std::mem::take(&mut self.unlinked));
        std::mem::replace(self, Changes { linked, unlinked, ..Changes::default() })
    }

    /// Splits it into parts that fit a message each; changes of links are in the first.
    pub fn parts(mut self) -> Vec<Changes> {
        let mut parts = Vec::new();
        while self.gained.len() + self.gave.len() + self.removed.len() > PART {
            let gained: Vec<_> = self.gained.drain(..self.gained.len().min(PART)).collect();
            let room = PART - gained.len();
            let gave: Vec<_> = self.gave.drain(..self.gave.len().min(room)).collect();
            let room = room - gave.len();
            let removed = self.removed.drain(..self.removed.len().min(room)).collect();
            let (linked, unlinked) =
                (std::mem::take(&mut self.linked), std::mem::take(&mut self.unlinked));
            parts.push(Changes { linked, unlinked, gained, gave, removed });
        }
        parts.push(self);
        parts
    }

    fn forget_object(&mut self, object: Named) {
        self.gained.retain(|it| it.0 != object);
        self.gave.retain(|it| it.0 != object);
        self.removed.retain(|it| it.0 != object);
    }

    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }
}

/// Players in ascending order, each as the difference from the one before: three bytes instead of
/// four.
mod rising {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(players: &[u32], to: S) -> Result<S::Ok, S::Error> {
        let mut players = players.to_vec();
        players.sort_unstable();
        let mut before = 0;
        let steps = players.iter().map(|player| player - std::mem::replace(&mut before, *player));
        steps.collect::<Vec<u32>>().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u32>, D::Error> {
        let mut steps = Vec::<u32>::deserialize(from)?;
        let mut before = 0u32;
        for step in &mut steps {
            // A list that wraps cannot come from the writer.
            let next = before.checked_add(*step);
            before = next.ok_or_else(|| D::Error::custom("players are not in rising order"))?;
            *step = before;
        }
        Ok(steps)
    }
}

/// A whole object that changes owners.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Transfer {
    pub object: Named,
    /// Its epoch with the new owner.
    pub epoch: u32,
    /// All of its lanes.
    pub lanes: Vec<i32>,
    /// Actions on it that were carried out recently: requester and number.
    pub done: Vec<(u32, u32)>,
}

/// Messages on the reliable stream.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum PeerMessage {
    /// First on every link, by both ends.
    Hello {
        /// Versions of the wire.
        versions: Vec<u8>,
        /// The hash of the schema.
        schema: u64,
        /// The sender's digest, which contains its key.
        digest: Sealed,
        /// The sender's clock in microseconds; returned in `Time`.
        clock: u64,
        /// Whether the sender is in the world already.
        inside: bool,
    },
    /// Answers the `Hello` of a new peer.
    Time {
        /// The new peer's clock.
        echo: u64,
        /// The world's time when the hello arrived.
        time: u64,
    },
    /// How the sender wants to be updated: by which of the game's views and from where, and whether
    /// it wants the link at all. Sent again when it changes.
    Subscribe {
        /// The number of the view.
        view: u8,
        /// The object that a spectator looks from; `None`: the sender's avatar.
        watched: Option<Named>,
        /// Whether the link is wanted.
        wanted: bool,
    },
    Changes(Changes),
    /// Digests of others, or of the sender.
    Members(Vec<Sealed>),
    /// Hands an object over.
    Give(Transfer),
    /// Confirms an object, at this epoch; `u32::MAX`: it was not accepted.
    Took(Named, u32),
    /// Another peer claims an object that the sender believes to be yours: the object, the epoch,
    /// the claimant. Answered by `Changes`.
    Claimed(Named, u32, u32),
    /// An [`Ask`] for an object's owner, here or further on, and how many links it has travelled.
    Ask(Sealed, u8),
    /// The answer to an action: requester and number.
    Done(u32, u32),
    /// Goodbye.
    Bye {
        /// True: the sender leaves the game. False: it closes this link.
        leaving: bool,
    },
    /// Players that the sender sees near the receiver, which may not see them: numbers and places,
    /// in whole units.
    Sighted(Vec<(u32, [i32; 3])>),
    /// Requests the digests of these players, which `Members` answers.
    Who(Vec<u32>),
}

/// The player with this number.
pub(super) fn player(number: u32) -> PlayerId {
    PlayerId(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{read_message, write_message};

    #[test]
    fn frames_return_in_every_shape_and_nothing_else_is_read() {
        for flags in 0..32u8 {
            let set = |bit: u8| flags >> bit & 1 == 1;
            let before = [u32::MAX, u32::MAX - 0x80, u32::MAX >> 1, 0b1011][usize::from(flags) / 8];
            let frame = PeerDatagram {
                ack: set(0).then_some(Ack { newest: 7, before }),
                asks: set(3),
                gaze: set(4).then_some(Gaze([200, 3])),
                events: if set(1) { &[5, 6, 7] } else { &[] },
                state: if set(2) { &[8, 9] } else { &[] },
            };
            let mut bytes = Vec::new();
            frame.write(&mut bytes);
            assert_eq!(PeerDatagram::read(&bytes), Some(frame), "flags {flags:05b}");
            for cut in 0..bytes.len() {
                let read = PeerDatagram::read(&bytes[..cut]);
                assert!(read.is_none_or(|read| set(2) && !read.state.is_empty()), "cut at {cut}");
            }
        }
        assert_eq!(PeerDatagram::read(&[FRAME, 32]), None);
        assert_eq!(
            PeerDatagram::read(&[FRAME, 1, 7, 0, 0xff, 0xff, 0xff, 0xff, 0x7f]),
            None,
            "too large"
        );
    }

    #[test]
    fn players_in_an_order_that_wraps_are_refused() {
        let changes = Changes { linked: vec![7, u32::MAX], ..Changes::default() };
        let bytes = write_message(&changes);
        assert_eq!(read_message(&bytes), Some(changes));
        // The differences of this list, and the four other lists, which are empty.
        let wrapping = [&write_message(&vec![7, u32::MAX])[..], &[0; 4]].concat();
        assert_eq!(wrapping.len(), bytes.len(), "the same shape");
        assert_eq!(read_message::<Changes>(&wrapping), None);
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = (0..rng.usize(..60)).map(|_| rng.u8(..)).collect();
            read_message::<PeerMessage>(&bytes);
            if let Some(first) = bytes.first_mut() {
                *first = FRAME;
            }
            PeerDatagram::read(&bytes);
        }
        let id = ObjectId::new(foveate_wire::KindId(3), 0, 9);
        let gave = vec![(Named::from(id), 4, 5)];
        assert_eq!(gave[0].0.id(), id);
        let mut changes = Changes { gave, ..Changes::default() };
        [1, 2, 3].into_iter().for_each(|it| changes.link(PlayerId(it)));
        [2, 4].into_iter().for_each(|it| changes.unlink(PlayerId(it)));
        changes.link(PlayerId(4));
        assert_eq!((&changes.linked[..], &changes.unlinked[..]), (&[1, 3, 4][..], &[2][..]));
        let message = PeerMessage::Changes(changes.clone());
        assert_eq!(read_message(&write_message(&message)), Some(message));
        let (ours, theirs) = (Epoch(9), OwnerClaim { owner: PlayerId(7), epoch: Epoch(8) });
        changes.give(id, theirs);
        changes.gain(id, ours);
        let objects = changes.take_objects();
        assert_eq!((&objects.gained[..], &objects.gave[..]), (&[(id.into(), 9)][..], &[][..]));
        assert!(objects.linked.is_empty() && changes.linked == [1, 3, 4]);
        assert!(changes.gained.is_empty(), "said once");
    }
}
