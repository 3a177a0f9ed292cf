//! A server that is killed loses at most a second, and never the database: real processes, twenty times.

use foveate_arena::game::kinds::Avatar;
use foveate_arena::{Arena, Setup};
use foveate_io::UnixTime;
use foveate_io::storage::Storage;
use foveate_node::game::Game;
use foveate_wire::Replicate;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const BOTS: usize = 200;
const KILLS: usize = 20;

fn foveate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_foveate"))
}

type Output = std::io::Lines<BufReader<std::process::ChildStdout>>;

/// A server, what it prints (which must stay open), and where it listens.
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
            let (_, saved) = storage.player(&name, UnixTime::now()).unwrap();
            let avatar = saved.iter().find(|saved| saved.id.kind() == arena.avatar())?;
            Some((avatar.id.origin(), Avatar::get(kind, &avatar.lanes)))
        })
        .collect()
}

/// How old the oldest stored avatar was when the server was killed, in milliseconds: the last time at
/// which it was where it is stored.
fn oldest(record: &Path, found: &[(u32, Avatar)]) -> f64 {
    let text = std::fs::read_to_string(record).unwrap();
    // The last line may be cut off.
    let rows = text.lines().skip(1).filter_map(|line| {
        let numbers: Option<Vec<f64>> = line.split(',').map(|word| word.parse().ok()).collect();
        numbers.filter(|row| row.len() == 7)
    });
    let (mut last, mut there) = (0.0f64, BTreeMap::new());
    let stored: BTreeMap<u32, [f32; 2]> = found.iter().map(|(id, it)| (*id, it.pos)).collect();
    for row in rows {
        last = last.max(row[0]);
        let player = row[1] as u32;
        if stored.get(&player) == Some(&[row[2] as f32, row[3] as f32]) {
            there.insert(player, row[0]);
        }
    }
    let age = |player: &u32| there.get(player).map_or(f64::INFINITY, |at| last - at);
    stored.keys().map(age).fold(0.0, f64::max)
}

#[test]
fn after_a_kill_every_player_finds_everything_again() {
    let folder = std::env::temp_dir().join(format!("foveate-killed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (store, record) = (folder.join("world.db"), folder.join("record.csv"));
    let (mut deaths_before, mut worst) = (0u32, 0.0f64);
    for kill in 0..KILLS {
        let (mut server, _output, address) = serve(&store, &record);
        let bots = foveate()
            .args(["bots", "--players", "256", "--seconds", "30", "--connect", &address, "--count"])
            .arg(BOTS.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut bots = bots.unwrap();
        // Joining takes a second; then they play for a while that differs each time.
        std::thread::sleep(Duration::from_millis(3_000 + 37 * kill as u64));
        server.kill().unwrap();
        server.wait().unwrap();
        bots.kill().unwrap();
        bots.wait().unwrap();
        let found = stored(&store);
        assert_eq!(found.len(), BOTS, "kill {kill}: everybody who joined is there");
        let age = oldest(&record, &found);
        assert!(age <= 1_000.0, "kill {kill}: somebody was put back by {age} ms");
        worst = worst.max(age);
        let deaths: u32 = found.iter().map(|(_, avatar)| u32::from(avatar.deaths)).sum();
        assert!(deaths >= deaths_before, "kill {kill}: what was there before the start is kept");
        deaths_before = deaths;
        let kills: u32 = found.iter().map(|(_, avatar)| u32::from(avatar.kills)).sum();
        assert!(kills.abs_diff(deaths) <= 60, "kill {kill}: {kills} kills, {deaths} deaths");
    }
    assert!(deaths_before > 50, "they did play: {deaths_before}");
    println!("{KILLS} kills under {BOTS} players: nobody was put back by more than {worst} ms");
    std::fs::remove_dir_all(&folder).unwrap();
}
