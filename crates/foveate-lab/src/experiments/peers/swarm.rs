//! Graded gossip among many peers, with an auditor that knows the true state. It measures what Silac's rows have, too.

use crate::movement::{AvatarPose, Movement};
use crate::net::Latency;
use crate::peers::{Meadow, MeadowSpec, NetSpec, PlacedPeer, Play, SHIP, Ship};
use foveate_node::game::PlayerId;
use foveate_sync::metrics::{Inconsistency, KnownReplica, Spread, inc, inj};
use foveate_wire::{Micros, ObjectId, Replicate, SchemaError};
use std::collections::BTreeMap;

/// The length of a round.
pub const ROUND: Micros = Micros(50_000);
/// Width of the arena's avatars: the unit of Inc and Inj.
const AVATAR_WIDTH: f64 = 2.0;
/// Avatars within a fifth of the side of a world for a hundred nodes are near, however large the world is.
const NEAR: f64 = 0.2 * SIDE as f64;
/// Avatars a side or more apart are far.
const FAR: f64 = 1.0;
/// Most nodes whose knowledge is audited: all of a small game; of a large one those nearest to the middle.
const MAX_WATCHERS: usize = 100;
/// A newcomer that is not known by all nodes within this time counts as never known.
const JOIN_LIMIT: Micros = Micros(20_000_000);
/// How far avatars see, as in the arena.
pub const VIEW: f32 = 100.0;
/// Side of the square for a hundred nodes.
pub const SIDE: f32 = 300.0;

/// Deviations of a place below this angle, as seen from the avatar, are no difference.
const FLOOR_DEGREES: f64 = 0.25;
/// Deviations below two sixteenths of a unit, the precision of graded states, are no difference either.
const FLOOR: f64 = 2.0 / 16.0;

/// How far off an avatar at a distance must be to count as noticeably wrong.
pub fn noticeable(distance: f64) -> f64 {
    (distance * FLOOR_DEGREES.to_radians()).max(FLOOR)
}

/// An interaction that a node has not learnt of after this time counts as lost for it.
pub const LOST_AFTER: Micros = Micros(2_000_000);
/// Mean time between two interactions of an avatar.
pub const ACT_EVERY: Micros = Micros(2_000_000);

/// The settings of a game.
#[derive(Clone, Copy, Debug)]
pub struct PeersGame {
    /// Number of players.
    pub nodes: usize,
    /// Latency of datagrams.
    pub latency: Latency,
    /// Share of datagrams that links lose.
    pub loss: f64,
    /// Share of links that are relayed.
    pub relayed: f64,
    /// Uplinks, narrowest and widest, in bytes per second.
    pub uplinks: [u32; 2],
    /// How long measuring takes.
    pub measured: Micros,
    /// RNG seed.
    pub seed: u64,
}

/// The results.
#[derive(Clone, Debug, Default)]
pub struct PeersFindings {
    /// Bytes per second sent, by node.
    pub bytes: Vec<f64>,
    /// Load of the busiest uplink, as a share of its rate.
    pub uplink_share: f64,
    /// Datagrams and messages per second, the mean over nodes.
    pub packets: f64,
    /// Σ diff / d², over watchers and samples.
    pub inc: Inconsistency,
    /// Injustice, the same sum over unequal delays.
    pub inj: f64,
    /// Samples in both sums.
    pub looks: f64,
    /// Age of what is known of near avatars, in milliseconds.
    pub delay_near: Spread,
    /// Age of what is known of far avatars, in milliseconds.
    pub delay_far: Spread,
    /// Pairs of an interaction and a watcher that was near it, and those in which the watcher had not learnt of it
    /// after [`LOST_AFTER`].
    pub deeds: (u64, u64),
    /// The most links of one node.
    pub links: usize,
    /// Avatars in view of which a node has a replica, and all avatars in view.
    pub seen: (u64, u64),
    /// Seconds until a newcomer and all other nodes knew each other.
    pub join_all_s: Option<f64>,
    /// Seconds until a newcomer and the avatars near it saw each other.
    pub join_near_s: Option<f64>,
    /// Honest peers that were named as cheating.
    pub wronged: usize,
}

