//! Players at region servers, and what servers say of them.

use super::region_support::{Process, eventually, label, regions};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Players of a test.
pub const BOTS: usize = 24;

/// Bots that play, and say in the end how it was.
pub struct Bots {
    pub process: Process,
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
        let (count, seconds) = (BOTS.to_string(), seconds.to_string());
        let path = file.to_str().expect("plain letters");
        let process = Process::spawn(&[
            "bots",
            "--connect",
            servers,
            "--count",
            &count,
            "--players",
            "64",
            "--seconds",
            &seconds,
            "--json",
            path,
        ]);
        Bots { process, file }
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

/// Objects that regions own, by kind.
pub fn world(processes: &[&Process]) -> BTreeMap<String, usize> {
    sum(processes, "foveate_region_owned{")
}

/// Waits until so many regions are run by one server each, and own something.
pub fn settle(processes: &[&Process], count: usize) {
    eventually(|| {
        let seen = regions(processes);
        let one = seen.values().all(|it| it.acting.len() == 1);
        let full = seen.values().map(|it| it.owned).sum::<usize>() > 0;
        if seen.len() == count && one && full { Ok(()) } else { Err(format!("{seen:?}")) }
    });
}
