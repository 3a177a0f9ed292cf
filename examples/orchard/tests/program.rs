//! The program on real sockets.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        self.0.kill().and_then(|()| self.0.wait().map(|_| ())).unwrap_or(());
    }
}

fn start(arguments: &[&str]) -> (Process, impl Iterator<Item = String> + use<>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orchard"));
    let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    (Process(child), lines)
}

#[test]
fn the_program_serves_and_bots_see_apples() {
    let (_server, mut says) = start(&["serve", "127.0.0.1:0"]);
    let address = says.next().unwrap().strip_prefix("listening on ").unwrap().to_owned();
    let (_bots, mut sees) = start(&["bots", &address, "3"]);
    let seen = sees.find(|line| line.starts_with("3 players, ") && !line.contains(", 0 apples"));
    assert!(seen.is_some(), "the bots' link ended before they saw anything");
}

#[test]
fn two_peers_of_the_program_meet() {
    let (_first, mut says) = start(&["peer"]);
    let contact = says.next().unwrap().strip_prefix("peer ").unwrap().to_owned();
    let (_second, mut sees) = start(&["peer", &contact]);
    let seen = sees.find(|line| line.starts_with("2 players, ") && !line.contains(", 0 apples"));
    assert!(seen.is_some(), "the second peer ended before it saw the first");
    assert!(
        says.any(|line| line.starts_with("2 players, ")),
        "the first peer does not see the second"
    );
}
