//! `foveate soak`: runs a server for hours, with bots that join, leave, are killed and fall silent.
//!
//! There are two modes. The first plays on one server and measures how fast its memory grows. With `--kill-every`
//! the server is killed and restarted again and again: everything in its database must still be there, and all bots
//! must reconnect by themselves.

mod process;
mod slope;

use clap::Args;
use foveate_arena::game::kinds::Avatar;
use foveate_arena::{Arena, Setup};
use foveate_io::storage::Storage;
use foveate_io::unix_now;
use foveate_lab::output::Verdict;
use foveate_node::Game;
use foveate_wire::Replicate;
use process::{Ending, SoakedServer, Squad, SquadPlan};
use serde_json::{Value, json};
use slope::Slope;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Bots in one process.
const SQUAD: usize = 20;
/// How long a squad plays, in seconds.
const LIVES: std::ops::Range<u64> = 30..120;
/// A squad takes a new name after this many runs; until then its players get their stored state back.
const SAME_NAME: usize = 2;
/// The share of the time that is not measured, while pools and caches fill.
const WARM_UP: f64 = 0.25;
/// Interval of memory samples.
const SAMPLE: Duration = Duration::from_secs(5);
/// Interval of the main loop.
const TURN: Duration = Duration::from_millis(250);
/// All bots must have reconnected after this time.
const PATIENCE: Duration = Duration::from_secs(120);
/// All bots play for this long before the server is killed: storage may lag behind by no more.
const SETTLED: Duration = Duration::from_secs(5);
/// How long a killed server stays down.
const DOWN: Duration = Duration::from_secs(2);

/// Run a server for hours, with bots that join and leave: how its memory grows, and what survives a kill
#[derive(Args)]
pub struct Soak {
    /// How long
    #[arg(long, default_value_t = 90.0)]
    minutes: f64,
    /// Bots at a time
    #[arg(long, default_value_t = 200)]
    bots: usize,
    /// Kill and restart the server at this interval, in minutes
    #[arg(long, value_name = "MINUTES")]
    kill_every: Option<f64>,
    /// Most MB per hour that memory may grow
    #[arg(long, default_value_t = 1.0)]
    aim: f64,
    /// RNG seed of how bots leave
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Plant a leak: squads stay while others join, so that memory grows and the verdict must fail
    #[arg(long, hide = true, conflicts_with = "kill_every")]
    leak: bool,
    /// Write samples and figures to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Runs, prints figures and verdicts, and fails if one does not hold.
pub fn run(args: &Soak) -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("foveate-soak-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let (row, verdicts) = match args.kill_every {
        Some(every) => killed(args, every, &folder)?,
        None => grown(args, &folder)?,
    };
    println!("{}", serde_json::to_string_pretty(&row)?);
    for verdict in &verdicts {
        let holds = if verdict.holds { "holds" } else { "does not hold" };
        println!("{}: {}, aim {}: {holds}", verdict.name, verdict.figure(), verdict.aim);
    }
    if let Some(path) = &args.json {
        let outcome = json!({ "experiment": "soak", "rows": [row], "verdicts": verdicts });
        std::fs::write(path, outcome.to_string())?;
    }
    if verdicts.iter().all(|verdict| verdict.holds) {
        std::fs::remove_dir_all(&folder)?;
        return Ok(());
    }
    Err(format!("a verdict does not hold; logs and database are in {}", folder.display()).into())
}

/// The squads, and how those before them ended.
struct Squads<'a> {
    args: &'a Soak,
    folder: &'a Path,
    rng: fastrand::Rng,
    playing: Vec<Squad>,
    generations: Vec<usize>,
    ended: BTreeMap<Ending, u64>,
}

