//! Actions on objects that other peers own. An action is sent to the owner repeatedly until the
//! owner answers, and is carried out once.

use super::identity::Sealed;
use super::ownership::{GhostState, MAX_DONE};
use super::wire::{Ask, Named, PeerMessage};
use super::{Fault, Peer};
use crate::game::{Game, PlayerId, Requester, Tenure};
use crate::limits::ActionFault;
use crate::outbox::{Link, Outbox};
use crate::session::write_message;
use foveate_wire::{Micros, ObjectId};
use std::collections::{BTreeMap, VecDeque};

/// The most actions that wait for their owners.
pub const MAX_ASKS: usize = 256;
/// The most bytes of an action.
const MAX_ACTION: usize = 512;
/// An action is sent again after this time.
const RETRY: Micros = Micros(500_000);
/// An action is given up after this time.
pub const GIVE_UP: Micros = Micros(5_000_000);
/// For this long after an object changed owners, actions of its former owner may still arrive.
const HANDOVER: Micros = Micros(GIVE_UP.0 + 1_000_000);
/// The most links that an action travels.
const MAX_HOPS: u8 = 8;
/// The most actions of other peers whose way back is remembered.
const MAX_RELAYED: usize = 1_024;

struct Waiting {
    ask: Ask,
    since: Micros,
    sent: Option<Micros>,
}

/// This peer's actions, and the way back of those that it passed on.
#[derive(Default)]
pub struct Asks {
    next: u32,
    /// Actions added since the last round.
    fresh: Vec<Ask>,
    waiting: BTreeMap<u32, Waiting>,
    relayed: VecDeque<((PlayerId, u32), Link)>,
}

impl Asks {
    /// Sets the number of the first action: above all that this player used before.
    pub(super) fn begin(&mut self, first: u32) {
        self.next = self.next.max(first);
    }

    /// How many actions wait for an answer.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

impl<G: Game> Peer<G> {
    /// Takes the actions of rules and of the player on other peers' objects.
    pub(super) fn take_asks(&mut self) {
        let Peer { simulation, asks, counts, signer, me, .. } = self;
        for (object, action, by) in simulation.drain_elsewhere().collect::<Vec<_>>() {
            let is_ours = |id| simulation.game.tenure(id) != Tenure::Fixed || id.origin() == me.0;
            let (turn, seen) = match by {
                Requester::Object(id) if is_ours(id) => (Some(id.into()), 0),
                Requester::Player(player, seen) if player == *me => (None, seen.0),
                // An object that belonged to this peer until just now, requested by another peer.
                // This peer cannot ask in that peer's name.
                Requester::Object(_) | Requester::Player(..) => {
                    counts.asks_lost += 1;
                    continue;
                }
            };
            let action = postcard::to_allocvec(&action).unwrap_or_default();
            if action.len() > MAX_ACTION || asks.waiting.len() + asks.fresh.len() >= MAX_ASKS {
                counts.asks_lost += 1;
                continue;
            }
            asks.next = asks.next.wrapping_add(1);
            let (key, number) = (signer.key(), asks.next);
            asks.fresh.push(Ask { key, number, object: object.into(), turn, seen, action });
        }
    }

    /// Sends the waiting actions to the current owners.
    pub(super) fn send_asks(&mut self, now: Micros, out: &mut impl Outbox) {
        for ask in std::mem::take(&mut self.asks.fresh) {
            self.asks.waiting.insert(ask.number, Waiting { ask, since: now, sent: None });
        }
        let due = |it: &Waiting| it.sent.is_none_or(|sent| now - sent >= RETRY);
        let numbers: Vec<u32> =
            self.asks.waiting.iter().filter(|(_, it)| due(it)).map(|(number, _)| *number).collect();
        for number in numbers {
            let Some(waiting) = self.asks.waiting.get(&number) else { continue };
            if now - waiting.since >= GIVE_UP {
                self.asks.waiting.remove(&number);
                self.counts.asks_lost += 1;
                continue;
            }
            let id = waiting.ask.object.id();
            if self.ownership.owns(id) {
                // The object became ours in the meantime.
                if let Some(waiting) = self.asks.waiting.remove(&number) {
                    self.carry_out(&waiting.ask);
                }
                continue;
            }
            let Some(link) = self.way_to(id) else { continue };
            let sealed = Sealed::new(&waiting.ask, &*self.signer);
            out.message(link, &write_message(&PeerMessage::Ask(sealed, 0)));
            if let Some(waiting) = self.asks.waiting.get_mut(&number) {
                waiting.sent = Some(now);
            }
        }
    }

