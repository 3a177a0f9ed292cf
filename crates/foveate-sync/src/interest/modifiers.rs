//! Policies that combine policies: by object set, by recent interaction, by visibility.

use super::{Floors, Grade, Policy, Sight};
use foveate_wire::{KindId, Metres, ObjectId, Position, Radians, Tick};
use std::sync::Arc;

/// Selects the objects of a part of a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ObjectSet {
    /// Every object.
    All,
    /// Objects of one kind.
    Kind(KindId),
    /// Objects of the observer's own team.
    Mates,
    /// Objects of other teams, or of none.
    Others,
}

impl ObjectSet {
    fn holds(self, sight: &Sight) -> bool {
        match self {
            ObjectSet::All => true,
            ObjectSet::Kind(kind) => sight.kind == kind,
            ObjectSet::Mates => sight.same_team,
            ObjectSet::Others => !sight.same_team,
        }
    }
}

/// Uses different policies for different object sets. The first set that contains an object
/// decides; objects in no set are of no interest.
pub struct BySet(pub Vec<(ObjectSet, Arc<dyn Policy>)>);

impl Policy for BySet {
    fn grade(&self, sight: &Sight) -> Option<Grade> {
        self.0.iter().find(|(set, _)| set.holds(sight)).and_then(|(_, policy)| policy.grade(sight))
    }

    fn reach(&self) -> Metres {
        Metres(self.0.iter().map(|(_, policy)| policy.reach().0).fold(0.0, f32::max))
    }

    fn tells_leaving(&self, sight: &Sight) -> bool {
        let set = self.0.iter().find(|(set, _)| set.holds(sight));
        set.is_some_and(|(_, policy)| policy.tells_leaving(sight))
    }

    fn floors(&self) -> Option<Floors> {
        let mut all = self.0.iter().map(|(_, policy)| policy.floors());
        let first = all.next()??;
        all.try_fold(first, |least, floors| {
            let floors = floors?;
            let place = Radians(least.place.0.min(floors.place.0));
            Some(Floors { place, facing: least.facing.min(floors.facing) })
        })
    }
}

/// Silac's interest path: recent interactions make grades sharper, fading with time.
pub struct Interacting {
    /// The policy for all objects.
    pub inner: Arc<dyn Policy>,
    /// How many times sharper a grade is right after an interaction.
    pub boost: f32,
    /// The grade right after an interaction with an object that `inner` has no interest in.
    pub otherwise: Grade,
}

impl Policy for Interacting {
    fn grade(&self, sight: &Sight) -> Option<Grade> {
        let grade = self.inner.grade(sight);
        if sight.interaction <= 0.0 {
            // The outlook of the inner policy holds: an interaction causes the pair to be graded
            // again at once.
            return grade;
        }
        let grade = grade.map(|grade| Grade { outlook: None, ..grade });
        let factor = 1.0 + (self.boost - 1.0) * sight.interaction;
        match grade {
            Some(grade) => Some(grade.sharpened(factor)),
            None => Some(self.otherwise.sharpened(sight.interaction)),
        }
    }

    // An interaction reaches as far as the game allows, but the pair exists by then: nothing beyond
    // the inner reach is searched for.
    fn reach(&self) -> Metres {
        self.inner.reach()
    }

    fn tells_leaving(&self, sight: &Sight) -> bool {
        self.inner.tells_leaving(sight)
    }

    fn floors(&self) -> Option<Floors> {
        let (inner, other) = (self.inner.floors()?, self.otherwise);
        // The grade `otherwise` has no angle: its floor is smallest, as an angle, at the farthest
        // distance.
        let place = inner.place.0.min(other.floor.0 / self.inner.reach().0);
        Some(Floors { place: Radians(place), facing: inner.facing.min(other.facing) })
    }
}

/// Whether one place can be seen from another, by the game's geometry or by a recording.
pub trait Visibility: Send + Sync {
    /// Whether the pivot's object (if it has one) at `from` can see `object` at `to`.
    fn visible(&self, line: &Line) -> bool;
}

/// A query to a [`Visibility`] provider.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// The object that looks.
    pub pivot: Option<ObjectId>,
    /// The object that is looked at.
    pub object: ObjectId,
    /// The place of the object that looks.
    pub from: Position,
    /// The place of the object that is looked at.
    pub to: Position,
    /// The round.
    pub tick: Tick,
}

/// Loosens the grades of objects that cannot be seen, or drops them.
pub struct Visible {
    /// The policy for visible objects.
    pub inner: Arc<dyn Policy>,
    pub provider: Arc<dyn Visibility>,
    /// How many times looser the grades of hidden objects are; infinite: no interest.
    pub hidden: f32,
    /// Within this distance everything counts as visible, because it may come round a corner.
    pub always: Metres,
}

