//! Encode and pack: what was chosen becomes records, records become packets.

use super::{RoundInputs, Turn};
use crate::deviation;
use crate::metrics::Counters;
use crate::schedule::{DuePair, Mode, Notice, Observer, Reference, SentKind, SentRecord};
use crate::store::{ObjectState, Slot, Store};
use foveate_wire::packet::{KEPT_STATES, MAX_PACKET, MAX_RECORDS, PacketWriter, StateHeader};
use foveate_wire::{
    Alias, Baseline, Encoder, Kind, Micros, Models, Motion, Pose, PoseBaseline, Tick,
};

/// What encoding needs and the next observer reuses.
pub(super) struct Scratch {
    /// What is to be said, in the order of the aliases.
    said: Vec<PendingRecord>,
    lanes: Lanes,
    models: Models,
    packet: Vec<u8>,
}

impl Default for Scratch {
    fn default() -> Scratch {
        let (said, lanes, packet) = (Vec::new(), Lanes::default(), Vec::new());
        Scratch { said, lanes, models: Models::trained(), packet }
    }
}

/// One thing to be said.
#[derive(Clone, Copy)]
pub(super) struct PendingRecord {
    alias: Alias,
    pair: u32,
    /// The grade's multiplier of facing floors.
    facing: f32,
    /// Rounds for which the pair may then be left alone.
    rest: u8,
}

/// The states of an update, put together: a replica's facing may be older than its place.
#[derive(Default)]
struct Lanes {
    base: Vec<i32>,
    now: Vec<i32>,
}

/// After so many rounds without a packet an empty one is sent: a packet has sixteen bits of its tick, and the observer
/// must not lose count of the others. Several of these may be lost before it does.
const MAX_SILENCE: u32 = 1 << 12;
/// A facing that is off the baseline's by at most this share of its floor is not sent along.
const FACING_KEPT: f32 = 0.5;

impl RoundInputs<'_> {
    /// Writes the chosen pairs and the notices into packets.
    pub(super) fn encode(
        &self,
        turn: &Turn,
        observer: &mut Observer,
        scratch: &mut Scratch,
        mut send: impl FnMut(&[u8]),
    ) {
        let RoundInputs { store, now, .. } = *self;
        let Scratch { said, lanes, models, packet: bytes } = scratch;
        let tick = store.tick();
        said.clear();
        for bound in &turn.due {
            let alias = observer.alias(bound.pair as usize);
            let Some(alias) = alias.or_else(|| observer.open(bound.pair, tick)) else {
                // There are more objects than aliases: an object without one is not sent.
                let class = observer.next_checks[bound.pair as usize].class();
                observer.counters.postponed += 1;
                observer.counters.broken[class] += 1;
                continue;
            };
            observer.counters.fire(bound.fired);
            let DuePair { pair, facing, rest, .. } = *bound;
            said.push(PendingRecord { alias, pair, facing, rest });
        }
        for pair in &turn.notices {
            let alias = observer.alias(*pair as usize);
            said.extend(alias.map(|alias| PendingRecord {
                alias,
                pair: *pair,
                facing: 0.0,
                rest: 1,
            }));
        }
        // Rising aliases cost few bits.
        said.sort_unstable_by_key(|said| said.alias);
        let mut rest: &[PendingRecord] = said;
        let silent = tick.since(observer.told) >= MAX_SILENCE;
        while !rest.is_empty() || (silent && observer.told != tick) {
            observer.told = tick;
            let mut packet = Packet { store, tick, now, lanes };
            rest = packet.fill(observer, models, bytes, rest);
            send(bytes);
        }
    }
}

struct Packet<'a> {
    store: &'a Store,
    tick: Tick,
    now: Micros,
    lanes: &'a mut Lanes,
}

