//! Metrics of a peer, for Prometheus.

use crate::monitor::{CounterBy, FloatGauge, raise_by, register, render};
use foveate_io::LinkMeter;
use foveate_io::metrics::{MetricsBoard, MetricsServer};
use foveate_node::game::PlayerId;
use foveate_node::limits::ActionFault;
use foveate_node::peer::{Fault, PeerCounts};
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Instant;

/// A peer's state for its metrics.
pub struct Standing {
    /// Players that it knows, including itself.
    pub players: usize,
    /// Peers that it has links with.
    pub links: usize,
    /// Objects that it owns.
    pub owned: usize,
    pub counts: PeerCounts,
    /// Actions that were refused on its objects, by [`ActionFault`].
    pub refused_actions: [u64; ActionFault::ALL.len()],
    /// Traffic of its links.
    pub total: LinkMeter,
    /// Cheating peers that it disconnected.
    pub liars: Vec<(PlayerId, Fault)>,
}

/// Metrics of one peer, served at `/metrics`.
pub struct PeerMonitor {
    metrics: PeerMetrics,
    board: MetricsBoard,
    http: MetricsServer,
}

impl PeerMonitor {
    /// Starts a metrics server.
    pub fn start(listen: SocketAddr) -> Result<PeerMonitor, Box<dyn Error + Send + Sync>> {
        let board = MetricsBoard::default();
        let http = MetricsServer::start(listen, board.clone())?;
        Ok(PeerMonitor { metrics: PeerMetrics::new(), board, http })
    }

    /// The address of the metrics server.
    pub fn address(&self) -> SocketAddr {
        self.http.address()
    }

    /// Publishes the peer's state.
    pub fn note(&mut self, standing: &Standing) {
        self.board.publish(self.metrics.render(standing), Instant::now());
    }
}

struct PeerMetrics {
    registry: Registry,
    players: FloatGauge,
    links: FloatGauge,
    owned: FloatGauge,
    bytes: CounterBy,
    moved: CounterBy,
    refused: CounterBy,
    refused_actions: CounterBy,
    liars: Family<[(&'static str, String); 2], FloatGauge>,
}

impl PeerMetrics {
    fn new() -> PeerMetrics {
        let r = &mut Registry::default();
        PeerMetrics {
            players: register(r, "foveate_peer_players", "Players that this peer knows of"),
            links: register(r, "foveate_peer_links", "Peers that it has links with"),
            owned: register(r, "foveate_peer_owned", "Objects that it owns"),
            bytes: register(r, "foveate_bytes", "Bytes on the network, headers of QUIC included"),
            moved: register(
                r,
                "foveate_peer_objects_moved",
                "Objects whose owner changed to or from this peer, by reason",
            ),
            refused: register(
                r,
                "foveate_peer_refused",
                "Claims and states of others that were rejected, by fault",
            ),
            refused_actions: register(
                r,
                "foveate_peer_refused_actions",
                "Actions on objects of this peer that break the game's limits, by fault",
            ),
            liars: register(r, "foveate_peer_liar", "1: a cheating peer that was disconnected"),
            registry: std::mem::take(r),
        }
    }

    fn render(&self, standing: &Standing) -> String {
        let Standing { players, links, owned, counts, refused_actions, total, liars } = standing;
        self.players.set(*players as f64);
        self.links.set(*links as f64);
        self.owned.set(*owned as f64);
        raise_by(&self.bytes, "way", "up", total.sent.bytes);
        raise_by(&self.bytes, "way", "down", total.received.bytes);
        raise_by(&self.moved, "why", "given", counts.given);
        raise_by(&self.moved, "why", "taken over", counts.taken_over);
        raise_by(&self.moved, "why", "yielded", counts.yielded);
        for (fault, count) in Fault::ALL.iter().zip(counts.refused) {
            raise_by(&self.refused, "fault", &format!("{fault:?}"), count);
        }
        for (fault, count) in ActionFault::ALL.iter().zip(refused_actions) {
            raise_by(&self.refused_actions, "fault", &format!("{fault:?}"), *count);
        }
        for (player, fault) in liars {
            let labels = [("player", player.0.to_string()), ("fault", format!("{fault:?}"))];
            self.liars.get_or_create(&labels).set(1.0);
        }
        render(&self.registry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_liar_is_named_with_its_fault() {
        let mut counts = PeerCounts { given: 3, ..PeerCounts::default() };
        counts.refused[Fault::Forged as usize] = 7;
        let liars = vec![(PlayerId(77), Fault::Forged)];
        let total = LinkMeter::default();
        let mut refused_actions = [0; ActionFault::ALL.len()];
        refused_actions[ActionFault::Amount as usize] = 9;
        let (players, links, owned) = (5, 4, 2);
        let standing = Standing { players, links, owned, counts, refused_actions, total, liars };
        let metrics = PeerMetrics::new();
        // Twice, since metrics are published repeatedly.
        metrics.render(&standing);
        let text = metrics.render(&standing);
        for line in [
            "foveate_peer_links 4.0",
            "foveate_peer_objects_moved_total{why=\"given\"} 3",
            "foveate_peer_refused_total{fault=\"Forged\"} 7",
            "foveate_peer_refused_actions_total{fault=\"Amount\"} 9",
            "foveate_peer_liar{player=\"77\",fault=\"Forged\"} 1.0",
        ] {
            assert_eq!(text.lines().filter(|it| *it == line).count(), 1, "{line}:\n{text}");
        }
    }
}
