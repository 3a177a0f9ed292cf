//! Borders: what a region tells its neighbours and its standby, and what it makes of what they tell.
//!
//! A neighbour is an ordinary observer whose pivot is an area: its rectangle, and the places of what it owns outside
//! of it. It is told only of objects that the teller owns, so that nothing travels in circles. Grades compose: the
//! policy grades an object as the game's strictest observer at the nearest place of the area would, less the share
//! that the neighbour keeps for its own observers. A standby is told everything, exactly.
//!
//! The subscriber begins a stream and names it. It does not understand a publisher of another epoch than the stream
//! began with, and begins anew.

use super::bus::{BusMessage, RegionEpoch, Subscription};
use super::helpers::{is_helper, whole_policy};
use super::layout::{Rect, RegionId, ServerId};
use super::owner::{Region, Row, Surroundings};
use crate::game::Game;
use crate::outbox::Outbox;
use foveate_sync::interest::{Grade, Pivot, Policy, Sight};
use foveate_sync::replica::Life;
use foveate_sync::{Observer, ObserverId, Pivots, ReplicaSet};
use foveate_wire::packet::Ack;
use foveate_wire::{Metres, Micros, ObjectId, Radians, Schema, Tick};
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};

/// Of each bound this share is left to the neighbour for its own observers.
pub const RELAY_SHARE: f32 = 0.25;
/// Between two subscriptions to one region, unless there is something to acknowledge.
pub const SUBSCRIBE_EVERY: Micros = Micros(200_000);
/// A subscriber that is silent for so long is forgotten.
pub const SUBSCRIBED_FOR: Micros = Micros(2_000_000);
/// What a stream that began anew has not confirmed after this is no more.
pub const STALE_AFTER: Micros = Micros(3_000_000);

/// The objects that a region owns, as policies see them.
#[derive(Clone, Debug, Default)]
pub struct OwnedObjects(Arc<RwLock<BTreeSet<ObjectId>>>);

impl OwnedObjects {
    /// An object is owned from now on.
    pub fn insert(&self, id: ObjectId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    /// An object is not owned any more.
    pub fn remove(&self, id: ObjectId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
    }

    fn contains(&self, id: ObjectId) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }
}

/// Grades for a neighbouring region.
pub struct AreaPolicy {
    /// The game's view.
    pub view: Arc<dyn Policy>,
    /// The neighbour's rectangle, as far as the world reaches; none: it has none any more.
    pub area: Option<Rect>,
    /// Where it owns objects outside.
    pub points: Vec<[f32; 2]>,
    /// How far beyond it is told.
    pub border: Metres,
    /// What may be told.
    pub owned: OwnedObjects,
    /// Kinds with a place.
    pub placed: Vec<bool>,
    /// Nothing farther from all pivots is told.
    pub reach: Metres,
}

impl AreaPolicy {
    /// How far an object is from the area.
    fn distance(&self, at: [f32; 2]) -> f32 {
        let area = self.area.map_or(f32::INFINITY, |area| area.distance(at));
        let points = self.points.iter().map(|point| (point[0] - at[0]).hypot(point[1] - at[1]));
        points.fold(area, f32::min)
    }
}

impl Policy for AreaPolicy {
    fn grade(&self, sight: &Sight) -> Option<Grade> {
        if !self.owned.contains(sight.object) {
            return None;
        }
        if !self.placed.get(usize::from(sight.kind.0)).is_some_and(|placed| *placed) {
            return Some(Grade::EXACT);
        }
        let distance = self.distance([sight.to[0], sight.to[1]]);
        if distance > self.border.0 {
            return None;
        }
        // An observer at the nearest place of the area that looks this way.
        let nearest = Sight { distance: Metres(distance), cos_angle: 1.0, pivot: None, ..*sight };
        let grade = self.view.grade(&nearest)?.upstream(RELAY_SHARE);
        Some(Grade { outlook: None, ..grade })
    }

    fn reach(&self) -> Metres {
        self.reach
    }
}

/// Grades for a standby: everything that is owned, exactly.
pub struct StandbyPolicy(pub OwnedObjects);

