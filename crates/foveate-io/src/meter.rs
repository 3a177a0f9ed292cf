//! What passed over a link, over all links, and what was refused.

use foveate_wire::Micros;

/// Traffic of one link, or of all links that an endpoint ever had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Meter {
    /// What came in.
    pub received: Traffic,
    /// What went out.
    pub sent: Traffic,
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

impl Meter {
    /// What passed in all: of the links that are over `self`, of those that are there their own.
    pub(crate) fn with(
        mut self,
        open: impl Iterator<Item = Meter>,
        add: fn(&mut Meter, &Meter),
    ) -> Meter {
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
pub struct Traffic {
    /// UDP packets; over WebSocket, pieces read from or written to the TCP socket.
    pub packets: u64,
    /// Bytes of them, without headers of IP, UDP and TCP. Those of QUIC and WebSocket count.
    pub bytes: u64,
    /// Datagrams that were handed over.
    pub datagrams: u64,
    /// Messages that were handed over.
    pub messages: u64,
}

impl Traffic {
    pub(crate) fn packet(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }
}

/// What was refused, dropped or went wrong. Each only ever grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
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
    /// UDP packets dropped unread because their link sends too many.
    pub packets_over_rate: u64,
    /// Datagrams dropped because their link sends too many.
    pub datagrams_over_rate: u64,
    /// Datagrams of ours that newer ones pushed out before they could be sent.
    pub datagrams_outdated: u64,
    /// Datagrams dropped because the caller did not take those before them (links between peers).
    pub datagrams_unread: u64,
    /// Links closed because they went far beyond their rate.
    pub closed_flood: u64,
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
    /// HTTP connections closed in the middle of a request or an answer that took too long.
    pub http_slow: u64,
}
