//! Events: which players notice an event, and what happens to events that cannot be sent.
//!
//! A player notices an event that lies within its radius of any pivot of the player: the avatar,
//! units, a watched player. Of a line any point counts. If the first zone of a player's view is
//! longer than that of view 0 (a zoom), the player also notices an event one end of which lies in
//! the first field of view of a pivot, within the radius times the ratio of the two lengths.

use super::PlayerSessions;
use super::player_session::PlayerSession;
use crate::game::{EventArea, Game};
use crate::outbox::Outbox;
use crate::session::{ServerMessage, write_message};
use crate::simulation::Simulation;
use foveate_sync::interest::View;
use foveate_sync::{ObserverId, Publisher};
use foveate_wire::ObjectId;

/// How many events were sent and dropped, each counted once per player that notices it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct EventCounts {
    /// Put into the player's next frame: they arrive unless that frame is lost.
    pub unreliable: u64,
    /// Put into the player's reliable stream.
    pub reliable: u64,
    /// Dropped because too much waited.
    pub dropped: u64,
}

impl EventCounts {
    /// Queues an event for a player who notices it, and counts it.
    pub(super) fn note<G: Game>(
        &mut self,
        session: &mut PlayerSession<G>,
        event: &[u8],
        reliable: bool,
    ) {
        match session.notice(event, reliable) {
            Some(true) if reliable => self.reliable += 1,
            Some(true) => self.unreliable += 1,
            Some(false) => self.dropped += 1,
            None => {}
        }
    }
}

/// A session whose view has a longer first zone than view 0.
struct Zoomed {
    at: u32,
    observer: ObserverId,
    factor: f32,
    /// The cosine of half the first field of view.
    cos: f32,
}

impl<G: Game> PlayerSessions<G> {
    /// How many events were sent and dropped so far.
    pub fn event_counts(&self) -> EventCounts {
        self.event_counts
    }

    /// Queues each event once for every player that notices it.
    pub(super) fn queue_events(&mut self, simulation: &Simulation<G>) {
        if self.happened.is_empty() {
            return;
        }
        let zoomed = self.zoomed();
        let PlayerSessions { happened, sessions, event_counts, .. } = self;
        let mut eyes: Vec<(ObjectId, u32)> = Vec::new();
        for (at, session) in sessions.iter().enumerate() {
            let Some(session) = session else { continue };
            eyes.extend(session.eyes.iter().map(|eye| (*eye, at as u32)));
        }
        eyes.sort_unstable();
        let mut told = vec![0; sessions.len()];
        for (number, (spot, event)) in (1u32..).zip(happened.iter()) {
            let Ok(bytes) = postcard::to_allocvec(event) else { continue };
            let reliable = simulation.game.reliable(event);
            let mut tell = |at: u32| {
                let fresh = std::mem::replace(&mut told[at as usize], number) != number;
                if let Some(session) = sessions[at as usize].as_mut().filter(|_| fresh) {
                    event_counts.note(session, &bytes, reliable);
                }
            };
            let (centre, reach) = spot.circle();
            let store = &simulation.publisher.store;
            simulation.publisher.around(centre, reach, |id| {
                let first = eyes.partition_point(|(eye, _)| *eye < id);
                let theirs = eyes[first..].iter().take_while(|(eye, _)| *eye == id);
                if store.find(id).is_some_and(|slot| spot.reaches(store.position(slot))) {
                    theirs.for_each(|(_, at)| tell(*at));
                }
            });
            for zoom in &zoomed {
                if zoom.notices(&simulation.publisher, spot) {
                    tell(zoom.at);
                }
            }
        }
    }

    /// The sessions whose view has a longer first zone than view 0.
    fn zoomed(&self) -> Vec<Zoomed> {
        let Some(base) = self.game.view(0).as_ref().and_then(first_zone) else {
            return Vec::new();
        };
        let of = |at: usize| {
            let (view, observer) = (self.view_at(at)?, self.sessions[at].as_ref()?.observer);
            let factor = first_zone(&view)? / base;
            let field = view.fields.first().or(view.field.as_ref()).copied().unwrap_or(360.0);
            let cos = (field / 2.0).to_radians().cos();
            (factor > 1.0).then_some(Zoomed { at: at as u32, observer, factor, cos })
        };
        // Most players use view 0, which need not be built for this.
        let another =
            |session: &PlayerSession<G>| session.view != 0 || session.view_override.is_some();
        let others = self.view_override.is_some();
        let sessions = self.sessions.iter().enumerate();
        let sessions =
            sessions.filter(|(_, it)| it.as_ref().is_some_and(|it| others || another(it)));
        sessions.filter_map(|(at, _)| of(at)).collect()
    }

    /// Sends the waiting reliable events, in the order in which they happened.
    pub(super) fn send_reliable_events(&mut self, out: &mut impl Outbox) {
        for session in self.sessions.iter_mut().flatten() {
            if let Some((link, events)) = session.take_reliable() {
                out.message(link, &write_message(&ServerMessage::Events(events)));
            }
        }
    }
}

impl Zoomed {
    /// Whether an end of the event is in the zoomed field of view and near enough.
    fn notices(&self, publisher: &Publisher, spot: &EventArea) -> bool {
        let observer = publisher.observer(self.observer);
        let pivots = observer.map_or(&[][..], |observer| observer.looks_from());
        let (ends, radius) = spot.ends();
        pivots.iter().any(|pivot| {
            ends.iter().any(|end| {
                let off = [0, 1, 2].map(|axis| end[axis] - pivot.at[axis]);
                let far = off.iter().map(|off| off * off).sum::<f32>().sqrt();
                let ahead = (0..3).map(|axis| off[axis] * pivot.facing[axis]).sum::<f32>();
                far <= radius * self.factor && ahead >= self.cos * far
            })
        })
    }
}

/// The radius of a view's first zone, under any policy.
fn first_zone(view: &View) -> Option<f32> {
    view.zones.first().copied().or(view.critical).or(view.view)
}
