//! The interest path: what this node's avatar did, what is sent again, and what is withdrawn.
//!
//! Each state message has room for one interaction, and the path decides which. Later interactions go more often,
//! fading with the time since their end; those that change the world fade much later. Every interaction has a *rate*
//! below one message a frame, which adds up over frames; the one with the largest sum goes next.
//!
//! A message from another node says which of our messages it received last. If that message carried an interaction, the
//! other node knows it. If it is later than the interaction, and no such message was ever reported, the interaction
//! counts as lost and is sent again in full.

use super::message::{Full, Interaction, MAX_FULL, MAX_RECIPIENTS, SilacAvatar};
use super::{Act, NodeId};
use foveate_wire::Micros;
use std::collections::{BTreeMap, BTreeSet};

/// Interactions on the path; the oldest is dropped when there are more.
pub const MAX_PATH: usize = 32;
/// Frames after its end for which an interaction stays on the path.
pub const FADE: u32 = 8;
/// The same for an interaction that changes the world.
pub const LASTING_FADE: u32 = 80;
/// Frames after its end at which an interaction that changes the world goes with every other message.
const HALF: f32 = 8.0;
/// Frames by which a message may be late without counting as lost: two waits of up to four frames, and two for the
/// links.
pub const GRACE: u32 = 10;
/// Times that an interaction is sent in full to one node.
pub const MAX_TOLD: u8 = 3;
/// Frames between two of those times.
const TOLD_AGAIN: u32 = 8;

/// An interaction on the path.
#[derive(Clone, PartialEq, Debug)]
struct PathEntry {
    full: Full,
    at: Micros,
    withdrawn: bool,
    /// The number of the first message with the news, which is the interaction or its withdrawal.
    since: u32,
    /// The sum of its rates; from one on, it may go.
    saved: f32,
    /// Numbers of the messages that carried the news.
    carried: Vec<u32>,
    /// Nodes that reported a message with the news.
    known_to: BTreeSet<NodeId>,
    /// Nodes that seem to have missed it.
    lost_at: BTreeSet<NodeId>,
    /// Nodes that it was sent to in full: how often, and in which frame last.
    told: BTreeMap<NodeId, (u8, u32)>,
}

impl PathEntry {
    fn ended_for(&self, frame: u32) -> u32 {
        frame.saturating_sub(self.since + self.full.frames)
    }

    fn is_lasting(&self) -> bool {
        self.full.interaction.is_lasting()
    }

    /// Messages per frame.
    fn rate(&self, frame: u32) -> f32 {
        let age = self.ended_for(frame) as f32;
        1.0 / (1.0 + if self.is_lasting() { age / HALF } else { age })
    }

    fn has_faded(&self, frame: u32) -> bool {
        self.ended_for(frame) > if self.is_lasting() { LASTING_FADE } else { FADE }
    }
}

/// An interaction of another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteInteraction {
    pub element: u32,
    /// Its estimated time.
    pub at: Micros,
    /// When this node learnt of it.
    pub heard: Micros,
}

/// What to send again, and to which nodes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Again {
    /// Nodes that lack some of it.
    pub to: Vec<NodeId>,
    /// Interactions that at least one of them lacks.
    pub deeds: Vec<Full>,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Path {
    deeds: Vec<PathEntry>,
    serial: u32,
}

impl Path {
    /// Records that the avatar acts on an element for a number of frames, starting with this one.
    pub fn act(&mut self, act: Act, avatar: &SilacAvatar, frame: u32, now: Micros) -> Interaction {
        let Act { element, lasting, frames } = act;
        let interaction = Interaction::new(element, lasting, self.serial);
        self.serial = self.serial.wrapping_add(1);
        if self.deeds.len() == MAX_PATH {
            self.deeds.remove(0);
        }
        let SilacAvatar { position, facing, .. } = *avatar;
        self.deeds.push(PathEntry {
            full: Full { interaction, position, facing, first: frame, frames: frames.max(1) },
            at: now,
            withdrawn: false,
            since: frame,
            saved: 1.0,
            carried: Vec::new(),
            known_to: BTreeSet::new(),
            lost_at: BTreeSet::new(),
            told: BTreeMap::new(),
        });
        interaction
    }

