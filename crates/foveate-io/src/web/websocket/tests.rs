use super::*;
use std::net::TcpListener;

/// A server's end, and the raw TCP stream of its peer.
fn pair(purpose: Purpose) -> (WebSocket, TcpStream, Instant) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let peer = TcpStream::connect(listener.local_addr().expect("bound")).expect("listening");
    let (stream, _) = listener.accept().expect("connected");
    stream.set_nonblocking(true).expect("possible");
    let now = Instant::now();
    let options = EndpointOptions::server();
    let upgraded = Upgraded { stream, answer: Bytes::new(), rest: BytesMut::new() };
    (WebSocket::new(upgraded, purpose, &options, now, Micros::ZERO), peer, now)
}

/// A frame as a client sends it.
fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        short @ 0..=125 => frame.push(0x80 | short as u8),
        long => {
            frame.push(0x80 | 126);
            frame.extend_from_slice(&(long as u16).to_be_bytes());
        }
    }
    let mask = [1, 2, 3, 4];
    frame.extend_from_slice(&mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// What the codec returns for these bytes.
fn feed(socket: &mut WebSocket, bytes: &[u8], now: Instant) -> Vec<Arrived> {
    socket.pipe.incoming.extend_from_slice(bytes);
    let mut arrived = Vec::new();
    while let Some(one) = socket.next(now) {
        let over = !matches!(one, Arrived::Unit(_) | Arrived::Control);
        arrived.push(one);
        if over {
            break;
        }
    }
    arrived
}

#[test]
fn the_first_byte_distinguishes_datagrams_from_messages() {
    let (mut socket, _peer, now) = pair(Purpose::Play);
    let mut bytes = masked(0x82, b"\0state");
    bytes.extend(masked(0x02, b"\x01hel"));
    bytes.extend(masked(0x89, b"ping"));
    bytes.extend(masked(0x80, b"lo"));
    let arrived = feed(&mut socket, &bytes, now);
    let [Arrived::Unit(one), Arrived::Control, Arrived::Unit(two)] = arrived.as_slice() else {
        panic!("{arrived:?}");
    };
    assert_eq!(*one, Unit::Datagram(Bytes::from_static(b"state")));
    assert_eq!(*two, Unit::Message(Bytes::from_static(b"hello")), "fragments are joined");
    assert_eq!(&socket.pipe.outgoing[..], b"\x8a\x04ping", "a ping is answered");
}

#[test]
fn an_operator_sends_text_or_binary_as_it_is() {
    let (mut socket, _peer, now) = pair(Purpose::Observe);
    let mut bytes = masked(0x81, b"{}");
    bytes.extend(masked(0x82, b"\x07"));
    let arrived = feed(&mut socket, &bytes, now);
    assert!(matches!(&arrived[0], Arrived::Unit(Unit::Message(text)) if &text[..] == b"{}"));
    assert!(matches!(&arrived[1], Arrived::Unit(Unit::Message(text)) if &text[..] == b"\x07"));
    assert!(socket.push(now, &Unit::Message(Bytes::from_static(b"ok"))));
    assert!(socket.push(now, &Unit::Message(Bytes::from_static(b"\xff\xfe"))));
    assert_eq!(&socket.pipe.outgoing[..], b"\x81\x02ok\x82\x02\xff\xfe", "text, and what is none");
}

#[test]
fn violations_are_reported_with_their_kind() {
    let huge = [0x82, 0xff, 0, 0, 0, 0, 0x7f, 0, 0, 0, 1, 2, 3, 4];
    for (bytes, word) in [
        (b"\x82\x03\0ab".to_vec(), "unmasked"),
        (masked(0xc2, b"\0a"), "reserved bits"),
        (masked(0x83, b"\0a"), "opcode"),
        (masked(0x80, b"\0a"), "continue frame"),
        (masked(0x09, b""), "fragmented control"),
        (masked(0x89, &[0; 126]), "control frame"),
        (masked(0x81, b"\0a"), "text"),
        (masked(0x82, b""), "empty"),
        (masked(0x82, b"\x09a"), "kind 9"),
    ] {
        let (mut socket, _peer, now) = pair(Purpose::Play);
        let arrived = feed(&mut socket, &bytes, now);
        let [Arrived::Malformed(what)] = arrived.as_slice() else { panic!("{word}: {arrived:?}") };
        assert!(what.to_lowercase().contains(word), "{what} does not say {word}");
    }
    let (mut socket, _peer, now) = pair(Purpose::Play);
    let arrived = feed(&mut socket, &huge, now);
    let limit = EndpointOptions::server().limits.max_message;
    assert!(matches!(&arrived[..], [Arrived::Oversized(_, most)] if *most == limit), "{arrived:?}");
}

#[test]
fn close_frames_carry_our_codes_in_both_directions() {
    let (mut socket, _peer, now) = pair(Purpose::Play);
    let long = "ü".repeat(100);
    socket.close(now, CloseCode(257), &long);
    let frame = &socket.pipe.outgoing[..];
    assert_eq!((frame[0], frame[1], &frame[2..4]), (0x88, 2 + 122, &4_257u16.to_be_bytes()[..]));
    assert_eq!(std::str::from_utf8(&frame[4..]).expect("cut between letters"), "ü".repeat(61));

    let (mut socket, _peer, now) = pair(Purpose::Play);
    let arrived = feed(&mut socket, &masked(0x88, b"\x0f\xa7bye"), now);
    let [Arrived::Closed(Reason::Peer { code, reason })] = arrived.as_slice() else {
        panic!("{arrived:?}");
    };
    assert_eq!((*code, reason.as_str()), (CloseCode(7), "bye"));
    assert!(socket.pipe.outgoing.starts_with(b"\x88"), "the goodbye is answered");
    assert_eq!(socket.due(Duration::ZERO), Some(now + GOODBYE));
}

#[test]
fn datagrams_are_dropped_while_a_ping_is_overdue() {
    let (mut socket, mut peer, begun) = pair(Purpose::Play);
    let at = |ms| begun + Duration::from_millis(ms);
    let datagram = Unit::Datagram(Bytes::from_static(b"state"));
    assert!(socket.push(at(250), &datagram));
    socket.transmit(at(250)).expect("room");
    assert!(socket.unanswered, "a ping went along");
    assert!(socket.push(at(540), &datagram), "not overdue");
    assert!(!socket.push(at(551), &datagram));
    assert!(socket.push(at(551), &Unit::Message(Bytes::from_static(b"x"))), "messages wait");
    // An answer after 40 ms: from now on 340 ms are too late.
    peer.write_all(&masked(0x8a, b"")).expect("open");
    let limits = EndpointOptions::server().limits;
    let deadline = Instant::now() + Duration::from_secs(120);
    while socket.receive(&limits, at(560), Micros::ZERO).bytes == 0 {
        assert!(Instant::now() < deadline, "the pong arrives");
    }
    assert!(matches!(socket.next(at(290)), Some(Arrived::Control)));
    assert_eq!(socket.shortest, Duration::from_millis(40));
    assert!(socket.push(at(600), &datagram));
    socket.transmit(at(600)).expect("room");
    assert!(socket.push(at(939), &datagram));
    assert!(!socket.push(at(941), &datagram));
}

#[test]
fn a_silent_peer_is_pinged_and_then_disconnected() {
    let (mut socket, _peer, begun) = pair(Purpose::Observe);
    let idle = duration(EndpointOptions::server().idle_timeout);
    assert_eq!(socket.due(Duration::ZERO), Some(begun + idle / 3));
    assert_eq!(socket.timeout(begun + idle / 3), Timeout::Goes);
    assert_eq!(&socket.pipe.outgoing[..], b"\x89\0");
    assert_eq!(socket.timeout(begun + idle), Timeout::Idle);
    socket.close(begun + idle, CloseCode::DONE, "");
    assert_eq!(socket.timeout(begun + idle + GOODBYE), Timeout::Over);
}

#[test]
fn random_bytes_never_panic_and_never_pile_up() {
    let mut random = fastrand::Rng::with_seed(23);
    let most = EndpointOptions::server().limits.max_message.0 as usize * 2;
    for _ in 0..200 {
        let (mut socket, _peer, now) = pair(Purpose::Play);
        for _ in 0..100 {
            let mut bytes: Vec<u8> = (0..random.usize(0..200)).map(|_| random.u8(..)).collect();
            if random.bool() {
                let first = [0x82, 0x02, 0x80, 0x89, 0x8a][random.usize(0..5)];
                let length = random.usize(0..bytes.len().min(126) + 1);
                bytes = masked(first, &bytes[..length]);
            }
            // Whatever was invalid before, further bytes are harmless.
            feed(&mut socket, &bytes, now);
            assert!(socket.pipe.incoming.len() <= most && socket.pipe.outgoing.len() <= most);
        }
    }
}
