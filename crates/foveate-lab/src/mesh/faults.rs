//! What goes wrong: faults at every step, a bad network, a bad ledger; and servers that are wrong on purpose.

use super::check::MeshChecker;
use super::game::Counted;
use foveate_node::region::MeshStep;
use foveate_node::region::bus::{BusMessage, Envelope};
use foveate_node::region::crossing::SessionTransfer;
use foveate_node::region::layout::ServerId;
use foveate_node::region::ledger::{AppendId, Subject, read_record, write_record};
use foveate_node::region::log::{LogBatch, LogEntry, ObjectState};
use foveate_wire::Micros;
use std::collections::BTreeMap;

/// What becomes of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    /// It dies; another one starts some seconds later.
    Crash,
    /// It stands still for a while.
    Pause(Micros),
    /// It is cut off from all other servers and from the ledger for a while.
    Partition(Micros),
    /// The ledger is away for a while.
    Outage(Micros),
    /// Whatever it sends and is sent takes up to a second longer for a while.
    Delay(Micros),
}

impl FaultKind {
    /// All names.
    pub const NAMES: [&'static str; 5] = ["crash", "pause", "partition", "outage", "delay"];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            FaultKind::Crash => "crash",
            FaultKind::Pause(_) => "pause",
            FaultKind::Partition(_) => "partition",
            FaultKind::Outage(_) => "outage",
            FaultKind::Delay(_) => "delay",
        }
    }

    /// The fault with this name, of a length drawn anew.
    fn draw(name: &str, rng: &mut fastrand::Rng, spec: &FaultSpec) -> FaultKind {
        match name {
            "crash" => FaultKind::Crash,
            "partition" => FaultKind::Partition(Micros(rng.u64(100_000..4_000_000))),
            "outage" => FaultKind::Outage(Micros(rng.u64(200_000..7_500_000))),
            "delay" => FaultKind::Delay(Micros(rng.u64(200_000..3_000_000))),
            _ => {
                // Evenly over magnitudes.
                let (short, long) = (spec.pauses.0.0 as f64, spec.pauses.1.0 as f64);
                FaultKind::Pause(Micros((short * (long / short).powf(rng.f64())) as u64))
            }
        }
    }
}

/// A step and a sort of fault.
pub type StepFault = (MeshStep, &'static str);

/// Faults that come first in a world: those that struck least so far. More steps than these are drawn as well.
pub const MAX_FAVOURED: usize = 12;

/// A fault that waits for its step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Armed {
    /// The step.
    pub step: MeshStep,
    /// How often it comes up before.
    pub after: u32,
    /// The fault.
    pub kind: FaultKind,
    /// Since when it waits.
    pub since: Micros,
}

impl Armed {
    /// Any fault at any step; every other time one of those that are to come first.
    pub fn draw(
        rng: &mut fastrand::Rng,
        spec: &FaultSpec,
        favoured: &[Option<StepFault>],
        has_players: bool,
        now: Micros,
    ) -> Armed {
        let sessions = if has_players { &MeshStep::OF_SESSIONS[..] } else { &[] };
        let steps: Vec<MeshStep> = MeshStep::ALL.iter().chain(sessions).copied().collect();
        let links = rng.f64() < spec.links;
        let crash = rng.f64() < spec.crashes;
        let mut name = match (links, crash) {
            (true, _) => FaultKind::NAMES[2 + rng.usize(..3)],
            (_, true) => "crash",
            _ => "pause",
        };
        let mut step = steps[rng.usize(..steps.len())];
        let known: Vec<StepFault> = favoured.iter().flatten().copied().collect();
        if !known.is_empty() && rng.bool() {
            (step, name) = known[rng.usize(..known.len())];
        }
        Armed { step, after: rng.u32(..4), kind: FaultKind::draw(name, rng, spec), since: now }
    }
}

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FaultSpec {
    /// Between this and that a message or a request takes, one way.
    pub delay: (Micros, Micros),
    /// Share of messages and requests that are lost.
    pub loss: f64,
    /// Share that arrives twice.
    pub double: f64,
    /// Share that takes up to 0.3 s longer.
    pub spikes: f64,
    /// Share that takes 1 to 5 s longer.
    pub stalls: f64,
    /// Share of entries that a follower reads up to two seconds late.
    pub late_followers: f64,
    /// Clocks gain or lose so many microseconds a second.
    pub drift: i64,
    /// Of the faults at steps this share are those of links: partitions, outages of the ledger, delays.
    pub links: f64,
    /// Of the others this share are crashes; the rest are pauses.
    pub crashes: f64,
    /// The shortest and the longest pause.
    pub pauses: (Micros, Micros),
    /// The longest time between two occasions for trouble; zero: none.
    pub trouble_every: Micros,
    /// At each occasion, the probability that the ledger is away for up to 7.5 s.
    pub outages: f64,
    /// At each occasion, the probability that a server is cut off from all others and from the ledger for up to 4 s.
    pub partitions: f64,
    /// Processes that are down at a time, at most.
    pub max_down: usize,
    /// The least time between two faults at steps.
    pub apart: Micros,
    /// The longest time between two changes of the layout, less a second; zero: none.
    pub layout_every: Micros,
    /// Servers that are wrong on purpose.
    pub sabotage: Option<Sabotage>,
}

