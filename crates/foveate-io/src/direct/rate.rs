//! How fast a path may be sent on, and how it does: round trips, losses, silence.
//!
//! A rate rather than a window, for feedback comes every other tick and not with every packet. It falls to what
//! arrives when packets queue on their way or get lost, and rises while it is used. Loss without a queue lowers
//! it no further than TCP would go at the same loss: a bad radio link is no full one. A path that is hardly used
//! and does not queue may be used as much as an unknown one after some seconds, for it may have become wider.

use foveate_wire::Micros;

use super::packet::Feedback;

/// Bytes a second that are always allowed: below what any path that carries games does.
pub(crate) const MIN_RATE: f64 = 16_000.0;
/// Bytes a second at the beginning and at most.
const FIRST_RATE: f64 = 131_072.0;
const MAX_RATE: f64 = 64e6;
/// Seconds' worth of bytes that may leave at once, and how many at least.
const BURST: f64 = 0.1;
const MIN_BURST: f64 = 4_800.0;
/// The rate is looked at this often, or every round trip if that is longer.
const INTERVAL: Micros = Micros::from_millis(100);
/// A delay beyond the shortest is a queue's if it is longer than the first, or up to the second than the jitter.
const QUEUE: [Micros; 2] = [Micros::from_millis(50), Micros::from_millis(120)];
/// Loss beyond this share is a sign of congestion.
const LOSS: f64 = 0.03;
/// Packets over which loss is averaged.
const LOSS_SPAN: f64 = 50.0;
/// What a congested path is sent, of what arrived over it.
const BACK_OFF: f64 = 0.85;
/// The shortest round trip is that of the last one or two of these: a way that became longer is no queue.
const MEMORY: Micros = Micros::from_millis(10_000);
/// Growth an interval, before the first congestion and after it.
const START: f64 = 1.5;
const GROWTH: f64 = 1.05;
/// A packet as TCP sends it, for what TCP would do.
const SEGMENT: f64 = 1_200.0;
/// Packets of which it is known when they left.
const RECENT: usize = 128;
/// Packets that may be sent before feedback comes: far fewer than low bits of sequence numbers can tell apart.
pub(crate) const MAX_UNANSWERED: u64 = 4_096;
/// The shortest and the longest timeout.
const TIMEOUTS: [Micros; 2] = [Micros::from_millis(400), Micros::from_millis(2_000)];
/// How long feedback waits at most, with some room.
const FEEDBACK_WAIT: Micros = Micros::from_millis(250);
/// Feedback tells times in milliseconds.
const RESOLUTION: Micros = Micros::from_millis(1);

/// When a packet left, and how many bytes had by then; low bits.
#[derive(Clone, Copy, Default)]
struct Departure {
    at: u32,
    total: u32,
}

/// What happened since the rate was looked at last.
#[derive(Clone, Copy, Default)]
struct Interval {
    begun: Micros,
    acknowledged: u64,
    delivered: f64,
    lost: u64,
    shortest: Option<Micros>,
    /// Something was refused, or at least half of what is allowed was used.
    is_limited: bool,
    sent: f64,
}

/// The shortest round trip of late.
#[derive(Clone, Copy)]
struct Shortest {
    current: Micros,
    before: Micros,
    since: Micros,
}

impl Shortest {
    fn new(now: Micros) -> Shortest {
        Shortest { current: Micros::UNBOUNDED, before: Micros::UNBOUNDED, since: now }
    }

    fn add(&mut self, now: Micros, trip: Micros) {
        if now - self.since >= MEMORY {
            *self = Shortest { before: self.current, ..Shortest::new(now) };
        }
        self.current = self.current.min(trip);
    }

    fn get(&self) -> Micros {
        self.current.min(self.before)
    }
}

