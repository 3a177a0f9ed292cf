//! The results as rows for programs.

use super::messages::samples;
use super::meter::{Side, Split, Stream, TICK};
use super::script::{FRAME, Scenario, Script};
use super::squeeze::Squeeze;
use super::{FOVEATE, JOIN_BUDGET, NEAR_OURS, NEAR_SOURCE, PLAIN, Played, RunOptions, Topology};
use foveate_lab::output::{ExperimentResult, OutputError};
use foveate_wire::Micros;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// One node's traffic in one run.
#[derive(Clone, Debug, Serialize)]
pub struct NodeTraffic {
    part: &'static str,
    pub scenario: &'static str,
    pub topology: &'static str,
    pub variant: &'static str,
    pub node: String,
    pub seconds: f64,
    pub up_bytes: u64,
    pub down_bytes: u64,
    pub up_wire_bytes: u64,
    pub down_wire_bytes: u64,
    pub up_packets: u64,
    pub down_packets: u64,
    pub up_reliable_bytes: u64,
    pub up_resent_bytes: u64,
    pub up_peak_100ms: u64,
    pub down_peak_100ms: u64,
    pub up_by_stream: BTreeMap<&'static str, u64>,
    pub down_by_stream: BTreeMap<&'static str, u64>,
    pub up_100ms: Vec<u64>,
    pub down_100ms: Vec<u64>,
}

/// The gain of one optimisation.
#[derive(Clone, Debug, Serialize)]
pub struct Factor {
    part: &'static str,
    pub scenario: &'static str,
    pub topology: &'static str,
    pub protocol: &'static str,
    pub optimisation: &'static str,
    pub measured: &'static str,
    pub off: f64,
    pub on: f64,
    pub factor: f64,
    pub paper_factor: Option<f64>,
}

/// Orders compared with positions.
#[derive(Clone, Debug, Serialize)]
pub struct Share {
    part: &'static str,
    pub scenario: &'static str,
    pub topology: &'static str,
    pub variant: &'static str,
    pub against: &'static str,
    pub bytes: u64,
    pub against_bytes: u64,
    pub share: f64,
    pub err_mean: Option<f64>,
    pub err_max: Option<f64>,
    pub err_end: Option<f64>,
    pub positions_after_collision: Option<u64>,
}

/// How a newcomer learns of existing objects.
#[derive(Clone, Debug, Serialize)]
pub struct Join {
    part: &'static str,
    pub scenario: &'static str,
    pub topology: &'static str,
    pub variant: &'static str,
    pub node: String,
    pub full_state_bytes: u64,
    pub peak_100ms: u64,
    pub budget_100ms: Option<u32>,
    /// Payload bytes that the newcomer sent.
    pub up_bytes: u64,
    /// Payload bytes that all nodes sent since it joined.
    pub all_bytes: u64,
    /// Objects that it should learn of.
    pub expected_states: usize,
    /// Objects that it learned of.
    pub first_states: usize,
    pub complete_after_s: f64,
    pub nearest_first: Option<f64>,
}

/// General-purpose compression of packets.
#[derive(Clone, Debug, Serialize)]
pub struct Pressed {
    part: &'static str,
    pub packet: &'static str,
    pub packets: &'static str,
    pub bytes: usize,
    pub rle_bytes: usize,
    pub huffman_bytes: usize,
    /// Whether both expand to the packet again.
    pub restored: bool,
    pub paper_bytes: Option<usize>,
    pub paper_rle_bytes: Option<usize>,
    pub paper_huffman_bytes: Option<usize>,
}

/// A single figure of the source, compared with ours.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    part: &'static str,
    pub scenario: &'static str,
    pub topology: &'static str,
    pub variant: &'static str,
    pub what: &'static str,
    pub value: f64,
    pub paper_value: f64,
}

