//! The server: changes are copied into the store, then a round is played if one is due.
//!
//! In [`PostUpdate`], in this order: `collect` (one system for each component) → `look` → `play` →
//! `tell`. Nothing blocks: a frame between two rounds only processes what has arrived.

use crate::game::{EcsGame, PlayerEntry, Private};
use crate::registry::{Registry, Replicated, Table};
use bevy_app::{App, Plugin, PostUpdate, PreStartup};
use bevy_ecs::prelude::*;
use foveate::io::host::{AllowAll, Authenticator, Kept, LoginReply, ServerHost};
use foveate::io::{Certificate, CertificateHash, Endpoint, EndpointOptions, Error, LinkMeter};
use foveate::node::Link;
use foveate::node::game::{Game, PlayerId};
use foveate::node::server::{ServerEvent, ServerSettings};
use foveate::node::session::Refusal;
use foveate::sync::interest::{Policy, View, ViewContext, ViewError, Visibility, presets};
use foveate::sync::{Pivots, Rounds, Slot};
use foveate::wire::{Bytes, KindId, Micros, ObjectId, OwnerId, Schema};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Steps of a server's frame.
#[derive(SystemSet, Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ServerSystems {
    /// Changed components are copied into the store. Changes for this round must be made before.
    Collect,
    /// Rounds are played, and players join and leave.
    Play,
}

/// Makes the app a server.
#[derive(Clone, Debug)]
pub struct ServerPlugin {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The view of players without [`NetEyes`].
    pub view: View,
    pub references: ViewReferences,
    /// Rounds per second. The app's own loop should run at least as often.
    pub hz: u32,
    /// How long replicas out of view are still updated before they freeze.
    pub freeze_after: Micros,
    /// How long replicas stay frozen before they are removed.
    pub forget_after: Micros,
    /// The most bytes per second to each player.
    pub budget: Option<Bytes>,
    /// The most players at once.
    pub max_players: usize,
    /// The server's certificate.
    pub certificate: Certificate,
    /// Limits, and network conditions for tests.
    pub options: EndpointOptions,
}

impl ServerPlugin {
    /// 20 rounds a second, 64 kB a second to each player, a development certificate, no
    /// authentication.
    pub fn new(listen: SocketAddr, view: View) -> ServerPlugin {
        let Rounds { freeze_after, forget_after, .. } = ServerSettings::default().rounds;
        ServerPlugin {
            listen,
            view,
            references: ViewReferences::default(),
            hz: 20,
            freeze_after,
            forget_after,
            budget: Some(Bytes(64_000)),
            max_players: 1_024,
            certificate: Certificate::development(),
            options: EndpointOptions::server(),
        }
    }
}

impl Plugin for ServerPlugin {
    fn build(&self, app: &mut App) {
        let hz = self.hz.max(1);
        app.init_resource::<Registry>()
            .add_message::<PlayerJoined>()
            .add_message::<PlayerLeft>()
            .add_message::<PlayerRefused>()
            .insert_resource(Opening {
                listen: self.listen,
                view: self.view.clone(),
                references: self.references.clone(),
                settings: ServerSettings {
                    rounds: Rounds {
                        length: Micros(1_000_000 / u64::from(hz)),
                        freeze_after: self.freeze_after,
                        forget_after: self.forget_after,
                    },
                    max_players: self.max_players,
                    budget: self.budget.map(|budget| Bytes(budget.0 / hz)),
                    ..ServerSettings::default()
                },
                certificate: self.certificate.clone(),
                options: self.options.clone(),
            })
            .configure_sets(PostUpdate, (ServerSystems::Collect, ServerSystems::Play).chain())
            .add_systems(PreStartup, open)
            .add_systems(PostUpdate, play.in_set(ServerSystems::Play));
    }
}

/// What views can refer to besides the app's kinds.
#[derive(Clone, Default)]
pub struct ViewReferences {
    /// Custom policies, by name: `policy = "custom"`.
    pub policies: Vec<(&'static str, Arc<dyn Policy>)>,
    /// The walls, for views with a line of sight.
    pub walls: Option<Arc<dyn Visibility>>,
}

impl std::fmt::Debug for ViewReferences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = self.policies.iter().map(|(name, _)| name);
        f.debug_list().entries(names).entries(self.walls.as_ref().map(|_| "walls")).finish()
    }
}

