//! The source's messages, byte by byte: its layouts, with the sizes that it measured.
//!
//! The layouts leave some contents open. They are filled with what such messages have: player names, addresses, names
//! of animations, absolute timestamps, and string ids of the form "type_xxx". A string id of 32 characters, as long as
//! a GUID's digits, gives positions, actions and full states their measured sizes. No byte is padding.

use foveate_lab::movement::AvatarPose;

/// Bytes of a position message, as the source measured it.
pub const POSITION: usize = 95;
/// Milliseconds from 1970 to the run, since the source's timestamps are absolute.
const EPOCH: u64 = 1_270_000_000_000;

/// A message being written. Integers are big-endian; the source does not state the order.
pub struct GvoMessage(Vec<u8>);

impl GvoMessage {
    /// Starts with the header: length (set at the end), type, stream, sender, one bit that takes a byte.
    pub fn new(kind: u8, stream: u8, sender: u16, stamp: Option<u64>) -> GvoMessage {
        let mut bytes = vec![0, 0, 0, 0, kind, stream];
        bytes.extend(sender.to_be_bytes());
        bytes.push(u8::from(stamp.is_some()) << 7);
        stamp.iter().for_each(|stamp| bytes.extend((EPOCH + stamp).to_be_bytes()));
        GvoMessage(bytes)
    }

