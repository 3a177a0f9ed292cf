/** Regions and their servers: their state, and the operator's commands. */

import { h } from "../ui/dom.js";
import { milliseconds, percent } from "../ui/numbers.js";
import { sortedTable } from "../ui/table.js";
import type { Model } from "./model.js";
import type { Command, Region, RegionServerFigures } from "./protocol.js";

/** Rows of each table; the others are counted. */
const MAX_ROWS = 64;
/** Colours of servers by number; neighbouring ones differ in hue. */
const HUES = [0x3b82f6, 0xf59e0b, 0x10b981, 0xec4899, 0x8b5cf6, 0x14b8a6, 0xef4444, 0x84cc16] as const;

export function colourOf(server: number): number {
  return HUES[server % HUES.length]!;
}

/** The part of a region on the map, which is a square from the origin; null if there is none. */
export function onMap(rect: Region["rect"], side: number): [x: number, y: number, width: number, height: number] | null {
  const [x0, y0, x1, y1] = rect;
  const [left, top] = [Math.max(x0 ?? 0, 0), Math.max(y0 ?? 0, 0)];
  const [right, bottom] = [Math.min(x1 ?? side, side), Math.min(y1 ?? side, side)];
  return right > left && bottom > top ? [left, top, right - left, bottom - top] : null;
}

function count(value: number | null): string {
  return value === null ? "–" : String(value);
}

export interface RegionsPanel {
  element: HTMLElement;
  show: () => void;
  /** Called when a command was rejected. */
  refuse: (text: string) => void;
}

export function regionsPanel(model: Model, send: (command: Command) => void): RegionsPanel {
  let picked: number | null = null;
  let region: number | null = null;
  const servers = sortedTable<RegionServerFigures>({
    testid: "servers",
    id: (row) => row.server,
    limit: MAX_ROWS,
    onClick: (row) => {
      picked = row.server === picked ? null : row.server;
      show();
    },
    isPicked: (row) => row.server === picked,
    columns: [
      { title: "Server", text: (r) => `${r.server}${r.draining ? ", draining" : ""}`, key: (r) => r.server },
      { title: "Load", about: "Share of a round that work takes", text: (r) => (r.load === null ? "–" : percent(r.load)), key: (r) => r.load ?? -1 },
      { title: "RTT", text: (r) => (r.rtt_ms === null ? "–" : milliseconds(r.rtt_ms)), key: (r) => r.rtt_ms ?? -1 },
      { title: "Players", text: (r) => String(r.players), key: (r) => r.players },
    ],
  });
  const regions = sortedTable<Region>({
    testid: "regions",
    id: (row) => row.region,
    limit: MAX_ROWS,
    onClick: (row) => {
      region = row.region === region ? null : row.region;
      at.value = row.cut === null ? "" : String(row.cut.at);
      show();
    },
    isPicked: (row) => row.region === region,
    columns: [
      { title: "Region", text: (r) => `${r.region}${r.acting === false ? ", stopped" : ""}`, key: (r) => r.region },
      { title: "Server", text: (r) => String(r.server), key: (r) => r.server },
      { title: "Standby", text: (r) => (r.standby === null ? "none" : String(r.standby)), key: (r) => r.standby ?? -1 },
      { title: "Epoch", text: (r) => String(r.epoch), key: (r) => r.epoch },
      { title: "Owned", text: (r) => count(r.owned), key: (r) => r.owned ?? -1 },
      { title: "Ghosts", about: "Objects of neighbours", text: (r) => count(r.ghosts), key: (r) => r.ghosts ?? -1 },
      { title: "Leaving", text: (r) => count(r.leaving), key: (r) => r.leaving ?? -1 },
    ],
  });
  const drain = h("button", {
    type: "button",
    "data-testid": "drain",
    onclick: () => picked !== null && order({ type: "drain", server: picked }),
  });
  const at = h("input", { type: "number", step: "any", "aria-label": "New position of the cut", "data-testid": "cut" });
  const move = h("button", { type: "submit", "data-testid": "move-split" }, "Move");
  const cut = h(
    "form",
    {
      class: "actions",
      onsubmit: (event: Event) => {
        event.preventDefault();
        if (region !== null && Number.isFinite(at.valueAsNumber)) order({ type: "move-split", region, at: at.valueAsNumber });
      },
    },
    at,
    move,
  );
  const refused = h("p", { role: "alert", hidden: true, "data-testid": "regions-refused" });
  const none = h("p", { class: "soft" }, "This world is on one server.");
  const key = h("p", { class: "soft" }, "Tint: owner · edge: standby · ring: an object that went over");
  const body = h("div", {}, key, servers.element, h("div", { class: "actions" }, drain), regions.element, cut, refused);

  function order(command: Command): void {
    refused.hidden = true;
    send(command);
  }

  function show(): void {
    const told = model.regions;
    body.hidden = told === null;
    none.hidden = told !== null;
    if (told === null) return;
    const server = told.servers.find((row) => row.server === picked);
    drain.disabled = server === undefined || server.draining || told.servers.length < 2;
    drain.textContent = server === undefined ? "Drain a server" : `Drain server ${server.server}`;
    const chosen = told.regions.find((row) => row.region === region);
    move.disabled = at.disabled = chosen === undefined || chosen.cut === null;
    servers.show(told.servers);
    regions.show(told.regions);
  }

  function refuse(text: string): void {
    refused.hidden = false;
    refused.textContent = text;
  }

  show();
  return { element: h("div", { class: "observers", "data-testid": "regions-panel" }, none, body), show, refuse };
}
