//! A server and its clients on the virtual network, for games' tests and the experiments.

use super::{Host, Network, NetworkSpec, Placed, Placement, Reaction};
use crate::net::Link as Path;
use foveate_node::client::{ClientPhase, News};
use foveate_node::game::{Game, PlayerId};
use foveate_node::node::{ClientCommand, NodeInput, ServerCommand};
use foveate_node::outbox::{Outbox, Outgoing, RecordingOutbox};
use foveate_node::server::{Keys, ServerEvent, ServerSettings};
use foveate_node::session::{Refusal, ResumeKey};
use foveate_node::{Client, Link, Node, Server};
use foveate_wire::{Micros, ObjectId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A server or one of its clients.
pub enum Participant<G: Game> {
    Server(Box<Server<G>>),
    Client(Box<Client<G>>),
}

/// A command for either.
pub enum ParticipantCommand<G: Game> {
    Server(ServerCommand),
    Client(ClientCommand<G>),
}

/// An event of either.
pub enum ParticipantEvent<G: Game> {
    Server(ServerEvent),
    Client(News<G::Event>),
}

impl<G: Game> Node for Participant<G> {
    type Command = ParticipantCommand<G>;
    type Event = ParticipantEvent<G>;

    fn handle(
        &mut self,
        now: Micros,
        input: NodeInput<'_, ParticipantCommand<G>>,
        out: &mut impl Outbox,
    ) {
        match self {
            Participant::Server(server) => {
                let input = input.map_command(|command| match command {
                    ParticipantCommand::Server(command) => Some(command),
                    ParticipantCommand::Client(_) => None,
                });
                input.into_iter().for_each(|input| server.handle(now, input, out));
            }
            Participant::Client(client) => {
                let input = input.map_command(|command| match command {
                    ParticipantCommand::Client(command) => Some(command),
                    ParticipantCommand::Server(_) => None,
                });
                input.into_iter().for_each(|input| client.handle(now, input, out));
            }
        }
    }

    fn poll(&mut self) -> Option<ParticipantEvent<G>> {
        match self {
            Participant::Server(server) => server.poll().map(ParticipantEvent::Server),
            Participant::Client(client) => client.poll().map(ParticipantEvent::Client),
        }
    }

    fn next_wake(&self, now: Micros) -> Micros {
        match self {
            Participant::Server(server) => server.next_wake(now),
            Participant::Client(client) => client.next_wake(now),
        }
    }
}

/// Answers a server's requests as its program would: admits players, and stores and restores their objects. Any token
/// that is not empty is rejected.
pub struct Lodge {
    players: BTreeMap<String, u32>,
    kept: BTreeMap<u32, Vec<(ObjectId, Vec<i32>)>>,
    /// The least time until an answer.
    pub answers_after: Micros,
    /// The most that is added to it at random, so that answers can overtake each other.
    pub answers_spread: Micros,
    /// Share of requests that are never answered.
    pub unanswered: f64,
    rng: fastrand::Rng,
}

impl Lodge {
    fn new(seed: u64) -> Lodge {
        Lodge {
            players: BTreeMap::new(),
            kept: BTreeMap::new(),
            answers_after: Micros::ZERO,
            answers_spread: Micros::ZERO,
            unanswered: 0.0,
            rng: fastrand::Rng::with_seed(seed ^ 0x10d9e),
        }
    }

    /// Players are numbered from 1 in the order in which they were added, whatever the order of their hellos.
    fn number(&mut self, name: &str) -> u32 {
        let next = self.players.len() as u32 + 1;
        *self.players.entry(name.into()).or_insert(next)
    }

    /// Gives a player a chosen number instead of the next one.
    pub fn set_number(&mut self, name: &str, player: u32) {
        self.players.insert(name.into(), player);
    }

    fn on_event(&mut self, event: &ServerEvent) -> Option<(Micros, ServerCommand)> {
        let answer = match event {
            ServerEvent::Asked { .. } if self.rng.f64() < self.unanswered => return None,
            ServerEvent::Asked { link, name, token } if token.is_empty() => {
                let player = self.number(name);
                let kept = self.kept.remove(&player).unwrap_or_default();
                ServerCommand::Admit(*link, PlayerId(player), kept)
            }
            ServerEvent::Asked { link, .. } => ServerCommand::Reject(*link, Refusal::Token),
            ServerEvent::Left(player, kept) => {
                self.kept.insert(player.0, kept.clone());
                return None;
            }
            _ => return None,
        };
        let spread = Micros(self.rng.u64(..=self.answers_spread.0));
        Some((self.answers_after + spread, answer))
    }
}

/// A server at place 0 and clients at the others.
pub struct SessionNetwork<G: Game> {
    /// The network.
    pub network: Network<Participant<G>>,
    /// Answers the server's requests.
    pub lodge: Lodge,
    /// All events of the server, oldest first.
    pub server_events: Vec<ServerEvent>,
    /// All news of clients, with their places.
    pub news: Vec<(usize, News<G::Event>)>,
    /// If set, records everything that is sent, with the places of sender and receiver.
    pub sent: Option<Vec<(usize, usize, Outgoing)>>,
    /// If set, clients whose link ended, or that cannot reach the server, dial again after this time.
    pub redial_after: Option<Micros>,
    game: Arc<G>,
}

struct SessionHost<'a, G: Game, D> {
    lodge: &'a mut Lodge,
    server_events: &'a mut Vec<ServerEvent>,
    news: &'a mut Vec<(usize, News<G::Event>)>,
    sent: Option<&'a mut Vec<(usize, usize, Outgoing)>>,
    redial_after: Option<Micros>,
    decide: D,
}

