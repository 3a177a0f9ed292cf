//! The same scripts by our engine: publishers and replicas on the lab's network, one of each for every stream.
//!
//! This uses the pipeline without sessions: in the source clients own their objects, while our server runs the rules,
//! so that its clients send inputs and no states.
//!
//! Here clients own their objects, as in the source: a client publishes to the server, and the server relays what it
//! knows, with half of the error bound for each hop. Peers send to each other directly; one that joins asks an entry
//! peer for the list of players. That list is state, too: a player is an object without a place. So is an order: it is
//! delivered, acknowledged and repeated after loss like any state, and needs no channel of its own. Streams have
//! separate channels here only so that their bytes can be distinguished.

mod orders;
mod roster;

use super::Topology;
use super::field::{Rollout, UnitCourse, pose};
use super::gvo::{LATENCY, THRESHOLD};
use super::meter::{Carrier, Split, Stream, TICK, TrafficMeter, share};
use super::script::{FASTEST, FRAME, SIDE, Script, ZONE};
use super::walk::STEPS;
use foveate_lab::avatar::{AvatarSpec, LabAvatar};
use foveate_lab::movement::AvatarPose;
use foveate_lab::network::{Host, Network, NetworkSpec, Placed, Placement, Reaction};
use foveate_node::outbox::Outbox;
use foveate_node::{Link, Node, NodeInput};
use foveate_sync::interest::{Grade, Pace, Pivot, Policy, Sight, ViewError, Zoned, presets};
use foveate_sync::metrics::Counters;
use foveate_sync::replica::{Change, ReceiveError};
use foveate_sync::{Budget, Observer, ObserverId, Pivots, Publisher, ReplicaSet, Rounds};
use foveate_wire::packet::{ACK_BYTES, Ack};
use foveate_wire::{
    Bytes, KindId, Metres, Micros, ObjectId, OwnerId, Position, Radians, Replicate, Schema,
    SchemaError, Tick,
};
use orders::Order;
use std::collections::VecDeque;
use std::sync::Arc;

/// Most rounds that begin in one tick of the meter.
const ROUNDS_PER_TICK: u64 = TICK.0.div_ceil(FRAME.0);
/// Bytes of a tick's budget that are reserved for what a round may overdraw: a record, a header.
const RESERVE: u32 = 60;
/// Frames after a collision in which positions may still be sent, to correct replicas that were predicted on.
const SETTLE: usize = 12;
/// Distance at which an object's weight has halved, so that near objects are sent first.
const NEAR: f32 = 10.0;

/// A player's entry in the list.
#[derive(Clone, PartialEq, Debug, Replicate)]
struct Player {
    #[replicate(max_len = 16)]
    name: String,
}

/// The accuracy required of replicas.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Exact {
    /// Off by at most the source's threshold.
    #[default]
    Bounded,
    /// The same, for observers in the same zone.
    Zoned,
    /// VFC's normal view: by distance and field of view.
    Graded,
}

/// The settings of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ours {
    pub predicts: bool,
    pub exact: Exact,
    /// Send every object in a packet of its own.
    pub apart: bool,
    /// Send orders instead of positions, if the script has any.
    pub actions: bool,
    /// Bytes per observer and tick of the meter.
    pub budget: Option<Bytes>,
    /// Tell a newcomer among peers only of the peers near its spawn point.
    pub near_spawn: bool,
}

impl Default for Ours {
    fn default() -> Ours {
        Ours {
            predicts: true,
            exact: Exact::Bounded,
            apart: false,
            actions: false,
            budget: None,
            near_spawn: false,
        }
    }
}

/// The results of a run.
pub struct RunResult {
    pub meter: TrafficMeter,
    /// Counters of all observers in the streams with places.
    pub counters: Counters,
    /// First states in the order of arrival: frame, node, thing.
    pub appeared: Vec<(usize, usize, usize)>,
    /// Errors of other players' things at the second player, in units.
    pub error: ReplicaErrors,
    /// For each order that the authority carried out, the frames since the player gave it.
    pub order_delays: Vec<usize>,
    /// Positions of units that had not collided for half a second, except the first one of each unit.
    pub idle_positions: u64,
}

