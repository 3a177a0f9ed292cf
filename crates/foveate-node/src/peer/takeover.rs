//! Takes over objects whose owners are gone, the most interested peer first.

use super::Peer;
use super::interest::keepers;
use super::ownership::Doubt;
use crate::game::{Game, PlayerId, Tenure};
use foveate_wire::{Epoch, Metres, Micros, ObjectId};

/// Each peer that could take over waits this much longer than the next more interested one.
const RANK_WAIT: Micros = Micros(120_000);
/// The highest rank, so that everything has an owner within half a second after its owner is
/// missed.
const MAX_RANK: u32 = 4;

impl<G: Game> Peer<G> {
    /// Orphans the objects of a peer that is gone.
    pub(super) fn orphan_objects_of(&mut self, player: PlayerId, now: Micros) {
        for id in self.ownership.ghosts_of(player) {
            if self.tenure(id) == Tenure::Fixed {
                self.ownership.remove(id);
                self.simulation.ghosts.remove(id);
                continue;
            }
            let doubt = self.ownership.doubt(id);
            let Peer { ownership, links, .. } = self;
            let taken = doubt.filter(|it| links.is_linked(it.claim.owner));
            if let Some(Doubt { removed: true, .. }) = taken {
                self.believe_removed(id, Epoch(u32::MAX), now);
            } else if let Some(doubt) = taken
                && let Some(ghost) = ownership.settle(id)
            {
                // That peer noticed earlier than this one, and has taken it over by now.
                (ghost.claim, ghost.source, ghost.given) = (doubt.claim, None, None);
                (ghost.heard, ghost.taken, ghost.since) = (now, Some(now), now);
                ownership.giving.remove(&id);
            } else if ownership.giving.get(&id).is_some_and(|giving| giving.to == player) {
                // It may never have arrived: no other peer has a better claim to it.
                self.take_back(id, now);
            } else {
                let rank = self.takeover_rank(id, player, now);
                self.ownership.orphan(id, now + RANK_WAIT * rank);
            }
        }
    }

    /// How many peers come before this one in taking an object over: those that are there, can be
    /// expected to have its state, and are more interested.
    fn takeover_rank(&self, id: ObjectId, gone: PlayerId, now: Micros) -> u32 {
        let there = self.simulation.ghosts.place(id);
        let sight =
            self.viewing.views.values().map(|view| view.reach()).fold(Metres::ZERO, Metres::max);
        let theirs = self.links.values().filter(|it| it.linked.contains(&gone));
        let candidates = theirs.clone().map(|it| it.player).chain([self.me]);
        let keepers = keepers(id, candidates, self.settings.copies);
        let mine = (self.interest(self.me, there), self.me);
        let before = |player: PlayerId| {
            let other = (self.interest(player, there), player);
            other.0 > mine.0 || (other.0 == mine.0 && other.1 < mine.1)
        };
        let sees = |player: PlayerId| {
            self.place_of(player).zip(there).is_some_and(|(a, b)| a.distance(b) <= sight)
        };
        let ahead = theirs.filter(|it| it.is_live(now) && now - it.heard < Micros(1_000_000));
        let ahead = ahead.map(|it| it.player);
        let ahead = ahead.filter(|it| before(*it) && (keepers.contains(it) || sees(*it)));
        (ahead.count() as u32).min(MAX_RANK)
    }

    /// Takes over objects that have been without an owner for long enough.
    pub(super) fn take_over(&mut self, now: Micros) {
        let due = self.ownership.orphans().filter(|(.., at)| *at <= now);
        for (id, claim, _) in due.collect::<Vec<_>>() {
            let lanes = self.simulation.ghosts.lanes(id).map(<[i32]>::to_vec);
            let Some(lanes) = lanes else {
                self.ownership.remove(id);
                continue;
            };
            if self.take_object(id, claim.next(self.me).epoch, &lanes, now) {
                self.counts.taken_over += 1;
                self.ownership.urgent = true;
            }
        }
    }
}
