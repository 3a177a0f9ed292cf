//! `naia` without an ECS, as its documentation shows: components of properties that are sent when they change, one
//! room, who is in whose scope set by distance for each user, inputs as messages on an unreliable channel. Not
//! encrypted: `naia` has no encryption over UDP.

mod world;

use std::collections::HashMap;
use std::error::Error;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use naia_client::transport::udp as client_udp;
use naia_client::{Client, ClientConfig, UpdateComponentEvent};
use naia_server::transport::{
    ListenResult, PacketReceiver, PacketSender, RecvError, SendError, Socket, udp as server_udp,
};
use naia_server::{AuthEvent, ConnectEvent, MessageEvent, RoomKey, Server, ServerConfig, UserKey};
use naia_shared::default_channels::UnorderedUnreliableChannel;
use naia_shared::{Instant, Message, Property, Protocol, Replicate};

use crate::clients;
use crate::crowd::{Crowd, Stride, Walker, Wanderer, is_near, side};
use crate::truth::{EVERY, Log};
use crate::usage::{Marks, Meter, Traffic, widen_sockets};
use crate::{Served, TICK, Task};
use world::{Id, World};

/// How long the server sleeps if it is before the library's own tick.
const EARLY: Duration = Duration::from_micros(500);

/// Which player it is.
#[derive(Replicate)]
struct Number {
    of: Property<u16>,
}

#[derive(Replicate)]
struct Pose {
    x: Property<f32>,
    y: Property<f32>,
    z: Property<f32>,
    yaw: Property<f32>,
}

#[derive(Replicate)]
struct Mood {
    mood: Property<u8>,
}

#[derive(Message)]
struct Auth {
    number: u16,
}

#[derive(Message)]
struct Input {
    x: i16,
    y: i16,
}

fn protocol() -> Protocol {
    let mut protocol = Protocol::builder();
    protocol
        .tick_interval(TICK)
        .add_default_channels()
        .add_message::<Auth>()
        .add_message::<Input>()
        .add_component::<Number>()
        .add_component::<Pose>()
        .add_component::<Mood>();
    protocol.build()
}

impl Pose {
    /// Sets what differs: a property that is written to is sent.
    fn follow(&mut self, walker: &Walker) {
        let ([x, y, z], yaw) = (walker.pos, walker.yaw);
        let parts = [&mut self.x, &mut self.y, &mut self.z, &mut self.yaw];
        for (part, now) in parts.into_iter().zip([x, y, z, yaw]) {
            if **part != now {
                **part = now;
            }
        }
    }

    fn walker(&self) -> Walker {
        Walker { pos: [*self.x, *self.y, *self.z], yaw: *self.yaw, mood: 0 }
    }
}

static SENT: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
static RECEIVED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

fn count(what: &[AtomicU64; 2], bytes: usize) {
    what[0].fetch_add(1, Ordering::Relaxed);
    what[1].fetch_add(bytes as u64, Ordering::Relaxed);
}

fn counted(what: &[AtomicU64; 2]) -> Traffic {
    let [packets, bytes] = [0, 1].map(|at| what[at].load(Ordering::Relaxed));
    Traffic { packets, bytes }
}

/// The library's own socket, with counters.
struct Counted(server_udp::Socket);

#[derive(Clone)]
struct CountedSender(Box<dyn PacketSender>);

#[derive(Clone)]
struct CountedReceiver(Box<dyn PacketReceiver>);

impl From<Counted> for Box<dyn Socket> {
    fn from(socket: Counted) -> Box<dyn Socket> {
        Box::new(socket)
    }
}

impl Socket for Counted {
    fn listen(self: Box<Self>) -> ListenResult {
        let (auths_out, auths_in, sender, receiver) = Socket::listen(Box::new(self.0));
        (auths_out, auths_in, Box::new(CountedSender(sender)), Box::new(CountedReceiver(receiver)))
    }
}

