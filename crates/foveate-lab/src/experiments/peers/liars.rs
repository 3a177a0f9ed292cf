//! Peers that lie, each in a way of its own, and what becomes of the others.

use crate::experiments::ownership::{Size, game};
use crate::movement::{Pose, Waypoint};
use crate::peers::{BASE, Coherence, Keys, Meadow, Mischief, Node, Play, SHIP};
use foveate_node::game::{Game, PlayerId};
use foveate_node::outbox::{Letters, Outbox};
use foveate_node::peer::identity::Sealed;
use foveate_node::peer::members::{Learnt, Members, Reader};
use foveate_node::peer::wire::{Digest, Message};
use foveate_node::peer::{Fault, Signer};
use foveate_node::session::write_message;
use foveate_wire::schema::LANE_EPOCH;
use foveate_wire::{Micros, ObjectId, SchemaError};
use std::collections::VecDeque;

/// A way of lying.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    /// Tells states of others' avatars.
    Forges,
    /// Sends what it sent before again and again.
    Replays,
    /// Sends as much as it can.
    Floods,
    /// Claims all objects.
    Claims,
    /// Moves impossibly.
    Leaps,
    /// Changes what it passes on.
    Tampers,
}

impl Lie {
    /// All of them.
    pub const ALL: [Lie; 6] =
        [Lie::Forges, Lie::Replays, Lie::Floods, Lie::Claims, Lie::Leaps, Lie::Tampers];

    /// Its name in rows.
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

    /// Makes a node lie in this way.
    pub fn mischief(self, seed: u64) -> Mischief {
        let mut rng = fastrand::Rng::with_seed(seed);
        Box::new(move |_, node, out| match self {
            Lie::Forges => forge(node),
            Lie::Replays => replay(node, out),
            Lie::Floods => flood(node, out, &mut rng),
            Lie::Claims => claim(node),
            Lie::Leaps => {
                let side = node.peer.stage.game.spec().side;
                let pos = [rng.f32() * side, rng.f32() * side, 0.0];
                Some(Pose { pos, ..Pose::default() })
            }
            Lie::Tampers => tamper(node, out, &mut rng),
        })
    }
}

/// Others' ships, somewhere else, as if they were its own.
fn forge(node: &mut Node<Meadow>) -> Option<Pose> {
    let stage = &mut node.peer.stage;
    let ships: Vec<ObjectId> = stage.ghosts.of_kind(SHIP).take(4).collect();
    for id in ships {
        let Some(mut lanes) = stage.ghosts.lanes(id).map(<[i32]>::to_vec) else { continue };
        let schema = stage.game.schema();
        if let Some(place) = schema.kind(id.kind()).and_then(|kind| kind.place) {
            lanes[place.at] = lanes[place.at].wrapping_add(800);
        }
        // It is there from the second time on.
        if stage.restore(id, &lanes).is_err()
            && let Some(slot) = stage.publisher.store.find(id)
        {
            let moved = stage.publisher.store.set_lanes(slot, &lanes);
            debug_assert!(moved.is_ok());
        }
    }
    None
}

/// Everything that is anybody's.
fn claim(node: &mut Node<Meadow>) -> Option<Pose> {
    let stage = &mut node.peer.stage;
    let bases: Vec<ObjectId> = stage.ghosts.of_kind(BASE).collect();
    for id in bases {
        let Some(mut lanes) = stage.ghosts.lanes(id).map(<[i32]>::to_vec) else { continue };
        lanes[LANE_EPOCH] += 1;
        // What it claimed before it has already.
        let _ = stage.restore(id, &lanes);
    }
    None
}

fn replay(node: &mut Node<Meadow>, out: &mut Letters) -> Option<Pose> {
    let log = node.log.get_or_insert_with(VecDeque::new);
    for (link, bytes) in log.iter().take(64) {
        out.datagram(*link, bytes);
    }
    None
}

fn flood(node: &Node<Meadow>, out: &mut Letters, rng: &mut fastrand::Rng) -> Option<Pose> {
    for (link, _) in node.peer.links() {
        for _ in 0..40 {
            let bytes: Vec<u8> = (0..rng.usize(1..200)).map(|_| rng.u8(..)).collect();
            out.datagram(link, &bytes);
        }
    }
    None
}

/// Others' digests with a bit turned.
fn tamper(node: &Node<Meadow>, out: &mut Letters, rng: &mut fastrand::Rng) -> Option<Pose> {
    let bent = node.peer.members().iter().take(2).map(|(_, member)| {
        let mut digest = member.digest.clone();
        digest.number += 1;
        digest.at[0] += 100;
        bend(&digest, &member.sealed, rng)
    });
    let message = write_message(&Message::Members(bent.collect()));
    node.peer.links().for_each(|(link, _)| out.message(link, &message));
    None
}

