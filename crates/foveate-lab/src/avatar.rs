//! The object that the lab moves.

use crate::movement::{AvatarPose, Movement};
use foveate_wire::{FieldType, KindSpec, Replicate, Role, Schema, SchemaError};
use std::sync::Arc;

/// An avatar: a place, a facing and a state.
#[derive(Clone, PartialEq, Debug, Replicate)]
#[replicate(name = "avatar")]
pub struct LabAvatar {
    #[replicate(place)]
    pub pos: [f32; 3],
    /// Radians, counter-clockwise from +x.
    #[replicate(yaw, steps = 240)]
    pub yaw: f32,
    /// Radians, up.
    #[replicate(pitch, steps = 240)]
    pub pitch: f32,
    /// A field that changes now and then.
    pub state: u8,
}

impl From<AvatarPose> for LabAvatar {
    fn from(pose: AvatarPose) -> LabAvatar {
        LabAvatar { pos: pose.pos, yaw: pose.yaw, pitch: pose.pitch, state: pose.state }
    }
}

/// The properties of avatars that depend on their world.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AvatarSpec {
    /// The precision of a coordinate.
    pub precision: f32,
    /// The largest coordinate.
    pub extent: f32,
    /// Units per second.
    pub max_speed: f32,
    /// Whether replicas are predicted between updates.
    pub motion: bool,
    /// Free fall in steps per tick²; zero for none.
    pub fall: i32,
    /// A facing that changed by fewer degrees counts as unchanged.
    pub facing_floor: f32,
}

impl AvatarSpec {
    /// The predicted avatars of a movement, without free fall, and with a facing that counts from 15° on.
    pub fn of(movement: &impl Movement, precision: f32) -> AvatarSpec {
        AvatarSpec {
            precision,
            extent: movement.extent(),
            max_speed: movement.max_speed(),
            motion: true,
            fall: 0,
            facing_floor: 15.0,
        }
    }

    /// The schema of a world of such avatars.
    pub fn schema(&self) -> Result<Arc<Schema>, SchemaError> {
        let mut kind: KindSpec = LabAvatar::spec();
        (kind.max_speed, kind.fall) = (self.max_speed, self.fall);
        for field in &mut kind.fields {
            match field.role {
                Role::Place => {
                    let AvatarSpec { precision, extent, motion, .. } = *self;
                    field.ty = FieldType::Place { dims: 3, precision, extent, motion };
                }
                Role::Yaw | Role::Pitch => field.floor = self.facing_floor.to_radians(),
                Role::Plain => {}
            }
        }
        Ok(Arc::new(Schema::new(vec![kind])?))
    }
}
