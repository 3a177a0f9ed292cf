//! A neighbour: the peer at the other end of a link, what it was sent and what it sends.

use super::identity::Key;
use super::trust::Patience;
use super::wire::Gaze;
use crate::game::PlayerId;
use foveate_sync::{Observer, ObserverId, ReplicaSet};
use foveate_wire::{Bytes, Micros, ObjectId, Schema, Tick};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A neighbour is sent something at least this often.
pub const KEEP_ALIVE: Micros = Micros(300_000);
/// A neighbour that has been silent for this long is asked to reply.
pub const ASK_AFTER: Micros = Micros(650_000);
/// It is asked again every this many rounds.
pub const ASK_EVERY: u32 = 3;
/// A neighbour silent for this long is gone: four keep-alives and three replies were lost or never
/// sent. So a crash is noticed within this time and a round.
pub const GONE_AFTER: Micros = Micros(1_200_000);
/// After this time both ends of a link must have heard each other.
pub const SETTLED: Micros = Micros(10_000_000);
/// A link that neither end wants is closed after this time.
pub const UNNEEDED: Micros = Micros(15_000_000);
/// Rounds that an acknowledgement waits for a state packet to travel with.
pub const ACK_WAITS: u8 = 2;
/// Rounds for which unused budget is kept.
const BURST: u32 = 8;
/// The same if the link's capacity is below the budget.
const NARROW_BURST: u32 = 2;
/// The most bytes of events that wait for a frame; others are dropped.
const MAX_EVENTS: usize = 600;

/// The other end of a link.
pub struct Neighbour {
    pub key: Key,
    pub player: PlayerId,
    /// This end dialled.
    pub called: bool,
    /// Another link to the same peer was open when this one was made.
    pub replaces: bool,
    /// It sent a valid hello.
    pub open: bool,
    /// It is in the world, or about to enter.
    pub inside: bool,
    pub since: Micros,
    pub heard: Micros,
    pub spoke: Micros,
    pub observer: Option<ObserverId>,
    pub replicas: ReplicaSet,
    /// How many rounds its packets are behind our clock, smoothed.
    pub lag: Option<f32>,
    /// Rounds since a packet arrived that is not acknowledged yet, plus one; 0 if there is none.
    pub owes: u8,
    /// The next frame asks it to reply.
    pub asks: bool,
    /// The number of the view that it subscribed to.
    pub view: u8,
    /// The object that it looks from instead of its avatar.
    pub watched: Option<ObjectId>,
    /// Its pivots in the last round.
    pub eyes: Vec<ObjectId>,
    /// The gaze that it stated, and the facing of its avatar known then, in steps. It applies until
    /// that facing changes.
    pub gaze: Option<([i32; 2], Gaze)>,
    /// The gaze that it was sent, with the same facing, and when.
    pub stated: Option<([i32; 2], Gaze, Tick)>,
    /// How many frames must still contain the gaze.
    pub gaze_frames: u8,
    /// Whether a frame must be sent at once, because of the gaze.
    pub gaze_now: bool,
    /// Its share of the uplink, in bytes per round.
    pub share: Option<Bytes>,
    /// The link's capacity in bytes per round, if the host knows it.
    pub capacity: Option<Bytes>,
    /// Whether the other end wants the link.
    pub wanted_there: bool,
    /// Whether this end wants the link.
    pub wanted_here: bool,
    /// Since when neither end wants the link.
    pub unneeded: Option<Micros>,
    /// The players that it has links to.
    pub linked: BTreeSet<PlayerId>,
    /// The players that it was introduced to, and when.
    pub introduced: BTreeMap<PlayerId, Micros>,
    /// The players that it was sent sightings of recently, and when.
    pub sighted: BTreeMap<PlayerId, Micros>,
    /// The objects that it keeps copies of for us.
    pub kept: BTreeSet<ObjectId>,
    /// Its policy must be rebuilt.
    pub regrade: bool,
    pub events: Vec<u8>,
    pub patience: Patience,
    /// States of its own objects that later ones are checked against.
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

    /// Whether it was heard from recently enough to be there for certain.
    pub fn is_live(&self, now: Micros) -> bool {
        self.open && now - self.heard < GONE_AFTER
    }

    /// Whether both ends have heard each other for long.
    pub fn is_settled(&self, now: Micros) -> bool {
        self.is_live(now) && now - self.since >= SETTLED
    }

    /// Sets its observer's budget to its share of the uplink and the link's capacity. Little of a
    /// link's capacity is saved up: a burst would queue.
    pub fn keep_within(&self, observer: &mut Observer) {
        let narrow = self.capacity.filter(|it| self.share.is_none_or(|share| *it < share));
        match narrow {
            Some(rate) => observer.set_rate(Some(rate), NARROW_BURST),
            None => observer.set_rate(self.share, BURST),
        }
    }

    /// Notes that a packet of round `theirs` arrived in round `ours`.
    pub fn record_lag(&mut self, theirs: Tick, ours: Tick) {
        let lag = ours.0.wrapping_sub(theirs.0) as i32 as f32;
        let smooth = self.lag.unwrap_or(lag);
        self.lag = Some(smooth + (lag - smooth) / 16.0);
    }

    /// Queues an event; false if there is no room.
    pub fn notice(&mut self, event: &[u8]) -> bool {
        let fits = self.events.len() + event.len() <= MAX_EVENTS;
        if fits {
            self.events.extend(event);
        }
        fits
    }
}
