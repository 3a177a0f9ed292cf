//! The true state of a game of peers: the owners of each object, and how much players disagree.

use super::meadow::{BASE, Meadow, MeadowBase, Ship};
use super::net::PeerNet;
use foveate_node::game::{Game, PlayerId};
use foveate_sync::metrics::{Area, SeenObject, agreement, delta_object, delta_player};
use foveate_wire::ObjectId;
use std::collections::BTreeMap;

/// Owners of every object of the world.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Census {
    /// Owners of each object that any peer owns or keeps.
    pub owners: BTreeMap<ObjectId, Vec<usize>>,
    /// Objects that peers keep, though no peer owns them.
    pub ownerless: usize,
    /// Objects with more than one owner.
    pub doubled: usize,
}

impl Census {
    /// Counts over all peers.
    pub fn take<G: Game>(net: &PeerNet<G>) -> Census {
        Census::among(net, |_| true)
    }

    /// Counts over the peers for which `counts` is true. A cheating peer is left out, since its own copy proves
    /// nothing.
    pub fn among<G: Game>(net: &PeerNet<G>, counts: impl Fn(usize) -> bool) -> Census {
        let present = || net.present().filter(|(at, _)| counts(*at));
        let mut owners: BTreeMap<ObjectId, Vec<usize>> = BTreeMap::new();
        for (at, node) in present() {
            for (id, _) in node.peer.owned().filter(|(id, _)| id.origin() == 0) {
                owners.entry(id).or_default().push(at);
            }
        }
        for (_, node) in present() {
            let game = &node.peer.simulation.game;
            for kind in 0..game.schema().kinds().len() as u8 {
                for id in node.peer.simulation.ghosts.of_kind(foveate_wire::KindId(kind)) {
                    if id.origin() == 0 {
                        owners.entry(id).or_default();
                    }
                }
            }
        }
        // An object in transfer between two peers that are present has an owner in a moment.
        let here: BTreeMap<PlayerId, usize> =
            present().map(|(at, node)| (node.peer.player(), at)).collect();
        for (_, node) in present() {
            for (id, to) in node.peer.giving() {
                let owners = owners.entry(id).or_default();
                if owners.is_empty() {
                    owners.extend(here.get(&to));
                }
            }
        }
        let ownerless = owners.values().filter(|owners| owners.is_empty()).count();
        let doubled = owners.values().filter(|owners| owners.len() > 1).count();
        Census { owners, ownerless, doubled }
    }

    /// Whether every object has exactly one owner.
    pub fn is_clean(&self) -> bool {
        self.ownerless == 0 && self.doubled == 0
    }

    /// The most objects of one owner, and the mean over `players`.
    pub fn load(&self, players: usize) -> (usize, f64) {
        let mut by_owner: BTreeMap<usize, usize> = BTreeMap::new();
        for owner in self.owners.values().flatten() {
            *by_owner.entry(*owner).or_default() += 1;
        }
        let most = by_owner.values().copied().max().unwrap_or(0);
        (most, by_owner.values().sum::<usize>() as f64 / players.max(1) as f64)
    }
}

/// How much players disagree about bases, in one sample.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct PeerCoherence {
    /// Δ_s, mean over players, in view radii.
    pub delta: f64,
    /// The share of players that see a base and agree with most of the others on its team.
    pub agreeing: f64,
    /// The share of (player, base in view) pairs in which the player lacks the base.
    pub lacking: f64,
}

impl PeerCoherence {
    /// Takes a sample over the peers for which `counts` is true.
    pub fn look(net: &PeerNet<Meadow>, counts: impl Fn(usize) -> bool) -> Option<PeerCoherence> {
        let players: Vec<_> = net
            .present()
            .filter(|(at, _)| counts(*at))
            .filter_map(|(at, node)| {
                let ship = node.peer.world().get::<Ship>(node.peer.avatar())?;
                Some((at, ship.pos))
            })
            .collect();
        let spec = net.present().next().map(|(_, node)| *node.peer.simulation.game.spec())?;
        let area = Area { interaction: f64::from(spec.interaction), view: f64::from(spec.view) };
        let mut seen: BTreeMap<usize, Vec<SeenObject>> = BTreeMap::new();
        let (mut lacking, mut pairs, mut agree, mut asked) = (0usize, 0usize, 0usize, 0usize);
        let census = Census::among(net, &counts);
        for (id, owners) in census.owners.iter().filter(|(id, _)| id.kind() == BASE) {
            let Some(truth) = best(net, *id, owners, &counts) else { continue };
            let away = |pos: [f32; 2]| f64::from((pos[0] - truth[0]).hypot(pos[1] - truth[1]));
            let interested = players.iter().filter(|(_, pos)| area.sees(away(*pos)));
            let interested: Vec<(usize, f64)> =
                interested.map(|(at, pos)| (*at, away(*pos))).collect();
            let beliefs = interested.iter().map(|(at, _)| {
                net.nodes[*at].as_ref().and_then(|node| node.peer.world().get::<MeadowBase>(*id))
            });
            let beliefs: Vec<Option<MeadowBase>> = beliefs.collect();
            pairs += beliefs.len();
            lacking += beliefs.iter().filter(|belief| belief.is_none()).count();
            let held: Vec<MeadowBase> = beliefs.into_iter().flatten().collect();
            let teams: Vec<u8> = held.iter().map(|base| base.team).collect();
            (agree, asked) = (agree + agreement(&teams), asked + teams.len());
            let gap = |a: &MeadowBase, b: &MeadowBase| {
                f64::from((a.pos[0] - b.pos[0]).hypot(a.pos[1] - b.pos[1]))
            };
            // A single interested player cannot disagree with any other, but the base counts all the same.
            let delta = delta_object(&held, gap).unwrap_or(0.0);
            for (at, distance) in interested {
                seen.entry(at).or_default().push(SeenObject { distance, delta });
            }
        }
        let deltas: Vec<f64> =
            seen.values().filter_map(|objects| delta_player(area, objects)).collect();
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        (!deltas.is_empty()).then(|| PeerCoherence {
            delta: deltas.iter().sum::<f64>() / deltas.len() as f64 / area.view,
            agreeing: share(agree, asked),
            lacking: share(lacking, pairs),
        })
    }
}

/// Where a base is, by its owner, or else by the peer with the newest state.
fn best(
    net: &PeerNet<Meadow>,
    id: ObjectId,
    owners: &[usize],
    counts: impl Fn(usize) -> bool,
) -> Option<[f32; 2]> {
    let at = |at: usize| net.nodes[at].as_ref()?.peer.world().get::<MeadowBase>(id);
    let known = owners.first().and_then(|owner| at(*owner));
    let kept = || {
        let present = net.present().filter(|(at, _)| counts(*at));
        let kept = present.filter_map(|(_, node)| {
            Some((node.peer.newest(id)?.0, node.peer.world().get::<MeadowBase>(id)?))
        });
        kept.max_by_key(|(tick, _)| *tick).map(|(_, base)| base)
    };
    let known = known.or_else(kept);
    known.map(|base| base.pos)
}
