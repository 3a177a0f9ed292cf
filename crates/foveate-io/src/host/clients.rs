//! Many clients in one loop, or one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foveate_node::game::{Game, World};
use foveate_node::{Client, Link};
use foveate_wire::{Micros, ObjectId};

use super::{Closing, Links, name};
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::event::Event;

/// One of the clients.
pub struct Player<G: Game> {
    /// The client: replicas, prediction, news.
    pub client: Client<G>,
    /// When it asked to be let in.
    pub asked: Instant,
    /// Why its link ended, if it did.
    pub ended: Option<String>,
    link: Link,
    next: Instant,
}

/// Clients that share one endpoint and one loop. Their rounds are spread over time.
pub struct ClientsHost<G: Game> {
    /// The links.
    pub endpoint: Endpoint,
    players: Vec<Player<G>>,
    by_link: BTreeMap<Link, usize>,
    began: Instant,
    round: Duration,
    events: Vec<Event>,
    closing: Closing,
}

impl<G: Game> ClientsHost<G> {
    /// No client yet. `round`: the server's.
    pub fn new(endpoint: Endpoint, round: Micros) -> ClientsHost<G> {
        ClientsHost {
            endpoint,
            players: Vec::new(),
            by_link: BTreeMap::new(),
            began: Instant::now(),
            round: Duration::from_micros(round.0),
            events: Vec::new(),
            closing: Closing::default(),
        }
    }

    /// One more client, who joins as `name`. Returns its place.
    pub fn join(
        &mut self,
        game: Arc<G>,
        server: SocketAddr,
        name_: &str,
        token: &[u8],
    ) -> Result<usize, Error> {
        let link = name(self.endpoint.connect(server, "localhost")?);
        let (client, asked, at) =
            (Client::new(game, name_, token), Instant::now(), self.players.len());
        self.players.push(Player { client, asked, ended: None, link, next: asked });
        self.by_link.insert(link, at);
        Ok(at)
    }

    /// The same client on a new link, after a break.
    pub fn rejoin(&mut self, at: usize, server: SocketAddr) -> Result<(), Error> {
        let link = name(self.endpoint.connect(server, "localhost")?);
        let player = &mut self.players[at];
        self.by_link.remove(&player.link);
        (player.link, player.ended) = (link, None);
        self.by_link.insert(link, at);
        Ok(())
    }

    /// All clients.
    pub fn players(&self) -> &[Player<G>] {
        &self.players
    }

    /// One of them.
    pub fn player(&mut self, at: usize) -> &mut Player<G> {
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
            self.take_in();
            let now = Instant::now();
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
        let out = &mut Links(&mut self.endpoint, &mut self.closing);
        self.players[at].client.ask(object, action, time, out);
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
        let out = &mut Links(&mut self.endpoint, &mut self.closing);
        player.client.tick(time, out, |world, me| decide(at, world, me, &mut asked));
        for (object, action) in asked {
            player.client.ask(object, action, time, out);
        }
    }

    fn take_in(&mut self) {
        let now = self.now();
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            let (Event::Connected { link, .. }
            | Event::Datagram { link, .. }
            | Event::Message { link, .. }
            | Event::Closed { link, .. }) = event;
            let Some(at) = self.by_link.get(&name(link)).copied() else { continue };
            let player = &mut self.players[at];
            match event {
                Event::Connected { link, .. } => {
                    player
                        .client
                        .connected(name(link), &mut Links(&mut self.endpoint, &mut self.closing));
                }
                Event::Datagram { bytes, .. } => player.client.datagram(&bytes, now),
                Event::Message { bytes, .. } => player.client.message(&bytes),
                Event::Closed { link, reason } => {
                    player.client.closed();
                    player.ended = Some(reason.to_string());
                    self.by_link.remove(&name(link));
                }
            }
        }
        self.events = events;
    }

    /// Says good-bye for all.
    pub fn leave(&mut self, limit: Micros) -> Result<(), Error> {
        for player in &mut self.players {
            player.client.leave(&mut Links(&mut self.endpoint, &mut self.closing));
        }
        self.endpoint.flush();
        self.endpoint.wait(Instant::now() + Duration::from_millis(50), &mut self.events)?;
        self.endpoint.shutdown(limit, &mut self.events)?;
        Ok(())
    }
}
