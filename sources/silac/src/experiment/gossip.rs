//! What a protocol of peers must offer to be measured in the same world as others.

use crate::{
    Act, Me, NodeId, Silac, SilacAvatar, SilacEvent, SilacFrame, SilacInput, SilacSettings,
};
use foveate_node::Output;
use foveate_wire::Micros;
use std::net::SocketAddr;

/// A participant's place in the laboratory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Seat {
    /// Which of all participants it is.
    pub number: usize,
    /// Bytes per second that it can send.
    pub uplink: u32,
    /// The side of the square world.
    pub side: f32,
    /// What its chance is drawn from.
    pub seed: u64,
}

/// Participants live in 10.0.0.0/8, all at one port.
fn address(at: usize) -> SocketAddr {
    let [_, a, b, c] = (at as u32).to_be_bytes();
    SocketAddr::from(([10, a, b, c], 27_960))
}

fn number(address: SocketAddr) -> usize {
    let SocketAddr::V4(address) = address else { return usize::MAX };
    let [_, a, b, c] = address.ip().octets();
    u32::from_be_bytes([0, a, b, c]) as usize
}

/// A participant's avatar in one frame.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GossipMoment {
    /// Where it is.
    pub place: [f32; 3],
    /// The way it looks, radians from +x.
    pub yaw: f32,
    /// What it does from now on.
    pub act: Option<Act>,
}

/// What a participant wants done, or has learnt.
#[derive(Clone, PartialEq, Debug)]
pub enum GossipOutput {
    /// Send this to somebody.
    Send(usize, Vec<u8>),
    /// A state came for the first time.
    Heard {
        /// Whose.
        of: usize,
        /// Of which frame.
        frame: u32,
        /// Links that it came over.
        hops: usize,
    },
    /// Somebody did something, or it did so itself.
    Did(usize, u32),
    /// Somebody takes something back, or it does so itself.
    Undid(usize, u32),
}

/// A protocol by which participants keep each other up to date.
pub trait Gossip: Sized {
    /// Its name in rows.
    const NAME: &'static str;
    /// What can be set; the world fills in the rest.
    type Settings: Copy + Send + Sync;

    /// Somebody who is in no game yet.
    fn new(settings: &Self::Settings, seat: &Seat) -> Self;
    /// How many are told at once, as rows have it.
    fn fan_out(settings: &Self::Settings) -> usize;
    /// Enters the game by way of some who are in it; without any, founds it.
    fn enter(&mut self, now: Micros, contacts: &[usize], moment: &GossipMoment);
    /// Leaves.
    fn leave(&mut self, now: Micros);
    /// The next frame.
    fn frame(&mut self, now: Micros, moment: &GossipMoment);
    /// The number of the state that the last frame published; one more in each frame.
    fn number(&self) -> u32;
    /// Takes a datagram in.
    fn receive(&mut self, now: Micros, from: usize, bytes: &[u8]);
    /// The next thing said, after each of the above, until there is none.
    fn poll(&mut self) -> Option<GossipOutput>;
    /// The number of the newest state held of somebody; nothing: not known.
    fn newest(&self, other: usize) -> Option<u32>;
    /// Links that a datagram's news will have come over on arrival.
    fn hops(bytes: &[u8]) -> usize;
}

/// Silac's node in its seat.
pub struct BySilac(Silac);

impl BySilac {
    /// Which of all participants somebody known here is.
    fn number_of(&self, id: NodeId) -> Option<usize> {
        let known = self.0.peer(id).map(|peer| peer.address);
        known.or((id == self.0.id()).then_some(self.0.address())).map(number)
    }

    fn heed(&self, output: Output<SocketAddr, SilacEvent>) -> Option<GossipOutput> {
        match output {
            Output::Transmit(to, bytes) => Some(GossipOutput::Send(number(to), bytes)),
            Output::Event(SilacEvent::Heard { of, number: frame, hop }) => {
                let (of, hops) = (self.number_of(of)?, usize::from(hop) + 1);
                Some(GossipOutput::Heard { of, frame, hops })
            }
            Output::Event(SilacEvent::Did(by, what)) => {
                Some(GossipOutput::Did(self.number_of(by)?, what.code()))
            }
            Output::Event(SilacEvent::Withdrew(by, what)) => {
                Some(GossipOutput::Undid(self.number_of(by)?, what.code()))
            }
            Output::Event(_) | Output::WakeAt(_) => None,
        }
    }
}

/// The game's id: any will do, as there is one game only.
const GAME: u32 = 1;

fn in_frame(moment: &GossipMoment) -> SilacFrame {
    let facing = [moment.yaw.cos(), moment.yaw.sin(), 0.0];
    let avatar = SilacAvatar { position: moment.place, facing, state: 0, weapon: 0 };
    SilacFrame { avatar, act: moment.act }
}

impl Gossip for BySilac {
    const NAME: &'static str = "silac";
    type Settings = SilacSettings;

    fn new(settings: &SilacSettings, seat: &Seat) -> BySilac {
        let world = [[0.0; 3], [seat.side, seat.side, 0.0]];
        let settings = SilacSettings { uplink: seat.uplink, world, ..*settings };
        let name = format!("player {}", seat.number);
        let me = Me { address: address(seat.number), name, model: 0 };
        BySilac(Silac::new(settings, me, seat.seed))
    }

    fn fan_out(settings: &SilacSettings) -> usize {
        settings.fan_out
    }

    fn enter(&mut self, now: Micros, contacts: &[usize], moment: &GossipMoment) {
        let contacts: Vec<SocketAddr> = contacts.iter().map(|at| address(*at)).collect();
        let (game, frame) = (GAME, in_frame(moment));
        self.0.handle(
            now,
            match contacts.as_slice() {
                [] => SilacInput::Found { game, frame },
                contacts => SilacInput::Join { game, contacts, frame },
            },
        );
    }

    fn leave(&mut self, now: Micros) {
        self.0.handle(now, SilacInput::Leave);
    }

    fn frame(&mut self, now: Micros, moment: &GossipMoment) {
        self.0.handle(now, SilacInput::Frame(in_frame(moment)));
    }

    fn number(&self) -> u32 {
        self.0.frame()
    }

    fn receive(&mut self, now: Micros, from: usize, bytes: &[u8]) {
        self.0.handle(now, SilacInput::Datagram(address(from), bytes));
    }

    fn poll(&mut self) -> Option<GossipOutput> {
        while let Some(output) = self.0.poll() {
            let said = self.heed(output);
            if said.is_some() {
                return said;
            }
        }
        None
    }

    fn newest(&self, other: usize) -> Option<u32> {
        self.0.peer(NodeId::of(address(other))).map(|peer| peer.newest())
    }

    fn hops(bytes: &[u8]) -> usize {
        // The header's second byte counts how often a message was passed on.
        bytes.get(1).map_or(0, |hop| usize::from(*hop)) + 1
    }
}
