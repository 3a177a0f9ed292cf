//! The experiment's claims.

use super::rows::{BESIDE, Factor, Join, MotionFindings, Share};
use super::script::Scenario;
use super::{FOVEATE, LOSSY, PLAIN, Topology};
use foveate_lab::output::{ExperimentResult, Verdict};

/// Orders take at most this share of the source's positions in every frame, in percent.
const ORDERS: f64 = 3.0;
/// Among peers, a newcomer costs all nodes at most this share of its cost by the source's protocol.
const JOINING: f64 = 0.5;

/// Judges the rows.
pub fn judge(outcome: &mut ExperimentResult, found: &MotionFindings) {
    orders(outcome, found);
    optimisations(outcome, found);
    single_figures(outcome, found);
    joins(outcome, found);
    reliable(outcome, found);
    compression(outcome, found);
}

fn orders(outcome: &mut ExperimentResult, found: &MotionFindings) {
    let ours = |row: &&Share| row.variant == "foveate, actions" && row.against == PLAIN;
    for row in found.shares.iter().filter(ours) {
        let of = format!("{}, {}", row.scenario, row.topology);
        let name = format!("{of}: orders, of positions in every frame");
        outcome.judge(Verdict::at_most(name, 100.0 * row.share, ORDERS, "%"));
        let (end, idle) = (row.err_end.unwrap_or(f64::NAN), row.positions_after_collision);
        let name = format!("{of}: how far from its place a unit shown by orders ends");
        outcome.judge(Verdict::at_most(name, end, 0.0, "units"));
        let name = format!("{of}: positions after collisions");
        let idle = idle.map_or(f64::NAN, |idle| idle as f64);
        outcome.judge(Verdict::at_most(name, idle, 0.0, ""));
    }
}

fn optimisations(outcome: &mut ExperimentResult, found: &MotionFindings) {
    for row in found.factors.iter().filter(|row| row.measured == "server_down") {
        let name = format!("{}: {}, the server's download", row.scenario, row.optimisation);
        outcome.judge(Verdict::near(name, row.factor, 1.0, 0.005, "×"));
    }
    let increments = |row: &&Factor| {
        let walks = [Scenario::Straight.name(), Scenario::Restless.name()];
        row.paper_factor.is_some() && row.measured != "server_down" && walks.contains(&row.scenario)
    };
    for row in found.factors.iter().filter(increments) {
        let name = format!("{}, {}: {}", row.scenario, row.topology, row.optimisation);
        let paper = row.paper_factor.unwrap_or(f64::NAN);
        outcome.judge(Verdict::near(name, row.factor, paper, 0.5, "×"));
    }
    for row in found.factors.iter().filter(|row| row.optimisation == BESIDE) {
        let of = format!("{}, {}", row.scenario, row.topology);
        let name = format!("{of}: {} ({})", row.optimisation, row.measured);
        // With headers ours is worse where objects walk straight: it has half of the bound for each hop, and an
        // acknowledgement for each packet. This is known and reported.
        let peers = row.topology == Topology::Peers.name();
        let known = row.measured == "server_up_wire" || (peers && row.measured == "all_up_wire");
        outcome.judge(Verdict::at_least(name, row.factor, 1.0, "×").reported_only(known));
    }
}

/// Figures that the source states, with a tolerance of a tenth for its unknown frame rate.
fn single_figures(outcome: &mut ExperimentResult, found: &MotionFindings) {
    for row in found.checks.iter().filter(|row| row.variant == PLAIN) {
        let name = format!("{}, {}: {}", row.scenario, row.topology, row.what);
        let tolerance = 0.1 * row.paper_value;
        outcome.judge(Verdict::near(name, row.value, row.paper_value, tolerance, ""));
    }
}

fn joins(outcome: &mut ExperimentResult, found: &MotionFindings) {
    for row in &found.joins {
        let of = format!("{}, {}, {}", row.scenario, row.topology, row.variant);
        let lacking = row.expected_states as f64 - row.first_states as f64;
        let name = format!("{of}: objects that the newcomer lacks");
        outcome.judge(Verdict::at_most(name, lacking, 0.0, ""));
        if let Some(budget) = row.budget_100ms {
            let name = format!("{of}: the newcomer's peak in 100 ms");
            outcome.judge(Verdict::at_most(name, row.peak_100ms as f64, f64::from(budget), "B"));
        }
        if let Some(share) = row.nearest_first {
            let name = format!("{of}: nearest first");
            outcome.judge(Verdict::at_least(name, 100.0 * share, 100.0, "%"));
        }
    }
    let peers = |variant: &'static str| {
        let is =
            move |row: &&Join| row.topology == Topology::Peers.name() && row.variant == variant;
        found.joins.iter().filter(is)
    };
    for (ours, theirs) in peers(FOVEATE).zip(peers(PLAIN)) {
        let share = ours.all_bytes as f64 / theirs.all_bytes.max(1) as f64;
        let name = format!("{}, peers: joining by ours, of the source's bytes", ours.scenario);
        outcome.judge(Verdict::at_most(name, share, JOINING, "×"));
    }
}

/// Full positions are sent reliably: after a loss they are sent again.
fn reliable(outcome: &mut ExperimentResult, found: &MotionFindings) {
    for scenario in [Scenario::Straight, Scenario::Restless] {
        let runs = found.traffic.iter().filter(|row| row.scenario == scenario.name());
        let resent =
            runs.filter(|row| row.variant == LOSSY).map(|row| row.up_resent_bytes).sum::<u64>();
        let name = format!("{}: full positions sent again under loss", scenario.name());
        // At least one position.
        outcome.judge(Verdict::at_least(
            name,
            resent as f64,
            super::messages::POSITION as f64,
            "B",
        ));
    }
}

fn compression(outcome: &mut ExperimentResult, found: &MotionFindings) {
    let broken = found.pressed.iter().filter(|row| !row.restored).count();
    outcome.judge(Verdict::at_most(
        "compressed packets that expand to others",
        broken as f64,
        0.0,
        "",
    ));
    let one = found.pressed.iter().filter(|row| row.packets == "one");
    let gains = one.filter(|row| row.huffman_bytes < row.bytes).count();
    outcome.judge(Verdict::at_most(
        "single packets that Huffman makes smaller",
        gains as f64,
        0.0,
        "",
    ));
    let ten = found.pressed.iter().filter(|row| row.packets == "ten equal, in a row");
    let losses = ten.filter(|row| row.huffman_bytes >= row.bytes).count();
    let name = "ten equal packets that Huffman makes no smaller";
    outcome.judge(Verdict::at_most(name, losses as f64, 0.0, ""));
}
