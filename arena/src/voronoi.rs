//! Builds the graph of ways: Silac's Voronoi diagram of the obstacles' vertices, cut to where an
//! avatar can stand.
//!
//! Silac (`spec` §6) adds a vertex wherever a Voronoi edge crosses an obstacle's edge and calls it
//! a *door*: its obstacles are buildings that avatars can walk through. Ours are solid for sight
//! and for walkers, because a bot inside a wall could be neither seen nor hit. So:
//!
//! - The part of an edge that is inside an obstacle is dropped. "Inside" means nearer than the
//!   avatar's radius and a little clearance, because it is the avatar's centre that walks the edge.
//! - Where an edge is cut, the door remains as a node **in front of** the wall, at the end of a
//!   dead end, if that is long enough ([`DEAD_END_MIN`]): there a bot has cover behind it, which is
//!   where players like to stand. Nearer ones would duplicate their junction.
//! - The same applies to the map's edges: the node is an avatar's radius inside.
//! - The map's edges are ways themselves, from each of their nodes to the next and around the
//!   corners: an obstacle that faces only the map's edge has all its Voronoi edges end there, and
//!   they would meet nothing else (without these ways, one node in thirteen was cut off).
//! - The map's corners are sites, too, so that the diagram's hull is the map's square.
//! - Dropping the insides can disconnect parts; only the largest connected one is kept, so that
//!   every node can be reached from every other.
//!
//! A diagram of the *vertices* (not of the walls) may send an edge through a long wall, if a corner
//! of another obstacle is close to the wall's middle, and so lose the passage between them. So long
//! walls get additional sites, at most [`SITE_SPACING`] apart, which reduces the nodes that are cut
//! off to a tenth.

use spade::handles::VoronoiVertex;
use spade::{DelaunayTriangulation, Point2, Triangulation};

use crate::geometry::{Bounds, Point, Segment, Span};
use crate::graph::{Graph, GraphNode, NodeKind};
use crate::map::{AVATAR_RADIUS, CLEARANCE, Obstacle, PASSAGE};

/// The shortest dead end that is kept, in world units.
const DEAD_END_MIN: f64 = 3.0;

/// The largest distance between neighbouring sites of one wall, in world units. Half as much would
/// add a door for every site, and no useful way.
const SITE_SPACING: f64 = 2.0 * PASSAGE;

/// How far a cut may be from the line that it was cut at, in world units.
const ROUNDING: f64 = 1e-6;

/// The graph of ways of a map.
pub(crate) fn graph(side: f64, obstacles: &[Obstacle]) -> Graph {
    ways(side, obstacles).finish()
}

/// All walkable parts of the Voronoi diagram's edges.
fn ways(side: f64, obstacles: &[Obstacle]) -> Builder<'_> {
    let mut builder = Builder::new(side, obstacles);
    let diagram = triangulate(side, obstacles);
    let mut junctions = vec![None; diagram.num_all_faces()];
    for edge in diagram.undirected_voronoi_edges() {
        let ends = edge.vertices().map(|vertex| match vertex {
            VoronoiVertex::Inner(face) => {
                let centre = face.circumcenter();
                End::Vertex { face: face.fix().index(), place: Point::new(centre.x, centre.y) }
            }
            VoronoiVertex::Outer(outer) => {
                // The hull is the map's square, so the edge leaves across one of its sides.
                let [p, q] = outer.as_delaunay_edge().vertices().map(|v| v.position());
                End::Beyond { middle: Point::new((p.x + q.x) / 2.0, (p.y + q.y) / 2.0) }
            }
        });
        match ends {
            [End::Vertex { face: f, place: a }, End::Vertex { face: g, place: b }] => {
                builder.add(Segment::new(a, b), [f, g].map(Some), &mut junctions);
            }
            [End::Vertex { face, place }, End::Beyond { middle }]
            | [End::Beyond { middle }, End::Vertex { face, place }] => {
                let outward = middle - Point::new(side / 2.0, side / 2.0);
                builder.add(
                    Segment::new(place, place + outward),
                    [Some(face), None],
                    &mut junctions,
                );
            }
            [End::Beyond { .. }, End::Beyond { .. }] => {}
        }
    }
    builder.add_rim();
    builder
}

/// An end of a Voronoi edge.
enum End {
    Vertex { face: usize, place: Point },
    Beyond { middle: Point },
}

