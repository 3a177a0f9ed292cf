//! The overlay of servers: how far they are from each other, and what follows from it.
//!
//! A server sends echoes to the eight nearest servers that it knows and to two others, in every second; so it finds
//! nearer ones, and what it sends does not grow with the world. The times are part of what it says of itself
//! ([`ServerStatus`]). They decide which server stands by for a region, which servers gossip with each other, and
//! which servers change places: two do if bytes across their regions' borders, each times the round trip that it
//! takes, fall by [`SWAP_GAIN`] in sum.

use super::RegionServer;
use super::bus::{BusMessage, Recipient};
use super::layout::{Layout, RegionId, ServerId};
use super::servers::{MAX_STATUS, RegionStatus, ServerStatus};
use crate::game::Game;
use crate::peer::interest::lot;
use foveate_wire::Micros;
use std::collections::{BTreeMap, BTreeSet};

/// Between two rounds of echoes.
pub const ECHO_EVERY: Micros = Micros(1_000_000);
/// Servers among the nearest that are sent echoes.
pub const ECHO_NEAREST: usize = 8;
/// Other servers that are sent echoes.
pub const ECHO_RANDOM: usize = 2;
/// Servers change places if what it costs falls by this share.
pub const SWAP_GAIN: f32 = 0.15;
/// A round trip that was not measured for this is not known any more.
const MEASURED_FOR: Micros = Micros(60_000_000);
/// Each new measurement counts this much.
const SMOOTHING: f32 = 0.125;
/// A standby costs as much as this more of round trip for every region that it stands by for already.
const DUTY: f32 = 10_000.0;
/// A standby costs as much as this less of round trip if it runs the sibling.
const SIBLING: f32 = 10_000.0;
/// A round trip that is not known is taken for this.
const UNKNOWN: f32 = 200_000.0;
/// Two servers that are nearer than this are as near as can be, in microseconds.
const LEAST: f32 = 500.0;
/// Round-trip times that are remembered.
const MAX_MEASURED: usize = 1_024;

/// A round trip.
#[derive(Clone, Copy, PartialEq, Debug)]
struct RoundTrip {
    micros: f32,
    at: Micros,
}

/// How many servers are chosen as partners.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PartnerCount {
    /// Among the nearest servers.
    pub nearest: usize,
    /// Among the others.
    pub random: usize,
}

/// What a server knows of its distance from others.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    measured: BTreeMap<ServerId, RoundTrip>,
    echoed: Option<Micros>,
    rounds: u64,
}

impl Overlay {
    /// The round trip to a server, in microseconds.
    pub fn rtt(&self, server: ServerId) -> Option<f32> {
        self.measured.get(&server).map(|it| it.micros)
    }

    /// The answer to an echo that was sent then.
    pub(super) fn on_reply(&mut self, from: ServerId, sent: Micros, now: Micros) {
        if sent > now || now - sent > MEASURED_FOR {
            return;
        }
        let sample = (now - sent).0 as f32;
        let before = self.measured.get(&from).map(|it| it.micros);
        if before.is_some() || self.measured.len() < MAX_MEASURED {
            let micros = before.map_or(sample, |before| before + (sample - before) * SMOOTHING);
            self.measured.insert(from, RoundTrip { micros, at: now });
        }
    }

    /// The nearest of these servers, and some others, drawn anew in every round.
    pub(super) fn partners(
        &self,
        me: ServerId,
        mut servers: Vec<ServerId>,
        count: PartnerCount,
        round: u64,
    ) -> Vec<ServerId> {
        let rtt = |it: &ServerId| self.rtt(*it).unwrap_or(UNKNOWN);
        servers.sort_by(|a, b| rtt(a).total_cmp(&rtt(b)).then(a.cmp(b)));
        let mut rest = servers.split_off(count.nearest.min(servers.len()));
        rest.sort_by_key(|it| lot(u64::from(me.0) << 32 | u64::from(it.0), round));
        servers.extend(rest.into_iter().take(count.random));
        servers
    }

    /// The nearest, for others to know.
    fn vector(&self) -> Vec<(ServerId, u32)> {
        let mut all: Vec<(ServerId, u32)> =
            self.measured.iter().map(|(id, it)| (*id, it.micros as u32)).collect();
        all.sort_by_key(|it| (it.1, it.0));
        all.truncate(MAX_STATUS);
        all
    }
}

impl<G: Game> RegionServer<G> {
    /// The round trip to another server as far as this one knows, in microseconds.
    pub fn rtt(&self, server: ServerId) -> Option<f32> {
        self.overlay.rtt(server)
    }

