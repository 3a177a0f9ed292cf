//! What a process has used of the machine, and marks of the measured time.

use std::io::BufRead;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Bytes of a socket's buffers.
pub const BUFFER: usize = 4 << 20;

/// Packets and their bytes of UDP payload.
#[derive(Clone, Copy, Default, Debug)]
pub struct Traffic {
    pub packets: u64,
    pub bytes: u64,
}

impl Traffic {
    pub fn add(&mut self, bytes: usize) {
        self.packets += 1;
        self.bytes += bytes as u64;
    }

    pub fn since(self, before: Traffic) -> Traffic {
        Traffic { packets: self.packets - before.packets, bytes: self.bytes - before.bytes }
    }
}

/// Processor time of all threads so far.
pub fn processor_time() -> Duration {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(spent.tv_sec as u64, spent.tv_nsec as u32)
}

/// Resident memory.
pub fn resident_kib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0.0)
}

/// Keeps this process on one processor, if the system lets it.
pub fn pin(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor);
    let _ = sched_setaffinity(None, &set);
}

/// Gives all UDP sockets of this process buffers as large as the others' have, for libraries that keep theirs to
/// themselves.
pub fn widen_sockets() {
    let Ok(own) = pidfd_open(getpid(), PidfdFlags::empty()) else { return };
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for number in numbers.collect::<Vec<i32>>() {
        let Ok(file) = pidfd_getfd(&own, number, PidfdGetfdFlags::empty()) else { continue };
        let socket = UdpSocket::from(file);
        let buffers = socket2::SockRef::from(&socket);
        if buffers.r#type().is_ok_and(|kind| kind == socket2::Type::DGRAM) {
            let _ = buffers.set_recv_buffer_size(BUFFER);
            let _ = buffers.set_send_buffer_size(BUFFER);
        }
    }
}

/// Lines on standard input: the first begins the measured time, the second ends it, its end ends the server.
pub struct Marks(Arc<AtomicUsize>);

impl Marks {
    pub fn listen() -> Marks {
        let count = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&count);
        std::thread::spawn(move || {
            for _ in std::io::stdin().lock().lines() {
                theirs.fetch_add(1, Ordering::Relaxed);
            }
            theirs.store(2, Ordering::Relaxed);
        });
        Marks(count)
    }

    /// 0 before the measured time, 1 in it, 2 after it.
    pub fn phase(&self) -> usize {
        self.0.load(Ordering::Relaxed).min(2)
    }
}

/// Counts what happens between the marks.
#[derive(Default)]
pub struct Meter {
    begun: Option<(std::time::Instant, Duration, Traffic, Traffic)>,
    ticks: u64,
}

impl Meter {
    /// A tick is over. The figures once the measured time is.
    pub fn tick(
        &mut self,
        marks: &Marks,
        sent: Traffic,
        received: Traffic,
    ) -> Option<super::Served> {
        match (marks.phase(), self.begun) {
            (1, None) => {
                self.begun = Some((std::time::Instant::now(), processor_time(), sent, received));
                None
            }
            (1, Some(_)) => {
                self.ticks += 1;
                None
            }
            (2, begun) => {
                let (at, cpu, sent_before, received_before) = begun?;
                Some(super::Served {
                    ticks: self.ticks + 1,
                    seconds: at.elapsed().as_secs_f64(),
                    cpu: processor_time() - cpu,
                    rss_kib: resident_kib(),
                    sent: sent.since(sent_before),
                    received: received.since(received_before),
                })
            }
            _ => None,
        }
    }
}
