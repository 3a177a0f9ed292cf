//! Gossip: what servers know of others that they have nothing to do with, and where players are.
//!
//! Once a second a server pushes what it knows to two of its partners, which are the six nearest servers and two
//! others that change ([`super::overlay`]). It always tells of itself; what it has from others it passes on by chance, with half
//! the probability for every server that it came over. So each server sends as much as any other however many there
//! are, and what is known of a distant server is older, or nothing. It is a hint: who runs a region is in the
//! layout, and where a player is only the region that has its avatar knows.

use super::RegionServer;
use super::bus::{BusMessage, Recipient};
use super::layout::{RegionId, ServerId};
use super::overlay::PartnerCount;
use super::servers::ServerStatus;
use crate::game::Game;
use crate::peer::interest::lot;
use foveate_wire::{Micros, ObjectId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Hearsay of where an avatar is counts for so long.
const HEARD_OF_LATE: Micros = Micros(5_000_000);
/// Between two pushes.
pub const GOSSIP_EVERY: Micros = Micros(1_000_000);
/// Servers that are pushed to.
pub const FANOUT: usize = 2;
/// Partners among the nearest servers.
pub const GOSSIP_NEAREST: usize = 6;
/// Partners among the other servers.
pub const GOSSIP_RANDOM: usize = 2;
/// Servers that one message tells of at most.
pub const MAX_STATUSES: usize = 8;
/// Players that one message tells of at most.
pub const MAX_DIGESTS: usize = 32;
/// Players that are remembered.
const MAX_HINTS: usize = 16_384;
/// What was heard of a player is remembered for so long.
const HINT_FOR: Micros = Micros(60_000_000);
/// Hearsay that came over more servers is not passed on.
const MAX_HOPS: u8 = 16;

/// Where a player's avatar was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlayerDigest {
    /// The avatar.
    pub avatar: u64,
    /// The region that owned it.
    pub region: RegionId,
    /// The world's time at which the region owned it, in microseconds.
    pub stamp: u64,
    /// Servers that this came over.
    pub hops: u8,
}

/// What a server tells others.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Hearsay {
    /// What servers said of themselves, and over how many others it came.
    pub servers: Vec<(ServerId, u8, ServerStatus)>,
    /// Where players are.
    pub players: Vec<PlayerDigest>,
}

impl Hearsay {
    /// Whether it is as long as it may be.
    pub fn fits(&self) -> bool {
        self.servers.len() <= MAX_STATUSES
            && self.players.len() <= MAX_DIGESTS
            && self.servers.iter().all(|it| it.2.fits())
    }
}

/// What was heard of players.
#[derive(Clone, Debug, Default)]
pub struct Gossip {
    players: BTreeMap<ObjectId, PlayerDigest>,
    pushed: Option<Micros>,
    rounds: u64,
}

impl Gossip {
    fn learn(&mut self, digest: PlayerDigest) {
        let id = ObjectId(digest.avatar);
        let room = self.players.len() < MAX_HINTS || self.players.contains_key(&id);
        if room && self.players.get(&id).is_none_or(|known| known.stamp < digest.stamp) {
            self.players.insert(id, digest);
        }
    }
}

/// Whether something that came over so many servers is passed on, this time.
fn passes(me: ServerId, what: u64, hops: u8, round: u64) -> bool {
    hops < MAX_HOPS && lot(u64::from(me.0) ^ what << 20, round) >> 32 < 1 << (32 - u32::from(hops))
}

impl<G: Game> RegionServer<G> {
    /// Pushes what this server knows.
    pub(super) fn gossip(&mut self, now: Micros) {
        let last = self.gossip.pushed;
        let Some(world) = self.clock.world(now).filter(|_| self.layout.is_some()) else { return };
        if last.is_some_and(|last| now - last < GOSSIP_EVERY) {
            return;
        }
        self.gossip.pushed = Some(now);
        self.gossip.rounds += 1;
        self.gossip.players.retain(|_, it| world.saturating_sub(it.stamp) < HINT_FOR.0);
        self.note_own_players(world);
        let round = self.gossip.rounds;
        let known: Vec<ServerId> = self.servers.known(now).filter(|it| *it != self.me).collect();
        let count = PartnerCount { nearest: GOSSIP_NEAREST, random: GOSSIP_RANDOM };
        let mut partners = self.overlay.partners(self.me, known, count, round);
        partners.sort_by_key(|it| lot(u64::from(it.0) << 32 | u64::from(self.me.0), !round));
        for server in partners.into_iter().take(FANOUT) {
            let hearsay = self.hearsay(server, now);
            let message = BusMessage::Gossip(hearsay);
            self.publish(Recipient::Server(server), message, now + GOSSIP_EVERY);
        }
    }

