//! How a region ends: it hands everything over, says in its log that it takes nothing in any more, and leaves the
//! layout.
//!
//! A region is closed by a change of the layout that gives its area to another one. Its objects are then in another
//! region's area, and are handed over like any others. When nothing is left its owner logs [`LogEntry::Close`], the
//! last entry of the log. An object that was given to the region and is not among what it took in by then will never
//! be: its giver, once it has read the entry, gives it to the region where it is now.

use super::MeshStep;
use super::layout::RegionId;
use super::log::LogEntry;
use super::owner::{Effect, Region, Row, Surroundings};
use crate::game::Game;
use crate::remote_objects::place_of;
use foveate_wire::ObjectId;

/// A region that is being closed has been empty for so many ticks before it says so.
const EMPTY_FOR: u32 = 40;

/// Sessions keep an empty region open for so many ticks; then they go on without their links, and for so many more it
/// waits for those that cannot.
const SESSIONS_STAY: u32 = 80;

/// How far the closing of a region has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Closing {
    /// Since which tick it is empty.
    empty_since: Option<u32>,
    /// The entry that closes the log is written, or on its way.
    closed: bool,
}

impl Closing {
    /// As the log says.
    pub fn from_log(closed: bool) -> Closing {
        Closing { empty_since: None, closed }
    }

    /// Whether nothing but sessions has been here for long.
    pub(super) fn is_overdue(&self, tick: u32) -> bool {
        self.empty_since.is_some_and(|since| tick.saturating_sub(since) >= SESSIONS_STAY)
    }

    /// Whether the region takes nothing in any more.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}

impl<G: Game> Region<G> {
    /// Closes the log of a region that has no area and has handed everything over.
    pub(super) fn close_if_empty(&mut self, around: &mut Surroundings<'_>) {
        let successor = around.layout.get(self.id).and_then(|info| info.successor);
        if successor.is_none() || self.closing.closed {
            return;
        }
        if !self.is_empty(around) {
            self.closing.empty_since = None;
            return;
        }
        let since = *self.closing.empty_since.get_or_insert(self.ticked);
        let stay = if self.hosted.is_empty() { EMPTY_FOR } else { 2 * SESSIONS_STAY };
        if self.ticked - since >= stay {
            self.closing.closed = true;
            self.queue.push(LogEntry::Close);
            around.effects.push(Effect::Reached(MeshStep::Closing));
        }
    }

    fn is_empty(&self, around: &Surroundings<'_>) -> bool {
        let idle = self.queue.is_empty() && self.flight.is_none();
        let moved = self.transfers.is_empty() && self.arrivals.is_empty();
        let answered = self.questions.is_empty() && self.answers.is_empty();
        let asked = self.asks.waiting() > 0;
        let owns = self.rows.values().any(|row| matches!(row, Row::Owned(_)));
        // What others have given to it and it knows of; what it does not know of yet is redirected.
        let mut expected = around.logs.values().flat_map(|view| view.pending.values());
        idle && moved && answered && !asked && !owns && !expected.any(|it| it.to == self.id)
    }

    /// Gives objects whose receiver was closed before it took them in to the regions where they are.
    pub(super) fn redirect(&mut self, around: &mut Surroundings<'_>) {
        let closed = |to: RegionId| around.logs.get(&to).is_some_and(|view| view.closed);
        let schema = self.simulation.game.schema();
        let mut redirected: Vec<(ObjectId, RegionId)> = Vec::new();
        for (id, it) in self.transfers.iter().filter(|(_, it)| !it.redirected && closed(it.to)) {
            let lanes = it.state.as_ref().map(|state| &state.lanes[..]);
            let place = lanes.and_then(|lanes| place_of(schema, id.kind(), lanes));
            // What has no place goes to the origin's region: the successor may be gone, too.
            let at = place.unwrap_or_default();
            redirected.push((*id, around.layout.region_at([at[0], at[1]])));
        }
        for (id, to) in redirected {
            let Some(it) = self.transfers.get_mut(&id) else { continue };
            it.redirected = true;
            let (epoch, state) = (it.epoch + 1, it.state.clone());
            self.queue.push(LogEntry::Out { object: id.0, epoch, to, state, sequence: None });
            around.effects.push(Effect::Reached(MeshStep::Offered));
        }
    }
}
