//! A game of peers in virtual time. All nodes move, act and send; an auditor that knows the true state compares it with
//! what each node knows.
//!
//! Nodes run on the laboratory's [`Network`]. Silac uses UDP, which has no handshake, so a node has links with all
//! others as soon as it enters. Each node has its own phase, so that frames of different nodes do not coincide.

use super::findings::{Arrived, MAX_HOPS, NEAR, SilacFindings, bin};
use crate::{
    Act, Me, NodeId, Silac, SilacAvatar, SilacCommand, SilacEvent, SilacFrame, SilacNode,
    SilacNodeEvent, SilacSettings,
};
use foveate_lab::experiments::peers::{ACT_EVERY, LOST_AFTER, noticeable};
use foveate_lab::movement::{AvatarPose, Movement};
use foveate_lab::net::Loss;
use foveate_lab::network::{
    Host, Network, NetworkSpec, Placed, Placement, Reaction, Sent, WakeUps,
};
use foveate_node::node::{Node, NodeInput, Remote};
use foveate_node::outbox::{Outgoing, RecordingOutbox};
use foveate_sync::metrics::{Inconsistency, KnownReplica, inc, inj};
use foveate_wire::Micros;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// The length of a frame.
pub const FRAME: Micros = Micros(50_000);
/// Latency of every link.
pub const LATENCY: Micros = Micros(30_000);
/// Share of datagrams that links lose.
pub const LOSS: f64 = 0.01;
/// Uplinks, the narrowest and the widest, in bytes per second. They only matter as weights: none is narrow enough to
/// delay anything.
pub const UPLINK: [u32; 2] = [2_500_000, 12_500_000];
/// Bytes that an uplink queues.
const QUEUE: u64 = 1 << 20;
/// One node enters in this interval while the game fills.
const ENTER_EVERY: Micros = Micros(12_500);
/// From the last node's entry until measuring starts.
const WARM: Micros = Micros(3_000_000);
/// An interaction that changes the world lasts at most this many frames; a shot lasts one.
const MAX_ACT: u32 = 8;
/// Elements of the world that can be acted on.
const ELEMENTS: usize = 64;
/// The auditor takes a sample once in this many frames.
const LOOK_EVERY: u32 = 10;
/// A newcomer that is not known by all nodes within this time counts as never known.
const JOIN_LIMIT: Micros = Micros(15_000_000);
/// Time between two newcomers.
const JOIN_GAP: Micros = Micros(1_000_000);
/// Width of the arena's avatars, the unit of Inc and Inj.
pub const AVATAR_WIDTH: f64 = 2.0;
/// Changes of an avatar that the auditor remembers.
const MEMORY: usize = 1024;
/// The game's id. Any value will do, since there is only one game.
const GAME: u32 = 1;

/// One game to play.
#[derive(Clone, Debug)]
pub struct SilacGame {
    /// Nodes in the game from the start.
    pub nodes: usize,
    /// Settings of the protocol; uplink and world are filled in.
    pub settings: SilacSettings,
    /// How long measuring takes.
    pub measured: Micros,
    /// Contacts of each newcomer. Newcomers enter after measuring, one at a time.
    pub newcomers: Vec<usize>,
    /// RNG seed.
    pub seed: u64,
}

/// What a node published and when.
struct Published {
    /// Its first number, and the time of that.
    first: (u32, Micros),
    newest: u32,
    pose: AvatarPose,
    /// Frames in which its avatar moved, with the position from then on.
    changes: VecDeque<(u32, [f32; 3])>,
}

impl Published {
    fn time(&self, number: u32) -> Micros {
        self.first.1 + FRAME * number.saturating_sub(self.first.0)
    }

    /// The newest number that was published at a time.
    fn number_at(&self, time: Micros) -> u32 {
        (self.first.0 + ((time - self.first.1).0 / FRAME.0) as u32).min(self.newest)
    }
}

/// An interaction, as the auditor saw it.
struct ObservedInteraction {
    at: Micros,
    /// When each other node learnt of it, with that node's distance.
    learnt: Vec<(f64, Option<Micros>)>,
    withdrawn: bool,
    undone: Vec<bool>,
}

