//! Measures the cost of broadcasting: a few sampled players have a second observer with the policy
//! [`Broadcast`](foveate_sync::interest::Broadcast), whose packets are counted and thrown away.
//!
//! These shadow observers belong to a publisher of their own, a fork of the server's. It continues
//! with the same pipeline and codec from what the player knows, aliases of objects included, and
//! cannot change what players receive. A shadow has its player's pivots, team, private fields and
//! budget, so the figure is what switching to the preset `broadcast` would cost.
//!
//! A shadow's packets share the fate of its player's: one of round r arrives if the player's packet
//! of round r does, or that of the first later round with one.
//!
//! The estimate for all players is the bytes sent to all, plus the **extra** bytes of broadcasting
//! to the sampled ones. So it equals the bytes sent while the server does broadcast, however much
//! the links differ, and the great differences between players' own bytes hardly matter.

use super::{PlayerSessions, Present, allowance};
use crate::game::{Game, PlayerId};
use crate::simulation::Simulation;
use foveate_sync::interest::{Pivot, Policy, presets};
use foveate_sync::{ObserverId, Pivots, Publisher, Rounds, Slot, Store, StoreError};
use foveate_wire::packet::{Ack, open_state};
use foveate_wire::schema::LANE_OWNER;
use foveate_wire::{Bytes, Micros, OwnerId, Tick};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Nothing is counted for this long after shadows begin or an operator changes a view or a budget,
/// until first states have been sent.
const SETTLE: Micros = Micros(2_000_000);
/// Bytes are summed over this time.
const WINDOW: Micros = Micros(10_000_000);
/// No figure is given before this much of the window has passed.
const LEAST: Micros = Micros(1_000_000);
/// How long the same players are sampled.
const ROTATE: Micros = Micros(30_000_000);
/// If the player was sent nothing in a round and this many after it, the shadow's packet has no
/// packet to share the fate of, and arrives after a round trip.
const SHARED_FATE: u32 = 2;
/// Assumed for a link whose round trip is not yet known.
const FIRST_ROUND_TRIP: Micros = Micros(200_000);
/// Packets of a player and of a shadow that are remembered. Acknowledgements cover the last 33.
const MAX_NOTED: usize = 256;

/// What players are sent, and what broadcasting would send them: mean bytes of state packets per
/// player and second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct BroadcastComparison {
    /// The number of sampled players.
    pub samples: usize,
    /// Bytes sent.
    pub bytes_s: f64,
    /// Bytes that broadcasting would send.
    pub broadcast_bytes_s: f64,
}

impl BroadcastComparison {
    /// Broadcast bytes divided by sent bytes; `None` if nothing is sent.
    pub fn ratio(&self) -> Option<f64> {
        (self.bytes_s > 0.0).then(|| self.broadcast_bytes_s / self.bytes_s)
    }
}

impl<G: Game> PlayerSessions<G> {
    /// Starts to measure the cost of broadcasting on this many sampled players; 0 ends it. Players
    /// are sent the same bytes as before. It takes the time and memory of a broadcast to these
    /// players, and a copy of all objects with their histories.
    pub fn compare_with_broadcast(&mut self, simulation: &Simulation<G>, samples: usize) {
        let publisher = &simulation.publisher;
        let policy = presets::broadcast().build().ok().filter(|_| samples > 0);
        self.shadow = policy.map(|policy| Box::new(Shadow::new(publisher, policy, samples)));
    }

    /// The figures of the last ten seconds; `None` before the start, and for a few seconds after an
    /// operator changed a view or a budget.
    pub fn broadcast_comparison(&self) -> Option<BroadcastComparison> {
        self.shadow.as_ref()?.comparison()
    }

    /// Called after the players were sent a round.
    pub(crate) fn compare(&mut self, simulation: &Simulation<G>, tick: Tick, now: Micros) {
        let Some(mut shadow) = self.shadow.take() else { return };
        // If the copy fails, nothing is measured.
        if shadow.round(self, &simulation.publisher, tick, now).is_ok() {
            self.shadow = Some(shadow);
        }
    }
}

