//! What is replicated: component types become parts of kinds, in the order in which they are named.

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

/// At a client: write it, and the server reads it as [`FromPlayer`]. It arrives, and in order; what is
/// written before the client is in is dropped.
#[derive(Message, Clone, Debug)]
pub struct ToServer<M: PlayerMessage>(pub M);

/// At the server: what a player sent.
#[derive(Message, Clone, Debug)]
pub struct FromPlayer<M: PlayerMessage> {
    pub player: PlayerId,
    /// The tick that they saw when they sent it, for lag compensation. It is what they say.
    pub seen: Tick,
    /// What.
    pub message: M,
}

/// At a client, a resource: what the player does. Sent in every round, whether it changed or not; what is
/// lost is made up for by the next ones, and nothing waits for it.
#[derive(Resource, Clone, Copy, PartialEq, Default, Debug)]
pub struct NetInput<I: PlayerInput>(pub I);

/// At the server: what a player did in one tick. Mostly one a round, in order.
#[derive(Message, Clone, Copy, PartialEq, Debug)]
pub struct InputFrom<I: PlayerInput> {
    pub player: PlayerId,
    /// What.
    pub input: I,
}

/// What a player does in a tick: keys held, where they look. At most
/// [`MAX_INPUT`](crate::MAX_INPUT) bytes long.
pub trait PlayerInput: Default + PlayerMessage {}

impl<T: Default + PlayerMessage> PlayerInput for T {}

/// What an app replicates. Server and client call the same functions in the same order, best in one
/// plugin that both add; a difference is refused on joining, in words.
pub trait ReplicateApp {
    /// Replicates a component: every entity that has it, to every player whose view covers it.
    fn replicate<T: Replicated>(&mut self) -> &mut Self;

    /// Replicates several components as one object, while an entity has all of them. Cheaper than one
    /// by one, and what has no place of its own is where the others are: a component without a place
    /// that is replicated alone is told to all observers.
    fn replicate_together<T: Together>(&mut self) -> &mut Self;

    /// A type of messages from players to the server.
    fn player_message<M: PlayerMessage>(&mut self) -> &mut Self;

    /// The type of players' inputs: the client's [`NetInput`] becomes the server's [`InputFrom`]. There is
    /// one; a second call takes the place of the first.
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

/// A type's own name: where it is defined may differ between two programs.
fn short_name<M>() -> &'static str {
    let name = std::any::type_name::<M>();
    name.split('<').next().and_then(|path| path.rsplit("::").next()).unwrap_or(name)
}

fn open_letter<M: PlayerMessage>(
    world: &mut World,
    (player, seen): (PlayerId, Tick),
    bytes: &[u8],
) -> bool {
    let Ok((message, [])) = postcard::take_from_bytes::<M>(bytes) else { return false };
    world.write_message(FromPlayer { player, seen, message });
    true
}

pub(crate) fn write_typed<M: PlayerMessage>(of: u8, message: &M) -> Option<TypedMessage> {
    Some(TypedMessage { of, bytes: postcard::to_allocvec(message).ok()? })
}

/// One to four components that are one object.
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

/// A component that is to become part of a kind.
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

type Open = fn(&mut World, (PlayerId, Tick), &[u8]) -> bool;

/// How inputs are written and read.
#[derive(Clone, Copy)]
pub(crate) struct InputCodec {
    name: &'static str,
    pub write: fn(&World) -> InputBytes,
    pub read: fn(&mut World, PlayerId, &InputBytes) -> bool,
}

/// What the app named so far.
#[derive(Resource, Default)]
pub(crate) struct Registry {
    kinds: Vec<Vec<Plan>>,
    /// With the names of their types.
    pub typed_messages: Vec<(&'static str, Open)>,
    pub input: Option<InputCodec>,
}

impl Registry {
    /// Puts the schema together.
    pub fn build(&self, serves: bool) -> Result<Table, SchemaError> {
        let mut seat = PlayerEntry::spec();
        let specs: Vec<KindSpec> = self.kinds.iter().map(|parts| together(parts)).collect();
        // A seat is where an object of the user's is: slower, its every step would count as a jump.
        seat.max_speed = specs.iter().map(|spec| spec.max_speed).fold(0.0, f32::max);
        // Part of the hash, so that both ends number their messages alike or are told.
        let typed_messages = self.typed_messages.iter().map(|(name, _)| format!(", {name}"));
        seat.fields[PlayerEntry::EYES].name.extend(typed_messages);
        let input = self.input.iter().map(|codec| format!("; {}", codec.name));
        seat.fields[PlayerEntry::EYES].name.extend(input);
        let schema = Schema::new([specs, vec![seat]].concat())?;
        let kinds = self.kinds.iter().map(|parts| compile(parts)).collect::<Result<_, _>>()?;
        Ok(Table { game: Arc::new(EcsGame::new(Arc::new(schema), serves)), kinds })
    }
}

/// The statement of several components as one kind.
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
    /// The component as a kind of its own: how it is written and read.
    alone: Kind,
    /// Its first field among those of the whole.
    first: usize,
    plan: Plan,
}

impl Part {
    /// Writes the component into the lanes of the whole; `own` is memory to use.
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

    /// Gives the component to an entity.
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

    /// Takes the component from an entity.
    pub fn remove(&self, entity: &mut EntityWorldMut<'_>) {
        (self.plan.remove)(entity);
    }
}

/// The kinds of an app, ready for use.
pub(crate) struct Table {
    pub game: Arc<EcsGame>,
    /// In the order of registration, which is that of their ids; the seat is not among them.
    pub kinds: Vec<Vec<Part>>,
}

impl Table {
    /// The parts of a kind; none for seats.
    pub fn parts(&self, kind: KindId) -> &[Part] {
        self.kinds.get(usize::from(kind.0)).map_or(&[], Vec::as_slice)
    }
}

/// Where something is shown, put into lanes.
pub(crate) fn put_place(place: &PlaceLanes, at: [f32; 3], lanes: &mut [i32]) {
    for (axis, lane) in lanes[place.at..place.at + place.dims].iter_mut().enumerate() {
        let steps = (f64::from(at[axis]) / f64::from(place.precision)).round() as i32;
        *lane = steps.clamp(-place.extent_steps, place.extent_steps);
    }
}