impl<'a> Squads<'a> {
    fn new(args: &'a Soak, folder: &'a Path) -> Squads<'a> {
        let rng = fastrand::Rng::with_seed(args.seed);
        let (playing, generations) = (Vec::new(), Vec::new());
        Squads { args, folder, rng, playing, generations, ended: BTreeMap::new() }
    }

    /// Players that the world is made for: those who were killed or are silent hold their place for a while.
    fn room(&self) -> usize {
        2 * self.args.bots + SQUAD
    }

    fn start(
        &mut self,
        at: usize,
        life: Duration,
        ending: Ending,
        server: &SoakedServer,
    ) -> Result<Squad, Box<dyn Error>> {
        let left = self.args.bots.saturating_sub(at * SQUAD);
        let name = format!("squad{at}.{}", self.generations[at] / SAME_NAME);
        let (server, players) = (server.address, self.room());
        let count = if self.args.leak { SQUAD } else { left.min(SQUAD) };
        Squad::start(&SquadPlan { server, name: &name, count, players, life, ending }, self.folder)
    }

    /// Squads that have ended are replaced, those that are missing are started.
    fn turn(&mut self, server: &SoakedServer) -> Result<(), Box<dyn Error>> {
        for at in 0..self.args.bots.div_ceil(SQUAD) {
            if at < self.playing.len() {
                let Some(ending) = self.playing[at].turn() else { continue };
                *self.ended.entry(ending).or_default() += 1;
                self.generations[at] += 1;
            } else {
                self.generations.push(0);
            }
            let life = Duration::from_secs(self.rng.u64(LIVES));
            let ending = Ending::PLANNED[self.rng.usize(..Ending::PLANNED.len())];
            let squad = self.start(at, life, ending, server)?;
            match self.playing.get_mut(at) {
                Some(place) => *place = squad,
                None => self.playing.push(squad),
            }
        }
        Ok(())
    }

    /// One more squad that stays.
    fn add(&mut self, server: &SoakedServer) -> Result<(), Box<dyn Error>> {
        self.generations.push(0);
        let life = Duration::from_secs(24 * 3_600);
        let squad = self.start(self.playing.len(), life, Ending::Leave, server)?;
        self.playing.push(squad);
        Ok(())
    }
}

/// One server all the while: how its memory grows.
fn grown(args: &Soak, folder: &Path) -> Result<(Value, Vec<Verdict>), Box<dyn Error>> {
    let mut squads = Squads::new(args, folder);
    let mut server = SoakedServer::start(folder, None, squads.room())?;
    let (began, end) = (Instant::now(), Duration::from_secs_f64(args.minutes * 60.0));
    let sample_every = SAMPLE.min(end / 100);
    let (mut samples, mut players) = (Vec::new(), Vec::new());
    let (mut next, mut next_squad) = (began, began);
    while began.elapsed() < end {
        if server.has_ended() {
            return Err(format!("the server ended; see {}", folder.display()).into());
        }
        if !args.leak {
            squads.turn(&server)?;
        } else if Instant::now() >= next_squad && squads.playing.len() * SQUAD < squads.room() {
            squads.add(&server)?;
            next_squad = Instant::now() + end / (squads.room() / SQUAD) as u32;
        }
        if Instant::now() >= next {
            next += sample_every;
            let hours = began.elapsed().as_secs_f64() / 3_600.0;
            samples.extend(server.resident_mb().map(|memory| (hours, memory)));
            players.extend(server.health().map(|health| f64::from(health.players)));
        }
        std::thread::sleep(TURN.min(sample_every));
    }
    let settled = samples.partition_point(|(hours, _)| *hours < WARM_UP * args.minutes / 60.0);
    let slope = Slope::of(&samples[settled..]).ok_or("too short for a slope")?;
    let at_most = slope.per_unit + slope.within;
    let playing = players.iter().sum::<f64>() / players.len().max(1) as f64;
    let ended = |ending| squads.ended.get(&ending).copied().unwrap_or(0);
    let row = json!({
        "form": if args.leak { "leak" } else { "memory" },
        "minutes": args.minutes,
        "bots": args.bots,
        "players_mean": playing,
        "squads_left": ended(Ending::Leave),
        "squads_killed": ended(Ending::Killed),
        "squads_silent": ended(Ending::Silent),
        "squads_refused": ended(Ending::Refused),
        "rss_mb_settled": samples.get(settled).map(|sample| sample.1),
        "rss_mb_end": samples.last().map(|sample| sample.1),
        "mb_per_hour": slope.per_unit,
        "mb_per_hour_within": slope.within,
        "samples": samples,
    });
    let playing_enough = Verdict::at_least("players in, mean", playing, 0.7 * args.bots as f64, "");
    let memory = Verdict::at_most("memory slope, upper 95 %", at_most, args.aim, "MB/h");
    Ok((row, vec![memory, playing_enough]))
}

