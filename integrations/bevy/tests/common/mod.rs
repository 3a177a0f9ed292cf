//! A small world for tests: walkers at their homes, and orders from players.

use bevy_app::prelude::*;
use bevy_ecs::prelude::*;
use foveate_bevy::foveate::io::EndpointOptions;
use foveate_bevy::foveate::wire::Micros;
use foveate_bevy::prelude::*;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Walks around its home.
#[derive(Component, Replicate, Clone, PartialEq, Debug)]
#[replicate(max_speed = 12.0)]
pub struct Walker {
    #[replicate(place, motion)]
    pub pos: [f32; 2],
    /// The number of the walker; `None` for players.
    pub nth: Option<u16>,
}

/// A component without a place.
#[derive(Component, Replicate, Clone, PartialEq, Debug)]
pub struct Mood {
    pub joy: u8,
}

/// Replicated separately from the others.
#[derive(Component, Replicate, Clone, PartialEq, Debug)]
pub struct Badge {
    pub text: String,
}

/// Messages of players.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub enum Order {
    /// All walkers go home and stay there.
    Halt,
    /// The player teleports.
    Go([f32; 2]),
}

/// The inputs of players.
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
            // Long enough that no client misses the time between the two.
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

/// Updates apps in turn until the condition holds; false after a time limit.
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
