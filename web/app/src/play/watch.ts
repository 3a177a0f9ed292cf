/**
 * Watching team mates while the player is dead. The server allows nothing else, so the camera stays with the own avatar
 * otherwise.
 */

import { WATCH_AFTER_MS } from "./rules/weapons.js";
import type { ArenaClient, Seen, Sight } from "./sight.js";

export class Watch {
  /** The watched avatar; null for the own one. */
  whom: bigint | null = null;
  /** When the player was first seen to be dead, by the page's clock. */
  private fell: number | null = null;

  private now = 0;

  constructor(
    private readonly client: ArenaClient,
    private readonly sight: Sight,
  ) {}

  /** Whether the server allows watching now: the player has been dead for a while. */
  get isAllowed(): boolean {
    return this.fell !== null && this.now - this.fell >= WATCH_AFTER_MS;
  }

  toggle(): void {
    if (this.whom === null) this.next(1);
    else this.own();
  }

  /** Watches the next living team mate, or the previous one. */
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

  /**
   * After a reconnect: a new session does not know the watched player, and a resumed one still has the last one
   * requested.
   */
  again(): void {
    this.client.watch(this.whom);
  }

  /** The avatar to look at in this frame. */
  update(now: number): Seen | null {
    this.now = now;
    const { me } = this.sight;
    // If the own avatar is unknown for a moment, the player is not alive again.
    if (me !== null) this.fell = me.health === 0 ? (this.fell ?? now) : null;
    if (this.fell === null) this.own();
    if (this.whom === null) return me;
    const seen = this.sight.get(this.whom);
    // A player that left is no longer watched.
    if (!seen || !this.client.object(this.whom)) {
      this.own();
      return this.sight.me;
    }
    return seen;
  }
}
