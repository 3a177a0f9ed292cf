//! Attacks that need no player: packets, handshakes, requests.

use super::{BURST, FROM, HOSTILE, Orders, ROUND};
use foveate_io::{Endpoint, EndpointOptions, LinkEvent, LinkId, Trust};
use std::error::Error;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// How often the flood sends a burst.
const EVERY: Duration = Duration::from_millis(2);
/// Packets of garbage in a burst of the flood.
const GARBAGE: usize = 20;
/// Handshakes begun in a burst of the flood.
const HANDSHAKES: usize = 1;
/// Datagrams in a burst over each link that was let in, at most two of them.
const DATAGRAMS: usize = 50;
/// Requests that are sent at once on one connection.
const PIPELINED: usize = 20;

/// An endpoint where attacks come from.
pub fn client() -> Result<Endpoint, Box<dyn Error>> {
    let options = EndpointOptions::client();
    Ok(Endpoint::client(FROM.parse()?, &Trust::InsecureDevelopmentOnly, options)?)
}

pub fn flood(server: SocketAddr, orders: &Orders) -> Result<(), Box<dyn Error>> {
    let garbage = UdpSocket::bind(FROM)?;
    let mut endpoint = client()?;
    let mut rng = fastrand::Rng::with_seed(7);
    let mut bytes = [0; 1_200];
    rng.fill(&mut bytes);
    let (mut events, mut links) = (Vec::new(), Vec::<LinkId>::new());
    while orders.goes_on() {
        for _ in 0..GARBAGE {
            let length = rng.usize(1..=bytes.len());
            bytes[..length.min(8)].iter_mut().for_each(|byte| *byte = rng.u8(..));
            orders.count(usize::from(garbage.send_to(&bytes[..length], server).is_ok()));
        }
        for _ in 0..HANDSHAKES {
            let begun = endpoint.connect(server, "localhost");
            orders.count(usize::from(begun.is_ok()));
        }
        for link in links.iter().take(2) {
            for _ in 0..DATAGRAMS {
                let length = rng.usize(1..=1_000);
                let done = endpoint.send_datagram(*link, &bytes[..length]).is_ok();
                orders.count(usize::from(done));
            }
        }
        endpoint.flush();
        endpoint.wait(Instant::now() + EVERY, &mut events)?;
        for event in events.drain(..) {
            match event {
                LinkEvent::Connected { link, .. } => links.push(link),
                LinkEvent::Closed { link, .. } => links.retain(|known| *known != link),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Each client begins a handshake in every round, and never hears an answer.
pub fn unfinished_handshakes(server: SocketAddr, orders: &Orders) -> Result<(), Box<dyn Error>> {
    while orders.goes_on() {
        let next = Instant::now() + ROUND;
        let mut endpoint = client()?;
        let begun = (0..HOSTILE).filter(|_| endpoint.connect(server, "localhost").is_ok()).count();
        endpoint.flush();
        orders.count(begun);
        drop(endpoint);
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// As many links as an address may have, none of which says anything; each that the server closes is made again.
pub fn idle(server: SocketAddr, orders: &Orders) -> Result<(), Box<dyn Error>> {
    let (mut endpoint, mut events, mut links) = (client()?, Vec::new(), Vec::<LinkId>::new());
    while orders.goes_on() {
        let next = Instant::now() + ROUND;
        while links.len() < HOSTILE {
            let Ok(link) = endpoint.connect(server, "localhost") else { break };
            orders.count(1);
            links.push(link);
        }
        endpoint.flush();
        while Instant::now() < next && orders.goes_on() {
            endpoint.wait(next, &mut events)?;
            for event in events.drain(..) {
                if let LinkEvent::Closed { link, .. } = event {
                    links.retain(|known| *known != link);
                }
            }
        }
    }
    Ok(())
}

/// Stands between a link and its server, and sees the connection id that the server chose.
struct Wire {
    front: UdpSocket,
    back: UdpSocket,
    server: SocketAddr,
    client: Option<SocketAddr>,
    id: Option<[u8; 8]>,
}

impl Wire {
    fn to(server: SocketAddr) -> Result<Wire, Box<dyn Error>> {
        let (front, back) = (UdpSocket::bind(FROM)?, UdpSocket::bind(FROM)?);
        front.set_nonblocking(true)?;
        back.set_nonblocking(true)?;
        Ok(Wire { front, back, server, client: None, id: None })
    }

    fn pass_on(&mut self) {
        let mut packet = [0; 2_048];
        while let Ok((size, from)) = self.front.recv_from(&mut packet) {
            self.client = Some(from);
            // A packet with a short header begins with the id.
            if packet[0] & 0x80 == 0 {
                self.id = packet[1..9].try_into().ok();
            }
            // Lost is lost.
            self.back.send_to(&packet[..size], self.server).unwrap_or(0);
        }
        while let (Ok((size, _)), Some(client)) = (self.back.recv_from(&mut packet), self.client) {
            self.front.send_to(&packet[..size], client).unwrap_or(0);
        }
    }
}

/// One link whose id is known, and garbage with that id from elsewhere.
pub fn garbage_with_an_id(server: SocketAddr, orders: &Orders) -> Result<(), Box<dyn Error>> {
    let (mut wire, mut endpoint, mut events) = (Wire::to(server)?, client()?, Vec::new());
    let link = endpoint.connect(wire.front.local_addr()?, "localhost")?;
    let stranger = UdpSocket::bind(FROM)?;
    let mut rng = fastrand::Rng::with_seed(7);
    let (mut bytes, mut next) = ([0x40; 40], Instant::now());
    while orders.goes_on() {
        wire.pass_on();
        endpoint.wait(Instant::now() + Duration::from_millis(5), &mut events)?;
        events.clear();
        // Something must be said on the link, or no id is seen.
        endpoint.send_datagram(link, b"hello").unwrap_or(());
        endpoint.flush();
        if Instant::now() < next {
            continue;
        }
        next += ROUND;
        let Some(id) = wire.id else { continue };
        bytes[1..9].copy_from_slice(&id);
        for _ in 0..HOSTILE * BURST {
            rng.fill(&mut bytes[9..]);
            orders.count(usize::from(stranger.send_to(&bytes, server).is_ok()));
        }
    }
    Ok(())
}

/// Every second connection says half a request and no more; the others ask for the largest page, many times at
/// once, and read what comes.
pub fn requests(web: SocketAddr, orders: &Orders) -> Result<(), Box<dyn Error>> {
    let whole = "GET /arena.json HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(PIPELINED);
    let mut visits: Vec<Option<TcpStream>> = (0..HOSTILE).map(|_| None).collect();
    let mut scratch = vec![0; 256 * 1_024];
    while orders.goes_on() {
        let next = Instant::now() + ROUND;
        for (at, visit) in visits.iter_mut().enumerate() {
            let is_half = at % 2 == 0;
            let fresh = visit.is_none();
            let mut stream = match visit.take() {
                Some(stream) => stream,
                None => {
                    let stream = TcpStream::connect_timeout(&web, Duration::from_secs(1))?;
                    stream.set_nonblocking(true)?;
                    stream
                }
            };
            let said = match is_half {
                true if fresh => stream.write(b"GET / HTTP/1.1\r\nHost: loc"),
                true => Ok(0),
                false => stream.write(whole.as_bytes()),
            };
            orders.count(said.map_or(0, |bytes| usize::from(bytes > 0)));
            // A visit that the server has ended is begun anew.
            let ended = match stream.read(&mut scratch) {
                Ok(count) => count == 0,
                Err(cause) => cause.kind() != ErrorKind::WouldBlock,
            };
            *visit = (!ended).then_some(stream);
        }
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}
