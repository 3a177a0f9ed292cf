//! The nodes of a run: the shipped server and clients, each behind what its program does, and hostile clients.

use super::Flaw;
use super::market::{Deal, ITEM, Market, TraderInput};
use fastrand::Rng;
use foveate_node::node::{ClientCommand, Node, NodeInput, ServerCommand};
use foveate_node::outbox::{Link, Outbox};
use foveate_node::server::ServerEvent;
use foveate_node::session::{
    ClientDatagram, ClientMessage, Refusal, ResumeKey, ServerMessage, VERSIONS, read_message,
    write_message,
};
use foveate_node::{Client, Game, Server};
use foveate_wire::{Micros, ObjectId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A node of a run.
pub enum Actor {
    /// The server.
    Server(Box<WatchedServer>),
    /// An honest client.
    Client(Box<PlayerApp>),
    /// A hostile one.
    Hostile(Box<Hostile>),
}

/// What a node is told.
pub enum ActorCommand {
    /// The server is.
    Server(ServerCommand),
    /// A client is.
    Client(ClientCommand<Market>),
}

/// What a node says.
pub enum ActorEvent {
    /// The server does.
    Server(ServerEvent),
    /// A client does; nothing here listens.
    Client,
}

impl Node for Actor {
    type Command = ActorCommand;
    type Event = ActorEvent;

    fn handle(&mut self, now: Micros, input: NodeInput<'_, ActorCommand>, out: &mut impl Outbox) {
        match self {
            Actor::Server(server) => {
                let input = input.map_command(|command| match command {
                    ActorCommand::Server(command) => Some(command),
                    ActorCommand::Client(_) => None,
                });
                input.into_iter().for_each(|input| server.handle(now, input, out));
            }
            Actor::Client(app) => {
                let input = input.map_command(|command| match command {
                    ActorCommand::Client(command) => Some(command),
                    ActorCommand::Server(_) => None,
                });
                input.into_iter().for_each(|input| app.handle(now, input, out));
            }
            Actor::Hostile(hostile) => hostile.handle(now, &input, out),
        }
    }

    fn poll(&mut self) -> Option<ActorEvent> {
        match self {
            Actor::Server(watched) => watched.server.poll().map(ActorEvent::Server),
            Actor::Client(app) => app.client.poll().map(|_| ActorEvent::Client),
            Actor::Hostile(_) => None,
        }
    }

    fn next_wake(&self, now: Micros) -> Micros {
        match self {
            Actor::Server(watched) => watched.server.next_wake(now),
            Actor::Client(app) => app.client.next_wake(now),
            Actor::Hostile(hostile) => hostile.next,
        }
    }
}

/// What the server did to its links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Observed {
    /// It welcomed the player with this number; whether the session goes on.
    Welcome(Link, u32, bool),
    /// It closed a link.
    Closed(Link, Refusal),
    /// A link ended.
    Ended(Link),
}

/// The server, its links, and what it did to them.
pub struct WatchedServer {
    /// The server.
    pub server: Server<Market>,
    /// What happened to links since the checker looked.
    pub observed: Vec<Observed>,
    /// Links of this run of the server: a transport drops what comes on others.
    links: BTreeSet<Link>,
    flaw: Option<Flaw>,
}

impl WatchedServer {
    /// Watches a server.
    pub fn new(server: Server<Market>, flaw: Option<Flaw>) -> WatchedServer {
        WatchedServer { server, observed: Vec::new(), links: BTreeSet::new(), flaw }
    }

    fn handle(&mut self, now: Micros, input: NodeInput<'_, ServerCommand>, out: &mut impl Outbox) {
        let known = match &input {
            NodeInput::Connected(link, _) => self.links.insert(*link),
            NodeInput::Datagram(link, _) | NodeInput::Message(link, _) => self.links.contains(link),
            NodeInput::Closed(link) => {
                self.observed.push(Observed::Ended(*link));
                self.links.remove(link)
            }
            NodeInput::Wake | NodeInput::Command(_) => true,
        };
        if known {
            let (observed, flaw) = (&mut self.observed, self.flaw);
            self.server.handle(now, input, &mut Tap { out, observed, flaw });
        }
    }
}

