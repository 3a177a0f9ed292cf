//! What a round costs, counted: the laboratory has no processor's time that would be the same twice.

use super::game::Drift;
use foveate_node::region::RegionServer;
use foveate_node::region::layout::RegionId;
use foveate_wire::Micros;
use std::collections::BTreeMap;

/// What work takes, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CostModel {
    /// Stepping an object that the server owns.
    pub step: f64,
    /// Keeping an object that another server owns.
    pub relayed: f64,
    /// Looking at a pair of an observer and an object.
    pub pair: f64,
    /// Sending a byte.
    pub byte: f64,
}

impl CostModel {
    /// So heavy that a few dozen objects fill a round.
    pub const HEAVY: CostModel = CostModel { step: 1_300.0, relayed: 50.0, pair: 20.0, byte: 1.0 };
}

/// Counts one server's work.
#[derive(Clone, Debug, Default)]
pub struct WorkMeter {
    counted: BTreeMap<RegionId, (u64, u64)>,
}

impl WorkMeter {
    /// What the last round took, by a model.
    pub fn round(&mut self, server: &RegionServer<Drift>, model: &CostModel) -> Micros {
        let mut micros = 0.0;
        for region in server.regions() {
            let counters = region.simulation.publisher.ever();
            let before = self.counted.insert(region.id, (counters.looked, counters.bytes));
            let (looked, bytes) = before.unwrap_or_default();
            let owned = region.owned().count();
            micros +=
                model.step * owned as f64 + model.relayed * (region.rows.len() - owned) as f64;
            // A region that is opened anew counts from zero.
            micros += model.pair * counters.looked.saturating_sub(looked) as f64;
            micros += model.byte * counters.bytes.saturating_sub(bytes) as f64;
        }
        Micros(micros as u64)
    }
}
