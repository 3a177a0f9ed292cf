//! Any bytes as records of the ledger of region servers: read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    foveate_node::fuzz::ledger(data);
});
