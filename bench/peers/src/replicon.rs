//! `bevy_replicon` on its backend for renet, as its documentation shows: components that are replicated when they
//! change, who sees whom set by distance for each client (`ClientVisibility::set`), inputs as client messages.
//! Encrypted by renetcode (ChaCha20-Poly1305).

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant, SystemTime};

use bevy::prelude::*;
use bevy::state::app::StatesPlugin;
use bevy_replicon::client::confirm_history::ConfirmHistory;
use bevy_replicon::prelude::*;
use bevy_replicon::server::server_tick::ServerTick;
use bevy_replicon::server::visibility::client_visibility::ClientVisibility;
use bevy_replicon::server::visibility::filters_mask::FilterBit;
use bevy_replicon::server::visibility::registry::FilterRegistry;
use bevy_replicon::shared::backend::connected_client::NetworkId;
use bevy_replicon::shared::replication::registry::ReplicationRegistry;
use bevy_replicon_renet::netcode::{
    ClientAuthentication, NetcodeClientTransport, NetcodeServerTransport, ServerAuthentication,
    ServerConfig,
};
use bevy_replicon_renet::renet::ConnectionConfig;
use bevy_replicon_renet::{RenetChannelsExt, RenetClient, RenetServer, RepliconRenetPlugins};
use serde::{Deserialize, Serialize};

use crate::clients::Client;
use crate::crowd::{Crowd, Stride, Walker, Wanderer, is_near, side};
use crate::truth::{EVERY, Log};
use crate::usage::{BUFFER, Marks, Meter, Traffic};
use crate::{Served, TICK, Task, next_tick};

const PROTOCOL: u64 = 7;

/// Which player it is.
#[derive(Component, Serialize, Deserialize, Clone, Copy)]
struct Number(u16);

#[derive(Component, Serialize, Deserialize, Clone, Copy, PartialEq)]
struct Pose {
    pos: [f32; 3],
    yaw: f32,
}

#[derive(Component, Serialize, Deserialize, Clone, Copy, PartialEq)]
struct Mood(u8);

#[derive(Message, Serialize, Deserialize, Clone, Copy)]
struct Input([i16; 2]);

/// The game, and what each client was last shown of it.
#[derive(Resource)]
struct Field {
    crowd: Crowd,
    strides: Vec<Stride>,
    entities: Vec<Entity>,
    seen: Vec<Vec<bool>>,
    bit: FilterBit,
}

/// What both ends have to agree on.
fn app() -> App {
    let mut app = App::new();
    app.add_plugins((
        MinimalPlugins,
        StatesPlugin,
        RepliconPlugins.set(ServerPlugin::new(PostUpdate)),
        RepliconRenetPlugins,
    ))
    .replicate::<Number>()
    .replicate::<Pose>()
    .replicate::<Mood>()
    .add_client_message::<Input>(Channel::Unreliable);
    app
}

