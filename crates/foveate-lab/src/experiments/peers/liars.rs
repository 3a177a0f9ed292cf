//! Peers that cheat, each in one way, and the effect on honest peers.

use crate::experiments::ownership::{ROUND, Size, game};
use crate::movement::{AvatarPose, Waypoint};
use crate::peers::{BASE, Keys, Meadow, Mischief, PeerCoherence, PlacedPeer, Play, SHIP, Ship};
use foveate_node::game::{Game, PlayerId};
use foveate_node::outbox::{Outbox, RecordingOutbox};
use foveate_node::peer::identity::Sealed;
use foveate_node::peer::members::{Learned, Members, Reader};
use foveate_node::peer::wire::{Digest, PeerMessage};
use foveate_node::peer::{Fault, Signer};
use foveate_node::session::write_message;
use foveate_wire::schema::LANE_EPOCH;
use foveate_wire::{Micros, ObjectId, Position, SchemaError};
use std::collections::{BTreeMap, VecDeque};

/// Rounds between two samples of coherence.
const LOOK_EVERY: u64 = 5;

/// A way of cheating.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    /// Sends states of other peers' avatars.
    Forges,
    /// Repeats old messages.
    Replays,
    /// Sends as much as it can.
    Floods,
    /// Claims all objects.
    Claims,
    /// Moves its avatar impossibly fast.
    Leaps,
    /// Alters digests that it passes on.
    Tampers,
}

impl Lie {
    pub const ALL: [Lie; 6] =
        [Lie::Forges, Lie::Replays, Lie::Floods, Lie::Claims, Lie::Leaps, Lie::Tampers];

    /// The lie's name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Lie::Forges => "forges",
            Lie::Replays => "replays",
            Lie::Floods => "floods",
            Lie::Claims => "claims",
            Lie::Leaps => "leaps",
            Lie::Tampers => "tampers",
        }
    }

    /// Returns what makes a node cheat in this way.
    pub fn mischief(self, seed: u64) -> Mischief {
        let mut rng = fastrand::Rng::with_seed(seed);
        Box::new(move |_, node, out| match self {
            Lie::Forges => forge(node),
            Lie::Replays => replay(node, out),
            Lie::Floods => flood(node, out, &mut rng),
            Lie::Claims => claim(node),
            Lie::Leaps => {
                let side = node.peer.simulation.game.spec().side;
                let pos = [rng.f32() * side, rng.f32() * side, 0.0];
                Some(AvatarPose { pos, ..AvatarPose::default() })
            }
            Lie::Tampers => tamper(node, out, &mut rng),
        })
    }
}

/// Lanes between a forged ship and the true one, and lanes that it moves back and forth in a round. A ship at rest or
/// on a straight course would be sent once, as one forgery to each neighbour.
const FORGED_AWAY: i32 = 800;
const FORGED_STEP: i32 = 8;

/// Sends other peers' ships as its own, displaced and moving.
fn forge(node: &mut PlacedPeer<Meadow>) -> Option<AvatarPose> {
    let simulation = &mut node.peer.simulation;
    let ships: Vec<ObjectId> = simulation.ghosts.of_kind(SHIP).take(4).collect();
    for id in ships {
        let place = simulation.game.schema().kind(id.kind()).and_then(|kind| kind.place);
        let Some(place) = place else { continue };
        let store = &mut simulation.publisher.store;
        if let Some(slot) = store.find(id) {
            let mut lanes = store.lanes(slot).to_vec();
            let there = (store.tick().0 / 4).is_multiple_of(2);
            let step = if there { FORGED_STEP } else { -FORGED_STEP };
            lanes[place.at] = lanes[place.at].wrapping_add(step);
            // This fails only if the state does not fit, and then there is no forgery to detect.
            let _ = store.set_lanes(slot, &lanes);
        } else if let Some(mut lanes) = simulation.ghosts.lanes(id).map(<[i32]>::to_vec) {
            lanes[place.at] = lanes[place.at].wrapping_add(FORGED_AWAY);
            let _ = simulation.restore(id, &lanes);
        }
    }
    None
}

