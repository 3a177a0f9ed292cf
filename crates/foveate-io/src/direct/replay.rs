//! Which sequence numbers have arrived: each is accepted once.

/// Numbers below the newest that are remembered; what is older is refused.
pub(crate) const WINDOW: u64 = 1_024;

const WORDS: usize = (WINDOW / 64) as usize;

/// The newest numbers that were accepted. It moves by `accept` alone, that is for packets that were authenticated.
#[derive(Default)]
pub(crate) struct ReplayWindow {
    /// One more than the newest; 0 before the first.
    next: u64,
    /// Of the last [`WINDOW`] numbers, by number modulo that.
    seen: [u64; WORDS],
    count: u64,
}

impl ReplayWindow {
    pub(crate) fn newest(&self) -> Option<u64> {
        self.next.checked_sub(1)
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The number with these low bits that is nearest to the one expected next.
    pub(crate) fn complete(&self, low: u16) -> u64 {
        let ahead = i64::from(low.wrapping_sub(self.next as u16) as i16);
        match self.next.checked_add_signed(ahead) {
            Some(sequence) => sequence,
            None => u64::from(low),
        }
    }

    /// Whether the number was accepted before, or is too old to tell.
    pub(crate) fn is_known(&self, sequence: u64) -> bool {
        if sequence >= self.next {
            return false;
        }
        self.next - sequence > WINDOW || self.word(sequence) & bit(sequence) != 0
    }

    pub(crate) fn accept(&mut self, sequence: u64) {
        if self.is_known(sequence) {
            return;
        }
        // What falls out of the window makes room.
        let skipped = (sequence + 1).saturating_sub(self.next).min(WINDOW);
        for passed in (sequence + 1 - skipped)..=sequence {
            if passed >= self.next {
                self.seen[place(passed)] &= !bit(passed);
            }
        }
        self.next = self.next.max(sequence + 1);
        self.seen[place(sequence)] |= bit(sequence);
        self.count += 1;
    }

    fn word(&self, sequence: u64) -> u64 {
        self.seen[place(sequence)]
    }
}

fn place(sequence: u64) -> usize {
    (sequence % WINDOW / 64) as usize
}

fn bit(sequence: u64) -> u64 {
    1 << (sequence % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_number_is_accepted_once_in_any_order() {
        for seed in 0..50 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut window, mut model) = (ReplayWindow::default(), BTreeSet::new());
            let mut newest = 0_u64;
            for _ in 0..4_000 {
                let jump = if random.u32(..100) == 0 { 3_000 } else { 40 };
                let sequence = (newest + random.u64(..jump)).saturating_sub(random.u64(..1_500));
                let too_old = newest >= WINDOW + sequence && !model.is_empty();
                let fresh = !too_old && !model.contains(&sequence);
                assert_eq!(!window.is_known(sequence), fresh, "seed {seed}: {sequence}");
                if fresh {
                    window.accept(sequence);
                    model.insert(sequence);
                    newest = newest.max(sequence);
                }
            }
            assert_eq!(window.count(), model.len() as u64, "seed {seed}");
            assert_eq!(window.newest(), Some(newest), "seed {seed}");
        }
    }

    #[test]
    fn low_bits_name_the_nearest_number() {
        let mut window = ReplayWindow::default();
        assert_eq!((window.complete(0), window.complete(7)), (0, 7));
        assert_eq!(window.complete(65_535), 65_535, "there is nothing below 0");
        for newest in [40_000, 65_535, 65_536, 1 << 40] {
            window.accept(newest);
            for ahead in [-32_000_i64, -1, 0, 1, 2, 32_000] {
                let sequence = newest.saturating_add_signed(ahead);
                assert_eq!(window.complete(sequence as u16), sequence, "{newest} {ahead}");
            }
        }
    }
}
