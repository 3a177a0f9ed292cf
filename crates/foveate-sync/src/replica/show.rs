//! What is shown on the screen: replicas between packets, smoothed.
//!
//! There are two ways. **Predict**: the replica where the shared predictor puts it now; when an
//! update moves that point, the shown one glides to it. **Interpolate**: the replica as it was
//! shortly before, between two states that arrived; the delay adapts to how irregularly they
//! arrive. The error that smoothing adds is reported separately, as `shown_error`.

use super::{Life, ReplicaView};
use foveate_wire::{Micros, Tick};

/// How replicas are shown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Show {
    /// Predicted to now; corrections fade with this half-life.
    Predict { half_life: Micros },
    /// As it was [`delay`](Smoother::delay) ago; the delay adapts.
    Interpolate,
}

/// Where a replica is shown.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shown {
    /// The place, in world units.
    pub at: [f32; 3],
    /// The distance to the replica itself, in world units, which smoothing adds.
    pub shown_error: f32,
}

/// The smoothing state of one replica, kept by the code that draws it.
#[derive(Clone, Debug)]
pub struct Smoother {
    show: Show,
    /// Shown place minus predicted place; it fades.
    offset: [f32; 3],
    last: Option<(Tick, Micros, [f32; 3])>,
    delay: Delay,
}

/// Replicas that are off by more than this many rounds at full speed are corrected at once.
const SNAP_ROUNDS: f32 = 20.0;
/// The longest delay of interpolation.
const MAX_DELAY: Micros = Micros(500_000);

/// How far in the past interpolation must show a replica to have a state on either side.
#[derive(Clone, Copy, Debug)]
struct Delay {
    /// Mean time between two states, smoothed.
    gap: f64,
    /// Mean deviation from that time, smoothed.
    jitter: f64,
    last_arrival: Option<Micros>,
    /// The current delay.
    at: f64,
}

/// A delay changes by at most this share of the time that passes, so that the shown replica neither
/// steps back nor leaps.
const SLEW: f64 = 0.2;

impl Delay {
    fn new(round: Micros) -> Delay {
        let (gap, jitter) = (round.0 as f64, round.0 as f64 / 2.0);
        let mut delay = Delay { gap, jitter, last_arrival: None, at: 0.0 };
        delay.at = delay.wanted();
        delay
    }

    fn arrived(&mut self, now: Micros) {
        if let Some(last) = self.last_arrival {
            let gap = (now - last).0 as f64;
            self.jitter += ((gap - self.gap).abs() - self.jitter) / 8.0;
            self.gap += (gap - self.gap) / 8.0;
        }
        self.last_arrival = Some(now);
    }

    fn wanted(&self) -> f64 {
        (self.gap + 3.0 * self.jitter).min(MAX_DELAY.0 as f64)
    }

    /// Adapts the delay after this much time.
    fn adapt(&mut self, passed: Micros) {
        let most = SLEW * passed.0 as f64;
        self.at += (self.wanted() - self.at).clamp(-most, most);
    }

    fn current(&self) -> Micros {
        Micros(self.at as u64)
    }
}

impl Smoother {
    /// A smoother for one replica, before its rate is known.
    pub fn new(show: Show, round: Micros) -> Smoother {
        Smoother { show, offset: [0.0; 3], last: None, delay: Delay::new(round) }
    }

    /// How far in the past interpolation shows the replica.
    pub fn delay(&self) -> Micros {
        self.delay.current()
    }

    /// Where to draw the replica. Call it once per frame, with rising `now`. `now` is the time by
    /// the sender's clock, on which round `tick` begins at `tick × round`.
    pub fn show(&mut self, replica: &ReplicaView<'_>, now: Micros, round: Micros) -> Option<Shown> {
        match self.show {
            Show::Predict { half_life } => self.predict(replica, now, round, half_life),
            Show::Interpolate => self.interpolate(replica, now, round),
        }
    }

    fn predict(
        &mut self,
        replica: &ReplicaView<'_>,
        now: Micros,
        round: Micros,
        half_life: Micros,
    ) -> Option<Shown> {
        let exact = between_rounds(replica, now, round)?;
        let speed = replica.set.schema.kind(replica.kind())?.spec.max_speed;
        if let Some((tick, then, shown)) = self.last {
            let lives = (now - then).0 as f32 / half_life.0.max(1) as f32;
            if tick != replica.tick() {
                // An update moved the prediction: begin where the replica was last shown.
                let passed = (now - then).as_secs() as f32;
                let snap = speed * (SNAP_ROUNDS * round.as_secs() as f32 + passed);
                self.offset = sub(shown, exact);
                if length(self.offset) > snap {
                    self.offset = [0.0; 3];
                }
            }
            self.offset = self.offset.map(|part| part * (-lives).exp2());
        }
        let at = add(exact, self.offset);
        self.last = Some((replica.tick(), now, at));
        Some(Shown { at, shown_error: length(self.offset) })
    }

    fn interpolate(
        &mut self,
        replica: &ReplicaView<'_>,
        now: Micros,
        round: Micros,
    ) -> Option<Shown> {
        if self.last.is_none_or(|(tick, ..)| tick != replica.tick()) {
            self.delay.arrived(now);
        }
        self.delay.adapt(self.last.map_or(Micros::ZERO, |(_, then, _)| now - then));
        let kind = replica.set.schema.kind(replica.kind())?;
        let (place, speed) = (kind.place?, kind.spec.max_speed);
        let past = now - self.delay.current();
        let tick = Tick((past.0 / round.0) as u32);
        let exact = replica.predicted(Tick((now.0 / round.0) as u32))?.0;
        let lift =
            |lanes: &[i32]| place.coordinates(lanes).map(|steps| steps as f32 * place.precision);
        let at = match replica.around(tick) {
            [Some((before, a)), Some((after, b))] => {
                let start = round.0 * u64::from(before.0);
                let span = (round.0 * u64::from(after.since(before))) as f32;
                let share = past.0.saturating_sub(start) as f32 / span;
                let (a, b) = (lift(a), lift(b));
                // No interpolation across a jump: the object cannot have moved this far.
                let farthest = speed * span / 1e6 + 4.0 * place.precision;
                let jumped = speed > 0.0 && length(sub(b, a)) > farthest;
                mix(a, b, if jumped { 0.0 } else { share.clamp(0.0, 1.0) })
            }
            // Without a newer state the replica continues as predicted; it does not stop until the
            // next state.
            [Some(_), None] => between_rounds(replica, past, round)?,
            [None, Some((_, lanes))] => lift(lanes),
            [None, None] => return None,
        };
        self.last = Some((replica.tick(), now, at));
        Some(Shown { at, shown_error: length(sub(at, exact)) })
    }
}

/// The prediction between two rounds: linear from one to the next.
fn between_rounds(replica: &ReplicaView<'_>, now: Micros, round: Micros) -> Option<[f32; 3]> {
    let tick = Tick((now.0 / round.0) as u32);
    let here = replica.predicted(tick)?.0;
    if replica.life() != Life::Live {
        return Some(here);
    }
    let share = (now.0 % round.0) as f32 / round.0 as f32;
    Some(mix(here, replica.predicted(tick.plus(1))?.0, share))
}

fn add(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

fn sub(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn mix(a: [f32; 3], b: [f32; 3], share: f32) -> [f32; 3] {
    add(a, sub(b, a).map(|part| part * share))
}

fn length(v: [f32; 3]) -> f32 {
    (v[0] * v[0] + v[1] * v[1] + v[2] * v[2]).sqrt()
}
