//! What a player's machine tells of its peer, for Prometheus.

use foveate_io::LinkMeter;
use foveate_io::metrics::{Board, MetricsServer, Registry};
use foveate_node::game::PlayerId;
use foveate_node::peer::{Fault, PeerCounts};
use std::error::Error;
use std::net::SocketAddr;
use std::time::Instant;

/// How things stand at a peer.
pub struct Standing {
    /// Whom it knows of, itself included.
    pub players: usize,
    /// Whom it has links with.
    pub links: usize,
    /// Objects that it owns.
    pub owned: usize,
    /// What was counted.
    pub counts: PeerCounts,
    /// What its links carried.
    pub total: LinkMeter,
    /// Liars that it found out.
    pub liars: Vec<(PlayerId, Fault)>,
}

/// Figures of one peer, answered at `/metrics`.
pub struct PeerMonitor {
    registry: Registry,
    board: Board,
    http: MetricsServer,
}

impl PeerMonitor {
    /// Begins to answer.
    pub fn start(listen: SocketAddr) -> Result<PeerMonitor, Box<dyn Error + Send + Sync>> {
        let board = Board::default();
        let http = MetricsServer::start(listen, board.clone())?;
        Ok(PeerMonitor { registry: Registry::default(), board, http })
    }

    /// Where.
    pub fn address(&self) -> SocketAddr {
        self.http.address()
    }

    /// Puts up how things stand.
    pub fn note(&mut self, standing: &Standing) {
        write(&mut self.registry, standing);
        self.board.publish(self.registry.render(), Instant::now());
    }
}

fn write(r: &mut Registry, standing: &Standing) {
    let gauges = [
        ("foveate_peer_players", "Players that this peer knows of", standing.players),
        ("foveate_peer_links", "Peers that it has links with", standing.links),
        ("foveate_peer_owned", "Objects that it owns", standing.owned),
    ];
    for (name, help, value) in gauges {
        let gauge = r.gauge(name, help, &[]);
        r.set(gauge, value as f64);
    }
    let (bytes, total) = ("Bytes on the network, headers of QUIC included", &standing.total);
    for (way, count) in [("up", total.sent.bytes), ("down", total.received.bytes)] {
        let counter = r.counter("foveate_bytes_total", bytes, &[("way", way)]);
        r.raise(counter, count);
    }
    let (moved, counts) = ("Objects that changed hands here, by why", &standing.counts);
    let whys =
        [("given", counts.given), ("taken over", counts.taken_over), ("yielded", counts.yielded)];
    for (why, count) in whys {
        let counter = r.counter("foveate_peer_objects_moved_total", moved, &[("why", why)]);
        r.raise(counter, count);
    }
    let refused = "What others sent and was not taken in, by fault";
    for (fault, count) in Fault::ALL.iter().zip(counts.refused) {
        let why = format!("{fault:?}");
        let counter = r.counter("foveate_peer_refused_total", refused, &[("fault", &why)]);
        r.raise(counter, count);
    }
    for (player, fault) in &standing.liars {
        let labels = [("player", player.0.to_string()), ("fault", format!("{fault:?}"))];
        let labels = [0, 1].map(|at| (labels[at].0, labels[at].1.as_str()));
        let gauge = r.gauge("foveate_peer_liar", "1: found out as a liar, and dropped", &labels);
        r.set(gauge, 1.0);
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
        let standing = Standing { players: 5, links: 4, owned: 2, counts, total, liars };
        let mut registry = Registry::default();
        // Twice: figures are put up again and again.
        write(&mut registry, &standing);
        write(&mut registry, &standing);
        let text = registry.render();
        for line in [
            "foveate_peer_links 4",
            "foveate_peer_objects_moved_total{why=\"given\"} 3",
            "foveate_peer_refused_total{fault=\"Forged\"} 7",
            "foveate_peer_liar{player=\"77\",fault=\"Forged\"} 1",
        ] {
            assert_eq!(text.lines().filter(|it| *it == line).count(), 1, "{line}:\n{text}");
        }
    }
}
