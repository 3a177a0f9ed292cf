//! Peers on real sockets, stepped in turn by one thread.
//!
//! Nothing here depends on the machine's speed: a test states a condition, which must become true within two minutes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use foveate_io::keys::KeyPair;
use foveate_io::peer::{PeerEndpoint, PeerOptions};
use foveate_io::{LinkEvent, LinkId, Reason};
use foveate_node::node::Remote;
use foveate_node::peer::Key;

/// The longest that anything may take, short of a hang.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A peer with its events.
pub struct Party {
    pub endpoint: PeerEndpoint,
    pub connected: Vec<(LinkId, Key)>,
    pub datagrams: Vec<(LinkId, Vec<u8>)>,
    pub messages: Vec<(LinkId, Vec<u8>)>,
    pub closed: Vec<(LinkId, Reason)>,
}

pub fn keys(seed: u8) -> KeyPair {
    KeyPair::from_secret([seed; 32]).expect("any 32 bytes are a secret")
}

pub fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

impl Party {
    pub fn new(seed: u8, options: PeerOptions) -> Party {
        Party::at(&[anywhere()], seed, options)
    }

    pub fn at(addresses: &[SocketAddr], seed: u8, options: PeerOptions) -> Party {
        let endpoint = PeerEndpoint::bind(addresses, &keys(seed), options).expect("free ports");
        let (connected, datagrams, messages, closed) = Default::default();
        Party { endpoint, connected, datagrams, messages, closed }
    }

    pub fn dial(&mut self, other: &Party) -> LinkId {
        let addresses = other.endpoint.addresses();
        self.endpoint.connect(other.endpoint.key(), &addresses).expect("room for a link")
    }

    /// Waits briefly and sorts the events.
    pub fn step(&mut self) {
        let mut events = Vec::new();
        let until = Instant::now() + Duration::from_millis(2);
        self.endpoint.wait(until, &mut events).expect("the links' thread works");
        for event in events {
            match event {
                LinkEvent::Connected { link, remote: Remote::Keyed { key, .. }, .. } => {
                    self.connected.push((link, key));
                }
                LinkEvent::Connected { .. } => panic!("a link without a key"),
                LinkEvent::Datagram { link, bytes } => self.datagrams.push((link, bytes.to_vec())),
                LinkEvent::Message { link, bytes } => self.messages.push((link, bytes.to_vec())),
                LinkEvent::Closed { link, reason } => self.closed.push((link, reason)),
            }
        }
    }

    pub fn reason(&self, link: LinkId) -> Option<&Reason> {
        self.closed.iter().find(|(closed, _)| *closed == link).map(|(_, reason)| reason)
    }
}

/// Steps both until `done`, or fails with the name of the condition.
pub fn until(
    one: &mut Party,
    two: &mut Party,
    what: &str,
    mut done: impl FnMut(&mut Party, &mut Party) -> bool,
) {
    let deadline = Instant::now() + PATIENCE;
    while !done(one, two) {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        one.step();
        two.step();
    }
}

/// Two peers with one link, and its ids at both ends.
pub fn pair(one: PeerOptions, two: PeerOptions) -> (Party, Party, LinkId, LinkId) {
    let (mut one, mut two) = (Party::new(1, one), Party::new(2, two));
    let there = one.dial(&two);
    until(&mut one, &mut two, "a connection", |one, two| {
        one.connected.len() == 1 && two.connected.len() == 1
    });
    let here = two.connected[0].0;
    (one, two, there, here)
}
