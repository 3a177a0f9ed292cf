//! Hosts that the caller's own loop drives.

#[path = "../examples/patrol/mod.rs"]
mod patrol;

use foveate::io::LinkConditions;
use foveate::node::link_model::{LinkSpec, Rate};
use foveate::prelude::*;
use patrol::{Guard, Patrol, Walker};
use std::time::{Duration, Instant};

#[test]
fn hosts_that_are_polled_play_and_never_wait() {
    let mut server = Server::bind(Patrol::new().unwrap(), "127.0.0.1:0").unwrap();
    let address = server.address().unwrap().to_string();
    let client = Client::builder(Patrol::new().unwrap(), "ada");
    let mut client = client.trust(Trust::InsecureDevelopmentOnly).start(&address).unwrap();

    let (begun, mut polls, mut rounds, mut walked) = (Instant::now(), 0, 0, 0.0);
    // Until a poll without a round was seen, too: if polls waited for the round, there would be
    // none.
    while (walked < 1.0 || polls == rounds) && begun.elapsed() < Duration::from_secs(120) {
        polls += 1;
        rounds += u32::from(server.poll_step().unwrap().is_some());
        client.poll_step(|_, _| [2, 0]).unwrap();
        walked = server.world().iter::<Walker>().next().map_or(0.0, |(_, it)| it.pos[0]);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(walked >= 1.0, "inputs did not arrive");
    let seen = client.see(|world| world.iter::<Guard>().next());
    assert!(seen.is_some());
    assert!(polls > rounds, "{polls} polls in {rounds} rounds: a poll waits for the round");
    let longest = begun.elapsed().as_millis() as u32 / 50 + 1;
    assert!(rounds <= longest, "{rounds} rounds where {longest} fit");
}

/// Steps both until the condition holds; nothing here depends on how long that takes.
fn until(
    server: &mut Server<Patrol>,
    clients: &mut ClientsHost<Patrol>,
    what: &str,
    is_true: impl Fn(&Server<Patrol>) -> bool,
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
    let server = Server::builder(Patrol::new().unwrap()).budget(None).bind("127.0.0.1:0");
    let mut server = server.unwrap();
    let address = server.address().unwrap();
    let trust = Trust::InsecureDevelopmentOnly;
    let client = Endpoint::client(here, &trust, EndpointOptions::client()).unwrap();
    let mut clients = ClientsHost::new(client);
    clients.join(Patrol::new().unwrap(), address, "ada", &[]).unwrap();
    let capacity = |server: &Server<Patrol>| {
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
    let is_narrow = |it: &Server<_>| capacity(it).is_some_and(|bytes| bytes < 1_000);
    until(&mut server, &mut clients, "less for a narrow link", is_narrow);

    assert!(server.endpoint.set_conditions(link, None));
    until(&mut server, &mut clients, "a wide link again", |it| capacity(it) > Some(4_000));
    server.follow_congestion = false;
    until(&mut server, &mut clients, "no limit", |it| capacity(it).is_none());
}
