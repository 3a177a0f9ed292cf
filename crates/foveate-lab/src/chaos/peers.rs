//! The same without a server: peers that crash, come back, leave, stand still and are cut off, and items that have one
//! owner each when everything has healed.

use super::market::{Deal, ITEM, ITEMS, Market, TradeItem, TraderInput};
use super::{ChaosSpec, Violation};
use crate::net::{Latency, Loss};
use crate::network::NetworkSpec;
use crate::peers::{NetSpec, PeerNet};
use fastrand::Rng;
use foveate_node::Game;
use foveate_node::peer::PeerSettings;
use foveate_wire::{Metres, Micros, ObjectId, Replicate, SchemaError};
use std::collections::BTreeMap;
use std::sync::Arc;

const ROUND: Micros = Micros::from_millis(50);
const SECOND: Micros = Micros(1_000_000);
/// Between two rests.
const REST_EVERY: Micros = Micros(120_000_000);
/// How long everything works before peers are compared, and how long they rest before that.
const RECOVERS: Micros = Micros(30_000_000);
const RESTS: Micros = Micros(6_000_000);
/// Fewer peers than this are left alone: what they own would have no copy.
const FEWEST: usize = 4;

/// What goes wrong with a peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PeerFault {
    /// Its process is gone, and comes back with the same keys and nothing else.
    Crash,
    /// It leaves in order, and comes back.
    Leave,
    /// It stands still for up to six seconds.
    Pause,
    /// Nothing passes between it and the others for up to eight seconds.
    CutOff,
    /// A third of all packets is lost for a while.
    LossBurst,
}

impl PeerFault {
    /// All of them.
    pub const ALL: [PeerFault; 5] = [
        PeerFault::Crash,
        PeerFault::Leave,
        PeerFault::Pause,
        PeerFault::CutOff,
        PeerFault::LossBurst,
    ];
}

/// How far a peer is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PeerState {
    /// Not in yet.
    Joining,
    /// In, and owns nothing of the world's.
    Inside,
    /// In, and owns items.
    Owning,
    /// Cut off or standing still.
    Absent,
}

impl PeerState {
    /// All of them.
    pub const ALL: [PeerState; 4] =
        [PeerState::Joining, PeerState::Inside, PeerState::Owning, PeerState::Absent];
}

/// What a run among peers found.
#[derive(Debug, Default)]
pub struct PeerChaosReport {
    /// How often each fault hit each state.
    pub coverage: BTreeMap<(PeerFault, PeerState), u64>,
    /// Invariants that did not hold; the run ends at the first.
    pub violations: Vec<Violation>,
    /// Times that everything rested and peers were compared.
    pub rests: u64,
    /// Peers that were in, times seconds.
    pub peer_seconds: u64,
    /// A hash of all that was sent.
    pub digest: u64,
}

struct Swarm {
    net: PeerNet<Market>,
    game: Arc<Market>,
    rng: Rng,
    /// Peers that are gone, and when they come back.
    gone: Vec<(usize, Micros)>,
    /// Peers that stand still or are cut off, and until when.
    absent: Vec<(usize, PeerFault, Micros)>,
    lossy: Option<Micros>,
    at_rest: bool,
    report: PeerChaosReport,
}

fn weather(loss: f64, seed: u64) -> NetSpec {
    NetSpec {
        round: ROUND,
        latency: Latency::Uniform(Micros(10_000), Micros(60_000)),
        loss,
        relayed: 0.2,
        queue: 1 << 20,
        seed,
    }
}

fn settings(address: Vec<u8>) -> PeerSettings {
    PeerSettings::new(ROUND, Metres(300.0), address)
}

