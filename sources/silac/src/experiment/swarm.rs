//! A game of peers in virtual time: everybody walks, acts and tells the others, and an auditor who
//! knows the truth looks at what each knows.
//!
//! Frames of different nodes do not coincide: each node has a phase of its own.

use super::findings::{Arrived, MAX_HOPS, NEAR, SilacFindings, bin};
use super::gossip::{Gossip, GossipMoment, GossipOutput, Seat};
use crate::Act;
use foveate_lab::experiments::peers::{ACT_EVERY, LOST_AFTER, noticeable};
use foveate_lab::movement::{AvatarPose, Movement};
use foveate_lab::net::{Agenda, Latency, Link, LinkSpec, Loss, Rate};
use foveate_sync::metrics::{Inconsistency, KnownReplica, inc, inj};
use foveate_wire::Micros;
use std::collections::{BTreeMap, VecDeque};

/// The length of a frame.
pub const FRAME: Micros = Micros(50_000);
/// What every link takes.
pub const LATENCY: Micros = Micros(30_000);
/// The share of datagrams that links lose.
pub const LOSS: f64 = 0.01;
/// Uplinks: the narrowest and the widest, bytes per second. They are there to be weighed; none of
/// them is to hold anything up.
pub const UPLINK: [u32; 2] = [2_500_000, 12_500_000];
/// Bytes that an uplink queues.
const QUEUE: u64 = 1 << 20;
/// UDP's and IP's headers: they take room on the uplink, but are not counted as the protocol's.
const OVERHEAD: u32 = 28;
/// One more enters in this time, while the game fills.
const ENTER_EVERY: Micros = Micros(12_500);
/// After the last has entered, so long until anything is measured.
const WARM: Micros = Micros(3_000_000);
/// An interaction that changes the world goes on for at most so many frames; a shot for one.
const MAX_ACT: u32 = 8;
/// Elements of the world that can be acted on.
const ELEMENTS: usize = 64;
/// The auditor looks once in so many frames.
const LOOK_EVERY: u32 = 10;
/// A newcomer that is not known by all after this never is.
const JOIN_LIMIT: Micros = Micros(15_000_000);
/// Between two newcomers.
const JOIN_GAP: Micros = Micros(1_000_000);
/// As wide as the arena's avatars: the unit of Inc and Inj.
pub const AVATAR_WIDTH: f64 = 2.0;
/// Changes of an avatar that the auditor remembers.
const MEMORY: usize = 1024;

/// What is played.
#[derive(Clone, Debug)]
pub struct SilacGame<S> {
    /// How many play.
    pub nodes: usize,
    /// How the protocol is set.
    pub settings: S,
    /// For how long is measured.
    pub measured: Micros,
    /// Newcomers afterwards, one after the other, and how many contacts each has.
    pub newcomers: Vec<usize>,
    /// What all chance is drawn from.
    pub seed: u64,
}

/// What somebody published: when, and in which frames it changed.
struct Published {
    /// When its number zero would have been.
    zero: Micros,
    newest: u32,
    pose: AvatarPose,
    /// The frames in which it changed, and where it was from then on.
    changes: VecDeque<(u32, [f32; 3])>,
}

impl Published {
    fn time(&self, number: u32) -> Micros {
        self.zero + FRAME * number
    }

    /// The newest number that was there at a time.
    fn number_at(&self, time: Micros) -> u32 {
        (((time - self.zero).0 / FRAME.0) as u32).min(self.newest)
    }
}

struct Node<P> {
    gossip: P,
    link: Link,
    present: bool,
    published: Option<Published>,
    sent: (u64, u64),
}

enum Happening {
    Frame(usize),
    Arrival { to: u32, from: u32, bytes: Vec<u8> },
}

/// An interaction, as the auditor saw it.
struct Deed {
    at: Micros,
    /// When each learnt of it, by how far away they were.
    learnt: Vec<(f64, Option<Micros>)>,
    withdrawn: bool,
    undone: Vec<bool>,
}

