//! Runs a peer, a node of a game without a server, on real links.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foveate_node::game::Game;
use foveate_node::node::{NodeInput, PeerCommand};
use foveate_node::peer::{Key, PeerEvent, PeerSettings, Signer};
use foveate_node::{Link, Peer};
use foveate_wire::{Micros, Tick};

use super::driver::{Driver, EndpointOutbox, NodeHost};
use super::{MAX_HAPPENED, remember, secret_seed};
use crate::error::Error;
use crate::event::LinkEvent;
use crate::keys::KeyPair;
use crate::meter::LinkMeter;
use crate::peer::{PeerEndpoint, contact};
use crate::slots::LinkId;

/// Time that a contact has to admit this peer before the next contact is asked.
const CONTACT_FOR: Duration = Duration::from_secs(4);

/// A peer on real links.
pub struct PeerHost<G: Game> {
    /// The node: its world, neighbours and counters.
    pub peer: Peer<G>,
    /// The endpoint: meters, conditions, limits.
    pub endpoint: PeerEndpoint,
    /// Whether states stay within what each link's congestion controller allows, so that a narrow link gets less
    /// instead of later. True by default.
    pub follow_congestion: bool,
    round: Micros,
    tick: Tick,
    driver: Driver,
    dialler: Dialler,
    happened: VecDeque<PeerEvent<G::Event>>,
}

/// Connections that this peer starts.
struct Dialler {
    /// Links that were dialled and are not open yet.
    dialled: BTreeMap<LinkId, Key>,
    /// Contacts that were not asked yet.
    contacts: VecDeque<(Key, Vec<SocketAddr>)>,
    /// When the last contact was asked.
    asked: Instant,
}

impl Dialler {
    fn ask_next<G: Game>(&mut self, peer: &mut Peer<G>, now: Micros) {
        if let Some((key, addresses)) = self.contacts.pop_front() {
            self.asked = Instant::now();
            peer.join(key, contact::write(&addresses), now);
        }
    }
}

/// The host's side of the peer in one step.
struct Surroundings<'a, G: Game, F> {
    act: Option<F>,
    tick: &'a mut Tick,
    dialler: &'a mut Dialler,
    happened: &'a mut VecDeque<PeerEvent<G::Event>>,
    /// The length of a round, if budgets follow the links.
    measured: Option<Micros>,
}

impl<G, F> NodeHost<Peer<G>, PeerEndpoint> for Surroundings<'_, G, F>
where
    G: Game,
    F: FnOnce(&mut Peer<G>),
{
    const MEASURES: bool = true;

    fn on_link<'a>(
        &mut self,
        event: &'a LinkEvent,
        _: &mut Peer<G>,
        _: &mut EndpointOutbox<'_, PeerEndpoint>,
    ) -> Option<NodeInput<'a, PeerCommand<G>>> {
        let dialled = match event {
            LinkEvent::Connected { link, .. } | LinkEvent::Closed { link, .. } => {
                self.dialler.dialled.remove(link)
            }
            _ => None,
        };
        Some(match (event, dialled) {
            (LinkEvent::Closed { .. }, Some(key)) => {
                NodeInput::Command(PeerCommand::Unreachable(key))
            }
            _ => event.input(),
        })
    }

    fn on_meter(&mut self, link: Link, meter: Option<LinkMeter>) -> Option<PeerCommand<G>> {
        let capacity = self.measured.and_then(|round| meter?.capacity(round));
        Some(PeerCommand::SetCapacity(link, capacity))
    }

    fn before_wake(&mut self, peer: &mut Peer<G>, out: &mut EndpointOutbox<'_, PeerEndpoint>) {
        *self.tick = peer.tick_at(out.now);
        if peer.is_inside() {
            if let Some(act) = self.act.take() {
                act(peer);
            }
        } else if self.dialler.asked.elapsed() > CONTACT_FOR {
            self.dialler.ask_next(peer, out.now);
        }
    }

    fn on_event(
        &mut self,
        event: PeerEvent<G::Event>,
        _: &mut Peer<G>,
        out: &mut EndpointOutbox<'_, PeerEndpoint>,
    ) -> Option<PeerCommand<G>> {
        let PeerEvent::Connect(key, contact) = event else {
            remember(self.happened, event, MAX_HAPPENED);
            return None;
        };
        let addresses = contact::read(&contact).unwrap_or_default();
        match out.endpoint.connect(key, &addresses) {
            Ok(link) => {
                self.dialler.dialled.insert(link, key);
                None
            }
            Err(_) => Some(PeerCommand::Unreachable(key)),
        }
    }
}