/// Movement with interactions now and then, which are sent with the avatar's state.
struct Acting {
    walk: Box<dyn Movement>,
    deeds: Vec<u8>,
    /// Avatars that acted in the last step.
    acted: Vec<usize>,
    rng: fastrand::Rng,
}

impl Movement for Acting {
    fn len(&self) -> usize {
        self.walk.len()
    }

    fn step(&mut self) -> bool {
        self.acted.clear();
        for (at, deed) in self.deeds.iter_mut().enumerate() {
            if self.rng.u64(..ACT_EVERY.0) < ROUND.0 {
                *deed = deed.wrapping_add(1);
                self.acted.push(at);
            }
        }
        self.walk.step()
    }

    fn pose(&self, at: usize) -> Option<AvatarPose> {
        let pose = self.walk.pose(at)?;
        Some(AvatarPose { state: self.deeds[at], ..pose })
    }

    fn side(&self) -> f32 {
        self.walk.side()
    }

    fn extent(&self) -> f32 {
        self.walk.extent()
    }

    fn max_speed(&self) -> f32 {
        self.walk.max_speed()
    }
}

/// An interaction, with the watchers that were near it and have not learnt of it yet.
struct OpenDeed {
    by: usize,
    /// The avatar's count of its interactions, including this one.
    number: u8,
    at: Micros,
    unaware: Vec<usize>,
}

struct Auditor {
    watchers: Vec<usize>,
    players: Vec<PlayerId>,
    /// Since when a pair has differed.
    wrong: BTreeMap<(usize, usize), Micros>,
    deeds: Vec<OpenDeed>,
    /// Rounds between two samples.
    every: u32,
    found: PeersFindings,
}

/// Plays a game and measures it. The movement has one avatar more than the game has nodes.
pub fn measure(game: &PeersGame, walk: Box<dyn Movement>) -> Result<PeersFindings, SchemaError> {
    let side = walk.side();
    let world = MeadowSpec {
        side,
        bases: game.nodes * 64 / 100,
        view: VIEW,
        interaction: 40.0,
        speeds: [walk.max_speed(), 0.0],
        rate: 20.0,
        seed: game.seed,
    };
    let net = NetSpec {
        round: ROUND,
        latency: game.latency,
        loss: game.loss,
        relayed: game.relayed,
        queue: 256 << 10,
        seed: game.seed,
    };
    let count = walk.len();
    let rng = fastrand::Rng::with_seed(game.seed ^ 0xdeed);
    let walk = Acting { walk, deeds: vec![0; count], acted: Vec::new(), rng };
    let mut play: Play<Acting> = Play::new(world, net, walk)?;
    let mut rng = fastrand::Rng::with_seed(game.seed ^ 0x0b11);
    let uplinks: Vec<u32> =
        (0..count).map(|_| rng.u32(game.uplinks[0]..=game.uplinks[1])).collect();
    play.fill(game.nodes, ROUND, |at| Some(uplinks[at]));
    play.run(Micros(8_000_000));
    let every = if game.nodes > MAX_WATCHERS { 4 } else { 1 };
    let mut auditor = Auditor::new(&play, every);
    let before: Vec<_> = play.net.present().map(|(_, node)| node.sent).collect();
    let rounds = game.measured.0 / ROUND.0;
    for round in 0..rounds {
        play.round();
        auditor.note_deeds(&play);
        auditor.follow_deeds(&play);
        if round % u64::from(every) == 0 {
            auditor.look(&play);
        }
    }
    let seconds = game.measured.as_secs();
    let found = &mut auditor.found;
    for ((at, node), before) in play.net.present().zip(&before) {
        let sent = node.sent.since(before);
        let rate = sent.bytes() as f64 / seconds;
        found.bytes.push(rate);
        found.packets += (sent.datagrams + sent.messages) as f64 / seconds / game.nodes as f64;
        // The headers of each datagram use the uplink, too.
        let whole = rate + 28.0 * (sent.datagrams + sent.messages) as f64 / seconds;
        found.uplink_share = found.uplink_share.max(whole / f64::from(uplinks[at]));
        found.links = found.links.max(node.peer.neighbours().count());
        found.wronged += node.verdicts.len();
    }
    // The last interactions get as much time to become known as the first.
    while !auditor.deeds.is_empty() {
        play.round();
        auditor.follow_deeds(&play);
    }
    let mut found = auditor.found;
    newcomer(&mut play, uplinks[game.nodes], &mut found);
    Ok(found)
}

