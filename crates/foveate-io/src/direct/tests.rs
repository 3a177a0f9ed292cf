//! Two ends in virtual time, with a network between them that a test can bend.

use std::collections::{BTreeMap, BTreeSet};

use foveate_node::link_model::{LinkModel, LinkSpec, Loss, Rate};

use super::keys::{MAX_KEY_AGE, MAX_SEALED};
use super::rate::MIN_RATE;
use super::*;

mod golden;

const MS: Micros = Micros::from_millis(1);
const SERVER: Place = at([10, 0, 0, 1], 4_433);
const HOME: Place = at([10, 0, 0, 2], 5_000);
const SPY: Place = at([10, 0, 0, 66], 6_000);

const fn at([a, b, c, d]: [u8; 4], port: u16) -> Place {
    let ip = std::net::Ipv4Addr::new(a, b, c, d);
    Place { address: SocketAddr::new(IpAddr::V4(ip), port), source: None }
}

/// Packets under way: when they arrive, in which order they left, from where, where to.
type Wire = BTreeMap<(Micros, u64), (Place, Place, Vec<u8>)>;

struct Pair {
    now: Micros,
    client: DirectPath,
    server: DirectPath,
    client_at: Place,
    wire: Wire,
    sent: u64,
    up: LinkModel,
    down: LinkModel,
    blocked: bool,
    /// What arrived at the client and at the server, and what a spy or anywhere else got.
    heard: Vec<Vec<u8>>,
    inputs: Vec<Vec<u8>>,
    elsewhere: Vec<(Place, Vec<u8>)>,
    /// Every packet that left, by end.
    log: Vec<(Side, Vec<u8>)>,
    lost: u64,
    forged: u64,
}

impl Pair {
    fn new() -> Pair {
        Pair::with(Cipher::Aes128Gcm, LinkSpec::delayed(MS * 20), 1)
    }

    fn with(cipher: Cipher, spec: LinkSpec, seed: u64) -> Pair {
        let exported = std::array::from_fn(|at| at as u8);
        let end = |side, place, key: &[u8]| {
            let challenges = hmac::Key::new(hmac::HMAC_SHA256, key);
            let setup = DirectSetup { side, cipher, exported: &exported, challenges, place };
            DirectPath::new(&setup, Micros::ZERO)
        };
        Pair {
            now: Micros::ZERO,
            client: end(Side::Client, SERVER, b"client"),
            server: end(Side::Server, HOME, b"server"),
            client_at: HOME,
            wire: Wire::new(),
            sent: 0,
            up: LinkModel::new(spec, seed),
            down: LinkModel::new(spec, !seed),
            blocked: false,
            heard: Vec::new(),
            inputs: Vec::new(),
            elsewhere: Vec::new(),
            log: Vec::new(),
            lost: 0,
            forged: 0,
        }
    }

    /// Two ends that have proved their path.
    fn active() -> Pair {
        let mut pair = Pair::new();
        pair.run(MS * 100);
        assert!(pair.client.is_active() && pair.server.is_active());
        pair
    }

    fn carry(&mut self, side: Side, to: Place, bytes: Vec<u8>) {
        self.log.push((side, bytes.clone()));
        let (model, from) = match side {
            Side::Client => (&mut self.up, self.client_at),
            Side::Server => (&mut self.down, SERVER),
        };
        let before = self.sent;
        let (wire, sent) = (&mut self.wire, &mut self.sent);
        if !self.blocked {
            model.carry(self.now, bytes.len(), |due| {
                *sent += 1;
                wire.insert((due, *sent), (from, to, bytes.clone()));
            });
        }
        self.lost += u64::from(*sent == before);
    }

    /// Sends a datagram, if the direct path takes it.
    fn send(&mut self, side: Side, datagram: &[u8]) -> bool {
        let mut out = Vec::new();
        let now = self.now;
        match self.end(side).send(now, datagram, &mut out) {
            Departed::Sent(place) => {
                self.carry(side, place, out);
                true
            }
            _ => false,
        }
    }

    fn end(&mut self, side: Side) -> &mut DirectPath {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }

