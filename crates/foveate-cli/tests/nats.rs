//! Region servers as processes with a real NATS server: killed, stopped and drained servers, a killed broker, servers
//! that do not belong to the world.

#[path = "../../foveate-io/tests/nats/broker.rs"]
mod broker;
mod region_support;
#[path = "region_support/servers.rs"]
mod servers;

use broker::Broker;
use foveate_io::region::{Ledger, LedgerReply, NatsOptions, NatsWorld, WorldKey, WorldName};
use foveate_node::region::layout::ServerId;
use foveate_node::region::ledger::{AppendId, LedgerRequest, Subject, write_record};
use region_support::{Process, eventually, get, regions, scratch};
use servers::{SERVERS, Seen, arguments, begin, key, owner, protected, settled};
use std::path::Path;
use std::time::{Duration, Instant};

/// Appends a layout record that a later version of the program might write.
fn append_later_layout(url: &str, key: &str) {
    let world: WorldName = "meadow".parse().expect("a name");
    let key = WorldKey::read(&world, Path::new(key)).expect("a key");
    let (url, patience) = (url.to_owned(), Duration::from_secs(20));
    let options = NatsOptions { url, credentials: None, replicas: 1, max_bytes: None, patience };
    let server = ServerId(u32::MAX);
    let mut ledger = NatsWorld::connect(options, &world, &key).expect("it is there").join(server).1;
    ledger.request(LedgerRequest::Follow(Subject::Layout));
    let bytes = write_record(&(AppendId { server, number: 1 }, vec![99u8; 8]));
    let mut last = 0;
    eventually(|| {
        while let Some(reply) = ledger.poll() {
            match reply {
                LedgerReply::Entry(_, number, _) => last = number,
                LedgerReply::Answer(..) => return Ok(()),
            }
        }
        if last > 0 {
            let (subject, bytes) = (Subject::Layout, bytes.clone());
            ledger.request(LedgerRequest::Append { request: 1, subject, last, bytes });
        }
        Err(format!("not appended behind {last}"))
    });
}

#[test]
fn a_layout_record_that_cannot_be_read_is_named_and_regions_go_on() {
    let Some(broker) = Broker::start("layout") else { return };
    let folder = scratch("region-layout");
    let (url, key) = (broker.url(), key(&folder, "world.key"));
    let first = [Process::start(&arguments(&url, &key))];
    let (before, objects) = settled(&first, 1, None);
    append_later_layout(&url, &key);
    let said = "a layout record cannot be used";
    let why = "the layout record has version 99, this server reads version 1";
    eventually(|| {
        let text = first[0].text();
        if text.contains(said) && text.contains(why) { Ok(()) } else { Err(text) }
    });
    let (after, _) = settled(&first, 1, Some(objects));
    assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
    drop(first);
    std::fs::remove_dir_all(folder).expect("it is ours");
}

#[test]
fn servers_that_die_stop_or_leave_are_replaced_and_no_object_is_lost() {
    let Some(broker) = Broker::start("servers") else { return };
    let folder = scratch("region-servers");
    let (url, key) = (broker.url(), key(&folder, "world.key"));
    let (mut processes, objects) = begin(&url, &key);

    let mut dead = processes.remove(owner(&processes));
    let (before, _) = settled(&processes, SERVERS - 1, None);
    let begun = Instant::now();
    dead.signal("-KILL");
    dead.ended();
    let (after, _) = settled(&processes, SERVERS, Some(objects));
    println!("killed: all {SERVERS} regions are run again after {:?}", begun.elapsed());
    let taken = after.keys().find(|region| !before.contains_key(region)).expect("one was taken");
    assert!(after[taken].epoch > 1, "in a higher epoch: {after:?}");
    protected(&processes, SERVERS);

    let paused = processes.remove(owner(&processes));
    let begun = Instant::now();
    paused.signal("-STOP");
    let (_, owned) = settled(&processes, SERVERS, Some(objects));
    println!("stopped: all {SERVERS} regions are run again after {:?}", begun.elapsed());
    std::thread::sleep(Duration::from_secs(10).saturating_sub(begun.elapsed()));
    paused.signal("-CONT");
    processes.push(paused);
    settled(&processes, SERVERS, Some(owned));
    protected(&processes, SERVERS);

    let mut leaver = processes.remove(owner(&processes));
    leaver.signal("-TERM");
    assert!(leaver.ended().success(), "{}", leaver.text());
    assert!(leaver.text().contains("all regions are with other servers"), "{}", leaver.text());
    let all: Vec<&Process> = processes.iter().collect();
    eventually(|| {
        let seen = regions(&all);
        let owned: usize = seen.values().map(|it| it.owned).sum();
        let one = seen.values().all(|it| it.acting.len() == 1);
        if one && owned == objects { Ok(()) } else { Err(format!("{objects}: {seen:?}")) }
    });
    drop(processes);
    std::fs::remove_dir_all(folder).expect("it is ours");
}

