//! How well a bot plays, and what it likes.

use fastrand::Rng;

/// How well a bot plays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Skill {
    /// Slow to see, slow to turn, wide of the mark; keeps the weapon that it happens to have, and
    /// fights to the end.
    Novice,
    /// In between.
    Regular,
    /// Quick, and mostly on target; has the right weapon at hand, and knows when to hide.
    Expert,
}

/// A skill in numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Talent {
    /// How far off it aims at most, in [`Yaw`](crate::Yaw) steps.
    pub error: i32,
    /// From seeing an enemy to the first shot, in milliseconds.
    pub reaction_ms: u32,
    /// The fastest turn, in [`Yaw`](crate::Yaw) steps per second.
    pub turn: i32,
    /// How much of the way that an enemy makes meanwhile it allows for, in thousandths.
    pub lead: i32,
    /// How far it looks for enemies, in units.
    pub sees: f64,
    /// Of ten times that another weapon would be better, it changes in so many.
    pub picks: u32,
    /// At this health it leaves a fight.
    pub retreats: u8,
    /// Whether it hides while its weapon is not ready.
    pub hides: bool,
}

impl Skill {
    /// Skills in turn: one expert and one novice for every two in between. Two of a kind follow each
    /// other, for players who come in turn are put into different teams.
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

/// What a bot likes better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Temper {
    /// Goes for bases, and fights on the way.
    Captures,
    /// Goes for enemies, when it sees one.
    Hunts,
}

impl Temper {
    /// Two of three capture.
    pub fn drawn(rng: &mut Rng) -> Temper {
        if rng.usize(0..3) == 0 { Temper::Hunts } else { Temper::Captures }
    }
}