    /// Hands a packet to an end as its endpoint would.
    fn deliver(&mut self, side: Side, from: Place, mut bytes: Vec<u8>) -> Option<Arrival> {
        let now = self.now;
        let end = self.end(side);
        let id = PathId::of(&bytes)?;
        let number = end.numbers().find(|number| end.received_id(*number) == id)?;
        let arrival = end.receive(now, from, number, &mut bytes);
        match &arrival {
            Arrival::Datagram(part) => {
                let datagram = bytes[part.clone()].to_vec();
                let to = if side == Side::Client { &mut self.heard } else { &mut self.inputs };
                to.push(datagram);
            }
            Arrival::Forged => self.forged += 1,
            _ => {}
        }
        Some(arrival)
    }

    fn step(&mut self) {
        self.now = self.now + MS;
        while let Some(entry) = self.wire.first_entry()
            && entry.key().0 <= self.now
        {
            let (from, to, bytes) = entry.remove();
            if to == SERVER {
                self.deliver(Side::Server, from, bytes);
            } else if to == self.client_at {
                self.deliver(Side::Client, from, bytes);
            } else {
                self.elsewhere.push((to, bytes));
            }
        }
        for side in [Side::Client, Side::Server] {
            let (now, mut out) = (self.now, Vec::new());
            while let Some(to) = self.end(side).poll_transmit(now, &mut out) {
                self.carry(side, to, std::mem::take(&mut out));
            }
            assert!(self.end(side).next_due().is_none_or(|due| due > now), "it is drained");
        }
    }

    fn run(&mut self, span: Micros) {
        for _ in 0..span.0 / MS.0 {
            self.step();
        }
    }

    /// Both send every 50 ms.
    fn play(&mut self, span: Micros) {
        for round in 0..span.0 / 50_000 {
            self.send(Side::Client, &round.to_le_bytes());
            self.send(Side::Server, &[round as u8; 60]);
            self.run(MS * 50);
        }
    }

    /// The last packet of an end, for an attacker to use.
    fn last_of(&self, side: Side) -> Vec<u8> {
        let mut own = self.log.iter().filter(|(by, _)| *by == side);
        own.next_back().map(|(_, bytes)| bytes.clone()).expect("it sent something")
    }
}

#[test]
fn datagrams_take_the_path_once_a_challenge_was_echoed() {
    for cipher in Cipher::ALL {
        let mut pair = Pair::with(cipher, LinkSpec::delayed(MS * 20), 1);
        assert!(!pair.send(Side::Client, b"early"), "nothing is proved");
        pair.run(MS * 39);
        assert!(!pair.client.is_active());
        pair.run(MS * 3);
        assert!(pair.client.is_active() && pair.server.is_active());
        pair.play(MS * 1_000);
        assert_eq!((pair.heard.len(), pair.inputs.len(), pair.forged), (20, 20, 0));
        assert_eq!(pair.heard[7], [7; 60]);
        let (trip, shortest, _) = pair.server.measured().expect("feedback came");
        assert!((MS * 39..=MS * 43).contains(&trip) && shortest >= MS * 39, "{trip:?}");
        assert!(!pair.send(Side::Client, &[0; MAX_DATAGRAM + 1]), "too large is QUIC's");
        assert!(pair.send(Side::Client, &[0; MAX_DATAGRAM]));
        assert!(pair.last_of(Side::Client).len() <= 1_200);
    }
}

#[test]
fn a_network_that_drops_the_packets_leaves_datagrams_to_quic() {
    let mut pair = Pair::new();
    pair.blocked = true;
    pair.run(MS * 20_000);
    assert!(!pair.client.is_active() && !pair.send(Side::Client, b"x"));
    assert!((8..20).contains(&pair.log.len()), "{} probes in 20 s", pair.log.len());
    pair.blocked = false;
    pair.run(MS * 8_100);
    assert!(pair.client.is_active() && pair.server.is_active());
}

#[test]
fn three_timeouts_without_feedback_give_the_path_up_and_an_echo_brings_it_back() {
    let mut pair = Pair::active();
    pair.play(MS * 1_000);
    pair.blocked = true;
    let timeout = pair.server.rate.timeout();
    pair.play(timeout * 3 + MS * 300);
    assert!(!pair.server.is_active() && !pair.client.is_active());
    pair.blocked = false;
    pair.run(MS * 8_100);
    assert!(pair.server.is_active() && pair.client.is_active());
    let before = pair.heard.len();
    pair.play(MS * 1_000);
    assert_eq!(pair.heard.len(), before + 20);
}

