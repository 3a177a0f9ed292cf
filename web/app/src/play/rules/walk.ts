/** From what a hand wants to what the rules take. */

import { FULL_INPUT, toYaw, type Walk } from "@foveate/client/arena";

/**
 * Keys and sticks mean directions on the screen; the rules take them as seen from the facing.
 * `along` and `up` are east and north, −1 to 1 each; both at once are no faster.
 */
export function walkTowards(along: number, up: number, aim: number): Walk {
  const length = Math.hypot(along, up);
  const full = FULL_INPUT / Math.max(1, length);
  const [cos, sin] = [Math.cos(aim), Math.sin(aim)];
  return {
    forward: Math.round((along * cos + up * sin) * full),
    strafe: Math.round((up * cos - along * sin) * full),
    yaw: toYaw(aim),
  };
}
