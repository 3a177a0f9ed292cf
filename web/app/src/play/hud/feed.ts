/** Recent events, line by line. */

import { h } from "../../ui/dom.js";

const MAX_LINES = 6;
const LIFE_MS = 6_000;

export class Feed {
  readonly element = h("ol", { class: "feed", "data-testid": "feed", "aria-live": "off" });

  /** Adds a line of text parts; parts with a team are coloured. */
  say(...parts: (string | { text: string; team: number })[]): void {
    const line = h(
      "li",
      {},
      ...parts.map((part) => (typeof part === "string" ? part : h("b", { class: `of-team-${part.team}` }, part.text))),
    );
    this.element.prepend(line);
    while (this.element.childElementCount > MAX_LINES) this.element.lastElementChild!.remove();
    setTimeout(() => line.remove(), LIFE_MS);
  }
}
