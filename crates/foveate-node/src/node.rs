//! The interface between nodes and their hosts: everything that speaks the protocol without IO is a
//! [`Node`].
//!
//! A driver on real links and a simulator in virtual time do the same four things: pass an input to
//! [`Node::handle`], send what the node wrote to its outbox, drain [`Node::poll`], and wake the
//! node at [`Node::next_wake`]. A node's requests to its host (look a player up, dial a peer) are
//! events; the answers are inputs like any other, so a simulator can delay, lose or repeat them.

use crate::client::News;
use crate::game::{Game, PlayerId};
use crate::outbox::{Link, Outbox};
use crate::peer::{Key, PeerEvent};
use crate::server::ServerEvent;
use crate::session::Refusal;
use crate::{Client, Peer, Server};
use foveate_wire::{Bytes, Micros, ObjectId};
use std::net::SocketAddr;

/// A participant in the protocol: server, client or peer. It opens no socket, reads no clock, and
/// takes all randomness from a seed.
///
/// `now` is the host's clock. It never runs backwards, and is the same clock in `handle` and
/// `next_wake`.
pub trait Node {
    /// Commands of the program, and answers to the node's requests.
    type Command;
    /// Requests to the host, and reports for the program.
    type Event;

    /// Takes one input. Everything that the node sends in response goes to `out` before this
    /// returns.
    fn handle(&mut self, now: Micros, input: NodeInput<'_, Self::Command>, out: &mut impl Outbox);

    /// The next event, oldest first. Drain it after every `handle`.
    fn poll(&mut self) -> Option<Self::Event>;

    /// When to pass [`NodeInput::Wake`], even if nothing arrives; in the past if that is overdue.
    /// Ask again after every `handle`.
    fn next_wake(&self, now: Micros) -> Micros;
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeInput<'a, C> {
    /// A link was made.
    Connected(Link, Remote),
    /// A datagram arrived.
    Datagram(Link, &'a [u8]),
    /// A whole message arrived on the reliable stream.
    Message(Link, &'a [u8]),
    /// A link ended that this node did not close.
    Closed(Link),
    /// The time named by [`Node::next_wake`] has come.
    Wake,
    /// A command of the program, or an answer to an event.
    Command(C),
}

impl<'a, C> NodeInput<'a, C> {
    /// The same input for a node with other commands; `None` if `map` rejects the command.
    pub fn map_command<D>(self, map: impl FnOnce(C) -> Option<D>) -> Option<NodeInput<'a, D>> {
        Some(match self {
            NodeInput::Connected(link, remote) => NodeInput::Connected(link, remote),
            NodeInput::Datagram(link, bytes) => NodeInput::Datagram(link, bytes),
            NodeInput::Message(link, bytes) => NodeInput::Message(link, bytes),
            NodeInput::Closed(link) => NodeInput::Closed(link),
            NodeInput::Wake => NodeInput::Wake,
            NodeInput::Command(command) => NodeInput::Command(map(command)?),
        })
    }
}

/// What the transport has proven about the other end of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remote {
    /// Nothing; the session identifies the player.
    Anonymous,
    /// It receives datagrams at this address. Transports without connections prove no more.
    Address(SocketAddr),
    /// It holds the private key of this public one.
    Keyed {
        key: Key,
        /// Whether this node asked for the link, by [`PeerEvent::Connect`].
        dialled: bool,
    },
}

/// Commands to a server.
#[derive(Clone, PartialEq, Debug)]
pub enum ServerCommand {
    /// Answers [`ServerEvent::Asked`]: accepts the player, with the objects kept from an earlier
    /// visit. The player is rejected as full if they do not fit.
    Admit(Link, PlayerId, Vec<(ObjectId, Vec<i32>)>),
    /// Answers [`ServerEvent::Asked`]: rejects the player.
    Reject(Link, Refusal),
    /// The measured capacity of a link in bytes per round; `None`: not known.
    SetCapacity(Link, Option<Bytes>),
    /// The duration of the last round, receiving and sending included.
    EndRound(Micros),
    /// Ends every session.
    Close,
}

/// Commands to a client.
#[derive(Clone, PartialEq, Debug)]
pub enum ClientCommand<G: Game> {
    /// The player's input in every round from now on.
    SetInput(G::Input),
    /// Sends an action to an object.
    Ask(ObjectId, G::Action),
    /// Chooses one of the game's views.
    SetView(u8),
    /// Looks also from this object; `None`: from the avatar only.
    Watch(Option<ObjectId>),
    /// Asks for a player's name; [`News::Named`] answers.
    Who(PlayerId),
    /// Leaves for good.
    Leave,
}

/// Commands to a peer.
#[derive(Clone, PartialEq, Debug)]
pub enum PeerCommand<G: Game> {
    /// Joins a world through the peer with this key at this contact.
    Join(Key, Vec<u8>),
    /// Answers [`PeerEvent::Connect`] if no link could be made.
    Unreachable(Key),
    /// The player's input in the next round.
    SetInput(G::Input),
    /// Sends an action to an object, whichever peer owns it.
    Ask(ObjectId, G::Action),
    /// The measured capacity of a link in bytes per round; `None`: not known.
    SetCapacity(Link, Option<Bytes>),
    /// Hands over the objects that other peers can own, and leaves for good.
    Leave,
}

impl<G: Game> Node for Server<G> {
    type Command = ServerCommand;
    type Event = ServerEvent;

