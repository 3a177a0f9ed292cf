//! Packets: a few plain bytes, then records in one run of the range coder up to the packet's end.
//!
//! A packet must be read completely before any of it is used, because it may turn out to be
//! invalid.

use crate::coder::{Coder, Decoder, Encoder, Models};
use crate::number::count;
use crate::place::Fall;
use crate::predict::Motion;
use crate::record::{
    Baseline, Pose, PoseBaseline, code_count, code_pose, code_same_others, code_state,
};
use crate::schema::{Kind, Schema};
use crate::{Alias, KindId, ObjectId, Tick, contexts};
use thiserror::Error;

/// The version of packets.
pub const VERSION: u8 = 1;
/// The most bytes of a packet, so that none is fragmented.
pub const MAX_PACKET: usize = 1_200;
/// The most bytes of an object's record.
pub const MAX_RECORD_BYTES: usize = 1_024;
/// The most records in one packet.
pub const MAX_RECORDS: usize = 512;
/// The states of one object that a receiver keeps as baselines.
pub const KEPT_STATES: usize = 32;
/// Bytes before the coded part of a state packet.
pub const STATE_HEADER: usize = 5;
/// Bytes of an acknowledgement.
pub const ACK_BYTES: usize = 7;

const STATE: u8 = 1;
const ACK: u8 = 2;

/// Why a packet was refused. None of it may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PacketError {
    /// Longer than the longest packet.
    #[error("packet of {0} bytes; at most {MAX_PACKET} are allowed")]
    TooLong(usize),
    /// Shorter than its header.
    #[error("packet of {0} bytes is shorter than its header")]
    TooShort(usize),
    /// Not a version of this code.
    #[error("wire version {0}; this end speaks {VERSION}")]
    Version(u8),
    /// Not a packet type.
    #[error("unknown packet type {0}")]
    Type(u8),
    /// Aliases must rise and stay below 2¹⁶.
    #[error("alias out of range")]
    Alias,
    /// An update of an unknown object, or against a state that the receiver does not have.
    #[error("the receiver does not have the baseline of {0:?}")]
    Baseline(Alias),
    /// A whole state of a kind that is not in the schema.
    #[error("unknown kind {0:?}")]
    Kind(KindId),
    /// More records than allowed.
    #[error("more than {MAX_RECORDS} records")]
    TooMany,
}

/// The type of a packet, by its first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketType {
    /// States of objects.
    State,
    /// An acknowledgement.
    Ack,
}

/// Checks a packet's first byte and its length.
pub fn packet_type(bytes: &[u8]) -> Result<PacketType, PacketError> {
    if bytes.len() > MAX_PACKET {
        return Err(PacketError::TooLong(bytes.len()));
    }
    let first = *bytes.first().ok_or(PacketError::TooShort(0))?;
    if first >> 4 != VERSION {
        return Err(PacketError::Version(first >> 4));
    }
    match first & 15 {
        STATE => Ok(PacketType::State),
        ACK => Ok(PacketType::Ack),
        other => Err(PacketError::Type(other)),
    }
}

/// The plain part of a state packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StateHeader {
    /// The number of the packet, by its sender.
    pub seq: u16,
    /// The round of the states. Only 16 bits are sent.
    pub tick: Tick,
}

/// Which packets arrived: the newest, and a bit for each of the 32 before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ack {
    /// The number of the newest packet that arrived.
    pub newest: u16,
    /// Bit n: packet `newest − 1 − n` arrived too.
    pub before: u32,
}

impl Ack {
    /// Whether a packet arrived, according to this.
    pub fn has(&self, seq: u16) -> bool {
        match self.newest.wrapping_sub(seq) {
            0 => true,
            behind @ 1..=32 => self.before >> (behind - 1) & 1 == 1,
            _ => false,
        }
    }

    /// Appends the packet to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(VERSION << 4 | ACK);
        out.extend(self.newest.to_le_bytes());
        out.extend(self.before.to_le_bytes());
    }

    /// Reads a packet.
    pub fn read(bytes: &[u8]) -> Result<Ack, PacketError> {
        match packet_type(bytes)? {
            PacketType::Ack => {}
            PacketType::State => return Err(PacketError::Type(STATE)),
        }
        let body: &[u8; ACK_BYTES] =
            bytes.try_into().map_err(|_| PacketError::TooShort(bytes.len()))?;
        let [_, a, b, c, d, e, f] = *body;
        Ok(Ack { newest: u16::from_le_bytes([a, b]), before: u32::from_le_bytes([c, d, e, f]) })
    }
}

/// Writes one state packet, record by record, with rising aliases. Works with any coder; the real
/// one is an [`Encoder`].
pub struct PacketWriter<C> {
    coder: C,
    next_alias: u32,
    records: usize,
    fall: Option<(i32, Fall)>,
}

