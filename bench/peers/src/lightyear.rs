//! `lightyear` with netcode over UDP, as its examples show: components replicated by its plugins, who sees whom set by
//! distance for each client (`gain_visibility`, `lose_visibility`), inputs as messages on an unreliable channel.
//! Encrypted by netcode (ChaCha20-Poly1305).

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Instant;

use bevy::prelude::*;
use bevy::state::app::StatesPlugin;
use bevy::time::TimeUpdateStrategy;
use bevy_replicon::client::confirm_history::ConfirmHistory;
use bevy_replicon::server::server_tick::ServerTick;
use lightyear::connection::client_of::ClientOf;
use lightyear::prelude::client::{ClientPlugins, Connect, Connected, NetcodeClient};
use lightyear::prelude::server::{NetcodeServer, ServerPlugins, ServerUdpIo, Start};
use lightyear::prelude::*;
use serde::{Deserialize, Serialize};

use crate::clients;
use crate::crowd::{Crowd, Stride, Walker, Wanderer, is_near, side};
use crate::truth::{EVERY, Log};
use crate::usage::{Marks, Meter, Traffic, widen_sockets};
use crate::{Served, TICK, Task, next_tick};

const PROTOCOL: u64 = 7;
const KEY: [u8; 32] = [7; 32];
/// A server that is late keeps its clients: what is measured is what it takes, not whether it gives up.
const TIMEOUT_SECONDS: i32 = 60;

/// Which player it is.
#[derive(Component, Serialize, Deserialize, Clone, Copy, PartialEq)]
struct Number(u16);

#[derive(Component, Serialize, Deserialize, Clone, Copy, PartialEq)]
struct Pose {
    pos: [f32; 3],
    yaw: f32,
}

#[derive(Component, Serialize, Deserialize, Clone, Copy, PartialEq)]
struct Mood(u8);

#[derive(Serialize, Deserialize, Clone, Copy)]
struct Input([i16; 2]);

struct Inputs;

/// The game, and what each client was last shown of it.
#[derive(Resource)]
struct Field {
    crowd: Crowd,
    strides: Vec<Stride>,
    entities: Vec<Entity>,
    seen: Vec<Vec<bool>>,
}

/// UDP payload of all links so far.
#[derive(Resource, Default)]
struct Counted {
    sent: Traffic,
    received: Traffic,
}

/// What both ends have to agree on. It comes after the plugins of the end.
fn protocol(app: &mut App) {
    app.component::<Number>().replicate();
    app.component::<Pose>().replicate();
    app.component::<Mood>().replicate();
    app.register_message::<Input>().add_direction(NetworkDirection::ClientToServer);
    app.add_channel::<Inputs>(ChannelSettings::default())
        .add_direction(NetworkDirection::ClientToServer);
}

fn number_of(id: &RemoteId) -> usize {
    match id.0 {
        PeerId::Netcode(number) => number as usize,
        _ => usize::MAX,
    }
}