/// The shadow observers, and their counts.
pub(super) struct Shadow {
    publisher: Publisher,
    policy: Arc<dyn Policy>,
    /// How many players to sample.
    wanted: usize,
    samples: Vec<Sampled>,
    /// When samples are chosen again.
    next_choice: Tick,
    /// The bytes sent to each player up to the last choice.
    sent_before: BTreeMap<PlayerId, u64>,
    /// The bytes sent to each player up to the last round.
    players: BTreeMap<PlayerId, u64>,
    /// Rounds before this one are not counted.
    counts_from: Tick,
    /// The rounds within the window.
    counted: VecDeque<Counted>,
}

/// A round's bytes.
#[derive(Clone, Copy, Default)]
struct Counted {
    players: u32,
    /// To all players.
    sent: u64,
    samples: u32,
    /// To the sampled players.
    sampled: u64,
    /// To their shadows.
    broadcast: u64,
}

/// A player and its shadow, whose observers have the same id.
struct Sampled {
    player: PlayerId,
    observer: ObserverId,
    budget: Option<Bytes>,
    pivots: Pivots,
    /// Total bytes of the player, and of the shadow.
    bytes: [u64; 2],
    fates: Fates,
}

impl Shadow {
    fn new(source: &Publisher, policy: Arc<dyn Policy>, wanted: usize) -> Shadow {
        Shadow {
            publisher: source.fork(&[]),
            policy,
            wanted,
            samples: Vec::new(),
            next_choice: source.store.tick(),
            sent_before: BTreeMap::new(),
            players: BTreeMap::new(),
            counts_from: source.store.tick(),
            counted: VecDeque::new(),
        }
    }

    fn rounds(&self) -> &Rounds {
        self.publisher.rounds()
    }

    fn comparison(&self) -> Option<BroadcastComparison> {
        let measured = self.counted.iter().filter(|round| round.samples > 0).count();
        if measured < self.rounds().count(LEAST) as usize {
            return None;
        }
        let mut sum = Counted::default();
        for round in &self.counted {
            sum.players += round.players;
            sum.sent += round.sent;
            sum.samples += round.samples;
            sum.sampled += round.sampled;
            sum.broadcast += round.broadcast;
        }
        let seconds = self.rounds().length.0 as f64 / 1e6;
        let each = |bytes: u64, of: u32| bytes as f64 / f64::from(of.max(1)) / seconds;
        let bytes_s = each(sum.sent, sum.players);
        let more = each(sum.broadcast, sum.samples) - each(sum.sampled, sum.samples);
        let broadcast_bytes_s = (bytes_s + more).max(0.0);
        Some(BroadcastComparison { samples: self.samples.len(), bytes_s, broadcast_bytes_s })
    }

    /// Discards the measurements, because views or budgets were changed from outside.
    pub(super) fn restart(&mut self) {
        self.settle(self.publisher.store.tick());
        self.counted.clear();
    }

    fn settle(&mut self, tick: Tick) {
        self.counts_from = tick.plus(self.rounds().count(SETTLE));
    }

    /// A player was sent a packet.
    pub(super) fn on_sent(&mut self, observer: ObserverId, tick: Tick, packet: &[u8]) {
        if let Some(sample) = self.samples.iter_mut().find(|it| it.observer == observer)
            && let Ok((header, _)) = open_state(packet, tick)
        {
            sample.fates.sent.push_back((tick, header.seq));
        }
    }

    /// A player acknowledged packets.
    pub(super) fn on_ack(
        &mut self,
        observer: ObserverId,
        ack: &Ack,
        now: Micros,
        round_trip: Option<Micros>,
    ) {
        let Some(sample) = self.samples.iter_mut().find(|it| it.observer == observer) else {
            return;
        };
        // Shadow packets sent later than this whose fate no packet of the player decides are still
        // on their way.
        let late = now - round_trip.unwrap_or(FIRST_ROUND_TRIP);
        if let Some(ack) = sample.fates.on_ack(ack, self.publisher.store.tick(), late) {
            self.publisher.on_ack(observer, &ack, now);
        }
    }

