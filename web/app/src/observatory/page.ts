/** The observatory: one channel, one model, and the parts that show it. */

import "../style/observatory.css";
import { Schema } from "@foveate/client";
import { parseArena } from "@foveate/client/arena";
import { ArenaFields, type Glance } from "../scene/arena.js";
import { mapShape } from "../scene/document.js";
import type { MapShape } from "../scene/ground.js";
import { Cleanup, h, setShown, setText } from "../ui/dom.js";
import { bytes, degrees, milliseconds, percent } from "../ui/numbers.js";
import { sortedTable } from "../ui/table.js";
import { Channel, type ChannelState } from "./channel.js";
import { charts } from "./charts.js";
import { editor } from "./editor.js";
import { observatoryMap, type ObservatoryMap } from "./map.js";
import { lessThanBroadcast, Model } from "./model.js";
import { network } from "./network.js";
import { regionsPanel } from "./regions.js";
import type { Command, FromServer, Hello, ObserverFigures } from "./protocol.js";
import { css, SHADES, shadeName } from "./staleness.js";
import { tabs } from "./tabs.js";

/** Rows of the table of observers; the others are counted. */
const MAX_ROWS = 200;

export function mount(page: HTMLElement, cleanup: Cleanup): void {
  const model = new Model();
  const send = (command: Command): void => channel.send(command);
  const parts = build(model, send, (player) => pick(player));
  page.append(parts.root);
  const drawCharts = charts(parts.charts, cleanup);
  let map: ObservatoryMap | null = null;

  function pick(player: number | null): void {
    model.pick(player);
    send({ type: "pick", player });
    showPicked();
  }

  function showPicked(): void {
    const { picked, observer } = model;
    const name = picked === null ? "" : model.nameOf(picked);
    parts.editor.setPicked(picked, name, observer?.view ?? null);
    parts.network.setPicked(picked, name);
    parts.showPicked();
  }

  function take(message: FromServer): void {
    model.apply(message, performance.now());
    switch (message.type) {
      case "hello":
        parts.editor.setPresets(message.presets, message);
        // After a reconnect the server does not know the picked player.
        if (model.picked !== null) send({ type: "pick", player: model.picked });
        break;
      case "world":
        // The first message of a world: its size must be known before it can be drawn.
        if (model.hello) void draw(model.hello);
        break;
      case "players":
        if (model.picked !== null && !model.players.has(model.picked)) pick(null);
        parts.showTable();
        break;
      case "observer":
        showPicked();
        break;
      case "figures":
        drawCharts(model.past);
        parts.showFigures();
        parts.showTable();
        break;
      case "regions":
        parts.showRegions();
        break;
      case "error":
        if (message.about === "drain" || message.about === "move-split") parts.showRefused(message.text);
        else parts.editor.showError(message.text);
        break;
      default:
        break;
    }
  }

  let drawing: Hello | null = null;
  let drawn = new Cleanup();
  cleanup.add(() => drawn.run());
  async function draw(hello: Hello): Promise<void> {
    if (hello === drawing) return;
    // A server that came back with the same world needs no new picture.
    const isSame = JSON.stringify(hello.document) === JSON.stringify(drawing?.document);
    drawing = hello;
    if (isSame) return;
    drawn.run();
    drawn = new Cleanup();
    const { shape, glance } = gameOf(hello, model);
    map = await observatoryMap(parts.map, { model, shape, glance, onPick: pick }, drawn);
    parts.fit.onclick = () => map?.fit();
    parts.follow.onclick = () => map?.follow(true);
  }

  const channel = new Channel(take, (state, why) => parts.showState(state, why, (token) => channel.useToken(token)));
  cleanup.add(() => channel.close());
  window.foveate = {
    page: "observatory",
    get state() {
      return channel.state;
    },
    get received() {
      return channel.received;
    },
    get picked() {
      return model.picked;
    },
    get drawn() {
      return map?.drawn() ?? null;
    },
    get view() {
      return model.observer?.view ?? null;
    },
    get figures() {
      return model.figures;
    },
  };
  cleanup.add(() => delete window.foveate);
}