/// Runs for the spec's time, or to the first violation.
pub fn run_peers(spec: ChaosSpec) -> Result<PeerChaosReport, SchemaError> {
    let game = Arc::new(Market::new()?);
    let mut swarm = Swarm {
        net: PeerNet::new(Arc::clone(&game), weather(0.01, spec.seed)),
        game,
        rng: Rng::with_seed(spec.seed),
        gone: Vec::new(),
        absent: Vec::new(),
        lossy: None,
        at_rest: false,
        report: PeerChaosReport::default(),
    };
    for peer in 0..spec.clients {
        swarm.net.enter((peer > 0).then_some(0), None, settings);
        swarm.run(SECOND);
    }
    swarm.run(SECOND * 5);
    let mut next_rest = swarm.net.now() + REST_EVERY;
    while swarm.net.now() + RECOVERS + RESTS < spec.time && swarm.report.violations.is_empty() {
        if swarm.net.now() >= next_rest {
            swarm.rest();
            next_rest = swarm.net.now() + REST_EVERY;
        }
        swarm.strike();
        let pause = Micros(swarm.rng.u64(50_000..4_000_000));
        swarm.run(pause);
    }
    swarm.rest();
    swarm.report.digest = swarm.net.digest();
    Ok(swarm.report)
}

impl Swarm {
    fn state(&self, at: usize) -> Option<PeerState> {
        let node = self.net.nodes.get(at)?.as_ref()?;
        let store = &node.peer.simulation.publisher.store;
        Some(match node.inside {
            _ if self.absent.iter().any(|it| it.0 == at) => PeerState::Absent,
            None => PeerState::Joining,
            Some(_) if store.of_kind(ITEM).next().is_some() => PeerState::Owning,
            Some(_) => PeerState::Inside,
        })
    }

    /// The fault that has hit a peer's state least, for some peer.
    fn strike(&mut self) {
        let mut present: Vec<usize> = self.net.present().map(|(at, _)| at).collect();
        self.rng.shuffle(&mut present);
        let mut all = PeerFault::ALL;
        self.rng.shuffle(&mut all);
        let pairs = present.iter().flat_map(|at| all.map(|fault| (*at, fault)));
        let hits = |(at, fault): &(usize, PeerFault)| {
            let state = self.state(*at).unwrap_or(PeerState::Absent);
            self.report.coverage.get(&(*fault, state)).copied().unwrap_or(0)
        };
        let Some((at, fault)) = pairs.min_by_key(hits) else { return };
        let acting = present.iter().filter(|at| self.state(**at) != Some(PeerState::Absent));
        let few = acting.count() <= FEWEST;
        if few && fault != PeerFault::LossBurst {
            return;
        }
        let Some(state) = self.state(at) else { return };
        *self.report.coverage.entry((fault, state)).or_default() += 1;
        self.inject(fault, at);
    }

    fn inject(&mut self, fault: PeerFault, at: usize) {
        let now = self.net.now();
        let mut soon = |most: u64| now + Micros(self.rng.u64(200_000..most));
        match fault {
            PeerFault::Crash => {
                self.gone.push((at, soon(6_000_000)));
                self.net.crash(at);
            }
            PeerFault::Leave => {
                self.gone.push((at, soon(6_000_000)));
                self.net.leave(at);
            }
            PeerFault::Pause => {
                self.absent.push((at, fault, soon(6_000_000)));
                self.net.pause(at, true);
            }
            PeerFault::CutOff => {
                self.absent.push((at, fault, soon(8_000_000)));
                self.net.partition(at, 1 + at as u8);
            }
            PeerFault::LossBurst => {
                self.lossy = Some(soon(3_000_000));
                self.set_loss(0.33);
            }
        }
        if matches!(fault, PeerFault::Crash | PeerFault::Leave) {
            self.absent.retain(|it| it.0 != at);
        }
    }

    fn set_loss(&mut self, loss: f64) {
        let spec = NetworkSpec {
            latency: Latency::Uniform(Micros(10_000), Micros(60_000)),
            jitter: 20,
            loss: Loss::Bernoulli(loss),
            relayed: 0.2,
            ..NetworkSpec::delayed(Micros(20_000), 1)
        };
        self.net.set_spec(spec);
    }

    /// Mends what is due.
    fn heal(&mut self, now: Micros) {
        if self.lossy.take_if(|at| *at <= now).is_some() {
            self.set_loss(0.01);
        }
        let due: Vec<_> = self.absent.extract_if(.., |it| it.2 <= now).collect();
        for (at, fault, _) in due {
            match fault {
                PeerFault::Pause => self.net.pause(at, false),
                _ => self.net.partition(at, 0),
            }
        }
        let due: Vec<_> = self.gone.extract_if(.., |it| it.1 <= now).collect();
        for (at, _) in due {
            let inside =
                |(_, node): &(usize, &crate::peers::PlacedPeer<Market>)| node.inside.is_some();
            let acts = |(other, _): &(usize, _)| !self.absent.iter().any(|it| it.0 == *other);
            let contact = self.net.present().filter(inside).find(acts).map(|it| it.0);
            match contact {
                Some(contact) => drop(self.net.come_back(at, contact, settings)),
                None => self.gone.push((at, now + SECOND)),
            }
        }
    }

