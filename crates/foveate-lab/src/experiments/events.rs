//! `foveate lab events`: what filtering events by place saves, and whether exactly the right players receive them.
//!
//! The server and clients that ship play a script: every player's place in every tick, and all events. So the audit
//! knows from the script alone which players had to notice which events, with a distance function of its own.

mod describe;

use super::{Done, Experiment, ExperimentError, LabRequest, RunOptions, in_parallel};
use crate::movement::{Movement, Waypoint, WaypointSpec};
use crate::net::{Latency, Link as Path, LinkSpec, Loss};
use crate::network::{NetworkSpec, Placement, SessionNetwork};
use crate::output::Progress;
use foveate_node::client::News;
use foveate_node::game::{EventArea, Game, PlayerId, Requester, Spawn, StepContext, World};
use foveate_node::outbox::Outgoing;
use foveate_node::server::{EventCounts, ServerSettings};
use foveate_node::session::ServerDatagram;
use foveate_sync::interest::{View, presets};
use foveate_wire::{KindId, Micros, ObjectId, Replicate, Schema, SchemaError, Tick};
use serde::{Deserialize, Serialize};
use std::f32::consts::TAU;
use std::sync::Arc;

const COUNTS: [usize; 3] = [16, 64, 200];
/// Players in the parts with zooms, with two eyes and with loss.
const SOME: usize = 64;
const ROUND: Micros = Micros::from_millis(50);
const ROUNDS_PER_SECOND: f32 = 20.0;
/// Rounds before the first event, in which all players join.
const WARM_UP: usize = 20;
/// Rounds after the last event, in which packets under way arrive.
const DRAIN: usize = 40;
/// The side of the world divided by the square root of the number of players.
const SPACING: f32 = 40.0;
/// Steps per unit. Places are whole steps, so that the script holds exactly what the server has.
const STEPS: f32 = 16.0;
/// A shot's length, in units.
const SHOT: f32 = 40.0;
const NEAR_ZONE: f32 = 60.0;
/// A zoom multiplies the radius of the first zone, and narrows the first field of view to this angle in degrees.
const ZOOM: (f64, f64) = (2.0, 35.0);
const LOSS: f64 = 0.05;
/// Latency of what the server sends, in the part with loss.
const LATENCY: Micros = Micros::from_millis(40);
/// Players nearer to the edge of an event than this are not judged, in units, since the server computes in `f32`.
const EDGE: f64 = 1e-3;

/// The kinds of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum What {
    /// A footstep, at a point.
    Step,
    /// A shot, along a line.
    Shot,
    /// A player's death, at a point; sent reliably.
    Fall,
}

impl What {
    const ALL: [What; 3] = [What::Step, What::Shot, What::Fall];

    /// Events per second and player.
    fn rate(self) -> f32 {
        match self {
            What::Step => 2.0,
            What::Shot => 1.0,
            What::Fall => 0.2,
        }
    }

    /// The radius within which it is noticed, in units.
    fn radius(self) -> f32 {
        match self {
            What::Step => 20.0,
            What::Shot => 40.0,
            What::Fall => 60.0,
        }
    }
}

/// One event as the game sends it. The number takes the place of a real game's shooter and target. Ends are in steps;
/// at a point they are equal, and only one is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Noise {
    number: u32,
    what: What,
    at: [i16; 2],
    to: Option<[i16; 2]>,
}

impl Noise {
    fn ends(&self) -> [[f32; 2]; 2] {
        [self.at, self.to.unwrap_or(self.at)].map(|end| end.map(|steps| f32::from(steps) / STEPS))
    }