impl PacketSender for CountedSender {
    fn send(&self, address: &SocketAddr, payload: &[u8]) -> Result<(), SendError> {
        count(&SENT, payload.len());
        self.0.send(address, payload)
    }
}

impl PacketReceiver for CountedReceiver {
    fn receive(&mut self) -> Result<Option<(SocketAddr, &[u8])>, RecvError> {
        let received = self.0.receive()?;
        if let Some((_, payload)) = &received {
            count(&RECEIVED, payload.len());
        }
        Ok(received)
    }
}

/// A port that is free for TCP and for UDP.
fn free_port() -> std::io::Result<SocketAddr> {
    loop {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        if UdpSocket::bind(address).is_ok() {
            return Ok(address);
        }
    }
}

/// The game, and who is in whose scope.
struct Field {
    server: Server<Id>,
    world: World,
    room: RoomKey,
    crowd: Crowd,
    strides: Vec<Stride>,
    ids: Vec<Id>,
    users: HashMap<UserKey, usize>,
    /// Users in the room, and which players each has in its scope.
    seen: HashMap<UserKey, Vec<bool>>,
}

impl Field {
    fn new(task: &Task, address: SocketAddr) -> Field {
        let config = ServerConfig::default();
        let mut server: Server<Id> = Server::new(config, protocol());
        let url = format!("http://{address}");
        let addresses = server_udp::ServerAddrs::new(address, address, &url);
        server.listen(Counted(server_udp::Socket::new(&addresses, None)));
        let room = server.create_room().key();
        let (mut world, crowd) = (World::default(), Crowd::new(task.clients));
        let spawn = |(who, walker): (usize, &Walker)| {
            let ([x, y, z], yaw) = (walker.pos, walker.yaw);
            let mut entity = server.spawn_entity(&mut world);
            entity
                .insert_component(Number::new_complete(who as u16))
                .insert_component(Pose::new_complete(x, y, z, yaw))
                .insert_component(Mood::new_complete(walker.mood))
                .enter_room(&room);
            entity.id()
        };
        let ids = crowd.walkers.iter().enumerate().map(spawn).collect();
        let strides = vec![Stride::default(); task.clients];
        let (users, seen) = (HashMap::new(), HashMap::new());
        Field { server, world, room, crowd, strides, ids, users, seen }
    }

    fn receive(&mut self, now: &Instant) {
        self.server.receive_all_packets();
        self.server.process_all_packets(&mut self.world, now);
        let mut events = self.server.take_world_events();
        for (user, auth) in events.read::<AuthEvent<Auth>>() {
            self.users.insert(user, usize::from(auth.number));
            self.server.accept_connection(&user);
        }
        for user in events.read::<ConnectEvent>() {
            self.server.room_mut(&self.room).add_user(&user);
            self.seen.insert(user, Vec::new());
        }
        for (user, input) in events.read::<MessageEvent<UnorderedUnreliableChannel, Input>>() {
            let stride = self.users.get(&user).and_then(|at| self.strides.get_mut(*at));
            if let Some(stride) = stride {
                *stride = Stride([input.x, input.y]);
            }
        }
    }

    fn walk(&mut self) {
        for (who, stride) in self.strides.iter().enumerate() {
            self.crowd.step(who, *stride);
        }
        for (id, walker) in self.ids.iter().zip(&self.crowd.walkers) {
            if let Some(pose) = self.world.get_mut::<Pose>(*id) {
                pose.follow(walker);
            }
            if let Some(mood) = self.world.get_mut::<Mood>(*id)
                && *mood.mood != walker.mood
            {
                *mood.mood = walker.mood;
            }
        }
    }

    /// Tells the library only of pairs that change.
    fn look(&mut self) {
        for (user, seen) in &mut self.seen {
            let Some(me) = self.users.get(user).and_then(|at| self.crowd.walkers.get(*at)) else {
                continue;
            };
            let is_new = seen.is_empty();
            seen.resize(self.ids.len(), false);
            let mut scope = self.server.user_scope_mut(user);
            for (who, walker) in self.crowd.walkers.iter().enumerate() {
                let sees = is_near(me, walker);
                match (sees, seen[who]) {
                    (true, false) => drop(scope.include(&self.ids[who])),
                    (false, saw) if saw || is_new => drop(scope.exclude(&self.ids[who])),
                    _ => {}
                }
                seen[who] = sees;
            }
        }
    }
}

