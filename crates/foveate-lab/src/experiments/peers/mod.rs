//! `foveate lab peers`: graded gossip among many peers, peers that cheat, and any mix of failures.
//!
//! Bots walk on a map; each is a node of its own. The rows of graded gossip have the fields of Silac's, from the same
//! world with the same loss. The caller provides the movement, since the lab depends on no game.

mod describe;
pub mod liars;
pub mod swarm;

use super::ownership::Size;
use super::{Done, Experiment, ExperimentError, LabRequest, RunOptions, in_parallel};
use crate::movement::Movement;
use crate::net::Latency;
use crate::output::Progress;
use clap::{Args, Command};
use foveate_wire::Micros;
use liars::{Harm, Lie};
use serde::Serialize;
pub use swarm::{ACT_EVERY, LOST_AFTER, noticeable};
use swarm::{PeersFindings, PeersGame, SIDE};

/// Makes the movement of a number of avatars from a seed: twenty rounds a second, on a square of this side.
type Walkers<'a> = &'a (dyn Fn(u64, usize, f32) -> Box<dyn Movement> + Sync);

/// Latency and loss of links, as in Silac's games.
const LATENCY: Micros = Micros(30_000);
const LOSS: f64 = 0.01;
/// Uplinks as in Silac's games, in bytes per second.
const WIDE: [u32; 2] = [2_500_000, 12_500_000];
/// Uplinks of 1 to 20 Mbit/s.
const NARROW: [u32; 2] = [125_000, 2_500_000];
/// Share of links that are relayed in the growing games.
const RELAYED: f64 = 0.3;
/// Sizes of the growing games, at constant density.
const GROWING: [usize; 4] = [100, 225, 400, 900];
/// The size of the games in which a peer cheats.
const LIED_TO: Size = Size { players: 16, objects: 36 };
/// Digests that are altered.
const TAMPERED: usize = 10_000;

/// A game's figures: those of Silac's rows, and a few more.
#[derive(Clone, Debug, Serialize)]
pub struct PeersRow {
    part: &'static str,
    gossip: &'static str,
    nodes: usize,
    /// The most links of one node, over which it sends directly.
    fanout: usize,
    bytes_s: f64,
    bytes_s_max: f64,
    packets_s: f64,
    inc: f64,
    inc_share: f64,
    inj: f64,
    lost_near: f64,
    delay_near_ms: f64,
    delay_far_ms: f64,
    join_all_s: Option<f64>,
    join_near_s: Option<f64>,
    seen_share: f64,
    /// The load of the busiest uplink, with UDP and IP headers.
    uplink_share: f64,
    /// Honest peers that were named as cheating.
    wronged: usize,
}

/// The effect of a lie, over all seeds.
#[derive(Clone, Debug, Serialize)]
pub struct LieRow {
    part: &'static str,
    lie: &'static str,
    seeds: usize,
    /// Δ of honest peers without the lie, in view radii; the median over seeds.
    delta_honest: f64,
    /// The same with the lie.
    delta_lied_to: f64,
    /// The relative change, the median over seeds.
    change: f64,
    /// Honest peers that met the cheating peer, over all seeds.
    met: usize,
    /// The share of them that named it.
    named_share: f64,
    /// The longest that any peer was exposed to the lie without dropping the cheating peer.
    shown_s: f64,
    named_after_s: Option<f64>,
    named_for: Option<String>,
    wronged: usize,
}

/// Altered digests that were accepted, and genuine ones that were rejected.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TamperedRow {
    part: &'static str,
    tampered: usize,
    accepted: usize,
    genuine_refused: usize,
}

/// A game chosen on the command line.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Mix {
    /// Number of players.
    pub nodes: usize,
    /// Share of datagrams lost.
    pub loss: f64,
    /// Narrowest and widest uplink, in bytes per second.
    pub uplinks: [u32; 2],
    /// Share of links that are relayed.
    pub relayed: f64,
}

fn row(part: &'static str, game: &PeersGame, found: &PeersFindings) -> PeersRow {
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let looks = found.looks.max(1.0);
    PeersRow {
        part,
        gossip: "graded",
        nodes: game.nodes,
        fanout: found.links,
        bytes_s: found.bytes.iter().sum::<f64>() / found.bytes.len().max(1) as f64,
        bytes_s_max: found.bytes.iter().copied().fold(0.0, f64::max),
        packets_s: found.packets,
        inc: found.inc.inc / looks,
        inc_share: found.inc.share(),
        inj: found.inj / looks,
        lost_near: share(found.deeds.1, found.deeds.0),
        delay_near_ms: found.delay_near.mean(),
        delay_far_ms: found.delay_far.mean(),
        join_all_s: found.join_all_s,
        join_near_s: found.join_near_s,
        seen_share: share(found.seen.0, found.seen.1),
        uplink_share: found.uplink_share,
        wronged: found.wronged,
    }
}

fn side_of(nodes: usize) -> f32 {
    SIDE * (nodes as f32 / 100.0).sqrt()
}

