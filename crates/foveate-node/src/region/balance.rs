//! Load, and how regions follow it: cuts move, newcomers get a share, servers leave, siblings merge.
//!
//! A server's load is the share of a round that its work takes, as its host says ([`RegionCommand::EndRound`]); it is
//! divided among its regions by what each of them did. Servers tell of it in their signs of life and by gossip. Each
//! looks every two seconds, and proposes at most one change of the layout, as a compare-and-set: of several servers
//! with the same idea one succeeds, and the others read of it. After the change, objects go where they belong by
//! ordinary handoffs.
//!
//! | change | when | by which server |
//! | --- | --- | --- |
//! | *move* a cut | its sides differ by more than a quarter for three looks, and those of no cut below it do | the heaviest that borders on it |
//! | *join* | a server without regions is there, and the heaviest is loaded by half | the heaviest |
//! | *leave* | it is drained | itself |
//! | *merge* | siblings together are below 40 % for a minute | the lighter of the two |
//! | *swap* | bytes × round trips across borders fall by 15 % for three looks ([`super::overlay`]) | one of the two |
//!
//! Nothing thrashes: a cut moves by half of what would make its sides equal at most, so that it takes a difference in
//! the other direction to move it back; half a load is split and 40 % are merged.
//!
//! [`RegionCommand::EndRound`]: super::RegionCommand::EndRound

use super::helpers::is_helper;
use super::layout::{Layout, Rect, RegionCut, RegionId, ServerId, SplitLine};
use super::owner::Region;
use super::{Intent, MeshStep, RegionEvent, RegionServer};
use crate::game::Game;
use crate::remote_objects::place_of;
use foveate_wire::Micros;
use std::collections::BTreeMap;

/// Between two looks.
pub const LOOK_EVERY: Micros = Micros(2_000_000);
/// Looks that must agree before a cut moves or servers change places.
pub const LOOKS: u8 = 3;
/// A cut moves if its sides differ by more than this share of the heavier one.
pub const DIFFER: f32 = 0.25;
/// A cut moves only if its heavier side is loaded by this at least.
pub const WORTH_MOVING: f32 = 0.2;
/// A cut moves by this share of the region's side at most.
pub const STEP: f32 = 0.125;
/// A newcomer gets a part of the heaviest region if it is loaded by this at least.
pub const SPLIT_ABOVE: f32 = 0.5;
/// Siblings that are loaded by less than this together are merged.
pub const MERGE_BELOW: f32 = 0.4;
/// Siblings are merged after they were loaded so little for this long.
pub const MERGE_AFTER: Micros = Micros(60_000_000);
/// Each round counts this much.
const SMOOTHING: f32 = 1.0 / 16.0;
/// Bytes that cost as much as a step of an object.
const BYTES_A_STEP: f32 = 64.0;

/// A change that balances load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BalanceChange {
    /// A cut was moved.
    Move,
    /// A server without regions got one.
    Join,
    /// A server that is drained gave a region away.
    Leave,
    /// A region's area was given to its sibling.
    Merge,
    /// Two servers changed places.
    Swap,
}

/// What a region costs.
#[derive(Clone, Debug, Default)]
struct RegionLoad {
    /// The share of a round.
    load: Option<f32>,
    /// Pairs looked at and bytes sent when it was last looked at.
    counted: (u64, u64),
    /// Bytes that neighbours were sent, and in a second.
    borders: BTreeMap<RegionId, (u64, f32)>,
}

/// What a server knows of its own load, and what it has seen of late.
#[derive(Clone, Debug, Default)]
pub struct Balancer {
    regions: BTreeMap<RegionId, RegionLoad>,
    looked: Option<Micros>,
    /// By cut: how many looks have found its sides to differ, and in which direction.
    uneven: BTreeMap<(u8, u32, RegionId), (u8, bool)>,
    /// How many looks have found the same server to change places with.
    swap: Option<(ServerId, u8)>,
    /// Since when a region and its sibling are light.
    light: BTreeMap<RegionId, Micros>,
    leaving: bool,
    left: bool,
}

impl Balancer {
    /// The share of a round that a region takes; none: not known.
    pub fn load(&self, region: RegionId) -> Option<f32> {
        self.regions.get(&region)?.load
    }

