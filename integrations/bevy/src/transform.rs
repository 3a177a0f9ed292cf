//! `Transform` over the network: a component that mirrors it.

use crate::client::{ClientSystems, Replica};
use crate::registry::ReplicateApp;
use crate::server::ServerSystems;
use bevy_app::{App, Plugin, PostUpdate, PreUpdate};
use bevy_ecs::prelude::*;
use bevy_transform::components::Transform;
use foveate::wire::Replicate;

/// A mirror of `Transform`: the place to 1/64 of a unit within 16,384 of the origin, the rotation
/// to 11 bits per part; scale is not replicated. Insert it at the server beside `Transform`; at
/// clients, replicas get a `Transform` from it. It has no facing that views could use: entities
/// that look with a field of view need a component of your own with a `yaw`.
#[derive(Component, Replicate, Clone, Copy, PartialEq, Debug)]
#[require(Transform)]
#[replicate(name = "transform", max_speed = 64.0)]
pub struct NetTransform {
    /// `Transform::translation`. More than 64 units a second is a jump: correct, but more
    /// expensive.
    #[replicate(place, motion, precision = 0.015625, extent = 16384.0)]
    pub translation: [f32; 3],
    /// `Transform::rotation`.
    #[replicate(bits = 11)]
    pub rotation: [f32; 4],
}

impl Default for NetTransform {
    fn default() -> NetTransform {
        NetTransform { translation: [0.0; 3], rotation: [0.0, 0.0, 0.0, 1.0] }
    }
}

/// Replicates [`NetTransform`] and keeps it equal to `Transform`. Adding the plugin counts as
/// registering a component.
pub struct TransformPlugin;

impl Plugin for TransformPlugin {
    fn build(&self, app: &mut App) {
        app.replicate::<NetTransform>()
            .add_systems(PostUpdate, mirror.before(ServerSystems::Collect))
            .add_systems(PreUpdate, show.after(ClientSystems::Show));
    }
}

type Moved = (Or<(Changed<Transform>, Added<NetTransform>)>, Without<Replica>);

fn mirror(mut moved: Query<(&Transform, &mut NetTransform), Moved>) {
    for (transform, mut net) in &mut moved {
        let (translation, rotation) =
            (transform.translation.to_array(), transform.rotation.to_array());
        net.set_if_neq(NetTransform { translation, rotation });
    }
}

type Shown = (Changed<NetTransform>, With<Replica>);

fn show(mut changed: Query<(&NetTransform, &mut Transform), Shown>) {
    for (net, mut transform) in &mut changed {
        transform.translation = net.translation.into();
        let rotation = &mut transform.rotation;
        [rotation.x, rotation.y, rotation.z, rotation.w] = net.rotation;
    }
}
