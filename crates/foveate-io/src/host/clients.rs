//! Any number of clients in one loop.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foveate_node::client::ClientPhase;
use foveate_node::game::{Game, PlayerId, World};
use foveate_node::node::{ClientCommand, Node, NodeInput};
use foveate_node::session::{Refusal, ServerContact};
use foveate_node::{Client, Link, Outbox};
use foveate_wire::{Micros, ObjectId};

use super::ahead::AheadDial;
use super::driver::{Driver, EndpointOutbox, NodeHost};
use super::{EndCause, SessionEnd, name};
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::event::{CloseCode, LinkEvent, Unreachable};
use crate::link_endpoint::DialAddress;
use crate::server_address::ServerAddress;
use crate::slots::LinkId;

/// A server's next address is tried after this time, if the last one has not answered.
pub(super) const NEXT_ADDRESS: Duration = Duration::from_secs(2);
/// A client of a world on many servers that lost its server, and found no other that goes on with the session within
/// this, has lost the session. Its program may join anew, at any server.
const FIND_HOST: Duration = Duration::from_secs(5);
/// Servers whose addresses are remembered.
const MAX_SERVERS: usize = 64;

/// One client of a [`ClientsHost`].
pub struct HostedClient<G: Game> {
    /// The client: replicas, prediction, news.
    pub client: Client<G>,
    /// When it started to join.
    pub asked: Instant,
    /// Why its session ended, if it has.
    pub ended: Option<SessionEnd>,
    server: ServerAddress,
    /// Addresses of the server that have not been tried, the next one last.
    untried: Vec<SocketAddr>,
    address: Option<SocketAddr>,
    /// When the first of these addresses was tried.
    tried: Instant,
    connected: bool,
    /// The link that was dialled to join.
    link: Option<Link>,
    /// The link that the client asked for beside.
    pub(super) ahead: Option<AheadDial>,
    /// Since when no server hosts the session, and how the last one was lost.
    lost: Option<(Instant, EndCause)>,
}

/// What a client needs of its host.
pub(super) enum ClientWish {
    /// It was refused: its links are to be closed.
    Refused(usize),
    /// A link to another server of its world.
    Dial(usize, ServerContact),
}

/// Clients as one node: each has its own links and its own rounds.
pub(super) struct ClientGroup<G: Game> {
    pub(super) players: Vec<HostedClient<G>>,
    pub(super) by_link: BTreeMap<Link, usize>,
    /// What their host has not been told yet: at most one entry for each input of each.
    wishes: VecDeque<ClientWish>,
}

impl<G: Game> Node for ClientGroup<G> {
    /// A command for the client at this index.
    type Command = (usize, ClientCommand<G>);
    /// News stay in the clients, for the program.
    type Event = ClientWish;

    fn handle(&mut self, now: Micros, input: NodeInput<'_, Self::Command>, out: &mut impl Outbox) {
        let at = match &input {
            NodeInput::Command((at, _)) => *at,
            NodeInput::Wake => {
                for at in 0..self.players.len() {
                    self.players[at].client.handle(now, NodeInput::Wake, out);
                    self.note_dial(at);
                }
                return;
            }
            NodeInput::Connected(link, _)
            | NodeInput::Datagram(link, _)
            | NodeInput::Message(link, _)
            | NodeInput::Closed(link) => match self.by_link.get(link) {
                Some(at) => *at,
                None => return,
            },
        };
        match &input {
            NodeInput::Connected(link, _) if !self.players[at].takes_link(*link) => {
                return out.close(*link, Refusal::Closing);
            }
            NodeInput::Closed(link) => drop(self.by_link.remove(link)),
            _ => {}
        }
        let player = &mut self.players[at];
        let (is_message, is_end) =
            (matches!(input, NodeInput::Message(..)), matches!(input, NodeInput::Closed(_)));
        let Some(input) = input.map_command(|(_, command)| Some(command)) else { return };
        player.client.handle(now, input, out);
        if is_end {
            player.judge_end();
        }
        if is_message && matches!(player.client.phase(), ClientPhase::Refused(..)) {
            self.wishes.push_back(ClientWish::Refused(at));
        }
        self.note_dial(at);
    }

    fn poll(&mut self) -> Option<ClientWish> {
        self.wishes.pop_front()
    }

