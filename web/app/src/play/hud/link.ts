/** The state of the link: transport, round trip, bytes per second, loss. */

import type { Stats } from "@foveate/client";
import { h, setText } from "../../ui/dom.js";
import { bytes } from "../../ui/numbers.js";

const TRANSPORTS: Record<string, string> = {
  webtransport: "WebTransport",
  websocket: "WebSocket",
};

/** The time over which bytes per second are measured, in milliseconds. */
const SPAN = 1_000;

export class LinkPanel {
  readonly element: HTMLElement;
  /** Bytes per second down and up, in the last complete span. */
  down = 0;
  up = 0;
  private readonly dot = h("i");
  private readonly text = h("span");
  private last: { at: number; down: number; up: number } | null = null;

  constructor() {
    this.element = h(
      "div",
      { class: "link", "data-testid": "link", title: "Transport, round trip, bytes a second down, loss" },
      this.dot,
      this.text,
    );
  }

  show(stats: Readonly<Stats>, now: number): void {
    const last = this.last;
    if (!last || now - last.at >= SPAN) {
      if (last) {
        const seconds = (now - last.at) / 1_000;
        this.down = (stats.bytesDown - last.down) / seconds;
        this.up = (stats.bytesUp - last.up) / seconds;
      }
      this.last = { at: now, down: stats.bytesDown, up: stats.bytesUp };
    }
    const known = Number.isFinite(stats.rtt);
    this.dot.dataset.health = !known
      ? "unknown"
      : stats.rtt > 200 || stats.loss > 0.1
        ? "bad"
        : stats.rtt > 100 || stats.loss > 0.02
          ? "warn"
          : "good";
    const facts = [
      TRANSPORTS[stats.transport] ?? "no link",
      known ? `${Math.round(stats.rtt)} ms` : "– ms",
      `${bytes(this.down)}/s`,
    ];
    if (stats.loss >= 0.005) facts.push(`${(stats.loss * 100).toFixed(1)} % lost`);
    setText(this.text, facts.join(" · "));
  }
}
