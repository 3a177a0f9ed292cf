//! How slow the machine is at the moment: a promise in seconds is one of a machine that has time for us.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);
/// Writing sleeps, computes and flushes a few times over before something is on the disk.
const STEPS: u32 = 4;

/// Sleeps and writes to the disk again and again, and notes the worst delay.
pub struct Probe {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<Duration>>,
}

impl Probe {
    /// On the disk of this folder.
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

    /// What must be granted beyond a promise on this machine, from the start until now.
    pub fn allowance(self) -> Duration {
        self.stop.store(true, Ordering::Relaxed);
        STEPS * self.thread.join().expect("no panic").expect("the disk works")
    }
}
