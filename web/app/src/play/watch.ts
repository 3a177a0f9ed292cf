/** Watching team mates while one is out. The server allows nothing else, so the camera stays with one's own avatar. */

import { WATCH_AFTER_MS } from "./rules/weapons.js";
import type { ArenaClient, Seen, Sight } from "./sight.js";

export class Watch {
  /** Whose eyes one looks through; null: one's own. */
  whom: bigint | null = null;
  /** When one was first seen to be out, by the page's clock. */
  private fell: number | null = null;

  private now = 0;

  constructor(
    private readonly client: ArenaClient,
    private readonly sight: Sight,
  ) {}

  /** Whether the server lets one watch anybody now: one has been out for a while. */
  get isAllowed(): boolean {
    return this.fell !== null && this.now - this.fell >= WATCH_AFTER_MS;
  }

  toggle(): void {
    if (this.whom === null) this.next(1);
    else this.own();
  }

  /** The next mate who plays, or the one before. */
  next(by: 1 | -1): void {
    const team = this.sight.me?.team;
    if (!this.isAllowed) return;
    const others = this.sight.avatars
      .filter((seen) => seen.id !== this.client.avatar && seen.team === team && seen.health > 0)
      .sort((a, b) => a.player - b.player);
    if (others.length === 0) return;
    const at = others.findIndex((seen) => seen.id === this.whom);
    const next = at < 0 && by < 0 ? others.length - 1 : at + by;
    const chosen = others[(next + others.length) % others.length]!;
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
    this.now = now;
    const { me } = this.sight;
    // Whose own avatar is not known for a moment is not back for that.
    if (me !== null) this.fell = me.health === 0 ? (this.fell ?? now) : null;
    if (this.fell === null) this.own();
    if (this.whom === null) return me;
    const seen = this.sight.get(this.whom);
    // Whoever left is not watched any longer.
    if (!seen || !this.client.object(this.whom)) {
      this.own();
      return this.sight.me;
    }
    return seen;
  }
}