/// The same, with the app's kinds.
struct AppViews<'a>(&'a ViewReferences, &'a Schema);

impl ViewContext for AppViews<'_> {
    fn visibility(&self) -> Option<Arc<dyn Visibility>> {
        self.0.walls.clone()
    }

    fn kind(&self, name: &str) -> Option<KindId> {
        let at = self.1.kinds().iter().position(|kind| kind.spec.name == name)?;
        Some(KindId(at as u8))
    }

    fn policy(&self, name: &str) -> Option<Arc<dyn Policy>> {
        let named = self.0.policies.iter().find(|(known, _)| *known == name);
        named.map(|(_, policy)| Arc::clone(policy))
    }
}

/// The team of a replicated entity, and of the player that the entity belongs to; 0 for none. Views
/// can have other bounds for team mates.
#[derive(Component, Clone, Copy, PartialEq, Eq, Debug)]
pub struct Team(pub u8);

/// A player joined. Insert the avatar's components into `entity`, or [`NetEyes`] to look from other
/// entities.
#[derive(Message, Clone, PartialEq, Debug)]
pub struct PlayerJoined {
    /// The player: the same number whenever the same name joins.
    pub player: PlayerId,
    /// The player's entity. It was spawned for the player, and is despawned when the player leaves.
    pub entity: Entity,
    pub name: String,
}

/// A player left, and its entity was despawned.
#[derive(Message, Clone, PartialEq, Debug)]
pub struct PlayerLeft {
    pub player: PlayerId,
}

/// A player was rejected.
#[derive(Message, Clone, Copy, PartialEq, Debug)]
pub struct PlayerRefused {
    pub why: Refusal,
}

/// On the entity of each player.
#[derive(Component, Clone, PartialEq, Debug)]
pub struct NetPlayer {
    pub id: PlayerId,
    pub name: String,
}

/// The entities that a player looks from, and its view: on the player's entity, may change at any
/// time. Without it players look from their own entity, with the plugin's view.
#[derive(Component, Clone)]
pub struct NetEyes {
    /// The entities, of which the nearest counts. They need a replicated component with a place.
    pub from: Vec<Entity>,
    view: Option<Arc<dyn Policy>>,
}

impl NetEyes {
    /// Looks from these entities, with the plugin's view.
    pub fn from(entities: impl IntoIterator<Item = Entity>) -> NetEyes {
        NetEyes { from: entities.into_iter().collect(), view: None }
    }

    /// The same with another view, such as a zoom or a spectator's. Views that refer to walls,
    /// kinds or custom policies need [`NetServer::policy`] and
    /// [`with_policy`](NetEyes::with_policy).
    pub fn with_view(self, view: &View) -> Result<NetEyes, ViewError> {
        Ok(self.with_policy(view.build()?))
    }

    /// The same with a custom policy.
    pub fn with_policy(self, policy: Arc<dyn Policy>) -> NetEyes {
        NetEyes { view: Some(policy), ..self }
    }
}

/// Admits players by name and token: insert it as a resource before the app runs. Without it, any
/// player is admitted.
#[derive(Resource)]
pub struct Doorkeeper(pub Box<dyn Authenticator + Send + Sync>);

impl Authenticator for Doorkeeper {
    fn enter(&mut self, link: Link, name: &str, token: &[u8]) -> LoginReply {
        empty_handed(self.0.enter(link, name, token))
    }

    fn answered(&mut self) -> Option<(Link, LoginReply)> {
        self.0.answered().map(|(link, entry)| (link, empty_handed(entry)))
    }

    fn leave(&mut self, player: PlayerId, kept: Kept) {
        self.0.leave(player, kept);
    }
}

/// Drops the kept objects, which could only be the seat's and contain nothing.
fn empty_handed(entry: LoginReply) -> LoginReply {
    match entry {
        LoginReply::Accepted(player, _) => LoginReply::Accepted(player, Kept::new()),
        other => other,
    }
}

/// The plugin's settings, until the server is opened.
#[derive(Resource)]
struct Opening {
    listen: SocketAddr,
    view: View,
    references: ViewReferences,
    settings: ServerSettings,
    certificate: Certificate,
    options: EndpointOptions,
}