impl<'a> PacketWriter<Encoder<'a>> {
    /// Starts a packet at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>, models: &'a mut Models, header: StateHeader) -> Self {
        out.push(VERSION << 4 | STATE);
        out.extend(header.seq.to_le_bytes());
        out.extend((header.tick.0 as u16).to_le_bytes());
        PacketWriter::with(Encoder::new(out, models))
    }

    /// Bytes so far, including those that the end may add.
    #[inline]
    pub fn len(&self) -> usize {
        STATE_HEADER + self.coder.written() + 4
    }

    /// Whether there is no record yet.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Bits of the coded part so far, rounded.
    pub fn bits(&self) -> u32 {
        self.coder.bits()
    }

    /// Ends the packet.
    pub fn finish(self) {
        self.end().finish();
    }
}

impl<C: Coder> PacketWriter<C> {
    /// Starts the coded part of a packet with this coder.
    pub fn with(coder: C) -> Self {
        PacketWriter { coder, next_alias: 0, records: 0, fall: None }
    }

    #[inline(never)]
    fn head(&mut self, alias: Alias) {
        debug_assert!(u32::from(alias.0) >= self.next_alias && self.records < MAX_RECORDS);
        self.coder.bit(contexts::MORE + self.records.min(2), true);
        let gap = u32::from(alias.0).wrapping_sub(self.next_alias);
        code_count(&mut self.coder, contexts::GAP, gap);
        self.next_alias = u32::from(alias.0) + 1;
        self.records += 1;
    }

    /// Writes an object's state against a baseline; returns the state's motion. `now` does not
    /// change: it is mutable because the same code writes and reads.
    pub fn update(
        &mut self,
        alias: Alias,
        kind: &Kind,
        base: &Baseline<'_>,
        now: &mut [i32],
    ) -> Motion {
        self.update_head(alias, base.age);
        self.state(kind, Some(base), now)
    }

    /// Writes the same bytes as [`update`](PacketWriter::update) if only the pose changed. No lanes have
    /// to be assembled for it.
    pub fn update_pose(
        &mut self,
        alias: Alias,
        kind: &Kind,
        then: &PoseBaseline,
        now: Pose,
    ) -> Motion {
        self.update_head(alias, then.age);
        let fall = fall_of(&mut self.fall, kind);
        let (_, motion) = code_pose(&mut self.coder, kind, Some(then), fall, now);
        code_same_others(&mut self.coder);
        motion
    }

    fn update_head(&mut self, alias: Alias, age: u32) {
        self.head(alias);
        self.coder.bit(contexts::OPERATION, false);
        code_count(&mut self.coder, contexts::AGE, age.saturating_sub(1));
    }

    /// Writes the object's id and whole state.
    pub fn full(&mut self, alias: Alias, id: ObjectId, kind: &Kind, now: &mut [i32]) {
        self.head(alias);
        self.coder.bit(contexts::OPERATION, true);
        self.coder.bit(contexts::OPERATION + 1, false);
        code_name(&mut self.coder, id);
        self.state(kind, None, now);
    }

    fn state(&mut self, kind: &Kind, base: Option<&Baseline<'_>>, now: &mut [i32]) -> Motion {
        code_state(&mut self.coder, kind, base, fall_of(&mut self.fall, kind), now)
    }

    /// Writes that the replica gets no more updates for now.
    pub fn freeze(&mut self, alias: Alias) {
        self.notice(alias, false);
    }

    /// Writes that the replica must be dropped.
    pub fn gone(&mut self, alias: Alias) {
        self.notice(alias, true);
    }

    fn notice(&mut self, alias: Alias, gone: bool) {
        self.head(alias);
        self.coder.bit(contexts::OPERATION, true);
        self.coder.bit(contexts::OPERATION + 1, true);
        self.coder.bit(contexts::OPERATION + 2, gone);
    }

    /// Writes the end and returns the coder.
    pub fn end(mut self) -> C {
        self.coder.bit(contexts::MORE + self.records.min(2), false);
        self.coder
    }
}

/// What a packet knows of free fall, started anew for a kind that states another.
fn fall_of<'f>(fall: &'f mut Option<(i32, Fall)>, kind: &Kind) -> &'f mut Fall {
    let stated = kind.place.map_or(0, |place| place.fall);
    if fall.is_none_or(|(known, _)| known != stated) {
        *fall = Some((stated, Fall::new(stated)));
    }
    &mut fall.get_or_insert((stated, Fall::new(stated))).1
}

