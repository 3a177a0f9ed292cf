//! Links over WebTransport.

use std::time::{Duration, Instant};

use foveate_io::web::WebOptions;
use foveate_io::{CloseCode, Endpoint, EndpointOptions, LinkEvent, Purpose, Reason, Trust};
use foveate_wire::Micros;
use quinn_proto::{ConnectionError, Dir, StreamId};

use crate::browser::{Browser, control, part, request};
use crate::harness::{Server, options, pages};

const CONNECT: u8 = 15;
const HERE: &str = "http://localhost:1";
/// The type of the capsule that closes a session.
const CLOSE: u16 = 0x2843;

fn server() -> Server {
    Server::start(WebOptions::new(pages), options())
}

fn both(
    server: &mut Server,
    browser: &mut Browser,
    what: &str,
    mut done: impl FnMut(&mut Server, &mut Browser) -> bool,
) {
    server.until(what, |server| {
        browser.step();
        done(server, browser)
    });
}

/// A browser after its handshake.
fn arrived(server: &mut Server) -> Browser {
    let mut browser = Browser::connect(server.endpoint.address().expect("bound"));
    both(server, &mut browser, "a handshake", |_, browser| browser.connected);
    browser
}

/// A browser in a session, with the stream of its request.
fn joined(server: &mut Server) -> (Browser, StreamId) {
    let mut browser = arrived(server);
    browser.open(Dir::Uni, &control());
    let session = browser.open(Dir::Bi, &request(CONNECT, "/play", HERE));
    let before = server.connected.len();
    both(server, &mut browser, "a link", |server, _| server.connected.len() > before);
    let mut heard = Vec::new();
    both(server, &mut browser, "an answer", |_, browser| {
        heard.extend(browser.read(session));
        heard.windows(3).any(|three| three == b"200")
    });
    (browser, session)
}

/// The head of a stream of messages.
fn messages(session: StreamId) -> Vec<u8> {
    let number = quinn_proto::VarInt::from(session).into_inner() as u8;
    vec![0x40, 0x41, number]
}

#[test]
fn datagrams_and_messages_travel_both_ways() {
    let mut server = server();
    let (mut browser, session) = joined(&mut server);
    assert_eq!(server.connected[0].1, Purpose::Play);
    let stream = browser.open(Dir::Bi, &messages(session));
    browser.write(stream, b"\0\0\0\0\x05\0\0\0hello\x01\0");
    browser.datagram(b"\0input");
    // A datagram of another session, which does not exist.
    browser.datagram(b"\x01stray");
    both(&mut server, &mut browser, "both", |server, _| {
        server.datagrams.len() + server.messages.len() == 2
    });
    assert_eq!((&server.datagrams[0][..], &server.messages[0][..]), (&b"input"[..], &b"hello"[..]));
    browser.write(stream, b"\0\0!");
    both(&mut server, &mut browser, "the rest", |server, _| server.messages.len() == 2);
    let link = server.link();
    server.endpoint.send_datagram(link, b"state").expect("open");
    server.endpoint.send_message(link, &[7; 40_000]).expect("open");
    let mut heard = Vec::new();
    both(&mut server, &mut browser, "answers", |_, browser| {
        heard.extend(browser.read(stream));
        heard.len() == 40_004 && browser.datagrams.len() == 1
    });
    assert_eq!(browser.datagrams[0], b"\0state");
    assert_eq!(heard[..5], [0x40, 0x9c, 0, 0, 7]);
    let meter = server.endpoint.meter(link).expect("open");
    assert_eq!((meter.received.datagrams, meter.received.messages), (1, 2));
    assert!(meter.sent.bytes > 40_000 && meter.round_trip > Micros::ZERO, "{meter:?}");
    let limit = server.endpoint.max_datagram(link).expect("open").0;
    assert!(server.endpoint.send_datagram(link, &vec![0; limit as usize]).is_ok());
    assert!(server.endpoint.send_datagram(link, &vec![0; limit as usize + 1]).is_err());
}

#[test]
fn the_stream_of_messages_may_overtake_the_request() {
    let mut server = server();
    let mut browser = arrived(&mut server);
    let session = browser.conn.streams().open(Dir::Bi).expect("room for a stream");
    let stream = browser.open(Dir::Bi, &messages(session));
    browser.write(stream, b"\x05\0\0\0early");
    browser.datagram(b"\0early");
    for _ in 0..50 {
        browser.step();
        server.step();
    }
    assert!(server.connected.is_empty() && server.datagrams.is_empty());
    browser.write(session, &request(CONNECT, "/play?name=ada", HERE));
    browser.open(Dir::Uni, &control());
    both(&mut server, &mut browser, "the message", |server, _| !server.messages.is_empty());
    assert_eq!(server.messages, [b"early"]);
}

