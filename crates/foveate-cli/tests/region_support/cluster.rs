//! Three NATS servers that keep a ledger together.

use super::broker::is_there;
use super::region_support::{eventually, get, scratch};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const BROKERS: usize = 3;

/// One of them, with its ports for clients, for the others and for questions.
struct Member {
    child: Child,
    ports: [u16; 3],
}

pub struct Cluster {
    members: Vec<Member>,
    folder: PathBuf,
}

fn free_port() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a free port")
}

impl Cluster {
    /// Starts them, and waits until they have chosen a leader; `None`, with a message, if there is no nats-server.
    pub fn start(name: &str) -> Option<Cluster> {
        if !is_there() {
            println!("skipped: nats-server is not installed, and cannot be installed here");
            return None;
        }
        let folder = scratch(&format!("nats-{name}"));
        // All ports are taken before the first is given back, so that they differ.
        let taken = [(); BROKERS].map(|()| [(); 3].map(|()| free_port()));
        let port = |it: &TcpListener| it.local_addr().expect("it is bound").port();
        let ports = taken.each_ref().map(|of_one| of_one.each_ref().map(port));
        drop(taken);
        let routes = ports.map(|[_, route, _]| format!("nats://127.0.0.1:{route}")).join(",");
        let start = |(nth, ports): (usize, [u16; 3])| {
            let [client, route, monitor] = ports.map(|port| port.to_string());
            let (name, cluster) = (format!("broker{nth}"), format!("nats://127.0.0.1:{route}"));
            let mut command = Command::new("nats-server");
            command.args(["-a", "127.0.0.1", "-p", &client, "-m", &monitor, "-n", &name]);
            command.args(["--cluster_name", "foveate", "--cluster", &cluster, "--routes", &routes]);
            command.args(["-js", "-sd"]).arg(folder.join(&name));
            let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
            Member { child: child.expect("it is there"), ports }
        };
        let members = ports.into_iter().enumerate().map(start).collect();
        let cluster = Cluster { members, folder };
        eventually(|| {
            let said: Vec<_> = (0..BROKERS).map(|nth| cluster.ask(nth, "/jsz")).collect();
            let leads = |it: &serde_json::Value| {
                it["meta_cluster"]["leader"].as_str().is_some_and(|leader| !leader.is_empty())
            };
            if said.iter().all(leads) { Ok(()) } else { Err(format!("{said:?}")) }
        });
        Some(cluster)
    }

    /// The URL of all of them, as `--nats` expects it.
    pub fn url(&self) -> String {
        let urls = self.members.iter().map(|it| format!("nats://127.0.0.1:{}", it.ports[0]));
        urls.collect::<Vec<_>>().join(",")
    }

    /// What one of them says of itself; null if nothing.
    fn ask(&self, nth: usize, path: &str) -> serde_json::Value {
        let address = format!("127.0.0.1:{}", self.members[nth].ports[2]);
        let answer = get(&address, path).unwrap_or_default();
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or_default()
    }

    /// The leader of the ledger.
    fn leader(&self) -> usize {
        let named = |nth: usize| {
            let said = self.ask(nth, "/jsz?streams=true");
            let leader = &said["account_details"][0]["stream_detail"][0]["cluster"]["leader"];
            leader.as_str()?.strip_prefix("broker")?.parse::<usize>().ok()
        };
        eventually(|| (0..BROKERS).find_map(named).ok_or_else(|| "no leader".to_owned()))
    }

    /// Kills the leader of the ledger, as in a crash.
    pub fn kill_leader(&mut self) {
        let leader = self.leader();
        self.members[leader].child.kill().expect("it runs");
        self.members[leader].child.wait().expect("it ends");
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            // The test may have killed it.
            member.child.kill().unwrap_or(());
            let _ = member.child.wait();
        }
        std::fs::remove_dir_all(&self.folder).unwrap_or(());
    }
}
