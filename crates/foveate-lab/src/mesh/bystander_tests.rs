//! A player that looks on while objects change regions is sent the same bytes as if they did not.

use super::game::{Drift, DriftSpec, WALKER};
use super::parts::clients::view;
use super::run::ROUND;
use foveate_node::game::Game;
use foveate_node::region::RegionSettings;
use foveate_node::region::bus::RegionEpoch;
use foveate_node::region::layout::{Rect, RegionId};
use foveate_node::region::log::ObjectState;
use foveate_node::region::owner::{Region, RegionStart, Row};
use foveate_sync::{Observer, Pivots, ReplicaSet};
use foveate_wire::{Metres, Micros, ObjectId, Tick};
use std::sync::Arc;

const WALKERS: u32 = 24;
const TICKS: u32 = 400;
const OTHER: RegionId = RegionId(1);

fn walker(serial: u32) -> ObjectId {
    ObjectId::new(WALKER, 0, serial)
}

/// A region that owns all walkers.
fn region(game: &Arc<Drift>) -> Region<Drift> {
    let extent = Rect { min: [-24.0; 2], max: [24.0; 2] };
    let settings = RegionSettings::new(ROUND, Metres(16.0), extent);
    let name = RegionEpoch { region: RegionId(0), epoch: 1 };
    let start = RegionStart { name, standby: None, tick: 0, now: Micros::ZERO };
    let mut region = Region::new(game, &settings, start);
    for (serial, spawn) in (0..).zip(game.populate()) {
        let state = ObjectState { tick: 0, lanes: spawn.lanes, marks: Vec::new() };
        assert!(region.own(walker(serial), 0, &state, false));
    }
    region
}

fn lanes(region: &Region<Drift>, id: ObjectId) -> Vec<i32> {
    let store = &region.simulation.publisher.store;
    store.lanes(store.find(id).unwrap()).to_vec()
}

/// Another region gets an object, or gives it back.
fn change_owner(region: &mut Region<Drift>, id: ObjectId, tick: u32, now: Micros) {
    if let Some(row) = region.owned_row(id) {
        assert_eq!(row.offered, None);
        region.relay(id, OTHER, (tick, now));
    } else {
        let state = ObjectState { tick, lanes: lanes(region, id), marks: Vec::new() };
        assert!(region.own(id, tick, &state, true));
    }
}

/// What a player who follows the first walker is sent in each tick, and how often others changed regions.
fn watch(changes: bool) -> (Vec<Vec<u8>>, usize) {
    let spec = DriftSpec {
        half: 20.0,
        walkers: WALKERS,
        crates: 0,
        items: 0,
        pace: 1.2,
        crowd: 0,
        seed: 1,
    };
    let game = Arc::new(Drift::new(spec).unwrap());
    // The other region steps the same objects by the same rules.
    let (mut region, mut everywhere) = (region(&game), region(&game));
    let slot = region.simulation.publisher.store.find(walker(0)).unwrap();
    let observer = Observer::new(view(&game).unwrap(), Pivots::Object(slot), Tick(0));
    let observer = region.simulation.publisher.add(observer);
    let mut replicas = ReplicaSet::new(Arc::clone(game.schema()), Tick(0));
    let (mut sent, mut changed) = (Vec::new(), 0);
    for tick in 1..=TICKS {
        let now = ROUND * tick;
        everywhere.simulation.step(Tick(tick), |_, ()| {});
        everywhere.simulation.publisher.round(Tick(tick), now, |_, _| {});
        let leaves = |serial: &u32| (tick + 7 * serial).is_multiple_of(31);
        for serial in (1..WALKERS).filter(|serial| changes && leaves(serial)) {
            change_owner(&mut region, walker(serial), tick - 1, now);
            changed += 1;
        }
        let relayed = region.rows.iter().filter(|(_, row)| matches!(row, Row::Relayed { .. }));
        let relayed: Vec<ObjectId> = relayed.map(|(id, _)| *id).collect();
        region.simulation.relayed = relayed.iter().copied().collect();
        region.simulation.step(Tick(tick), |_, ()| {});
        for id in relayed {
            region.hear(id, OTHER, (tick, &lanes(&everywhere, id)));
        }
        let mut packets = Vec::new();
        region.simulation.publisher.round(Tick(tick), now, |_, it| packets.push(it.to_vec()));
        for packet in packets {
            replicas.receive(&packet, |_| {}).unwrap();
            sent.push(packet);
        }
        if let Some(ack) = replicas.ack() {
            region.simulation.publisher.on_ack(observer, &ack, now);
        }
    }
    (sent, changed)
}

#[test]
fn bystanders_are_sent_the_same_bytes_while_others_change_regions() {
    let ((alone, none), (beside, changed)) = (watch(false), watch(true));
    assert_eq!(none, 0);
    assert!(changed > 200 && alone.len() > 100, "{changed} changes, {} packets", alone.len());
    assert_eq!(alone, beside);
}
