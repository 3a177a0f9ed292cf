//! A small game for the examples: guards walk in circles, and players walk as they like.

use foveate::prelude::*;

/// A player's avatar.
#[derive(Replicate, Clone, PartialEq, Debug)]
#[replicate(max_speed = 8.0)]
pub struct Walker {
    #[replicate(place, motion)]
    pub pos: [f32; 2],
}

/// An object of the world that walks on a circle with a radius of 20 units.
#[derive(Replicate, Clone, PartialEq, Debug)]
#[replicate(max_speed = 8.0)]
pub struct Guard {
    #[replicate(place, motion)]
    pub pos: [f32; 2],
    pub rounds: u16,
}

/// The rules.
pub struct Patrol {
    schema: Arc<Schema>,
}

impl Patrol {
    pub fn new() -> Result<Arc<Patrol>, SchemaError> {
        Ok(Arc::new(Patrol { schema: Schema::of::<(Walker, Guard)>()? }))
    }
}

impl Game for Patrol {
    /// A step along both axes, in eighths of a unit.
    type Input = [i8; 2];
    type Action = ();
    type Event = ();

    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn populate(&self) -> Vec<Spawn> {
        Spawn::each(&self.schema, [Guard { pos: [20.0, 0.0], rounds: 0 }])
    }

    fn welcome(&self, _: &World<'_>, player: PlayerId, _: &str) -> Vec<Spawn> {
        Spawn::each(&self.schema, [Walker { pos: [0.0, (player.0 % 16) as f32] }])
    }

    fn step(&self, turn: &mut StepContext<'_, Self>, inputs: &[[i8; 2]]) {
        if let Some(mut walker) = turn.get::<Walker>() {
            for input in inputs {
                walker.pos = [0, 1].map(|axis| walker.pos[axis] + f32::from(input[axis]) / 8.0);
            }
            turn.set(&walker);
        }
        if let Some(mut guard) = turn.get::<Guard>() {
            let (turns, step) = (turn.tick().0 / 200, turn.tick().0 % 200);
            let angle = step as f32 / 200.0 * std::f32::consts::TAU;
            (guard.pos, guard.rounds) = ([20.0 * angle.cos(), 20.0 * angle.sin()], turns as u16);
            turn.set(&guard);
        }
    }

    fn allows(&self, input: &[i8; 2]) -> bool {
        input.iter().all(|part| (-2..=2).contains(part))
    }

    fn view(&self, which: u8) -> Option<View> {
        (which == 0).then(|| presets::circle(50.0))
    }
}