    /// Sends echoes.
    pub(super) fn measure(&mut self, now: Micros) {
        if self.overlay.echoed.is_some_and(|last| now - last < ECHO_EVERY) {
            return;
        }
        self.overlay.echoed = Some(now);
        self.overlay.rounds += 1;
        self.overlay.measured.retain(|_, it| now - it.at < MEASURED_FOR);
        let known = self.known_servers(now);
        let count = PartnerCount { nearest: ECHO_NEAREST, random: ECHO_RANDOM };
        for server in self.overlay.partners(self.me, known, count, self.overlay.rounds) {
            let echo = BusMessage::Echo(now.0);
            self.publish(Recipient::Server(server), echo, now + ECHO_EVERY);
        }
    }

    pub(super) fn answer_echo(&mut self, from: ServerId, sent: u64, now: Micros) {
        self.publish(Recipient::Server(from), BusMessage::EchoReply(sent), now + ECHO_EVERY);
    }

    /// All other servers that this one knows of, by the layout or otherwise.
    pub(super) fn known_servers(&self, now: Micros) -> Vec<ServerId> {
        let named = self.layout.iter().flat_map(|(_, layout)| layout.regions());
        let named = named.flat_map(|(_, info)| [Some(info.server), info.standby]).flatten();
        let known: BTreeSet<ServerId> = named.chain(self.servers.known(now)).collect();
        known.into_iter().filter(|it| *it != self.me && !self.servers.is_dead(*it)).collect()
    }

    /// What this server says of itself.
    pub(super) fn own_status(&self, now: Micros) -> ServerStatus {
        let avatar = self.game.avatar();
        let regions = self.regions.values().take(MAX_STATUS).map(|region| RegionStatus {
            region: region.id,
            load: self.balancer.load(region.id).map(|load| (load * 1e3).min(65_535.0) as u16),
            players: region.owned().filter(|(id, _)| id.kind() == avatar).count() as u32,
            borders: self.balancer.borders(region.id),
        });
        ServerStatus {
            stamp: self.clock.world(now).unwrap_or(0),
            machine: self.settings.machine,
            leaving: self.balancer.is_leaving(),
            helps: self.helping().next().is_some(),
            regions: regions.collect(),
            rtts: self.overlay.vector(),
        }
    }

    /// The best standby for a region of this server: on another machine, near, and without many duties.
    pub(super) fn candidate(
        &self,
        region: RegionId,
        except: &[Option<ServerId>],
        now: Micros,
    ) -> Option<ServerId> {
        let layout = self.layout.as_ref().map(|(_, layout)| layout)?;
        let sibling = layout.sibling(region).and_then(|it| layout.get(it)).map(|it| it.server);
        let cost = |server: ServerId| {
            let duties = layout.regions().filter(|(_, info)| info.standby == Some(server)).count();
            let rtt = self.overlay.rtt(server).unwrap_or(UNKNOWN);
            rtt + DUTY * duties as f32 - if sibling == Some(server) { SIBLING } else { 0.0 }
        };
        let machine = self.settings.machine;
        let shares = |server: ServerId| {
            machine != 0 && self.servers.status(server).is_some_and(|it| it.machine == machine)
        };
        let live = self.servers.live(now).filter(|it| {
            *it != self.me && !except.contains(&Some(*it)) && !self.servers.is_leaving(*it)
        });
        live.min_by(|a, b| {
            let machines = shares(*a).cmp(&shares(*b));
            machines.then(cost(*a).total_cmp(&cost(*b))).then(a.cmp(b))
        })
    }

    /// The round trip between two servers, from what all say; by way of a third one if neither has measured it.
    fn distance(&self, a: ServerId, b: ServerId) -> Option<f32> {
        if a == b {
            return Some(LEAST);
        }
        let measured = |from: ServerId, to: ServerId| -> Option<f32> {
            if from == self.me {
                return self.overlay.rtt(to);
            }
            let rtts = &self.servers.status(from)?.rtts;
            rtts.iter().find(|it| it.0 == to).map(|it| it.1 as f32)
        };
        let direct = |a, b| measured(a, b).or_else(|| measured(b, a));
        let over = || {
            let ways = self.servers.status(b)?.rtts.iter();
            let ways = ways.filter_map(|(way, rtt)| Some(direct(a, *way)? + *rtt as f32));
            ways.min_by(f32::total_cmp)
        };
        direct(a, b).or_else(over).map(|it| it.max(LEAST))
    }

