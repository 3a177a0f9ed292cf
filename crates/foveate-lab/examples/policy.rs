//! A custom policy on a recording, beside two built-in ones: the cost of each, and the error of replicas.
//!
//! `cargo run --release -p foveate-lab --example policy [TRACE]`

use foveate_lab::movement::{Movement, Recorded};
use foveate_lab::net::LinkSpec;
use foveate_lab::session::{Session, SessionSpec};
use foveate_lab::trace::Trace;
use foveate_lab::training::avatar_of;
use foveate_sync::interest::{Grade, Policy, Sight, presets};
use foveate_wire::{Metres, Micros};
use std::error::Error;
use std::sync::Arc;

const TRACE: &str = "traces/openarena_oa_dm3_16bots.csv.gz";

/// Halves the rate for each doubling of distance, and bounds the error by what can be noticed from there.
struct Halving {
    /// Objects up to this distance are updated in every round.
    near: f32,
}

impl Policy for Halving {
    fn grade(&self, sight: &Sight) -> Option<Grade> {
        let (far, distance) = (sight.distance.0 / self.near, sight.distance.0);
        Some(Grade {
            max_age: Micros::from_millis((50.0 * far) as u64),
            max_error: Metres(0.05 * distance),
            floor: Metres(0.005 * distance),
            ..Grade::EXACT
        })
    }
}

/// Plays the recording with all players as observers under the policy, with a round trip of 100 ms.
fn try_out(name: &str, trace: &Trace, policy: Arc<dyn Policy>) -> Result<(), Box<dyn Error>> {
    let round = Micros::from_millis(50);
    let movement = Recorded::new(trace, round.as_millis())?;
    let (avatar, link) = (avatar_of(&movement, 1.0), LinkSpec::delayed(round));
    let (down, up, budget, seed, audited) = (link, link, None, 1, true);
    let spec = SessionSpec { round, policy, down, up, budget, avatar, seed, audited };
    let mut session = Session::new(movement, spec)?;
    while session.round()? {}
    let found = session.findings();
    println!(
        "{name:8} {:6.0} B/s to each, {:.2}° off at p95, {:.1} % within bounds as observed",
        found.bytes_per_second(round),
        found.degrees.quantile(0.95),
        100.0 * found.bounds_observed(),
    );
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).unwrap_or_else(|| TRACE.to_owned());
    let trace = Trace::read(path.as_ref())?;
    let side = Recorded::new(&trace, 50.0)?.side();
    try_out("halving", &trace, Arc::new(Halving { near: 0.1 * side }))?;
    try_out("normal", &trace, presets::normal(0.2 * side, 0.4 * side).build()?)?;
    try_out("circle", &trace, presets::circle(0.4 * side).build()?)
}