impl Visible {
    fn sees(&self, sight: &Sight) -> bool {
        let Sight { pivot, object, from, to, tick, .. } = *sight;
        sight.distance.0 <= self.always.0
            || self.provider.visible(&Line { pivot, object, from, to, tick })
    }
}

/// Sharpening keeps the floors, because they are what a person can notice.
impl Policy for Visible {
    fn grade(&self, sight: &Sight) -> Option<Grade> {
        let grade = self.inner.grade(sight)?;
        // An object that becomes visible or hidden changes its grade at any moment.
        let grade = Grade { outlook: None, ..grade };
        if self.sees(sight) {
            return Some(grade);
        }
        self.hidden.is_finite().then(|| grade.sharpened(1.0 / self.hidden))
    }

    fn reach(&self) -> Metres {
        self.inner.reach()
    }

    fn tells_leaving(&self, sight: &Sight) -> bool {
        (self.hidden.is_finite() || self.sees(sight)) && self.inner.tells_leaving(sight)
    }

    fn floors(&self) -> Option<Floors> {
        self.inner.floors()
    }
}

#[cfg(test)]
mod tests {
    use super::super::policies::{Circle, Pace};
    use super::super::tests::sight;
    use super::*;
    use foveate_wire::Micros;

    fn circle(view: f32, ms: u64) -> Arc<dyn Policy> {
        Arc::new(Circle { view: Metres(view), pace: Pace::every(Micros::from_millis(ms)) })
    }

    fn age(policy: &dyn Policy, sight: &Sight) -> Option<u64> {
        policy.grade(sight).map(|grade| grade.max_age.0 / 1_000)
    }

    #[test]
    fn sets_are_tried_in_order() {
        let policy =
            BySet(vec![(ObjectSet::Mates, circle(50.0, 200)), (ObjectSet::All, circle(90.0, 100))]);
        let mate = Sight { same_team: true, ..sight(10.0, 0.0) };
        assert_eq!(age(&policy, &mate), Some(200));
        assert_eq!(age(&policy, &sight(10.0, 0.0)), Some(100));
        assert_eq!(age(&policy, &Sight { same_team: true, ..sight(60.0, 0.0) }), None);
        assert_eq!(policy.reach(), Metres(90.0));
    }

    #[test]
    fn interaction_sharpens_and_fades() {
        let policy = Interacting { inner: circle(50.0, 100), boost: 4.0, otherwise: Grade::EXACT };
        let with = |distance, interaction| Sight { interaction, ..sight(distance, 0.0) };
        assert_eq!(age(&policy, &with(10.0, 1.0)), Some(25));
        assert_eq!(age(&policy, &with(10.0, 0.5)), Some(40));
        assert_eq!(age(&policy, &with(10.0, 0.0)), Some(100));
        assert_eq!(age(&policy, &with(60.0, 0.0)), None);
        assert_eq!(age(&policy, &with(60.0, 0.2)), Some(0), "a distant shooter counts");
    }

    #[test]
    fn after_an_interaction_the_floor_is_at_least_the_stated_minimum() {
        let pace = Pace { interval: Micros(0), floor: Radians(0.1) };
        let inner = Arc::new(Circle { view: Metres(50.0), pace });
        let otherwise = Grade { floor: Metres(0.5), ..Grade::EXACT };
        let policy = Interacting { inner, boost: 4.0, otherwise };
        assert!(policy.floors().unwrap().place.0 * 50.0 <= 0.5);
        let everywhere = Arc::new(super::super::policies::Broadcast(pace));
        let policy = Interacting { inner: everywhere, boost: 4.0, otherwise };
        assert_eq!(policy.floors().unwrap().place, Radians(0.0));
    }

    struct Wall(f32);

    impl Visibility for Wall {
        fn visible(&self, line: &Line) -> bool {
            (line.from[0] < self.0) == (line.to[0] < self.0)
        }
    }

    #[test]
    fn hidden_objects_are_looser_or_dropped() {
        let visible = |hidden| Visible {
            inner: circle(90.0, 100),
            provider: Arc::new(Wall(20.0)),
            hidden,
            always: Metres(15.0),
        };
        let at = |x: f32| Sight { to: [x, 0.0].into(), ..sight(x, 0.0) };
        assert_eq!(age(&visible(4.0), &at(18.0)), Some(100));
        assert_eq!(age(&visible(4.0), &at(30.0)), Some(400));
        assert_eq!(age(&visible(f32::INFINITY), &at(30.0)), None);
        assert_eq!(age(&visible(4.0), &at(95.0)), None);
    }
}
