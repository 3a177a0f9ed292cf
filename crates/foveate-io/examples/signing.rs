//! The cost of signatures for a peer, in bytes and processor time, by how much is signed at once.
//!
//! `cargo run --release -p foveate-io --example signing`

use foveate_io::keys::KeyPair;
use foveate_node::peer::{Key, Signer};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Bytes of one statement: a digest of a peer with a few objects.
const STATEMENT: usize = 64;
/// Measurements of which the fastest counts, since the others were disturbed.
const TRIES: usize = 7;
/// Runs in each measurement.
const RUNS: usize = 400;

fn processor_time() -> Duration {
    let spent = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

/// Microseconds of one run.
fn cost(mut run: impl FnMut()) -> f64 {
    let tries = (0..TRIES).map(|_| {
        let begin = processor_time();
        (0..RUNS).for_each(|_| run());
        (processor_time() - begin).as_secs_f64() * 1e6 / RUNS as f64
    });
    tries.fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), foveate_io::keys::KeyError> {
    let keys = KeyPair::from_secret([1; 32])?;
    let header = size_of::<Key>() + 64;
    println!("statements of {STATEMENT} B; a batch adds a key and a signature, {header} B");
    println!(
        "{:>10} {:>12} {:>9} {:>9} {:>14} {:>14}",
        "per batch", "B added each", "sign µs", "check µs", "sign µs each", "check µs each"
    );
    for count in [1, 2, 4, 8, 16] {
        let bytes = vec![7; count * STATEMENT];
        let (key, signature) = (keys.key(), keys.sign(&bytes));
        let sign = cost(|| assert_eq!(keys.sign(&bytes), signature));
        let check = cost(|| assert!(keys.verify(&key, &bytes, &signature)));
        let each = |whole: f64| whole / count as f64;
        println!(
            "{count:>10} {:>12.1} {sign:>9.1} {check:>9.1} {:>14.2} {:>14.2}",
            each(header as f64),
            each(sign),
            each(check)
        );
    }
    Ok(())
}
