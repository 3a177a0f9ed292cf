//! Silac's nodes on the laboratory's network, through the seam that all nodes share.

use foveate_lab::net::Loss;
use foveate_lab::network::{Host, Network, NetworkSpec, Placed, Placement, Reaction};
use foveate_node::node::Remote;
use foveate_silac::{
    Act, Gone, Me, NodeId, SILENCE, Silac, SilacAvatar, SilacCommand, SilacEvent, SilacFrame,
    SilacNode, SilacNodeEvent, SilacSettings,
};
use foveate_wire::Micros;
use std::net::SocketAddr;

const NODES: usize = 8;
const GAME: u32 = 7;
const SECOND: Micros = Micros(1_000_000);

fn address(at: usize) -> SocketAddr {
    ([10, 0, 0, at as u8], 27_960).into()
}

fn standing(at: usize, act: Option<Act>) -> SilacFrame {
    let position = [10.0 * at as f32, 0.0, 0.0];
    let avatar = SilacAvatar { position, facing: [1.0, 0.0, 0.0], ..SilacAvatar::default() };
    SilacFrame { avatar, act }
}

/// Dials by address, and keeps what happens at each node.
#[derive(Default)]
struct Addresses(Vec<Vec<SilacEvent>>);

impl Host<SilacNode> for Addresses {
    fn on_event(
        &mut self,
        _: Micros,
        at: usize,
        _: &mut Placed<SilacNode>,
        event: SilacNodeEvent,
    ) -> Option<Reaction<SilacCommand>> {
        match event {
            SilacNodeEvent::Dial(to) => {
                (0..NODES).find(|at| address(*at) == to).map(Reaction::Dial)
            }
            SilacNodeEvent::Game(event) => {
                self.0[at].push(event);
                None
            }
        }
    }

    fn remote(&self, at: usize, _: bool) -> Remote {
        Remote::Address(address(at))
    }
}

/// A game that all have joined by way of the first, one after the other.
fn game(seed: u64) -> (Network<SilacNode>, Addresses) {
    let spec = NetworkSpec {
        loss: Loss::Bernoulli(0.05),
        duplicate: 0.05,
        reorder: 0.1,
        jitter: 30,
        ..NetworkSpec::delayed(Micros(30_000), seed)
    };
    let (mut network, mut host) = (Network::new(spec), Addresses(vec![Vec::new(); NODES]));
    for at in 0..NODES {
        let me = Me { address: address(at), name: format!("player {at}"), model: 0 };
        let silac = Silac::new(SilacSettings::default(), me, seed + at as u64);
        network.add(SilacNode::new(silac), Placement::PLAIN, &mut host);
        let frame = standing(at, None);
        let command = match at {
            0 => SilacCommand::Found { game: GAME, frame },
            _ => SilacCommand::Join { game: GAME, contacts: vec![address(0)], frame },
        };
        network.command(at, command, &mut host);
        network.run_until(network.now() + Micros(200_000), &mut host);
    }
    network.run_until(network.now() + SECOND * 3, &mut host);
    (network, host)
}

#[test]
fn nodes_meet_hear_what_is_done_and_notice_a_crash_on_a_bad_network() {
    let (mut network, mut host) = game(1);
    for (at, node) in network.present() {
        assert_eq!(node.silac.peers().count(), NODES - 1, "known at {at}");
    }
    let act = Act { element: 9, lasting: true, frames: 2 };
    network.command(3, SilacCommand::SetFrame(standing(3, Some(act))), &mut host);
    network.run_until(network.now() + SECOND * 2, &mut host);
    let actor = NodeId::of(address(3));
    for (at, events) in host.0.iter().enumerate() {
        let deeds = events.iter().filter(
            |event| matches!(event, SilacEvent::Did(by, deed) if *by == actor && deed.element() == 9),
        );
        assert_eq!(deeds.count(), 1, "deeds learnt at {at}");
    }
    network.crash(5);
    network.run_until(network.now() + SILENCE + SECOND * 2, &mut host);
    let gone = SilacEvent::Vanished(NodeId::of(address(5)), Gone::Silent);
    for (at, _) in network.present() {
        assert!(host.0[at].contains(&gone), "noticed at {at}");
    }
}

#[test]
fn a_node_that_comes_late_is_dialled_again() {
    let mut host = Addresses(vec![Vec::new(); NODES]);
    let mut network = Network::new(NetworkSpec::delayed(Micros(30_000), 1));
    let node = |at: usize| {
        let me = Me { address: address(at), name: format!("player {at}"), model: 0 };
        SilacNode::new(Silac::new(SilacSettings::default(), me, at as u64))
    };
    let contact = network.reserve();
    let newcomer = network.add(node(1), Placement::PLAIN, &mut host);
    let (contacts, frame) = (vec![address(contact)], standing(1, None));
    network.command(newcomer, SilacCommand::Join { game: GAME, contacts, frame }, &mut host);
    network.run_until(SECOND * 4, &mut host);
    assert!(!host.0[newcomer].contains(&SilacEvent::Joined));
    network.place(contact, node(0), Placement::PLAIN, &mut host);
    let frame = standing(0, None);
    network.command(contact, SilacCommand::Found { game: GAME, frame }, &mut host);
    network.run_until(SECOND * 8, &mut host);
    assert!(host.0[newcomer].contains(&SilacEvent::Joined));
}

#[test]
fn a_seed_gives_the_same_bytes_and_another_others() {
    assert_eq!(game(1).0.digest(), game(1).0.digest());
    assert_ne!(game(1).0.digest(), game(2).0.digest());
}
