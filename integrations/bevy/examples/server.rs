//! A server: `cargo run -p foveate-bevy --example bevy_server`.

mod walker;

use bevy_app::{ScheduleRunnerPlugin, prelude::*};
use bevy_ecs::prelude::*;
use foveate_bevy::{Server, prelude::*};
use std::time::Duration;
use walker::Walker;

fn main() {
    let listen = std::env::args().nth(1).unwrap_or("127.0.0.1:4433".into());
    App::new()
        .add_plugins(ScheduleRunnerPlugin::run_loop(Duration::from_millis(10)))
        .add_plugins(ServerPlugin::new(listen.parse().unwrap(), presets::circle(50.0)))
        .replicate::<Walker>()
        .add_systems(Startup, (spawn, announce))
        .add_systems(Update, (welcome, walk))
        .run();
}

fn spawn(mut commands: Commands) {
    commands.spawn_batch((0..100).map(|nth| Walker { pos: [nth as f32 * 4.0, 0.0] }));
}

fn announce(server: Res<Server>) {
    println!("listening on {}", server.address().unwrap());
}

fn welcome(mut joined: MessageReader<PlayerJoined>, mut commands: Commands) {
    for joined in joined.read() {
        commands.entity(joined.entity).insert(Walker { pos: [0.0, 0.0] });
    }
}

fn walk(mut walkers: Query<&mut Walker, Without<Player>>) {
    walkers.iter_mut().for_each(|mut walker| walker.pos[1] += 0.02);
}
