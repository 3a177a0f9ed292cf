//! Silac: a game of some hundred players by gossip, after its source and nothing better.
//!
//! **What it is for.** Each node owns one avatar and, like everybody, the rest of the world. Each
//! frame it tells a weighted random few of those it knows how its avatar is ([`choice`]); they pass it
//! on, at most twice (`queue`). Nothing is acknowledged, but every message says which of the
//! addressee's was received last, and what matters is sent again (`path`). [`message`] has the bytes.
//!
//! **What it refuses to do.** It keeps no world: interactions are events, and the game applies them.
//! It trusts what it reads, as its source does, but for what cannot be: links should be
//! authenticated below it. It has no lobby.
//!
//! **The path of a datum.** The game's frame becomes a state message, which leaves for `fan_out`
//! nodes. At each of them: read → who sent it, and what that says of ours → known before? → applied
//! to the peer → waits for one to four frames → chosen recipients → leaves once more.
//!
//! ```
//! use foveate_node::Output;
//! use foveate_silac::{SilacAvatar, SilacEvent, SilacFrame, SilacInput, Me, SilacSettings, Silac};
//! use foveate_wire::Micros;
//!
//! let me = |name: &str, last| Me { address: ([10, 0, 0, last], 27_960).into(), name: name.into(), model: 0 };
//! let mut ada = Silac::new(SilacSettings::default(), me("ada", 1), 1);
//! let mut bob = Silac::new(SilacSettings::default(), me("bob", 2), 2);
//! let at = SilacFrame { avatar: SilacAvatar { facing: [1.0, 0.0, 0.0], ..SilacAvatar::default() }, act: None };
//! ada.handle(Micros(0), SilacInput::Found { game: 7, frame: at });
//! bob.handle(Micros(0), SilacInput::Join { game: 7, contacts: &[ada.address()], frame: at });
//! for _ in 0..2 {
//!     while let Some(output) = bob.poll() {
//!         let Output::Transmit(_, bytes) = output else { continue };
//!         ada.handle(Micros(20_000), SilacInput::Datagram(bob.address(), &bytes));
//!     }
//!     while let Some(output) = ada.poll() {
//!         let Output::Transmit(_, bytes) = output else { continue };
//!         bob.handle(Micros(40_000), SilacInput::Datagram(ada.address(), &bytes));
//!     }
//! }
//! assert_eq!(bob.peers().next().unwrap().1.name, "ada");
//! ```

pub mod choice;
pub mod message;
mod path;
mod peers;
mod queue;
mod reader;
mod receive;
mod seam;
#[cfg(test)]
mod tests;

pub use choice::{Alphas, Candidates, Viewpoint};
pub use message::{Interaction, MAX_NAME, Reject, SilacAvatar};
pub use path::{FADE, LASTING_FADE, MAX_PATH};
pub use peers::{MAX_ASKING, MAX_PEERS, SilacPeer};
pub use queue::MAX_WAITING;
pub use seam::{MAX_WAITING_FOR_LINKS, SilacCommand, SilacNode, SilacNodeEvent};

use fastrand::Rng;
use foveate_node::Output;
use foveate_wire::Micros;
use message::{
    Draft, Header, MAX_ASKED, MAX_RECIPIENTS, SilacMessageKind, SilacParticipant, State,
};
use path::Path;
use peers::Peers;
use queue::Queue;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Nobody is remembered for longer without a word about it.
pub const SILENCE: Micros = Micros(10_000_000);
/// A join request that nobody answers is repeated after this.
pub const JOIN_AGAIN: Micros = Micros(1_000_000);
/// And so often in all.
pub const MAX_JOINS: u32 = 10;
/// A question rides on the next message to whom it is for; it goes with one of its own after so many
/// frames.
const QUESTION_WAIT: u32 = 4;
/// The uplink in use is what was sent within so many frames.
const METERED: usize = 20;
/// Nothing goes on for longer, in frames.
const MAX_FRAMES: u32 = 1 << 16;

/// Who a participant is: derived from the address at which it awaits messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The id that goes with an address (FNV-1a).
    pub fn of(address: SocketAddr) -> NodeId {
        let add = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        let hash = match address.ip() {
            std::net::IpAddr::V4(ip) => ip.octets().into_iter().fold(0x811c_9dc5, add),
            std::net::IpAddr::V6(ip) => ip.octets().into_iter().fold(0x811c_9dc5, add),
        };
        NodeId(address.port().to_le_bytes().into_iter().fold(hash, add))
    }
}

