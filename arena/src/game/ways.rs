//! Ways through the map, found once and cached.
//!
//! A way is a pure function of the map, its start and the node at its end, so a cached way equals a
//! new one. Therefore this may be behind a lock, as the only part of the rules.

use crate::geometry::{Bounds, Point};
use crate::graph::{NodeIx, PathScratch};
use crate::grid::Grid;
use crate::map::ArenaMap;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The size at which the cache starts a new generation and drops the ways not used since the
/// generation before. On a large map a way is long, and its search is expensive.
const MAX_WAYS: usize = 2_048;
/// Width of a grid cell, in units: usually there is a node this near.
const CELL: f64 = 12.0;
/// How many near nodes are tried for a free straight line, the nearest first.
const CANDIDATES: usize = 8;

/// The ways of one map.
#[derive(Debug)]
pub(crate) struct Ways {
    map: Arc<ArenaMap>,
    nodes: Grid,
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    scratch: PathScratch,
    nodes: Vec<NodeIx>,
    searches: u64,
    known: Known,
    /// The previous generation.
    older: Known,
}

/// By the place where a way begins and the node where it ends.
type Known = BTreeMap<([i32; 2], u16), Arc<Way>>;

/// The corners of a way, and their distances from the start.
#[derive(Debug, PartialEq)]
pub(crate) struct Way(Vec<(Point, f64)>);

impl Way {
    pub fn length(&self) -> f64 {
        self.0.last().map_or(0.0, |(_, far)| *far)
    }

    /// The place after a distance, and whether it is the end.
    pub fn after(&self, distance: f64) -> (Point, bool) {
        let next = self.0.partition_point(|(_, far)| *far <= distance);
        match (self.0.get(next.wrapping_sub(1)), self.0.get(next)) {
            (Some((from, start)), Some((to, end))) => {
                (*from + (*to - *from) * ((distance - start) / (end - start)), false)
            }
            (Some((last, _)), None) => (*last, true),
            (None, _) => (self.0[0].0, self.0.len() == 1),
        }
    }
}

impl Ways {
    pub fn new(map: Arc<ArenaMap>) -> Ways {
        let graph = map.graph();
        let spots = graph.node_indices().map(|node| graph.node(node).place);
        let spots: Vec<Bounds> = spots.map(|at| Bounds { min: at, max: at }).collect();
        Ways { nodes: Grid::build(map.side(), CELL, &spots), map, memory: Mutex::default() }
    }

    /// The node where a way from a point begins: the nearest with a free straight line, or the
    /// nearest one if there is none among the candidates.
    pub fn node_near(&self, at: Point) -> NodeIx {
        let mut nearest = NodeIx(0);
        for radius in [CELL, 3.0 * CELL, self.map.side() * 2.0] {
            let near = self.nearest(at, radius);
            let walkable = |(square, node): &&(f64, NodeIx)| {
                square.is_finite() && self.map.is_walkable(at, self.map.graph().node(*node).place)
            };
            if let Some((_, node)) = near.iter().find(walkable) {
                return *node;
            }
            nearest = near[0].1;
        }
        nearest
    }

    /// The places of the nodes near a point, the nearest first.
    pub fn near(&self, at: Point) -> impl Iterator<Item = Point> {
        let near = self.nearest(at, 3.0 * CELL).into_iter();
        let near = near.filter(|(square, _)| square.is_finite());
        near.map(|(_, node)| self.map.graph().node(node).place)
    }

    /// The nearest nodes within a radius, each with the square of its distance.
    fn nearest(&self, at: Point, radius: f64) -> [(f64, NodeIx); CANDIDATES] {
        let mut near = [(f64::INFINITY, NodeIx(0)); CANDIDATES];
        self.nodes.any_in(&Bounds { min: at, max: at }.grown(radius), |node| {
            let node = NodeIx(node as u32);
            let off = self.map.graph().node(node).place - at;
            let square = off.dot(off);
            // Beyond the radius the cells are not complete: a nearer one could be missing.
            if square < near[CANDIDATES - 1].0 && square <= radius * radius {
                let place = near.partition_point(|(other, _)| *other <= square);
                near[place..].rotate_right(1);
                near[place] = (square, node);
            }
            false
        });
        near
    }

