/** The live editor of views: presets, and all numbers of a view. */

import { h, setShown, setText } from "../ui/dom.js";
import type { Bound, Command, PolicyName, References, SetName, View } from "./protocol.js";
import { checked, emptyCell, KEYS, POLICIES, type Key } from "./view.js";

interface Preset {
  name: string;
  view: View;
}

export interface Editor {
  element: HTMLElement;
  setPresets: (presets: readonly Preset[], references: References) => void;
  /** Sets the picked player; its view is shown unless the operator is editing. */
  setPicked: (player: number | null, name: string, view: View | null) => void;
  showError: (text: string) => void;
}

export function editor(send: (command: Command) => void): Editor {
  return new Form(send);
}

class Form implements Editor {
  readonly element: HTMLElement;
  private view: View = { policy: "broadcast" };
  private picked: number | null = null;
  /** The operator is editing: the server's view no longer replaces the form. */
  private edited = false;
  private applied = "";
  private offered: readonly Preset[] = [];
  private references: References = { policies: [], walls: false, kinds: [] };
  private readonly presets = h("div", { class: "presets", role: "group", "aria-label": "Presets" });
  private readonly body = h("div", { class: "fields" });
  private readonly error = h("p", { class: "bad", role: "alert", hidden: true, "data-testid": "editor-error" });
  private readonly done = h("p", { class: "soft", role: "status", "data-testid": "editor-status" });
  private readonly toAll = radio("to", "all", "all players", true);
  private readonly toOne = radio("to", "one", "no player selected", false);
  private readonly oneName: Text;
  private readonly budget = h("input", {
    type: "number",
    min: 0,
    step: 1000,
    placeholder: "no limit",
    "data-testid": "editor-budget",
    "aria-label": "Budget in bytes a second",
  });