/// What all nodes of a game agree on, and what each may set for itself.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SilacSettings {
    /// The length of a frame.
    pub frame: Micros,
    /// How many are told in a frame, and by whoever passes a message on.
    pub fan_out: usize,
    /// What counts for how much in the choice.
    pub alphas: Alphas,
    /// This node's uplink, bytes per second.
    pub uplink: u32,
    /// The world's corners.
    pub world: [[f32; 3]; 2],
    /// The map.
    pub map: u32,
    /// The type of game.
    pub game_type: u32,
    /// Two deeds on one element conflict when they were done within this time of each other.
    pub conflict: Micros,
}

impl Default for SilacSettings {
    /// Frames of 50 ms, the source's weights, and the fan-out of
    /// `docs/adr/0012-silac-fan-out.md`. The source's window of conflict is 1/25 s; a frame's length
    /// more than that is what two nodes can tell of each other's time.
    fn default() -> SilacSettings {
        SilacSettings {
            frame: Micros::from_millis(50),
            fan_out: 5,
            alphas: Alphas::default(),
            uplink: 1_250_000,
            world: [[0.0; 3], [300.0, 300.0, 0.0]],
            map: 0,
            game_type: 0,
            conflict: Micros::from_millis(90),
        }
    }
}

impl SilacSettings {
    /// The largest distance that the world allows.
    fn reach(&self) -> f32 {
        let [low, high] = self.world;
        (0..3).map(|i| (high[i] - low[i]).powi(2)).sum::<f32>().sqrt()
    }
}

/// Who a node is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Me {
    /// Where it awaits messages.
    pub address: SocketAddr,
    /// Who plays: at most [`MAX_NAME`] bytes.
    pub name: String,
    /// How its avatar looks.
    pub model: u32,
}

/// Something that an avatar does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Act {
    /// To which element of the world, below [`Interaction::MAX_ELEMENT`].
    pub element: u32,
    /// Whether it changes the world, and must not be lost.
    pub lasting: bool,
    /// For how many frames.
    pub frames: u32,
}

/// One frame of the game.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SilacFrame {
    /// This node's avatar.
    pub avatar: SilacAvatar,
    /// What it does from now on.
    pub act: Option<Act>,
}

/// What a node is given.
#[derive(Clone, Copy, Debug)]
pub enum SilacInput<'a> {
    /// This node is a game's first.
    Found {
        /// The game's id.
        game: u32,
        /// Where its avatar begins.
        frame: SilacFrame,
    },
    /// This node joins a game by way of some who are in it.
    Join {
        /// The game's id.
        game: u32,
        /// Who is in it.
        contacts: &'a [SocketAddr],
        /// Where its avatar begins.
        frame: SilacFrame,
    },
    /// The next frame.
    Frame(SilacFrame),
    /// A datagram, and where it came from.
    Datagram(SocketAddr, &'a [u8]),
    /// This node leaves.
    Leave,
}

/// Why somebody is no longer there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// It said so.
    Left,
    /// Nothing was heard of it for [`SILENCE`].
    Silent,
}

/// What a game may care for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SilacEvent {
    /// Somebody in the game accepted this node.
    Joined,
    /// Somebody in the game turned this node away, and it gave up.
    Rejected(Reject),
    /// Nobody answered, and this node gave up.
    Unanswered,
    /// Somebody is known from now on.
    Appeared(NodeId),
    /// Somebody is not known any longer.
    Vanished(NodeId, Gone),
    /// A state of an avatar came for the first time; the newest is in [`Silac::peer`].
    Heard {
        /// Whose.
        of: NodeId,
        /// Of which frame.
        number: u32,
        /// How often it was passed on.
        hop: u8,
    },
    /// An avatar did something: to be applied to the world.
    Did(NodeId, Interaction),
    /// An avatar takes something back: to be undone in the world, whether or not it was applied.
    Withdrew(NodeId, Interaction),
}

