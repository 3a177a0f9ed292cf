//! Many clients in one loop, or one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foveate_node::client::ClientPhase;
use foveate_node::game::{Game, PlayerId, World};
use foveate_node::{Client, Link};
use foveate_wire::{Micros, ObjectId};

use super::{Closing, EndCause, EndpointOutbox, SessionEnd, name};
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::event::{CloseCode, LinkEvent, Reason, Unreachable};
use crate::server_address::ServerAddress;
use crate::slots::LinkId;

/// A server's next address is tried after this time, if there is one and the last has not answered.
const NEXT_ADDRESS: Duration = Duration::from_secs(2);
/// Servers whose addresses are remembered.
const MAX_SERVERS: usize = 64;

/// One of the clients.
pub struct HostedClient<G: Game> {
    /// The client: replicas, prediction, news.
    pub client: Client<G>,
    /// When it asked to be let in.
    pub asked: Instant,
    /// Why its session ended, if it did.
    pub ended: Option<SessionEnd>,
    server: ServerAddress,
    /// Addresses of the server that were not tried yet, the next one last.
    untried: Vec<SocketAddr>,
    address: Option<SocketAddr>,
    /// When that address was tried first.
    tried: Instant,
    connected: bool,
    link: Option<Link>,
    next: Instant,
}

/// Clients that share one endpoint and one loop. Their rounds are spread over time.
pub struct ClientsHost<G: Game> {
    /// The links.
    pub endpoint: Endpoint,
    players: Vec<HostedClient<G>>,
    by_link: BTreeMap<Link, usize>,
    /// Addresses of servers as they were resolved last.
    resolved: BTreeMap<ServerAddress, Vec<SocketAddr>>,
    began: Instant,
    round: Duration,
    events: Vec<LinkEvent>,
    closing: Closing,
}

impl<G: Game> ClientsHost<G> {
    /// No client yet. `round`: the server's.
    pub fn new(endpoint: Endpoint, round: Micros) -> ClientsHost<G> {
        ClientsHost {
            endpoint,
            players: Vec::new(),
            by_link: BTreeMap::new(),
            resolved: BTreeMap::new(),
            began: Instant::now(),
            round: Duration::from_micros(round.0),
            events: Vec::new(),
            closing: Closing::default(),
        }
    }

    /// One more client, who joins as `name`. Returns its place.
    ///
    /// The server's certificate must be for the host that is asked for, unless its hash is pinned. Addresses of
    /// a host with several are tried in turn. The first time a host is named, its name is resolved, which
    /// blocks; a name without an address, like any other failure on the way, stands in [`HostedClient::ended`].
    pub fn join(
        &mut self,
        game: Arc<G>,
        server: impl Into<ServerAddress>,
        name: &str,
        token: &[u8],
    ) -> Result<usize, Error> {
        let (now, at) = (Instant::now(), self.players.len());
        self.players.push(HostedClient {
            client: Client::new(game, name, token),
            asked: now,
            ended: None,
            server: server.into(),
            untried: Vec::new(),
            address: None,
            tried: now,
            connected: false,
            link: None,
            next: now,
        });
        self.dial(at).inspect_err(|_| drop(self.players.pop()))?;
        Ok(at)
    }

    /// The same client on a new link, after a break, to the server that it was at or another. The host's name
    /// is resolved anew.
    pub fn rejoin(&mut self, at: usize, server: impl Into<ServerAddress>) -> Result<(), Error> {
        let server = server.into();
        self.resolved.remove(&server);
        self.players[at].server = server;
        self.players[at].client.closed();
        self.dial(at)
    }

    /// The addresses of a server that are known otherwise, the first one to be tried first: the next join asks no
    /// resolver, and so does not block. The certificate must be for the server's host all the same.
    pub fn set_addresses(&mut self, server: impl Into<ServerAddress>, addresses: &[SocketAddr]) {
        if self.resolved.len() >= MAX_SERVERS {
            self.resolved.clear();
        }
        self.resolved.insert(server.into(), addresses.to_vec());
    }

