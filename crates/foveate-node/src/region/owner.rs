//! One region at its owner: the simulation, what of it is owned and what relayed, and what is on its way.
//!
//! One call of [`Region::tick`] a round, in this order: what arrived, what has to catch up, what other regions
//! ask, the rules, what has to be logged, what has to leave, what others are told.

use super::actions::{Judgement, NewAsk, RemoteAsks, forget_marks, judge};
use super::border::{Feed, OwnedObjects, STALE_AFTER, StreamNames, Subscriber, creator};
use super::bus::{BusMessage, HandoffState, MAX_ASKS_SENT, RegionEpoch, RemoteAsk, SessionNote};
use super::closing::Closing;
use super::handoff::OutboundTransfer;
use super::hosting::{HostedSession, RemoteInput};
use super::layout::{Layout, RegionId, ServerId};
use super::lease::OwnerLease;
use super::log::{AskMark, LogBatch, LogEntry, LogView, ObjectState};
use super::sessions::Players;
use super::{MeshStep, RegionSettings};
use crate::game::{Game, PlayerId, Requester};
use crate::ids::IdAllocator;
use crate::sessions::PlayerSessions;
use crate::simulation::Simulation;
use foveate_wire::{Micros, ObjectId, OwnerId, Tick};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Ticks that an object which comes late is stepped for; what is older is skipped.
pub const MAX_CATCH_UP: u32 = 8;
/// Numbers for new objects in each tick, on average.
const IDS_A_TICK: u64 = 16;
/// How many ticks' worth of numbers may be used at once.
const IDS_AHEAD: u64 = 16;
/// Entries of one append at most.
const MAX_BATCH: usize = 512;
/// Objects that wait to be taken in at most; their states are repeated.
const MAX_ARRIVALS: usize = 4_096;
/// Questions of other regions that wait for a tick at most.
const MAX_QUESTIONS: usize = 4_096;

/// An object that the region owns.
#[derive(Clone, PartialEq, Debug)]
pub struct OwnedRow {
    /// How often it changed regions.
    pub epoch: u32,
    /// The last tick that it was stepped in.
    pub stepped: u32,
    /// The first tick that it was stepped in here; later than `stepped` before its first turn.
    pub from: u32,
    /// Since when the region owns it.
    pub since: u32,
    /// For how many ticks it has been in another region's area.
    pub outside: u32,
    /// What was carried out for other regions.
    pub marks: Vec<AskMark>,
    /// Its lanes as the log knows them, if it does.
    pub logged: Option<Vec<i32>>,
    /// Something was carried out for another region that the log does not know.
    pub marked: bool,
    /// It is being given to another region.
    pub offered: Option<RegionId>,
}

impl OwnedRow {
    /// How the log is told of its state: while it is being given away it is the transfer that changes.
    pub(super) fn entry(&self, id: ObjectId, state: Option<ObjectState>) -> LogEntry {
        match self.offered {
            Some(_) => LogEntry::Amend { object: id.0, epoch: self.epoch + 1, state },
            None => LogEntry::Checkpoint { object: id.0, epoch: self.epoch, state },
        }
    }
}

/// A row of the store.
#[derive(Clone, PartialEq, Debug)]
pub enum Row {
    /// Stepped here.
    Owned(OwnedRow),
    /// Another region's, which told of it.
    Relayed {
        /// The region.
        from: RegionId,
        /// The tick of its state.
        tick: u32,
        /// Not confirmed since its feed began anew, at that time.
        stale: Option<Micros>,
    },
}

/// What a region's work leads to, in order.
pub enum Effect {
    /// A message for a server.
    Send(ServerId, BusMessage),
    /// A step of the protocol was reached.
    Reached(MeshStep),
    /// An object came from another region, so many ticks late.
    Arrived(ObjectId, u32, u32),
    /// An action was not answered, and was given up.
    AskLost,
}

/// What a region needs to know of the rest.
pub struct Surroundings<'a> {
    /// The server.
    pub me: ServerId,
    /// The layout.
    pub layout: &'a Layout,
    /// The logs that are followed, this region's included.
    pub logs: &'a mut BTreeMap<RegionId, LogView>,
    /// Settings.
    pub settings: &'a RegionSettings,
    /// Names for streams.
    pub streams: &'a mut StreamNames,
    /// The time.
    pub now: Micros,
    /// What comes of it.
    pub effects: &'a mut Vec<Effect>,
}

