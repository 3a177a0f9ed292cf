//! The other participants: what is known of each, whom to ask for whom, and who is gone.
//!
//! Nobody is forgotten for lack of room, only for silence.

use super::NodeId;
use super::message::{Interaction, SilacAvatar, SilacParticipant};
use foveate_wire::Micros;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

/// The most participants that a node knows. More are not let in.
pub const MAX_PEERS: usize = 1024;
/// Interactions of each participant that are remembered, so that none counts twice.
pub const MAX_DEEDS: usize = 64;
/// Numbers before the newest that are still taken in.
pub const MEMORY: u32 = 63;
/// A number may be so far ahead of the newest: longer than anybody is remembered in silence.
pub const MAX_AHEAD: u32 = 1024;
/// Participants that are being asked for.
pub const MAX_ASKING: usize = 1024;
/// Whoever was asked for is asked for again after this.
const ASK_AGAIN: Micros = Micros(1_000_000);
/// The share of the difference by which a clock that seems late is followed: 1 / this.
const CLOCK_LEAK: i64 = 1024;

/// Which of somebody's messages of one kind came: the newest number and the 63 before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NumberWindow {
    newest: u32,
    /// Bit i: newest − i came.
    came: u64,
}

/// What a number is to a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Newer than any before.
    Newest,
    /// Older, but for the first time.
    Late,
    /// It came before.
    Again,
    /// Too old, or impossibly far ahead.
    Refused,
}

impl NumberWindow {
    /// The newest number; zero: none came.
    pub fn newest(&self) -> u32 {
        self.newest
    }

    /// Takes a number down.
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

/// Something that a participant did.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Deed {
    interaction: Interaction,
    /// When it was first heard of.
    heard: Micros,
    withdrawn: bool,
}

/// A participant, as known here.
#[derive(Clone, PartialEq, Debug)]
pub struct SilacPeer {
    /// Where it awaits messages.
    pub address: SocketAddr,
    /// Who plays.
    pub name: String,
    /// How the avatar looks.
    pub model: u32,
    /// Its newest state known.
    pub avatar: SilacAvatar,
    /// Half of its free uplink, as last announced, bytes per second.
    pub uplink: u32,
    /// Which of its states came.
    pub(super) states: NumberWindow,
    /// Which of its full interaction messages came.
    pub(super) fulls: NumberWindow,
    /// The number of its last join request, so that copies of it are told from another attempt.
    pub(super) joined: Option<u32>,
    /// When something was last heard about it, directly or passed on.
    pub(super) heard: Micros,
    /// When its clock was zero, as seen from here by the quickest message; microseconds.
    clock: Option<i64>,
    /// Its interactions that are known here.
    deeds: VecDeque<Deed>,
}

impl SilacPeer {
    pub(super) fn new(who: &SilacParticipant<'_>, now: Micros) -> SilacPeer {
        SilacPeer {
            address: who.address,
            name: who.name.to_owned(),
            model: who.model,
            avatar: who.avatar,
            uplink: 0,
            states: NumberWindow::default(),
            fulls: NumberWindow::default(),
            joined: None,
            heard: now,
            clock: None,
            deeds: VecDeque::new(),
        }
    }

    /// The number of its newest state known here; zero: none.
    pub fn newest(&self) -> u32 {
        self.states.newest()
    }

    /// A message of this number arrives now. The quickest message sets the clock; it follows later
    /// ones slowly, as clocks differ in speed.
    pub(super) fn set_clock(&mut self, number: u32, now: Micros, frame: Micros) {
        let zero = now.0 as i64 - (frame * number).0 as i64;
        let clock = self.clock.get_or_insert(zero);
        *clock = if zero < *clock { zero } else { *clock + (zero - *clock) / CLOCK_LEAK };
    }

    /// When it said something of this number, by the clock here.
    pub(super) fn time_of(&self, number: u32, frame: Micros) -> Option<Micros> {
        let time = self.clock? + (frame * number).0 as i64;
        Some(Micros(time.max(0) as u64))
    }

    /// Takes an interaction down, or its withdrawal. If that is news: when the interaction was first
    /// heard of.
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
        self.deeds.push_back(Deed { interaction, heard: now, withdrawn });
        Some(now)
    }
}

/// All that are known, and all that are not to be known again too soon.
#[derive(Clone, Debug, Default)]
pub struct Peers {
    known: BTreeMap<NodeId, SilacPeer>,
    /// Who left or fell silent, and until when others' talk of it counts for nothing. Otherwise two
    /// who forget it at different times would remind each other for ever.
    gone: BTreeMap<NodeId, Micros>,
    /// Who was asked for, and when.
    asking: BTreeMap<NodeId, Micros>,
    /// Questions that wait for a message to ride on, by whom they go to, with the frame they arose in.
    questions: BTreeMap<SocketAddr, (u32, BTreeSet<NodeId>)>,
}

impl Peers {
    /// One of them.
    pub fn get(&self, id: NodeId) -> Option<&SilacPeer> {
        self.known.get(&id)
    }

    pub fn get_mut(&mut self, id: NodeId) -> Option<&mut SilacPeer> {
        self.known.get_mut(&id)
    }

    /// All of them, by id.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, &SilacPeer)> {
        self.known.iter().map(|(id, peer)| (*id, peer))
    }

    /// Whether others' talk of somebody counts for nothing.
    pub fn is_gone(&self, id: NodeId) -> bool {
        self.gone.contains_key(&id)
    }

    /// Somebody new; false if there is no room.
    pub fn insert(&mut self, id: NodeId, peer: SilacPeer) -> bool {
        if self.known.len() >= MAX_PEERS && !self.known.contains_key(&id) {
            return false;
        }
        self.asking.remove(&id);
        self.gone.remove(&id);
        self.known.insert(id, peer);
        true
    }

    /// Somebody is gone.
    pub fn remove(&mut self, id: NodeId, until: Micros) -> Option<SilacPeer> {
        let peer = self.known.remove(&id)?;
        self.gone.insert(id, until);
        self.questions.remove(&peer.address);
        Some(peer)
    }

    /// Those of whom nothing was heard for as long.
    pub fn silent(&self, now: Micros, silence: Micros) -> Vec<NodeId> {
        let silent = |peer: &SilacPeer| now - peer.heard > silence;
        self.known.iter().filter(|(_, peer)| silent(peer)).map(|(id, _)| *id).collect()
    }

    /// Lets go of what has had its time.
    pub fn tidy(&mut self, now: Micros) {
        self.gone.retain(|_, until| *until > now);
        self.asking.retain(|_, since| now - *since < ASK_AGAIN);
    }

    /// Somebody was named who is not known: asks whoever named it. False: it is known, gone, or asked
    /// for already.
    pub fn ask(&mut self, id: NodeId, of: SocketAddr, (now, frame): (Micros, u32)) -> bool {
        let needless = self.known.contains_key(&id) || self.gone.contains_key(&id);
        if needless || self.asking.contains_key(&id) || self.asking.len() >= MAX_ASKING {
            return false;
        }
        self.asking.insert(id, now);
        self.questions.entry(of).or_insert((frame, BTreeSet::new())).1.insert(id);
        true
    }

    /// Whether somebody was asked for lately.
    pub fn is_asked(&self, id: NodeId) -> bool {
        self.asking.contains_key(&id)
    }

    /// What somebody is to be asked with the message at hand, at most so much.
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

    /// Whose questions have waited since this frame for a message to ride on.
    pub fn overdue(&self, since: u32) -> Vec<SocketAddr> {
        self.questions.iter().filter(|(_, (arose, _))| *arose <= since).map(|(of, _)| *of).collect()
    }
}
