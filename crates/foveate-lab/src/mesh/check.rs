//! The checker: it sees everything, and believes no server.
//!
//! It looks at what every server has stepped after each of its rounds, and at every append. It keeps its own account
//! of which server may act, from the ledger alone.

use super::game::{CRATE, Crate, Drift};
use super::ledger::SimLedger;
use foveate_node::game::{Game, PlayerId};
use foveate_node::region::RegionServer;
use foveate_node::region::layout::{Layout, RegionId, ServerId};
use foveate_node::region::ledger::{AppendId, Subject, read_record};
use foveate_node::region::log::{LogEntry, LogView, read_batch};
use foveate_node::region::players::PlayerRecord;
use foveate_wire::{Micros, ObjectId, Replicate};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Findings that are kept; more are counted.
const MAX_FINDINGS: usize = 20;

/// What must not happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum FindingKind {
    /// An object was stepped twice in a tick.
    SteppedTwice,
    /// A region was stepped by a server whose epoch its log has fenced off.
    SteppedFenced,
    /// Two servers had the right to act for a region at a time.
    TwoLeases,
    /// An object's epoch fell.
    EpochFell,
    /// In the end an object has no owner.
    Lost,
    /// In the end an object has two owners.
    Doubled,
    /// More pings were got than sent.
    ActedTwice,
    /// Two servers host a player's session at a time.
    TwoHosts,
    /// An avatar used an input twice.
    InputTwice,
    /// A client's replicas are not what is there.
    Diverged,
    /// A client shows an object that is not there.
    Ghost,
    /// A client's session does not follow its avatar.
    Stuck,
    /// A player is in without avatar or belongings, or has them twice, or has lost them.
    PlayerLost,
    /// The session epoch in a player's record did not rise by one.
    RecordForked,
}

/// Something that must not happen, and did.
#[derive(Clone, PartialEq, Debug)]
pub struct MeshFinding {
    /// Which rule was broken.
    pub kind: FindingKind,
    /// The laboratory's time.
    pub at: Micros,
    /// The objects, servers and epochs that it is about.
    pub text: String,
}

/// The last turn of an object.
#[derive(Clone, Copy, Debug)]
struct LastTurn {
    tick: u32,
    server: ServerId,
    epoch: u32,
}

/// The ticks in which a server stepped an object of this epoch.
#[derive(Clone, Copy, Debug)]
struct SteppedTicks {
    server: ServerId,
    epoch: u32,
    from: u32,
    stepped: u32,
}

/// Watches all servers and the ledger.
pub struct MeshChecker {
    game: Arc<Drift>,
    turns: BTreeMap<ObjectId, LastTurn>,
    /// By the ledger: the epoch of each region's last fence.
    pub fenced: BTreeMap<RegionId, u32>,
    /// All that was ever logged, replayed.
    pub logs: BTreeMap<RegionId, LogView>,
    /// Kept objects that were created, by the logs.
    created: BTreeSet<ObjectId>,
    /// All objects that were removed, by the logs.
    removed: BTreeSet<ObjectId>,
    /// The server that last had the right to act for a region, and its epoch.
    acting: BTreeMap<RegionId, (ServerId, u32)>,
    /// Pings that each crate was sent and did not get, in the end; the least of several looks, because some are on
    /// their way.
    pub pings: BTreeMap<ObjectId, u16>,
    /// When an owner crashed.
    down: BTreeMap<RegionId, Micros>,
    /// When a standby asked for the region of one that crashed.
    pub noticed: BTreeMap<RegionId, Micros>,
    /// How long regions were without an owner after its crash.
    pub takeovers: Vec<Micros>,
    /// How long regions were without an owner after a standby had noticed.
    pub successions: Vec<Micros>,
    /// The session epoch in each player's record.
    records: BTreeMap<u32, u32>,
    /// The host of each player's session: its epoch and the server.
    hosts: BTreeMap<PlayerId, (u64, ServerId)>,
    /// Findings.
    pub findings: Vec<MeshFinding>,
    /// How many of each kind there were.
    pub tally: BTreeMap<FindingKind, u64>,
    /// Turns that were looked at.
    pub looked: u64,
}

