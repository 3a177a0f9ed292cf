//! `foveate bots`: real clients over QUIC, controlled by programs, all in one loop.

use crate::crowd::{CrowdGame, Wanderer};
use crate::serve::Rules;
use crate::token::issue;
use crate::truth::{EVERY, Truth};
use crate::usage;
use foveate_arena::{Arena, Fighter, Setup, Skill, TickRate};
use foveate_io::host::{ClientsHost, EndCause, SessionEnd};
use foveate_io::token::Secret;
use foveate_io::{
    CertificateHashError, Endpoint, EndpointOptions, Limits, RateLimit, ServerAddress, Trust,
};
use foveate_node::client::News;
use foveate_node::game::Brain;
use foveate_node::session::Refusal;
use foveate_node::{Game, Link};
use foveate_wire::{Micros, Tick};
use serde::Serialize;
use std::error::Error;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Clients that join per second.
const JOINS: u32 = 200;
/// The longest until all clients have joined.
const PATIENCE: Duration = Duration::from_secs(180);
/// Most corrections that are kept for the figures, since bots may play for years.
const MAX_CORRECTIONS: usize = 1 << 20;
/// A client whose session ended joins again after this time.
const FIRST_RETRY: Duration = Duration::from_millis(500);
/// The wait doubles with each failure, up to this.
const LONGEST_RETRY: Duration = Duration::from_secs(8);
/// One client in this many records its replicas.
const WITNESSES: usize = 16;

/// Clients controlled by programs
#[derive(clap::Args, Clone)]
pub struct BotsArgs {
    /// The server, HOST:PORT. For a world on several servers, a list separated by commas: bots come to all of them, and one whose
    /// session ended tries the next
    #[arg(
        long,
        visible_alias = "server",
        value_name = "HOST:PORT",
        value_delimiter = ',',
        required = true
    )]
    pub connect: Vec<ServerAddress>,
    /// Server certificates to accept: any, system (authorities that the system trusts), the hash of a certificate, or a
    /// PEM file of authorities
    #[arg(long, value_name = "TRUST", default_value = "any", value_parser = trust)]
    pub trust: Trust,
    /// How many clients
    #[arg(long, default_value_t = 60)]
    pub count: usize,
    /// Rules of the game
    #[arg(long, value_enum, default_value = "arena")]
    pub game: Rules,
    /// Ticks per second, as on the server
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=120))]
    pub tick_hz: u32,
    /// How long to play, in seconds
    #[arg(long, default_value_t = 60)]
    pub seconds: u64,
    /// Seed of the server's world and of the bots
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Prefix of their names; a number follows
    #[arg(long, default_value = "visitor")]
    pub name: String,
    /// The server's tokens.secret, if it requires tokens: each client gets one
    #[arg(long, value_name = "FILE")]
    pub secret: Option<PathBuf>,
    /// Players that the world is made for, as on the server
    #[arg(long, default_value_t = 1_024)]
    pub players: usize,
    /// Write the figures to this file
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Run on this processor only
    #[arg(long)]
    pub pin: Option<usize>,
}

/// Where clients record their replicas, and of which round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Witness<'a> {
    /// Some clients, of the round of their newest packet, which bounds apply to.
    Newest(&'a Path),
    /// All clients, of the server's current round, which shows delay and losses.
    Present(&'a Path),
}

/// Figures of all clients.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct BotFigures {
    pub clients: usize,
    pub connected: usize,
    /// Clients whose datagrams were sent beside QUIC at the end.
    pub direct: usize,
    pub join_ms_p50: f64,
    pub join_ms_p95: f64,
    pub core_share: f64,
    pub corrections_share: f64,
    /// Over all states of the client's own avatar, including correctly predicted ones; in world units.
    pub correction_p95: f64,
    /// Over mispredicted states only.
    pub corrected_p95: f64,
    pub replicas: f64,
    pub events_s: f64,
    pub malformed: u64,
    pub adjusted: u64,
    pub rtt_ms: f64,
    /// At the end, the rounds between the newest state of the slowest client and of the fastest one.
    pub behind_rounds: u32,
    /// Attempts to join again after a session ended.
    pub rejoins: u64,
    /// How often sessions went on at another server.
    pub moves: u64,
    /// The longest time that a client heard nothing from its host, of all clients.
    pub silent_ms_max: f64,
    /// The same, of 99 % of the clients.
    pub silent_ms_p99: f64,
}