/// The running server: a resource, from `PreStartup` on.
#[derive(Resource)]
pub struct NetServer {
    host: ServerHost<EcsGame, Doorkeeper>,
    table: Table,
    view: Arc<dyn Policy>,
    references: ViewReferences,
    /// The serial shared by all objects of an entity.
    serials: BTreeMap<Entity, u32>,
    next_serial: u32,
    /// Objects by serial and kind.
    drafts: BTreeMap<(u32, u8), Draft>,
    seats: BTreeMap<PlayerId, Sitting>,
    own: Vec<i32>,
    malformed: u64,
}

/// An object, or the parts of one that exist so far.
struct Draft {
    lanes: Vec<i32>,
    /// One bit for each part that the entity has.
    present: u8,
    slot: Option<Slot>,
}

/// A player and its pivots.
struct Sitting {
    entity: Entity,
    pivots: Vec<Slot>,
    view: Option<Arc<dyn Policy>>,
    seat: Option<PlayerEntry>,
    team: u8,
}

impl NetServer {
    /// The address that the server listens on.
    pub fn address(&self) -> Result<SocketAddr, Error> {
        self.host.endpoint.address()
    }

    /// The hash that clients pin.
    pub fn certificate_hash(&self) -> Option<CertificateHash> {
        self.host.endpoint.certificate_hash()
    }

    /// The bytes sent and received on all links so far.
    pub fn traffic(&self) -> LinkMeter {
        self.host.endpoint.total()
    }

    /// The policy of a view, which may refer to the app's kinds and the plugin's
    /// [`references`](ServerPlugin::references).
    pub fn policy(&self, view: &View) -> Result<Arc<dyn Policy>, ViewError> {
        view.build_in(&AppViews(&self.references, self.table.game.schema()))
    }

    /// Notes that a player acted on an entity, or an entity on a player: if the player's view has
    /// an interaction boost, the entity is sharper for a while, with this half-life.
    pub fn interacted(&mut self, player: PlayerId, entity: Entity, half_life: Micros) {
        let Some((_, slot)) = self.eye(entity) else { return };
        let now = self.host.server.simulation.publisher.now();
        let Some(observer) = self.host.server.observer_of(player) else { return };
        if let Some(observer) = self.host.server.simulation.publisher.observer_mut(observer) {
            observer.interacted(slot, now, half_life);
        }
    }

    /// Sets the team of an entity's objects.
    fn join_team(&mut self, entity: Entity, team: u8) {
        let Some(serial) = self.serials.get(&entity) else { return };
        let store = &mut self.host.server.simulation.publisher.store;
        let drafts = self.drafts.range((*serial, 0)..=(*serial, u8::MAX));
        for slot in drafts.filter_map(|(_, draft)| draft.slot) {
            if store.team(slot) != team {
                let set = store.set_team(slot, team);
                debug_assert!(set.is_ok(), "a draft's slot is alive");
            }
        }
    }

    /// The number of players' messages and inputs that could not be read, or exceeded a limit.
    pub fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Stores a new or changed component.
    fn write<T: Replicated>(&mut self, entity: Entity, kind: usize, part: usize, value: &T) {
        let NetServer { host, table, serials, next_serial, drafts, own, .. } = self;
        let serial = *serials.entry(entity).or_insert_with(|| {
            *next_serial += 1;
            *next_serial
        });
        let id = ObjectId::new(KindId(kind as u8), 0, serial);
        let store = &mut host.server.simulation.publisher.store;
        let schema = Arc::clone(store.schema());
        let (Some(whole), Some(parts)) = (schema.kind(id.kind()), table.kinds.get(kind)) else {
            return;
        };
        let empty = || Draft { lanes: vec![0; whole.lane_count()], present: 0, slot: None };
        let draft = drafts.entry((serial, kind as u8)).or_insert_with(empty);
        parts[part].put(value, whole, &mut draft.lanes, own);
        draft.present |= 1 << part;
        match draft.slot {
            Some(slot) => {
                let written = store.set_lanes(slot, &draft.lanes);
                debug_assert!(written.is_ok(), "a draft's slot is alive");
            }
            None if draft.present.count_ones() as usize == parts.len() => {
                // The store is full: the object stays a draft, and is tried again when it changes.
                draft.slot = store.create_lanes(id, OwnerId(0), &draft.lanes).ok();
            }
            None => {}
        }
    }