function build(model: Model, send: (command: Command) => void, pick: (player: number | null) => void) {
  const mapHost = h("div", { class: "map", "data-testid": "observatory-map" });
  const headline = h("div", { class: "headline", "data-testid": "headline" });
  const chosen = h("div", { class: "chosen panel", hidden: true, "data-testid": "picked" });
  const fit = h("button", { type: "button", "data-testid": "fit" }, "Whole map");
  const follow = h("button", { type: "button", disabled: true, "data-testid": "follow" }, "Follow");
  const cover = h("div", { class: "cover", role: "status", "data-testid": "observatory-state" });
  const chartHost = h("div", { class: "charts" });
  const theEditor = editor(send);
  const theNetwork = network(send);
  const observers = table(model, pick);
  const regions = regionsPanel(model, send);
  const side = tabs([
    { id: "observers", title: "Observers", body: observers.element },
    { id: "regions", title: "Regions", body: regions.element },
    { id: "view", title: "View", body: theEditor.element },
    { id: "network", title: "Network", body: theNetwork.element },
  ]);
  const root = h(
    "div",
    { class: "layout" },
    h("div", { class: "scene" }, mapHost, headline, chosen, h("div", { class: "tools" }, follow, fit), legend(), cover),
    chartHost,
    h("aside", { class: "side" }, side),
  );
  return {
    root,
    map: mapHost,
    charts: chartHost,
    editor: theEditor,
    network: theNetwork,
    fit,
    follow,
    showTable: () => observers.show(),
    showRegions: () => regions.show(),
    showRefused: (text: string) => regions.refuse(text),
    showFigures: () => showHeadline(headline, model),
    showPicked: () => {
      follow.disabled = model.picked === null;
      showChosen(chosen, model);
    },
    showState: (state: ChannelState, why: string, useToken: (token: string) => void) => {
      showCover(cover, state, why, useToken);
    },
  };
}

/** The arena with its walls and teams; for any other game only positions. */
function gameOf(hello: Hello, model: Model): { shape: MapShape; glance: (id: string, kind: number) => Glance } {
  if (hello.document === null) {
    const far = [...model.truth.values()].flatMap(({ x, y }) => [x, y]);
    const side = Math.ceil(Math.max(100, ...far) / 50) * 50;
    return { shape: { side, obstacles: [] }, glance: () => ({ team: 0, alive: true, shield: false }) };
  }
  const fields = new ArenaFields(Schema.parse(hello.schema));
  return {
    shape: mapShape(parseArena(hello.document)),
    glance: (id, kind) => fields.glance(kind, model.lanes.get(id)),
  };
}

function table(model: Model, pick: (player: number | null) => void): { element: HTMLElement; show: () => void } {
  const filter = h("input", {
    type: "search",
    placeholder: "Find by name",
    "data-testid": "find",
    "aria-label": "Find by name",
    oninput: () => show(),
  });
  const rows = sortedTable<ObserverFigures>({
    testid: "observers",
    id: (row) => row.player,
    limit: MAX_ROWS,
    sorted: { column: 1, descending: true },
    onClick: (row) => pick(row.player === model.picked ? null : row.player),
    isPicked: (row) => row.player === model.picked,
    columns: [
      { title: "Observer", text: (r) => model.nameOf(r.player), key: (r) => model.nameOf(r.player) },
      { title: "Bytes/s", about: "States only", text: (r) => bytes(r.bytes_s), key: (r) => r.bytes_s },
      { title: "Error p95", text: (r) => degrees(r.error_degrees_p95), key: (r) => r.error_degrees_p95 },
      { title: "RTT", text: (r) => milliseconds(r.rtt_ms), key: (r) => r.rtt_ms },
      { title: "Kept", about: "Bounds kept", text: (r) => percent(r.bounds_kept), key: (r) => r.bounds_kept },
      { title: "Upd/s", text: (r) => r.updates_s.toFixed(0), key: (r) => r.updates_s },
      { title: "Pairs", text: (r) => String(r.pairs), key: (r) => r.pairs },
      {
        title: "Link/s",
        about: "With everything that the transport adds",
        text: (r) => bytes(r.link_bytes_s),
        key: (r) => r.link_bytes_s,
      },
      { title: "By", text: (r) => r.transport, key: (r) => r.transport },
    ],
  });
  function show(): void {
    const wanted = filter.value.trim().toLowerCase();
    const all = model.figures?.observers ?? [];
    rows.show(wanted ? all.filter((r) => model.nameOf(r.player).toLowerCase().includes(wanted)) : all);
  }
  return { element: h("div", { class: "observers" }, filter, rows.element), show };
}