impl MeshChecker {
    /// Nothing was seen yet.
    pub fn new(game: Arc<Drift>) -> MeshChecker {
        MeshChecker {
            game,
            turns: BTreeMap::new(),
            fenced: BTreeMap::new(),
            logs: BTreeMap::new(),
            created: BTreeSet::new(),
            removed: BTreeSet::new(),
            acting: BTreeMap::new(),
            pings: BTreeMap::new(),
            down: BTreeMap::new(),
            noticed: BTreeMap::new(),
            takeovers: Vec::new(),
            successions: Vec::new(),
            records: BTreeMap::new(),
            hosts: BTreeMap::new(),
            findings: Vec::new(),
            tally: BTreeMap::new(),
            looked: 0,
        }
    }

    /// Notes something that must not happen.
    pub fn find(&mut self, kind: FindingKind, at: Micros, text: String) {
        *self.tally.entry(kind).or_default() += 1;
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(MeshFinding { kind, at, text });
        }
    }

    /// The ledger took an append.
    pub fn appended(&mut self, subject: Subject, sequence: u64, bytes: &[u8], now: Micros) {
        if let Subject::Player(player) = subject
            && let Ok((_, record)) = read_record::<(AppendId, PlayerRecord)>(bytes)
        {
            let before = self.records.insert(player, record.epoch).unwrap_or(0);
            // What a player came with is taken out of the record once the log has it.
            if record.epoch != before && record.epoch != before + 1 {
                let text = format!("{player} goes from epoch {before} to {}", record.epoch);
                self.find(FindingKind::RecordForked, now, text);
            }
        }
        let Subject::Log(region) = subject else { return };
        let Ok((_, batch)) = read_batch(bytes) else { return };
        if !self.logs.entry(region).or_default().apply(sequence, &batch) {
            return;
        }
        for entry in &batch.entries {
            match entry {
                LogEntry::Fence { epoch } => drop(self.fenced.insert(region, *epoch)),
                LogEntry::Checkpoint { object, state, .. }
                | LogEntry::Amend { object, state, .. } => {
                    let id = ObjectId(*object);
                    // Logs are not ordered among each other: what was removed stays removed.
                    match state {
                        None => drop(self.removed.insert(id)),
                        Some(_) if self.game.keeps(id.kind()) => drop(self.created.insert(id)),
                        Some(_) => {}
                    }
                }
                _ => {}
            }
        }
    }

    /// A server crashed.
    pub fn crashed(&mut self, server: &RegionServer<Drift>, now: Micros) {
        for region in server.regions() {
            if self.fenced.get(&region.id) == Some(&region.epoch) {
                self.down.entry(region.id).or_insert(now);
                self.noticed.remove(&region.id);
            }
        }
    }

    /// A standby asks for the regions of a silent owner.
    pub fn detected(&mut self, server: &RegionServer<Drift>, now: Micros) {
        for region in server.taking().filter(|it| self.down.contains_key(it)) {
            self.noticed.entry(region).or_insert(now);
        }
    }

    /// A server had a round.
    pub fn look(&mut self, server: &RegionServer<Drift>, clock: Micros, now: Micros) {
        for region in server.regions() {
            let (id, me) = (region.id, server.id());
            if server.may_act_until(id) <= clock {
                continue;
            }
            let fenced = self.fenced.get(&id).copied().unwrap_or(0);
            if fenced > region.epoch {
                let text =
                    format!("{me:?} runs {id:?} in epoch {}, fenced by {fenced}", region.epoch);
                self.find(FindingKind::SteppedFenced, now, text);
            }
            let acting = self.acting.insert(id, (me, region.epoch));
            if let Some((other, epoch)) = acting.filter(|it| it.1 > region.epoch) {
                let text = format!("{me:?} acts for {id:?} after {other:?} in epoch {epoch}");
                self.find(FindingKind::TwoLeases, now, text);
            }
            if let Some(since) = self.down.remove(&id) {
                self.takeovers.push(now - since);
                self.successions.extend(self.noticed.get(&id).map(|noticed| now - *noticed));
            }
            for (object, row) in region.owned() {
                let (from, stepped, epoch) = (row.from, row.stepped, row.epoch);
                self.turn(object, SteppedTicks { server: me, epoch, from, stepped }, now);
            }
        }
    }

    /// A session has one host: a server with a lower epoch than another had before is not the host any more.
    pub fn look_at_hosts(&mut self, server: &RegionServer<Drift>, clock: Micros, now: Micros) {
        for (region, player, epoch) in server.hosted_players() {
            if server.may_act_until(region) <= clock {
                continue;
            }
            let before = self.hosts.get(&player).copied();
            let other =
                |it: &(u64, ServerId)| it.0 > epoch || *it == (epoch, it.1) && it.1 != server.id();
            if let Some((later, other)) = before.filter(other) {
                let me = server.id();
                let text = format!("{player:?} at {me:?} in {epoch:x}, at {other:?} in {later:x}");
                self.find(FindingKind::TwoHosts, now, text);
            } else {
                self.hosts.insert(player, (epoch, server.id()));
            }
        }
    }

    fn turn(
        &mut self,
        object: ObjectId,
        SteppedTicks { server, epoch, from, stepped }: SteppedTicks,
        now: Micros,
    ) {
        self.looked += 1;
        let Some(last) = self.turns.get(&object).copied() else {
            self.turns.insert(object, LastTurn { tick: stepped, server, epoch });
            return;
        };
        let first = if last.server == server && last.epoch == epoch {
            from.max(last.tick + 1)
        } else {
            from
        };
        if first > stepped {
            return;
        }
        if first <= last.tick {
            let text =
                format!("{object:?} in ticks {first}..={stepped} by {server:?}, before {last:?}");
            self.find(FindingKind::SteppedTwice, now, text);
        }
        if epoch < last.epoch {
            let text = format!("{object:?} has epoch {epoch} at {server:?}, before {last:?}");
            self.find(FindingKind::EpochFell, now, text);
        }
        self.turns.insert(object, LastTurn { tick: stepped, server, epoch });
    }

    /// After everything has settled: which region owns each object, and whether each action was carried out once.
    /// Objects on their way have no owner for a moment; `settle` returns those that should have one.
    pub fn settle<'a>(
        &mut self,
        servers: impl Iterator<Item = &'a RegionServer<Drift>>,
        ledger: &SimLedger,
        now: Micros,
    ) -> BTreeSet<ObjectId> {
        let mut owners: BTreeMap<ObjectId, Vec<(ServerId, RegionId)>> = BTreeMap::new();
        let mut crates = BTreeMap::new();
        let (runs, game) = (layout(ledger), Arc::clone(&self.game));
        for server in servers {
            let current = server.regions().filter(|region| {
                let info = runs.as_ref().and_then(|layout| layout.get(region.id));
                info.is_some_and(|it| (it.server, it.epoch) == (server.id(), region.epoch))
            });
            for region in current {
                for (object, _) in region.owned() {
                    owners.entry(object).or_default().push((server.id(), region.id));
                    let state = region.state(object).filter(|_| object.kind() == CRATE);
                    if let Some((state, kind)) = state.zip(game.schema().kind(CRATE)) {
                        crates.insert(object, Crate::get(kind, &state.lanes));
                    }
                }
            }
        }
        for (object, owners) in owners.iter().filter(|(_, owners)| owners.len() > 1) {
            self.find(FindingKind::Doubled, now, format!("{object:?} is owned by {owners:?}"));
        }
        for (object, it) in &crates {
            let partner = crates.get(&Drift::partner(*object));
            if partner.is_some_and(|partner| it.got > partner.sent) {
                let text = format!("{object:?} got {}, its partner sent {:?}", it.got, partner);
                self.find(FindingKind::ActedTwice, now, text);
            }
            if let Some(partner) = partner {
                let missing = partner.sent.saturating_sub(it.got);
                let least = self.pings.entry(*object).or_insert(missing);
                *least = missing.min(*least);
            }
        }
        let fixed = self.turns.keys().filter(|id| !id.is_minted());
        let all = self.created.iter().chain(fixed).filter(|id| !self.removed.contains(*id));
        all.filter(|id| !owners.contains_key(*id)).copied().collect()
    }

    /// These had no owner for long.
    pub fn lose(&mut self, objects: &BTreeSet<ObjectId>, now: Micros) {
        for object in
            objects.iter().filter(|id| !self.removed.contains(*id)).copied().collect::<Vec<_>>()
        {
            let text = format!("{object:?}, last {:?}", self.turns.get(&object));
            self.find(FindingKind::Lost, now, text);
        }
    }

    /// Pings that were sent and not got, in the end.
    pub fn pings_lost(&self) -> u64 {
        self.pings.values().map(|missing| u64::from(*missing)).sum()
    }

    /// Kept objects that there should be, by the logs.
    pub fn kept(&self) -> usize {
        self.created.difference(&self.removed).count()
    }
}

/// The layout that the ledger has.
pub fn layout(ledger: &SimLedger) -> Option<Layout> {
    let newest = ledger.history(Subject::Layout).last()?.1;
    let (_, record): (AppendId, Vec<u8>) = read_record(newest).ok()?;
    Layout::read(&record).ok()
}
