//! A stranger's bytes as what a proxy says of its clients: read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    foveate_io::fuzz::proxy(data);
});
