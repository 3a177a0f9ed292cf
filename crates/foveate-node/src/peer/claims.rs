//! Claims on objects: which are accepted, which are doubted and asked about, which are answered,
//! and to which this peer yields.

use super::membership::id_number;
use super::neighbour::{KEEP_ALIVE, Neighbour};
use super::ownership::{Doubt, OwnerClaim};
use super::transfer::{Acquired, CLEAR_AFTER, Owned};
use super::wire::{Changes, PeerMessage};
use super::{Fault, Peer};
use crate::game::{Game, PlayerId, Tenure};
use crate::outbox::{Link, Outbox};
use crate::session::write_message;
use foveate_wire::schema::LANE_EPOCH;
use foveate_wire::{Epoch, Micros, ObjectId};

/// The least time between two answers, or two questions, about claims on one object.
const ASSERT_EVERY: Micros = Micros(1_000_000);
/// How far ahead a creator's clock may be.
const MAX_CLOCK_ERROR: Micros = Micros(2_000_000);

impl<G: Game> Peer<G> {
    /// A peer claims an object. Returns whether the claimant is its owner, as far as is known.
    pub(super) fn on_claim(
        &mut self,
        link: Link,
        id: ObjectId,
        claim: OwnerClaim,
        now: Micros,
    ) -> bool {
        let foreign = self.tenure(id) == Tenure::Fixed && id.origin() != claim.owner.0;
        if foreign || self.is_forged(id, claim, now) {
            self.record_violation(link, Fault::Forged, now);
            return false;
        }
        if self.ownership.is_removed(id, claim.epoch) {
            return false;
        }
        if let Some(mine) = self.my_claim(id) {
            self.on_rival_claim((link, id), claim, mine, now);
            return false;
        }
        let Some(known) = self.ownership.ghost(id) else { return true };
        if claim == known.claim {
            return true;
        }
        if claim.owner == known.claim.owner && claim.beats(&known.claim) {
            // The owner answers a peer that claimed the object without having received it. But a
            // peer that gave the object away has it back if the receiver did not take it.
            let honest = |doubted: &OwnerClaim| known.given == Some(doubted.owner);
            // Two peers may have taken it over at the same time from one that is gone.
            let is_race = |at: Micros| known.taken.is_some_and(|taken| at - taken < CLEAR_AFTER);
            let usurps = |it: &Doubt| {
                claim.beats(&it.claim) && !honest(&it.claim) && !is_race(it.since) && !it.removed
            };
            if let Some(doubt) = self.ownership.doubt(id).filter(usurps) {
                self.judge_claimant(doubt.by, claim.owner, now);
            }
            return true;
        }
        let best = known.claim;
        if claim.is_wild(&best) {
            return false;
        }
        let mute = known.source.is_none() && now - known.heard >= ASSERT_EVERY;
        if !claim.beats(&best) {
            // The claimant may not have heard of the better claim, although it had the time to. And
            // the peer with the better claim may no longer have the object if it sends no states of
            // it.
            let met = self.links.get(&link).map_or(now, |it| it.since);
            if mute {
                self.ask_owner(best.owner, id, claim, now);
            } else if now - met >= CLEAR_AFTER {
                self.ask_owner(claim.owner, id, best, now);
            }
            return false;
        }
        if self.may_follow(id, now) {
            return true;
        }
        self.counts.doubted += 1;
        // Most doubts end by themselves, because the owner has also received the claim and is about
        // to answer. The others are asked about. Of two doubted claims, keep the one that prevails.
        if self.ownership.doubt(id).is_none_or(|doubt| claim.beats(&doubt.claim)) {
            self.ownership
                .doubt_claim(id, Doubt { claim, by: claim.owner, since: now, removed: false });
        }
        false
    }

    /// Asks owners about claims on their objects that have been in doubt for a while: the claimant
    /// may not repeat its claim, and the owner may have restarted without objects.
    pub(super) fn ask_about_doubts(&mut self, now: Micros) {
        for (id, owner, claim) in self.ownership.doubtful(now, ASSERT_EVERY) {
            self.ask_owner(owner, id, claim, now);
        }
    }

