//! Bus and ledger with a real NATS server: their guarantees, a broker that is killed, and an intruder.

mod broker;
mod disk;

use broker::Broker;
use disk::SmallDisk;
use foveate_io::region::{
    Bus, Ledger, LedgerReply, NatsLedger, NatsOptions, NatsWorld, WorldKey, WorldName,
};
use foveate_node::region::bus::Recipient;
use foveate_node::region::layout::{RegionId, ServerId};
use foveate_node::region::ledger::{LedgerAnswer, LedgerRequest, Subject};
use foveate_wire::Bytes;
use std::time::{Duration, Instant};

const LOG: Subject = Subject::Log(RegionId(3));
/// The longest that anything may take, short of a hang.
const PATIENCE: Duration = Duration::from_secs(90);

fn connect(broker: &Broker, byte: u8, max_bytes: Option<Bytes>) -> NatsWorld {
    let world: WorldName = "meadow".parse().unwrap();
    let key = WorldKey::new(&world, &[byte; 32]).unwrap();
    let patience = Duration::from_secs(20);
    let options =
        NatsOptions { url: broker.url(), credentials: None, replicas: 1, max_bytes, patience };
    NatsWorld::connect(options, &world, &key).unwrap()
}

fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Appends as a server does: repeatedly until it is answered.
fn append(ledger: &mut NatsLedger, last: u64, body: &[u8]) -> u64 {
    let mut asked: Option<Instant> = None;
    eventually("an append is not answered", || {
        if asked.is_none_or(|at| at.elapsed() > Duration::from_millis(400)) {
            asked = Some(Instant::now());
            let bytes = body.to_vec();
            ledger.request(LedgerRequest::Append { request: last, subject: LOG, last, bytes });
        }
        match ledger.poll()? {
            LedgerReply::Answer(_, LedgerAnswer::Appended(number)) => Some(number),
            LedgerReply::Entry(LOG, number, bytes) if number == last + 1 && bytes == body => {
                Some(number)
            }
            _ => None,
        }
    })
}

/// The next `count` entries of the log.
fn read(ledger: &mut NatsLedger, count: usize) -> Vec<(u64, Vec<u8>)> {
    (0..count)
        .map(|_| {
            eventually("no entry", || match ledger.poll()? {
                LedgerReply::Entry(LOG, number, bytes) => Some((number, bytes)),
                _ => None,
            })
        })
        .collect()
}

/// Publishes as any client of the broker can.
fn publish(broker: &Broker, subject: &'static str, bytes: Vec<u8>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(broker.url()).await.unwrap();
        client.publish(subject, bytes.into()).await.unwrap();
        client.flush().await.unwrap();
    });
}

/// Appends to the log until that fails; the last entry, and why it was the last.
fn fill(ledger: &mut NatsLedger) -> (u64, String) {
    let mut last = 0;
    let why = eventually("it is never full", || {
        let bytes = vec![last as u8; 1_000];
        ledger.request(LedgerRequest::Append { request: last, subject: LOG, last, bytes });
        std::thread::sleep(Duration::from_millis(2));
        while let Some(reply) = ledger.poll() {
            if let LedgerReply::Answer(_, LedgerAnswer::Appended(number)) = reply {
                last = number;
            }
        }
        ledger.status().trouble
    });
    (last, why)
}

#[test]
fn appends_count_behind_the_entry_they_name_and_followers_miss_nothing() {
    let Some(broker) = Broker::start("ledger") else { return };
    let (one, two) = (connect(&broker, 1, None), connect(&broker, 1, None));
    let (mut first, mut second) = (one.join(ServerId(1)).1, two.join(ServerId(2)).1);
    for last in 0..5 {
        assert_eq!(append(&mut first, last, &[last as u8]), last + 1, "numbers are dense");
    }
    // The writer believes that the log is empty: it gets no answer, and nothing is applied.
    let stale = LedgerRequest::Append { request: 9, subject: LOG, last: 0, bytes: vec![9] };
    second.request(stale);
    second.request(LedgerRequest::Follow(LOG));
    let expected: Vec<_> = (0..5u8).map(|at| (u64::from(at) + 1, vec![at])).collect();
    assert_eq!(read(&mut second, 5), expected);
    assert_eq!(append(&mut second, 5, b"from the other"), 6);
    first.request(LedgerRequest::Truncate(LOG, 4));
    eventually("the follower does not go on", || {
        while first.poll().is_some() {}
        first.request(LedgerRequest::Truncate(LOG, 4));
        let third = connect(&broker, 1, None);
        let mut late = third.join(ServerId(3)).1;
        late.request(LedgerRequest::Follow(LOG));
        let numbers: Vec<u64> = read(&mut late, 3).iter().map(|it| it.0).collect();
        (numbers == [4, 5, 6]).then_some(())
    });
    second.request(LedgerRequest::Unfollow(LOG));
    second.request(LedgerRequest::Follow(LOG));
    let numbers: Vec<u64> = read(&mut second, 3).iter().map(|it| it.0).collect();
    assert_eq!(numbers, [4, 5, 6], "from the first that is kept");
}

