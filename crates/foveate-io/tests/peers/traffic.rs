//! What is sent at one end arrives at the other.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use foveate_io::peer::{PeerEndpoint, PeerOptions};
use foveate_io::{CloseCode, LinkConditions, Reason};
use foveate_node::link_model::{LinkSpec, Loss};
use foveate_node::session::SERVER_DATAGRAM_ROOM;
use foveate_wire::packet::MAX_PACKET;
use foveate_wire::{Bytes, Micros};

use crate::harness::{PATIENCE, Party, keys, pair, until};
use foveate_node::peer::Signer;

#[test]
fn peers_know_each_other_by_key_and_talk_in_both_directions() {
    let (mut one, mut two, there, here) = pair(PeerOptions::default(), PeerOptions::default());
    assert_eq!(one.connected, [(there, keys(2).key())]);
    assert_eq!(two.connected, [(here, keys(1).key())]);
    one.endpoint.send_datagram(there, b"ping").expect("open");
    two.endpoint.send_message(here, b"welcome").expect("open");
    until(&mut one, &mut two, "both to hear", |one, two| {
        !one.messages.is_empty() && !two.datagrams.is_empty()
    });
    assert_eq!(one.messages, [(there, b"welcome".to_vec())]);
    assert_eq!(two.datagrams, [(here, b"ping".to_vec())]);
    one.endpoint.close(there, CloseCode(300), "that was all");
    until(&mut one, &mut two, "the end", |one, two| {
        one.reason(there).is_some() && two.reason(here).is_some()
    });
    let said = Reason::Peer { code: CloseCode(300), reason: "that was all".into() };
    assert_eq!(two.reason(here), Some(&said));
    assert_eq!((one.endpoint.links(), two.endpoint.links()), (0, 0));
}

#[test]
fn a_frame_with_the_largest_packet_fits_a_datagram() {
    let (mut one, mut two, there, _) = pair(PeerOptions::default(), PeerOptions::default());
    let largest = MAX_PACKET + SERVER_DATAGRAM_ROOM;
    let room = one.endpoint.max_datagram(there).expect("open");
    assert!(room >= Bytes(largest as u32), "{room:?}");
    one.endpoint.send_datagram(there, &vec![7; largest]).expect("it fits");
    until(&mut one, &mut two, "the frame", |_, two| !two.datagrams.is_empty());
    assert_eq!(two.datagrams[0].1.len(), largest);
    let beyond = vec![0; room.0 as usize + 1];
    let said = one.endpoint.send_datagram(there, &beyond).expect_err("too large").to_string();
    assert!(said.contains("datagram"), "{said}");
}

#[test]
fn messages_arrive_whole_in_order_and_before_a_shutdown_ends() {
    let (mut one, mut two, there, _) = pair(PeerOptions::default(), PeerOptions::default());
    let sent: Vec<Vec<u8>> = (0..200_usize).map(|n| vec![n as u8; 1 + n * 3 % 1_700]).collect();
    for message in &sent {
        one.endpoint.send_message(there, message).expect("the backlog takes it");
    }
    let Party { mut endpoint, .. } = one;
    let reader = std::thread::spawn(move || {
        let deadline = Instant::now() + PATIENCE;
        while two.messages.len() < 200 && Instant::now() < deadline {
            two.step();
        }
        two
    });
    let undelivered = endpoint.shutdown(Micros::from_millis(120_000), &mut Vec::new());
    assert_eq!(undelivered.expect("the thread works"), 0);
    let two = reader.join().expect("the reader reads");
    assert_eq!(two.messages.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>(), sent);
}

#[test]
fn a_peer_is_reached_by_either_family() {
    let both: [SocketAddr; 2] =
        ["127.0.0.1:0".parse().expect("v4"), "[::1]:0".parse().expect("v6")];
    let mut two = Party::at(&both, 2, PeerOptions::default());
    let addresses = two.endpoint.addresses();
    assert_eq!(addresses.iter().filter(|address| address.is_ipv6()).count(), 1, "{addresses:?}");
    let mut one = Party::at(&both[1..], 1, PeerOptions::default());
    let v6: Vec<_> = addresses.iter().copied().filter(SocketAddr::is_ipv6).collect();
    one.endpoint.connect(two.endpoint.key(), &v6).expect("room");
    until(&mut one, &mut two, "a link over IPv6", |one, two| {
        one.connected.len() + two.connected.len() == 2
    });
    let mut three = Party::new(3, PeerOptions::default());
    three.dial(&two);
    until(&mut three, &mut two, "a link over IPv4", |three, two| {
        three.connected.len() == 1 && two.connected.len() == 2
    });
}

