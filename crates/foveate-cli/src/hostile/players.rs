//! Attacks by players that the server has let in: they acknowledge what they get, so that they stay.

use super::links::client;
use super::{AttackTarget, BURST, HOSTILE, HostileKind, Orders, ROUND};
use foveate_arena::Arena;
use foveate_arena::game::{Action, Controls};
use foveate_io::{CloseCode, Endpoint, LinkEvent, LinkId};
use foveate_node::Game;
use foveate_node::game::PlayerId;
use foveate_node::session::{
    ClientDatagram, ClientMessage, JoinedPlayer, MAX_MESSAGE, ServerDatagram, ServerMessage,
    VERSIONS, read_message, write_message,
};
use foveate_sync::ReplicaSet;
use foveate_wire::{ObjectId, Tick};
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A client whose link was closed tries again after this.
const RETRY: Duration = Duration::from_millis(500);
/// How long ago, in ticks, what a client claims to have seen.
const CLAIMED: u32 = 40;

/// One of them.
struct HostilePlayer {
    number: usize,
    link: Option<LinkId>,
    retry: Instant,
    joined: Option<JoinedPlayer>,
    replicas: ReplicaSet,
    next_input: u16,
    /// Names that it has had.
    names: u32,
}

impl HostilePlayer {
    fn new(number: usize, game: &Arena) -> HostilePlayer {
        let replicas = ReplicaSet::new(Arc::clone(game.schema()), Tick(0));
        let (link, joined, retry) = (None, None, Instant::now());
        HostilePlayer { number, link, retry, joined, replicas, next_input: 0, names: 0 }
    }

    fn hello(&mut self, game: &Arena) -> Vec<u8> {
        self.names += 1;
        write_message(&ClientMessage::<Action>::Hello {
            versions: VERSIONS.to_vec(),
            schema: game.schema().hash(),
            name: format!("eve{}.{}", self.number, self.names),
            token: Vec::new(),
            resume: None,
        })
    }

    /// What a player must send in a round to stay: what arrived, and an input.
    fn datagram(&mut self, kind: HostileKind) -> Vec<u8> {
        let seen = self.replicas.newest().0.saturating_sub(CLAIMED);
        let fire = (kind == HostileKind::Lag).then_some(seen);
        let input = Controls { fire, ..Controls::default() };
        let (ack, first) = (self.replicas.ack(), self.next_input);
        self.next_input = first.wrapping_add(1);
        let mut bytes = Vec::new();
        ClientDatagram { ack, clock: 0, first, inputs: vec![input] }.write(&mut bytes);
        bytes
    }

    /// The next of a burst of messages.
    fn attack(&mut self, kind: HostileKind, me: JoinedPlayer, rng: &mut fastrand::Rng) -> Vec<u8> {
        let newest = self.replicas.newest().0;
        let unit = Arena::unit(me.player.0, 0).0;
        let message = match kind {
            HostileKind::Orders => {
                let action = Action::Order { target: rng.u16(..512) };
                ClientMessage::Ask { object: unit, action, seen: newest }
            }
            HostileKind::Lag => {
                let seen = newest.saturating_sub(CLAIMED);
                ClientMessage::Ask { object: unit, action: Action::Stay, seen }
            }
            HostileKind::Sweep if rng.bool() => ClientMessage::View(rng.u8(..4)),
            HostileKind::Sweep => {
                let others: Vec<ObjectId> = self.replicas.iter().map(|it| it.id()).collect();
                ClientMessage::Watch(rng.choice(others).map(|id| id.0))
            }
            HostileKind::Malformed if rng.u8(..) < 8 => {
                return vec![0; MAX_MESSAGE + 1 + rng.usize(..1_000)];
            }
            HostileKind::Malformed => return (0..rng.usize(1..60)).map(|_| rng.u8(..)).collect(),
            _ => ClientMessage::Who(rng.u32(..1_000)),
        };
        write_message(&message)
    }
}

/// Plays until told to stop.
pub fn play(
    kind: HostileKind,
    target: &AttackTarget,
    orders: &Orders,
) -> Result<(), Box<dyn Error>> {
    let (mut endpoint, mut events) = (client()?, Vec::new());
    let mut all: Vec<_> = (0..HOSTILE).map(|at| HostilePlayer::new(at, &target.game)).collect();
    let mut rng = fastrand::Rng::with_seed(7);
    while orders.goes_on() {
        let next = Instant::now() + ROUND;
        for player in &mut all {
            if player.link.is_none() && player.retry <= Instant::now() {
                player.link = endpoint.connect(target.server, "localhost").ok();
            }
            round(player, kind, &mut endpoint, orders, &mut rng);
        }
        endpoint.flush();
        while Instant::now() < next && orders.goes_on() {
            endpoint.wait(next, &mut events)?;
            for event in events.drain(..) {
                let player = all.iter_mut().find(|player| player.link == Some(event.link()));
                if let Some(player) = player {
                    let sent = on_event(player, kind, event, &mut endpoint, &target.game);
                    orders.count(sent);
                }
            }
        }
    }
    Ok(())
}

/// One player's round: what keeps it in, and a burst.
fn round(
    player: &mut HostilePlayer,
    kind: HostileKind,
    endpoint: &mut Endpoint,
    orders: &Orders,
    rng: &mut fastrand::Rng,
) {
    let (Some(link), Some(me)) = (player.link, player.joined) else { return };
    let datagram = player.datagram(kind);
    endpoint.send_datagram(link, &datagram).unwrap_or(());
    let burst = if kind == HostileKind::Churn { 0 } else { BURST };
    for _ in 0..burst {
        let message = player.attack(kind, me, rng);
        orders.count(usize::from(endpoint.send_message(link, &message).is_ok()));
    }
}

/// Joins, and keeps what is acknowledged; how many messages of an attack that sent.
fn on_event(
    player: &mut HostilePlayer,
    kind: HostileKind,
    event: LinkEvent,
    endpoint: &mut Endpoint,
    game: &Arena,
) -> usize {
    match event {
        LinkEvent::Connected { link, .. } => {
            let hello = player.hello(game);
            endpoint.send_message(link, &hello).unwrap_or(());
        }
        LinkEvent::Message { link, bytes } => match read_message(&bytes) {
            Some(ServerMessage::Welcome { player: number, avatar, tick, .. }) => {
                let (number, avatar) = (PlayerId(number), ObjectId(avatar));
                player.joined = Some(JoinedPlayer { player: number, avatar });
                player.replicas = ReplicaSet::new(Arc::clone(game.schema()), Tick(tick));
                player.next_input = 0;
                if kind == HostileKind::Churn {
                    let leave = write_message(&ClientMessage::<Action>::Leave);
                    endpoint.send_message(link, &leave).unwrap_or(());
                    let hello = player.hello(game);
                    endpoint.send_message(link, &hello).unwrap_or(());
                    return 2;
                }
            }
            Some(ServerMessage::Refused { .. }) => endpoint.close(link, CloseCode::DONE, ""),
            _ => {}
        },
        LinkEvent::Datagram { bytes, .. } => {
            if let Some(frame) = ServerDatagram::read(&bytes) {
                // What cannot be read is not acknowledged.
                let _ = player.replicas.receive(frame.state, |_| {});
            }
        }
        LinkEvent::Closed { .. } => {
            (player.link, player.joined) = (None, None);
            player.retry = Instant::now() + RETRY;
        }
    }
    0
}
