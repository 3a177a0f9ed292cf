//! What hostile players can make a server do, with counts.

use super::*;
use foveate_node::outbox::Outgoing;
use foveate_node::server::{JOIN_COST, VIEW_COST, WATCH_COST, WorkBudget};
use foveate_node::session::{ServerMessage, read_message};

fn hello(name: &str) -> Vec<u8> {
    write_message(&ClientMessage::<u8>::Hello {
        versions: vec![1],
        schema: game().schema().hash(),
        name: name.into(),
        token: Vec::new(),
        resume: None,
    })
}

/// Admits every player that asks, each under a new number.
fn answer(server: &mut Server<Walk>, now: Micros, next: &mut u32, out: &mut RecordingOutbox) {
    while let Some(event) = server.poll() {
        if let ServerEvent::Asked { link, .. } = event {
            *next += 1;
            server.admit(link, PlayerId(*next), &[], now, out).unwrap();
        }
    }
}

#[test]
fn joins_on_one_link_are_limited() {
    let mut server = Server::new(game(), ServerSettings::default(), keys());
    let (mut out, mut joined) = (RecordingOutbox::default(), 0);
    let leave = write_message(&ClientMessage::<u8>::Leave);
    let mut link = Link(0);
    server.connected(link, &mut out);
    // Two thousand tries in ten seconds.
    for attempt in 0..2_000u64 {
        let now = Micros(attempt * 5_000);
        server.message(link, &hello(&format!("eve {attempt}")), now, &mut out);
        answer(&mut server, now, &mut joined, &mut out);
        let closed = out.0.drain(..).any(|it| matches!(it.1, Outgoing::Close(_)));
        if closed {
            // A new link costs a handshake, which the endpoint limits by address.
            link = Link(link.0 + 1);
            server.connected(link, &mut out);
        } else {
            server.message(link, &leave, now, &mut out);
        }
        if link.0 == 1 {
            break;
        }
    }
    let burst = WorkBudget::PLAYER.burst / JOIN_COST;
    assert_eq!(joined, burst, "then the link is closed");
    assert_eq!(server.refusals().sessions.get(&Refusal::Full), Some(&1));
    assert_eq!(server.work().refused, u64::from(JOIN_COST));
}

#[test]
fn names_that_come_and_go_leave_nothing_behind() {
    let mut server = Server::new(game(), ServerSettings::default(), keys());
    let (mut out, mut number) = (RecordingOutbox::default(), 0);
    let leave = write_message(&ClientMessage::<u8>::Leave);
    for name in 0..5_000u64 {
        let now = Micros(name * 50_000);
        server.connected(Link(name), &mut out);
        server.message(Link(name), &hello(&format!("eve {name}")), now, &mut out);
        answer(&mut server, now, &mut number, &mut out);
        server.message(Link(name), &leave, now, &mut out);
        server.closed(Link(name), now);
        server.tick(Tick(name as u32), now, &mut out);
        while server.poll().is_some() {}
        out.0.clear();
    }
    assert_eq!((number, server.players()), (5_000, 0));
    let store = &server.simulation.publisher.store;
    assert_eq!(store.iter().count(), 0);
    assert_eq!(server.simulation.remembered_origins(), 0);
}

#[test]
fn clients_that_break_the_protocol_hold_no_places() {
    let settings = ServerSettings { max_players: 8, ..ServerSettings::default() };
    let mut server = Server::new(game(), settings, keys());
    let (mut out, mut joined) = (RecordingOutbox::default(), 0);
    // All within the time for which a session waits to be resumed.
    for attempt in 0..40u64 {
        let (link, now) = (Link(attempt), Micros(attempt * 50_000));
        server.connected(link, &mut out);
        server.message(link, &hello(&format!("eve {attempt}")), now, &mut out);
        answer(&mut server, now, &mut joined, &mut out);
        let nonsense = if attempt % 2 == 0 { vec![255; 9] } else { hello("eve again") };
        server.message(link, &nonsense, now, &mut out);
        server.closed(link, now);
    }
    assert_eq!((joined, server.players()), (40, 0));
    assert_eq!(server.refusals().sessions.get(&Refusal::Malformed), Some(&40));
    assert_eq!(server.refusals().sessions.get(&Refusal::Full), None);
}

