//! Links over WebSocket.

use std::io::Write;

use foveate_io::web::WebOptions;
use foveate_io::{CloseCode, EndpointOptions, Error, LinkConditions, Purpose, Reason};
use foveate_node::link_model::{LinkSpec, Loss};
use foveate_wire::{Bytes, Micros};
use tungstenite::Message;

use crate::harness::{Server, Socket, options, pages};

fn joined() -> (Server, Socket) {
    joined_with(options())
}

fn joined_with(options: EndpointOptions) -> (Server, Socket) {
    let mut server = Server::start(WebOptions::new(pages), options);
    let socket = server.upgrade("/play", "Origin: http://localhost:1\r\n").expect("welcome");
    server.until("a link", |server| server.connected.len() == 1);
    (server, socket)
}

fn payloads(messages: Vec<Message>) -> Vec<Vec<u8>> {
    let binary = |message| match message {
        Message::Binary(bytes) => Some(bytes.to_vec()),
        _ => None,
    };
    messages.into_iter().filter_map(binary).collect()
}

#[test]
fn datagrams_and_messages_travel_both_ways() {
    let (mut server, mut socket) = joined();
    assert_eq!(server.connected[0].1, Purpose::Play);
    socket.datagram(b"input");
    socket.message(b"hello");
    socket.message(b"");
    server.until("both", |server| server.datagrams.len() + server.messages.len() == 2);
    assert_eq!((&server.datagrams[0][..], &server.messages[0][..]), (&b"input"[..], &b"hello"[..]));
    let link = server.link();
    server.endpoint.send_datagram(link, b"state").expect("open");
    server.endpoint.send_message(link, &[7; 60_000]).expect("open");
    let mut received = Vec::new();
    server.until("answers", |_| {
        received.extend(payloads(socket.receive()));
        received.len() == 2
    });
    assert_eq!(received[0], b"\0state");
    assert_eq!((received[1][0], received[1].len()), (1, 60_001));
    let meter = server.endpoint.meter(link).expect("open");
    assert_eq!((meter.received.datagrams, meter.received.messages), (1, 1));
    assert_eq!((meter.sent.datagrams, meter.sent.messages), (1, 1));
    // Two frames with their heads, and the answer to the request.
    assert!((60_000..60_400).contains(&meter.sent.bytes), "{meter:?}");
    assert_eq!(server.endpoint.total().sent.bytes, meter.sent.bytes);
}

#[test]
fn the_round_trip_is_measured_by_pings() {
    let (mut server, mut socket) = joined();
    let link = server.link();
    server.until("a measured round trip", |server| {
        server.endpoint.send_datagram(link, b"state").expect("open");
        socket.receive();
        server.endpoint.meter(link).expect("open").round_trip > Micros::ZERO
    });
}

#[test]
fn both_ends_close_with_code_and_reason() {
    let (mut server, mut socket) = joined();
    let link = server.link();
    server.endpoint.close(link, CloseCode(300), "enough");
    let mut goodbye = None;
    server.until("a goodbye", |_| {
        goodbye = goodbye.take().or(socket.goodbye());
        goodbye.is_some()
    });
    let goodbye = goodbye.expect("there");
    assert_eq!((u16::from(goodbye.code), goodbye.reason.as_str()), (4_300, "enough"));
    let said = Reason::Here { code: CloseCode(300), reason: "enough".into() };
    assert_eq!(server.closed, [said]);
    server.until("it is forgotten", |server| server.endpoint.links() == 0);

    let mut socket = server.upgrade("/play", "").expect("welcome");
    let frame = tungstenite::protocol::CloseFrame { code: 4_007.into(), reason: "bye".into() };
    socket.send(Message::Close(Some(frame)));
    server.until("it is over", |server| server.closed.len() == 2);
    let said = Reason::Peer { code: CloseCode(7), reason: "bye".into() };
    assert_eq!(server.closed[1], said);
    drop(socket);
    server.until("it is forgotten", |server| server.endpoint.links() == 0);
}

#[test]
fn a_cut_connection_is_noticed() {
    let (mut server, socket) = joined();
    drop(socket);
    server.until("it is over", |server| !server.closed.is_empty());
    assert_eq!(server.closed, [Reason::Failed("the connection was lost".into())]);
    assert_eq!(server.endpoint.links(), 0);
}

