//! Which players receive events and how, and what happens to events for which there is no room.

use super::*;
use foveate_node::outbox::Outgoing;

/// Makes the object of `of` emit an event at a place, on an action of `by`.
fn happens(town: &mut Town, by: usize, of: usize, pos: [f32; 2], event: u8) {
    let (id, steps) = (town.avatar(of), town.walker(of).steps);
    town.put(id, &Walker { pos, steps });
    town.run(2, |_| 0);
    town.sessions.tell(by, ClientCommand::Ask(id, event));
}

fn heard(town: &mut Town, at: usize) -> Vec<u8> {
    let news = town.news(at).into_iter();
    news.filter_map(|news| if let News::Event(event) = news { Some(event) } else { None }).collect()
}

#[test]
fn reliable_events_arrive_in_order_although_most_datagrams_are_lost() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join("ada");
    town.run(20, |_| 0);
    town.set_loss(0.7);
    for event in [101, 42, 102, 103] {
        happens(&mut town, ada, ada, [0.0, 1.0], event);
    }
    town.run(60, |_| 0);
    assert_eq!(heard(&mut town, ada), [101, 102, 103], "the other one went with its frame");
    let counts = town.server().event_counts();
    assert_eq!((counts.reliable, counts.unreliable, counts.dropped), (3, 1, 0));
}

#[test]
fn clients_of_the_version_before_get_reliable_events_with_their_frames() {
    let mut town = Town::new(ServerSettings::default());
    let hello = ClientMessage::<u8>::Hello {
        versions: vec![1],
        schema: game().schema().hash(),
        name: "old".into(),
        token: vec![],
        resume: None,
    };
    let (link, now, mut out) = (Link(STRANGER), town.now(), RecordingOutbox::default());
    town.server().connected(link, &mut out);
    town.server().message(link, &write_message(&hello), now, &mut out);
    town.run(3, |_| 0);
    let id = ObjectId::new(KindId(0), 1, 0);
    let ask = ClientMessage::Ask { object: id.0, action: 101u8, seen: 0 };
    let (now, tick) = (town.now(), Tick(town.round as u32 + 1));
    town.server().message(link, &write_message(&ask), now, &mut out);
    let mut out = RecordingOutbox::default();
    town.server().tick(tick, now, &mut out);
    let told = out.0.iter().map(|(_, packet)| packet);
    assert!(told.clone().all(|packet| !matches!(packet, Outgoing::Message(_))), "no new message");
    let mut frames = told.filter_map(|packet| match packet {
        Outgoing::Datagram(bytes) => foveate_node::session::ServerDatagram::read(bytes),
        _ => None,
    });
    assert!(frames.any(|frame| frame.events == [101]));
}

#[test]
fn events_for_which_there_is_no_room_are_counted() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join("ada");
    town.run(20, |_| 0);
    let by = Requester::Object(ObjectId::new(KindId(0), 1, 0));
    for _ in 0..1_000 {
        assert!(town.server().simulation.ask(ObjectId::new(KindId(0), 1, 0), 42, by));
    }
    town.run(6, |_| 0);
    let (told, counts) = (heard(&mut town, ada).len() as u64, town.server().event_counts());
    assert_eq!((told, counts.unreliable, counts.dropped), (900, 900, 100));
}

#[test]
fn events_are_noticed_from_all_eyes_and_once() {
    let mut town = Town::new(ServerSettings::default());
    let (ada, bob) = (town.join("ada"), town.join("bob"));
    let cid = town.join("cid");
    town.run(20, |_| 0);
    let id = town.avatar(cid);
    town.put(id, &Walker { pos: [40.0, 3.0], steps: SCOUT });
    town.run(10, |_| 0);
    happens(&mut town, ada, bob, [0.0, 2.0], 42);
    town.run(6, |_| 0);
    assert_eq!(heard(&mut town, cid), [42], "40 units off, and near an eye");
    // Near both eyes: once.
    happens(&mut town, ada, cid, [1.0, 2.0], 43);
    town.run(6, |_| 0);
    assert_eq!(heard(&mut town, cid), [43]);
}

#[test]
fn with_a_zoom_events_are_noticed_farther_ahead_and_not_behind() {
    let mut town = Town::new(ServerSettings::default());
    let (ada, bob) = (town.join("ada"), town.join("bob"));
    let cid = town.join("cid");
    town.run(20, |_| 0);
    town.sessions.tell(ada, ClientCommand::SetView(2));
    town.run(6, |_| 0);
    // All players look along +x, and events carry five units.
    happens(&mut town, bob, cid, [8.0, 1.0], 42);
    town.run(6, |_| 0);
    assert_eq!((heard(&mut town, ada), heard(&mut town, bob)), (vec![42], vec![]));
    happens(&mut town, bob, cid, [-8.0, 1.0], 43);
    town.run(6, |_| 0);
    assert_eq!((heard(&mut town, ada), heard(&mut town, bob)), (vec![], vec![]));
}
