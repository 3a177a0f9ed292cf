//! A peer's packets to another, tampered with and believed: it may refuse them, never panic, stall or grow
//! without a bound.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    foveate_arena::fuzz::peer(data);
});
