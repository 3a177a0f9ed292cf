//! The same seeded match on a server's simulation and among peers: the rules' invariants hold in
//! both, and the rules do not know which one it is.

use foveate_arena::game::kinds::{AVATAR, Avatar, BASE, ITEM, Item, MATCH, Match};
use foveate_arena::{Arena, Fighter, Practice, Setup, Skill};
use foveate_lab::net::Latency;
use foveate_lab::peers::{Keys, NetSpec, PeerNet};
use foveate_node::Peer;
use foveate_node::game::{Brain, World};
use foveate_node::outbox::RecordingOutbox;
use foveate_node::peer::identity::Sealed;
use foveate_node::peer::wire::{Digest, PeerMessage};
use foveate_node::peer::{PeerSettings, Signer};
use foveate_node::session::write_message;
use foveate_sync::ObserverId;
use foveate_wire::schema::{LANE_EPOCH, LANE_OWNER};
use foveate_wire::{KindId, Metres, Micros, ObjectId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const PLAYERS: usize = 8;
const ROUND: Micros = Micros(50_000);
const LATENCY: Micros = Micros(40_000);
/// Rounds of play.
const PLAYED: u64 = 1_200;
/// Rounds of rest after play, in which all requests arrive.
const REST: u64 = 160;

fn setup(seed: u64) -> Setup {
    // One round of the match is enough: its end would bring dead avatars back.
    Setup { round_seconds: 3_600, score_limit: u16::MAX, ..Setup::for_players(PLAYERS, seed) }
}

fn settings(address: Vec<u8>) -> PeerSettings {
    PeerSettings::new(ROUND, Metres(100.0), address)
}

/// Peers with links that lose one datagram in twenty.
struct Game {
    net: PeerNet<Arena>,
    bots: Vec<Fighter>,
    /// Peers that do nothing until that round.
    stalled: BTreeMap<usize, u64>,
    round: u64,
}

impl Game {
    /// The first peer starts the world, and the others join through it.
    fn new(players: usize, seed: u64) -> Game {
        let arena = Arc::new(Arena::new(setup(seed)).unwrap());
        let bot = |at: usize| {
            Fighter::new(Arc::clone(&arena), Skill::mixed(at), arena.setup().seed, at as u64 + 1)
        };
        let bots = (0..players).map(bot).collect();
        let spec = NetSpec {
            round: ROUND,
            latency: Latency::Constant(LATENCY),
            loss: 0.05,
            relayed: 0.0,
            queue: 1 << 20,
            seed,
        };
        let mut net = PeerNet::new(arena, spec);
        for at in 0..players {
            net.enter((at > 0).then_some(0), None, settings).unwrap();
        }
        Game { net, bots, stalled: BTreeMap::new(), round: 0 }
    }

    fn run(&mut self, rounds: u64, playing: bool) {
        for _ in 0..rounds {
            self.round += 1;
            let due: Vec<usize> = self
                .stalled
                .extract_if(.., |_, until| *until <= self.round)
                .map(|(at, _)| at)
                .collect();
            due.into_iter().for_each(|at| self.net.pause(at, false));
            let Game { net, bots, round, .. } = self;
            net.run_until(Micros(ROUND.0 * *round), |_, at, node, _| {
                assert_eq!(node.verdicts, [], "peer {at} names an honest one");
                let (peer, mut actions) = (&mut node.peer, Vec::new());
                if playing && peer.is_inside() {
                    let input = bots[at].think(&peer.world(), peer.avatar(), &mut actions);
                    peer.input(input);
                    actions.into_iter().for_each(|(object, action)| _ = peer.ask(object, action));
                }
            });
        }
    }

    fn crash(&mut self, at: usize) {
        self.stalled.remove(&at);
        drop(self.net.crash(at));
    }

    /// A peer restarts with the same key, and joins through another.
    fn restart(&mut self, at: usize, by: usize) {
        self.crash(at);
        self.net.come_back(at, by, settings).unwrap();
    }

    fn peers(&self) -> impl Iterator<Item = &Peer<Arena>> {
        self.net.present().map(|(_, node)| &node.peer)
    }
}

/// What must hold wherever the match is played.
#[derive(PartialEq, Eq, Debug)]
struct Account {
    items: BTreeSet<ObjectId>,
    bases: BTreeSet<ObjectId>,
    matches: usize,
    avatars: usize,
}

/// Counts every object at its owner.
fn account<'a>(owned: impl Iterator<Item = (ObjectId, World<'a>)>) -> (Account, Vec<(u16, u16)>) {
    let mut seen: BTreeMap<ObjectId, usize> = BTreeMap::new();
    let (mut tallies, mut holders) = (Vec::new(), Vec::new());
    for (id, world) in owned {
        *seen.entry(id).or_default() += 1;
        if let Some(avatar) = world.get::<Avatar>(id) {
            tallies.push((avatar.kills, avatar.deaths));
        }
        holders.extend(world.get::<Item>(id).map(|item| item.holder));
        if let Some(contest) = world.get::<Match>(id) {
            let points = u32::from(contest.first) + u32::from(contest.second);
            assert!(points > 0, "a player earned something");
        }
    }
    assert!(seen.values().all(|owners| *owners == 1), "none is doubled: {seen:?}");
    let of = |kind: KindId| seen.keys().copied().filter(|id| id.kind() == kind).collect();
    let count = |kind: KindId| seen.keys().filter(|id| id.kind() == kind).count();
    let (items, bases) = (of(ITEM), of(BASE));
    (Account { items, bases, matches: count(MATCH), avatars: count(AVATAR) }, tallies)
}

