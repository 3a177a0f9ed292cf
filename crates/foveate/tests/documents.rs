//! Code in documents: the README shows an example unchanged, and every Rust block is a
//! documentation test.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A program without the comments at its top.
fn program(path: &str) -> String {
    let text = read(path);
    text.lines().skip_while(|line| line.starts_with("//!") || line.is_empty()).fold(
        String::new(),
        |mut code, line| {
            code.push_str(line);
            code.push('\n');
            code
        },
    )
}

#[test]
fn the_readme_shows_the_server_as_it_is_run() {
    let code = program("crates/foveate/examples/hello_server.rs");
    let shown = format!("```rust,ignore\n{code}```");
    assert!(
        read("README.md").contains(&shown),
        "README.md does not show hello_server.rs:\n{shown}"
    );
}

#[test]
fn whole_programs_are_short() {
    for example in ["hello_server", "hello_client", "hello_peer", "hello_policy"] {
        let path = format!("crates/foveate/examples/{example}.rs");
        let lines = read(&path).lines().count();
        assert!(lines <= 25, "{path} has {lines} lines");
    }
}

#[test]
fn every_document_with_rust_code_is_a_documentation_test() {
    // The chapter on transports is tested with the crate that has them.
    let book = read("crates/foveate/src/book.rs") + &read("crates/foveate-io/src/lib.rs");
    let chapters = std::fs::read_dir(root().join("docs")).unwrap();
    let chapters = chapters.filter_map(|entry| entry.unwrap().file_name().into_string().ok());
    for chapter in chapters.filter(|name| name.ends_with(".md")) {
        let text = read(&format!("docs/{chapter}"));
        if text.lines().any(|line| line.starts_with("```rust")) {
            let included = format!("docs/{chapter}\")");
            assert!(book.contains(&included), "docs/{chapter} is not in src/book.rs");
            assert!(!text.contains("```rust,ignore"), "docs/{chapter}: a block is not compiled");
        }
    }
}