/// Errors of replicas, in units.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ReplicaErrors {
    sum: f64,
    samples: u64,
    pub max: f64,
    /// In the last frame.
    pub last: f64,
}

impl ReplicaErrors {
    fn add(&mut self, error: f64) {
        (self.sum, self.samples) = (self.sum + error, self.samples + 1);
        self.max = self.max.max(error);
    }

    pub fn mean(&self) -> f64 {
        self.sum / self.samples.max(1) as f64
    }
}

/// A policy with a maximum error, where nearer objects weigh more. The inner policy decides which observers need the
/// object.
struct Within {
    inner: Option<Zoned>,
    error: Metres,
}

impl Policy for Within {
    fn grade(&self, sight: &Sight) -> Option<Grade> {
        if let Some(zoned) = &self.inner {
            zoned.grade(sight)?;
        }
        let weight = 1.0 / (1.0 + sight.distance.0 / NEAR);
        Some(Grade {
            max_error: self.error,
            floor: self.error,
            facing: 1.0,
            weight,
            ..Grade::EXACT
        })
    }
}

fn policy(exact: Exact, error: Metres) -> Result<Arc<dyn Policy>, ViewError> {
    let pace = Pace::every(Micros::ZERO);
    let zoned = Zoned { side: Metres(ZONE), aoi: Metres::ZERO, pace };
    Ok(match exact {
        Exact::Bounded => Arc::new(Within { inner: None, error }),
        Exact::Zoned => Arc::new(Within { inner: Some(zoned), error }),
        Exact::Graded => presets::normal(0.2 * SIDE, 0.4 * SIDE).build()?,
    })
}

/// The contents of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum About {
    Players,
    /// Things; only one of them, if they are sent separately.
    Things(Option<usize>),
    Orders,
    /// A peer's entry, for its entry peer.
    Arrival,
    /// The peers that a newcomer may connect to, from an entry peer.
    Roster,
}

impl About {
    /// Whether it only serves to find peers.
    fn finds_peers(self) -> bool {
        matches!(self, About::Arrival | About::Roster)
    }
}

/// A one-way connection of two nodes: one publishes, the other observes.
struct Tie {
    from: usize,
    to: usize,
    observer: ObserverId,
    replicas: ReplicaSet,
    link: Link,
    /// For each packet in flight, its bytes by stream.
    splits: VecDeque<Split>,
    before: Counters,
}

/// One stream: a publisher at every node, and the ties between nodes.
struct Channel {
    about: About,
    schema: Arc<Schema>,
    publishers: Vec<Publisher>,
    ties: Vec<Tie>,
}

/// (channel, from, to)
type Route = (usize, usize, usize);

/// A packet, and the link that it arrived on or is for.
struct Packet {
    link: Link,
    bytes: Vec<u8>,
}

/// A node's end of its links. What arrives is given to [`Play`], which knows all nodes.
#[derive(Default)]
struct Postbox(VecDeque<Packet>);

impl Node for Postbox {
    /// A packet to send.
    type Command = Packet;
    /// A packet that arrived.
    type Event = Packet;

    fn handle(&mut self, _: Micros, input: NodeInput<'_, Packet>, out: &mut impl Outbox) {
        match input {
            NodeInput::Command(Packet { link, bytes }) => out.datagram(link, &bytes),
            NodeInput::Datagram(link, bytes) => {
                self.0.push_back(Packet { link, bytes: bytes.to_vec() });
            }
            _ => {}
        }
    }

    fn poll(&mut self) -> Option<Packet> {
        self.0.pop_front()
    }

    fn next_wake(&self, _: Micros) -> Micros {
        Micros(u64::MAX)
    }
}

impl Host<Postbox> for Play<'_> {
    fn on_event(
        &mut self,
        now: Micros,
        at: usize,
        _: &mut Placed<Postbox>,
        Packet { link, bytes }: Packet,
    ) -> Option<Reaction<Packet>> {
        let is_it = |tie: &Tie| tie.link == link;
        let find =
            |(channel, it): (usize, &Channel)| Some((channel, it.ties.iter().position(is_it)?));
        let (channel, tie) = self.channels.iter().enumerate().find_map(find)?;
        if self.channels[channel].ties[tie].to == at {
            let answer = self.hear(channel, tie, now, &bytes)?;
            return Some(Reaction::Answer(Micros::ZERO, Packet { link, bytes: answer }));
        }
        let split = Stream::Control.only(bytes.len() as u64);
        self.ran.meter.received(at, now, Carrier::Udp, split);
        let Channel { publishers, ties, .. } = &mut self.channels[channel];
        let ack = Ack::read(&bytes).ok()?;
        publishers[at].on_ack(ties[tie].observer, &ack, now);
        None
    }
}