    /// Bytes a second that a region sends its neighbours.
    pub fn borders(&self, region: RegionId) -> Vec<(RegionId, u32)> {
        let borders = self.regions.get(&region).into_iter().flat_map(|it| &it.borders);
        let borders = borders.map(|(id, (_, rate))| (*id, *rate as u32));
        borders.take(super::servers::MAX_STATUS).collect()
    }

    /// The server gives its regions away from now on.
    pub(super) fn drain(&mut self) {
        self.leaving = true;
    }

    /// Whether the server is being drained.
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }
}

/// How far a cut should move: towards the heavier side, so that it sheds half of what makes the difference. `heavy`:
/// where the objects of a region at the heavier side are along the axis, counted from the cut.
pub fn shed(heavy: f32, light: f32, distances: &mut [f32], side: f32) -> Option<f32> {
    if distances.is_empty() || heavy <= light {
        return None;
    }
    distances.sort_by(f32::total_cmp);
    let share = (heavy - light) / (2.0 * heavy) / 2.0;
    let at = ((share * distances.len() as f32) as usize).min(distances.len() - 1);
    let by = distances[at].min(STEP * side);
    (by > 0.0).then_some(by)
}

/// Whether the sides of a cut differ: true if the upper one is heavier.
fn tilt(low: f32, high: f32) -> Option<bool> {
    let heavier = low.max(high);
    ((low - high).abs() > DIFFER * heavier && heavier >= WORTH_MOVING).then_some(high > low)
}

impl<G: Game> RegionServer<G> {
    /// The last round took so long.
    pub(super) fn end_round(&mut self, took: Micros) {
        let Some(round) = Some(self.settings.rounds.length).filter(|it| *it > Micros::ZERO) else {
            return;
        };
        self.balancer.regions.retain(|id, _| self.regions.contains_key(id));
        let mut work: Vec<(RegionId, f32)> = Vec::new();
        for region in self.regions.values() {
            let load = self.balancer.regions.entry(region.id).or_default();
            let counters = region.simulation.publisher.ever();
            let (looked, bytes) = (counters.looked, counters.bytes);
            let pairs = looked.saturating_sub(load.counted.0) as f32;
            let sent = bytes.saturating_sub(load.counted.1) as f32 / BYTES_A_STEP;
            load.counted = (looked, bytes);
            work.push((region.id, 1.0 + region.rows.len() as f32 + pairs + sent));
            let second = round.as_secs() as f32;
            for (id, it) in
                region.subscribers.iter().filter(|(id, _)| **id != region.id && !is_helper(**id))
            {
                let (before, rate) = load.borders.entry(*id).or_default();
                let fresh = it.bytes.saturating_sub(std::mem::replace(before, it.bytes));
                *rate += (fresh as f32 / second - *rate) * SMOOTHING / 4.0;
            }
            load.borders.retain(|id, _| region.subscribers.contains_key(id));
        }
        let all: f32 = work.iter().map(|it| it.1).sum();
        for (id, work) in work {
            let share = took.0 as f32 / round.0 as f32 * work / all.max(1.0);
            let Some(it) = self.balancer.regions.get_mut(&id) else { continue };
            let before = it.load.unwrap_or(share);
            it.load = Some(before + (share - before) * SMOOTHING);
        }
    }

    /// What a region costs its server, as far as is known.
    fn load_of(&self, id: RegionId) -> Option<f32> {
        let (_, layout) = self.layout.as_ref()?;
        let server = layout.get(id)?.server;
        if server == self.me {
            return self.balancer.load(id);
        }
        let status = self.servers.status(server)?;
        let load = status.regions.iter().find(|it| it.region == id)?.load?;
        Some(f32::from(load) / 1e3)
    }

    /// A change that this server proposed was made.
    pub(super) fn on_balanced(&mut self, change: BalanceChange) {
        let counts = &mut self.counts;
        match change {
            BalanceChange::Move => counts.moved += 1,
            BalanceChange::Join => counts.joined += 1,
            BalanceChange::Leave => counts.left += 1,
            BalanceChange::Merge => counts.merged += 1,
            BalanceChange::Swap => counts.swapped += 1,
        }
    }

