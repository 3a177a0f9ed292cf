//! A server that is killed at any moment loses at most a second, and never the database.
//!
//! The test starts itself again as a child process, which saves steadily and prints each number after it was handed
//! over. The parent kills it at a random moment and reads the file.

mod probe;

use foveate_io::UnixTime;
use foveate_io::storage::{JoinQuestion, PlayerStorage, Storage, StorageChange};
use foveate_wire::{FieldSpec, FieldType, KindId, KindSpec, ObjectId, Schema};
use probe::Probe;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const KILLS: usize = 20;
const PROMISED: Duration = Duration::from_secs(1);
/// The longest that anything may take, short of a hang.
const PATIENCE: Duration = Duration::from_secs(120);
/// Gives the file's path to the child; if it is not set, there is nothing to do.
const CHILD: &str = "FOVEATE_STORAGE_CHILD";
const OBJECTS: u32 = 200;

fn schema() -> Schema {
    let count = FieldSpec::new("count", FieldType::Integer { min: 0, max: i32::MAX });
    let fields = vec![count];
    let spec = KindSpec { name: "counter".into(), fields, max_speed: 0.0, fall: 0 };
    Schema::new(vec![spec]).expect("a schema that makes sense")
}

fn counter(serial: u32) -> ObjectId {
    ObjectId::new(KindId(0), 0, serial)
}

/// The newest number in the file.
fn newest(path: &Path) -> i32 {
    let storage = Storage::open(path, &schema()).expect("opens after a kill");
    storage.integrity_check().expect("sound after a kill");
    let world = storage.world().expect("reads after a kill");
    let counts: Vec<i32> = world.iter().map(|saved| saved.lanes[2]).collect();
    let newest = counts.iter().copied().max().unwrap_or(0);
    assert!(counts.iter().all(|count| *count == newest), "a transaction is whole: {counts:?}");
    newest
}

#[test]
fn child_saves_steadily() {
    let Some(path) = std::env::var_os(CHILD) else { return };
    let path = PathBuf::from(path);
    let first = newest(&path) + 1;
    let mut writer = Storage::open(&path, &schema()).unwrap().write_behind().unwrap();
    let mut out = std::io::stdout();
    for count in first.. {
        let lanes = [0, 0, count];
        writer.save((0..OBJECTS).map(|serial| StorageChange::Saved(counter(serial), &lanes)));
        // Rarely: a request writes everything at once, which would hide what waiting loses.
        if count % 200 == 0 {
            let name = format!("player {count}");
            let question =
                JoinQuestion { ticket: count as u64, name, token: None, now: UnixTime(0) };
            assert!(writer.ask(question), "answers are taken");
        }
        while writer.poll().is_some() {}
        if writeln!(out, "saved {count}").and_then(|()| out.flush()).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Runs a child for `life`, kills it, and returns which numbers it had handed over at which time.
fn killed_after(path: &Path, life: Duration) -> (Vec<(Instant, i32)>, Instant) {
    let program = std::env::current_exe().expect("this test has a file");
    let mut child = Command::new(program)
        .args(["--exact", "child_saves_steadily", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let lines = BufReader::new(child.stdout.take().expect("was piped")).lines();
    let (begun, has_begun) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let counts = lines.map_while(Result::ok).filter_map(|line| {
            let (_, count) = line.split_once("saved ")?;
            // The parent waits only for the first.
            let _ = begun.send(());
            Some((Instant::now(), count.parse().ok()?))
        });
        counts.collect::<Vec<_>>()
    });
    has_begun.recv_timeout(PATIENCE).expect("the child saves");
    std::thread::sleep(life);
    let killed = Instant::now();
    child.kill().expect("was running");
    child.wait().expect("was started here");
    (reader.join().expect("only reads"), killed)
}

#[test]
fn a_killed_server_loses_at_most_a_second() {
    let folder = std::env::temp_dir().join(format!("foveate-io-killed-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("temporary folder is writable");
    let path = folder.join("world.db");
    let mut random = fastrand::Rng::with_seed(7);
    let mut longest = Duration::ZERO;
    for _ in 0..KILLS {
        let life = Duration::from_millis(random.u64(150..2_200));
        let probe = Probe::start(&folder);
        let (handed_in, killed) = killed_after(&path, life);
        let promised = PROMISED + probe.allowance();
        let kept = newest(&path);
        let lost = handed_in.iter().find(|(_, count)| *count > kept);
        let age = lost.map_or(Duration::ZERO, |(at, _)| killed.saturating_duration_since(*at));
        assert!(age <= promised, "{age:?} lost after {life:?} where {promised:?} are allowed");
        longest = longest.max(age);
    }
    assert!(newest(&path) > 0, "something was saved");
    println!("{KILLS} kills, at most {longest:?} lost");
    std::fs::remove_dir_all(&folder).expect("is not in use any more");
}
