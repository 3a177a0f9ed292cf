//! What exceeds a limit is refused and counted, and affects no other link.

use foveate_io::{CloseCode, EndpointOptions, Limits, LinkId, RateLimit, Reason};
use foveate_wire::Bytes;

use crate::harness::{Party, pair, roomy, until};

fn limited(change: impl FnOnce(&mut Limits)) -> EndpointOptions {
    let mut options = roomy();
    change(&mut options.limits);
    options
}

/// Connects `count` clients and waits until each was accepted or refused.
fn connect_all(server: &mut Party, client: &mut Party, count: usize) {
    (0..count).for_each(|_| _ = client.connect(server));
    until(server, client, "an answer for all", |_, client| {
        client.connected.len() + client.closed.len() == count
    });
}

#[test]
fn a_full_server_refuses() {
    let mut server = Party::server(limited(|limits| limits.max_links = 3));
    let mut client = Party::client(&server, EndpointOptions::client());
    connect_all(&mut server, &mut client, 5);
    assert_eq!(client.connected.len(), 3);
    assert!(client.closed.iter().all(|(_, reason)| *reason == Reason::Refused));
    assert_eq!(server.endpoint.counters().refused_full, 2);
}

#[test]
fn one_address_gets_its_share_of_links() {
    let mut server = Party::server(limited(|limits| limits.max_links_per_address = 2));
    let mut client = Party::client(&server, EndpointOptions::client());
    (0..5).for_each(|_| _ = client.connect(&server));
    // A client may complete its handshake before its address is found to have enough links.
    until(&mut server, &mut client, "the end of the others", |server, client| {
        server.connected.len() == 2 && client.closed.len() == 3 && server.endpoint.links() == 2
    });
    assert_eq!(server.endpoint.counters().refused_per_address, 3);

    let stays = |link: &&LinkId| client.reason(**link).is_none();
    let gone = *client.connected.iter().find(stays).expect("two of them stay");
    client.endpoint.close(gone, CloseCode::DONE, "bye");
    until(&mut server, &mut client, "room", |server, _| server.endpoint.links() == 1);
    client.connect(&server);
    until(&mut server, &mut client, "the next one", |server, _| server.connected.len() == 3);
}

#[test]
fn handshakes_of_one_address_are_limited_to_a_rate() {
    let rate = RateLimit { per_second: 0, burst: 4 };
    let mut server = Party::server(limited(|limits| limits.handshakes_per_address = rate));
    let mut client = Party::client(&server, EndpointOptions::client());
    (0..20).for_each(|_| _ = client.connect(&server));
    until(&mut server, &mut client, "the end of the others", |server, client| {
        server.connected.len() == 4 && client.closed.len() == 16
    });
    let counters = server.endpoint.counters();
    assert!(counters.retried >= 16, "{counters:?}");
    assert!(counters.refused_rate >= 16, "{counters:?}");
}

#[test]
fn a_busy_server_asks_for_proof_of_address() {
    let mut server = Party::server(limited(|limits| limits.retry_above = 0));
    let mut client = Party::client(&server, EndpointOptions::client());
    connect_all(&mut server, &mut client, 10);
    assert_eq!(client.connected.len(), 10);
    assert!(server.endpoint.counters().retried >= 10);
}

#[test]
fn a_flood_is_dropped_and_counted_while_others_go_on() {
    let options = limited(|limits| {
        limits.datagrams = RateLimit { per_second: 1, burst: 50 };
        limits.flood_factor = 100;
    });
    let mut server = Party::server(options);
    let mut client = Party::client(&server, EndpointOptions::client());
    connect_all(&mut server, &mut client, 2);
    let (flooder, quiet) = (client.connected[0], client.connected[1]);
    for _ in 0..60 {
        (0..10).for_each(|_| _ = client.endpoint.send_datagram(flooder, b"flood"));
        client.step();
        server.step();
    }
    client.endpoint.send_datagram(quiet, b"quiet").expect("connected");
    until(&mut server, &mut client, "the quiet one", |server, _| {
        server.datagrams.iter().any(|(_, bytes)| bytes == b"quiet")
    });
    let flood = server.datagrams.iter().filter(|(_, bytes)| bytes == b"flood").count();
    assert!((40..100).contains(&flood), "{flood} of 600 passed");
    assert!(server.endpoint.counters().datagrams_over_rate > 0);
    assert!(server.closed.is_empty() && client.closed.is_empty());
}

