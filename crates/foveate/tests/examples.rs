//! The examples, as two processes on one machine.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A process that ends with the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        self.0.kill().and_then(|()| self.0.wait().map(|_| ())).unwrap_or(());
    }
}

/// An example stands beside the tests where cargo built both, which it does unless told otherwise.
fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().unwrap().with_file_name("examples").join(name);
    if !path.exists() {
        let build = ["build", "--package", "foveate", "--features", "io", "--examples"];
        assert!(Command::new(env!("CARGO")).args(build).status().unwrap().success());
    }
    path
}

fn start(name: &str, arguments: &[&str]) -> (Process, BufReader<ChildStdout>) {
    let mut command = Command::new(example(name));
    let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    (Process(child), lines)
}

#[test]
fn a_client_sees_the_servers_object_move() {
    let (_server, mut says) = start("server", &["127.0.0.1:0"]);
    let mut line = String::new();
    says.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("listening on ").unwrap().to_owned();
    let (_client, sees) = start("client", &[&address, "ada"]);
    let mut seen: Vec<String> = Vec::new();
    for line in sees.lines().map_while(Result::ok).take(100) {
        if seen.last() != Some(&line) {
            seen.push(line);
        }
        if seen.len() == 4 {
            break;
        }
    }
    println!("{}", seen.join("\n"));
    assert!(seen.len() == 4, "the guard should be somewhere else again and again: {seen:?}");
    assert!(seen.iter().all(|line| line.contains("Guard")));
}
