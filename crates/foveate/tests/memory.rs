//! Whole sessions over links in memory, without a socket.

#[path = "../examples/patrol/mod.rs"]
mod patrol;

use foveate::io::host::EndCause;
use foveate::io::host::ServerHost;
use foveate::io::memory::{MemoryEndpoint, MemoryNetwork};
use foveate::node::session::Refusal;
use foveate::prelude::*;
use patrol::{Patrol, Walker};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

type Server = ServerHost<Patrol, AllowAll, MemoryEndpoint>;
type Clients = ClientsHost<Patrol, MemoryEndpoint>;

fn address(last: u8) -> SocketAddr {
    ([10, 0, 0, last], 4433).into()
}

struct Hosts {
    server: Server,
    clients: Clients,
}

fn hosts() -> Hosts {
    let network = MemoryNetwork::default();
    let settings = ServerSettings::default();
    let game = Patrol::new().unwrap();
    let mut server =
        ServerHost::new(game, settings, network.listen(address(1)), AllowAll::default());
    server.server.simulation.populate().unwrap();
    Hosts { server, clients: ClientsHost::new(network.listen(address(2))) }
}

impl Hosts {
    /// Steps both until the condition holds; nothing depends on how long that takes.
    fn step_until(&mut self, what: &str, is_true: impl Fn(&Server, &Clients) -> bool) {
        let begun = Instant::now();
        while !is_true(&self.server, &self.clients) {
            assert!(begun.elapsed() < Duration::from_secs(120), "{what} has not come true");
            self.server.poll_step().unwrap();
            self.clients.poll_step(|_, _, _, _| [2, 0]).unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn walked(server: &Server) -> f32 {
    let world = server.server.simulation.world();
    let walker = world.of_kind(KindId(0)).first().and_then(|id| world.get::<Walker>(*id));
    walker.map_or(0.0, |walker| walker.pos[0])
}

#[test]
fn a_session_without_a_socket_joins_plays_and_ends() {
    let mut hosts = hosts();
    hosts.clients.join(Patrol::new().unwrap(), address(1), "ada", &[]).unwrap();
    hosts.step_until("inputs that arrive", |server, _| walked(server) >= 1.0);
    let Hosts { server, mut clients } = hosts;
    server.close(Micros::from_millis(100)).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while clients.players()[0].ended.is_none() && Instant::now() < deadline {
        clients.step(Instant::now() + Duration::from_millis(5), |_, _, _, _| [0, 0]).unwrap();
    }
    let ended = clients.players()[0].ended.clone().expect("the server said that it closes");
    assert!(matches!(ended.cause, EndCause::Refused { code: Refusal::Closing, .. }), "{ended}");
}

#[test]
fn a_taken_name_is_refused_and_the_player_who_has_it_stays() {
    let mut hosts = hosts();
    hosts.clients.join(Patrol::new().unwrap(), address(1), "ada", &[]).unwrap();
    hosts.step_until("ada inside", |server, _| server.server.players() == 1);
    hosts.clients.join(Patrol::new().unwrap(), address(1), "ada", &[]).unwrap();
    hosts.step_until("a refusal", |_, clients| clients.players()[1].ended.is_some());
    let ended = hosts.clients.players()[1].ended.clone().map(|ended| ended.cause);
    assert!(matches!(ended, Some(EndCause::Refused { code: Refusal::NameTaken, .. })));
    assert!(hosts.clients.players()[0].ended.is_none() && hosts.server.server.players() == 1);
}

#[test]
fn where_nothing_listens_the_end_says_so_and_the_next_address_is_tried() {
    let mut hosts = hosts();
    hosts.clients.join(Patrol::new().unwrap(), address(9), "ada", &[]).unwrap();
    hosts.step_until("an end", |_, clients| clients.players()[0].ended.is_some());
    let ended = hosts.clients.players()[0].ended.clone().map(|ended| ended.cause);
    assert!(matches!(ended, Some(EndCause::Unreachable(_))), "{ended:?}");
    let host: ServerAddress = "play.example.org:4433".parse().unwrap();
    hosts.clients.set_addresses(host.clone(), &[address(9), address(1)]);
    hosts.clients.join(Patrol::new().unwrap(), host, "bob", &[]).unwrap();
    hosts.step_until("bob inside", |_, clients| clients.players()[1].client.joined().is_some());
}