/// A server that is killed over and over: what its database keeps, and how soon all bots are back.
fn killed(args: &Soak, every: f64, folder: &Path) -> Result<(Value, Vec<Verdict>), Box<dyn Error>> {
    let mut squads = Squads::new(args, folder);
    let mut server = SoakedServer::start(folder, None, squads.room())?;
    for _ in 0..args.bots.div_ceil(SQUAD) {
        squads.add(&server)?;
    }
    let every = Duration::from_secs_f64(every * 60.0);
    let kills = (args.minutes * 60.0 / every.as_secs_f64()).floor().max(1.0) as usize;
    let (mut back, mut lost, mut before) = (Vec::new(), 0, BTreeMap::new());
    for kill in 1..=kills {
        let started = Instant::now();
        let all_in = wait_for_all(args.bots, &mut server)?;
        back.extend(all_in.map(|time| time.as_secs_f64()));
        let players = server.health().map_or(0, |health| health.players);
        std::thread::sleep(every.saturating_sub(started.elapsed()).max(SETTLED));
        let address = server.kill();
        let stored = stored(folder, &squads)?;
        lost += missing(&before, &stored, args.bots);
        println!(
            "kill {kill} of {kills}: {players} players were in, {} s after the start; {} are stored, {lost} losses",
            all_in.map_or(f64::INFINITY, |time| time.as_secs_f64()),
            stored.len()
        );
        before = stored;
        std::thread::sleep(DOWN);
        server = SoakedServer::start(folder, Some(address), squads.room())?;
    }
    let last = wait_for_all(args.bots, &mut server)?;
    back.extend(last.map(|time| time.as_secs_f64()));
    let returned = back.len();
    let row = json!({
        "form": "killed",
        "minutes": args.minutes,
        "bots": args.bots,
        "kills": kills,
        "losses": lost,
        "deaths": before.values().map(|(deaths, _)| u64::from(*deaths)).sum::<u64>(),
        "all_in_s": back,
    });
    let verdicts = vec![
        Verdict::at_most("players and scores lost", lost as f64, 0.0, ""),
        Verdict::at_least(
            "starts after which all bots were in",
            returned as f64,
            (kills + 1) as f64,
            "",
        ),
    ];
    Ok((row, verdicts))
}

/// How long it took until all bots were in; none if they are not for [`PATIENCE`].
fn wait_for_all(
    bots: usize,
    server: &mut SoakedServer,
) -> Result<Option<Duration>, Box<dyn Error>> {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if server.has_ended() {
            return Err("the server ended by itself".into());
        }
        if server.health().is_some_and(|health| health.players as usize >= bots) {
            return Ok(Some(began.elapsed()));
        }
        std::thread::sleep(TURN);
    }
    Ok(None)
}

/// Deaths and kills of the stored avatars, by player's name.
type Scores = BTreeMap<String, (u16, u16)>;

/// What a database has after its server was killed.
fn stored(folder: &Path, squads: &Squads<'_>) -> Result<Scores, Box<dyn Error>> {
    let arena = Arena::new(Setup::for_players(squads.room(), 1))?;
    let mut storage = Storage::open(&folder.join("world.db"), arena.schema())?;
    storage.integrity_check()?;
    let kind = &arena.schema().kinds()[usize::from(arena.avatar().0)];
    let mut scores = Scores::new();
    for bot in 0..squads.args.bots {
        let name = format!("squad{}.0-{}", bot / SQUAD, bot % SQUAD);
        let (_, saved) = storage.player(&name, unix_now())?;
        let avatar = saved.iter().find(|saved| saved.id.kind() == arena.avatar());
        let avatar = avatar.map(|saved| Avatar::get(kind, &saved.lanes));
        scores.extend(avatar.map(|avatar| (name, (avatar.deaths, avatar.kills))));
    }
    Ok(scores)
}

/// Players that are not stored, and scores that fell since the last time.
fn missing(before: &Scores, now: &Scores, bots: usize) -> usize {
    let fell = before
        .iter()
        .filter(|(name, was)| now.get(*name).is_some_and(|is| is.0 < was.0 || is.1 < was.1));
    bots.saturating_sub(now.len()) + fell.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_players_and_fallen_scores_are_counted() {
        let scores = |list: &[(&str, u16, u16)]| -> Scores {
            list.iter()
                .map(|(name, deaths, kills)| ((*name).to_owned(), (*deaths, *kills)))
                .collect()
        };
        let before = scores(&[("a", 3, 1), ("b", 2, 2), ("c", 0, 0)]);
        assert_eq!(missing(&before, &scores(&[("a", 3, 1), ("b", 4, 2), ("c", 0, 1)]), 3), 0);
        assert_eq!(missing(&before, &scores(&[("a", 2, 1), ("b", 2, 1), ("c", 0, 0)]), 3), 2);
        assert_eq!(missing(&before, &scores(&[("a", 3, 1), ("b", 2, 2)]), 3), 1);
    }
}
