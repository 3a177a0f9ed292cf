use super::*;
use crate::region::{DirectOptions, LocalBus, LocalBusLink};

/// Only a hang takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

fn key(byte: u8) -> WorldKey {
    WorldKey::new(&"w".parse().unwrap(), &[byte; 32]).unwrap()
}

fn join(broker: &LocalBus, byte: u8, id: u32) -> MeshBus {
    let options = DirectOptions { listen: "127.0.0.1:0".parse().unwrap(), advertise: None };
    let direct = DirectLinks::listen(options).unwrap();
    let link: LocalBusLink = broker.join(ServerId(id));
    MeshBus::new(&key(byte), ServerId(id), Box::new(link), direct).unwrap()
}

/// Polls all until it is so; what the last of them received.
fn until(buses: &mut [&mut MeshBus], done: impl Fn(&[&mut MeshBus]) -> bool) -> Vec<Vec<u8>> {
    let (begun, mut got) = (Instant::now(), Vec::new());
    while !done(buses) {
        assert!(begun.elapsed() < PATIENCE, "it does not come to that");
        let last = buses.len() - 1;
        for (at, bus) in buses.iter_mut().enumerate() {
            while let Some(message) = bus.poll() {
                if at == last {
                    got.push(message);
                }
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    got
}

#[test]
fn the_loss_of_the_broker_stops_nothing() {
    let broker = LocalBus::default();
    let (mut one, mut two) = (join(&broker, 1, 1), join(&broker, 1, 2));
    one.publish(Recipient::Server(ServerId(2)), b"before there are links");
    let got = until(&mut [&mut one, &mut two], |buses| {
        buses.iter().all(|bus| bus.counts().links == 1 && bus.counts().repeated > 0)
    });
    assert_eq!(got, [b"before there are links".to_vec()]);
    // From now on the broker carries nothing.
    one.broker = Box::new(LocalBus::default().join(ServerId(1)));
    let long = vec![7; 100_000];
    one.publish(Recipient::Server(ServerId(2)), b"beacon");
    one.publish(Recipient::All, &long);
    let mut got = Vec::new();
    while got.len() < 2 {
        got.extend(until(&mut [&mut one, &mut two], |buses| {
            buses[1].counts().received > 1 + got.len() as u64
        }));
    }
    got.sort_by_key(Vec::len);
    assert_eq!(got, [b"beacon".to_vec(), long]);
}

#[test]
fn a_stranger_gets_no_link_and_is_not_heard() {
    let broker = LocalBus::default();
    let (mut one, mut stranger) = (join(&broker, 1, 7), join(&broker, 2, 3));
    // It knows the address and dials; nothing that it says counts.
    stranger.direct.learn(ServerId(7), one.direct.address());
    stranger.publish(Recipient::All, b"I own region 3");
    let got = until(&mut [&mut stranger, &mut one], |buses| buses[1].counts().forged >= 3);
    assert!(got.is_empty(), "{got:?}");
    assert_eq!((one.counts().links, stranger.counts().links), (0, 0));
}
