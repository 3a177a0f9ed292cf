//! A lobby on real sockets, and its clients. The rules are [`foveate_node::lobby`]'s.
//!
//! ```
//! use foveate_io::keys::KeyPair;
//! use foveate_io::lobby::{LobbyClient, LobbyHost};
//! use foveate_node::lobby::{Announcement, LobbySettings};
//! use std::time::{Duration, Instant};
//!
//! let mut host = LobbyHost::bind(&["127.0.0.1:0".parse()?], LobbySettings::default())?;
//! let address = host.addresses()?[0];
//! let lobby = std::thread::spawn(move || {
//!     while host.lobby.counters().lists == 0 {
//!         host.step(Instant::now() + Duration::from_millis(10)).expect("sockets work");
//!     }
//! });
//!
//! let mut ada = LobbyClient::new(address, KeyPair::generate()?)?;
//! let (patience, contacts) = (Duration::from_secs(10), vec!["127.0.0.1:7777".parse()?]);
//! let game = "capture the flag".to_owned();
//! ada.announce(Announcement { game, players: 1, room: 12, about: vec![], contacts }, patience)?;
//! assert_eq!(ada.list("capture the flag", patience)?.len(), 1);
//! # lobby.join().expect("the lobby ends");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod client;

pub use client::{LobbyClient, LobbyError};

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use foveate_node::lobby::{Cookie, Lobby, LobbySettings, MAX_TALK};
use foveate_wire::Micros;
use ring::hmac;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::Error;
use crate::keys::KeyPair;

/// Packets to answer from one socket before the next one's turn.
const MAX_PER_TURN: usize = 256;

/// Interval between checks for silent peers.
const TICK: Duration = Duration::from_secs(1);

/// A lobby that listens.
pub struct LobbyHost {
    /// The lobby.
    pub lobby: Lobby,
    sockets: Vec<UdpSocket>,
    began: Instant,
    ticked: Instant,
}

impl LobbyHost {
    /// Listens at these addresses, IPv4 or IPv6.
    pub fn bind(addresses: &[SocketAddr], settings: LobbySettings) -> Result<LobbyHost, Error> {
        let sockets = addresses.iter().map(|address| {
            let open = || {
                let socket = UdpSocket::bind(address)?;
                socket.set_nonblocking(true)?;
                Ok(socket)
            };
            open().map_err(|cause| Error::Bind { address: *address, cause })
        });
        let sockets = sockets.collect::<Result<Vec<_>, Error>>()?;
        let now = Instant::now();
        // A lobby only verifies signatures, for which any key pair will do.
        let checker = KeyPair::generate().map_err(no_chance)?;
        let lobby = Lobby::new(settings, Box::new(checker), Box::new(seal()?));
        Ok(LobbyHost { lobby, sockets, began: now, ticked: now })
    }

    /// The addresses at which it listens.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>, Error> {
        self.sockets.iter().map(|socket| Ok(socket.local_addr()?)).collect()
    }

    /// Waits for requests at most until `until`, and answers those that have arrived.
    pub fn step(&mut self, until: Instant) -> Result<(), Error> {
        self.sleep(until)?;
        let now = Instant::now();
        for socket in &self.sockets {
            let at = Micros((now - self.began).as_micros() as u64);
            answer(socket, &mut self.lobby, at)?;
        }
        if now - self.ticked >= TICK {
            self.ticked = now;
            self.lobby.tick(Micros((now - self.began).as_micros() as u64));
        }
        Ok(())
    }

    fn sleep(&self, until: Instant) -> Result<(), Error> {
        let mut asked: Vec<PollFd<'_>> =
            self.sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        let span = until.saturating_duration_since(Instant::now());
        let span = Timespec::try_from(span).unwrap_or(Timespec { tv_sec: 3_600, tv_nsec: 0 });
        match poll(&mut asked, Some(&span)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(cause) => Err(Error::Socket(cause.into())),
        }
    }
}

fn answer(socket: &UdpSocket, lobby: &mut Lobby, now: Micros) -> Result<(), Error> {
    // One byte more than allowed, so that longer packets are recognised.
    let mut bytes = [0; MAX_TALK + 1];
    for _ in 0..MAX_PER_TURN {
        match socket.recv_from(&mut bytes) {
            Ok((length, from)) => {
                if let Some(reply) = lobby.handle(now, from, &bytes[..length]) {
                    // A lost reply does not matter: clients repeat their requests.
                    let _ = socket.send_to(&reply, from);
                }
            }
            Err(cause) if cause.kind() == ErrorKind::WouldBlock => return Ok(()),
            // "Connection refused" is about an earlier reply, not this socket.
            Err(cause) if cause.kind() == ErrorKind::ConnectionReset => {}
            Err(cause) => return Err(cause.into()),
        }
    }
    Ok(())
}

/// A keyed hash with a secret that lasts as long as the process.
fn seal() -> Result<impl Fn(&[u8]) -> Cookie + Send, Error> {
    let chance = ring::rand::SystemRandom::new();
    let key = hmac::Key::generate(hmac::HMAC_SHA256, &chance).map_err(no_chance)?;
    Ok(move |bytes: &[u8]| {
        let mut cookie = Cookie::default();
        cookie.copy_from_slice(&hmac::sign(&key, bytes).as_ref()[..16]);
        cookie
    })
}

fn no_chance<E>(_: E) -> Error {
    Error::Socket(std::io::Error::other("the system provided no random bytes"))
}
