//! Which links a peer dials and closes, and what it gossips.
//!
//! A peer dials the peers nearest to its avatar and to the objects that it owns, and a few at
//! random. A peer that dials it is accepted while there is room; when there is none, the least
//! important link is closed.

use super::identity::Sealed;
use super::interest::{keepers, lot};
use super::members::GossipTarget;
use super::membership::Occasion;
use super::neighbour::{Neighbour, UNNEEDED};
use super::ownership::OwnerClaim;
use super::receive::MAX_AHEAD;
use super::wire::{Digest, Named, PeerMessage};
use super::{FAR_LINKS, MAX_LINKS, NEAR_LINKS, Peer, PeerEvent};
use crate::game::{Game, Liveness, PlayerId};
use crate::outbox::{Link, Outbox};
use crate::session::{Refusal, write_message};
use foveate_sync::replica::Life;
use foveate_wire::{Micros, ObjectId, Position};
use std::collections::{BTreeMap, BTreeSet};

/// Time between two digests of a peer in steady state.
const DIGEST_EVERY: Micros = Micros(12_000_000);
/// Time between two digests of a peer that has just entered.
const DIGEST_FIRST: Micros = Micros(700_000);
/// How many digests follow at that interval.
const FIRST_DIGESTS: u32 = 3;
/// How many neighbours a peer sends its own digest to.
const TOLD_FIRST: usize = 2;
/// The most links dialled in one review, and of them to peers out of sight by a peer that is not
/// new.
const MAX_CALLS: (usize, usize) = (4, 1);
/// A peer with fewer links than this has few.
const FEW_LINKS: usize = 6;
/// How long a peer is new.
const NEW_FOR: Micros = Micros(10_000_000);
/// Rounds between two rounds of gossip.
const GOSSIP_EVERY: u32 = 2;
/// Bytes of others' digests that may be sent in a round of gossip.
const GOSSIP_ROOM: i64 = 30;
/// The most of these bytes that are saved up in calm times.
const MAX_GOSSIP: i64 = 100;
/// The most bytes that gossip owes for digests that a peer requested: requests cannot stop gossip
/// for longer than a second.
const MAX_OWED: i64 = 300;
/// A peer with this many links learns of nearby peers from its neighbours.
const ACQUAINTED: usize = 12;
/// How many nearby peers a neighbour with fewer links is introduced to in one review.
const INTRODUCED: usize = 3;
/// The same introduction is not repeated within this time.
const REMIND_AFTER: Micros = Micros(30_000_000);
/// How many links to the nearest peers are wanted, however far away these are.
const MIN_LINKS: usize = 24;
/// A peer within this many times the range of sight is near, so that links exist before they are
/// needed.
const SIGHTS: f32 = 1.3;
/// The distance over an existing link is multiplied by this, so that it is preferred to a new one.
const LOYALTY: f32 = 0.6;
/// A clock is adjusted if it is off by more rounds than this.
const CLOCK_SLACK: f32 = 1.5;
/// Each review adjusts the clock by the error divided by this.
const CLOCK_SHARE: f32 = 16.0;
/// The least and the most rounds that one review adjusts by.
const CLOCK_STEP: (f32, f32) = (0.02, 5.0);
/// Reviews between two dials of a lost peer.
const RETRY_LOOKS: u32 = 3;

