//! A small game: lamps that walk, and light up on request.

use super::*;
use foveate_sync::interest::{View, presets};
use foveate_wire::{Micros, Replicate};

#[derive(Replicate, Clone, PartialEq, Debug)]
struct Lamp {
    #[replicate(place)]
    pos: [f32; 2],
    lit: bool,
    seen: u8,
}

struct Lamps(Arc<Schema>);

impl Game for Lamps {
    type Input = i8;
    type Action = bool;
    type Event = u8;

    fn schema(&self) -> &Arc<Schema> {
        &self.0
    }

    fn avatar(&self) -> KindId {
        KindId(0)
    }

    fn populate(&self) -> Vec<Spawn> {
        let lamp = |x| Spawn::new(&self.0, &Lamp { pos: [x, 0.0], lit: false, seen: 0 });
        [0.0, 3.0, 50.0].into_iter().filter_map(lamp).collect()
    }

    fn welcome(&self, _: &World<'_>, _: PlayerId, _: &str) -> Vec<Spawn> {
        Spawn::new(&self.0, &Lamp { pos: [9.0, 9.0], lit: true, seen: 0 }).into_iter().collect()
    }

    fn step(&self, turn: &mut StepContext<'_, Self>, inputs: &[i8]) {
        let Some(mut lamp) = turn.get::<Lamp>() else { return };
        lamp.pos[0] += inputs.iter().map(|by| f32::from(*by)).sum::<f32>();
        let near = turn.world().near([lamp.pos[0], lamp.pos[1], 0.0], 5.0);
        lamp.seen = near.iter().filter(|id| **id != turn.id()).count() as u8;
        turn.set(&lamp);
    }

    fn act(&self, turn: &mut StepContext<'_, Self>, lit: &bool, by: Requester) {
        let Some(mut lamp) = turn.get::<Lamp>() else { return };
        lamp.lit = *lit;
        turn.set(&lamp);
        turn.event(EventArea::Point { at: [lamp.pos[0], 0.0, 0.0], radius: 10.0 }, 1);
        match by {
            // A player's action is passed on to every lamp that was near when the player looked.
            Requester::Player(_, tick) => {
                let seen = turn.world().as_seen(tick, 20);
                let others = turn.world().near([lamp.pos[0], 0.0, 0.0], 100.0);
                let near = |id: &&ObjectId| seen.get::<Lamp>(**id).is_some_and(|l| l.pos[0] < 10.0);
                let me = turn.id();
                others
                    .iter()
                    .filter(near)
                    .filter(|id| **id != me)
                    .for_each(|id| turn.ask(*id, *lit));
            }
            Requester::Object(_) if lamp.pos[0] > 1_000.0 => turn.remove(),
            Requester::Object(_) => {}
        }
    }

    fn view(&self, _: u8) -> Option<View> {
        Some(presets::broadcast())
    }
}

fn simulation() -> Simulation<Lamps> {
    let schema = Arc::new(Schema::new(vec![Lamp::spec()]).unwrap());
    let mut simulation =
        Simulation::new(Arc::new(Lamps(schema)), Rounds::every(Micros::from_millis(50)));
    simulation.populate().unwrap();
    simulation
}

fn lamp(serial: u32) -> ObjectId {
    ObjectId::new(KindId(0), 0, serial)
}

fn tick(simulation: &mut Simulation<Lamps>, tick: u32) -> usize {
    let mut events = 0;
    simulation.step(Tick(tick), |_, _| events += 1);
    simulation.publisher.round(Tick(tick), Micros(50_000) * tick, |_, _| {});
    events
}

#[test]
fn a_rule_sees_its_neighbours_as_of_the_last_tick() {
    let mut simulation = simulation();
    tick(&mut simulation, 1);
    assert_eq!(simulation.world().get::<Lamp>(lamp(0)).unwrap().seen, 0, "no lamp was near before");
    tick(&mut simulation, 2);
    let seen = |serial| simulation.world().get::<Lamp>(lamp(serial)).unwrap().seen;
    assert_eq!((seen(0), seen(1), seen(2)), (1, 1, 0));
}

#[test]
fn inputs_move_only_their_avatar_and_only_so_many_a_tick() {
    let mut simulation = simulation();
    assert!((0..MAX_INPUTS).all(|_| simulation.input(lamp(2), 2)));
    assert!(!simulation.input(lamp(2), 2), "a client cannot run faster by sending more");
    tick(&mut simulation, 1);
    tick(&mut simulation, 2);
    assert_eq!(
        simulation.world().get::<Lamp>(lamp(2)).unwrap().pos[0],
        50.0 + 2.0 * MAX_INPUTS as f32
    );
}

#[test]
fn actions_are_seen_as_the_asker_saw_the_world_and_spread_by_asking() {
    let mut simulation = simulation();
    for t in 1..=4 {
        tick(&mut simulation, t);
    }
    // The third lamp is near now, but was not when the player looked.
    let moved = Lamp { pos: [4.0, 0.0], lit: false, seen: 0 };
    simulation
        .publisher
        .store
        .set(simulation.publisher.store.find(lamp(2)).unwrap(), &moved)
        .unwrap();
    tick(&mut simulation, 5);
    simulation.ask(lamp(0), true, Requester::Player(PlayerId(1), Tick(4)));
    assert_eq!(tick(&mut simulation, 6), 1);
    assert_eq!(tick(&mut simulation, 7), 1, "other lamps receive the action in the next tick");
    let lit = |serial| simulation.world().get::<Lamp>(lamp(serial)).unwrap().lit;
    assert_eq!((lit(0), lit(1), lit(2)), (true, true, false));
}