/// The sender's view of a path.
pub(crate) struct SendRate {
    departures: Box<[Departure; RECENT]>,
    total: u64,
    lost: u64,
    /// The newest packet that arrived, and how many did.
    newest: Option<u64>,
    arrived: u64,
    smooth: Option<Micros>,
    variance: Micros,
    shortest: Shortest,
    rate: f64,
    tokens: f64,
    filled: Micros,
    loss: f64,
    was_congested: bool,
    interval: Interval,
    /// When the first packet left that nothing was heard of.
    unanswered: Option<Micros>,
}

impl SendRate {
    pub(crate) fn new(now: Micros) -> SendRate {
        SendRate {
            departures: Box::new([Departure::default(); RECENT]),
            total: 0,
            lost: 0,
            newest: None,
            arrived: 0,
            smooth: None,
            variance: Micros::ZERO,
            shortest: Shortest::new(now),
            rate: FIRST_RATE,
            tokens: FIRST_RATE * BURST,
            filled: now,
            loss: 0.0,
            was_congested: false,
            interval: Interval { begun: now, ..Interval::default() },
            unanswered: None,
        }
    }

    /// Another way through the network: nothing is known about it.
    pub(crate) fn forget_path(&mut self, now: Micros) {
        let SendRate { newest, arrived, lost, total, .. } = *self;
        let departures =
            std::mem::replace(&mut self.departures, Box::new([Departure::default(); RECENT]));
        *self = SendRate { departures, newest, arrived, lost, total, ..SendRate::new(now) };
    }

    /// Whether a packet of this size may leave now; it is counted if so.
    pub(crate) fn take(&mut self, now: Micros, size: usize, sequence: u64) -> bool {
        let most = (self.rate * BURST).max(MIN_BURST);
        self.tokens = (self.tokens + (now - self.filled).as_secs() * self.rate).min(most);
        self.filled = self.filled.max(now);
        let unanswered = sequence.saturating_sub(self.newest.map_or(0, |newest| newest + 1));
        if self.tokens <= 0.0 || unanswered >= MAX_UNANSWERED {
            self.interval.is_limited = true;
            return false;
        }
        self.tokens -= size as f64;
        true
    }

    /// A packet left. One that asks for feedback starts the wait for it.
    pub(crate) fn on_sent(&mut self, now: Micros, sequence: u64, size: usize, asks: bool) {
        self.total += size as u64;
        self.interval.sent += size as f64;
        let departure = Departure { at: now.0 as u32, total: self.total as u32 };
        self.departures[sequence as usize % RECENT] = departure;
        if asks {
            self.unanswered.get_or_insert(now);
        }
    }

    /// Feedback came; `next` is the number of the packet that will be sent next. What cannot be true is ignored.
    pub(crate) fn on_feedback(&mut self, now: Micros, feedback: Feedback, next: u64) {
        let Some(last) = next.checked_sub(1) else { return };
        let back = (last as u16).wrapping_sub(feedback.newest);
        let Some(newest) = last.checked_sub(u64::from(back)) else { return };
        let arrived = self.arrived + u64::from(feedback.count.wrapping_sub(self.arrived as u16));
        let is_old = self.newest.is_some_and(|known| newest < known);
        if is_old || arrived > newest + 1 || arrived - self.arrived > MAX_UNANSWERED {
            return;
        }
        if self.newest != Some(newest) {
            self.measure(now, newest, next, feedback.age);
            self.unanswered = (newest < last).then_some(now);
        }
        self.newest = Some(newest);
        self.arrived = arrived;
        self.lost = newest + 1 - arrived;
        if now - self.interval.begun >= INTERVAL.max(self.smooth.unwrap_or_default()) {
            self.adjust(now);
        }
    }

