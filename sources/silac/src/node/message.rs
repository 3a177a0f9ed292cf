//! Silac's messages as bytes: header, payload, tail, and optionally the participants asked for.
//!
//! | part | fields |
//! | --- | --- |
//! | header, 20 B | type u8 · hop u8 · sender's port u16 · game u32 · number u32 · last number received from the addressee u32 · payload size u32 |
//! | payload | by type, see [`Payload`] |
//! | tail | sender's unused uplink u32 · count u32 · recipients u32… |
//! | asked, if the type has the bit 64 | count u32 · participants u32… |
//!
//! The source gives fields and widths. It leaves open, and we chose: least significant byte first; a leave names the
//! node that leaves; an interaction that is sent again in full has its id, and length zero if it was withdrawn; a name
//! is a length and UTF-8; an address is its family (4 or 6), its bytes and a port. A number is the frame of its
//! origin's logical clock: full interactions are dated by number and measured in frames, so a number must count frames.

use super::NodeId;
use super::reader::Bytes;
use std::net::{IpAddr, SocketAddr};
use thiserror::Error;

/// The longest message, which fits one datagram on any path.
pub const MAX_MESSAGE: usize = 1200;
/// The most recipients that a tail lists.
pub const MAX_RECIPIENTS: usize = 192;
/// The most participants that one message asks for.
pub const MAX_ASKED: usize = 16;
/// The most interactions in one full interaction message.
pub const MAX_FULL: usize = 8;
/// The longest name, in bytes.
pub const MAX_NAME: usize = 32;
/// The bytes of a header.
pub const HEADER: usize = 20;
/// Offset of the last number received from the addressee in a header.
const LAST_AT: usize = 12;
/// Added to the type if participants are asked for at the end.
const ASKS: u8 = 64;
/// One interaction of a full interaction message.
const FULL_BYTES: usize = 36;

/// A message that cannot be read. None of it was applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum BadMessage {
    /// It is longer than any message.
    #[error("{0} bytes, more than the {MAX_MESSAGE} of the longest message")]
    TooLong(usize),
    /// It ends within a field.
    #[error("it ends within a field")]
    Cut,
    /// Bytes follow its end.
    #[error("{0} bytes follow the end")]
    Trailing(usize),
    /// No message has this type.
    #[error("no message between nodes has type {0}")]
    Type(u8),
    /// The hop is above the limit: a message has at most three senders.
    #[error("hop {0}, but the third sender's is 2")]
    Hop(u8),
    /// The payload is not as long as the header says.
    #[error("the payload is not as long as the header says")]
    PayloadSize,
    /// The payload has an impossible value.
    #[error("the payload holds an impossible {0}")]
    Payload(&'static str),
    /// A list has more entries than it may have.
    #[error("a list of {0} entries is too long")]
    List(u32),
}

/// What a message is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum SilacMessageKind {
    /// A request to join.
    Join = 0,
    /// The answer to a join request, or the data of a participant that was asked for.
    Accept = 1,
    /// The rejection of a join request.
    Reject = 2,
    /// A node leaves.
    Leave = 3,
    /// An avatar's state: over nine tenths of all messages.
    State = 9,
    /// Lost interactions, in full.
    Full = 10,
}

impl SilacMessageKind {
    fn of(code: u8) -> Option<SilacMessageKind> {
        let all = [
            SilacMessageKind::Join,
            SilacMessageKind::Accept,
            SilacMessageKind::Reject,
            SilacMessageKind::Leave,
            SilacMessageKind::State,
            SilacMessageKind::Full,
        ];
        all.into_iter().find(|kind| *kind as u8 == code)
    }

    /// Whether receivers pass it on. A reject is an answer to one node, like an accept.
    pub fn is_forwarded(self) -> bool {
        !matches!(self, SilacMessageKind::Accept | SilacMessageKind::Reject)
    }
}

