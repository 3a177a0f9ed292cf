//! Registers replicated components: their types become parts of kinds, in the order of
//! registration.

use crate::game::{EcsGame, PlayerEntry, TypedMessage};
use crate::input::InputBytes;
use crate::{client, server};
use bevy_app::App;
use bevy_ecs::component::{Component, Mutable};
use bevy_ecs::prelude::{Message, Resource, World};
use bevy_ecs::world::EntityWorldMut;
use foveate::node::game::PlayerId;
use foveate::wire::{
    FieldSpec, Kind, KindId, KindSpec, PlaceLanes, Replicate, Schema, SchemaError, Tick,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// The most types of messages.
pub const MAX_MESSAGE_TYPES: usize = 256;

/// A component that can be replicated: `#[derive(Component, Replicate)]`.
pub trait Replicated: Component<Mutability = Mutable> + Replicate {}

impl<T: Component<Mutability = Mutable> + Replicate> Replicated for T {}

/// A type of messages from players to the server.
pub trait PlayerMessage: Serialize + DeserializeOwned + Send + Sync + 'static {}

impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> PlayerMessage for T {}

/// At a client: write this event, and the server reads it as [`FromPlayer`]. It arrives, and in
/// order; messages written before the client has joined are dropped.
#[derive(Message, Clone, Debug)]
pub struct ToServer<M: PlayerMessage>(pub M);

/// At the server: a message from a player.
#[derive(Message, Clone, Debug)]
pub struct FromPlayer<M: PlayerMessage> {
    pub player: PlayerId,
    /// The tick that the player claims to have seen when it sent this, for lag compensation.
    pub seen: Tick,
    pub message: M,
}

/// A resource at a client: the player's input. It is sent in every round, changed or not. A lost
/// input is repeated with the next ones, and nothing waits for it.
#[derive(Resource, Clone, Copy, PartialEq, Default, Debug)]
pub struct NetInput<I: PlayerInput>(pub I);

/// At the server: a player's input in one tick. Usually one per round, in order.
#[derive(Message, Clone, Copy, PartialEq, Debug)]
pub struct InputFrom<I: PlayerInput> {
    pub player: PlayerId,
    pub input: I,
}

/// The type of players' inputs: keys held, direction of view. At most
/// [`MAX_INPUT`](crate::MAX_INPUT) bytes long.
pub trait PlayerInput: Default + PlayerMessage {}

impl<T: Default + PlayerMessage> PlayerInput for T {}

/// What an app replicates. Server and client must make the same calls in the same order, best in a
/// plugin that both add; a client with differences is rejected with an explanation.
pub trait ReplicateApp {
    /// Replicates a component: every entity that has it, to every player whose view covers it.
    fn replicate<T: Replicated>(&mut self) -> &mut Self;

    /// Replicates several components as one object, while an entity has all of them. This is
    /// cheaper than separate objects, and gives components without a place the place of the others:
    /// a component without a place that is replicated alone is sent to all observers.
    fn replicate_together<T: Together>(&mut self) -> &mut Self;

    /// Registers a type of messages from players to the server.
    fn player_message<M: PlayerMessage>(&mut self) -> &mut Self;

    /// Registers the type of players' inputs: the client's [`NetInput`] becomes the server's
    /// [`InputFrom`]. There is only one; a second call replaces the first.
    fn player_input<I: PlayerInput>(&mut self) -> &mut Self;
}

impl ReplicateApp for App {
    fn replicate<T: Replicated>(&mut self) -> &mut Self {
        self.replicate_together::<(T,)>()
    }

    fn replicate_together<T: Together>(&mut self) -> &mut Self {
        let registry = self.world_mut().get_resource_or_init::<Registry>();
        let at = registry.kinds.len();
        let mut parts = Vec::new();
        T::register(self, &mut parts, at);
        self.world_mut().get_resource_or_init::<Registry>().kinds.push(parts);
        self
    }

    fn player_message<M: PlayerMessage>(&mut self) -> &mut Self {
        self.add_message::<ToServer<M>>().add_message::<FromPlayer<M>>();
        let mut registry = self.world_mut().get_resource_or_init::<Registry>();
        let of = registry.typed_messages.len();
        assert!(of < MAX_MESSAGE_TYPES, "more than {MAX_MESSAGE_TYPES} types of messages");
        registry.typed_messages.push((short_name::<M>(), open_letter::<M>));
        client::add_post::<M>(self, of as u8);
        self
    }

    fn player_input<I: PlayerInput>(&mut self) -> &mut Self {
        self.init_resource::<NetInput<I>>().add_message::<InputFrom<I>>();
        let codec = InputCodec {
            name: short_name::<I>(),
            write: |world| {
                let input = world.get_resource::<NetInput<I>>();
                input.and_then(|input| InputBytes::write(&input.0)).unwrap_or_default()
            },
            read: |world, player, bytes| {
                let Some(input) = bytes.read::<I>() else { return false };
                world.write_message(InputFrom { player, input });
                true
            },
        };
        self.world_mut().get_resource_or_init::<Registry>().input = Some(codec);
        self
    }
}

/// A type's name without its path, which may differ between two programs.
fn short_name<M>() -> &'static str {
    let name = std::any::type_name::<M>();
    name.split('<').next().and_then(|path| path.rsplit("::").next()).unwrap_or(name)
}

