//! The runs of `foveate lab ownership`: steady games, half of all crash, churn, a partition.

use super::load::PlayerBytes;
use crate::movement::{Waypoint, WaypointSpec};
use crate::net::Latency;
use crate::peers::{Census, MeadowSpec, NetSpec, PeerCoherence, Play};
use foveate_node::peer::GONE_AFTER;
use foveate_sync::metrics::Spread;
use foveate_wire::{Micros, SchemaError};
use serde::Serialize;
use std::collections::BTreeMap;

/// The length of a round.
pub const ROUND: Micros = Micros(50_000);
/// How far players see in the source's games,
pub const VIEW: f32 = 300.0;
/// and the share of it within which they can act.
const REACH: f32 = 1.0 / 3.0;
/// A region of eight bases is this wide: a player may see several.
const REGION: f32 = 400.0;
/// How fast ships fly, and bases wander.
const SPEEDS: [f32; 2] = [40.0, 10.0];
/// Everybody's uplink: 16 Mbit/s lines send about a sixteenth of that.
const UPLINK: u32 = 125_000;
/// What links lose.
const LOSS: f64 = 0.01;
/// So many enter in each second.
const ENTER: usize = 2;
/// After the last has entered, so long until anything is measured.
const WARM: Micros = Micros(15_000_000);
/// Rounds between two looks.
const LOOK_EVERY: u64 = 5;
/// What must be in order this long after a crash was noticed.
pub const SETTLED_WITHIN: Micros = Micros(2_000_000);

/// A world's size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// How many play.
    pub players: usize,
    /// How many bases there are.
    pub objects: usize,
}

/// A game's world: how many play in it, how large it is, how far they see and what they can send.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GameSpec {
    /// Players and bases.
    pub size: Size,
    /// Side of the square world.
    pub side: f32,
    /// How far players see; they reach a third of it.
    pub view: f32,
    /// Bytes per second that each player's uplink carries.
    pub uplink: u32,
}

impl From<Size> for GameSpec {
    /// The source's world of this size.
    fn from(size: Size) -> GameSpec {
        let side = REGION * (size.objects as f32 / 8.0).sqrt();
        GameSpec { size, side, view: VIEW, uplink: UPLINK }
    }
}

pub(super) fn seconds(seconds: u64) -> Micros {
    Micros(seconds * 1_000_000)
}

/// A game of this size; there is movement for so many more.
pub fn game(
    spec: impl Into<GameSpec>,
    spare: usize,
    seed: u64,
) -> Result<Play<Waypoint>, SchemaError> {
    let GameSpec { size, side, view, .. } = spec.into();
    let world = MeadowSpec {
        side,
        bases: size.objects,
        view,
        interaction: REACH * view,
        speeds: SPEEDS,
        rate: 1e6 / ROUND.0 as f32,
        seed,
    };
    let net = NetSpec {
        round: ROUND,
        latency: Latency::LogNormal(Micros(30_000), 1.5),
        loss: LOSS,
        relayed: 0.0,
        queue: 64 << 10,
        seed,
    };
    let walk = WaypointSpec {
        count: size.players + spare,
        side,
        speed: [SPEEDS[0] / 2.0, SPEEDS[0]],
        pause: [0.0, 1.0],
        leg: 300.0,
        rate: world.rate,
    };
    Play::new(world, net, Waypoint::new(walk, seed))
}

/// What was looked at, one look after the other.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    /// Δ in view radii.
    pub delta: Spread,
    /// Agreement on who holds a base: sum over looks.
    pub agreeing: f64,
    /// Pairs in which a player lacks a base that it should see: sum over looks.
    pub lacking: f64,
    /// How many looks.
    pub looks: f64,
    /// Bytes that one player sent in one second.
    pub bytes: Spread,
    /// The same by player,
    pub sent: PlayerBytes,
    /// and what arrived at each.
    pub received: PlayerBytes,
    /// Datagrams that an uplink's queue had no room for.
    pub dropped: u64,
    /// The busiest uplink in a second, headers of UDP and IP included, as a share of its rate.
    pub uplink_share: f64,
    /// Messages and datagrams that one player sent in one second.
    pub packets: Spread,
    /// The most objects of one owner, by look, and the mean.
    pub owned: (usize, f64),
    /// Second by second.
    pub line: Vec<Second>,
    /// Looks at which an object had more than one owner, or none though it was kept.
    pub unclean: f64,
}

