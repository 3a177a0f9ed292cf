//! A server that is killed loses at most a second, and never the database: real processes, twenty times.

use foveate_arena::game::kinds::Avatar;
use foveate_arena::{Arena, Setup};
use foveate_io::UnixTime;
use foveate_io::storage::Storage;
use foveate_node::game::Game;
use foveate_wire::Replicate;
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
fn serve(store: &Path) -> (Child, Output, String) {
    let mut server = foveate()
        .args(["serve", "--no-metrics", "--listen", "127.0.0.1:0", "--players", "256", "--storage"])
        .arg(store)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = lines.next().expect("the server starts").unwrap();
    let address = first.strip_prefix("listening on ").expect("and says where").to_owned();
    (server, lines, address)
}

/// The stored avatars' positions and scores, by player's name.
fn stored(store: &Path) -> Vec<(String, Avatar)> {
    let arena = Arena::new(Setup::for_players(256, 1)).unwrap();
    let mut storage = Storage::open(store, arena.schema()).expect("it opens after a kill");
    storage.integrity_check().expect("and is sound");
    let kind = &arena.schema().kinds()[usize::from(arena.avatar().0)];
    (0..BOTS)
        .filter_map(|bot| {
            let name = format!("bot-{bot}");
            let (_, saved) = storage.player(&name, UnixTime::now()).unwrap();
            let avatar = saved.iter().find(|saved| saved.id.kind() == arena.avatar())?;
            Some((name, Avatar::get(kind, &avatar.lanes)))
        })
        .collect()
}

#[test]
fn after_a_kill_every_player_finds_everything_again() {
    let folder = std::env::temp_dir().join(format!("foveate-killed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let store = folder.join("world.db");
    let mut deaths_before = 0u32;
    for kill in 0..KILLS {
        let (mut server, _output, address) = serve(&store);
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
        let deaths: u32 = found.iter().map(|(_, avatar)| u32::from(avatar.deaths)).sum();
        assert!(deaths >= deaths_before, "kill {kill}: what was there before the start is kept");
        deaths_before = deaths;
        let kills: u32 = found.iter().map(|(_, avatar)| u32::from(avatar.kills)).sum();
        assert!(kills.abs_diff(deaths) <= 60, "kill {kill}: {kills} kills, {deaths} deaths");
    }
    assert!(deaths_before > 50, "they did play: {deaths_before}");
    std::fs::remove_dir_all(&folder).unwrap();
}
