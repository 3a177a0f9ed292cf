//! `foveate mesh`: region servers as threads of one process, which is killed and restarted.

mod region_support;

use region_support::{Process, eventually, get, regions, room, scratch};

fn mesh(file: &str, regions: &str) -> Process {
    let listen = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--players", room()];
    let arguments = [&["mesh", "--regions", regions, "--data", file][..], &listen].concat();
    Process::start(&arguments)
}

/// Waits until `count` regions are run by one server each; returns the epochs, and the objects that they own in all.
fn settled(process: &Process, count: usize, objects: Option<usize>) -> (u32, usize) {
    eventually(|| {
        let seen = regions(&[process]);
        let owned = seen.values().map(|it| it.owned).sum();
        let fine = seen.len() == count && seen.values().all(|it| it.acting.len() == 1);
        let all = owned > 0 && objects.is_none_or(|objects| objects == owned);
        let epoch = seen.values().map(|it| it.epoch).min().unwrap_or(0);
        if fine && all { Ok((epoch, owned)) } else { Err(format!("{seen:?}")) }
    })
}

#[test]
fn a_world_continues_after_its_process_was_stopped_or_killed() {
    let folder = scratch("mesh");
    let file = folder.join("world.ledger");
    let file = file.to_str().expect("plain letters");
    let mut first = mesh(file, "4");
    let (epoch, objects) = settled(&first, 4, None);
    assert_eq!(epoch, 1);
    let ready = eventually(|| get(&first.metrics, "/readyz").ok_or("no answer".to_owned()));
    assert!(ready.starts_with("HTTP/1.1 200 "), "{ready}");

    let mut second = Process::spawn(&["mesh", "--data", file, "--listen", "127.0.0.1:0"]);
    assert!(!second.ended().success());
    assert!(second.text().contains("in use by another server"), "{}", second.text());

    first.signal("-TERM");
    assert!(first.ended().success(), "{}", first.text());
    let mut epoch = epoch;
    for stop in ["-KILL", "-TERM"] {
        let mut again = mesh(file, "4");
        let (now, _) = settled(&again, 4, Some(objects));
        assert!(now > epoch, "new servers run the regions in a higher epoch: {epoch}, {now}");
        epoch = now;
        again.signal(stop);
        again.ended();
    }
    let mut other = Process::spawn(&["mesh", "--game", "crowd", "--data", file]);
    assert!(!other.ended().success());
    assert!(other.text().contains("run the same game"), "{}", other.text());

    let fewer = mesh(file, "2");
    settled(&fewer, 4, Some(objects));
    drop(fewer);
    std::fs::write(file, b"SQLite format 3\0 and then nothing of it").expect("it is ours");
    let mut torn = Process::spawn(&["mesh", "--data", file]);
    assert!(!torn.ended().success());
    assert!(torn.text().contains("restore a backup"), "{}", torn.text());
    std::fs::remove_dir_all(folder).expect("it is ours");
}