  constructor(private readonly send: (command: Command) => void) {
    this.oneName = this.toOne.label.lastChild as Text;
    this.toOne.input.disabled = true;
    const apply = h("button", { class: "primary", type: "submit", "data-testid": "editor-apply" }, "Apply");
    const own = h(
      "button",
      { type: "button", "data-testid": "editor-reset", onclick: () => this.apply(null) },
      "The game’s own",
    );
    this.element = h(
      "form",
      { class: "editor", "data-testid": "editor" },
      this.presets,
      this.body,
      h("label", { class: "row" }, h("span", {}, "Budget, bytes/s"), this.budget),
      h("fieldset", { class: "target" }, h("legend", {}, "Apply to"), this.toAll.label, this.toOne.label),
      h("div", { class: "actions" }, apply, own),
      this.error,
      this.done,
    );
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.apply(this.view);
    });
    this.element.addEventListener("input", () => {
      this.edited = true;
    });
    this.draw();
  }

  setPresets(presets: readonly Preset[], references: References): void {
    this.offered = presets;
    this.references = references;
    this.presets.replaceChildren(
      ...presets.map(({ name, view }) =>
        h(
          "button",
          {
            type: "button",
            "data-testid": `preset-${name}`,
            onclick: () => {
              this.view = structuredClone(view);
              this.draw();
              this.apply(this.view);
            },
          },
          name,
        ),
      ),
    );
  }

  setPicked(player: number | null, name: string, view: View | null): void {
    if (player !== this.picked) {
      this.edited = false;
      this.toOne.input.disabled = player === null;
      if (player === null) this.toAll.input.checked = true;
      this.oneName.data = player === null ? "no player selected" : name;
    }
    this.picked = player;
    const key = JSON.stringify(view);
    if (!view || this.edited || key === this.applied) return;
    this.applied = key;
    this.view = structuredClone(view);
    this.draw();
  }

  showError(text: string): void {
    setText(this.error, text);
    setShown(this.error, text !== "");
    if (text !== "") setText(this.done, "");
  }

  private apply(view: View | null): void {
    const found = view && checked(view);
    if (found && "wrong" in found) {
      this.showError(found.wrong);
      return;
    }
    this.showError("");
    const player = this.toOne.input.checked ? this.picked : null;
    this.send({ type: "view", player, view: found ? found.view : null });
    const budget = this.budget.value === "" ? null : Number(this.budget.value);
    this.send({ type: "budget", player, bytes_s: budget });
    this.edited = false;
    setText(
      this.done,
      `${view ? view.policy : "the game’s own"}, for ${player === null ? "all players" : this.oneName.data}`,
    );
  }

  private draw(): void {
    const policy = h(
      "select",
      {
        "data-testid": "editor-policy",
        onchange: (event: Event) => {
          const chosen = (event.target as HTMLSelectElement).value as PolicyName;
          this.view = { ...this.view, policy: chosen };
          this.draw();
        },
      },
      ...Object.keys(POLICIES)
        .filter((name) => name !== "custom" || this.references.policies.length > 0 || this.view.policy === "custom")
        .map((name) => h("option", { value: name, selected: name === this.view.policy }, name)),
    );
    const rows: HTMLElement[] = [h("label", { class: "row" }, h("span", {}, "Policy"), policy)];
    for (const key of POLICIES[this.view.policy]) rows.push(this.number(key));
    if (this.view.policy === "vfc") rows.push(this.list("zones"), this.list("fields"), this.kappa());
    if (this.view.policy === "custom") rows.push(this.customName());
    rows.push(this.number("floor_degrees"), this.number("inner_facing"), this.number("interaction_boost"));
    if (this.references.walls) rows.push(this.lineOfSight());
    rows.push(this.sets());
    this.body.replaceChildren(...rows);
  }

  private customName(): HTMLElement {
    const names = this.references.policies;
    const chosen = this.view.custom ?? names[0];
    if (chosen !== undefined) this.view.custom = chosen;
    return h("label", { class: "row" }, h("span", {}, "The game’s policy"), select(names, chosen ?? "", "editor-custom", (name) => {
      this.view.custom = name;
    }));
  }

  /** What walls do to hidden objects: nothing, looser bounds, or nothing is sent. */
  private lineOfSight(): HTMLElement {
    const { line_of_sight: now } = this.view;
    const choices = ["ignore walls", "hidden is looser", "hidden is not told"];
    const chosen = !now ? choices[0] : now.looser === undefined ? choices[2] : choices[1];
    const always = now?.always ?? 8;
    const list = select(choices, chosen ?? "", "editor-line_of_sight", (choice) => {
      if (choice === choices[0]) delete this.view.line_of_sight;
      else this.view.line_of_sight = choice === choices[1] ? { looser: 4, always } : { always };
      this.edited = true;
      this.draw();
    });
    return h("label", { class: "row", title: "Past the game’s walls" }, h("span", {}, "Line of sight"), list);
  }

  /** Other views for some objects, each one of the presets. */
  private sets(): HTMLElement {
    const sets = this.view.sets ?? [];
    const redraw = (next: typeof sets): void => {
      this.view.sets = next;
      this.edited = true;
      this.draw();
    };
    const names = ["team", "others", ...this.references.kinds.map((kind) => `kind ${kind}`)];
    const rows = sets.map((set, index) => {
      const plain = JSON.stringify(set.view);
      const preset = this.offered.find(({ view }) => JSON.stringify(withoutSets(view)) === plain)?.name;
      const views = [...(preset === undefined ? ["as it is"] : []), ...this.offered.map(({ name }) => name)];
      return h(
        "div",
        {},
        select(names, setTitle(set.of), `editor-set-${index}`, (name) => {
          redraw(sets.map((old, at) => (at === index ? { ...old, of: setName(name) } : old)));
        }),
        select(views, preset ?? "as it is", `editor-set-view-${index}`, (name) => {
          const view = this.offered.find((offered) => offered.name === name)?.view;
          if (view) redraw(sets.map((old, at) => (at === index ? { ...old, view: withoutSets(view) } : old)));
        }),
        h(
          "button",
          { type: "button", "aria-label": "Remove this set", onclick: () => redraw(sets.filter((_, at) => at !== index)) },
          "−",
        ),
      );
    });
    const first = this.offered[0]?.view;
    const add = (): void => {
      if (first) redraw([...sets, { of: "team", view: withoutSets(first) }]);
    };
    const more = h("button", { type: "button", "data-testid": "editor-add-set", onclick: add }, "+");
    return h("div", { class: "row list" }, h("span", {}, "Other views for"), h("div", {}, ...rows, more));
  }

  private number(key: Key): HTMLElement {
    const { title, about, step } = KEYS[key];
    const input = h("input", {
      type: "number",
      min: 0,
      step,
      value: this.view[key] ?? "",
      "data-testid": `editor-${key}`,
      oninput: (event: Event) => {
        const { value } = event.target as HTMLInputElement;
        if (value === "") delete this.view[key];
        else this.view[key] = Number(value);
      },
    });
    return h("label", { class: "row", title: about }, h("span", {}, title), input);
  }

  /** Zones or fields: a number for each, with an open last one. */
  private list(key: "zones" | "fields"): HTMLElement {
    const values: (number | null)[] = this.view[key] ?? [];
    const set = (next: (number | null)[]): void => {
      if (key === "zones") this.view.zones = next;
      else this.view.fields = next.map((value) => value ?? 360);
      this.fitKappa();
      this.edited = true;
      this.draw();
    };
    const inputs = values.map((value, index) =>
      h("input", {
        type: "text",
        inputmode: "decimal",
        value: value ?? "∞",
        "aria-label": `${key} ${index + 1}`,
        "data-testid": `editor-${key}-${index}`,
        onchange: (event: Event) => {
          const text = (event.target as HTMLInputElement).value.trim();
          const number = Number(text.replace(",", "."));
          const isInfinite = text === "∞" || text === "" || text === "inf";
          set(values.map((old, at) => (at === index ? (isInfinite ? null : number) : old)));
        },
      }),
    );
    const last = values.at(-1);
    const title = key === "zones" ? "Zones, units" : "Fields, degrees";
    const add = (): void => set([...values.slice(0, -1), middle(values), last ?? null]);
    const less = (): void => set([...values.slice(0, -2), last ?? null]);
    return h(
      "div",
      { class: "row list" },
      h("span", {}, title),
      h(
        "div",
        {},
        ...inputs,
        h("button", { type: "button", onclick: add, "aria-label": `One more of ${key}` }, "+"),
        h(
          "button",
          { type: "button", onclick: less, disabled: values.length < 2, "aria-label": `One less of ${key}` },
          "−",
        ),
      ),
    );
  }

  private fitKappa(): void {
    const old = this.view.kappa ?? [];
    this.view.kappa = (this.view.zones ?? []).map((_, zone) =>
      (this.view.fields ?? []).map((_, field) => {
        const row = old[Math.min(zone, old.length - 1)];
        return { ...(row?.[Math.min(field, row.length - 1)] ?? emptyCell()) };
      }),
    );
  }

  /** A cell for each zone and field: θ, σ, ν in units, ν as a share. */
  private kappa(): HTMLElement {
    const { zones = [], fields = [], kappa = [] } = this.view;
    const head = h("tr", {}, h("th", {}, "κ"), ...fields.map((angle) => h("th", {}, `${angle}°`)));
    const rows = zones.map((radius, zone) =>
      h(
        "tr",
        {},
        h("th", {}, `≤ ${radius ?? "∞"}`),
        ...fields.map((_, field) => h("td", {}, this.cell(kappa[zone]?.[field], zone, field))),
      ),
    );
    return h(
      "div",
      { class: "kappa" },
      h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows)),
      h("p", { class: "soft" }, "θ in ms, σ missed, ν in units, ν in % of the distance; empty: no bound"),
    );
  }

  private cell(bound: Bound | undefined, zone: number, field: number): HTMLElement {
    const input = (key: keyof Bound, symbol: string, factor: number): HTMLElement =>
      h(
        "label",
        {},
        h("span", {}, symbol),
        h("input", {
          type: "number",
          min: 0,
          step: "any",
          value: bound?.[key] === undefined ? "" : round(bound[key] * factor),
          "data-testid": `kappa-${zone}-${field}-${key}`,
          "aria-label": `${key}, zone ${zone + 1}, field ${field + 1}`,
          oninput: (event: Event) => {
            const { value } = event.target as HTMLInputElement;
            const cell = this.view.kappa?.[zone]?.[field];
            if (!cell) return;
            if (value === "") delete cell[key];
            else cell[key] = Number(value) / factor;
          },
        }),
      );
    return h(
      "div",
      { class: "bounds" },
      input("age_ms", "θ", 1),
      input("missed", "σ", 1),
      input("error", "ν", 1),
      input("share", "%", 100),
    );
  }
}