fn code_name<C: Coder>(c: &mut C, id: ObjectId) -> ObjectId {
    let kind = c.raw(8, u32::from(id.kind().0));
    let creator = count(c, &contexts::counted(contexts::NAME, 0), id.creator());
    let serial = count(c, &contexts::counted(contexts::NAME, 1), id.serial());
    ObjectId::new(KindId(kind as u8), creator, serial)
}

/// The contents of a record, without its lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Record {
    /// A new state of a known object, with its motion.
    Update(Alias, Motion),
    /// An object, new or known, and its whole state.
    Full(Alias, ObjectId),
    /// The replica gets no more updates for now.
    Freeze(Alias),
    /// The replica must be dropped.
    Gone(Alias),
}

/// The states of the receiver's replicas, as far as a reader needs them.
pub trait States {
    /// The kind of the object behind the alias, with its state and motion at that tick; `None` if
    /// the receiver does not have that state.
    fn state_at(&self, alias: Alias, tick: Tick) -> Option<(KindId, &[i32], Motion)>;
}

/// Reads one state packet, record by record. Works with any coder; the real one is a [`Decoder`].
pub struct PacketReader<C> {
    coder: C,
    tick: Tick,
    next_alias: u32,
    records: usize,
    fall: Option<(i32, Fall)>,
}

/// Splits a state packet into its plain and its coded part. `near`: any tick within half an hour of
/// the packet's, to complete its 16 bits.
pub fn open_state(bytes: &[u8], near: Tick) -> Result<(StateHeader, &[u8]), PacketError> {
    match packet_type(bytes)? {
        PacketType::State => {}
        PacketType::Ack => return Err(PacketError::Type(ACK)),
    }
    let Some((&[_, a, b, c, d], body)) = bytes.split_first_chunk::<STATE_HEADER>() else {
        return Err(PacketError::TooShort(bytes.len()));
    };
    let behind = (near.0 as u16).wrapping_sub(u16::from_le_bytes([c, d])) as i16;
    let tick = Tick(near.0.wrapping_sub(i32::from(behind) as u32));
    Ok((StateHeader { seq: u16::from_le_bytes([a, b]), tick }, body))
}

impl<'a> PacketReader<Decoder<'a>> {
    /// Starts to read the coded part of the packet with this header.
    pub fn new(header: StateHeader, body: &'a [u8], models: &'a mut Models) -> Self {
        PacketReader::with(header, Decoder::new(body, models))
    }
}

impl<C: Coder> PacketReader<C> {
    /// Starts to read with this coder.
    pub fn with(header: StateHeader, coder: C) -> Self {
        PacketReader { coder, tick: header.tick, next_alias: 0, records: 0, fall: None }
    }

    /// The next record, or `None` at the end. The lanes of a state are appended to `lanes`.
    pub fn next(
        &mut self,
        schema: &Schema,
        states: &impl States,
        lanes: &mut Vec<i32>,
    ) -> Result<Option<Record>, PacketError> {
        let c = &mut self.coder;
        if !c.bit(contexts::MORE + self.records.min(2), false) {
            return Ok(None);
        }
        if self.records == MAX_RECORDS {
            return Err(PacketError::TooMany);
        }
        self.records += 1;
        let alias = self.next_alias.saturating_add(code_count(c, contexts::GAP, 0));
        self.next_alias = alias.saturating_add(1);
        let alias = Alias(u16::try_from(alias).map_err(|_| PacketError::Alias)?);
        if !c.bit(contexts::OPERATION, false) {
            let age = code_count(c, contexts::AGE, 0).saturating_add(1);
            let held = states.state_at(alias, self.tick.minus(age));
            let (kind, then, motion) = held.ok_or(PacketError::Baseline(alias))?;
            let base = Baseline { lanes: then, motion, age };
            let motion = self.state(schema, kind, Some(&base), lanes)?;
            return Ok(Some(Record::Update(alias, motion)));
        }
        if !c.bit(contexts::OPERATION + 1, false) {
            let id = code_name(c, ObjectId::default());
            self.state(schema, id.kind(), None, lanes)?;
            return Ok(Some(Record::Full(alias, id)));
        }
        let gone = c.bit(contexts::OPERATION + 2, false);
        Ok(Some(if gone { Record::Gone(alias) } else { Record::Freeze(alias) }))
    }

    fn state(
        &mut self,
        schema: &Schema,
        kind: KindId,
        base: Option<&Baseline<'_>>,
        lanes: &mut Vec<i32>,
    ) -> Result<Motion, PacketError> {
        let kind = schema.kind(kind).ok_or(PacketError::Kind(kind))?;
        let at = lanes.len();
        lanes.resize(at + kind.lane_count(), 0);
        let fall = fall_of(&mut self.fall, kind);
        Ok(code_state(&mut self.coder, kind, base, fall, &mut lanes[at..]))
    }
}