/// All rows.
pub struct MotionFindings {
    pub traffic: Vec<NodeTraffic>,
    pub factors: Vec<Factor>,
    pub shares: Vec<Share>,
    pub joins: Vec<Join>,
    pub pressed: Vec<Pressed>,
    pub checks: Vec<Check>,
}

impl MotionFindings {
    pub fn of(played: &[Played], options: RunOptions) -> MotionFindings {
        let traffic = played.iter().flat_map(traffic).collect();
        let runs = Runs(played);
        MotionFindings {
            traffic,
            factors: runs.factors(),
            shares: runs.shares(),
            joins: played.iter().flat_map(|run| joins(run, options)).collect(),
            pressed: pressed(),
            checks: runs.checks(options),
        }
    }

    pub fn push(&self, outcome: &mut ExperimentResult) -> Result<(), OutputError> {
        self.shares.iter().try_for_each(|row| outcome.push(row))?;
        self.factors.iter().try_for_each(|row| outcome.push(row))?;
        self.checks.iter().try_for_each(|row| outcome.push(row))?;
        self.joins.iter().try_for_each(|row| outcome.push(row))?;
        self.pressed.iter().try_for_each(|row| outcome.push(row))?;
        self.traffic.iter().try_for_each(|row| outcome.push(row))
    }
}

fn by_stream(split: Split) -> BTreeMap<&'static str, u64> {
    Stream::ALL.iter().map(|stream| (stream.name(), split[*stream as usize])).collect()
}

fn traffic(run: &Played) -> Vec<NodeTraffic> {
    let ticks = (run.seconds * 1e6 / TICK.0 as f64).ceil() as usize;
    let padded = |side: &Side| {
        let mut all: Vec<u64> = side.per_tick().collect();
        all.resize(ticks.max(all.len()), 0);
        all
    };
    let row = |(node, flow): (usize, &super::meter::Flow)| NodeTraffic {
        part: "traffic",
        scenario: run.scenario.name(),
        topology: run.topology.name(),
        variant: run.variant,
        node: run.topology.node_name(node),
        seconds: run.seconds,
        up_bytes: flow.up.bytes(),
        down_bytes: flow.down.bytes(),
        up_wire_bytes: flow.up.wire,
        down_wire_bytes: flow.down.wire,
        up_packets: flow.up.packets,
        down_packets: flow.down.packets,
        up_reliable_bytes: flow.up.reliable,
        up_resent_bytes: flow.up.resent,
        up_peak_100ms: flow.up.peak(),
        down_peak_100ms: flow.down.peak(),
        up_by_stream: by_stream(flow.up.by_stream()),
        down_by_stream: by_stream(flow.down.by_stream()),
        up_100ms: padded(&flow.up),
        down_100ms: padded(&flow.down),
    };
    run.meter.nodes.iter().enumerate().map(row).collect()
}

/// The traffic that a factor is measured by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The server's upload; without a server, all nodes' upload.
    Up,
    /// The same with the carriers' headers.
    UpWire,
    /// All nodes' upload with the carriers' headers, with or without a server.
    AllWire,
    /// The server's download.
    Down,
}

/// A comparison of two variants.
struct Pair {
    optimisation: &'static str,
    /// The variants without and with it.
    off: &'static str,
    on: &'static str,
    by: By,
    /// The source's figure.
    paper_factor: Option<f64>,
}

const fn pair(
    optimisation: &'static str,
    off: &'static str,
    on: &'static str,
    by: By,
    paper_factor: Option<f64>,
) -> Pair {
    Pair { optimisation, off, on, by, paper_factor }
}

/// The source's example: 20 packets of 100 B become one of 100 B and 19 of 30 B.
const PAPER_INCREMENTS: f64 = 2_000.0 / (100.0 + 19.0 * 30.0);

/// Both predict, with the same bound.
pub const BESIDE: &str = "ours beside its dead reckoning";

