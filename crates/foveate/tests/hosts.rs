//! Hosts in a loop of the caller's own.

#[path = "../examples/patrol/mod.rs"]
mod patrol;

use foveate::io::LinkConditions;
use foveate::node::link_model::{LinkSpec, Rate};
use foveate::prelude::*;
use patrol::{Guard, Patrol, Walker};
use std::time::{Duration, Instant};

#[test]
fn hosts_that_are_polled_play_and_never_wait() {
    let here = "127.0.0.1:0".parse().unwrap();
    let server =
        Endpoint::server(here, Certificate::development(), EndpointOptions::server()).unwrap();
    let address = server.address().unwrap();
    let settings = ServerSettings::default();
    let mut server = ServerHost::new(Patrol::new().unwrap(), settings, server, AllowAll::default());
    server.server.simulation.populate().unwrap();
    let trust = Trust::InsecureDevelopmentOnly;
    let client = Endpoint::client(here, &trust, EndpointOptions::client()).unwrap();
    let mut client = ClientsHost::new(client);
    client.join(Patrol::new().unwrap(), address, "ada", &[]).unwrap();

    let (begun, mut polls, mut rounds, mut walked) = (Instant::now(), 0, 0, 0.0);
    // Until there was a poll without a round, too: one that waits for the round never is.
    while (walked < 1.0 || polls == rounds) && begun.elapsed() < Duration::from_secs(120) {
        polls += 1;
        rounds += u32::from(server.poll_step().unwrap().is_some());
        client.poll_step(|_, _, _, _| [2, 0]).unwrap();
        let world = server.server.simulation.world();
        let walker = world.of_kind(KindId(0)).first().and_then(|id| world.get::<Walker>(*id));
        walked = walker.map_or(0.0, |walker| walker.pos[0]);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(walked >= 1.0, "inputs did not arrive");
    let seen = client.players()[0].client.see(client.now(), |world| {
        world.of_kind(KindId(1)).first().and_then(|id| world.get::<Guard>(*id))
    });
    assert!(seen.is_some());
    assert!(polls > rounds, "{polls} polls in {rounds} rounds: a poll waits for the round");
    let longest = begun.elapsed().as_millis() as u32 / 50 + 1;
    assert!(rounds <= longest, "{rounds} rounds where {longest} fit");
}

/// Steps both until something is true; nothing here depends on how long that takes.
fn until(
    server: &mut ServerHost<Patrol, AllowAll>,
    clients: &mut ClientsHost<Patrol>,
    what: &str,
    is_true: impl Fn(&ServerHost<Patrol, AllowAll>) -> bool,
) {
    let begun = Instant::now();
    while !is_true(server) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what} has not come true");
        server.poll_step().unwrap();
        clients.poll_step(|_, _, _, _| [0, 0]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn the_budget_follows_the_link_as_it_narrows_and_widens() {
    let here = "127.0.0.1:0".parse().unwrap();
    let server =
        Endpoint::server(here, Certificate::development(), EndpointOptions::server()).unwrap();
    let address = server.address().unwrap();
    let settings = ServerSettings { budget: None, ..ServerSettings::default() };
    let mut server = ServerHost::new(Patrol::new().unwrap(), settings, server, AllowAll::default());
    server.server.simulation.populate().unwrap();
    let trust = Trust::InsecureDevelopmentOnly;
    let client = Endpoint::client(here, &trust, EndpointOptions::client()).unwrap();
    let mut clients = ClientsHost::new(client);
    clients.join(Patrol::new().unwrap(), address, "ada", &[]).unwrap();
    let capacity = |server: &ServerHost<Patrol, AllowAll>| {
        server.server.present_players().next().and_then(|it| it.capacity).map(|bytes| bytes.0)
    };
    until(&mut server, &mut clients, "a wide link", |it| capacity(it) > Some(4_000));

    // Not even acknowledgements pass as fast as they are sent: they queue, and round trips grow.
    let rate = Some(Rate { bytes_per_second: 300.0, queue: 1 << 20 });
    let sent = LinkSpec { rate, ..LinkSpec::PERFECT };
    let link = server.server.present_players().next().and_then(|it| it.link).unwrap();
    let link = foveate::io::LinkId::from_bits(link.0);
    let narrow = LinkConditions { sent, ..LinkConditions::default() };
    assert!(server.endpoint.set_conditions(link, Some(narrow)));
    let is_narrow = |it: &ServerHost<_, _>| capacity(it).is_some_and(|bytes| bytes < 1_000);
    until(&mut server, &mut clients, "less for a narrow link", is_narrow);

    assert!(server.endpoint.set_conditions(link, None));
    until(&mut server, &mut clients, "a wide link again", |it| capacity(it) > Some(4_000));
    server.follow_congestion = false;
    until(&mut server, &mut clients, "no limit", |it| capacity(it).is_none());
}