/// One second of a game.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Second {
    /// When it ended.
    pub t: f64,
    /// How many played.
    pub players: usize,
    /// Objects of one owner, on average,
    pub owned_mean: f64,
    /// and the most.
    pub owned_max: usize,
    /// Messages that one player sent, on average: what is not state.
    pub protocol_s: f64,
    /// Bytes that one player sent, on average,
    pub bytes_s: f64,
    /// and the most;
    pub bytes_max: f64,
    /// and that one player received, the most.
    pub received_max: f64,
    /// Δ in view radii.
    pub delta: f64,
}

impl Looks {
    /// Plays for a while and looks; `each` is called in every round.
    pub fn over(
        play: &mut Play<Waypoint>,
        time: Micros,
        mut each: impl FnMut(&mut Play<Waypoint>),
    ) -> Looks {
        let mut looks = Looks::default();
        for _ in 0..(time.0 / 1_000_000).max(1) {
            looks.second(play, &mut each);
        }
        looks
    }

    fn second(&mut self, play: &mut Play<Waypoint>, each: &mut impl FnMut(&mut Play<Waypoint>)) {
        let before: BTreeMap<usize, _> =
            play.net.present().map(|(at, node)| (at, (node.sent, node.received))).collect();
        let mut deltas = Vec::new();
        for round in 0..1_000_000 / ROUND.0 {
            play.round();
            each(play);
            if round % LOOK_EVERY == 0 {
                let census = Census::take(&play.net);
                self.unclean += f64::from(u8::from(!census.is_clean()));
                self.looks += 1.0;
                if let Some(seen) = PeerCoherence::look(&play.net, |_| true) {
                    self.delta.add(seen.delta);
                    self.agreeing += seen.agreeing;
                    self.lacking += seen.lacking;
                    deltas.push(seen.delta);
                }
            }
        }
        let players = play.net.present().count();
        let (owned_max, owned_mean) = Census::take(&play.net).load(players);
        self.owned = (self.owned.0.max(owned_max), owned_mean);
        let mut sent = Vec::new();
        let mut received_max = 0;
        for (at, node) in play.net.present() {
            let Some((sent_before, received_before)) = before.get(&at) else { continue };
            let (it, received) = (node.sent.since(sent_before), node.received - received_before);
            self.bytes.add(it.bytes() as f64);
            self.packets.add((it.datagrams + it.messages) as f64);
            self.sent.add(at, it.bytes() as f64);
            self.received.add(at, received as f64);
            self.dropped += it.dropped;
            self.uplink_share = self.uplink_share.max(node.uplink_load(&it));
            received_max = received_max.max(received);
            sent.push(it);
        }
        let mean = |sum: u64| sum as f64 / sent.len().max(1) as f64;
        self.line.push(Second {
            t: play.net.now().as_secs(),
            players,
            owned_mean,
            owned_max,
            protocol_s: mean(sent.iter().map(|it| it.messages).sum()),
            bytes_s: mean(sent.iter().map(|it| it.bytes()).sum()),
            bytes_max: sent.iter().map(|it| it.bytes()).max().unwrap_or(0) as f64,
            received_max: received_max as f64,
            delta: deltas.iter().sum::<f64>() / deltas.len().max(1) as f64,
        });
    }

    /// A sum as a mean over looks.
    pub fn share(&self, sum: f64) -> f64 {
        sum / self.looks.max(1.0)
    }
}

/// Everybody has entered and settled.
pub(super) fn started(
    spec: impl Into<GameSpec>,
    spare: usize,
    seed: u64,
) -> Result<(Play<Waypoint>, Looks), SchemaError> {
    let spec = spec.into();
    let size = spec.size;
    let mut play = game(spec, spare, seed)?;
    let mut looks = Looks::default();
    let mut rng = fastrand::Rng::with_seed(seed ^ 0x9ee5);
    for _ in 0..size.players.div_ceil(ENTER) {
        for _ in 0..ENTER.min(size.players - play.net.nodes.len()) {
            enter(&mut play, spec.uplink, &mut rng);
        }
        looks.second(&mut play, &mut |_| {});
    }
    let warm = Looks::over(&mut play, WARM, |_| {});
    looks.line.extend(warm.line);
    Ok((play, looks))
}

/// One more comes, by way of anybody who is in.
fn enter(play: &mut Play<Waypoint>, uplink: u32, rng: &mut fastrand::Rng) -> Option<usize> {
    let inside: Vec<usize> =
        play.net.present().filter(|(_, node)| node.inside.is_some()).map(|it| it.0).collect();
    let contact = (!inside.is_empty()).then(|| inside[rng.usize(..inside.len())]);
    play.enter(contact, Some(uplink))
}

