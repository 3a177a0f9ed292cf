/** Players' names, which are requested once and kept. */

/** Most names that are kept; the oldest are forgotten. */
const MAX_NAMES = 4096;
/** Most names requested in a round. A server answers only so many in a round, and rounds may come in bursts. */
const MAX_ASKED = 4;
/** Rounds after which a name that has not arrived is requested again, since the player may be back. */
const AGAIN = 200;

export class Names {
  /** An empty name has not arrived; `asked` is the round of the request. */
  private readonly known = new Map<number, { name: string; asked: number }>();
  /** Names to request, in this order. */
  private readonly waiting = new Set<number>();
  private rounds = 0;
  private asked = 0;

  constructor(private readonly ask: (player: number) => void) {}

  /** The name, or an empty string until it has arrived. */
  of(player: number): string {
    const known = this.known.get(player);
    if (known !== undefined && (known.name !== "" || this.rounds - known.asked < AGAIN)) return known.name;
    this.learn(player, "");
    this.waiting.add(player);
    this.askSome();
    return "";
  }

  learn(player: number, name: string): void {
    const oldest = this.known.keys().next();
    if (this.known.size >= MAX_NAMES && !this.known.has(player) && oldest.done !== true) {
      this.known.delete(oldest.value);
      this.waiting.delete(oldest.value);
    }
    this.known.set(player, { name, asked: this.rounds });
  }

  /** Starts a round: some more names may be requested. */
  round(): void {
    this.rounds++;
    this.asked = 0;
    this.askSome();
  }

  /** Restarts for a new link: requests in flight are lost. In another session the numbers belong to other players. */
  restart(resumed: boolean): void {
    if (!resumed) {
      // The page asked for these once, and is told their new names.
      for (const player of this.known.keys()) this.known.set(player, { name: "", asked: this.rounds });
    }
    for (const [player, { name }] of this.known) if (name === "") this.waiting.add(player);
    this.askSome();
  }

  private askSome(): void {
    for (const player of this.waiting) {
      if (this.asked >= MAX_ASKED) return;
      this.asked++;
      this.waiting.delete(player);
      this.ask(player);
    }
  }
}