#[test]
fn a_side_that_only_listens_still_feeds_back() {
    let mut pair = Pair::active();
    for _ in 0..200 {
        pair.send(Side::Server, b"state");
        pair.run(MS * 50);
    }
    assert!(pair.server.is_active());
    assert_eq!(pair.heard.len(), 200);
    let feedback = pair.log.iter().filter(|(side, _)| *side == Side::Client).count();
    assert!((38..60).contains(&feedback), "{feedback} in 10 s");
}

#[test]
fn replayed_packets_are_ignored_and_reordered_ones_are_not() {
    let mut pair = Pair::active();
    let mut packets = Vec::new();
    for round in 0..super::replay::WINDOW as u16 {
        let (now, mut out) = (pair.now, Vec::new());
        // Time passes for the rate, and no packet arrives.
        let sent = pair.server.send(now + MS * u32::from(round), &round.to_le_bytes(), &mut out);
        assert!(matches!(sent, Departed::Sent(_)));
        packets.push(out);
    }
    fastrand::Rng::with_seed(3).shuffle(&mut packets);
    for packet in packets.iter().chain(&packets) {
        pair.deliver(Side::Client, SERVER, packet.clone());
    }
    let heard: BTreeSet<&Vec<u8>> = pair.heard.iter().collect();
    assert_eq!((pair.heard.len(), heard.len()), (packets.len(), packets.len()));
    assert_eq!(pair.forged, 0);
}

#[test]
fn a_packet_changed_anywhere_is_refused_and_moves_nothing() {
    for cipher in Cipher::ALL {
        let mut pair = Pair::with(cipher, LinkSpec::delayed(MS * 20), 1);
        pair.run(MS * 100);
        let (now, mut packet) = (pair.now, Vec::new());
        pair.server.send(now, b"the truth", &mut packet);
        for bit in 0..packet.len() * 8 {
            let mut forged = packet.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let state = pair.client.opener.received();
            let arrival = pair.deliver(Side::Client, SERVER, forged);
            let refused = [None, Some(Arrival::Forged), Some(Arrival::Ignored)];
            assert!(refused.contains(&arrival), "bit {bit}: {arrival:?}");
            assert_eq!(pair.client.opener.received(), state, "bit {bit}");
        }
        for length in 0..packet.len() {
            let arrival = pair.deliver(Side::Client, SERVER, packet[..length].to_vec());
            assert!(!matches!(arrival, Some(Arrival::Datagram(_) | Arrival::Control)), "{length}");
        }
        assert_eq!(pair.heard.len(), 0);
        pair.deliver(Side::Client, SERVER, packet);
        assert_eq!(pair.heard, [b"the truth"]);
    }
}

#[test]
fn a_relayed_packet_moves_nothing_and_its_sender_gets_three_times_its_bytes_at_most() {
    let mut pair = Pair::active();
    pair.play(MS * 500);
    pair.elsewhere.clear();
    let mut given = 0;
    for round in 0..100_u64 {
        // The spy is faster than the client's own packet, every time.
        let (now, mut packet) = (pair.now, Vec::new());
        pair.client.send(now, &round.to_le_bytes(), &mut packet);
        if round < 10 {
            given += packet.len();
            pair.deliver(Side::Server, SPY, packet.clone());
        }
        pair.deliver(Side::Server, HOME, packet);
        pair.send(Side::Server, &[1; 900]);
        pair.run(MS * 50);
        let got: usize = pair.elsewhere.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(got <= 3 * given, "{got} of {given}");
    }
    assert!(!pair.elsewhere.is_empty(), "it was challenged");
    assert!(pair.elsewhere.iter().all(|(to, bytes)| *to == SPY && bytes.len() == 35));
    assert_eq!(pair.server.place(), HOME);
    assert!(pair.server.candidate.is_none(), "and then forgotten");
    assert_eq!(pair.heard.iter().filter(|heard| **heard == [1; 900]).count(), 100);
}

#[test]
fn an_echo_from_another_address_than_the_challenged_one_proves_nothing() {
    let mut pair = Pair::active();
    let (now, mut packet) = (pair.now, Vec::new());
    pair.client.send(now, b"input", &mut packet);
    pair.deliver(Side::Server, SPY, packet);
    let mut challenge = Vec::new();
    assert_eq!(pair.server.poll_transmit(now, &mut challenge), Some(SPY));
    // The spy passes the challenge on in the server's name; the client echoes from its home.
    pair.deliver(Side::Client, SERVER, challenge);
    pair.run(MS * 200);
    assert_eq!(pair.server.place(), HOME);
}