#[test]
fn a_broker_that_is_killed_loses_nothing_and_is_found_again() {
    let Some(mut broker) = Broker::start("killed") else { return };
    let world = connect(&broker, 1, None);
    let (mut bus, mut ledger) = world.join(ServerId(1));
    let other = connect(&broker, 1, None);
    let (mut far, mut follower) = other.join(ServerId(2));
    follower.request(LedgerRequest::Follow(LOG));
    (0..20).for_each(|last| assert_eq!(append(&mut ledger, last, b"before"), last + 1));
    assert_eq!(read(&mut follower, 20).last(), Some(&(20, b"before".to_vec())));
    broker.kill();
    bus.publish(Recipient::Server(ServerId(2)), b"too late to be of use");
    std::thread::sleep(Duration::from_millis(500));
    broker.restart();
    (20..25).for_each(|last| assert_eq!(append(&mut ledger, last, b"after"), last + 1));
    assert_eq!(read(&mut follower, 5).last(), Some(&(25, b"after".to_vec())), "without a gap");
    let message = eventually("messages do not arrive again", || {
        bus.publish(Recipient::Server(ServerId(2)), b"hello");
        far.poll()
    });
    assert_eq!(message, b"hello", "what was said meanwhile does not come late");
}

#[test]
fn an_intruder_at_the_broker_changes_nothing() {
    let Some(broker) = Broker::start("stranger") else { return };
    let world = connect(&broker, 1, None);
    let mut ledger = world.join(ServerId(1)).1;
    assert_eq!(append(&mut ledger, 0, b"fence"), 1);
    // Another world's key, with the broker's rights: what it writes is stored and ignored.
    let mut stranger = connect(&broker, 2, None).join(ServerId(9)).1;
    stranger.request(LedgerRequest::Follow(LOG));
    publish(&broker, "foveate.meadow.ledger.log.3", b"I am the owner".to_vec());
    publish(&broker, "foveate.meadow.ledger.layout", vec![1; 64]);
    publish(&broker, "foveate.meadow.ledger.log.03", vec![1; 64]);
    assert_eq!(append(&mut ledger, 1, b"goes on"), 2);
    eventually("it is not counted", || {
        while ledger.poll().is_some() {}
        (ledger.status().refused == 2).then_some(())
    });
    let why = eventually("a world of another key is not noticed", || {
        while stranger.poll().is_some() {}
        stranger.status().unusable
    });
    assert!(why.contains("another world of this name?"), "{why}");
    let mut late = connect(&broker, 1, None).join(ServerId(2)).1;
    late.request(LedgerRequest::Follow(LOG));
    let expected = [(1, b"fence".to_vec()), (2, b"goes on".to_vec())];
    assert_eq!(read(&mut late, 2), expected, "all servers agree");
}

#[test]
fn a_full_ledger_refuses_with_a_message_and_continues_when_there_is_room() {
    let Some(broker) = Broker::start("full") else { return };
    let world = connect(&broker, 1, Some(Bytes(20_000)));
    let mut ledger = world.join(ServerId(1)).1;
    let (last, why) = fill(&mut ledger);
    assert!(why.contains("maximum bytes"), "{why}");
    assert!(last > 5, "what was there before stays: {last}");
    // An operator gives it more room.
    let mut more = connect(&broker, 1, Some(Bytes(200_000))).join(ServerId(2)).1;
    more.request(LedgerRequest::Follow(LOG));
    assert_eq!(read(&mut more, last as usize).len() as u64, last, "nothing is lost");
    assert_eq!(append(&mut ledger, last, b"goes on"), last + 1);
    eventually("the trouble is not over", || ledger.status().trouble.is_none().then_some(()));
}

#[test]
fn a_full_disk_is_reported_and_nothing_that_was_appended_is_lost() {
    let Some(disk) = SmallDisk::mount("full", "2m") else { return };
    let Some(mut broker) = Broker::start_in(disk.folder().join("jetstream")) else { return };
    let mut ledger = connect(&broker, 1, None).join(ServerId(1)).1;
    let (last, why) = fill(&mut ledger);
    println!("full after {last} entries: {why}");
    assert!(last > 5 && why.contains("an append failed"), "{last}: {why}");
    // An operator makes room, and starts the broker again, which turns its ledgers off when a disk is full.
    broker.kill();
    disk.grow("64m");
    broker.restart();
    let mut reader = connect(&broker, 1, None).join(ServerId(2)).1;
    reader.request(LedgerRequest::Follow(LOG));
    assert_eq!(read(&mut reader, last as usize).len() as u64, last, "nothing is lost");
    assert_eq!(append(&mut ledger, last, b"goes on"), last + 1);
    eventually("the trouble is not over", || ledger.status().trouble.is_none().then_some(()));
}

#[test]
fn a_server_that_does_not_read_loses_messages_which_are_counted_and_no_entry() {
    let Some(broker) = Broker::start("slow") else { return };
    let (one, two) = (connect(&broker, 1, None), connect(&broker, 1, None));
    let (mut bus, mut ledger) = one.join(ServerId(1));
    let (mut slow, mut follower) = two.join(ServerId(2));
    let to = Recipient::Server(ServerId(2));
    eventually("messages do not arrive", || {
        bus.publish(to, b"first");
        slow.poll()
    });
    eventually("nothing overflows", || {
        (0..1_000).for_each(|_| bus.publish(to, b"not read"));
        std::thread::sleep(Duration::from_millis(10));
        (slow.counts().overflowed > 0).then_some(())
    });
    follower.request(LedgerRequest::Follow(LOG));
    (0..20).for_each(|last| assert_eq!(append(&mut ledger, last, b"entry"), last + 1));
    assert_eq!(read(&mut follower, 20).last(), Some(&(20, b"entry".to_vec())), "without a gap");
    while slow.poll().is_some() {}
    let message = eventually("messages do not arrive again", || {
        bus.publish(to, b"later");
        std::iter::from_fn(|| slow.poll()).find(|it| it == b"later")
    });
    assert_eq!(message, b"later");
}
