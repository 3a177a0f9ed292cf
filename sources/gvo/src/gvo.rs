//! The source's protocol, for comparison only: its messages, its two topologies, and each of its optimisations on and
//! off.
//!
//! The network is that of the source's laboratory: a constant latency, and no loss unless a run has it. So nothing
//! needs to be kept in flight: what is sent in a frame arrives in that frame, and the server answers in it. What TCP
//! carries is acknowledged, and repeated until it arrives.

use super::Topology;
use super::field::Rollout;
use super::messages::{self as say, Increment};
use super::meter::{Carrier, Split, Stream, TrafficMeter, share};
use super::script::{FRAME, Script, ZONE};
use super::squeeze::Squeeze;
use foveate_lab::movement::AvatarPose;
use foveate_lab::net::{Fate, Link, LinkSpec, Loss};
use foveate_wire::Micros;
use std::collections::{BTreeMap, BTreeSet};

/// One-way latency of every link.
pub const LATENCY: Micros = Micros(20_000);
/// Dead reckoning sends when its prediction is off by more than this many units. The source gives no figure; ours has
/// the same bound.
pub const THRESHOLD: f32 = 0.25;
/// It also sends when the facing is off by more than this many degrees; ours has the same floor.
pub const FACING: f32 = 15.0;
/// One step of an increment, in units. The source gives no figure.
const OFFSET: f32 = 1.0 / 16.0;
/// Payload of a TCP segment.
const SEGMENT: usize = 1_460;
/// TCP repeats unacknowledged data after this time, the shortest in Linux.
const RETRANSMIT: Micros = Micros(200_000);
/// TCP acknowledges every second segment, and the last one of a burst.
const SEGMENTS_PER_ACK: usize = 2;
/// The owner of objects without an owner.
const UNOWNED: u16 = u16::MAX;

/// Which of the source's optimisations are on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Optimisations {
    pub dead_reckoning: bool,
    /// Bits of an offset.
    pub increments: Option<u32>,
    pub aggregation: bool,
    pub zoning: bool,
    pub squeeze: Option<Squeeze>,
    /// Send orders instead of positions, if the script has any.
    pub actions: bool,
    /// Tell a newcomer among peers only of the peers near its spawn point.
    pub near_spawn: bool,
    /// Share of packets lost, in percent.
    pub loss: u32,
}

/// The results of a run.
pub struct SourceRun {
    pub meter: TrafficMeter,
    /// Full states in the order of arrival: time, node, thing.
    pub learned: Vec<(Micros, usize, usize)>,
}

/// What one end of a hop last sent the other about an object.
#[derive(Clone, Copy, Default)]
struct LastSent {
    /// The last pose, its frame, and the speed per frame that the receiver derives from it.
    last: Option<(AvatarPose, usize, [f32; 3])>,
    /// The last full position, and its number.
    full: Option<(AvatarPose, u32)>,
}

/// The way from one node to another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Hop {
    from: usize,
    to: usize,
}

fn hop(from: usize, to: usize) -> Hop {
    Hop { from, to }
}

/// (stage of the frame, hop, carrier): messages with the same key are sent together.
type BatchKey = (u8, Hop, Carrier);

struct Play<'a> {
    script: &'a Script,
    topology: Topology,
    optimisations: Optimisations,
    ran: SourceRun,
    /// Units with orders, if orders are sent.
    units: Option<Rollout>,
    /// Conditions of the network for every packet.
    link: Link,
    queue: BTreeMap<BatchKey, Vec<(Stream, Vec<u8>)>>,
    /// What a hop was last sent about a thing.
    told: BTreeMap<(Hop, usize), LastSent>,
    /// Players that have joined and not left.
    joined: BTreeSet<usize>,
    frame: usize,
}

type Zone = [i32; 2];

fn zone(pose: &AvatarPose) -> Zone {
    [0, 1].map(|axis| (pose.pos[axis] / ZONE).floor() as i32)
}

