//! A bot's skill and preferences.

use fastrand::Rng;

/// How well a bot plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skill {
    /// Slow to see and to turn, inaccurate; keeps any weapon that it has, and fights to the end.
    Novice,
    /// In between.
    Regular,
    /// Fast, and usually on target; chooses the right weapon, and knows when to hide.
    Expert,
}

/// A skill in numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Talent {
    /// The largest error of its aim, in [`Yaw`](crate::Yaw) steps.
    pub error: i32,
    /// Time from seeing an enemy to the first shot, in milliseconds.
    pub reaction_ms: u32,
    /// The fastest turn, in [`Yaw`](crate::Yaw) steps per second.
    pub turn: i32,
    /// How far it aims ahead of a moving enemy, in thousandths of the exact lead.
    pub lead: i32,
    /// How far it looks for enemies, in units.
    pub sees: f64,
    /// How many of ten better weapons it changes to.
    pub picks: u32,
    /// It leaves a fight at this health.
    pub retreats: u8,
    /// Whether it hides while its weapon is not ready.
    pub hides: bool,
}

impl Skill {
    /// Skills in turn: one expert and one novice for every two regulars. Equal skills follow each
    /// other, because players that join in turn are put into different teams.
    pub fn mixed(index: usize) -> Skill {
        [Skill::Regular, Skill::Expert, Skill::Regular, Skill::Novice][index / 2 % 4]
    }

    pub(super) fn talent(self) -> Talent {
        match self {
            Skill::Novice => Talent {
                error: 3_200,
                reaction_ms: 600,
                turn: 32_768,
                lead: 0,
                sees: 30.0,
                picks: 2,
                retreats: 0,
                hides: false,
            },
            Skill::Regular => Talent {
                error: 2_200,
                reaction_ms: 350,
                turn: 65_536,
                lead: 500,
                sees: 42.0,
                picks: 6,
                retreats: 25,
                hides: false,
            },
            Skill::Expert => Talent {
                error: 1_300,
                reaction_ms: 200,
                turn: 98_304,
                lead: 1_000,
                sees: 54.0,
                picks: 10,
                retreats: 35,
                hides: true,
            },
        }
    }
}

/// A bot's preference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Temper {
    /// Goes to bases, and fights on the way.
    Captures,
    /// Attacks enemies on sight.
    Hunts,
}

impl Temper {
    /// Two bots of three capture.
    pub fn drawn(rng: &mut Rng) -> Temper {
        if rng.usize(0..3) == 0 { Temper::Hunts } else { Temper::Captures }
    }
}
