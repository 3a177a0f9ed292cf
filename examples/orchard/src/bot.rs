//! A player that a program controls.

use crate::kinds::*;
use crate::rules::{Orchard, OrchardAction, OrchardInput, apart};
use foveate::prelude::*;

/// Ticks after which a request is repeated, because it may have been refused.
const PATIENCE: u32 = 10;
/// From this distance, thrown apples hit the basket.
const NEAR: f32 = 7.0;
/// One apple in this many is eaten.
const HUNGER: u32 = 4;

/// Picks up the nearest apple, throws it into the nearest basket, and eats one now and then.
#[derive(Clone, Debug, Default)]
pub struct Gatherer {
    /// Requests so far. The number also decides what to do with the next apple.
    asked: u32,
    /// When the next request is allowed.
    next: Tick,
}

impl Gatherer {
    fn nearest<T: Replicate>(
        world: &World<'_>,
        from: [f32; 2],
        place: impl Fn(&T) -> Option<[f32; 2]>,
    ) -> Option<(ObjectId, [f32; 2])> {
        let places = world.iter::<T>().filter_map(|(id, it)| Some((id, place(&it)?)));
        places.min_by(|a, b| apart(a.1, from).total_cmp(&apart(b.1, from)))
    }
}

impl Brain<Orchard> for Gatherer {
    fn think(
        &mut self,
        world: &World<'_>,
        me: ObjectId,
        actions: &mut Vec<(ObjectId, OrchardAction)>,
    ) -> OrchardInput {
        let Some(Picker { pos, .. }) = world.get::<Picker>(me) else {
            return OrchardInput::default();
        };
        let mine = |apple: &Apple| {
            let held = apple.state == AppleState::Held && apple.holder == me.origin();
            held.then_some(apple.pos)
        };
        let lying = |apple: &Apple| (apple.state == AppleState::Lying).then_some(apple.pos);
        let held = Gatherer::nearest(world, pos, mine);
        let (goal, near, wish) = match held {
            Some((apple, _)) if self.asked % (2 * HUNGER) == 1 => {
                (pos, NEAR, Some((apple, OrchardAction::Eat)))
            }
            Some((apple, _)) => {
                let basket = Gatherer::nearest(world, pos, |it: &Basket| Some(it.pos));
                let Some((_, goal)) = basket else { return OrchardInput::default() };
                (goal, NEAR, Some((apple, OrchardAction::Throw(goal.map(|at| (at * 4.0) as i16)))))
            }
            None => match Gatherer::nearest(world, pos, lying) {
                Some((apple, goal)) => (goal, 2.0, Some((apple, OrchardAction::Take))),
                None => ([0.0; 2], 0.0, None),
            },
        };
        let away = apart(goal, pos);
        if away <= near {
            if let Some(wish) = wish.filter(|_| !self.next.is_after(world.tick())) {
                actions.push(wish);
                (self.asked, self.next) = (self.asked.wrapping_add(1), world.tick().plus(PATIENCE));
            }
            return OrchardInput::default();
        }
        OrchardInput { step: [0, 1].map(|axis| ((goal[axis] - pos[axis]) / away * 8.0) as i8) }
    }
}
