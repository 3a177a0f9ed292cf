//! Bytes that no honest peer sends.

use std::net::UdpSocket;

use foveate_io::peer::PeerOptions;
use foveate_io::{Endpoint, EndpointOptions, LinkEvent, Trust};
use std::time::{Duration, Instant};

use crate::harness::{PATIENCE, Party, anywhere, pair, until};

#[test]
fn random_packets_change_nothing() {
    let (mut one, mut two, there, _) = pair(PeerOptions::default(), PeerOptions::default());
    let socket = UdpSocket::bind(anywhere()).expect("a free port");
    let mut random = fastrand::Rng::with_seed(5);
    for n in 0..2_000 {
        let mut bytes = vec![0; random.usize(0..1_300)];
        random.fill(&mut bytes);
        if let (true, Some(first)) = (n % 2 == 0, bytes.first_mut()) {
            // Looks like the start of a QUIC handshake.
            *first |= 0xc0;
        }
        for address in two.endpoint.addresses() {
            // A packet lost by a full buffer does not matter.
            let _ = socket.send_to(&bytes, address);
        }
    }
    one.endpoint.send_message(there, b"still here").expect("open");
    until(&mut one, &mut two, "a message", |_, two| !two.messages.is_empty());
    assert_eq!((two.connected.len(), two.closed.len()), (1, 0));
}

#[test]
fn a_client_for_servers_is_rejected() {
    let mut peer = Party::new(1, PeerOptions::default());
    let trust = Trust::Pinned(Vec::new());
    let mut client =
        Endpoint::client(anywhere(), &trust, EndpointOptions::client()).expect("a free port");
    client.connect(peer.endpoint.addresses()[0], "localhost").expect("room");
    let (mut events, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    while !events.iter().any(|event| matches!(event, LinkEvent::Closed { .. })) {
        assert!(Instant::now() < deadline, "waited in vain");
        client.wait(Instant::now() + Duration::from_millis(2), &mut events).expect("it works");
        peer.step();
    }
    assert!(peer.connected.is_empty());
    until(&mut peer, &mut Party::new(2, PeerOptions::default()), "a free place", |peer, _| {
        peer.endpoint.links() == 0
    });
    assert_eq!(peer.endpoint.counters().handshakes_failed, 1);
}
