//! If tokens are required, bots without one are rejected at once, and bots that can issue their own play.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

fn foveate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_foveate"))
}

/// A server that requires tokens and runs bots of its own; killed when dropped.
struct Server {
    folder: PathBuf,
    process: Child,
    /// Held open: a process that cannot print any more ends.
    _output: BufReader<ChildStdout>,
    address: String,
}

impl Server {
    fn start() -> Server {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let (process, nth) = (std::process::id(), STARTED.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(format!("foveate-tokens-{process}-{nth}"));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("secret"), [7; 32]).unwrap();
        let text = "[server]\nlisten = \"127.0.0.1:0\"\nmax_clients = 16\n\
            [metrics]\nenabled = false\n[tokens]\nsecret = \"secret\"\n[world]\nbots = 3\n";
        std::fs::write(folder.join("foveate.toml"), text).unwrap();
        let mut serve = foveate();
        serve.arg("serve").arg("--config").arg(folder.join("foveate.toml"));
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let mut process = serve.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let (mut output, mut first) =
            (BufReader::new(process.stdout.take().unwrap()), String::new());
        output.read_line(&mut first).expect("the server starts");
        let address =
            first.trim().strip_prefix("listening on ").expect("and says where").to_owned();
        Server { folder, process, _output: output, address }
    }

    fn bots(&self, more: &[&str]) -> Output {
        let all = ["bots", "--connect", &self.address, "--count", "2", "--players", "16"];
        foveate().args(all).args(["--seconds", "1"]).args(more).output().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both bots have finished by then, or the test has failed already.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// What was used before a restart is not remembered: an operator must not learn that from a player.
#[test]
fn a_server_with_tokens_and_no_storage_says_what_that_means() {
    let server = Server::start();
    let log = std::fs::read_to_string(server.folder.join("log")).unwrap();
    assert!(log.contains("WARN") && log.contains("tokens without storage"), "{log}");
}

#[test]
fn bots_without_tokens_do_not_wait_and_bots_with_the_secret_play() {
    let server = Server::start();
    let began = Instant::now();
    let done = server.bots(&[]);
    let (waited, said) = (began.elapsed(), String::from_utf8_lossy(&done.stderr));
    assert!(!done.status.success(), "{said}");
    assert!(said.contains(&server.address) && said.contains("Token"), "{said}");
    // Bots that wait for a place wait for three minutes.
    assert!(waited < Duration::from_secs(120), "{waited:?}");

    let done = server.bots(&["--secret", server.folder.join("secret").to_str().unwrap()]);
    let (said, wrong) = (&done.stdout, &done.stderr);
    let (said, wrong) = (String::from_utf8_lossy(said), String::from_utf8_lossy(wrong));
    assert!(done.status.success() && said.contains("\"connected\": 2"), "{said} {wrong}");
}