/** A view as part of another one, without sets and boost. */
function withoutSets(view: View): View {
  const { sets: _sets, interaction_boost: _boost, ...rest } = view;
  return structuredClone(rest);
}

const setTitle = (name: SetName): string => (typeof name === "string" ? name : `kind ${name.kind}`);

const setName = (title: string): SetName =>
  title === "team" || title === "others" ? title : { kind: title.slice("kind ".length) };

function select(
  names: readonly string[],
  chosen: string,
  testid: string,
  choose: (name: string) => void,
): HTMLElement {
  return h(
    "select",
    { "data-testid": testid, onchange: (event: Event) => choose((event.target as HTMLSelectElement).value) },
    ...names.map((name) => h("option", { value: name, selected: name === chosen }, name)),
  );
}

const round = (value: number): number => Number(value.toPrecision(5));

/** A value between the last two, so that the row keeps rising. */
function middle(values: readonly (number | null)[]): number {
  const [before, last] = [values.at(-2) ?? 0, values.at(-1) ?? null];
  return Math.round(last === null ? Math.max(10, before * 2) : (before + last) / 2);
}

function radio(
  name: string,
  value: string,
  text: string,
  isChecked: boolean,
): { label: HTMLElement; input: HTMLInputElement } {
  const input = h("input", {
    type: "radio",
    name,
    value,
    checked: isChecked,
    "data-testid": `editor-to-${value}`,
  });
  return { input, label: h("label", {}, input, " ", text) };
}
