//! A stranger's bytes as a browser's: requests, streams and headers of HTTP/3. They may be refused, never
//! panic, stall or grow without a bound.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    foveate_io::fuzz::browser(data);
});
