//! A server in a few lines: `cargo run -p foveate --features io --example server -- 127.0.0.1:4433`.

mod patrol;

use foveate::prelude::*;
use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listen = std::env::args().nth(1).unwrap_or("127.0.0.1:4433".into()).parse()?;
    let endpoint = Endpoint::server(listen, Certificate::development(), EndpointOptions::server())?;
    let mut host = ServerHost::new(
        patrol::Patrol::new()?,
        ServerSettings::default(),
        endpoint,
        AllowAll::default(),
    );
    host.server.simulation.populate()?;
    println!("listening on {}", host.endpoint.address()?);
    std::io::stdout().flush()?;
    loop {
        host.step()?;
        for event in host.drain_events() {
            println!("{event:?}");
        }
    }
}
