/** Small charts of the last minutes. */

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { type Cleanup, h, setText } from "../ui/dom.js";
import { bytes, degrees, percent } from "../ui/numbers.js";
import { onTheme } from "../ui/theme.js";
import { CAUSES, type Figures } from "./protocol.js";

interface Line {
  label: string;
  colour: string;
  of: (figures: Figures) => number | null;
  dash?: number[];
}

interface Spec {
  title: string;
  about: string;
  lines: Line[];
  format: (value: number) => string;
  log?: boolean;
  /** A share near one, with a scale that shows small differences from one. */
  isShare?: boolean;
}

const SPECS: readonly Spec[] = [
  {
    title: "Bytes a second",
    about: "Mean to each player, and what broadcast would take, measured on sampled players; logarithmic",
    log: true,
    format: bytes,
    lines: [
      { label: "sent", colour: "--accent", of: (f) => f.bytes_s || null },
      { label: "broadcast", colour: "--soft", dash: [5, 4], of: (f) => f.broadcast?.bytes_s || null },
    ],
  },
  {
    title: "Error",
    about: "Replica against truth, in degrees seen from the pivot",
    format: degrees,
    lines: [
      { label: "p50", colour: "--good", of: (f) => f.error_degrees_p50 },
      { label: "p95", colour: "--warn", of: (f) => f.error_degrees_p95 },
    ],
  },
  {
    title: "Bounds kept",
    about: "Share of pairs within their bounds, as scheduled",
    format: percent,
    isShare: true,
    lines: [{ label: "scheduled", colour: "--accent", of: (f) => f.bounds_kept }],
  },
  {
    title: "Coherence Δ",
    about: "How far apart players that see the same object believe it to be, in units; less is better",
    format: (units) => units.toFixed(units < 1 ? 2 : 1),
    lines: [{ label: "Δ, units", colour: "--good", of: (f) => f.coherence }],
  },
  {
    title: "Tick time",
    about: "What a round takes on the server, in milliseconds",
    format: (ms) => `${ms.toFixed(ms < 10 ? 1 : 0)} ms`,
    lines: [
      { label: "p50", colour: "--good", of: (f) => f.tick_ms_p50 },
      { label: "p99", colour: "--warn", of: (f) => f.tick_ms_p99 },
    ],
  },
  {
    title: "Why it was sent",
    about: "Updates a second by the bound that fired",
    format: (count) => (count >= 1_000 ? `${(count / 1_000).toFixed(1)}k` : count.toFixed(0)),
    lines: CAUSES.map((cause, index) => ({
      label: cause,
      colour: ["--soft", "--accent", "--good", "--team-2", "--bad"][index]!,
      of: (f: Figures) => f.fired[cause],
    })),
  },
];

export function charts(host: HTMLElement, cleanup: Cleanup): (past: readonly Figures[]) => void {
  const drawn = SPECS.map((spec) => chart(host, spec, cleanup));
  return (past) => {
    const last = past.at(-1);
    const times = past.map((_, index) => index - past.length + 1);
    for (const draw of drawn) draw(times, past, last);
  };
}

type Draw = (times: number[], past: readonly Figures[], last: Figures | undefined) => void;

function chart(host: HTMLElement, spec: Spec, cleanup: Cleanup): Draw {
  const values = spec.lines.map(() => h("b", {}));
  const legend = spec.lines.map((line, index) =>
    h("span", {}, h("i", { style: `background: var(${line.colour})` }), `${line.label} `, values[index]!),
  );
  const area = h("div", { class: "area" });
  const box = h(
    "section",
    { class: "chart panel", "data-testid": `chart-${slug(spec.title)}`, title: spec.about },
    h("h3", {}, spec.title),
    area,
    h("p", { class: "legend" }, ...legend),
  );
  host.append(box);
  let plot: uPlot | null = null;
  let data: uPlot.AlignedData = [[], ...spec.lines.map(() => [])] as unknown as uPlot.AlignedData;
  const make = (): void => {
    plot?.destroy();
    plot = new uPlot(options(spec, area), data, area);
  };
  make();
  const resize = new ResizeObserver(() => {
    plot?.setSize({ width: area.clientWidth, height: area.clientHeight });
  });
  resize.observe(area);
  cleanup.add(onTheme(make));
  cleanup.add(() => {
    resize.disconnect();
    plot?.destroy();
  });
  return (times, past, last) => {
    data = [times, ...spec.lines.map((line) => past.map(line.of))] as uPlot.AlignedData;
    plot?.setData(data);
    spec.lines.forEach((line, index) => {
      const value = last && line.of(last);
      setText(values[index]!, value === null || value === undefined ? "–" : spec.format(value));
    });
  };
}

function options(spec: Spec, area: HTMLElement): uPlot.Options {
  const style = getComputedStyle(document.documentElement);
  const css = (name: string): string => style.getPropertyValue(name).trim();
  const axis = {
    stroke: css("--soft"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: css("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width: Math.max(80, area.clientWidth),
    height: Math.max(60, area.clientHeight),
    legend: { show: false },
    cursor: { show: false },
    padding: [6, 16, 0, 0],
    scales: {
      x: { time: false, range: [-(60 * 3) + 1, 0] },
      y: {
        distr: spec.log ? 3 : 1,
        range: (_plot, least, greatest) =>
          spec.log ? decades(least, greatest) : spec.isShare ? nearOne(least) : padded(least, greatest),
      },
    },
    axes: [
      {
        ...axis,
        size: 20,
        space: 60,
        values: (_plot, splits) => splits.map((s) => (s === 0 ? "now" : `${s} s`)),
      },
      {
        ...axis,
        size: 54,
        space: 26,
        values: (_plot, splits) => splits.map((v) => (v === null ? "" : spec.format(v))),
      },
    ],
    series: [
      {},
      ...spec.lines.map((line) => ({
        stroke: css(line.colour),
        width: 1.75,
        points: { show: false },
        ...(line.dash ? { dash: line.dash } : {}),
      })),
    ],
  };
}

/** Whole decades, so that equal distances always mean equal factors. */
function decades(least: number | null, greatest: number | null): [number, number] {
  const low = 10 ** Math.floor(Math.log10(Math.max(1, least ?? 1)));
  return [low, Math.max(low * 10, 10 ** Math.ceil(Math.log10(Math.max(10, greatest ?? 10))))];
}

function nearOne(least: number | null): [number, number] {
  return [Math.max(0, Math.min(0.9, (least ?? 1) - 0.02)), 1];
}

function padded(least: number | null, greatest: number | null): [number, number] {
  const [low, high] = [Math.min(0, least ?? 0), Math.max(0, greatest ?? 1)];
  return [low, high > low ? high * 1.1 : low + 1];
}

const slug = (title: string): string => title.toLowerCase().replace(/[^a-z]+/g, "-");
