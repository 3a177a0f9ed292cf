//! How a peer joins: an entry peer sends it the list of players, and it connects to those itself.
//!
//! A peer sends its entry peer an entry. The list is state like any other: each peer is an object, and a newcomer is an
//! observer. Entries have places, so that a newcomer can be sent only the peers near its spawn point, by a view like
//! any other. The older peers need no list, since the newcomer introduces itself.

use super::{About, Play, PlayError, id_of};
use crate::script::{NEAR_SPAWN, frames};
use foveate_sync::interest::{Circle, Grade, Pace, Policy, Sight};
use foveate_wire::{Metres, Micros, ObjectId, Replicate};
use std::sync::Arc;

/// Seconds during which a newcomer is sent changes of the list.
const LISTED: f64 = 0.4;

/// A peer that a newcomer may connect to.
#[derive(Clone, PartialEq, Debug, Replicate)]
pub struct RosterEntry {
    #[replicate(place, precision = 0.5, extent = 256.0)]
    place: [f32; 3],
    #[replicate(max_len = 16)]
    name: String,
    /// The address at which the peer listens.
    #[replicate(max_len = 24)]
    address: String,
}

/// The largest error of places in the list.
const COARSE: Metres = Metres(NEAR_SPAWN / 8.0);

/// A policy for all objects, with coarse places.
struct Coarse;

impl Policy for Coarse {
    fn grade(&self, _: &Sight) -> Option<Grade> {
        Some(Grade { max_error: COARSE, floor: COARSE, ..Grade::EXACT })
    }
}

impl Play<'_> {
    /// The channel with this purpose; `None` if there is a server.
    fn channel(&self, about: About) -> Option<usize> {
        self.channels.iter().position(|channel| channel.about == about)
    }

    /// A newcomer sends its entry to the entry peer, and asks for the list.
    pub(super) fn ask_roster(&mut self, entry: usize, me: usize) {
        let spawn = self.topology.player(me).and_then(|player| self.script.spawn(player));
        let policy: Arc<dyn Policy> = match spawn.filter(|_| self.ours.near_spawn) {
            // Places in the list are rounded to half a unit.
            Some(_) => {
                Arc::new(Circle { view: Metres(NEAR_SPAWN + 0.5), pace: Pace::every(Micros::ZERO) })
            }
            None => Arc::new(Coarse),
        };
        let at = spawn.unwrap_or(super::MIDDLE);
        if let Some((arrival, roster)) =
            self.channel(About::Arrival).zip(self.channel(About::Roster))
        {
            self.connect_as((arrival, me, entry), Arc::new(Coarse), at);
            self.connect_as((roster, entry, me), policy, at);
        }
    }

    /// Writes a node's own entry. Where it has moved since matters only if newcomers ask for near peers.
    pub(super) fn write_arrival(&mut self, channel: usize, node: usize) {
        let Some(player) = self.topology.player(node) else { return };
        let id = id_of(Some(player), 0);
        let known = self.channels[channel].publishers[node].store.find(id).is_some();
        if self.script.present(player, self.frame) && (!known || self.ours.near_spawn) {
            let place = self.script.of(player).next().and_then(|thing| self.pose(thing));
            let entry = RosterEntry {
                place: place.map_or(super::MIDDLE, |pose| pose.pos),
                name: format!("player_{player}"),
                address: format!("10.0.0.{}:4001", 10 + player),
            };
            self.channels[channel].write(node, id, &entry);
        }
    }

    /// A node that is asked writes a list of itself and the peers that sent it their entries.
    pub(super) fn write_roster(&mut self, channel: usize, node: usize) {
        let Some(arrivals) = self.channel(About::Arrival) else { return };
        if !self.channels[channel].ties.iter().any(|tie| tie.from == node) {
            return;
        }
        let arrivals = &self.channels[arrivals];
        let ties = arrivals.ties.iter().filter(|tie| tie.to == node);
        let heard = ties.flat_map(|tie| tie.replicas.iter());
        let mut listed: Vec<(ObjectId, RosterEntry)> =
            heard.filter_map(|view| Some((view.id(), view.value()?))).collect();
        let store = &arrivals.publishers[node].store;
        for (id, slot) in store.iter() {
            listed.extend(store.get(slot).ok().map(|entry| (id, entry)));
        }
        for (id, entry) in listed {
            self.channels[channel].write(node, id, &entry);
        }
    }

    /// Connects newcomers to the peers that they were told of.
    pub(super) fn meet_listed(&mut self) -> Result<(), PlayError> {
        let Some(channel) = self.channel(About::Roster) else { return Ok(()) };
        let mut pairs = Vec::new();
        for tie in &self.channels[channel].ties {
            for view in tie.replicas.iter() {
                let other = self.topology.node(view.id().origin() as usize - 1);
                let tied = self.channels[0].tie(tie.to, other).is_some();
                // Two that join in the same frame are told of each other, but need only one connection.
                let pair = (tie.to.max(other), tie.to.min(other));
                if other != tie.to && !tied && !pairs.contains(&pair) {
                    pairs.push(pair);
                }
            }
        }
        for (me, other) in pairs {
            let there = |node| {
                let player = self.topology.player(node);
                player.is_some_and(|player| self.script.present(player, self.frame))
            };
            if there(me) && there(other) {
                self.connect_both(me, other)?;
            }
        }
        self.end_lists(channel);
        Ok(())
    }

    /// Ends lists that were requested long enough ago.
    fn end_lists(&mut self, channel: usize) {
        let old = |node: usize| {
            let player = self.topology.player(node);
            player.is_none_or(|p| self.script.players[p].start + frames(LISTED) < self.frame)
        };
        let channel = &mut self.channels[channel];
        for tie in channel.ties.extract_if(.., |tie| old(tie.to)) {
            channel.publishers[tie.from].remove(tie.observer);
        }
    }
}
