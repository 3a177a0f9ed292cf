//! A server: `cargo run -p foveate --features server --example hello_server`

mod patrol;

use foveate::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:4433".into());
    let mut server = Server::bind(patrol::Patrol::new()?, address)?;
    println!("listening on {}", server.address()?);
    loop {
        server.step()?;
        for event in server.drain_events() {
            println!("{event:?}");
        }
    }
}