#[test]
fn a_broker_that_is_killed_stops_no_server() {
    let Some(mut broker) = Broker::start("outage") else { return };
    let folder = scratch("region-outage");
    let (url, key) = (broker.url(), key(&folder, "world.key"));
    let (processes, objects) = begin(&url, &key);
    eventually(|| {
        let links = |it: &Process| {
            let figures = it.figures().into_iter();
            let links = figures.filter(|(name, _)| name.starts_with("foveate_bus_links"));
            links.map(|(_, value)| value).sum::<f64>()
        };
        let found: f64 = processes.iter().map(links).sum();
        let all = (SERVERS * (SERVERS - 1)) as f64;
        if found == all { Ok(()) } else { Err(format!("{found} ends of direct links")) }
    });
    let before = settled(&processes, SERVERS, Some(objects)).0;
    broker.kill();
    let (begun, all) = (Instant::now(), processes.iter().collect::<Vec<_>>());
    while begun.elapsed() < Duration::from_secs(6) {
        let seen = regions(&all);
        let acting = seen.values().filter(|it| !it.acting.is_empty()).count();
        assert_eq!(acting, SERVERS, "after {:?} without a broker: {seen:?}", begun.elapsed());
        std::thread::sleep(Duration::from_millis(200));
    }
    let ready = get(&processes[0].metrics, "/readyz").expect("it answers");
    let said = ["the connection to NATS is lost", "an append failed", "cannot be read"];
    assert!(ready.starts_with("HTTP/1.1 503 "), "{ready}");
    assert!(said.iter().any(|said| ready.contains(said)), "{ready}");
    broker.restart();
    eventually(|| {
        let ready = |it: &Process| get(&it.metrics, "/readyz").unwrap_or_default();
        let all: Vec<String> = processes.iter().map(ready).collect();
        let fine = all.iter().all(|it| it.starts_with("HTTP/1.1 200 "));
        if fine { Ok(()) } else { Err(format!("{all:?}")) }
    });
    let after = settled(&processes, SERVERS, Some(objects)).0;
    let epochs = |seen: &Seen| seen.iter().map(|(id, it)| (*id, it.epoch)).collect::<Vec<_>>();
    assert_eq!(epochs(&before), epochs(&after), "no region changed hands");
    drop(processes);
    std::fs::remove_dir_all(folder).expect("it is ours");
}

#[test]
fn servers_that_do_not_belong_to_the_world_are_told_why() {
    let Some(broker) = Broker::start("strangers") else { return };
    let folder = scratch("region-strangers");
    let (url, key, other) = (broker.url(), key(&folder, "world.key"), key(&folder, "other.key"));
    let first = [Process::start(&arguments(&url, &key))];
    let (_, objects) = settled(&first, 1, None);
    let nowhere = "nats://127.0.0.1:1";
    let with = |key: &str, more: &[&str]| {
        let mut arguments: Vec<String> =
            arguments(&url, key).into_iter().map(str::to_owned).collect();
        arguments.extend(more.iter().map(|it| (*it).to_owned()));
        arguments
    };
    let mut broken = with(&key, &[]);
    broken.iter_mut().filter(|it| **it == url).for_each(|it| *it = nowhere.to_owned());
    let mut misnamed = with(&key, &[]);
    misnamed.iter_mut().filter(|it| *it == "meadow").for_each(|it| *it = "Me adow".to_owned());
    let cases = [
        (with(&other, &[]), "another world of this name?"),
        (with(&key, &["--game", "crowd"]), "run the same game"),
        (with("no-such-file", &[]), "no-such-file"),
        (broken, "is nats-server running there?"),
        (misnamed, "world name"),
    ];
    for (arguments, said) in cases {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut process = Process::spawn(&arguments);
        assert!(!process.ended().success(), "{arguments:?}");
        assert!(process.text().contains(said), "{arguments:?}: {}", process.text());
    }
    settled(&first, 1, Some(objects));
    drop(first);
    std::fs::remove_dir_all(folder).expect("it is ours");
}
