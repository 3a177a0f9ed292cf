//! A peer that cheats among honest ones: hits that it never fired, requests in the name of other
//! peers' objects, an avatar changed against the rules. No attempt changes anything at the others,
//! and each is counted or leads to a ban.

use foveate_arena::fuzz::UnsignedSigner;
use foveate_arena::game::Action;
use foveate_arena::game::kinds::{AVATAR, Avatar, BASE, HEALTH, Match, Weapon};
use foveate_arena::{Arena, Fighter, Setup, Skill};
use foveate_lab::net::Latency;
use foveate_lab::peers::{NetSpec, PeerNet, PlacedPeer};
use foveate_node::Outbox;
use foveate_node::game::Brain;
use foveate_node::limits::ActionFault;
use foveate_node::outbox::RecordingOutbox;
use foveate_node::peer::identity::Sealed;
use foveate_node::peer::wire::{Ask, PeerMessage};
use foveate_node::peer::{Fault, PeerSettings};
use foveate_node::session::write_message;
use foveate_wire::{Metres, Micros, ObjectId, Replicate};
use std::sync::Arc;

const PLAYERS: usize = 8;
const ROUND: Micros = Micros::from_millis(50);
/// The index of the cheating peer.
const CHEAT: usize = 3;

fn settings(address: Vec<u8>) -> PeerSettings {
    PeerSettings::new(ROUND, Metres(100.0), address)
}

/// A match of peers that stand still, after ten seconds.
fn standing(seed: u64) -> PeerNet<Arena> {
    standing_with(seed, Setup::for_players(PLAYERS, seed).bases)
}

fn standing_with(seed: u64, bases: usize) -> PeerNet<Arena> {
    let setup = Setup::for_players(PLAYERS, seed);
    let setup = Setup { round_seconds: 3_600, score_limit: u16::MAX, bases, ..setup };
    let latency = Latency::Uniform(Micros::from_millis(10), Micros::from_millis(60));
    let spec = NetSpec { round: ROUND, latency, loss: 0.01, relayed: 0.0, queue: 1 << 20, seed };
    let mut net = PeerNet::new(Arc::new(Arena::new(setup).unwrap()), spec);
    for nth in 0..PLAYERS {
        net.enter((nth > 0).then_some(0), None, settings).unwrap();
        net.run_until(net.now() + Micros::from_millis(300), |_, _, _, _| {});
    }
    net.run_until(net.now() + Micros(12_000_000), |_, _, _, _| {});
    net
}

/// Plays this many seconds; the cheating peer calls this in each round.
fn cheating(
    net: &mut PeerNet<Arena>,
    seconds: u64,
    mut cheat: impl FnMut(u32, &mut PlacedPeer<Arena>, &mut RecordingOutbox),
) {
    let (until, mut round) = (net.now() + Micros(seconds * 1_000_000), 0);
    net.run_until(until, |_, at, node, out| {
        if at == CHEAT {
            cheat(round, node, out);
            round += 1;
        }
    });
}

/// An action that a peer claims an object takes on another one.
struct Forged {
    number: u32,
    /// The object whose step contains the action.
    by: ObjectId,
    on: ObjectId,
    action: Action,
}

/// Sends an action to every neighbour: the owner of the object carries it out.
fn ask(node: &PlacedPeer<Arena>, forged: Forged, out: &mut RecordingOutbox) {
    let Forged { number, by, on: object, action } = forged;
    let action = postcard::to_allocvec(&action).unwrap();
    let (key, turn) = (node.key, Some(by.into()));
    let ask = Ask { key, number, object: object.into(), turn, seen: 0, action };
    let message = write_message(&PeerMessage::Ask(Sealed::new(&ask, &UnsignedSigner(node.key)), 0));
    node.peer.links().for_each(|(link, _)| out.message(link, &message));
}

/// The avatars as their owners have them, with the owner's index.
fn avatars(net: &PeerNet<Arena>) -> Vec<(usize, Avatar)> {
    let own = |node: &PlacedPeer<Arena>| node.peer.world().get::<Avatar>(node.peer.avatar());
    net.present().filter_map(|(at, node)| Some((at, own(node)?))).collect()
}

fn avatar_at(net: &PeerNet<Arena>, at: usize) -> Avatar {
    avatars(net).into_iter().find(|(place, _)| *place == at).unwrap().1
}

/// How many of the others banned the cheat for this fault.
fn named(net: &PeerNet<Arena>, fault: Fault) -> usize {
    let cheat = net.nodes[CHEAT].as_ref().unwrap().peer.player();
    let others = net.present().filter(|(at, _)| *at != CHEAT);
    let names = |node: &PlacedPeer<Arena>| {
        node.verdicts.iter().any(|(_, player, why)| (*player, *why) == (cheat, fault))
    };
    others.filter(|(_, node)| names(node)).count()
}