function legend(): HTMLElement {
  return h(
    "div",
    { class: "key", "data-testid": "legend" },
    h("span", {}, "State’s age"),
    ...SHADES.map((shade, at) => h("span", {}, h("i", { style: `background: ${css(shade)}` }), shadeName(at))),
    h("span", { class: "soft" }, "Ring: replica · line: its error · faint: out of interest"),
  );
}

function showHeadline(element: HTMLElement, model: Model): void {
  const { figures } = model;
  if (!figures) return;
  const facts: [string, string][] = [
    lessThanBroadcast(figures),
    [`${bytes(figures.bytes_s)}/s`, "to each player"],
    [degrees(figures.error_degrees_p95), "error p95"],
    [percent(figures.bounds_kept), "bounds kept"],
    [String(figures.players), "players"],
  ];
  if (element.childElementCount !== facts.length) {
    element.replaceChildren(...facts.map(() => h("div", { class: "fact" }, h("b"), h("span"))));
  }
  facts.forEach(([value, label], index) => {
    const fact = element.children[index]!;
    setText(fact.children[0]!, value);
    setText(fact.children[1]!, label);
  });
}

function showChosen(element: HTMLElement, model: Model): void {
  const { picked, observer } = model;
  setShown(element, picked !== null);
  if (picked === null) return;
  const figures = model.figures?.observers.find((row) => row.player === picked);
  const live = observer?.replicas.filter((replica) => replica[8] === 0).length ?? 0;
  const facts: [string, string][] = [
    ["policy", observer?.policy ?? "…"],
    ["replicas", observer ? `${observer.replicas.length}, ${live} live` : "…"],
    ["budget", observer?.budget == null ? "no limit" : `${bytes(observer.budget)}/s`],
    ["bytes", figures ? `${bytes(figures.bytes_s)}/s` : "…"],
    ["error p95", figures ? degrees(figures.error_degrees_p95) : "…"],
    ["round trip", figures ? milliseconds(figures.rtt_ms) : "…"],
  ];
  if (element.childElementCount !== facts.length + 1) {
    element.replaceChildren(h("h2"), ...facts.map(() => h("p", {}, h("span", { class: "soft" }), h("b"))));
  }
  setText(element.children[0]!, model.nameOf(picked));
  facts.forEach(([label, value], index) => {
    const line = element.children[index + 1]!;
    setText(line.children[0]!, label);
    setText(line.children[1]!, value);
  });
}

function showCover(element: HTMLElement, state: ChannelState, why: string, useToken: (token: string) => void): void {
  element.dataset.state = state;
  setShown(element, state !== "open");
  const texts: Record<ChannelState, string> = {
    connecting: "Connecting …",
    open: "",
    lost: "The server does not answer. Trying again …",
    off: `The server says: ${why}. Its operator can turn the observatory on: [web] observe in the configuration.`,
    refused: `This is an operator’s view. The server says: ${why}.`,
  };
  if (state !== "refused") {
    element.replaceChildren(h("p", {}, texts[state]));
    return;
  }
  const token = h("input", {
    type: "password",
    autocomplete: "off",
    "aria-label": "Operator’s token",
    "data-testid": "token",
  });
  const form = h(
    "form",
    {
      class: "panel",
      onsubmit: (event: Event) => {
        event.preventDefault();
        if (token.value !== "") useToken(token.value);
      },
    },
    h("p", {}, texts.refused),
    h("div", { class: "actions" }, token, h("button", { class: "primary", "data-testid": "token-use" }, "Open")),
  );
  element.replaceChildren(form);
  token.focus();
}