/// A running game.
pub struct Swarm<P: Gossip> {
    game: SilacGame<P::Settings>,
    movement: Box<dyn Movement>,
    nodes: Vec<Node<P>>,
    agenda: Agenda<Happening>,
    now: Micros,
    rng: fastrand::Rng,
    elements: Vec<[f32; 2]>,
    acting: bool,
    measuring: bool,
    deeds: BTreeMap<(usize, u32), Deed>,
    /// Datagrams from one to another while measuring.
    between: Vec<u32>,
    found: SilacFindings,
    /// Over all datagrams in the order of sending: two games that agree in it sent the same bytes.
    digest: u64,
}

fn apart(a: [f32; 3], b: [f32; 3]) -> f64 {
    f64::from(a[0] - b[0]).hypot(f64::from(a[1] - b[1]))
}

impl<P: Gossip> Swarm<P> {
    /// A world in which nobody plays yet. There must be movement for all, newcomers as well.
    pub fn new(game: SilacGame<P::Settings>, movement: Box<dyn Movement>) -> Swarm<P> {
        let count = game.nodes + game.newcomers.len();
        let mut rng = fastrand::Rng::with_seed(game.seed);
        let side = movement.side();
        let nodes = (0..count).map(|number| {
            let (uplink, seed) = (rng.u32(UPLINK[0]..=UPLINK[1]), rng.u64(..));
            let seat = Seat { number, uplink, side, seed };
            let spec = LinkSpec {
                latency: Latency::Constant(LATENCY),
                loss: Loss::Bernoulli(LOSS),
                rate: Some(Rate { bytes_per_second: f64::from(uplink), queue: QUEUE }),
                overhead: OVERHEAD,
                ..LinkSpec::PERFECT
            };
            let (gossip, link) = (P::new(&game.settings, &seat), Link::new(spec, seed ^ 1));
            Node { gossip, link, present: false, published: None, sent: (0, 0) }
        });
        let nodes = nodes.collect();
        let elements = (0..ELEMENTS).map(|_| [rng.f32() * side, rng.f32() * side]).collect();
        Swarm {
            movement,
            nodes,
            agenda: Agenda::default(),
            now: Micros::ZERO,
            rng,
            elements,
            acting: false,
            measuring: false,
            deeds: BTreeMap::new(),
            between: vec![0; count * count],
            found: SilacFindings::new(),
            digest: 0xcbf2_9ce4_8422_2325,
            game,
        }
    }

    /// Plays it: filling, measuring, settling, newcomers.
    pub fn play(mut self) -> (SilacFindings, u64) {
        self.fill();
        self.run_for(WARM);
        self.measure();
        self.run_for(LOST_AFTER + FRAME);
        self.close_deeds();
        for (at, contacts) in self.game.newcomers.clone().into_iter().enumerate() {
            self.run_for(JOIN_GAP);
            self.newcomer(self.game.nodes + at, contacts);
        }
        (self.found, self.digest)
    }

    fn fill(&mut self) {
        let per_frame = (FRAME.0 / ENTER_EVERY.0) as usize;
        for at in 0..self.game.nodes {
            // Whoever entered a second ago is surely in.
            let settled = at.saturating_sub(20 * per_frame);
            let contact = if at == 0 { vec![] } else { vec![self.rng.usize(..=settled)] };
            self.enter(at, &contact);
            if (at + 1) % per_frame == 0 {
                self.run_for(FRAME);
            }
        }
    }

    fn enter(&mut self, at: usize, contacts: &[usize]) {
        let Some(pose) = self.movement.pose(at) else { return };
        let moment = GossipMoment { place: pose.pos, yaw: pose.yaw, act: None };
        self.nodes[at].present = true;
        self.nodes[at].gossip.enter(self.now, contacts, &moment);
        self.drain(at);
        let phase = Micros(self.rng.u64(..FRAME.0));
        self.agenda.plan(self.now + phase, Happening::Frame(at));
    }

