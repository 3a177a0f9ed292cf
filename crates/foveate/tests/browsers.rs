//! Browsers in a game: a client that speaks WebSocket, next to one that speaks QUIC; and an
//! operator, of which the game knows nothing.

#[path = "../examples/patrol/mod.rs"]
mod patrol;

use foveate::io::LinkEvent;
use foveate::node;
use foveate::node::outbox::{Link, Outgoing, RecordingOutbox};
use foveate::prelude::*;
use patrol::{Guard, Patrol, Walker};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tungstenite::Message;
use tungstenite::protocol::{Role, WebSocketContext};

type Host = Server<Patrol>;

/// Only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Opens a WebSocket to a path of the server; also returns the head of the server's answer.
fn dial(server: SocketAddr, path: &str) -> (TcpStream, WebSocketContext, String) {
    let mut stream = TcpStream::connect(server).unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {server}\r\nOrigin: http://{server}\r\n\
         Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    stream.set_nonblocking(true).unwrap();
    let codec = WebSocketContext::new(Role::Client, None);
    (stream, codec, String::from_utf8(head).unwrap())
}

/// Plays over a WebSocket until the player has seen the guard and walked; returns how far it
/// walked.
fn play(server: SocketAddr) -> f32 {
    let (mut stream, mut codec, head) = dial(server, "/play");
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let mut client = node::Client::new(Patrol::new().unwrap(), "grace", &[]);
    let mut out = RecordingOutbox::default();
    client.connected(Link(1), &mut out);
    let begun = Instant::now();
    let (mut walked, mut saw, mut ticks) = (0.0, false, 0);
    while (walked < 5.0 || !saw) && begun.elapsed() < PATIENCE {
        let now = Micros(begun.elapsed().as_micros() as u64);
        while let Ok(message) = codec.read(&mut stream) {
            let Message::Binary(bytes) = message else { continue };
            match bytes[0] {
                0 => client.datagram(&bytes[1..], now),
                _ => client.message(&bytes[1..]),
            }
        }
        if begun.elapsed() > Duration::from_millis(50) * ticks {
            ticks += 1;
            client.tick(now, &mut out, |_, _| [2, 0]);
        }
        for (_, letter) in out.0.drain(..) {
            let (kind, bytes) = match letter {
                Outgoing::Datagram(bytes) => (0, bytes),
                Outgoing::Message(bytes) => (1, bytes),
                Outgoing::Close(why) => panic!("refused: {why:?}"),
            };
            let frame = Message::binary([&[kind], &bytes[..]].concat());
            codec.write(&mut stream, frame).unwrap();
            codec.flush(&mut stream).unwrap();
        }
        client.see(now, |world| {
            saw |= world.iter::<Guard>().next().is_some();
            walked = world.iter::<Walker>().next().map_or(0.0, |(_, walker)| walker.pos[0]);
        });
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(matches!(client.phase(), ClientPhase::Playing(_)), "{:?}", client.phase());
    assert!(saw, "the guard was not seen");
    walked
}

fn host() -> (Host, SocketAddr) {
    let here = "127.0.0.1:0".parse().unwrap();
    let page = |path: &str| (path == "/").then(|| Page::fresh("text/html", "a page"));
    let web = WebOptions { observe: Observe::Loopback, ..WebOptions::new(page) };
    let mut host = Server::bind(Patrol::new().unwrap(), here).unwrap();
    let web = host.listen_web(here, web).unwrap();
    (host, web)
}

#[test]
fn the_schema_is_served_beside_the_pages() {
    let (mut host, web) = host();
    let visitor = std::thread::spawn(move || {
        ["/schema.txt", "/"].map(|path| {
            let mut stream = TcpStream::connect(web).unwrap();
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: {web}\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer.split_once("\r\n\r\n").unwrap().1.to_owned()
        })
    });
    while !visitor.is_finished() {
        host.poll_step().unwrap();
    }
    let [schema, page] = visitor.join().unwrap();
    assert_eq!(schema, Patrol::new().unwrap().schema().describe());
    assert!(schema.contains("guard"), "{schema}");
    assert_eq!(page, "a page");
}

#[test]
fn a_browser_plays_like_any_other_client() {
    let (mut host, web) = host();
    let player = std::thread::spawn(move || play(web));
    while !player.is_finished() {
        host.step().unwrap();
    }
    assert!(player.join().unwrap() >= 5.0, "the own avatar did not move");
    let (_, walker) = host.world().iter::<Walker>().next().unwrap();
    assert!(walker.pos[0] > 0.0, "inputs did not arrive");
    assert!(host.observers().next().is_none());
    let total = host.endpoint.total();
    assert!(total.received.datagrams > 5 && total.sent.datagrams > 5, "{total:?}");
}

#[test]
fn the_game_knows_nothing_of_an_operator() {
    let (mut host, web) = host();
    let operator = std::thread::spawn(move || {
        let (mut stream, mut codec, _) = dial(web, "/observe");
        stream.set_nonblocking(false).unwrap();
        codec.write(&mut stream, Message::text("who plays?")).unwrap();
        codec.flush(&mut stream).unwrap();
        let answer = codec.read(&mut stream).unwrap();
        codec.close(&mut stream, None).unwrap();
        answer
    });
    let (mut asked, deadline) = (Vec::new(), Instant::now() + PATIENCE);
    while !matches!(asked.last(), Some(LinkEvent::Closed { .. })) && Instant::now() < deadline {
        host.step().unwrap();
        let news: Vec<LinkEvent> = host.observers().collect();
        for event in &news {
            if let LinkEvent::Message { link, bytes } = event {
                assert_eq!(&bytes[..], b"who plays?");
                host.endpoint.send_message(*link, b"nobody").unwrap();
            }
        }
        asked.extend(news);
    }
    assert!(matches!(
        asked.as_slice(),
        [LinkEvent::Connected { .. }, LinkEvent::Message { .. }, _]
    ));
    assert_eq!(operator.join().unwrap(), Message::text("nobody"));
    let refused: u64 = host.server.refusals().sessions.values().sum();
    assert_eq!((host.server.players(), refused), (0, 0));
}
