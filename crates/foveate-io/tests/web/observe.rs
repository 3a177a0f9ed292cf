//! Operators' links.

use foveate_io::web::{MAX_ASKED, MAX_OBSERVERS, Observe, OperatorToken, WebOptions};
use foveate_io::{Error, MAX_OBSERVED, Purpose};
use tungstenite::Message;

use crate::harness::{Server, options, pages};

const TOKEN: &str = "correct-horse-battery";

fn server(observe: Observe) -> Server {
    Server::start(WebOptions { observe, ..WebOptions::new(pages) }, options())
}

fn guarded() -> Server {
    server(Observe::Token(OperatorToken::new(TOKEN).expect("fits")))
}

#[test]
fn no_operator_observes_unless_allowed() {
    let mut server = server(Observe::Off);
    let refused = server.upgrade("/observe", "").err().expect("refused");
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    assert_eq!(server.endpoint.counters().refused_observers, 1);
}

#[test]
fn only_the_token_grants_access() {
    let mut server = guarded();
    for (path, headers, status) in [
        ("/observe", "", 401),
        ("/observe?token=", "", 403),
        ("/observe?token=correct-horse-batterz", "", 403),
        ("/observe", "Authorization: Bearer wrong\r\n", 403),
        ("/observe", "Authorization: Basic correct-horse-battery\r\n", 401),
        ("/observe?token=correct-horse-battery", "Origin: http://evil.example\r\n", 403),
    ] {
        let refused = server.upgrade(path, headers).err().expect(path);
        assert!(refused.starts_with(&format!("HTTP/1.1 {status} ")), "{path} {headers}: {refused}");
    }
    assert_eq!(server.endpoint.counters().refused_observers, 5);
    assert_eq!(server.endpoint.counters().refused_origin, 1);
    assert!(server.upgrade(&format!("/observe?x=1&token={TOKEN}"), "").is_ok());
    assert!(server.upgrade("/observe", &format!("Authorization: Bearer {TOKEN}\r\n")).is_ok());
}

#[test]
fn an_operator_sends_text_and_gets_large_messages() {
    let mut server = server(Observe::Loopback);
    let mut socket = server.upgrade("/observe", "").expect("this machine");
    server.until("a link", |server| server.connected.len() == 1);
    let (link, purpose) = server.connected[0];
    assert_eq!(purpose, Purpose::Observe);
    socket.send(Message::text("{\"pick\":3}"));
    server.until("a message", |server| !server.messages.is_empty());
    assert_eq!(server.messages[0], b"{\"pick\":3}");
    let large = vec![b'z'; MAX_OBSERVED.0 as usize];
    server.endpoint.send_message(link, &large).expect("open");
    let mut received = Vec::new();
    server.until("the answer", |_| {
        received.extend(socket.receive());
        received.iter().any(|message| matches!(message, Message::Text(_)))
    });
    let text = String::from_utf8(large.clone()).expect("letters");
    assert!(received.contains(&Message::text(text)), "text arrives as text");
    let beyond = server.endpoint.send_message(link, &[large, vec![1]].concat());
    assert!(matches!(beyond, Err(Error::MessageTooLarge { .. })));
    let datagram = server.endpoint.send_datagram(link, b"state");
    assert!(matches!(datagram, Err(Error::DatagramTooLarge { .. })), "messages only");
    socket.send(Message::binary(vec![0; MAX_ASKED + 1]));
    server.until("it is over", |server| !server.closed.is_empty());
    assert_eq!(server.endpoint.counters().closed_oversized, 1);
}

#[test]
fn the_number_of_operators_is_limited() {
    let mut server = server(Observe::Loopback);
    let there: Vec<_> = (0..MAX_OBSERVERS).map(|_| server.upgrade("/observe", "")).collect();
    assert!(there.iter().all(Result::is_ok));
    let refused = server.upgrade("/observe", "").err().expect("enough");
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    assert!(server.upgrade("/play", "").is_ok(), "players have places of their own");
}

#[test]
fn guesses_of_the_operators_token_are_limited_by_address() {
    let mut server = guarded();
    let guess = |server: &mut Server, token: &str| {
        let refused = server.upgrade(&format!("/observe?token={token}"), "").err();
        refused.map(|head| head[9..12].to_owned())
    };
    // Tries go on until the answer changes, however slow this machine is: one is allowed each second.
    let mut guesses = 0;
    server.until("no more guesses", |server| {
        guesses += 1;
        guess(server, "0123456789abcdef").as_deref() == Some("429")
    });
    assert!(guesses > 3, "a mistake is allowed");
    assert_eq!(guess(&mut server, TOKEN).as_deref(), Some("429"), "not even the right one");
    server.until("time has passed", |server| guess(server, TOKEN).is_none());
}
