//! Datagrams beside QUIC, over real sockets.

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use foveate_io::{DatagramPath, EndpointOptions, LinkConditions, LinkId};
use foveate_node::link_model::{LinkSpec, Rate};
use foveate_wire::Micros;

use crate::harness::{PATIENCE, Party, anywhere, pair, roomy, until};

/// Steps both until both ends send beside QUIC.
fn until_direct(server: &mut Party, client: &mut Party, ours: LinkId, theirs: LinkId) {
    until(server, client, "direct paths", |server, client| {
        let both = [server.endpoint.datagram_path(ours), client.endpoint.datagram_path(theirs)];
        both == [Some(DatagramPath::Direct); 2]
    });
}

#[test]
fn datagrams_leave_quic_when_both_ends_offer_it() {
    let (mut server, mut client, ours, theirs) = pair(roomy(), EndpointOptions::client());
    client.endpoint.send_datagram(theirs, b"early").expect("connected");
    until(&mut server, &mut client, "the first", |server, _| server.datagrams.len() == 1);
    until_direct(&mut server, &mut client, ours, theirs);
    let before = client.endpoint.total().sent;
    for number in 0..50_u8 {
        client.endpoint.send_datagram(theirs, &[number; 20]).expect("connected");
        server.endpoint.send_datagram(ours, &[number; 150]).expect("connected");
        client.endpoint.flush();
        server.endpoint.flush();
        client.step();
        server.step();
    }
    until(&mut server, &mut client, "50 each way", |server, client| {
        server.datagrams.len() == 51 && client.datagrams.len() == 50
    });
    assert_eq!(client.datagrams[49], (theirs, vec![49; 150]));
    let sent = client.endpoint.total().sent;
    let per_packet = (sent.bytes - before.bytes) / (sent.packets - before.packets);
    assert!(per_packet <= 20 + 27 + 5, "{per_packet} bytes for 20");
    server.endpoint.send_message(ours, b"still there").expect("room");
    until(&mut server, &mut client, "a message", |_, client| client.messages.len() == 1);
    assert_eq!(server.endpoint.counters().packets_forged, 0);
}

#[test]
fn either_end_can_insist_on_quic() {
    let quic = |options| EndpointOptions { datagrams: DatagramPath::Quic, ..options };
    for (one, two) in
        [(quic(roomy()), EndpointOptions::client()), (roomy(), quic(EndpointOptions::client()))]
    {
        let (mut server, mut client, ours, theirs) = pair(one, two);
        let begun = Instant::now();
        until(&mut server, &mut client, "a while", |_, _| {
            begun.elapsed() > Duration::from_millis(300)
        });
        assert_eq!(server.endpoint.datagram_path(ours), Some(DatagramPath::Quic));
        client.endpoint.send_datagram(theirs, b"by QUIC").expect("connected");
        until(&mut server, &mut client, "a datagram", |server, _| server.datagrams.len() == 1);
    }
}

/// A router between a client and a server that sometimes changes the client's port.
struct Router {
    inside: UdpSocket,
    outside: UdpSocket,
    server: SocketAddr,
    client: Option<SocketAddr>,
}

impl Router {
    fn new(server: SocketAddr) -> Router {
        Router { inside: Router::port(), outside: Router::port(), server, client: None }
    }

    fn port() -> UdpSocket {
        let socket = UdpSocket::bind(anywhere()).expect("a free port");
        socket.set_nonblocking(true).expect("sockets can wait");
        socket
    }

    fn pass(&mut self) {
        let mut room = [0; 2_000];
        while let Ok((size, from)) = self.inside.recv_from(&mut room) {
            self.client = Some(from);
            self.outside.send_to(&room[..size], self.server).expect("loopback takes it");
        }
        while let Ok((size, _)) = self.outside.recv_from(&mut room) {
            let Some(client) = self.client else { continue };
            self.inside.send_to(&room[..size], client).expect("loopback takes it");
        }
    }
}