/// What happened so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SilacCounters {
    /// Messages sent, all.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Messages received, by hop.
    pub received: [u64; 3],
    /// Messages received before.
    pub again: u64,
    /// Messages passed on.
    pub forwarded: u64,
    /// Messages not passed on, as two others did.
    pub suppressed: u64,
    /// Messages not passed on for lack of room.
    pub overflowed: u64,
    /// Full interaction messages made.
    pub full: u64,
    /// Participants asked for.
    pub asked: u64,
    /// Participants told of when asked.
    pub answered: u64,
    /// Join requests answered with each code, from 1 on.
    pub rejected: [u64; 5],
    /// Interactions of this node's,
    pub did: u64,
    /// and those of them taken back.
    pub withdrawn: u64,
    /// Messages that could not be read.
    pub unreadable: u64,
    /// Messages of another game.
    pub other_game: u64,
    /// Messages whose contents cannot be: too old, too new, not finite, nobody asked for.
    pub impossible: u64,
    /// Messages about somebody who is not known.
    pub strangers: u64,
    /// Newcomers for whom there was no room.
    pub no_room: u64,
}

/// Where a node is in its life.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    /// Not in a game.
    Out,
    /// Waiting for somebody to accept it.
    Joining { contacts: Vec<SocketAddr>, next: Micros, tries: u32 },
    /// In the game.
    In,
}

/// A node of a game by gossip. Drain [`poll`](Silac::poll) after every [`handle`](Silac::handle).
#[derive(Clone, Debug)]
pub struct Silac {
    settings: SilacSettings,
    me: Me,
    id: NodeId,
    game: u32,
    phase: Phase,
    rng: Rng,
    /// The logical clock: frames since this node came.
    frame: u32,
    avatar: SilacAvatar,
    peers: Peers,
    path: Path,
    queue: Queue,
    candidates: Candidates,
    /// Bytes sent in each of the last frames; the frame at hand is last.
    spent: VecDeque<u64>,
    counters: SilacCounters,
    outputs: VecDeque<Output<SocketAddr, SilacEvent>>,
}

impl Silac {
    /// A node that is in no game yet. All its chance comes from the seed.
    pub fn new(settings: SilacSettings, me: Me, seed: u64) -> Silac {
        let id = NodeId::of(me.address);
        Silac {
            settings,
            me,
            id,
            game: 0,
            phase: Phase::Out,
            rng: Rng::with_seed(seed),
            frame: 0,
            avatar: SilacAvatar::default(),
            peers: Peers::default(),
            path: Path::default(),
            queue: Queue::default(),
            candidates: Candidates::default(),
            spent: VecDeque::from(vec![0]),
            counters: SilacCounters::default(),
            outputs: VecDeque::new(),
        }
    }

    /// Who this node is.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Where this node awaits messages.
    pub fn address(&self) -> SocketAddr {
        self.me.address
    }

    /// Frames since this node came: the number of its newest state.
    pub fn frame(&self) -> u32 {
        self.frame
    }

    /// Whether this node is in the game.
    pub fn is_in(&self) -> bool {
        self.phase == Phase::In
    }

    /// Somebody else in the game.
    pub fn peer(&self, id: NodeId) -> Option<&SilacPeer> {
        self.peers.get(id)
    }

    /// Everybody else in the game who is known, by id.
    pub fn peers(&self) -> impl Iterator<Item = (NodeId, &SilacPeer)> {
        self.peers.iter()
    }

    /// What happened so far.
    pub fn counters(&self) -> SilacCounters {
        let (suppressed, overflowed) = (self.queue.suppressed, self.queue.overflowed);
        SilacCounters { suppressed, overflowed, ..self.counters }
    }

    /// The next thing to be done, if any.
    pub fn poll(&mut self) -> Option<Output<SocketAddr, SilacEvent>> {
        self.outputs.pop_front()
    }

    /// Takes an input in; then drain [`poll`](Silac::poll).
    pub fn handle(&mut self, now: Micros, input: SilacInput<'_>) {
        match input {
            SilacInput::Found { game, frame } => {
                self.enter(game, frame);
                self.phase = Phase::In;
                self.wake(now);
            }
            SilacInput::Join { game, contacts, frame } => {
                self.enter(game, frame);
                let contacts = contacts.to_vec();
                self.phase = Phase::Joining { contacts, next: now, tries: 0 };
                self.ask_to_join(now);
                self.wake(now);
            }
            SilacInput::Frame(frame) => self.on_frame(now, frame),
            SilacInput::Datagram(from, bytes) => self.receive(now, from, bytes),
            SilacInput::Leave => self.leave(),
        }
    }

