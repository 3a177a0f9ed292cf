//! Region servers: what `foveate mesh` and `foveate region` have in common.

mod metrics;
mod observatory;
pub mod players;
#[cfg(feature = "nats")]
pub mod process;

pub use metrics::RegionMetrics;
pub use observatory::{RegionBoard, RegionObservatory};

use crate::crowd::CrowdGame;
use crate::web::ShownGame;
use foveate_arena::Arena;
use foveate_io::region::RegionHost;
use foveate_node::region::layout::{Rect, RegionId, ServerId};
use foveate_node::region::{
    LayoutChange, RegionCommand, RegionEvent, RegionServer, RegionSettings,
};
use foveate_wire::{Metres, Micros};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval between two attempts to get a region.
const CLAIM_EVERY: Duration = Duration::from_secs(2);
/// Between two warnings of entries that are ignored: a client of the broker could fill the log.
const WARN_EVERY: Duration = Duration::from_secs(10);
/// Views that are looked at for how far players see.
const MAX_VIEWS: u8 = 16;

/// A game whose world can be cut into regions.
pub trait MeshGame: ShownGame {
    /// The places of its objects.
    fn extent(&self) -> Rect;
}

impl MeshGame for Arena {
    fn extent(&self) -> Rect {
        Rect { min: [0.0; 2], max: [self.map().side() as f32; 2] }
    }
}

impl MeshGame for CrowdGame {
    fn extent(&self) -> Rect {
        Rect { min: [-self.side() / 2.0; 2], max: [self.side() / 2.0; 2] }
    }
}

/// The usual settings for a game: borders are as wide as the farthest view.
pub fn settings<G: MeshGame>(game: &G, round: Micros) -> RegionSettings {
    let views = (0..MAX_VIEWS).map_while(|which| game.view(which));
    let reach = views.filter_map(|view| view.zones.last().copied()).fold(0.0, f32::max);
    RegionSettings::new(round, Metres(reach), game.extent())
}

/// Why a region server stopped.
#[derive(Debug)]
pub enum ServerEnd {
    /// It was told to stop.
    Stopped,
    /// Other servers declared it dead because it was unreachable for too long.
    DeclaredDead,
}

/// The loop of one region server, with its log lines and metrics.
pub struct RegionRunner<'a, G: MeshGame> {
    /// The server and its links.
    pub host: RegionHost<G>,
    /// Shared by all servers of the process.
    pub metrics: &'a RegionMetrics,
    observatory: RegionObservatory<'a>,
    /// Whether the server takes half of the largest region when it has none, whatever the load.
    pub claims: bool,
    claimed: Option<Instant>,
    known: BTreeMap<RegionId, u32>,
    trouble: Option<String>,
    /// Entries of the ledger that were ignored, as last said.
    refused: u64,
    warned: Option<Instant>,
}

