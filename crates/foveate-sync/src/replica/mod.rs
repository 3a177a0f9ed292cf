//! The receiving side: replicas of the owner's objects, and how up to date each is.
//!
//! `unpack → decode → apply → predict or interpolate → show`. A packet is decoded completely before
//! any of it is applied. One that cannot be decoded is not acknowledged, so the sender assumes that
//! it was lost and repeats what matters.

mod arrivals;
mod show;
mod states;

pub use arrivals::Arrivals;
pub use show::{Show, Shown, Smoother};

use foveate_wire::packet::{Ack, PacketError, PacketReader, Record, States, open_state};
use foveate_wire::{
    Alias, Epoch, Kind, KindId, Metres, Micros, Models, Motion, ObjectId, OwnerId, PlaceLanes,
    Position, Replicate, Schema, Tick, predict,
};
use states::{Sample, StateRing};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// The state of a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// Updated whenever its grade asks for it.
    Live,
    /// Out of interest: unchanged for now. Nothing more is known.
    Frozen,
    /// Dropped by the sender.
    Gone,
}

/// A change of a replica, for the game.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A replica appeared.
    Appeared(ObjectId),
    /// A replica has a newer state.
    Updated(ObjectId),
    /// A replica gets no more updates for now.
    Frozen(ObjectId),
    /// A replica is gone.
    Gone(ObjectId),
}

/// Why a packet was not applied. The replicas are unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ReceiveError {
    /// It cannot be read.
    #[error(transparent)]
    Packet(#[from] PacketError),
    /// It arrived already.
    #[error("packet {0} arrived twice")]
    Duplicate(u16),
    /// It is too old to be acknowledged.
    #[error("packet {0} is too old")]
    TooOld(u16),
}

/// A replica of an object.
#[derive(Clone, Debug)]
struct Replica {
    id: ObjectId,
    kind: KindId,
    life: Life,
    /// Whether this is the newest alias of its object, and the object is not gone.
    current: bool,
    /// The place of its newest state, in steps; zeros where its kind has none.
    at: [i32; 3],
    /// The tick of the packet that opened the alias for this object.
    opened: Tick,
    /// The tick of the newest notice, or of the opening; older content is ignored.
    noticed: Tick,
    states: StateRing,
}

thread_local! {
    /// The models that packets are read with. They keep nothing between packets, so all links of a
    /// thread share one set: it is large, and most of the memory that reading touches.
    static MODELS: RefCell<Models> = RefCell::new(Models::trained());
}

/// All replicas of one link.
#[derive(Debug)]
pub struct ReplicaSet {
    schema: Arc<Schema>,
    replicas: Vec<Option<Replica>>,
    /// The newest notice of each alias: it may arrive before the state that it is about.
    notices: Vec<Option<(Tick, Life)>>,
    by_id: BTreeMap<ObjectId, Alias>,
    arrivals: Arrivals,
    newest: Tick,
    records: Vec<(Record, usize)>,
    lanes: Vec<i32>,
}

impl ReplicaSet {
    /// A set without replicas. `near`: the sender's tick, give or take half an hour.
    pub fn new(schema: Arc<Schema>, near: Tick) -> ReplicaSet {
        ReplicaSet {
            schema,
            replicas: Vec::new(),
            notices: Vec::new(),
            by_id: BTreeMap::new(),
            arrivals: Arrivals::default(),
            newest: near,
            records: Vec::new(),
            lanes: Vec::new(),
        }
    }

    /// Applies a state packet; calls `changed` with each change, in the order of the packet.
    pub fn receive(
        &mut self,
        bytes: &[u8],
        mut changed: impl FnMut(Change),
    ) -> Result<Tick, ReceiveError> {
        let tick = self.read(bytes)?;
        if tick.is_after(self.newest) {
            self.newest = tick;
        }
        let records = std::mem::take(&mut self.records);
        for (record, lanes_at) in &records {
            if let Some(change) = self.apply(*record, *lanes_at, tick) {
                changed(change);
            }
        }
        self.records = records;
        Ok(tick)
    }

