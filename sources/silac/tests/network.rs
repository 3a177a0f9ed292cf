//! Games of Silac's nodes on the laboratory's network, through the interface that all nodes share.

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
const FRAME: Micros = Micros(50_000);

fn address(at: usize) -> SocketAddr {
    ([10, 0, 0, at as u8], 27_960).into()
}

fn id(at: usize) -> NodeId {
    NodeId::of(address(at))
}

fn standing(at: usize, act: Option<Act>) -> SilacFrame {
    let position = [10.0 * at as f32, 0.0, 0.0];
    let avatar = SilacAvatar { position, facing: [1.0, 0.0, 0.0], ..SilacAvatar::default() };
    SilacFrame { avatar, act }
}

fn node(at: usize, settings: SilacSettings, seed: u64) -> SilacNode {
    let me = Me { address: address(at), name: format!("player {at}"), model: 0 };
    SilacNode::new(Silac::new(settings, me, seed + at as u64))
}

/// Dials by address, and records the events of each node.
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
                (0..self.0.len()).find(|at| address(*at) == to).map(Reaction::Dial)
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

/// A game that all nodes join through the first.
struct Game {
    network: Network<SilacNode>,
    host: Addresses,
}

impl Game {
    fn new(count: usize, spec: NetworkSpec) -> Game {
        Game { network: Network::new(spec), host: Addresses(vec![Vec::new(); count]) }
    }

    fn add(&mut self, settings: SilacSettings) -> usize {
        let at = self.network.nodes.len();
        self.network.add(node(at, settings, 1), Placement::PLAIN, &mut self.host)
    }

    fn enter(&mut self, at: usize) {
        let frame = standing(at, None);
        let command = match at {
            0 => SilacCommand::Found { game: GAME, frame },
            _ => SilacCommand::Join { game: GAME, contacts: vec![address(0)], frame },
        };
        self.network.command(at, command, &mut self.host);
    }

    /// Nodes join one after the other, on a bad network.
    fn on_bad_network(seed: u64) -> Game {
        let mut game = Game::new(
            NODES,
            NetworkSpec {
                loss: Loss::Bernoulli(0.05),
                duplicate: 0.05,
                reorder: 0.1,
                jitter: 30,
                ..NetworkSpec::delayed(Micros(30_000), seed)
            },
        );
        for _ in 0..NODES {
            let at = game.add(SilacSettings::default());
            game.enter(at);
            game.run(FRAME * 4);
        }
        game.run(SECOND * 3);
        game
    }

    /// All nodes join at once, with frames at the same times and perfect links of ten milliseconds; runs for two
    /// seconds.
    fn in_step(count: usize, fan_out: usize) -> Game {
        let mut game = Game::new(count, NetworkSpec::delayed(Micros(10_000), 1));
        for _ in 0..count {
            let at = game.add(SilacSettings { fan_out, ..SilacSettings::default() });
            // As over UDP: links have no handshake.
            for other in 0..at {
                game.network.connect(at, other, &mut game.host);
            }
            game.enter(at);
        }
        // Between two frames.
        game.run(SECOND * 2 + Micros(25_000));
        game
    }

    fn run(&mut self, time: Micros) {
        self.network.run_until(self.network.now() + time, &mut self.host);
    }

    fn act(&mut self, at: usize, element: u32, lasting: bool) {
        let frame = standing(at, Some(Act { element, lasting, frames: 1 }));
        self.network.command(at, SilacCommand::SetFrame(frame), &mut self.host);
    }

    fn silac(&self, at: usize) -> &Silac {
        &self.network.nodes[at].as_ref().unwrap().silac
    }

    /// How often an event occurred at a node.
    fn count(&self, at: usize, is_it: impl Fn(&SilacEvent) -> bool) -> usize {
        self.host.0[at].iter().filter(|event| is_it(event)).count()
    }
}