#[test]
fn objects_spawn_with_their_origin_and_can_be_restored() {
    let mut simulation = simulation();
    let world = simulation.game.welcome(&simulation.world(), PlayerId(7), "ada");
    let avatar = simulation.spawn(PlayerId(7), &world[0]).unwrap();
    assert_eq!((avatar.origin(), avatar.serial()), (7, 0));
    tick(&mut simulation, 1);
    let slot = simulation.avatar(PlayerId(7)).unwrap();
    let lanes = simulation.publisher.store.lanes(slot).to_vec();
    simulation.publisher.store.remove(slot).unwrap();
    tick(&mut simulation, 2);
    assert!(simulation.world().get::<Lamp>(avatar).is_none());
    simulation.restore(avatar, &lanes).unwrap();
    tick(&mut simulation, 3);
    assert!(simulation.world().get::<Lamp>(avatar).unwrap().lit);
    assert_eq!(
        simulation.spawn(PlayerId(7), &world[0]).unwrap().serial(),
        1,
        "no id is used twice"
    );
}

#[test]
fn events_reach_observers_near_the_line() {
    let shot = EventArea::Segment { from: [0.0; 3], to: [100.0, 0.0, 0.0], radius: 5.0 };
    assert!(shot.reaches([50.0, 4.0, 0.0]) && shot.reaches([-3.0, 0.0, 0.0]));
    assert!(!shot.reaches([50.0, 6.0, 0.0]) && !shot.reaches([106.0, 0.0, 0.0]));
    assert!(EventArea::Point { at: [1.0; 3], radius: 0.1 }.reaches([1.0; 3]));
}

#[test]
fn a_session_that_began_anew_says_so_until_a_client_was_told() {
    use crate::outbox::{Link, RecordingOutbox};
    use crate::session::{MOVING_SESSIONS, ResumeKey};
    use crate::sessions::{ClientLink, Entrant, PlayerSessions, ServerSettings};
    let (mut simulation, player, now) = (simulation(), PlayerId(7), Micros::ZERO);
    let (game, key) = (Arc::clone(&simulation.game), ResumeKey([1; 16]));
    let settings = ServerSettings::default();
    let mut sessions = PlayerSessions::new(game, settings, Box::new(move || key));
    let (name, version) = ("ada".to_owned(), MOVING_SESSIONS);
    let entrant = Entrant { player, name, version, resume: key, view: 0 };
    assert!(sessions.begin(&mut simulation, entrant, now));
    let (state, _) = sessions.carry_out(&mut simulation, player).expect("it is here");
    assert!(state.untold, "its client knows what the former host said");
    assert!(sessions.carry_in(&mut simulation, state, None, now).is_some());
    let mut out = RecordingOutbox::default();
    let client = ClientLink { link: Link(1), version };
    assert!(sessions.attach(&mut simulation, player, client, now, &mut out));
    let (state, _) = sessions.carry_out(&mut simulation, player).expect("it is here");
    assert!(!state.untold, "the client was told anew");
}

#[test]
fn what_a_client_sent_before_it_was_welcomed_anew_does_not_count_wherever_the_session_goes() {
    use crate::outbox::{Link, RecordingOutbox};
    use crate::session::{ClientDatagram, MOVING_SESSIONS, ResumeKey};
    use crate::sessions::{ClientLink, Entrant, PlayerSessions, RoundTime, ServerSettings};
    use foveate_wire::packet::Ack;
    let (mut simulation, player, link, now) =
        (simulation(), PlayerId(7), Link(1), Micros(1_000_000));
    let world = simulation.game.welcome(&simulation.world(), player, "ada");
    simulation.spawn(player, &world[0]).unwrap();
    tick(&mut simulation, 1);
    let (game, key) = (Arc::clone(&simulation.game), ResumeKey([1; 16]));
    let settings = ServerSettings::default();
    let mut sessions = PlayerSessions::new(game, settings, Box::new(move || key));
    let (name, version) = ("ada".to_owned(), MOVING_SESSIONS);
    let entrant = Entrant { player, name, version, resume: key, view: 0 };
    assert!(sessions.begin(&mut simulation, entrant, now));
    let mut out = RecordingOutbox::default();
    assert!(sessions.attach(&mut simulation, player, ClientLink { link, version }, now, &mut out));
    let (state, _) = sessions.carry_out(&mut simulation, player).expect("it is here");
    assert!(sessions.carry_in(&mut simulation, state, Some(link), now).is_some());
    let round = RoundTime { tick: Tick(2), now };
    simulation.publisher.round(round.tick, now, |observer, packet| {
        sessions.send_packet(observer, round, packet, &mut out);
    });
    let mut sent = |newest, first, simulation: &mut Simulation<Lamps>| {
        let (ack, inputs) = (Some(Ack { newest, before: 0 }), vec![1; 6]);
        let mut bytes = Vec::new();
        ClientDatagram::<i8> { ack, clock: 0, first, inputs }.write(&mut bytes);
        sessions.datagram(simulation, link, &bytes, now);
        let mut used = Vec::new();
        sessions.next_inputs(|_, number, _| used.push(number));
        used
    };
    assert_eq!(sent(70, 68, &mut simulation), [], "packet 70 was the former session's");
    assert_eq!(sent(0, 0, &mut simulation).first(), Some(&0), "nothing is ahead of it");
    let used = sent(71, 69, &mut simulation);
    assert!(!used.is_empty() && used.iter().all(|it| *it < 6), "however late it comes: {used:?}");
}