#[test]
fn a_flood_far_beyond_the_rate_closes_the_link() {
    let options = limited(|limits| {
        limits.datagrams = RateLimit { per_second: 1, burst: 20 };
        limits.flood_factor = 2;
    });
    let (mut server, mut client, ours, theirs) = pair(options, EndpointOptions::client());
    until(&mut server, &mut client, "the end of the flood", |server, client| {
        _ = client.endpoint.send_datagram(theirs, b"flood");
        client.endpoint.flush();
        !server.closed.is_empty() && !client.closed.is_empty()
    });
    assert!(matches!(server.reason(ours), Some(Reason::Here { code: CloseCode::FLOOD, .. })));
    assert!(matches!(client.reason(theirs), Some(Reason::Peer { code: CloseCode::FLOOD, .. })));
    assert_eq!(server.endpoint.counters().closed_flood, 1);
}

#[test]
fn a_flood_of_short_messages_closes_the_link() {
    let options = limited(|limits| limits.datagrams = RateLimit { per_second: 1, burst: 40 });
    let (mut server, mut client, ours, theirs) = pair(options, EndpointOptions::client());
    (0..40).for_each(|_| client.endpoint.send_message(theirs, b"who").expect("connected"));
    until(&mut server, &mut client, "all messages", |server, _| server.messages.len() == 40);
    assert!(server.closed.is_empty(), "so many are allowed");
    until(&mut server, &mut client, "the end of the flood", |server, client| {
        _ = client.endpoint.send_message(theirs, b"who");
        !server.closed.is_empty()
    });
    assert!(matches!(server.reason(ours), Some(Reason::Here { code: CloseCode::FLOOD, .. })));
}

#[test]
fn an_oversized_message_closes_the_link_with_a_clear_reason() {
    let small = limited(|limits| limits.max_message = Bytes(1_000));
    let (mut server, mut client, ours, theirs) = pair(small, EndpointOptions::client());
    client.endpoint.send_message(theirs, &[1; 1_000]).expect("connected");
    client.endpoint.send_message(theirs, &[2; 1_001]).expect("within the client's own limit");
    until(&mut server, &mut client, "both ends closed", |server, client| {
        !server.closed.is_empty() && !client.closed.is_empty()
    });
    assert_eq!(server.messages, [(ours, vec![1; 1_000])]);
    let reason = "a message of 1001 bytes exceeds the limit of 1000".to_owned();
    let told = Reason::Peer { code: CloseCode::MESSAGE_TOO_LARGE, reason };
    assert_eq!(client.reason(theirs), Some(&told));
    assert_eq!(server.endpoint.counters().closed_oversized, 1);
}

#[test]
fn links_that_do_not_join_give_way_to_newcomers() {
    let mut server = Party::server(limited(|limits| {
        limits.max_links = 64;
        limits.newcomers = 32;
        limits.max_links_per_address = 16;
    }));
    let mut player = Party::client(&server, EndpointOptions::client());
    player.connect(&server);
    until(&mut server, &mut player, "a link", |server, _| !server.connected.is_empty());
    let joined = server.connected[0];
    server.endpoint.send_datagram(joined, b"state").expect("connected");
    until(&mut server, &mut player, "the player is in", |_, player| !player.datagrams.is_empty());
    // More links than there are places, from four addresses; none of them joins.
    let mut squatters: Vec<Party> =
        (2..6).map(|last| Party::client_at([127, 0, 0, last], &server)).collect();
    for squatter in &mut squatters {
        (0..16).for_each(|_| _ = squatter.connect(&server));
        until(&mut server, squatter, "all tried", |_, squatter| {
            squatter.connected.len() + squatter.closed.len() >= 16
        });
    }
    // The replaced links are being closed; then newcomers join, one after the other.
    for last in 10..14 {
        let mut newcomer = Party::client_at([127, 0, 0, last], &server);
        until(&mut server, &mut newcomer, "a free place", |server, _| {
            squatters.iter_mut().for_each(Party::step);
            server.endpoint.links() < 48
        });
        newcomer.connect(&server);
        until(&mut server, &mut newcomer, "an answer", |_, newcomer| {
            !newcomer.connected.is_empty() || !newcomer.closed.is_empty()
        });
        assert_eq!(newcomer.connected.len(), 1, "{:?}", newcomer.closed);
    }
    let gave_way = |(_, reason): &(LinkId, Reason)| {
        matches!(reason, Reason::Here { code: CloseCode::CROWDED, .. })
    };
    assert!(server.closed.iter().any(gave_way));
    let players: Vec<_> = server.closed.iter().filter(|(link, _)| *link == joined).collect();
    assert!(!players.iter().any(|closed| gave_way(closed)), "players do not give way");
    assert!(server.endpoint.counters().closed_idle > 0);
}
