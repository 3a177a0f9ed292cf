//! A small game for the examples: a guard goes round and round, players walk, and a policy of the game's own
//! tells each player what lies within 50 units.

use foveate::prelude::*;
use std::sync::Arc;

/// A player's avatar. Its input says where to go, in eighths of a unit a tick.
#[derive(Replicate, Clone, PartialEq, Debug)]
#[replicate(max_speed = 8.0)]
pub struct Walker {
    #[replicate(place, motion)]
    pub pos: [f32; 2],
}

/// Owned by the server.
#[derive(Replicate, Clone, PartialEq, Debug)]
#[replicate(max_speed = 8.0)]
pub struct Guard {
    #[replicate(place, motion)]
    pub pos: [f32; 2],
    pub rounds: u16,
}

/// The rules.
pub struct Patrol(Arc<Schema>);

impl Patrol {
    pub fn new() -> Result<Arc<Patrol>, foveate::wire::SchemaError> {
        Ok(Arc::new(Patrol(Arc::new(Schema::new(vec![Walker::spec(), Guard::spec()])?))))
    }
}

impl Game for Patrol {
    type Input = [i8; 2];
    type Action = ();
    type Event = ();

    fn schema(&self) -> &Arc<Schema> {
        &self.0
    }

    fn avatar(&self) -> KindId {
        KindId(0)
    }

    fn populate(&self) -> Vec<Spawn> {
        Spawn::new(&self.0, &Guard { pos: [20.0, 0.0], rounds: 0 }).into_iter().collect()
    }

    fn welcome(&self, _: &World<'_>, player: PlayerId, _: &str) -> Vec<Spawn> {
        Spawn::new(&self.0, &Walker { pos: [0.0, player.0 as f32] }).into_iter().collect()
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

    fn act(&self, _: &mut StepContext<'_, Self>, (): &(), _: Requester) {}

    fn allows(&self, input: &[i8; 2]) -> bool {
        input.iter().all(|part| (-2..=2).contains(part))
    }

    fn view(&self, which: u8) -> Option<View> {
        (which == 0).then(|| View::custom("halving"))
    }

    fn policies(&self) -> Vec<(&'static str, Arc<dyn Policy>)> {
        vec![("halving", Arc::new(Halving))]
    }
}

/// Twice as far, half as often, up to 50 units.
struct Halving;

impl Policy for Halving {
    fn grade(&self, sight: &Sight) -> Option<Grade> {
        let far = sight.distance.0 / 10.0;
        (far <= 5.0).then(|| Grade {
            max_age: Micros::from_millis((50.0 * far) as u64),
            max_error: Metres(0.05 * sight.distance.0),
            ..Grade::EXACT
        })
    }

    fn reach(&self) -> Metres {
        Metres(50.0)
    }
}