enum Job {
    Game(&'static str, PeersGame),
    Lie(Lie, u64),
    Tampered(usize),
}

enum RunResult {
    Game(PeersRow),
    Lie(Lie, Harm),
    Tampered(TamperedRow),
}

fn jobs(options: RunOptions) -> Vec<Job> {
    let quick = options.quick;
    let measured = Micros(if quick { 2_000_000 } else { 10_000_000 });
    let latency = Latency::Constant(LATENCY);
    let base = PeersGame {
        nodes: if quick { 20 } else { 100 },
        latency,
        loss: LOSS,
        relayed: 0.0,
        uplinks: WIDE,
        measured,
        seed: options.seed,
    };
    let growing = if quick { &[20, 45][..] } else { &GROWING[..] };
    let grown = |nodes: &usize| {
        let game = PeersGame { nodes: *nodes, relayed: RELAYED, uplinks: NARROW, ..base };
        Job::Game("growing", game)
    };
    let seeds = if quick { 1 } else { 10 };
    let mut jobs: Vec<Job> = growing.iter().rev().map(grown).collect();
    jobs.push(Job::Game("silacs_world", base));
    for lie in Lie::ALL {
        jobs.extend((0..seeds).map(|at| Job::Lie(lie, options.seed + at)));
    }
    jobs.push(Job::Tampered(if quick { 300 } else { TAMPERED }));
    jobs
}

/// Options for a single game.
#[derive(Args)]
struct PeersArguments {
    /// Play a single game with this many nodes instead
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
    /// In the single game: the share of datagrams that are lost
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, requires = "nodes")]
    loss: f64,
    /// In the single game: the share of links that are relayed
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "nodes")]
    relayed: f64,
    /// In the single game: the narrowest uplink in Mbit/s; the widest is twenty times that
    #[arg(long, value_name = "MBIT", default_value_t = 1.0, requires = "nodes")]
    uplink: f64,
}

pub struct PeersExperiment;

impl Experiment for PeersExperiment {
    fn name(&self) -> &'static str {
        "peers"
    }

    fn about(&self) -> &'static str {
        "Graded gossip among up to 900 peers, liars; with --nodes one game of your choice"
    }

    fn options(&self, command: Command) -> Command {
        PeersArguments::augment_args(command)
    }

    fn run(&self, request: &LabRequest<'_>) -> Result<Done, ExperimentError> {
        let PeersArguments { nodes, loss, relayed, uplink } = request.arguments()?;
        let walkers = |seed, count, side| request.host.walkers(seed, count, side);
        let Some(nodes) = nodes else { return lab(&walkers, request.options) };
        let narrow = (uplink * 125_000.0).clamp(1_000.0, 1e8) as u32;
        let uplinks = [narrow, narrow.saturating_mul(20)];
        mix(&walkers, Mix { nodes, loss, uplinks, relayed }, request.options)
    }
}

/// Plays all games.
fn lab(walkers: Walkers<'_>, options: RunOptions) -> Result<Done, ExperimentError> {
    let lied = Micros(if options.quick { 5_000_000 } else { 30_000_000 });
    let jobs = jobs(options);
    let progress = Progress::new("peers", jobs.len() as u64);
    let ran = in_parallel(&jobs, |job| {
        let ran = match job {
            Job::Game(part, game) => {
                play(game, walkers).map(|found| RunResult::Game(row(part, game, &found)))
            }
            Job::Lie(lie, seed) => {
                liars::harm(LIED_TO, *lie, lied, *seed).map(|harm| RunResult::Lie(*lie, harm))
            }
            Job::Tampered(tampered) => {
                let relayed = liars::tampered(*tampered, options.seed);
                Ok(RunResult::Tampered(TamperedRow {
                    part: "tampered",
                    tampered: *tampered,
                    accepted: relayed.forged_believed,
                    genuine_refused: relayed.genuine_refused,
                }))
            }
        };
        progress.tick(1);
        ran
    });
    progress.finish();
    let ran: Vec<RunResult> = ran.into_iter().collect::<Result<_, _>>()?;
    describe::done(&ran, options)
}

/// Rejects settings with which no game can be played.
fn check(mix: &Mix) -> Result<(), ExperimentError> {
    let wrong = |what: String| Err(ExperimentError::Usage(what));
    if mix.nodes == 0 {
        return wrong("--nodes: at least 1 is expected".into());
    }
    // A message that is always lost would be repeated for ever.
    if !(0.0..=0.9).contains(&mix.loss) {
        return wrong(format!("--loss: found {}, expected 0 to 0.9", mix.loss));
    }
    if !(0.0..=1.0).contains(&mix.relayed) {
        return wrong(format!("--relayed: found {}, expected 0 to 1", mix.relayed));
    }
    Ok(())
}

/// Plays one game chosen on the command line.
fn mix(walkers: Walkers<'_>, mix: Mix, options: RunOptions) -> Result<Done, ExperimentError> {
    check(&mix)?;
    let game = PeersGame {
        nodes: mix.nodes,
        latency: Latency::Constant(LATENCY),
        loss: mix.loss,
        relayed: mix.relayed,
        uplinks: mix.uplinks,
        measured: Micros(if options.quick { 2_000_000 } else { 10_000_000 }),
        seed: options.seed,
    };
    let found = play(&game, walkers)?;
    describe::done(&[RunResult::Game(row("mix", &game, &found))], options)
}

fn play(
    game: &PeersGame,
    walkers: Walkers<'_>,
) -> Result<PeersFindings, foveate_wire::SchemaError> {
    // One more, which joins late.
    swarm::measure(game, walkers(game.seed, game.nodes + 1, side_of(game.nodes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_settings_are_rejected() {
        let fine = Mix { nodes: 10, loss: 0.01, uplinks: WIDE, relayed: 0.3 };
        assert!(check(&fine).is_ok());
        let refused = [
            (Mix { nodes: 0, ..fine }, "--nodes"),
            (Mix { loss: 1.0, ..fine }, "--loss"),
            (Mix { loss: -0.1, ..fine }, "--loss"),
            (Mix { loss: f64::NAN, ..fine }, "--loss"),
            (Mix { relayed: 7.0, ..fine }, "--relayed"),
        ];
        for (mix, option) in refused {
            let message = check(&mix).unwrap_err().to_string();
            assert!(message.starts_with(option), "{message}");
        }
    }
}
