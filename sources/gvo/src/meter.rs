//! Counts what each node sends and receives, by stream in ticks of 100 ms, as the source's meter does.

use foveate_wire::Micros;

/// One tick of the meter.
pub const TICK: Micros = Micros(100_000);

/// What a message is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Lists of players; with ours also acknowledgements and notices.
    Control,
    /// Positions.
    State,
    /// Orders.
    Action,
    /// First states of objects.
    FullState,
    /// Events.
    Event,
}

impl Stream {
    pub const ALL: [Stream; 5] =
        [Stream::Control, Stream::State, Stream::Action, Stream::FullState, Stream::Event];

    pub fn name(self) -> &'static str {
        ["control", "state", "action", "full_state", "event"][self as usize]
    }

    /// A split with the bytes of one stream only.
    pub fn only(self, bytes: u64) -> Split {
        let mut split = Split::default();
        split[self as usize] = bytes;
        split
    }
}

/// Bytes by stream.
pub type Split = [u64; 5];

/// What carries a packet, with the bytes of its headers, including Ethernet's: the source's figures. TCP's
/// acknowledgements are packets without payload.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Carrier {
    Tcp,
    Udp,
}

impl Carrier {
    pub fn header(self) -> u64 {
        match self {
            Carrier::Tcp => 54,
            Carrier::Udp => 42,
        }
    }
}

/// Traffic of one node in one direction.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Side {
    /// Payload bytes by tick and stream.
    pub ticks: Vec<Split>,
    /// Packets.
    pub packets: u64,
    /// Bytes with the carriers' headers.
    pub wire: u64,
    /// Payload bytes that TCP carried.
    pub reliable: u64,
    /// Payload bytes that TCP had to send again.
    pub resent: u64,
}

impl Side {
    fn note(&mut self, at: Micros, carrier: Carrier, split: Split) {
        let tick = (at.0 / TICK.0) as usize;
        if self.ticks.len() <= tick {
            self.ticks.resize(tick + 1, Split::default());
        }
        self.ticks[tick].iter_mut().zip(split).for_each(|(sum, bytes)| *sum += bytes);
        self.packets += 1;
        let bytes = split.iter().sum::<u64>();
        self.wire += bytes + carrier.header();
        self.reliable += if carrier == Carrier::Tcp { bytes } else { 0 };
    }

    pub fn by_stream(&self) -> Split {
        let mut all = Split::default();
        for tick in &self.ticks {
            all.iter_mut().zip(tick).for_each(|(sum, bytes)| *sum += bytes);
        }
        all
    }

    pub fn bytes(&self) -> u64 {
        self.by_stream().iter().sum()
    }

    /// Payload bytes in each tick.
    pub fn per_tick(&self) -> impl Iterator<Item = u64> + '_ {
        self.ticks.iter().map(|tick| tick.iter().sum())
    }

    pub fn peak(&self) -> u64 {
        self.per_tick().max().unwrap_or(0)
    }
}

/// Traffic of one node.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Flow {
    pub up: Side,
    pub down: Side,
}

/// Traffic of all nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrafficMeter {
    pub nodes: Vec<Flow>,
}

impl TrafficMeter {
    pub fn new(nodes: usize) -> TrafficMeter {
        TrafficMeter { nodes: vec![Flow::default(); nodes] }
    }

    pub fn sent(&mut self, node: usize, at: Micros, carrier: Carrier, split: Split) {
        self.nodes[node].up.note(at, carrier, split);
    }

    pub fn received(&mut self, node: usize, at: Micros, carrier: Carrier, split: Split) {
        self.nodes[node].down.note(at, carrier, split);
    }

    /// Payload bytes of some streams that all nodes sent.
    pub fn sent_of(&self, streams: &[Stream]) -> u64 {
        let of =
            |flow: &Flow| streams.iter().map(|s| flow.up.by_stream()[*s as usize]).sum::<u64>();
        self.nodes.iter().map(of).sum()
    }
}

/// Divides a packet's bytes by weight; the last stream with any takes the rounding error.
pub fn share(bytes: u64, weights: [f64; 5]) -> Split {
    let sum: f64 = weights.iter().sum();
    let Some(last) = weights.iter().rposition(|weight| *weight > 0.0) else {
        return Stream::Control.only(bytes);
    };
    let mut split = Split::default();
    let mut left = bytes;
    for (at, weight) in weights.iter().enumerate().take(last) {
        split[at] = ((bytes as f64 * weight / sum).round() as u64).min(left);
        left -= split[at];
    }
    split[last] = left;
    split
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_the_packet() {
        for bytes in 0..200 {
            let split = share(bytes, [0.3, 7.0, 0.0, 2.2, 0.0]);
            assert_eq!(split.iter().sum::<u64>(), bytes);
            assert_eq!((split[2], split[4]), (0, 0));
        }
        assert_eq!(share(9, [0.0; 5]), Stream::Control.only(9));
    }

    #[test]
    fn bytes_are_counted_in_their_tick() {
        let mut meter = TrafficMeter::new(1);
        meter.sent(0, Micros(99_999), Carrier::Udp, Stream::State.only(10));
        meter.sent(0, Micros(100_000), Carrier::Tcp, Stream::Event.only(5));
        let up = &meter.nodes[0].up;
        assert_eq!(up.per_tick().collect::<Vec<_>>(), [10, 5]);
        assert_eq!((up.wire, up.packets, up.peak()), (10 + 42 + 5 + 54, 2, 10));
        assert_eq!((up.reliable, up.resent), (5, 0));
    }
}