    /// Begins with the first of the server's addresses.
    fn dial(&mut self, at: usize) -> Result<(), Error> {
        let player = &mut self.players[at];
        (player.ended, player.address) = (None, None);
        let found = match self.resolved.get(&player.server) {
            Some(known) => Ok(known.clone()),
            None => player.server.resolve(),
        };
        match found {
            Ok(addresses) => {
                player.untried = addresses.iter().rev().copied().collect();
                let server = player.server.clone();
                self.set_addresses(server, &addresses);
                self.dial_next(at)
            }
            Err(why) => {
                player.ended = Some(player.end(EndCause::NotResolved(why)));
                Ok(())
            }
        }
    }

    /// Tries the next address. One of a family that this system does not have is passed over, unless it is
    /// the last.
    fn dial_next(&mut self, at: usize) -> Result<(), Error> {
        self.hang_up(at);
        let player = &mut self.players[at];
        while let Some(address) = player.untried.pop() {
            (player.address, player.tried) = (Some(address), Instant::now());
            match self.endpoint.connect(address, player.server.host()) {
                Ok(link) => {
                    player.link = Some(name(link));
                    self.by_link.insert(name(link), at);
                    return Ok(());
                }
                Err(Error::Bind { .. } | Error::Connect { .. }) if !player.untried.is_empty() => {}
                Err(Error::Bind { .. }) => {
                    let cause = EndCause::Unreachable(Unreachable::Host);
                    player.ended = Some(player.end(cause));
                }
                Err(other) => return Err(other),
            }
        }
        Ok(())
    }

    /// Lets go of a client's link, without a word to the client.
    fn hang_up(&mut self, at: usize) {
        let player = &mut self.players[at];
        player.connected = false;
        if let Some(link) = player.link.take() {
            self.by_link.remove(&link);
            self.endpoint.close(LinkId::from_bits(link.0), CloseCode::DONE, "");
        }
    }

    /// All clients.
    pub fn players(&self) -> &[HostedClient<G>] {
        &self.players
    }

    /// One of them.
    pub fn player(&mut self, at: usize) -> &mut HostedClient<G> {
        &mut self.players[at]
    }

    /// The time that clients go by.
    pub fn now(&self) -> Micros {
        Micros(self.began.elapsed().as_micros() as u64)
    }

