//! For fuzzers: two ends of a path, and a network that does to their packets what some bytes say.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use foveate_wire::Micros;
use ring::hmac;

use super::{
    AMPLIFICATION, Arrival, Cipher, Departed, DirectPath, DirectSetup, EXPORTED, PathId, Place,
    Side,
};

/// What becomes of packets in one run.
const MAX_STEPS: usize = 256;
/// Packets that are kept to be repeated.
const MAX_KEPT: usize = 64;

fn place(host: u8, port: u16) -> Place {
    let ip = IpAddr::V4(Ipv4Addr::new(203, 0, 113, host));
    Place { address: SocketAddr::new(ip, port), source: None }
}

struct Ends {
    paths: [DirectPath; 2],
    now: Micros,
    /// Packets that left, by end; those and what was made of them may come again.
    kept: [Vec<Vec<u8>>; 2],
    /// Numbers of datagrams that arrived, by the end that sent them.
    arrived: [BTreeSet<u32>; 2],
    sent: u32,
    /// Bytes to and from addresses that are not the client's first.
    given: BTreeMap<SocketAddr, u64>,
    got: BTreeMap<SocketAddr, u64>,
}

/// Runs two ends as the bytes say.
pub(crate) fn bend(data: &[u8]) {
    let exported: [u8; EXPORTED] = std::array::from_fn(|at| at as u8);
    let cipher = Cipher::ALL[usize::from(data.first().is_some_and(|first| first % 2 == 1))];
    let end = |side, place| {
        let challenges = hmac::Key::new(hmac::HMAC_SHA256, &[side as u8; 32]);
        let setup = DirectSetup { side, cipher, exported: &exported, challenges, place };
        DirectPath::new(&setup, Micros::ZERO)
    };
    let paths = [end(Side::Client, place(1, 1)), end(Side::Server, place(2, 1))];
    let (kept, arrived, given, got) = Default::default();
    let mut ends = Ends { paths, now: Micros::ZERO, kept, arrived, sent: 0, given, got };
    for step in data.get(1..).unwrap_or_default().chunks_exact(4).take(MAX_STEPS) {
        ends.step([step[0], step[1], step[2], step[3]]);
    }
}

impl Ends {
    fn step(&mut self, [what, which, at, to]: [u8; 4]) {
        self.now = self.now + Micros::from_millis(u64::from(what >> 4) * 20);
        let from = usize::from(what & 1);
        self.poll(from);
        match what >> 1 & 7 {
            0 | 1 => self.send(from),
            2..=4 => self.deliver(from, which, place(if from == 0 { 2 } else { 1 }, 1), None),
            // From elsewhere, as after a move or by a relay.
            5 => self.deliver(from, which, place(2, u16::from(to % 8) + 2), None),
            6 => self.deliver(from, which, place(2, 1), Some((at, to))),
            _ => self.now = self.now + Micros::from_millis(u64::from(to) * 1_000),
        }
    }

    fn keep(&mut self, from: usize, to: Place, packet: Vec<u8>) {
        *self.got.entry(to.address).or_default() += packet.len() as u64;
        if self.kept[from].len() < MAX_KEPT {
            self.kept[from].push(packet);
        }
    }

    fn poll(&mut self, from: usize) {
        let mut out = Vec::new();
        while let Some(to) = self.paths[from].poll_transmit(self.now, &mut out) {
            let proved = self.paths[1].place().address;
            self.keep(from, to, std::mem::take(&mut out));
            if from == 1 && to.address != proved {
                let [got, given] = [&self.got, &self.given].map(|it| it.get(&to.address).copied());
                let most = AMPLIFICATION * given.unwrap_or(0);
                assert!(got.unwrap_or(0) <= most.max(1), "{got:?} bytes for {given:?}");
            }
        }
    }

    fn send(&mut self, from: usize) {
        let mut out = Vec::new();
        self.sent += 1;
        let sent = self.paths[from].send(self.now, &self.sent.to_le_bytes(), &mut out);
        if let Departed::Sent(to) = sent {
            self.keep(from, to, out);
        }
    }

    /// A packet of this end's arrives, perhaps again, perhaps changed.
    fn deliver(&mut self, from: usize, which: u8, source: Place, change: Option<(u8, u8)>) {
        let (end, count) = (1 - from, self.kept[from].len());
        let Some(mut packet) = self.kept[from].get(usize::from(which) % count.max(1)).cloned()
        else {
            return;
        };
        let honest = packet.clone();
        if let Some((at, to)) = change {
            let at = usize::from(at) % packet.len();
            packet[at] = to;
        }
        let is_changed = packet != honest;
        let path = &mut self.paths[end];
        let Some(id) = PathId::of(&packet) else { return };
        let Some(number) = path.numbers().find(|number| path.received_id(*number) == id) else {
            return;
        };
        *self.given.entry(source.address).or_default() += packet.len() as u64;
        let arrival = path.receive(self.now, source, number, &mut packet);
        assert!(!is_changed || matches!(arrival, Arrival::Forged | Arrival::Ignored));
        if let Arrival::Datagram(part) = arrival {
            let number = packet[part].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
            let is_new = number.is_some_and(|number| self.arrived[from].insert(number));
            assert!(is_new, "a datagram arrived twice");
        }
    }
}
