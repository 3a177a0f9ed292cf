//! Which servers there are: signs of life in the ledger and on the bus, what they say of themselves, and what becomes of
//! regions whose servers are gone.

use super::bus::{BusMessage, Recipient};
use super::layout::{RegionId, RegionInfo, ServerId};
use super::lease::{ABANDONED, CONFIRMED_LEASE, HEARTBEAT_EVERY};
use super::ledger::Subject;
use super::{Intent, MeshStep, RegionEvent, RegionServer};
use crate::game::Game;
use foveate_wire::Micros;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A server that was heard of within this is there.
const LIVE_FOR: Micros = Micros(1_500_000);
/// Between two confirmed signs of life no more than this counts as time in which the ledger answered.
const MAX_COUNTED: Micros = Micros(2_000_000);
/// Servers that are remembered.
const MAX_KNOWN_SERVERS: usize = 4_096;
/// A server of which nothing was heard for this is not counted on.
const KNOWN_FOR: Micros = Micros(10_000_000);
/// Regions, neighbours of one, and round-trip times that a server tells of at most.
pub const MAX_STATUS: usize = 16;

/// What a server says of one of its regions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegionStatus {
    /// The region.
    pub region: RegionId,
    /// The share of a round that it takes, in thousandths; none: not known.
    pub load: Option<u16>,
    /// Players' avatars in it.
    pub players: u32,
    /// Bytes that neighbouring regions are sent in a second.
    pub borders: Vec<(RegionId, u32)>,
}

/// What a server says of itself, in its signs of life and by gossip.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ServerStatus {
    /// The world's time when it was said, in microseconds.
    pub stamp: u64,
    /// The machine that it runs on; 0: not known.
    pub machine: u64,
    /// It is being drained.
    pub leaving: bool,
    /// It helps a region.
    pub helps: bool,
    /// Its regions.
    pub regions: Vec<RegionStatus>,
    /// Round-trip times to other servers, in microseconds; the nearest first.
    pub rtts: Vec<(ServerId, u32)>,
}

impl ServerStatus {
    /// Whether it is as long as it may be.
    pub fn fits(&self) -> bool {
        self.regions.len() <= MAX_STATUS
            && self.rtts.len() <= MAX_STATUS
            && self.regions.iter().all(|it| it.borders.len() <= MAX_STATUS)
    }

    /// The share of a round that all of its regions take.
    pub fn load(&self) -> Option<f32> {
        let loads = self.regions.iter().map(|it| it.load.map(|load| f32::from(load) / 1e3));
        loads.sum()
    }
}

/// What `server` subjects hold.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum ServerRecord {
    /// The server lives.
    Alive(ServerStatus),
    /// Another one has found it dead: it must not act any more.
    Dead,
}

/// This server's own signs of life.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Heartbeat {
    /// The last entry of its subject.
    pub last: u64,
    /// When the last confirmed one was sent.
    confirmed: Option<Micros>,
    /// When that was known.
    answered: Option<Micros>,
    /// Time in which the ledger confirmed them.
    pub counted: Micros,
    said: Option<Micros>,
}

impl Heartbeat {
    /// Until when this server may act.
    pub fn until(&self) -> Micros {
        self.confirmed.map_or(Micros::ZERO, |sent| sent + CONFIRMED_LEASE)
    }

    /// Whether the ledger answered lately.
    pub fn is_answered(&self, now: Micros) -> bool {
        self.answered.is_some_and(|answered| now - answered <= MAX_COUNTED)
    }

    /// One that was sent then is entry `sequence`.
    pub fn confirm(&mut self, sequence: u64, sent: Micros, now: Micros) {
        if let Some(before) = self.answered.filter(|before| now - *before <= MAX_COUNTED) {
            self.counted = self.counted + (now - before);
        }
        (self.last, self.answered) = (sequence, Some(now));
        self.confirmed = self.confirmed.max(Some(sent));
    }
}

/// Another server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct KnownServer {
    /// When it was last heard on the bus.
    heard: Option<Micros>,
    /// The last entry of its subject.
    last: u64,
    /// The counted time when that was read, and a little more.
    seen: Micros,
    dead: bool,
    /// What it last said of itself, over how many others that came, and when.
    status: Option<(ServerStatus, u8, Micros)>,
}

/// The other servers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct KnownServers {
    by_id: BTreeMap<ServerId, KnownServer>,
}

impl KnownServers {
    /// A server was heard on the bus.
    pub fn hear(&mut self, server: ServerId, now: Micros) {
        if self.by_id.len() < MAX_KNOWN_SERVERS || self.by_id.contains_key(&server) {
            self.by_id.entry(server).or_default().heard = Some(now);
        }
    }

    /// A server's record was read, or appended by this one.
    pub fn read(
        &mut self,
        server: ServerId,
        sequence: u64,
        record: ServerRecord,
        (counted, now): (Micros, Micros),
    ) {
        let it = self.by_id.entry(server).or_default();
        if sequence > it.last {
            (it.last, it.dead) = (sequence, it.dead || matches!(record, ServerRecord::Dead));
            // Counted time stands still between two confirmations: it may be behind by one interval.
            it.seen = counted + MAX_COUNTED;
            if let ServerRecord::Alive(status) = record {
                self.learn(server, status, 0, now);
            }
        }
    }

    /// A server said something of itself, which came over so many others. False: it is not new.
    pub fn learn(&mut self, server: ServerId, status: ServerStatus, hops: u8, now: Micros) -> bool {
        let room = self.by_id.len() < MAX_KNOWN_SERVERS || self.by_id.contains_key(&server);
        if !room || !status.fits() {
            return false;
        }
        let it = self.by_id.entry(server).or_default();
        let new = it.status.as_ref().is_none_or(|known| known.0.stamp < status.stamp);
        if new {
            it.status = Some((status, hops, now));
        }
        new
    }