    /// Takes in what arrives until `until`, and plays the rounds that begin before then: `decide` gives
    /// each client's input, and may ask things of objects.
    pub fn step(
        &mut self,
        until: Instant,
        mut decide: impl FnMut(usize, &World<'_>, ObjectId, &mut Vec<(ObjectId, G::Action)>) -> G::Input,
    ) -> Result<(), Error> {
        loop {
            let soonest = self.players.iter().map(|player| player.next).min().unwrap_or(until);
            self.endpoint.wait(soonest.min(until), &mut self.events)?;
            self.take_in()?;
            let now = Instant::now();
            self.try_next_addresses(now)?;
            for at in 0..self.players.len() {
                if self.players[at].next <= now {
                    self.play(at, now, &mut decide);
                }
            }
            self.endpoint.flush();
            if now >= until {
                return Ok(());
            }
        }
    }

    /// The same without waiting, for programs that have a loop of their own.
    pub fn poll_step(
        &mut self,
        decide: impl FnMut(usize, &World<'_>, ObjectId, &mut Vec<(ObjectId, G::Action)>) -> G::Input,
    ) -> Result<(), Error> {
        self.step(Instant::now(), decide)
    }

    /// Asks something of an object for a client, between its rounds. It leaves with the next step.
    pub fn ask(&mut self, at: usize, object: ObjectId, action: G::Action) {
        let time = self.now();
        let out = &mut EndpointOutbox(&mut self.endpoint, &mut self.closing);
        self.players[at].client.ask(object, action, time, out);
    }

    /// Asks for another view for a client; it counts at once.
    pub fn set_view(&mut self, at: usize, which: u8) {
        let out = &mut EndpointOutbox(&mut self.endpoint, &mut self.closing);
        self.players[at].client.set_view(which, out);
    }

    /// Lets a client look from another object, too, if the game allows it; with none, only from its own again.
    pub fn watch(&mut self, at: usize, object: Option<ObjectId>) {
        let out = &mut EndpointOutbox(&mut self.endpoint, &mut self.closing);
        self.players[at].client.watch(object, out);
    }

    /// Asks for a player's name for a client; [`News::Named`](foveate_node::client::News::Named) answers.
    pub fn who(&mut self, at: usize, player: PlayerId) {
        let out = &mut EndpointOutbox(&mut self.endpoint, &mut self.closing);
        self.players[at].client.who(player, out);
    }

    fn play(
        &mut self,
        at: usize,
        now: Instant,
        decide: &mut impl FnMut(
            usize,
            &World<'_>,
            ObjectId,
            &mut Vec<(ObjectId, G::Action)>,
        ) -> G::Input,
    ) {
        let (time, mut asked) = (self.now(), Vec::new());
        let player = &mut self.players[at];
        player.next += self.round;
        if player.next < now {
            player.next = now + self.round;
        }
        let out = &mut EndpointOutbox(&mut self.endpoint, &mut self.closing);
        player.client.tick(time, out, |world, me| decide(at, world, me, &mut asked));
        for (object, action) in asked {
            player.client.ask(object, action, time, out);
        }
    }

    fn take_in(&mut self) -> Result<(), Error> {
        let now = self.now();
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            let (LinkEvent::Connected { link, .. }
            | LinkEvent::Datagram { link, .. }
            | LinkEvent::Message { link, .. }
            | LinkEvent::Closed { link, .. }) = event;
            let Some(at) = self.by_link.get(&name(link)).copied() else { continue };
            let player = &mut self.players[at];
            match event {
                LinkEvent::Connected { link, .. } => {
                    player.connected = true;
                    player.client.connected(
                        name(link),
                        &mut EndpointOutbox(&mut self.endpoint, &mut self.closing),
                    );
                }
                LinkEvent::Datagram { bytes, .. } => player.client.datagram(&bytes, now),
                LinkEvent::Message { bytes, .. } => {
                    player.client.message(&bytes);
                    if let ClientPhase::Refused(code, text) = player.client.phase().clone() {
                        player.ended = Some(player.end(EndCause::Refused { code, text }));
                        self.hang_up(at);
                    }
                }
                LinkEvent::Closed { reason, .. } => self.closed(at, reason)?,
            }
        }
        self.events = events;
        Ok(())
    }

    /// A client's link ended: perhaps another address serves.
    fn closed(&mut self, at: usize, reason: Reason) -> Result<(), Error> {
        let player = &mut self.players[at];
        let cause = EndCause::of(reason, player.connected);
        if !player.untried.is_empty() && cause.is_of_address() {
            return self.dial_next(at);
        }
        player.client.closed();
        player.ended = Some(player.end(cause));
        self.hang_up(at);
        Ok(())
    }

    /// Passes on to the next address of servers that do not answer.
    fn try_next_addresses(&mut self, now: Instant) -> Result<(), Error> {
        for at in 0..self.players.len() {
            let player = &self.players[at];
            let waits = !player.connected && player.ended.is_none() && !player.untried.is_empty();
            if waits && now.saturating_duration_since(player.tried) >= NEXT_ADDRESS {
                self.dial_next(at)?;
            }
        }
        Ok(())
    }

    /// Says good-bye for all.
    pub fn leave(&mut self, limit: Micros) -> Result<(), Error> {
        for player in &mut self.players {
            player.client.leave(&mut EndpointOutbox(&mut self.endpoint, &mut self.closing));
        }
        self.endpoint.flush();
        self.endpoint.wait(Instant::now() + Duration::from_millis(50), &mut self.events)?;
        self.endpoint.shutdown(limit, &mut self.events)?;
        Ok(())
    }
}

impl<G: Game> HostedClient<G> {
    fn end(&self, cause: EndCause) -> SessionEnd {
        SessionEnd { server: self.server.clone(), address: self.address, cause }
    }
}
