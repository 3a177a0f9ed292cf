//! Any bytes handed to the packet parser: it may refuse them, never panic, stall or allocate
//! without a bound.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    foveate_wire::fuzz::decode_packet(data);
});
