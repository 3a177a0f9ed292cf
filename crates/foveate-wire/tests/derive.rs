//! Attributes of the derive.

use foveate_wire::{FieldType, Replicate, Schema};

#[derive(Replicate)]
struct Gauge {
    #[replicate(bits = 8, min = 0.0, max = 1.0)]
    fill: f32,
    #[replicate(place, bits = 12, extent = 100.0)]
    pos: [f32; 2],
    #[replicate(floor = 5)]
    level: u8,
}

#[test]
fn bits_and_floors_count() {
    let schema = Schema::new(vec![Gauge::spec()]).unwrap();
    let kind = &schema.kinds()[0];
    let FieldType::Number { precision, .. } = kind.spec.fields[0].ty else { panic!() };
    assert_eq!(precision, 1.0 / 255.0);
    let FieldType::Place { precision, .. } = kind.spec.fields[1].ty else { panic!() };
    assert_eq!(precision, 200.0 / 4095.0);
    assert_eq!(kind.floored[0].floor_steps, 5);
    let mut lanes = vec![0; kind.lane_count()];
    Gauge { fill: 1.0, pos: [-100.0, 100.0], level: 7 }.put(kind, &mut lanes);
    let Gauge { fill, pos, level } = Gauge::get(kind, &lanes);
    assert_eq!((lanes[2], fill, level), (255, 1.0, 7));
    assert!((pos[0] + 100.0).abs() < 0.03 && (pos[1] - 100.0).abs() < 0.03, "{pos:?}");
}