    fn measure(&mut self) {
        (self.acting, self.measuring) = (true, true);
        self.nodes.iter_mut().for_each(|node| node.sent = (0, 0));
        let frames = (self.game.measured.0 / FRAME.0) as u32;
        let mut inc_by_node = vec![0.0; self.game.nodes];
        for frame in 0..frames {
            self.run_for(FRAME);
            if frame % LOOK_EVERY == 0 {
                self.look(&mut inc_by_node);
            }
        }
        (self.acting, self.measuring) = (false, false);
        let seconds = self.game.measured.as_secs();
        for node in &self.nodes[..self.game.nodes] {
            self.found.bytes.push(node.sent.0 as f64 / seconds);
            self.found.packets.push(node.sent.1 as f64 / seconds);
        }
        let looks = f64::from(frames.div_ceil(LOOK_EVERY));
        self.found.inc_by_node = inc_by_node.iter().map(|sum| sum / looks).collect();
        self.count_near_packets(seconds);
    }

    /// Packets between those who are near as measuring ends.
    fn count_near_packets(&mut self, seconds: f64) {
        let near = NEAR * f64::from(self.movement.side());
        for (from, a) in self.places().into_iter().enumerate() {
            for (to, b) in self.places().into_iter().enumerate().filter(|(to, _)| *to != from) {
                if apart(a, b) <= near {
                    let packets = self.between[from * self.nodes.len() + to];
                    self.found.near_packets.0 += 1;
                    self.found.near_packets.1 += f64::from(packets) / seconds;
                }
            }
        }
    }

    fn places(&self) -> Vec<[f32; 3]> {
        let place = |at| self.movement.pose(at).map_or([0.0; 3], |pose| pose.pos);
        (0..self.game.nodes).map(place).collect()
    }

    fn run_for(&mut self, time: Micros) {
        let until = self.now + time;
        while self.now < until {
            self.movement.step();
            let next = self.now + FRAME;
            while let Some((at, happening)) = self.agenda.next(next) {
                match happening {
                    Happening::Frame(node) => self.frame(at, node),
                    Happening::Arrival { to, from, bytes } => {
                        self.arrive(at, (to as usize, from as usize), &bytes);
                    }
                }
            }
            self.now = next;
        }
    }

