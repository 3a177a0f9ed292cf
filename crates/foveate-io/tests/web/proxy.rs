//! Players behind a proxy have their own addresses if the operator trusts the proxy.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use foveate_io::web::{Observe, WebOptions};
use foveate_io::{EndpointOptions, Limits};

use crate::harness::{Server, options, pages};

const TWO_EACH: u32 = 2;

fn server(trusted: &[&str]) -> Server {
    let limits = Limits { max_links_per_address: TWO_EACH, ..options().limits };
    let web = WebOptions {
        trusted_proxies: trusted.iter().map(|text| text.parse().expect("a range")).collect(),
        observe: Observe::Loopback,
        ..WebOptions::new(pages)
    };
    Server::start(web, EndpointOptions { limits, ..options() })
}

/// A proxy for one connection: sends the header of PROXY protocol version 2 before what it relays.
fn proxy_v2(to: SocketAddr, client: [u8; 4]) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let here = listener.local_addr().expect("bound");
    let run = move || {
        let (mut front, _) = listener.accept().expect("a client");
        let mut back = TcpStream::connect(to).expect("it listens");
        let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c".to_vec();
        header.extend(client);
        header.extend([127, 0, 0, 1, 0x10, 0, 0, 80]);
        back.write_all(&header).expect("room");
        for stream in [&front, &back] {
            stream.set_read_timeout(Some(Duration::from_millis(1))).expect("above zero");
        }
        while pass(&mut front, &mut back) && pass(&mut back, &mut front) {}
    };
    (here, std::thread::spawn(run))
}

/// Relays received bytes; false at the end.
fn pass(from: &mut TcpStream, to: &mut TcpStream) -> bool {
    let mut bytes = [0; 4_096];
    match from.read(&mut bytes) {
        Ok(0) => false,
        Ok(count) => to.write_all(&bytes[..count]).is_ok(),
        Err(cause) => matches!(cause.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

#[test]
fn players_behind_a_trusted_proxy_have_their_own_addresses() {
    let mut server = server(&["127.0.0.1"]);
    let mut there = Vec::new();
    for last in 1..=5 {
        for _ in 0..TWO_EACH {
            // The client's own claim precedes what the proxy adds.
            let named = format!("X-Forwarded-For: 198.51.100.1, 203.0.113.{last}\r\n");
            there.push(server.upgrade("/play", &named).expect("two from each address"));
        }
    }
    let third = server.upgrade("/play", "X-Forwarded-For: 203.0.113.1\r\n");
    assert!(third.err().expect("enough").starts_with("HTTP/1.1 503 "));
    assert_eq!(server.endpoint.links(), there.len());
    let silent = server.upgrade("/play", "").err().expect("no client is stated");
    assert!(silent.starts_with("HTTP/1.1 400 "), "{silent}");
    let observer = server.upgrade("/observe", "X-Forwarded-For: 203.0.113.9\r\n").err();
    assert!(observer.expect("not on this machine").starts_with("HTTP/1.1 403 "));
}

#[test]
fn addresses_stated_by_others_are_ignored() {
    let mut server = server(&["127.0.0.9"]);
    let mut play = |last| {
        let named = format!("X-Forwarded-For: 203.0.113.{last}\r\n");
        server.upgrade("/play", &named)
    };
    let there: Vec<_> = (1..=TWO_EACH).map(|last| play(last).expect("two")).collect();
    assert!(play(9).err().expect("enough").starts_with("HTTP/1.1 503 "));
    drop(there);
    let preamble = "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\0GET / HTTP/1.1\r\n\r\n";
    assert!(server.ask(preamble).starts_with("HTTP/1.1 400 "));
}

#[test]
fn the_proxy_protocol_names_players() {
    let mut server = server(&["127.0.0.1"]);
    let mut there = Vec::new();
    for last in 1..=3 {
        for _ in 0..TWO_EACH {
            let (proxy, thread) = proxy_v2(server.web, [203, 0, 113, last]);
            let socket = server.upgrade_at(proxy, "/play", "").expect("two from each address");
            there.push((socket, thread));
        }
    }
    let (proxy, _) = proxy_v2(server.web, [203, 0, 113, 1]);
    let third = server.upgrade_at(proxy, "/play", "").err().expect("enough");
    assert!(third.starts_with("HTTP/1.1 503 "), "{third}");
    assert_eq!(server.endpoint.links(), 6);
    for (socket, thread) in there {
        drop(socket);
        thread.join().expect("the proxy ends with its client");
    }
}
