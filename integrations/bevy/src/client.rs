//! The client: replicas become entities, predicted to now in every frame.
//!
//! In [`PreUpdate`], in this order: `receive` → `phase` → `show`. In [`PostUpdate`], messages are
//! sent to the server. Nothing blocks.

use crate::game::{EcsGame, PlayerEntry};
use crate::registry::{PlayerMessage, Registry, Table, ToServer, put_place, write_typed};
use bevy_app::{App, Plugin, PostUpdate, PreStartup, PreUpdate};
use bevy_ecs::prelude::*;
use foveate::io::host::{ClientsHost, SessionEnd};
use foveate::io::{Endpoint, EndpointOptions, Error, LinkMeter, ServerAddress, Trust};
use foveate::node::client::ClientPhase;
use foveate::node::game::PlayerId;
use foveate::node::session::Refusal;
use foveate::sync::replica::{Life, ReplicaView, Show, Smoother};
use foveate::wire::{KindId, Micros, ObjectId};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// The half-life of corrections.
const HALF_LIFE: Micros = Micros(100_000);

/// Steps of a client's frame.
#[derive(SystemSet, Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClientSystems {
    /// Received states are applied, and entities are predicted to now.
    Show,
    /// Messages are sent.
    Post,
}

/// Makes the app a client.
#[derive(Clone, Debug)]
pub struct ClientPlugin {
    /// The server. Its certificate must be for this host, unless its hash is pinned.
    pub connect: ServerAddress,
    /// The player's name, which only one connected player can have.
    pub name: String,
    /// The connect token, if the server requires one.
    pub token: Vec<u8>,
    /// Which certificates are trusted.
    pub trust: Trust,
    /// Limits, and network conditions for tests.
    pub options: EndpointOptions,
}

impl ClientPlugin {
    /// A client that joins a server under a name.
    pub fn new(connect: impl Into<ServerAddress>, name: &str, trust: Trust) -> ClientPlugin {
        let (connect, name, token) = (connect.into(), name.into(), Vec::new());
        ClientPlugin { connect, name, token, trust, options: EndpointOptions::client() }
    }
}

impl Plugin for ClientPlugin {
    fn build(&self, app: &mut App) {
        app.init_resource::<Registry>()
            .add_message::<ClientJoined>()
            .add_message::<ClientLeft>()
            .add_message::<ClientRefused>()
            .insert_resource(Opening(self.clone()))
            .add_systems(PreStartup, open)
            .add_systems(PreUpdate, show.in_set(ClientSystems::Show));
    }
}

/// The server accepted the client, or accepted it again after a break.
#[derive(Message, Clone, Copy, PartialEq, Debug)]
pub struct ClientJoined {
    pub player: PlayerId,
}

/// The session ended, or could not begin.
#[derive(Message, Clone, PartialEq, Debug)]
pub struct ClientLeft {
    /// The reason, and the server.
    pub why: SessionEnd,
}

/// The server rejected the client.
#[derive(Message, Clone, PartialEq, Debug)]
pub struct ClientRefused {
    pub why: Refusal,
    /// An explanation, with the values of both sides.
    pub text: String,
}

/// On every entity that is a replica.
#[derive(Component, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Replica {
    /// The server's number for the entity: the same at every client.
    pub serial: u32,
}

/// On replicas that are out of view and unchanged since. They are updated again later, or removed.
#[derive(Component, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Frozen;

/// On the replica that the player looks from.
#[derive(Component, Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Own;

#[derive(Resource)]
struct Opening(ClientPlugin);

/// The running client: a resource, from `PreStartup` on.
#[derive(Resource)]
pub struct NetClient {
    host: ClientsHost<EcsGame>,
    table: Table,
    server: ServerAddress,
    /// Entities by serial.
    entities: BTreeMap<u32, Entity>,
    shown: BTreeMap<ObjectId, Shown>,
    phase: ClientPhase,
    ended: Option<SessionEnd>,
    frame: u32,
    own: Vec<i32>,
}

/// How an object was shown in the last frame.
struct Shown {
    lanes: Vec<i32>,
    smoother: Smoother,
    frozen: bool,
    frame: u32,
}

