/**
 * An avatar's movement in one tick: `arena/src/movement.rs`, to the last bit. Places are in 1/256 unit, velocities in
 * 1/65,536 unit per tick, angles in 1/65,536 turn; every intermediate value stays below 2^53.
 */
import { outsideBy, isqrt } from "./collision.js";
import type { CollisionMap, Pace, Wall } from "./collision.js";
import { ONE, cos, sin } from "./trig.js";

/** The input for full speed. */
export const FULL_INPUT = 127;
/** Most walls that one step slides along. */
const MAX_SLIDES = 4;
/** Velocity steps in one place step. */
const VELOCITY_PER_PLACE = 256;

/** An avatar's body: where it is and how it moves. */
export interface Body {
  x: number;
  y: number;
  vx: number;
  vy: number;
}

/** A player's movement keys, from −127 to 127, and the avatar's facing. */
export interface Walk {
  readonly forward: number;
  readonly strafe: number;
  /** In 1/65,536 turn. */
  readonly yaw: number;
}

function clamp(v: number, most: number): number {
  return v < -most ? -most : v > most ? most : v;
}

/** Advances a body by one tick, in place. */
export function step(map: CollisionMap, body: Body, walk: Walk): void {
  const { pace } = map;
  body.x = map.insideBorder(body.x);
  body.y = map.insideBorder(body.y);
  body.vx = clamp(body.vx, pace.maxSpeed);
  body.vy = clamp(body.vy, pace.maxSpeed);
  const [wx, wy] = wishedVelocity(pace, walk);
  const change = wx === 0 && wy === 0 ? pace.friction : pace.acceleration;
  const [dx, dy] = limited(wx - body.vx, wy - body.vy, change);
  [body.vx, body.vy] = limited(body.vx + dx, body.vy + dy, pace.maxSpeed);
  slide(map, body);
}

/** The velocity that an input asks for. Both keys together are no faster than one. */
function wishedVelocity(pace: Pace, walk: Walk): [number, number] {
  const [forward, strafe] = limited(walk.forward, walk.strafe, FULL_INPUT);
  const [s, c] = [sin(walk.yaw), cos(walk.yaw)];
  const scale = FULL_INPUT * ONE;
  return [
    quotient(pace.maxSpeed * (forward * c - strafe * s), scale),
    quotient(pace.maxSpeed * (forward * s + strafe * c), scale),
  ];
}

/** `n / d` towards zero, without a negative zero. */
function quotient(n: number, d: number): number {
  return Math.trunc(n / d) + 0;
}

/** The vector (x, y), shortened to at most `length`. */
function limited(x: number, y: number, length: number): [number, number] {
  const squared = x * x + y * y;
  if (squared <= length * length) return [x, y];
  // Dividing by one more than the rounded-down root never gives a result that is too long.
  const actual = isqrt(squared) + 1;
  return [quotient(x * length, actual), quotient(y * length, actual)];
}

/** Moves a body along the walls that are in the way. */
function slide(map: CollisionMap, body: Body): void {
  const [fromX, fromY] = [body.x, body.y];
  const wishedX = fromX + Math.floor((body.vx + VELOCITY_PER_PLACE / 2) / VELOCITY_PER_PLACE);
  const wishedY = fromY + Math.floor((body.vy + VELOCITY_PER_PLACE / 2) / VELOCITY_PER_PLACE);
  body.x = map.insideBorder(wishedX);
  body.y = map.insideBorder(wishedY);
  if (body.x !== wishedX) body.vx = 0;
  if (body.y !== wishedY) body.vy = 0;
  for (let n = 0; n < MAX_SLIDES; n++) {
    const walls = map.obstacleAt(body.x, body.y);
    if (walls === undefined) return;
    const wall = entered(walls, fromX, fromY, body);
    pushOut(map, wall, body);
    along(wall, body);
  }
  if (map.obstacleAt(body.x, body.y) === undefined) return;
  [body.x, body.y, body.vx, body.vy] = [fromX, fromY, 0, 0];
}

/** The wall through which the body entered; if it started inside, too, the nearest one. */
function entered(walls: readonly Wall[], fromX: number, fromY: number, goal: Body): Wall {
  let best = walls[0];
  // Share of the distance at which `best` is crossed, as a fraction.
  let [share, whole] = [-1, 0];
  for (const wall of walls) {
    const before = outsideBy(wall, fromX, fromY);
    if (before < 0) continue;
    const way = before - outsideBy(wall, goal.x, goal.y);
    if (share < 0 || before * whole > share * way) [best, share, whole] = [wall, before, way];
  }
  if (share >= 0) return best;
  for (const wall of walls) {
    // Depths are negative, so the nearest wall has the greatest.
    if (outsideBy(wall, goal.x, goal.y) * best.length > outsideBy(best, goal.x, goal.y) * wall.length) best = wall;
  }
  return best;
}

/** Moves the body to the nearest place on or just outside the wall, rounded away from the obstacle. */
function pushOut(map: CollisionMap, wall: Wall, body: Body): void {
  const squared = wall.nx * wall.nx + wall.ny * wall.ny;
  const depth = -outsideBy(wall, body.x, body.y);
  const away = (n: number): number => Math.sign(n) * Math.floor((Math.abs(n) * depth + squared - 1) / squared);
  body.x = map.insideBorder(body.x + away(wall.nx));
  body.y = map.insideBorder(body.y + away(wall.ny));
}

/** Removes the part of a velocity that points into a wall. */
function along(wall: Wall, body: Body): void {
  const into = wall.nx * body.vx + wall.ny * body.vy;
  if (into >= 0) return;
  const squared = wall.nx * wall.nx + wall.ny * wall.ny;
  body.vx -= quotient(wall.nx * into, squared);
  body.vy -= quotient(wall.ny * into, squared);
}
