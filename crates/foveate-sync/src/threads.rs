//! Threads for pure computation: the same result for any number of them.
//!
//! Work is split into parts that share no data they write. The pool decides which thread runs which
//! part, so no part may depend on it; the caller merges the results in the order of the parts
//! (`docs/adr/0034-parts-on-a-pool-of-threads.md`).

use rayon_core::{ThreadPool, ThreadPoolBuilder};
use std::sync::Arc;
use thiserror::Error;

/// The most threads of a pool.
pub const MAX_THREADS: usize = 256;

/// Parts per thread: several, so that one delayed thread does not delay all work.
const PARTS_PER_THREAD: usize = 4;

/// A pool could not be created.
#[derive(Debug, Error)]
#[error("cannot start {count} threads: {cause}")]
pub struct ThreadsError {
    count: usize,
    cause: rayon_core::ThreadPoolBuildError,
}

/// A pool of threads, or only the caller's thread. Clones share the pool.
///
/// ```
/// use foveate_sync::Threads;
///
/// let threads = Threads::new(2)?;
/// let mut numbers: Vec<u64> = (0..1_000).collect();
/// let mut sums = vec![0; threads.parts()];
/// let each = numbers.len().div_ceil(sums.len());
/// threads.split(&mut numbers, each, &mut sums, &|_, numbers, sum| *sum = numbers.iter().sum());
/// assert_eq!(sums.iter().sum::<u64>(), 499_500);
/// # Ok::<(), foveate_sync::ThreadsError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Threads(Option<Arc<ThreadPool>>);

impl Threads {
    /// A pool of `count` threads, clamped to 1..=[`MAX_THREADS`]. With one thread there is no pool:
    /// the caller's thread does the work.
    pub fn new(count: usize) -> Result<Threads, ThreadsError> {
        let count = count.clamp(1, MAX_THREADS);
        if count == 1 {
            return Ok(Threads(None));
        }
        let pool = ThreadPoolBuilder::new().num_threads(count);
        let pool = pool.thread_name(|nth| format!("foveate-{nth}")).build();
        let pool = pool.map_err(|cause| ThreadsError { count, cause })?;
        Ok(Threads(Some(Arc::new(pool))))
    }

    /// The number of threads.
    pub fn count(&self) -> usize {
        self.0.as_ref().map_or(1, |pool| pool.current_num_threads())
    }

    /// The most parts that work is split into: several per thread, or one if there is one thread.
    pub fn parts(&self) -> usize {
        if self.0.is_some() { self.count() * PARTS_PER_THREAD } else { 1 }
    }

    /// Runs `call` on a thread of the pool and waits for it. Work that `call` splits then starts
    /// without a hand-over to the pool.
    pub fn run<R: Send>(&self, call: impl FnOnce() -> R + Send) -> R {
        match &self.0 {
            Some(pool) => pool.install(call),
            None => call(),
        }
    }

    /// Calls `work` for each part with the index of its first item, its items and its workspace.
    /// Parts have `each` items, the last one fewer. There must be a workspace for every part.
    /// Allocates nothing.
    pub fn split<A: Send, B: Send>(
        &self,
        items: &mut [A],
        each: usize,
        workspaces: &mut [B],
        work: &(impl Fn(usize, &mut [A], &mut B) + Sync),
    ) {
        let parts = items.len().div_ceil(each.max(1));
        let workspaces = &mut workspaces[..parts];
        self.run(|| halve(0, items, each.max(1), workspaces, work));
    }
}

fn halve<A: Send, B: Send>(
    first: usize,
    items: &mut [A],
    each: usize,
    workspaces: &mut [B],
    work: &(impl Fn(usize, &mut [A], &mut B) + Sync),
) {
    match workspaces {
        [] => {}
        [workspace] => work(first, items, workspace),
        workspaces => {
            let half = workspaces.len() / 2;
            let (left, right) = workspaces.split_at_mut(half);
            let (near, far) = items.split_at_mut(half * each);
            let second = first + near.len();
            rayon_core::join(
                || halve(first, near, each, left, work),
                || halve(second, far, each, right, work),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_in_one_part_and_parts_are_in_order() {
        for (threads, items, each) in [(1, 10, 10), (2, 100, 13), (3, 7, 1), (4, 0, 5), (2, 16, 4)]
        {
            let threads = Threads::new(threads).expect("threads start");
            let mut list: Vec<usize> = (0..items).collect();
            let mut parts = vec![Vec::new(); items.div_ceil(each)];
            threads.split(&mut list, each, &mut parts, &|first, items, part| {
                assert_eq!(items.first(), Some(&first));
                part.extend_from_slice(items);
            });
            assert_eq!(parts.concat(), list, "{} threads, {items} by {each}", threads.count());
            assert!(parts.iter().all(|part| part.len() <= each));
        }
    }

    #[test]
    fn one_thread_is_the_callers_own() {
        let here = std::thread::current().id();
        let threads = Threads::new(1).expect("nothing is started");
        assert_eq!(threads.run(|| std::thread::current().id()), here);
        assert_eq!((threads.count(), threads.parts()), (1, 1));
        let threads = Threads::new(2).expect("threads start");
        assert_ne!(threads.run(|| std::thread::current().id()), here);
    }
}