/// Plays a script by the source's protocol.
pub fn play(
    script: &Script,
    topology: Topology,
    optimisations: Optimisations,
    seed: u64,
) -> SourceRun {
    let meter = TrafficMeter::new(topology.nodes(script.players.len()));
    let loss = Loss::Bernoulli(f64::from(optimisations.loss) / 100.0);
    let spec = LinkSpec { loss, ..LinkSpec::delayed(LATENCY) };
    let mut play = Play {
        script,
        topology,
        optimisations,
        ran: SourceRun { meter, learned: Vec::new() },
        units: script.orders.as_ref().filter(|_| optimisations.actions).map(Rollout::new),
        link: Link::new(spec, seed),
        queue: BTreeMap::new(),
        told: BTreeMap::new(),
        joined: BTreeSet::new(),
        frame: 0,
    };
    for frame in 0..script.frames {
        play.frame = frame;
        play.round();
    }
    play.ran
}

impl Play<'_> {
    fn round(&mut self) {
        let (script, frame) = (self.script, self.frame);
        for player in 0..script.players.len() {
            if script.players[player].start == frame {
                self.join(player);
            } else if script.players[player].end == frame {
                self.leave(player);
            }
        }
        if let Some((run, orders)) = self.units.as_mut().zip(script.orders.as_ref()) {
            run.advance(&orders.given_in(frame));
        }
        let units = self.units.as_ref().map_or(0, |run| run.units().len());
        (0..units).for_each(|unit| self.command(unit));
        (units..script.things.len()).for_each(|thing| self.report(thing));
        if self.optimisations.zoning && frame > 0 {
            (0..script.things.len()).for_each(|thing| self.cross(thing));
        }
        self.flush();
    }

    /// Queues a message on its stream's channel.
    fn post(&mut self, stage: u8, hop: Hop, stream: Stream, bytes: Vec<u8>) {
        let carrier = if stream == Stream::State { Carrier::Udp } else { Carrier::Tcp };
        self.post_by(carrier, stage, hop, stream, bytes);
    }

    fn post_by(&mut self, carrier: Carrier, stage: u8, hop: Hop, stream: Stream, bytes: Vec<u8>) {
        self.queue.entry((stage, hop, carrier)).or_default().push((stream, bytes));
    }

    fn node(&self, player: usize) -> usize {
        self.topology.node(player)
    }

    /// The present players, except one.
    fn others(&self, but: Option<usize>) -> Vec<usize> {
        self.joined.iter().copied().filter(|player| Some(*player) != but).collect()
    }

    /// Sends the objects of a player, or those without an owner.
    fn post_objects(&mut self, stage: u8, hop: Hop, owner: Option<usize>) {
        let script = self.script;
        let things = (0..script.things.len()).filter(|t| script.things[*t].owner == owner);
        let poses = things.filter_map(|thing| Some((thing, script.pose(thing, self.frame)?)));
        let poses: Vec<(usize, AvatarPose)> = poses.collect();
        let arrives = FRAME * self.frame as u32 + LATENCY * (u32::from(stage) + 1);
        self.ran.learned.extend(poses.iter().map(|(thing, _)| (arrives, hop.to, *thing)));
        let bytes = say::full_state(owner.map_or(UNOWNED, |owner| owner as u16), &poses);
        self.post(stage, hop, Stream::FullState, bytes);
    }

    /// Sends the list of players to all present; optionally, a newcomer only gets those `near` it.
    fn list(&mut self, stage: u8, from: usize, near: Option<(usize, &[usize])>) {
        let stamp = self.stamp();
        for player in self.others(None) {
            let told = match near {
                Some((newcomer, near)) if newcomer == player => {
                    near.iter().copied().chain([newcomer]).collect()
                }
                _ => self.others(None),
            };
            let ids: Vec<u16> = told.into_iter().map(|player| player as u16).collect();
            let to = self.node(player);
            if to != from {
                let list = say::player_list(from as u16, &ids, stamp);
                self.post(stage, hop(from, to), Stream::Control, list);
            }
        }
    }

    /// Milliseconds since the start of the run.
    fn stamp(&self) -> u64 {
        FRAME.0 * self.frame as u64 / 1_000
    }

    fn join(&mut self, player: usize) {
        self.joined.insert(player);
        match self.topology {
            Topology::Server => self.join_server(player),
            Topology::Peers => self.join_peers(player),
        }
    }

    fn join_server(&mut self, player: usize) {
        let (me, others) = (self.node(player), self.others(Some(player)));
        self.post(0, hop(me, 0), Stream::Control, say::hello(player as u16));
        self.list(1, 0, None);
        for to in self.others(None) {
            self.post_objects(1, hop(0, self.node(to)), Some(player));
        }
        let world = self.script.things.iter().any(|thing| thing.owner.is_none());
        for owner in others.into_iter().map(Some).chain(world.then_some(None)) {
            self.post_objects(1, hop(0, me), owner);
        }
    }

    /// The entry peer sends all players the list of players; the newcomer connects to all, or to those near its spawn
    /// point, and each pair exchanges its objects.
    fn join_peers(&mut self, player: usize) {
        let (me, others) = (self.node(player), self.others(Some(player)));
        let Some(entry) = others.first().map(|entry| self.node(*entry)) else { return };
        let (script, frame, all) = (self.script, self.frame, !self.optimisations.near_spawn);
        let wanted = |other: &usize| all || script.near(player, *other, frame);
        let wanted: Vec<usize> = others.into_iter().filter(wanted).collect();
        self.post(0, hop(me, entry), Stream::Control, say::hello(player as u16));
        self.list(1, entry, Some((player, &wanted)));
        for other in wanted {
            let to = self.node(other);
            let known = to == entry;
            if !known {
                self.post(2, hop(me, to), Stream::Control, say::identify(player as u16));
            }
            // The entry peer knows the newcomer; the others learn of it when it connects.
            self.post_objects(2, hop(me, to), Some(player));
            self.post_objects(if known { 1 } else { 3 }, hop(to, me), Some(other));
        }
    }

    /// The others notice that a connection failed. The server sends the list of those left; the source does not state
    /// this, but clients have no other way to know.
    fn leave(&mut self, player: usize) {
        self.joined.remove(&player);
        if self.topology == Topology::Server {
            self.list(1, 0, None);
        }
    }

    /// Reports an object's place: its owner tells the server, which tells the others; or its owner tells the others
    /// directly.
    fn report(&mut self, thing: usize) {
        let Some(owner) = self.script.things[thing].owner else { return };
        let Some(pose) = self.script.pose(thing, self.frame) else { return };
        let (me, listeners) = (self.node(owner), self.listeners(thing, owner, &pose));
        let thinned = self.optimisations.dead_reckoning;
        match self.topology {
            Topology::Server => {
                self.tell(0, hop(me, 0), thing, false);
                for to in listeners {
                    self.tell(1, hop(0, to), thing, thinned);
                }
            }
            Topology::Peers => {
                for to in listeners {
                    self.tell(0, hop(me, to), thing, thinned);
                }
            }
        }
    }

    /// The nodes that are told an object's place.
    fn listeners(&self, thing: usize, owner: usize, pose: &AvatarPose) -> Vec<usize> {
        let zone = zone(pose);
        let hears = |player: &usize| {
            !self.optimisations.zoning
                || self.script.things[thing].owner.is_none()
                || self.active(*player, self.frame).contains(&zone)
                || (self.topology == Topology::Peers && self.zone_owner(zone) == *player)
        };
        let others = self.others(Some(owner)).into_iter().filter(hears);
        others.map(|player| self.node(player)).collect()
    }

    /// Zones in which a player has objects.
    fn active(&self, player: usize, frame: usize) -> BTreeSet<Zone> {
        let poses = self.script.of(player).filter_map(|thing| self.script.pose(thing, frame));
        poses.map(|pose| zone(&pose)).collect()
    }

    /// The peer that keeps a zone's list; fixed from the start.
    fn zone_owner(&self, [x, z]: Zone) -> usize {
        (x + 3 * z).rem_euclid(self.script.players.len() as i32) as usize
    }

    /// Sends an object's place on one hop, in full or as an increment; with thinning, only if the other end's
    /// prediction is off.
    fn tell(&mut self, stage: u8, hop: Hop, thing: usize, thinned: bool) {
        let (script, frame) = (self.script, self.frame);
        let Some(pose) = script.pose(thing, frame) else { return };
        let told = self.told.entry((hop, thing)).or_default();
        // Before the first position the receiver has the full state.
        let before = script.pose(thing, frame.saturating_sub(1)).unwrap_or(pose);
        let (last, at, speed) = told.last.unwrap_or((before, frame.saturating_sub(1), [0.0; 3]));
        let gone = (frame - at) as f32;
        let off =
            (0..3).map(|i| (last.pos[i] + speed[i] * gone - pose.pos[i]).powi(2)).sum::<f32>();
        let wrong = off.sqrt() > THRESHOLD || angle_between(&last, &pose) > FACING.to_radians();
        if !(if thinned { wrong } else { script.moved(thing, frame) }) {
            return;
        }
        let speed = [0, 1, 2].map(|i| (pose.pos[i] - last.pos[i]) / gone.max(1.0));
        told.last = Some((pose, frame, speed));
        self.place(stage, hop, thing, &pose);
    }

    /// Sends a place as an increment if that is on and fits; full positions that increments refer to use the reliable
    /// channel.
    fn place(&mut self, stage: u8, hop: Hop, thing: usize, pose: &AvatarPose) {
        let (sender, stamp) = (hop.from as u16, self.stamp());
        let told = self.told.entry((hop, thing)).or_default();
        let by = self.optimisations.increments.zip(told.full);
        let fitting = by.and_then(|(bits, (full, number))| {
            Some(Increment { offsets: offsets(&full, pose, bits)?, number, bits })
        });
        let (carrier, bytes) = match fitting {
            Some(fitting) => (Carrier::Udp, say::increment(sender, thing, &fitting, stamp)),
            None => {
                told.full = Some((*pose, told.full.map_or(0, |(_, number)| number + 1)));
                let reliable = self.optimisations.increments.is_some();
                let carrier = if reliable { Carrier::Tcp } else { Carrier::Udp };
                (carrier, say::position(sender, thing, pose, stamp))
            }
        };
        self.post_by(carrier, stage, hop, Stream::State, bytes);
    }

    /// Sends a unit with orders: an action when its course changes, positions while it collides.
    fn command(&mut self, unit: usize) {
        let newest = self.units.as_ref().and_then(|run| run.newest(unit));
        let Some((now, before)) = newest else { return };
        let Some(owner) = self.script.things[unit].owner else { return };
        let me = self.node(owner);
        let server = self.topology == Topology::Server;
        let authority = if server { 0 } else { me };
        let target = super::field::pose(now.course.target, 0.0).pos;
        let stamp = self.stamp();
        let says = |from: usize| say::action(from as u16, unit, now.pose.pos, target, stamp);
        let ordered = before.course.target != now.course.target;
        let resolved = before.course.colliding && !now.course.colliding;
        if ordered && server {
            self.post(0, hop(me, 0), Stream::Action, says(me));
        }
        let nodes: Vec<usize> = self.others(None).into_iter().map(|p| self.node(p)).collect();
        for to in nodes.into_iter().filter(|to| *to != authority) {
            // The owner knows its own order, but learns the end of a collision from the authority.
            if resolved || (ordered && to != me) {
                self.post(1, hop(authority, to), Stream::Action, says(authority));
            }
            if now.course.colliding {
                self.place(1, hop(authority, to), unit, &now.pose);
            }
        }
    }

    /// Handles an object that crossed into another zone.
    fn cross(&mut self, thing: usize) {
        let (script, frame) = (self.script, self.frame);
        let Some(player) = script.things[thing].owner else { return };
        let (Some(before), Some(now)) = (script.pose(thing, frame - 1), script.pose(thing, frame))
        else {
            return;
        };
        let (entered, me) = (zone(&now), self.node(player));
        if zone(&before) == entered {
            return;
        }
        let others = self.others(Some(player));
        let new = !self.active(player, frame - 1).contains(&entered);
        let keeper = match self.topology {
            Topology::Server => 0,
            Topology::Peers => self.node(self.zone_owner(entered)),
        };
        if self.topology == Topology::Peers && keeper != me {
            self.post(0, hop(me, keeper), Stream::Event, say::zone_get(me as u16, entered));
            let active = others.iter().filter(|p| self.active(**p, frame).contains(&entered));
            let active: Vec<u16> = active.map(|player| *player as u16).collect();
            let set = say::zone_set(keeper as u16, entered, &active);
            self.post(1, hop(keeper, me), Stream::Event, set);
        }
        for other in &others {
            let to = self.node(*other);
            if to != keeper {
                let told = say::zone_changed(keeper as u16, player as u16, thing, entered);
                self.post(1, hop(keeper, to), Stream::Event, told);
            }
            let there: Vec<usize> = script.of(*other).collect();
            for theirs in there.into_iter().filter(|_| new) {
                let Some(pose) = script.pose(theirs, frame).filter(|p| zone(p) == entered) else {
                    continue;
                };
                let from = if self.topology == Topology::Server { 0 } else { to };
                self.told.entry((hop(from, me), theirs)).or_default().full = None;
                self.place(1, hop(from, me), theirs, &pose);
            }
        }
    }

    /// Sends the messages queued in this frame.
    fn flush(&mut self) {
        let now = FRAME * self.frame as u32;
        for ((stage, hop, carrier), messages) in std::mem::take(&mut self.queue) {
            let at = now + LATENCY * u32::from(stage);
            if self.optimisations.aggregation {
                let mut weights = [0.0; 5];
                let mut all = Vec::new();
                for (stream, bytes) in &messages {
                    weights[*stream as usize] += bytes.len() as f64;
                    all.extend(bytes);
                }
                self.send(at, hop, carrier, &all, weights);
            } else {
                for (stream, bytes) in &messages {
                    let mut weights = [0.0; 5];
                    weights[*stream as usize] = 1.0;
                    self.send(at, hop, carrier, bytes, weights);
                }
            }
        }
    }

    fn send(&mut self, at: Micros, hop: Hop, carrier: Carrier, bytes: &[u8], weights: [f64; 5]) {
        let pressed = self.optimisations.squeeze.and_then(|squeeze| squeeze.press(bytes));
        let length = pressed.map_or(bytes.len(), |pressed| pressed.len());
        let segments = length.div_ceil(SEGMENT);
        for segment in 0..segments {
            let part = (length - segment * SEGMENT).min(SEGMENT);
            let arrived = self.carry(at, hop, carrier, share(part as u64, weights));
            let due = (segment + 1).is_multiple_of(SEGMENTS_PER_ACK) || segment + 1 == segments;
            if carrier == Carrier::Tcp && due {
                self.ran.meter.sent(hop.to, arrived, carrier, Split::default());
                self.ran.meter.received(hop.from, arrived + LATENCY, carrier, Split::default());
            }
        }
    }

    /// Sends one packet, by TCP until it arrives; returns when it did, or would have.
    fn carry(&mut self, mut at: Micros, hop: Hop, carrier: Carrier, split: Split) -> Micros {
        loop {
            self.ran.meter.sent(hop.from, at, carrier, split);
            if let Fate::Arrives(arrives) = self.link.carry(at, 0, |_| {}) {
                self.ran.meter.received(hop.to, arrives, carrier, split);
                return arrives;
            }
            if carrier == Carrier::Udp {
                return at + LATENCY;
            }
            at = at + RETRANSMIT;
            self.ran.meter.nodes[hop.from].up.resent += split.iter().sum::<u64>();
        }
    }
}

/// The angle between two facings, in radians.
fn angle_between(a: &AvatarPose, b: &AvatarPose) -> f32 {
    let apart = (a.yaw - b.yaw).rem_euclid(std::f32::consts::TAU);
    apart.min(std::f32::consts::TAU - apart)
}

/// Offsets from a full position, if each fits; facings always do, with a turn divided into as many parts.
fn offsets(full: &AvatarPose, pose: &AvatarPose, bits: u32) -> Option<[i8; 6]> {
    let most = (1 << (bits - 1)) - 1;
    let mut out = [0; 6];
    for (axis, out) in out.iter_mut().take(3).enumerate() {
        let steps = ((pose.pos[axis] - full.pos[axis]) / OFFSET).round() as i32;
        *out = i8::try_from(steps).ok().filter(|_| steps.abs() <= most)?;
    }
    let turn = (pose.yaw - full.yaw).rem_euclid(std::f32::consts::TAU) / std::f32::consts::TAU;
    out[3] = ((turn * (1 << bits) as f32) as i32 as u8) as i8;
    Some(out)
}