    /// How many ways were searched, without those found in the cache.
    pub fn searches(&self) -> u64 {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner).searches
    }

    /// The nodes between two points, to walk from one to the next.
    pub fn between(&self, from: Point, to: Point, corners: &mut Vec<Point>) {
        let ends = (self.node_near(from), self.node_near(to));
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let Memory { scratch, nodes, .. } = &mut *memory;
        corners.clear();
        if self.map.graph().path(ends.0, ends.1, scratch, nodes) {
            corners.extend(nodes.iter().map(|node| self.map.graph().node(*node).place));
        }
        corners.push(to);
    }

    /// The way from a replicated place to a node.
    pub fn to_node(&self, from: [f32; 2], to: u16) -> Arc<Way> {
        let key = ([super::kinds::place(from).x, super::kinds::place(from).y], to);
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(way) = memory.known.get(&key) {
            return Arc::clone(way);
        }
        let way = memory.older.remove(&key);
        let find = || Arc::new(self.find(super::kinds::point(from), to, &mut memory));
        let way = way.unwrap_or_else(find);
        if memory.known.len() >= MAX_WAYS {
            memory.older = std::mem::take(&mut memory.known);
        }
        memory.known.insert(key, Arc::clone(&way));
        way
    }

    fn find(&self, from: Point, to: u16, memory: &mut Memory) -> Way {
        memory.searches += 1;
        let graph = self.map.graph();
        let to = NodeIx(u32::from(to).min(graph.node_count() as u32 - 1));
        let mut corners = vec![(from, 0.0)];
        if graph.path(self.node_near(from), to, &mut memory.scratch, &mut memory.nodes) {
            // From between two nodes it does not lead back to the first.
            let place = |node: &NodeIx| graph.node(*node).place;
            let mut nodes = &memory.nodes[..];
            while nodes.len() > 1 && self.map.is_walkable(from, place(&nodes[1])) {
                nodes = &nodes[1..];
            }
            for node in nodes {
                let (last, far) = corners[corners.len() - 1];
                let next = place(node);
                let length = last.distance(next);
                if length > 0.0 {
                    corners.push((next, far + length));
                }
            }
        }
        Way(corners)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    fn ways(seed: u64) -> Ways {
        Ways::new(Arc::new(ArenaMap::generate(seed, 150.0, 50)))
    }

    #[test]
    fn ways_in_use_are_kept_and_the_others_forgotten() {
        let (ways, mut rng) = (ways(2), Rng::with_seed(2));
        let (start, nodes) = ([40.0, 40.0], ways.map.graph().node_count() as u16);
        let used = ways.to_node(start, 1);
        for _ in 0..4 * MAX_WAYS {
            let from = [1.5 + rng.f32() * 147.0, 1.5 + rng.f32() * 147.0];
            ways.to_node(from, rng.u16(..nodes));
            assert!(Arc::ptr_eq(&used, &ways.to_node(start, 1)), "found anew");
        }
        let memory = ways.memory.lock().expect("no thread panicked");
        assert!(memory.known.len() + memory.older.len() <= 2 * MAX_WAYS);
    }

    #[test]
    fn a_way_begins_at_the_nearest_node_that_can_be_walked_to() {
        let (ways, mut rng) = (ways(1), Rng::with_seed(1));
        let graph = ways.map.graph();
        for _ in 0..300 {
            let at = Point::new(1.5 + rng.f64() * 147.0, 1.5 + rng.f64() * 147.0);
            let mut nodes: Vec<NodeIx> = graph.node_indices().collect();
            let far = |node: &NodeIx| graph.node(*node).place.distance(at);
            nodes.sort_by(|a, b| far(a).total_cmp(&far(b)));
            nodes.truncate(CANDIDATES);
            let walkable = |node: &&NodeIx| ways.map.is_walkable(at, graph.node(**node).place);
            if let Some(expected) = nodes.iter().find(walkable) {
                assert_eq!(ways.node_near(at), *expected);
            }
        }
    }

    #[test]
    fn a_way_is_walked_from_its_start_to_its_end_without_a_jump() {
        let (ways, mut rng) = (ways(2), Rng::with_seed(2));
        let graph = ways.map.graph();
        for _ in 0..20 {
            let [from, to] = [0, 1].map(|_| graph.node_at_share(rng.f64()));
            let start = graph.node(from).place;
            let way = ways.to_node([start.x as f32, start.y as f32], to.0 as u16);
            let (mut last, mut walked, mut is_there) = (way.after(0.0).0, 0.0, false);
            while !is_there {
                walked += 0.25;
                let next = way.after(walked);
                assert!(next.0.distance(last) < 0.25 + 1e-9);
                (last, is_there) = next;
            }
            assert_eq!(last, graph.node(to).place);
        }
    }
}
