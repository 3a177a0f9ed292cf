//! A server: `cargo run -p foveate-bevy --example bevy_server`.

mod town;
mod walker;

use bevy_app::{ScheduleRunnerPlugin, prelude::*};
use bevy_ecs::prelude::*;
use foveate_bevy::prelude::*;

fn main() {
    let listen = std::env::args().nth(1).unwrap_or("127.0.0.1:4433".into()).parse().unwrap();
    App::new()
        .add_plugins(ScheduleRunnerPlugin::run_loop(std::time::Duration::from_millis(10)))
        .add_plugins(ServerPlugin::new(listen, presets::circle(50.0)))
        .replicate::<walker::Walker>()
        .add_systems(Startup, (town::spawn, town::announce))
        .add_systems(Update, (town::walk, welcome))
        .run();
}

/// Players see 50 units far from their entity.
fn welcome(mut joined: MessageReader<PlayerJoined>, mut commands: Commands) {
    for joined in joined.read() {
        commands.entity(joined.entity).insert(walker::Walker { pos: [0.0, 0.0] });
    }
}
