//! Traffic of links, and counters of what was refused.

use foveate_wire::{Bytes, Micros};

/// Rounds by which a round trip may exceed the shortest without a queue being the reason: acknowledgements wait for the
/// next datagram at either end, and timers may be late.
const SLACK: f64 = 2.0;
/// The least capacity of a link in a round, in bytes: without sending, nothing is measured.
const MIN_CAPACITY: f64 = 64.0;

/// Traffic of one link, or of all links that an endpoint has ever had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkMeter {
    pub received: LinkTraffic,
    pub sent: LinkTraffic,
    /// Sent packets that QUIC considers lost.
    pub lost_packets: u64,
    /// Smoothed round trip; over all links, the mean. Acknowledgements wait for the next datagram, so it may be too
    /// long by up to a tick.
    pub round_trip: Micros,
    /// Shortest round trip measured; over all links, the shortest of all.
    pub shortest_round_trip: Micros,
    /// Bytes that may be in flight; over all links, the sum.
    pub window: u64,
}

impl LinkMeter {
    /// Bytes that one link carries in a round without queueing them: the congestion window, times its turnovers in a
    /// round. If round trips are longer than necessary, a queue has built up, and the longer it is, the less is
    /// allowed. `None` before a round trip was measured.
    ///
    /// A link without a queue is allowed whatever its congestion controller would allow.
    ///
    /// ```
    /// use foveate_io::LinkMeter;
    /// use foveate_wire::{Bytes, Micros};
    ///
    /// let (trip, round) = (Micros::from_millis(100), Micros::from_millis(50));
    /// let good = LinkMeter { window: 16_384, round_trip: trip, shortest_round_trip: trip, ..LinkMeter::default() };
    /// assert_eq!(good.capacity(round), Some(Bytes(8_192)));
    /// let queued = LinkMeter { round_trip: Micros::from_millis(800), ..good };
    /// assert_eq!(queued.capacity(round), Some(Bytes(64)));
    /// ```
    pub fn capacity(&self, round: Micros) -> Option<Bytes> {
        if self.window == 0 || self.round_trip == Micros::ZERO {
            return None;
        }
        let (trip, round) = (self.round_trip.0 as f64, round.0 as f64);
        let calm = self.shortest_round_trip.0 as f64 + SLACK * round;
        let share = (calm / trip).min(1.0);
        let bytes = self.window as f64 * share * share * round / trip;
        Some(Bytes(bytes.clamp(MIN_CAPACITY, f64::from(u32::MAX)) as u32))
    }

    /// The total of closed links, which is `self`, and of the links that are open.
    pub(crate) fn with(
        mut self,
        open: impl Iterator<Item = LinkMeter>,
        add: fn(&mut LinkMeter, &LinkMeter),
    ) -> LinkMeter {
        let (mut links, mut trips, mut shortest) = (0, 0, Micros::UNBOUNDED);
        for meter in open {
            add(&mut self, &meter);
            links += 1;
            trips += meter.round_trip.0;
            shortest = shortest.min(meter.shortest_round_trip);
            self.window += meter.window;
        }
        self.round_trip = Micros(trips.checked_div(links).unwrap_or(0));
        self.shortest_round_trip = if links > 0 { shortest } else { Micros::ZERO };
        self
    }
}

/// Traffic in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkTraffic {
    /// UDP packets; with WebSocket, reads or writes of the TCP socket.
    pub packets: u64,
    /// Their bytes without headers of IP, UDP and TCP, but with those of QUIC and WebSocket.
    pub bytes: u64,
    /// Datagrams passed to or from the caller.
    pub datagrams: u64,
    /// Messages passed to or from the caller.
    pub messages: u64,
}

