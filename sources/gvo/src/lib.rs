//! GVO's protocol, for comparison, and `foveate lab motion`: GVO's measured scenarios in virtual time, by its protocol
//! and by ours, with both kinds of movement: steered directly, and sent to a target.
//!
//! A script says which players are present and where every object is (`script`, `field`, `walk`). It is played by the
//! source's messages (`gvo`, `messages`, `squeeze`, used for comparisons only) and by the engine that ships (`ours`). A
//! meter counts as the source's did (`meter`).

mod describe;
mod field;
mod gvo;
mod messages;
mod meter;
mod ours;
mod rows;
mod script;
mod squeeze;
#[cfg(test)]
mod tests;
mod verdicts;
mod walk;

use foveate_lab::experiments::{
    Done, Experiment, ExperimentError, LabRequest, RunOptions, in_parallel,
};
use foveate_lab::output::{ExperimentResult, Progress};
use foveate_wire::{Bytes, Micros};
use gvo::Optimisations;
use meter::TrafficMeter;
use ours::{Exact, Ours, RunResult};
use script::{Scenario, Script};
use squeeze::Squeeze;

/// Bytes that one observer may be sent in 100 ms while it learns of existing objects.
const JOIN_BUDGET: Bytes = Bytes(600);

/// How nodes are connected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Topology {
    /// Node 0 is the server; player p is node p + 1.
    Server,
    /// Player p is node p; there is no server.
    Peers,
}

impl Topology {
    const ALL: [Topology; 2] = [Topology::Server, Topology::Peers];

    fn name(self) -> &'static str {
        match self {
            Topology::Server => "server",
            Topology::Peers => "peers",
        }
    }

    fn nodes(self, players: usize) -> usize {
        self.node(players)
    }

    fn node(self, player: usize) -> usize {
        player + usize::from(self == Topology::Server)
    }

    fn player(self, node: usize) -> Option<usize> {
        node.checked_sub(usize::from(self == Topology::Server))
    }

    fn node_name(self, node: usize) -> String {
        match self {
            Topology::Server if node == 0 => "server".to_owned(),
            Topology::Server => format!("client {node}"),
            Topology::Peers => format!("peer {}", node + 1),
        }
    }
}

/// The protocol, with its optimisations.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Protocol {
    Source(Optimisations),
    Ours(Ours),
}

impl From<ours::PlayError> for ExperimentError {
    fn from(error: ours::PlayError) -> ExperimentError {
        match error {
            ours::PlayError::Schema(error) => error.into(),
            ours::PlayError::View(error) => error.into(),
        }
    }
}

/// A run to play: a scenario, a topology, and a named variant.
struct Case {
    scenario: Scenario,
    topology: Topology,
    variant: &'static str,
    protocol: Protocol,
}

/// A run's result.
struct Played {
    scenario: Scenario,
    topology: Topology,
    variant: &'static str,
    seconds: f64,
    meter: TrafficMeter,
    /// First states in the order of arrival: time, node, thing.
    learned: Vec<(Micros, usize, usize)>,
    /// Results that only our engine has.
    ran: Option<RunResult>,
}

/// The name of the source's protocol without optimisations: a position in every frame.
const PLAIN: &str = "source";
/// The name of ours with everything on.
const FOVEATE: &str = "foveate";
/// A newcomer among peers is told of the peers near its spawn point.
const NEAR_SOURCE: &str = "source, near spawn";
const NEAR_OURS: &str = "foveate, near spawn";
/// Increments on a lossy network, where what is sent reliably must be repeated.
const LOSSY: &str = "source + 4-bit increments, 5 % loss";

/// The source's protocol with one or two optimisations on.
fn optimisations() -> Vec<(&'static str, Optimisations)> {
    let none = Optimisations::default();
    let (rle, huffman) = (Some(Squeeze::RunLengths), Some(Squeeze::Huffman));
    vec![
        (PLAIN, none),
        ("source + dead reckoning", Optimisations { dead_reckoning: true, ..none }),
        ("source + 8-bit increments", Optimisations { increments: Some(8), ..none }),
        ("source + 4-bit increments", Optimisations { increments: Some(4), ..none }),
        ("source + aggregation", Optimisations { aggregation: true, ..none }),
        ("source + RLE", Optimisations { squeeze: rle, ..none }),
        ("source + Huffman", Optimisations { squeeze: huffman, ..none }),
        ("source + aggregation + RLE", Optimisations { squeeze: rle, aggregation: true, ..none }),
        (
            "source + aggregation + Huffman",
            Optimisations { squeeze: huffman, aggregation: true, ..none },
        ),
        ("source + zoning", Optimisations { zoning: true, ..none }),
        ("source + actions", Optimisations { actions: true, ..none }),
        (NEAR_SOURCE, Optimisations { near_spawn: true, ..none }),
        (LOSSY, Optimisations { increments: Some(4), loss: 5, ..none }),
    ]
}

