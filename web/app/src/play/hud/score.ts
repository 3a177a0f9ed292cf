/** Points of both teams, and the time left. */

import { type ArenaFields, team } from "../../scene/arena.js";
import { h, setShown, setText } from "../../ui/dom.js";
import { clock } from "../../ui/numbers.js";
import { TEAMS } from "../teams.js";

/** The match's phase between two rounds, in which nothing counts. */
export const BREAK = 1;

export class ScoreBoard {
  readonly element: HTMLElement;
  readonly banner = h("div", { class: "banner", role: "status", hidden: true, "data-testid": "winner" });
  private readonly points = [h("b", { "data-testid": "score-1" }), h("b", { "data-testid": "score-2" })];
  private readonly time = h("span", { class: "time", "data-testid": "timer" });
  private readonly share = h("i");

  constructor(private readonly fields: ArenaFields) {
    const side = (index: 0 | 1): HTMLElement =>
      h("span", { class: `side team-${index + 1}` }, h("em", {}, TEAMS[index + 1]!), this.points[index]!);
    this.element = h(
      "div",
      { class: "score", "data-testid": "score", "aria-label": "Score" },
      h("div", { class: "line" }, side(0), this.time, side(1)),
      h("div", { class: "share" }, this.share),
    );
  }

  show(match: Int32Array | null, tick: number, hz: number): void {
    setShown(this.element, match !== null);
    setShown(this.banner, match !== null && this.fields.match.phase(match) === BREAK);
    if (!match) return;
    const { first, second, ends, phase, winner } = this.fields.match;
    const points = [first(match), second(match)] as const;
    points.forEach((value, index) => setText(this.points[index]!, String(value)));
    const left = ((ends(match) >>> 0) - tick) / hz;
    // The end of a new world's match is not known yet.
    const isSound = left < 3_600;
    setText(this.time, isSound ? clock(left) : "–");
    const total = points[0] + points[1];
    this.share.style.width = `${total === 0 ? 50 : (points[0] / total) * 100}%`;
    if (phase(match) !== BREAK) return;
    const who = team(winner(match));
    this.banner.dataset.team = String(who);
    const text = who === 0 ? "A draw" : `${TEAMS[who]} wins`;
    const next = `Next round in ${Math.max(0, Math.ceil(left))} s`;
    if (this.banner.childElementCount === 0) this.banner.append(h("b"), h("span"));
    setText(this.banner.children[0]!, text);
    setText(this.banner.children[1]!, next);
  }
}
