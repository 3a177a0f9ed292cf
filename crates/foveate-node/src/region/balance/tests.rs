use super::*;

/// A line of objects and two servers that each run one side of a cut; loads are the shares of objects, with noise.
fn moves(load: f32, noise: f32, mut cut: f32, seed: u64) -> Vec<f32> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let objects: Vec<f32> = (0..1_000).map(|at| at as f32 / 10.0).collect();
    let (mut looks, mut moves) = ((0u8, None), Vec::new());
    for _ in 0..400 {
        let below = objects.iter().filter(|at| **at < cut).count() as f32 / 500.0;
        let mut jitter = || 1.0 + noise * (rng.f32() * 2.0 - 1.0);
        let (low, high) = (load * below * jitter(), load * (2.0 - below) * jitter());
        let tilted = tilt(low, high);
        looks = if tilted == looks.1 { (looks.0.saturating_add(1), tilted) } else { (1, tilted) };
        let Some(upper) = tilted.filter(|_| looks.0 >= LOOKS) else { continue };
        let heavy = objects.iter().filter(|at| (**at >= cut) == upper);
        let mut distances: Vec<f32> = heavy.map(|at| (at - cut).abs()).collect();
        let side = if upper { 100.0 - cut } else { cut };
        if let Some(by) = shed(low.max(high), low.min(high), &mut distances, side) {
            cut += if upper { by } else { -by };
            (looks, _) = ((0, None), moves.push(cut));
        }
    }
    moves
}

#[test]
fn a_cut_moves_to_the_median_in_steps_and_stays() {
    for seed in 0..50 {
        let moves = moves(0.5, 0.05, 10.0, seed);
        assert!((2..30).contains(&moves.len()), "{moves:?}");
        assert!(moves.is_sorted(), "never back: {moves:?}");
        assert!(moves.last().is_some_and(|at| (40.0..60.0).contains(at)), "{moves:?}");
    }
}

#[test]
fn a_borderline_load_does_not_swing() {
    for seed in 0..200 {
        // Sides that differ by a quarter, more or less, as the noise has it.
        let moves = moves(0.5, 0.08, 43.0, seed);
        assert!(moves.len() <= 3 && moves.is_sorted(), "seed {seed}: {moves:?}");
    }
}

#[test]
fn light_regions_are_left_alone() {
    assert_eq!(moves(0.05, 0.0, 10.0, 1), []);
    assert_eq!(tilt(0.1, 0.3), Some(true));
    assert_eq!(tilt(0.3, 0.1), Some(false));
    assert_eq!(tilt(0.3, 0.23), None);
}

#[test]
fn halves_of_what_is_split_are_not_merged() {
    const { assert!(SPLIT_ABOVE > MERGE_BELOW) };
}