impl Policy for StandbyPolicy {
    fn grade(&self, sight: &Sight) -> Option<Grade> {
        self.0.contains(sight.object).then_some(Grade::EXACT)
    }
}

/// A region that is told.
#[derive(Clone, Debug)]
pub struct Subscriber {
    /// The server to be told.
    pub server: ServerId,
    /// The stream in which it is told.
    pub stream: u64,
    /// The observer.
    pub observer: ObserverId,
    /// When it last said so.
    pub heard: Micros,
    /// Where it owns objects outside of its rectangle.
    pub points: Vec<[f32; 2]>,
    /// Its rectangle when it was last looked at.
    pub area: Option<Rect>,
    /// It has to be looked at anew.
    pub stale: bool,
    /// Bytes that it was sent.
    pub bytes: u64,
}

/// What a region or a standby is told by another region.
pub struct Feed {
    /// Its stream.
    pub stream: u64,
    /// The publisher's epoch, once it is heard of.
    pub epoch: Option<u32>,
    /// What was told.
    pub replicas: ReplicaSet,
    /// When it was last subscribed to.
    pub asked: Option<Micros>,
    /// Something has to be acknowledged.
    pub owes: bool,
    /// When it began.
    pub began: Micros,
}

impl Feed {
    /// A stream that begins now.
    pub fn new(schema: &Arc<Schema>, stream: u64, tick: u32, now: Micros) -> Feed {
        let replicas = ReplicaSet::new(Arc::clone(schema), Tick(tick));
        Feed { stream, epoch: None, replicas, asked: None, owes: false, began: now }
    }

    /// What to ask of a region, now.
    pub fn subscription(
        &mut self,
        to: RegionId,
        points: Vec<[f32; 2]>,
        now: Micros,
    ) -> Subscription {
        (self.asked, self.owes) = (Some(now), false);
        let ack = self.replicas.ack().map(|ack| (ack.newest, ack.before));
        Subscription { to, stream: self.stream, ack, points }
    }

    /// Whether it is time to subscribe again.
    pub fn is_due(&self, now: Micros) -> bool {
        self.owes || self.asked.is_none_or(|asked| now - asked >= SUBSCRIBE_EVERY)
    }
}

/// Names streams: no two of one server's, and no two servers', are the same.
#[derive(Clone, Copy, Debug)]
pub struct StreamNames {
    next: u64,
}

impl StreamNames {
    /// Those of a server.
    pub fn new(server: ServerId) -> StreamNames {
        StreamNames { next: u64::from(server.0) << 32 }
    }