/// Why a join request is rejected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Error)]
#[repr(u8)]
pub enum Reject {
    /// The avatar's data make no sense.
    #[error("bad avatar data")]
    Avatar = 1,
    /// The avatar is outside the map.
    #[error("the avatar is outside the map")]
    Outside = 2,
    /// Another game, map or type of game is played here.
    #[error("bad game data")]
    Game = 3,
    /// Another player has this name.
    #[error("the name is already in use")]
    Name = 4,
    /// The address is invalid, or the avatar's id does not derive from it.
    #[error("bad sender address")]
    Address = 5,
}

impl Reject {
    /// All reasons, in the order of their codes.
    pub const ALL: [Reject; 5] =
        [Reject::Avatar, Reject::Outside, Reject::Game, Reject::Name, Reject::Address];
}

/// An avatar's interaction: the element, whether it changes the world, and a serial number. Never zero on the wire,
/// where zero means none.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Interaction(u32);

impl Interaction {
    /// Element numbers are below this.
    pub const MAX_ELEMENT: u32 = 1 << 19;
    /// Serial numbers run from 1 to this, and then start again from 1.
    pub const MAX_SERIAL: u32 = (1 << 12) - 1;

    /// Makes an interaction; numbers wrap into their ranges.
    pub fn new(element: u32, lasting: bool, serial: u32) -> Interaction {
        let serial = serial % Self::MAX_SERIAL + 1;
        Interaction(u32::from(lasting) << 31 | (element % Self::MAX_ELEMENT) << 12 | serial)
    }

    /// The element that it acts on.
    pub fn element(self) -> u32 {
        self.0 >> 12 & (Self::MAX_ELEMENT - 1)
    }

    /// Whether it changes the world, so that it must not be lost; shots and the like do not.
    pub fn is_lasting(self) -> bool {
        self.0 >> 31 == 1
    }

    /// The number on the wire.
    pub fn code(self) -> u32 {
        self.0
    }

    fn read(code: u32) -> Option<Interaction> {
        (code & Self::MAX_SERIAL != 0).then_some(Interaction(code))
    }
}

/// An avatar's state at one moment.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct SilacAvatar {
    pub position: [f32; 3],
    /// The direction it looks in.
    pub facing: [f32; 3],
    /// Its activity, a number that the game defines.
    pub state: u16,
    /// Its weapon, a number that the game defines.
    pub weapon: u16,
}

impl SilacAvatar {
    /// Whether all numbers are finite.
    pub fn is_finite(&self) -> bool {
        self.position.iter().chain(&self.facing).all(|value| value.is_finite())
    }
}

/// All data of a participant.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SilacParticipant<'a> {
    /// Its id, derived from the address.
    pub id: NodeId,
    pub avatar: SilacAvatar,
    /// The look of the avatar, a number that the game defines.
    pub model: u32,
    /// The player's name.
    pub name: &'a str,
    /// Where it receives messages, so that any node can answer directly.
    pub address: SocketAddr,
}

/// An avatar's state and interactions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct State {
    pub id: NodeId,
    pub avatar: SilacAvatar,
    /// An interaction, new or repeated.
    pub done: Option<Interaction>,
    /// An interaction that is withdrawn.
    pub withdrawn: Option<Interaction>,
}

/// An interaction in full.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Full {
    pub interaction: Interaction,
    /// Where the avatar was.
    pub position: [f32; 3],
    /// The direction it looked in.
    pub facing: [f32; 3],
    /// The number of the first message that carried it.
    pub first: u32,
    /// Frames that it lasted; zero if it was withdrawn.
    pub frames: u32,
}

/// A list of ids, read from the message when iterated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ids<'a>(&'a [u8]);

impl<'a> Ids<'a> {
    pub fn iter(self) -> impl Iterator<Item = NodeId> + 'a {
        self.0.chunks_exact(4).map(|b| NodeId(u32::from_le_bytes([b[0], b[1], b[2], b[3]])))
    }

    fn read(rest: &mut Bytes<'a>, most: usize) -> Result<Ids<'a>, BadMessage> {
        let count = rest.u32().ok_or(BadMessage::Cut)?;
        if count as usize > most {
            return Err(BadMessage::List(count));
        }
        rest.take(count as usize * 4).map(Ids).ok_or(BadMessage::Cut)
    }
}