/// Every death is one kill, no more and no less.
fn fallen(tallies: &[(u16, u16)]) -> u32 {
    let kills: u32 = tallies.iter().map(|it| u32::from(it.0)).sum();
    let deaths: u32 = tallies.iter().map(|it| u32::from(it.1)).sum();
    assert_eq!(kills, deaths, "{tallies:?}");
    kills
}

#[test]
fn an_unknown_peers_claim_does_not_take_the_score_from_its_owner() {
    let mut game = Game::new(PLAYERS, 11);
    game.run(100, false);
    let now = game.net.now();
    let is_others = |it: &Peer<Arena>| it.owned().all(|(id, _)| id != Match::ID);
    let mut nodes = game.net.nodes.iter_mut().flatten();
    let reader = nodes.find(|node| is_others(&node.peer)).unwrap();
    let (now, reader) = (reader.clock(now), &mut reader.node.peer);
    let claim = reader.claim_on(Match::ID).unwrap();
    let mut lanes = reader.simulation.ghosts.lanes(Match::ID).unwrap().to_vec();
    let stranger = Keys::new(99).unwrap();
    for ahead in [1, 20_000] {
        let epoch = claim.epoch.0 + ahead;
        (lanes[LANE_OWNER], lanes[LANE_EPOCH]) = (stranger.key().player().0 as i32, epoch as i32);
        let digest = Digest {
            key: stranger.key(),
            number: Digest::number_at(now) + ahead,
            at: [0; 3],
            contact: vec![],
            owned: vec![(Match::ID.into(), epoch)],
            boards: vec![(Match::ID.into(), 101, lanes.clone())],
            gone: false,
        };
        let said = write_message(&PeerMessage::Members(vec![Sealed::new(&digest, &stranger)]));
        let (link, _) = reader.links().next().unwrap();
        reader.message(link, &said, now, &mut RecordingOutbox::default());
        assert_eq!(reader.claim_on(Match::ID), Some(claim), "{ahead} epochs ahead");
    }
}

#[test]
fn a_match_among_peers_keeps_the_invariants_of_one_on_a_server() {
    let mut practice = Practice::new(setup(11), PLAYERS).unwrap();
    for round in 0..PLAYED + REST {
        if round < PLAYED {
            practice.think();
        }
        practice.step();
    }
    let store = &practice.simulation.publisher.store;
    let (server, tallies) = account(store.iter().map(|(id, _)| (id, practice.simulation.world())));
    assert!(fallen(&tallies) > 0, "they fight");

    let mut game = Game::new(PLAYERS, 11);
    game.run(PLAYED, true);
    game.run(REST, false);
    let owned = game.peers().flat_map(|peer| peer.owned().map(|(id, _)| (id, peer.world())));
    let (peers, tallies) = account(owned);
    assert_eq!(peers, server, "neither lost nor doubled");
    assert!(fallen(&tallies) > 0, "they fight here, too");
    let owners = game.peers().filter(|peer| peer.owned().any(|(id, _)| id.origin() == 0));
    assert!(owners.count() > 2, "the world's objects have several owners");
}

