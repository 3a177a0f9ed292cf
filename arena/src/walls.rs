//! Line of sight past the map's walls.

use crate::geometry::Point;
use crate::map::ArenaMap;
use foveate_sync::interest::{Line, Visibility};
use foveate_wire::Position;
use std::sync::Arc;

/// The map's walls, for views with a line of sight.
///
/// With a `slack` an object counts as visible if it could come into sight by a step aside of that
/// length, of either party, so that it is sent in time although updates take a while to arrive.
#[derive(Clone, Debug)]
pub struct Walls {
    pub map: Arc<ArenaMap>,
    /// World units that either party may step aside.
    pub slack: f64,
}

impl Visibility for Walls {
    fn visible(&self, line: &Line) -> bool {
        let point = |at: Position| Point::new(f64::from(at[0]), f64::from(at[1]));
        let (from, to) = (point(line.from), point(line.to));
        if self.map.line_of_sight(from, to) {
            return true;
        }
        let (dx, dy) = (to.x - from.x, to.y - from.y);
        let length = dx.hypot(dy);
        if self.slack <= 0.0 || length <= 0.0 {
            return false;
        }
        let off_axis = |point: Point, side: f64| {
            let by = side * self.slack / length;
            Point::new(point.x - dy * by, point.y + dx * by)
        };
        let clear = |a, b| self.map.line_of_sight(a, b);
        [-1.0, 1.0].into_iter().any(|side| {
            clear(off_axis(from, side), to)
                || clear(from, off_axis(to, side))
                || clear(off_axis(from, side), off_axis(to, side))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::ConvexPolygon;
    use foveate_wire::{ObjectId, Tick};

    #[test]
    fn slack_sees_round_a_corner_and_no_further() {
        let corners = [(40.0, 40.0), (50.0, 40.0), (50.0, 60.0), (40.0, 60.0)];
        let block = ConvexPolygon::new(corners.map(|(x, y)| Point::new(x, y)).to_vec());
        let map = Arc::new(ArenaMap::with_obstacles(100.0, vec![block.expect("convex")]));
        let sees = |slack: f64, y: f32| {
            let walls = Walls { map: Arc::clone(&map), slack };
            let (from, to) = ([30.0, y].into(), [60.0, y].into());
            let (object, tick) = (ObjectId(1), Tick(1));
            walls.visible(&Line { pivot: None, object, from, to, tick })
        };
        assert!(sees(0.0, 61.0) && !sees(0.0, 59.0) && !sees(0.0, 50.0));
        assert!(sees(2.0, 59.0), "one step aside");
        assert!(!sees(2.0, 50.0), "behind the middle of the wall");
    }
}