/// A digest that says something else than what was signed.
fn bend(digest: &Digest, sealed: &Sealed, rng: &mut fastrand::Rng) -> Sealed {
    let mut bent = sealed.clone();
    bent.body = write_message(digest);
    if rng.bool() {
        let at = rng.usize(..bent.body.len());
        bent.body[at] ^= 1 << rng.u8(..8);
    }
    bent
}

/// What a lie did to the honest.
#[derive(Clone, Copy, Debug)]
pub struct Harm {
    /// Δ of the honest, in view radii, without the lies,
    pub honest: f64,
    /// and with them.
    pub lied_to: f64,
    /// How many named the liar,
    pub named: usize,
    /// of how many who had met it.
    pub met: usize,
    /// For what most of them did.
    pub fault: Option<Fault>,
    /// How many honest peers were named.
    pub wronged: usize,
    /// Seconds until the first named it.
    pub named_s: Option<f64>,
}

/// The same game twice: everybody honest, and one who lies.
pub fn harm(size: Size, lie: Lie, time: Micros, seed: u64) -> Result<Harm, SchemaError> {
    let honest = run(size, None, time, seed)?;
    let lied = run(size, Some(lie), time, seed)?;
    Ok(Harm { honest: honest.lied_to, ..lied })
}

fn run(size: Size, lie: Option<Lie>, time: Micros, seed: u64) -> Result<Harm, SchemaError> {
    let mut play: Play<Waypoint> = game(size, 0, seed)?;
    play.fill(size.players, Micros(300_000), |_| Some(125_000));
    play.run(Micros(15_000_000));
    let liar = size.players / 2;
    let name = play.net.nodes[liar].as_ref().map(|node| node.peer.player());
    let met: Vec<PlayerId> =
        play.net.nodes[liar].iter().flat_map(|node| node.peer.neighbours()).collect();
    if let Some(lie) = lie {
        play.corrupt(liar, lie.mischief(seed));
    }
    let begin = play.net.now();
    let (mut sum, mut looks) = (0.0, 0.0f64);
    for _ in 0..time.0 / 250_000 {
        play.run(Micros(250_000));
        if let Some(seen) = Coherence::look(&play.net, |at| at != liar) {
            (sum, looks) = (sum + seen.delta, looks + 1.0);
        }
    }
    let others = play.net.present().filter(|(at, _)| *at != liar);
    let verdicts = others.flat_map(|(_, node)| &node.verdicts);
    type Named<'a> = Vec<&'a (Micros, PlayerId, Fault)>;
    let (named, wronged): (Named<'_>, Named<'_>) = verdicts.partition(|it| Some(it.1) == name);
    let most = |fault: &Fault| named.iter().filter(|it| it.2 == *fault).count();
    Ok(Harm {
        honest: 0.0,
        lied_to: sum / looks.max(1.0),
        named: named.len(),
        met: met.len(),
        fault: Fault::ALL.into_iter().filter(|fault| most(fault) > 0).max_by_key(most),
        wronged: wronged.len(),
        named_s: named.iter().map(|it| (it.0 - begin).as_secs()).reduce(f64::min),
    })
}

/// How many of so many relayed digests that were tampered with are believed.
pub fn tampered(count: usize, seed: u64) -> usize {
    let mut rng = fastrand::Rng::with_seed(seed);
    let keys: Vec<Keys> = (0..64).filter_map(|_| Keys::new(rng.u64(..))).collect();
    let Some((reader, authors)) = keys.split_first() else { return usize::MAX };
    let mut believed = 0;
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
            // A bit of the body turned,
            0 => {
                let mut bent = sealed.clone();
                let at = rng.usize(..bent.body.len());
                bent.body[at] ^= 1 << rng.u8(..8);
                bent
            }
            // another's signature,
            1 => Sealed { body: sealed.body.clone(), ..Sealed::new(&digest, reader) },
            // or the signature of something else that the author said.
            _ => {
                let other = Digest { number: digest.number.wrapping_add(1), ..digest.clone() };
                Sealed { body: sealed.body.clone(), ..Sealed::new(&other, author) }
            }
        };
        let mut members = Members::new(reader.key().player());
        let here = Reader { now: Micros::ZERO, world: None, here: [0.0; 3] };
        let learnt = members.learn(here, forged, None, reader);
        believed += usize::from(matches!(learnt, Ok(Learnt::News(_))));
        // What was not tampered with is believed.
        let learnt = members.learn(here, sealed, None, reader);
        debug_assert!(matches!(learnt, Ok(Learnt::News(_))));
    }
    believed
}
