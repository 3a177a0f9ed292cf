//! Short runs of `foveate soak`: both forms pass, and a server whose memory must grow fails.

use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

/// Between the growth that a few bots cause in half a minute and the growth that further squads cause, in MB an hour.
const AIM: &str = "500";

/// Runs a soak; returns its output, and the figures that it wrote.
fn soak(test: &str, arguments: &[&str]) -> (Output, Value) {
    let file: PathBuf =
        std::env::temp_dir().join(format!("foveate-{test}-{}.json", std::process::id()));
    let done = Command::new(env!("CARGO_BIN_EXE_foveate"))
        .args(["soak", "--aim", AIM])
        .args(arguments)
        .arg("--json")
        .arg(&file)
        .output()
        .unwrap();
    let text = std::fs::read_to_string(&file).unwrap_or_else(|_| panic!("no figures: {done:?}"));
    std::fs::remove_file(&file).unwrap();
    (done, serde_json::from_str(&text).unwrap())
}

#[test]
fn a_server_with_bots_that_join_and_leave_does_not_grow() {
    let (done, figures) = soak("soak", &["--minutes", "0.4", "--bots", "20"]);
    assert!(done.status.success(), "{done:?}");
    let row = &figures["rows"][0];
    assert!(row["samples"].as_array().unwrap().len() > 50, "{row}");
    assert!(row["rss_mb_end"].as_f64().unwrap() > 5.0, "{row}");
}

#[test]
fn growing_memory_is_reported() {
    let (done, figures) = soak("leak", &["--minutes", "0.4", "--bots", "40", "--leak"]);
    assert!(!done.status.success(), "{done:?}");
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(text.contains("memory slope") && text.contains("does not hold"), "{text}");
    let row = &figures["rows"][0];
    let at_least =
        row["mb_per_hour"].as_f64().unwrap() - row["mb_per_hour_within"].as_f64().unwrap();
    assert!(at_least > AIM.parse().unwrap(), "no more than noise: {row}");
    // A failed soak explains why.
    let words = String::from_utf8_lossy(&done.stderr);
    let folder = words.trim().rsplit(" in ").next().unwrap();
    assert!(PathBuf::from(folder).join("server.log").is_file(), "{words}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn after_each_kill_nothing_is_lost_and_all_bots_come_back_by_themselves() {
    let (done, figures) =
        soak("kills", &["--minutes", "0.2", "--kill-every", "0.1", "--bots", "20"]);
    assert!(done.status.success(), "{done:?}");
    let row = &figures["rows"][0];
    assert_eq!((row["kills"].as_u64(), row["losses"].as_u64()), (Some(2), Some(0)), "{row}");
    assert_eq!(row["all_in_s"].as_array().unwrap().len(), 3, "{row}");
}
