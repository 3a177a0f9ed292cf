//! Each feature adds the dependencies that it needs and no others.

use std::process::Command;

/// The crates in a build with these features of `foveate`.
fn crates(features: &str) -> Vec<String> {
    let arguments = ["tree", "--package", "foveate", "--edges", "normal", "--prefix", "none"];
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--offline", "--no-default-features", "--features", features])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<String> =
        text.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn a_feature_brings_in_what_it_needs_and_nothing_else() {
    let heavy = ["foveate-io", "quinn-proto", "iroh", "tokio", "rusqlite", "tungstenite"];
    for (features, expected) in [
        ("", &[][..]),
        ("server", &["foveate-io", "quinn-proto"]),
        ("client", &["foveate-io", "quinn-proto"]),
        ("web", &["foveate-io", "quinn-proto", "tungstenite"]),
        ("storage", &["foveate-io", "quinn-proto", "rusqlite"]),
        ("peer", &["foveate-io", "quinn-proto", "iroh", "tokio"]),
    ] {
        let found = crates(features);
        let brought: Vec<&str> =
            heavy.into_iter().filter(|name| found.iter().any(|it| it == name)).collect();
        assert_eq!(brought, expected, "with the features {features:?}: {found:?}");
        println!("{features:?}: {} crates", found.len());
    }
}
