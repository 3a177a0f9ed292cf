//! The known members of the game: digests, received and passed on.
//!
//! A peer knows at most [`MAX_MEMBERS`] others, however large the game is: those nearby, and a few
//! random ones elsewhere. The random ones keep the game connected, and introduce new peers.

use super::identity::{Key, Sealed, Signer};
use super::interest::lot;
use super::trust::Fault;
use super::wire::{Digest, MAX_CONTACT, MAX_INTRODUCED, MAX_NAMED};
use crate::game::PlayerId;
use crate::outbox::Link;
use foveate_wire::{Micros, Position};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The most other peers that a peer knows.
pub const MAX_MEMBERS: usize = 192;
/// How many of them are kept because they are near.
const NEAR_MEMBERS: usize = 96;
/// A peer without news for this long is forgotten.
pub const FORGET_AFTER: Micros = Micros(40_000_000);
/// How often news of a known peer, and of a new peer, is passed on.
const RETOLD: (u8, u8) = (2, 3);
/// The most lost peers whose contacts are tried again, in case a partition has ended.
const MAX_LOST: usize = 24;
/// The most unknown peers whose places are remembered.
const MAX_STRANGERS: usize = 64;
/// The most boards in one digest.
const MAX_BOARDS: usize = 4;
/// The most lanes of one board.
const MAX_LANES: usize = 64;

/// A peer as known from digests.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its last statement.
    pub digest: Digest,
    /// The same, signed, to be passed on.
    pub sealed: Sealed,
    /// When it arrived.
    pub heard: Micros,
    /// The link that it arrived on: the way back to its author.
    pub via: Option<Link>,
    /// Where the peer was last seen, by itself or by others, and when in the world's time.
    seen: (Position, Micros),
    retell: u8,
    /// Whether it may be passed on: its author is a neighbour, or signed it recently. Otherwise two
    /// peers that forget a third one after the other would remind each other for ever.
    is_current: bool,
}

impl Member {
    /// Where the peer was last seen.
    pub fn at(&self) -> Position {
        self.seen.0
    }

    /// When the peer was last seen, in the world's time.
    pub fn seen_at(&self) -> Micros {
        self.seen.1
    }
}

/// The time and place at which a peer reads digests.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Reader {
    /// This peer's own clock.
    pub now: Micros,
    /// The world's time, once it is known.
    pub world: Option<Micros>,
    /// Where this peer is.
    pub here: Position,
}

/// The result of reading a digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Learned {
    /// It is news of this player.
    News(PlayerId),
    /// It was known already, or is older.
    Old,
    /// Its key shares its first bits with that of a peer known before.
    NameTaken,
}

/// A neighbour as a receiver of gossip.
pub struct GossipTarget<'a> {
    pub link: Link,
    pub player: PlayerId,
    /// The players that it receives digests from directly.
    pub linked: &'a BTreeSet<PlayerId>,
}

/// The members that a peer knows.
#[derive(Debug)]
pub struct Members {
    me: PlayerId,
    all: BTreeMap<PlayerId, Member>,
    /// Members that were lost, with their contacts, the latest last.
    lost: VecDeque<(PlayerId, Member)>,
    /// Where unknown peers were seen, the latest last; their digests have been requested.
    strangers: VecDeque<(PlayerId, (Position, Micros))>,
}

