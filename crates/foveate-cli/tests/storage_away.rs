//! A server whose database is gone: the log says so, it is not ready any more, and both end when the file is back.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A busy machine takes its time.
const PATIENCE: Duration = Duration::from_secs(120);

/// A server with a database, metrics and bots that change the world; ends with the test.
struct Server {
    process: Child,
    metrics: SocketAddr,
    log: Receiver<String>,
}

impl Server {
    fn start(folder: &Path) -> Server {
        let metrics = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let text = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[storage]\npath = \"world.db\"\n\
             [metrics]\nlisten = \"{metrics}\"\n[world]\nbots = 2\n"
        );
        std::fs::write(folder.join("foveate.toml"), text).unwrap();
        let mut serve = Command::new(env!("CARGO_BIN_EXE_foveate"));
        serve.arg("serve").arg("--config").arg(folder.join("foveate.toml"));
        let mut process = serve.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let (said, log) = channel();
        // Ends with the server, whose log is at its end then.
        std::thread::spawn(move || lines.map_while(Result::ok).all(|line| said.send(line).is_ok()));
        Server { process, metrics, log }
    }

    fn is_ready(&self) -> Option<bool> {
        let mut stream = TcpStream::connect(self.metrics).ok()?;
        stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
        stream
            .write_all(b"GET /readyz HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
            .ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        text.starts_with("HTTP/1.1 ").then(|| text.starts_with("HTTP/1.1 200 "))
    }

    fn wait_until(&self, ready: bool) {
        let began = Instant::now();
        while self.is_ready() != Some(ready) {
            assert!(began.elapsed() < PATIENCE, "ready {ready} is waited for in vain");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn wait_for_line(&self, what: &str) -> String {
        let began = Instant::now();
        loop {
            let left = PATIENCE.saturating_sub(began.elapsed());
            let line = self.log.recv_timeout(left).unwrap_or_else(|_| panic!("no line: {what}"));
            if line.contains(what) {
                return line;
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("foveate-away-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_server_whose_database_is_gone_says_so_and_is_ready_again_when_it_is_back() {
    let folder = folder();
    let server = Server::start(&folder);
    server.wait_until(true);
    let (file, elsewhere) = (folder.join("world.db"), folder.join("elsewhere.db"));
    std::fs::rename(&file, &elsewhere).unwrap();
    server.wait_until(false);
    let line = server.wait_for_line("storage cannot be written");
    assert!(line.contains("ERROR") && line.contains("world.db"), "{line}");
    std::fs::rename(&elsewhere, &file).unwrap();
    server.wait_until(true);
    server.wait_for_line("storage can be written again");
    drop(server);
    std::fs::remove_dir_all(&folder).unwrap();
}