/// How many states the clients predicted right, and wrong.
#[derive(Clone, Copy, Default)]
struct PredictionCounts {
    right: u64,
    wrong: u64,
}

/// A client's moves between servers since measuring began.
#[derive(Clone, Copy, Default)]
struct Passage {
    /// The link of its host.
    host: Option<Link>,
    moves: u64,
    /// Longest silence.
    silent: Micros,
}

/// When a client whose session ended joins again.
struct Retry {
    wait: Duration,
    due: Option<Instant>,
    /// Whether the last attempt found all links in use.
    is_unlinked: bool,
    /// Attempts so far: each goes to the next server.
    attempts: usize,
}

/// Whether a client that has not joined may still join.
fn is_passing(cause: &EndCause) -> bool {
    match cause {
        EndCause::Full | EndCause::TimedOut | EndCause::Lost(_) | EndCause::Closed { .. } => true,
        EndCause::Refused { code, .. } => {
            matches!(code, Refusal::Full | Refusal::Storage | Refusal::NameTaken | Refusal::Timeout)
        }
        _ => false,
    }
}

impl Default for Retry {
    fn default() -> Retry {
        Retry { wait: FIRST_RETRY, due: None, is_unlinked: false, attempts: 0 }
    }
}

impl Retry {
    /// Whether it is time to join. Waits differ between clients, so that not all join at the same moment.
    fn is_due(&mut self, now: Instant, share: f64) -> bool {
        match self.due {
            None => {
                self.due = Some(now + self.wait.mul_f64(0.5 + share / 2.0));
                self.wait = (2 * self.wait).min(LONGEST_RETRY);
                false
            }
            Some(due) if due <= now => {
                self.due = None;
                true
            }
            Some(_) => false,
        }
    }
}

impl Passage {
    fn note(&mut self, host: Option<Link>, heard: Option<Micros>, now: Micros) {
        if let (Some(was), Some(is)) = (self.host, host) {
            self.moves += u64::from(was != is);
        }
        self.host = host.or(self.host);
        self.silent = self.silent.max(heard.map_or(Micros::ZERO, |heard| now - heard));
    }
}

/// Parses `--trust`.
fn trust(text: &str) -> Result<Trust, CertificateHashError> {
    Ok(match text {
        "any" => Trust::InsecureDevelopmentOnly,
        "system" => Trust::System,
        file if Path::new(file).is_file() => Trust::Roots(file.into()),
        hash => Trust::Pinned(vec![hash.parse()?]),
    })
}

/// Plays, and prints the figures.
pub fn run(args: &BotsArgs) -> Result<(), Box<dyn Error>> {
    let figures = play(args, None, || Ok(()))?;
    let row = serde_json::to_string_pretty(&figures)?;
    println!("{row}");
    if let Some(path) = &args.json {
        let outcome =
            serde_json::json!({ "experiment": "bots", "seed": args.seed, "rows": [figures] });
        std::fs::write(path, outcome.to_string())?;
    }
    Ok(())
}