    fn wake(&mut self, now: Micros) {
        self.outputs.push_back(Output::WakeAt(now + self.settings.frame));
    }

    fn tell(&mut self, event: SilacEvent) {
        self.outputs.push_back(Output::Event(event));
    }

    /// Numbers begin anew: whoever knew this node before learns so from its join request.
    fn enter(&mut self, game: u32, frame: SilacFrame) {
        (self.peers, self.path) = (Peers::default(), Path::default());
        self.queue.clear();
        (self.game, self.frame, self.avatar) = (game, 1, frame.avatar);
    }

    fn leave(&mut self) {
        if self.is_in() {
            self.weigh();
            let payload = self.id.0.to_le_bytes();
            self.originate(SilacMessageKind::Leave, &payload);
        }
        self.phase = Phase::Out;
        self.peers = Peers::default();
        self.queue.clear();
    }

    /// What a frame does, in order.
    fn on_frame(&mut self, now: Micros, SilacFrame { avatar, act }: SilacFrame) {
        if self.phase == Phase::Out {
            return;
        }
        self.frame += 1;
        self.avatar = avatar;
        self.turn_meter();
        self.forget_silent(now);
        self.ask_to_join(now);
        if let Some(Act { element, lasting, frames }) = act {
            let act = (element, lasting, frames.min(MAX_FRAMES));
            let done = self.path.act(act, &avatar, (self.frame, now));
            self.counters.did += 1;
            self.tell(SilacEvent::Did(self.id, done));
        }
        self.weigh();
        self.send_state();
        self.send_again();
        self.forward();
        self.send_questions();
        if self.phase != Phase::Out {
            self.wake(now);
        }
    }

    fn turn_meter(&mut self) {
        if self.spent.len() == METERED {
            self.spent.pop_front();
        }
        self.spent.push_back(0);
    }

    /// Half of the uplink that is free, so that a rush of choices can still be served.
    fn announced(&self) -> u32 {
        let spent: u64 = self.spent.iter().sum();
        let seconds = self.settings.frame.as_secs() * METERED as f64;
        let used = (spent as f64 / seconds) as u32;
        self.settings.uplink.saturating_sub(used) / 2
    }

    fn forget_silent(&mut self, now: Micros) {
        for id in self.peers.silent(now, SILENCE) {
            self.forget(id, Gone::Silent, now);
        }
        self.peers.tidy(now);
    }

    fn forget(&mut self, id: NodeId, why: Gone, now: Micros) {
        if self.peers.remove(id, now + SILENCE).is_some() {
            self.path.forget(id);
            self.tell(SilacEvent::Vanished(id, why));
        }
    }

    /// Asks the contacts, until somebody answers or it was tried often enough.
    fn ask_to_join(&mut self, now: Micros) {
        let Phase::Joining { contacts, next, tries } = &mut self.phase else { return };
        if now < *next {
            return;
        }
        if *tries == MAX_JOINS {
            self.phase = Phase::Out;
            self.tell(SilacEvent::Unanswered);
            return;
        }
        (*next, *tries) = (now + JOIN_AGAIN, *tries + 1);
        let contacts = contacts.clone();
        let payload = message::join(&self.myself(), self.settings.map, self.settings.game_type);
        let ids: Vec<NodeId> = contacts.iter().map(|contact| NodeId::of(*contact)).collect();
        let draft = self.draft((SilacMessageKind::Join, 0, self.frame), &payload, &ids);
        contacts.iter().for_each(|contact| self.transmit(*contact, draft.to(0, &[])));
    }

