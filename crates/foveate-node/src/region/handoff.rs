//! Handoff: how an object changes regions.
//!
//! ```text
//! giver   Warm ─ well inside, or for long ─▶ Offering ─ Out appended ─▶ Transferring ─ In read, Done logged ─▶ given
//! taker                                             Out read, state there ─▶ Owned, In logged
//! ```
//!
//! While it is *offered* the giver steps the object on. Once the `Out` is known to be appended it stops, and repeats
//! the object's last state in every tick. The taker owns it when it has both the `Out` and the state. So it never
//! acts without the state, and the giver never after it.

use super::MeshStep;
use super::actions::FORWARD_FOR;
use super::bus::{BusMessage, HandoffState, MAX_HANDOFFS};
use super::layout::RegionId;
use super::log::{LogEntry, ObjectState};
use super::owner::{Effect, Region, Row, Surroundings};
use crate::game::{Game, PlayerId};
use crate::remote_objects::place_of;
use foveate_wire::ObjectId;
use std::collections::{BTreeMap, BTreeSet};

/// An object in another region's area is given to it after so many ticks, however near the border it is.
const OUTSIDE_FOR: u32 = 10;
/// An object stays for so many ticks at least.
const HELD_FOR: u32 = 20;
/// A state that has not arrived after so many ticks is logged, too.
const LOG_AFTER: u32 = 5;
/// What carries what is followed for so many steps.
const MAX_CARRIED: usize = 8;

/// An object that was given away and may not have arrived.
#[derive(Clone, PartialEq, Debug)]
pub struct OutboundTransfer {
    /// Its epoch after the handoff.
    pub epoch: u32,
    /// The region.
    pub to: RegionId,
    /// The entry of the log that says so.
    pub sequence: u64,
    /// How it was in the end; none: it was removed.
    pub state: Option<ObjectState>,
    /// Since when.
    pub since: u32,
    /// The log has the state.
    pub logged: bool,
    /// The state leaves once the log has everything up to this tick: it may be the consequence of what another
    /// object did, and must not outlive it.
    pub after: u32,
    /// Its receiver was closed, and an entry that names another one is on its way to the log.
    pub redirected: bool,
}

impl<G: Game> Region<G> {
    /// Takes in what has arrived and was given to this region, each object once.
    pub(super) fn take_in(&mut self, around: &mut Surroundings<'_>) {
        let arrivals = std::mem::take(&mut self.arrivals);
        // What a closed region has not taken in its giver sends elsewhere.
        if self.closing.is_closed() {
            return;
        }
        for (id, (from, handoff)) in arrivals {
            let given = around.logs.get(&from).and_then(|view| view.pending.get(&id));
            let given = given.is_some_and(|it| it.epoch == handoff.epoch && it.to == self.id);
            let known = around.logs.get(&self.id);
            let known = known.is_some_and(|view| view.has_accepted(id, handoff.epoch));
            let here =
                matches!(self.rows.get(&id), Some(Row::Owned(row)) if row.epoch >= handoff.epoch);
            // The `Out` may be read later than the state arrives: the state is repeated.
            if !given || known || here || self.is_taken(id, handoff.epoch) {
                continue;
            }
            around.effects.push(Effect::Reached(MeshStep::StateReceived));
            let HandoffState { epoch, sequence, state, .. } = handoff;
            if let Some(state) = &state {
                if !self.own(id, epoch, state, true) {
                    continue;
                }
                let late = self.ticked.saturating_sub(state.tick + 1);
                around.effects.push(Effect::Arrived(id, epoch, late));
            } else {
                self.forget(id);
            }
            self.queue.push(LogEntry::In { object: id.0, epoch, from, sequence, state });
        }
    }

    /// Whether an `In` of the object is on its way to the log.
    fn is_taken(&self, id: ObjectId, epoch: u32) -> bool {
        let flight = self.flight.iter().flat_map(|flight| &flight.batch.entries);
        flight.chain(&self.queue).any(|entry| {
            matches!(entry, LogEntry::In { object, epoch: taken, .. } if *object == id.0 && *taken >= epoch)
        })
    }

    /// Offers what belongs elsewhere to the region where it belongs.
    pub(super) fn offer(&mut self, around: &mut Surroundings<'_>) {
        let moves = self.find_moves(around);
        for (id, to) in moves.into_iter().take(MAX_HANDOFFS) {
            let state = self.state(id);
            let Some(row) = self.owned_row(id) else { continue };
            row.offered = Some(to);
            let epoch = row.epoch + 1;
            self.queue.push(LogEntry::Out { object: id.0, epoch, to, state, sequence: None });
            around.effects.push(Effect::Reached(MeshStep::Offered));
        }
    }

