/** The player's own state: health, weapons with their cooldown, items, the unit. */

import { h, setShown, setText } from "../../ui/dom.js";
import { HELD, type Held, MAKES } from "../rules/weapons.js";

export interface BodyFacts {
  health: number;
  weapon: Held;
  /** 0: just fired; 1: ready. */
  ready: number;
  team: string;
  score: number;
  kills: number;
  deaths: number;
  /** Items held, each with the seconds left. */
  items: { isShield: boolean; left: number }[];
  /** The unit's activity; null without a unit. */
  unit: string | null;
}

export interface BodyActions {
  pick: (weapon: Held) => void;
  unit: () => void;
}

export class BodyPanel {
  readonly element: HTMLElement;
  private readonly health = h("b", { "data-testid": "health" });
  private readonly bar = h("i");
  private readonly slots: HTMLElement[];
  private readonly sweeps: HTMLElement[];
  private readonly items = h("span", { class: "items", "data-testid": "items" });
  private readonly record = h("span", { class: "record", "data-testid": "record" });
  private readonly unit: HTMLElement;

  constructor(actions: BodyActions) {
    this.sweeps = HELD.map(() => h("i"));
    this.slots = HELD.map((weapon, index) =>
      h(
        "button",
        {
          type: "button",
          class: "slot",
          title: `${MAKES[weapon].title}: ${MAKES[weapon].about}, carries ${MAKES[weapon].reach}`,
          "data-testid": `weapon-${weapon}`,
          onclick: () => actions.pick(weapon),
        },
        this.sweeps[index]!,
        h("kbd", {}, String(index + 1)),
        h("span", {}, MAKES[weapon].title),
      ),
    );
    this.unit = h("button", {
      type: "button",
      class: "slot unit",
      title: "Your unit: C to command it, T to take it over",
      "data-testid": "unit",
      onclick: actions.unit,
    });
    this.element = h(
      "div",
      { class: "body", "data-testid": "body" },
      h("div", { class: "health" }, this.health, h("div", { class: "bar" }, this.bar), this.record),
      h("div", { class: "slots" }, ...this.slots, this.unit),
      this.items,
    );
  }

  show(facts: BodyFacts | null): void {
    setShown(this.element, facts !== null);
    if (!facts) return;
    setText(this.health, String(facts.health));
    this.bar.style.width = `${facts.health}%`;
    this.bar.dataset.level = facts.health > 60 ? "good" : facts.health > 30 ? "warn" : "bad";
    this.slots.forEach((slot, index) => {
      const isHeld = HELD[index] === facts.weapon;
      slot.classList.toggle("held", isHeld);
      this.sweeps[index]!.style.width = isHeld ? `${facts.ready * 100}%` : "0";
    });
    setText(this.record, `${facts.team} · ${facts.score} pts · ${facts.kills} / ${facts.deaths}`);
    setShown(this.unit, facts.unit !== null);
    setText(this.unit, `Unit: ${facts.unit ?? ""}`);
    const held = facts.items.map(({ isShield, left }) => `${isShield ? "Shield" : "Blade"} ${Math.ceil(left)} s`);
    setText(this.items, held.join(" · "));
    setShown(this.items, held.length > 0);
  }
}
