//! The examples, as processes on one machine.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        self.0.kill().and_then(|()| self.0.wait().map(|_| ())).unwrap_or(());
    }
}

/// The path of an example, which cargo builds next to the tests.
fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().unwrap().with_file_name("examples").join(name);
    if !path.exists() {
        let build = ["build", "--package", "foveate", "--all-features", "--examples"];
        assert!(Command::new(env!("CARGO")).args(build).status().unwrap().success());
    }
    path
}

/// A running example: its output, line by line.
struct Running {
    _process: Process,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn start(name: &str, arguments: &[&str]) -> Running {
        let mut command = Command::new(example(name));
        let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Running { _process: Process(child), lines }
    }

    /// The rest of the first line, which begins with this word.
    fn first(&mut self, word: &str) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        let rest = line.trim().strip_prefix(word);
        rest.unwrap_or_else(|| panic!("expected {word:?}, got {line:?}")).trim().to_owned()
    }

    /// The next `count` different lines that contain this word.
    fn next(&mut self, count: usize, word: &str) -> Vec<String> {
        let mut seen: Vec<String> = Vec::new();
        for line in self.lines.by_ref().lines().map_while(Result::ok).take(2_000) {
            if line.contains(word) && seen.last() != Some(&line) {
                seen.push(line);
            }
            if seen.len() == count {
                break;
            }
        }
        seen
    }
}

fn client_sees_the_guard_of(server: &str) {
    let mut server = Running::start(server, &["127.0.0.1:0"]);
    let address = server.first("listening on");
    let seen = Running::start("hello_client", &[&address]).next(4, "Guard");
    println!("{}", seen.join("\n"));
    assert_eq!(seen.len(), 4, "the guard should be somewhere else again and again: {seen:?}");
}

#[test]
fn a_client_sees_the_servers_object_move() {
    client_sees_the_guard_of("hello_server");
}

#[test]
fn a_client_sees_the_servers_object_by_a_custom_policy() {
    client_sees_the_guard_of("hello_policy");
}

#[test]
fn a_second_peer_joins_the_first_and_both_see_each_other() {
    let mut first = Running::start("hello_peer", &[]);
    let contact = first.first("join");
    let mut second = Running::start("hello_peer", &[&contact]);
    for (name, peer) in [("second", &mut second), ("first", &mut first)] {
        let seen = peer.next(3, "2 walkers, Some");
        println!("{name}: {}", seen.join("\n"));
        assert_eq!(seen.len(), 3, "the {name} peer should see both walkers and the guard move");
    }
}