    fn handle(&mut self, now: Micros, input: NodeInput<'_, ServerCommand>, out: &mut impl Outbox) {
        match input {
            NodeInput::Connected(link, _) => self.connected(link, out),
            NodeInput::Datagram(link, bytes) => self.datagram(link, bytes, now),
            NodeInput::Message(link, bytes) => self.message(link, bytes, now, out),
            NodeInput::Closed(link) => self.closed(link, now),
            NodeInput::Wake => self.wake(now, out),
            NodeInput::Command(command) => match command {
                ServerCommand::Admit(link, player, kept) => {
                    if self.admit(link, player, &kept, now, out).is_err() {
                        self.refuse(link, Refusal::Full, out);
                    }
                }
                ServerCommand::Reject(link, why) => self.refuse(link, why, out),
                ServerCommand::SetCapacity(link, capacity) => self.set_capacity(link, capacity),
                ServerCommand::EndRound(took) => self.end_round(took),
                ServerCommand::Close => self.close(out),
            },
        }
    }

    fn poll(&mut self) -> Option<ServerEvent> {
        Server::poll(self)
    }

    fn next_wake(&self, _: Micros) -> Micros {
        self.next_round()
    }
}

impl<G: Game> Node for Client<G> {
    type Command = ClientCommand<G>;
    type Event = News<G::Event>;

    fn handle(
        &mut self,
        now: Micros,
        input: NodeInput<'_, ClientCommand<G>>,
        out: &mut impl Outbox,
    ) {
        match input {
            NodeInput::Connected(link, _) => self.connected(link, out),
            NodeInput::Datagram(link, bytes) => self.datagram_on(link, bytes, now),
            NodeInput::Message(link, bytes) => self.message_on(link, bytes),
            NodeInput::Closed(link) => self.closed_on(link),
            NodeInput::Wake => self.wake(now, out),
            NodeInput::Command(command) => match command {
                ClientCommand::SetInput(input) => self.set_input(input),
                ClientCommand::Ask(object, action) => self.ask(object, action, now, out),
                ClientCommand::SetView(which) => self.set_view(which, out),
                ClientCommand::Watch(object) => self.watch(object, out),
                ClientCommand::Who(player) => self.who(player, out),
                ClientCommand::Leave => self.leave(out),
            },
        }
    }

    fn poll(&mut self) -> Option<News<G::Event>> {
        Client::poll(self)
    }

    fn next_wake(&self, _: Micros) -> Micros {
        self.next_round()
    }
}

impl<G: Game> Node for Peer<G> {
    type Command = PeerCommand<G>;
    type Event = PeerEvent<G::Event>;

    fn handle(&mut self, now: Micros, input: NodeInput<'_, PeerCommand<G>>, out: &mut impl Outbox) {
        match input {
            NodeInput::Connected(link, Remote::Keyed { key, dialled }) => {
                self.connected(link, (key, dialled), now, out);
            }
            // A peer without a key cannot be held responsible.
            NodeInput::Connected(link, Remote::Anonymous | Remote::Address(_)) => {
                out.close(link, Refusal::Dishonest);
            }
            NodeInput::Datagram(link, bytes) => self.datagram(link, bytes, now),
            NodeInput::Message(link, bytes) => self.message(link, bytes, now, out),
            NodeInput::Closed(link) => self.closed(link, now),
            NodeInput::Wake => self.tick(now, out),
            NodeInput::Command(command) => match command {
                PeerCommand::Join(key, contact) => self.join(key, contact, now),
                PeerCommand::Unreachable(key) => self.unreachable(key, now),
                PeerCommand::SetInput(input) => {
                    self.input(input);
                }
                PeerCommand::Ask(object, action) => {
                    self.ask(object, action);
                }
                PeerCommand::SetCapacity(link, capacity) => self.set_capacity(link, capacity),
                PeerCommand::Leave => self.leave(now, out),
            },
        }
    }

    fn poll(&mut self) -> Option<PeerEvent<G::Event>> {
        Peer::poll(self)
    }

    /// All peers' rounds begin at the same time, by the world's clock.
    fn next_wake(&self, now: Micros) -> Micros {
        self.next_round(now)
    }
}

/// When rounds begin, for a node that times them by its host's clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pace {
    next: Micros,
}

impl Pace {
    /// A pace whose first round begins at `first`.
    pub fn from(first: Micros) -> Pace {
        Pace { next: first }
    }

    pub fn next(&self) -> Micros {
        self.next
    }

    /// Whether a round is due; if so, the next one is scheduled. A host that is more than two
    /// rounds late skips rounds, or it would stay behind for ever.
    pub fn is_due(&mut self, now: Micros, round: Micros) -> bool {
        if now < self.next {
            return false;
        }
        self.next = self.next + round;
        if now > self.next + round {
            self.next = now + round;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use foveate_wire::Micros;

    #[test]
    fn rounds_keep_their_beat_and_a_late_host_drops_some() {
        let round = Micros(50);
        let mut pace = Pace::from(round);
        assert!(!pace.is_due(Micros(49), round));
        assert!(pace.is_due(Micros(60), round));
        assert_eq!(pace.next(), Micros(100), "a late round does not delay the next");
        assert!(pace.is_due(Micros(230), round));
        assert_eq!(pace.next(), Micros(280), "missed rounds are skipped");
        assert!(!pace.is_due(Micros(279), round) && pace.is_due(Micros(280), round));
    }
}
