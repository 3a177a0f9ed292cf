/** Watching others: by choice, or while one is out. */

import type { ArenaClient, Seen, Sight } from "./sight.js";

export class Watch {
  /** Whose eyes one looks through; null: one's own. */
  whom: bigint | null = null;
  /** It began because one was out, and ends when one is back. */
  private whileOut = false;

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
    if (this.whom === null) this.whileOut = this.sight.me?.health === 0;
    this.whom = chosen.id;
    this.client.watch(chosen.id);
  }

  own(): void {
    if (this.whom === null) return;
    this.whom = null;
    this.client.watch(null);
  }

  /** Whom to look at in this frame. */
  update(): Seen | null {
    if (this.whom === null) return this.sight.me;
    if (this.whileOut && (this.sight.me?.health ?? 0) > 0) {
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