/// Serves until the marks end.
pub fn serve(task: &Task, marks: &Marks) -> Result<Served, Box<dyn Error>> {
    let address = free_port()?;
    let mut field = Field::new(task, address);
    widen_sockets();
    println!("{address}");
    let mut meter = Meter::default();
    let mut log = Log::create(&task.folder, "was")?;
    loop {
        let (now, begun) = (Instant::now(), std::time::Instant::now());
        field.receive(&now);
        if field.server.take_tick_events(&now).is_empty() {
            std::thread::sleep(EARLY);
            continue;
        }
        field.walk();
        field.look();
        field.server.send_all_packets(&field.world);
        let tick = u32::from(field.server.current_tick());
        if marks.phase() == 1 && tick.is_multiple_of(EVERY) {
            for (who, walker) in field.crowd.walkers.iter().enumerate() {
                log.note(tick, who, who, walker)?;
            }
        }
        if let Some(served) = meter.tick(marks, counted(&SENT), counted(&RECEIVED)) {
            log.flush()?;
            return Ok(served);
        }
        // The library counts a tick from when the one before was taken.
        std::thread::sleep(TICK.saturating_sub(begun.elapsed()));
    }
}

pub struct Player {
    client: Client<Id>,
    world: World,
    wanderer: Wanderer,
    me: Option<Id>,
    /// The newest tick of any update.
    tick: u32,
    noted: u32,
}

impl Player {
    fn number(&self, id: Id) -> Option<usize> {
        self.world.get::<Number>(id).map(|number| usize::from(*number.of))
    }
}

impl clients::Client for Player {
    fn join(number: usize, task: &Task, server: SocketAddr) -> Result<Player, Box<dyn Error>> {
        let config = ClientConfig { send_handshake_interval: TICK, ..ClientConfig::default() };
        let mut client: Client<Id> = Client::new(config, protocol());
        client.auth(Auth { number: number as u16 });
        client.connect(client_udp::Socket::new(&format!("http://{server}"), None));
        let wanderer = Wanderer::new(number as u64, side(task.clients));
        let world = World::default();
        Ok(Player { client, world, wanderer, me: None, tick: 0, noted: 0 })
    }

    fn is_connected(&self) -> bool {
        self.client.connection_status().is_connected()
    }

    fn step(&mut self, number: usize, log: Option<&mut Log>) -> std::io::Result<()> {
        let now = Instant::now();
        self.client.receive_all_packets();
        self.client.process_all_packets(&mut self.world, &now);
        let mut events = self.client.take_world_events();
        for (tick, _) in events.read::<UpdateComponentEvent<Pose>>() {
            self.tick = self.tick.max(u32::from(tick));
        }
        let _ = self.client.take_tick_events(&now);
        if self.is_connected() {
            let me = self.me.and_then(|me| self.world.get::<Pose>(me)).map(Pose::walker);
            if me.is_none() {
                self.me = self.world.ids().find(|id| self.number(*id) == Some(number));
            }
            let Stride([x, y]) = self.wanderer.think(me.as_ref());
            let input = Input { x, y };
            let _ = self.client.send_message::<UnorderedUnreliableChannel, _>(&input);
        }
        self.client.send_all_packets(&self.world);
        let Some(log) = log else { return Ok(()) };
        if self.tick.is_multiple_of(EVERY) && self.tick > self.noted {
            self.noted = self.tick;
            for id in self.world.ids() {
                let (Some(other), Some(pose)) = (self.number(id), self.world.get::<Pose>(id))
                else {
                    continue;
                };
                if other != number {
                    log.note(self.tick, number, other, &pose.walker())?;
                }
            }
        }
        Ok(())
    }
}
