//! A server that is killed loses at most a second, and never the database: real processes, twenty times.

#[path = "../../foveate-io/tests/storage/probe.rs"]
mod probe;

use foveate_arena::game::kinds::Avatar;
use foveate_arena::{Arena, Setup};
use foveate_io::storage::Storage;
use foveate_io::unix_now;
use foveate_node::game::Game;
use foveate_wire::Replicate;
use probe::Probe;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BOTS: usize = 200;
const KILLS: usize = 20;
/// What a player may lose, in milliseconds of the world.
const PROMISED: f64 = 1_000.0;
/// The longest that anything may take, short of a hang.
const PATIENCE: Duration = Duration::from_secs(180);

fn foveate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_foveate"))
}

type Output = std::io::Lines<BufReader<std::process::ChildStdout>>;

/// A server, its output (which must stay open), and its address.
fn serve(store: &Path, record: &Path) -> (Child, Output, String) {
    let mut server = foveate()
        .args(["serve", "--no-metrics", "--listen", "127.0.0.1:0", "--players", "256", "--storage"])
        .arg(store)
        .arg("--record")
        .arg(record)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = lines.next().expect("the server starts").unwrap();
    let address = first.strip_prefix("listening on ").expect("and says where").to_owned();
    (server, lines, address)
}

/// The stored avatars, by player's number.
fn stored(store: &Path) -> Vec<(u32, Avatar)> {
    let arena = Arena::new(Setup::for_players(256, 1)).unwrap();
    let mut storage = Storage::open(store, arena.schema()).expect("it opens after a kill");
    storage.integrity_check().expect("and is sound");
    let kind = &arena.schema().kinds()[usize::from(arena.avatar().0)];
    (0..BOTS)
        .filter_map(|bot| {
            let name = format!("visitor-{bot}");
            let (_, saved) = storage.player(&name, unix_now()).unwrap();
            let avatar = saved.iter().find(|saved| saved.id.kind() == arena.avatar())?;
            Some((avatar.id.origin(), Avatar::get(kind, &avatar.lanes)))
        })
        .collect()
}

/// A player's places over time, in milliseconds of the world.
type Walk = Vec<(f64, [f32; 2])>;

/// The walks of all players so far, and the time of the last recorded row.
fn walks(record: &Path) -> (BTreeMap<u32, Walk>, f64) {
    let text = std::fs::read_to_string(record).unwrap_or_default();
    let (mut last, mut walks) = (0.0f64, BTreeMap::<u32, Walk>::new());
    for line in text.lines().skip(1) {
        let numbers: Option<Vec<f64>> = line.split(',').map(|word| word.parse().ok()).collect();
        // The last line may be incomplete.
        let Some(row) = numbers.filter(|row| row.len() == 7) else { continue };
        last = last.max(row[0]);
        walks.entry(row[1] as u32).or_default().push((row[0], [row[2] as f32, row[3] as f32]));
    }
    (walks, last)
}

/// Waits until all players have played for `long`, in milliseconds of the world.
fn play(record: &Path, long: f64) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let (walks, last) = walks(record);
        let settled = walks.values().filter(|walk| walk[0].0 + long <= last).count();
        if settled == BOTS {
            return;
        }
        assert!(Instant::now() < deadline, "{settled} of {BOTS} have played for {long} ms");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The age of the oldest stored avatar when the server was killed, in milliseconds of the world: since the last time at
/// which it was at its stored place. Players that joined within the last `grace` are left out.
fn oldest(record: &Path, found: &[(u32, Avatar)], grace: f64) -> f64 {
    let (walks, last) = walks(record);
    let stored: BTreeMap<u32, [f32; 2]> = found.iter().map(|(id, it)| (*id, it.pos)).collect();
    let age = |(player, walk): (&u32, &Walk)| {
        let there = walk.iter().rev().find(|(_, place)| stored.get(player) == Some(place));
        there.map_or(f64::INFINITY, |(at, _)| last - at)
    };
    walks.iter().filter(|(_, walk)| walk[0].0 + grace <= last).map(age).fold(0.0, f64::max)
}

#[test]
fn after_a_kill_every_player_gets_its_objects_back() {
    let folder = std::env::temp_dir().join(format!("foveate-killed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (store, record) = (folder.join("world.db"), folder.join("record.csv"));
    let (mut deaths_before, mut worst) = (0u32, 0.0f64);
    for kill in 0..KILLS {
        let probe = Probe::start(&folder);
        let (mut server, _output, address) = serve(&store, &record);
        let bots = foveate()
            .args(["bots", "--players", "256", "--seconds", "600", "--connect", &address])
            .args(["--count", &BOTS.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut bots = bots.unwrap();
        // They play for a different time before each kill.
        play(&record, 1_500.0 + 37.0 * kill as f64);
        server.kill().unwrap();
        server.wait().unwrap();
        bots.kill().unwrap();
        bots.wait().unwrap();
        let promised = PROMISED + probe.allowance().as_secs_f64() * 1e3;
        let found = stored(&store);
        assert_eq!(found.len(), BOTS, "kill {kill}: all players that joined are there");
        let age = oldest(&record, &found, promised);
        assert!(age <= promised, "kill {kill}: put back by {age} ms, {promised} are allowed");
        worst = worst.max(age);
        let deaths: u32 = found.iter().map(|(_, avatar)| u32::from(avatar.deaths)).sum();
        assert!(deaths >= deaths_before, "kill {kill}: what was there before the start is kept");
        deaths_before = deaths;
        let kills: u32 = found.iter().map(|(_, avatar)| u32::from(avatar.kills)).sum();
        assert!(kills.abs_diff(deaths) <= 60, "kill {kill}: {kills} kills, {deaths} deaths");
        std::fs::remove_file(&record).unwrap();
    }
    assert!(deaths_before > 50, "they did play: {deaths_before}");
    println!("{KILLS} kills under {BOTS} players: no player was set back by more than {worst} ms");
    std::fs::remove_dir_all(&folder).unwrap();
}
