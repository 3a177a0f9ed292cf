//! `foveate lab silac`: gossip among peers. The source's six experiments, with its figures beside ours.
//!
//! Bots walk on a map and act on what is in it. Each is a node of its own ([`Swarm`]). The caller provides the
//! movement, since the lab depends on no game.

mod choice;
mod describe;
mod findings;
mod swarm;
#[cfg(test)]
mod tests;

pub use findings::{Arrived, DistanceBin, SilacFindings};
pub use swarm::{SilacGame, Swarm};

use crate::SilacSettings;
use foveate_lab::experiments::{
    Done, Experiment, ExperimentError, LabRequest, RunOptions, in_parallel,
};
use foveate_lab::movement::Movement;
use foveate_lab::output::Progress;
use foveate_wire::Micros;
use serde::Serialize;

/// The experiment's name, and the protocol's name in rows.
const NAME: &str = "silac";
/// The side of the map.
const SIDE: f32 = 300.0;

/// Makes the movement of a number of avatars from a seed: twenty rounds a second, on a square map.
pub type Walkers<'a> = &'a (dyn Fn(u64, usize) -> Box<dyn Movement> + Sync);

/// Sizes of the games with the default fan-out.
const SIZES: [usize; 8] = [25, 50, 75, 100, 125, 150, 175, 200];
/// Fan-outs tried with [`NODES`].
const FAN_OUTS: [usize; 7] = [2, 3, 4, 5, 6, 7, 8];
/// The size of the source's games, where it states one.
const NODES: usize = 100;
const MEASURED: Micros = Micros(10_000_000);
/// Newcomers in each game. Each has one contact.
const NEWCOMERS: usize = 2;
/// Newcomers in the game of the source's size: some with one contact, some with [`CONTACTS`].
const MORE_NEWCOMERS: usize = 6;
const CONTACTS: usize = 8;
const DRAWS: u32 = 200_000;

const QUICK_SIZES: [usize; 3] = [10, 20, 30];
const QUICK_FAN_OUTS: [usize; 3] = [2, 3, 4];
const QUICK_NODES: usize = 20;
const QUICK_MEASURED: Micros = Micros(2_000_000);
const QUICK_DRAWS: u32 = 60_000;

/// One game's figures.
#[derive(Clone, Debug, Serialize)]
pub struct SilacRow {
    gossip: &'static str,
    nodes: usize,
    fanout: usize,
    bytes_s: f64,
    inc: f64,
    inc_share: f64,
    inc_noticeable_share: f64,
    inj: f64,
    lost_near: f64,
    delay_near_ms: f64,
    delay_near_noticeable_ms: f64,
    delay_far_ms: f64,
    join_all_s: Option<f64>,
}

impl SilacRow {
    /// The row of a game.
    pub fn of(game: &SilacGame, found: &SilacFindings) -> SilacRow {
        SilacRow {
            gossip: NAME,
            nodes: game.nodes,
            fanout: game.settings.fan_out,
            bytes_s: findings::mean(&found.bytes),
            inc: found.mean_inc(),
            inc_share: found.inc.share(),
            inc_noticeable_share: found.noticed.share(),
            inj: found.mean_inj(),
            lost_near: found.near().lost_share(),
            delay_near_ms: found.near().delay.mean(),
            delay_near_noticeable_ms: found.noticed_near.mean(),
            delay_far_ms: found.far().delay.mean(),
            join_all_s: found.join_all_s(),
        }
    }
}

/// Plays games and returns the measurements of each, in the same order.
fn measure(games: &[SilacGame], walkers: Walkers<'_>) -> Vec<SilacFindings> {
    let progress = Progress::new(NAME, games.iter().map(|game| game.nodes as u64).sum());
    let found = in_parallel(games, |game| {
        let count = game.nodes + game.newcomers.len();
        let swarm = Swarm::new(game.clone(), walkers(game.seed, count));
        let (found, _) = swarm.play();
        progress.tick(game.nodes as u64);
        found
    });
    progress.finish();
    found
}

/// Copies of a message if no node received it twice: there are three senders.
fn copies(fan_out: usize) -> usize {
    fan_out + fan_out.pow(2) + fan_out.pow(3)
}

/// Which games are played, and for which figure.
struct Plan {
    nodes: usize,
    sizes: Vec<usize>,
    fan_outs: Vec<usize>,
    /// Sizes, each with the fan-out that gives the same ratio of copies to size as the default does for [`NODES`].
    same_reach: Vec<(usize, usize)>,
    measured: Micros,
    seed: u64,
}

impl Plan {
    fn new(options: RunOptions) -> Plan {
        let (seed, default) = (options.seed, SilacSettings::default().fan_out);
        if options.quick {
            return Plan {
                nodes: QUICK_NODES,
                sizes: QUICK_SIZES.to_vec(),
                fan_outs: QUICK_FAN_OUTS.to_vec(),
                same_reach: vec![(10, 3), (QUICK_NODES, default)],
                measured: QUICK_MEASURED,
                seed,
            };
        }
        let size_for = |fan_out: usize| NODES * copies(fan_out) / copies(default);
        Plan {
            nodes: NODES,
            sizes: SIZES.to_vec(),
            fan_outs: FAN_OUTS.to_vec(),
            same_reach: (default - 2..=default + 1).map(|f| (size_for(f), f)).collect(),
            measured: MEASURED,
            seed,
        }
    }

    fn game(&self, nodes: usize, fan_out: usize) -> SilacGame {
        let settings = SilacSettings { fan_out, ..SilacSettings::default() };
        let newcomers = if (nodes, fan_out) == (self.nodes, SilacSettings::default().fan_out) {
            [vec![1; MORE_NEWCOMERS], vec![CONTACTS; MORE_NEWCOMERS / 2]].concat()
        } else {
            vec![1; NEWCOMERS]
        };
        SilacGame { nodes, settings, measured: self.measured, newcomers, seed: self.seed }
    }

    /// Every game once, the largest first, so that all cores finish at about the same time.
    fn games(&self) -> Vec<SilacGame> {
        let default = SilacSettings::default().fan_out;
        let mut pairs: Vec<(usize, usize)> = self.sizes.iter().map(|n| (*n, default)).collect();
        pairs.extend(self.fan_outs.iter().map(|fan_out| (self.nodes, *fan_out)));
        pairs.extend([(self.nodes, default)].iter().chain(&self.same_reach));
        pairs.sort_by_key(|(nodes, fan_out)| std::cmp::Reverse((nodes * copies(*fan_out), *nodes)));
        pairs.dedup();
        pairs.into_iter().map(|(nodes, fan_out)| self.game(nodes, fan_out)).collect()
    }
}

/// `foveate lab silac`.
pub struct SilacExperiment;

impl Experiment for SilacExperiment {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Silac's gossip among peers: its source's six experiments beside ours, over sizes and fan-outs"
    }

    fn run(&self, request: &LabRequest<'_>) -> Result<Done, ExperimentError> {
        lab(&|seed, count| request.host.walkers(seed, count, SIDE), request.options)
    }
}

/// Runs all six experiments.
fn lab(walkers: Walkers<'_>, options: RunOptions) -> Result<Done, ExperimentError> {
    let plan = Plan::new(options);
    let draws = if options.quick { QUICK_DRAWS } else { DRAWS };
    let choices = choice::choices(draws, options.seed);
    let games = plan.games();
    let found = measure(&games, walkers);
    let played = describe::Played { plan: &plan, games: &games, found: &found, choices: &choices };
    played.finish(options)
}
