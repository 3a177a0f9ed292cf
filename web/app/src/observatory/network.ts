/** Sliders for the picked player's link. */

import { h, setText } from "../ui/dom.js";
import type { Command } from "./protocol.js";

interface Slider {
  key: "delay_ms" | "jitter_ms" | "loss" | "burst";
  title: string;
  max: number;
  step: number;
  least: number;
  text: (value: number) => string;
}

const SLIDERS: readonly Slider[] = [
  { key: "delay_ms", title: "Delay", least: 0, max: 400, step: 5, text: (v) => `${v} ms each way` },
  { key: "jitter_ms", title: "Jitter", least: 0, max: 200, step: 5, text: (v) => `± ${v} ms` },
  { key: "loss", title: "Loss", least: 0, max: 0.4, step: 0.01, text: (v) => `${Math.round(v * 100)} %` },
  { key: "burst", title: "Burst", least: 1, max: 10, step: 0.5, text: (v) => `${v} in a row` },
];

/** Interval at which a dragged slider sends its value, in milliseconds. */
const PACE = 120;

export interface NetworkPanel {
  element: HTMLElement;
  setPicked: (player: number | null, name: string) => void;
}

export function network(send: (command: Command) => void): NetworkPanel {
  let picked: number | null = null;
  let timer: ReturnType<typeof setTimeout> | undefined;
  // The server does not send conditions back, so each player's are kept here as they were set.
  const set = new Map<number, number[]>();
  const inputs = SLIDERS.map((slider) =>
    h("input", {
      type: "range",
      min: slider.least,
      max: slider.max,
      step: slider.step,
      value: slider.least,
      "data-testid": `network-${slider.key}`,
      oninput: () => changed(),
    }),
  );
  const outputs = SLIDERS.map(() => h("output"));
  const whose = h("p", { class: "soft" });
  const clear = h(
    "button",
    {
      type: "button",
      "data-testid": "network-clear",
      onclick: () =>
        put(
          SLIDERS.map((s) => s.least),
          true,
        ),
    },
    "Undisturbed",
  );
  const element = h(
    "div",
    { class: "network", "data-testid": "network" },
    whose,
    ...SLIDERS.map((slider, index) =>
      h("label", { class: "row" }, h("span", {}, slider.title), inputs[index]!, outputs[index]!),
    ),
    h("div", { class: "actions" }, clear),
  );

  function label(): void {
    SLIDERS.forEach((slider, index) => {
      setText(outputs[index]!, slider.text(Number(inputs[index]!.value)));
    });
  }

  function changed(): void {
    label();
    if (timer !== undefined) return;
    timer = setTimeout(() => {
      timer = undefined;
      if (picked === null) return;
      const [delay_ms, jitter_ms, loss, burst] = inputs.map((input) => Number(input.value));
      set.set(picked, [delay_ms!, jitter_ms!, loss!, burst!]);
      send({
        type: "network",
        player: picked,
        delay_ms: delay_ms!,
        jitter_ms: jitter_ms!,
        loss: loss!,
        burst: burst!,
      });
    }, PACE);
  }

  function put(values: readonly number[], tell: boolean): void {
    inputs.forEach((input, index) => {
      input.value = String(values[index]);
    });
    if (tell) changed();
    else label();
  }

  function setPicked(player: number | null, name: string): void {
    if (player === picked && player !== null) return;
    picked = player;
    for (const control of [...inputs, clear]) control.disabled = player === null;
    setText(whose, player === null ? "Pick an observer to change its link." : `${name}’s link, both ways:`);
    put(set.get(player ?? -1) ?? SLIDERS.map((slider) => slider.least), false);
  }

  setPicked(null, "");
  return { element, setPicked };
}
