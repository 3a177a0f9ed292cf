//! The rules of the orchard.

use crate::kinds::*;
use foveate::prelude::*;
use serde::{Deserialize, Serialize};

/// Twenty ticks a second.
pub const ROUND: Micros = Micros::from_millis(50);
/// How far players see.
pub const VIEW: f32 = 60.0;
/// The longest step of a player in a tick.
const STRIDE: f32 = 0.25;
/// How far a player reaches.
const REACH: f32 = 2.5;
/// How far an apple can be thrown.
const THROW: f32 = 12.0;
/// How far a thrown apple flies in a tick.
const FLIGHT: f32 = 0.5;
/// An apple that lands within this distance of a basket is in it.
const BASKET_RADIUS: f32 = 1.5;
/// An apple vanishes this many ticks after it was counted. By then all peers that could take over
/// from the basket's owner know that it was counted, even if they only keep a copy.
const CONFIRMED: u32 = 60;
/// An apple is asked to vanish again after this many ticks.
const REMIND: u32 = 10;
/// A basket that needs room may forget a vanished apple this many ticks after counting it.
const FORGOTTEN: u32 = 300;
/// How far from a tree its apples count as its own.
const CANOPY: f32 = 4.0;

/// A player's input in a tick: a step in eighths of the longest one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct OrchardInput {
    /// Along x and y, each from -8 to 8.
    pub step: [i8; 2],
}

/// Actions on objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum OrchardAction {
    /// A player picks up an apple.
    Take,
    /// A player throws an apple to this point, in quarters of a metre.
    Throw([i16; 2]),
    /// A player eats the apple that it holds.
    Eat,
    /// A basket removes an apple that it has counted.
    Vanish,
    /// An apple tells a player's avatar that it was eaten.
    Eaten,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum OrchardEvent {
    /// A basket counted an apple; this is its score now.
    Scored(u16),
}

/// The size of an orchard.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct OrchardSpec {
    /// Trees, spread over a disc.
    pub trees: u32,
    /// Baskets, on a circle around its centre.
    pub baskets: u32,
    /// The disc's radius, in metres.
    pub radius: f32,
    /// Ticks between two apples of a tree.
    pub ripens: u32,
    /// A tree bears no apples while this many lie under it.
    pub crop: usize,
}

impl Default for OrchardSpec {
    fn default() -> OrchardSpec {
        OrchardSpec { trees: 12, baskets: 3, radius: 30.0, ripens: 60, crop: 3 }
    }
}

pub struct Orchard {
    schema: Arc<Schema>,
    spec: OrchardSpec,
}

impl Orchard {
    pub fn new(spec: OrchardSpec) -> Result<Arc<Orchard>, SchemaError> {
        let schema = Schema::of::<(Picker, AppleTree, Apple, Basket)>()?;
        Ok(Arc::new(Orchard { schema, spec }))
    }

    /// The `nth` of `count` points that are spread evenly over the disc.
    fn spread(&self, nth: u32, count: u32) -> [f32; 2] {
        let away = self.spec.radius * ((nth as f32 + 0.5) / count as f32).sqrt();
        let angle = nth as f32 * 2.399_963;
        [away * angle.cos(), away * angle.sin()]
    }

    fn grow(&self, turn: &mut StepContext<'_, Orchard>, mut tree: AppleTree) {
        let (now, latest) = (turn.tick(), turn.tick().plus(self.spec.ripens));
        let ripe = Tick(tree.ripe);
        // A restarted server begins at tick 0 again.
        if ripe.is_after(latest) {
            tree.ripe = latest.0;
            return turn.set(&tree);
        }
        if ripe.is_after(now) {
            return;
        }
        tree.ripe = latest.0;
        let near = turn.world().iter_near::<Apple>(tree.pos, CANOPY);
        if near.filter(|(_, apple)| apple.state == AppleState::Lying).count() < self.spec.crop {
            let angle = f32::from(tree.made) * 2.399_963;
            let pos = [tree.pos[0] + 2.0 * angle.cos(), tree.pos[1] + 2.0 * angle.sin()];
            tree.made = tree.made.wrapping_add(1);
            turn.spawn_world(&Apple::lying(pos));
        }
        turn.set(&tree);
    }

