//! Players on region servers as threads of one process: bots cross borders, and the process is killed under them.

#[path = "region_support/bots.rs"]
mod bots;
mod region_support;

use bots::{Bots, kept, players};
use region_support::{Process, eventually, regions, room, scratch};

fn mesh(file: &str, listen: &str) -> Process {
    let options = ["--listen", listen, "--metrics", "127.0.0.1:0", "--players", room()];
    Process::start(&[&["mesh", "--regions", "4", "--data", file][..], &options].concat())
}

/// Where the servers of a process listen for players.
fn addresses(process: &Process, count: usize) -> String {
    eventually(|| {
        let found: Vec<String> = process
            .text()
            .lines()
            .filter_map(|line| line.split_once(" listening on ").map(|(_, at)| at.to_owned()))
            .collect();
        if found.len() == count { Ok(found.join(",")) } else { Err(process.text()) }
    })
}

/// Waits until so many regions are run by one server each, and own something.
fn settle(processes: &[&Process], count: usize) {
    eventually(|| {
        let seen = regions(processes);
        let one = seen.values().all(|it| it.acting.len() == 1);
        let full = seen.values().map(|it| it.owned).sum::<usize>() > 0;
        if seen.len() == count && one && full { Ok(()) } else { Err(format!("{seen:?}")) }
    });
}

#[test]
fn bots_cross_borders_and_none_is_out_or_in_twice() {
    let folder = scratch("mesh-players");
    let file = folder.join("world.ledger");
    let mut process = mesh(file.to_str().expect("plain letters"), "127.0.0.1:0");
    let servers = addresses(&process, 4);
    settle(&[&process], 4);
    let before = kept(&[&process]);
    let bots = Bots::start(&servers, 20);
    eventually(|| match players(&[&process]) {
        found if found == bots.count => Ok(()),
        found => Err(format!(
            "{found} of {} players: {}\n{}",
            bots.count,
            bots.process.text(),
            process.text()
        )),
    });
    let count = bots.count;
    let figures = bots.figures();
    assert_eq!(figures["connected"], count);
    assert_eq!((&figures["rejoins"], &figures["malformed"]), (&0.into(), &0.into()), "{figures}");
    assert!(figures["moves"].as_u64() > Some(0), "bots crossed borders: {figures}");
    assert!(figures["silent_ms_max"].as_f64() < Some(2_000.0), "{figures}");
    // Everybody has left, with what they carried.
    eventually(|| {
        let (players, after) = (players(&[&process]), kept(&[&process]));
        let same = after == before;
        if players == 0 && same { Ok(()) } else { Err(format!("{players}: {before:?} {after:?}")) }
    });
    process.signal("-TERM");
    assert!(process.ended().success(), "{}", process.text());
    std::fs::remove_dir_all(folder).expect("it is ours");
}