impl Surroundings<'_> {
    /// Says something to the owner of a region.
    pub fn send(&mut self, to: RegionId, message: BusMessage) {
        if let Some(info) = self.layout.get(to) {
            self.effects.push(Effect::Send(info.server, message));
        }
    }
}

/// An append on its way.
pub struct Flight {
    /// What is in it.
    pub batch: LogBatch,
    /// Whether nothing was left behind.
    whole: bool,
}

/// A region that this server runs.
pub struct Region<G: Game> {
    /// The region.
    pub id: RegionId,
    /// The epoch in which this server runs it.
    pub epoch: u32,
    /// Its standby, as the layout says.
    pub standby: Option<ServerId>,
    /// The right to act.
    pub lease: OwnerLease,
    /// Since when this server runs it with this standby.
    pub since: Micros,
    /// The objects.
    pub simulation: Simulation<G>,
    /// Which of them the region owns, and which others do.
    pub rows: BTreeMap<ObjectId, Row>,
    /// What was given away and may not have arrived.
    pub transfers: BTreeMap<ObjectId, OutboundTransfer>,
    /// What came and has not been taken in.
    pub arrivals: BTreeMap<ObjectId, (RegionId, HandoffState)>,
    /// Who is told.
    pub subscribers: BTreeMap<RegionId, Subscriber>,
    /// Who tells.
    pub feeds: BTreeMap<RegionId, Feed>,
    /// What is asked of others.
    pub asks: RemoteAsks,
    /// The append on its way.
    pub flight: Option<Flight>,
    pub(super) owned: OwnedObjects,
    pub(super) queue: Vec<LogEntry>,
    /// The log has everything up to this tick.
    confirmed: u32,
    /// The last tick.
    pub ticked: u32,
    /// No object is stepped here in an earlier tick: a former owner may have done so.
    pub(super) first_tick: u32,
    given: BTreeMap<ObjectId, (RegionId, u32)>,
    pub(super) questions: BTreeMap<(ObjectId, AskMark), RemoteAsk>,
    /// Answers, each with the tick that the log must have reached and the server that asked.
    pub(super) answers: BTreeMap<(ObjectId, AskMark), (u32, ServerId)>,
    snapshot: Option<SnapshotCursor>,
    snapshot_due: u32,
    /// Positions outside of its area of what it owns, for its neighbours.
    pub(super) points: Vec<[f32; 2]>,
    /// Whether it is being closed, and how far that has come.
    pub(super) closing: Closing,
    /// The players that it hosts.
    pub sessions: PlayerSessions<G>,
    /// What belongs to their sessions on region servers only.
    pub(super) hosted: BTreeMap<PlayerId, HostedSession>,
    /// Inputs for its avatars.
    pub(super) inputs: BTreeMap<ObjectId, VecDeque<RemoteInput<G::Input>>>,
    /// Players whose objects must not change regions: they are about to leave.
    pub(super) staying: BTreeSet<PlayerId>,
    /// Players that came in a tick; once the log has that, the ledger need not keep what they came with.
    pub(super) settling: BTreeMap<PlayerId, u32>,
    /// Avatars without a session, since when.
    pub(super) orphans: BTreeMap<PlayerId, Micros>,
    /// Players that wait at this server for a session that should be here.
    pub(super) missed: BTreeSet<PlayerId>,
    /// Sessions of the former owner's.
    pub(super) notes: BTreeMap<PlayerId, SessionNote>,
}

/// How a server begins to run a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionStart {
    /// The region and the epoch in which the server runs it.
    pub name: RegionEpoch,
    /// Its standby, as the layout says.
    pub standby: Option<ServerId>,
    /// The world's tick.
    pub tick: u32,
    /// The server's time.
    pub now: Micros,
}

/// How far a snapshot has come.
#[derive(Clone, Copy, Debug, Default)]
struct SnapshotCursor {
    /// The append that it began in, once that is known.
    begun: u64,
    /// The last object in it.
    last: Option<ObjectId>,
}

