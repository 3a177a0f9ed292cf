//! A client: `cargo run -p foveate --features client --example hello_client`

mod patrol;

use foveate::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = std::env::args().nth(1).unwrap_or("127.0.0.1:4433".into());
    // On one machine only: a client elsewhere pins the server's certificate, or trusts the system's.
    let trust = Trust::InsecureDevelopmentOnly;
    let mut client = Client::connect(patrol::Patrol::new()?, &server, "ada", trust)?;
    loop {
        client.step(|_world, _me| [1, 0])?; // walk east
        client.see(|world| {
            for (_, guard) in world.iter::<patrol::Guard>() {
                println!("{guard:?}");
            }
        });
    }
}
