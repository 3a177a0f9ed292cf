//! How the world is cut: a k-d tree of rectangles, each of them a region, and who runs it.
//!
//! The tree covers the whole plane; the outermost regions reach to infinity. So every place belongs to exactly
//! one region, whatever the layout, and no object can leave the world. A layout is one record of the ledger and
//! changes as a whole.

use super::ledger::{RecordError, read_record, write_record};
use foveate_wire::Micros;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// Regions of one world at most.
pub const MAX_REGIONS: usize = 1_024;
/// The version of the record.
const VERSION: u8 = 1;

/// A region: a leaf of the tree, for good. Ids are never used again.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct RegionId(pub u32);

/// One run of a server process. A process that starts again is another server.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
pub struct ServerId(pub u32);

/// Where a region is cut in two.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SplitLine {
    /// The axis that the cut is across: 0 or 1.
    pub axis: u8,
    /// The place on that axis.
    pub at: f32,
}

/// An axis-parallel rectangle: `min` belongs to it, `max` does not.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rect {
    /// The lower corner; may be −∞.
    pub min: [f32; 2],
    /// The upper corner; may be ∞.
    pub max: [f32; 2],
}

impl Rect {
    /// The whole plane.
    pub const PLANE: Rect = Rect { min: [f32::NEG_INFINITY; 2], max: [f32::INFINITY; 2] };

    /// Whether a place belongs to it.
    pub fn contains(&self, at: [f32; 2]) -> bool {
        (0..2).all(|axis| self.min[axis] <= at[axis] && at[axis] < self.max[axis])
    }

    /// How far a place is from it; 0 inside.
    pub fn distance(&self, at: [f32; 2]) -> f32 {
        let off = |axis: usize| (self.min[axis] - at[axis]).max(at[axis] - self.max[axis]).max(0.0);
        off(0).hypot(off(1))
    }

    /// How far two rectangles are apart; 0 if they touch.
    pub fn gap(&self, other: &Rect) -> f32 {
        let off = |axis: usize| {
            (self.min[axis] - other.max[axis]).max(other.min[axis] - self.max[axis]).max(0.0)
        };
        off(0).hypot(off(1))
    }

    /// How deep inside a place is: its distance from the nearest edge; negative outside.
    pub fn depth(&self, at: [f32; 2]) -> f32 {
        if !self.contains(at) {
            return -self.distance(at);
        }
        let edge = |axis: usize| (at[axis] - self.min[axis]).min(self.max[axis] - at[axis]);
        edge(0).min(edge(1))
    }

    /// The part of it inside another, which may be empty.
    pub fn clamped(&self, to: &Rect) -> Rect {
        Rect {
            min: [0, 1].map(|axis| self.min[axis].clamp(to.min[axis], to.max[axis])),
            max: [0, 1].map(|axis| self.max[axis].clamp(to.min[axis], to.max[axis])),
        }
    }
}

/// A node of the tree. Children come after their parents.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
enum TreeNode {
    Leaf(RegionId),
    /// Places with a coordinate below `at` are in `low`.
    Cut {
        axis: u8,
        at: f32,
        low: u16,
        high: u16,
    },
}

/// A cut of the tree and what is on its sides.
#[derive(Clone, PartialEq, Debug)]
pub struct RegionCut {
    node: usize,
    /// 0: it is a place on the x axis.
    pub axis: u8,
    /// The place.
    pub at: f32,
    /// The regions below the cut.
    pub low: Vec<RegionId>,
    /// The regions above the cut.
    pub high: Vec<RegionId>,
}

/// Who runs a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RegionInfo {
    /// Rises with every change of its server.
    pub epoch: u32,
    /// The server that owns its objects.
    pub server: ServerId,
    /// The server that takes over.
    pub standby: Option<ServerId>,
    /// Of a region that is being closed: where its objects without a place go. It is no leaf any more.
    pub successor: Option<RegionId>,
    /// Whether its first server puts the game's first objects into it.
    pub populates: bool,
}

