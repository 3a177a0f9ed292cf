//! Links under bad conditions.

use foveate_io::{EndpointOptions, LinkConditions};
use foveate_node::link_model::{LinkSpec, Loss};
use foveate_wire::Micros;

use crate::harness::{Party, pair, roomy, until};

#[test]
fn messages_arrive_in_order_despite_loss_delay_and_jitter() {
    let bad = LinkSpec {
        loss: Loss::Bursty { share: 0.1, burst: 2.0 },
        ..LinkSpec::jittered(Micros::from_millis(5), Micros::from_millis(10))
    };
    let ways = LinkConditions { received: bad, sent: bad };
    let conditioned =
        EndpointOptions { conditions: Some(ways), seed: 3, ..EndpointOptions::client() };
    let (mut server, mut client, ours, theirs) = pair(roomy(), conditioned);
    let sent: Vec<Vec<u8>> = (0..100).map(|n| vec![n; 500]).collect();
    for message in &sent {
        client.endpoint.send_message(theirs, message).expect("room");
        server.endpoint.send_message(ours, message).expect("room");
    }
    until(&mut server, &mut client, "100 messages each way", |server, client| {
        server.messages.len() == 100 && client.messages.len() == 100
    });
    assert!(server.messages.iter().map(|(_, message)| message).eq(&sent));
    assert!(client.messages.iter().map(|(_, message)| message).eq(&sent));
    assert!(client.endpoint.counters().conditioned_away > 0);
    let round_trip = client.endpoint.meter(theirs).expect("open").shortest_round_trip;
    assert!(round_trip >= Micros::from_millis(10), "QUIC sees the delay: {round_trip:?}");
}

/// Sends `count` datagrams, one per step, until each has arrived or been lost on purpose; returns how many arrived.
fn send_many(server: &mut Party, client: &mut Party, count: usize) -> usize {
    let (link, before) = (client.connected[0], server.datagrams.len());
    let lost_before = client.endpoint.counters().conditioned_away;
    for _ in 0..count {
        client.endpoint.send_datagram(link, b"count me").expect("connected");
        client.step();
        server.step();
    }
    until(server, client, "the fate of every datagram", |server, client| {
        let lost = client.endpoint.counters().conditioned_away - lost_before;
        // Packets without a datagram are lost, too, so there may be more of these.
        server.datagrams.len() - before + lost as usize >= count
    });
    server.datagrams.len() - before
}

#[test]
fn conditions_change_at_run_time_and_vanish() {
    let (mut server, mut client, _, theirs) = pair(roomy(), EndpointOptions::client());
    assert_eq!(send_many(&mut server, &mut client, 50), 50);

    let nothing = LinkSpec { loss: Loss::Bernoulli(1.0), ..LinkSpec::PERFECT };
    let ways = LinkConditions { sent: nothing, ..LinkConditions::default() };
    assert!(client.endpoint.set_conditions(theirs, Some(ways)));
    assert_eq!(send_many(&mut server, &mut client, 20), 0);

    assert!(client.endpoint.set_conditions(theirs, None));
    client.step();
    assert_eq!(send_many(&mut server, &mut client, 50), 50);
    assert!(client.endpoint.meter(theirs).expect("open").lost_packets > 0);
}
