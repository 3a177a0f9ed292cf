//! What an operator sees of region servers.

use crate::monitor::{FloatGauge, raise, register, render};
use foveate_io::host::StepTimings;
use foveate_io::metrics::{MetricsBoard, MetricsServer};
use foveate_io::region::RegionHost;
use foveate_node::Game;
use foveate_node::region::layout::{RegionId, ServerId};
use foveate_node::region::owner::Row;
use foveate_wire::KindId;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a server's figures are brought up to date.
const EVERY: Duration = Duration::from_millis(500);
/// How much of the last round enters a server's load.
const SHARE: f64 = 0.05;

/// What objects of a region are counted by.
const OBJECTS: [&str; 3] = ["owned", "ghosts", "leaving"];

type Labels<const N: usize> = [(&'static str, String); N];
type GaugeBy<const N: usize> = Family<Labels<N>, FloatGauge>;
type Counters<const N: usize> = Family<Labels<N>, Counter>;

/// How one server is doing.
#[derive(Default)]
struct ServerHealth {
    looked: Option<Instant>,
    load: f64,
    trouble: Option<String>,
    /// Regions that it runs or stands by for, as shown last.
    shown: BTreeSet<RegionId>,
}

/// Metrics of the region servers of one process.
pub struct RegionMetrics {
    registry: Registry,
    board: MetricsBoard,
    /// Ends with it.
    _http: Option<MetricsServer>,
    health: Mutex<BTreeMap<ServerId, ServerHealth>>,
    load: GaugeBy<1>,
    epoch: GaugeBy<2>,
    acting: GaugeBy<2>,
    objects: GaugeBy<3>,
    protected: GaugeBy<2>,
    handoffs: Counters<2>,
    takeovers: Counters<1>,
    kinds: GaugeBy<3>,
    players: GaugeBy<2>,
    sessions: Counters<2>,
    bytes: Counters<2>,
    dropped: Counters<2>,
    messages: Counters<2>,
    links: GaugeBy<1>,
    appends: Counters<2>,
    latency: GaugeBy<1>,
}

impl RegionMetrics {
    /// Serves metrics there, if an address is given.
    pub fn start(listen: Option<SocketAddr>) -> Result<RegionMetrics, foveate_io::Error> {
        let (r, board) = (&mut Registry::default(), MetricsBoard::default());
        Ok(RegionMetrics {
            load: register(r, "foveate_region_load", "Share of a round that work takes"),
            epoch: register(r, "foveate_region_epoch", "Epoch in which a server runs a region"),
            acting: register(
                r,
                "foveate_region_acting",
                "1 while a server has the right to act for a region that it runs",
            ),
            objects: register(
                r,
                "foveate_region_objects",
                "Objects of a region: owned, ghosts of neighbours, on their way to others",
            ),
            protected: register(
                r,
                "foveate_region_protected",
                "1 while a standby could take the region over at once",
            ),
            handoffs: register(
                r,
                "foveate_region_handoffs",
                "Objects given to and taken from other regions",
            ),
            takeovers: register(r, "foveate_region_takeovers", "Regions taken over"),
            kinds: register(r, "foveate_region_owned", "Objects that a region owns, by kind"),
            players: register(r, "foveate_region_players", "Players whose sessions a region hosts"),
            sessions: register(
                r,
                "foveate_region_sessions",
                "Players that joined or came back, sessions that moved here, players that left",
            ),
            bytes: register(
                r,
                "foveate_region_bytes",
                "Bytes of players' links on the network, headers of QUIC and WebSocket included",
            ),
            dropped: register(
                r,
                "foveate_region_dropped",
                "Messages and records dropped: malformed, of an epoch that is over, expired",
            ),
            messages: register(
                r,
                "foveate_bus_messages",
                "Messages between servers: sent, received, unsent, overflowed, forged, repeated",
            ),
            links: register(r, "foveate_bus_links", "Direct links to other servers"),
            appends: register(
                r,
                "foveate_ledger_appends",
                "Appends to the ledger: applied, conflicting, failed; and records refused",
            ),
            latency: register(r, "foveate_ledger_seconds", "How long the last append took"),
            registry: std::mem::take(r),
            _http: listen.map(|at| MetricsServer::start(at, board.clone())).transpose()?,
            board,
            health: Mutex::default(),
        })
    }

    /// Where metrics are published.
    pub fn board(&self) -> &MetricsBoard {
        &self.board
    }

    /// A session joined, moved or left.
    pub fn count_session(&self, server: u32, what: &str) {
        let labels = [("server", server.to_string()), ("what", what.to_owned())];
        self.sessions.get_or_create(&labels).inc();
    }

    /// Where metrics are served.
    pub fn address(&self) -> Option<SocketAddr> {
        self._http.as_ref().map(MetricsServer::address)
    }

    /// A server played a round.
    pub fn note<G: Game>(&self, host: &RegionHost<G>, spent: StepTimings) {
        let (id, now) = (host.server.id(), Instant::now());
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let it = health.entry(id).or_default();
        let round = host.server.settings().rounds.length.0.max(1) as f64;
        it.load += (spent.busy().0 as f64 / round - it.load) * SHARE;
        if it.looked.is_some_and(|last| now - last < EVERY) {
            return;
        }
        it.looked = Some(now);
        it.trouble = self.measure(host, it.load);
        let runs = host.server.regions().map(|region| region.id);
        let shown = runs.chain(host.server.standing().map(|it| it.0)).collect();
        let before = std::mem::replace(&mut it.shown, shown);
        before.iter().for_each(|region| self.hide(host, *region));
    }

    /// Figures of a region that a server does not run any more, or does not stand by for, are not shown.
    fn hide<G: Game>(&self, host: &RegionHost<G>, region: RegionId) {
        let labels = [("server", host.server.id().0.to_string()), ("region", region.0.to_string())];
        if host.server.regions().all(|it| it.id != region) {
            self.epoch.remove(&labels);
            self.acting.remove(&labels);
            self.players.remove(&labels);
            for kind in host.server.schema().kinds() {
                let [server, region] = labels.clone();
                self.kinds.remove(&[server, region, ("kind", kind.spec.name.to_string())]);
            }
            for what in OBJECTS {
                let [server, region] = labels.clone();
                self.objects.remove(&[server, region, ("what", what.to_owned())]);
            }
        }
        if host.server.standing().all(|it| it.0 != region) {
            self.protected.remove(&labels);
        }
    }

    /// Brings the figures up to date; why the server should be sent no players.
    fn measure<G: Game>(&self, host: &RegionHost<G>, load: f64) -> Option<String> {
        let (node, now) = (&host.server, host.now());
        let server = || ("server", node.id().0.to_string());
        self.load.get_or_create(&[server()]).set(load);
        let mut stopped = None;
        for region in node.regions() {
            let name = || ("region", region.id.0.to_string());
            let acts = node.may_act_until(region.id) > now;
            self.epoch.get_or_create(&[server(), name()]).set(f64::from(region.epoch));
            self.acting.get_or_create(&[server(), name()]).set(f64::from(u8::from(acts)));
            for (nth, kind) in (0..).zip(node.schema().kinds()) {
                let labels = [server(), name(), ("kind", kind.spec.name.to_string())];
                let count = region.owned().filter(|(id, _)| id.kind() == KindId(nth)).count();
                self.kinds.get_or_create(&labels).set(count as f64);
            }
            let players = node.hosted_players().filter(|it| it.0 == region.id).count();
            self.players.get_or_create(&[server(), name()]).set(players as f64);
            if !acts {
                stopped = Some(format!("region {} is stopped", region.id.0));
            }
            let owned = region.rows.values().filter(|it| matches!(it, Row::Owned(_))).count();
            let ghosts = region.rows.len() - owned;
            let counts = [owned, ghosts, region.transfers.len()];
            for (what, count) in OBJECTS.iter().zip(counts) {
                let labels = [server(), name(), ("what", (*what).to_owned())];
                self.objects.get_or_create(&labels).set(count as f64);
            }
        }
        for (region, protected) in node.standing() {
            let labels = [server(), ("region", region.0.to_string())];
            self.protected.get_or_create(&labels).set(f64::from(u8::from(protected)));
        }
        self.count(host);
        let status = host.ledger_status();
        let waiting = node.layout().is_none().then(|| "the layout is not known yet".to_owned());
        waiting.or(stopped).or(status.trouble)
    }

    fn count<G: Game>(&self, host: &RegionHost<G>) {
        let (counts, bus) = (host.server.counts(), host.bus_counts());
        let server = || ("server", host.server.id().0.to_string());
        let put = |family: &Counters<2>, label: &'static str, values: &[(&str, u64)]| {
            for (value, total) in values {
                raise(&family.get_or_create(&[server(), (label, (*value).to_owned())]), *total);
            }
        };
        put(&self.handoffs, "way", &[("given", counts.given), ("taken", counts.taken)]);
        raise(&self.takeovers.get_or_create(&[server()]), counts.takeovers);
        let dropped = [
            ("malformed", counts.malformed),
            ("outdated", counts.outdated),
            ("expired", host.expired()),
        ];
        put(&self.dropped, "why", &dropped);
        let messages = [
            ("sent", bus.sent),
            ("received", bus.received),
            ("unsent", bus.unsent),
            ("overflowed", bus.overflowed),
            ("forged", bus.forged),
            ("repeated", bus.repeated),
        ];
        put(&self.messages, "what", &messages);
        self.links.get_or_create(&[server()]).set(bus.links as f64);
        let total = host.endpoint.total();
        let bytes = [("down", total.sent.bytes), ("up", total.received.bytes)];
        put(&self.bytes, "way", &bytes);
        let ledger = host.ledger_status();
        let appends = [
            ("applied", ledger.appended),
            ("conflicting", ledger.conflicts),
            ("failed", ledger.failed),
            ("refused", ledger.refused),
        ];
        put(&self.appends, "what", &appends);
        let seconds = ledger.latency.0 as f64 / 1e6;
        self.latency.get_or_create(&[server()]).set(seconds);
    }

    /// A server has ended: it is not waited for, and its regions are not shown.
    pub fn forget<G: Game>(&self, host: &RegionHost<G>) {
        let mut health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ended) = health.remove(&host.server.id()) {
            ended.shown.iter().for_each(|region| self.hide(host, *region));
        }
    }

    /// Publishes everything. Not ready: a server that is in trouble, or has not played for a second.
    pub fn publish(&self) {
        let now = Instant::now();
        self.board.publish(render(&self.registry), now);
        let health = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let late = |it: &ServerHealth| it.looked.is_none_or(|at| now - at > 2 * EVERY);
        let trouble = health.iter().find_map(|(id, it)| {
            let stalled = || late(it).then(|| "does not play".to_owned());
            it.trouble.clone().or_else(stalled).map(|why| format!("server {}: {why}", id.0))
        });
        self.board.set_trouble(trouble.as_deref());
    }
}
