//! The pipeline, in order: what happens to a change from the store to the wire.
//!
//! `collect changes → index → grade → due → budget → encode → pack → send`
//!
//! The only arrow back is acknowledgements ([`Publisher::on_ack`]). Each stage is one function below
//! or one file beside this one: `jumps`, `precheck`, `grade`, `due`, `encode`.

mod carry;
mod due;
mod encode;
mod fork;
mod grade;
mod jumps;
mod known;
mod precheck;

pub use carry::{CarriedCounts, CarriedNotice, CarriedObserver, CarriedPair, CarriedState};
pub use known::{Held, Known};

use crate::index::Index;
use crate::interest::Strain;
use crate::metrics::{Counters, PipelineStage, Probe};
use crate::schedule::{DuePair, Graded, Observer, ObserverId};
use crate::store::Store;
use crate::threads::Threads;
use foveate_wire::packet::Ack;
use foveate_wire::{Metres, Micros, ObjectId, Position, Schema, Tick};
use std::sync::Arc;

/// Records that are worth a packet when the budget is short.
const BATCH: usize = 4;
/// Observers that go through the stages together. One by one each would wait for its memory several
/// times. What a stage needs of all of them is read in a run before it begins: no read depends on
/// another, so the processor fetches them at the same time.
const GROUP: usize = 16;

/// Observers that are worth a thread at least: handing them over takes about as long as thirty turns.
const MIN_PART: usize = 64;

/// Pairs that memory is set aside for in advance; an observer with more allocates when it meets them.
const MAX_RESERVED: usize = 128;

/// The side of a cell of the index while no observer has a view that ends somewhere. Small ones would
/// take memory that is never given back: four bytes for each square unit of a world that waits for its
/// first player.
const CELL_WITHOUT_VIEWS: Metres = Metres(32.0);

/// Times that shape a publisher's rounds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rounds {
    /// One round.
    pub length: Micros,
    /// How long a replica out of interest lingers before its observer is told that it is frozen.
    /// Long enough that an object at the edge, or an observer that looks about, causes no flapping.
    pub freeze_after: Micros,
    /// How long a frozen replica is kept before its observer is told that it is gone.
    pub forget_after: Micros,
}

impl Rounds {
    /// Rounds of this length, frozen after one second, gone after ten.
    pub fn every(length: Micros) -> Rounds {
        let (freeze_after, forget_after) = (Micros(1_000_000), Micros(10_000_000));
        Rounds { length, freeze_after, forget_after }
    }

    /// How many rounds a span takes, rounded up, at least one.
    pub fn count(&self, span: Micros) -> u32 {
        span.0.div_ceil(self.length.0).clamp(1, u64::from(u32::MAX / 4)) as u32
    }
}

/// One node's sending side: its objects, its observers, and the rounds between them.
///
/// Call [`round`](Publisher::round) once per tick, and [`on_ack`](Publisher::on_ack) whenever an
/// acknowledgement arrives. It asks for no clock, no randomness and no socket.
pub struct Publisher {
    /// The objects. Change them between two rounds.
    pub store: Store,
    rounds: Rounds,
    now: Micros,
    index: Index,
    observers: Vec<Option<Observer>>,
    /// Places of observers that were removed.
    free: Vec<ObserverId>,
    /// The counts of the observers that were removed.
    gone: Counters,
    jumps: jumps::Jumps,
    threads: Threads,
    /// One for each part of the observers; there is always one.
    workspaces: Vec<Workspace>,
    strain: Strain,
    /// Grades given under strain, and the sum of the shares of their rate that was left.
    strained: Strained,
}

/// What was lost to strain.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Strained {
    /// Grades that were given while there was strain.
    pub grades: u64,
    /// The sum of how much of each was left, in parts of [`Strained::WHOLE`]. A whole number: the sum does not depend on
    /// the order in which threads add to it.
    left: u64,
}

impl Strained {
    /// What is left of a grade as asked for; of one with bounds twice as loose it is half of this.
    const WHOLE: f32 = (1 << 20) as f32;

    /// A grade was given that is so many times looser than asked for.
    fn note(&mut self, factor: f32) {
        self.grades += 1;
        self.left += (Strained::WHOLE / factor) as u64;
    }

    fn add(&mut self, other: Strained) {
        self.grades += other.grades;
        self.left += other.left;
    }

    /// The mean share that was left since an earlier reading; one if there was no strain.
    pub fn quality_since(&self, before: &Strained) -> f64 {
        let (grades, left) = (self.grades - before.grades, self.left - before.left);
        if grades == 0 { 1.0 } else { left as f64 / (grades as f64 * f64::from(Strained::WHOLE)) }
    }
}

