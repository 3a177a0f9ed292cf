/** The numbers of the arena's weapons that are needed for display: `docs/ARENA.md`. */

import type { Weapon } from "@foveate/client/arena";

export interface Make {
  title: string;
  about: string;
  /** How far it carries, in units. */
  reach: number;
  cooldownMs: number;
  /** How much wider its cone becomes on each side, per unit of distance; 0 for a line. */
  spread: number;
}

export const MAKES: Record<Weapon, Make> = {
  blaster: { title: "Blaster", about: "medium reach", reach: 36, cooldownMs: 400, spread: 0 },
  scatter: { title: "Scatter", about: "near, wide", reach: 14, cooldownMs: 750, spread: 0.15 },
  lance: { title: "Lance", about: "far, slow", reach: 60, cooldownMs: 1_600, spread: 0 },
  dart: { title: "Dart", about: "of units", reach: 20, cooldownMs: 500, spread: 0 },
};

/** Weapons of an avatar, for the keys 1 to 3. */
export const HELD = ["blaster", "scatter", "lance"] as const;
export type Held = (typeof HELD)[number];

/** How long a dead avatar is away, and how long an item stays with its holder, in milliseconds. */
export const AWAY_MS = 3_000;
export const HELD_MS = 30_000;
/** How long a player must be dead before it may watch a team mate, in milliseconds. */
export const WATCH_AFTER_MS = 1_000;

/** A duration in ticks, rounded as in the rules. */
export const ticks = (milliseconds: number, hz: number): number => Math.floor((milliseconds * hz) / 1_000);

/** Ticks until a time of which the low 16 bits are known; 0 when it has passed. */
export function ticksLeft(until: number, now: number, most: number): number {
  const left = (until - now) & 0xffff;
  return left <= most ? left : 0;
}
