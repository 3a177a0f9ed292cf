//! A world on many servers: regions, and how they change hands.
//!
//! The plane is cut into regions ([`layout`]); a region's objects are owned by it and stepped by the one server that
//! runs it ([`owner`]). *Geometry is a wish, ownership a fact*: an object that is in another region's area is handed
//! over ([`handoff`]), and it is what the regions' logs say ([`log`]) that decides. *Time detects, sequence numbers
//! decide*: clocks say who must stop ([`lease`]), and appends that name the last entry they saw say who goes on
//! ([`ledger`], `takeover`). Neighbours and standbys are observers ([`border`]); actions for objects of another
//! region travel to its owner ([`actions`]). Which server runs which area follows load and latency ([`balance`],
//! [`overlay`]); what servers know of others far away they know by hearsay ([`gossip`]).
//!
//! A [`RegionServer`] is one process: a [`Node`] without IO. Whatever it asks of ledger and bus are events, and what
//! comes of it are commands, so that a simulator can delay, lose and double both. The order of events is the order
//! of effects: a process that dies after one of them has done what is before and nothing of what is behind.

pub mod actions;
pub mod balance;
pub mod border;
pub mod bus;
pub mod clock;
pub mod closing;
pub mod crossing;
pub mod gossip;
pub mod handoff;
pub mod helpers;
mod hosting;
mod joining;
pub mod layout;
pub mod lease;
mod leaving;
pub mod ledger;
pub mod log;
pub mod overlay;
pub mod owner;
pub mod players;
mod receive;
pub mod servers;
pub mod sessions;
mod stand;
mod takeover;
mod watch;

use crate::game::{Game, GameViews, PlayerId};
use crate::node::{Node, NodeInput};
use crate::outbox::{Link, Outbox};
use crate::session::Refusal;
use balance::{BalanceChange, Balancer};
use border::{Feed, StreamNames};
use bus::{BusMessage, Envelope, Publication, Recipient, SessionNote};
use clock::WorldClock;
use crossing::OutboundSession;
use foveate_sync::Rounds;
use foveate_sync::interest::Policy;
use foveate_wire::{Bytes, Metres, Micros, ObjectId, Schema};
use gossip::Gossip;
use helpers::Helpers;
use layout::{Layout, LayoutError, Rect, RegionId, ServerId};
use lease::StandbyWatch;
use ledger::{Appends, LedgerAnswer, LedgerRequest, Subject};
use log::LogView;
use overlay::Overlay;
use owner::{Effect, Region, Surroundings};
use servers::{Heartbeat, KnownServers};
use sessions::Players;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use watch::Unwanted;

/// What a server may be told.
#[derive(Clone)]
pub struct RegionSettings {
    /// Rounds, and how long replicas linger.
    pub rounds: Rounds,
    /// How far beyond its area a region is told of others' objects: the largest reach, and a little more.
    pub border: Metres,
    /// How far inside another region's area an object is handed over at once.
    pub hysteresis: Metres,
    /// Where the world's objects are, for looking them up; those outside are found, too, but slower.
    pub extent: Rect,
    /// Ticks between two snapshots in a region's log.
    pub snapshot_every: u32,
    /// Objects in each part of a snapshot.
    pub snapshot_part: usize,
    /// The machine that the server runs on; 0: not known. A standby is looked for on another one.
    pub machine: u64,
}

impl RegionSettings {
    /// The usual ones, for rounds of this length in a world of this extent where players see this far.
    pub fn new(round: Micros, view: Metres, extent: Rect) -> RegionSettings {
        let rounds = Rounds::every(round);
        let snapshot_every = rounds.count(Micros(10_000_000));
        let hysteresis = Metres(0.05 * view.0);
        let snapshot_part = 256;
        RegionSettings {
            rounds,
            border: view,
            hysteresis,
            extent,
            snapshot_every,
            snapshot_part,
            machine: 0,
        }
    }
}

