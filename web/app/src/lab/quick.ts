/** A quick chart of any two columns. */

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { type Cleanup, h } from "../ui/dom.js";
import { onTheme } from "../ui/theme.js";
import { curves, type Rows } from "./rows.js";

const COLOURS = ["--accent", "--team-2", "--good", "--bad", "--warn", "--soft"];
/** More curves than this cannot be told apart. */
const MAX_CURVES = 12;

export function quickChart(rows: Rows, cleanup: Cleanup): HTMLElement {
  const area = h("div", { class: "area", "data-testid": "quick-chart" });
  const legend = h("p", { class: "legend" });
  const choose = (label: string, values: readonly string[], at: number): HTMLSelectElement =>
    h(
      "select",
      { "aria-label": label, onchange: () => draw() },
      ...values.map((value, index) => h("option", { value, selected: index === at }, value || "nothing")),
    );
  const x = choose("Along x", rows.numeric, 0);
  const y = choose("Along y", rows.numeric, Math.min(1, rows.numeric.length - 1));
  const by = choose("Parted by", ["", ...rows.names], Math.min(1, rows.names.length));
  let plot: uPlot | null = null;

  function draw(): void {
    plot?.destroy();
    plot = null;
    const all = curves(rows, x.value, y.value, by.value).slice(0, MAX_CURVES);
    const style = getComputedStyle(document.documentElement);
    const css = (name: string): string => style.getPropertyValue(name).trim();
    const colour = (index: number): string => css(COLOURS[index % COLOURS.length]!);
    legend.replaceChildren(
      ...all.map((curve, index) => h("span", {}, h("i", { style: `background: ${colour(index)}` }), curve.name)),
    );
    if (all.length === 0 || area.clientWidth === 0) return;
    const axis = {
      stroke: css("--soft"),
      font: "12px system-ui, sans-serif",
      grid: { stroke: css("--line"), width: 1 },
      ticks: { show: false },
    };
    plot = new uPlot(
      {
        width: area.clientWidth,
        height: area.clientHeight,
        legend: { show: false },
        scales: { x: { time: false } },
        axes: [
          { ...axis, label: x.value, labelFont: axis.font },
          { ...axis, size: 64, label: y.value, labelFont: axis.font },
        ],
        series: [
          {},
          ...all.map((_, index) => ({
            stroke: colour(index),
            width: 1.75,
            spanGaps: true,
            points: { show: true, size: 5, fill: colour(index) },
          })),
        ],
      },
      uPlot.join(all.map((curve) => columns(curve.points))),
      area,
    );
  }

  const resize = new ResizeObserver(() => draw());
  resize.observe(area);
  cleanup.add(() => {
    resize.disconnect();
    plot?.destroy();
  });
  cleanup.add(onTheme(draw));
  return h(
    "section",
    { class: "quick panel" },
    h("div", { class: "choose" }, y, h("span", { class: "soft" }, "over"), x, h("span", { class: "soft" }, "by"), by),
    area,
    legend,
  );
}

/** uPlot joins curves by x; of several values at one x the mean is drawn. */
function columns(points: readonly [number, number][]): uPlot.AlignedData {
  const means = new Map<number, { sum: number; count: number }>();
  for (const [x, y] of points) {
    const mean = means.get(x) ?? { sum: 0, count: 0 };
    mean.sum += y;
    mean.count += 1;
    means.set(x, mean);
  }
  return [[...means.keys()], [...means.values()].map((mean) => mean.sum / mean.count)];
}
