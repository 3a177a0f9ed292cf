//! Any bytes as what clients and servers say to each other: read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    foveate_node::fuzz::session(data);
});