    /// Looks whether anything is to be changed.
    pub(super) fn balance(&mut self, now: Micros) {
        let may = self.intent.is_none() && self.heartbeat.is_answered(now);
        if !may || self.layout.is_none() {
            return;
        }
        if self.balancer.leaving {
            return self.leave(now);
        }
        if self.balancer.looked.is_some_and(|looked| now - looked < LOOK_EVERY) {
            return;
        }
        self.balancer.looked = Some(now);
        // A host that does not say what rounds take wants the layout to stay as it is.
        if self.own_status(now).load().is_none() {
            return;
        }
        let (moved, merged, swap) =
            (self.find_move(), self.find_merge(now), self.settled_swap(now));
        let change = self.find_join(now).map(|it| (it, BalanceChange::Join));
        let change = change.or(moved.map(|it| (it, BalanceChange::Move)));
        let change = change.or(merged.map(|it| (it, BalanceChange::Merge)));
        let change = change.or(swap.map(|it| (it, BalanceChange::Swap)));
        if let Some((wanted, change)) = change {
            self.propose_balance(wanted, change, now);
        }
    }

    fn propose_balance(&mut self, wanted: Layout, change: BalanceChange, now: Micros) {
        if self.propose(Intent::Balance(change), wanted, now) {
            self.reach(MeshStep::BalanceAsked);
        }
    }

    /// The leaves that this server runs.
    fn own_leaves(&self) -> Vec<(RegionId, Rect)> {
        let leaves = self.layout.iter().flat_map(|(_, layout)| layout.leaves());
        leaves
            .filter(|(id, _)| self.regions.contains_key(id))
            .map(|(id, rect)| (id, rect.clamped(&self.settings.extent)))
            .collect()
    }

    /// A server that has nothing to do.
    pub(super) fn find_spare(&self, now: Micros) -> Option<ServerId> {
        let (_, layout) = self.layout.as_ref()?;
        let runs = |server: ServerId| layout.regions().any(|(_, info)| info.server == server);
        let mut spare = self.servers.live(now).filter(|it| {
            let status = self.servers.status(*it);
            status.is_some_and(|it| !it.leaving && !it.helps) && !runs(*it) && *it != self.me
        });
        spare.next()
    }

    /// Whether a region of this server's is too narrow to be cut.
    pub(super) fn cannot_split(&self, id: RegionId) -> bool {
        let leaf = self.own_leaves().into_iter().find(|it| it.0 == id);
        leaf.is_some_and(|(_, rect)| self.median(id, &rect).is_none())
    }

    /// A newcomer gets a part of the heaviest region, if that is this server's.
    fn find_join(&self, now: Micros) -> Option<Layout> {
        let (_, layout) = self.layout.as_ref()?;
        let spare = self.find_spare(now)?;
        let own = self.own_status(now).load()?;
        let others = self.servers.statuses(now).filter_map(|(_, status, _)| status.load());
        if own < SPLIT_ABOVE || others.fold(0.0, f32::max) > own {
            return None;
        }
        let leaves = self.own_leaves();
        let mut wanted = layout.clone();
        let new = if let [(id, rect)] = leaves[..] {
            let (axis, at) = self.median(id, &rect)?;
            wanted.split(id, SplitLine { axis, at }, spare, false).ok()?
        } else {
            // Of several regions the one that comes nearest to half of the load is given away as it is.
            let off = |id: RegionId| (self.load_of(id).unwrap_or(0.0) - own / 2.0).abs();
            let given = leaves.iter().min_by(|a, b| off(a.0).total_cmp(&off(b.0)))?;
            wanted.replace(given.0, spare).ok()?
        };
        wanted.get_mut(new)?.standby = Some(self.me);
        Some(wanted)
    }

    /// Where objects of a region are, along an axis.
    fn along(&self, region: &Region<G>, axis: u8) -> Vec<f32> {
        let (store, schema) = (&region.simulation.publisher.store, self.game.schema());
        let places = region.owned().filter_map(|(id, _)| {
            let at = place_of(schema, id.kind(), store.lanes(store.find(id)?))?;
            Some(at[usize::from(axis)])
        });
        places.collect()
    }

