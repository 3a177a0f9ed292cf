//! What peers request of each other: views, eyes and facings that change during the game, and trust in the choice of
//! owners.

use foveate_lab::movement::{AvatarPose, Movement, Waypoint, WaypointSpec};
use foveate_lab::net::Latency;
use foveate_lab::peers::{BASE, Census, MeadowSpec, NetSpec, Play, SHIP};
use foveate_node::Peer;
use foveate_node::peer::Key;
use foveate_wire::{Bytes, Micros, ObjectId};

const ROUND: Micros = Micros(50_000);
const WORLD: MeadowSpec = MeadowSpec {
    side: 600.0,
    bases: 0,
    view: 300.0,
    interaction: 100.0,
    speeds: [40.0, 10.0],
    rate: 20.0,
    seed: 5,
};
const NET: NetSpec = NetSpec {
    round: ROUND,
    latency: Latency::Constant(Micros(30_000)),
    loss: 0.0,
    relayed: 0.0,
    queue: 64 << 10,
    seed: 1,
};

/// Each avatar's pose in a round.
struct Script {
    pose: fn(usize, u32) -> AvatarPose,
    round: u32,
}

impl Movement for Script {
    fn len(&self) -> usize {
        8
    }

    fn step(&mut self) -> bool {
        self.round += 1;
        true
    }

    fn pose(&self, at: usize) -> Option<AvatarPose> {
        Some((self.pose)(at, self.round))
    }

    fn side(&self) -> f32 {
        WORLD.side
    }

    fn extent(&self) -> f32 {
        WORLD.side
    }

    fn max_speed(&self) -> f32 {
        40.0
    }
}

/// A pose that prediction never expects.
fn restless(x: f32, yaw: f32, round: u32) -> AvatarPose {
    let y = 300.0 + 2.0 * (0.9 * round as f32).sin();
    AvatarPose { pos: [x, y, 0.0], yaw: yaw.to_radians(), ..AvatarPose::default() }
}

fn still(x: f32, yaw: f32) -> AvatarPose {
    AvatarPose { pos: [x, 300.0, 0.0], yaw: yaw.to_radians(), ..AvatarPose::default() }
}

fn play(players: usize, pose: fn(usize, u32) -> AvatarPose) -> Play<Script> {
    let mut play = Play::new(WORLD, NET, Script { pose, round: 0 }).unwrap();
    play.fill(players, Micros(300_000), |_| None);
    rounds(&mut play, 100);
    play
}

fn rounds<M: Movement>(play: &mut Play<M>, count: u32) {
    (0..count).for_each(|_| play.round());
}

fn peer<M>(play: &mut Play<M>, at: usize) -> &mut Peer<foveate_lab::peers::Meadow> {
    &mut play.net.nodes[at].as_mut().unwrap().peer
}

/// How many states of a ship arrive at another peer in `count` rounds.
fn heard(play: &mut Play<Script>, by: usize, of: usize, count: u32) -> usize {
    let ship = ObjectId::new(SHIP, peer(play, of).player().0, 0);
    let (mut states, mut last) = (0, None);
    for _ in 0..count {
        play.round();
        let newest = peer(play, by).newest(ship);
        states += usize::from(newest != last);
        last = newest;
    }
    states
}

#[test]
fn a_turn_too_small_for_a_state_update_still_improves_what_is_ahead() {
    // At 58° off its facing the other ship is to the side. A turn of 12° brings it into the field ahead, and is below
    // the 15° from which a facing is sent.
    let mut play = play(2, |at, round| match at {
        0 => restless(400.0, 0.0, round),
        _ => still(200.0, if round < 250 { 58.0 } else { 46.0 }),
    });
    let beside = heard(&mut play, 1, 0, 60);
    assert!((17..=23).contains(&beside), "θ of 130 ms: every third round, not {beside} in 60");
    while play.movement().round < 270 {
        play.round();
    }
    let ahead = heard(&mut play, 1, 0, 60);
    assert!(ahead >= 27, "θ of 90 ms: every other round, not {ahead} in 60");
}

#[test]
fn a_small_turn_away_reduces_what_is_sent() {
    let mut play = play(2, |at, round| match at {
        0 => restless(400.0, 0.0, round),
        _ => still(200.0, if round < 250 { 64.0 } else { 76.0 }),
    });
    let beside = heard(&mut play, 1, 0, 60);
    while play.movement().round < 270 {
        play.round();
    }
    let behind = heard(&mut play, 1, 0, 60);
    assert!((17..=23).contains(&beside) && behind <= 12, "{beside}, then {behind}");
}

#[test]
fn a_zoom_is_announced_at_once_and_adds_objects_beyond_the_view() {
    let mut play = play(2, |at, round| match at {
        0 => restless(500.0, 0.0, round),
        _ => still(100.0, 0.0),
    });
    let before = heard(&mut play, 1, 0, 40);
    assert!(before <= 4, "400 units away is out of view: {before}");
    assert!(!peer(&mut play, 1).set_view(9), "the game has no such view");
    assert!(peer(&mut play, 1).set_view(1));
    rounds(&mut play, 5);
    let zoomed = heard(&mut play, 1, 0, 40);
    assert!(zoomed >= 12, "{zoomed}");
    assert!(peer(&mut play, 1).set_view(0));
    rounds(&mut play, 5);
    let after = heard(&mut play, 1, 0, 40);
    assert!(after <= 4, "{after}");
}