/// How many peers own each of the world's objects.
fn owners(game: &Game) -> BTreeMap<ObjectId, usize> {
    let mut owners = BTreeMap::new();
    for (id, _) in game.peers().flat_map(Peer::owned) {
        *owners.entry(id).or_default() += usize::from(id.origin() == 0);
    }
    // An object on its way has an owner a moment later.
    for (id, _) in game.peers().flat_map(Peer::giving) {
        owners.entry(id).or_insert(1);
    }
    owners.retain(|id, _| id.origin() == 0);
    owners
}

#[test]
fn one_of_two_peers_restarts_at_once_and_nothing_is_lost() {
    let mut game = Game::new(2, 11);
    let all = owners(&game);
    game.run(400, true);
    let theirs = game.peers().nth(1).unwrap().owned().filter(|(id, _)| id.origin() == 0).count();
    assert!(theirs > 0, "it has something to lose");
    game.restart(1, 0);
    game.run(400, true);
    assert_eq!(owners(&game), all);
}

#[test]
fn objects_that_stand_still_survive_two_crashes_with_a_pause_between() {
    // The last seed once ended with two owners.
    for seed in (1..=40).chain([710]) {
        let mut game = Game::new(4, seed);
        let all = owners(&game);
        game.run(300, true);
        for nth in 0..3 {
            game.crash(nth);
            game.run(400, false);
            assert_eq!(owners(&game), all, "seed {seed}: {nth} crashed");
        }
    }
}

#[test]
fn after_any_incident_every_object_soon_has_one_owner() {
    let more = std::env::var("FOVEATE_CHAOS").ok().and_then(|it| it.parse().ok());
    // Seeds that once showed bugs: 151, 169, 202.
    for seed in (1..=more.unwrap_or(12)).chain([151, 169, 202]) {
        let mut game = Game::new(6, seed);
        let (all, mut chance) = (owners(&game), fastrand::Rng::with_seed(seed));
        game.run(200, true);
        let mut story = Vec::new();
        for _ in 0..12 {
            let there: Vec<usize> = game.net.present().map(|(at, _)| at).collect();
            let (one, other) = (there[chance.usize(..there.len())], there[0]);
            let deed = if there.len() < 3 { 3 } else { chance.u32(..5) };
            story.push((game.round, deed, one));
            println!("seed {seed}: {:?}", story.last());
            match deed {
                0 => game.crash(one),
                1 => {
                    game.stalled.remove(&one);
                    game.net.pause(one, false);
                    game.net.leave(one);
                }
                2 => {
                    game.net.pause(one, true);
                    game.stalled.insert(one, game.round + chance.u64(5..100));
                }
                // At once, or long after a crash.
                3 => {
                    let away = (0..6).find(|at| !there.contains(at));
                    let (at, by) = (away.unwrap_or(one), other);
                    let by = if at == by { there[there.len() - 1] } else { by };
                    game.restart(at, by);
                }
                _ => {}
            }
            // Copies are made within some seconds: an incident right afterwards may take the last
            // one.
            game.run(chance.u64(260..400), true);
            assert_eq!(owners(&game), all, "seed {seed}: {story:?}");
        }
    }
}

#[test]
fn peers_know_their_neighbours_teams() {
    let mut game = Game::new(PLAYERS, 4);
    game.run(400, true);
    let mut told = [0, 0];
    for peer in game.peers() {
        let publisher = &peer.simulation.publisher;
        let own = publisher.store.iter().find(|(id, _)| id.kind() == AVATAR).expect("an avatar");
        let team = peer.simulation.world().get::<Avatar>(own.0).expect("it is there").team;
        assert_eq!(publisher.store.team(own.1), team);
        let observers = (0..64).filter_map(|at| publisher.observer(ObserverId(at)));
        observers.for_each(|observer| told[usize::from(observer.team() == team)] += 1);
        // Every neighbour has a team.
        let mut observers = (0..64).filter_map(|at| publisher.observer(ObserverId(at)));
        assert!(observers.all(|observer| observer.team() != 0));
    }
    assert!(told[0] > 0 && told[1] > 0, "others and team mates: {told:?}");
}