/// Our protocol, with one thing off or different.
fn variants() -> Vec<(&'static str, Ours)> {
    let all = Ours::default();
    vec![
        (FOVEATE, all),
        ("foveate, no prediction", Ours { predicts: false, ..all }),
        ("foveate, a packet each", Ours { apart: true, ..all }),
        ("foveate, graded view", Ours { exact: Exact::Graded, ..all }),
        ("foveate, zoned", Ours { exact: Exact::Zoned, ..all }),
        ("foveate, actions", Ours { actions: true, ..all }),
        ("foveate, join budget", Ours { budget: Some(JOIN_BUDGET), ..all }),
        (NEAR_OURS, Ours { near_spawn: true, ..all }),
    ]
}

/// Whether a variant is played in a scenario.
fn wanted(scenario: Scenario, topology: Topology, variant: &str) -> bool {
    if scenario == Scenario::Join16 {
        return topology == Topology::Peers
            && [PLAIN, NEAR_SOURCE, FOVEATE, NEAR_OURS].contains(&variant);
    }
    let wanted: &[&str] = match scenario {
        Scenario::Join2 | Scenario::Join4 | Scenario::Join16 | Scenario::JoinWorld => {
            &[PLAIN, FOVEATE, "foveate, join budget"]
        }
        Scenario::Newcomer => &[PLAIN, FOVEATE],
        Scenario::Moving3 => {
            return !["source + zoning", "source + actions", "foveate, zoned", "foveate, actions"]
                .contains(&variant)
                && ![LOSSY, NEAR_SOURCE, NEAR_OURS, "foveate, join budget"].contains(&variant);
        }
        Scenario::Straight | Scenario::Restless => &[
            PLAIN,
            "source + dead reckoning",
            "source + 8-bit increments",
            "source + 4-bit increments",
            LOSSY,
            FOVEATE,
            "foveate, no prediction",
        ],
        Scenario::Zones => &[PLAIN, "source + zoning", FOVEATE, "foveate, zoned"],
        Scenario::Targets | Scenario::Collision => &[
            PLAIN,
            "source + dead reckoning",
            "source + actions",
            FOVEATE,
            "foveate, graded view",
            "foveate, actions",
        ],
    };
    wanted.contains(&variant)
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for scenario in Scenario::ALL {
        for topology in Topology::ALL {
            // Without a server no node has the world's objects, which no player owns.
            if scenario == Scenario::JoinWorld && topology == Topology::Peers {
                continue;
            }
            let source = optimisations()
                .into_iter()
                .map(|(name, optimisations)| (name, Protocol::Source(optimisations)));
            let ours = variants().into_iter().map(|(name, ours)| (name, Protocol::Ours(ours)));
            for (variant, protocol) in source.chain(ours) {
                if wanted(scenario, topology, variant) {
                    cases.push(Case { scenario, topology, variant, protocol });
                }
            }
        }
    }
    cases
}

fn play(case: &Case, options: RunOptions) -> Result<Played, ExperimentError> {
    let Case { scenario, topology, variant, protocol } = *case;
    let script = Script::new(scenario, options.seed, options.quick);
    let seconds = (script::FRAME * script.frames as u32).as_secs();
    let (meter, learned, ran) = match protocol {
        Protocol::Source(optimisations) => {
            let run = gvo::play(&script, topology, optimisations, options.seed);
            (run.meter, run.learned, None)
        }
        Protocol::Ours(ours) => {
            let ran = ours::play(&script, topology, ours, options.seed)?;
            let when = |frame: usize| script::FRAME * frame as u32;
            let learned = ran.appeared.iter().map(|(frame, to, id)| (when(*frame), *to, *id));
            (ran.meter.clone(), learned.collect(), Some(ran))
        }
    };
    Ok(Played { scenario, topology, variant, seconds, meter, learned, ran })
}

/// The experiments of this crate.
pub const ALL: &[&dyn Experiment] = &[&MotionExperiment];

pub struct MotionExperiment;

impl Experiment for MotionExperiment {
    fn name(&self) -> &'static str {
        "motion"
    }

    fn about(&self) -> &'static str {
        "GVO's scenarios by its protocol and by ours: traffic per node, actions against positions"
    }

    fn run(&self, request: &LabRequest<'_>) -> Result<Done, ExperimentError> {
        lab(request.options)
    }
}

/// Plays all runs.
fn lab(options: RunOptions) -> Result<Done, ExperimentError> {
    let cases = cases();
    let progress = Progress::new("motion", cases.len() as u64);
    let played = in_parallel(&cases, |case| {
        let played = play(case, options);
        progress.tick(1);
        played
    });
    progress.finish();
    let played = played.into_iter().collect::<Result<Vec<_>, _>>()?;
    let found = rows::MotionFindings::of(&played, options);
    let mut outcome = ExperimentResult::new("motion", options.seed);
    found.push(&mut outcome)?;
    verdicts::judge(&mut outcome, &found);
    Ok(describe::done(outcome, &played, &found))
}