#[test]
fn a_spectator_gets_states_near_its_eyes() {
    let mut play = play(3, |at, round| match at {
        0 => still(470.0, 0.0),
        1 => restless(500.0, 180.0, round),
        _ => still(100.0, 180.0),
    });
    let watched = ObjectId::new(SHIP, peer(&mut play, 0).player().0, 0);
    let before = heard(&mut play, 2, 1, 40);
    assert!(before <= 4, "{before}");
    assert!(!peer(&mut play, 2).spectate(Some(ObjectId::new(BASE, 0, 0))), "no ship");
    assert!(peer(&mut play, 2).spectate(Some(watched)));
    rounds(&mut play, 5);
    let watching = heard(&mut play, 2, 1, 40);
    assert!(watching >= 30, "30 units ahead of the one it watches: {watching}");
    assert!(peer(&mut play, 2).spectate(None));
    rounds(&mut play, 5);
    let after = heard(&mut play, 2, 1, 40);
    assert!(after <= 4, "{after}");
}

/// Six moving peers, and a seventh in a corner of the world, which joined first.
fn wanderers(seed: u64) -> (Play<Waypoint>, Key) {
    let walk = WaypointSpec {
        count: 7,
        side: WORLD.side,
        speed: [15.0, 40.0],
        pause: [0.0, 1.0],
        leg: 200.0,
        rate: 20.0,
    };
    let world = MeadowSpec { bases: 24, ..WORLD };
    let net = NetSpec { loss: 0.02, seed, ..NET };
    let mut play = Play::new(world, net, Waypoint::new(walk, seed)).unwrap();
    let corner = AvatarPose { pos: [1.0, 1.0, 0.0], ..AvatarPose::default() };
    play.corrupt(0, Box::new(move |_, _, _| Some(corner)));
    play.fill(7, Micros(300_000), |_| None);
    rounds(&mut play, 60);
    let key = play.net.nodes[0].as_ref().unwrap().key;
    (play, key)
}

fn owned_by_the_first(play: &Play<Waypoint>) -> usize {
    let census = Census::take(&play.net);
    assert!(census.is_clean() && census.owners.len() == 24, "{census:?}");
    census.owners.values().filter(|owners| owners[..] == [0]).count()
}

#[test]
fn objects_go_to_the_peer_that_all_trust_wherever_it_is() {
    let (mut play, key) = wanderers(1);
    rounds(&mut play, 200);
    let usual = owned_by_the_first(&play);
    assert!(usual < 8, "a corner is near to little: {usual}");
    (0..7).for_each(|at| peer(&mut play, at).trust(key, 1_000.0));
    rounds(&mut play, 300);
    let trusted = owned_by_the_first(&play);
    assert!(trusted >= 20, "{trusted}");
    assert!(play.net.present().all(|(_, node)| node.verdicts.is_empty()));
    // It crashes: the others take over all objects.
    drop(play.net.crash(0));
    rounds(&mut play, 100);
    let census = Census::take(&play.net);
    assert!(census.is_clean() && census.owners.len() == 24, "{census:?}");
}

#[test]
fn trust_is_in_the_whole_key_and_not_in_a_matching_player_number() {
    let (mut play, key) = wanderers(2);
    let mut other = key;
    other.0[31] ^= 1;
    assert_eq!(other.player(), key.player());
    (0..7).for_each(|at| peer(&mut play, at).trust(other, 1_000.0));
    rounds(&mut play, 300);
    let owned = owned_by_the_first(&play);
    assert!(owned < 8, "{owned}");
}

#[test]
fn peers_with_different_trust_still_agree_on_one_owner_for_each_object() {
    let (mut play, key) = wanderers(3);
    (0..4).for_each(|at| peer(&mut play, at).trust(key, 1_000.0));
    for _ in 0..30 {
        rounds(&mut play, 20);
        owned_by_the_first(&play);
    }
    assert!(play.net.present().all(|(_, node)| node.verdicts.is_empty()));
}

#[test]
fn a_peer_sends_a_narrow_link_less() {
    let mut play = play(8, |at, round| restless(300.0 + 4.0 * at as f32, 0.0, round));
    let sent = |play: &mut Play<Script>| {
        let bytes = |play: &Play<Script>| play.net.nodes[0].as_ref().unwrap().sent.datagram_bytes;
        let before = bytes(play);
        rounds(play, 60);
        bytes(play) - before
    };
    let usual = sent(&mut play);
    let narrow = |play: &mut Play<Script>, capacity| {
        let links: Vec<_> = peer(play, 0).links().map(|it| it.0).collect();
        links.iter().for_each(|link| peer(play, 0).set_capacity(*link, capacity));
        rounds(play, 20);
    };
    narrow(&mut play, Some(Bytes(4)));
    let less = sent(&mut play);
    assert!(less * 4 < usual * 3, "{less} of {usual}");
    narrow(&mut play, Some(Bytes(10_000)));
    let again = sent(&mut play);
    assert!(again * 10 >= usual * 9, "{again} of {usual}");
}