    fn u16(mut self, value: u16) -> GvoMessage {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn u32(mut self, value: u32) -> GvoMessage {
        self.0.extend(value.to_be_bytes());
        self
    }

    fn bytes(mut self, bytes: &[u8]) -> GvoMessage {
        self.0.extend(bytes);
        self
    }

    fn floats(mut self, values: [f32; 3]) -> GvoMessage {
        values.iter().for_each(|value| self.0.extend(value.to_be_bytes()));
        self
    }

    /// A string: 32 bits of length, then the bytes.
    fn text(self, text: &str) -> GvoMessage {
        self.u32(text.len() as u32).bytes(text.as_bytes())
    }

    pub fn done(mut self) -> Vec<u8> {
        let length = (self.0.len() as u32).to_be_bytes();
        self.0[..4].copy_from_slice(&length);
        self.0
    }
}

fn turned(pose: &AvatarPose) -> [f32; 3] {
    [0.0, pose.yaw, pose.pitch]
}

/// Names of animations, in a position and in a full state.
const WALKS: &str = "walk_forward";
const RUNS: &str = "run_forward";
/// The same in the packets of the compression table, which are 11 B shorter and 2 B per object longer.
const WALKS_IN_TABLE: &str = "w";
const RUNS_IN_TABLE: &str = "walk_backward";

/// An object's string id: its type and 24 digits that are unique to it.
fn string_id(thing: usize) -> String {
    let kind = ["soldier", "grenade", "vehicle", "machine"][thing % 4];
    // Any mixing function will do, as long as ids of neighbours differ.
    let high = (thing as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let low = (high ^ high >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32;
    format!("{kind}_{high:016x}{low:08x}")
}

/// An object's place, with its timestamp in milliseconds.
pub fn position(sender: u16, thing: usize, pose: &AvatarPose, stamp: u64) -> Vec<u8> {
    placed(sender, thing, pose, stamp, WALKS)
}

fn placed(sender: u16, thing: usize, pose: &AvatarPose, stamp: u64, animation: &str) -> Vec<u8> {
    let message = GvoMessage::new(2, 1, sender, Some(stamp)).u16(thing as u16);
    message.floats(pose.pos).floats(turned(pose)).text(&string_id(thing)).text(animation).done()
}

/// Offsets from the last full position.
pub struct Increment {
    pub offsets: [i8; 6],
    /// The full position's number.
    pub number: u32,
    /// The size of an offset: 8 or 4.
    pub bits: u32,
}

/// With offsets of 8 bits the message has 30 B as in the source's example.
pub fn increment(sender: u16, thing: usize, increment: &Increment, stamp: u64) -> Vec<u8> {
    let Increment { offsets, number, bits } = *increment;
    let message = GvoMessage::new(3, 1, sender, Some(stamp)).u16(thing as u16).u32(number);
    let bytes = offsets.map(|offset| offset as u8);
    let message = match bits {
        8 => message.bytes(&bytes),
        _ => message.bytes(&[0, 2, 4].map(|at| bytes[at] << 4 | bytes[at + 1] & 15)),
    };
    // The animation's number.
    message.bytes(&[1]).done()
}

/// A unit's place and target.
pub fn action(sender: u16, thing: usize, from: [f32; 3], to: [f32; 3], stamp: u64) -> Vec<u8> {
    let message = GvoMessage::new(4, 2, sender, Some(stamp)).u16(thing as u16);
    message.floats(from).floats(to).text(&string_id(thing)).done()
}

/// Names of players.
const NAMES: [&str; 10] = [
    "alexander",
    "stephanie",
    "ferdinand",
    "charlotte",
    "dominique",
    "frederick",
    "gabrielle",
    "josephine",
    "katharina",
    "sebastian",
];

fn greeting(message: GvoMessage, player: u16) -> GvoMessage {
    let name = NAMES[usize::from(player) % NAMES.len()];
    let address = format!("10.0.0.{}", 10 + player % 90);
    message.u16(player).text(name).text(&address).u16(4_000).u16(4_001)
}

/// A player introduces itself.
pub fn hello(player: u16) -> Vec<u8> {
    greeting(GvoMessage::new(0, 0, player, None), player).done()
}

/// The list of players. With a timestamp, two players take the 85 B that the source measured.
pub fn player_list(sender: u16, players: &[u16], stamp: u64) -> Vec<u8> {
    let message = GvoMessage::new(1, 0, sender, Some(stamp)).u32(players.len() as u32);
    players.iter().fold(message, |message, player| greeting(message, *player)).done()
}

/// A peer introduces itself on a new connection.
pub fn identify(player: u16) -> Vec<u8> {
    GvoMessage::new(5, 0, player, None).u16(player).u16(4_001).done()
}

/// A player's objects, each with its string id.
pub fn full_state(owner: u16, things: &[(usize, AvatarPose)]) -> Vec<u8> {
    full_states(owner, things, RUNS)
}

fn full_states(owner: u16, things: &[(usize, AvatarPose)], animation: &str) -> Vec<u8> {
    let message = GvoMessage::new(6, 3, owner, None).u16(owner).u32(things.len() as u32);
    let each = |message: GvoMessage, (thing, pose): &(usize, AvatarPose)| {
        let message = message.u16(*thing as u16).floats(pose.pos).floats(turned(pose));
        message.text(animation).text(&string_id(*thing))
    };
    things.iter().fold(message, each).done()
}

pub fn zone_changed(sender: u16, player: u16, thing: usize, [x, z]: [i32; 2]) -> Vec<u8> {
    let message = GvoMessage::new(7, 4, sender, None).u16(player).u16(thing as u16);
    message.u32(x as u32).u32(z as u32).done()
}

pub fn zone_get(sender: u16, [x, z]: [i32; 2]) -> Vec<u8> {
    GvoMessage::new(8, 4, sender, None).u32(x as u32).u32(z as u32).done()
}

pub fn zone_set(sender: u16, [x, z]: [i32; 2], players: &[u16]) -> Vec<u8> {
    let message = GvoMessage::new(9, 4, sender, None).u32(x as u32).u32(z as u32);
    let message = message.u32(players.len() as u32);
    players.iter().fold(message, |message, player| message.u16(*player)).done()
}

pub fn selection(sender: u16, thing: usize) -> Vec<u8> {
    GvoMessage::new(10, 4, sender, None).u16(thing as u16).done()
}

/// One of each message in the source's compression table, with its size there.
pub fn samples(round: u64) -> Vec<(&'static str, Vec<u8>)> {
    let pose = |n: u64| {
        let [x, y] = [12.53 + 1.37 * n as f32, 40.21 + 0.71 * n as f32];
        AvatarPose { pos: [x, y, 0.0], yaw: 1.5 + 0.1 * n as f32, ..AvatarPose::default() }
    };
    let (thing, stamp) = (3 + round as usize, 1_000 + 40 * round);
    let (one, two) = (1 + round as u16, 2 + round as u16);
    let objects = [(1, pose(0)), (2, pose(1)), (3, pose(2))];
    vec![
        ("identify", identify(one)),
        ("hello", hello(one)),
        ("player list", player_list(one, &[one, two], stamp)),
        ("full state", full_states(one, &objects, RUNS_IN_TABLE)),
        ("selection", selection(one, thing)),
        ("position", placed(one, thing, &pose(round), stamp, WALKS_IN_TABLE)),
        ("action", action(one, thing, pose(round).pos, pose(round + 9).pos, stamp)),
        ("zone change", zone_changed(one, one, thing, [1, round as i32])),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_sizes_that_the_source_measured() {
        let pose = AvatarPose::default();
        assert_eq!(position(1, 2, &pose, 3).len(), POSITION);
        assert_eq!(action(1, 2, pose.pos, pose.pos, 3).len(), 79);
        let offsets = Increment { offsets: [0; 6], number: 4, bits: 8 };
        assert_eq!(increment(1, 2, &offsets, 5).len(), 30);
        assert_eq!(hello(1).len(), 41);
        assert_eq!(identify(1).len(), 13);
        assert_eq!(player_list(1, &[1, 2], 3).len(), 85);
        assert_eq!(full_state(1, &[(1, pose); 3]).len(), 246);
        assert_eq!(zone_changed(1, 1, 2, [0, 0]).len(), 21);
        assert_eq!(selection(1, 2).len(), 11);
        let table = samples(0).into_iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>();
        assert_eq!(table, [13, 41, 85, 252, 11, 84, 79, 21]);
    }

    #[test]
    fn strings_are_of_one_length_and_differ_from_object_to_object() {
        let ids: std::collections::BTreeSet<String> = (0..1_000).map(string_id).collect();
        assert_eq!(ids.len(), 1_000);
        assert!(ids.iter().all(|id| id.len() == 32));
        for (_, message) in samples(0) {
            // Padding would be a long run of zeros; the longest run is three floats that are zero.
            let longest = message.chunk_by(|a, b| a == b).map(<[u8]>::len).max();
            assert!(longest <= Some(14), "{message:?}");
        }
        for player in 0..100 {
            assert_eq!(hello(player).len(), 41, "player {player}");
        }
    }
}
