//! `foveate peer --gossip silac`: avatars that walk and act on a shared world, by Silac's gossip on real sockets.
//! `foveate lab silac` measures the same in virtual time.

use crate::lobbies::{Failure, Lobbies};
use crate::peer::{self, PeerApp, PeerArgs, numbered};
use foveate_io::keys::KeyPair;
use foveate_lab::movement::{Movement, Waypoint, WaypointSpec};
use foveate_node::lobby::Announcement;
use foveate_node::peer::Signer;
use foveate_silac::{
    Act, Interaction, MAX_PEERS, NodeId, SilacAvatar, SilacEvent, SilacFrame, SilacHost,
    SilacSettings,
};
use serde::Serialize;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Frames per second.
const RATE: u32 = 20;
/// The side of the world; walkers have the speeds of the arena's.
const SIDE: f32 = 300.0;
const SPEED: [f32; 2] = [4.0, 9.0];
/// Elements that can be acted on, in rows over the whole world.
const ROWS: u32 = 8;
/// Frames between two actions of an avatar, on average.
const ACT_EVERY: u32 = 40;
/// Most frames that an action lasts.
const MAX_ACT: u32 = 8;
/// Actions that a node remembers.
const MAX_DEEDS: usize = 256;
/// Marks a game in a lobby as one by Silac's gossip; its number follows.
const ABOUT: &[u8] = b"silac";

/// The cost of playing for a node: the columns of `foveate lab silac` that one node can measure.
#[derive(Serialize)]
struct Figures {
    gossip: &'static str,
    node: u32,
    seconds: f64,
    nodes: usize,
    fanout: usize,
    bytes_s: f64,
    /// Shares of first copies of states that had been passed on never, once and twice.
    hops: [f64; 3],
    /// Numbers of this avatar's actions, and of other avatars' actions known here.
    did: u64,
    learnt: u64,
    withdrawn: u64,
}

/// A node's account of one second.
#[derive(Serialize)]
struct Account {
    node: u32,
    knows: Vec<u32>,
    /// The last actions that changed the world and were not withdrawn: avatar and number.
    deeds: Vec<(u32, u32)>,
}

/// One node in a game.
pub struct SilacWalk<'a> {
    args: &'a PeerArgs,
    host: SilacHost,
    settings: SilacSettings,
    lobbies: Lobbies,
    said: Announcement,
    walker: Waypoint,
    random: fastrand::Rng,
    account: Option<BufWriter<File>>,
    deeds: VecDeque<(NodeId, Interaction)>,
    hops: [u64; 3],
    learnt: u64,
    is_first: bool,
}

impl PeerApp for SilacWalk<'_> {
    fn step(&mut self) -> Result<bool, Failure> {
        self.frame()?;
        let silac = &self.host.silac;
        let noted = silac.is_in() && silac.frame().is_multiple_of(RATE);
        if noted {
            self.note()?;
        }
        Ok(noted)
    }

    fn lobbies(&mut self) -> &mut Lobbies {
        &mut self.lobbies
    }

    fn end(self, span: Duration) -> Result<String, Failure> {
        let figures = serde_json::to_string(&self.figures(span))?;
        self.host.leave();
        Ok(figures)
    }
}

