//! A stranger's bytes as streams and headers of HTTP/3: read or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    foveate_io::fuzz::h3(data);
});