    /// Reads the whole packet into `records` and `lanes`.
    fn read(&mut self, bytes: &[u8]) -> Result<Tick, ReceiveError> {
        self.records.clear();
        self.lanes.clear();
        let held = Held { replicas: &self.replicas };
        let (header, body) = open_state(bytes, self.newest)?;
        self.arrivals.check(header.seq)?;
        let (records, lanes) = (&mut self.records, &mut self.lanes);
        MODELS.with_borrow_mut(|models| {
            let mut reader = PacketReader::new(header, body, models);
            let mut lanes_at = 0;
            while let Some(record) = reader.next(&self.schema, &held, lanes)? {
                records.push((record, lanes_at));
                lanes_at = lanes.len();
            }
            Ok::<_, PacketError>(())
        })?;
        self.arrivals.note(header.seq);
        Ok(header.tick)
    }

    fn apply(&mut self, record: Record, lanes_at: usize, tick: Tick) -> Option<Change> {
        match record {
            Record::Full(alias, id) => self.apply_full(alias, id, lanes_at, tick),
            Record::Update(alias, motion) => {
                let replica = self.replicas.get_mut(usize::from(alias.0))?.as_mut()?;
                let kind = self.schema.kind(replica.kind)?;
                let lanes = &self.lanes[lanes_at..lanes_at + kind.lane_count()];
                replica.push(kind, lanes, motion, tick)
            }
            Record::Freeze(alias) => self.notice(alias, Life::Frozen, tick),
            Record::Gone(alias) => self.notice(alias, Life::Gone, tick),
        }
    }

    fn apply_full(
        &mut self,
        alias: Alias,
        id: ObjectId,
        lanes_at: usize,
        tick: Tick,
    ) -> Option<Change> {
        let kind = self.schema.kind(id.kind())?;
        let at = usize::from(alias.0);
        if self.replicas.len() <= at {
            self.replicas.resize(at + 1, None);
        }
        let lanes = &self.lanes[lanes_at..lanes_at + kind.lane_count()];
        // A notice may have overtaken the state.
        let notice = self.notices.get(at).copied().flatten();
        let notice = notice.filter(|(noticed, _)| !tick.is_after(*noticed));
        if let Some(known) = &mut self.replicas[at] {
            if known.id == id && known.life != Life::Gone {
                return known.push(kind, lanes, Motion::default(), tick);
            }
            if !tick.is_after(known.noticed) {
                return None;
            }
            if std::mem::take(&mut known.current) {
                self.by_id.remove(&known.id);
            }
        }
        let (noticed, life) = match notice {
            Some((_, Life::Gone)) => return None,
            Some(notice) => notice,
            None => (tick, Life::Live),
        };
        let mut replica = Replica {
            id,
            kind: id.kind(),
            life,
            current: true,
            at: [0; 3],
            opened: tick,
            noticed,
            states: StateRing::new(kind.lane_count()),
        };
        replica.push(kind, lanes, Motion::default(), tick);
        // The object may have been removed and created again: the later one counts, whichever
        // arrives first.
        let other = self.by_id.get(&id).filter(|other| **other != alias);
        if let Some(other) = other.and_then(|other| self.replicas[usize::from(other.0)].as_mut()) {
            replica.current = !other.opened.is_after(tick);
            other.current = !replica.current;
        }
        let current = replica.current;
        self.replicas[at] = Some(replica);
        current.then(|| {
            self.by_id.insert(id, alias);
            Change::Appeared(id)
        })
    }