/// What all turns of a round read, and none of them writes.
#[derive(Clone, Copy)]
struct RoundInputs<'a> {
    store: &'a Store,
    index: &'a Index,
    jumps: &'a jumps::Jumps,
    rounds: Rounds,
    now: Micros,
    strain: Strain,
}

/// What the turns of a part need and the next round reuses: in steady state nothing is allocated.
#[derive(Default)]
struct Workspace {
    scratch: Scratch,
    /// The turns of a group.
    turns: Vec<Turn>,
    encode: encode::Scratch,
    packets: Packets,
}

/// The packets of a part, until those of the parts before have left.
#[derive(Default)]
struct Packets {
    bytes: Vec<u8>,
    /// The receiver of each packet, and where its bytes end.
    ends: Vec<(ObserverId, usize)>,
}

impl Packets {
    fn push(&mut self, to: ObserverId, packet: &[u8]) {
        self.bytes.extend_from_slice(packet);
        self.ends.push((to, self.bytes.len()));
    }

    fn drain(&mut self, mut send: impl FnMut(ObserverId, &[u8])) {
        let mut start = 0;
        for (to, end) in self.ends.drain(..) {
            send(to, &self.bytes[start..end]);
            start = end;
        }
        self.bytes.clear();
    }
}

/// What finding and grading pairs needs.
#[derive(Default)]
struct Scratch {
    /// Slot → the last search that met it.
    met: Vec<u32>,
    search: u32,
    /// The most pairs that any observer has had.
    most_pairs: usize,
    /// Pairs that need more than a look.
    attention: Vec<u32>,
    /// What this round lost to strain.
    strained: Strained,
}

/// One observer's turn: what a stage leaves to the next.
struct Turn {
    id: ObserverId,
    /// Pairs whose time has come.
    awake: Vec<u32>,
    /// Pairs that could be due.
    graded: Vec<Graded>,
    /// Pairs whose object is out of reach, and of which a last state may have to be told.
    leaving: Vec<Graded>,
    /// Pairs whose observer must be told that the replica is frozen or gone.
    notices: Vec<u32>,
    /// Pairs that are due.
    due: Vec<DuePair>,
}

impl Turn {
    /// A turn with room for the pairs of most observers.
    fn new() -> Turn {
        Turn {
            id: ObserverId(0),
            awake: Vec::with_capacity(MAX_RESERVED),
            graded: Vec::with_capacity(MAX_RESERVED),
            leaving: Vec::with_capacity(MAX_RESERVED / 8),
            notices: Vec::with_capacity(MAX_RESERVED),
            due: Vec::with_capacity(MAX_RESERVED),
        }
    }
}

impl Scratch {
    /// The number of a new search.
    fn next_search(&mut self) -> u32 {
        self.search = self.search.wrapping_add(1).max(1);
        self.search
    }
}

impl Publisher {
    /// A publisher without objects and observers.
    pub fn new(schema: Arc<Schema>, rounds: Rounds) -> Publisher {
        let per_second = 1e6 / rounds.length.0 as f32;
        Publisher {
            store: Store::new(schema, per_second),
            rounds,
            now: Micros::ZERO,
            index: Index::default(),
            observers: Vec::new(),
            free: Vec::new(),
            gone: Counters::default(),
            jumps: jumps::Jumps::default(),
            threads: Threads::default(),
            workspaces: vec![Workspace::default()],
            strain: Strain::NONE,
            strained: Strained::default(),
        }
    }

    /// Adds an observer.
    pub fn add(&mut self, mut observer: Observer) -> ObserverId {
        let id = self.free.pop().unwrap_or_else(|| {
            self.observers.push(None);
            ObserverId(self.observers.len() as u32 - 1)
        });
        // Observers refresh their neighbourhoods in different rounds, so that all rounds cost the same.
        observer.phase = id.0;
        self.observers[id.0 as usize] = Some(observer);
        id
    }

    /// Removes an observer.
    pub fn remove(&mut self, id: ObserverId) -> Option<Observer> {
        let mut gone = self.observers.get_mut(id.0 as usize)?.take()?;
        gone.close(&self.store);
        self.gone.add(&gone.counters);
        self.free.push(id);
        Some(gone)
    }

    /// An observer, to change its view, eyes or budget.
    pub fn observer_mut(&mut self, id: ObserverId) -> Option<&mut Observer> {
        self.observers.get_mut(id.0 as usize)?.as_mut()
    }

    /// An observer, to read.
    pub fn observer(&self, id: ObserverId) -> Option<&Observer> {
        self.observers.get(id.0 as usize)?.as_ref()
    }

    /// Calls `found` with the objects that were within a radius when the last round began.
    pub fn around(&self, at: Position, radius: Metres, mut found: impl FnMut(ObjectId)) {
        self.index.around(at, radius, |slot| {
            let hot = &self.store.hot[slot.at()];
            let square = hot.pos.square_distance(at);
            if hot.alive && hot.placed && square <= radius.0 * radius.0 {
                found(hot.id);
            }
        });
    }

