//! A browser's way into a game: a client that speaks WebSocket, beside one that speaks QUIC; and an
//! operator, whom the game knows nothing of.

#[path = "../examples/patrol/mod.rs"]
mod patrol;

use foveate::io::LinkEvent;
use foveate::io::web::{Observe, Page, WebOptions};
use foveate::node::Client;
use foveate::node::outbox::{Link, Outgoing, RecordingOutbox};
use foveate::prelude::*;
use patrol::{Guard, Patrol, Walker};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use tungstenite::Message;
use tungstenite::protocol::{Role, WebSocketContext};

type Host = ServerHost<Patrol, AllowAll>;

/// Only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// A WebSocket to a path of the server's, and the head of its answer.
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

/// Plays over a WebSocket until somebody has seen the guard and walked; how far.
fn play(server: SocketAddr) -> f32 {
    let (mut stream, mut codec, head) = dial(server, "/play");
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    let mut client = Client::new(Patrol::new().unwrap(), "grace", &[]);
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
            let first = |kind| world.of_kind(KindId(kind)).first().copied();
            saw |= first(1).and_then(|id| world.get::<Guard>(id)).is_some();
            walked = first(0).and_then(|id| world.get::<Walker>(id)).map_or(0.0, |w| w.pos[0]);
        });
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(matches!(client.phase(), ClientPhase::Playing(_)), "{:?}", client.phase());
    assert!(saw, "the guard was not seen");
    walked
}

fn host() -> (Host, SocketAddr) {
    let here = "127.0.0.1:0".parse().unwrap();
    let mut endpoint =
        Endpoint::server(here, Certificate::development(), EndpointOptions::server()).unwrap();
    let page = |path: &str| (path == "/").then(|| Page::fresh("text/html", "a page"));
    let web = WebOptions { observe: Observe::Loopback, ..WebOptions::new(page) };
    let web = endpoint.listen_web(here, web).unwrap();
    let mut host = ServerHost::new(
        Patrol::new().unwrap(),
        ServerSettings::default(),
        endpoint,
        AllowAll::default(),
    );
    host.server.simulation.populate().unwrap();
    (host, web)
}

#[test]
fn a_browser_plays_like_everybody_else() {
    let (mut host, web) = host();
    let player = std::thread::spawn(move || play(web));
    while !player.is_finished() {
        host.step().unwrap();
    }
    assert!(player.join().unwrap() >= 5.0, "the own avatar did not move");
    let world = host.server.simulation.world();
    let walker = world.of_kind(KindId(0)).first().and_then(|id| world.get::<Walker>(*id));
    assert!(walker.unwrap().pos[0] > 0.0, "inputs did not arrive");
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
