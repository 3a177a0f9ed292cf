/** A shot as shown at once to its shooter; the server decides what it hits. */

import type { MapShape } from "../../scene/ground.js";

export interface Target {
  x: number;
  y: number;
}

/** How near a shot must pass to an avatar's centre to hit, in units. */
const TARGET_RADIUS = 1;

export interface Ray {
  x: number;
  y: number;
  angle: number;
  reach: number;
}

/** The distance to the first wall. */
export function untilWall(map: MapShape, ray: Ray): number {
  const [dx, dy] = [Math.cos(ray.angle), Math.sin(ray.angle)];
  let least = ray.reach;
  for (const outline of map.obstacles) {
    least = Math.min(least, entry(outline, ray, dx, dy) ?? least);
  }
  return least;
}

/** Where a line enters a convex outline, if it does, by clipping at each edge. */
function entry(outline: readonly number[], ray: Ray, dx: number, dy: number): number | null {
  let [enter, leave] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  const winding = area(outline) > 0 ? 1 : -1;
  for (let i = 0; i < outline.length; i += 2) {
    const j = (i + 2) % outline.length;
    const [ax, ay] = [outline[i]!, outline[i + 1]!];
    // The edge's normal, outwards.
    const nx = (outline[j + 1]! - ay) * winding;
    const ny = (ax - outline[j]!) * winding;
    const outside = (ray.x - ax) * nx + (ray.y - ay) * ny;
    const toward = dx * nx + dy * ny;
    if (toward === 0) {
      if (outside > 0) return null;
      continue;
    }
    const at = -outside / toward;
    if (toward < 0) enter = Math.max(enter, at);
    else leave = Math.min(leave, at);
  }
  return enter <= leave && enter > 0 ? enter : null;
}

function area(outline: readonly number[]): number {
  let sum = 0;
  for (let i = 0; i < outline.length; i += 2) {
    const j = (i + 2) % outline.length;
    sum += outline[i]! * outline[j + 1]! - outline[j]! * outline[i + 1]!;
  }
  return sum;
}

/** The distance to the first target, or the shot's length. */
export function untilTarget(ray: Ray, targets: Iterable<Target>): { length: number; hit: boolean } {
  const [dx, dy] = [Math.cos(ray.angle), Math.sin(ray.angle)];
  let length = ray.reach;
  let hit = false;
  for (const target of targets) {
    const [ox, oy] = [target.x - ray.x, target.y - ray.y];
    const ahead = ox * dx + oy * dy;
    const aside = ox * dy - oy * dx;
    const half = TARGET_RADIUS ** 2 - aside ** 2;
    if (half < 0 || ahead <= 0) continue;
    const at = Math.max(0, ahead - Math.sqrt(half));
    if (at <= length) [length, hit] = [at, true];
  }
  return { length, hit };
}
