//! Objects without a place, and observers without eyes.

#[allow(dead_code, reason = "not all of it is needed here")]
mod common;

use common::{Avatar, ROUND};
use foveate_sync::interest::presets;
use foveate_sync::{Observer, Pivots, Publisher, ReplicaSet, Rounds};
use foveate_wire::{KindId, ObjectId, OwnerId, Replicate, Schema, Tick};
use std::sync::Arc;

#[derive(Clone, PartialEq, Debug, Replicate)]
struct Score {
    points: u8,
}

/// Objects without a place are always strong: also for who is dead, or looks from nowhere yet.
#[test]
fn what_has_no_place_is_told_to_those_who_look_from_nowhere() {
    let schema = Arc::new(Schema::new(vec![Avatar::spec(), Score::spec()]).unwrap());
    let mut publisher = Publisher::new(schema.clone(), Rounds::every(ROUND));
    let names = [ObjectId::new(KindId(0), 0, 1), ObjectId::new(KindId(1), 0, 1)];
    let store = &mut publisher.store;
    let eyes = store.create(names[0], OwnerId(0), &Avatar::at(0.0, 0.0)).unwrap();
    let score = store.create(names[1], OwnerId(0), &Score { points: 1 }).unwrap();
    let view = || presets::normal(30.0, 60.0).build().unwrap();
    let seats = [Pivots::Object(eyes), Pivots::Free(Vec::new())];
    let mut seats = seats.map(|pivots| {
        let id = publisher.add(Observer::new(view(), pivots, Tick(0)));
        (id, ReplicaSet::new(schema.clone(), Tick(0)))
    });
    for tick in 1..=60 {
        match tick {
            20 => publisher.store.remove(eyes).unwrap(),
            30 => publisher.store.set(score, &Score { points: 2 }).unwrap(),
            _ => {}
        }
        publisher.round(Tick(tick), ROUND * tick, |to, bytes| {
            let seat = seats.iter_mut().find(|(id, _)| *id == to);
            seat.unwrap().1.receive(bytes, |_| {}).unwrap();
        });
        for (id, replicas) in &seats {
            replicas.ack().iter().for_each(|ack| publisher.on_ack(*id, ack, ROUND * tick));
        }
        let points = if tick < 30 { 1 } else { 2 };
        for (_, replicas) in &seats {
            let seen = replicas.get(names[1]).and_then(|view| view.value::<Score>());
            assert_eq!(seen, Some(Score { points }), "round {tick}");
        }
    }
    assert!(seats[0].1.get(names[0]).is_none(), "nor does a dead player's avatar stay for ever");
}
