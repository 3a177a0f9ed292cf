/** Players' names: asked for once, and kept. */

/** Names that are kept; beyond, the oldest are forgotten. */
const MAX_NAMES = 4096;

export class Names {
  /** An empty name was asked for and has not come. */
  private readonly known = new Map<number, string>();

  constructor(private readonly ask: (player: number) => void) {}

  /** The name, or empty until it has come. */
  of(player: number): string {
    const name = this.known.get(player);
    if (name !== undefined) return name;
    this.learn(player, "");
    this.ask(player);
    return "";
  }

  learn(player: number, name: string): void {
    const oldest = this.known.keys().next();
    if (this.known.size >= MAX_NAMES && oldest.done !== true) this.known.delete(oldest.value);
    this.known.set(player, name);
  }

  /** A new link: what was under way is lost. */
  askAgain(): void {
    for (const [player, name] of this.known) if (name === "") this.ask(player);
  }
}
