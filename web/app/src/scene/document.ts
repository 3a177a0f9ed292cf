/** The arena's document, `/arena.json`, as far as drawing goes. */

import type { ArenaDocument } from '@foveate/client/arena';
import type { MapShape } from './ground.js';

/** Steps of an outline in a unit. */
const SUBUNITS = 256;

export function mapShape(document: unknown): MapShape {
  const { side, obstacles } = document as ArenaDocument;
  return {
    side,
    obstacles: obstacles.map((outline) => outline.flatMap(([x, y]) => [x / SUBUNITS, y / SUBUNITS])),
  };
}

/** Where the nodes of the graph of ways lie, in world units. */
export function nodePlaces(document: ArenaDocument): [number, number][] {
  return document.nodes.map(([x, y]) => [x, y]);
}