#[test]
fn a_client_behind_a_router_that_changes_its_port_plays_on() {
    let mut server = Party::server(roomy());
    let mut client = Party::client(&server, EndpointOptions::client());
    let mut router = Router::new(server.endpoint.address().expect("bound"));
    let at = router.inside.local_addr().expect("bound");
    let theirs = client.endpoint.connect(at, "localhost").expect("room");
    let deadline = Instant::now() + PATIENCE;
    let mut rebound = None;
    loop {
        assert!(Instant::now() < deadline, "waited in vain");
        router.pass();
        server.step();
        client.step();
        let Some(ours) = server.connected.first().copied() else { continue };
        if client.endpoint.datagram_path(theirs) == Some(DatagramPath::Direct) {
            client.endpoint.send_datagram(theirs, b"input").expect("connected");
            server.endpoint.send_datagram(ours, b"state").expect("connected");
        }
        match rebound {
            None if client.datagrams.len() > 100 => {
                router.outside = Router::port();
                rebound = Some(client.datagrams.len());
            }
            // Only a migrated path brings states through the new port.
            Some(before) if client.datagrams.len() > before + 100 => break,
            _ => {}
        }
    }
    assert!(server.closed.is_empty() && client.closed.is_empty());
    assert_eq!(server.endpoint.datagram_path(server.connected[0]), Some(DatagramPath::Direct));
}

#[test]
fn a_narrow_pipe_carries_datagrams_with_little_loss_and_messages_too() {
    let rate = Some(Rate { bytes_per_second: 32_000.0, queue: 8_000 });
    let sent = LinkSpec { rate, ..LinkSpec::delayed(Micros::from_millis(10)) };
    let ways = LinkConditions { sent, received: LinkSpec::delayed(Micros::from_millis(10)) };
    let narrow = EndpointOptions { conditions: Some(ways), ..roomy() };
    let (mut server, mut client, ours, theirs) = pair(narrow, EndpointOptions::client());
    until_direct(&mut server, &mut client, ours, theirs);
    let begun = Instant::now();
    let (mut next, mut rounds) = (begun, 0_u32);
    let mut half = None;
    until(&mut server, &mut client, "ten seconds", |server, client| {
        if Instant::now() >= next {
            next += Duration::from_millis(50);
            rounds += 1;
            // Twice the link's rate.
            for _ in 0..3 {
                server.endpoint.send_datagram(ours, &[7; 1_000]).expect("connected");
            }
            client.endpoint.send_datagram(theirs, b"input").expect("connected");
            if rounds.is_multiple_of(20) {
                server.endpoint.send_message(ours, &[rounds as u8; 500]).expect("room");
            }
            server.endpoint.flush();
            client.endpoint.flush();
        }
        if half.is_none() && begun.elapsed() > Duration::from_secs(5) {
            let sent = server.endpoint.meter(ours).expect("open").sent.packets;
            half = Some((sent, server.endpoint.counters().conditioned_away));
        }
        begun.elapsed() > Duration::from_secs(10)
    });
    let (sent, lost) = half.expect("five seconds passed");
    let sent = server.endpoint.meter(ours).expect("open").sent.packets - sent;
    let lost = server.endpoint.counters().conditioned_away - lost;
    assert!(sent > 40 && lost * 20 < sent, "{lost} of {sent} lost in the second five seconds");
    assert!(client.messages.len() >= 8, "{} messages in ten seconds", client.messages.len());
    assert_eq!(server.endpoint.datagram_path(ours), Some(DatagramPath::Direct));
}

#[test]
fn packets_for_unknown_paths_are_dropped_without_an_answer() {
    let (mut server, mut client, ..) = pair(roomy(), EndpointOptions::client());
    let stranger = Router::port();
    let to = server.endpoint.address().expect("bound");
    for first in 0x20..0x40_u8 {
        for size in [1, 8, 9, 27, 60, 1_200] {
            let bytes = vec![first; size];
            stranger.send_to(&bytes, to).expect("loopback takes it");
        }
    }
    let before = server.endpoint.counters().packets_ignored;
    until(&mut server, &mut client, "32 × 6 packets", |server, _| {
        server.endpoint.counters().packets_ignored >= before + 32 * 6
    });
    assert!(stranger.recv_from(&mut [0; 100]).is_err(), "no answer");
}