/// The address of the node at a place, in 10.0.0.0/8; all use one port.
fn address(at: usize) -> SocketAddr {
    let [_, a, b, c] = (at as u32).to_be_bytes();
    SocketAddr::from(([10, a, b, c], 27_960))
}

fn in_frame(pose: AvatarPose, act: Option<Act>) -> SilacFrame {
    let facing = [pose.yaw.cos(), pose.yaw.sin(), 0.0];
    let avatar = SilacAvatar { position: pose.pos, facing, state: 0, weapon: 0 };
    SilacFrame { avatar, act }
}

fn apart(a: [f32; 3], b: [f32; 3]) -> f64 {
    f64::from(a[0] - b[0]).hypot(f64::from(a[1] - b[1]))
}

/// Moves the avatars, and records what they do and what nodes learn of it.
struct Auditor {
    movement: Box<dyn Movement>,
    rng: fastrand::Rng,
    /// Nodes that play from the start; newcomers have the places after them.
    players: usize,
    /// Each node's place by its id.
    places: BTreeMap<NodeId, usize>,
    elements: Vec<[f32; 2]>,
    /// Avatars act only while this is set.
    measuring: bool,
    published: Vec<Option<Published>>,
    deeds: BTreeMap<(usize, u32), ObservedInteraction>,
    /// Datagrams from each node to each other while measuring.
    between: Vec<u32>,
    found: SilacFindings,
}

impl Host<SilacNode> for Auditor {
    fn before_wake(
        &mut self,
        now: Micros,
        at: usize,
        node: &mut Placed<SilacNode>,
        out: &mut RecordingOutbox,
    ) {
        let is_due = node.next_wake(now) <= now;
        let Some(pose) = self.movement.pose(at).filter(|_| is_due) else { return };
        let frame = in_frame(pose, self.act(pose));
        node.node.handle(now, NodeInput::Command(SilacCommand::SetFrame(frame)), out);
        self.publish(now, at, node.silac.frame() + 1, pose);
    }

    fn on_event(
        &mut self,
        now: Micros,
        at: usize,
        _: &mut Placed<SilacNode>,
        event: SilacNodeEvent,
    ) -> Option<Reaction<SilacCommand>> {
        let SilacNodeEvent::Game(event) = event else { return None };
        match event {
            SilacEvent::Heard { of, number, hop } => {
                self.heard(now, at, self.places[&of], number, usize::from(hop) + 1);
            }
            SilacEvent::Did(by, what) => self.did(now, at, self.places[&by], what.code()),
            SilacEvent::Withdrew(by, what) => {
                let by = self.places[&by];
                if let Some(deed) = self.deeds.get_mut(&(by, what.code())) {
                    deed.withdrawn |= by == at;
                    deed.undone[at] = true;
                }
            }
            _ => {}
        }
        None
    }

    fn on_sent(&mut self, from: usize, to: usize, outgoing: &Outgoing) {
        if let Outgoing::Datagram(bytes) = outgoing
            && self.measuring
        {
            // The header's second byte counts how often a message was passed on.
            let passed_on = bytes.get(1).map_or(0, |hop| usize::from(*hop));
            self.found.all_hops[passed_on.min(MAX_HOPS - 1)] += 1;
            self.between[from * self.published.len() + to] += 1;
        }
    }

    fn remote(&self, at: usize, _: bool) -> Remote {
        Remote::Address(address(at))
    }
}

impl Auditor {
    /// What an avatar does in a frame: now and then it acts on the nearest element.
    fn act(&mut self, pose: AvatarPose) -> Option<Act> {
        if !self.measuring || self.rng.u64(..ACT_EVERY.0) >= FRAME.0 {
            return None;
        }
        let way = |e: &[f32; 2]| (e[0] - pose.pos[0]).hypot(e[1] - pose.pos[1]);
        let nearest = (0..ELEMENTS)
            .min_by(|a, b| way(&self.elements[*a]).total_cmp(&way(&self.elements[*b])))?;
        let lasting = self.rng.bool();
        let frames = if lasting { self.rng.u32(1..=MAX_ACT) } else { 1 };
        Some(Act { element: nearest as u32, lasting, frames })
    }

