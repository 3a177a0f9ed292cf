//! A database with any rows in it: read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    foveate_io::fuzz::storage(data);
});
