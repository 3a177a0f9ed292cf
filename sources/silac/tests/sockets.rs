//! Silac's gossip over real sockets.

use foveate_silac::{Act, SilacEvent, SilacFrame, SilacHost, SilacSettings};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// The longest that anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
const GAME: u32 = 7;

fn still(act: Option<Act>) -> SilacFrame {
    let mut frame = SilacFrame { avatar: Default::default(), act };
    frame.avatar.facing = [1.0, 0.0, 0.0];
    frame
}

fn host(seed: u64) -> SilacHost {
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    SilacHost::bind(here, SilacSettings::default(), &format!("player {seed}"), seed).unwrap()
}

/// Plays until a condition holds for all hosts.
fn until(what: &str, hosts: &mut [SilacHost], mut holds: impl FnMut(&mut SilacHost) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    let mut done = vec![false; hosts.len()];
    while done.contains(&false) {
        assert!(Instant::now() < deadline, "{what}: {done:?}");
        for (host, done) in hosts.iter_mut().zip(&mut done) {
            assert!(host.step(|_| still(None)).unwrap(), "it is in the game");
            *done |= holds(host);
        }
    }
}

#[test]
fn six_nodes_meet_through_one_learn_of_interactions_and_notice_one_that_leaves() {
    let mut hosts: Vec<SilacHost> = (0..6).map(host).collect();
    let contact = hosts[0].silac.address();
    hosts[0].found(GAME, still(None));
    hosts[1..].iter_mut().for_each(|host| host.join(GAME, &[contact], still(None)));
    until("all nodes know each other", &mut hosts, |host| host.silac.peers().count() == 5);

    // Noise is counted and otherwise ignored.
    let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..200 {
        let bytes: Vec<u8> = (0..random.usize(..200)).map(|_| random.u8(..)).collect();
        noise.send_to(&bytes, contact).unwrap();
    }

    let actor = hosts[2].silac.id();
    let act = Act { element: 9, lasting: true, frames: 3 };
    hosts[2].step(|_| still(Some(act))).unwrap();
    until("all nodes learn of an interaction", &mut hosts, |host| {
        host.drain_events().any(
            |event| matches!(event, SilacEvent::Did(by, deed) if by == actor && deed.element() == 9),
        )
    });
    let counters = hosts[0].silac.counters();
    assert!(counters.unreadable + counters.impossible + counters.other_game > 100, "{counters:?}");

    let gone = hosts.remove(4);
    let id = gone.silac.id();
    gone.leave();
    until("all nodes forget the one that left", &mut hosts, |host| host.silac.peer(id).is_none());
}

#[test]
fn a_node_cannot_listen_on_the_unspecified_address() {
    let anywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let refused = SilacHost::bind(anywhere, SilacSettings::default(), "x", 1);
    assert!(refused.is_err_and(|error| error.to_string().contains("listen")));
}

#[test]
fn a_node_that_no_contact_answers_gives_up() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let settings = SilacSettings { frame: foveate_wire::Micros(5_000), ..SilacSettings::default() };
    let here = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut lonely = SilacHost::bind(here, settings, "lonely", 1).unwrap();
    lonely.join(GAME, &[silent.local_addr().unwrap()], still(None));
    while lonely.step(|_| still(None)).unwrap() {}
    assert!(lonely.drain_events().any(|event| event == SilacEvent::Unanswered));
}
