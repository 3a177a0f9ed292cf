//! Finds a path by the id in its packets.
//!
//! Ids are made with a key: they are spread evenly, and the other side cannot choose them. Their own bits are therefore
//! the place in the table. A sorted map of a few thousand ids reads several nodes for each packet.

use super::PathId;

/// The link's index and the path's number.
type Path = (u32, u32);

/// Places of the smallest table.
const FEWEST: usize = 16;

/// Paths by the id in their packets. At most half of the places are used, so that every look-up ends after a few, also
/// that of an invented id.
#[derive(Default)]
pub(crate) struct PathTable {
    /// A power of two; each id is at the place given by its bits, or at the next one that was free.
    places: Vec<Option<(PathId, Path)>>,
    taken: usize,
}

impl PathTable {
    /// The path of an id.
    pub(crate) fn get(&self, id: PathId) -> Option<Path> {
        self.places.get(self.find(id)?).copied().flatten().map(|(_, path)| path)
    }

    /// Makes an id known.
    pub(crate) fn insert(&mut self, id: PathId, path: Path) {
        if 2 * (self.taken + 1) > self.places.len() {
            self.grow();
        }
        match self.find(id) {
            Some(at) => self.places[at] = Some((id, path)),
            None => self.put(id, path),
        }
    }

    /// Forgets an id.
    pub(crate) fn remove(&mut self, id: PathId) {
        let Some(mut gap) = self.find(id) else { return };
        self.taken -= 1;
        // Ids that were placed farther on because of this one move up: a search ends at a gap.
        let mut at = gap;
        loop {
            self.places[gap] = None;
            let moved = loop {
                at = self.after(at);
                let Some((id, _)) = self.places[at] else { return };
                let last = self.places.len() - 1;
                // The distances from its own place, and from the gap.
                let (own, free) = (at.wrapping_sub(self.home(id)), at.wrapping_sub(gap));
                if own & last >= free & last {
                    break at;
                }
            };
            self.places[gap] = self.places[moved];
            gap = moved;
        }
    }

    /// The place of an id.
    fn find(&self, id: PathId) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut at = self.home(id);
        while let Some((known, _)) = &self.places[at] {
            if *known == id {
                return Some(at);
            }
            at = self.after(at);
        }
        None
    }

    /// Adds an id that is not in the table, at the first free place from its own on.
    fn put(&mut self, id: PathId, path: Path) {
        let mut at = self.home(id);
        while self.places[at].is_some() {
            at = self.after(at);
        }
        self.places[at] = Some((id, path));
        self.taken += 1;
    }

    fn grow(&mut self) {
        let room = (2 * self.places.len()).max(FEWEST);
        let before = std::mem::replace(&mut self.places, vec![None; room]);
        self.taken = 0;
        before.into_iter().flatten().for_each(|(id, path)| self.put(id, path));
    }

    fn home(&self, PathId(id): PathId) -> usize {
        u64::from_le_bytes(id) as usize & (self.places.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_knows_what_a_sorted_map_knows() {
        for seed in 0..20 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut table, mut known) = (PathTable::default(), BTreeMap::new());
            // Few different ids, many of which begin at the same places.
            let bits = if seed % 2 == 0 { 0x0f } else { 0x00ff_0000_0000_0007 };
            for turn in 0..4_000 {
                let id = PathId((random.u64(..) & bits).to_le_bytes());
                if random.u8(..3) > 0 {
                    table.insert(id, (turn, 1));
                    known.insert(id, (turn, 1));
                } else {
                    table.remove(id);
                    known.remove(&id);
                }
                assert_eq!(table.get(id), known.get(&id).copied(), "seed {seed}, turn {turn}");
                assert_eq!(table.taken, known.len(), "seed {seed}, turn {turn}");
            }
            assert!(known.iter().all(|(id, path)| table.get(*id) == Some(*path)), "seed {seed}");
            assert!(2 * table.taken <= table.places.len(), "seed {seed}");
        }
    }
}
