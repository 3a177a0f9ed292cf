//! Every rule of the protocol, each on nodes that are stepped by hand.

use super::message::{
    BadMessage, Draft, Full, HEADER, Header, MAX_FULL, MAX_MESSAGE, MAX_RECIPIENTS, Payload,
    SilacMessage, SilacMessageKind, SilacParticipant, State,
};
use super::peers::{Arrival, MAX_AHEAD, NumberWindow};
use super::*;

const FRAME: Micros = Micros(50_000);
const GAME: u32 = 7;

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 27_960))
}

fn id(last: u8) -> NodeId {
    NodeId::of(address(last))
}

fn at(x: f32) -> SilacAvatar {
    let (position, facing) = ([x, 50.0, 0.0], [1.0, 0.0, 0.0]);
    SilacAvatar { position, facing, state: 1, weapon: 2 }
}

fn standing(x: f32) -> SilacFrame {
    SilacFrame { avatar: at(x), act: None }
}

fn acting(element: u32, lasting: bool) -> SilacFrame {
    SilacFrame { avatar: at(1.0), act: Some(Act { element, lasting, frames: 1 }) }
}

fn node(last: u8, settings: SilacSettings) -> Silac {
    let me = Me { address: address(last), name: format!("player {last}"), model: 3 };
    Silac::new(settings, me, u64::from(last))
}

fn participant(last: u8, name: &str) -> SilacParticipant<'_> {
    SilacParticipant { id: id(last), avatar: at(1.0), model: 3, name, address: address(last) }
}

/// What a node sent, and its events.
#[derive(Default)]
struct NodeOutput {
    sent: Vec<(SocketAddr, Vec<u8>)>,
    events: Vec<SilacEvent>,
}

impl NodeOutput {
    fn messages(&self) -> Vec<(SocketAddr, SilacMessage<'_>)> {
        self.sent.iter().map(|(to, bytes)| (*to, SilacMessage::read(bytes).unwrap())).collect()
    }

    fn of_kind(&self, kind: SilacMessageKind) -> Vec<(SocketAddr, SilacMessage<'_>)> {
        self.messages().into_iter().filter(|(_, message)| message.kind == kind).collect()
    }
}

fn drain(node: &mut Silac) -> NodeOutput {
    let mut said = NodeOutput::default();
    while let Some(output) = node.poll() {
        match output {
            Output::Transmit(to, bytes) => said.sent.push((to, bytes)),
            Output::Event(event) => said.events.push(event),
            Output::WakeAt(_) => {}
        }
    }
    said
}

fn frame(node: &mut Silac, now: Micros, frame: SilacFrame) -> NodeOutput {
    node.handle(now, SilacInput::Frame(frame));
    drain(node)
}

fn give(node: &mut Silac, now: Micros, from: u8, bytes: &[u8]) -> NodeOutput {
    node.handle(now, SilacInput::Datagram(address(from), bytes));
    drain(node)
}

fn bytes_of(
    kind: SilacMessageKind,
    hop: u8,
    number: u32,
    payload: &[u8],
    recipients: &[NodeId],
) -> Vec<u8> {
    let header = Header { hop, port: 27_960, game: GAME, number, last: 0 };
    Draft::new(kind, header, payload, 1_000, recipients).to(0, &[])
}

fn state_of(last: u8, x: f32) -> State {
    State { id: id(last), avatar: at(x), done: None, withdrawn: None }
}

/// A founder that accepted players 2, 3 and so on.
fn founder(peers: u8, settings: SilacSettings) -> Silac {
    let mut node = node(1, settings);
    node.handle(Micros(0), SilacInput::Found { game: GAME, frame: standing(1.0) });
    drain(&mut node);
    for last in 2..2 + peers {
        let name = format!("player {last}");
        let payload = message::join(&participant(last, &name), 0, 0);
        // Hop 2, so that it is not passed on.
        let said = give(
            &mut node,
            Micros(0),
            last,
            &bytes_of(SilacMessageKind::Join, 2, 1, &payload, &[]),
        );
        assert!(said.events.contains(&SilacEvent::Appeared(id(last))));
    }
    node
}

