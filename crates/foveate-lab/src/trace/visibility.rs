//! Reads the companion `_vis`: potentially visible sets and lines of sight.

use std::io::Read;
use std::path::Path;

use super::base::{Clock, header, player_id};
use super::by_player::{ByPlayer, Grouper, Slots, Timed};
use super::csv::{Columns, Lines};
use super::error::{TraceError, TraceFault, quoted};
use super::{MAX_UNPACKED_BYTES, Trace};

const COLUMNS: [&str; 4] = ["t_ms", "id", "pvs_mask_hex", "los_mask_hex"];

/// How long a sample is valid. Recordings sample every 250 ms; after a second without one, visibility is unknown.
pub const VISIBILITY_STALE_AFTER_MS: u32 = 1_000;

/// Masks are indexed by player id, so a large id makes every mask long.
const MAX_MASK_IDS: u32 = 4_096;
/// Limit on all masks of a recording, in words of 64 bits: 1 GiB.
const MAX_MASK_WORDS: usize = 1 << 27;

/// Which players see each other, as the game's engine decided.
#[derive(Debug, Clone)]
pub struct RecordedSight {
    looks: ByPlayer<Look>,
    /// For each sample the potentially visible set, then the line of sight; `stride` words each.
    masks: Vec<u64>,
    stride: usize,
    ids: Vec<u32>,
}

/// One observer's sample.
#[derive(Debug, Clone, Copy, Default)]
struct Look {
    t_ms: u32,
    at: u32,
}

impl Timed for Look {
    fn t_ms(&self) -> u32 {
        self.t_ms
    }
}

impl RecordedSight {
    /// Whether `object` is in the potentially visible set of `observer` (both are player indices) at a time, by the
    /// newest valid sample. False without one.
    ///
    /// # Panics
    /// If there is no such player.
    pub fn pvs(&self, t_ms: u32, observer: usize, object: usize) -> bool {
        self.bit(t_ms, observer, object, 0)
    }

    /// Whether there is a clear line of sight from `observer` to `object` at a time, by the newest valid sample. False
    /// without one.
    ///
    /// # Panics
    /// If there is no such player.
    pub fn los(&self, t_ms: u32, observer: usize, object: usize) -> bool {
        self.bit(t_ms, observer, object, self.stride)
    }

    /// Whether a sample of `observer` is valid at a time, so that `false` means "not visible".
    ///
    /// # Panics
    /// If there is no such player.
    pub fn is_known(&self, t_ms: u32, observer: usize) -> bool {
        self.look(t_ms, observer).is_some()
    }

    fn look(&self, t_ms: u32, observer: usize) -> Option<&Look> {
        let look = self.looks.at_or_before(observer, t_ms)?;
        (t_ms - look.t_ms <= VISIBILITY_STALE_AFTER_MS).then_some(look)
    }

    fn bit(&self, t_ms: u32, observer: usize, object: usize, offset: usize) -> bool {
        let id = self.ids[object] as usize;
        self.look(t_ms, observer).is_some_and(|look| {
            let word = look.at as usize * 2 * self.stride + offset + id / 64;
            self.masks[word] >> (id % 64) & 1 == 1
        })
    }

    pub(super) fn read(source: impl Read, name: &Path, trace: &Trace) -> Result<Self, TraceError> {
        let fail = |line, fault| TraceError::new(name, line, fault);
        let mut lines = Lines::new(source, MAX_UNPACKED_BYTES).map_err(|fault| fail(1, fault))?;
        let columns = header(&mut lines, &COLUMNS).map_err(|fault| fail(1, fault))?;
        let mut reader = Reader::new(trace).map_err(|fault| fail(1, fault))?;
        loop {
            match reader.next_row(&mut lines, &columns) {
                Ok(true) => {}
                Ok(false) => break,
                Err(fault) => return Err(fail(lines.line(), fault)),
            }
        }
        if reader.looks.is_empty() {
            return Err(fail(lines.line(), TraceFault::NoRows));
        }
        let same_order: Vec<u32> = (0..trace.players() as u32).collect();
        Ok(Self {
            looks: reader.looks.finish(&same_order).0,
            masks: reader.masks,
            stride: reader.stride,
            ids: trace.ids.clone(),
        })
    }
}

struct Reader {
    clock: Clock,
    slots: Slots,
    looks: Grouper<Look>,
    masks: Vec<u64>,
    stride: usize,
}

impl Reader {
    fn new(trace: &Trace) -> Result<Self, TraceFault> {
        let greatest = trace.ids.last().copied().unwrap_or(0);
        if greatest >= MAX_MASK_IDS {
            let (low, high) = (0.0, f64::from(MAX_MASK_IDS - 1));
            let found = format!("player {greatest} in the recording beside this file");
            return Err(TraceFault::OutOfRange { column: "id", found, low, high });
        }
        Ok(Self {
            clock: Clock::beside(trace),
            slots: Slots::of_known(&trace.ids),
            looks: Grouper::new(),
            masks: Vec::new(),
            stride: greatest as usize / 64 + 1,
        })
    }

    fn next_row<R: Read>(
        &mut self,
        lines: &mut Lines<R>,
        columns: &Columns<4>,
    ) -> Result<bool, TraceFault> {
        let Some(line) = lines.next_line()? else { return Ok(false) };
        let [t_ms, id, pvs, los] = columns.split(line)?;
        let t_ms = self.clock.read(t_ms)?;
        let id = player_id(id)?;
        let Some(player) = self.slots.get(id) else {
            return Err(TraceFault::UnknownPlayer { column: "id", id });
        };
        let at = self.masks.len() / (2 * self.stride);
        self.mask(pvs, COLUMNS[2])?;
        self.mask(los, COLUMNS[3])?;
        let count = self.looks.push(player, Look { t_ms, at: at as u32 });
        if count > 1 {
            let t_ms = self.clock.last();
            return Err(TraceFault::Duplicate { t_ms, id, count, limit: 1 });
        }
        Ok(true)
    }

    /// Appends a mask; its lowest bit is player 0.
    fn mask(&mut self, field: &[u8], column: &'static str) -> Result<(), TraceFault> {
        let start = self.masks.len();
        if start + self.stride > MAX_MASK_WORDS {
            return Err(TraceFault::TooLarge { limit: 8 * MAX_MASK_WORDS as u64 });
        }
        self.masks.resize(start + self.stride, 0);
        let bad = || TraceFault::NotANumber {
            column,
            found: quoted(field),
            expected: "a hexadecimal bit mask",
        };
        if field.is_empty() {
            return Err(bad());
        }
        for (place, &digit) in field.iter().rev().enumerate() {
            let digit = char::from(digit).to_digit(16).ok_or_else(bad)?;
            for bit in (0..4).filter(|bit| digit >> bit & 1 == 1) {
                let id = (4 * place + bit) as u32;
                if self.slots.get(id).is_none() {
                    return Err(TraceFault::UnknownPlayer { column, id });
                }
                self.masks[start + id as usize / 64] |= 1 << (id % 64);
            }
        }
        Ok(())
    }
}