/// Plays. `mark` is called when measuring starts, after all clients have joined, and when it ends.
pub fn play(
    args: &BotsArgs,
    witness: Option<Witness<'_>>,
    mark: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<BotFigures, Box<dyn Error>> {
    if let Some(processor) = args.pin {
        usage::pin(processor);
    }
    match args.game {
        Rules::Arena => {
            let setup = Setup {
                rate: TickRate::new(args.tick_hz)?,
                ..Setup::for_players(args.players, args.seed)
            };
            let game = Arc::new(Arena::new(setup)?);
            let skills = [Skill::Novice, Skill::Regular, Skill::Expert];
            let bot = |nth: usize| {
                Fighter::new(Arc::clone(&game), skills[nth % 3], args.seed, nth as u64)
            };
            let brains = (0..args.count).map(bot).collect();
            Match::new(args, game, brains, witness)?.run(mark)
        }
        Rules::Crowd => {
            let game = Arc::new(CrowdGame::new(args.players)?);
            let wanderer = |seed| Wanderer::new(args.seed << 32 | seed, game.side());
            let brains = (0..args.count as u64).map(wanderer).collect();
            Match::new(args, game, brains, witness)?.run(mark)
        }
    }
}

struct Match<'a, G: Game, B> {
    args: &'a BotsArgs,
    game: Arc<G>,
    brains: Vec<B>,
    host: ClientsHost<G>,
    secret: Option<Secret>,
    truth: Option<Truth>,
    /// Whether all clients record, of the current round.
    present: bool,
    /// The round that each client recorded last.
    written: Vec<Tick>,
    /// The time until each client first joined, in milliseconds.
    joins: Vec<Option<f64>>,
    corrections: Vec<f64>,
    events: u64,
    retries: Vec<Retry>,
    rejoins: u64,
    passages: Vec<Passage>,
    rng: fastrand::Rng,
}

impl<'a, G: Game, B: Brain<G>> Match<'a, G, B> {
    fn new(
        args: &'a BotsArgs,
        game: Arc<G>,
        brains: Vec<B>,
        witness: Option<Witness<'_>>,
    ) -> Result<Match<'a, G, B>, Box<dyn Error>> {
        // Broken links keep their place for a moment.
        let links = 4 * args.count as u32 + 16;
        let limits = Limits {
            max_links: links,
            max_links_per_address: links,
            handshakes_per_address: RateLimit::per_second(100_000),
            ..Limits::client()
        };
        let options = EndpointOptions { limits, ..EndpointOptions::client() };
        // Loopback traffic stays on loopback; sockets of the other family follow.
        let is_loopback =
            |server: &ServerAddress| server.literal().is_some_and(|it| it.ip().is_loopback());
        let here = args.connect.iter().all(is_loopback);
        let bind = if here { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
        let endpoint = Endpoint::client((bind, 0).into(), &args.trust, options)?;
        let file = witness.map(|(Witness::Newest(file) | Witness::Present(file))| file);
        Ok(Match {
            args,
            game,
            brains,
            host: ClientsHost::new(endpoint),
            secret: args.secret.as_deref().map(Secret::read).transpose()?,
            truth: file.map(Truth::create).transpose()?,
            present: matches!(witness, Some(Witness::Present(_))),
            written: vec![Tick(0); args.count],
            joins: vec![None; args.count],
            corrections: Vec::new(),
            events: 0,
            retries: (0..args.count).map(|_| Retry::default()).collect(),
            rejoins: 0,
            passages: vec![Passage::default(); args.count],
            rng: fastrand::Rng::with_seed(args.seed),
        })
    }

    fn run(
        mut self,
        mut mark: impl FnMut() -> Result<(), Box<dyn Error>>,
    ) -> Result<BotFigures, Box<dyn Error>> {
        let began = Instant::now();
        while self.joins.iter().any(Option::is_none) {
            let due = (began.elapsed().as_secs_f64() * f64::from(JOINS)) as usize + 1;
            while self.host.players().len() < due.min(self.args.count) {
                let (name, token) = self.account(self.host.players().len())?;
                let at = self.host.players().len();
                let (game, server) = (Arc::clone(&self.game), self.server(at).clone());
                self.host.join(game, server, &name, token.as_bytes())?;
            }
            self.round(true)?;
            if began.elapsed() > PATIENCE || self.is_rejected() {
                return Err(self.complaint().into());
            }
        }
        // By then all clients have settled.
        let settled = Instant::now() + Duration::from_secs(5);
        while Instant::now() < settled {
            self.round(false)?;
        }
        mark()?;
        self.corrections.clear();
        self.events = 0;
        let afresh = |it: &mut Passage| *it = Passage { host: it.host, ..Passage::default() };
        self.passages.iter_mut().for_each(afresh);
        let before = self.counts();
        let (begun, cpu) = (Instant::now(), usage::processor_time());
        let end = begun + Duration::from_secs(self.args.seconds);
        while Instant::now() < end {
            self.round(false)?;
        }
        mark()?;
        // The server needs a round or two to notice before any client leaves.
        let noticed = Instant::now() + Duration::from_millis(300);
        while Instant::now() < noticed {
            self.round(false)?;
        }
        let core_share =
            (usage::processor_time() - cpu).as_secs_f64() / begun.elapsed().as_secs_f64();
        let figures = self.figures(before, core_share, begun.elapsed());
        self.host.leave(Micros::from_millis(500))?;
        Ok(figures)
    }