#[test]
fn native_clients_share_the_port() {
    let mut server = server();
    let (_browser, _) = joined(&mut server);
    let here = "127.0.0.1:0".parse().expect("an address");
    let trust = Trust::Pinned(server.endpoint.certificate_hash().into_iter().collect());
    let mut native =
        Endpoint::client(here, &trust, EndpointOptions::client()).expect("a free port");
    let link = native.connect(server.endpoint.address().expect("bound"), "localhost");
    let (link, mut events) = (link.expect("begun"), Vec::new());
    server.until("a native link", |server| {
        native.wait(Instant::now() + Duration::from_millis(1), &mut events).expect("sockets work");
        let open = events.drain(..).any(|event| matches!(event, LinkEvent::Connected { .. }));
        open && native.send_datagram(link, b"native").is_ok() || server.connected.len() > 1
    });
    server.until("its datagram", |server| {
        native.wait(Instant::now() + Duration::from_millis(1), &mut events).expect("sockets work");
        let _ = native.send_datagram(link, b"native");
        !server.datagrams.is_empty()
    });
    assert_eq!(server.datagrams[0], b"native");
}

#[test]
fn both_ends_close_with_code_and_reason() {
    let mut server = server();
    let (mut browser, session) = joined(&mut server);
    let link = server.link();
    server.endpoint.close(link, CloseCode(300), "enough");
    assert!(server.endpoint.send_message(link, b"late").is_err());
    let mut heard = Vec::new();
    both(&mut server, &mut browser, "a goodbye", |_, browser| {
        heard.extend(browser.read(session));
        heard.ends_with(b"enough")
    });
    assert_eq!(heard[..8], [0, 13, 0x68, 0x43, 10, 0, 0, 1], "a capsule in a frame of data");
    // The connection ends a moment later by itself.
    both(&mut server, &mut browser, "the end", |server, browser| {
        browser.lost.is_some() && server.endpoint.links() == 0
    });
    let said = Reason::Here { code: CloseCode(300), reason: "enough".into() };
    assert_eq!(server.closed, [said]);

    let (mut browser, session) = joined(&mut server);
    let goodbye = part(CLOSE, b"\0\0\0\x07bye");
    // An unknown capsule first, and all of it in two pieces.
    browser.write(session, &part(0, &part(0x99, b"?")));
    browser.write(session, &part(0, &goodbye[..5]));
    browser.write(session, &part(0, &goodbye[5..]));
    both(&mut server, &mut browser, "it is over", |server, _| server.closed.len() == 2);
    assert_eq!(server.closed[1], Reason::Peer { code: CloseCode(7), reason: "bye".into() });
    both(&mut server, &mut browser, "it is forgotten", |server, _| server.endpoint.links() == 0);

    let (mut browser, session) = joined(&mut server);
    browser.conn.send_stream(session).finish().expect("open");
    both(&mut server, &mut browser, "it is over", |server, _| server.closed.len() == 3);
    let said = Reason::Peer { code: CloseCode::DONE, reason: String::new() };
    assert_eq!(server.closed[2], said, "without a capsule all is well");
}

#[test]
fn pages_of_other_origins_and_other_paths_are_turned_away() {
    let mut server = server();
    for (path, origin, status) in
        [("/play", "http://evil.example", "403"), ("/play", "null", "403"), ("/else", HERE, "404")]
    {
        let mut browser = arrived(&mut server);
        browser.open(Dir::Uni, &control());
        let session = browser.open(Dir::Bi, &request(CONNECT, path, origin));
        let mut heard = Vec::new();
        both(&mut server, &mut browser, "an answer", |_, browser| {
            heard.extend(browser.read(session));
            heard.windows(3).any(|three| three == status.as_bytes())
        });
        both(&mut server, &mut browser, "the end", |server, browser| {
            browser.lost.is_some() && server.endpoint.links() == 0
        });
    }
    assert_eq!(server.endpoint.counters().refused_origin, 2);
    assert!(server.connected.is_empty() && server.closed.is_empty());
}

