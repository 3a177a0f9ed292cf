//! `foveate lab threads`: the arena's server on one thread and on several.
//!
//! Bots play a match in this process, and what their clients send is recorded. A second server then receives the same,
//! tick by tick, without any client. Ticks on one thread and on several alternate, so that the machine's other load
//! affects both alike. What the second server sends is compared with what the first one sent.

use clap::{Args, Command};
use foveate_arena::{Arena, Fighter, Setup, Skill};
use foveate_lab::experiments::{Done, Experiment, ExperimentError, LabHost, LabRequest};
use foveate_lab::output::{ExperimentResult, Progress, Table, Verdict};
use foveate_lab::report::Report;
use foveate_node::game::{Brain, PlayerId};
use foveate_node::server::{ServerEvent, ServerSettings};
use foveate_node::session::{Refusal, ResumeKey};
use foveate_node::{Client, Link, Outbox, Server};
use foveate_sync::Threads;
use foveate_wire::{Micros, Tick};
use serde::Serialize;
use std::sync::Arc;

/// This crate's experiments.
pub const ALL: &[&dyn Experiment] = &[&ThreadsExperiment];

const ROUND: Micros = Micros(50_000);
/// Ticks until all players have joined and know the players near them.
const WARM_UP: u32 = 100;
/// Ticks with each number of threads.
const COMPARED: u32 = 60;
const PLAYERS: usize = 1_000;
const QUICK_PLAYERS: usize = 160;

#[derive(Args)]
struct ThreadsArguments {
    /// Number of players, each a bot
    #[arg(long, value_name = "N")]
    players: Option<usize>,
    /// Number of threads to compare with one
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: usize,
}

struct ThreadsExperiment;

impl Experiment for ThreadsExperiment {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn about(&self) -> &'static str {
        "A recorded match through the arena's server, ticks on one thread and on several in turn"
    }

    fn options(&self, command: Command) -> Command {
        ThreadsArguments::augment_args(command)
    }

    fn run(&self, request: &LabRequest<'_>) -> Result<Done, ExperimentError> {
        let arguments: ThreadsArguments = request.arguments()?;
        let usual = if request.options.quick { QUICK_PLAYERS } else { PLAYERS };
        let players = arguments.players.unwrap_or(usual).max(1);
        let pool = Threads::new(arguments.threads)
            .map_err(|error| ExperimentError::Usage(format!("--threads: {error}")))?;
        let setup = Setup::for_players(players, request.options.seed);
        let arena = Arena::new(setup).map_err(|error| ExperimentError::Usage(error.to_string()))?;
        let (arena, ticks) = (Arc::new(arena), WARM_UP + 2 * COMPARED);
        let progress = Progress::new("threads", 2 * u64::from(ticks));
        let recording = record(&arena, players, ticks, &progress);
        let row = replay(&arena, &recording, &pool, request.host, &progress);
        progress.finish();
        finish(&row, request.options.seed)
    }
}

/// What arrives at a server between two ticks.
#[derive(Default)]
struct Arrivals {
    messages: Packets,
    datagrams: Packets,
}

/// Packets in order, in one buffer that is reused.
#[derive(Clone, PartialEq, Default)]
struct Packets {
    bytes: Vec<u8>,
    /// For each packet its link, and where it ends.
    ends: Vec<(Link, usize)>,
}

impl Packets {
    fn push(&mut self, link: Link, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push((link, self.bytes.len()));
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn iter(&self) -> impl Iterator<Item = (Link, &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        starts.zip(&self.ends).map(|(start, (link, end))| (*link, &self.bytes[start..*end]))
    }
}

impl Outbox for Arrivals {
    fn datagram(&mut self, to: Link, bytes: &[u8]) {
        self.datagrams.push(to, bytes);
    }

    fn message(&mut self, to: Link, bytes: &[u8]) {
        self.messages.push(to, bytes);
    }

