import assert from "node:assert/strict";
import test from "node:test";
import { HANDOFF_SHOWN, Model } from "../src/observatory/model.js";
import type { Handoff, Regions } from "../src/observatory/protocol.js";
import { colourOf, onMap } from "../src/observatory/regions.js";

const told = (handoffs: Handoff[]): Regions => ({ type: "regions", tick: 1, regions: [], servers: [], handoffs });
const handoff = (id: number): Handoff => [String(id), 1, 2, 0, 0];

test("a region without an end is drawn to the edge of the map, and none beside it", () => {
  assert.deepEqual(onMap([null, null, null, null], 100), [0, 0, 100, 100]);
  assert.deepEqual(onMap([null, 40, 60, null], 100), [0, 40, 60, 60]);
  assert.deepEqual(onMap([-50, -50, 10, 20], 100), [0, 0, 10, 20]);
  assert.equal(onMap([null, null, 0, null], 100), null);
  assert.equal(onMap([100, null, null, null], 100), null);
});

test("neighbouring numbers of servers have different colours", () => {
  for (let server = 0; server < 40; server++) assert.notEqual(colourOf(server), colourOf(server + 1));
});

test("handoffs are shown for a while, and not without end", () => {
  const model = new Model();
  model.apply(told([handoff(1)]), 0);
  model.apply(told([handoff(2)]), 1_000);
  assert.deepEqual(model.recentHandoffs(1_000).map((it) => it.handoff[0]), ["1", "2"]);
  assert.deepEqual(model.recentHandoffs(HANDOFF_SHOWN).map((it) => it.handoff[0]), ["2"]);
  model.apply(told(Array.from({ length: 1_000 }, (_, id) => handoff(id))), 1_000);
  assert.equal(model.handoffs.length, 256);
  assert.equal(model.handoffs.at(-1)!.handoff[0], "999", "the newest stay");
});