#[test]
fn a_client_whose_port_changes_is_followed_by_a_path_with_new_ids() {
    let mut pair = Pair::active();
    pair.play(MS * 500);
    let ids = |pair: &Pair, from: usize| -> BTreeSet<PathId> {
        pair.log[from..].iter().filter_map(|(_, bytes)| PathId::of(bytes)).collect()
    };
    let before = ids(&pair, 0);
    let moved = at([10, 0, 0, 2], 5_001);
    pair.client_at = moved;
    pair.play(MS * 150);
    assert_eq!(pair.server.place(), moved, "after one round trip");
    pair.run(MS * 100);
    let from = pair.log.len();
    let heard = pair.heard.len();
    pair.play(MS * 500);
    assert_eq!(pair.heard.len(), heard + 10);
    assert!(ids(&pair, from).is_disjoint(&before), "nobody can tell that it is the same client");
    assert_eq!(ids(&pair, from).len(), 2);
}

#[test]
fn a_client_may_roam_for_ever() {
    let mut pair = Pair::active();
    for turn in 0..40_u16 {
        let port = if turn % 3 == 0 { 5_000 } else { 7_000 + turn };
        pair.client_at = at([10, 0, (turn % 5) as u8, 2], port);
        pair.play(MS * 300);
        assert_eq!(pair.server.place(), pair.client_at, "turn {turn}");
    }
    assert!(pair.server.is_active() && pair.client.is_active());
    // Through addresses that it never stays at for a round trip.
    for turn in 0..40_u16 {
        pair.client_at = at([10, 9, 9, 9], 9_000 + turn);
        pair.send(Side::Client, b"gone already");
        pair.run(MS * 10);
    }
    pair.play(MS * 4_000);
    assert_eq!(pair.server.place(), pair.client_at);
}

#[test]
fn a_server_that_seems_to_move_is_not_followed() {
    let mut pair = Pair::active();
    let (now, mut packet) = (pair.now, Vec::new());
    pair.server.send(now, b"state", &mut packet);
    assert_eq!(pair.deliver(Side::Client, SPY, packet.clone()), Some(Arrival::Ignored));
    assert_eq!(pair.client.place(), SERVER);
    assert!(matches!(pair.deliver(Side::Client, SERVER, packet), Some(Arrival::Datagram(_))));
}

#[test]
fn keys_change_before_their_limit_and_old_ones_open_what_is_late() {
    let mut pair = Pair::active();
    let now = pair.now;
    // Up to just below the limit in steps that low bits can follow.
    while pair.server.sealer.next_sequence() + 40_000 < MAX_SEALED {
        pair.server.sealer.skip(30_000);
        let mut packet = Vec::new();
        let header = Header { kind: Kind::Feedback, has_feedback: false, id: pair.server.id };
        pair.server.sealer.seal(now, header, &mut packet, |_| {});
        assert_eq!(pair.deliver(Side::Client, SERVER, packet), Some(Arrival::Control));
    }
    let left = MAX_SEALED - 1 - pair.server.sealer.next_sequence();
    pair.server.sealer.skip(left - 1);
    let header = Header { kind: Kind::Feedback, has_feedback: false, id: pair.server.id };
    let (mut last, mut first) = (Vec::new(), Vec::new());
    pair.server.sealer.seal(now, header, &mut last, |_| {});
    pair.server.sealer.seal(now, header, &mut first, |_| {});
    assert_eq!((last[0] >> 2 & 3, first[0] >> 2 & 3), (0, 1), "one short of 2²³");
    // The first with the new key overtakes the last with the old one.
    assert_eq!(pair.deliver(Side::Client, SERVER, first), Some(Arrival::Control));
    assert_eq!(pair.deliver(Side::Client, SERVER, last), Some(Arrival::Control));
    pair.now = pair.now + pair.client.rate.timeout() * PATIENCE;
    let header = Header { kind: Kind::Feedback, has_feedback: false, id: pair.server.id };
    let mut newer = Vec::new();
    let now = pair.now;
    pair.server.sealer.seal(now, header, &mut newer, |_| {});
    assert_eq!(pair.deliver(Side::Client, SERVER, newer), Some(Arrival::Control));
    // By the hour.
    let mut newest = Vec::new();
    let hour_later = pair.now + MAX_KEY_AGE;
    pair.server.sealer.seal(hour_later, header, &mut newest, |_| {});
    assert_eq!(newest[0] >> 2 & 3, 2);
}

