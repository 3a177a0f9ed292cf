//! Each fault of the network, on nodes that record their inputs.

use super::{DIAL_TIMEOUT, Host, MAX_WAITING, Network, NetworkSpec, Placed, Placement, Reaction};
use crate::net::{Link as Path, LinkSpec, Loss, Rate};
use foveate_node::Link;
use foveate_node::node::{Node, NodeInput};
use foveate_node::outbox::Outbox;
use foveate_wire::Micros;

const MS: Micros = Micros(1_000);
const NEVER: Micros = Micros(u64::MAX);

/// An input of a probe.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Noted {
    Connected(Link),
    Datagram(u8),
    Message(u8),
    Closed(Link),
    Unreachable,
    Woken,
}

enum Order {
    Datagram(Link, u8),
    Message(Link, u8),
    Dial(usize),
    Unreachable,
}

/// Records every input with its time, and sends what it is commanded to.
struct Probe {
    noted: Vec<(Micros, Noted)>,
    dials: Vec<usize>,
    next_wake: Micros,
}

impl Probe {
    fn new() -> Probe {
        Probe { noted: Vec::new(), dials: Vec::new(), next_wake: NEVER }
    }
}

impl Node for Probe {
    type Command = Order;
    type Event = usize;

    fn handle(&mut self, now: Micros, input: NodeInput<'_, Order>, out: &mut impl Outbox) {
        let noted = match input {
            NodeInput::Connected(link, _) => Noted::Connected(link),
            NodeInput::Datagram(_, bytes) => Noted::Datagram(bytes[0]),
            NodeInput::Message(_, bytes) => Noted::Message(bytes[0]),
            NodeInput::Closed(link) => Noted::Closed(link),
            NodeInput::Wake => {
                self.next_wake = now + MS * 100;
                Noted::Woken
            }
            NodeInput::Command(Order::Datagram(link, byte)) => return out.datagram(link, &[byte]),
            NodeInput::Command(Order::Message(link, byte)) => return out.message(link, &[byte]),
            NodeInput::Command(Order::Dial(to)) => return self.dials.push(to),
            NodeInput::Command(Order::Unreachable) => Noted::Unreachable,
        };
        self.noted.push((now, noted));
    }

    fn poll(&mut self) -> Option<usize> {
        self.dials.pop()
    }

    fn next_wake(&self, _: Micros) -> Micros {
        self.next_wake
    }
}

/// Dials for probes, repeatedly if it is set to.
#[derive(Default)]
struct Dialler {
    redials: bool,
}

impl Host<Probe> for Dialler {
    fn on_event(
        &mut self,
        _: Micros,
        _: usize,
        _: &mut Placed<Probe>,
        to: usize,
    ) -> Option<Reaction<Order>> {
        Some(Reaction::Dial(to))
    }

    fn unreachable(&self, _: usize) -> Option<Order> {
        (!self.redials).then_some(Order::Unreachable)
    }

    fn redial(&mut self, at: usize, _: &Placed<Probe>, _: usize) -> Option<Micros> {
        (self.redials && at == 0).then_some(MS * 500)
    }
}

/// Two probes, 10 ms apart.
fn two() -> (Network<Probe>, Dialler, Link) {
    let spec = NetworkSpec { idle_timeout: Some(MS * 2_000), ..NetworkSpec::delayed(MS * 10, 1) };
    let (mut network, mut host) = (Network::new(spec), Dialler::default());
    for _ in 0..2 {
        network.add(Probe::new(), Placement::PLAIN, &mut host);
    }
    let link = network.connect(0, 1, &mut host).unwrap();
    (network, host, link)
}

/// What a probe recorded, without its first link.
fn noted(network: &Network<Probe>, at: usize) -> Vec<(u64, Noted)> {
    let noted = network.nodes[at].as_ref().unwrap().noted.iter().skip(1);
    noted.map(|(at, noted)| (at.0 / 1_000, noted.clone())).collect()
}

fn send(network: &mut Network<Probe>, host: &mut Dialler, from: usize, orders: Vec<Order>) {
    orders.into_iter().for_each(|order| network.command(from, order, host));
}

#[test]
fn messages_outlast_a_partition_in_order_and_datagrams_do_not() {
    let (mut network, mut host, link) = two();
    send(&mut network, &mut host, 0, vec![Order::Message(link, 1)]);
    network.partition(1, 1);
    send(&mut network, &mut host, 0, vec![Order::Datagram(link, 2), Order::Message(link, 3)]);
    network.run_until(MS * 1_000, &mut host);
    assert_eq!(noted(&network, 1), []);
    send(&mut network, &mut host, 0, vec![Order::Message(link, 4)]);
    network.partition(1, 0);
    network.run_until(MS * 1_100, &mut host);
    let expected = [1, 3, 4].map(|byte| (1_010, Noted::Message(byte)));
    assert_eq!(noted(&network, 1), expected, "4 was under way already, and waits for the others");
}

#[test]
fn a_link_that_loses_everything_holds_messages_until_it_recovers() {
    let (mut network, mut host, link) = two();
    let dead = LinkSpec { loss: Loss::Bernoulli(1.0), ..LinkSpec::delayed(MS * 10) };
    network.set_link(link, 0, dead);
    send(&mut network, &mut host, 0, vec![Order::Message(link, 1), Order::Datagram(link, 2)]);
    send(&mut network, &mut host, 1, vec![Order::Datagram(link, 3)]);
    network.run_until(MS * 1_000, &mut host);
    assert_eq!((noted(&network, 1), network.lost(link, 0)), (vec![], 1));
    assert_eq!(noted(&network, 0), [(10, Noted::Datagram(3))], "the other direction is fine");
    network.set_link(link, 0, LinkSpec::delayed(MS * 30));
    network.run_until(MS * 1_100, &mut host);
    assert_eq!(noted(&network, 1), [(1_030, Noted::Message(1))]);
}

