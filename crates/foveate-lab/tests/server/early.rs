//! Datagrams that overtake the welcome: lost messages are sent again, datagrams are not.

use super::*;
use foveate_node::client::MAX_EARLY;
use foveate_node::outbox::Outgoing;

const LINK: Link = Link(3);
const ROUND: u64 = 50_000;

/// A server that has admitted one player, the messages that it sent, and the client, which has received none of them.
fn welcomed() -> (Server<Walk>, Client<Walk>, Vec<Vec<u8>>) {
    let mut server = Server::new(game(), ServerSettings::default(), keys());
    let mut client = Client::new(game(), "ada", &[]);
    let mut hello = RecordingOutbox::default();
    server.connected(LINK, &mut hello);
    client.connected(LINK, &mut hello);
    let mut down = RecordingOutbox::default();
    for (_, outgoing) in hello.0 {
        if let Outgoing::Message(bytes) = outgoing {
            server.message(LINK, &bytes, Micros::ZERO, &mut down);
        }
    }
    server.admit(LINK, PlayerId(1), &[], Micros::ZERO, &mut down).unwrap();
    let messages = down.0.into_iter().filter_map(|(_, outgoing)| match outgoing {
        Outgoing::Message(bytes) => Some(bytes),
        _ => None,
    });
    (server, client, messages.collect())
}

/// Plays rounds of the server and returns its datagrams.
fn rounds(server: &mut Server<Walk>, ticks: std::ops::Range<u32>) -> Vec<(Micros, Vec<u8>)> {
    let mut datagrams = Vec::new();
    for tick in ticks {
        let (mut out, now) = (RecordingOutbox::default(), Micros(u64::from(tick) * ROUND));
        server.tick(Tick(tick), now, &mut out);
        datagrams.extend(out.0.into_iter().filter_map(|(_, outgoing)| match outgoing {
            Outgoing::Datagram(bytes) => Some((now, bytes)),
            _ => None,
        }));
    }
    datagrams
}

#[test]
fn states_that_overtake_the_welcome_are_read_when_it_arrives() {
    let (mut server, mut client, welcome) = welcomed();
    let datagrams = rounds(&mut server, 1..4);
    assert!(!datagrams.is_empty());
    datagrams.iter().for_each(|(at, bytes)| client.datagram(bytes, *at));
    assert!(client.replicas.is_empty(), "without a welcome nothing can be read");
    welcome.iter().for_each(|bytes| client.message(bytes));
    let avatar = client.joined().unwrap().avatar;
    assert!(client.replicas.get(avatar).is_some());
    // The client's first datagram acknowledges early states: the server need not wait for a timeout.
    let mut up = RecordingOutbox::default();
    client.tick(Micros(4 * ROUND), &mut up, |_, _| 0);
    for (_, outgoing) in up.0 {
        if let Outgoing::Datagram(bytes) = outgoing {
            server.datagram(LINK, &bytes, Micros(4 * ROUND));
        }
    }
    // Acknowledgements are applied in the next round.
    rounds(&mut server, 5..6);
    let observer = server.present_players().next().unwrap().observer;
    let link = server.simulation.publisher.observer(observer).unwrap().link();
    assert_eq!(link.counts().1, 0, "nothing counts as lost");
    assert!(link.counts().0 > 0);
}

#[test]
fn early_datagrams_are_bounded_and_end_with_their_link() {
    let (mut server, mut client, welcome) = welcomed();
    let first = rounds(&mut server, 1..4);
    for _ in 0..10 * MAX_EARLY {
        client.datagram(&[0xff; 40], Micros(ROUND));
    }
    first.iter().for_each(|(at, bytes)| client.datagram(bytes, *at));
    // Over another link nothing of the first is left.
    client.closed();
    client.connected(Link(4), &mut RecordingOutbox::default());
    welcome.iter().for_each(|bytes| client.message(bytes));
    assert_eq!(client.counts().malformed, 0);
    assert!(client.replicas.is_empty());
    let (_, mut client, welcome) = welcomed();
    for _ in 0..10 * MAX_EARLY {
        client.datagram(&[0xff; 40], Micros(ROUND));
    }
    welcome.iter().for_each(|bytes| client.message(bytes));
    assert_eq!(client.counts().malformed, MAX_EARLY as u64);
}