    /// Removes a component, or all of an entity.
    fn erase(&mut self, entity: Entity, kind: usize, part: usize) {
        let Some(serial) = self.serials.get(&entity).copied() else { return };
        if let Some(draft) = self.drafts.get_mut(&(serial, kind as u8)) {
            draft.present &= !(1 << part);
            if let Some(slot) = draft.slot.take() {
                let removed = self.host.server.simulation.publisher.store.remove(slot);
                debug_assert!(removed.is_ok(), "a draft's slot is alive");
            }
        }
        let of_entity = (serial, 0)..=(serial, u8::MAX);
        if self.drafts.range(of_entity.clone()).all(|(_, draft)| draft.present == 0) {
            let gone: Vec<_> = self.drafts.range(of_entity).map(|(key, _)| *key).collect();
            gone.iter().for_each(|key| drop(self.drafts.remove(key)));
            self.serials.remove(&entity);
        }
    }

    /// The object to use as an entity's pivot: the first with a place.
    fn eye(&self, entity: Entity) -> Option<(u32, Slot)> {
        let serial = *self.serials.get(&entity)?;
        let store = &self.host.server.simulation.publisher.store;
        let drafts = self.drafts.range((serial, 0)..=(serial, u8::MAX));
        let mut slots = drafts.filter_map(|(_, draft)| draft.slot);
        slots.find(|slot| store.kind(*slot).place.is_some()).map(|slot| (serial, slot))
    }

    /// Sets a player's team.
    fn take_side(&mut self, player: PlayerId, team: u8) {
        let Some(sitting) = self.seats.get_mut(&player).filter(|it| it.team != team) else {
            return;
        };
        sitting.team = team;
        let observer = self.host.server.observer_of(player);
        let publisher = &mut self.host.server.simulation.publisher;
        if let Some(observer) = observer.and_then(|id| publisher.observer_mut(id)) {
            observer.set_team(team);
        }
    }

    /// Sets a player's pivots from its entity.
    fn look(&mut self, player: PlayerId, eyes: Option<&NetEyes>) {
        let Some(entity) = self.seats.get(&player).map(|sitting| sitting.entity) else { return };
        let from = eyes.map_or(std::slice::from_ref(&entity), |eyes| &eyes.from);
        let found: Vec<(u32, Slot)> = from.iter().filter_map(|eye| self.eye(*eye)).collect();
        let wanted = eyes.and_then(|eyes| eyes.view.as_ref()).unwrap_or(&self.view);
        let wanted = (!found.is_empty()).then(|| Arc::clone(wanted));
        let simulation = &mut self.host.server.simulation;
        let seat_slot = simulation.avatar(player);
        let place = |slot: Slot| place_of(simulation, slot);
        let state = PlayerEntry {
            at: found.first().map_or([0.0; 3], |(_, slot)| place(*slot)),
            eyes: found.first().map(|(serial, _)| *serial),
        };
        let pivots: Vec<Slot> = match found.is_empty() {
            true => seat_slot.into_iter().collect(),
            false => found.into_iter().map(|(_, slot)| slot).collect(),
        };
        let Some(sitting) = self.seats.get_mut(&player) else { return };
        if let Some(slot) = seat_slot
            && sitting.seat != Some(state)
            && simulation.publisher.store.set(slot, &state).is_ok()
        {
            sitting.seat = Some(state);
        }
        let Some(observer) = self.host.server.observer_of(player) else { return };
        let Some(observer) = self.host.server.simulation.publisher.observer_mut(observer) else {
            return;
        };
        let first = sitting.pivots.is_empty();
        if sitting.pivots != pivots {
            observer.set_pivots(Pivots::Objects(pivots.clone()));
            sitting.pivots = pivots;
        }
        if first || !same(&sitting.view, &wanted) {
            let seat = self.table.game.avatar_of(player);
            observer.set_policy(Arc::new(Private { seat, view: wanted.clone() }));
            sitting.view = wanted;
        }
    }
}

/// An object's current place, committed or not.
fn place_of(simulation: &foveate::node::Simulation<EcsGame>, slot: Slot) -> [f32; 3] {
    let store = &simulation.publisher.store;
    let Some(place) = store.kind(slot).place else { return [0.0; 3] };
    place.coordinates(store.lanes(slot)).map(|steps| steps as f32 * place.precision)
}

fn same(a: &Option<Arc<dyn Policy>>, b: &Option<Arc<dyn Policy>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    }
}

