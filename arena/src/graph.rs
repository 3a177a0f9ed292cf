//! A graph of places and the shortest ways through it.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::geometry::Point;

/// A node of a [`Graph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeIx(pub u32);

impl NodeIx {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a node represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// A vertex of the Voronoi diagram: a junction as far from all walls as possible.
    Junction,
    /// In front of an obstacle's wall, where a Voronoi edge meets it: a place with cover behind it.
    Door,
    /// At the map's edge.
    Border,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GraphNode {
    /// Where it is; an avatar can stand there.
    pub place: Point,
    pub kind: NodeKind,
}

/// An undirected graph of ways that an avatar can walk. It is connected and has at least one node.
///
/// Neighbours are stored in one array (compressed rows): node `n` owns
/// `ways[starts[n]..starts[n + 1]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Graph {
    nodes: Vec<GraphNode>,
    starts: Vec<u32>,
    ways: Vec<Way>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Way {
    to: NodeIx,
    length: f64,
}

impl Graph {
    /// The largest connected part of the given nodes, of which there must be one, and edges. Nodes
    /// keep their order.
    pub(crate) fn largest_part(nodes: &[GraphNode], edges: &[(usize, usize)]) -> Graph {
        let keep = largest_component(nodes.len(), edges);
        let mut renamed = vec![None; nodes.len()];
        let mut kept = Vec::new();
        for (i, node) in nodes.iter().enumerate().filter(|(i, _)| keep[*i]) {
            renamed[i] = Some(kept.len());
            kept.push(*node);
        }
        let edges: Vec<(usize, usize)> =
            edges.iter().filter_map(|&(a, b)| Some((renamed[a]?, renamed[b]?))).collect();
        Self::from_parts(kept, &edges)
    }

    fn from_parts(nodes: Vec<GraphNode>, edges: &[(usize, usize)]) -> Graph {
        let mut directed: Vec<(usize, usize)> =
            edges.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect();
        directed.sort_unstable();
        directed.dedup();
        let mut starts = vec![0u32; nodes.len() + 1];
        for &(from, _) in &directed {
            starts[from + 1] += 1;
        }
        for i in 0..nodes.len() {
            starts[i + 1] += starts[i];
        }
        let length = |(a, b): (usize, usize)| nodes[a].place.distance(nodes[b].place);
        let ways = directed
            .iter()
            .map(|&pair| Way { to: NodeIx(pair.1 as u32), length: length(pair) })
            .collect();
        Graph { nodes, starts, ways }
    }

    /// The number of nodes; at least 1.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// All nodes' indices, in order.
    pub fn node_indices(&self) -> impl Iterator<Item = NodeIx> + use<> {
        (0..self.nodes.len() as u32).map(NodeIx)
    }

    /// A node of this graph.
    pub fn node(&self, node: NodeIx) -> GraphNode {
        self.nodes[node.index()]
    }

    /// The nodes joined to `node`, each with the length of the way.
    pub fn neighbours(&self, node: NodeIx) -> impl Iterator<Item = (NodeIx, f64)> + '_ {
        self.ways_from(node).iter().map(|way| (way.to, way.length))
    }

    fn ways_from(&self, node: NodeIx) -> &[Way] {
        let i = node.index();
        &self.ways[self.starts[i] as usize..self.starts[i + 1] as usize]
    }

    /// The node at `share` (0 to 1) of all nodes: with a uniform random share, a random node.
    pub fn node_at_share(&self, share: f64) -> NodeIx {
        let at = (share * self.nodes.len() as f64) as usize;
        NodeIx(at.min(self.nodes.len() - 1) as u32)
    }

    /// Writes the shortest way from `from` to `to`, both included, to `out`, and returns whether
    /// there is one. Ties go to the lower node, so that the result is the same everywhere.
    /// Allocates nothing once `scratch` and `out` have grown to this graph's size.
    pub fn path(
        &self,
        from: NodeIx,
        to: NodeIx,
        scratch: &mut PathScratch,
        out: &mut Vec<NodeIx>,
    ) -> bool {
        out.clear();
        scratch.begin(self.nodes.len());
        let goal = self.nodes[to.index()].place;
        let estimate = |node: NodeIx| self.nodes[node.index()].place.distance(goal);
        scratch.reach(from, from, 0.0, estimate(from));
        while let Some(Open { node, travelled, .. }) = scratch.open.pop() {
            if node == to {
                scratch.trace(from, to, out);
                return true;
            }
            // An entry that a shorter way has overtaken; cheaper to skip here than to find above.
            if travelled > scratch.visits[node.index()].travelled {
                continue;
            }
            for way in self.ways_from(node) {
                scratch.reach(way.to, node, travelled + way.length, estimate(way.to));
            }
        }
        false
    }
}

