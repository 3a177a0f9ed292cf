/** Places where an avatar's centre cannot be, in integers: `arena/src/collision.rs`, half-plane by half-plane. */
import { SUBUNITS } from "./map.js";
import type { ArenaDocument, Point } from "./map.js";

/** Radius of an avatar in 1/256 unit. */
export const RADIUS = SUBUNITS;
/** The length to which normals are scaled before two are added. */
const NORMAL_LENGTH = 4096;
/** A cell of the grid is 2^11/256 = 8 units wide. */
const CELL_BITS = 11;

/** An edge's half-plane in which a body must stay: a place is outside if n · place is not below the limit. */
export interface Wall {
  readonly nx: number;
  readonly ny: number;
  readonly limit: number;
  /** |n|, rounded down. */
  readonly length: number;
}

/** How fast an avatar is, in 1/65,536 unit per tick. */
export interface Pace {
  readonly maxSpeed: number;
  readonly acceleration: number;
  readonly friction: number;
}

/** The integer root, rounded down; exact below 2^52. */
export function isqrt(n: number): number {
  return Math.floor(Math.sqrt(n));
}

/** The distance of a place outside, times |n|; negative inside. */
export function outsideBy(wall: Wall, x: number, y: number): number {
  return wall.nx * x + wall.ny * y - wall.limit;
}

/** What a step of the movement needs: the walls, the map's size, and the speed per tick. */
export class CollisionMap {
  readonly pace: Pace;
  private readonly side: number;
  private readonly width: number;
  /** For each cell the walls of the obstacles in it, in the obstacles' order. */
  private readonly cells: Wall[][][];

  constructor(map: ArenaDocument) {
    this.side = Math.trunc(map.side * SUBUNITS);
    this.width = (this.side >> CELL_BITS) + 1;
    this.cells = Array.from({ length: this.width * this.width }, () => []);
    for (const outline of map.obstacles) this.add(outline);
    const { rate } = map;
    this.pace = {
      maxSpeed: Math.trunc((10 * 65_536) / rate),
      acceleration: Math.trunc((60 * 65_536) / (rate * rate)),
      friction: Math.trunc((40 * 65_536) / (rate * rate)),
    };
  }

  private add(outline: readonly Point[]): void {
    const walls = wallsOf(outline);
    const span = (axis: 0 | 1): [number, number] => {
      const all = outline.map((vertex) => vertex[axis]);
      const cell = (v: number): number => Math.min(Math.max(v, 0) >> CELL_BITS, this.width - 1);
      return [cell(Math.min(...all) - 2 * RADIUS), cell(Math.max(...all) + 2 * RADIUS)];
    };
    const [columns, rows] = [span(0), span(1)];
    for (let row = rows[0]; row <= rows[1]; row++) {
      for (let column = columns[0]; column <= columns[1]; column++) this.cells[row * this.width + column].push(walls);
    }
  }

  /** The nearest coordinate that keeps an avatar's radius from the map's edges. */
  insideBorder(v: number): number {
    return Math.min(Math.max(v, RADIUS), this.side - RADIUS);
  }

  /** The walls of the obstacle at a place, which must be inside the border. */
  obstacleAt(x: number, y: number): readonly Wall[] | undefined {
    const near = this.cells[(y >> CELL_BITS) * this.width + (x >> CELL_BITS)];
    return near.find((walls) => walls.every((wall) => outsideBy(wall, x, y) < 0));
  }

  /** Whether an avatar may stand here: on the map and outside of all walls. */
  isFree(x: number, y: number): boolean {
    return this.insideBorder(x) === x && this.insideBorder(y) === y && this.obstacleAt(x, y) === undefined;
  }
}

function makeWall(nx: number, ny: number, [x, y]: Point): Wall {
  const squared = nx * nx + ny * ny;
  const room = RADIUS * RADIUS * squared;
  const root = isqrt(room);
  const reach = root * root < room ? root + 1 : root;
  return { nx, ny, limit: nx * x + ny * y + reach, length: isqrt(squared) };
}

function wallsOf(outline: readonly Point[]): Wall[] {
  const n = outline.length;
  const normal = (i: number): Point => {
    const [a, b] = [outline[i % n], outline[(i + 1) % n]];
    return [b[1] - a[1], a[0] - b[0]];
  };
  const scaled = ([x, y]: Point): Point => {
    const length = isqrt(x * x + y * y);
    return [Math.trunc((x * NORMAL_LENGTH) / length), Math.trunc((y * NORMAL_LENGTH) / length)];
  };
  return outline.flatMap((vertex, i) => {
    const [after, before] = [normal(i), normal(i + n - 1)];
    const [a, b] = [scaled(after), scaled(before)];
    return [makeWall(after[0], after[1], vertex), makeWall(a[0] + b[0], a[1] + b[1], vertex)];
  });
}