    /// The server that a client comes to.
    fn server(&self, nth: usize) -> &ServerAddress {
        &self.args.connect[nth % self.args.connect.len()]
    }

    /// A client's name, and a token for joining once.
    fn account(&self, at: usize) -> Result<(String, String), Box<dyn Error>> {
        let name = format!("{}-{at}", self.args.name);
        let token = self.secret.as_ref().map(|secret| issue(secret, &name, None, PATIENCE));
        Ok((name, token.transpose()?.unwrap_or_default()))
    }

    /// Why clients have not joined, or lost their sessions.
    fn ends(&self) -> impl Iterator<Item = &SessionEnd> {
        let out = self.host.players().iter().filter(|player| player.client.joined().is_none());
        out.filter_map(|player| player.ended.as_ref())
    }

    /// Whether a client was rejected for good.
    fn is_rejected(&self) -> bool {
        self.ends().any(|end| !is_passing(&end.cause))
    }

    /// Why not all clients have joined.
    fn complaint(&self) -> String {
        let (inside, all) = (self.joins.iter().flatten().count(), self.args.count);
        let end = self.ends().find(|end| !is_passing(&end.cause)).or_else(|| self.ends().next());
        match end {
            Some(end) => format!("{inside} of {all} bots joined; {end}"),
            None => {
                let servers: Vec<String> =
                    self.args.connect.iter().map(ToString::to_string).collect();
                format!("{inside} of {all} bots joined at {}; no answer", servers.join(", "))
            }
        }
    }

    fn round(&mut self, joining: bool) -> Result<(), Box<dyn Error>> {
        let Match { host, brains, .. } = self;
        // The time of joining is measured to 10 ms; later less precision is needed.
        let until = Instant::now() + Duration::from_millis(if joining { 10 } else { 25 });
        host.step(until, |at, world, me, asked| brains[at].think(world, me, asked))?;
        let now = host.now();
        for at in 0..self.host.players().len() {
            self.rejoin_when_due(at)?;
            let player = self.host.player(at);
            let client = &mut player.client;
            self.passages[at].note(client.host_link(), client.last_heard(), now);
            let room = self.corrections.len() < MAX_CORRECTIONS;
            let correction = client.take_correction().filter(|_| room);
            self.corrections.extend(correction.map(f64::from));
            let mut fresh = false;
            while let Some(news) = client.poll() {
                self.events += u64::from(matches!(news, News::Event(_)));
                fresh |= matches!(news, News::Change(_));
            }
            if self.joins[at].is_none() && client.joined().is_some() {
                self.joins[at] = Some(player.asked.elapsed().as_secs_f64() * 1e3);
            }
            let (tick, due) = if self.present {
                // What arrives now was sent half a round trip ago.
                let under_way = Micros(client.rtt().map_or(0, |rtt| rtt.0 / 2));
                let tick = client.tick_now(now + under_way);
                (tick, self.written[at] != tick)
            } else {
                (client.replicas.newest(), fresh && at.is_multiple_of(WITNESSES))
            };
            if let (Some(truth), true, Some(me)) =
                (&mut self.truth, due && tick.0.is_multiple_of(EVERY), client.joined())
            {
                truth.believe(me.avatar, &client.replicas, tick)?;
                self.written[at] = tick;
            }
        }
        Ok(())
    }

