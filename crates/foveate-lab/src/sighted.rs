//! A recording's visibility as a provider for policies.

use crate::trace::Trace;
use foveate_sync::interest::{Line, Visibility};
use std::sync::Arc;

/// Answers from a recording's `_vis` file. Objects are identified by their players' numbers, as in sessions; a player
/// that is not in the recording counts as visible.
pub struct Sighted {
    trace: Arc<Trace>,
    round_ms: f64,
    rule: Rule,
}

/// Which of the two recorded masks is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// The engine's potentially visible set.
    PotentiallyVisible,
    /// A clear line of sight.
    LineOfSight,
}

impl Sighted {
    /// A provider for sessions with rounds of this length; `None` if the recording has no such file.
    pub fn new(trace: Arc<Trace>, round_ms: f64, rule: Rule) -> Option<Sighted> {
        trace.visibility()?;
        Some(Sighted { trace, round_ms, rule })
    }
}

impl Visibility for Sighted {
    fn visible(&self, line: &Line) -> bool {
        let (Some(seen), Some(pivot)) = (self.trace.visibility(), line.pivot) else { return true };
        let (observer, object) =
            (crate::session::mover_of(pivot), crate::session::mover_of(line.object));
        // A session starts at tick 1 with the recording's first round.
        let t_ms = (f64::from(line.tick.0.saturating_sub(1)) * self.round_ms) as u32;
        if !seen.is_known(t_ms, observer) {
            return true;
        }
        match self.rule {
            Rule::PotentiallyVisible => seen.pvs(t_ms, observer, object),
            Rule::LineOfSight => seen.los(t_ms, observer, object),
        }
    }
}
