/** The arena's document, `/arena.json`, as far as drawing goes. */

import { type ArenaDocument, SUBUNITS } from "@foveate/client/arena";
import type { MapShape } from "./ground.js";

export function mapShape({ side, obstacles }: ArenaDocument): MapShape {
  return {
    side,
    obstacles: obstacles.map((outline) => outline.flatMap(([x, y]) => [x / SUBUNITS, y / SUBUNITS])),
  };
}
