//! `foveate peer`: a game of the arena without a server.

use crate::lobbies::{Failure, Lobbies};
use crate::peer_monitor::{PeerMonitor, Standing};
use crate::silac::SilacWalk;
use crate::truth::TraceRecorder;
use crate::usage;
use crate::window::PeerWindow;
use foveate_arena::game::kinds::Match as Contest;
use foveate_arena::{Arena, Fighter, Setup, Skill};
use foveate_io::host::PeerHost;
use foveate_io::keys::KeyPair;
use foveate_io::peer::{PeerEndpoint, PeerOptions};
use foveate_node::game::{Brain, Game};
use foveate_node::lobby::Announcement;
use foveate_node::peer::{Key, PeerEvent, PeerSettings, Signer};
use foveate_wire::{Bytes, Metres, Micros};
use serde::Serialize;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const ROUND: Micros = Micros(50_000);
/// Rounds between two announcements, accounts and lines.
const EVERY: u32 = 20;
/// Times that the lobby is asked for contacts before this peer gives up.
const TRIES: usize = 5;

/// How much the interest of a trusted peer counts, unless --trust states it.
const TRUSTED: f32 = 4.0;
/// The range that --trust accepts.
const WEIGHTS: RangeInclusive<f32> = 1.0..=1_000_000.0;

/// A game without a server
#[derive(clap::Args, Clone)]
pub struct PeerArgs {
    /// Lobby at which to find the game and to be listed; may be given several times, for each address family or for
    /// several lobbies
    #[arg(long, required = true)]
    pub lobby: Vec<SocketAddr>,
    /// Name of the game; the first peer in it starts it. By default the name of what is played
    #[arg(long)]
    game: Option<String>,
    /// How peers exchange states
    #[arg(long, value_enum, default_value = "graded")]
    gossip: Gossip,
    /// Nodes to send to in a frame, with --gossip silac
    #[arg(long)]
    pub fan_out: Option<usize>,
    /// Number of bots in this process, each a peer with its own links. Without it there is one peer, for the player at
    /// --web
    #[arg(long, default_value_t = 0)]
    bots: usize,
    /// Serve the page at this address, for a browser on this machine, which plays as this peer, in place of its bot
    #[arg(long, value_parser = local)]
    web: Option<SocketAddr>,
    /// Serve metrics for Prometheus at this address, under `/metrics`; of several peers, those of the first
    #[arg(long)]
    metrics: Option<SocketAddr>,
    /// Address to listen on, at most one of each family
    #[arg(long)]
    pub listen: Vec<SocketAddr>,
    /// File with the peer's secret key, created at the first start; without it the key is new each time
    #[arg(long)]
    key: Option<PathBuf>,
    /// Relay for peers without a direct path (`https://…`); all peers of a game must name the same
    #[arg(long)]
    relay: Option<String>,
    /// Most bytes per second to send
    #[arg(long)]
    pub uplink: Option<u32>,
    /// Key of a peer whose interest counts for more, four times as much unless a weight is given: objects that it is
    /// interested in become its own. A peer prints its key when it starts; all peers of a game should trust the same
    #[arg(long, value_name = "KEY[=WEIGHT]", value_parser = trusted)]
    trust: Vec<(Key, f32)>,
    /// Players that the world is made for, if this peer starts it
    #[arg(long, default_value_t = 32)]
    players: u16,
    /// Seed of the world, if this peer starts it
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write the movement of the objects that this peer owns to this file, as a recording for the laboratory
    #[arg(long)]
    record: Option<PathBuf>,
    /// How long to play, in seconds; without it, until told to stop
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Do not print the state of the game every second
    #[arg(long)]
    pub headless: bool,
    /// Write the objects that this peer owns to this file once a second
    #[arg(long, hide = true)]
    pub account: Option<PathBuf>,
}

/// How peers exchange states.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Gossip {
    /// The arena: interested peers get states, the more exactly the nearer they are
    Graded,
    /// Walkers by Silac's protocol, for comparison and for networks whose members trust each other: all peers get
    /// everything, unsigned
    Silac,
}

impl PeerArgs {
    /// The game's name.
    pub fn game(&self) -> &str {
        let played = match self.gossip {
            Gossip::Graded => "arena",
            Gossip::Silac => "silac",
        };
        self.game.as_deref().unwrap_or(played)
    }