    fn round<G: Game>(
        &mut self,
        sessions: &PlayerSessions<G>,
        source: &Publisher,
        tick: Tick,
        now: Micros,
    ) -> Result<(), StoreError> {
        copy(&source.store, &mut self.publisher.store)?;
        self.mirror(sessions, source);
        let Shadow { publisher, samples, .. } = self;
        publisher.set_strain(source.strain());
        publisher.round(tick, now, |observer, packet| {
            if let Some(sample) = samples.iter_mut().find(|it| it.observer == observer)
                && let Ok((header, _)) = open_state(packet, tick)
            {
                sample.fates.shadowed(tick, header.seq, now);
            }
        });
        self.count(sessions, source, tick);
        let linked = |sample: &Sampled| {
            let mut players = sessions.present_players().filter(|it| it.link.is_some());
            players.any(|it| it.observer == sample.observer && it.player == sample.player)
        };
        if !self.next_choice.is_after(tick) || !self.samples.iter().all(linked) {
            self.choose(sessions, source, tick);
        }
        Ok(())
    }

    /// Chooses the sampled players: sorts all by the bytes sent since the last choice, cuts the
    /// list into equal parts, and takes the middle of each. So the samples represent all players,
    /// without randomness.
    fn choose<G: Game>(&mut self, sessions: &PlayerSessions<G>, source: &Publisher, tick: Tick) {
        let before = std::mem::take(&mut self.sent_before);
        let mut ranked = Vec::new();
        for present in sessions.present_players().filter(|it| it.link.is_some()) {
            let sent = bytes(source, present.observer);
            self.sent_before.insert(present.player, sent);
            // Nothing is known of players who have just joined.
            let since = before.get(&present.player).map(|before| sent.saturating_sub(*before));
            ranked.extend(since.map(|since| (since, present)));
        }
        ranked.sort_unstable_by_key(|(since, present)| (*since, present.player));
        let count = self.wanted.min(ranked.len());
        let chosen = (0..count).map(|nth| ranked[(2 * nth + 1) * ranked.len() / (2 * count)].1);
        self.fork(source, chosen);
        let wait = if count == self.wanted { ROTATE } else { SETTLE };
        self.next_choice = tick.plus(self.rounds().count(wait));
        self.settle(tick);
    }

    /// Replaces the shadows by those of the chosen players.
    fn fork<'a>(&mut self, source: &Publisher, chosen: impl Iterator<Item = Present<'a>>) {
        self.samples.clear();
        for Present { player, observer, budget, .. } in chosen {
            let Some(real) = source.observer(observer) else { continue };
            let pivots = translate(real.sources(), &source.store, &source.store);
            let (bytes, fates) = ([real.counters().bytes; 2], Fates::default());
            self.samples.push(Sampled { player, observer, budget, pivots, bytes, fates });
        }
        let observers: Vec<ObserverId> = self.samples.iter().map(|it| it.observer).collect();
        self.publisher = source.fork(&observers);
        for observer in observers {
            let shadow = self.publisher.observer_mut(observer);
            shadow.into_iter().for_each(|it| it.set_policy(Arc::clone(&self.policy)));
        }
    }

    /// Gives shadows their players' pivots and budgets.
    fn mirror<G: Game>(&mut self, sessions: &PlayerSessions<G>, source: &Publisher) {
        for sample in &mut self.samples {
            let present = sessions.present_players().find(|it| it.observer == sample.observer);
            let (Some(present), Some(real)) = (present, source.observer(sample.observer)) else {
                continue;
            };
            let pivots = translate(real.sources(), &source.store, &self.publisher.store);
            let Some(shadow) = self.publisher.observer_mut(sample.observer) else { continue };
            if present.budget != sample.budget {
                sample.budget = present.budget;
                shadow.set_budget(allowance(present.budget));
            }
            if pivots != sample.pivots {
                sample.pivots.clone_from(&pivots);
                shadow.set_pivots(pivots);
            }
        }
    }

    fn count<G: Game>(&mut self, sessions: &PlayerSessions<G>, source: &Publisher, tick: Tick) {
        let mut round = Counted::default();
        let before = std::mem::take(&mut self.players);
        for present in sessions.present_players().filter(|it| it.link.is_some()) {
            let after = bytes(source, present.observer);
            self.players.insert(present.player, after);
            if let Some(before) = before.get(&present.player) {
                round.players += 1;
                round.sent += after.saturating_sub(*before);
            }
        }
        for sample in &mut self.samples {
            let after = [source, &self.publisher].map(|it| bytes(it, sample.observer));
            let before = std::mem::replace(&mut sample.bytes, after);
            round.samples += 1;
            round.sampled += after[0].saturating_sub(before[0]);
            round.broadcast += after[1].saturating_sub(before[1]);
        }
        if !self.counts_from.is_after(tick) {
            self.counted.push_back(round);
        }
        while self.counted.len() > self.rounds().count(WINDOW) as usize {
            self.counted.pop_front();
        }
    }
}