#[test]
fn the_meter_counts_what_passed() {
    let (mut one, mut two, there, here) = pair(PeerOptions::default(), PeerOptions::default());
    for _ in 0..50 {
        one.endpoint.send_datagram(there, &[1; 100]).expect("open");
        one.step();
    }
    one.endpoint.send_message(there, b"once").expect("open");
    until(&mut one, &mut two, "all of it", |_, two| {
        two.datagrams.len() == 50 && two.messages.len() == 1
    });
    let (sent, received) = (one.endpoint.meter(there), two.endpoint.meter(here));
    let (sent, received) = (sent.expect("open"), received.expect("open"));
    assert_eq!((sent.sent.datagrams, sent.sent.messages), (50, 1));
    assert_eq!((received.received.datagrams, received.received.messages), (50, 1));
    assert!(sent.sent.bytes >= 5_000 && received.received.bytes >= 5_000, "{sent:?}");
    assert!(sent.round_trip > Micros::ZERO && sent.window > 0, "{sent:?}");
    one.endpoint.close(there, CloseCode::DONE, "");
    until(&mut one, &mut two, "the end", |one, _| one.endpoint.links() == 0);
    assert_eq!(one.endpoint.total().sent.datagrams, 50, "of links that are gone, too");
}

#[test]
fn conditions_delay_and_lose_datagrams_but_no_message() {
    let (mut one, mut two, there, _) = pair(PeerOptions::default(), PeerOptions::default());
    let delay = Micros::from_millis(60);
    let sent = LinkSpec { loss: Loss::Bernoulli(0.5), ..LinkSpec::delayed(delay) };
    let ways = LinkConditions { sent, ..LinkConditions::default() };
    assert!(one.endpoint.set_conditions(there, Some(ways)));
    let begun = Instant::now();
    for n in 0..100_u8 {
        one.endpoint.send_datagram(there, &[n]).expect("open");
        one.endpoint.send_message(there, &[n]).expect("open");
    }
    until(&mut one, &mut two, "all messages", |_, two| two.messages.len() == 100);
    assert!(begun.elapsed() >= Duration::from_millis(60), "they were delayed");
    assert!(two.messages.iter().enumerate().all(|(n, (_, bytes))| bytes == &[n as u8]));
    let lost = one.endpoint.counters().conditioned_away;
    assert!((20..80).contains(&lost), "{lost}");
    until(&mut one, &mut two, "the other datagrams", |_, two| {
        two.datagrams.len() as u64 == 100 - lost
    });
    assert!(one.endpoint.set_conditions(there, None));
    one.step();
    one.endpoint.send_datagram(there, b"free").expect("open");
    until(&mut one, &mut two, "a free link", |_, two| {
        two.datagrams.last().is_some_and(|(_, bytes)| bytes == b"free")
    });
}

#[test]
fn peers_that_dial_each_other_at_once_get_two_links() {
    let mut one = Party::new(1, PeerOptions::default());
    let mut two = Party::new(2, PeerOptions::default());
    let (there, back) = (one.dial(&two), two.dial(&one));
    until(&mut one, &mut two, "two links", |one, two| {
        one.connected.len() == 2 && two.connected.len() == 2
    });
    assert!(one.connected.iter().any(|(link, _)| *link == there));
    assert!(two.connected.iter().any(|(link, _)| *link == back));
}

#[test]
fn a_peer_that_is_dropped_frees_its_port_at_once() {
    // Another program may be given the port in between, but not five times.
    let is_free_at_once = (0..5).any(|_| {
        let one = Party::new(1, PeerOptions::default());
        let addresses = one.endpoint.bound();
        drop(one);
        let again = PeerEndpoint::bind(&addresses, &keys(1), PeerOptions::default());
        again.is_ok_and(|again| again.bound() == addresses)
    });
    assert!(is_free_at_once);
}