/// Claims every object.
fn claim(node: &mut PlacedPeer<Meadow>) -> Option<AvatarPose> {
    let simulation = &mut node.peer.simulation;
    let bases: Vec<ObjectId> = simulation.ghosts.of_kind(BASE).collect();
    for id in bases {
        let Some(mut lanes) = simulation.ghosts.lanes(id).map(<[i32]>::to_vec) else { continue };
        lanes[LANE_EPOCH] += 1;
        // This fails for objects that it has claimed before.
        let _ = simulation.restore(id, &lanes);
    }
    None
}

fn replay(node: &mut PlacedPeer<Meadow>, out: &mut RecordingOutbox) -> Option<AvatarPose> {
    let log = node.log.get_or_insert_with(VecDeque::new);
    for (link, bytes) in log.iter().take(64) {
        out.datagram(*link, bytes);
    }
    None
}

fn flood(
    node: &PlacedPeer<Meadow>,
    out: &mut RecordingOutbox,
    rng: &mut fastrand::Rng,
) -> Option<AvatarPose> {
    for (link, _) in node.peer.links() {
        for _ in 0..40 {
            let bytes: Vec<u8> = (0..rng.usize(1..200)).map(|_| rng.u8(..)).collect();
            out.datagram(link, &bytes);
        }
    }
    None
}

/// Sends other peers' digests with one bit flipped.
fn tamper(
    node: &PlacedPeer<Meadow>,
    out: &mut RecordingOutbox,
    rng: &mut fastrand::Rng,
) -> Option<AvatarPose> {
    let bent = node.peer.members().iter().take(2).map(|(_, member)| {
        let mut digest = member.digest.clone();
        digest.number += 1;
        digest.at[0] += 100;
        bend(&digest, &member.sealed, rng)
    });
    let message = write_message(&PeerMessage::Members(bent.collect()));
    node.peer.links().for_each(|(link, _)| out.message(link, &message));
    None
}

/// A digest whose body differs from what was signed.
fn bend(digest: &Digest, sealed: &Sealed, rng: &mut fastrand::Rng) -> Sealed {
    let mut bent = sealed.clone();
    bent.body = write_message(digest);
    if rng.bool() {
        let at = rng.usize(..bent.body.len());
        bent.body[at] ^= 1 << rng.u8(..8);
    }
    bent
}

/// A peer has met a cheating peer if they had a link for this long while it was exposed to the lie.
const NOTICE: Micros = Micros(2_000_000);

/// The effect of a lie on honest peers.
#[derive(Clone, Copy, Debug)]
pub struct Harm {
    /// Δ of honest peers without the lie, in view radii.
    pub honest: f64,
    /// Δ of honest peers with the lie.
    pub lied_to: f64,
    /// Honest peers that named the cheating peer.
    pub named: usize,
    /// Honest peers that met it: they were exposed to the lie for two seconds, or named it sooner.
    pub met: usize,
    /// The fault that most of them gave.
    pub fault: Option<Fault>,
    /// Honest peers that were named.
    pub wronged: usize,
    /// Seconds until the first peer named it.
    pub named_s: Option<f64>,
    /// The longest that any peer was exposed to the lie, in seconds.
    pub shown_s: f64,
}

/// Plays the same game twice: with honest peers only, and with one that cheats.
pub fn harm(size: Size, lie: Lie, time: Micros, seed: u64) -> Result<Harm, SchemaError> {
    let honest = run(size, None, time, seed)?;
    let lied = run(size, Some(lie), time, seed)?;
    Ok(Harm { honest: honest.lied_to, ..lied })
}