#[test]
fn nodes_meet_learn_of_interactions_and_notice_a_crash_on_a_bad_network() {
    let mut game = Game::on_bad_network(1);
    for at in 0..NODES {
        assert_eq!(game.silac(at).peers().count(), NODES - 1, "known at {at}");
    }
    game.act(3, 9, true);
    game.run(SECOND * 2);
    for at in 0..NODES {
        let deeds = game.count(
            at,
            |event| matches!(event, SilacEvent::Did(by, deed) if *by == id(3) && deed.element() == 9),
        );
        assert_eq!(deeds, 1, "deeds learnt at {at}");
    }
    game.network.crash(5);
    game.run(SILENCE + SECOND * 2);
    let gone = SilacEvent::Vanished(id(5), Gone::Silent);
    for (at, _) in game.network.present() {
        assert_eq!(game.count(at, |event| *event == gone), 1, "noticed at {at}");
    }
}

#[test]
fn a_node_that_comes_late_is_dialled_again() {
    let mut host = Addresses(vec![Vec::new(); NODES]);
    let mut network = Network::new(NetworkSpec::delayed(Micros(30_000), 1));
    let node = |at: usize| node(at, SilacSettings::default(), 0);
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
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let digest = |seed| Game::on_bad_network(seed).network.digest();
    assert_eq!(digest(1), digest(1));
    assert_ne!(digest(1), digest(2));
}

#[test]
fn another_fan_out_gives_other_bytes() {
    let run = |fan_out| {
        let mut game = Game::in_step(8, fan_out);
        game.act(2, 1, true);
        game.run(FRAME * 30);
        game.network.digest()
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(2));
}

#[test]
fn one_contact_is_enough_to_become_known_to_all_nodes() {
    let game = Game::in_step(12, 3);
    for at in 0..12 {
        assert_eq!(game.silac(at).peers().count(), 11, "node {at}");
        assert!(game.silac(at).is_in());
        assert_eq!(game.count(at, |event| *event == SilacEvent::Joined), usize::from(at > 0));
    }
}

#[test]
fn simultaneous_interactions_with_one_element_are_withdrawn_everywhere() {
    let mut game = Game::in_step(6, 3);
    game.act(1, 5, true);
    game.act(2, 5, true);
    game.act(3, 5, false);
    game.run(FRAME * 60);
    for at in 0..6 {
        let withdrew = [1, 2, 3].map(|actor| {
            game.count(at, |event| matches!(event, SilacEvent::Withdrew(by, _) if *by == id(actor)))
        });
        assert_eq!(withdrew, [1, 1, 0], "node {at}");
    }
    assert_eq!(game.silac(1).counters().withdrawn, 1);
}

#[test]
fn interactions_one_after_the_other_are_kept() {
    let mut game = Game::in_step(6, 3);
    game.act(1, 5, true);
    game.run(FRAME * 13);
    game.act(2, 5, true);
    game.act(3, 6, true);
    game.run(FRAME * 40);
    for at in 0..6 {
        assert_eq!(game.count(at, |event| matches!(event, SilacEvent::Withdrew(..))), 0);
        assert_eq!(game.count(at, |event| matches!(event, SilacEvent::Did(..))), 3, "node {at}");
    }
}

#[test]
fn silent_and_departed_nodes_are_forgotten_and_late_messages_do_not_bring_them_back() {
    let mut game = Game::in_step(5, 3);
    game.network.command(4, SilacCommand::Leave, &mut game.host);
    game.network.crash(4);
    game.run(FRAME * 8);
    for at in 0..4 {
        let left = SilacEvent::Vanished(id(4), Gone::Left);
        assert_eq!(game.count(at, |event| *event == left), 1, "node {at}");
    }
    // One more crashes without a message.
    game.network.crash(3);
    game.run(SILENCE - FRAME);
    for at in 0..3 {
        assert!(game.silac(at).peer(id(3)).is_some(), "not before ten seconds");
    }
    game.run(SECOND);
    for at in 0..3 {
        assert!(game.silac(at).peer(id(3)).is_none());
        let appeared = game.count(at, |event| *event == SilacEvent::Appeared(id(3)));
        assert_eq!(appeared, 1, "hearsay brings no node back");
        let gone = SilacEvent::Vanished(id(3), Gone::Silent);
        assert_eq!(game.count(at, |event| *event == gone), 1);
    }
}