    fn publish(&mut self, now: Micros, at: usize, newest: u32, pose: AvatarPose) {
        let published = self.published[at].get_or_insert_with(|| Published {
            first: (newest, now),
            newest,
            pose,
            changes: VecDeque::from([(newest, pose.pos)]),
        });
        published.newest = newest;
        if published.pose != pose {
            published.pose = pose;
            published.changes.push_back((newest, pose.pos));
            if published.changes.len() > MEMORY {
                published.changes.pop_front();
            }
        }
    }

    /// A node received the state of another one from this frame, over this many hops.
    fn heard(&mut self, now: Micros, at: usize, of: usize, frame: u32, hops: usize) {
        if !self.measuring {
            return;
        }
        let Some(published) = &self.published[of] else { return };
        let age = now - published.time(frame);
        let bin = bin(self.distance(at, of) / self.side());
        self.found.first_hops[hops.min(MAX_HOPS) - 1] += 1;
        self.found.bins[bin].arrival.add(age.as_millis());
    }

    fn side(&self) -> f64 {
        f64::from(self.movement.side())
    }

    fn distance(&self, a: usize, b: usize) -> f64 {
        let (a, b) = (self.movement.pose(a), self.movement.pose(b));
        a.zip(b).map_or(0.0, |(a, b)| apart(a.pos, b.pos))
    }

    fn did(&mut self, now: Micros, at: usize, by: usize, what: u32) {
        if at == by {
            let side = self.side();
            let learnt = (0..self.players).map(|to| (self.distance(by, to) / side, None));
            let (learnt, undone) = (learnt.collect(), vec![false; self.published.len()]);
            self.deeds.insert(
                (by, what),
                ObservedInteraction { at: now, learnt, withdrawn: false, undone },
            );
        } else if let Some(deed) = self.deeds.get_mut(&(by, what))
            && let Some((_, learnt)) = deed.learnt.get_mut(at)
        {
            learnt.get_or_insert(now);
        }
    }

    /// Counts the nodes that did not learn of an interaction in time.
    fn close_deeds(&mut self) {
        for ((by, _), deed) in &self.deeds {
            self.found.deeds += 1;
            self.found.withdrawn += u64::from(deed.withdrawn);
            for (to, (share, learnt)) in deed.learnt.iter().enumerate().filter(|(to, _)| to != by) {
                if deed.withdrawn {
                    self.found.undone.0 += u64::from(deed.undone[to]);
                    self.found.undone.1 += 1;
                    continue;
                }
                let bin = &mut self.found.bins[bin(*share)];
                bin.deeds += 1;
                match learnt.map(|when| when - deed.at) {
                    Some(after) if after <= LOST_AFTER => bin.learnt.add(after.as_millis()),
                    _ => bin.lost += 1,
                }
            }
        }
    }

    /// Counts the datagrams between nodes that are near each other when measuring ends.
    fn count_near_packets(&mut self, seconds: f64) {
        let near = NEAR * self.side();
        for (from, to) in (0..self.players).flat_map(|a| (0..self.players).map(move |b| (a, b))) {
            if from != to && self.distance(from, to) <= near {
                let packets = self.between[from * self.published.len() + to];
                self.found.near_packets.0 += 1;
                self.found.near_packets.1 += f64::from(packets) / seconds;
            }
        }
    }
}

/// A running game.
pub struct Swarm {
    game: SilacGame,
    network: Network<SilacNode>,
    auditor: Auditor,
}

impl Swarm {
    /// A game without any node yet. `movement` must cover all nodes, newcomers included.
    pub fn new(game: SilacGame, movement: Box<dyn Movement>) -> Swarm {
        let count = game.nodes + game.newcomers.len();
        let spec = NetworkSpec {
            loss: Loss::Bernoulli(LOSS),
            queue: QUEUE,
            ..NetworkSpec::delayed(LATENCY, game.seed)
        };
        let mut network = Network::new(spec);
        for _ in 0..count {
            network.reserve();
        }
        let (mut rng, side) = (fastrand::Rng::with_seed(game.seed), movement.side());
        let elements = (0..ELEMENTS).map(|_| [rng.f32() * side, rng.f32() * side]).collect();
        let auditor = Auditor {
            movement,
            rng,
            players: game.nodes,
            places: (0..count).map(|at| (NodeId::of(address(at)), at)).collect(),
            elements,
            measuring: false,
            published: (0..count).map(|_| None).collect(),
            deeds: BTreeMap::new(),
            between: vec![0; count * count],
            found: SilacFindings::new(),
        };
        Swarm { game, network, auditor }
    }

