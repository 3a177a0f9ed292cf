//! Players who watch: observers at a server, each with a replica set of its own that acknowledges what it gets.
//!
//! They are served from a copy of the rows that their server has, its own and relayed ones, by the ordinary pipeline.
//! The copy is not counted as work: a server that hosts sessions serves them from its rows.

use super::VIEW;
use crate::mesh::cost::CostModel;
use crate::mesh::game::Drift;
use crate::mesh::run::{MeshError, ROUND};
use foveate_node::game::{Game, GameViews};
use foveate_node::region::owner::Region;
use foveate_sync::interest::{Grade, Policy, Sight, Strain};
use foveate_sync::metrics::Counters;
use foveate_sync::replica::Life;
use foveate_sync::{Observer, ObserverId, Pivots, Publisher, ReplicaSet, Rounds};
use foveate_wire::{Metres, Micros, ObjectId, OwnerId, Schema, Tick};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Ticks for which a player watches before its replicas count.
const SETTLED: u32 = 40;
/// A replica is right if it shows what was so within this many ticks: one round at the server, and one more for a
/// server in between.
pub const ON_ITS_WAY: usize = 2;
/// Differences of place below this are none: two steps of precision.
const SAME: f32 = 0.13;

/// A view that ends.
struct Within(Arc<dyn Policy>);

impl Policy for Within {
    fn grade(&self, sight: &Sight) -> Option<Grade> {
        (sight.distance.0 <= VIEW).then(|| self.0.grade(sight)).flatten()
    }

    fn reach(&self) -> Metres {
        Metres(VIEW)
    }
}

/// The game's view, as far as players see in the laboratory.
pub fn view(game: &Arc<Drift>) -> Result<Arc<dyn Policy>, MeshError> {
    let view = game.view(0).and_then(|view| view.build_in(&GameViews(&**game)).ok());
    Ok(Arc::new(Within(view.ok_or(MeshError::NoView)?)))
}

struct Client {
    observer: ObserverId,
    replicas: ReplicaSet,
    since: u32,
    /// By object: since when its replica differs.
    differs: BTreeMap<ObjectId, u32>,
}

/// How players' replicas compare with the truth.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exactness {
    /// Pairs of a player and an object in view, each round.
    pub samples: u64,
    /// Those in which a bound was kept.
    pub kept: u64,
    /// The sum of errors of those within half the view, in units.
    pub near_error: f64,
    /// How many those were.
    pub near: u64,
}

impl Exactness {
    /// The share that was kept.
    pub fn share(&self) -> f64 {
        self.kept as f64 / self.samples.max(1) as f64
    }

    /// The mean error near by.
    pub fn mean_near(&self) -> f64 {
        self.near_error / self.near.max(1) as f64
    }
}

/// The players of one server.
pub struct ServedPlayers {
    publisher: Publisher,
    schema: Arc<Schema>,
    view: Arc<dyn Policy>,
    clients: BTreeMap<ObjectId, Client>,
    counted: Counters,
}

impl ServedPlayers {
    /// A server without players.
    pub fn new(game: &Arc<Drift>) -> Result<ServedPlayers, MeshError> {
        let schema = Arc::clone(game.schema());
        Ok(ServedPlayers {
            publisher: Publisher::new(Arc::clone(&schema), Rounds::every(ROUND)),
            schema,
            view: view(game)?,
            clients: BTreeMap::new(),
            counted: Counters::default(),
        })
    }

    /// How much its players' views give way.
    pub fn set_strain(&mut self, strain: Strain) {
        self.publisher.set_strain(strain);
    }

    /// Takes the rows of a region over.
    pub fn mirror_region(&mut self, region: &Region<Drift>) {
        let store = &region.simulation.publisher.store;
        self.mirror(store.iter().map(|(id, slot)| (id, store.lanes(slot))));
    }

    /// Takes rows over: these and no others.
    pub fn mirror<L: AsRef<[i32]>>(&mut self, rows: impl Iterator<Item = (ObjectId, L)>) {
        let store = &mut self.publisher.store;
        let mut gone: BTreeSet<ObjectId> = store.iter().map(|it| it.0).collect();
        for (id, lanes) in rows {
            gone.remove(&id);
            // Rows of one schema always fit.
            let _ = match store.find(id) {
                Some(slot) => store.set_lanes(slot, lanes.as_ref()),
                None => store.create_lanes(id, OwnerId(0), lanes.as_ref()).map(drop),
            };
        }
        for slot in gone.into_iter().filter_map(|id| store.find(id)).collect::<Vec<_>>() {
            let _ = store.remove(slot);
        }
    }