    fn close(&mut self, _: Link, _: Refusal) {}
}

/// A recorded match: what its server received and sent.
struct Recording {
    players: usize,
    heard: Vec<Arrivals>,
    /// A hash of what was sent in each tick.
    sent: Vec<u64>,
}

/// FNV-1a over all packets.
fn check(sent: &Arrivals) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325u64;
    let mut add = |byte: u8| sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    for (link, bytes) in sent.messages.iter().chain(sent.datagrams.iter()) {
        link.0.to_le_bytes().into_iter().for_each(&mut add);
        bytes.iter().copied().for_each(&mut add);
    }
    sum
}

/// A server of an arena, and what it sends.
struct Stage {
    server: Server<Arena>,
    sent: Arrivals,
}

impl Stage {
    fn new(arena: &Arc<Arena>, players: usize) -> Stage {
        let mut next = 0u128;
        let keys = move || {
            next += 1;
            ResumeKey(next.to_le_bytes())
        };
        let settings = ServerSettings { max_players: players, ..ServerSettings::default() };
        let mut server = Server::new(Arc::clone(arena), settings, Box::new(keys));
        let populated = server.simulation.populate();
        debug_assert!(populated.is_ok(), "the arena's objects fit its schema");
        let mut sent = Arrivals::default();
        (0..players as u64).for_each(|link| server.connected(Link(link), &mut sent));
        Stage { server, sent }
    }

    /// Gives the server what arrived since the last tick.
    fn hear(&mut self, heard: &Arrivals, now: Micros) {
        let Stage { server, sent } = self;
        sent.messages.clear();
        sent.datagrams.clear();
        heard.messages.iter().for_each(|(link, bytes)| server.message(link, bytes, now, sent));
        heard.datagrams.iter().for_each(|(link, bytes)| server.datagram(link, bytes, now));
        while let Some(event) = server.poll() {
            if let ServerEvent::Asked { link, .. } = event {
                let admitted = server.admit(link, PlayerId(link.0 as u32 + 1), &[], now, sent);
                debug_assert!(admitted.is_ok(), "there is room for all players");
            }
        }
    }

    fn tick(&mut self, tick: u32) {
        self.server.tick(Tick(tick), ROUND * tick, &mut self.sent);
    }
}

/// Plays the match, with a bot for each client.
fn record(arena: &Arc<Arena>, players: usize, ticks: u32, progress: &Progress) -> Recording {
    let mut stage = Stage::new(arena, players);
    let mut up = Arrivals::default();
    let mut bots: Vec<_> = (0..players)
        .map(|nth| {
            let mut client = Client::new(Arc::clone(arena), &format!("bot-{nth}"), &[]);
            client.connected(Link(nth as u64), &mut up);
            (client, Fighter::new(Arc::clone(arena), Skill::Regular, 1, nth as u64))
        })
        .collect();
    let (mut heard, mut sent) = (Vec::new(), Vec::new());
    for tick in 1..=ticks {
        let now = ROUND * tick;
        stage.hear(&up, now);
        heard.push(std::mem::take(&mut up));
        stage.tick(tick);
        sent.push(check(&stage.sent));
        for (link, bytes) in stage.sent.messages.iter() {
            bots[link.0 as usize].0.message(bytes);
        }
        for (link, bytes) in stage.sent.datagrams.iter() {
            bots[link.0 as usize].0.datagram(bytes, now);
        }
        for (client, brain) in &mut bots {
            while client.poll().is_some() {}
            let (me, mut actions) = (client.joined().map(|joined| joined.avatar), Vec::new());
            let input = me.map(|me| client.see(now, |world| brain.think(world, me, &mut actions)));
            client.tick(now, &mut up, |_, _| input.unwrap_or_default());
            actions.into_iter().for_each(|(object, it)| client.ask(object, it, now, &mut up));
        }
        progress.tick(1);
    }
    Recording { players, heard, sent }
}

