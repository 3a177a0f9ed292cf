//! Endpoints on real sockets of this machine, stepped in turn by one thread.
//!
//! Nothing here depends on the machine's speed: a test states a condition, which must become true within two minutes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use foveate_io::{
    Certificate, CertificateHash, Endpoint, EndpointOptions, Limits, LinkEvent, LinkId, RateLimit,
    Reason, Trust,
};

/// The longest that anything may take, short of a hang.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// An endpoint with its events.
pub struct Party {
    pub endpoint: Endpoint,
    pub connected: Vec<LinkId>,
    pub datagrams: Vec<(LinkId, Vec<u8>)>,
    pub messages: Vec<(LinkId, Vec<u8>)>,
    pub closed: Vec<(LinkId, Reason)>,
}

pub fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// A server's options, with room for many clients on one address.
pub fn roomy() -> EndpointOptions {
    let limits = Limits {
        max_links_per_address: 1_000,
        handshakes_per_address: RateLimit::per_second(1_000),
        retry_above: 1_000,
        ..Limits::server()
    };
    EndpointOptions { limits, ..EndpointOptions::server() }
}

impl Party {
    pub fn server(options: EndpointOptions) -> Party {
        let endpoint = Endpoint::server(anywhere(), Certificate::development(), options);
        Party::of(endpoint.expect("a free port"))
    }

    /// A client that trusts this server's certificate.
    pub fn client(server: &Party, options: EndpointOptions) -> Party {
        Party::trusting(&Trust::Pinned(vec![server.hash()]), options)
    }

    /// The same from an address of this machine's own network.
    pub fn client_at(address: [u8; 4], server: &Party) -> Party {
        let (trust, address) = (Trust::Pinned(vec![server.hash()]), SocketAddr::from((address, 0)));
        let endpoint = Endpoint::client(address, &trust, EndpointOptions::client());
        Party::of(endpoint.expect("a free port"))
    }

    pub fn trusting(trust: &Trust, options: EndpointOptions) -> Party {
        Party::of(Endpoint::client(anywhere(), trust, options).expect("a free port"))
    }

    fn of(endpoint: Endpoint) -> Party {
        let (connected, datagrams, messages, closed) = Default::default();
        Party { endpoint, connected, datagrams, messages, closed }
    }

    pub fn hash(&self) -> CertificateHash {
        self.endpoint.certificate_hash().expect("a server")
    }

    pub fn connect(&mut self, server: &Party) -> LinkId {
        let address = server.endpoint.address().expect("bound");
        self.endpoint.connect(address, "localhost").expect("room for a link")
    }

    /// Runs the loop briefly and sorts the events.
    pub fn step(&mut self) {
        let mut events = Vec::new();
        let until = Instant::now() + Duration::from_millis(1);
        self.endpoint.wait(until, &mut events).expect("the socket works");
        self.note(events);
    }

    pub fn note(&mut self, events: Vec<LinkEvent>) {
        for event in events {
            match event {
                LinkEvent::Connected { link, .. } => self.connected.push(link),
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

/// A server and a client with one link, and its ids at both ends.
pub fn pair(server: EndpointOptions, client: EndpointOptions) -> (Party, Party, LinkId, LinkId) {
    let mut server = Party::server(server);
    let mut client = Party::client(&server, client);
    let theirs = client.connect(&server);
    until(&mut server, &mut client, "a connection", |server, client| {
        server.connected.len() == 1 && client.connected.len() == 1
    });
    let ours = server.connected[0];
    (server, client, ours, theirs)
}
