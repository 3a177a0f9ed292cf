//! Neighbours' pivots and gazes: what this peer states of its own, and knows of theirs.
//!
//! A sender knows a neighbour's facing only as recently and exactly as it is sent the neighbour's
//! avatar. So each peer compares: if its neighbour, by the facing that it knows, would grade its
//! own avatar otherwise than the view demands, the peer states its gaze, two bytes in the next
//! frame.

use super::Peer;
use super::interest::Subscribed;
use super::neighbour::Neighbour;
use super::wire::Gaze;
use crate::game::{Game, PlayerId};
use crate::outbox::Link;
use foveate_sync::Pivots;
use foveate_sync::interest::{Pivot, Sight};
use foveate_wire::schema::Kind;
use foveate_wire::{Metres, Micros, ObjectId, Position, Radians, Tick, steps_to_angle};
use std::sync::Arc;

/// How many frames contain a new gaze, because one may be lost.
const GAZE_FRAMES: u8 = 2;
/// Rounds between two statements to one neighbour.
const GAZE_EVERY: u32 = 3;
/// The most pivots of a neighbour: its avatar, and for a trusted one the objects that it owns.
const MAX_EYES: usize = 16;

impl<G: Game> Peer<G> {
    /// Sets each neighbour's pivots and policy: its avatar's known place, and the view that it
    /// subscribed to.
    pub(super) fn update_viewpoints(&mut self) {
        let stale: Vec<(Link, u8)> =
            self.links.iter().filter(|(_, it)| it.regrade).map(|(l, it)| (*l, it.view)).collect();
        for (link, which) in stale {
            let Some(view) = self.view(which) else { continue };
            let Some(it) = self.links.get_mut(&link) else { continue };
            it.regrade = false;
            let policy = Subscribed::new(view, self.avatar, it.kept.clone());
            let observer = it.observer.and_then(|id| self.simulation.publisher.observer_mut(id));
            if let Some(observer) = observer {
                observer.set_policy(Arc::new(policy));
            }
        }
        let eyes: Vec<(Link, Vec<(ObjectId, Pivot)>)> =
            self.links.iter().map(|(link, it)| (*link, self.viewpoints_of(it))).collect();
        for (link, eyes) in eyes.into_iter().filter(|(_, eyes)| !eyes.is_empty()) {
            let Some(it) = self.links.get_mut(&link) else { continue };
            let observer = it.observer.and_then(|id| self.simulation.publisher.observer_mut(id));
            let Some(observer) = observer else { continue };
            let (ids, pivots): (Vec<ObjectId>, Vec<Pivot>) = eyes.into_iter().unzip();
            if it.eyes == ids {
                observer.follow(&pivots);
            } else {
                observer.set_pivots(Pivots::Free(pivots));
                it.eyes = ids;
            }
        }
    }

    /// A neighbour's pivots: first its avatar or what it watches. A trusted neighbour runs the
    /// rules of objects that it is not near, and needs to know what is near those.
    pub(super) fn viewpoints_of(&self, it: &Neighbour) -> Vec<(ObjectId, Pivot)> {
        let avatar = self.avatar_of(it.player);
        let may =
            |id: &ObjectId| self.simulation.game.may_watch(&self.simulation.world(), avatar, *id);
        let watched = it.watched.filter(may).and_then(|id| Some((id, self.eye(id)?)));
        let first = watched.or_else(|| Some((avatar, self.avatar_eye(it, avatar)?)));
        let mut eyes: Vec<(ObjectId, Pivot)> = first.into_iter().collect();
        if !eyes.is_empty() && self.weight(it.player) > 1.0 {
            let theirs =
                self.ownership.ghosts().filter(|(_, known)| known.claim.owner == it.player);
            let theirs = theirs.map(|(id, _)| id).filter(|id| *id != avatar);
            eyes.extend(theirs.filter_map(|id| Some((id, self.eye(id)?))).take(MAX_EYES - 1));
        }
        eyes
    }

    /// A gaze that a neighbour stated applies until its avatar's facing changes.
    fn avatar_eye(&self, it: &Neighbour, avatar: ObjectId) -> Option<Pivot> {
        let (kind, steps) = self.facing_of(avatar)?;
        let stated = it.gaze.filter(|(then, _)| *then == steps).map(|(_, gaze)| gaze.angles());
        let [yaw, pitch] = stated.unwrap_or_else(|| angles(kind, steps));
        let at = self.place_of(it.player)?;
        Some(Pivot { reach: self.reach_in_a_round(kind), ..Pivot::looking(at, yaw, pitch) })
    }

