//! The links of a peer: its neighbours, and the peers that it is dialling.

use super::neighbour::Neighbour;
use crate::game::PlayerId;
use crate::outbox::Link;
use foveate_wire::Micros;
use std::collections::{BTreeMap, btree_map};

/// A dial without an answer is given up after this time.
const DIAL_FOR: Micros = Micros(5_000_000);

/// A dial under way, or a failed one.
#[derive(Clone, Copy, Debug)]
struct Dial {
    since: Micros,
    /// The link could not be made.
    failed: bool,
}

/// Links by number and by player. Each neighbour has one.
#[derive(Default)]
pub(super) struct Links {
    by_link: BTreeMap<Link, Neighbour>,
    by_player: BTreeMap<PlayerId, Link>,
    dials: BTreeMap<PlayerId, Dial>,
    /// When a peer with a claim on an object of ours was last dialled.
    pub disputed: Micros,
    /// How often links were reviewed.
    pub looks: u32,
}

impl Links {
    pub fn get(&self, link: &Link) -> Option<&Neighbour> {
        self.by_link.get(link)
    }

    pub fn get_mut(&mut self, link: &Link) -> Option<&mut Neighbour> {
        self.by_link.get_mut(link)
    }

    pub fn of(&self, player: PlayerId) -> Option<&Neighbour> {
        self.by_link.get(self.by_player.get(&player)?)
    }

    pub fn link_to(&self, player: PlayerId) -> Option<Link> {
        self.by_player.get(&player).copied()
    }

    pub fn is_linked(&self, player: PlayerId) -> bool {
        self.by_player.contains_key(&player)
    }

    pub fn players(&self) -> impl Iterator<Item = PlayerId> + '_ {
        self.by_player.keys().copied()
    }

    pub fn iter(&self) -> btree_map::Iter<'_, Link, Neighbour> {
        self.by_link.iter()
    }

    pub fn iter_mut(&mut self) -> btree_map::IterMut<'_, Link, Neighbour> {
        self.by_link.iter_mut()
    }

    pub fn values(&self) -> btree_map::Values<'_, Link, Neighbour> {
        self.by_link.values()
    }

    pub fn values_mut(&mut self) -> btree_map::ValuesMut<'_, Link, Neighbour> {
        self.by_link.values_mut()
    }

    /// All links, as a copy, so that they can change during the loop.
    pub fn all(&self) -> Vec<Link> {
        self.by_link.keys().copied().collect()
    }

    pub fn len(&self) -> usize {
        self.by_link.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_link.is_empty()
    }

    pub fn insert(&mut self, link: Link, neighbour: Neighbour) {
        self.by_player.insert(neighbour.player, link);
        self.by_link.insert(link, neighbour);
    }

    pub fn remove(&mut self, link: Link) -> Option<Neighbour> {
        let neighbour = self.by_link.remove(&link)?;
        if self.by_player.get(&neighbour.player) == Some(&link) {
            self.by_player.remove(&neighbour.player);
        }
        Some(neighbour)
    }

    pub fn clear(&mut self) {
        self.by_link.clear();
        self.by_player.clear();
    }

    pub fn is_dialling(&self, player: PlayerId) -> bool {
        self.dials.contains_key(&player)
    }

    /// How many dials are under way, or failed recently.
    pub fn dials(&self) -> usize {
        self.dials.len()
    }

    pub fn start_dial(&mut self, player: PlayerId, now: Micros) {
        self.dials.insert(player, Dial { since: now, failed: false });
    }

    /// Notes that a dial failed. It stays in the list until its time is over or there is news of
    /// the player, so that it is not repeated at once.
    pub fn fail_dial(&mut self, player: PlayerId, now: Micros) {
        self.dials.insert(player, Dial { since: now, failed: true });
    }

    pub fn end_dial(&mut self, player: PlayerId) {
        self.dials.remove(&player);
    }

    pub fn forget_failed_dial(&mut self, player: PlayerId) {
        if self.dials.get(&player).is_some_and(|dial| dial.failed) {
            self.dials.remove(&player);
        }
    }

    pub fn expire_dials(&mut self, now: Micros) {
        self.dials.retain(|_, dial| now - dial.since < DIAL_FOR);
    }
}