    /// A round trip, and bytes that arrived.
    fn measure(&mut self, now: Micros, newest: u64, next: u64, age: u8) {
        if next - newest > RECENT as u64 {
            return;
        }
        let departure = self.departures[newest as usize % RECENT];
        let before = self.newest.filter(|before| next - before <= RECENT as u64);
        if let Some(before) = before {
            let before = self.departures[before as usize % RECENT];
            self.interval.delivered += f64::from(departure.total.wrapping_sub(before.total));
        }
        let away = Micros(u64::from((now.0 as u32).wrapping_sub(departure.at)));
        self.on_round_trip(now, away - Micros::from_millis(u64::from(age)));
    }

    pub(crate) fn on_round_trip(&mut self, now: Micros, trip: Micros) {
        let trip = trip.max(RESOLUTION);
        self.shortest.add(now, trip);
        let least = self.interval.shortest.map_or(trip, |least| least.min(trip));
        self.interval.shortest = Some(least);
        match self.smooth {
            None => (self.smooth, self.variance) = (Some(trip), Micros(trip.0 / 2)),
            Some(smooth) => {
                let off = smooth.0.abs_diff(trip.0);
                self.variance = Micros((3 * self.variance.0 + off) / 4);
                self.smooth = Some(Micros((7 * smooth.0 + trip.0) / 8));
            }
        }
    }

    /// Looks at the interval that is over, and begins the next.
    fn adjust(&mut self, now: Micros) {
        let ended = self.interval;
        let expected = self.newest.map_or(0, |newest| newest + 1);
        self.interval =
            Interval { begun: now, acknowledged: expected, lost: self.lost, ..Interval::default() };
        let packets = expected.saturating_sub(ended.acknowledged) as f64;
        let lost = self.lost.saturating_sub(ended.lost) as f64;
        if packets == 0.0 {
            return;
        }
        let share = (lost / packets).min(1.0);
        self.loss += (share - self.loss) * (packets / LOSS_SPAN).min(1.0);
        let span = (now - ended.begun).as_secs();
        let trip = ended.shortest.or(self.smooth).unwrap_or(INTERVAL);
        let queues = trip - self.shortest.get() > (self.variance * 3).clamp(QUEUE[0], QUEUE[1]);
        let loses = lost > 0.0 && self.loss > LOSS;
        let arrived = ended.delivered * (1.0 - share) / span * BACK_OFF;
        if queues {
            self.rate = arrived.min(self.rate);
        } else if loses {
            let tcp = 1.22 * SEGMENT / (trip.as_secs() * self.loss.sqrt());
            self.rate = arrived.max(tcp).min(self.rate);
        } else if ended.is_limited || ended.sent > self.rate * span / 2.0 {
            self.rate *= if self.was_congested { GROWTH } else { START };
        } else if self.rate < FIRST_RATE {
            // Little is sent and nothing queues: by and by it is trusted with what an unknown path is.
            self.rate = (self.rate * GROWTH).min(FIRST_RATE);
        }
        self.was_congested |= queues || loses;
        self.rate = self.rate.clamp(MIN_RATE, MAX_RATE);
    }

    /// How long an answer may take.
    pub(crate) fn timeout(&self) -> Micros {
        let trip = self.smooth.unwrap_or_default() + self.variance * 4 + FEEDBACK_WAIT;
        trip.clamp(TIMEOUTS[0], TIMEOUTS[1])
    }

    /// Since when something has been unanswered.
    pub(crate) fn unanswered(&self) -> Option<Micros> {
        self.unanswered
    }

    /// Stops to wait for answers.
    pub(crate) fn give_up(&mut self) {
        self.unanswered = None;
    }

    /// Packets that got lost, as far as is known.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Smoothed and shortest round trip, and the bytes that may be under way; none before a round trip was measured.
    pub(crate) fn measured(&self) -> Option<(Micros, Micros, u64)> {
        let smooth = self.smooth?;
        Some((smooth, self.shortest.get(), (self.rate * smooth.as_secs()) as u64))
    }

    /// Bytes a second that are allowed.
    #[cfg(test)]
    pub(crate) fn bytes_per_second(&self) -> f64 {
        self.rate
    }
}
