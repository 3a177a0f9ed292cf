/** Converts the player's directions to those of the rules. */

import { FULL_INPUT, toYaw, type Walk } from "@foveate/client/arena";

/**
 * Keys and sticks give directions on the screen; the rules use directions relative to the facing. `along` and `up` are
 * east and north, −1 to 1 each; both together are no faster.
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