    fn spot(&self, radius: f32) -> EventArea {
        let [from, to] = self.ends().map(|[x, y]| [x, y, 0.0]);
        match self.what {
            What::Shot => EventArea::Segment { from, to, radius },
            What::Step | What::Fall => EventArea::Point { at: from, radius },
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
struct Stand {
    pos: [f32; 2],
    yaw: f32,
}

/// Every player's place in every round, and the events of every round, numbered in order.
struct Script {
    side: f32,
    stands: Vec<Vec<Stand>>,
    /// For each round, players' indices with their events.
    noises: Vec<Vec<(usize, Noise)>>,
    seconds: f64,
}

impl Script {
    fn new(players: usize, seconds: usize, seed: u64) -> Script {
        let side = SPACING * (players as f32).sqrt();
        let (speed, pause, rate) = ([2.0, 8.0], [0.0, 3.0], ROUNDS_PER_SECOND);
        let spec = WaypointSpec { count: players, side, speed, pause, leg: 60.0, rate };
        let mut walk = Waypoint::new(spec, seed);
        let mut rng = fastrand::Rng::with_seed(seed ^ 0xe7e7);
        let measured = WARM_UP..WARM_UP + seconds * ROUNDS_PER_SECOND as usize;
        let mut script =
            Script { side, stands: Vec::new(), noises: Vec::new(), seconds: seconds as f64 };
        let mut number = 0;
        for round in 0..measured.end + DRAIN {
            walk.step();
            let stands: Vec<Stand> = (0..players)
                .filter_map(|at| walk.pose(at))
                .map(|it| snapped(it.pos, it.yaw))
                .collect();
            let mut noises = Vec::new();
            for (player, stand) in stands.iter().enumerate().filter(|_| measured.contains(&round)) {
                for what in What::ALL {
                    if rng.f32() * ROUNDS_PER_SECOND < what.rate() {
                        noises.push((player, make(number, what, stand.pos, &mut rng)));
                        number += 1;
                    }
                }
            }
            script.stands.push(stands);
            script.noises.push(noises);
        }
        script
    }

    fn happened(&self) -> usize {
        self.noises.iter().map(Vec::len).sum()
    }
}

/// Rounds a place to whole steps, and a yaw to 240ths of a turn.
fn snapped(pos: [f32; 3], yaw: f32) -> Stand {
    let pos = [pos[0], pos[1]].map(|it| (it * STEPS).round() / STEPS);
    Stand { pos, yaw: (yaw / TAU * 240.0).round() * TAU / 240.0 }
}

fn make(number: u32, what: What, pos: [f32; 2], rng: &mut fastrand::Rng) -> Noise {
    let steps = |pos: [f32; 2]| pos.map(|it| (it * STEPS).round() as i16);
    let (sin, cos) = (rng.f32() * TAU).sin_cos();
    let to = [pos[0] + SHOT * cos, pos[1] + SHOT * sin];
    Noise { number, what, at: steps(pos), to: (what == What::Shot).then(|| steps(to)) }
}

#[derive(Clone, PartialEq, Debug, Replicate)]
#[replicate(max_speed = 10.0)]
struct Soldier {
    #[replicate(place, motion, precision = 0.0625, extent = 8192.0)]
    pos: [f32; 2],
    #[replicate(yaw, steps = 240)]
    yaw: f32,
}

/// The script as a game.
struct Scripted {
    schema: Arc<Schema>,
    script: Arc<Script>,
    case: Case,
}

impl Scripted {
    fn soldier(&self, tick: Tick, player: u32) -> Option<Soldier> {
        let stands = self.script.stands.get(tick.0 as usize).or(self.script.stands.last())?;
        let Stand { pos, yaw } = *stands.get(player as usize - 1)?;
        Some(Soldier { pos, yaw })
    }
}

impl Game for Scripted {
    type Input = u8;
    type Action = u8;
    type Event = Noise;

    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn avatar(&self) -> KindId {
        KindId(0)
    }

    fn populate(&self) -> Vec<Spawn> {
        Vec::new()
    }

    fn welcome(&self, world: &World<'_>, player: PlayerId, _: &str) -> Vec<Spawn> {
        let soldier = self.soldier(world.tick(), player.0);
        soldier.and_then(|it| Spawn::new(&self.schema, &it)).into_iter().collect()
    }

    fn step(&self, turn: &mut StepContext<'_, Self>, _: &[u8]) {
        let (tick, player) = (turn.tick(), turn.id().origin());
        if let Some(soldier) = self.soldier(tick, player) {
            turn.set(&soldier);
        }
        for (by, noise) in self.script.noises.get(tick.0 as usize).into_iter().flatten() {
            if *by + 1 == player as usize {
                let radius = if self.case.filtered { noise.what.radius() } else { f32::INFINITY };
                turn.event(noise.spot(radius), *noise);
            }
        }
    }

    fn act(&self, _: &mut StepContext<'_, Self>, _: &u8, _: Requester) {}

    fn reliable(&self, noise: &Noise) -> bool {
        noise.what == What::Fall
    }

    fn eyes(&self, _: &World<'_>, avatar: ObjectId, eyes: &mut Vec<ObjectId>) {
        let origins = self.case.eyes(avatar.origin() as usize - 1);
        eyes.extend(origins.map(|player| ObjectId::new(avatar.kind(), player as u32 + 1, 0)));
    }

    fn view(&self, which: u8) -> Option<View> {
        let zoom = presets::zoom(NEAR_ZONE, 2.0 * NEAR_ZONE);
        [presets::circle(NEAR_ZONE), zoom].get(usize::from(which)).cloned()
    }
}

/// One session to play.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Case {
    part: &'static str,
    players: usize,
    filtered: bool,
}

impl Case {
    const fn new(part: &'static str, players: usize, filtered: bool) -> Case {
        Case { part, players, filtered }
    }

    /// Whether a player uses a zoom: every other one does, in the part with zooms.
    fn zooms(&self, player: usize) -> bool {
        self.part == "zoom" && player % 2 == 1
    }

    /// The players from whose avatars a player observes: its own, and in the part with two eyes, for every other
    /// player, also the next one's.
    fn eyes(&self, player: usize) -> impl Iterator<Item = usize> + use<> {
        let next = (self.part == "eyes" && player % 2 == 1).then_some((player + 1) % self.players);
        std::iter::once(player).chain(next)
    }

    /// The conditions of what a client sends, and of what the server sends.
    fn links(&self) -> [LinkSpec; 2] {
        let lossy = LinkSpec { loss: Loss::Bernoulli(LOSS), ..LinkSpec::PERFECT };
        match self.part {
            "loss" => [lossy, LinkSpec { latency: Latency::Constant(LATENCY), ..lossy }],
            _ => [LinkSpec::PERFECT; 2],
        }
    }
}

/// What one player was sent.
#[derive(Clone, Default)]
struct Received {
    noises: Vec<Noise>,
    event_bytes: u64,
    bytes: u64,
}

struct Played {
    received: Vec<Received>,
    counts: EventCounts,
}

/// A client's round begins this much after the server's, so that what arrives without delay has arrived.
const AFTER: Micros = Micros(1);

/// The server and its clients.
struct Town {
    sessions: SessionNetwork<Scripted>,
    received: Vec<Received>,
}

impl Town {
    fn new(case: &Case, game: &Arc<Scripted>, seed: u64) -> Town {
        let spec = NetworkSpec::delayed(Micros::ZERO, seed);
        let mut sessions = SessionNetwork::new(Arc::clone(game), ServerSettings::default(), spec);
        sessions.sent = Some(Vec::new());
        sessions.run(AFTER, |_, _, _, _| {});
        // By its own clock a client has missed its first rounds, so its next one begins a full round after it connects.
        let placement = Placement { skew: ROUND * 4, ..Placement::PLAIN };
        for player in 0..case.players {
            let at = sessions.add(&format!("p{player}"), &[], placement);
            let seed = seed.wrapping_mul(1_000_003) ^ (player as u64) << 1;
            let [up, down] = case.links();
            sessions.connect_over(at, [Path::new(up, seed ^ 1), Path::new(down, seed)]);
        }
        Town { sessions, received: vec![Received::default(); case.players] }
    }

    fn round(&mut self, case: &Case, round: usize) {
        let until = ROUND * round as u32 + AFTER;
        let time = until - self.sessions.network.now();
        self.sessions.run(time, |_, at, client, out| {
            if round == WARM_UP / 2 && case.zooms(at - 1) {
                client.set_view(1, out);
            }
        });
        for (from, to, outgoing) in self.sessions.sent.iter_mut().flat_map(std::mem::take) {
            if from == 0 {
                let (bytes, events) = sizes(&outgoing);
                self.received[to - 1].bytes += bytes as u64;
                self.received[to - 1].event_bytes += events as u64;
            }
        }
        for (at, news) in self.sessions.news.drain(..) {
            if let News::Event(noise) = news {
                self.received[at - 1].noises.push(noise);
            }
        }
    }
}

/// Bytes of an outgoing packet, and how many of them are due to events: the events with their length, or the whole
/// frame if it has nothing else.
fn sizes(outgoing: &Outgoing) -> (usize, usize) {
    match outgoing {
        Outgoing::Message(bytes) => {
            use foveate_node::session::{ServerMessage, read_message};
            let events = matches!(read_message(bytes), Some(ServerMessage::Events(_)));
            (bytes.len(), if events { bytes.len() } else { 0 })
        }
        Outgoing::Datagram(bytes) => match ServerDatagram::read(bytes) {
            Some(frame) if !frame.events.is_empty() => {
                let alone = frame.state.is_empty();
                (bytes.len(), if alone { bytes.len() } else { frame.events.len() + 2 })
            }
            _ => (bytes.len(), 0),
        },
        Outgoing::Close(_) => (0, 0),
    }
}

fn play(case: &Case, script: &Arc<Script>, seed: u64) -> Result<Played, SchemaError> {
    let schema = Arc::new(Schema::new(vec![Soldier::spec()])?);
    let game = Arc::new(Scripted { schema, script: Arc::clone(script), case: *case });
    let mut town = Town::new(case, &game, seed);
    (1..script.stands.len()).for_each(|round| town.round(case, round));
    let counts = town.sessions.server().map_or_else(EventCounts::default, |it| it.event_counts());
    Ok(Played { counts, received: town.received })
}

/// The audit's results, in pairs of an event and a player.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
struct Findings {
    /// The player had to notice the event.
    due: u64,
    missing: u64,
    superfluous: u64,
    /// The player received the event more than once.
    twice: u64,
    /// The player was too near to the edge to be judged.
    at_edge: u64,
    /// The player crosses the edge in the tick of the event. The server judges by the places at the end of the previous
    /// tick, as rules do.
    crossing: u64,
    reliable_due: u64,
    reliable_missing: u64,
    /// Reliable events that arrived after a later one.
    out_of_order: u64,
}

impl Findings {
    fn lost_share(&self) -> f64 {
        let due = self.due - self.reliable_due;
        (self.missing - self.reliable_missing) as f64 / due as f64
    }
}

/// Compares what players received with what they had to notice by the script.
fn audit(case: &Case, script: &Script, received: &[Received]) -> Findings {
    let mut found = Findings::default();
    for (player, received) in received.iter().enumerate() {
        let mut copies = vec![0u8; script.happened()];
        for noise in &received.noises {
            let count = &mut copies[noise.number as usize];
            *count = count.saturating_add(1);
        }
        let falls = received.noises.iter().filter(|it| it.what == What::Fall).map(|it| it.number);
        let falls: Vec<u32> = falls.collect();
        found.out_of_order += falls.windows(2).filter(|pair| pair[0] > pair[1]).count() as u64;
        for (round, noises) in script.noises.iter().enumerate() {
            for (_, noise) in noises {
                let depth = |round: usize| {
                    let stands = case.eyes(player).map(|eye| script.stands[round][eye]);
                    let depths = stands.map(|stand| depth(case, player, stand, noise));
                    depths.fold(f64::NEG_INFINITY, f64::max)
                };
                let (then, now) = (depth(round - 1), depth(round));
                found.note(then, copies[noise.number as usize], noise.what == What::Fall);
                found.crossing += u64::from((then >= 0.0) != (now >= 0.0));
            }
        }
    }
    found
}

impl Findings {
    fn note(&mut self, depth: f64, copies: u8, reliable: bool) {
        self.twice += u64::from(copies > 1);
        if depth.abs() < EDGE {
            self.at_edge += 1;
            return;
        }
        let (due, got) = (depth > 0.0, copies > 0);
        self.due += u64::from(due);
        self.missing += u64::from(due && !got);
        self.superfluous += u64::from(!due && got);
        self.reliable_due += u64::from(due && reliable);
        self.reliable_missing += u64::from(due && !got && reliable);
    }
}

/// How far within an event's radius a player at `stand` is, in units; negative outside.
fn depth(case: &Case, player: usize, stand: Stand, noise: &Noise) -> f64 {
    if !case.filtered {
        return f64::INFINITY;
    }
    let point = |at: [f32; 2]| at.map(f64::from);
    let (eye, ends) = (point(stand.pos), noise.ends().map(point));
    let radius = f64::from(noise.what.radius());
    let near = radius - distance(eye, ends);
    if !case.zooms(player) {
        return near;
    }
    // With a zoom, an end that is ahead is noticed from farther off.
    let (sin, cos) = f64::from(stand.yaw).sin_cos();
    let ahead = ends.map(|end| {
        let (x, y) = (end[0] - eye[0], end[1] - eye[1]);
        let off_axis = (cos * y - sin * x).atan2(cos * x + sin * y).abs();
        let angle = (ZOOM.1 / 2.0).to_radians() - off_axis;
        // Both are lengths, so that they can be compared.
        (radius * ZOOM.0 - x.hypot(y)).min(angle * x.hypot(y))
    });
    near.max(ahead[0]).max(ahead[1])
}

/// Distance from a point to a segment: to an end if the angle there is not acute, otherwise the height of the triangle.
fn distance(point: [f64; 2], [from, to]: [[f64; 2]; 2]) -> f64 {
    let side = |a: [f64; 2], b: [f64; 2]| (b[0] - a[0]).hypot(b[1] - a[1]);
    let (left, right, base) = (side(point, from), side(point, to), side(from, to));
    if base == 0.0 || right * right >= left * left + base * base {
        return left;
    }
    if left * left >= right * right + base * base {
        return right;
    }
    let double_area =
        (to[0] - from[0]) * (point[1] - from[1]) - (to[1] - from[1]) * (point[0] - from[0]);
    double_area.abs() / base
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    part: &'static str,
    players: usize,
    filtered: bool,
    side: f32,
    seconds: f64,
    /// Events per second in the whole world.
    happened_s: f64,
    /// Events per second to one player.
    delivered_s: f64,
    /// Delivered events as a share of all events.
    share: f64,
    event_bytes_s: f64,
    bytes_s: f64,
    /// Event bytes without the filter, divided by those with it.
    saved: Option<f64>,
    dropped: u64,
    /// Lost unreliable events, as a share of those due.
    lost_share: f64,
    #[serde(flatten)]
    found: Findings,
}

fn measure(case: &Case, options: RunOptions) -> Result<Row, ExperimentError> {
    let seconds = if options.quick { 10 } else { 60 };
    // The same script, with and without the filter.
    let script = Arc::new(Script::new(case.players, seconds, options.seed));
    let Played { received, counts } = play(case, &script, options.seed)?;
    let each = case.players as f64 * script.seconds;
    let delivered: usize = received.iter().map(|it| it.noises.len()).sum();
    let bytes = |of: fn(&Received) -> u64| received.iter().map(of).sum::<u64>() as f64 / each;
    let found = audit(case, &script, &received);
    Ok(Row {
        part: case.part,
        players: case.players,
        filtered: case.filtered,
        side: script.side,
        seconds: script.seconds,
        happened_s: script.happened() as f64 / script.seconds,
        delivered_s: delivered as f64 / each,
        share: delivered as f64 / (script.happened() * case.players) as f64,
        event_bytes_s: bytes(|it| it.event_bytes),
        bytes_s: bytes(|it| it.bytes),
        saved: None,
        dropped: counts.dropped,
        lost_share: found.lost_share(),
        found,
    })
}

pub struct EventsExperiment;

impl Experiment for EventsExperiment {
    fn name(&self) -> &'static str {
        "events"
    }

    fn about(&self) -> &'static str {
        "What filtering events by place saves, and whether the right players are told"
    }

    fn run(&self, request: &LabRequest<'_>) -> Result<Done, ExperimentError> {
        lab(request.options)
    }
}

/// Plays all cases.
fn lab(options: RunOptions) -> Result<Done, ExperimentError> {
    let pair = |players| [true, false].map(|filtered| Case::new("perfect", players, filtered));
    let mut cases: Vec<Case> = COUNTS.into_iter().rev().flat_map(pair).collect();
    cases.extend(["zoom", "eyes", "loss"].map(|part| Case::new(part, SOME, true)));
    let progress = Progress::new("events", cases.len() as u64);
    let rows = in_parallel(&cases, |case| {
        let row = measure(case, options);
        progress.tick(1);
        row
    });
    progress.finish();
    let mut rows = rows.into_iter().collect::<Result<Vec<Row>, _>>()?;
    for at in 0..rows.len() {
        rows[at].saved = saved(&rows, &rows[at]);
    }
    describe::finish(&rows, options)
}

/// Event bytes of the same players without the filter, divided by those with it.
fn saved(rows: &[Row], row: &Row) -> Option<f64> {
    let same = |it: &&Row| !it.filtered && (it.part, it.players) == (row.part, row.players);
    let all = rows.iter().find(same).filter(|_| row.filtered)?;
    Some(all.event_bytes_s / row.event_bytes_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_to_a_segment_is_that_to_its_nearest_point() {
        let segment = [[0.0, 0.0], [10.0, 0.0]];
        for (point, expected) in [
            ([5.0, 3.0], 3.0),
            ([-3.0, 4.0], 5.0),
            ([13.0, -4.0], 5.0),
            ([10.0, 2.0], 2.0),
            ([4.0, 0.0], 0.0),
        ] {
            assert!((distance(point, segment) - expected).abs() < 1e-12, "{point:?}");
        }
        assert_eq!(distance([3.0, 4.0], [[0.0, 0.0]; 2]), 5.0);
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..200 {
            let [point, from, to] = [(); 3].map(|()| [(); 2].map(|()| 100.0 * rng.f64()));
            let along =
                |share: f64| [0, 1].map(|axis| from[axis] + share * (to[axis] - from[axis]));
            let to_point = |at: [f64; 2]| (at[0] - point[0]).hypot(at[1] - point[1]);
            let sampled = (0..=10_000).map(|nth| to_point(along(f64::from(nth) / 1e4)));
            let nearest = sampled.fold(f64::INFINITY, f64::min);
            let computed = distance(point, [from, to]);
            assert!(
                computed <= nearest + 1e-9 && computed > nearest - 0.01,
                "{computed} {nearest}"
            );
        }
    }

    #[test]
    fn a_zoom_reaches_twice_as_far_ahead_and_no_farther_to_the_sides() {
        let case = Case::new("zoom", 2, true);
        let stand = Stand { pos: [100.0, 100.0], yaw: TAU / 4.0 };
        let step = |x: f32, y: f32| Noise {
            number: 0,
            what: What::Step,
            at: [x, y].map(|it| (it * STEPS) as i16),
            to: None,
        };
        // The eye looks along +y; steps carry 20 units.
        for (x, y, normal, zoomed) in [
            (100.0, 135.0, false, true),
            (100.0, 141.0, false, false),
            (100.0, 65.0, false, false),
            (108.0, 130.0, false, true),
            (112.0, 130.0, false, false),
            (81.0, 100.0, true, true),
        ] {
            let noticed = [0, 1].map(|player| depth(&case, player, stand, &step(x, y)) > 0.0);
            assert_eq!(noticed, [normal, zoomed], "{x} {y}");
        }
    }

    #[test]
    fn the_audit_finds_missing_superfluous_duplicate_and_misordered_events() {
        let case = Case::new("perfect", 16, true);
        let script = Arc::new(Script::new(16, 3, 5));
        let received = play(&case, &script, 5).unwrap().received;
        let clean = audit(&case, &script, &received);
        assert!(clean.due > 300 && clean.reliable_due > 10, "{clean:?}");
        let wrong = |it: &Findings| [it.missing, it.superfluous, it.twice, it.out_of_order];
        assert_eq!(wrong(&clean), [0; 4]);
        let tampered = |change: &dyn Fn(&mut Vec<Noise>)| {
            let mut received = received.clone();
            received.iter_mut().for_each(|it| change(&mut it.noises));
            wrong(&audit(&case, &script, &received))
        };
        assert_eq!(tampered(&|it| it.truncate(it.len() - 1))[0], 16);
        assert_eq!(tampered(&|it| it.push(it[0]))[2], 16);
        let all: Vec<Noise> = script.noises.iter().flatten().map(|(_, noise)| *noise).collect();
        let everything = tampered(&|it| it.clone_from(&all));
        assert!(everything[1] > 1_000 && everything[0] == 0, "{everything:?}");
        assert!(tampered(&|it| it.reverse())[3] > 10);
    }

    #[test]
    fn zooms_and_second_eyes_receive_more_events_and_each_once() {
        let script = Arc::new(Script::new(16, 3, 5));
        let found = ["perfect", "zoom", "eyes"].map(|part| {
            let case = Case::new(part, 16, true);
            let found = audit(&case, &script, &play(&case, &script, 5).unwrap().received);
            assert_eq!([found.missing, found.superfluous, found.twice], [0; 3], "{part}");
            found.due
        });
        assert!(found[1] > found[0] && found[2] > found[1], "{found:?}");
    }
}