/// A newcomer joins through a single contact. Measures when it and all others know each other, and when it and those
/// within view see each other.
fn newcomer(play: &mut Play<Acting>, uplink: u32, found: &mut PeersFindings) {
    let Some(at) = play.enter(Some(0), Some(uplink)) else { return };
    let since = play.net.now();
    let Some(name) = play.net.nodes[at].as_ref().map(|node| node.peer.player()) else { return };
    while play.net.now() - since < JOIN_LIMIT {
        play.round();
        let Some(new) = play.net.nodes[at].as_ref() else { return };
        let Some(here) = play.movement().pose(at) else { return };
        let spent = (play.net.now() - since).as_secs();
        let knows = |a: &PlacedPeer<Meadow>, b: PlayerId| {
            a.peer.members().get(b).is_some() || a.peer.neighbours().any(|it| it == b)
        };
        let sees = |a: &PlacedPeer<Meadow>, b: PlayerId| {
            a.peer.simulation.ghosts.lanes(ObjectId::new(SHIP, b.0, 0)).is_some()
        };
        let others = || play.net.present().filter(|(other, _)| *other != at);
        if others().all(|(_, node)| knows(node, name) && knows(new, node.peer.player())) {
            found.join_all_s.get_or_insert(spent);
        }
        let near = |other: usize| {
            play.movement().pose(other).is_some_and(|pose| {
                (pose.pos[0] - here.pos[0]).hypot(pose.pos[1] - here.pos[1]) <= 0.5 * VIEW
            })
        };
        let mut close = others().filter(|(other, _)| near(*other));
        if close.all(|(_, node)| sees(node, name) && sees(new, node.peer.player())) {
            found.join_near_s.get_or_insert(spent);
        }
        if found.join_all_s.is_some() && found.join_near_s.is_some() {
            return;
        }
    }
}

impl Auditor {
    fn new(play: &Play<Acting>, every: u32) -> Auditor {
        let half = play.movement().side() / 2.0;
        let mut watchers: Vec<(f32, usize)> = play
            .net
            .present()
            .filter_map(|(at, _)| {
                let pos = play.movement().pose(at)?.pos;
                Some(((pos[0] - half).hypot(pos[1] - half), at))
            })
            .collect();
        watchers.sort_by(|a, b| a.0.total_cmp(&b.0));
        watchers.truncate(MAX_WATCHERS);
        let players = play.net.nodes.iter().flatten().map(|node| node.peer.player()).collect();
        let watchers = watchers.into_iter().map(|it| it.1).collect();
        let (wrong, deeds) = (BTreeMap::new(), Vec::new());
        Auditor { watchers, players, wrong, deeds, every, found: PeersFindings::default() }
    }

    /// Records the interactions of this round, and the watchers near them.
    fn note_deeds(&mut self, play: &Play<Acting>) {
        let (movement, at) = (play.movement(), play.net.now() - ROUND);
        for by in movement.acted.iter().copied().filter(|by| *by < self.players.len()) {
            let Some(pose) = movement.pose(by) else { continue };
            let near = |watcher: &usize| {
                let there = movement.pose(*watcher).filter(|_| *watcher != by);
                there.is_some_and(|it| {
                    gap([it.pos[0], it.pos[1]], [pose.pos[0], pose.pos[1]]) <= NEAR
                })
            };
            let unaware: Vec<usize> = self.watchers.iter().copied().filter(near).collect();
            self.found.deeds.0 += unaware.len() as u64;
            self.deeds.push(OpenDeed { by, number: pose.state, at, unaware });
        }
    }