    /// An object's place and facing, as far as is known.
    fn eye(&self, id: ObjectId) -> Option<Pivot> {
        let store = &self.simulation.publisher.store;
        let own = store.find(id).map(|slot| store.position(slot));
        let at = own.or_else(|| self.simulation.ghosts.place(id))?;
        let (kind, steps) = self.facing_of(id)?;
        let [yaw, pitch] = angles(kind, steps);
        Some(Pivot { reach: self.reach_in_a_round(kind), ..Pivot::looking(at, yaw, pitch) })
    }

    /// An object's facing, in steps of its kind; zeros if that is not known.
    fn facing_of(&self, id: ObjectId) -> Option<(&Kind, [i32; 2])> {
        let kind = self.simulation.game.schema().kind(id.kind())?;
        let store = &self.simulation.publisher.store;
        let lanes = store.find(id).map(|slot| store.lanes(slot));
        let lanes = lanes.or_else(|| self.simulation.ghosts.lanes(id));
        let of = |lane: Option<(usize, u32)>| lane.zip(lanes).map_or(0, |((at, _), it)| it[at]);
        Some((kind, [of(kind.yaw), of(kind.pitch)]))
    }

    fn avatar_of(&self, player: PlayerId) -> ObjectId {
        ObjectId::new(self.avatar.kind(), player.0, 0)
    }

    fn reach_in_a_round(&self, kind: &Kind) -> Metres {
        Metres((kind.spec.max_speed * self.settings.rounds.length.as_secs() as f32).max(1e-3))
    }

    /// A neighbour stated its gaze.
    pub(super) fn on_gaze(&mut self, link: Link, gaze: Gaze) {
        let Some(player) = self.links.get(&link).map(|it| it.player) else { return };
        let steps = self.facing_of(self.avatar_of(player)).map(|known| known.1);
        if let (Some(steps), Some(it)) = (steps, self.links.get_mut(&link)) {
            it.gaze = Some((steps, gaze));
        }
    }

    /// States the gaze to peers that would grade their avatar wrongly by what they know of ours: at
    /// once if their bounds would be too loose, with the next frame if too strict.
    pub(super) fn update_gaze(&mut self, tick: Tick) {
        let Some(view) = self.view(self.settings.view) else { return };
        let publisher = &self.simulation.publisher;
        let slot = publisher.store.find(self.avatar).filter(|_| self.viewing.watched.is_none());
        let (Some(slot), Some((kind, steps))) = (slot, self.facing_of(self.avatar)) else { return };
        let (here, truth) = (publisher.store.position(slot), Gaze::along(angles(kind, steps)));
        let mut stated = Vec::new();
        for (link, it) in self.links.iter().filter(|(_, it)| it.open) {
            let told = it.observer.and_then(|id| publisher.told_facing(id, slot));
            let (Some(told), Some(there)) = (told, self.place_of(it.player)) else { continue };
            let said = it.stated.filter(|(then, ..)| *then == told).map(|(_, gaze, _)| gaze);
            let believed = said.unwrap_or_else(|| Gaze::along(angles(kind, told)));
            let lately = it.stated.is_some_and(|(.., at)| tick.since(at) < GAZE_EVERY);
            if believed == truth || lately {
                continue;
            }
            let bounds = |gaze: Gaze| {
                let [yaw, pitch] = gaze.angles();
                let pivot = Pivot::looking(here, yaw, pitch);
                view.grade(&sight(&pivot, there, self.avatar_of(it.player), tick))
                    .map(|grade| (grade.max_age, grade.max_error.0))
            };
            let (wanted, given) = (bounds(truth), bounds(believed));
            if wanted != given {
                let finer =
                    wanted.is_some_and(|it| given.is_none_or(|of| it.0 < of.0 || it.1 < of.1));
                stated.push((*link, told, finer));
            }
        }
        for (link, told, finer) in stated {
            if let Some(it) = self.links.get_mut(&link) {
                it.stated = Some((told, truth, tick));
                (it.gaze_frames, it.gaze_now) = (GAZE_FRAMES, finer);
            }
        }
    }
}

/// Yaw and pitch of an object of this kind.
fn angles(kind: &Kind, steps: [i32; 2]) -> [Radians; 2] {
    let angle = |lane: Option<(usize, u32)>, at: i32| {
        Radians(lane.map_or(0.0, |(_, steps)| steps_to_angle(at, steps)))
    };
    [angle(kind.yaw, steps[0]), angle(kind.pitch, steps[1])]
}

/// A player's avatar as a policy sees it.
fn sight(pivot: &Pivot, there: Position, object: ObjectId, tick: Tick) -> Sight {
    let distance = pivot.at.distance(there);
    let along = |axis: usize| pivot.facing[axis] * (there[axis] - pivot.at[axis]);
    Sight {
        distance,
        cos_angle: (0..3).map(along).sum::<f32>() / distance.0.max(1e-9),
        from: pivot.at,
        to: there,
        pivot: None,
        object,
        kind: object.kind(),
        same_team: false,
        interaction: 0.0,
        tick,
        now: Micros::ZERO,
    }
}
