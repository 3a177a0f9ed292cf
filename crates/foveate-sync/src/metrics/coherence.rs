//! Coherence Δ (Mogk): how much the players that see an object disagree about it.

/// Two spheres around a player.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Area {
    /// Radius within which a player can affect objects.
    pub interaction: f64,
    /// Radius within which a player sees objects.
    pub view: f64,
}

impl Area {
    /// γ: 1 inside the interaction area, falling linearly to 0 at the view radius, 0 outside.
    pub fn weight(&self, distance: f64) -> f64 {
        if distance <= self.interaction {
            return 1.0;
        }
        ((self.view - distance) / (self.view - self.interaction)).clamp(0.0, 1.0)
    }

    /// Whether a player is interested in an object at this distance.
    pub fn sees(&self, distance: f64) -> bool {
        distance <= self.view
    }
}

/// Δ_b: the mean difference of beliefs over all pairs of interested players. `None` for fewer than
/// two beliefs.
pub fn delta_object<T>(beliefs: &[T], difference: impl Fn(&T, &T) -> f64) -> Option<f64> {
    let count = beliefs.len();
    if count < 2 {
        return None;
    }
    let mut sum = 0.0;
    for (i, a) in beliefs.iter().enumerate() {
        sum += beliefs[i + 1..].iter().map(|b| difference(a, b)).sum::<f64>();
    }
    Some(sum / (count * (count - 1) / 2) as f64)
}

/// One object in a player's view.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SeenObject {
    /// The distance to the player.
    pub distance: f64,
    /// The object's Δ_b.
    pub delta: f64,
}

/// Δ_s: the mean of γ_b · Δ_b over the objects in a player's view. Like the source it does not
/// divide by Σγ. `None` if no object is in view.
pub fn delta_player(area: Area, objects: &[SeenObject]) -> Option<f64> {
    let seen: Vec<_> = objects.iter().filter(|object| area.sees(object.distance)).collect();
    if seen.is_empty() {
        return None;
    }
    let sum: f64 = seen.iter().map(|object| area.weight(object.distance) * object.delta).sum();
    Some(sum / seen.len() as f64)
}

/// For discrete properties: the size of the largest group that agrees. Larger is better.
pub fn agreement<T: Ord>(beliefs: &[T]) -> usize {
    let mut sorted: Vec<&T> = beliefs.iter().collect();
    sorted.sort();
    let groups = sorted.chunk_by(|a, b| a == b);
    groups.map(<[&T]>::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delta_is_the_mean_over_pairs_of_players() {
        let gap = |a: &f64, b: &f64| (a - b).abs();
        assert_eq!(delta_object(&[1.0, 2.0, 4.0], gap), Some((1.0 + 3.0 + 2.0) / 3.0));
        assert_eq!(delta_object(&[1.0], gap), None);
    }

    #[test]
    fn near_objects_weigh_more_and_the_sum_is_divided_by_their_number() {
        let area = Area { interaction: 10.0, view: 30.0 };
        assert_eq!(
            [5.0, 10.0, 20.0, 30.0, 40.0].map(|d| area.weight(d)),
            [1.0, 1.0, 0.5, 0.0, 0.0]
        );
        let seen = |distance, delta| SeenObject { distance, delta };
        let objects = [seen(5.0, 2.0), seen(20.0, 2.0), seen(50.0, 100.0)];
        assert_eq!(delta_player(area, &objects), Some((2.0 + 1.0) / 2.0));
        assert_eq!(delta_player(area, &objects[2..]), None);
    }

    #[test]
    fn the_largest_group_that_agrees_counts() {
        assert_eq!(agreement(&["red", "blue", "red", "green"]), 2);
        assert_eq!(agreement::<u8>(&[]), 0);
    }
}