fn triangulate(side: f64, obstacles: &[Obstacle]) -> DelaunayTriangulation<Point2<f64>> {
    let corners = [(0.0, 0.0), (side, 0.0), (side, side), (0.0, side)];
    let corners = corners.into_iter().map(|(x, y)| Point::new(x, y));
    let walls = obstacles.iter().flat_map(|o| o.outline().edges()).flat_map(|wall| {
        let parts = (wall.length() / SITE_SPACING).ceil().max(1.0);
        (0..parts as u32).map(move |i| wall.at(f64::from(i) / parts))
    });
    let mut diagram = DelaunayTriangulation::new();
    for site in corners.chain(walls) {
        // Only NaN and immense coordinates are refused; the generator makes none, and a missing
        // site would cost a way, not the map.
        let _ = diagram.insert(Point2::new(site.x, site.y));
    }
    diagram
}

struct Builder<'a> {
    obstacles: &'a [Obstacle],
    room: Bounds,
    nodes: Vec<GraphNode>,
    edges: Vec<(usize, usize)>,
}

/// One end of the walkable part of an edge.
#[derive(Clone, Copy)]
struct Cut {
    at: f64,
    kind: NodeKind,
}

impl<'a> Builder<'a> {
    fn new(side: f64, obstacles: &'a [Obstacle]) -> Self {
        let map = Bounds { min: Point::new(0.0, 0.0), max: Point::new(side, side) };
        let room = map.grown(-(AVATAR_RADIUS + CLEARANCE));
        Self { obstacles, room, nodes: Vec::new(), edges: Vec::new() }
    }

    /// Adds the walkable parts of a Voronoi edge between two vertices of the diagram (`None`: the
    /// edge runs to infinity). `junctions` has the nodes of the vertices that became one.
    fn add(
        &mut self,
        edge: Segment,
        vertices: [Option<usize>; 2],
        junctions: &mut [Option<usize>],
    ) {
        for (from, to) in self.walkable_parts(&edge) {
            let length = edge.length() * (to.at - from.at);
            let is_dead_end = from.kind != NodeKind::Junction || to.kind != NodeKind::Junction;
            if is_dead_end && length < DEAD_END_MIN {
                continue;
            }
            let [a, b] = [(from, vertices[0]), (to, vertices[1])].map(|(cut, vertex)| {
                let node = GraphNode { place: edge.at(cut.at), kind: cut.kind };
                match vertex {
                    Some(face) if cut.kind == NodeKind::Junction => {
                        *junctions[face].get_or_insert_with(|| self.push(node))
                    }
                    _ => self.push(node),
                }
            });
            self.edges.push((a, b));
        }
    }

    fn push(&mut self, node: GraphNode) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// The parts of an edge that remain outside of the obstacles and inside the map's edges, in
    /// order.
    fn walkable_parts(&self, edge: &Segment) -> Vec<(Cut, Cut)> {
        let Some(room) = edge.span_inside(&self.room.planes()) else {
            return Vec::new();
        };
        let bounds = Bounds::of(edge).grown(2.0 * (AVATAR_RADIUS + CLEARANCE));
        let mut blocked: Vec<Span> = self
            .obstacles
            .iter()
            .filter(|o| o.bounds().meets(&bounds))
            .filter_map(|o| edge.span_inside(o.kept_clear()))
            .collect();
        blocked.sort_by(|a, b| a.enter.total_cmp(&b.enter));

        let end_kind = |is_clipped| if is_clipped { NodeKind::Border } else { NodeKind::Junction };
        let mut parts = Vec::new();
        let mut from = Cut { at: room.enter, kind: end_kind(room.enter > 0.0) };
        for wall in blocked {
            if wall.enter > from.at {
                parts.push((from, Cut { at: wall.enter.min(room.exit), kind: NodeKind::Door }));
            }
            if wall.exit >= from.at {
                from = Cut { at: wall.exit, kind: NodeKind::Door };
            }
        }
        if from.at < room.exit {
            parts.push((from, Cut { at: room.exit, kind: end_kind(room.exit < 1.0) }));
        }
        parts
    }