impl<G: Game> Region<G> {
    /// A region without objects.
    pub fn new(game: &Arc<G>, settings: &RegionSettings, start: RegionStart) -> Region<G> {
        let RegionStart { name: RegionEpoch { region: id, epoch }, standby, tick, now } = start;
        let mut simulation = Simulation::new(Arc::clone(game), settings.rounds);
        simulation.ids = IdAllocator::for_node(PlayerId(creator(id)));
        simulation.ids.skip_to(u64::from(tick) * IDS_A_TICK);
        Region {
            id,
            epoch,
            standby,
            lease: OwnerLease::new(standby.is_none()),
            since: now,
            simulation,
            rows: BTreeMap::new(),
            transfers: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            feeds: BTreeMap::new(),
            asks: RemoteAsks::default(),
            flight: None,
            owned: OwnedObjects::default(),
            queue: Vec::new(),
            confirmed: tick,
            ticked: tick,
            first_tick: if epoch > 1 { tick } else { 0 },
            given: BTreeMap::new(),
            questions: BTreeMap::new(),
            answers: BTreeMap::new(),
            snapshot: None,
            snapshot_due: tick + settings.snapshot_every,
            points: Vec::new(),
            closing: Closing::default(),
            sessions: Players::default().sessions(game),
            hosted: BTreeMap::new(),
            inputs: BTreeMap::new(),
            staying: BTreeSet::new(),
            settling: BTreeMap::new(),
            orphans: BTreeMap::new(),
            missed: BTreeSet::new(),
            notes: BTreeMap::new(),
        }
    }

    /// How the region names itself.
    pub fn name(&self) -> RegionEpoch {
        RegionEpoch { region: self.id, epoch: self.epoch }
    }