const SOURCE_PAIRS: [Pair; 18] = [
    pair("dead reckoning", PLAIN, "source + dead reckoning", By::Up, None),
    pair("dead reckoning", PLAIN, "source + dead reckoning", By::Down, Some(1.0)),
    pair("8-bit increments", PLAIN, "source + 8-bit increments", By::Up, Some(PAPER_INCREMENTS)),
    pair("8-bit increments", PLAIN, "source + 8-bit increments", By::UpWire, None),
    pair("4-bit increments", PLAIN, "source + 4-bit increments", By::Up, None),
    pair("zoning", PLAIN, "source + zoning", By::Up, None),
    pair("zoning", PLAIN, "source + zoning", By::Down, Some(1.0)),
    pair("aggregation", PLAIN, "source + aggregation", By::UpWire, None),
    pair("RLE", PLAIN, "source + RLE", By::UpWire, None),
    pair("Huffman", PLAIN, "source + Huffman", By::UpWire, None),
    pair("aggregation + RLE", PLAIN, "source + aggregation + RLE", By::UpWire, None),
    pair("aggregation + Huffman", PLAIN, "source + aggregation + Huffman", By::UpWire, None),
    pair("actions", PLAIN, "source + actions", By::Up, None),
    pair("all of ours", PLAIN, FOVEATE, By::Up, None),
    pair("all of ours", PLAIN, FOVEATE, By::UpWire, None),
    pair(BESIDE, "source + dead reckoning", FOVEATE, By::Up, None),
    pair(BESIDE, "source + dead reckoning", FOVEATE, By::UpWire, None),
    pair(BESIDE, "source + dead reckoning", FOVEATE, By::AllWire, None),
];

const OUR_PAIRS: [Pair; 5] = [
    pair("dead reckoning", "foveate, no prediction", FOVEATE, By::Up, None),
    pair("zoning", FOVEATE, "foveate, zoned", By::Up, None),
    pair("aggregation", "foveate, a packet each", FOVEATE, By::UpWire, None),
    pair("graded view", FOVEATE, "foveate, graded view", By::Up, None),
    pair("actions", FOVEATE, "foveate, actions", By::Up, None),
];

struct Runs<'a>(&'a [Played]);

