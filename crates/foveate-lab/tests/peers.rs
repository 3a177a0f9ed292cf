//! Peers that own the objects that matter to them: transfers, crashes, partitions, leaving.

use foveate_lab::experiments::ownership::Size;
use foveate_lab::experiments::peers::liars::{self, Lie};
use foveate_lab::movement::{Movement, Waypoint, WaypointSpec};
use foveate_lab::net::Latency;
use foveate_lab::peers::{
    BASE, Census, Keys, Meadow, MeadowSpec, NetSpec, PeerCoherence, PlacedPeer, Play, SHIP,
};
use foveate_node::Outbox;
use foveate_node::outbox::RecordingOutbox;
use foveate_node::peer::identity::Sealed;
use foveate_node::peer::wire::{Digest, PeerMessage};
use foveate_node::peer::{MAX_LINKS, Signer};
use foveate_node::session::write_message;
use foveate_wire::{Micros, ObjectId};

const ROUND: Micros = Micros(50_000);
const WORLD: MeadowSpec = MeadowSpec {
    side: 600.0,
    bases: 24,
    view: 300.0,
    interaction: 100.0,
    speeds: [40.0, 10.0],
    rate: 20.0,
    seed: 5,
};

fn seconds(seconds: u64) -> Micros {
    Micros(seconds * 1_000_000)
}

fn play(players: usize, loss: f64, seed: u64) -> Play<Waypoint> {
    play_in(WORLD, players, loss, seed)
}

fn play_in(world: MeadowSpec, players: usize, loss: f64, seed: u64) -> Play<Waypoint> {
    let walk = WaypointSpec {
        count: players + 60,
        side: world.side,
        speed: [15.0, 40.0],
        pause: [0.0, 1.0],
        leg: 200.0,
        rate: 20.0,
    };
    let net = NetSpec {
        round: ROUND,
        latency: Latency::Uniform(Micros(10_000), Micros(60_000)),
        loss,
        relayed: 0.0,
        queue: 64 << 10,
        seed,
    };
    let mut play = Play::new(world, net, Waypoint::new(walk, seed)).unwrap();
    play.fill(players, Micros(300_000), |_| None);
    play.run(seconds(5));
    play
}

#[test]
fn all_peers_join_and_objects_go_to_near_peers() {
    let mut play = play(8, 0.02, 1);
    assert!(play.net.present().all(|(_, node)| node.inside.is_some()));
    play.run(seconds(10));
    let census = Census::take(&play.net);
    assert!(census.owners.len() == 24 && census.is_clean(), "{census:?}");
    let (most, mean) = census.load(8);
    assert!(most < 15 && (mean - 3.0).abs() < 0.01, "{most} {mean}");
    let coherence = PeerCoherence::look(&play.net, |_| true).unwrap();
    assert!(coherence.delta < 0.02 && coherence.lacking < 0.05, "{coherence:?}");
    assert!(play.net.present().all(|(_, node)| node.verdicts.is_empty()));
}

#[test]
fn last_known_places_come_from_digests_whatever_the_clocks() {
    let world = MeadowSpec { side: 2_000.0, bases: 0, ..WORLD };
    let mut play = play_in(world, 50, 0.02, 8);
    play.run(seconds(15));
    let now = play.net.tick_at(play.net.now()).0;
    for (at, node) in play.net.present() {
        let linked: Vec<_> = node.peer.neighbours().collect();
        for (player, member) in node.peer.members().iter().filter(|it| !linked.contains(&it.0)) {
            let seen = (member.seen_at().0 / ROUND.0) as u32;
            let age = now.wrapping_sub(seen) as i32;
            assert!((-5..800).contains(&age), "{at} saw {player:?} {age} rounds ago");
        }
    }
}

#[test]
fn peers_that_come_into_view_meet_through_others_that_see_both() {
    let world = MeadowSpec { side: 700.0, bases: 0, view: 120.0, interaction: 40.0, ..WORLD };
    let mut play = play_in(world, 60, 0.02, 9);
    let (mut near, mut seen) = (0u32, 0u32);
    for _ in 0..15 {
        play.run(seconds(1));
        for (at, node) in play.net.present() {
            let here = play.movement().pose(at).unwrap().pos;
            for (of, other) in play.net.present().filter(|it| it.0 != at) {
                let there = play.movement().pose(of).unwrap().pos;
                if (here[0] - there[0]).hypot(here[1] - there[1]) < 0.8 * world.view {
                    let ship = ObjectId::new(SHIP, other.peer.player().0, 0);
                    near += 1;
                    seen += u32::from(node.peer.simulation.ghosts.lanes(ship).is_some());
                }
            }
        }
    }
    assert!(near > 1_000 && f64::from(seen) >= 0.97 * f64::from(near), "{seen} of {near}");
}

