//! A server's metrics and logs, for operators.

use crate::authenticator::MainAuthenticator;
use crate::config::Config;
use foveate_io::EndpointCounters;
use foveate_io::host::{ServerHost, StepTimings};
use foveate_io::metrics::{MetricsBoard, MetricsServer};
use foveate_node::Game;
use foveate_node::session::Refusal;
use foveate_sync::pipeline::Strained;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry};
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often metrics are published.
const EVERY: Duration = Duration::from_secs(1);
/// Bounds of the tick's histogram, in seconds.
const TICKS: [f64; 9] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25];

/// A gauge of a float.
pub type FloatGauge = Gauge<f64, AtomicU64>;
/// Counters with one label.
pub type CounterBy = Family<[(&'static str, String); 1], Counter>;

/// Registers a metric. Prometheus shows counters with the suffix `_total`.
pub fn register<M: Metric + Clone + Default>(r: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    r.register(name, help, metric.clone());
    metric
}

/// Raises a counter to a total that is counted elsewhere; it never decreases.
pub fn raise(counter: &Counter, total: u64) {
    counter.inner().fetch_max(total, Ordering::Relaxed);
}

/// Raises the counter with this label to a total.
pub fn raise_by(counters: &CounterBy, label: &'static str, value: &str, total: u64) {
    raise(&counters.get_or_create(&[(label, value.to_owned())]), total);
}

/// All metrics in the text format of OpenMetrics.
pub fn render(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to memory does not fail.
    encode(&mut text, registry).unwrap_or(());
    text
}

/// Collects a server's metrics and publishes them for Prometheus.
pub struct Monitor {
    registry: Registry,
    board: MetricsBoard,
    /// The metrics server, which ends when this is dropped.
    _http: Option<MetricsServer>,
    next: Instant,
    tick: Histogram,
    players: FloatGauge,
    objects: FloatGauge,
    bounds: FloatGauge,
    trouble: FloatGauge,
    /// What was last logged about storage.
    said: Option<String>,
    strain: FloatGauge,
    quality: FloatGauge,
    /// Totals of strain when metrics were last published.
    strained: Strained,
    ticks: Counter,
    bytes: CounterBy,
    updates: Counter,
    malformed: Counter,
    impossible: Counter,
    hasty: Counter,
    excess: Counter,
    late: Counter,
    work: CounterBy,
    events: CounterBy,
    refused: CounterBy,
    links: CounterBy,
    requests: Counter,
}

/// Why links were refused or closed, with their numbers.
fn troubles(counted: &EndpointCounters) -> [(&'static str, u64); 10] {
    [
        ("full", counted.refused_full),
        ("address", counted.refused_per_address),
        ("rate", counted.refused_rate),
        ("origin", counted.refused_origin),
        ("observer", counted.refused_observers),
        ("flood", counted.closed_flood),
        ("idle", counted.closed_idle),
        ("oversized", counted.closed_oversized),
        ("malformed", counted.closed_malformed),
        ("http", counted.http_refused + counted.http_full + counted.http_idle + counted.http_slow),
    ]
}

impl Monitor {
    /// Starts, with a metrics server at the configured address.
    pub fn start(config: &Config) -> Result<Monitor, Box<dyn Error>> {
        let r = &mut Registry::default();
        let tick = Histogram::new(TICKS);
        r.register("foveate_tick_seconds", "Time that a tick takes", tick.clone());
        let board = MetricsBoard::default();
        Ok(Monitor {
            tick,
            players: register(r, "foveate_players", "Players connected"),
            objects: register(r, "foveate_objects", "Objects in the world"),
            bounds: register(
                r,
                "foveate_bounds_scheduled",
                "Share of samples in which all bounds were kept, as scheduled",
            ),
            said: None,
            trouble: register(r, "foveate_storage_trouble", "1 while storage cannot be written"),
            strain: register(
                r,
                "foveate_strain",
                "How much views give way for lack of bandwidth or time, 0 to 16",
            ),
            quality: register(
                r,
                "foveate_quality",
                "Share of the rates that views ask for that is left under strain, mean over pairs",
            ),
            strained: Strained::default(),
            ticks: register(r, "foveate_ticks", "Ticks played"),
            bytes: register(
                r,
                "foveate_bytes",
                "Bytes on the network, headers of QUIC and WebSocket included",
            ),
            updates: register(r, "foveate_updates", "States sent"),
            malformed: register(r, "foveate_malformed", "Datagrams that cannot be read"),
            impossible: register(r, "foveate_impossible", "Inputs that the game does not allow"),
            hasty: register(r, "foveate_hasty", "Inputs sent too early"),
            excess: register(
                r,
                "foveate_excess",
                "Actions, views and questions beyond a budget or not allowed",
            ),
            late: register(
                r,
                "foveate_late",
                "Actions on a past tick that the round trip does not explain",
            ),
            work: register(
                r,
                "foveate_work",
                "Units of work that clients requested, within their budgets and beyond",
            ),
            events: register(
                r,
                "foveate_events",
                "Events for players: unreliable, reliable, dropped for lack of room",
            ),
            refused: register(r, "foveate_refused", "Sessions rejected, by reason"),
            links: register(
                r,
                "foveate_links_refused",
                "Links and requests refused or closed, by reason",
            ),
            requests: register(r, "foveate_http_requests", "Requests for pages"),
            registry: std::mem::take(r),
            _http: config.metrics.map(|at| MetricsServer::start(at, board.clone())).transpose()?,
            board,
            next: Instant::now(),
        })
    }

    /// The board on which metrics are published.
    pub fn board(&self) -> &MetricsBoard {
        &self.board
    }

    /// Records a round.
    pub fn note<G: Game>(&mut self, host: &ServerHost<G, MainAuthenticator>, spent: StepTimings) {
        self.tick.observe((spent.tick + spent.flush).as_secs_f64());
        self.ticks.inc();
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + EVERY;
        let (server, total) = (&host.server, host.endpoint.total());
        let counted = server.simulation.publisher.totals();
        self.players.set(server.players() as f64);
        self.objects.set(server.simulation.publisher.store.len() as f64);
        self.bounds.set(counted.bounds_scheduled());
        self.strain.set(f64::from(server.strain()));
        let strained = server.simulation.publisher.strained();
        self.quality.set(strained.quality_since(&self.strained));
        self.strained = strained;
        let trouble = host.authenticator.trouble();
        self.trouble.set(f64::from(u8::from(trouble.is_some())));
        log::storage(self.said.as_deref(), trouble.as_deref());
        raise_by(&self.bytes, "way", "down", total.sent.bytes);
        raise_by(&self.bytes, "way", "up", total.received.bytes);
        // Includes players that have left: a counter never decreases.
        let ever = server.simulation.publisher.ever();
        raise(&self.updates, ever.updates + ever.full);
        let refused = server.refusals();
        raise(&self.malformed, refused.malformed);
        raise(&self.impossible, refused.impossible);
        raise(&self.hasty, refused.hasty);
        raise(&self.excess, refused.excess);
        raise(&self.late, refused.late);
        raise_by(&self.work, "what", "done", server.work().charged);
        raise_by(&self.work, "what", "refused", server.work().refused);
        let events = server.event_counts();
        raise_by(&self.events, "how", "unreliable", events.unreliable);
        raise_by(&self.events, "how", "reliable", events.reliable);
        raise_by(&self.events, "how", "dropped", events.dropped);
        for why in Refusal::ALL {
            let count = refused.sessions.get(&why).copied().unwrap_or(0);
            raise_by(&self.refused, "why", &format!("{why:?}"), count);
        }
        let links = host.endpoint.counters();
        raise(&self.requests, links.http_requests);
        for (why, count) in troubles(links) {
            raise_by(&self.links, "why", why, count);
        }
        self.board.publish(render(&self.registry), now);
        self.board.set_trouble(trouble.as_deref());
        self.said = trouble;
    }
}

/// Structured lines on standard error.
pub mod log {
    use crate::config::{Config, Format, Level};
    use foveate_node::server::ServerEvent;

    /// Starts logging as configured.
    pub fn begin(config: &Config) {
        let level = match config.level {
            Level::Error => tracing::Level::ERROR,
            Level::Warn => tracing::Level::WARN,
            Level::Info => tracing::Level::INFO,
            Level::Debug => tracing::Level::DEBUG,
            Level::Trace => tracing::Level::TRACE,
        };
        let lines = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
        match config.format {
            Format::Text => lines.init(),
            Format::Json => lines.json().init(),
        }
    }

    /// Logs when storage starts or stops failing.
    pub fn storage(before: Option<&str>, now: Option<&str>) {
        match (before, now) {
            (before, Some(trouble)) if before != now => {
                tracing::error!(trouble, "storage cannot be written; the game goes on unsaved");
            }
            (Some(_), None) => tracing::info!("storage can be written again"),
            _ => {}
        }
    }

    /// Logs an event of a player.
    pub fn event(event: &ServerEvent) {
        match event {
            ServerEvent::Joined(player, name) => tracing::debug!(player = player.0, name, "joined"),
            ServerEvent::Broken(player) => tracing::debug!(player = player.0, "link broken"),
            ServerEvent::Left(player, _) => tracing::debug!(player = player.0, "left"),
            ServerEvent::Refused(why) => tracing::warn!(?why, "refused"),
            ServerEvent::Asked { .. } => {}
        }
    }
}
