//! A peer's requests to a lobby, tampered with. They may be refused, never
//! panic, stall or grow without a bound.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    foveate_io::fuzz::lobby(data);
});