    /// Rejects options that exclude each other.
    fn check(&self) -> Result<(), &'static str> {
        let graded = self.web.is_some() || self.metrics.is_some() || self.record.is_some();
        let linked = self.key.is_some() || self.relay.is_some() || !self.trust.is_empty();
        match self.gossip {
            Gossip::Silac if graded || linked => {
                Err("--web, --metrics, --record, --key, --relay and --trust need --gossip graded")
            }
            Gossip::Graded if self.fan_out.is_some() => Err("--fan-out needs --gossip silac"),
            _ => Ok(()),
        }
    }

    /// The number of peers, at least one.
    fn count(&self) -> usize {
        self.bots.max(1)
    }
}

/// What a peer must know to join a world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct About {
    seed: u64,
    players: u16,
}

impl About {
    fn write(self) -> Vec<u8> {
        [&self.seed.to_le_bytes()[..], &self.players.to_le_bytes()].concat()
    }

    /// The lobby's entry for it.
    fn say(self, game: &str, players: u16, endpoint: &PeerEndpoint) -> Announcement {
        Announcement {
            game: game.into(),
            players,
            room: self.players,
            about: self.write(),
            contacts: endpoint.addresses(),
        }
    }

    fn read(bytes: &[u8]) -> Option<About> {
        let (seed, rest) = bytes.split_first_chunk::<8>()?;
        let players = rest.first_chunk::<2>().filter(|_| rest.len() == 2)?;
        Some(About { seed: u64::from_le_bytes(*seed), players: u16::from_le_bytes(*players) })
    }
}

/// The cost of playing for a peer.
#[derive(Clone, PartialEq, Debug, Serialize)]
struct Figures {
    player: u32,
    seconds: f64,
    sent_bytes_s: f64,
    received_bytes_s: f64,
    links: usize,
    players: usize,
    owned: usize,
    given: u64,
    taken_over: u64,
    rtt_ms: f64,
}

/// A peer's account of one round: what it owns and knows.
#[derive(Serialize)]
struct Account {
    tick: u32,
    player: u32,
    links: usize,
    players: usize,
    /// Owned objects and their epochs.
    owned: Vec<(u64, u32)>,
    /// Objects of the world that other peers own, and whose state is known here.
    kept: Vec<u64>,
    /// Other players whose avatars are known.
    sees: Vec<u32>,
    /// The current round of the game, and the points of both teams.
    score: (u16, u32),
    taken_over: u64,
    /// Banned players, with their faults.
    banned: Vec<(u32, String)>,
    /// Rejected messages, by fault.
    refused: Vec<u64>,
    sent_bytes: u64,
    received_bytes: u64,
    cpu_s: f64,
}

/// Plays until told to stop.
pub fn run(args: &PeerArgs) -> Result<(), Box<dyn Error>> {
    args.check()?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let (began, cpu) = (Instant::now(), usage::processor_time());
    let (tell, told) = mpsc::channel();
    let (mut tell, mut threads) = (Some(tell), Vec::new());
    for nth in 0..args.count() {
        let (args, stop, tell) = (args.clone(), Arc::clone(&stop), tell.take());
        threads.push(std::thread::spawn(move || match args.gossip {
            Gossip::Graded => play(Match::enter(&args, nth)?, args.seconds, &stop, tell),
            Gossip::Silac => play(SilacWalk::enter(&args, nth)?, args.seconds, &stop, tell),
        }));
        // The others join through the first, if it joins at all.
        if nth == 0 && told.recv().is_err() {
            break;
        }
    }
    let mut failure = None;
    for thread in threads {
        match thread.join() {
            Ok(Ok(figures)) => print(&figures),
            Ok(Err(error)) => failure = Some(error.to_string()),
            Err(_) => failure = Some("a peer's thread has panicked".into()),
        }
    }
    let spent = (usage::processor_time() - cpu).as_secs_f64() / args.count() as f64;
    let share = spent / began.elapsed().as_secs_f64() * 100.0;
    let memory = usage::resident_kib() / args.count() as f64;
    print(&format!("{share:.1} % of a core and {memory:.0} KiB a peer"));
    failure.map_or(Ok(()), |error| Err(error.into()))
}

/// A participant of a game without a server.
pub trait PeerApp {
    /// Plays the next round. True once a second, if it is in the game and listed.
    fn step(&mut self) -> Result<bool, Failure>;

    /// The lobbies at which it is listed.
    fn lobbies(&mut self) -> &mut Lobbies;

    /// Leaves the game, and returns the figures for `span`.
    fn end(self, span: Duration) -> Result<String, Failure>;
}