#[test]
fn what_a_crashed_peer_owned_has_one_owner_soon_after() {
    let mut play = play(8, 0.02, 2);
    play.run(seconds(10));
    (0..4).for_each(|at| drop(play.net.crash(at)));
    play.run(Micros(4_400_000));
    let census = Census::take(&play.net);
    assert!(census.is_clean(), "{census:?}");
    assert_eq!(census.owners.len(), 24, "six others keep each object");
}

#[test]
fn crashed_peers_are_forgotten_by_all() {
    for seed in [1, 25] {
        let mut play = play(12, 0.02, seed);
        play.run(seconds(5) + Micros(seed * 150_000));
        (0..6).for_each(|at| drop(play.net.crash(at)));
        play.run(seconds(4));
        (0..3).for_each(|_| _ = play.enter(Some(6), None));
        play.run(seconds(50));
        for (at, node) in play.net.present() {
            let known = node.peer.members().iter().count();
            assert_eq!(known, 8, "seed {seed}: peers that {at} knows");
        }
        let census = Census::take(&play.net);
        assert!(census.is_clean() && census.owners.len() == 24, "seed {seed}: {census:?}");
    }
}

#[test]
fn nothing_is_sent_to_a_peer_that_is_only_known_from_gossip() {
    let mut play = play(4, 0.0, 7);
    // The last digest of a peer that is gone: it claims every object, with claims that win.
    let ghost = Keys::new(77).unwrap();
    let owned = (0..24).map(|serial| (ObjectId::new(BASE, 0, serial).into(), 50)).collect();
    let number = Digest::number_at(ROUND * play.net.tick_at(play.net.now()).0);
    let contact = 999u32.to_le_bytes().to_vec();
    let (key, at, boards, gone) = (ghost.key(), [0; 3], vec![], false);
    let digest = Digest { key, number, at, contact, owned, boards, gone };
    let said = write_message(&PeerMessage::Members(vec![Sealed::new(&digest, &ghost)]));
    let mut said = Some(said);
    let pass_on = move |_, node: &mut PlacedPeer<Meadow>, out: &mut RecordingOutbox| {
        if let Some(said) = said.take() {
            node.peer.links().for_each(|(link, _)| out.message(link, &said));
        }
        None
    };
    play.corrupt(1, Box::new(pass_on));
    play.run(seconds(15));
    let heard = play.net.present().filter(|it| it.1.peer.members().get(key.player()).is_some());
    assert_eq!(heard.count(), 4, "all have heard of it");
    let census = Census::take(&play.net);
    assert!(census.is_clean() && census.owners.len() == 24, "{census:?}");
}

#[test]
fn a_peer_that_stalled_takes_nothing_from_the_others() {
    let mut play = play(8, 0.01, 4);
    play.run(seconds(10));
    let peer = |play: &Play<Waypoint>, at: usize| -> (usize, u64) {
        let peer = &play.net.nodes[at].as_ref().unwrap().peer;
        (peer.owned().count(), peer.counts().taken_over)
    };
    let (owned, taken) = peer(&play, 3);
    assert!(owned > 1, "it has more than its ship");
    play.net.pause(3, true);
    play.run(seconds(30));
    play.net.pause(3, false);
    play.run(seconds(10));
    let census = Census::take(&play.net);
    assert!(census.is_clean() && census.owners.len() == 24, "{census:?}");
    assert_eq!(peer(&play, 3).1, taken, "others had all that it had");
    assert_eq!(play.net.present().flat_map(|(_, node)| &node.verdicts).count(), 0);
    let ship = ObjectId::new(SHIP, play.net.nodes[3].as_ref().unwrap().peer.player().0, 0);
    let others = play.net.present().filter(|(at, _)| *at != 3);
    let see = others.filter(|(_, node)| node.peer.simulation.ghosts.lanes(ship).is_some());
    assert!(see.count() > 2, "others see it again");
}

