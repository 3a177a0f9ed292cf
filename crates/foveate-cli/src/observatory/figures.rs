//! Figures of a server's last second, in all and for each player.

use super::Host;
use crate::usage;
use foveate_io::host::StepTimings;
use foveate_io::{LinkId, Transport};
use foveate_node::Game;
use foveate_node::game::PlayerId;
use foveate_node::server::Present;
use foveate_sync::Slot;
use foveate_sync::metrics::{Area, Counters, SeenObject, Spread, delta_object, delta_player};
use foveate_sync::pipeline::{Held, Known};
use foveate_wire::Position;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Interval between figures.
const EVERY: Duration = Duration::from_secs(1);
/// Most replicas of one object that are compared with each other: in a crowd they are a sample.
const MAX_BELIEFS: usize = 24;

/// Counts since the last figures.
pub struct ObservatoryFigures {
    began: Instant,
    ticks: Vec<f64>,
    before: BTreeMap<PlayerId, (Counters, u64)>,
}

impl Default for ObservatoryFigures {
    fn default() -> ObservatoryFigures {
        ObservatoryFigures { began: Instant::now(), ticks: Vec::new(), before: BTreeMap::new() }
    }
}

impl ObservatoryFigures {
    /// Starts counting.
    pub fn begin<G: Game>(host: &Host<G>) -> ObservatoryFigures {
        ObservatoryFigures { before: counts(host), ..ObservatoryFigures::default() }
    }

    /// Records a round.
    pub fn note(&mut self, spent: StepTimings) {
        self.ticks.push((spent.tick + spent.flush).as_secs_f64() * 1e3);
    }

    /// The figures, if they are due.
    pub fn due<G: Game>(&mut self, host: &Host<G>) -> Option<Value> {
        let seconds = self.began.elapsed();
        (seconds >= EVERY).then(|| self.tell(host, seconds.as_secs_f64()))
    }

    fn tell<G: Game>(&mut self, host: &Host<G>, seconds: f64) -> Value {
        let publisher = &host.server.simulation.publisher;
        let now = counts(host);
        let before = std::mem::replace(&mut self.before, now);
        let (mut sum, mut degrees) = (Counters::default(), Spread::default());
        let mut beliefs = Beliefs::default();
        let mut observers = Vec::new();
        for present in host.server.present_players() {
            let Some((after, link_after)) = self.before.get(&present.player) else { continue };
            // A player that joined within this second started at zero.
            let (start, link_start) = before.get(&present.player).copied().unwrap_or_default();
            let passed = since(after, &start);
            sum.add(&passed);
            let mut own = Spread::default();
            let live = publisher.known(present.observer);
            for known in live.filter(|known| is_sample(host, known)) {
                own.add(f64::from(known.degrees()));
                beliefs.add(present.player, &known);
            }
            degrees.merge(&own);
            let rate = |count: u64| (count as f64 / seconds).round();
            observers.push(json!({
                "player": present.player.0,
                "bytes_s": rate(passed.bytes),
                "link_bytes_s": rate(link_after.saturating_sub(link_start)),
                "updates_s": rate(passed.updates + passed.full),
                "bounds_kept": passed.bounds_scheduled(),
                "pairs": own.count(),
                "rtt_ms": meter(host, &present).map(|meter| meter.round_trip.as_millis()),
                "error_degrees_p95": own.quantile(0.95),
                "transport": transport(host, &present),
            }));
        }
        let players = observers.len().max(1) as f64;
        let mut ticks = std::mem::take(&mut self.ticks);
        self.began = Instant::now();
        let updates = (sum.updates + sum.full) as f64;
        let objects = publisher.store.len();
        // A server that lags plays fewer rounds, and would broadcast less per second, too.
        let played = ticks.len() as f64 * publisher.rounds().length.0 as f64 / 1e6;
        let each = |count: u64| (count as f64 / seconds).round();
        json!({
            "type": "figures",
            "tick": host.tick().0,
            "players": host.server.players(),
            "objects": objects,
            "tick_ms_p50": usage::quantile(&mut ticks, 0.5),
            "tick_ms_p99": usage::quantile(&mut ticks, 0.99),
            "bytes_s": sum.bytes as f64 / seconds / players,
            "broadcast": host.server.broadcast_comparison().map(|measured| json!({
                "samples": measured.samples,
                "bytes_s": measured.broadcast_bytes_s * played / seconds,
                "ratio": measured.ratio(),
            })),
            "bounds_kept": sum.bounds_scheduled(),
            "updates_s": updates / seconds,
            "fired": {
                "new": each(sum.fired[0]),
                "age": each(sum.fired[1]),
                "missed": each(sum.fired[2]),
                "error": each(sum.fired[3]),
                "refresh": each(sum.fired[4]),
            },
            "error_degrees_p50": degrees.quantile(0.5),
            "error_degrees_p95": degrees.quantile(0.95),
            "coherence": beliefs.delta(),
            "observers": observers,
        })
    }
}

