/** The arena's map from a server's `/arena.json`; see `arena/src/document.rs`. */

/** A place in 1/256 unit unless stated otherwise. */
export type Point = readonly [x: number, y: number];

/** The arena's document, as far as a page needs it. */
export interface ArenaDocument {
  /** Length of the map's side, in world units. */
  readonly side: number;
  /** Ticks per second. */
  readonly rate: number;
  /** Outlines, counter-clockwise, in 1/256 unit. */
  readonly obstacles: readonly (readonly Point[])[];
  /** The graph's nodes, in world units. */
  readonly nodes: readonly Point[];
  /** The graph's edges, as indices of nodes. */
  readonly edges: readonly (readonly [number, number])[];
  /** Names of the views, by number. */
  readonly views: readonly string[];
  /** Units of each player. */
  readonly units: number;
}

/** Steps of a place in one world unit. */
export const SUBUNITS = 256;

/** A document is not a valid arena. */
export class ArenaError extends Error {
  override readonly name = "ArenaError";
}

/** Checks that a fetched document is a valid map. */
export function parseArena(json: unknown): ArenaDocument {
  const map = json as Partial<ArenaDocument> | null;
  const pairs = (list: unknown): boolean =>
    Array.isArray(list) && list.every((p) => Array.isArray(p) && p.length === 2 && p.every((v) => Number.isFinite(v)));
  const sound =
    typeof map === "object" && map !== null &&
    typeof map.side === "number" && map.side >= 16 && map.side <= 4096 &&
    typeof map.rate === "number" && map.rate >= 10 && map.rate <= 128 &&
    Array.isArray(map.obstacles) && map.obstacles.every((outline) => pairs(outline) && outline.length >= 3) &&
    pairs(map.nodes) && (map.nodes?.length ?? 0) > 0 &&
    pairs(map.edges) && Array.isArray(map.views) && typeof map.units === "number";
  if (!sound) throw new ArenaError("this is no arena");
  const nodes = (map as ArenaDocument).nodes.length;
  const joined = (node: number): boolean => Number.isInteger(node) && node >= 0 && node < nodes;
  if (!(map as ArenaDocument).edges.every((edge) => edge.every(joined))) throw new ArenaError("an edge leads nowhere");
  return map as ArenaDocument;
}