impl Runs<'_> {
    fn get(&self, scenario: Scenario, topology: Topology, variant: &str) -> Option<&Played> {
        let is = |run: &&Played| {
            (run.scenario, run.topology, run.variant) == (scenario, topology, variant)
        };
        self.0.iter().find(is)
    }

    fn factors(&self) -> Vec<Factor> {
        let mut factors = Vec::new();
        for scenario in Scenario::ALL {
            for topology in Topology::ALL {
                for (protocol, pairs) in [("source", &SOURCE_PAIRS[..]), (FOVEATE, &OUR_PAIRS[..])]
                {
                    let found = pairs
                        .iter()
                        .filter_map(|pair| self.factor(scenario, topology, protocol, pair));
                    factors.extend(found);
                }
                factors.extend(self.coding(scenario, topology));
            }
        }
        factors
    }

    fn factor(
        &self,
        scenario: Scenario,
        topology: Topology,
        protocol: &'static str,
        pair: &Pair,
    ) -> Option<Factor> {
        let Pair { optimisation, off, on, by, paper_factor } = *pair;
        let (measured, of): (_, fn(&Played) -> u64) = match (by, topology) {
            (By::Up, Topology::Server) => ("server_up", |run| run.meter.nodes[0].up.bytes()),
            (By::UpWire, Topology::Server) => ("server_up_wire", |run| run.meter.nodes[0].up.wire),
            (By::Down, Topology::Server) => ("server_down", |run| run.meter.nodes[0].down.bytes()),
            (By::Up, Topology::Peers) => {
                ("all_up", |run| run.meter.nodes.iter().map(|flow| flow.up.bytes()).sum())
            }
            (By::AllWire, Topology::Peers) => return None,
            (By::UpWire, Topology::Peers) | (By::AllWire, Topology::Server) => {
                ("all_up_wire", |run| run.meter.nodes.iter().map(|flow| flow.up.wire).sum())
            }
            (By::Down, Topology::Peers) => return None,
        };
        let off = of(self.get(scenario, topology, off)?) as f64;
        let on = of(self.get(scenario, topology, on)?) as f64;
        let (scenario, topology) = (scenario.name(), topology.name());
        let (part, factor) = ("factor", off / on.max(1.0));
        Some(Factor {
            part,
            scenario,
            topology,
            protocol,
            optimisation,
            measured,
            off,
            on,
            factor,
            paper_factor,
        })
    }

    /// Our counterpart of increments cannot be turned off, so this compares a whole state with an update, in bits.
    fn coding(&self, scenario: Scenario, topology: Topology) -> Option<Factor> {
        let counters = &self.get(scenario, topology, FOVEATE)?.ran.as_ref()?.counters;
        if counters.updates == 0 || counters.full == 0 {
            return None;
        }
        let off = counters.bits.full / counters.full as f64;
        let on = counters.bits.state / counters.updates as f64;
        Some(Factor {
            part: "factor",
            scenario: scenario.name(),
            topology: topology.name(),
            protocol: FOVEATE,
            optimisation: "increments",
            measured: "bits_per_record",
            off,
            on,
            factor: off / on,
            paper_factor: None,
        })
    }

    /// All traffic but the list of players and the first states: the cost of movement, with acknowledgements.
    fn shares(&self) -> Vec<Share> {
        let mut shares = Vec::new();
        for scenario in [Scenario::Targets, Scenario::Collision] {
            for topology in Topology::ALL {
                for variant in ["foveate, actions", "source + actions", FOVEATE] {
                    let against: &[&'static str] = match variant {
                        FOVEATE => &[PLAIN],
                        _ => &[PLAIN, "source + dead reckoning", FOVEATE, "foveate, graded view"],
                    };
                    shares.extend(against.iter().filter_map(|against| {
                        let run = self.get(scenario, topology, variant)?;
                        Some(share(run, self.get(scenario, topology, against)?))
                    }));
                }
            }
        }
        shares
    }

    fn checks(&self, options: RunOptions) -> Vec<Check> {
        let mut checks = Vec::new();
        for topology in Topology::ALL {
            let mover = topology.node(0);
            if let Some(run) = self.get(Scenario::Straight, topology, PLAIN) {
                let up = &run.meter.nodes[mover].up;
                let moving = Stream::State as usize;
                let ticks = up.ticks.iter().filter(|tick| tick[moving] > 0).count().max(1) as f64;
                let bytes = up.by_stream()[moving] as f64;
                let packets = bytes / super::messages::POSITION as f64;
                let wire = bytes + 42.0 * packets;
                checks.push(check(run, "one moving object, B per 100 ms", bytes / ticks, 250.0));
                checks.push(check(run, "the same with headers", wire / ticks, 370.0));
            }
            for variant in [PLAIN, FOVEATE] {
                let Some(run) = self.get(Scenario::Newcomer, topology, variant) else { continue };
                let script = Script::new(Scenario::Newcomer, options.seed, options.quick);
                let stay = &script.players[2];
                let during = rate(run, mover, stay.start..stay.end);
                let before = rate(run, mover, 0..stay.start);
                let paper = if topology == Topology::Server { 1.0 } else { 2.0 };
                let what = "a mover's upload while a third is there, times before";
                checks.push(check(run, what, during / before, paper));
            }
        }
        checks
    }
}

/// State bytes per tick that a node sends within some frames, without the first ticks.
fn rate(run: &Played, node: usize, frames: std::ops::Range<usize>) -> f64 {
    let tick = |frame: usize| (FRAME.0 * frame as u64 / TICK.0) as usize;
    let (from, to) = (tick(frames.start) + 5, tick(frames.end));
    let state = |tick: &Split| tick[Stream::State as usize];
    let sent = run.meter.nodes[node].up.ticks.iter().take(to).skip(from).map(state).sum::<u64>();
    sent as f64 / (to - from).max(1) as f64
}

