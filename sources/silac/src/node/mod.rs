//! Silac: a game of some hundred players by gossip, as its source describes it.
//!
//! **What it is for.** Each node owns one avatar and keeps a copy of the rest of the world. Each frame it sends its
//! avatar's state to a few other nodes, drawn by weight ([`choice`]). They pass it on, at most twice (`queue`). Nothing
//! is acknowledged, but every message carries the number last received from the addressee, and interactions that matter
//! are sent again (`path`). [`message`] defines the bytes.
//!
//! **What it refuses to do.** It keeps no world: interactions are events, and the game applies them. Like its source it
//! trusts what it reads, except impossible values; links should be authenticated below it. It has no lobby.
//!
//! **The path of a datum.** The game's frame becomes a state message, which is sent to `fan_out` nodes. At each of
//! them: read → update what is known of its sender → known before? → apply to the peer → wait for one to four frames →
//! choose recipients → send once more.
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
use queue::{Queue, Waiting};
use std::collections::VecDeque;
use std::net::SocketAddr;

/// A participant is forgotten when nothing has been received about it for this long.
pub const SILENCE: Micros = Micros(10_000_000);
/// An unanswered join request is repeated after this time.
pub const JOIN_AGAIN: Micros = Micros(1_000_000);
/// Most join requests.
pub const MAX_JOINS: u32 = 10;
/// A question is attached to the next message for its addressee. After this many frames without one, it is sent in a
/// message of its own.
const QUESTION_WAIT: u32 = 4;
/// The used uplink is what was sent within this many frames.
const METERED: usize = 20;
/// The longest an interaction may last, in frames.
const MAX_FRAMES: u32 = 1 << 16;

/// A participant's id, derived from the address at which it receives messages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The id of an address (FNV-1a).
    pub fn of(address: SocketAddr) -> NodeId {
        let add = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        let hash = match address.ip() {
            std::net::IpAddr::V4(ip) => ip.octets().into_iter().fold(0x811c_9dc5, add),
            std::net::IpAddr::V6(ip) => ip.octets().into_iter().fold(0x811c_9dc5, add),
        };
        NodeId(address.port().to_le_bytes().into_iter().fold(hash, add))
    }
}

/// What all nodes of a game must agree on, and what each may choose.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SilacSettings {
    /// The length of a frame.
    pub frame: Micros,
    /// Nodes that a message is sent to in a frame, by its origin and by each node that passes it on.
    pub fan_out: usize,
    /// Weights for the choice of recipients.
    pub alphas: Alphas,
    /// This node's uplink, bytes per second.
    pub uplink: u32,
    /// The world's corners.
    pub world: [[f32; 3]; 2],
    /// The map.
    pub map: u32,
    /// The type of game.
    pub game_type: u32,
    /// Two interactions with one element conflict if they are within this time of each other.
    pub conflict: Micros,
}

impl Default for SilacSettings {
    /// Frames of 50 ms, the source's weights, and the fan-out of `docs/adr/0012-silac-fan-out.md`. The source's window
    /// of conflict is 1/25 s; ours is one frame longer, because two nodes know each other's time only to a frame.
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
    /// The largest distance in the world.
    fn reach(&self) -> f32 {
        let [low, high] = self.world;
        (0..3).map(|i| (high[i] - low[i]).powi(2)).sum::<f32>().sqrt()
    }
}

/// A node's identity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Me {
    /// Where it receives messages.
    pub address: SocketAddr,
    /// The player's name, at most [`MAX_NAME`] bytes.
    pub name: String,
    /// The look of its avatar, a number that the game defines.
    pub model: u32,
}

/// An action of an avatar.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Act {
    /// The element that it acts on, below [`Interaction::MAX_ELEMENT`].
    pub element: u32,
    /// Whether it changes the world, so that it must not be lost.
    pub lasting: bool,
    /// Frames that it lasts.
    pub frames: u32,
}

/// One frame of the game.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SilacFrame {
    /// This node's avatar.
    pub avatar: SilacAvatar,
    /// What it starts to do in this frame.
    pub act: Option<Act>,
}

