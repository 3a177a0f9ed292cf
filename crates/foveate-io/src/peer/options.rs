//! Options of a peer's endpoint.

use foveate_wire::{Bytes, Micros};
use iroh::endpoint::{AckFrequencyConfig, IdleTimeout, QuicTransportConfig, VarInt};

use crate::bucket::RateLimit;
use crate::error::Error;
use crate::options::{DATAGRAM_BUFFER, Limits, LinkConditions, MIN_PACKET, duration};

/// Packets that may arrive before a separate acknowledgement is sent, as between client and server.
const PACKETS_PER_ACK: u32 = 10;

/// Options of links between peers.
#[derive(Clone, Debug)]
pub struct PeerOptions {
    pub limits: Limits,
    /// A link that receives nothing for this long is closed; at most 15 seconds.
    pub idle_timeout: Micros,
    /// A silent link sends something this often, at most every 5 seconds.
    pub keep_alive: Micros,
    /// UDP payload that is assumed to fit the path. It falls back to 1200 if it does not.
    pub packet: Bytes,
    /// Datagrams that arrive within this time are reported together, which saves wake-ups and delays them by at most
    /// this much.
    pub gather: Micros,
    /// Address (`https://…`) of a relay, through which peers of this game connect if no direct path is found. Without
    /// one, packets are only sent to addresses that were given, or that a peer stated over its authenticated link.
    pub relay: Option<String>,
    /// Conditions of every new link.
    pub conditions: Option<LinkConditions>,
    /// RNG seed of the conditioners.
    pub seed: u64,
}

impl Default for PeerOptions {
    fn default() -> PeerOptions {
        PeerOptions {
            limits: Limits::peer(),
            idle_timeout: Micros::from_millis(10_000),
            keep_alive: Micros::from_millis(3_000),
            packet: Bytes(1_280),
            gather: Micros::from_millis(1),
            relay: None,
            conditions: None,
            seed: 0,
        }
    }
}

impl Limits {
    /// For a peer: few links, each as busy as a client's.
    pub fn peer() -> Limits {
        Limits {
            max_links: 64,
            handshakes_per_address: RateLimit { per_second: 8, burst: 64 },
            max_links_per_address: 64,
            datagrams: RateLimit::per_second(512),
            bytes: RateLimit::per_second(512 * 1024),
            ..Limits::server()
        }
    }
}

/// QUIC's settings for links that the other side (`streams` 1) or this side (0) starts: the side that starts a link
/// opens its only stream.
pub(super) fn transport(options: &PeerOptions, streams: u32) -> Result<QuicTransportConfig, Error> {
    let idle = IdleTimeout::try_from(duration(options.idle_timeout))
        .map_err(|_| wrong("idle_timeout", "less than 2⁶² ms"))?;
    let packet = u16::try_from(options.packet.0).unwrap_or(0);
    if u32::from(packet) < MIN_PACKET.0 {
        return Err(wrong("packet", "between 1200 and 65535 bytes"));
    }
    if options.keep_alive > Micros::from_millis(5_000) {
        return Err(wrong("keep_alive", "at most 5 s"));
    }
    if options.idle_timeout > Micros::from_millis(15_000) {
        return Err(wrong("idle_timeout", "at most 15 s"));
    }
    let message = VarInt::from_u32(options.limits.max_message.0);
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(VarInt::from_u32(PACKETS_PER_ACK));
    Ok(QuicTransportConfig::builder()
        .max_concurrent_bidi_streams(VarInt::from_u32(streams))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_idle_timeout(Some(idle))
        .default_path_max_idle_timeout(duration(options.idle_timeout))
        .default_path_keep_alive_interval(duration(options.keep_alive))
        .stream_receive_window(message)
        .receive_window(message)
        .send_window(u64::from(options.limits.max_message.0))
        .initial_mtu(packet)
        .mtu_discovery_config(None)
        .ack_frequency_config(Some(acks))
        .allow_spin(false)
        .datagram_receive_buffer_size(Some(DATAGRAM_BUFFER))
        .datagram_send_buffer_size(DATAGRAM_BUFFER)
        .build())
}

fn wrong(name: &'static str, what: &str) -> Error {
    Error::Option { name, what: format!("expected {what}") }
}
