//! What an operator sees of a server: metrics and logs.

use crate::authenticator::MainDoor;
use crate::config::Config;
use foveate_io::Counters;
use foveate_io::host::{ServerHost, StepTimings};
use foveate_io::metrics::{Board, Counter, Gauge, Histogram, MetricsServer, Registry};
use foveate_node::Game;
use foveate_node::session::Refusal;
use foveate_sync::pipeline::Strained;
use std::error::Error;
use std::time::{Duration, Instant};

/// How often figures are put up.
const EVERY: Duration = Duration::from_secs(1);
/// Bounds of the tick's histogram, in seconds.
const TICKS: [f64; 9] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1, 0.25];

/// Counts a server's rounds and puts them up for Prometheus.
pub struct Monitor {
    registry: Registry,
    board: Board,
    /// Ends with it.
    _http: Option<MetricsServer>,
    next: Instant,
    tick: Histogram,
    players: Gauge,
    objects: Gauge,
    bounds: Gauge,
    trouble: Gauge,
    strain: Gauge,
    quality: Gauge,
    /// What was lost to strain when figures were put up last.
    strained: Strained,
    ticks: Counter,
    bytes: [Counter; 2],
    updates: Counter,
    malformed: Counter,
    impossible: Counter,
    hasty: Counter,
    excess: Counter,
    late: Counter,
    work: [Counter; 2],
    events: [Counter; 3],
    refused: Vec<(Refusal, Counter)>,
    links: Vec<Counter>,
    requests: Counter,
}