/// Plays until the end; sends a signal when the player has joined and is listed.
fn play<P: PeerApp>(
    mut player: P,
    seconds: Option<u64>,
    stop: &AtomicBool,
    mut inside: Option<mpsc::Sender<()>>,
) -> Result<String, Failure> {
    let began = Instant::now();
    let end = seconds.map(|seconds| began + Duration::from_secs(seconds));
    while !stop.load(Ordering::Relaxed) && end.is_none_or(|end| Instant::now() < end) {
        let noted = player.step()?;
        player.lobbies().poll();
        if let Some(inside) = inside.take_if(|_| noted) {
            // The receiver is gone if this is the only peer of the process.
            inside.send(()).unwrap_or(());
        }
    }
    player.lobbies().leave();
    player.end(began.elapsed())
}

/// One peer in a game.
struct Match<'a> {
    args: &'a PeerArgs,
    about: About,
    lobbies: Lobbies,
    host: PeerHost<Arena>,
    /// Plays while no player is at the window.
    brain: Option<Fighter>,
    window: Option<PeerWindow>,
    monitor: Option<PeerMonitor>,
    record: Option<TraceRecorder>,
    account: Option<BufWriter<File>>,
    tries: usize,
    /// The world's second of the last account.
    second: u32,
    is_first: bool,
}

impl PeerApp for Match<'_> {
    fn step(&mut self) -> Result<bool, Failure> {
        self.round()?;
        self.tell()?;
        let second = self.host.tick().0 / EVERY;
        let noted = second != self.second && self.host.peer.is_inside();
        if noted {
            self.second = second;
            self.announce();
            self.note()?;
        }
        if let Some(record) = &mut self.record {
            let store = &self.host.peer.simulation.publisher.store;
            record.note(self.host.tick(), ROUND.0 as f64 / 1_000.0, store)?;
        }
        if self.host.is_stranded() {
            self.ask_again()?;
        }
        Ok(noted)
    }

    fn lobbies(&mut self) -> &mut Lobbies {
        &mut self.lobbies
    }

    fn end(self, span: Duration) -> Result<String, Failure> {
        let figures = serde_json::to_string(&self.figures(span))?;
        self.window.map_or(Ok(()), PeerWindow::close)?;
        self.host.leave(Micros::from_millis(2_000))?;
        Ok(figures)
    }
}