impl NetClient {
    /// This client's player, once the server has accepted it.
    pub fn player(&self) -> Option<PlayerId> {
        self.host.players()[0].client.joined().map(|joined| joined.player)
    }

    /// The entity of a replica, by the server's number.
    pub fn entity(&self, serial: u32) -> Option<Entity> {
        self.entities.get(&serial).copied()
    }

    /// The bytes sent and received so far.
    pub fn traffic(&self) -> LinkMeter {
        self.host.endpoint.total()
    }

    /// The round-trip time, from the server's echoes.
    pub fn round_trip(&self) -> Option<Micros> {
        self.host.players()[0].client.rtt()
    }

    /// Connects again after [`ClientLeft`]. If that is soon enough, the session continues.
    pub fn rejoin(&mut self) -> Result<(), Error> {
        self.ended = None;
        self.host.rejoin(0, &self.server)
    }

    /// Leaves the game; blocks for at most `limit`.
    pub fn leave(&mut self, limit: Micros) -> Result<(), Error> {
        self.host.leave(limit)
    }
}

/// Opens the client, after all components have been registered.
fn open(world: &mut World) -> Result {
    let table = world.resource::<Registry>().build(false)?;
    let Some(Opening(plugin)) = world.remove_resource() else { return Ok(()) };
    let any = (Ipv4Addr::UNSPECIFIED, 0).into();
    let endpoint = Endpoint::client(any, &plugin.trust, plugin.options)?;
    let mut host = ClientsHost::new(endpoint);
    host.join(Arc::clone(&table.game), &plugin.connect, &plugin.name, &plugin.token)?;
    world.insert_resource(NetClient {
        host,
        table,
        server: plugin.connect,
        entities: BTreeMap::new(),
        shown: BTreeMap::new(),
        phase: ClientPhase::Joining,
        ended: None,
        frame: 0,
        own: Vec::new(),
    });
    Ok(())
}

/// Applies what arrived, and predicts entities to now.
fn show(world: &mut World) -> Result {
    if !world.contains_resource::<NetClient>() {
        return Ok(());
    }
    world.resource_scope(|world, mut client: Mut<NetClient>| {
        let codec = world.get_resource::<Registry>().and_then(|registry| registry.input);
        let input = codec.map(|codec| (codec.write)(world)).unwrap_or_default();
        client.host.poll_step(|_, _, _, _| input)?;
        tell_phase(world, &mut client);
        show_replicas(world, &mut client);
        drop_gone(world, &mut client);
        mark_own(world, &client);
        Ok(())
    })
}

fn tell_phase(world: &mut World, client: &mut NetClient) {
    let (phase, ended) =
        (client.host.players()[0].client.phase().clone(), &client.host.players()[0].ended);
    if client.ended != *ended {
        client.ended.clone_from(ended);
        if let Some(why) = ended {
            world.write_message(ClientLeft { why: why.clone() });
        }
    }
    if client.phase != phase {
        match &phase {
            ClientPhase::Joining => {}
            ClientPhase::Playing(joined) => {
                world.write_message(ClientJoined { player: joined.player });
            }
            ClientPhase::Refused(why, text) => {
                world.write_message(ClientRefused { why: *why, text: text.clone() });
            }
        }
        client.phase = phase;
    }
}

fn show_replicas(world: &mut World, client: &mut NetClient) {
    client.frame = client.frame.wrapping_add(1);
    let NetClient { host, table, entities, shown, frame, own, .. } = client;
    let now = host.now();
    let node = &host.players()[0].client;
    let (now, round) = node.time_now(now);
    let mut lanes = Vec::new();
    for view in node.replicas.iter().filter(|view| !table.parts(view.kind()).is_empty()) {
        let fresh = || Shown {
            lanes: Vec::new(),
            smoother: Smoother::new(Show::Predict { half_life: HALF_LIFE }, round),
            frozen: false,
            frame: *frame,
        };
        let shown = shown.entry(view.id()).or_insert_with(fresh);
        shown.frame = *frame;
        shown.look(&view, now, round, node.replicas.schema(), &mut lanes);
        let frozen = view.life() != Life::Live;
        if shown.lanes == lanes && shown.frozen == frozen {
            continue;
        }
        let serial = view.id().serial();
        let mut entity = entity_of(world, entities, serial);
        if shown.frozen != frozen {
            shown.frozen = frozen;
            match frozen {
                true => entity.insert(Frozen),
                false => entity.remove::<Frozen>(),
            };
        }
        let Some(kind) = node.replicas.schema().kind(view.kind()) else { continue };
        if shown.lanes != lanes {
            shown.lanes.clone_from(&lanes);
            for part in table.parts(view.kind()) {
                part.apply(&mut entity, kind, &lanes, own);
            }
        }
    }
}

