//! `vectors/direct.json`: ids, keys and packets, for other implementations to hold to.

use std::fmt::Write;
use std::path::Path;

use super::super::keys::{Sealer, Secret};
use super::*;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// One packet: what it says, and its bytes.
struct Case {
    side: Side,
    number: u32,
    kind: Kind,
    feedback: Option<Feedback>,
    contents: &'static [u8],
    skipped: u64,
}

fn cases() -> [Case; 5] {
    let feedback = Some(Feedback { newest: 513, count: 500, age: 7 });
    let case = |side, number, kind, feedback, contents| Case {
        side,
        number,
        kind,
        feedback,
        contents,
        skipped: 0,
    };
    [
        case(Side::Client, 0, Kind::Challenge, None, b"\x01\x02\x03\x04\x05\x06\x07\x08"),
        case(Side::Server, 0, Kind::Response, feedback, b"\x01\x02\x03\x04\x05\x06\x07\x08"),
        case(Side::Server, 1, Kind::Datagram, feedback, b"a state packet, say"),
        Case { skipped: 70_000, ..case(Side::Client, 1, Kind::Datagram, None, b"an input") },
        Case { skipped: MAX_SEALED, ..case(Side::Server, 2, Kind::Feedback, feedback, b"") },
    ]
}

fn line(cipher: Cipher, case: &Case) -> String {
    let exported: [u8; EXPORTED] = std::array::from_fn(|at| 3 * at as u8);
    let secret = Secret::pair(&exported)[usize::from(case.side == Side::Server)];
    let mut sealer = Sealer::new(cipher, secret, Micros::ZERO);
    sealer.skip(case.skipped);
    let id = secret.ids().path_id(case.number);
    let header = Header { kind: case.kind, has_feedback: case.feedback.is_some(), id };
    let mut packet = Vec::new();
    let sequence = sealer.seal(Micros::ZERO, header, &mut packet, |out| {
        out.extend(case.feedback.map(Feedback::encode).into_iter().flatten());
        out.extend_from_slice(case.contents);
    });
    let feedback = case
        .feedback
        .map_or("null".into(), |it| format!("[{},{},{}]", it.newest, it.count, it.age));
    format!(
        "{{\"protocol\":\"{}\",\"exported\":\"{}\",\"side\":\"{}\",\"path\":{},\"id\":\"{}\",\
         \"phase\":{},\"sequence\":{sequence},\"kind\":{},\"feedback\":{feedback},\
         \"contents\":\"{}\",\"bytes\":\"{}\"}}",
        String::from_utf8_lossy(cipher.protocol()),
        hex(&exported),
        if case.side == Side::Client { "client" } else { "server" },
        case.number,
        hex(&id.0),
        u32::from(case.skipped >= MAX_SEALED),
        case.kind as u8,
        hex(case.contents),
        hex(&packet),
    )
}

#[test]
fn direct_vectors_still_hold() {
    let cases = cases();
    let lines: Vec<String> = Cipher::ALL
        .into_iter()
        .flat_map(|cipher| cases.iter().map(move |case| line(cipher, case)))
        .collect();
    let made = format!("[\n{}\n]\n", lines.join(",\n"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/direct.json");
    if std::env::var_os("FOVEATE_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&file, &made).expect("vectors/ can be written");
    }
    let there = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        there == made,
        "vectors/direct.json differs; if the wire is meant to change: cargo xtask vectors"
    );
}