fn refused(net: &PeerNet<Arena>, fault: ActionFault) -> u64 {
    let count = |node: &PlacedPeer<Arena>| node.peer.simulation.refused_actions()[fault as usize];
    net.present().map(|(_, node)| count(node)).sum()
}

fn others(net: &PeerNet<Arena>) -> Vec<ObjectId> {
    net.present().filter(|(at, _)| *at != CHEAT).map(|(_, node)| node.peer.avatar()).collect()
}

#[test]
fn a_hit_that_no_weapon_makes_does_no_damage_and_bans_the_cheat() {
    let mut net = standing(5);
    let victims = others(&net);
    cheating(&mut net, 4, |round, node, out| {
        let hit = Action::Hit { damage: 255, weapon: Weapon::Blaster };
        if round.is_multiple_of(4) {
            let me = node.peer.avatar();
            for (nth, id) in victims.iter().enumerate() {
                let number = 1_000_000 + round * 16 + nth as u32;
                ask(node, Forged { number, by: me, on: *id, action: hit }, out);
            }
        }
    });
    assert!(avatars(&net).iter().all(|(_, it)| it.health == HEALTH), "{:?}", avatars(&net));
    assert!(refused(&net, ActionFault::Amount) > 0);
    assert_eq!(named(&net, Fault::Cheated), PLAYERS - 1);
}

#[test]
fn hits_from_too_far_or_past_a_wall_or_too_often_do_not_count() {
    let mut net = standing(5);
    let (victims, from) = (others(&net), avatar_at(&net, CHEAT));
    let arena = Arc::clone(&net.nodes[0].as_ref().unwrap().peer.simulation.game);
    cheating(&mut net, 4, |round, node, out| {
        let hit = Action::Hit { damage: 10, weapon: Weapon::Blaster };
        let me = node.peer.avatar();
        for (nth, id) in victims.iter().enumerate() {
            let number = 1_000_000 + round * 16 + nth as u32;
            ask(node, Forged { number, by: me, on: *id, action: hit }, out);
        }
    });
    // Both could have moved for a second since they were last updated.
    let (reach, moved) = (Weapon::Blaster.make().reach, 2.0 * 11.0);
    let mut safe = 0;
    for (at, avatar) in avatars(&net).into_iter().filter(|(at, _)| *at != CHEAT) {
        let far = from.point().distance(avatar.point()) > reach + moved + 1.0;
        let sides = [(-6.0, 0.0), (6.0, 0.0), (0.0, -6.0), (0.0, 6.0), (0.0, 0.0)];
        let near =
            |(x, y)| foveate_arena::geometry::Point::new(from.point().x + x, from.point().y + y);
        let hidden =
            sides.iter().all(|side| !arena.map().line_of_sight(near(*side), avatar.point()));
        if far || hidden {
            safe += 1;
            assert_eq!(avatar.health, HEALTH, "peer {at}, {far} {hidden}");
        }
        // 80 hits of 10 were requested; a blaster fires 10 in 4 s, and a second's worth more at
        // once.
        let lost = i32::from(HEALTH) - i32::from(avatar.health);
        assert!(avatar.deaths <= 1 && lost <= 140, "peer {at}: {avatar:?}");
    }
    let counts = ActionFault::ALL.map(|fault| refused(&net, fault));
    assert!(safe > 0 && counts.iter().sum::<u64>() > 100, "{safe} safe; {counts:?}");
    assert_eq!(counts[0] + counts[1], 0, "neither source nor amount is wrong");
}

#[test]
fn no_peer_acts_in_the_name_of_an_object_that_another_peer_owns() {
    let mut net = standing(5);
    let victims = others(&net);
    let owns = |node: &PlacedPeer<Arena>, id: ObjectId| node.peer.owned().any(|it| it.0 == id);
    let bases: Vec<ObjectId> = net.nodes[0].as_ref().unwrap().peer.world().of_kind(BASE);
    let cheat = net.nodes[CHEAT].as_ref().unwrap();
    let base = *bases.iter().find(|id| !owns(cheat, **id)).expect("another's base");
    let owner = net.present().find(|(_, node)| owns(node, base)).map(|(at, _)| at);
    cheating(&mut net, 4, |round, node, out| {
        if round.is_multiple_of(8) {
            for (nth, id) in victims.iter().enumerate() {
                let number = 1_000_000 + round * 16 + nth as u32;
                ask(node, Forged { number, by: base, on: *id, action: Action::Captured }, out);
            }
        }
    });
    // Players that happen to stand at a base take it.
    let mut calm = standing(5);
    calm.run_until(net.now(), |_, _, _, _| {});
    let scores = |net: &PeerNet<Arena>| -> Vec<u16> {
        avatars(net).iter().map(|(_, avatar)| avatar.score).collect()
    };
    assert_eq!(scores(&net), scores(&calm));
    // For peers that do not see the base it is out of reach; the others know its owner.
    let (named, far) = (named(&net, Fault::Cheated), refused(&net, ActionFault::Reach));
    assert!(named > 0 && far > 0, "{named} of 7, {far} times; the owner is {owner:?}");
}