#[test]
fn a_key_that_was_replaced_is_dropped_after_three_timeouts() {
    let mut pair = Pair::active();
    let header = Header { kind: Kind::Feedback, has_feedback: false, id: pair.server.id };
    let (mut old, mut older, mut new) = (Vec::new(), Vec::new(), Vec::new());
    let now = pair.now;
    pair.server.sealer.seal(now, header, &mut old, |_| {});
    pair.server.sealer.seal(now, header, &mut older, |_| {});
    pair.server.sealer.seal(now + MAX_KEY_AGE, header, &mut new, |_| {});
    assert_eq!(pair.deliver(Side::Client, SERVER, new), Some(Arrival::Control));
    let keep = pair.client.rate.timeout() * PATIENCE;
    pair.now = now + keep - MS;
    assert_eq!(pair.deliver(Side::Client, SERVER, old), Some(Arrival::Control));
    pair.now = now + keep;
    assert_eq!(pair.deliver(Side::Client, SERVER, older), Some(Arrival::Forged));
}

#[test]
fn no_sequence_number_is_used_twice_whatever_happens() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut pair = Pair::active();
        for turn in 0..60 {
            match random.u8(..6) {
                0 => pair.client_at = at([10, 0, 0, 2], 5_000 + turn),
                1 => pair.blocked = !pair.blocked,
                2 => pair.now = pair.now + MAX_KEY_AGE,
                3 => pair.run(MS * random.u32(1..3_000)),
                _ => pair.play(MS * 200),
            }
        }
        for side in [Side::Client, Side::Server] {
            let own = pair.log.iter().filter(|(by, _)| *by == side);
            let used: Vec<u16> =
                own.map(|(_, bytes)| u16::from_le_bytes([bytes[9], bytes[10]])).collect();
            let in_order: Vec<u16> = (0..used.len() as u16).collect();
            assert_eq!(used, in_order, "seed {seed}: one after the other, never again");
        }
    }
}

#[test]
fn at_the_ciphers_limit_of_failures_the_path_is_closed() {
    for cipher in Cipher::ALL {
        let mut pair = Pair::with(cipher, LinkSpec::delayed(MS * 20), 1);
        pair.run(MS * 100);
        pair.client.opener.fail(cipher.max_failures() - 1);
        let mut forged = pair.last_of(Side::Server);
        assert!(pair.client.is_active());
        let last = forged.len() - 1;
        // A number that has not come yet.
        (forged[9], forged[last]) = (forged[9].wrapping_add(40), forged[last] ^ 1);
        assert_eq!(pair.deliver(Side::Client, SERVER, forged), Some(Arrival::Forged));
        assert!(!pair.client.is_active() && !pair.send(Side::Client, b"x"));
        pair.play(MS * 300);
        assert_eq!((pair.heard.len(), pair.client.next_due()), (0, None));
    }
}

#[test]
fn feedback_that_cannot_be_true_is_ignored() {
    let mut rate = SendRate::new(Micros::ZERO);
    rate.on_feedback(MS, Feedback { newest: 0, count: 1, age: 0 }, 0);
    for sequence in 0..10 {
        rate.on_sent(MS * 10, sequence, 100, true);
    }
    for (newest, count) in [(10, 1), (9, 11), (65_535, 1), (3, 65_000)] {
        rate.on_feedback(MS * 50, Feedback { newest, count, age: 0 }, 10);
        assert_eq!((rate.measured(), rate.unanswered()), (None, Some(MS * 10)), "{newest} {count}");
    }
    rate.on_feedback(MS * 50, Feedback { newest: 9, count: 8, age: 10 }, 10);
    assert_eq!(rate.measured().map(|(trip, ..)| trip), Some(MS * 30));
    assert_eq!((rate.lost(), rate.unanswered()), (2, None));
}

/// Plays for ten seconds at `per_second` bytes down, and returns the shares of packets that were lost and of
/// datagrams that were taken, both in the second half.
fn congested(spec: LinkSpec, per_second: u32, seed: u64) -> (f64, f64, f64) {
    let mut pair = Pair::with(Cipher::Aes128Gcm, spec, seed);
    pair.up = LinkModel::new(LinkSpec::delayed(MS * 20), seed);
    pair.run(MS * 200);
    let size = per_second / 60;
    let (mut tried, mut taken, mut lost) = (0, 0, 0);
    for round in 0..200 {
        if round == 100 {
            (tried, taken, lost) = (0, 0, pair.lost);
        }
        for _ in 0..3 {
            tried += 1;
            taken += u32::from(pair.send(Side::Server, &vec![0; size as usize]));
        }
        pair.send(Side::Client, b"input");
        pair.run(MS * 50);
    }
    let lost = (pair.lost - lost) as f64 / f64::from(taken.max(1));
    (lost, f64::from(taken) / f64::from(tried), pair.server.rate.bytes_per_second())
}