    fn notice(&mut self, alias: Alias, life: Life, tick: Tick) -> Option<Change> {
        let at = usize::from(alias.0);
        if self.notices.len() <= at {
            self.notices.resize(at + 1, None);
        }
        if self.notices[at].is_none_or(|(noticed, _)| tick.is_after(noticed)) {
            self.notices[at] = Some((tick, life));
        }
        let replica = self.replicas.get_mut(at)?.as_mut()?;
        if !tick.is_after(replica.noticed) || replica.life == Life::Gone {
            return None;
        }
        replica.noticed = tick;
        if life == Life::Frozen {
            if replica.states.newest_tick().is_after(tick) {
                return None; // it lives again already
            }
            replica.life = Life::Frozen;
            return replica.current.then_some(Change::Frozen(replica.id));
        }
        // Its states stay until the alias is used again, because late packets may refer to them.
        replica.life = Life::Gone;
        // An object that was created again has another alias.
        std::mem::take(&mut replica.current).then(|| {
            self.by_id.remove(&replica.id);
            Change::Gone(replica.id)
        })
    }

    /// The acknowledgement to send; `None` before the first packet.
    pub fn ack(&self) -> Option<Ack> {
        self.arrivals.ack()
    }

    /// The newest round received.
    pub fn newest(&self) -> Tick {
        self.newest
    }

    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// The replica of an object, if there is one that is not gone.
    pub fn get(&self, id: ObjectId) -> Option<ReplicaView<'_>> {
        self.view(*self.by_id.get(&id)?)
    }

    fn view(&self, alias: Alias) -> Option<ReplicaView<'_>> {
        let replica = self.replicas.get(usize::from(alias.0))?.as_ref()?;
        Some(ReplicaView { replica, set: self })
    }

    /// All replicas that are not gone, by id.
    pub fn iter(&self) -> impl Iterator<Item = ReplicaView<'_>> + '_ {
        self.by_id.values().filter_map(|alias| self.view(*alias))
    }

    /// The same in no particular order, which is faster.
    pub fn in_any_order(&self) -> impl Iterator<Item = ReplicaView<'_>> + '_ {
        let current = self.replicas.iter().flatten().filter(|replica| replica.current);
        current.map(|replica| ReplicaView { replica, set: self })
    }

    /// The objects of a kind, by id.
    pub fn of_kind(&self, kind: KindId) -> impl Iterator<Item = ObjectId> + '_ {
        let (first, last) = (ObjectId::new(kind, 0, 0), ObjectId::new(kind, u32::MAX, u32::MAX));
        self.by_id.range(first..=last).map(|(id, _)| *id)
    }

    /// The number of replicas that are not gone.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }
}

impl Replica {
    fn push(&mut self, kind: &Kind, lanes: &[i32], motion: Motion, tick: Tick) -> Option<Change> {
        let newer = tick.is_after(self.states.newest_tick());
        self.states.push(tick, lanes, motion);
        if let Some(place) = &kind.place {
            self.at = place.coordinates(self.states.newest());
        }
        if !newer || self.life == Life::Gone {
            return None;
        }
        if self.life == Life::Frozen && tick.is_after(self.noticed) {
            self.life = Life::Live;
        }
        self.current.then_some(Change::Updated(self.id))
    }
}

/// The replicas' states, in which the reader looks up baselines.
struct Held<'a> {
    replicas: &'a [Option<Replica>],
}

impl<'a> Held<'a> {
    fn state_at(&self, alias: Alias, tick: Tick) -> Option<(KindId, &'a [i32], Motion)> {
        let replica = self.replicas.get(usize::from(alias.0))?.as_ref()?;
        // A state from before the alias was opened belongs to another object.
        if replica.opened.is_after(tick) {
            return None;
        }
        let (lanes, motion) = replica.states.at(tick)?;
        Some((replica.kind, lanes, motion))
    }
}

impl States for Held<'_> {
    fn state_at(&self, alias: Alias, tick: Tick) -> Option<(KindId, &[i32], Motion)> {
        Held::state_at(self, alias, tick)
    }
}