fn open_letter<M: PlayerMessage>(
    world: &mut World,
    player: PlayerId,
    seen: Tick,
    bytes: &[u8],
) -> bool {
    let Ok((message, [])) = postcard::take_from_bytes::<M>(bytes) else { return false };
    world.write_message(FromPlayer { player, seen, message });
    true
}

pub(crate) fn write_typed<M: PlayerMessage>(of: u8, message: &M) -> Option<TypedMessage> {
    Some(TypedMessage { of, bytes: postcard::to_allocvec(message).ok()? })
}

/// One to four components that form one object.
pub trait Together: 'static {
    #[doc(hidden)]
    fn register(app: &mut App, parts: &mut Vec<Plan>, kind: usize);
}

macro_rules! together {
    ($($part:ident),*) => {
        impl<$($part: Replicated),*> Together for ($($part,)*) {
            fn register(app: &mut App, parts: &mut Vec<Plan>, kind: usize) {
                $( parts.push(Plan::of::<$part>());
                server::add_collect::<$part>(app, kind, parts.len() - 1); )*
            }
        }
    };
}

together!(A);
together!(A, B);
together!(A, B, C);
together!(A, B, C, D);

/// A component that becomes part of a kind.
#[derive(Clone)]
#[doc(hidden)]
pub struct Plan {
    spec: KindSpec,
    apply: fn(&mut EntityWorldMut<'_>, &Kind, &[i32]),
    remove: fn(&mut EntityWorldMut<'_>),
}

impl Plan {
    fn of<T: Replicated>() -> Plan {
        Plan {
            spec: T::spec(),
            apply: |entity, kind, lanes| {
                let value = T::get(kind, lanes);
                match entity.get_mut::<T>() {
                    Some(mut known) => *known = value,
                    None => {
                        entity.insert(value);
                    }
                }
            },
            remove: |entity| {
                entity.remove::<T>();
            },
        }
    }
}

type Open = fn(&mut World, PlayerId, Tick, &[u8]) -> bool;

/// Writes and reads inputs.
#[derive(Clone, Copy)]
pub(crate) struct InputCodec {
    name: &'static str,
    pub write: fn(&World) -> InputBytes,
    pub read: fn(&mut World, PlayerId, &InputBytes) -> bool,
}

/// The registrations of the app so far.
#[derive(Resource, Default)]
pub(crate) struct Registry {
    kinds: Vec<Vec<Plan>>,
    /// The types of messages, with their names.
    pub typed_messages: Vec<(&'static str, Open)>,
    pub input: Option<InputCodec>,
}

impl Registry {
    /// Builds the schema.
    pub fn build(&self, serves: bool) -> Result<Table, SchemaError> {
        let mut seat = PlayerEntry::spec();
        let specs: Vec<KindSpec> = self.kinds.iter().map(|parts| together(parts)).collect();
        // A seat is at the place of an app's object: with a lower speed limit, its steps would
        // count as jumps.
        seat.max_speed = specs.iter().map(|spec| spec.max_speed).fold(0.0, f32::max);
        // Part of the hash, so that a difference in the numbering of messages is noticed.
        let typed_messages = self.typed_messages.iter().map(|(name, _)| format!(", {name}"));
        seat.fields[PlayerEntry::EYES].name.extend(typed_messages);
        let input = self.input.iter().map(|codec| format!("; {}", codec.name));
        seat.fields[PlayerEntry::EYES].name.extend(input);
        let schema = Schema::new([specs, vec![seat]].concat())?;
        let kinds = self.kinds.iter().map(|parts| compile(parts)).collect::<Result<_, _>>()?;
        Ok(Table { game: Arc::new(EcsGame::new(Arc::new(schema), serves)), kinds })
    }
}

/// The specification of several components as one kind.
fn together(parts: &[Plan]) -> KindSpec {
    let [only] = parts else {
        let names: Vec<&str> = parts.iter().map(|part| part.spec.name.as_str()).collect();
        let named = |part: &Plan| {
            let name = part.spec.name.clone();
            let field = move |field: &FieldSpec| FieldSpec {
                name: format!("{name}.{}", field.name),
                ..field.clone()
            };
            part.spec.fields.iter().map(field).collect::<Vec<_>>()
        };
        let speeds = parts.iter().map(|part| part.spec.max_speed);
        return KindSpec {
            name: names.join(" + "),
            fields: parts.iter().flat_map(named).collect(),
            max_speed: speeds.fold(0.0, f32::max),
            fall: parts.iter().map(|part| part.spec.fall).find(|fall| *fall != 0).unwrap_or(0),
        };
    };
    only.spec.clone()
}

fn compile(parts: &[Plan]) -> Result<Vec<Part>, SchemaError> {
    let mut first = 0;
    let mut compiled = Vec::new();
    for plan in parts {
        let alone = Schema::new(vec![plan.spec.clone()])?;
        compiled.push(Part { alone: alone.kinds()[0].clone(), first, plan: plan.clone() });
        first += plan.spec.fields.len();
    }
    Ok(compiled)
}

/// One component of a kind.
pub(crate) struct Part {
    /// The component as its own kind, for writing and reading.
    alone: Kind,
    /// The index of its first field in the whole kind.
    first: usize,
    plan: Plan,
}

impl Part {
    /// Writes the component into the lanes of the whole kind; `own` is a buffer.
    pub fn put<T: Replicate>(
        &self,
        value: &T,
        whole: &Kind,
        lanes: &mut [i32],
        own: &mut Vec<i32>,
    ) {
        own.clear();
        own.resize(self.alone.lane_count(), 0);
        value.put(&self.alone, own);
        for (field, range) in self.alone.ranges.iter().enumerate() {
            lanes[whole.ranges[self.first + field].clone()].copy_from_slice(&own[range.clone()]);
        }
    }

    /// Inserts the component into an entity.
    pub fn apply(
        &self,
        entity: &mut EntityWorldMut<'_>,
        whole: &Kind,
        lanes: &[i32],
        own: &mut Vec<i32>,
    ) {
        own.clear();
        own.resize(self.alone.lane_count(), 0);
        for (field, range) in self.alone.ranges.iter().enumerate() {
            own[range.clone()].copy_from_slice(&lanes[whole.ranges[self.first + field].clone()]);
        }
        (self.plan.apply)(entity, &self.alone, own);
    }

    /// Removes the component from an entity.
    pub fn remove(&self, entity: &mut EntityWorldMut<'_>) {
        (self.plan.remove)(entity);
    }
}

/// The kinds of an app, ready for use.
pub(crate) struct Table {
    pub game: Arc<EcsGame>,
    /// By id, which is the order of registration, without the seat.
    pub kinds: Vec<Vec<Part>>,
}

impl Table {
    /// The parts of a kind; none for seats.
    pub fn parts(&self, kind: KindId) -> &[Part] {
        self.kinds.get(usize::from(kind.0)).map_or(&[], Vec::as_slice)
    }
}

/// Writes a shown place into lanes.
pub(crate) fn put_place(place: &PlaceLanes, at: [f32; 3], lanes: &mut [i32]) {
    for (axis, lane) in lanes[place.at..place.at + place.dims].iter_mut().enumerate() {
        let steps = (f64::from(at[axis]) / f64::from(place.precision)).round() as i32;
        *lane = steps.clamp(-place.extent_steps, place.extent_steps);
    }
}
