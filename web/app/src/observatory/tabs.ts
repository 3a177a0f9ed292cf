/** Tabs, as the keyboard expects them. */

import { h } from "../ui/dom.js";

export interface Tab {
  id: string;
  title: string;
  body: HTMLElement;
}

export function tabs(all: readonly Tab[]): HTMLElement {
  const buttons = all.map((tab, index) =>
    h(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${tab.id}`,
        "aria-controls": `panel-${tab.id}`,
        "data-testid": `tab-${tab.id}`,
        onclick: () => open(index),
      },
      tab.title,
    ),
  );
  const panels = all.map((tab) =>
    h("div", { role: "tabpanel", id: `panel-${tab.id}`, "aria-labelledby": `tab-${tab.id}` }, tab.body),
  );
  const list = h(
    "div",
    {
      role: "tablist",
      onkeydown: (event: KeyboardEvent) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (by === undefined) return;
        const now = buttons.findIndex((button) => button.getAttribute("aria-selected") === "true");
        const next = (now + by + all.length) % all.length;
        open(next);
        buttons[next]!.focus();
      },
    },
    ...buttons,
  );

  function open(index: number): void {
    buttons.forEach((button, at) => {
      button.setAttribute("aria-selected", String(at === index));
      button.tabIndex = at === index ? 0 : -1;
      panels[at]!.hidden = at !== index;
    });
  }

  open(0);
  return h("div", { class: "tabs" }, list, ...panels);
}
