//! A second publisher that goes on from where one is: for trying another policy beside the one in force.

use super::{Publisher, Strained, Workspace, jumps};
use crate::index::Index;
use crate::metrics::Counters;
use crate::schedule::ObserverId;
use crate::threads::Threads;
use foveate_wire::Micros;

impl Publisher {
    /// A publisher with a copy of all objects, and of these observers under the same ids with what they
    /// know; their packets in flight count as lost. Call it between two rounds. The two share nothing:
    /// whatever is done with the copy, this one sends the same bytes as without it.
    pub fn fork(&self, observers: &[ObserverId]) -> Publisher {
        let mut store = self.store.clone();
        store.unpin_all();
        let mut copies = Vec::new();
        for (at, observer) in self.observers.iter().enumerate() {
            let wanted = observers.contains(&ObserverId(at as u32));
            let mut copy = observer.as_ref().filter(|_| wanted).cloned();
            if let Some(copy) = &mut copy {
                // Later than any acknowledgement can come.
                copy.on_time(Micros(u64::MAX), self.rounds.length, store.tick());
                copy.next_checks.iter().for_each(|wake| store.pin(wake.slot));
            }
            copies.push(copy);
        }
        Publisher {
            store,
            rounds: self.rounds,
            now: self.now,
            index: Index::default(),
            free: self.free.clone(),
            observers: copies,
            gone: Counters::default(),
            jumps: jumps::Jumps::default(),
            threads: Threads::default(),
            workspaces: vec![Workspace::default()],
            strain: self.strain,
            strained: Strained::default(),
        }
    }
}