/// Why a script could not be played.
#[derive(Debug, thiserror::Error)]
pub enum PlayError {
    #[error(transparent)]
    Schema(#[from] SchemaError),
    #[error(transparent)]
    View(#[from] ViewError),
}

struct Play<'a> {
    script: &'a Script,
    topology: Topology,
    ours: Ours,
    channels: Vec<Channel>,
    /// `None` while the network is running.
    network: Option<Network<Postbox>>,
    /// Units with orders as their authority moves them, if orders are sent.
    units: Option<Rollout>,
    /// For each unit, when the order that it follows was given, as far as the authority knows.
    acted: Vec<u32>,
    frame: usize,
    ran: RunResult,
}

/// Plays a script by our engine.
pub fn play(
    script: &Script,
    topology: Topology,
    ours: Ours,
    seed: u64,
) -> Result<RunResult, PlayError> {
    let nodes = topology.nodes(script.players.len());
    let mut abouts = vec![About::Players];
    if ours.apart {
        abouts.extend((0..script.things.len()).map(|thing| About::Things(Some(thing))));
    } else {
        abouts.push(About::Things(None));
    }
    abouts.extend(ours.actions.then_some(About::Orders));
    if topology == Topology::Peers {
        abouts.extend([About::Arrival, About::Roster]);
    }
    let make = |about: &About| Channel::new(*about, ours, nodes);
    let channels = abouts.iter().map(make).collect::<Result<Vec<_>, _>>()?;
    let ran = RunResult {
        meter: TrafficMeter::new(nodes),
        counters: Counters::default(),
        appeared: Vec::new(),
        error: ReplicaErrors::default(),
        order_delays: Vec::new(),
        idle_positions: 0,
    };
    let network = Some(Network::new(NetworkSpec::delayed(LATENCY, seed)));
    let units = script.orders.as_ref().filter(|_| ours.actions).map(Rollout::new);
    let acted = vec![0; script.things.len()];
    let mut play = Play { script, topology, ours, channels, network, units, acted, frame: 0, ran };
    play.on_network(|network, play| {
        (0..nodes).for_each(|_| _ = network.add(Postbox::default(), Placement::PLAIN, play));
    });
    for frame in 0..script.frames {
        play.frame = frame;
        play.round()?;
    }
    for channel in play.channels.iter().filter(|c| matches!(c.about, About::Things(_))) {
        channel.publishers.iter().for_each(|it| play.ran.counters.add(&it.totals()));
    }
    Ok(play.ran)
}

impl Channel {
    fn new(about: About, ours: Ours, nodes: usize) -> Result<Channel, SchemaError> {
        let schema = match about {
            About::Players => Arc::new(Schema::new(vec![Player::spec()])?),
            About::Orders => Arc::new(Schema::new(vec![Order::spec()])?),
            About::Arrival | About::Roster => {
                Arc::new(Schema::new(vec![roster::RosterEntry::spec()])?)
            }
            About::Things(_) => AvatarSpec {
                precision: 1.0 / STEPS as f32,
                extent: SIDE,
                max_speed: FASTEST,
                motion: ours.predicts,
                fall: 0,
                facing_floor: super::gvo::FACING,
            }
            .schema()?,
        };
        let publisher = || Publisher::new(Arc::clone(&schema), Rounds::every(FRAME));
        let publishers = std::iter::repeat_with(publisher).take(nodes).collect();
        Ok(Channel { about, schema, publishers, ties: Vec::new() })
    }

    fn tie(&self, from: usize, to: usize) -> Option<&Tie> {
        self.ties.iter().find(|tie| (tie.from, tie.to) == (from, to))
    }