    /// Plays the game: filling, measuring, settling, newcomers. Returns the measurements and a hash of all bytes sent.
    pub fn play(mut self) -> (SilacFindings, u64) {
        self.fill();
        self.run_for(WARM);
        self.measure();
        self.run_for(LOST_AFTER + FRAME);
        self.auditor.close_deeds();
        for (at, contacts) in self.game.newcomers.clone().into_iter().enumerate() {
            self.run_for(JOIN_GAP);
            self.newcomer(self.game.nodes + at, contacts);
        }
        (self.auditor.found, self.network.digest())
    }

    fn fill(&mut self) {
        let per_frame = (FRAME.0 / ENTER_EVERY.0) as usize;
        for at in 0..self.game.nodes {
            // A node that entered a second ago has joined by now.
            let settled = at.saturating_sub(20 * per_frame);
            let contact = if at == 0 { vec![] } else { vec![self.auditor.rng.usize(..=settled)] };
            self.enter(at, &contact);
            if (at + 1) % per_frame == 0 {
                self.run_for(FRAME);
            }
        }
    }

    /// Lets a node enter through contacts; without any, it founds the game.
    fn enter(&mut self, at: usize, contacts: &[usize]) {
        let Swarm { game, network, auditor } = self;
        let Some(pose) = auditor.movement.pose(at) else { return };
        let (uplink, side) = (auditor.rng.u32(UPLINK[0]..=UPLINK[1]), auditor.movement.side());
        let world = [[0.0; 3], [side, side, 0.0]];
        let settings = SilacSettings { uplink, world, ..game.settings };
        let me = Me { address: address(at), name: format!("player {at}"), model: 0 };
        let silac = Silac::new(settings, me, auditor.rng.u64(..));
        let (wake_ups, uplink) = (WakeUps::Every(FRAME), Some(f64::from(uplink)));
        let placement = Placement { wake_ups, uplink, ..Placement::PLAIN };
        network.place(at, SilacNode::new(silac), placement, auditor);
        for other in (0..network.nodes.len()).filter(|other| *other != at) {
            network.connect(at, other, auditor);
        }
        let (game, frame) = (GAME, in_frame(pose, None));
        let contacts: Vec<SocketAddr> = contacts.iter().map(|at| address(*at)).collect();
        let command = match contacts.is_empty() {
            true => SilacCommand::Found { game, frame },
            false => SilacCommand::Join { game, contacts, frame },
        };
        network.command(at, command, auditor);
    }

    fn run_for(&mut self, time: Micros) {
        let until = self.network.now() + time;
        while self.network.now() < until {
            self.auditor.movement.step();
            self.network.run_until(self.network.now() + FRAME, &mut self.auditor);
        }
    }

    fn measure(&mut self) {
        let sent = |network: &Network<SilacNode>| -> Vec<Sent> {
            network.present().map(|(_, node)| node.sent).collect()
        };
        let before = sent(&self.network);
        self.auditor.measuring = true;
        let frames = (self.game.measured.0 / FRAME.0) as u32;
        let mut inc_by_node = vec![0.0; self.game.nodes];
        for frame in 0..frames {
            self.run_for(FRAME);
            if frame % LOOK_EVERY == 0 {
                self.look(&mut inc_by_node);
            }
        }
        self.auditor.measuring = false;
        let seconds = self.game.measured.as_secs();
        let found = &mut self.auditor.found;
        for (now, before) in sent(&self.network).iter().zip(&before) {
            let sent = now.since(before);
            found.bytes.push(sent.datagram_bytes as f64 / seconds);
            found.packets.push(sent.datagrams as f64 / seconds);
        }
        let looks = f64::from(frames.div_ceil(LOOK_EVERY));
        found.inc_by_node = inc_by_node.iter().map(|sum| sum / looks).collect();
        self.auditor.count_near_packets(seconds);
    }

    /// The number of the newest state that one node holds of another; `None` if it does not know it.
    fn newest(&self, at: usize, of: usize) -> Option<u32> {
        let node = self.network.nodes[at].as_ref()?;
        node.silac.peer(NodeId::of(address(of))).map(|peer| peer.newest())
    }

