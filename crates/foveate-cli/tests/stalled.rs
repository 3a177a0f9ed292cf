//! All players come back to a server that was paused for twenty seconds, as in a paused virtual machine.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const BOTS: u64 = 50;
/// Longer than a link's idle timeout, and than sessions of broken links are kept.
const STALL: Duration = Duration::from_secs(20);
/// How long bots play after all have joined: before the stall, during it, and until all are back.
const PLAYED: &str = "45";

/// A process that is killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap_or(());
        let _ = self.0.wait();
    }
}

fn foveate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_foveate"))
}

#[test]
fn bots_come_back_by_themselves_after_a_server_was_paused() {
    let mut serve = foveate();
    serve.args(["serve", "--no-metrics", "--listen", "127.0.0.1:0", "--players", "64"]);
    let mut server = Running(serve.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut lines = BufReader::new(server.0.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let address = first.strip_prefix("listening on ").unwrap();
    let mut bots = foveate();
    bots.args(["bots", "--connect", address, "--players", "64", "--seconds", PLAYED]);
    bots.args(["--count", &BOTS.to_string()]).stdout(Stdio::piped());
    let bots = bots.spawn().unwrap();
    std::thread::sleep(Duration::from_secs(12));
    let id = Pid::from_raw(server.0.id() as i32).unwrap();
    kill_process(id, Signal::STOP).unwrap();
    std::thread::sleep(STALL);
    kill_process(id, Signal::CONT).unwrap();
    let done = bots.wait_with_output().unwrap();
    let figures: Value = serde_json::from_slice(&done.stdout).expect("figures of the bots");
    assert_eq!(figures["connected"].as_u64(), Some(BOTS), "{figures}");
    let rejoins = figures["rejoins"].as_u64().unwrap();
    // Waits grow with each failure, so that a server that comes back is not overloaded.
    assert!((BOTS..=8 * BOTS).contains(&rejoins), "{rejoins} attempts");
}
