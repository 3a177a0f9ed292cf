//! The same game without a server. The first peer prints its address, which the next ones join by:
//! `cargo run -p foveate --features peer --example hello_peer -- [KEY@ADDRESS]`

mod patrol;

use foveate::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let builder = Peer::builder(patrol::Patrol::new()?, "ada");
    let mut peer = match std::env::args().nth(1) {
        Some(contact) => builder.join("127.0.0.1:0", &contact)?,
        None => builder.found("127.0.0.1:0")?,
    };
    println!("join {}", peer.address());
    while !peer.is_stranded() {
        peer.step(|me| _ = me.input([1, 0]))?; // walk east
        let world = peer.world();
        let (walkers, guards) = (world.iter::<patrol::Walker>(), world.iter::<patrol::Guard>());
        println!("{} walkers, {:?}", walkers.count(), guards.last());
    }
    Err("no answer; check the key and the address".into())
}