fn few(fan_out: usize) -> SilacSettings {
    SilacSettings { fan_out, ..SilacSettings::default() }
}

#[test]
fn messages_have_the_source_s_sizes_and_are_read_back() {
    let to = [id(2), id(3)];
    let state = State {
        done: Some(Interaction::new(9, true, 4)),
        withdrawn: Some(Interaction::new(9, false, 5)),
        ..state_of(1, 3.5)
    };
    let bytes = bytes_of(SilacMessageKind::State, 1, 77, &message::state(&state), &to);
    assert_eq!(bytes.len(), HEADER + 40 + 8 + 4 * to.len());
    assert_eq!(bytes[..4], [9, 1, 56, 109], "type, hop, port");
    let read = SilacMessage::read(&bytes).unwrap();
    assert_eq!((read.kind, read.payload), (SilacMessageKind::State, Payload::State(state)));
    assert_eq!((read.header.number, read.header.game, read.uplink), (77, GAME, 1_000));
    assert_eq!(read.recipients.iter().collect::<Vec<_>>(), to);

    let subject = participant(1, "zoë");
    let join = bytes_of(SilacMessageKind::Join, 0, 1, &message::join(&subject, 5, 6), &[]);
    assert_eq!(SilacMessage::read(&join).unwrap().payload, Payload::Join(subject, 5, 6));
    let six = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 9));
    let subject = SilacParticipant { address: six, ..subject };
    let accept = bytes_of(SilacMessageKind::Accept, 0, 1, &message::accept(&subject), &[]);
    assert_eq!(SilacMessage::read(&accept).unwrap().payload, Payload::Accept(subject));

    let deed = Full {
        interaction: Interaction::new(9, true, 4),
        position: [1.0, 2.0, 3.0],
        facing: [0.0, 1.0, 0.0],
        first: 70,
        frames: 3,
    };
    let full = bytes_of(SilacMessageKind::Full, 2, 80, &message::full(id(1), &[deed; 20]), &[]);
    let Payload::Full(by, deeds) = SilacMessage::read(&full).unwrap().payload else { panic!() };
    assert_eq!((by, deeds.iter().collect::<Vec<_>>()), (id(1), vec![deed; MAX_FULL]));
}

#[test]
fn the_largest_message_fits_a_datagram() {
    let deed = Full {
        interaction: Interaction::new(0, true, 0),
        position: [0.0; 3],
        facing: [0.0; 3],
        first: 1,
        frames: 1,
    };
    let many: Vec<NodeId> = (0..1_000).map(NodeId).collect();
    let header = Header { hop: 0, port: 1, game: GAME, number: 1, last: 0 };
    let payload = message::full(id(1), &[deed; MAX_FULL]);
    let bytes = Draft::new(SilacMessageKind::Full, header, &payload, 0, &many).to(0, &many);
    assert!(bytes.len() <= MAX_MESSAGE, "{}", bytes.len());
    let read = SilacMessage::read(&bytes).unwrap();
    assert_eq!(read.recipients.iter().count(), MAX_RECIPIENTS);
    assert_eq!(read.asked.iter().count(), message::MAX_ASKED);
    assert_eq!(bytes[0], 10 | 64, "the type of a message that asks has the bit of type 64");
}

#[test]
fn invalid_messages_are_rejected_with_their_reason() {
    let good =
        bytes_of(SilacMessageKind::State, 0, 1, &message::state(&state_of(2, 1.0)), &[id(3)]);
    for cut in 0..good.len() {
        assert!(SilacMessage::read(&good[..cut]).is_err(), "cut at {cut}");
    }
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let longer: Vec<u8> = good.iter().copied().chain([0]).collect();
    for (bytes, why) in [
        (with(0, 32), BadMessage::Type(32)),
        (with(1, 3), BadMessage::Hop(3)),
        (with(16, 39), BadMessage::PayloadSize),
        (with(HEADER + 40 + 5, 1), BadMessage::List(257)),
        (longer, BadMessage::Trailing(1)),
        (vec![9; MAX_MESSAGE + 1], BadMessage::TooLong(MAX_MESSAGE + 1)),
        (bytes_of(SilacMessageKind::Reject, 0, 1, &[6], &[]), BadMessage::Payload("code")),
    ] {
        assert_eq!(SilacMessage::read(&bytes), Err(why));
    }
}