/// Steps of the protocol at which a process can die or stall: the simulator tries each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MeshStep {
    /// An object is offered, and the append not sent.
    Offered,
    /// The append that gives it away was sent.
    OutSent,
    /// It is known to be appended, and no state was sent.
    OutLogged,
    /// The state was sent.
    StateSent,
    /// The state arrived, and nothing was made of it.
    StateReceived,
    /// The append that takes it in was sent.
    InSent,
    /// It is known to be appended.
    InLogged,
    /// The giver read it, and has not said so.
    InRead,
    /// The giver's log says that it arrived.
    DoneLogged,
    /// A snapshot is in the log.
    SnapshotLogged,
    /// A beacon is about to be sent.
    Beacon,
    /// A beacon is about to be acknowledged.
    BeaconReceived,
    /// Another standby was asked for.
    StandbyAsked,
    /// A standby asked for its region.
    TakeoverAsked,
    /// The layout names the new owner, and the log is not fenced.
    TakeoverWon,
    /// The append that fences the log was sent.
    FenceSent,
    /// The log is fenced, and nothing was stepped.
    Fenced,
    /// A tick was stepped, and nothing was sent.
    Stepped,
    /// A server was declared dead, and its regions not taken.
    DeclaredDead,
    /// A change of the layout that balances load was asked for.
    BalanceAsked,
    /// A region that is being closed is empty, and its log not closed.
    Closing,
    /// The log is closed, and the region part of the layout.
    CloseLogged,
    /// A player's record names a region, and the player is not in.
    PlayerClaimed,
    /// A player is in.
    PlayerSeated,
    /// A session's next server was told of its client.
    SessionOffered,
    /// A client has entered at the next server, and its host does not know.
    ClientReady,
    /// The append that moves a session was sent.
    MoveAsked,
    /// It is known to be appended, and the session was not sent.
    MoveLogged,
    /// The session was sent.
    SessionSent,
    /// It goes on at the next host, which has not said so.
    SessionTaken,
    /// The append by which a player leaves was sent.
    LeaveAsked,
    /// It is known to be appended, and the player's objects are still there.
    LeaveLogged,
}

impl MeshStep {
    /// Those of objects and regions.
    pub const ALL: [MeshStep; 22] = [
        MeshStep::Offered,
        MeshStep::OutSent,
        MeshStep::OutLogged,
        MeshStep::StateSent,
        MeshStep::StateReceived,
        MeshStep::InSent,
        MeshStep::InLogged,
        MeshStep::InRead,
        MeshStep::DoneLogged,
        MeshStep::SnapshotLogged,
        MeshStep::Beacon,
        MeshStep::BeaconReceived,
        MeshStep::StandbyAsked,
        MeshStep::TakeoverAsked,
        MeshStep::TakeoverWon,
        MeshStep::FenceSent,
        MeshStep::Fenced,
        MeshStep::Stepped,
        MeshStep::DeclaredDead,
        MeshStep::BalanceAsked,
        MeshStep::Closing,
        MeshStep::CloseLogged,
    ];

    /// Those of players, which come up only where there are some.
    pub const OF_SESSIONS: [MeshStep; 10] = [
        MeshStep::PlayerClaimed,
        MeshStep::PlayerSeated,
        MeshStep::SessionOffered,
        MeshStep::ClientReady,
        MeshStep::MoveAsked,
        MeshStep::MoveLogged,
        MeshStep::SessionSent,
        MeshStep::SessionTaken,
        MeshStep::LeaveAsked,
        MeshStep::LeaveLogged,
    ];
}