/// An input of a node.
#[derive(Clone, Copy, Debug)]
pub enum SilacInput<'a> {
    /// Starts a game with this node as its first.
    Found {
        /// The game's id.
        game: u32,
        /// The avatar's first state.
        frame: SilacFrame,
    },
    /// Joins a game through some of its nodes.
    Join {
        /// The game's id.
        game: u32,
        /// Nodes of the game.
        contacts: &'a [SocketAddr],
        /// The avatar's first state.
        frame: SilacFrame,
    },
    /// The next frame.
    Frame(SilacFrame),
    /// A datagram and its source address.
    Datagram(SocketAddr, &'a [u8]),
    /// Leaves the game.
    Leave,
}

/// Why a participant is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// It announced that it left.
    Left,
    /// Nothing was received about it for [`SILENCE`].
    Silent,
}

/// An event for the game.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SilacEvent {
    /// A node of the game accepted this node.
    Joined,
    /// A node of the game rejected this node, which stops trying.
    Rejected(Reject),
    /// No contact answered, and this node stops trying.
    Unanswered,
    /// A participant became known.
    Appeared(NodeId),
    /// A participant is no longer known.
    Vanished(NodeId, Gone),
    /// The first copy of an avatar's state arrived; the newest is in [`Silac::peer`].
    Heard {
        of: NodeId,
        /// The frame of the state.
        number: u32,
        /// Times that it was passed on.
        hop: u8,
    },
    /// An avatar did something: apply it to the world.
    Did(NodeId, Interaction),
    /// An avatar withdraws an interaction: undo it in the world, whether or not it was applied.
    Withdrew(NodeId, Interaction),
}

/// Totals since the node was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SilacCounters {
    /// Messages sent.
    pub sent: u64,
    /// Bytes of those messages.
    pub sent_bytes: u64,
    /// Messages received, by hop.
    pub received: [u64; 3],
    /// Messages received once more.
    pub again: u64,
    /// Messages passed on.
    pub forwarded: u64,
    /// Messages not passed on because two other nodes did.
    pub suppressed: u64,
    /// Messages not passed on because the queue was full.
    pub overflowed: u64,
    /// Full interaction messages made.
    pub full: u64,
    /// Participants asked for.
    pub asked: u64,
    /// Participants whose data was sent on request.
    pub answered: u64,
    /// Join requests rejected with each code, from 1 on.
    pub rejected: [u64; 5],
    /// Interactions of this node.
    pub did: u64,
    /// Interactions of this node that were withdrawn.
    pub withdrawn: u64,
    /// Messages that could not be read.
    pub unreadable: u64,
    /// Messages of another game.
    pub other_game: u64,
    /// Messages with impossible contents: too old, too far ahead, not finite, or unrequested.
    pub impossible: u64,
    /// Messages about a participant that is not known.
    pub strangers: u64,
    /// Newcomers that were rejected because the table is full.
    pub no_room: u64,
}

/// The state of a node's membership.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Phase {
    /// Not in a game.
    Out,
    /// Waiting for a contact to accept it.
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
    /// The logical clock: frames since this node entered.
    frame: u32,
    avatar: SilacAvatar,
    peers: Peers,
    path: Path,
    queue: Queue,
    candidates: Candidates,
    /// Bytes sent in each of the last frames, the current frame last.
    spent: VecDeque<u64>,
    counters: SilacCounters,
    outputs: VecDeque<Output<SocketAddr, SilacEvent>>,
}

impl Silac {
    /// A node that is in no game yet. All its randomness comes from the seed.
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

    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Where this node receives messages.
    pub fn address(&self) -> SocketAddr {
        self.me.address
    }

    /// Frames since this node entered: the number of its newest state.
    pub fn frame(&self) -> u32 {
        self.frame
    }

    pub fn is_in(&self) -> bool {
        self.phase == Phase::In
    }

    /// Another participant.
    pub fn peer(&self, id: NodeId) -> Option<&SilacPeer> {
        self.peers.get(id)
    }