    /// The objects that it owns, with the last tick of each.
    pub fn owned(&self) -> impl Iterator<Item = (ObjectId, &OwnedRow)> + '_ {
        self.rows.iter().filter_map(|(id, row)| match row {
            Row::Owned(row) => Some((*id, row)),
            Row::Relayed { .. } => None,
        })
    }

    /// Whether it owns an object.
    pub fn owns(&self, id: ObjectId) -> bool {
        matches!(self.rows.get(&id), Some(Row::Owned(_)))
    }

    /// The owned row of an object.
    pub fn owned_row(&mut self, id: ObjectId) -> Option<&mut OwnedRow> {
        match self.rows.get_mut(&id) {
            Some(Row::Owned(row)) => Some(row),
            _ => None,
        }
    }

    /// An object as it is now.
    pub fn state(&self, id: ObjectId) -> Option<ObjectState> {
        let store = &self.simulation.publisher.store;
        let lanes = store.lanes(store.find(id)?).to_vec();
        match self.rows.get(&id)? {
            Row::Owned(row) => {
                Some(ObjectState { tick: row.stepped, lanes, marks: row.marks.clone() })
            }
            Row::Relayed { tick, .. } => {
                Some(ObjectState { tick: *tick, lanes, marks: Vec::new() })
            }
        }
    }

    /// Owns an object from now on; `logged`: the log knows it like this.
    pub fn own(&mut self, id: ObjectId, epoch: u32, state: &ObjectState, logged: bool) -> bool {
        if !self.write(id, &state.lanes) {
            return false;
        }
        let stepped = state.tick.max(self.first_tick.saturating_sub(1));
        let row = OwnedRow {
            epoch,
            stepped,
            from: stepped + 1,
            since: self.ticked,
            outside: 0,
            marks: state.marks.clone(),
            logged: logged.then(|| state.lanes.clone()),
            marked: false,
            offered: None,
        };
        self.rows.insert(id, Row::Owned(row));
        self.owned.insert(id);
        self.given.remove(&id);
        true
    }

    /// Puts an object into the store, or changes it there. False: it does not fit the schema.
    fn write(&mut self, id: ObjectId, lanes: &[i32]) -> bool {
        let store = &mut self.simulation.publisher.store;
        match store.find(id) {
            Some(slot) => store.set_lanes(slot, lanes).is_ok(),
            None => store.create_lanes(id, OwnerId(0), lanes).is_ok(),
        }
    }

    /// Another region owns the object from now on: the row stays, until that region tells of it or does not.
    pub fn relay(&mut self, id: ObjectId, from: RegionId, (tick, now): (u32, Micros)) {
        self.rows.insert(id, Row::Relayed { from, tick, stale: Some(now) });
        self.owned.remove(id);
    }

    /// An object was given to a region: until that tick actions for it are forwarded there.
    pub(super) fn gave(&mut self, id: ObjectId, to: RegionId, until: u32) {
        self.given.insert(id, (to, until));
    }

    /// The log has everything up to this tick.
    pub(super) fn confirmed(&self) -> u32 {
        self.confirmed
    }

    /// The tick that the log must reach before it has all that was done so far.
    pub(super) fn unlogged_until(&self) -> u32 {
        if self.queue.is_empty() && self.flight.is_none() { 0 } else { self.ticked }
    }

    /// A row is no more.
    pub fn forget(&mut self, id: ObjectId) {
        let store = &mut self.simulation.publisher.store;
        if let Some(slot) = store.find(id) {
            let removed = store.remove(slot);
            debug_assert!(removed.is_ok(), "it was found alive");
        }
        self.rows.remove(&id);
        self.owned.remove(id);
    }

    /// A neighbour told of an object.
    pub fn hear(&mut self, id: ObjectId, from: RegionId, (tick, lanes): (u32, &[i32])) {
        let fresh = match self.rows.get(&id) {
            Some(Row::Owned(_)) => false,
            // No object is stepped twice in a tick: the later state is its present owner's.
            Some(Row::Relayed { tick: known, .. }) => tick > *known,
            None => true,
        };
        if fresh && self.write(id, lanes) {
            self.rows.insert(id, Row::Relayed { from, tick, stale: None });
        } else if let Some(Row::Relayed { from: source, stale, .. }) = self.rows.get_mut(&id)
            && *source == from
        {
            *stale = None;
        }
    }

    /// A neighbour has nothing more to tell of an object. One that has just been given the object, and has told
    /// nothing of it since, speaks of an earlier time.
    pub fn hear_gone(&mut self, id: ObjectId, from: RegionId) {
        if let Some(Row::Relayed { from: source, stale: None, .. }) = self.rows.get(&id)
            && *source == from
        {
            self.forget(id);
        }
    }

    /// A neighbour's stream begins anew: what it does not confirm is no more.
    pub fn doubt(&mut self, from: RegionId, now: Micros) {
        for row in self.rows.values_mut() {
            if let Row::Relayed { from: source, stale, .. } = row
                && *source == from
            {
                *stale = Some(now);
            }
        }
    }

    /// One tick.
    pub fn tick(&mut self, tick: u32, around: &mut Surroundings<'_>) {
        self.ticked = tick;
        let numbers = u64::from(tick) * IDS_A_TICK;
        self.simulation.ids.skip_to(numbers);
        self.simulation.ids.extend_to(numbers + IDS_AHEAD * IDS_A_TICK);
        self.complete_transfers(around);
        self.take_in(around);
        self.drop_stale(around.now);
        self.predict_relayed(tick);
        self.catch_up(tick);
        self.carry_out(around);
        self.use_inputs(tick, around);
        let rows = &self.rows;
        self.simulation.relayed = rows
            .iter()
            .filter(|(_, row)| !matches!(row, Row::Owned(row) if row.stepped < tick))
            .map(|(id, _)| *id)
            .collect();
        let mut happened = Vec::new();
        self.simulation.step(Tick(tick), |spot, event| happened.push((spot, event)));
        self.sessions.note_events(happened);
        self.account(tick);
        self.pass_on(around.now);
        self.offer(around);
        self.log_changes();
        self.take_snapshot(around);
        self.close_if_empty(around);
        if self.queue.is_empty() && self.flight.is_none() {
            self.confirmed = tick;
        }
    }

    fn drop_stale(&mut self, now: Micros) {
        let stale = self.rows.iter().filter(|(_, row)| {
            matches!(row, Row::Relayed { stale: Some(since), .. } if now - *since >= STALE_AFTER)
        });
        let stale: Vec<ObjectId> = stale.map(|(id, _)| *id).collect();
        stale.into_iter().for_each(|id| self.forget(id));
    }

    /// Objects that came late take the ticks that they missed.
    fn catch_up(&mut self, tick: u32) {
        let late: Vec<(ObjectId, u32)> = self
            .owned()
            .filter(|(_, row)| row.stepped + 1 < tick)
            .map(|(id, row)| (id, row.stepped))
            .collect();
        for (id, stepped) in late {
            let first = (stepped + 1).max(tick.saturating_sub(MAX_CATCH_UP));
            (first..tick).for_each(|missed| self.simulation.step_one(Tick(missed), id));
            if let Some(row) = self.owned_row(id) {
                (row.stepped, row.from) = (tick - 1, row.from.max(first));
            }
        }
    }

    /// After the rules: what is new, what is no more, and that all had their turn.
    fn account(&mut self, tick: u32) {
        let store = &self.simulation.publisher.store;
        let new: Vec<ObjectId> =
            store.iter().map(|it| it.0).filter(|id| !self.rows.contains_key(id)).collect();
        let removed: Vec<ObjectId> =
            self.owned().map(|it| it.0).filter(|id| store.find(*id).is_none()).collect();
        for id in new {
            let slot = self.simulation.publisher.store.find(id);
            let lanes = slot.map(|slot| self.simulation.publisher.store.lanes(slot).to_vec());
            let state = ObjectState { tick, lanes: lanes.unwrap_or_default(), marks: Vec::new() };
            // It has its first turn in the next tick.
            self.own(id, 0, &state, false);
        }
        for id in removed {
            if let Some(row) = self.owned_row(id)
                && (row.logged.is_some() || row.offered.is_some())
            {
                let entry = row.entry(id, None);
                self.queue.push(entry);
            }
            self.rows.remove(&id);
            self.owned.remove(id);
        }
        for row in self.rows.values_mut() {
            if let Row::Owned(row) = row {
                row.stepped = row.stepped.max(tick);
            }
        }
    }

    /// Logs what changed of objects that are kept, beside where they are and face.
    fn log_changes(&mut self) {
        let Region { simulation, rows, queue, .. } = self;
        let store = &simulation.publisher.store;
        for (id, row) in rows.iter_mut() {
            let Row::Owned(row) = row else { continue };
            let Some(slot) = store.find(*id).filter(|_| simulation.game.keeps(id.kind())) else {
                continue;
            };
            let (lanes, kind) = (store.lanes(slot), store.kind(slot));
            let same = row
                .logged
                .as_ref()
                .is_some_and(|logged| kind.others.iter().all(|at| logged[*at] == lanes[*at]));
            if same && !row.marked {
                continue;
            }
            (row.logged, row.marked) = (Some(lanes.to_vec()), false);
            let state =
                ObjectState { tick: row.stepped, lanes: lanes.to_vec(), marks: row.marks.clone() };
            queue.push(row.entry(*id, Some(state)));
        }
    }

    /// Actions that rules asked of others' objects.
    fn pass_on(&mut self, now: Micros) {
        let asked: Vec<_> = self.simulation.drain_elsewhere().collect();
        for (object, action, by) in asked {
            if matches!(self.rows.get(&object), Some(Row::Owned(_))) {
                // It has had its turn in this tick already, at its former owner.
                self.simulation.ask(object, action, by);
                continue;
            }
            let (kept, by) = match by {
                Requester::Object(id) => (self.simulation.game.keeps(id.kind()), (id.0, None)),
                Requester::Player(player, tick) => (false, (u64::from(player.0), Some(tick.0))),
            };
            let after = if kept { self.ticked } else { 0 };
            if let Ok(action) = postcard::to_allocvec(&(action, by)) {
                self.asks.ask(object, NewAsk { action, after }, self.ticked, now);
            }
        }
    }

    /// An object comes from another region; it is taken in with the next tick.
    pub(super) fn arrive(&mut self, from: RegionId, handoff: HandoffState) {
        let id = ObjectId(handoff.object);
        let fits = match self.arrivals.get(&id) {
            Some((_, held)) => held.epoch <= handoff.epoch,
            None => self.arrivals.len() < MAX_ARRIVALS,
        };
        if fits {
            self.arrivals.insert(id, (from, handoff));
        }
    }

    /// Another region asks something.
    pub fn question(&mut self, ask: RemoteAsk) {
        if self.questions.len() < MAX_QUESTIONS {
            self.questions.insert((ObjectId(ask.object), ask.nonce), ask);
        }
    }

    /// Carries out what other regions asked, each action once.
    fn carry_out(&mut self, around: &mut Surroundings<'_>) {
        let tick = self.ticked;
        self.given.retain(|_, (_, until)| *until > tick);
        let mut forward: BTreeMap<RegionId, Vec<RemoteAsk>> = BTreeMap::new();
        for ((id, nonce), ask) in std::mem::take(&mut self.questions) {
            // A region that is no more asks nothing: what comes late was answered, and its marks may be forgotten.
            if around.layout.get(nonce.region).is_none() {
                continue;
            }
            let to = match self.rows.get_mut(&id) {
                Some(Row::Owned(row)) if row.stepped < tick => {
                    forget_marks(&mut row.marks, around.layout);
                    match judge(&mut row.marks, nonce, ask.oldest) {
                        Judgement::Wait => continue,
                        Judgement::Done => {}
                        Judgement::Act => {
                            row.marked = true;
                            self.act(id, &ask.action);
                        }
                    }
                    let gate = if self.simulation.game.keeps(id.kind()) { tick } else { 0 };
                    // One that waits was given the earlier gate when it was carried out.
                    self.answers.entry((id, nonce)).or_insert((gate, ask.answer_to));
                    continue;
                }
                Some(Row::Owned(_)) => None,
                Some(Row::Relayed { from, .. }) => Some(*from),
                None => self.given.get(&id).map(|it| it.0),
            };
            if let Some(to) = to.filter(|to| *to != self.id) {
                forward.entry(to).or_default().push(ask);
            }
        }
        for (to, asks) in forward {
            for part in asks.chunks(MAX_ASKS_SENT) {
                around.send(to, BusMessage::Asks(to, part.to_vec()));
            }
        }
    }

    fn act(&mut self, id: ObjectId, bytes: &[u8]) {
        type Written<A> = (A, (u64, Option<u32>));
        let Ok((action, by)) = postcard::from_bytes::<Written<G::Action>>(bytes) else { return };
        let by = match by {
            (object, None) => Requester::Object(ObjectId(object)),
            (player, Some(tick)) => Requester::Player(PlayerId(player as u32), Tick(tick)),
        };
        self.simulation.ask(id, action, by);
    }

    /// Sends questions and answers that may leave.
    pub fn send_actions(&mut self, around: &mut Surroundings<'_>) {
        let lost = self.asks.give_up(around.now);
        around.effects.extend((0..lost).map(|_| Effect::AskLost));
        let mut questions: BTreeMap<RegionId, Vec<RemoteAsk>> = BTreeMap::new();
        let (rows, given, me) = (&self.rows, &self.given, around.me);
        let (region, epoch) = (self.id, self.epoch);
        self.asks.send_due(self.confirmed, around.now, |object, oldest, asked| {
            let to = match rows.get(&object) {
                Some(Row::Relayed { from, .. }) => Some(*from),
                // It came here meanwhile: ask ourselves.
                Some(Row::Owned(_)) => Some(region),
                None => given.get(&object).map(|it| it.0),
            };
            let Some(to) = to else { return };
            questions.entry(to).or_default().push(RemoteAsk {
                object: object.0,
                nonce: AskMark { region, epoch, number: asked.number },
                oldest,
                answer_to: me,
                action: asked.action.clone(),
            });
        });
        for (to, asks) in questions {
            for part in asks.chunks(MAX_ASKS_SENT) {
                around.send(to, BusMessage::Asks(to, part.to_vec()));
            }
        }
        let mut answers: BTreeMap<ServerId, Vec<(u64, AskMark, bool)>> = BTreeMap::new();
        let confirmed = self.confirmed;
        self.answers.retain(|(object, nonce), (after, to)| {
            let leaves = *after <= confirmed;
            if leaves {
                answers.entry(*to).or_default().push((object.0, *nonce, true));
            }
            !leaves
        });
        for (to, answers) in answers {
            for part in answers.chunks(MAX_ASKS_SENT) {
                around.effects.push(Effect::Send(to, BusMessage::Answers(part.to_vec())));
            }
        }
    }

    /// What is to be appended next; none while an append is on its way.
    pub fn next_batch(&mut self) -> Option<&LogBatch> {
        if self.flight.is_some() || self.queue.is_empty() {
            return None;
        }
        let rest = self.queue.split_off(self.queue.len().min(MAX_BATCH));
        let entries = std::mem::replace(&mut self.queue, rest);
        let batch = LogBatch { epoch: self.epoch, tick: self.ticked, entries };
        let whole = self.queue.is_empty();
        self.flight = Some(Flight { batch, whole });
        self.flight.as_ref().map(|flight| &flight.batch)
    }

    /// The append is entry `sequence` of the log.
    pub fn confirm(&mut self, sequence: u64, around: &mut Surroundings<'_>) {
        let Some(flight) = self.flight.take() else { return };
        if let Some(view) = around.logs.get_mut(&self.id) {
            view.apply(sequence, &flight.batch);
        }
        if flight.whole {
            self.confirmed = self.confirmed.max(flight.batch.tick);
        }
        for entry in &flight.batch.entries {
            match entry {
                LogEntry::Out { object, epoch, to, sequence: None, .. } => {
                    self.let_go(ObjectId(*object), (*epoch, *to), sequence, around);
                }
                LogEntry::In { .. } => around.effects.push(Effect::Reached(MeshStep::InLogged)),
                LogEntry::Done { .. } => {
                    around.effects.push(Effect::Reached(MeshStep::DoneLogged));
                }
                LogEntry::Close => around.effects.push(Effect::Reached(MeshStep::CloseLogged)),
                LogEntry::Begin => {
                    if let Some(cursor) = self.snapshot.as_mut().filter(|it| it.begun == 0) {
                        cursor.begun = sequence;
                    }
                }
                LogEntry::End { .. } => {
                    self.snapshot = None;
                    around.effects.push(Effect::Reached(MeshStep::SnapshotLogged));
                }
                _ => {}
            }
        }
    }

    /// Logs the next part of a snapshot when one is due, and nothing else is on its way: then the log is what
    /// the region is.
    fn take_snapshot(&mut self, around: &mut Surroundings<'_>) {
        let due = self.snapshot.is_some() || self.ticked >= self.snapshot_due;
        if !due || !self.queue.is_empty() || self.flight.is_some() || self.closing.is_closed() {
            return;
        }
        let fresh = self.snapshot.is_none();
        let mut cursor = self.snapshot.unwrap_or_default();
        if fresh {
            self.snapshot_due = self.ticked + around.settings.snapshot_every;
            self.queue.push(LogEntry::Begin);
        }
        let size = around.settings.snapshot_part;
        let after = cursor.last.map_or(0, |last| last.0 + 1);
        let part: Vec<ObjectId> = self
            .rows
            .range(ObjectId(after)..)
            .filter(|(_, row)| matches!(row, Row::Owned(row) if row.offered.is_none()))
            .map(|(id, _)| *id)
            .take(size)
            .collect();
        for id in &part {
            let state = self.state(*id);
            let Some(row) = self.owned_row(*id) else { continue };
            row.logged = state.as_ref().map(|state| state.lanes.clone());
            let epoch = row.epoch;
            self.queue.push(LogEntry::Checkpoint { object: id.0, epoch, state });
        }
        cursor.last = part.last().copied();
        if part.len() < size {
            let view = around.logs.get(&self.id);
            for (id, it) in view.iter().flat_map(|view| &view.pending) {
                self.queue.push(LogEntry::Out {
                    object: id.0,
                    epoch: it.epoch,
                    to: it.to,
                    state: it.state.clone(),
                    sequence: Some(it.sequence),
                });
            }
            for ((id, from), it) in view.iter().flat_map(|view| &view.accepted) {
                let (from, epoch, sequence) = (*from, it.epoch, it.sequence);
                self.queue.push(LogEntry::Accepted { object: id.0, epoch, from, sequence });
            }
            self.queue.push(LogEntry::End { begun: cursor.begun });
        }
        self.snapshot = Some(cursor);
    }
}