    /// What is to go where, roots before what they carry.
    fn find_moves(&mut self, around: &Surroundings<'_>) -> Vec<(ObjectId, RegionId)> {
        let tick = self.ticked;
        let schema = self.simulation.game.schema();
        let store = &self.simulation.publisher.store;
        let (mut moves, mut carried) = (Vec::new(), Vec::new());
        self.points.clear();
        for (id, row) in &mut self.rows {
            let Row::Owned(row) = row else { continue };
            let stays = self.staying.contains(&PlayerId(id.origin()));
            let free = row.offered.is_none() && !(stays && id.origin() > 0);
            let Some(slot) = store.find(*id).filter(|_| free) else { continue };
            if self.simulation.game.carrier(&self.simulation.world(), *id).is_some() {
                carried.push(*id);
                continue;
            }
            let Some(at) = place_of(schema, id.kind(), store.lanes(slot)) else {
                let heir = around.layout.get(self.id).and_then(|info| info.successor);
                moves.extend(heir.map(|heir| (*id, heir)));
                continue;
            };
            let at = [at[0], at[1]];
            let to = around.layout.region_at(at);
            if to == self.id {
                row.outside = 0;
                continue;
            }
            row.outside += 1;
            if self.points.len() < super::bus::MAX_POINTS {
                self.points.push(at);
            }
            let depth = around.layout.rect(to).map_or(0.0, |rect| rect.depth(at));
            let deep = depth >= around.settings.hysteresis.0 || row.outside >= OUTSIDE_FOR;
            if deep && tick.saturating_sub(row.since) >= HELD_FOR {
                moves.push((*id, to));
            }
        }
        let leaving: BTreeMap<ObjectId, RegionId> = moves.iter().copied().collect();
        for id in carried {
            let Some(root) = self.root_of(id) else { continue };
            let to = match self.rows.get(&root) {
                Some(Row::Relayed { from, .. }) => Some(*from),
                Some(Row::Owned(row)) => row.offered.or_else(|| leaving.get(&root).copied()),
                None => None,
            };
            moves.extend(to.filter(|to| *to != self.id).map(|to| (id, to)));
        }
        moves
    }

    /// What carries an object in the end.
    fn root_of(&self, id: ObjectId) -> Option<ObjectId> {
        let (mut root, mut seen) = (id, BTreeSet::new());
        let world = self.simulation.world();
        while let Some(next) = self.simulation.game.carrier(&world, root) {
            if seen.len() >= MAX_CARRIED || !seen.insert(root) {
                return None;
            }
            root = next;
        }
        (root != id).then_some(root)
    }

    /// The `Out` is appended: the object is not stepped here any more.
    pub(super) fn let_go(
        &mut self,
        id: ObjectId,
        (epoch, to): (u32, RegionId),
        sequence: u64,
        around: &mut Surroundings<'_>,
    ) {
        let owned = matches!(self.rows.get(&id), Some(Row::Owned(_)));
        let state = match self.transfers.get(&id) {
            // Its first receiver was closed before it came.
            Some(before) if before.redirected => before.state.clone(),
            _ => self.state(id).filter(|_| owned),
        };
        if let Some(state) = state.as_ref().filter(|_| owned) {
            self.relay(id, to, (state.tick, around.now));
        }
        let (since, after) = (self.ticked, self.unlogged_until());
        let transfer = OutboundTransfer {
            epoch,
            to,
            sequence,
            state,
            since,
            logged: false,
            after,
            redirected: false,
        };
        self.transfers.insert(id, transfer);
        around.effects.push(Effect::Reached(MeshStep::OutLogged));
        self.send_handoff(id, around);
    }

    fn send_handoff(&self, id: ObjectId, around: &mut Surroundings<'_>) {
        let Some(it) = self.transfers.get(&id).filter(|it| it.after <= self.confirmed()) else {
            return;
        };
        let handoff = HandoffState {
            object: id.0,
            epoch: it.epoch,
            sequence: it.sequence,
            state: it.state.clone(),
        };
        around.send(it.to, BusMessage::Handoff(self.name(), it.to, vec![handoff]));
        around.effects.push(Effect::Reached(MeshStep::StateSent));
    }

    /// Repeats the states of what has not arrived, and logs those that do not arrive for long.
    pub(super) fn send_handoffs(&mut self, around: &mut Surroundings<'_>) {
        let mut by_region: BTreeMap<RegionId, Vec<HandoffState>> = BTreeMap::new();
        let confirmed = self.confirmed();
        for (id, it) in &mut self.transfers {
            if it.after > confirmed {
                continue;
            }
            by_region.entry(it.to).or_default().push(HandoffState {
                object: id.0,
                epoch: it.epoch,
                sequence: it.sequence,
                state: it.state.clone(),
            });
            if !it.logged && !it.redirected && self.ticked.saturating_sub(it.since) >= LOG_AFTER {
                it.logged = true;
                let (object, epoch, state) = (id.0, it.epoch, it.state.clone());
                self.queue.push(LogEntry::Amend { object, epoch, state });
            }
        }
        for (to, objects) in by_region {
            for part in objects.chunks(MAX_HANDOFFS) {
                around.send(to, BusMessage::Handoff(self.name(), to, part.to_vec()));
            }
        }
    }

    /// Ends the transfers whose `In` was read.
    pub(super) fn complete_transfers(&mut self, around: &mut Surroundings<'_>) {
        let arrived = |id: &ObjectId, it: &OutboundTransfer| {
            around.logs.get(&it.to).is_some_and(|view| view.has_accepted(*id, it.epoch))
        };
        let done: Vec<(ObjectId, u32, RegionId)> = self
            .transfers
            .iter()
            .filter(|(id, it)| arrived(id, it))
            .map(|(id, it)| (*id, it.epoch, it.to))
            .collect();
        for (id, epoch, to) in done {
            self.transfers.remove(&id);
            self.gave(id, to, self.ticked + FORWARD_FOR);
            self.queue.push(LogEntry::Done { object: id.0, epoch });
            around.effects.push(Effect::Reached(MeshStep::InRead));
        }
        self.redirect(around);
    }
}