#[test]
fn a_narrow_pipe_is_not_flooded() {
    for queue in [4_000, 8_000, 16_000, 64_000] {
        let rate = Some(Rate { bytes_per_second: 32_000.0, queue });
        let spec = LinkSpec { rate, ..LinkSpec::delayed(MS * 20) };
        let (lost, taken, rate) = congested(spec, 66_000, 1);
        assert!(lost < 0.05, "queue {queue}: {lost} lost, {taken} taken, {rate} B/s");
        assert!(taken > 0.2, "queue {queue}: {taken} taken, {rate} B/s");
    }
}

/// Plays for `rounds` of 50 ms at `per_second` bytes down, and returns the share of datagrams that was taken.
fn taken(pair: &mut Pair, per_second: usize, rounds: u32) -> f64 {
    let mut taken = 0;
    for _ in 0..rounds {
        taken += u32::from(pair.send(Side::Server, &vec![0; per_second / 20]));
        pair.send(Side::Client, b"input");
        pair.run(MS * 50);
    }
    f64::from(taken) / f64::from(rounds)
}

#[test]
fn a_path_that_becomes_wide_again_may_be_used_even_if_little_was_sent_meanwhile() {
    for per_second in [600, 4_000, 20_000] {
        let mut pair = Pair::active();
        let rate = Some(Rate { bytes_per_second: 2_000.0, queue: 64_000 });
        pair.down.set(LinkSpec { rate, ..LinkSpec::delayed(MS * 20) });
        taken(&mut pair, 20_000, 40);
        assert!(pair.server.rate.bytes_per_second() < 20_000.0, "narrow");
        pair.down.set(LinkSpec::delayed(MS * 20));
        taken(&mut pair, per_second, 200);
        let rate = pair.server.rate.bytes_per_second();
        assert!(rate > 80_000.0, "{rate} B/s ten seconds later with {per_second} B/s");
        // Nothing shows that it carries more than what any unknown path is trusted with.
        taken(&mut pair, 600, 400);
        assert!(pair.server.rate.bytes_per_second() <= 140_000.0);
    }
}

#[test]
fn a_longer_way_is_not_taken_for_a_queue_for_ever() {
    let mut pair = Pair::active();
    taken(&mut pair, 20_000, 20);
    pair.down.set(LinkSpec::delayed(MS * 250));
    taken(&mut pair, 20_000, 600);
    let taken = taken(&mut pair, 20_000, 200);
    let rate = pair.server.rate.bytes_per_second();
    assert!(taken > 0.99 && rate > 30_000.0, "{taken} taken, {rate} B/s");
}

#[test]
fn loss_and_jitter_without_a_queue_do_not_starve_a_game() {
    for seed in 0..5 {
        let loss = Loss::share_in_bursts(0.05, 3.0);
        let spec = LinkSpec { loss, ..LinkSpec::jittered(MS * 55, MS * 40) };
        let (_, taken, rate) = congested(spec, 15_000, seed);
        assert!(taken > 0.99, "seed {seed}: {taken} taken, {rate} B/s");
        assert!(rate >= MIN_RATE, "seed {seed}");
    }
    let (lost, taken, _) = congested(LinkSpec::delayed(MS * 20), 66_000, 1);
    assert_eq!((lost, taken), (0.0, 1.0), "a good link takes everything");
}

#[test]
fn only_first_bytes_that_quic_never_has_are_the_paths() {
    for first in 0..=255_u8 {
        assert_eq!(is_direct(&[first, 0]), (0x20..0x40).contains(&first), "{first:#x}");
    }
    assert!(!is_direct(&[]) && PathId::of(&[0x20; 8]).is_none());
}

#[test]
fn ciphers_are_told_by_their_protocols() {
    for cipher in Cipher::ALL {
        assert_eq!(Cipher::of_protocol(cipher.protocol()), Some(cipher));
    }
    assert_eq!(Cipher::of_protocol(b"foveate"), None);
    assert_eq!(Cipher::offered().last(), Some(&Cipher::ChaCha20Poly1305), "any machine has it");
}