    fn myself(&self) -> SilacParticipant<'_> {
        SilacParticipant {
            id: self.id,
            avatar: self.avatar,
            model: self.me.model,
            name: &self.me.name,
            address: self.me.address,
        }
    }

    /// Weighs everybody, as of this frame.
    fn weigh(&mut self) {
        let Silac { settings, peers, candidates, avatar, .. } = self;
        let SilacAvatar { position, facing, .. } = *avatar;
        let eyes = Viewpoint { position, facing, reach: settings.reach() };
        let most = peers.iter().map(|(_, peer)| peer.uplink).max().unwrap_or(0).max(1) as f32;
        candidates.clear();
        for (id, peer) in peers.iter() {
            let share = peer.uplink as f32 / most;
            candidates.push(id, eyes.weight(&settings.alphas, peer.avatar.position, share));
        }
    }

    fn send_state(&mut self) {
        let (done, withdrawn) = self.path.carry(self.frame);
        let state = State { id: self.id, avatar: self.avatar, done, withdrawn };
        self.originate(SilacMessageKind::State, &message::state(&state));
    }

    /// News of this node's own: to some, by weight.
    fn originate(&mut self, kind: SilacMessageKind, payload: &[u8]) {
        let fan_out = self.settings.fan_out;
        let chosen = self.candidates.choose(&mut self.rng, fan_out, |_| Some(0.0));
        let draft = self.draft((kind, 0, self.frame), payload, &chosen);
        self.send(&draft, &chosen);
    }

    /// What was lost and matters goes to those who lack it.
    fn send_again(&mut self) {
        let Some(again) = self.path.again(self.frame) else { return };
        self.counters.full += 1;
        let payload = message::full(self.id, &again.deeds);
        let draft = self.draft((SilacMessageKind::Full, 0, self.frame), &payload, &again.to);
        self.send(&draft, &again.to);
    }

    fn forward(&mut self) {
        let (fan_out, listed) = (self.settings.fan_out, self.settings.alphas.listed);
        for (key, mut waiting) in self.queue.due(self.frame) {
            let chosen = self.candidates.choose(&mut self.rng, fan_out, |id| {
                // Whoever made or sent it has it.
                let has_it = id == key.origin || waiting.senders.contains(&id);
                let less = if waiting.recipients.contains(&id) { listed } else { 0.0 };
                (!has_it).then_some(less)
            });
            if chosen.is_empty() {
                continue;
            }
            for id in &chosen {
                if waiting.recipients.len() < MAX_RECIPIENTS && !waiting.recipients.contains(id) {
                    waiting.recipients.push(*id);
                }
            }
            self.counters.forwarded += 1;
            let head = (key.kind, waiting.hop + 1, key.number);
            let draft = self.draft(head, &waiting.payload, &waiting.recipients);
            self.send(&draft, &chosen);
        }
    }

    /// Questions that found no message to ride on go with a state of their own.
    fn send_questions(&mut self) {
        for address in self.peers.overdue(self.frame.saturating_sub(QUESTION_WAIT)) {
            let (id, asked) = (NodeId::of(address), self.peers.questions(address, MAX_ASKED));
            let state = State { id: self.id, avatar: self.avatar, done: None, withdrawn: None };
            let head = (SilacMessageKind::State, 0, self.frame);
            let draft = self.draft(head, &message::state(&state), &[id]);
            let last = self.peers.get(id).map_or(0, SilacPeer::newest);
            self.counters.asked += asked.len() as u64;
            self.transmit(address, draft.to(last, &asked));
        }
    }

    fn draft(
        &self,
        (kind, hop, number): (SilacMessageKind, u8, u32),
        payload: &[u8],
        recipients: &[NodeId],
    ) -> Draft {
        let (port, game, last) = (self.me.address.port(), self.game, 0);
        let header = Header { hop, port, game, number, last };
        Draft::new((kind, header), payload, (self.announced(), recipients))
    }

    /// Sends a message to some who are known, with whatever they are to be asked.
    fn send(&mut self, draft: &Draft, to: &[NodeId]) {
        for id in to {
            let Some(peer) = self.peers.get(*id) else { continue };
            let (address, last) = (peer.address, peer.newest());
            let asked = self.peers.questions(address, MAX_ASKED);
            self.counters.asked += asked.len() as u64;
            self.transmit(address, draft.to(last, &asked));
        }
    }

    fn transmit(&mut self, to: SocketAddr, bytes: Vec<u8>) {
        self.counters.sent += 1;
        self.counters.sent_bytes += bytes.len() as u64;
        if let Some(spent) = self.spent.back_mut() {
            *spent += bytes.len() as u64;
        }
        self.outputs.push_back(Output::Transmit(to, bytes));
    }
}
