//! Takeover: how a server comes to run a region, for the first time or after another one.
//!
//! The layout names the server and the epoch. The server then fences the log: the append names the last entry that
//! it has read, so that it succeeds only once everything before it was read, and nothing that the former owner
//! tries afterwards counts. The region is what the log says, with what the standby was told since.
//!
//! Objects go on in the tick at hand, not where they were: the former owner may have stepped them for as long as its
//! lease lasted. That tick is later than any of its own: it acted for 1.0 s after a beacon that the standby received
//! 1.25 s ago, and the beacon carried its time.

use super::border::{Feed, creator};
use super::closing::Closing;
use super::handoff::OutboundTransfer;
use super::layout::{Layout, RegionId};
use super::log::{LogBatch, LogEntry, LogView, Logged, ObjectState};
use super::owner::Region;
use crate::game::{Game, PlayerId};
use crate::remote_objects::place_of;
use crate::simulation::Simulation;
use foveate_sync::replica::Life;
use foveate_wire::ObjectId;

/// The append that makes a server the owner of a region. The first owner of all adds the game's first objects.
pub(super) fn fence<G: Game>(
    simulation: &mut Simulation<G>,
    layout: &Layout,
    (region, epoch): (RegionId, u32),
    (view, tick): (&LogView, u32),
) -> LogBatch {
    let mut entries = vec![LogEntry::Fence { epoch }];
    if view.last == 0 {
        entries.push(LogEntry::Begin);
        if layout.get(region).is_some_and(|info| info.populates) {
            entries.extend(first_objects(simulation, layout, region, tick));
        }
        entries.push(LogEntry::End { begun: 0 });
    }
    LogBatch { epoch, tick, entries }
}

/// The game's first objects that are in a region. Their ids are the same wherever they are worked out.
fn first_objects<G: Game>(
    simulation: &mut Simulation<G>,
    layout: &Layout,
    region: RegionId,
    tick: u32,
) -> Vec<LogEntry> {
    let game = std::sync::Arc::clone(&simulation.game);
    let mut entries = Vec::new();
    for spawn in game.populate() {
        let Ok(id) = simulation.spawn(PlayerId(0), &spawn) else { continue };
        let place = place_of(game.schema(), spawn.kind, &spawn.lanes);
        // What has no place begins in the region of the origin.
        let at = place.unwrap_or_default();
        if layout.region_at([at[0], at[1]]) == region {
            let state = ObjectState { tick, lanes: spawn.lanes, marks: Vec::new() };
            entries.push(LogEntry::Checkpoint { object: id.0, epoch: 0, state: Some(state) });
        }
    }
    entries
}

impl<G: Game> Region<G> {
    /// Fills a region with what its log says and its standby was told. `elsewhere`: whether another region's log
    /// mentions an object.
    pub(super) fn rebuild(
        &mut self,
        view: &LogView,
        feed: Option<&Feed>,
        elsewhere: impl Fn(ObjectId) -> bool,
    ) {
        let newest = |id: ObjectId, tick: u32| -> Option<(u32, Vec<i32>)> {
            let replica = feed?.replicas.get(id)?;
            let told = replica.tick().0;
            (told > tick && replica.life() == Life::Live).then(|| (told, replica.lanes().to_vec()))
        };
        let game = std::sync::Arc::clone(&self.simulation.game);
        let state_of = |id: ObjectId, logged: &ObjectState| {
            let Some((tick, told)) = newest(id, logged.tick) else { return logged.clone() };
            let lanes = match game.schema().kind(id.kind()) {
                Some(kind) if game.keeps(id.kind()) => merged(&kind.others, &logged.lanes, told),
                // Fields that only an object's player is told are not told to standbys.
                Some(kind) => merged(&kind.own, &logged.lanes, told),
                None => told,
            };
            ObjectState { tick, lanes, marks: logged.marks.clone() }
        };
        self.closing = Closing::from_log(view.closed);
        for (id, Logged { epoch, state }) in &view.objects {
            let now = state_of(*id, state);
            self.own(*id, *epoch, &now, true);
        }
        for (id, it) in &view.pending {
            let state = it.state.as_ref().map(|state| state_of(*id, state));
            // The former owner may have stepped it for longer than is known.
            let tick = self.first_tick.saturating_sub(1);
            let state = state.map(|it| ObjectState { tick: it.tick.max(tick), ..it });
            let (epoch, to, sequence, since) = (it.epoch, it.to, it.sequence, self.ticked);
            let transfer = OutboundTransfer {
                epoch,
                to,
                sequence,
                state,
                since,
                logged: false,
                after: 0,
                redirected: false,
            };
            self.transfers.insert(*id, transfer);
        }
        let told = feed.into_iter().flat_map(|feed| feed.replicas.iter());
        for replica in told.filter(|it| it.life() == Life::Live) {
            let id = replica.id();
            let logged = view.objects.contains_key(&id)
                || view.pending.contains_key(&id)
                || view.gone.contains_key(&id);
            // What the log does not know was created here of late, and is not kept; or it was taken in, and its giver will
            // repeat that. A kept object that the log does not know was never created.
            let created_here = id.is_minted() && id.creator() == creator(self.id);
            if !logged && created_here && !elsewhere(id) && !game.keeps(id.kind()) {
                let state = ObjectState {
                    tick: replica.tick().0,
                    lanes: replica.lanes().to_vec(),
                    marks: Vec::new(),
                };
                self.own(id, 0, &state, false);
            }
        }
    }
}

/// What was told, but for some lanes, which are as they were logged.
fn merged(as_logged: &[usize], logged: &[i32], mut told: Vec<i32>) -> Vec<i32> {
    if told.len() != logged.len() {
        return logged.to_vec();
    }
    as_logged.iter().for_each(|at| told[*at] = logged[*at]);
    told
}
