//! A client in a few lines: `cargo run -p foveate --features io --example client -- 127.0.0.1:4433 ada`.

mod patrol;

use foveate::prelude::*;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server: ServerAddress =
        std::env::args().nth(1).unwrap_or("127.0.0.1:4433".into()).parse()?;
    let name = std::env::args().nth(2).unwrap_or("ada".into());
    // On one machine only: a client elsewhere pins the server's certificate, or asks the system.
    let trust = Trust::InsecureDevelopmentOnly;
    let endpoint = Endpoint::client("0.0.0.0:0".parse()?, &trust, EndpointOptions::client())?;
    let mut host = ClientsHost::new(endpoint);
    host.join(patrol::Patrol::new()?, server, &name, &[])?;
    while host.players()[0].ended.is_none() {
        // Walk east, and look at what there is.
        host.step(Instant::now() + Duration::from_millis(500), |_, _, _, _| [1, 0])?;
        host.players()[0].client.see(host.now(), |world| {
            for guard in world.of_kind(KindId(1)) {
                println!("{:?}", world.get::<patrol::Guard>(guard));
            }
        });
    }
    Err(host.player(0).ended.take().ok_or("not ended")?.into())
}
