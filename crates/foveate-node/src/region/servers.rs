//! Who is there: signs of life in the ledger and on the bus, and what becomes of regions whose servers are gone.

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

/// What `server` subjects hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum ServerRecord {
    /// The server lives.
    Alive,
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct KnownServer {
    /// When it was last heard on the bus.
    heard: Option<Micros>,
    /// The last entry of its subject.
    last: u64,
    /// The counted time when that was read, and a little more.
    seen: Micros,
    dead: bool,
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
    pub fn read(&mut self, server: ServerId, sequence: u64, record: ServerRecord, counted: Micros) {
        let it = self.by_id.entry(server).or_default();
        if sequence > it.last {
            (it.last, it.dead) = (sequence, it.dead || record == ServerRecord::Dead);
            // Counted time stands still between two confirmations: it may be behind by one interval.
            it.seen = counted + MAX_COUNTED;
        }
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
        let request = self.appends.append(at, &ServerRecord::Alive, now);
        self.events.extend(request.map(RegionEvent::Ledger));
        self.publish(Recipient::All, BusMessage::Hello, now + HEARTBEAT_EVERY);
    }

    /// Takes regions whose owner and standby are both gone: they are first declared dead, which fails if they are not.
    pub(super) fn take_abandoned(&mut self, now: Micros) {
        let Some((_, layout)) = &self.layout else { return };
        let named = |info: &RegionInfo| [Some(info.server), info.standby];
        let others: Vec<(RegionId, RegionInfo)> = layout
            .regions()
            .filter(|(_, info)| !named(info).contains(&Some(self.me)))
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

    /// The best standby for a region of this server.
    pub(super) fn candidate(&self, except: &[Option<ServerId>], now: Micros) -> Option<ServerId> {
        let duties = |server: ServerId| {
            let regions = self.layout.iter().flat_map(|(_, layout)| layout.regions());
            regions.filter(|(_, info)| info.standby == Some(server)).count()
        };
        let live =
            self.servers.live(now).filter(|it| *it != self.me && !except.contains(&Some(*it)));
        live.min_by_key(|it| (duties(*it), *it))
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
            self.servers.read(server, at, ServerRecord::Dead, self.heartbeat.counted);
            self.reach(MeshStep::DeclaredDead);
        }
    }

    /// Asks for a region, in the next epoch.
    pub(super) fn ask_for(&mut self, id: RegionId, now: Micros) {
        let Some((_, layout)) = &self.layout else { return };
        let mut wanted = layout.clone();
        let Some(info) = wanted.get_mut(id) else { return };
        let standby = self.candidate(&[Some(info.server), info.standby], now);
        (info.epoch, info.server, info.standby) = (info.epoch + 1, self.me, standby);
        if self.propose(Intent::TakeOver(id), wanted, now) {
            self.reach(MeshStep::TakeoverAsked);
        }
    }
}