/// Whether a replica counts: the object has a place, and the player does not look from it.
fn is_sample<G: Game>(host: &Host<G>, known: &Known) -> bool {
    let placed = host.server.simulation.publisher.store.kind(known.slot).place.is_some();
    known.held == Held::Live && placed && known.distance.0 > 0.0 && known.distance.0.is_finite()
}

/// What each player was sent so far: counters of the engine, and bytes on its link.
fn counts<G: Game>(host: &Host<G>) -> BTreeMap<PlayerId, (Counters, u64)> {
    let publisher = &host.server.simulation.publisher;
    let row = |present: Present<'_>| {
        let counted = publisher.observer(present.observer).map(|o| *o.counters());
        let sent = meter(host, &present).map_or(0, |meter| meter.sent.bytes);
        (present.player, (counted.unwrap_or_default(), sent))
    };
    host.server.present_players().map(row).collect()
}

fn meter<G: Game>(host: &Host<G>, present: &Present<'_>) -> Option<foveate_io::LinkMeter> {
    host.endpoint.meter(LinkId::from_bits(present.link?.0))
}

fn transport<G: Game>(host: &Host<G>, present: &Present<'_>) -> Option<&'static str> {
    host.endpoint.transport(LinkId::from_bits(present.link?.0)).map(Transport::name)
}

/// The difference of two counts.
fn since(after: &Counters, before: &Counters) -> Counters {
    let mut passed = *after;
    passed.bytes = after.bytes.saturating_sub(before.bytes);
    passed.updates = after.updates.saturating_sub(before.updates);
    passed.full = after.full.saturating_sub(before.full);
    let less = |mine: &mut [u64], theirs: &[u64]| {
        mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine = mine.saturating_sub(*theirs));
    };
    less(&mut passed.fired, &before.fired);
    less(&mut passed.samples, &before.samples);
    less(&mut passed.broken, &before.broken);
    passed
}

/// Players' replicas of the objects they see, to be compared.
#[derive(Default)]
struct Beliefs {
    of: BTreeMap<Slot, Vec<Position>>,
    seen: BTreeMap<PlayerId, Vec<(Slot, f64)>>,
}

impl Beliefs {
    fn add(&mut self, player: PlayerId, known: &Known) {
        let of = self.of.entry(known.slot).or_default();
        if of.len() < MAX_BELIEFS {
            of.push(known.at);
        }
        let distance = f64::from(known.distance.0);
        self.seen.entry(player).or_default().push((known.slot, distance));
    }

    /// Δ: how much players disagree about what they see, the mean over players. Objects nearer than half the distance
    /// of the farthest one that a player sees count in full.
    fn delta(&self) -> f64 {
        let apart = |a: &Position, b: &Position| f64::from(a.distance(*b).0);
        let deltas: BTreeMap<Slot, f64> = self
            .of
            .iter()
            .filter_map(|(slot, of)| Some((*slot, delta_object(of, apart)?)))
            .collect();
        let mut of_players = Spread::default();
        for seen in self.seen.values() {
            let view = seen.iter().map(|(_, distance)| *distance).fold(0.0, f64::max);
            let area = Area { interaction: view / 2.0, view };
            let row = |(slot, distance): &(Slot, f64)| {
                Some(SeenObject { distance: *distance, delta: *deltas.get(slot)? })
            };
            let objects: Vec<SeenObject> = seen.iter().filter_map(row).collect();
            delta_player(area, &objects).into_iter().for_each(|delta| of_players.add(delta));
        }
        of_players.mean()
    }
}
