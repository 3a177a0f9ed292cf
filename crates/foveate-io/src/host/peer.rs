//! A peer's loop: a node of a game without a server, on real links.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foveate_node::game::Game;
use foveate_node::peer::{Key, PeerEvent, PeerSettings, Signer};
use foveate_node::{Link, Peer};
use foveate_wire::{Micros, Tick};

use super::{Closing, EndpointOutbox, LinkSender, MAX_HAPPENED, MEASURE_EVERY, name, secret_seed};
use crate::error::Error;
use crate::event::CloseCode;
use crate::keys::KeyPair;
use crate::peer::{self, PeerEndpoint, contact};
use crate::slots::LinkId;
use crate::time::since_boot;

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
    began: Duration,
    round: Micros,
    tick: Tick,
    /// Links that were dialled and are not open yet.
    dialled: BTreeMap<LinkId, Key>,
    /// Links to be closed once what was said last has had time to arrive.
    closing: Closing,
    /// Contacts that were not asked yet, and when the last one was.
    contacts: VecDeque<(Key, Vec<SocketAddr>)>,
    asked: Instant,
    events: Vec<peer::PeerEvent>,
    happened: VecDeque<PeerEvent<G::Event>>,
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
        let now = Instant::now();
        let mut peer = Peer::new(game, PeerSettings { contact, ..settings }, signer, name);
        peer.simulation.seed = secret_seed();
        PeerHost {
            peer,
            endpoint,
            follow_congestion: true,
            began: since_boot(),
            round,
            tick: Tick(0),
            dialled: BTreeMap::new(),
            closing: Closing::default(),
            contacts: VecDeque::new(),
            asked: now,
            events: Vec::new(),
            happened: VecDeque::new(),
        }
    }

    /// Begins a new world, as the only one in it.
    pub fn found(&mut self) -> Result<(), foveate_sync::StoreError> {
        self.peer.found(self.now())
    }

    /// Asks to be let in by one of these, one after the other.
    pub fn join(&mut self, contacts: impl IntoIterator<Item = (Key, Vec<SocketAddr>)>) {
        self.contacts = contacts.into_iter().filter(|it| it.0 != self.endpoint.key()).collect();
        self.ask_next();
    }

    /// Whether nobody of those named has let this peer in, and nobody is left to ask.
    pub fn is_stranded(&self) -> bool {
        !self.peer.is_inside() && self.contacts.is_empty() && self.asked.elapsed() > CONTACT_FOR
    }

    fn ask_next(&mut self) {
        if let Some((key, addresses)) = self.contacts.pop_front() {
            self.asked = Instant::now();
            self.peer.join(key, contact::write(&addresses), self.now());
        }
    }

    /// The time that the node goes by. While the machine sleeps the game goes on, and so does this.
    pub fn now(&self) -> Micros {
        Micros((since_boot() - self.began).as_micros() as u64)
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
        let now = self.now();
        let until = Instant::now() + Duration::from_micros((self.peer.next_round(now) - now).0);
        loop {
            self.endpoint.wait(until, &mut self.events)?;
            self.take_in();
            if Instant::now() >= until {
                self.play(act);
                return Ok(());
            }
        }
    }

    /// The same without waiting, for programs that have a loop of their own; true if a round was played.
    pub fn poll_step(&mut self, act: impl FnOnce(&mut Peer<G>)) -> Result<bool, Error> {
        self.endpoint.wait(Instant::now(), &mut self.events)?;
        self.take_in();
        let due = self.peer.tick_at(self.now()) != self.tick;
        if due {
            self.play(act);
        }
        Ok(due)
    }

    fn play(&mut self, act: impl FnOnce(&mut Peer<G>)) {
        let now = self.now();
        self.tick = self.peer.tick_at(now);
        if self.peer.is_inside() {
            act(&mut self.peer);
        } else if self.asked.elapsed() > CONTACT_FOR {
            self.ask_next();
        }
        self.measure_links();
        self.peer.tick(now, &mut EndpointOutbox(&mut self.endpoint, &mut self.closing));
        self.answer();
        self.closing.close_due(&mut self.endpoint, Instant::now());
    }

    /// Tells the node what links carry, each in every fourth round.
    fn measure_links(&mut self) {
        let turn =
            |link: &Link| self.tick.0.wrapping_add(link.0 as u32).is_multiple_of(MEASURE_EVERY);
        let links: Vec<Link> = self.peer.links().map(|it| it.0).filter(turn).collect();
        for link in links {
            let meter = self.endpoint.meter(LinkId::from_bits(link.0));
            let capacity = meter.filter(|_| self.follow_congestion);
            let capacity = capacity.and_then(|meter| meter.capacity(self.round));
            self.peer.set_capacity(link, capacity);
        }
    }

    fn take_in(&mut self) {
        let now = self.now();
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            let out = &mut EndpointOutbox(&mut self.endpoint, &mut self.closing);
            match event {
                peer::PeerEvent::Connected { link, peer, dialled, .. } => {
                    self.dialled.remove(&link);
                    self.peer.connected(name(link), (peer, dialled), now, out);
                }
                peer::PeerEvent::Datagram { link, bytes } => {
                    self.peer.datagram(name(link), &bytes, now);
                }
                peer::PeerEvent::Message { link, bytes } => {
                    self.peer.message(name(link), &bytes, now, out);
                }
                peer::PeerEvent::Closed { link, .. } => match self.dialled.remove(&link) {
                    Some(key) => self.peer.unreachable(key, now),
                    None => self.peer.closed(name(link), now),
                },
            }
        }
        self.events = events;
        self.answer();
    }

    /// Does what the node asks for.
    fn answer(&mut self) {
        while let Some(event) = self.peer.poll() {
            match event {
                PeerEvent::Connect(key, contact) => self.dial(key, &contact),
                other => {
                    if self.happened.len() >= MAX_HAPPENED {
                        self.happened.pop_front();
                    }
                    self.happened.push_back(other);
                }
            }
        }
    }

    fn dial(&mut self, key: Key, contact: &[u8]) {
        let addresses = contact::read(contact).unwrap_or_default();
        match self.endpoint.connect(key, &addresses) {
            Ok(link) => {
                self.dialled.insert(link, key);
            }
            Err(_) => self.peer.unreachable(key, self.now()),
        }
    }

    /// Hands over what others can have, says good-bye, and ends. Takes at most `limit`.
    pub fn leave(mut self, limit: Micros) -> Result<(), Error> {
        let now = self.now();
        self.peer.leave(now, &mut EndpointOutbox(&mut self.endpoint, &mut self.closing));
        self.endpoint.shutdown(limit, &mut self.events)?;
        Ok(())
    }
}

impl LinkSender for PeerEndpoint {
    fn send_datagram(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error> {
        PeerEndpoint::send_datagram(self, link, bytes)
    }

    fn send_message(&mut self, link: LinkId, bytes: &[u8]) -> Result<(), Error> {
        PeerEndpoint::send_message(self, link, bytes)
    }

    fn close(&mut self, link: LinkId, code: CloseCode, reason: &str) {
        PeerEndpoint::close(self, link, code, reason);
    }
}
