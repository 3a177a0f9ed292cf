//! A loop for Silac's gossip: one node on one UDP socket.

use crate::{Me, Silac, SilacEvent, SilacFrame, SilacInput, SilacSettings};
use foveate_node::Output;
use foveate_wire::Micros;
use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Result};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Events that are kept until they are asked for.
pub const MAX_EVENTS: usize = 4096;
/// Datagrams that are taken in at once, before the clock is looked at again.
const MAX_BURST: usize = 4096;
/// Larger datagrams are cut, and then cannot be read.
const MAX_DATAGRAM: usize = 2048;

/// A node of a game by Silac's gossip, on a real socket.
///
/// Its datagrams are those of the source: in the clear, and nobody proves who they are. It is for networks
/// whose members trust each other, and for comparison.
pub struct SilacHost {
    /// The node: whom it knows, and what it counted.
    pub silac: Silac,
    socket: UdpSocket,
    began: Instant,
    /// When the node wants its next frame.
    wake: Option<Micros>,
    events: VecDeque<SilacEvent>,
}

impl SilacHost {
    /// A node in no game yet. Others reach it at the address that it listens on, so that one must be
    /// theirs to reach: not the unspecified one. Port 0 takes one that is free.
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

    /// Begins a game, as the only one in it.
    pub fn found(&mut self, game: u32, frame: SilacFrame) {
        self.handle(SilacInput::Found { game, frame });
    }

    /// Asks to be let in by any of these.
    pub fn join(&mut self, game: u32, contacts: &[SocketAddr], frame: SilacFrame) {
        self.handle(SilacInput::Join { game, contacts, frame });
    }

    /// Waits for the next frame, taking in what arrives, and plays it as `frame` says. A node that is in
    /// no game has none: false.
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

    /// What events since the last call; of more than [`MAX_EVENTS`], the last.
    pub fn drain_events(&mut self) -> std::collections::vec_deque::Drain<'_, SilacEvent> {
        self.events.drain(..)
    }

    /// Says good-bye.
    pub fn leave(mut self) {
        self.handle(SilacInput::Leave);
    }

    fn now(&self) -> Micros {
        Micros(self.began.elapsed().as_micros() as u64)
    }

    /// Takes in what has arrived.
    fn take_in(&mut self) -> Result<()> {
        self.socket.set_nonblocking(true)?;
        for _ in 0..MAX_BURST {
            if !self.receive()? {
                break;
            }
        }
        Ok(())
    }

    /// Waits for a datagram, and takes it in.
    fn wait(&mut self, longest: Duration) -> Result<()> {
        self.socket.set_nonblocking(false)?;
        self.socket.set_read_timeout(Some(longest.max(Duration::from_micros(1))))?;
        self.receive().map(|_| ())
    }

    /// Takes one datagram in; whether there was one.
    fn receive(&mut self) -> Result<bool> {
        let mut bytes = [0; MAX_DATAGRAM];
        match self.socket.recv_from(&mut bytes) {
            Ok((size, from)) => {
                self.handle(SilacInput::Datagram(from, &bytes[..size]));
                Ok(true)
            }
            // An earlier datagram could not be delivered: no failure of this socket.
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

    /// Does what the node asks for. What the system does not take is lost like any datagram.
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
