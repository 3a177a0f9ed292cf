//! A small world for tests: walkers at their homes, orders from players.

use bevy_app::prelude::*;
use bevy_ecs::prelude::*;
use foveate_bevy::foveate::io::EndpointOptions;
use foveate_bevy::foveate::wire::Micros;
use foveate_bevy::prelude::*;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Walks about its home.
#[derive(Component, Replicate, Clone, PartialEq, Debug)]
#[replicate(max_speed = 12.0)]
pub struct Walker {
    #[replicate(place, motion)]
    pub pos: [f32; 2],
    /// Its number; players have none.
    pub nth: Option<u16>,
}

/// Has no place of its own.
#[derive(Component, Replicate, Clone, PartialEq, Debug)]
pub struct Mood {
    pub joy: u8,
}

/// Replicated apart from the others.
#[derive(Component, Replicate, Clone, PartialEq, Debug)]
pub struct Badge {
    pub text: String,
}

/// What players may ask for.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub enum Order {
    /// Everybody goes home and stays there.
    Halt,
    /// The player is somewhere else.
    Go([f32; 2]),
}

/// What players do in every tick.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Default, Debug)]
pub struct Keys {
    pub east: i8,
}

pub fn shared(app: &mut App) {
    app.replicate_together::<(Walker, Mood)>().replicate::<Badge>();
    app.player_message::<Order>().player_input::<Keys>();
}

pub fn server(view: View, options: EndpointOptions) -> App {
    let mut app = App::new();
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    app.add_plugins((
        ServerPlugin {
            freeze_after: Micros::from_millis(300),
            // Long enough that no client sleeps through what is between the two.
            forget_after: Micros::from_millis(3_000),
            options,
            ..ServerPlugin::new(listen, view)
        },
        shared,
    ));
    app
}

pub fn client(address: SocketAddr, name: &str) -> App {
    let mut app = App::new();
    app.add_plugins((ClientPlugin::new(address, name, Trust::InsecureDevelopmentOnly), shared));
    app
}

/// Updates apps in turn until something holds, or for too long.
pub fn until(apps: &mut [&mut App], mut holds: impl FnMut(&mut [&mut App]) -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(120) {
        apps.iter_mut().for_each(|app| app.update());
        if holds(apps) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

/// All values of a component.
pub fn all<T: Component + Clone>(app: &mut App) -> Vec<T> {
    let world = app.world_mut();
    world.query::<&T>().iter(world).cloned().collect()
}