impl Members {
    pub fn new(me: PlayerId) -> Members {
        Members { me, all: BTreeMap::new(), lost: VecDeque::new(), strangers: VecDeque::new() }
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub fn get(&self, player: PlayerId) -> Option<&Member> {
        self.all.get(&player)
    }

    /// A peer's last digest, if it may be passed on.
    pub fn sealed(&self, player: PlayerId) -> Option<&Sealed> {
        self.get(player).filter(|it| it.is_current).map(|it| &it.sealed)
    }

    /// Every known peer that has not left.
    pub fn iter(&self) -> impl Iterator<Item = (PlayerId, &Member)> {
        self.all.iter().filter(|(_, it)| !it.digest.gone).map(|(player, it)| (*player, it))
    }

    /// Reads a digest. Old ones are recognized before the expensive check of the signature, also
    /// those from before their author was lost, whichever peer passes them on.
    pub fn learn(
        &mut self,
        Reader { now, world, here }: Reader,
        sealed: Sealed,
        via: Option<Link>,
        signer: &dyn Signer,
    ) -> Result<Learned, Fault> {
        let digest: Digest = sealed.peek().ok_or(Fault::Malformed)?;
        let fits = digest.contact.len() <= MAX_CONTACT
            && digest.owned.len() <= MAX_NAMED
            && digest.boards.len() <= MAX_BOARDS
            && digest.boards.iter().all(|(_, _, lanes)| lanes.len() <= MAX_LANES);
        if !fits {
            return Err(Fault::Malformed);
        }
        let player = digest.key.player();
        if player == self.me {
            return Ok(Learned::Old);
        }
        let known = self.all.get(&player);
        if known.is_some_and(|known| known.digest.key != digest.key) {
            return Ok(Learned::NameTaken);
        }
        let lost = self.lost.iter().find(|(lost, _)| *lost == player).map(|(_, lost)| lost);
        let last = known.or(lost).map(|it| it.digest.number);
        if last.is_some_and(|last| last >= digest.number) {
            return Ok(Learned::Old);
        }
        if !sealed.holds(&digest, signer) {
            return Err(Fault::Tampered);
        }
        let retell = if known.is_some() { RETOLD.0 } else { RETOLD.1 };
        self.lost.retain(|(lost, _)| *lost != player);
        let said = (Position(digest.at.map(|at| at as f32)), digest.made_at());
        let as_stranger = self.strangers.iter().rev().find(|it| it.0 == player).map(|it| it.1);
        let before = known.map(|known| known.seen).or(as_stranger);
        let seen = before.filter(|before| before.1 > said.1).unwrap_or(said);
        self.strangers.retain(|it| it.0 != player);
        let is_current = is_current(&digest, world, via.is_none());
        let member = Member { digest, sealed, heard: now, via, seen, retell, is_current };
        self.all.insert(player, member);
        self.make_room(here);
        Ok(Learned::News(player))
    }

    /// Notes that a peer was seen at a place, at a time of the world. False if the peer is unknown:
    /// the place is then kept until its digest arrives.
    pub fn sight(&mut self, player: PlayerId, at: Position, time: Micros) -> bool {
        let Some(member) = self.all.get_mut(&player) else {
            if self.strangers.len() == MAX_STRANGERS {
                self.strangers.pop_front();
            }
            self.strangers.push_back((player, (at, time)));
            return false;
        };
        if time > member.seen.1 {
            member.seen = (at, time);
        }
        true
    }

    /// Removes peers that are neither near nor chosen at random. A peer with a board stays.
    fn make_room(&mut self, here: Position) {
        if self.all.len() <= MAX_MEMBERS {
            return;
        }
        let mut order: Vec<(f32, PlayerId)> =
            self.all.iter().map(|(player, it)| (it.at().distance(here).0, *player)).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let far = order[NEAR_MEMBERS..].iter().map(|(_, player)| *player);
        let far = far.filter(|player| self.all[player].digest.boards.is_empty());
        let unlucky = far.max_by_key(|player| lot(self.me.0.into(), player.0.into()));
        if let Some(player) = unlucky {
            self.all.remove(&player);
        }
    }

    /// Removes a peer that was lost, and keeps its contact for a while.
    pub fn vanished(&mut self, player: PlayerId) {
        let Some(member) = self.all.remove(&player) else { return };
        if self.lost.len() == MAX_LOST {
            self.lost.pop_front();
        }
        self.lost.push_back((player, member));
    }

    /// Removes a peer for good.
    pub fn forget(&mut self, player: PlayerId) {
        self.all.remove(&player);
        self.lost.retain(|(lost, _)| *lost != player);
    }

    /// The next lost peer to try again; each in turn.
    pub fn next_lost(&mut self) -> Option<(PlayerId, Key, Vec<u8>)> {
        let (player, member) = self.lost.pop_front()?;
        let found = (player, member.digest.key, member.digest.contact.clone());
        self.lost.push_back((player, member));
        Some(found)
    }

    /// Forgets members without news, except neighbours.
    pub fn expire(&mut self, reader: Reader, is_linked: impl Fn(PlayerId) -> bool) {
        self.all.retain(|player, it| {
            let linked = is_linked(*player);
            it.is_current = is_current(&it.digest, reader.world, linked);
            linked || reader.now - it.heard < FORGET_AFTER
        });
    }

    /// The digests to pass on now: each piece of news goes to a random neighbour that does not hear
    /// its author directly. New peers come first. The last digest may exceed the room, which then
    /// becomes negative: otherwise a long digest would never be sent.
    pub fn gossip(
        &mut self,
        ears: &[GossipTarget<'_>],
        room: &mut i64,
    ) -> BTreeMap<Link, Vec<Sealed>> {
        let mut told: BTreeMap<Link, Vec<Sealed>> = BTreeMap::new();
        let mut news: Vec<_> =
            self.all.iter_mut().filter(|(_, it)| it.is_current && it.retell > 0).collect();
        news.sort_by_key(|(_, it)| std::cmp::Reverse((it.retell, it.heard)));
        for (player, member) in news {
            if *room <= 0 {
                break;
            }
            let hears = |ear: &&GossipTarget<'_>| {
                ear.player != *player
                    && Some(ear.link) != member.via
                    && !ear.linked.contains(player)
            };
            let chance = |ear: &&GossipTarget<'_>| {
                let turn = u64::from(member.digest.number) << 8 | u64::from(member.retell);
                lot(turn, lot(ear.player.0.into(), self.me.0.into()))
            };
            match ears.iter().filter(hears).min_by_key(chance) {
                Some(ear) => {
                    member.retell -= 1;
                    *room -= member.sealed.size() as i64;
                    let batch = told.entry(ear.link).or_default();
                    if batch.len() < MAX_INTRODUCED {
                        batch.push(member.sealed.clone());
                    }
                }
                None => member.retell = 0,
            }
        }
        told
    }