impl<G: Game, D> Host<Participant<G>> for SessionHost<'_, G, D>
where
    D: FnMut(Micros, usize, &mut Client<G>, &mut RecordingOutbox),
{
    fn before_wake(
        &mut self,
        now: Micros,
        at: usize,
        node: &mut Placed<Participant<G>>,
        out: &mut RecordingOutbox,
    ) {
        let clock = node.clock(now);
        if let Participant::Client(client) = &mut node.node {
            (self.decide)(clock, at, client, out);
        }
    }

    fn on_event(
        &mut self,
        _: Micros,
        at: usize,
        _: &mut Placed<Participant<G>>,
        event: ParticipantEvent<G>,
    ) -> Option<Reaction<ParticipantCommand<G>>> {
        match event {
            ParticipantEvent::Client(news) => {
                self.news.push((at, news));
                None
            }
            ParticipantEvent::Server(event) => {
                let answer = self.lodge.on_event(&event);
                self.server_events.push(event);
                let (wait, command) = answer?;
                Some(Reaction::Answer(wait, ParticipantCommand::Server(command)))
            }
        }
    }

    fn on_sent(&mut self, from: usize, to: usize, outgoing: &Outgoing) {
        if let Some(sent) = &mut self.sent {
            sent.push((from, to, outgoing.clone()));
        }
    }

    /// A rejected client would be rejected again, so it does not redial.
    fn redial(&mut self, _: usize, node: &Placed<Participant<G>>, _: usize) -> Option<Micros> {
        match &node.node {
            Participant::Client(client) if *client.phase() == ClientPhase::Joining => {
                self.redial_after
            }
            _ => None,
        }
    }
}

impl<G: Game> SessionNetwork<G> {
    /// Makes a server with an empty world. Populate its simulation if the game has objects of its own.
    pub fn new(game: Arc<G>, settings: ServerSettings, spec: NetworkSpec) -> SessionNetwork<G> {
        let mut sessions = SessionNetwork {
            network: Network::new(spec),
            lodge: Lodge::new(spec.seed),
            server_events: Vec::new(),
            news: Vec::new(),
            sent: None,
            redial_after: None,
            game: Arc::clone(&game),
        };
        let server = Server::new(game, settings, different_keys());
        let (network, mut host) = sessions.split(|_, _, _, _| {});
        network.add(Participant::Server(Box::new(server)), Placement::PLAIN, &mut host);
        sessions
    }