    /// How far a node's knowledge of another is behind the newest state that could have arrived; and the same, counting
    /// only what can be noticed.
    fn known(&self, at: usize, of: usize) -> Option<[KnownReplica; 2]> {
        let published = self.auditor.published[of].as_ref()?;
        let now = self.network.now();
        let reachable = published.number_at(now - LATENCY);
        let held = self.newest(at, of).unwrap_or(0);
        let first = published.changes.partition_point(|(number, _)| *number <= held);
        let end = published.changes.partition_point(|(number, _)| *number <= reachable);
        let distance = self.auditor.distance(at, of);
        let since = |lacking: Option<u32>| {
            let delay = lacking.map(|n| now - LATENCY - published.time(n));
            KnownReplica {
                distance: distance / AVATAR_WIDTH,
                differs: lacking.is_some(),
                delay: delay.map_or(0.0, Micros::as_secs),
            }
        };
        let lacking = (first < end).then(|| published.changes[first].0);
        // The last received state is shown; Silac does not predict.
        let shown = first.checked_sub(1).map(|index| published.changes[index].1);
        let is_off = |place: &[f32; 3]| {
            shown.is_none_or(|shown| apart(shown, *place) > noticeable(distance))
        };
        let is_off_now = first < end && is_off(&published.changes[end - 1].1);
        let noticed = published.changes.range(first..end.max(first)).find(|(_, it)| is_off(it));
        Some([since(lacking), since(noticed.map(|it| it.0).filter(|_| is_off_now))])
    }

    /// Takes a sample of all nodes.
    fn look(&mut self, inc_by_node: &mut [f64]) {
        let count = self.game.nodes;
        let pairs = (0..count * count).map(|pair| {
            let (at, of) = (pair / count, pair % count);
            if at == of { None } else { self.known(at, of) }
        });
        let looked: Vec<Option<[KnownReplica; 2]>> = pairs.collect();
        let pairs: Vec<Option<KnownReplica>> =
            looked.iter().map(|it| it.map(|[all, _]| all)).collect();
        let side = self.auditor.side() / AVATAR_WIDTH;
        let found = &mut self.auditor.found;
        for at in 0..count {
            let row = &pairs[at * count..(at + 1) * count];
            let sum: Inconsistency = inc(row.iter().flatten());
            inc_by_node[at] += sum.inc;
            found.inc.add(sum);
            let mutual = (0..count).filter_map(|of| {
                Some((pairs[at * count + of].as_ref()?, pairs[of * count + at].as_ref()?))
            });
            found.inj += inj(mutual);
            found.looks += 1;
            for known in row.iter().flatten() {
                found.bins[bin(known.distance / side)].delay.add(known.delay * 1e3);
            }
            let noticed = || looked[at * count..(at + 1) * count].iter().flatten().map(|it| &it[1]);
            found.noticed.add(inc(noticed()));
            for known in noticed().filter(|known| known.distance <= NEAR * side) {
                found.noticed_near.add(known.delay * 1e3);
            }
        }
    }

    /// A newcomer enters, becomes known and leaves.
    fn newcomer(&mut self, at: usize, contacts: usize) {
        let mut known: Vec<usize> = (0..self.game.nodes).collect();
        self.auditor.rng.shuffle(&mut known);
        known.truncate(contacts);
        self.enter(at, &known);
        let (since, count) = (self.network.now(), self.game.nodes);
        let mut arrived =
            Arrived { contacts, known_by_all_s: None, knows_all_s: None, curve: Vec::new() };
        while arrived.all_s().is_none() && self.network.now() - since < JOIN_LIMIT {
            self.run_for(FRAME);
            let spent = (self.network.now() - since).as_secs();
            let knowing = (0..count).filter(|other| self.newest(*other, at).is_some()).count();
            let knows = (0..count).filter(|other| self.newest(at, *other).is_some()).count();
            arrived.curve.push(knowing as f64 / count as f64);
            if knowing == count {
                arrived.known_by_all_s.get_or_insert(spent);
            }
            if knows == count {
                arrived.knows_all_s.get_or_insert(spent);
            }
        }
        self.auditor.found.arrived.push(arrived);
        self.network.command(at, SilacCommand::Leave, &mut self.auditor);
        drop(self.network.crash(at));
    }
}
