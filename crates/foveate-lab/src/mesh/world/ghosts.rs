//! What players see that is not there: live replicas of objects that no region owns.
//!
//! A host that does not know what the session's former host told the client never tells that it is gone. The comparison
//! of [`MeshWorld::compare_clients`] goes from objects to replicas and does not find these.

use super::super::check::FindingKind;
use super::clients::RECENT;
use super::{MeshWorld, ObjectId};
use foveate_sync::replica::Life;
use foveate_wire::Micros;
use std::collections::{BTreeMap, BTreeSet};

/// Between two looks.
pub const LOOK_EVERY: Micros = Micros(500_000);
/// A region keeps a row that its neighbour does not confirm for five seconds, and its players for as long: what is seen
/// in this many looks in a row is not such a row.
const GHOST_LOOKS: u32 = 14;

/// Replicas of objects that no region owns, by client and object: in how many looks in a row.
pub(super) type Ghosts = BTreeMap<(usize, ObjectId), u32>;

impl MeshWorld {
    /// Looks at all replicas of players that hear from their hosts.
    pub fn look_for_ghosts(&mut self) {
        let regions = self.processes.values().flat_map(|it| it.node.regions());
        let owned: BTreeSet<ObjectId> =
            regions.flat_map(|region| region.owned().map(|(id, _)| id)).collect();
        let before = std::mem::take(&mut self.clients.ghosts);
        let mut ghosts = Ghosts::new();
        for (at, it) in self.clients.clients.iter().enumerate() {
            let hears = self.now.saturating_sub(it.heard) <= RECENT;
            if it.away || it.client.joined().is_none() || !hears {
                continue;
            }
            let replicas = it.client.replicas.in_any_order();
            let shown = replicas.filter(|view| view.life() == Life::Live).map(|view| view.id());
            for id in shown.filter(|id| !owned.contains(id)) {
                ghosts.insert((at, id), before.get(&(at, id)).map_or(1, |looks| looks + 1));
            }
        }
        for ((at, id), _) in ghosts.iter().filter(|(_, looks)| **looks == GHOST_LOOKS) {
            let name = &self.clients.clients[*at].name;
            let text = format!("{name} sees {id:?}, which is not there");
            self.checker.find(FindingKind::Ghost, self.now, text);
        }
        self.clients.ghosts = ghosts;
    }
}