    fn count(&self, turn: &mut StepContext<'_, Orchard>, mut basket: Basket) {
        let now = turn.tick();
        let near = turn.world().iter_near::<Apple>(basket.pos, BASKET_RADIUS);
        let inside = near.filter(|(_, apple)| apple.state == AppleState::InBasket);
        let inside: Vec<ObjectId> = inside.map(|(id, _)| id).collect();
        let before = basket.counted();
        let mut counted = before.clone();
        // The list is bounded, and filled up before anything is forgotten: an apple may be out of
        // sight for a while, and must not count again.
        let is_old =
            |(id, at): &(ObjectId, Tick)| !inside.contains(id) && now.since(*at) >= FORGOTTEN;
        if counted.len() == REMEMBERED
            && let Some(oldest) = counted.iter().position(is_old)
        {
            counted.remove(oldest);
        }
        for id in inside {
            match counted.iter().find(|(known, _)| *known == id) {
                Some((_, at)) => {
                    let age = now.since(*at);
                    if age >= CONFIRMED && age.is_multiple_of(REMIND) {
                        turn.ask(id, OrchardAction::Vanish);
                    }
                }
                None if counted.len() < REMEMBERED => {
                    counted.push((id, now));
                    basket.score = basket.score.wrapping_add(1);
                    let area = EventArea::around(basket.pos, VIEW);
                    turn.event(area, OrchardEvent::Scored(basket.score));
                }
                None => {}
            }
        }
        if counted != before {
            basket.set_counted(&counted);
            turn.set(&basket);
        }
    }

    fn move_apple(&self, turn: &mut StepContext<'_, Orchard>, mut apple: Apple) {
        match apple.state {
            AppleState::Lying => return,
            // A peer that takes it over after a crash may have seen it fly on past the basket.
            AppleState::InBasket => apple.pos = [apple.to_x, apple.to_y],
            AppleState::Held => {
                let avatar = self.avatar_of(PlayerId(apple.holder));
                match turn.world().get::<Picker>(avatar) {
                    Some(picker) => apple.pos = towards(apple.pos, picker.pos, FLIGHT),
                    // The player has left.
                    None => apple = Apple::lying(apple.pos),
                }
            }
            AppleState::Flying => {
                let goal = [apple.to_x, apple.to_y];
                apple.pos = towards(apple.pos, goal, FLIGHT);
                let flies = Tick(apple.lands).is_after(turn.tick());
                if !flies || apple.pos == goal {
                    apple =
                        Apple { to_x: apple.pos[0], to_y: apple.pos[1], ..Apple::lying(apple.pos) };
                    if turn.world().iter_near::<Basket>(apple.pos, BASKET_RADIUS).next().is_some() {
                        apple.state = AppleState::InBasket;
                    }
                }
            }
        }
        turn.set(&apple);
    }

    fn ask_apple(
        &self,
        turn: &mut StepContext<'_, Orchard>,
        action: &OrchardAction,
        by: Requester,
    ) {
        let Some(mut apple) = turn.get::<Apple>() else { return };
        let player = match (action, by) {
            (OrchardAction::Vanish, Requester::Object(id)) if id.kind() == BASKET => {
                if apple.state == AppleState::InBasket {
                    turn.remove();
                }
                return;
            }
            (_, Requester::Player(player, _)) => player,
            _ => return,
        };
        let avatar = self.avatar_of(player);
        let holds = apple.state == AppleState::Held && apple.holder == player.0;
        match action {
            OrchardAction::Take if apple.state == AppleState::Lying => {
                let picker = turn.world().get::<Picker>(avatar);
                if picker.is_some_and(|picker| apart(picker.pos, apple.pos) <= REACH) {
                    (apple.state, apple.holder) = (AppleState::Held, player.0);
                }
            }
            OrchardAction::Throw(to) if holds => {
                let goal = towards(apple.pos, to.map(|at| f32::from(at) / 4.0), THROW);
                let ticks = (apart(apple.pos, goal) / FLIGHT).ceil() as u32;
                (apple.to_x, apple.to_y) = (goal[0], goal[1]);
                (apple.state, apple.lands) = (AppleState::Flying, turn.tick().plus(ticks).0);
            }
            OrchardAction::Eat if holds => {
                turn.ask(avatar, OrchardAction::Eaten);
                return turn.remove();
            }
            _ => return,
        }
        turn.set(&apple);
    }
}

