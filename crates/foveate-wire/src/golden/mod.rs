//! The golden vectors in `vectors/`: the exact bytes, for other implementations to compare with.
//!
//! They are generated deterministically and compared with the files; `cargo xtask vectors` rewrites
//! the files, which is a change of the wire and needs a reason.

mod coded;
mod stream;
mod values;

use serde_json::Value;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// One file: its name without the extension, and its cases.
type Suite = (&'static str, Vec<Value>);

fn suites() -> [Suite; 4] {
    [
        ("coder", coded::coder()),
        ("numbers", coded::numbers()),
        ("packets", stream::packets()),
        ("values", values::all()),
    ]
}

/// A list with one case per line, so that a difference shows where it is.
fn text(cases: &[Value]) -> String {
    let lines: Vec<String> = cases.iter().map(Value::to_string).collect();
    format!("[\n{}\n]\n", lines.join(",\n"))
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(format!("{name}.json"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Names the first line in which a file differs from the generated text.
fn compare(name: &str, file: &str, made: &str) -> Result<(), String> {
    let mut lines = file.lines().zip(made.lines()).enumerate();
    let line = match lines.find(|(_, (there, here))| there != here) {
        Some((at, _)) => at + 1,
        None if file == made => return Ok(()),
        None => file.lines().count().min(made.lines().count()) + 1,
    };
    Err(format!(
        "vectors/{name}.json differs at line {line}; if the wire is meant to change: cargo xtask vectors"
    ))
}

#[test]
fn golden_vectors_still_hold() {
    let bless = std::env::var_os("FOVEATE_BLESS").is_some_and(|value| value == "1");
    for (name, cases) in suites() {
        let (path, made) = (file(name), text(&cases));
        if bless {
            std::fs::write(&path, &made).expect("vectors/ can be written");
        }
        let there = std::fs::read_to_string(&path).unwrap_or_default();
        compare(name, &there, &made).unwrap_or_else(|what| panic!("{what}"));
    }
}

#[test]
fn a_vector_with_one_wrong_digit_is_found() {
    for (name, cases) in suites() {
        let made = text(&cases);
        for (at, key) in made.match_indices("\"bytes\":\"").take(20) {
            let from = at + key.len();
            let digits = made[from..].bytes().take_while(|byte| *byte != b'"').count();
            for at in (from..from + digits).step_by(3) {
                let mut wrong = made.clone().into_bytes();
                wrong[at] = if wrong[at] == b'0' { b'1' } else { b'0' };
                let wrong = String::from_utf8(wrong).unwrap();
                assert!(compare(name, &wrong, &made).is_err());
            }
        }
        let shorter = made.trim_end_matches("\n]\n");
        assert!(compare(name, shorter, &made).is_err() && compare(name, "", &made).is_err());
    }
}

#[test]
fn vectors_stay_small() {
    let total: usize = suites().iter().map(|(_, cases)| text(cases).len()).sum();
    assert!(total < 300_000, "{total} bytes");
}