/// The entity of a replica; a new one if there is none, or if the app despawned it.
fn entity_of<'a>(
    world: &'a mut World,
    entities: &mut BTreeMap<u32, Entity>,
    serial: u32,
) -> EntityWorldMut<'a> {
    let known = entities.get(&serial).copied().filter(|known| world.get_entity(*known).is_ok());
    let entity = known.unwrap_or_else(|| world.spawn(Replica { serial }).id());
    entities.insert(serial, entity);
    world.entity_mut(entity)
}

impl Shown {
    /// The state to show: the newest, with its place predicted to now and smoothed.
    fn look(
        &mut self,
        view: &ReplicaView<'_>,
        now: Micros,
        round: Micros,
        schema: &foveate::wire::Schema,
        lanes: &mut Vec<i32>,
    ) {
        lanes.clear();
        lanes.extend_from_slice(view.lanes());
        let place = schema.kind(view.kind()).and_then(|kind| kind.place);
        if let Some(place) = place
            && let Some(there) = self.smoother.show(view, now, round)
        {
            put_place(&place, there.at, lanes);
        }
    }
}

/// Removes what the server dropped; an entity without components left is despawned.
fn drop_gone(world: &mut World, client: &mut NetClient) {
    let NetClient { table, entities, shown, frame, .. } = client;
    let gone: Vec<ObjectId> =
        shown.iter().filter(|(_, shown)| shown.frame != *frame).map(|(id, _)| *id).collect();
    for id in gone {
        shown.remove(&id);
        let serial = id.serial();
        let Some(entity) = entities.get(&serial).copied() else { continue };
        let mut kinds = (0..table.kinds.len()).map(|kind| KindId(kind as u8));
        let more = kinds.any(|kind| shown.contains_key(&ObjectId::new(kind, 0, serial)));
        match world.get_entity_mut(entity) {
            Ok(mut entity) if more => {
                table.parts(id.kind()).iter().for_each(|part| part.remove(&mut entity));
            }
            Ok(entity) => {
                entity.despawn();
                entities.remove(&serial);
            }
            Err(_) => drop(entities.remove(&serial)),
        }
    }
}

/// Marks the replica that the player looks from, as its seat says.
fn mark_own(world: &mut World, client: &NetClient) {
    let node = &client.host.players()[0].client;
    let seat = node.joined().and_then(|joined| node.replicas.get(joined.avatar));
    let serial = seat.and_then(|seat| seat.value::<PlayerEntry>()).and_then(|seat| seat.eyes);
    let own = serial.and_then(|serial| client.entities.get(&serial).copied());
    let mut marked = world.query_filtered::<Entity, With<Own>>();
    let marked: Vec<Entity> = marked.iter(world).collect();
    if marked.as_slice() == own.as_slice() {
        return;
    }
    for entity in marked {
        world.entity_mut(entity).remove::<Own>();
    }
    if let Some(mut entity) = own.and_then(|own| world.get_entity_mut(own).ok()) {
        entity.insert(Own);
    }
}

/// Adds the system that sends one type of messages.
pub(crate) fn add_post<M: PlayerMessage>(app: &mut App, of: u8) {
    let post = move |client: Option<ResMut<NetClient>>,
                     mut messages: MessageReader<ToServer<M>>| {
        let Some(mut client) = client else { return };
        let Some(joined) = client.host.players()[0].client.joined() else {
            messages.clear();
            return;
        };
        for ToServer(message) in messages.read() {
            if let Some(letter) = write_typed(of, message) {
                client.host.ask(0, joined.avatar, letter);
            }
        }
    };
    app.add_systems(PostUpdate, post.in_set(ClientSystems::Post));
}