/// Marks the nodes of the largest component (the first one of several equal ones).
fn largest_component(nodes: usize, edges: &[(usize, usize)]) -> Vec<bool> {
    let mut parent: Vec<usize> = (0..nodes).collect();
    fn root(parent: &mut [usize], mut node: usize) -> usize {
        while parent[node] != node {
            parent[node] = parent[parent[node]];
            node = parent[node];
        }
        node
    }
    for &(a, b) in edges {
        let (a, b) = (root(&mut parent, a), root(&mut parent, b));
        parent[a.max(b)] = a.min(b);
    }
    let mut size = vec![0usize; nodes];
    for node in 0..nodes {
        size[root(&mut parent, node)] += 1;
    }
    let largest = (0..nodes).min_by_key(|&i| (usize::MAX - size[i], i));
    (0..nodes).map(|node| Some(root(&mut parent, node)) == largest).collect()
}

/// The working memory of [`Graph::path`], to be reused between calls.
#[derive(Debug, Clone, Default)]
pub struct PathScratch {
    /// Distinguishes this search's visits from earlier ones, so that nothing needs to be cleared.
    search: u32,
    visits: Vec<Visit>,
    open: BinaryHeap<Open>,
}

#[derive(Debug, Clone, Copy)]
struct Visit {
    search: u32,
    before: NodeIx,
    travelled: f64,
}

impl PathScratch {
    /// Working memory that no search in `graph` will have to grow.
    pub fn for_graph(graph: &Graph) -> Self {
        let mut scratch = Self::default();
        scratch.begin(graph.nodes.len());
        // A node enters the queue at most once for every way that leads to it.
        scratch.open.reserve(graph.ways.len() + 1);
        scratch
    }

    fn begin(&mut self, nodes: usize) {
        let unvisited = Visit { search: 0, before: NodeIx(0), travelled: 0.0 };
        if self.search == u32::MAX {
            self.visits.fill(unvisited);
            self.search = 0;
        }
        self.search += 1;
        self.visits.resize(nodes.max(self.visits.len()), unvisited);
        self.open.clear();
    }

    /// Notes that `node` is reached over `before`, if that is shorter than the known way.
    fn reach(&mut self, node: NodeIx, before: NodeIx, travelled: f64, to_go: f64) {
        let visit = &mut self.visits[node.index()];
        if visit.search != self.search || travelled < visit.travelled {
            *visit = Visit { search: self.search, before, travelled };
            self.open.push(Open { estimate: travelled + to_go, travelled, node });
        }
    }

    fn trace(&self, from: NodeIx, to: NodeIx, out: &mut Vec<NodeIx>) {
        let mut node = to;
        out.push(node);
        while node != from {
            node = self.visits[node.index()].before;
            out.push(node);
        }
        out.reverse();
    }
}

/// A node that waits to be expanded; the *greatest* has the shortest estimate, because the standard
/// heap pops its maximum.
#[derive(Debug, Clone, Copy)]
struct Open {
    estimate: f64,
    travelled: f64,
    node: NodeIx,
}

