//! Datagrams, messages, and how links end.

use std::time::{Duration, Instant};

use foveate_io::{CloseCode, EndpointOptions, Error, Reason};
use foveate_wire::{Bytes, Micros};

use crate::harness::{PATIENCE, Party, pair, roomy, until};

#[test]
fn datagrams_and_messages_pass_both_ways() {
    let (mut server, mut client, ours, theirs) = pair(roomy(), EndpointOptions::client());
    client.endpoint.send_datagram(theirs, b"input").expect("connected");
    client.endpoint.send_message(theirs, b"join").expect("connected");
    server.endpoint.send_datagram(ours, b"state").expect("connected");
    server.endpoint.send_message(ours, &[7; 60_000]).expect("connected");
    server.endpoint.send_message(ours, b"after").expect("connected");
    until(&mut server, &mut client, "all of it", |server, client| {
        !server.datagrams.is_empty()
            && !server.messages.is_empty()
            && !client.datagrams.is_empty()
            && client.messages.len() == 2
    });
    assert_eq!(server.datagrams, [(ours, b"input".to_vec())]);
    assert_eq!(server.messages, [(ours, b"join".to_vec())]);
    assert_eq!(client.datagrams, [(theirs, b"state".to_vec())]);
    assert_eq!(client.messages, [(theirs, vec![7; 60_000]), (theirs, b"after".to_vec())]);

    let (ours, total) = (server.endpoint.meter(ours).expect("open"), server.endpoint.total());
    assert_eq!((ours.sent.datagrams, ours.sent.messages), (1, 2));
    assert_eq!((ours.received.datagrams, ours.received.messages), (1, 1));
    assert_eq!(total.sent, ours.sent, "there is but one link");
    assert!(total.received.packets >= ours.received.packets, "{total:?}");
    assert!(ours.round_trip > Micros::ZERO && ours.sent.bytes > 60_000);
}

#[test]
fn two_hundred_clients_share_one_socket_and_one_loop() {
    let mut server = Party::server(roomy());
    let mut client = Party::client(&server, EndpointOptions::client());
    let links: Vec<_> = (0..200).map(|_| client.connect(&server)).collect();
    until(&mut server, &mut client, "200 connections", |server, client| {
        server.connected.len() == 200 && client.connected.len() == 200
    });
    for (n, link) in links.iter().enumerate() {
        client.endpoint.send_datagram(*link, &[n as u8]).expect("connected");
    }
    let told = server.connected.clone();
    for link in &told {
        server.endpoint.send_datagram(*link, &[link.index() as u8]).expect("connected");
    }
    until(&mut server, &mut client, "200 datagrams each way", |server, client| {
        server.datagrams.len() == 200 && client.datagrams.len() == 200
    });
    let mut heard: Vec<u8> = server.datagrams.iter().map(|(_, bytes)| bytes[0]).collect();
    heard.sort_unstable();
    assert_eq!(heard, (0..200).collect::<Vec<u8>>());
    assert!(told.iter().all(|link| link.index() < 200), "indices are dense");
}

#[test]
fn spread_datagrams_all_arrive() {
    let spread = EndpointOptions { spread: Micros::from_millis(20), ..roomy() };
    let mut server = Party::server(spread);
    let mut client = Party::client(&server, EndpointOptions::client());
    (0..50).for_each(|_| _ = client.connect(&server));
    until(&mut server, &mut client, "50 connections", |server, client| {
        server.connected.len() == 50 && client.connected.len() == 50
    });
    for link in server.connected.clone() {
        server.endpoint.send_datagram(link, b"state").expect("connected");
    }
    server.endpoint.flush();
    until(&mut server, &mut client, "50 datagrams", |_, client| client.datagrams.len() == 50);
}

#[test]
fn a_close_gives_the_peer_its_code_and_reason() {
    let (mut server, mut client, ours, theirs) = pair(roomy(), EndpointOptions::client());
    server.endpoint.close(ours, CloseCode(400), "out of the match");
    until(&mut server, &mut client, "both ends closed", |server, client| {
        server.closed.len() == 1 && client.closed.len() == 1
    });
    let reason = || "out of the match".to_owned();
    let here = Reason::Here { code: CloseCode(400), reason: reason() };
    let there = Reason::Peer { code: CloseCode(400), reason: reason() };
    assert_eq!(server.reason(ours), Some(&here));
    assert_eq!(client.reason(theirs), Some(&there));
}

