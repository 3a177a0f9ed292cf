//! The source's first experiment: which nodes are chosen, over the ratios of the weights.
//!
//! A sender stands still among twelve groups of seven nodes, at three distances and four angles. A thirteenth group,
//! which announces half the uplink or has already received the message, stands in each group's place in turn.
//! Recipients are drawn by the code that ships.

use super::findings::{deviation, mean};
use crate::{Alphas, Candidates, NodeId, Viewpoint};
use fastrand::Rng;
use serde::Serialize;
use std::f32::consts::PI;

/// Distances of the groups, as shares of the largest that the world allows.
const DISTANCES: [f32; 3] = [0.1, 0.3, 0.5];
/// Angles between the sender's facing and the groups, in degrees.
const ANGLES: [f32; 4] = [0.0, 60.0, 120.0, 180.0];
const GROUPS: usize = DISTANCES.len() * ANGLES.len();
/// Nodes in a group: one in the middle, six around it.
const SIZE: usize = 7;
/// Distance of those six from the middle.
const RADIUS: f32 = 0.04;
/// Ratios of two weights. The first weight is always 1.
const RATIOS: [f32; 7] = [0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0];

/// Which weight is varied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Against {
    /// α₁ / α₂, the angle's weight.
    Ahead,
    /// α₁ / α₃, the uplink's weight. The thirteenth group announces half the uplink.
    Uplink,
    /// α₁ / α₄, the list's weight. The thirteenth group is in the list.
    Listed,
}

impl Against {
    /// The ratio as the source writes it.
    pub fn name(self) -> &'static str {
        match self {
            Against::Ahead => "α₁/α₂",
            Against::Uplink => "α₁/α₃",
            Against::Listed => "α₁/α₄",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    part: &'static str,
    pub against: Against,
    /// α₁ divided by the other weight.
    pub ratio: f32,
    /// Each node's share of all choices in a group, in per cent: the nearest groups first, then by rising angle.
    pub shares: Vec<f64>,
    /// Choices of the middle distance straight ahead, divided by those straight behind.
    pub ahead_over_behind: f64,
    /// Choices of the nearest group at 60°, divided by those of the farthest.
    pub near_over_far: f64,
    /// How much the nodes of the groups at 60° and 120° differ, as a share of their mean.
    pub deviation_aside: f64,
    /// Choices of the thirteenth group, divided by those of the group whose place it shares; the mean over all twelve.
    pub thirteenth_over_own: Option<f64>,
    /// Whether the thirteenth group is the least likely of all when it is nearest and straight ahead.
    pub nearest_is_last: Option<bool>,
}

fn place(group: usize, member: usize) -> [f32; 3] {
    let (distance, angle) = (DISTANCES[group / 4], ANGLES[group % 4] * PI / 180.0);
    let (radius, turn) = if member == 0 { (0.0, 0.0) } else { (RADIUS, member as f32 * PI / 3.0) };
    let [x, y] = [distance * angle.cos(), distance * angle.sin()];
    [x + radius * turn.cos(), y + radius * turn.sin(), 0.0]
}

/// Draws recipients `draws` times and returns each node's share of all choices.
fn draw(
    alphas: Alphas,
    thirteenth: Option<(usize, Against)>,
    draws: u32,
    rng: &mut Rng,
) -> Vec<f64> {
    let eyes = Viewpoint { position: [0.0; 3], facing: [1.0, 0.0, 0.0], reach: 1.0 };
    let mut candidates = Candidates::default();
    for node in 0..GROUPS * SIZE {
        let weight = eyes.weight(&alphas, place(node / SIZE, node % SIZE), 1.0);
        candidates.push(NodeId(node as u32), weight);
    }
    if let Some((group, against)) = thirteenth {
        let uplink = if against == Against::Uplink { 0.5 } else { 1.0 };
        for member in 0..SIZE {
            let weight = eyes.weight(&alphas, place(group, member), uplink);
            candidates.push(NodeId((GROUPS * SIZE + member) as u32), weight);
        }
    }
    let mut chosen = vec![0.0; (GROUPS + 1) * SIZE];
    let listed = |id: NodeId| match thirteenth {
        Some((_, Against::Listed)) if id.0 as usize >= GROUPS * SIZE => alphas.listed,
        _ => 0.0,
    };
    for _ in 0..draws {
        for id in candidates.choose(rng, 1, |id| Some(listed(id))) {
            chosen[id.0 as usize] += 1.0 / f64::from(draws);
        }
    }
    chosen
}

fn group(chosen: &[f64], group: usize) -> &[f64] {
    &chosen[group * SIZE..(group + 1) * SIZE]
}

fn at_ratio(against: Against, ratio: f32, draws: u32, rng: &mut Rng) -> Choice {
    let mut alphas = Alphas::default();
    let varied = match against {
        Against::Ahead => &mut alphas.ahead,
        Against::Uplink => &mut alphas.uplink,
        Against::Listed => &mut alphas.listed,
    };
    *varied = alphas.near / ratio;
    let plain = draw(alphas, None, draws, rng);
    let share = |at: usize| mean(group(&plain, at));
    let off_axis = [1, 2, 5, 6, 9, 10].map(|at| deviation(group(&plain, at)));
    let with: Vec<Vec<f64>> = if against == Against::Ahead {
        Vec::new()
    } else {
        (0..GROUPS).map(|at| draw(alphas, Some((at, against)), draws, rng)).collect()
    };
    let over: Vec<f64> = with
        .iter()
        .enumerate()
        .map(|(at, chosen)| mean(group(chosen, GROUPS)) / mean(group(chosen, at)).max(1e-9))
        .collect();
    let last = with.first().map(|chosen| {
        let thirteenth = mean(group(chosen, GROUPS));
        (0..GROUPS).all(|at| mean(group(chosen, at)) > thirteenth)
    });
    Choice {
        part: "choice",
        against,
        ratio,
        shares: (0..GROUPS).map(|at| 100.0 * share(at)).collect(),
        ahead_over_behind: share(4) / share(7),
        near_over_far: share(1) / share(9),
        deviation_aside: mean(&off_axis),
        thirteenth_over_own: (!over.is_empty()).then(|| mean(&over)),
        nearest_is_last: last,
    }
}

/// All ratios of all weights.
pub fn choices(draws: u32, seed: u64) -> Vec<Choice> {
    let mut rng = Rng::with_seed(seed);
    let all = [Against::Ahead, Against::Uplink, Against::Listed];
    let pairs = all.into_iter().flat_map(|against| RATIOS.map(|ratio| (against, ratio)));
    pairs.map(|(against, ratio)| at_ratio(against, ratio, draws, &mut rng)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ratios_do_what_the_source_says() {
        let choices = choices(60_000, 1);
        let of = |against, ratio| {
            choices.iter().find(|c| c.against == against && c.ratio == ratio).unwrap()
        };
        let angle = |ratio| of(Against::Ahead, ratio).ahead_over_behind;
        assert!(angle(8.0) < 1.25 && angle(1.0) > 1.5 && angle(0.125) > 4.0);
        let distance = |ratio| of(Against::Ahead, ratio).near_over_far;
        assert!(distance(0.125) < 1.2 && distance(1.0) > distance(0.125));
        let listed = |ratio| of(Against::Listed, ratio).thirteenth_over_own.unwrap();
        assert!(listed(8.0) > 0.8 && listed(1.0) < 0.5 && listed(0.25) < 0.1);
        assert_eq!(of(Against::Uplink, 0.125).nearest_is_last, Some(true));
        assert_eq!(of(Against::Uplink, 2.0).nearest_is_last, Some(false));
    }
}