    /// Writes an object's value at a node, creating the object if necessary.
    fn write<T: Replicate>(&mut self, node: usize, id: ObjectId, value: &T) {
        let store = &mut self.publishers[node].store;
        let written = match store.find(id) {
            Some(slot) => store.set(slot, value),
            None => store.create(id, OwnerId(id.origin()), value).map(|_| ()),
        };
        debug_assert!(written.is_ok());
    }

    /// Removes a player's objects from a node's store.
    fn forget(&mut self, node: usize, player: usize) {
        let store = &mut self.publishers[node].store;
        let theirs = |id: &ObjectId| id.origin() == origin(Some(player));
        let gone: Vec<ObjectId> = store.iter().map(|(id, _)| id).filter(theirs).collect();
        for slot in gone.into_iter().filter_map(|id| store.find(id)).collect::<Vec<_>>() {
            let removed = store.remove(slot);
            debug_assert!(removed.is_ok());
        }
    }
}

/// The origin of an owner's ids. The world's objects have origin 0; players start at one.
fn origin(owner: Option<usize>) -> u32 {
    owner.map_or(0, |owner| owner as u32 + 1)
}

fn id_of(owner: Option<usize>, serial: usize) -> ObjectId {
    ObjectId::new(KindId(0), origin(owner), serial as u32)
}

fn eye(at: impl Into<Position>) -> Pivot {
    Pivot::looking(at, Radians::default(), Radians::default())
}

/// Where an observer looks from when nothing is known of it yet.
const MIDDLE: [f32; 3] = [SIDE / 2.0, SIDE / 2.0, 0.0];

impl Play<'_> {
    fn on_network(&mut self, act: impl FnOnce(&mut Network<Postbox>, &mut Self)) {
        let Some(mut network) = self.network.take() else { return };
        act(&mut network, self);
        self.network = Some(network);
    }

    fn round(&mut self) -> Result<(), PlayError> {
        let now = FRAME * self.frame as u32;
        for player in 0..self.script.players.len() {
            if self.script.players[player].start == self.frame {
                self.join(player)?;
            } else if self.script.players[player].end == self.frame {
                self.leave(player);
            }
        }
        self.on_network(|network, play| network.run_until(now, play));
        self.meet_listed()?;
        self.command();
        for channel in 0..self.channels.len() {
            for node in 0..self.channels[channel].publishers.len() {
                match self.channels[channel].about {
                    About::Players => self.write_players(channel, node),
                    About::Things(only) => self.write_things(channel, node, only),
                    About::Orders => self.write_orders(channel, node),
                    About::Arrival => self.write_arrival(channel, node),
                    About::Roster => self.write_roster(channel, node),
                }
                self.look(channel, node)?;
                self.tell(channel, node, now);
            }
        }
        self.compare();
        Ok(())
    }

    /// The nodes that a player's node connects to.
    fn neighbours(&self, player: usize) -> Vec<usize> {
        let joined = |other: &usize| {
            // Of players that join in the same frame, the first ones are present already.
            let stay = &self.script.players[*other];
            stay.contains(&self.frame) && (stay.start, *other) < (self.frame, player)
        };
        match self.topology {
            Topology::Server => vec![0],
            Topology::Peers => (0..self.script.players.len()).filter(joined).collect(),
        }
    }

    /// With a server, all nodes connect to it. A peer only knows an entry peer, which it asks for the list of players.
    fn join(&mut self, player: usize) -> Result<(), PlayError> {
        let me = self.topology.node(player);
        let Some(first) = self.neighbours(player).first().copied() else { return Ok(()) };
        if self.topology == Topology::Peers {
            self.ask_roster(first, me);
            if self.ours.near_spawn {
                return Ok(());
            }
        }
        self.connect_both(me, first)
    }

    /// Connects two nodes in both directions.
    fn connect_both(&mut self, me: usize, other: usize) -> Result<(), PlayError> {
        for channel in 0..self.channels.len() {
            if !self.channels[channel].about.finds_peers() {
                self.connect((channel, me, other))?;
                self.connect((channel, other, me))?;
            }
        }
        Ok(())
    }