impl Lie {
    /// Whether a neighbour of the cheating peer is exposed to the lie. Forged avatars are sent like any other, to the
    /// neighbours that have them in view. Everything else is sent to every neighbour.
    fn is_shown_to(self, liar: &PlacedPeer<Meadow>, other: &PlacedPeer<Meadow>) -> bool {
        let linked = |a: &PlacedPeer<Meadow>, b: &PlacedPeer<Meadow>| {
            a.peer.neighbours().any(|it| it == b.peer.player())
        };
        let sees_a_forgery = || {
            let view = other.peer.simulation.game.spec().view;
            let own = other.peer.world().get::<Ship>(other.peer.avatar());
            let store = &liar.peer.simulation.publisher.store;
            let forged = store.iter().filter(|(id, _)| {
                id.kind() == SHIP && ![liar.peer.avatar(), other.peer.avatar()].contains(id)
            });
            own.is_some_and(|own| {
                forged
                    .map(|(_, slot)| store.position(slot))
                    .any(|at| (at[0] - own.pos[0]).hypot(at[1] - own.pos[1]) <= view)
            })
        };
        linked(liar, other) && linked(other, liar) && (self != Lie::Forges || sees_a_forgery())
    }
}

/// How long each peer has been exposed to a lie.
#[derive(Default)]
struct Exposure(BTreeMap<usize, Micros>);

impl Exposure {
    fn look(&mut self, play: &Play<Waypoint>, liar: usize, lie: Lie, span: Micros) {
        let Some(node) = play.net.nodes[liar].as_ref() else { return };
        for (at, other) in play.net.present().filter(|(at, _)| *at != liar) {
            if lie.is_shown_to(node, other) {
                let shown = self.0.entry(at).or_default();
                *shown = *shown + span;
            }
        }
    }

    fn of(&self, at: usize) -> Micros {
        self.0.get(&at).copied().unwrap_or_default()
    }
}

fn run(size: Size, lie: Option<Lie>, time: Micros, seed: u64) -> Result<Harm, SchemaError> {
    let mut play: Play<Waypoint> = game(size, 0, seed)?;
    play.fill(size.players, Micros(300_000), |_| Some(125_000));
    play.run(Micros(15_000_000));
    let liar = size.players / 2;
    let name = play.net.nodes[liar].as_ref().map(|node| node.peer.player());
    if let Some(lie) = lie {
        play.corrupt(liar, lie.mischief(seed));
    }
    let begin = play.net.now();
    let (mut sum, mut looks) = (0.0, 0.0f64);
    let mut exposure = Exposure::default();
    for round in 1..=time.0 / ROUND.0 {
        play.run(ROUND);
        if let Some(lie) = lie {
            exposure.look(&play, liar, lie, ROUND);
        }
        if round % LOOK_EVERY == 0
            && let Some(seen) = PeerCoherence::look(&play.net, |at| at != liar)
        {
            (sum, looks) = (sum + seen.delta, looks + 1.0);
        }
    }
    let others = || play.net.present().filter(|(at, _)| *at != liar);
    let is_named = |node: &PlacedPeer<Meadow>| node.verdicts.iter().any(|it| Some(it.1) == name);
    let met = others().filter(|(at, node)| is_named(node) || exposure.of(*at) >= NOTICE);
    let verdicts = others().flat_map(|(_, node)| &node.verdicts);
    type Named<'a> = Vec<&'a (Micros, PlayerId, Fault)>;
    let (named, wronged): (Named<'_>, Named<'_>) = verdicts.partition(|it| Some(it.1) == name);
    let most = |fault: &Fault| named.iter().filter(|it| it.2 == *fault).count();
    Ok(Harm {
        honest: 0.0,
        lied_to: sum / looks.max(1.0),
        named: others().filter(|(_, node)| is_named(node)).count(),
        met: met.count(),
        fault: Fault::ALL.into_iter().filter(|fault| most(fault) > 0).max_by_key(most),
        wronged: wronged.len(),
        named_s: named.iter().map(|it| (it.0 - begin).as_secs()).reduce(f64::min),
        shown_s: exposure.0.values().map(|shown| shown.as_secs()).fold(0.0, f64::max),
    })
}