/// What a server's host has to do, or may want to know.
#[derive(Clone, PartialEq, Debug)]
pub enum RegionEvent {
    /// Ask the ledger.
    Ledger(LedgerRequest),
    /// Send a message; not after it has expired.
    Publish(Publication),
    /// A step was reached.
    Reached(MeshStep),
    /// An object came from another region.
    Arrived {
        /// The object.
        object: ObjectId,
        /// Its epoch.
        epoch: u32,
        /// Ticks that it missed.
        late: u32,
    },
    /// An action for another region's object was given up; it may have been carried out.
    AskLost,
    /// The world's layout cannot be used.
    Unusable(LayoutError),
    /// The server was declared dead and has dropped everything: start another one.
    Ended,
    /// The server was drained: it runs nothing, stands by for nothing, and may be stopped.
    Drained,
    /// A player wants in. Answer by [`RegionCommand::Admit`] or [`RegionCommand::Reject`].
    Asked {
        /// Where they are.
        link: Link,
        /// Who they say they are.
        name: String,
        /// What they brought to prove it.
        token: Vec<u8>,
    },
    /// A player is in, anew or again.
    Joined(PlayerId, String),
    /// A player leaves.
    Left(PlayerId),
    /// A session came from another region.
    SessionMoved {
        /// The player.
        player: PlayerId,
        /// The session epoch.
        epoch: u32,
        /// Live replicas of the client's that go on.
        kept: usize,
        /// Live replicas that have to be sent whole.
        whole: usize,
        /// All live replicas of the client's.
        all: usize,
    },
}

/// A change of the layout that an operator asks for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum LayoutChange {
    /// Cut a region; what is above the cut becomes a region of this server.
    Split(RegionId, u8, f32, ServerId),
    /// Move the cut that last made a region.
    MoveSplit(RegionId, f32),
    /// Give a region's area to its sibling, and close it.
    Merge(RegionId),
    /// Give a region's area to a new region of this server, and close it.
    Replace(RegionId, ServerId),
}

/// What a server's host tells it.
#[derive(Clone, PartialEq, Debug)]
pub enum RegionCommand {
    /// Begin a world with this layout, unless there is one.
    Found(Box<Layout>),
    /// The ledger's answer to an append.
    Answer(u64, LedgerAnswer),
    /// An entry of a subject that is followed.
    Entry(Subject, u64, Vec<u8>),
    /// A message arrived.
    Deliver(Vec<u8>),
    /// Change the layout; nothing happens if another change is on its way.
    Change(LayoutChange),
    /// The last round took so long, of the processor's time. Without this load is not known, and nothing is balanced.
    EndRound(Micros),
    /// Give all regions to other servers, and run none from now on.
    Drain,
    /// The answer to [`RegionEvent::Asked`]: the player is who they say.
    Admit(Link),
    /// The other answer.
    Reject(Link, Refusal),
    /// Bytes a round that a player's link carries, as measured; `None`: not known.
    SetCapacity(Link, Option<Bytes>),
}

/// What was counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RegionCounts {
    /// Messages and records that could not be read.
    pub malformed: u64,
    /// Messages of an epoch that is over.
    pub outdated: u64,
    /// Objects given to other regions.
    pub given: u64,
    /// Objects taken from other regions.
    pub taken: u64,
    /// Regions taken over.
    pub takeovers: u64,
    /// Cuts that this server moved to balance load.
    pub moved: u64,
    /// Regions that this server gave to servers that had none.
    pub joined: u64,
    /// Regions that this server merged into their siblings.
    pub merged: u64,
    /// Regions that this server gave away because it is drained.
    pub left: u64,
    /// Pairs of servers to which this server gave each other's places.
    pub swapped: u64,
}

/// What a change of the layout on its way is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Intent {
    Found,
    Operate,
    Standby(RegionId),
    TakeOver(RegionId),
    Balance(BalanceChange),
    Close,
}

/// A region that this server stands by for.
struct Standby {
    watch: StandbyWatch,
    feed: Feed,
    /// The region's sessions.
    notes: BTreeMap<PlayerId, SessionNote>,
}