    /// What is known of servers, and over how many others; not of those that are silent or dead.
    pub fn statuses(&self, now: Micros) -> impl Iterator<Item = (ServerId, &ServerStatus, u8)> {
        let lately = self.by_id.iter().filter(|(_, it)| !it.dead);
        lately.filter_map(move |(id, it)| {
            let (status, hops, heard) = it.status.as_ref()?;
            (now - *heard < KNOWN_FOR).then_some((*id, status, *hops))
        })
    }

    /// What a server last said of itself.
    pub fn status(&self, server: ServerId) -> Option<&ServerStatus> {
        self.by_id.get(&server)?.status.as_ref().map(|it| &it.0)
    }

    /// Whether a server is being drained, as far as is known.
    pub fn is_leaving(&self, server: ServerId) -> bool {
        self.status(server).is_some_and(|it| it.leaving)
    }

    /// Servers that are there or were, of late.
    pub fn known(&self, now: Micros) -> impl Iterator<Item = ServerId> + '_ {
        let lately = move |at: Option<Micros>| at.is_some_and(|at| now - at < KNOWN_FOR);
        let known = self.by_id.iter().filter(move |(_, it)| {
            !it.dead && (lately(it.heard) || lately(it.status.as_ref().map(|it| it.2)))
        });
        known.map(|(id, _)| *id)
    }

    /// The server's subject is followed from now on: its silence counts from now.
    pub fn begin(&mut self, server: ServerId, counted: Micros) {
        self.by_id.entry(server).or_default().seen = counted + MAX_COUNTED;
    }

    /// Those that are there.
    pub fn live(&self, now: Micros) -> impl Iterator<Item = ServerId> + '_ {
        let lately = move |it: &KnownServer| it.heard.is_some_and(|heard| now - heard < LIVE_FOR);
        self.by_id.iter().filter(move |(_, it)| !it.dead && lately(it)).map(|(id, _)| *id)
    }

    /// Whether it was declared dead.
    pub fn is_dead(&self, server: ServerId) -> bool {
        self.by_id.get(&server).is_some_and(|it| it.dead)
    }

    /// The last entry of a server that has given no sign of life for long; none if it has.
    fn silent(&mut self, server: ServerId, counted: Micros) -> Option<u64> {
        let it = self.by_id.entry(server).or_insert_with(|| KnownServer {
            seen: counted + MAX_COUNTED,
            ..KnownServer::default()
        });
        (counted.saturating_sub(it.seen) >= ABANDONED && it.seen != Micros::ZERO).then_some(it.last)
    }
}

impl<G: Game> RegionServer<G> {
    /// Signs of life, in the ledger and on the bus.
    pub(super) fn show_life(&mut self, now: Micros) {
        let due = |said: Option<Micros>| said.is_none_or(|said| now - said >= HEARTBEAT_EVERY);
        if !due(self.heartbeat.said) {
            return;
        }
        self.heartbeat.said = Some(now);
        let at = (Subject::Server(self.me), self.heartbeat.last);
        let record = ServerRecord::Alive(self.own_status(now));
        let request = self.appends.append(at, &record, now);
        self.events.extend(request.map(RegionEvent::Ledger));
        // Those that it knows it sends echoes.
        if self.servers.live(now).next().is_none() {
            self.publish(Recipient::All, BusMessage::Hello, now + HEARTBEAT_EVERY);
        }
    }

    /// Takes regions whose owner and standby are both gone: they are first declared dead, which fails if they are not.
    pub(super) fn take_abandoned(&mut self, now: Micros) {
        let Some((_, layout)) = &self.layout else { return };
        let named = |info: &RegionInfo| [Some(info.server), info.standby];
        let others: Vec<(RegionId, RegionInfo)> = layout
            .regions()
            .filter(|(id, info)| !named(info).contains(&Some(self.me)) && self.watches(*id))
            .map(|(id, info)| (id, *info))
            .collect();
        for (id, info) in others {
            let mut gone = true;
            for server in named(&info).into_iter().flatten() {
                if self.servers.is_dead(server) {
                    continue;
                }
                gone = false;
                let Some(last) = self.servers.silent(server, self.heartbeat.counted) else { break };
                let at = (Subject::Server(server), last);
                let request = self.appends.append(at, &ServerRecord::Dead, now);
                self.events.extend(request.map(RegionEvent::Ledger));
            }
            if gone && self.intent.is_none() {
                self.ask_for(id, now);
            }
        }
    }

    /// An append to a `server` subject is this entry.
    pub(super) fn on_server_appended(
        &mut self,
        server: ServerId,
        at: u64,
        sent: Micros,
        now: Micros,
    ) {
        if server == self.me {
            self.heartbeat.confirm(at, sent, now);
        } else {
            let times = (self.heartbeat.counted, now);
            self.servers.read(server, at, ServerRecord::Dead, times);
            self.reach(MeshStep::DeclaredDead);
        }
    }

    /// Asks for a region, in the next epoch.
    pub(super) fn ask_for(&mut self, id: RegionId, now: Micros) {
        let Some((_, layout)) = &self.layout else { return };
        let mut wanted = layout.clone();
        let Some(info) = wanted.get_mut(id) else { return };
        let standby = self.candidate(id, &[Some(info.server), info.standby], now);
        (info.epoch, info.server, info.standby) = (info.epoch + 1, self.me, standby);
        if self.propose(Intent::TakeOver(id), wanted, now) {
            self.reach(MeshStep::TakeoverAsked);
        }
    }
}