/// Listens to what a server says.
struct Tap<'a, O> {
    out: &'a mut O,
    observed: &'a mut Vec<Observed>,
    flaw: Option<Flaw>,
}

impl<O: Outbox> Outbox for Tap<'_, O> {
    fn datagram(&mut self, to: Link, bytes: &[u8]) {
        self.out.datagram(to, bytes);
    }

    fn message(&mut self, to: Link, bytes: &[u8]) {
        if let Some(ServerMessage::Welcome { player, resumed, .. }) = read_message(bytes) {
            self.observed.push(Observed::Welcome(to, player, resumed));
        }
        self.out.message(to, bytes);
    }

    fn close(&mut self, link: Link, why: Refusal) {
        // A resumed session's old link is closed with this reason.
        if self.flaw == Some(Flaw::OldLinkStaysOpen) && why == Refusal::NameTaken {
            return;
        }
        self.observed.push(Observed::Closed(link, why));
        self.out.close(link, why);
    }
}

/// An honest client and the link that its program uses.
pub struct PlayerApp {
    /// The client.
    pub client: Client<Market>,
    /// Its link; what comes on others is dropped.
    pub link: Option<Link>,
}

impl PlayerApp {
    /// A client that has no link yet.
    pub fn new(game: &Arc<Market>, name: &str, token: &[u8]) -> PlayerApp {
        PlayerApp { client: Client::new(Arc::clone(game), name, token), link: None }
    }

    fn handle(
        &mut self,
        now: Micros,
        input: NodeInput<'_, ClientCommand<Market>>,
        out: &mut impl Outbox,
    ) {
        let known = match &input {
            NodeInput::Connected(link, _) => {
                self.link = Some(*link);
                true
            }
            NodeInput::Datagram(link, _) | NodeInput::Message(link, _) => self.link == Some(*link),
            NodeInput::Closed(link) => self.link.take_if(|own| own == link).is_some(),
            NodeInput::Wake | NodeInput::Command(_) => true,
        };
        if known {
            self.client.handle(now, input, out);
        }
    }

    /// The program gives its link up without the server being told.
    pub fn abandon(&mut self) {
        if self.link.take().is_some() {
            self.client.closed();
        }
    }
}

/// What a hostile client does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mischief {
    /// Sends bytes that mean nothing.
    Garbage,
    /// Joins and leaves, each time under another name.
    Churn,
    /// Joins with a token that another player has used.
    StolenToken,
    /// Tries to resume a session of another player.
    GuessedKey,
    /// Joins in order and asks for as much as it can.
    Spam,
    /// Connects and says nothing.
    Silence,
    /// Joins in order and acknowledges nothing.
    Deafness,
}

impl Mischief {
    /// All of them.
    pub const ALL: [Mischief; 7] = [
        Mischief::Garbage,
        Mischief::Churn,
        Mischief::StolenToken,
        Mischief::GuessedKey,
        Mischief::Spam,
        Mischief::Silence,
        Mischief::Deafness,
    ];
}

const HOSTILE_ROUND: Micros = Micros(50_000);

/// A client that means harm. It has a valid token for its own name, and tokens and names that it overheard.
pub struct Hostile {
    /// What it does.
    pub mischief: Mischief,
    /// Its link.
    pub link: Option<Link>,
    /// Its name and a token for it.
    pub own: (String, Vec<u8>),
    /// A name and a token that it overheard.
    pub stolen: (String, Vec<u8>),
    schema: u64,
    rng: Rng,
    next: Micros,
    said: u32,
    joined: bool,
    items: Vec<ObjectId>,
}