    /// Lets time pass.
    fn run(&mut self, time: Micros) {
        let until = self.net.now() + time;
        while self.net.now() < until {
            let next = (self.net.now() + SECOND).min(until);
            let Swarm { net, rng, at_rest, .. } = self;
            net.run_until(next, |_, _, node, _| {
                if *at_rest || rng.u8(..) > 12 {
                    return;
                }
                node.peer.input(TraderInput { x: rng.i8(-8..=8), y: rng.i8(-8..=8) });
                let items: Vec<ObjectId> = {
                    let simulation = &node.peer.simulation;
                    simulation.world().of_kind(ITEM)
                };
                if !items.is_empty() {
                    let deal = if rng.bool() { Deal::Take } else { Deal::Drop };
                    node.peer.ask(items[rng.usize(..items.len())], deal);
                }
            });
            self.report.peer_seconds += self.net.present().count() as u64;
            self.heal(self.net.now());
        }
    }

    /// Everything is mended; when peers have found each other again they rest, and are compared.
    fn rest(&mut self) {
        let now = self.net.now();
        self.lossy = self.lossy.map(|_| now);
        self.absent.iter_mut().for_each(|it| it.2 = now);
        self.gone.iter_mut().for_each(|it| it.1 = now);
        self.heal(now);
        self.run(RECOVERS);
        self.at_rest = true;
        self.run(RESTS);
        self.check();
        self.at_rest = false;
        self.report.rests += 1;
    }

    fn fail(&mut self, what: String) {
        self.report.violations.push(Violation { at: self.net.now(), what });
    }

    /// Whose an object is, as a peer knows it.
    fn claim(&self, at: usize, id: ObjectId) -> String {
        let node = self.net.nodes[at].as_ref();
        format!("{:?}", node.and_then(|node| node.peer.claim_on(id)))
    }

    fn check(&mut self) {
        let Some(kind) = self.game.schema().kind(ITEM).cloned() else { return };
        let item = |lanes: &[i32]| TradeItem::get(&kind, lanes);
        let mut owned: BTreeMap<ObjectId, (usize, TradeItem)> = BTreeMap::new();
        let mut faults = Vec::new();
        for (at, node) in self.net.present() {
            if node.inside.is_none() {
                faults.push(format!("sessions end with a reason: peer {at} is not in again"));
            }
            faults.extend(node.verdicts.iter().map(|(_, player, fault)| {
                format!("honest peers are trusted: {at} banned {player:?} for {fault:?}")
            }));
            let store = &node.peer.simulation.publisher.store;
            for id in store.of_kind(ITEM) {
                let Some(slot) = store.find(id) else { continue };
                if let Some((other, _)) = owned.insert(id, (at, item(store.lanes(slot)))) {
                    faults.push(format!("one owner: {at} and {other} own {id:?}"));
                }
            }
        }
        let mut labels: Vec<u8> = owned.values().map(|(_, item)| item.label).collect();
        labels.sort_unstable();
        if labels != (0..ITEMS).collect::<Vec<u8>>() {
            faults.push(format!("items conserved: {labels:?} are owned"));
        }
        for (at, node) in self.net.present() {
            for (id, (owner, truth)) in owned.iter().filter(|(_, (owner, _))| *owner != at) {
                let known = node.peer.simulation.ghosts.lanes(*id).map(item);
                if known.as_ref() != Some(truth) {
                    let claims = [at, *owner].map(|at| self.claim(at, *id));
                    faults.push(format!(
                        "replicas converge: {at} knows {known:?} of {id:?} by {}, its owner {owner} {truth:?} by {}",
                        claims[0], claims[1]
                    ));
                }
            }
        }
        faults.into_iter().take(4).for_each(|what| self.fail(what));
    }
}
