//! Which subjects of the ledger a server follows: those that its regions need, and no others.
//!
//! Every server reads the layout. Of logs it reads its own regions', those that it stands by for, their neighbours', and
//! whatever others it has given objects to or taken them from. So what a server reads does not grow with the world.
//! Signs of life it reads of the servers that it watches, so that a region whose owner and standby are both gone is
//! noticed: its neighbours', and, so that each is watched by several, those of the servers before it in the layout.

use super::RegionEvent;
use super::RegionServer;
use super::layout::{Layout, RegionId, ServerId};
use super::ledger::{LedgerRequest, Subject};
use crate::game::Game;
use foveate_wire::Micros;
use std::collections::{BTreeMap, BTreeSet};

/// Between two looks at what is followed, unless the layout changes.
const LOOK_EVERY: Micros = Micros(1_000_000);
/// What is not needed is followed for so long still.
const KEEP_FOR: Micros = Micros(20_000_000);
/// So many servers watch a server, beside its neighbours.
const WATCHERS: usize = 3;

/// Subjects that are followed and not needed.
#[derive(Clone, Debug, Default)]
pub(super) struct Unwanted {
    since: BTreeMap<Subject, Micros>,
    looked: Option<Micros>,
    /// Regions whose servers' signs of life are followed, by the last look.
    watched: BTreeSet<RegionId>,
}

impl Unwanted {
    /// The layout has changed.
    pub fn look_again(&mut self) {
        self.looked = None;
    }
}

impl<G: Game> RegionServer<G> {
    /// Whether this server would notice that a region is abandoned.
    pub(super) fn watches(&self, id: RegionId) -> bool {
        self.unwanted.watched.contains(&id)
    }

    /// The regions that this server should watch.
    fn find_watched(&self, layout: &Layout) -> BTreeSet<RegionId> {
        let servers: BTreeSet<ServerId> = layout.regions().map(|(_, it)| it.server).collect();
        let servers: Vec<ServerId> = servers.into_iter().collect();
        let mine = servers.binary_search(&self.me);
        let watched = layout.regions().filter(|(id, info)| {
            // A server without regions watches all; it has nothing else to do.
            let (Ok(mine), Ok(its)) = (mine, servers.binary_search(&info.server)) else {
                return true;
            };
            let ahead = (its + servers.len() - mine) % servers.len();
            ahead <= WATCHERS || self.is_near(layout, *id)
        });
        watched.map(|it| it.0).collect()
    }

    /// Whether a region is near one of this server's.
    fn is_near(&self, layout: &Layout, id: RegionId) -> bool {
        let border = self.settings.border.0;
        let rect = |id: RegionId| {
            let heir = layout.get(id).and_then(|info| info.successor).unwrap_or(id);
            layout.rect(heir)
        };
        let Some(it) = rect(id) else { return false };
        let mut mine = self.regions.keys().chain(self.opening.keys()).chain(self.standing.keys());
        mine.any(|mine| rect(*mine).is_some_and(|mine| mine.gap(&it) <= border))
    }

    /// Follows what is needed, and nothing else for long.
    pub(super) fn follow_needed(&mut self, now: Micros) {
        // Those of transfers at once: they wait for what is read.
        let given = self.regions.values().flat_map(|it| it.transfers.values().map(|it| it.to));
        let given: BTreeSet<RegionId> = given.collect();
        given.into_iter().for_each(|id| self.follow(Subject::Log(id)));
        if self.unwanted.looked.is_some_and(|looked| now - looked < LOOK_EVERY) {
            return;
        }
        self.unwanted.looked = Some(now);
        let layout = self.layout.as_ref().map(|it| &it.1);
        self.unwanted.watched = layout.map(|it| self.find_watched(it)).unwrap_or_default();
        let needed = self.needed();
        for subject in &needed {
            self.unwanted.since.remove(subject);
            if let Subject::Server(server) = subject
                && !self.followed.contains(subject)
            {
                self.servers.begin(*server, self.heartbeat.counted);
            }
            self.follow(*subject);
        }
        // Which players' records are needed is known where they are forgotten.
        let others = self.followed.difference(&needed);
        let unneeded: Vec<Subject> =
            others.filter(|it| !matches!(it, Subject::Player(_))).copied().collect();
        for subject in unneeded {
            let since = *self.unwanted.since.entry(subject).or_insert(now);
            if now - since < KEEP_FOR || self.appends.pending(subject).is_some() {
                continue;
            }
            self.unwanted.since.remove(&subject);
            self.followed.remove(&subject);
            if let Subject::Log(id) = subject {
                self.logs.remove(&id);
            }
            self.events.push_back(RegionEvent::Ledger(LedgerRequest::Unfollow(subject)));
        }
    }

    fn needed(&self) -> BTreeSet<Subject> {
        let mut needed = BTreeSet::from([Subject::Layout, Subject::Server(self.me)]);
        let Some((_, layout)) = &self.layout else { return needed };
        for (id, info) in layout.regions() {
            if self.watches(id) {
                needed.insert(Subject::Server(info.server));
                needed.extend(info.standby.map(Subject::Server));
            }
            if self.is_near(layout, id) {
                needed.insert(Subject::Log(id));
            }
        }
        let own = self.regions.keys().chain(self.opening.keys()).chain(self.standing.keys());
        for id in own {
            needed.insert(Subject::Log(*id));
            let view = self.logs.get(id);
            let givers = view.iter().flat_map(|it| it.accepted.keys().map(|it| it.1));
            let takers = view.iter().flat_map(|it| it.pending.values().map(|it| it.to));
            needed.extend(givers.chain(takers).map(Subject::Log));
        }
        for region in self.regions.values() {
            let feeds = region.feeds.keys().copied();
            let arrivals = region.arrivals.values().map(|it| it.0);
            let given = region.transfers.values().map(|it| it.to);
            needed.extend(feeds.chain(arrivals).chain(given).map(Subject::Log));
        }
        needed
    }
}