pub(crate) fn apart(a: [f32; 2], b: [f32; 2]) -> f32 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}

/// The point on the way from one point to another, at most this far.
fn towards(from: [f32; 2], to: [f32; 2], far: f32) -> [f32; 2] {
    let away = apart(from, to);
    if away <= far {
        to
    } else {
        [0, 1].map(|axis| from[axis] + (to[axis] - from[axis]) / away * far)
    }
}

impl Game for Orchard {
    type Input = OrchardInput;
    type Action = OrchardAction;
    type Event = OrchardEvent;

    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn populate(&self) -> Vec<Spawn> {
        let OrchardSpec { trees, baskets, .. } = self.spec;
        let tree = |nth| AppleTree { pos: self.spread(nth, trees), ripe: nth * 5, made: 0 };
        let basket = |nth: u32| {
            let angle = nth as f32 / baskets as f32 * std::f32::consts::TAU;
            Basket::at([angle.cos(), angle.sin()].map(|way| way * self.spec.radius / 2.0))
        };
        let trees = Spawn::each(&self.schema, (0..trees).map(tree));
        [trees, Spawn::each(&self.schema, (0..baskets).map(basket))].concat()
    }

    fn welcome(&self, _: &World<'_>, player: PlayerId, _: &str) -> Vec<Spawn> {
        Spawn::each(&self.schema, [Picker { pos: self.spread(player.0 % 97, 97), eaten: 0 }])
    }

    fn step(&self, turn: &mut StepContext<'_, Orchard>, inputs: &[OrchardInput]) {
        if let Some(mut picker) = turn.get::<Picker>() {
            for input in inputs {
                let step = input.step.map(|way| f32::from(way) / 8.0 * STRIDE);
                let goal = [picker.pos[0] + step[0], picker.pos[1] + step[1]];
                picker.pos = towards(picker.pos, goal, STRIDE);
            }
            turn.set(&picker);
        } else if let Some(tree) = turn.get::<AppleTree>() {
            self.grow(turn, tree);
        } else if let Some(apple) = turn.get::<Apple>() {
            self.move_apple(turn, apple);
        } else if let Some(basket) = turn.get::<Basket>() {
            self.count(turn, basket);
        }
    }

    fn act(&self, turn: &mut StepContext<'_, Orchard>, action: &OrchardAction, by: Requester) {
        match (turn.get::<Picker>(), action, by) {
            (Some(mut picker), OrchardAction::Eaten, Requester::Object(id))
                if id.kind() == APPLE =>
            {
                picker.eaten = picker.eaten.wrapping_add(1);
                turn.set(&picker);
            }
            (Some(_), ..) => {}
            (None, ..) => self.ask_apple(turn, action, by),
        }
    }

    fn limits(&self, action: &OrchardAction, _: ObjectId) -> ActionLimits {
        let (source, reach) = match action {
            OrchardAction::Vanish => (ActionSource::Kinds(&[BASKET]), Some(BASKET_RADIUS)),
            OrchardAction::Eaten => (ActionSource::Kinds(&[APPLE]), None),
            OrchardAction::Take => (ActionSource::Players, Some(REACH)),
            OrchardAction::Throw(_) | OrchardAction::Eat => (ActionSource::Players, None),
        };
        ActionLimits { source, reach, ..ActionLimits::default() }
    }

    fn keeps(&self, _: KindId) -> bool {
        true
    }

    fn allows(&self, input: &OrchardInput) -> bool {
        input.step.iter().all(|way| (-8..=8).contains(way))
    }

    fn view(&self, which: u8) -> Option<View> {
        (which == 0).then(|| presets::circle(VIEW))
    }
}