#[test]
fn each_direction_of_a_link_can_have_its_own_delay_and_rate() {
    let (mut network, mut host, _) = two();
    let rate = Some(Rate { bytes_per_second: 100.0, queue: 2 });
    let paths = [LinkSpec { rate, ..LinkSpec::delayed(MS * 5) }, LinkSpec::delayed(MS * 50)];
    let link = network.connect_over(0, 1, paths.map(|spec| Path::new(spec, 7)), &mut host).unwrap();
    let all = (1..=3).map(|byte| Order::Datagram(link, byte)).collect();
    send(&mut network, &mut host, 0, all);
    send(&mut network, &mut host, 1, vec![Order::Datagram(link, 9)]);
    network.run_until(MS * 100, &mut host);
    let arrived = [(15, Noted::Datagram(1)), (25, Noted::Datagram(2))];
    assert_eq!(noted(&network, 1)[1..], arrived, "10 ms a byte, and no room for a third");
    assert_eq!(noted(&network, 0)[1..], [(50, Noted::Datagram(9))]);
}

#[test]
fn what_arrives_for_a_paused_node_waits_for_it() {
    let (mut network, mut host, link) = two();
    network.pause(1, true);
    let flood = (0..MAX_WAITING + 5).map(|_| Order::Datagram(link, 7));
    let orders = std::iter::once(Order::Message(link, 1)).chain(flood).collect();
    send(&mut network, &mut host, 0, orders);
    send(&mut network, &mut host, 1, vec![Order::Unreachable]);
    network.run_until(MS * 500, &mut host);
    assert_eq!(noted(&network, 1), []);
    assert_eq!(network.connect(0, 1, &mut host), None, "it accepts nothing");
    network.pause(1, false);
    network.run_until(MS * 600, &mut host);
    let noted = noted(&network, 1);
    assert_eq!(noted[0..2], [(500, Noted::Unreachable), (500, Noted::Message(1))]);
    assert_eq!(noted.len(), MAX_WAITING, "a socket's buffer has an end");
}

#[test]
fn a_pause_does_not_double_wake_ups() {
    let (mut network, mut host, _) = two();
    let probe = Probe { next_wake: Micros::ZERO, ..Probe::new() };
    let at = network.add(probe, Placement::PLAIN, &mut host);
    for nth in 0..20u32 {
        network.run_until(MS * (nth * 100 + 30), &mut host);
        network.pause(at, true);
        network.run_until(MS * (nth * 100 + 60), &mut host);
        network.pause(at, false);
    }
    network.run_until(MS * 2_000, &mut host);
    let woken = network.nodes[at].as_ref().unwrap().noted.len();
    assert_eq!(woken, 21, "every 100 ms");
}

#[test]
fn a_restarted_node_gets_nothing_from_its_old_links_which_end_after_the_timeout() {
    let (mut network, mut host, old) = two();
    network.run_until(MS * 100, &mut host);
    assert!(network.crash(1).is_some());
    network.place(1, Probe::new(), Placement::PLAIN, &mut host);
    send(&mut network, &mut host, 0, vec![Order::Datagram(old, 1), Order::Message(old, 2)]);
    network.run_until(MS * 1_900, &mut host);
    assert_eq!(noted(&network, 0), [], "not noticed yet");
    assert_eq!(network.link_between(0, 1), None);
    network.run_until(MS * 3_000, &mut host);
    assert_eq!(noted(&network, 0), [(2_000, Noted::Closed(old))]);
    assert!(network.nodes[1].as_ref().unwrap().noted.is_empty());
    let new = network.connect(0, 1, &mut host).unwrap();
    send(&mut network, &mut host, 0, vec![Order::Message(new, 3)]);
    network.run_until(MS * 3_100, &mut host);
    assert_eq!(noted(&network, 1), [(3_010, Noted::Message(3))]);
}

#[test]
fn a_dead_link_is_noticed_at_both_ends_and_dialled_again() {
    let (mut network, mut host, link) = two();
    host.redials = true;
    network.sever(link);
    send(&mut network, &mut host, 0, vec![Order::Message(link, 1)]);
    network.run_until(MS * 5_000, &mut host);
    let new = network.link_between(0, 1).unwrap();
    for at in 0..2 {
        let expected = [(2_000, Noted::Closed(link)), (2_530, Noted::Connected(new))];
        assert_eq!(noted(&network, at), expected, "after half a second and a handshake");
    }
}

#[test]
fn a_dial_is_always_answered() {
    let reasons: [fn(&mut Network<Probe>); 3] = [
        |network| drop(network.crash(1)),
        |network| network.pause(1, true),
        |network| network.partition(1, 1),
    ];
    for fails in reasons {
        let (mut network, mut host, _) = two();
        fails(&mut network);
        network.command(0, Order::Dial(1), &mut host);
        network.run_until(MS * 1_900, &mut host);
        assert_eq!(noted(&network, 0), [(DIAL_TIMEOUT.0 / 1_000, Noted::Unreachable)]);
    }
    let (mut network, mut host, _) = two();
    host.redials = true;
    network.partition(1, 1);
    network.command(0, Order::Dial(1), &mut host);
    network.run_until(MS * 1_600, &mut host);
    network.partition(1, 0);
    network.run_until(MS * 4_000, &mut host);
    let dialled = noted(&network, 0);
    assert!(matches!(dialled[..], [(_, Noted::Connected(_))]), "{dialled:?}");
}
