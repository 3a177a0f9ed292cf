//! Views made of parts: object sets, walls, recent interactions, and custom policies.

use super::modifiers::{BySet, Interacting, ObjectSet, Visibility, Visible};
use super::view::{View, ViewError, in_range};
use super::{CLASSES, Grade, Policy};
use foveate_wire::{KindId, Metres, Micros, Radians};
use serde::{Deserialize, Deserializer, Serialize};
use std::sync::Arc;

/// The most object sets of one view.
pub const MAX_SETS: usize = 8;
/// θ of an object out of view right after an interaction; it grows as the interest fades.
const INTERACTED_AGE: Micros = Micros(100_000);
/// The farthest distance for which a floor is computed if a view has no end.
const FAR: f32 = 1_000.0;

/// Resolves what a view can refer to and only the game knows. `()` resolves nothing.
pub trait ViewContext {
    /// The game's walls.
    fn visibility(&self) -> Option<Arc<dyn Visibility>> {
        None
    }

    /// The kind with a name.
    fn kind(&self, _name: &str) -> Option<KindId> {
        None
    }

    /// The custom policy with a name.
    fn policy(&self, _name: &str) -> Option<Arc<dyn Policy>> {
        None
    }
}

impl ViewContext for () {}

/// Selects the objects of a part of a view.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SetName {
    /// Objects of the player's own team.
    Team,
    /// Objects of other teams, or of none.
    Others,
    /// Objects of one kind, by the kind's name.
    Kind(String),
}

/// A part of a view with its own bounds.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetView {
    pub of: SetName,
    /// The view of these objects; it must not have sets.
    pub view: View,
}

/// How walls change the bounds of objects behind them.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Occlusion {
    /// How many times looser the bounds of hidden objects are; if left out, hidden objects are not
    /// sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub looser: Option<f32>,
    /// Within this distance, in world units, everything counts as visible.
    #[serde(default)]
    pub always: f32,
}

/// Accepts `null` for infinity, which JSON cannot express.
pub(super) fn lengths_or_null<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f32>, D::Error> {
    let lengths = Vec::<Option<f32>>::deserialize(from)?;
    Ok(lengths.into_iter().map(|length| length.unwrap_or(f32::INFINITY)).collect())
}

/// Builds the policy of a view with all its parts.
pub(super) fn build(view: &View, game: &dyn ViewContext) -> Result<Arc<dyn Policy>, ViewError> {
    if view.sets.len() > MAX_SETS {
        return Err(ViewError::Sets("at most 8"));
    }
    let rest = single(view, view.interaction_boost, game)?;
    if view.sets.is_empty() {
        return Ok(rest);
    }
    let mut sets = Vec::with_capacity(view.sets.len() + 1);
    for set in &view.sets {
        if !set.view.sets.is_empty() || set.view.interaction_boost.is_some() {
            let what = "the view of a set has neither `sets` nor `interaction_boost`";
            return Err(ViewError::Sets(what));
        }
        sets.push((object_set(&set.of, game)?, single(&set.view, view.interaction_boost, game)?));
    }
    sets.push((ObjectSet::All, rest));
    Ok(Arc::new(BySet(sets)))
}

/// Builds the policy of a view without its sets. Walls are applied last: an interaction does not
/// reveal what they hide.
fn single(
    view: &View,
    boost: Option<f32>,
    game: &dyn ViewContext,
) -> Result<Arc<dyn Policy>, ViewError> {
    let mut policy = view.build_plain(game)?;
    if let Some(boost) = boost {
        in_range("interaction_boost", boost, boost >= 1.0 && boost.is_finite(), "at least 1")?;
        policy = boosted(view, boost, policy);
    }
    match view.line_of_sight {
        Some(occlusion) => sighted(occlusion, policy, game),
        None => Ok(policy),
    }
}

fn boosted(view: &View, boost: f32, inner: Arc<dyn Policy>) -> Arc<dyn Policy> {
    let reach = inner.reach().0.min(FAR);
    let otherwise = Grade {
        max_age: INTERACTED_AGE,
        max_error: Metres(f32::INFINITY),
        floor: Metres(Radians::from_degrees(view.floor_degrees).0 * reach),
        facing: 1.0,
        class: CLASSES as u8 - 1,
        ..Grade::EXACT
    };
    Arc::new(Interacting { inner, boost, otherwise })
}

fn object_set(name: &SetName, game: &dyn ViewContext) -> Result<ObjectSet, ViewError> {
    Ok(match name {
        SetName::Team => ObjectSet::Mates,
        SetName::Others => ObjectSet::Others,
        SetName::Kind(name) => {
            let what = || format!("kind `{name}`");
            let kind = game.kind(name);
            ObjectSet::Kind(
                kind.ok_or_else(|| ViewError::Unknown { key: "sets.of.kind", what: what() })?,
            )
        }
    })
}

fn sighted(
    Occlusion { looser, always }: Occlusion,
    inner: Arc<dyn Policy>,
    game: &dyn ViewContext,
) -> Result<Arc<dyn Policy>, ViewError> {
    in_range("line_of_sight.always", always, always >= 0.0, "at least 0")?;
    let hidden = looser.unwrap_or(f32::INFINITY);
    in_range("line_of_sight.looser", hidden, hidden >= 1.0, "at least 1")?;
    let key = "line_of_sight";
    let missing = || ViewError::Unknown { key, what: "walls to look past".into() };
    let provider = game.visibility().ok_or_else(missing)?;
    Ok(Arc::new(Visible { inner, provider, hidden, always: Metres(always) }))
}