fn check(run: &Played, what: &'static str, value: f64, paper_value: f64) -> Check {
    let Played { scenario, topology, variant, .. } = *run;
    let (part, scenario, topology) = ("check", scenario.name(), topology.name());
    Check { part, scenario, topology, variant, what, value, paper_value }
}

/// Bytes of movement that all nodes sent: positions and orders; with ours also acknowledgements and the list of
/// players.
fn movement(run: &Played) -> u64 {
    let streams = [Stream::State, Stream::Action, Stream::Event];
    let acks = if run.ran.is_some() { run.meter.sent_of(&[Stream::Control]) } else { 0 };
    run.meter.sent_of(&streams) + acks
}

fn share(run: &Played, against: &Played) -> Share {
    let (bytes, against_bytes) = (movement(run), movement(against));
    let error = run.ran.as_ref().map(|ran| ran.error);
    let ordered = run.ran.as_ref().filter(|_| run.variant == "foveate, actions");
    Share {
        part: "share",
        scenario: run.scenario.name(),
        topology: run.topology.name(),
        variant: run.variant,
        against: against.variant,
        bytes,
        against_bytes,
        share: bytes as f64 / against_bytes.max(1) as f64,
        err_mean: error.map(|error| error.mean()),
        err_max: error.map(|error| error.max),
        err_end: error.map(|error| error.last),
        positions_after_collision: ordered.map(|ran| ran.idle_positions),
    }
}

/// How the last player joins, in the scenarios about joining.
fn joins(run: &Played, options: RunOptions) -> Option<Join> {
    let about = [Scenario::Join2, Scenario::Join4, Scenario::Join16, Scenario::JoinWorld];
    if !about.contains(&run.scenario) {
        return None;
    }
    let script = Script::new(run.scenario, options.seed, options.quick);
    let player = script.players.len() - 1;
    let node = run.topology.node(player);
    let flow = &run.meter.nodes[node];
    let start = script.players[player].start;
    let came = FRAME * start as u32;
    let near = [NEAR_SOURCE, NEAR_OURS].contains(&run.variant);
    let told_of = |thing: &usize| match script.things[*thing].owner {
        Some(owner) => owner != player && (!near || script.near(player, owner, start)),
        None => true,
    };
    let expected: BTreeSet<usize> = (0..script.things.len()).filter(told_of).collect();
    let (mut learned, mut arrived, mut last) = (BTreeSet::new(), Vec::new(), came);
    for (when, _, thing) in run.learned.iter().filter(|(_, to, _)| *to == node) {
        if script.things[*thing].owner != Some(player) && learned.insert(*thing) {
            arrived.push(((when.0 / FRAME.0) as usize, *thing));
            last = last.max(*when);
        }
    }
    // One sender has one order of sending; that of several peers cannot be compared.
    let ours = run.ran.is_some() && run.topology == Topology::Server;
    let from = (came.0 / TICK.0) as usize;
    let sent = |flow: &super::meter::Flow| flow.up.per_tick().skip(from).sum::<u64>();
    Some(Join {
        part: "join",
        scenario: run.scenario.name(),
        topology: run.topology.name(),
        variant: run.variant,
        node: run.topology.node_name(node),
        full_state_bytes: flow.down.by_stream()[Stream::FullState as usize],
        peak_100ms: flow.down.peak(),
        budget_100ms: run.variant.ends_with("budget").then_some(JOIN_BUDGET.0),
        up_bytes: flow.up.bytes(),
        all_bytes: run.meter.nodes.iter().map(sent).sum(),
        expected_states: expected.len(),
        first_states: learned.intersection(&expected).count(),
        complete_after_s: Micros(last.0 - came.0).as_secs(),
        nearest_first: if ours { nearest_first(&script, player, &arrived) } else { None },
    })
}

