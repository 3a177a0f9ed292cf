//! The other participants: what is known of each, which nodes to ask about unknown ones, and which are gone.
//!
//! A participant is forgotten only after silence, never to make room.

use super::NodeId;
use super::message::{Interaction, SilacAvatar, SilacParticipant};
use foveate_wire::Micros;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

/// The most participants that a node knows. Others are rejected.
pub const MAX_PEERS: usize = 1024;
/// Interactions remembered for each participant, so that none counts twice.
pub const MAX_DEEDS: usize = 64;
/// Numbers before the newest that are still accepted.
pub const MEMORY: u32 = 63;
/// How far a number may be ahead of the newest: more frames than a silent participant is remembered.
pub const MAX_AHEAD: u32 = 1024;
/// Participants that may be asked for at a time.
pub const MAX_ASKING: usize = 1024;
/// Time after which a participant is asked for again.
const ASK_AGAIN: Micros = Micros(1_000_000);
/// The inverse of the share of the difference by which a clock that seems late is adjusted.
const CLOCK_LEAK: i64 = 1024;

/// Which messages of one kind arrived from one participant: the newest number and the 63 before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NumberWindow {
    newest: u32,
    /// Bit i: number newest − i arrived.
    came: u64,
}

/// How a number relates to the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Newer than any before.
    Newest,
    /// Older, but the first copy.
    Late,
    /// It arrived before.
    Again,
    /// Too old, or impossibly far ahead.
    Refused,
}

impl NumberWindow {
    /// The newest number; zero if none arrived.
    pub fn newest(&self) -> u32 {
        self.newest
    }

    /// Records a number.
    pub fn note(&mut self, number: u32) -> Arrival {
        if self.came == 0 {
            *self = NumberWindow { newest: number, came: 1 };
            return Arrival::Newest;
        }
        if number > self.newest {
            let ahead = number - self.newest;
            if ahead > MAX_AHEAD {
                return Arrival::Refused;
            }
            self.came = self.came.checked_shl(ahead).unwrap_or(0) | 1;
            self.newest = number;
            return Arrival::Newest;
        }
        let behind = self.newest - number;
        if behind > MEMORY {
            return Arrival::Refused;
        }
        let bit = 1 << behind;
        let known = self.came & bit != 0;
        self.came |= bit;
        if known { Arrival::Again } else { Arrival::Late }
    }
}

/// An interaction of a participant.
#[derive(Clone, Copy, PartialEq, Debug)]
struct KnownInteraction {
    interaction: Interaction,
    /// When this node learnt of it.
    heard: Micros,
    withdrawn: bool,
}

/// What is known of a participant.
#[derive(Clone, PartialEq, Debug)]
pub struct SilacPeer {
    /// Where it receives messages.
    pub address: SocketAddr,
    /// The player's name.
    pub name: String,
    /// The look of the avatar.
    pub model: u32,
    /// Its newest known state.
    pub avatar: SilacAvatar,
    /// Half of its free uplink, as last announced, bytes per second.
    pub uplink: u32,
    /// Which of its states arrived.
    pub(super) states: NumberWindow,
    /// Which of its full interaction messages arrived.
    pub(super) fulls: NumberWindow,
    /// The number of its last join request, which tells a copy from another attempt.
    pub(super) joined: Option<u32>,
    /// When a message about it last arrived, directly or passed on.
    pub(super) heard: Micros,
    /// When its clock was zero, in microseconds of the local clock, by the fastest message.
    clock: Option<i64>,
    /// Its known interactions.
    deeds: VecDeque<KnownInteraction>,
}

impl SilacPeer {
    pub(super) fn new(participant: &SilacParticipant<'_>, now: Micros) -> SilacPeer {
        SilacPeer {
            address: participant.address,
            name: participant.name.to_owned(),
            model: participant.model,
            avatar: participant.avatar,
            uplink: 0,
            states: NumberWindow::default(),
            fulls: NumberWindow::default(),
            joined: None,
            heard: now,
            clock: None,
            deeds: VecDeque::new(),
        }
    }

    /// The number of its newest known state; zero if none.
    pub fn newest(&self) -> u32 {
        self.states.newest()
    }

    /// Adjusts the clock to a message that arrived now. The fastest message sets it; it follows later ones slowly,
    /// since clocks differ in speed.
    pub(super) fn set_clock(&mut self, number: u32, now: Micros, frame: Micros) {
        let zero = now.0 as i64 - (frame * number).0 as i64;
        let clock = self.clock.get_or_insert(zero);
        *clock = if zero < *clock { zero } else { *clock + (zero - *clock) / CLOCK_LEAK };
    }