    /// Lets a client whose session ended join again: the server restarted, was paused or had no room, or the link broke.
    fn rejoin_when_due(&mut self, at: usize) -> Result<(), Box<dyn Error>> {
        let (player, retry) = (&self.host.players()[at], &mut self.retries[at]);
        if player.ended.is_none() && !retry.is_unlinked {
            if player.client.joined().is_some() {
                *retry = Retry { attempts: retry.attempts, ..Retry::default() };
            }
        } else if retry.is_due(Instant::now(), self.rng.f64()) {
            self.rejoins += 1;
            let (_, token) = self.account(at)?;
            self.host.player(at).client.set_token(token.as_bytes());
            self.retries[at].attempts += 1;
            let server = self.server(at + self.retries[at].attempts).clone();
            let done = self.host.rejoin(at, server);
            let retry = &mut self.retries[at];
            match done {
                Err(foveate_io::Error::Full { .. }) => retry.is_unlinked = true,
                done => {
                    retry.is_unlinked = false;
                    done?;
                }
            }
        }
        Ok(())
    }

    fn counts(&self) -> PredictionCounts {
        let all = self.host.players().iter().map(|player| player.client.counts());
        all.fold(PredictionCounts::default(), |sum, counts| PredictionCounts {
            right: sum.right + counts.foreseen,
            wrong: sum.wrong + counts.corrected,
        })
    }

    fn figures(
        &mut self,
        before: PredictionCounts,
        core_share: f64,
        passed: Duration,
    ) -> BotFigures {
        let players = self.host.players();
        let joined = players.iter().filter(|player| player.client.joined().is_some());
        let counts = self.counts();
        let (right, wrong) = (counts.right - before.right, counts.wrong - before.wrong);
        let mut joins: Vec<f64> = self.joins.iter().flatten().copied().collect();
        let rtts = players.iter().filter_map(|player| player.client.rtt());
        let mut rtts: Vec<f64> = rtts.map(Micros::as_millis).collect();
        let newest = players.iter().map(|player| player.client.replicas.newest().0);
        let (slowest, quickest) = (newest.clone().min(), newest.max());
        let replicas: usize = players.iter().map(|player| player.client.replicas.len()).sum();
        let mut silences: Vec<f64> = self.passages.iter().map(|it| it.silent.as_millis()).collect();
        BotFigures {
            clients: self.args.count,
            connected: joined.count(),
            direct: self.host.endpoint.direct_links(),
            join_ms_p50: usage::quantile(&mut joins, 0.5),
            join_ms_p95: usage::quantile(&mut joins, 0.95),
            core_share,
            corrections_share: wrong as f64 / (right + wrong).max(1) as f64,
            correction_p95: {
                // Correctly predicted states count as corrections of zero.
                let all = (right + wrong).max(1) as f64;
                let beyond = 1.0 - 0.05 * all / (self.corrections.len().max(1) as f64);
                if beyond < 0.0 { 0.0 } else { usage::quantile(&mut self.corrections, beyond) }
            },
            corrected_p95: usage::quantile(&mut self.corrections, 0.95),
            replicas: replicas as f64 / players.len().max(1) as f64,
            events_s: self.events as f64 / passed.as_secs_f64() / players.len().max(1) as f64,
            malformed: players.iter().map(|player| player.client.counts().malformed).sum(),
            adjusted: players.iter().map(|player| player.client.counts().adjusted).sum(),
            rtt_ms: usage::quantile(&mut rtts, 0.5),
            behind_rounds: quickest.unwrap_or(0) - slowest.unwrap_or(0),
            rejoins: self.rejoins,
            moves: self.passages.iter().map(|it| it.moves).sum(),
            silent_ms_max: usage::quantile(&mut silences, 1.0),
            silent_ms_p99: usage::quantile(&mut silences, 0.99),
        }
    }
}
