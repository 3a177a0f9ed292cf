//! Making room for newcomers when there are few free places.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Instant;

use super::Core;
use crate::admission::{Load, Origin};
use crate::event::CloseCode;

impl Core {
    pub(super) fn load(&self) -> Load {
        Load {
            links: self.links.len() as u32,
            handshakes: self.handshakes,
            is_crowded: self.is_crowded(),
        }
    }

    /// Whether only the places reserved for newcomers are left.
    fn is_crowded(&self) -> bool {
        let limits = &self.options.limits;
        let rest = limits.max_links.saturating_sub(limits.newcomers);
        limits.newcomers > 0 && self.links.len() >= rest as usize
    }

    /// Makes room after a newcomer was accepted, if only reserved places are left. It replaces the oldest link that has
    /// not joined, of the address with most of them: addresses that hold places without using them lose them first.
    pub(super) fn make_room(&mut self, now: Instant) {
        if !self.is_crowded() {
            return;
        }
        let mut idle: BTreeMap<Origin, u32> = BTreeMap::new();
        for origin in self.links.iter().filter_map(|link| link.waiting_origin()) {
            *idle.entry(origin).or_default() += 1;
        }
        let waiting = self.links.iter().filter_map(|link| {
            let origin = link.waiting_origin()?;
            Some(((idle.get(&origin).copied(), Reverse(link.begun)), link.id))
        });
        if let Some((_, oldest)) = waiting.max_by_key(|(key, _)| *key) {
            self.counters.closed_idle += 1;
            self.close(
                now,
                oldest,
                CloseCode::CROWDED,
                "the server needs the place, and this link had not joined",
            );
        }
    }
}
