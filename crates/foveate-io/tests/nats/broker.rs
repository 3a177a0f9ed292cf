//! A NATS server for a test: on loopback, with its own folder, killed when the test ends.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest that anything may take, short of a hang.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Broker {
    child: Child,
    folder: PathBuf,
    port: u16,
}

/// Whether there is a nats-server; tries to install Debian's package if not.
pub fn is_there() -> bool {
    let runs = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        let quiet = command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        quiet.status().is_ok_and(|status| status.success())
    };
    runs("nats-server", &["--version"])
        || (runs("apt-get", &["install", "-y", "--no-install-recommends", "nats-server"])
            && runs("nats-server", &["--version"]))
}

impl Broker {
    /// Starts a server; `None`, with a message, if there is no nats-server.
    pub fn start(name: &str) -> Option<Broker> {
        let folder =
            std::env::temp_dir().join(format!("foveate-nats-{name}-{}", std::process::id()));
        // The folder exists only if an earlier test with the same number was killed.
        std::fs::remove_dir_all(&folder).unwrap_or(());
        Broker::start_in(folder)
    }

    /// The same, with its files in this folder.
    pub fn start_in(folder: PathBuf) -> Option<Broker> {
        if !is_there() {
            println!("skipped: nats-server is not installed, and cannot be installed here");
            return None;
        }
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        Some(Broker { child: spawn(&folder, port), folder, port })
    }

    /// The URL, as `--nats` expects it.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Kills it, as in a crash.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Starts it again, on the same port and files.
    pub fn restart(&mut self) {
        self.child = spawn(&self.folder, self.port);
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // The test may have killed it.
        self.child.kill().unwrap_or(());
        let _ = self.child.wait();
        std::fs::remove_dir_all(&self.folder).unwrap_or(());
    }
}

fn spawn(folder: &Path, port: u16) -> Child {
    let mut command = Command::new("nats-server");
    command.args(["-a", "127.0.0.1", "-p", &port.to_string(), "-js", "-sd"]).arg(folder);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it is there");
    let until = Instant::now() + PATIENCE;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < until, "nats-server does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}