impl<'a> Match<'a> {
    /// Finds the game, or starts it.
    fn enter(args: &'a PeerArgs, nth: usize) -> Result<Match<'a>, Failure> {
        let keys = match &args.key {
            Some(file) => KeyPair::keep(&numbered(file, nth))?,
            None => KeyPair::generate()?,
        };
        let player = keys.key().player();
        let mut lobbies = Lobbies::new(&args.lobby, &keys)?;
        let options = PeerOptions { relay: args.relay.clone(), ..PeerOptions::default() };
        let endpoint = PeerEndpoint::bind(&listen(args), &keys, options)?;
        let own = About { seed: args.seed, players: args.players };
        let found = lobbies.seek(&own.say(args.game(), 0, &endpoint))?;
        let about = match found.first() {
            Some(entry) => About::read(&entry.said.about).ok_or("this game is not the arena")?,
            None => own,
        };
        let arena =
            Arc::new(Arena::new(Setup::for_players(usize::from(about.players), about.seed))?);
        let sight = Metres(arena.view(0).map_or(f32::INFINITY, |view| view.zones[2]));
        let settings = PeerSettings {
            uplink: args.uplink.map(Bytes),
            ..PeerSettings::new(ROUND, sight, Vec::new())
        };
        let skills = [Skill::Novice, Skill::Regular, Skill::Expert];
        let skill = skills[player.0 as usize % skills.len()];
        let brain = Fighter::new(Arc::clone(&arena), skill, about.seed, u64::from(player.0));
        let name = format!("peer-{:06x}", player.0);
        let mut host = PeerHost::new(arena, settings, keys, endpoint, &name);
        args.trust.iter().for_each(|(key, weight)| host.peer.trust(*key, *weight));
        if args.key.is_some() {
            print(&format!("key {}", host.endpoint.key()));
        }
        match found.is_empty() {
            true => {
                host.found()?;
                lobbies.announce(&about.say(args.game(), 1, &host.endpoint))?;
            }
            false => host.join(found.into_iter().map(|entry| (entry.key, entry.said.contacts))),
        }
        let monitor = args.metrics.filter(|_| nth == 0).map(PeerMonitor::start);
        if let Some(Ok(monitor)) = &monitor {
            print(&format!("metrics on http://{}/metrics", monitor.address()));
        }
        let record = args.record.as_ref().map(|file| TraceRecorder::create(&numbered(file, nth)));
        let account = args.account.as_ref().map(|file| File::create(numbered(file, nth)));
        Ok(Match {
            args,
            about,
            lobbies,
            host,
            brain: (nth < args.bots).then_some(brain),
            window: None,
            monitor: monitor.transpose()?,
            record: record.transpose()?,
            account: account.transpose()?.map(BufWriter::new),
            tries: 1,
            second: 0,
            is_first: nth == 0,
        })
    }

    /// Plays the next round of the world, by the player at the window or else by the bot.
    fn round(&mut self) -> Result<(), Failure> {
        let Match { host, brain, window, .. } = self;
        let Some(window) = window else {
            return Ok(host.step(|peer| think(brain.as_mut(), peer))?);
        };
        loop {
            window.wait()?;
            let played = host.poll_step(|peer| {
                // What a player did before it left the window is done, too.
                window.act(peer);
                think(brain.as_mut().filter(|_| !window.is_taken()), peer);
            })?;
            if played {
                return Ok(());
            }
        }
    }

    /// Handles the events of a round.
    fn tell(&mut self) -> Result<(), Failure> {
        let events: Vec<_> = self.host.drain_events().collect();
        let mut happened = Vec::new();
        for event in events {
            match event {
                PeerEvent::Inside => {
                    self.say("inside");
                    self.announce();
                    self.open_window()?;
                }
                PeerEvent::Verdict(player, fault) => {
                    self.say(&format!("player {} is banned: {fault:?}", player.0));
                }
                PeerEvent::Happened(event) => happened.push(event),
                PeerEvent::Connect(..) | PeerEvent::Met(_) | PeerEvent::Parted(..) => {}
            }
        }
        if let Some(window) = &mut self.window {
            window.show(&self.host.peer, &happened)?;
        }
        Ok(())
    }

    fn open_window(&mut self) -> Result<(), Failure> {
        if let Some(listen) = self.args.web.filter(|_| self.is_first && self.window.is_none()) {
            let window = PeerWindow::open(listen, &self.host.peer, ROUND)?;
            print(&format!("pages on http://{}/", window.address()));
            self.window = Some(window);
        }
        Ok(())
    }

    /// The listed peers do not answer: others may by now.
    fn ask_again(&mut self) -> Result<(), Failure> {
        self.tries += 1;
        if self.tries > TRIES {
            return Err("no listed peer admitted this one; check the lobby and the network".into());
        }
        let found = self.lobbies.contacts(self.args.game())?;
        self.host.join(found.into_iter().map(|entry| (entry.key, entry.said.contacts)));
        Ok(())
    }

    fn players(&self) -> usize {
        self.host.peer.members().len() + 1
    }

    fn announce(&mut self) {
        let said = self.about.say(self.args.game(), self.players() as u16, &self.host.endpoint);
        self.lobbies.keep(&said);
    }

    fn say(&self, what: &str) {
        if !self.args.headless {
            print(&format!("{}: {what}", self.host.peer.player().0));
        }
    }

    /// Writes an account of what this peer owns, and prints its state.
    fn note(&mut self) -> Result<(), Failure> {
        let (peer, total) = (&self.host.peer, self.host.endpoint.total());
        let (me, others) = (peer.player().0, peer.world().of_kind(peer.avatar().kind()));
        let kept = peer.simulation.ghosts.iter().filter(|(id, _)| id.origin() == 0);
        let account = Account {
            tick: self.host.tick().0,
            player: me,
            links: peer.neighbours().count(),
            players: self.players(),
            owned: peer.owned().map(|(id, epoch)| (id.0, epoch)).collect(),
            kept: kept.map(|(id, _)| id.0).collect(),
            sees: others.iter().map(|id| id.origin()).filter(|it| *it != me).collect(),
            score: peer.world().get::<Contest>(Contest::ID).map_or((0, 0), |it| score(&it)),
            taken_over: peer.counts().taken_over,
            banned: peer.banned().map(|(it, fault)| (it.0, format!("{fault:?}"))).collect(),
            refused: peer.counts().refused.to_vec(),
            sent_bytes: total.sent.bytes,
            received_bytes: total.received.bytes,
            cpu_s: usage::processor_time().as_secs_f64(),
        };
        if self.is_first {
            let (players, owned) = (account.players, account.owned.len());
            self.say(&format!("{players} players, {} links, owns {owned}", account.links));
        }
        if let Some(monitor) = &mut self.monitor {
            monitor.note(&Standing {
                players: account.players,
                links: account.links,
                owned: account.owned.len(),
                counts: *peer.counts(),
                refused_actions: *peer.simulation.refused_actions(),
                total,
                liars: peer.banned().collect(),
            });
        }
        if let Some(file) = &mut self.account {
            writeln!(file, "{}", serde_json::to_string(&account)?)?;
            file.flush()?;
        }
        Ok(())
    }

    fn figures(&self, span: Duration) -> Figures {
        let (peer, total) = (&self.host.peer, self.host.endpoint.total());
        let (counts, rate) = (peer.counts(), |bytes: u64| bytes as f64 / span.as_secs_f64());
        Figures {
            player: peer.player().0,
            seconds: span.as_secs_f64(),
            sent_bytes_s: rate(total.sent.bytes),
            received_bytes_s: rate(total.received.bytes),
            links: peer.neighbours().count(),
            players: self.players(),
            owned: peer.owned().count(),
            given: counts.given,
            taken_over: counts.taken_over,
            rtt_ms: total.round_trip.0 as f64 / 1e3,
        }
    }
}

/// Prints a line. A closed standard output must not end the process before it has left the game.
pub fn print(line: &str) {
    writeln!(std::io::stdout(), "{line}").unwrap_or(());
}

/// Lets the bot act, if it plays.
fn think(brain: Option<&mut Fighter>, peer: &mut foveate_node::Peer<Arena>) {
    let Some(brain) = brain else { return };
    let mut asks = Vec::new();
    let input = brain.think(&peer.world(), peer.avatar(), &mut asks);
    peer.input(input);
    for (object, action) in asks {
        peer.ask(object, action);
    }
}

/// Parses an address of this machine: any browser that reaches the page plays as the peer.
fn local(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "expected address and port".to_owned())?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err("expected an address of this machine, such as 127.0.0.1:8080".into()),
    }
}