/// A list of interactions, read from the message when iterated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fulls<'a>(&'a [u8]);

impl<'a> Fulls<'a> {
    /// Iterates over the list, skipping invalid interactions.
    pub fn iter(self) -> impl Iterator<Item = Full> + 'a {
        self.0.chunks_exact(FULL_BYTES).filter_map(|bytes| {
            let mut rest = Bytes(bytes);
            Some(Full {
                interaction: Interaction::read(rest.u32()?)?,
                position: vector(&mut rest)?,
                facing: vector(&mut rest)?,
                first: rest.u32()?,
                frames: rest.u32()?,
            })
        })
    }
}

/// A message's contents.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Payload<'a> {
    /// Type 0: the participant, the map and the type of game.
    Join(SilacParticipant<'a>, u32, u32),
    /// Type 1.
    Accept(SilacParticipant<'a>),
    /// Type 2.
    Reject(Reject),
    /// Type 3.
    Leave(NodeId),
    /// Type 9.
    State(State),
    /// Type 10.
    Full(NodeId, Fulls<'a>),
}

/// A message's header without the type and the payload's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Times that it was passed on.
    pub hop: u8,
    /// The port at which its sender receives replies, whether it made the message or passed it on.
    pub port: u16,
    pub game: u32,
    /// The frame of its origin's logical clock.
    pub number: u32,
    /// The number of the last message that the sender received from the addressee; zero if none.
    pub last: u32,
}

/// A message as read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SilacMessage<'a> {
    pub kind: SilacMessageKind,
    pub header: Header,
    pub payload: Payload<'a>,
    /// The payload's bytes, to pass it on unchanged.
    pub payload_bytes: &'a [u8],
    /// Half of the sender's free uplink, bytes per second.
    pub uplink: u32,
    /// Nodes that it was sent to so far.
    pub recipients: Ids<'a>,
    /// Participants whose data the sender asks for.
    pub asked: Ids<'a>,
}

impl<'a> SilacMessage<'a> {
    /// Reads a whole message, or rejects it.
    pub fn read(bytes: &'a [u8]) -> Result<SilacMessage<'a>, BadMessage> {
        if bytes.len() > MAX_MESSAGE {
            return Err(BadMessage::TooLong(bytes.len()));
        }
        let mut rest = Bytes(bytes);
        let code = rest.u8().ok_or(BadMessage::Cut)?;
        let kind = SilacMessageKind::of(code & !ASKS).ok_or(BadMessage::Type(code))?;
        let hop = rest.u8().ok_or(BadMessage::Cut)?;
        if hop > 2 {
            return Err(BadMessage::Hop(hop));
        }
        let port = rest.u16().ok_or(BadMessage::Cut)?;
        let mut word = || rest.u32().ok_or(BadMessage::Cut);
        let (game, number, last, size) = (word()?, word()?, word()?, word()?);
        let payload_bytes = rest.take(size as usize).ok_or(BadMessage::PayloadSize)?;
        let payload = read_payload(kind, payload_bytes)?;
        let uplink = rest.u32().ok_or(BadMessage::Cut)?;
        let recipients = Ids::read(&mut rest, MAX_RECIPIENTS)?;
        let asks = code & ASKS != 0;
        let asked = if asks { Ids::read(&mut rest, MAX_ASKED)? } else { Ids::default() };
        if !rest.0.is_empty() {
            return Err(BadMessage::Trailing(rest.0.len()));
        }
        let header = Header { hop, port, game, number, last };
        Ok(SilacMessage { kind, header, payload, payload_bytes, uplink, recipients, asked })
    }
}

fn read_payload(kind: SilacMessageKind, bytes: &[u8]) -> Result<Payload<'_>, BadMessage> {
    let mut rest = Bytes(bytes);
    let cut = BadMessage::PayloadSize;
    let payload = match kind {
        SilacMessageKind::Join => {
            let participant = read_participant(&mut rest)?;
            Payload::Join(participant, rest.u32().ok_or(cut)?, rest.u32().ok_or(cut)?)
        }
        SilacMessageKind::Accept => Payload::Accept(read_participant(&mut rest)?),
        SilacMessageKind::Reject => {
            let code = rest.u8().ok_or(cut)?;
            let found = Reject::ALL.into_iter().find(|reject| *reject as u8 == code);
            Payload::Reject(found.ok_or(BadMessage::Payload("code"))?)
        }
        SilacMessageKind::Leave => Payload::Leave(NodeId(rest.u32().ok_or(cut)?)),
        SilacMessageKind::State => read_state(&mut rest).map(Payload::State).ok_or(cut)?,
        SilacMessageKind::Full => {
            let id = NodeId(rest.u32().ok_or(cut)?);
            let count = rest.u32().ok_or(cut)?;
            if count as usize > MAX_FULL {
                return Err(BadMessage::List(count));
            }
            Payload::Full(id, Fulls(rest.take(count as usize * FULL_BYTES).ok_or(cut)?))
        }
    };
    if rest.0.is_empty() { Ok(payload) } else { Err(cut) }
}

