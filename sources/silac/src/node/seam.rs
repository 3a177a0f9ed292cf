//! Silac as a [`Node`], which drivers and simulators run.

use super::{JOIN_AGAIN, Silac, SilacEvent, SilacFrame, SilacInput};
use foveate_node::node::{Node, NodeInput, Remote};
use foveate_node::{Link, Outbox, Output};
use foveate_wire::Micros;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

/// Datagrams that wait for links to be made; the oldest are dropped when there are more.
pub const MAX_WAITING_FOR_LINKS: usize = 256;

/// A program's command to a node.
#[derive(Clone, PartialEq, Debug)]
pub enum SilacCommand {
    /// Start a game with this node as its first.
    Found {
        /// The game's id.
        game: u32,
        /// The avatar's first state.
        frame: SilacFrame,
    },
    /// Join a game through some of its nodes.
    Join {
        /// The game's id.
        game: u32,
        /// Nodes of the game.
        contacts: Vec<SocketAddr>,
        /// The avatar's first state.
        frame: SilacFrame,
    },
    /// Sets the avatar from the next frame on. An action in it is done once.
    SetFrame(SilacFrame),
    /// Leave the game.
    Leave,
}

/// A node's request to its host, or an event for its program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SilacNodeEvent {
    /// Make a link with the node at this address; [`Remote::Address`] answers.
    Dial(SocketAddr),
    /// An event of the game.
    Game(SilacEvent),
}

/// Silac as a [`Node`]. Silac itself knows addresses and no links: the first datagram to an address dials a link and
/// waits for it.
pub struct SilacNode {
    pub silac: Silac,
    /// The avatar in the next frame.
    frame: Option<SilacFrame>,
    links: BTreeMap<SocketAddr, Link>,
    addresses: BTreeMap<Link, SocketAddr>,
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
    /// When each address without a link was last dialled; expired entries are removed.
    dialled: BTreeMap<SocketAddr, Micros>,
    /// When the next frame is due; `None` outside a game.
    wake: Option<Micros>,
    events: VecDeque<SilacNodeEvent>,
}

impl SilacNode {
    pub fn new(silac: Silac) -> SilacNode {
        SilacNode {
            silac,
            frame: None,
            links: BTreeMap::new(),
            addresses: BTreeMap::new(),
            waiting: VecDeque::new(),
            dialled: BTreeMap::new(),
            wake: None,
            events: VecDeque::new(),
        }
    }

    fn command(&mut self, now: Micros, command: SilacCommand) {
        match command {
            SilacCommand::Found { game, frame } => {
                self.frame = Some(frame);
                self.silac.handle(now, SilacInput::Found { game, frame });
            }
            SilacCommand::Join { game, contacts, frame } => {
                self.frame = Some(frame);
                self.silac.handle(now, SilacInput::Join { game, contacts: &contacts, frame });
            }
            SilacCommand::SetFrame(frame) => self.frame = Some(frame),
            SilacCommand::Leave => self.silac.handle(now, SilacInput::Leave),
        }
    }

    fn wake(&mut self, now: Micros) {
        if let (Some(due), Some(frame)) = (self.wake, &mut self.frame)
            && now >= due
        {
            self.wake = None;
            self.silac.handle(now, SilacInput::Frame(*frame));
            frame.act = None;
        }
    }

    fn connected(&mut self, link: Link, address: SocketAddr, out: &mut impl Outbox) {
        self.dialled.remove(&address);
        self.links.insert(address, link);
        self.addresses.insert(link, address);
        self.waiting.retain(|(to, bytes)| {
            if *to == address {
                out.datagram(link, bytes);
            }
            *to != address
        });
    }

    fn send(&mut self, now: Micros, to: SocketAddr, bytes: Vec<u8>, out: &mut impl Outbox) {
        if let Some(link) = self.links.get(&to) {
            return out.datagram(*link, &bytes);
        }
        // An unanswered dial is repeated.
        self.dialled.retain(|_, at| now - *at < JOIN_AGAIN);
        if let Entry::Vacant(dial) = self.dialled.entry(to) {
            dial.insert(now);
            self.events.push_back(SilacNodeEvent::Dial(to));
        }
        if self.waiting.len() >= MAX_WAITING_FOR_LINKS {
            self.waiting.pop_front();
        }
        self.waiting.push_back((to, bytes));
    }
}

impl Node for SilacNode {
    type Command = SilacCommand;
    type Event = SilacNodeEvent;

    fn handle(&mut self, now: Micros, input: NodeInput<'_, SilacCommand>, out: &mut impl Outbox) {
        match input {
            NodeInput::Connected(link, Remote::Address(address)) => {
                self.connected(link, address, out);
            }
            // Silac identifies other nodes only by address.
            NodeInput::Connected(..) | NodeInput::Message(..) => {}
            NodeInput::Datagram(link, bytes) => {
                if let Some(from) = self.addresses.get(&link) {
                    self.silac.handle(now, SilacInput::Datagram(*from, bytes));
                }
            }
            NodeInput::Closed(link) => {
                if let Some(address) = self.addresses.remove(&link) {
                    self.links.remove(&address);
                }
            }
            NodeInput::Wake => self.wake(now),
            NodeInput::Command(command) => self.command(now, command),
        }
        while let Some(output) = self.silac.poll() {
            match output {
                Output::Transmit(to, bytes) => self.send(now, to, bytes, out),
                Output::Event(event) => self.events.push_back(SilacNodeEvent::Game(event)),
                Output::WakeAt(at) => self.wake = Some(at),
            }
        }
    }

    fn poll(&mut self) -> Option<SilacNodeEvent> {
        self.events.pop_front()
    }

    /// A node in no game is checked again after a frame.
    fn next_wake(&self, now: Micros) -> Micros {
        self.wake.unwrap_or(now + self.silac.settings.frame)
    }
}