    /// The cut that halves a region, across its longer side; none if its parts would be narrower than a border.
    fn median(&self, id: RegionId, rect: &Rect) -> Option<(u8, f32)> {
        let region = self.regions.get(&id)?;
        let side = |axis: usize| rect.max[axis] - rect.min[axis];
        let axis = usize::from(side(1) > side(0));
        let mut places = self.along(region, axis as u8);
        let least = self.settings.border.0;
        if places.is_empty() || side(axis) < 2.0 * least {
            return None;
        }
        places.sort_by(f32::total_cmp);
        let median = places[places.len() / 2];
        Some((axis as u8, median.clamp(rect.min[axis] + least, rect.max[axis] - least)))
    }

    /// The layout with a cut moved, if one is uneven for long and it is this server's turn.
    fn find_move(&mut self) -> Option<Layout> {
        let (_, layout) = self.layout.as_ref()?;
        let cuts = layout.cuts();
        let (mut uneven, mut blocked) = (BTreeMap::new(), Vec::new());
        let mut found = None;
        for cut in &cuts {
            let mean = |side: &[RegionId]| -> Option<f32> {
                let loads = side.iter().map(|id| self.load_of(*id)).sum::<Option<f32>>();
                loads.map(|sum| sum / side.len() as f32)
            };
            let Some((low, high)) = mean(&cut.low).zip(mean(&cut.high)) else { continue };
            let Some(upper) = tilt(low, high) else { continue };
            let first = cut.low.first().copied().unwrap_or_default();
            // One below it is moved first.
            let below = cut.low.iter().chain(&cut.high).any(|id| blocked.contains(id));
            blocked.extend(cut.low.iter().chain(&cut.high).copied());
            let key = (cut.axis, cut.at.to_bits(), first);
            let before = self.balancer.uneven.get(&key).filter(|it| it.1 == upper);
            let looks = before.map_or(0, |it| it.0).saturating_add(1);
            uneven.insert(key, (looks, upper));
            if looks >= LOOKS && !below && found.is_none() {
                found = self.moved(layout, cut, (low, high));
            }
        }
        self.balancer.uneven = uneven;
        found
    }

    /// The layout with a cut moved; none if that is another server's turn.
    fn moved(&self, layout: &Layout, cut: &RegionCut, (low, high): (f32, f32)) -> Option<Layout> {
        let upper = high > low;
        let axis = usize::from(cut.axis);
        let heavy = if upper { &cut.high } else { &cut.low };
        let at_cut = |rect: &Rect| cut.at == if upper { rect.min[axis] } else { rect.max[axis] };
        let rects: BTreeMap<RegionId, Rect> = layout.leaves().collect();
        let bordering = heavy.iter().filter(|id| rects.get(id).is_some_and(at_cut));
        let load = |id: RegionId| self.load_of(id).unwrap_or(0.0);
        let heaviest =
            bordering.max_by(|a, b| load(**a).total_cmp(&load(**b)).then(b.cmp(a))).copied()?;
        let region = self.regions.get(&heaviest)?;
        let rect = rects.get(&heaviest)?.clamped(&self.settings.extent);
        let mut distances: Vec<f32> =
            self.along(region, cut.axis).iter().map(|at| (at - cut.at).abs()).collect();
        let side = rect.max[axis] - rect.min[axis];
        let by = shed(low.max(high), low.min(high), &mut distances, side)?;
        let mut wanted = layout.clone();
        wanted.move_cut(cut, if upper { cut.at + by } else { cut.at - by }).ok()?;
        // No region becomes narrower than a border by this.
        let narrow = |rect: Rect| {
            let rect = rect.clamped(&self.settings.extent);
            rect.max[axis] - rect.min[axis] < self.settings.border.0
        };
        let squeezed = heavy.iter().any(|id| wanted.rect(*id).is_some_and(narrow));
        (!squeezed).then_some(wanted)
    }

