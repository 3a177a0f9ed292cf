//! Measures how slow the machine is at the moment: a guarantee in seconds assumes that we get the processor.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The pause between two samples.
const PAUSE: Duration = Duration::from_millis(20);
/// Writing takes a few steps of sleeping, computing and flushing until data is on the disk.
const STEPS: u32 = 4;

/// Sleeps and writes to the disk repeatedly, and records the longest delay.
pub struct Probe {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<Duration>>,
}

impl Probe {
    /// Starts a probe of this folder's disk.
    pub fn start(folder: &Path) -> Probe {
        let (stop, path) = (Arc::new(AtomicBool::new(false)), folder.join("probe"));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut worst = Duration::ZERO;
            while !stopped.load(Ordering::Relaxed) {
                let begun = Instant::now();
                std::thread::sleep(PAUSE);
                let mut file = File::create(&path)?;
                file.write_all(&[0; 4_096])?;
                file.sync_all()?;
                worst = worst.max(begun.elapsed().saturating_sub(PAUSE));
            }
            Ok(worst)
        });
        Probe { stop, thread }
    }

    /// The time to allow beyond a guarantee, measured from the start until now.
    pub fn allowance(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        STEPS * self.thread.join().expect("no panic").expect("the disk works")
    }
}
