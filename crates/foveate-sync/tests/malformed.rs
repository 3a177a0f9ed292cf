//! Bytes that no publisher sent: a set of replicas applies or refuses them, but never panics, and
//! refused bytes have no effect.

mod common;

use common::{Avatar, World, check_shortcuts, schema};
use fastrand::Rng;
use foveate_sync::ReplicaSet;
use foveate_sync::interest::presets;
use foveate_sync::replica::Life;
use foveate_wire::packet::{Ack, PacketWriter, StateHeader, VERSION};
use foveate_wire::{Alias, KindId, Models, Motion, ObjectId, Tick};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The packets of a busy session, in the order in which one observer received them.
fn session(seed: u64) -> Vec<Vec<u8>> {
    let mut rng = Rng::with_seed(seed);
    let mut world = World::new();
    let mut avatars: Vec<_> = (0..8)
        .map(|n| {
            let avatar = Avatar::at(n as f32 * 10.0, rng.f32() * 50.0);
            (world.create(&avatar), avatar)
        })
        .collect();
    let eyes = avatars[0].0;
    world.observe(eyes, presets::normal(60.0, 120.0).build().unwrap());
    let mut packets = Vec::new();
    for _ in 0..60 {
        for (slot, avatar) in &mut avatars {
            avatar.pos[0] += rng.f32() * 3.0;
            avatar.yaw = rng.f32() * 6.0;
            if rng.u32(..30) == 0 {
                *avatar = Avatar::at(rng.f32() * 400.0, rng.f32() * 400.0);
            }
            world.publisher.store.set(*slot, avatar).unwrap();
        }
        world.tick += 1;
        let (tick, now) = (Tick(world.tick), world.now());
        let (observer, replicas) = &mut world.seats[0];
        let mut sent = Vec::new();
        world.publisher.round(tick, now, |_, bytes| sent.push(bytes.to_vec()));
        for bytes in &sent {
            replicas.receive(bytes, |_| {}).unwrap();
        }
        if let Some(ack) = replicas.ack() {
            world.publisher.on_ack(*observer, &ack, now);
        }
        packets.extend(sent);
    }
    world.settle(10);
    let near = avatars[1..].iter().filter(|(slot, _)| world.believed(0, *slot).is_some());
    assert!(near.count() > 2, "the session is worth breaking");
    packets
}

#[test]
fn an_object_with_two_aliases_is_there_once() {
    let schema = schema();
    let (kind, id) = (&schema.kinds()[0], ObjectId::new(KindId(0), 0, 7));
    let mut set = ReplicaSet::new(schema.clone(), Tick(0));
    let mut say = |seq: u16, alias: Alias, gone: bool| {
        let (mut out, mut models) = (Vec::new(), Models::trained());
        let header = StateHeader { seq, tick: Tick(u32::from(seq) + 1) };
        let mut writer = PacketWriter::new(&mut out, &mut models, header);
        if gone {
            writer.gone(alias);
        } else {
            writer.full(alias, id, kind, &mut vec![0; kind.lane_count()]);
        }
        writer.finish();
        set.receive(&out, |_| {}).unwrap();
        check_shortcuts(&set);
        set.len()
    };
    assert_eq!(say(0, Alias(0), false), 1);
    assert_eq!(say(1, Alias(1), false), 1);
    assert_eq!(say(2, Alias(0), true), 1, "the second is the one that counts");
    assert_eq!(say(3, Alias(1), true), 0);
}

/// Everything that a set can be asked for.
type Seen = (Tick, Option<Ack>, Vec<(ObjectId, Life, Tick, Vec<i32>, Motion)>);

fn seen(set: &ReplicaSet) -> Seen {
    let views = set.iter();
    let views = views.map(|v| (v.id(), v.life(), v.tick(), v.lanes().to_vec(), v.motion()));
    (set.newest(), set.ack(), views.collect())
}

/// A set that received the first packets of a session.
fn after(packets: &[Vec<u8>]) -> ReplicaSet {
    let mut set = ReplicaSet::new(schema(), Tick(0));
    packets.iter().for_each(|bytes| assert!(set.receive(bytes, |_| {}).is_ok()));
    set
}

/// Random bytes after a valid header, or a damaged valid packet.
fn bad(packets: &[Vec<u8>], at: usize, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = packets[at].clone();
    match rng.u32(..6) {
        0 => return (0..rng.usize(..1_300)).map(|_| rng.u8(..)).collect(),
        1 => {
            bytes = (0..rng.usize(5..1_300)).map(|_| rng.u8(..)).collect();
            bytes[0] = VERSION << 4 | 1;
        }
        2 => bytes.truncate(rng.usize(..bytes.len())),
        3 => {
            let other = &packets[rng.usize(..packets.len())];
            bytes.truncate(rng.usize(..bytes.len()));
            bytes.extend(&other[rng.usize(..other.len())..]);
        }
        _ => (0..rng.u32(1..4)).for_each(|_| {
            let at = rng.usize(..bytes.len());
            bytes[at] ^= 1 << rng.u32(..8);
        }),
    }
    bytes
}

#[test]
fn bad_packets_never_panic_and_refused_ones_have_no_effect() {
    let (mut refused, mut taken) = (0, 0);
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let packets = session(seed);
        for at in (0..packets.len()).step_by(6) {
            let mut set = after(&packets[..at]);
            let mut before = seen(&set);
            for _ in 0..50 {
                let bytes = bad(&packets, at, &mut rng);
                let result = catch_unwind(AssertUnwindSafe(|| set.receive(&bytes, |_| {})));
                let result =
                    result.unwrap_or_else(|_| panic!("seed {seed}, packet {at}: {bytes:?}"));
                if result.is_err() {
                    refused += 1;
                    assert_eq!(seen(&set), before, "seed {seed}, packet {at}: {bytes:?}");
                } else {
                    // Nothing on the wire distinguishes it from a valid one, for which links are
                    // authenticated. It must be harmless to the program, not to the game.
                    taken += 1;
                    set.iter().for_each(|view| {
                        view.value::<Avatar>().expect("there is one kind");
                        view.predicted(Tick(seed as u32)).expect("it has a place");
                    });
                    set = after(&packets[..at]);
                    before = seen(&set);
                }
            }
            assert!(set.receive(&packets[at], |_| {}).is_ok(), "seed {seed}, packet {at}");
            assert_eq!(seen(&set), seen(&after(&packets[..=at])), "seed {seed}, packet {at}");
        }
    }
    assert!(
        refused > 1_000 && taken > 100,
        "{refused} refused, {taken} taken: the test tests little"
    );
}

#[test]
fn repeated_and_late_packets_are_refused() {
    let packets = session(3);
    let mut set = after(&packets);
    let before = seen(&set);
    for bytes in &packets {
        assert!(set.receive(bytes, |_| {}).is_err());
    }
    assert_eq!(seen(&set), before);
}