impl<G: Game> PeerHost<G> {
    /// A peer in no game yet: call [`found`](PeerHost::found) or [`join`](PeerHost::join). The addresses at which
    /// others can reach it are filled in.
    pub fn new(
        game: Arc<G>,
        settings: PeerSettings,
        keys: KeyPair,
        endpoint: PeerEndpoint,
        name: &str,
    ) -> PeerHost<G> {
        let contact = contact::write(&endpoint.addresses());
        let round = settings.rounds.length;
        let signer: Box<dyn Signer> = Box::new(keys);
        let mut peer = Peer::new(game, PeerSettings { contact, ..settings }, signer, name);
        peer.simulation.seed = secret_seed();
        PeerHost {
            peer,
            endpoint,
            follow_congestion: true,
            round,
            tick: Tick(0),
            driver: Driver::through_sleep(),
            dialler: Dialler {
                dialled: BTreeMap::new(),
                contacts: VecDeque::new(),
                asked: Instant::now(),
            },
            happened: VecDeque::new(),
        }
    }

    /// Starts a new world with this peer as its only member.
    pub fn found(&mut self) -> Result<(), foveate_sync::StoreError> {
        self.peer.found(self.now())
    }

    /// Asks these contacts, one after the other, to join their game.
    pub fn join(&mut self, contacts: impl IntoIterator<Item = (Key, Vec<SocketAddr>)>) {
        let own = self.endpoint.key();
        self.dialler.contacts = contacts.into_iter().filter(|it| it.0 != own).collect();
        self.dialler.ask_next(&mut self.peer, self.driver.now());
    }

    /// Whether all contacts were asked and none admitted this peer.
    pub fn is_stranded(&self) -> bool {
        let Dialler { contacts, asked, .. } = &self.dialler;
        !self.peer.is_inside() && contacts.is_empty() && asked.elapsed() > CONTACT_FOR
    }

    /// The node's current time. It goes on while the machine sleeps, as the game does.
    pub fn now(&self) -> Micros {
        self.driver.now()
    }

    /// The last tick.
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// Events since the last call.
    pub fn drain_events(&mut self) -> std::collections::vec_deque::Drain<'_, PeerEvent<G::Event>> {
        self.happened.drain(..)
    }

    /// Receives until the next round of the world, and plays it. In `act` the player, if it has joined, gives its input
    /// and may request actions of objects.
    pub fn step(&mut self, act: impl FnOnce(&mut Peer<G>)) -> Result<(), Error> {
        let (driver, peer, endpoint, mut around) = self.parts(act);
        driver.step(peer, endpoint, &mut around)?;
        Ok(())
    }

    /// The same without waiting, for programs with their own loop; true if a round was played.
    pub fn poll_step(&mut self, act: impl FnOnce(&mut Peer<G>)) -> Result<bool, Error> {
        let (driver, peer, endpoint, mut around) = self.parts(act);
        Ok(driver.poll(peer, endpoint, &mut around)?.is_some())
    }

    /// The driver, the node, its endpoint, and its host's side.
    fn parts<F: FnOnce(&mut Peer<G>)>(
        &mut self,
        act: F,
    ) -> (&mut Driver, &mut Peer<G>, &mut PeerEndpoint, Surroundings<'_, G, F>) {
        let surroundings = Surroundings {
            act: Some(act),
            tick: &mut self.tick,
            dialler: &mut self.dialler,
            happened: &mut self.happened,
            measured: self.follow_congestion.then_some(self.round),
        };
        (&mut self.driver, &mut self.peer, &mut self.endpoint, surroundings)
    }

    /// Transfers objects to other owners, leaves, and closes all links within `limit`.
    pub fn leave(mut self, limit: Micros) -> Result<(), Error> {
        let PeerHost { driver, peer, endpoint, .. } = &mut self;
        driver.command(peer, endpoint, PeerCommand::Leave);
        driver.shutdown(endpoint, limit)?;
        Ok(())
    }
}