    /// The local time at which the participant made the message with this number.
    pub(super) fn time_of(&self, number: u32, frame: Micros) -> Option<Micros> {
        let time = self.clock? + (frame * number).0 as i64;
        Some(Micros(time.max(0) as u64))
    }

    /// Records an interaction or its withdrawal. If that is new, returns when this node first learnt of the
    /// interaction.
    pub(super) fn learn(
        &mut self,
        interaction: Interaction,
        withdrawn: bool,
        now: Micros,
    ) -> Option<Micros> {
        if let Some(deed) = self.deeds.iter_mut().find(|deed| deed.interaction == interaction) {
            let news = withdrawn && !deed.withdrawn;
            deed.withdrawn |= withdrawn;
            return news.then_some(deed.heard);
        }
        if self.deeds.len() == MAX_DEEDS {
            self.deeds.pop_front();
        }
        self.deeds.push_back(KnownInteraction { interaction, heard: now, withdrawn });
        Some(now)
    }
}

/// All known participants, and those that must not become known again too soon.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    known: BTreeMap<NodeId, SilacPeer>,
    /// Participants that left or timed out, and until when messages about them from others are ignored. Otherwise two
    /// nodes that forget one at different times would remind each other for ever.
    gone: BTreeMap<NodeId, Micros>,
    /// When each unknown participant was asked for.
    asking: BTreeMap<NodeId, Micros>,
    /// Questions that wait for a message to their addressee, with the frame they arose in.
    questions: BTreeMap<SocketAddr, (u32, BTreeSet<NodeId>)>,
}

impl Peers {
    pub fn get(&self, id: NodeId) -> Option<&SilacPeer> {
        self.known.get(&id)
    }

    pub fn get_mut(&mut self, id: NodeId) -> Option<&mut SilacPeer> {
        self.known.get_mut(&id)
    }

    /// All known participants, by id.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &SilacPeer)> {
        self.known.iter().map(|(id, peer)| (*id, peer))
    }

    /// Whether messages about a participant from others are ignored.
    pub fn is_gone(&self, id: NodeId) -> bool {
        self.gone.contains_key(&id)
    }

    /// Adds a participant; false if the table is full.
    pub fn insert(&mut self, id: NodeId, peer: SilacPeer) -> bool {
        if self.known.len() >= MAX_PEERS && !self.known.contains_key(&id) {
            return false;
        }
        self.asking.remove(&id);
        self.gone.remove(&id);
        self.known.insert(id, peer);
        true
    }

    /// Removes a participant; messages about it are ignored until `until`.
    pub fn remove(&mut self, id: NodeId, until: Micros) -> Option<SilacPeer> {
        let peer = self.known.remove(&id)?;
        self.gone.insert(id, until);
        self.questions.remove(&peer.address);
        Some(peer)
    }

    /// Participants that have been silent for `silence`.
    pub fn silent(&self, now: Micros, silence: Micros) -> Vec<NodeId> {
        let silent = |peer: &SilacPeer| now - peer.heard > silence;
        self.known.iter().filter(|(_, peer)| silent(peer)).map(|(id, _)| *id).collect()
    }

    /// Removes entries that have expired.
    pub fn tidy(&mut self, now: Micros) {
        self.gone.retain(|_, until| *until > now);
        self.asking.retain(|_, since| now - *since < ASK_AGAIN);
    }

    /// Asks the node that named an unknown participant about it. False if the participant is known, gone, or already
    /// asked for.
    pub fn ask(&mut self, id: NodeId, of: SocketAddr, now: Micros, frame: u32) -> bool {
        let needless = self.known.contains_key(&id) || self.gone.contains_key(&id);
        if needless || self.asking.contains_key(&id) || self.asking.len() >= MAX_ASKING {
            return false;
        }
        self.asking.insert(id, now);
        self.questions.entry(of).or_insert((frame, BTreeSet::new())).1.insert(id);
        true
    }

    /// Whether a participant was asked for recently.
    pub fn is_asked(&self, id: NodeId) -> bool {
        self.asking.contains_key(&id)
    }

    /// Takes up to `most` questions to attach to the message that is about to be sent to `of`.
    pub fn questions(&mut self, of: SocketAddr, most: usize) -> Vec<NodeId> {
        if self.questions.is_empty() {
            return Vec::new();
        }
        let Some((_, ids)) = self.questions.get_mut(&of) else { return Vec::new() };
        let asked: Vec<NodeId> = ids.iter().take(most).copied().collect();
        ids.retain(|id| !asked.contains(id));
        if ids.is_empty() {
            self.questions.remove(&of);
        }
        asked
    }

    /// Addresses with questions that have waited since this frame or longer.
    pub fn overdue(&self, since: u32) -> Vec<SocketAddr> {
        self.questions.iter().filter(|(_, (arose, _))| *arose <= since).map(|(of, _)| *of).collect()
    }
}