/// Why links were refused or closed, and how many of each.
fn troubles(counted: &Counters) -> [(&'static str, u64); 9] {
    [
        ("full", counted.refused_full),
        ("address", counted.refused_per_address),
        ("rate", counted.refused_rate),
        ("origin", counted.refused_origin),
        ("observer", counted.refused_observers),
        ("flood", counted.closed_flood),
        ("oversized", counted.closed_oversized),
        ("malformed", counted.closed_malformed),
        ("http", counted.http_refused + counted.http_full + counted.http_slow),
    ]
}

impl Monitor {
    /// Begins, and answers at the address that the configuration has.
    pub fn start(config: &Config) -> Result<Monitor, Box<dyn Error>> {
        let mut r = Registry::default();
        let refusal = |r: &mut Registry, why: Refusal| {
            let help = "Sessions that were refused, by reason";
            (why, r.counter("foveate_refused_total", help, &[("why", &format!("{why:?}"))]))
        };
        let trouble = |r: &mut Registry, why: &str| {
            let help = "Links and requests that were refused or cut off, by reason";
            r.counter("foveate_links_refused_total", help, &[("why", why)])
        };
        let bytes = "Bytes on the network, headers of QUIC and WebSocket included";
        let board = Board::default();
        let listen = config.metrics;
        Ok(Monitor {
            tick: r.histogram("foveate_tick_seconds", "Time that a tick takes", &[], &TICKS),
            players: r.gauge("foveate_players", "Players who are in", &[]),
            objects: r.gauge("foveate_objects", "Objects in the world", &[]),
            bounds: r.gauge(
                "foveate_bounds_scheduled",
                "Share of samples in which all bounds were kept, as scheduled",
                &[],
            ),
            trouble: r.gauge("foveate_storage_trouble", "1 while the store cannot be written", &[]),
            strain: r.gauge(
                "foveate_strain",
                "How much views give way for lack of bandwidth or time, 0 to 16",
                &[],
            ),
            quality: r.gauge(
                "foveate_quality",
                "Share of the rates that views ask for that is left under strain, mean over pairs",
                &[],
            ),
            strained: Strained::default(),
            ticks: r.counter("foveate_ticks_total", "Ticks played", &[]),
            bytes: [
                r.counter("foveate_bytes_total", bytes, &[("way", "down")]),
                r.counter("foveate_bytes_total", bytes, &[("way", "up")]),
            ],
            updates: r.counter("foveate_updates_total", "States sent", &[]),
            malformed: r.counter("foveate_malformed_total", "Datagrams that cannot be read", &[]),
            impossible: r.counter("foveate_impossible_total", "Inputs that nobody could give", &[]),
            hasty: r.counter("foveate_hasty_total", "Inputs ahead of their time", &[]),
            excess: r.counter(
                "foveate_excess_total",
                "Actions, views and questions beyond a budget or not allowed",
                &[],
            ),
            late: r.counter(
                "foveate_late_total",
                "Claims to have seen what the round trip does not explain",
                &[],
            ),
            work: ["done", "refused"].map(|what| {
                let help = "Units of work that clients asked for, within their budgets and beyond";
                r.counter("foveate_work_total", help, &[("what", what)])
            }),
            events: ["unreliable", "reliable", "dropped"].map(|how| {
                let help = "Events for players: by frame, by the reliable stream, dropped for want of room";
                r.counter("foveate_events_total", help, &[("how", how)])
            }),
            refused: Refusal::ALL.map(|why| refusal(&mut r, why)).into(),
            links: troubles(&Counters::default()).map(|(why, _)| trouble(&mut r, why)).into(),
            requests: r.counter("foveate_http_requests_total", "Requests for pages", &[]),
            registry: r,
            _http: listen.map(|at| MetricsServer::start(at, board.clone())).transpose()?,
            board,
            next: Instant::now(),
        })
    }

    /// Where figures are put up.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// A round is over.
    pub fn note<G: Game>(&mut self, host: &ServerHost<G, MainDoor>, spent: StepTimings) {
        let r = &mut self.registry;
        r.observe(self.tick, (spent.tick + spent.flush).as_secs_f64());
        r.add(self.ticks, 1);
        let now = Instant::now();
        if now < self.next {
            return;
        }
        self.next = now + EVERY;
        let (server, total) = (&host.server, host.endpoint.total());
        let counted = server.simulation.publisher.totals();
        r.set(self.players, server.players() as f64);
        r.set(self.objects, server.simulation.publisher.store.len() as f64);
        r.set(self.bounds, counted.bounds_scheduled());
        r.set(self.strain, f64::from(server.strain()));
        let strained = server.simulation.publisher.strained();
        r.set(self.quality, strained.quality_since(&self.strained));
        self.strained = strained;
        r.set(self.trouble, f64::from(u8::from(host.door.trouble().is_some())));
        r.raise(self.bytes[0], total.sent.bytes);
        r.raise(self.bytes[1], total.received.bytes);
        // Of those who left, too: a counter goes on.
        let ever = server.simulation.publisher.ever();
        r.raise(self.updates, ever.updates + ever.full);
        let refused = server.refusals();
        r.raise(self.malformed, refused.malformed);
        r.raise(self.excess, refused.excess);
        r.raise(self.late, refused.late);
        r.raise(self.work[0], server.work().charged);
        r.raise(self.work[1], server.work().refused);
        r.raise(self.impossible, refused.impossible);
        r.raise(self.hasty, refused.hasty);
        let events = server.event_counts();
        let counts = [events.unreliable, events.reliable, events.dropped];
        self.events.iter().zip(counts).for_each(|(counter, count)| r.raise(*counter, count));
        for (why, counter) in &self.refused {
            r.raise(*counter, refused.sessions.get(why).copied().unwrap_or(0));
        }
        let links = host.endpoint.counters();
        r.raise(self.requests, links.http_requests);
        for (counter, (_, count)) in self.links.iter().zip(troubles(links)) {
            r.raise(*counter, count);
        }
        self.board.publish(r.render(), now);
    }
}

/// Structured lines on standard error.
pub mod log {
    use crate::config::{Config, Format, Level};
    use foveate_node::server::ServerEvent;

    /// Begins to log as the configuration says.
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

    /// Something happened to a player.
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
