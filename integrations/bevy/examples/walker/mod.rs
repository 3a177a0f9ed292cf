//! The component that both ends of the example replicate.

use bevy_ecs::prelude::*;
use foveate_bevy::prelude::*;

#[derive(Component, Replicate, Debug)]
#[replicate(max_speed = 8.0)]
pub struct Walker {
    #[replicate(place, motion)]
    pub pos: [f32; 2],
}