/// Durations of ticks, in milliseconds.
#[derive(Default)]
struct Took {
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct ReplayRow {
    players: usize,
    objects: usize,
    threads: usize,
    one_best_ms: f64,
    one_ms: f64,
    one_cpu_ms: f64,
    many_best_ms: f64,
    many_ms: f64,
    many_cpu_ms: f64,
    /// The best tick on several threads, as a share of the best on one.
    share: f64,
    /// The serial share of a tick on one thread, by Amdahl's law from both durations.
    serial_share: f64,
    /// Ticks in which other bytes were sent than in the match.
    differing: usize,
}

/// Replays the match to another server, alternating one thread and several.
fn replay(
    arena: &Arc<Arena>,
    recording: &Recording,
    pool: &Threads,
    host: &dyn LabHost,
    progress: &Progress,
) -> ReplayRow {
    let mut stage = Stage::new(arena, recording.players);
    let pools = [Threads::default(), pool.clone()];
    let (mut took, mut differing) = ([Took::default(), Took::default()], 0);
    for (tick, (heard, sent)) in (1..).zip(recording.heard.iter().zip(&recording.sent)) {
        let several = tick as usize % 2;
        stage.hear(heard, ROUND * tick);
        stage.server.simulation.publisher.set_threads(pools[several].clone());
        let (wall, cpu) = (host.now_ns(), host.cpu_ns());
        stage.tick(tick);
        let (wall, cpu) = (host.now_ns() - wall, host.cpu_ns() - cpu);
        if tick > WARM_UP {
            took[several].wall.push(wall as f64 / 1e6);
            took[several].cpu.push(cpu as f64 / 1e6);
        }
        differing += usize::from(check(&stage.sent) != *sent);
        progress.tick(1);
    }
    let [one, many] = &mut took;
    let best = |values: &[f64]| values.iter().copied().fold(f64::INFINITY, f64::min);
    let median = |values: &mut [f64]| crate::usage::quantile(values, 0.5);
    let (one_best_ms, many_best_ms) = (best(&one.wall), best(&many.wall));
    let (share, n) = (many_best_ms / one_best_ms, pool.count() as f64);
    ReplayRow {
        players: recording.players,
        objects: stage.server.simulation.publisher.store.len(),
        threads: pool.count(),
        one_best_ms,
        one_ms: median(&mut one.wall),
        one_cpu_ms: median(&mut one.cpu),
        many_best_ms,
        many_ms: median(&mut many.wall),
        many_cpu_ms: median(&mut many.cpu),
        share,
        serial_share: ((share - 1.0 / n) / (1.0 - 1.0 / n)).clamp(0.0, 1.0),
        differing,
    }
}

fn finish(row: &ReplayRow, seed: u64) -> Result<Done, ExperimentError> {
    let mut outcome = ExperimentResult::new("threads", seed);
    outcome.push(row)?;
    let text = "ticks in which another number of threads sends something else";
    outcome.judge(Verdict::at_most(text, row.differing as f64, 0.0, ""));
    // With two threads 0.6; it depends on the machine and its other load.
    let (text, aim) =
        ("best tick on several threads, share of one", 0.2 + 0.8 / row.threads as f64);
    outcome.judge(Verdict::at_most(text, row.share, aim, "").reported_only(true));
    let caption = "A tick of the arena's server: inputs, rules, events, views, packets; no links";
    let ms = |value: f64| format!("{value:.2}");
    let serial = row.serial_share;
    let at_most = |threads: f64| format!("{:.1}×", 1.0 / (serial + (1.0 - serial) / threads));
    let table = Table::of([row])
        .right("players", |row| row.players.to_string())
        .right("objects", |row| row.objects.to_string())
        .right("threads", |row| row.threads.to_string())
        .right("one thread, best ms", |row| ms(row.one_best_ms))
        .right("median", |row| ms(row.one_ms))
        .right("CPU ms", |row| ms(row.one_cpu_ms))
        .right("several, best ms", |row| ms(row.many_best_ms))
        .right("median", |row| ms(row.many_ms))
        .right("CPU ms", |row| ms(row.many_cpu_ms))
        .right("share, best", |row| ms(row.share))
        .right("serial", |_| format!("{:.1} %", 100.0 * serial))
        .right("at most on 8", |_| at_most(8.0))
        .right("on 32", |_| at_most(32.0))
        .caption(caption);
    let report = Report::new("threads", "A server's tick on several threads").table(&table);
    Ok(Done { outcome, tables: vec![table], notes: Vec::new(), report })
}