    /// The layout with a region of this server's merged into its sibling, if both have been light for long.
    fn find_merge(&mut self, now: Micros) -> Option<Layout> {
        let (_, layout) = self.layout.as_ref()?;
        let (mut light, mut found) = (BTreeMap::new(), None);
        for (id, _) in self.own_leaves() {
            let Some(sibling) = layout.sibling(id) else { continue };
            let Some((own, other)) = self.load_of(id).zip(self.load_of(sibling)) else { continue };
            let lighter = (own, id) < (other, sibling);
            if own + other >= MERGE_BELOW || !lighter {
                continue;
            }
            let since = self.balancer.light.get(&id).copied().unwrap_or(now);
            light.insert(id, since);
            if now - since >= MERGE_AFTER && found.is_none() {
                let mut wanted = layout.clone();
                found = wanted.merge(id).is_ok().then_some(wanted);
            }
        }
        self.balancer.light = light;
        found
    }

    /// The layout with this server and another in each other's places, if that has been better for some looks.
    fn settled_swap(&mut self, now: Micros) -> Option<Layout> {
        let found = self.find_swap(now);
        let with = found.as_ref().map(|it| it.1);
        let before = self.balancer.swap.filter(|it| Some(it.0) == with).map_or(0, |it| it.1);
        self.balancer.swap = with.map(|with| (with, before.saturating_add(1)));
        found.filter(|_| before + 1 >= LOOKS).map(|it| it.0)
    }

    /// Gives a region away, or says that nothing is left.
    fn leave(&mut self, now: Micros) {
        let Some((_, layout)) = &self.layout else { return };
        let named =
            layout.regions().any(|(_, it)| it.server == self.me || it.standby == Some(self.me));
        let idle = self.regions.is_empty() && self.opening.is_empty() && self.standing.is_empty();
        if !named && idle {
            if !std::mem::replace(&mut self.balancer.left, true) {
                self.events.push_back(RegionEvent::Drained);
            }
            return;
        }
        let leaf = layout.leaves().find(|(id, _)| {
            layout
                .get(*id)
                .is_some_and(|info| info.server == self.me && self.regions.contains_key(id))
        });
        let Some((id, _)) = leaf else { return };
        let stays = |server: &ServerId| *server != self.me && !self.servers.is_leaving(*server);
        let live: Vec<ServerId> = self.servers.live(now).filter(stays).collect();
        let load = |server: ServerId| self.servers.status(server).and_then(|it| it.load());
        let sibling = layout.sibling(id).and_then(|it| layout.get(it)).map(|it| it.server);
        let mut wanted = layout.clone();
        let spare = live.iter().find(|it| !layout.regions().any(|(_, info)| info.server == **it));
        let done = match (spare, sibling.filter(|it| live.contains(it))) {
            (Some(spare), _) => wanted.replace(id, *spare).map(|_| ()),
            (None, Some(_)) => wanted.merge(id).map(|_| ()),
            (None, None) => {
                let light = |it: &&ServerId| (load(**it).unwrap_or(0.0) * 1e3) as u32;
                let Some(other) = live.iter().min_by_key(light) else { return };
                wanted.replace(id, *other).map(|_| ())
            }
        };
        if done.is_ok() {
            self.propose_balance(wanted, BalanceChange::Leave, now);
        }
    }

    /// Regions that have closed leave the layout.
    pub(super) fn close_regions(&mut self, now: Micros) {
        let Some((_, layout)) = self.layout.as_ref().filter(|_| self.intent.is_none()) else {
            return;
        };
        let closed = self.regions.keys().find(|id| {
            let ends = self.logs.get(id).is_some_and(|view| view.closed);
            ends && layout.get(**id).is_some_and(|info| info.successor.is_some())
        });
        let Some(id) = closed.copied() else { return };
        let mut wanted = layout.clone();
        if wanted.remove(id) {
            self.propose(Intent::Close, wanted, now);
        }
    }

    /// Drops what the layout does not name any more.
    pub(super) fn drop_closed(&mut self, layout: &Layout) {
        let gone: Vec<RegionId> =
            self.regions.keys().copied().filter(|id| layout.get(*id).is_none()).collect();
        gone.into_iter().for_each(|id| self.drop_region(id));
        self.standing.retain(|id, _| layout.get(*id).is_some());
        self.opening.retain(|id, _| layout.get(*id).is_some());
        self.inherited.retain(|id, _| layout.get(*id).is_some());
        self.awaited.retain(|id, _| layout.get(*id).is_some());
    }
}

#[cfg(test)]
mod tests;