    /// Checks which watchers have learnt of which interactions. A later state also tells of earlier ones.
    fn follow_deeds(&mut self, play: &Play<Acting>) {
        let now = play.net.now();
        for deed in &mut self.deeds {
            let id = ObjectId::new(SHIP, self.players[deed.by].0, 0);
            deed.unaware.retain(|watcher| {
                let node = play.net.nodes[*watcher].as_ref();
                let ship = node.and_then(|node| node.peer.world().get::<Ship>(id));
                ship.is_none_or(|ship| ship.deed.wrapping_sub(deed.number) >= 128)
            });
        }
        let lost = &mut self.found.deeds.1;
        self.deeds.retain(|deed| {
            let is_over = now - deed.at > LOST_AFTER;
            *lost += if is_over { deed.unaware.len() as u64 } else { 0 };
            !is_over && !deed.unaware.is_empty()
        });
    }

    fn look(&mut self, play: &Play<Acting>) {
        let now = play.net.now();
        let side = f64::from(play.movement().side());
        let mut delays: BTreeMap<(usize, usize), KnownReplica> = BTreeMap::new();
        for at in self.watchers.clone() {
            let mut row = Vec::with_capacity(self.players.len());
            for of in (0..self.players.len()).filter(|of| *of != at) {
                let Some(known) = self.known(play, at, of, now) else { continue };
                let away = known.distance * AVATAR_WIDTH;
                if away <= NEAR {
                    self.found.delay_near.add(known.delay * 1e3);
                } else if away >= FAR * side {
                    self.found.delay_far.add(known.delay * 1e3);
                }
                delays.insert((at, of), known);
                row.push(known);
            }
            self.found.inc.add(inc(&row));
            self.found.looks += 1.0;
        }
        for at in &self.watchers {
            let mutual = self
                .watchers
                .iter()
                .filter(|of| *of != at)
                .filter_map(|of| Some((delays.get(&(*at, *of))?, delays.get(&(*of, *at))?)));
            self.found.inj += inj(mutual);
        }
    }

    /// What one node knows of another, compared with the last round that can have arrived.
    fn known(
        &mut self,
        play: &Play<Acting>,
        at: usize,
        of: usize,
        now: Micros,
    ) -> Option<KnownReplica> {
        let (watcher, other) = (play.net.nodes[at].as_ref()?, play.net.nodes[of].as_ref()?);
        let id = ObjectId::new(SHIP, self.players[of].0, 0);
        let store = &other.peer.simulation.publisher.store;
        let tick = other.told_by(now - play.net.latency(at, of), ROUND);
        let slot = store.find(id)?;
        let kind = store.kind(slot);
        let truth = Ship::get(kind, store.committed_at(slot, tick)?);
        let own = watcher.peer.world().get::<Ship>(watcher.peer.avatar())?;
        let distance = gap(own.pos, truth.pos);
        let held = watcher.peer.world().get::<Ship>(id);
        let place = watcher.peer.predicted(id, tick).map(|at| [at[0], at[1]]);
        let right = place.is_some_and(|place| gap(place, truth.pos) <= noticeable(distance));
        if distance <= f64::from(VIEW) {
            self.found.seen.1 += 1;
            self.found.seen.0 += u64::from(held.is_some());
        }
        let told = held.as_ref().is_some_and(|ship| ship.deed == truth.deed);
        let differs = !(right && told);
        // The difference arose at some time since the last sample; the earliest counts.
        let arose = now - ROUND * self.every;
        let delay = if differs {
            (now - *self.wrong.entry((at, of)).or_insert(arose)).as_secs()
        } else {
            self.wrong.remove(&(at, of));
            0.0
        };
        Some(KnownReplica { distance: distance / AVATAR_WIDTH, differs, delay })
    }
}

fn gap(a: [f32; 2], b: [f32; 2]) -> f64 {
    f64::from((a[0] - b[0]).hypot(a[1] - b[1]))
}