impl Ord for Open {
    fn cmp(&self, other: &Self) -> Ordering {
        other.estimate.total_cmp(&self.estimate).then(other.node.cmp(&self.node))
    }
}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Open {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(x: f64, y: f64) -> GraphNode {
        GraphNode { place: Point::new(x, y), kind: NodeKind::Junction }
    }

    fn graph(nodes: &[GraphNode], edges: &[(usize, usize)]) -> Graph {
        Graph::largest_part(nodes, edges)
    }

    #[test]
    fn the_shorter_of_two_ways_is_taken() {
        let nodes = [node(0.0, 0.0), node(1.0, 5.0), node(1.0, 1.0), node(2.0, 0.0)];
        let graph = graph(&nodes, &[(0, 1), (1, 3), (0, 2), (2, 3)]);
        let mut out = Vec::new();
        assert!(graph.path(NodeIx(0), NodeIx(3), &mut PathScratch::default(), &mut out));
        assert_eq!(out, [NodeIx(0), NodeIx(2), NodeIx(3)]);
    }

    #[test]
    fn a_way_from_a_node_to_itself_is_that_node() {
        let graph = graph(&[node(0.0, 0.0), node(1.0, 0.0)], &[(0, 1)]);
        let mut out = Vec::new();
        assert!(graph.path(NodeIx(1), NodeIx(1), &mut PathScratch::default(), &mut out));
        assert_eq!(out, [NodeIx(1)]);
    }

    #[test]
    fn only_the_largest_part_is_kept_be_it_a_single_node() {
        let nodes: Vec<GraphNode> = (0..6).map(|i| node(f64::from(i), 0.0)).collect();
        let kept = graph(&nodes, &[(0, 1), (2, 3), (3, 4)]);
        assert_eq!(kept.node_count(), 3);
        assert_eq!(kept.node(NodeIx(0)), nodes[2]);
        let alone = graph(&nodes, &[]);
        assert_eq!((alone.node_count(), alone.node(NodeIx(0))), (1, nodes[0]));
    }

    #[test]
    fn equal_shares_draw_every_node_once() {
        let nodes: Vec<GraphNode> = (0..3).map(|i| node(f64::from(i), 0.0)).collect();
        let graph = graph(&nodes, &[(0, 1), (1, 2)]);
        let drawn = [0.0, 0.33, 0.34, 0.66, 0.67, 1.0].map(|share| graph.node_at_share(share).0);
        assert_eq!(drawn, [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn a_scratch_made_for_a_graph_never_grows() {
        let nodes: Vec<GraphNode> =
            (0..50).map(|i| node(f64::from(i * i % 17), f64::from(i))).collect();
        let edges: Vec<_> = (0..50).flat_map(|i| (0..i).map(move |j| (i, j))).collect();
        let graph = graph(&nodes, &edges);
        let mut scratch = PathScratch::for_graph(&graph);
        let before = (scratch.visits.capacity(), scratch.open.capacity());
        let mut out = Vec::with_capacity(50);
        for (from, to) in graph.node_indices().zip(graph.node_indices().skip(7)) {
            assert!(graph.path(from, to, &mut scratch, &mut out));
        }
        assert_eq!(before, (scratch.visits.capacity(), scratch.open.capacity()));
    }

    /// All distances from `from`, by relaxing every edge until nothing changes.
    fn distances_by_force(graph: &Graph, from: NodeIx) -> Vec<f64> {
        let mut best = vec![f64::INFINITY; graph.node_count()];
        best[from.index()] = 0.0;
        for _ in 0..graph.node_count() {
            for node in graph.node_indices() {
                for (to, length) in graph.neighbours(node) {
                    best[to.index()] = best[to.index()].min(best[node.index()] + length);
                }
            }
        }
        best
    }

    proptest! {
        #[test]
        fn a_path_is_as_short_as_brute_force_finds(
            places in prop::collection::vec((0.0..50.0f64, 0.0..50.0f64), 2..25),
            pairs in prop::collection::vec((0usize..25, 0usize..25), 1..60),
        ) {
            let nodes: Vec<GraphNode> = places.iter().map(|p| node(p.0, p.1)).collect();
            let edges: Vec<_> = pairs.iter().map(|p| (p.0 % nodes.len(), p.1 % nodes.len())).collect();
            let graph = graph(&nodes, &edges);
            let mut scratch = PathScratch::for_graph(&graph);
            let mut out = Vec::new();
            let best = distances_by_force(&graph, NodeIx(0));
            for to in graph.node_indices() {
                prop_assert!(graph.path(NodeIx(0), to, &mut scratch, &mut out));
                let length: f64 = out
                    .windows(2)
                    .map(|w| graph.node(w[0]).place.distance(graph.node(w[1]).place))
                    .sum();
                prop_assert!((length - best[to.index()]).abs() < 1e-9);
            }
        }
    }
}