    /// Adds the corners, and joins the border's nodes along each side. The whole border can be
    /// walked, because no obstacle is nearer to the map's edge than [`PASSAGE`].
    fn add_rim(&mut self) {
        let (min, max) = (self.room.min, self.room.max);
        for (x, y) in [(min.x, min.y), (max.x, min.y), (max.x, max.y), (min.x, max.y)] {
            self.push(GraphNode { place: Point::new(x, y), kind: NodeKind::Border });
        }
        for (is_upright, side) in [(true, min.x), (true, max.x), (false, min.y), (false, max.y)] {
            // A node's coordinates across and along the direction of the side.
            let split = |node: &GraphNode| match (is_upright, node.place) {
                (true, Point { x, y }) => (x, y),
                (false, Point { x, y }) => (y, x),
            };
            let mut row: Vec<(f64, usize)> = Vec::new();
            for (i, node) in self.nodes.iter().enumerate() {
                let (across, along) = split(node);
                if node.kind == NodeKind::Border && (across - side).abs() < ROUNDING {
                    row.push((along, i));
                }
            }
            row.sort_by(|a, b| a.0.total_cmp(&b.0));
            self.edges.extend(row.windows(2).map(|pair| (pair[0].1, pair[1].1)));
        }
    }

    fn finish(self) -> Graph {
        Graph::largest_part(&self.nodes, &self.edges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::PathScratch;
    use crate::map::ArenaMap;

    #[test]
    fn an_avatar_can_stand_on_every_node_and_walk_every_edge() {
        for seed in 0..30 {
            let map = ArenaMap::generate(seed, 150.0, 50);
            let graph = map.graph();
            for node in graph.node_indices() {
                let place = graph.node(node).place;
                assert!(map.is_free(place, AVATAR_RADIUS), "seed {seed}: {place:?}");
                for (next, length) in graph.neighbours(node) {
                    let way = Segment::new(place, graph.node(next).place);
                    assert_eq!(length, way.length());
                    for i in 0..=20 {
                        assert!(map.is_free(way.at(f64::from(i) / 20.0), AVATAR_RADIUS));
                    }
                }
            }
        }
    }

    #[test]
    fn a_path_connects_any_two_nodes() {
        for (seed, side, count) in [(1, 100.0, 25), (2, 150.0, 60), (3, 60.0, 200), (4, 16.0, 9)] {
            let map = ArenaMap::generate(seed, side, count);
            let graph = map.graph();
            let mut scratch = PathScratch::for_graph(graph);
            let mut path = Vec::new();
            for from in graph.node_indices().step_by(7) {
                for to in graph.node_indices() {
                    assert!(graph.path(from, to, &mut scratch, &mut path));
                    assert_eq!((path[0], path[path.len() - 1]), (from, to));
                    for pair in path.windows(2) {
                        assert!(graph.neighbours(pair[0]).any(|(next, _)| next == pair[1]));
                    }
                }
            }
        }
    }

    #[test]
    fn few_nodes_are_cut_off() {
        let (mut all, mut kept) = (0, 0);
        for seed in 0..100 {
            let (side, count) = if seed % 2 == 0 { (200.0, 80) } else { (150.0, 200) };
            let map = ArenaMap::generate(seed, side, count);
            all += ways(map.side(), map.obstacles()).nodes.len();
            kept += map.graph().node_count();
        }
        assert!(kept * 1000 >= all * 995, "{kept} of {all}");
    }

    #[test]
    fn every_open_place_has_a_node_nearby() {
        for seed in 0..10 {
            let map = ArenaMap::generate(seed, 200.0, 80);
            let graph = map.graph();
            let places: Vec<Point> = graph.node_indices().map(|n| graph.node(n).place).collect();
            let (mut open, mut served) = (0, 0);
            for i in 0..100 * 100 {
                let p = Point::new(f64::from(i % 100) * 2.0 + 1.0, f64::from(i / 100) * 2.0 + 1.0);
                if map.is_free(p, AVATAR_RADIUS) {
                    open += 1;
                    served += usize::from(places.iter().any(|q| q.distance(p) < 12.0));
                }
            }
            assert!(served * 100 >= open * 97, "seed {seed}: {served} of {open} places");
        }
    }

    #[test]
    fn doors_junctions_and_borders_all_occur() {
        let map = ArenaMap::generate(1, 150.0, 50);
        let count = |kind| {
            let graph = map.graph();
            graph.node_indices().filter(|&n| graph.node(n).kind == kind).count()
        };
        let counts = [NodeKind::Junction, NodeKind::Door, NodeKind::Border].map(count);
        assert!(counts.iter().all(|&n| n >= 4), "{counts:?}");
    }
}