fn connection(app: &App) -> ConnectionConfig {
    let channels = app.world().resource::<RepliconChannels>();
    ConnectionConfig {
        server_channels_config: channels.server_configs(),
        client_channels_config: channels.client_configs(),
        ..ConnectionConfig::default()
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn take_inputs(
    mut inputs: MessageReader<FromClient<Input>>,
    clients: Query<&NetworkId>,
    mut field: ResMut<Field>,
) {
    for input in inputs.read() {
        let ClientId::Client(client) = input.client_id else { continue };
        let number = clients.get(client).map_or(u64::MAX, |id| id.get());
        if let Some(stride) = field.strides.get_mut(number as usize) {
            *stride = Stride(input.message.0);
        }
    }
}

fn walk(mut field: ResMut<Field>, mut players: Query<(&Number, &mut Pose, &mut Mood)>) {
    let Field { crowd, strides, .. } = &mut *field;
    for (who, stride) in strides.iter().enumerate() {
        crowd.step(who, *stride);
    }
    for (number, mut pose, mut mood) in &mut players {
        let walker = &crowd.walkers[usize::from(number.0)];
        pose.set_if_neq(Pose { pos: walker.pos, yaw: walker.yaw });
        mood.set_if_neq(Mood(walker.mood));
    }
}

/// Tells the library only of pairs that change, and hides everything from a new client first.
fn look(mut field: ResMut<Field>, mut clients: Query<(&NetworkId, &mut ClientVisibility)>) {
    let Field { crowd, entities, seen, bit, .. } = &mut *field;
    for (id, mut visibility) in &mut clients {
        let number = id.get() as usize;
        let Some(me) = crowd.walkers.get(number) else { continue };
        let is_new = seen[number].is_empty();
        seen[number].resize(entities.len(), false);
        for (who, walker) in crowd.walkers.iter().enumerate() {
            let (sees, saw) = (is_near(me, walker), &mut seen[number][who]);
            if is_new || sees != *saw {
                visibility.set(entities[who], *bit, sees);
                *saw = sees;
            }
        }
    }
}

fn new_server(task: &Task) -> Result<(App, SocketAddr), Box<dyn Error>> {
    let mut app = app();
    app.add_systems(Update, (take_inputs, walk, look).chain());
    app.finish();
    let world = app.world_mut();
    let bit = world.resource_scope(|world, mut filters: Mut<FilterRegistry>| {
        world.resource_scope(|world, mut registry: Mut<ReplicationRegistry>| {
            filters.register_scope::<Entity>(world, &mut registry, ScopeLifetime::WhileVisible)
        })
    });
    let crowd = Crowd::new(task.clients);
    let spawn = |(who, walker): (usize, &Walker)| {
        let pose = Pose { pos: walker.pos, yaw: walker.yaw };
        world.spawn((Replicated, Number(who as u16), pose, Mood(walker.mood))).id()
    };
    let entities = crowd.walkers.iter().enumerate().map(spawn).collect();
    let strides = vec![Stride::default(); task.clients];
    let seen = vec![Vec::new(); task.clients];
    app.insert_resource(Field { crowd, strides, entities, seen, bit });
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let buffers = socket2::SockRef::from(&socket);
    buffers.set_recv_buffer_size(BUFFER)?;
    buffers.set_send_buffer_size(BUFFER)?;
    let address = socket.local_addr()?;
    let config = ServerConfig {
        current_time: since_epoch(),
        max_clients: task.clients,
        protocol_id: PROTOCOL,
        public_addresses: vec![address],
        authentication: ServerAuthentication::Unsecure,
    };
    let server = RenetServer::new(connection(&app));
    app.insert_resource(server).insert_resource(NetcodeServerTransport::new(config, socket)?);
    Ok((app, address))
}

/// Serves until the marks end. Bytes are those that the library reports, without the headers of netcode; it
/// reports no packets.
pub fn serve(task: &Task, marks: &Marks) -> Result<Served, Box<dyn Error>> {
    let (mut app, address) = new_server(task)?;
    println!("{address}");
    let (mut due, mut meter) = (Instant::now(), Meter::default());
    let mut log = Log::create(&task.folder, "was")?;
    let mut stats = app.world_mut().query::<&ConnectedClientStats>();
    let mut bytes = [0.0; 2];
    loop {
        app.update();
        let world = app.world();
        let tick = world.resource::<ServerTick>().get();
        if marks.phase() == 1 {
            for stats in stats.iter(world) {
                bytes[0] += stats.sent_bps * TICK.as_secs_f64();
                bytes[1] += stats.received_bps * TICK.as_secs_f64();
            }
            if tick.is_multiple_of(EVERY) {
                for (who, walker) in world.resource::<Field>().crowd.walkers.iter().enumerate() {
                    log.note(tick, who, who, walker)?;
                }
            }
        }
        let [sent, received] = bytes.map(|bytes| Traffic { packets: 0, bytes: bytes as u64 });
        if let Some(served) = meter.tick(marks, sent, received) {
            log.flush()?;
            return Ok(served);
        }
        next_tick(&mut due);
    }
}

pub struct Player {
    app: App,
    everything: QueryState<(Entity, &'static Number, &'static Pose, &'static ConfirmHistory)>,
    me: Option<Entity>,
    wanderer: Wanderer,
    noted: u32,
}

impl Client for Player {
    fn join(number: usize, task: &Task, server: SocketAddr) -> Result<Player, Box<dyn Error>> {
        let mut app = app();
        app.finish();
        let authentication = ClientAuthentication::Unsecure {
            client_id: number as u64,
            protocol_id: PROTOCOL,
            server_addr: server,
            user_data: None,
        };
        let socket = UdpSocket::bind("127.0.0.1:0")?;
        let transport = NetcodeClientTransport::new(since_epoch(), authentication, socket)?;
        let client = RenetClient::new(connection(&app));
        app.insert_resource(client).insert_resource(transport);
        let everything = app.world_mut().query();
        let wanderer = Wanderer::new(number as u64, side(task.clients));
        Ok(Player { app, everything, me: None, wanderer, noted: 0 })
    }

    fn is_connected(&self) -> bool {
        self.app.world().resource::<RenetClient>().is_connected()
    }

    fn step(&mut self, number: usize, log: Option<&mut Log>) -> std::io::Result<()> {
        if self.is_connected() {
            let world = self.app.world_mut();
            let pose = self.me.and_then(|me| world.get::<Pose>(me)).copied();
            if pose.is_none() {
                let mut all = self.everything.iter(world);
                let own = all.find(|(_, other, ..)| usize::from(other.0) == number);
                self.me = own.map(|(entity, ..)| entity);
            }
            let me = pose.map(|pose| Walker { pos: pose.pos, yaw: pose.yaw, mood: 0 });
            let stride = self.wanderer.think(me.as_ref());
            world.write_message(Input(stride.0));
        }
        self.app.update();
        let Some(log) = log else { return Ok(()) };
        let world = self.app.world();
        let ticks = self.everything.iter(world).map(|(.., history)| history.last_tick().get());
        let tick = ticks.max().unwrap_or_default();
        if tick.is_multiple_of(EVERY) && tick > self.noted {
            self.noted = tick;
            for (_, other, pose, _) in self.everything.iter(world) {
                let walker = Walker { pos: pose.pos, yaw: pose.yaw, mood: 0 };
                if usize::from(other.0) != number {
                    log.note(tick, number, usize::from(other.0), &walker)?;
                }
            }
        }
        Ok(())
    }
}