impl Packet<'_> {
    /// Fills one packet; returns what did not fit.
    fn fill<'r>(
        &mut self,
        observer: &mut Observer,
        models: &mut Models,
        out: &mut Vec<u8>,
        said: &'r [PendingRecord],
    ) -> &'r [PendingRecord] {
        out.clear();
        let header = StateHeader { seq: observer.link.next_seq(), tick: self.tick };
        let mut writer = PacketWriter::new(out, models, header);
        let mut count = 0;
        for said @ PendingRecord { alias, pair, .. } in said {
            let hot = &self.store.hot[observer.next_checks[*pair as usize].slot.at()];
            let kind = &self.store.schema().kinds()[usize::from(hot.kind.0)];
            let full = writer.len() + kind.max_record_bytes() > MAX_PACKET;
            if (count > 0 && full) || count == MAX_RECORDS {
                break;
            }
            let before = writer.bits();
            let (kind, full) = self.record(observer, said, &mut writer, hot);
            let bits = f64::from(writer.bits()) - f64::from(before);
            note_bits(&mut observer.counters, kind, full, bits);
            observer.link.note(SentRecord { alias: *alias, pair: *pair as u16, kind });
            count += 1;
        }
        let coded = writer.bits();
        writer.finish();
        let counters = &mut observer.counters;
        counters.packets += 1;
        counters.bytes += out.len() as u64;
        counters.bits.header += out.len() as f64 * 8.0 - f64::from(coded);
        observer.link.sent(self.tick, self.now, count as u16);
        observer.learn_record(out.len(), count as u16);
        observer.budget.spend(out.len());
        &said[count..]
    }

    /// Writes what the pair has to say; tells what it was, and whether it had to be whole.
    fn record(
        &mut self,
        observer: &mut Observer,
        said: &PendingRecord,
        writer: &mut PacketWriter<Encoder<'_>>,
        hot: &ObjectState,
    ) -> (SentKind, bool) {
        let PendingRecord { alias, facing, rest, .. } = *said;
        let pair = said.pair as usize;
        let (gate, wake) = (&mut observer.pair_states[pair], &mut observer.next_checks[pair]);
        let (tick, pair) = (self.tick, &mut observer.pairs[pair]);
        match pair.notice {
            Notice::FreezeDue => {
                writer.freeze(alias);
                pair.notice = Notice::FreezeSent(tick);
                return (SentKind::Freeze, false);
            }
            Notice::GoneDue => {
                writer.gone(alias);
                pair.notice = Notice::GoneSent(tick);
                return (SentKind::Gone, false);
            }
            _ => {}
        }
        let kind = &self.store.schema().kinds()[usize::from(hot.kind.0)];
        let number = pair.sends.wrapping_add(1);
        // The observer may have dropped a state that it got so many states ago, and so may we.
        let kept = |base: &Reference| usize::from(number.wrapping_sub(base.number)) < KEPT_STATES;
        if pair.base.as_ref().is_some_and(|base| !kept(base) || !base.is_held(hot)) {
            pair.base = None;
        }
        let lingers = pair.notice != Notice::None;
        if lingers && pair.base.is_some_and(|base| flies(kind, &moved(&base, hot, tick), hot)) {
            // It has jumped away. Told whole it stands where it is; no further state would stop its flight.
            pair.base = None;
        }
        let push = hot.head.wrapping_sub(1);
        let (facing_now, motion) = (hot.facing, Motion::default());
        let at = hot.place;
        let access = gate.access();
        let mut state = Reference { push, tick, at, facing: facing_now, motion, number, access };
        match &pair.base {
            Some(base) if base.access == access && !base.others_moved_on(hot) => {
                let age = tick.since(base.tick);
                state.facing = facing_to_tell(kind, base, hot, facing);
                let pose = Pose { at: base.at, facing: base.facing };
                let then = PoseBaseline { pose, motion: base.motion, age };
                let now = Pose { at, facing: state.facing };
                state.motion = writer.update_pose(alias, kind, &then, now);
            }
            Some(base) => {
                let age = tick.since(base.tick);
                state.facing = facing_to_tell(kind, base, hot, facing);
                self.put_together(kind, wake.slot, base, state.facing);
                kind.mask(access, &mut self.lanes.now);
                let base = Baseline { lanes: &self.lanes.base, motion: base.motion, age };
                state.motion = writer.update(alias, kind, &base, &mut self.lanes.now);
            }
            None => {
                self.lanes.now.clear();
                self.lanes.now.extend_from_slice(self.store.lanes(wake.slot));
                kind.mask(access, &mut self.lanes.now);
                writer.full(alias, hot.id, kind, &mut self.lanes.now);
            }
        }
        gate.reference = Some(state);
        gate.clear_difference();
        // What leaves is not looked at as what is of interest.
        wake.mode = if lingers { Mode::Special } else { Mode::Right };
        // After a jump that is not told as one the replica flies on: that is looked at at once.
        if flies(kind, &state.motion, hot) {
            gate.rest = 1;
        }
        let rest = rest.min(gate.rest);
        wake.set_within(tick, rest, observer.phase);
        pair.sends = number;
        pair.forced = false;
        (SentKind::State(state), pair.base.is_none())
    }

    /// Puts the observer's state and the one to be sent together.
    fn put_together(&mut self, kind: &Kind, slot: Slot, base: &Reference, facing: [i32; 2]) {
        let hot = &self.store.hot[slot.at()];
        let (store, Lanes { base: then, now }) = (self.store, &mut *self.lanes);
        now.clear();
        now.extend_from_slice(store.lanes(slot));
        then.clear();
        if base.others_moved_on(hot) {
            then.extend_from_slice(store.pushed(hot, kind.lane_count(), base.push));
        } else {
            then.extend_from_slice(now);
        }
        // A state that was carried here from another publisher is like that of the push but for its place.
        if let Some(place) = &kind.place {
            then[place.at..place.at + place.dims].copy_from_slice(&base.at[..place.dims]);
        }
        kind.mask(base.access, then);
        for (lanes, values) in [(then, base.facing), (now, facing)] {
            for (facing, value) in [kind.yaw, kind.pitch].into_iter().zip(values) {
                facing.into_iter().for_each(|(lane, _)| lanes[lane] = value);
            }
        }
    }
}

/// Whether a replica with this motion is faster than its object can be.
#[inline]
fn flies(kind: &Kind, motion: &Motion, hot: &ObjectState) -> bool {
    kind.place.is_some_and(|place| deviation::speed(place.precision, motion) > hot.reach)
}

/// The way from a state to now.
fn moved(base: &Reference, hot: &ObjectState, tick: Tick) -> Motion {
    let moved = [0, 1, 2].map(|axis| hot.place[axis].wrapping_sub(base.at[axis]));
    Motion { moved, ticks: tick.since(base.tick) }
}

/// The facing that an update tells: one that is nearly right is not sent again.
fn facing_to_tell(kind: &Kind, base: &Reference, hot: &ObjectState, share: f32) -> [i32; 2] {
    let turned = deviation::turned(kind, &base.facing, &hot.facing, share * FACING_KEPT);
    if turned { hot.facing } else { base.facing }
}

fn note_bits(counters: &mut Counters, kind: SentKind, full: bool, bits: f64) {
    match (kind, full) {
        (SentKind::State(_), true) => {
            counters.full += 1;
            counters.bits.full += bits;
        }
        (SentKind::State(_), false) => {
            counters.updates += 1;
            counters.bits.state += bits;
        }
        (SentKind::Freeze | SentKind::Gone, _) => {
            counters.notices += 1;
            counters.bits.control += bits;
        }
    }
}