impl<G: Game> Peer<G> {
    /// Neighbours that sent a valid hello.
    pub(super) fn open_players(&self) -> impl Iterator<Item = PlayerId> + '_ {
        self.links.values().filter(|it| it.open).map(|it| it.player)
    }

    /// Reviews links, keepers and budgets; called once in some rounds.
    pub(super) fn maintain(&mut self, now: Micros, out: &mut impl Outbox) {
        self.links.looks = self.links.looks.wrapping_add(1);
        let open: BTreeSet<PlayerId> = self.open_players().collect();
        self.membership.members.expire(self.reader(now), |player| open.contains(&player));
        self.links.expire_dials(now);
        self.apply_missed_states(now);
        for id in self.ownership.unheard(now, |owner| open.contains(&owner)) {
            self.simulation.ghosts.remove(id);
            let owner = self.ownership.ghost(id).map(|known| known.claim.owner);
            if owner.is_none_or(|owner| !open.contains(&owner)) {
                self.ownership.remove(id);
            }
        }
        self.repeat_claims(now, out);
        self.ask_about_doubts(now);
        self.retry_held(now);
        self.adjust_clock(now);
        self.give_again(now, out);
        self.seek_links(now, out);
        self.end_links(now, out);
        self.choose_keepers();
        self.share_uplink();
        self.send_introductions(now, out);
        self.send_sightings(now, out);
    }

    /// Applies states that could not be applied on arrival: those of a new owner before its claim
    /// was accepted, and those from the future by a wrong clock. They were acknowledged, so they
    /// are not sent again unless something changes.
    fn apply_missed_states(&mut self, now: Micros) {
        let latest = self.tick_at(now).plus(MAX_AHEAD);
        let mut missed = Vec::new();
        for (link, it) in self.links.iter().filter(|(_, it)| it.open) {
            for view in it.replicas.in_any_order() {
                let (owner, epoch) = view.owner();
                let claim = OwnerClaim { owner: PlayerId(owner.0), epoch };
                let (id, tick) = (view.id(), view.tick());
                let is_missed = match self.ownership.ghost(id) {
                    Some(known) => {
                        let is_new = known.source.is_none() || tick.is_after(known.tick);
                        known.claim == claim && is_new
                    }
                    None => self.my_claim(id).is_none(),
                };
                if is_missed && !tick.is_after(latest) {
                    missed.push((*link, id, view.life() == Life::Frozen));
                }
            }
        }
        for (link, id, is_frozen) in missed {
            self.on_state(link, id, now);
            if is_frozen && self.ownership.ghost(id).is_some_and(|it| it.source == Some(link)) {
                self.simulation.ghosts.set_liveness(id, Liveness::Frozen);
            }
        }
    }

    /// Clocks drift: a peer ahead of most of its settled neighbours slows down a little, one behind
    /// speeds up. A packet is expected to be half a round trip old.
    fn adjust_clock(&mut self, now: Micros) {
        let round = self.settings.rounds.length;
        let lead = |it: &Neighbour| {
            let observer = it.observer.and_then(|id| self.simulation.publisher.observer(id))?;
            let trip = observer.link().rtt()?.0 as f32 / round.0 as f32;
            it.lag.filter(|_| it.is_settled(now)).map(|lag| lag - trip / 2.0)
        };
        let mut leads: Vec<f32> = self.links.values().filter_map(lead).collect();
        leads.sort_unstable_by(f32::total_cmp);
        let lead = leads.get(leads.len() / 2).copied().unwrap_or(0.0);
        if lead.abs() > CLOCK_SLACK {
            let (least, most) = CLOCK_STEP;
            let step = (lead.abs() / CLOCK_SHARE).clamp(least, most) * round.0 as f32;
            self.membership.offset -= (step * lead.signum()) as i64;
        }
    }

    /// The view and pivot that this peer asks neighbours to grade by.
    pub(super) fn subscription(&self, wanted: bool) -> PeerMessage {
        let (view, watched) = (self.settings.view, self.viewing.watched.map(Named::from));
        PeerMessage::Subscribe { view, watched, wanted }
    }

    /// The distance of a player from this peer's pivots and objects. Trusted players, whose
    /// interest has a weight, count as nearer, so that there is a link to hand them objects over.
    fn remoteness(&self, player: PlayerId, at: Position) -> f32 {
        let store = &self.simulation.publisher.store;
        let placed = store.iter().filter(|(_, slot)| store.kind(*slot).place.is_some());
        let away = placed.map(|(_, slot)| store.position(slot).distance(at).0);
        let nearest = [self.here(), self.viewpoint()].map(|from| from.distance(at).0);
        away.fold(nearest[0].min(nearest[1]), f32::min) / self.weight(player)
    }

    /// Peers that should be neighbours, the nearest first: those in sight of this peer's pivots or
    /// objects, and a few in any case.
    fn wanted(&mut self, now: Micros) -> Vec<(f32, PlayerId)> {
        let sight = self.own_sight();
        let within = SIGHTS * sight;
        let mut order: Vec<(f32, PlayerId)> = Vec::new();
        let linked = self.links.values().filter(|it| it.open);
        for it in linked {
            let at = self.place_of(it.player).unwrap_or_else(|| self.here());
            let away = self.remoteness(it.player, at);
            order.push(((LOYALTY * away).max(away.min(sight)), it.player));
        }
        let (time, speed) = (self.time(now), self.top_speed());
        for (player, member) in self.membership.members.iter() {
            if !self.links.is_linked(player) && !self.trust.is_banned(player) {
                // A peer that was seen long ago may be anywhere.
                let age = Micros(time.0.saturating_sub(member.seen_at().0)).as_secs() as f32;
                order.push((self.remoteness(player, member.at()) + speed * age, player));
            }
        }
        order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        let near = order.iter().take_while(|(away, _)| *away <= within).count();
        let near = near.clamp(MIN_LINKS, NEAR_LINKS).min(order.len());
        let mut rest = order.split_off(near);
        // Random, but the same in every review: links that lead far last.
        rest.sort_unstable_by_key(|(_, player)| lot(self.me.0.into(), player.0.into()));
        order.extend(rest.into_iter().take(FAR_LINKS));
        order
    }

    fn seek_links(&mut self, now: Micros, out: &mut impl Outbox) {
        let sight = self.own_sight();
        let wanted = self.wanted(now);
        let (yes, no) = (self.subscription(true), self.subscription(false));
        for (link, it) in self.links.iter_mut().filter(|(_, it)| it.open) {
            let want = wanted.iter().any(|(_, player)| *player == it.player);
            if want != it.wanted_here {
                it.wanted_here = want;
                out.message(*link, &write_message(if want { &yes } else { &no }));
            }
        }
        let room = (NEAR_LINKS + FAR_LINKS).saturating_sub(self.links.dials());
        let missing = wanted.iter().filter(|(_, player)| {
            !self.links.is_linked(*player) && !self.links.is_dialling(*player)
        });
        let eager = self.links.len() < FEW_LINKS || now - self.membership.entered < NEW_FOR;
        let (soon, later) = MAX_CALLS;
        let mut later = if eager { soon } else { later };
        let mut missing: Vec<(f32, PlayerId)> = missing.copied().take(soon.min(room)).collect();
        // Those in sight are dialled at once, the others one after the other.
        missing.retain(|(away, _)| {
            let called = *away <= sight || later > 0;
            later -= usize::from(called && *away > sight);
            called
        });
        for (_, player) in missing {
            self.dial_member(player, now);
        }
        if self.links.looks.is_multiple_of(RETRY_LOOKS)
            && let Some((player, key, contact)) = self.membership.members.next_lost()
            && !self.links.is_dialling(player)
        {
            self.join(key, contact, now);
        }
    }

    /// Closes links that neither end wants. The end with the lower player does it, so that it is
    /// done once.
    fn end_links(&mut self, now: Micros, out: &mut impl Outbox) {
        let me = self.me;
        let mut ended = Vec::new();
        for (link, it) in self.links.iter_mut().filter(|(_, it)| it.open) {
            let giving = self.ownership.giving.values().any(|giving| giving.to == it.player);
            if it.wanted_here || it.wanted_there || giving {
                it.unneeded = None;
                continue;
            }
            let since = *it.unneeded.get_or_insert(now);
            if now - since >= UNNEEDED && me < it.player {
                ended.push(*link);
            }
        }
        ended.into_iter().for_each(|link| self.end_link(link, now, out));
    }

    fn end_link(&mut self, link: Link, now: Micros, out: &mut impl Outbox) {
        let Some(player) = self.links.get(&link).map(|it| it.player) else { return };
        out.message(link, &write_message(&PeerMessage::Bye { leaving: false }));
        out.close(link, Refusal::Closing);
        self.drop_link(link);
        self.forget_objects_of(player, now);
        self.events.push_back(PeerEvent::Parted(player, false));
    }

    /// A peer connects while all links are taken: closes the least important link, if that is less
    /// important than the new one.
    pub(super) fn make_room_for(
        &mut self,
        player: PlayerId,
        now: Micros,
        out: &mut impl Outbox,
    ) -> bool {
        debug_assert!(self.links.len() >= MAX_LINKS);
        let remote =
            |player| self.place_of(player).map_or(f32::MAX, |at| self.remoteness(player, at));
        let idle = |it: &&Neighbour| it.open && !it.wanted_here && !self.is_giving_to(it.player);
        let least = self.links.values().filter(idle).map(|it| (remote(it.player), it.player));
        let least = least.max_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        match least {
            // An unknown peer may be new, and know no other peer.
            Some((away, other))
                if self.membership.members.get(player).is_none() || remote(player) < away =>
            {
                let link = self.links.link_to(other);
                link.into_iter().for_each(|link| self.end_link(link, now, out));
                true
            }
            _ => false,
        }
    }

    /// Chooses which neighbours keep copies of our objects, pseudorandomly.
    fn choose_keepers(&mut self) {
        let players: Vec<PlayerId> =
            self.links.values().filter(|it| it.inside).map(|it| it.player).collect();
        let mut kept: BTreeMap<PlayerId, BTreeSet<ObjectId>> = BTreeMap::new();
        for id in self.owned_of_the_world() {
            for player in keepers(id, players.iter().copied(), self.settings.copies) {
                kept.entry(player).or_default().insert(id);
            }
        }
        for it in self.links.values_mut() {
            let theirs = kept.remove(&it.player).unwrap_or_default();
            if it.kept != theirs {
                (it.kept, it.regrade) = (theirs, true);
            }
        }
    }

    /// Introduces a neighbour to a few peers near it that it may not know.
    fn send_introductions(&mut self, now: Micros, out: &mut impl Outbox) {
        let open: Vec<Link> =
            self.links.iter().filter(|(_, it)| it.open).map(|(link, _)| *link).collect();
        let Some(link) = open.get(self.links.looks as usize % open.len().max(1)) else { return };
        let within = self.sight();
        let Some(it) = self.links.get_mut(link) else { return };
        if it.linked.len() >= ACQUAINTED {
            return;
        }
        it.introduced.retain(|_, since| now - *since < REMIND_AFTER);
        let (player, mut met) = (it.player, it.linked.clone());
        met.extend(it.introduced.keys());
        let Some(at) = self.place_of(player) else { return };
        let others = self.membership.members.introduce(player, (at, within), &met, (INTRODUCED, 0));
        if others.is_empty() {
            return;
        }
        let named = others.iter().filter_map(|it| it.peek::<Digest>());
        let named: Vec<PlayerId> = named.map(|digest| digest.key.player()).collect();
        if let Some(it) = self.links.get_mut(link) {
            it.introduced.extend(named.into_iter().map(|player| (player, now)));
        }
        out.message(*link, &write_message(&PeerMessage::Members(others)));
    }

    /// Charges gossip, which is not urgent, for digests that were sent because a peer needs them.
    pub(super) fn charge_gossip(&mut self, digests: &[Sealed]) {
        let size: usize = digests.iter().map(Sealed::size).sum();
        let least = self.membership.gossip_room.min(-MAX_OWED);
        self.membership.gossip_room = (self.membership.gossip_room - size as i64).max(least);
    }

    /// Passes on news, and sends this peer's own digest from time to time.
    pub(super) fn gossip(&mut self, now: Micros, out: &mut impl Outbox) {
        if self.is_inside() && now >= self.membership.digest_at {
            self.membership.digests = self.membership.digests.saturating_add(1);
            let soon = self.membership.digests < FIRST_DIGESTS;
            self.membership.digest_at = now + if soon { DIGEST_FIRST } else { DIGEST_EVERY };
            let sealed = self.seal_digest(now, Occasion::Usual);
            let message = write_message(&PeerMessage::Members(vec![sealed]));
            let mut open: Vec<_> = self.links.iter().filter(|(_, it)| it.open).collect();
            open.sort_by_key(|(_, it)| lot(now.0, it.player.0.into()));
            open.iter().take(TOLD_FIRST).for_each(|(link, _)| out.message(**link, &message));
        }
        let tick = self.tick_at(now);
        if !tick.0.wrapping_add(self.me.0).is_multiple_of(GOSSIP_EVERY) {
            return;
        }
        self.membership.gossip_room = (self.membership.gossip_room + GOSSIP_ROOM).min(MAX_GOSSIP);
        let Peer { links, membership, .. } = self;
        let ears: Vec<GossipTarget<'_>> = links
            .iter()
            .filter(|(_, it)| it.open)
            .map(|(link, it)| GossipTarget { link: *link, player: it.player, linked: &it.linked })
            .collect();
        for (link, digests) in membership.members.gossip(&ears, &mut membership.gossip_room) {
            out.message(link, &write_message(&PeerMessage::Members(digests)));
        }
    }
}
