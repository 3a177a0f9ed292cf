//! A match of bots in one process, without a network: for tests, for tuning, and as an example of
//! how a server runs the rules.

use crate::brain::{Fighter, Skill};
use crate::error::ArenaError;
use crate::game::kinds::Avatar;
use crate::game::{Arena, ArenaEvent, Setup};
use foveate_node::Simulation;
use foveate_node::game::{Brain, EventArea, Game, PlayerId, Requester};
use foveate_sync::Rounds;
use foveate_wire::{Micros, Tick};
use std::sync::Arc;

/// Bots that play against each other. Each tick: [`think`](Practice::think), then
/// [`step`](Practice::step).
///
/// ```
/// use foveate_arena::{Practice, Setup};
/// let mut practice = Practice::new(Setup::for_players(16, 7), 16)?;
/// for _ in 0..100 {
///     practice.think();
///     practice.step();
/// }
/// assert_eq!(practice.simulation.world().tick().0, 100);
/// # Ok::<(), foveate_arena::ArenaError>(())
/// ```
pub struct Practice {
    /// The world and its rules.
    pub simulation: Simulation<Arena>,
    fighters: Vec<(PlayerId, Fighter)>,
    happened: Vec<(EventArea, ArenaEvent)>,
}

impl Practice {
    /// A new world with bots of mixed skills; their players' numbers start at 1.
    pub fn new(setup: Setup, bots: usize) -> Result<Practice, ArenaError> {
        let mut practice = Practice::on(Arc::new(Arena::new(setup)?))?;
        for index in 0..bots {
            practice.join(PlayerId(index as u32 + 1), Skill::mixed(index))?;
        }
        Ok(practice)
    }

    /// A new world without bots.
    pub fn on(arena: Arc<Arena>) -> Result<Practice, ArenaError> {
        let length = Micros(1_000_000 / u64::from(arena.setup().rate.hz()));
        let mut simulation = Simulation::new(arena, Rounds::every(length));
        simulation.populate()?;
        Ok(Practice { simulation, fighters: Vec::new(), happened: Vec::new() })
    }

    /// Adds a bot.
    pub fn join(&mut self, player: PlayerId, skill: Skill) -> Result<(), ArenaError> {
        let arena = Arc::clone(&self.simulation.game);
        for spawn in arena.welcome(&self.simulation.world(), player, "bot") {
            self.simulation.spawn(player, &spawn)?;
        }
        let seed = arena.setup().seed;
        self.fighters.push((player, Fighter::new(arena, skill, seed, u64::from(player.0))));
        Ok(())
    }

    /// All bots decide what to do in the coming tick.
    pub fn think(&mut self) {
        let mut decided = Vec::with_capacity(self.fighters.len());
        let mut actions = Vec::new();
        let world = self.simulation.world();
        let seen = world.tick();
        for (player, fighter) in &mut self.fighters {
            let me = Avatar::of(player.0);
            let before = actions.len();
            decided.push((me, fighter.think(&world, me, &mut actions), actions.len() - before));
        }
        let mut actions = actions.into_iter();
        for (me, input, count) in decided {
            // Cannot be refused: one input per tick, and few actions.
            self.simulation.input(me, input);
            let by = Requester::Player(PlayerId(me.origin()), seen);
            for (object, action) in actions.by_ref().take(count) {
                self.simulation.ask(object, action, by);
            }
        }
    }

    /// Runs one tick of the rules; returns the events.
    pub fn step(&mut self) -> &[(EventArea, ArenaEvent)] {
        self.step_to(self.tick().plus(1))
    }

    /// The same, but skips to this tick, as a stalled node does.
    pub fn step_to(&mut self, tick: Tick) -> &[(EventArea, ArenaEvent)] {
        let Practice { simulation, happened, .. } = self;
        happened.clear();
        simulation.step(tick, |spot, event| happened.push((spot, event)));
        let length = simulation.publisher.rounds().length;
        simulation.publisher.round(tick, length * tick.0, |_, _| {});
        happened
    }

    /// The tick that was run last.
    pub fn tick(&self) -> Tick {
        self.simulation.publisher.store.tick()
    }
}
