/** From what a hand wants to what the rules take. */

import type { Walk } from './messages.js';

/** Parts of a turn in which avatars face. Aiming in whole parts, page and server cannot differ. */
const FACINGS = 1_024;

/** Radians, counter-clockwise from east, as 1/65,536 turn. */
export function yawOf(angle: number): number {
  const part = Math.round((angle / (2 * Math.PI)) * FACINGS);
  return (((part % FACINGS) + FACINGS) % FACINGS) * (65_536 / FACINGS);
}

/** And back. */
export const angleOf = (yaw: number): number => (yaw / 65_536) * 2 * Math.PI;

/**
 * Keys and sticks mean directions on the screen; the rules take them as seen from the facing.
 * `along` and `up` are within the unit circle: east and north.
 */
export function walkTowards(along: number, up: number, aim: number): Walk {
  const yaw = yawOf(aim);
  const facing = angleOf(yaw);
  const length = Math.hypot(along, up);
  const scale = length > 1 ? 1 / length : 1;
  const forward = (along * Math.cos(facing) + up * Math.sin(facing)) * scale;
  const strafe = (-along * Math.sin(facing) + up * Math.cos(facing)) * scale;
  return { forward: key(forward), strafe: key(strafe), yaw };
}

const key = (share: number): number => Math.max(-127, Math.min(127, Math.round(share * 127)));