    /// All other participants that are known, by id.
    pub fn peers(&self) -> impl Iterator<Item = (NodeId, &SilacPeer)> {
        self.peers.iter()
    }

    pub fn counters(&self) -> SilacCounters {
        let (suppressed, overflowed) = (self.queue.suppressed, self.queue.overflowed);
        SilacCounters { suppressed, overflowed, ..self.counters }
    }

    /// The next output, if any.
    pub fn poll(&mut self) -> Option<Output<SocketAddr, SilacEvent>> {
        self.outputs.pop_front()
    }

    /// Handles an input; drain [`poll`](Silac::poll) afterwards.
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

    /// Starts numbers anew. A node that knew this one before learns of it from the join request.
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

    /// Runs a frame's steps, in order.
    fn on_frame(&mut self, now: Micros, SilacFrame { avatar, act }: SilacFrame) {
        if self.phase == Phase::Out {
            return;
        }
        self.frame += 1;
        self.avatar = avatar;
        self.turn_meter();
        self.forget_silent(now);
        self.ask_to_join(now);
        if let Some(act) = act {
            let act = Act { frames: act.frames.min(MAX_FRAMES), ..act };
            let done = self.path.act(act, &avatar, self.frame, now);
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

    /// Half of the free uplink, so that a rush of choices can still be served.
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

    /// Asks the contacts until one answers or the tries are used up.
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
        let draft = self.draft(SilacMessageKind::Join, 0, self.frame, &payload, &ids);
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

    /// Weighs all known nodes, as of this frame.
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

    /// Sends a message about this node to some nodes, chosen by weight.
    fn originate(&mut self, kind: SilacMessageKind, payload: &[u8]) {
        let fan_out = self.settings.fan_out;
        let chosen = self.candidates.choose(&mut self.rng, fan_out, |_| Some(0.0));
        let draft = self.draft(kind, 0, self.frame, payload, &chosen);
        self.send(&draft, &chosen);
    }

    /// Sends lost interactions that matter to the nodes that lack them.
    fn send_again(&mut self) {
        let Some(again) = self.path.again(self.frame) else { return };
        self.counters.full += 1;
        let payload = message::full(self.id, &again.deeds);
        let draft = self.draft(SilacMessageKind::Full, 0, self.frame, &payload, &again.to);
        self.send(&draft, &again.to);
    }

    fn forward(&mut self) {
        let (fan_out, listed) = (self.settings.fan_out, self.settings.alphas.listed);
        for (key, mut waiting) in self.queue.due(self.frame) {
            let chosen = self.candidates.choose(&mut self.rng, fan_out, |id| {
                // Its origin and its senders have it.
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
            let Waiting { hop, payload, recipients, .. } = &waiting;
            let draft = self.draft(key.kind, hop + 1, key.number, payload, recipients);
            self.send(&draft, &chosen);
        }
    }

    /// Sends questions that found no message to be attached to, each with a state.
    fn send_questions(&mut self) {
        for address in self.peers.overdue(self.frame.saturating_sub(QUESTION_WAIT)) {
            let (id, asked) = (NodeId::of(address), self.peers.questions(address, MAX_ASKED));
            let state = State { id: self.id, avatar: self.avatar, done: None, withdrawn: None };
            let (kind, payload) = (SilacMessageKind::State, message::state(&state));
            let draft = self.draft(kind, 0, self.frame, &payload, &[id]);
            let last = self.peers.get(id).map_or(0, SilacPeer::newest);
            self.counters.asked += asked.len() as u64;
            self.transmit(address, draft.to(last, &asked));
        }
    }

    fn draft(
        &self,
        kind: SilacMessageKind,
        hop: u8,
        number: u32,
        payload: &[u8],
        recipients: &[NodeId],
    ) -> Draft {
        let (port, game, last) = (self.me.address.port(), self.game, 0);
        let header = Header { hop, port, game, number, last };
        Draft::new(kind, header, payload, self.announced(), recipients)
    }

    /// Sends a message to known nodes, each with the questions for it.
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