impl<'a> SilacWalk<'a> {
    /// Finds the game, or starts it.
    pub fn enter(args: &'a PeerArgs, nth: usize) -> Result<SilacWalk<'a>, Failure> {
        let keys = KeyPair::generate()?;
        let key = keys.key();
        let mut lobbies = Lobbies::new(&args.lobby, &keys)?;
        // No two nodes have the same key.
        let seed = key.0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let mut random = fastrand::Rng::with_seed(seed);
        let uplink = args.uplink.unwrap_or(SilacSettings::default().uplink);
        let fan_out = args.fan_out.unwrap_or(SilacSettings::default().fan_out);
        let world = [[0.0; 3], [SIDE, SIDE, 0.0]];
        let settings = SilacSettings { fan_out, uplink, world, ..SilacSettings::default() };
        let name = format!("walker-{:06x}", key.player().0);
        let mut host = SilacHost::bind(listen(args)?, settings, &name, random.u64(..))?;
        let coming = Announcement {
            game: args.game().into(),
            players: 0,
            room: MAX_PEERS as u16,
            about: [ABOUT, &random.u32(..).to_le_bytes()].concat(),
            contacts: vec![host.silac.address()],
        };
        let found = lobbies.seek(&coming)?;
        let about = found.first().map_or(&coming.about, |entry| &entry.said.about);
        let game = about.strip_prefix(ABOUT).and_then(|rest| rest.try_into().ok());
        let game = game.map(u32::from_le_bytes).ok_or("this game does not use Silac's gossip")?;
        let said = Announcement { players: 1, about: about.clone(), ..coming };
        let spec = WaypointSpec {
            count: 1,
            side: SIDE,
            speed: SPEED,
            pause: [0.0, 2.0],
            leg: f32::INFINITY,
            rate: RATE as f32,
        };
        let walker = Waypoint::new(spec, random.u64(..));
        let frame = SilacFrame { avatar: stand(&walker), act: None };
        let contacts: Vec<SocketAddr> =
            found.iter().flat_map(|entry| entry.said.contacts.iter().copied()).collect();
        match contacts.is_empty() {
            true => {
                host.found(game, frame);
                lobbies.announce(&said)?;
            }
            false => host.join(game, &contacts, frame),
        }
        let account = args.account.as_ref().map(|file| File::create(numbered(file, nth)));
        Ok(SilacWalk {
            args,
            host,
            settings,
            lobbies,
            said,
            walker,
            random,
            account: account.transpose()?.map(BufWriter::new),
            deeds: VecDeque::new(),
            hops: [0; 3],
            learnt: 0,
            is_first: nth == 0,
        })
    }

    fn frame(&mut self) -> Result<(), Failure> {
        let SilacWalk { host, walker, random, .. } = self;
        host.step(|_| {
            walker.step();
            let avatar = stand(walker);
            SilacFrame { avatar, act: act(&avatar, random) }
        })?;
        for event in self.host.drain_events().collect::<Vec<_>>() {
            self.heed(event)?;
        }
        Ok(())
    }

    fn heed(&mut self, event: SilacEvent) -> Result<(), Failure> {
        match event {
            SilacEvent::Unanswered => {
                return Err("no listed contact answers; is the game still running?".into());
            }
            SilacEvent::Rejected(why) => {
                return Err(format!("the game rejects this node: {why:?}").into());
            }
            SilacEvent::Heard { hop, .. } => self.hops[usize::from(hop).min(2)] += 1,
            SilacEvent::Did(by, deed) => {
                self.learnt += u64::from(by != self.host.silac.id());
                if deed.is_lasting() {
                    self.deeds.push_back((by, deed));
                    self.deeds.drain(..self.deeds.len().saturating_sub(MAX_DEEDS));
                }
            }
            SilacEvent::Withdrew(by, deed) => self.deeds.retain(|it| *it != (by, deed)),
            SilacEvent::Joined => self.say("inside"),
            SilacEvent::Appeared(_) | SilacEvent::Vanished(..) => {}
        }
        Ok(())
    }

    fn say(&self, what: &str) {
        if !self.args.headless {
            peer::print(&format!("{:08x}: {what}", self.host.silac.id().0));
        }
    }

    /// Once a second: announces the game, and writes an account of what it knows.
    fn note(&mut self) -> Result<(), Failure> {
        let silac = &self.host.silac;
        let knows: Vec<u32> = silac.peers().map(|(id, _)| id.0).collect();
        let said = Announcement { players: knows.len() as u16 + 1, ..self.said.clone() };
        self.lobbies.keep(&said);
        if self.is_first {
            self.say(&format!("{} other nodes, {} interactions learnt", knows.len(), self.learnt));
        }
        if let Some(file) = &mut self.account {
            let deeds = self.deeds.iter().map(|(by, deed)| (by.0, deed.code())).collect();
            let account = Account { node: silac.id().0, knows, deeds };
            writeln!(file, "{}", serde_json::to_string(&account)?)?;
            file.flush()?;
        }
        Ok(())
    }

    fn figures(&self, span: Duration) -> Figures {
        let (silac, seconds) = (&self.host.silac, span.as_secs_f64());
        let (counters, heard) = (silac.counters(), self.hops.iter().sum::<u64>().max(1));
        Figures {
            gossip: "silac",
            node: silac.id().0,
            seconds,
            nodes: silac.peers().count() + 1,
            fanout: self.settings.fan_out,
            bytes_s: counters.sent_bytes as f64 / seconds,
            hops: self.hops.map(|count| count as f64 / heard as f64),
            did: counters.did,
            learnt: self.learnt,
            withdrawn: counters.withdrawn,
        }
    }
}

fn stand(walker: &Waypoint) -> SilacAvatar {
    let pose = walker.pose(0).unwrap_or_default();
    let facing = [pose.yaw.cos(), pose.yaw.sin(), 0.0];
    SilacAvatar { position: pose.pos, facing, state: 0, weapon: 0 }
}

/// Now and then an avatar acts on the nearest element.
fn act(avatar: &SilacAvatar, random: &mut fastrand::Rng) -> Option<Act> {
    if random.u32(..ACT_EVERY) > 0 {
        return None;
    }
    let cell = |at: f32| ((at / SIDE * ROWS as f32) as u32).min(ROWS - 1);
    let element = cell(avatar.position[1]) * ROWS + cell(avatar.position[0]);
    let lasting = random.bool();
    let frames = if lasting { random.u32(1..=MAX_ACT) } else { 1 };
    Some(Act { element, lasting, frames })
}

/// The address at which this node receives messages: as given, or the local address towards the lobby.
fn listen(args: &PeerArgs) -> Result<SocketAddr, Failure> {
    match args.listen.as_slice() {
        [] => {}
        [address] => return Ok(*address),
        _ => return Err("--gossip silac takes one --listen address".into()),
    }
    let lobby = args.lobby.first().ok_or("no lobby was named")?;
    let any: IpAddr = match lobby {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let towards = UdpSocket::bind((any, 0))?;
    towards.connect(lobby)?;
    Ok(SocketAddr::new(towards.local_addr()?.ip(), 0))
}