/// A server of a world on many servers.
pub struct RegionServer<G: Game> {
    game: Arc<G>,
    settings: RegionSettings,
    me: ServerId,
    clock: WorldClock,
    appends: Appends,
    streams: StreamNames,
    layout: Option<(u64, Layout)>,
    /// The change of the layout that is on its way.
    intent: Option<(Intent, Layout)>,
    /// The layout to begin with.
    founding: Option<Box<Layout>>,
    logs: BTreeMap<RegionId, LogView>,
    followed: BTreeSet<Subject>,
    regions: BTreeMap<RegionId, Region<G>>,
    standing: BTreeMap<RegionId, Standby>,
    /// Regions that the layout gives to this server, the epoch, and the batch that fences the log.
    opening: BTreeMap<RegionId, (u32, Option<log::LogBatch>)>,
    /// What a standby was told of a region that it is taking over.
    inherited: BTreeMap<RegionId, Feed>,
    /// and of its sessions.
    awaited: BTreeMap<RegionId, BTreeMap<PlayerId, SessionNote>>,
    players: Players,
    /// Sessions on their way to other regions.
    sessions_out: BTreeMap<PlayerId, OutboundSession>,
    servers: KnownServers,
    heartbeat: Heartbeat,
    balancer: Balancer,
    overlay: Overlay,
    gossip: Gossip,
    helpers: Helpers,
    unwanted: Unwanted,
    view: Option<Arc<dyn Policy>>,
    ticked: u32,
    woken: Micros,
    ended: bool,
    /// Messages to itself: a server may run neighbouring regions.
    loopback: VecDeque<BusMessage>,
    effects: Vec<Effect>,
    events: VecDeque<RegionEvent>,
    counts: RegionCounts,
}

impl<G: Game> RegionServer<G> {
    /// A server that knows nothing yet. `me` must be a number that no server of this world has or had.
    pub fn new(game: Arc<G>, settings: RegionSettings, me: ServerId) -> RegionServer<G> {
        let view = game.view(0).and_then(|view| view.build_in(&GameViews(&*game)).ok());
        let mut server = RegionServer {
            game,
            settings,
            me,
            clock: WorldClock::default(),
            appends: Appends::new(me),
            streams: StreamNames::new(me),
            layout: None,
            intent: None,
            founding: None,
            logs: BTreeMap::new(),
            followed: BTreeSet::new(),
            regions: BTreeMap::new(),
            standing: BTreeMap::new(),
            opening: BTreeMap::new(),
            inherited: BTreeMap::new(),
            awaited: BTreeMap::new(),
            players: Players::default(),
            sessions_out: BTreeMap::new(),
            servers: KnownServers::default(),
            heartbeat: Heartbeat::default(),
            balancer: Balancer::default(),
            overlay: Overlay::default(),
            gossip: Gossip::default(),
            helpers: Helpers::default(),
            unwanted: Unwanted::default(),
            view,
            ticked: 0,
            woken: Micros::ZERO,
            ended: false,
            loopback: VecDeque::new(),
            effects: Vec::new(),
            events: VecDeque::new(),
            counts: RegionCounts::default(),
        };
        server.follow(Subject::Layout);
        server.follow(Subject::Server(me));
        server
    }

    /// The server's number.
    pub fn id(&self) -> ServerId {
        self.me
    }

    /// What it was told.
    pub fn settings(&self) -> &RegionSettings {
        &self.settings
    }

    /// What its objects are made of.
    pub fn schema(&self) -> &Schema {
        self.game.schema()
    }

    /// The regions that it stands by for, and whether it could take each over at once: its log was read from a snapshot
    /// on, and its owner tells of its objects.
    pub fn standing(&self) -> impl Iterator<Item = (RegionId, bool)> {
        self.standing.iter().map(|(id, standby)| {
            let logged = self.logs.get(id).is_some_and(|view| view.complete);
            (*id, logged && standby.feed.epoch.is_some())
        })
    }