impl Hostile {
    /// A hostile client that has no link yet.
    pub fn new(game: &Market, mischief: Mischief, seed: u64) -> Hostile {
        Hostile {
            mischief,
            link: None,
            own: Default::default(),
            stolen: Default::default(),
            schema: game.schema().hash(),
            rng: Rng::with_seed(seed),
            next: Micros::ZERO,
            said: 0,
            joined: false,
            items: (0..8).map(|serial| ObjectId::new(ITEM, 0, serial)).collect(),
        }
    }

    fn handle(&mut self, now: Micros, input: &NodeInput<'_, ActorCommand>, out: &mut impl Outbox) {
        match input {
            NodeInput::Connected(link, _) => {
                (self.link, self.joined, self.said) = (Some(*link), false, 0);
                self.greet(*link, out);
            }
            NodeInput::Closed(link) => drop(self.link.take_if(|own| own == link)),
            NodeInput::Message(_, bytes) => {
                self.joined |= matches!(read_message(bytes), Some(ServerMessage::Welcome { .. }));
            }
            NodeInput::Wake => {
                self.next = now + HOSTILE_ROUND;
                if let Some(link) = self.link {
                    self.act(link, out);
                }
            }
            NodeInput::Datagram(..) | NodeInput::Command(_) => {}
        }
    }

    fn hello(&self, (name, token): &(String, Vec<u8>), resume: Option<ResumeKey>) -> Vec<u8> {
        write_message(&ClientMessage::<Deal>::Hello {
            versions: VERSIONS.to_vec(),
            schema: self.schema,
            name: name.clone(),
            token: token.clone(),
            resume,
        })
    }

    fn greet(&mut self, link: Link, out: &mut impl Outbox) {
        let hello = match self.mischief {
            Mischief::Silence => return,
            Mischief::Garbage if self.rng.bool() => return,
            Mischief::StolenToken => self.hello(&self.stolen, None),
            Mischief::GuessedKey => {
                // The laboratory's keys are small numbers: a guess must not be one of them.
                let key = self.rng.u128(1 << 64..).to_le_bytes();
                self.hello(&self.stolen, Some(ResumeKey(key)))
            }
            _ => self.hello(&self.own, None),
        };
        out.message(link, &hello);
    }

    fn act(&mut self, link: Link, out: &mut impl Outbox) {
        self.said += 1;
        match self.mischief {
            Mischief::Garbage => {
                let bytes: Vec<u8> = (0..self.rng.usize(..60)).map(|_| self.rng.u8(..)).collect();
                out.datagram(link, &bytes);
                if self.said > 20 {
                    out.message(link, &bytes);
                }
            }
            Mischief::Churn if self.joined => {
                out.message(link, &write_message(&ClientMessage::<Deal>::Leave));
                self.joined = false;
                self.own.0 = format!("eve {}", self.rng.u32(..));
                // The token is for another name: it is refused, or there are no tokens.
                out.message(link, &self.hello(&self.own, None));
            }
            Mischief::Spam if self.joined => self.spam(link, out),
            _ => {}
        }
    }

    fn spam(&mut self, link: Link, out: &mut impl Outbox) {
        for _ in 0..40 {
            let object = self.items[self.rng.usize(..self.items.len())].0;
            let message = match self.rng.u8(..6) {
                0 => ClientMessage::View(self.rng.u8(..3)),
                1 => ClientMessage::Watch(Some(object)),
                2 => ClientMessage::Who(self.rng.u32(..20)),
                _ => {
                    let action = [Deal::Take, Deal::Drop, Deal::Recast][self.rng.usize(..3)];
                    ClientMessage::Ask { object, action, seen: self.rng.u32(..) }
                }
            };
            out.message(link, &write_message(&message));
        }
        let inputs =
            (0..6).map(|_| TraderInput { x: self.rng.i8(..), y: self.rng.i8(..) }).collect();
        let (clock, first) = (self.rng.u16(..), (self.said * 6) as u16);
        let mut bytes = Vec::new();
        ClientDatagram { ack: None, clock, first, inputs }.write(&mut bytes);
        out.datagram(link, &bytes);
    }
}
