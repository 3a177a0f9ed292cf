//! QUIC settings for small packets at a steady rate, and little memory per connection.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use foveate_wire::Bytes;
use quinn_proto::congestion::{Controller, ControllerFactory, Cubic, CubicConfig};
use quinn_proto::{AckFrequencyConfig, IdleTimeout, RttEstimator, TransportConfig, VarInt};

use crate::error::Error;
use crate::options::{DATAGRAM_BUFFER, EndpointOptions, MIN_PACKET, duration};

/// Packets that may arrive before a separate acknowledgement is sent: more than a tick's, so that acknowledgements wait
/// for the next datagram.
const PACKETS_PER_ACK: u32 = 10;

/// Numbers of streams that the other side may open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Streams {
    both_ways: u32,
    one_way: u32,
}

impl Streams {
    /// A server opens none.
    pub(crate) const NONE: Streams = Streams { both_ways: 0, one_way: 0 };
    /// A client opens the stream of messages.
    pub(crate) const MESSAGES: Streams = Streams { both_ways: 1, one_way: 0 };
    /// A browser also opens the stream of its request, and HTTP/3's; some open more, to test that unknown ones are
    /// ignored.
    #[cfg(feature = "web")]
    pub(crate) const BROWSER: Streams = Streams { both_ways: 4, one_way: 8 };
}

pub(crate) fn config(
    options: &EndpointOptions,
    streams: Streams,
) -> Result<TransportConfig, Error> {
    let idle = IdleTimeout::try_from(duration(options.idle_timeout))
        .map_err(|_| wrong("idle_timeout", "less than 2⁶² ms"))?;
    let packet = u16::try_from(options.packet.0).unwrap_or(0);
    if u32::from(packet) < MIN_PACKET.0 {
        return Err(wrong("packet", "between 1200 and 65535 bytes"));
    }
    let message = VarInt::from_u32(options.limits.max_message.0);
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(VarInt::from_u32(PACKETS_PER_ACK));
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(streams.both_ways))
        .max_concurrent_uni_streams(VarInt::from_u32(streams.one_way))
        .max_idle_timeout(Some(idle))
        .keep_alive_interval(options.keep_alive.map(duration))
        .stream_receive_window(message)
        .receive_window(message)
        .send_window(u64::from(options.limits.max_message.0))
        .initial_mtu(packet)
        .mtu_discovery_config(None)
        .ack_frequency_config(Some(acks))
        .allow_spin(false)
        .datagram_receive_buffer_size(Some(DATAGRAM_BUFFER))
        .datagram_send_buffer_size(DATAGRAM_BUFFER)
        .enable_segmentation_offload(false)
        .congestion_controller_factory(Arc::new(Floored { floor: options.min_window }));
    Ok(config)
}

fn wrong(name: &'static str, what: &str) -> Error {
    Error::Option { name, what: format!("expected {what}") }
}

/// Makes congestion controllers with a lower limit.
struct Floored {
    floor: Bytes,
}

impl ControllerFactory for Floored {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let cubic = Cubic::new(Arc::new(CubicConfig::default()), now, current_mtu);
        Box::new(Floor { inner: Box::new(cubic), floor: u64::from(self.floor.0) })
    }
}

/// Cubic, with room for at least a few ticks' packets.
///
/// A game sends a small packet each tick. After a few losses Cubic would allow only two packets in flight, and delay
/// the third although the path is not full. What is sent is limited by the scheduler's budget, which reads the window
/// from the meter.
struct Floor {
    inner: Box<dyn Controller>,
    floor: u64,
}

impl Controller for Floor {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        limited: bool,
        rtt: &RttEstimator,
    ) {
        self.inner.on_ack(now, sent, bytes, limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, limited: bool, largest: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, limited, largest);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, persistent: bool, lost: u64) {
        self.inner.on_congestion_event(now, sent, persistent, lost);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window().max(self.floor)
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Floor { inner: self.inner.clone_box(), floor: self.floor })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window().max(self.floor)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_window_never_falls_below_its_floor() {
        let start = Instant::now();
        let mut controller = Arc::new(Floored { floor: Bytes(9_000) }).build(start, 1_280);
        for second in 1..50 {
            let now = start + Duration::from_secs(second);
            controller.on_congestion_event(now, now, second % 3 == 0, 1_200);
            assert!(controller.window() >= 9_000);
        }
        assert_eq!(controller.clone_box().window(), 9_000);
    }

    #[test]
    fn impossible_options_are_refused_by_name() {
        let tiny = EndpointOptions { packet: Bytes(900), ..EndpointOptions::server() };
        let said = config(&tiny, Streams::MESSAGES).expect_err("too small").to_string();
        assert_eq!(said, "option packet: expected between 1200 and 65535 bytes");
    }
}