impl<'a, G: MeshGame> RegionRunner<'a, G> {
    pub fn new(
        host: RegionHost<G>,
        metrics: &'a RegionMetrics,
        observatory: RegionObservatory<'a>,
    ) -> RegionRunner<'a, G> {
        RegionRunner {
            host,
            metrics,
            observatory,
            claims: false,
            claimed: None,
            known: BTreeMap::new(),
            trouble: None,
            refused: 0,
            warned: None,
        }
    }

    /// Asks for half of the largest region, if the server has none.
    fn claim(&mut self) {
        let (me, now) = (self.id(), Instant::now());
        let Some(layout) = self.host.server.layout() else { return };
        let has = layout.regions().any(|(_, info)| info.server == me);
        let waits = self.claimed.is_some_and(|last| now - last < CLAIM_EVERY);
        if !self.claims || has || waits {
            return;
        }
        self.claimed = Some(now);
        let extent = self.host.server.settings().extent;
        let sides = |rect: &Rect| [0, 1].map(|axis| rect.max[axis] - rect.min[axis]);
        let area = |rect: &Rect| sides(rect)[0] * sides(rect)[1];
        let leaves = layout.leaves().map(|(id, rect)| (id, rect.clamped(&extent)));
        let largest = leaves.max_by(|a, b| area(&a.1).total_cmp(&area(&b.1)));
        if let Some((region, rect)) = largest {
            let axis = usize::from(sides(&rect)[1] > sides(&rect)[0]);
            let at = (rect.min[axis] + rect.max[axis]) / 2.0;
            tracing::info!(server = me.0, region = region.0, "asking for half of a region");
            let change = LayoutChange::Split(region, axis as u8, at, me);
            self.host.command(RegionCommand::Change(change));
        }
    }

    /// The server's number.
    fn id(&self) -> ServerId {
        self.host.server.id()
    }

    /// Runs until told to stop, declared dead, or unable to use the world. A server that is told to stop gives its
    /// regions to others first, for as long as `drain` at most.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        drain: Duration,
    ) -> Result<ServerEnd, Box<dyn Error + Send + Sync>> {
        let (server, mut draining) = (self.id().0, None);
        loop {
            if stop.load(Ordering::Relaxed) {
                let until = *draining.get_or_insert_with(|| {
                    tracing::info!(server, "giving all regions to other servers");
                    self.host.command(RegionCommand::Drain);
                    Instant::now() + drain
                });
                if Instant::now() >= until {
                    return Ok(ServerEnd::Stopped);
                }
            }
            let spent = self.host.step()?;
            let events: Vec<RegionEvent> = self.host.drain_events().collect();
            for event in events {
                match event {
                    RegionEvent::Unusable(why) if self.host.server.layout().is_none() => {
                        return Err(why.into());
                    }
                    RegionEvent::Unusable(why) => {
                        tracing::error!(server, %why, "a layout record cannot be used");
                    }
                    RegionEvent::Ended => {
                        tracing::error!(server, "declared dead by another server; starting anew");
                        return Ok(ServerEnd::DeclaredDead);
                    }
                    RegionEvent::Drained if draining.is_some() => {
                        tracing::info!(server, "all regions are with other servers");
                        return Ok(ServerEnd::Stopped);
                    }
                    RegionEvent::Joined(player, name) => {
                        self.metrics.count_session(server, "joined");
                        tracing::debug!(server, player = player.0, name, "joined");
                    }
                    RegionEvent::Left(player) => {
                        self.metrics.count_session(server, "left");
                        tracing::debug!(server, player = player.0, "left");
                    }
                    RegionEvent::SessionMoved { player, epoch, kept, all, .. } => {
                        self.metrics.count_session(server, "moved");
                        tracing::debug!(
                            server,
                            player = player.0,
                            epoch,
                            kept,
                            all,
                            "session moved here"
                        );
                    }
                    RegionEvent::AskLost => tracing::warn!(server, "an action was not answered"),
                    RegionEvent::Arrived { object, epoch, late } => {
                        tracing::debug!(server, object = object.0, epoch, late, "arrived");
                    }
                    _ => {}
                }
            }
            self.metrics.note(&self.host, spent);
            self.observatory.round(&mut self.host, spent);
            if draining.is_none() {
                self.claim();
            }
            self.say_regions();
            self.say_trouble()?;
        }
    }

    /// Logs when the server starts or stops running a region.
    fn say_regions(&mut self) {
        let node: &RegionServer<G> = &self.host.server;
        let server = self.id().0;
        let now: BTreeMap<RegionId, u32> = node.regions().map(|it| (it.id, it.epoch)).collect();
        if now == self.known {
            return;
        }
        for (region, epoch) in &now {
            if self.known.get(region) != Some(epoch) {
                tracing::info!(server, region = region.0, epoch, "runs a region");
            }
        }
        for (region, epoch) in &self.known {
            if !now.contains_key(region) {
                tracing::info!(server, region = region.0, epoch, "runs a region no longer");
            }
        }
        self.known = now;
    }

    /// Logs when the ledger fails, and when it works again.
    fn say_trouble(&mut self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let (server, status) = (self.id().0, self.host.ledger_status());
        if let Some(why) = status.unusable {
            return Err(why.into());
        }
        if status.refused > self.refused && self.warned.is_none_or(|at| at.elapsed() > WARN_EVERY) {
            let why = status.ignored.unwrap_or_default();
            tracing::warn!(server, refused = status.refused, %why, "an entry of the ledger is ignored");
            (self.refused, self.warned) = (status.refused, Some(Instant::now()));
        }
        if status.trouble != self.trouble {
            match &status.trouble {
                Some(why) => tracing::error!(server, %why, "the ledger is in trouble"),
                None => tracing::info!(server, "the ledger takes appends again"),
            }
            self.trouble = status.trouble;
        }
        Ok(())
    }
}