/// Parses a key, and how much the interest of its peer counts.
fn trusted(text: &str) -> Result<(Key, f32), String> {
    let (key, weight) = text.split_once('=').map_or((text, None), |(key, it)| (key, Some(it)));
    let key: Key =
        key.parse().map_err(|error| format!("{error}; a peer with --key prints its own"))?;
    let weight: f32 = match weight {
        Some(weight) => weight.parse().map_err(|_| format!("weight {weight:?} is not a number"))?,
        None => TRUSTED,
    };
    match WEIGHTS.contains(&weight) {
        true => Ok((key, weight)),
        false => {
            Err(format!("weight {weight} is not within {} to {}", WEIGHTS.start(), WEIGHTS.end()))
        }
    }
}

fn listen(args: &PeerArgs) -> Vec<SocketAddr> {
    if !args.listen.is_empty() {
        return args.listen.clone();
    }
    let local = |address: &SocketAddr| address.ip().is_loopback();
    let families = [("127.0.0.1:0", "0.0.0.0:0"), ("[::1]:0", "[::]:0")];
    let all_local = args.lobby.iter().all(local);
    let chosen = families.map(|(here, anywhere)| if all_local { here } else { anywhere });
    let wanted = |address: &SocketAddr| {
        !all_local || args.lobby.iter().any(|lobby| lobby.is_ipv4() == address.is_ipv4())
    };
    chosen.iter().filter_map(|text| text.parse().ok()).filter(wanted).collect()
}

fn score(contest: &Contest) -> (u16, u32) {
    (contest.round, u32::from(contest.first) + u32::from(contest.second))
}

/// The path for the file of the `nth` peer: as given for the first, with a number appended for the others.
pub fn numbered(file: &Path, nth: usize) -> PathBuf {
    if nth == 0 {
        return file.to_owned();
    }
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{nth}"));
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_is_a_key_with_an_optional_weight() {
        let key = "0f".repeat(32);
        assert_eq!(trusted(&key), Ok((Key([15; 32]), TRUSTED)));
        assert_eq!(trusted(&format!("{key}=250")), Ok((Key([15; 32]), 250.0)));
        for wrong in ["0f", &format!("{key}="), &format!("{key}=much"), &format!("{key}=0.5")] {
            assert!(trusted(wrong).is_err(), "{wrong}");
        }
        assert!(trusted(&format!("{key}=NaN")).is_err() && trusted(&format!("{key}=inf")).is_err());
    }
}
