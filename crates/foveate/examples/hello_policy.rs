//! A server with a custom policy: `cargo run -p foveate --features server --example hello_policy`

mod patrol;

use foveate::prelude::*;

/// Twice as far, half as often, up to 50 units.
struct Halving;

impl Policy for Halving {
    fn grade(&self, sight: &Sight) -> Option<Grade> {
        let max_age = Micros::from_millis((5.0 * sight.distance.0) as u64);
        (sight.distance.0 < 50.0).then_some(Grade { max_age, ..Grade::EXACT })
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:4433".into());
    let mut server = Server::builder(patrol::Patrol::new()?).policy(Halving).bind(address)?;
    println!("listening on {}", server.address()?);
    loop {
        server.step()?;
    }
}
