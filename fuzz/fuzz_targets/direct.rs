//! Packets of a direct path, lost, repeated, changed, made up or sent from elsewhere. They may be refused, never
//! panic, be accepted twice, or send to an address more than three times what it sent.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    foveate_io::fuzz::direct(data);
});
