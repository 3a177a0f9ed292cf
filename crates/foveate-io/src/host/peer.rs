//! A peer: a node of a game without a server, on real links.

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
use super::{MAX_HAPPENED, remember};
use crate::error::Error;
use crate::event::LinkEvent;
use crate::keys::KeyPair;
use crate::meter::LinkMeter;
use crate::peer::{PeerEndpoint, contact};
use crate::slots::LinkId;

/// A contact has so long to let this peer in before the next one is asked.
const CONTACT_FOR: Duration = Duration::from_secs(4);

/// A peer on real links.
pub struct PeerHost<G: Game> {
    /// The node: the world as it knows it, neighbours, counts.
    pub peer: Peer<G>,
    /// The links: meters, conditions, limits.
    pub endpoint: PeerEndpoint,
    /// Whether states keep within what each link's congestion controller lets through, so that a narrow
    /// link gets less instead of later. True at first.
    pub follow_congestion: bool,
    round: Micros,
    tick: Tick,
    driver: Driver,
    dialler: Dialler,
    happened: VecDeque<PeerEvent<G::Event>>,
}

/// Whom this peer connects to.
struct Dialler {
    /// Links that were dialled and are not open yet.
    dialled: BTreeMap<LinkId, Key>,
    /// Contacts that were not asked yet, and when the last one was.
    contacts: VecDeque<(Key, Vec<SocketAddr>)>,
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

/// What is around the peer in a step.
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
    /// A peer outside of any game: [`found`](PeerHost::found) one, or [`join`](PeerHost::join) one.
    /// Where others reach it is filled in.
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
        PeerHost {
            peer: Peer::new(game, PeerSettings { contact, ..settings }, signer, name),
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

    /// Begins a new world, as the only one in it.
    pub fn found(&mut self) -> Result<(), foveate_sync::StoreError> {
        self.peer.found(self.now())
    }

    /// Asks to be let in by one of these, one after the other.
    pub fn join(&mut self, contacts: impl IntoIterator<Item = (Key, Vec<SocketAddr>)>) {
        let own = self.endpoint.key();
        self.dialler.contacts = contacts.into_iter().filter(|it| it.0 != own).collect();
        self.dialler.ask_next(&mut self.peer, self.driver.now());
    }

    /// Whether none of the contacts has let this peer in, and none is left to ask.
    pub fn is_stranded(&self) -> bool {
        let Dialler { contacts, asked, .. } = &self.dialler;
        !self.peer.is_inside() && contacts.is_empty() && asked.elapsed() > CONTACT_FOR
    }

    /// The time that the node goes by. While the machine sleeps the game goes on, and so does this.
    pub fn now(&self) -> Micros {
        self.driver.now()
    }

    /// The tick that was last.
    pub fn tick(&self) -> Tick {
        self.tick
    }

    /// What happened since the last call.
    pub fn drain_events(&mut self) -> std::collections::vec_deque::Drain<'_, PeerEvent<G::Event>> {
        self.happened.drain(..)
    }

    /// Waits for the next round of the world, taking in what arrives, and plays it. In `act` the player,
    /// if it is inside, gives its input and may ask things of objects.
    pub fn step(&mut self, act: impl FnOnce(&mut Peer<G>)) -> Result<(), Error> {
        let (driver, peer, endpoint, mut around) = self.parts(act);
        driver.step(peer, endpoint, &mut around)?;
        Ok(())
    }

    /// The same without waiting, for programs that have a loop of their own; true if a round was played.
    pub fn poll_step(&mut self, act: impl FnOnce(&mut Peer<G>)) -> Result<bool, Error> {
        let (driver, peer, endpoint, mut around) = self.parts(act);
        Ok(driver.poll(peer, endpoint, &mut around)?.is_some())
    }

    /// The loop, the node, its links, and what answers the node.
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

    /// Hands over what others can own, leaves, and closes all links within `limit`.
    pub fn leave(mut self, limit: Micros) -> Result<(), Error> {
        let PeerHost { driver, peer, endpoint, .. } = &mut self;
        driver.command(peer, endpoint, PeerCommand::Leave);
        driver.shutdown(endpoint, limit)?;
        Ok(())
    }
}
