//! Helpers: what is done about a crowd that no cut divides.
//!
//! When a region is full and too narrow to be split, its owner asks servers without regions for help. A helper is told
//! everything that the owner knows, its own rows and relayed ones, so that it can serve players of the region as the
//! owner does: what telling them takes divides by the number of servers, while one server still runs the rules. The
//! invitation is repeated every second; a helper that does not hear it any more leaves. Helpers subscribe like
//! neighbours, in the name of a region that never exists.

use super::RegionServer;
use super::border::{Feed, OwnedObjects};
use super::bus::{BusMessage, Recipient, RegionEpoch};
use super::layout::{RegionId, ServerId};
use crate::game::Game;
use foveate_sync::ReplicaSet;
use foveate_sync::interest::{Grade, Policy, Sight};
use foveate_wire::Micros;
use std::collections::{BTreeMap, BTreeSet};

/// A region that is loaded by this, and cannot be split, gets help.
pub const HELP_ABOVE: f32 = 0.9;
/// Helpers are let go if owner and helpers together would be loaded by less than this.
pub const HELP_BELOW: f32 = 0.6;
/// Helpers of a region at most.
pub const MAX_HELPERS: usize = 8;
/// Between two invitations.
const INVITE_EVERY: Micros = Micros(1_000_000);
/// A helper that was not invited for this leaves.
const HELP_FOR: Micros = Micros(5_000_000);
/// Another helper is asked after this: the last one has to make a difference first.
const NEXT_AFTER: Micros = Micros(4_000_000);

/// The name in which a helper subscribes: no region ever has so high a number.
pub(super) fn helper_name(server: ServerId) -> RegionId {
    RegionId(u32::MAX - server.0)
}

/// Whether a subscriber is a helper.
pub(super) fn is_helper(id: RegionId) -> bool {
    id.0 > u32::MAX / 2
}

/// Grades for a helper: all rows, exactly.
pub struct HelperPolicy;

impl Policy for HelperPolicy {
    fn grade(&self, _: &Sight) -> Option<Grade> {
        Some(Grade::EXACT)
    }
}

/// The policy of a subscriber that is told everything: a helper, or the standby.
pub(super) fn whole_policy(id: RegionId, owned: &OwnedObjects) -> std::sync::Arc<dyn Policy> {
    match is_helper(id) {
        true => std::sync::Arc::new(HelperPolicy),
        false => std::sync::Arc::new(super::border::StandbyPolicy(owned.clone())),
    }
}

/// A region that this server helps.
pub(super) struct Helping {
    epoch: u32,
    owner: ServerId,
    pub feed: Feed,
    invited: Micros,
}

/// What a server knows of helping and being helped.
#[derive(Default)]
pub(super) struct Helpers {
    /// By own region: its helpers.
    of: BTreeMap<RegionId, BTreeSet<ServerId>>,
    /// Regions of others that this server helps.
    pub helping: BTreeMap<RegionId, Helping>,
    invited: Option<Micros>,
    added: Option<Micros>,
}

impl Helpers {
    /// Whether a server helps a region of this one.
    pub fn includes(&self, region: RegionId, server: ServerId) -> bool {
        self.of.get(&region).is_some_and(|it| it.contains(&server))
    }
}

impl<G: Game> RegionServer<G> {
    /// The regions of others that this server helps, and what it was told of them.
    pub fn helping(&self) -> impl Iterator<Item = (RegionId, &ReplicaSet)> {
        self.helpers.helping.iter().map(|(id, it)| (*id, &it.feed.replicas))
    }

    /// The servers that help a region of this one.
    pub fn helpers(&self, region: RegionId) -> impl Iterator<Item = ServerId> + '_ {
        self.helpers.of.get(&region).into_iter().flatten().copied()
    }

    /// Asks for help where it is needed, and helps.
    pub(super) fn help(&mut self, now: Micros) {
        self.help_others(now);
        if self.helpers.invited.is_some_and(|last| now - last < INVITE_EVERY) {
            return;
        }
        self.helpers.invited = Some(now);
        let live: BTreeSet<ServerId> = self.servers.live(now).collect();
        self.helpers.of.retain(|id, _| self.regions.contains_key(id));
        let crowded: Vec<RegionId> = self.regions.keys().copied().collect();
        for id in crowded {
            self.choose_helpers(id, &live, now);
            let Some(region) = self.regions.get(&id) else { continue };
            let name = region.name();
            let invited: Vec<ServerId> = self.helpers(id).collect();
            for server in invited {
                self.publish(Recipient::Server(server), BusMessage::Help(name), now + INVITE_EVERY);
            }
        }
    }

    fn choose_helpers(&mut self, id: RegionId, live: &BTreeSet<ServerId>, now: Micros) {
        let Some(load) = self.balancer.load(id) else { return };
        let crowded = load >= HELP_ABOVE && self.cannot_split(id);
        let spare = self.find_spare(now).filter(|it| !self.helpers.includes(id, *it));
        let rested = self.helpers.added.is_none_or(|last| now - last >= NEXT_AFTER);
        let it = self.helpers.of.entry(id).or_default();
        it.retain(|server| live.contains(server));
        if load * (1.0 + it.len() as f32) < HELP_BELOW {
            it.clear();
        } else if let Some(spare) = spare.filter(|_| crowded && rested && it.len() < MAX_HELPERS) {
            it.insert(spare);
            self.helpers.added = Some(now);
        }
        if it.is_empty() {
            self.helpers.of.remove(&id);
        }
    }

    /// A region's owner asks for help.
    pub(super) fn on_help(&mut self, from: ServerId, by: RegionEpoch, now: Micros) {
        if !self.regions.is_empty() || !self.opening.is_empty() || self.balancer.is_leaving() {
            return;
        }
        let free = self.helpers.helping.is_empty();
        match self.helpers.helping.get_mut(&by.region) {
            Some(it) if (it.epoch, it.owner) == (by.epoch, from) => it.invited = now,
            Some(it) if it.epoch > by.epoch => {}
            // One region at a time.
            None if !free => {}
            _ => {
                let feed = Feed::new(self.game.schema(), self.streams.name(), self.ticked, now);
                let it = Helping { epoch: by.epoch, owner: from, feed, invited: now };
                self.helpers.helping.insert(by.region, it);
            }
        }
    }

    fn help_others(&mut self, now: Micros) {
        let busy = !self.regions.is_empty() || self.balancer.is_leaving();
        self.helpers.helping.retain(|_, it| now - it.invited < HELP_FOR && !busy);
        let me = self.me;
        let due: Vec<_> = self
            .helpers
            .helping
            .iter_mut()
            .filter(|(_, it)| it.feed.is_due(now))
            .map(|(id, it)| (it.owner, it.feed.subscription(*id, Vec::new(), now)))
            .collect();
        for (owner, wish) in due {
            let by = RegionEpoch { region: helper_name(me), epoch: 1 };
            let message = BusMessage::Subscribe(by, wish);
            self.publish(Recipient::Server(owner), message, Micros::UNBOUNDED);
        }
    }
}