    /// The layout as far as this server knows.
    pub fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref().map(|it| &it.1)
    }

    /// The regions that it runs.
    pub fn regions(&self) -> impl Iterator<Item = &Region<G>> {
        self.regions.values()
    }

    /// The world's time by this server's clock, in microseconds; none before it has heard of it.
    pub fn world_time(&self, now: Micros) -> Option<u64> {
        self.clock.world(now)
    }

    /// The share of a round that its regions take; none: not known.
    pub fn load(&self) -> Option<f32> {
        self.regions.keys().map(|id| self.balancer.load(*id)).sum()
    }

    /// What was counted.
    pub fn counts(&self) -> &RegionCounts {
        &self.counts
    }

    /// Until when it may act for a region, by its own clock.
    pub fn may_act_until(&self, region: RegionId) -> Micros {
        let lease = self.regions.get(&region).map(|it| it.lease.until());
        lease.unwrap_or(Micros::ZERO).min(self.heartbeat.until())
    }

    fn follow(&mut self, subject: Subject) {
        if self.followed.insert(subject) {
            if let Subject::Log(id) = subject {
                self.logs.entry(id).or_default();
            }
            self.events.push_back(RegionEvent::Ledger(LedgerRequest::Follow(subject)));
        }
    }

    /// Says something, unless it has expired.
    fn publish(&mut self, to: Recipient, body: BusMessage, expires: Micros) {
        if to == Recipient::Server(self.me) {
            return self.loopback.push_back(body);
        }
        let world = self.clock.world(self.woken).unwrap_or(0);
        let bytes = Envelope { from: self.me, world, body }.write();
        self.events.push_back(RegionEvent::Publish(Publication { to, bytes, expires }));
    }

    /// One round, in this order: what was not answered, signs of life, what is known of others, who may act, which
    /// regions are to be taken or given away, the ticks, what is to be logged, what is to be told.
    fn wake(&mut self, now: Micros, out: &mut impl Outbox) {
        self.woken = now;
        if self.ended {
            return;
        }
        let events = &mut self.events;
        self.appends.retry(now, |request| events.push_back(RegionEvent::Ledger(request)));
        self.found(now);
        self.show_life(now);
        self.measure(now);
        self.gossip(now);
        self.follow_needed(now);
        self.stand_by(now);
        self.take_abandoned(now);
        self.open_regions(now);
        self.send_beacons(now);
        self.keep_standbys(now);
        self.close_regions(now);
        self.balance(now);
        self.help(now);
        self.hold_sessions(now);
        if let Some((tick, _)) = self.clock.tick(now, self.settings.rounds.length) {
            self.run_ticks(tick, now, out);
        }
        self.mind_players(now);
        self.repeat_sessions(now);
        self.hear_itself(now);
    }

    /// All ticks up to this one.
    fn run_ticks(&mut self, tick: u32, now: Micros, out: &mut impl Outbox) {
        let first = (self.ticked + 1).max(tick.saturating_sub(owner::MAX_CATCH_UP - 1));
        for tick in first..=tick {
            self.ticked = tick;
            let ids: Vec<RegionId> = self.regions.keys().copied().collect();
            for id in ids {
                // A region that was opened meanwhile begins with its own tick.
                let due = self.regions.get(&id).is_some_and(|region| region.ticked < tick);
                if due && self.may_act_until(id) > now {
                    self.tick_region(id, tick, now, out);
                }
            }
        }
    }

    fn tick_region(&mut self, id: RegionId, tick: u32, now: Micros, out: &mut impl Outbox) {
        let expires = self.may_act_until(id);
        let Some((mut region, view)) = self.regions.remove(&id).zip(self.view.clone()) else {
            return;
        };
        self.with_surroundings(now, |around| {
            region.tick(tick, around);
            around.effects.push(Effect::Reached(MeshStep::Stepped));
            region.send_handoffs(around);
            region.tell(tick, &view, around, out);
            region.subscribe(around);
            region.send_actions(around);
        });
        self.regions.insert(id, region);
        self.settle(expires);
        self.append_log(id, now);
    }

    fn with_surroundings<R>(
        &mut self,
        now: Micros,
        work: impl FnOnce(&mut Surroundings<'_>) -> R,
    ) -> Option<R> {
        let (_, layout) = self.layout.as_ref()?;
        Some(work(&mut Surroundings {
            me: self.me,
            layout,
            logs: &mut self.logs,
            settings: &self.settings,
            streams: &mut self.streams,
            now,
            effects: &mut self.effects,
        }))
    }

    /// Carries effects out, in order.
    fn settle(&mut self, expires: Micros) {
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Send(to, message) => self.publish(Recipient::Server(to), message, expires),
                Effect::Reached(step) => self.reach(step),
                Effect::Arrived(object, epoch, late) => {
                    self.counts.taken += 1;
                    self.events.push_back(RegionEvent::Arrived { object, epoch, late });
                }
                Effect::AskLost => self.events.push_back(RegionEvent::AskLost),
            }
        }
    }

    fn reach(&mut self, step: MeshStep) {
        self.counts.given += u64::from(step == MeshStep::OutLogged);
        self.events.push_back(RegionEvent::Reached(step));
    }

    /// Appends what a region has to log.
    fn append_log(&mut self, id: RegionId, now: Micros) {
        let Some(last) = self.logs.get(&id).map(|view| view.last) else { return };
        let subject = Subject::Log(id);
        if self.appends.pending(subject).is_some() {
            return;
        }
        let Some(batch) = self.regions.get_mut(&id).and_then(Region::next_batch) else { return };
        let request = self.appends.append((subject, last), batch, now);
        let has = |test: fn(&log::LogEntry) -> bool| batch.entries.iter().any(test);
        let out = has(|entry| matches!(entry, log::LogEntry::Out { sequence: None, .. }));
        let taken = has(|entry| matches!(entry, log::LogEntry::In { .. }));
        self.events.extend(request.map(RegionEvent::Ledger));
        if out {
            self.reach(MeshStep::OutSent);
        }
        if taken {
            self.reach(MeshStep::InSent);
        }
    }
}