    /// A new one.
    pub fn name(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

/// A region's number as the creator of ids.
pub fn creator(region: RegionId) -> u32 {
    // 0 is a server that is alone in its world.
    region.0 + 1
}

impl<G: Game> Region<G> {
    /// A region, or this region's standby, asks to be told.
    pub(super) fn on_subscribe(
        &mut self,
        (by, from): (RegionId, ServerId),
        wish: &Subscription,
        now: Micros,
    ) {
        let publisher = &mut self.simulation.publisher;
        if let Some(known) = self.subscribers.get_mut(&by)
            && (known.stream, known.server) == (wish.stream, from)
        {
            known.heard = now;
            if known.points != wish.points {
                known.points.clone_from(&wish.points);
                known.stale = true;
            }
            if let Some((newest, before)) = wish.ack {
                publisher.on_ack(known.observer, &Ack { newest, before }, now);
            }
            return;
        }
        if let Some(old) = self.subscribers.remove(&by) {
            publisher.remove(old.observer);
        }
        let policy = whole_policy(by, &self.owned);
        let observer =
            Observer::new(policy, Pivots::Free(vec![point([0.0; 2])]), Tick(self.ticked))
                .with_secrets();
        let observer = publisher.add(observer);
        let (server, stream, points) = (from, wish.stream, wish.points.clone());
        let it = Subscriber {
            server,
            stream,
            observer,
            heard: now,
            points,
            area: None,
            stale: true,
            bytes: 0,
        };
        self.subscribers.insert(by, it);
    }

    /// Tells neighbours, standby and players.
    pub(super) fn tell(
        &mut self,
        tick: u32,
        view: &Arc<dyn Policy>,
        around: &mut Surroundings<'_>,
        out: &mut impl Outbox,
    ) {
        let silent = |it: &Subscriber| around.now - it.heard >= SUBSCRIBED_FOR;
        let gone: Vec<RegionId> =
            self.subscribers.iter().filter(|(_, it)| silent(it)).map(|(id, _)| *id).collect();
        for id in gone {
            if let Some(it) = self.subscribers.remove(&id) {
                self.simulation.publisher.remove(it.observer);
            }
        }
        self.aim(view, around);
        self.publish(tick, around, out);
    }

    /// Neighbours look from where their areas are by now.
    fn aim(&mut self, view: &Arc<dyn Policy>, around: &Surroundings<'_>) {
        let extent = &around.settings.extent;
        let neighbours = |id: &RegionId| *id != self.id && !is_helper(*id);
        for (id, it) in self.subscribers.iter_mut().filter(|(id, _)| neighbours(id)) {
            let area = around.layout.rect(heir_of(around, *id)).map(|rect| rect.clamped(extent));
            if !it.stale && it.area == area {
                continue;
            }
            (it.area, it.stale) = (area, false);
            let Some(observer) = self.simulation.publisher.observer_mut(it.observer) else {
                continue;
            };
            let centre = area.map(|it| [0, 1].map(|axis| (it.min[axis] + it.max[axis]) / 2.0));
            let half =
                area.map_or(0.0, |it| (it.max[0] - it.min[0]).hypot(it.max[1] - it.min[1]) / 2.0);
            let kinds = self.simulation.game.schema().kinds().iter();
            observer.set_policy(Arc::new(AreaPolicy {
                view: Arc::clone(view),
                area,
                points: it.points.clone(),
                border: around.settings.border,
                owned: self.owned.clone(),
                placed: kinds.map(|kind| kind.place.is_some()).collect(),
                reach: Metres(half + around.settings.border.0),
            }));
            let pivots = centre.into_iter().chain(it.points.iter().copied()).map(point);
            observer.set_pivots(Pivots::Free(pivots.collect()));
        }
    }

    /// Brings what neighbours told of to a tick: an object that goes on as it did is not told of again.
    pub(super) fn predict_relayed(&mut self, tick: u32) {
        let Region { feeds, rows, simulation, .. } = self;
        let schema = Arc::clone(simulation.game.schema());
        let store = &mut simulation.publisher.store;
        for (from, feed) in feeds.iter() {
            for replica in feed.replicas.in_any_order().filter(|it| it.life() == Life::Live) {
                let id = replica.id();
                let Some(Row::Relayed { from: source, stale: None, tick: told }) = rows.get(&id)
                else {
                    continue;
                };
                // Another region's word on it may be later.
                if source != from || *told != replica.tick().0 || tick <= *told {
                    continue;
                }
                let place = schema.kind(id.kind()).and_then(|kind| kind.place.as_ref());
                let Some((place, slot)) = place.zip(store.find(id)) else { continue };
                let steps = replica.predicted_steps(Tick(tick), place);
                let mut lanes = replica.lanes().to_vec();
                lanes[place.at..place.at + place.dims].copy_from_slice(&steps[..place.dims]);
                // Lanes that the replica has fit its kind.
                let _ = store.set_lanes(slot, &lanes);
            }
        }
    }

    /// Asks to be told by all regions near this one and near what it owns elsewhere, and acknowledges.
    pub(super) fn subscribe(&mut self, around: &mut Surroundings<'_>) {
        let border = around.settings.border.0;
        let heir = heir_of(around, self.id);
        let mut near = around.layout.neighbours(heir, border);
        near.extend((heir != self.id).then_some(heir));
        // Regions that are being closed have no area, but objects, in their successors'.
        let closing = around.layout.regions().filter(|(id, info)| {
            *id != self.id && info.successor.is_some_and(|it| it == heir || near.contains(&it))
        });
        let closing: Vec<RegionId> = closing.map(|it| it.0).collect();
        near.extend(closing);
        for at in &self.points {
            let rects = around.layout.leaves();
            let close = rects.filter(|(_, rect)| rect.distance(*at) <= border).map(|it| it.0);
            near.extend(close.filter(|id| *id != self.id));
        }
        near.sort_unstable();
        near.dedup();
        let over = |id: &RegionId, feed: &Feed| {
            around.now - feed.began >= SUBSCRIBED_FOR && !near.contains(id)
        };
        let over: Vec<RegionId> =
            self.feeds.iter().filter(|(id, feed)| over(id, feed)).map(|it| *it.0).collect();
        for id in over {
            // No word comes from there any more: what it told of is no more, unless others tell of it.
            self.feeds.remove(&id);
            self.doubt(id, around.now);
        }
        let schema = Arc::clone(self.simulation.game.schema());
        for id in near {
            let streams = &mut *around.streams;
            let feed = self
                .feeds
                .entry(id)
                .or_insert_with(|| Feed::new(&schema, streams.name(), self.ticked, around.now));
            if !feed.is_due(around.now) {
                continue;
            }
            let wish = feed.subscription(id, self.points.clone(), around.now);
            let message =
                BusMessage::Subscribe(RegionEpoch { region: self.id, epoch: self.epoch }, wish);
            around.send(id, message);
        }
    }
}

/// The region whose area counts: of one that is being closed its successor's, until it is empty.
fn heir_of(around: &Surroundings<'_>, id: RegionId) -> RegionId {
    around.layout.get(id).and_then(|info| info.successor).unwrap_or(id)
}

fn point(at: [f32; 2]) -> Pivot {
    Pivot::looking([at[0], at[1], 0.0], Radians(0.0), Radians(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use foveate_sync::interest::presets;
    use foveate_wire::{KindId, Position};

    fn sight(object: ObjectId, to: impl Into<Position>) -> Sight {
        Sight {
            distance: Metres(500.0),
            cos_angle: -1.0,
            from: Position::default(),
            to: to.into(),
            pivot: None,
            object,
            kind: KindId(0),
            same_team: false,
            interaction: 0.0,
            tick: Tick(0),
            now: Micros(0),
        }
    }

    #[test]
    fn a_neighbour_is_graded_as_its_nearest_observer_less_its_own_share() {
        let view = presets::normal(10.0, 40.0).build().unwrap();
        let (mine, theirs) = (ObjectId(1), ObjectId(2));
        let owned = OwnedObjects::default();
        owned.insert(mine);
        let policy = AreaPolicy {
            view: Arc::clone(&view),
            area: Some(Rect { min: [100.0, 0.0], max: [200.0, 100.0] }),
            points: vec![[0.0, 50.0]],
            border: Metres(30.0),
            owned: owned.clone(),
            placed: vec![true],
            reach: Metres::UNBOUNDED,
        };
        let looking = |distance| {
            let near =
                Sight { distance: Metres(distance), cos_angle: 1.0, ..sight(mine, [0.0; 3]) };
            view.grade(&near).map(|grade| grade.upstream(RELAY_SHARE).max_age)
        };
        let age = |at| policy.grade(&sight(mine, at)).map(|grade| grade.max_age);
        assert_eq!(age([95.0, 50.0, 0.0]), looking(5.0));
        assert_eq!(age([80.0, 50.0, 0.0]), looking(20.0));
        assert_eq!(age([3.0, 54.0, 0.0]), looking(5.0), "near what it owns outside");
        assert_eq!(age([60.0, 50.0, 0.0]), None, "beyond the border");
        assert!(
            policy.grade(&sight(theirs, [95.0, 50.0, 0.0])).is_none(),
            "nothing is relayed twice"
        );
        let standby = StandbyPolicy(owned.clone());
        assert_eq!(standby.grade(&sight(mine, [1e6; 3])), Some(Grade::EXACT));
        owned.remove(mine);
        assert!(standby.grade(&sight(mine, [0.0; 3])).is_none());
    }
}