#[test]
fn a_player_that_claims_to_have_died_earns_its_own_team_nothing() {
    let mut net = standing_with(5, 0);
    let team = avatar_at(&net, CHEAT).team;
    let points = |net: &PeerNet<Arena>| {
        let owner = |node: &PlacedPeer<Arena>| node.peer.owned().any(|it| it.0 == Match::ID);
        let (_, node) = net.present().find(|(at, node)| *at != CHEAT && owner(node)).unwrap();
        let contest = node.peer.world().get::<Match>(Match::ID).unwrap();
        [contest.first, contest.second]
    };
    let before = points(&net);
    cheating(&mut net, 6, |round, node, out| {
        for (nth, team) in [team, 3 - team].into_iter().enumerate() {
            let number = 1_000_000 + round * 2 + nth as u32;
            let (by, action) = (node.peer.avatar(), Action::Point { team });
            ask(node, Forged { number, by, on: Match::ID, action }, out);
        }
    });
    let after = points(&net);
    let earned = [0, 1].map(|at| after[at] - before[at]);
    assert_eq!(earned[usize::from(team) - 1], 0, "its own team: {earned:?}");
    assert!(earned[2 - usize::from(team)] <= 4, "no more often than one can fall: {earned:?}");
}

#[test]
fn an_avatar_changed_against_the_rules_is_noticed_by_its_neighbours() {
    type Forgery = fn(&mut Avatar, u32);
    let forgeries: [(&str, Forgery); 3] = [
        ("score", |avatar, _| avatar.score = avatar.score.saturating_add(5)),
        ("kills", |avatar, _| avatar.kills = avatar.kills.saturating_add(3)),
        ("health", |avatar, round| avatar.health = if round % 20 < 10 { 20 } else { HEALTH }),
    ];
    for (what, forge) in forgeries {
        let mut net = standing(5);
        cheating(&mut net, 16, |round, node, _| {
            let id = node.peer.avatar();
            let Some(mut avatar) = node.peer.world().get::<Avatar>(id) else { return };
            forge(&mut avatar, round);
            let store = &mut node.peer.simulation.publisher.store;
            let Some(slot) = store.find(id) else { return };
            let kind = store.schema().kind(AVATAR).unwrap().clone();
            let mut lanes = store.lanes(slot).to_vec();
            avatar.put(&kind, &mut lanes);
            store.set_lanes(slot, &lanes).unwrap();
        });
        assert!(
            named(&net, Fault::Cheated) > PLAYERS / 2,
            "{what}: {}",
            named(&net, Fault::Cheated)
        );
    }
}

#[test]
fn an_honest_match_is_played_within_the_limits() {
    let mut net = standing(7);
    let arena = Arc::clone(&net.nodes[0].as_ref().unwrap().peer.simulation.game);
    let bot = |at: usize| Fighter::new(Arc::clone(&arena), Skill::mixed(at), 7, at as u64 + 1);
    let mut bots: Vec<Fighter> = (0..PLAYERS).map(bot).collect();
    let until = net.now() + Micros(60_000_000);
    net.run_until(until, |_, at, node, _| {
        let mut actions = Vec::new();
        let input = bots[at].think(&node.peer.world(), node.peer.avatar(), &mut actions);
        node.peer.input(input);
        actions.into_iter().for_each(|(id, action)| _ = node.peer.ask(id, action));
    });
    let verdicts: Vec<_> = net.present().flat_map(|(_, node)| node.verdicts.clone()).collect();
    assert!(verdicts.is_empty(), "{verdicts:?}");
    let deaths: u16 = avatars(&net).iter().map(|(_, avatar)| avatar.deaths).sum();
    let counts = ActionFault::ALL.map(|fault| refused(&net, fault));
    println!("{deaths} fell; refused by source, amount, reach, sight, cooldown: {counts:?}");
    assert_eq!(counts[0] + counts[1], 0, "{counts:?}");
    // A kill takes six hits or more.
    assert!(deaths > 3 && counts.iter().sum::<u64>() <= u64::from(deaths), "{deaths}; {counts:?}");
}
