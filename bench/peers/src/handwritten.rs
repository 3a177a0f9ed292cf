//! What a developer writes by hand on renet2: each tick, each client is sent the full state of all players within
//! the radius in one unreliable message. Encrypted by renetcode2 (ChaCha20-Poly1305).

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use renet2::{ConnectionConfig, DefaultChannel, RenetClient, RenetServer};
use renet2_netcode::{
    ClientAuthentication, NativeSocket, NetcodeClientTransport, NetcodeServerTransport,
    NetcodeTransportError, ServerAuthentication, ServerSetupConfig, ServerSocket,
};

use crate::clients::Client;
use crate::crowd::{Crowd, Stride, WALKER, Walker, Wanderer, is_near, side};
use crate::truth::{EVERY, Log};
use crate::usage::{BUFFER, Marks, Meter, Traffic};
use crate::{Served, TICK, Task, next_tick};

const PROTOCOL: u64 = 7;

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
#[derive(Debug)]
struct Counted(NativeSocket);

impl ServerSocket for Counted {
    fn is_encrypted(&self) -> bool {
        ServerSocket::is_encrypted(&self.0)
    }
    fn is_reliable(&self) -> bool {
        ServerSocket::is_reliable(&self.0)
    }
    fn addr(&self) -> std::io::Result<SocketAddr> {
        ServerSocket::addr(&self.0)
    }
    fn is_closed(&mut self) -> bool {
        ServerSocket::is_closed(&mut self.0)
    }
    fn close(&mut self) {
        ServerSocket::close(&mut self.0);
    }
    fn connection_denied(&mut self, addr: SocketAddr) {
        self.0.connection_denied(addr);
    }
    fn connection_accepted(&mut self, client_id: u64, addr: SocketAddr) {
        self.0.connection_accepted(client_id, addr);
    }
    fn disconnect(&mut self, addr: SocketAddr) {
        self.0.disconnect(addr);
    }
    fn preupdate(&mut self) {
        ServerSocket::preupdate(&mut self.0);
    }
    fn try_recv(&mut self, buffer: &mut [u8]) -> std::io::Result<(usize, SocketAddr)> {
        let read = ServerSocket::try_recv(&mut self.0, buffer)?;
        count(&RECEIVED, read.0);
        Ok(read)
    }
    fn postupdate(&mut self) {
        ServerSocket::postupdate(&mut self.0);
    }
    fn send(&mut self, addr: SocketAddr, packet: &[u8]) -> Result<(), NetcodeTransportError> {
        count(&SENT, packet.len());
        ServerSocket::send(&mut self.0, addr, packet)
    }
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn bind() -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let buffers = socket2::SockRef::from(&socket);
    buffers.set_recv_buffer_size(BUFFER)?;
    buffers.set_send_buffer_size(BUFFER)?;
    Ok(socket)
}

/// Serves until the marks end.
pub fn serve(task: &Task, marks: &Marks) -> Result<Served, Box<dyn Error>> {
    let socket = bind()?;
    let address = socket.local_addr()?;
    let setup = ServerSetupConfig {
        current_time: since_epoch(),
        max_token_lifetime: 300,
        max_clients: task.clients,
        protocol_id: PROTOCOL,
        socket_addresses: vec![vec![address]],
        authentication: ServerAuthentication::Unsecure,
    };
    let mut transport = NetcodeServerTransport::new(setup, Counted(NativeSocket::new(socket)?))?;
    let mut server = RenetServer::new(ConnectionConfig::test());
    println!("{address}");
    let mut crowd = Crowd::new(task.clients);
    let mut strides = vec![Stride::default(); task.clients];
    let (mut tick, mut due, mut meter) = (0_u32, Instant::now(), Meter::default());
    let mut log = Log::create(&task.folder, "was")?;
    loop {
        server.update(TICK);
        let _ = transport.update(TICK, &mut server);
        while server.get_event().is_some() {}
        let ids = server.clients_id();
        for id in &ids {
            while let Some(message) = server.receive_message(*id, DefaultChannel::Unreliable) {
                if let (Ok(bytes), Some(stride)) =
                    (message[..].try_into(), strides.get_mut(*id as usize))
                {
                    *stride = Stride::decode(bytes);
                }
            }
        }
        tick += 1;
        for (who, stride) in strides.iter().enumerate() {
            crowd.step(who, *stride);
        }
        for id in &ids {
            let me = &crowd.walkers[*id as usize];
            let mut message = Vec::with_capacity(1_200);
            message.extend_from_slice(&tick.to_le_bytes());
            for (who, walker) in crowd.walkers.iter().enumerate() {
                if is_near(me, walker) {
                    message.extend_from_slice(&(who as u16).to_le_bytes());
                    walker.write(&mut message);
                }
            }
            server.send_message(*id, DefaultChannel::Unreliable, message);
        }
        transport.send_packets(&mut server);
        if marks.phase() == 1 && tick.is_multiple_of(EVERY) {
            for (who, walker) in crowd.walkers.iter().enumerate() {
                log.note(tick, who, who, walker)?;
            }
        }
        if let Some(served) = meter.tick(marks, counted(&SENT), counted(&RECEIVED)) {
            log.flush()?;
            return Ok(served);
        }
        next_tick(&mut due);
    }
}

pub struct Player {
    client: RenetClient,
    transport: NetcodeClientTransport,
    wanderer: Wanderer,
    me: Option<Walker>,
}

impl Client for Player {
    fn join(number: usize, task: &Task, server: SocketAddr) -> Result<Player, Box<dyn Error>> {
        let authentication = ClientAuthentication::Unsecure {
            server_addr: server,
            client_id: number as u64,
            user_data: None,
            protocol_id: PROTOCOL,
            socket_id: 0,
        };
        let socket = NativeSocket::new(UdpSocket::bind("127.0.0.1:0")?)?;
        let transport = NetcodeClientTransport::new(since_epoch(), authentication, socket)?;
        Ok(Player {
            client: RenetClient::new(ConnectionConfig::test(), false),
            transport,
            wanderer: Wanderer::new(number as u64, side(task.clients)),
            me: None,
        })
    }

    fn is_connected(&self) -> bool {
        self.transport.is_connected()
    }

    fn step(&mut self, number: usize, log: Option<&mut Log>) -> std::io::Result<()> {
        self.client.update(TICK);
        let _ = self.transport.update(TICK, &mut self.client);
        let mut log = log;
        while let Some(message) = self.client.receive_message(DefaultChannel::Unreliable) {
            let Some((tick, rest)) = message.split_first_chunk() else { continue };
            let tick = u32::from_le_bytes(*tick);
            for entry in rest.chunks_exact(2 + WALKER) {
                let who = usize::from(u16::from_le_bytes([entry[0], entry[1]]));
                let Ok(bytes) = entry[2..].try_into() else { continue };
                let walker = Walker::read(bytes);
                if who == number {
                    self.me = Some(walker);
                } else if let Some(log) = log.as_deref_mut()
                    && tick.is_multiple_of(EVERY)
                {
                    log.note(tick, number, who, &walker)?;
                }
            }
        }
        if self.client.is_connected() {
            let stride = self.wanderer.think(self.me.as_ref());
            self.client.send_message(DefaultChannel::Unreliable, stride.encode().to_vec());
        }
        let _ = self.transport.send_packets(&mut self.client);
        Ok(())
    }
}
