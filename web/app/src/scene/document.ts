/** The arena's document `/arena.json`, with what is needed for drawing. */

import { type ArenaDocument, SUBUNITS } from "@foveate/client/arena";
import type { MapShape } from "./ground.js";

export function mapShape({ side, obstacles }: ArenaDocument): MapShape {
  return {
    side,
    obstacles: obstacles.map((outline) => outline.flatMap(([x, y]) => [x / SUBUNITS, y / SUBUNITS])),
  };
}