fn vector(rest: &mut Bytes<'_>) -> Option<[f32; 3]> {
    let mut number = || rest.u32().map(f32::from_bits);
    Some([number()?, number()?, number()?])
}

fn read_avatar(rest: &mut Bytes<'_>) -> Option<SilacAvatar> {
    let (position, facing) = (vector(rest)?, vector(rest)?);
    Some(SilacAvatar { position, facing, state: rest.u16()?, weapon: rest.u16()? })
}

fn read_state(rest: &mut Bytes<'_>) -> Option<State> {
    let id = NodeId(rest.u32()?);
    let avatar = read_avatar(rest)?;
    let (done, withdrawn) = (rest.u32()?, rest.u32()?);
    let (done, withdrawn) = (Interaction::read(done), Interaction::read(withdrawn));
    Some(State { id, avatar, done, withdrawn })
}

fn read_participant<'a>(rest: &mut Bytes<'a>) -> Result<SilacParticipant<'a>, BadMessage> {
    let cut = BadMessage::PayloadSize;
    let id = NodeId(rest.u32().ok_or(cut)?);
    let avatar = read_avatar(rest).ok_or(cut)?;
    let model = rest.u32().ok_or(cut)?;
    let length = rest.u8().ok_or(cut)?;
    if usize::from(length) > MAX_NAME {
        return Err(BadMessage::List(u32::from(length)));
    }
    let name = rest.take(usize::from(length)).ok_or(cut)?;
    let name = std::str::from_utf8(name).map_err(|_| BadMessage::Payload("name"))?;
    let ip = match rest.u8().ok_or(cut)? {
        4 => rest.take(4).and_then(|b| <[u8; 4]>::try_from(b).ok()).map(IpAddr::from),
        6 => rest.take(16).and_then(|b| <[u8; 16]>::try_from(b).ok()).map(IpAddr::from),
        _ => return Err(BadMessage::Payload("address")),
    };
    let address = SocketAddr::new(ip.ok_or(cut)?, rest.u16().ok_or(cut)?);
    Ok(SilacParticipant { id, avatar, model, name, address })
}

/// An outgoing message, written once and then addressed to each recipient.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft(Vec<u8>);

impl Draft {
    /// A message with its tail. Only as many recipients as a tail holds are listed, the first ones.
    pub fn new(
        kind: SilacMessageKind,
        header: Header,
        payload: &[u8],
        uplink: u32,
        recipients: &[NodeId],
    ) -> Draft {
        let listed = &recipients[..recipients.len().min(MAX_RECIPIENTS)];
        let mut bytes = Vec::with_capacity(HEADER + payload.len() + 8 + 4 * listed.len());
        bytes.extend([kind as u8, header.hop]);
        bytes.extend(header.port.to_le_bytes());
        let words = [header.game, header.number, header.last, payload.len() as u32];
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(payload);
        bytes.extend(uplink.to_le_bytes());
        put_ids(&mut bytes, listed);
        Draft(bytes)
    }