    fn next_wake(&self, now: Micros) -> Micros {
        let wakes = self.players.iter().map(|player| player.client.next_wake(now));
        wakes.min().unwrap_or(Micros::UNBOUNDED)
    }
}

impl<G: Game> ClientGroup<G> {
    fn note_dial(&mut self, at: usize) {
        let contact = self.players[at].client.take_dial();
        self.wishes.extend(contact.map(|contact| ClientWish::Dial(at, contact)));
    }

    /// Tries the next address. One of a family that this system does not support is skipped, unless it is
    /// the last.
    fn dial_next(&mut self, at: usize, endpoint: &mut impl DialAddress) -> Result<(), Error> {
        self.hang_up(at, endpoint);
        let player = &mut self.players[at];
        while let Some(address) = player.untried.pop() {
            (player.address, player.tried) = (Some(address), Instant::now());
            match endpoint.connect(address, player.server.host()) {
                Ok(link) => {
                    player.link = Some(name(link));
                    self.by_link.insert(name(link), at);
                    return Ok(());
                }
                Err(Error::Bind { .. } | Error::Connect { .. }) if !player.untried.is_empty() => {}
                Err(Error::Bind { .. }) => {
                    player.end(EndCause::Unreachable(Unreachable::Host));
                }
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    /// Closes all links of a client, without telling the client.
    fn hang_up(&mut self, at: usize, endpoint: &mut impl DialAddress) {
        let player = &mut self.players[at];
        (player.connected, player.link, player.ahead) = (false, None, None);
        self.by_link.retain(|link, of| {
            if *of == at {
                endpoint.close(LinkId::from_bits(link.0), CloseCode::DONE, "");
            }
            *of != at
        });
        player.client.closed_all();
    }
}

/// The host's side of the clients in one step.
struct Surroundings<F> {
    decide: F,
    /// Why the host cannot go on.
    failed: Result<(), Error>,
}

impl<G, E, F> NodeHost<ClientGroup<G>, E> for Surroundings<F>
where
    G: Game,
    E: DialAddress,
    F: FnMut(usize, &World<'_>, ObjectId, &mut Vec<(ObjectId, G::Action)>) -> G::Input,
{
    fn on_link<'a>(
        &mut self,
        event: &'a LinkEvent,
        group: &mut ClientGroup<G>,
        out: &mut EndpointOutbox<'_, E>,
    ) -> Option<NodeInput<'a, (usize, ClientCommand<G>)>> {
        let (link, at) = (name(event.link()), *group.by_link.get(&name(event.link()))?);
        if let LinkEvent::Closed { reason, .. } = event {
            if group.ahead_failed(at, link) {
                group.dial_next_ahead(at, out.endpoint);
                return None;
            }
            let player = &mut group.players[at];
            let cause = EndCause::of(reason.clone(), player.connected);
            // Another address may work.
            let is_first = player.link == Some(link) && !player.connected;
            if is_first && !player.untried.is_empty() && cause.is_of_address() {
                self.note(group.dial_next(at, out.endpoint));
                return None;
            }
            if is_first || player.client.host_link() == Some(link) {
                player.lost = Some((Instant::now(), cause));
            }
        }
        Some(event.input())
    }

    /// Gives each client whose round is due its input.
    fn before_wake(&mut self, group: &mut ClientGroup<G>, out: &mut EndpointOutbox<'_, E>) {
        for at in 0..group.players.len() {
            let player = &mut group.players[at];
            let waits = !player.connected && player.ended.is_none() && !player.untried.is_empty();
            if waits && player.tried.elapsed() >= NEXT_ADDRESS {
                self.note(group.dial_next(at, out.endpoint));
                continue;
            }
            if player.ahead.as_ref().is_some_and(AheadDial::is_late) {
                group.dial_next_ahead(at, out.endpoint);
            }
            if let Some(cause) = group.players[at].gives_up() {
                group.players[at].end(cause);
                group.hang_up(at, out.endpoint);
                continue;
            }
            let player = &mut group.players[at];
            let client = &mut player.client;
            let Some(me) = client.joined().map(|joined| joined.avatar) else { continue };
            if client.next_wake(out.now) <= out.now && client.replicas.get(me).is_some() {
                let mut asked = Vec::new();
                let input = client.see(out.now, |world| (self.decide)(at, world, me, &mut asked));
                client.set_input(input);
                for (object, action) in asked {
                    client.ask(object, action, out.now, out);
                }
            }
        }
    }

    fn on_event(
        &mut self,
        wish: ClientWish,
        group: &mut ClientGroup<G>,
        out: &mut EndpointOutbox<'_, E>,
    ) -> Option<(usize, ClientCommand<G>)> {
        match wish {
            ClientWish::Dial(at, contact) => group.dial_ahead(at, &contact, out.endpoint),
            ClientWish::Refused(at) => {
                let player = &mut group.players[at];
                if let ClientPhase::Refused(code, text) = player.client.phase().clone() {
                    player.end(EndCause::Refused { code, text });
                    group.hang_up(at, out.endpoint);
                }
            }
        }
        None
    }
}

impl<F> Surroundings<F> {
    fn note(&mut self, done: Result<(), Error>) {
        if self.failed.is_ok() {
            self.failed = done;
        }
    }
}

/// Clients that share one endpoint and one loop. Their rounds are spread over time.
pub struct ClientsHost<G: Game, E: DialAddress = Endpoint> {
    pub endpoint: E,
    group: ClientGroup<G>,
    driver: Driver,
    /// Addresses of servers, as last resolved.
    resolved: BTreeMap<ServerAddress, Vec<SocketAddr>>,
}

impl<G: Game, E: DialAddress> ClientsHost<G, E> {
    /// A host without clients.
    pub fn new(endpoint: E) -> ClientsHost<G, E> {
        ClientsHost {
            endpoint,
            group: ClientGroup {
                players: Vec::new(),
                by_link: BTreeMap::new(),
                wishes: VecDeque::new(),
            },
            driver: Driver::new(),
            resolved: BTreeMap::new(),
        }
    }

    /// Adds a client that joins as `name`, and returns its index.
    ///
    /// The server's certificate must be for the given host, unless its hash is pinned. The addresses of a host are
    /// tried in turn. A host's name is resolved the first time, which blocks. Any failure, even of a name without
    /// addresses, is stored in [`HostedClient::ended`].
    pub fn join(
        &mut self,
        game: Arc<G>,
        server: impl Into<ServerAddress>,
        name: &str,
        token: &[u8],
    ) -> Result<usize, Error> {
        let (now, at) = (Instant::now(), self.group.players.len());
        self.group.players.push(HostedClient {
            client: Client::new(game, name, token),
            asked: now,
            ended: None,
            server: server.into(),
            untried: Vec::new(),
            address: None,
            tried: now,
            connected: false,
            link: None,
            ahead: None,
            lost: None,
        });
        self.dial(at).inspect_err(|_| drop(self.group.players.pop()))?;
        Ok(at)
    }

    /// Connects the same client again after its link ended, to the same server or another. The host's name is resolved
    /// again.
    pub fn rejoin(&mut self, at: usize, server: impl Into<ServerAddress>) -> Result<(), Error> {
        let server = server.into();
        self.resolved.remove(&server);
        self.group.players[at].server = server;
        self.group.hang_up(at, &mut self.endpoint);
        self.dial(at)
    }

    /// Sets the addresses of a server, in the order in which to try them, so that the next join resolves no name and
    /// does not block. The certificate must still be for the server's host.
    pub fn set_addresses(&mut self, server: impl Into<ServerAddress>, addresses: &[SocketAddr]) {
        if self.resolved.len() >= MAX_SERVERS {
            self.resolved.clear();
        }
        self.resolved.insert(server.into(), addresses.to_vec());
    }

    /// Dials the first of the server's addresses.
    fn dial(&mut self, at: usize) -> Result<(), Error> {
        let player = &mut self.group.players[at];
        (player.ended, player.address, player.lost) = (None, None, None);
        let found = match self.resolved.get(&player.server) {
            Some(known) => Ok(known.clone()),
            None => player.server.resolve(),
        };
        match found {
            Ok(addresses) => {
                player.untried = addresses.iter().rev().copied().collect();
                let server = player.server.clone();
                self.set_addresses(server, &addresses);
                self.group.dial_next(at, &mut self.endpoint)
            }
            Err(why) => {
                player.end(EndCause::NotResolved(why));
                Ok(())
            }
        }
    }

    pub fn players(&self) -> &[HostedClient<G>] {
        &self.group.players
    }

    pub fn player(&mut self, at: usize) -> &mut HostedClient<G> {
        &mut self.group.players[at]
    }

    /// The clients' current time.
    pub fn now(&self) -> Micros {
        self.driver.now()
    }

    /// Receives until `until`, and plays the rounds that are due by then: `decide` returns each client's input, and may
    /// request actions of objects.
    pub fn step(
        &mut self,
        until: Instant,
        decide: impl FnMut(usize, &World<'_>, ObjectId, &mut Vec<(ObjectId, G::Action)>) -> G::Input,
    ) -> Result<(), Error> {
        let mut around = Surroundings { decide, failed: Ok(()) };
        loop {
            let ClientsHost { driver, group, endpoint, .. } = self;
            driver.step_until(group, endpoint, &mut around, until)?;
            std::mem::replace(&mut around.failed, Ok(()))?;
            if Instant::now() >= until {
                return Ok(());
            }
        }
    }

    /// The same without waiting, for programs with their own loop.
    pub fn poll_step(
        &mut self,
        decide: impl FnMut(usize, &World<'_>, ObjectId, &mut Vec<(ObjectId, G::Action)>) -> G::Input,
    ) -> Result<(), Error> {
        self.step(Instant::now(), decide)
    }

    /// Requests an action of an object for a client, between its rounds. It is sent with the next step.
    pub fn ask(&mut self, at: usize, object: ObjectId, action: G::Action) {
        self.command(at, ClientCommand::Ask(object, action));
    }

    /// Requests another view for a client; it takes effect at once.
    pub fn set_view(&mut self, at: usize, which: u8) {
        self.command(at, ClientCommand::SetView(which));
    }

    /// Makes a client also look from another object, if the game allows it; with `None`, only from its avatar.
    pub fn watch(&mut self, at: usize, object: Option<ObjectId>) {
        self.command(at, ClientCommand::Watch(object));
    }

    /// Asks for a player's name for a client; [`News::Named`](foveate_node::client::News::Named) answers.
    pub fn who(&mut self, at: usize, player: PlayerId) {
        self.command(at, ClientCommand::Who(player));
    }

    fn command(&mut self, at: usize, command: ClientCommand<G>) {
        self.driver.command(&mut self.group, &mut self.endpoint, (at, command));
    }

    /// Ends all clients' sessions, and closes links within `limit`.
    pub fn leave(&mut self, limit: Micros) -> Result<(), Error> {
        for at in 0..self.group.players.len() {
            self.command(at, ClientCommand::Leave);
        }
        self.driver.shutdown(&mut self.endpoint, limit)?;
        Ok(())
    }
}

impl<G: Game> HostedClient<G> {
    fn end(&mut self, cause: EndCause) {
        let (server, address) = (self.server.clone(), self.address);
        self.ended = Some(SessionEnd { server, address, cause });
        self.lost = None;
    }

    /// Whether a link that was made is one that the client still wants.
    fn takes_link(&mut self, link: Link) -> bool {
        if self.link == Some(link) {
            self.connected = true;
            return true;
        }
        let is_ahead = self.ahead.as_ref().is_some_and(|it| it.link == Some(link));
        if is_ahead {
            self.ahead = None;
        }
        is_ahead && self.client.awaits_link()
    }

    /// After a link has ended: a session that no other server may go on with is over.
    fn judge_end(&mut self) {
        let many = self.client.session_epoch() > 0 || self.client.has_ahead();
        let goes_on = self.connected && many;
        if let Some((_, cause)) = self.lost.take_if(|_| !goes_on) {
            self.end(cause);
        }
    }

    /// Why it is not waited any longer for a server to go on with the session, if so.
    fn gives_up(&mut self) -> Option<EndCause> {
        if self.ended.is_some() || self.client.host_link().is_some() || !self.connected {
            self.lost = None;
            return None;
        }
        let (since, cause) = self.lost.get_or_insert((Instant::now(), EndCause::TimedOut));
        (since.elapsed() >= FIND_HOST).then(|| cause.clone())
    }
}