    /// The policy for a node's replicas.
    fn policy(&self, to: usize, exact: Exact) -> Result<Arc<dyn Policy>, PlayError> {
        let relayed = self.topology == Topology::Server;
        let error = Metres(if relayed { THRESHOLD / 2.0 } else { THRESHOLD });
        // The server must know everything: only the others have a narrow view.
        let exact = if relayed && to == 0 { Exact::Bounded } else { exact };
        Ok(policy(exact, error)?)
    }

    fn connect(&mut self, route: Route) -> Result<(), PlayError> {
        let policy = self.policy(route.2, self.ours.exact)?;
        self.connect_as(route, policy, MIDDLE);
        Ok(())
    }

    /// Adds a tie whose observer looks from `at`.
    fn connect_as(&mut self, route: Route, policy: Arc<dyn Policy>, at: [f32; 3]) {
        let (channel, from, to) = route;
        debug_assert!(self.channels[channel].tie(from, to).is_none(), "tied already: {route:?}");
        let (tick, eyes) = (Tick(self.frame as u32), vec![eye(at)]);
        let mut observer = Observer::new(policy, Pivots::Free(eyes), tick).without_own_objects();
        if let Some(Bytes(bytes)) = self.ours.budget {
            let each = bytes.saturating_sub(RESERVE) / ROUNDS_PER_TICK as u32;
            observer = observer.with_budget(Budget::per_round(Bytes(each.max(1)), 1));
        }
        let mut link = None;
        self.on_network(|network, play| link = network.connect(from, to, play));
        let Some(link) = link else { return };
        let channel = &mut self.channels[channel];
        let observer = channel.publishers[from].add(observer);
        channel.ties.push(Tie {
            from,
            to,
            observer,
            replicas: ReplicaSet::new(Arc::clone(&channel.schema), tick),
            link,
            splits: VecDeque::new(),
            before: Counters::default(),
        });
    }

    /// Handles failed connections; what others relayed about the player is removed.
    fn leave(&mut self, player: usize) {
        let me = self.topology.node(player);
        for channel in &mut self.channels {
            for tie in channel.ties.extract_if(.., |tie| tie.from == me || tie.to == me) {
                if let Some(gone) = channel.publishers[tie.from].remove(tie.observer)
                    && matches!(channel.about, About::Things(_))
                {
                    self.ran.counters.add(gone.counters());
                }
            }
            for node in 0..channel.publishers.len() {
                channel.forget(node, player);
            }
        }
    }

    fn write_players(&mut self, channel: usize, node: usize) {
        for player in 0..self.script.players.len() {
            let mine = self.topology.node(player) == node;
            if mine && self.script.players[player].start == self.frame {
                let name = format!("player_{player}");
                self.channels[channel].write(node, id_of(Some(player), 0), &Player { name });
            }
        }
        for (id, value) in self.relayed::<Player>(channel, node) {
            self.channels[channel].write(node, id, &value);
        }
    }

    /// The newest states that a relaying node received of others.
    fn relayed<T: Replicate>(&self, channel: usize, node: usize) -> Vec<(ObjectId, T)> {
        let relays = self.topology == Topology::Server && node == 0;
        let ties = self.channels[channel].ties.iter().filter(|tie| relays && tie.to == node);
        ties.flat_map(|tie| tie.replicas.iter())
            .filter_map(|view| Some((view.id(), view.value::<T>()?)))
            .collect()
    }

    /// Whether a thing is a unit with orders.
    fn ordered(&self, thing: usize) -> bool {
        self.units.as_ref().is_some_and(|run| thing < run.units().len())
    }

    /// Where a thing is: for a unit with orders, where its authority has moved it; otherwise by the script.
    fn pose(&self, thing: usize) -> Option<AvatarPose> {
        match self.units.as_ref().filter(|_| self.ordered(thing)) {
            Some(run) => run.newest(thing).map(|(now, _)| now.pose),
            None => self.script.pose(thing, self.frame),
        }
    }

    /// The node that publishes a thing's place: its owner's; for units with orders, the authority's.
    fn author(&self, thing: usize) -> usize {
        match self.script.things[thing].owner {
            Some(owner) if !self.ordered(thing) => self.topology.node(owner),
            _ => 0,
        }
    }