    /// Whether no honest peer can claim an object at this epoch: an object created during the game
    /// belongs to its creator first, and no id is from the future.
    pub(super) fn is_forged(&self, id: ObjectId, claim: OwnerClaim, now: Micros) -> bool {
        let Some(number) = id.number() else { return false };
        let is_first = claim.epoch == Epoch(0);
        let latest = id_number(self.time(now) + MAX_CLOCK_ERROR) as u32;
        // The shorter way round: numbers repeat after weeks.
        let ahead = number.wrapping_sub(latest) << (32 - ObjectId::NUMBER_BITS);
        (is_first && id.creator() != claim.owner.0) || (ahead as i32) > 0
    }

    /// Tells the known or claimed owner of an object about another peer's claim on it.
    pub(super) fn ask_owner(&mut self, of: PlayerId, id: ObjectId, claim: OwnerClaim, now: Micros) {
        let Some(ghost) = self.ownership.ghost_mut(id) else { return };
        if now - ghost.asked >= ASSERT_EVERY {
            ghost.asked = now;
            self.ownership.inquiries.push((of, id, claim));
        }
    }

    /// Sends the questions to owners, and how to reach the claimants.
    pub(super) fn send_inquiries(&mut self, out: &mut impl Outbox) {
        for (owner, id, claim) in std::mem::take(&mut self.ownership.inquiries) {
            let Some(link) = self.links.link_to(owner) else { continue };
            let met = |it: &Neighbour| it.linked.contains(&claim.owner);
            let strange = self.links.get(&link).is_some_and(|it| !met(it));
            if let Some(sealed) = self.membership.members.sealed(claim.owner).filter(|_| strange) {
                let digest = vec![sealed.clone()];
                self.charge_gossip(&digest);
                out.message(link, &write_message(&PeerMessage::Members(digest)));
            }
            let claimed = PeerMessage::Claimed(id.into(), claim.epoch.0, claim.owner.0);
            out.message(link, &write_message(&claimed));
        }
    }

    /// A neighbour reports another peer's claim on an object that the neighbour believes to be
    /// ours. The report alone changes nothing: the claimant has to send its claim here.
    pub(super) fn on_claimed(
        &mut self,
        link: Link,
        id: ObjectId,
        claim: OwnerClaim,
        now: Micros,
        out: &mut impl Outbox,
    ) {
        let Some(mine) = self.my_claim(id) else {
            let known = self.ownership.ghost(id).map(|ghost| ghost.claim);
            let best = known.filter(|known| known.beats(&claim)).unwrap_or(claim);
            let mut answer = Changes::default();
            match self.ownership.is_removed(id, best.epoch) {
                true => answer.remove(id),
                false => answer.give(id, best),
            }
            return out.message(link, &write_message(&PeerMessage::Changes(answer)));
        };
        if claim.owner == self.me {
            return;
        }
        let claimant = self.links.of(claim.owner);
        if claimant.is_none() && !self.links.is_dialling(claim.owner) {
            return self.dial_member(claim.owner, now);
        }
        let wrong = claimant.is_some_and(|it| self.knows_owner(id, it, now));
        if !claim.beats(&mine) || wrong {
            self.assert_claim(id, claim, now);
        }
        if !claim.beats(&mine) {
            self.send_claim(id, link, out);
        }
    }

    /// Asserts that an object is ours, at an epoch that settles the matter for honest peers. If the
    /// claim is lower than ours, or the last assertion is recent, [`Peer::repeat_claims`] answers it
    /// later.
    fn assert_claim(&mut self, id: ObjectId, claim: OwnerClaim, now: Micros) {
        let (Some(mine), Some(owned)) = (self.my_claim(id), self.ownership.owned_mut(id)) else {
            return;
        };
        if claim.is_wild(&mine) {
            return;
        }
        if now - owned.asserted < ASSERT_EVERY || !claim.beats(&mine) {
            owned.disputed = Some(claim);
            return;
        }
        (owned.asserted, owned.disputed) = (now, None);
        self.raise_epoch(id, claim.next(self.me).epoch);
    }

