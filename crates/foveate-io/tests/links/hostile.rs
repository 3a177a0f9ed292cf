//! Bytes that are not QUIC, and handshakes that are never completed.

use std::net::{SocketAddr, UdpSocket};

use foveate_io::{EndpointOptions, Limits};

use crate::harness::{Party, anywhere, pair, roomy, until};

/// Random bytes of any length, some with the first byte of a QUIC packet, some with a version.
fn garbage(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..random.usize(0..1_400)).map(|_| random.u8(..)).collect();
    if let Some(first) = bytes.first_mut() {
        *first |= [0, 0x40, 0x80, 0xc0][random.usize(0..4)];
    }
    if bytes.len() > 5 && random.bool() {
        bytes[1..5].copy_from_slice(&1u32.to_be_bytes());
    }
    bytes
}

#[test]
fn random_and_malformed_packets_do_no_harm() {
    let (mut server, mut client, ours, theirs) = pair(roomy(), EndpointOptions::client());
    let stranger = UdpSocket::bind(anywhere()).expect("a free port");
    let mut random = fastrand::Rng::with_seed(11);
    let targets = [&server, &client].map(|party| party.endpoint.address().expect("bound"));
    for round in 0..40 {
        for _ in 0..50 {
            stranger.send_to(&garbage(&mut random), targets[round % 2]).expect("local");
        }
        server.step();
        client.step();
    }
    client.endpoint.send_datagram(theirs, b"still here").expect("connected");
    until(&mut server, &mut client, "the link works", |server, _| !server.datagrams.is_empty());
    assert_eq!(server.datagrams, [(ours, b"still here".to_vec())]);
    assert!(server.endpoint.counters().packets_ignored > 500);
    assert_eq!((server.endpoint.links(), client.endpoint.links()), (1, 1));
}

#[test]
fn a_peer_that_vanishes_in_the_handshake_leaves_nothing() {
    let options =
        EndpointOptions { idle_timeout: foveate_wire::Micros::from_millis(200), ..roomy() };
    let mut server = Party::server(options);
    let mut client = Party::client(&server, EndpointOptions::client());
    client.connect(&server);
    client.step();
    drop(client);
    let mut vanishing = Party::client(&server, EndpointOptions::client());
    until(&mut server, &mut vanishing, "the handshake begins", |server, _| {
        server.endpoint.counters().accepted == 1
    });
    until(&mut server, &mut vanishing, "and is forgotten", |server, _| {
        server.endpoint.links() == 0
    });
    assert_eq!(server.endpoint.counters().handshakes_failed, 1);
    assert!(server.connected.is_empty() && server.closed.is_empty(), "no event was reported");
}

#[test]
fn unfinished_handshakes_do_not_lock_out_the_address_they_claim() {
    let mut server = Party::server(EndpointOptions::server());
    let mut forger = Party::client(&server, EndpointOptions::client());
    (0..40).for_each(|_| _ = forger.connect(&server));
    forger.step();
    // The attacker never receives an answer, since it does not have the address.
    let mut victim = Party::client(&server, EndpointOptions::client());
    until(&mut server, &mut victim, "the forged handshakes", |server, _| {
        let counters = server.endpoint.counters();
        counters.accepted + counters.retried + counters.refused_per_address == 40
    });
    victim.connect(&server);
    until(&mut server, &mut victim, "an answer", |_, victim| {
        victim.connected.len() + victim.closed.len() == 1
    });
    assert_eq!(victim.connected.len(), 1, "{:?}", victim.closed);
    assert_eq!(server.endpoint.counters().refused_per_address, 0);
}

/// Relays between a client and a server, and reads the connection ids.
struct Wire {
    front: UdpSocket,
    back: UdpSocket,
    server: SocketAddr,
    client: Option<SocketAddr>,
    /// The server's id for the connection.
    id: Option<[u8; 8]>,
}

impl Wire {
    fn to(server: SocketAddr) -> Wire {
        let [front, back] = [(); 2].map(|()| {
            let socket = UdpSocket::bind(anywhere()).expect("a free port");
            socket.set_nonblocking(true).expect("possible");
            socket
        });
        Wire { front, back, server, client: None, id: None }
    }

    fn step(&mut self) {
        let mut packet = [0; 2_048];
        while let Ok((size, from)) = self.front.recv_from(&mut packet) {
            self.client = Some(from);
            if packet[0] & 0x80 == 0 {
                self.id = packet[1..9].try_into().ok();
            }
            _ = self.back.send_to(&packet[..size], self.server);
        }
        while let (Ok((size, _)), Some(client)) = (self.back.recv_from(&mut packet), self.client) {
            _ = self.front.send_to(&packet[..size], client);
        }
    }
}

#[test]
fn garbage_with_a_links_connection_id_does_not_close_the_link() {
    let mut server = Party::server(EndpointOptions { limits: Limits::server(), ..roomy() });
    let mut client = Party::client(&server, EndpointOptions::client());
    let address = server.endpoint.address().expect("bound");
    let mut wire = Wire::to(address);
    let front = wire.front.local_addr().expect("bound");
    let link = client.endpoint.connect(front, "localhost").expect("room");
    until(&mut server, &mut client, "a connection through the wire", |server, client| {
        wire.step();
        if client.connected.len() == 1 {
            _ = client.endpoint.send_datagram(link, b"hello");
        }
        server.connected.len() == 1 && wire.id.is_some()
    });
    let stranger = UdpSocket::bind(anywhere()).expect("a free port");
    let mut random = fastrand::Rng::with_seed(17);
    // From another address, then from the link's own.
    for source in [&stranger, &wire.back.try_clone().expect("possible")] {
        for _ in 0..150 {
            for _ in 0..100 {
                let mut bytes = [0x40; 40];
                bytes[1..9].copy_from_slice(&wire.id.expect("seen"));
                bytes[9..].fill_with(|| random.u8(..));
                _ = source.send_to(&bytes, address);
            }
            server.step();
            wire.step();
            client.step();
        }
        server.datagrams.clear();
        until(&mut server, &mut client, "the link works", |server, client| {
            _ = client.endpoint.send_datagram(link, b"still here");
            wire.step();
            assert!(server.closed.is_empty(), "{:?}", server.closed);
            server.datagrams.iter().any(|(_, bytes)| bytes == b"still here")
        });
    }
    assert!(server.endpoint.counters().packets_over_rate > 0);
    assert_eq!(server.endpoint.counters().closed_flood, 0);
}