#[test]
fn any_bytes_are_read_or_rejected_and_admit_no_peer() {
    let (mut here, mut elsewhere) = (founder(3, few(2)), founder(3, few(2)));
    let mut rng = Rng::with_seed(1);
    let good =
        bytes_of(SilacMessageKind::State, 0, 5, &message::state(&state_of(2, 1.0)), &[id(3)]);
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
        }
        if rng.u8(..4) == 0 {
            bytes.truncate(rng.usize(..bytes.len()));
        }
        let said = give(&mut here, Micros(1), 9, &bytes);
        assert!(said.sent.len() <= message::MAX_ASKED);
        // The same bytes, but of another game.
        if let Some(byte) = bytes.get_mut(4) {
            *byte = 99;
        }
        let said = give(&mut elsewhere, Micros(1), 9, &bytes);
        assert!(said.events.is_empty() && said.sent.len() <= 1, "at most a reject");
    }
    let (here, elsewhere) = (here.counters(), elsewhere.counters());
    assert!(here.unreadable > 1_000 && here.impossible > 100, "{here:?}");
    assert_eq!(elsewhere.other_game + elsewhere.unreadable, 20_000, "{elsewhere:?}");
}

#[test]
fn a_message_waits_for_one_to_four_frames_with_even_odds() {
    let mut waits = [0u32; 6];
    let mut node = founder(5, few(2));
    for number in 2..2_002 {
        let bytes =
            bytes_of(SilacMessageKind::State, 0, number, &message::state(&state_of(2, 1.0)), &[]);
        let now = FRAME;
        give(&mut node, now, 2, &bytes);
        for wait in 1..=5u32 {
            let said = frame(&mut node, now, standing(1.0));
            let passed_on = |(_, m): &(SocketAddr, SilacMessage<'_>)| m.header.hop == 1;
            if said.messages().iter().any(passed_on) {
                waits[wait as usize] += 1;
            }
        }
    }
    assert_eq!((waits[0], waits[5], waits.iter().sum::<u32>()), (0, 0, 2_000));
    assert!(waits[1..5].iter().all(|count| (420..580).contains(count)), "{waits:?}");
}

/// What leaves within five frames after copies of a message came from these nodes.
fn passed_on(from: &[u8], hop: u8) -> (Vec<(u8, Vec<NodeId>)>, SilacCounters) {
    let mut node = founder(8, few(2));
    let payload = message::state(&state_of(2, 9.0));
    for sender in from {
        give(
            &mut node,
            FRAME,
            *sender,
            &bytes_of(SilacMessageKind::State, hop, 4, &payload, &[id(3)]),
        );
    }
    let mut left = Vec::new();
    for _ in 0..5 {
        let said = frame(&mut node, FRAME, standing(1.0));
        for (to, message) in said.messages() {
            let Payload::State(state) = message.payload else { panic!() };
            if state.id == id(2) {
                assert!(![address(2), address(from[0])].contains(&to), "they have it");
                left.push((message.header.hop, message.recipients.iter().collect()));
            }
        }
    }
    (left, node.counters())
}

#[test]
fn copies_from_two_others_suppress_a_message_and_from_one_do_not() {
    assert_eq!(passed_on(&[2], 0).0.len(), 2);
    assert_eq!(passed_on(&[2, 3], 0).0.len(), 2);
    assert_eq!(passed_on(&[2, 3, 3, 3], 0).0.len(), 2, "others, not copies");
    let (left, counters) = passed_on(&[2, 3, 4], 0);
    assert_eq!((left.len(), counters.suppressed, counters.again), (0, 1, 2));
}

#[test]
fn a_message_has_three_senders_and_its_tail_grows() {
    let (left, _) = passed_on(&[2], 0);
    assert!(left.iter().all(|(hop, listed)| *hop == 1 && (2..=3).contains(&listed.len())));
    assert!(left.iter().all(|(_, listed)| listed.contains(&id(3))), "the earlier recipients");
    let (left, _) = passed_on(&[5], 1);
    assert!(left.len() == 2 && left.iter().all(|(hop, _)| *hop == 2));
    assert!(passed_on(&[5], 2).0.is_empty());
}

#[test]
fn accepts_and_questions_are_not_passed_on() {
    let mut node = founder(4, few(2));
    let accept = message::accept(&participant(9, "nine"));
    give(&mut node, FRAME, 9, &bytes_of(SilacMessageKind::Accept, 0, 4, &accept, &[]));
    assert_eq!(node.peer(id(9)).unwrap().name, "nine");
    let header = Header { hop: 0, port: 27_960, game: GAME, number: 4, last: 0 };
    let payload = message::state(&state_of(2, 9.0));
    let asking =
        Draft::new(SilacMessageKind::State, header, &payload, 0, &[]).to(0, &[id(3), id(77)]);
    let said = give(&mut node, FRAME, 2, &asking);
    let answers = said.of_kind(SilacMessageKind::Accept);
    assert_eq!(answers.len(), 1, "of two asked for, one is known");
    let Payload::Accept(subject) = answers[0].1.payload else { panic!() };
    assert_eq!((answers[0].0, subject.id, subject.address), (address(2), id(3), address(3)));
    let mut passed = 0;
    for _ in 0..5 {
        let said = frame(&mut node, FRAME, standing(1.0));
        assert!(said.of_kind(SilacMessageKind::Accept).is_empty());
        let asks = |(_, m): &(SocketAddr, SilacMessage<'_>)| m.asked.iter().count() > 0;
        assert!(!said.messages().iter().any(asks));
        passed += said.messages().iter().filter(|(_, m)| m.header.hop == 1).count();
    }
    assert_eq!(passed, 2, "the message that asked is, without its question");
}

#[test]
fn an_unknown_participant_that_is_named_is_asked_for() {
    let (mut ada, mut bob) = (founder(2, few(1)), founder(1, few(1)));
    // Bob, player 2 here, does not know player 3 in a list of recipients.
    let payload = message::state(&state_of(2, 9.0));
    give(&mut bob, FRAME, 2, &bytes_of(SilacMessageKind::State, 0, 2, &payload, &[id(3)]));
    let said = frame(&mut bob, FRAME, standing(1.0));
    let (to, question) = &said.sent[0];
    assert_eq!((*to, question[0]), (address(2), 9 | 64));
    let asked: Vec<_> = SilacMessage::read(question).unwrap().asked.iter().collect();
    assert_eq!((asked, bob.counters().asked), (vec![id(3)], 1));
    let said = give(&mut ada, FRAME, 1, question);
    let (_, answer) = said.sent.iter().find(|(_, bytes)| bytes[0] == 1).unwrap();
    let said = give(&mut bob, FRAME, 2, answer);
    assert_eq!(said.events, [SilacEvent::Appeared(id(3))]);
    assert_eq!(bob.peer(id(3)).unwrap().name, "player 3");
    let unasked = message::accept(&participant(8, "eight"));
    give(&mut bob, FRAME, 2, &bytes_of(SilacMessageKind::Accept, 0, 3, &unasked, &[]));
    assert!(bob.peer(id(8)).is_none() && bob.counters().impossible == 1);
}

#[test]
fn every_header_says_what_came_last_from_the_addressee() {
    let mut node = founder(3, few(3));
    for (sender, number) in [(2, 40), (2, 39), (3, 7)] {
        let payload = message::state(&state_of(sender, 1.0));
        give(
            &mut node,
            FRAME,
            sender,
            &bytes_of(SilacMessageKind::State, 2, number, &payload, &[]),
        );
    }
    let said = frame(&mut node, FRAME, standing(1.0));
    let mut last: Vec<_> = said.messages().iter().map(|(to, m)| (*to, m.header.last)).collect();
    last.sort();
    assert_eq!(last, [(address(2), 40), (address(3), 7), (address(4), 0)]);
}

#[test]
fn half_of_the_free_uplink_is_announced() {
    let settings = SilacSettings { uplink: 100_000, ..few(3) };
    let mut node = founder(3, settings);
    for _ in 0..METERED {
        frame(&mut node, FRAME, standing(1.0));
    }
    let said = frame(&mut node, FRAME, standing(1.0));
    let each = (HEADER + 40 + 8 + 4 * 3) as u32 * 3;
    // The message is written when nineteen frames have been sent in full.
    let expected = (100_000 - each * 19) / 2;
    assert_eq!(said.messages()[0].1.uplink, expected);
    assert_eq!(node.peer(id(2)).unwrap().uplink, 1_000, "as it announced");
}

#[test]
fn later_deeds_are_carried_more_often_and_the_lasting_fade_later() {
    let carried = |lasting: bool| {
        let mut path = path::Path::default();
        let deed = path.act(Act { element: 3, lasting, frames: 1 }, &at(0.0), 10, Micros(0));
        let frames: Vec<u32> =
            (10..200).filter(|frame| path.carry(*frame).0 == Some(deed)).collect();
        frames
    };
    let (shot, lasting) = (carried(false), carried(true));
    assert_eq!((shot[0], lasting[0]), (10, 10), "at once");
    assert!((2..=4).contains(&shot.len()) && *shot.last().unwrap() <= 10 + 1 + FADE, "{shot:?}");
    let (early, late) = lasting.split_at(lasting.partition_point(|frame| *frame < 30));
    assert!(early.len() > 8 && early.len() > 2 * late.iter().filter(|f| **f < 50).count());
    assert!(*lasting.last().unwrap() > 70 && *lasting.last().unwrap() <= 11 + LASTING_FADE);
    let mut path = path::Path::default();
    let old = path.act(Act { element: 3, lasting: true, frames: 1 }, &at(0.0), 10, Micros(0));
    (10..40).for_each(|frame| assert!([None, Some(old)].contains(&path.carry(frame).0)));
    let new = path.act(Act { element: 4, lasting: true, frames: 1 }, &at(0.0), 40, Micros(0));
    let count = |path: &path::Path, which| {
        let mut path = path.clone();
        (40..60).filter(|frame| path.carry(*frame).0 == Some(which)).count()
    };
    assert!(count(&path, new) > count(&path, old) && count(&path, old) > 0);
}

/// Steps a founder with one peer that reports what it received last, for a number of frames. Returns the full
/// interaction messages that the peer is sent.
fn corrected(lasting: bool, report: impl Fn(u32, &[u32]) -> u32) -> Vec<u32> {
    let mut node = founder(1, few(1));
    let (mut carried, mut full) = (Vec::new(), Vec::new());
    for step in 1..60u32 {
        let now = FRAME * step;
        let deed = if step == 1 { acting(5, lasting) } else { standing(1.0) };
        let said = frame(&mut node, now, deed);
        for (_, message) in said.messages() {
            match message.payload {
                Payload::State(State { done: Some(_), .. }) => carried.push(message.header.number),
                Payload::Full(by, deeds) => {
                    let deeds: Vec<Full> = deeds.iter().collect();
                    assert_eq!((by, deeds[0].interaction.element()), (id(1), 5));
                    assert_eq!((deeds[0].first, deeds[0].frames), (2, 1));
                    full.push(message.header.number);
                }
                _ => {}
            }
        }
        let (last, number) = (report(node.frame(), &carried), step + 1);
        let header = Header { hop: 2, port: 27_960, game: GAME, number, last };
        let payload = message::state(&state_of(2, 1.0));
        let bytes = Draft::new(SilacMessageKind::State, header, &payload, 0, &[]).to(last, &[]);
        give(&mut node, now, 2, &bytes);
    }
    full
}

#[test]
fn a_lost_interaction_that_changes_the_world_is_sent_again_in_full() {
    // The peer receives only the messages that carry nothing.
    let deaf = |frame: u32, carried: &[u32]| {
        (1..=frame).rev().find(|number| !carried.contains(number)).unwrap_or(0)
    };
    let full = corrected(true, deaf);
    assert_eq!(full.len(), usize::from(path::MAX_TOLD), "{full:?}");
    assert!(full[0] >= 2 + path::GRACE && full.windows(2).all(|w| w[1] - w[0] >= 8));
    assert!(corrected(false, deaf).is_empty(), "a shot is not");
    assert!(corrected(true, |frame, _| frame).is_empty(), "nor what arrived");
    let one = |_: u32, carried: &[u32]| carried.get(1).copied().unwrap_or(0);
    assert!(corrected(true, one).is_empty(), "one message that carried it is enough");
    assert!(corrected(true, |_, _| 0).is_empty(), "nothing is lost before anything later came");
}

#[test]
fn a_full_interaction_is_learnt_once_and_may_be_a_withdrawal() {
    let mut node = founder(2, few(1));
    let deed = Full {
        interaction: Interaction::new(5, true, 0),
        position: [0.0; 3],
        facing: [1.0, 0.0, 0.0],
        first: 3,
        frames: 4,
    };
    let told = |number, frames| {
        let payload = message::full(id(2), &[Full { frames, ..deed }]);
        bytes_of(SilacMessageKind::Full, 1, number, &payload, &[])
    };
    let did = SilacEvent::Did(id(2), deed.interaction);
    assert_eq!(give(&mut node, FRAME, 3, &told(9, 4)).events, [did]);
    assert!(give(&mut node, FRAME, 3, &told(10, 4)).events.is_empty());
    let undone = SilacEvent::Withdrew(id(2), deed.interaction);
    assert_eq!(give(&mut node, FRAME, 3, &told(11, 0)).events, [undone]);
    assert!(give(&mut node, FRAME, 3, &told(12, 4)).events.is_empty(), "it stays undone");
}

/// What a founder answers to a request, and whether it passes the request on.
fn answer(
    game: u32,
    map: u32,
    subject: &SilacParticipant<'_>,
) -> (SocketAddr, SilacMessageKind, Option<Reject>) {
    let mut node = founder(2, few(2));
    let header = Header { hop: 0, port: 27_960, game, number: 1, last: 0 };
    let payload = message::join(subject, map, 0);
    let bytes = Draft::new(SilacMessageKind::Join, header, &payload, 0, &[]).to(0, &[]);
    let said = give(&mut node, FRAME, 9, &bytes);
    let (to, message) = said.messages()[0];
    let reject = match message.payload {
        Payload::Reject(reject) => Some(reject),
        _ => None,
    };
    let answer = (to, message.kind, reject);
    let code = reject.map(|reject| node.counters().rejected[reject as usize - 1]);
    assert!(code.is_none_or(|count| count == 1));
    let passed = |node: &mut Silac| {
        !frame(node, FRAME, standing(1.0)).of_kind(SilacMessageKind::Join).is_empty()
    };
    assert_eq!((0..5).any(|_| passed(&mut node)), reject.is_none());
    answer
}

#[test]
fn newcomers_are_rejected_with_the_source_s_codes() {
    let nine = participant(9, "nine");
    assert_eq!(answer(GAME, 0, &nine), (address(9), SilacMessageKind::Accept, None));
    let with = |position| SilacParticipant { avatar: SilacAvatar { position, ..at(1.0) }, ..nine };
    let codes = [
        (answer(GAME, 0, &with([f32::NAN, 0.0, 0.0])), Reject::Avatar),
        (answer(GAME, 0, &SilacParticipant { name: "", ..nine }), Reject::Avatar),
        (answer(GAME, 0, &with([400.0, 0.0, 0.0])), Reject::Outside),
        (answer(GAME, 1, &nine), Reject::Game),
        (answer(GAME + 1, 0, &nine), Reject::Game),
        (answer(GAME, 0, &SilacParticipant { name: "player 2", ..nine }), Reject::Name),
        (answer(GAME, 0, &SilacParticipant { name: "player 1", ..nine }), Reject::Name),
        (answer(GAME, 0, &SilacParticipant { id: id(8), ..nine }), Reject::Address),
    ];
    for (found, expected) in codes {
        assert_eq!(found, (address(9), SilacMessageKind::Reject, Some(expected)));
    }
    assert_eq!(Reject::ALL.map(|reject| reject as u8), [1, 2, 3, 4, 5]);
}

fn joining() -> Silac {
    let mut node = node(9, few(2));
    let contacts = [address(1)];
    node.handle(
        Micros(0),
        SilacInput::Join { game: GAME, contacts: &contacts, frame: standing(1.0) },
    );
    node
}

#[test]
fn a_rejected_or_unanswered_node_stops_trying() {
    let mut node = joining();
    let said = give(&mut node, FRAME, 1, &bytes_of(SilacMessageKind::Reject, 0, 1, &[4], &[]));
    assert_eq!(said.events, [SilacEvent::Rejected(Reject::Name)]);
    assert!(frame(&mut node, FRAME, standing(1.0)).sent.is_empty());

    let mut node = joining();
    let mut asked = drain(&mut node).sent.len();
    for step in 1..400 {
        let said = frame(&mut node, FRAME * step, standing(1.0));
        asked += said.sent.len();
        if said.events.contains(&SilacEvent::Unanswered) {
            break;
        }
    }
    assert_eq!((asked, node.is_in()), (MAX_JOINS as usize, false));
    assert!(frame(&mut node, FRAME * 500, standing(1.0)).sent.is_empty());
}

#[test]
fn a_restarted_node_counts_as_new() {
    let mut node = founder(2, few(1));
    let state = |number| {
        bytes_of(SilacMessageKind::State, 2, number, &message::state(&state_of(2, 7.0)), &[])
    };
    give(&mut node, FRAME, 2, &state(900));
    assert_eq!(node.peer(id(2)).unwrap().newest(), 900);
    let join = message::join(&participant(2, "player 2"), 0, 0);
    let said = give(&mut node, FRAME, 2, &bytes_of(SilacMessageKind::Join, 2, 1, &join, &[]));
    assert_eq!(said.of_kind(SilacMessageKind::Accept).len(), 1);
    give(&mut node, FRAME, 2, &state(3));
    assert_eq!(node.peer(id(2)).unwrap().newest(), 3);
    let said = give(&mut node, FRAME, 2, &bytes_of(SilacMessageKind::Join, 2, 1, &join, &[]));
    assert!(said.sent.is_empty(), "a copy of the same request");
}

#[test]
fn impossible_states_are_refused_and_counted() {
    let mut node = founder(2, few(1));
    let give_state = |node: &mut Silac, number, x| {
        let payload = message::state(&state_of(2, x));
        give(node, FRAME, 2, &bytes_of(SilacMessageKind::State, 0, number, &payload, &[]));
    };
    give_state(&mut node, 500, 2.0);
    give_state(&mut node, 500 + MAX_AHEAD + 1, 3.0);
    give_state(&mut node, 400, 4.0);
    give_state(&mut node, 501, f32::INFINITY);
    give_state(&mut node, 499, 5.0);
    let peer = node.peer(id(2)).unwrap();
    assert_eq!((peer.newest(), peer.avatar.position[0]), (500, 2.0));
    assert_eq!(node.counters().impossible, 3);
}

#[test]
fn a_window_tells_new_from_old() {
    let mut window = NumberWindow::default();
    let arrivals = [10, 12, 11, 12, 200, 136, 137, 137].map(|number| window.note(number));
    use Arrival::{Again, Late, Newest, Refused};
    assert_eq!(arrivals, [Newest, Newest, Late, Again, Newest, Refused, Late, Again]);
}
