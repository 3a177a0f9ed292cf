//! Tables, plots and findings of the bounds experiment.

use super::{Done, Measured, Outcome};
use crate::report::Report;

pub(super) fn done(outcome: Outcome, _: &[Measured], _: (u64, u64)) -> Done {
    Done { outcome, tables: vec![], notes: vec![], report: Report::new("bounds", "Bounds") }
}