    /// Answers the claims that [`Peer::assert_claim`] left open: asserts ours again, or sends it to
    /// the claimant alone.
    pub(super) fn repeat_claims(&mut self, now: Micros, out: &mut impl Outbox) {
        let disputed = |(id, owned): (ObjectId, &mut Owned)| Some((id, owned.disputed.take()?));
        let disputed: Vec<(ObjectId, OwnerClaim)> =
            self.ownership.all_owned_mut().filter_map(disputed).collect();
        for (id, claim) in disputed {
            let Some(mine) = self.my_claim(id) else { continue };
            if claim.beats(&mine) {
                self.assert_claim(id, claim, now);
            } else if let Some(link) = self.links.link_to(claim.owner) {
                self.send_claim(id, link, out);
            }
        }
    }

    /// Tells one neighbour that an object is ours.
    fn send_claim(&self, id: ObjectId, link: Link, out: &mut impl Outbox) {
        let Some(mine) = self.my_claim(id) else { return };
        let mut ours = Changes::default();
        ours.gain(id, mine.epoch);
        out.message(link, &write_message(&PeerMessage::Changes(ours)));
    }

    /// Raises the epoch of an object of ours.
    pub(super) fn raise_epoch(&mut self, id: ObjectId, epoch: Epoch) {
        let store = &mut self.simulation.publisher.store;
        if let Some(slot) = store.find(id) {
            let mut lanes = store.lanes(slot).to_vec();
            lanes[LANE_EPOCH] = epoch.0 as i32;
            if store.set_lanes(slot, &lanes).is_ok() {
                self.ownership.changes.gain(id, epoch);
                self.ownership.urgent = true;
            }
        }
    }

    /// Whether a neighbour that has heard from us all the time must know that an object is ours.
    fn knows_owner(&self, id: ObjectId, neighbour: &Neighbour, now: Micros) -> bool {
        let Some(owned) = self.ownership.owned(id) else { return false };
        // For a while the neighbour can have it honestly, because it believed the former owner gone
        // and took it over. If the former owner was there all the time, and still is, it has told
        // the neighbour.
        let is_there = |player: &PlayerId| {
            let link = self.links.of(*player);
            link.is_some_and(|it| it.is_settled(now) && it.heard >= owned.since + KEEP_ALIVE)
        };
        let had_word = match owned.by {
            Acquired::Made => true,
            Acquired::Given(giver) => {
                giver == neighbour.player || neighbour.linked.contains(&giver) && is_there(&giver)
            }
            Acquired::TakenOver | Acquired::Returned => false,
        };
        neighbour.is_settled(now) && (had_word || now - owned.since >= CLEAR_AFTER)
    }

    /// A peer claimed an object, and its owner objects. Peers that have not known each other for
    /// long may have been apart, and a peer without a link to the owner may have believed it gone
    /// or banned it.
    fn judge_claimant(&mut self, player: PlayerId, owner: PlayerId, now: Micros) {
        let link = self.links.link_to(player);
        let knew = |link: &Link| {
            let it = self.links.get(link);
            it.is_some_and(|it| it.is_settled(now) && it.linked.contains(&owner))
        };
        if let Some(link) = link.filter(knew) {
            self.record_violation(link, Fault::Usurped, now);
        }
    }

    /// Whether a new owner of an object may be accepted without the old owner's word, because the
    /// old owner is not there to give it.
    pub(super) fn may_follow(&self, id: ObjectId, now: Micros) -> bool {
        let owner = self.ownership.ghost(id).map(|ghost| ghost.claim.owner);
        let owner = owner.and_then(|owner| self.links.of(owner));
        self.ownership.is_orphan(id) || owner.is_none_or(|it| !it.is_live(now))
    }

    /// A peer claims an object of ours. After a crash or a partition the better claim prevails. But
    /// a peer that has heard from us all the time cannot believe us gone.
    fn on_rival_claim(
        &mut self,
        (link, id): (Link, ObjectId),
        claim: OwnerClaim,
        mine: OwnerClaim,
        now: Micros,
    ) {
        if !claim.beats(&mine) {
            // The claimant cannot have heard of our claim.
            return self.assert_claim(id, claim, now);
        }
        let neighbour = self.links.get(&link);
        if !neighbour.is_some_and(|it| self.knows_owner(id, it, now)) {
            return self.yield_to(id, claim, now);
        }
        self.record_violation(link, Fault::Usurped, now);
        self.assert_claim(id, claim, now);
    }