/// The world's layout.
#[derive(Clone, PartialEq, Debug)]
pub struct Layout {
    /// The hash of the game's schema.
    pub schema: u64,
    /// The length of a round.
    pub round: Micros,
    nodes: Vec<TreeNode>,
    regions: BTreeMap<RegionId, RegionInfo>,
    next_region: u32,
}

/// A layout that cannot be read, or a change that it does not admit. The layout is as it was.
#[derive(Clone, PartialEq, Debug, Error)]
pub enum LayoutError {
    /// The bytes are no record.
    #[error("the layout record cannot be read: {0}")]
    Record(#[from] RecordError),
    /// Another version wrote it.
    #[error("the layout record has version {0}, this server reads version {VERSION}")]
    Version(u8),
    /// The world is another game's, or another version's.
    #[error("the world has schema {world:016x}, this server has {server:016x}; run the same game")]
    Schema {
        /// The world's.
        world: u64,
        /// The server's.
        server: u64,
    },
    /// The world's rounds have another length.
    #[error("the world's rounds take {world:?}, this server's {server:?}")]
    Round {
        /// The world's.
        world: Micros,
        /// The server's.
        server: Micros,
    },
    /// The tree is no tree, or its leaves are not the regions.
    #[error("the layout record has a broken tree: {0}")]
    Tree(&'static str),
    /// There is no such region, or it is being closed.
    #[error("region {} is not part of the layout", .0.0)]
    Unknown(RegionId),
    /// A cut that would leave a region without area, or is not a number.
    #[error("a cut at {0} would leave a region without area")]
    Cut(f32),
    /// No room.
    #[error("{MAX_REGIONS} regions are as many as a world has")]
    Full,
    /// The last region, or one whose sibling is divided further, cannot be merged.
    #[error("region {} has no single sibling that could take its area", .0.0)]
    NoSibling(RegionId),
}

/// What the ledger holds.
#[derive(Serialize, Deserialize)]
struct LayoutRecord {
    version: u8,
    schema: u64,
    round: u64,
    nodes: Vec<TreeNode>,
    regions: Vec<(RegionId, RegionInfo)>,
    next_region: u32,
}

impl Layout {
    /// One region, the whole plane, run by its founder.
    pub fn new(schema: u64, round: Micros, founder: ServerId) -> Layout {
        let first = RegionInfo {
            epoch: 1,
            server: founder,
            standby: None,
            successor: None,
            populates: true,
        };
        Layout {
            schema,
            round,
            nodes: vec![TreeNode::Leaf(RegionId(0))],
            regions: BTreeMap::from([(RegionId(0), first)]),
            next_region: 1,
        }
    }

    /// The region of a place. Coordinates that are not numbers belong to a region, too.
    pub fn region_at(&self, at: [f32; 2]) -> RegionId {
        let mut node = 0;
        // Children come after their parents, so that this ends.
        loop {
            match self.nodes[node] {
                TreeNode::Leaf(region) => return region,
                TreeNode::Cut { axis, at: cut, low, high } => {
                    node = usize::from(if at[usize::from(axis)] < cut { low } else { high });
                }
            }
        }
    }

    /// A region's rectangle; none of one that is being closed.
    pub fn rect(&self, region: RegionId) -> Option<Rect> {
        self.leaves().find(|(id, _)| *id == region).map(|(_, rect)| rect)
    }

    /// All leaves with their rectangles.
    pub fn leaves(&self) -> impl Iterator<Item = (RegionId, Rect)> + '_ {
        let mut waiting = vec![(0, Rect::PLANE)];
        std::iter::from_fn(move || {
            loop {
                let (node, rect) = waiting.pop()?;
                match self.nodes[node] {
                    TreeNode::Leaf(region) => return Some((region, rect)),
                    TreeNode::Cut { axis, at, low, high } => {
                        let (mut below, mut above) = (rect, rect);
                        below.max[usize::from(axis)] = at;
                        above.min[usize::from(axis)] = at;
                        waiting.push((usize::from(high), above));
                        waiting.push((usize::from(low), below));
                    }
                }
            }
        })
    }

    /// The regions within a distance of a region's rectangle, itself left out.
    pub fn neighbours(&self, region: RegionId, within: f32) -> Vec<RegionId> {
        let Some(rect) = self.rect(region) else { return Vec::new() };
        let near = self.leaves().filter(|(id, it)| *id != region && it.gap(&rect) <= within);
        let mut near: Vec<RegionId> = near.map(|(id, _)| id).collect();
        near.sort_unstable();
        near
    }

    /// Whether a region was there and is no more.
    pub fn is_past(&self, region: RegionId) -> bool {
        region.0 < self.next_region && self.get(region).is_none()
    }

    /// Who runs a region.
    pub fn get(&self, region: RegionId) -> Option<&RegionInfo> {
        self.regions.get(&region)
    }

    /// The same, to be changed.
    pub fn get_mut(&mut self, region: RegionId) -> Option<&mut RegionInfo> {
        self.regions.get_mut(&region)
    }

    /// All regions, those that are being closed included.
    pub fn regions(&self) -> impl Iterator<Item = (RegionId, &RegionInfo)> {
        self.regions.iter().map(|(id, info)| (*id, info))
    }

    /// Cuts a region in two: what is above the cut becomes a new region of another server. `populates`: before any
    /// server ran the region, so that the new one gets its share of the first objects.
    pub fn split(
        &mut self,
        region: RegionId,
        line: SplitLine,
        server: ServerId,
        populates: bool,
    ) -> Result<RegionId, LayoutError> {
        let (leaf, SplitLine { axis, at }) = (self.leaf(region)?, line);
        let rect = self.rect(region).ok_or(LayoutError::Unknown(region))?;
        let along = usize::from(axis & 1);
        if !(rect.min[along] < at && at < rect.max[along] && at.is_finite()) {
            return Err(LayoutError::Cut(at));
        }
        if self.regions.len() >= MAX_REGIONS {
            return Err(LayoutError::Full);
        }
        let new = RegionId(self.next_region);
        self.next_region += 1;
        let low = self.nodes.len() as u16;
        self.nodes[leaf] = TreeNode::Cut { axis: axis & 1, at, low, high: low + 1 };
        self.nodes.extend([TreeNode::Leaf(region), TreeNode::Leaf(new)]);
        let info = RegionInfo { epoch: 1, server, standby: None, successor: None, populates };
        self.regions.insert(new, info);
        Ok(new)
    }

    /// Moves the cut that last made the region.
    pub fn move_split(&mut self, region: RegionId, to: f32) -> Result<(), LayoutError> {
        let leaf = self.leaf(region)?;
        let parent = self.parent(leaf).ok_or(LayoutError::NoSibling(region))?;
        let cut = self.cuts().into_iter().find(|cut| cut.node == parent);
        self.move_cut(&cut.ok_or(LayoutError::NoSibling(region))?, to)
    }

    /// The cut that last made the region: its axis and place.
    pub fn cut_of(&self, region: RegionId) -> Option<(u8, f32)> {
        match self.nodes[self.parent(self.leaf(region).ok()?)?] {
            TreeNode::Cut { axis, at, .. } => Some((axis, at)),
            TreeNode::Leaf(_) => None,
        }
    }

    /// Gives a region's area to its sibling, which must be a leaf. The region stays in the layout, without an
    /// area, until its server has handed everything over and calls [`Layout::remove`].
    pub fn merge(&mut self, region: RegionId) -> Result<RegionId, LayoutError> {
        let leaf = self.leaf(region)?;
        let parent = self.parent(leaf).ok_or(LayoutError::NoSibling(region))?;
        let TreeNode::Cut { low, high, .. } = self.nodes[parent] else {
            return Err(LayoutError::Tree("a leaf has a child"));
        };
        let sibling = usize::from(if usize::from(low) == leaf { high } else { low });
        let TreeNode::Leaf(heir) = self.nodes[sibling] else {
            return Err(LayoutError::NoSibling(region));
        };
        self.nodes[parent] = TreeNode::Leaf(heir);
        self.compact();
        self.bequeath(region, heir);
        Ok(heir)
    }

    /// Gives a region's area to a new region of another server. The old one is closed like one that was merged.
    pub fn replace(&mut self, region: RegionId, server: ServerId) -> Result<RegionId, LayoutError> {
        let leaf = self.leaf(region)?;
        if self.regions.len() >= MAX_REGIONS {
            return Err(LayoutError::Full);
        }
        let heir = RegionId(self.next_region);
        self.next_region += 1;
        self.nodes[leaf] = TreeNode::Leaf(heir);
        self.bequeath(region, heir);
        let info =
            RegionInfo { epoch: 1, server, standby: None, successor: None, populates: false };
        self.regions.insert(heir, info);
        Ok(heir)
    }

    /// What a region was to be given, and it itself, goes to its heir.
    fn bequeath(&mut self, region: RegionId, heir: RegionId) {
        for (id, info) in &mut self.regions {
            if *id == region || info.successor == Some(region) {
                info.successor = Some(heir);
            }
        }
    }

    /// The leaf on the other side of the cut that last made a region, if it is one.
    pub fn sibling(&self, region: RegionId) -> Option<RegionId> {
        let leaf = self.leaf(region).ok()?;
        let TreeNode::Cut { low, high, .. } = self.nodes[self.parent(leaf)?] else { return None };
        match self.nodes[usize::from(if usize::from(low) == leaf { high } else { low })] {
            TreeNode::Leaf(sibling) => Some(sibling),
            TreeNode::Cut { .. } => None,
        }
    }

    /// All cuts, each before those above it.
    pub fn cuts(&self) -> Vec<RegionCut> {
        let mut cuts: Vec<RegionCut> = Vec::new();
        // Children come after their parents: from the end, what is below a node is known.
        let mut below: Vec<Vec<RegionId>> = vec![Vec::new(); self.nodes.len()];
        for (node, it) in self.nodes.iter().enumerate().rev() {
            match *it {
                TreeNode::Leaf(region) => below[node].push(region),
                TreeNode::Cut { axis, at, low, high } => {
                    let (low, high) =
                        (below[usize::from(low)].clone(), below[usize::from(high)].clone());
                    below[node] = [low.clone(), high.clone()].concat();
                    cuts.push(RegionCut { node, axis, at, low, high });
                }
            }
        }
        cuts
    }

    /// Moves a cut of [`Layout::cuts`].
    pub fn move_cut(&mut self, cut: &RegionCut, to: f32) -> Result<(), LayoutError> {
        let before = self.nodes[cut.node];
        let TreeNode::Cut { at, .. } = &mut self.nodes[cut.node] else {
            return Err(LayoutError::Cut(to));
        };
        *at = to;
        let sound = to.is_finite()
            && self.leaves().all(|(_, it)| (0..2).all(|axis| it.min[axis] < it.max[axis]));
        if !sound {
            self.nodes[cut.node] = before;
            return Err(LayoutError::Cut(to));
        }
        Ok(())
    }

    /// Forgets a region that was closed; false if it still has an area.
    pub fn remove(&mut self, region: RegionId) -> bool {
        let closed = self.regions.get(&region).is_some_and(|info| info.successor.is_some());
        closed && self.regions.remove(&region).is_some()
    }

    /// As a record of the ledger.
    pub fn write(&self) -> Vec<u8> {
        write_record(&LayoutRecord {
            version: VERSION,
            schema: self.schema,
            round: self.round.0,
            nodes: self.nodes.clone(),
            regions: self.regions.iter().map(|(id, info)| (*id, *info)).collect(),
            next_region: self.next_region,
        })
    }

    /// Reads a record. What is returned is sound: every place has exactly one region.
    pub fn read(bytes: &[u8]) -> Result<Layout, LayoutError> {
        if let Some(version) = bytes.first().filter(|version| **version != VERSION) {
            return Err(LayoutError::Version(*version));
        }
        let record: LayoutRecord = read_record(bytes)?;
        if record.nodes.is_empty() || record.nodes.len() > 2 * MAX_REGIONS {
            return Err(LayoutError::Tree("it has no nodes, or too many"));
        }
        if record.regions.len() > MAX_REGIONS {
            return Err(LayoutError::Full);
        }
        if record.round == 0 {
            return Err(LayoutError::Tree("rounds have no length"));
        }
        let layout = Layout {
            schema: record.schema,
            round: Micros(record.round),
            nodes: record.nodes,
            regions: record.regions.into_iter().collect(),
            next_region: record.next_region,
        };
        layout.check()?;
        Ok(layout)
    }

    fn check(&self) -> Result<(), LayoutError> {
        let mut parents = vec![0u8; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate() {
            if let TreeNode::Cut { axis, at: cut, low, high } = *node {
                if axis > 1 || !cut.is_finite() {
                    return Err(LayoutError::Tree("a cut is none"));
                }
                for child in [low, high].map(usize::from) {
                    if child <= at || child >= self.nodes.len() {
                        return Err(LayoutError::Tree("a child does not come after its parent"));
                    }
                    parents[child] = parents[child].saturating_add(1);
                }
            }
        }
        if parents[0] != 0 || parents[1..].iter().any(|count| *count != 1) {
            return Err(LayoutError::Tree("a node has no parent, or two"));
        }
        let mut leaves = BTreeMap::new();
        for (region, rect) in self.leaves() {
            if (0..2).any(|axis| rect.min[axis] >= rect.max[axis]) {
                return Err(LayoutError::Tree("a region has no area"));
            }
            if leaves.insert(region, ()).is_some() {
                return Err(LayoutError::Tree("a region has two areas"));
            }
        }
        for (region, info) in &self.regions {
            let leaf = leaves.remove(region).is_some();
            if leaf == info.successor.is_some() {
                return Err(LayoutError::Tree("a region has neither area nor successor, or both"));
            }
            let heir = info.successor.and_then(|heir| self.regions.get(&heir));
            if info.successor.is_some() && heir.is_none_or(|heir| heir.successor.is_some()) {
                return Err(LayoutError::Tree("a successor has no area"));
            }
            if region.0 >= self.next_region || info.epoch == 0 {
                return Err(LayoutError::Tree("a region was never created"));
            }
        }
        match leaves.is_empty() {
            true => Ok(()),
            false => Err(LayoutError::Tree("an area has no region")),
        }
    }

    fn leaf(&self, region: RegionId) -> Result<usize, LayoutError> {
        let found = self.nodes.iter().position(|node| *node == TreeNode::Leaf(region));
        found.ok_or(LayoutError::Unknown(region))
    }

    fn parent(&self, child: usize) -> Option<usize> {
        self.nodes.iter().position(|node| match *node {
            TreeNode::Cut { low, high, .. } => [low, high].map(usize::from).contains(&child),
            TreeNode::Leaf(_) => false,
        })
    }

    /// Drops nodes that are not part of the tree any more.
    fn compact(&mut self) {
        let mut nodes = vec![self.nodes[0]];
        let mut at = 0;
        while at < nodes.len() {
            let next = nodes.len() as u16;
            if let TreeNode::Cut { low, high, .. } = &mut nodes[at] {
                let children = [*low, *high].map(|child| self.nodes[usize::from(child)]);
                (*low, *high) = (next, next + 1);
                nodes.extend(children);
            }
            at += 1;
        }
        self.nodes = nodes;
    }
}

#[cfg(test)]
mod tests;
