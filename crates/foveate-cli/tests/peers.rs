//! A game without a server outlives half of its players: real processes, real links, killed for real.

use foveate_wire::ObjectId;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

fn foveate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_foveate"))
}

/// A process that does not outlive the test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        self.0.kill().unwrap_or(());
        self.0.wait().map_or((), |_| ());
    }
}

struct Lobby {
    address: String,
    _process: Process,
}

fn lobby() -> Lobby {
    let mut child = foveate()
        .args(["lobby", "--listen", "127.0.0.1:0", "--life", "5"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    let out = child.stdout.take().expect("piped");
    BufReader::new(out).read_line(&mut line).expect("it says where it listens");
    let address = line.trim().strip_prefix("listening on ").expect("an address").to_owned();
    Lobby { address, _process: Process(child) }
}

struct Peer {
    process: Process,
    account: PathBuf,
}

impl Peer {
    fn start(lobby: &Lobby, folder: &Path, nth: usize) -> Peer {
        let account = folder.join(format!("{nth}.jsonl"));
        let child = foveate()
            .args(["peer", "--headless", "--players", "16", "--lobby", &lobby.address, "--account"])
            .arg(&account)
            .stdout(Stdio::null())
            .spawn()
            .expect("the program starts");
        Peer { process: Process(child), account }
    }

    /// What it wrote down so far; the last line may be cut off.
    fn accounts(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(&self.account).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

fn number(account: &Value, field: &str) -> u64 {
    account[field].as_u64().expect("a number")
}

/// The world's objects, and how many peers own each, in the last second of which all peers have
/// written. None while somebody has not, or does not know everybody.
fn owners(peers: &[Peer]) -> Option<(u64, BTreeMap<u64, usize>)> {
    let by_second: Vec<BTreeMap<u64, Value>> = peers
        .iter()
        .map(|peer| {
            let accounts = peer.accounts().into_iter();
            accounts.map(|account| (number(&account, "tick") / 20, account)).collect()
        })
        .collect();
    let seconds = by_second.first()?.keys().rev();
    let common = seconds.copied().find(|at| by_second.iter().all(|it| it.contains_key(at)))?;
    let mut owners = BTreeMap::new();
    for accounts in &by_second {
        let account = &accounts[&common];
        if number(account, "players") != peers.len() as u64 {
            return None;
        }
        for owned in account["owned"].as_array()? {
            let id = ObjectId(owned[0].as_u64()?);
            if id.origin() == 0 {
                *owners.entry(id.0).or_default() += 1;
            }
        }
    }
    Some((common, owners))
}

/// Waits until every one of these objects has exactly one owner, in a second after the given one.
fn settled(peers: &[Peer], objects: &BTreeSet<u64>, after: u64) -> (u64, BTreeSet<u64>) {
    let deadline = Instant::now() + PATIENCE;
    let mut last = None;
    while Instant::now() < deadline {
        if let Some((second, owners)) = owners(peers).filter(|it| it.0 > after) {
            let single = owners.values().all(|count| *count == 1);
            let all: BTreeSet<u64> = owners.keys().copied().collect();
            if single && !all.is_empty() && all.is_superset(objects) {
                return (second, all);
            }
            last = Some(owners);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let owners = last.unwrap_or_default();
    let lost: Vec<_> = objects.iter().filter(|id| !owners.contains_key(id)).collect();
    let doubled: Vec<_> = owners.iter().filter(|(_, count)| **count > 1).collect();
    let players: Vec<_> =
        peers.iter().map(|it| it.accounts().last().map(|last| number(last, "players"))).collect();
    panic!("lost {lost:?}, doubled {doubled:?}, players as each knows them {players:?}");
}

fn fights(peers: &[Peer]) -> u64 {
    let last = |peer: &Peer| peer.accounts().last().map_or(0, |last| number(last, "fights"));
    peers.iter().map(last).sum()
}

/// Bytes sent and received in a second, and the share of a core, of one peer.
fn cost(peer: &Peer) -> Option<[f64; 3]> {
    let accounts = peer.accounts();
    let (first, last) = (accounts.first()?, accounts.last()?);
    let seconds = (number(last, "tick") - number(first, "tick")) as f64 / 20.0;
    let rate = |field: &str| {
        let value = |account: &Value| account[field].as_f64();
        Some((value(last)? - value(first)?) / seconds.max(1.0))
    };
    Some([rate("sent_bytes")?, rate("received_bytes")?, rate("cpu_s")? * 100.0])
}

#[test]
fn half_of_twelve_peers_are_killed_and_three_join_and_nothing_is_lost_or_doubled() {
    let folder = std::env::temp_dir().join(format!("foveate-peers-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a temporary folder");
    let lobby = lobby();
    let mut peers = vec![Peer::start(&lobby, &folder, 0)];
    // Whoever finds nobody begins a world: the others come when there is one.
    let (_, founded) = settled(&peers, &BTreeSet::new(), 0);
    peers.extend((1..12).map(|nth| Peer::start(&lobby, &folder, nth)));
    let (second, objects) = settled(&peers, &founded, 0);
    println!("12 peers, {} objects of the world, each with one owner", objects.len());

    // Six die at once, the one who began the world among them.
    for peer in &mut peers[..6] {
        peer.process.0.kill().expect("it runs");
    }
    let died = Instant::now();
    drop(peers.drain(..6));
    let (second, left) = settled(&peers, &objects, second + 1);
    println!(
        "6 killed: every object has one owner again, seen {:.1} s later",
        died.elapsed().as_secs_f64()
    );

    peers.extend((12..15).map(|nth| Peer::start(&lobby, &folder, nth)));
    let (second, _) = settled(&peers, &left, second);
    let before = fights(&peers);
    let deadline = Instant::now() + PATIENCE;
    while fights(&peers) <= before {
        assert!(Instant::now() < deadline, "nobody fights any more");
        std::thread::sleep(Duration::from_millis(500));
    }
    settled(&peers, &left, second + 3);
    println!("3 joined: every object has one owner, and play goes on");

    let costs: Vec<[f64; 3]> = peers.iter().filter_map(cost).collect();
    let mean = |nth: usize| costs.iter().map(|cost| cost[nth]).sum::<f64>() / costs.len() as f64;
    println!(
        "a peer sends {:.0} and receives {:.0} B/s and takes {:.1} % of a core",
        mean(0),
        mean(1),
        mean(2)
    );
    drop(peers);
    std::fs::remove_dir_all(&folder).expect("ours");
}