    /// Gives up an object to a better claim.
    pub(super) fn yield_to(&mut self, id: ObjectId, claim: OwnerClaim, now: Micros) {
        if self.release_object(id, claim, now).is_some() {
            self.counts.yielded += 1;
            self.ownership.changes.give(id, claim);
            self.ownership.urgent = true;
        }
    }

    /// A neighbour reports that an object was removed. It is accepted if the neighbour owned the
    /// object, or may have taken it over: the owner is not there, or we have just taken it over
    /// ourselves.
    pub(super) fn on_removed(&mut self, link: Link, id: ObjectId, epoch: Epoch, now: Micros) {
        let Some(neighbour) = self.links.get(&link) else { return };
        if self.tenure(id) == Tenure::Fixed {
            if self.ownership.ghost(id).is_some_and(|it| it.claim.owner == neighbour.player) {
                self.ownership.remove(id);
                self.simulation.ghosts.remove(id);
            }
            return;
        }
        if let Some(owned) = self.ownership.owned(id) {
            let taken = matches!(owned.by, Acquired::TakenOver | Acquired::Returned);
            let slot = self.simulation.publisher.store.find(id);
            if let Some(slot) = slot.filter(|_| taken && now - owned.since < CLEAR_AFTER)
                && self.simulation.publisher.store.remove(slot).is_ok()
            {
                self.ownership.mark_removed(id, epoch, now);
                self.ownership.changes.remove(id);
                self.ownership.urgent = true;
            }
            return;
        }
        let player = neighbour.player;
        let known = self.ownership.ghost(id).map(|ghost| ghost.claim);
        let Some(known) = known.filter(|known| known.owner != player && !self.may_follow(id, now))
        else {
            return self.believe_removed(id, epoch, now);
        };
        let before = self.ownership.doubt(id).filter(|doubt| doubt.claim.owner == player);
        let (claim, since) = before.map_or((known.next(player), now), |it| (it.claim, it.since));
        self.ownership.doubt_claim(id, Doubt { claim, by: player, since, removed: true });
    }

    pub(super) fn believe_removed(&mut self, id: ObjectId, epoch: Epoch, now: Micros) {
        self.ownership.mark_removed(id, epoch, now);
        self.simulation.ghosts.remove(id);
        self.ownership.giving.remove(&id);
    }

    /// An owner reports that it gave an object to another peer.
    pub(super) fn on_gift(&mut self, link: Link, id: ObjectId, claim: OwnerClaim, now: Micros) {
        let giver = self.links.get(&link).map(|it| it.player);
        let Some(known) = self.ownership.ghost(id).copied() else { return };
        let is_owner = Some(known.claim.owner) == giver;
        if claim.owner == self.me {
            // A receiver that did not accept the object does not have it, unless it was refused
            // because this report was missing.
            if is_owner {
                self.take_held(id, Some(claim.epoch), now);
            }
            return;
        }
        let doubt = self.ownership.doubt(id);
        if let Some(doubt) = doubt.filter(|it| Some(it.claim.owner) == giver)
            && claim.beats(&doubt.claim)
        {
            self.ownership.doubt_claim(id, Doubt { claim, ..doubt });
        }
        // An owner that no longer sends states of the object may name any peer as its owner.
        let mute = known.source.is_none() && Some(claim.owner) != giver;
        if !is_owner || !(mute || claim.beats(&known.claim)) {
            return;
        }
        if doubt.is_some_and(|doubt| doubt.removed && doubt.claim.owner == claim.owner) {
            return self.believe_removed(id, Epoch(u32::MAX), now);
        }
        if let Some(ghost) = self.ownership.settle(id) {
            (ghost.claim, ghost.taken, ghost.since) = (claim, None, now);
            (ghost.source, ghost.given, ghost.heard) = (None, giver, now);
        }
    }
}