/// The total bytes sent to an observer.
fn bytes(publisher: &Publisher, observer: ObserverId) -> u64 {
    publisher.observer(observer).map_or(0, |observer| observer.counters().bytes)
}

/// Decides the fates of a shadow's packets by those of its player.
#[derive(Default)]
struct Fates {
    /// The player's packets: round and number.
    sent: VecDeque<(Tick, u16)>,
    shadowed: VecDeque<Shadowed>,
}

/// A shadow's packet.
struct Shadowed {
    tick: Tick,
    seq: u16,
    /// How many packets of the same round precede it.
    nth: usize,
    at: Micros,
    arrived: bool,
}

impl Fates {
    /// Notes a packet that the shadow would have sent.
    fn shadowed(&mut self, tick: Tick, seq: u16, at: Micros) {
        let nth = self.shadowed.iter().rev().take_while(|it| it.tick == tick).count();
        self.shadowed.push_back(Shadowed { tick, seq, nth, at, arrived: false });
        let surplus = self.shadowed.len().saturating_sub(MAX_NOTED);
        self.shadowed.drain(..surplus);
        let surplus = self.sent.len().saturating_sub(MAX_NOTED);
        self.sent.drain(..surplus);
    }

    /// The shadow's acknowledgement that corresponds to the player's.
    fn on_ack(&mut self, ack: &Ack, tick: Tick, late: Micros) -> Option<Ack> {
        let Fates { sent, shadowed } = self;
        for packet in shadowed.iter_mut().filter(|packet| !packet.arrived) {
            packet.arrived = match carrier(sent, packet) {
                Some(seq) => ack.has(seq),
                None => tick.since(packet.tick) > SHARED_FATE && packet.at <= late,
            };
        }
        let newest = shadowed.iter().rev().find(|packet| packet.arrived)?.seq;
        let mut answer = Ack { newest, before: 0 };
        for packet in shadowed.iter().filter(|packet| packet.arrived) {
            if let behind @ 1..=32 = newest.wrapping_sub(packet.seq) {
                answer.before |= 1 << (behind - 1);
            }
        }
        Some(answer)
    }
}

/// The player's packet whose fate a shadow's packet shares.
fn carrier(sent: &VecDeque<(Tick, u16)>, packet: &Shadowed) -> Option<u16> {
    let first = sent.partition_point(|(tick, _)| packet.tick.is_after(*tick));
    let (tick, _) = *sent.get(first).filter(|(tick, _)| tick.since(packet.tick) <= SHARED_FATE)?;
    let of_round = sent.range(first..).take_while(|(other, _)| *other == tick).count();
    sent.get(first + packet.nth.min(of_round - 1)).map(|(_, seq)| *seq)
}

