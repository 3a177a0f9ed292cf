/** Messages across the screen: reconnecting, refused, dead, watching, help. */

import type { ClientState, Refusal } from "@foveate/client";
import { h, setShown, setText } from "../../ui/dom.js";

export interface OverlayActions {
  /** Watches the next player, or the previous one. */
  next: (by: 1 | -1) => void;
  /** Shows the own avatar again. */
  own: () => void;
}

/** Texts for refusals. */
const REFUSED: Record<string, string> = {
  version: "This page and the server speak different versions. Reload the page.",
  schema: "This page was made for another version of the game. Reload the page.",
  token: "The server asks for an invitation, and this one is not valid.",
  "token-expired": "The invitation has expired.",
  "token-replayed": "The invitation has been used already.",
  name: "The server does not accept this name.",
  "name-taken": "This name is taken. Are you playing in another tab?",
  full: "The server is full. Try again in a moment.",
  malformed: "The server could not understand this page. Reload it.",
  timeout: "The connection timed out: the server received nothing from this page for too long.",
  closing: "The server is shutting down.",
  storage: "The server cannot reach its storage. Try again in a moment.",
  "token-clock": "The invitation is not valid yet: the clock of the service that issued it is ahead of the server's.",
  "handshake-timeout": "The connection timed out before this page could join.",
};

export class Overlay {
  readonly element: HTMLElement;
  private readonly link = h("div", { class: "reconnect", role: "alert", hidden: true, "data-testid": "reconnecting" });
  private readonly dead = h(
    "div",
    { class: "dead", role: "status", hidden: true, "data-testid": "dead" },
    h("b"),
    h("span"),
  );
  private readonly watch: HTMLElement;
  private readonly whom = h("b", { "data-testid": "watching" });
  private readonly hurt = h("div", { class: "hurt" });
  private readonly hit = h("div", { class: "hit", "aria-hidden": "true" });
  private readonly help: HTMLElement;

  constructor(actions: OverlayActions) {
    this.watch = h(
      "div",
      { class: "watch", hidden: true },
      h(
        "button",
        {
          type: "button",
          "data-testid": "watch-previous",
          "aria-label": "The one before",
          onclick: () => actions.next(-1),
        },
        "‹",
      ),
      h("span", {}, "Watching ", this.whom),
      h(
        "button",
        { type: "button", "data-testid": "watch-next", "aria-label": "The next", onclick: () => actions.next(1) },
        "›",
      ),
      h("button", { type: "button", class: "primary", "data-testid": "watch-own", onclick: actions.own }, "Play on"),
    );
    this.help = help();
    this.element = h("div", { class: "overlay" }, this.hurt, this.hit, this.link, this.dead, this.watch, this.help);
  }

  showLink(state: ClientState): void {
    setShown(this.link, state === "reconnecting");
    setText(this.link, "The link broke. Reconnecting …");
  }

  /** Shows that the player is dead: the killer, and the seconds left. */
  showDead(dead: { by: string; left: number } | null): void {
    setShown(this.dead, dead !== null);
    if (!dead) return;
    setText(this.dead.children[0]!, dead.by === "" ? "You are out" : `Shot by ${dead.by}`);
    setText(this.dead.children[1]!, `Back in ${Math.max(0, dead.left).toFixed(1)} s`);
  }

  showWatching(name: string | null): void {
    setShown(this.watch, name !== null);
    if (name !== null) setText(this.whom, name);
  }

  flashHurt(): void {
    restart(this.hurt);
  }

  /** Shows that the server reported a hit of the player's shot. */
  flashHit(x: number, y: number): void {
    this.hit.style.left = `${x}px`;
    this.hit.style.top = `${y}px`;
    restart(this.hit);
  }

  toggleHelp(): void {
    setShown(this.help, this.help.hidden);
  }
}

/** The text for a refusal. */
export function refusalText(refusal: Refusal | null): string {
  if (!refusal) return "The server closed the link.";
  const known = REFUSED[refusal.why];
  return known ? `${known}${refusal.text ? ` (${refusal.text})` : ""}` : refusal.text;
}

/** Restarts an element's animation. */
function restart(element: HTMLElement): void {
  element.classList.remove("run");
  void element.offsetWidth;
  element.classList.add("run");
}

export const KEYS: readonly (readonly [string, string])[] = [
  ["W A S D", "walk"],
  ["Mouse", "aim"],
  ["Click or Space", "fire"],
  ["1 2 3 or wheel", "weapon"],
  ["Z or right button", "zoom: see farther ahead"],
  ["C", "command: select units, right click to send"],
  ["G F H", "unit: go to the pointer, follow, stay"],
  ["T", "take over the unit, and back"],
  ["X", "drop what you hold"],
  ["V, then Q E", "watch others"],
];

function help(): HTMLElement {
  return h("div", { class: "help panel", hidden: true, "data-testid": "help" }, h("h2", {}, "Keys"), keyList());
}

export function keyList(): HTMLElement {
  return h(
    "dl",
    { class: "keys" },
    ...KEYS.flatMap(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]),
  );
}
