//! What this node's avatar did: the interest path, what is sent again, what is taken back.
//!
//! Each state message has room for one interaction. The path says which: later ones more often,
//! fading with the time since they ended; those that change the world fade much later. Every one of
//! them has a *rate* below one message a frame, and saves up; whoever has saved most goes.
//!
//! A message from another node says which of ours it received last. If that one carried an
//! interaction, the other knows it. If it is later than the interaction and there never was such a
//! sign, the interaction is taken for lost, and sent again in full.

use super::NodeId;
use super::message::{Full, Interaction, MAX_FULL, MAX_RECIPIENTS, SilacAvatar};
use foveate_wire::Micros;
use std::collections::{BTreeMap, BTreeSet};

/// Interactions on the path; of more the oldest falls off.
pub const MAX_PATH: usize = 32;
/// Frames after their end for which interactions stay on the path.
pub const FADE: u32 = 8;
/// The same for those that change the world.
pub const LASTING_FADE: u32 = 80;
/// So many frames after its end an interaction that changes the world goes with every other message.
const HALF: f32 = 8.0;
/// A message may be this many frames late without being lost: two waits of up to four frames, and two
/// for the links.
pub const GRACE: u32 = 10;
/// How often an interaction is sent again in full to one node.
pub const MAX_TOLD: u8 = 3;
/// Frames between two of these.
const TOLD_AGAIN: u32 = 8;

/// One thing that was done.
#[derive(Clone, PartialEq, Debug)]
struct Deed {
    full: Full,
    at: Micros,
    withdrawn: bool,
    /// The number of the first message with the news: that it was done, or that it is taken back.
    since: u32,
    /// What it has saved up; from one on it may go.
    saved: f32,
    /// Numbers of the messages that carried the news.
    carried: Vec<u32>,
    /// Who is known to know.
    known_to: BTreeSet<NodeId>,
    /// Who seems not to know.
    lost_at: BTreeSet<NodeId>,
    /// Whom it was sent in full: how often, and in which frame last.
    told: BTreeMap<NodeId, (u8, u32)>,
}

impl Deed {
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

/// What another node did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Other {
    /// To which element.
    pub element: u32,
    /// When, as far as can be told.
    pub at: Micros,
    /// When it was heard of here.
    pub heard: Micros,
}

/// What is to be sent again, and to whom.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Again {
    /// Who lacks some of it.
    pub to: Vec<NodeId>,
    /// What is lacking somewhere.
    pub deeds: Vec<Full>,
}

/// The interest path.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Path {
    deeds: Vec<Deed>,
    serial: u32,
}

impl Path {
    /// The avatar does something to an element, for so many frames from this one on.
    pub fn act(
        &mut self,
        (element, lasting, frames): (u32, bool, u32),
        avatar: &SilacAvatar,
        (frame, now): (u32, Micros),
    ) -> Interaction {
        let interaction = Interaction::new(element, lasting, self.serial);
        self.serial = self.serial.wrapping_add(1);
        if self.deeds.len() == MAX_PATH {
            self.deeds.remove(0);
        }
        let SilacAvatar { position, facing, .. } = *avatar;
        self.deeds.push(Deed {
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

    /// What this frame's state message carries: something done, something withdrawn.
    pub fn carry(&mut self, frame: u32) -> (Option<Interaction>, Option<Interaction>) {
        self.deeds.retain(|deed| !deed.has_faded(frame));
        (self.carry_one(frame, false), self.carry_one(frame, true))
    }

    fn carry_one(&mut self, frame: u32, withdrawn: bool) -> Option<Interaction> {
        let mut best: Option<&mut Deed> = None;
        for deed in self.deeds.iter_mut().filter(|deed| deed.withdrawn == withdrawn) {
            if frame > deed.since {
                deed.saved += deed.rate(frame);
            }
            // Of equals the later one goes.
            if best.as_ref().is_none_or(|best| deed.saved >= best.saved) {
                best = Some(deed);
            }
        }
        let deed = best.filter(|deed| deed.saved >= 1.0)?;
        deed.saved -= 1.0;
        deed.carried.push(frame);
        Some(deed.full.interaction)
    }

    /// Another node says which of our messages it received last.
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

    /// What is sent again in this frame.
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

    /// Another node did something. If ours did something to the same element within the window, and
    /// before it was heard of, neither knew of the other, and ours is taken back.
    pub fn conflict(&mut self, other: Other, window: Micros, frame: u32) -> Option<Interaction> {
        let deed = self.deeds.iter_mut().rev().find(|deed| {
            let same = deed.is_lasting() && deed.full.interaction.element() == other.element;
            let at_once = deed.at.0.abs_diff(other.at.0) <= window.0 && deed.at <= other.heard;
            same && at_once && !deed.withdrawn
        })?;
        deed.withdrawn = true;
        // It is news of its own from the next message on: nobody knows it yet.
        (deed.since, deed.saved) = (frame + 1, 1.0);
        deed.carried.clear();
        deed.known_to.clear();
        deed.lost_at.clear();
        deed.told.clear();
        Some(deed.full.interaction)
    }

    /// Somebody is gone.
    pub fn forget(&mut self, id: NodeId) {
        for deed in &mut self.deeds {
            deed.known_to.remove(&id);
            deed.lost_at.remove(&id);
            deed.told.remove(&id);
        }
    }
}
