//! What servers say to each other: best effort, by way of a broker, a direct link, or both.
//!
//! A message may be lost, late, doubled or overtaken. Whatever matters is therefore repeated, and taken in once.
//! How it travels is the host's matter; a host that has two ways may use both.

use super::gossip::Hearsay;
use super::layout::{RegionId, ServerId};
use super::ledger::{RecordError, read_record, write_record};
use super::log::{AskMark, ObjectState};
use crate::session::{ResumeKey, ServerContact, Ticket};
use foveate_wire::Micros;
use serde::{Deserialize, Serialize};

/// Objects named by one handoff message at most.
pub const MAX_HANDOFFS: usize = 64;
/// Actions in one message at most.
pub const MAX_ASKS_SENT: usize = 64;
/// Points beside its rectangle that a region is told about at most.
pub const MAX_POINTS: usize = 32;
/// Inputs of one avatar in one message at most.
pub const MAX_INPUTS_SENT: usize = 8;
/// Sessions in one message to a standby at most.
pub const MAX_NOTES: usize = 256;

/// Where a message goes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Recipient {
    /// All other servers of the world.
    All,
    /// One of them.
    Server(ServerId),
}

/// A message with its sender.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Envelope {
    /// The server that sends.
    pub from: ServerId,
    /// The world's time there, in microseconds: clocks follow it.
    pub world: u64,
    /// What is said.
    pub body: BusMessage,
}

/// Who speaks, of the regions: the region and the epoch in which the sender runs it. What comes from an epoch
/// below the highest that is known is dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub struct RegionEpoch {
    /// The region.
    pub region: RegionId,
    /// Its epoch.
    pub epoch: u32,
}

/// A neighbour's question for states, and its acknowledgement of those that came.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Subscription {
    /// For which region; of the same region: its standby asks for everything.
    pub to: RegionId,
    /// Names the stream of packets. The subscriber chooses another one whenever it begins anew.
    pub stream: u64,
    /// The newest packet that arrived, and the 32 before it.
    pub ack: Option<(u16, u32)>,
    /// Where the subscriber owns objects outside of its rectangle.
    pub points: Vec<[f32; 2]>,
}

/// An object on its way to another region.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HandoffState {
    /// The object.
    pub object: u64,
    /// Its new epoch.
    pub epoch: u32,
    /// The entry of the giver's log that gave it away.
    pub sequence: u64,
    /// How it is; none: it was removed on its way.
    pub state: Option<ObjectState>,
}

/// An action asked of an object in another region.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RemoteAsk {
    /// The object.
    pub object: u64,
    /// The asking region in its epoch, and the number of this action among those that it asked of this object.
    pub nonce: AskMark,
    /// All actions below this number are answered or given up.
    pub oldest: u64,
    /// The server to be answered.
    pub answer_to: ServerId,
    /// The action and who asks, as the game writes them.
    pub action: Vec<u8>,
}

/// A client that is on its way to a server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Expectation {
    /// The player's name.
    pub name: String,
    /// The key of the session that they resume, if they have one.
    pub resume: Option<ResumeKey>,
    /// Their number, if the session is to move; none: they join.
    pub player: Option<u32>,
    /// The region that they come to.
    pub region: RegionId,
}

/// Inputs for an avatar that another region owns: the last ones, repeated.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RemoteInputs {
    /// The player.
    pub player: u32,
    /// Counts how often the numbers began anew.
    pub stream: u32,
    /// Numbers and inputs, as the game writes them; oldest first.
    pub inputs: Vec<(u16, Vec<u8>)>,
}

/// What a standby has to know of a session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionNote {
    /// The player.
    pub player: u32,
    /// The player's name.
    pub name: String,
    /// For resuming.
    pub resume: ResumeKey,
    /// The version of the wire that the client speaks.
    pub version: u8,
    /// The view that the player chose.
    pub view: u8,
}

/// What is said.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum BusMessage {
    /// A sign of life, to all, of a server that hears of no other.
    Hello,
    /// From an owner to its standby.
    Beacon(RegionEpoch, u64),
    /// The answer: the beacon with this number arrived.
    BeaconAck(RegionEpoch, u64),
    /// Asks a region for states.
    Subscribe(RegionEpoch, Subscription),
    /// Packets of a stream: the publisher, the subscriber's region, the stream, and the packet.
    States(RegionEpoch, RegionId, u64, Vec<u8>),
    /// Objects for this region.
    Handoff(RegionEpoch, RegionId, Vec<HandoffState>),
    /// Actions for objects of this region.
    Asks(RegionId, Vec<RemoteAsk>),
    /// Actions that were carried out, or found no object: each with whether it was done.
    Answers(Vec<(u64, AskMark, bool)>),
    /// Asks for an answer at once, with the time by the asker's clock.
    Echo(u64),
    /// The answer to an echo, with the time that was in it.
    EchoReply(u64),
    /// What the sender knows of servers and players.
    Gossip(Hearsay),
    /// A region's owner asks a server without regions to help it.
    Help(RegionEpoch),
    /// How clients reach the sender, and how many players each of its regions has; to all, once a second.
    Players(ServerContact, Vec<(RegionId, u32)>),
    /// A client will come with this ticket.
    Expect(Ticket, Expectation),
    /// The answer: the ticket is good here.
    Expected(Ticket),
    /// The client has come with it, and waits.
    Ready(Ticket),
    /// A session for this region, in the game's own terms.
    Session(RegionEpoch, RegionId, Vec<u8>),
    /// The answer: the player's session of this epoch is here.
    SessionTaken(u32, u32),
    /// Inputs for an avatar of this region.
    Inputs(RegionId, RemoteInputs),
    /// The sessions of a region, for its standby: a part of them, and whether it is the first.
    Sessions(RegionEpoch, bool, Vec<SessionNote>),
}

