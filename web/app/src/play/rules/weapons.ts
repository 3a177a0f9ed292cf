/** The arena's weapons in numbers: `docs/ARENA.md`. */

export interface Make {
  name: string;
  /** How far it carries, in units. */
  reach: number;
  cooldownMs: number;
  /** How much wider its cone is to either side, per unit of way; 0 for a line. */
  spread: number;
}

/** By their numbers in avatars' states and in events. */
export const WEAPONS: readonly Make[] = [
  { name: 'Blaster', reach: 36, cooldownMs: 400, spread: 0 },
  { name: 'Scatter', reach: 14, cooldownMs: 750, spread: 0.15 },
  { name: 'Lance', reach: 60, cooldownMs: 1_600, spread: 0 },
  { name: 'Dart', reach: 20, cooldownMs: 500, spread: 0 },
];
/** Of those, an avatar has the first three. */
export const HELD = 3;
export const DART = 3;

/** Changing the weapon takes this long, in milliseconds. */
export const CHANGE_MS = 300;
/** No weapon is ready later than this, in milliseconds. */
export const LONGEST_MS = 1_600;
/** A dead avatar is away for this long, in milliseconds. */
export const AWAY_MS = 3_000;

/** A span in ticks, as the rules count it. */
export const ticks = (milliseconds: number, hz: number): number => Math.floor((milliseconds * hz) / 1_000);

/** Ticks until a time of which the low 16 bits are known; 0 when it is over. */
export function ticksLeft(until: number, now: number, most: number): number {
  const left = (until - now) & 0xffff;
  return left <= most ? left : 0;
}
