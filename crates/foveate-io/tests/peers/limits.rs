//! What exceeds the limits is refused or dropped, and counted.

use std::time::Instant;

use foveate_io::peer::{MAX_LINKS_PER_PEER, PeerOptions};
use foveate_io::{CloseCode, Error, Limits, RateLimit, Reason};
use foveate_wire::{Bytes, Micros};

use crate::harness::{PATIENCE, Party, keys, pair, until};
use foveate_node::peer::{Key, Signer};

fn limited(limits: Limits) -> PeerOptions {
    PeerOptions { limits, ..PeerOptions::default() }
}

#[test]
fn a_peer_accepts_its_limit_of_links_until_one_ends() {
    let few = limited(Limits { max_links: 2, ..Limits::peer() });
    let mut full = Party::new(1, few);
    let mut others: Vec<Party> =
        (2..5).map(|seed| Party::new(seed, PeerOptions::default())).collect();
    let mut links = Vec::new();
    for other in &mut others[..2] {
        links.push(other.dial(&full));
        until(other, &mut full, "a link", |other, _| other.connected.len() == 1);
    }
    let refused = others[2].dial(&full);
    until(&mut others[2], &mut full, "a refusal", |other, _| other.reason(refused).is_some());
    assert_eq!(others[2].reason(refused), Some(&Reason::Refused));
    assert_eq!(full.endpoint.counters().refused_full, 1);
    let said = full.endpoint.connect(keys(9).key(), &others[2].endpoint.addresses());
    assert!(matches!(said, Err(Error::Full { limit: 2 })));
    others[0].endpoint.close(links[0], CloseCode::DONE, "");
    until(&mut others[0], &mut full, "a free place", |_, full| full.endpoint.links() == 1);
    others[2].dial(&full);
    until(&mut others[2], &mut full, "a link", |other, _| other.connected.len() == 1);
}

#[test]
fn one_peer_cannot_take_every_link() {
    let (mut one, mut two) =
        (Party::new(1, PeerOptions::default()), Party::new(2, PeerOptions::default()));
    for _ in 0..MAX_LINKS_PER_PEER {
        one.dial(&two);
    }
    until(&mut one, &mut two, "links", |_, two| two.connected.len() == MAX_LINKS_PER_PEER);
    one.dial(&two);
    until(&mut one, &mut two, "an end", |one, _| one.closed.len() == 1);
    assert_eq!(two.connected.len(), MAX_LINKS_PER_PEER, "and the other side never knew");
}

#[test]
fn excess_datagrams_are_dropped_and_a_flood_closes_the_link() {
    let strict = Limits {
        datagrams: RateLimit { per_second: 1, burst: 20 },
        flood_factor: 4,
        ..Limits::peer()
    };
    let (mut one, mut two, there, _) = pair(PeerOptions::default(), limited(strict));
    for _ in 0..40 {
        one.endpoint.send_datagram(there, b"much").expect("open");
        one.step();
    }
    until(&mut one, &mut two, "some to be dropped", |_, two| {
        two.endpoint.counters().datagrams_over_rate > 0
    });
    assert!(two.closed.is_empty());
    until(&mut one, &mut two, "the end", |one, _| {
        // This fails once the link has been closed.
        (0..20).for_each(|_| one.endpoint.send_datagram(there, b"more").unwrap_or(()));
        one.reason(there).is_some()
    });
    let said = one.reason(there);
    assert!(matches!(said, Some(Reason::Peer { code: CloseCode::FLOOD, .. })), "{said:?}");
    assert_eq!(two.endpoint.counters().closed_flood, 1);
}

#[test]
fn a_reader_that_sleeps_costs_bounded_memory_and_loses_no_message() {
    let roomy = Limits {
        datagrams: RateLimit::per_second(100_000),
        bytes: RateLimit::per_second(100_000_000),
        max_message: Bytes(8 * 1024),
        max_backlog: Bytes(32 * 1024),
        ..Limits::peer()
    };
    let (mut one, mut two, there, _) = pair(limited(roomy.clone()), limited(roomy));
    let (mut accepted, mut full) = (0, false);
    // Only the sender runs; it is told when the backlog is full, and no accepted message is lost.
    for n in 0..10_000_u32 {
        match one.endpoint.send_message(there, &[&n.to_le_bytes()[..], &[0; 996]].concat()) {
            Ok(()) => accepted += 1,
            Err(Error::BacklogFull { .. }) => {
                full = true;
                one.step();
                if n > 2_000 {
                    break;
                }
            }
            Err(other) => panic!("{other}"),
        }
        one.endpoint.send_datagram(there, &[0; 1_000]).expect("open");
    }
    assert!(full, "{accepted} messages were taken without complaint");
    let deadline = Instant::now() + PATIENCE;
    while two.endpoint.counters().datagrams_unread == 0 {
        assert!(Instant::now() < deadline, "every datagram finds room");
        one.endpoint.send_datagram(there, &[0; 1_000]).expect("open");
        one.step();
    }
    until(&mut one, &mut two, "every message", |_, two| two.messages.len() == accepted);
    let numbers = two.messages.iter().map(|(_, bytes)| bytes[..4].to_vec());
    assert!(numbers.clone().is_sorted_by(|a, b| le(a) < le(b)));
}

fn le(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[test]
fn invalid_dials_are_refused_at_once_or_reported() {
    let mut one = Party::new(1, PeerOptions::default());
    let mut two = Party::new(2, PeerOptions::default());
    let itself = one.endpoint.connect(keys(1).key(), &two.endpoint.addresses());
    assert!(matches!(itself, Err(Error::Peer { .. })));
    let nowhere = one.endpoint.connect(keys(3).key(), &[]);
    assert!(matches!(nowhere, Err(Error::Peer { .. })));
    // A point that is not on the curve.
    let mut bad = [0; 32];
    bad[0] = 2;
    let no_key = one.endpoint.connect(Key(bad), &two.endpoint.addresses());
    assert!(matches!(no_key, Err(Error::Peer { .. })), "{no_key:?}");
    // Another peer is at that address.
    let mistaken = one.endpoint.connect(keys(3).key(), &two.endpoint.addresses()).expect("room");
    until(&mut one, &mut two, "a failure", |one, _| one.reason(mistaken).is_some());
    assert!(two.connected.is_empty());
    assert_eq!(one.endpoint.links(), 0);
    let said = one.endpoint.send_datagram(mistaken, b"x").expect_err("closed");
    assert!(matches!(said, Error::Closed));
}

#[test]
fn impossible_options_are_refused_by_name() {
    let lazy = PeerOptions { keep_alive: Micros::from_millis(6_000), ..PeerOptions::default() };
    let odd = PeerOptions { relay: Some("not an address".into()), ..PeerOptions::default() };
    for (options, name) in [(lazy, "keep_alive"), (odd, "relay")] {
        let bound = foveate_io::peer::PeerEndpoint::bind(&[], &keys(1), options);
        let said = bound.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(said.starts_with(&format!("option {name}: ")), "{said}");
    }
}
