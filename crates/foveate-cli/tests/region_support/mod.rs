//! Region servers as processes, observed through their metrics.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest that anything may take, short of a hang.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// A process that ends with the test, and its output.
pub struct Process {
    pub child: Child,
    pub said: Arc<Mutex<Vec<String>>>,
    readers: Vec<JoinHandle<()>>,
    /// The address of its metrics.
    pub metrics: String,
}

impl Process {
    /// Starts `foveate` with these arguments, and waits until it prints the address of its metrics.
    pub fn start(arguments: &[&str]) -> Process {
        let mut process = Process::spawn(arguments);
        process.metrics = process.wait_for("metrics on http://").replace("/metrics", "");
        process
    }

    pub fn spawn(arguments: &[&str]) -> Process {
        let mut child = Command::new(env!("CARGO_BIN_EXE_foveate"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let said = Arc::<Mutex<Vec<String>>>::default();
        let streams: [Box<dyn Read + Send>; 2] = [
            Box::new(child.stdout.take().expect("it is piped")),
            Box::new(child.stderr.take().expect("it is piped")),
        ];
        let reader = |stream| {
            let said = Arc::clone(&said);
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    said.lock().expect("no test panics in it").push(line);
                }
            })
        };
        let readers = streams.into_iter().map(reader).collect();
        Process { child, said, readers, metrics: String::new() }
    }

    /// All its output so far.
    pub fn text(&self) -> String {
        self.said.lock().expect("no test panics in it").join("\n")
    }

    /// The rest of the first line that contains `begin`.
    pub fn wait_for(&mut self, begin: &str) -> String {
        let rest = |text: &str| {
            let line = text.lines().find(|line| line.contains(begin))?;
            line.split_once(begin).map(|(_, rest)| rest.to_owned())
        };
        eventually(|| rest(&self.text()).ok_or_else(|| format!("no {begin:?}: {}", self.text())))
    }

    /// Waits until it has ended and all its output was read; returns its exit status.
    pub fn ended(&mut self) -> std::process::ExitStatus {
        let child = &mut self.child;
        let status =
            eventually(|| child.try_wait().expect("it can be asked").ok_or("it runs".to_owned()));
        // Its last output may still be on its way.
        self.readers.drain(..).for_each(|reader| reader.join().expect("it only reads"));
        status
    }

    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let done = Command::new("kill").args([name, &id]).status().expect("kill is there");
        assert!(done.success(), "kill {name} {id}");
    }

    /// Its metrics by name and labels; empty if it does not answer.
    pub fn figures(&self) -> BTreeMap<String, f64> {
        let text = get(&self.metrics, "/metrics").unwrap_or_default();
        let lines = text.lines().filter(|line| line.starts_with("foveate_"));
        let figure = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        lines.filter_map(figure).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        self.child.kill().unwrap_or(());
        let _ = self.child.wait();
    }
}

/// Players that the world of a test is made for: 64, unless `FOVEATE_PLAYERS` says otherwise.
pub fn room() -> &'static str {
    static ROOM: OnceLock<String> = OnceLock::new();
    ROOM.get_or_init(|| std::env::var("FOVEATE_PLAYERS").unwrap_or_else(|_| "64".to_owned()))
}

/// Asks repeatedly until there is an answer.
pub fn eventually<T>(mut ask: impl FnMut() -> Result<T, String>) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(why) if Instant::now() >= until => panic!("after {PATIENCE:?}: {why}"),
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// The answer to one HTTP request.
pub fn get(address: &str, path: &str) -> Option<String> {
    let address = address.parse().ok()?;
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(500)).ok()?;
    stream.set_read_timeout(Some(Duration::from_millis(500))).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// What servers state about a region: which of them act for it, its epoch, and its number of owned objects.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegionView {
    pub acting: Vec<u64>,
    pub epoch: u32,
    pub owned: usize,
}

pub fn label<'a>(name: &'a str, label: &str) -> Option<&'a str> {
    let (_, rest) = name.split_once(&format!("{label}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

/// The regions according to these processes. A server's figures of a region that it no longer runs stay unchanged,
/// except that it does not act; of the servers that act, the highest epoch counts.
pub fn regions(processes: &[&Process]) -> BTreeMap<u32, RegionView> {
    let mut regions = BTreeMap::<u32, RegionView>::new();
    for process in processes {
        let figures = process.figures();
        for (name, value) in &figures {
            let acts = name.starts_with("foveate_region_acting{") && *value == 1.0;
            let (Some(server), Some(region)) = (label(name, "server"), label(name, "region"))
            else {
                continue;
            };
            if !acts {
                continue;
            }
            let find = |metric: &str, more: &str| {
                let wanted = figures.iter().find(|(name, _)| {
                    name.starts_with(metric)
                        && label(name, "server") == Some(server)
                        && label(name, "region") == Some(region)
                        && name.contains(more)
                });
                wanted.map_or(0.0, |(_, value)| *value)
            };
            let region = regions.entry(region.parse().expect("a number")).or_default();
            region.acting.push(server.parse().expect("a number"));
            region.epoch = region.epoch.max(find("foveate_region_epoch{", "") as u32);
            region.owned += find("foveate_region_objects{", "what=\"owned\"") as usize;
        }
    }
    regions
}

/// An empty temporary folder.
pub fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("foveate-{name}-{}", std::process::id()));
    // The folder exists only if an earlier test with the same number was killed.
    std::fs::remove_dir_all(&folder).unwrap_or(());
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    folder
}
