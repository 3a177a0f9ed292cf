//! What passed over a link, over all links, and what was refused.

use foveate_wire::{Bytes, Micros};

/// Rounds by which a round trip may be longer than the shortest without a queue being the reason:
/// acknowledgements wait for the next datagram at either end, and timers have slack.
const SLACK: f64 = 2.0;
/// A link carries at least this much in a round: what is never sent is never measured.
const MIN_CAPACITY: f64 = 64.0;

/// Traffic of one link, or of all links that an endpoint ever had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkMeter {
    /// What came in.
    pub received: LinkTraffic,
    /// What went out.
    pub sent: LinkTraffic,
    /// Packets of ours that QUIC holds to be lost.
    pub lost_packets: u64,
    /// Smoothed round trip; over all links, the mean. Acknowledgements wait for the next datagram,
    /// so that it may be too long by up to a tick.
    pub round_trip: Micros,
    /// Shortest round trip seen; over all links, the shortest of all.
    pub shortest_round_trip: Micros,
    /// Bytes that may be under way at once; over all links, the sum.
    pub window: u64,
}

impl LinkMeter {
    /// Bytes that one link carries in a round without queueing them: the congestion window, as often as it
    /// turns over in a round. Where round trips are longer than they have to be, a queue has built up, and
    /// the less is allowed the longer it is. `None` before a round trip was measured.
    ///
    /// A link without a queue is allowed what its congestion controller would let through in any case.
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

    /// What passed in all: of the links that are over `self`, of those that are there their own.
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
    /// UDP packets; over WebSocket, pieces read from or written to the TCP socket.
    pub packets: u64,
    /// Bytes of them, without headers of IP, UDP and TCP. Those of QUIC and WebSocket count.
    pub bytes: u64,
    /// Datagrams that were handed over.
    pub datagrams: u64,
    /// Messages that were handed over.
    pub messages: u64,
}

impl LinkTraffic {
    pub(crate) fn packet(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// What was refused, dropped or went wrong. Each only ever grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EndpointCounters {
    /// Handshakes begun by others and accepted.
    pub accepted: u64,
    /// Handshakes refused because all links were in use, or the endpoint was shutting down.
    pub refused_full: u64,
    /// Handshakes refused because their address has its links already.
    pub refused_per_address: u64,
    /// Handshakes refused because their address begins too many.
    pub refused_rate: u64,
    /// Handshakes refused because too many addresses are remembered.
    pub refused_addresses: u64,
    /// Handshakes told to prove their address first.
    pub retried: u64,
    /// Handshakes that were accepted and failed, from either side.
    pub handshakes_failed: u64,
    /// UDP packets that belong to nothing: malformed, unknown, or for a link long gone.
    pub packets_ignored: u64,
    /// Packets of a direct path that failed authentication.
    pub packets_forged: u64,
    /// UDP packets dropped unread because their link sends too many.
    pub packets_over_rate: u64,
    /// Datagrams dropped because their link sends too many.
    pub datagrams_over_rate: u64,
    /// Datagrams of ours that newer ones pushed out before they could be sent, or that a path was too narrow for.
    pub datagrams_outdated: u64,
    /// Datagrams dropped because the caller did not take those before them (links between peers).
    pub datagrams_unread: u64,
    /// Links closed because they went far beyond their rate.
    pub closed_flood: u64,
    /// Links closed because they had not joined when places were short.
    pub closed_idle: u64,
    /// Links closed because of a message beyond the limit.
    pub closed_oversized: u64,
    /// UDP packets that the system did not take, its buffers being full or the way closed.
    pub packets_unsent: u64,
    /// UDP packets lost by a conditioner.
    pub conditioned_away: u64,
    /// Certificates renewed.
    pub renewals: u64,
    /// Datagrams of ours dropped because a WebSocket lags: TCP would have queued them.
    pub datagrams_late: u64,
    /// Links closed because of bytes against the rules of WebSocket or HTTP/3.
    pub closed_malformed: u64,
    /// Links of pages refused because of the page's origin.
    pub refused_origin: u64,
    /// Operators' links refused for want of the right token or place.
    pub refused_observers: u64,
    /// HTTP requests.
    pub http_requests: u64,
    /// Of them and beside them, refused: malformed, too long, unknown, not allowed.
    pub http_refused: u64,
    /// HTTP connections turned away because there are enough.
    pub http_full: u64,
    /// HTTP connections closed before they had asked anything, because others came and places were short.
    pub http_idle: u64,
    /// HTTP connections closed in the middle of a request or an answer that took too long.
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

    /// A pipe that passes so much in a second, and a sender with more to say than that: its window is
    /// full of what waits before the pipe. How long that takes in the end.
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
    fn what_a_narrow_pipe_passes_is_sent_and_hardly_queued() {
        for (per_second, shortest_ms) in [(4_000.0, 20.0), (8_000.0, 50.0), (20_000.0, 100.0)] {
            let window_ms = 16_384.0 / per_second * 1e3;
            let queue_ms = standing_queue_ms(per_second, shortest_ms);
            assert!(queue_ms < window_ms / 3.0, "{queue_ms} of {window_ms} ms at {per_second} B/s");
        }
    }
}