    fn note_own_players(&mut self, stamp: u64) {
        let avatar = self.game.avatar();
        for region in self.regions.values() {
            for (id, _) in region.owned().filter(|(id, _)| id.kind() == avatar) {
                let digest = PlayerDigest { avatar: id.0, region: region.id, stamp, hops: 0 };
                self.gossip.learn(digest);
            }
        }
    }

    /// What a partner is told: the newest first, of itself and by chance of others.
    fn hearsay(&self, to: ServerId, now: Micros) -> Hearsay {
        let (me, round) = (self.me, self.gossip.rounds ^ u64::from(to.0) << 40);
        let mut servers = vec![(me, 0, self.own_status(now))];
        let others = self.servers.statuses(now);
        let mut others: Vec<_> = others
            .filter(|(id, _, hops)| *id != to && passes(me, u64::from(id.0), hops + 1, round))
            .collect();
        others.sort_by_key(|it| (std::cmp::Reverse(it.1.stamp), it.0));
        let others = others.into_iter().take(MAX_STATUSES - 1);
        servers.extend(others.map(|(id, status, hops)| (id, hops + 1, status.clone())));
        let told = self.gossip.players.values().filter(|it| passes(me, it.avatar, it.hops, round));
        let mut players: Vec<PlayerDigest> = told.copied().collect();
        // All get their turn, however many there are.
        players.sort_by_key(|it| lot(it.avatar, round));
        players.truncate(MAX_DIGESTS);
        Hearsay { servers, players }
    }

    /// Another server tells what it knows.
    pub(super) fn on_gossip(&mut self, hearsay: Hearsay, now: Micros) {
        for (server, hops, status) in hearsay.servers {
            if server != self.me {
                self.servers.learn(server, status, hops, now);
            }
        }
        for digest in hearsay.players {
            let hops = digest.hops.saturating_add(1);
            self.gossip.learn(PlayerDigest { hops, ..digest });
        }
    }

    /// Where a player's avatar is as far as this server has heard: the region, and how old the news is. A hint: ask
    /// the region, or the ledger.
    pub fn where_is(&self, avatar: ObjectId, now: Micros) -> Option<(RegionId, Micros)> {
        if let Some(region) = self.regions.values().find(|it| it.owns(avatar)) {
            return Some((region.id, Micros::ZERO));
        }
        let digest = self.gossip.players.get(&avatar)?;
        let age = self.clock.world(now)?.saturating_sub(digest.stamp);
        Some((digest.region, Micros(age)))
    }

    /// The region that a player's avatar was in of late, by hearsay.
    pub(super) fn heard_of(&self, avatar: ObjectId) -> Option<RegionId> {
        let (region, age) = self.where_is(avatar, self.woken)?;
        (age < HEARD_OF_LATE && !self.is_past(region)).then_some(region)
    }

    /// What was heard of all players, and over how many servers.
    pub fn player_hints(&self) -> impl Iterator<Item = &PlayerDigest> {
        self.gossip.players.values()
    }

    /// What is known of other servers, and over how many others it came.
    pub fn server_hints(&self, now: Micros) -> impl Iterator<Item = (ServerId, &ServerStatus, u8)> {
        self.servers.statuses(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_over_more_servers_is_passed_on_less_often() {
        let share = |hops| {
            let told = (0..4_000u64).filter(|round| passes(ServerId(3), 77, hops, *round));
            told.count() as f64 / 4_000.0
        };
        for hops in 0..6 {
            let wanted = 0.5f64.powi(hops.into());
            assert!((share(hops) - wanted).abs() < 0.03, "{hops} hops: {}", share(hops));
        }
        assert!(!passes(ServerId(3), 77, MAX_HOPS, 1));
    }

    #[test]
    fn the_newest_word_on_a_player_counts_whatever_its_way() {
        let mut gossip = Gossip::default();
        let digest =
            |region, stamp, hops| PlayerDigest { avatar: 9, region: RegionId(region), stamp, hops };
        gossip.learn(digest(1, 5, 0));
        gossip.learn(digest(2, 9, 3));
        gossip.learn(digest(3, 7, 0));
        assert_eq!(gossip.players[&ObjectId(9)], digest(2, 9, 3));
    }
}