    /// Turns are taken by these threads from the next round on; by default by the caller's own alone. What is sent does
    /// not depend on how many there are.
    pub fn set_threads(&mut self, threads: Threads) {
        self.threads = threads;
    }

    /// The threads that take the turns.
    pub fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Loosens all grades from the next round on, or restores them.
    pub fn set_strain(&mut self, strain: Strain) {
        self.strain = strain;
    }

    /// How much grades give way.
    pub fn strain(&self) -> Strain {
        self.strain
    }

    /// What was lost to strain so far.
    pub fn strained(&self) -> Strained {
        self.strained
    }

    /// The time of the last round.
    pub fn now(&self) -> Micros {
        self.now
    }

    /// The length of a round, and the other times.
    pub fn rounds(&self) -> &Rounds {
        &self.rounds
    }

    /// The counts of all present observers together.
    pub fn totals(&self) -> Counters {
        let mut sum = Counters::default();
        self.observers.iter().flatten().for_each(|observer| sum.add(&observer.counters));
        sum
    }

    /// The counts of all observers that there ever were: they only grow.
    pub fn ever(&self) -> Counters {
        let mut sum = self.totals();
        sum.add(&self.gone);
        sum
    }

    /// An observer acknowledged packets.
    pub fn on_ack(&mut self, id: ObserverId, ack: &Ack, now: Micros) {
        if let Some(observer) = self.observer_mut(id) {
            observer.on_ack(*ack, now);
        }
    }

    /// One round: sends the changes since the last one to the observers that they matter to, as far
    /// as they matter. `send` gets each packet; it must not keep the slice.
    pub fn round(&mut self, tick: Tick, now: Micros, send: impl FnMut(ObserverId, &[u8])) {
        self.round_watched(tick, now, &mut (), send);
    }

    /// Like [`round`](Publisher::round); `probe` is told when a stage begins.
    pub fn round_watched(
        &mut self,
        tick: Tick,
        now: Micros,
        probe: &mut impl Probe,
        mut send: impl FnMut(ObserverId, &[u8]),
    ) {
        self.now = now;
        probe.enter(PipelineStage::Collect);
        self.store.commit(tick);
        probe.enter(PipelineStage::Index);
        self.rebuild_index();
        let Publisher { store, index, jumps, observers, workspaces, threads, .. } = self;
        let (rounds, strain) = (self.rounds, self.strain);
        let round = RoundInputs { store, index, jumps, rounds, now, strain };
        let each = observers.len().div_ceil(threads.parts()).max(MIN_PART);
        let each = each.next_multiple_of(GROUP);
        if threads.count() == 1 || observers.len() <= each {
            let part = ObserverPart { first: 0, observers };
            round.take_part(part, &mut workspaces[0], probe, |_, id, packet| send(id, packet));
        } else {
            probe.enter(PipelineStage::Turns);
            let parts = observers.len().div_ceil(each).max(workspaces.len());
            workspaces.resize_with(parts, Workspace::default);
            threads.split(observers, each, workspaces, &|first, observers, workspace| {
                let part = ObserverPart { first, observers };
                round.take_part(part, workspace, &mut (), Packets::push);
            });
            probe.enter(PipelineStage::Send);
            workspaces.iter_mut().for_each(|workspace| workspace.packets.drain(&mut send));
        }
        self.settle();
        probe.leave();
    }

    /// Puts together what the parts of a round left.
    fn settle(&mut self) {
        self.store.settle();
        let most_pairs = self.workspaces.iter().map(|it| it.scratch.most_pairs).max().unwrap_or(0);
        for Workspace { scratch, .. } in &mut self.workspaces {
            scratch.most_pairs = most_pairs;
            self.strained.add(std::mem::take(&mut scratch.strained));
        }
    }

    /// Sorts the objects.
    fn rebuild_index(&mut self) {
        let reaches = self.observers.iter().flatten().map(|observer| observer.policy.reach());
        let widest = reaches.filter(|reach| reach.0.is_finite()).fold(Metres::ZERO, Metres::max);
        // Cells of half the widest view: few enough to walk, small enough to miss the corners.
        let cell = if widest > Metres::ZERO { widest / 2.0 } else { CELL_WITHOUT_VIEWS };
        self.index.rebuild(&self.store, cell.max(Metres(1.0)));
        self.jumps.sort(&self.store);
    }
}

/// Observers whose turns one thread takes.
struct ObserverPart<'a> {
    /// The number of the first one.
    first: usize,
    observers: &'a mut [Option<Observer>],
}

