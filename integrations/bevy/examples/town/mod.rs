//! The example's game: a hundred walkers in a row that walk north at two units a second.

use crate::walker::Walker;
use bevy_ecs::prelude::*;
use foveate_bevy::{NetPlayer, NetServer};

pub fn spawn(mut commands: Commands) {
    commands.spawn_batch((0..100).map(|nth| Walker { pos: [nth as f32 * 4.0, 0.0] }));
}

pub fn walk(mut walkers: Query<&mut Walker, Without<NetPlayer>>) {
    walkers.iter_mut().for_each(|mut walker| walker.pos[1] += 0.02);
}

pub fn announce(server: Res<NetServer>) {
    println!("listening on {}", server.address().unwrap());
}