impl FaultSpec {
    /// Nothing goes wrong; messages take half a round at most.
    pub const NONE: FaultSpec = FaultSpec {
        delay: (Micros(2_000), Micros(25_000)),
        loss: 0.0,
        double: 0.0,
        spikes: 0.0,
        stalls: 0.0,
        late_followers: 0.0,
        drift: 0,
        links: 0.0,
        crashes: 0.0,
        pauses: (Micros(50_000), Micros(20_000_000)),
        trouble_every: Micros::ZERO,
        outages: 0.0,
        partitions: 0.0,
        max_down: 0,
        apart: Micros::ZERO,
        layout_every: Micros::ZERO,
        sabotage: None,
    };

    /// Everything goes wrong.
    pub const ALL: FaultSpec = FaultSpec {
        loss: 0.02,
        double: 0.02,
        spikes: 0.01,
        stalls: 0.0005,
        late_followers: 0.01,
        drift: 50_000,
        links: 0.6,
        crashes: 0.5,
        trouble_every: Micros(1_500_000),
        outages: 0.04,
        partitions: 0.06,
        max_down: 2,
        layout_every: Micros(8_000_000),
        ..FaultSpec::NONE
    };

    /// One server at a time crashes.
    pub const CRASHES: FaultSpec = FaultSpec {
        crashes: 1.0,
        drift: 50_000,
        trouble_every: Micros(6_000_000),
        max_down: 1,
        apart: Micros(6_000_000),
        ..FaultSpec::NONE
    };
}

/// By object: the epoch and the state of its last handoff.
pub type EarlierStates = BTreeMap<u64, (u32, Option<ObjectState>)>;

/// A mistake that servers could make. The checker must find each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sabotage {
    /// Logs are appended to whatever their last entry is: a former owner's appends count.
    NoFence,
    /// The state of an earlier handoff of an object is taken for that of the present one.
    NoEpochCheck,
    /// A server whose lease has expired acts on, and is taken for its successor.
    ZombieBelieved,
    /// Standbys go on acknowledging beacons while they take over.
    AcksWhileTaking,
    /// No server logs what it took in.
    NoIn,
    /// Keys and tickets repeat: a ticket is used twice.
    SameKeys,
    /// A session moves before its client is at the next server.
    MovedBeforeReady,
    /// Aliases that the next host of a session does not know of are used again.
    AliasesReused,
}

impl Sabotage {
    /// Those that concern objects.
    pub const ALL: [Sabotage; 5] = [
        Sabotage::NoFence,
        Sabotage::NoEpochCheck,
        Sabotage::ZombieBelieved,
        Sabotage::AcksWhileTaking,
        Sabotage::NoIn,
    ];

    /// Those that concern sessions.
    pub const OF_SESSIONS: [Sabotage; 3] =
        [Sabotage::SameKeys, Sabotage::MovedBeforeReady, Sabotage::AliasesReused];