#[test]
fn a_stale_link_is_harmless() {
    let (mut server, mut client, _, theirs) = pair(roomy(), EndpointOptions::client());
    client.endpoint.close(theirs, CloseCode::DONE, "");
    until(&mut server, &mut client, "forgotten links", |server, client| {
        server.endpoint.links() == 0 && client.endpoint.links() == 0
    });
    let again = client.connect(&server);
    assert_eq!(again.index(), theirs.index());
    assert!(matches!(client.endpoint.send_datagram(theirs, b"x"), Err(Error::Closed)));
    assert!(matches!(client.endpoint.send_message(theirs, b"x"), Err(Error::Closed)));
    assert!(matches!(client.endpoint.send_message(again, b"x"), Err(Error::NotConnected)));
    assert!(client.endpoint.meter(theirs).is_none());
    assert!(!client.endpoint.set_conditions(theirs, None));
    client.endpoint.close(theirs, CloseCode::DONE, "twice");
    until(&mut server, &mut client, "the new link", |_, client| client.connected.len() == 2);
}

#[test]
fn a_silent_link_is_closed_after_the_idle_timeout() {
    // Longer than this thread is ever descheduled: the handshake must not time out.
    let idle_timeout = Micros::from_millis(3_000);
    let server = EndpointOptions { idle_timeout, ..roomy() };
    let (mut server, mut client, ours, theirs) = pair(server, EndpointOptions::client());
    until(&mut server, &mut client, "both ends idle", |server, client| {
        server.closed.len() == 1 && client.closed.len() == 1
    });
    assert_eq!(server.reason(ours), Some(&Reason::Idle));
    assert_eq!(client.reason(theirs), Some(&Reason::Idle));
    assert_eq!(server.endpoint.links(), 0);
}

#[test]
fn shutdown_delivers_messages_and_tells_clients() {
    let (mut server, client, ours, theirs) = pair(roomy(), EndpointOptions::client());
    server.endpoint.send_message(ours, b"the server restarts").expect("connected");
    let clients = std::thread::spawn(move || {
        let mut client = client;
        let deadline = Instant::now() + PATIENCE;
        while client.closed.is_empty() && Instant::now() < deadline {
            client.step();
        }
        client
    });
    let mut events = Vec::new();
    let begun = Instant::now();
    let left = server.endpoint.shutdown(Micros::from_millis(600_000), &mut events);
    assert_eq!(left.expect("the socket works"), 0);
    assert!(begun.elapsed() < Duration::from_secs(300), "it ends when all is said");
    server.note(events);
    assert_eq!(server.closed.len(), 1);
    let client = clients.join().expect("no panic");
    assert_eq!(client.messages, [(theirs, b"the server restarts".to_vec())]);
    let reason = "shutting down".to_owned();
    let told = Reason::Peer { code: CloseCode::SHUTDOWN, reason };
    assert_eq!(client.reason(theirs), Some(&told));
}

#[test]
fn data_that_does_not_fit_is_refused_with_its_limit() {
    let (_server, mut client, _, theirs) = pair(roomy(), EndpointOptions::client());
    let limit = client.endpoint.max_datagram(theirs).expect("connected");
    assert!(limit >= Bytes(1_200), "a packet of the wire fits: {limit:?}");
    client.endpoint.send_datagram(theirs, &vec![0; limit.0 as usize]).expect("fits");
    let refused = client.endpoint.send_datagram(theirs, &vec![0; limit.0 as usize + 1]);
    assert!(matches!(refused, Err(Error::DatagramTooLarge { .. })));
    let refused = client.endpoint.send_message(theirs, &vec![0; 64 * 1024 + 1]);
    assert!(matches!(refused, Err(Error::MessageTooLarge { .. })));
    let full = (0..20).find_map(|_| client.endpoint.send_message(theirs, &[0; 60_000]).err());
    let full = full.expect("the backlog is bounded");
    assert!(matches!(full, Error::BacklogFull { .. }) && full.is_retryable());
}