    fn frame(&mut self, now: Micros, at: usize) {
        if !self.nodes[at].present {
            return;
        }
        self.agenda.plan(now + FRAME, Happening::Frame(at));
        let Some(pose) = self.movement.pose(at) else { return };
        let act = self.act(pose);
        let moment = GossipMoment { place: pose.pos, yaw: pose.yaw, act };
        let node = &mut self.nodes[at];
        node.gossip.frame(now, &moment);
        let newest = node.gossip.number();
        let published = node.published.get_or_insert_with(|| Published {
            zero: now - FRAME * newest,
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
        self.drain_at(now, at);
    }

    /// What an avatar does in a frame: now and then something to the element nearest to it.
    fn act(&mut self, pose: AvatarPose) -> Option<Act> {
        if !self.acting || self.rng.u64(..ACT_EVERY.0) >= FRAME.0 {
            return None;
        }
        let way = |e: &[f32; 2]| (e[0] - pose.pos[0]).hypot(e[1] - pose.pos[1]);
        let nearest = (0..ELEMENTS)
            .min_by(|a, b| way(&self.elements[*a]).total_cmp(&way(&self.elements[*b])))?;
        let lasting = self.rng.bool();
        let frames = if lasting { self.rng.u32(1..=MAX_ACT) } else { 1 };
        Some(Act { element: nearest as u32, lasting, frames })
    }

    fn arrive(&mut self, now: Micros, (to, from): (usize, usize), bytes: &[u8]) {
        if !self.nodes[to].present {
            return;
        }
        if self.measuring {
            self.found.all_hops[P::hops(bytes).min(MAX_HOPS) - 1] += 1;
            self.between[from * self.nodes.len() + to] += 1;
        }
        self.nodes[to].gossip.receive(now, from, bytes);
        self.drain_at(now, to);
    }

    fn drain(&mut self, at: usize) {
        self.drain_at(self.now, at);
    }

    /// Carries out what a node says.
    fn drain_at(&mut self, now: Micros, at: usize) {
        while let Some(said) = self.nodes[at].gossip.poll() {
            match said {
                GossipOutput::Send(to, bytes) => self.send(now, (at, to), bytes),
                GossipOutput::Heard { of, frame, hops } => self.heard(now, (at, of), (frame, hops)),
                GossipOutput::Did(by, what) => self.did(now, (at, by), what),
                GossipOutput::Undid(by, what) => {
                    let Some(deed) = self.deeds.get_mut(&(by, what)) else { continue };
                    deed.withdrawn |= by == at;
                    deed.undone[at] = true;
                }
            }
        }
    }

    fn send(&mut self, now: Micros, (from, to): (usize, usize), bytes: Vec<u8>) {
        self.digest = bytes.chunks(8).fold(self.digest ^ to as u64, |digest, chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            (digest ^ u64::from_le_bytes(word)).wrapping_mul(0x0100_0000_01b3).rotate_left(29)
        });
        let Swarm { nodes, agenda, .. } = self;
        let node = &mut nodes[from];
        node.sent = (node.sent.0 + bytes.len() as u64, node.sent.1 + 1);
        if to >= nodes.len() {
            return;
        }
        let size = bytes.len();
        let (to, from_id) = (to as u32, from as u32);
        let mut bytes = Some(bytes);
        // The laboratory's links double nothing here: one arrival takes the bytes along.
        nodes[from].link.carry(now, size, |when| {
            if let Some(bytes) = bytes.take() {
                agenda.plan(when, Happening::Arrival { to, from: from_id, bytes });
            }
        });
    }

    fn heard(&mut self, now: Micros, (at, of): (usize, usize), (frame, hops): (u32, usize)) {
        if !self.measuring {
            return;
        }
        let Some(published) = &self.nodes[of].published else { return };
        let age = now - published.time(frame);
        let bin = self.bin_of(at, of);
        self.found.first_hops[hops.min(MAX_HOPS) - 1] += 1;
        self.found.bins[bin].arrival.add(age.as_millis());
    }

    fn distance(&self, a: usize, b: usize) -> f64 {
        let (a, b) = (self.movement.pose(a), self.movement.pose(b));
        a.zip(b).map_or(0.0, |(a, b)| apart(a.pos, b.pos))
    }

    fn bin_of(&self, a: usize, b: usize) -> usize {
        bin(self.distance(a, b) / f64::from(self.movement.side()))
    }

    fn did(&mut self, now: Micros, (at, by): (usize, usize), what: u32) {
        if at == by {
            let side = f64::from(self.movement.side());
            let learnt = (0..self.game.nodes).map(|to| (self.distance(by, to) / side, None));
            let (learnt, undone) = (learnt.collect(), vec![false; self.nodes.len()]);
            self.deeds.insert((by, what), Deed { at: now, learnt, withdrawn: false, undone });
        } else if let Some(deed) = self.deeds.get_mut(&(by, what))
            && let Some((_, learnt)) = deed.learnt.get_mut(at)
        {
            learnt.get_or_insert(now);
        }
    }

    /// Counts who did not learn of what in time.
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

    /// What one knows of another: how far behind the newest state that could have been there; and the
    /// same if only what can be noticed counts.
    fn known(&self, at: usize, of: usize) -> Option<[KnownReplica; 2]> {
        let published = self.nodes[of].published.as_ref()?;
        let reachable = published.number_at(self.now - LATENCY);
        let held = self.nodes[at].gossip.newest(of).unwrap_or(0);
        let first = published.changes.partition_point(|(number, _)| *number <= held);
        let end = published.changes.partition_point(|(number, _)| *number <= reachable);
        let distance = self.distance(at, of);
        let since = |lacking: Option<u32>| {
            let delay = lacking.map(|n| self.now - LATENCY - published.time(n));
            KnownReplica {
                distance: distance / AVATAR_WIDTH,
                differs: lacking.is_some(),
                delay: delay.map_or(0.0, Micros::as_secs),
            }
        };
        let lacking = (first < end).then(|| published.changes[first].0);
        // What is held is shown; nobody foresees anything.
        let shown = first.checked_sub(1).map(|index| published.changes[index].1);
        let is_off = |place: &[f32; 3]| {
            shown.is_none_or(|shown| apart(shown, *place) > noticeable(distance))
        };
        let is_off_now = first < end && is_off(&published.changes[end - 1].1);
        let noticed = published.changes.range(first..end.max(first)).find(|(_, it)| is_off(it));
        Some([since(lacking), since(noticed.map(|it| it.0).filter(|_| is_off_now))])
    }

    /// The auditor's look at everybody.
    fn look(&mut self, inc_by_node: &mut [f64]) {
        let count = self.game.nodes;
        let pairs = (0..count * count).map(|pair| {
            let (at, of) = (pair / count, pair % count);
            if at == of { None } else { self.known(at, of) }
        });
        let looked: Vec<Option<[KnownReplica; 2]>> = pairs.collect();
        let pairs: Vec<Option<KnownReplica>> =
            looked.iter().map(|it| it.map(|[all, _]| all)).collect();
        let side = f64::from(self.movement.side()) / AVATAR_WIDTH;
        for at in 0..count {
            let row = &pairs[at * count..(at + 1) * count];
            let sum: Inconsistency = inc(row.iter().flatten());
            inc_by_node[at] += sum.inc;
            self.found.inc.add(sum);
            let mutual = (0..count).filter_map(|of| {
                Some((pairs[at * count + of].as_ref()?, pairs[of * count + at].as_ref()?))
            });
            self.found.inj += inj(mutual);
            self.found.looks += 1;
            for known in row.iter().flatten() {
                self.found.bins[bin(known.distance / side)].delay.add(known.delay * 1e3);
            }
            let noticed = || looked[at * count..(at + 1) * count].iter().flatten().map(|it| &it[1]);
            self.found.noticed.add(inc(noticed()));
            for known in noticed().filter(|known| known.distance <= NEAR * side) {
                self.found.noticed_near.add(known.delay * 1e3);
            }
        }
    }

    /// Somebody new comes, gets known, and leaves again.
    fn newcomer(&mut self, at: usize, contacts: usize) {
        let mut known: Vec<usize> = (0..self.game.nodes).collect();
        self.rng.shuffle(&mut known);
        known.truncate(contacts);
        self.enter(at, &known);
        let (since, count) = (self.now, self.game.nodes);
        let mut arrived =
            Arrived { contacts, known_by_all_s: None, knows_all_s: None, curve: Vec::new() };
        while arrived.all_s().is_none() && self.now - since < JOIN_LIMIT {
            self.run_for(FRAME);
            let spent = (self.now - since).as_secs();
            let knowing = (0..count).filter(|n| self.nodes[*n].gossip.newest(at).is_some()).count();
            let knows = (0..count).filter(|n| self.nodes[at].gossip.newest(*n).is_some()).count();
            arrived.curve.push(knowing as f64 / count as f64);
            if knowing == count {
                arrived.known_by_all_s.get_or_insert(spent);
            }
            if knows == count {
                arrived.knows_all_s.get_or_insert(spent);
            }
        }
        self.found.arrived.push(arrived);
        self.nodes[at].gossip.leave(self.now);
        self.drain(at);
        self.nodes[at].present = false;
    }
}
