//! Sightings: a peer tells a neighbour of players that the neighbour may not see yet.
//!
//! Digests say where a peer was seconds ago. Before two players come within sight of each other,
//! peers that are neighbours of both see them, and one of these sends the current place, in a few
//! bytes.

use super::interest::lot;
use super::wire::{MAX_INTRODUCED, MAX_SIGHTED, PeerMessage};
use super::{Fault, Peer};
use crate::game::{Game, PlayerId};
use crate::outbox::{Link, Outbox};
use crate::session::write_message;
use foveate_wire::{Micros, ObjectId, Position};

/// Two players within this many times the range of sight should have a link.
const SIGHTS: f32 = 1.2;
/// How many of the peers that see both report it.
const WITNESSES: usize = 2;
/// The same sighting is not repeated within this time.
const REMIND_AFTER: Micros = Micros(3_000_000);

impl<G: Game> Peer<G> {
    /// Tells each neighbour which players without a link to it come near. Of the many peers that
    /// see both, a pseudorandom choice reports it.
    pub(super) fn send_sightings(&mut self, now: Micros, out: &mut impl Outbox) {
        let within = SIGHTS * self.sight();
        let kind = self.avatar.kind();
        let seen =
            |player: PlayerId| self.simulation.ghosts.place(ObjectId::new(kind, player.0, 0));
        let open: Vec<(Link, PlayerId, Position)> = self
            .links
            .iter()
            .filter(|(_, it)| it.open)
            .filter_map(|(link, it)| Some((*link, it.player, seen(it.player)?)))
            .collect();
        for (link, player, at) in &open {
            let mut sighted = Vec::new();
            for (other_link, other, there) in &open {
                if player == other || at.distance(*there).0 > within {
                    continue;
                }
                if self.is_witness((*link, *player), (*other_link, *other), now) {
                    sighted.push((other.0, there.0.map(|at| at.round() as i32)));
                }
            }
            sighted.truncate(MAX_SIGHTED);
            let Some(it) = self.links.get_mut(link) else { continue };
            it.sighted.retain(|_, since| now - *since < REMIND_AFTER);
            it.sighted.extend(sighted.iter().map(|(other, _)| (PlayerId(*other), now)));
            if !sighted.is_empty() {
                out.message(*link, &write_message(&PeerMessage::Sighted(sighted)));
            }
        }
    }

    /// Whether two neighbours have no link to each other, and this peer is the one to tell the
    /// first.
    fn is_witness(
        &self,
        (link, player): (Link, PlayerId),
        (other_link, other): (Link, PlayerId),
        now: Micros,
    ) -> bool {
        let (Some(a), Some(b)) = (self.links.get(&link), self.links.get(&other_link)) else {
            return false;
        };
        let told = a.sighted.get(&other).is_some_and(|since| now - *since < REMIND_AFTER);
        if told || a.linked.contains(&other) || b.linked.contains(&player) {
            return false;
        }
        let pair = lot(player.0.min(other.0).into(), player.0.max(other.0).into());
        let mine = lot(pair, self.me.0.into());
        let both = a.linked.intersection(&b.linked);
        both.filter(|it| lot(pair, it.0.into()) < mine).count() < WITNESSES
    }

    /// A neighbour reports players that it sees nearby. They are dialled, but not assumed to be
    /// there.
    pub(super) fn on_sighted(
        &mut self,
        link: Link,
        players: &[(u32, [i32; 3])],
        now: Micros,
        out: &mut impl Outbox,
    ) {
        if players.len() > MAX_SIGHTED {
            return self.record_violation(link, Fault::Malformed, now);
        }
        let time = self.time(now);
        let mut unknown = Vec::new();
        for (player, at) in players {
            let player = PlayerId(*player);
            let known =
                self.membership.members.sight(player, Position(at.map(|at| at as f32)), time);
            if !known && player != self.me && !self.trust.is_banned(player) {
                unknown.push(player.0);
            }
        }
        if !unknown.is_empty() {
            out.message(link, &write_message(&PeerMessage::Who(unknown)));
        }
    }

    /// A neighbour asks how to reach some players.
    pub(super) fn send_digests_of(
        &mut self,
        link: Link,
        players: &[u32],
        now: Micros,
        out: &mut impl Outbox,
    ) {
        if players.len() > MAX_SIGHTED {
            return self.record_violation(link, Fault::Malformed, now);
        }
        let known =
            players.iter().filter_map(|player| self.membership.members.sealed(PlayerId(*player)));
        let digests: Vec<_> = known.cloned().collect();
        self.charge_gossip(&digests);
        for digests in digests.chunks(MAX_INTRODUCED) {
            out.message(link, &write_message(&PeerMessage::Members(digests.to_vec())));
        }
    }
}
