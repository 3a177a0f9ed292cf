/** Players' names: asked for once, and kept. */

/** Names that are kept; beyond, the oldest are forgotten. */
const MAX_NAMES = 4096;
/** Names asked for in a round at most. A server answers so much in a round and no more, and rounds may come in a bunch. */
const MAX_ASKED = 4;
/** Rounds after which a name that has not come is asked for again: whoever is not here may be back. */
const AGAIN = 200;

export class Names {
  /** A name that is empty has not come; it was asked for in this round. */
  private readonly known = new Map<number, { name: string; asked: number }>();
  /** To be asked for, in this order. */
  private readonly waiting = new Set<number>();
  private rounds = 0;
  private asked = 0;

  constructor(private readonly ask: (player: number) => void) {}

  /** The name, or empty until it has come. */
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

  /** A round has passed: some more may be asked for. */
  round(): void {
    this.rounds++;
    this.asked = 0;
    this.askSome();
  }

  /** A new link: what was under way is lost. In another session numbers are other players'. */
  restart(resumed: boolean): void {
    if (!resumed) {
      // The page asked for them once, and is told whose they are now.
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