impl States for ReplicaSet {
    fn state_at(&self, alias: Alias, tick: Tick) -> Option<(KindId, &[i32], Motion)> {
        Held { replicas: &self.replicas }.state_at(alias, tick)
    }
}

/// A replica, to read.
#[derive(Clone, Copy)]
pub struct ReplicaView<'a> {
    replica: &'a Replica,
    set: &'a ReplicaSet,
}

impl ReplicaView<'_> {
    pub fn id(&self) -> ObjectId {
        self.replica.id
    }

    pub fn kind(&self) -> KindId {
        self.replica.kind
    }

    pub fn life(&self) -> Life {
        self.replica.life
    }

    /// The round of its newest state.
    pub fn tick(&self) -> Tick {
        self.replica.states.newest_tick()
    }

    /// Its newest state.
    pub fn lanes(&self) -> &[i32] {
        self.replica.states.newest()
    }

    /// The motion of its newest state, which predictions use.
    pub fn motion(&self) -> Motion {
        self.replica.states.motion()
    }

    /// Its newest state as a value.
    pub fn value<T: Replicate>(&self) -> Option<T> {
        let kind = self.set.schema.kind(self.replica.kind)?;
        (kind.spec.name == T::NAME).then(|| T::get(kind, self.lanes()))
    }

    /// The owner of the object, and its epoch.
    pub fn owner(&self) -> (OwnerId, Epoch) {
        let lanes = self.lanes();
        let (owner, epoch) = (foveate_wire::schema::LANE_OWNER, foveate_wire::schema::LANE_EPOCH);
        (OwnerId(lanes[owner] as u32), Epoch(lanes[epoch] as u32))
    }

    /// The place that the shared predictor gives it in a round; the sender's bounds refer to this.
    pub fn predicted(&self, tick: Tick) -> Option<Position> {
        let place = self.set.schema.kind(self.replica.kind)?.place?;
        let steps = self.predicted_steps(tick, &place);
        Some(Position(steps.map(|steps| steps as f32 * place.precision)))
    }

    /// The same in steps; `place` belongs to the replica's kind.
    pub fn predicted_steps(&self, tick: Tick, place: &PlaceLanes) -> [i32; 3] {
        let rounds = match self.replica.life {
            Life::Live => tick.since(self.tick()),
            // As far as it had got when it was frozen: it must not jump back.
            Life::Frozen | Life::Gone => self.replica.noticed.since(self.tick()),
        };
        let rounds = if rounds > u32::MAX / 2 { 0 } else { rounds };
        let way = predict::way(place, &self.motion(), rounds);
        [0, 1, 2].map(|axis| self.replica.at[axis].wrapping_add(way[axis]))
    }

    /// The age of its newest state.
    pub fn staleness(&self, now: Tick, round: Micros) -> Micros {
        let rounds = now.since(self.tick());
        if rounds > u32::MAX / 2 { Micros::ZERO } else { round * rounds }
    }

    /// How far the object may be from the replica, given the bound that the view grants. While
    /// packets arrive, an object without updates is within its bound; after the newest packet it
    /// can have moved as fast as its kind allows.
    pub fn error_estimate(&self, now: Tick, round: Micros, granted: Metres) -> Metres {
        let Some(kind) = self.set.schema.kind(self.replica.kind) else { return granted };
        let known_until = match self.replica.life {
            Life::Live => self.set.newest,
            Life::Frozen | Life::Gone => self.tick(),
        };
        let rounds = now.since(known_until);
        let silent = if rounds > u32::MAX / 2 { Micros::ZERO } else { round * rounds };
        // The object and the prediction may move at full speed in opposite directions.
        Metres(granted.0 + 2.0 * kind.spec.max_speed * silent.as_secs() as f32)
    }

    /// The states before and after a time, for interpolation.
    fn around(&self, tick: Tick) -> [Option<Sample<'_>>; 2] {
        self.replica.states.around(tick)
    }
}
