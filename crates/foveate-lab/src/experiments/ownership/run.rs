//! The games of `foveate lab ownership`: steady ones, a crash of half the players, churn, a partition.

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
/// How far players see in the source's games.
pub const VIEW: f32 = 300.0;
/// The share of the view within which players can act.
const REACH: f32 = 1.0 / 3.0;
/// The side of a region of eight bases; a player may see several regions.
const REGION: f32 = 400.0;
/// Speeds of ships and of bases.
const SPEEDS: [f32; 2] = [40.0, 10.0];
/// Each player's uplink in bytes per second, about a sixteenth of a line of 16 Mbit/s.
const UPLINK: u32 = 125_000;
/// Share of datagrams that links lose.
const LOSS: f64 = 0.01;
/// Players that enter in each second.
const ENTER: usize = 2;
/// Time from the last player's entry until measuring starts.
const WARM: Micros = Micros(15_000_000);
/// Rounds between two samples.
const LOOK_EVERY: u64 = 5;
/// After a crash is noticed, every object must have one owner again within this time.
pub const SETTLED_WITHIN: Micros = Micros(2_000_000);

/// The size of a game.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Number of players.
    pub players: usize,
    /// Number of bases.
    pub objects: usize,
}

/// The world of a game and its players.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GameSpec {
    /// Numbers of players and bases.
    pub size: Size,
    /// Side of the square world.
    pub side: f32,
    /// How far players see; they reach a third of it.
    pub view: f32,
    /// Bytes per second that each player's uplink carries.
    pub uplink: u32,
}

impl From<Size> for GameSpec {
    /// The source's world for this size.
    fn from(size: Size) -> GameSpec {
        let side = REGION * (size.objects as f32 / 8.0).sqrt();
        GameSpec { size, side, view: VIEW, uplink: UPLINK }
    }
}

pub(super) fn seconds(seconds: u64) -> Micros {
    Micros(seconds * 1_000_000)
}

/// Makes a game, with movement for `spare` more players.
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

/// Results of all samples of a game.
#[derive(Clone, Debug, Default)]
pub struct Looks {
    /// Δ in view radii.
    pub delta: Spread,
    /// Share of agreement on a base's team: sum over samples.
    pub agreeing: f64,
    /// Share of pairs in which a player lacks a base that it should see: sum over samples.
    pub lacking: f64,
    /// Number of samples.
    pub looks: f64,
    /// Bytes that one player sent in one second.
    pub bytes: Spread,
    /// Bytes sent, by player and second.
    pub sent: PlayerBytes,
    /// Bytes received, by player and second.
    pub received: PlayerBytes,
    /// Datagrams dropped because an uplink's queue was full.
    pub dropped: u64,
    /// Load of the busiest uplink in any second, with UDP and IP headers, as a share of its rate.
    pub uplink_share: f64,
    /// Messages and datagrams that one player sent in one second.
    pub packets: Spread,
    /// Most objects of one owner in any sample, and the mean.
    pub owned: (usize, f64),
    /// The game by second.
    pub line: Vec<Second>,
    /// Samples in which an object had several owners, or none although a peer kept it.
    pub unclean: f64,
}

/// One second of a game.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Second {
    /// When it ended.
    pub t: f64,
    /// Number of players.
    pub players: usize,
    /// Mean number of objects of one owner.
    pub owned_mean: f64,
    /// Largest number of objects of one owner.
    pub owned_max: usize,
    /// Mean number of messages that one player sent, which carry no states.
    pub protocol_s: f64,
    /// Mean number of bytes that one player sent.
    pub bytes_s: f64,
    /// Most bytes that one player sent.
    pub bytes_max: f64,
    /// Most bytes that one player received.
    pub received_max: f64,
    /// Δ in view radii.
    pub delta: f64,
}

impl Looks {
    /// Plays for `time` and takes samples; `each` is called in every round.
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

    /// A sum divided by the number of samples.
    pub fn share(&self, sum: f64) -> f64 {
        sum / self.looks.max(1.0)
    }
}

/// A game in which all players have entered and settled.
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

/// Adds a player that joins through any other.
fn enter(play: &mut Play<Waypoint>, uplink: u32, rng: &mut fastrand::Rng) -> Option<usize> {
    let inside: Vec<usize> =
        play.net.present().filter(|(_, node)| node.inside.is_some()).map(|it| it.0).collect();
    let contact = (!inside.is_empty()).then(|| inside[rng.usize(..inside.len())]);
    play.enter(contact, Some(uplink))
}

/// A game without failures: the start, and the time after it.
pub fn steady(
    spec: impl Into<GameSpec>,
    time: Micros,
    seed: u64,
) -> Result<(Looks, Looks), SchemaError> {
    let (mut play, beginning) = started(spec, 0, seed)?;
    let looks = Looks::over(&mut play, time, |_| {});
    Ok((beginning, looks))
}

/// Results of the crash of half the players.
#[derive(Clone, Debug)]
pub struct Crash {
    /// Before the crash.
    pub before: Looks,
    /// From the crash on.
    pub after: Looks,
    /// Objects that no survivor had.
    pub lost: usize,
    /// Seconds from the latest time at which the crash was noticed until every object had one owner.
    pub settled_s: f64,
}

/// Half of all players crash at once.
pub fn crash(size: Size, each: Micros, seed: u64) -> Result<Crash, SchemaError> {
    let (mut play, _) = started(size, 0, seed)?;
    let before = Looks::over(&mut play, each, |_| {});
    let mut rng = fastrand::Rng::with_seed(seed ^ 0xc5a5);
    let mut all: Vec<usize> = play.net.present().map(|it| it.0).collect();
    rng.shuffle(&mut all);
    all.iter().take(size.players / 2).for_each(|at| drop(play.net.crash(*at)));
    let kept = Census::take(&play.net).owners.len();
    // The latest time at which a survivor could notice it.
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

/// Results of churn or a partition.
#[derive(Clone, Debug)]
pub struct OwnershipChange {
    /// While it lasted.
    pub during: Looks,
    /// After it ended.
    pub after: Looks,
    /// Objects that exist at the end.
    pub kept: usize,
    /// Whether each had exactly one owner at the end.
    pub clean: bool,
    /// Seconds from its end until every object had one owner.
    pub settled_s: f64,
}

/// A share of players leaves in each minute, half of them without a message, and as many join.
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

/// The game is split into two halves for a while.
pub fn partition(size: Size, time: Micros, seed: u64) -> Result<OwnershipChange, SchemaError> {
    let (mut play, _) = started(size, 0, seed)?;
    (0..size.players / 2).for_each(|at| play.net.partition(at, 1));
    let during = Looks::over(&mut play, time, |_| {});
    (0..size.players / 2).for_each(|at| play.net.partition(at, 0));
    Ok(settle(play, during))
}

/// Waits until ownership is settled.
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