impl LinkTraffic {
    pub(crate) fn packet(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// Counts of what was refused, dropped or failed. They only grow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EndpointCounters {
    /// Incoming handshakes that were accepted.
    pub accepted: u64,
    /// Handshakes refused because all links were in use, or the endpoint was shutting down.
    pub refused_full: u64,
    /// Handshakes refused because their address has its limit of links.
    pub refused_per_address: u64,
    /// Handshakes refused because their address starts too many.
    pub refused_rate: u64,
    /// Handshakes refused because too many addresses are remembered.
    pub refused_addresses: u64,
    /// Handshakes told to prove their address first.
    pub retried: u64,
    /// Accepted handshakes that failed, on either side.
    pub handshakes_failed: u64,
    /// UDP packets without a link: malformed, unknown, or for a link long gone.
    pub packets_ignored: u64,
    /// Packets of a direct path that failed authentication.
    pub packets_forged: u64,
    /// UDP packets dropped unread because their link sends too many.
    pub packets_over_rate: u64,
    /// Datagrams dropped because their link sends too many.
    pub datagrams_over_rate: u64,
    /// Outgoing datagrams that newer ones replaced before they could be sent, or that were too large for a path.
    pub datagrams_outdated: u64,
    /// Datagrams dropped because the caller did not read earlier ones (links between peers).
    pub datagrams_unread: u64,
    /// Links closed because they exceeded their rate by far.
    pub closed_flood: u64,
    /// Links closed because they had not joined when places were scarce.
    pub closed_idle: u64,
    /// Links closed because of a message beyond the limit.
    pub closed_oversized: u64,
    /// UDP packets that the system did not send, because its buffers were full or there was no route.
    pub packets_unsent: u64,
    /// UDP packets lost by a conditioner.
    pub conditioned_away: u64,
    /// Certificates renewed.
    pub renewals: u64,
    /// Outgoing datagrams dropped because a WebSocket lags: TCP would have queued them.
    pub datagrams_late: u64,
    /// Links closed because they violated WebSocket or HTTP/3.
    pub closed_malformed: u64,
    /// Links of pages refused because of the page's origin.
    pub refused_origin: u64,
    /// Operators' links refused for a wrong token, or because there are enough.
    pub refused_observers: u64,
    pub http_requests: u64,
    /// HTTP requests refused: malformed, too long, unknown, not allowed.
    pub http_refused: u64,
    /// HTTP connections refused because there are enough.
    pub http_full: u64,
    /// HTTP connections closed before a request, to make room for others.
    pub http_idle: u64,
    /// HTTP connections closed during a request or an answer that took too long.
    pub http_slow: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Micros = Micros(50_000);

    fn meter(window: u64, trip_ms: u64, shortest_ms: u64) -> LinkMeter {
        let (round_trip, shortest_round_trip) =
            (Micros::from_millis(trip_ms), Micros::from_millis(shortest_ms));
        LinkMeter { window, round_trip, shortest_round_trip, ..LinkMeter::default() }
    }

    #[test]
    fn a_link_without_a_queue_is_allowed_its_whole_window() {
        for (window, trip) in [(16_384, 1), (16_384, 30), (14_720, 150), (400_000, 300)] {
            let whole = window as f64 * 50.0 / trip as f64;
            for late in [0, 60, 100] {
                let allowed = meter(window, trip + late, trip).capacity(ROUND);
                let turned_over = whole * trip as f64 / (trip + late) as f64;
                assert_eq!(allowed, Some(Bytes(turned_over as u32)), "{trip} + {late} ms");
            }
        }
        assert_eq!(meter(16_384, 0, 0).capacity(ROUND), None, "nothing is known yet");
    }

    /// A link with a given rate, and a sender with more data than that, so that its window is full of waiting data.
    /// Returns the final queueing delay.
    fn standing_queue_ms(per_second: f64, shortest_ms: f64) -> f64 {
        let (mut queue, mut smooth) = (0.0, shortest_ms);
        for _ in 0..2_000 {
            let meter = meter(16_384, smooth as u64, shortest_ms as u64);
            let sent = meter.capacity(ROUND).map_or(0.0, |bytes| f64::from(bytes.0));
            queue = (queue + sent - per_second * 0.05_f64).max(0.0);
            let trip = shortest_ms + queue / per_second * 1e3;
            smooth += (trip - smooth) / 8.0;
        }
        queue / per_second * 1e3
    }

    #[test]
    fn a_narrow_link_is_used_fully_and_hardly_queues() {
        for (per_second, shortest_ms) in [(4_000.0, 20.0), (8_000.0, 50.0), (20_000.0, 100.0)] {
            let window_ms = 16_384.0 / per_second * 1e3;
            let queue_ms = standing_queue_ms(per_second, shortest_ms);
            assert!(queue_ms < window_ms / 3.0, "{queue_ms} of {window_ms} ms at {per_second} B/s");
        }
    }
}
