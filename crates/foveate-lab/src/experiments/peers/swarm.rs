//! Graded gossip among many, and an auditor who knows the truth: the rows that Silac has, too.

use crate::movement::{AvatarPose, Movement};
use crate::net::Latency;
use crate::peers::{Meadow, MeadowSpec, NetSpec, PlacedPeer, Play, SHIP, Ship};
use foveate_node::game::PlayerId;
use foveate_sync::metrics::{Inconsistency, KnownReplica, Spread, inc, inj};
use foveate_wire::{Micros, ObjectId, Replicate, SchemaError};
use std::collections::BTreeMap;

/// The length of a round.
pub const ROUND: Micros = Micros(50_000);
/// As wide as the arena's avatars: the unit of Inc and Inj.
const AVATAR_WIDTH: f64 = 2.0;
/// Whoever is within a fifth of the side that a hundred nodes have is near, however large the world is;
const NEAR: f64 = 0.2 * SIDE as f64;
/// a side or more away, far.
const FAR: f64 = 1.0;
/// Those who look: all of a small game, and of a large one the ones nearest to its middle.
const MAX_WATCHERS: usize = 100;
/// A newcomer that is not known by all after this never is.
const JOIN_LIMIT: Micros = Micros(20_000_000);
/// How far avatars see: as the arena's do.
pub const VIEW: f32 = 100.0;
/// Side of a square that a hundred nodes have.
pub const SIDE: f32 = 300.0;

/// Deviations of place below this angle, seen from the avatar, are no difference,
const FLOOR_DEGREES: f64 = 0.25;
/// nor are those below two sixteenths of a unit, the precision of graded states.
const FLOOR: f64 = 2.0 / 16.0;

/// How far off somebody must be at a distance to count as wrong where only that counts which can be
/// noticed.
pub fn noticeable(distance: f64) -> f64 {
    (distance * FLOOR_DEGREES.to_radians()).max(FLOOR)
}

/// An interaction that somebody has not learnt of after this is lost on them.
pub const LOST_AFTER: Micros = Micros(2_000_000);
/// Each avatar does something once in this time, on average.
pub const ACT_EVERY: Micros = Micros(2_000_000);

/// A game to be measured.
#[derive(Clone, Copy, Debug)]
pub struct PeersGame {
    /// How many play.
    pub nodes: usize,
    /// How long a datagram takes.
    pub latency: Latency,
    /// What links lose.
    pub loss: f64,
    /// The share of links that are relayed.
    pub relayed: f64,
    /// Uplinks, narrowest and widest, bytes per second.
    pub uplinks: [u32; 2],
    /// For how long is measured.
    pub measured: Micros,
    /// What chance is drawn from.
    pub seed: u64,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct PeersFindings {
    /// Bytes per second that each node sent,
    pub bytes: Vec<f64>,
    /// and the most as a share of an uplink.
    pub uplink_share: f64,
    /// Datagrams and messages per second, mean over nodes.
    pub packets: f64,
    /// Σ diff / d², over watchers and moments.
    pub inc: Inconsistency,
    /// Unequal delays, likewise.
    pub inj: f64,
    /// How many were summed up in both.
    pub looks: f64,
    /// How old what is known of those near by is: milliseconds,
    pub delay_near: Spread,
    /// and of those far away.
    pub delay_far: Spread,
    /// Pairs of a deed and a watcher that was near when it was done, and those of them in which the
    /// watcher had not learnt of it [`LOST_AFTER`] later.
    pub deeds: (u64, u64),
    /// The most links of one node.
    pub links: usize,
    /// Of those within view, the share that a node has.
    pub seen: (u64, u64),
    /// Seconds until a newcomer knew everybody and was known by everybody,
    pub join_all_s: Option<f64>,
    /// and until those near by and it saw each other.
    pub join_near_s: Option<f64>,
    /// Honest peers that were named.
    pub wronged: usize,
}

/// A walker who does something now and then: its deeds are told with its state.
struct Acting {
    walk: Box<dyn Movement>,
    deeds: Vec<u8>,
    /// Those who did something in the last step.
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

/// A deed, and the watchers that were near when it was done and have not learnt of it yet.
struct OpenDeed {
    by: usize,
    /// The doer's count of its deeds, this one included.
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
    /// Rounds between two looks.
    every: u32,
    found: PeersFindings,
}

/// Plays a game and measures it. The walkers are as many as play, and one more.
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
        // The headers around each datagram take room on the uplink, too.
        let whole = rate + 28.0 * (sent.datagrams + sent.messages) as f64 / seconds;
        found.uplink_share = found.uplink_share.max(whole / f64::from(uplinks[at]));
        found.links = found.links.max(node.peer.neighbours().count());
        found.wronged += node.verdicts.len();
    }
    // The last deeds have as long to become known as the first.
    while !auditor.deeds.is_empty() {
        play.round();
        auditor.follow_deeds(&play);
    }
    let mut found = auditor.found;
    newcomer(&mut play, uplinks[game.nodes], &mut found);
    Ok(found)
}

/// One more comes with a single contact: how soon it knows all and is known by all, and how soon those
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

    /// Notes what was done in this round, and which watchers were near.
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

    /// Looks which watchers have learnt of which deeds. A later state tells of earlier deeds, too.
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
                let Some(known) = self.known(play, (at, of), now) else { continue };
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

    /// What one knows of another, as of the last round that can have arrived.
    fn known(
        &mut self,
        play: &Play<Acting>,
        (at, of): (usize, usize),
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
        // It arose at some time since the last look; the earliest counts.
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
