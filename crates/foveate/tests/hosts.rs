//! Hosts in a loop of the caller's own.

#[path = "../examples/patrol/mod.rs"]
mod patrol;

use foveate::prelude::*;
use patrol::{Guard, Patrol, Walker};
use std::time::{Duration, Instant};

#[test]
fn hosts_that_are_polled_play_and_never_wait() {
    let here = "127.0.0.1:0".parse().unwrap();
    let server = Endpoint::server(here, Certificate::development(), Options::server()).unwrap();
    let address = server.address().unwrap();
    let settings = Settings::default();
    let mut server = ServerHost::new(Patrol::new().unwrap(), settings, server, OpenDoor::default());
    server.server.stage.populate().unwrap();
    let trust = Trust::InsecureDevelopmentOnly;
    let client = Endpoint::client(here, &trust, Options::client()).unwrap();
    let mut client = ClientsHost::new(client, settings.rounds.length);
    client.join(Patrol::new().unwrap(), address, "ada", &[]).unwrap();

    let (begun, mut polls, mut rounds, mut walked) = (Instant::now(), 0, 0, 0.0);
    // Until there was a poll without a round, too: one that waits for the round never is.
    while (walked < 1.0 || polls == rounds) && begun.elapsed() < Duration::from_secs(120) {
        polls += 1;
        rounds += u32::from(server.poll_step().unwrap().is_some());
        client.poll_step(|_, _, _, _| [2, 0]).unwrap();
        let world = server.server.stage.world();
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