#[test]
fn when_all_stall_at_once_nothing_is_lost() {
    let mut play = play(8, 0.01, 4);
    play.run(seconds(10));
    (0..8).for_each(|at| play.net.pause(at, true));
    play.run(seconds(5));
    (0..8).for_each(|at| play.net.pause(at, false));
    play.run(seconds(8));
    let census = Census::take(&play.net);
    assert!(census.is_clean() && census.owners.len() == 24, "{census:?}");
}

#[test]
fn a_leaving_peer_hands_over_all_objects_at_once() {
    let mut play = play(6, 0.0, 3);
    play.run(seconds(5));
    play.net.leave(0);
    play.run(Micros(1_000_000));
    let census = Census::take(&play.net);
    assert!(census.is_clean() && census.owners.len() == 24, "{census:?}");
    play.run(seconds(10));
    let taken = play.net.present().map(|(_, node)| node.peer.counts().taken_over);
    assert_eq!(taken.sum::<u64>(), 0, "what is handed over need not be taken over");
}

#[test]
fn after_a_partition_every_object_has_one_owner_again() {
    for seed in [1, 3, 4] {
        let mut play = play(12, 0.01, seed);
        play.run(seconds(5));
        (0..6).for_each(|at| play.net.partition(at, 1));
        play.run(seconds(20));
        let apart = Census::take(&play.net);
        assert!(apart.doubled > 12, "each side goes on with its own: {apart:?}");
        (0..6).for_each(|at| play.net.partition(at, 0));
        play.run(seconds(5));
        // What some peers remember is out of date by now. That must not make others look like cheats.
        for _ in 0..30 {
            play.run(seconds(1));
            let healed = Census::take(&play.net);
            assert!(healed.is_clean() && healed.owners.len() == 24, "seed {seed}: {healed:?}");
        }
        let verdicts = play.net.present().flat_map(|(_, node)| &node.verdicts);
        assert_eq!(verdicts.count(), 0, "seed {seed}: no peer cheated");
    }
}

#[test]
fn peers_that_ban_a_cheat_early_are_not_banned_by_those_that_ban_it_late() {
    for seed in [4, 9] {
        let size = Size { players: 16, objects: 36 };
        let harm = liars::harm(size, Lie::Leaps, seconds(15), seed).unwrap();
        assert!(harm.named == harm.met && harm.wronged == 0, "seed {seed}: {harm:?}");
    }
}

#[test]
fn a_peer_that_claims_everything_is_named_by_all_and_no_other_is() {
    let size = Size { players: 10, objects: 24 };
    let harm = liars::harm(size, Lie::Claims, seconds(6), 1).unwrap();
    assert_eq!((harm.named, harm.wronged), (harm.met, 0), "{harm:?}");
    assert!(harm.met >= 9 && harm.lied_to < 1.5 * harm.honest, "{harm:?}");
}

#[test]
fn a_peer_that_finds_the_contact_full_joins_by_another() {
    // Peers see few of each other: only the links matter here.
    let world = MeadowSpec { side: 4_000.0, bases: 0, view: 60.0, interaction: 20.0, ..WORLD };
    let mut play = play_in(world, 1, 0.0, 6);
    // More newcomers than a peer has links for, all at once and through the same peer.
    let newcomers = MAX_LINKS + 12;
    (0..newcomers).for_each(|_| _ = play.enter(Some(0), None));
    play.run(seconds(1));
    let contact = &play.net.nodes[0].as_ref().unwrap().peer;
    assert!(contact.counts().full >= 12, "it was full: {:?}", contact.counts());
    play.run(seconds(14));
    let inside = play.net.present().filter(|(_, node)| node.inside.is_some()).count();
    assert_eq!(inside, newcomers + 1);
    let most = play.net.present().map(|(_, node)| node.peer.neighbours().count()).max();
    assert!(most.is_some_and(|most| most <= MAX_LINKS), "{most:?}");
}

#[test]
fn the_same_seed_sends_the_same_bytes() {
    let digest = |seed| play(5, 0.05, seed).net.digest();
    assert_eq!(digest(7), digest(7));
    assert_ne!(digest(7), digest(8));
}