    /// Hosts the players of these avatars, and no others.
    pub fn host(&mut self, avatars: &BTreeSet<ObjectId>, tick: u32) {
        let left: Vec<ObjectId> =
            self.clients.keys().copied().filter(|id| !avatars.contains(id)).collect();
        for client in left.iter().filter_map(|id| self.clients.remove(id)) {
            self.publisher.remove(client.observer);
        }
        for id in avatars {
            let Some(slot) = self.publisher.store.find(*id) else { continue };
            if self.clients.contains_key(id) {
                continue;
            }
            let observer = Observer::new(Arc::clone(&self.view), Pivots::Object(slot), Tick(tick));
            let observer = self.publisher.add(observer.without_own_objects());
            let replicas = ReplicaSet::new(Arc::clone(&self.schema), Tick(tick));
            let client = Client { observer, replicas, since: tick, differs: BTreeMap::new() };
            self.clients.insert(*id, client);
        }
    }

    /// How many players there are.
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// A round: tells all players, takes their acknowledgements, and says what it cost.
    pub fn round(&mut self, tick: u32, model: &CostModel) -> f64 {
        let now = Micros(u64::from(tick) * ROUND.0);
        let mut packets: BTreeMap<ObserverId, Vec<Vec<u8>>> = BTreeMap::new();
        self.publisher.round(Tick(tick), now, |observer, packet| {
            packets.entry(observer).or_default().push(packet.to_vec());
        });
        for client in self.clients.values_mut() {
            for packet in packets.remove(&client.observer).unwrap_or_default() {
                let _ = client.replicas.receive(&packet, |_| {});
            }
            if let Some(ack) = client.replicas.ack() {
                self.publisher.on_ack(client.observer, &ack, now);
            }
        }
        let counters = self.publisher.ever();
        let before = std::mem::replace(&mut self.counted, counters);
        model.pair * (counters.looked - before.looked) as f64
            + model.byte * (counters.bytes - before.bytes) as f64
    }

    /// Bytes that players were sent so far.
    pub fn bytes(&self) -> u64 {
        self.counted.bytes
    }

    /// Compares what players know with where objects are, and were of late; the newest truth first. Players are
    /// counted under the number that `sort` gives them.
    pub fn compare(
        &mut self,
        truths: &VecDeque<BTreeMap<ObjectId, [f32; 2]>>,
        tick: u32,
        sort: impl Fn([f32; 2]) -> usize,
        counts: &mut [Exactness],
    ) {
        let Some(truth) = truths.front() else { return };
        for (avatar, client) in &mut self.clients {
            let Some(from) = truth.get(avatar).copied() else { continue };
            let settled = tick.saturating_sub(client.since) >= SETTLED;
            let mut differs = BTreeMap::new();
            for (id, at) in truth.iter().filter(|(id, _)| *id != avatar) {
                let distance = (at[0] - from[0]).hypot(at[1] - from[1]);
                if distance > 0.95 * VIEW {
                    continue;
                }
                let replica = client.replicas.get(*id).filter(|it| it.life() == Life::Live);
                let known = replica.and_then(|it| it.predicted(Tick(tick)));
                let off = |at: &[f32; 2]| {
                    known.map_or(distance, |it| (it[0] - at[0]).hypot(it[1] - at[1]))
                };
                let error = off(at);
                let were = truths.iter().filter_map(|truth| truth.get(id));
                let least = were.map(off).fold(error, f32::min);
                let avatar = Placed { id: *avatar, at: from };
                let sight = sight(avatar, Placed { id: *id, at: *at }, distance, tick);
                let Some(grade) = self.view.grade(&sight) else { continue };
                let wrong = least > SAME.max(grade.floor.0);
                if wrong {
                    let since = client.differs.get(id).copied().unwrap_or(tick);
                    differs.insert(*id, since);
                }
                if !settled {
                    continue;
                }
                let since = differs.get(id).copied().unwrap_or(tick);
                let lasts = ROUND * (tick - since);
                let Some(count) = counts.get_mut(sort(from)) else { continue };
                count.samples += 1;
                count.kept += u64::from(!wrong || lasts <= grade.max_age);
                if distance <= VIEW / 2.0 {
                    (count.near, count.near_error) =
                        (count.near + 1, count.near_error + f64::from(error));
                }
            }
            client.differs = differs;
        }
    }
}

/// An object and where it is.
#[derive(Clone, Copy)]
struct Placed {
    id: ObjectId,
    at: [f32; 2],
}

fn sight(avatar: Placed, object: Placed, distance: f32, tick: u32) -> Sight {
    Sight {
        distance: Metres(distance),
        cos_angle: (object.at[0] - avatar.at[0]) / distance.max(1e-6),
        from: avatar.at.into(),
        to: object.at.into(),
        pivot: Some(avatar.id),
        object: object.id,
        kind: object.id.kind(),
        same_team: false,
        interaction: 0.0,
        tick: Tick(tick),
        now: Micros(u64::from(tick) * ROUND.0),
    }
}
