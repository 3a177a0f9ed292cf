//! The sessions of one region: inputs for avatars wherever they are owned, and what players are sent.
//!
//! A session is hosted by a region, its avatar is owned by a region; mostly it is the same one. While it is not, the host
//! sends inputs on to the owner. Each input has a number, and the avatar remembers the last one that it used: that
//! travels with it, so that no input is used twice, whichever way it came.

use super::bus::{BusMessage, MAX_INPUTS_SENT, RemoteInputs};
use super::layout::{Layout, RegionId, ServerId};
use super::log::AskMark;
use super::owner::{Effect, Region, Row, Surroundings};
use crate::game::{Game, PlayerId};
use crate::outbox::Outbox;
use crate::session::{ServerContact, Ticket};
use crate::sessions::RoundTime;
use crate::simulation::MAX_INPUTS;
use foveate_wire::{Micros, ObjectId, Tick};
use std::collections::VecDeque;

/// Inputs of one avatar that wait at its owner at most.
const MAX_REMOTE_INPUTS: usize = 16;
/// A client that is ready is so for this long, unless its next server says so again.
const READY_FOR: Micros = Micros(1_000_000);
/// In the place of an asking region: an avatar's mark for inputs.
const INPUTS: RegionId = RegionId(u32::MAX);

/// A session that a region hosts, beside what every session is.
#[derive(Clone, Debug, Default)]
pub(super) struct HostedSession {
    /// The session epoch, as the ledger has it.
    pub epoch: u32,
    /// Counts how often input numbers began anew.
    pub stream: u32,
    /// The last inputs that were used here or sent on.
    pub recent: VecDeque<(u16, Vec<u8>)>,
    /// The region that inputs were last sent to, and its epoch then.
    pub sent_to: Option<(RegionId, u32)>,
    /// The append that moves the session was asked for long ago: the region that it names may host the session already.
    pub held: bool,
    /// The player is leaving, and the avatar is nowhere, since then.
    pub nowhere_since: Option<Micros>,
    /// Where the avatar was in the last tick.
    pub was_at: Option<[f32; 2]>,
    /// What was offered to the client: a ticket for a server, drawn then.
    pub offer: Option<SessionOffer>,
    /// The standby that the client was told of.
    pub standby: Option<Option<ServerContact>>,
}

impl HostedSession {
    /// If the region that inputs were sent to was taken over, its new owner may not know which of them were used:
    /// numbers begin anew, and what was sent is not sent again.
    pub fn begin_anew(&mut self, layout: &Layout) {
        let lost = |(region, epoch)| layout.get(region).is_some_and(|info| info.epoch != epoch);
        if self.sent_to.is_some_and(lost) {
            self.stream += 1;
            self.sent_to = None;
            self.recent.clear();
        }
    }
}

/// A ticket that was drawn for a session's next server.
#[derive(Clone, Copy, Debug)]
pub(super) struct SessionOffer {
    pub ticket: Ticket,
    pub server: ServerId,
    pub region: RegionId,
    pub since: Micros,
    /// When the server was last told of it.
    pub sent: Option<Micros>,
    /// The server knows of it, and the client was told.
    pub named: bool,
    /// When the server last said that the client is there.
    pub ready: Option<Micros>,
}

impl SessionOffer {
    /// Whether the client is there: its server says so again and again.
    pub fn is_ready(&self, now: Micros) -> bool {
        self.ready.is_some_and(|heard| now - heard < READY_FOR)
    }
}

/// An input that came from another region.
#[derive(Clone, Copy, Debug)]
pub(super) struct RemoteInput<I> {
    pub stream: u32,
    pub seq: u16,
    pub input: I,
}

