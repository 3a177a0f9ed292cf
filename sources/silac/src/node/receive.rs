//! Handling of received messages.

use super::message::{
    self, Payload, Reject, SilacMessage, SilacMessageKind, SilacParticipant, State,
};
use super::message::{Interaction, MAX_NAME};
use super::path::{GRACE, RemoteInteraction};
use super::peers::{Arrival, MEMORY, SilacPeer};
use super::queue::QueueKey;
use super::{Gone, NodeId, Phase, Silac, SilacEvent, SilacSettings};
use foveate_wire::Micros;
use std::net::SocketAddr;

/// How a message was judged.
enum Verdict {
    /// First copy: passed on if its kind is and its hop allows it.
    New,
    /// Another copy.
    Again,
    /// Neither counted nor passed on.
    Dropped,
}

impl Silac {
    /// Handles a message, step by step.
    pub(super) fn receive(&mut self, now: Micros, from: SocketAddr, bytes: &[u8]) {
        if self.phase == Phase::Out {
            return;
        }
        let Ok(message) = SilacMessage::read(bytes) else {
            self.counters.unreadable += 1;
            return;
        };
        self.counters.received[usize::from(message.header.hop)] += 1;
        let address = SocketAddr::new(from.ip(), message.header.port);
        if message.header.game != self.game {
            self.counters.other_game += 1;
            if let Payload::Join(participant, ..) = &message.payload {
                self.reject(Reject::Game, participant, address);
            }
            return;
        }
        let sender = NodeId::of(address);
        self.answer(address, &message);
        let verdict = self.take(now, sender, address, &message);
        self.update_sender(sender, &message, now);
        match verdict {
            Verdict::New => {
                let named = message.recipients.iter().chain([sender]);
                named.for_each(|id| self.ask_if_unknown(id, address, now));
            }
            Verdict::Again => self.counters.again += 1,
            Verdict::Dropped => {}
        }
    }

    /// Records what the header and the tail say about the sender.
    fn update_sender(&mut self, sender: NodeId, message: &SilacMessage<'_>, now: Micros) {
        let Some(peer) = self.peers.get_mut(sender) else { return };
        peer.heard = now;
        peer.uplink = message.uplink;
        if message.header.last <= self.frame {
            self.path.reported(sender, message.header.last);
        }
    }

    /// If `id` is unknown, asks the node that named it.
    fn ask_if_unknown(&mut self, id: NodeId, of: SocketAddr, now: Micros) {
        // Most are known and were weighed in this frame, so this is checked first.
        if id != self.id && !self.candidates.contains(id) {
            self.peers.ask(id, of, now, self.frame);
        }
    }

    /// Answers questions about known participants.
    fn answer(&mut self, asker: SocketAddr, message: &SilacMessage<'_>) {
        for id in message.asked.iter() {
            let payload = match self.peers.get(id) {
                _ if id == self.id => message::accept(&self.myself()),
                Some(peer) => message::accept(&SilacParticipant {
                    id,
                    avatar: peer.avatar,
                    model: peer.model,
                    name: &peer.name,
                    address: peer.address,
                }),
                None => continue,
            };
            self.counters.answered += 1;
            self.send_directly(SilacMessageKind::Accept, &payload, asker);
        }
    }

    fn send_directly(&mut self, kind: SilacMessageKind, payload: &[u8], to: SocketAddr) {
        let id = NodeId::of(to);
        let draft = self.draft(kind, 0, self.frame, payload, &[id]);
        let last = self.peers.get(id).map_or(0, SilacPeer::newest);
        self.transmit(to, draft.to(last, &[]));
    }

    /// Applies the payload, and queues the message if it is passed on.
    fn take(
        &mut self,
        now: Micros,
        sender: NodeId,
        address: SocketAddr,
        message: &SilacMessage<'_>,
    ) -> Verdict {
        let number = message.header.number;
        let (origin, verdict) = match &message.payload {
            Payload::Join(participant, map, game_type) => {
                let game = (*map, *game_type) == (self.settings.map, self.settings.game_type);
                (participant.id, self.take_join(now, participant, address, number, game))
            }
            Payload::Accept(participant) => {
                (participant.id, self.take_accept(now, sender, participant))
            }
            Payload::Reject(reject) => (sender, self.take_reject(*reject)),
            Payload::Leave(id) => (*id, self.take_leave(*id, now)),
            Payload::State(state) => (state.id, self.take_state(now, address, message, state)),
            Payload::Full(id, deeds) => {
                let verdict = self.take_full(now, address, *id, number);
                if matches!(verdict, Verdict::New) {
                    for deed in deeds.iter() {
                        let withdrawn = deed.frames == 0;
                        self.learn(*id, deed.interaction, withdrawn, deed.first, now);
                    }
                }
                (*id, verdict)
            }
        };
        if message.kind.is_forwarded() {
            let key = QueueKey { origin, number, kind: message.kind };
            match verdict {
                Verdict::New if message.header.hop < 2 => {
                    self.queue.add(key, message, sender, self.frame, &mut self.rng);
                }
                Verdict::Again => self.queue.again(key, sender, message.recipients),
                _ => {}
            }
        }
        verdict
    }

