//! A stranger's bytes as frames of a WebSocket: read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    foveate_io::fuzz::websocket(data);
});
