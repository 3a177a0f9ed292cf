//! The arena as a document for clients that draw it or predict in it: browsers fetch it as
//! `/arena.json`.
//!
//! It contains everything that the rules take from the map: a client that builds walls from the
//! outlines like [`crate::collision`], and ways from the graph like the rules, agrees with the
//! server to the last bit. Numbers are exact: outlines are integers, and JSON's shortest decimal
//! form reads back as the same double.
//!
//! | key | value |
//! | --- | --- |
//! | `side` | length of the map's side, in world units |
//! | `rate` | ticks per second |
//! | `obstacles` | outlines, counter-clockwise, as `[x, y]` in 1/256 unit |
//! | `nodes` | places of the graph's nodes as `[x, y]` in world units; a unit's `target` is an index into this list |
//! | `edges` | joined nodes, as pairs of indices, each pair once, the lower index first, in order |
//! | `views` | names of the views that a player may choose; their indices are their numbers |
//! | `units` | units of each player |

use crate::fixed::Place;
use crate::game::Arena;
use crate::map::ArenaMap;
use crate::movement::TickRate;
use serde::Serialize;

/// Names of the views that a player may choose, by their numbers.
pub const VIEWS: [&str; 2] = ["normal", "zoom"];

/// What a page must know of an arena.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ArenaDocument {
    /// Length of the map's side, in world units.
    pub side: f64,
    /// Ticks per second.
    pub rate: u32,
    /// The obstacles' outlines, in 1/256 unit.
    pub obstacles: Vec<Vec<[i32; 2]>>,
    /// Places of the graph's nodes, in world units.
    pub nodes: Vec<[f64; 2]>,
    /// Pairs of joined nodes.
    pub edges: Vec<[u32; 2]>,
    /// Names of the views, by their numbers.
    pub views: Vec<&'static str>,
    /// Units of each player.
    pub units: u32,
}

impl ArenaDocument {
    /// The document of an arena.
    ///
    /// ```
    /// use foveate_arena::{Arena, ArenaDocument, Setup};
    /// let document = ArenaDocument::of(&Arena::new(Setup::for_players(8, 1))?);
    /// assert_eq!((document.rate, document.views[0]), (20, "normal"));
    /// # Ok::<(), foveate_arena::ArenaError>(())
    /// ```
    pub fn of(arena: &Arena) -> ArenaDocument {
        let setup = arena.setup();
        let units = setup.units;
        ArenaDocument { views: VIEWS.to_vec(), units, ..ArenaDocument::on(arena.map(), setup.rate) }
    }

    /// The same for a map without a game: no views and no units.
    pub fn on(map: &ArenaMap, rate: TickRate) -> ArenaDocument {
        let outline = |vertices: &[crate::Point]| {
            vertices.iter().map(|v| Place::near(*v)).map(|place| [place.x, place.y]).collect()
        };
        let graph = map.graph();
        let node = |node| graph.node(node).place;
        let mut edges = Vec::new();
        for from in graph.node_indices() {
            let ways = graph.neighbours(from).filter(|(to, _)| *to > from);
            edges.extend(ways.map(|(to, _)| [from.0, to.0]));
        }
        ArenaDocument {
            side: map.side(),
            rate: rate.hz(),
            obstacles: map.obstacles().iter().map(|o| outline(o.outline().vertices())).collect(),
            nodes: graph.node_indices().map(node).map(|at| [at.x, at.y]).collect(),
            edges,
            views: Vec::new(),
            units: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setup;
    use foveate_node::Game;

    #[test]
    fn every_view_has_a_name_and_every_name_a_view() {
        let arena = Arena::new(Setup::for_players(8, 1)).unwrap();
        let named = ArenaDocument::of(&arena).views.len() as u8;
        assert!((0..named).all(|which| arena.view(which).is_some()));
        assert!(arena.view(named).is_none());
    }

    #[test]
    fn the_document_joins_nodes_as_the_graph_does() {
        let map = ArenaMap::generate(3, 120.0, 30);
        let document = ArenaDocument::on(&map, TickRate::DEFAULT);
        let graph = map.graph();
        let ways: usize = graph.node_indices().map(|node| graph.neighbours(node).count()).sum();
        assert_eq!(document.edges.len() * 2, ways);
        assert!(document.edges.is_sorted() && document.edges.iter().all(|[a, b]| a < b));
        assert_eq!(document.nodes.len(), graph.node_count());
        assert_eq!(document.obstacles.len(), map.obstacles().len());
    }
}