#[test]
fn invalid_frames_end_the_link_and_are_counted() {
    let unmasked = b"\x82\x03\x00ab".to_vec();
    let reserved = b"\xf2\x80\x01\x02\x03\x04".to_vec();
    let garbage: Vec<u8> = (0..300u32).map(|n| (n * 167 % 251) as u8).collect();
    for bytes in [unmasked, reserved, garbage] {
        let (mut server, mut socket) = joined();
        socket.stream.write_all(&bytes).expect("open");
        let mut goodbye = None;
        server.until("a goodbye", |_| {
            goodbye = goodbye.take().or(socket.goodbye());
            goodbye.is_some()
        });
        assert_eq!(u16::from(goodbye.expect("there").code), 4_004);
        assert_eq!(server.endpoint.counters().closed_malformed, 1);
        assert!(matches!(server.closed[0], Reason::Here { code: CloseCode::MALFORMED, .. }));
    }
}

#[test]
fn a_message_beyond_the_limit_ends_the_link_before_its_bytes_arrive() {
    let (mut server, mut socket) = joined();
    let head = [0x82, 0xff, 0, 0, 0, 0, 0, 1, 0, 3, 1, 2, 3, 4];
    socket.stream.write_all(&head).expect("open");
    server.until("it is over", |server| !server.closed.is_empty());
    let said = "a message of 65538 bytes exceeds the limit of 65536";
    let code = CloseCode::MESSAGE_TOO_LARGE;
    assert_eq!(server.closed, [Reason::Here { code, reason: said.into() }]);
    assert_eq!(server.endpoint.counters().closed_oversized, 1);
}

#[test]
fn pages_of_other_origins_are_refused() {
    let mut server = Server::start(WebOptions::new(pages), options());
    for origin in ["http://evil.example", "null", "http://127.0.0.1.evil.example:80"] {
        let refused = server.upgrade("/play", &format!("Origin: {origin}\r\n"));
        assert!(refused.err().expect(origin).starts_with("HTTP/1.1 403 "), "{origin}");
    }
    assert_eq!(server.endpoint.counters().refused_origin, 3);
    assert_eq!(server.endpoint.links(), 0);
    let origins = vec!["https://play.example.org".to_owned()];
    let mut server = Server::start(WebOptions { origins, ..WebOptions::new(pages) }, options());
    assert!(server.upgrade("/play", "Origin: https://play.example.org\r\n").is_ok());
}

#[test]
fn a_plain_request_for_a_link_is_told_to_upgrade() {
    let mut server = Server::start(WebOptions::new(pages), options());
    let answer = server.ask("GET /play HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 426 ") && answer.contains("Upgrade: websocket\r\n"));
}

#[test]
fn limits_of_links_count_for_browsers_too() {
    let mut options = options();
    options.limits.max_links_per_address = 1;
    let (mut server, _socket) = joined_with(options);
    let refused = server.upgrade("/play", "").err().expect("full");
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert_eq!(server.endpoint.counters().refused_per_address, 1);
}

#[test]
fn datagrams_to_a_slow_reader_are_dropped_and_messages_refused() {
    // It is silent all the while, and must not time out.
    let idle_timeout = Micros::from_millis(600_000);
    let (mut server, mut socket) = joined_with(EndpointOptions { idle_timeout, ..options() });
    let link = server.link();
    // The kernel's buffers fill first, and then ours, up to its limit.
    server.until("dropped datagrams", |server| {
        for _ in 0..200 {
            server.endpoint.send_datagram(link, &[5; 1_200]).expect("open");
        }
        server.endpoint.counters().datagrams_late > 1_000
    });
    let limit = options().limits.max_backlog;
    let mut queued = 0;
    let refused = loop {
        match server.endpoint.send_message(link, &[6; 50_000]) {
            Ok(()) => queued += 1,
            Err(error) => break error,
        }
        server.step();
    };
    assert!(queued > 0);
    assert!(
        matches!(refused, Error::BacklogFull { limit: most, .. } if most == limit),
        "{refused}"
    );
    // A client that reads again receives everything that was queued, in order, and later datagrams.
    let mut received = Vec::new();
    server.until("the messages", |_| {
        received.extend(payloads(socket.receive()));
        received.iter().filter(|frame| frame[0] == 1).count() == queued
    });
    let late = server.endpoint.counters().datagrams_late;
    received.clear();
    server.until("a datagram in time", |server| {
        server.endpoint.send_datagram(link, b"now").expect("open");
        received.extend(payloads(socket.receive()));
        received.iter().any(|frame| frame == b"\0now")
    });
    assert!(server.endpoint.counters().datagrams_late >= late);
    assert!(server.closed.is_empty(), "{:?}", server.closed);
}