/// What became of relayed digests. Altered ones must not be accepted; the same digests unaltered must be, or the test
/// would show nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Relayed {
    /// Altered digests that were accepted.
    pub forged_believed: usize,
    /// Genuine digests that were rejected.
    pub genuine_refused: usize,
}

/// Alters `count` relayed digests, by a flipped bit, another peer's signature, or a signature of another body, and
/// reads them; also reads the same digests unaltered.
pub fn tampered(count: usize, seed: u64) -> Relayed {
    let mut rng = fastrand::Rng::with_seed(seed);
    let keys: Vec<Keys> =
        std::iter::repeat_with(|| Keys::new(rng.u64(..))).flatten().take(64).collect();
    relay(count, &keys[0], &keys[1..], &mut rng)
}

/// Relays digests to a reader that verifies signatures with `judge`.
fn relay(count: usize, judge: &dyn Signer, authors: &[Keys], rng: &mut fastrand::Rng) -> Relayed {
    let mut relayed = Relayed::default();
    for turn in 0..count {
        let author = &authors[turn % authors.len()];
        let digest = Digest {
            key: author.key(),
            number: rng.u32(..),
            at: [rng.i32(-5_000..5_000), rng.i32(-5_000..5_000), 0],
            contact: (0..rng.usize(..40)).map(|_| rng.u8(..)).collect(),
            owned: (0..rng.u64(..8)).map(|id| (ObjectId(id).into(), rng.u32(..9))).collect(),
            boards: Vec::new(),
            gone: false,
        };
        let sealed = Sealed::new(&digest, author);
        let forged = match turn % 3 {
            0 => {
                let mut bent = sealed.clone();
                let at = rng.usize(..bent.body.len());
                bent.body[at] ^= 1 << rng.u8(..8);
                bent
            }
            1 => Sealed { body: sealed.body.clone(), ..Sealed::new(&digest, judge) },
            _ => {
                let other = Digest { number: digest.number.wrapping_add(1), ..digest.clone() };
                Sealed { body: sealed.body.clone(), ..Sealed::new(&other, author) }
            }
        };
        let is_believed = |sealed: Sealed| {
            let mut members = Members::new(judge.key().player());
            let here = Reader { now: Micros::ZERO, world: None, here: Position::default() };
            matches!(members.learn(here, sealed, None, judge), Ok(Learned::News(_)))
        };
        relayed.forged_believed += usize::from(is_believed(forged));
        relayed.genuine_refused += usize::from(!is_believed(sealed));
    }
    relayed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives the same answer for all signatures.
    struct FixedVerdict {
        keys: Keys,
        verdict: bool,
    }

    impl Signer for FixedVerdict {
        fn key(&self) -> foveate_node::peer::Key {
            self.keys.key()
        }
        fn sign(&self, bytes: &[u8]) -> [u8; 64] {
            self.keys.sign(bytes)
        }
        fn verify(&self, _: &foveate_node::peer::Key, _: &[u8], _: &[u8; 64]) -> bool {
            self.verdict
        }
    }

    #[test]
    fn tampered_digests_are_rejected_and_genuine_ones_accepted() {
        assert_eq!(tampered(60, 1), Relayed::default());
    }

    /// The control works in every build profile: a reader that accepts or rejects everything is detected.
    #[test]
    fn a_reader_that_ignores_signatures_is_detected() {
        let mut rng = fastrand::Rng::with_seed(1);
        let authors: Vec<Keys> = (0..4).filter_map(Keys::new).collect();
        let blind = |verdict| FixedVerdict { keys: Keys::new(9).unwrap(), verdict };
        let credulous = relay(60, &blind(true), &authors, &mut rng);
        assert!(credulous.forged_believed >= 40 && credulous.genuine_refused == 0, "{credulous:?}");
        let paranoid = relay(60, &blind(false), &authors, &mut rng);
        assert_eq!(paranoid, Relayed { forged_believed: 0, genuine_refused: 60 });
    }
}