impl<G: Game> Node for RegionServer<G> {
    type Command = RegionCommand;
    type Event = RegionEvent;

    fn handle(&mut self, now: Micros, input: NodeInput<'_, RegionCommand>, out: &mut impl Outbox) {
        self.woken = now;
        if self.ended {
            return;
        }
        match input {
            NodeInput::Wake => self.wake(now, out),
            NodeInput::Command(command) => {
                match command {
                    RegionCommand::Found(layout) => self.founding = Some(layout),
                    RegionCommand::Answer(request, answer) => self.on_answer(request, answer, now),
                    RegionCommand::Entry(subject, sequence, bytes) => {
                        self.on_entry(subject, sequence, &bytes, now);
                    }
                    RegionCommand::Deliver(bytes) => self.on_message(&bytes, now),
                    RegionCommand::Change(change) => self.change(change, now),
                    RegionCommand::EndRound(took) => self.end_round(took),
                    RegionCommand::Drain => self.balancer.drain(),
                    RegionCommand::Admit(link) => self.admit(link, now),
                    RegionCommand::Reject(link, why) => self.turn_away(link, why),
                    RegionCommand::SetCapacity(link, bytes) => self.set_capacity(link, bytes),
                }
                self.hear_itself(now);
            }
            // Players come by links; servers speak by the bus.
            NodeInput::Connected(link, _) => self.on_connected(link, now),
            NodeInput::Datagram(link, bytes) => self.on_client_datagram(link, bytes, now),
            NodeInput::Message(link, bytes) => self.on_client_message(link, bytes, now),
            NodeInput::Closed(link) => self.on_closed(link, now),
        }
        self.flush(out);
    }

    fn poll(&mut self) -> Option<RegionEvent> {
        self.events.pop_front()
    }

    /// All servers' rounds begin together, by the world's clock.
    fn next_wake(&self, now: Micros) -> Micros {
        let next = self.clock.tick(now, self.settings.rounds.length);
        next.map_or(now + self.settings.rounds.length, |(_, next)| next)
    }
}