impl<G: Game> Region<G> {
    /// Gives avatars their inputs, or sends them to where the avatars are.
    pub(super) fn use_inputs(&mut self, tick: u32, around: &mut Surroundings<'_>) {
        self.hosted.values_mut().for_each(|hosted| hosted.begin_anew(around.layout));
        let mut given = Vec::new();
        self.sessions.next_inputs(|player, seq, input| given.push((player, seq, input)));
        let mut remote: Vec<PlayerId> = Vec::new();
        for (player, seq, input) in given {
            let avatar = self.simulation.game.avatar_of(player);
            let Some(hosted) = self.hosted.get_mut(&player).filter(|it| !it.held) else { continue };
            if let Ok(bytes) = postcard::to_allocvec(&input) {
                hosted.recent.push_back((seq, bytes));
                let surplus = hosted.recent.len().saturating_sub(MAX_INPUTS_SENT);
                hosted.recent.drain(..surplus);
            }
            let stream = hosted.stream;
            match self.rows.get(&avatar) {
                Some(Row::Owned(_)) => self.queue_input(avatar, RemoteInput { stream, seq, input }),
                _ => remote.push(player),
            }
        }
        remote.dedup();
        for player in remote {
            let avatar = self.simulation.game.avatar_of(player);
            let to = match self.rows.get(&avatar) {
                Some(Row::Relayed { from, .. }) => Some(*from),
                _ => self.transfers.get(&avatar).map(|it| it.to),
            };
            let Some((to, hosted)) = to.zip(self.hosted.get_mut(&player)) else { continue };
            hosted.sent_to = around.layout.get(to).map(|info| (to, info.epoch));
            let (player, stream) = (player.0, hosted.stream);
            let inputs = hosted.recent.iter().cloned().collect();
            around.send(to, BusMessage::Inputs(to, RemoteInputs { player, stream, inputs }));
        }
        let waiting: Vec<ObjectId> = self.inputs.keys().copied().collect();
        for avatar in waiting {
            self.use_queued(avatar, tick);
        }
    }

    fn queue_input(&mut self, avatar: ObjectId, input: RemoteInput<G::Input>) {
        let queue = self.inputs.entry(avatar).or_default();
        let known = queue.iter().any(|it| (it.stream, it.seq) == (input.stream, input.seq));
        if !known && queue.len() < MAX_REMOTE_INPUTS {
            queue.push_back(input);
        }
    }

    /// Uses what waits for an avatar, as far as a tick has room, each input once.
    fn use_queued(&mut self, avatar: ObjectId, tick: u32) {
        let Some(mut queue) = self.inputs.remove(&avatar) else { return };
        let Some(Row::Owned(row)) = self.rows.get_mut(&avatar) else { return };
        if row.stepped < tick {
            let mut used = 0;
            while let Some(next) = queue.front().copied().filter(|_| used < MAX_INPUTS) {
                queue.pop_front();
                let at = row.marks.iter().position(|mark| mark.region == INPUTS);
                let fresh = at.is_none_or(|at| {
                    let mark = row.marks[at];
                    let later = (next.seq.wrapping_sub(mark.number as u16) as i16) > 0;
                    next.stream > mark.epoch || (next.stream == mark.epoch && later)
                });
                if !fresh {
                    continue;
                }
                let number = u64::from(next.seq);
                let mark = AskMark { region: INPUTS, epoch: next.stream, number };
                match at {
                    Some(at) => row.marks[at] = mark,
                    None => row.marks.push(mark),
                }
                self.simulation.input(avatar, next.input);
                used += 1;
            }
        }
        if !queue.is_empty() {
            self.inputs.insert(avatar, queue);
        }
    }

    /// Another region's session has inputs for an avatar of this region.
    pub(super) fn on_inputs(&mut self, it: RemoteInputs) {
        let avatar = self.simulation.game.avatar_of(PlayerId(it.player));
        if !matches!(self.rows.get(&avatar), Some(Row::Owned(_))) {
            return;
        }
        for (seq, bytes) in it.inputs {
            let Ok(input) = postcard::from_bytes::<G::Input>(&bytes) else { continue };
            if self.simulation.game.allows(&input) {
                self.queue_input(avatar, RemoteInput { stream: it.stream, seq, input });
            }
        }
    }

    /// States leave: to neighbours and standby as messages, to players as datagrams.
    pub(super) fn publish(
        &mut self,
        tick: u32,
        around: &mut Surroundings<'_>,
        out: &mut impl Outbox,
    ) {
        let (name, now) = (self.name(), around.now);
        let names: std::collections::BTreeMap<_, _> = self
            .subscribers
            .iter()
            .map(|(id, it)| (it.observer, (*id, it.server, it.stream)))
            .collect();
        let Region { simulation, sessions, subscribers, .. } = self;
        let players = sessions.players() > 0;
        if players {
            sessions.prepare(simulation, Tick(tick), now);
        }
        let round = RoundTime { tick: Tick(tick), now };
        simulation.publisher.round(round.tick, now, |observer, packet| {
            if let Some((region, server, stream)) = names.get(&observer) {
                if let Some(it) = subscribers.get_mut(region) {
                    it.bytes += packet.len() as u64;
                }
                let states = BusMessage::States(name, *region, *stream, packet.to_vec());
                around.effects.push(Effect::Send(*server, states));
            } else {
                sessions.send_packet(observer, round, packet, out);
            }
        });
        if players {
            sessions.conclude(simulation, round, out);
        }
    }
}