#[test]
fn too_large_a_datagram_is_refused() {
    let (mut server, _socket) = joined();
    let link = server.link();
    let limit = server.endpoint.max_datagram(link).expect("open");
    assert_eq!(limit, Bytes(1_280));
    let refused = server.endpoint.send_datagram(link, &[0; 1_281]);
    assert!(matches!(refused, Err(Error::DatagramTooLarge { .. })));
}

#[test]
fn a_flood_ends_the_link() {
    let (mut server, mut socket) = joined();
    server.until("it is over", |server| {
        for _ in 0..200 {
            // What the closed socket does not accept does not matter.
            let _ = socket.stream.write_all(&[0x82, 0x82, 0, 0, 0, 0, 0, 1]);
        }
        !server.closed.is_empty()
    });
    assert!(matches!(server.closed[0], Reason::Here { code: CloseCode::FLOOD, .. }));
    assert_eq!(server.endpoint.counters().closed_flood, 1);
    assert!(server.endpoint.counters().datagrams_over_rate > 0);
}

#[test]
fn conditions_lose_datagrams_and_keep_messages_in_order() {
    let bad = LinkSpec {
        loss: Loss::Bernoulli(0.5),
        ..LinkSpec::jittered(Micros::from_millis(5), Micros::from_millis(20))
    };
    let (mut server, mut socket) = joined();
    let link = server.link();
    assert!(
        server.endpoint.set_conditions(link, Some(LinkConditions { received: bad, sent: bad }))
    );
    for n in 0..100 {
        server.endpoint.send_message(link, &[n]).expect("open");
        server.endpoint.send_datagram(link, &[n]).expect("open");
        socket.message(&[n]);
        socket.datagram(&[n]);
    }
    let mut received = Vec::new();
    server.until("all messages", |server| {
        received.extend(payloads(socket.receive()));
        let messages = received.iter().filter(|frame| frame[0] == 1).count();
        messages == 100 && server.messages.len() == 100
    });
    let down: Vec<u8> = received.iter().filter(|frame| frame[0] == 1).map(|f| f[1]).collect();
    let up: Vec<u8> = server.messages.iter().map(|message| message[0]).collect();
    assert!(down.iter().copied().eq(0..100) && up.iter().copied().eq(0..100));
    // Losses are counted at once; other datagrams may still be under way.
    let lost = server.endpoint.counters().conditioned_away;
    assert!((60..140).contains(&lost), "{lost} of 200 datagrams lost");
    assert!(server.endpoint.set_conditions(link, None));
    server.datagrams.clear();
    socket.datagram(b"clear");
    server.until("a datagram", |server| server.datagrams.iter().any(|d| d == b"clear"));
}

#[test]
fn a_shutdown_delivers_messages_and_closes() {
    let (mut server, mut socket) = joined();
    let link = server.link();
    server.endpoint.send_message(link, b"last words").expect("open");
    let client = std::thread::spawn(move || {
        socket.stream.set_nonblocking(false).expect("possible");
        let messages = socket.receive();
        drop(socket);
        messages
    });
    let left = server.endpoint.shutdown(Micros::from_millis(120_000), &mut Vec::new());
    assert_eq!(left.expect("sockets work"), 0);
    let messages = client.join().expect("no panic");
    assert_eq!(messages[0], Message::binary(&b"\x01last words"[..]));
    let Some(Message::Close(Some(frame))) = messages.last() else { panic!("{messages:?}") };
    assert_eq!((u16::from(frame.code), frame.reason.as_str()), (4_001, "shutting down"));
}
