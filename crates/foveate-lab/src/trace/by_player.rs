//! Groups rows of many players in order of time into one sorted run per player.

use std::collections::BTreeMap;

use super::error::TraceFault;

/// A row with its time in milliseconds since the start of the recording.
pub(super) trait Timed {
    fn t_ms(&self) -> u32;
}

/// Rows grouped by player; each group is strictly ascending in time.
#[derive(Debug, Clone)]
pub(super) struct ByPlayer<T> {
    /// Player `p` has `rows[starts[p]..starts[p + 1]]`.
    starts: Vec<usize>,
    rows: Vec<T>,
}

impl<T: Timed> ByPlayer<T> {
    pub(super) fn of(&self, player: usize) -> &[T] {
        &self.rows[self.starts[player]..self.starts[player + 1]]
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn row(&self, at: usize) -> &T {
        &self.rows[at]
    }

    /// A player's newest row at or before a time.
    pub(super) fn at_or_before(&self, player: usize, t_ms: u32) -> Option<&T> {
        let rows = self.of(player);
        rows[..rows.partition_point(|row| row.t_ms() <= t_ms)].last()
    }
}

/// Collects rows in order of time.
pub(super) struct Grouper<T> {
    rows: Vec<T>,
    player_of_row: Vec<u32>,
    /// For each player, the index of its newest row and how many rows had the same time.
    newest: Vec<Option<(usize, u32)>>,
    /// Times of replaced rows.
    superseded: Vec<u32>,
}

impl<T: Timed + Copy + Default> Grouper<T> {
    pub(super) fn new() -> Self {
        Self {
            rows: Vec::new(),
            player_of_row: Vec::new(),
            newest: Vec::new(),
            superseded: Vec::new(),
        }
    }

    /// A player's newest row so far.
    pub(super) fn newest(&self, player: usize) -> Option<&T> {
        self.newest.get(player).copied().flatten().map(|(row, _)| &self.rows[row])
    }

    /// Adds a row no earlier than any before it. It replaces an earlier row of the same player and time. Returns how
    /// many rows have had that time.
    pub(super) fn push(&mut self, player: usize, row: T) -> u32 {
        if player >= self.newest.len() {
            self.newest.resize(player + 1, None);
        }
        match &mut self.newest[player] {
            Some((at, shared)) if self.rows[*at].t_ms() == row.t_ms() => {
                self.rows[*at] = row;
                self.superseded.push(row.t_ms());
                *shared += 1;
                *shared
            }
            newest => {
                *newest = Some((self.rows.len(), 1));
                self.rows.push(row);
                self.player_of_row.push(player as u32);
                1
            }
        }
    }

    /// Takes the times of replaced rows.
    pub(super) fn take_superseded(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.superseded)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Groups the rows by player, renumbered by `rank`. The second part lists each row's player and index, in order of
    /// time.
    pub(super) fn finish(self, rank: &[u32]) -> (ByPlayer<T>, Vec<(u32, u32)>) {
        let mut starts = vec![0; rank.len() + 1];
        for &player in &self.player_of_row {
            starts[rank[player as usize] as usize + 1] += 1;
        }
        for player in 0..rank.len() {
            starts[player + 1] += starts[player];
        }
        let mut next = starts.clone();
        let mut rows = vec![T::default(); self.rows.len()];
        let mut in_time_order = Vec::with_capacity(self.rows.len());
        for (row, &player) in self.rows.iter().zip(&self.player_of_row) {
            let player = rank[player as usize];
            let at = &mut next[player as usize];
            rows[*at] = *row;
            in_time_order.push((player, *at as u32));
            *at += 1;
        }
        (ByPlayer { starts, rows }, in_time_order)
    }
}

/// Ids below this are looked up in a table, the rest in a map.
const DENSE_IDS: u32 = 1 << 16;
const NO_SLOT: u32 = u32::MAX;

/// Gives each distinct id a slot, in order of first appearance.
pub(super) struct Slots {
    ids: Vec<u32>,
    dense: Vec<u32>,
    sparse: BTreeMap<u32, u32>,
    limit: usize,
}

impl Slots {
    pub(super) fn new(limit: usize) -> Self {
        Self { ids: Vec::new(), dense: Vec::new(), sparse: BTreeMap::new(), limit }
    }

    /// Slots for a list of ids: the slot is the index in the list.
    pub(super) fn of_known(ids: &[u32]) -> Self {
        let mut slots = Self::new(ids.len());
        for &id in ids {
            slots.add(id);
        }
        slots
    }

    pub(super) fn get(&self, id: u32) -> Option<usize> {
        let slot = if id < DENSE_IDS {
            self.dense.get(id as usize).copied().filter(|&slot| slot != NO_SLOT)
        } else {
            self.sparse.get(&id).copied()
        };
        slot.map(|slot| slot as usize)
    }

    pub(super) fn get_or_add(&mut self, id: u32) -> Result<usize, TraceFault> {
        match self.get(id) {
            Some(slot) => Ok(slot),
            None if self.ids.len() >= self.limit => {
                Err(TraceFault::TooManyPlayers { limit: self.limit })
            }
            None => Ok(self.add(id)),
        }
    }

    fn add(&mut self, id: u32) -> usize {
        let slot = self.ids.len();
        if id < DENSE_IDS {
            let needed = id as usize + 1;
            if self.dense.len() < needed {
                self.dense.resize(needed, NO_SLOT);
            }
            self.dense[id as usize] = slot as u32;
        } else {
            self.sparse.insert(id, slot as u32);
        }
        self.ids.push(id);
        slot
    }

    /// The ids in ascending order, and for each slot its id's index among them.
    pub(super) fn ranked(&self) -> (Vec<u32>, Vec<u32>) {
        let mut by_id: Vec<usize> = (0..self.ids.len()).collect();
        by_id.sort_unstable_by_key(|&slot| self.ids[slot]);
        let mut rank = vec![0; by_id.len()];
        for (place, &slot) in by_id.iter().enumerate() {
            rank[slot] = place as u32;
        }
        (by_id.iter().map(|&slot| self.ids[slot]).collect(), rank)
    }
}