    /// What this frame's state message carries: an interaction, and one that is withdrawn.
    pub fn carry(&mut self, frame: u32) -> (Option<Interaction>, Option<Interaction>) {
        self.deeds.retain(|deed| !deed.has_faded(frame));
        (self.carry_one(frame, false), self.carry_one(frame, true))
    }

    fn carry_one(&mut self, frame: u32, withdrawn: bool) -> Option<Interaction> {
        let mut best: Option<&mut PathEntry> = None;
        for deed in self.deeds.iter_mut().filter(|deed| deed.withdrawn == withdrawn) {
            if frame > deed.since {
                deed.saved += deed.rate(frame);
            }
            // Among equals the later one goes.
            if best.as_ref().is_none_or(|best| deed.saved >= best.saved) {
                best = Some(deed);
            }
        }
        let deed = best.filter(|deed| deed.saved >= 1.0)?;
        deed.saved -= 1.0;
        deed.carried.push(frame);
        Some(deed.full.interaction)
    }

    /// Records the number of the message that another node received last.
    pub fn reported(&mut self, by: NodeId, last: u32) {
        for deed in self.deeds.iter_mut().filter(|deed| deed.is_lasting()) {
            if last < deed.since || deed.known_to.contains(&by) {
                continue;
            }
            if deed.carried.contains(&last) {
                deed.known_to.insert(by);
                deed.lost_at.remove(&by);
            } else if last > deed.since + GRACE {
                deed.lost_at.insert(by);
            }
        }
    }

    /// What to send again in this frame.
    pub fn again(&mut self, frame: u32) -> Option<Again> {
        let mut again = Again::default();
        for deed in self.deeds.iter_mut().filter(|deed| !deed.lost_at.is_empty()) {
            let told = &deed.told;
            let due = |id: &NodeId| match told.get(id) {
                Some((times, last)) => *times < MAX_TOLD && frame >= last + TOLD_AGAIN,
                None => true,
            };
            let room = MAX_RECIPIENTS - again.to.len();
            let to: Vec<NodeId> = deed.lost_at.iter().copied().filter(due).take(room).collect();
            if to.is_empty() || again.deeds.len() == MAX_FULL {
                continue;
            }
            for id in to {
                let (times, last) = deed.told.entry(id).or_insert((0, 0));
                (*times, *last) = (*times + 1, frame);
                if !again.to.contains(&id) {
                    again.to.push(id);
                }
            }
            let frames = if deed.withdrawn { 0 } else { deed.full.frames };
            again.deeds.push(Full { frames, ..deed.full });
        }
        (!again.deeds.is_empty()).then_some(again)
    }

    /// Handles an interaction of another node. If ours acted on the same element within the window, and before this
    /// node learnt of the other, neither node knew of the other's, and ours is withdrawn.
    pub fn conflict(
        &mut self,
        other: RemoteInteraction,
        window: Micros,
        frame: u32,
    ) -> Option<Interaction> {
        let deed = self.deeds.iter_mut().rev().find(|deed| {
            let same = deed.is_lasting() && deed.full.interaction.element() == other.element;
            let at_once = deed.at.0.abs_diff(other.at.0) <= window.0 && deed.at <= other.heard;
            same && at_once && !deed.withdrawn
        })?;
        deed.withdrawn = true;
        // The withdrawal is news from the next message on, which no node knows yet.
        (deed.since, deed.saved) = (frame + 1, 1.0);
        deed.carried.clear();
        deed.known_to.clear();
        deed.lost_at.clear();
        deed.told.clear();
        Some(deed.full.interaction)
    }

    /// Forgets a node that is gone.
    pub fn forget(&mut self, id: NodeId) {
        for deed in &mut self.deeds {
            deed.known_to.remove(&id);
            deed.lost_at.remove(&id);
            deed.told.remove(&id);
        }
    }
}