fn take_inputs(
    mut clients: Query<(&RemoteId, &mut MessageReceiver<Input>), With<ClientOf>>,
    mut field: ResMut<Field>,
) {
    for (id, mut inputs) in &mut clients {
        for input in inputs.receive() {
            if let Some(stride) = field.strides.get_mut(number_of(id)) {
                *stride = Stride(input.0);
            }
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

/// Tells the library only of pairs that change, and hides from a new client first what is out of reach.
fn look(
    mut field: ResMut<Field>,
    clients: Query<(Entity, &RemoteId), (With<ClientOf>, With<Connected>)>,
    mut commands: Commands,
) {
    let Field { crowd, entities, seen, .. } = &mut *field;
    for (client, id) in &clients {
        let number = number_of(id);
        let Some(me) = crowd.walkers.get(number) else { continue };
        let is_new = seen[number].is_empty();
        seen[number].resize(entities.len(), true);
        for (who, walker) in crowd.walkers.iter().enumerate() {
            let (sees, saw) = (is_near(me, walker), &mut seen[number][who]);
            match sees {
                true if !*saw => commands.gain_visibility(entities[who], client),
                false if *saw || is_new => commands.lose_visibility(entities[who], client),
                _ => {}
            }
            *saw = sees;
        }
    }
}

/// Packets between the socket and netcode: taken out, counted and put back, since a link does not show them.
fn count_received(mut links: Query<&mut Link, With<LinkOf>>, mut counted: ResMut<Counted>) {
    for mut link in links.iter_mut().filter(|link| link.recv.len() > 0) {
        for packet in link.recv.drain().collect::<Vec<_>>() {
            counted.received.add(packet.len());
            link.recv.push_raw(packet);
        }
    }
}

fn count_sent(mut links: Query<&mut Link, With<LinkOf>>, mut counted: ResMut<Counted>) {
    for mut link in links.iter_mut().filter(|link| link.send.len() > 0) {
        for packet in link.send.drain().collect::<Vec<_>>() {
            counted.sent.add(packet.len());
            link.send.push(packet);
        }
    }
}

fn new_server(task: &Task) -> Result<(App, SocketAddr), Box<dyn Error>> {
    let mut app = App::new();
    app.add_plugins((MinimalPlugins, StatesPlugin, ServerPlugins { tick_duration: TICK }));
    protocol(&mut app);
    // One tick an update, however late the update is.
    app.insert_resource(TimeUpdateStrategy::ManualDuration(TICK));
    app.init_resource::<Counted>();
    app.add_systems(FixedUpdate, (take_inputs, walk, look).chain());
    let received = count_received.after(LinkSystems::Receive).before(ConnectionSystems::Receive);
    let sent = count_sent.after(ConnectionSystems::Send).before(LinkSystems::Send);
    app.add_systems(PreUpdate, received).add_systems(PostUpdate, sent);
    app.add_observer(|link: On<Add, LinkOf>, mut commands: Commands| {
        commands.entity(link.entity).insert(ReplicationSender);
    });
    app.finish();
    app.cleanup();
    let world = app.world_mut();
    let crowd = Crowd::new(task.clients);
    let spawn = |(who, walker): (usize, &Walker)| {
        let pose = Pose { pos: walker.pos, yaw: walker.yaw };
        let to = Replicate::to_clients(NetworkTarget::All);
        world.spawn((to, Number(who as u16), pose, Mood(walker.mood))).id()
    };
    let entities = crowd.walkers.iter().enumerate().map(spawn).collect();
    let strides = vec![Stride::default(); task.clients];
    let seen = vec![Vec::new(); task.clients];
    app.insert_resource(Field { crowd, strides, entities, seen });
    let config = server::NetcodeConfig::default()
        .with_max_clients(task.clients)
        .with_protocol_id(PROTOCOL)
        .with_key(KEY)
        .with_client_timeout_secs(TIMEOUT_SECONDS);
    let local = LocalAddr((Ipv4Addr::LOCALHOST, 0).into());
    let io = (NetcodeServer::new(config), local, ServerUdpIo::default());
    let server = app.world_mut().spawn(io).id();
    app.world_mut().trigger(Start { entity: server });
    app.world_mut().flush();
    widen_sockets();
    let address = app.world().get::<LocalAddr>(server).ok_or("the server is not bound")?.0;
    Ok((app, address))
}

/// Serves until the marks end.
pub fn serve(task: &Task, marks: &Marks) -> Result<Served, Box<dyn Error>> {
    let (mut app, address) = new_server(task)?;
    println!("{address}");
    let (mut due, mut meter) = (Instant::now(), Meter::default());
    let mut log = Log::create(&task.folder, "was")?;
    loop {
        app.update();
        let world = app.world();
        let tick = world.resource::<ServerTick>().get();
        if marks.phase() == 1 && tick.is_multiple_of(EVERY) {
            for (who, walker) in world.resource::<Field>().crowd.walkers.iter().enumerate() {
                log.note(tick, who, who, walker)?;
            }
        }
        let Counted { sent, received } = *world.resource::<Counted>();
        if let Some(served) = meter.tick(marks, sent, received) {
            log.flush()?;
            return Ok(served);
        }
        next_tick(&mut due);
    }
}

pub struct Player {
    app: App,
    link: Entity,
    everything: QueryState<(Entity, &'static Number, &'static Pose, &'static ConfirmHistory)>,
    me: Option<Entity>,
    wanderer: Wanderer,
    noted: u32,
}

impl clients::Client for Player {
    fn join(number: usize, task: &Task, server: SocketAddr) -> Result<Player, Box<dyn Error>> {
        let mut app = App::new();
        app.add_plugins((MinimalPlugins, StatesPlugin, ClientPlugins { tick_duration: TICK }));
        protocol(&mut app);
        app.finish();
        app.cleanup();
        let authentication = Authentication::Manual {
            server_addr: server,
            client_id: number as u64,
            private_key: KEY,
            protocol_id: PROTOCOL,
        };
        let config = client::NetcodeConfig {
            client_timeout_secs: TIMEOUT_SECONDS,
            token_expire_secs: -1,
            ..client::NetcodeConfig::default()
        };
        let netcode = NetcodeClient::new(authentication, config)?;
        let local = LocalAddr((Ipv4Addr::LOCALHOST, 0).into());
        let io = (netcode, local, PeerAddr(server), UdpIo::default(), ReplicationReceiver);
        let link = app.world_mut().spawn(io).id();
        app.world_mut().trigger(Connect { entity: link });
        app.world_mut().flush();
        let everything = app.world_mut().query();
        let wanderer = Wanderer::new(number as u64, side(task.clients));
        Ok(Player { app, link, everything, me: None, wanderer, noted: 0 })
    }

    fn is_connected(&self) -> bool {
        self.app.world().get::<Connected>(self.link).is_some()
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
            if let Some(mut sender) = world.get_mut::<MessageSender<Input>>(self.link) {
                sender.send::<Inputs>(Input(stride.0));
            }
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