#[test]
fn a_player_joins_once_whatever_the_host_answers() {
    let mut server = Server::new(game(), ServerSettings::default(), keys());
    let (mut out, now) = (RecordingOutbox::default(), Micros(0));
    for (link, name) in [(1, "ada"), (2, "bob")] {
        server.connected(Link(link), &mut out);
        server.message(Link(link), &hello(name), now, &mut out);
    }
    for link in [1, 2, 1] {
        server.admit(Link(link), PlayerId(7), &[], now, &mut out).unwrap();
    }
    assert_eq!(server.players(), 1);
    let refused = |(link, it): &(Link, Outgoing)| match it {
        Outgoing::Message(bytes) => {
            let message = read_message::<ServerMessage>(bytes);
            matches!(message, Some(ServerMessage::Refused { why: Refusal::NameTaken, .. }))
                && *link == Link(2)
        }
        _ => false,
    };
    assert_eq!(out.0.iter().filter(|it| refused(it)).count(), 1);
}

#[test]
fn a_player_whose_objects_do_not_fit_leaves_nothing_behind() {
    let mut server = Server::new(game(), ServerSettings::default(), keys());
    let (mut out, now) = (RecordingOutbox::default(), Micros(0));
    let kind = game().schema().kind(KindId(0)).unwrap().lane_count();
    let id = |serial| ObjectId::new(KindId(0), 7, serial);
    let kept = [(id(0), vec![0; kind]), (id(1), vec![0; kind]), (id(1), vec![0; kind])];
    for attempt in 0..2 {
        server.connected(Link(attempt), &mut out);
        server.message(Link(attempt), &hello("ada"), now, &mut out);
        let fits = &kept[..if attempt == 0 { 3 } else { 2 }];
        let admitted = server.admit(Link(attempt), PlayerId(7), fits, now, &mut out);
        assert_eq!(admitted.is_ok(), attempt == 1, "{admitted:?}");
    }
    assert_eq!((server.players(), server.simulation.publisher.store.iter().count()), (1, 2));
}

#[test]
fn requests_beyond_a_budget_are_counted_and_not_done() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join("ada");
    town.run(20, |_| 0);
    let before = town.server().work();
    for which in 0..100 {
        town.sessions.tell(ada, ClientCommand::SetView(which % 2));
        town.sessions.tell(ada, ClientCommand::Watch(None));
    }
    town.run(5, |_| 0);
    let work = town.server().work();
    let (charged, refused) = (work.charged - before.charged, work.refused - before.refused);
    assert!(charged <= u64::from(WorkBudget::PLAYER.burst), "{charged} units");
    assert_eq!(charged + refused, 100 * u64::from(VIEW_COST + WATCH_COST));
}

#[test]
fn lag_compensation_reaches_no_further_back_than_the_link_explains() {
    let mut town = Town::new(ServerSettings::default());
    let ada = town.join("ada");
    town.run(40, |_| 0);
    let avatar = town.avatar(ada);
    let link = town.server().present_players().next().unwrap().link.unwrap();
    let now = town.server().simulation.publisher.store.tick();
    // A round trip takes two rounds; three more are allowed for acknowledgements, jitter and display.
    for (ago, late) in [(3, 0), (30, 1)] {
        let (time, seen) = (town.now(), now.minus(ago).0);
        let ask = write_message(&ClientMessage::Ask { object: avatar.0, action: 1u8, seen });
        let mut out = RecordingOutbox::default();
        town.server().message(link, &ask, time, &mut out);
        assert_eq!(town.server().refusals().late, late, "{ago} ticks ago");
    }
}
