//! Bytes that are no QUIC.

use std::net::UdpSocket;

use foveate_io::EndpointOptions;

use crate::harness::{anywhere, pair, roomy, until};

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
    let mut server = crate::harness::Party::server(options);
    let mut client = crate::harness::Party::client(&server, EndpointOptions::client());
    client.connect(&server);
    client.step();
    drop(client);
    let mut nobody = crate::harness::Party::client(&server, EndpointOptions::client());
    until(&mut server, &mut nobody, "the handshake begins", |server, _| {
        server.endpoint.counters().accepted == 1
    });
    until(&mut server, &mut nobody, "and is forgotten", |server, _| server.endpoint.links() == 0);
    assert_eq!(server.endpoint.counters().handshakes_failed, 1);
    assert!(server.connected.is_empty() && server.closed.is_empty(), "nobody was told of it");
}
