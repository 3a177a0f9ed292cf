//! The game that is played while everything breaks: traders walk about, count their steps, and take, drop and recast
//! items, of which there is always the same set.

use foveate_node::game::{Game, PlayerId, Requester, Spawn, StepContext, World};
use foveate_sync::interest::{View, presets};
use foveate_wire::{KindId, ObjectId, Replicate, Schema, SchemaError};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The kind of traders.
pub const TRADER: KindId = KindId(0);
/// The kind of items.
pub const ITEM: KindId = KindId(1);
/// Items in the world, with labels from 0.
pub const ITEMS: u8 = 12;
/// How far a trader walks in a tick at most, per axis, in sixteenths.
const STRIDE: i8 = 8;
const SIDE: f32 = 64.0;

/// A player's avatar. It is kept.
#[derive(Clone, PartialEq, Debug, Replicate)]
pub struct Trader {
    /// Where it is.
    #[replicate(place, motion, precision = 0.0625, extent = 256.0)]
    pub pos: [f32; 2],
    /// Steps that it has ever walked: never falls, and tells how much of a life was lost.
    pub steps: u32,
}

/// One of the [`ITEMS`]. It is the world's, and kept.
#[derive(Clone, PartialEq, Debug, Replicate)]
pub struct TradeItem {
    /// Where it lies, or was taken.
    #[replicate(place, precision = 0.0625, extent = 256.0)]
    pub pos: [f32; 2],
    /// Which one it is, however often it was recast.
    pub label: u8,
    /// The player who has it; 0: it lies about.
    pub holder: u32,
    /// How often it was recast.
    pub casts: u16,
}

/// How a trader walks, in sixteenths of a unit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub struct TraderInput {
    /// East.
    pub x: i8,
    /// North.
    pub y: i8,
}

/// What is asked of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Deal {
    /// Give it to the player, if it lies about or its holder is away.
    Take,
    /// Its holder lets it go.
    Drop,
    /// Its holder makes a new object of it: the old one is removed, a new one created.
    Recast,
}

/// The game.
pub struct Market(Arc<Schema>);

impl Market {
    /// The game; its schema is fixed.
    pub fn new() -> Result<Market, SchemaError> {
        Ok(Market(Arc::new(Schema::new(vec![Trader::spec(), TradeItem::spec()])?)))
    }
}

impl Game for Market {
    type Input = TraderInput;
    type Action = Deal;
    type Event = u8;

    fn schema(&self) -> &Arc<Schema> {
        &self.0
    }

    fn avatar(&self) -> KindId {
        TRADER
    }

    fn populate(&self) -> Vec<Spawn> {
        let item = |label: u8| {
            let pos = [f32::from(label) * 4.0, SIDE / 2.0];
            Spawn::new(&self.0, &TradeItem { pos, label, holder: 0, casts: 0 })
        };
        (0..ITEMS).filter_map(item).collect()
    }

    fn welcome(&self, _: &World<'_>, player: PlayerId, _: &str) -> Vec<Spawn> {
        let pos = [(player.0 % 16) as f32 * 4.0, SIDE / 4.0];
        Spawn::new(&self.0, &Trader { pos, steps: 0 }).into_iter().collect()
    }

    fn step(&self, turn: &mut StepContext<'_, Self>, inputs: &[TraderInput]) {
        let Some(mut trader) = turn.get::<Trader>() else { return };
        for walk in inputs.iter().filter(|walk| **walk != TraderInput::default()) {
            let pos = [walk.x, walk.y].map(|part| f32::from(part) / 16.0);
            trader.pos = [0, 1].map(|axis| (trader.pos[axis] + pos[axis]).clamp(0.0, SIDE));
            trader.steps = trader.steps.wrapping_add(1);
        }
        turn.set(&trader);
    }

    fn act(&self, turn: &mut StepContext<'_, Self>, deal: &Deal, by: Requester) {
        let (Some(mut item), Requester::Player(player, _)) = (turn.get::<TradeItem>(), by) else {
            return;
        };
        let trader = |player: u32| ObjectId::new(TRADER, player, 0);
        let is_free = turn.world().get::<Trader>(trader(item.holder)).is_none();
        match deal {
            Deal::Take if item.holder == 0 || is_free => item.holder = player.0,
            Deal::Drop if item.holder == player.0 => item.holder = 0,
            Deal::Recast if item.holder == player.0 => {
                item.casts = item.casts.wrapping_add(1);
                turn.spawn_world(&item);
                return turn.remove();
            }
            _ => return,
        }
        turn.set(&item);
    }

    fn steps(&self, kind: KindId) -> bool {
        kind == TRADER
    }

    fn keeps(&self, _: KindId) -> bool {
        true
    }

    fn allows(&self, walk: &TraderInput) -> bool {
        walk.x.unsigned_abs() <= STRIDE as u8 && walk.y.unsigned_abs() <= STRIDE as u8
    }

    fn view(&self, which: u8) -> Option<View> {
        (which == 0).then(presets::broadcast)
    }
}