/// Copies the objects of one store to another.
fn copy(from: &Store, to: &mut Store) -> Result<(), StoreError> {
    let gone = to.iter().filter(|(id, _)| from.find(*id).is_none());
    let gone: Vec<Slot> = gone.map(|(_, slot)| slot).collect();
    gone.into_iter().try_for_each(|slot| to.remove(slot))?;
    for (id, slot) in from.iter() {
        let lanes = from.lanes(slot);
        match to.find(id) {
            Some(copy) => to.set_lanes(copy, lanes)?,
            None => {
                to.create_lanes(id, OwnerId(lanes[LANE_OWNER] as u32), lanes)?;
            }
        }
    }
    Ok(())
}

/// The same pivots in the copy, without objects that are gone.
fn translate(pivots: &Pivots, from: &Store, to: &Store) -> Pivots {
    let copy = |slot: &Slot| to.find(from.id(*slot));
    match pivots {
        Pivots::Object(slot) => Pivots::Objects(copy(slot).into_iter().collect()),
        Pivots::Objects(slots) => Pivots::Objects(slots.iter().filter_map(copy).collect()),
        Pivots::Free(pivots) => {
            let moved =
                |pivot: &Pivot| Pivot { object: pivot.object.as_ref().and_then(copy), ..*pivot };
            Pivots::Free(pivots.iter().map(moved).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A player's packets, and a shadow's with two in each of the rounds 1 to 4, numbered from 10.
    fn fates(sent: &[(u32, u16)]) -> Fates {
        let mut fates = Fates::default();
        fates.sent.extend(sent.iter().map(|(tick, seq)| (Tick(*tick), *seq)));
        for nth in 0..8u16 {
            let tick = 1 + u32::from(nth) / 2;
            fates.shadowed(Tick(tick), 10 + nth, Micros::from_millis(50 * u64::from(tick)));
        }
        fates
    }

    fn arrived(fates: &Fates) -> Vec<u16> {
        fates.shadowed.iter().filter(|it| it.arrived).map(|it| it.seq).collect()
    }

    #[test]
    fn a_shadows_packets_arrive_and_are_lost_with_those_of_the_same_round() {
        let mut fates = fates(&[(1, 0), (2, 1), (3, 2), (4, 3)]);
        // The second was lost, the fourth is on its way.
        let ack = fates.on_ack(&Ack { newest: 2, before: 0b10 }, Tick(4), Micros::ZERO);
        assert_eq!(arrived(&fates), [10, 11, 14, 15]);
        assert_eq!(ack, Some(Ack { newest: 15, before: 0b11001 }));
    }

    #[test]
    fn of_as_many_packets_in_a_round_each_has_its_own_fate() {
        let mut fates = fates(&[(1, 0), (1, 1), (2, 2), (2, 3), (3, 4), (3, 5), (4, 6), (4, 7)]);
        let ack = Ack { newest: 6, before: 0b101_010 };
        assert_eq!(fates.on_ack(&ack, Tick(4), Micros::ZERO), Some(Ack { newest: 16, ..ack }));
    }

    #[test]
    fn a_round_in_which_the_player_was_sent_nothing_shares_the_fate_of_the_next() {
        let mut fates = fates(&[(1, 0), (3, 1)]);
        fates.on_ack(&Ack { newest: 1, before: 0 }, Tick(4), Micros::ZERO);
        assert_eq!(arrived(&fates), [12, 13, 14, 15], "the first was lost");
    }

    #[test]
    fn where_no_packet_tells_a_round_trip_does() {
        let mut fates = fates(&[(1, 0)]);
        let ack = Ack { newest: 0, before: 0 };
        fates.on_ack(&ack, Tick(4), Micros::from_millis(200));
        assert_eq!(arrived(&fates), [10, 11], "a packet that decides may still come");
        fates.on_ack(&ack, Tick(6), Micros::from_millis(160));
        assert_eq!(arrived(&fates), [10, 11, 12, 13, 14, 15]);
    }
}