/// Checks that a violation closes the connection with a code of HTTP/3, and is counted.
fn refused(what: &str, say: impl FnOnce(&mut Browser)) {
    let mut server = server();
    let mut browser = arrived(&mut server);
    say(&mut browser);
    both(&mut server, &mut browser, what, |_, browser| browser.lost.is_some());
    let Some(ConnectionError::ApplicationClosed(close)) = &browser.lost else {
        panic!("{what}: {:?}", browser.lost);
    };
    assert_eq!(close.error_code.into_inner(), 0x101, "{what}");
    assert_eq!(server.endpoint.counters().closed_malformed, 1, "{what}");
    assert!(server.connected.is_empty(), "{what}");
}

#[test]
fn violations_of_http_3_are_rejected_and_counted() {
    for (what, dir, bytes) in [
        ("no settings", Dir::Uni, vec![0, 1, 0]),
        ("a push", Dir::Uni, vec![1]),
        ("no session", Dir::Bi, request(17, "/play", HERE)),
        ("data before headers", Dir::Bi, part(0, b"data")),
        ("a dynamic table", Dir::Bi, part(1, &[2, 0, 0x80])),
        ("headers beyond the limit", Dir::Bi, vec![1, 0x80, 0, 0x20, 1]),
    ] {
        refused(what, |browser| {
            browser.open(dir, &bytes);
        });
    }
    refused("two control streams", |browser| {
        browser.open(Dir::Uni, &control());
        browser.open(Dir::Uni, &control());
    });
    refused("a control stream that ends", |browser| {
        let stream = browser.open(Dir::Uni, &control());
        browser.conn.send_stream(stream).finish().expect("open");
    });
}

#[test]
fn further_requests_and_streams_are_turned_away_and_the_link_goes_on() {
    let mut server = server();
    let (mut browser, session) = joined(&mut server);
    let stream = browser.open(Dir::Bi, &messages(session));
    browser.write(stream, b"\x01\0\0\0a");
    browser.open(Dir::Bi, &request(CONNECT, "/play", HERE));
    browser.open(Dir::Bi, &messages(session));
    for kind in [0x02, 0x03, 0x21, 0x54] {
        browser.open(Dir::Uni, &[kind, 1, 2, 3]);
    }
    both(&mut server, &mut browser, "a message", |server, _| server.messages.len() == 1);
    browser.write(stream, b"\x01\0\0\0b");
    both(&mut server, &mut browser, "another", |server, _| server.messages.len() == 2);
    assert_eq!((server.connected.len(), server.closed.len()), (1, 0));
}

#[test]
fn a_browser_that_requests_no_session_is_disconnected() {
    let mut server = server();
    let mut browser = arrived(&mut server);
    let mut beat = Instant::now();
    both(&mut server, &mut browser, "the end", |server, browser| {
        // It keeps the connection alive without any request.
        if beat.elapsed() > Duration::from_millis(500) {
            beat = Instant::now();
            browser.conn.ping();
        }
        browser.lost.is_some() && server.endpoint.links() == 0
    });
    assert_eq!(server.endpoint.counters().handshakes_failed, 1);
    assert!(server.closed.is_empty(), "no event was reported");
}

#[test]
fn random_bytes_on_every_stream_do_no_harm() {
    let mut server = server();
    let (mut steady, session) = joined(&mut server);
    let stream = steady.open(Dir::Bi, &messages(session));
    let mut random = fastrand::Rng::with_seed(77);
    for round in 0..60 {
        let mut browser = match round % 2 {
            0 => arrived(&mut server),
            _ => joined(&mut server).0,
        };
        for _ in 0..12 {
            let mut bytes: Vec<u8> = (0..random.usize(1..300)).map(|_| random.u8(..)).collect();
            bytes[0] = [0, 1, 2, 3, 4, 0x41, random.u8(..)][random.usize(0..7)];
            let dir = if random.bool() { Dir::Bi } else { Dir::Uni };
            if let Some(stream) = browser.conn.streams().open(dir) {
                let _ = browser.conn.send_stream(stream).write(&bytes);
            }
            let _ = browser.conn.datagrams().send(bytes.into(), true);
            browser.step();
            server.step();
        }
        // It acknowledges what it receives, and is not considered gone.
        steady.step();
    }
    steady.write(stream, b"\x05\0\0\0still");
    both(&mut server, &mut steady, "a message", |server, _| {
        server.messages.iter().any(|message| message == b"still")
    });
    assert!(server.endpoint.counters().closed_malformed > 0);
}