    /// The bytes for one addressee: the number last received from it, and the participants it is asked for.
    pub fn to(&self, last: u32, asked: &[NodeId]) -> Vec<u8> {
        let asked = &asked[..asked.len().min(MAX_ASKED)];
        let room = if asked.is_empty() { 0 } else { 4 + 4 * asked.len() };
        let mut bytes = Vec::with_capacity(self.0.len() + room);
        bytes.extend(&self.0);
        bytes[LAST_AT..LAST_AT + 4].copy_from_slice(&last.to_le_bytes());
        if !asked.is_empty() {
            bytes[0] |= ASKS;
            put_ids(&mut bytes, asked);
        }
        bytes
    }
}

fn put_ids(bytes: &mut Vec<u8>, ids: &[NodeId]) {
    bytes.extend((ids.len() as u32).to_le_bytes());
    ids.iter().for_each(|id| bytes.extend(id.0.to_le_bytes()));
}

fn put_vectors(bytes: &mut Vec<u8>, vectors: [[f32; 3]; 2]) {
    vectors.iter().flatten().for_each(|value| bytes.extend(value.to_le_bytes()));
}

fn put_avatar(bytes: &mut Vec<u8>, avatar: &SilacAvatar) {
    put_vectors(bytes, [avatar.position, avatar.facing]);
    bytes.extend(avatar.state.to_le_bytes());
    bytes.extend(avatar.weapon.to_le_bytes());
}

fn put_participant(bytes: &mut Vec<u8>, participant: &SilacParticipant<'_>) {
    bytes.extend(participant.id.0.to_le_bytes());
    put_avatar(bytes, &participant.avatar);
    bytes.extend(participant.model.to_le_bytes());
    let name = &participant.name.as_bytes()[..participant.name.floor_char_boundary(MAX_NAME)];
    bytes.push(name.len() as u8);
    bytes.extend(name);
    match participant.address.ip() {
        IpAddr::V4(ip) => {
            bytes.push(4);
            bytes.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes.push(6);
            bytes.extend(ip.octets());
        }
    }
    bytes.extend(participant.address.port().to_le_bytes());
}

/// The payload of a join request.
pub fn join(participant: &SilacParticipant<'_>, map: u32, game_type: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_participant(&mut bytes, participant);
    bytes.extend(map.to_le_bytes());
    bytes.extend(game_type.to_le_bytes());
    bytes
}

/// The payload of an accept.
pub fn accept(participant: &SilacParticipant<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_participant(&mut bytes, participant);
    bytes
}

/// The payload of an avatar's state.
pub fn state(state: &State) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(40);
    bytes.extend(state.id.0.to_le_bytes());
    put_avatar(&mut bytes, &state.avatar);
    for interaction in [state.done, state.withdrawn] {
        bytes.extend(interaction.map_or(0, Interaction::code).to_le_bytes());
    }
    bytes
}

/// The payload of a full interaction message; interactions beyond [`MAX_FULL`] are left out.
pub fn full(id: NodeId, deeds: &[Full]) -> Vec<u8> {
    let deeds = &deeds[..deeds.len().min(MAX_FULL)];
    let mut bytes = Vec::with_capacity(8 + deeds.len() * FULL_BYTES);
    bytes.extend(id.0.to_le_bytes());
    bytes.extend((deeds.len() as u32).to_le_bytes());
    for deed in deeds {
        bytes.extend(deed.interaction.code().to_le_bytes());
        put_vectors(&mut bytes, [deed.position, deed.facing]);
        bytes.extend(deed.first.to_le_bytes());
        bytes.extend(deed.frames.to_le_bytes());
    }
    bytes
}