#[cfg(test)]
mod tests {
    use super::super::modifiers::Line;
    use super::super::tests::sight;
    use super::super::{Sight, presets};
    use super::*;

    struct Game;
    struct Wall;
    struct Halving;

    impl Visibility for Wall {
        fn visible(&self, line: &Line) -> bool {
            line.to[0] < 20.0
        }
    }

    impl Policy for Halving {
        fn grade(&self, _: &Sight) -> Option<Grade> {
            Some(Grade { max_age: Micros(77_000), ..Grade::EXACT })
        }
    }

    impl ViewContext for Game {
        fn visibility(&self) -> Option<Arc<dyn Visibility>> {
            Some(Arc::new(Wall))
        }

        fn kind(&self, name: &str) -> Option<KindId> {
            (name == "crate").then_some(KindId(3))
        }

        fn policy(&self, name: &str) -> Option<Arc<dyn Policy>> {
            (name == "halving").then(|| Arc::new(Halving) as Arc<dyn Policy>)
        }
    }

    const TEXT: &str = r#"
        policy = "circle"
        view = 90.0
        interval_ms = 100
        interaction_boost = 4.0
        line_of_sight = { looser = 4.0, always = 10.0 }
        [[sets]]
        of = "team"
        view = { policy = "circle", view = 50.0, interval_ms = 200 }
        [[sets]]
        of = { kind = "crate" }
        view = { policy = "custom", custom = "halving" }
    "#;

    fn age(policy: &dyn Policy, sight: &Sight) -> Option<u64> {
        policy.grade(sight).map(|grade| grade.max_age.0 / 1_000)
    }

    fn refused(text: &str, game: &dyn ViewContext) -> String {
        View::from_toml(text).unwrap().build_in(game).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn a_view_of_all_parts_grades_by_each() {
        let view = View::from_toml(TEXT).unwrap();
        let policy = view.build_in(&Game).unwrap();
        let at = |x: f32| Sight { to: [x, 0.0].into(), ..sight(x, 0.0) };
        assert_eq!(age(&*policy, &at(15.0)), Some(100));
        assert_eq!(age(&*policy, &at(30.0)), Some(400), "behind the wall");
        assert_eq!(age(&*policy, &Sight { same_team: true, ..at(30.0) }), Some(200));
        assert_eq!(age(&*policy, &Sight { kind: KindId(3), ..at(30.0) }), Some(77));
        assert_eq!(age(&*policy, &Sight { interaction: 1.0, ..at(15.0) }), Some(25));
        let shot_from_afar = Sight { interaction: 1.0, ..at(200.0) };
        assert_eq!(age(&*policy, &shot_from_afar), Some(400), "afar and behind the wall");
        let seen_afar = Sight { interaction: 1.0, to: [0.0; 3].into(), ..at(200.0) };
        assert_eq!(age(&*policy, &seen_afar), Some(100));
        assert_eq!(View::from_toml(&view.to_toml().unwrap()).unwrap(), view);
    }

    #[test]
    fn hidden_objects_need_not_be_sent() {
        let mut view = presets::circle(90.0);
        view.line_of_sight = Some(Occlusion { looser: None, always: 5.0 });
        let policy = view.build_in(&Game).unwrap();
        let at = |x: f32| Sight { to: [x, 0.0].into(), ..sight(x, 0.0) };
        assert!(policy.grade(&at(15.0)).is_some());
        assert!(policy.grade(&at(30.0)).is_none());
        view.interaction_boost = Some(4.0);
        let policy = view.build_in(&Game).unwrap();
        let hit = Sight { interaction: 1.0, ..at(30.0) };
        assert!(policy.grade(&hit).is_none(), "a hit does not show what walls hide");
    }

    #[test]
    fn what_the_game_does_not_have_is_named() {
        let message = refused(TEXT, &());
        assert!(message.contains("this game has no walls"), "{message}");
        let message = refused("policy = \"custom\"\ncustom = \"thirds\"", &Game);
        assert_eq!(message, "custom: this game has no policy `thirds`");
        let message = refused("policy = \"custom\"", &Game);
        assert!(message.contains("needs `custom`"), "{message}");
        let barrel = TEXT.replace("crate", "barrel");
        assert!(refused(&barrel, &Game).contains("no kind `barrel`"));
        assert!(
            refused(&TEXT.replace("boost = 4.0", "boost = 0.5"), &Game)
                .contains("interaction_boost")
        );
    }

    #[test]
    fn sets_do_not_nest_and_are_few() {
        let mut view = presets::circle(90.0);
        view.sets = vec![SetView { of: SetName::Team, view: presets::circle(10.0) }; 9];
        assert!(matches!(view.build(), Err(ViewError::Sets("at most 8"))));
        view.sets.truncate(1);
        view.sets[0].view.sets = view.sets.clone();
        assert!(matches!(view.build(), Err(ViewError::Sets(_))));
    }

    #[test]
    fn zones_without_an_end_return_through_json_at_any_depth() {
        let mut view = presets::normal(40.0, 70.0);
        view.sets = vec![SetView { of: SetName::Others, view: presets::vfc(10.0, 20.0) }];
        let text = serde_json::to_string(&view).unwrap();
        assert!(text.contains("null"));
        assert_eq!(serde_json::from_str::<View>(&text).unwrap(), view);
    }
}