    fn take_join(
        &mut self,
        now: Micros,
        participant: &SilacParticipant<'_>,
        sender: SocketAddr,
        number: u32,
        game: bool,
    ) -> Verdict {
        if participant.id == self.id || self.phase != Phase::In {
            return Verdict::Dropped;
        }
        let known = self.peers.get(participant.id);
        // A number far from its clock: it restarted, and what was known of it is void.
        let known = known.filter(|peer| peer.newest().abs_diff(number) <= MEMORY);
        if known.is_some_and(|peer| peer.joined.is_some_and(|joined| number <= joined)) {
            return Verdict::Again;
        }
        let known = known.is_some();
        if let Err(reject) = self.check(participant, game) {
            self.reject(reject, participant, sender);
            return Verdict::Dropped;
        }
        if !known && !self.appear(participant, now) {
            return Verdict::Dropped;
        }
        if let Some(peer) = self.peers.get_mut(participant.id) {
            peer.joined = Some(number);
        }
        let payload = message::accept(&self.myself());
        self.send_directly(SilacMessageKind::Accept, &payload, participant.address);
        Verdict::New
    }

    /// Whether a participant can join.
    fn check(&self, participant: &SilacParticipant<'_>, game: bool) -> Result<(), Reject> {
        let [low, high] = self.settings.world;
        let outside = |i: usize| !(low[i]..=high[i]).contains(&participant.avatar.position[i]);
        let named = (1..=MAX_NAME).contains(&participant.name.len());
        if !participant.avatar.is_finite()
            || !named
            || participant.name.chars().any(char::is_control)
        {
            return Err(Reject::Avatar);
        }
        let placed =
            !participant.address.ip().is_unspecified() && !participant.address.ip().is_multicast();
        if participant.id != NodeId::of(participant.address)
            || !placed
            || participant.address.port() == 0
        {
            return Err(Reject::Address);
        }
        if !game {
            return Err(Reject::Game);
        }
        if (0..3).any(outside) {
            return Err(Reject::Outside);
        }
        let taken = |(id, peer): (NodeId, &SilacPeer)| {
            id != participant.id && peer.name == participant.name
        };
        if self.me.name == participant.name || self.peers.iter().any(taken) {
            return Err(Reject::Name);
        }
        Ok(())
    }

    /// Sends a rejection to the participant, or to the node that passed the request on if the address is bad.
    fn reject(&mut self, reject: Reject, participant: &SilacParticipant<'_>, sender: SocketAddr) {
        self.counters.rejected[reject as usize - 1] += 1;
        let to = if reject == Reject::Address { sender } else { participant.address };
        self.send_directly(SilacMessageKind::Reject, &[reject as u8], to);
    }

    /// Handles an accept: this node may join, or the data of a participant that it asked for.
    fn take_accept(
        &mut self,
        now: Micros,
        sender: NodeId,
        participant: &SilacParticipant<'_>,
    ) -> Verdict {
        let known = self.peers.get(participant.id).is_some();
        let wanted = participant.id == sender || self.peers.is_asked(participant.id);
        let sound = self.is_valid(participant);
        if participant.id == self.id || !wanted || !sound {
            self.counters.impossible += 1;
            return Verdict::Dropped;
        }
        // A message from others about a participant that left is older than its leave; only its own counts.
        if participant.id != sender && self.peers.is_gone(participant.id) {
            return Verdict::Dropped;
        }
        if participant.id == sender && matches!(self.phase, Phase::Joining { .. }) {
            self.phase = Phase::In;
            self.tell(SilacEvent::Joined);
        }
        if known {
            return Verdict::Again;
        }
        if self.appear(participant, now) { Verdict::New } else { Verdict::Dropped }
    }

