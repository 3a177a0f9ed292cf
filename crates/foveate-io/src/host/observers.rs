//! Operators' links, beside those of players.

use std::collections::{BTreeSet, VecDeque};

use super::remember;
use crate::event::{LinkEvent, Purpose};
use crate::slots::LinkId;

/// What operators did and the program has not looked at, at most.
pub const MAX_OBSERVER_EVENTS: usize = 1_024;

/// Operators' links, which the server knows nothing of, and what happened to them.
#[derive(Default)]
pub(crate) struct Observers {
    links: BTreeSet<LinkId>,
    pub events: VecDeque<LinkEvent>,
}

impl Observers {
    /// Whether the event is an operator's; then it is kept.
    pub fn take(&mut self, event: &LinkEvent) -> bool {
        let ours = match event {
            LinkEvent::Connected { link, purpose: Purpose::Observe, .. } => {
                self.links.insert(*link)
            }
            LinkEvent::Closed { link, .. } => self.links.remove(link),
            other => self.links.contains(&other.link()),
        };
        if ours {
            remember(&mut self.events, event.clone(), MAX_OBSERVER_EVENTS);
        }
        ours
    }
}
