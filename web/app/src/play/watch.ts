/** Watching others: by choice, or while one is out. */

import { AWAY_MS } from "./rules/weapons.js";
import type { ArenaClient, Seen, Sight } from "./sight.js";

export class Watch {
  /** Whose eyes one looks through; null: one's own. */
  whom: bigint | null = null;
  /** It began because one was out, and ends when one is back: by this time, whatever is known of one's avatar. */
  private until = Number.POSITIVE_INFINITY;

  constructor(
    private readonly client: ArenaClient,
    private readonly sight: Sight,
  ) {}

  toggle(): void {
    if (this.whom === null) this.next(1);
    else this.own();
  }

  /** The next of those who play, or the one before. */
  next(by: 1 | -1): void {
    const others = this.sight.avatars
      .filter((seen) => seen.id !== this.client.avatar && seen.health > 0)
      .sort((a, b) => a.player - b.player);
    if (others.length === 0) return;
    const at = others.findIndex((seen) => seen.id === this.whom);
    const next = at < 0 && by < 0 ? others.length - 1 : at + by;
    const chosen = others[(next + others.length) % others.length]!;
    if (this.whom === null) {
      const isOut = this.sight.me?.health === 0;
      this.until = isOut ? performance.now() + AWAY_MS : Number.POSITIVE_INFINITY;
    }
    this.whom = chosen.id;
    this.client.watch(chosen.id);
  }

  own(): void {
    if (this.whom === null) return;
    this.whom = null;
    this.client.watch(null);
  }

  /** After a break: in a new session the server knows of nobody, in one that went on of whom one watched before. */
  again(): void {
    this.client.watch(this.whom);
  }

  /** Whom to look at in this frame. */
  update(now: number): Seen | null {
    if (this.whom === null) return this.sight.me;
    if (now > this.until) {
      this.own();
      return this.sight.me;
    }
    const seen = this.sight.get(this.whom);
    // Whoever left is not watched any longer.
    if (!seen || !this.client.object(this.whom)) {
      this.own();
      return this.sight.me;
    }
    return seen;
  }
}