    fn write_things(&mut self, channel: usize, node: usize, only: Option<usize>) {
        let tick = Tick(self.frame as u32);
        for thing in 0..self.script.things.len() {
            if self.author(thing) != node || only.is_some_and(|only| only != thing) {
                continue;
            }
            let Some(pose) = self.pose(thing) else { continue };
            let id = id_of(self.script.things[thing].owner, thing);
            let known = self.channels[channel].publishers[node].store.find(id).is_some();
            let run = self.units.as_ref().filter(|_| self.ordered(thing));
            let colliding = run.and_then(|run| Some(run.newest(thing)?.0.course.colliding));
            // A unit with orders is where its order implies, unless it collides.
            if !known || colliding != Some(false) {
                self.channels[channel].write(node, id, &LabAvatar::from(pose));
            }
        }
        let heard = self.relayed::<LabAvatar>(channel, node);
        let channel = &mut self.channels[channel];
        for (id, mut value) in heard {
            let ties = channel.ties.iter().filter(|tie| tie.to == node);
            let replica = ties.filter_map(|tie| tie.replicas.get(id)).next();
            if let Some(at) = replica.and_then(|replica| replica.predicted(tick)) {
                value.pos = at.0;
                channel.write(node, id, &value);
            }
        }
    }

    /// Moves the pivots of a node's observers to where their players' things are, as far as known.
    fn look(&mut self, channel: usize, node: usize) -> Result<(), PlayError> {
        if self.channels[channel].about.finds_peers() {
            // A newcomer keeps looking from its spawn point.
            return Ok(());
        }
        let tick = Tick(self.frame as u32);
        let mut all = Vec::new();
        let here = &self.channels[channel];
        for tie in here.ties.iter().filter(|tie| tie.from == node) {
            let player = self.topology.player(tie.to);
            let mut eyes = Vec::new();
            for thing in player.into_iter().flat_map(|player| self.script.of(player)) {
                let id = id_of(player, thing);
                let at = match self.author(thing) == node {
                    true => self.pose(thing).map(|pose| Position(pose.pos)),
                    false => here
                        .tie(tie.to, node)
                        .and_then(|back| back.replicas.get(id)?.predicted(tick)),
                };
                // Its own units are also sent to it if they have orders, since only the authority knows them.
                let own = here.publishers[node].store.find(id);
                let object = own.filter(|_| !self.ordered(thing));
                eyes.extend(at.map(|at| Pivot { object, ..eye(at) }));
            }
            let known = !eyes.is_empty();
            if !known {
                eyes.push(eye(MIDDLE));
            }
            all.push((tie.observer, tie.to, eyes, known));
        }
        for (observer, to, eyes, known) in all {
            // Peers that know nothing of each other would never meet by zones: until one knows where the other is, and
            // after it has forgotten, it sends everything.
            let met = known || self.topology == Topology::Server;
            let policy = self.policy(to, if met { self.ours.exact } else { Exact::Bounded })?;
            let publisher = &mut self.channels[channel].publishers[node];
            if let Some(observer) = publisher.observer_mut(observer) {
                observer.set_pivots(Pivots::Free(eyes));
                observer.set_policy(policy);
            }
        }
        Ok(())
    }

    /// Runs one round of a publisher and sends its packets.
    fn tell(&mut self, at: usize, node: usize, now: Micros) {
        let Channel { about, publishers, ties, .. } = &mut self.channels[at];
        let (publisher, mut packets) = (&mut publishers[node], Vec::new());
        publisher
            .round(Tick(self.frame as u32), now, |to, bytes| packets.push((to, bytes.to_vec())));
        let mut sent = Vec::new();
        for (to, bytes) in packets {
            let tie = ties.iter_mut().find(|tie| tie.from == node && tie.observer == to);
            let Some(tie) = tie else { continue };
            let counters = publisher.observer(to).map(|o| *o.counters());
            let weights = weights(*about, &tie.before, &counters.unwrap_or_default());
            let split = share(bytes.len() as u64, weights);
            self.ran.meter.sent(node, now, Carrier::Udp, split);
            tie.splits.push_back(split);
            sent.push(Packet { link: tie.link, bytes });
        }
        for tie in ties.iter_mut().filter(|tie| tie.from == node) {
            if let Some(observer) = publisher.observer(tie.observer) {
                tie.before = *observer.counters();
            }
        }
        self.on_network(|network, play| {
            sent.into_iter().for_each(|packet| network.command(node, packet, play));
        });
    }