    /// The peers to introduce to a peer at a place: the nearest to it, and as many from anywhere.
    pub fn introduce(
        &self,
        to: PlayerId,
        (at, within): (Position, f32),
        linked: &BTreeSet<PlayerId>,
        (near, far): (usize, usize),
    ) -> Vec<Sealed> {
        let others = self.iter().filter(|(_, it)| it.is_current);
        let others = others.filter(|(player, _)| *player != to && !linked.contains(player));
        let mut order: Vec<(f32, PlayerId)> =
            others.map(|(player, it)| (it.at().distance(at).0, player)).collect();
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let close = order.iter().take_while(|(away, _)| *away <= within).count().min(near);
        let mut rest = order.split_off(close);
        rest.sort_unstable_by_key(|(_, player)| lot(to.0.into(), player.0.into()));
        let chosen = order.iter().chain(rest.iter().take(far));
        chosen.take(MAX_INTRODUCED).map(|(_, player)| self.all[player].sealed.clone()).collect()
    }
}

/// Whether a digest may be passed on at a time of the world. No peer needs a digest of a peer that
/// is not in the world yet.
fn is_current(digest: &Digest, world: Option<Micros>, linked: bool) -> bool {
    let is_new = world.is_none_or(|world| world - digest.made_at() < FORGET_AFTER);
    digest.is_dated() && (linked || is_new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use foveate_wire::{KindId, ObjectId};

    const HERE: Reader = Reader { now: Micros(1), world: None, here: Position([0.0; 3]) };

    struct Trusting;

    impl Signer for Trusting {
        fn key(&self) -> Key {
            Key([1; 32])
        }
        fn sign(&self, _: &[u8]) -> [u8; 64] {
            [0; 64]
        }
        fn verify(&self, _: &Key, _: &[u8], _: &[u8; 64]) -> bool {
            true
        }
    }

    fn digest(of: u8, number: u32, owned: u32) -> Sealed {
        let object = |serial| (ObjectId::new(KindId(1), 0, serial).into(), serial);
        let digest = Digest {
            key: Key([of; 32]),
            number,
            at: [0; 3],
            contact: vec![],
            owned: (0..owned).map(object).collect(),
            boards: vec![],
            gone: false,
        };
        Sealed::new(&digest, &Trusting)
    }

    #[test]
    fn a_long_digest_is_passed_on_and_paid_for_later() {
        let mut members = Members::new(PlayerId(9));
        members.learn(HERE, digest(2, 5, 60), None, &Trusting).unwrap();
        let no_links = BTreeSet::new();
        let ears = [GossipTarget { link: Link(7), player: PlayerId(8), linked: &no_links }];
        let mut room = 20;
        assert_eq!(members.gossip(&ears, &mut room).len(), 1);
        assert!(room < -200, "{room}");
        assert!(members.gossip(&ears, &mut room).is_empty(), "nothing before it is paid for");
    }

    #[test]
    fn a_members_place_comes_from_the_newest_sighting() {
        let mut members = Members::new(PlayerId(9));
        let player = Key([2; 32]).player();
        assert!(
            !members.sight(player, Position([4.0; 3]), Micros(1_200_000)),
            "the peer is unknown"
        );
        members.learn(HERE, digest(2, 100, 0), None, &Trusting).unwrap();
        assert_eq!(
            members.get(player).unwrap().at(),
            Position([4.0; 3]),
            "seen before its digest came"
        );
        assert!(members.sight(player, Position([5.0; 3]), Micros(2_000_000)));
        members.sight(player, Position([6.0; 3]), Micros(1_500_000));
        members.learn(HERE, digest(2, 150, 0), None, &Trusting).unwrap();
        assert_eq!(
            members.get(player).unwrap().at(),
            Position([5.0; 3]),
            "older sightings change nothing"
        );
        members.learn(HERE, digest(2, 201, 0), None, &Trusting).unwrap();
        assert_eq!(members.get(player).unwrap().at(), Position([0.0; 3]));
    }

    #[test]
    fn the_last_digest_of_a_lost_peer_is_not_news_again() {
        let mut members = Members::new(PlayerId(9));
        let player = Key([2; 32]).player();
        members.learn(HERE, digest(2, 100, 0), None, &Trusting).unwrap();
        members.vanished(player);
        let learnt = members.learn(HERE, digest(2, 100, 0), None, &Trusting).unwrap();
        assert_eq!(learnt, Learned::Old, "sent before it was lost");
        let learnt = members.learn(HERE, digest(2, 101, 0), None, &Trusting).unwrap();
        assert_eq!(learnt, Learned::News(player), "it is there after all");
    }

    #[test]
    fn a_member_without_news_is_not_gossiped_about() {
        let mut members = Members::new(PlayerId(9));
        let player = Key([2; 32]).player();
        let at = |seconds: u64| Reader {
            now: Micros(seconds * 1_000_000),
            world: Some(Micros(seconds * 1_000_000)),
            ..HERE
        };
        // Signed at 100 s; received half a minute later.
        members.learn(at(130), digest(2, 10_000, 0), Some(Link(1)), &Trusting).unwrap();
        assert!(members.sealed(player).is_some());
        members.expire(at(141), |_| false);
        assert!(members.get(player).is_some() && members.sealed(player).is_none());
        members.expire(at(142), |_| true);
        assert!(members.sealed(player).is_some(), "a neighbour is surely there");
        members.expire(at(171), |_| false);
        assert!(members.get(player).is_none());
    }

    #[test]
    fn a_peer_outside_the_world_is_not_gossiped_about() {
        let mut members = Members::new(PlayerId(9));
        members.learn(HERE, digest(2, 0, 0), None, &Trusting).unwrap();
        let no_links = BTreeSet::new();
        let ears = [GossipTarget { link: Link(7), player: PlayerId(8), linked: &no_links }];
        assert!(members.gossip(&ears, &mut 100).is_empty());
        assert!(
            members.introduce(PlayerId(8), (Position([0.0; 3]), 1.0), &no_links, (8, 8)).is_empty()
        );
    }
}