    /// Replaces the server, or restarts one that crashed, possibly with another clock.
    pub fn place_server(&mut self, server: Server<G>, placement: Placement) {
        let (network, mut host) = self.split(|_, _, _, _| {});
        network.place(0, Participant::Server(Box::new(server)), placement, &mut host);
    }

    /// Adds a client that connects now, and returns its place.
    pub fn join(&mut self, name: &str, token: &[u8]) -> usize {
        let at = self.add(name, token, Placement::PLAIN);
        self.connect(at);
        at
    }

    /// Adds a client without a link, and returns its place.
    pub fn add(&mut self, name: &str, token: &[u8], placement: Placement) -> usize {
        let client = Client::new(Arc::clone(&self.game), name, token);
        self.lodge.number(name);
        let (network, mut host) = self.split(|_, _, _, _| {});
        network.add(Participant::Client(Box::new(client)), placement, &mut host)
    }

    /// Gives a client a new link.
    pub fn connect(&mut self, at: usize) -> Option<Link> {
        let (network, mut host) = self.split(|_, _, _, _| {});
        network.connect(at, 0, &mut host)
    }

    /// Gives a client a link with its own conditions: first for what the client sends, then for what the server sends.
    pub fn connect_over(&mut self, at: usize, paths: [Path; 2]) -> Option<Link> {
        let (network, mut host) = self.split(|_, _, _, _| {});
        network.connect_over(at, 0, paths, &mut host)
    }

    /// Cuts a client's link; both ends are told.
    pub fn cut(&mut self, at: usize) {
        let Some(link) = self.network.link_between(at, 0) else { return };
        let (network, mut host) = self.split(|_, _, _, _| {});
        network.cut(link, &mut host);
    }

    /// Runs for a while; `decide` is called before each round of a client.
    pub fn run(
        &mut self,
        time: Micros,
        decide: impl FnMut(Micros, usize, &mut Client<G>, &mut RecordingOutbox),
    ) {
        let until = self.network.now() + time;
        let (network, mut host) = self.split(decide);
        network.run_until(until, &mut host);
    }

    /// Calls a client as its program would, now, and sends what the client outputs.
    pub fn act(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Client<G>, Micros, &mut RecordingOutbox),
    ) {
        let now = self.network.now();
        let Some(node) = self.network.nodes.get_mut(at).and_then(Option::as_mut) else { return };
        let (clock, mut out) = (node.clock(now), RecordingOutbox::default());
        let Participant::Client(client) = &mut node.node else { return };
        act(client, clock, &mut out);
        let (network, mut host) = self.split(|_, _, _, _| {});
        network.settle(at, out, &mut host);
    }

    /// Gives a client a command now.
    pub fn tell(&mut self, at: usize, command: ClientCommand<G>) {
        let (network, mut host) = self.split(|_, _, _, _| {});
        network.command(at, ParticipantCommand::Client(command), &mut host);
    }

    pub fn server(&mut self) -> Option<&mut Server<G>> {
        match &mut self.network.nodes[0].as_mut()?.node {
            Participant::Server(server) => Some(server),
            Participant::Client(_) => None,
        }
    }

    /// The client at a place.
    pub fn client(&mut self, at: usize) -> Option<&mut Client<G>> {
        match &mut self.network.nodes.get_mut(at)?.as_mut()?.node {
            Participant::Client(client) => Some(client),
            Participant::Server(_) => None,
        }
    }

    fn split<D>(&mut self, decide: D) -> (&mut Network<Participant<G>>, SessionHost<'_, G, D>)
    where
        D: FnMut(Micros, usize, &mut Client<G>, &mut RecordingOutbox),
    {
        let SessionNetwork { network, lodge, server_events, news, sent, redial_after, .. } = self;
        let (sent, redial_after) = (sent.as_mut(), *redial_after);
        (network, SessionHost { lodge, server_events, news, sent, redial_after, decide })
    }
}

/// Keys that differ. They need not be secret in a laboratory.
fn different_keys() -> Keys {
    let mut next = 0u128;
    Box::new(move || {
        next += 1;
        ResumeKey(next.to_le_bytes())
    })
}
