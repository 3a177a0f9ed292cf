//! A client: `cargo run -p foveate-bevy --example bevy_client`.

mod walker;

use bevy_app::{ScheduleRunnerPlugin, prelude::*};
use bevy_ecs::prelude::*;
use foveate_bevy::prelude::*;
use walker::Walker;

fn main() {
    let server = std::env::args().nth(1).unwrap_or("127.0.0.1:4433".into());
    let server: ServerAddress = server.parse().unwrap();
    App::new()
        .add_plugins(ScheduleRunnerPlugin::run_loop(std::time::Duration::from_millis(100)))
        // On one machine only: a client elsewhere pins the server's certificate, or trusts the
        // system's.
        .add_plugins(ClientPlugin::new(server, "ada", Trust::InsecureDevelopmentOnly))
        .replicate::<Walker>()
        .add_systems(Update, look)
        .run();
}

fn look(walkers: Query<&Walker, Without<Own>>) {
    if let Some(first) = walkers.iter().next() {
        println!("{} walkers, the first at {:?}", walkers.iter().count(), first.pos);
    }
}