/// Of all pairs of first states that arrived in different rounds, the share in which the nearer object came first.
pub fn nearest_first(script: &Script, player: usize, arrived: &[(usize, usize)]) -> Option<f64> {
    let frame = script.players[player].start;
    let eyes: Vec<_> = script.of(player).filter_map(|thing| script.pose(thing, frame)).collect();
    let distance = |thing: usize| {
        let at = script.pose(thing, frame)?.pos;
        let far = |eye: &foveate_lab::movement::AvatarPose| {
            (0..3).map(|i| (at[i] - eye.pos[i]).powi(2)).sum::<f32>().sqrt()
        };
        eyes.iter().map(far).min_by(f32::total_cmp)
    };
    let placed: Vec<(usize, f32)> =
        arrived.iter().filter_map(|(frame, thing)| Some((*frame, distance(*thing)?))).collect();
    let (mut right, mut all) = (0u64, 0u64);
    for (at, (frame, far)) in placed.iter().enumerate() {
        for (later, farther) in placed[at + 1..].iter().filter(|(later, _)| later > frame) {
            debug_assert!(later > frame);
            // Places are steps of 1/64 unit.
            right += u64::from(farther + 1.0 / 32.0 >= *far);
            all += 1;
        }
    }
    (all > 0).then(|| right as f64 / all as f64)
}

/// The source's table: packet; bytes of one packet before, with RLE and with Huffman; of ten equal ones with RLE and
/// with Huffman.
const PAPER: [(&str, [usize; 3], [usize; 2]); 8] = [
    ("identify", [13, 11, 26], [95, 58]),
    ("hello", [41, 53, 99], [188, 189]),
    ("player list", [85, 99, 149], [263, 301]),
    ("full state", [252, 219, 263], [557, 657]),
    ("selection", [11, 14, 33], [123, 75]),
    ("position", [84, 66, 115], [254, 284]),
    ("action", [79, 86, 92], [254, 246]),
    ("zone change", [21, 20, 35], [138, 87]),
];

fn pressed() -> Vec<Pressed> {
    let mut rows = Vec::new();
    let messages = samples(0);
    for ((packet, one, ten), (_, bytes)) in PAPER.iter().zip(&messages) {
        let paper = Some([one[0], one[1], one[2]]);
        rows.push(press(packet, "one", bytes, paper));
        let paper = Some([10 * one[0], ten[0], ten[1]]);
        rows.push(press(packet, "ten equal, in a row", &bytes.repeat(10), paper));
        let column = |byte: &u8| std::iter::repeat_n(*byte, 10);
        let columns: Vec<u8> = bytes.iter().flat_map(column).collect();
        rows.push(press(packet, "ten equal, byte by byte", &columns, paper));
    }
    // One of each, and a second position and action.
    let again = samples(5).into_iter().filter(|(name, _)| ["position", "action"].contains(name));
    let all = messages.into_iter().chain(again).flat_map(|(_, bytes)| bytes).collect::<Vec<u8>>();
    rows.push(press("all", "ten different, in a row", &all, Some([750, 516, 795])));
    rows
}

fn press(
    packet: &'static str,
    packets: &'static str,
    bytes: &[u8],
    paper: Option<[usize; 3]>,
) -> Pressed {
    let [rle, huffman] = [Squeeze::RunLengths, Squeeze::Huffman].map(|squeeze| {
        let pressed = squeeze.press(bytes).unwrap_or_default();
        (pressed.len(), squeeze.expand(&pressed).as_deref() == Some(bytes))
    });
    Pressed {
        part: "compression",
        packet,
        packets,
        bytes: bytes.len(),
        rle_bytes: rle.0,
        huffman_bytes: huffman.0,
        restored: rle.1 && huffman.1,
        paper_bytes: paper.map(|paper| paper[0]),
        paper_rle_bytes: paper.map(|paper| paper[1]),
        paper_huffman_bytes: paper.map(|paper| paper[2]),
    }
}
