//! One link: the peer at its other end, what it was told, what it tells.

use super::identity::Key;
use super::trust::Patience;
use super::wire::Gaze;
use crate::game::PlayerId;
use foveate_sync::{Observer, ObserverId, ReplicaSet};
use foveate_wire::{Bytes, Micros, ObjectId, Schema, Tick};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A neighbour hears something at least this often.
pub const KEEP_ALIVE: Micros = Micros(300_000);
/// A peer that is silent for so long is asked for a sign,
pub const ASK_AFTER: Micros = Micros(650_000);
/// in each so many rounds,
pub const ASK_EVERY: u32 = 3;
/// and is gone after this: four signs of life and three answers were lost, or never sent. So a crash is
/// noticed within this and a round.
pub const GONE_AFTER: Micros = Micros(1_200_000);
/// A link is old when its ends cannot have missed each other of late.
pub const SETTLED: Micros = Micros(10_000_000);
/// A link that neither end wants is closed after this.
pub const UNNEEDED: Micros = Micros(15_000_000);
/// Rounds that an acknowledgement waits for a state packet to ride on.
pub const ACK_WAITS: u8 = 2;
/// Rounds for which unused budget is kept,
const BURST: u32 = 8;
/// and where the link is narrower than the budget.
const NARROW_BURST: u32 = 2;
/// Bytes of events that wait for a frame at most; what is beyond is not told.
const MAX_EVENTS: usize = 600;

/// One end of a link, as the other sees it.
pub struct Neighbour {
    pub key: Key,
    pub player: PlayerId,
    /// This end asked for the link.
    pub called: bool,
    /// Another link with it was open when this one was made.
    pub replaces: bool,
    /// Said hello, and was found to be one of us.
    pub open: bool,
    /// Whether it is in the world, or about to be.
    pub inside: bool,
    pub since: Micros,
    pub heard: Micros,
    pub spoke: Micros,
    pub observer: Option<ObserverId>,
    pub replicas: ReplicaSet,
    /// Rounds by which its packets are behind our clock, smoothed.
    pub lag: Option<f32>,
    /// Rounds since a packet arrived that is to be acknowledged, counted from one.
    pub owes: u8,
    /// The next frame asks for a sign of life.
    pub asks: bool,
    /// What it subscribed to: a view, as seen from its avatar or from what it watches.
    pub view: u8,
    pub watched: Option<ObjectId>,
    /// What it looked from in the last round.
    pub eyes: Vec<ObjectId>,
    /// Where it said that it looks, and where its avatar was known to face then, in steps: holds as long
    /// as nothing else is heard of that.
    pub gaze: Option<([i32; 2], Gaze)>,
    /// What it was told in the same way, and when.
    pub stated: Option<([i32; 2], Gaze, Tick)>,
    /// Frames that have to tell it, and whether one has to leave for that.
    pub gaze_frames: u8,
    pub gaze_now: bool,
    /// Its share of the uplink, bytes a round,
    pub share: Option<Bytes>,
    /// and what the link carries, if its host knows.
    pub capacity: Option<Bytes>,
    /// Whether either end wants the link, and since when neither does.
    pub wanted_there: bool,
    pub wanted_here: bool,
    pub unneeded: Option<Micros>,
    /// Whom it has links with.
    pub linked: BTreeSet<PlayerId>,
    /// Whom it was introduced to, and when.
    pub introduced: BTreeMap<PlayerId, Micros>,
    /// Whom it was told to be near of late, and when.
    pub sighted: BTreeMap<PlayerId, Micros>,
    /// What it keeps for us.
    pub kept: BTreeSet<ObjectId>,
    /// Its policy has to be made anew.
    pub regrade: bool,
    pub events: Vec<u8>,
    pub patience: Patience,
    /// States of its own objects that later ones are compared with.
    pub audited: BTreeMap<ObjectId, (Tick, Vec<i32>)>,
}

impl Neighbour {
    pub fn new(
        (key, called): (Key, bool),
        schema: Arc<Schema>,
        tick: Tick,
        now: Micros,
    ) -> Neighbour {
        Neighbour {
            key,
            player: key.player(),
            called,
            replaces: false,
            open: false,
            inside: false,
            since: now,
            heard: now,
            spoke: now,
            observer: None,
            replicas: ReplicaSet::new(schema, tick),
            lag: None,
            owes: 0,
            asks: false,
            view: 0,
            watched: None,
            eyes: Vec::new(),
            gaze: None,
            stated: None,
            gaze_frames: 0,
            gaze_now: false,
            share: None,
            capacity: None,
            wanted_there: true,
            wanted_here: true,
            unneeded: None,
            linked: BTreeSet::new(),
            introduced: BTreeMap::new(),
            sighted: BTreeMap::new(),
            kept: BTreeSet::new(),
            regrade: true,
            events: Vec::new(),
            patience: Patience::new(now),
            audited: BTreeMap::new(),
        }
    }

    /// Whether it is surely there.
    pub fn is_live(&self, now: Micros) -> bool {
        self.open && now - self.heard < GONE_AFTER
    }

    /// Whether both ends have heard each other for long.
    pub fn is_settled(&self, now: Micros) -> bool {
        self.is_live(now) && now - self.since >= SETTLED
    }

    /// States keep within its share of the uplink and what the link carries. Of the latter little is kept
    /// for later: a burst would queue.
    pub fn keep_within(&self, observer: &mut Observer) {
        let narrow = self.capacity.filter(|it| self.share.is_none_or(|share| *it < share));
        match narrow {
            Some(rate) => observer.set_rate(Some(rate), NARROW_BURST),
            None => observer.set_rate(self.share, BURST),
        }
    }

    /// A packet of this round arrived in that one of ours.
    pub fn record_lag(&mut self, theirs: Tick, ours: Tick) {
        let lag = ours.0.wrapping_sub(theirs.0) as i32 as f32;
        let smooth = self.lag.unwrap_or(lag);
        self.lag = Some(smooth + (lag - smooth) / 16.0);
    }

    /// Something happened near by. False if there is no room for it.
    pub fn notice(&mut self, event: &[u8]) -> bool {
        let fits = self.events.len() + event.len() <= MAX_EVENTS;
        if fits {
            self.events.extend(event);
        }
        fits
    }
}
