//! Any text as another end's description of its schema: compared or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    foveate_wire::fuzz::compare_schema(data);
});