/// A game in which nothing goes wrong: its beginning, and how it goes on.
pub fn steady(
    spec: impl Into<GameSpec>,
    time: Micros,
    seed: u64,
) -> Result<(Looks, Looks), SchemaError> {
    let (mut play, beginning) = started(spec, 0, seed)?;
    let looks = Looks::over(&mut play, time, |_| {});
    Ok((beginning, looks))
}

/// What a crash of half did.
#[derive(Clone, Debug)]
pub struct Crash {
    /// Before it,
    pub before: Looks,
    /// and from it on.
    pub after: Looks,
    /// Objects that nobody who survived had.
    pub lost: usize,
    /// Seconds from the last moment at which the crash was noticed until all was in order.
    pub settled_s: f64,
}

/// Half of all vanish at once.
pub fn crash(size: Size, each: Micros, seed: u64) -> Result<Crash, SchemaError> {
    let (mut play, _) = started(size, 0, seed)?;
    let before = Looks::over(&mut play, each, |_| {});
    let mut rng = fastrand::Rng::with_seed(seed ^ 0xc5a5);
    let mut all: Vec<usize> = play.net.present().map(|it| it.0).collect();
    rng.shuffle(&mut all);
    all.iter().take(size.players / 2).for_each(|at| drop(play.net.crash(*at)));
    let kept = Census::take(&play.net).owners.len();
    // The latest moment at which a survivor could notice it.
    let noticed = play.net.now() + GONE_AFTER + ROUND;
    let mut settled = noticed;
    let after = Looks::over(&mut play, each, |play| {
        let now = play.net.now();
        if now < noticed + seconds(8) && !Census::take(&play.net).is_clean() {
            settled = settled.max(now + ROUND);
        }
    });
    let settled_s = (settled - noticed).as_secs();
    Ok(Crash { before, after, lost: size.objects - kept, settled_s })
}

/// What churn or a partition did.
#[derive(Clone, Debug)]
pub struct OwnershipChange {
    /// While it went on,
    pub during: Looks,
    /// and afterwards.
    pub after: Looks,
    /// Objects in the end.
    pub kept: usize,
    /// Whether each had one owner in the end.
    pub clean: bool,
    /// Seconds from the end of it until all was in order.
    pub settled_s: f64,
}

/// So many of a hundred leave in a minute, half of them without a word, and as many come.
pub fn churn(
    size: Size,
    time: Micros,
    per_minute: f64,
    seed: u64,
) -> Result<OwnershipChange, SchemaError> {
    let turns = (size.players as f64 * per_minute * time.as_secs() / 60.0).round() as u64;
    let (mut play, _) = started(size, turns as usize + 1, seed)?;
    let mut rng = fastrand::Rng::with_seed(seed ^ 0xc4a2);
    let every = (time.0 / ROUND.0) / turns.max(1);
    let mut rounds = 0;
    let during = Looks::over(&mut play, time, |play| {
        rounds += 1;
        if rounds % every.max(1) != 0 {
            return;
        }
        let inside: Vec<usize> = play.net.present().map(|it| it.0).collect();
        let gone = inside[rng.usize(..inside.len())];
        if rng.bool() {
            play.net.leave(gone);
        } else {
            play.net.crash(gone);
        }
        enter(play, UPLINK, &mut rng);
    });
    Ok(settle(play, during))
}

/// The game falls into two halves for a while.
pub fn partition(size: Size, time: Micros, seed: u64) -> Result<OwnershipChange, SchemaError> {
    let (mut play, _) = started(size, 0, seed)?;
    (0..size.players / 2).for_each(|at| play.net.partition(at, 1));
    let during = Looks::over(&mut play, time, |_| {});
    (0..size.players / 2).for_each(|at| play.net.partition(at, 0));
    Ok(settle(play, during))
}

/// Lets everything come to rest.
fn settle(mut play: Play<Waypoint>, during: Looks) -> OwnershipChange {
    let end = play.net.now();
    let mut settled = end;
    let after = Looks::over(&mut play, seconds(40), |play| {
        if !Census::take(&play.net).is_clean() {
            settled = play.net.now();
        }
    });
    let census = Census::take(&play.net);
    let settled_s = (settled - end).as_secs();
    OwnershipChange {
        during,
        after,
        kept: census.owners.len(),
        clean: census.is_clean(),
        settled_s,
    }
}