impl RoundInputs<'_> {
    /// The turns of a part of the observers.
    fn take_part(
        &self,
        part: ObserverPart<'_>,
        workspace: &mut Workspace,
        probe: &mut impl Probe,
        mut send: impl FnMut(&mut Packets, ObserverId, &[u8]),
    ) {
        let ObserverPart { first, observers } = part;
        let Workspace { scratch, turns, encode, packets } = workspace;
        scratch.met.resize(self.store.rows().max(1), 0);
        if turns.len() < observers.len().min(GROUP) {
            turns.resize_with(observers.len().min(GROUP), Turn::new);
        }
        for (at, observers) in observers.chunks_mut(GROUP).enumerate() {
            let ids = (first + at * GROUP) as u32..;
            turns.iter_mut().zip(ids).for_each(|(turn, id)| turn.id = ObserverId(id));
            let mut group = Group { turns, observers };
            self.prepare(&mut group, scratch, probe);
            probe.enter(PipelineStage::Encode);
            group.read(|turn, observer| observer.read_said(&turn.due, &turn.notices));
            group.each(|turn, observer| {
                match self.waits(turn, observer) {
                    true => postpone(&mut turn.due, 0, observer),
                    false => choose(&mut turn.due, observer),
                }
                self.encode(turn, observer, encode, |packet| send(packets, turn.id, packet));
            });
        }
    }

    /// The turns of a group up to what is due, stage by stage.
    fn prepare(&self, group: &mut Group<'_>, scratch: &mut Scratch, probe: &mut impl Probe) {
        let (tick, now) = (self.store.tick(), self.now);
        probe.enter(PipelineStage::Ack);
        group.read(|_, observer| observer.read_own());
        group.read(|_, observer| observer.read_lists(self.store));
        group.read(|_, observer| observer.read_sent_pairs());
        group.each(|_, observer| {
            observer.settle_acks(tick);
            observer.on_time(now, self.rounds.length, tick);
        });
        probe.enter(PipelineStage::Grade);
        group.each(|turn, observer| self.find_candidates(turn, observer, scratch));
        group.read(|turn, observer| observer.read_looks(&turn.awake, self.store));
        group.each(|turn, observer| self.grade(turn, observer, scratch));
        probe.enter(PipelineStage::Due);
        group.each(|turn, observer| self.due(turn, observer));
    }

    /// Under strain packets wait until what is near presses enough for them: headers are most of a small packet.
    fn waits(&self, turn: &Turn, observer: &Observer) -> bool {
        if self.strain == Strain::NONE {
            return false;
        }
        let press = turn.due.iter().map(|bound| bound.press).sum();
        self.strain.holds(press, self.store.tick().since(observer.told))
    }
}

/// Takes what is due in the order of urgency until the budget is spent; what does not fit
/// waits and grows more urgent.
fn choose(due: &mut Vec<DuePair>, observer: &mut Observer) {
    observer.budget.refill();
    let Some(left) = observer.budget.left() else { return };
    // Rounded up: what a record takes beyond the rest becomes debt. Rounded down, a budget of less
    // than one record a round would never send any.
    let fit = (left / observer.expected_record()).ceil() as usize;
    // A header for each record would eat a narrow budget up: save for a few at once, if one can.
    let fit = if fit < BATCH && due.len() > fit && observer.budget.saves() { 0 } else { fit };
    if due.len() > fit {
        if fit > 0 {
            due.select_nth_unstable_by(fit - 1, |a, b| b.urgency.total_cmp(&a.urgency));
        }
        postpone(due, fit, observer);
    }
}

/// Leaves all but the first `kept` for a later round.
fn postpone(due: &mut Vec<DuePair>, kept: usize, observer: &mut Observer) {
    for bound in due.drain(kept..) {
        observer.counters.postponed += 1;
        let class = observer.next_checks[bound.pair as usize].class();
        observer.counters.broken[class] += u64::from(!bound.kept);
    }
}

/// Observers whose turns are taken together.
struct Group<'a> {
    turns: &'a mut [Turn],
    observers: &'a mut [Option<Observer>],
}

impl Group<'_> {
    /// Calls `work` for each observer; the places of removed observers are skipped.
    #[inline]
    fn each(&mut self, mut work: impl FnMut(&mut Turn, &mut Observer)) {
        for (turn, observer) in self.turns.iter_mut().zip(self.observers.iter_mut()) {
            if let Some(observer) = observer {
                work(turn, observer);
            }
        }
    }

    /// Reads a part of each observer, only to have it in the cache afterwards.
    #[inline]
    fn read(&mut self, mut some: impl FnMut(&Turn, &Observer) -> usize) {
        let mut read = 0;
        self.each(|turn, observer| read ^= some(turn, observer));
        std::hint::black_box(read);
    }
}
