//! A loop for Silac's gossip: one node on one UDP socket.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use foveate_node::Output;
use foveate_node::peer::silac::{Frame, Me, Silac, SilacEvent, SilacInput, SilacSettings};
use foveate_wire::Micros;

use super::MAX_HAPPENED;
use crate::error::Error;
use crate::socket::{Batch, Sockets};
use crate::time::since_boot;

/// A node of a game by Silac's gossip, on a real socket.
///
/// Its datagrams are those of the source: in the clear, and nobody proves who they are. It is for networks
/// whose members trust each other, and for comparison; [`PeerHost`](super::PeerHost) is for all others.
pub struct SilacHost {
    /// The node: whom it knows, and what it counted.
    pub silac: Silac,
    socket: Sockets,
    batch: Batch,
    began: Duration,
    /// When the node wants its next frame.
    wake: Option<Micros>,
    happened: VecDeque<SilacEvent>,
}

impl SilacHost {
    /// A node in no game yet. Others reach it at the address that it listens on, so that one must be
    /// theirs to reach: not the unspecified one. Port 0 takes one that is free.
    pub fn bind(
        listen: SocketAddr,
        settings: SilacSettings,
        name: &str,
        seed: u64,
    ) -> Result<SilacHost, Error> {
        if listen.ip().is_unspecified() {
            let what = "expected an address that others can reach".to_owned();
            return Err(Error::Option { name: "listen", what });
        }
        let socket = Sockets::listen(listen)?;
        let me = Me { address: socket.address()?, name: name.into(), model: 0 };
        Ok(SilacHost {
            silac: Silac::new(settings, me, seed),
            socket,
            batch: Batch::default(),
            began: since_boot(),
            wake: None,
            happened: VecDeque::new(),
        })
    }

    /// Begins a game, as the only one in it.
    pub fn found(&mut self, game: u32, frame: Frame) {
        self.handle(SilacInput::Found { game, frame });
    }

    /// Asks to be let in by any of these.
    pub fn join(&mut self, game: u32, contacts: &[SocketAddr], frame: Frame) {
        self.handle(SilacInput::Join { game, contacts, frame });
    }

    /// Waits for the next frame, taking in what arrives, and plays it as `frame` says. A node that is in
    /// no game has none: false.
    pub fn step(&mut self, frame: impl FnOnce(&Silac) -> Frame) -> Result<bool, Error> {
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
            self.socket.wait(Duration::from_micros((wake - now).0), Vec::new())?;
        }
    }

    /// What happened since the last call; of more than [`MAX_HAPPENED`], the last.
    pub fn drain_events(&mut self) -> std::collections::vec_deque::Drain<'_, SilacEvent> {
        self.happened.drain(..)
    }

    /// Says good-bye.
    pub fn leave(mut self) {
        self.handle(SilacInput::Leave);
    }

    fn now(&self) -> Micros {
        Micros((since_boot() - self.began).as_micros() as u64)
    }

    fn take_in(&mut self) -> Result<(), Error> {
        let now = self.now();
        let SilacHost { socket, silac, .. } = self;
        socket.receive(|it| silac.handle(now, SilacInput::Datagram(it.from, it.bytes)))?;
        self.carry_out();
        Ok(())
    }

    fn handle(&mut self, input: SilacInput<'_>) {
        self.silac.handle(self.now(), input);
        self.carry_out();
    }

    /// Does what the node asks for. What the system does not take is lost like any datagram.
    fn carry_out(&mut self) {
        while let Some(output) = self.silac.poll() {
            match output {
                Output::Transmit(to, bytes) => {
                    self.batch.push(to, None, &bytes);
                    if self.batch.is_full() {
                        self.socket.send(&mut self.batch);
                    }
                }
                Output::WakeAt(at) => self.wake = Some(at),
                Output::Event(event) => {
                    if self.happened.len() >= MAX_HAPPENED {
                        self.happened.pop_front();
                    }
                    self.happened.push_back(event);
                }
            }
        }
        if self.batch.len() > 0 {
            self.socket.send(&mut self.batch);
        }
    }
}
