//! Region servers of a world on a NATS server.

use super::region_support::{Process, RegionView, eventually, regions, room};
use std::collections::BTreeMap;
use std::path::Path;

pub const SERVERS: usize = 4;

/// A file with the world's key.
pub fn key(folder: &Path, name: &str) -> String {
    let file = folder.join(name);
    std::fs::write(&file, [name.as_bytes(), &[b'k'; 32]].concat()).expect("a new file");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&file, mode).expect("it is ours");
    }
    file.to_str().expect("plain letters").to_owned()
}

pub fn arguments<'a>(broker: &'a str, key: &'a str) -> Vec<&'a str> {
    let listen = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--players", room()];
    let world = ["region", "--fixed", "--world", "meadow", "--nats", broker, "--key-file", key];
    [&world[..], &listen[..]].concat()
}

pub type Seen = BTreeMap<u32, RegionView>;

/// Waits until so many regions are run by one server each, and own so many objects together.
pub fn settled(processes: &[Process], count: usize, objects: Option<usize>) -> (Seen, usize) {
    let all: Vec<&Process> = processes.iter().collect();
    eventually(|| {
        let seen = regions(&all);
        let owned = seen.values().map(|it| it.owned).sum();
        let fine = seen.len() == count && seen.values().all(|it| it.acting.len() == 1);
        let whole = owned > 0 && objects.is_none_or(|objects| objects == owned);
        let said = || processes.iter().map(Process::text).collect::<Vec<_>>().join("\n---\n");
        if fine && whole { Ok((seen, owned)) } else { Err(format!("{seen:?}\n{}", said())) }
    })
}

/// The process that runs a region.
pub fn owner(processes: &[Process]) -> usize {
    let runs = |process: &Process| {
        let figures = process.figures();
        figures.keys().any(|name| name.starts_with("foveate_region_acting{"))
    };
    processes.iter().position(runs).expect("a server runs a region")
}

/// A world of as many servers, each with one region and one of the others as a standby.
pub fn begin(broker: &str, key: &str) -> (Vec<Process>, usize) {
    begin_with(&arguments(broker, key))
}

/// The same, with other arguments.
pub fn begin_with(arguments: &[&str]) -> (Vec<Process>, usize) {
    let mut processes = vec![Process::start(arguments)];
    let (_, objects) = settled(&processes, 1, None);
    for count in 2..=SERVERS {
        processes.push(Process::start(arguments));
        settled(&processes, count, Some(objects));
    }
    protected(&processes, SERVERS);
    (processes, objects)
}

/// Waits until so many regions could be taken over at once.
pub fn protected(processes: &[Process], count: usize) {
    eventually(|| {
        let of = |process: &Process| {
            let figures = process.figures().into_iter();
            figures.filter(|(name, it)| name.contains("_protected{") && *it == 1.0).count()
        };
        let found: usize = processes.iter().map(of).sum();
        if found >= count { Ok(()) } else { Err(format!("{found} regions have a standby")) }
    });
}