/// Opens the server, after all components have been registered.
fn open(world: &mut World) -> Result {
    let table = world.resource::<Registry>().build(true)?;
    let Some(opening) = world.remove_resource::<Opening>() else { return Ok(()) };
    let door = world.remove_resource::<Doorkeeper>();
    let door = door.unwrap_or_else(|| Doorkeeper(Box::<AllowAll>::default()));
    let view = opening.view.build_in(&AppViews(&opening.references, table.game.schema()))?;
    let endpoint = Endpoint::server(opening.listen, opening.certificate, opening.options)?;
    let host = ServerHost::new(Arc::clone(&table.game), opening.settings, endpoint, door);
    world.insert_resource(NetServer {
        host,
        table,
        view,
        references: opening.references,
        serials: BTreeMap::new(),
        next_serial: 0,
        drafts: BTreeMap::new(),
        seats: BTreeMap::new(),
        own: Vec::new(),
        malformed: 0,
    });
    Ok(())
}

/// Adds the system that copies one component.
pub(crate) fn add_collect<T: Replicated>(app: &mut App, kind: usize, part: usize) {
    let collect = move |server: Option<ResMut<NetServer>>,
                        changed: Query<(Entity, &T), Changed<T>>,
                        all: Query<(), With<T>>,
                        mut removed: RemovedComponents<T>| {
        let Some(mut server) = server else { return };
        for entity in removed.read() {
            // Removed and inserted again in one frame is a change.
            if !all.contains(entity) {
                server.erase(entity, kind, part);
            }
        }
        for (entity, value) in &changed {
            server.write(entity, kind, part, value);
        }
    };
    app.add_systems(PostUpdate, collect.in_set(ServerSystems::Collect));
}

/// Sets players' pivots, runs the round, and reports its events to the app.
fn play(world: &mut World) -> Result {
    if !world.contains_resource::<NetServer>() {
        return Ok(());
    }
    world.resource_scope(|world, mut server: Mut<NetServer>| {
        let players: Vec<_> = server.seats.iter().map(|(id, seat)| (*id, seat.entity)).collect();
        for (player, entity) in players {
            server.look(player, world.get::<NetEyes>(entity));
            server.take_side(player, world.get::<Team>(entity).map_or(0, |team| team.0));
        }
        let mut teams = world.query::<(Entity, &Team)>();
        teams.iter(world).for_each(|(entity, team)| server.join_team(entity, team.0));
        server.host.poll_step()?;
        tell_happened(world, &mut server);
        tell_inbox(world, &mut server);
        Ok(())
    })
}

fn tell_happened(world: &mut World, server: &mut NetServer) {
    let happened: Vec<ServerEvent> = server.host.drain_events().collect();
    for event in happened {
        match event {
            // Players that resume over a new link still have their session.
            ServerEvent::Joined(id, _) if server.seats.contains_key(&id) => {}
            ServerEvent::Joined(player, name) => {
                let entity = world.spawn(NetPlayer { id: player, name: name.clone() }).id();
                let (pivots, view, seat, team) = (Vec::new(), None, None, 0);
                let sitting = Sitting { entity, pivots, view, seat, team };
                server.seats.insert(player, sitting);
                world.write_message(PlayerJoined { player, entity, name });
            }
            ServerEvent::Left(player, _) => {
                if let Some(sitting) = server.seats.remove(&player) {
                    world.despawn(sitting.entity);
                }
                world.write_message(PlayerLeft { player });
            }
            ServerEvent::Refused(why) => drop(world.write_message(PlayerRefused { why })),
            ServerEvent::Asked { .. } | ServerEvent::Broken(_) => {}
        }
    }
}

fn tell_inbox(world: &mut World, server: &mut NetServer) {
    let inbox = server.table.game.take_inbox();
    server.malformed += inbox.dropped;
    if let Some(codec) = world.resource::<Registry>().input {
        for (player, input) in inbox.inputs {
            server.malformed += u64::from(!(codec.read)(world, player, &input));
        }
    }
    for (player, seen, letter) in inbox.typed_messages {
        let open = world.resource::<Registry>().typed_messages.get(usize::from(letter.of)).copied();
        let read = open.is_some_and(|(_, open)| open(world, player, seen, &letter.bytes));
        server.malformed += u64::from(!read);
    }
}

impl Default for ServerPlugin {
    /// Listens on the loopback address and sends every object to every player.
    fn default() -> ServerPlugin {
        ServerPlugin::new(SocketAddr::from(([127, 0, 0, 1], 4433)), presets::broadcast())
    }
}
