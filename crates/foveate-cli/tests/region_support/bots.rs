//! Players at region servers, and what servers say of them.

use super::region_support::{Process, label, room};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Players of a test: 24, unless `FOVEATE_BOTS` says otherwise.
fn count() -> usize {
    std::env::var("FOVEATE_BOTS").ok().and_then(|count| count.parse().ok()).unwrap_or(24)
}

/// Bots that play, and say in the end how it was.
pub struct Bots {
    pub process: Process,
    /// How many they are.
    pub count: usize,
    file: PathBuf,
}

impl Bots {
    /// Bots that come to these servers, and play for so many seconds once all are in.
    pub fn start(servers: &str, seconds: u32) -> Bots {
        let file = std::env::temp_dir().join(format!(
            "foveate-bots-{}-{}.json",
            std::process::id(),
            servers.len()
        ));
        let bots = count();
        let (count, seconds) = (bots.to_string(), seconds.to_string());
        let path = file.to_str().expect("plain letters");
        let process = Process::spawn(&[
            "bots",
            "--connect",
            servers,
            "--count",
            &count,
            "--players",
            room(),
            "--seconds",
            &seconds,
            "--json",
            path,
        ]);
        Bots { process, count: bots, file }
    }

    /// Waits for the end; the figures.
    pub fn figures(mut self) -> serde_json::Value {
        let status = self.process.ended();
        assert!(status.success(), "{}", self.process.text());
        let text = std::fs::read_to_string(&self.file).expect("the figures");
        std::fs::remove_file(&self.file).unwrap_or(());
        let outcome: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        outcome["rows"][0].clone()
    }
}

/// The sum of a metric over all servers and regions.
fn sum(processes: &[&Process], metric: &str) -> BTreeMap<String, usize> {
    let mut sums = BTreeMap::new();
    for (name, value) in processes.iter().flat_map(|it| it.figures()) {
        if name.starts_with(metric) {
            let key = label(&name, "kind").unwrap_or("").to_owned();
            *sums.entry(key).or_default() += value as usize;
        }
    }
    sums
}

/// Players whose sessions are hosted.
pub fn players(processes: &[&Process]) -> usize {
    sum(processes, "foveate_region_players{").values().sum()
}

/// Objects that do not come and go with players, by kind.
pub fn kept(processes: &[&Process]) -> BTreeMap<String, usize> {
    let mut all = sum(processes, "foveate_region_owned{");
    all.retain(|kind, _| kind != "avatar" && kind != "unit");
    all
}