    /// The link through which an object's owner is reached.
    fn way_to(&self, id: ObjectId) -> Option<Link> {
        let owner = self.ownership.ghost(id)?.claim.owner;
        let direct = self.links.link_to(owner);
        let way = direct.or_else(|| self.membership.members.get(owner)?.via)?;
        self.links.get(&way).filter(|it| it.open).map(|_| way)
    }

    /// A peer sends an action on an object of ours, or of a peer further on.
    pub(super) fn on_ask(
        &mut self,
        from: Link,
        sealed: Sealed,
        hops: u8,
        now: Micros,
        out: &mut impl Outbox,
    ) {
        let Some(ask) = sealed.peek::<Ask>().filter(|ask| ask.action.len() <= MAX_ACTION) else {
            return self.record_violation(from, Fault::Malformed, now);
        };
        let Some(neighbour) = self.links.get(&from) else { return };
        // The link proves the key of its other end; a peer further away must have signed.
        if neighbour.key != ask.key && !sealed.holds(&ask, &*self.signer) {
            return self.record_violation(from, Fault::Tampered, now);
        }
        let (id, asker) = (ask.object.id(), ask.key.player());
        // No action can come from the step of another peer's own object.
        let turn = ask.turn.map(Named::id);
        let theirs =
            |turn: ObjectId| self.tenure(turn) != Tenure::Fixed || turn.origin() == asker.0;
        if self.trust.is_banned(asker) || !turn.is_none_or(theirs) {
            return self.record_violation(from, Fault::Forged, now);
        }
        if self.ownership.owns(id) {
            let is_direct = neighbour.key == ask.key;
            let fault = match turn.is_none_or(|turn| self.may_ask_for(asker, turn, now)) {
                true => self.carry_out(&ask).filter(|fault| fault.is_cheating()),
                false => Some(ActionFault::Source),
            };
            // A relay cannot know what the owner knows.
            if fault.is_some() && is_direct {
                self.record_violation(from, Fault::Cheated, now);
            }
            out.message(from, &write_message(&PeerMessage::Done(asker.0, ask.number)));
            return;
        }
        let Some(way) = self.way_to(id).filter(|way| *way != from && hops < MAX_HOPS) else {
            return;
        };
        let key = (asker, ask.number);
        if !self.asks.relayed.iter().any(|it| it.0 == key) {
            if self.asks.relayed.len() == MAX_RELAYED {
                self.asks.relayed.pop_front();
            }
            self.asks.relayed.push_back((key, from));
        }
        out.message(way, &write_message(&PeerMessage::Ask(sealed, hops + 1)));
    }

    /// Whether a peer may ask in the step of an object: it is the known owner, or was until just
    /// now.
    fn may_ask_for(&self, asker: PlayerId, turn: ObjectId, now: Micros) -> bool {
        if self.tenure(turn) == Tenure::Fixed {
            return turn.origin() == asker.0;
        }
        let ownership = &self.ownership;
        if let Some(owned) = ownership.owned(turn) {
            return now - owned.since < HANDOVER;
        }
        let is_unclear = ownership.is_orphan(turn) || ownership.doubt(turn).is_some();
        let is_live = |player| self.links.of(player).is_some_and(|it| it.is_live(now));
        let may = |ghost: &GhostState| {
            let owner = ghost.claim.owner;
            owner == asker || is_unclear || now - ghost.since < HANDOVER || !is_live(owner)
        };
        // For an object that is not known here, the game's limits decide.
        ownership.ghost(turn).is_none_or(may)
    }

    /// Carries out an action, unless it was carried out before or breaks the game's limits.
    fn carry_out(&mut self, ask: &Ask) -> Option<ActionFault> {
        let id = ask.object.id();
        let key = (ask.key.player().0, ask.number);
        let owned = self.ownership.owned_mut(id)?;
        if owned.done.contains(&key) {
            return None;
        }
        let action = postcard::from_bytes::<G::Action>(&ask.action).ok()?;
        if owned.done.len() == MAX_DONE {
            owned.done.pop_front();
        }
        owned.done.push_back(key);
        let is_own = ask.key.player() == self.me;
        let taken = match is_own {
            true => Ok(self.simulation.ask(id, action, ask.by())),
            false => self.simulation.request(id, action, ask.by()),
        };
        self.counts.asks_lost += u64::from(taken == Ok(false));
        taken.err()
    }

    /// An owner answered an action.
    pub(super) fn on_done(&mut self, asker: PlayerId, number: u32, out: &mut impl Outbox) {
        if asker == self.me {
            self.asks.waiting.remove(&number);
            return;
        }
        let at = self.asks.relayed.iter().position(|it| it.0 == (asker, number));
        if let Some((_, back)) = at.and_then(|at| self.asks.relayed.remove(at)) {
            out.message(back, &write_message(&PeerMessage::Done(asker.0, number)));
        }
    }
}
