//! Any text as a server's configuration: read or refused, with the line.
#![no_main]

#[path = "../../crates/foveate-cli/src/config/mod.rs"]
#[expect(dead_code, reason = "the program uses the rest")]
mod config;

use config::{CliOverrides, Config, ConfigError};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Files that a configuration names are opened, and devices are files.
    if text.contains("/dev") || text.contains("/proc") {
        return;
    }
    match Config::parse(
        Path::new("folder-that-is-not-there/foveate.toml"),
        text,
        CliOverrides::default(),
    ) {
        Ok(config) => assert!(!config.to_string().is_empty()),
        Err(ConfigError::Line { line, .. }) => assert!(line <= text.lines().count() + 1),
        Err(other) => assert!(!other.to_string().is_empty()),
    }
});
