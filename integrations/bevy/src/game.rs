//! The ECS as a [`Game`] whose rules do nothing, because systems are the rules.
//!
//! A session needs an avatar. Here it is a *seat*: a hidden object that is only sent to its player.
//! It names the entity that the player looks from, and messages to the server are addressed to it.

use crate::input::InputBytes;
use foveate::node::game::{Game, PlayerId, Requester, Spawn, StepContext, World};
use foveate::sync::interest::{Floors, Grade, Policy, Sight, View, presets};
use foveate::wire::{KindId, Metres, Micros, ObjectId, Replicate, Schema, Tick};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError};

/// The most messages of all players that wait for the next frame; others are dropped and counted.
pub const MAX_TYPED_MESSAGES: usize = 16_384;
/// The radius of the view of players that have just joined, which contains nothing.
const BLIND: f32 = 0.01;

/// The seat: an object that is only sent to its player.
#[derive(Replicate, Clone, Copy, PartialEq, Debug)]
#[replicate(name = "foveate seat")]
pub(crate) struct PlayerEntry {
    /// The place that the player looks from. The pipeline finds objects by place; the client does
    /// not use it, and it is never sent on its own.
    #[replicate(place, precision = 0.25, extent = 4194304.0)]
    pub at: [f32; 3],
    /// The serial of the entity that the player looks from.
    pub eyes: Option<u32>,
}

impl PlayerEntry {
    /// The index of the field `eyes`.
    pub const EYES: usize = 1;
}

/// The grade of a player's own seat, so that it is always up to date.
const OWN: Grade =
    Grade { max_age: Micros::ZERO, max_error: Metres(1e9), floor: Metres(1e9), ..Grade::EXACT };

/// A message of a player: the number of its type, and its bytes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TypedMessage {
    pub(crate) of: u8,
    pub(crate) bytes: Vec<u8>,
}

/// What players sent since the last frame.
#[derive(Default, Debug)]
pub(crate) struct Inbox {
    pub typed_messages: Vec<(PlayerId, Tick, TypedMessage)>,
    /// At most two for each player, like a tick.
    pub inputs: Vec<(PlayerId, InputBytes)>,
    pub dropped: u64,
}

/// The rules: none.
#[derive(Debug)]
pub struct EcsGame {
    schema: Arc<Schema>,
    /// After all kinds of the app, so that a difference between those is reported first.
    seat: KindId,
    /// True at a server. A client runs rules too, to predict, but nothing would empty its inbox.
    serves: bool,
    inbox: Mutex<Inbox>,
}

impl EcsGame {
    /// The last kind of the schema must be that of seats.
    pub(crate) fn new(schema: Arc<Schema>, serves: bool) -> EcsGame {
        let seat = KindId(schema.kinds().len().saturating_sub(1) as u8);
        EcsGame { schema, seat, serves, inbox: Mutex::default() }
    }

    /// Takes what players sent, and the number of dropped messages.
    pub(crate) fn take_inbox(&self) -> Inbox {
        std::mem::take(&mut *self.inbox.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Game for EcsGame {
    type Input = InputBytes;
    type Action = TypedMessage;
    type Event = ();

    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn avatar(&self) -> KindId {
        self.seat
    }

    fn populate(&self) -> Vec<Spawn> {
        Vec::new()
    }

    fn welcome(&self, _: &World<'_>, _: PlayerId, _: &str) -> Vec<Spawn> {
        let seat = PlayerEntry { at: [0.0; 3], eyes: None };
        Spawn::new(&self.schema, &seat).into_iter().collect()
    }

    /// Called at the server once a tick; its frame takes the inputs out.
    fn step(&self, turn: &mut StepContext<'_, Self>, inputs: &[InputBytes]) {
        if self.serves && !inputs.is_empty() {
            let player = PlayerId(turn.id().origin());
            let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
            inbox.inputs.extend(inputs.iter().map(|input| (player, *input)));
        }
    }

    fn act(&self, turn: &mut StepContext<'_, Self>, letter: &TypedMessage, by: Requester) {
        let Requester::Player(player, seen) = by else { return };
        let mut inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner);
        // Any seat would do, but a player may only address its own.
        let own = turn.id().kind() == self.seat && turn.id().origin() == player.0;
        if own && inbox.typed_messages.len() < MAX_TYPED_MESSAGES {
            inbox.typed_messages.push((player, seen, letter.clone()));
        } else {
            inbox.dropped += 1;
        }
    }

    fn steps(&self, kind: KindId) -> bool {
        kind == self.seat
    }

    /// Views are components; a player that has just joined sees nothing until the next frame.
    fn view(&self, which: u8) -> Option<View> {
        (which == 0).then(|| presets::circle(BLIND))
    }
}

/// A player's view without the seats of other players.
pub(crate) struct Private {
    /// The player's seat.
    pub seat: ObjectId,
    /// `None`: there is nothing to look from.
    pub view: Option<Arc<dyn Policy>>,
}

impl Policy for Private {
    fn grade(&self, sight: &Sight) -> Option<Grade> {
        if sight.kind == self.seat.kind() {
            return (sight.object == self.seat).then_some(OWN);
        }
        self.view.as_ref()?.grade(sight)
    }

    fn reach(&self) -> Metres {
        // Large enough for the own seat, whose place is rounded.
        Metres(self.view.as_ref().map_or(0.0, |view| view.reach().0).max(1.0))
    }

    fn floors(&self) -> Option<Floors> {
        self.view.as_ref().and_then(|view| view.floors())
    }
}