    /// Circumstances in which it matters.
    pub fn faults(self) -> FaultSpec {
        let faults = FaultSpec { sabotage: Some(self), ..FaultSpec::ALL };
        match self {
            // The owner is back just when its standby takes over, and does not read of it at once.
            Sabotage::AcksWhileTaking | Sabotage::ZombieBelieved => FaultSpec {
                links: 0.0,
                crashes: 0.0,
                pauses: (Micros(1_200_000), Micros(1_500_000)),
                late_followers: 0.6,
                ..faults
            },
            Sabotage::SameKeys | Sabotage::MovedBeforeReady | Sabotage::AliasesReused => {
                FaultSpec { sabotage: Some(self), loss: 0.02, ..FaultSpec::NONE }
            }
            _ => faults,
        }
    }

    /// Whether appends to a subject name its last entry.
    pub fn checks(self, subject: Subject) -> bool {
        self != Sabotage::NoFence || !matches!(subject, Subject::Log(_))
    }

    /// The acknowledgement of a beacon that arrives, or with `arrives` false does not.
    pub fn forge_ack(
        self,
        (from, to): (ServerId, ServerId),
        bytes: &[u8],
        arrives: bool,
    ) -> Option<Vec<u8>> {
        let forges = match self {
            Sabotage::ZombieBelieved => true,
            Sabotage::AcksWhileTaking => arrives,
            Sabotage::MovedBeforeReady => arrives,
            _ => false,
        };
        let envelope = Envelope::read(bytes).ok().filter(|_| forges)?;
        match envelope.body {
            BusMessage::Expect(ticket, _) if self == Sabotage::MovedBeforeReady => {
                let body = BusMessage::Ready(ticket);
                Some(Envelope { from: to, world: envelope.world, body }.write())
            }
            _ if self == Sabotage::MovedBeforeReady => None,
            BusMessage::Beacon(by, number) => {
                let body = BusMessage::BeaconAck(by, number);
                debug_assert_eq!(envelope.from, from);
                Some(Envelope { from: to, world: envelope.world, body }.write())
            }
            _ => None,
        }
    }

    /// A message as it arrives. `earlier`: the last state of each object that was handed over.
    pub fn bend(
        self,
        bytes: Vec<u8>,
        checker: &MeshChecker,
        earlier: &mut EarlierStates,
    ) -> Vec<u8> {
        let bends = [Sabotage::NoEpochCheck, Sabotage::ZombieBelieved, Sabotage::AliasesReused]
            .contains(&self);
        if !bends {
            return bytes;
        }
        let Ok(mut envelope) = Envelope::read(&bytes) else { return bytes };
        match (self, &mut envelope.body) {
            (
                Sabotage::ZombieBelieved,
                BusMessage::States(by, ..)
                | BusMessage::Handoff(by, ..)
                | BusMessage::Subscribe(by, ..),
            ) => {
                let fenced = checker.fenced.get(&by.region).copied().unwrap_or(0);
                by.epoch = by.epoch.max(fenced);
            }
            (Sabotage::AliasesReused, BusMessage::Session(_, _, bytes)) => {
                if let Ok(mut it) = read_record::<SessionTransfer<Counted>>(bytes) {
                    // The next host knows only half of what the client was told: it gives the other half's aliases away.
                    it.state.observer.pairs.retain(|pair| pair.alias % 2 == 0);
                    *bytes = write_record(&it);
                }
            }
            (Sabotage::NoEpochCheck, BusMessage::Handoff(_, _, objects)) => {
                for it in objects {
                    let before = earlier.insert(it.object, (it.epoch, it.state.clone()));
                    if let Some((_, state)) = before.filter(|(epoch, _)| *epoch < it.epoch) {
                        it.state = state;
                    }
                }
            }
            _ => {}
        }
        envelope.write()
    }

    /// An append as the ledger gets it.
    pub fn bend_append(self, subject: Subject, bytes: Vec<u8>) -> Vec<u8> {
        if self != Sabotage::NoIn || !matches!(subject, Subject::Log(_)) {
            return bytes;
        }
        let Ok((id, mut batch)) = read_record::<(AppendId, LogBatch)>(&bytes) else { return bytes };
        batch.entries.retain(|entry| !matches!(entry, LogEntry::In { .. }));
        write_record(&(id, batch))
    }
}
