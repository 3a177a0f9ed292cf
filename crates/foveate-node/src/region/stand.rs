//! Who runs what: the layout as it changes, standbys, and regions that are opened.

use super::border::Feed;
use super::bus::{BusMessage, Recipient, RegionEpoch};
use super::layout::{Layout, LayoutError, RegionId, SplitLine};
use super::lease::{BEACON_EVERY, StandbyWatch};
use super::ledger::{Settled, Subject};
use super::owner::{Region, RegionStart};
use super::{Intent, LayoutChange, MeshStep, RegionEvent, RegionServer, Standby, takeover};
use crate::game::Game;
use crate::simulation::Simulation;
use foveate_wire::{Micros, ObjectId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An owner without a standby looks for one after this.
const ALONE_FOR: Micros = Micros(500_000);

impl<G: Game> RegionServer<G> {
    /// Begins a world, if that is asked for.
    pub(super) fn found(&mut self, now: Micros) {
        if self.layout.is_some() {
            self.founding = None;
        } else if let Some(layout) = self.founding.clone() {
            self.propose(Intent::Found, *layout, now);
        }
    }

    /// Asks the ledger for another layout. False if a change is on its way.
    pub(super) fn propose(&mut self, intent: Intent, layout: Layout, now: Micros) -> bool {
        let last = self.layout.as_ref().map_or(0, |it| it.0);
        if self.intent.is_some() {
            return false;
        }
        let request = self.appends.append((Subject::Layout, last), &layout.write(), now);
        let asked = request.is_some();
        if asked {
            self.intent = Some((intent, layout));
            self.events.extend(request.map(RegionEvent::Ledger));
        }
        asked
    }

    /// What an operator asks for.
    pub(super) fn change(&mut self, change: LayoutChange, now: Micros) {
        let Some((_, layout)) = &self.layout else { return };
        let mut wanted = layout.clone();
        let done = match change {
            LayoutChange::Split(region, axis, at, server) => {
                wanted.split(region, SplitLine { axis, at }, server, false).map(|_| ())
            }
            LayoutChange::MoveSplit(region, to) => wanted.move_split(region, to),
            LayoutChange::Merge(region) => wanted.merge(region).map(|_| ()),
            LayoutChange::Replace(region, server) => wanted.replace(region, server).map(|_| ()),
        };
        match done {
            Ok(()) => drop(self.propose(Intent::Operate, wanted, now)),
            Err(why) => self.events.push_back(RegionEvent::Unusable(why)),
        }
    }

    /// The change on its way was settled.
    pub(super) fn on_layout_settled(&mut self, settled: Settled, now: Micros) {
        let Some((intent, layout)) = self.intent.take() else { return };
        match settled {
            Settled::Appended(sequence) => {
                if intent == Intent::Found {
                    self.clock.begin(now);
                }
                self.on_layout(sequence, layout, now);
                match intent {
                    Intent::TakeOver(_) => {
                        self.counts.takeovers += 1;
                        self.reach(MeshStep::TakeoverWon);
                    }
                    Intent::Balance(change) => self.on_balanced(change),
                    _ => {}
                }
            }
            // The newer layout was read; it says what to do.
            Settled::Lost => {
                if let Intent::TakeOver(region) = intent
                    && let Some(standby) = self.standing.get_mut(&region)
                {
                    standby.watch.give_up();
                }
            }
        }
    }

    /// There is a newer layout.
    pub(super) fn on_layout(&mut self, sequence: u64, layout: Layout, now: Micros) {
        if self.layout.as_ref().is_some_and(|it| it.0 >= sequence) {
            return;
        }
        let (world, server) = (layout.schema, self.game.schema().hash());
        let rounds = (layout.round, self.settings.rounds.length);
        if world != server {
            return self.refuse(LayoutError::Schema { world, server });
        }
        if rounds.0 != rounds.1 {
            return self.refuse(LayoutError::Round { world: rounds.0, server: rounds.1 });
        }
        let regions: Vec<_> = layout.regions().map(|(id, info)| (id, *info)).collect();
        self.drop_closed(&layout);
        self.layout = Some((sequence, layout));
        for (id, info) in regions {
            let mine = info.server == self.me;
            match self.regions.get_mut(&id) {
                Some(region) if mine && region.epoch == info.epoch => {
                    let changed = region.standby != info.standby;
                    region.lease.standby_known(info.standby.is_none(), changed);
                    if changed {
                        (region.standby, region.since) = (info.standby, now);
                    }
                }
                Some(_) => self.drop_region(id),
                None => {}
            }
            let runs = self.regions.contains_key(&id);
            match self.opening.get(&id).map(|it| it.0) {
                Some(epoch) if !mine || epoch != info.epoch => {
                    self.opening.remove(&id);
                    self.appends.forget(Subject::Log(id));
                    // Its sessions are not to come here any more: no client may wait for them.
                    if !mine {
                        self.inherited.remove(&id);
                        self.awaited.remove(&id);
                    }
                }
                _ => {}
            }
            if mine && !runs && !self.opening.contains_key(&id) {
                self.opening.insert(id, (info.epoch, None));
                if let Some(standby) = self.standing.remove(&id) {
                    self.inherited.insert(id, standby.feed);
                    self.awaited.insert(id, standby.notes);
                }
            }
            self.watch(id, info.epoch, info.standby == Some(self.me), now);
        }
        self.unwanted.look_again();
        self.follow_needed(now);
    }

    fn refuse(&mut self, why: LayoutError) {
        self.events.push_back(RegionEvent::Unusable(why));
    }

    /// Another server runs the region.
    pub(super) fn drop_region(&mut self, id: RegionId) {
        if self.regions.remove(&id).is_some() {
            self.close_links_of(id);
        }
        self.appends.forget(Subject::Log(id));
    }

    /// Stands by for a region, or no longer.
    fn watch(&mut self, id: RegionId, epoch: u32, stands: bool, now: Micros) {
        if !stands {
            self.standing.remove(&id);
            return;
        }
        match self.standing.get_mut(&id) {
            Some(standby) if standby.watch.epoch == epoch => {}
            Some(standby) => standby.watch = StandbyWatch::new(epoch, now),
            None => {
                let feed = Feed::new(self.game.schema(), self.streams.name(), self.ticked, now);
                let (watch, notes) = (StandbyWatch::new(epoch, now), BTreeMap::new());
                self.standing.insert(id, Standby { watch, feed, notes });
            }
        }
    }

    /// A standby's duties: subscribe, and take over from a silent owner.
    pub(super) fn stand_by(&mut self, now: Micros) {
        let ids: Vec<RegionId> = self.standing.keys().copied().collect();
        for id in ids {
            let Some(standby) = self.standing.get_mut(&id) else { continue };
            let name = RegionEpoch { region: id, epoch: standby.watch.epoch };
            if standby.watch.is_silent(now) {
                if self.intent.is_none() {
                    // From here on no beacon is acknowledged, whatever becomes of the append.
                    standby.watch.take();
                    self.ask_for(id, now);
                    if !matches!(self.intent, Some((Intent::TakeOver(_), _)))
                        && let Some(standby) = self.standing.get_mut(&id)
                    {
                        standby.watch.give_up();
                    }
                }
            } else if standby.feed.is_due(now) {
                let wish = standby.feed.subscription(id, Vec::new(), now);
                let owner = self.layout.as_ref().and_then(|(_, layout)| layout.get(id));
                if let Some(owner) = owner.map(|info| info.server) {
                    let message = BusMessage::Subscribe(name, wish);
                    self.publish(Recipient::Server(owner), message, Micros::UNBOUNDED);
                }
            }
        }
    }

    /// Beacons to the standbys.
    pub(super) fn send_beacons(&mut self, now: Micros) {
        let ids: Vec<RegionId> = self.regions.keys().copied().collect();
        for id in ids {
            let Some(region) = self.regions.get_mut(&id) else { continue };
            // Rounds are shorter than the interval: the next one would be late.
            let half = Micros(self.settings.rounds.length.0 / 2);
            let due =
                region.lease.last_beacon().is_none_or(|last| now + half - last >= BEACON_EVERY);
            let Some(standby) = region.standby.filter(|_| due) else { continue };
            let message = BusMessage::Beacon(region.name(), region.lease.beacon(now));
            self.reach(MeshStep::Beacon);
            self.publish(Recipient::Server(standby), message, Micros::UNBOUNDED);
        }
    }

    /// Looks for standbys where there is none, or a silent one.
    pub(super) fn keep_standbys(&mut self, now: Micros) {
        if self.intent.is_some() || !self.heartbeat.is_answered(now) {
            return;
        }
        let wants = |region: &Region<G>| match region.standby {
            Some(standby) if self.servers.is_leaving(standby) => !region.lease.is_changing(),
            Some(_) => region.lease.misses_standby(region.since, now),
            None => now - region.since >= ALONE_FOR,
        };
        let wanting: Vec<RegionId> =
            self.regions.values().filter(|it| wants(it)).map(|it| it.id).collect();
        for id in wanting {
            let Some(region) = self.regions.get(&id) else { continue };
            let standby = self.candidate(id, &[region.standby], now);
            let Some((_, layout)) = self.layout.as_ref().filter(|_| standby != region.standby)
            else {
                continue;
            };
            let mut wanted = layout.clone();
            let Some(info) = wanted.get_mut(id) else { continue };
            info.standby = standby;
            if self.propose(Intent::Standby(id), wanted, now) {
                if let Some(region) = self.regions.get_mut(&id) {
                    region.lease.change_standby(now);
                }
                self.reach(MeshStep::StandbyAsked);
                return;
            }
        }
    }

    /// The regions that it is taking over from a silent owner.
    pub fn taking(&self) -> impl Iterator<Item = RegionId> + '_ {
        self.standing.iter().filter(|(_, it)| it.watch.is_taking()).map(|(id, _)| *id)
    }

    /// Fences the logs of regions that the layout gives to this server.
    pub(super) fn open_regions(&mut self, now: Micros) {
        let Some((_, layout)) = self.layout.as_ref() else { return };
        let Some((tick, _)) = self.clock.tick(now, self.settings.rounds.length) else { return };
        let mut sent = 0;
        for (id, (epoch, batch)) in &mut self.opening {
            let subject = Subject::Log(*id);
            let Some(view) = self.logs.get(id) else { continue };
            let partly = view.last > 0 && !view.complete;
            if self.appends.pending(subject).is_some() || view.epoch >= *epoch || partly {
                continue;
            }
            let mut simulation = Simulation::new(Arc::clone(&self.game), self.settings.rounds);
            let fence = takeover::fence(&mut simulation, layout, (*id, *epoch), (view, tick));
            let request = self.appends.append((subject, view.last), &fence, now);
            *batch = Some(fence);
            self.events.extend(request.map(RegionEvent::Ledger));
            sent += 1;
        }
        (0..sent).for_each(|_| self.reach(MeshStep::FenceSent));
    }

    /// The log is fenced: the region is run from now on.
    pub(super) fn on_fenced(&mut self, id: RegionId, sequence: u64, now: Micros) {
        let Some((epoch, Some(batch))) = self.opening.get(&id).cloned() else { return };
        self.opening.remove(&id);
        let Some(view) = self.logs.get_mut(&id) else { return };
        view.apply(sequence, &batch);
        let tick = self.clock.tick(now, self.settings.rounds.length).map_or(0, |it| it.0);
        let info = self.layout.as_ref().and_then(|(_, layout)| layout.get(id));
        let standby = info.and_then(|info| info.standby);
        let (game, settings) = (&self.game, &self.settings);
        let name = RegionEpoch { region: id, epoch };
        let mut region = Region::new(game, settings, RegionStart { name, standby, tick, now });
        let (view, logs) = (view.clone(), &self.logs);
        let elsewhere = |object: ObjectId| {
            let others = logs.iter().filter(|(other, _)| **other != id).map(|(_, view)| view);
            others
                .into_iter()
                .any(|it| it.objects.contains_key(&object) || it.pending.contains_key(&object))
        };
        region.rebuild(&view, self.inherited.remove(&id).as_ref(), elsewhere);
        region.sessions = self.players.sessions(&self.game);
        self.regions.insert(id, region);
        self.inherit_sessions(id, now);
        self.reach(MeshStep::Fenced);
    }
}