    /// Handles a packet, and returns the acknowledgement.
    fn hear(&mut self, channel: usize, tie: usize, now: Micros, bytes: &[u8]) -> Option<Vec<u8>> {
        let Channel { about, ties, .. } = &mut self.channels[channel];
        let (tie, things) = (&mut ties[tie], matches!(about, About::Things(_)));
        // Nothing is lost or reordered here.
        let split = tie.splits.pop_front()?;
        self.ran.meter.received(tie.to, now, Carrier::Udp, split);
        let (mut updated, mut appeared) = (Vec::new(), Vec::new());
        let heard = tie.replicas.receive(bytes, |change| match change {
            Change::Appeared(id) if things => appeared.push(id.serial() as usize),
            Change::Updated(id) if things => updated.push(id.serial() as usize),
            _ => {}
        });
        let to = tie.to;
        let ack = tie.replicas.ack().filter(|_| !matches!(heard, Err(ReceiveError::Packet(_))));
        self.ran.appeared.extend(appeared.into_iter().map(|thing| (self.frame, to, thing)));
        for thing in updated {
            if let Some(run) = self.units.as_ref().filter(|_| self.ordered(thing)) {
                self.ran.idle_positions += u64::from(!run.collided_within(thing, SETTLE));
            }
        }
        let mut bytes = Vec::with_capacity(ACK_BYTES);
        ack?.write(&mut bytes);
        let split = Stream::Control.only(bytes.len() as u64);
        self.ran.meter.sent(to, now, Carrier::Udp, split);
        Some(bytes)
    }

    /// Where the second player sees a thing of the first player's.
    fn shown(&self, watcher: usize, thing: usize) -> Option<AvatarPose> {
        let tick = Tick(self.frame as u32);
        let id = id_of(self.script.things[thing].owner, thing);
        let replicas = |about: fn(&About) -> bool| {
            let channels = self.channels.iter().filter(move |channel| about(&channel.about));
            let ties = channels.flat_map(|channel| &channel.ties);
            ties.filter(|tie| tie.to == watcher).find_map(|tie| tie.replicas.get(id))
        };
        if self.ordered(thing) {
            let order = replicas(|about| *about == About::Orders)?.value::<Order>()?;
            let course = UnitCourse::from(order);
            if !course.colliding {
                let orders = self.script.orders.as_ref()?;
                let (at, facing) = course.at(&*orders.walk, tick.0);
                return Some(pose(at, facing));
            }
        }
        let pos = replicas(|about| matches!(about, About::Things(_)))?.predicted(tick)?.0;
        Some(AvatarPose { pos, ..AvatarPose::default() })
    }

    fn compare(&mut self) {
        if self.script.players.len() < 2 || !self.script.present(1, self.frame) {
            return;
        }
        let watcher = self.topology.node(1);
        let mut last = 0.0f64;
        for thing in 0..self.script.things.len() {
            if self.script.things[thing].owner != Some(0) {
                continue;
            }
            let truth = self.pose(thing);
            let Some((truth, shown)) = truth.zip(self.shown(watcher, thing)) else { continue };
            let square: f32 = (0..3).map(|i| (truth.pos[i] - shown.pos[i]).powi(2)).sum();
            self.ran.error.add(f64::from(square.sqrt()));
            last = last.max(f64::from(square.sqrt()));
        }
        self.ran.error.last = last;
    }
}

/// How to divide a round's packets among streams, with headers in proportion to their contents.
fn weights(about: About, before: &Counters, now: &Counters) -> [f64; 5] {
    let mut weights = [0.0; 5];
    match about {
        About::Players | About::Arrival | About::Roster => {
            weights[Stream::Control as usize] = 1.0;
        }
        About::Orders => weights[Stream::Action as usize] = 1.0,
        About::Things(_) => {
            weights[Stream::Control as usize] = now.bits.control - before.bits.control;
            weights[Stream::State as usize] = now.bits.state - before.bits.state;
            weights[Stream::FullState as usize] = now.bits.full - before.bits.full;
        }
    }
    weights
}
