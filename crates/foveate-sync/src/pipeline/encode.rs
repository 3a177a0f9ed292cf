//! Encode and pack: what was chosen becomes records, records become packets.

use super::Publisher;
use crate::metrics::Counters;
use crate::schedule::{Notice, Observer, Reference, SentKind, SentRecord};
use crate::store::{Hot, Store};
use foveate_wire::packet::{KEPT_STATES, MAX_PACKET, MAX_RECORDS, PacketWriter, StateHeader};
use foveate_wire::{Alias, Micros, Models, Tick};

/// What encoding needs and the next observer reuses.
#[derive(Default)]
pub(super) struct Scratch {
    /// (alias, pair) of everything to be said, in the order of the aliases.
    pub said: Vec<(Alias, u32)>,
    /// Slot → its rank by cell.
    pub rank: Vec<u32>,
}

impl Publisher {
    /// Writes the chosen pairs and the notices into packets.
    pub(super) fn encode(&mut self, observer: &mut Observer, mut send: impl FnMut(&[u8])) {
        let Publisher { store, scratch, models, now, .. } = self;
        let tick = store.tick();
        let said = &mut scratch.encode.said;
        said.clear();
        for bound in &scratch.due {
            let pair = &observer.pairs[bound.pair as usize];
            let alias = pair.alias.or_else(|| observer.open(bound.pair, tick));
            observer.counters.fire(bound.fired);
            said.extend(alias.map(|alias| (alias, bound.pair)));
        }
        for at in &scratch.notices {
            said.extend(observer.pairs[*at as usize].alias.map(|alias| (alias, *at)));
        }
        // Rising aliases cost few bits.
        said.sort_unstable_by_key(|(alias, _)| *alias);
        let mut rest: &[(Alias, u32)] = said;
        while !rest.is_empty() {
            let packet = Packet { store, tick, now: *now };
            rest = packet.fill(observer, models, &mut scratch.packet, rest);
            send(&scratch.packet);
        }
    }
}

struct Packet<'a> {
    store: &'a Store,
    tick: Tick,
    now: Micros,
}

impl Packet<'_> {
    /// Fills one packet; returns what did not fit.
    fn fill<'r>(
        &self,
        observer: &mut Observer,
        models: &mut Models,
        out: &mut Vec<u8>,
        said: &'r [(Alias, u32)],
    ) -> &'r [(Alias, u32)] {
        out.clear();
        let header = StateHeader { seq: observer.link.next_seq(), tick: self.tick };
        let mut writer = PacketWriter::new(out, models, header);
        let mut count = 0;
        for (alias, pair) in said {
            let hot = &self.store.hot[observer.pairs[*pair as usize].slot.at()];
            let kind = &self.store.schema().kinds()[usize::from(hot.kind.0)];
            let full = writer.len() + kind.max_record_bytes() > MAX_PACKET;
            if (count > 0 && full) || count == MAX_RECORDS {
                break;
            }
            let before = writer.bits();
            let record = self.record(observer, *pair as usize, &mut writer, (*alias, hot));
            note_bits(&mut observer.counters, record, writer.bits() - before);
            observer.link.note(SentRecord { alias: *alias, kind: record.0 });
            count += 1;
        }
        let coded = writer.bits();
        writer.finish();
        let counters = &mut observer.counters;
        counters.packets += 1;
        counters.bytes += out.len() as u64;
        counters.bits.header += out.len() as f64 * 8.0 - coded;
        observer.link.sent(self.tick, self.now, count as u16);
        observer.learn_record(out.len(), count as u16);
        observer.budget.spend(out.len());
        &said[count..]
    }

    /// Writes what the pair has to say; tells what it was, and whether it had to be whole.
    fn record(
        &self,
        observer: &mut Observer,
        pair: usize,
        writer: &mut PacketWriter<'_>,
        (alias, hot): (Alias, &Hot),
    ) -> (SentKind, bool) {
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
        let now = self.store.head(hot, kind);
        let number = pair.sends.wrapping_add(1);
        // The observer may have dropped a state that it got so many states ago, and so may we.
        let kept = |base: &Reference| usize::from(number.wrapping_sub(base.number)) < KEPT_STATES;
        pair.base = pair.base.filter(|base| kept(base) && base.is_held(hot));
        let base = pair.base;
        match base {
            Some(base) => {
                let then = self.store.pushed(hot, kind.lane_count(), base.push);
                writer.update(alias, kind, (then, tick.since(base.tick)), now);
            }
            None => writer.full(alias, hot.id, kind, now),
        }
        let push = hot.head.wrapping_sub(1);
        pair.reference = Some(Reference { push, tick, number });
        pair.sends = number;
        pair.since = None;
        pair.forced = false;
        pair.check_at = tick.plus(1);
        (SentKind::State { push, number }, base.is_none())
    }
}

fn note_bits(counters: &mut Counters, (kind, full): (SentKind, bool), bits: f64) {
    match (kind, full) {
        (SentKind::State { .. }, true) => {
            counters.full += 1;
            counters.bits.full += bits;
        }
        (SentKind::State { .. }, false) => {
            counters.updates += 1;
            counters.bits.state += bits;
        }
        (SentKind::Freeze | SentKind::Gone, _) => {
            counters.notices += 1;
            counters.bits.control += bits;
        }
    }
}