    /// Adds a participant; false if there is no room.
    fn appear(&mut self, participant: &SilacParticipant<'_>, now: Micros) -> bool {
        if !self.peers.insert(participant.id, SilacPeer::new(participant, now)) {
            self.counters.no_room += 1;
            return false;
        }
        self.tell(SilacEvent::Appeared(participant.id));
        true
    }

    fn is_valid(&self, participant: &SilacParticipant<'_>) -> bool {
        participant.avatar.is_finite()
            && participant.id == NodeId::of(participant.address)
            && !participant.name.is_empty()
    }

    fn take_reject(&mut self, reject: Reject) -> Verdict {
        if matches!(self.phase, Phase::Joining { .. }) {
            self.phase = Phase::Out;
            self.tell(SilacEvent::Rejected(reject));
        }
        Verdict::Dropped
    }

    fn take_leave(&mut self, id: NodeId, now: Micros) -> Verdict {
        if self.peers.get(id).is_some() {
            self.forget(id, Gone::Left, now);
            Verdict::New
        } else if self.peers.is_gone(id) {
            Verdict::Again
        } else {
            Verdict::Dropped
        }
    }

    /// Judges a message by its number.
    fn judge(&mut self, arrival: Arrival) -> Verdict {
        match arrival {
            Arrival::Newest | Arrival::Late => Verdict::New,
            Arrival::Again => Verdict::Again,
            Arrival::Refused => {
                self.counters.impossible += 1;
                Verdict::Dropped
            }
        }
    }

    fn stranger(&mut self, id: NodeId, address: SocketAddr, now: Micros) -> Verdict {
        self.counters.strangers += 1;
        self.ask_if_unknown(id, address, now);
        Verdict::Dropped
    }

    fn take_state(
        &mut self,
        now: Micros,
        address: SocketAddr,
        message: &SilacMessage<'_>,
        state: &State,
    ) -> Verdict {
        let (id, number, hop) = (state.id, message.header.number, message.header.hop);
        if id == self.id {
            return Verdict::Dropped;
        }
        if !state.avatar.is_finite() {
            self.counters.impossible += 1;
            return Verdict::Dropped;
        }
        let frame = self.settings.frame;
        let Some(peer) = self.peers.get_mut(id) else { return self.stranger(id, address, now) };
        let arrival = peer.states.note(number);
        if arrival == Arrival::Newest {
            peer.avatar = state.avatar;
        }
        if matches!(arrival, Arrival::Newest | Arrival::Late) {
            peer.heard = now;
            peer.set_clock(number, now, frame);
            self.tell(SilacEvent::Heard { of: id, number, hop });
            if let Some(done) = state.done {
                self.learn(id, done, false, number, now);
            }
            if let Some(withdrawn) = state.withdrawn {
                self.learn(id, withdrawn, true, number, now);
            }
        }
        self.judge(arrival)
    }

    fn take_full(&mut self, now: Micros, address: SocketAddr, id: NodeId, number: u32) -> Verdict {
        if id == self.id {
            return Verdict::Dropped;
        }
        let Some(peer) = self.peers.get_mut(id) else { return self.stranger(id, address, now) };
        peer.heard = now;
        let arrival = peer.fulls.note(number);
        self.judge(arrival)
    }

    /// Handles an interaction or its withdrawal, if it is new, and its conflict with this node's own.
    fn learn(
        &mut self,
        id: NodeId,
        interaction: Interaction,
        withdrawn: bool,
        number: u32,
        now: Micros,
    ) {
        let SilacSettings { frame, conflict, .. } = self.settings;
        let Some(peer) = self.peers.get_mut(id) else { return };
        let Some(heard) = peer.learn(interaction, withdrawn, now) else { return };
        let at = peer.time_of(number, frame).unwrap_or(now);
        let (event, window) = if withdrawn {
            // It was withdrawn because of a third node's interaction; if ours was at about that time, because of ours.
            // The withdrawal comes later than the interaction by the time it took to notice the conflict.
            (SilacEvent::Withdrew(id, interaction), conflict + frame * GRACE)
        } else {
            (SilacEvent::Did(id, interaction), conflict)
        };
        self.tell(event);
        if !interaction.is_lasting() {
            return;
        }
        let other = RemoteInteraction { element: interaction.element(), at, heard };
        if let Some(mine) = self.path.conflict(other, window, self.frame) {
            self.counters.withdrawn += 1;
            self.tell(SilacEvent::Withdrew(self.id, mine));
        }
    }
}