impl Envelope {
    /// As bytes.
    pub fn write(&self) -> Vec<u8> {
        write_record(self)
    }

    /// Reads and checks a message.
    pub fn read(bytes: &[u8]) -> Result<Envelope, RecordError> {
        let envelope: Envelope = read_record(bytes)?;
        let fits = match &envelope.body {
            BusMessage::Subscribe(_, it) => {
                it.points.len() <= MAX_POINTS && it.points.iter().flatten().all(|at| at.is_finite())
            }
            BusMessage::Handoff(_, _, objects) => objects.len() <= MAX_HANDOFFS,
            BusMessage::Asks(_, asks) => asks.len() <= MAX_ASKS_SENT,
            BusMessage::Answers(answers) => answers.len() <= MAX_ASKS_SENT,
            BusMessage::Gossip(hearsay) => hearsay.fits(),
            BusMessage::Players(contact, _) => contact.is_valid(),
            BusMessage::Inputs(_, it) => it.inputs.len() <= MAX_INPUTS_SENT,
            BusMessage::Sessions(_, _, notes) => notes.len() <= MAX_NOTES,
            _ => true,
        };
        if fits { Ok(envelope) } else { Err(RecordError::Malformed) }
    }
}

/// A message on its way out. It must not leave after `expires`: the sender may have lost the right to say it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Publication {
    /// Where it goes.
    pub to: Recipient,
    /// The message.
    pub bytes: Vec<u8>,
    /// By the sender's clock.
    pub expires: Micros,
}

#[cfg(test)]
mod tests {
    use super::super::gossip::PlayerDigest;
    use super::super::servers::{RegionStatus, ServerStatus};
    use super::*;

    fn hearsay() -> Hearsay {
        let region = RegionStatus {
            region: RegionId(3),
            load: Some(512),
            players: 9,
            borders: vec![(RegionId(4), 1_000)],
        };
        let (regions, rtts) = (vec![region], vec![(ServerId(2), 900)]);
        let status =
            ServerStatus { stamp: 5, machine: 1, regions, rtts, ..ServerStatus::default() };
        let player = PlayerDigest { avatar: 7, region: RegionId(3), stamp: 5, hops: 1 };
        Hearsay { servers: vec![(ServerId(1), 2, status)], players: vec![player] }
    }

    #[test]
    fn messages_return_and_any_bytes_are_read_or_refused() {
        let by = RegionEpoch { region: RegionId(3), epoch: 9 };
        let nonce = AskMark { region: RegionId(1), epoch: 2, number: 3 };
        let state = ObjectState { tick: 5, lanes: vec![1, -2, 3], marks: vec![nonce] };
        let subscription = Subscription {
            to: RegionId(1),
            stream: 4,
            ack: Some((7, 9)),
            points: vec![[1.0, 2.0]],
        };
        let bodies = [
            BusMessage::Hello,
            BusMessage::Beacon(by, 17),
            BusMessage::BeaconAck(by, 17),
            BusMessage::Subscribe(by, subscription.clone()),
            BusMessage::States(by, RegionId(2), 4, vec![1, 2, 3]),
            BusMessage::Handoff(
                by,
                RegionId(2),
                vec![HandoffState { object: 7, epoch: 2, sequence: 11, state: Some(state) }],
            ),
            BusMessage::Asks(
                RegionId(2),
                vec![RemoteAsk {
                    object: 7,
                    nonce,
                    oldest: 2,
                    answer_to: ServerId(1),
                    action: vec![9],
                }],
            ),
            BusMessage::Answers(vec![(7, nonce, true)]),
            BusMessage::Echo(7),
            BusMessage::EchoReply(7),
            BusMessage::Help(by),
            BusMessage::Gossip(hearsay()),
        ];
        let mut rng = fastrand::Rng::with_seed(1);
        for body in bodies {
            let envelope = Envelope { from: ServerId(8), world: 1 << 40, body };
            let bytes = envelope.write();
            assert_eq!(Envelope::read(&bytes), Ok(envelope));
            (0..bytes.len()).for_each(|cut| assert!(Envelope::read(&bytes[..cut]).is_err()));
            for _ in 0..5_000 {
                let mut bent = bytes.clone();
                let at = rng.usize(..bent.len());
                bent[at] = rng.u8(..);
                let _ = Envelope::read(&bent);
            }
        }
        let points = vec![[f32::NAN, 0.0]];
        let body = BusMessage::Subscribe(by, Subscription { points, ..subscription });
        let bytes = Envelope { from: ServerId(8), world: 0, body }.write();
        assert_eq!(Envelope::read(&bytes), Err(RecordError::Malformed));
    }
}