    /// What the borders of a region cost if this server ran it: bytes in a second times round trips.
    fn border_cost(
        &self,
        (region, runs): (RegionId, ServerId),
        borders: &[(RegionId, u32)],
        server_of: &impl Fn(RegionId) -> Option<ServerId>,
    ) -> Option<f32> {
        let mut sum = 0.0;
        for (other, bytes) in borders.iter().filter(|it| it.0 != region) {
            let Some(server) = server_of(*other) else { continue };
            sum += *bytes as f32 * self.distance(runs, server)?;
        }
        Some(sum)
    }

    /// The layout in which this server has changed places with the one that gains most by it.
    pub(super) fn find_swap(&self, now: Micros) -> Option<(Layout, ServerId)> {
        let (_, layout) = self.layout.as_ref()?;
        let mut mine = self.regions.keys().filter(|id| layout.rect(**id).is_some());
        let (Some(a), None) = (mine.next().copied(), mine.next()) else { return None };
        let own = self.balancer.borders(a);
        let live: BTreeSet<ServerId> = self.servers.live(now).collect();
        let mut best: Option<(f32, RegionId, ServerId)> = None;
        for (server, status, _) in self.servers.statuses(now) {
            let [theirs] = &status.regions[..] else { continue };
            let b = theirs.region;
            let runs = |info: Option<&super::layout::RegionInfo>| {
                info.is_some_and(|it| it.server == server && it.successor.is_none())
            };
            if status.leaving || !live.contains(&server) || !runs(layout.get(b)) {
                continue;
            }
            let current = |id: RegionId| layout.get(id).map(|info| info.server);
            let swapped = |id: RegionId| match current(id) {
                Some(it) if it == server => Some(self.me),
                Some(it) if it == self.me => Some(server),
                it => it,
            };
            let borders = &theirs.borders[..];
            let before = self.border_cost((a, self.me), &own, &current);
            let before = before.zip(self.border_cost((b, server), borders, &current));
            let after = self.border_cost((a, server), &own, &swapped);
            let after = after.zip(self.border_cost((b, self.me), borders, &swapped));
            let Some(((a0, b0), (a1, b1))) = before.zip(after) else { continue };
            let left = (a1 + b1) / (a0 + b0).max(1.0);
            if left <= 1.0 - SWAP_GAIN && best.is_none_or(|it| left < it.0) {
                best = Some((left, b, server));
            }
        }
        let (_, b, server) = best?;
        let mut wanted = layout.clone();
        let (to_b, to_a) = (wanted.replace(a, server).ok()?, wanted.replace(b, self.me).ok()?);
        wanted.get_mut(to_b)?.standby = Some(self.me);
        wanted.get_mut(to_a)?.standby = Some(server);
        Some((wanted, server))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_go_to_the_nearest_and_to_some_others_that_change() {
        let mut overlay = Overlay::default();
        let others: Vec<ServerId> = (2..40).map(ServerId).collect();
        for server in &others {
            let rtt = u64::from(server.0) * 1_000;
            (0..20).for_each(|_| {
                overlay.on_reply(*server, Micros(1_000_000 - rtt), Micros(1_000_000))
            });
        }
        let count = PartnerCount { nearest: 8, random: 2 };
        let drawn = |round| overlay.partners(ServerId(1), others.clone(), count, round);
        let nearest: Vec<ServerId> = (2..10).map(ServerId).collect();
        let mut random = BTreeSet::new();
        for round in 0..50 {
            let partners = drawn(round);
            assert_eq!((&partners[..8], partners.len()), (&nearest[..], 10));
            random.extend(partners[8..].iter().copied());
        }
        assert!(random.len() > 25, "all get their turn: {random:?}");
        assert_eq!(overlay.partners(ServerId(1), others[..5].to_vec(), count, 1).len(), 5);
    }

    #[test]
    fn a_round_trip_follows_its_measurements_and_ignores_nonsense() {
        let mut overlay = Overlay::default();
        overlay.on_reply(ServerId(2), Micros(900), Micros(1_000));
        assert_eq!(overlay.rtt(ServerId(2)), Some(100.0));
        (0..100).for_each(|_| overlay.on_reply(ServerId(2), Micros(800), Micros(1_000)));
        assert!((overlay.rtt(ServerId(2)).unwrap() - 200.0).abs() < 1.0);
        overlay.on_reply(ServerId(3), Micros(2_000), Micros(1_000));
        assert_eq!(overlay.rtt(ServerId(3)), None, "an answer to what was never sent");
    }
}
