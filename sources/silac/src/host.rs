//! The loop that runs one node of Silac's gossip on one UDP socket.

use crate::{Me, Silac, SilacEvent, SilacFrame, SilacInput, SilacSettings};
use foveate_node::Output;
use foveate_wire::Micros;
use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Result};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Events that are kept until [`SilacHost::drain_events`]; older ones are dropped.
pub const MAX_EVENTS: usize = 4096;
/// Datagrams that are read before the clock is read again.
const MAX_BURST: usize = 4096;
/// Larger datagrams are truncated, and are then rejected as unreadable.
const MAX_DATAGRAM: usize = 2048;

/// A node of a game by Silac's gossip, on a real socket.
///
/// Its datagrams are those of the source: unencrypted and unauthenticated. It is for comparison, and for networks whose
/// members trust each other.
pub struct SilacHost {
    /// The node: the peers that it knows, and its counters.
    pub silac: Silac,
    socket: UdpSocket,
    began: Instant,
    /// When the node wants its next frame.
    wake: Option<Micros>,
    events: VecDeque<SilacEvent>,
}

impl SilacHost {
    /// Binds a socket; the node is in no game yet. Other nodes reach it at `listen`, so that cannot be the unspecified
    /// address. Port 0 takes any free port.
    pub fn bind(
        listen: SocketAddr,
        settings: SilacSettings,
        name: &str,
        seed: u64,
    ) -> Result<SilacHost> {
        if listen.ip().is_unspecified() {
            let what =
                format!("cannot listen on {listen}: expected an address that others can reach");
            return Err(Error::new(ErrorKind::InvalidInput, what));
        }
        let socket = UdpSocket::bind(listen)?;
        let me = Me { address: socket.local_addr()?, name: name.into(), model: 0 };
        Ok(SilacHost {
            silac: Silac::new(settings, me, seed),
            socket,
            began: Instant::now(),
            wake: None,
            events: VecDeque::new(),
        })
    }

    /// Starts a game with this node as its only member.
    pub fn found(&mut self, game: u32, frame: SilacFrame) {
        self.handle(SilacInput::Found { game, frame });
    }

    /// Asks to join a game through any of these contacts.
    pub fn join(&mut self, game: u32, contacts: &[SocketAddr], frame: SilacFrame) {
        self.handle(SilacInput::Join { game, contacts, frame });
    }

    /// Receives datagrams until the next frame is due, then plays the frame that `frame` returns. Returns false at once
    /// if the node is in no game.
    pub fn step(&mut self, frame: impl FnOnce(&Silac) -> SilacFrame) -> Result<bool> {
        loop {
            self.take_in()?;
            let Some(wake) = self.wake else { return Ok(false) };
            let now = self.now();
            if now >= wake {
                self.wake = None;
                let frame = frame(&self.silac);
                self.handle(SilacInput::Frame(frame));
                return Ok(true);
            }
            self.wait(Duration::from_micros((wake - now).0))?;
        }
    }

    /// Events since the last call, at most the newest [`MAX_EVENTS`].
    pub fn drain_events(&mut self) -> std::collections::vec_deque::Drain<'_, SilacEvent> {
        self.events.drain(..)
    }

    /// Leaves the game and tells the other nodes.
    pub fn leave(mut self) {
        self.handle(SilacInput::Leave);
    }

    fn now(&self) -> Micros {
        Micros(self.began.elapsed().as_micros() as u64)
    }

    /// Reads the datagrams that have arrived.
    fn take_in(&mut self) -> Result<()> {
        self.socket.set_nonblocking(true)?;
        for _ in 0..MAX_BURST {
            if !self.receive()? {
                break;
            }
        }
        Ok(())
    }

    /// Waits at most `longest` for a datagram, and reads it.
    fn wait(&mut self, longest: Duration) -> Result<()> {
        self.socket.set_nonblocking(false)?;
        self.socket.set_read_timeout(Some(longest.max(Duration::from_micros(1))))?;
        self.receive().map(|_| ())
    }

    /// Reads one datagram; false if there was none.
    fn receive(&mut self) -> Result<bool> {
        let mut bytes = [0; MAX_DATAGRAM];
        match self.socket.recv_from(&mut bytes) {
            Ok((size, from)) => {
                self.handle(SilacInput::Datagram(from, &bytes[..size]));
                Ok(true)
            }
            // An earlier datagram could not be delivered, which is no failure of this socket.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(true),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => Ok(false),
                _ => Err(error),
            },
        }
    }

    fn handle(&mut self, input: SilacInput<'_>) {
        self.silac.handle(self.now(), input);
        self.carry_out();
    }

    /// Sends what the node wants sent. What the system does not accept is lost, like any datagram.
    fn carry_out(&mut self) {
        while let Some(output) = self.silac.poll() {
            match output {
                Output::Transmit(to, bytes) => drop(self.socket.send_to(&bytes, to)),
                Output::WakeAt(at) => self.wake = Some(at),
                Output::Event(event) => {
                    if self.events.len() >= MAX_EVENTS {
                        self.events.pop_front();
                    }
                    self.events.push_back(event);
                }
            }
        }
    }
}
